//! Counters of one log.

use std::sync::atomic::AtomicU64;

/// Counters of one log.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names are the sentences")]
pub struct LogMetrics {
    pub waits_for_room: AtomicU64,
    pub waits_for_segment: AtomicU64,
    pub waits_for_queue: AtomicU64,
    pub longest_wait_nanos: AtomicU64,
    pub drains: AtomicU64,
    pub drained_bytes: AtomicU64,
    pub groups: AtomicU64,
    pub syncs: AtomicU64,
    pub turnovers: AtomicU64,
    pub segments_made: AtomicU64,
    pub segments_recycled: AtomicU64,
    pub zeroed_bytes: AtomicU64,
    pub zeroed_ahead_bytes: AtomicU64,
    pub frames: AtomicU64,
    pub frame_bytes: AtomicU64,
    pub large_frames: AtomicU64,
    pub filler_bytes: AtomicU64,
}
