//! Snapshots: consistent views of the whole store at one sequence number.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::db::{self as engine, At};
use waxseal_lsm::env::try_extend;
use waxseal_lsm::error::{Error, IoContext, Result};
use waxseal_lsm::record::Seqno;
use waxseal_meta::reading::Meta;

use crate::cursor::Cursor;
use crate::inner::{ColumnFamily, Inner};
use crate::range::{KeyRange, Range};
use crate::sealed::Sealed;
use crate::slice::Slice;

/// A consistent view of all column families at one sequence number. Clones share it and may be used from any thread.
///
/// The versions that it sees are retained until its last clone is dropped. An old snapshot therefore costs the space of
/// everything overwritten since.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// let cf = db.column_family("default")?;
/// cf.put("key", "before")?;
/// let snapshot = db.snapshot();
/// cf.put("key", "after")?;
/// assert_eq!(snapshot.get(&cf, "key")?.unwrap(), "before");
/// assert_eq!(cf.get("key")?.unwrap(), "after");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
    /// The engine's snapshot, or the error that prevented it.
    at: Result<engine::Snapshot>,
}

impl Snapshot {
    pub(crate) fn new(inner: &Arc<Inner>, at: Result<engine::Snapshot>) -> Snapshot {
        Snapshot { inner: Arc::clone(inner), at }
    }

    /// Returns the snapshot's sequence number: it sees commits up to this number.
    pub fn seqno(&self) -> Result<Seqno> {
        self.at.as_ref().map(engine::Snapshot::seqno).map_err(Error::clone)
    }

    /// Returns a copy of the value of a key.
    pub fn get(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_with(cf, key, Slice::copied)?.transpose()
    }

    /// Passes the value of a key to `visit` and returns the result of `visit`. Allocates nothing.
    pub fn get_with<R>(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let at = self.of(cf)?;
        self.inner.read(cf, key.as_ref(), At::Snapshot(at), |record| visit(record.value))
    }

    /// `get_with` without file access: see [`ColumnFamily::get_resident`].
    pub fn get_resident<R>(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<Option<R>>> {
        let at = self.of(cf)?;
        self.inner.read_resident(cf, key.as_ref(), At::Snapshot(at), |record| visit(record.value))
    }

    /// Returns a copy of the value of a key, with its seal: see [`ColumnFamily::get_sealed`].
    pub fn get_sealed(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Sealed>> {
        let at = self.of(cf)?;
        self.inner.read_sealed(cf, key.as_ref(), At::Snapshot(at))
    }

    /// Replaces the content of `value` with the value of a key. If the key is absent, returns false and leaves `value`
    /// empty.
    pub fn get_into(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let copied = self.get_with(cf, key, |found| try_extend(value, found))?;
        Ok(copied.transpose().during(|| "copying a value")?.is_some())
    }

    /// Returns the entry that a provider stored with the value of a key: see [`ColumnFamily::get_meta`].
    pub fn get_meta(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        let at = self.of(cf)?;
        self.inner.check(&cf.family)?;
        waxseal_meta::get_meta(&self.inner.engine, &cf.family, key.as_ref(), At::Snapshot(at), provider)
    }

    /// Returns true if the key existed.
    pub fn contains(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        let at = self.of(cf)?;
        self.inner.holds(cf, key.as_ref(), At::Snapshot(at))
    }

    /// Returns the values of many keys, in the order of `keys`.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        self.inner.read_many(cf, At::Snapshot(self.of(cf)?), keys)
    }

    /// Creates a cursor over a family at the snapshot.
    pub fn cursor(&self, cf: &ColumnFamily) -> Cursor {
        self.cursor_in(cf, ..)
    }

    /// Creates a cursor over the records of a family with keys in a range: see [`ColumnFamily::cursor_in`].
    pub fn cursor_in(&self, cf: &ColumnFamily, range: impl KeyRange) -> Cursor {
        match self.of(cf) {
            Ok(at) => Cursor::new(cf, At::Snapshot(at), range.into_bounds()),
            Err(error) => Cursor::failed(&self.inner, error),
        }
    }

    /// Iterates over the records with keys in a range.
    pub fn range(&self, cf: &ColumnFamily, range: impl KeyRange) -> Range {
        Range::new(cf, self.of(cf).cloned(), range.into_bounds())
    }

    /// Iterates over the records whose keys begin with `prefix`.
    pub fn prefix(&self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Range {
        Range::with_prefix(cf, self.of(cf).cloned(), prefix.as_ref())
    }

    /// Iterates over all records of a family at the snapshot.
    pub fn iter(&self, cf: &ColumnFamily) -> Range {
        self.range(cf, ..)
    }

    /// Returns the engine's snapshot, if it is of this store.
    pub(crate) fn of_store(&self, inner: &Arc<Inner>) -> Result<&engine::Snapshot> {
        if !Arc::ptr_eq(&self.inner, inner) {
            return Err(Error::invalid("the snapshot belongs to another store"));
        }
        self.at.as_ref().map_err(Error::clone)
    }

    /// Returns the engine's snapshot, if the family is of the same store.
    pub(crate) fn of(&self, cf: &ColumnFamily) -> Result<&engine::Snapshot> {
        if !Arc::ptr_eq(&self.inner, &cf.inner) {
            return Err(Error::invalid(format!(
                "column family {:?} belongs to another store than the snapshot",
                cf.name()
            )));
        }
        self.at.as_ref().map_err(Error::clone)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.seqno()).finish()
    }
}
