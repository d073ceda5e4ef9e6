//! Retirement of log segments: seals full segments, and recycles or removes segments that are no longer needed.
//!
//! In:    families, and the parts of the log that their memtables hold.
//! Out:   an edit that seals the full and durable segments and names a later start of the log; then segments that are
//!        recycled or removed. A settled or closed store keeps little more log than its live frames.
//! Holds: a segment is released only after the edit that drops it is durable, and no memtable holds a record of it
//!        (I12).
//! Crash: before the edit, the log as it was; after it, unnamed files that the next open removes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::write_path::WritePath;
use crate::compaction::debt::LOG_DELAY_FROM;
use crate::db::catalog::feed::FeedChanges;
use crate::db::notify::lanes::Lane;
use crate::db::state::family::Family;
use crate::db::state::store_log::{LogPosition, OpenLog};
use crate::env::work::lock;
use crate::error::Result;
use crate::options::Settings;
use crate::planted;
use crate::record::Seqno;
use crate::version::{Edit, EditChange};
use crate::wal::{LogPlace, Retirable};

/// The amount of log that memtables may keep from being retired. `wal.live_bytes` stays below the limit plus one
/// segment, because only whole segments are retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) struct LogBound {
    limit: u64,
    segment: u64,
}

/// Memtables filled to this many thousandths are frozen later, so that they can fill up.
const NEARLY_FULL: u64 = 750;

impl LogBound {
    /// Returns the bound: twice `memtable_bytes`, or two segments if those are longer, which they are
    /// for memtables smaller than 1 MiB.
    pub(in crate::db) fn of(settings: &Settings) -> LogBound {
        let segment = settings.log_segment_bytes();
        let limit = (2 * settings.memtable_bytes as u64).max(2 * segment);
        LogBound { limit, segment }
    }

    /// Returns the number of needed bytes at which writers wait.
    pub(in crate::db) fn limit(self) -> u64 {
        self.limit
    }

    /// Returns the number of log bytes up to which a memtable is not frozen: half of the limit, without the segment
    /// that is retired last. The other half is written while the flush waits for another flush and runs.
    fn freeze_above(self) -> u64 {
        (self.limit - self.segment) / 2
    }

    /// Returns true if an active memtable that keeps `bytes` of the log must be frozen. A nearly full memtable may keep
    /// half as much again.
    fn freezes(self, bytes: u64, fullness: u64) -> bool {
        let above = self.freeze_above();
        bytes > if fullness < NEARLY_FULL { above } else { above + above / 2 }
    }

    /// Returns the needed bytes in thousandths of the limit.
    fn pressure(self, needed: u64) -> u64 {
        needed.saturating_mul(1000) / self.limit
    }
}

/// The segments that an edit seals or drops; the log acts on them once the edit is durable.
#[derive(Default)]
pub(in crate::db) struct LogEdit {
    sealed: Vec<LogPlace>,
    pub(in crate::db) retirable: Option<Retirable>,
    /// The retirable segments that the change feed keeps, the newest ones.
    kept: Vec<u64>,
}

impl WritePath {
    /// Adds the log's changes to an edit that makes commits permanent: the durable offset, the full segments, and the
    /// segments that are unneeded once each family of `flushed` has its memtables up to the given seqno in tables.
    /// After the edit is durable, the caller calls `end_log_edit`.
    pub(in crate::db) fn log_changes(
        &self,
        edit: &mut Edit,
        moment: LogPosition,
        flushed: &[(&Family, Seqno)],
    ) -> LogEdit {
        let Some(log) = self.store_log().log() else { return LogEdit::default() };
        // With no segment to retire the oldest record does not matter, and finding it costs a look at every family.
        let retirable = log.wal().oldest_end().and_then(|end| {
            let needed = self.needed_from(flushed, end);
            if needed < end { None } else { log.wal().retirable(self.durable_below(log, needed)) }
        });
        self.log_changes_with(log, edit, moment, (retirable, flushed))
    }

    /// Returns the offset below which segments are retired: the change feed keeps durable ones only.
    fn durable_below(&self, log: &OpenLog, below: u64) -> u64 {
        if self.catalog().feed.is_on() { below.min(log.wal().synced().offset) } else { below }
    }

    /// Adds the log's changes for segments that are not needed.
    fn log_changes_with(
        &self,
        log: &OpenLog,
        edit: &mut Edit,
        moment: LogPosition,
        (retirable, flushed): (Option<Retirable>, &[(&Family, Seqno)]),
    ) -> LogEdit {
        let sealed = log.wal().seals_due();
        edit.changes.extend(sealed.iter().copied().map(EditChange::SegmentSealed));
        edit.changes.push(EditChange::Permanent { offset: moment.offset, seqno: moment.seqno });
        edit.changes.push(EditChange::LogWitness { offset: log.wal().synced().offset });
        let ends = retirable.as_ref().map_or(&[][..], |retirable| &retirable.ends);
        let (settings, now) = (self.context().settings.current(), self.context().env.clock.wall_micros());
        let FeedChanges { changes, kept } = self.catalog().feed.changes(&settings, now, ends, flushed);
        edit.changes.extend(changes);
        let Some(retirable) = retirable else { return LogEdit { sealed, retirable: None, kept } };
        edit.changes.push(EditChange::LogStart {
            place: retirable.start.place,
            ring: retirable.start.ring,
            ring_nonce: retirable.start.ring_nonce,
        });
        edit.changes.extend(retirable.segments.iter().map(|segment| EditChange::SegmentRetired { segment: *segment }));
        planted!(SegmentRecycledEarly => { log.wal().recycle(&retirable.segments); let _ = log.wal().prepare(); });
        LogEdit { sealed, retirable: Some(retirable), kept }
    }

    /// Returns the logical offset from which on frames hold records that are in no table; or any offset below `enough`
    /// that is needed.
    fn needed_from(&self, flushed: &[(&Family, Seqno)], enough: u64) -> u64 {
        let apply = lock(&self.applier.apply); // every taken frame is in a memtable
        apply.offset.min(self.held_from(flushed, enough))
    }

    /// Returns the offset of the oldest frame with a record in a memtable; `u64::MAX` if the memtables are empty. Stops
    /// at the first family that holds a frame below `enough`, and begins with the one that did so last: among many
    /// families, one that is rarely written holds the log for many edits.
    fn held_from(&self, flushed: &[(&Family, Seqno)], enough: u64) -> u64 {
        let flushed: HashMap<u32, Seqno> = flushed.iter().map(|(family, through)| (family.id(), *through)).collect();
        let held_by = |family: &Family| {
            let (view, through) = (family.view(), flushed.get(&family.id()).copied());
            let generations = view.memtables();
            let held = generations
                .filter(|generation| !through.is_some_and(|through| (1..=through).contains(&generation.through())));
            held.map(|generation| generation.first_offset()).min().unwrap_or(u64::MAX)
        };
        let (families, last) = (self.catalog().families(), self.log_holder.load(Ordering::Relaxed));
        let mut held = u64::MAX;
        for family in families.by_id.get(&last).into_iter().chain(families.all()) {
            held = held.min(held_by(family));
            if held < enough {
                self.log_holder.store(family.id(), Ordering::Relaxed);
                break;
            }
        }
        held
    }

    /// Marks the sealed segments in the log, and recycles the segments that no edit names any more.
    pub(in crate::db) fn end_log_edit(&self, LogEdit { sealed, retirable, kept }: LogEdit) {
        let Some(log) = self.store_log().log() else { return };
        log.wal().sealed(&sealed);
        if let Some(retirable) = retirable {
            for run in retirable.segments.chunk_by(|one, next| kept.contains(one) == kept.contains(next)) {
                if planted!(FeedSegmentRecycled, false, kept.contains(&run[0])) {
                    log.wal().hand_over(run)
                } else {
                    log.wal().recycle(run)
                }
            }
            self.lanes().kick(Lane::Log);
        }
    }

    /// Freezes the active memtables that keep too much of the log from being retired, even if no other flush is due.
    /// Returns true if it froze any. The caller then decides the stall and wakes the flush lane. A family with rare
    /// writes never fills its memtable, so only this freeze causes its flush.
    pub(in crate::db) fn freeze_log_holders(&self) -> bool {
        let Some(log) = self.store_log().log() else { return false };
        let bound = LogBound::of(&self.context().settings.current());
        if log.wal().live_bytes() <= bound.freeze_above() {
            return false;
        }
        let (end, budget) = (log.wal().whole_up_to(), self.context().settings.memtable_bytes);
        let families = self.catalog().families();
        let holds_too_much = |family: &&Family| {
            let view = family.view();
            bound.freezes(end.saturating_sub(view.active.first_offset()), view.active.fullness(budget))
        };
        let holders: Vec<&Family> = families.all().filter(holds_too_much).collect();
        if holders.is_empty() {
            return false;
        }
        let mut apply = lock(&self.applier.apply);
        apply.target = None;
        holders.iter().for_each(|family| family.freeze(apply.last_seqno, &|| self.readers()));
        drop(apply);
        self.context().counters.frozen_for_log(holders.len());
        true
    }

    /// Returns the bytes of log from the oldest frame with an unflushed record to the end.
    pub(in crate::db) fn needed_log_bytes(&self) -> u64 {
        self.store_log().log().map_or(0, |log| log.wal().whole_up_to().saturating_sub(self.held_from(&[], 0)))
    }

    /// Returns the needed log in thousandths of its bound. Returns 0 while flushes fail, so that one family that cannot
    /// be flushed does not stop the writers of all others. Returns 0 as well for a log so short that it delays nobody,
    /// without a look at every family.
    pub(super) fn log_pressure(&self) -> u64 {
        let (Some(log), None) = (self.store_log().log(), self.lanes().failure(Lane::Flush)) else { return 0 };
        let bound = LogBound::of(&self.context().settings.current());
        match bound.pressure(log.wal().live_bytes()) < LOG_DELAY_FROM {
            true => 0,
            false => bound.pressure(self.needed_log_bytes()),
        }
    }

    /// Releases the log's disk space if all memtables are empty, for a store that has settled or is closing. The log
    /// continues in a short segment, without spare segments. The caller holds the job lock.
    pub(in crate::db) fn trim_log(&self) -> Result<()> {
        let Some(log) = self.store_log().log() else { return Ok(()) };
        if self.unneeded_below(log).is_none() {
            return Ok(()); // a writer is active
        }
        self.rotate_log()?;
        let moment = self.sync_log()?;
        let Some(below) = self.unneeded_below(log) else { return Ok(()) };
        let mut edit = Edit::default();
        let log_edit = self.log_changes_with(log, &mut edit, moment, (log.wal().retirable(below), &[]));
        let raises_floor = edit.changes.iter().any(|change| matches!(change, EditChange::Feed(_)));
        if log_edit.retirable.is_some() || raises_floor {
            planted!(LogGoneBeforeEdit => if let Some(retirable) = &log_edit.retirable { log.wal().recycle(&retirable.segments); log.wal().give_back(); });
            self.catalog().install(edit, None)?;
            self.end_log_edit(log_edit);
        }
        log.wal().give_back();
        Ok(())
    }

    /// Continues the log in a short, empty segment.
    pub(in crate::db) fn rotate_log(&self) -> Result<()> {
        let Some(log) = self.store_log().log() else { return Ok(()) };
        let rotated = log.wal().rotate_short().and_then(|_| log.wal().sync_full());
        rotated.inspect_err(|error| self.store_log().queue_halt(error)).map(drop)
    }

    /// Retires all segments that no memtable needs, and removes old frames from the files of the log. The caller holds
    /// the job lock.
    pub(in crate::db) fn erase_log(&self) -> Result<()> {
        let Some(log) = self.store_log().log() else { return Ok(()) };
        let moment = self.sync_log()?;
        let below = {
            let _nothing_is_taken = lock(&self.applier.apply);
            self.held_from(&[], 0).min(log.wal().taken_up_to()).min(log.wal().synced().offset)
        };
        let mut edit = Edit::default();
        let log_edit = self.log_changes_with(log, &mut edit, moment, (log.wal().retirable(below), &[]));
        self.catalog().install(edit, None)?;
        self.end_log_edit(log_edit);
        log.wal().give_back();
        log.wal().erase_ring().inspect_err(|error| self.store_log().queue_halt(error))
    }

    /// Releases the log's spare segments after the disk became full, keeping the next segment. Returns true if this
    /// freed space.
    pub(in crate::db) fn log_makes_room(&self) -> bool {
        self.store_log().log().is_some_and(|log| log.wal().give_back_spare())
    }

    /// Returns an offset below which the log is durable and unneeded, if all memtables are empty.
    fn unneeded_below(&self, log: &OpenLog) -> Option<u64> {
        let _nothing_is_taken = lock(&self.applier.apply);
        let is_held = planted!(LogTrimmedWhileNeeded, false, self.held_from(&[], u64::MAX) < u64::MAX);
        (!is_held).then(|| log.wal().taken_up_to().min(log.wal().synced().offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MIB;

    #[test]
    fn a_memtable_is_frozen_while_half_of_the_log_that_is_left_is_free() {
        let mib = |bytes: usize| (bytes * MIB) as u64;
        let bound = |memtable, segment| {
            LogBound::of(&Settings {
                memtable_bytes: memtable * MIB,
                segment_bytes: mib(segment),
                ..Settings::default()
            })
        };
        let (small, large) = (bound(8, 16), bound(64, 16));
        assert_eq!(
            [(1, 16), (8, 16), (8, 1), (64, 16)].map(|(of, segment)| bound(of, segment).limit()),
            [2, 16, 16, 128].map(mib)
        );
        assert_eq!(
            [(1, 16), (8, 16), (8, 1), (64, 16)].map(|(of, segment)| bound(of, segment).segment),
            [1, 4, 1, 16].map(mib)
        );
        assert!(!small.freezes(mib(6), 0) && small.freezes(mib(6) + 1, 0));
        assert!(!large.freezes(mib(56), 0) && large.freezes(mib(56) + 1, 0));
        assert!(!large.freezes(mib(84), NEARLY_FULL) && large.freezes(mib(84) + 1, 1000));
        assert_eq!([0, 64, 128, 256].map(|needed| large.pressure(mib(needed))), [0, 500, 1000, 2000]);
    }
}
