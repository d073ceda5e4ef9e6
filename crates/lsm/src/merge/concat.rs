//! Concatenates disjoint parts: the tables of a level below 0, or a single table of level 0.
//!
//! In:     parts sorted by their keys, no user key in two of them (I05).
//! Out:    one cursor over all their records. A part is opened when a move first needs it, and one is open at a time;
//!         the cursor object of a table is reused for the next one.
//! Errors: an error of opening, or of the open part, is returned and leaves the cursor invalid until the next seek.

use std::cmp::Ordering;
use std::sync::Arc;

use super::part_cursor::PartCursor;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::seam::RecordSource;
use crate::sst::TableCursor;

/// A source of records between two user keys, opened on demand.
pub trait MergePart: Send + Sync + 'static {
    /// Returns its smallest user key.
    fn smallest(&self) -> &[u8];
    /// Returns its largest user key.
    fn largest(&self) -> &[u8];
    /// Opens a cursor over its records.
    fn open(&self) -> Result<PartCursor>;
}

/// Tiers of parts, shared by the cursors over each of them. The parts of a tier are sorted by their keys and do not
/// overlap.
pub trait Tiers: Send + Sync {
    /// Returns the number of parts in a tier.
    fn parts(&self, tier: usize) -> usize;
    /// Returns the smallest user key of a part.
    fn smallest(&self, tier: usize, part: usize) -> &[u8];
    /// Returns the largest user key of a part.
    fn largest(&self, tier: usize, part: usize) -> &[u8];
    /// Opens a cursor over the records of a part; `spare` is a cursor of another part that can be reused.
    fn open(&self, tier: usize, part: usize, spare: Option<Box<TableCursor>>) -> Result<PartCursor>;

    /// Returns the first part of a tier whose largest key is not below `key`; the number of parts if there is none.
    fn find(&self, tier: usize, key: &[u8], order: &Order) -> usize {
        partition(self.parts(tier), |part| order.compare(self.largest(tier, part), key) == Ordering::Less)
    }
}

/// The parts in a slice are one tier.
impl<P: MergePart> Tiers for Arc<[P]> {
    fn parts(&self, _: usize) -> usize {
        self.len()
    }

    fn smallest(&self, _: usize, part: usize) -> &[u8] {
        self[part].smallest()
    }

    fn largest(&self, _: usize, part: usize) -> &[u8] {
        self[part].largest()
    }

    fn open(&self, _: usize, part: usize, _: Option<Box<TableCursor>>) -> Result<PartCursor> {
        self[part].open()
    }
}

/// One cursor over the records of disjoint parts.
pub struct ConcatCursor {
    order: Order,
    tiers: Arc<dyn Tiers>,
    tier: usize,
    /// Number of parts in the tier.
    parts: usize,
    /// The part opened last and its cursor, kept for the next seek even after a move past the last record.
    open: Option<(usize, PartCursor)>,
    /// True if the open part's cursor is at the current record.
    standing: bool,
    /// The result of the prefetch for the next seek.
    sought: Sought,
}

/// The result of prefetching for a seek.
#[derive(Clone, Copy)]
enum Sought {
    /// There was no prefetch.
    Unknown,
    /// The seek ends at the current position, or at the end of the records.
    Here,
    /// The seek moves in this part, or ends without a record.
    In(Option<usize>),
}

impl ConcatCursor {
    /// Creates a cursor over `parts`, which must be sorted by key and not overlap. It starts invalid and opens no part.
    pub fn new<P: MergePart>(order: Order, parts: Arc<[P]>) -> ConcatCursor {
        ConcatCursor::over(order, Arc::new(parts), 0)
    }

    /// Creates a cursor over one tier. It starts invalid and opens no part.
    pub fn over(order: Order, tiers: Arc<dyn Tiers>, tier: usize) -> ConcatCursor {
        debug_assert!(
            (1..tiers.parts(tier)).all(|part| {
                order.compare(tiers.largest(tier, part - 1), tiers.smallest(tier, part)) == Ordering::Less
            }),
            "I05: parts overlap"
        );
        let parts = tiers.parts(tier);
        ConcatCursor { order, tiers, tier, parts, open: None, standing: false, sought: Sought::Unknown }
    }

    /// Returns the table cursor at the current record; `None` for other parts.
    #[inline]
    pub(super) fn table(&self) -> Option<&TableCursor> {
        match &self.open {
            Some((_, PartCursor::Table(table))) if self.standing => Some(table),
            _ => None,
        }
    }

    /// Lends that cursor out; no other move is allowed until it is returned.
    pub(super) fn lend(&mut self) -> Option<Box<TableCursor>> {
        let (_, opened) = self.open.as_mut().filter(|_| self.standing)?;
        match std::mem::replace(opened, PartCursor::Lent) {
            PartCursor::Table(table) => Some(table),
            other => {
                *opened = other;
                None
            }
        }
    }

    /// Takes the lent cursor back. Its position must be within the same part.
    pub(super) fn take_back(&mut self, table: Box<TableCursor>) {
        if let Some((_, opened)) = &mut self.open {
            *opened = PartCursor::Table(table);
        }
    }

    /// Prefetches for a seek to (`key`, `seqno`): finds the part in which it moves and the block within that part, and
    /// prefetches the block's cache slot. `ask_for_block` and `take_block` continue from there, followed by the seek
    /// itself. Returns errors of opening the part.
    ///
    /// `stays`: the merge walks forward and is not past the place. A cursor with no remaining record before the place
    /// then keeps its position.
    pub(super) fn aim(&mut self, (key, seqno): (&[u8], Seqno), forward: bool, stays: bool) -> Result<()> {
        if stays && self.is_right_for(key, seqno) {
            self.sought = Sought::Here;
            return Ok(());
        }
        self.standing = false;
        let part = self.part_of(key, forward);
        self.sought = Sought::In(part);
        let Some(part) = part else { return Ok(()) };
        if self.open.as_ref().is_none_or(|(open, _)| *open != part) {
            let spare = self.open.take().and_then(|(_, cursor)| cursor.into_spare());
            self.open = Some((part, self.tiers.open(self.tier, part, spare)?));
        }
        if let Some((_, PartCursor::Table(table))) = &mut self.open {
            table.prefetch_slot_for(key);
        }
        Ok(())
    }

    /// Prefetches the block found by `aim`.
    pub(super) fn ask_for_block(&mut self) {
        if let (Sought::In(Some(_)), Some((_, PartCursor::Table(table)))) = (self.sought, &mut self.open) {
            table.prefetch_found_block();
        }
    }

    /// Takes the block found by `aim`, and prefetches the entry.
    pub(super) fn take_block(&mut self, key: &[u8]) {
        if let (Sought::In(Some(_)), Some((_, PartCursor::Table(table)))) = (self.sought, &mut self.open) {
            table.take_prefetched_block(key);
        }
    }

    /// True if this cursor, in a merge that walks forward and has not reached the place yet, is already where a seek
    /// would lead. A table whose seeks are verified must be sought.
    fn is_right_for(&self, key: &[u8], seqno: Seqno) -> bool {
        match &self.open {
            Some((_, PartCursor::Table(table))) if !table.proves() => {
                !self.standing
                    || table.is_in_block()
                        && self.order.compare_internal(table.current_position(), (key, seqno)) != Ordering::Less
            }
            _ => false,
        }
    }

    /// Returns the part in which a seek for a key moves.
    fn part_of(&self, key: &[u8], forward: bool) -> Option<usize> {
        if self.parts == 1 {
            return Some(0); // the only part checks its own end
        }
        if forward {
            return Some(self.tiers.find(self.tier, key, &self.order)).filter(|part| *part < self.parts);
        }
        let begins = |part| self.order.compare(self.tiers.smallest(self.tier, part), key) != Ordering::Greater;
        partition(self.parts, begins).checked_sub(1)
    }

    /// Returns the part found by the prefetch or by a search. `None`: the cursor is already in position.
    #[expect(clippy::option_option, reason = "no part is none where a seek leads nowhere")]
    fn next_part(&mut self, key: &[u8], forward: bool) -> Option<Option<usize>> {
        match std::mem::replace(&mut self.sought, Sought::Unknown) {
            Sought::Here => None,
            Sought::In(part) => Some(part),
            Sought::Unknown => Some(self.part_of(key, forward)),
        }
    }

    /// Moves within one part, opening it if necessary. If it has no record in the direction, continues to the nearest
    /// record in the next parts. An index outside the tier makes the cursor invalid.
    fn enter(
        &mut self,
        part: Option<usize>,
        forward: bool,
        to: impl FnOnce(&mut PartCursor) -> Result<()>,
    ) -> Result<()> {
        (self.standing, self.sought) = (false, Sought::Unknown);
        let Some(part) = part.filter(|part| *part < self.parts) else { return Ok(()) };
        let mut cursor = match self.open.take() {
            Some((open, cursor)) if open == part => cursor,
            other => self.tiers.open(self.tier, part, other.and_then(|(_, cursor)| cursor.into_spare()))?,
        };
        to(&mut cursor)?;
        self.rest_on(part, cursor, forward)
    }

    /// Keeps a cursor that is at a record; from an exhausted one continues to the next part that has a record.
    fn rest_on(&mut self, mut part: usize, mut cursor: PartCursor, forward: bool) -> Result<()> {
        self.standing = cursor.valid();
        while !self.standing {
            let next = if forward { part.checked_add(1) } else { part.checked_sub(1) };
            let Some(next) = next.filter(|next| *next < self.parts) else { break };
            (part, cursor) = (next, self.tiers.open(self.tier, next, cursor.into_spare())?);
            if forward {
                cursor.first()?
            } else {
                cursor.last()?
            }
            self.standing = cursor.valid();
        }
        self.open = Some((part, cursor));
        Ok(())
    }

    /// Steps inside the open part, or beyond it after its last record.
    #[inline]
    fn step(&mut self, forward: bool) -> Result<()> {
        let Some((_, cursor)) = &mut self.open else { return Ok(()) };
        let moved = if forward { cursor.next() } else { cursor.prev() };
        if moved.is_ok() && cursor.valid() {
            return Ok(());
        }
        self.step_out(moved, forward)
    }

    #[cold]
    fn step_out(&mut self, moved: Result<()>, forward: bool) -> Result<()> {
        self.standing = false;
        match (moved, self.open.take()) {
            (Ok(()), Some((part, cursor))) => self.rest_on(part, cursor, forward),
            (moved, _) => moved,
        }
    }
}

impl Cursor for ConcatCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        match self.next_part(key, true) {
            None => Ok(()),
            Some(part) => self.enter(part, true, |cursor| cursor.seek(key, seqno)),
        }
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        match self.next_part(key, false) {
            None => Ok(()),
            Some(part) => self.enter(part, false, |cursor| cursor.seek_for_prev(key, seqno)),
        }
    }

    fn first(&mut self) -> Result<()> {
        self.enter(Some(0), true, |cursor| cursor.first())
    }

    fn last(&mut self) -> Result<()> {
        self.enter(self.parts.checked_sub(1), false, |cursor| cursor.last())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        self.step(true)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        self.step(false)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.standing
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        debug_assert!(self.valid());
        match &self.open {
            Some((_, cursor)) => cursor.record(),
            None => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    fn source(&self) -> RecordSource<'_> {
        self.open.as_ref().map_or(RecordSource::default(), |(_, cursor)| cursor.source())
    }
}

/// Returns the first index below `count` for which `is_before` is false; it must be true for all earlier ones.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
