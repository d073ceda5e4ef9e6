//! Retire: which segments of the log are sealed, which nobody needs any more, and how those go.
//!
//! In:    families, what of the log their memtables hold. Out: an edit that seals what is full and durable, and names a later start of the log,
//!        and then segments that are used again or removed; a store that has settled, or is closed, keeps hardly more than what is in it.
//! Holds: a segment goes only after the edit that does without it is durable, and no memtable holds a record of it (I12).
//! Crash: before the edit, the log as it was; after it, files that nobody names, which the next open sweeps.

use std::collections::HashMap;

use super::Inner;
use super::background::Lane;
use super::commit::{Log, Moment};
use super::family::Family;
use crate::env::work::{lock, try_lock};
use crate::error::Result;
use crate::options::Settings;
use crate::planted::{self, Bug};
use crate::record::Seqno;
use crate::version::{Change, Edit};
use crate::wal::{Place, Retirable};

/// How much of the log memtables may keep from being retired. `wal.live_bytes` stays below the limit and one segment more, since only whole segments
/// are retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogBound {
    limit: u64,
    segment: u64,
}

/// Fullness of a memtable, in thousandths, from which it is left to fill up by itself for a while.
const NEARLY_FULL: u64 = 750;

impl LogBound {
    /// Twice `memtable_bytes`; two segments where those are longer than a memtable, which takes one smaller than 1 MiB.
    pub(super) fn of(settings: &Settings) -> LogBound {
        let segment = settings.log_segment_bytes();
        let limit = (2 * settings.memtable_bytes as u64).max(2 * segment);
        LogBound { limit, segment }
    }

    /// Writers wait at this many needed bytes.
    pub(super) fn limit(self) -> u64 {
        self.limit
    }

    /// No memtable is frozen that keeps this much of the log or less: half of the limit without the segment that is retired last. The other half
    /// is written while the flush waits for another one and runs.
    fn freeze_above(self) -> u64 {
        (self.limit - self.segment) / 2
    }

    /// Whether an active memtable must be frozen that keeps `bytes` of the log. One that is nearly full gets half as much again.
    fn freezes(self, bytes: u64, fullness: u64) -> bool {
        let above = self.freeze_above();
        bytes > if fullness < NEARLY_FULL { above } else { above + above / 2 }
    }

    /// Needed bytes in thousandths of the limit.
    fn pressure(self, needed: u64) -> u64 {
        needed.saturating_mul(1000) / self.limit
    }
}

/// What an edit says of segments: once it is durable, the log may go by it.
#[derive(Default)]
pub(super) struct LogEdit {
    sealed: Vec<Place>,
    retirable: Option<Retirable>,
}

impl Inner {
    /// What an edit that makes commits permanent says of the log: how far it is durable, which segments are full, and which nobody needs once
    /// the memtables of each of `flushed` up to its seqno are tables. `end_log_edit` is called when the edit is durable.
    pub(super) fn log_changes(&self, edit: &mut Edit, moment: Moment, flushed: &[(&Family, Seqno)]) -> LogEdit {
        let Some(log) = &self.log else { return LogEdit::default() };
        let needed = self.needed_from(log, flushed);
        self.log_changes_below(log, edit, moment, needed)
    }

    /// The same where nothing in front of an offset is needed.
    fn log_changes_below(&self, log: &Log, edit: &mut Edit, moment: Moment, needed: u64) -> LogEdit {
        let sealed = log.wal().seals_due();
        edit.changes.extend(sealed.iter().copied().map(Change::SegmentSealed));
        edit.changes.push(Change::Permanent { offset: moment.offset, seqno: moment.seqno });
        edit.changes.push(Change::LogWitness { offset: log.wal().synced().offset });
        let Some(retirable) = log.wal().retirable(needed) else { return LogEdit { sealed, retirable: None } };
        edit.changes.push(Change::LogStart {
            place: retirable.start.place,
            ring: retirable.start.ring,
            ring_nonce: retirable.start.ring_nonce,
        });
        edit.changes.extend(retirable.segments.iter().map(|segment| Change::SegmentRetired { segment: *segment }));
        if planted::active(Bug::SegmentRecycledEarly) {
            log.wal().recycle(&retirable.segments);
            let _ = log.wal().prepare();
        }
        LogEdit { sealed, retirable: Some(retirable) }
    }

    /// Seals the segments that are full and durable, if no edit has done that by the way; true if it did. Beside another job it is left to that one's
    /// edit, or the next one's: the witness proves as much.
    pub(super) fn seal_log(&self) -> Result<bool> {
        let Some(log) = &self.log else { return Ok(false) };
        if log.wal().seals_due().is_empty() {
            return Ok(false);
        }
        let Some(job) = try_lock(&self.jobs_lock) else { return Ok(false) };
        let sealed = log.wal().seals_due();
        if sealed.is_empty() {
            return Ok(false);
        }
        let mut edit = Edit::from(sealed.iter().copied().map(Change::SegmentSealed).collect::<Vec<_>>());
        edit.changes.push(Change::LogWitness { offset: log.wal().synced().offset });
        self.install(edit, None)?;
        log.wal().sealed(&sealed);
        drop(job);
        self.background.kick(Lane::Log); // which may have wanted a turn to shorten it
        Ok(true)
    }

    /// The logical offset from which on frames hold records that are in no table.
    fn needed_from(&self, log: &Log, flushed: &[(&Family, Seqno)]) -> u64 {
        let apply = lock(&log.apply); // nothing is between the log and the memtables
        apply.offset.min(self.held_from(flushed))
    }

    /// The offset of the oldest frame of which a memtable holds records; above all offsets if none does.
    fn held_from(&self, flushed: &[(&Family, Seqno)]) -> u64 {
        let flushed: HashMap<u32, Seqno> = flushed.iter().map(|(family, through)| (family.id(), *through)).collect();
        let mut held = u64::MAX;
        for family in self.families().by_id.values() {
            let view = family.view();
            let through = flushed.get(&family.id()).copied();
            for generation in [&view.active].into_iter().chain(&view.frozen) {
                let is_flushed = through.is_some_and(|through| (1..=through).contains(&generation.through()));
                if !is_flushed {
                    held = held.min(generation.first_offset());
                }
            }
        }
        held
    }

    /// Takes segments as sealed that are, and lets those go that no edit names any more.
    pub(super) fn end_log_edit(&self, LogEdit { sealed, retirable }: LogEdit) {
        let Some(log) = &self.log else { return };
        log.wal().sealed(&sealed);
        if let Some(retirable) = retirable {
            log.wal().recycle(&retirable.segments);
            self.background.kick(Lane::Log);
        }
    }

    /// Freezes the active memtables that keep too much of the log from being retired, whether or not other flushes are due; returns whether it
    /// froze any. A family that gets one record now and then fills no memtable, and only this flushes it.
    pub(super) fn freeze_log_holders(&self) -> bool {
        let Some(log) = &self.log else { return false };
        let bound = LogBound::of(&self.settings);
        if log.wal().live_bytes() <= bound.freeze_above() {
            return false;
        }
        let (end, budget) = (log.wal().whole_up_to(), self.settings.memtable_bytes);
        let families = self.families();
        let holds_too_much = |family: &&Family| {
            let view = family.view();
            bound.freezes(end.saturating_sub(view.active.first_offset()), view.active.fullness(budget))
        };
        let holders: Vec<&Family> = families.by_id.values().filter(holds_too_much).collect();
        if holders.is_empty() {
            return false;
        }
        let mut apply = lock(&log.apply);
        apply.target = None;
        holders.iter().for_each(|family| family.freeze(apply.last_seqno));
        drop(apply);
        self.counters.frozen_for_log(holders.len());
        self.note_waits();
        self.background.kick(Lane::Flush);
        true
    }

    /// Bytes of the log from the oldest frame with a record that no table holds to the end.
    pub(super) fn needed_log_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.wal().whole_up_to().saturating_sub(self.held_from(&[])))
    }

    /// How much of its bound the needed log takes, in thousandths. While flushes fail it is 0: one family that cannot be flushed must not stop the
    /// writers of all others.
    pub(super) fn log_pressure(&self) -> u64 {
        match self.background.failure(Lane::Flush) {
            None => LogBound::of(&self.settings).pressure(self.needed_log_bytes()),
            Some(_) => 0,
        }
    }

    /// Retires segments where no flush will: the log exceeds its bound, and neither a frozen nor an old active memtable keeps it (a family that did
    /// was dropped).
    pub(super) fn shorten_log(&self, log: &Log) -> Result<bool> {
        if log.wal().live_bytes() <= LogBound::of(&self.settings).limit() || self.flush_is_due() {
            return Ok(false);
        }
        self.forget_log()
    }

    /// Retires the segments that nobody needs, in an edit of its own; true if there were any.
    fn forget_log(&self) -> Result<bool> {
        let Some(_job) = try_lock(&self.jobs_lock) else { return Ok(false) }; // that job's edit will do it, or a seal asks again
        let moment = self.sync_log()?;
        let mut edit = Edit::default();
        let said = self.log_changes(&mut edit, moment, &[]);
        if said.retirable.is_none() {
            return Ok(false);
        }
        self.install(edit, None)?;
        self.end_log_edit(said);
        Ok(true)
    }

    /// Gives back what the log holds of the disk, if no memtable holds anything: for a store that has settled, or is closed. It goes on in a
    /// short segment, and nothing is kept beside it. The caller has the jobs' turn.
    pub(super) fn trim_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if self.unneeded_below(log).is_none() {
            return Ok(()); // somebody goes on writing
        }
        let turned = log.wal().turn_short().and_then(|_| log.wal().sync_full());
        turned.inspect_err(|error| self.note_halted(error))?;
        let moment = self.sync_log()?;
        let Some(below) = self.unneeded_below(log) else { return Ok(()) };
        let mut edit = Edit::default();
        let said = self.log_changes_below(log, &mut edit, moment, below);
        if let Some(retirable) = &said.retirable {
            if planted::active(Bug::LogGoneBeforeEdit) {
                log.wal().recycle(&retirable.segments);
                log.wal().give_back();
            }
            self.install(edit, None)?;
            self.end_log_edit(said);
        }
        log.wal().give_back();
        Ok(())
    }

    /// The disk is full: the log gives back what it keeps beside its next segment. True if that is some room.
    pub(super) fn log_makes_room(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.wal().give_back_spare())
    }

    /// An offset below which nothing of the log is needed and all of it is durable, if no memtable holds anything.
    fn unneeded_below(&self, log: &Log) -> Option<u64> {
        let _nothing_is_taken = lock(&log.apply);
        let is_held = self.held_from(&[]) < u64::MAX && !planted::active(Bug::LogTrimmedWhileNeeded);
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
