//! The async face: the same store, for tasks that must not wait.
//!
//! ```text
//! read      from memory, in the task itself; what takes a file goes to a lane
//! write     encoded in the task; committed there too, if nothing has to be waited for, else in a lane; a synced one then joins a group
//! range     pages, read in a lane when the page before is used up
//! the rest  in a lane
//! ```
//!
//! Lanes (`lane.rs`) are threads of the store's own: it works under any runtime, on any thread of it, and outlives it. `group.rs` lets
//! all who wait for durability share fdatasyncs; `batch.rs` commits, `reads.rs` and `rows.rs` read, for the handles beside them.
//!
//! Holds: no call blocks the thread that polls it, short locks aside. A future that was polled and is dropped loses its answer and
//! nothing else. Whatever the last handle is dropped by does not wait for the store to close.

mod batch;
mod family;
mod group;
mod lane;
mod reads;
mod rows;
mod session;
mod snapshot;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::task::coop::consume_budget;
use waxseal_lsm::db::{Metrics, RecoveryReport};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::CfOptions;
use waxseal_registry::Session as Who;

use crate::builder::Builder;
use crate::care::{Digest, RepairOptions, Report, VerifyOptions};
use crate::db::Db;
use crate::range::KeyRange;
use crate::registry::Identity;

use group::Group;
use lane::{Lane, Told};

pub use batch::AsyncBatch;
pub use family::AsyncColumnFamily;
pub use rows::{KeyStream, RangeStream};
pub use session::AsyncSession;
pub use snapshot::AsyncSnapshot;

/// Threads that read files for tasks, at most.
const READERS: usize = 16;

/// Threads for commits that have to wait. They wait for the same: more would only stand in line.
const WRITERS: usize = 2;

/// Threads for what takes long: flushes, verification, whatever `run` is given.
const WORKERS: usize = 4;

/// A store for async code: [`Db`], with calls that do not block. Clones share it, and may be used from any task, thread and runtime.
///
/// - **Reads** are answered at once where memtables and cached blocks hold the answer; others are read on threads of the store's own.
/// - **Writes** are encoded and, as a rule, committed in the task; whatever would have to wait is done on those threads. A write that asks
///   for [`Durability::Sync`](crate::Durability::Sync) resolves when its group is durable: any number of tasks that wait share the fdatasyncs, and no thread is parked for them.
/// - **Ranges** are [`Stream`](futures_core::Stream)s ([`RangeStream`]).
/// - Anything else of the synchronous face is reached by [`run`](AsyncDb::run).
///
/// It asks for no runtime: tokio's or another's polls it, and the store goes on when that is gone. Its threads (at most 16 that read, 2 that
/// write, 4 for long work and one that syncs) are started when they are needed and end when they are idle.
///
/// # Dropping a future
///
/// A future does nothing before it is polled. If it is dropped later it loses its answer and nothing else: what a lane of the store was given is
/// done to its end. So a write that was polled and dropped happens whole or not at all, and if it happened it was in its place in the
/// order of commits; a synced one becomes durable with its group all the same. The store and every other future go on.
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
/// batch.commit(Durability::Sync).await?; // durable, with whoever else waits
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
    shared: Arc<Shared>,
}

/// What all async handles of one store share. Each holds it behind what it holds of the store, so that this goes last.
struct Shared {
    /// Taken out when the last handle goes.
    db: Option<Db>,
    lanes: Lanes,
}

struct Lanes {
    read: Lane,
    write: Lane,
    work: Lane,
    group: Group,
}

impl Lanes {
    fn new() -> Lanes {
        Lanes {
            read: Lane::new("waxseal-read", READERS),
            write: Lane::new("waxseal-write", WRITERS),
            work: Lane::new("waxseal-work", WORKERS),
            group: Group::new(),
        }
    }

    /// Lets the threads of a closed store end.
    fn end(&self) {
        [&self.read, &self.write, &self.work].into_iter().for_each(Lane::end);
    }
}

impl Shared {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("taken out by `drop` alone")
    }

    /// Does something with the store that may take long.
    async fn work<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> Result<T> + Send + 'static) -> Result<T> {
        let db = self.checked()?.clone();
        self.lanes.work.run(move || work(&db)).await
    }

    /// The store, if it is open and this process is the one that opened it: in a forked child nobody would do the work of a lane.
    fn checked(&self) -> Result<&Db> {
        let db = self.db();
        db.inner.check_open()?;
        db.inner.engine.check_open()?;
        Ok(db)
    }
}

impl Drop for Shared {
    /// The last handle may go anywhere, also in a task: another thread closes the store.
    fn drop(&mut self) {
        if self.checked().is_ok()
            && let Some(db) = self.db.take()
        {
            drop(self.lanes.work.run(move || drop(db)));
        }
    }
}

impl AsyncDb {
    /// Opens the store in a directory, or makes one there: see [`Db::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<AsyncDb> {
        Db::builder(path).open_async().await
    }

    /// Opens a store for reading, also beside a process that writes: see [`Db::open_read_only`].
    pub async fn open_read_only(path: impl AsRef<Path>) -> Result<AsyncDb> {
        let builder = Db::builder(path);
        open_by(move || builder.open_read_only()).await
    }

    /// A new store in memory. It goes with its last handle.
    pub async fn memory() -> Result<AsyncDb> {
        Builder::in_memory().open_async().await
    }

    /// The async face of a store that is open. Both may be used beside each other.
    pub fn new(db: Db) -> AsyncDb {
        AsyncDb { shared: Arc::new(Shared { db: Some(db), lanes: Lanes::new() }) }
    }

    /// The synchronous face of the same store. Its calls may block.
    pub fn blocking(&self) -> &Db {
        self.shared.db()
    }

    /// Does anything with the synchronous face, on a thread of the store's own.
    ///
    /// Up to four of them run at once. A panic of `work` goes on in the task that waits for it.
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

    /// The column family of this name, made if there is none: see [`Db::column_family`].
    pub async fn column_family(&self, name: &str) -> Result<AsyncColumnFamily> {
        family::open(&self.shared, name, &Who::ANONYMOUS).await
    }

    /// Makes a column family with options of its own: see [`Db::create_column_family`].
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

    /// All column families that users made: see [`Db::column_families`].
    pub fn column_families(&self) -> Vec<AsyncColumnFamily> {
        let families = self.blocking().column_families().into_iter();
        families.map(|cf| AsyncColumnFamily::new(cf, &self.shared)).collect()
    }

    /// An empty batch: writes to any column families that commit together.
    pub fn batch(&self) -> AsyncBatch {
        AsyncBatch::new(self.blocking().batch(), &self.shared)
    }

    /// The store as it is now: see [`Db::snapshot`].
    pub fn snapshot(&self) -> AsyncSnapshot {
        AsyncSnapshot::new(self.blocking().snapshot(), &self.shared)
    }

    /// The store as a crash of the machine would leave it at this moment: see [`Db::durable_snapshot`].
    pub fn durable_snapshot(&self) -> AsyncSnapshot {
        AsyncSnapshot::new(self.blocking().durable_snapshot(), &self.shared)
    }

    /// The store, as somebody uses it: see [`Db::session`].
    pub async fn session(&self, identity: impl Into<Identity>) -> Result<AsyncSession> {
        let identity = identity.into();
        let session = self.shared.work(move |db| db.session(identity)).await?;
        Ok(AsyncSession::new(session, &self.shared))
    }

    /// The store as nobody in particular uses it, with the calls of a session: see [`Db::nobody`].
    pub fn nobody(&self) -> AsyncSession {
        AsyncSession::new(self.blocking().nobody(), &self.shared)
    }

    /// Makes every acknowledged commit durable, with whoever else waits for that: see [`Db::sync`].
    pub async fn sync(&self) -> Result<()> {
        consume_budget().await;
        let db = self.shared.checked()?;
        db.inner.check_writable()?;
        self.shared.lanes.group.synced(&db.inner.engine).await
    }

    /// Writes all memtables to tables: see [`Db::flush`].
    pub async fn flush(&self) -> Result<()> {
        self.run(Db::flush).await
    }

    /// Flushes, compacts, and gives back what space it can: see [`Db::settle`].
    pub async fn settle(&self) -> Result<()> {
        self.run(Db::settle).await
    }

    /// A copy of the store as it is now in a new directory: see [`Db::checkpoint`].
    pub async fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref().to_path_buf();
        self.run(move |db| db.checkpoint(dir)).await
    }

    /// Catches up with the process that writes: see [`Db::refresh`].
    pub async fn refresh(&self) -> Result<()> {
        self.run(Db::refresh).await
    }

    /// Looks at everything, and changes no data: see [`Db::verify`]; with options by [`run`](AsyncDb::run).
    pub async fn verify(&self) -> Result<Report> {
        self.run(|db| db.verify(VerifyOptions::default())).await
    }

    /// Mends what is damaged: see [`Db::repair`]; with options by [`run`](AsyncDb::run).
    pub async fn repair(&self) -> Result<Report> {
        self.run(|db| db.repair(RepairOptions::default())).await
    }

    /// A count and a sum of the records of a range: see [`Db::digest`].
    pub async fn digest(&self, cf: &AsyncColumnFamily, range: impl KeyRange) -> Result<Digest> {
        let (cf, range) = (cf.blocking().clone(), range.into_bounds());
        self.run(move |db| db.digest(&cf, range)).await
    }

    /// Counters and sizes.
    pub fn metrics(&self) -> Metrics {
        self.blocking().metrics()
    }

    /// What the open of this store found in its log.
    pub fn recovery(&self) -> RecoveryReport {
        self.blocking().recovery()
    }

    /// True if writes answer `ReadOnly`, as [`Db::is_read_only`] says.
    pub fn is_read_only(&self) -> bool {
        self.blocking().is_read_only()
    }

    /// Closes the store for every handle, stream and future: see [`Db::close`]. Once polled it goes on to its end, even if it is dropped.
    ///
    /// Futures that wait for durability still hear the truth. Without it the last handle to go closes the store on another thread, so that
    /// for a moment it cannot be opened anew.
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

/// Opens a store on the thread that will do its long work.
async fn open_by(open: impl FnOnce() -> Result<Db> + Send + 'static) -> Result<AsyncDb> {
    let lanes = Lanes::new();
    let opening: Told<Result<Db>> = lanes.work.run(open);
    Ok(AsyncDb { shared: Arc::new(Shared { db: Some(opening.await?), lanes }) })
}

impl fmt::Debug for AsyncDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncDb").field("read_only", &self.is_read_only()).finish_non_exhaustive()
    }
}
