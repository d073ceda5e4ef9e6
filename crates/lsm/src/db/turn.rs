//! The turn of a job: one at a time flushes, creates, drops, ingests or copies.
//!
//! Holds: at its end, whatever came of it, the listener hears what happened meanwhile, when no lock is held any more.

use std::sync::MutexGuard;

use super::Inner;
use crate::env::work::lock;
use crate::error::{Error, Result};

/// The turn to flush, create, drop, ingest or copy.
pub(super) struct JobTurn<'a> {
    inner: &'a Inner,
    turn: Option<MutexGuard<'a, ()>>,
}

impl Inner {
    /// Waits for its turn; `Closed` if the store closed meanwhile.
    pub(super) fn job(&self) -> Result<JobTurn<'_>> {
        let turn = lock(&self.jobs_lock);
        if self.background.is_stopping() { Err(Error::closed()) } else { Ok(JobTurn { inner: self, turn: Some(turn) }) }
    }
}

impl Drop for JobTurn<'_> {
    fn drop(&mut self) {
        self.turn = None;
        if !std::thread::panicking() {
            self.inner.tell_noted();
        }
    }
}
