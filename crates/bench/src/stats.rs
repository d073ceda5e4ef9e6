//! Bootstrap intervals, and verdicts about thresholds. Pure.

use crate::workload::Random;

/// A mean with its 95 % confidence bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean of the samples.
    pub mean: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Number of samples.
    pub n: usize,
}

/// The good side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// At or above the threshold.
    AtLeast,
    /// At or below the threshold.
    AtMost,
}

/// The verdict about an interval and a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is on the good side.
    Pass,
    /// The whole interval is on the bad side.
    Fail,
    /// The threshold lies inside the interval, or there is no interval.
    Inconclusive,
}

const RESAMPLES: usize = 4_000;

/// Minimum number of samples for the bounds of a median.
pub const MEDIAN_SAMPLES: usize = 11;

/// Returns the mean with its bootstrap bounds; `None` for fewer than three samples, which have no meaningful spread.
///
/// The percentile bootstrap of few samples is too narrow. Its bounds are therefore widened by the ratio of Student's t
/// to the normal quantile and by `sqrt(n / (n - 1))` (Hesterberg's expanded interval).
pub fn interval(samples: &[f64], seed: u64) -> Option<Interval> {
    let n = samples.len();
    if n < 3 || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut random = Random::new(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..n).map(|_| samples[random.below(n as u64) as usize]).sum::<f64>() / n as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let mean = samples.iter().sum::<f64>() / n as f64;
    let widen = student_t(n - 1) / 1.96 * (n as f64 / (n as f64 - 1.0)).sqrt();
    let low = means[RESAMPLES * 25 / 1000];
    let high = means[RESAMPLES * 975 / 1000];
    Some(Interval { mean, low: mean - (mean - low).max(0.0) * widen, high: mean + (high - mean).max(0.0) * widen, n })
}

/// Returns the geometric mean of ratios with its bounds: a ratio and its inverse have the same weight.
pub fn ratio_interval(ratios: &[f64], seed: u64) -> Option<Interval> {
    if ratios.iter().any(|ratio| *ratio <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let Interval { mean, low, high, n } = interval(&logs, seed)?;
    Some(Interval { mean: mean.exp(), low: low.exp(), high: high.exp(), n })
}

/// Returns the median with its bootstrap bounds, widened like those of the mean; `None` for fewer than eleven samples:
/// the median of very few samples is one of a few values, so its bounds mean little.
pub fn median_interval(samples: &[f64], seed: u64) -> Option<Interval> {
    let n = samples.len();
    if n < MEDIAN_SAMPLES || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut random = Random::new(seed);
    let mut drawn = vec![0.0; n];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| samples[random.below(n as u64) as usize]);
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let middle = median(samples);
    let widen = student_t(n - 1) / 1.96;
    let low = medians[RESAMPLES * 25 / 1000];
    let high = medians[RESAMPLES * 975 / 1000];
    Some(Interval {
        mean: middle,
        low: middle - (middle - low).max(0.0) * widen,
        high: middle + (high - middle).max(0.0) * widen,
        n,
    })
}

/// Compares an interval with a threshold; an interval that contains it is inconclusive.
pub fn judge(interval: Option<Interval>, wanted: Wanted, threshold: f64) -> Verdict {
    let Some(Interval { low, high, .. }) = interval else { return Verdict::Inconclusive };
    let (good, bad) = match wanted {
        Wanted::AtLeast => (low >= threshold, high < threshold),
        Wanted::AtMost => (high <= threshold, low > threshold),
    };
    match (good, bad) {
        (true, _) => Verdict::Pass,
        (_, true) => Verdict::Fail,
        _ => Verdict::Inconclusive,
    }
}

/// Returns the median; 0 for no samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Two-sided 95 % quantile of Student's distribution.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 15] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];
    match freedom {
        0 => f64::INFINITY,
        1..=15 => TABLE[freedom - 1],
        // An upper approximation: 1.96 + 2.4 / freedom.
        _ => 1.96 + 2.4 / freedom as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_say_nothing() {
        assert_eq!(interval(&[1.0, 1.0], 1), None);
        assert_eq!(judge(None, Wanted::AtLeast, 1.0), Verdict::Inconclusive);
        assert_eq!(ratio_interval(&[1.0, -1.0, 2.0], 1), None);
        assert_eq!(interval(&[1.0, f64::NAN, 2.0], 1), None);
    }

    #[test]
    fn an_interval_holds_its_mean_and_widens_with_the_spread() {
        let tight = interval(&[2.0, 2.01, 1.99, 2.0, 2.0], 1).expect("enough samples");
        let loose = interval(&[1.0, 3.0, 2.0, 1.5, 2.5], 1).expect("enough samples");
        assert!(tight.low <= tight.mean && tight.mean <= tight.high);
        assert!(loose.high - loose.low > 20.0 * (tight.high - tight.low));
    }

    #[test]
    fn ninety_five_in_a_hundred_intervals_hold_the_truth() {
        let mut random = Random::new(7);
        let held = (0..400)
            .filter(|trial| {
                // Each sample is a sum of uniform numbers: nearly normal, mean 6.
                let samples: Vec<f64> = (0..6).map(|_| (0..12).map(|_| random.unit()).sum()).collect();
                let interval = interval(&samples, *trial).expect("enough samples");
                (interval.low..=interval.high).contains(&6.0)
            })
            .count();
        assert!((364..=400).contains(&held), "{held} of 400");
    }

    #[test]
    fn a_threshold_inside_the_interval_is_not_decided() {
        let interval = Some(Interval { mean: 2.0, low: 1.5, high: 2.5, n: 5 });
        assert_eq!(judge(interval, Wanted::AtLeast, 1.5), Verdict::Pass);
        assert_eq!(judge(interval, Wanted::AtLeast, 2.6), Verdict::Fail);
        assert_eq!(judge(interval, Wanted::AtLeast, 2.0), Verdict::Inconclusive);
        assert_eq!(judge(interval, Wanted::AtMost, 2.5), Verdict::Pass);
        assert_eq!(judge(interval, Wanted::AtMost, 1.4), Verdict::Fail);
        assert_eq!(judge(interval, Wanted::AtMost, 2.0), Verdict::Inconclusive);
    }

    #[test]
    fn ratios_are_symmetric() {
        let there = ratio_interval(&[2.0, 4.0, 8.0], 3).expect("enough samples");
        assert!((there.mean - 4.0).abs() < 1e-9);
    }

    #[test]
    fn ninety_five_in_a_hundred_intervals_of_the_median_hold_it_and_outliers_do_not_move_it() {
        let mut random = Random::new(11);
        let held = (0..400)
            .filter(|trial| {
                // Uniform around 5, with occasional outliers on either side.
                let samples: Vec<f64> = (0..15)
                    .map(|_| match random.below(20) {
                        0 => 1e6,
                        1 => -1e6,
                        _ => 10.0 * random.unit(),
                    })
                    .collect();
                let interval = median_interval(&samples, *trial).expect("enough samples");
                (interval.low..=interval.high).contains(&5.0)
            })
            .count();
        assert!((372..=400).contains(&held), "{held} of 400");
        assert_eq!(median_interval(&[1.0; 10], 1), None);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }
}
