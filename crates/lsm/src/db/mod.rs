//! The database: opens a store, commits, reads, and runs background jobs. The modules below do the work; decisions are
//! pure functions in other folders.
//!
//! ```text
//! open.rs        directory, locks, `Db`; destroying a store
//! recover.rs     manifest -> families, log -> replay.rs -> memtables -> tables, then a fresh log (I16)
//! commit.rs      batch -> ordered -> copied -> applied -> acknowledged, and synced if requested (I01)
//! reads.rs       active memtable, frozen memtables, levels: the first hit decides
//! resident.rs    the same reads for callers that must not wait for a file
//! versions.rs    older versions of a key, the location of a version, unflushed records
//! background.rs  worker lanes: log housekeeping, flushes, compactions; run by threads or by single steps
//! panics.rs      handling of callbacks that panic
//! flush.rs       frozen memtables -> one level-0 table
//! rows.rs        rows that a flush or compaction emits for other families; lookup.rs: reads that they need
//! redo.rs        a flush that rereads the log because a memtable is damaged
//! compact.rs     tables -> tables one level further down
//! pick_cache.rs  the next compaction of each family; stall.rs: write throttling
//! warm.rs        repopulates the block cache after a compaction
//! chronicle.rs   the event log: each job adds an entry to its manifest edit
//! install.rs     makes an edit durable, then swaps the view (I04)
//! examine.rs     inspection of a store piece by piece, for verification, scrubbing and repair
//! mend.rs        the replacement records that a repair writes for a damaged table
//! replace.rs     replaces tables; lost ranges and quarantined tables; quarantine.rs: a row for each of them
//! sweep.rs       frees and removes obsolete files in the background
//! trash.rs       keeps replaced tables for a while; leftovers.rs: obsolete files that an open found
//! ddl.rs         creates and drops families
//! ingest.rs      writes external records under one seqno; exports raw records
//! checkpoint.rs  copies the store as of one commit
//! ```
//!
//! Lock order: `jobs_lock` (one flush, drop or checkpoint at a time) -> `apply` (one thread applies frames) ->
//! `manifest` (held during its own I/O) -> the short locks. `sweeping` is also held during I/O, and its holder takes
//! only short locks. Readers take none of these locks (I14).

mod apart;
mod background;
mod checkpoint;
mod chronicle;
mod commit;
mod compact;
mod ddl;
mod events;
mod examine;
mod expire;
mod family;
mod faults;
mod flush;
mod ingest;
mod install;
mod leftovers;
mod lookup;
mod memory;
mod mend;
mod metrics;
mod open;
mod panics;
mod pick_cache;
mod quarantine;
mod reads;
mod recover;
mod redo;
mod replace;
mod replay;
mod resident;
mod retire;
mod rows;
mod running;
mod snapshot;
mod stall;
mod standing;
mod sweep;
mod trash;
mod turn;
mod values;
mod versions;
mod warm;
mod watch;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use rpds::RedBlackTreeMapSync;

use crate::checksum::Uid;
use crate::compaction::Pace;
pub use crate::compaction::Reason;
pub use crate::error::Remedy;
pub use events::{Event, Listener, Silent};
pub use examine::{MemoryRef, OwnedRecord, TableRef};
pub use family::Family;
pub use ingest::{Ingested, Raw};
pub use memory::MemoryMetrics;
pub use metrics::{FamilyMetrics, LevelMetrics, Metrics, ValueMetrics, WalMetrics};
pub use open::RecoveryReport;
pub use reads::Bounds;
pub use recover::facts_of;
pub use replace::{HeldTables, Replacement};
pub use snapshot::{At, Snapshot};
pub use versions::{Stands, Whereabouts};
pub use watch::IntegrityMetrics;

use crate::env::work::lock;
use crate::env::{Env, Origin};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{CfOptions, Settings};
use crate::order::Order;
use crate::record::Seqno;
use crate::seam::{Chronicle, Companions, Protection};
use crate::sst::{Cache, Table};
use crate::values::Unsynced;
use crate::version::{DeadFiles, Manifest, OpenTables};

/// The name of the family that always exists.
pub const DEFAULT_FAMILY: &str = "default";

/// The parts that an application plugs into a store.
#[derive(Clone)]
pub struct Parts {
    /// The environment: files, time, randomness and threads.
    pub env: Env,
    /// The record protector, which makes and checks companions; `seam::Plain` for a plain node.
    pub companions: Arc<dyn Companions>,
    /// Receives the store's events.
    pub listener: Arc<dyn Listener>,
    /// Options by family name. They replace the stored ones; opening the store creates the families that are missing.
    pub families: Vec<(String, CfOptions)>,
    /// Key orders other than bytewise. A stored family's order is looked up here by its name.
    pub orders: Vec<Order>,
    /// Writes the event log; `None` records no events.
    pub chronicle: Option<Arc<dyn Chronicle>>,
    /// The block cache, which several stores may share; `None` creates a private one of `Settings::cache_bytes`.
    pub cache: Option<Arc<Cache>>,
}

impl Parts {
    /// Returns parts for the operating system, without companions and without a listener.
    pub fn real() -> Parts {
        Parts {
            env: Env::real(),
            companions: Arc::new(crate::seam::Plain),
            listener: Arc::new(Silent),
            families: Vec::new(),
            orders: Vec::new(),
            chronicle: None,
            cache: None,
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("env", &self.env).field("families", &self.families).finish_non_exhaustive()
    }
}

/// An open store. Clones share it, and any thread may call all methods. Dropping the last clone closes the store.
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

/// Closes the store when the user drops the last clone; the background threads hold only `Inner`.
struct Handle {
    inner: Arc<Inner>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

/// The levels of a family's tables as readers see them.
pub(crate) type Levels = crate::version::Levels<Arc<Table>>;
/// A handle of one table, which is opened at its first read.
pub(crate) type TableHandle = crate::version::Handle<Arc<Table>>;

/// The access mode of an open store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Reads and writes.
    Write,
    /// Reads only, without a lock, possibly while another process writes the store.
    Read,
    /// Reads only, because the disk had no room for recovery; the store lock is held.
    NoSpace,
}

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    /// Its uid; none: it is read-only.
    pub(crate) store: Option<Uid>,
    pub(crate) settings: Settings,
    pub(crate) companions: Arc<dyn Companions>,
    /// The protection that the record protector promises for written records.
    promise: Protection,
    integrity: Arc<watch::Integrity>,
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) cache: Arc<Cache>,
    /// No other store shares the cache.
    owns_cache: bool,
    pub(crate) snapshots: Arc<snapshot::Snapshots>,
    /// The clock that decides whether a record has expired.
    pub(crate) expiry_clock: Arc<crate::expiry::ExpiryClock>,
    access: Access,
    origin: Origin,
    closed: AtomicBool,
    /// True after `refuse_writes`: the store rejects writes until it is reopened.
    refusing: AtomicBool,
    /// The last seqno that reads see (I01).
    visible: AtomicU64,
    families: ArcSwap<Families>,
    /// `None` when the store is read-only.
    log: Option<commit::Log>,
    /// The smallest value size that a commit to any family moves to a blob file.
    least_apart: AtomicUsize,
    /// True if the manifest records that the log may point into blob files.
    log_points: AtomicBool,
    /// Ids of the families whose commits have begun a blob file, finished ones included.
    intakes: Mutex<HashSet<u32>>,
    /// Blob files that commits wrote to since the last log sync.
    unsynced: Arc<Unsynced>,
    /// Admits one flush, drop or checkpoint at a time.
    jobs_lock: Mutex<()>,
    /// The family that last kept the oldest segment of the log from being retired: a hint.
    log_holder: AtomicU32,
    /// The log of edits; held during its own I/O, never taken by a reader (I14).
    manifest: Mutex<Option<Manifest>>,
    background: Arc<background::Background>,
    compactions: running::Running,
    /// The next compaction of each family, as the compaction lane last computed it.
    picks: Mutex<pick_cache::PickCache>,
    pace: Pace,
    memory: memory::Memory,
    /// Number of ingestions that have a seqno but do not yet show their records. A snapshot taken meanwhile holds its
    /// views.
    ingesting: AtomicU64,
    dead_files: Arc<DeadFiles>,
    /// Held while an obsolete file is freed or removed.
    sweeping: Mutex<()>,
    /// Counts the open tables and bounds their number.
    open_tables: Arc<OpenTables>,
    leftovers: leftovers::Leftovers,
    trash: trash::Trash,
    book: chronicle::Book,
    next_file: Arc<AtomicU64>,
    /// Whether it was noted that the store halted.
    halt_told: AtomicBool,
    noted: Arc<events::Noted>,
    recovery: Mutex<RecoveryReport>,
    /// Options and orders given by the caller, kept for `refresh`.
    given: (Vec<(String, CfOptions)>, Vec<Order>),
    store_lock: Mutex<Option<open::StoreLocks>>,
    counters: metrics::Counters,
}

/// The families by id and by name. Adding or removing a family in a clone shares the other families with the original.
#[derive(Clone, Default)]
pub(crate) struct Families {
    pub(crate) by_id: RedBlackTreeMapSync<u32, Family>,
    by_name: RedBlackTreeMapSync<Arc<str>, u32>,
    pub(crate) next_id: u32,
}

/// Counts the families that walks of this thread have visited.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        static VISITS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        VISITS.set(VISITS.get() + 1);
    }

    pub(crate) fn take() -> u64 {
        VISITS.take()
    }
}

impl Families {
    /// Returns an empty set; `next_id` is the id of the first family added.
    pub(crate) fn none(next_id: u32) -> Families {
        Families { next_id, ..Families::default() }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Family> {
        self.by_name.get(name).and_then(|id| self.by_id.get(id))
    }

    /// Returns all families, by id. A walk over them costs too much in an operation on one family.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Family> {
        let all = self.by_id.values();
        #[cfg(test)]
        let all = all.inspect(|_| visits::count());
        all
    }

    pub(crate) fn add(&mut self, family: Family) {
        self.by_name.insert_mut(family.shared_name(), family.id());
        self.by_id.insert_mut(family.id(), family);
    }

    pub(crate) fn remove(&mut self, family: &Family) {
        self.by_name.remove_mut(family.name());
        self.by_id.remove_mut(&family.id());
    }
}

impl Db {
    /// Returns the families, ordered by id; `default` is always among them.
    pub fn families(&self) -> Vec<Family> {
        self.inner().families().by_id.values().cloned().collect()
    }

    /// Returns the family with this name, or `None` if no such family exists.
    pub fn family(&self, name: &str) -> Option<Family> {
        self.inner().families().named(name).cloned()
    }

    /// The family with this id, if there is one: a look-up, where `families` costs a copy of all.
    pub fn family_by_id(&self, id: u32) -> Option<Family> {
        self.inner().families().by_id.get(&id).cloned()
    }

    /// The keeper of companions that batches are built with.
    pub fn companions(&self) -> &dyn Companions {
        &*self.inner().companions
    }

    /// Returns the settings that the store was opened with.
    pub fn settings(&self) -> &Settings {
        &self.inner().settings
    }

    /// Returns the directory of the store.
    pub fn path(&self) -> &Path {
        &self.inner().dir
    }

    /// Returns true if writes fail with `ReadOnly`.
    pub fn is_read_only(&self) -> bool {
        self.inner().access != Access::Write || self.inner().refusing.load(Ordering::Relaxed)
    }

    /// Makes every later call that would change the store fail with `ReadOnly`, until the store is reopened. Reads
    /// continue, and so does background work: earlier writes are still flushed and compacted.
    pub fn refuse_writes(&self) {
        self.inner().refusing.store(true, Ordering::Relaxed);
    }

    /// Takes a snapshot of the whole store as of now. The versions it sees are kept until its last clone is dropped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let inner = self.open_inner()?;
        if inner.access != Access::Write {
            return Ok(inner.held_snapshot());
        }
        Ok(inner.held_while_ingesting(inner.snapshots.take(&inner.expiry_clock, None, || inner.visible())))
    }

    /// Takes a snapshot at the last commit known to be durable, which may be slightly older than that of `snapshot`.
    pub fn durable_snapshot(&self) -> Result<Snapshot> {
        let inner = self.open_inner()?;
        Ok(match &inner.log {
            Some(log) => {
                inner.held_while_ingesting(inner.snapshots.take(&inner.expiry_clock, None, || log.durable_seqno()))
            }
            None => inner.held_snapshot(),
        })
    }

    /// Returns the time at which a read evaluates expiry now, in microseconds since 1970. It never precedes the expiry
    /// of a record already found expired, nor the time of a snapshot, even if the system clock runs back.
    pub fn expiry_micros(&self) -> u64 {
        self.inner().expiry_clock.now()
    }

    /// Returns the report of the recovery that opened the store.
    pub fn recovery(&self) -> RecoveryReport {
        lock(&self.inner().recovery).clone()
    }

    /// Returns `Closed` for a closed store and `Invalid` in a forked child, as every other call does. Costs two atomic
    /// loads.
    pub fn check_open(&self) -> Result<()> {
        self.open_inner().map(drop)
    }

    /// Stops background work, makes every acknowledged write durable and closes the store. Later calls on every clone,
    /// family and snapshot return `Closed`. Closing twice is no error, and the second call does not wait for the first.
    /// Threads, descriptors, mappings, memtables and cached blocks are released before this call returns. Running calls
    /// keep the memory that they use, and an open cursor keeps its memtables and its tables' indexes until it is
    /// dropped. Dropping the last clone also closes the store, but cannot report a failure.
    pub fn close(&self) -> Result<()> {
        match self.open_inner() {
            Err(error) if *error.kind() != ErrorKind::Closed => Err(error), // a forked child owns nothing
            _ => self.handle.close(),
        }
    }

    /// Removes a store that is not open: all of its files, then the directory unless it contains other files. Fails
    /// with `Invalid` if the directory holds no store, and with `Locked` if the store is open.
    pub fn destroy(dir: &Path, env: &Env) -> Result<()> {
        open::destroy(dir, env)
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    /// Returns the store if it is open and this process opened it.
    #[inline]
    fn open_inner(&self) -> Result<&Arc<Inner>> {
        let inner = &self.handle.inner;
        if inner.is_over() { Err(inner.why_over()) } else { Ok(inner) }
    }

    /// Returns the store, open or closed, if this process opened it.
    #[inline]
    fn here(&self) -> Result<&Arc<Inner>> {
        match self.handle.inner.origin.is_here() {
            true => Ok(&self.handle.inner),
            false => Err(forked()),
        }
    }

    /// Returns the store and its log if the store accepts writes.
    #[inline]
    fn writable(&self) -> Result<(&Arc<Inner>, &commit::Log)> {
        let inner = &self.handle.inner;
        match &inner.log {
            Some(log) if !inner.is_over() && !inner.refusing.load(Ordering::Relaxed) => Ok((inner, log)),
            _ => Err(self.not_writable()),
        }
    }

    /// Returns the reason why the store rejects writes.
    #[cold]
    fn not_writable(&self) -> Error {
        let inner = match self.open_inner() {
            Ok(inner) => inner,
            Err(error) => return error,
        };
        let why = match (&inner.log, inner.access) {
            (Some(_), _) => "writes were refused after damage was met: look at the device, then open anew",
            (None, Access::NoSpace) => "opened read-only: there was no room on the device to recover",
            (None, _) => "the store was opened read-only",
        };
        Error::of(ErrorKind::ReadOnly, why)
    }
}

#[cold]
fn forked() -> Error {
    Error::invalid("forked: the store belongs to the parent process; open it anew")
}

impl Inner {
    /// Returns true if the store is closed, or if another process opened it.
    #[inline]
    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || !self.origin.is_here()
    }

    #[cold]
    fn why_over(&self) -> Error {
        if self.closed.load(Ordering::Relaxed) { Error::closed() } else { forked() }
    }

    #[inline]
    pub(crate) fn visible(&self) -> Seqno {
        self.visible.load(Ordering::Acquire)
    }

    pub(crate) fn families(&self) -> arc_swap::Guard<Arc<Families>> {
        self.families.load()
    }

    /// Takes a snapshot of a read-only store. It holds its views itself, because the writing process does not know of
    /// it. The lock keeps a `refresh` from running between the views and the seqno.
    fn held_snapshot(&self) -> Snapshot {
        let _no_refresh = lock(&self.jobs_lock);
        let views = self.families().by_id.iter().map(|(id, family)| (*id, family.pinned_view())).collect();
        self.snapshots.take(&self.expiry_clock, Some(views), || self.visible())
    }

    pub(crate) fn new_file_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn path(&self, name: crate::names::Name) -> PathBuf {
        self.dir.join(name.to_string())
    }

    /// Adds the family and the key range to the error of a table that cannot be opened, and reports damage to the
    /// listener once.
    #[cold]
    pub(crate) fn unopened(&self, family: &Family, table: &TableHandle, error: Error) -> Error {
        let keys = (&table.meta().smallest[..], &table.meta().largest[..]);
        let error = error.in_family(family.name(), Some(keys));
        self.integrity.tell(watch::Place::Table(table.meta().number), &error);
        error
    }
}

impl Handle {
    /// Closes the store. Only the first call does the work. Later calls return at once, because a listener may make one
    /// on a thread that the first call waits for.
    fn close(&self) -> Result<()> {
        let inner = &self.inner;
        if !inner.origin.is_here() || inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        inner.background.stop();
        let this = std::thread::current().id();
        let threads: Vec<_> = lock(&self.threads).drain(..).collect();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
        // User threads may be in the middle of a flush or compaction. Their file writes and removals must end before
        // the lock is released, because the next process to open the store reuses the same file numbers.
        let last_job = lock(&inner.jobs_lock);
        inner.compactions.end();
        inner.sweep_dead_files();
        while inner.leftovers.remove_one(&*inner.env.fs, &inner.dir) {}
        let outcome = inner.close_log();
        *lock(&inner.manifest) = None; // refuses later edits
        inner.release();
        *lock(&inner.store_lock) = None;
        drop(last_job);
        inner.tell_noted();
        outcome
    }
}

impl Inner {
    /// Releases the tables and memtables of all views, cached blocks, descriptors and mappings, even while callers
    /// still hold handles, snapshots or cursors. A running read keeps the memory that it uses until it returns.
    fn release(&self) {
        self.families().by_id.values().for_each(|family| family.close(&self.unsynced));
        self.snapshots.close();
        if let Some(log) = &self.log {
            log.release();
        }
        self.dead_files.close();
        if self.owns_cache {
            self.cache.release();
        }
        self.charge_memtables();
        self.env.fs.close();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.inner().dir).field("access", &self.inner().access).finish()
    }
}
