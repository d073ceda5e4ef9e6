//! Forward scan over the entries of a body that validates every byte. See docs/format.md, section 4.2.
//!
//! `EntryScan` returns entry by entry, for a job's stream. `scan_entries` visits a whole body, for loading a block and
//! for the writer's verifying pass.
//!
//! The key is updated in place: the bytes that it shares with its restart's key stay. The prefix shared with the
//! previous key, which is most of a key in most blocks, is thus neither copied nor compared again.

use std::cmp::Ordering;
use std::ops::Range;

use super::entry::{BlockEntry, BlockTrailer, checked_seqno};
use super::frame::companion_of;
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno, companion};

/// The key buffer of a scan; kept by the caller, so that scanning many blocks allocates once.
#[derive(Default, Debug)]
pub(in crate::sst) struct KeyBuffer {
    /// The key of the last entry.
    pub(in crate::sst) last: Vec<u8>,
    /// The previous key, if the two must be compared in full.
    before: Vec<u8>,
    /// Length of the prefix that `last` shares with its restart's key.
    held: usize,
    /// Number of entries in the last body that repeat the previous key, as an older version.
    pub(in crate::sst) repeats: u64,
}

/// One entry with the facts that depend on its context.
#[derive(Clone, Debug)]
pub(in crate::sst) struct ScannedEntry {
    /// Offset of the entry.
    pub(in crate::sst) at: usize,
    pub(in crate::sst) entry: BlockEntry,
    pub(in crate::sst) seqno: Seqno,
    /// Range of its companions in the body; empty if they are in a column.
    pub(in crate::sst) companion: Range<usize>,
    /// Number of entries before it.
    pub(in crate::sst) index: usize,
}

/// A scan of one body, between two entries.
#[derive(Clone, Debug)]
pub(in crate::sst) struct EntryScan {
    shape: BlockTrailer,
    has_column: bool,
    index: usize,
    at: usize,
    /// Number of entries until the next restart point.
    until_restart: u8,
    restart_key: Range<usize>,
    seqno: Seqno,
}

impl EntryScan {
    /// Starts a scan before the first entry. `column` is the length of the companion column, if there is one.
    pub(in crate::sst) fn new(body: &[u8], column: Option<usize>, keys: &mut KeyBuffer) -> Result<EntryScan> {
        let shape = BlockTrailer::of(body, column)?;
        keys.repeats = 0;
        let (index, at, until_restart, seqno) = (0, 0, 0, MAX_SEQNO);
        Ok(EntryScan { shape, has_column: column.is_some(), index, at, until_restart, restart_key: 0..0, seqno })
    }

    /// Returns the body's trailer.
    pub(in crate::sst) fn shape(&self) -> BlockTrailer {
        self.shape
    }

    /// Returns the next entry of the same body, and stores its key in `keys.last`. `None` after the last entry. Errors:
    /// any violation of the format, and records out of order.
    #[inline(always)]
    pub(in crate::sst) fn next(
        &mut self,
        body: &[u8],
        base: Seqno,
        order: &Order,
        keys: &mut KeyBuffer,
    ) -> Result<Option<ScannedEntry>> {
        let entries = body.get(..self.shape.entries_end as usize).unwrap_or_default();
        if self.index == self.shape.count as usize {
            return if self.at == entries.len() { Ok(None) } else { Err(too_long()) };
        }
        let (at, index) = (self.at, self.index);
        let entry = BlockEntry::read(entries, at)?;
        let seqno = checked_seqno(&entry, base)?;
        let suffix = &entries[entry.suffix_at..entry.value_at];
        if self.until_restart == 0 {
            self.restart(body, &entry)?;
        }
        self.until_restart -= 1;
        let compared = self.turn_key(entries, &entry, suffix, order, keys)?;
        match compared {
            Ordering::Less => {}
            Ordering::Equal if self.seqno > seqno => keys.repeats += 1,
            _ => return Err(disordered()),
        }
        let companion = match self.has_column {
            true => entry.value_end..entry.value_end,
            false => entry.value_end..companions_end(entries, entry.value_end)?,
        };
        (self.seqno, self.index, self.at) = (seqno, index + 1, companion.end);
        Ok(Some(ScannedEntry { at, entry, seqno, companion, index }))
    }

    /// Checks an entry at a restart point: it shares no prefix, and its offset is the one in the body's trailer.
    #[inline]
    fn restart(&mut self, body: &[u8], entry: &BlockEntry) -> Result<()> {
        if entry.shared != 0 || self.shape.restart(body, self.index) != Some(self.at as u32) {
            return Err(misplaced_restart());
        }
        self.until_restart = self.shape.interval;
        self.restart_key = entry.suffix_at..entry.value_at;
        Ok(())
    }

    /// Replaces the previous key by the entry's key, and compares the two.
    #[inline(always)]
    fn turn_key(
        &self,
        entries: &[u8],
        entry: &BlockEntry,
        suffix: &[u8],
        order: &Order,
        keys: &mut KeyBuffer,
    ) -> Result<Ordering> {
        // The previous key and this one have the same prefix, as far as both share it with the restart's key.
        let is_first = self.index == 0;
        if entry.shared <= keys.held && order.is_bytewise() && !is_first {
            let compared = keys.last[entry.shared..].cmp(suffix);
            keys.last.truncate(entry.shared);
            keys.last.extend_from_slice(suffix);
            keys.held = self.held(entry, keys.last.len());
            return if keys.last.len() <= MAX_KEY_BYTES { Ok(compared) } else { Err(long_key()) };
        }
        let shared = entries[self.restart_key.clone()].get(..entry.shared);
        let shared = shared.ok_or_else(shares_too_much)?;
        std::mem::swap(&mut keys.last, &mut keys.before);
        keys.last.clear();
        keys.last.extend_from_slice(shared);
        keys.last.extend_from_slice(suffix);
        keys.held = self.held(entry, keys.last.len());
        if keys.last.len() > MAX_KEY_BYTES {
            return Err(long_key());
        }
        Ok(if is_first { Ordering::Less } else { order.compare(&keys.before, &keys.last) })
    }

    /// Returns the length of the prefix that the entry's key shares with its restart's key; the entry may be the
    /// restart itself.
    #[inline]
    fn held(&self, entry: &BlockEntry, length: usize) -> usize {
        if self.restart_key.start == entry.suffix_at { length } else { entry.shared }
    }
}

/// Scans a body forward. Errors: any violation of the format, and records out of internal order. Calls `visit` with
/// each record and the offset of its entry.
pub(in crate::sst) fn scan_entries(
    body: &[u8],
    column: Option<&[u8]>,
    base: Seqno,
    order: &Order,
    keys: &mut KeyBuffer,
    mut visit: impl FnMut(usize, &Record<'_>) -> Result<()>,
) -> Result<BlockTrailer> {
    let mut scan = EntryScan::new(body, column.map(<[u8]>::len), keys)?;
    while let Some(step) = scan.next(body, base, order, keys)? {
        let from_column;
        let companion = match column {
            None => &body[step.companion],
            Some(column) => {
                from_column = companion_of(&column[step.index * 8..][..8]);
                &from_column
            }
        };
        let value = &body[step.entry.value_at..step.entry.value_end];
        visit(step.at, &Record { key: &keys.last, seqno: step.seqno, kind: step.entry.kind, value, companion })?;
    }
    Ok(scan.shape())
}

/// Returns the end of the companions that begin at `from`. Nearly always they are empty or one word, followed by a put
/// or a delete.
#[inline(always)]
pub(in crate::sst) fn companions_end(entries: &[u8], from: usize) -> Result<usize> {
    const PUT: u8 = Kind::Put as u8;
    const DELETE: u8 = Kind::Delete as u8;
    match (entries.get(from), entries.get(from + companion::WORD8_BYTES)) {
        (Some(&companion::WORD8), Some(&(PUT | DELETE))) => Ok(from + companion::WORD8_BYTES),
        (Some(&(PUT | DELETE)), _) => Ok(from),
        _ => {
            let mut reader = Reader::starting_at(entries, from);
            companion::take(&mut reader)?;
            Ok(reader.position())
        }
    }
}

#[cold]
pub(in crate::sst) fn misplaced_restart() -> Error {
    Error::structural("a restart point is not where the block says")
}

#[cold]
pub(in crate::sst) fn shares_too_much() -> Error {
    Error::structural("an entry shares more than its restart's key")
}

#[cold]
pub(in crate::sst) fn disordered() -> Error {
    Error::structural("the records of a block are out of order")
}

#[cold]
pub(in crate::sst) fn long_key() -> Error {
    Error::structural("a key longer than the limit")
}

#[cold]
pub(in crate::sst) fn too_long() -> Error {
    Error::structural("bytes behind the last entry of a block")
}
