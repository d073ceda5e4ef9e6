//! Async writes. The task encodes them and commits them itself if that needs no waiting; otherwise a lane commits them.
//! `Sync` commits then join a group sync.

use std::fmt;
use std::sync::Arc;

use tokio::task::coop::consume_budget;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_meta::Seal;

use super::AsyncShared;
use super::family::AsyncColumnFamily;
use crate::batch::Batch;
use crate::range::KeyRange;
use crate::write_options::WriteOptions;

impl AsyncShared {
    /// Commits a batch and empties it. On an error the batch keeps its writes and nothing was applied. The exception is
    /// a failed sync: the writes are applied then.
    pub(super) async fn commit(&self, batch: &mut Batch, durability: Durability) -> Result<()> {
        consume_budget().await;
        let db = self.checked()?;
        if !batch.commit_at_once()? {
            // This thread need not wait for the disk: the group sync does.
            let now = if durability == Durability::Sync { Durability::Os } else { durability };
            let twin = batch.another(); // same session; remains if this future is dropped
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

/// Writes to any column families of one store that commit atomically: [`Batch`], for async code.
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
    shared: Arc<AsyncShared>,
}

impl AsyncBatch {
    pub(super) fn new(batch: Batch, shared: &Arc<AsyncShared>) -> AsyncBatch {
        AsyncBatch { batch, shared: shared.clone() }
    }

    /// Sets a key to a value.
    pub fn put(&mut self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut AsyncBatch {
        self.batch.put(cf.blocking(), key, value);
        self
    }

    /// Sets a key to a value and logs the put as `Row.Insert`: see [`Batch::put_logged_as_insert`].
    pub fn put_logged_as_insert(
        &mut self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut AsyncBatch {
        self.batch.put_logged_as_insert(cf.blocking(), key, value);
        self
    }

    /// Sets a key to a value with a seal from the caller: see [`Batch::put_sealed`].
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

    /// Sets a key to a value and stores entries with it: see [`Batch::put_given`].
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

    /// Merges an operand into the value of a key: see [`Batch::merge`].
    pub fn merge(
        &mut self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut AsyncBatch {
        self.batch.merge(cf.blocking(), key, operand);
        self
    }

    /// Removes a key.
    pub fn delete(&mut self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> &mut AsyncBatch {
        self.batch.delete(cf.blocking(), key);
        self
    }

    /// Removes all keys in a range: see [`Batch::delete_range`].
    pub fn delete_range(&mut self, cf: &AsyncColumnFamily, range: impl KeyRange) -> &mut AsyncBatch {
        self.batch.delete_range(cf.blocking(), range);
        self
    }

    /// Makes all writes of the batch visible atomically and empties the batch for reuse. With [`Durability::Sync`] the
    /// future resolves when they are durable.
    ///
    /// On an error the batch keeps its writes and nothing was applied. The exception is a failed sync of the log
    /// (`Halted`, `Io`): the writes are visible, but not known to be durable, and the batch is empty.
    ///
    /// A future that is dropped after its first poll leaves the batch either empty or unchanged. An empty batch means
    /// that the writes were or will be applied; a batch that still holds its writes means that they will never be
    /// applied.
    pub async fn commit(&mut self, durability: Durability) -> Result<()> {
        self.shared.commit(&mut self.batch, durability).await
    }

    /// Discards all writes, including a refused one.
    pub fn clear(&mut self) {
        self.batch.clear();
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns true if the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Estimates how many bytes the commit will take in the log.
    pub fn bytes(&self) -> usize {
        self.batch.bytes()
    }
}

impl fmt::Debug for AsyncBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncBatch").field(&self.batch).finish()
    }
}
