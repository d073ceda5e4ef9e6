//! Writes: encoded in the task, committed there if nothing has to be waited for, else in a lane; then, if asked, durable with a group.

use std::fmt;
use std::sync::Arc;

use tokio::task::coop::consume_budget;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_meta::Seal;

use super::Shared;
use super::family::AsyncColumnFamily;
use crate::batch::{Batch, WriteOptions};

impl Shared {
    /// Commits a batch and empties it. On an error it keeps its writes, and nothing has happened; but if it cannot be made durable, it has.
    pub(super) async fn commit(&self, batch: &mut Batch, durability: Durability) -> Result<()> {
        consume_budget().await;
        let db = self.checked()?;
        if !batch.commit_at_once()? {
            // The rest need not wait for the disk here: the group does.
            let now = if durability == Durability::Sync { Durability::Os } else { durability };
            let twin = batch.another(); // of the same name: it stays, should this future be dropped
            let mut moved = std::mem::replace(batch, twin);
            let commit = move || {
                let outcome = moved.commit(now);
                (moved, outcome)
            };
            let (given_back, outcome) = self.lanes.write.run(commit).await;
            *batch = given_back;
            outcome?;
        }
        match durability {
            Durability::Sync => self.lanes.group.synced(&db.inner.engine).await,
            _ => Ok(()),
        }
    }
}

/// Writes to any column families of one store that commit together: [`Batch`], for async code.
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// # let db = waxseal::AsyncDb::memory().await?;
/// use waxseal::Durability;
///
/// let (names, ages) = (db.column_family("names").await?, db.column_family("ages").await?);
/// let mut batch = db.batch();
/// batch.put(&names, "1", "Ada").put(&ages, "1", "36").delete(&ages, "2");
/// batch.commit(Durability::Sync).await?;
/// assert_eq!(names.get("1").await?.unwrap(), "Ada");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct AsyncBatch {
    batch: Batch,
    shared: Arc<Shared>,
}

impl AsyncBatch {
    pub(super) fn new(batch: Batch, shared: &Arc<Shared>) -> AsyncBatch {
        AsyncBatch { batch, shared: shared.clone() }
    }

    /// Sets a key to a value.
    pub fn put(&mut self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut AsyncBatch {
        self.batch.put(cf.blocking(), key, value);
        self
    }

    /// Sets a key to a value, which the log calls `Row.Insert`: see [`Batch::put_logged_as_insert`].
    pub fn put_logged_as_insert(
        &mut self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut AsyncBatch {
        self.batch.put_logged_as_insert(cf.blocking(), key, value);
        self
    }

    /// Sets a key to a value whose seal the caller was given: see [`Batch::put_sealed`].
    pub fn put_sealed(
        &mut self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        seal: Seal,
    ) -> &mut AsyncBatch {
        self.batch.put_sealed(cf.blocking(), key, value, seal);
        self
    }

    /// Sets a key to a value and keeps entries beside it: see [`Batch::put_given`].
    pub fn put_given(
        &mut self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        entries: &[(u16, &[u8])],
    ) -> &mut AsyncBatch {
        self.batch.put_given(cf.blocking(), key, value, entries);
        self
    }

    /// Sets a key to a value, with options: see [`Batch::put_with`].
    pub fn put_with(
        &mut self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> &mut AsyncBatch {
        self.batch.put_with(cf.blocking(), key, value, options);
        self
    }

    /// Removes a key.
    pub fn delete(&mut self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> &mut AsyncBatch {
        self.batch.delete(cf.blocking(), key);
        self
    }

    /// Makes all writes of the batch visible at once and empties it for use again; with [`Durability::Sync`] it resolves when they are durable.
    ///
    /// On an error the batch keeps its writes and nothing has happened. One error is another: if the log cannot be synced (`Halted`, `Io`) the
    /// writes are visible, not known to be durable, and the batch is empty. A future that is dropped after its first poll leaves an empty
    /// batch, or all of it; its writes have happened, are about to, or, if the batch still has them, will not.
    pub async fn commit(&mut self, durability: Durability) -> Result<()> {
        self.shared.commit(&mut self.batch, durability).await
    }

    /// Forgets all writes, and a refused one.
    pub fn clear(&mut self) {
        self.batch.clear();
    }

    /// Number of writes.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// True without writes.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// About how many bytes the commit will take in the log.
    pub fn bytes(&self) -> usize {
        self.batch.bytes()
    }
}

impl fmt::Debug for AsyncBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncBatch").field(&self.batch).finish()
    }
}
