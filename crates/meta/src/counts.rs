//! Counters of a record protector, without a cache line shared by two busy cores.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters of a record protector since its creation. Successful checks are not counted: the counter would cost a read
/// more than the seal check itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SealCounts {
    /// Seals computed for new operations.
    pub computed: u64,
    /// Correct seals that callers supplied.
    pub given: u64,
    /// Seals computed for merge results of verified inputs.
    pub derived: u64,
    /// Seals computed for adopted records: those from sources that do not guarantee seals.
    pub adopted: u64,
    /// Damaged seal words rewritten from intact records.
    pub mended: u64,
    /// Records written to a table without a seal.
    pub unsealed: u64,
    /// Checks that found no seal although the source guarantees one.
    pub missing: u64,
    /// Checks that found an intact record with a damaged companion.
    pub hit: u64,
    /// Checks that found a record that does not match its seal.
    pub corrupted: u64,
}

/// The counters, in the order of the fields of `SealCounts`.
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

/// The counters, spread over threads.
#[derive(Debug, Default)]
pub(crate) struct CountShards {
    /// One shard for each of the first threads, which add to it without a locked instruction.
    own: [Shard; SHARDS],
    /// A shard shared by all later threads.
    shared: [Shard; SHARDS],
}

/// The counters of one thread or of several, on their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; KINDS]);

impl CountShards {
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

    pub(crate) fn counts(&self) -> SealCounts {
        let shards = || self.own.iter().chain(&self.shared);
        let sum = |what: Count| shards().map(|shard| shard.0[what as usize].load(Relaxed)).sum();
        SealCounts {
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

/// Returns the unique number of this thread. A thread that is exiting has none and uses a shared shard.
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
        let tally = CountShards::default();
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
