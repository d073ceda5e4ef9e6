//! Lookup: the search for one key in a body that is not indexed, by its restart points. See docs/format.md, section
//! 4.2.
//!
//! In:    the body of a block whose CRC was just checked, and a position in internal order.
//! Out:   the first entry at or after the position, and the entry directly before it.
//! Holds: the two entries are adjacent: each was read up to the end of its companions, and the second begins there.
//!        Entries that the search does not visit are not validated, so the caller verifies the two against their seals.
//! Costs: the keys of a few restart points, then half a restart group; no allocation in bytewise order.

use std::cmp::Ordering;
use std::ops::Range;

use super::entry::{BlockEntry, BlockTrailer, checked_seqno};
use super::frame::{COMPANION_BYTES, WORD_BYTES, companion_of};
use super::scan::{companions_end, long_key, misplaced_restart, shares_too_much};
use crate::error::Result;
use crate::order::{Order, common_prefix, head};
use crate::record::{MAX_KEY_BYTES, Record, Seqno};

/// A body that is searched once.
pub(in crate::sst) struct BlockLookup<'a> {
    body: &'a [u8],
    column: Option<&'a [u8]>,
    shape: BlockTrailer,
    base: Seqno,
    order: &'a Order,
}

/// An entry that a lookup has read.
#[derive(Clone, Debug)]
pub(in crate::sst) struct VisitedEntry {
    entry: BlockEntry,
    pub(in crate::sst) seqno: Seqno,
    /// Number of entries before it.
    index: usize,
    /// The key of its restart point.
    restart_key: Range<usize>,
    /// End of its companions; with a column, end of its value.
    end: usize,
}

/// The position of a key in a body.
#[derive(Debug)]
pub(in crate::sst) struct Landing {
    /// The entry before the position; `None` at the start of the body.
    pub(in crate::sst) before: Option<VisitedEntry>,
    /// The entry at the position; `None` at the end of the body.
    pub(in crate::sst) at: Option<VisitedEntry>,
    /// The entry at the position has the key.
    pub(in crate::sst) is_equal: bool,
}

/// A buffer for the key of an entry.
pub(in crate::sst) struct LookupKey {
    short: [u8; 64],
    long: Vec<u8>,
}

impl LookupKey {
    /// Creates an empty buffer.
    pub(in crate::sst) fn new() -> LookupKey {
        LookupKey { short: [0; 64], long: Vec::new() }
    }

    fn join<'b>(&'b mut self, start: &[u8], suffix: &[u8]) -> &'b [u8] {
        let length = start.len() + suffix.len();
        match self.short.get_mut(..length) {
            Some(room) => {
                room[..start.len()].copy_from_slice(start);
                room[start.len()..].copy_from_slice(suffix);
                room
            }
            None => {
                self.long.clear();
                self.long.extend_from_slice(start);
                self.long.extend_from_slice(suffix);
                &self.long
            }
        }
    }
}

impl<'a> BlockLookup<'a> {
    /// Reads the trailer of a body; `column` is the block's companion column, if it has one.
    pub(in crate::sst) fn new(
        body: &'a [u8],
        column: Option<&'a [u8]>,
        base: Seqno,
        order: &'a Order,
    ) -> Result<BlockLookup<'a>> {
        let shape = BlockTrailer::of(body, column.map(<[u8]>::len))?;
        Ok(BlockLookup { body, column, shape, base, order })
    }

    /// Returns the position of (`key`, `seqno`) in internal order. Errors: a deviation from the format on the way.
    pub(in crate::sst) fn find(&self, key: &[u8], seqno: Seqno) -> Result<Landing> {
        let (count, interval) = (self.shape.count as usize, self.shape.interval as usize);
        let is_before = |entry: &VisitedEntry, compared: Ordering| compared.then(seqno.cmp(&entry.seqno)).is_lt();
        // The first group whose first entry is not before the position.
        let (mut low, mut high) = (0, count.div_ceil(interval));
        let (mut restart, mut landing) = (None, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let first = self.first_of(middle)?;
            let compared = self.compare(&first.entry, &[], key, 0)?;
            if is_before(&first, compared) {
                (low, restart) = (middle + 1, Some(first));
            } else {
                (high, landing) = (middle, Some((first, compared.is_eq())));
            }
        }
        let Some(restart) = restart else {
            return self.landing(None, landing);
        };
        // The landing point is in the group before, or is the first entry of this one.
        let restart_key = self.bytes(&restart.restart_key);
        let common = if self.order.is_bytewise() { common_prefix(restart_key, key) } else { 0 };
        let entries = self.entries();
        let last = count.min(low * interval);
        let visited = |entry, index, end| self.visited(entry, index, restart.restart_key.clone(), end);
        let VisitedEntry { mut entry, mut index, mut end, .. } = restart;
        while index + 1 < last {
            let next = BlockEntry::read(entries, end)?;
            let compared = self.compare(&next, restart_key, key, common)?;
            let next_end = self.end_of(entries, &next)?;
            if compared.is_gt() || (compared.is_eq() && checked_seqno(&next, self.base)? <= seqno) {
                let at = visited(next, index + 1, next_end)?;
                return self.landing(Some(visited(entry, index, end)?), Some((at, compared.is_eq())));
            }
            (entry, index, end) = (next, index + 1, next_end);
        }
        self.landing(Some(visited(entry, index, end)?), landing)
    }

    /// Builds the record of an entry; `companion` is a buffer for a companion of the column.
    pub(in crate::sst) fn record<'b>(
        &self,
        visited: &VisitedEntry,
        key: &'b [u8],
        companion: &'b mut [u8; COMPANION_BYTES],
    ) -> Record<'b>
    where
        'a: 'b,
    {
        let VisitedEntry { entry, seqno, index, end, .. } = visited;
        let companion = match self.column {
            None => &self.body[entry.value_end..*end],
            Some(column) => {
                *companion = companion_of(&column[index * WORD_BYTES..][..WORD_BYTES]);
                companion
            }
        };
        let value = &self.body[entry.value_at..entry.value_end];
        Record { key, seqno: *seqno, kind: entry.kind, value, companion }
    }

    /// Returns the whole key of an entry.
    pub(in crate::sst) fn key<'b>(&self, visited: &VisitedEntry, buffer: &'b mut LookupKey) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let suffix = self.suffix(visited);
        if visited.entry.shared == 0 {
            return Ok(suffix);
        }
        Ok(buffer.join(self.start(visited)?, suffix))
    }

    /// Checks that an entry before a restart point ends there, and the last entry at the end of the entries. Thus the
    /// two entries of the landing point are adjacent.
    fn landing(&self, before: Option<VisitedEntry>, at: Option<(VisitedEntry, bool)>) -> Result<Landing> {
        let (at, is_equal) = at.map_or((None, false), |(at, is_equal)| (Some(at), is_equal));
        let ends = |entry: &VisitedEntry| match entry.index + 1 {
            next if next == self.shape.count as usize => {
                self.column.is_some() || entry.end == self.shape.entries_end as usize
            }
            next if next.is_multiple_of(self.shape.interval as usize) => {
                self.shape.restart(self.body, next) == Some(entry.end as u32)
            }
            _ => true,
        };
        if [&before, &at].into_iter().flatten().all(ends) {
            Ok(Landing { before, at, is_equal })
        } else {
            Err(misplaced_restart())
        }
    }

    /// Reads the first entry of a restart group.
    fn first_of(&self, group: usize) -> Result<VisitedEntry> {
        let index = group * self.shape.interval as usize;
        let at = self.shape.restart(self.body, index).ok_or_else(misplaced_restart)? as usize;
        if group == 0 && at != 0 {
            return Err(misplaced_restart());
        }
        let entries = self.entries();
        let entry = BlockEntry::read(entries, at)?;
        if entry.shared != 0 {
            return Err(misplaced_restart());
        }
        self.visited(entry, index, entry.suffix_at..entry.value_at, self.end_of(entries, &entry)?)
    }

    fn entries(&self) -> &'a [u8] {
        self.body.get(..self.shape.entries_end as usize).unwrap_or_default()
    }

    /// Returns the end of an entry's companions; with a column, of its value.
    #[inline(always)]
    fn end_of(&self, entries: &[u8], entry: &BlockEntry) -> Result<usize> {
        match self.column {
            Some(_) => Ok(entry.value_end),
            None => companions_end(entries, entry.value_end),
        }
    }

    /// Checks the seqno and the key length of an entry.
    #[inline(always)]
    fn visited(&self, entry: BlockEntry, index: usize, restart_key: Range<usize>, end: usize) -> Result<VisitedEntry> {
        let seqno = checked_seqno(&entry, self.base)?;
        if entry.shared > restart_key.len() {
            return Err(shares_too_much());
        }
        if entry.shared + (entry.value_at - entry.suffix_at) > MAX_KEY_BYTES {
            return Err(long_key());
        }
        Ok(VisitedEntry { entry, seqno, index, restart_key, end })
    }

    /// Compares an entry's key with another key. `common`: in bytewise order, the length of the common prefix of that
    /// key and the entry's restart key, which is less; 0 for a restart point.
    #[inline(always)]
    fn compare(&self, entry: &BlockEntry, restart_key: &[u8], key: &[u8], common: usize) -> Result<Ordering> {
        let suffix = self.body.get(entry.suffix_at..entry.value_at).unwrap_or_default();
        if !self.order.is_bytewise() {
            let start = restart_key.get(..entry.shared).ok_or_else(shares_too_much)?;
            return Ok(self.compare_whole(start, suffix, key));
        }
        Ok(match key.get(entry.shared..) {
            Some(rest) if entry.shared <= common => match head(suffix, 0).cmp(&head(rest, 0)) {
                Ordering::Equal => suffix.cmp(rest),
                decided => decided,
            },
            // The entry shares the byte in which its restart key is less.
            _ => Ordering::Less,
        })
    }

    /// `compare` for a custom comparator, which needs the key in contiguous memory.
    #[inline(never)]
    fn compare_whole(&self, start: &[u8], suffix: &[u8], key: &[u8]) -> Ordering {
        match start {
            [] => self.order.compare(suffix, key),
            _ => self.order.compare(LookupKey::new().join(start, suffix), key),
        }
    }

    /// Returns the prefix that an entry's key shares with its restart key.
    fn start(&self, visited: &VisitedEntry) -> Result<&'a [u8]> {
        self.bytes(&visited.restart_key).get(..visited.entry.shared).ok_or_else(shares_too_much)
    }

    #[inline]
    fn suffix(&self, visited: &VisitedEntry) -> &'a [u8] {
        self.bytes(&(visited.entry.suffix_at..visited.entry.value_at))
    }

    #[inline]
    fn bytes(&self, range: &Range<usize>) -> &'a [u8] {
        self.body.get(range.clone()).unwrap_or_default()
    }
}
