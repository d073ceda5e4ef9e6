//! Steps that look at nothing but the entry they lead to.
//!
//! In:     a cursor that stands in a block, and the key that another source stands on, or a bound.
//! Out:    how far it may go in the block before it comes to that key, and steps as far as that.
//! Holds:  within the reach no key stands in two versions, and none stands in another source. A step that would come to anything but a
//!         value that is to be shown, or to one that does not pass its check, is not made: the cursor stands where it stood, and its
//!         other moves do what is to be done.

use std::cmp::Ordering;

use super::block::Block;
use super::cursor::TableCursor;
use super::entry::Entry;
use crate::cursor::Cursor;
use crate::order::Order;
use crate::planted::{self, Bug};
use crate::record::{Kind, MAX_SEQNO, Seqno};

impl TableCursor {
    /// The last place in a direction up to which the cursor may step, from where it stands: every key up to there is its only
    /// version, and before `limit`. None: it may not stand even here, or it does not stand in a block.
    ///
    /// Backwards it ends before the first entry of a block: a newer version of its key may stand in the block before.
    pub(crate) fn reach(&self, forward: bool, limit: Option<&[u8]>) -> Option<usize> {
        let block = self.block.as_deref().filter(|block| self.entry.is_some() && !block.has_versions)?;
        let limit = limit.filter(|_| !planted::active(Bug::ScanOverrunsItsReach));
        let farthest = match limit {
            None if forward => block.len() - 1,
            None => 0,
            Some(limit) => {
                let farthest = block.last_before(self.at, forward, limit, &self.table.order)?;
                // Heads that were hit in memory may lead too far. Where every record is checked, the last one is, and compared with the limit:
                // all others of the run come before it.
                if self.every == 1 && farthest != self.at && !self.is_before_limit(block, farthest, forward, limit) {
                    return None;
                }
                farthest
            }
        };
        if forward { Some(farthest) } else { Some(farthest.max(1)).filter(|first| *first <= self.at) }
    }

    /// True if the record at a place is what was written and comes before `limit` in a direction.
    #[inline(never)]
    fn is_before_limit(&self, block: &Block, at: usize, forward: bool, limit: &[u8]) -> bool {
        let ahead = if forward { Ordering::Less } else { Ordering::Greater };
        block.is_whole(at, self.table.judge(), |key, _| self.table.order.compare(key, limit) == ahead)
    }

    /// Key and seqno of the record under the cursor.
    #[inline]
    pub(crate) fn standing_place(&self) -> (&[u8], Seqno) {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => (self.key.get(), block.seqno(entry)),
            _ => {
                let record = self.record();
                (record.key, record.seqno)
            }
        }
    }

    /// True if it stands in a block, and not among what is left of one.
    #[inline]
    pub(crate) fn is_in_block(&self) -> bool {
        self.entry.is_some()
    }

    /// The place in its block.
    #[inline]
    pub(crate) fn place_in_block(&self) -> usize {
        self.at
    }

    /// How many of the records of a block come before the cursor, and how many there are; `None` if the cursor is not in that block.
    pub(super) fn share_before(&self, number: usize) -> Option<(usize, usize)> {
        let block = self.block.as_deref().filter(|_| self.entry.is_some() && self.number == number)?;
        Some((self.at, block.len()))
    }

    /// True if the record under the cursor is to be shown at a seqno, whatever else there is.
    #[inline]
    pub(crate) fn is_plain(&self, seqno: Seqno) -> bool {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.is_plain(entry, block.span(self.at).1, seqno),
            _ => false,
        }
    }

    /// Steps to a place within its reach. False: the record there is not for this step, and the cursor stands where it stood.
    #[inline]
    pub(crate) fn step_to(&mut self, at: usize, seqno: Seqno) -> bool {
        let Some(block) = self.block.as_deref() else { return false };
        let (from, end) = block.span(at);
        match Entry::short_put(block.bytes(), from) {
            Some(entry) => self.step_onto(at, entry, end, seqno),
            None => self.step_longer(at, seqno),
        }
    }

    /// The same for an entry with longer parts.
    #[inline(never)]
    fn step_longer(&mut self, at: usize, seqno: Seqno) -> bool {
        let Some(block) = self.block.as_deref() else { return false };
        let end = block.span(at).1;
        block.entry(at).is_ok_and(|entry| self.step_onto(at, entry, end, seqno))
    }

    #[inline(always)]
    fn step_onto(&mut self, at: usize, entry: Entry, end: usize, seqno: Seqno) -> bool {
        let Some(block) = self.block.as_deref() else { return false };
        if !block.is_plain(&entry, end, seqno) || self.key.put(block, at, &entry).is_err() {
            return false;
        }
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            let record = block.record_to(at, &entry, end, self.key.get());
            if !self.table.judge().passes(&record) || !block.ends_at(end) {
                self.step_back_to_standing();
                return false;
            }
            self.left = self.every;
        }
        self.at = at;
        self.entry = Some(entry);
        true
    }

    /// The entry that the cursor was about to stand on has not passed its check: the key is the one before again, and the next entry is checked.
    #[cold]
    #[inline(never)]
    fn step_back_to_standing(&mut self) {
        self.left = 1;
        if let (Some(block), Some(entry)) = (self.block.as_deref(), &self.entry) {
            // It was put together from the same bytes.
            let _ = self.key.put(block, self.at, entry);
        }
    }

    /// The key under the cursor, which stands in a block.
    #[inline]
    pub(crate) fn standing_key(&self) -> &[u8] {
        self.key.get()
    }

    /// The value under the cursor, which stands in a block.
    #[inline]
    pub(crate) fn standing_value(&self) -> &[u8] {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.value(entry),
            _ => &[],
        }
    }
}

impl Block {
    /// The farthest place from `at` in a direction up to which all keys come before `limit`; none if that at `at` does not.
    fn last_before(&self, at: usize, forward: bool, limit: &[u8], order: &Order) -> Option<usize> {
        match self.heads_beside(limit) {
            // Among equal heads only whole keys could tell: they are left out.
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

    /// True if a record is a value that a reader at a seqno sees, and that is not over: there is nothing beside it but a word. `end` is
    /// where the next entry begins.
    #[inline]
    fn is_plain(&self, entry: &Entry, end: usize, seqno: Seqno) -> bool {
        entry.kind == Kind::Put
            && (self.seqno(entry) <= seqno || planted::active(Bug::ScanStepIgnoresItsSeqno))
            && self.is_bare(entry, end)
    }
}
