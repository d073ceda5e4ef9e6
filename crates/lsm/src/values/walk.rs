//! Scans a value file by itself, from end to end: for verification, or if the tables that point into it are lost.
//!
//! In:     a file, and optionally its description in the manifest. Out: its entries, in order; then the check of header
//!         and footer.
//! Holds:  a length is checked against the remaining bytes before it is used (I10). Values are read only on request: an
//!         entry's head gives the position of the next one. Damage ends the scan, because without the tables no entry
//!         after a damaged head can be found.

use super::BlobMeta;
use super::format::{BlobFooter, BlobHeader, FOOTER_BYTES, START, digest};
use crate::checksum::{Role, Uid, block_seed, crc};
use crate::env::{File, read_exact};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::pointer::{FRAME_BYTES, HEAD_BYTES, Pointer};

/// One value found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobEntry {
    /// The key under which it was written.
    pub key: Vec<u8>,
    /// The ledger term of its record when it was written; 0 if it had none.
    pub term: u64,
    /// A pointer to it.
    pub pointer: Pointer,
}

/// Passes every entry of a file to `visit`. Returns `Corruption` if the file is damaged, `Io`, and errors of `visit`.
pub fn walk(
    name: &str,
    file: &dyn File,
    meta: Option<&BlobMeta>,
    visit: &mut dyn FnMut(BlobEntry) -> Result<()>,
) -> Result<()> {
    let read = |offset: u64, length: usize| read_exact(file, offset, length).during(|| format!("reading {name}"));
    let wrong = |error: Error, offset: u64| error.in_file(name, offset);
    let (uid, footer, end) = ends(name, file, meta)?;
    let (mut at, mut count, mut sum) = (START as u64, 0, 0);
    while at < end {
        let (entry, next, after) = entry_at(&uid, at, end, sum, &read).map_err(|error| wrong(error, at))?;
        visit(entry)?;
        (at, sum) = (next, after);
        count += 1;
    }
    let found = BlobFooter { count, bytes: end - START as u64, digest: sum };
    let kept = meta.is_none_or(|meta| (meta.count, meta.digest) == (count, sum));
    if found != footer || !kept {
        return Err(wrong(Error::structural("a value file does not hold what it says it does"), end));
    }
    Ok(())
}

/// Checks every byte of a file that the manifest describes. `progress` hears of the bytes of each entry. Returns
/// `Corruption` if the file is damaged, `Io`, and errors of `progress`.
pub fn verify(name: &str, file: &dyn File, meta: &BlobMeta, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    walk(name, file, Some(meta), &mut |entry| {
        let BlobEntry { key, pointer, .. } = &entry;
        let length = pointer.stored_len as usize + FRAME_BYTES;
        let at = pointer.offset + (HEAD_BYTES + key.len()) as u64;
        let framed = read_exact(file, at, length).during(|| format!("reading {name}"))?;
        let found = crc(block_seed(&pointer.uid, at, Role::Value), &[&framed[..length - 4]]);
        if found != pointer.crc {
            let error = Error::mismatch(pointer.crc.into(), found.into(), "checksum of a value");
            return Err(error.in_file(name, at).in_key(key));
        }
        progress((HEAD_BYTES + key.len() + length) as u64)
    })
}

/// Returns the file's id, from its header alone: sufficient for a caller with records that point into it. Returns
/// `Corruption` if the header is invalid, or `Io`.
pub fn identify(name: &str, file: &dyn File) -> Result<Uid> {
    let header = read_exact(file, 0, HEADER_BYTES).during(|| format!("reading {name}"))?;
    FileHeader::decode(&header, FileKind::Values).map(|header| header.uid).map_err(|error| error.in_file(name, 0))
}

/// Checks header and footer of a file, but no entries.
pub(super) fn check_ends(name: &str, file: &dyn File, meta: &BlobMeta) -> Result<()> {
    let (_, footer, end) = ends(name, file, Some(meta))?;
    match (footer.count, footer.digest) == (meta.count, meta.digest) {
        true => Ok(()),
        false => Err(Error::structural("a value file is not the one that the manifest names").in_file(name, end)),
    }
}

/// Returns the file's id, its footer, and the footer's offset.
fn ends(name: &str, file: &dyn File, meta: Option<&BlobMeta>) -> Result<(Uid, BlobFooter, u64)> {
    let read = |offset: u64, length: usize| read_exact(file, offset, length).during(|| format!("reading {name}"));
    let wrong = |error: Error, offset: u64| error.in_file(name, offset);
    let size = file.len().during(|| format!("asking for the length of {name}"))?;
    if meta.is_some_and(|meta| meta.size != size) || size < (START + FOOTER_BYTES) as u64 {
        return Err(wrong(Error::structural("a value file of another length"), 0));
    }
    let header = FileHeader::decode(&read(0, HEADER_BYTES)?, FileKind::Values).map_err(|error| wrong(error, 0))?;
    if meta.is_some_and(|meta| meta.uid != header.uid) {
        let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
        return Err(wrong(Error::corruption(damage, "another value file stands in its place"), 0));
    }
    let end = size - FOOTER_BYTES as u64;
    let footer = BlobFooter::decode(&read(end, FOOTER_BYTES)?, &header.uid).map_err(|error| wrong(error, end))?;
    Ok((header.uid, footer, end))
}

/// Returns the entry at `at`, the offset of the next one, and the digest including this entry.
fn entry_at(
    uid: &Uid,
    at: u64,
    end: u64,
    before: u64,
    read: &dyn Fn(u64, usize) -> Result<Vec<u8>>,
) -> Result<(BlobEntry, u64, u64)> {
    let outside = || Error::structural("an entry reaches beyond its file");
    if end - at < HEAD_BYTES as u64 {
        return Err(outside());
    }
    let bytes = read(at, HEAD_BYTES)?;
    let (head, sum) = BlobHeader::decode(&bytes)?;
    let next = at.checked_add(head.entry_bytes()).filter(|next| *next <= end).ok_or_else(outside)?;
    let key = read(at + HEAD_BYTES as u64, head.key_len.into())?;
    let found = crc(block_seed(uid, at, Role::ValueHead), &[&bytes[4..], &key]);
    if found != sum {
        return Err(Error::mismatch(sum.into(), found.into(), "head of a value"));
    }
    let frame = read(next - FRAME_BYTES as u64, FRAME_BYTES)?;
    let crc = u32::from_le_bytes([frame[1], frame[2], frame[3], frame[4]]);
    let BlobHeader { stored_len, raw_len, value_hash, term, .. } = head;
    let pointer = Pointer { uid: *uid, offset: at, stored_len, raw_len, value_hash, crc, codec: frame[0] };
    Ok((BlobEntry { key, term, pointer }, next, digest(before, sum, crc)))
}
