//! Snapshots, for async code.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::error::Result;
use waxseal_lsm::record::Seqno;
use waxseal_meta::reading::Meta;

use super::AsyncShared;
use super::family::AsyncColumnFamily;
use super::rows::RangeStream;
use crate::care::Digest;
use crate::range::KeyRange;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::snapshot::Snapshot;

/// A consistent view of all column families at one sequence number, for async code: see [`Snapshot`]. Clones share it.
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// # let db = waxseal::AsyncDb::memory().await?;
/// let cf = db.column_family("default").await?;
/// cf.put("key", "before").await?;
/// let snapshot = db.snapshot();
/// cf.put("key", "after").await?;
/// assert_eq!(snapshot.get(&cf, "key").await?.unwrap(), "before");
/// assert_eq!(cf.get("key").await?.unwrap(), "after");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct AsyncSnapshot {
    snapshot: Snapshot,
    shared: Arc<AsyncShared>,
}

impl AsyncSnapshot {
    pub(super) fn new(snapshot: Snapshot, shared: &Arc<AsyncShared>) -> AsyncSnapshot {
        AsyncSnapshot { snapshot, shared: shared.clone() }
    }

    /// Returns the synchronous handle of the same snapshot. Its calls may block.
    pub fn blocking(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the snapshot's sequence number: it sees commits up to this number.
    pub fn seqno(&self) -> Result<Seqno> {
        self.snapshot.seqno()
    }

    /// Returns a copy of the value of a key.
    pub async fn get(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let take = |record: &waxseal_lsm::record::Record<'_>| Slice::copied(record.value);
        self.shared.read(cf.blocking(), Some(&self.snapshot), key.as_ref(), take).await?.transpose()
    }

    /// Returns a copy of the value of a key, with its seal.
    pub async fn get_sealed(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Sealed>> {
        self.shared.read_sealed(cf.blocking(), Some(&self.snapshot), key.as_ref()).await
    }

    /// Returns true if the key existed.
    pub async fn contains(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.shared.read(cf.blocking(), Some(&self.snapshot), key.as_ref(), |_| ()).await?.is_some())
    }

    /// Returns the entry that a provider stored with the value of a key.
    pub async fn get_meta(&self, cf: &AsyncColumnFamily, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        let (snapshot, cf, key) = (self.snapshot.clone(), cf.blocking().clone(), key.as_ref().to_vec());
        self.shared.look(move || snapshot.get_meta(&cf, key, provider)).await
    }

    /// Returns the values of many keys, in the order of `keys`.
    pub async fn multi_get<K: AsRef<[u8]>>(
        &self,
        cf: &AsyncColumnFamily,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        self.shared.read_many(cf.blocking(), Some(&self.snapshot), keys).await
    }

    /// Returns the first record of a family at the snapshot.
    pub async fn first_key_value(&self, cf: &AsyncColumnFamily) -> Result<Option<(Slice, Slice)>> {
        let (snapshot, cf) = (self.snapshot.clone(), cf.blocking().clone());
        self.shared.look(move || snapshot.first_key_value(&cf)).await
    }

    /// Returns the last record of a family at the snapshot.
    pub async fn last_key_value(&self, cf: &AsyncColumnFamily) -> Result<Option<(Slice, Slice)>> {
        let (snapshot, cf) = (self.snapshot.clone(), cf.blocking().clone());
        self.shared.look(move || snapshot.last_key_value(&cf)).await
    }

    /// Returns true if a family had no record at the snapshot.
    pub async fn is_empty(&self, cf: &AsyncColumnFamily) -> Result<bool> {
        let (snapshot, cf) = (self.snapshot.clone(), cf.blocking().clone());
        self.shared.look(move || snapshot.is_empty(&cf)).await
    }

    /// Streams the records with keys in a range.
    pub fn range(&self, cf: &AsyncColumnFamily, range: impl KeyRange) -> RangeStream {
        RangeStream::new(self.snapshot.range(cf.blocking(), range), &self.shared)
    }

    /// Streams the records whose keys begin with `prefix`.
    pub fn prefix(&self, cf: &AsyncColumnFamily, prefix: impl AsRef<[u8]>) -> RangeStream {
        RangeStream::new(self.snapshot.prefix(cf.blocking(), prefix), &self.shared)
    }

    /// Streams all records of a family at the snapshot.
    pub fn iter(&self, cf: &AsyncColumnFamily) -> RangeStream {
        self.range(cf, ..)
    }

    /// Returns the digest of a range at the snapshot.
    pub async fn digest(&self, cf: &AsyncColumnFamily, range: impl KeyRange) -> Result<Digest> {
        let (snapshot, cf, range) = (self.snapshot.clone(), cf.blocking().clone(), range.into_bounds());
        self.shared.work(move |_| snapshot.digest(&cf, range)).await
    }
}

impl fmt::Debug for AsyncSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncSnapshot").field(&self.seqno()).finish()
    }
}
