//! A segment: one preallocated file of the log. docs/format.md, section 5.3.
//!
//! Its page 0 says which logical offsets it holds and which link comes before its first frame (the nonce). Page 0 and the
//! directory entry are durable before a frame enters the file, so whatever a turnover frame names is there after any crash.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::env::{Env, File, Machine, Open};
use crate::error::{Error, IoContext, Result};
use crate::frame::PAGE_BYTES;
use crate::header::{FileKind, HEADER_BYTES, Header};
use crate::names::Name;
use crate::planted::{self, Bug};

/// A page as an offset.
pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// Bytes of page 0 that the check covers; the check follows.
const CHECKED_BYTES: usize = 120;

/// Zeros are written to a fresh file in pieces of this many bytes.
pub(super) const ZERO_BYTES: usize = 256 * 1024;

/// A place in the log: a segment, an offset in it, and the link of the frame that ends there (the nonce at its start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the segment's file.
    pub segment: u64,
    /// The segment's nonce.
    pub nonce: u64,
    /// Logical offset.
    pub offset: u64,
    /// Link of everything before `offset`.
    pub link: u64,
}

/// What page 0 of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub number: u64,
    pub nonce: u64,
    /// Logical offset of the first frame, a multiple of the page.
    pub first: u64,
    /// Where it was written.
    pub machine: Machine,
    /// Length of the file.
    pub length: u64,
}

impl SegmentHeader {
    pub(super) fn encode(&self, uid: Uid) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..HEADER_BYTES].copy_from_slice(&Header::new(FileKind::Segment, uid).encode());
        page[64..72].copy_from_slice(&self.number.to_le_bytes());
        page[72..80].copy_from_slice(&self.nonce.to_le_bytes());
        page[80..88].copy_from_slice(&self.first.to_le_bytes());
        page[88..104].copy_from_slice(&self.machine.boot_id.unwrap_or_default());
        page[104..112].copy_from_slice(&self.machine.device.to_le_bytes());
        page[112..120].copy_from_slice(&self.length.to_le_bytes());
        let check = hash(&page[..CHECKED_BYTES]);
        page[CHECKED_BYTES..CHECKED_BYTES + 8].copy_from_slice(&check.to_le_bytes());
        page
    }

    pub(super) fn decode(page: &[u8]) -> Result<SegmentHeader> {
        let mut reader = Reader::new(page);
        let checked = reader.bytes(CHECKED_BYTES)?;
        let expected = reader.u64()?;
        Header::decode(checked, FileKind::Segment)?;
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

/// Boot id and device as they stand in a file; zeros: none.
pub(super) fn decode_machine(boot_id: [u8; 16], device: u64) -> Machine {
    Machine { boot_id: (boot_id != [0; 16]).then_some(boot_id), device }
}

/// A segment that frames are written to, or will be, or were in this life of the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub number: u64,
    pub nonce: u64,
    pub first: u64,
    pub file: Arc<dyn File>,
    length: AtomicU64,
    /// Blocks below this logical offset were reserved when it was made; `u64::MAX` if all were. `Order::blocks` counts
    /// what came later.
    pub reserved: u64,
    /// Blocks below this logical offset were written before the segment was used, as far as that saves anything; else the limit.
    pub written: u64,
    /// It held other frames before.
    pub is_used_again: bool,
    /// Set by the turnover that left it: where its last frame ends, and that frame's link.
    pub closed: OnceLock<(u64, u64)>,
    /// Closed, and durable to its end.
    pub synced: AtomicBool,
    /// Sealed in the manifest.
    pub sealed: AtomicBool,
}

impl Segment {
    /// Logical offset behind the last byte that the file can hold.
    pub(super) fn limit(&self) -> u64 {
        self.first + self.length() - PAGE
    }

    /// Where commits are synced the log leaves it here for the next one: where its zeros end. One that is used again is used to its end, so that
    /// the next time all of it was written; from the ring zeros go out ahead until then (`drain`).
    pub(super) fn good_until(&self) -> u64 {
        if self.is_used_again { self.limit() } else { self.written }
    }

    /// Some of it is.
    pub(super) fn is_good(&self) -> bool {
        self.good_until() > self.first
    }

    pub(super) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// Reserves blocks up to a logical offset, and returns how far they go then: a page boundary, or `u64::MAX` where the
    /// file has all.
    pub(super) fn reserve(&self, until: u64) -> Result<u64> {
        let until = until.next_multiple_of(PAGE).min(self.limit());
        let bytes = PAGE + until - self.first;
        self.file.allocate(bytes).during(|| format!("reserve {bytes} bytes for {}", self.name()))?;
        Ok(if until == self.limit() { u64::MAX } else { until })
    }

    /// Writes log bytes that begin at a logical offset.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        debug_assert!(offset >= self.first && offset + bytes.len() as u64 <= self.limit());
        self.file.write_at(bytes, PAGE + offset - self.first)
    }

    /// The place at its start.
    pub(super) fn start(&self) -> Place {
        Place { segment: self.number, nonce: self.nonce, offset: self.first, link: self.nonce }
    }

    pub(super) fn name(&self) -> String {
        Name::Segment(self.number).to_string()
    }
}

/// What making a segment answers.
pub(super) type Made<T> = std::result::Result<T, Refusal>;

/// Why a segment could not be made.
pub(super) enum Refusal {
    /// Nothing that counts was touched; the same call may succeed later.
    Plain(Error),
    /// A sync failed: nothing is known of what was written (I09).
    Sync(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Plain(error)
    }
}

impl Refusal {
    fn of_sync(error: Error) -> Refusal {
        if error.is_out_of_space() { Refusal::Plain(error) } else { Refusal::Sync(error) }
    }

    pub(super) fn into_error(self) -> Error {
        match self {
            Refusal::Plain(error) | Refusal::Sync(error) => error,
        }
    }
}

/// The file of a segment to be. Nothing points to it before it is finished: what a crash leaves of it is swept at the next open.
#[derive(Debug)]
pub(super) struct Making {
    file: Arc<dyn File>,
    pub number: u64,
    pub length: u64,
    /// Its blocks are reserved up to here, its length at most.
    reserved: u64,
    /// It was written up to here.
    pub filled: u64,
    /// It held frames before.
    pub is_used_again: bool,
}

/// Makes segments in one directory; every one it returns is durable, header and directory entry.
#[derive(Debug)]
pub(super) struct Maker {
    pub machine: Machine,
    /// Whether blocks once written stay reserved, so that zeros written now save metadata at each later sync.
    pub reserves: bool,
}

impl Maker {
    /// A new file with blocks for its first `blocks` bytes behind the header alone, written with zeros if `is_filled`. The
    /// log reserves the others as it grows (`Segment::reserve`).
    pub(super) fn sparse(
        &self,
        env: &Env,
        dir: &Path,
        (number, first, length): (u64, u64, u64),
        blocks: u64,
        is_filled: bool,
    ) -> Made<Segment> {
        let reserved = (PAGE + blocks).min(length);
        let making = self.begin_with(env, dir, number, length, reserved)?;
        self.finish(env, dir, making, first, length, if is_filled { reserved } else { 0 })
    }

    /// A new file, its space reserved.
    pub(super) fn begin(&self, env: &Env, dir: &Path, number: u64, length: u64) -> Result<Making> {
        self.begin_with(env, dir, number, length, length)
    }

    fn begin_with(&self, env: &Env, dir: &Path, number: u64, length: u64, reserved: u64) -> Result<Making> {
        let name = Name::Segment(number).to_string();
        let file = env.fs.open(&dir.join(&name), Open::Create).during(|| format!("create {name}"))?;
        let sized = if reserved < length { file.set_len(length) } else { Ok(()) };
        match sized.and_then(|()| file.allocate(reserved)).during(|| format!("reserve {reserved} bytes for {name}")) {
            Ok(()) => Ok(Making { file, number, length, reserved, filled: PAGE, is_used_again: false }),
            Err(error) => {
                remove(env, dir, &name);
                Err(error)
            }
        }
    }

    /// An old file under a new number; what it held means nothing to the new nonce. Its blocks were written as far as they were before it was
    /// used, and as far as it was.
    pub(super) fn reuse(&self, env: &Env, dir: &Path, old: &Segment, number: u64) -> Result<Making> {
        let (from, to) = (old.name(), Name::Segment(number).to_string());
        env.fs.rename(&dir.join(&from), &dir.join(&to)).during(|| format!("rename {from} to {to}"))?;
        let file = env.fs.open(&dir.join(&to), Open::Write).during(|| format!("open {to}"))?;
        let used = old.closed.get().map_or(old.first, |(end, _)| *end);
        let filled = PAGE + used.max(old.written).min(old.limit()) - old.first;
        let (length, reserved) = (old.length(), PAGE + old.reserved.min(old.limit()) - old.first);
        Ok(Making { file, number, length, reserved, filled, is_used_again: true })
    }

    /// Writes the next zeros of a file: a sync of data in blocks that were never written waits for the file system's journal too, which is
    /// as much again. A piece at a time, and each but the last, which `finish` sees to, made durable: every other sync waits for what the disk has
    /// been given. On an error the file is gone. Answers how many bytes.
    pub(super) fn fill_some(&self, env: &Env, dir: &Path, mut making: Making) -> Made<(Making, u64)> {
        let to = making.length.min(making.filled + ZERO_BYTES as u64);
        let name = Name::Segment(making.number).to_string();
        let written = fill(&*making.file, making.filled, to).during(|| format!("write zeros to {name}"));
        let synced = written.map_err(Refusal::Plain).and_then(|()| match to < making.length {
            true => sync(&*making.file, &name),
            false => Ok(()),
        });
        if let Err(refusal) = synced {
            remove(env, dir, &name);
            return Err(refusal);
        }
        let bytes = to - std::mem::replace(&mut making.filled, to);
        Ok((making, bytes))
    }

    /// True if there is something to be filled of a file: where blocks are not reserved, zeros save nothing.
    pub(super) fn has_to_fill(&self, making: &Making) -> bool {
        self.reserves && making.filled < making.length && !making.is_used_again
    }

    /// Makes a segment of a file, at least as long as it was made, with zeros up to `filled` or as far as it has them.
    pub(super) fn finish(
        &self,
        env: &Env,
        dir: &Path,
        making: Making,
        first: u64,
        length: u64,
        filled: u64,
    ) -> Made<Segment> {
        let Making { file, number, filled: before, length: made_length, reserved, is_used_again } = making;
        let stays_sparse = reserved < made_length && !is_used_again;
        let name = Name::Segment(number).to_string();
        let made = (|| {
            if length > reserved && !stays_sparse {
                file.allocate(length).during(|| format!("reserve {length} bytes for {name}"))?;
            }
            let filled = if is_used_again { before } else { filled.max(before) };
            let filled = if self.reserves { filled } else { length };
            if filled > before && self.reserves {
                fill(&*file, before, filled).during(|| format!("write zeros to {name}"))?;
            }
            let nonce = if planted::active(Bug::RecycledFrameReplayed) { 0 } else { env.random.next_u64() };
            let header = SegmentHeader { number, nonce, first, machine: self.machine, length };
            file.write_at(&header.encode(env.random.uid()), 0).during(|| format!("write {name}"))?;
            match first > 0 && planted::active(Bug::SegmentNotNamed) {
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
                closed: OnceLock::new(),
                synced: AtomicBool::new(false),
                sealed: AtomicBool::new(false),
            })
        })();
        if made.is_err() {
            remove(env, dir, &name);
        }
        made
    }

    /// Makes a segment that no frame has entered longer.
    pub(super) fn extend(&self, env: &Env, segment: &Segment, length: u64) -> Made<()> {
        let name = segment.name();
        segment.file.allocate(length).during(|| format!("reserve {length} bytes for {name}"))?;
        let header = SegmentHeader {
            number: segment.number,
            nonce: segment.nonce,
            first: segment.first,
            machine: self.machine,
            length,
        };
        segment.file.write_at(&header.encode(env.random.uid()), 0).during(|| format!("write {name}"))?;
        sync(&*segment.file, &name)?;
        segment.length.store(length, Ordering::Relaxed);
        Ok(())
    }
}

fn sync(file: &dyn File, name: &str) -> Made<()> {
    file.sync_data().during(|| format!("sync {name}")).map_err(Refusal::of_sync)
}

/// The same, and the directory that it is named in.
fn sync_named(env: &Env, dir: &Path, file: &dyn File, name: &str) -> Made<()> {
    sync(file, name)?;
    env.fs.sync_dir(dir).during(|| format!("sync the directory of {name}")).map_err(Refusal::Sync)
}

/// Removes a file that nobody names; it is swept at the next open if this fails too.
fn remove(env: &Env, dir: &Path, name: &str) {
    let _ = env.fs.remove(&dir.join(name));
}

/// Writes zeros from one position of a file to another.
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
            let mut page = header.encode(Uid([3; 16]));
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
