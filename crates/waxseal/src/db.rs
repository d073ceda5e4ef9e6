//! The store handle: open, column families, snapshots, maintenance, close.
//!
//! `Db` and every object made from it share one `Inner`. Cursors and iterators hold their own view of the files, so
//! `Inner` has a flag that tells them when the store was closed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::batch::Batch as Operations;
use waxseal_lsm::db::{self as engine, At, Family, FamilyMetrics, Metrics, Precondition, RecoveryReport};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::names::is_system_name;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::read::{CursorBounds, UserCursor};
use waxseal_lsm::record::Record;
use waxseal_meta::{SealCounts, Sealer};
use waxseal_registry::{Session as Who, StampVerb, is_watched};

use crate::attach::Watching;
use crate::batch::Batch;
use crate::builder::Builder;
use crate::family::ColumnFamily;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::snapshot::Snapshot;
use crate::verify::Policies;

/// State shared by all handles of one store.
pub(crate) struct Inner {
    pub(crate) engine: engine::Db,
    /// The environment that the store was opened with.
    pub(crate) env: Env,
    /// Options for families that are created by name alone.
    pub(crate) template: CfOptions,
    /// The record protector that makes and checks seals, shared with the engine. `None` in a store that was opened
    /// plain.
    protector: Option<Arc<Sealer>>,
    pub(crate) watching: Watching,
    policies: Policies,
    closed: AtomicBool,
}

impl Inner {
    pub(crate) fn new(
        engine: engine::Db,
        env: Env,
        protector: Option<Arc<Sealer>>,
        watching: Watching,
        template: CfOptions,
        policies: Policies,
    ) -> Inner {
        let inner = Inner { engine, env, template, protector, watching, policies, closed: AtomicBool::new(false) };
        inner.engine.families().iter().for_each(|family| inner.note(family));
        inner
    }

    /// Tells the record protector the family's block size, which limits the size of a record's metadata entries.
    fn note(&self, family: &Family) {
        if let Some(protector) = &self.protector {
            protector.set_block_bytes(family.id(), family.options().block_bytes);
        }
    }

    /// Returns the record protector. Fails with `Invalid` if the store was opened plain.
    pub(crate) fn protector(&self) -> Result<&Arc<Sealer>> {
        self.protector.as_ref().ok_or_else(|| Error::invalid("the store was opened plain: it keeps no seals"))
    }

    /// Fails with `Closed` once the store was closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Fails with `Closed`, or with `Invalid` if the family was dropped. Without this check, writes to a dropped family
    /// would vanish, and reads would show an empty family.
    #[inline]
    pub(crate) fn check(&self, family: &Family) -> Result<()> {
        self.check_open()?;
        if family.is_dropped() { Err(dropped(family)) } else { Ok(()) }
    }

    /// Fails with `Closed` or `ReadOnly` if the store cannot be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.engine.is_read_only() {
            return Err(Error::of(ErrorKind::ReadOnly, "the store is open for reading only"));
        }
        Ok(())
    }

    /// Commits a caller's writes. `epoch` is the configuration epoch that was read before the operations were encoded.
    /// `verbs` names the writes in order, where the name does not follow from the operation.
    #[inline]
    pub(crate) fn commit(
        &self,
        operations: &mut Operations,
        durability: Durability,
        epoch: u64,
        who: &Who,
        verbs: &[StampVerb],
    ) -> Result<()> {
        if !is_watched(epoch) && self.engine.commit_if(operations, durability, Precondition::epoch(epoch))?.is_some() {
            return Ok(()); // nothing was registered before, and nothing is now
        }
        self.commit_watched(operations, durability, who, verbs)
    }

    #[cold]
    fn commit_watched(
        &self,
        operations: &mut Operations,
        durability: Durability,
        who: &Who,
        verbs: &[StampVerb],
    ) -> Result<()> {
        match &self.watching {
            Watching::Registrar(registrar) => registrar.commit(operations, durability, Some(who), verbs).map(drop),
            Watching::Nobody => self.engine.commit(operations, durability).map(drop),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }

    /// Returns the family with this name, as a handle that writes in the session's name. Creates the family if it does
    /// not exist.
    pub(crate) fn column_family(self: &Arc<Inner>, name: &str, who: &Who) -> Result<ColumnFamily> {
        self.check_open()?;
        if let Some(family) = self.engine.family(name) {
            return Ok(self.wrap(family, who));
        }
        if self.engine.is_read_only() {
            return Err(Error::invalid(format!("no column family {name:?}, and the store is open for reading only")));
        }
        match self.create_family(name, self.template.clone()) {
            Ok(family) => Ok(self.wrap(family, who)),
            // Another thread may have created it since the lookup.
            Err(error) => self.engine.family(name).map(|family| self.wrap(family, who)).ok_or(error),
        }
    }

    /// Creates a family with its own options.
    pub(crate) fn create_column_family(
        self: &Arc<Inner>,
        name: &str,
        options: CfOptions,
        who: &Who,
    ) -> Result<ColumnFamily> {
        self.check_open()?;
        let family = self.create_family(name, options)?;
        self.policies.note_explicit(name);
        Ok(self.wrap(family, who))
    }

    fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        refuse_system(name)?;
        let family = match &self.watching {
            Watching::Registrar(registrar) => registrar.create_family(name, options),
            Watching::Nobody => self.engine.create_family(name, options),
            Watching::Unknown(error) => Err(error.clone()),
        }?;
        self.note(&family);
        Ok(family)
    }

    pub(crate) fn drop_column_family(&self, name: &str, who: &Who) -> Result<()> {
        self.check_open()?;
        refuse_system(name)?;
        match &self.watching {
            Watching::Registrar(registrar) => registrar.drop_family(name, Some(who)),
            Watching::Nobody => self.engine.drop_family(name),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }

    fn wrap(self: &Arc<Inner>, family: Family, who: &Who) -> ColumnFamily {
        let policy = self.policies.of(family.name());
        ColumnFamily { inner: Arc::clone(self), family, policy, who: who.clone() }
    }

    /// Passes the record to `visit` if the key exists.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        at: At<'_>,
        visit: impl FnOnce(&Record<'_>) -> R,
    ) -> Result<Option<R>> {
        self.check(&cf.family)?;
        let mut visit = Some(visit);
        let mut answer = None;
        self.engine.get_checked(&cf.family, key, at, cf.point_reading(), &mut |record| {
            if let Some(visit) = visit.take() {
                answer = Some(visit(record));
            }
        })?;
        Ok(answer)
    }

    /// Returns true if a key has a value. A value in a blob file is not read.
    pub(crate) fn holds(&self, cf: &ColumnFamily, key: &[u8], at: At<'_>) -> Result<bool> {
        self.check(&cf.family)?;
        self.engine.get_record(&cf.family, key, at, cf.point_reading(), &mut |_| {})
    }

    /// `read` without file access: returns `None` if the lookup would have to read a file.
    pub(crate) fn read_resident<R>(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        at: At<'_>,
        visit: impl FnOnce(&Record<'_>) -> R,
    ) -> Result<Option<Option<R>>> {
        self.check(&cf.family)?;
        let mut visit = Some(visit);
        let mut answer = None;
        let found = self.engine.get_resident(&cf.family, key, at, cf.point_reading().verify, &mut |record| {
            if let Some(visit) = visit.take() {
                answer = Some(visit(record));
            }
        })?;
        Ok(found.map(|_| answer))
    }

    /// Opens an engine cursor.
    pub(crate) fn scan(&self, cf: &ColumnFamily, at: At<'_>, bounds: CursorBounds) -> Result<UserCursor> {
        self.check(&cf.family)?;
        self.engine.cursor_checked(&cf.family, at, bounds, cf.scan_reading())
    }

    /// Returns the value of a key with its seal. The seal is verified under every policy.
    pub(crate) fn read_sealed(&self, cf: &ColumnFamily, key: &[u8], at: At<'_>) -> Result<Option<Sealed>> {
        let protector = self.protector()?;
        let found = self.read(cf, key, at, |record| Sealed::of(record, protector))?.transpose();
        found.map_err(|error| error.in_family(cf.name(), Some((key, key))))
    }

    /// `read_many` without file access: returns `None` if a lookup would have to read a file.
    #[cfg(feature = "tokio")]
    pub(crate) fn read_many_resident(
        &self,
        cf: &ColumnFamily,
        at: At<'_>,
        keys: &[&[u8]],
    ) -> Result<Option<Vec<Option<Slice>>>> {
        self.check(&cf.family)?;
        let mut values = vec![None; keys.len()];
        let mut take = |index: usize, record: &Record<'_>| values[index] = Some(Slice::from(record.value));
        let found = self.engine.multi_get_resident(&cf.family, keys, at, cf.point_reading().verify, &mut take)?;
        Ok(found.then_some(values))
    }

    /// Returns the values of many keys, all read at the same sequence number.
    pub(crate) fn read_many<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        at: At<'_>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        self.check(&cf.family)?;
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let mut values = vec![None; keys.len()];
        let mut take = |index: usize, record: &Record<'_>| values[index] = Some(Slice::from(record.value));
        self.engine.multi_get_checked(&cf.family, &keys, at, cf.point_reading(), &mut take)?;
        Ok(values)
    }
}

/// Fails with `Invalid` for a name that is reserved for the store's own families.
pub(crate) fn refuse_system(name: &str) -> Result<()> {
    if !is_system_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name:?}: families of this name are the store's own, to be read and not to be changed"
    )))
}

impl Inner {
    /// Runs before the engine closes: writes the queued events and stops the registrar's writer. A forked child skips
    /// this, because the writer thread does not exist there and the child owns no data to write.
    fn end_events(&self) -> Result<()> {
        match self.watching.registrar() {
            Ok(registrar) if self.engine.snapshot().is_ok() => registrar.close(),
            _ => Ok(()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.end_events();
    }
}

#[cold]
fn dropped(family: &Family) -> Error {
    Error::invalid(format!("the column family {:?} was dropped", family.name()))
}

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
    /// Opens the store in a directory, or creates one there. Only one process at a time may write: otherwise the error
    /// `Locked` names the holder.
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Opens a store for reading. Takes no lock and writes nothing, so another process may write at the same time. The
    /// handle shows the store as of the open, until [`Db::refresh`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open_read_only()
    }

    /// Creates a new store in memory. It is discarded with its last handle.
    pub fn memory() -> Result<Db> {
        Builder::in_memory().open()
    }

    /// Returns the kind of content that a directory holds: a store, a damaged store, other files of this engine,
    /// another engine's database, other files, or nothing.
    ///
    /// Judges by file names and the first bytes of files; opens, locks and changes nothing. A directory that does not
    /// exist counts as empty. Errors: `Io`.
    pub fn contents(path: impl AsRef<Path>) -> Result<crate::Contents> {
        waxseal_lsm::version::contents(&Env::real(), path.as_ref())
    }

    /// Removes the files of a store, and its directory if that is empty afterwards. Refuses a directory without a
    /// store, and a store that is open. Files that the engine did not write stay, whatever their names.
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

    /// Returns a [`Builder`] with the settings for a store; [`Builder::open`] opens it.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Returns the column family with this name. If it does not exist, creates it with the builder's block size and
    /// compression.
    ///
    /// `default` always exists. Errors: `Invalid` for an [invalid name](Db::create_column_family), and for an unknown
    /// name in a store opened for reading.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.column_family(name, &Who::ANONYMOUS)
    }

    /// Creates a column family with its own options, including the key order.
    ///
    /// Errors: `Invalid` if the name exists or is not valid. A name has 1 to 255 bytes, contains no zero byte, and does
    /// not begin with the prefix of the store's own families.
    pub fn create_column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        self.inner.create_column_family(name, options, &Who::ANONYMOUS)
    }

    /// Drops a column family with all its records. Calls on its handles then return `Invalid`. `default` cannot be
    /// dropped.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, &Who::ANONYMOUS)
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

    /// Returns a snapshot of the store's current state. The versions that it sees are retained until it is dropped.
    ///
    /// If the store is closed, reads of the snapshot return the error.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner, self.inner.check_open().and_then(|()| self.inner.engine.snapshot()))
    }

    /// Returns a snapshot at the last commit known to be durable: the state that a crash of the machine would leave
    /// now.
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
    /// None if there is no family of this name.
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

    /// What was done with seals since the store was opened: made, given, adopted, found damaged. None if it was opened
    /// plain.
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

    /// Returns true if writes fail with `ReadOnly`: the store was opened for reading, recovery lacked space, or an
    /// error handler made it read-only.
    pub fn is_read_only(&self) -> bool {
        self.inner.engine.is_read_only()
    }

    /// Closes the store for every handle, snapshot, cursor and iterator: their calls return `Closed` from now on. Waits
    /// for running commits. If it returns without an error, every acknowledged commit is durable. A second call returns
    /// `Ok` and does not wait for the first.
    ///
    /// Releases the store's threads, descriptors, mappings, memtables and cached blocks (blocks of a shared cache
    /// stay), even while handles exist. A running call, a [`Slice`] and an Arrow batch keep the memory that they use.
    /// An open cursor keeps its memtables and the indexes of its tables until it is moved or dropped. Dropping the last
    /// handle closes too, but cannot report an error.
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
        if self.inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let written = self.inner.end_events();
        self.inner.engine.close().and(written)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("read_only", &self.is_read_only()).finish_non_exhaustive()
    }
}
