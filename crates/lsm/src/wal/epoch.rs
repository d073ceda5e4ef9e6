//! The configuration epoch: under which conditions a batch may be ordered, and how it changes them.
//!
//! Holds:  the epoch word and the time of the last batch change only under the order lock, so a thread that reads a new
//!         epoch is ordered after the change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::planted;

/// Preconditions for ordering a batch, in terms of the log's configuration epoch . The default
/// accepts every epoch and leaves it unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderCondition {
    /// The epoch word at the time the batch was built.
    pub word: u64,
    /// The bits of the word that must be unchanged.
    pub mask: u64,
    /// How ordering the batch changes the epoch word.
    pub then: EpochChange,
    /// If true, the batch is rejected instead of ordered whenever ordering would wait or write to a file.
    pub at_once: bool,
    /// Time of the batch on its creator's clock; 0 if it has no time. Ordered batches have strictly increasing times.
    pub time: u64,
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

    /// True if a batch must be rejected: the epoch differs from its own in a masked bit, or a batch of the same or a
    /// later time was already ordered. The caller holds the order lock.
    #[inline]
    pub(super) fn rejects(&self, under: &OrderCondition) -> bool {
        let is_late = || planted!(TimesNotCompared, false, under.time <= self.last_time.load(Ordering::Relaxed));
        let changed = (self.word.0.load(Ordering::Relaxed) ^ under.word) & under.mask;
        planted!(RulesNotCompared, false, changed != 0) || under.time != 0 && is_late()
    }

    /// Applies the change of a batch that is ordered now, and publishes its time. The caller holds the order lock.
    #[inline]
    pub(super) fn pass(&self, under: &OrderCondition) {
        if !matches!(under.then, EpochChange::Stay) {
            self.change(under.then);
        }
        if under.time != 0 {
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
