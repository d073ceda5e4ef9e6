//! Records and their order: what the engine stores.
//!
//! A record is (user key, seqno, kind, value) followed by its companions, opaque bytes that live and die with it.
//! Internal order is user key ascending, then seqno descending (I02). Kinds are code words at Hamming distance 4,
//! so that no three flipped bits turn one kind into another. docs/format.md, section 2.

use crate::codec::Reader;
use crate::error::Result;

/// Position in the order of commits, one per operation. 56 bits: at ten million writes a second they last 228 years.
pub type Seqno = u64;

/// The greatest seqno there can be; a read at `MAX_SEQNO` sees everything.
pub const MAX_SEQNO: Seqno = (1 << 56) - 1;

/// Longest user key, in bytes.
pub const MAX_KEY_BYTES: usize = 65_535;

/// Longest value, in bytes: 3 GiB less one.
pub const MAX_VALUE_BYTES: usize = 3 * (1 << 30) - 1;

/// What a record is. The numbers are code words of RM(1,3): any two differ in at least four bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A value.
    Put = 0x33,
    /// A tombstone for one key; it may carry bytes.
    Delete = 0x5A,
    /// Reserved: a tombstone that meets exactly one put.
    SingleDelete = 0x66,
    /// Reserved: an operand for a merge operator.
    Merge = 0x69,
    /// Reserved: a tombstone for the keys from the record's key up to the value.
    RangeDelete = 0x96,
    /// A value that stands in a value file; the record has a pointer to it. Written by flushes and compactions, never by callers, and
    /// shown to nobody who reads: they get the value.
    BlobPointer = 0x99,
    /// Reserved: a span in which every read answers corruption.
    Fence = 0xC3,
    /// Reserved: a pointer to a side table.
    SidePointer = 0xCC,
}

impl Kind {
    /// The kind with this code word, if it is one that a record can have.
    #[inline]
    pub fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            0x33 => Kind::Put,
            0x5A => Kind::Delete,
            0x66 => Kind::SingleDelete,
            0x69 => Kind::Merge,
            0x96 => Kind::RangeDelete,
            0x99 => Kind::BlobPointer,
            0xC3 => Kind::Fence,
            0xCC => Kind::SidePointer,
            _ => return None,
        })
    }

    /// True for kinds that this version writes to tables and reads there; the others are reserved.
    pub fn is_supported(self) -> bool {
        matches!(self, Kind::Put | Kind::Delete | Kind::BlobPointer)
    }

    /// True for a value, wherever it stands.
    #[inline]
    pub fn is_value(self) -> bool {
        matches!(self, Kind::Put | Kind::BlobPointer)
    }

    /// The kind for whoever does not care where a value stands.
    #[inline]
    #[must_use]
    pub fn logical(self) -> Kind {
        if self == Kind::BlobPointer { Kind::Put } else { self }
    }
}

/// Kinds of the companions that may follow a record, and of entries any reader may skip by their length.
pub mod companion {
    use super::*;

    /// An 8-byte word, the usual seal.
    pub const WORD8: u8 = 0xAA;
    /// Bytes of such a companion: its kind and its word.
    pub const WORD8_BYTES: usize = 9;
    /// A 4-byte word.
    pub const WORD4: u8 = 0xF0;
    /// Bytes of such a companion: its kind and its word.
    pub const WORD4_BYTES: usize = 5;
    /// A list of typed entries behind a varint length.
    pub const LIST: u8 = 0xA5;
    /// Length-prefixed entries that older readers skip.
    pub const SKIPPABLE: [u8; 3] = [0x0F, 0x3C, 0x55];

    /// Marks of a record: a varint of bits behind its length. One of the skippable kinds.
    pub const MARKS: u8 = 0x0F;
    /// The mark of a record that came from a place without companions, and was given its own by a flush or compaction.
    pub const ADOPTED: u64 = 1;

    /// The longest companion sequence of one record, in bytes.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// True if a byte begins a companion (and so cannot begin a record).
    #[inline]
    pub fn begins(byte: u8) -> bool {
        matches!(byte, WORD8 | WORD4 | LIST) || SKIPPABLE.contains(&byte)
    }

    /// True if there is nothing but one word, or nothing at all: what nearly all records have.
    #[inline]
    pub fn is_bare(companions: &[u8]) -> bool {
        matches!(companions, [] | [WORD8, _, _, _, _, _, _, _, _])
    }

    /// True if a record's companions say that it was adopted.
    #[inline]
    pub fn is_adopted(companions: &[u8]) -> bool {
        // Nearly all have one word and nothing else, or nothing.
        companions.len() > WORD8_BYTES && has_mark(companions, ADOPTED)
    }

    fn has_mark(companions: &[u8], mark: u64) -> bool {
        let mut reader = Reader::new(companions);
        while let Ok((kind, bytes)) = next(&mut reader) {
            if kind == MARKS && Reader::new(bytes).varint().is_ok_and(|marks| marks & mark != 0) {
                return true;
            }
        }
        false
    }

    /// The kind and the bytes of the next companion. Errors: `Corruption` if there is none, or not all of it.
    fn next<'a>(reader: &mut Reader<'a>) -> Result<(u8, &'a [u8])> {
        let kind = reader.u8()?;
        let length = match kind {
            WORD8 => 8,
            WORD4 => 4,
            _ => reader.varint_len()?,
        };
        Ok((kind, reader.bytes(length)?))
    }

    /// The bytes of these companions up to a second word: a record has one at the most, so that another one is something else.
    pub fn up_to_a_second_word(companions: &[u8]) -> usize {
        let mut reader = Reader::new(companions);
        let (mut words, mut end) = (0, 0);
        while let Ok((kind, _)) = next(&mut reader) {
            words += usize::from(matches!(kind, WORD8 | WORD4));
            if words > 1 {
                break;
            }
            end = reader.position();
        }
        end
    }

    /// Moves `reader` past all companions in front of it and returns their bytes, kind bytes included.
    #[inline(always)]
    pub fn take<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        let rest = reader.rest();
        // Nearly all records have one word and nothing else, or nothing.
        match rest.first() {
            Some(&WORD8) if rest.get(WORD8_BYTES).is_none_or(|byte| !begins(*byte)) => reader.bytes(WORD8_BYTES),
            Some(byte) if begins(*byte) => take_more(reader),
            _ => Ok(&rest[..0]),
        }
    }

    /// Some have one short skippable entry behind the word.
    #[inline(never)]
    fn take_more<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        let rest = reader.rest();
        let length = match rest.get(WORD8_BYTES..WORD8_BYTES + 2) {
            Some([kind, short]) if rest[0] == WORD8 && SKIPPABLE.contains(kind) && *short < 0x80 => {
                WORD8_BYTES + 2 + usize::from(*short)
            }
            _ => return take_slowly(reader),
        };
        match rest.get(length) {
            Some(byte) if begins(*byte) => take_slowly(reader),
            _ => reader.bytes(length),
        }
    }

    #[inline(never)]
    fn take_slowly<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        let rest = reader.rest();
        let start = reader.position();
        while reader.peek().is_some_and(begins) {
            next(reader)?;
        }
        Ok(&rest[..reader.position() - start])
    }
}

/// One record, borrowed from wherever it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The user key, 0 to 65,535 bytes.
    pub key: &'a [u8],
    /// Its place in the order of commits.
    pub seqno: Seqno,
    /// What it is.
    pub kind: Kind,
    /// The value; a tombstone may carry bytes too.
    pub value: &'a [u8],
    /// Its companions, encoded as in a block; empty on a plain node.
    pub companion: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_are_taken_whole_or_refused_whichever_way_they_are_walked() {
        let word = [&[companion::WORD8][..], &[7; 8]].concat();
        let (stamp, list) = ([0x3C, 3, 1, 2, 3], [companion::LIST, 1, 9]);
        let long = [&[0x55, 0x80, 1][..], &[5; 128]].concat();
        let parts: [&[u8]; 6] = [&[], &word, &stamp, &list, &long, &[companion::MARKS, 1, 1]];
        for first in parts {
            for second in parts {
                for third in parts {
                    let all = [first, second, third].concat();
                    for behind in [&[][..], &[Kind::Put as u8, 4]] {
                        let bytes = [&all, behind].concat();
                        assert_eq!(companion::take(&mut Reader::new(&bytes)).unwrap(), all);
                    }
                    let whole = [first.len(), first.len() + second.len(), all.len()];
                    for cut in (1..all.len()).filter(|cut| !whole.contains(cut)) {
                        assert!(companion::take(&mut Reader::new(&all[..cut])).is_err(), "{all:?} cut at {cut}");
                    }
                }
            }
        }
    }

    #[test]
    fn kinds_are_four_bits_apart() {
        let mut words: Vec<u8> = (0..=255).filter(|b| Kind::from_byte(*b).is_some() || companion::begins(*b)).collect();
        words.extend([0x00, 0xFF]); // erase patterns: never a kind
        assert_eq!(words.len(), 16);
        for (i, a) in words.iter().enumerate() {
            for b in &words[i + 1..] {
                assert!((a ^ b).count_ones() >= 4, "{a:02x} and {b:02x}");
            }
        }
    }
}
