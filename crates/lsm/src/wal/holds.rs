//! The queue of holds on the order: which hold is served, and which holds a commit waits for. `hold.rs` waits for them.

use std::collections::VecDeque;

/// The number of a hold. The default is no hold at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HoldId(u32);

impl HoldId {
    /// Stands for every hold.
    pub(super) const ANY: HoldId = HoldId(u32::MAX);

    fn next(self) -> HoldId {
        HoldId(if self.0 >= u32::MAX - 1 { 1 } else { self.0 + 1 })
    }

    /// True if this hold was taken after `other`. The numbers wrap around.
    fn is_after(self, other: HoldId) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }
}

/// The holds on an order, the one being served first.
#[derive(Debug, Default)]
pub(super) struct HoldQueue {
    queue: VecDeque<HoldId>,
    /// The hold that was taken last.
    pub last: HoldId,
}

impl HoldQueue {
    /// True if there is a hold.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Adds a hold, the last one to be served.
    pub(super) fn push(&mut self) -> HoldId {
        self.last = self.last.next();
        self.queue.push_back(self.last);
        self.last
    }

    /// Returns the hold being served.
    pub(super) fn first(&self) -> Option<HoldId> {
        self.queue.front().copied()
    }

    /// Removes a hold; returns false if it has already ended.
    pub(super) fn end(&mut self, id: HoldId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|hold| *hold != id);
        self.queue.len() < before
    }

    /// Returns the hold being served if it precedes every hold taken after `upto`.
    pub(super) fn first_through(&self, upto: HoldId) -> Option<HoldId> {
        self.first().filter(|first| !first.is_after(upto))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around_and_are_never_none_or_any() {
        let mut id = HoldId(u32::MAX - 2);
        for _ in 0..4 {
            let next = id.next();
            assert!(next.is_after(id) && !id.is_after(next));
            assert!(next != HoldId::ANY && next != HoldId::default());
            id = next;
        }
    }

    #[test]
    fn a_waiting_commit_sees_only_the_holds_that_it_found() {
        let mut holds = HoldQueue::default();
        let (first, second) = (holds.push(), holds.push());
        assert_eq!(holds.first_through(first), Some(first));
        assert!(holds.end(first) && !holds.end(first));
        assert_eq!(holds.first_through(first), None);
        assert_eq!(holds.first_through(second), Some(second));
    }
}
