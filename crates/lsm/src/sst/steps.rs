//! Front to back over the entries of a body, each byte of which is held against the format on the way. docs/format.md, section 4.2.
//!
//! `Steps` goes entry by entry for whoever comes back for the next one (a job's stream); `walk` shows a whole body (loading a
//! block, the verifying pass of the writer).
//!
//! Of the key held, the bytes that it shares with its restart's stay where they are. What a new key shares with the one before is
//! then neither copied nor compared again, which is most of a key in most blocks.

use std::cmp::Ordering;
use std::ops::Range;

use super::entry::{Entry, Shape, checked_seqno};
use super::format::companion_of;
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno, companion};

/// The key under a walk; kept by the caller so that walking many blocks allocates once.
#[derive(Default, Debug)]
pub(super) struct Keys {
    /// The key of the entry read last.
    pub(super) last: Vec<u8>,
    /// The key before it, where the two must be compared in full.
    before: Vec<u8>,
    /// Bytes that `last` begins with and its restart's key too.
    held: usize,
    /// How often a key came again in the body walked last, in an older version.
    pub(super) repeats: u64,
}

/// One entry, and what is not in it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Where the entry begins.
    pub(super) at: usize,
    pub(super) entry: Entry,
    pub(super) seqno: Seqno,
    /// Where its companions stand in the body; empty if they stand in a column.
    pub(super) companion: Range<usize>,
    /// How many entries came before it.
    pub(super) index: usize,
}

/// A walk over one body, between two entries.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    shape: Shape,
    has_column: bool,
    index: usize,
    at: usize,
    /// Entries until the next restart point.
    until_restart: u8,
    restart_key: Range<usize>,
    seqno: Seqno,
}

impl Steps {
    /// A walk in front of the first entry. `column` is the length of the column of companions, if there is one.
    pub(super) fn new(body: &[u8], column: Option<usize>, keys: &mut Keys) -> Result<Steps> {
        let shape = Shape::of(body, column)?;
        keys.repeats = 0;
        let (index, at, until_restart, seqno) = (0, 0, 0, MAX_SEQNO);
        Ok(Steps { shape, has_column: column.is_some(), index, at, until_restart, restart_key: 0..0, seqno })
    }

    /// What the end of the body says.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The next entry of the same body; `keys.last` is its key then. None behind the last. Refuses whatever is not as the format
    /// says, and records out of order.
    #[inline(always)]
    pub(super) fn next(&mut self, body: &[u8], base: Seqno, order: &Order, keys: &mut Keys) -> Result<Option<Step>> {
        let entries = body.get(..self.shape.entries_end as usize).unwrap_or_default();
        if self.index == self.shape.count as usize {
            return if self.at == entries.len() { Ok(None) } else { Err(too_long()) };
        }
        let (at, index) = (self.at, self.index);
        let entry = Entry::read(entries, at)?;
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
        Ok(Some(Step { at, entry, seqno, companion, index }))
    }

    /// The entry stands at a restart point: it shares nothing, and the body says where it is.
    #[inline]
    fn restart(&mut self, body: &[u8], entry: &Entry) -> Result<()> {
        if entry.shared != 0 || self.shape.restart(body, self.index) != Some(self.at as u32) {
            return Err(misplaced_restart());
        }
        self.until_restart = self.shape.interval;
        self.restart_key = entry.suffix_at..entry.value_at;
        Ok(())
    }

    /// Puts the entry's key in the place of the one before, and says how the two compare.
    #[inline(always)]
    fn turn_key(
        &self,
        entries: &[u8],
        entry: &Entry,
        suffix: &[u8],
        order: &Order,
        keys: &mut Keys,
    ) -> Result<Ordering> {
        // The key before began with the same bytes as the restart, as far as both share them with it.
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

    /// How many bytes an entry's key has in common with its restart's, which it may be itself.
    #[inline]
    fn held(&self, entry: &Entry, length: usize) -> usize {
        if self.restart_key.start == entry.suffix_at { length } else { entry.shared }
    }
}

/// Walks a body front to back and refuses it unless every byte is as the format says and the records are in internal order.
/// `visit` gets each record and the offset of its entry.
pub(super) fn walk(
    body: &[u8],
    column: Option<&[u8]>,
    base: Seqno,
    order: &Order,
    keys: &mut Keys,
    mut visit: impl FnMut(usize, &Record<'_>) -> Result<()>,
) -> Result<Shape> {
    let mut steps = Steps::new(body, column.map(<[u8]>::len), keys)?;
    while let Some(step) = steps.next(body, base, order, keys)? {
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
    Ok(steps.shape())
}

/// Where the companions that begin at `from` end. Nearly always there is one word or nothing, and a record that is put or deleted behind.
#[inline(always)]
pub(super) fn companions_end(entries: &[u8], from: usize) -> Result<usize> {
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
pub(super) fn misplaced_restart() -> Error {
    Error::structural("a restart point is not where the block says")
}

#[cold]
pub(super) fn shares_too_much() -> Error {
    Error::structural("an entry shares more than its restart's key")
}

#[cold]
pub(super) fn disordered() -> Error {
    Error::structural("the records of a block are out of order")
}

#[cold]
pub(super) fn long_key() -> Error {
    Error::structural("a key longer than the limit")
}

#[cold]
pub(super) fn too_long() -> Error {
    Error::structural("bytes behind the last entry of a block")
}
