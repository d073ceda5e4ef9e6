//! A column family: one ordered map of the store.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::db::{At, Family};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Reading, Verify};
use waxseal_lsm::order::Order;
use waxseal_meta::Seal;
use waxseal_meta::reading::Meta;
use waxseal_registry::Session as Who;

use crate::batch::{Write, WriteOptions, write_one, write_plainly};
use crate::cursor::Cursor;
use crate::db::Inner;
use crate::entries::MetaIter;
use crate::range::{KeyRange, Range};
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::verify::Policy;

/// A handle to one column family. Clones share it, and may be used from any thread.
///
/// Keys have 0 to 65,535 bytes, values up to 3 GiB less one; more is `Invalid` and changes nothing.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// let cf = db.column_family("fruit")?;
/// cf.put("apple", "red")?;
/// cf.put("banana", "yellow")?;
/// cf.put("cherry", "dark red")?;
///
/// let length = cf.get_with("banana", |value: &[u8]| value.len())?; // borrowed, nothing copied
/// assert_eq!(length, Some(6));
///
/// let keys: Vec<_> = cf.range("apple".."cherry").keys().collect::<waxseal::Result<_>>()?;
/// assert_eq!(keys, ["apple", "banana"]);
///
/// cf.delete("apple")?;
/// assert!(!cf.contains("apple")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ColumnFamily {
    pub(crate) inner: Arc<Inner>,
    pub(crate) family: Family,
    pub(crate) policy: Policy,
    /// In whose name it writes.
    pub(crate) who: Who,
}

impl ColumnFamily {
    /// The name.
    pub fn name(&self) -> &str {
        self.family.name()
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CfOptions {
        self.family.options()
    }

    /// Sets a key to a value, with the store's durability.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        write_plainly(self, Write::put(key.as_ref(), value.as_ref()))
    }

    /// Sets a key to a value.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{Durability, WriteOptions};
    ///
    /// cf.put_with("key", "value", WriteOptions::new().durability(Durability::Sync))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        write_one(self, Write::put(key.as_ref(), value.as_ref()), options)
    }

    /// Sets a key to a value with the seal that the caller was given with them, or made by [`Seal::of`] where they came from: so
    /// nothing that happened since can pass. The seal is checked now, kept as it is, and handed back by `get_sealed`.
    ///
    /// Errors: `Invalid` if the seal is not that of key and value, or the store was opened plain; nothing was changed then.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{ErrorKind, Seal};
    ///
    /// let seal = Seal::of("key", "value");
    /// cf.put_sealed("key", "value", seal)?;
    /// assert_eq!(cf.put_sealed("key", "valve", seal).unwrap_err().kind(), &ErrorKind::Invalid);
    /// assert_eq!(cf.get_sealed("key")?.unwrap().seal, seal);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_sealed(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, seal: Seal) -> Result<()> {
        self.put_sealed_with(key, value, seal, WriteOptions::default())
    }

    /// `put_sealed`, with options.
    pub fn put_sealed_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        seal: Seal,
        options: WriteOptions,
    ) -> Result<()> {
        let write = Write { seal: Some(seal), ..Write::put(key.as_ref(), value.as_ref()) };
        write_one(self, write, options)
    }

    /// Removes a key; no error if it is not there.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        write_plainly(self, Write::delete(key.as_ref()))
    }

    /// Removes a key; no error if it is not there.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        write_one(self, Write::delete(key.as_ref()), options)
    }

    /// The value of a key, copied.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_with(key, |value| Slice::from(value))
    }

    /// Lends the value of a key to `visit` and gives back its answer. Allocates nothing; `visit` is not called if the key is
    /// not there. Keep it short: it may stand on pinned memory of the store.
    #[inline]
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.inner.read(self, key.as_ref(), At::Latest, |record| visit(record.value))
    }

    /// `get_with`, if its answer is in memory: `None` if a file would have to be read, and then `visit` was not called. For those who
    /// must not wait: an event loop, a thread that holds an interpreter's lock. An answer costs what a cached `get_with` does; none, the
    /// search as far as it came. Errors: as of `get_with`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// let users = db.column_family("users")?;
    /// users.put("1", "Ada")?;
    /// let value = match users.get_resident("1", |value| value.to_vec())? {
    ///     Some(answer) => answer,
    ///     None => users.get_with("1", |value| value.to_vec())?, // on a thread that may wait
    /// };
    /// assert_eq!(value.unwrap(), b"Ada");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_resident<R>(&self, key: impl AsRef<[u8]>, visit: impl FnOnce(&[u8]) -> R) -> Result<Option<Option<R>>> {
        self.inner.read_resident(self, key.as_ref(), At::Latest, |record| visit(record.value))
    }

    /// The value of a key, copied, with its seal. The two are checked against each other whatever the policy; it costs a `get` and
    /// one more hash of key and value.
    ///
    /// Errors: `Corruption` if they do not agree; `Invalid` if the record has no seal, since a plain store wrote it, or if this
    /// store was opened plain.
    pub fn get_sealed(&self, key: impl AsRef<[u8]>) -> Result<Option<Sealed>> {
        self.inner.read_sealed(self, key.as_ref(), At::Latest)
    }

    /// `Closed` once its store was closed, `Invalid` once it was dropped: what every call on it would answer.
    pub fn check(&self) -> Result<()> {
        self.inner.check(&self.family)
    }

    /// What point reads through this handle check.
    #[inline]
    pub(crate) fn point_reading(&self) -> Reading {
        let verify = self.policy.reads.unwrap_or(self.family.options().verify_reads);
        Reading { verify, fill_cache: !self.policy.passing }
    }

    /// What cursors made through this handle check.
    pub(crate) fn scan_reading(&self) -> Reading {
        let verify = self.policy.scans.unwrap_or(self.family.options().verify_scans);
        Reading { verify, fill_cache: !self.policy.passing }
    }

    /// The same family, to be read under another policy: a handle like any other, cheap to make. Reads through it, by cursor and
    /// iterator too, and through a [`Snapshot`](crate::Snapshot) that is asked with it, check what `verify` says.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # cf.put("key", "value")?;
    /// use waxseal::Verify;
    ///
    /// let every = cf.with_verify(Verify::Always); // each record that a scan passes, too
    /// assert_eq!(every.iter().count(), 1);
    /// assert_eq!(cf.with_verify(Verify::Never).get("key")?.unwrap(), "value");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_verify(&self, verify: Verify) -> ColumnFamily {
        ColumnFamily { policy: Policy { reads: Some(verify), scans: Some(verify), ..self.policy }, ..self.clone() }
    }

    /// The same family, for reads that come by once: with false, blocks that they load from files are not kept in the cache, and what
    /// is there stays. True is the default.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// # cf.put("key", "value")?;
    /// # db.flush()?;
    /// assert_eq!(cf.with_fill_cache(false).iter().count(), 1);
    /// assert_eq!(db.metrics().cache.used_bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_fill_cache(&self, fill: bool) -> ColumnFamily {
        ColumnFamily { policy: Policy { passing: !fill, ..self.policy }, ..self.clone() }
    }

    /// Replaces the content of `value` by the value of a key. False, and an empty `value`, if the key is not there.
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(self.get_with(key, |found| value.extend_from_slice(found))?.is_some())
    }

    /// True if the key is there. A value that stands in a value file is not read for it.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.holds(self, key.as_ref(), At::Latest)
    }

    /// What a provider keeps beside the value of a key: see [`meta`](crate::meta). The value is neither copied nor hashed for it,
    /// whatever its size; [`Meta::checked`](crate::meta::Meta) says how far the entry was checked.
    ///
    /// Errors: `Corruption` if what stands beside the value cannot be decoded or does not fit its sum.
    pub fn get_meta(&self, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        self.inner.check(&self.family)?;
        waxseal_meta::get_meta(&self.inner.engine, &self.family, key.as_ref(), At::Latest, provider)
    }

    /// What a provider keeps beside the values of a range, in the order of their keys; values without an entry are passed over.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::WriteOptions;
    /// use waxseal::meta::{LABELS, Labels};
    ///
    /// cf.put("a", "1")?;
    /// cf.put_with("b", "2", WriteOptions::new().label("source", "import"))?;
    /// for entry in cf.iter_meta(.., LABELS)? {
    ///     let (key, meta) = entry?;
    ///     assert_eq!((&key[..], Labels::read(&meta.bytes).unwrap()), (&b"b"[..], vec![("source", "import")]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter_meta(&self, range: impl KeyRange, provider: u16) -> Result<MetaIter> {
        self.inner.check(&self.family)?;
        let bounds = range.into_bounds();
        let below = waxseal_meta::iter_meta(&self.inner.engine, &self.family, At::Latest, bounds, provider)?;
        Ok(MetaIter::new(self, below))
    }

    /// The values of many keys, in their order, all as they were at one moment.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// cf.put("a", "1")?;
    /// let values = cf.multi_get(["a", "b"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    /// assert_eq!(values[1], None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Slice>>> {
        self.inner.read_many(self, At::Latest, keys)
    }

    /// A cursor over the family as it is now: borrows keys and values, turns round, allocates nothing per step.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # cf.put("a", "1")?; cf.put("c", "3")?;
    /// let mut cursor = cf.cursor();
    /// cursor.seek("b")?;
    /// assert!(cursor.valid());
    /// assert_eq!(cursor.key(), b"c");
    /// cursor.prev()?;
    /// assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor(&self) -> Cursor {
        self.cursor_in(..)
    }

    /// A cursor over the records with keys in a range: it stands on no other, wherever it is moved.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # for key in ["a", "b", "c"] { cf.put(key, key)?; }
    /// let mut cursor = cf.cursor_in("b"..);
    /// cursor.seek("a")?;
    /// assert_eq!(cursor.key(), b"b");
    /// cursor.prev()?;
    /// assert!(!cursor.valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor_in(&self, range: impl KeyRange) -> Cursor {
        Cursor::new(self, At::Latest, range.into_bounds())
    }

    /// The records with keys in a range, as they are now. A range whose end precedes its start is empty.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # for key in ["a", "b", "c"] { cf.put(key, key)?; }
    /// assert_eq!(cf.range("a".."c").count(), 2);
    /// assert_eq!(cf.range("b"..).rev().count(), 2);
    /// let (last, _) = cf.range(.."c").next_back().unwrap()?;
    /// assert_eq!(last, "b");
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::new(self, self.view(), range.into_bounds())
    }

    /// The records whose keys begin with `prefix`, as they are now. Under an order of the family's own this walks the whole
    /// family, because such keys need not stand together.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::with_prefix(self, self.view(), prefix.as_ref())
    }

    /// All records, as they are now.
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// Rewrites the tables of the whole family until nothing that is deleted or overwritten takes space in them, but for what snapshots see. Files of large
    /// values keep garbage up to about a half; [`Db::settle`](crate::Db::settle) brings that to an eighth.
    pub fn compact(&self) -> Result<()> {
        self.inner.check(&self.family)?;
        self.inner.engine.compact(&self.family, &(Bound::Unbounded, Bound::Unbounded))
    }

    /// Flushes, then rewrites the tables that hold keys of a range until nothing that is deleted or overwritten there takes space in
    /// them, as [`compact`](ColumnFamily::compact) does.
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.inner.check(&self.family)?;
        self.inner.engine.compact(&self.family, &range.into_bounds())
    }

    /// About how many bytes of the store's files hold records of a range. Memtables are not counted.
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        self.inner.check(&self.family)?;
        self.inner.engine.approximate_size(&self.family, &range.into_bounds())
    }

    pub(crate) fn order(&self) -> &Order {
        &self.family.options().order
    }

    fn view(&self) -> Result<waxseal_lsm::db::Snapshot> {
        self.inner.check(&self.family).and_then(|()| self.inner.engine.snapshot())
    }
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnFamily({:?})", self.name())
    }
}
