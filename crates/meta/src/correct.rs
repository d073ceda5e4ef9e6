//! Correction of one or two flipped bits in a block, by the linearity of its CRC-32. Pure.
//!
//! In:     a framed block (stored bytes, codec byte, CRC, little-endian), its seed, and a judge that knows the block's
//!         constraints: every seal in it and, if compressed, its length.
//! Out:    the corrected block, if exactly one correction of at most two bits passes the judge; else the block
//!         unchanged.
//! Holds:  a matching CRC alone never justifies a correction. If two corrections pass the judge, neither is used. The
//!         flipped bits may be in the CRC itself.
//! Costs:  one bit: one pass over the block, no memory. Two bits, up to `TWO_BITS_BYTES`: one look-up per bit in a
//!         table of at most 8 MiB. The judge sees about 0.1 chance candidates in a block of 4 KiB, and about 32 in one
//!         of 64 KiB.
//!
//! A flipped bit changes the CRC by a word that depends only on the bit's distance e from the end: x^e modulo the
//! polynomial, where the CRC's own 32 bits come last. The polynomial is primitive, so that no two bits of a block up to
//! 512 MiB share a word. The syndrome (stored CRC XOR computed CRC) is the XOR of the words of the flipped bits.

use waxseal_lsm::checksum::crc;

/// The largest framed block that is searched for two flipped bits: 64 KiB and its frame.
pub const TWO_BITS_BYTES: usize = 64 * 1024 + FRAME_BYTES;

/// The largest framed block that is searched for one flipped bit; beyond it, words repeat.
const ONE_BIT_BYTES: usize = (1 << 29) - 1;

/// Length of codec byte and CRC.
const FRAME_BYTES: usize = 5;

/// CRC-32 of zlib, reflected: x^32 modulo the polynomial.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// The word of the block's last bit, x^0.
const LAST: u32 = 1 << 31;

/// The result of a correction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockCorrection {
    /// The CRC matches: the block has no damage that the CRC can locate.
    Fits,
    /// Corrected; bit positions count from the lowest bit of the first byte.
    Corrected(FlippedBits),
    /// Two different corrections pass the judge.
    Ambiguous,
    /// No correction passes the judge.
    NotFound,
}

/// The one or two flipped bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlippedBits {
    /// The first bit, or the only one.
    pub first: usize,
    /// The second bit.
    pub second: Option<usize>,
}

/// Corrects a framed block in place if exactly one correction passes `confirm`, which gets the whole framed block.
/// Unless the outcome is `Corrected`, the block is unchanged.
pub fn correct(block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> BlockCorrection {
    let Some(syndrome) = syndrome(block, seed) else { return BlockCorrection::NotFound };
    if syndrome == 0 {
        return BlockCorrection::Fits;
    }
    let mut trial = Trial { block, confirm, survivor: None };
    let bits = trial.block.len() * 8;
    let unique = match one_bit(syndrome, bits) {
        Some(exponent) => trial.passes(exponent, None),
        None => true,
    } && (trial.block.len() > TWO_BITS_BYTES
        || two_bits(syndrome, bits, &mut |a, b| trial.passes(a, Some(b))));
    match trial.survivor {
        _ if !unique => BlockCorrection::Ambiguous,
        None => BlockCorrection::NotFound,
        Some(flips) => {
            flip(trial.block, flips);
            BlockCorrection::Corrected(flips)
        }
    }
}

/// Returns stored CRC XOR computed CRC; `None` if the block is too short for a CRC or too long for unique words.
fn syndrome(block: &[u8], seed: u32) -> Option<u32> {
    let (covered, stored) = block.split_last_chunk::<4>()?;
    let within = !covered.is_empty() && block.len() <= ONE_BIT_BYTES;
    within.then(|| u32::from_le_bytes(*stored) ^ crc(seed, &[covered]))
}

/// The search for a unique correction.
struct Trial<'a> {
    block: &'a mut [u8],
    confirm: &'a mut dyn FnMut(&[u8]) -> bool,
    survivor: Option<FlippedBits>,
}

impl Trial<'_> {
    /// Tests a correction and undoes it. Returns false once two corrections have passed.
    fn passes(&mut self, a: usize, b: Option<usize>) -> bool {
        let last = self.block.len() * 8 - 1;
        let flips = match b {
            None => FlippedBits { first: last - a, second: None },
            Some(b) => FlippedBits { first: last - a.max(b), second: Some(last - a.min(b)) },
        };
        flip(self.block, flips);
        let passed = (self.confirm)(self.block);
        flip(self.block, flips);
        let second = passed && self.survivor.is_some();
        if passed && !second {
            self.survivor = Some(flips);
        }
        !second
    }
}

fn flip(block: &mut [u8], flips: FlippedBits) {
    for bit in [Some(flips.first), flips.second].into_iter().flatten() {
        block[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Returns the word of the preceding bit: multiplies by x.
#[inline]
fn before(word: u32) -> u32 {
    (word >> 1) ^ (POLYNOMIAL & (word & 1).wrapping_neg())
}

/// Returns the bit whose word equals the syndrome, counted from the end.
fn one_bit(syndrome: u32, bits: usize) -> Option<usize> {
    let mut word = LAST;
    for exponent in 0..bits {
        if word == syndrome {
            return Some(exponent);
        }
        word = before(word);
    }
    None
}

/// Calls `visit` for every pair of bits whose words XOR to the syndrome, the bit nearer to the end first, until `visit`
/// returns false. Returns false if it did.
fn two_bits(syndrome: u32, bits: usize, visit: &mut dyn FnMut(usize, usize) -> bool) -> bool {
    let mut places = ExponentTable::new(bits);
    let mut word = LAST;
    for exponent in 0..bits {
        // Words are unique, so each pair is found once: at the later of its two bits.
        if let Some(partner) = places.find(syndrome ^ word)
            && !visit(partner, exponent)
        {
            return false;
        }
        places.insert(word, exponent);
        word = before(word);
    }
    true
}

/// A hash table from words to exponents: open addressing, at most three quarters full. No word is zero.
struct ExponentTable {
    slots: Vec<(u32, u32)>,
    shift: u32,
}

impl ExponentTable {
    fn new(bits: usize) -> ExponentTable {
        let slots = (bits + bits / 3).next_power_of_two();
        ExponentTable { slots: vec![(0, 0); slots], shift: 64 - slots.trailing_zeros() }
    }

    fn slot(&self, word: u32) -> usize {
        // The table has at least 64 slots, since a block has at least 40 bits.
        (u64::from(word).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// Returns the slot of a word, or the empty slot for it.
    fn place(&self, word: u32) -> usize {
        let mut at = self.slot(word);
        while self.slots[at].0 != 0 && self.slots[at].0 != word {
            at = (at + 1) % self.slots.len();
        }
        at
    }

    fn insert(&mut self, word: u32, exponent: usize) {
        let at = self.place(word);
        self.slots[at] = (word, exponent as u32);
    }

    fn find(&self, word: u32) -> Option<usize> {
        if word == 0 {
            return None; // the syndrome is this bit's own word
        }
        let (found, exponent) = self.slots[self.place(word)];
        (found == word).then_some(exponent as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use waxseal_lsm::checksum::hash;

    const SEED: u32 = 0x1234_5678;

    fn framed(stored: &[u8], seed: u32) -> Vec<u8> {
        let mut block = stored.to_vec();
        block.push(0);
        block.extend_from_slice(&crc(seed, &[&block]).to_le_bytes());
        block
    }

    /// A judge that knows the covered bytes by another hash, as the seals of a block do.
    fn knows(block: &[u8]) -> impl FnMut(&[u8]) -> bool + use<> {
        let right = hash(block);
        move |candidate| hash(candidate) == right
    }

    fn flipped(block: &[u8], bits: &[usize]) -> Vec<u8> {
        let mut block = block.to_vec();
        bits.iter().for_each(|bit| block[bit / 8] ^= 1 << (bit % 8));
        block
    }

    #[test]
    fn a_whole_block_fits_and_a_stump_is_nothing() {
        let mut block = framed(b"whole", SEED);
        assert_eq!(correct(&mut block, SEED, &mut |_| panic!("nothing to confirm")), BlockCorrection::Fits);
        assert_eq!(correct(&mut block, SEED + 1, &mut |_| false), BlockCorrection::NotFound);
        for length in 0..5 {
            assert_eq!(correct(&mut vec![9; length], SEED, &mut |_| true), BlockCorrection::NotFound);
        }
    }

    #[test]
    fn every_single_bit_of_a_block_is_found() {
        let block = framed(&(0..200u8).collect::<Vec<_>>(), SEED);
        for bit in 0..block.len() * 8 {
            let mut hit = flipped(&block, &[bit]);
            let outcome = correct(&mut hit, SEED, &mut knows(&block));
            assert_eq!(outcome, BlockCorrection::Corrected(FlippedBits { first: bit, second: None }), "bit {bit}");
            assert_eq!(hit, block);
        }
    }

    #[test]
    fn large_blocks_within_their_limits() {
        let noise = |length: usize| -> Vec<u8> { (0..length as u64).map(|n| hash(&n.to_le_bytes()) as u8).collect() };
        let block = framed(&noise(64 * 1024), SEED);
        assert_eq!(block.len(), TWO_BITS_BYTES);
        for bits in [[0, 1], [5, block.len() * 8 - 1], [100_001, 400_002]] {
            let (mut hit, mut judged) = (flipped(&block, &bits), 0);
            let mut judge = knows(&block);
            let outcome = correct(&mut hit, SEED, &mut |candidate| {
                judged += 1;
                judge(candidate)
            });
            assert_eq!(outcome, BlockCorrection::Corrected(FlippedBits { first: bits[0], second: Some(bits[1]) }));
            assert_eq!(hit, block);
            assert!(judged < 100, "{judged} candidates");
        }
        // In a larger block one flipped bit is still corrected; two are not searched for.
        let block = framed(&noise(64 * 1024 + 1), SEED);
        let mut hit = flipped(&block, &[77_777]);
        assert!(matches!(correct(&mut hit, SEED, &mut knows(&block)), BlockCorrection::Corrected(_)));
        let mut hit = flipped(&block, &[77_777, 77_778]);
        let before = hit.clone();
        assert_eq!(correct(&mut hit, SEED, &mut knows(&block)), BlockCorrection::NotFound);
        assert_eq!(hit, before);
    }

    #[test]
    fn two_corrections_that_pass_are_none() {
        // The judge accepts every candidate; the block is large enough for several chance pairs.
        let block = framed(&vec![7; 64 * 1024], SEED);
        let mut hit = flipped(&block, &[1000, 300_000]);
        let before = hit.clone();
        let mut judged = 0;
        let outcome = correct(&mut hit, SEED, &mut |candidate| {
            judged += 1;
            assert_eq!(syndrome(candidate, SEED), Some(0)); // each candidate matches its CRC
            true
        });
        assert_eq!((outcome, judged), (BlockCorrection::Ambiguous, 2));
        assert_eq!(hit, before);
    }

    proptest! {
        #[test]
        fn one_or_two_flips_are_found_and_three_refused(
            stored in vec(any::<u8>(), 0..600), seed: u32, picks in btree_set(any::<usize>(), 1..=3usize),
        ) {
            let block = framed(&stored, seed);
            let bits: std::collections::BTreeSet<usize> = picks.iter().map(|pick| pick % (block.len() * 8)).collect();
            let bits: Vec<usize> = bits.into_iter().collect();
            let mut hit = flipped(&block, &bits);
            let before = hit.clone();
            let outcome = correct(&mut hit, seed, &mut knows(&block));
            if bits.len() <= 2 {
                prop_assert_eq!(outcome, BlockCorrection::Corrected(FlippedBits { first: bits[0], second: bits.get(1).copied() }));
                prop_assert_eq!(hit, block);
            } else {
                prop_assert_eq!(outcome, BlockCorrection::NotFound);
                prop_assert_eq!(hit, before);
            }
        }

        #[test]
        fn nothing_passes_a_judge_that_refuses(stored in vec(any::<u8>(), 0..300), noise in vec(any::<u8>(), 0..300), seed: u32) {
            let mut block = framed(&stored, seed);
            block.iter_mut().zip(&noise).for_each(|(byte, noise)| *byte ^= noise);
            let before = block.clone();
            prop_assert_ne!(correct(&mut block, seed, &mut |_| false), BlockCorrection::Ambiguous);
            prop_assert_eq!(block, before);
        }
    }
}
