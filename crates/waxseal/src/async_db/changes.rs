//! The change feed for async code.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use waxseal_lsm::error::Result;

use super::{AsyncDb, AsyncShared};
use crate::changes::{Change, ChangePosition, ChangeReach, Changes};

/// How long one job of a waiting reader takes at most: a dropped future leaves its thread after that time.
const STEP: Duration = Duration::from_millis(100);

/// Reads changes in commit order: see [`Changes`]. Created by [`AsyncDb::changes_since`].
#[derive(Clone)]
pub struct AsyncChanges {
    changes: Arc<Mutex<Changes>>,
    shared: Arc<AsyncShared>,
}

impl AsyncChanges {
    /// Returns the next change; `None` if there is none now. Errors: those of the iterator [`Changes`].
    ///
    /// A dropped future may have consumed a change: the reader then goes on behind it. [`position`](Self::position) tells.
    pub async fn next(&self) -> Result<Option<Change>> {
        let changes = Arc::clone(&self.changes);
        self.shared.work(move |_| locked(&changes).next().transpose()).await
    }

    /// Returns the next change, and waits for it for ever: see [`Changes::tail`]. Errors: `Closed` when the store is
    /// closed; those of [`next`](Self::next), which also says what a dropped future does.
    pub async fn tail(&self) -> Result<Change> {
        loop {
            if let Some(change) = self.wait_at_most(STEP).await? {
                return Ok(change);
            }
        }
    }

    /// Returns the position after the last change that was returned: see [`Changes::position`].
    pub async fn position(&self) -> Result<ChangePosition> {
        let changes = Arc::clone(&self.changes);
        self.shared.work(move |_| Ok(locked(&changes).position())).await
    }

    async fn wait_at_most(&self, timeout: Duration) -> Result<Option<Change>> {
        let changes = Arc::clone(&self.changes);
        self.shared.work(move |_| locked(&changes).wait_next(timeout)).await
    }
}

fn locked(changes: &Mutex<Changes>) -> std::sync::MutexGuard<'_, Changes> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for AsyncChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncChanges").finish_non_exhaustive()
    }
}

impl AsyncDb {
    /// Returns a reader of the durable changes after a position: see [`Db::changes_since`](crate::Db::changes_since). Use
    /// [`run`](AsyncDb::run) for cursors.
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// use waxseal::{AsyncDb, Durability};
    ///
    /// let db = AsyncDb::memory().await?;
    /// let users = db.column_family("users").await?;
    /// let at = db.run(|db| db.change_cursor("copy")?.position()).await?;
    /// users.put("john", "33").await?;
    /// let changes = db.changes_since(at).await?;
    /// assert_eq!(changes.tail().await?.key(), b"john"); // waits, and makes the commit durable
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn changes_since(&self, position: ChangePosition) -> Result<AsyncChanges> {
        self.changes_within(position, ChangeReach::Durable).await
    }

    /// As [`changes_since`](AsyncDb::changes_since), with changes that may not be durable yet if `reach` says so.
    pub async fn changes_within(&self, position: ChangePosition, reach: ChangeReach) -> Result<AsyncChanges> {
        let changes = self.shared.work(move |db| db.changes_within(position, reach)).await?;
        Ok(AsyncChanges { changes: Arc::new(Mutex::new(changes)), shared: Arc::clone(&self.shared) })
    }
}
