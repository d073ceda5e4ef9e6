//! Writes a value file.
//!
//! In:     keys and values, in the order of the writing pass. Out: a pointer for each, and the file's description for
//!         the manifest.
//! Holds:  the CRC of a value is computed first, V afterwards from the bytes that the CRC covers, decompressed again if
//!         they are compressed. Earlier damage is detected by the record's companion, which checks V; later damage is
//!         detected by the CRC. A value that is not compressed and exceeds the buffer is not copied.
//! Crash:  leaves an unfinished file that the manifest does not name; the next open deletes it (I04, I06). `finish`
//!         syncs.

use std::path::Path;
use std::sync::Arc;

use super::BlobMeta;
use super::format::{BlobFooter, BlobHeader, START, digest};
use crate::checksum::{Role, Uid, block_seed, crc, hash};
use crate::env::{Env, File, Open};
use crate::error::{Error, IoContext, Result};
use crate::header::{FileHeader, FileKind};
use crate::left_files::LeftFiles;
use crate::names::StoreFileName;
use crate::options::{Compression, KIB, MIB};
use crate::planted;
use crate::pointer::{FRAME_BYTES, HEAD_BYTES, Pointer};
use crate::record::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::sst::{Packer, put_packed, unpack_block};
use crate::table_property::{PropertyCollectors, TableProperty};

/// Entries are buffered up to this size, then written with one call.
const WRITE_BYTES: usize = 512 * KIB;

/// Larger values are not compressed: that would need the same amount of memory again.
const MOST_PACKED: usize = 64 * MIB;

/// Maximum size of the buffers that a writer keeps while it waits for the next value, which may take long.
const KEPT_BYTES: usize = 4 * MIB;

/// A position of the writer: entries added after it can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriterMark {
    written: u64,
    count: u64,
    digest: u64,
}

/// Writes one value file. After an error it must not be used further.
pub struct BlobWriter {
    file: Arc<dyn File>,
    number: u64,
    uid: Uid,
    packer: Packer,
    /// Packer without compression.
    plain: Packer,
    /// Bytes already in the file; `out` follows them.
    written: u64,
    out: Vec<u8>,
    count: u64,
    digest: u64,
    scratch: Vec<u8>,
    /// True if the file may have stray bytes after `written`.
    is_torn: bool,
    collectors: PropertyCollectors,
}

impl BlobWriter {
    /// Creates a file with this number, and its writer.
    pub fn create(env: &Env, dir: &Path, number: u64, compression: Compression) -> Result<BlobWriter> {
        let name = StoreFileName::Values(number).to_string();
        let file = env.fs.open(&dir.join(&name), Open::Create).during(|| format!("creating {name}"))?;
        let uid = env.random.uid();
        let (packer, plain) = (Packer::new(compression), Packer::new(Compression::None));
        let out = FileHeader::packed(FileKind::Values, uid, packer.uses_zstd()).encode().to_vec();
        Ok(BlobWriter {
            file,
            number,
            uid,
            packer,
            plain,
            written: 0,
            out,
            count: 0,
            digest: 0,
            scratch: Vec::new(),
            is_torn: false,
            collectors: PropertyCollectors::default(),
        })
    }

    /// Collects these properties of the values that are added.
    pub fn collecting(self, properties: &[TableProperty]) -> BlobWriter {
        BlobWriter { collectors: PropertyCollectors::begin(properties), ..self }
    }

    /// Creates a writer for a file that receives pointers while it is being written: its header has reached the
    /// operating system, and its name is durable. The name must be synced here, because a later failed directory sync
    /// by any thread may leave it undurable. On an error the file is removed; if it cannot be removed, `left` knows it.
    pub(super) fn create_shared(
        (env, dir, left): (&Env, &Path, &LeftFiles),
        number: u64,
        compression: Compression,
        sync_names: &dyn Fn() -> Result<()>,
    ) -> Result<BlobWriter> {
        let named = || planted!(NameOfValuesNotSynced, Ok(()), sync_names());
        let create = || {
            let mut writer = BlobWriter::create(env, dir, number, compression)?;
            writer.write_out().and_then(|()| named()).map(|()| writer)
        };
        create().inspect_err(|_| _ = left.remove(&*env.fs, dir, StoreFileName::Values(number)))
    }

    /// Returns the file, for syncing.
    pub(super) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Returns the file's id.
    pub fn uid(&self) -> Uid {
        self.uid
    }

    /// Returns the current length of the file in bytes, including buffered entries.
    pub fn file_bytes(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Adds a value; `term` is the ledger term of its record. Returns `Io`, or `Invalid` beyond the limits.
    pub fn add(&mut self, key: &[u8], value: &[u8], term: u64) -> Result<Pointer> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(Error::invalid("a value beyond the limits reaches a value file"));
        }
        let packs = self.packer.packs() && value.len() <= MOST_PACKED;
        let pointer = if packs || value.len() <= WRITE_BYTES {
            self.add_buffered(key, value, term)?
        } else {
            self.add_directly(key, value, term)?
        };
        if !self.collectors.is_empty() {
            self.collectors.add(key, value);
        }
        self.count += 1;
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(pointer)
    }

    /// Adds a value and writes it through to the operating system: a reader that finds the pointer finds the value,
    /// even after the process is killed. After an error the writer is unchanged, and the next value takes the same
    /// place.
    pub(super) fn add_through(&mut self, key: &[u8], value: &[u8], term: u64) -> Result<Pointer> {
        self.out.clear(); // remains of an entry after a panic
        let before = self.mark();
        let added = self.add(key, value, term).and_then(|pointer| self.write_out().map(|()| pointer));
        if added.is_err() {
            self.back_to(before);
        }
        self.scratch.clear();
        for buffer in [&mut self.out, &mut self.scratch] {
            buffer.shrink_to(KEPT_BYTES); // for a value of usual size this is only a check
        }
        added
    }

    /// Returns the size of the buffers kept between values, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.out.capacity() + self.scratch.capacity()
    }

    /// Returns the current position. Everything before it was written through.
    pub(super) fn mark(&self) -> WriterMark {
        WriterMark { written: self.written, count: self.count, digest: self.digest }
    }

    /// Returns to a mark, as if nothing had been added since, and truncates the file, because the device may be full.
    /// The items of the removed values stay.
    pub(super) fn back_to(&mut self, mark: WriterMark) {
        self.out.clear();
        WriterMark { written: self.written, count: self.count, digest: self.digest } = mark;
        self.is_torn = self.file.set_len(self.written).is_err(); // `end` tries again
    }

    /// Writes the footer and makes the file durable.
    pub fn finish(mut self) -> Result<BlobMeta> {
        self.end()?;
        self.sync()
    }

    /// Writes the footer, after which nothing may be added. After an error the writer is unchanged.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.is_torn {
            // The stray bytes may be longer than a footer.
            self.file.set_len(self.written).during(|| format!("shortening {}", StoreFileName::Values(self.number)))?;
            self.is_torn = false;
        }
        let before = self.out.len();
        let bytes = self.file_bytes() - START as u64;
        let footer = BlobFooter { count: self.count, bytes, digest: self.digest };
        self.out.extend_from_slice(&footer.encode(&self.uid));
        let written = self.write_out();
        if written.is_err() {
            self.out.truncate(before);
            self.is_torn = true;
        }
        written
    }

    /// Syncs a file that has its footer.
    pub(super) fn sync(self) -> Result<BlobMeta> {
        planted!(PointerBeforeValueSync, Ok(()), self.file.sync_data())
            .during(|| format!("syncing {}", StoreFileName::Values(self.number)))?;
        let Self { number, uid, count, digest, written, collectors, .. } = self;
        Ok(BlobMeta { number, uid, size: written, count, digest, collected: collectors.finish() })
    }

    fn add_buffered(&mut self, key: &[u8], value: &[u8], term: u64) -> Result<Pointer> {
        let (offset, start) = (self.file_bytes(), self.out.len());
        let at = offset + (HEAD_BYTES + key.len()) as u64;
        self.out.extend_from_slice(&[0; HEAD_BYTES]);
        self.out.extend_from_slice(key);
        let framed = self.out.len();
        let packer = if value.len() <= MOST_PACKED { &mut self.packer } else { &mut self.plain };
        let handle = put_packed(&mut self.out, value, None, packer, (&self.uid, Role::Value), at)?;
        crate::inject::framed(&mut self.out[framed..]);
        let stored = &self.out[framed..];
        let codec = stored[handle.stored_len as usize];
        let logical = unpack_block(&stored[..handle.stored_len as usize], codec, handle.raw_len, &mut self.scratch)?;
        let head = BlobHeader {
            key_len: key.len() as u16,
            stored_len: handle.stored_len,
            raw_len: handle.raw_len,
            value_hash: hash(logical),
            term,
        };
        let (bytes, sum) = head.encode(&self.uid, offset, key);
        self.out[start..start + HEAD_BYTES].copy_from_slice(&bytes);
        Ok(self.pointer(offset, &head, sum, (handle.crc, codec)))
    }

    fn add_directly(&mut self, key: &[u8], value: &[u8], term: u64) -> Result<Pointer> {
        let offset = self.file_bytes();
        let at = offset + (HEAD_BYTES + key.len()) as u64;
        let crc = crc(block_seed(&self.uid, at, Role::Value), &[value, &[0]]);
        let (stored_len, raw_len) = (value.len() as u32, value.len() as u32);
        let head = BlobHeader { key_len: key.len() as u16, stored_len, raw_len, value_hash: hash(value), term };
        let (bytes, sum) = head.encode(&self.uid, offset, key);
        self.out.extend_from_slice(&bytes);
        self.out.extend_from_slice(key);
        self.write_out()?;
        self.file.write_at(value, self.written).during(|| "writing a value")?;
        self.written += value.len() as u64;
        self.out.push(0);
        self.out.extend_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(self.out.len(), FRAME_BYTES);
        Ok(self.pointer(offset, &head, sum, (crc, 0)))
    }

    fn pointer(&mut self, offset: u64, head: &BlobHeader, sum: u32, (crc, codec): (u32, u8)) -> Pointer {
        self.digest = digest(self.digest, sum, crc);
        let BlobHeader { stored_len, raw_len, value_hash, .. } = *head;
        Pointer { uid: self.uid, offset, stored_len, raw_len, value_hash, crc, codec }
    }

    fn write_out(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.file.write_at(&self.out, self.written).during(|| "writing values")?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }
}

impl std::fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobWriter").field("number", &self.number).field("count", &self.count).finish_non_exhaustive()
    }
}
