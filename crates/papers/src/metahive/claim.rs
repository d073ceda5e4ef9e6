//! The verdict on a percentage of the paper's Table 1. Pure: the numbers of a run in, two gates out.
//!
//! The paper gives its percentages for operations of 80 to 170 us. With a different base they can be neither confirmed
//! nor refuted, so both gates are then INCONCLUSIVE. A paired run with wide bounds contradicts nothing, and is
//! INCONCLUSIVE as well.

use waxseal_bench::gate::Gate;
use waxseal_bench::stats::Interval;

/// The smallest and the largest base that the paper measured, in nanoseconds.
pub(super) const BASE: (f64, f64) = (80_000.0, 170_000.0);

/// The cost of the paper's control in percent (stated as "more than 10 %"): the smallest effect that a paired run must
/// be able to detect.
const CONTROL: f64 = 10.0;

/// One percentage of the paper, with the numbers of this run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Nanoseconds of the plain engine's operation.
    pub(super) base: f64,
    /// Bounds of `base`.
    pub(super) base_bounds: Option<Interval>,
    /// Additional nanoseconds with seals, measured in cache.
    pub(super) extra: Option<Interval>,
    /// Additional percent with seals, measured in the paper's regime.
    pub(super) paired: Option<Interval>,
    /// The paper's percentage.
    pub(super) threshold: f64,
}

impl Claim {
    /// Returns true if the base is in the paper's range.
    pub(super) fn has_the_papers_base(&self) -> bool {
        (BASE.0..=BASE.1).contains(&self.base)
    }

    /// Makes the gates `paper.WHAT` and `paper.WHAT.not_contradicted`. `at_most` judges an interval: id, metric,
    /// interval, threshold.
    pub(super) fn gates(&self, what: &str, at_most: impl Fn(&str, &str, Option<Interval>, f64) -> Gate) -> [Gate; 2] {
        let id = format!("paper.{what}");
        let share = at_most(&id, "cached_nanoseconds_over_this_base", self.share(), self.threshold);
        // A contradiction is an interval that is completely above the threshold.
        let bound = self.paired.map(|found| Interval { high: found.low, mean: found.low, ..found });
        let bound = at_most(&format!("{id}.not_contradicted"), "paired_lower_bound", bound, self.threshold);
        if !self.has_the_papers_base() {
            return [share, bound].map(|gate| gate.undecided("base_not_in_the_papers_range"));
        }
        let is_above = self.paired.is_some_and(|found| found.low > self.threshold);
        [share, if is_above || self.can_contradict() { bound } else { bound.undecided("bounds_too_wide") }]
    }

    /// Returns the nanoseconds from the measurable regime as a percentage of the base here. A slower base gives a
    /// smaller percentage, so the smallest base compatible with the rounds is used, and never one above the paper's.
    fn share(&self) -> Option<Interval> {
        let (base, extra) = (self.base_bounds?, self.extra?);
        let [low, mean, high] = [base.low, base.mean, base.high].map(|base| base.min(BASE.1));
        Some(Interval {
            mean: extra.mean / mean * 100.0,
            low: extra.low / high.max(1.0) * 100.0,
            high: extra.high / low.max(1.0) * 100.0,
            n: base.n,
        })
    }

    /// Returns true if the paired run is precise enough to detect a cost as large as that of the paper's control.
    fn can_contradict(&self) -> bool {
        self.paired.is_some_and(|found| found.low >= -CONTROL && found.mean - found.low <= CONTROL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waxseal_bench::stats::Wanted;

    fn interval(mean: f64, low: f64, high: f64) -> Option<Interval> {
        Some(Interval { mean, low, high, n: 9 })
    }

    /// A put of 100 us that takes 40 ns more in cache, and 0.1 % more in a paired run.
    fn claim() -> Claim {
        Claim {
            base: 100_000.0,
            base_bounds: interval(100_000.0, 95_000.0, 105_000.0),
            extra: interval(40.0, 30.0, 50.0),
            paired: interval(0.1, -0.9, 1.1),
            threshold: 0.8,
        }
    }

    fn verdicts(claim: Claim) -> [&'static str; 2] {
        let judged = |id: &str, metric: &str, interval, threshold| {
            Gate::judged(id, metric, "%", interval, Wanted::AtMost, threshold, 1, 1.0)
        };
        claim.gates("put", judged).map(|gate| gate.verdict)
    }

    #[test]
    fn a_claim_over_the_papers_base_is_decided() {
        assert_eq!(verdicts(claim()), ["PASS", "PASS"]);
        assert_eq!(verdicts(Claim { extra: interval(4_000.0, 3_900.0, 4_100.0), ..claim() }), ["FAIL", "PASS"]);
        assert_eq!(verdicts(Claim { extra: interval(900.0, 100.0, 1_700.0), ..claim() }), ["INCONCLUSIVE", "PASS"]);
        assert_eq!(verdicts(Claim { paired: interval(5.0, 3.0, 7.0), ..claim() }), ["PASS", "FAIL"]);
        assert_eq!(verdicts(Claim { paired: interval(60.0, 3.0, 117.0), ..claim() }), ["PASS", "FAIL"]);
        assert_eq!(verdicts(Claim { paired: None, extra: None, ..claim() }), ["INCONCLUSIVE", "INCONCLUSIVE"]);
    }

    #[test]
    fn a_base_outside_of_the_papers_range_decides_nothing() {
        for base in [79_000.0, 4_000.0, 171_000.0, 3_000_000.0] {
            let bounds = interval(base, base * 0.99, base * 1.01);
            let moved = Claim { base, base_bounds: bounds, ..claim() };
            assert_eq!(verdicts(moved), ["INCONCLUSIVE", "INCONCLUSIVE"], "{base}");
            let above =
                Claim { paired: interval(5.0, 3.0, 7.0), extra: interval(90_000.0, 80_000.0, 99_000.0), ..moved };
            assert_eq!(verdicts(above), ["INCONCLUSIVE", "INCONCLUSIVE"], "{base}");
        }
        for base in [80_000.0, 170_000.0] {
            assert_eq!(verdicts(Claim { base, ..claim() }), ["PASS", "PASS"], "{base}");
        }
    }

    #[test]
    fn wide_bounds_contradict_nothing() {
        for (mean, low, high) in [(0.0, -55.0, 55.0), (-54.0, -55.0, -53.0), (30.0, -5.0, 65.0), (-9.0, -11.0, 3.0)] {
            let wide = Claim { paired: interval(mean, low, high), ..claim() };
            assert_eq!(verdicts(wide), ["PASS", "INCONCLUSIVE"], "{mean} ({low} .. {high})");
        }
    }

    #[test]
    fn the_line_says_why_a_gate_is_undecided() {
        let judged = |id: &str, metric: &str, interval, threshold| {
            Gate::judged(id, metric, "%", interval, Wanted::AtMost, threshold, 1, 1.0)
        };
        let lines = Claim { base: 4_000.0, ..claim() }.gates("put", judged).map(|gate| gate.line());
        assert!(lines[0].contains("over_this_base_but_base_not_in_the_papers_range"), "{lines:?}");
        let wide = Claim { paired: interval(0.0, -55.0, 55.0), ..claim() };
        assert!(wide.gates("put", judged)[1].line().contains("paired_lower_bound_but_bounds_too_wide"));
    }
}
