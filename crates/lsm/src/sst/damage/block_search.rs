//! Search for the whole blocks of a damaged table file.
//!
//! Holds: data blocks are contiguous, and the CRC of each is seeded with its offset. Other bytes pass with a
//!        probability of 2^-32 per byte, and they must also decompress and validate.
//! Costs: one pass, with a few chunks of the file in memory. After damage, the search looks for a matching pair of
//!        start and end: as CRCs are linear, the CRC of `a..b` matches if a word computed at `a` equals a word computed
//!        at `b`. Thus one hash lookup per byte finds the next whole block, whatever is before it.

use std::collections::HashMap;

use super::tolerant_file::TolerantFile;
use crate::checksum::{Role, Uid, block_seed, crc, hash_key};
use crate::header::HEADER_BYTES;
use crate::options::KIB;
use crate::order::Order;
use crate::record::Seqno;
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{BlockHandle, StoredBlock, TRAILER_BYTES};
use crate::sst::block::scan::{KeyBuffer, scan_entries};
use crate::sst::index::index::Index;

/// Maximum length of a block that is searched for at unknown offsets. The first block after a whole one may be longer.
pub(in crate::sst) const WINDOW: u64 = 1088 * KIB as u64;

/// Bytes per read.
const PIECE: u64 = 256 * KIB as u64;

/// A data block that was found, and facts from its scan. Seqnos are relative.
pub(in crate::sst) struct FoundBlock {
    pub(in crate::sst) handle: BlockHandle,
    pub(in crate::sst) first_key: Vec<u8>,
    pub(in crate::sst) last_key: Vec<u8>,
    /// Least and greatest nonzero seqno; `None` if all are zero.
    pub(in crate::sst) seqs: Option<(Seqno, Seqno)>,
}

/// The part of a file that is searched for blocks.
#[derive(Clone, Copy)]
pub(in crate::sst) struct BlockSearch<'a> {
    pub(in crate::sst) given: &'a TolerantFile<'a>,
    pub(in crate::sst) uid: Uid,
    pub(in crate::sst) end: u64,
    pub(in crate::sst) order: &'a Order,
    /// The dictionary for zstd blocks.
    pub(in crate::sst) dictionary: Option<&'a Dictionary>,
}

impl BlockSearch<'_> {
    /// The same search with another end.
    pub(in crate::sst) fn within(self, end: u64) -> Self {
        BlockSearch { end, ..self }
    }

    /// Returns all data blocks that can be found.
    pub(in crate::sst) fn blocks(&self) -> Vec<FoundBlock> {
        self.blocks_from(HEADER_BYTES as u64, None)
    }

    /// Returns all blocks from an offset on whose keys are not less than `floor`.
    pub(in crate::sst) fn blocks_from(&self, mut from: u64, floor: Option<&[u8]>) -> Vec<FoundBlock> {
        let mut blocks: Vec<FoundBlock> = Vec::new();
        loop {
            let mut found = None;
            let follows = |block: &FoundBlock| {
                let before = blocks.last().map(|before| &before.last_key[..]).or(floor);
                before.is_none_or(|before| self.order.compare(before, &block.first_key).is_le())
            };
            self.next(Role::Data, from, &mut |at, bytes| {
                found = self.look(at, bytes).filter(follows);
                found.is_some()
            });
            let Some(block) = found else { return blocks };
            from = block.handle.end();
            blocks.push(block);
        }
    }

    /// Returns the undamaged blocks that an index names.
    pub(in crate::sst) fn named(&self, index: &Index) -> Vec<FoundBlock> {
        let framed = |handle: &BlockHandle| self.given.read(handle.offset, handle.bytes());
        index.handles().iter().filter_map(|handle| self.look(handle.offset, &framed(handle))).collect()
    }

    /// Calls `accept` with framed blocks of a role whose CRC matches, in file order, until it returns true.
    pub(in crate::sst) fn next(&self, role: Role, from: u64, accept: &mut dyn FnMut(u64, &[u8]) -> bool) -> Option<()> {
        self.begins_at(role, from, accept).or_else(|| self.begins_behind(role, from, accept))
    }

    /// Searches for a block that begins at `from`.
    pub(in crate::sst) fn begins_at(
        &self,
        role: Role,
        from: u64,
        accept: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Option<()> {
        let mut register = !block_seed(&self.uid, from, role);
        self.positions(from, self.end.min(from.saturating_add(WINDOW)), &mut |at, byte, next| {
            register = step(register, byte);
            !register == next && self.show(from, at + 5, accept)
        })
    }

    /// Searches for a block that begins after `from` and fits into the window, or begins at `from` and has any length.
    pub(in crate::sst) fn begins_behind(
        &self,
        role: Role,
        from: u64,
        accept: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Option<()> {
        let mut here = !block_seed(&self.uid, from, role);
        let (mut prefix, mut back) = (0u32, ONE);
        let mut starts = [HashMap::new(), HashMap::new()];
        self.positions(from, self.end, &mut |at, byte, next| {
            if starts[0].len() as u64 >= WINDOW {
                starts.swap(0, 1);
                starts[0].clear();
            }
            starts[0].insert(times(back, !block_seed(&self.uid, at, role) ^ prefix), at);
            (here, prefix) = (step(here, byte), step(prefix, byte));
            (0..8).for_each(|_| back = divided(back));
            if !here == next && self.show(from, at + 5, accept) {
                return true;
            }
            let wanted = times(back, !next ^ prefix);
            starts.iter().any(|starts| starts.get(&wanted).is_some_and(|start| self.show(*start, at + 5, accept)))
        })
    }

    /// Visits every byte with its offset and the next four bytes as a number, until `visit` returns true.
    fn positions(&self, from: u64, to: u64, visit: &mut dyn FnMut(u64, u8, u32) -> bool) -> Option<()> {
        let mut at = from;
        while at + 5 <= to {
            let piece = self.given.read(at, PIECE.min(to - at) as usize);
            for (offset, window) in (at..).zip(piece.windows(5)) {
                let [byte, a, b, c, d] = *window else { continue };
                if visit(offset, byte, u32::from_le_bytes([a, b, c, d])) {
                    return Some(());
                }
            }
            at += piece.len() as u64 - 4;
        }
        None
    }

    fn show(&self, from: u64, to: u64, accept: &mut dyn FnMut(u64, &[u8]) -> bool) -> bool {
        let length = to.saturating_sub(from);
        length >= TRAILER_BYTES as u64 && length <= u32::MAX.into() && {
            let bytes = self.given.read(from, length as usize);
            accept(from, &bytes)
        }
    }

    /// Decodes a framed data block; returns `None` if it does not decompress or validate.
    fn look(&self, at: u64, framed: &[u8]) -> Option<FoundBlock> {
        let (covered, own) = framed.split_last_chunk::<4>()?;
        let own = u32::from_le_bytes(*own);
        let (codec, stored) = covered.split_last()?;
        if own != crc(block_seed(&self.uid, at, Role::Data), &[covered]) {
            return None;
        }
        let parts = StoredBlock::split(stored, *codec).ok()?;
        let mut scratch = Vec::new();
        let body = parts.body_of_any_length(&mut scratch, self.dictionary).ok()?;
        let (mut first_key, mut seqs) = (None, None::<(Seqno, Seqno)>);
        let mut keys = KeyBuffer::default();
        scan_entries(body, parts.column, 1, self.order, &mut keys, |_, record| {
            first_key.get_or_insert_with(|| record.key.to_vec());
            if let Some(seq) = record.seqno.checked_sub(1) {
                seqs = Some(seqs.map_or((seq, seq), |(least, greatest)| (least.min(seq), greatest.max(seq))));
            }
            Ok(())
        })
        .ok()?;
        let handle = BlockHandle {
            offset: at,
            stored_len: stored.len() as u32,
            raw_len: u32::try_from(body.len()).ok()?,
            crc: own,
        };
        Some(FoundBlock { handle, first_key: first_key?, last_key: keys.last, seqs })
    }

    /// Returns whether the companions of some block match if seqnos are relative to `base`.
    pub(in crate::sst) fn speaks_for(&self, blocks: &[FoundBlock], base: Seqno, protector: &dyn Companions) -> bool {
        blocks.iter().any(|block| {
            let bytes = self.given.read(block.handle.offset, block.handle.bytes());
            let (stored, behind) = bytes.split_at(block.handle.stored_len as usize);
            let Ok(parts) = StoredBlock::split(stored, behind[0]) else { return false };
            let mut scratch = Vec::new();
            let Ok(body) = parts.body(block.handle.raw_len, &mut scratch, self.dictionary) else { return false };
            let mut fits = false;
            let _ = scan_entries(body, parts.column, base, self.order, &mut KeyBuffer::default(), |_, record| {
                let check = protector.verify(record, hash_key(record.key), Protection::Partial);
                fits |= record.seqno > 0 && check == Check::Validated;
                Ok(())
            });
            fits
        })
    }
}

/// The polynomial of zlib's CRC-32, reflected: x^32 modulo the polynomial.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// x^0.
const ONE: u32 = 1 << 31;

const STEPS: [u32; 256] = steps();

const fn steps() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            register = multiplied(register);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

/// Advances the CRC register by one byte.
#[inline]
fn step(register: u32, byte: u8) -> u32 {
    STEPS[(register as u8 ^ byte) as usize] ^ (register >> 8)
}

/// Multiplies by x.
#[inline]
const fn multiplied(word: u32) -> u32 {
    (word >> 1) ^ (POLYNOMIAL & (word & 1).wrapping_neg())
}

/// Divides by x.
#[inline]
fn divided(word: u32) -> u32 {
    if word & ONE == 0 { word << 1 } else { (word ^ POLYNOMIAL) << 1 | 1 }
}

/// Multiplies two polynomials.
#[inline]
fn times(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = multiplied(b);
    }
    product
}
