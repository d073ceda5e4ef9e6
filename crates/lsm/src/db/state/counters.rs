//! Counters of background work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compaction::output::{FilterCounts, PassResult};

/// Counters of background work; written by jobs, never by reads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(in crate::db) flushes: AtomicU64,
    pub(in crate::db) flushed_bytes: AtomicU64,
    pub(in crate::db) compactions: AtomicU64,
    pub(in crate::db) moves: AtomicU64,
    pub(in crate::db) compacted_read: AtomicU64,
    pub(in crate::db) compacted_written: AtomicU64,
    pub(in crate::db) parts: AtomicU64,
    pub(in crate::db) stalls: AtomicU64,
    pub(in crate::db) stall_nanos: AtomicU64,
    pub(in crate::db) longest_stall_nanos: AtomicU64,
    pub(in crate::db) rotations: AtomicU64,
    pub(in crate::db) operands_folded: AtomicU64,
    pub(in crate::db) merge_failures: AtomicU64,
    pub(in crate::db) mended: AtomicU64,
    pub(in crate::db) adopted: AtomicU64,
    pub(in crate::db) values_moved: AtomicU64,
    pub(in crate::db) values_unreadable: AtomicU64,
    pub(in crate::db) log_freezes: AtomicU64,
    pub(in crate::db) expired: AtomicU64,
    pub(in crate::db) filter_dropped: AtomicU64,
    pub(in crate::db) filter_changed: AtomicU64,
    pub(in crate::db) filter_failures: AtomicU64,
    pub(in crate::db) filter_unreadable: AtomicU64,
    pub(in crate::db) dropped_tables: AtomicU64,
    pub(in crate::db) dropped_bytes: AtomicU64,
    /// Bytes of the files that a running backup or checkpoint still keeps.
    pub(in crate::db) pinned_bytes: Arc<AtomicU64>,
}

impl Counters {
    pub(crate) fn flushed(&self, bytes: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn frozen_for_log(&self, memtables: usize) {
        self.log_freezes.fetch_add(memtables as u64, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn compacted(&self, read: u64, written: u64) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.compacted_read.fetch_add(read, Ordering::Relaxed);
        self.compacted_written.fetch_add(written, Ordering::Relaxed);
    }

    /// Counts the cuts that divided a compaction into subcompactions.
    pub(crate) fn divided(&self, cuts: usize) {
        self.parts.fetch_add(cuts as u64, Ordering::Relaxed);
    }

    /// Counts the companions that a flush or compaction restored or added, the operands it folded, and the values it
    /// moved.
    pub(crate) fn built(&self, written: &PassResult) {
        self.operands_folded.fetch_add(written.operands_folded, Ordering::Relaxed);
        self.merge_failures.fetch_add(written.merge_failures, Ordering::Relaxed);
        self.mended.fetch_add(written.mended, Ordering::Relaxed);
        self.adopted.fetch_add(written.adopted, Ordering::Relaxed);
        self.values_moved.fetch_add(written.values_moved, Ordering::Relaxed);
        self.values_unreadable.fetch_add(written.values_unreadable, Ordering::Relaxed);
    }

    /// Counts the expired records that an edit dropped.
    pub(crate) fn expired(&self, records: u64) {
        self.expired.fetch_add(records, Ordering::Relaxed);
    }

    /// Counts the results of a compaction filter, after the edit that shows them.
    pub(crate) fn filtered(&self, filtered: &FilterCounts) {
        self.filter_dropped.fetch_add(filtered.dropped.count(), Ordering::Relaxed);
        self.filter_changed.fetch_add(filtered.changed.count(), Ordering::Relaxed);
        self.filter_failures.fetch_add(filtered.failures, Ordering::Relaxed);
        self.filter_unreadable.fetch_add(filtered.unreadable, Ordering::Relaxed);
    }

    /// Counts tables dropped without reading them, and their bytes including the blob files' share.
    pub(crate) fn dropped(&self, tables: u64, bytes: u64) {
        self.dropped_tables.fetch_add(tables, Ordering::Relaxed);
        self.dropped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn rotated(&self) {
        self.rotations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stalled(&self, nanos: u64) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.stall_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.longest_stall_nanos.fetch_max(nanos, Ordering::Relaxed);
    }
}
