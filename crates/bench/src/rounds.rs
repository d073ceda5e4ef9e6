//! Alternating measurements: compared sides are measured within moments, forwards and backwards, so that drift of the
//! machine affects all alike.
//!
//! A round measures every side once, in order in even rounds and in reverse in odd ones (A B B A). The verdict uses the
//! median over rounds of the difference between two sides in the same round, with its bootstrap bounds.
//!
//! Examples with their own alternation share a command line: `main_of`.

use crate::Outcome;
use crate::experiment::Run;
use crate::stats::{Interval, MEDIAN_SAMPLES, median, median_interval, ratio_interval};
use std::path::Path;
use std::process::ExitCode;

/// The `main` of an example with the command line `NAME ROUNDS DIR`: prints the result or the error.
pub fn main_of(name: &str, compare: impl FnOnce(u64, &Path) -> Outcome<String>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [rounds, dir] => rounds.parse().map_err(Into::into).and_then(|rounds| compare(rounds, Path::new(dir))),
        _ => Err(format!("usage: {name} ROUNDS DIR").into()),
    };
    match outcome {
        Ok(found) => {
            println!("{found}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Nanoseconds per operation, by round and side.
pub struct Rounds {
    times: Vec<Vec<f64>>,
    seed: u64,
}

/// Minimum number of rounds for an interval.
pub const LEAST: usize = MEDIAN_SAMPLES;

/// Measures `sides` sides in turn, `rounds` times or until the run's time is over. `measure` returns nanoseconds per
/// operation.
pub fn alternate(
    run: &Run,
    sides: usize,
    rounds: usize,
    mut measure: impl FnMut(usize) -> Outcome<f64>,
) -> Outcome<Rounds> {
    let several = alternate_many(run, sides, rounds, |side| Ok([measure(side)?]))?;
    let [rounds] = several;
    Ok(rounds)
}

/// Like `alternate`, for measurements with several numbers.
pub fn alternate_many<const N: usize>(
    run: &Run,
    sides: usize,
    rounds: usize,
    mut measure: impl FnMut(usize) -> Outcome<[f64; N]>,
) -> Outcome<[Rounds; N]> {
    let mut all: [Rounds; N] = std::array::from_fn(|_| Rounds { times: Vec::new(), seed: run.seed });
    for round in 0..rounds {
        if run.is_over() {
            break;
        }
        let mut times = [const { Vec::new() }; N];
        times.iter_mut().for_each(|times| times.resize(sides, 0.0));
        for turn in 0..sides {
            let side = if round % 2 == 0 { turn } else { sides - 1 - turn };
            for (times, time) in times.iter_mut().zip(measure(side)?) {
                times[side] = time;
            }
        }
        for (rounds, times) in all.iter_mut().zip(times) {
            rounds.times.push(times);
        }
    }
    Ok(all)
}

impl Rounds {
    /// Returns the number of completed rounds.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// Returns the median time of a side.
    pub fn of(&self, side: usize) -> f64 {
        median(&self.times.iter().map(|round| round[side]).collect::<Vec<f64>>())
    }

    /// Returns the bounds of a side's time.
    pub fn interval_of(&self, side: usize) -> Option<Interval> {
        median_interval(&self.times.iter().map(|round| round[side]).collect::<Vec<f64>>(), self.seed)
    }

    /// Returns how many times as fast as `base` the side was: the geometric mean over rounds, from three rounds on.
    pub fn speedup(&self, side: usize, base: usize) -> Option<Interval> {
        self.ratio(|round| round[base] / round[side])
    }

    /// Returns the geometric mean of a ratio that `of` computes from the sides of a round, from three rounds on.
    pub fn ratio(&self, of: impl Fn(&[f64]) -> f64) -> Option<Interval> {
        ratio_interval(&self.times.iter().map(|round| of(round)).collect::<Vec<f64>>(), self.seed)
    }

    /// Returns how many nanoseconds `side` took more than `base`.
    pub fn more(&self, side: usize, base: usize) -> Option<Interval> {
        let more: Vec<f64> = self.times.iter().map(|round| round[side] - round[base]).collect();
        median_interval(&more, self.seed)
    }

    /// Returns how much more `side` took than `base`, in percent of `base` minus the driver's own time.
    pub fn percent(&self, side: usize, base: usize, driver: f64) -> Option<Interval> {
        let more: Vec<f64> = self
            .times
            .iter()
            .map(|round| (round[side] - round[base]) / (round[base] - driver).max(1.0) * 100.0)
            .collect();
        median_interval(&more, self.seed)
    }
}

/// Formats an interval.
pub fn shown(interval: Option<Interval>) -> String {
    match interval {
        Some(Interval { mean, low, high, .. }) => format!("{mean:+.2} ({low:+.2} .. {high:+.2})"),
        None => "undecided".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    fn run() -> Run {
        let until = Instant::now() + Duration::from_secs(60);
        Run { id: "test", scale: 1.0, seed: 1, dir: PathBuf::new(), until }
    }

    #[test]
    fn sides_take_turns_forwards_and_backwards() {
        let mut order = Vec::new();
        let rounds = alternate(&run(), 3, 2, |side| {
            order.push(side);
            Ok(side as f64)
        });
        assert_eq!(order, [0, 1, 2, 2, 1, 0]);
        assert_eq!(rounds.expect("measured").more(2, 0), None, "two rounds say nothing");
    }

    #[test]
    fn a_drift_of_the_machine_cancels_and_a_cost_does_not() {
        let mut clock = 0.0;
        let rounds = alternate(&run(), 2, 12, |side| {
            clock += 100.0;
            Ok(clock + if side == 1 { 7.0 } else { 0.0 })
        });
        let more = rounds.expect("measured").more(1, 0).expect("twelve rounds");
        assert!((more.mean - 7.0).abs() < 1e-9 && more.low <= more.mean && more.mean <= more.high, "{more:?}");
    }

    #[test]
    fn a_speedup_is_of_the_base() {
        let rounds = alternate(&run(), 2, 3, |side| Ok(if side == 1 { 10.0 } else { 40.0 })).expect("measured");
        let speedup = rounds.speedup(1, 0).expect("three rounds");
        assert!((speedup.mean - 4.0).abs() < 1e-9 && speedup.n == 3, "{speedup:?}");
    }

    #[test]
    fn a_run_that_is_over_measures_no_further() {
        let over = Run { until: Instant::now(), ..run() };
        assert_eq!(alternate(&over, 2, 12, |_| Ok(1.0)).expect("measured").count(), 0);
    }
}
