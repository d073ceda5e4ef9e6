//! The store handle: column families, snapshots, maintenance, close. `builder` has the ways to open a store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{self as engine, BackgroundPause, FamilyMetrics, Metrics, OldestSeqnos, RecoveryReport};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::Result;
use waxseal_lsm::format_level::FormatLevel;
use waxseal_lsm::names::is_system_name;
use waxseal_lsm::options::{CfOptions, Settings};
use waxseal_meta::SealCounts;
use waxseal_registry::{Session as Who, is_watched};

use crate::attach::Watching;
use crate::batch::Batch;
use crate::inner::{ColumnFamily, Inner};
use crate::snapshot::Snapshot;

/// An open store. Clones share it and may be used from any thread.
///
/// By default ([`Durability::Os`](crate::Durability::Os), the default of other engines as well), an acknowledged commit
/// survives a crash of the process, but a crash of the machine may lose the latest commits. Each write may ask for
/// [`Durability::Sync`](crate::Durability::Sync), and [`Db::sync`] makes all acknowledged commits durable.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// use waxseal::Db;
///
/// let db = Db::memory()?;
/// let cf = db.column_family("default")?;
/// cf.put("key", "value")?;
/// assert_eq!(cf.get("key")?.unwrap(), "value");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<Inner>,
}

impl Db {
    /// Returns the kind of content that a directory holds: a store, a damaged store, other files of this engine,
    /// another engine's database, other files, or nothing.
    ///
    /// Judges by file names and the first bytes of files; opens, locks and changes nothing. A directory that does not
    /// exist counts as empty. Errors: `Io`.
    pub fn contents(path: impl AsRef<Path>) -> Result<crate::Contents> {
        waxseal_lsm::version::contents(&Env::real(), path.as_ref())
    }

    /// Removes the files of a store, and its directory if that is empty afterwards. Refuses a directory without a
    /// store, and a store that is open. Files that the engine did not write stay, whatever their names. Errors:
    /// `Invalid`; `Locked`; `Io` if a file cannot be read or removed.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # use waxseal::Db;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("store");
    /// assert!(Db::destroy(&path).is_err()); // no store
    /// Db::open(&path)?.close()?;
    /// Db::destroy(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        engine::Db::destroy(path.as_ref(), &Env::real())
    }

    /// Returns the column family with this name. If it does not exist, creates it with the builder's block size and
    /// compression.
    ///
    /// `default` always exists. Errors: `Invalid` for a name that [no family can have](Db::create_column_family), and for
    /// an unknown name in a store opened for reading.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.column_family(name, &Who::ANONYMOUS)
    }

    /// Returns the column family with this name; `None` if it does not exist. Creates nothing, also beside a thread that
    /// drops the family. The store's own families are found too.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// assert!(db.find_column_family("users")?.is_none());
    /// db.column_family("users")?.put("john", "33")?;
    /// let users = db.find_column_family("users")?.unwrap();
    /// assert_eq!(users.get("john")?.unwrap(), "33");
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_column_family(&self, name: &str) -> Result<Option<ColumnFamily>> {
        self.inner.find_column_family(name, &Who::ANONYMOUS)
    }

    /// Creates a column family with its own options, including the key order.
    ///
    /// Errors: `Invalid` if the name exists or is not valid. A name has 1 to 255 bytes, contains no zero byte, and does
    /// not begin with the prefix of the store's own families. While the tables of the store are open, it is not the name
    /// of a keyspace either.
    pub fn create_column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        self.inner.create_column_family(name, options, &Who::ANONYMOUS)
    }

    /// Drops a column family with all its records. Calls on its handles then return `Invalid`, also at snapshots that were
    /// taken before; cursors that exist go on. `default` cannot be dropped.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, false, &Who::ANONYMOUS)
    }

    /// [`drop_column_family`](Db::drop_column_family) for a family of a layer that describes its operations
    /// ([`Batch::describe`]): registrations of the whole store do not log it, those of the family do.
    pub fn drop_described_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, true, &Who::ANONYMOUS)
    }

    /// Returns the options of the store as of now. [`Settings::list`] gives names and values for a report.
    pub fn options(&self) -> Arc<Settings> {
        self.inner.engine.settings()
    }

    /// Changes options of the store while it is open: `background_bytes_per_second`, `cache_bytes`, `chronicle_lines`,
    /// `durability`, `engine_events`, `engine_event_age`, `manifest_bytes`, `subcompactions` and `trash_bytes`. Options of
    /// a family are changed by [`ColumnFamily::set_options`].
    ///
    /// These options are not recorded in the store: the next open passes its own. A smaller cache evicts blocks before the
    /// call returns.
    ///
    /// Errors: `Invalid`, and nothing changes, if an option is not valid, if another one differs from
    /// [`options`](Db::options), or if `cache_bytes` differs and the store has a cache that others may share.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::{MIB, Settings};
    ///
    /// db.set_options(Settings { background_bytes_per_second: 20 << 20, ..(*db.options()).clone() })?;
    /// assert_eq!(db.options().background_bytes_per_second, 20 * MIB as u64);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_options(&self, options: Settings) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.set_settings(options)
    }

    /// Changes options as [`set_options`](Db::set_options) does, from the present ones, which no other call changes in
    /// between. `change` must not call the store.
    pub fn update_options(&self, mut change: impl FnMut(&mut Settings) -> Result<()>) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.update_settings(&mut change)
    }

    /// Returns all column families of the user, including `default`.
    ///
    /// The store's own families (`system_metadata.registry`, `system_metadata.log`, `system_metadata.quarantine`,
    /// `system_metadata.schema`, `system_metadata.sessions`) are not included. They can be opened by name and read like
    /// any other; calls that would change them return `Invalid`.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        let mut families = self.inner.engine.families();
        families.retain(|family| !is_system_name(family.name()));
        families.into_iter().map(|family| self.inner.wrap(family, &Who::ANONYMOUS)).collect()
    }

    /// Returns an empty batch: writes to any column families that commit together.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.inner, &Who::ANONYMOUS)
    }

    /// Removes all keys of several families in one atomic step: see
    /// [`ColumnFamily::delete_range`](crate::ColumnFamily::delete_range). The durability is the store's.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// let (names, ages) = (db.column_family("names")?, db.column_family("ages")?);
    /// names.put("1", "Ada")?;
    /// ages.put("1", "36")?;
    /// db.clear([&names, &ages])?;
    /// assert_eq!(names.iter().count() + ages.iter().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear<'a>(&self, families: impl IntoIterator<Item = &'a ColumnFamily>) -> Result<()> {
        let mut batch = self.batch();
        for family in families {
            batch.delete_range(family, ..);
        }
        batch.commit(batch.durability())
    }

    /// Returns a snapshot of the store's current state. The versions that it sees are retained until it is dropped.
    ///
    /// If the store is closed, reads of the snapshot return the error.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner, self.inner.check_open().and_then(|()| self.inner.engine.snapshot()))
    }

    /// Returns a snapshot at the last commit known to be durable: the state that a crash of the machine would leave
    /// now. If range deletes were written since the last sync, the call may sync the log first; if that fails, reads of
    /// the snapshot return the error.
    pub fn durable_snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner, self.inner.check_open().and_then(|()| self.inner.engine.durable_snapshot()))
    }

    /// Makes every acknowledged commit durable: once this returns, none of them can be lost.
    pub fn sync(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.sync()
    }

    /// Flushes all memtables to tables and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.flush()
    }

    /// Flushes, then compacts until little space is left to reclaim, and removes the log's spare segments. Intended for
    /// the end of a bulk load.
    ///
    /// Compaction stops when none is due and two limits hold. The levels above the lowest hold at most `1/(fanout-2)`
    /// of the lowest level's bytes (by default an eighth), since all their records may be newer versions of its
    /// records. Garbage in blob files is at most an eighth of their live bytes. As soon as other threads write again,
    /// only the compactions that are due continue.
    pub fn settle(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.settle()
    }

    /// Returns how far back the records reach that the store holds outside of its current tables and blob files: the
    /// least seqno by kind of holder ([`OldestSeqnos`]). With it a caller shows that data that it has removed from all
    /// tables is in no file of the store any more. Any thread may call it. Costs a listing of the directory. If the
    /// [change feed](Db::changes_since) keeps log, also costs a read of one frame, and the opening of each log segment
    /// that it keeps since the last [`Db::erase_log`].
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("waxseal-doc-oldest-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # let db = waxseal::Db::open(&path)?;
    /// # let users = db.column_family("users")?;
    /// users.put("alice", "secret")?;
    /// users.delete("alice")?;
    /// let removed = db.snapshot().seqno()?;
    /// users.compact()?; // removes the value from the tables
    /// assert!(db.oldest_seqnos()?.oldest() < Some(removed)); // but the log has it
    /// db.erase_log()?;
    /// assert!(db.oldest_seqnos()?.oldest().is_none_or(|oldest| oldest > removed));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Errors: `ReadOnly` for a store that was opened read-only; `Halted`; `Corruption` of a log segment that the change
    /// feed keeps; `Io`; `Closed`.
    pub fn oldest_seqnos(&self) -> Result<OldestSeqnos> {
        self.inner.check_open()?;
        self.inner.engine.oldest_seqnos()
    }

    /// Flushes all memtables and erases old records from the files of the log: continues the log in a fresh file,
    /// removes the files that it keeps for future writes, and overwrites the old frames in the tail ring. The
    /// manifest is written anew, without the first and last keys of old tables. What
    /// the change feed keeps stays, and so do replaced tables that `trash_bytes` keeps; [`Db::oldest_seqnos`] returns
    /// how far back these reach.
    ///
    /// All commits before the call are durable when it returns, and erased records do not come back after a loss of
    /// power. Other threads may write meanwhile; a segment that they still need is erased by a later call. Costs a flush
    /// and about eight fsyncs. Errors: those of [`Db::flush`].
    pub fn erase_log(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.erase_log()
    }

    /// Pauses background work until the returned value is dropped: no flush and no compaction starts by itself. For a
    /// copy of the directory by other means, or a phase in which the device belongs to something else.
    ///
    /// Returns once the running jobs have ended; a call from a listener, or while writers wait for jobs, returns at once.
    /// Writers stay bounded: while memtables or the log are so full that writers are slowed down, flushes run, and while
    /// writers are stopped, compactions run too. Explicit calls such as [`flush`](Db::flush) and [`settle`](Db::settle)
    /// do their work. Pauses may overlap; the last one to end resumes the work. Closing the store ends all of them.
    /// Errors: `Closed`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// let pause = db.pause_background()?;
    /// db.column_family("default")?.put("key", "value")?; // writes go on
    /// drop(pause);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_background(&self) -> Result<BackgroundPause> {
        self.inner.check_open()?;
        self.inner.engine.pause_background()
    }

    /// Returns true if anything is registered: then the store logs operations. Costs one load.
    pub fn is_watched(&self) -> bool {
        is_watched(self.inner.engine.epoch())
    }

    /// Returns the format level of the store: see [`upgrade`](Db::upgrade). Of a read-only store as of the last
    /// [`refresh`](Db::refresh).
    pub fn format_level(&self) -> u32 {
        self.inner.engine.format_level().number()
    }

    /// Raises the format level of the store, for good: what its files may hold. Versions of this library that do not know
    /// the level refuse to open the store from then on.
    ///
    /// | level | adds |
    /// |---|---|
    /// | 1 | |
    /// | 2 | range deletes, merge operators, ingested table files, the change feed |
    ///
    /// A store is created with the newest level, or with [`Builder::format_level`](crate::Builder::format_level). Opening it
    /// with a newer version changes nothing; a call that needs a higher level fails with `Invalid` and names it. If the
    /// store has the level or a higher one, the call does nothing. Durable when it returns; costs two fsyncs. Copies,
    /// backups and restored stores have the level of their source. Thread-safe. Errors: `Invalid` for an unknown level;
    /// `ReadOnly`, `Io`, `Closed`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// assert_eq!(db.format_level(), 2);
    /// db.upgrade(2)?; // nothing to do
    /// assert!(db.upgrade(3).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade(&self, level: u32) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.upgrade(FormatLevel::new(level)?)
    }

    /// Copies the current state of the store into a new directory. After a crash the copy is complete or absent.
    ///
    /// Tables are hard-linked where the file system supports it, so the call is cheap; the copy is an independent
    /// store. Errors: `Invalid` if the directory is not empty, `Locked` while another checkpoint is written there,
    /// `Io`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # use waxseal::Db;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    /// let db = Db::open(&path)?;
    /// db.column_family("default")?.put("key", "before")?;
    /// db.checkpoint(&copy)?;
    /// db.column_family("default")?.put("key", "after")?;
    /// assert_eq!(Db::open_read_only(&copy)?.column_family("default")?.get("key")?.unwrap(), "before");
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.checkpoint(dir.as_ref())
    }

    /// Catches up with the process that writes, including its registrations. Only for stores opened with
    /// [`Db::open_read_only`]; on other stores it does nothing.
    ///
    /// Errors: those of reads; `Corruption` if the registrations cannot be read, or could not be read when the store
    /// was opened. The rest of the store has caught up in that case, too.
    pub fn refresh(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.refresh()?;
        match &self.inner.watching {
            Watching::Registrar(registrar) if self.is_read_only() => registrar.refresh(),
            Watching::Unknown(error) if self.is_read_only() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Runs one step of background work, for stores opened with [`Mode::Stepped`](crate::env::Mode::Stepped). Returns
    /// false if no work is due.
    pub fn step(&self) -> Result<bool> {
        self.inner.check_open()?;
        self.inner.engine.step()
    }

    /// Returns counters and sizes; `Display` formats them as text.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// println!("{}", db.metrics());
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.inner.engine.metrics()
    }

    /// The counters and sizes of one column family, one of the store's own too; `metrics` looks at the tables of all.
    /// Returns `None` if no family has this name.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// db.column_family("users")?.put("john", "33")?;
    /// assert!(db.family_metrics("users").unwrap().memtable_bytes > 0);
    /// assert!(db.family_metrics("others").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn family_metrics(&self, name: &str) -> Option<FamilyMetrics> {
        self.inner.engine.family_metrics(name)
    }

    /// Returns the counts of seals since the store was opened: made, given, adopted, found damaged. Returns `None` for
    /// a plain store.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// db.column_family("default")?.put("key", "value")?;
    /// assert_eq!(db.seals().unwrap().computed, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seals(&self) -> Option<SealCounts> {
        self.inner.protector.as_ref().map(|protector| protector.counts())
    }

    /// Returns the recovery report of this open: the commits recovered from the log, and the bytes cut from its torn
    /// end.
    pub fn recovery(&self) -> RecoveryReport {
        self.inner.engine.recovery()
    }

    /// Returns the environment that the store was opened with. A layer above takes its clock from it and learns whether
    /// it may start threads, so that it works in a simulation like the engine.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// assert!(db.env().clock.wall_micros() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Returns the [id](crate::care::StoreUid) of the store, which is random and stays. A checkpoint, a restored backup, a
    /// salvaged store and a follower have ids of their own. A directory that was copied file by file has the same id.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let copy = dir.path().join("copy");
    /// let db = waxseal::Db::open(dir.path().join("store"))?;
    /// db.checkpoint(&copy)?;
    /// assert_ne!(waxseal::Db::open(&copy)?.uid(), db.uid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn uid(&self) -> Uid {
        self.inner.engine.uid()
    }

    /// Returns true if writes fail with `ReadOnly`: the store was opened for reading, recovery lacked space, or an
    /// error handler made it read-only.
    pub fn is_read_only(&self) -> bool {
        self.inner.engine.is_read_only()
    }

    /// Fails if writes would fail: with `ReadOnly`, whose message has the reason and the way out, or with `Closed`.
    pub fn check_writable(&self) -> Result<()> {
        self.inner.check_writable()
    }

    /// Closes the store for every handle, snapshot, cursor and iterator: their calls return `Closed` from now on. Waits
    /// for running commits. If it returns without an error, every acknowledged commit is durable. A second call returns
    /// `Ok` and does not wait for the first.
    ///
    /// Releases the store's threads, descriptors, mappings, memtables and cached blocks (blocks of a shared cache
    /// stay), even while handles exist. A running call, a [`Slice`](crate::Slice) and an Arrow batch keep the memory
    /// that they use. An open cursor keeps its memtables and the indexes of its tables until it is moved or dropped.
    /// Dropping the last handle closes too, but cannot report an error.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # use waxseal::{Db, ErrorKind};
    /// let db = Db::memory()?;
    /// let cf = db.column_family("default")?;
    /// db.close()?;
    /// assert_eq!(cf.get("key").unwrap_err().kind(), &ErrorKind::Closed);
    /// db.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("read_only", &self.is_read_only()).finish_non_exhaustive()
    }
}
