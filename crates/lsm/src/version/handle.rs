//! One table of a version: what the manifest says of it, and the file behind it, opened when it is first read.
//!
//! A damaged table does not refuse the store: its error is returned by every read that needs it, and by no other.
//!
//! Life: made when the manifest names the table, shared by every picture that holds it, retired when an edit that removes it is
//! durable. The last holder of a retired table puts it on a list, and its number; whoever works in the background frees the
//! tables and deletes the files on it (I06). So a reader that lets go of an old picture never waits for the disk, nor for the memory of
//! all blocks of a table that died, which takes a tenth of a second to give back. One that is put back is freed where that is done.
//!
//! An open table is its index and filter in memory (`OpenTables` bounds them) and, apart from that, a file whose descriptor comes and goes
//! (`Descriptors`). Where indexes take too much, tables are put back: the next picture holds a fresh handle of the same table, which is opened
//! when it is asked again, and the old one closes with the last picture that holds it. Nothing on the path of a read knows of this.
//! All handles of a table, and the table while somebody reads it, share one `Life`, which is also its file: the file dies with the last of them.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::dead::{Dead, DeadFiles, Late};
use super::edit::TableMeta;
use crate::descriptors::{CachedFile, Descriptors};
use crate::env::work::lock;
use crate::env::{File, Mapped};
use crate::error::Result;
use crate::names::Name;
use crate::planted::{self, Bug};
use crate::values::{ValueFile, ValueShelf};

/// What the tables of one family share: how they are opened, and where the dead ones go.
pub struct Shelf<T> {
    family: String,
    open: Box<Opener<T>>,
    dead: Arc<DeadFiles>,
    values: Option<Arc<ValueShelf>>,
    bound: Option<Bound<T>>,
    /// Makes what is left of a table that died something that is freed later; none: it is freed by whoever lets go of it last.
    late: Option<fn(T) -> Late>,
}

/// The bound on open tables that those of a shelf count for, and what one takes in memory.
pub type Bound<T> = (Arc<OpenTables>, fn(&T) -> usize);

/// Opens one table. The file is that of the table if its shelf is `bounded`.
pub type Opener<T> = dyn Fn(&TableMeta, Arc<dyn File>) -> Result<T> + Send + Sync;

impl<T> Shelf<T> {
    /// The shelf of the family with this name, whose tables stay open once they are.
    pub fn new(
        family: impl Into<String>,
        dead: Arc<DeadFiles>,
        open: impl Fn(&TableMeta) -> Result<T> + Send + Sync + 'static,
    ) -> Arc<Shelf<T>> {
        let open = Box::new(move |meta: &TableMeta, _: Arc<dyn File>| open(meta));
        Arc::new(Shelf { family: family.into(), open, dead, bound: None, values: None, late: None })
    }

    /// The same, for tables that are put back where their indexes take too much. `bound` counts them, and says what an open one takes.
    pub fn bounded(
        family: impl Into<String>,
        dead: Arc<DeadFiles>,
        bound: Bound<T>,
        open: impl Fn(&TableMeta, Arc<dyn File>) -> Result<T> + Send + Sync + 'static,
    ) -> Arc<Shelf<T>> {
        Arc::new(Shelf {
            family: family.into(),
            open: Box::new(open),
            dead,
            bound: Some(bound),
            values: None,
            late: None,
        })
    }

    /// The same, with the value files that its tables may point into. For a shelf that nothing stands on yet.
    pub fn with_values(self: Arc<Shelf<T>>, values: Arc<ValueShelf>) -> Arc<Shelf<T>> {
        self.with(|shelf| shelf.values = Some(values))
    }

    /// The same, for tables that take a while to free: those that died are, by whoever works through the list of the dead. For a shelf that
    /// nothing stands on yet.
    pub fn freed_later(self: Arc<Shelf<T>>, late: fn(T) -> Late) -> Arc<Shelf<T>> {
        self.with(|shelf| shelf.late = Some(late))
    }

    fn with(mut self: Arc<Shelf<T>>, change: impl FnOnce(&mut Shelf<T>)) -> Arc<Shelf<T>> {
        if let Some(shelf) = Arc::get_mut(&mut self) {
            change(shelf);
        }
        self
    }

    /// The value files that its tables point into.
    pub fn values(&self) -> Option<&Arc<ValueShelf>> {
        self.values.as_ref()
    }

    /// Names who can put tables of this shelf back.
    pub fn held_by(&self, holder: Weak<dyn Holder>) {
        if let Some((tables, _)) = &self.bound {
            tables.add(holder);
        }
    }
}

/// Who holds a picture of tables and can put some of them back.
pub trait Holder: Send + Sync {
    /// Puts open tables back that nobody has asked since the last call, or any, at most so many; answers how many. No I/O, but that
    /// files are closed.
    fn put_back(&self, most: usize, any: bool) -> usize;
}

/// The open tables of a store: what their indexes and filters take in memory, bounded, and the descriptors of their files. Cursors and jobs keep the
/// indexes of tables that they read. Apart from these the bound is exceeded by no more than the tables that threads open at the same time.
pub struct OpenTables {
    most_bytes: usize,
    open: AtomicUsize,
    bytes: AtomicUsize,
    holders: Mutex<Vec<Weak<dyn Holder>>>,
    is_sweeping: AtomicBool,
    /// So many open files the system was told to expect.
    expected: AtomicUsize,
    files: Arc<Descriptors>,
}

/// Files that a store of few tables has open, with room to grow.
const FEW_FILES: usize = 1000;

impl OpenTables {
    /// Tables that take at most so many bytes beside the blocks that are cached, and whose files are open among these.
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

    /// The open files of tables, and the value files among them.
    pub fn files(&self) -> &Arc<Descriptors> {
        &self.files
    }

    /// There are so many tables now: how many open files the system is to expect, where that is more than it was told of before. Twice as many, so
    /// that it is asked seldom; never many more than may be open.
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

    /// How many are open, and the bytes of their indexes and filters.
    pub fn now(&self) -> (usize, usize) {
        (self.open.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    fn add(&self, holder: Weak<dyn Holder>) {
        let mut holders = lock(&self.holders);
        if holders.len() == holders.capacity() {
            holders.retain(|holder| holder.strong_count() > 0);
            let live = holders.len();
            holders.reserve(live + 1); // a look at all of them for each new one would take the square of their number
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

    /// So many bytes more are in memory of a table that is open: parts of its index and filter.
    pub fn grew(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.make_room();
    }

    /// So many of them went with their table.
    pub fn shrank(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many tables have to go, a quarter more than one would have to, so that not every table that is opened takes a walk.
    fn excess(&self) -> usize {
        let (open, bytes) = self.now();
        if bytes <= self.most_bytes {
            return 0;
        }
        let spare = self.most_bytes - self.most_bytes / 4;
        bytes.saturating_sub(spare).div_ceil((bytes / open.max(1)).max(1)).min(open)
    }

    /// Has tables put back if they take too much: first those that were not asked of late, then any. One thread at a time; others
    /// go on.
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

/// What all handles of one table share: its file, which dies with the last of them if it is retired. Readers of the table hold it too.
struct Life {
    meta: Arc<TableMeta>,
    file: Option<CachedFile>,
    dead: Arc<DeadFiles>,
    is_retired: AtomicBool,
    /// The value files that it points into: they live as long as it does.
    values: Vec<Arc<ValueFile>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        if *self.is_retired.get_mut() {
            self.dead.bury(Dead::Table(Arc::clone(&self.meta)));
        }
    }
}

impl Life {
    fn file(&self) -> io::Result<&CachedFile> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file of table {:06}", self.meta.number)
    }
}

impl File for Life {
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

/// One table.
pub struct Handle<T> {
    opened: OnceLock<T>,
    /// Since it was last looked for tables to put back.
    was_asked: AtomicBool,
    meta: Arc<TableMeta>,
    shelf: Arc<Shelf<T>>,
    life: Arc<Life>,
}

impl<T> Handle<T> {
    /// A table that is opened when it is first needed.
    pub fn new(meta: Arc<TableMeta>, shelf: Arc<Shelf<T>>) -> Arc<Handle<T>> {
        let is_retired = AtomicBool::new(false);
        let values = shelf.values.as_ref();
        let values = values.map(|values| meta.values.iter().map(|of| values.hold(of)).collect()).unwrap_or_default();
        let file = |(tables, _): &Bound<T>| CachedFile::new(tables.files(), Name::Table(meta.number));
        let file = shelf.bound.as_ref().map(file);
        let life = Arc::new(Life { meta: Arc::clone(&meta), file, dead: Arc::clone(&shelf.dead), is_retired, values });
        Handle::living(meta, shelf, life)
    }

    fn living(meta: Arc<TableMeta>, shelf: Arc<Shelf<T>>, life: Arc<Life>) -> Arc<Handle<T>> {
        Arc::new(Handle { opened: OnceLock::new(), was_asked: AtomicBool::new(false), meta, shelf, life })
    }

    /// A fresh handle of the same table, not open.
    pub fn anew(&self) -> Arc<Handle<T>> {
        let (meta, shelf) = (Arc::clone(&self.meta), Arc::clone(&self.shelf));
        match planted::active(Bug::TablePutBackForgetsItsLife) {
            true => Handle::new(meta, shelf),
            false => Handle::living(meta, shelf, Arc::clone(&self.life)),
        }
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
        match self.opened() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    /// The value files that it points into.
    pub fn values(&self) -> &[Arc<ValueFile>] {
        &self.life.values
    }

    /// The table, if somebody has opened it already.
    #[inline]
    pub fn opened(&self) -> Option<&T> {
        let table = self.opened.get()?;
        if !self.was_asked.load(Ordering::Relaxed) {
            self.was_asked.store(true, Ordering::Relaxed);
        }
        Some(table)
    }

    /// True if the table is open and bounded, and nobody has asked it since the last call, or that does not matter.
    pub fn may_be_put_back(&self, any: bool) -> bool {
        self.shelf.bound.is_some()
            && self.opened.get().is_some()
            && (!self.was_asked.swap(false, Ordering::Relaxed) || any)
    }

    #[cold]
    fn open(&self) -> Result<&T> {
        let keys = (&self.meta.smallest[..], &self.meta.largest[..]);
        let opened = (self.shelf.open)(&self.meta, Arc::clone(&self.life) as Arc<dyn File>);
        let table = opened.map_err(|error| error.in_family(&self.shelf.family, Some(keys)))?;
        let mut is_first = false;
        let table = self.opened.get_or_init(|| {
            is_first = true;
            table
        });
        if let Some((tables, weigh)) = self.shelf.bound.as_ref().filter(|_| is_first) {
            tables.opened(weigh(table));
            // Not this one, which somebody needs now; but one that is asked once is no better than any other afterwards.
            self.was_asked.store(true, Ordering::Relaxed);
            tables.make_room();
            self.was_asked.store(false, Ordering::Relaxed);
        }
        Ok(table)
    }

    /// Opens the files of the table and of the values that it points into. Errors: `Corruption` if one is missing, `Io`.
    pub fn open_files(&self) -> Result<()> {
        self.life.file.iter().try_for_each(CachedFile::ensure_open)?;
        self.life.values.iter().try_for_each(|values| values.ensure_open())
    }

    /// How many files `open_files` opens.
    pub fn files(&self) -> usize {
        1 + self.life.values.len()
    }

    /// No version names it from now on; call it after the edit that removes the table is durable, never before.
    pub fn retire(&self) {
        if !self.life.is_retired.swap(true, Ordering::AcqRel) {
            self.life.values.iter().for_each(|values| values.unname());
        }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if let (Some((tables, weigh)), Some(table)) = (&self.shelf.bound, self.opened.get()) {
            tables.closed(weigh(table));
        }
        if self.life.is_retired.load(Ordering::Acquire)
            && let (Some(late), Some(table)) = (self.shelf.late, self.opened.take())
        {
            self.shelf.dead.bury(Dead::Memory(late(table)));
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
    use crate::env::SimFs;
    use crate::error::Error;
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;

    fn meta(number: u64) -> Arc<TableMeta> {
        Arc::new(TableMeta { number, smallest: b"a".to_vec(), largest: b"m".to_vec(), ..TableMeta::default() })
    }

    /// The tables that died, one after the other; of anything else there is none.
    fn buried(dead: &DeadFiles) -> Vec<Arc<TableMeta>> {
        let all = std::iter::from_fn(|| dead.take());
        let tables = all.map(|dead| match dead {
            Dead::Table(meta) => meta,
            Dead::Memory(_) | Dead::Values(_) => panic!("tables alone died"),
        });
        tables.collect()
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
        assert_eq!(buried(&dead), []);
        let handle = Handle::new(meta(2), shelf);
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
        let (dead, heard) = (Arc::new(DeadFiles::default()), Arc::new(AtomicUsize::new(0)));
        let hears = Arc::clone(&heard);
        dead.heard_by(move || {
            hears.fetch_add(1, Ordering::Relaxed);
        });
        let table = Arc::new(7);
        let opened = Arc::clone(&table);
        let shelf = Shelf::new("f", Arc::clone(&dead), move |_| Ok(Arc::clone(&opened))).freed_later(|table| table);
        let handle = |number| {
            let handle = Handle::new(meta(number), Arc::clone(&shelf));
            handle.table().unwrap();
            handle
        };
        let before = Arc::strong_count(&table);
        drop(handle(1)); // put back, say: whoever needs the room frees it
        assert_eq!((Arc::strong_count(&table), heard.load(Ordering::Relaxed)), (before, 0));
        assert!(dead.take().is_none());
        let handle = handle(2);
        handle.retire();
        drop(handle);
        assert_eq!((Arc::strong_count(&table), heard.load(Ordering::Relaxed)), (before + 1, 2));
        assert!(matches!(dead.take(), Some(Dead::Memory(_))), "its file is closed before it is removed");
        assert_eq!((Arc::strong_count(&table), buried(&dead)), (before, vec![meta(2)]));
    }

    /// A picture of tables as a family keeps it.
    struct Picture(Mutex<Vec<Arc<Handle<u64>>>>);

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
    fn picture(tables: u64, most_bytes: usize) -> (Arc<Picture>, Arc<OpenTables>, Arc<DeadFiles>) {
        let (bound, dead) = (Arc::new(bounded(most_bytes, 8)), Arc::new(DeadFiles::default()));
        let weigh: fn(&u64) -> usize = |_| 10;
        let shelf = Shelf::bounded("f", Arc::clone(&dead), (Arc::clone(&bound), weigh), |meta, _| Ok(meta.number));
        let handles = (0..tables).map(|number| Handle::new(meta(number), Arc::clone(&shelf))).collect();
        let picture = Arc::new(Picture(Mutex::new(handles)));
        let holder: Arc<dyn Holder> = Arc::clone(&picture) as _;
        shelf.held_by(Arc::downgrade(&holder));
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
        // Whoever finds the table gone retires what the picture holds; a reader still has the handle before.
        lock(&picture.0)[0].retire();
        lock(&picture.0).clear();
        assert_eq!((*old.table().unwrap(), buried(&dead)), (0, vec![]));
        drop(old);
        assert_eq!(buried(&dead), [meta(0)]);
    }
}
