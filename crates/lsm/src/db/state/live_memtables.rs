//! The memtables of a store that anybody holds: views that are current or replaced, cursors, snapshots and jobs. A memtable
//! of a dropped family is among them until its last reader is gone.

use std::sync::{Arc, Mutex, Weak};

use crate::env::work::lock;
use crate::record::Seqno;

/// The memtables of a store, whose type is `T`. Does not hold them.
#[derive(Debug)]
pub(crate) struct LiveMemtables<T>(Mutex<Vec<Weak<T>>>);

impl<T> Default for LiveMemtables<T> {
    fn default() -> LiveMemtables<T> {
        LiveMemtables(Mutex::default())
    }
}

impl<T> LiveMemtables<T> {
    /// Adds a memtable that has no record yet.
    pub(super) fn add(&self, memtable: &Arc<T>) {
        let mut memtables = lock(&self.0);
        if memtables.len() == memtables.capacity() {
            memtables.retain(|memtable| memtable.strong_count() > 0);
            let live = memtables.len();
            memtables.reserve(live + 1); // scanning the list for every new memtable would take quadratic time
        }
        memtables.push(Arc::downgrade(memtable));
    }

    /// Returns the least seqno of the records of all memtables; `oldest` returns that of one memtable.
    pub(crate) fn oldest_seqno(&self, oldest: impl Fn(&T) -> Option<Seqno>) -> Option<Seqno> {
        // Dropped after the lock: the last holder of a memtable frees it.
        let live: Vec<Arc<T>> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        live.iter().filter_map(|memtable| oldest(memtable)).min()
    }
}
