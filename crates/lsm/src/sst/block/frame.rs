//! The frame around every block, and block handles. See docs/format.md, section 4.1.
//!
//! In:  unchecked bytes of a file.
//! Out: bytes whose CRC matches, with a seed that is unique to this file, offset and role; or corruption.
//!
//! Every length is checked against the file's length before use (I10).

use std::io;

use super::codec::{
    Dictionary, LZ4, PLAIN, Packer, ZSTD, may_unpack_to, unpack_any_lz4, unpack_lz4, unpack_zstd, zstd_length,
};
use crate::checksum::{Role, Uid, block_seed, crc};
use crate::codec::Reader;
use crate::env::{File, read_exact, try_resize};
use crate::error::{Error, IoContext, Result};
use crate::frame::PAGE_BYTES;
use crate::header::HEADER_BYTES;
use crate::options::Compression;
use crate::planted;
use crate::record::companion;

/// Codec and CRC, after the stored bytes of a block.
pub(in crate::sst) const TRAILER_BYTES: usize = 5;

/// Minimum length of a data block: one byte (if its content is in a dictionary), codec and CRC.
pub(in crate::sst) const LEAST_BLOCK_BYTES: u64 = 1 + TRAILER_BYTES as u64;

/// Replaces the CRC of a block that was not found. It is deliberately not the CRC stored after those bytes: such a
/// block must never pass its check, since the separator between it and the next block may be a key of the next block.
pub(in crate::sst) const LOST: u32 = 0;

/// Flag in the codec byte: the block's 8-byte companions follow the compressed body as one column.
pub(in crate::sst) const COLUMN: u8 = 0x80;

/// Bytes of one companion in a column on disk.
pub(in crate::sst) const WORD_BYTES: usize = 8;

/// Bytes of one companion of a column in memory: its kind and its word, as it would be stored inline.
pub(in crate::sst) const COMPANION_BYTES: usize = 1 + WORD_BYTES;

/// Number of rereads of a block.
pub(in crate::sst) const TRIES: usize = 3;

/// Location, length and CRC of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockHandle {
    /// Offset of the stored bytes in the file.
    pub(crate) offset: u64,
    /// Their length, without the trailer.
    pub(crate) stored_len: u32,
    /// Uncompressed length of the body.
    pub(crate) raw_len: u32,
    /// Copy of the block's CRC.
    pub(crate) crc: u32,
}

impl BlockHandle {
    /// Length of stored bytes and trailer.
    pub(in crate::sst) fn bytes(&self) -> usize {
        self.stored_len as usize + TRAILER_BYTES
    }

    /// Returns true if the block is shorter than its body, which is compressed then. A companion column may hide that.
    pub(in crate::sst) fn is_packed(&self) -> bool {
        self.stored_len < self.raw_len
    }

    /// Offset of the first byte after the block.
    pub(in crate::sst) fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes() as u64)
    }

    /// Returns true for a handle of zeros, which means that there is no such block.
    pub(in crate::sst) fn is_absent(&self) -> bool {
        *self == BlockHandle::default()
    }

    /// Rejects a handle that points outside of the file's blocks, or declares a length that its bytes cannot decompress
    /// to.
    pub(in crate::sst) fn check_within(&self, end: u64) -> Result<()> {
        if self.offset < HEADER_BYTES as u64 || self.end() > end {
            return Err(Error::structural("a block handle points outside of the file"));
        }
        // An LZ4 sequence yields at most 255 bytes per stored byte; no codec is accepted with a higher ratio.
        if !may_unpack_to(self.raw_len as usize, self.stored_len as usize) {
            return Err(Error::structural("a block claims to unpack to more than its bytes can hold"));
        }
        Ok(())
    }

    pub(in crate::sst) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.stored_len.to_le_bytes());
        out.extend_from_slice(&self.raw_len.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    pub(in crate::sst) fn take(reader: &mut Reader<'_>) -> Result<BlockHandle> {
        Ok(BlockHandle { offset: reader.u64()?, stored_len: reader.u32()?, raw_len: reader.u32()?, crc: reader.u32()? })
    }
}

/// Converts an error of the operating system. An early end of file is corruption, since lengths were checked before.
pub(in crate::sst) fn read_error(name: &str, offset: u64, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::structural("the file ends too early").in_file(name, offset);
    }
    Error::io(format_args!("reading {name} at {offset}"), error)
}

/// Reads a block with its trailer. Its handle was checked against the file's length.
pub(in crate::sst) fn read_framed(name: &str, file: &dyn File, handle: &BlockHandle) -> Result<Vec<u8>> {
    read_exact(file, handle.offset, handle.bytes()).map_err(|error| read_error(name, handle.offset, error))
}

/// Drops the operating system's cached pages of a part of a file.
pub(in crate::sst) fn drop_cached_pages(file: &dyn File, from: u64, end: u64) {
    let from = from / PAGE_BYTES as u64 * PAGE_BYTES as u64;
    file.advise(from, end.next_multiple_of(PAGE_BYTES as u64) - from, false);
}

/// Checks stored bytes against the CRC in their trailer and its copy in the handle. Returns the stored bytes and the
/// codec.
pub(in crate::sst) fn check_frame<'a>(
    block: &'a [u8],
    uid: &Uid,
    role: Role,
    handle: &BlockHandle,
) -> Result<(&'a [u8], u8)> {
    let Some((covered, own)) = block.split_last_chunk::<4>() else {
        return Err(Error::structural("a block ends too early"));
    };
    let own = u32::from_le_bytes(*own);
    let is_believed = planted!(BlockCrcIgnored, true, planted!(DictionaryNotChecked, role == Role::Side, false));
    if !is_believed {
        let found = crc(block_seed(uid, handle.offset, role), &[covered]);
        for expected in [own, handle.crc] {
            if expected != found {
                return Err(Error::mismatch(expected.into(), found.into(), "block checksum"));
            }
        }
    }
    match covered.split_last() {
        Some((codec, stored)) => Ok((stored, *codec)),
        None => Err(Error::structural("a block ends too early")),
    }
}

/// Stored bytes, split into the compressed body, its codec, and the companion column (eight bytes per record), if there
/// is one.
pub(in crate::sst) struct StoredBlock<'a> {
    pub(in crate::sst) packed: &'a [u8],
    pub(in crate::sst) column: Option<&'a [u8]>,
    codec: u8,
}

impl<'a> StoredBlock<'a> {
    /// Splits the stored bytes of a checked block.
    pub(in crate::sst) fn split(stored: &'a [u8], codec: u8) -> Result<StoredBlock<'a>> {
        if codec & COLUMN == 0 {
            return Ok(StoredBlock { packed: stored, column: None, codec });
        }
        let codec = codec & !COLUMN;
        let short = || Error::structural("a companion column does not fit in its block");
        let (rest, count) = stored.split_last_chunk::<4>().ok_or_else(short)?;
        let length = u32::from_le_bytes(*count) as usize * WORD_BYTES;
        let at = rest.len().checked_sub(length).ok_or_else(short)?;
        let (packed, column) = rest.split_at(at);
        Ok(StoredBlock { packed, column: Some(column), codec })
    }

    /// Returns true if the body is compressed.
    pub(in crate::sst) fn is_packed(&self) -> bool {
        self.codec != PLAIN
    }

    /// Returns the body, decompressed into `scratch` if necessary. `BlockHandle::check_within` has checked `raw_len`;
    /// `dictionary` is the table's.
    pub(in crate::sst) fn body<'b>(
        &self,
        raw_len: u32,
        scratch: &'b mut Vec<u8>,
        dictionary: Option<&Dictionary>,
    ) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        match self.codec {
            PLAIN if self.packed.len() == raw_len as usize => Ok(self.packed),
            PLAIN => Err(Error::structural("an unpacked block has another length than its handle says")),
            LZ4 => {
                make_room(scratch, raw_len)?;
                unpack_lz4(self.packed, scratch)?;
                Ok(scratch)
            }
            ZSTD => {
                scratch.clear();
                make_room(scratch, raw_len)?;
                unpack_zstd(self.packed, dictionary, scratch)?;
                Ok(scratch)
            }
            _ => Err(Error::structural("a block is packed by an unknown codec")),
        }
    }
}

impl StoredBlock<'_> {
    /// Returns true for a zstd frame.
    pub(in crate::sst) fn is_zstd(&self) -> bool {
        self.codec == ZSTD
    }

    /// Returns the body if no handle gives its length. The length is bounded by what the stored bytes can decompress
    /// to.
    pub(in crate::sst) fn body_of_any_length<'b>(
        &'b self,
        scratch: &'b mut Vec<u8>,
        dictionary: Option<&Dictionary>,
    ) -> Result<&'b [u8]> {
        match self.codec {
            PLAIN => Ok(self.packed),
            LZ4 => unpack_any_lz4(self.packed, scratch).map(|()| &scratch[..]),
            ZSTD => match zstd_length(self.packed).and_then(|length| u32::try_from(length).ok()) {
                Some(raw_len) => self.body(raw_len, scratch, dictionary),
                None => Err(Error::structural("a block does not say how long it is")),
            },
            _ => Err(Error::structural("a block is packed by an unknown codec")),
        }
    }
}

/// Sets the length of the buffer for a decompressed body. Returns `Io` if the memory is not available.
fn make_room(scratch: &mut Vec<u8>, raw_len: u32) -> Result<()> {
    try_resize(scratch, raw_len as usize).during(|| "unpacking a block")
}

/// Returns the body of stored bytes without a column: the bytes themselves, or decompressed into `scratch`.
pub(crate) fn unpack_block<'b>(
    packed: &'b [u8],
    codec: u8,
    raw_len: u32,
    scratch: &'b mut Vec<u8>,
) -> Result<&'b [u8]> {
    if !may_unpack_to(raw_len as usize, packed.len()) {
        return Err(Error::structural("stored bytes claim to unpack to more than they can hold"));
    }
    StoredBlock { packed, column: None, codec }.body(raw_len, scratch, None)
}

/// Returns the readable part of the body of a block that failed its check, and its column. The codec byte is not
/// trusted if the lengths contradict it.
pub(in crate::sst) fn unpack_readable(
    stored: &[u8],
    codec: u8,
    handle: &BlockHandle,
    dictionary: Option<&Dictionary>,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let raw_len = handle.raw_len as usize;
    let codec = match codec {
        PLAIN | LZ4 if stored.len() == raw_len => PLAIN,
        known if known & !COLUMN <= ZSTD => known,
        _ if stored.len() == raw_len => PLAIN,
        _ if stored.len() < raw_len => LZ4,
        _ => PLAIN | COLUMN,
    };
    let (packed, column) = match StoredBlock::split(stored, codec) {
        Ok(StoredBlock { packed, column, .. }) => (packed, column),
        // The count at the end of the column is damaged: for an uncompressed body, its length tells where the column
        // begins.
        Err(_) => match stored.split_at_checked(raw_len) {
            Some((packed, rest)) if codec == PLAIN | COLUMN => (packed, rest.get(..rest.len().saturating_sub(4))),
            _ => (stored, None),
        },
    };
    let column = column.map(<[u8]>::to_vec);
    match codec & !COLUMN {
        LZ4 => (unpack_start(packed, raw_len), column),
        // A frame cannot be decompressed in part.
        ZSTD => {
            let mut body = vec![0; raw_len];
            let whole = unpack_zstd(packed, dictionary, &mut body).is_ok();
            (if whole { body } else { Vec::new() }, column)
        }
        _ => (packed.get(..raw_len).unwrap_or(packed).to_vec(), column),
    }
}

/// Decompresses as far as possible: keeps the bytes on which two runs agree that start with different buffer contents.
fn unpack_start(packed: &[u8], raw_len: usize) -> Vec<u8> {
    let (mut zeros, mut ones) = (vec![0; raw_len], vec![0xff; raw_len]);
    let whole = unpack_lz4(packed, &mut zeros).is_ok();
    let _ = unpack_lz4(packed, &mut ones);
    if !whole {
        let decoded = zeros.iter().zip(&ones).take_while(|(a, b)| a == b).count();
        zeros.truncate(decoded);
    }
    zeros
}

/// Appends a framed block to `out`: the body, compressed if that saves an eighth, then column, codec and CRC. `at` is
/// its file offset.
pub(in crate::sst) fn put_block(
    out: &mut Vec<u8>,
    body: &[u8],
    column: Option<&[u8]>,
    compression: Compression,
    seed: (&Uid, Role),
    at: u64,
) -> Result<BlockHandle> {
    put_packed(out, body, column, &mut Packer::new(compression), seed, at)
}

/// As `put_block`, with a packer that compresses blocks in sequence.
pub(crate) fn put_packed(
    out: &mut Vec<u8>,
    body: &[u8],
    column: Option<&[u8]>,
    packer: &mut Packer,
    seed: (&Uid, Role),
    at: u64,
) -> Result<BlockHandle> {
    let start = out.len();
    let raw_len = u32::try_from(body.len()).map_err(|_| Error::invalid("a block of 4 GiB or more"))?;
    let mut codec = packer.pack(body, out)?.unwrap_or_else(|| {
        out.truncate(start);
        out.extend_from_slice(body);
        PLAIN
    });
    if let Some(column) = column {
        out.extend_from_slice(column);
        out.extend_from_slice(&((column.len() / WORD_BYTES) as u32).to_le_bytes());
        codec |= COLUMN;
    }
    let stored_len = u32::try_from(out.len() - start).map_err(|_| Error::invalid("a block of 4 GiB or more"))?;
    out.push(codec);
    let sum = crc(block_seed(seed.0, at, seed.1), &[&out[start..]]);
    out.extend_from_slice(&sum.to_le_bytes());
    Ok(BlockHandle { offset: at, stored_len, raw_len, crc: sum })
}

/// Returns a column's eight bytes as an inline companion.
pub(in crate::sst) fn companion_of(word: &[u8]) -> [u8; COMPANION_BYTES] {
    let mut out = [0; COMPANION_BYTES];
    out[0] = companion::WORD8;
    for (to, from) in out[1..].iter_mut().zip(word) {
        *to = *from;
    }
    out
}

/// Returns the eight bytes of a companion that is exactly one word.
pub(in crate::sst) fn word_of(companion: &[u8]) -> Option<&[u8]> {
    match companion.split_first() {
        Some((&companion::WORD8, word)) if word.len() == WORD_BYTES => Some(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: Uid = Uid([3; 16]);

    fn codecs() -> impl Strategy<Value = Compression> {
        let mut codecs = vec![Compression::None];
        if cfg!(feature = "lz4") {
            codecs.push(Compression::Lz4);
        }
        if crate::zstd::AVAILABLE {
            codecs.push(Compression::Zstd(3));
        }
        proptest::sample::select(codecs)
    }

    proptest! {
        #[test]
        fn blocks_come_back(
            body in proptest::collection::vec(0u8..4, 0..500),
            words in proptest::option::of(0usize..5),
            codec in codecs(),
        ) {
            let column = words.map(|words| vec![9; words * WORD_BYTES]);
            let mut out = Vec::new();
            let handle = put_block(&mut out, &body, column.as_deref(), codec, (&UID, Role::Data), 64).unwrap();
            prop_assert_eq!(out.len(), handle.bytes());
            handle.check_within(handle.end()).unwrap();
            let (stored, codec) = check_frame(&out, &UID, Role::Data, &handle).unwrap();
            let stored = StoredBlock::split(stored, codec).unwrap();
            let mut scratch = Vec::new();
            prop_assert_eq!(stored.body(handle.raw_len, &mut scratch, None).unwrap(), &body[..]);
            prop_assert_eq!(stored.column, column.as_deref());
            // Another file, offset or role does not pass.
            prop_assert!(check_frame(&out, &Uid([4; 16]), Role::Data, &handle).is_err());
            prop_assert!(check_frame(&out, &UID, Role::Index, &handle).is_err());
            let wrong = [BlockHandle { offset: 65, ..handle }, BlockHandle { crc: handle.crc ^ 1, ..handle }];
            prop_assert!(wrong.iter().all(|handle| check_frame(&out, &UID, Role::Data, handle).is_err()));
        }

        #[test]
        fn any_stored_bytes_are_unpacked_or_refused(stored: Vec<u8>, codec: u8, raw_len in 0u32..4096) {
            if let Ok(stored) = StoredBlock::split(&stored, codec) {
                let _ = stored.body(raw_len, &mut Vec::new(), None);
            }
        }
    }
}
