//! The entries of an index as they stand in its body, read one after the other. docs/format.md, section 4.3.
//!
//! Refused: separators that fall, blocks that lie outside of the data, lengths that cannot be. A separator is no longer than a key of
//!          the blocks beside it may be: a file that names one long key again and again takes no more memory than its blocks could.

use std::cmp::Ordering;

use super::format::{Handle, TRAILER_BYTES};
use super::index::Range;
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::order::Order;
use crate::record::MAX_KEY_BYTES;

/// Reads entries one after the other; `last` is the separator of the one read last.
pub(super) struct Separators<'a> {
    reader: Reader<'a>,
    pub(super) last: Vec<u8>,
    before: Vec<u8>,
    offset: u64,
    /// There is one before the first.
    follows: bool,
    lengths: Lengths,
}

impl Separators<'_> {
    pub(super) fn new<'a>(reader: Reader<'a>, range: &Range) -> Separators<'a> {
        let last = range.floor.clone().unwrap_or_default();
        let (follows, lengths) = (range.floor.is_some(), Lengths::default());
        Separators { reader, last, before: Vec::new(), offset: range.offset, follows, lengths }
    }

    /// The next handle; its separator is `last`, which may not be below the one before.
    pub(super) fn next(&mut self, at: usize, data_end: u64, order: &Order) -> Result<Handle> {
        let follows = at > 0 || self.follows;
        let shared = self.reader.varint()?;
        let unshared = self.reader.varint_len()?;
        if shared > self.last.len() as u64 || shared + unshared as u64 > MAX_KEY_BYTES as u64 {
            return Err(Error::structural("a separator longer than it can be"));
        }
        let (shared, rest) = (shared as usize, self.reader.bytes(unshared)?);
        let falls = match order.is_bytewise() {
            // What both begin with decides nothing.
            true => &self.last[shared..] > rest,
            false => {
                self.before.clone_from(&self.last);
                false
            }
        };
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        // A comparator is shown keys and nothing else: before the first there is none.
        let falls = follows
            && (falls || (!order.is_bytewise() && order.compare(&self.before, &self.last) == Ordering::Greater));
        if falls {
            return Err(Error::structural("the separators of an index are out of order"));
        }
        let (stored_len, raw_len) = (self.reader.varint()?, self.reader.varint()?);
        let wide = |_| Error::structural("a block of 4 GiB or more");
        let handle = Handle {
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

    /// Nothing may follow the last entry: neither bytes, nor, behind the last one of a table, a key that is in no block.
    pub(super) fn finish(self, is_last: bool) -> Result<()> {
        if !self.reader.is_empty() {
            return Err(Error::structural("bytes behind the last entry of an index"));
        }
        if is_last { self.lengths.finish() } else { Ok(()) }
    }
}

/// Looks whether separators are no longer than the keys that they separate: the last of what lies before, the first of what follows.
#[derive(Default)]
pub(super) struct Lengths {
    /// What follows must have room for so long a key.
    owed: u64,
}

impl Lengths {
    /// The next separator is so long, and what lies before it has room for a key of so many bytes.
    pub(super) fn add(&mut self, separator: usize, room: u64) -> Result<()> {
        if self.owed > room {
            return Err(too_long());
        }
        let separator = separator as u64;
        self.owed = if separator > room { separator } else { 0 };
        Ok(())
    }

    /// Nothing follows.
    pub(super) fn finish(&self) -> Result<()> {
        if self.owed > 0 { Err(too_long()) } else { Ok(()) }
    }
}

fn too_long() -> Error {
    Error::structural("a separator longer than the keys beside it can be")
}
