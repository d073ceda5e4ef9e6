//! The change feed for async code.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use waxseal_lsm::error::Result;

use super::{AsyncDb, AsyncShared};
use crate::changes::{Change, ChangeCursor, ChangePosition, ChangeReach, Changes};

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

    async fn open(
        shared: &Arc<AsyncShared>,
        open: impl FnOnce() -> Result<Changes> + Send + 'static,
    ) -> Result<AsyncChanges> {
        let changes = shared.work(move |_| open()).await?;
        Ok(AsyncChanges { changes: Arc::new(Mutex::new(changes)), shared: Arc::clone(shared) })
    }

    async fn wait_at_most(&self, timeout: Duration) -> Result<Option<Change>> {
        let changes = Arc::clone(&self.changes);
        self.shared.work(move |_| locked(&changes).wait_next(timeout)).await
    }
}

/// A named cursor of the change feed, which keeps the log for its consumer: see [`ChangeCursor`]. Created by
/// [`AsyncDb::change_cursor`].
#[derive(Clone)]
pub struct AsyncChangeCursor {
    cursor: ChangeCursor,
    shared: Arc<AsyncShared>,
}

impl AsyncChangeCursor {
    /// Returns the name.
    pub fn name(&self) -> &str {
        self.cursor.name()
    }

    /// Returns the position up to which the consumer has moved the cursor: see [`ChangeCursor::position`].
    pub async fn position(&self) -> Result<ChangePosition> {
        let cursor = self.cursor.clone();
        self.shared.work(move |_| cursor.position()).await
    }

    /// Opens a reader of the durable changes after the cursor's position: see [`ChangeCursor::changes`].
    pub async fn changes(&self) -> Result<AsyncChanges> {
        let cursor = self.cursor.clone();
        AsyncChanges::open(&self.shared, move || cursor.changes()).await
    }

    /// Moves the cursor: the consumer has durably processed the changes up to a position. See [`ChangeCursor::advance`].
    /// Once polled, the move happens even if the future is dropped.
    pub async fn advance(&self, position: ChangePosition) -> Result<()> {
        let cursor = self.cursor.clone();
        self.shared.work(move |_| cursor.advance(position)).await
    }

    /// Removes the cursor: see [`ChangeCursor::remove`].
    pub async fn remove(self) -> Result<()> {
        let AsyncChangeCursor { cursor, shared } = self;
        shared.work(move |_| cursor.remove()).await
    }
}

impl std::fmt::Debug for AsyncChangeCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cursor.fmt(f)
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
    /// Returns a reader of the durable changes after a position: see [`Db::changes_since`](crate::Db::changes_since).
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// use waxseal::{AsyncDb, Durability};
    ///
    /// let db = AsyncDb::memory().await?;
    /// let users = db.column_family("users").await?;
    /// let cursor = db.change_cursor("copy").await?; // keeps the log from here on
    /// users.put("john", "33").await?;
    /// let changes = db.changes_since(cursor.position().await?).await?;
    /// assert_eq!(changes.tail().await?.key(), b"john"); // waits, and makes the commit durable
    /// cursor.advance(changes.position().await?).await?; // the log before it may go
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn changes_since(&self, position: ChangePosition) -> Result<AsyncChanges> {
        self.changes_within(position, ChangeReach::Durable).await
    }

    /// As [`changes_since`](AsyncDb::changes_since), with changes that may not be durable yet if `reach` says so.
    pub async fn changes_within(&self, position: ChangePosition, reach: ChangeReach) -> Result<AsyncChanges> {
        let db = self.blocking().clone();
        AsyncChanges::open(&self.shared, move || db.changes_within(position, reach)).await
    }

    /// Returns the position of the last durable commit: see [`Db::change_position`](crate::Db::change_position).
    pub async fn change_position(&self) -> Result<ChangePosition> {
        self.shared.work(crate::Db::change_position).await
    }

    /// Returns the named cursor of the change feed; creates it at the last durable commit if there is none: see
    /// [`Db::change_cursor`](crate::Db::change_cursor).
    pub async fn change_cursor(&self, name: &str) -> Result<AsyncChangeCursor> {
        let name = name.to_owned();
        let cursor = self.shared.work(move |db| db.change_cursor(&name)).await?;
        Ok(AsyncChangeCursor { cursor, shared: Arc::clone(&self.shared) })
    }

    /// Returns the cursors of the change feed, each with its position, by name: see
    /// [`Db::change_cursors`](crate::Db::change_cursors).
    pub async fn change_cursors(&self) -> Result<Vec<(String, ChangePosition)>> {
        self.shared.work(|db| Ok(db.change_cursors())).await
    }
}
