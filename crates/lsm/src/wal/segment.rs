//! A segment: one preallocated file of the log. docs/format.md, section 5.3.
//!
//! Page 0 holds the range of logical offsets in the file and the link before its first frame (the nonce). Page 0 and
//! the directory entry are durable before a frame enters the file, so the file named by a turnover frame exists after
//! any crash.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::env::{Env, File, Machine, Open};
use crate::error::{Error, IoContext, Result};
use crate::frame::PAGE_BYTES;
use crate::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::identity::StoreIdentity;
use crate::left_files::LeftFiles;
use crate::names::StoreFileName;
use crate::planted;
use crate::record::Seqno;

/// A page as an offset.
pub const PAGE: u64 = PAGE_BYTES as u64;

/// Bytes of page 0 that the check covers; the check follows them.
const CHECKED_BYTES: usize = 120;

/// Zeros are written to a fresh file in pieces of this many bytes.
pub(super) const ZERO_BYTES: usize = 256 * 1024;

/// A place in the log: a segment, an offset in it, and the link of the frame that ends there (at the segment's start,
/// its nonce).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    /// Number of the segment's file.
    pub segment: u64,
    /// The segment's nonce.
    pub nonce: u64,
    /// Logical offset.
    pub offset: u64,
    /// Link of everything before `offset`.
    pub link: u64,
}

/// Start of recovery, as the manifest names it. docs/format.md, section 6, tag 12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    /// The first segment; `link` is its nonce.
    pub place: LogPlace,
    /// Number of the ring's file.
    pub ring: u64,
    /// The ring's nonce.
    pub ring_nonce: u64,
}

/// The contents of a segment's page 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub number: u64,
    pub nonce: u64,
    /// Logical offset of the first frame, a multiple of the page.
    pub first: u64,
    /// The kernel and device that it was written under.
    pub machine: Machine,
    /// Length of the file.
    pub length: u64,
}

impl SegmentHeader {
    pub(super) fn encode(&self, uid: Uid, store: &StoreIdentity) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..HEADER_BYTES].copy_from_slice(&FileHeader::new(FileKind::Segment, uid).encode());
        page[64..72].copy_from_slice(&self.number.to_le_bytes());
        page[72..80].copy_from_slice(&self.nonce.to_le_bytes());
        page[80..88].copy_from_slice(&self.first.to_le_bytes());
        page[88..104].copy_from_slice(&self.machine.boot_id.unwrap_or_default());
        page[104..112].copy_from_slice(&self.machine.device.to_le_bytes());
        page[112..120].copy_from_slice(&self.length.to_le_bytes());
        let check = hash(&page[..CHECKED_BYTES]);
        page[CHECKED_BYTES..CHECKED_BYTES + 8].copy_from_slice(&check.to_le_bytes());
        store.put_into(&mut page);
        page
    }

    pub(super) fn decode(page: &[u8]) -> Result<SegmentHeader> {
        let mut reader = Reader::new(page);
        let checked = reader.bytes(CHECKED_BYTES)?;
        let expected = reader.u64()?;
        FileHeader::decode(checked, FileKind::Segment)?;
        let found = hash(checked);
        if expected != found {
            return Err(Error::mismatch(expected, found, "header of a log segment"));
        }
        let mut reader = Reader::starting_at(checked, HEADER_BYTES);
        let (number, nonce, first) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let machine = decode_machine(reader.array()?, reader.u64()?);
        let length = reader.u64()?;
        if !first.is_multiple_of(PAGE) || first >= 1 << 51 {
            return Err(Error::structural("a segment cannot begin at this offset"));
        }
        Ok(SegmentHeader { number, nonce, first, machine, length })
    }
}

/// Decodes a boot id and device; a boot id of zeros means `None`.
pub(super) fn decode_machine(boot_id: [u8; 16], device: u64) -> Machine {
    Machine { boot_id: (boot_id != [0; 16]).then_some(boot_id), device }
}

/// Where the log left a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentEnd {
    /// The end of its last frame.
    pub offset: u64,
    /// That frame's link.
    pub link: u64,
    /// The seqno after its last operation.
    pub next_seqno: Seqno,
}

/// Old frames in a file that is used again. The new ones overwrite them from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentRemnants {
    /// Position in the file at which they end.
    pub end: u64,
    /// None of them has a lower seqno.
    pub oldest: Seqno,
}

/// A segment in this session of the log: written to now, before, or later.
#[derive(Debug)]
pub(super) struct Segment {
    pub number: u64,
    pub nonce: u64,
    pub first: u64,
    pub file: Arc<dyn File>,
    length: AtomicU64,
    /// Blocks below this logical offset were reserved when the segment was made; `u64::MAX` if all were.
    /// `FrameOrder::blocks` counts the later reservations.
    pub reserved: u64,
    /// Blocks below this logical offset were written before the segment was used. Equal to the limit if written blocks
    /// save nothing.
    pub written: u64,
    /// True if the file held other frames before.
    pub is_used_again: bool,
    /// Set by the turnover that entered the segment: no frame in it has a lower seqno.
    pub entered: OnceLock<Seqno>,
    /// Frames of earlier uses of the file.
    pub remnants: Option<SegmentRemnants>,
    /// Set by the turnover that left the segment.
    pub closed: OnceLock<SegmentEnd>,
    /// True if the segment is closed and durable to its end.
    pub synced: AtomicBool,
    /// True if it is sealed in the manifest.
    pub sealed: AtomicBool,
}

impl Segment {
    /// Returns the logical offset after the last byte that the file can hold.
    pub(super) fn limit(&self) -> u64 {
        self.first + self.length() - PAGE
    }

    /// Returns where the log leaves this segment early if commits are synced: the end of its zeros. A recycled segment
    /// is used to its end, so that the next time all its blocks are written; until then the drain writes zeros ahead of
    /// the log (`drain`).
    pub(super) fn good_until(&self) -> u64 {
        if self.is_used_again { self.limit() } else { self.written }
    }

    /// True if part of the segment has written blocks.
    pub(super) fn is_good(&self) -> bool {
        self.good_until() > self.first
    }

    pub(super) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// Reserves blocks up to a logical offset, and returns the new end of the reservation: a page boundary, or
    /// `u64::MAX` if the whole file is reserved.
    pub(super) fn reserve(&self, until: u64) -> Result<u64> {
        let until = until.next_multiple_of(PAGE).min(self.limit());
        let bytes = PAGE + until - self.first;
        self.file.allocate(bytes).during(|| format!("reserve {bytes} bytes for {}", self.name()))?;
        Ok(if until == self.limit() { u64::MAX } else { until })
    }

    /// Writes log bytes at a logical offset.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        debug_assert!(offset >= self.first && offset + bytes.len() as u64 <= self.limit());
        self.file.write_at(bytes, PAGE + offset - self.first)
    }

    /// Returns the frames that the file holds once the log has ended at `log_end`: its own ones and the remnants that
    /// these have not overwritten. `None` if it holds none.
    pub(super) fn contents(&self, log_end: u64) -> Option<SegmentRemnants> {
        let end = self.closed.get().map_or(log_end, |closed| closed.offset).clamp(self.first, self.limit());
        let end = PAGE + end - self.first;
        let own = self.entered.get().filter(|_| end > PAGE).map(|seqno| SegmentRemnants { end, oldest: *seqno });
        let older = self.remnants.filter(|older| older.end > end);
        let both = own.zip(older).map(|(own, older)| SegmentRemnants { oldest: own.oldest.min(older.oldest), ..older });
        both.or(own).or(older)
    }

    /// Returns the place at its start.
    pub(super) fn start(&self) -> LogPlace {
        LogPlace { segment: self.number, nonce: self.nonce, offset: self.first, link: self.nonce }
    }

    pub(super) fn name(&self) -> String {
        StoreFileName::Segment(self.number).to_string()
    }
}

/// Result of making a segment.
pub(super) type SegmentResult<T> = std::result::Result<T, SegmentError>;

/// Why a segment could not be made.
pub(super) enum SegmentError {
    /// Nothing relevant was changed; the same call may succeed later.
    Unchanged(Error),
    /// A sync failed: the state of the written data is unknown (I09).
    Sync(Error),
}

impl From<Error> for SegmentError {
    fn from(error: Error) -> SegmentError {
        SegmentError::Unchanged(error)
    }
}

impl SegmentError {
    fn of_sync(error: Error) -> SegmentError {
        if error.is_out_of_space() { SegmentError::Unchanged(error) } else { SegmentError::Sync(error) }
    }

    pub(super) fn into_error(self) -> Error {
        match self {
            SegmentError::Unchanged(error) | SegmentError::Sync(error) => error,
        }
    }
}

/// The file of a future segment. It is not referenced before it is finished: the next open deletes what a crash leaves
/// of it.
#[derive(Debug)]
pub(super) struct UnfinishedSegment {
    file: Arc<dyn File>,
    pub number: u64,
    pub length: u64,
    /// End of its reserved blocks, at most its length.
    reserved: u64,
    /// End of its written bytes.
    pub filled: u64,
    /// True if the file held frames before.
    pub is_used_again: bool,
    /// The frames that it holds.
    remnants: Option<SegmentRemnants>,
}

/// Makes segments in one directory. Every segment it returns is durable: header and directory entry.
#[derive(Debug)]
pub(super) struct SegmentMaker {
    /// The store whose log it is.
    pub store: StoreIdentity,
    pub machine: Machine,
    /// True if written blocks stay reserved, so that zeros written in advance save metadata at each later sync.
    pub reserves: bool,
    /// The segments that could not be removed.
    pub left: LeftFiles,
}

impl SegmentMaker {
    /// Creates a file with blocks for its header and the first `blocks` bytes after it only, filled with zeros if
    /// `is_filled`. The log reserves the other blocks as it grows (`Segment::reserve`).
    pub(super) fn sparse(
        &self,
        env: &Env,
        dir: &Path,
        (number, first, length): (u64, u64, u64),
        blocks: u64,
        is_filled: bool,
    ) -> SegmentResult<Segment> {
        let reserved = (PAGE + blocks).min(length);
        let making = self.begin_with(env, dir, number, length, reserved)?;
        self.finish(env, dir, making, first, length, if is_filled { reserved } else { 0 })
    }

    /// Creates a file and reserves its space.
    pub(super) fn begin(&self, env: &Env, dir: &Path, number: u64, length: u64) -> Result<UnfinishedSegment> {
        self.begin_with(env, dir, number, length, length)
    }

    fn begin_with(&self, env: &Env, dir: &Path, number: u64, length: u64, reserved: u64) -> Result<UnfinishedSegment> {
        let name = StoreFileName::Segment(number).to_string();
        let file = env.fs.open(&dir.join(&name), Open::Create).during(|| format!("create {name}"))?;
        let sized = if reserved < length { file.set_len(length) } else { Ok(()) };
        match sized.and_then(|()| file.allocate(reserved)).during(|| format!("reserve {reserved} bytes for {name}")) {
            Ok(()) => {
                let (filled, is_used_again, remnants) = (PAGE, false, None);
                Ok(UnfinishedSegment { file, number, length, reserved, filled, is_used_again, remnants })
            }
            Err(error) => {
                self.remove(env, dir, number);
                Err(error)
            }
        }
    }

    /// Renames an old file to a new number; the new nonce makes its old contents meaningless. Its written blocks are
    /// those written before its last use and during it. On an error the file is removed.
    pub(super) fn reuse(&self, env: &Env, dir: &Path, old: &Segment, number: u64) -> Result<UnfinishedSegment> {
        let (from, to) = (old.name(), StoreFileName::Segment(number).to_string());
        let renamed = env.fs.rename(&dir.join(&from), &dir.join(&to)).during(|| format!("rename {from} to {to}"));
        // A rename that failed may have taken effect.
        renamed.inspect_err(|_| [old.number, number].into_iter().for_each(|number| self.remove(env, dir, number)))?;
        let file = env.fs.open(&dir.join(&to), Open::Write).during(|| format!("open {to}"));
        let file = file.inspect_err(|_| self.remove(env, dir, number))?;
        let used = old.closed.get().map_or(old.first, |end| end.offset);
        let filled = PAGE + used.max(old.written).min(old.limit()) - old.first;
        let (length, reserved) = (old.length(), PAGE + old.reserved.min(old.limit()) - old.first);
        let remnants = old.contents(old.first);
        Ok(UnfinishedSegment { file, number, length, reserved, filled, is_used_again: true, remnants })
    }

    /// Writes the next zeros of a file. A sync of data in unwritten blocks also waits for the file system's journal,
    /// which doubles its cost. Zeros are written one piece at a time, and each piece but the last (which `finish`
    /// syncs) is made durable, because every other sync waits for the disk's queued writes. On an error the file is
    /// removed. Returns the number of bytes written.
    pub(super) fn fill_some(
        &self,
        env: &Env,
        dir: &Path,
        mut making: UnfinishedSegment,
    ) -> SegmentResult<(UnfinishedSegment, u64)> {
        let to = making.length.min(making.filled + ZERO_BYTES as u64);
        let name = StoreFileName::Segment(making.number).to_string();
        let written = fill(&*making.file, making.filled, to).during(|| format!("write zeros to {name}"));
        let synced = written.map_err(SegmentError::Unchanged).and_then(|()| match to < making.length {
            true => sync(&*making.file, &name),
            false => Ok(()),
        });
        if let Err(refusal) = synced {
            self.remove(env, dir, making.number);
            return Err(refusal);
        }
        let bytes = to - std::mem::replace(&mut making.filled, to);
        Ok((making, bytes))
    }

    /// True if zeros are still to be written. If blocks do not stay reserved, zeros save nothing.
    pub(super) fn has_to_fill(&self, making: &UnfinishedSegment) -> bool {
        self.reserves && making.filled < making.length && !making.is_used_again
    }

    /// Finishes a file as a segment, at least as long as it was made, with zeros up to `filled` or as far as it has
    /// them.
    pub(super) fn finish(
        &self,
        env: &Env,
        dir: &Path,
        making: UnfinishedSegment,
        first: u64,
        length: u64,
        filled: u64,
    ) -> SegmentResult<Segment> {
        let UnfinishedSegment { file, number, filled: before, length: made_length, reserved, is_used_again, remnants } =
            making;
        let stays_sparse = reserved < made_length && !is_used_again;
        let name = StoreFileName::Segment(number).to_string();
        let made = (|| {
            if length > reserved && !stays_sparse {
                file.allocate(length).during(|| format!("reserve {length} bytes for {name}"))?;
            }
            let filled = if is_used_again { before } else { filled.max(before) };
            let filled = if self.reserves { filled } else { length };
            if filled > before && self.reserves {
                fill(&*file, before, filled).during(|| format!("write zeros to {name}"))?;
            }
            let nonce = planted!(RecycledFrameReplayed, 0, env.random.next_u64());
            let header = SegmentHeader { number, nonce, first, machine: self.machine, length };
            file.write_at(&header.encode(env.random.uid(), &self.store), 0).during(|| format!("write {name}"))?;
            match planted!(SegmentNotNamed, first > 0, false) {
                true => sync(&*file, &name)?,
                false => sync_named(env, dir, &*file, &name)?,
            }
            Ok(Segment {
                number,
                nonce,
                first,
                file,
                length: AtomicU64::new(length),
                reserved: if stays_sparse { first + reserved - PAGE } else { u64::MAX },
                written: first + filled.min(length) - PAGE,
                is_used_again,
                entered: OnceLock::new(),
                remnants,
                closed: OnceLock::new(),
                synced: AtomicBool::new(false),
                sealed: AtomicBool::new(false),
            })
        })();
        if made.is_err() {
            self.remove(env, dir, number);
        }
        made
    }

    /// Removes a segment that is not referenced. If that fails, it is known to `left`.
    pub(super) fn remove(&self, env: &Env, dir: &Path, number: u64) {
        self.left.remove(&*env.fs, dir, StoreFileName::Segment(number));
    }

    /// Extends a segment that no frame has entered.
    pub(super) fn extend(&self, env: &Env, segment: &Segment, length: u64) -> SegmentResult<()> {
        let name = segment.name();
        segment.file.allocate(length).during(|| format!("reserve {length} bytes for {name}"))?;
        let header = SegmentHeader {
            number: segment.number,
            nonce: segment.nonce,
            first: segment.first,
            machine: self.machine,
            length,
        };
        segment.file.write_at(&header.encode(env.random.uid(), &self.store), 0).during(|| format!("write {name}"))?;
        sync(&*segment.file, &name)?;
        segment.length.store(length, Ordering::Relaxed);
        Ok(())
    }
}

fn sync(file: &dyn File, name: &str) -> SegmentResult<()> {
    file.sync_data().during(|| format!("sync {name}")).map_err(SegmentError::of_sync)
}

/// Syncs a file and the directory that names it.
fn sync_named(env: &Env, dir: &Path, file: &dyn File, name: &str) -> SegmentResult<()> {
    sync(file, name)?;
    env.fs.sync_dir(dir).during(|| format!("sync the directory of {name}")).map_err(SegmentError::Sync)
}

/// Fills a range of a file with zeros.
pub(super) fn fill(file: &dyn File, from: u64, to: u64) -> std::io::Result<()> {
    let zeros = vec![0; ZERO_BYTES.min((to - from) as usize)];
    let mut at = from;
    while at < to {
        let piece = (to - at).min(zeros.len() as u64);
        file.write_at(&zeros[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_comes_back_and_no_flipped_bit_passes(number: u64, nonce: u64, first in 0u64..1 << 39, boot: Option<[u8; 16]>, device: u64, length: u64, bit in 0usize..128 * 8) {
            let boot_id = boot.filter(|id| *id != [0; 16]);
            let header = SegmentHeader { number, nonce, first: first * PAGE, machine: Machine { boot_id, device }, length };
            let mut page = header.encode(Uid([3; 16]), &StoreIdentity::default());
            prop_assert_eq!(SegmentHeader::decode(&page).unwrap(), header);
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(SegmentHeader::decode(&page).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = SegmentHeader::decode(&bytes);
        }
    }
}
