//! Compression of blocks: with LZ4, or with zstd and a dictionary stored in the table. See docs/format.md, section 4.7.
//!
//! A block of 4 KiB contains little repetition; a dictionary holds the content that it shares with neighboring blocks.
//! Each table stores a copy of its dictionary, so that it depends on no other file.
//!
//! In:    bodies of blocks; or the bytes of a dictionary, whose CRC matches but whose content is arbitrary.
//! Out:   compressed bodies; or decompressed bodies of exactly the declared length.
//! Holds: no input is trusted. If a dictionary is invalid or lost, blocks compressed with it return an error; the
//!        table's other blocks stay readable.
//!
//! Without the feature `zstd` the types exist but cannot be constructed: a table that needs zstd is refused by the
//! feature bit in its header.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::{Compression, KIB};
use crate::planted;
use crate::zstd::{self, Compressor, LoadedDictionary};

/// Codec: uncompressed.
pub(in crate::sst) const PLAIN: u8 = 0;
/// Codec: LZ4 block.
pub(in crate::sst) const LZ4: u8 = 1;
/// Codec: zstd frame, compressed with the table's dictionary if there is one.
pub(in crate::sst) const ZSTD: u8 = 2;

/// Maximum length of a dictionary, both for reading and for training.
pub(in crate::sst) const MOST_BYTES: usize = 64 * KIB;

/// The first bytes of a trained dictionary.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Returns true if a block of `stored_len` bytes may decompress to `raw_len`: at most 255 bytes per stored byte, plus a
/// constant. Thus the bytes read bound the allocation.
pub(in crate::sst) fn may_unpack_to(raw_len: usize, stored_len: usize) -> bool {
    raw_len as u64 <= most_unpacked(stored_len as u64)
}

/// Returns the maximum decompressed length of so many stored bytes.
pub(in crate::sst) fn most_unpacked(stored_len: u64) -> u64 {
    stored_len.saturating_mul(255).saturating_add(64)
}

/// The dictionary of a table, ready for compression and decompression.
pub struct Dictionary {
    bytes: Vec<u8>,
    loaded: Option<LoadedDictionary>,
}

impl Dictionary {
    /// Prepares a dictionary of any content, up to the maximum length.
    pub(in crate::sst) fn of(bytes: &[u8]) -> Result<Dictionary> {
        if bytes.is_empty() || bytes.len() > MOST_BYTES {
            return Err(Error::structural("a dictionary has another length than one may have"));
        }
        Ok(Dictionary { loaded: LoadedDictionary::load(bytes), bytes: bytes.to_vec() })
    }

    /// Returns the dictionary of a table whose own cannot be read: every decompression with it fails.
    pub(in crate::sst) fn lost() -> Dictionary {
        Dictionary { bytes: Vec::new(), loaded: None }
    }

    /// Replaces a corrupt dictionary by a lost one: this loses the blocks that need it, but not the table. Errors: any
    /// error other than corruption.
    pub(in crate::sst) fn or_lost(read: Result<Dictionary>) -> Result<Dictionary> {
        match read {
            Err(error) if error.is_corruption() => Ok(Dictionary::lost()),
            read => read,
        }
    }

    /// Returns true if this is a valid dictionary in the trainer's format. Arbitrary bytes are unlikely to pass.
    pub(in crate::sst) fn is_trained(&self) -> bool {
        self.loaded.is_some() && self.bytes.starts_with(&MAGIC)
    }

    /// Returns false for a lost dictionary.
    pub(in crate::sst) fn is_whole(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the bytes as stored in the table.
    pub(in crate::sst) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes to store in a table that is compressed with this dictionary.
    pub(in crate::sst) fn to_bring(&self) -> &[u8] {
        planted!(DictionaryOfAnotherTable, &self.bytes[self.bytes.len() / 2..], &self.bytes)
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        self.bytes.len() + self.loaded.as_ref().map_or(0, LoadedDictionary::memory)
    }
}

/// Compresses the blocks of one table, or the values of one blob file, in sequence.
pub(crate) struct Packer {
    compression: Compression,
    dictionary: Option<Arc<Dictionary>>,
    zstd: Compressor,
}

impl Packer {
    /// Creates a packer without a dictionary.
    pub(crate) fn new(compression: Compression) -> Packer {
        Packer { compression, dictionary: None, zstd: Compressor::default() }
    }

    /// Sets the dictionary, before any block is compressed. Only zstd uses it.
    pub(in crate::sst) fn with(self, dictionary: Option<Arc<Dictionary>>) -> Packer {
        Packer { dictionary: dictionary.filter(|_| self.uses_zstd()), ..self }
    }

    /// Returns the dictionary that the table must store.
    pub(in crate::sst) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    /// Returns true if blocks may be compressed at all.
    pub(crate) fn packs(&self) -> bool {
        self.compression != Compression::None
    }

    /// Returns true if blocks may be compressed with zstd.
    pub(crate) fn uses_zstd(&self) -> bool {
        matches!(self.compression, Compression::Zstd(_))
    }

    /// Appends `body` compressed and returns its codec. If compression saves less than an eighth, appends nothing.
    pub(in crate::sst) fn pack(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        match self.compression {
            Compression::None => Ok(None),
            Compression::Lz4 => pack_lz4(body, out),
            Compression::Zstd(level) => self.pack_zstd(level, body, out),
        }
    }

    fn pack_zstd(&mut self, level: i32, body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        let start = out.len();
        let dictionary = self.dictionary.as_deref().map(Dictionary::bytes);
        let length = self.zstd.compress(level, dictionary, body, out)?;
        if length <= body.len() - body.len() / 8 && may_unpack_to(body.len(), length) {
            return Ok(Some(ZSTD));
        }
        out.truncate(start);
        // If zstd exceeds the compression ratio that readers accept, use LZ4, whose ratio is within that limit.
        if length < body.len() / 8 && cfg!(feature = "lz4") { pack_lz4(body, out) } else { Ok(None) }
    }
}

/// Decompresses a frame to exactly the length of `out`.
pub(in crate::sst) fn unpack_zstd(packed: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Result<()> {
    match dictionary.map(|dictionary| &dictionary.loaded) {
        None => zstd::decompress(packed, None, out),
        Some(Some(loaded)) => zstd::decompress(packed, Some(loaded), out),
        Some(None) if zstd::AVAILABLE => Err(Error::structural("a block is packed with a dictionary that is damaged")),
        Some(None) => zstd::decompress(packed, None, out),
    }
}

/// Returns the decompressed length that a frame declares, if it is within the accepted ratio.
pub(in crate::sst) fn zstd_length(packed: &[u8]) -> Option<usize> {
    zstd::declared_length(packed).filter(|length| may_unpack_to(*length, packed.len()))
}

/// Decompresses into a buffer that is enlarged until it suffices, up to the maximum that the bytes can decompress to.
#[cfg(feature = "lz4")]
pub(in crate::sst) fn unpack_any_lz4(packed: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let most = packed.len().saturating_mul(255) + 64;
    let mut room = (packed.len() * 4 + 64).min(most);
    loop {
        out.clear();
        crate::env::try_resize(out, room).map_err(|error| Error::io("unpacking a block", error))?;
        match lz4_flex::block::decompress_into(packed, out) {
            Ok(length) => {
                out.truncate(length);
                return Ok(());
            }
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if room < most => {
                room = room.saturating_mul(4).min(most);
            }
            Err(_) => return Err(Error::structural("a block does not unpack")),
        }
    }
}

#[cfg(not(feature = "lz4"))]
pub(in crate::sst) fn unpack_any_lz4(packed: &[u8], out: &mut [u8]) -> Result<()> {
    unpack_lz4(packed, out)
}

#[cfg(feature = "lz4")]
pub(in crate::sst) fn unpack_lz4(packed: &[u8], out: &mut [u8]) -> Result<()> {
    match lz4_flex::block::decompress_into(packed, out) {
        Ok(length) if length == out.len() => Ok(()),
        _ => Err(Error::structural("a block does not unpack to what its handle says")),
    }
}

#[cfg(not(feature = "lz4"))]
pub(in crate::sst) fn unpack_lz4(_: &[u8], _: &mut [u8]) -> Result<()> {
    Err(Error::of(crate::error::ErrorKind::FormatTooNew, "a block is packed with LZ4, which this build has not"))
}

/// Appends `body` compressed with LZ4, or nothing if that saves less than an eighth.
#[cfg(feature = "lz4")]
fn pack_lz4(body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(body.len()), 0);
    let length = lz4_flex::block::compress_into(body, &mut out[start..]).unwrap_or(usize::MAX);
    if length > body.len() - body.len() / 8 {
        return Ok(None);
    }
    out.truncate(start + length);
    Ok(Some(LZ4))
}

#[cfg(not(feature = "lz4"))]
fn pack_lz4(_: &[u8], _: &mut Vec<u8>) -> Result<Option<u8>> {
    Err(Error::invalid("this build has no lz4"))
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
