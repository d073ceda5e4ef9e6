//! Which store is salvaged, where no manifest names its tables: a directory may hold tables and logs of several.
//!
//! Holds: files that name another store are left alone, and reported. Where two stores may be meant, the salvage is
//! refused before anything is
//!        written, and the caller names one. A table of an earlier build names no store: it is taken, and reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::env::{Env, Open};
use waxseal_lsm::error::{Error, Result, Verdict};
use waxseal_lsm::identity::{self, StoreIdentity};
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::planted;
use waxseal_lsm::record::Seqno;
use waxseal_lsm::sst::Table;
use waxseal_lsm::version;

use super::super::report::{Finding, Outcome, Report};

/// So many files of a store are named in a message.
const NAMED_FILES: usize = 4;

/// A table, and the store that wrote it, if the table says so.
struct WrittenTable {
    name: StoreFileName,
    store: Option<Uid>,
    greatest: Seqno,
}

/// The files of stores that are not salvaged.
#[derive(Default)]
pub(super) struct Others {
    files: BTreeMap<StoreFileName, Uid>,
    /// The store that is salvaged, or those; none: no file names one.
    chosen: BTreeSet<Uid>,
    /// Tables that name no store.
    unnamed: Vec<StoreFileName>,
}

impl Others {
    /// Chooses among the stores that files of the directory name. `wanted`: those that the caller names; none: the one
    /// that `CURRENT` names, else the one that manifests, segments and ring name, else the one that tables name.
    ///
    /// Errors: `Invalid` if these name several, or none that the caller wants; `Io` if the directory cannot be listed.
    pub(super) fn find(env: &Env, dir: &Path, wanted: &[Uid]) -> Result<Others> {
        let (mut named, current) = (identity::named_in(env, dir)?, version::store_named(env, dir));
        if let Some(store) = current
            && !named.iter().any(|(_, identity)| identity.store == store)
        {
            named.push((StoreFileName::Current, store.into()));
        }
        let tables = written(env, dir)?;
        let chosen = choose(current, &named, &tables, wanted)?;
        let chosen_ones: Vec<&StoreIdentity> =
            named.iter().map(|(_, identity)| identity).filter(|identity| chosen.contains(&identity.store)).collect();
        let is_taken = |table: &WrittenTable, writer: Uid| {
            let number = table.name.number().unwrap_or(u64::MAX);
            chosen.contains(&writer) || chosen_ones.iter().any(|of| of.may_hold(writer, number, table.greatest))
        };
        let mut others = Others::default();
        for table in &tables {
            match table.store {
                None => others.unnamed.push(table.name),
                Some(writer) if !is_taken(table, writer) => drop(others.files.insert(table.name, writer)),
                Some(_) => {}
            }
        }
        let is_other = |of: &&(StoreFileName, StoreIdentity)| !chosen.contains(&of.1.store);
        others.files.extend(named.iter().filter(is_other).map(|(name, identity)| (*name, identity.store)));
        others.chosen = chosen;
        Ok(others)
    }

    /// True of a file of a store that is not salvaged.
    pub(super) fn has(&self, name: StoreFileName) -> bool {
        planted!(SalvageTakesAnotherStore, false, self.files.contains_key(&name))
    }

    /// Reports each file that is left alone.
    pub(super) fn report(&self, report: &mut Report) {
        let chosen = joined(self.chosen.iter().map(|store| format!("{store:?}")));
        for (name, store) in &self.files {
            let message = format!("the file is of store {store:?}, not of {chosen}: it is left alone");
            let finding =
                Finding { file: name.to_string(), message, verdict: Verdict::Misplaced, ..Finding::default() };
            report.damage.push(Finding { outcome: Outcome::LeftAlone, ..finding });
        }
        report.left_alone = self.files.len() as u64;
    }

    /// Adds to the manifest's finding the names of salvaged tables without a store uid, which may be another store's.
    pub(super) fn add_unnamed(&self, message: &mut String) {
        if !self.unnamed.is_empty() && !self.chosen.is_empty() {
            let names = joined(self.unnamed.iter().map(StoreFileName::to_string));
            let _ = write!(message, " (taken though they do not say which store wrote them: {names})");
        }
    }
}

/// The tables of a directory. One whose properties cannot be read names no store.
fn written(env: &Env, dir: &Path) -> Result<Vec<WrittenTable>> {
    let names = version::our_files(env, dir)?;
    let tables = names.into_iter().filter(|name| matches!(name, StoreFileName::Table(_)));
    let read = |name: StoreFileName| {
        let text = name.to_string();
        let file = env.fs.open(&dir.join(&text), Open::Read).ok()?;
        Table::properties_of(&text, &*file).ok()
    };
    let written = tables.map(|name| match read(name) {
        Some(found) => WrittenTable { name, store: found.store, greatest: found.greatest_seqno },
        None => WrittenTable { name, store: None, greatest: 0 },
    });
    Ok(written.collect())
}

/// Returns the stores to salvage: the `wanted` ones, else the store of `CURRENT`, else the single store that the files
/// name.
fn choose(
    current: Option<Uid>,
    named: &[(StoreFileName, StoreIdentity)],
    tables: &[WrittenTable],
    wanted: &[Uid],
) -> Result<BTreeSet<Uid>> {
    let mut files: BTreeMap<Uid, Vec<StoreFileName>> = BTreeMap::new();
    let by_table = tables.iter().filter_map(|table| Some((table.store?, table.name)));
    for (store, name) in named.iter().map(|(name, identity)| (identity.store, *name)).chain(by_table.clone()) {
        files.entry(store).or_default().push(name);
    }
    if !wanted.is_empty() {
        return match wanted.iter().find(|store| !files.contains_key(store)) {
            None => Ok(wanted.iter().copied().collect()),
            Some(store) => {
                Err(Error::invalid(format!("no file in the directory is of store {store:?}; {}", listed(&files))))
            }
        };
    }
    if let Some(store) = current {
        return Ok([store].into());
    }
    let of_logs: BTreeSet<Uid> = named.iter().map(|(_, identity)| identity.store).collect();
    let meant = if of_logs.is_empty() { by_table.map(|(store, _)| store).collect() } else { of_logs };
    if meant.len() > 1 {
        return Err(Error::invalid(format!(
            "the directory has files of several stores, and nothing tells which is to be salvaged; {}; name one \
             (salvage --store ID; the option `stores`), or move the files of the others away",
            listed(&files)
        )));
    }
    Ok(meant)
}

/// The stores, each with some of its files.
fn listed(files: &BTreeMap<Uid, Vec<StoreFileName>>) -> String {
    let of = |(store, names): (&Uid, &Vec<StoreFileName>)| {
        let more = if names.len() > NAMED_FILES { ", .." } else { "" };
        let named = joined(names.iter().take(NAMED_FILES).map(StoreFileName::to_string));
        format!("{store:?} has {} files ({}{more})", names.len(), named)
    };
    let stores: Vec<String> = files.iter().map(of).collect();
    if stores.is_empty() { "no file names a store".to_owned() } else { stores.join("; ") }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}
