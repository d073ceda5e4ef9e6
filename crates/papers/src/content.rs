//! Records of the paper's size, in the access order of an experiment, created before the measurement.

use std::time::{Duration, Instant};
use waxseal_bench::workload::{Keys, Random, Values, Zipf};

/// Key and value size of the paper.
pub(crate) const KEY_BYTES: usize = 20;
pub(crate) const VALUE_BYTES: usize = 100;

/// Keys of equal length in one buffer.
pub(crate) struct Flat {
    bytes: Vec<u8>,
    each: usize,
}

impl Flat {
    /// Returns every key of a store of `num` records, in order.
    pub(crate) fn all(num: u64) -> Flat {
        Flat::of(num, 0..num)
    }

    fn of(num: u64, ranks: impl Iterator<Item = u64>) -> Flat {
        let mut bytes = Vec::new();
        if let Some(mut keys) = Keys::new(num, KEY_BYTES, 0) {
            ranks.for_each(|rank| bytes.extend_from_slice(keys.ordered(rank)));
        }
        Flat { bytes, each: KEY_BYTES }
    }

    /// Returns `count` keys with zipfian frequencies, spread over the store.
    pub(crate) fn zipfian(num: u64, zipf: &Zipf, random: &mut Random, count: u64) -> Flat {
        let draw = |_| waxseal_bench::workload::fmix64(zipf.rank(random)) % num;
        Flat::of(num, (0..count).map(draw).collect::<Vec<u64>>().into_iter())
    }

    /// Returns `count` keys, drawn uniformly.
    pub(crate) fn even(num: u64, random: &mut Random, count: u64) -> Flat {
        Flat::of(num, (0..count).map(|_| random.below(num)).collect::<Vec<u64>>().into_iter())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.each)
    }
}

/// Returns values of the paper's length.
pub(crate) fn values(seed: u64, stream: u64) -> Values {
    Values::new(VALUE_BYTES, seed, stream)
}

/// Durations of single operations; the buffer is allocated before the measurement.
pub(crate) struct Laps {
    nanos: Vec<u32>,
}

impl Laps {
    pub(crate) fn with_room(count: usize) -> Laps {
        Laps { nanos: Vec::with_capacity(count) }
    }

    #[inline]
    pub(crate) fn push(&mut self, time: Duration) {
        self.nanos.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Returns the mean without the slowest 1 %, as in the paper; 0 for no samples.
    pub(crate) fn trimmed_mean(&mut self) -> f64 {
        let keep = self.nanos.len() - self.nanos.len() / 100;
        if keep == 0 {
            return 0.0;
        }
        if keep < self.nanos.len() {
            self.nanos.select_nth_unstable(keep);
        }
        self.nanos[..keep].iter().map(|nanos| f64::from(*nanos)).sum::<f64>() / keep as f64
    }

    /// Returns every duration in milliseconds.
    pub(crate) fn millis(&self) -> Vec<f64> {
        self.nanos.iter().map(|nanos| f64::from(*nanos) / 1e6).collect()
    }

    /// Returns the median.
    pub(crate) fn median(&mut self) -> f64 {
        let middle = self.nanos.len() / 2;
        match self.nanos.is_empty() {
            true => 0.0,
            false => f64::from(*self.nanos.select_nth_unstable(middle).1),
        }
    }
}

/// Returns the cost of one clock reading between two operations.
pub(crate) fn clock_nanos() -> f64 {
    let mut laps = Laps::with_room(10_000);
    let mut last = Instant::now();
    for _ in 0..10_000 {
        let now = Instant::now();
        laps.push(now - last);
        last = now;
    }
    laps.trimmed_mean()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_a_hundred_is_left_out() {
        let mut laps = Laps::with_room(100);
        (0..99).for_each(|_| laps.push(Duration::from_nanos(50)));
        laps.push(Duration::from_secs(1));
        assert_eq!((laps.trimmed_mean(), laps.median()), (50.0, 50.0));
        assert_eq!(Laps::with_room(0).trimmed_mean(), 0.0);
    }

    #[test]
    fn keys_are_those_of_the_store() {
        let all: Vec<Vec<u8>> = Flat::all(50).iter().map(<[u8]>::to_vec).collect();
        assert_eq!((all.len(), all[7].as_slice()), (50, &b"00000000000000000007"[..]));
        let zipf = Zipf::new(50);
        assert!(Flat::zipfian(50, &zipf, &mut Random::new(1), 200).iter().all(|key| all.iter().any(|k| k == key)));
    }
}
