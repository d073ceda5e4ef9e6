//! Fast steps that read only the entry they lead to.
//!
//! In:    a cursor in a block, and the current key of another source, or a bound.
//! Out:   how far it may step in its block before it reaches that key, and steps within that run.
//! Holds: within the run, no key has two versions, and no key is in another source. A fast step to an entry that is not
//!        a visible value, or that fails its check, is refused: the cursor stays where it is, and the caller uses the
//!        regular moves.

use std::cmp::Ordering;

use super::cursor::TableCursor;
use crate::cursor::Cursor;
use crate::planted;
use crate::record::Seqno;
use crate::sst::block::block::Block;
use crate::sst::block::entry::BlockEntry;

impl TableCursor {
    /// Returns the end of the run: the last position in a direction to which the cursor may take fast steps. Every key
    /// of the run has one version only, and precedes `limit`. Returns `None` if even the current key does not precede
    /// `limit`, or the cursor is not in a block.
    ///
    /// A backward run ends before the first entry of a block: the block before may hold a newer version of its key.
    pub(crate) fn run_end(&self, forward: bool, limit: Option<&[u8]>) -> Option<usize> {
        let block = self.block.as_deref().filter(|block| self.entry.is_some() && !block.has_versions)?;
        planted!(ScanOverrunsItsReach => let limit = None);
        let farthest = match limit {
            None if forward => block.len() - 1,
            None => 0,
            Some(limit) => {
                let farthest = block.last_before(self.at, forward, limit, &self.table.records.order)?;
                // Heads damaged in memory may extend the run too far. If every record is checked, check the run's last
                // record and compare it with the limit: the run's other records precede it.
                if self.every == 1 && farthest != self.at && !self.is_before_limit(block, farthest, forward, limit) {
                    return None;
                }
                farthest
            }
        };
        if forward { Some(farthest) } else { Some(farthest.max(1)).filter(|first| *first <= self.at) }
    }

    /// Returns true if the record at a position passes its check and is before `limit` in a direction.
    #[inline(never)]
    fn is_before_limit(&self, block: &Block, at: usize, forward: bool, limit: &[u8]) -> bool {
        let ahead = if forward { Ordering::Less } else { Ordering::Greater };
        self.table.records.is_whole(block, at, |key, _| self.table.records.order.compare(key, limit) == ahead)
    }

    /// Returns key and seqno of the record under the cursor.
    #[inline]
    pub(crate) fn current_position(&self) -> (&[u8], Seqno) {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => (self.key.get(), block.seqno(entry)),
            _ => {
                let record = self.record();
                (record.key, record.seqno)
            }
        }
    }

    /// Returns true if the cursor is in a whole block, not in a damaged one.
    #[inline]
    pub(crate) fn is_in_block(&self) -> bool {
        self.entry.is_some()
    }

    /// Returns the position in its block.
    #[inline]
    pub(crate) fn place_in_block(&self) -> usize {
        self.at
    }

    /// Returns the number of records before the cursor in this block, and the block's number of records. `None` if the
    /// cursor is in another block.
    pub(in crate::sst) fn share_before(&self, number: usize) -> Option<(usize, usize)> {
        let block = self.block.as_deref().filter(|_| self.entry.is_some() && self.number == number)?;
        Some((self.at, block.len()))
    }

    /// Returns true if a reader at this seqno sees the record under the cursor, whatever else the block holds.
    #[inline]
    pub(crate) fn is_plain(&self, seqno: Seqno) -> bool {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.is_plain(entry, block.span(self.at).1, seqno),
            _ => false,
        }
    }

    /// Steps to a position within the run. Returns false, without moving, if the record there needs a regular step.
    #[inline]
    pub(crate) fn step_to(&mut self, at: usize, seqno: Seqno) -> bool {
        let Some(block) = self.block.as_deref() else { return false };
        let (from, end) = block.span(at);
        match BlockEntry::short_put(block.bytes(), from) {
            Some(entry) => self.step_onto(at, entry, end, seqno),
            None => self.step_longer(at, seqno),
        }
    }

    /// As `step_to`, for an entry with longer parts.
    #[inline(never)]
    fn step_longer(&mut self, at: usize, seqno: Seqno) -> bool {
        let Some(block) = self.block.as_deref() else { return false };
        let end = block.span(at).1;
        block.entry(at).is_ok_and(|entry| self.step_onto(at, entry, end, seqno))
    }

    #[inline(always)]
    fn step_onto(&mut self, at: usize, entry: BlockEntry, end: usize, seqno: Seqno) -> bool {
        let Some(block) = self.block.as_deref() else { return false };
        if !block.is_plain(&entry, end, seqno) || self.key.put(block, at, &entry).is_err() {
            return false;
        }
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            let record = block.record_to(at, &entry, end, self.key.get());
            if !self.table.records.passes(&record) || !block.ends_at(end) {
                self.restore_key();
                return false;
            }
            self.left = self.every;
        }
        self.at = at;
        self.entry = Some(entry);
        true
    }

    /// Handles an entry that failed its check: restores the previous key, and makes the next entry be checked.
    #[cold]
    #[inline(never)]
    fn restore_key(&mut self) {
        self.left = 1;
        if let (Some(block), Some(entry)) = (self.block.as_deref(), &self.entry) {
            // Cannot fail: the key was assembled from the same bytes before.
            let _ = self.key.put(block, self.at, entry);
        }
    }

    /// Returns the key under the cursor, which must be in a block.
    #[inline]
    pub(crate) fn current_key(&self) -> &[u8] {
        self.key.get()
    }

    /// Returns the value under the cursor, which must be in a block.
    #[inline]
    pub(crate) fn current_value(&self) -> &[u8] {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.value(entry),
            _ => &[],
        }
    }
}
