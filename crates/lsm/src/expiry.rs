//! The clock for record expiry. It never goes back before a time that was used to judge a record as expired.
//!
//! Rule:  a record that was once judged expired stays expired, whatever the system clock does. The clock therefore
//!        remembers the latest expiry that it has judged, the time of the latest snapshot, and the time of the latest
//!        compaction that drops expired records. While the system clock is behind that time, this clock stands still.
//! Disk:  the manifest stores the time of such compactions (change 33), so that a reopened store agrees with what they
//!        dropped.
//! Costs: one relaxed load per judged record with an expiry. Only a new latest expiry causes a write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::env::Clock;
use crate::planted;
use crate::record::Record;
use crate::seam::{Check, Companions, Life, life_of};

/// The system clock, prevented from going back before a time already used.
pub struct ExpiryClock {
    clock: Arc<dyn Clock>,
    /// Microseconds since 1970.
    latest: AtomicU64,
}

/// The time by which a read judges expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsOf(u64);

impl AsOf {
    /// The current time when each record is reached.
    pub const NOW: AsOf = AsOf(u64::MAX);

    /// A fixed time, in microseconds since 1970.
    pub fn micros(micros: u64) -> AsOf {
        AsOf(micros.min(u64::MAX - 1))
    }
}

impl ExpiryClock {
    /// Creates a clock that is not behind `latest`.
    pub fn new(clock: Arc<dyn Clock>, latest: u64) -> ExpiryClock {
        ExpiryClock { clock, latest: AtomicU64::new(latest) }
    }

    /// Returns microseconds since 1970.
    #[inline]
    pub fn now(&self) -> u64 {
        let latest = planted!(ExpiryClockRunsBack, 0, self.latest.load(Ordering::Relaxed));
        self.clock.wall_micros().max(latest)
    }

    /// Returns the current time, and guarantees that no later result is before it.
    pub fn settle(&self) -> u64 {
        let now = self.now();
        self.note(now);
        now
    }

    /// Guarantees that no later result is before `micros`.
    pub fn note(&self, micros: u64) {
        if self.latest.load(Ordering::Relaxed) < micros {
            self.latest.fetch_max(micros, Ordering::Relaxed);
        }
    }

    /// Returns whether a record has expired for a read.
    #[inline]
    pub fn life(&self, protector: &dyn Companions, record: &Record<'_>, as_of: AsOf) -> Life {
        let time = || if as_of == AsOf::NOW { self.now() } else { as_of.0 };
        let life = life_of(protector, record, &time);
        if life == Life::Over {
            self.remember(protector, record);
        }
        life
    }

    #[cold]
    fn remember(&self, protector: &dyn Companions, record: &Record<'_>) {
        if let Some(expiry) = protector.expiry(record) {
            self.note(expiry);
        }
    }
}

/// Statistics of a table's record expiries. A record that must be kept for the history of its key is not counted,
/// whatever its expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiries {
    /// Number of records with an expiry.
    pub count: u64,
    /// The earliest expiry, in microseconds since 1970.
    pub least: u64,
    /// The latest expiry.
    pub greatest: u64,
}

impl Expiries {
    /// Adds one checked record. A record that was not validated counts as never expiring.
    pub fn with(of: Option<Self>, protector: &dyn Companions, record: &Record<'_>, check: Check) -> Option<Self> {
        let is_sure = check == Check::Validated && record.kind.is_value();
        let Some(micros) = protector.expiry(record).filter(|_| is_sure && !protector.retains(record)) else {
            return of;
        };
        let before = of.unwrap_or(Expiries { count: 0, least: micros, greatest: micros });
        let (count, least, greatest) = (before.count + 1, before.least.min(micros), before.greatest.max(micros));
        Some(Expiries { count, least, greatest })
    }

    /// Returns true if some record has expired by a time.
    pub fn any_by(&self, micros: u64) -> bool {
        self.least <= micros
    }

    /// Returns true if every record with an expiry has expired by a time.
    pub fn all_by(&self, micros: u64) -> bool {
        self.greatest <= micros
    }

    /// Estimates how many records have expired by a time, assuming that expiries are evenly distributed.
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
