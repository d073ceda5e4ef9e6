//! Debt: how far compaction is behind, and what that costs a writer. Pure.
//!
//! A store that takes writes faster than it can merge them must slow them down in time, or stop them later. The price of a byte
//! begins at about nothing and doubles in even steps while the debt grows, so that writers settle at the rate that compaction
//! keeps up with, and none ever waits long. Only memory that is not there stops them, a log at its bound, and a level 0 beyond any use.

use crate::compaction::pick::{BOTTOM, Picture, thousandths, total};
use crate::version::LEVELS;

/// How far flush and compaction are behind, for one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// Bytes that must be rewritten until every level is within its target, estimated.
    pub bytes: u64,
    /// Tables in level 0.
    pub level0: usize,
    /// How full memtables are that are not in tables yet, in thousandths of one, the active one and those that wait together.
    pub memtables: u64,
    /// How much of their part of a memory budget the memtables of all families take, in thousandths.
    pub memory: u64,
    /// How much of its bound the log takes that memtables keep, in thousandths.
    pub log: u64,
}

/// Where waiting begins, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tables in level 0 at which writers begin to slow down, and at which they are slowest.
    pub level0: (usize, usize),
    /// Tables in level 0 at which they stop: a merge below it may take many seconds, and slow writers do not come so far meanwhile. On the way
    /// there large commits may wait longer and longer, to be as slow as small ones.
    pub level0_stop: usize,
    /// Debt in bytes at which writers begin to slow down, and at which they are slowest. It never stops them.
    pub bytes: (u64, u64),
    /// Memtables in thousandths: near the last one's end writers slow down, at it they stop.
    pub memtables: (u64, u64),
}

impl Limits {
    /// Limits for a family: level 0 from three times to nine times its trigger, and 27 times in all; debt from 16 to 256 base levels, or
    /// `SOON_BYTES`: what a disk rewrites within seconds holds nobody back, however small the levels.
    pub fn new(level0_tables: usize, level_base_bytes: u64, memtables: u64) -> Limits {
        let level0 = level0_tables.max(1);
        let bytes = level_base_bytes.saturating_mul(16).max(SOON_BYTES);
        Limits {
            level0: (level0 * 3, level0 * 9),
            level0_stop: level0 * 27,
            bytes: (bytes, bytes.saturating_mul(16)),
            memtables: (memtables * 1000 - BREATH, memtables * 1000),
        }
    }
}

/// The last part of a memtable, in thousandths, in which writers slow down.
const BREATH: u64 = 250;

/// Debt that is worked off within seconds.
const SOON_BYTES: u64 = 1 << 30;

/// What a writer has to do; the greatest of several families counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stall {
    /// Go on.
    Go,
    /// Wait so many nanoseconds for each 1,024 bytes. What is above the worst price says how many times longer than 4 ms a single commit may
    /// wait (`nanos`): one word, that writers read without a lock.
    Delay(u64),
    /// Wait until a flush or compaction is done.
    Stop,
}

/// A byte at the worst costs 2^10 nanoseconds: about one MB a second.
const DOUBLINGS: u64 = 10;
const WORST_PRICE: u64 = 1024 << DOUBLINGS;

/// No single commit waits longer than this for its own bytes: 4 ms; and as long again for each nanosecond of a price above the worst.
const LONGEST_NANOS: u64 = 4_000_000;

/// The debt of a family, as far as it is one of its tables.
pub fn debt(picture: &Picture<'_>) -> Debt {
    let (sizes, targets) = (picture.sizes(), picture.targets());
    let level0 = picture.levels[0].len();
    let is_due = level0 >= picture.shape.level0_tables || sizes[0] > picture.shape.level_base_bytes;
    let mut carried = if is_due { total(&picture.levels[0]) } else { 0 };
    // Level 0 is written once into the base, together with what it overlaps there: all of it, at worst.
    let mut bytes = if is_due { carried.saturating_add(sizes[targets.base]) } else { 0 };
    for level in targets.base..BOTTOM {
        let over = sizes[level].saturating_add(carried).saturating_sub(targets.bytes[level]);
        // Each byte that goes down is written once, and with it as much of the next level as lies under it.
        let under = thousandths(sizes[level + 1], sizes[level].max(1)).min(picture.shape.fanout.saturating_mul(1000));
        bytes = bytes.saturating_add(over).saturating_add((over as u128 * under as u128 / 1000) as u64);
        carried = over;
    }
    Debt { bytes, level0, ..Debt::default() }
}

/// True if the tables of a family are so few and so small that `stall` answers `Go` whatever their levels: no picture of them is needed.
pub fn is_small(level0: usize, bytes: u64, fanout: u64, limits: &Limits) -> bool {
    // All bytes may be over in each level, and each is written with `fanout` others.
    let most = bytes.saturating_mul(fanout.saturating_add(2)).saturating_mul(LEVELS as u64);
    level0 <= limits.level0.0 && most <= limits.bytes.0
}

/// What the debt costs the next writer.
pub fn stall(debt: &Debt, limits: &Limits) -> Stall {
    if debt.memtables >= limits.memtables.1
        || debt.memory >= 1000
        || debt.log >= 1000
        || debt.level0 >= limits.level0_stop
    {
        return Stall::Stop;
    }
    let level0 = ramp(debt.level0 as u64, (limits.level0.0 as u64, limits.level0.1 as u64));
    let memory = ramp(debt.memtables, limits.memtables).max(ramp(debt.memory, (750, 1000)));
    let memory = memory.max(ramp(debt.log, (875, 1000)));
    match memory.max(level0).max(ramp(debt.bytes, limits.bytes)) {
        0 => Stall::Go,
        pressure => {
            let beyond = ramp(debt.level0 as u64, (limits.level0.1 as u64, limits.level0_stop as u64));
            Stall::Delay(price(pressure) + beyond)
        }
    }
}

impl Stall {
    /// How long a commit of so many bytes waits, in nanoseconds; none if it has to wait for somebody's work.
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

/// How far `value` is on the way between two limits, in thousandths.
fn ramp(value: u64, (from, to): (u64, u64)) -> u64 {
    thousandths(value.saturating_sub(from), to.saturating_sub(from)).min(1000)
}

/// Nanoseconds for 1,024 bytes: doubles `DOUBLINGS` times on the way from 0 to 1000, in straight lines between.
fn price(pressure: u64) -> u64 {
    let steps = pressure.min(1000) * DOUBLINGS;
    let (whole, part) = (steps / 1000, steps % 1000);
    let below = 1024 << whole;
    below + below * part / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::pick::{Shape, TableFacts};
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
            greatest_seqno: 1,
            is_busy: false,
            expiry: None,
            is_kept: false,
            is_in_memory: false,
            is_fenced: false,
        }
    }

    const LIMITS: Limits = Limits { level0: (12, 36), level0_stop: 108, bytes: (1000, 9000), memtables: (1750, 2000) };

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

    /// Beyond the tables at which writers are slowest the price is the same; what a large commit may wait grows to four seconds.
    #[test]
    fn large_commits_are_as_slow_as_small_ones_before_level_0_stops_them() {
        let waits =
            |level0: usize, bytes: u64| stall(&Debt { level0, ..Debt::default() }, &LIMITS).nanos(bytes).unwrap();
        assert_eq!([36, 72, 107].map(|tables| waits(tables, 128)), [131_072, 131_134, 131_195]);
        let large = [36, 37, 40, 72, 107].map(|tables| waits(tables, 1 << 20) / 1_000_000);
        assert_eq!(large, [4, 56, 224, 1074, 1074]);
    }

    proptest! {
        /// Tables that count as small without a picture cost nothing in one either.
        #[test]
        fn what_is_small_holds_nobody_back(
            sizes in vec((0..LEVELS, 1u64..100), 0..120), scale in 0u32..24, fanout in 2u64..20, level_base_bytes in 1u64..1 << 20
        ) {
            let shape = Shape { level0_tables: 4, level_base_bytes, fanout, table_bytes: 1 << 20, compressed_from: LEVELS };
            let limits = Limits::new(4, level_base_bytes, 2);
            let mut levels: [Vec<TableFacts<'_>>; LEVELS] = Default::default();
            for (level, size) in &sizes {
                levels[*level].push(facts(size << scale));
            }
            let bytes = sizes.iter().map(|(_, size)| size << scale).sum();
            let is_small = is_small(levels[0].len(), bytes, fanout, &limits);
            let (order, oldest_snapshot) = (Order::bytewise(), MAX_SEQNO);
            let picture = Picture { order: &order, shape, levels, running: &[], oldest_snapshot, expired: 0 };
            prop_assert!(!is_small || stall(&debt(&picture), &limits) == Stall::Go);
        }

        /// Each table more, or each byte more of debt, costs more, but never much more at once.
        #[test]
        fn the_price_grows_smoothly(pressure in 0u64..1000) {
            prop_assert!(price(pressure) < price(pressure + 1));
            prop_assert!(price(pressure + 1) <= price(pressure) + price(pressure) / 50);
        }

        #[test]
        fn any_debt_has_an_answer(
            bytes: u64, level0 in 0usize..100, memtables: u64, memory: u64, log: u64, limits: (u64, u64)
        ) {
            let limits = Limits { bytes: limits, ..LIMITS };
            let _ = stall(&Debt { bytes, level0, memtables, memory, log }, &limits).nanos(bytes);
        }
    }
}
