//! Flush: writes frozen memtables to one level-0 table, and the rows that their records emit to tables of other
//! families.
//!
//! Before: the memtables never change again (I03); the log is durable through the records that the table makes
//!         permanent (I15).
//! After:  tables and directory are synced before one edit names them all (I04); the ledgers of data and rows match
//!         (I11).
//! Damage: if a memtable is damaged or its ledger does not match, the flush is repeated from the log (`redo`), whose
//!         segments are not retired before.
//! Crash:  before the edit, unnamed files that the next open removes; the log still holds every record. After it, data
//!         and rows.

use std::iter::Peekable;
use std::sync::Arc;

use super::job_lock::Flusher;
use super::level0::Level0;
use super::redo::{queue_redone, records_from_log};
use super::rows::{remove_tables, take_given, write_given};
use crate::checksum::hash_key;
use crate::compaction::output::{EmittedRows, MergeRule, PassOptions, PassResult, write_pass};
use crate::compaction::{Rules, Splitter, UnsyncedTables};
use crate::cursor::Cursor;
use crate::db::catalog::Catalog;
use crate::db::catalog::event_rows::{DueEvents, event_rows_due};
use crate::db::catalog::view_change::Replaced;
use crate::db::notify::events::{Event, OLD_READER_NANOS, OldReader};
use crate::db::notify::lanes::Lane;
use crate::db::state::family::{Family, Generation};
use crate::db::state::store_log::LogPosition;
use crate::db::writes::memory::job_room;
use crate::error::{Damage, Error, Result, Verdict};
use crate::ledger::Ledger;
use crate::memtable::Memtable;
use crate::merge::MergeCursor;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::record::{MAX_SEQNO, Seqno};
use crate::seam::{Companions, EngineEvent};
use crate::version::{Edit, EditChange, TableMeta};

impl Flusher {
    /// Freezes the memtables of the chosen families at one commit and flushes them.
    pub(crate) fn flush_all(&self, choose: impl Fn(&Family) -> bool) -> Result<Seqno> {
        let _job = self.job()?;
        let through = self.write_path().freeze(&choose)?;
        self.flush_frozen(&choose, through)?;
        self.report_old_readers();
        Ok(through)
    }

    /// One step of the flush lane: flushes all frozen memtables. If none is frozen, it seals full segments, and removes
    /// obsolete files and leftovers of the open.
    pub(crate) fn flush_step(&self) -> Result<bool> {
        if self.catalog().flush_is_due() {
            let job = self.job()?;
            let flushed = self.flush_frozen(&|_| true, Seqno::MAX);
            self.report_old_readers();
            drop(job);
            match flushed {
                Ok(_) => _ = self.catalog().obsolete.remove_one(self.context()),
                Err(_) => self.catalog().remove_obsolete_files(), // may free the space that the flush lacks
            }
            return flushed;
        }
        let sealed = self.seal_log();
        if matches!(sealed, Ok(true))
            || self.catalog().obsolete.remove_one(self.context())
            || self.catalog().obsolete.remove_leftover(self.context())
        {
            return Ok(true);
        }
        sealed
    }

    /// Queues an event for a snapshot or a cursor that has become old.
    fn report_old_readers(&self) {
        let now = self.catalog().reads.expiry_clock().now();
        let snapshot = self.catalog().snapshots.newly_old(now, OLD_READER_NANOS / 1000);
        if let Some(micros) = snapshot {
            self.notifier().queue(Event::OldReader { reader: OldReader::Snapshot, nanos: micros.saturating_mul(1000) });
        }
        let families = self.catalog().families();
        let cursor = families.by_id.values().filter_map(|family| family.newly_old_reader_nanos(OLD_READER_NANOS)).max();
        if let Some(nanos) = cursor {
            self.notifier().queue(Event::OldReader { reader: OldReader::Cursor, nanos });
        }
    }

    /// Flushes the memtables of the chosen families that were frozen at commits up to `through`. The caller holds
    /// `jobs_lock`. Memtables that concurrent writers freeze meanwhile are excluded; otherwise a checkpoint would hold
    /// each family as of another commit.
    ///
    /// Families with little data are flushed in groups, each with one sync of the log, the directory and the manifest.
    pub(in crate::db) fn flush_frozen(&self, choose: &dyn Fn(&Family) -> bool, through: Seqno) -> Result<bool> {
        let families: Vec<Family> =
            self.catalog().families().by_id.values().filter(|family| choose(family)).cloned().collect();
        let (mut any, mut failed) = (false, Ok(()));
        let mut families = families.iter().peekable();
        while families.peek().is_some() {
            let group = self.next_group(&mut families, through);
            let flushed = self.flush_group(&group);
            match flushed.or_else(|error| self.store_log().halt_if_lost().and(Err(error))) {
                Ok(()) => any |= !group.is_empty(),
                Err(error) if error.is_out_of_space() || self.store_log().check_halted().is_err() => return Err(error),
                Err(error) if self.lanes().is_stopping() => return Err(error),
                // A failure of one family does not keep the others from being flushed.
                Err(error) => (any, failed) = (any || group.len() > 1, failed.and(Err(error))),
            }
        }
        failed.map(|()| any)
    }

    /// Takes families until those with frozen memtables form a group: several families with a small total size, or a
    /// single one.
    fn next_group<'a>(
        &self,
        families: &mut Peekable<impl Iterator<Item = &'a Family>>,
        through: Seqno,
    ) -> Vec<Frozen<'a>> {
        let most_bytes = self.context().settings.memtable_bytes / GROUP_PART;
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(family) = families.peek()
            && group.len() < MOST_OF_GROUP
        {
            let frozen = Frozen::of(family, through);
            bytes += frozen.iter().map(Frozen::bytes).sum::<usize>();
            if bytes > most_bytes && !group.is_empty() {
                break;
            }
            group.extend(frozen);
            families.next();
        }
        group
    }

    /// Flushes a group. If the group fails as a whole, flushes each family separately.
    fn flush_group(&self, group: &[Frozen<'_>]) -> Result<()> {
        if let [alone] = group {
            return self.flush_family(alone);
        }
        let mut rest = group;
        while !rest.is_empty() {
            match self.flush_once(rest) {
                Ok(flushed) => rest = &rest[flushed..],
                Err(error) if self.store_log().check_halted().is_err() || self.lanes().is_stopping() => {
                    return Err(error);
                }
                Err(_) => break,
            }
        }
        let mut failed = Ok(());
        for frozen in rest {
            match self.flush_family(frozen) {
                Err(error) if error.is_out_of_space() || self.store_log().check_halted().is_err() => return Err(error),
                Err(error) if self.lanes().is_stopping() => return Err(error),
                outcome => failed = failed.and(outcome),
            }
        }
        failed
    }

    /// Flushes these memtables of a family. If the disk is full, first retries after releasing the log's spare
    /// segments, because the log needs less space after a flush. Then retries after each removal of a trash file.
    fn flush_family(&self, frozen: &Frozen<'_>) -> Result<()> {
        let alone = std::slice::from_ref(frozen);
        let (mut outcome, mut is_first) = (self.flush_once(alone), true);
        while let Err(error) = &outcome
            && error.is_out_of_space()
            && self.store_log().check_halted().is_ok()
            && (std::mem::take(&mut is_first) && self.write_path().log_makes_room()
                || error.is_disk_full() && self.catalog().obsolete.make_room(self.context()))
        {
            outcome = self.flush_once(alone);
        }
        outcome.map(drop)
    }

    /// Flushes the first families of a group by one edit, and returns their number. This is the whole group, or the
    /// families up to the first one whose records emit rows, because the rows of the next one may depend on them.
    fn flush_once(&self, group: &[Frozen<'_>]) -> Result<usize> {
        let due = event_rows_due(self.catalog());
        group.iter().try_for_each(|frozen| {
            self.write_path().separation.finish_values(self.catalog(), frozen.family, &frozen.generations)
        })?;
        let moment = planted!(
            LogNotSyncedBeforeEdit,
            LogPosition { offset: 0, seqno: 0 },
            self.write_path().sync_log()? // I15
        );
        self.store_log().check_halted()?; // a halted store may pass `sync_log`, but no edit could name its tables
        let (families, next_file) = (self.catalog().families(), || self.catalog().new_file_number());
        let unsynced = UnsyncedTables::new((self.catalog().open_tables.files().most() / GROUP_PART).min(MOST_UNSYNCED));
        let shared = (group.len() > 1).then_some(&unsynced);
        let level0 = Level0 { unsynced: shared, ..Level0::of_store(self.catalog(), &families, &next_file) };
        let room = job_room(&self.context().cache, 0, 1, group.iter().map(Frozen::records).max().unwrap_or(0));
        let mut written = Vec::new();
        let tables = self.write_group(&level0, group, moment, &mut written).and_then(|()| {
            if let (Some(due), Some(first)) = (&due, written.first_mut()) {
                first.flushed.receive_lines(&level0, due)?;
            }
            unsynced.sync()
        });
        tables.inspect_err(|_| written.iter().for_each(|part| part.flushed.remove(&level0, part.of.family)))?;
        self.store_log().sync_dir_before_edit()?;
        self.install_group(&written, due.as_ref(), moment)?;
        drop(room);
        let memtables = written.iter().flat_map(|part| &part.of.generations).map(|generation| &generation.memtable);
        self.write_path().memory.let_go(memtables);
        self.write_path().revise_memory();
        self.write_path().note_stall();
        for WrittenFamily { of, flushed, .. } in &written {
            let (table, bytes) = (flushed.written.tables.first().map(|meta| meta.number), flushed.bytes());
            self.context().counters.flushed(bytes);
            self.notifier().queue(Event::Flushed { family: of.family.name().to_owned(), table, bytes });
        }
        self.lanes().kick(Lane::Compact);
        Ok(written.len())
    }

    /// Writes the tables of a group up to the first family that emits rows; leaves them unsynced if the group has
    /// several families.
    fn write_group<'a, 'f>(
        &self,
        level0: &Level0<'_>,
        group: &'a [Frozen<'f>],
        moment: LogPosition,
        written: &mut Vec<WrittenFamily<'a, 'f>>,
    ) -> Result<()> {
        for of in group {
            let (started, memtables) = (self.context().now_nanos(), of.memtables());
            let flushed = match write_level0(level0, of.family, &memtables) {
                Err(error) if planted!(FlushNotRedone, false, error.is_corruption()) => {
                    flush_from_log(self.catalog(), level0, of.family, &memtables, (of.through, moment), error)?
                }
                outcome => outcome?,
            };
            let is_last = !flushed.emitted.is_empty();
            written.push(WrittenFamily { of, flushed, started });
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Names the tables of a group in one edit, and makes them visible.
    fn install_group(
        &self,
        written: &[WrittenFamily<'_, '_>],
        due: Option<&DueEvents>,
        moment: LogPosition,
    ) -> Result<()> {
        let (mut edit, mut parts, mut later) = (Edit::default(), Vec::new(), Vec::new());
        for WrittenFamily { of, flushed, started } in written {
            self.context().counters.built(&flushed.written);
            let mut own: Vec<Replaced<'_>> = flushed.parts(of.family).collect();
            own[0].flushed = Some(of.through);
            later.extend(planted!(EmittedRowsInOtherEdit, own.split_off(1), Vec::new()));
            edit.changes.extend(own.iter().flat_map(Replaced::changes));
            let through = planted!(FlushedSeqnoTooHigh, self.store_log().visible(), of.through);
            edit.changes.push(EditChange::Flushed { family: of.family.id(), seqno: through });
            let first = of.first_offset().unwrap_or(moment.offset).min(moment.offset);
            self.catalog().log_event(&mut edit, EngineEvent::Flushed, &own, Some((first, moment.offset)), *started);
            parts.append(&mut own);
        }
        if let Some(due) = due {
            self.take_lines_out(&mut edit, due)?;
        }
        let flushed: Vec<_> = written.iter().map(|part| (part.of.family, part.of.through)).collect();
        let log_edit = self.write_path().log_changes(&mut edit, moment, &flushed);
        self.catalog().install(edit, parts)?;
        if !later.is_empty() {
            self.catalog().install(Edit::from(later.iter().flat_map(Replaced::changes).collect::<Vec<_>>()), later)?;
        }
        self.write_path().end_log_edit(log_edit);
        Ok(())
    }

    /// Removes event log entries from the manifest in the edit that names their rows.
    fn take_lines_out(&self, edit: &mut Edit, due: &DueEvents) -> Result<()> {
        let gone = EditChange::LinesTakenOut { through: due.through };
        planted!(LinesGoneBeforeRows => return self.catalog().install(Edit::from(vec![gone]), None));
        edit.changes.push(gone);
        Ok(())
    }
}

/// Maximum number of families flushed by one edit. Each edit visits all families, to decide stalls and compactions.
const MOST_OF_GROUP: usize = 4096;

/// Maximum number of tables of a group that are written before they are synced.
const MOST_UNSYNCED: usize = 128;

/// A group may take this fraction (1/4) of a memtable's budget, and keep this fraction of the open-file bound unsynced.
const GROUP_PART: usize = 4;

/// Frozen memtables of a family that are flushed together.
struct Frozen<'f> {
    family: &'f Family,
    /// Newest first.
    generations: Vec<Arc<Generation>>,
    /// The last commit whose records they may hold.
    through: Seqno,
}

impl<'f> Frozen<'f> {
    /// Returns the memtables of a family that were frozen at commits up to `limit`; `None` if the family has none.
    fn of(family: &'f Family, limit: Seqno) -> Option<Frozen<'f>> {
        let view = family.view();
        let newer = view.frozen.iter().take_while(|generation| generation.through() > limit).count();
        let generations = view.frozen[newer..].to_vec();
        let through = generations.iter().map(|generation| generation.through()).max()?;
        Some(Frozen { family, generations, through })
    }

    fn memtables(&self) -> Vec<Arc<Memtable>> {
        self.generations.iter().map(|generation| generation.memtable.clone()).collect()
    }

    fn bytes(&self) -> usize {
        self.generations.iter().map(|generation| generation.memtable.bytes()).sum()
    }

    fn records(&self) -> u64 {
        self.generations.iter().map(|generation| generation.memtable.ledger().count()).sum()
    }

    fn first_offset(&self) -> Option<u64> {
        self.generations.iter().map(|generation| generation.first_offset()).min()
    }
}

/// The output of flushing one family of a group.
struct WrittenFamily<'a, 'f> {
    of: &'a Frozen<'f>,
    flushed: Flushed,
    started: u64,
}

/// The output of a flush, not yet named by an edit.
pub(in crate::db) struct Flushed {
    /// Tables of the family, and the counts of the pass.
    pub(in crate::db) written: PassResult,
    /// Tables of other families, with the rows that the flush emitted.
    pub(super) emitted: Vec<(Family, Vec<TableMeta>)>,
    /// The range deletes of the family, in ascending order of their seqnos.
    ranges: Vec<Arc<RangeDelete>>,
}

impl Flushed {
    /// Returns the view changes of each family, the flushed one first.
    pub(in crate::db) fn parts<'a>(&'a self, family: &'a Family) -> impl Iterator<Item = Replaced<'a>> {
        let own = (family, &self.written.tables);
        let emitted = self.emitted.iter().map(|(family, tables)| (family, tables));
        let parts = [own].into_iter().chain(emitted).map(|(family, tables)| Replaced::level0(family, tables));
        parts.enumerate().map(|(at, part)| match at {
            0 => Replaced { ranged: planted!(RangeDeleteForgottenAtFlush, Vec::new(), self.ranges.clone()), ..part },
            _ => part,
        })
    }

    /// Adds the rows of event log entries to those that the flush emitted.
    fn receive_lines(&mut self, level0: &Level0<'_>, due: &DueEvents) -> Result<()> {
        let mut given = EmittedRows::default();
        take_given(&**level0.companions, &mut given, due.rows.clone())?;
        self.emitted.extend(write_given(level0, given)?);
        Ok(())
    }

    /// Removes the output's files, which no edit names.
    fn remove(&self, level0: &Level0<'_>, family: &Family) {
        let emitted = self.emitted.iter().map(|(family, tables)| (family, tables));
        emitted.chain([(family, &self.written.tables)]).for_each(|(of, tables)| remove_tables(level0, of, tables));
    }

    fn bytes(&self) -> u64 {
        let emitted = self.emitted.iter().flat_map(|(_, tables)| tables);
        self.written.tables.iter().chain(emitted).map(|meta| meta.bytes_with_values()).sum()
    }
}

/// Flushes the log's records instead of `memtables`, whose flush found `damage`: all records of the family up to
/// `through`.
fn flush_from_log(
    catalog: &Catalog,
    level0: &Level0<'_>,
    family: &Family,
    memtables: &[Arc<Memtable>],
    (through, moment): (Seqno, LogPosition),
    damage: Error,
) -> Result<Flushed> {
    let (fresh, start) = records_from_log(catalog, family, memtables, (through, moment), damage)?;
    let flushed = write_level0(level0, family, &[fresh]);
    let flushed = flushed.map_err(|error| error.in_family(family.name(), None))?;
    queue_redone(catalog, &start);
    Ok(flushed)
}

/// Writes the records of frozen memtables to a level-0 table, and the emitted rows to tables of their families: synced
/// but not yet named by an edit.
pub(in crate::db) fn write_level0(
    level0: &Level0<'_>,
    family: &Family,
    memtables: &[Arc<Memtable>],
) -> Result<Flushed> {
    let mut expected = Ledger::default();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for memtable in memtables {
        expected.merge(&memtable.ledger());
        sources.push(Box::new(memtable.cursor()));
    }
    let base_seqno = memtables.iter().filter_map(|memtable| memtable.least_seqno()).min().unwrap_or(0);
    let mut cursor = MergeCursor::new(family.order().clone(), sources);
    let job = level0.job(family, base_seqno, expected);
    let rules = Rules::new(family.order().clone(), level0.snapshots.clone(), |_: &[u8]| false);
    let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
    // The newest range deletes are not in the manifest yet, so this pass does not know which operands they separate.
    let has_ranges = memtables.iter().any(|memtable| !memtable.range_deletes().is_empty());
    let operator = family.merge_operator().filter(|operator| operator.is_known() && !has_ranges);
    let lost_ranges = family.view().lost_ranges.clone();
    let is_whole = |key: &[u8]| !lost_ranges.iter().any(|lost| lost.may_hide(family.order(), key, MAX_SEQNO));
    let merges = operator.map(|operator| MergeRule { operator, is_whole: &is_whole });
    let pass = PassOptions { emits: Some(level0.emitting(family)), merges, ..PassOptions::default() };
    let mut written = write_pass(&job, &pass, &mut cursor, rules, splitter)?;
    let given = std::mem::take(&mut written.rows);
    match write_given(level0, given)
        .and_then(|emitted| Ok((emitted, range_deletes_of(&**level0.companions, memtables)?)))
    {
        Ok((emitted, ranges)) => Ok(Flushed { written, emitted, ranges }),
        Err(error) => {
            remove_tables(level0, family, &written.tables);
            Err(error)
        }
    }
}

/// Returns the range deletes of memtables, in ascending order of their seqnos. Fails with `Corruption` if one does not
/// match its companion.
fn range_deletes_of(companions: &dyn Companions, memtables: &[Arc<Memtable>]) -> Result<Vec<Arc<RangeDelete>>> {
    let mut ranges = Vec::new();
    for memtable in memtables {
        let promised = memtable.protection(companions.written());
        for range in memtable.range_deletes() {
            let check = range.with_record(|record| companions.verify(record, hash_key(record.key), promised));
            if !check.serves() {
                let damage = Damage { verdict: Verdict::Seal, ..Damage::default() };
                return Err(Error::corruption(damage, "a range delete in memory does not match its companion"));
            }
            ranges.push(range);
        }
    }
    ranges.sort_by_key(|range| range.seqno);
    Ok(ranges)
}
