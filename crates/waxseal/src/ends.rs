//! The first and the last record of a family: read, or removed atomically; and whether it has any.

use std::ops::Bound;

use waxseal_lsm::db::{At, End};
use waxseal_lsm::error::Result;
use waxseal_lsm::read::UserCursor;

use crate::batch::pop;
use crate::inner::ColumnFamily;
use crate::slice::Slice;
use crate::snapshot::Snapshot;
use crate::write_options::WriteOptions;

impl ColumnFamily {
    /// Returns the first record in key order, or `None` if the family has no record.
    ///
    /// Errors: `Corruption` if damage or a lost range precedes the first readable record, because a lost record may
    /// have been the first. Costs a seek, and a step for each tombstone and expired record before the first record.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// assert_eq!(cf.first_key_value()?, None);
    /// cf.put("a", "1")?;
    /// cf.put("b", "2")?;
    /// let (key, value) = cf.first_key_value()?.unwrap();
    /// assert_eq!((&key[..], &value[..]), (&b"a"[..], &b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn first_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        outermost(self, At::Latest, UserCursor::first)
    }

    /// Returns the last record in key order, or `None` if the family has no record. Errors and cost: as of
    /// [`first_key_value`](ColumnFamily::first_key_value), from the other end.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// cf.put("a", "1")?;
    /// cf.put("b", "2")?;
    /// let (key, value) = cf.last_key_value()?.unwrap();
    /// assert_eq!((&key[..], &value[..]), (&b"b"[..], &b"2"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn last_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        outermost(self, At::Latest, UserCursor::last)
    }

    /// Returns true if the family has no record. Reads no value in a blob file. Errors and cost: as of
    /// [`first_key_value`](ColumnFamily::first_key_value).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// cf.put("key", "value")?;
    /// assert!(!cf.is_empty()?);
    /// cf.delete("key")?;
    /// assert!(cf.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        has_no_record(self, At::Latest)
    }

    /// Removes the first record in key order and returns it, atomically. Returns `None`, and changes nothing, if the
    /// family has no record. With keys in the order of their arrival, the family is a queue.
    ///
    /// Linearizable beside all other writes: each record is returned to one caller, and none precedes it when it is
    /// removed. Durability: the store's default. Costs a [`first_key_value`](ColumnFamily::first_key_value) and a
    /// `delete`. Beside fast writers the commit may be attempted several times; then the writers wait for it, at most
    /// 10 ms.
    ///
    /// Errors: as for `first_key_value` and `delete`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let jobs = waxseal::Db::memory()?.column_family("jobs")?;
    /// jobs.put("0001", "paint")?;
    /// jobs.put("0002", "dry")?;
    /// let (key, job) = jobs.pop_first()?.unwrap();
    /// assert_eq!((&key[..], &job[..]), (&b"0001"[..], &b"paint"[..]));
    /// assert_eq!(jobs.pop_first()?.unwrap().1, "dry");
    /// assert_eq!(jobs.pop_first()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        pop(self, End::First, WriteOptions::default())
    }

    /// [`pop_first`](ColumnFamily::pop_first) with options.
    pub fn pop_first_with(&self, options: WriteOptions) -> Result<Option<(Slice, Slice)>> {
        pop(self, End::First, options)
    }

    /// Removes the last record in key order and returns it: see [`pop_first`](ColumnFamily::pop_first).
    pub fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        pop(self, End::Last, WriteOptions::default())
    }

    /// [`pop_last`](ColumnFamily::pop_last) with options.
    pub fn pop_last_with(&self, options: WriteOptions) -> Result<Option<(Slice, Slice)>> {
        pop(self, End::Last, options)
    }
}

impl Snapshot {
    /// Returns the first record of a family at the snapshot: see [`ColumnFamily::first_key_value`].
    pub fn first_key_value(&self, cf: &ColumnFamily) -> Result<Option<(Slice, Slice)>> {
        outermost(cf, At::Snapshot(self.of(cf)?), UserCursor::first)
    }

    /// Returns the last record of a family at the snapshot: see [`ColumnFamily::last_key_value`].
    pub fn last_key_value(&self, cf: &ColumnFamily) -> Result<Option<(Slice, Slice)>> {
        outermost(cf, At::Snapshot(self.of(cf)?), UserCursor::last)
    }

    /// Returns true if a family had no record at the snapshot: see [`ColumnFamily::is_empty`].
    pub fn is_empty(&self, cf: &ColumnFamily) -> Result<bool> {
        has_no_record(cf, At::Snapshot(self.of(cf)?))
    }
}

/// Copies the record that a cursor over the whole family reaches with `to`.
fn outermost(
    cf: &ColumnFamily,
    at: At<'_>,
    to: impl FnOnce(&mut UserCursor) -> Result<()>,
) -> Result<Option<(Slice, Slice)>> {
    let mut cursor = whole(cf, at)?;
    to(&mut cursor)?;
    cursor.valid().then(|| Ok((cursor.key().into(), Slice::copied(cursor.value())?))).transpose()
}

fn has_no_record(cf: &ColumnFamily, at: At<'_>) -> Result<bool> {
    let mut cursor = whole(cf, at)?.without_values();
    cursor.first()?;
    Ok(!cursor.valid())
}

fn whole(cf: &ColumnFamily, at: At<'_>) -> Result<UserCursor> {
    cf.inner.scan(cf, at, (Bound::Unbounded, Bound::Unbounded))
}
