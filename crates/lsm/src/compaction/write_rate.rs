//! Rate limiter for flushes and compactions, if a rate is configured.
//!
//! In:     bytes that a job has written.
//! Out:    the job waits until the rate allows more.
//! Holds:  over any period, at most the rate plus a tenth of a second in advance. A flush has priority, since writers
//!         wait for it; but after `TURNS` turns of flushes a waiting compaction gets one, so that neither starves.
//! Steps:  in stepped mode no job waits, because time does not advance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::env::Env;
use crate::env::work::{Mode, Signal};

/// Turns that flushes take before a waiting compaction.
const TURNS: u32 = 4;

/// Longest wait before the clock is read again.
const LONGEST: Duration = Duration::from_millis(100);

const SECOND_NANOS: u64 = 1_000_000_000;

/// The priority of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoPriority {
    /// A flush: memtables become tables.
    Flush,
    /// A compaction: tables are merged into others.
    Compaction,
}

/// The rate limiter's rate and state.
#[derive(Debug, Default)]
pub struct WriteRate {
    /// Bytes per second; 0 for no limit.
    rate: AtomicU64,
    state: Signal<Allowance>,
    waited_nanos: AtomicU64,
}

/// The bytes that may be written now.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allowance {
    /// Available bytes; negative for bytes written in advance.
    bytes: i64,
    /// Time of the last refill.
    at: u64,
    /// Number of waiting flushes.
    flushes: u32,
    /// Turns of flushes since a compaction began to wait.
    taken: u32,
    compactions: u32,
}

impl Allowance {
    /// Adds the bytes for the time since the last refill.
    fn reckon(&mut self, now: u64, rate: u64) {
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        let gained = now.saturating_sub(self.at) as i128 * rate as i128 / SECOND_NANOS as i128;
        if gained > 0 {
            self.at = now;
            self.bytes = i64::try_from(self.bytes as i128 + gained).unwrap_or(i64::MAX).min((rate / 10).max(1));
        }
    }

    /// Takes bytes if it is this job's turn and the balance is positive; the balance may become negative.
    fn take(&mut self, bytes: u64, priority: IoPriority) -> bool {
        let is_next = match priority {
            IoPriority::Compaction => self.flushes == 0 || self.taken >= TURNS,
            _ => self.compactions == 0 || self.taken < TURNS,
        };
        if self.bytes <= 0 || !is_next {
            return false;
        }
        self.bytes = self.bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        match priority {
            IoPriority::Compaction => self.taken = 0,
            _ if self.compactions > 0 => self.taken += 1,
            _ => {}
        }
        true
    }

    /// Returns the time until the balance is positive.
    fn wait(&self, rate: u64) -> Duration {
        let missing = (1 - self.bytes).max(1) as u128;
        let nanos = missing * SECOND_NANOS as u128 / rate.max(1) as u128;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).clamp(Duration::from_micros(100), LONGEST)
    }

    fn waiting(&mut self, priority: IoPriority) -> &mut u32 {
        if priority == IoPriority::Compaction { &mut self.compactions } else { &mut self.flushes }
    }
}

impl WriteRate {
    /// Creates a limiter of `rate` bytes per second; 0 for no limit.
    pub fn new(rate: u64) -> WriteRate {
        WriteRate { rate: AtomicU64::new(rate), ..WriteRate::default() }
    }

    /// Changes the rate. Waiting jobs obey it within a tenth of a second.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        self.state.notify_all();
    }

    fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Returns the total time that jobs have waited.
    pub fn waited_nanos(&self) -> u64 {
        self.waited_nanos.load(Ordering::Relaxed)
    }

    /// Charges bytes of a job that has finished: the next job waits for them.
    pub fn owe(&self, bytes: u64) {
        if self.rate() > 0 {
            let mut state = self.state.lock();
            state.bytes = state.bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// Charges bytes of a job and waits as the rate requires, until `stop` returns true.
    pub fn keep(&self, bytes: u64, priority: IoPriority, env: &Env, stop: impl Fn() -> bool) {
        if self.rate() == 0 || bytes == 0 || env.work == Mode::Stepped {
            return;
        }
        let began = env.clock.monotonic_nanos();
        let mut state = self.state.lock();
        state.reckon(began, self.rate());
        while self.rate() > 0 && !state.take(bytes, priority) && !stop() {
            *state.waiting(priority) += 1;
            let wait = state.wait(self.rate());
            state = self.state.wait(state, Some(wait));
            *state.waiting(priority) -= 1;
            state.reckon(env.clock.monotonic_nanos(), self.rate());
        }
        drop(state);
        self.state.notify_all();
        self.waited_nanos.fetch_add(env.clock.monotonic_nanos().saturating_sub(began), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1000;

    fn at(bytes: i64) -> Allowance {
        Allowance { bytes, ..Allowance::default() }
    }

    #[test]
    fn over_any_time_the_rate_is_kept_but_for_a_tenth_of_a_second() {
        let (mut allowance, mut written) = (Allowance::default(), 0);
        for millisecond in 1..=10_000u64 {
            allowance.reckon(millisecond * 1_000_000, RATE);
            while allowance.take(30, IoPriority::Compaction) {
                written += 30;
            }
            let most = millisecond * RATE / 1000 + RATE / 10 + 30;
            assert!(written <= most, "{written} after {millisecond} ms");
        }
        assert!(written >= 9_900, "{written}");
    }

    #[test]
    fn what_is_saved_up_is_a_tenth_of_a_second() {
        let mut allowance = Allowance::default();
        allowance.reckon(3600 * SECOND_NANOS, RATE);
        assert_eq!(allowance.bytes, 100);
        allowance.reckon(u64::MAX, u64::MAX);
        assert!(allowance.bytes > 0);
    }

    #[test]
    fn little_steps_of_time_are_not_lost() {
        let mut allowance = Allowance::default();
        for step in 1..=1_000_000u64 {
            allowance.reckon(step * 1000, 10);
        }
        assert_eq!(allowance.bytes, 1);
        let mut spent = at(-5);
        for step in 1..=600_000u64 {
            spent.reckon(step * 1000, 10);
        }
        assert_eq!(spent.bytes, 1);
    }

    #[test]
    fn a_flush_goes_first_and_a_compaction_gets_its_turn() {
        let mut allowance = Allowance { flushes: 1, compactions: 1, bytes: i64::MAX, ..Allowance::default() };
        let mut turns = String::new();
        for _ in 0..10 {
            match allowance.take(1, IoPriority::Compaction) {
                true => turns.push('c'),
                false => {
                    assert!(allowance.take(1, IoPriority::Flush));
                    turns.push('f');
                }
            }
        }
        assert_eq!(turns, "ffffcffffc");
        let mut alone = Allowance { bytes: 10, ..Allowance::default() };
        assert!(
            alone.take(4, IoPriority::Compaction)
                && alone.take(400, IoPriority::Compaction)
                && !alone.take(1, IoPriority::Flush)
        );
        assert_eq!(alone.wait(RATE), LONGEST);
    }
}
