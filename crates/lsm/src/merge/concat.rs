//! Disjoint parts, one after the other: the tables of a level below 0.
//!
//! In:     parts sorted by their keys, no user key in two of them (I05).
//! Out:    one cursor over all their records. A part is opened when a move first needs it, and one is open at a time.
//! Errors: an error of opening or of the open part surfaces and leaves the cursor invalid until the next seek.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::seam::Source;

/// Something with records between two user keys, opened on demand.
pub trait Part: Send + Sync {
    /// Its least user key.
    fn smallest(&self) -> &[u8];
    /// Its greatest user key.
    fn largest(&self) -> &[u8];
    /// A cursor over its records.
    fn open(&self) -> Result<Box<dyn Cursor>>;
}

/// One cursor over the records of disjoint parts.
pub struct ConcatCursor<P> {
    order: Order,
    parts: Arc<[P]>,
    /// The part opened last and its cursor, kept for the next seek when a move has led past the last record.
    open: Option<(usize, Box<dyn Cursor>)>,
    /// True if the open part's cursor stands on the current record.
    standing: bool,
}

impl<P: Part> ConcatCursor<P> {
    /// A cursor over `parts`, which stand in the order of their keys and do not overlap. Starts invalid, opens nothing.
    pub fn new(order: Order, parts: Arc<[P]>) -> ConcatCursor<P> {
        debug_assert!(
            parts.windows(2).all(|two| order.compare(two[0].largest(), two[1].smallest()) == Ordering::Less),
            "I05: parts overlap"
        );
        ConcatCursor { order, parts, open: None, standing: false }
    }

    /// Moves within one part, opened if it is not, then on to the nearest record in the direction if it has none there.
    /// An index that names no part leads nowhere.
    fn enter(
        &mut self,
        index: Option<usize>,
        forward: bool,
        to: impl FnOnce(&mut dyn Cursor) -> Result<()>,
    ) -> Result<()> {
        self.standing = false;
        let Some((index, part)) = index.and_then(|index| Some((index, self.parts.get(index)?))) else { return Ok(()) };
        let mut cursor = match self.open.take() {
            Some((open, cursor)) if open == index => cursor,
            _ => part.open()?,
        };
        to(&mut *cursor)?;
        self.rest_on(index, cursor, forward)
    }

    /// Stays on a cursor that stands on a record; from one that has run out goes on to the next part that has any.
    fn rest_on(&mut self, mut index: usize, mut cursor: Box<dyn Cursor>, forward: bool) -> Result<()> {
        self.standing = cursor.valid();
        while !self.standing {
            let next = if forward { index.checked_add(1) } else { index.checked_sub(1) };
            let Some((next, part)) = next.and_then(|next| Some((next, self.parts.get(next)?))) else { break };
            (index, cursor) = (next, part.open()?);
            if forward {
                cursor.first()?
            } else {
                cursor.last()?
            }
            self.standing = cursor.valid();
        }
        self.open = Some((index, cursor));
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
        self.standing = false;
        match (moved, self.open.take()) {
            (Ok(()), Some((index, cursor))) => self.rest_on(index, cursor, forward),
            (moved, _) => moved,
        }
    }
}

impl<P: Part> Cursor for ConcatCursor<P> {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let before = self.parts.partition_point(|part| self.order.compare(part.largest(), key) == Ordering::Less);
        self.enter(Some(before), true, |cursor| cursor.seek(key, seqno))
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let begun = self.parts.partition_point(|part| self.order.compare(part.smallest(), key) != Ordering::Greater);
        self.enter(begun.checked_sub(1), false, |cursor| cursor.seek_for_prev(key, seqno))
    }

    fn first(&mut self) -> Result<()> {
        self.enter(Some(0), true, |cursor| cursor.first())
    }

    fn last(&mut self) -> Result<()> {
        self.enter(self.parts.len().checked_sub(1), false, |cursor| cursor.last())
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
