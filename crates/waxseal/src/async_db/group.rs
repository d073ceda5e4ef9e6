//! Group sync: one fdatasync for all tasks that began to wait while the previous one ran.
//!
//! In:    a commit that has returned. Out: its durability, or the sync error.
//! Holds: a task joins a group only after its commit, and before the group's sync begins, so the sync covers the commit
//!        (I01). No thread is parked per waiting writer: all groups share one thread, which exists only while there are
//!        groups. Synchronous callers share the same fdatasyncs, because the log has one leader at a time.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use waxseal_lsm::db::Db;
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, ErrorKind, Result};

use super::lane::JobLane;

/// The tasks that wait for the next sync.
type WaitingTasks = Vec<oneshot::Sender<Result<()>>>;

/// The groups of a store: one group collects tasks, and at most one other group is being synced.
pub(super) struct TaskGroup {
    lane: JobLane,
    waiting: Arc<Mutex<WaitingTasks>>,
}

impl TaskGroup {
    pub(super) fn new() -> TaskGroup {
        TaskGroup { lane: JobLane::new("waxseal-synced", 1), waiting: Arc::default() }
    }

    /// Waits until all commits before the first poll are durable. Errors: as for `Db::sync`.
    pub(super) async fn synced(&self, engine: &Db) -> Result<()> {
        let receiver = self.join(engine);
        receiver.await.unwrap_or_else(|_| Err(Error::of(ErrorKind::Halted, "the sync that was waited for did not end")))
    }

    /// Joins the collecting group. The first task to join schedules the group's sync.
    fn join(&self, engine: &Db) -> oneshot::Receiver<Result<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        waiting.push(sender);
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            let (waiting, engine) = (self.waiting.clone(), engine.clone());
            drop(self.lane.run(move || sync(&waiting, &engine)));
        }
        receiver
    }
}

/// Syncs the log for all tasks that have joined so far.
fn sync(waiting: &Mutex<WaitingTasks>, engine: &Db) {
    let group = std::mem::take(&mut *lock(waiting));
    let outcome = engine.sync_committed();
    for sender in group {
        let _ = sender.send(outcome.clone()); // the future may have been dropped
    }
}
