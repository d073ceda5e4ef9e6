//! Random choices from a seed; a copy continues exactly as the original does.

use crate::checksum::mix;

/// A sequence of random numbers.
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(mix(seed ^ 0x5157_A7E0_D15C_0000))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns true or false at random.
    pub(super) fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }
}
