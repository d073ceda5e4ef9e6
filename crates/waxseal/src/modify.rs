//! Atomic read-modify-write of one key: compare-and-set, insertion of an absent key, update by a function, counters.
//!
//! All are optimistic: the key is read, the change decided without a lock, and the commit accepted only if the key
//! still has the value that was read (`waxseal_lsm::db::OptimisticRead`). Otherwise the change is decided again.

use waxseal_lsm::error::{Error, Result};

use crate::batch::{Change, modify};
use crate::inner::ColumnFamily;
use crate::write_options::WriteOptions;

impl ColumnFamily {
    /// Sets a key to `new` if its value is `old`, atomically. `None` stands for an absent key: as `old`, the key must
    /// be absent; as `new`, the key is removed. Returns false, and changes nothing, if the key has another value.
    ///
    /// Linearizable beside all other writes: no write of the key comes between the comparison and the change. An
    /// expired record counts as absent. Costs a `get` and a `put`; plain writes pay nothing for it. Beside fast writers
    /// the commit may be attempted several times. Then the writers wait for it, at most 10 ms.
    ///
    /// Errors: as for `get` and `put`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// cf.put("job 7", "waiting")?;
    /// assert!(cf.compare_and_set("job 7", Some("waiting"), Some("running"))?);
    /// assert!(!cf.compare_and_set("job 7", Some("waiting"), Some("running"))?); // another worker was faster
    /// assert!(cf.compare_and_set("job 7", Some("running"), None::<&str>)?);
    /// assert_eq!(cf.get("job 7")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
    ) -> Result<bool> {
        self.compare_and_set_with(key, old, new, WriteOptions::default())
    }

    /// [`compare_and_set`](ColumnFamily::compare_and_set) with options. Expiry, labels and entries apply to the new
    /// value.
    pub fn compare_and_set_with(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<impl AsRef<[u8]>>,
        new: Option<impl AsRef<[u8]>>,
        options: WriteOptions,
    ) -> Result<bool> {
        let (old, new) = (old.as_ref().map(AsRef::as_ref), new.as_ref().map(AsRef::as_ref));
        modify(self, key.as_ref(), options, |found| {
            let change = match (found == old, new) {
                (true, Some(new)) => Change::Put(new),
                (true, None) if found.is_some() => Change::Delete,
                _ => Change::Keep,
            };
            Ok((change, found == old))
        })
        .map(|(_, is_equal)| is_equal)
    }

    /// Sets a key to a value if it is absent, atomically. Returns false, and changes nothing, if the key exists.
    ///
    /// Guarantees, costs and errors are those of [`compare_and_set`](ColumnFamily::compare_and_set).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let emails = waxseal::Db::memory()?.column_family("emails")?;
    /// assert!(emails.put_if_absent("ada@example.org", "user 1")?);
    /// assert!(!emails.put_if_absent("ada@example.org", "user 2")?); // taken
    /// assert_eq!(emails.get("ada@example.org")?.unwrap(), "user 1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, WriteOptions::default())
    }

    /// [`put_if_absent`](ColumnFamily::put_if_absent) with options. With an expiry, the key is a lock that its holder
    /// cannot forget to release.
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        self.compare_and_set_with(key, None::<&[u8]>, Some(value), options)
    }

    /// Replaces the value of a key by `change` of it, atomically, and returns the new value. `change` receives `None`
    /// for an absent key. If it returns `None`, the key is removed; if the key was absent, nothing is written.
    ///
    /// `change` runs with no lock held. It runs again if another write changed the key meanwhile, so it should be short
    /// and free of side effects. If it panics, nothing is changed. It may use the store, but its own writes to the same
    /// key make it run again, without end.
    ///
    /// Guarantees, costs and errors are those of [`compare_and_set`](ColumnFamily::compare_and_set).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// let append = |old: Option<&[u8]>| Some([old.unwrap_or_default(), b"x"].concat());
    /// cf.update("log", append)?;
    /// assert_eq!(cf.update("log", append)?.unwrap(), b"xx");
    /// assert_eq!(cf.update("log", |_| None::<Vec<u8>>)?, None);
    /// assert!(!cf.contains("log")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.update_with(key, change, WriteOptions::default())
    }

    /// [`update`](ColumnFamily::update) with options. Expiry, labels and entries apply to the new value.
    pub fn update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
        options: WriteOptions,
    ) -> Result<Option<V>> {
        self.try_update_with(key, |found| Ok(change(found)), options)
    }

    /// [`update_with`](ColumnFamily::update_with), with a function that may fail. Its error is returned, and nothing is
    /// changed.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{Error, WriteOptions};
    ///
    /// let shorten = |old: Option<&[u8]>| match old {
    ///     Some([first, ..]) => Ok(Some([*first])),
    ///     _ => Err(Error::invalid("nothing to shorten")),
    /// };
    /// assert!(cf.try_update_with("name", shorten, WriteOptions::default()).is_err());
    /// cf.put("name", "Ada")?;
    /// assert_eq!(cf.try_update_with("name", shorten, WriteOptions::default())?, Some(*b"A"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<V>>,
        options: WriteOptions,
    ) -> Result<Option<V>> {
        let (change, ()) = modify(self, key.as_ref(), options, |found| {
            let change = match change(found)? {
                Some(new) => Change::Put(new),
                None if found.is_some() => Change::Delete,
                None => Change::Keep,
            };
            Ok((change, ()))
        })?;
        Ok(change.value())
    }

    /// Adds a number to a counter, atomically, and returns the value before the addition. A counter is a signed integer
    /// of 64 bits, stored as 8 bytes in little-endian order. An absent key counts as 0.
    ///
    /// Errors: `Invalid` if the value does not have 8 bytes or the sum exceeds 64 bits; nothing is changed then. Also
    /// those of [`compare_and_set`](ColumnFamily::compare_and_set), whose guarantees and costs apply.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// assert_eq!(cf.fetch_add("visits", 1)?, 0);
    /// assert_eq!(cf.fetch_add("visits", 1)?, 1);
    /// let visits = cf.get_with("visits", |value| i64::from_le_bytes(value.try_into().unwrap()))?;
    /// assert_eq!(visits, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fetch_add(&self, key: impl AsRef<[u8]>, number: i64) -> Result<i64> {
        self.fetch_add_with(key, number, WriteOptions::default())
    }

    /// [`fetch_add`](ColumnFamily::fetch_add) with options. Expiry, labels and entries apply to the new value.
    pub fn fetch_add_with(&self, key: impl AsRef<[u8]>, number: i64, options: WriteOptions) -> Result<i64> {
        modify(self, key.as_ref(), options, |found| {
            let before = found.map_or(Ok(0), counter)?;
            let after = before.checked_add(number).ok_or_else(|| {
                Error::invalid(format!("the counter is {before}: adding {number} exceeds a signed 64-bit integer"))
            })?;
            Ok((Change::Put(after.to_le_bytes()), before))
        })
        .map(|(_, before)| before)
    }
}

/// Decodes the value of a counter.
fn counter(value: &[u8]) -> Result<i64> {
    let bytes = value.try_into().map_err(|_| {
        let length = value.len();
        Error::invalid(format!("the key is no counter: its value has {length} bytes, a counter has 8"))
    })?;
    Ok(i64::from_le_bytes(bytes))
}
