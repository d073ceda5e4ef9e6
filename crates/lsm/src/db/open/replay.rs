//! Replay: reads log frames into memtables, and flushes these to tables when they grow too large.
//!
//! In:   batches in commit order; per family, the seqno up to which all records are already in tables.
//! Out:  memtables, and (if writing is allowed) level-0 tables that no edit names yet. In a read-only open, memtables
//!       hold pointers to large values and the open blob files. In a recovery they hold the values themselves, because
//!       the log and its blob files are removed when it ends.
//! Lost: a damaged value in an intact frame becomes a lost range of its key, bounded by its seqno. It is added to the
//!       views at once, and (if writing is allowed) to the edit that names the tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::opening::Opening;
use crate::batch::{BatchOperation, BatchOperations, Binding};
use crate::checksum::Uid;
use crate::compaction::UnsyncedTables;
use crate::db::catalog::FamilyMap;
use crate::db::jobs::flush::write_level0;
use crate::db::jobs::level0::Level0;
use crate::db::state::family::{ApplyTarget, Family, TableHandle, ViewDelta};
use crate::error::{Error, Result};
use crate::left_files::LeftFiles;
use crate::lost_range::LostRange;
use crate::planted;
use crate::record::{Kind, Record, Seqno};
use crate::seam::Companions;
use crate::sst::Cache;
use crate::values::{LoggedValues, LostValues};
use crate::version::{EditChange, ObsoleteList, OpenTables, TableMeta};
use crate::wal::{Replayed, Stop};

/// Maximum number of tables that are synced together.
pub(super) const MOST_UNSYNCED: usize = 64;

/// Reads log frames into memtables, and flushes these to tables when they grow too large.
pub(super) struct Replay<'a> {
    pub(in crate::db) opening: &'a Opening<'a>,
    /// Allocates file numbers; `None` if writing is not allowed.
    pub(in crate::db) new_number: Option<&'a (dyn Fn() -> u64 + Sync)>,
    /// The store that tables are written for.
    pub(in crate::db) store: Uid,
    pub(in crate::db) families: FamilyMap,
    pub(in crate::db) flushed: BTreeMap<u32, Seqno>,
    /// Level-0 tables, oldest first.
    pub(in crate::db) added: Vec<EditChange>,
    pub(in crate::db) commits: u64,
    pub(in crate::db) binding: Binding,
    /// The memtable that received the last record.
    pub(in crate::db) target: Option<ApplyTarget>,
    pub(in crate::db) cache: Arc<Cache>,
    pub(super) dead_files: Arc<ObsoleteList>,
    pub(in crate::db) open_tables: Arc<OpenTables>,
    /// Tables not synced yet; `flush_all` syncs them.
    pub(in crate::db) unsynced: UnsyncedTables,
    /// Values that the log points to.
    pub(in crate::db) values: LoggedValues,
    /// Bytes added to memtables since their total size was last computed.
    pub(super) came_in: usize,
    /// Lost values, each as a lost range of one key, with its family and its number.
    pub(in crate::db) lost: Vec<(Family, u64, Arc<LostRange>)>,
    /// The next number of a lost range in a read-only replay, which allocates no file numbers.
    pub(super) next_lost: u64,
}

impl Replay<'_> {
    pub(in crate::db) fn apply(&mut self, frame: &Replayed<'_>) -> std::result::Result<(), Stop> {
        let opening = self.opening;
        let (companions, limit) = (&*opening.parts.companions, opening.settings.memtable_bytes);
        let (mut seqno, mut any_full) = (frame.seqno, false);
        let (families, flushed) = (&self.families, &self.flushed);
        // Records already in tables are skipped: their blob files may have been removed.
        let mut is_news = |operation: &BatchOperation<'_>, at: u64| {
            families.by_id.contains_key(&operation.family)
                && frame.seqno + at > flushed.get(&operation.family).copied().unwrap_or(0)
        };
        // A read-only replay keeps pointers, as the writer did, so the log's values are not held in memory.
        let mut losses = LostValues::of(frame.tolerates);
        let (body, held) = match self.new_number {
            Some(_) => (self.values.expand(frame.body, &mut is_news, &mut losses)?, Vec::new()),
            None => {
                let blob_files_of = |family: u32| families.by_id.get(&family)?.table_cache().values().cloned();
                (frame.body, self.values.hold_pointed(frame.body, &mut is_news, &blob_files_of, &mut losses)?)
            }
        };
        for (at, operation) in (0..).zip(BatchOperations::new(body)?) {
            let operation = operation?;
            let is_right = |target: &ApplyTarget| {
                planted!(ReplayKeepsItsMemtable => if target.family.id() == operation.family { return true; });
                target.is_that_of(operation.family)
            };
            if !self.target.as_ref().is_some_and(is_right) {
                self.target = self.families.by_id.get(&operation.family).map(Family::target);
            }
            if let Some(ApplyTarget { family, generation: active, .. }) = &self.target
                && seqno > self.flushed.get(&operation.family).copied().unwrap_or(0)
            {
                let ends = family.key_ends_in_seqno();
                let unbound = planted!(SealNotBoundAfterReplay, true, false);
                let place = if unbound { (0, 0) } else { (frame.seqno, at) };
                let record = self.binding.record(&operation, place, ends, companions)?;
                let record = Record { seqno, ..record };
                if self.new_number.is_some() {
                    companions.on_replay(&Record { companion: operation.companion, ..record })?;
                }
                if let Some(error) = losses.at(at) {
                    let number = self.new_number.map_or(self.next_lost + self.lost.len() as u64, |next| next());
                    self.lost.push(lose(family, number, &record, error));
                    seqno += 1;
                    continue;
                }
                active.touch(frame.offset, frame.seqno);
                if record.kind == Kind::BlobPointer {
                    active.hold_value(family.table_cache().values(), &record)?;
                }
                let before = active.memtable.bytes();
                match record.kind {
                    Kind::RangeDelete => active.delete_range(family.order(), &record)?,
                    _ => active.memtable.insert(&record, companions.term(&record))?,
                }
                any_full |= active.memtable.is_full(limit);
                self.came_in += active.memtable.bytes().saturating_sub(before);
            }
            seqno += 1;
        }
        drop(held);
        self.commits += 1;
        if any_full && self.new_number.is_some() {
            let is_full = |family: &&Family| family.view().active.memtable.is_full(limit);
            let full: Vec<Family> = self.families.by_id.values().filter(is_full).cloned().collect();
            full.iter().try_for_each(|family| self.flush(family, seqno - 1)).map_err(Stop::Failed)?;
        }
        // All memtables together are bounded to about twice the size of one. If the log points to large values, many
        // families would otherwise hold far more of them than the store that wrote the log.
        if self.came_in > limit && self.new_number.is_some() {
            self.make_room(limit, seqno - 1).map_err(Stop::Failed)?;
        }
        Ok(())
    }

    /// Returns the edit's changes that add the lost ranges.
    pub(in crate::db) fn lost_ranges(&self) -> impl Iterator<Item = EditChange> {
        let added = |family: &Family, id, lost_range: &Arc<LostRange>| EditChange::LostRangeAdded {
            family: family.id(),
            id,
            lost_range: lost_range.clone(),
        };
        self.lost.iter().map(move |(family, id, lost_range)| added(family, *id, lost_range))
    }

    /// Flushes the largest memtables until all of them together take no more than one may.
    fn make_room(&mut self, limit: usize, through: Seqno) -> Result<()> {
        let bytes = |family: &Family| family.view().active.memtable.bytes();
        let mut families: Vec<Family> = self.families.by_id.values().cloned().collect();
        families.sort_by_key(&bytes);
        let mut held: usize = families.iter().map(&bytes).sum();
        while held > limit
            && let Some(largest) = families.pop()
        {
            held -= bytes(&largest);
            self.flush(&largest, through)?;
        }
        self.came_in = 0;
        Ok(())
    }

    pub(in crate::db) fn flush_all(&mut self, through: Seqno) -> Result<()> {
        let families: Vec<Family> = self.families.by_id.values().cloned().collect();
        families.iter().try_for_each(|family| self.flush(family, through))?;
        self.unsynced.sync()
    }

    fn flush(&mut self, family: &Family, through: Seqno) -> Result<()> {
        let Some(new_number) = self.new_number else { return Ok(()) };
        planted!(ReplayKeepsItsMemtable, (), self.target = None); // only its flush may reference a frozen memtable

        family.freeze(through, &Vec::new);
        let view = family.pinned_view();
        if view.frozen.is_empty() {
            return Ok(());
        }
        let opening = self.opening;
        let companions: &Arc<dyn Companions> = &opening.parts.companions;
        let level0 = Level0 {
            env: opening.env(),
            dir: opening.dir,
            left: &LeftFiles::default(), // after an error the open fails, and the next one removes them
            store: Some(self.store),
            companions,
            families: &self.families,
            next_file: new_number,
            cancelled: &AtomicBool::new(false),
            snapshots: Vec::new(),
            pace: None,
            unsynced: Some(&self.unsynced),
        };
        let memtables: Vec<_> = view.frozen.iter().map(|generation| generation.memtable.clone()).collect();
        let flushed = write_level0(&level0, family, &memtables)?;
        self.added.extend(flushed.parts(family).flat_map(|part| part.changes()));
        // Later flushes look up keys in these tables.
        let blind = planted!(RecoveryLooksPastItsTables, true, false);
        for part in flushed.parts(family) {
            let handle = |(level, meta): &(usize, Arc<TableMeta>)| {
                (*level, TableHandle::new(meta.clone(), part.family.table_cache().clone()))
            };
            let adds: Vec<_> = part.adds.iter().map(handle).collect();
            let levels = part.family.view().levels.apply(&[], if blind { &[] } else { &adds })?;
            let own = part.family == family;
            part.family.install(Arc::new(levels), &ViewDelta { flushed: own.then_some(through), ..part.delta() });
            adds.iter().for_each(|(_, table)| table.shown());
        }
        Ok(())
    }
}

/// Adds a lost range for the key of a record whose value is lost. Reads of the family hit it from now on.
fn lose(family: &Family, number: u64, record: &Record<'_>, error: &Error) -> (Family, u64, Arc<LostRange>) {
    let damage = error.damage().cloned().unwrap_or_default();
    // An empty file name would denote a record in memory.
    let file = if damage.file.is_empty() { "the log".to_owned() } else { damage.file };
    let (place, bound) = ((record.key.to_vec(), record.seqno), record.seqno);
    let (offset, verdict) = (damage.offset, damage.verdict);
    let lost_range = Arc::new(LostRange { from: place.clone(), to: place, bound, file, offset, verdict });
    let fenced = &[(number, lost_range.clone())][..];
    family.install(family.pinned_view().levels.clone(), &ViewDelta { fenced, ..ViewDelta::default() });
    (family.clone(), number, lost_range)
}
