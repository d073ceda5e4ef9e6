//! Fences that a cursor meets: which it tells of, and when.
//!
//! In:     a fence under the inner cursor. Out: its error, once; or nothing, where it hides nothing from this cursor.
//! Holds:  a fence over several keys may hide any of them, so it is told of wherever the walk enters it. One over versions of a single key
//!         is told of only if no newer version decides: forward that one comes first, backward the fence waits for it (`pending`).

use super::{Place, UserCursor};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::fence::Fence;

impl UserCursor {
    /// The inner cursor stands on a fence. If it was not known, answers its error, now or (`later`) at the next step.
    #[cold]
    #[inline(never)]
    pub(super) fn meet(&mut self, later: bool) -> Result<()> {
        let fence = Fence::shown(&self.inner.record())?;
        let is_outside = self.is_below(&fence.to.0) || self.is_above(&fence.from.0);
        let is_newer = self.only_key(&fence).is_some_and(|key| !fence.may_hide(&self.order, key, self.seqno));
        if is_outside || is_newer || self.fences.contains(&fence) {
            return Ok(());
        }
        self.fences.push(fence);
        if later {
            self.pending += 1;
            return Ok(());
        }
        self.place = Place::Fence;
        Err(self.error_of(self.fences.len() - 1))
    }

    /// On the way back the inner cursor stands on a fence. One over versions of a single key waits for those that stand before it: the
    /// newest of them may decide.
    #[cold]
    #[inline(never)]
    pub(super) fn meet_backward(&mut self) -> Result<()> {
        let record = self.inner.record();
        let is_of_one_key = self.only_key(&Fence::shown(&record)?).is_some();
        if self.pending == 0 && is_of_one_key {
            self.saved.set(&record);
        }
        self.meet(self.pending > 0 || is_of_one_key)
    }

    /// True of a fence over versions of a single key if none of them is visible, or the key was dealt with: it hides nothing from this
    /// cursor. The inner cursor stands on it.
    #[cold]
    #[inline(never)]
    pub(super) fn is_decided(&self) -> Result<bool> {
        let record = self.inner.record();
        let fence = Fence::shown(&record)?;
        let hides = |key: &[u8]| fence.may_hide(&self.order, key, self.seqno);
        let is_seen = || self.seen.is(&self.order, &self.inner.lead(), record.key);
        Ok(self.only_key(&fence).is_some_and(|key| !hides(key) || is_seen()))
    }

    /// The key, if a fence spans versions of no other one. Of a record in memory (in no file) the key itself may be wrong.
    fn only_key<'f>(&self, fence: &'f Fence) -> Option<&'f [u8]> {
        fence.only_key(&self.order).filter(|_| !fence.file.is_empty())
    }

    /// Forgets the fences that wait and span only the saved key: its newest version decides.
    #[cold]
    pub(super) fn drop_decided(&mut self) {
        let waiting = self.fences.split_off(self.fences.len() - self.pending);
        let key = self.saved.record().key;
        let is_of_key = |fence: &Fence| self.only_key(fence).is_some_and(|only| self.order.compare(only, key).is_eq());
        let waiting: Vec<Fence> = waiting.into_iter().filter(|fence| !is_of_key(fence)).collect();
        self.pending = waiting.len();
        self.fences.extend(waiting);
    }

    /// Answers the error of a fence that was met on the way and is not told of; the cursor then stands where it did and shows
    /// nothing.
    #[inline]
    pub(super) fn tell_pending(&mut self) -> Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        self.place = Place::Told;
        let number = self.fences.len() - self.pending;
        self.pending -= 1;
        Err(self.error_of(number))
    }

    #[cold]
    fn error_of(&self, number: usize) -> Error {
        let none = || Error::structural("a fence that is not there");
        let fence = self.fences.get(number);
        let error = self.named(fence.map_or_else(none, Fence::error));
        // One in no file stands for a record in memory.
        if let (Some(fence), Some(values)) = (fence, &self.values)
            && fence.file.is_empty()
        {
            values.damaged_in_memory(fence.offset, &error);
        }
        error
    }

    /// True if the saved record may be older than one that was lost.
    #[cold]
    pub(super) fn is_saved_covered(&mut self) -> bool {
        let (record, order) = (self.saved.record(), &self.order);
        if self.pending == 0 {
            self.fences.retain(|fence| order.compare(&fence.from.0, record.key).is_le());
        }
        self.fences.iter().any(|fence| fence.covers_at(order, record.key, record.seqno, self.seqno))
    }

    /// The walk back has come to its end: fences of a key of which no version decides are told of.
    pub(super) fn tell_pending_unless_shown(&mut self) -> Result<()> {
        if self.place == Place::Nowhere { self.tell_pending() } else { Ok(()) }
    }
}
