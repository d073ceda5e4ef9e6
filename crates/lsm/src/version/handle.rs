//! A handle of one table of a version: the table's description in the manifest, and its file, opened at the first read.
//!
//! A damaged table does not prevent opening the store: its error is returned by every read that needs the table, and by
//! no other read.
//!
//! Life:   a handle is created when the manifest names the table, shared by every version that includes it, and retired
//!         when an edit that removes the table is durable. The last holder of a retired table puts the table and its
//!         number on a list; a background thread frees the tables and deletes the files on it (I06). So a reader that
//!         releases an old version never waits for the disk, nor for freeing the memory of all blocks of an obsolete
//!         table, which takes a tenth of a second. A table that is evicted is freed by the evicting thread.
//!
//! An open table consists of its index and filter in memory (`OpenTables` limits them) and of a file whose descriptor
//! is opened and closed independently (`Descriptors`). If indexes take too much memory, tables are evicted: the next
//! version holds a new handle of the same table, which is opened when needed again, and the old one is closed with the
//! last version that holds it. The read path is not involved. All handles of a table, and the table while it is being
//! read, share one `TableLife`, which is also its file: the file becomes obsolete when the last of them is released.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::obsolete_files::{Late, ObsoleteList, ObsoleteObject};
use super::table_meta::TableMeta;
use crate::descriptors::{CachedFile, Descriptors};
use crate::env::work::lock;
use crate::env::{File, Mapped};
use crate::error::Result;
use crate::names::StoreFileName;
use crate::planted;
use crate::values::{BlobFile, BlobFiles};

/// State shared by the tables of one family: the function that opens tables, and the list of obsolete tables.
pub struct TableCache<T> {
    family: String,
    open: Box<Opener<T>>,
    dead: Arc<ObsoleteList>,
    values: Option<Arc<BlobFiles>>,
    bound: Option<Bound<T>>,
    /// Converts an obsolete table into an object that is freed later; `None`: the last holder frees it.
    late: Option<fn(T) -> Late>,
}

/// The limit on open tables in which a shelf participates, and the memory use of one table.
pub type Bound<T> = (Arc<OpenTables>, fn(&T) -> usize);

/// Opens one table. The file is managed by the table's handle if its shelf is `bounded`.
pub type Opener<T> = dyn Fn(&TableMeta, Arc<dyn File>) -> Result<T> + Send + Sync;

impl<T> TableCache<T> {
    /// Creates the shelf of the family with this name, whose tables stay open once opened.
    pub fn new(
        family: impl Into<String>,
        dead: Arc<ObsoleteList>,
        open: impl Fn(&TableMeta) -> Result<T> + Send + Sync + 'static,
    ) -> Arc<TableCache<T>> {
        let open = Box::new(move |meta: &TableMeta, _: Arc<dyn File>| open(meta));
        Arc::new(TableCache { family: family.into(), open, dead, bound: None, values: None, late: None })
    }

    /// Creates a shelf whose tables are evicted if their indexes take too much memory. `bound` counts them, and returns
    /// the memory use of an open one.
    pub fn bounded(
        family: impl Into<String>,
        dead: Arc<ObsoleteList>,
        bound: Bound<T>,
        open: impl Fn(&TableMeta, Arc<dyn File>) -> Result<T> + Send + Sync + 'static,
    ) -> Arc<TableCache<T>> {
        Arc::new(TableCache {
            family: family.into(),
            open: Box::new(open),
            dead,
            bound: Some(bound),
            values: None,
            late: None,
        })
    }

    /// Adds the value files that its tables may point into. For a shelf without handles.
    pub fn with_values(self: Arc<TableCache<T>>, values: Arc<BlobFiles>) -> Arc<TableCache<T>> {
        self.with(|table_cache| table_cache.values = Some(values))
    }

    /// Defers freeing of obsolete tables to the thread that works through the obsolete list, because it takes long. For
    /// a shelf without handles.
    pub fn freed_later(self: Arc<TableCache<T>>, late: fn(T) -> Late) -> Arc<TableCache<T>> {
        self.with(|table_cache| table_cache.late = Some(late))
    }

    fn with(mut self: Arc<TableCache<T>>, change: impl FnOnce(&mut TableCache<T>)) -> Arc<TableCache<T>> {
        if let Some(table_cache) = Arc::get_mut(&mut self) {
            change(table_cache);
        }
        self
    }

    /// Returns the value files that its tables point into.
    pub fn values(&self) -> Option<&Arc<BlobFiles>> {
        self.values.as_ref()
    }

    /// Registers a holder that can evict tables of this shelf.
    pub fn held_by(&self, holder: Weak<dyn Holder>) {
        if let Some((tables, _)) = &self.bound {
            tables.add(holder);
        }
    }
}

/// A holder of a version that can evict some of its tables.
pub trait Holder: Send + Sync {
    /// Evicts at most `most` open tables that were not used since the last call, or any open ones if `any`. Returns the
    /// number evicted. It does no I/O except closing files.
    fn put_back(&self, most: usize, any: bool) -> usize;
}

/// The open tables of a store: a limit on the memory for their indexes and filters, and the descriptors of their files.
/// Cursors and jobs keep the indexes of tables that they read. Apart from those, the limit is exceeded by at most the
/// tables that threads open at the same time.
pub struct OpenTables {
    most_bytes: usize,
    open: AtomicUsize,
    bytes: AtomicUsize,
    holders: Mutex<Vec<Weak<dyn Holder>>>,
    is_sweeping: AtomicBool,
    /// Number of open files that the system was told to expect.
    expected: AtomicUsize,
    files: Arc<Descriptors>,
}

/// Number of open files of a store with few tables, with room to grow.
const FEW_FILES: usize = 1000;

impl OpenTables {
    /// Creates a limit of `most_bytes` bytes, not counting cached blocks; `files` holds the tables' open files.
    pub fn bounded(most_bytes: usize, files: Arc<Descriptors>) -> OpenTables {
        OpenTables {
            most_bytes,
            open: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            holders: Mutex::default(),
            is_sweeping: AtomicBool::new(false),
            expected: AtomicUsize::new(0),
            files,
        }
    }

    /// Returns the open files of tables, including value files.
    pub fn files(&self) -> &Arc<Descriptors> {
        &self.files
    }

    /// Returns the number of open files to announce to the system now that there are `tables` tables; `None` if the
    /// previous announcement suffices. It is twice the current number, so that announcements are rare, and exceeds the
    /// limit on open files by at most `FEW_FILES`.
    pub fn outgrown(&self, tables: usize) -> Option<usize> {
        let most = self.files.most();
        let files = tables.max(self.files.count()).min(most);
        if files < self.expected.load(Ordering::Relaxed) {
            return None;
        }
        let wanted = files.saturating_mul(2).max(FEW_FILES).min(most.saturating_add(FEW_FILES));
        self.expected.store(wanted, Ordering::Relaxed);
        Some(wanted)
    }

    /// Returns the number of open tables, and the bytes of their indexes and filters.
    pub fn now(&self) -> (usize, usize) {
        (self.open.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    fn add(&self, holder: Weak<dyn Holder>) {
        let mut holders = lock(&self.holders);
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
            let live = holders.len();
            holders.reserve(live + 1); // scanning the list for every new holder would take quadratic time
        }
        holders.push(holder);
    }

    fn opened(&self, bytes: usize) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn closed(&self, bytes: usize) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds bytes of index and filter partitions that an open table has loaded.
    pub fn grew(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.make_room();
    }

    /// Subtracts such bytes when their table is closed.
    pub fn shrank(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the number of tables to evict; 0 within the limit. Above it, memory use is reduced to 3/4 of the limit,
    /// so that not every opened table causes a scan.
    fn excess(&self) -> usize {
        let (open, bytes) = self.now();
        if bytes <= self.most_bytes {
            return 0;
        }
        let spare = self.most_bytes - self.most_bytes / 4;
        bytes.saturating_sub(spare).div_ceil((bytes / open.max(1)).max(1)).min(open)
    }

    /// Evicts tables if they use too much memory: first those not used recently, then any. One thread at a time; other
    /// threads continue.
    fn make_room(&self) {
        let mut excess = self.excess();
        if excess == 0 || self.is_sweeping.swap(true, Ordering::Acquire) {
            return;
        }
        let holders: Vec<_> = lock(&self.holders).iter().filter_map(Weak::upgrade).collect();
        for any in [false, true] {
            for holder in &holders {
                if excess > 0 {
                    excess -= holder.put_back(excess, any).min(excess);
                }
            }
        }
        self.is_sweeping.store(false, Ordering::Release);
    }
}

/// State shared by all handles of one table: its file, which becomes obsolete with the last of them if the table is
/// retired. Readers of the table hold it too.
struct TableLife {
    meta: Arc<TableMeta>,
    file: Option<CachedFile>,
    dead: Arc<ObsoleteList>,
    is_retired: AtomicBool,
    /// The value files that it points into, held as long as this exists.
    values: Vec<Arc<BlobFile>>,
}

impl Drop for TableLife {
    fn drop(&mut self) {
        if *self.is_retired.get_mut() {
            self.dead.bury(ObsoleteObject::Table(Arc::clone(&self.meta)));
        }
    }
}

impl TableLife {
    fn file(&self) -> io::Result<&CachedFile> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl fmt::Debug for TableLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file of table {:06}", self.meta.number)
    }
}

impl File for TableLife {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file()?.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file()?.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file()?.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file()?.len()
    }

    fn data_end(&self) -> io::Result<u64> {
        self.file()?.data_end()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file()?.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file()?.allocate(length)
    }

    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.file()?.map(length)
    }

    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        if let Some(file) = &self.file {
            file.advise(offset, length, will_need);
        }
    }
}

/// A handle of one table.
pub struct LazyTable<T> {
    opened: OnceLock<T>,
    /// True if the table was used since the last eviction scan.
    was_asked: AtomicBool,
    meta: Arc<TableMeta>,
    table_cache: Arc<TableCache<T>>,
    life: Arc<TableLife>,
}

impl<T> LazyTable<T> {
    /// Creates a handle of a table that is opened on first use.
    pub fn new(meta: Arc<TableMeta>, table_cache: Arc<TableCache<T>>) -> Arc<LazyTable<T>> {
        let is_retired = AtomicBool::new(false);
        let values = table_cache.values.as_ref();
        let values = values.map(|values| meta.values.iter().map(|of| values.hold(of)).collect()).unwrap_or_default();
        let file = |(tables, _): &Bound<T>| CachedFile::new(tables.files(), StoreFileName::Table(meta.number));
        let file = table_cache.bound.as_ref().map(file);
        let life = Arc::new(TableLife {
            meta: Arc::clone(&meta),
            file,
            dead: Arc::clone(&table_cache.dead),
            is_retired,
            values,
        });
        LazyTable::living(meta, table_cache, life)
    }

    fn living(meta: Arc<TableMeta>, table_cache: Arc<TableCache<T>>, life: Arc<TableLife>) -> Arc<LazyTable<T>> {
        Arc::new(LazyTable { opened: OnceLock::new(), was_asked: AtomicBool::new(false), meta, table_cache, life })
    }

    /// Creates a new, unopened handle of the same table.
    pub fn anew(&self) -> Arc<LazyTable<T>> {
        let (meta, table_cache) = (Arc::clone(&self.meta), Arc::clone(&self.table_cache));
        planted!(TablePutBackForgetsItsLife => return LazyTable::new(meta, table_cache));
        LazyTable::living(meta, table_cache, Arc::clone(&self.life))
    }

    /// Returns the table's description in the manifest.
    #[inline]
    pub fn meta(&self) -> &Arc<TableMeta> {
        &self.meta
    }

    /// Returns the table, opened if necessary. An error names the family and the affected keys, and the next call tries
    /// again, because the file may have been repaired. Two threads that open it at the same time both do so, and one
    /// result is used: neither waits for the other's I/O (I14).
    #[inline]
    pub fn table(&self) -> Result<&T> {
        match self.opened() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    /// Returns the value files that it points into.
    pub fn values(&self) -> &[Arc<BlobFile>] {
        &self.life.values
    }

    /// Returns the table if it is open.
    #[inline]
    pub fn opened(&self) -> Option<&T> {
        let table = self.opened.get()?;
        if !self.was_asked.load(Ordering::Relaxed) {
            self.was_asked.store(true, Ordering::Relaxed);
        }
        Some(table)
    }

    /// True if the table is open, counts for a limit, and was not used since the last call or `any` is set.
    pub fn may_be_put_back(&self, any: bool) -> bool {
        self.table_cache.bound.is_some()
            && self.opened.get().is_some()
            && (!self.was_asked.swap(false, Ordering::Relaxed) || any)
    }

    #[cold]
    fn open(&self) -> Result<&T> {
        let keys = (&self.meta.smallest[..], &self.meta.largest[..]);
        let opened = (self.table_cache.open)(&self.meta, Arc::clone(&self.life) as Arc<dyn File>);
        let table = opened.map_err(|error| error.in_family(&self.table_cache.family, Some(keys)))?;
        let mut is_first = false;
        let table = self.opened.get_or_init(|| {
            is_first = true;
            table
        });
        if let Some((tables, weigh)) = self.table_cache.bound.as_ref().filter(|_| is_first) {
            tables.opened(weigh(table));
            // Do not evict this table, which is needed now; afterwards a table used once has no preference.
            self.was_asked.store(true, Ordering::Relaxed);
            tables.make_room();
            self.was_asked.store(false, Ordering::Relaxed);
        }
        Ok(table)
    }

    /// Opens the files of the table and of the values that it points into. Returns `Corruption` if one is missing, or
    /// `Io`.
    pub fn open_files(&self) -> Result<()> {
        self.life.file.iter().try_for_each(CachedFile::ensure_open)?;
        self.life.values.iter().try_for_each(|values| values.ensure_open())
    }

    /// Returns the number of files that `open_files` opens.
    pub fn files(&self) -> usize {
        1 + self.life.values.len()
    }

    /// Notes that a view shows the table. Call it after the view is changed.
    pub fn shown(&self) {
        self.life.values.iter().for_each(|values| values.shown());
    }

    /// Marks the table as named by no version. Call it only after the edit that removes the table is durable.
    pub fn retire(&self) {
        if !self.life.is_retired.swap(true, Ordering::AcqRel) {
            self.life.dead.retired(&self.meta);
            self.life.values.iter().for_each(|values| values.unname());
        }
    }
}

impl<T> Drop for LazyTable<T> {
    fn drop(&mut self) {
        if let (Some((tables, weigh)), Some(table)) = (&self.table_cache.bound, self.opened.get()) {
            tables.closed(weigh(table));
        }
        if self.life.is_retired.load(Ordering::Acquire)
            && let (Some(late), Some(table)) = (self.table_cache.late, self.opened.take())
        {
            self.table_cache.dead.bury(ObsoleteObject::Memory(late(table)));
        }
    }
}

impl<T> fmt::Debug for LazyTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {:06} of {:?}", self.meta.number, self.table_cache.family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::SimFs;
    use crate::error::Error;
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;

    fn meta(number: u64) -> Arc<TableMeta> {
        Arc::new(TableMeta { number, smallest: b"a".to_vec(), largest: b"m".to_vec(), ..TableMeta::default() })
    }

    /// Returns the obsolete tables, in order; asserts that no other objects are in the list.
    fn buried(dead: &ObsoleteList) -> Vec<Arc<TableMeta>> {
        let all = std::iter::from_fn(|| dead.take());
        let tables = all.map(|dead| match dead {
            ObsoleteObject::Table(meta) => meta,
            ObsoleteObject::Memory(_) | ObsoleteObject::Values(_) => panic!("tables alone died"),
        });
        tables.collect()
    }

    #[test]
    fn a_table_is_opened_once_and_only_when_needed() {
        let opened = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&opened);
        let table_cache = TableCache::new("f", Arc::default(), move |meta| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(meta.number * 10)
        });
        let handle = LazyTable::new(meta(7), table_cache);
        assert_eq!(opened.load(Ordering::Relaxed), 0);
        assert_eq!((*handle.table().unwrap(), *handle.table().unwrap()), (70, 70));
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn every_read_of_a_damaged_table_hears_of_it_until_it_is_mended() {
        let mended = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&mended);
        let table_cache = TableCache::new("users", Arc::default(), move |meta| match switch.load(Ordering::Relaxed) {
            true => Ok(meta.number),
            false => Err(Error::structural("bad footer").in_file("000007.tbl", 9)),
        });
        let handle = LazyTable::new(meta(7), table_cache);
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
        let dead = Arc::new(ObsoleteList::default());
        let table_cache = TableCache::new("f", Arc::clone(&dead), |_| Ok(()));
        drop(LazyTable::new(meta(1), Arc::clone(&table_cache)));
        assert_eq!(buried(&dead), []);
        let handle = LazyTable::new(meta(2), table_cache);
        let reader = Arc::clone(&handle);
        handle.retire();
        drop(handle);
        assert_eq!(buried(&dead), []);
        drop(reader);
        assert_eq!(buried(&dead), [meta(2)]);
        assert_eq!(buried(&dead), []);
    }

    #[test]
    fn a_table_that_died_is_freed_by_whoever_works_through_the_list() {
        let (dead, heard) = (Arc::new(ObsoleteList::default()), Arc::new(AtomicUsize::new(0)));
        let hears = Arc::clone(&heard);
        dead.on_new(move || {
            hears.fetch_add(1, Ordering::Relaxed);
        });
        let table = Arc::new(7);
        let opened = Arc::clone(&table);
        let table_cache =
            TableCache::new("f", Arc::clone(&dead), move |_| Ok(Arc::clone(&opened))).freed_later(|table| table);
        let handle = |number| {
            let handle = LazyTable::new(meta(number), Arc::clone(&table_cache));
            handle.table().unwrap();
            handle
        };
        let before = Arc::strong_count(&table);
        drop(handle(1)); // eviction: the evicting thread frees the table
        assert_eq!((Arc::strong_count(&table), heard.load(Ordering::Relaxed)), (before, 0));
        assert!(dead.take().is_none());
        let handle = handle(2);
        handle.retire();
        drop(handle);
        assert_eq!((Arc::strong_count(&table), heard.load(Ordering::Relaxed)), (before + 1, 2));
        assert!(matches!(dead.take(), Some(ObsoleteObject::Memory(_))), "its file is closed before it is removed");
        assert_eq!((Arc::strong_count(&table), buried(&dead)), (before, vec![meta(2)]));
    }

    /// The tables of a family's version.
    struct Picture(Mutex<Vec<Arc<LazyTable<u64>>>>);

    impl Holder for Picture {
        fn put_back(&self, most: usize, any: bool) -> usize {
            let mut tables = lock(&self.0);
            let mut taken = 0;
            for handle in tables.iter_mut() {
                if taken < most && handle.may_be_put_back(any) {
                    *handle = handle.anew();
                    taken += 1;
                }
            }
            taken
        }
    }

    fn bounded(most_bytes: usize, files: usize) -> OpenTables {
        OpenTables::bounded(most_bytes, Arc::new(Descriptors::bounded(SimFs::new(1).env(1).fs, Path::new("/"), files)))
    }

    /// Tables of ten bytes each.
    fn picture(tables: u64, most_bytes: usize) -> (Arc<Picture>, Arc<OpenTables>, Arc<ObsoleteList>) {
        let (bound, dead) = (Arc::new(bounded(most_bytes, 8)), Arc::new(ObsoleteList::default()));
        let weigh: fn(&u64) -> usize = |_| 10;
        let table_cache =
            TableCache::bounded("f", Arc::clone(&dead), (Arc::clone(&bound), weigh), |meta, _| Ok(meta.number));
        let handles = (0..tables).map(|number| LazyTable::new(meta(number), Arc::clone(&table_cache))).collect();
        let picture = Arc::new(Picture(Mutex::new(handles)));
        let holder: Arc<dyn Holder> = Arc::clone(&picture) as _;
        table_cache.held_by(Arc::downgrade(&holder));
        (picture, bound, dead)
    }

    fn ask(picture: &Picture, number: u64) {
        let handle = Arc::clone(&lock(&picture.0)[number as usize]);
        assert_eq!(*handle.table().unwrap(), number);
    }

    #[test]
    fn no_more_tables_stay_open_than_may_be() {
        let (picture, bound, _) = picture(100, 80);
        for number in (0..100).chain((0..100).rev()) {
            ask(&picture, number);
            let (open, bytes) = bound.now();
            assert!(open <= 8 && bytes == open * 10, "{open} {bytes}");
        }
        drop(picture);
        assert_eq!(bound.now(), (0, 0));
    }

    #[test]
    fn the_system_is_told_of_twice_as_many_tables_before_there_are_more_than_it_knows_of() {
        let tables = bounded(usize::MAX, 5000);
        assert_eq!((tables.outgrown(0), tables.outgrown(999)), (Some(1000), None));
        assert_eq!(
            (tables.outgrown(1000), tables.outgrown(1999), tables.outgrown(2000)),
            (Some(2000), None, Some(4000))
        );
        assert_eq!((tables.outgrown(4500), tables.outgrown(10_000)), (Some(6000), None), "no more may be open");
        let few = bounded(usize::MAX, 8);
        assert_eq!((few.outgrown(100), few.outgrown(10_000)), (Some(1000), None));
    }

    #[test]
    fn tables_that_are_asked_again_and_again_stay_open() {
        let (picture, _, _) = picture(100, 80);
        let mut kept = 0;
        for number in 2..100 {
            let hot = Arc::clone(&lock(&picture.0)[1]);
            kept += usize::from(hot.opened().is_some());
            ask(&picture, 1);
            ask(&picture, number);
        }
        assert!(kept > 90, "{kept}");
    }

    #[test]
    fn a_retired_table_lives_as_long_as_any_handle_of_it() {
        let (picture, _, dead) = picture(1, 80);
        let old = Arc::clone(&lock(&picture.0)[0]);
        ask(&picture, 0);
        assert_eq!(picture.put_back(1, true), 1);
        // The reader that finds the table gone retires the newest handle; an older reader still holds the previous one.
        lock(&picture.0)[0].retire();
        lock(&picture.0).clear();
        assert_eq!((*old.table().unwrap(), buried(&dead)), (0, vec![]));
        drop(old);
        assert_eq!(buried(&dead), [meta(0)]);
    }
}
