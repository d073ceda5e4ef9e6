//! The pace of a traversal: a limit of the bytes that it reads in a second.

use std::sync::Arc;

use waxseal::env::Clock;

/// Shorter waits are left until they add up: a sleep takes some 50 us more than it should.
const LEAST_NAP_NANOS: u64 = 1_000_000;

/// Time that a traversal may make up for after it was slower than its pace, such as after a sleep that took longer.
const CREDIT_NANOS: u64 = 10_000_000;

/// Counts bytes, and sleeps until they are due.
pub(crate) struct Pace {
    clock: Arc<dyn Clock>,
    bytes_per_second: u64,
    /// When the bytes so far are due, in nanoseconds of the clock.
    due: u64,
}

impl Pace {
    /// Returns the pace of a traversal that begins now; `None` for 0, which is unlimited.
    pub(crate) fn new(clock: Arc<dyn Clock>, bytes_per_second: u64) -> Option<Pace> {
        let due = clock.monotonic_nanos();
        (bytes_per_second > 0).then_some(Pace { clock, bytes_per_second, due })
    }

    /// Counts bytes that were read, and sleeps until the next ones may be read.
    pub(crate) fn read(&mut self, bytes: usize) {
        let now = self.clock.monotonic_nanos();
        let cost = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
        let begun = self.due.max(now.saturating_sub(CREDIT_NANOS));
        self.due = begun.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        let ahead = self.due.saturating_sub(now);
        if ahead >= LEAST_NAP_NANOS {
            self.clock.sleep_nanos(ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal::env::ManualClock;

    const MILLIS: u64 = 1_000_000;

    #[test]
    fn bytes_are_read_at_the_pace() {
        let clock = Arc::new(ManualClock::default());
        let of = |bytes_per_second| Pace::new(clock.clone(), bytes_per_second);
        assert!(of(0).is_none());
        let mut pace = of(1_000_000).unwrap();
        // Bytes; milliseconds of other work before; milliseconds since the start, after.
        for (bytes, work, after) in [
            (10_000, 0, 10),
            (10_000, 5, 20), // the caller's own work is part of the time
            (500, 0, 20),    // half a millisecond is left until it adds up
            (500, 0, 21),
            (10_000, 8, 31),
            (10_000, 1000, 1031), // of the second, 10 ms are made up for
            (1_000, 0, 1032),
        ] {
            clock.advance_nanos(work * MILLIS);
            pace.read(bytes);
            assert_eq!(clock.monotonic_nanos(), after * MILLIS, "{bytes} bytes after {work} ms");
        }
        of(1).unwrap().read(usize::MAX); // no overflow
    }
}
