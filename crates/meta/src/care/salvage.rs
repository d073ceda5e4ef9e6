//! Salvage: what can still be read of a store that may not even open, written into a new one.
//!
//! In:     the files of a store, whatever is left of them. Without a manifest tables say themselves what they are, families are
//!         known by their number alone, and the log is read from each segment on as far as it links.
//! Out:    a new store that holds the newest version of each key that could be read, and a report of what could not.
//! Holds:  the source is only read. Every record is checked by its seal on the way and takes it along. Where something was lost
//!         an older version of a key may be all there is left; the report names the keys.
//! Costs:  one pass over everything, and some forty bytes of memory for each key.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, Operations};
use waxseal_lsm::checksum::{hash, hash_key};
use waxseal_lsm::codec::Reader;
use waxseal_lsm::db::{Db, Family, Parts};
use waxseal_lsm::env::{File, Open};
use waxseal_lsm::error::{Error, IoContext, Result};
use waxseal_lsm::names::Name;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Record, Seqno, companion};
use waxseal_lsm::seam::{Check, Companions, Protection};
use waxseal_lsm::sst::{Cache, Expected, Found, Known, Table, rebuild};
use waxseal_lsm::version::{self, State, TableMeta};
use waxseal_lsm::wal;

use super::options::{Progress, SalvageOptions, cancelled, goes_on};
use super::report::{Finding, Outcome, Report};
use crate::seal::Seal;

/// Records written at once.
const GROUP: usize = 256;

/// Reads what can be read of the store at `from` and writes it into a new one at `to`, which must not exist or be empty. Nobody may
/// have the source open; it is never written to. `parts` are those of the new store; its orders are looked up by name for the old one.
pub fn salvage(
    from: &Path,
    to: &Path,
    settings: Settings,
    parts: Parts,
    mut options: SalvageOptions<'_>,
) -> Result<Report> {
    let fs = parts.env.fs.clone();
    if fs.exists(to).during(|| "looking at the new store's directory")?
        && !fs.list(to).during(|| "listing the new store's directory")?.is_empty()
    {
        return Err(Error::invalid(format!("{} exists and is not empty", to.display())));
    }
    let names = fs.list(from).during(|| "listing the old store's directory")?;
    let mut report = Report::default();
    let state = match version::recover(&parts.env, from) {
        Ok(found) => found.map(|found| found.state),
        Err(error) => {
            report.structural += 1;
            report.damage.push(lost(&super::verify::bearable(error)?, None));
            None
        }
    };
    let db = Db::open(to, Settings { create_if_missing: true, ..settings }, parts.clone())?;
    let mut salvage = Salvage {
        from,
        parts: &parts,
        db: &db,
        state,
        report,
        families: BTreeMap::new(),
        newest: HashMap::new(),
        batch: Batch::new(),
    };
    let tables = salvage.tables(&names);
    let mut progress = Progress { total: tables.len() as u64, ..Progress::default() };
    for (name, meta) in &tables {
        salvage.table(name, meta.as_ref())?;
        progress = Progress { done: progress.done + 1, found: salvage.report.damage.len() as u64, ..progress };
        if !goes_on(&mut options.progress, progress) {
            return Err(cancelled());
        }
    }
    salvage.log()?;
    salvage.write()?;
    let report = salvage.report;
    db.flush()?;
    db.close()?;
    Ok(report)
}

/// A table as the manifest names it: its family and what is said of it.
type Named = (u32, Arc<TableMeta>);

/// A family of the new store, and what of its tables was read.
struct Taker {
    family: Family,
    /// The greatest seqno in a table of the old one.
    greatest: Seqno,
}

struct Salvage<'a> {
    from: &'a Path,
    parts: &'a Parts,
    db: &'a Db,
    state: Option<State>,
    report: Report,
    families: BTreeMap<u32, Taker>,
    /// The seqno of what was taken, by family and hash of the key.
    newest: HashMap<(u32, u64), Seqno>,
    batch: Batch,
}

impl Salvage<'_> {
    /// The tables to be read: those that the manifest names, else all there are.
    fn tables(&self, names: &[String]) -> Vec<(String, Option<Named>)> {
        match &self.state {
            Some(state) => {
                let of = |family: &Arc<version::Family>| {
                    let id = family.id;
                    family
                        .tables
                        .values()
                        .map(move |(_, meta)| (Name::Table(meta.number).to_string(), Some((id, meta.clone()))))
                        .collect::<Vec<_>>()
                };
                state.families.values().flat_map(of).collect()
            }
            None => {
                let is_table = |name: &&String| matches!(Name::parse(name), Some(Name::Table(_)));
                names.iter().filter(is_table).map(|name| (name.clone(), None)).collect()
            }
        }
    }

    fn order_named(&self, name: &str) -> Option<Order> {
        let bytewise = Order::bytewise();
        self.parts.orders.iter().chain([&bytewise]).find(|order| order.name() == name).cloned()
    }

    /// The family of the new store that takes in one of the old.
    fn family(&mut self, id: u32, order: &Order) -> Result<Family> {
        if let Some(into) = self.families.get(&id) {
            return Ok(into.family.clone());
        }
        let stored = self.state.as_ref().and_then(|state| state.families.get(&id));
        let (name, options) = match stored {
            Some(stored) => (stored.name.clone(), version::family::decode(&stored.options, order.clone()).ok()),
            None if id == 0 => ("default".to_owned(), None),
            None => (format!("family {id}"), None),
        };
        let family = match self.db.family(&name) {
            Some(family) => family,
            None => {
                let options = options.unwrap_or_else(|| CfOptions { order: order.clone(), ..CfOptions::default() });
                self.db.create_family(&name, options)?
            }
        };
        self.families.insert(id, Taker { family: family.clone(), greatest: 0 });
        Ok(family)
    }

    fn table(&mut self, name: &str, known: Option<&Named>) -> Result<()> {
        self.report.files += 1;
        let table = match self.open(name, known) {
            Ok(table) => table,
            Err(error) => {
                let error = super::verify::bearable(error)?.in_file(name, 0);
                self.report.structural += 1;
                self.report.lost += known.map_or(0, |(_, meta)| meta.ledger.count());
                self.report.damage.push(lost(&error, known.map(|(_, meta)| (&meta.smallest[..], &meta.largest[..]))));
                return Ok(());
            }
        };
        let id = known.map_or(table.properties().family, |(id, _)| *id);
        let Some(order) = self.order_named(&table.properties().comparator) else {
            let what = format!("{name} is ordered by {:?}, which was not given", table.properties().comparator);
            return Err(Error::invalid(what));
        };
        let family = self.family(id, &order)?;
        let keeper = self.parts.companions.clone();
        self.report.bytes += table.expected().size;
        let mut readable = 0;
        table.examine(&*keeper, true, &mut |found| {
            match found {
                Found::Record(record, check, _) => {
                    readable += 1;
                    self.report.count(check);
                    self.take(id, &family, record, check)?;
                }
                Found::Gap(fence) => {
                    self.report.structural += 1;
                    let finding = super::repair::finding_of(&family, fence);
                    self.report.damage.push(Finding { outcome: Outcome::Accepted, ..finding });
                }
                Found::Healed { .. } => self.report.repaired += 1,
            }
            Ok(())
        })?;
        let counted = known.map_or(table.properties().ledger, |(_, meta)| meta.ledger).count();
        self.report.lost += counted.saturating_sub(readable);
        if let Some(into) = self.families.get_mut(&id) {
            into.greatest = into.greatest.max(table.properties().greatest_seqno);
        }
        Ok(())
    }

    /// Opens a table, or what is left of it.
    fn open(&self, name: &str, known: Option<&Named>) -> Result<Arc<Table>> {
        let file = self.parts.env.fs.open(&self.from.join(name), Open::Read).during(|| format!("opening {name}"))?;
        let (keeper, cache) = (self.parts.companions.clone(), Arc::new(Cache::new(0)));
        let comparator = match (known, &self.state) {
            (Some((id, _)), Some(state)) => state.families.get(id).map(|family| family.comparator.clone()),
            _ => None,
        };
        let orders: Vec<Order> = match comparator {
            Some(name) => self.order_named(&name).into_iter().collect(),
            None => self.parts.orders.iter().cloned().chain([Order::bytewise()]).collect(),
        };
        let mut failed = Error::invalid(format!("the order of {name} was not given"));
        for order in &orders {
            match self.open_in(name, &file, known, order, &cache, &keeper) {
                Ok(table) => return Ok(table),
                Err(error) => failed = error,
            }
        }
        let known = match known {
            None => Known::default(),
            Some((id, meta)) => Known {
                uid: Some(meta.uid),
                family: *id,
                keys: Some((meta.smallest.clone(), meta.largest.clone())),
                seqnos: Some((meta.least_seqno, meta.greatest_seqno)),
                ledger: Some(meta.ledger),
            },
        };
        for order in &orders {
            if let Ok(rebuilt) = rebuild(name, file.clone(), &known, order, cache.clone(), keeper.clone())
                && rebuilt.table.properties().comparator == order.name()
            {
                return Ok(rebuilt.table);
            }
        }
        Err(failed)
    }

    fn open_in(
        &self,
        name: &str,
        file: &Arc<dyn File>,
        known: Option<&Named>,
        order: &Order,
        cache: &Arc<Cache>,
        keeper: &Arc<dyn Companions>,
    ) -> Result<Arc<Table>> {
        let expected = match known {
            Some((_, meta)) => Expected { uid: meta.uid, size: meta.size, digest: meta.digest },
            None => Table::identify(name, &**file)?,
        };
        Table::open(name.to_owned(), file.clone(), expected, order.clone(), cache.clone(), keeper.clone())
    }

    /// What the log holds that no table does.
    fn log(&mut self) -> Result<()> {
        let env = &self.parts.env;
        let starts = match self.state.as_ref().map(|state| state.log) {
            Some(start) => start.into_iter().collect(),
            None => wal::find(env, self.from)?,
        };
        let keeper = self.parts.companions.clone();
        let mut read: Vec<u64> = Vec::new();
        let mut companion = Vec::new();
        for start in starts {
            if read.contains(&start.place.segment) {
                continue;
            }
            let from = self.from;
            let segments = wal::read_linked(env, from, &start, &mut |frame| {
                for (seqno, operation) in (frame.seqno..).zip(Operations::new(frame.body)?) {
                    let operation = operation?;
                    companion.clear();
                    companion.extend_from_slice(operation.companion);
                    keeper.bind(&mut companion, None, seqno);
                    let (key, kind, value) = (operation.key, operation.kind, operation.value);
                    let record = Record { key, seqno, kind, value, companion: &companion };
                    let id = operation.family;
                    if self.is_news(id, seqno) {
                        let check = keeper.verify(&record, hash_key(key), Protection::Partial);
                        self.report.count(check);
                        if check.serves() {
                            let order = self.order_of(id);
                            let family = self.family(id, &order)?;
                            self.take(id, &family, &record, check)?;
                        }
                    }
                }
                Ok(())
            });
            match segments {
                Ok(segments) => {
                    self.report.files += segments.len() as u64;
                    read.extend(segments);
                }
                Err(error) if error.is_corruption() => {
                    self.report.structural += 1;
                    self.report.damage.push(lost(&error, None));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn order_of(&self, id: u32) -> Order {
        let stored = self.state.as_ref().and_then(|state| state.families.get(&id));
        let named = stored.and_then(|stored| self.order_named(&stored.comparator));
        named.or_else(|| self.families.get(&id).map(|into| into.family.order().clone())).unwrap_or_default()
    }

    /// Whether what the log says of a family at a seqno may be missing in its tables. What a table has dropped must not come back.
    fn is_news(&self, id: u32, seqno: Seqno) -> bool {
        match &self.state {
            Some(state) => state.families.get(&id).is_some_and(|family| seqno > family.flushed),
            None => {
                let flushed = self.families.get(&id).map_or(0, |into| into.greatest);
                seqno > flushed || !self.report.damage.iter().all(|finding| !finding.file.ends_with(".tbl"))
            }
        }
    }

    /// Takes a record over if nothing newer of its key was.
    fn take(&mut self, id: u32, family: &Family, record: &Record<'_>, check: Check) -> Result<()> {
        let seen = self.newest.entry((id, hash(record.key))).or_insert(0);
        if *seen > record.seqno {
            return Ok(());
        }
        *seen = record.seqno;
        if check == Check::CompanionDamaged {
            // The record is right, so its seal made anew is the one it had.
            self.batch.push(family.id(), record.kind, record.key, record.value, &*self.parts.companions)?;
        } else {
            self.batch.push_with(family.id(), record.kind, record.key, record.value, &unbound(record))?;
        }
        if self.batch.len() >= GROUP { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        if !self.batch.is_empty() {
            self.db.commit(&mut self.batch, Durability::Os)?;
            self.batch.clear();
        }
        Ok(())
    }
}

/// Companions as they were before their record had a seqno: the seal without its place. What cannot be read is left behind.
fn unbound(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.companion.len());
    let mut reader = Reader::new(record.companion);
    let mut copy = || -> Result<()> {
        while !reader.is_empty() {
            let (kind, before) = (reader.u8()?, reader.rest());
            if kind == companion::WORD8 {
                out.push(kind);
                out.extend_from_slice(&Seal::from_word(reader.u64()?, record.seqno).to_bytes());
                continue;
            }
            let at = reader.position();
            let length = if kind == companion::WORD4 { 4 } else { reader.varint_len()? };
            reader.bytes(length)?;
            out.push(kind);
            out.extend_from_slice(&before[..reader.position() - at]);
        }
        Ok(())
    };
    match copy() {
        Ok(()) => out,
        Err(_) => Vec::new(),
    }
}

/// A loss that salvage can only tell of.
fn lost(error: &Error, keys: Option<(&[u8], &[u8])>) -> Finding {
    let mut finding = Finding::of(error, None);
    if let (None, Some((low, high))) = (&finding.key_range, keys) {
        finding.key_range = Some((low.to_vec(), high.to_vec()));
    }
    Finding { outcome: Outcome::Accepted, ..finding }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::record::Kind;

    proptest! {
        #[test]
        fn a_companion_is_what_it_was_before_it_was_bound(key: Vec<u8>, value: Vec<u8>, seqno in 0u64..1 << 56, list: Vec<u8>) {
            let seal = Seal::of(&key, &value);
            let companion = |word: u64| {
                let mut out = vec![companion::WORD8];
                out.extend_from_slice(&word.to_le_bytes());
                out.push(companion::LIST);
                waxseal_lsm::codec::put_bytes(&mut out, &list);
                out
            };
            let bound = companion(seal.at(seqno));
            let record = Record { key: &key, seqno, kind: Kind::Put, value: &value, companion: &bound };
            prop_assert_eq!(unbound(&record), companion(seal.number()));
        }
    }
}
