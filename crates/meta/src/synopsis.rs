//! Synopsis: what the entries of one provider in one table come to, so that a search can pass a table over. Property 15 of tables.

use waxseal_lsm::codec::{Reader, put_varint};
use waxseal_lsm::error::Result;

/// Count, least, greatest and sum of the numbers that a provider reads in its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Synopsis {
    /// How many numbers.
    pub count: u64,
    /// The least; 0 without any.
    pub min: i64,
    /// The greatest; 0 without any.
    pub max: i64,
    /// Their sum.
    pub sum: i128,
}

impl Synopsis {
    /// Adds a number.
    pub fn add(&mut self, number: i64) {
        (self.min, self.max) = match self.count {
            0 => (number, number),
            _ => (self.min.min(number), self.max.max(number)),
        };
        self.count += 1;
        self.sum += i128::from(number);
    }

    /// As in property 15: `count varint | min varint | max varint | sum, 16 bytes`, the signed ones zigzag.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        [self.count, zigzag(self.min), zigzag(self.max)].iter().for_each(|number| put_varint(&mut out, *number));
        out.extend_from_slice(&self.sum.to_le_bytes());
        out
    }

    /// Reads it back. What cannot be is refused.
    pub fn decode(bytes: &[u8]) -> Result<Synopsis> {
        let mut reader = Reader::new(bytes);
        let count = reader.varint()?;
        let (min, max) = (unzigzag(reader.varint()?), unzigzag(reader.varint()?));
        Ok(Synopsis { count, min, max, sum: i128::from_le_bytes(reader.array()?) })
    }
}

/// A signed number as a varint's: small ones stay small.
pub(crate) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn synopses_come_back(numbers: Vec<i64>) {
            let mut synopsis = Synopsis::default();
            numbers.iter().for_each(|number| synopsis.add(*number));
            prop_assert_eq!(synopsis.count, numbers.len() as u64);
            prop_assert_eq!(synopsis.min, numbers.iter().min().copied().unwrap_or(0));
            prop_assert_eq!(synopsis.max, numbers.iter().max().copied().unwrap_or(0));
            prop_assert_eq!(synopsis.sum, numbers.iter().map(|number| i128::from(*number)).sum::<i128>());
            prop_assert_eq!(Synopsis::decode(&synopsis.encode()).unwrap(), synopsis);
        }

        #[test]
        fn any_bytes_are_a_synopsis_or_refused(bytes: Vec<u8>) {
            let _ = Synopsis::decode(&bytes);
        }

        #[test]
        fn signed_numbers_come_back(number: i64) {
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }
    }
}
