//! A hybrid logical clock: close to the wall clock, and never running backwards.
//!
//! A time has the microseconds since 1970 in its high 52 bits and a counter in the low 12, so times compare as numbers.
//! Each reading is greater than all earlier ones. While the wall clock stands still or steps back, readings count up
//! from the last one; with more than 4,096 readings in a microsecond they run ahead of the wall clock. To continue
//! across restarts, the caller stores the last reading and passes it in.
//!
//! A commit takes `next`, which reads the coarse clock: the microseconds are those of the system's last tick, on Linux at
//! most 10 ms ago, and the counter tells the commits of one tick apart. The engine orders the commit only behind earlier
//! times (`Precondition::at_time`), and later readings follow the last time ordered that way (`follow`). All other
//! callers take `now`.
//!
//! A wall clock beyond the year 2100 is read as 2100, so that a broken clock cannot use up the range of times.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use waxseal_lsm::env;
use waxseal_lsm::error::{Error, Result};

const COUNT_BITS: u32 = 12;

/// The longest time between two ticks of a coarse clock, in microseconds.
pub(crate) const TICK_MICROS: u64 = 10_000;

/// The latest accepted wall time: 2100-01-01, in microseconds.
const LATEST_MICROS: u64 = 4_102_444_800_000_000;

/// The latest time with which a clock may start. It leaves 2^57 further readings.
const LATEST_START: u64 = u64::MAX - (1 << 57);

/// A point in time, unique among the readings of one clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The earliest time.
    pub const FIRST: Time = Time(0);
    /// The latest time.
    pub const LAST: Time = Time(u64::MAX);

    /// Returns the first time of a microsecond since 1970; saturates at `LAST`.
    pub fn from_micros(micros: u64) -> Time {
        if micros >> (u64::BITS - COUNT_BITS) == 0 { Time(micros << COUNT_BITS) } else { Time::LAST }
    }

    /// Returns the microseconds since 1970.
    pub fn micros(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// Returns the counter within the microsecond.
    pub fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }

    /// Returns this time if it is later than `last`, else the time directly after `last`. Used to assign times along an
    /// existing order, such as that of commits.
    #[inline]
    pub fn after(self, last: Time) -> Time {
        Time(self.0.max(last.0.saturating_add(1)))
    }
}

/// True if a moment is longer ago than this, `now` in microseconds since 1970.
pub(crate) fn is_older(time: Time, age: Duration, now: u64) -> bool {
    let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
    time.micros().saturating_add(age) < now
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.micros(), self.count())
    }
}

/// The clock. Any thread may read it; no two readings by `now` are equal.
pub struct EventClock {
    wall: Arc<dyn env::Clock>,
    /// The last reading or observed time.
    last: AtomicU64,
    /// The time of the last commit ordered by time, once a store is attached.
    ordered: OnceLock<Arc<AtomicU64>>,
}

impl EventClock {
    /// Creates a clock without previous readings.
    pub fn new(wall: Arc<dyn env::Clock>) -> EventClock {
        EventClock { wall, last: AtomicU64::new(0), ordered: OnceLock::new() }
    }

    /// Makes readings later than the commit times that `ordered` holds as well. Only the first call has an effect.
    pub fn follow(&self, ordered: Arc<AtomicU64>) {
        let _ = self.ordered.set(ordered);
    }

    /// Returns the next time.
    pub fn now(&self) -> Time {
        let (wall, ordered) = (self.wall(), self.last_ordered());
        let mut last = self.last.load(Relaxed);
        loop {
            let next = wall.after(Time(last.max(ordered)));
            match self.last.compare_exchange_weak(last, next.0, Relaxed, Relaxed) {
                Ok(_) => return next,
                Err(newer) => last = newer,
            }
        }
    }

    /// Returns a time for a commit, later than every reading and every commit so far. No two calls return the same time.
    /// A commit behind one of a later time is rejected, and must call `next` again.
    #[inline]
    pub fn next(&self) -> Time {
        let coarse = Time::from_micros(self.wall.coarse_micros().min(LATEST_MICROS));
        let before = coarse.0.saturating_sub(1).max(self.last_ordered());
        if self.last.load(Relaxed) < before {
            self.last.fetch_max(before, Relaxed);
        }
        Time(self.last.fetch_add(1, Relaxed) + 1)
    }

    /// Returns the latest time that was read, observed or ordered.
    #[inline]
    pub fn last(&self) -> Time {
        Time(self.last.load(Relaxed).max(self.last_ordered()))
    }

    #[inline]
    fn wall(&self) -> Time {
        Time::from_micros(self.wall.wall_micros().min(LATEST_MICROS))
    }

    #[inline]
    fn last_ordered(&self) -> u64 {
        self.ordered.get().map_or(0, |ordered| ordered.load(Acquire))
    }

    /// Makes readings later than `time`, which another clock produced. Errors: `Invalid` for a time so late that hardly
    /// any readings would remain, which no clock produces; nothing changes then.
    pub fn observe(&self, time: Time) -> Result<()> {
        if time.0 > LATEST_START {
            return Err(Error::invalid(format!("{time:?} is no time that a clock gave")));
        }
        self.last.fetch_max(time.0, Relaxed);
        Ok(())
    }
}

impl fmt::Debug for EventClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("last", &self.last()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A wall clock with a settable time.
    #[derive(Default)]
    struct SetClock(AtomicU64);

    impl env::Clock for SetClock {
        fn wall_micros(&self) -> u64 {
            self.0.load(Relaxed)
        }
        fn monotonic_nanos(&self) -> u64 {
            0
        }
    }

    fn starting_after(wall: Arc<dyn env::Clock>, last: Time) -> EventClock {
        let clock = EventClock::new(wall);
        clock.observe(last).unwrap();
        clock
    }

    #[test]
    fn readings_follow_the_wall_and_never_go_back() {
        let wall = Arc::new(SetClock::default());
        let clock = EventClock::new(wall.clone());
        wall.0.store(1000, Relaxed);
        assert_eq!((clock.now(), clock.now()), (Time::from_micros(1000), Time((1000 << 12) + 1)));
        wall.0.store(400, Relaxed);
        assert_eq!(clock.now(), Time((1000 << 12) + 2));
        wall.0.store(1001, Relaxed);
        assert_eq!(clock.now(), Time::from_micros(1001));
        assert_eq!((clock.last().micros(), clock.last().count()), (1001, 0));
        // A restart on a machine whose clock is behind.
        let again = starting_after(Arc::new(SetClock::default()), clock.last());
        assert_eq!(again.now(), Time((1001 << 12) + 1));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the other way to ask")]
    fn readings_are_the_systems_microseconds() {
        let std = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
        let clock = EventClock::new(Arc::new(env::SystemClock::new()));
        let minute = 60_000_000; // far more than a test takes, and far less than a wrong unit makes
        for ours in [clock.next(), clock.now()].map(Time::micros) {
            assert!(ours.abs_diff(std) < minute, "{ours} beside {std}");
        }
    }

    #[test]
    fn a_broken_wall_clock_leaves_numbers_over() {
        let wall = Arc::new(SetClock::default());
        wall.0.store(u64::MAX, Relaxed);
        let clock = EventClock::new(wall);
        assert_eq!(clock.now().micros(), LATEST_MICROS);
        assert!(clock.now() < Time(LATEST_START));
        assert!(clock.observe(Time::LAST).is_err());
        assert_eq!(Time::from_micros(u64::MAX), Time::LAST);
    }

    #[test]
    fn a_million_readings_in_one_instant_are_a_million_times() {
        let clock = EventClock::new(Arc::new(SetClock::default()));
        let read = || (0..125_000).map(|n| if n % 2 == 0 { clock.now() } else { clock.next() }).collect::<Vec<_>>();
        let mut all: Vec<Time> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
            let each = threads.into_iter().map(|thread| thread.join().unwrap());
            each.inspect(|times| assert!(times.is_sorted_by(|a, b| a < b))).flatten().collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_000_000);
        assert_eq!(clock.last(), Time(1_000_000));
    }

    #[test]
    fn readings_go_on_behind_what_was_ordered() {
        let wall = Arc::new(SetClock::default());
        let clock = EventClock::new(wall.clone());
        let ordered = Arc::new(AtomicU64::new(0));
        clock.follow(ordered.clone());
        clock.follow(Arc::new(AtomicU64::new(u64::MAX)));
        assert_eq!([clock.next(), clock.next()], [Time(1), Time(2)]);
        ordered.store(40, Relaxed);
        assert_eq!((clock.last(), clock.next(), clock.now()), (Time(40), Time(41), Time(42)));
        assert_eq!((clock.next(), clock.last(), clock.now()), (Time(43), Time(43), Time(44)));
        wall.0.store(1, Relaxed);
        assert_eq!([clock.next(), clock.next()], [Time::from_micros(1), Time((1 << 12) + 1)]);
        clock.observe(Time::from_micros(3)).unwrap();
        assert_eq!(clock.next(), Time((3 << 12) + 1));
    }

    proptest! {
        #[test]
        fn whatever_the_wall_says_readings_rise(
            steps in vec(prop_oneof![0..5u64, any::<u64>()], 1..20),
            restarts in vec(any::<bool>(), 20),
        ) {
            let wall = Arc::new(SetClock::default());
            let mut clock = EventClock::new(wall.clone());
            let mut last = Time::FIRST;
            for (micros, restart) in steps.into_iter().zip(restarts) {
                wall.0.store(micros, Relaxed);
                if restart {
                    clock = starting_after(wall.clone(), last);
                }
                let now = clock.now();
                prop_assert!(now > last);
                prop_assert!(now.micros() >= micros.min(LATEST_MICROS));
                last = now;
            }
        }
    }
}
