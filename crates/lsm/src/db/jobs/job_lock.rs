//! The flusher's state, and the job lock: only one flush, creation, drop, ingestion or checkpoint runs at a time.
//!
//! Holds: when a job ends, whatever its result, its events are delivered after all locks are released. Damage found by
//!        the job's own reads is delivered then, too.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::db::catalog::Catalog;
use crate::db::notify::lanes::LaneSignals;
use crate::db::notify::notifier::{Deferral, Notifier};
use crate::db::state::context::{StoreContext, reach};
use crate::db::state::store_log::StoreLog;
use crate::db::writes::write_path::WritePath;
use crate::env::work::{lock, pause, try_lock};
use crate::error::{Error, Result};
use crate::interrupt;

/// Interval at which a waiting thread checks for an interrupt.
const LOOK_UP: Duration = Duration::from_millis(2);

/// Writes memtables to tables. Contains the write path, and the lock that admits one job at a time.
pub(crate) struct Flusher {
    pub(in crate::db) write_path: WritePath,
    /// Admits one flush, drop or checkpoint at a time.
    pub(in crate::db) jobs_lock: Mutex<()>,
}

reach!(
    Flusher, write_path: catalog -> Catalog, store_log -> StoreLog, context -> StoreContext, notifier -> Notifier,
    lanes -> LaneSignals
);

/// The held job lock: the right to flush, create, drop, ingest or copy.
pub(in crate::db) struct JobLock<'a> {
    flusher: &'a Flusher,
    held: Option<(MutexGuard<'a, ()>, Deferral)>,
}

impl Flusher {
    #[inline]
    pub(in crate::db) fn write_path(&self) -> &WritePath {
        &self.write_path
    }

    /// Waits for the job lock; an interruptible thread checks for interrupts meanwhile.
    fn wait_for_job_lock(&self) -> Result<MutexGuard<'_, ()>> {
        while interrupt::is_set() {
            match try_lock(&self.jobs_lock) {
                Some(guard) => return Ok(guard),
                None => interrupt::check()?,
            }
            pause(LOOK_UP);
        }
        Ok(lock(&self.jobs_lock))
    }

    /// Waits for the job lock; fails with `Closed` if the store closed meanwhile.
    pub(in crate::db) fn job(&self) -> Result<JobLock<'_>> {
        let guard = self.wait_for_job_lock()?;
        if self.lanes().is_stopping() {
            return Err(Error::closed());
        }
        self.catalog().feed.job_begins();
        Ok(JobLock { flusher: self, held: Some((guard, self.notifier().defer())) })
    }
}

impl Drop for JobLock<'_> {
    fn drop(&mut self) {
        self.held = None;
        if !std::thread::panicking() {
            self.flusher.notifier().deliver();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::db::notify::notifier::DamagedPlace;
    use crate::db::{Db, Event, Listener, Parts};
    use crate::env::SimFs;
    use crate::error::Error;
    use crate::options::Settings;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Listener for Counts {
        fn on_event(&self, event: &Event) {
            self.0.fetch_add(usize::from(matches!(event, Event::Corruption { .. })), Ordering::Relaxed);
        }
    }

    fn store(dir: &str) -> (Db, Arc<Counts>) {
        let heard = Arc::new(Counts::default());
        let parts = Parts { env: SimFs::new(1).env(1), listener: heard.clone(), ..Parts::real() };
        (Db::open(Path::new(dir), Settings::default(), parts).unwrap(), heard)
    }

    #[test]
    fn what_a_job_comes_by_is_told_when_its_turn_is_over() {
        let (db, heard) = store("/store");
        let tell = |seqno| db.inner().notifier().report_damage(DamagedPlace::Memory(seqno), &Error::structural("hit"));
        tell(1);
        assert_eq!(heard.0.load(Ordering::Relaxed), 1, "a read tells at once");
        let guard = db.inner().flusher().job().unwrap();
        tell(2);
        assert_eq!(heard.0.load(Ordering::Relaxed), 1, "under its turn");
        drop(guard);
        assert_eq!(heard.0.load(Ordering::Relaxed), 2, "behind it");
        tell(3);
        assert_eq!(heard.0.load(Ordering::Relaxed), 3, "and at once again");
    }

    #[test]
    fn the_turn_of_one_store_keeps_no_other_from_telling() {
        let [(one, _), (other, heard)] = ["/one", "/other"].map(store);
        let guard = one.inner().flusher().job().unwrap();
        other.inner().notifier().report_damage(DamagedPlace::Memory(1), &Error::structural("hit"));
        assert_eq!(heard.0.load(Ordering::Relaxed), 1, "a read tells at once");
        let inner_guard = other.inner().flusher().job().unwrap();
        other.inner().notifier().report_damage(DamagedPlace::Memory(2), &Error::structural("hit"));
        assert_eq!(heard.0.load(Ordering::Relaxed), 1, "under its turn");
        drop(inner_guard);
        assert_eq!(heard.0.load(Ordering::Relaxed), 2, "behind it, though the other one's is not over");
        drop(guard);
    }
}
