//! Replay: frames of the log on their way into memtables, and into tables where these grow too large.
//!
//! In:  batches in the order of their commits; per family, the seqno up to which everything is in tables already.
//! Out: memtables, and (if writing is allowed) tables of level 0 that no edit names yet. Of large values those of a reader hold pointers, and the
//!      files that these point into, open; those of a recovery the values, since the log and its files go when it is over.
//! Lost: a value that is damaged, of a frame that was whole, becomes a lost range of its key, bounded by its seqno: in the views at once, and (if
//!      writing is allowed) in the edit that names the tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::family::{Family, Target};
use super::flush::{Level0, write_level0};
use super::recover::Opening;
use super::{Families, TableHandle};
use crate::batch::{Binding, Operation, Operations};
use crate::checksum::Uid;
use crate::compaction::UnsyncedTables;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::planted::{self, Bug};
use crate::record::{Kind, Record, Seqno};
use crate::seam::Companions;
use crate::sst::Cache;
use crate::values::{LoggedValues, Losses};
use crate::version::{Change, DeadFiles, OpenTables, TableMeta};
use crate::wal::{Replayed, Stop};

/// Tables that are synced together.
const MOST_UNSYNCED: usize = 64;

/// Frames of the log on their way into memtables, and into tables where these grow too large.
pub(super) struct Replay<'a> {
    pub(super) opening: &'a Opening<'a>,
    /// None: nothing may be written.
    pub(super) new_number: Option<&'a (dyn Fn() -> u64 + Sync)>,
    /// The store that tables are written for.
    pub(super) store: Uid,
    pub(super) families: Families,
    pub(super) flushed: BTreeMap<u32, Seqno>,
    /// Tables of level 0, oldest first.
    pub(super) added: Vec<Change>,
    pub(super) commits: u64,
    pub(super) binding: Binding,
    /// Where the last record went.
    pub(super) target: Option<Target>,
    pub(super) cache: Arc<Cache>,
    pub(super) dead_files: Arc<DeadFiles>,
    pub(super) open_tables: Arc<OpenTables>,
    /// Tables that are to be synced; `flush_all` does.
    pub(super) unsynced: UnsyncedTables,
    /// Values that the log points to.
    pub(super) values: LoggedValues,
    /// Bytes that came into memtables since these were last added up.
    pub(super) came_in: usize,
    /// Lost values, each as a lost range of one key, with its family and its number.
    pub(super) lost: Vec<(Family, u64, Arc<Fence>)>,
    /// The number of the first lost range where nothing may be written, and no file gets a number.
    pub(super) next_lost: u64,
}

impl Replay<'_> {
    pub(super) fn apply(&mut self, frame: &Replayed<'_>) -> std::result::Result<(), Stop> {
        let opening = self.opening;
        let (companions, limit) = (&*opening.parts.companions, opening.settings.memtable_bytes);
        let (mut seqno, mut any_full) = (frame.seqno, false);
        let (families, flushed) = (&self.families, &self.flushed);
        // A value that is in a table already may be gone.
        let mut is_news = |operation: &Operation<'_>, at: u64| {
            families.by_id.contains_key(&operation.family)
                && frame.seqno + at > flushed.get(&operation.family).copied().unwrap_or(0)
        };
        // Whoever only reads keeps pointers, as whoever wrote them does: no value of the log is in memory.
        let mut losses = Losses::of(frame.tolerates);
        let (body, held) = match self.new_number {
            Some(_) => (self.values.expand(frame.body, &mut is_news, &mut losses)?, Vec::new()),
            None => {
                let shelf_of = |family: u32| families.by_id.get(&family)?.shelf().values().cloned();
                (frame.body, self.values.hold_pointed(frame.body, &mut is_news, &shelf_of, &mut losses)?)
            }
        };
        for (at, operation) in (0..).zip(Operations::new(body)?) {
            let operation = operation?;
            let keeps = |target: &Target| {
                planted::active(Bug::ReplayKeepsItsMemtable) && target.family.id() == operation.family
            };
            if !self.target.as_ref().is_some_and(|target| target.is_that_of(operation.family) || keeps(target)) {
                self.target = self.families.by_id.get(&operation.family).map(Family::target);
            }
            if let Some(Target { family, generation: active, .. }) = &self.target
                && seqno > self.flushed.get(&operation.family).copied().unwrap_or(0)
            {
                let ends = family.options().key_ends_in_seqno;
                let unbound = planted::active(Bug::SealNotBoundAfterReplay);
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
                active.touch(frame.offset);
                if record.kind == Kind::BlobPointer {
                    active.hold_value(family.shelf().values(), &record)?;
                }
                let before = active.memtable.bytes();
                active.memtable.insert(&record, companions.term(&record))?;
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
        // All memtables together take about twice what one may: where the log points to large values, many families would hold far more
        // of them than the store did that wrote it.
        if self.came_in > limit && self.new_number.is_some() {
            self.make_room(limit, seqno - 1).map_err(Stop::Failed)?;
        }
        Ok(())
    }

    /// The changes of an edit that keep the lost ranges.
    pub(super) fn lost_ranges(&self) -> impl Iterator<Item = Change> {
        let added = |family: &Family, id, fence: &Arc<Fence>| Change::FenceAdded {
            family: family.id(),
            id,
            fence: fence.clone(),
        };
        self.lost.iter().map(move |(family, id, fence)| added(family, *id, fence))
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

    pub(super) fn flush_all(&mut self, through: Seqno) -> Result<()> {
        let families: Vec<Family> = self.families.by_id.values().cloned().collect();
        families.iter().try_for_each(|family| self.flush(family, through))?;
        self.unsynced.sync()
    }

    fn flush(&mut self, family: &Family, through: Seqno) -> Result<()> {
        let Some(new_number) = self.new_number else { return Ok(()) };
        if !planted::active(Bug::ReplayKeepsItsMemtable) {
            self.target = None; // nobody but its flush keeps a frozen memtable
        }
        family.freeze(through);
        let view = family.pinned_view();
        if view.frozen.is_empty() {
            return Ok(());
        }
        let opening = self.opening;
        let companions: &Arc<dyn Companions> = &opening.parts.companions;
        let level0 = Level0 {
            env: opening.env(),
            dir: opening.dir,
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
        if self.unsynced.count() >= MOST_UNSYNCED {
            self.unsynced.sync()?;
        }
        self.added.extend(flushed.parts(family).flat_map(|part| part.changes()));
        // The flushes behind this one look into its tables.
        let blind = planted::active(Bug::RecoveryLooksPastItsTables);
        for part in flushed.parts(family) {
            let handle = |(level, meta): &(usize, Arc<TableMeta>)| {
                (*level, TableHandle::new(meta.clone(), part.family.shelf().clone()))
            };
            let adds: Vec<_> = part.adds.iter().map(handle).collect();
            let levels = part.family.view().levels.apply(&[], if blind { &[] } else { &adds })?;
            let own = part.family == family;
            part.family.install(Arc::new(levels), own.then_some(through));
        }
        Ok(())
    }
}

/// Makes a lost range of the key of a record whose value is lost. Reads of the family meet it from now on.
fn lose(family: &Family, number: u64, record: &Record<'_>, error: &Error) -> (Family, u64, Arc<Fence>) {
    let damage = error.damage().cloned().unwrap_or_default();
    // One that names no file would stand for a record in memory.
    let file = if damage.file.is_empty() { "the log".to_owned() } else { damage.file };
    let (place, bound) = ((record.key.to_vec(), record.seqno), record.seqno);
    let (offset, verdict) = (damage.offset, damage.verdict);
    let fence = Arc::new(Fence { from: place.clone(), to: place, bound, file, offset, verdict });
    family.install_fenced(family.pinned_view().levels.clone(), None, &[], &[(number, fence.clone())]);
    (family.clone(), number, fence)
}
