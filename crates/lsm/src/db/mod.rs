//! The database: it conducts; what is done stands in the files below it, what is decided in pure functions further down.
//!
//! ```text
//! open.rs        directory, lock, Db; destroy
//! recover.rs     manifest -> families, log -> replay.rs -> memtables -> tables, a fresh log (I16)
//! commit.rs      batch -> ordered -> copied -> applied -> acknowledged -> synced where asked (I01)
//! reads.rs       active, frozen, levels: the first answer ends it; resident.rs: the same for those who must not wait for a file
//! versions.rs    older versions, where a version stands, what no flush has taken up yet
//! background.rs  lanes: the log's housekeeping, flushes, compactions; threads or steps
//! panics.rs      what becomes of a callback that panics
//! flush.rs       frozen memtables -> a table of level 0; rows.rs: and rows for other families, lookup.rs: what these need to know
//! redo.rs        the same from the log, where memory was damaged
//! compact.rs     tables -> tables a level further down; pick_cache.rs: what is due in each family; stall.rs: how much writers are held back; warm.rs: what was in the cache of them is there again
//! chronicle.rs   each piece of work leaves a line in its edit
//! install.rs     an edit durable, then the view swapped (I04)
//! examine.rs     a store looked at piece by piece
//! mend.rs        what a repair puts in the place of a damaged table
//! replace.rs     tables for what is left of them; fences, bars; quarantine.rs: a row of each
//! sweep.rs       what died, freed and removed in the background; trash.rs: replaced tables, kept for a while; leftovers.rs: what an open found
//! ddl.rs         families created and dropped
//! ingest.rs      records of other files put under one seqno; raw records handed out
//! checkpoint.rs  a copy of the store at one commit
//! ```
//!
//! Locks, in the order in which they may be taken: `jobs_lock` (one flush, drop or checkpoint at a time) -> `apply` (one
//! thread applies) -> `manifest` (over its own I/O) -> the short ones. `sweeping` is held over I/O too, and no other behind it but short
//! ones. Readers take none of them (I14).

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
#[doc(hidden)]
pub mod fuzzing;
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
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
pub use mend::ListCursor;
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

/// What a builder plugs into a store.
#[derive(Clone)]
pub struct Parts {
    /// Files, time, randomness, threads.
    pub env: Env,
    /// The keeper of companions; `seam::Plain` for a plain node.
    pub companions: Arc<dyn Companions>,
    /// Who hears what happens.
    pub listener: Arc<dyn Listener>,
    /// Options by family name, in the place of the stored ones; families of these names are created at open if there are none.
    pub families: Vec<(String, CfOptions)>,
    /// Orders other than bytewise by which stored families may be ordered, looked up by name.
    pub orders: Vec<Order>,
    /// Who writes down what the engine does; none: nobody.
    pub chronicle: Option<Arc<dyn Chronicle>>,
    /// The block cache, which other stores may share; none: one of its own, of `Settings::cache_bytes`.
    pub cache: Option<Arc<Cache>>,
}

impl Parts {
    /// The operating system, no companions, no listener.
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

/// An open store. Clones share it; all methods may be called from any thread. The last clone to be dropped closes it.
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

/// Closes the store when the last user's clone goes; the background threads hold `Inner` alone.
struct Handle {
    inner: Arc<Inner>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

/// The tables of a family as readers see them.
pub(crate) type Levels = crate::version::Levels<Arc<Table>>;
/// One table of them, opened when first read.
pub(crate) type TableHandle = crate::version::Handle<Arc<Table>>;

/// How a store is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Reads and writes.
    Write,
    /// Reads only, without a lock, perhaps beside a writer.
    Read,
    /// Reads only, since there was no room to recover; the lock is held.
    NoSpace,
}

pub(crate) struct Inner {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    /// Its uid; none: it is read-only.
    pub(crate) store: Option<Uid>,
    pub(crate) settings: Settings,
    pub(crate) companions: Arc<dyn Companions>,
    /// What its keeper promises of what is written.
    promise: Protection,
    integrity: Arc<watch::Integrity>,
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) cache: Arc<Cache>,
    /// No other store shares the cache.
    owns_cache: bool,
    pub(crate) snapshots: Arc<snapshot::Snapshots>,
    /// The time by which records expire.
    pub(crate) expiry_clock: Arc<crate::expiry::ExpiryClock>,
    access: Access,
    origin: Origin,
    closed: AtomicBool,
    /// Somebody wants no more writes until the store is opened anew.
    refusing: AtomicBool,
    /// The last seqno that reads see (I01).
    visible: AtomicU64,
    families: ArcSwap<Families>,
    /// None when the store is read-only.
    log: Option<commit::Log>,
    /// No value that is shorter is put apart by a commit to any family.
    least_apart: AtomicUsize,
    /// The manifest says that the log may point into value files.
    log_points: AtomicBool,
    /// Families that have begun a value file, by id; some have finished it.
    intakes: Mutex<HashSet<u32>>,
    /// Value files that commits wrote into since the log was synced.
    unsynced: Arc<Unsynced>,
    /// One flush, drop or checkpoint at a time.
    jobs_lock: Mutex<()>,
    /// The log of edits; held over its own I/O, never taken by a reader (I14).
    manifest: Mutex<Option<Manifest>>,
    background: Arc<background::Background>,
    compactions: running::Running,
    /// The next compaction of each family, as the lane last saw it.
    picks: Mutex<pick_cache::PickCache>,
    pace: Pace,
    memory: memory::Memory,
    /// How many ingestions have a seqno whose records are not shown yet: a snapshot taken meanwhile holds its views.
    ingesting: AtomicU64,
    dead_files: Arc<DeadFiles>,
    /// Held while a piece of what died is freed or removed.
    sweeping: Mutex<()>,
    /// How many tables are open, and may be.
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

/// The families by id and by name. A clone shares the rest when one family is added or removed.
#[derive(Clone, Default)]
pub(crate) struct Families {
    pub(crate) by_id: RedBlackTreeMapSync<u32, Family>,
    by_name: RedBlackTreeMapSync<Arc<str>, u32>,
    pub(crate) next_id: u32,
}

impl Families {
    /// No families; the next one gets this id.
    pub(crate) fn none(next_id: u32) -> Families {
        Families { next_id, ..Families::default() }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Family> {
        self.by_name.get(name).and_then(|id| self.by_id.get(id))
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
    /// The families, by id; `default` is always among them.
    pub fn families(&self) -> Vec<Family> {
        self.inner().families().by_id.values().cloned().collect()
    }

    /// The family of this name, if there is one.
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

    /// The settings the store was opened with.
    pub fn settings(&self) -> &Settings {
        &self.inner().settings
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.inner().dir
    }

    /// True if writes answer `ReadOnly`.
    pub fn is_read_only(&self) -> bool {
        self.inner().access != Access::Write || self.inner().refusing.load(Ordering::Relaxed)
    }

    /// From now on whatever would change the store answers `ReadOnly`, until it is opened anew. Reads go on, and so does the work
    /// that nobody asks for: what was written before is flushed and compacted.
    pub fn refuse_writes(&self) {
        self.inner().refusing.store(true, Ordering::Relaxed);
    }

    /// A view of the whole store as it is now; what it sees is kept until its last clone is dropped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let inner = self.open_inner()?;
        if inner.access != Access::Write {
            return Ok(inner.held_snapshot());
        }
        Ok(inner.held_while_ingesting(inner.snapshots.take(&inner.expiry_clock, None, || inner.visible())))
    }

    /// A view at the last commit that is certainly on disk, perhaps a little behind `snapshot`.
    pub fn durable_snapshot(&self) -> Result<Snapshot> {
        let inner = self.open_inner()?;
        Ok(match &inner.log {
            Some(log) => {
                inner.held_while_ingesting(inner.snapshots.take(&inner.expiry_clock, None, || log.durable_seqno()))
            }
            None => inner.held_snapshot(),
        })
    }

    /// The time by which a record that is read now is judged, in microseconds since 1970. It is never before an
    /// expiry that was found to have passed, nor before the time of a snapshot, whatever the system clock does.
    pub fn expiry_micros(&self) -> u64 {
        self.inner().expiry_clock.now()
    }

    /// What recovery found when the store was opened.
    pub fn recovery(&self) -> RecoveryReport {
        lock(&self.inner().recovery).clone()
    }

    /// `Closed`, or `Invalid` in a child that was forked, as every call would answer. Two loads.
    pub fn check_open(&self) -> Result<()> {
        self.open_inner().map(drop)
    }

    /// Stops background work, makes everything acknowledged durable and closes the store. Later calls return `Closed`, on every clone, family
    /// and snapshot; closing twice is no error, and the second call does not wait for the first. Threads, descriptors, mappings, memtables and cached blocks are released when this returns.
    /// Running calls keep the memory that they use, and an open cursor keeps its memtables and the indexes of its tables until it is dropped.
    /// Dropping the last clone closes too, but cannot report a failure.
    pub fn close(&self) -> Result<()> {
        match self.open_inner() {
            Err(error) if *error.kind() != ErrorKind::Closed => Err(error), // a forked child's copy: nothing of it is its own
            _ => self.handle.close(),
        }
    }

    /// Removes a store that nobody has open: every file of ours, then the directory if nothing else is in it.
    /// `Invalid` if the directory holds no store, `Locked` if it is open.
    pub fn destroy(dir: &Path, env: &Env) -> Result<()> {
        open::destroy(dir, env)
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    /// The store, if it is open and this process is the one that opened it.
    #[inline]
    fn open_inner(&self) -> Result<&Arc<Inner>> {
        let inner = &self.handle.inner;
        if inner.is_over() { Err(inner.why_over()) } else { Ok(inner) }
    }

    /// The store, open or closed, if this process is the one that opened it.
    #[inline]
    fn here(&self) -> Result<&Arc<Inner>> {
        match self.handle.inner.origin.is_here() {
            true => Ok(&self.handle.inner),
            false => Err(forked()),
        }
    }

    /// The store and its log, if it can be written.
    #[inline]
    fn writable(&self) -> Result<(&Arc<Inner>, &commit::Log)> {
        let inner = &self.handle.inner;
        match &inner.log {
            Some(log) if !inner.is_over() && !inner.refusing.load(Ordering::Relaxed) => Ok((inner, log)),
            _ => Err(self.not_writable()),
        }
    }

    /// Why the store cannot be written.
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
    /// True if the store is closed, or this process is not the one that opened it.
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

    /// A snapshot of a read-only store: it holds its views itself, since the writer does not know of it. No `refresh` comes
    /// between the views and the seqno.
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

    /// Names family and keys in an error of a table that cannot be opened, and tells the listener of damage, once.
    #[cold]
    pub(crate) fn unopened(&self, family: &Family, table: &TableHandle, error: Error) -> Error {
        let keys = (&table.meta().smallest[..], &table.meta().largest[..]);
        let error = error.in_family(family.name(), Some(keys));
        self.integrity.tell(watch::Place::Table(table.meta().number), &error);
        error
    }
}

impl Handle {
    /// Closes the store. Only the first call does; others return at once, since a listener on a thread that the first call waits for may make
    /// one.
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
        // Users' threads may be in the middle of a flush or compaction: what they write and remove must be over before the
        // lock goes, for whoever opens the store next gives the same numbers to new files.
        let last_job = lock(&inner.jobs_lock);
        inner.compactions.end();
        inner.sweep_dead_files();
        while inner.leftovers.remove_one(&*inner.env.fs, &inner.dir) {}
        let outcome = inner.close_log();
        *lock(&inner.manifest) = None; // an edit that comes too late is refused
        inner.release();
        *lock(&inner.store_lock) = None;
        drop(last_job);
        inner.tell_noted();
        outcome
    }
}

impl Inner {
    /// Releases what the store holds, whoever still has a handle, a snapshot or a cursor of it: the tables and memtables of all views, cached
    /// blocks, and every descriptor and mapping. A running read keeps the memory that it uses until it returns.
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
