//! A column family, for async code.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Verify};
use waxseal_meta::Seal;
use waxseal_meta::reading::Meta;
use waxseal_registry::Session as Who;

use super::Shared;
use super::rows::RangeStream;
use crate::batch::{Batch, Write, WriteOptions};
use crate::family::ColumnFamily;
use crate::range::KeyRange;
use crate::sealed::Sealed;
use crate::slice::Slice;

/// A handle to one column family, for async code: see [`ColumnFamily`] and [`AsyncDb`](crate::AsyncDb). Clones share it.
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// # let db = waxseal::AsyncDb::memory().await?;
/// let fruit = db.column_family("fruit").await?;
/// fruit.put("apple", "red").await?;
/// fruit.put("banana", "yellow").await?;
/// assert_eq!(fruit.get("apple").await?.unwrap(), "red");
/// let values = fruit.multi_get(["banana", "cherry"]).await?;
/// assert_eq!((values[0].as_deref(), values[1].as_deref()), (Some(&b"yellow"[..]), None));
/// fruit.delete("apple").await?;
/// assert!(!fruit.contains("apple").await?);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct AsyncColumnFamily {
    cf: ColumnFamily,
    shared: Arc<Shared>,
}

/// The family of this name, made if there is none, as a handle that writes in somebody's name.
pub(super) async fn open(shared: &Arc<Shared>, name: &str, who: &Who) -> Result<AsyncColumnFamily> {
    let db = shared.checked()?;
    let cf = match db.inner.engine.family(name) {
        Some(_) => db.inner.column_family(name, who)?,
        None => {
            let (name, who) = (name.to_owned(), who.clone());
            shared.work(move |db| db.inner.column_family(&name, &who)).await?
        }
    };
    Ok(AsyncColumnFamily::new(cf, shared))
}

impl AsyncColumnFamily {
    pub(super) fn new(cf: ColumnFamily, shared: &Arc<Shared>) -> AsyncColumnFamily {
        AsyncColumnFamily { cf, shared: shared.clone() }
    }

    /// The synchronous face of the same family. Its calls may block.
    pub fn blocking(&self) -> &ColumnFamily {
        &self.cf
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.cf.name()
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CfOptions {
        self.cf.options()
    }

    /// The same family, to be read under another policy: see [`ColumnFamily::with_verify`].
    pub fn with_verify(&self, verify: Verify) -> AsyncColumnFamily {
        AsyncColumnFamily { cf: self.cf.with_verify(verify), ..self.clone() }
    }

    /// Sets a key to a value, with the store's durability.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default()).await
    }

    /// Sets a key to a value: see [`ColumnFamily::put_with`]. With [`Durability::Sync`](crate::Durability::Sync) it resolves when its group is durable.
    pub async fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write(Write::put(key.as_ref(), value.as_ref()), options).await
    }

    /// Sets a key to a value with the seal that the caller was given: see [`ColumnFamily::put_sealed`].
    pub async fn put_sealed(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, seal: Seal) -> Result<()> {
        self.put_sealed_with(key, value, seal, WriteOptions::default()).await
    }

    /// `put_sealed`, with options.
    pub async fn put_sealed_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        seal: Seal,
        options: WriteOptions,
    ) -> Result<()> {
        let write = Write { seal: Some(seal), ..Write::put(key.as_ref(), value.as_ref()) };
        self.write(write, options).await
    }

    /// Removes a key; no error if it is not there.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default()).await
    }

    /// Removes a key; no error if it is not there.
    pub async fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write(Write::delete(key.as_ref()), options).await
    }

    /// The value of a key, copied.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.shared.read(&self.cf, None, key.as_ref(), |record| Slice::from(record.value)).await
    }

    /// The value of a key, copied, with its seal: see [`ColumnFamily::get_sealed`].
    pub async fn get_sealed(&self, key: impl AsRef<[u8]>) -> Result<Option<Sealed>> {
        self.shared.read_sealed(&self.cf, None, key.as_ref()).await
    }

    /// True if the key is there.
    pub async fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.shared.read(&self.cf, None, key.as_ref(), |_| ()).await?.is_some())
    }

    /// What a provider keeps beside the value of a key: see [`ColumnFamily::get_meta`].
    pub async fn get_meta(&self, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        let (cf, key) = (self.cf.clone(), key.as_ref().to_vec());
        self.shared.look(move || cf.get_meta(key, provider)).await
    }

    /// The values of many keys, in their order, all as they were at one moment.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Slice>>> {
        self.shared.read_many(&self.cf, None, keys).await
    }

    /// The records with keys in a range, as they are now: see [`ColumnFamily::range`].
    pub fn range(&self, range: impl KeyRange) -> RangeStream {
        RangeStream::new(self.cf.range(range), &self.shared)
    }

    /// The records whose keys begin with `prefix`, as they are now: see [`ColumnFamily::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> RangeStream {
        RangeStream::new(self.cf.prefix(prefix), &self.shared)
    }

    /// All records, as they are now.
    pub fn iter(&self) -> RangeStream {
        self.range(..)
    }

    /// Rewrites the tables of the whole family: see [`ColumnFamily::compact`].
    pub async fn compact(&self) -> Result<()> {
        let cf = self.cf.clone();
        self.shared.work(move |_| cf.compact()).await
    }

    /// About how many bytes of the store's files hold records of a range: see [`ColumnFamily::approximate_size`].
    pub async fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        let (cf, range) = (self.cf.clone(), range.into_bounds());
        self.shared.look(move || cf.approximate_size(range)).await
    }

    async fn write(&self, write: Write<'_>, options: WriteOptions) -> Result<()> {
        let (mut batch, durability) = Batch::one(&self.cf, write, options)?;
        self.shared.commit(&mut batch, durability).await
    }
}

impl fmt::Debug for AsyncColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncColumnFamily({:?})", self.name())
    }
}
