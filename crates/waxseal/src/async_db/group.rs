//! Those who wait until what they committed is durable: one fdatasync for all who came while the one before ran.
//!
//! In:    a commit that has returned. Out: durable, or the error that keeps it from being so.
//! Holds: who joins has committed before the group's sync begins, and so is covered by it (I01). No thread is parked for a waiting writer: all
//!        groups together have one, while there are any. Synchronous callers share the same fdatasyncs: the log has one leader at a time.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use waxseal_lsm::db::Db;
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, ErrorKind, Result};

use super::lane::Lane;

/// Who waits for the next sync.
type Waiting = Vec<oneshot::Sender<Result<()>>>;

/// The groups of a store: one that gathers, and before it at most one that is synced.
pub(super) struct Group {
    lane: Lane,
    waiting: Arc<Mutex<Waiting>>,
}

impl Group {
    pub(super) fn new() -> Group {
        Group { lane: Lane::new("waxseal-synced", 1), waiting: Arc::default() }
    }

    /// Waits until everything that was committed before the first poll is durable. Errors: as of `Db::sync`.
    pub(super) async fn synced(&self, engine: &Db) -> Result<()> {
        let told = self.join(engine);
        told.await.unwrap_or_else(|_| Err(Error::of(ErrorKind::Halted, "the sync that was waited for did not end")))
    }

    /// Joins the group that gathers; who comes first has it synced.
    fn join(&self, engine: &Db) -> oneshot::Receiver<Result<()>> {
        let (tell, told) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        waiting.push(tell);
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            let (waiting, engine) = (self.waiting.clone(), engine.clone());
            drop(self.lane.run(move || sync(&waiting, &engine)));
        }
        told
    }
}

/// Syncs for all who have come until now.
fn sync(waiting: &Mutex<Waiting>, engine: &Db) {
    let group = std::mem::take(&mut *lock(waiting));
    let outcome = engine.sync_committed();
    for tell in group {
        let _ = tell.send(outcome.clone()); // a future that was dropped waits no more
    }
}
