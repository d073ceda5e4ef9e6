//! Sizes that decide whether a frame goes to the ring, and to which segment.

use super::segment::PAGE;

/// Sizes of one log, from its settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    /// Length of an ordinary segment's file.
    pub segment_bytes: u64,
    /// Bytes of the ring; 0 in plain mode.
    pub ring_bytes: u64,
    /// A drain is due at this many bytes.
    pub drain_bytes: u64,
    /// A batch up to this length is short for any segment and ring.
    pub easy_bytes: u64,
}

impl LogLimits {
    /// File length of the segment of an idle log: 1/8 of the usual length. When writes resume, the next segment is
    /// ready before this one is full.
    pub(super) fn short_bytes(&self) -> u64 {
        (self.segment_bytes / 8 / PAGE * PAGE).max(4 * PAGE)
    }

    /// Bytes of a segment that are zero-filled before use if it follows a short segment: few, so that resuming writes
    /// is cheap. If commits are synced, the log leaves it early for a fully zero-filled segment, as soon as one is
    /// ready.
    pub(super) fn first_zeros(&self) -> u64 {
        (self.segment_bytes / 16 / PAGE * PAGE).max(4 * PAGE).min(self.segment_bytes)
    }
}
