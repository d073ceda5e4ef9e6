//! Many cursors as one.
//!
//! In:     cursors over memtables and tables, newest first; a record (user key, seqno) stands in one of them only.
//! Out:    one cursor over all their records in internal order, in both directions, with turns at any point.
//! Holds:  while it walks forward, every source stands on its first record at or after the current one, and one of them on
//!         that; while it walks back, on its last at or before. Sources that have none are left out of the heap.
//! Errors: an error of any source surfaces at once and leaves the merge invalid until the next seek, so that a source that
//!         cannot answer is never taken for one that has nothing to say.
//!
//! One source is passed through. Several stand in a heap whose entries hold the lead of each source's key and its seqno,
//! so that most comparisons touch nothing else. A fence (a span in which a source has lost something, shown where the walk comes
//! to it) may stand at the place of a record, and then comes before it in both directions. When the source that won wins again,
//! that costs one comparison: the better of the root's two children is remembered while nobody moves them. If that source is a
//! table, it can be lent: one search in its block says how far it goes before the next source's key, and up to there
//! whoever reads steps it himself, without a comparison.

mod concat;
mod fences;
#[cfg(test)]
mod tests;
mod walk;

use std::cmp::Ordering;

pub use self::concat::{ConcatCursor, Part, Tiers};
pub use self::fences::FenceCursor;
pub use self::walk::{Opened, Walk};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::order::{Lead, Order};
use crate::planted::{self, Bug};
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::Source;
use crate::sst::TableCursor;

/// One cursor over the records of many.
pub struct MergeCursor {
    order: Order,
    sources: Vec<Walk>,
    /// The sources that stand on a record, as a binary heap: least first while walking forward, greatest first back.
    heap: Vec<Contender>,
    /// Which child of the root comes first, if that is known; 0 if not.
    runner_up: usize,
    /// The source on the current record was that on the one before.
    won_again: bool,
    /// The source whose cursor is lent.
    lent: usize,
    forward: bool,
}

/// All records of `sources`, which stand newest first, as one cursor: the only source itself, or a merge of them.
pub fn merged(order: Order, mut sources: Vec<Box<dyn Cursor>>) -> Box<dyn Cursor> {
    match sources.pop() {
        Some(only) if sources.is_empty() => only,
        last => {
            sources.extend(last);
            Box::new(MergeCursor::new(order, sources))
        }
    }
}

/// A source and what it stands on.
#[derive(Clone, Copy)]
struct Contender {
    lead: Lead,
    seqno: Seqno,
    source: usize,
}

impl MergeCursor {
    /// A cursor over all records of `sources`, which stand newest first. Starts invalid.
    pub fn new(order: Order, sources: Vec<Box<dyn Cursor>>) -> MergeCursor {
        MergeCursor::of(order, sources.into_iter().map(Walk::Other).collect())
    }

    /// The same over sources of which it knows what they are.
    pub fn of(order: Order, sources: Vec<Walk>) -> MergeCursor {
        let heap = Vec::with_capacity(if sources.len() > 1 { sources.len() } else { 0 });
        MergeCursor { order, sources, heap, runner_up: 0, won_again: false, lent: 0, forward: true }
    }

    /// Hands out the table's cursor on the current record, and the last place in its block to which the walk in this direction is its
    /// own: it comes to no other source before that, nor to `bound`. None if another source's turn is due, or it is no table. Until
    /// the cursor is given back no other call is allowed.
    pub(crate) fn lend(&mut self, forward: bool, bound: Option<&[u8]>) -> Option<(Box<TableCursor>, usize)> {
        let (source, rival) = self.leader(forward)?;
        // A search is not worth its price before the same source has won twice; the oldest, which has most records, is taken to.
        // Backwards it saves a copy even of one record.
        if rival.is_some() && forward && !self.won_again && source + 1 < self.sources.len() {
            return None;
        }
        let table = self.sources[source].table()?;
        let rival = rival.map(|rival| self.sources[rival].place().0);
        let mut reach = table.reach(forward, rival)?;
        if bound.is_some() {
            let within = table.reach(forward, bound)?;
            reach = if forward { reach.min(within) } else { reach.max(within) };
        }
        if forward && reach == table.place_in_block() {
            return None;
        }
        table.ask_ahead(forward, reach);
        self.lent = source;
        Some((self.sources[source].lend()?, reach))
    }

    /// The source of the current record, and the one whose turn is next; none if the walk goes in the other direction.
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

    /// The current record is a tombstone that hides its key from a reader at `seqno`. Where a memtable knows that he sees no key from there to some record
    /// behind it, before `bound`, and no other source has one in between, goes to that record and answers true: it is one that he could see, of a key that is
    /// hidden.
    pub(crate) fn pass_deleted(&mut self, seqno: Seqno, bound: Option<&[u8]>) -> bool {
        let Some((source, rival)) = self.leader(true) else { return false };
        let (before, rest) = self.sources.split_at_mut(source);
        let Some((Walk::Memtable(memtable), behind)) = rest.split_first_mut() else { return false };
        if !memtable.may_pass() {
            return false;
        }
        let rival = rival.and_then(|rival| match rival.checked_sub(source + 1) {
            Some(rival) => behind.get(rival),
            None => before.get(rival),
        });
        let bound = bound.map(|key| (key, MAX_SEQNO));
        let until = match (rival.map(Walk::place), bound) {
            (Some(rival), Some(bound)) if self.order.compare_internal(bound, rival).is_lt() => Some(bound),
            (rival, bound) => rival.or(bound),
        };
        if !memtable.pass_deleted(seqno, until) {
            return false;
        }
        if let Some(top) = self.heap.first_mut() {
            let (key, seqno) = self.sources[source].place();
            (top.lead, top.seqno) = (self.order.lead(key), seqno);
        }
        true
    }

    /// Takes back what was lent, wherever it stands now.
    pub(crate) fn take_back(&mut self, table: Box<TableCursor>) {
        let source = &mut self.sources[self.lent];
        source.take_back(table);
        // Backwards nobody asks for the lead before the next step makes it anew.
        if let Some(top) = self.heap.first_mut().filter(|_| self.forward) {
            let (key, seqno) = source.place();
            (top.lead, top.seqno) = (self.order.lead(key), seqno);
        }
    }

    /// Key and seqno of the current record; the cursor must be valid.
    #[inline]
    pub(crate) fn place(&self) -> (&[u8], Seqno) {
        match (&self.sources[..], self.heap.first()) {
            ([only], _) => only.place(),
            (_, Some(top)) => self.sources[top.source].place(),
            (_, None) => (&[], 0),
        }
    }

    /// The lead of the current record's key, which a heap has at hand; the cursor must be valid.
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

    /// `seek` for whoever has met no fence on the way to where he stands: sources that are right where they are stay there.
    pub(crate) fn seek_on(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        if self.sources.len() > 1 {
            // Every source stands on its first record at or behind the current one: what lies between is no record of it.
            let stays = self.forward
                && self.heap.first().is_some_and(|top| {
                    let place = self.sources[top.source].place();
                    self.order.compare_internal(place, (key, seqno)) != Ordering::Greater
                });
            self.approach((key, seqno), true, stays || planted::active(Bug::SourceNotSoughtAgain))?;
        }
        self.gather(true, |source| source.seek(key, seqno))
    }

    /// Looks ahead of a seek, all tables side by side: each alone would wait for its slot, its block and its entry one after the other,
    /// and the next for the one before.
    fn approach(&mut self, place: (&[u8], Seqno), forward: bool, stays: bool) -> Result<()> {
        self.heap.clear();
        for tables in self.sources.iter_mut().filter_map(Walk::tables) {
            tables.aim(place, forward, stays)?;
        }
        self.sources.iter_mut().filter_map(Walk::tables).for_each(ConcatCursor::ask_for_block);
        self.sources.iter_mut().filter_map(Walk::tables).for_each(|tables| tables.take_block(place.0));
        Ok(())
    }

    /// Moves every source and stands on the first of them in the direction.
    fn gather(&mut self, forward: bool, mut to: impl FnMut(&mut Walk) -> Result<()>) -> Result<()> {
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

    /// Turns round on the current record, then steps off it. The other sources stand beyond it, where they were going: one
    /// step back takes each to the near side, and a source that had run out has its end there.
    fn turn(&mut self, forward: bool) -> Result<()> {
        let Some(current) = self.heap.first().map(|top| top.source) else { return Ok(()) };
        self.heap.clear();
        let away = if forward { Ordering::Less } else { Ordering::Greater };
        for index in 0..self.sources.len() {
            let Ok([standing, other]) = self.sources.get_disjoint_mut([current, index]) else { continue };
            match (other.valid(), forward) {
                (true, _) => step(other, forward)?,
                (false, true) => other.first()?,
                (false, false) => other.last()?,
            }
            // A memtable may have gained records since, on the far side too. No reader sees them yet, but order holds for all.
            while other.valid() && compare_records(&self.order, &other.record(), &standing.record()) == away {
                step(other, forward)?;
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

    /// Makes the heap anew from all sources that stand on a record.
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

    /// The child of `at` that comes first; there is at least one.
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
            return self.is_fence_first(a.source, b.source);
        }
        internal == if self.forward { Ordering::Less } else { Ordering::Greater }
    }

    /// Of two sources that stand at one place, whether the first is shown first: one of them is a fence there.
    #[cold]
    fn is_fence_first(&self, a: usize, b: usize) -> bool {
        let is_fence = |source: usize| self.sources[source].record().kind == Kind::Fence;
        debug_assert!(is_fence(a) || is_fence(b), "a key and seqno stand in two sources");
        (!is_fence(a), a) < (!is_fence(b), b)
    }
}

#[inline]
fn step(cursor: &mut Walk, forward: bool) -> Result<()> {
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
        if self.forward { self.advance() } else { self.turn(true) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        if let [only] = &mut self.sources[..] {
            return only.prev();
        }
        if !self.forward { self.advance() } else { self.turn(false) }
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

    fn source(&self) -> Source<'_> {
        match (&self.sources[..], self.heap.first()) {
            ([only], _) => only.source(),
            (_, Some(top)) => self.sources[top.source].source(),
            (_, None) => Source::default(),
        }
    }
}
