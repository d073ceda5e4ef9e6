//! The tail ring: the newest bytes of the log in a mapped file, and the two marks. docs/format.md, section 5.4.
//!
//! A frame stored here survives the death of the process without a system call. The drain writes the ring's contents to
//! the segment before they are overwritten. If the file system declines a mapping, the file has only page 0, for the
//! marks, and commits write their frames to the segment themselves.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::env::{Env, File, Machine, Mapped, Open};
use crate::error::{Error, IoContext, Result};
use crate::frame::{FRAME_HEADER_BYTES, Mark, PAGE_BYTES};
use crate::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::identity::StoreIdentity;
use crate::names::StoreFileName;
use crate::planted;

use super::segment::{PAGE, decode_machine};

/// Bytes of page 0 that the check covers; the check follows them.
const CHECKED_BYTES: usize = 112;

/// Positions of the two copies of each mark, in two sectors.
const ACKNOWLEDGED_AT: [usize; 2] = [512, 1536];
const SYNCED_AT: [usize; 2] = [520, 1544];

/// A frame up to this length is stored with one copy.
const JOINED_BYTES: usize = 256;

/// Positions of the copies of a mark in page 0.
pub(super) fn mark_positions(mark: Mark) -> [usize; 2] {
    match mark {
        Mark::Synced => SYNCED_AT,
        _ => ACKNOWLEDGED_AT,
    }
}

/// The two marks of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Commits up to this offset were acknowledged.
    pub acknowledged: u64,
    /// The log was durable up to this offset.
    pub synced: u64,
}

/// The contents of a ring's page 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingHeader {
    pub number: u64,
    /// Bytes after page 0; 0 without a mapped ring.
    pub capacity: u64,
    /// The kernel and device that it was created under.
    pub machine: Machine,
    pub nonce: u64,
}

impl RingHeader {
    /// Page 0 with both marks at one offset.
    pub(super) fn encode(&self, uid: Uid, store: &StoreIdentity, marks: u64) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..HEADER_BYTES].copy_from_slice(&FileHeader::new(FileKind::Ring, uid).encode());
        page[64..72].copy_from_slice(&self.number.to_le_bytes());
        page[72..80].copy_from_slice(&self.capacity.to_le_bytes());
        page[80..96].copy_from_slice(&self.machine.boot_id.unwrap_or_default());
        page[96..104].copy_from_slice(&self.machine.device.to_le_bytes());
        page[104..112].copy_from_slice(&self.nonce.to_le_bytes());
        let check = hash(&page[..CHECKED_BYTES]);
        page[CHECKED_BYTES..CHECKED_BYTES + 8].copy_from_slice(&check.to_le_bytes());
        store.put_into(&mut page);
        for mark in [Mark::Acknowledged, Mark::Synced] {
            for at in mark_positions(mark) {
                page[at..at + 8].copy_from_slice(&mark.encode(self.nonce, marks).to_le_bytes());
            }
        }
        page
    }

    pub(super) fn decode(page: &[u8]) -> Result<RingHeader> {
        let mut reader = Reader::new(page);
        let checked = reader.bytes(CHECKED_BYTES)?;
        let expected = reader.u64()?;
        FileHeader::decode(checked, FileKind::Ring)?;
        let found = hash(checked);
        if expected != found {
            return Err(Error::mismatch(expected, found, "header of the tail ring"));
        }
        let mut reader = Reader::starting_at(checked, HEADER_BYTES);
        let (number, capacity) = (reader.u64()?, reader.u64()?);
        let machine = decode_machine(reader.array()?, reader.u64()?);
        let nonce = reader.u64()?;
        if !capacity.is_multiple_of(PAGE) {
            return Err(Error::structural("a ring of this capacity cannot be"));
        }
        Ok(RingHeader { number, capacity, machine, nonce })
    }

    /// Reads the marks in page 0. The error names the position of a mark with no valid copy.
    pub(super) fn marks(&self, page: &[u8], file: &str) -> Result<Marks> {
        let newest = |mark: Mark| {
            let copies = mark_positions(mark).map(|at| {
                let word = Reader::starting_at(page, at).u64().ok()?;
                mark.decode(self.nonce, word)
            });
            copies.into_iter().flatten().max().ok_or_else(|| {
                Error::structural("a mark of which no copy checks").in_file(file, mark_positions(mark)[0] as u64)
            })
        };
        Ok(Marks { acknowledged: newest(Mark::Acknowledged)?, synced: newest(Mark::Synced)? })
    }
}

/// The ring of a log open for writing.
pub(super) struct TailRing {
    pub number: u64,
    pub nonce: u64,
    /// Bytes of the ring; 0 without a mapping.
    pub capacity: u64,
    file: Arc<dyn File>,
    mapped: Option<Arc<dyn Mapped>>,
    /// The greatest acknowledged mark stored.
    acknowledged: AtomicU64,
    /// The last synced mark stored: the witness.
    synced: AtomicU64,
}

impl fmt::Debug for TailRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("number", &self.number).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl TailRing {
    /// Creates a ring whose header and both marks (at `start`) are durable; the caller syncs its directory entry. With
    /// `capacity` 0, or if the file system declines the mapping, the ring holds only the marks.
    pub(super) fn create(
        env: &Env,
        (dir, store): (&Path, &StoreIdentity),
        machine: Machine,
        number: u64,
        start: u64,
        capacity: u64,
    ) -> Result<TailRing> {
        let name = StoreFileName::Ring(number).to_string();
        let file = env.fs.open(&dir.join(&name), Open::Create).during(|| format!("create {name}"))?;
        let nonce = env.random.next_u64();
        let uid = env.random.uid();
        let write = |capacity: u64| {
            let header = RingHeader { number, capacity, machine, nonce };
            file.write_at(&header.encode(uid, store, start), 0).during(|| format!("write {name}"))?;
            planted!(RingNotSynced, Ok(()), file.sync_data().during(|| format!("sync {name}")))
        };
        let mut mapped = None;
        if capacity > 0 {
            file.set_len(PAGE + capacity).during(|| format!("extend {name} to {capacity} bytes"))?;
            write(capacity)?;
            mapped = file.map((PAGE + capacity) as usize).unwrap_or(None);
        }
        if mapped.is_none() {
            file.set_len(PAGE).during(|| format!("shorten {name}"))?;
            write(0)?;
        }
        let capacity = if mapped.is_some() { capacity } else { 0 };
        let (acknowledged, synced) = (AtomicU64::new(start), AtomicU64::new(start));
        Ok(TailRing { number, nonce, capacity, file, mapped, acknowledged, synced })
    }

    /// Prepares a range of the ring for frames: reserves its blocks, writes zeros, and loads its pages into memory. The
    /// range is not synced: the page cache outlives the process, and after a crash of the machine recovery does not
    /// read it. The range must hold no frame.
    pub(super) fn prepare(&self, at: u64, length: u64) -> Result<()> {
        let Some(mapped) = &self.mapped else { return Ok(()) };
        let prepared = mapped.prepare((PAGE + at) as usize, length as usize);
        prepared.during(|| format!("reserve {length} bytes of {}", StoreFileName::Ring(self.number)))
    }

    /// Stores the acknowledged mark, unless it is at `end` or above already. One thread at a time.
    #[inline]
    pub(super) fn acknowledge(&self, end: u64) -> Result<()> {
        if end > self.acknowledged.load(Ordering::Relaxed) {
            self.mark(Mark::Acknowledged, end)?;
            self.acknowledged.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Stores the witness: the log is durable up to `end`.
    pub(super) fn store_witness(&self, end: u64) -> Result<()> {
        self.mark(Mark::Synced, end)?;
        self.synced.store(end, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the witness in the encoding of padding frames. An older witness is also valid, so no lock is needed.
    pub(super) fn witness_word(&self) -> u64 {
        Mark::Synced.encode(0, self.synced.load(Ordering::Relaxed))
    }

    /// Stores both copies of a mark. It can fail only without a mapping.
    #[inline]
    fn mark(&self, mark: Mark, offset: u64) -> Result<()> {
        let word = mark.encode(self.nonce, offset);
        match &self.mapped {
            Some(mapped) => {
                mapped.store_twice(mark_positions(mark), word);
                Ok(())
            }
            None => self.write_mark(mark, word),
        }
    }

    #[inline(never)]
    fn write_mark(&self, mark: Mark, word: u64) -> Result<()> {
        mark_positions(mark).into_iter().try_for_each(|at| {
            let written = self.file.write_at(&word.to_le_bytes(), at as u64);
            written.during(|| format!("write a mark to {}", StoreFileName::Ring(self.number)))
        })
    }

    /// Copies a frame to its offset: header, body, and zeros up to a multiple of the word size. The caller has
    /// exclusive use of the range.
    #[inline]
    pub(super) fn store_frame(&self, offset: u64, header: &[u8; FRAME_HEADER_BYTES], body: &[u8]) {
        let length = FRAME_HEADER_BYTES + body.len();
        if length <= JOINED_BYTES
            && let Some(mapped) = &self.mapped
            && let at = offset % self.capacity
            && at + length.next_multiple_of(8) as u64 <= self.capacity
        {
            return mapped.store_framed((PAGE + at) as usize, header, body);
        }
        self.store_parts(offset, header, body);
    }

    /// Stores a long frame, or one that wraps around the ring's end.
    #[inline(never)]
    fn store_parts(&self, offset: u64, header: &[u8; FRAME_HEADER_BYTES], body: &[u8]) {
        let length = FRAME_HEADER_BYTES + body.len();
        if length <= JOINED_BYTES {
            let mut joined = [0; JOINED_BYTES];
            joined[..FRAME_HEADER_BYTES].copy_from_slice(header);
            joined[FRAME_HEADER_BYTES..length].copy_from_slice(body);
            return self.store(offset, &joined[..length.next_multiple_of(8)]);
        }
        self.store(offset, header);
        let whole = body.len() & !7;
        self.store(offset + FRAME_HEADER_BYTES as u64, &body[..whole]);
        if whole < body.len() {
            let mut word = [0; 8];
            word[..body.len() - whole].copy_from_slice(&body[whole..]);
            self.store(offset + (FRAME_HEADER_BYTES + whole) as u64, &word);
        }
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let Some(mapped) = &self.mapped else { return };
        let at = offset % self.capacity;
        let head = bytes.len().min((self.capacity - at) as usize);
        if head > 0 {
            mapped.store((PAGE + at) as usize, &bytes[..head]);
        }
        if head < bytes.len() {
            mapped.store(PAGE_BYTES, &bytes[head..]);
        }
    }

    /// Overwrites part of the ring with zeros: `length` bytes from a position, both multiples of the word size. The
    /// part must have blocks and hold no frame that is still needed.
    pub(super) fn erase(&self, at: u64, length: u64) {
        let Some(mapped) = &self.mapped else { return };
        let (zeros, mut from) = ([0; PAGE_BYTES], at);
        while from < at + length {
            let piece = (at + length - from).min(PAGE);
            mapped.store((PAGE + from) as usize, &zeros[..piece as usize]);
            from += piece;
        }
    }

    /// Makes what was stored durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().during(|| format!("sync {}", StoreFileName::Ring(self.number)))
    }

    /// Copies log bytes out of the ring. They must be whole and not yet drained.
    pub(super) fn load(&self, offset: u64, out: &mut [u8]) {
        let Some(mapped) = &self.mapped else { return };
        let at = offset % self.capacity;
        let head = out.len().min((self.capacity - at) as usize);
        let (front, back) = out.split_at_mut(head);
        mapped.load((PAGE + at) as usize, front);
        if !back.is_empty() {
            mapped.load(PAGE_BYTES, back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_page_comes_back_and_no_flipped_bit_passes(number: u64, capacity in 0u64..1000, nonce: u64, device: u64, start in 0u64..1 << 40, bit in 0usize..PAGE_BYTES * 8) {
            let header = RingHeader { number, capacity: capacity * PAGE, machine: Machine { boot_id: None, device }, nonce };
            let mut page = header.encode(Uid([3; 16]), &StoreIdentity::default(), start * 8);
            let marks = Marks { acknowledged: start * 8, synced: start * 8 };
            page[bit / 8] ^= 1 << (bit % 8);
            match RingHeader::decode(&page) {
                Ok(read) => {
                    prop_assert_eq!(read, header);
                    prop_assert_eq!(read.marks(&page, "ring").unwrap(), marks);
                }
                Err(_) => prop_assert!(bit < 120 * 8),
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            if let Ok(header) = RingHeader::decode(&bytes) {
                let _ = header.marks(&bytes, "ring");
            }
        }
    }
}
