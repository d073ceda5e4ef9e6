//! Column families: a name, an order, and the view that readers load.
//!
//! A view is immutable: the active memtable, the frozen memtables and the levels. A change builds another view and
//! swaps the pointer. Readers take no lock and see the old view or the new one, each of which is complete (I13, I14).
//! The same applies when tables are closed because too many are open: the next view has fresh handles of them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::live_memtables::LiveMemtables;
use super::live_options::LiveOptions;
use super::replaced_views::ReplacedViews;
use crate::compaction_filter::CompactionFilter;
use crate::deleted_runs::DeletedRuns;
use crate::env::Clock;
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::lost_range::LostRange;
use crate::memtable::Memtable;
use crate::merge_operator::MergeOperator;
use crate::options::{CfOptions, Settings, Verify};
use crate::order::Order;
use crate::planted;
use crate::pointer::Pointer;
use crate::prefix_extractor::PrefixExtractor;
use crate::range_delete::RangeDelete;
use crate::range_index::RangeIndex;
use crate::record::{Record, Seqno};
use crate::sst::Table;
use crate::values::{BlobFile, BlobFiles, CommitBlobs, UnsyncedBlobs};
use crate::version::{Holder, TableCache};

/// The name of the family that always exists.
pub const DEFAULT_FAMILY: &str = "default";

/// The levels of a family's tables as readers see them.
pub(crate) type TableLevels = crate::version::Levels<Arc<Table>>;
/// A handle of one table, which is opened at its first read.
pub(crate) type TableHandle = crate::version::LazyTable<Arc<Table>>;

/// The budget of the memtable in a closed store's view, which stays empty.
const CLOSED_MEMTABLE_BYTES: usize = 4096;

/// Bytes that a range delete takes in an index for each fragment that it holds. They count for its memtable, so that a
/// memtable of many range deletes that hold each other is frozen, and the next index starts anew.
const FRAGMENT_BYTES: usize = 48;

/// Maximum length of a family name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Checks a family name. The C interface returns lists of names that end in zero bytes, so a name contains none.
pub(in crate::db) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=MAX_NAME_BYTES if !name.contains('\0') => Ok(()),
        _ => Err(Error::invalid(format!("a family name has 1 to {MAX_NAME_BYTES} bytes, none of them zero"))),
    }
}

/// The parameters for creating a store's memtables, and the list that they enter.
#[derive(Clone, Debug)]
pub(crate) struct MemtableShape {
    budget: usize,
    live: Arc<LiveMemtables<Generation>>,
}

impl MemtableShape {
    pub(crate) fn of(settings: &Settings, live: &Arc<LiveMemtables<Generation>>) -> MemtableShape {
        MemtableShape { budget: settings.memtable_bytes, live: live.clone() }
    }

    /// Creates an empty memtable.
    pub(crate) fn memtable(&self, order: &Order) -> Memtable {
        Memtable::with_budget(order.clone(), self.budget)
    }
}

/// One memtable and the position of its records in the log.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) memtable: Arc<Memtable>,
    /// Logical offset of the log frame of its first record; `u64::MAX` while the memtable is empty.
    first_offset: AtomicU64,
    /// Its seqno.
    first_seqno: AtomicU64,
    /// Set by the freeze: records of the family in younger generations have a greater seqno. 0 while the memtable is
    /// active.
    through: AtomicU64,
    /// The blob files that its records point into, each once. `value_bytes` counts the bytes of the values they point
    /// to.
    values: Mutex<Vec<Arc<BlobFile>>>,
    value_bytes: AtomicU64,
    /// The range deletes of the family: those of this memtable and the older ones. Set before the first seqno that
    /// needs it is published, so a reader that loads it after its seqno finds every range delete that it sees.
    range_index: ArcSwapOption<RangeIndex>,
    /// False while `range_index` is `None`.
    has_ranges: AtomicBool,
}

impl Generation {
    fn new(order: &Order, shape: &MemtableShape, range_index: Option<RangeIndex>) -> Arc<Generation> {
        let generation = Arc::new(Generation {
            has_ranges: range_index.is_some().into(),
            range_index: ArcSwapOption::from_pointee(range_index),
            memtable: Arc::new(shape.memtable(order)),
            first_offset: AtomicU64::new(u64::MAX),
            first_seqno: AtomicU64::new(0),
            through: AtomicU64::new(0),
            values: Mutex::default(),
            value_bytes: AtomicU64::new(0),
        });
        shape.live.add(&generation);
        generation
    }

    /// Returns the same with another memtable.
    fn holding(&self, memtable: Memtable, live: &LiveMemtables<Generation>) -> Arc<Generation> {
        let generation = Arc::new(Generation {
            memtable: Arc::new(memtable),
            first_offset: self.first_offset().into(),
            first_seqno: self.first_seqno.load(Ordering::Relaxed).into(),
            through: self.through().into(),
            values: Mutex::new(lock(&self.values).clone()),
            value_bytes: self.value_bytes.load(Ordering::Relaxed).into(),
            has_ranges: self.has_ranges.load(Ordering::Relaxed).into(),
            range_index: ArcSwapOption::new(self.range_index.load_full()),
        });
        live.add(&generation);
        generation
    }

    /// Returns true if a reader of this view may see a range delete.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges.load(Ordering::Acquire)
    }

    /// Returns the range deletes that a reader of this view may see. The caller must have loaded its seqno before.
    #[inline]
    pub(crate) fn range_index(&self) -> Option<Arc<RangeIndex>> {
        if self.has_ranges.load(Ordering::Acquire) { self.range_index.load_full() } else { None }
    }

    /// Returns the seqno of the newest range delete that holds a key and that a reader at `seqno` sees; 0 if there is
    /// none. The caller must have loaded its seqno before.
    #[inline]
    pub(crate) fn range_deleted_at(&self, key: &[u8], seqno: Seqno) -> Seqno {
        if self.has_ranges.load(Ordering::Acquire) { self.newest_range_over(key, seqno) } else { 0 }
    }

    #[cold]
    #[inline(never)]
    fn newest_range_over(&self, key: &[u8], seqno: Seqno) -> Seqno {
        self.range_index.load().as_ref().map_or(0, |index| index.newest_over(key, seqno))
    }

    /// Adds a range delete. Only the applying thread calls this. Fails with `Corruption` if the record is none.
    #[cold]
    pub(crate) fn delete_range(&self, order: &Order, record: &Record<'_>) -> Result<()> {
        let range = RangeDelete::of(record)?;
        if range.is_empty(order) {
            return Ok(());
        }
        let index = self.range_index.load();
        let mut index = index.as_ref().map_or_else(|| RangeIndex::new(order.clone()), |index| (**index).clone());
        let fragments = index.insert(&range);
        drop(self.range_index.swap(Some(Arc::new(index))));
        self.has_ranges.store(true, Ordering::Release);
        self.memtable.add_range_delete(range, fragments * FRAGMENT_BYTES);
        Ok(())
    }

    /// Keeps the blob file alive that a record to be inserted points into. Only the applying thread calls this; the
    /// committing thread holds the file meanwhile. Fails with `Corruption` if no holder of the file exists or the
    /// record is not a pointer.
    #[cold]
    pub(crate) fn hold_value(&self, table_cache: Option<&Arc<BlobFiles>>, record: &Record<'_>) -> Result<()> {
        let pointer = Pointer::decode(record.value)?;
        self.value_bytes.fetch_add(u64::from(pointer.stored_len), Ordering::Relaxed);
        let file = table_cache.and_then(|table_cache| table_cache.find(&pointer.uid));
        let file = file.ok_or_else(|| Error::structural("a commit points to a value that nobody holds"))?;
        let mut files = lock(&self.values);
        if planted!(ValuesGoneUnderMemtable, false, !files.iter().any(|known| Arc::ptr_eq(known, &file))) {
            files.push(file);
        }
        Ok(())
    }

    /// Returns true if its records point into an unfinished blob file.
    pub(crate) fn points_into_unfinished(&self) -> bool {
        lock(&self.values).iter().any(|file| file.meta().is_none())
    }

    /// Returns true if the memtable should be frozen, because its records or the values they point to exceed the
    /// budget. Those values take no memory, but a recovery writes them again.
    #[inline]
    pub(crate) fn is_full(&self, budget: usize) -> bool {
        self.memtable.is_full(budget) || self.value_bytes.load(Ordering::Relaxed) > budget as u64
    }

    /// Returns the fill level in thousandths of the budget.
    pub(crate) fn fullness(&self, budget: usize) -> u64 {
        let bytes = (self.memtable.bytes() as u64).max(self.value_bytes.load(Ordering::Relaxed));
        bytes.saturating_mul(1000) / budget as u64
    }

    /// Returns the numbers of the blob files that its records point into.
    pub(crate) fn value_files(&self) -> Vec<u64> {
        lock(&self.values).iter().map(|file| file.number()).collect()
    }

    /// Notes that a record is about to be inserted whose frame begins at `offset` with the operation of `seqno`. Only
    /// the applying thread calls this.
    #[inline]
    pub(crate) fn touch(&self, offset: u64, seqno: Seqno) {
        if self.first_offset.load(Ordering::Relaxed) == u64::MAX {
            self.first_seqno.store(seqno, Ordering::Relaxed);
            self.first_offset.store(offset, Ordering::Release);
        }
    }

    /// Returns the seqno of the first operation of the frame of its first record; `None` if the memtable is empty.
    pub(crate) fn oldest_seqno(&self) -> Option<Seqno> {
        (self.first_offset() < u64::MAX).then(|| self.first_seqno.load(Ordering::Relaxed))
    }

    pub(crate) fn first_offset(&self) -> u64 {
        self.first_offset.load(Ordering::Acquire)
    }

    pub(crate) fn through(&self) -> Seqno {
        self.through.load(Ordering::Acquire)
    }
}

/// The immutable state of one family that a reader sees.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Generation>,
    /// Newest first (I03: frozen memtables never change).
    pub(crate) frozen: Vec<Arc<Generation>>,
    pub(crate) levels: Arc<TableLevels>,
    /// Lost ranges: keys whose records were permanently lost.
    pub(crate) lost_ranges: Arc<Vec<LostRange>>,
    /// The manifest's number of each lost range.
    pub(crate) lost_range_ids: Arc<Vec<u64>>,
    /// The range deletes in the manifest, in ascending order of their seqnos: those that tables may still need.
    pub(crate) range_deletes: Arc<Vec<Arc<RangeDelete>>>,
    /// Finds the blob files that its tables hold.
    pub(crate) values: Option<Arc<BlobFiles>>,
    /// Why the view is empty for good: a read that finds no record in it fails.
    pub(crate) end: Option<ViewEnd>,
}

/// The reason why every read of a family fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ViewEnd {
    Closed,
    Dropped,
}

/// The changes that an edit makes to a view, apart from its tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ViewDelta<'a> {
    /// Frozen memtables up to this seqno leave the view: their records are in tables, their range deletes in `ranged`.
    pub(crate) flushed: Option<Seqno>,
    /// Lost ranges to remove.
    pub(crate) lifted: &'a [u64],
    /// Lost ranges to add.
    pub(crate) fenced: &'a [(u64, Arc<LostRange>)],
    /// Range deletes to add, newer than those in the view.
    pub(crate) ranged: &'a [Arc<RangeDelete>],
    /// Range deletes to remove.
    pub(crate) retired: &'a [Seqno],
}

impl ViewDelta<'_> {
    fn range_deletes_of(&self, view: &View) -> Arc<Vec<Arc<RangeDelete>>> {
        if self.ranged.is_empty() && self.retired.is_empty() {
            return view.range_deletes.clone();
        }
        let stay = view.range_deletes.iter().filter(|range| !self.retired.contains(&range.seqno));
        Arc::new(stay.chain(self.ranged).cloned().collect())
    }
}

impl View {
    /// Returns the memtables, newest first.
    #[inline]
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Generation>> {
        [&self.active].into_iter().chain(&self.frozen)
    }

    /// Returns the range deletes in the manifest.
    pub(crate) fn durable_ranges(&self) -> impl Iterator<Item = &RangeDelete> {
        self.range_deletes.iter().map(|range| &**range)
    }

    /// Returns the seqno of the newest range delete at or below a seqno that holds a key; 0 if there is none. Unlike the
    /// index, it answers for seqnos at which nobody reads. Costs time by the number of range deletes if a newer one
    /// holds the key too.
    pub(crate) fn range_deleted_before(&self, order: &Order, key: &[u8], seqno: Seqno) -> Seqno {
        let newest = self.active.range_deleted_at(key, Seqno::MAX);
        if newest <= seqno {
            return newest;
        }
        let in_memory = self.memtables().flat_map(|generation| generation.memtable.range_deletes());
        let ranges = self.range_deletes.iter().cloned().chain(in_memory);
        let seqnos = ranges.filter(|range| range.seqno <= seqno && range.holds(order, key)).map(|range| range.seqno);
        seqnos.max().unwrap_or(0)
    }

    /// Returns the index for an empty memtable after the frozen ones; `None` if no range delete is left.
    fn range_index_anew(&self, order: &Order, readers: &dyn Fn() -> Vec<Seqno>) -> Option<RangeIndex> {
        let mut ranges: Vec<Arc<RangeDelete>> = self.range_deletes.to_vec();
        ranges.extend(self.frozen.iter().flat_map(|generation| generation.memtable.range_deletes()));
        if ranges.is_empty() {
            return None;
        }
        Some(RangeIndex::build(order, ranges.iter().map(|range| &**range), &readers()))
    }

    /// Fails with `Closed` for the view of a closed store, and with `Invalid` for that of a dropped family.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        match self.end {
            None => Ok(()),
            Some(end) => Err(end.error()),
        }
    }

    /// Returns the view with the `lifted` lost ranges removed and the `added` ones appended.
    pub(in crate::db) fn fenced(&self, lifted: &[u64], added: &[(u64, Arc<LostRange>)]) -> View {
        let stay = self.lost_range_ids.iter().zip(&*self.lost_ranges).filter(|(id, _)| !lifted.contains(id));
        let come = added.iter().map(|(id, lost_range)| (id, &**lost_range));
        let (ids, lost_ranges) = stay.chain(come).map(|(id, lost_range)| (*id, lost_range.clone())).unzip();
        View { lost_ranges: Arc::new(lost_ranges), lost_range_ids: Arc::new(ids), ..self.clone() }
    }
}

impl ViewEnd {
    #[cold]
    fn error(self) -> Error {
        match self {
            ViewEnd::Closed => Error::closed(),
            ViewEnd::Dropped => Error::invalid("the family was dropped"),
        }
    }
}

/// A column family: an ordered map that commits atomically with the other families. Clones share it, and any thread may
/// call all methods.
#[derive(Clone)]
pub struct Family(Arc<FamilyInner>);

struct FamilyInner {
    id: u32,
    name: Arc<str>,
    options: LiveOptions,
    shape: MemtableShape,
    view: ArcSwap<View>,
    /// Incremented when another memtable becomes the active one.
    active_number: AtomicU64,
    /// The views before, while readers hold them.
    replaced: ReplacedViews<View>,
    clock: Arc<dyn Clock>,
    /// Held while a new view is built from the current one; never during I/O.
    changing: Mutex<()>,
    dropped: AtomicBool,
    /// Opens the tables, and takes over obsolete ones.
    table_cache: Arc<TableCache<Arc<Table>>>,
    /// Writes large values of commits to blob files.
    intake: CommitBlobs,
    /// Where readers find no record.
    deleted_runs: DeletedRuns,
}

impl Family {
    pub(crate) fn new(
        id: u32,
        name: &str,
        options: CfOptions,
        (shape, clock): (MemtableShape, Arc<dyn Clock>),
        table_cache: Arc<TableCache<Arc<Table>>>,
        levels: Arc<TableLevels>,
    ) -> Family {
        let active = Generation::new(&options.order, &shape, None);
        let (lost_ranges, lost_range_ids) = Default::default();
        let values = table_cache.values().cloned();
        let view = ArcSwap::from_pointee(View {
            active,
            frozen: Vec::new(),
            levels,
            lost_ranges,
            lost_range_ids,
            range_deletes: Arc::default(),
            values,
            end: None,
        });
        let (changing, dropped, active_number) = (Mutex::default(), AtomicBool::new(false), AtomicU64::new(0));
        let name = name.into();
        let inner = Arc::new(FamilyInner {
            id,
            name,
            options: LiveOptions::new(options),
            shape,
            view,
            active_number,
            replaced: ReplacedViews::default(),
            clock,
            changing,
            dropped,
            table_cache,
            intake: CommitBlobs::default(),
            deleted_runs: DeletedRuns::default(),
        });
        let holder: Arc<dyn Holder> = inner.clone();
        inner.table_cache.held_by(Arc::downgrade(&holder));
        Family(inner)
    }

    /// Returns the number that identifies the family in the store. It is never reused, even after the family is
    /// dropped.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name as a shared string.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.0.name.clone()
    }

    /// Returns the options as of now. `Db::set_options` replaces them.
    pub fn options(&self) -> Arc<CfOptions> {
        self.0.options.current()
    }

    /// Fails with `Invalid` if `options` differ from those of the family in one that cannot change while the store is
    /// open.
    pub(in crate::db) fn check_options(&self, options: &CfOptions) -> Result<()> {
        self.0.options.check_change(options)
    }

    /// Returns `options` with those of the family that cannot change.
    pub(in crate::db) fn with_fixed_options(&self, options: CfOptions) -> CfOptions {
        self.0.options.with_fixed(options)
    }

    /// Replaces the options, which `check_options` has found acceptable.
    pub(in crate::db) fn replace_options(&self, options: CfOptions) {
        self.0.options.replace(options);
    }

    /// Returns the numbers of the blob files that records of frozen memtables point into, each with the last seqno of its
    /// memtable, for the memtables frozen up to a seqno.
    pub(in crate::db) fn value_files_through(&self, through: Seqno) -> Vec<(u64, Seqno)> {
        let view = self.view();
        let frozen = view.frozen.iter().filter(|generation| generation.through() <= through);
        let files = |generation: &Arc<Generation>| {
            let through = generation.through();
            generation.value_files().into_iter().map(move |number| (number, through))
        };
        frozen.flat_map(files).collect()
    }

    /// Returns the key order.
    #[inline]
    pub fn order(&self) -> &Order {
        self.0.options.order()
    }

    /// Returns the operator that makes values of merge operands.
    #[inline]
    pub fn merge_operator(&self) -> Option<&MergeOperator> {
        self.0.options.merge_operator()
    }

    /// Returns the filter of compactions that begin now.
    pub(in crate::db) fn compaction_filter(&self) -> Option<CompactionFilter> {
        self.0.options.compaction_filter()
    }

    /// Returns true if a key may end in a seqno: `CfOptions::key_ends_in_seqno`.
    #[inline]
    pub fn key_ends_in_seqno(&self) -> bool {
        self.0.options.key_ends_in_seqno()
    }

    /// Returns the number of a system family.
    #[inline]
    pub fn system(&self) -> Option<u8> {
        self.0.options.system()
    }

    /// Returns the verification level of point reads that do not specify one.
    #[inline]
    pub fn verify_reads(&self) -> Verify {
        self.0.options.verify_reads()
    }

    /// Returns the verification level of cursors that do not specify one.
    #[inline]
    pub fn verify_scans(&self) -> Verify {
        self.0.options.verify_scans()
    }

    /// Returns the lifetime of a record that is put without an expiry of its own.
    #[inline]
    pub fn default_ttl(&self) -> Option<Duration> {
        self.0.options.default_ttl()
    }

    /// Returns the rule of the prefixes that filters know.
    #[inline]
    pub(in crate::db) fn prefix_extractor(&self) -> Option<PrefixExtractor> {
        self.0.options.prefix_extractor()
    }

    /// Returns the size from which a commit writes values to blob files; `usize::MAX` if it writes none.
    #[inline]
    pub(in crate::db) fn separates_from(&self) -> usize {
        self.0.options.separates_from()
    }

    /// Checks an operand before it is written. Errors: `Invalid` if the family has no merge operator, or one that is
    /// not known or cannot read the operand.
    pub fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.merge_operator().ok_or_else(|| self.no_operator())?.check(key, operand)
    }

    /// Makes the value of a key from its base and its operands, oldest first, by the family's merge operator. Errors:
    /// `Invalid` if the family has none, or if it fails.
    pub fn merge_operands(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        self.merge_operator().ok_or_else(|| self.no_operator())?.merge(key, base, operands)
    }

    #[cold]
    fn no_operator(&self) -> Error {
        Error::invalid(format!("column family {:?} has no merge operator: set it in its options", self.name()))
    }

    /// Returns level and number of each table.
    pub(crate) fn table_numbers(&self) -> Vec<(usize, u64)> {
        let view = self.view();
        let levels = view.levels.iter().enumerate();
        let of = |(level, tables): (usize, &crate::version::Level<Arc<Table>>)| {
            tables.tables().iter().map(|table| (level, table.meta().number)).collect::<Vec<_>>()
        };
        levels.flat_map(of).collect()
    }

    pub(crate) fn table_cache(&self) -> &Arc<TableCache<Arc<Table>>> {
        &self.0.table_cache
    }

    pub(crate) fn intake(&self) -> &CommitBlobs {
        &self.0.intake
    }

    #[inline]
    pub(crate) fn deleted_runs(&self) -> &DeletedRuns {
        &self.0.deleted_runs
    }

    /// Returns true after `drop_family`.
    pub fn is_dropped(&self) -> bool {
        self.0.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.0.view.load()
    }

    pub(crate) fn pinned_view(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    /// Returns the current view, for a look at files and memory. That of a dropped family is empty. Fails with `Closed`
    /// once the store is closed.
    pub(crate) fn open_view(&self) -> Result<Arc<View>> {
        let view = self.pinned_view();
        if view.end == Some(ViewEnd::Closed) { Err(Error::closed()) } else { Ok(view) }
    }

    /// Returns the current view, for a read. Fails with `Closed` once the store is closed, and with `Invalid` once the
    /// family was dropped.
    pub(crate) fn readable_view(&self) -> Result<Arc<View>> {
        let view = self.pinned_view();
        view.check_readable().map(|()| view)
    }

    /// Replaces the view, unless the store is closed.
    fn change(&self, next: impl FnOnce(&View) -> View) {
        // Dropped after the lock, because the last holder of a view closes the files that only it held.
        let before;
        let _one_at_a_time = lock(&self.0.changing);
        before = self.0.view.load_full();
        if before.end == Some(ViewEnd::Closed) {
            return;
        }
        let next = next(&before);
        if !Arc::ptr_eq(&before.active, &next.active) {
            self.0.active_number.store(self.0.active_number.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        // Before, so that no reader of the next view finds a run with what it adds; after, while the address of the view
        // before is still taken.
        self.0.deleted_runs.clear();
        self.0.view.store(Arc::new(next));
        self.0.deleted_runs.clear();
        self.0.replaced.add(&before, self.0.clock.monotonic_nanos());
    }

    /// Returns the time since the oldest view that a reader holds was replaced, in nanoseconds; 0 if nobody holds an old
    /// view.
    pub(crate) fn oldest_reader_nanos(&self) -> u64 {
        let now = self.0.clock.monotonic_nanos();
        self.0.replaced.oldest().map_or(0, |oldest| now.saturating_sub(oldest))
    }

    /// Returns the time since the oldest view that a reader holds was replaced, if it is above `most` nanoseconds. Each
    /// view is reported once.
    pub(crate) fn newly_old_reader_nanos(&self, most: u64) -> Option<u64> {
        self.0.replaced.newly_old(self.0.clock.monotonic_nanos(), most)
    }

    /// Returns the memtable that receives new records, for the applying thread to cache. Called only under the apply
    /// lock.
    pub(crate) fn target(&self) -> ApplyTarget {
        let active_number = self.0.active_number.load(Ordering::Acquire);
        ApplyTarget { family: self.clone(), generation: self.view().active.clone(), active_number }
    }

    /// Freezes the active memtable unless it is empty; `through` is the last applied seqno. `readers` returns the seqnos
    /// at which somebody reads or may begin to read below `through`. Called only under the apply lock.
    pub(crate) fn freeze(&self, through: Seqno, readers: &dyn Fn() -> Vec<Seqno>) {
        if self.view().active.memtable.is_empty() {
            return;
        }
        self.change(|view| {
            view.active.through.store(through, Ordering::Release);
            let frozen = [&view.active].into_iter().chain(&view.frozen).cloned().collect();
            let view = View { frozen, ..view.clone() };
            let index = view.range_index_anew(self.order(), readers);
            View { active: Generation::new(self.order(), &self.0.shape, index), ..view }
        });
    }

    /// Gives the family an empty memtable with an index of the present range deletes, if its memtable is empty and
    /// indexes others. Readers of older views keep the index of their view, because tables in it may need it. Called
    /// only under the apply lock; `readers` as for `freeze`.
    pub(crate) fn renew_range_index(&self, readers: &dyn Fn() -> Vec<Seqno>) {
        if self.view().active.memtable.is_empty() && self.view().active.has_ranges.load(Ordering::Relaxed) {
            self.change(|view| {
                let index = view.range_index_anew(self.order(), readers);
                View { active: Generation::new(self.order(), &self.0.shape, index), ..view.clone() }
            });
        }
    }

    /// Replaces the active memtable by one that claims to be the same, while nobody writes.
    pub(in crate::db) fn exchange_active(&self, memtable: Memtable) {
        self.change(|view| View { active: view.active.holding(memtable, &self.0.shape.live), ..view.clone() });
    }

    /// Replaces the levels, and makes the other changes of an edit in the same change of the view.
    pub(crate) fn install(&self, levels: Arc<TableLevels>, delta: &ViewDelta<'_>) {
        let ViewDelta { flushed, lifted, fenced, .. } = *delta;
        self.change(|view| {
            let keep = |generation: &&Arc<Generation>| flushed.is_none_or(|seqno| generation.through() > seqno);
            let frozen = view.frozen.iter().filter(keep).cloned().collect();
            let range_deletes = delta.range_deletes_of(view);
            let view = if lifted.is_empty() && fenced.is_empty() { view.clone() } else { view.fenced(lifted, fenced) };
            View { frozen, levels, range_deletes, ..view }
        });
    }

    /// Gives the memtable of a family that is being opened an index of the range deletes in the manifest.
    pub(crate) fn index_range_deletes(&self) {
        self.change(|view| {
            let index = view.range_index_anew(self.order(), &Vec::new);
            View { active: Generation::new(self.order(), &self.0.shape, index), ..view.clone() }
        });
    }

    /// Makes readers forget damage that they met in a table. A table that was opened without some of its parts is
    /// opened again by its next reader.
    pub(crate) fn forget_damage(&self, number: u64) {
        self.0.renew(|levels| {
            levels.with_anew(|handle| {
                let open = if handle.meta().number == number { handle.opened() } else { None };
                open.is_some_and(|table| table.forget_damage())
            })
        });
    }

    /// Replaces the whole view, when a read-only store refreshes.
    pub(crate) fn replace(&self, fresh: &View) {
        self.change(|_| fresh.clone());
    }

    /// Marks the family as dropped, or undoes the mark.
    pub(crate) fn set_dropped(&self, dropped: bool) {
        self.0.dropped.store(dropped, Ordering::SeqCst);
    }

    /// Replaces the view of a dropped family by an empty one whose reads fail with `Invalid`.
    pub(crate) fn clear(&self, empty: Arc<TableLevels>, unsynced: &UnsyncedBlobs) {
        self.0.intake.abandon(unsynced);
        self.change(|view| View {
            active: Generation::new(self.order(), &self.0.shape, None),
            frozen: Vec::new(),
            levels: empty,
            lost_ranges: Arc::default(),
            lost_range_ids: Arc::default(),
            range_deletes: Arc::default(),
            values: view.values.clone(),
            end: Some(ViewEnd::Dropped),
        });
    }

    /// Replaces the view by an empty one whose reads fail with `Closed`, and frees the cached blocks of its tables.
    pub(crate) fn close(&self, unsynced: &UnsyncedBlobs) {
        self.0.intake.abandon(unsynced);
        let tables = self.pinned_view();
        let tables = tables.levels.iter().flat_map(|level| level.tables());
        tables.filter_map(|table| table.opened()).for_each(|table| table.release_blocks());
        let shape = MemtableShape { budget: CLOSED_MEMTABLE_BYTES, live: self.0.shape.live.clone() };
        self.change(|_| View {
            active: Generation::new(self.order(), &shape, None),
            frozen: Vec::new(),
            levels: Arc::new(TableLevels::empty(self.order().clone())),
            lost_ranges: Arc::default(),
            lost_range_ids: Arc::default(),
            range_deletes: Arc::default(),
            values: None,
            end: Some(ViewEnd::Closed),
        });
    }
}

impl Holder for FamilyInner {
    fn put_back(&self, most: usize, any: bool) -> usize {
        self.renew(|levels| levels.put_back(most, any))
    }
}

impl FamilyInner {
    /// Replaces handles of open tables; returns their number.
    fn renew(&self, renewed: impl FnOnce(&TableLevels) -> (TableLevels, usize)) -> usize {
        // Dropped after the lock, because dropping it closes files.
        let before;
        let _one_at_a_time = lock(&self.changing);
        before = self.view.load_full();
        let (levels, taken) = renewed(&before.levels);
        if taken > 0 {
            self.view.store(Arc::new(View { levels: Arc::new(levels), ..View::clone(&before) }));
            self.deleted_runs.clear();
            self.replaced.add(&before, self.clock.monotonic_nanos());
        }
        taken
    }
}

/// A family's active memtable, cached by the applying thread to avoid a lookup for each record.
#[derive(Debug)]
pub(crate) struct ApplyTarget {
    pub(crate) family: Family,
    pub(crate) generation: Arc<Generation>,
    active_number: u64,
}

impl ApplyTarget {
    /// Returns true if this is certainly still the family's active memtable. A family that is being dropped never
    /// matches, so it is looked up each time.
    #[inline]
    pub(crate) fn is_that_of(&self, family: u32) -> bool {
        let inner = &self.family.0;
        inner.id == family
            && inner.active_number.load(Ordering::Acquire) == self.active_number
            && !self.family.is_dropped()
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({}, {:?})", self.0.id, self.0.name)
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Family) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Family {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MIB;

    #[test]
    fn a_memtable_is_as_full_as_the_values_that_it_points_to() {
        let settings = Settings { memtable_bytes: 4 * MIB, ..Settings::default() };
        let shape = MemtableShape::of(&settings, &Arc::default());
        let generation = Generation::new(&Order::bytewise(), &shape, None);
        assert!(!generation.is_full(4 * MIB) && generation.fullness(4 * MIB) < 500);
        for (values, fullness) in [(2, 500), (4, 1000), (6, 1500)] {
            generation.value_bytes.store((values * MIB) as u64, Ordering::Relaxed);
            assert_eq!((generation.fullness(4 * MIB), generation.is_full(4 * MIB)), (fullness, values > 4));
        }
    }
}
