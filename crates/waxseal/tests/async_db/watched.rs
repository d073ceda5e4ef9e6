//! A file system that remembers which threads touched it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use waxseal::env::RealFs;
use waxseal_testing::fs::{FsHook, HookedFs};

/// The threads that touched a file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched(Arc<Mutex<HashSet<ThreadId>>>);

impl FsHook for Touched {
    fn on_call(&self) {
        self.0.lock().unwrap().insert(std::thread::current().id());
    }
}

impl Touched {
    /// Returns the real file system under observation.
    pub(crate) fn watching() -> (HookedFs<Touched>, Touched) {
        HookedFs::new(Arc::new(RealFs))
    }

    pub(crate) fn threads(&self) -> HashSet<ThreadId> {
        self.0.lock().unwrap().clone()
    }
}
