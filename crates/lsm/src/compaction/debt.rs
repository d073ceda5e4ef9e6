//! Compaction debt: how far compaction is behind, and the resulting write stalls. Pure.
//!
//! A store that accepts writes faster than it can merge them must slow them down in time, or stop them later. The delay
//! per byte starts near zero and doubles in even steps as the debt grows. So writers settle at the rate that compaction
//! sustains, and no write waits long. Writers stop only if memory is exhausted, the log is at its limit, or level 0 is
//! too large for useful reads.

use super::plan::{BOTTOM, LevelSummary, thousandths, total};
use crate::version::LEVELS;

/// Share of the log's limit, in thousandths, from which the log delays writers.
pub const LOG_DELAY_FROM: u64 = 875;

/// How far flush and compaction are behind, for one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// Estimated bytes to rewrite until every level is within its target.
    pub bytes: u64,
    /// Tables in level 0.
    pub level0: usize,
    /// Fill level of the unflushed memtables, the active one and the waiting ones together, in thousandths of a
    /// memtable.
    pub memtables: u64,
    /// Share of the memory budget for memtables that those of all families use, in thousandths.
    pub memory: u64,
    /// Share of the log's size limit that is in use because of memtables, in thousandths.
    pub log: u64,
}

/// The thresholds at which delays begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallLimits {
    /// Numbers of level-0 tables at which writers begin to slow down, and at which the delay is greatest.
    pub level0: (usize, usize),
    /// Number of level-0 tables at which writers stop: a merge below may take many seconds, and slowed writers do not
    /// reach this number meanwhile. Up to it, large commits may wait longer and longer, to be as slow as small ones.
    pub level0_stop: usize,
    /// Debt in bytes at which writers begin to slow down, and at which the delay is greatest. It never stops them.
    pub bytes: (u64, u64),
    /// Memtable fill in thousandths: writers slow down near the end of the last memtable, and stop at its end.
    pub memtables: (u64, u64),
}

impl StallLimits {
    /// Returns the limits of a family. Level 0: from three to nine times its trigger, and a stop at 27 times. Debt:
    /// from 16 to 256 base levels, but at least `SOON_BYTES`: a debt that a disk works off within seconds causes no
    /// delay, however small the levels.
    pub fn new(level0_tables: usize, level_base_bytes: u64, memtables: u64) -> StallLimits {
        let level0 = level0_tables.max(1);
        let bytes = level_base_bytes.saturating_mul(16).max(SOON_BYTES);
        StallLimits {
            level0: (level0 * 3, level0 * 9),
            level0_stop: level0 * 27,
            bytes: (bytes, bytes.saturating_mul(16)),
            memtables: (memtables * 1000 - BREATH, memtables * 1000),
        }
    }
}

/// The last part of a memtable, in thousandths, in which writers slow down.
const BREATH: u64 = 250;

/// A debt that is worked off within seconds.
const SOON_BYTES: u64 = 1 << 30;

/// The stall of a writer; of several families, the greatest applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stall {
    /// No delay.
    Go,
    /// Wait this many nanoseconds per 1,024 bytes. The part above the worst price is the factor by which a single
    /// commit may wait longer than 4 ms (`nanos`): it is packed into one word, which writers read without a lock.
    Delay(u64),
    /// Wait until a flush or compaction has finished.
    Stop,
}

/// The worst price is 2^10 nanoseconds per byte: about one MB per second.
const DOUBLINGS: u64 = 10;
const WORST_PRICE: u64 = 1024 << DOUBLINGS;

/// Longest wait of a single commit for its own bytes: 4 ms, plus 4 ms for each nanosecond by which the price exceeds
/// the worst.
const LONGEST_NANOS: u64 = 4_000_000;

/// Returns the debt of a family, as far as its tables determine it.
pub fn debt(summary: &LevelSummary<'_>) -> Debt {
    let (sizes, targets) = (summary.sizes(), summary.targets());
    let level0 = summary.levels[0].len();
    let is_due = level0 >= summary.shape.level0_tables || sizes[0] > summary.shape.level_base_bytes;
    let mut carried = if is_due { total(&summary.levels[0]) } else { 0 };
    // Level 0 is written once into the base, together with the tables it overlaps there: in the worst case all of them.
    let mut bytes = if is_due { carried.saturating_add(sizes[targets.base]) } else { 0 };
    for level in targets.base..BOTTOM {
        let over = sizes[level].saturating_add(carried).saturating_sub(targets.bytes[level]);
        // Each byte that moves down is written once, together with the overlapping part of the next level.
        let under = thousandths(sizes[level + 1], sizes[level].max(1)).min(summary.shape.fanout.saturating_mul(1000));
        bytes = bytes.saturating_add(over).saturating_add((over as u128 * under as u128 / 1000) as u64);
        carried = over;
    }
    Debt { bytes, level0, ..Debt::default() }
}

/// True if the tables of a family are so few and small that `stall` returns `Go` for any distribution over the levels:
/// no level summary is needed.
pub fn is_small(level0: usize, bytes: u64, fanout: u64, limits: &StallLimits) -> bool {
    // In the worst case all bytes are in excess at each level, and each is written with `fanout` others.
    let most = bytes.saturating_mul(fanout.saturating_add(2)).saturating_mul(LEVELS as u64);
    level0 <= limits.level0.0 && most <= limits.bytes.0
}

/// Returns the stall that the debt imposes on the next writer.
pub fn stall(debt: &Debt, limits: &StallLimits) -> Stall {
    if debt.memtables >= limits.memtables.1
        || debt.memory >= 1000
        || debt.log >= 1000
        || debt.level0 >= limits.level0_stop
    {
        return Stall::Stop;
    }
    let level0 = ramp(debt.level0 as u64, (limits.level0.0 as u64, limits.level0.1 as u64));
    let memory = ramp(debt.memtables, limits.memtables).max(ramp(debt.memory, (750, 1000)));
    let memory = memory.max(ramp(debt.log, (LOG_DELAY_FROM, 1000)));
    match memory.max(level0).max(ramp(debt.bytes, limits.bytes)) {
        0 => Stall::Go,
        pressure => {
            let beyond = ramp(debt.level0 as u64, (limits.level0.1 as u64, limits.level0_stop as u64));
            Stall::Delay(price(pressure) + beyond)
        }
    }
}

impl Stall {
    /// Returns how long a commit of `bytes` bytes waits, in nanoseconds; `None` if the commit must wait for a
    /// background job.
    pub fn nanos(self, bytes: u64) -> Option<u64> {
        match self {
            Stall::Go => Some(0),
            Stall::Delay(price) => {
                let longest = LONGEST_NANOS.saturating_mul(1 + price.saturating_sub(WORST_PRICE));
                Some((price as u128 * bytes as u128 / 1024).min(longest as u128) as u64)
            }
            Stall::Stop => None,
        }
    }
}

/// Returns the position of `value` between two limits, in thousandths.
fn ramp(value: u64, (from, to): (u64, u64)) -> u64 {
    thousandths(value.saturating_sub(from), to.saturating_sub(from)).min(1000)
}

/// Returns the nanoseconds per 1,024 bytes: doubles `DOUBLINGS` times between pressures 0 and 1000, linear in between.
fn price(pressure: u64) -> u64 {
    let steps = pressure.min(1000) * DOUBLINGS;
    let (whole, part) = (steps / 1000, steps % 1000);
    let below = 1024 << whole;
    below + below * part / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::plan::{LevelShape, TableFacts};
    use crate::order::Order;
    use crate::record::MAX_SEQNO;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn facts(size: u64) -> TableFacts<'static> {
        TableFacts {
            number: 1,
            size,
            smallest: b"a",
            largest: b"b",
            entries: 1,
            tombstones: 0,
            hidden: 0,
            may_filter: false,
            greatest_seqno: 1,
            is_busy: false,
            expiry: None,
            is_kept: false,
            is_in_memory: false,
            is_fenced: false,
            range_deleted: crate::compaction::RangeDeleted::No,
            retains_nothing: false,
        }
    }

    const LIMITS: StallLimits =
        StallLimits { level0: (12, 36), level0_stop: 108, bytes: (1000, 9000), memtables: (1750, 2000) };

    #[test]
    fn a_store_that_keeps_up_costs_nothing() {
        let debt = Debt { bytes: 1000, level0: 12, memtables: 1750, memory: 750, log: 875 };
        assert_eq!(stall(&debt, &LIMITS), Stall::Go);
    }

    #[test]
    fn only_memory_the_log_and_level_0_stop() {
        let stops = |debt: Debt| stall(&debt, &LIMITS) == Stall::Stop;
        assert!(stops(Debt { level0: 108, ..Debt::default() }));
        assert!(stops(Debt { memtables: 2000, ..Debt::default() }));
        assert!(stops(Debt { memory: 1000, ..Debt::default() }));
        assert!(stops(Debt { log: 1000, ..Debt::default() }));
        assert!(!stops(Debt { bytes: u64::MAX, level0: 107, memtables: 1999, memory: 999, log: 999 }));
    }

    #[test]
    fn no_commit_waits_longer_than_four_milliseconds_for_its_bytes() {
        let worst = stall(&Debt { bytes: u64::MAX, ..Debt::default() }, &LIMITS);
        assert_eq!(worst, Stall::Delay(1 << 20));
        assert_eq!(worst.nanos(100), Some(102_400));
        assert_eq!(worst.nanos(1 << 30), Some(4_000_000));
    }

    /// Beyond the table count with the greatest delay the price stays the same; the longest wait of a large commit
    /// grows to four seconds.
    #[test]
    fn large_commits_are_as_slow_as_small_ones_before_level_0_stops_them() {
        let waits =
            |level0: usize, bytes: u64| stall(&Debt { level0, ..Debt::default() }, &LIMITS).nanos(bytes).unwrap();
        assert_eq!([36, 72, 107].map(|tables| waits(tables, 128)), [131_072, 131_134, 131_195]);
        let large = [36, 37, 40, 72, 107].map(|tables| waits(tables, 1 << 20) / 1_000_000);
        assert_eq!(large, [4, 56, 224, 1074, 1074]);
    }

    proptest! {
        /// Tables that count as small without a summary cause no stall with one either.
        #[test]
        fn what_is_small_holds_nobody_back(
            sizes in vec((0..LEVELS, 1u64..100), 0..120), scale in 0u32..24, fanout in 2u64..20, level_base_bytes in 1u64..1 << 20
        ) {
            let shape = LevelShape { level0_tables: 4, level_base_bytes, fanout, table_bytes: 1 << 20, compressed_from: LEVELS };
            let limits = StallLimits::new(4, level_base_bytes, 2);
            let mut levels: [Vec<TableFacts<'_>>; LEVELS] = Default::default();
            for (level, size) in &sizes {
                levels[*level].push(facts(size << scale));
            }
            let bytes = sizes.iter().map(|(_, size)| size << scale).sum();
            let is_small = is_small(levels[0].len(), bytes, fanout, &limits);
            let (order, oldest_snapshot) = (Order::bytewise(), MAX_SEQNO);
            let summary = LevelSummary { order: &order, shape, levels, running: &[], oldest_snapshot, expired: 0 };
            prop_assert!(!is_small || stall(&debt(&summary), &limits) == Stall::Go);
        }

        /// Each additional table or byte of debt raises the price, but never by much at once.
        #[test]
        fn the_price_grows_smoothly(pressure in 0u64..1000) {
            prop_assert!(price(pressure) < price(pressure + 1));
            prop_assert!(price(pressure + 1) <= price(pressure) + price(pressure) / 50);
        }

        #[test]
        fn any_debt_has_an_answer(
            bytes: u64, level0 in 0usize..100, memtables: u64, memory: u64, log: u64, limits: (u64, u64)
        ) {
            let limits = StallLimits { bytes: limits, ..LIMITS };
            let _ = stall(&Debt { bytes, level0, memtables, memory, log }, &limits).nanos(bytes);
        }
    }
}
