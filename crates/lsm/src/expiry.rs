//! The time by which records expire. It never runs backwards past what was judged by it.
//!
//! Rule:  a record that was judged expired once stays expired, whatever the system clock does afterwards. The clock therefore remembers the
//!        latest expiry that it has judged, the time of the latest snapshot, and the time of the latest compaction that drops expired
//!        records; while the system clock is behind that, time stands still.
//! Disk:  the manifest keeps the time of such compactions (change 33), so that a reopened store agrees with what they dropped.
//! Costs: a relaxed load per judged record that has an expiry. Only an expiry later than all before it writes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::env::Clock;
use crate::planted::{Bug, active};
use crate::record::Record;
use crate::seam::{Check, Companions, Life, life_of};

/// The system clock, held from running backwards past what was judged by it.
pub struct ExpiryClock {
    clock: Arc<dyn Clock>,
    /// Microseconds since 1970.
    latest: AtomicU64,
}

/// By which time a read judges expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsOf(u64);

impl AsOf {
    /// By the time at which each record is met.
    pub const NOW: AsOf = AsOf(u64::MAX);

    /// By a fixed time, in microseconds since 1970.
    pub fn micros(micros: u64) -> AsOf {
        AsOf(micros.min(u64::MAX - 1))
    }
}

impl ExpiryClock {
    /// A clock that is not behind `latest`.
    pub fn new(clock: Arc<dyn Clock>, latest: u64) -> ExpiryClock {
        ExpiryClock { clock, latest: AtomicU64::new(latest) }
    }

    /// Microseconds since 1970.
    #[inline]
    pub fn now(&self) -> u64 {
        let latest = if active(Bug::ExpiryClockRunsBack) { 0 } else { self.latest.load(Ordering::Relaxed) };
        self.clock.wall_micros().max(latest)
    }

    /// The time now, which no later answer is before.
    pub fn settle(&self) -> u64 {
        let now = self.now();
        self.note(now);
        now
    }

    /// No later answer is before `micros`.
    pub fn note(&self, micros: u64) {
        if self.latest.load(Ordering::Relaxed) < micros {
            self.latest.fetch_max(micros, Ordering::Relaxed);
        }
    }

    /// Whether a record has expired, as a read judges it.
    #[inline]
    pub fn life(&self, keeper: &dyn Companions, record: &Record<'_>, as_of: AsOf) -> Life {
        let time = || if as_of == AsOf::NOW { self.now() } else { as_of.0 };
        let life = life_of(keeper, record, &time);
        if life == Life::Over {
            self.remember(keeper, record);
        }
        life
    }

    #[cold]
    fn remember(&self, keeper: &dyn Companions, record: &Record<'_>) {
        if let Some(expiry) = keeper.expiry(record) {
            self.note(expiry);
        }
    }
}

/// When the records of a table expire. A record that must be kept for the history of its key is not counted, whatever its expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiries {
    /// How many records expire.
    pub count: u64,
    /// The least expiry, in microseconds since 1970.
    pub least: u64,
    /// The greatest.
    pub greatest: u64,
}

impl Expiries {
    /// Those of one more record, which was checked. One that no check has spoken for expires never, and is not counted.
    pub fn with(of: Option<Self>, keeper: &dyn Companions, record: &Record<'_>, check: Check) -> Option<Self> {
        let is_sure = check == Check::Validated && record.kind.is_value();
        let Some(micros) = keeper.expiry(record).filter(|_| is_sure && !keeper.retains(record)) else { return of };
        let before = of.unwrap_or(Expiries { count: 0, least: micros, greatest: micros });
        let (count, least, greatest) = (before.count + 1, before.least.min(micros), before.greatest.max(micros));
        Some(Expiries { count, least, greatest })
    }

    /// True if some record has expired by a time.
    pub fn any_by(&self, micros: u64) -> bool {
        self.least <= micros
    }

    /// True if every record that expires has done so by a time.
    pub fn all_by(&self, micros: u64) -> bool {
        self.greatest <= micros
    }

    /// About how many have expired by a time, as if expiries were spread evenly between the least and the greatest.
    pub fn about_by(&self, micros: u64) -> u64 {
        match (micros.checked_sub(self.least), self.greatest - self.least) {
            (None, _) => 0,
            (Some(passed), spread) if passed >= spread => self.count,
            (Some(passed), spread) => {
                let share = u128::from(self.count) * u128::from(passed) / u128::from(spread);
                u64::try_from(share).unwrap_or(self.count).max(1)
            }
        }
    }
}

impl fmt::Debug for ExpiryClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiryClock").field("latest", &self.latest).finish_non_exhaustive()
    }
}
