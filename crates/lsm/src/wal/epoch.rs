//! The configuration epoch: under which conditions a batch may be ordered, and how it changes them.
//!
//! Holds:  the epoch word and the time of the last batch change only under the order lock, so a thread that reads a new
//!         epoch is ordered after the change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::planted;
use crate::record::Seqno;

use super::holds::HoldId;

/// The condition under which a batch is ordered. If it does not hold, the commit returns `None` and changes nothing.
/// The caller must then rebuild the batch. The default accepts every epoch and leaves it unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Precondition {
    /// The epoch word at the time the batch was built.
    word: u64,
    /// The bits of the word that must be unchanged.
    mask: u64,
    then: EpochChange,
    /// If true, the batch is rejected instead of ordered whenever ordering would wait or write to a file.
    pub(crate) at_once: bool,
    /// True if the batch has a time, or requires a certain next seqno. Plain writes check this field only.
    is_conditional: bool,
    /// The hold that the batch passes: its own, or every hold.
    pub(crate) hold: HoldId,
    /// Time of the batch on its creator's clock; 0 if it has no time.
    time: u64,
    /// The seqno that the batch must get; 0 if any.
    next_seqno: Seqno,
}

impl Precondition {
    /// The configuration epoch (`Db::epoch`) is still `epoch`, the one that the batch was built under.
    #[inline]
    pub fn epoch(epoch: u64) -> Precondition {
        Precondition { word: epoch, mask: u64::MAX, ..Precondition::default() }
    }

    /// Requires a timestamp above 0, later than the timestamps of all commits ordered before this batch.
    /// Timestamps thus increase in the commit order, and the caller needs no lock between choosing a timestamp and the
    /// ordering of its batch.
    #[inline]
    #[must_use]
    pub fn at_time(self, time: u64) -> Precondition {
        Precondition { time, is_conditional: true, ..self }
    }

    /// Requires in addition that the configuration epoch is still `epoch`.
    #[inline]
    #[must_use]
    pub fn in_epoch(self, epoch: u64) -> Precondition {
        Precondition { word: epoch, mask: u64::MAX, ..self }
    }

    /// Requires that no batch was ordered after `seqno`, whichever keys it writes. A batch that depends on reads at
    /// `seqno` is then ordered exactly there, so it is linearizable beside all other commits. If the precondition
    /// fails, the caller reads again what it depends on.
    #[inline]
    #[must_use]
    pub fn unchanged_since(self, seqno: Seqno) -> Precondition {
        Precondition { next_seqno: seqno.saturating_add(1), is_conditional: true, ..self }
    }

    /// Lets the batch pass the hold of its own thread.
    #[must_use]
    pub(crate) fn within(self, hold: HoldId) -> Precondition {
        Precondition { hold, ..self }
    }

    /// Lets the batch pass every hold ([`OptimisticRead`](crate::db::OptimisticRead)). For a caller whose lock the
    /// holder may need: it waits for the hold before it takes that lock (`Db::await_holds`).
    #[inline]
    #[must_use]
    pub fn passing_holds(self) -> Precondition {
        Precondition { hold: HoldId::ANY, ..self }
    }

    /// The commit needs no waiting and no file access: writers are not stalled, the log is mapped and has space, the
    /// frame fits the ring, and every earlier commit is copied. The commit takes only short locks, none of which is
    /// held during I/O. For callers that must not block; not for synced commits.
    #[inline]
    #[must_use]
    pub fn without_waiting(self) -> Precondition {
        Precondition { at_once: true, ..self }
    }

    /// The batch is the last one of its epoch: every later batch in the commit order sees `low` as the lower half. Only
    /// the upper half of the epoch must be unchanged. An empty batch cannot be the last one: the commit fails with
    /// `Invalid`.
    #[must_use]
    pub fn last_of_epoch(self, low: u32) -> Precondition {
        Precondition { mask: u64::MAX << 32, then: EpochChange::Low(low), ..self }
    }

    /// Every epoch is accepted and then changed.
    pub(crate) fn changing(then: EpochChange) -> Precondition {
        Precondition { then, ..Precondition::default() }
    }

    /// Returns true if ordering the batch changes the epoch word.
    pub(crate) fn changes_epoch(&self) -> bool {
        !matches!(self.then, EpochChange::Stay)
    }
}

/// How ordering a batch changes the epoch word: the batch is the last one under the old epoch.
#[derive(Clone, Copy, Debug, Default)]
pub enum EpochChange {
    /// Leaves the word unchanged.
    #[default]
    Stay,
    /// Replaces the lower half.
    Low(u32),
    /// Increments the upper half.
    NextHigh,
}

/// A word that every writer reads and that changes rarely, with no other data on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct AlignedWord(AtomicU64);

/// The epoch word, and the time of the last batch that has one.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    word: AlignedWord,
    last_time: Arc<AtomicU64>,
}

impl Epoch {
    /// Returns the epoch word.
    #[inline]
    pub(super) fn word(&self) -> u64 {
        self.word.0.load(Ordering::Acquire)
    }

    /// Returns the time of the last batch that has one; 0 if none had.
    pub(super) fn last_time(&self) -> &Arc<AtomicU64> {
        &self.last_time
    }

    /// True if a batch must be rejected: the epoch differs from its own in a masked bit, a batch of the same or a later
    /// time was already ordered, or the next seqno is not the required one. The caller holds the order lock.
    #[inline(always)]
    pub(super) fn rejects(&self, under: &Precondition, next_seqno: Seqno) -> bool {
        let changed = (self.word.0.load(Ordering::Relaxed) ^ under.word) & under.mask;
        planted!(RulesNotCompared, false, changed != 0) || under.is_conditional && self.is_late(under, next_seqno)
    }

    /// True if a batch with a time was ordered at the same or a later time, or if the next seqno is not the required
    /// one.
    #[inline]
    fn is_late(&self, under: &Precondition, next_seqno: Seqno) -> bool {
        let is_late = || planted!(TimesNotCompared, false, under.time <= self.last_time.load(Ordering::Relaxed));
        let is_behind = planted!(ConditionNotCompared, false, under.next_seqno != next_seqno);
        under.time != 0 && is_late() || under.next_seqno != 0 && is_behind
    }

    /// Applies the change of a batch that is ordered now, and publishes its time. The caller holds the order lock.
    #[inline(always)]
    pub(super) fn pass(&self, under: &Precondition) {
        if under.changes_epoch() {
            self.change(under.then);
        }
        if under.is_conditional && under.time != 0 {
            self.last_time.store(under.time, Ordering::Release);
        }
    }

    /// Changes the epoch word. The caller holds the order lock.
    #[cold]
    pub(super) fn change(&self, then: EpochChange) {
        let word = self.word.0.load(Ordering::Relaxed);
        let changed = match then {
            EpochChange::Stay => word,
            EpochChange::Low(low) => word >> 32 << 32 | u64::from(low),
            EpochChange::NextHigh => word.wrapping_add(1 << 32),
        };
        self.word.0.store(changed, Ordering::Release);
    }
}
