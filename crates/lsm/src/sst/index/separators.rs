//! Decodes the entries of an index body in sequence. See docs/format.md, section 4.3.
//!
//! Rejects separators out of order, blocks outside of the data, and impossible lengths. A separator may not be longer
//! than a key of an adjacent block can be. Therefore a file that repeats one long key takes no more memory than its
//! blocks could.

use std::cmp::Ordering;

use super::range::IndexRange;
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::order::Order;
use crate::record::MAX_KEY_BYTES;
use crate::sst::block::frame::{BlockHandle, TRAILER_BYTES};

/// Reads entries in sequence; `last` is the separator of the last entry.
pub(in crate::sst) struct SeparatorReader<'a> {
    reader: Reader<'a>,
    pub(in crate::sst) last: Vec<u8>,
    before: Vec<u8>,
    offset: u64,
    /// The entries have a predecessor in the previous partition.
    follows: bool,
    lengths: SeparatorLengths,
}

impl SeparatorReader<'_> {
    pub(in crate::sst) fn new<'a>(reader: Reader<'a>, range: &IndexRange) -> SeparatorReader<'a> {
        let last = range.floor.clone().unwrap_or_default();
        let (follows, lengths) = (range.floor.is_some(), SeparatorLengths::default());
        SeparatorReader { reader, last, before: Vec::new(), offset: range.offset, follows, lengths }
    }

    /// Decodes the next entry: returns its handle and stores its separator in `last`. Rejects a separator less than the
    /// previous one.
    pub(in crate::sst) fn next(&mut self, at: usize, data_end: u64, order: &Order) -> Result<BlockHandle> {
        let follows = at > 0 || self.follows;
        let shared = self.reader.varint()?;
        let unshared = self.reader.varint_len()?;
        if shared > self.last.len() as u64 || shared + unshared as u64 > MAX_KEY_BYTES as u64 {
            return Err(Error::structural("a separator longer than it can be"));
        }
        let (shared, rest) = (shared as usize, self.reader.bytes(unshared)?);
        let falls = match order.is_bytewise() {
            // The shared prefix is equal: compare the rest.
            true => &self.last[shared..] > rest,
            false => {
                self.before.clone_from(&self.last);
                false
            }
        };
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        // Pass only keys to a comparator: the first separator has no predecessor.
        let falls = follows
            && (falls || (!order.is_bytewise() && order.compare(&self.before, &self.last) == Ordering::Greater));
        if falls {
            return Err(Error::structural("the separators of an index are out of order"));
        }
        let (stored_len, raw_len) = (self.reader.varint()?, self.reader.varint()?);
        let wide = |_| Error::structural("a block of 4 GiB or more");
        let handle = BlockHandle {
            offset: self.offset,
            stored_len: stored_len.try_into().map_err(wide)?,
            raw_len: raw_len.try_into().map_err(wide)?,
            crc: self.reader.u32()?,
        };
        handle.check_within(data_end)?;
        self.lengths.add(self.last.len(), raw_len)?;
        self.offset += stored_len + TRAILER_BYTES as u64;
        Ok(handle)
    }

    /// Ends decoding. No bytes may follow the last entry, and the table's last separator must fit into a block.
    pub(in crate::sst) fn finish(self, is_last: bool) -> Result<()> {
        if !self.reader.is_empty() {
            return Err(Error::structural("bytes behind the last entry of an index"));
        }
        if is_last { self.lengths.finish() } else { Ok(()) }
    }
}

/// Checks that separators are no longer than the keys that they separate: the last key of the block before or the first
/// key of the next.
#[derive(Default)]
pub(in crate::sst) struct SeparatorLengths {
    /// Length of a key for which the next block must have room.
    owed: u64,
}

impl SeparatorLengths {
    /// Adds a separator, after a block that has room for a key of `room` bytes.
    pub(in crate::sst) fn add(&mut self, separator: usize, room: u64) -> Result<()> {
        if self.owed > room {
            return Err(too_long());
        }
        let separator = separator as u64;
        self.owed = if separator > room { separator } else { 0 };
        Ok(())
    }

    /// Ends the check: no block follows.
    pub(in crate::sst) fn finish(&self) -> Result<()> {
        if self.owed > 0 { Err(too_long()) } else { Ok(()) }
    }
}

fn too_long() -> Error {
    Error::structural("a separator longer than the keys beside it can be")
}
