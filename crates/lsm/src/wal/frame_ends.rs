//! Ends of frames in the ring: offsets where a drain may stop before it has drained everything.
//!
//! In:     the ends of frames, in log order. Out: the last end up to an offset.
//! Holds:  one end per `spacing` bytes, as many as the ring has room for, so a thread that waits for room waits for a
//!         piece of the ring, not for all of it.

use std::collections::VecDeque;

use super::limits::LogLimits;
use super::segment::PAGE;

/// Frame ends in the ring, one per `spacing` bytes, at which a drain may stop and free room.
pub(super) struct FrameEnds {
    spacing: u64,
    /// The next end to record is at or above this offset.
    next: u64,
    ends: VecDeque<u64>,
}

impl FrameEnds {
    pub(super) fn new(limits: &LogLimits) -> FrameEnds {
        let spacing = (limits.drain_bytes / 8).max(PAGE);
        FrameEnds { spacing, next: 0, ends: VecDeque::with_capacity((limits.ring_bytes / spacing) as usize + 2) }
    }

    /// True if a frame end at this offset is to be recorded.
    #[inline(always)]
    pub(super) fn wants(&self, end: u64) -> bool {
        end >= self.next
    }

    #[cold]
    pub(super) fn push(&mut self, end: u64) {
        self.ends.push_back(end);
        self.next = end + self.spacing;
    }

    /// Returns the last recorded end at or below an offset.
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
