//! Views of a family that were replaced while readers held them.
//!
//! A cursor that stays open keeps the memtables and files of its view. It is not registered anywhere, so that opening one
//! costs nothing; instead, each change of the view remembers the old one, without holding it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::env::work::lock;

/// The replaced views of one family, whose type is `T`.
pub(super) struct ReplacedViews<T> {
    /// The time of each replacement in monotonic nanoseconds, ascending, and the replaced view.
    views: Mutex<Vec<(u64, Weak<T>)>>,
    /// The time of the last view that was reported as old.
    reported: AtomicU64,
}

impl<T> Default for ReplacedViews<T> {
    fn default() -> ReplacedViews<T> {
        ReplacedViews { views: Mutex::default(), reported: AtomicU64::new(0) }
    }
}

impl<T> ReplacedViews<T> {
    /// Adds a view that was replaced at `now`, and forgets those that nobody holds.
    pub(super) fn add(&self, view: &Arc<T>, now: u64) {
        let mut views = lock(&self.views);
        views.retain(|(_, view)| view.strong_count() > 0);
        views.push((now, Arc::downgrade(view)));
    }

    /// Returns the time at which the oldest view that is still held was replaced.
    pub(super) fn oldest(&self) -> Option<u64> {
        lock(&self.views).iter().find(|(_, view)| view.strong_count() > 0).map(|(at, _)| *at)
    }

    /// Returns the age in nanoseconds of the oldest view, once, if it is above `most`.
    pub(super) fn newly_old(&self, now: u64, most: u64) -> Option<u64> {
        let oldest = self.oldest()?;
        let age = now.saturating_sub(oldest);
        (age > most && self.reported.swap(oldest, Ordering::Relaxed) != oldest).then_some(age)
    }
}
