//! A listener that keeps a part of the events.

use std::fmt;
use std::sync::{Arc, Mutex};

use waxseal_lsm::db::{Event, Listener};

/// Keeps what a function makes of each event, in order.
pub struct Heard<T> {
    pick: fn(&Event) -> Option<T>,
    kept: Mutex<Vec<T>>,
}

impl<T> Heard<T> {
    /// Returns a listener that keeps what `pick` returns.
    pub fn new(pick: fn(&Event) -> Option<T>) -> Arc<Heard<T>> {
        Arc::new(Heard { pick, kept: Mutex::default() })
    }

    /// Returns all that was kept since the last call.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.kept.lock().unwrap())
    }

    /// Returns all that was kept.
    pub fn all(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.kept.lock().unwrap().clone()
    }
}

impl<T: Send> Listener for Heard<T> {
    fn on_event(&self, event: &Event) {
        if let Some(kept) = (self.pick)(event) {
            self.kept.lock().unwrap().push(kept);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Heard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(f)
    }
}
