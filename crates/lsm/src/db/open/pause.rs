//! Pauses of background work.

use std::fmt;
use std::sync::Arc;

use super::inner::StoreInner;
use crate::error::Result;

/// A pause of the store's background work: while it lives, no flush and no compaction starts by itself. Created by
/// `Db::pause_background`; dropping the last one resumes the work.
#[must_use = "the pause ends when this is dropped"]
pub struct BackgroundPause {
    inner: Arc<StoreInner>,
}

impl BackgroundPause {
    /// Begins a pause, and waits for running jobs to end.
    pub(in crate::db) fn begin(inner: &Arc<StoreInner>) -> Result<BackgroundPause> {
        inner.lanes().pause();
        let pause = BackgroundPause { inner: inner.clone() };
        inner.lanes().wait_for_pause().map(|()| pause)
    }
}

impl Drop for BackgroundPause {
    fn drop(&mut self) {
        self.inner.lanes().resume();
    }
}

impl fmt::Debug for BackgroundPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackgroundPause")
    }
}
