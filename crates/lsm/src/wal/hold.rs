//! Holds: lets one optimistic commit after another have the order for itself.
//!
//! An optimistic commit (`Precondition::unchanged_since`) is rejected if any other commit was ordered meanwhile, so
//! beside fast writers it might never succeed. After a few rejections its thread takes a hold: until the hold ends,
//! commits of other threads wait before they are ordered.
//!
//! Holds:  holds are served in the order in which they were taken. A commit waits only for the holds that it finds, so
//!         neither side starves.
//! Bound:  a hold is no lock. A thread that has waited `LONGEST` for one hold ends it and goes on. The late holder's
//!         commit is then checked like any other, and may be rejected.
//! Costs:  nothing without a hold, except a comparison in the contended path. A hold turns the fast path off
//!         (`FrameOrder::easy_until`).

use std::fmt;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::env::work::Mode;

use super::holds::HoldId;
use super::order::FrameOrder;
use super::stream::FrameStream;

/// Longest time that a thread waits for one hold.
const LONGEST: Duration = Duration::from_millis(10);

/// A hold on the order of a log; it ends when dropped.
pub struct Hold<'a, T> {
    stream: &'a FrameStream<T>,
    id: HoldId,
}

impl<T> Hold<'_, T> {
    /// Returns the number by which a commit passes the hold.
    pub(crate) fn id(&self) -> HoldId {
        self.id
    }

    /// True until another thread has waited too long for the hold and ended it.
    pub fn is_served(&self) -> bool {
        self.stream.order.lock().holds.first() == Some(self.id)
    }
}

impl<T> fmt::Debug for Hold<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<T> Drop for Hold<'_, T> {
    fn drop(&mut self) {
        self.stream.end_hold(&mut self.stream.order.lock(), self.id);
    }
}

impl<T> FrameStream<T> {
    /// Takes a hold, after the holds taken before.
    pub(super) fn hold(&self) -> Hold<'_, T> {
        let mut order = self.order.lock();
        let id = order.hold();
        self.is_held.store(true, Ordering::Relaxed);
        while let Some(first) = order.holds.first_through(id)
            && first != id
        {
            order = self.await_end(order, first).0;
        }
        Hold { stream: self, id }
    }

    /// Waits until the holds that exist now have ended, except the thread's own. Waits at most `LONGEST` for one hold,
    /// then ends it and returns.
    pub(super) fn pass_holds<'a>(
        &'a self,
        mut order: MutexGuard<'a, FrameOrder<T>>,
        own: HoldId,
    ) -> MutexGuard<'a, FrameOrder<T>> {
        let (upto, mut took_too_long) = (order.holds.last, false);
        while let Some(first) = order.holds.first_through(upto)
            && first != own
            && !took_too_long
        {
            (order, took_too_long) = self.await_end(order, first);
        }
        order
    }

    /// Waits for the end of the hold being served. Returns true if it took too long and was ended here. The only thread
    /// of stepped mode ends it at once.
    fn await_end<'a>(
        &'a self,
        mut order: MutexGuard<'a, FrameOrder<T>>,
        first: HoldId,
    ) -> (MutexGuard<'a, FrameOrder<T>>, bool) {
        let mut took_too_long = self.env.work == Mode::Stepped;
        if !took_too_long {
            (order, took_too_long) = self.hold_ended.wait_at_most(order, LONGEST);
        }
        took_too_long &= order.holds.first() == Some(first);
        if took_too_long {
            self.end_hold(&mut order, first);
        }
        (order, took_too_long)
    }

    fn end_hold(&self, order: &mut FrameOrder<T>, id: HoldId) {
        if order.holds.end(id) {
            self.is_held.store(order.holds.is_held(), Ordering::Relaxed);
            self.hold_ended.wake_all();
        }
    }
}
