//! Disjoint parts, one after the other: the tables of a level below 0, or a single one of level 0.
//!
//! In:     parts sorted by their keys, no user key in two of them (I05).
//! Out:    one cursor over all their records. A part is opened when a move first needs it, and one is open at a time; the cursor of a
//!         table serves the next one.
//! Errors: an error of opening or of the open part surfaces and leaves the cursor invalid until the next seek.

use std::cmp::Ordering;
use std::sync::Arc;

use super::walk::Opened;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::seam::Source;
use crate::sst::TableCursor;

/// Something with records between two user keys, opened on demand.
pub trait Part: Send + Sync + 'static {
    /// Its least user key.
    fn smallest(&self) -> &[u8];
    /// Its greatest user key.
    fn largest(&self) -> &[u8];
    /// A cursor over its records.
    fn open(&self) -> Result<Opened>;
}

/// Tiers of parts, shared by the cursors over each of them. Within a tier parts stand in the order of their keys and do not overlap.
pub trait Tiers: Send + Sync {
    /// How many parts a tier has.
    fn parts(&self, tier: usize) -> usize;
    /// The least user key of a part.
    fn smallest(&self, tier: usize, part: usize) -> &[u8];
    /// The greatest user key of a part.
    fn largest(&self, tier: usize, part: usize) -> &[u8];
    /// A cursor over the records of a part; `spare` is one of another part that is no longer needed.
    fn open(&self, tier: usize, part: usize, spare: Option<Box<TableCursor>>) -> Result<Opened>;

    /// The first part of a tier that does not end before a key; the number of parts if there is none.
    fn find(&self, tier: usize, key: &[u8], order: &Order) -> usize {
        partition(self.parts(tier), |part| order.compare(self.largest(tier, part), key) == Ordering::Less)
    }
}

/// Parts in a slice are one tier.
impl<P: Part> Tiers for Arc<[P]> {
    fn parts(&self, _: usize) -> usize {
        self.len()
    }

    fn smallest(&self, _: usize, part: usize) -> &[u8] {
        self[part].smallest()
    }

    fn largest(&self, _: usize, part: usize) -> &[u8] {
        self[part].largest()
    }

    fn open(&self, _: usize, part: usize, _: Option<Box<TableCursor>>) -> Result<Opened> {
        self[part].open()
    }
}

/// One cursor over the records of disjoint parts.
pub struct ConcatCursor {
    order: Order,
    tiers: Arc<dyn Tiers>,
    tier: usize,
    /// How many parts the tier has.
    parts: usize,
    /// The part opened last and its cursor, kept for the next seek when a move has led past the last record.
    open: Option<(usize, Opened)>,
    /// True if the open part's cursor stands on the current record.
    standing: bool,
    /// What is known of the seek that comes next.
    sought: Sought,
}

/// What a look ahead of a seek has found.
#[derive(Clone, Copy)]
enum Sought {
    /// There was none.
    Unknown,
    /// The seek ends where the cursor stands, or has run out.
    Here,
    /// It moves in this part, or leads nowhere.
    In(Option<usize>),
}

impl ConcatCursor {
    /// A cursor over `parts`, which stand in the order of their keys and do not overlap. Starts invalid, opens nothing.
    pub fn new<P: Part>(order: Order, parts: Arc<[P]>) -> ConcatCursor {
        ConcatCursor::over(order, Arc::new(parts), 0)
    }

    /// A cursor over one tier. Starts invalid, opens nothing.
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

    /// The table's cursor on the current record, if it is one.
    #[inline]
    pub(super) fn table(&self) -> Option<&TableCursor> {
        match &self.open {
            Some((_, Opened::Table(table))) if self.standing => Some(table),
            _ => None,
        }
    }

    /// Hands that cursor out; until it comes back no other move is to be made.
    pub(super) fn lend(&mut self) -> Option<Box<TableCursor>> {
        let (_, opened) = self.open.as_mut().filter(|_| self.standing)?;
        match std::mem::replace(opened, Opened::Lent) {
            Opened::Table(table) => Some(table),
            other => {
                *opened = other;
                None
            }
        }
    }

    /// Takes it back. It stands on a record of the same part.
    pub(super) fn take_back(&mut self, table: Box<TableCursor>) {
        if let Some((_, opened)) = &mut self.open {
            *opened = Opened::Table(table);
        }
    }

    /// Looks ahead of a seek for (`key`, `seqno`): which part it moves in, and which block of that. Memory is asked for the block's slot;
    /// `ask_for_block` and `take_block` go on from there, then comes the seek itself. Errors: those of opening the part.
    ///
    /// `stays`: the merge walks forward and does not stand behind the place, so that a cursor before which nothing is left to show up to
    /// there is right where it is.
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
        if let Some((_, Opened::Table(table))) = &mut self.open {
            table.aim(key);
        }
        Ok(())
    }

    /// Asks memory for the block that was aimed at.
    pub(super) fn ask_for_block(&mut self) {
        if let (Sought::In(Some(_)), Some((_, Opened::Table(table)))) = (self.sought, &mut self.open) {
            table.ask_for_block();
        }
    }

    /// Takes the block that was aimed at, and asks memory for the entry.
    pub(super) fn take_block(&mut self, key: &[u8]) {
        if let (Sought::In(Some(_)), Some((_, Opened::Table(table)))) = (self.sought, &mut self.open) {
            table.take_block(key);
        }
    }

    /// True if a cursor of a merge that walks forward, and has not come to a place yet, is where a seek for it would lead. A table
    /// whose seeks prove themselves is sought.
    fn is_right_for(&self, key: &[u8], seqno: Seqno) -> bool {
        match &self.open {
            Some((_, Opened::Table(table))) if !table.proves() => {
                !self.standing
                    || table.is_in_block()
                        && self.order.compare_internal(table.standing_place(), (key, seqno)) != Ordering::Less
            }
            _ => false,
        }
    }

    /// The part that a seek for a key moves in.
    fn part_of(&self, key: &[u8], forward: bool) -> Option<usize> {
        if self.parts == 1 {
            return Some(0); // the only one knows itself where it ends
        }
        if forward {
            return Some(self.tiers.find(self.tier, key, &self.order)).filter(|part| *part < self.parts);
        }
        let begins = |part| self.order.compare(self.tiers.smallest(self.tier, part), key) != Ordering::Greater;
        partition(self.parts, begins).checked_sub(1)
    }

    /// The same, as far as it was not looked up before. None: the cursor is right where it is.
    #[expect(clippy::option_option, reason = "no part is none where a seek leads nowhere")]
    fn next_part(&mut self, key: &[u8], forward: bool) -> Option<Option<usize>> {
        match std::mem::replace(&mut self.sought, Sought::Unknown) {
            Sought::Here => None,
            Sought::In(part) => Some(part),
            Sought::Unknown => Some(self.part_of(key, forward)),
        }
    }

    /// Moves within one part, opened if it is not, then on to the nearest record in the direction if it has none there.
    /// An index that names no part leads nowhere.
    fn enter(&mut self, part: Option<usize>, forward: bool, to: impl FnOnce(&mut Opened) -> Result<()>) -> Result<()> {
        (self.standing, self.sought) = (false, Sought::Unknown);
        let Some(part) = part.filter(|part| *part < self.parts) else { return Ok(()) };
        let mut cursor = match self.open.take() {
            Some((open, cursor)) if open == part => cursor,
            other => self.tiers.open(self.tier, part, other.and_then(|(_, cursor)| cursor.into_spare()))?,
        };
        to(&mut cursor)?;
        self.rest_on(part, cursor, forward)
    }

    /// Stays on a cursor that stands on a record; from one that has run out goes on to the next part that has any.
    fn rest_on(&mut self, mut part: usize, mut cursor: Opened, forward: bool) -> Result<()> {
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

    /// One step inside the open part, beyond it if that was its last record.
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

    fn source(&self) -> Source<'_> {
        self.open.as_ref().map_or(Source::default(), |(_, cursor)| cursor.source())
    }
}

/// The first of so many that `is_before` does not hold for; it holds for all before that.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
