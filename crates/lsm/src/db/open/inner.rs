//! The open store behind its handles, and closing it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::directory::StoreLocks;
use super::recover::RecoveryReport;
use crate::db::catalog::Catalog;
use crate::db::jobs::compact::Compactor;
use crate::db::jobs::job_lock::Flusher;
use crate::db::notify::lanes::LaneSignals;
use crate::db::notify::notifier::Notifier;
use crate::db::state::context::{StoreContext, reach};
use crate::db::state::snapshot::Snapshot;
use crate::db::state::store_log::StoreLog;
use crate::db::writes::write_path::WritePath;
use crate::env::Origin;
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::merge_operator::MergeOperator;
use crate::options::CfOptions;
use crate::order::Order;

/// An open store: the topmost owner, and what belongs to the handle.
pub(crate) struct StoreInner {
    pub(in crate::db) compactor: Compactor,
    /// No other store shares the cache.
    pub(in crate::db) owns_cache: bool,
    pub(in crate::db) origin: Origin,
    pub(in crate::db) closed: AtomicBool,
    /// True after `refuse_writes`: the store rejects writes until it is reopened.
    pub(in crate::db) refusing: AtomicBool,
    pub(in crate::db) recovery: Mutex<RecoveryReport>,
    pub(in crate::db) given: GivenByName,
    pub(super) store_lock: Mutex<Option<StoreLocks>>,
}

/// Options, orders and operators that the caller gave, kept for `refresh` and for the change feed.
pub(in crate::db) struct GivenByName {
    pub(super) families: Vec<(String, CfOptions)>,
    /// Also those of families that were created since.
    pub(super) orders: Mutex<Vec<Order>>,
    pub(super) merge_operators: Vec<MergeOperator>,
}

impl GivenByName {
    /// Adds the order of a new family: the change feed needs it even after the family is dropped.
    pub(in crate::db) fn add_order(&self, order: &Order) {
        if self.order(order.name()).is_none() {
            lock(&self.orders).push(order.clone());
        }
    }

    /// Returns the order of a stored name, if the caller gave it.
    pub(in crate::db) fn order(&self, name: &str) -> Option<Order> {
        let (bytewise, orders) = (Order::bytewise(), lock(&self.orders));
        let of_families = self.families.iter().map(|(_, options)| &options.order);
        of_families.chain(&*orders).chain([&bytewise]).find(|order| order.name() == name).cloned()
    }
}

/// Closes the store when the user drops the last clone; the background threads hold only `StoreInner`.
pub(in crate::db) struct StoreHandle {
    pub(in crate::db) inner: Arc<StoreInner>,
    pub(super) threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

reach!(
    StoreInner, compactor: flusher -> Flusher, write_path -> WritePath, catalog -> Catalog, store_log -> StoreLog,
    context -> StoreContext, notifier -> Notifier, lanes -> LaneSignals
);

impl StoreInner {
    #[inline]
    pub(in crate::db) fn compactor(&self) -> &Compactor {
        &self.compactor
    }

    /// Returns true if the store is closed, or if another process opened it.
    #[inline]
    pub(in crate::db) fn is_over(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || !self.origin.is_here()
    }

    #[cold]
    pub(in crate::db) fn why_over(&self) -> Error {
        if self.closed.load(Ordering::Relaxed) { Error::closed() } else { forked() }
    }

    /// Takes a snapshot of a read-only store. It holds its views itself, because the writing process does not know of
    /// it. The lock keeps a `refresh` from running between the views and the seqno.
    pub(in crate::db) fn held_snapshot(&self) -> Snapshot {
        let _no_refresh = lock(&self.flusher().jobs_lock);
        let views = self.catalog().families().by_id.iter().map(|(id, family)| (*id, family.pinned_view())).collect();
        self.catalog().snapshots.take(self.catalog().reads.expiry_clock(), Some(views), || self.store_log().visible())
    }

    /// Releases the tables and memtables of all views, cached blocks, descriptors and mappings, even while callers
    /// still hold handles, snapshots or cursors. A running read keeps the memory that it uses until it returns.
    pub(in crate::db) fn release(&self) {
        self.catalog()
            .families()
            .by_id
            .values()
            .for_each(|family| family.close(self.write_path().separation.unsynced()));
        self.catalog().snapshots.close();
        self.write_path().applier.release();
        if let Some(log) = self.store_log().log() {
            log.wal().release();
        }
        self.catalog().obsolete.dead().close();
        if self.owns_cache {
            self.context().cache.release();
        }
        self.write_path().memory.charge_memtables(self.catalog());
        self.context().env.fs.close();
    }
}

impl StoreHandle {
    /// Closes the store. Only the first call does the work. Later calls return at once, because a listener may make one
    /// on a thread that the first call waits for.
    pub(in crate::db) fn close(&self) -> Result<()> {
        let inner = &self.inner;
        if !inner.origin.is_here() || inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        inner.lanes().stop();
        let this = std::thread::current().id();
        let threads: Vec<_> = lock(&self.threads).drain(..).collect();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
        // User threads may be in the middle of a flush or compaction. Their file writes and removals must end before
        // the lock is released, because the next process to open the store reuses the same file numbers.
        let last_job = lock(&inner.flusher().jobs_lock);
        inner.catalog().claims.end();
        inner.catalog().remove_obsolete_files();
        while inner.catalog().obsolete.remove_leftover(inner.context()) {}
        let outcome = inner.write_path().close_log();
        *lock(&inner.catalog().manifest) = None; // refuses later edits
        inner.release();
        *lock(&inner.store_lock) = None;
        drop(last_job);
        inner.notifier().deliver();
        outcome
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

#[cold]
pub(in crate::db) fn forked() -> Error {
    Error::invalid("forked: the store belongs to the parent process; open it anew")
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;
    use std::path::Path;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{At, Db, Parts};
    use crate::env::sim::SimFs;
    use crate::error::ErrorKind;
    use crate::options::{Durability, Settings, Verify};
    use crate::record::Kind;

    /// A close sets its flag, then empties the views. A read that passed the check of the flag may find an empty view.
    #[test]
    fn a_read_of_an_emptied_view_is_refused() {
        let parts = Parts { env: SimFs::new(1).env(1), ..Parts::real() };
        let db = Db::open(Path::new("/store"), Settings::default(), parts).unwrap();
        let (family, mut batch) = (db.family("default").unwrap(), Batch::new());
        batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        assert!(db.get(&family, b"key", At::Latest, &mut |_| {}).unwrap());
        db.inner().release();
        let all = (Bound::Unbounded, Bound::Unbounded);
        for (what, outcome) in [
            ("get", db.get(&family, b"key", At::Latest, &mut |_| {}).map(drop)),
            ("get_record", db.get_record(&family, b"key", At::Latest, Verify::Always, &mut |_| {}).map(drop)),
            ("multi_get", db.multi_get(&family, &[b"key"], At::Latest, &mut |_, _| {})),
            ("cursor", db.cursor(&family, At::Latest, all).map(drop)),
        ] {
            assert_eq!(outcome.map_err(|error| error.kind().clone()), Err(ErrorKind::Closed), "{what}");
        }
        db.inner().closed.store(true, Ordering::Relaxed); // the rest of the close needs what was released
    }
}
