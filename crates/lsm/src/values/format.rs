//! The bytes of a value file. docs/format.md, section 10.
//!
//! ```text
//! header 64 | entry .. | footer 40
//! entry  = head 32 | key | stored bytes | codec u8 | crc u32
//! ```

use crate::checksum::{Role, Uid, block_seed, crc, hash, mix};
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::header::HEADER_BYTES;
use crate::pointer::{FRAME_BYTES, HEAD_BYTES};
use crate::record::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Offset of the first entry.
pub(super) const START: usize = HEADER_BYTES;

/// Bytes of the footer.
pub(super) const FOOTER_BYTES: usize = 40;

const MAGIC: &[u8; 8] = b"WAXVALUE";

/// The header before an entry's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlobHeader {
    pub(super) key_len: u16,
    pub(super) stored_len: u32,
    pub(super) raw_len: u32,
    pub(super) value_hash: u64,
    /// The ledger term of the record when the value was written: its seal, if it has one.
    pub(super) term: u64,
}

impl BlobHeader {
    /// Returns the encoded head, and the checksum of the head and the key.
    pub(super) fn encode(&self, uid: &Uid, offset: u64, key: &[u8]) -> ([u8; HEAD_BYTES], u32) {
        let mut out = [0; HEAD_BYTES];
        out[4..6].copy_from_slice(&self.key_len.to_le_bytes());
        out[8..12].copy_from_slice(&self.stored_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.raw_len.to_le_bytes());
        out[16..24].copy_from_slice(&self.value_hash.to_le_bytes());
        out[24..].copy_from_slice(&self.term.to_le_bytes());
        let sum = crc(block_seed(uid, offset, Role::ValueHead), &[&out[4..], key]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        (out, sum)
    }

    /// Decodes a head and its stored checksum, which the caller checks once it has the key.
    pub(super) fn decode(bytes: &[u8]) -> Result<(BlobHeader, u32)> {
        let mut reader = Reader::new(bytes);
        let sum = reader.u32()?;
        let key_len = reader.u16()?;
        let zero = reader.u16()?;
        let (stored_len, raw_len) = (reader.u32()?, reader.u32()?);
        let head = BlobHeader { key_len, stored_len, raw_len, value_hash: reader.u64()?, term: reader.u64()? };
        let too_long = raw_len as usize > MAX_VALUE_BYTES || stored_len > raw_len || key_len as usize > MAX_KEY_BYTES;
        if zero != 0 || too_long {
            return Err(Error::structural("the head of a value that cannot be"));
        }
        Ok((head, sum))
    }

    /// Returns the length of the whole entry in bytes.
    pub(super) fn entry_bytes(&self) -> u64 {
        (HEAD_BYTES + self.key_len as usize + FRAME_BYTES) as u64 + u64::from(self.stored_len)
    }
}

/// Returns the digest of a file after adding one entry to a file with digest `before`.
pub(super) fn digest(before: u64, head: u32, value: u32) -> u64 {
    mix(before ^ (u64::from(head) | u64::from(value) << 32))
}

/// The footer of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlobFooter {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) digest: u64,
}

impl BlobFooter {
    pub(super) fn encode(&self, uid: &Uid) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        out[..8].copy_from_slice(&self.count.to_le_bytes());
        out[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.digest.to_le_bytes());
        let check = check_of(&out[..24], uid);
        out[24..32].copy_from_slice(&check.to_le_bytes());
        out[32..].copy_from_slice(MAGIC);
        out
    }

    pub(super) fn decode(bytes: &[u8], uid: &Uid) -> Result<BlobFooter> {
        let mut reader = Reader::new(bytes);
        let covered = reader.bytes(24)?;
        let (expected, found) = (reader.u64()?, check_of(covered, uid));
        if reader.rest() != MAGIC {
            return Err(Error::structural("the file does not end like a value file"));
        }
        if expected != found {
            return Err(Error::mismatch(expected, found, "footer of a value file"));
        }
        let mut reader = Reader::new(covered);
        Ok(BlobFooter { count: reader.u64()?, bytes: reader.u64()?, digest: reader.u64()? })
    }
}

fn check_of(covered: &[u8], uid: &Uid) -> u64 {
    hash(&[covered, &uid.0].concat())
}
