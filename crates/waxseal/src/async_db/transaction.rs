//! Transactions, for async code.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;
use waxseal_meta::reading::Meta;

use super::family::AsyncColumnFamily;
use super::session::AsyncSession;
use super::{AsyncDb, AsyncShared};
use crate::range::KeyRange;
use crate::slice::Slice;
use crate::transaction::{Isolation, Transaction};
use crate::write_options::WriteOptions;

/// Reads and writes that take effect together, for async code: [`Transaction`]. All of its calls run on the store's
/// threads.
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// # let db = waxseal::AsyncDb::memory().await?;
/// let cf = db.column_family("accounts").await?;
/// let transaction = db.transaction().await?;
/// transaction.put(&cf, "alice", "100").await?;
/// assert_eq!(transaction.get(&cf, "alice").await?.unwrap(), "100");
/// transaction.commit().await?;
/// assert_eq!(cf.get("alice").await?.unwrap(), "100");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct AsyncTransaction {
    transaction: Arc<Transaction>,
    shared: Arc<AsyncShared>,
}

impl AsyncTransaction {
    async fn begin(
        shared: &Arc<AsyncShared>,
        begin: impl FnOnce() -> Transaction + Send + 'static,
    ) -> Result<AsyncTransaction> {
        let begun = move || {
            let transaction = begin();
            transaction.check().map(|()| Arc::new(transaction))
        };
        Ok(AsyncTransaction { transaction: shared.look(begun).await?, shared: shared.clone() })
    }

    /// Returns the synchronous handle of the same transaction. Its calls may block.
    pub fn blocking(&self) -> &Transaction {
        &self.transaction
    }

    /// Runs a closure with the synchronous handle, on one of the store's threads: for cursors, ranges, and several
    /// calls at once.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let transaction = self.transaction.clone();
        self.shared.look(move || work(&transaction)).await
    }

    /// Returns a copy of the value of a key, as the transaction sees it.
    pub async fn get(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let (cf, key) = (cf.blocking().clone(), key.as_ref().to_vec());
        self.run(move |transaction| transaction.get(&cf, key)).await
    }

    /// Reads a key that must not change before the commit: see [`Transaction::get_for_update`].
    pub async fn get_for_update(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let (cf, key) = (cf.blocking().clone(), key.as_ref().to_vec());
        self.run(move |transaction| transaction.get_for_update(&cf, key)).await
    }

    /// Returns the entry that a provider stored with the value of a key: see [`Transaction::get_meta`].
    pub async fn get_meta(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        let (cf, key) = (cf.blocking().clone(), key.as_ref().to_vec());
        self.run(move |transaction| transaction.get_meta(&cf, key, provider)).await
    }

    /// Returns true if a key exists, as the transaction sees it.
    pub async fn contains(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        let (cf, key) = (cf.blocking().clone(), key.as_ref().to_vec());
        self.run(move |transaction| transaction.contains(&cf, key)).await
    }

    /// Returns all records with keys in a range, as the transaction sees them.
    pub async fn range(&self, cf: &AsyncColumnFamily, range: impl KeyRange) -> Result<Vec<(Slice, Slice)>> {
        let (cf, bounds) = (cf.blocking().clone(), range.into_bounds());
        self.run(move |transaction| transaction.range(&cf, bounds).collect()).await
    }

    /// Sets a key to a value.
    pub async fn put(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(cf, key, value, WriteOptions::default()).await
    }

    /// Sets a key to a value, with options: see [`Transaction::put_with`].
    pub async fn put_with(
        &self,
        cf: &AsyncColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let (cf, key, value) = (cf.blocking().clone(), key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |transaction| transaction.put_with(&cf, key, value, options)).await
    }

    /// Merges an operand into the value of a key: see [`Transaction::merge`].
    pub async fn merge(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (cf, key, operand) = (cf.blocking().clone(), key.as_ref().to_vec(), operand.as_ref().to_vec());
        self.run(move |transaction| transaction.merge(&cf, key, operand)).await
    }

    /// Removes a key.
    pub async fn delete(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let (cf, key) = (cf.blocking().clone(), key.as_ref().to_vec());
        self.run(move |transaction| transaction.delete(&cf, key)).await
    }

    /// Removes all keys in a range: see [`Transaction::delete_range`].
    pub async fn delete_range(&self, cf: &AsyncColumnFamily, range: impl KeyRange) -> Result<()> {
        let (cf, bounds) = (cf.blocking().clone(), range.into_bounds());
        self.run(move |transaction| transaction.delete_range(&cf, bounds)).await
    }

    /// Marks the present state of the writes: see [`Transaction::savepoint`].
    pub async fn savepoint(&self) -> Result<()> {
        self.run(|transaction| {
            transaction.savepoint();
            Ok(())
        })
        .await
    }

    /// Discards the writes since the last savepoint: see [`Transaction::rollback_to_savepoint`].
    pub async fn rollback_to_savepoint(&self) -> Result<()> {
        self.run(Transaction::rollback_to_savepoint).await
    }

    /// Keeps the writes since the last savepoint: see [`Transaction::release_savepoint`].
    pub async fn release_savepoint(&self) -> Result<()> {
        self.run(Transaction::release_savepoint).await
    }

    /// Makes all writes visible atomically, with the store's durability: see [`Transaction::commit`]. The commit goes
    /// on if the future is dropped.
    pub async fn commit(self) -> Result<()> {
        let durability = self.shared.checked()?.inner.engine.durability();
        self.commit_with(durability).await
    }

    /// `commit` with a durability.
    pub async fn commit_with(self, durability: Durability) -> Result<()> {
        let transaction = self.transaction;
        self.shared.work(move |_| transaction.commit_now(durability)).await
    }

    /// Discards all writes. Dropping the transaction does the same.
    pub fn rollback(self) {
        self.transaction.end();
    }
}

impl AsyncDb {
    /// Begins a serializable transaction: see [`Db::transaction`](crate::Db::transaction).
    pub async fn transaction(&self) -> Result<AsyncTransaction> {
        self.transaction_with(Isolation::Serializable).await
    }

    /// Begins a transaction with an isolation level.
    pub async fn transaction_with(&self, isolation: Isolation) -> Result<AsyncTransaction> {
        let db = self.blocking().clone();
        AsyncTransaction::begin(&self.shared, move || db.transaction_with(isolation)).await
    }

    /// Runs a serializable transaction on a thread of the store, again after each conflict: see
    /// [`Db::transact`](crate::Db::transact).
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// # let db = waxseal::AsyncDb::memory().await?;
    /// let cf = db.column_family("default").await?.blocking().clone();
    /// let before = db
    ///     .transact(move |transaction| {
    ///         let before = transaction.get(&cf, "key")?;
    ///         transaction.put(&cf, "key", "new")?;
    ///         Ok(before)
    ///     })
    ///     .await?;
    /// assert_eq!(before, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn transact<T: Send + 'static>(
        &self,
        run: impl FnMut(&Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shared.work(move |db| db.transact(run)).await
    }
}

impl AsyncSession {
    /// Begins a serializable transaction that commits in this session's name.
    pub async fn transaction(&self) -> Result<AsyncTransaction> {
        self.transaction_with(Isolation::Serializable).await
    }

    /// Begins a transaction with an isolation level, which commits in this session's name.
    pub async fn transaction_with(&self, isolation: Isolation) -> Result<AsyncTransaction> {
        let session = self.blocking().clone();
        AsyncTransaction::begin(self.shared(), move || session.transaction_with(isolation)).await
    }

    /// [`AsyncDb::transact`], which commits in this session's name.
    pub async fn transact<T: Send + 'static>(
        &self,
        run: impl FnMut(&Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run(move |session| session.transact(run)).await
    }
}

impl fmt::Debug for AsyncTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transaction.fmt(f)
    }
}
