//! Gates: a number, a threshold, a line, and an exit code for all.

use crate::Outcome;
use crate::stats::{Interval, Verdict, Wanted, judge};
use serde::Serialize;
use std::path::Path;

/// A decided gate. The printed line has the first six fields; the file has all.
#[derive(Clone, Debug, Serialize)]
pub struct Gate {
    /// PASS, FAIL or INCONCLUSIVE.
    pub verdict: &'static str,
    /// Id of the gate.
    pub id: String,
    /// Name of the measured quantity.
    pub metric: String,
    /// Measured value; absent if nothing could be measured.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// Required value.
    pub threshold: f64,
    /// Lower confidence bound.
    pub ci_low: Option<f64>,
    /// Upper confidence bound.
    pub ci_high: Option<f64>,
    /// Number of samples.
    pub n: usize,
    /// The seed of the run.
    pub seed: u64,
    /// Scale of the run; 1 is the full size.
    pub scale: f64,
}

impl Gate {
    /// Makes a gate from an interval and a threshold.
    #[expect(
        clippy::too_many_arguments,
        reason = "a gate is this row, and it is built in one place of each experiment"
    )]
    pub fn judged(
        id: &str,
        metric: &str,
        unit: &'static str,
        interval: Option<Interval>,
        wanted: Wanted,
        threshold: f64,
        seed: u64,
        scale: f64,
    ) -> Gate {
        Gate {
            verdict: word(judge(interval, wanted, threshold)),
            id: id.into(),
            metric: metric.into(),
            value: interval.map(|interval| interval.mean),
            unit,
            threshold,
            ci_low: interval.map(|interval| interval.low),
            ci_high: interval.map(|interval| interval.high),
            n: interval.map_or(0, |interval| interval.n),
            seed,
            scale,
        }
    }

    /// Makes a gate for a count that must be zero. One occurrence fails; none passes only after enough trials. The
    /// upper bound is that of the rate: three divided by the number of trials.
    pub fn none_allowed(id: &str, metric: &str, count: u64, trials: usize, enough: usize, seed: u64) -> Gate {
        let verdict = match (count, trials >= enough) {
            (1.., _) => Verdict::Fail,
            (0, true) => Verdict::Pass,
            (0, false) => Verdict::Inconclusive,
        };
        Gate {
            verdict: word(verdict),
            id: id.into(),
            metric: metric.into(),
            value: Some(count as f64),
            unit: "count",
            threshold: 0.0,
            ci_low: Some(0.0),
            ci_high: (trials > 0).then(|| 3.0 / trials as f64),
            n: trials,
            seed,
            scale: 1.0,
        }
    }

    /// Returns the gate as failed, for a reason other than its number.
    pub fn failed(self, why: &str) -> Gate {
        Gate { verdict: word(Verdict::Fail), metric: format!("{}_but_{why}", self.metric), ..self }
    }

    /// Returns the gate as undecided, for a reason other than its number.
    pub fn undecided(self, why: &str) -> Gate {
        Gate { verdict: word(Verdict::Inconclusive), metric: format!("{}_but_{why}", self.metric), ..self }
    }

    /// Formats the gate as `PASS|FAIL|INCONCLUSIVE id metric value unit threshold`.
    pub fn line(&self) -> String {
        let value = self.value.map_or_else(|| "-".into(), number);
        format!("{} {} {} {} {} {}", self.verdict, self.id, self.metric, value, self.unit, number(self.threshold))
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "INCONCLUSIVE",
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// Returns the exit code of an experiment: 6 if a gate failed, 7 if none failed but one is undecided, 0 if all passed.
pub fn exit_code(gates: &[Gate]) -> u8 {
    match gates {
        gates if gates.iter().any(|gate| gate.verdict == "FAIL") => 6,
        gates if gates.iter().any(|gate| gate.verdict == "INCONCLUSIVE") => 7,
        _ => 0,
    }
}

/// Prints the lines, writes the file if requested, and returns the exit code.
pub fn conclude(gates: &[Gate], json: Option<&Path>) -> Outcome<u8> {
    for gate in gates {
        println!("{}", gate.line());
    }
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_vec_pretty(gates)?)?;
    }
    Ok(exit_code(gates))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(mean: f64, low: f64, high: f64, threshold: f64) -> Gate {
        let interval = Some(Interval { mean, low, high, n: 5 });
        Gate::judged("fill", "ratio", "x", interval, Wanted::AtLeast, threshold, 1, 1.0)
    }

    #[test]
    fn a_gate_is_one_line_of_six_words() {
        assert_eq!(gate(3.25, 3.1, 3.4, 3.0).line(), "PASS fill ratio 3.250 x 3");
        assert_eq!(gate(3.25, 3.1, 3.4, 3.0).failed("over_memory").line(), "FAIL fill ratio_but_over_memory 3.250 x 3");
        let open = Gate::judged("fill", "ratio", "x", None, Wanted::AtLeast, 3.0, 1, 1.0);
        assert_eq!(open.line(), "INCONCLUSIVE fill ratio - x 3");
    }

    #[test]
    fn one_failure_decides_the_exit_code_and_an_open_gate_forbids_zero() {
        let (pass, fail, open) = (gate(3.2, 3.1, 3.4, 3.0), gate(1.0, 0.9, 1.1, 3.0), gate(3.0, 2.0, 4.0, 3.0));
        assert_eq!(exit_code(std::slice::from_ref(&pass)), 0);
        assert_eq!(exit_code(&[pass.clone(), open.clone()]), 7);
        assert_eq!(exit_code(&[open, fail, pass]), 6);
    }

    #[test]
    fn nothing_found_in_too_few_trials_is_not_a_success() {
        assert_eq!(Gate::none_allowed("flip", "silent", 0, 10, 100, 1).verdict, "INCONCLUSIVE");
        assert_eq!(Gate::none_allowed("flip", "silent", 0, 100, 100, 1).verdict, "PASS");
        assert_eq!(Gate::none_allowed("flip", "silent", 1, 10, 100, 1).verdict, "FAIL");
    }
}
