//! Column families, for async code.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Verify};
use waxseal_meta::Seal;
use waxseal_meta::reading::Meta;
use waxseal_registry::Session as Who;

use super::AsyncShared;
use super::rows::RangeStream;
use crate::batch::{Batch, Write};
use crate::exchange::{ExportOptions, Exported, Imported};
use crate::inner::ColumnFamily;
use crate::range::KeyRange;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::tables::TableInfo;
use crate::write_options::WriteOptions;

/// A handle to one column family, for async code: see [`ColumnFamily`] and [`AsyncDb`](crate::AsyncDb). Clones share
/// it.
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
    shared: Arc<AsyncShared>,
}

/// Returns the family with this name, as a handle that writes in the session's name. Creates the family if it does not
/// exist.
pub(super) async fn open(shared: &Arc<AsyncShared>, name: &str, who: &Who) -> Result<AsyncColumnFamily> {
    if let Some(found) = find(shared, name, who)? {
        return Ok(found);
    }
    let (name, who) = (name.to_owned(), who.clone());
    let cf = shared.work(move |db| db.inner.column_family(&name, &who)).await?;
    Ok(AsyncColumnFamily::new(cf, shared))
}

/// Returns the family with this name, as a handle that writes in the session's name; `None` if it does not exist.
pub(super) fn find(shared: &Arc<AsyncShared>, name: &str, who: &Who) -> Result<Option<AsyncColumnFamily>> {
    let found = shared.checked()?.inner.find_column_family(name, who)?;
    Ok(found.map(|cf| AsyncColumnFamily::new(cf, shared)))
}

impl AsyncColumnFamily {
    pub(super) fn new(cf: ColumnFamily, shared: &Arc<AsyncShared>) -> AsyncColumnFamily {
        AsyncColumnFamily { cf, shared: shared.clone() }
    }

    /// Returns the synchronous handle to the same family. Its calls may block.
    pub fn blocking(&self) -> &ColumnFamily {
        &self.cf
    }

    /// Returns the family's name.
    pub fn name(&self) -> &str {
        self.cf.name()
    }

    /// Returns the family's id: see [`ColumnFamily::id`].
    pub fn id(&self) -> u32 {
        self.cf.id()
    }

    /// Returns the options of the family as of now: see [`ColumnFamily::options`].
    pub fn options(&self) -> Arc<CfOptions> {
        self.cf.options()
    }

    /// Changes options of the family while the store is open: see [`ColumnFamily::set_options`].
    pub async fn set_options(&self, options: CfOptions) -> Result<()> {
        let cf = self.cf.clone();
        self.shared.work(move |_| cf.set_options(options)).await
    }

    /// Returns a handle to the same family with another verification policy: see [`ColumnFamily::with_verify`].
    pub fn with_verify(&self, verify: Verify) -> AsyncColumnFamily {
        AsyncColumnFamily { cf: self.cf.with_verify(verify), ..self.clone() }
    }

    /// Sets a key to a value, with the store's durability.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default()).await
    }

    /// Sets a key to a value: see [`ColumnFamily::put_with`]. With [`Durability::Sync`](crate::Durability::Sync) the
    /// future resolves after the group sync that covers the write.
    pub async fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write(Write::put(key.as_ref(), value.as_ref()), options).await
    }

    /// Sets a key to a value with a seal from the caller: see [`ColumnFamily::put_sealed`].
    pub async fn put_sealed(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, seal: Seal) -> Result<()> {
        self.put_sealed_with(key, value, seal, WriteOptions::default()).await
    }

    /// `put_sealed` with options.
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

    /// Merges an operand into the value of a key: see [`ColumnFamily::merge`].
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// # let db = waxseal::AsyncDb::memory().await?;
    /// use waxseal::{CfOptions, MergeOperator};
    ///
    /// let options = CfOptions { merge_operator: Some(MergeOperator::max()), ..CfOptions::default() };
    /// let highs = db.create_column_family("highs", options).await?;
    /// highs.merge("game", "0700").await?;
    /// highs.merge("game", "0250").await?;
    /// assert_eq!(highs.get("game").await?.unwrap(), "0700");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default()).await
    }

    /// Merges an operand, with options: see [`ColumnFamily::merge_with`].
    pub async fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let durability = options.of_operand(self.cf.inner.engine.durability())?;
        self.write(Write::merge(key.as_ref(), operand.as_ref()), durability.into()).await
    }

    /// Removes a key. Removing an absent key is not an error.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default()).await
    }

    /// Removes a key, with options. Removing an absent key is not an error.
    pub async fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.write(Write::delete(key.as_ref()), options).await
    }

    /// Removes all keys in a range, with the store's durability: see [`ColumnFamily::delete_range`].
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// # let cf = waxseal::AsyncDb::memory().await?.column_family("default").await?;
    /// cf.put("2026-01-31", "measured").await?;
    /// cf.put("2026-02-01", "measured").await?;
    /// cf.delete_range("2026-01".."2026-02").await?;
    /// assert!(!cf.contains("2026-01-31").await? && cf.contains("2026-02-01").await?);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default()).await
    }

    /// Removes all keys in a range, with options: see [`ColumnFamily::delete_range_with`].
    pub async fn delete_range_with(&self, range: impl KeyRange, options: WriteOptions) -> Result<()> {
        let (mut batch, durability) = Batch::one_range(&self.cf, range, options)?;
        self.shared.commit(&mut batch, durability).await
    }

    /// Removes all keys of the family: see [`ColumnFamily::clear`].
    pub async fn clear(&self) -> Result<()> {
        self.delete_range(..).await
    }

    /// Sets a key to `new` if its value is `old`, atomically: see [`ColumnFamily::compare_and_set`].
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// # let cf = waxseal::AsyncDb::memory().await?.column_family("default").await?;
    /// assert!(cf.put_if_absent("job 7", "waiting").await?);
    /// assert!(cf.compare_and_set("job 7", Some("waiting"), Some("running")).await?);
    /// assert_eq!(cf.fetch_add("running", 1).await?, 0);
    /// cf.update("log", |old| Some([old.unwrap_or_default(), b"7 "].concat())).await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
    ) -> Result<bool> {
        self.compare_and_set_with(key, old, new, WriteOptions::default()).await
    }

    /// `compare_and_set` with options.
    pub async fn compare_and_set_with(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
        options: WriteOptions,
    ) -> Result<bool> {
        let [old, new] = [old.map(|old| old.as_ref().to_vec()), new.map(|new| new.as_ref().to_vec())];
        self.modify(key.as_ref(), move |cf, key| cf.compare_and_set_with(key, old, new, options)).await
    }

    /// Sets a key to a value if it is absent, atomically: see [`ColumnFamily::put_if_absent`].
    pub async fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, WriteOptions::default()).await
    }

    /// `put_if_absent` with options.
    pub async fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        self.compare_and_set_with(key, None::<&[u8]>, Some(value), options).await
    }

    /// Replaces the value of a key by `change` of it, atomically: see [`ColumnFamily::update`]. `change` runs on a
    /// thread of the store.
    pub async fn update<V: AsRef<[u8]> + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V> + Send + 'static,
    ) -> Result<Option<V>> {
        self.update_with(key, change, WriteOptions::default()).await
    }

    /// `update` with options.
    pub async fn update_with<V: AsRef<[u8]> + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V> + Send + 'static,
        options: WriteOptions,
    ) -> Result<Option<V>> {
        self.modify(key.as_ref(), move |cf, key| cf.update_with(key, change, options)).await
    }

    /// `update_with`, with a function that may fail: see [`ColumnFamily::try_update_with`].
    pub async fn try_update_with<V: AsRef<[u8]> + Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Result<Option<V>> + Send + 'static,
        options: WriteOptions,
    ) -> Result<Option<V>> {
        self.modify(key.as_ref(), move |cf, key| cf.try_update_with(key, change, options)).await
    }

    /// Adds a number to a counter, atomically, and returns the value before: see [`ColumnFamily::fetch_add`].
    pub async fn fetch_add(&self, key: impl AsRef<[u8]>, number: i64) -> Result<i64> {
        self.fetch_add_with(key, number, WriteOptions::default()).await
    }

    /// `fetch_add` with options.
    pub async fn fetch_add_with(&self, key: impl AsRef<[u8]>, number: i64, options: WriteOptions) -> Result<i64> {
        self.modify(key.as_ref(), move |cf, key| cf.fetch_add_with(key, number, options)).await
    }

    /// Returns a copy of the value of a key.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.shared.read(&self.cf, None, key.as_ref(), |record| Slice::copied(record.value)).await?.transpose()
    }

    /// Returns a copy of the value of a key, with its seal: see [`ColumnFamily::get_sealed`].
    pub async fn get_sealed(&self, key: impl AsRef<[u8]>) -> Result<Option<Sealed>> {
        self.shared.read_sealed(&self.cf, None, key.as_ref()).await
    }

    /// Returns true if the key exists.
    pub async fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.shared.read(&self.cf, None, key.as_ref(), |_| ()).await?.is_some())
    }

    /// Returns the entry that a provider stored with the value of a key: see [`ColumnFamily::get_meta`].
    pub async fn get_meta(&self, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        let (cf, key) = (self.cf.clone(), key.as_ref().to_vec());
        self.shared.look(move || cf.get_meta(key, provider)).await
    }

    /// Returns the values of many keys, in the order of `keys`, all read at the same sequence number.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Slice>>> {
        self.shared.read_many(&self.cf, None, keys).await
    }

    /// Returns the first record in key order: see [`ColumnFamily::first_key_value`].
    pub async fn first_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        let cf = self.cf.clone();
        self.shared.look(move || cf.first_key_value()).await
    }

    /// Returns the last record in key order: see [`ColumnFamily::last_key_value`].
    pub async fn last_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        let cf = self.cf.clone();
        self.shared.look(move || cf.last_key_value()).await
    }

    /// Returns true if the family has no record: see [`ColumnFamily::is_empty`].
    pub async fn is_empty(&self) -> Result<bool> {
        let cf = self.cf.clone();
        self.shared.look(move || cf.is_empty()).await
    }

    /// Removes the first record in key order and returns it: see [`ColumnFamily::pop_first`]. A future that was polled
    /// and then dropped may have removed a record that nobody receives.
    pub async fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop_first_with(WriteOptions::default()).await
    }

    /// [`pop_first`](AsyncColumnFamily::pop_first) with options.
    pub async fn pop_first_with(&self, options: WriteOptions) -> Result<Option<(Slice, Slice)>> {
        let cf = self.cf.clone();
        self.shared.work(move |_| cf.pop_first_with(options)).await
    }

    /// Removes the last record in key order and returns it: see
    /// [`pop_first`](AsyncColumnFamily::pop_first).
    pub async fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop_last_with(WriteOptions::default()).await
    }

    /// [`pop_last`](AsyncColumnFamily::pop_last) with options.
    pub async fn pop_last_with(&self, options: WriteOptions) -> Result<Option<(Slice, Slice)>> {
        let cf = self.cf.clone();
        self.shared.work(move |_| cf.pop_last_with(options)).await
    }

    /// Streams the records with keys in a range, in the family's current state: see [`ColumnFamily::range`].
    pub fn range(&self, range: impl KeyRange) -> RangeStream {
        RangeStream::new(self.cf.range(range), &self.shared)
    }

    /// Streams the records whose keys begin with `prefix`, in the family's current state: see [`ColumnFamily::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> RangeStream {
        RangeStream::new(self.cf.prefix(prefix), &self.shared)
    }

    /// Streams all records in the family's current state.
    pub fn iter(&self) -> RangeStream {
        self.range(..)
    }

    /// Returns the tables that may have an item of a property: see [`ColumnFamily::files_with`].
    pub async fn files_with(&self, property: &str, item: impl AsRef<[u8]>) -> Result<Vec<TableInfo>> {
        let (cf, property, item) = (self.cf.clone(), property.to_owned(), item.as_ref().to_vec());
        self.shared.work(move |_| cf.files_with(&property, item)).await
    }

    /// Compacts the tables that may have an item of a property: see [`ColumnFamily::compact_with`].
    pub async fn compact_with(&self, property: &str, item: impl AsRef<[u8]>) -> Result<()> {
        let (cf, property, item) = (self.cf.clone(), property.to_owned(), item.as_ref().to_vec());
        self.shared.work(move |_| cf.compact_with(&property, item)).await
    }

    /// Compacts chosen tables of the family: see [`ColumnFamily::compact_files`].
    pub async fn compact_files(&self, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
        let (cf, numbers): (_, Vec<u64>) = (self.cf.clone(), numbers.into_iter().collect());
        self.shared.work(move |_| cf.compact_files(numbers)).await
    }

    /// Compacts all tables of the family: see [`ColumnFamily::compact`].
    pub async fn compact(&self) -> Result<()> {
        let cf = self.cf.clone();
        self.shared.work(move |_| cf.compact()).await
    }

    /// Compacts the tables that hold keys of a range: see [`ColumnFamily::compact_range`].
    pub async fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        let (cf, range) = (self.cf.clone(), range.into_bounds());
        self.shared.work(move |_| cf.compact_range(range)).await
    }

    /// Exports records as table files in a new directory: see [`ColumnFamily::export`].
    pub async fn export(&self, dir: impl AsRef<Path>, options: ExportOptions) -> Result<Exported> {
        let (cf, dir) = (self.cf.clone(), dir.as_ref().to_path_buf());
        self.shared.work(move |_| cf.export(dir, options)).await
    }

    /// Imports an export: see [`ColumnFamily::import`].
    pub async fn import(&self, dir: impl AsRef<Path>) -> Result<Imported> {
        let (cf, dir) = (self.cf.clone(), dir.as_ref().to_path_buf());
        self.shared.work(move |_| cf.import(dir)).await
    }

    /// Estimates how many bytes of the store's files hold records of a range: see [`ColumnFamily::approximate_size`].
    pub async fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        let (cf, range) = (self.cf.clone(), range.into_bounds());
        self.shared.look(move || cf.approximate_size(range)).await
    }

    /// Estimates the number of records: see [`ColumnFamily::approximate_len`].
    pub async fn approximate_len(&self) -> Result<u64> {
        let cf = self.cf.clone();
        self.shared.look(move || Ok(cf.approximate_len())).await
    }

    /// Runs a read-modify-write on a thread of the store: it may have to read a file or to wait.
    async fn modify<T: Send + 'static>(
        &self,
        key: &[u8],
        run: impl FnOnce(&ColumnFamily, Vec<u8>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (cf, key) = (self.cf.clone(), key.to_vec());
        self.shared.work(move |_| run(&cf, key)).await
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
