//! The async interface: the same store, for tasks that must not block.
//!
//! ```text
//! read      answered in the task from memory; reads that need a file run in a lane
//! write     encoded in the task, and committed there if that needs no waiting, else in a lane; `Sync` joins a group
//! range     pages, each read in a lane when the previous one is used up
//! the rest  in a lane
//! ```
//!
//! Lanes (`lane.rs`) are the store's own threads, so the store works under any runtime and outlives it. `group.rs` lets
//! all tasks that wait for durability share fdatasyncs. `batch.rs` commits, `reads.rs` and `rows.rs` read, and the
//! other files define handles.
//!
//! Holds: no call blocks the thread that polls it, except for short locks. A future that was polled and then dropped
//! loses its result and nothing else. Dropping the last handle does not wait for the store to close.

mod batch;
mod changes;
mod family;
mod group;
mod lane;
mod reads;
mod rows;
mod session;
mod snapshot;
mod transaction;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::coop::consume_budget;
use waxseal_lsm::db::{BackgroundPause, Metrics, OldestSeqnos, RecoveryReport};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Settings};
use waxseal_registry::Session as Who;

use crate::backup::CreatedBackup;
use crate::builder::Builder;
use crate::care::{Digest, RepairOptions, Report, ScrubOptions, VerifyOptions};
use crate::db::Db;
use crate::ingest::{IngestOptions, Ingested};
use crate::range::KeyRange;
use crate::registry::Identity;

use group::TaskGroup;
use lane::{JobLane, JobResult};

pub use batch::AsyncBatch;
pub use changes::{AsyncChangeCursor, AsyncChanges};
pub use family::AsyncColumnFamily;
pub use rows::{KeyStream, RangeStream};
pub use session::AsyncSession;
pub use snapshot::AsyncSnapshot;
pub use transaction::AsyncTransaction;

/// Maximum number of threads that read files for tasks.
const READERS: usize = 16;

/// Threads for commits that have to wait. Two suffice: commits wait for the same resources, so more threads would only
/// queue.
const WRITERS: usize = 2;

/// Threads for long work: flushes, verification, and closures passed to `run`.
const WORKERS: usize = 4;

/// A store for async code: [`Db`] with calls that do not block. Clones share it and may be used from any task, thread
/// and runtime.
///
/// - **Reads** are answered in the task if memtables and cached blocks hold the result; other reads run on the store's
///   own threads.
/// - **Writes** are encoded in the task and usually committed there; commits that would have to wait run on the store's
///   threads. A write with [`Durability::Sync`](crate::Durability::Sync) resolves after its group sync: any number of
///   waiting tasks share the fdatasyncs, and no thread is parked for them.
/// - **Ranges** are [`Stream`](futures_core::Stream)s ([`RangeStream`]).
/// - [`run`](AsyncDb::run) gives access to all other calls of the synchronous interface.
///
/// No particular runtime is required: tokio or another one may poll the futures, and the store continues after the
/// runtime has ended. The store's threads (at most 16 for reads, 2 for writes, 4 for long work and one for syncs) start
/// on demand and end when idle.
///
/// # Dropping a future
///
/// A future does nothing before its first poll. Dropping it later discards its result and nothing else: a job already
/// given to a lane runs to its end. A write that was polled and then dropped is therefore applied completely or not at
/// all. If it is applied, it has its place in the order of commits, and a `Sync` write becomes durable with its group.
/// The store and all other futures are unaffected.
///
/// # Example
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("store");
/// use waxseal::{AsyncDb, Durability};
///
/// let db = AsyncDb::open(&path).await?;
/// let users = db.column_family("users").await?;
/// users.put("alice", "1815").await?;
/// assert_eq!(users.get("alice").await?.unwrap(), "1815");
///
/// let mut batch = db.batch();
/// batch.put(&users, "bob", "1912").delete(&users, "alice");
/// batch.commit(Durability::Sync).await?; // durable, by a sync shared with other tasks
///
/// let mut rows = users.range("a"..);
/// while let Some(row) = rows.next().await {
///     let (key, value) = row?;
///     println!("{} {}", key.escape_ascii(), value.escape_ascii());
/// }
/// db.close().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct AsyncDb {
    shared: Arc<AsyncShared>,
}

/// State shared by all async handles of one store. In each handle it is declared after the store's objects, so that it
/// is dropped last.
struct AsyncShared {
    /// Taken out when the last handle is dropped.
    db: Option<Db>,
    lanes: Lanes,
}

struct Lanes {
    read: JobLane,
    write: JobLane,
    work: JobLane,
    group: TaskGroup,
}

impl Lanes {
    fn new() -> Lanes {
        Lanes {
            read: JobLane::new("waxseal-read", READERS),
            write: JobLane::new("waxseal-write", WRITERS),
            work: JobLane::new("waxseal-work", WORKERS),
            group: TaskGroup::new(),
        }
    }

    /// Lets the threads of a closed store end.
    fn end(&self) {
        [&self.read, &self.write, &self.work].into_iter().for_each(JobLane::end);
    }
}

impl AsyncShared {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("taken out by `drop` alone")
    }

    /// Runs a long operation on the store in the work lane.
    async fn work<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> Result<T> + Send + 'static) -> Result<T> {
        let db = self.checked()?.clone();
        self.lanes.work.run(move || work(&db)).await
    }

    /// Returns the store, if it is open and was opened by this process: in a forked child the lanes' threads do not
    /// exist.
    fn checked(&self) -> Result<&Db> {
        let db = self.db();
        db.inner.check_open()?;
        db.inner.engine.check_open()?;
        Ok(db)
    }
}

impl Drop for AsyncShared {
    /// The last handle may be dropped anywhere, including in a task, so another thread closes the store.
    fn drop(&mut self) {
        if self.checked().is_ok()
            && let Some(db) = self.db.take()
        {
            drop(self.lanes.work.run(move || drop(db)));
        }
    }
}

impl AsyncDb {
    /// Opens the store in a directory, or creates one there: see [`Db::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<AsyncDb> {
        Db::builder(path).open_async().await
    }

    /// Opens a store for reading; another process may write at the same time: see [`Db::open_read_only`].
    pub async fn open_read_only(path: impl AsRef<Path>) -> Result<AsyncDb> {
        let builder = Db::builder(path);
        open_by(move || builder.open_read_only()).await
    }

    /// Creates a new store in memory. It is discarded with its last handle.
    pub async fn memory() -> Result<AsyncDb> {
        Builder::in_memory().open_async().await
    }

    /// Creates the async handle to an open store. Both handles may be used concurrently.
    pub fn new(db: Db) -> AsyncDb {
        AsyncDb { shared: Arc::new(AsyncShared { db: Some(db), lanes: Lanes::new() }) }
    }

    /// Returns the synchronous handle to the same store. Its calls may block.
    pub fn blocking(&self) -> &Db {
        self.shared.db()
    }

    /// Runs a closure with the synchronous handle, on one of the store's threads.
    ///
    /// Up to four closures run at once. A panic of `work` resumes in the task that waits for it.
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// use waxseal::{AsyncDb, ScrubOptions};
    ///
    /// let db = AsyncDb::memory().await?;
    /// let report = db.run(|db| db.scrub(ScrubOptions { bytes_per_second: Some(1 << 30), ..Default::default() })).await?;
    /// assert!(report.is_clean());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> Result<T> + Send + 'static) -> Result<T> {
        self.shared.work(work).await
    }

    /// Returns the column family with this name, creating it if it does not exist: see [`Db::column_family`].
    pub async fn column_family(&self, name: &str) -> Result<AsyncColumnFamily> {
        family::open(&self.shared, name, &Who::ANONYMOUS).await
    }

    /// Returns the column family with this name, and creates none: see [`Db::find_column_family`]. It is a look-up in
    /// memory.
    pub fn find_column_family(&self, name: &str) -> Result<Option<AsyncColumnFamily>> {
        family::find(&self.shared, name, &Who::ANONYMOUS)
    }

    /// Creates a column family with its own options: see [`Db::create_column_family`].
    pub async fn create_column_family(&self, name: &str, options: CfOptions) -> Result<AsyncColumnFamily> {
        let name = name.to_owned();
        let cf = self.shared.work(move |db| db.create_column_family(&name, options)).await?;
        Ok(AsyncColumnFamily::new(cf, &self.shared))
    }

    /// Drops a column family with all its records: see [`Db::drop_column_family`].
    pub async fn drop_column_family(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.shared.work(move |db| db.drop_column_family(&name)).await
    }

    /// Returns all column families of the user: see [`Db::column_families`].
    pub fn column_families(&self) -> Vec<AsyncColumnFamily> {
        let families = self.blocking().column_families().into_iter();
        families.map(|cf| AsyncColumnFamily::new(cf, &self.shared)).collect()
    }

    /// Returns an empty batch: writes to any column families that commit together.
    pub fn batch(&self) -> AsyncBatch {
        AsyncBatch::new(self.blocking().batch(), &self.shared)
    }

    /// Returns a snapshot of the store's current state: see [`Db::snapshot`].
    pub fn snapshot(&self) -> AsyncSnapshot {
        AsyncSnapshot::new(self.blocking().snapshot(), &self.shared)
    }

    /// Returns a snapshot of the state that a crash of the machine would leave now: see [`Db::durable_snapshot`].
    /// If range deletes were written since the last sync, the call may sync the log, on the thread of the caller.
    pub fn durable_snapshot(&self) -> AsyncSnapshot {
        AsyncSnapshot::new(self.blocking().durable_snapshot(), &self.shared)
    }

    /// Returns the session of an identity: see [`Db::session`].
    pub async fn session(&self, identity: impl Into<Identity>) -> Result<AsyncSession> {
        let identity = identity.into();
        let session = self.shared.work(move |db| db.session(identity)).await?;
        Ok(AsyncSession::new(session, &self.shared))
    }

    /// Returns the anonymous session: see [`Db::nobody`].
    pub fn nobody(&self) -> AsyncSession {
        AsyncSession::new(self.blocking().nobody(), &self.shared)
    }

    /// Makes every acknowledged commit durable, in a sync shared with other waiting tasks: see [`Db::sync`].
    pub async fn sync(&self) -> Result<()> {
        consume_budget().await;
        let db = self.shared.checked()?;
        db.inner.check_writable()?;
        self.shared.lanes.group.synced(&db.inner.engine).await
    }

    /// Flushes all memtables to tables: see [`Db::flush`].
    pub async fn flush(&self) -> Result<()> {
        self.run(Db::flush).await
    }

    /// Returns the options of the store as of now: see [`Db::options`].
    pub fn options(&self) -> Arc<Settings> {
        self.blocking().options()
    }

    /// Changes options of the store while it is open: see [`Db::set_options`].
    pub async fn set_options(&self, options: Settings) -> Result<()> {
        self.run(move |db| db.set_options(options)).await
    }

    /// Flushes, compacts, and frees disk space: see [`Db::settle`].
    pub async fn settle(&self) -> Result<()> {
        self.run(Db::settle).await
    }

    /// Returns how far back the records outside of the tables reach: see [`Db::oldest_seqnos`].
    pub async fn oldest_seqnos(&self) -> Result<OldestSeqnos> {
        self.run(Db::oldest_seqnos).await
    }

    /// Flushes, and erases old records from the files of the log: see [`Db::erase_log`].
    pub async fn erase_log(&self) -> Result<()> {
        self.run(Db::erase_log).await
    }

    /// Pauses background work until the returned value is dropped: see [`Db::pause_background`].
    pub async fn pause_background(&self) -> Result<BackgroundPause> {
        self.run(Db::pause_background).await
    }

    /// Returns the format level of the store: see [`Db::format_level`].
    pub fn format_level(&self) -> u32 {
        self.blocking().format_level()
    }

    /// Raises the format level of the store: see [`Db::upgrade`].
    pub async fn upgrade(&self, level: u32) -> Result<()> {
        self.run(move |db| db.upgrade(level)).await
    }

    /// Removes all keys of several families in one atomic step: see [`Db::clear`].
    pub async fn clear<'a>(&self, families: impl IntoIterator<Item = &'a AsyncColumnFamily>) -> Result<()> {
        let mut batch = self.blocking().batch();
        for family in families {
            batch.delete_range(family.blocking(), ..);
        }
        let durability = batch.durability();
        self.shared.commit(&mut batch, durability).await
    }

    /// Adds table files to a family in one commit: see [`Db::ingest`].
    pub async fn ingest<P: AsRef<Path>>(
        &self,
        family: &AsyncColumnFamily,
        files: impl IntoIterator<Item = P>,
        options: IngestOptions,
    ) -> Result<Ingested> {
        self.ingest_families([(family, files)], options).await
    }

    /// Adds table files to several families in one commit: see [`Db::ingest_families`].
    pub async fn ingest_families<'a, P: AsRef<Path>, F: IntoIterator<Item = P>>(
        &self,
        files: impl IntoIterator<Item = (&'a AsyncColumnFamily, F)>,
        options: IngestOptions,
    ) -> Result<Ingested> {
        let paths = |files: F| files.into_iter().map(|path| path.as_ref().to_owned()).collect::<Vec<PathBuf>>();
        let files: Vec<_> =
            files.into_iter().map(|(family, files)| (family.blocking().clone(), paths(files))).collect();
        self.run(move |db| db.ingest_families(files.iter().map(|(family, paths)| (family, paths.iter())), options))
            .await
    }

    /// Loads rows in any order into a family, in one commit: see [`Db::bulk_load`]. The rows are drawn on a thread of
    /// the store.
    pub async fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        family: &AsyncColumnFamily,
        rows: impl IntoIterator<Item = (K, V)> + Send + 'static,
    ) -> Result<Ingested> {
        let family = family.blocking().clone();
        self.run(move |db| db.bulk_load(&family, rows)).await
    }

    /// Loads rows like [`bulk_load`](AsyncDb::bulk_load), from a source that may fail: see [`Db::try_bulk_load`].
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// use waxseal::{AsyncDb, Error};
    ///
    /// let db = AsyncDb::memory().await?;
    /// let squares = db.column_family("squares").await?;
    /// let row = |text: &&str| {
    ///     let n: u32 = text.parse().map_err(|_| Error::invalid(format!("{text:?} is no number")))?;
    ///     Ok((n.to_be_bytes(), (n * n).to_string()))
    /// };
    /// assert!(db.try_bulk_load(&squares, ["1", "2", "x"].iter().map(row)).await.is_err());
    /// assert!(squares.is_empty().await?);
    /// assert_eq!(db.try_bulk_load(&squares, ["1", "2", "3"].iter().map(row)).await?.records, 3);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn try_bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        family: &AsyncColumnFamily,
        rows: impl IntoIterator<Item = Result<(K, V)>> + Send + 'static,
    ) -> Result<Ingested> {
        let family = family.blocking().clone();
        self.run(move |db| db.try_bulk_load(&family, rows)).await
    }

    /// Copies the current state of the store to a new directory: see [`Db::checkpoint`].
    pub async fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref().to_path_buf();
        self.run(move |db| db.checkpoint(dir)).await
    }

    /// Adds a backup of the store to a directory: see [`Db::backup`]. Use [`run`](AsyncDb::run) to pass options.
    pub async fn backup(&self, dir: impl AsRef<Path>) -> Result<CreatedBackup> {
        let dir = dir.as_ref().to_path_buf();
        self.run(move |db| db.backup(dir)).await
    }

    /// Catches up with the process that writes: see [`Db::refresh`].
    pub async fn refresh(&self) -> Result<()> {
        self.run(Db::refresh).await
    }

    /// Verifies the whole store and changes no data: see [`Db::verify`]. Use [`run`](AsyncDb::run) to pass options.
    pub async fn verify(&self) -> Result<Report> {
        self.run(|db| db.verify(VerifyOptions::default())).await
    }

    /// Verifies the whole store as [`verify`](AsyncDb::verify) does, for use in the background: see [`Db::scrub`]. Use
    /// [`run`](AsyncDb::run) to pass options, a rate limit for example. The pass occupies one of the four threads for
    /// long operations.
    pub async fn scrub(&self) -> Result<Report> {
        self.run(|db| db.scrub(ScrubOptions::default())).await
    }

    /// Reads the undamaged records of a store, even if it cannot be opened, and writes them to a new store: see
    /// [`Db::salvage`].
    pub async fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Report> {
        let (from, to) = (from.as_ref().to_path_buf(), to.as_ref().to_path_buf());
        let lanes = Lanes::new();
        let salvaged: JobResult<Result<Report>> = lanes.work.run(move || Db::salvage(from, to));
        salvaged.await
    }

    /// Repairs damage: see [`Db::repair`]. Use [`run`](AsyncDb::run) to pass options.
    pub async fn repair(&self) -> Result<Report> {
        self.run(|db| db.repair(RepairOptions::default())).await
    }

    /// Returns the count and a checksum of the records of a range: see [`Db::digest`].
    pub async fn digest(&self, cf: &AsyncColumnFamily, range: impl KeyRange) -> Result<Digest> {
        let (cf, range) = (cf.blocking().clone(), range.into_bounds());
        self.run(move |db| db.digest(&cf, range)).await
    }

    /// Returns counters and sizes.
    pub fn metrics(&self) -> Metrics {
        self.blocking().metrics()
    }

    /// Returns the recovery report of this open: see [`Db::recovery`].
    pub fn recovery(&self) -> RecoveryReport {
        self.blocking().recovery()
    }

    /// Returns true if writes fail with `ReadOnly`: see [`Db::is_read_only`].
    pub fn is_read_only(&self) -> bool {
        self.blocking().is_read_only()
    }

    /// Closes the store for every handle, stream and future: see [`Db::close`]. Once polled, the close completes even
    /// if the future is dropped.
    ///
    /// Futures that wait for durability still receive their real outcome. Without a call to `close`, dropping the last
    /// handle closes the store on another thread, so for a moment the store cannot be opened again.
    pub async fn close(&self) -> Result<()> {
        if self.blocking().inner.check_open().is_err() {
            return Ok(());
        }
        let closed = self.run(Db::close).await;
        self.shared.lanes.end();
        closed
    }
}

impl Builder {
    /// [`open`](Builder::open), for async code.
    ///
    /// ```
    /// # async fn example() -> waxseal::Result<()> {
    /// let db = waxseal::Builder::in_memory().cache_bytes(1 << 20).open_async().await?;
    /// db.column_family("default").await?.put("key", "value").await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn open_async(self) -> Result<AsyncDb> {
        open_by(move || self.open()).await
    }
}

/// Opens a store in a work lane that becomes the store's own.
async fn open_by(open: impl FnOnce() -> Result<Db> + Send + 'static) -> Result<AsyncDb> {
    let lanes = Lanes::new();
    let opening: JobResult<Result<Db>> = lanes.work.run(open);
    Ok(AsyncDb { shared: Arc::new(AsyncShared { db: Some(opening.await?), lanes }) })
}

impl fmt::Debug for AsyncDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncDb").field("read_only", &self.is_read_only()).finish_non_exhaustive()
    }
}
