//! Decodes the operations of a body in sequence, from a batch or a log. Any bytes are decoded or rejected, never
//! trusted (I10).

use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::record::{Kind, MAX_KEY_BYTES, companion};

/// One operation of a body, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOperation<'a> {
    /// The family's id.
    pub family: u32,
    /// The kind of operation.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Companions, not bound to a seqno yet.
    pub companion: &'a [u8],
}

/// Iterates over the operations of a body. Any bytes are decoded or rejected, never trusted.
#[derive(Debug)]
pub struct BatchOperations<'a> {
    reader: Reader<'a>,
    left: u64,
}

impl<'a> BatchOperations<'a> {
    /// Starts at the count. Rejects a count that cannot fit.
    pub fn new(body: &'a [u8]) -> Result<BatchOperations<'a>> {
        let mut reader = Reader::new(body);
        let left = reader.varint()?;
        if left > reader.remaining() as u64 / 4 {
            return Err(Error::structural("a batch claims more operations than it can hold"));
        }
        companion::take(&mut reader)?; // a header of skippable entries
        Ok(BatchOperations { reader, left })
    }

    /// Starts after a count.
    #[inline]
    pub(super) fn behind_count(bytes: &'a [u8], left: u64) -> BatchOperations<'a> {
        BatchOperations { reader: Reader::new(bytes), left }
    }

    /// Ends the iteration after an error.
    #[cold]
    fn end(&mut self, error: Error) -> Error {
        self.left = 0;
        self.reader = Reader::new(&[]);
        error
    }

    /// Number of operations left.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Returns the next operation; `None` at the end.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> Result<Option<BatchOperation<'a>>> {
        if self.left == 0 {
            return if self.reader.is_empty() { Ok(None) } else { Err(self.end(rest_behind())) };
        }
        self.left -= 1;
        self.read().map(Some).map_err(|error| self.end(error))
    }

    #[inline(always)]
    fn read(&mut self) -> Result<BatchOperation<'a>> {
        let (kind, family, key, value) = match self.short_head() {
            Some(head) => head,
            None => self.read_long_head()?,
        };
        let bytes = self.reader.bytes(key + value)?;
        let companion = companion::take(&mut self.reader)?;
        let (key, value) = bytes.split_at(key);
        Ok(BatchOperation { family, kind, key, value, companion })
    }

    /// Decodes a header whose kind, family and both lengths take one byte each, as nearly all do.
    #[inline(always)]
    fn short_head(&mut self) -> Option<(Kind, u32, usize, usize)> {
        let mut ahead = self.reader.clone();
        let [kind, family, key, value] = ahead.array().ok()?;
        let kind = Kind::from_byte(kind).filter(|_| (family | key | value) & 0x80 == 0)?;
        self.reader = ahead;
        Some((kind, family.into(), key.into(), value.into()))
    }

    /// Decodes kind, family, key length and value length.
    #[inline(never)]
    fn read_long_head(&mut self) -> Result<(Kind, u32, usize, usize)> {
        let kind = Kind::from_byte(self.reader.u8()?).ok_or_else(|| Error::structural("operation of no known kind"))?;
        let family = u32::try_from(self.reader.varint()?).map_err(|_| Error::structural("family id above 32 bits"))?;
        let key_len = self.reader.varint_len()?;
        let value_len = self.reader.varint_len()?;
        if key_len > MAX_KEY_BYTES {
            return Err(Error::structural("key longer than the limit"));
        }
        Ok((kind, family, key_len, value_len))
    }
}

#[cold]
fn rest_behind() -> Error {
    Error::structural("bytes behind the last operation")
}

impl<'a> Iterator for BatchOperations<'a> {
    type Item = Result<BatchOperation<'a>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
