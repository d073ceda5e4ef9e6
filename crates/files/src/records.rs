//! Keys and values of the chunks family, apart from entries. docs/format-files.md, section 3.
//!
//! The first byte of a key says what the record is: `c` a chunk, `h` the header, `n` the counter of ids, `r` a reclaim
//! record.

use crate::codec::{Reader, put_ordered_u32, put_ordered_u64, put_varint};
use crate::error::{Error, Result};

/// Identifies the content of one file for the life of the store. 0 is none.
pub(crate) type ContentId = u64;

/// The counter of content ids and inode numbers, in the format of `ColumnFamily::fetch_add`.
pub(crate) const NEXT_ID_KEY: &[u8] = b"n";
/// What the store was created with.
pub(crate) const HEADER_KEY: &[u8] = b"h";

const CHUNK: u8 = b'c';
const RECLAIM: u8 = b'r';

/// The version of keys and values that this crate writes.
pub(crate) const VERSION: u8 = 1;

/// Smallest and largest chunk size, in bytes. A content below the smallest is a single chunk.
pub(crate) const CHUNK_BYTES: std::ops::RangeInclusive<u32> = 4 * 1024..=5_000_000;

/// Returns the key of a chunk.
pub(crate) fn chunk_key(content: ContentId, number: u32) -> Vec<u8> {
    let mut key = content_key(content);
    put_ordered_u32(&mut key, number);
    key
}

/// Returns the beginning of the keys of a content's chunks, which is also the least key of the range.
pub(crate) fn content_key(content: ContentId) -> Vec<u8> {
    let mut key = Vec::with_capacity(13);
    key.push(CHUNK);
    put_ordered_u64(&mut key, content);
    key
}

/// Returns the range of all chunks, of every content.
pub(crate) fn all_chunks() -> std::ops::Range<[u8; 1]> {
    [CHUNK]..[CHUNK + 1]
}

/// Returns the content and number of a chunk's key.
pub(crate) fn parse_chunk_key(key: &[u8]) -> Result<(ContentId, u32)> {
    let mut reader = Reader::new(key);
    let (kind, content, number) = (reader.u8()?, reader.ordered_u64()?, reader.ordered_u32()?);
    reader.end()?;
    match kind {
        CHUNK => Ok((content, number)),
        _ => Err(Error::corruption("a key of a chunk that is none")),
    }
}

/// Returns the key of a content's reclaim record.
pub(crate) fn reclaim_key(content: ContentId) -> Vec<u8> {
    let mut key = vec![RECLAIM];
    put_ordered_u64(&mut key, content);
    key
}

/// Returns the range of all reclaim records.
pub(crate) fn all_reclaims() -> std::ops::Range<[u8; 1]> {
    [RECLAIM]..[RECLAIM + 1]
}

/// Returns the value of a reclaim record: chunks from number `chunks` on do not exist.
pub(crate) fn reclaim_value(chunks: u32) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_varint(&mut value, u64::from(chunks));
    value
}

/// Returns the content of a reclaim record, and the number that its chunks are below.
pub(crate) fn parse_reclaim(key: &[u8], value: &[u8]) -> Result<(ContentId, u32)> {
    let (mut key, mut value) = (Reader::new(key), Reader::new(value));
    let (_, content) = (key.u8()?, key.ordered_u64()?);
    key.end()?;
    check_version(value.u8()?)?;
    let chunks = value.varint_u32()?;
    value.end()?;
    Ok((content, chunks))
}

/// What a store was created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Bytes of a chunk in files that are created.
    pub(crate) chunk_bytes: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = vec![VERSION];
        put_varint(&mut value, u64::from(self.chunk_bytes));
        value
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Header> {
        let mut reader = Reader::new(value);
        check_version(reader.u8()?)?;
        let chunk_bytes = reader.varint_u32()?;
        reader.end()?;
        check_chunk_bytes(chunk_bytes)?;
        Ok(Header { chunk_bytes })
    }
}

/// Fails for a version that this crate does not know.
pub(crate) fn check_version(version: u8) -> Result<()> {
    match version {
        VERSION => Ok(()),
        0 => Err(Error::corruption("a record of version 0, which does not exist")),
        newer => Err(Error::of(
            crate::error::ErrorKind::Store,
            format!("a record of version {newer}: a newer version of Waxseal has written it; this one knows {VERSION}"),
        )),
    }
}

/// Fails for a stored chunk size that no version writes.
pub(crate) fn check_chunk_bytes(chunk_bytes: u32) -> Result<()> {
    if CHUNK_BYTES.contains(&chunk_bytes) {
        return Ok(());
    }
    Err(Error::corruption(format!("a chunk size of {chunk_bytes} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_and_values_have_these_bytes() {
        assert_eq!(chunk_key(0x0102, 3), b"c\0\0\0\0\0\0\x01\x02\0\0\0\x03");
        assert_eq!(reclaim_key(7), b"r\0\0\0\0\0\0\0\x07");
        assert_eq!(reclaim_value(300), [1, 0xAC, 2]);
        assert_eq!(Header { chunk_bytes: 256 * 1024 }.encode(), [1, 0x80, 0x80, 0x10]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(content: u64, number: u32) {
            prop_assert_eq!(parse_chunk_key(&chunk_key(content, number)).unwrap(), (content, number));
            prop_assert_eq!(parse_reclaim(&reclaim_key(content), &reclaim_value(number)).unwrap(), (content, number));
            prop_assert!(chunk_key(content, number).starts_with(&content_key(content)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(key in prop::collection::vec(any::<u8>(), 0..15), value in prop::collection::vec(0u8..5, 0..8)) {
            let _ = (parse_chunk_key(&key), parse_reclaim(&key, &value));
            if let Ok(header) = Header::decode(&value) {
                prop_assert_eq!(header.encode(), value);
            }
        }
    }
}
