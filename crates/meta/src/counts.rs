//! What a keeper has done, counted without a cache line that two busy cores share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What a keeper has done since it was made. Records that were checked and found right are not counted: a count would cost a read
/// more than its seal does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Seals made for new operations.
    pub computed: u64,
    /// Seals that callers gave, and that were right.
    pub given: u64,
    /// Seals made for results of verified inputs.
    pub derived: u64,
    /// Seals made, and marked, for records of places that promise none.
    pub adopted: u64,
    /// Seals that were hit, and written anew from records that are right.
    pub mended: u64,
    /// Records that went into a table without a seal.
    pub unsealed: u64,
    /// Checks that found no seal where one was promised.
    pub missing: u64,
    /// Checks that found a right record beside a companion that was hit.
    pub hit: u64,
    /// Checks that found a record not to match its seal.
    pub corrupted: u64,
}

/// What is counted; the order is that of the fields of `Counts`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    Computed,
    Given,
    Derived,
    Adopted,
    Mended,
    Unsealed,
    Missing,
    Hit,
    Corrupted,
}

const KINDS: usize = 9;
const SHARDS: usize = 16;

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Of the first threads, one each, which therefore add without a locked instruction.
    own: [Shard; SHARDS],
    /// Of the threads that came later.
    shared: [Shard; SHARDS],
}

/// Counts of one thread, or of some, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; KINDS]);

impl Tally {
    #[inline]
    pub(crate) fn add(&self, what: Count) {
        let thread = number_of_thread();
        match self.own.get(thread) {
            Some(Shard(counts)) => {
                let count = &counts[what as usize];
                count.store(count.load(Relaxed) + 1, Relaxed);
            }
            None => {
                self.shared[thread % SHARDS].0[what as usize].fetch_add(1, Relaxed);
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let shards = || self.own.iter().chain(&self.shared);
        let sum = |what: Count| shards().map(|shard| shard.0[what as usize].load(Relaxed)).sum();
        Counts {
            computed: sum(Count::Computed),
            given: sum(Count::Given),
            derived: sum(Count::Derived),
            adopted: sum(Count::Adopted),
            mended: sum(Count::Mended),
            unsealed: sum(Count::Unsealed),
            missing: sum(Count::Missing),
            hit: sum(Count::Hit),
            corrupted: sum(Count::Corrupted),
        }
    }
}

/// The number of this thread, which no other has. One that is ending has none any more: then it is as those that came late.
#[inline]
fn number_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let number = NUMBER.try_with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Relaxed));
        }
        number.get()
    });
    number.unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_threads_and_late_ones_lose_no_count() {
        let tally = Tally::default();
        let count = || (0..1000).for_each(|_| tally.add(Count::Computed));
        std::thread::scope(|scope| {
            for _ in 0..3 * SHARDS {
                scope.spawn(count);
            }
        });
        assert_eq!(tally.counts().computed, 3 * SHARDS as u64 * 1000);
        let late: u64 = tally.shared.iter().map(|shard| shard.0[Count::Computed as usize].load(Relaxed)).sum();
        assert!(late >= 2 * SHARDS as u64 * 1000, "not so many are early");
    }
}
