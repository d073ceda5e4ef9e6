//! One table of a version: what the manifest says of it, and the file behind it, opened when it is first read.
//!
//! A damaged table does not refuse the store: its error is returned by every read that needs it, and by no other.
//!
//! Life: made when the manifest names the table, shared by every picture that holds it, retired when an edit that removes it is
//! durable. The last holder of a retired table puts it on a list, and its number; whoever works in the background frees the
//! tables and deletes the files on it (I06). So a reader that lets go of an old picture never waits for the disk, nor for the memory of
//! all blocks of a table that died, which takes a tenth of a second to give back. One that is put back is freed where that is done.
//!
//! Open tables are bounded (`OpenTables`). Who opens one too many has others put back: the next picture holds a fresh handle of the
//! same table, which is opened when it is asked again, and the old one closes with the last picture that holds it. Nothing on the
//! path of a read knows of this. A table and all handles of it have one `Life`, so that its file dies with the last of them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::dead::{Dead, DeadFiles, Late};
use super::edit::TableMeta;
use crate::env::work::lock;
use crate::error::Result;
use crate::planted::{self, Bug};
use crate::values::{OpenValues, ValueFile, ValueShelf};

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

/// Opens one table.
pub type Opener<T> = dyn Fn(&TableMeta) -> Result<T> + Send + Sync;

impl<T> Shelf<T> {
    /// The shelf of the family with this name, whose tables stay open once they are.
    pub fn new(
        family: impl Into<String>,
        dead: Arc<DeadFiles>,
        open: impl Fn(&TableMeta) -> Result<T> + Send + Sync + 'static,
    ) -> Arc<Shelf<T>> {
        Arc::new(Shelf { family: family.into(), open: Box::new(open), dead, bound: None, values: None, late: None })
    }

    /// The same, for tables that are put back where there are too many. `bound` says how many, and what an open one takes.
    pub fn bounded(
        family: impl Into<String>,
        dead: Arc<DeadFiles>,
        bound: Bound<T>,
        open: impl Fn(&TableMeta) -> Result<T> + Send + Sync + 'static,
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

/// How many tables of a store are open and what they take in memory, both bounded, and the value files besides, half as many. Cursors and jobs keep the tables that they are
/// at work on besides, but for these a bound is exceeded by no more than the tables that threads open at the same time.
pub struct OpenTables {
    most: usize,
    most_bytes: usize,
    open: AtomicUsize,
    bytes: AtomicUsize,
    holders: Mutex<Vec<Weak<dyn Holder>>>,
    is_sweeping: AtomicBool,
    /// So many open files the system was told to expect.
    expected: AtomicUsize,
    values: Arc<OpenValues>,
}

/// Files that a store of few tables has open, with room to grow.
const FEW_FILES: usize = 1000;

impl OpenTables {
    /// At most so many, which take so many bytes beside the blocks that are cached.
    pub fn bounded(most: usize, most_bytes: usize) -> OpenTables {
        OpenTables {
            most: most.max(1),
            most_bytes,
            open: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            holders: Mutex::default(),
            is_sweeping: AtomicBool::new(false),
            expected: AtomicUsize::new(0),
            values: OpenValues::bounded(if most == usize::MAX { most } else { most / 2 }),
        }
    }

    /// The value files that are open.
    pub fn values(&self) -> &Arc<OpenValues> {
        &self.values
    }

    /// There are so many tables now: how many open files the system is to expect, where those and the value files that are open are more than it
    /// was told of before. Twice as many, so that it is asked seldom; never many more than may be open.
    pub fn outgrown(&self, tables: usize) -> Option<usize> {
        let files = tables.min(self.most).saturating_add(self.values.now());
        if files < self.expected.load(Ordering::Relaxed) {
            return None;
        }
        let most = self.most.saturating_add(self.most / 2);
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
        holders.retain(|holder| holder.strong_count() > 0);
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
        if open <= self.most && bytes <= self.most_bytes {
            return 0;
        }
        let spare = self.most_bytes - self.most_bytes / 4;
        let heavy = bytes.saturating_sub(spare).div_ceil((bytes / open.max(1)).max(1));
        open.saturating_sub(self.most - self.most / 4).max(heavy).min(open)
    }

    /// Has tables put back if there are too many: first those that were not asked of late, then any. One thread at a time; others
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

/// What all handles of one table share: its file dies with the last of them, if it is retired.
struct Life {
    meta: Arc<TableMeta>,
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
        let life = Arc::new(Life { meta: Arc::clone(&meta), dead: Arc::clone(&shelf.dead), is_retired, values });
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
        let table = (self.shelf.open)(&self.meta).map_err(|error| error.in_family(&self.shelf.family, Some(keys)))?;
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
    use crate::error::Error;
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

    fn picture(tables: u64, bound: OpenTables) -> (Arc<Picture>, Arc<OpenTables>, Arc<DeadFiles>) {
        let (bound, dead) = (Arc::new(bound), Arc::new(DeadFiles::default()));
        let weigh: fn(&u64) -> usize = |_| 10;
        let shelf = Shelf::bounded("f", Arc::clone(&dead), (Arc::clone(&bound), weigh), |meta| Ok(meta.number));
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
        for bound in [OpenTables::bounded(8, usize::MAX), OpenTables::bounded(usize::MAX, 80)] {
            let (picture, bound, _) = picture(100, bound);
            for number in (0..100).chain((0..100).rev()) {
                ask(&picture, number);
                let (open, bytes) = bound.now();
                assert!(open <= 8 && bytes == open * 10, "{open} {bytes}");
            }
            drop(picture);
            assert_eq!(bound.now(), (0, 0));
        }
    }

    #[test]
    fn the_system_is_told_of_twice_as_many_tables_before_there_are_more_than_it_knows_of() {
        let tables = OpenTables::bounded(5000, usize::MAX);
        assert_eq!((tables.outgrown(0), tables.outgrown(999)), (Some(1000), None));
        assert_eq!(
            (tables.outgrown(1000), tables.outgrown(1999), tables.outgrown(2000)),
            (Some(2000), None, Some(4000))
        );
        assert_eq!((tables.outgrown(4500), tables.outgrown(10_000)), (Some(8500), None), "value files come on top");
        let few = OpenTables::bounded(8, usize::MAX);
        assert_eq!((few.outgrown(100), few.outgrown(10_000)), (Some(1000), None));
    }

    #[test]
    fn tables_that_are_asked_again_and_again_stay_open() {
        let (picture, _, _) = picture(100, OpenTables::bounded(8, usize::MAX));
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
        let (picture, _, dead) = picture(1, OpenTables::bounded(8, usize::MAX));
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
