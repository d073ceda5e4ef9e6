//! The store: open, families, snapshots, upkeep, close.
//!
//! `Db` and everything made from it share one `Inner`. Its flag says that the store was closed, so that cursors and iterators,
//! which hold their own view of the files, end with it as well.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::batch::Batch as Operations;
use waxseal_lsm::db::{self as engine, At, Family, Metrics, RecoveryReport};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::names::is_system_name;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::read::{Bounds, UserCursor};
use waxseal_lsm::record::Record;
use waxseal_meta::{Counts, Sealer};
use waxseal_registry::{Session as Who, Verb};

use crate::attach::Watching;
use crate::batch::Batch;
use crate::builder::Builder;
use crate::family::ColumnFamily;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::snapshot::Snapshot;
use crate::verify::Policies;

/// What all handles of one store share.
pub(crate) struct Inner {
    pub(crate) engine: engine::Db,
    /// The outside world it was opened with.
    pub(crate) env: Env,
    /// Options of families that are made by name alone.
    pub(crate) template: CfOptions,
    /// Who keeps the seals, the same that the engine calls; none in a store that was opened plain.
    keeper: Option<Arc<Sealer>>,
    pub(crate) watching: Watching,
    policies: Policies,
    closed: AtomicBool,
}

impl Inner {
    pub(crate) fn new(
        engine: engine::Db,
        env: Env,
        keeper: Option<Arc<Sealer>>,
        watching: Watching,
        template: CfOptions,
        policies: Policies,
    ) -> Inner {
        let inner = Inner { engine, env, template, keeper, watching, policies, closed: AtomicBool::new(false) };
        inner.engine.families().iter().for_each(|family| inner.note(family));
        inner
    }

    /// Tells the keeper of a family: what may stand beside its values goes by the size of its blocks.
    fn note(&self, family: &Family) {
        if let Some(keeper) = &self.keeper {
            keeper.set_block_bytes(family.id(), family.options().block_bytes);
        }
    }

    /// The keeper of seals; `Invalid` if the store was opened plain.
    pub(crate) fn keeper(&self) -> Result<&Arc<Sealer>> {
        self.keeper.as_ref().ok_or_else(|| Error::invalid("the store was opened plain: it keeps no seals"))
    }

    /// `Closed` once the store was closed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::closed()) } else { Ok(()) }
    }

    /// `Closed`, or `Invalid` for a family that was dropped: what is written to its handles would vanish, and what is read
    /// through them would look like an empty family.
    #[inline]
    pub(crate) fn check(&self, family: &Family) -> Result<()> {
        self.check_open()?;
        if family.is_dropped() { Err(dropped(family)) } else { Ok(()) }
    }

    /// `Closed`, or `ReadOnly`, if nothing can be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.engine.is_read_only() {
            return Err(Error::of(ErrorKind::ReadOnly, "the store is open for reading only"));
        }
        Ok(())
    }

    /// Commits what somebody wrote. `rules` was read before it was made; `verbs` says what the writes are called, in order, where that does not follow from what they are.
    #[inline]
    pub(crate) fn commit(
        &self,
        operations: &mut Operations,
        durability: Durability,
        rules: u64,
        who: &Who,
        verbs: &[Verb],
    ) -> Result<()> {
        if rules & 1 == 0 && self.engine.commit_unheard(operations, durability, rules)?.is_some() {
            return Ok(()); // nothing was registered, nor is now
        }
        self.commit_watched(operations, durability, who, verbs)
    }

    #[cold]
    fn commit_watched(
        &self,
        operations: &mut Operations,
        durability: Durability,
        who: &Who,
        verbs: &[Verb],
    ) -> Result<()> {
        match &self.watching {
            Watching::Registrar(registrar) => registrar.commit(operations, durability, Some(who), verbs).map(drop),
            Watching::Nobody => self.engine.commit(operations, durability).map(drop),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }

    /// The family of this name, made if there is none, as a handle that writes in somebody's name.
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
            // Another thread may have made it since we looked.
            Err(error) => self.engine.family(name).map(|family| self.wrap(family, who)).ok_or(error),
        }
    }

    /// A new family with options of its own.
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

    /// Lends the record to `visit` if the key is there.
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

    /// True if a key has a value, which is not read where it stands in a value file.
    pub(crate) fn holds(&self, cf: &ColumnFamily, key: &[u8], at: At<'_>) -> Result<bool> {
        self.check(&cf.family)?;
        self.engine.get_record(&cf.family, key, at, cf.point_reading(), &mut |_| {})
    }

    /// `read`, if no file has to be touched for it; none if one has.
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

    /// A cursor of the engine.
    pub(crate) fn scan(&self, cf: &ColumnFamily, at: At<'_>, bounds: Bounds) -> Result<UserCursor> {
        self.check(&cf.family)?;
        self.engine.cursor_checked(&cf.family, at, bounds, cf.scan_reading())
    }

    /// The value of a key with its seal, which is checked whatever the policy.
    pub(crate) fn read_sealed(&self, cf: &ColumnFamily, key: &[u8], at: At<'_>) -> Result<Option<Sealed>> {
        let keeper = self.keeper()?;
        let found = self.read(cf, key, at, |record| Sealed::of(record, keeper))?.transpose();
        found.map_err(|error| error.in_family(cf.name(), Some((key, key))))
    }

    /// `read_many`, if no file has to be touched for it; none if one has.
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

    /// The values of many keys at one moment.
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

/// `Invalid` for a name that is the store's own to give.
pub(crate) fn refuse_system(name: &str) -> Result<()> {
    if !is_system_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name:?}: families of this name are the store's own, to be read and not to be changed"
    )))
}

impl Inner {
    /// Before the engine goes: events that wait are written, and nobody writes any more. In a forked child the thread that writes them
    /// does not exist, and nothing is its own to write.
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

/// An open store. Clones share it, and may be used from any thread.
///
/// A commit returns when it survives the process, but a crash of the machine may take the last ones
/// ([`Durability::Os`](crate::Durability::Os), the default here as in other engines); each write may ask for
/// [`Durability::Sync`](crate::Durability::Sync), and [`Db::sync`] makes everything acknowledged so far durable.
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
    /// Opens the store in a directory, or makes one there. One process at a time may write: `Locked` names the holder.
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open()
    }

    /// Opens a store for reading, also beside a process that writes: takes no lock and writes nothing.
    /// It shows the store as it was then, until [`Db::refresh`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Db::builder(path).open_read_only()
    }

    /// A new store in memory. It goes with its last handle.
    pub fn memory() -> Result<Db> {
        Builder::in_memory().open()
    }

    /// Returns what a directory holds: a store, a damaged one, something else of this engine's, another engine's database, other files, or nothing.
    /// Judged from names and the first bytes of files; nothing is opened, locked or changed. A directory that does not exist is empty. Errors: `Io`.
    pub fn contents(path: impl AsRef<Path>) -> Result<crate::Contents> {
        waxseal_lsm::version::contents(&Env::real(), path.as_ref())
    }

    /// Removes a store: its files, and its directory if nothing else is in it. Refuses a directory that holds no store, and one that is open.
    /// Files that the engine did not write stay, whatever their names.
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

    /// Settings for a store, then [`Builder::open`].
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// The column family of this name; made, with the builder's block size and compression, if there is none.
    /// `default` always exists. In a store opened for reading an unknown name is `Invalid`, and so is one that
    /// [cannot be](Db::create_column_family) in any.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        self.inner.column_family(name, &Who::ANONYMOUS)
    }

    /// Makes a column family with options of its own, a key order among them. `Invalid` if the name exists, or cannot be: it has 1 to
    /// 255 bytes, none of them zero, and does not begin like those of the store's own families.
    pub fn create_column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        self.inner.create_column_family(name, options, &Who::ANONYMOUS)
    }

    /// Drops a column family with all its records. Handles to it answer `Invalid` from then on. `default` cannot be dropped.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.inner.drop_column_family(name, &Who::ANONYMOUS)
    }

    /// All column families that users made, `default` among them. The store's own (`system_metadata.registry`, `system_metadata.log`,
    /// `system_metadata.quarantine`, `system_metadata.schema`, `system_metadata.sessions`) are opened by name, and can be read like any
    /// other; whatever would change them is `Invalid`.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        let mut families = self.inner.engine.families();
        families.retain(|family| !is_system_name(family.name()));
        families.into_iter().map(|family| self.inner.wrap(family, &Who::ANONYMOUS)).collect()
    }

    /// An empty batch: writes to any column families that commit together.
    pub fn batch(&self) -> Batch {
        Batch::new(&self.inner, &Who::ANONYMOUS)
    }

    /// The store as it is now, for as long as the snapshot is kept. What it sees is not thrown away meanwhile.
    ///
    /// If the store is closed, the snapshot's reads say so.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner, self.inner.check_open().and_then(|()| self.inner.engine.snapshot()))
    }

    /// The store as a crash of the machine would leave it at this moment: at the last commit known to be durable.
    pub fn durable_snapshot(&self) -> Snapshot {
        Snapshot::new(&self.inner, self.inner.check_open().and_then(|()| self.inner.engine.durable_snapshot()))
    }

    /// Makes every acknowledged commit durable: none of them can be lost once this has returned.
    pub fn sync(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.sync()
    }

    /// Writes all memtables to tables and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.flush()
    }

    /// Flushes, then compacts until no compaction is due and the levels above the lowest hold an eighth of it at most (one of `fanout - 2`), since
    /// all that stands there may be newer versions, and garbage in value files is an eighth of what is alive; then removes the log's spare segments. For the end of a load: what it does beyond a
    /// compaction that is due it leaves out as soon as others write on.
    pub fn settle(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.settle()
    }

    /// A copy of the store as it is now in a new directory, which a crash leaves whole or not at all. Tables are shared by
    /// hard links where the file system has them, so it costs little; the copy is a store of its own. Errors: `Invalid` if something is in the
    /// directory, `Locked` while another checkpoint is written there, `Io`.
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

    /// Catches up with the process that writes, what is registered included; for stores opened with [`Db::open_read_only`], others stay as
    /// they are. Errors: also `Corruption` if what is registered cannot be read, or could not when the store was opened; all else is caught up
    /// with then.
    pub fn refresh(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.engine.refresh()?;
        match &self.inner.watching {
            Watching::Registrar(registrar) if self.is_read_only() => registrar.refresh(),
            Watching::Unknown(error) if self.is_read_only() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Takes one step of background work, for stores opened with [`Mode::Stepped`](crate::env::Mode::Stepped).
    /// False if there is nothing to do.
    pub fn step(&self) -> Result<bool> {
        self.inner.check_open()?;
        self.inner.engine.step()
    }

    /// Counters and sizes, as a struct; as text by `Display`.
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

    /// What was done with seals since the store was opened: made, given, adopted, found damaged. None if it was opened plain.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// db.column_family("default")?.put("key", "value")?;
    /// assert_eq!(db.seals().unwrap().computed, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seals(&self) -> Option<Counts> {
        self.inner.keeper.as_ref().map(|keeper| keeper.counts())
    }

    /// What the open of this store found in its log: what came back, and what was cut from its torn end.
    pub fn recovery(&self) -> RecoveryReport {
        self.inner.engine.recovery()
    }

    /// True if writes answer `ReadOnly`: the store was opened for reading, or there was no room to recover, or a handler of errors said so.
    pub fn is_read_only(&self) -> bool {
        self.inner.engine.is_read_only()
    }

    /// Closes the store for every handle, snapshot, cursor and iterator: their calls return `Closed` from now on. Waits for running commits.
    /// What was acknowledged is durable when this returns without an error. A second call returns `Ok`, and does not wait for the first.
    ///
    /// Releases the store's threads, descriptors, mappings, memtables and cached blocks (those in a cache of its own), whoever still has a
    /// handle. A running call, a [`Slice`] and an Arrow batch keep the memory that they use. An open cursor keeps its memtables and the indexes
    /// of its tables until it is moved or dropped. Dropping the last handle closes too, but cannot report an error.
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
