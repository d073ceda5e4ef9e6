//! Simulates stores without a clock: a writer, a disk, one flush and one compaction at a time, and the stalls from the
//! debt.
//!
//! Time is the sum of fixed costs per byte written, flushed and merged. All decisions are the engine's own (`pick`,
//! `debt`, `stall`). Keys are random, so that every level-0 table overlaps all data. The results are the waiting times
//! of writers and the evenness of their rate: identical on any machine.

use std::collections::BTreeSet;

use waxseal_lsm::compaction::debt::{Debt, Stall, StallLimits, debt, stall};
use waxseal_lsm::compaction::pick::{
    CompactionPlan, LevelShape, LevelSummary, OutputRange, PlanAction, RangeDeleted, TableFacts, pick,
};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::MAX_SEQNO;
use waxseal_lsm::version::LEVELS;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// Size of a record and of a commit, as in the benchmarks.
const COMMIT: u64 = 128;

/// The parameters of a simulation.
#[derive(Clone, Copy)]
struct Given {
    shape: LevelShape,
    memtable: u64,
    /// Nanoseconds per 1,024 bytes: for the writer's own bytes; for a flush; for the bytes that a merge reads.
    put: u64,
    flush: u64,
    merge: u64,
    /// Maximum number of memtables, as in the store.
    memtables: u64,
    /// Bytes of a commit.
    commit: u64,
}

impl Given {
    /// The defaults, on a disk of 250 MB/s: a writer of 140 MB/s, flushes at disk speed, merges of 100 MB/s.
    fn usual() -> Given {
        let (level_base_bytes, table_bytes) = (256 * MIB, 64 * MIB);
        let shape = LevelShape { level0_tables: 4, level_base_bytes, fanout: 10, table_bytes, compressed_from: LEVELS };
        Given { shape, memtable: 64 * MIB, put: 7_300, flush: 4_100, merge: 10_200, memtables: 2, commit: COMMIT }
    }
}

struct Small {
    number: u64,
    size: u64,
    low: [u8; 4],
    high: [u8; 4],
}

struct Life {
    given: Given,
    limits: StallLimits,
    order: Order,
    now: u64,
    active: u64,
    frozen: Vec<u64>,
    /// End time of the running flush, and the number of memtables it takes.
    flushing: Option<(u64, usize)>,
    merging: Option<(u64, CompactionPlan)>,
    levels: [Vec<Small>; LEVELS],
    next: u64,
    /// The stall caused by the tables, as of their last change.
    by_tables: Stall,
    /// Bytes since the last memtable check.
    unseen: u64,
    current: Stall,
    /// Bytes written by users, per second; bytes written by jobs.
    seconds: Vec<u64>,
    written: u64,
    longest: u64,
    /// The largest number of bytes in memtables.
    most: u64,
    stopped: u64,
    merged_nanos: u64,
}

impl Life {
    fn new(given: Given) -> Life {
        Life {
            given,
            limits: StallLimits::new(given.shape.level0_tables, given.shape.level_base_bytes, given.memtables),
            order: Order::bytewise(),
            now: 0,
            active: 0,
            frozen: Vec::new(),
            flushing: None,
            merging: None,
            levels: Default::default(),
            next: 1,
            by_tables: Stall::Go,
            unseen: 0,
            current: Stall::Go,
            seconds: Vec::new(),
            written: 0,
            longest: 0,
            most: 0,
            stopped: 0,
            merged_nanos: 0,
        }
    }

    fn ask<A>(&self, jobs: bool, question: impl FnOnce(&LevelSummary<'_>) -> A) -> A {
        let plan = self.merging.as_ref().map(|(_, plan)| plan).filter(|_| jobs);
        let busy: BTreeSet<u64> =
            plan.iter().flat_map(|plan| plan.inputs.iter().flat_map(|(_, numbers)| numbers)).copied().collect();
        let running: Vec<OutputRange> = plan.iter().map(|plan| plan.span.clone()).collect();
        let facts = |level: usize| {
            let tables = self.levels[level].iter().map(|table| TableFacts {
                number: table.number,
                size: table.size,
                smallest: &table.low,
                largest: &table.high,
                entries: table.size / COMMIT,
                tombstones: 0,
                hidden: 0,
                greatest_seqno: table.number,
                is_busy: busy.contains(&table.number),
                expiry: None,
                is_kept: false,
                is_in_memory: false,
                may_filter: false,
                is_fenced: false,
                range_deleted: RangeDeleted::No,
                retains_nothing: false,
            });
            tables.collect()
        };
        question(&LevelSummary {
            order: &self.order,
            shape: self.given.shape,
            levels: std::array::from_fn(facts),
            running: &running,
            oldest_snapshot: MAX_SEQNO,
            expired: 0,
        })
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Starts due jobs, and recomputes the stall.
    fn conduct(&mut self, tables_changed: bool) {
        if self.flushing.is_none() && !self.frozen.is_empty() {
            let bytes: u64 = self.frozen.iter().sum();
            self.flushing = Some((self.now + bytes * self.given.flush / KIB, self.frozen.len()));
        }
        if self.merging.is_none()
            && let Some(plan) = self.ask(true, pick)
        {
            let bytes = if plan.action == PlanAction::Move { 0 } else { self.bytes_of(&plan) };
            let nanos = bytes * self.given.merge / KIB;
            self.merged_nanos += nanos;
            self.written += bytes;
            self.merging = Some((self.now + nanos, plan));
        }
        if tables_changed {
            let owed = self.ask(false, debt);
            self.by_tables = stall(&owed, &self.limits);
        }
        self.look();
    }

    fn look(&mut self) {
        let memtables = self.frozen.iter().chain([&self.active]).map(|bytes| bytes * 1000 / self.given.memtable);
        let by_memory = stall(&Debt { memtables: memtables.sum(), ..Debt::default() }, &self.limits);
        self.current = self.by_tables.max(by_memory);
        self.unseen = 0;
    }

    fn bytes_of(&self, plan: &CompactionPlan) -> u64 {
        let of = |(level, numbers): &(usize, Vec<u64>)| {
            self.levels[*level]
                .iter()
                .filter(|table| numbers.contains(&table.number))
                .map(|table| table.size)
                .sum::<u64>()
        };
        plan.inputs.iter().map(of).sum()
    }

    /// Completes the next job that ends by a given time.
    fn end_one(&mut self, until: u64) -> bool {
        let flush = self.flushing.map_or(u64::MAX, |(at, _)| at);
        let merge = self.merging.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let at = flush.min(merge);
        if at > until {
            return false;
        }
        self.now = self.now.max(at);
        if at == flush {
            self.end_flush();
        } else {
            self.end_merge();
        }
        self.conduct(true);
        true
    }

    fn end_flush(&mut self) {
        let Some((_, count)) = self.flushing.take() else { return };
        let size = self.frozen.drain(..count).sum();
        let number = self.number();
        self.written += size;
        self.levels[0].insert(0, Small { number, size, low: [0; 4], high: [255; 4] });
    }

    fn end_merge(&mut self) {
        let Some((_, plan)) = self.merging.take() else { return };
        let (bytes, mut moved) = (self.bytes_of(&plan), Vec::new());
        for (level, numbers) in &plan.inputs {
            let tables = std::mem::take(&mut self.levels[*level]);
            let (goes, stays) = tables.into_iter().partition(|table: &Small| numbers.contains(&table.number));
            self.levels[*level] = stays;
            moved.extend::<Vec<_>>(goes);
        }
        if plan.action == PlanAction::Merge {
            let (low, high) = (as_number(&plan.span.smallest), as_number(&plan.span.largest));
            let count = bytes.div_ceil(self.given.shape.table_bytes).clamp(1, high - low + 1);
            moved = (0..count)
                .map(|at| Small {
                    number: self.number(),
                    size: bytes / count,
                    low: as_key(low + (high - low + 1) * at / count),
                    high: as_key(low + (high - low + 1) * (at + 1) / count - 1),
                })
                .collect();
        }
        let level = &mut self.levels[plan.output_level];
        level.extend(moved);
        level.sort_by_key(|table| table.low);
    }

    /// Writes `bytes` bytes, in pieces of many commits: each waits for itself.
    fn put(&mut self, bytes: u64) {
        let commit = self.given.commit;
        let piece = (self.given.memtable / 256).clamp(commit, commit.max(64 * KIB));
        let mut left = bytes;
        while left > 0 {
            let began = self.now;
            while self.current == Stall::Stop {
                assert!(self.end_one(u64::MAX), "writers wait for what nobody does");
                self.stopped = self.stopped.max(self.now - began);
            }
            let waits = self.current.nanos(commit).unwrap_or(0);
            self.longest = self.longest.max(waits);
            let until = self.now + piece * self.given.put / KIB + waits * piece / commit;
            while self.end_one(until) {}
            self.now = until;
            let second = (self.now / SECOND) as usize;
            self.seconds.resize(self.seconds.len().max(second + 1), 0);
            self.seconds[second] += piece;
            (self.active, self.unseen, left) = (self.active + piece, self.unseen + piece, left.saturating_sub(piece));
            self.most = self.most.max(self.active + self.frozen.iter().sum::<u64>());
            if self.active >= self.given.memtable {
                self.frozen.push(std::mem::take(&mut self.active));
                self.conduct(false);
            } else if !self.frozen.is_empty() && self.unseen >= self.given.memtable / 64 {
                self.look();
            }
        }
    }

    /// Returns the rates of all whole seconds from `second` on, sorted.
    fn rates_from(&self, second: usize) -> Vec<u64> {
        let mut rates = self.seconds[second..self.seconds.len() - 1].to_vec();
        rates.sort_unstable();
        rates
    }
}

fn as_number(key: &[u8]) -> u64 {
    key.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn as_key(number: u64) -> [u8; 4] {
    [24, 16, 8, 0].map(|shift| (number >> shift) as u8)
}

/// Summarizes the run, for assertion messages.
fn told(life: &Life) -> String {
    let mib: Vec<u64> = life.seconds.iter().map(|bytes| bytes / MIB).collect();
    let levels: Vec<(usize, u64)> =
        life.levels.iter().map(|level| (level.len(), level.iter().map(|table| table.size / MIB).sum())).collect();
    let (longest, stopped) = (life.longest, life.stopped);
    format!("longest {longest} stopped {stopped} written {} MiB, rates {mib:?}, levels {levels:?}", life.written / MIB)
}

/// Does not yet check that the rate is even. It varies as level 0 fills while deeper levels are merged, and drops to
/// 1/6 of the median second.
#[test]
fn a_writer_faster_than_compaction_is_slowed_and_never_stopped() {
    let mut life = Life::new(Given::usual());
    life.put(12 << 30);
    let rates = life.rates_from(20);
    assert_eq!(life.stopped, 0, "{}", told(&life));
    assert!(life.longest <= 4_000_000, "{}", told(&life));
    assert!(life.merged_nanos * 10 >= life.now * 9, "compaction stands still: {}", told(&life));
    assert!(life.written <= 4 * (12 << 30), "{}", told(&life));
    let (median, worst) = (rates[rates.len() / 2], rates[0]);
    assert!(worst * 8 >= median, "{}", told(&life));
}

#[test]
fn flushes_that_are_slower_than_a_writer_slow_it_down_before_memory_is_gone() {
    for memtable in [4 * MIB, 64 * MIB] {
        let mut life = Life::new(Given { memtable, flush: 12_000, merge: 100, ..Given::usual() });
        life.put(64 * memtable);
        assert_eq!(life.stopped, 0, "{}", told(&life));
        let seconds = life.now as f64 / SECOND as f64;
        let share = 64.0 * memtable as f64 * 12_000.0 / KIB as f64 / SECOND as f64 / seconds;
        assert!(share > 0.9, "flushes stand still: {share}, {}", told(&life));
        assert!(life.most <= 2 * memtable, "{} bytes in memtables of {memtable}", life.most);
    }
}

#[test]
fn small_levels_hold_nobody_back_while_their_debt_is_small() {
    let usual = Given::usual();
    let shape = LevelShape { level_base_bytes: 128 * KIB, table_bytes: 64 * KIB, ..usual.shape };
    let mut life = Life::new(Given { shape, memtable: 7 * MIB, ..usual });
    life.put(40 * MIB);
    assert_eq!((life.longest, life.stopped), (0, 0), "{}", told(&life));
}

/// With tiny tables a merge writes thousands of files, syncs each, and takes many seconds; level 0 grows meanwhile.
#[test]
fn a_merge_of_many_seconds_slows_writers_and_stops_none() {
    let usual = Given::usual();
    let shape = LevelShape { table_bytes: 64 * KIB, ..usual.shape };
    let mut life = Life::new(Given { shape, memtable: 4 * MIB, merge: 60_000, ..usual });
    life.put(640 * MIB);
    let merged: u64 = life.levels[1..].iter().flatten().map(|table| table.size).sum();
    assert!(merged > 256 * MIB && life.longest > 0, "nothing was merged for long: {}", told(&life));
    assert_eq!(life.stopped, 0, "{}", told(&life));
    assert!(life.longest <= 4_000_000, "{}", told(&life));
}

/// Batches of 1 MiB wait no longer each than small commits, and so arrive too fast for flushes: the writer waits for
/// these, and the memory limit holds.
#[test]
fn batches_wait_for_flushes_before_memory_is_more_than_two_memtables() {
    let mut life = Life::new(Given { flush: 12_000, merge: 100, commit: MIB, ..Given::usual() });
    life.put(1 << 32);
    assert!(life.most <= 2 * life.given.memtable + MIB, "{} bytes in memtables", life.most);
    assert!(life.stopped <= life.given.memtable * life.given.flush / KIB, "{}", told(&life));
}

/// The same for batches of 1 MiB, which would otherwise wait 4 ms each, and so arrive at 250 MB per second.
#[test]
fn batches_are_slowed_before_level_0_stops_them_too() {
    let mut life = Life::new(Given { merge: 200_000, commit: MIB, ..Given::usual() });
    life.put(12 << 30);
    let merged: u64 = life.levels[1..].iter().flatten().map(|table| table.size).sum();
    assert!(merged > 4 << 30 && life.longest > 4_000_000, "nothing was merged for long: {}", told(&life));
    assert_eq!(life.stopped, 0, "{}", told(&life));
}
