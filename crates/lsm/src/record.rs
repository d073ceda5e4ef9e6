//! Records and their order: the data that the engine stores.
//!
//! A record is (user key, seqno, kind, value), followed by its companions: opaque bytes that are stored and dropped
//! with it. Internal order is user key ascending, then seqno descending (I02). Kinds are code words at Hamming distance
//! 4, so that up to three flipped bits never turn one kind into another. See docs/format.md, section 2.

use crate::codec::Reader;
use crate::env::check_room;
use crate::error::{IoContext, Result};

/// Sequence number: the position in commit order, one per operation. 56 bits last 228 years at ten million writes per
/// second.
pub type Seqno = u64;

/// The greatest possible seqno; a read at `MAX_SEQNO` sees everything.
pub const MAX_SEQNO: Seqno = (1 << 56) - 1;

/// Maximum length of a user key, in bytes.
pub const MAX_KEY_BYTES: usize = 65_535;

/// Maximum length of a value, in bytes: 3 GiB minus one.
pub const MAX_VALUE_BYTES: usize = 3 * (1 << 30) - 1;

/// The kind of a record. The numbers are code words of RM(1,3): any two differ in at least four bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A value.
    Put = 0x33,
    /// A tombstone for one key; it may hold bytes.
    Delete = 0x5A,
    /// Reserved: a tombstone that cancels exactly one put.
    SingleDelete = 0x66,
    /// An operand of the family's merge operator.
    Merge = 0x69,
    /// Reserved: a tombstone for the keys from the record's key up to the key in its value.
    RangeDelete = 0x96,
    /// A value in a blob file; the record holds a pointer to it. Written by flushes and compactions, never by callers.
    /// Readers never see it: they get the value.
    BlobPointer = 0x99,
    /// Reserved: a lost range, in which every read returns corruption.
    Fence = 0xC3,
    /// Reserved: a pointer to a side table.
    SidePointer = 0xCC,
}

impl Kind {
    /// Returns the kind with this code word, if there is one.
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

    /// Returns true for kinds that this version writes to tables and reads there; the others are reserved.
    pub fn is_supported(self) -> bool {
        matches!(self, Kind::Put | Kind::Delete | Kind::Merge | Kind::BlobPointer)
    }

    /// Returns true for a value, whether inline or in a blob file.
    #[inline]
    pub fn is_value(self) -> bool {
        matches!(self, Kind::Put | Kind::BlobPointer)
    }

    /// Returns the kind without the distinction of where a value is stored.
    #[inline]
    #[must_use]
    pub fn logical(self) -> Kind {
        if self == Kind::BlobPointer { Kind::Put } else { self }
    }
}

/// Kinds of companions that may follow a record, and of entries that any reader may skip by their length.
pub mod companion {
    use super::*;

    /// An 8-byte word, usually a seal.
    pub const WORD8: u8 = 0xAA;
    /// Length of such a companion: its kind and its word.
    pub const WORD8_BYTES: usize = 9;
    /// A 4-byte word.
    pub const WORD4: u8 = 0xF0;
    /// Length of such a companion: its kind and its word.
    pub const WORD4_BYTES: usize = 5;
    /// A list of typed entries, preceded by a varint length.
    pub const LIST: u8 = 0xA5;
    /// Length-prefixed entries that older readers skip.
    pub const SKIPPABLE: [u8; 3] = [0x0F, 0x3C, 0x55];

    /// Marks of a record: a length and a varint of bits. One of the skippable kinds.
    pub const MARKS: u8 = 0x0F;
    /// The mark of an adopted record: it arrived without companions, and a flush or compaction made them.
    pub const ADOPTED: u64 = 1;

    /// Maximum length of one record's companions, in bytes.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// Returns true if a byte begins a companion (and thus cannot begin a record).
    #[inline]
    pub fn begins(byte: u8) -> bool {
        matches!(byte, WORD8 | WORD4 | LIST) || SKIPPABLE.contains(&byte)
    }

    /// Returns true if the companions are a single word or empty, as for nearly all records.
    #[inline]
    pub fn is_bare(companions: &[u8]) -> bool {
        matches!(companions, [] | [WORD8, _, _, _, _, _, _, _, _])
    }

    /// Returns true if a record's companions mark it as adopted.
    #[inline]
    pub fn is_adopted(companions: &[u8]) -> bool {
        // Nearly all records have a single word, or no companion.
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

    /// Reads the kind and the bytes of the next companion. Errors: `Corruption` if no companion follows, or an
    /// incomplete one.
    fn next<'a>(reader: &mut Reader<'a>) -> Result<(u8, &'a [u8])> {
        let kind = reader.u8()?;
        let length = match kind {
            WORD8 => 8,
            WORD4 => 4,
            _ => reader.varint_len()?,
        };
        Ok((kind, reader.bytes(length)?))
    }

    /// Returns the length of the companions before a second word. A record has at most one word; a second one is not
    /// its own.
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

    /// Moves `reader` past all companions and returns their bytes, including kind bytes.
    #[inline(always)]
    pub fn take<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        let rest = reader.rest();
        // Nearly all records have a single word, or no companion.
        match rest.first() {
            Some(&WORD8) if rest.get(WORD8_BYTES).is_none_or(|byte| !begins(*byte)) => reader.bytes(WORD8_BYTES),
            Some(byte) if begins(*byte) => take_more(reader),
            _ => Ok(&rest[..0]),
        }
    }

    /// Reads companions that continue after the word: often one short skippable entry.
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

/// One record, borrowed from its memtable, block or buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The user key, 0 to 65,535 bytes.
    pub key: &'a [u8],
    /// Its position in commit order.
    pub seqno: Seqno,
    /// Its kind.
    pub kind: Kind,
    /// The value; a tombstone may hold bytes too.
    pub value: &'a [u8],
    /// Its companions, encoded as in a block; empty on a plain node.
    pub companion: &'a [u8],
}

/// A value that holds one record.
pub trait AsRecord {
    /// Borrows the record.
    fn as_record(&self) -> Record<'_>;
}

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The key.
    pub key: Vec<u8>,
    /// The seqno.
    pub seqno: Seqno,
    /// The kind.
    pub kind: Kind,
    /// The value.
    pub value: Vec<u8>,
    /// The companions.
    pub companion: Vec<u8>,
}

impl OwnedRecord {
    /// Copies a record.
    pub fn of(record: &Record<'_>) -> OwnedRecord {
        let [key, value, companion] = [record.key, record.value, record.companion].map(<[u8]>::to_vec);
        OwnedRecord { key, seqno: record.seqno, kind: record.kind, value, companion }
    }

    /// Copies a record that a read found. Returns `Io` if the memory for it is not available.
    pub fn try_of(record: &Record<'_>) -> Result<OwnedRecord> {
        check_room(record.key.len() + record.value.len() + record.companion.len()).during(|| "copying a record")?;
        Ok(OwnedRecord::of(record))
    }

    /// Borrows the record.
    pub fn borrow(&self) -> Record<'_> {
        Record { key: &self.key, seqno: self.seqno, kind: self.kind, value: &self.value, companion: &self.companion }
    }
}

impl AsRecord for OwnedRecord {
    fn as_record(&self) -> Record<'_> {
        self.borrow()
    }
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
