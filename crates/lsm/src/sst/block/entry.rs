//! Entries: the encoding of records in the body of a data block. See docs/format.md, section 4.2.
//!
//! `BlockBuilder` writes a body. `scan` validates every byte of a body. `BlockEntry` reads one entry of a body that was
//! already validated.

use super::frame::{COMPANION_BYTES, WORD_BYTES, word_of};
use crate::codec::{Reader, put_varint, varint_bytes};
use crate::error::{Error, Result};
use crate::order::common_prefix;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};

/// Count, interval, flags and padding at the end of a body.
const TAIL_BYTES: usize = 8;

/// Minimum length of an entry: kind and four varints.
pub(in crate::sst) const LEAST_ENTRY_BYTES: usize = 5;

/// The header of an entry, decoded.
#[derive(Clone, Copy, Debug)]
pub(in crate::sst) struct BlockEntry {
    pub(in crate::sst) kind: Kind,
    /// Length of the prefix shared with the restart's key.
    pub(in crate::sst) shared: usize,
    /// Offset of the rest of the key.
    pub(in crate::sst) suffix_at: usize,
    /// Offset of the value, directly after the key suffix.
    pub(in crate::sst) value_at: usize,
    /// Offset of the companions, directly after the value.
    pub(in crate::sst) value_end: usize,
    /// The seqno as encoded in the block.
    seq: u64,
}

impl BlockEntry {
    /// Reads the entry at `at`. Its suffix and value are within `bytes`.
    #[inline(always)]
    pub(in crate::sst) fn read(bytes: &[u8], at: usize) -> Result<BlockEntry> {
        match BlockEntry::short(bytes, at) {
            Some(entry) => Ok(entry),
            None => BlockEntry::read_longer(bytes, at),
        }
    }

    /// Reads an entry whose lengths take one byte each, as nearly all do; `None` if another decoder is needed.
    #[inline(always)]
    pub(in crate::sst) fn short(bytes: &[u8], at: usize) -> Option<BlockEntry> {
        BlockEntry::short_of(bytes, at, Kind::from_byte)
    }

    /// As `short`, for puts only.
    #[inline(always)]
    pub(in crate::sst) fn short_put(bytes: &[u8], at: usize) -> Option<BlockEntry> {
        BlockEntry::short_of(bytes, at, |byte| (byte == Kind::Put as u8).then_some(Kind::Put))
    }

    #[inline(always)]
    fn short_of(bytes: &[u8], at: usize, kind: impl Fn(u8) -> Option<Kind>) -> Option<BlockEntry> {
        // The end of a body leaves room to load eight bytes for the seqno.
        let &[byte, shared, unshared, value_len, ref seq @ ..] = bytes.get(at..)?.first_chunk::<12>()?;
        if (shared | unshared | value_len) >= 0x80 {
            return None;
        }
        let kind = kind(byte)?;
        let (seq, length) = varint_of(u64::from_le_bytes(*seq))?;
        let suffix_at = at + 4 + length;
        let value_at = suffix_at + unshared as usize;
        let value_end = value_at + value_len as usize;
        let is_within = value_end <= bytes.len();
        is_within.then_some(BlockEntry { kind, shared: shared as usize, suffix_at, value_at, value_end, seq })
    }

    /// Reads an entry whose value length takes more than one byte.
    #[inline(never)]
    fn read_longer(bytes: &[u8], at: usize) -> Result<BlockEntry> {
        if let Some(&[kind, shared, unshared, ref lengths @ ..]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<11>)
            && (shared | unshared) < 0x80
            && let Some(kind) = Kind::from_byte(kind)
            && let Some((value_len, length)) = varint_of(u64::from_le_bytes(*lengths))
            && let Some((seq_at, seq)) = word_at(bytes, at + 3 + length)
            && let Some((seq, length)) = varint_of(seq)
        {
            let suffix_at = seq_at + length;
            let value_at = suffix_at + unshared as usize;
            if bytes.len().checked_sub(value_at).is_some_and(|left| value_len <= left as u64) {
                let value_end = value_at + value_len as usize;
                return Ok(BlockEntry { kind, shared: shared as usize, suffix_at, value_at, value_end, seq });
            }
        }
        BlockEntry::read_any(bytes, at)
    }

    #[inline(never)]
    fn read_any(bytes: &[u8], at: usize) -> Result<BlockEntry> {
        let mut reader = Reader::starting_at(bytes, at);
        let kind = Kind::from_byte(reader.u8()?).ok_or_else(|| Error::structural("an entry of no known kind"))?;
        let (shared, unshared, value_len) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let seq = reader.varint()?;
        let (suffix_at, left) = (reader.position(), reader.remaining() as u64);
        if shared > MAX_KEY_BYTES as u64 || unshared > left || value_len > left - unshared {
            return Err(Error::structural("an entry points past the end of its block"));
        }
        let value_at = suffix_at + unshared as usize;
        Ok(BlockEntry {
            kind,
            shared: shared as usize,
            suffix_at,
            value_at,
            value_end: value_at + value_len as usize,
            seq,
        })
    }

    /// Returns the entry's seqno; `scan_entries` has validated its range.
    #[inline]
    pub(in crate::sst) fn seqno(&self, base: Seqno) -> Seqno {
        if self.seq == 0 { 0 } else { base.wrapping_add(self.seq - 1) }
    }
}

/// Returns the offset and the eight bytes there, if the slice is long enough.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<(usize, u64)> {
    Some((at, u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

/// Decodes a varint of up to eight bytes at the low end of a word, and returns its length too; `None` if it is longer.
#[inline(always)]
fn varint_of(word: u64) -> Option<(u64, usize)> {
    const ENDS: u64 = 0x8080_8080_8080_8080;
    let ends = !word & ENDS;
    if ends == 0 {
        return None;
    }
    let mut x = word & (ends ^ (ends - 1)) & !ENDS;
    // Close the gaps: one bit between groups of seven, two between groups of fourteen, four between groups of
    // twenty-eight.
    x = x & 0x007f_007f_007f_007f | (x & 0x7f00_7f00_7f00_7f00) >> 1;
    x = x & 0x0000_3fff_0000_3fff | (x & 0x3fff_0000_3fff_0000) >> 2;
    x = x & 0x0000_0000_0fff_ffff | (x & 0x0fff_ffff_0000_0000) >> 4;
    Some((x, ends.trailing_zeros() as usize / 8 + 1))
}

/// The trailer of a body: the number of entries, and the position of the restart offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sst) struct BlockTrailer {
    pub(in crate::sst) count: u32,
    pub(in crate::sst) interval: u8,
    /// End of the entries and start of the restart offsets.
    pub(in crate::sst) entries_end: u32,
}

impl BlockTrailer {
    /// Reads the trailer of a body; `column` is the length of the block's companion column, if it has one.
    pub(in crate::sst) fn of(body: &[u8], column: Option<usize>) -> Result<BlockTrailer> {
        let shape = BlockTrailer::read(body)?;
        match column.is_some_and(|length| length != shape.count as usize * WORD_BYTES) {
            true => Err(Error::structural("a companion column has another length than its block")),
            false => Ok(shape),
        }
    }

    /// Returns the offset of the restart of an entry, as stored in the body.
    #[inline]
    pub(in crate::sst) fn restart(&self, body: &[u8], index: usize) -> Option<u32> {
        let place = self.entries_end as usize + index / self.interval as usize * 4;
        body.get(place..).and_then(<[u8]>::first_chunk::<4>).map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Reads the trailer of a body.
    pub(in crate::sst) fn read(body: &[u8]) -> Result<BlockTrailer> {
        let short = || Error::structural("a data block ends too early");
        let tail_at = body.len().checked_sub(TAIL_BYTES).ok_or_else(short)?;
        let mut tail = Reader::starting_at(body, tail_at);
        let (count, interval, flags, zero) = (tail.u32()?, tail.u8()?, tail.u8()?, tail.u16()?);
        if count == 0 || interval == 0 || flags != 0 || zero != 0 {
            return Err(Error::structural("a data block ends in a way this version does not know"));
        }
        let restarts = (count as usize).div_ceil(interval as usize);
        let entries_end = tail_at.checked_sub(restarts * 4).ok_or_else(short)?;
        if count as usize > entries_end / LEAST_ENTRY_BYTES {
            return Err(Error::structural("a data block claims more entries than it can hold"));
        }
        let entries_end = u32::try_from(entries_end).map_err(|_| short())?;
        Ok(BlockTrailer { count, interval, entries_end })
    }
}

/// Returns the seqno of an entry in a body that was not validated.
pub(in crate::sst) fn checked_seqno(entry: &BlockEntry, base: Seqno) -> Result<Seqno> {
    match entry.seq {
        0 => Ok(0),
        seq => {
            let seqno = base.checked_add(seq - 1).filter(|seqno| *seqno <= MAX_SEQNO);
            seqno.ok_or_else(|| Error::structural("a seqno beyond 56 bits"))
        }
    }
}

/// Builds the body of one data block.
#[derive(Debug)]
pub(in crate::sst) struct BlockBuilder {
    interval: u8,
    base: Seqno,
    entries: Vec<u8>,
    restarts: Vec<u32>,
    restart_key: Vec<u8>,
    count: u32,
    /// Number of records whose companion is exactly one seal.
    seals: usize,
}

impl BlockBuilder {
    /// Creates an empty builder; the interval is clamped to 1 to 255.
    pub(in crate::sst) fn new(interval: usize, base: Seqno) -> BlockBuilder {
        BlockBuilder {
            interval: interval.clamp(1, 255) as u8,
            base,
            entries: Vec::new(),
            restarts: Vec::new(),
            restart_key: Vec::new(),
            count: 0,
            seals: 0,
        }
    }

    /// Number of records so far.
    pub(in crate::sst) fn count(&self) -> u32 {
        self.count
    }

    /// Length of the body if it ended here.
    pub(in crate::sst) fn bytes(&self) -> usize {
        if self.count == 0 { 0 } else { self.entries.len() + self.restarts.len() * 4 + TAIL_BYTES }
    }

    /// As `bytes`, without seals. Block boundaries ignore seals, so that sealed and unsealed records form the same
    /// blocks.
    pub(in crate::sst) fn bytes_beside_seals(&self) -> usize {
        self.bytes() - self.seals * COMPANION_BYTES
    }

    /// Returns the maximum number of bytes that one more record adds.
    pub(in crate::sst) fn grows_by(record: &Record<'_>) -> usize {
        let lengths = varint_bytes(record.key.len() as u64) + varint_bytes(record.value.len() as u64);
        1 + 1 + lengths + 8 + record.key.len() + record.value.len() + record.companion.len() + 4
    }

    /// Adds a record with these companions inline.
    pub(in crate::sst) fn add(&mut self, record: &Record<'_>, companion: &[u8]) {
        let shared = if self.count.is_multiple_of(self.interval as u32) {
            self.restarts.push(self.entries.len() as u32);
            self.restart_key.clear();
            self.restart_key.extend_from_slice(record.key);
            0
        } else {
            common_prefix(&self.restart_key, record.key)
        };
        let suffix = &record.key[shared..];
        let seq = if record.seqno == 0 { 0 } else { record.seqno - self.base + 1 };
        // Nearly always the three lengths take one byte each.
        if (shared | suffix.len() | record.value.len()) < 0x80 {
            let lengths = [record.kind as u8, shared as u8, suffix.len() as u8, record.value.len() as u8];
            self.entries.extend_from_slice(&lengths);
        } else {
            self.entries.push(record.kind as u8);
            put_varint(&mut self.entries, shared as u64);
            put_varint(&mut self.entries, suffix.len() as u64);
            put_varint(&mut self.entries, record.value.len() as u64);
        }
        put_varint(&mut self.entries, seq);
        self.entries.extend_from_slice(suffix);
        self.entries.extend_from_slice(record.value);
        self.entries.extend_from_slice(companion);
        self.count += 1;
        self.seals += usize::from(word_of(companion).is_some());
    }

    /// Ends the body and returns it; `clear` starts the next one.
    pub(in crate::sst) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.entries.extend_from_slice(&restart.to_le_bytes());
        }
        self.entries.extend_from_slice(&self.count.to_le_bytes());
        self.entries.extend_from_slice(&[self.interval, 0, 0, 0]);
        crate::inject::body(&mut self.entries);
        &self.entries
    }

    /// Empties the builder and keeps its memory.
    pub(in crate::sst) fn clear(&mut self) {
        self.entries.clear();
        self.restarts.clear();
        self.count = 0;
        self.seals = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_in_a_word_is_the_varint(value: u64, shift in 0u32..64, behind: u64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let length = bytes.len();
            bytes.extend_from_slice(&behind.to_le_bytes());
            let word = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            prop_assert_eq!(varint_of(word), (length <= 8).then_some((value, length)));
        }

        #[test]
        fn all_ways_to_read_an_entry_agree(bytes in proptest::collection::vec(any::<u8>(), 0..400), small: [u8; 3], long: bool) {
            let mut bytes = bytes;
            // One decoder is for one-byte lengths, one for longer values.
            let lengths = small.map(|byte| byte % 8);
            let longer = [lengths[0], lengths[1], small[2] | 0x80, lengths[2] % 2];
            let lengths = if long { &longer[..] } else { &lengths[..] };
            for (at, byte) in [Kind::Put as u8].iter().chain(lengths).enumerate() {
                if let Some(place) = bytes.get_mut(at) {
                    *place = *byte;
                }
            }
            let (a, b) = (BlockEntry::read(&bytes, 0), BlockEntry::read_longer(&bytes, 0));
            let c = BlockEntry::read_any(&bytes, 0);
            prop_assert_eq!(format!("{a:?}"), format!("{c:?}"));
            prop_assert_eq!(format!("{b:?}"), format!("{c:?}"));
            if let Some(d) = BlockEntry::short_put(&bytes, 0) {
                prop_assert_eq!(format!("{d:?}"), format!("{:?}", c.unwrap()));
            }
        }
    }
}
