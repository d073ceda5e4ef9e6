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
    shards: [Shard; SHARDS],
}

/// Counts of some threads, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; KINDS]);

impl Tally {
    #[inline]
    pub(crate) fn add(&self, what: Count) {
        self.shards[shard_of_thread()].0[what as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let sum = |what: Count| self.shards.iter().map(|shard| shard.0[what as usize].load(Relaxed)).sum();
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

/// The shard of this thread: threads take turns, so that as many as there are shards never meet.
#[inline]
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // A thread that is ending has no cell any more.
    let shard = SHARD.try_with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Relaxed));
        }
        shard.get()
    });
    shard.unwrap_or(0) % SHARDS
}
