//! The data of one step in progress: facts shared by all threads, and the counters of each thread.

use super::{Plan, Step};
use crate::engine::Engine;
use crate::measure::Laps;
use crate::workload::Keys;
use std::sync::atomic::AtomicU64;

/// The results of threads.
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) found: u64,
    pub(super) touched: u64,
    pub(super) laps: Laps,
    /// For `mixed`: one entry per window.
    pub(super) windows: Vec<Laps>,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { ops: 0, found: 0, touched: 0, laps: Laps::new(), windows: Vec::new() }
    }

    /// Merges another thread's windows; windows of the same time are combined.
    pub(super) fn absorb_windows(&mut self, others: Vec<Laps>) {
        for (place, other) in others.into_iter().enumerate() {
            match self.windows.get_mut(place) {
                Some(window) => window.absorb(&other),
                None => self.windows.push(other),
            }
        }
    }
}

/// One step in progress.
pub(super) struct Drive<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a dyn Engine,
    pub(super) keys: &'a Keys,
    pub(super) step: Step,
    pub(super) place: u64,
    pub(super) inserted: AtomicU64,
}
