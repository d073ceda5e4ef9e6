//! Keys, values and their access order, all derived from a seed.
//!
//! Record `i` of a store of `num` has the decimal key of `fmix64(i) mod num`: about 63 % of the keys are distinct, the
//! others are written more than once, and a read that draws `i` always finds a record. Decimal keys share their first
//! bytes, like real keys.

/// Murmur's finalizer: a bijection that spreads every bit of its input.
#[inline]
pub fn fmix64(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Splitmix: small, fast, one word of state.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(fmix64(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// Creates the sequence of one thread (or step, or trial) of a seed.
    pub fn stream(seed: u64, stream: u64) -> Random {
        Random::new(fmix64(seed).wrapping_add(stream.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    /// Returns the next word.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        fmix64(self.0)
    }

    /// Returns a number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The keys of one store: their number and length.
#[derive(Clone, Debug)]
pub struct Keys {
    num: u64,
    salt: u64,
    text: Vec<u8>,
}

impl Keys {
    /// Creates keys of `bytes` decimal digits; `None` if that is too short for `2 * num` distinct keys.
    pub fn new(num: u64, bytes: usize, seed: u64) -> Option<Keys> {
        let digits = num.checked_mul(2)?.to_string().len();
        (num > 0 && bytes >= digits).then(|| Keys {
            num,
            salt: seed.wrapping_mul(0xa076_1d64_78bd_642f),
            text: vec![b'0'; bytes],
        })
    }

    /// Returns the number of records that the fill steps write.
    pub fn num(&self) -> u64 {
        self.num
    }

    /// Returns the key of record `i`, as the random fills write it.
    #[inline]
    pub fn written(&mut self, i: u64) -> &[u8] {
        let number = fmix64(i.wrapping_add(self.salt)) % self.num;
        self.decimal(number)
    }

    /// Returns the `i`th key in order. The ordered keys include every written key.
    #[inline]
    pub fn ordered(&mut self, i: u64) -> &[u8] {
        self.decimal(i)
    }

    /// Returns a key that no step writes, next to an existing one: its last digit is a full stop.
    #[inline]
    pub fn missing(&mut self, i: u64) -> &[u8] {
        self.written(i);
        if let Some(last) = self.text.last_mut() {
            *last = b'.';
        }
        &self.text
    }

    /// Returns a key whose bytes but the last begin no key that a step writes, next to an existing one: its last digit but
    /// one is a full stop.
    #[inline]
    pub fn missing_prefix(&mut self, i: u64) -> &[u8] {
        self.written(i);
        if let [.., digit, _] = self.text.as_mut_slice() {
            *digit = b'.';
        }
        &self.text
    }

    /// Returns a key that only the inserting mixes write, above those of the fills.
    #[inline]
    pub fn inserted(&mut self, i: u64) -> &[u8] {
        let number = self.num + fmix64(i.wrapping_add(self.salt)) % self.num;
        self.decimal(number)
    }

    #[inline]
    fn decimal(&mut self, mut number: u64) -> &[u8] {
        for digit in self.text.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        &self.text
    }
}

/// Values that compress to about half: slices of one pool, so that creating one is free.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    bytes: usize,
    at: usize,
}

impl Values {
    /// Creates values of `bytes` bytes, with a different sequence for every stream.
    pub fn new(bytes: usize, seed: u64, stream: u64) -> Values {
        let mut random = Random::stream(seed, stream ^ 0x5661_6c75_6573);
        let size = (1 << 20).max(bytes * 2);
        let mut pool = Vec::with_capacity(size + 100);
        while pool.len() < size {
            let half: [u8; 50] = std::array::from_fn(|_| b' ' + random.below(95) as u8);
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        let at = random.below((pool.len() - bytes) as u64) as usize;
        Values { pool, bytes, at }
    }

    /// Returns the next value.
    #[inline]
    pub fn value(&mut self) -> &[u8] {
        self.at += self.bytes + 1;
        if self.at + self.bytes > self.pool.len() {
            self.at %= 97;
        }
        &self.pool[self.at..self.at + self.bytes]
    }
}

/// Zipfian ranks (Gray et al., as in YCSB): rank 0 is the most frequent.
#[derive(Clone, Debug)]
pub struct Zipf {
    num: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    /// YCSB's constant.
    pub const THETA: f64 = 0.99;

    /// Creates ranks `0..num`. It sums `num` terms, so it is called before the measurement.
    pub fn new(num: u64) -> Zipf {
        let theta = Zipf::THETA;
        let zeta: f64 = (1..=num).map(|i| (i as f64).powf(-theta)).sum();
        let two = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / num as f64).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf { num: num as f64, theta, alpha: 1.0 / (1.0 - theta), zeta, eta, second: two }
    }

    /// Returns the next rank.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.second {
            return 1.min(self.num as u64 - 1);
        }
        let rank = self.num * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.num as u64 - 1)
    }

    /// Returns the exponent.
    pub fn theta(&self) -> f64 {
        self.theta
    }
}

/// Reads every byte of a value, as a user would.
#[inline]
pub fn touch(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let mut sum = 0u64;
    for word in &mut words {
        sum = sum
            .wrapping_add(u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]));
    }
    words.remainder().iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_is_sixteen_decimal_digits_of_the_mixed_number() {
        let mut keys = Keys::new(2_000_000, 16, 0).expect("long enough");
        let expected = format!("{:016}", fmix64(7) % 2_000_000);
        assert_eq!(keys.written(7), expected.as_bytes());
        assert_eq!(keys.ordered(42), b"0000000000000042");
    }

    #[test]
    fn about_two_thirds_of_the_keys_are_distinct() {
        let mut keys = Keys::new(10_000, 16, 0).expect("long enough");
        let distinct: BTreeSet<Vec<u8>> = (0..10_000).map(|i| keys.written(i).to_vec()).collect();
        assert!((6_200..6_450).contains(&distinct.len()), "{}", distinct.len());
    }

    #[test]
    fn missing_and_inserted_keys_are_never_those_of_the_fills() {
        let mut keys = Keys::new(1_000, 16, 3).expect("long enough");
        let fills: BTreeSet<Vec<u8>> = (0..1_000).map(|i| keys.ordered(i).to_vec()).collect();
        for i in 0..1_000 {
            assert!(fills.contains(keys.written(i)));
            assert!(!fills.contains(keys.missing(i)));
            assert!(!fills.contains(keys.inserted(i)));
        }
    }

    #[test]
    fn keys_too_short_for_their_number_are_refused() {
        assert!(Keys::new(1_000_000, 6, 0).is_none());
        assert!(Keys::new(1_000_000, 7, 0).is_some());
        assert!(Keys::new(0, 16, 0).is_none());
    }

    #[test]
    fn values_have_their_length_and_repeat_themselves_by_half() {
        let mut values = Values::new(100, 1, 2);
        let value = values.value().to_vec();
        assert_eq!(value.len(), 100);
        let second = values.value().to_vec();
        assert_ne!(value, second);
        let pairs: BTreeSet<Vec<u8>> = value.windows(8).map(<[u8]>::to_vec).collect();
        assert!(pairs.len() <= 60, "{} distinct windows", pairs.len());
    }

    #[test]
    fn the_first_rank_is_asked_for_as_often_as_the_law_says() {
        let zipf = Zipf::new(1_000);
        let mut random = Random::new(1);
        let mut counts = vec![0u32; 1_000];
        for _ in 0..200_000 {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        let share = f64::from(counts[0]) / 200_000.0;
        let law = 1.0 / (1..=1_000).map(|i| f64::from(i).powf(-zipf.theta())).sum::<f64>();
        assert!((share - law).abs() < 0.01, "{share} against {law}");
        assert!(counts[0] > counts[10] && counts[10] > counts[500]);
    }

    proptest! {
        #[test]
        fn draws_stay_below_their_bound(seed: u64, bound in 1u64..) {
            let mut random = Random::new(seed);
            for _ in 0..50 {
                prop_assert!(random.below(bound) < bound);
            }
        }

        #[test]
        fn touching_sees_every_byte(mut bytes in proptest::collection::vec(any::<u8>(), 1..200), at: prop::sample::Index, bit in 0u8..8) {
            let before = touch(&bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_ne!(before, touch(&bytes));
        }
    }
}
