//! Merges many cursors into one.
//!
//! In:     cursors over memtables and tables, newest first; each record (user key, seqno) is in only one of them.
//! Out:    one cursor over all their records in internal order, in both directions, with direction changes at any
//!         point.
//! Holds:  during a forward walk, every source is at its first record at or after the current one, and one source is at
//!         the current record; during a backward walk, at its last record at or before. Exhausted sources are left out
//!         of the heap.
//! Errors: an error of any source is returned immediately and leaves the merge invalid until the next seek, so that a
//!         failing source is never mistaken for an exhausted one.
//!
//! A single source is passed through. Several sources form a heap whose entries hold the lead of each source's key and
//! its seqno, so most comparisons touch no other memory. A lost range (of a source, shown where the walk enters
//! it) may share the place of a record, and then comes first in both directions. If the winning source wins again, the
//! step costs one comparison: the better child of the root is remembered while both children stay in place. If that
//! source is a table, its cursor can be lent: one search in its block finds how far it stays ahead of the next source's
//! key. Up to that point the reader steps the table cursor directly, without comparisons.

mod concat;
mod lost_range_cursor;
mod part_cursor;
mod source;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use self::concat::{ConcatCursor, MergePart, Tiers};
pub use self::lost_range_cursor::LostRangeCursor;
pub use self::part_cursor::PartCursor;
pub use self::source::MergeSource;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::order::{Lead, Order};
use crate::planted;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::RecordSource;
use crate::sst::TableCursor;

/// One cursor over the records of many.
pub struct MergeCursor {
    order: Order,
    sources: Vec<MergeSource>,
    /// The sources that are at a record, as a binary heap: smallest first in a forward walk, largest first in a
    /// backward one.
    heap: Vec<Contender>,
    /// The index of the root's child that comes first; 0 if unknown.
    runner_up: usize,
    /// True if the current record has the same source as the previous one.
    won_again: bool,
    /// The source whose cursor is lent out.
    lent: usize,
    forward: bool,
}

/// Returns all records of `sources`, ordered newest first, as one cursor. A single source is returned unchanged;
/// several are merged.
pub fn merged(order: Order, mut sources: Vec<Box<dyn Cursor>>) -> Box<dyn Cursor> {
    match sources.pop() {
        Some(only) if sources.is_empty() => only,
        last => {
            sources.extend(last);
            Box::new(MergeCursor::new(order, sources))
        }
    }
}

/// A source and its current record.
#[derive(Clone, Copy)]
struct Contender {
    lead: Lead,
    seqno: Seqno,
    source: usize,
}

impl MergeCursor {
    /// Creates a cursor over all records of `sources`, ordered newest first. It starts invalid.
    pub fn new(order: Order, sources: Vec<Box<dyn Cursor>>) -> MergeCursor {
        MergeCursor::of(order, sources.into_iter().map(MergeSource::Other).collect())
    }

    /// Creates a cursor over sources of known types.
    pub fn of(order: Order, sources: Vec<MergeSource>) -> MergeCursor {
        let heap = Vec::with_capacity(if sources.len() > 1 { sources.len() } else { 0 });
        MergeCursor { order, sources, heap, runner_up: 0, won_again: false, lent: 0, forward: true }
    }

    /// Lends out the table cursor at the current record, with the last entry in its block up to which the walk in this
    /// direction needs no other source and stays before `bound`. Returns `None` if another source is next, or the
    /// source is not a table. No other call is allowed until the cursor is returned.
    pub(crate) fn lend(&mut self, forward: bool, bound: Option<&[u8]>) -> Option<(Box<TableCursor>, usize)> {
        let (source, rival) = self.leader(forward)?;
        // The search pays off only after the same source has won twice; the oldest source, which has the most records,
        // is lent without that. Backwards, lending saves a copy even for a single record.
        if rival.is_some() && forward && !self.won_again && source + 1 < self.sources.len() {
            return None;
        }
        let table = self.sources[source].table()?;
        let rival = rival.map(|rival| self.sources[rival].place().0);
        let mut reach = table.run_end(forward, rival)?;
        if bound.is_some() {
            let within = table.run_end(forward, bound)?;
            reach = if forward { reach.min(within) } else { reach.max(within) };
        }
        if forward && reach == table.place_in_block() {
            return None;
        }
        table.prefetch_ahead(forward, reach);
        self.lent = source;
        Some((self.sources[source].lend()?, reach))
    }

    /// Returns the source of the current record and the next source in order; `None` if the walk has the other
    /// direction.
    #[inline]
    fn leader(&self, forward: bool) -> Option<(usize, Option<usize>)> {
        match self.heap.len() {
            _ if self.sources.len() == 1 => Some((0, None)),
            0 => None,
            _ if self.forward != forward => None,
            1 => Some((self.heap[0].source, None)),
            _ => {
                let rival = if self.runner_up == 0 { self.first_child(0) } else { self.runner_up };
                Some((self.heap[0].source, Some(self.heap[rival].source)))
            }
        }
    }

    /// Skips deleted keys, with the merge at a tombstone that hides its key from a reader at `seqno`. If a memtable
    /// knows that this reader sees no key up to a later record before `bound`, and no other source has a record in
    /// between, the merge moves to that record, past at most `most` leaves, and returns their number. The record is
    /// visible to the reader, and its key is hidden.
    pub(crate) fn pass_deleted(&mut self, seqno: Seqno, bound: Option<&[u8]>, most: u32) -> Option<u32> {
        let (source, rival) = self.leader(true)?;
        let (before, rest) = self.sources.split_at_mut(source);
        let Some((MergeSource::Memtable(memtable), behind)) = rest.split_first_mut() else { return None };
        if !memtable.may_pass() {
            return None;
        }
        let rival = rival.and_then(|rival| match rival.checked_sub(source + 1) {
            Some(rival) => behind.get(rival),
            None => before.get(rival),
        });
        let bound = bound.map(|key| (key, MAX_SEQNO));
        let until = match (rival.map(MergeSource::place), bound) {
            (Some(rival), Some(bound)) if self.order.compare_internal(bound, rival).is_lt() => Some(bound),
            (rival, bound) => rival.or(bound),
        };
        let passed = memtable.pass_deleted(seqno, until, most)?;
        if let Some(top) = self.heap.first_mut() {
            let (key, seqno) = self.sources[source].place();
            (top.lead, top.seqno) = (self.order.lead(key), seqno);
        }
        Some(passed)
    }

    /// Takes back the lent cursor, at its new position.
    pub(crate) fn take_back(&mut self, table: Box<TableCursor>) {
        let source = &mut self.sources[self.lent];
        source.take_back(table);
        // Backwards the lead is not used before the next step recomputes it.
        if let Some(top) = self.heap.first_mut().filter(|_| self.forward) {
            let (key, seqno) = source.place();
            (top.lead, top.seqno) = (self.order.lead(key), seqno);
        }
    }

    /// Returns key and seqno of the current record; the cursor must be valid.
    #[inline]
    pub(crate) fn place(&self) -> (&[u8], Seqno) {
        match (&self.sources[..], self.heap.first()) {
            ([only], _) => only.place(),
            (_, Some(top)) => self.sources[top.source].place(),
            (_, None) => (&[], 0),
        }
    }

    /// Returns the lead of the current record's key, which a heap already holds; the cursor must be valid.
    #[inline]
    pub(crate) fn lead(&self) -> Lead {
        match self.heap.first() {
            Some(top) if self.forward => {
                debug_assert!(
                    top.lead.compare(&self.order.lead(self.place().0)).is_none_or(Ordering::is_eq),
                    "the heap knows another key"
                );
                top.lead
            }
            _ => self.order.lead(self.place().0),
        }
    }

    /// Seeks like `seek`, for a caller that encountered no lost range on the way to its position: sources already in
    /// position stay there.
    pub(crate) fn seek_on(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        if self.sources.len() > 1 {
            // Every source is at its first record at or after the current one, so no record is skipped.
            let stays = self.forward
                && self.heap.first().is_some_and(|top| {
                    let place = self.sources[top.source].place();
                    self.order.compare_internal(place, (key, seqno)) != Ordering::Greater
                });
            self.approach((key, seqno), true, planted!(SourceNotSoughtAgain, true, stays))?;
        }
        self.gather(true, |source| source.seek(key, seqno))
    }

    /// Prefetches for a seek in all tables in parallel. Otherwise each table would wait in turn for its slot, its block
    /// and its entry, and each would wait for the previous table.
    fn approach(&mut self, place: (&[u8], Seqno), forward: bool, stays: bool) -> Result<()> {
        self.heap.clear();
        for tables in self.sources.iter_mut().filter_map(MergeSource::tables) {
            tables.aim(place, forward, stays)?;
        }
        self.sources.iter_mut().filter_map(MergeSource::tables).for_each(ConcatCursor::ask_for_block);
        self.sources.iter_mut().filter_map(MergeSource::tables).for_each(|tables| tables.take_block(place.0));
        Ok(())
    }

    /// Moves every source and selects the first one in the direction.
    fn gather(&mut self, forward: bool, mut to: impl FnMut(&mut MergeSource) -> Result<()>) -> Result<()> {
        if let [only] = &mut self.sources[..] {
            return to(only);
        }
        self.heap.clear();
        for source in &mut self.sources {
            to(source)?;
        }
        self.build(forward);
        Ok(())
    }

    /// Reverses the direction at the current record, then steps away from it. The other sources are beyond the record
    /// in the old direction: one step back takes each to the near side, and the near side of an exhausted source is its
    /// end.
    fn reverse(&mut self, forward: bool) -> Result<()> {
        let Some(current) = self.heap.first().map(|top| top.source) else { return Ok(()) };
        self.heap.clear();
        let away = if forward { Ordering::Less } else { Ordering::Greater };
        for index in 0..self.sources.len() {
            let Ok([standing, other]) = self.sources.get_disjoint_mut([current, index]) else { continue };
            let mut is_past_lost_range = is_lost_range(other);
            match (other.valid(), forward) {
                (true, _) => step(other, forward)?,
                (false, true) => other.first()?,
                (false, false) => other.last()?,
            }
            // A memtable may have gained records since, on the far side too. They are not visible to any reader, but
            // the order must hold for all records.
            while other.valid() && compare_records(&self.order, &other.record(), &standing.record()) == away {
                is_past_lost_range |= is_lost_range(other);
                step(other, forward)?;
            }
            // A lost range is shown where a walk enters it, and may extend past the current record on both sides.
            if is_past_lost_range {
                let Record { key, seqno, .. } = standing.record();
                if forward { other.seek(key, seqno)? } else { other.seek_for_prev(key, seqno)? }
            }
        }
        step(&mut self.sources[current], forward)?;
        self.build(forward);
        Ok(())
    }

    /// Steps in the direction of the heap.
    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(top) = self.heap.first_mut() else { return Ok(()) };
        let source = &mut self.sources[top.source];
        if let Err(error) = step(source, self.forward) {
            self.heap.clear();
            return Err(error);
        }
        if source.valid() {
            let (key, seqno) = source.place();
            (top.lead, top.seqno) = (self.order.lead(key), seqno);
            self.settle_top();
        } else {
            self.heap.swap_remove(0);
            self.sift_down(0);
            (self.runner_up, self.won_again) = (0, false);
        }
        Ok(())
    }

    /// Rebuilds the heap from all sources that are at a record.
    fn build(&mut self, forward: bool) {
        self.forward = forward;
        self.heap.clear();
        for (source, cursor) in self.sources.iter().enumerate() {
            if cursor.valid() {
                let (key, seqno) = cursor.place();
                self.heap.push(Contender { lead: self.order.lead(key), seqno, source });
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        (self.runner_up, self.won_again) = (0, false);
    }

    /// Restores the heap after its root changed.
    #[inline]
    fn settle_top(&mut self) {
        if self.heap.len() < 2 {
            return;
        }
        if self.runner_up == 0 {
            self.runner_up = self.first_child(0);
        }
        self.won_again = self.comes_first(0, self.runner_up);
        if self.won_again {
            return;
        }
        self.heap.swap(0, self.runner_up);
        self.sift_down(self.runner_up);
        self.runner_up = 0;
    }

    fn sift_down(&mut self, mut at: usize) {
        while at * 2 + 1 < self.heap.len() {
            let child = self.first_child(at);
            if self.comes_first(at, child) {
                break;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Returns the child of `at` that comes first; `at` must have a child.
    #[inline]
    fn first_child(&self, at: usize) -> usize {
        let (left, right) = (at * 2 + 1, at * 2 + 2);
        if right < self.heap.len() && self.comes_first(right, left) { right } else { left }
    }

    /// True if the entry at `a` comes before the one at `b` in the direction of the walk.
    #[inline]
    fn comes_first(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.heap[a], &self.heap[b]);
        let by_key = a
            .lead
            .compare(&b.lead)
            .unwrap_or_else(|| self.order.compare(self.sources[a.source].place().0, self.sources[b.source].place().0));
        let internal = by_key.then_with(|| b.seqno.cmp(&a.seqno));
        if internal.is_eq() {
            return self.is_lost_range_first(a.source, b.source);
        }
        internal == if self.forward { Ordering::Less } else { Ordering::Greater }
    }

    /// For two sources at the same place, returns whether the first is shown first: one of them is a lost range.
    #[cold]
    fn is_lost_range_first(&self, a: usize, b: usize) -> bool {
        let is_fence = |source: usize| self.sources[source].record().kind == Kind::Fence;
        debug_assert!(is_fence(a) || is_fence(b), "a key and seqno stand in two sources");
        (!is_fence(a), a) < (!is_fence(b), b)
    }
}

fn is_lost_range(cursor: &MergeSource) -> bool {
    cursor.valid() && cursor.record().kind == Kind::Fence
}

#[inline]
fn step(cursor: &mut MergeSource, forward: bool) -> Result<()> {
    if forward { cursor.next() } else { cursor.prev() }
}

fn compare_records(order: &Order, a: &Record<'_>, b: &Record<'_>) -> Ordering {
    order.compare_internal((a.key, a.seqno), (b.key, b.seqno))
}

impl Cursor for MergeCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        if self.sources.len() > 1 {
            self.approach((key, seqno), true, false)?;
        }
        self.gather(true, |source| source.seek(key, seqno))
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        if self.sources.len() > 1 {
            self.approach((key, seqno), false, false)?;
        }
        self.gather(false, |source| source.seek_for_prev(key, seqno))
    }

    fn first(&mut self) -> Result<()> {
        self.gather(true, |source| source.first())
    }

    fn last(&mut self) -> Result<()> {
        self.gather(false, |source| source.last())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        if let [only] = &mut self.sources[..] {
            return only.next();
        }
        if self.forward { self.advance() } else { self.reverse(true) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        if let [only] = &mut self.sources[..] {
            return only.prev();
        }
        if !self.forward { self.advance() } else { self.reverse(false) }
    }

    #[inline]
    fn valid(&self) -> bool {
        if let [only] = &self.sources[..] { only.valid() } else { !self.heap.is_empty() }
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        debug_assert!(self.valid());
        if let [only] = &self.sources[..] {
            return only.record();
        }
        match self.heap.first() {
            Some(top) => self.sources[top.source].record(),
            None => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    fn source(&self) -> RecordSource<'_> {
        match (&self.sources[..], self.heap.first()) {
            ([only], _) => only.source(),
            (_, Some(top)) => self.sources[top.source].source(),
            (_, None) => RecordSource::default(),
        }
    }
}
