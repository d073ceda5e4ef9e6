//! Damages bytes: flips, zeroes, removes and duplicates them. Pure.

use std::ops::Range;

use waxseal_lsm::env::{Random, SeededRandom};

use super::Bits;

/// Random numbers from a seed.
pub struct Dice(SeededRandom);

impl Dice {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(SeededRandom::new(seed))
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Returns true with probability 1/`times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Chooses an element; `None` from an empty slice.
    pub fn choose<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).cloned()
    }
}

/// Flips bits in a span of `bytes`; returns false if the span is empty.
pub(super) fn flip(bytes: &mut [u8], span: Range<usize>, bits: Bits, dice: &mut Dice) -> bool {
    let Some(part) = bytes.get_mut(span) else { return false };
    let room = part.len() * 8;
    if room == 0 {
        return false;
    }
    match bits {
        Bits::Burst => {
            let length = (2 + dice.below(31)).min(room);
            let start = dice.below(room - length + 1);
            // The first and the last bit of a burst flip; each bit between flips with probability 1/2.
            for bit in start..start + length {
                if bit == start || bit == start + length - 1 || dice.once_in(2) {
                    part[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
        bits => {
            let count = match bits {
                Bits::Two => 2,
                Bits::Three => 3,
                _ => 1,
            };
            let mut chosen = Vec::new();
            while chosen.len() < count.min(room) {
                let bit = dice.below(room);
                if !chosen.contains(&bit) {
                    chosen.push(bit);
                    part[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
    }
    true
}

/// Zeroes a run within a span of `bytes`; returns false if that changes nothing.
pub(super) fn zero(bytes: &mut [u8], span: Range<usize>, dice: &mut Dice) -> bool {
    let Some(part) = bytes.get_mut(span) else { return false };
    let length = (1 + dice.below(512)).min(part.len());
    let start = dice.below(part.len() - length + 1);
    let before = part.to_vec();
    part[start..start + length].fill(0);
    before != part
}

/// Removes a record: the following bytes move up, and the end is filled with zeros.
pub(super) fn cut_out(bytes: &mut [u8], record: Range<usize>, end: usize) {
    let length = record.len();
    bytes.copy_within(record.end..end, record.start);
    bytes[end - length..end].fill(0);
}

/// Duplicates a record: the following bytes move down, and the last ones are cut off.
pub(super) fn double(bytes: &mut [u8], record: Range<usize>, end: usize) {
    let room = end - record.end;
    let length = record.len().min(room);
    bytes.copy_within(record.end..end - length, record.end + length);
    bytes.copy_within(record.start..record.start + length, record.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bits_flip() {
        let mut dice = Dice::new(1);
        for (bits, count) in [(Bits::One, 1), (Bits::Two, 2), (Bits::Three, 3)] {
            for _ in 0..50 {
                let mut bytes = [0u8; 20];
                assert!(flip(&mut bytes, 5..9, bits, &mut dice));
                assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), count);
                assert!(bytes[..5].iter().chain(&bytes[9..]).all(|byte| *byte == 0));
            }
        }
        let mut bytes = [0u8; 20];
        assert!(flip(&mut bytes, 0..20, Bits::Burst, &mut dice));
        assert!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>() >= 2);
        assert!(!flip(&mut bytes, 3..3, Bits::One, &mut dice));
    }

    #[test]
    fn records_are_cut_out_and_doubled_in_place() {
        let mut bytes = *b"aabbccdd..";
        cut_out(&mut bytes, 2..4, 8);
        assert_eq!(&bytes, b"aaccdd\0\0..");
        let mut bytes = *b"aabbccdd..";
        double(&mut bytes, 2..4, 8);
        assert_eq!(&bytes, b"aabbbbcc..");
        let mut bytes = *b"aabb";
        double(&mut bytes, 2..4, 4);
        assert_eq!(&bytes, b"aabb");
    }
}
