//! A data block in memory: the stored body and a search structure over it.
//!
//! In:  the CRC-protected bytes of a block. Loading scans them once and rejects any deviation from the format.
//! Out: any entry in O(1), and a search that touches one cache line of the block, a few lines of heads and the entry
//!      itself.
//!
//! A head is eight bytes of a key, taken after the prefix common to all keys of the block. Heads decide nearly every
//! comparison; among equal heads, keys are compared in full. Orders other than bytewise have no heads.
//!
//! Memory may be corrupted after a block was loaded. The code here therefore trusts the block's bytes only as far as
//! every access is bounds-checked.

use std::cmp::Ordering;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::codec::Dictionary;
use super::entry::{BlockEntry, BlockTrailer};
use super::frame::{BlockHandle, COMPANION_BYTES, StoredBlock, WORD_BYTES, companion_of};
use super::head_scan::HeadScan;
use super::scan::{KeyBuffer, scan_entries, shares_too_much};
use crate::codec::Reader;
use crate::error::Result;
use crate::order::{Order, begins_with, head};
use crate::planted;
use crate::prefetch::{LINE, prefetch};
use crate::record::{Kind, MAX_SEQNO, Record, Seqno, companion};

/// Entries whose heads and offsets are stored inline in `Block`: the entries of a 4 KiB block with records of 100
/// bytes. Inline, their cache lines load in parallel with the block's own; a pointer would have to be loaded first.
const NEAR_ENTRIES: usize = 44;

/// Bytes to prefetch at the start of a walk. After that the hardware prefetcher follows.
const AHEAD: usize = 8 * LINE;

/// One block, ready for searching. Its 512 bytes hold everything needed to find an entry.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::sst) struct Block {
    /// The body, followed by the column's companions (kind and word each) if there is a column.
    bytes: Vec<u8>,
    /// For blocks with too many entries or bytes to be near: one head per entry (if there are heads), then the offsets
    /// of the entries and of their end, two per word.
    far: Box<[u64]>,
    base: Seqno,
    count: u32,
    /// Offset of the column's companions; 0 if companions are inline.
    column_at: u32,
    /// Length of the prefix common to all keys; 0 without heads.
    skip: u16,
    interval: u8,
    /// Offset of the first entry's key.
    first_key_at: u8,
    has_heads: bool,
    is_near: bool,
    /// Some key has more than one version in this block.
    pub(in crate::sst) has_versions: bool,
    /// Read since the cache last checked.
    hot: AtomicBool,
    near_heads: [u64; NEAR_ENTRIES],
    near_offsets: [u16; NEAR_ENTRIES + 1],
}

const _: () = assert!(size_of::<Block>() == 512, "eight lines");

/// A restart point: its entry holds a whole key, and the entries up to the next restart share a prefix of that key.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::sst) struct RestartPoint {
    /// Its entry number, and that of the next restart.
    first: usize,
    next: usize,
    /// Offset of its key in the block's bytes.
    pub(in crate::sst) key_at: usize,
    key_end: usize,
}

impl RestartPoint {
    /// Returns true if the entry belongs to this restart.
    #[inline]
    pub(in crate::sst) fn spans(&self, at: usize) -> bool {
        self.first <= at && at < self.next
    }

    /// Returns true if its key is at least this long.
    #[inline]
    pub(in crate::sst) fn has(&self, bytes: usize) -> bool {
        bytes <= self.key_end - self.key_at
    }

    /// Returns the first `bytes` bytes of its key.
    #[inline]
    pub(in crate::sst) fn start<'a>(&self, block: &'a Block, bytes: usize) -> Result<&'a [u8]> {
        block.bytes.get(self.key_at..self.key_end).and_then(|key| key.get(..bytes)).ok_or_else(shares_too_much)
    }
}

/// The position of a key according to the block's heads.
#[derive(Clone, Copy, Debug)]
pub(in crate::sst) struct HeadPosition {
    /// The first entry whose head is not less than the key's; `len` if there is none.
    pub(in crate::sst) at: usize,
    /// This entry's head equals the key's.
    is_equal: bool,
    /// The next entry's head does not equal the key's.
    is_alone: bool,
}

/// The result of a search: a position, and its entry if that has the searched key.
#[derive(Clone, Copy, Debug)]
pub(in crate::sst) struct SearchResult {
    pub(in crate::sst) at: usize,
    pub(in crate::sst) equal: Option<BlockEntry>,
}

impl Block {
    /// Builds a block from the stored bytes of a checked block (without trailer) and from the base seqno and dictionary
    /// of its table. `room` returns a buffer of at least the given size, with any content. It is called only if the
    /// stored bytes cannot be used in place, and the size covers both the body and the column's companions, so one
    /// buffer is enough. `searched` says whether the block will be searched, so that building heads pays off.
    pub(in crate::sst) fn load(
        (mut buffer, room): (Vec<u8>, impl FnOnce(usize) -> Vec<u8>),
        codec: u8,
        handle: &BlockHandle,
        (base, dictionary): (Seqno, Option<&Dictionary>),
        order: &Order,
        searched: bool,
    ) -> Result<Block> {
        buffer.truncate(handle.stored_len as usize);
        let stored = StoredBlock::split(&buffer, codec)?;
        let column_bytes = stored.column.map_or(0, |column| column.len() / WORD_BYTES * COMPANION_BYTES);
        let stays = !stored.is_packed() && stored.column.is_none();
        let mut scratch = if stays { Vec::new() } else { room(handle.raw_len as usize + column_bytes) };
        let body = stored.body(handle.raw_len, &mut scratch, dictionary)?;
        let has_heads = searched && order.is_bytewise();
        let is_near = |count: u32| count as usize <= NEAR_ENTRIES && body.len() <= u16::MAX as usize;
        let (mut near_heads, mut near_offsets) = ([0; NEAR_ENTRIES], [0; NEAR_ENTRIES + 1]);
        let mut near = |offsets: &mut dyn Iterator<Item = u32>| {
            near_offsets.iter_mut().zip(offsets).for_each(|(to, from)| *to = from as u16);
        };
        let mut far: Vec<u64> = Vec::new();
        let (shape, skip, has_versions);
        if has_heads {
            let scan = HeadScan::over(body, stored.column.map(<[u8]>::len), base)?;
            (shape, skip) = (scan.shape(), scan.skip());
            if is_near(shape.count) {
                let mut heads = near_heads.iter_mut();
                has_versions = scan.heads(skip, |own| heads.next().into_iter().for_each(|head| *head = own))?;
                near(&mut scan.offsets());
            } else {
                far.reserve_exact(shape.count as usize + shape.count as usize / 2 + 1);
                has_versions = scan.heads(skip, |head| far.push(head))?;
                push_pairs(&mut far, scan.offsets());
            }
        } else {
            let (mut offsets, mut keys) = (Vec::new(), KeyBuffer::default());
            shape = scan_entries(body, stored.column, base, order, &mut keys, |at, _| {
                if offsets.is_empty() {
                    offsets.reserve_exact(body.len() / 16 + 2);
                }
                offsets.push(at as u32);
                Ok(())
            })?;
            offsets.push(shape.entries_end);
            (skip, has_versions) = (0, keys.repeats > 0);
            match is_near(shape.count) {
                true => near(&mut offsets.into_iter()),
                false => push_pairs(&mut far, offsets.into_iter()),
            }
        }
        let is_near = is_near(shape.count);
        let first = BlockEntry::read(body, 0)?;
        let body_len = body.len();
        if !stays && !stored.is_packed() {
            scratch.clear();
            scratch.extend_from_slice(stored.packed);
        }
        for word in stored.column.into_iter().flat_map(|column| column.chunks_exact(WORD_BYTES)) {
            scratch.extend_from_slice(&companion_of(word));
        }
        let column_at = if stored.column.is_some() { body_len as u32 } else { 0 };
        buffer.truncate(body_len);
        let bytes = if stays { buffer } else { scratch };
        Ok(Block {
            bytes,
            far: far.into_boxed_slice(),
            base,
            count: shape.count,
            column_at,
            skip: skip as u16,
            interval: shape.interval,
            first_key_at: first.suffix_at as u8,
            has_heads,
            is_near,
            has_versions,
            hot: AtomicBool::new(false),
            near_heads,
            near_offsets,
        })
    }

    /// Returns the block's size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        self.bytes.capacity() + self.far.len() * 8 + 2 * align_of::<Block>() + size_of::<Block>()
    }

    /// Takes the bytes of a block that is no longer read.
    pub(in crate::sst) fn take_bytes(&mut self) -> Vec<u8> {
        self.count = 0;
        self.far = Box::default();
        mem::take(&mut self.bytes)
    }

    /// Prefetches the cache lines that a search reads first.
    #[inline]
    pub(in crate::sst) fn prefetch(&self) {
        prefetch(self);
        self.prefetch_heads();
        prefetch(&self.near_offsets);
    }

    #[inline]
    fn prefetch_heads(&self) {
        self.near_heads.iter().step_by(8).for_each(prefetch);
    }

    /// Marks the block as read. Stores only if the mark is not set yet, to keep the line shared.
    #[inline]
    pub(in crate::sst) fn touch(&self) {
        if !self.hot.load(Relaxed) {
            self.hot.store(true, Relaxed);
        }
    }

    /// Clears the mark, and returns whether it was set.
    pub(in crate::sst) fn cool(&self) -> bool {
        self.hot.swap(false, Relaxed)
    }

    /// Number of entries, at least one.
    #[inline]
    pub(in crate::sst) fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the entry at a position below `len`.
    #[inline]
    pub(in crate::sst) fn entry(&self, at: usize) -> Result<BlockEntry> {
        BlockEntry::read(&self.bytes, self.offset(at))
    }

    /// Returns the part of the entry's key that is not shared with the restart.
    #[inline]
    pub(in crate::sst) fn suffix(&self, entry: &BlockEntry) -> &[u8] {
        &self.bytes[entry.suffix_at..entry.value_at]
    }

    /// Returns the restart that the entry at a position belongs to.
    pub(in crate::sst) fn restart_of(&self, at: usize) -> Result<RestartPoint> {
        let interval = self.interval as usize;
        let first = at - at % interval;
        let entry = self.entry(first)?;
        Ok(RestartPoint { first, next: first + interval, key_at: entry.suffix_at, key_end: entry.value_at })
    }

    /// Returns the prefix that the entry's key shares with its restart.
    #[inline]
    pub(in crate::sst) fn shared_key(&self, at: usize, entry: &BlockEntry) -> Result<&[u8]> {
        self.restart_of(at)?.start(self, entry.shared)
    }

    /// The value of an entry.
    #[inline]
    pub(in crate::sst) fn value(&self, entry: &BlockEntry) -> &[u8] {
        &self.bytes[entry.value_at..entry.value_end]
    }

    /// Returns true if the record's companion is empty or a single word; `end` is the offset of the next entry.
    #[inline]
    pub(in crate::sst) fn is_bare(&self, entry: &BlockEntry, end: usize) -> bool {
        self.column_at != 0
            || match end.wrapping_sub(entry.value_end) {
                0 => true,
                companion::WORD8_BYTES => self.bytes.get(entry.value_end) == Some(&companion::WORD8),
                _ => false,
            }
    }

    /// Returns the record at a position, with the key that the caller has already assembled.
    #[inline]
    pub(in crate::sst) fn record<'a>(&'a self, at: usize, entry: &BlockEntry, key: &'a [u8]) -> Record<'a> {
        let value = self.value(entry);
        let companion = match self.column_at {
            // A damaged entry may extend past the next one. Then pass its key and value as the companion, which fails
            // every check.
            0 => match self.bytes.get(entry.value_end..self.offset(at + 1)) {
                Some(companion) => companion,
                None => &self.bytes[entry.suffix_at..entry.value_end],
            },
            column => &self.bytes[column as usize + at * COMPANION_BYTES..][..COMPANION_BYTES],
        };
        Record { key, seqno: entry.seqno(self.base), kind: entry.kind, value, companion }
    }

    /// As `record`, for a caller that knows the offset `end` of the next entry.
    #[inline(always)]
    pub(in crate::sst) fn record_to<'a>(
        &'a self,
        at: usize,
        entry: &BlockEntry,
        end: usize,
        key: &'a [u8],
    ) -> Record<'a> {
        match self.bytes.get(entry.value_end..end) {
            Some(companion) if self.column_at == 0 => {
                let (seqno, kind, value) = (entry.seqno(self.base), entry.kind, self.value(entry));
                Record { key, seqno, kind, value, companion }
            }
            _ => self.record(at, entry, key),
        }
    }

    /// The entry's seqno.
    #[inline]
    pub(in crate::sst) fn seqno(&self, entry: &BlockEntry) -> Seqno {
        entry.seqno(self.base)
    }

    /// Appends the key at a position to `out`.
    pub(in crate::sst) fn key_into(&self, at: usize, out: &mut Vec<u8>) -> Result<()> {
        let entry = self.entry(at)?;
        if entry.shared > 0 {
            out.extend_from_slice(self.shared_key(at, &entry)?);
        }
        out.extend_from_slice(self.suffix(&entry));
        Ok(())
    }

    /// Visits every record in order; `key` is a buffer for their keys.
    pub(in crate::sst) fn each(
        &self,
        key: &mut Vec<u8>,
        mut visit: impl FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<()> {
        for at in 0..self.len() {
            let entry = self.entry(at)?;
            key.clear();
            self.key_into(at, key)?;
            visit(&self.record(at, &entry, key))?;
        }
        Ok(())
    }

    /// Returns the key and seqno of the last entry.
    pub(in crate::sst) fn last(&self) -> Result<(Vec<u8>, Seqno)> {
        let at = self.len() - 1;
        let mut key = Vec::new();
        self.key_into(at, &mut key)?;
        Ok((key, self.seqno(&self.entry(at)?)))
    }

    /// Returns true if, according to the heads, a key is greater than the block's first key and less than its last.
    #[inline]
    pub(in crate::sst) fn surrounds(&self, key: &[u8]) -> bool {
        match self.heads_beside(key) {
            Some(([first, .., last], Ok(wanted))) => *first < wanted && wanted < *last,
            _ => false,
        }
    }

    /// Returns the heads of all entries, and the head of `key`. If `key` lacks the common prefix, returns instead how
    /// it compares with that prefix. `None` without heads.
    #[inline]
    pub(in crate::sst) fn heads_beside(&self, key: &[u8]) -> Option<(&[u64], std::result::Result<u64, Ordering>)> {
        if !self.has_heads {
            return None;
        }
        let skip = self.skip as usize;
        let prefix = &self.bytes[self.first_key_at as usize..][..skip];
        let wanted = if begins_with(key, prefix) { Ok(head(key, skip)) } else { Err(key.cmp(prefix)) };
        Some((self.heads(), wanted))
    }

    /// The heads of all entries, if there are heads.
    #[inline]
    fn heads(&self) -> &[u64] {
        if self.is_near { &self.near_heads[..self.len()] } else { &self.far[..self.len()] }
    }

    /// Returns true if, according to the heads, `key` was at this position when the block was loaded. After memory
    /// corruption the bytes there may form another valid record, moved from elsewhere.
    pub(in crate::sst) fn remembers(&self, at: usize, key: &[u8]) -> bool {
        match self.heads_beside(key) {
            Some((heads, wanted)) => wanted.is_ok_and(|wanted| heads.get(at) == Some(&wanted)),
            None => true,
        }
    }

    /// Returns the range of entries whose head equals that of the entry at a position. `None` without heads.
    pub(in crate::sst) fn alike(&self, at: usize) -> Option<Range<usize>> {
        let heads = self.has_heads.then(|| self.heads())?;
        let of = heads.get(at)?;
        let (before, behind) = (
            heads[..at].iter().rev().take_while(|head| *head == of).count(),
            heads[at..].iter().take_while(|head| *head == of).count(),
        );
        Some(at - before..at + behind)
    }

    /// Returns the position of a key according to the heads: the first entry whose head is not less. `None` without
    /// heads.
    #[inline]
    pub(in crate::sst) fn find_head(&self, key: &[u8]) -> Option<HeadPosition> {
        let (heads, wanted) = self.heads_beside(key)?;
        Some(match wanted {
            Ok(wanted) => {
                let at = first_not_below(heads, wanted);
                let found = |at: usize| heads.get(at) == Some(&wanted);
                HeadPosition { at, is_equal: found(at), is_alone: !found(at + 1) }
            }
            Err(Ordering::Less) => HeadPosition { at: 0, is_equal: false, is_alone: true },
            Err(_) => HeadPosition { at: heads.len(), is_equal: false, is_alone: true },
        })
    }

    /// Prefetches the entry at a position, including the lines with its value and companion, which a matching lookup
    /// reads.
    #[inline]
    pub(in crate::sst) fn prefetch_entry(&self, at: usize) {
        if at < self.len() {
            let offset = self.offset(at);
            self.bytes.get(offset).into_iter().for_each(prefetch);
            self.prefetch_behind(offset);
        }
    }

    /// Prefetches the first bytes of a forward walk from one position to another.
    #[inline]
    pub(in crate::sst) fn prefetch_up(&self, from: usize, to: usize) {
        let from = self.offset(from);
        let end = self.offset(to + 1).min(from + AHEAD);
        self.bytes.get(from..end).unwrap_or_default().iter().step_by(LINE).for_each(prefetch);
    }

    /// Prefetches the last bytes before a position for a backward walk to another.
    #[inline]
    pub(in crate::sst) fn prefetch_down(&self, before: usize, to: usize) {
        let end = self.offset(before);
        let from = self.offset(to).max(end.saturating_sub(AHEAD));
        self.bytes.get(from..end).unwrap_or_default().iter().rev().step_by(LINE).for_each(prefetch);
    }

    /// Prefetches the two lines after the first line of the entry at an offset.
    #[inline]
    fn prefetch_behind(&self, offset: usize) {
        self.bytes.get(offset + LINE).into_iter().for_each(prefetch);
        self.bytes.get(offset + 2 * LINE).into_iter().for_each(prefetch);
    }

    /// Returns the first entry at or after (`key`, `seqno`) in internal order; `len` if there is none.
    #[inline]
    pub(in crate::sst) fn search(&self, key: &[u8], seqno: Seqno, order: &Order) -> Result<SearchResult> {
        self.prefetch_heads();
        match self.find_head(key) {
            Some(aim) => self.search_at(aim, key, seqno, order),
            None => self.search_among(0, self.len(), key, seqno, order),
        }
    }

    /// As `search`, starting from the position that this block's heads returned for the key.
    #[inline(always)]
    pub(in crate::sst) fn search_at(
        &self,
        aim: HeadPosition,
        key: &[u8],
        seqno: Seqno,
        order: &Order,
    ) -> Result<SearchResult> {
        let from = aim.at;
        if !aim.is_equal {
            return Ok(SearchResult { at: from, equal: None });
        }
        let skip = self.skip as usize;
        if !aim.is_alone {
            let (heads, wanted) = (self.heads(), head(key, skip));
            let more = heads[from..].partition_point(|head| *head == wanted);
            return self.search_among(from, from + more, key, seqno, order);
        }
        let offset = self.offset(from);
        // Load the value and the companion while the entry's header is read.
        self.prefetch_behind(offset);
        let entry = BlockEntry::read(&self.bytes, offset)?;
        let shared = entry.shared;
        let compared = match key.get(shared..) {
            // Prefix and heads compared equal, and they cover all shared bytes: the restart's key is not needed.
            Some(rest) if shared <= skip + 8 => self.suffix(&entry).cmp(rest),
            _ => self.compare(from, &entry, key, order)?,
        };
        Ok(match compared {
            Ordering::Less => SearchResult { at: from + 1, equal: None },
            Ordering::Greater => SearchResult { at: from, equal: None },
            Ordering::Equal if self.seqno(&entry) <= seqno => SearchResult { at: from, equal: Some(entry) },
            Ordering::Equal => SearchResult { at: from + 1, equal: None },
        })
    }

    /// Binary search among entries with full comparisons. Entries from `to` on have greater keys.
    fn search_among(&self, from: usize, to: usize, key: &[u8], seqno: Seqno, order: &Order) -> Result<SearchResult> {
        let (mut low, mut high) = (from, to);
        let mut equal = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry(middle)?;
            match self.compare(middle, &entry, key, order)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal if self.seqno(&entry) > seqno => low = middle + 1,
                Ordering::Equal => {
                    equal = Some((middle, entry));
                    high = middle;
                }
                Ordering::Greater => high = middle,
            }
        }
        Ok(SearchResult { at: low, equal: equal.filter(|(at, _)| *at == low).map(|(_, entry)| entry) })
    }

    /// Returns true if the entry at a position appears to be at or after (`key`, `seqno`) in internal order.
    pub(in crate::sst) fn is_not_before(&self, at: usize, (key, seqno): (&[u8], Seqno), order: &Order) -> bool {
        let compared = self.entry(at).and_then(|entry| Ok((self.compare(at, &entry, key, order)?, self.seqno(&entry))));
        compared.is_ok_and(|(compared, own)| compared.then(seqno.cmp(&own)) != Ordering::Less)
    }

    /// Returns true if the last entry has this key, so that older versions may follow in the next block.
    pub(in crate::sst) fn ends_with(&self, key: &[u8], order: &Order) -> Result<bool> {
        let last = self.len() - 1;
        Ok(self.compare(last, &self.entry(last)?, key, order)? == Ordering::Equal)
    }

    /// Compares the key at a position with another key.
    #[inline]
    fn compare(&self, at: usize, entry: &BlockEntry, key: &[u8], order: &Order) -> Result<Ordering> {
        if !order.is_bytewise() {
            return self.compare_whole(at, entry, key, order);
        }
        let suffix = self.suffix(entry);
        if entry.shared == 0 {
            return Ok(suffix.cmp(key));
        }
        let start = self.shared_key(at, entry)?;
        Ok(match key.get(..entry.shared) {
            Some(key_start) => start.cmp(key_start).then_with(|| suffix.cmp(&key[entry.shared..])),
            // The key ends within the shared prefix: if the bytes are equal so far, the shorter key is the smaller one.
            None => start.cmp(key),
        })
    }

    /// `compare` for a custom comparator, which needs the key in contiguous memory.
    fn compare_whole(&self, at: usize, entry: &BlockEntry, key: &[u8], order: &Order) -> Result<Ordering> {
        let suffix = self.suffix(entry);
        if entry.shared == 0 {
            return Ok(order.compare(suffix, key));
        }
        let start = self.shared_key(at, entry)?;
        let mut short = [0; 256];
        let length = start.len() + suffix.len();
        if let Some(whole) = short.get_mut(..length) {
            whole[..start.len()].copy_from_slice(start);
            whole[start.len()..].copy_from_slice(suffix);
            return Ok(order.compare(whole, key));
        }
        Ok(order.compare(&[start, suffix].concat(), key))
    }

    /// Returns all bytes, including the column.
    #[inline]
    pub(in crate::sst) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the body without the column.
    pub(in crate::sst) fn body(&self) -> &[u8] {
        let end = if self.column_at == 0 { self.bytes.len() } else { self.column_at as usize };
        self.bytes.get(..end).unwrap_or_default()
    }

    /// Returns true if companions are in a column.
    pub(in crate::sst) fn has_column(&self) -> bool {
        self.column_at != 0
    }

    /// Returns a copy of the block with bits of one byte flipped, in the body, a head or an offset. For tests of
    /// corruption detection.
    pub(in crate::sst) fn hit(&self, byte: usize, mask: u8) -> Block {
        let mut bytes = self.bytes.clone();
        let (mut near_heads, mut near_offsets) = (self.near_heads, self.near_offsets);
        let heads = bytes.len()..bytes.len() + self.near_heads_bytes();
        match bytes.get_mut(byte) {
            Some(byte) => *byte ^= mask,
            None if heads.contains(&byte) => {
                let at = byte - heads.start;
                near_heads[at / 8] ^= u64::from(mask) << (8 * (at % 8));
            }
            None => {
                let at = (byte - heads.end) % (2 * near_offsets.len());
                near_offsets[at / 2] ^= u16::from(mask) << (8 * (at % 2));
            }
        }
        Block { bytes, far: self.far.clone(), hot: AtomicBool::new(true), near_heads, near_offsets, ..*self }
    }

    /// Number of bytes that `hit` can flip: the block's bytes, near heads and near offsets.
    pub(in crate::sst) fn hits(&self) -> usize {
        let offsets = if self.is_near { (self.len() + 1) * 2 } else { 0 };
        self.bytes.len() + self.near_heads_bytes() + offsets
    }

    fn near_heads_bytes(&self) -> usize {
        if self.is_near && self.has_heads { self.len() * 8 } else { 0 }
    }

    /// Returns the offset of the entry at a position; for `len`, the end of the last entry.
    #[inline]
    pub(in crate::sst) fn offset(&self, at: usize) -> usize {
        if self.is_near {
            return self.near_offsets[at] as usize;
        }
        let heads = if self.has_heads { self.len() } else { 0 };
        let word = self.far[heads + at / 2];
        (word >> (at % 2 * 32)) as u32 as usize
    }
}

impl Block {
    /// Returns the offset of the entry at a position below `len`, and that of the next one.
    #[inline]
    pub(in crate::sst) fn span(&self, at: usize) -> (usize, usize) {
        match self.near_offsets.get(at..at + 2) {
            Some(&[from, to]) if self.is_near => (from as usize, to as usize),
            _ => (self.offset(at), self.offset(at + 1)),
        }
    }

    /// Returns the farthest position from `at` in a direction up to which all keys are before `limit`. `None` if the
    /// key at `at` is not.
    #[inline]
    pub(in crate::sst) fn last_before(&self, at: usize, forward: bool, limit: &[u8], order: &Order) -> Option<usize> {
        match self.heads_beside(limit) {
            // Equal heads would need a comparison of whole keys: leave them out.
            Some((heads, Ok(wanted))) => {
                if forward {
                    let ahead = heads.get(at..)?.iter().take_while(|head| **head < wanted).count();
                    (ahead > 0).then(|| at + ahead - 1)
                } else {
                    let ahead = heads.get(..=at)?.iter().rev().take_while(|head| **head > wanted).count();
                    (ahead > 0).then(|| at + 1 - ahead)
                }
            }
            Some((heads, Err(side))) => {
                let is_ahead = side == if forward { Ordering::Greater } else { Ordering::Less };
                is_ahead.then(|| if forward { heads.len() - 1 } else { 0 })
            }
            None if forward => self.search(limit, MAX_SEQNO, order).ok()?.at.checked_sub(1).filter(|last| *last >= at),
            None => {
                let place = self.search(limit, 0, order).ok()?;
                Some(place.at + usize::from(place.equal.is_some())).filter(|first| *first <= at)
            }
        }
    }

    /// Returns true if the record is a value that a reader at this seqno sees and that has no expiry: its companion is
    /// at most one word. `end` is the offset of the next entry.
    #[inline]
    pub(in crate::sst) fn is_plain(&self, entry: &BlockEntry, end: usize, seqno: Seqno) -> bool {
        entry.kind == Kind::Put
            && planted!(ScanStepIgnoresItsSeqno, true, self.seqno(entry) <= seqno)
            && self.is_bare(entry, end)
    }

    /// Assembles the whole key of an entry in one of two buffers.
    #[inline]
    pub(in crate::sst) fn key_in<'a>(
        &'a self,
        at: usize,
        entry: &BlockEntry,
        short: &'a mut [u8; 256],
        long: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let suffix = self.suffix(entry);
        if entry.shared == 0 {
            return Some(suffix);
        }
        let start = self.shared_key(at, entry).ok()?;
        let length = start.len() + suffix.len();
        match short.get_mut(..length) {
            Some(room) => {
                room[..start.len()].copy_from_slice(start);
                room[start.len()..].copy_from_slice(suffix);
                Some(room)
            }
            None => {
                long.extend_from_slice(start);
                long.extend_from_slice(suffix);
                Some(long)
            }
        }
    }

    /// Returns false if a damaged offset after a record cuts off a part of its companions; each remaining part is valid
    /// by itself.
    #[inline]
    pub(in crate::sst) fn ends_beside(&self, at: usize) -> bool {
        self.ends_at(self.offset(at + 1))
    }

    /// As `ends_beside`, for a known offset.
    #[inline(always)]
    pub(in crate::sst) fn ends_at(&self, end: usize) -> bool {
        // Without a column, nothing follows the body.
        self.has_column() || self.bytes().get(end).is_none_or(|byte| !companion::begins(*byte))
    }

    /// Returns true if the bytes of the entry at a position end where the next entry begins.
    #[inline]
    pub(in crate::sst) fn meet(&self, at: usize) -> bool {
        self.end_of(at) == Some(self.offset(at + 1))
    }

    /// Returns true if the entry at a position is the last one according to its own bytes and to the body's trailer.
    #[inline]
    pub(in crate::sst) fn ends_behind(&self, at: usize) -> bool {
        let shape = BlockTrailer::read(self.body()).ok();
        self.meet(at) && shape.is_some_and(|shape| shape.entries_end as usize == self.offset(at + 1))
    }

    /// Returns true if the first entry is at the start of the body.
    #[inline]
    pub(in crate::sst) fn begins_at_its_start(&self) -> bool {
        self.offset(0) == 0
    }

    /// Returns the end of an entry's bytes, including its companions.
    #[inline]
    fn end_of(&self, at: usize) -> Option<usize> {
        let entry = self.entry(at).ok()?;
        if self.has_column() {
            return Some(entry.value_end);
        }
        let mut reader = Reader::starting_at(self.body(), entry.value_end);
        companion::take(&mut reader).ok()?;
        Some(reader.position())
    }
}

/// Returns the first of the sorted heads that is not less than `wanted`. The binary search is branch-free; callers
/// prefetch the lines.
#[inline]
pub(in crate::sst) fn first_not_below(heads: &[u64], wanted: u64) -> usize {
    heads.partition_point(|head| *head < wanted)
}

/// Appends offsets, two per word.
fn push_pairs(far: &mut Vec<u64>, mut offsets: impl Iterator<Item = u32>) {
    while let Some(offset) = offsets.next() {
        far.push(u64::from(offset) | u64::from(offsets.next().unwrap_or(0)) << 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn halving_finds_what_a_walk_finds(mut heads: Vec<u64>, wanted: u64, far in 0usize..200) {
            heads.extend((0..far as u64).map(|n| n << 55));
            heads.sort();
            for wanted in [wanted, heads.get(far / 2).copied().unwrap_or(0)] {
                prop_assert_eq!(first_not_below(&heads, wanted), heads.iter().take_while(|head| **head < wanted).count());
            }
        }
    }
}
