//! Ends of frames in the ring: where a drain may stop before it has all that is whole.
//!
//! In:     the ends of frames, in the order of the log. Out: the last one up to an offset.
//! Holds:  one for each so many bytes, as many as the ring has room for: who waits for room waits for a piece of the ring and not for all of it.

use std::collections::VecDeque;

use super::Limits;
use super::segment::PAGE;

/// Ends of frames in the ring, one for each so many bytes: where a drain may stop, and the ring has room again.
pub(super) struct FrameEnds {
    spacing: u64,
    /// A frame that ends here or behind is marked.
    next: u64,
    ends: VecDeque<u64>,
}

impl FrameEnds {
    pub(super) fn new(limits: &Limits) -> FrameEnds {
        let spacing = (limits.drain_bytes / 8).max(PAGE);
        FrameEnds { spacing, next: 0, ends: VecDeque::with_capacity((limits.ring_bytes / spacing) as usize + 2) }
    }

    /// True if a frame that ends there is marked.
    #[inline(always)]
    pub(super) fn wants(&self, end: u64) -> bool {
        end >= self.next
    }

    #[cold]
    pub(super) fn push(&mut self, end: u64) {
        self.ends.push_back(end);
        self.next = end + self.spacing;
    }

    /// The last one that is not behind an offset.
    pub(super) fn last_up_to(&self, offset: u64) -> Option<u64> {
        let behind = self.ends.partition_point(|end| *end <= offset);
        self.ends.get(behind.checked_sub(1)?).copied()
    }

    pub(super) fn forget_up_to(&mut self, offset: u64) {
        while self.ends.front().is_some_and(|end| *end <= offset) {
            self.ends.pop_front();
        }
    }
}
