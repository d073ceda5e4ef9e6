//! The lost ranges (fences) that a cursor encounters: which of them it reports, and when.
//!
//! In:     a fence at the inner cursor's position. Out: its error, once; or no error, if this fence hides no record
//!         from the cursor.
//! Holds:  a fence over several keys may hide any of them, so it is reported wherever the walk enters it. A fence over
//!         versions of a single key is reported only if no newer version is the result: forward the newer version comes
//!         first; backward the fence waits for it (`pending`).

use super::{Place, UserCursor};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::fence::Fence;

impl UserCursor {
    /// Handles a fence at the inner cursor's position. A fence that was not known is reported as an error, now or
    /// (`later`) at the next step.
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

    /// Handles a fence on the way back. A fence over versions of a single key waits for the versions before it: the
    /// newest of them may be the result.
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

    /// True for a fence over versions of a single key if none of them is visible, or the key is already decided: it
    /// hides nothing from this cursor. The inner cursor is at the fence.
    #[cold]
    #[inline(never)]
    pub(super) fn is_decided(&self) -> Result<bool> {
        let record = self.inner.record();
        let fence = Fence::shown(&record)?;
        let hides = |key: &[u8]| fence.may_hide(&self.order, key, self.seqno);
        let is_seen = || self.seen.is(&self.order, &self.inner.lead(), record.key);
        Ok(self.only_key(&fence).is_some_and(|key| !hides(key) || is_seen()))
    }

    /// Returns the key, if a fence spans versions of one key only. For a damaged record in memory (in no file) the key
    /// itself may be wrong.
    fn only_key<'f>(&self, fence: &'f Fence) -> Option<&'f [u8]> {
        fence.only_key(&self.order).filter(|_| !fence.file.is_empty())
    }

    /// Drops the pending fences that span only the saved key: its newest version is the result.
    #[cold]
    pub(super) fn drop_decided(&mut self) {
        let waiting = self.fences.split_off(self.fences.len() - self.pending);
        let key = self.saved.record().key;
        let is_of_key = |fence: &Fence| self.only_key(fence).is_some_and(|only| self.order.compare(only, key).is_eq());
        let waiting: Vec<Fence> = waiting.into_iter().filter(|fence| !is_of_key(fence)).collect();
        self.pending = waiting.len();
        self.fences.extend(waiting);
    }

    /// Returns the error of an unreported fence from the way here; the cursor then keeps its position and shows no
    /// record.
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
        // A fence in no file stands for a record in memory.
        if let (Some(fence), Some(values)) = (fence, &self.values)
            && fence.file.is_empty()
        {
            values.damaged_in_memory(fence.offset, &error);
        }
        error
    }

    /// True if the saved record may be older than a lost one.
    #[cold]
    pub(super) fn is_saved_covered(&mut self) -> bool {
        let (record, order) = (self.saved.record(), &self.order);
        if self.pending == 0 {
            self.fences.retain(|fence| order.compare(&fence.from.0, record.key).is_le());
        }
        self.fences.iter().any(|fence| fence.covers_at(order, record.key, record.seqno, self.seqno))
    }

    /// Reports, at the end of a backward walk, pending fences over a key of which no version was shown.
    pub(super) fn tell_pending_unless_shown(&mut self) -> Result<()> {
        if self.place == Place::Nowhere { self.tell_pending() } else { Ok(()) }
    }
}
