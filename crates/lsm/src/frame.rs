//! Frames: the common framing of the log and the manifest. See docs/format.md, section 5.1.
//!
//! A frame's link chains it to all previous frames: it mixes the previous link, the logical offset, both header words
//! and the body. The link of a recycled frame, of a frame from another file or offset, or of log bytes stored inside a
//! value never matches.

use crate::checksum::{hash, mix};
use crate::error::{Error, Result};
use crate::record::{MAX_SEQNO, Seqno};

/// Length of a frame header.
pub const FRAME_HEADER_BYTES: usize = 24;

/// The unit in which the log is drained and synced.
pub const PAGE_BYTES: usize = 4096;

/// The kind of a frame. The numbers are code words, as for record kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Operations, or a manifest edit.
    Batch = 0x33,
    /// Operations; starts at a page boundary and takes whole pages.
    LargeBatch = 0x69,
    /// No content; carries a witness and ends at a page boundary.
    Padding = 0x5A,
    /// Names the next segment; the last frame of its segment.
    Turnover = 0x66,
    /// Reserved; readers skip such frames.
    Skippable = 0x55,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        [FrameKind::Batch, FrameKind::LargeBatch, FrameKind::Padding, FrameKind::Turnover, FrameKind::Skippable]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// The header of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Length of the body in bytes, without padding zeros.
    pub length: u32,
    /// Low half of the body's hash.
    pub body_sum: u32,
    /// First seqno of the frame (of the next operation, if it takes none).
    pub seqno: Seqno,
    /// The kind of body.
    pub kind: FrameKind,
    /// The chained hash up to and including this frame.
    pub link: u64,
}

/// Computes the link of a frame. `body_hash` is the full 64-bit hash of its body.
#[inline]
pub fn link(previous: u64, offset: u64, word0: u64, word1: u64, body_hash: u64) -> u64 {
    let mut link = mix(previous ^ mix(offset.wrapping_add(0x9E37_79B9_7F4A_7C15)));
    link = mix(link ^ word0);
    link = mix(link ^ word1);
    mix(link ^ body_hash)
}

impl FrameHeader {
    /// Creates the header of a frame at `offset` after the link `previous`. Cheap, without a pass over the body,
    /// because it runs in the ordered section.
    #[inline]
    pub fn chained(
        previous: u64,
        offset: u64,
        kind: FrameKind,
        seqno: Seqno,
        length: u32,
        body_hash: u64,
    ) -> FrameHeader {
        let mut header = FrameHeader { length, body_sum: body_hash as u32, seqno, kind, link: 0 };
        let (word0, word1) = header.words();
        header.link = link(previous, offset, word0, word1, body_hash);
        header
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let (word0, word1) = self.words();
        let mut out = [0; FRAME_HEADER_BYTES];
        out[..8].copy_from_slice(&word0.to_le_bytes());
        out[8..16].copy_from_slice(&word1.to_le_bytes());
        out[16..].copy_from_slice(&self.link.to_le_bytes());
        out
    }

    /// Decodes a header, without checking its link.
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<FrameHeader> {
        FrameHeader::peek(bytes).ok_or_else(|| Error::structural("frame of no known kind"))
    }

    /// As `decode`, for scans of many offsets that mostly hold no frame: does not allocate an error.
    #[inline]
    pub fn peek(bytes: &[u8; FRAME_HEADER_BYTES]) -> Option<FrameHeader> {
        let (words, _) = bytes.as_chunks::<8>();
        let [word0, word1, link] = [words[0], words[1], words[2]].map(u64::from_le_bytes);
        let kind = FrameKind::from_byte((word1 >> 56) as u8)?;
        Some(FrameHeader { length: word0 as u32, body_sum: (word0 >> 32) as u32, seqno: word1 & MAX_SEQNO, kind, link })
    }

    /// Returns true if this frame, with this body, belongs at `offset` after the link `previous`.
    pub fn fits(&self, previous: u64, offset: u64, body: &[u8]) -> bool {
        let body_hash = hash(body);
        let (word0, word1) = self.words();
        body.len() == self.length as usize
            && self.body_sum == body_hash as u32
            && self.link == link(previous, offset, word0, word1, body_hash)
    }

    /// Returns the number of log bytes that the frame takes.
    #[inline]
    pub fn extent(&self) -> u64 {
        extent(self.kind, self.length as u64)
    }

    fn words(&self) -> (u64, u64) {
        (self.length as u64 | (self.body_sum as u64) << 32, self.seqno | (self.kind as u64) << 56)
    }
}

/// Returns the number of log bytes that a frame of this kind and body length takes.
#[inline]
pub fn extent(kind: FrameKind, length: u64) -> u64 {
    let unit = if kind == FrameKind::LargeBatch { PAGE_BYTES as u64 } else { 8 };
    (FRAME_HEADER_BYTES as u64 + length).next_multiple_of(unit)
}

/// A mark: a log offset (a multiple of 8) with a checksum, in one word. See docs/format.md, section 5.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mark {
    /// Commits up to this offset were acknowledged.
    Acknowledged = 1,
    /// The log is durable up to this offset.
    Synced = 2,
    /// The manifest is durable up to this offset.
    Edited = 3,
}

impl Mark {
    /// Encodes `offset` as a word.
    #[inline]
    pub fn encode(self, nonce: u64, offset: u64) -> u64 {
        let value = offset / 8;
        debug_assert!(value < 1 << 48 && offset.is_multiple_of(8));
        value | (mix(value ^ nonce ^ (self as u64) << 48) >> 48) << 48
    }

    /// Returns the offset in a word, if its checksum matches.
    pub fn decode(self, nonce: u64, word: u64) -> Option<u64> {
        let value = word & ((1 << 48) - 1);
        (self.encode(nonce, value * 8) == word).then_some(value * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_fits_its_place_only(body: Vec<u8>, previous: u64, offset in 0u64..1 << 40, seqno in 0..MAX_SEQNO, bit in 0usize..192) {
            let header = FrameHeader::chained(previous, offset * 8, FrameKind::Batch, seqno, body.len() as u32, hash(&body));
            let bytes = header.encode();
            prop_assert_eq!(FrameHeader::decode(&bytes).unwrap(), header);
            prop_assert!(header.fits(previous, offset * 8, &body));
            prop_assert!(!header.fits(previous ^ 1, offset * 8, &body));
            prop_assert!(!header.fits(previous, offset * 8 + 8, &body));
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(FrameHeader::decode(&flipped).map_or(true, |header| !header.fits(previous, offset * 8, &body)));
        }

        #[test]
        fn marks_check_themselves(nonce: u64, offset in 0u64..1 << 48, bit in 0u32..64) {
            let word = Mark::Synced.encode(nonce, offset * 8);
            prop_assert_eq!(Mark::Synced.decode(nonce, word), Some(offset * 8));
            prop_assert_eq!(Mark::Synced.decode(nonce, word ^ 1 << bit).filter(|o| *o == offset * 8), None);
        }
    }
}
