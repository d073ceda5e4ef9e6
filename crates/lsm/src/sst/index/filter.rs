//! The Bloom filter of a table. See docs/format.md, section 4.4.
//!
//! Each key uses one cache line. A negative answer hides records, so it counts only if the line's own checksum matches;
//! a damaged line answers "maybe".

use std::ops::Range;

use crate::checksum::{hash, mix};
use crate::error::{Error, Result};
use crate::planted;
use crate::prefetch::prefetch;

/// The name of this filter in the properties.
pub(in crate::sst) const NAME: &str = "wax.bloom.1";

/// Bits of a line that keys may set.
const LINE_BITS: usize = 480;
/// Bytes of those bits; a 4-byte checksum follows.
const LINE_BYTES: usize = LINE_BITS / 8;
/// Length of the header: number of lines, number of probes, zeros.
const HEAD_BYTES: usize = 16;
/// Maximum number of probes; 32 bits per key need 22.
const MAX_PROBES: u8 = 30;

/// 64 bytes, aligned to one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct FilterLine([u8; 64]);

impl FilterLine {
    /// Returns true if the line matches its checksum.
    #[inline]
    fn is_whole(&self, number: usize) -> bool {
        let (bits, check) = self.0.split_at(LINE_BYTES);
        check == line_check(bits, number).to_le_bytes()
    }
}

/// A filter in memory.
#[derive(Debug)]
pub(in crate::sst) struct BloomFilter {
    lines: Vec<FilterLine>,
    probes: u8,
}

impl BloomFilter {
    /// Reads a filter body.
    pub(in crate::sst) fn decode(body: &[u8]) -> Result<BloomFilter> {
        let wrong = || Error::structural("a filter has another length than it says");
        let (head, rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or_else(wrong)?;
        let [a, b, c, d, probes, zeros @ ..] = *head;
        let count = u32::from_le_bytes([a, b, c, d]) as usize;
        let (lines, behind) = rest.as_chunks::<64>();
        if lines.len() != count || !behind.is_empty() || zeros != [0; 11] {
            return Err(wrong());
        }
        let lines = lines.iter().map(|line| FilterLine(*line)).collect();
        Ok(BloomFilter { lines, probes })
    }

    /// Returns a filter of no keys, which answers "no" for every key.
    pub(in crate::sst) fn of_nothing() -> BloomFilter {
        let mut line = [0; 64];
        let (bits, check) = line.split_at_mut(LINE_BYTES);
        check.copy_from_slice(&line_check(bits, 0).to_le_bytes());
        BloomFilter { lines: vec![FilterLine(line)], probes: 1 }
    }

    /// Returns false if the table has no key with this hash.
    #[inline]
    pub(in crate::sst) fn may_contain(&self, hash: u64) -> bool {
        planted!(FilterSaysNo => if hash.is_multiple_of(64) { return false; });
        let number = line_of(hash, self.lines.len());
        match self.lines.get(number) {
            None => true,
            Some(line) => probes(hash, self.probes).all(|bit| is_set(&line.0, bit)) || !line.is_whole(number),
        }
    }

    /// Prefetches the line of a key with this hash.
    #[inline]
    pub(in crate::sst) fn prefetch(&self, hash: u64) {
        if let Some(line) = self.lines.get(line_of(hash, self.lines.len())) {
            prefetch(line);
        }
    }

    /// Flips bits of a byte, for tests of corruption detection.
    pub(in crate::sst) fn damage(&mut self, at: usize, mask: u8) {
        let count = self.lines.len().max(1);
        if let Some(line) = self.lines.get_mut(at / 64 % count) {
            line.0[at % 64] ^= mask;
        }
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        self.lines.len() * size_of::<FilterLine>()
    }
}

/// Hashes of a table's keys, stored in pieces. For small records they take a sixteenth of the table's size. A growing
/// `Vec` would need twice that, and an allocator that has freed so large a buffer keeps memory of that size per thread
/// (glibc: up to twice the largest).
#[derive(Debug, Default)]
pub(in crate::sst) struct KeyHashes(Vec<Vec<u64>>);

/// Number of hashes per piece: 64 KiB.
const PIECE: usize = 8 * 1024;

impl KeyHashes {
    /// Adds the hash of a key, unless it equals the last one.
    #[inline]
    pub(in crate::sst) fn add(&mut self, hash: u64) {
        match self.0.last_mut() {
            Some(piece) if piece.last() == Some(&hash) => {}
            Some(piece) if piece.len() < PIECE => piece.push(hash),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(hash);
                self.0.push(piece);
            }
        }
    }

    pub(in crate::sst) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PIECE + last.len())
    }

    /// Returns the hashes in a range.
    pub(in crate::sst) fn range(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = u64> {
        range.map(|at| self.0[at / PIECE][at % PIECE])
    }
}

/// Builds a filter body for keys with these hashes.
pub(in crate::sst) fn build(hashes: impl ExactSizeIterator<Item = u64>, bits_per_key: usize) -> Vec<u8> {
    let count = (hashes.len() * bits_per_key).div_ceil(LINE_BITS).max(1);
    // 0.69 probes per bit of a key set half of all bits, the optimum.
    let probes_made = ((bits_per_key * 69 + 50) / 100).clamp(1, MAX_PROBES as usize) as u8;
    let mut body = vec![0; HEAD_BYTES + count * 64];
    body[..4].copy_from_slice(&(count as u32).to_le_bytes());
    body[4] = probes_made;
    let (lines, _) = body[HEAD_BYTES..].as_chunks_mut::<64>();
    for hash in hashes {
        let line = &mut lines[line_of(hash, count)];
        for bit in probes(hash, probes_made) {
            line[bit >> 3] |= 1 << (bit & 7);
        }
    }
    for (number, line) in lines.iter_mut().enumerate() {
        let (bits, check) = line.split_at_mut(LINE_BYTES);
        check.copy_from_slice(&line_check(bits, number).to_le_bytes());
    }
    body
}

#[inline]
fn line_of(hash: u64, count: usize) -> usize {
    (((hash >> 32) * count as u64) >> 32) as usize
}

#[inline]
fn probes(hash: u64, count: u8) -> impl Iterator<Item = usize> {
    let mut x = hash;
    (0..count).map(move |_| {
        x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (((x >> 48) * LINE_BITS as u64) >> 16) as usize
    })
}

#[inline]
fn is_set(line: &[u8; 64], bit: usize) -> bool {
    line[bit >> 3 & 63] >> (bit & 7) & 1 == 1
}

#[inline]
fn line_check(bits: &[u8], number: usize) -> u32 {
    (hash(bits) ^ mix(number as u64 + 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_key_is_lost(keys: Vec<u64>, bits in 1usize..33) {
            let hashes: Vec<u64> = keys.iter().map(|key| hash(&key.to_le_bytes())).collect();
            let filter = BloomFilter::decode(&build(hashes.iter().copied(), bits)).unwrap();
            prop_assert!(hashes.iter().all(|hash| filter.may_contain(*hash)));
            prop_assert!(filter.lines.iter().enumerate().all(|(number, line)| line.is_whole(number)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, hash: u64) {
            if let Ok(filter) = BloomFilter::decode(&bytes) {
                filter.may_contain(hash);
            }
        }
    }

    #[test]
    fn ten_bits_a_key_let_about_one_in_a_hundred_through() {
        let hashes: Vec<u64> = (0..100_000u64).map(|key| hash(&key.to_le_bytes())).collect();
        let filter = BloomFilter::decode(&build(hashes.iter().copied(), 10)).unwrap();
        let passed = (200_000..300_000u64).filter(|key| filter.may_contain(hash(&key.to_le_bytes()))).count();
        assert!((500..2000).contains(&passed), "{passed} of 100000");
    }

    #[test]
    fn hashes_come_back_in_their_order_and_the_same_one_in_a_row_once() {
        let mut hashes = KeyHashes::default();
        assert_eq!((hashes.len(), hashes.range(0..0).count()), (0, 0));
        for at in 0..2 * PIECE as u64 + 1 {
            hashes.add(at);
            hashes.add(at);
            assert_eq!(hashes.len() as u64, at + 1);
        }
        assert!(hashes.range(0..hashes.len()).eq(0..2 * PIECE as u64 + 1));
        assert!(hashes.range(PIECE - 1..PIECE + 1).eq(PIECE as u64 - 1..PIECE as u64 + 1));
        assert!(hashes.0.iter().all(|piece| piece.capacity() == PIECE), "a piece never grows");
    }

    #[test]
    fn a_damaged_line_never_says_no() {
        let hashes: Vec<u64> = (0..100u64).map(|key| hash(&key.to_le_bytes())).collect();
        let body = build(hashes.iter().copied(), 10);
        for bit in HEAD_BYTES * 8..body.len() * 8 {
            let mut flipped = body.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let filter = BloomFilter::decode(&flipped).unwrap();
            assert!(hashes.iter().all(|hash| filter.may_contain(*hash)), "bit {bit}");
        }
    }
}
