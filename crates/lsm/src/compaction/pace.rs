//! Pace: how fast flushes and compactions may write, if somebody has set a rate.
//!
//! In:     bytes that a job has written.
//! Out:    the job waits until the rate allows more.
//! Holds:  over any time, no more than the rate and a tenth of a second of it in advance. A flush goes first, since writers wait for
//!         it; but of so many turns a compaction that waits gets one, so that neither stands still.
//! Steps:  in stepped mode nobody waits: there is no time there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::env::Env;
use crate::env::work::{Mode, Signal};

/// Turns that flushes take in front of a compaction that waits.
const TURNS: u32 = 4;

/// Nobody waits longer than this without another look at the clock.
const LONGEST: Duration = Duration::from_millis(100);

const SECOND_NANOS: u64 = 1_000_000_000;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Memtables become tables.
    Flush,
    /// Tables become others.
    Compaction,
}

/// The rate, and what is left of it.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes a second; 0: no limit.
    rate: u64,
    state: Signal<Allowance>,
    waited_nanos: AtomicU64,
}

/// What may be written now.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allowance {
    /// Bytes that may be written; below 0: what was written in advance.
    bytes: i64,
    /// When it was reckoned last.
    at: u64,
    /// Flushes that wait.
    flushes: u32,
    /// Turns that flushes took since a compaction began to wait.
    taken: u32,
    compactions: u32,
}

impl Allowance {
    /// Adds what the time since then allows.
    fn reckon(&mut self, now: u64, rate: u64) {
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        let gained = now.saturating_sub(self.at) as i128 * rate as i128 / SECOND_NANOS as i128;
        if gained > 0 {
            self.at = now;
            self.bytes = i64::try_from(self.bytes as i128 + gained).unwrap_or(i64::MAX).min((rate / 10).max(1));
        }
    }

    /// Takes bytes if it is its turn and some are left; it goes below zero by those that were written in advance.
    fn take(&mut self, bytes: u64, turn: Turn) -> bool {
        let is_turn = match turn {
            Turn::Compaction => self.flushes == 0 || self.taken >= TURNS,
            _ => self.compactions == 0 || self.taken < TURNS,
        };
        if self.bytes <= 0 || !is_turn {
            return false;
        }
        self.bytes = self.bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        match turn {
            Turn::Compaction => self.taken = 0,
            _ if self.compactions > 0 => self.taken += 1,
            _ => {}
        }
        true
    }

    /// How long until something may be written.
    fn wait(&self, rate: u64) -> Duration {
        let missing = (1 - self.bytes).max(1) as u128;
        let nanos = missing * SECOND_NANOS as u128 / rate.max(1) as u128;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).clamp(Duration::from_micros(100), LONGEST)
    }

    fn waiting(&mut self, turn: Turn) -> &mut u32 {
        if turn == Turn::Compaction { &mut self.compactions } else { &mut self.flushes }
    }
}

impl Pace {
    /// So many bytes a second; 0: as many as can be written.
    pub fn new(rate: u64) -> Pace {
        Pace { rate, ..Pace::default() }
    }

    /// How long jobs have waited, all together.
    pub fn waited_nanos(&self) -> u64 {
        self.waited_nanos.load(Ordering::Relaxed)
    }

    /// A job has written so many bytes and is done: whoever comes next waits for them.
    pub fn owe(&self, bytes: u64) {
        if self.rate > 0 {
            let mut state = self.state.lock();
            state.bytes = state.bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// A job has written so many bytes: holds it to the rate, if there is one, until `stop` says that it is to end.
    pub fn keep(&self, bytes: u64, turn: Turn, env: &Env, stop: impl Fn() -> bool) {
        if self.rate == 0 || bytes == 0 || env.work == Mode::Stepped {
            return;
        }
        let began = env.clock.monotonic_nanos();
        let mut state = self.state.lock();
        state.reckon(began, self.rate);
        while !state.take(bytes, turn) && !stop() {
            *state.waiting(turn) += 1;
            let wait = state.wait(self.rate);
            state = self.state.wait(state, Some(wait));
            *state.waiting(turn) -= 1;
            state.reckon(env.clock.monotonic_nanos(), self.rate);
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
            while allowance.take(30, Turn::Compaction) {
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
        assert_eq!(allowance.bytes, 1.max(10 / 10));
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
            match allowance.take(1, Turn::Compaction) {
                true => turns.push('c'),
                false => {
                    assert!(allowance.take(1, Turn::Flush));
                    turns.push('f');
                }
            }
        }
        assert_eq!(turns, "ffffcffffc");
        let mut alone = Allowance { bytes: 10, ..Allowance::default() };
        assert!(alone.take(4, Turn::Compaction) && alone.take(400, Turn::Compaction) && !alone.take(1, Turn::Flush));
        assert_eq!(alone.wait(RATE), LONGEST);
    }
}
