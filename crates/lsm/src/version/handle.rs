//! One table of a version: what the manifest says of it, and the file behind it, opened when it is first read.
//!
//! A damaged table does not refuse the store: its error is returned by every read that needs it, and by no other.
//!
//! Life: made when the manifest names the table, shared by every picture that holds it, retired when an edit that removes it is
//! durable. The last holder of a retired handle puts its number on a list; whoever works in the background deletes the
//! files on it (I06). Dropping does no I/O, so a reader that lets go of an old picture never waits for the disk.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::edit::TableMeta;
use crate::env::work::lock;
use crate::error::Result;
use crate::values::{DeadValues, ValueFile, ValueShelf};

/// What the tables of one family share: how they are opened, and where the dead ones go.
pub struct Shelf<T> {
    family: String,
    open: Box<Opener<T>>,
    dead: Arc<DeadFiles>,
    values: Option<Arc<ValueShelf>>,
}

/// Opens one table.
pub type Opener<T> = dyn Fn(&TableMeta) -> Result<T> + Send + Sync;

impl<T> Shelf<T> {
    /// The shelf of the family with this name.
    pub fn new(
        family: impl Into<String>,
        dead: Arc<DeadFiles>,
        open: impl Fn(&TableMeta) -> Result<T> + Send + Sync + 'static,
    ) -> Arc<Shelf<T>> {
        Arc::new(Shelf { family: family.into(), open: Box::new(open), dead, values: None })
    }

    /// The same, with the value files that its tables may point into. For a shelf that nothing stands on yet.
    pub fn with_values(self: Arc<Shelf<T>>, values: Arc<ValueShelf>) -> Arc<Shelf<T>> {
        let mut shelf = self;
        if let Some(shelf) = Arc::get_mut(&mut shelf) {
            shelf.values = Some(values);
        }
        shelf
    }

    /// The value files that its tables point into.
    pub fn values(&self) -> Option<&Arc<ValueShelf>> {
        self.values.as_ref()
    }
}

/// Tables that nobody can read any more and whose files still exist.
#[derive(Debug, Default)]
pub struct DeadFiles {
    tables: Mutex<Vec<Arc<TableMeta>>>,
    values: Arc<DeadValues>,
}

impl DeadFiles {
    /// Takes what is on the list; the caller deletes the files.
    pub fn drain(&self) -> Vec<Arc<TableMeta>> {
        std::mem::take(&mut *lock(&self.tables))
    }

    /// The list of value files.
    pub fn values(&self) -> &Arc<DeadValues> {
        &self.values
    }
}

/// One table.
pub struct Handle<T> {
    meta: Arc<TableMeta>,
    shelf: Arc<Shelf<T>>,
    opened: OnceLock<T>,
    is_retired: AtomicBool,
    /// The value files that it points into: they live as long as it does.
    values: Vec<Arc<ValueFile>>,
}

impl<T> Handle<T> {
    /// A table that is opened when it is first needed.
    pub fn new(meta: Arc<TableMeta>, shelf: Arc<Shelf<T>>) -> Arc<Handle<T>> {
        let values = shelf.values.as_ref();
        let values = values.map(|values| meta.values.iter().map(|of| values.hold(of)).collect()).unwrap_or_default();
        Arc::new(Handle { meta, shelf, opened: OnceLock::new(), is_retired: AtomicBool::new(false), values })
    }

    /// What the manifest says of it.
    #[inline]
    pub fn meta(&self) -> &Arc<TableMeta> {
        &self.meta
    }

    /// The table. An error names the family and the keys concerned, and the next call tries again: a file may be mended.
    /// Two threads that come first at once both open it, and one of the two is used: neither waits for the other's I/O (I14).
    #[inline]
    pub fn table(&self) -> Result<&T> {
        match self.opened.get() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    /// The value files that it points into.
    pub fn values(&self) -> &[Arc<ValueFile>] {
        &self.values
    }

    /// The table, if somebody has opened it already.
    pub fn opened(&self) -> Option<&T> {
        self.opened.get()
    }

    #[cold]
    fn open(&self) -> Result<&T> {
        let keys = (&self.meta.smallest[..], &self.meta.largest[..]);
        let table = (self.shelf.open)(&self.meta).map_err(|error| error.in_family(&self.shelf.family, Some(keys)))?;
        Ok(self.opened.get_or_init(|| table))
    }

    /// No version names it from now on; call it after the edit that removes the table is durable, never before.
    pub fn retire(&self) {
        if !self.is_retired.swap(true, Ordering::AcqRel) {
            self.values.iter().for_each(|values| values.unname());
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if *self.is_retired.get_mut() {
            lock(&self.shelf.dead.tables).push(Arc::clone(&self.meta));
        }
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {:06} of {:?}", self.meta.number, self.shelf.family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::AtomicUsize;

    fn meta(number: u64) -> Arc<TableMeta> {
        Arc::new(TableMeta { number, smallest: b"a".to_vec(), largest: b"m".to_vec(), ..TableMeta::default() })
    }

    #[test]
    fn a_table_is_opened_once_and_only_when_needed() {
        let opened = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&opened);
        let shelf = Shelf::new("f", Arc::default(), move |meta| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(meta.number * 10)
        });
        let handle = Handle::new(meta(7), shelf);
        assert_eq!(opened.load(Ordering::Relaxed), 0);
        assert_eq!((*handle.table().unwrap(), *handle.table().unwrap()), (70, 70));
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn every_read_of_a_damaged_table_hears_of_it_until_it_is_mended() {
        let mended = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&mended);
        let shelf = Shelf::new("users", Arc::default(), move |meta| match switch.load(Ordering::Relaxed) {
            true => Ok(meta.number),
            false => Err(Error::structural("bad footer").in_file("000007.tbl", 9)),
        });
        let handle = Handle::new(meta(7), shelf);
        for _ in 0..2 {
            let error = handle.table().unwrap_err();
            let damage = error.damage().unwrap();
            assert_eq!((damage.file.as_str(), damage.offset, damage.cf.as_deref()), ("000007.tbl", 9, Some("users")));
            assert_eq!(damage.key_range, Some((b"a".to_vec(), b"m".to_vec())));
        }
        mended.store(true, Ordering::Relaxed);
        assert_eq!(*handle.table().unwrap(), 7);
    }

    #[test]
    fn a_file_dies_only_with_the_last_holder_of_a_retired_handle() {
        let dead = Arc::new(DeadFiles::default());
        let shelf = Shelf::new("f", Arc::clone(&dead), |_| Ok(()));
        drop(Handle::new(meta(1), Arc::clone(&shelf)));
        assert_eq!(dead.drain(), []);
        let handle = Handle::new(meta(2), shelf);
        let reader = Arc::clone(&handle);
        handle.retire();
        drop(handle);
        assert_eq!(dead.drain(), []);
        drop(reader);
        assert_eq!(dead.drain(), [meta(2)]);
        assert_eq!(dead.drain(), []);
    }
}
