#![expect(unsafe_code, reason = "fence 3: bytes of records, written once and lent for as long as the arena lives")]
//! The bytes of a memtable's records: append-only, never moved or changed, freed all at once.
//!
//! ```text
//! record   seqno and kind 8, length of value 4, of companions 4, of key 2; key, value, companions; padding
//! place    the offset of a record, in words of 8 bytes: 32 bits address 32 GiB
//! chunk    a run of records; a record too long for a chunk has a chunk of its own, and the places that it covers
//! ```
//!
//! In:     records, from the arena's only `Appender`, which cannot be cloned and whose calls need exclusive access.
//! Out:    records by their place, for any number of concurrent readers, without a lock. A place that was never issued,
//!         or is corrupted, returns nothing or bytes of existing records: never anything else.
//! Contract: bytes of a chunk below its `written` are initialized and are not written again while the arena lives; only
//!           the appender touches bytes above it. `written` is stored with Release after the bytes, and read with
//!           Acquire before them.
//! Proof:  the tests of this directory, under Miri too (`scripts/miri.sh`).

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::growing::Growing;
use crate::env::Pages;
use crate::prefetch::{LINE, prefetch};
use crate::record::{Kind, Record, Seqno, companion};

/// Length of the header before a record's key.
const HEADER_BYTES: usize = 18;
/// Bytes of a word, the unit of places.
const WORD_BYTES: usize = 8;
/// Cache lines of a record to prefetch.
const LINES: usize = 3;
/// Limits of a chunk's length, as powers of two.
const CHUNK_LOG2: std::ops::RangeInclusive<u32> = 10..=20;

/// The appended records.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Growing<Chunk>,
    /// Binary logarithm of a chunk's length in bytes.
    log2: u32,
    /// Number of chunks whose places are issued.
    numbers: AtomicUsize,
}

/// The appender of an arena; each arena has one.
#[derive(Debug)]
pub(super) struct Appender {
    arena: Arc<Arena>,
    /// The chunk being filled, and its length so far; `None` before the first record.
    open: Option<(usize, usize)>,
    /// The number of the next chunk.
    next: usize,
}

#[derive(Debug)]
struct Chunk {
    pages: Pages,
    written: AtomicUsize,
}

impl Chunk {
    fn new(bytes: usize) -> Option<Chunk> {
        Some(Chunk { pages: Pages::new(bytes)?, written: AtomicUsize::new(0) })
    }

    /// Returns the written bytes from `from` on; empty beyond their end.
    #[inline]
    fn written(&self, from: usize) -> &[u8] {
        let written = self.written.load(Ordering::Acquire);
        if from >= written {
            return &[];
        }
        // SAFETY: `from < written <= pages.bytes()`, these bytes are initialized, and they are not written again while
        // `self` lives.
        unsafe { slice::from_raw_parts(self.pages.base().as_ptr().add(from), written - from) }
    }
}

impl Arena {
    /// Creates an empty arena for about `budget` bytes, and its appender.
    pub(super) fn new(budget: usize) -> (Arc<Arena>, Appender) {
        let log2 = (budget / 64).max(1).ilog2().clamp(*CHUNK_LOG2.start(), *CHUNK_LOG2.end());
        let arena = Arc::new(Arena { chunks: Growing::new(), log2, numbers: AtomicUsize::new(0) });
        (arena.clone(), Appender { arena, open: None, next: 0 })
    }

    /// Returns the size of the address range of all issued places, in bytes. A long record takes the places of whole
    /// chunks, up to four times its own length.
    pub(super) fn reach(&self) -> u64 {
        (self.numbers.load(Ordering::Relaxed) as u64) << self.log2
    }

    /// Returns the written bytes from a place on.
    #[inline]
    fn from(&self, place: u32) -> &[u8] {
        let (word, log2) = (place as usize, self.log2 - WORD_BYTES.ilog2());
        let from = (word & ((1 << log2) - 1)) * WORD_BYTES;
        self.chunks.get(word >> log2).map_or(&[], |chunk| chunk.written(from))
    }

    /// Prefetches the first cache lines of the record at a place.
    #[inline]
    pub(super) fn ask_for(&self, place: u32) {
        self.from(place).chunks(LINE).take(LINES).for_each(prefetch);
    }

    /// Returns key and seqno of the record at a place.
    #[inline]
    pub(super) fn placed(&self, place: u32) -> Option<(&[u8], Seqno)> {
        let (header, rest) = self.from(place).split_first_chunk::<HEADER_BYTES>()?;
        let header = RecordHeader::decode(header);
        // A corrupted length may reach beyond the written bytes.
        Some((rest.get(..header.key).unwrap_or(rest), header.word >> 8))
    }

    /// Returns the record at a place. If its kind or a length is corrupted, so that the record cannot be shown, returns
    /// a lost range for that place alone (`LostRange::shown`): a record exists here, so reads must not fall back to
    /// older versions.
    #[inline]
    pub(super) fn record(&self, place: u32) -> Option<Record<'_>> {
        self.whole(place).or_else(|| self.fence(place))
    }

    #[inline]
    fn whole(&self, place: u32) -> Option<Record<'_>> {
        let (header, rest) = self.from(place).split_first_chunk::<HEADER_BYTES>()?;
        let header = RecordHeader::decode(header);
        let (key, rest) = rest.split_at_checked(header.key)?;
        let (value, rest) = rest.split_at_checked(header.value)?;
        let (beside, behind) = rest.split_at_checked(header.companion)?;
        // A corrupted length may leave out some companions while the others stay whole. In a sound record the next byte
        // does not exist, is a zero, or is the kind of the next record.
        let leaves_some = behind.first().is_some_and(|byte| companion::begins(*byte));
        if beside.len() > companion::MAX_BYTES || leaves_some {
            return None;
        }
        Some(Record {
            key,
            seqno: header.word >> 8,
            kind: Kind::from_byte(header.word as u8)?,
            value,
            companion: beside,
        })
    }

    #[cold]
    fn fence(&self, place: u32) -> Option<Record<'_>> {
        let (key, seqno) = self.placed(place)?;
        Some(Record { key, seqno, kind: Kind::Fence, value: &[], companion: &[] })
    }
}

impl Appender {
    /// Appends a record; `strike` may change its kind and its lengths of value and companions in memory. Returns its
    /// place and its size in bytes, or `None` if the arena is full.
    #[inline]
    pub(super) fn append(
        &mut self,
        record: &Record<'_>,
        strike: impl FnOnce(&mut u8, &mut [u8]),
    ) -> Option<(u32, usize)> {
        let mut header = RecordHeader::of(record)?.encode();
        let (word, lengths) = header.split_at_mut(8);
        strike(&mut word[0], &mut lengths[..8]);
        let parts = [&header, record.key, record.value, record.companion];
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>().next_multiple_of(WORD_BYTES);
        let (number, from) = self.room(bytes)?;
        let place = (number << self.arena.log2 | from) / WORD_BYTES;
        let place = u32::try_from(place).ok()?;
        let chunk = self.arena.chunks.get(number)?;
        debug_assert_eq!(chunk.written.load(Ordering::Relaxed).next_multiple_of(WORD_BYTES), from);
        assert!(from + bytes <= chunk.pages.bytes(), "room was found");
        // Clear the part of the last word that the record does not fill: a reader with an invalid place may read it.
        // SAFETY: as below, of the last word of the room, which is not empty; room begins and ends at whole words.
        unsafe { chunk.pages.base().as_ptr().add(from + bytes - WORD_BYTES).cast::<u64>().write(0) };
        let mut to = from;
        for part in parts {
            // SAFETY: `to + part.len() <= from + bytes <= pages.bytes()`. No other thread touches bytes above
            // `written`, which is at most `from`: this appender is the arena's only one and is borrowed exclusively.
            // The part does not overlap the chunk's memory above `written`.
            unsafe { part.as_ptr().copy_to_nonoverlapping(chunk.pages.base().as_ptr().add(to), part.len()) };
            to += part.len();
        }
        chunk.written.store(to, Ordering::Release);
        Some((place, bytes))
    }

    /// Returns a chunk with room for `bytes` bytes, and the position of that room.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> Option<(usize, usize)> {
        match self.open {
            Some((number, from)) if from + bytes <= 1 << self.arena.log2 => {
                self.open = Some((number, from + bytes));
                Some((number, from))
            }
            _ => self.add_chunk(bytes),
        }
    }

    /// Adds a chunk with `bytes` bytes taken.
    #[cold]
    fn add_chunk(&mut self, bytes: usize) -> Option<(usize, usize)> {
        let chunk_bytes = 1 << self.arena.log2;
        // A long record gets a chunk of its own; the open chunk continues to be filled.
        let is_long = bytes > chunk_bytes / 4;
        let number = self.next;
        let next = number + if is_long { bytes.div_ceil(chunk_bytes) } else { 1 };
        if next << self.arena.log2 > (u32::MAX as usize).saturating_mul(WORD_BYTES) {
            return None;
        }
        let chunk = Chunk::new(if is_long { bytes } else { chunk_bytes })?;
        if !self.arena.chunks.set(number, chunk) {
            return None;
        }
        self.next = next;
        self.arena.numbers.store(next, Ordering::Relaxed);
        if !is_long {
            self.open = Some((number, bytes));
        }
        Some((number, 0))
    }
}

/// The header before a record's bytes.
#[derive(Clone, Copy)]
struct RecordHeader {
    /// Seqno and kind.
    word: u64,
    key: usize,
    value: usize,
    companion: usize,
}

impl RecordHeader {
    fn of(record: &Record<'_>) -> Option<RecordHeader> {
        let fits = u16::try_from(record.key.len()).is_ok()
            && u32::try_from(record.value.len()).is_ok()
            && u32::try_from(record.companion.len()).is_ok();
        fits.then_some(RecordHeader {
            word: record.seqno << 8 | record.kind as u64,
            key: record.key.len(),
            value: record.value.len(),
            companion: record.companion.len(),
        })
    }

    #[inline]
    fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.word.to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.value as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.companion as u32).to_le_bytes());
        bytes[16..].copy_from_slice(&(self.key as u16).to_le_bytes());
        bytes
    }

    #[inline]
    fn decode(bytes: &[u8; HEADER_BYTES]) -> RecordHeader {
        let [a, b, c, d, e, f, g, h, v0, v1, v2, v3, c0, c1, c2, c3, k0, k1] = *bytes;
        RecordHeader {
            word: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            value: u32::from_le_bytes([v0, v1, v2, v3]) as usize,
            companion: u32::from_le_bytes([c0, c1, c2, c3]) as usize,
            key: usize::from(u16::from_le_bytes([k0, k1])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(appender: &mut Appender, record: &Record<'_>) -> Option<(u32, usize)> {
        appender.append(record, |_, _| ())
    }

    fn record<'a>(key: &'a [u8], seqno: Seqno, value: &'a [u8]) -> Record<'a> {
        Record { key, seqno, kind: Kind::Put, value, companion: b"seal" }
    }

    #[test]
    fn records_come_back_from_their_places_and_nothing_from_others() {
        let (arena, mut appender) = Arena::new(4096);
        assert!(arena.record(0).is_none());
        let mut places = Vec::new();
        let values: Vec<Vec<u8>> =
            (0..400usize).map(|n| vec![n as u8; if n % 50 == 7 { 5000 + n } else { n % 60 }]).collect();
        for (n, value) in values.iter().enumerate() {
            let key = n.to_le_bytes();
            places.push(append(&mut appender, &record(&key, n as u64, value)).unwrap().0);
        }
        for ((n, value), place) in values.iter().enumerate().zip(&places) {
            assert_eq!(arena.record(*place), Some(record(&n.to_le_bytes(), n as u64, value)));
            assert_eq!(arena.placed(*place), Some((&n.to_le_bytes()[..], n as u64)));
        }
        let last = places.iter().max().unwrap() + 1000;
        // A place that belongs to no record returns nothing, or bytes inside the arena.
        for place in (0..last).chain(u32::MAX - 1000..=u32::MAX) {
            let _ = (arena.record(place), arena.placed(place));
        }
        assert!(arena.record(last + 10_000).is_none());
    }

    #[test]
    fn a_record_whose_header_was_hit_is_a_fence_in_its_place() {
        let (arena, mut appender) = Arena::new(4096);
        let (place, bytes) = append(&mut appender, &record(b"key", 7, b"value")).unwrap();
        for bit in 0..8 * HEADER_BYTES {
            let chunk = arena.chunks.get(0).unwrap();
            // SAFETY: this test has the only handle to the arena, and no reference into it is alive.
            let turn = || unsafe { *chunk.pages.base().as_ptr().add(bit / 8) ^= 1 << (bit % 8) };
            turn();
            let (found, placed) = (arena.record(place).unwrap(), arena.placed(place).unwrap());
            assert_eq!((found.key, found.seqno), placed, "bit {bit}");
            assert!(found.key.len() + found.value.len() + found.companion.len() <= bytes, "bit {bit}");
            match bit {
                0..8 => assert_eq!((found.kind, found.value), (Kind::Fence, &[][..]), "one bit makes no other kind"),
                8..64 => assert_ne!(found.seqno, 7),
                64.. => assert_ne!(found, record(b"key", 7, b"value")),
            }
            turn();
        }
        assert_eq!(arena.record(place), Some(record(b"key", 7, b"value")));
    }

    #[test]
    fn a_length_that_leaves_out_some_of_what_stands_beside_a_record_is_noticed() {
        // Nine bytes of a seal, then sixteen of another companion: one bit flip turns the length 25 into 9.
        let seal = [&[companion::WORD8][..], &[7; 8]].concat();
        for other in companion::SKIPPABLE {
            let beside = [&seal[..], &[other, 14], &[9; 14]].concat();
            let (arena, mut appender) = Arena::new(4096);
            let whole = Record { companion: &beside, ..record(b"key", 7, b"value") };
            let (place, _) = append(&mut appender, &whole).unwrap();
            append(&mut appender, &whole).unwrap();
            assert_eq!(arena.record(place), Some(whole));
            let chunk = arena.chunks.get(0).unwrap();
            // SAFETY: this test has the only handle to the arena, and no reference into it is alive.
            unsafe { *chunk.pages.base().as_ptr().add(12) ^= 25 ^ 9 };
            let found = arena.record(place).unwrap();
            assert_eq!((found.kind, found.seqno, found.key), (Kind::Fence, 7, &b"key"[..]));
        }
    }

    #[test]
    fn long_records_reach_over_more_places_than_they_fill() {
        let (arena, mut appender) = Arena::new(4096);
        assert_eq!(arena.reach(), 0);
        let long = vec![7; (1 << arena.log2) / 4];
        let bytes: usize = (0..100).map(|n| append(&mut appender, &record(b"key", n, &long)).unwrap().1).sum();
        assert_eq!(arena.reach(), 100 << arena.log2);
        assert!(bytes as u64 * 3 < arena.reach());
    }

    #[test]
    fn a_long_record_leaves_the_open_chunk_to_short_ones() {
        let (arena, mut appender) = Arena::new(64 << 10);
        let long = vec![7; 10_000];
        let (a, _) = append(&mut appender, &record(b"a", 1, b"short")).unwrap();
        let (b, bytes) = append(&mut appender, &record(b"b", 2, &long)).unwrap();
        let (c, _) = append(&mut appender, &record(b"c", 3, b"short")).unwrap();
        assert!(bytes < 10_100);
        assert_eq!(c, a + 4, "behind the first one, in the same chunk");
        assert_eq!(arena.record(b).unwrap().value, long);
        assert_eq!(arena.record(c).unwrap().key, b"c");
    }

    #[test]
    fn readers_beside_the_appender_see_whole_records() {
        let (arena, mut appender) = Arena::new(1 << 16);
        let count = if cfg!(miri) { 60 } else { 20_000 };
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..count {
                    let place = append(&mut appender, &record(&[n as u8; 9], n, &[n as u8; 40])).unwrap().0;
                    send.send((n, place)).unwrap();
                }
            });
            scope.spawn(move || {
                for (n, place) in receive {
                    assert_eq!(arena.record(place), Some(record(&[n as u8; 9], n, &[n as u8; 40])));
                }
            });
        });
    }
}
