//! Salvage: copies the readable records of a store, even one that does not open, into a new store.
//!
//! In:     the files of a store, as far as they exist. Without a manifest, each table's own properties describe it,
//!         families are known only by number, and the log is read from each segment on, as far as the segments link up.
//! Out:    a new store with the newest readable version of each key, lost ranges where a newer version may have been
//!         lost, and a report of the losses.
//! Holds:  the source is only read. Every record is checked against its seal and copied with it. An older version never
//!         replaces a lost newer one, unless the caller accepts the loss: records that may be outdated are written
//!         first, authoritative ones are written again after them, and the bound of the lost ranges lies between. For a
//!         loss with an unknown range, the lost range covers all keys. Records that range deletes of the manifest hide
//!         are left out, and range deletes of the log are copied. Without a manifest, flushed range deletes are unknown,
//!         and the report says so; so is the seqno of ingested records (`undated.rs`).
//! Crash:  the new store is built in a directory of its own inside the destination. Its files move to the destination
//!         when the store is complete, `CURRENT` last. A salvage that is killed leaves a directory that is no store, or
//!         a store without `CURRENT`. A salvage that fails or is ended leaves nothing.
//! Costs:  one pass over everything, a second one if something was lost, and another one if a table without a manifest
//!         lacks records. Memory: about fifty bytes per key, the keys of lost records and of candidates for a table's
//!         missing records, and the current write batch: 4 MiB, or one record.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, SystemPass};
use waxseal_lsm::checksum::{Uid, hash, hash_key};
use waxseal_lsm::db::{Db, Family, Parts};
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::error::{Damage, Error, IoContext, Result, Verdict};
use waxseal_lsm::interrupt;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::names::{StoreFileName, system_number};
use waxseal_lsm::options::{CfOptions, Durability, MIB, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::range_delete::RangeDelete;
use waxseal_lsm::range_index::RangeIndex;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno, companion};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::sst::ExaminedItem;
use waxseal_lsm::values::{self, BlobBuffer, BlobFile, BlobFiles};
use waxseal_lsm::version::{self, Contents, FamilyState, ManifestState, TableMeta};

mod hole;
mod log;
mod operands;
mod places;
mod stores;
mod tables;
mod unclaimed;
mod undated;
mod unread;

use hole::Hole;
use operands::WaitingOperands;
use places::{MadeDirs, check_apart};
use stores::Others;
use undated::{ContestedKeys, UNDATED, UndatedTable, is_undated, seqno_below_losses};
use unread::{Met, Unread};

use super::carry::{carried, term};
use super::losses::{Anywhere, Losses};
use super::options::{Progress, SalvageOptions, cancelled, goes_on};
use super::plan::{self, KeyPosition};
use super::report::finding_of;
use super::report::{Finding, Outcome, Report, Rung};
use super::spans::Spans;

/// Maximum number of records per commit.
const GROUP: usize = 256;

/// Maximum bytes per commit, except for a single larger record: a few hundred large values would exceed the limit of a
/// batch.
const GROUP_BYTES: usize = 4 * MIB;

/// The id that no family has. docs/format.md, section 5.2.
const NO_FAMILY: u32 = u32::MAX;

/// Copies all readable records of the store at `from` into a new store at `to`, a missing or empty directory. Nobody
/// may have the source open; it is never written to. Without a manifest, files of another store are left alone and
/// reported: see `SalvageOptions::stores`. `parts` are those of the new store; its orders are looked up by name for the
/// old one.
///
/// Reads of the new store answer `Corruption` where something newer than what was found may have been lost. With
/// `SalvageOptions::accept_loss` they answer with what there is; either way the report says what is lost. Errors:
/// `Invalid` if `to` holds something, if one of the directories is in the other, if files of several stores are there
/// and nothing tells which is meant, for an order that was not given, or for a loss anywhere in a family whose order
/// names no last key; `Io`. The new store has the old one's format level, or that of the settings if it is lower or if
/// there is no manifest.
pub fn salvage(
    from: &Path,
    to: &Path,
    settings: Settings,
    parts: Parts,
    mut options: SalvageOptions<'_>,
) -> Result<Report> {
    let parts = Parts { env: parts.env.within(from), ..parts };
    let fs = parts.env.fs.clone();
    match version::contents(&parts.env, to)? {
        Contents::Empty => {}
        contents => {
            return Err(Error::invalid(format!(
                "{} holds {contents}, and a salvage needs an empty directory",
                to.display()
            )));
        }
    }
    match version::contents(&parts.env, from)? {
        contents @ (Contents::Empty | Contents::Foreign(_)) => {
            return Err(Error::invalid(format!("{} holds {contents}", from.display())));
        }
        Contents::Store | Contents::Damaged | Contents::Marked(_) => {}
    }
    check_apart(&*fs, from, to)?;
    let names = fs.list(from).during(|| "listing the old store's directory")?;
    let (state, unread) = match version::recover(&parts.env, from) {
        Ok(Some(found)) => (Some(found.state), None),
        Ok(None) => (None, Some(Error::structural("there is no manifest").in_file("CURRENT", 0))),
        Err(error) => (None, Some(super::report::bearable(error)?)),
    };
    let others = match &state {
        Some(_) => Others::default(), // the manifest names what is the store's
        None => Others::find(&parts.env, from, &options.stores)?,
    };
    let parts = with_stored_families(parts, state.as_ref());
    let scratch = to.join(SCRATCH);
    let made = MadeDirs::make(&*fs, to)?;
    // A build that reads the old store also reads the new one.
    let known = state.as_ref().map_or(u32::MAX, |state| state.format_level.number());
    let format_level = settings.format_level.min(known);
    let settings = Settings { create_if_missing: true, format_level, ..settings };
    let db = match Db::open(&scratch, settings, parts.clone()) {
        Ok(db) => db,
        Err(error) => {
            let _ = fs.remove_dir(&scratch);
            made.remove(&*fs);
            return Err(error);
        }
    };
    let mut salvage = Salvage {
        from,
        parts: &parts,
        db: &db,
        accepts: options.accept_loss,
        state,
        others,
        report: Report::default(),
        families: BTreeMap::new(),
        losses: Losses::default(),
        unread: BTreeMap::new(),
        holes: Vec::new(),
        gaps: BTreeMap::new(),
        stand_ins: BTreeMap::new(),
        newest: HashMap::new(),
        in_tables: 0,
        seen: Vec::new(),
        strays: Vec::new(),
        uids: BTreeMap::new(),
        batch: Batch::new(),
        last: 0,
        copied: 0,
        waiting: WaitingOperands::default(),
        unknown_operators: BTreeSet::new(),
        undated: Vec::new(),
        contested: HashSet::new(),
        again: false,
        values: BlobFiles::new(parts.env.fs.clone(), from, parts.companions.clone()),
        held: Vec::new(),
        unclaimed: Vec::new(),
    };
    let outcome = salvage.run(&names, unread, &mut options).and_then(|()| db.flush());
    let report = salvage.report;
    if let Err(error) = outcome.and(db.close()) {
        let _ = db.close();
        let _ = Db::destroy(&scratch, &parts.env);
        made.remove(&*fs);
        return Err(error);
    }
    move_up(&*fs, &scratch, to).during(|| format!("moving the new store to {}", to.display()))?;
    Ok(report)
}

/// The directory inside the destination in which the new store is built. Beside it alone the destination is no store.
const SCRATCH: &str = "salvaging";

/// Moves the files of a closed store from `scratch` to its parent. The parent is a store once `CURRENT` is there.
fn move_up(fs: &dyn Fs, scratch: &Path, to: &Path) -> io::Result<()> {
    let current = StoreFileName::Current.to_string();
    for name in fs.list(scratch)?.iter().filter(|name| **name != current && **name != StoreFileName::Lock.to_string()) {
        fs.rename(&scratch.join(name), &to.join(name))?;
    }
    fs.sync_dir(to)?;
    fs.rename(&scratch.join(&current), &to.join(&current))?;
    fs.sync_dir(to)?;
    fs.remove(&scratch.join(StoreFileName::Lock.to_string()))?;
    fs.remove_dir(scratch)
}

/// Adds the old store's families to the parts: system families, and options of the default family, can only be given
/// when the store is opened. A family whose order was not given, or whose codec is not in this build, is left out.
fn with_stored_families(mut parts: Parts, state: Option<&ManifestState>) -> Parts {
    for stored in state.iter().flat_map(|state| state.families.values()) {
        let is_given = parts.families.iter().any(|(name, _)| *name == stored.name);
        if let (Some(order), false) = (order_named(&parts, &stored.comparator), is_given)
            && let Ok(options) = parts.stored_options(stored, &order)
            && options.missing_codec().is_none()
        {
            parts.families.push((stored.name.clone(), CfOptions { system: system_number(stored.id), ..options }));
        }
    }
    parts
}

fn order_named(parts: &Parts, name: &str) -> Option<Order> {
    let bytewise = Order::bytewise();
    parts.orders.iter().chain([&bytewise]).find(|order| order.name() == name).cloned()
}

/// Returns true for the families that receive rows from flushes and edits of others: the event log and the quarantine.
/// docs/format.md, section 9.
fn receives_rows(id: u32) -> bool {
    matches!(system_number(id), Some(1 | 2))
}

/// A table in the manifest: its family id and its metadata.
type Named = (u32, Arc<TableMeta>);

/// A family of the new store, and state of the old family's tables.
struct Taker {
    family: Family,
    /// The greatest seqno in a table that certainly belongs to the old family.
    greatest: Seqno,
    /// The lost ranges that exist during the salvage.
    working: Vec<u64>,
    /// The lost ranges that remain.
    lost_ranges: Spans<()>,
    /// The range deletes of the manifest, then the copied ones of the log.
    ranges: RangeIndex,
    /// The key ranges of undated tables that no range delete of the log overlaps.
    undated: Vec<LostRange>,
}

/// A table that was read without a manifest, kept to find tables that may have replaced each other.
struct SeenTable {
    family: u32,
    name: String,
    number: u64,
    keys: (Vec<u8>, Vec<u8>),
    /// `None` if the table is undated.
    seqnos: Option<(Seqno, Seqno)>,
}

struct Salvage<'a> {
    from: &'a Path,
    parts: &'a Parts,
    db: &'a Db,
    accepts: bool,
    state: Option<ManifestState>,
    /// Files of other stores, if no manifest names the files of this one.
    others: Others,
    report: Report,
    families: BTreeMap<u32, Taker>,
    losses: Losses,
    /// Unreadable records, with the file and the damage.
    unread: BTreeMap<Unread, Met>,
    /// The missing records of tables that were read without a manifest.
    holes: Vec<Hole>,
    /// Their gaps by family, each with the index of its hole.
    gaps: BTreeMap<u32, Spans<usize>>,
    /// Records that were taken from the log only to fill holes: family and key, with the last version there and a hole.
    stand_ins: BTreeMap<(u32, Vec<u8>), (Seqno, usize)>,
    /// Seqno and term of the newest copied record, by family and hash of the key.
    newest: HashMap<(u32, u64), (Seqno, u64)>,
    /// The greatest seqno in any table of any family.
    in_tables: Seqno,
    /// Tables whose properties are readable.
    seen: Vec<SeenTable>,
    /// Tables whose properties are lost.
    strays: Vec<String>,
    /// Names of the tables that were read without a manifest, by uid.
    uids: BTreeMap<Uid, String>,
    batch: Batch,
    /// The seqno of the last commit to the new store.
    last: Seqno,
    /// Number of records added for the new store.
    copied: u64,
    /// Operands of the table that is being read.
    waiting: WaitingOperands,
    /// Families with operands of an operator that was not given.
    unknown_operators: BTreeSet<u32>,
    /// Undated tables that were copied.
    undated: Vec<UndatedTable>,
    /// Keys with an undated version and another one: family and hash of the key.
    contested: HashSet<(u32, u64)>,
    /// True in the second pass, which rewrites the authoritative records inside lost ranges.
    again: bool,
    /// The blob files of the old store, and the handles that hold them.
    values: Arc<BlobFiles>,
    held: Vec<Arc<BlobFile>>,
    /// Families of the new store that the caller names and no manifest lists, and their lost ranges.
    unclaimed: Vec<(Family, Vec<u64>)>,
}

impl Salvage<'_> {
    fn run(&mut self, names: &[String], unread: Option<Error>, options: &mut SalvageOptions<'_>) -> Result<()> {
        self.known_families()?;
        self.hold_unclaimed()?;
        self.hold_values(names);
        let tables = self.tables(names);
        let mut progress = Progress { total: tables.len() as u64, ..Progress::default() };
        for (name, meta) in &tables {
            let seen = self.table(name, meta.as_ref())?;
            self.seen.extend(seen);
            let found = (self.report.damage.len() + self.unread.len() + self.holes.len()) as u64;
            progress = Progress { done: progress.done + 1, found, ..progress };
            if !goes_on(&mut options.progress, progress) {
                return Err(cancelled());
            }
        }
        self.sort();
        if !self.holes.is_empty() {
            for (name, _) in &tables {
                self.look_into(name)?;
                if !goes_on(&mut options.progress, progress) {
                    return Err(cancelled());
                }
            }
            self.fill_holes(Rung::Trash);
        }
        self.found_again(Rung::Trash);
        if let Some(error) = unread {
            self.without_manifest(&error);
        }
        self.log()?;
        self.found_again(Rung::Log);
        self.fill_holes(Rung::Log);
        self.close_holes();
        self.not_found_again();
        self.report_undated();
        self.write()?;
        self.lost_range()?;
        self.again = self.families.values().any(|into| !into.lost_ranges.is_empty());
        if self.again {
            for (name, meta) in &tables {
                self.decide(name, meta.as_ref())?;
                if !goes_on(&mut options.progress, progress) {
                    return Err(cancelled());
                }
            }
            self.log()?;
            self.write()?;
        }
        for into in self.families.values_mut() {
            let lost_ranges = std::mem::take(&mut into.lost_ranges).into_lost_ranges(into.family.order());
            self.db.replace_lost_ranges(&into.family, &into.working, lost_ranges)?;
        }
        self.judge_unclaimed()
    }

    /// Adds the families of the manifest, and their lost ranges.
    fn known_families(&mut self) -> Result<()> {
        let Some(state) = &self.state else { return self.family(0, &Order::bytewise()).map(drop) };
        for stored in state.families.values().cloned().collect::<Vec<_>>() {
            let order = self.order_named(&stored.comparator).ok_or_else(|| {
                Error::invalid(format!(
                    "family {:?} is ordered by {:?}, which was not given",
                    stored.name, stored.comparator
                ))
            })?;
            let family = self.family(stored.id, &order)?;
            self.known_range_deletes(&stored, &order);
            for lost_range in stored.lost_ranges.values() {
                self.lost_between(stored.id, &family, lost_range);
            }
        }
        Ok(())
    }

    /// Adds the range deletes of a family in the manifest. A range delete that does not match its seal may have deleted
    /// any key.
    fn known_range_deletes(&mut self, stored: &FamilyState, order: &Order) {
        let protector = self.parts.companions.clone();
        let is_whole = |range: &&Arc<RangeDelete>| {
            let verify = |record: &Record<'_>| protector.verify(record, hash_key(record.key), Protection::Partial);
            range.with_record(verify).serves()
        };
        let (whole, damaged): (Vec<_>, Vec<_>) = stored.range_deletes.values().partition(is_whole);
        if let Some(into) = self.families.get_mut(&stored.id) {
            into.ranges = RangeIndex::build(order, whole.into_iter().map(|range| &**range), &[]);
        }
        for range in damaged {
            let message = format!("the range delete with seqno {} does not match its seal", range.seqno);
            let error = Error::corruption(Damage { verdict: Verdict::Seal, ..Damage::default() }, &message);
            self.lost_anywhere(&error.in_file("the manifest", 0), MAX_SEQNO);
        }
    }

    /// Returns true if a known range delete hides a record.
    fn is_range_deleted(&self, id: u32, record: &Record<'_>) -> bool {
        let hides = |into: &Taker| into.ranges.newest_over(record.key, MAX_SEQNO) > record.seqno;
        record.kind != Kind::RangeDelete && self.families.get(&id).is_some_and(hides)
    }

    /// Holds the blob files: those in the manifest, or every blob file if no manifest is readable. Without its header a
    /// blob file cannot be identified; records that point into it then lose their values.
    fn hold_values(&mut self, names: &[String]) {
        self.held = match &self.state {
            Some(state) => {
                let tables = state.families.values().flat_map(|family| family.tables.values());
                tables.flat_map(|(_, table)| &table.values).map(|values| self.values.hold(values)).collect()
            }
            None => names.iter().filter_map(|name| self.identified(name)).collect(),
        };
    }

    /// Holds the blob file that a log frame points into, which may not be in any table yet.
    fn hold_logged(&mut self, logged: &[u8]) {
        let Ok((pointer, number)) = Pointer::decode_logged(logged) else { return };
        let file = self.values.hold_unfinished((number, 0), pointer.uid, None);
        if !self.held.iter().any(|known| Arc::ptr_eq(known, &file)) {
            self.held.push(file);
        }
    }

    /// Identifies a blob file by its header, whatever the state of the rest: each value has its own checksums.
    fn identified(&self, name: &str) -> Option<Arc<BlobFile>> {
        let Some(StoreFileName::Values(number)) = StoreFileName::parse(name) else { return None };
        let file = self.parts.env.fs.open(&self.from.join(name), Open::Read).ok()?;
        let uid = values::identify(name, &*file).ok()?;
        Some(self.values.hold_unfinished((number, 0), uid, None))
    }

    /// Reports the facts that are unknown without a manifest.
    fn without_manifest(&mut self, error: &Error) {
        let may_have_replaced = |old: &SeenTable, new: &SeenTable| {
            let order = self.order_of(old.family);
            let holds = |new: (Seqno, Seqno), old: (Seqno, Seqno)| new.0 <= old.0 && old.1 <= new.1;
            old.family == new.family
                && old.number < new.number
                && new.seqnos.is_some_and(|new| old.seqnos.is_none_or(|old| holds(new, old)))
                && order.compare(&old.keys.0, &new.keys.1).is_le()
                && order.compare(&new.keys.0, &old.keys.1).is_le()
        };
        let seen = &self.seen;
        let stale = seen.iter().filter(|old| seen.iter().any(|new| may_have_replaced(old, new)));
        let stale: Vec<&str> = stale.map(|old| &old.name[..]).collect();
        self.others.report(&mut self.report);
        let mut finding = Finding::of(error, None);
        finding.message.push_str(
            "; so tables that were replaced and not removed yet may bring back what was deleted, range deletes that the log no longer \
             holds are unknown and the records that they deleted may come back, a table that is gone is not missed, and \
             neither is the beginning of the log",
        );
        if !stale.is_empty() {
            finding.message.push_str(&format!(" (may have been replaced: {})", stale.join(", ")));
        }
        self.others.add_unnamed(&mut finding.message);
        self.report.structural += 1;
        finding.outcome = if self.accepts { Outcome::Accepted } else { Outcome::Reported };
        self.report.damage.push(finding);
    }

    fn order_named(&self, name: &str) -> Option<Order> {
        order_named(self.parts, name)
    }

    /// Returns the family of the new store that receives an old family.
    fn family(&mut self, id: u32, order: &Order) -> Result<Family> {
        if let Some(into) = self.families.get(&id) {
            return Ok(into.family.clone());
        }
        let stored = self.state.as_ref().and_then(|state| state.families.get(&id));
        let (name, options) = match stored {
            Some(stored) => (stored.name.clone(), self.parts.stored_options(stored, order).ok()),
            None if id == 0 => ("default".to_owned(), None),
            None => (self.name_of_found(id), None),
        };
        let family = match self.db.family(&name).or_else(|| self.system_family(id)) {
            Some(family) => family,
            None => {
                let options = options.unwrap_or_else(|| CfOptions { order: order.clone(), ..CfOptions::default() });
                self.db.create_family(&name, options)?
            }
        };
        let working = self.begin_lost_range(&family)?;
        let (lost_ranges, ranges) = (Spans::default(), RangeIndex::new(family.order().clone()));
        let into = Taker { family: family.clone(), greatest: 0, working, lost_ranges, ranges, undated: Vec::new() };
        self.families.insert(id, into);
        Ok(family)
    }

    fn outcome(&self) -> Outcome {
        if self.accepts { Outcome::Accepted } else { Outcome::Fenced }
    }

    fn lost_between(&mut self, id: u32, family: &Family, lost_range: &LostRange) {
        let finding = finding_of(family, lost_range);
        self.report.damage.push(Finding { outcome: self.outcome(), ..finding });
        self.losses.add(id, self.in_old_store(lost_range));
    }

    fn lost_anywhere(&mut self, error: &Error, bound: Seqno) {
        let finding = Finding::of(error, None);
        self.losses.add_anywhere(Anywhere {
            bound,
            file: self.from.join(&finding.file).display().to_string(),
            offset: finding.offset,
            verdict: finding.verdict,
        });
        self.report.structural += 1;
        let message = format!("{}; which keys are lost is not known", finding.message);
        self.report.damage.push(Finding { message, outcome: self.outcome(), ..finding });
    }

    /// Returns the lost range with the path of the old store's file, since the new store has files with the same names.
    fn in_old_store(&self, lost_range: &LostRange) -> LostRange {
        LostRange { file: self.from.join(&lost_range.file).display().to_string(), ..lost_range.clone() }
    }

    /// Copies the records of a table. Returns its description, if no manifest has one.
    fn table(&mut self, name: &str, known: Option<&Named>) -> Result<Option<SeenTable>> {
        self.report.files += 1;
        let table = match self.open(name, known) {
            Ok(table) => table,
            Err(error) => {
                self.unopened(&super::report::bearable(error)?.in_file(name, 0), known)?;
                return Ok(None);
            }
        };
        self.misses_another(&table, name, known);
        let properties = table.properties();
        // A table that was opened by its data alone cannot tell which other records it had, nor its family.
        let is_described = known.is_some() || !properties.largest.is_empty() || !properties.creator.is_empty();
        let id = match is_described {
            true => known.map_or(properties.family, |(id, _)| *id),
            false => self.family_of_stray(name),
        };
        let order = self.order_named(&properties.comparator).ok_or_else(|| {
            Error::invalid(format!("{name} is ordered by {:?}, which was not given", properties.comparator))
        })?;
        let family = self.family(id, &order)?;
        let protector = self.parts.companions.clone();
        self.report.bytes += table.expected().size;
        let (mut ledger, mut gaps, mut greatest, mut with_more) = (Ledger::default(), Vec::new(), 0, 0);
        let (is_undated, mut contested, mut shown) = (is_undated(&table), ContestedKeys::default(), 0);
        let mut ends = None::<(KeyPosition, KeyPosition)>;
        let mut reach = |from: KeyPosition, to: KeyPosition| match &mut ends {
            Some((_, last)) => *last = to,
            None => ends = Some((from, to)),
        };
        table.examine(&*protector, true, &mut |found| {
            match found {
                ExaminedItem::Record(record, check, _) => {
                    let mut is_shown = true;
                    if is_undated {
                        let is_contested = self.is_contested(id, record, check);
                        is_shown = !(is_contested && self.note_contested(id, record.key));
                        contested.add(record.key, is_contested, name);
                    } else if check.serves() {
                        greatest = greatest.max(record.seqno);
                    }
                    with_more += u64::from(!companion::is_bare(record.companion));
                    self.report.count(check);
                    ledger.add(record.kind, term(&*protector, record, check));
                    let place = (record.key.to_vec(), record.seqno);
                    reach(place.clone(), place);
                    let before = self.copied;
                    self.take_of_table(id, &family, record, check)?;
                    shown += if is_shown { self.copied - before } else { 0 };
                }
                ExaminedItem::Gap(lost_range) => {
                    reach(lost_range.from.clone(), lost_range.to.clone());
                    gaps.push(lost_range.clone());
                }
                ExaminedItem::Refused { .. } => {} // the second read of the table may succeed
                ExaminedItem::Healed { .. } => self.report.repaired += 1,
            }
            Ok(())
        })?;
        self.take_waiting(id, &family)?;
        self.lose_contested(id, &family, contested);
        let seqnos = known.map(|(_, meta)| (meta.least_seqno, meta.greatest_seqno));
        let seqnos = seqnos.unwrap_or((properties.least_seqno, properties.greatest_seqno));
        if is_described {
            let counted = known.map_or(properties.ledger, |(_, meta)| meta.ledger);
            let keys = known.map(|(_, meta)| (&meta.smallest, &meta.largest));
            let (low, high) = keys.unwrap_or((&properties.smallest, &properties.largest));
            let all = LostRange::over(low, high, seqnos.1, name, Verdict::Ledger);
            let lost_beside = plan::lost_beside(properties.beside, with_more);
            gaps.extend(plan::gaps_at_ends(&order, ends.as_ref(), &all).into_iter().flatten());
            let room = table.room_in(&gaps);
            self.closes(id, &family, (&counted, &ledger), (gaps, room), (&all, seqnos.0), lost_beside);
            if is_undated {
                self.add_undated(id, &family, &all, shown);
            } else {
                greatest = seqnos.1;
            }
            if let Some(into) = self.families.get_mut(&id) {
                into.greatest = into.greatest.max(greatest);
            }
        } else {
            // Its content does not show the key ranges of any family's tables.
            let message = "nothing is left that says of which family the table is, and between which keys";
            self.lost_anywhere(&Error::structural(message).in_file(name, 0), MAX_SEQNO);
        }
        self.in_tables = self.in_tables.max(greatest);
        let number = match StoreFileName::parse(name) {
            Some(StoreFileName::Table(number)) if known.is_none() && is_described => number,
            _ => return Ok(None),
        };
        let keys = (properties.smallest.clone(), properties.largest.clone());
        let seqnos = (!is_undated).then_some(seqnos);
        Ok(Some(SeenTable { family: id, name: name.to_owned(), number, keys, seqnos }))
    }

    /// Handles a table that cannot be read at all.
    fn unopened(&mut self, error: &Error, known: Option<&Named>) -> Result<()> {
        let Some((id, meta)) = known else {
            self.lost_anywhere(error, MAX_SEQNO);
            return Ok(());
        };
        self.report.structural += 1;
        self.report.lost += meta.ledger.count();
        let finding = Finding::of(error, None);
        let lost_range =
            LostRange::over(&meta.smallest, &meta.largest, meta.greatest_seqno, &finding.file, finding.verdict);
        self.losses.add(*id, self.in_old_store(&lost_range));
        let family = self.families.get(id).map(|into| into.family.name().to_owned());
        let key_range = Some((meta.smallest.clone(), meta.largest.clone()));
        self.report.damage.push(Finding { family, key_range, outcome: self.outcome(), ..finding });
        Ok(())
    }

    /// Writes the authoritative records of a table near a loss again.
    fn decide(&mut self, name: &str, known: Option<&Named>) -> Result<()> {
        let Ok(table) = self.open(name, known) else { return Ok(()) };
        let id = known.map_or(table.properties().family, |(id, _)| *id);
        let Some(into) = self.families.get(&id).filter(|into| !into.lost_ranges.is_empty()) else { return Ok(()) };
        let family = into.family.clone();
        table.examine(&*self.parts.companions, true, &mut |found| match found {
            ExaminedItem::Record(record, check, _) => self.take(id, &family, record, check, false),
            _ => Ok(()),
        })
    }

    /// Computes the lost ranges of the new store.
    fn lost_range(&mut self) -> Result<()> {
        if self.accepts {
            return Ok(());
        }
        let flushed: BTreeMap<u32, Seqno> = self.families.keys().map(|id| (*id, self.flushed(*id))).collect();
        for (id, into) in &mut self.families {
            let (flushed, order) = (flushed.get(id).copied().unwrap_or(0), into.family.order().clone());
            let lost_ranges = self.losses.lost_ranges(*id, flushed, &order, self.last);
            let lost_ranges = lost_ranges.ok_or_else(|| {
                let name = into.family.name();
                Error::invalid(format!(
                    "something is lost anywhere in family {name:?}, whose order names no last key to put a \
                                        fence up to: only what accepts the loss can go on"
                ))
            })?;
            lost_ranges.into_iter().for_each(|lost_range| into.lost_ranges.add(lost_range, ()));
            into.lost_ranges.sort(&order);
        }
        Ok(())
    }

    /// Returns the seqno up to which all records of a family were in tables. Without a manifest this is unknown for a
    /// family that receives rows: another family's flush writes a table for it, while its own memtable is not flushed.
    fn flushed(&self, id: u32) -> Seqno {
        match &self.state {
            Some(state) => state.families.get(&id).map_or(MAX_SEQNO, |family| family.flushed),
            None if receives_rows(id) => 0,
            None => self.families.get(&id).map_or(0, |into| into.greatest),
        }
    }

    /// Returns true for records newer than everything in a family's tables.
    fn is_unflushed(&self, id: u32, seqno: Seqno) -> bool {
        id != NO_FAMILY && seqno > self.flushed(id)
    }

    /// Returns true for a family whose keys end in seqnos. Without a manifest only system families can be known to have
    /// such keys.
    fn ends_in_seqno(&self, id: u32) -> bool {
        if let Some(into) = self.families.get(&id) {
            return into.family.key_ends_in_seqno();
        }
        self.system_family(id).is_some_and(|family| family.key_ends_in_seqno())
    }

    /// The system family with this id, if it is the id of one and the new store has it.
    fn system_family(&self, id: u32) -> Option<Family> {
        system_number(id).and_then(|_| self.db.family_by_id(id))
    }

    fn order_of(&self, id: u32) -> Order {
        let stored = self.state.as_ref().and_then(|state| state.families.get(&id));
        let named = stored.and_then(|stored| self.order_named(&stored.comparator));
        named.or_else(|| self.families.get(&id).map(|into| into.family.order().clone())).unwrap_or_default()
    }

    /// Returns true if a log record may be missing in its family's tables: it is newer than they are, or lies in a lost
    /// range, or, in the second pass, was copied in the first. A record that a table has dropped must not reappear: see
    /// `open_holes`.
    fn is_news(&self, id: u32, key: &[u8], seqno: Seqno) -> bool {
        if self.is_unflushed(id, seqno) || self.state.is_some() {
            return self.is_unflushed(id, seqno);
        }
        let was_taken = || self.again && self.is_newest(id, key, seqno);
        let stands_in = || self.losses.may_have_had(id, &self.order_of(id), key, seqno);
        was_taken() || self.is_unread(id, key, seqno) || stands_in()
    }

    /// Sorts losses and gaps, because many look-ups follow.
    fn sort(&mut self) {
        for (id, into) in &self.families {
            let order = into.family.order();
            self.losses.sort(*id, order);
            if let Some(gaps) = self.gaps.get_mut(id) {
                gaps.sort(order);
            }
        }
    }

    /// Returns true for the newest copied record of its key.
    fn is_newest(&self, id: u32, key: &[u8], seqno: Seqno) -> bool {
        self.newest.get(&(id, hash(key))).is_some_and(|(newest, _)| *newest == seqno)
    }

    /// Copies a record if no newer version was copied; in the second pass, if it is authoritative inside a lost range.
    /// `is_unemitted`: no flush has read the record yet, so its event row must still be written.
    fn take(&mut self, id: u32, family: &Family, record: &Record<'_>, check: Check, is_unemitted: bool) -> Result<()> {
        interrupt::check()?;
        // A record of the log is copied for its event row; a copy of the range delete follows it.
        if !is_unemitted && self.is_range_deleted(id, record) {
            return Ok(());
        }
        if record.kind == Kind::Merge && check.serves() {
            return self.take_operand(id, family, record, check, is_unemitted);
        }
        let mut room = BlobBuffer::default();
        let is_pointer = record.kind == Kind::BlobPointer && check.serves();
        let whole = if is_pointer { self.values.resolve(record, true, &mut room) } else { Ok(*record) };
        let whole = match whole {
            Ok(whole) => whole,
            Err(_) if self.again => return Ok(()),
            Err(error) => {
                // The record is intact, but its value is lost; older versions must not replace it.
                let error = super::report::bearable(error)?;
                let file = error.damage().map_or_else(String::new, |damage| damage.file.clone());
                self.add_unread(id, record, check, (file, Verdict::Missing));
                return Ok(());
            }
        };
        self.take_whole(id, family, &whole, check, is_unemitted)
    }

    /// Copies an intact range delete of the log, behind all older records and before all newer ones.
    pub(super) fn take_range_delete(&mut self, id: u32, family: &Family, record: &Record<'_>) -> Result<()> {
        let range = RangeDelete::of(record)?;
        self.lose_undated_below(id, family, &range);
        if let Some(into) = self.families.get_mut(&id) {
            into.ranges.insert(&range);
        }
        self.push(family, record, Check::Validated, true)
    }

    fn take_whole(
        &mut self,
        id: u32,
        family: &Family,
        record: &Record<'_>,
        check: Check,
        is_unemitted: bool,
    ) -> Result<()> {
        if self.again {
            let order = family.order();
            let lost_ranges = self.families.get(&id).map(|into| &into.lost_ranges);
            // Lost ranges cover all versions of their keys.
            let is_under =
                || lost_ranges.is_some_and(|lost_ranges| lost_ranges.around(order, record.key, 0).next().is_some());
            let seqno = seqno_below_losses(record);
            let is_hidden = || self.losses.cover(id, self.flushed(id), order, record.key, seqno);
            if !self.is_newest(id, record.key, record.seqno) || !check.serves() || !is_under() || is_hidden() {
                return Ok(());
            }
        } else if !check.serves() {
            // The damage may be in the key, which is the only indication of the record's position.
            self.add_unread(id, record, check, (String::new(), Verdict::Seal));
            return Ok(());
        } else {
            if record.seqno != UNDATED && self.is_contested(id, record, check) {
                self.lose_contested_key(id, family, record.key);
            }
            let seen = self.newest.entry((id, hash(record.key))).or_default();
            if seen.0 > record.seqno {
                return Ok(());
            }
            *seen = (record.seqno, term(&*self.parts.companions, record, check));
        }
        self.push(family, record, check, is_unemitted)
    }

    /// Adds a record to the batch for the new store.
    fn push(&mut self, family: &Family, record: &Record<'_>, check: Check, is_unemitted: bool) -> Result<()> {
        let bytes = record.key.len() + record.value.len();
        if !self.batch.is_empty() && self.batch.encoded_bytes() + bytes > GROUP_BYTES {
            self.write()?;
        }
        let protector = &*self.parts.companions;
        let carried = carried(protector, record, check, is_unemitted)?;
        if !carried.left_out.is_empty() && !self.again {
            self.report.lost_beside += carried.left_out.len() as u64;
            self.report.damage.push(Finding::beside(family.name(), record, &carried.left_out, self.accepts));
        }
        match carried.companions {
            Some(kept) => self.batch.push_with(family.id(), record.kind, record.key, record.value, &kept)?,
            // The record is intact, so a recomputed seal equals the original one.
            None => self.batch.push(family.id(), record.kind, record.key, record.value, protector)?,
        }
        self.copied += 1;
        if self.batch.len() >= GROUP { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        if !self.batch.is_empty() {
            self.batch.grant(SystemPass::for_layers_above());
            self.last = self.db.commit(&mut self.batch, Durability::Os)?;
            self.batch.clear();
        }
        Ok(())
    }
}
