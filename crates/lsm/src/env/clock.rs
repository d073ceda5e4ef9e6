//! Time, wall and monotonic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::work::Signal;

/// A clock that the engine may read.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970. May step in either direction.
    fn wall_micros(&self) -> u64;
    /// Microseconds since 1970 as of the last tick of the system, some milliseconds late, at a fraction of the cost of
    /// `wall_micros`. Never ahead of `wall_micros`. By default the same.
    fn coarse_micros(&self) -> u64 {
        self.wall_micros()
    }
    /// Nanoseconds since an arbitrary start. Never steps back.
    fn monotonic_nanos(&self) -> u64;
    /// Suspends the calling thread. A manual clock advances instead.
    fn sleep_nanos(&self, nanos: u64) {
        let nobody = Signal::new(());
        drop(nobody.wait(nobody.lock(), Some(Duration::from_nanos(nanos))));
    }
}

/// The operating system's clock.
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub fn new() -> SystemClock {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn wall_micros(&self) -> u64 {
        micros_of(ClockId::Realtime)
    }

    /// Linux keeps the time of its last tick (4 ms apart as usual, at most 10), which every watched write reads.
    #[cfg(target_os = "linux")]
    fn coarse_micros(&self) -> u64 {
        micros_of(ClockId::RealtimeCoarse)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// Reads the system's own numbers: a difference of two `SystemTime`s takes twice the work.
#[inline]
fn micros_of(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.max(0) as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Microseconds between two ticks of the coarse time of a manual clock: the most that Linux has.
const TICK_MICROS: u64 = 10_000;

/// A clock that stands still until it is advanced. Wall and monotonic time start together. The coarse time is the wall time
/// at the last multiple of 10 ms.
#[derive(Default)]
pub struct ManualClock {
    nanos: AtomicU64,
    /// Microseconds by which the wall time is behind the monotonic one.
    behind: AtomicU64,
}

impl ManualClock {
    /// Advances the time.
    pub fn advance_nanos(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Steps the wall time back, as a correction of a system clock does. Monotonic time stays.
    pub fn step_back_micros(&self, micros: u64) {
        self.behind.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_micros(&self) -> u64 {
        (self.nanos.load(Ordering::SeqCst) / 1000).saturating_sub(self.behind.load(Ordering::SeqCst))
    }

    fn coarse_micros(&self) -> u64 {
        let wall = self.wall_micros();
        wall - wall % TICK_MICROS
    }

    fn monotonic_nanos(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst)
    }

    fn sleep_nanos(&self, nanos: u64) {
        self.advance_nanos(nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_time_of_a_manual_clock_lags_by_less_than_a_tick() {
        let clock = ManualClock::default();
        for (nanos, wall, coarse) in
            [(0, 0, 0), (9_999_999, 9_999, 0), (1, 10_000, 10_000), (25_000_000, 35_000, 30_000)]
        {
            clock.advance_nanos(nanos);
            assert_eq!((clock.wall_micros(), clock.coarse_micros()), (wall, coarse));
        }
        clock.step_back_micros(10_000);
        assert_eq!((clock.wall_micros(), clock.coarse_micros()), (25_000, 20_000));
    }
}
