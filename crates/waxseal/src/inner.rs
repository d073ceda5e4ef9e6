//! The state that all handles of one store share, and the handle to a column family.
//!
//! Cursors and iterators hold their own view of the files, so `Inner` has a flag that tells them when the store was
//! closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::batch::Batch as Operations;
use waxseal_lsm::compaction_filter::CompactionFilter;
use waxseal_lsm::db::{self as engine, At, Condition, Family, Precondition};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::is_system_name;
use waxseal_lsm::options::{CfOptions, Durability, ReadSettings};
use waxseal_lsm::order::Order;
use waxseal_lsm::read::{CursorBounds, UserCursor};
use waxseal_lsm::record::Record;
use waxseal_lsm::table_property::TableProperty;
use waxseal_meta::Sealer;
use waxseal_registry::{Notes, Session as Who, is_watched};

use crate::attach::Watching;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::verify::{Policies, VerifyPolicy};

/// State shared by all handles of one store.
pub(crate) struct Inner {
    pub(crate) engine: engine::Db,
    /// The environment that the store was opened with.
    pub(crate) env: Env,
    /// Options for families that are created by name alone.
    pub(crate) template: CfOptions,
    /// The record protector that makes and checks seals, shared with the engine. `None` in a store that was opened
    /// plain.
    pub(crate) protector: Option<Arc<Sealer>>,
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

    /// Fails with `Closed`, or with `Invalid`, which names the family, if it was dropped. If it is dropped after this check,
    /// the engine refuses the call.
    #[inline]
    pub(crate) fn check(&self, family: &Family) -> Result<()> {
        self.check_open()?;
        if family.is_dropped() { Err(dropped(family)) } else { Ok(()) }
    }

    /// Fails with `Closed` or `ReadOnly` if the store cannot be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.engine.is_read_only() {
            return self.engine.check_writable();
        }
        Ok(())
    }

    /// Commits a caller's writes. `epoch` is the configuration epoch that was read before the operations were encoded.
    #[inline]
    pub(crate) fn commit(
        &self,
        operations: &mut Operations,
        durability: Durability,
        epoch: u64,
        notes: Notes<'_>,
    ) -> Result<()> {
        if !is_watched(epoch) && self.engine.commit_if(operations, durability, Precondition::epoch(epoch))?.is_some() {
            return Ok(()); // nothing was registered before, and nothing is now
        }
        self.commit_watched(operations, durability, notes)
    }

    #[cold]
    fn commit_watched(&self, operations: &mut Operations, durability: Durability, notes: Notes<'_>) -> Result<()> {
        match &self.watching {
            Watching::Registrar(registrar) => registrar.commit_noted(operations, durability, notes).map(drop),
            Watching::Nobody => self.engine.commit(operations, durability).map(drop),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }

    /// Commits a caller's writes while a condition holds. Returns false, and changes nothing, once it does not.
    pub(crate) fn commit_when(
        &self,
        operations: &mut Operations,
        durability: Durability,
        notes: Notes<'_>,
        condition: &mut dyn Condition,
    ) -> Result<bool> {
        let committed = match &self.watching {
            Watching::Registrar(registrar) => registrar.commit_when(operations, durability, notes, condition),
            Watching::Nobody => self.engine.commit_when(operations, durability, condition),
            Watching::Unknown(error) => Err(error.clone()),
        };
        committed.map(|last| last.is_some())
    }

    /// Returns the family with this name, as a handle that writes in the session's name. Creates the family if it does
    /// not exist.
    pub(crate) fn column_family(self: &Arc<Inner>, name: &str, who: &Who) -> Result<ColumnFamily> {
        if let Some(family) = self.find_column_family(name, who)? {
            return Ok(family);
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

    /// Returns the family with this name, as a handle that writes in the session's name; `None` if it does not exist.
    pub(crate) fn find_column_family(self: &Arc<Inner>, name: &str, who: &Who) -> Result<Option<ColumnFamily>> {
        self.check_open()?;
        Ok(self.engine.family(name).map(|family| self.wrap(family, who)))
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

    pub(crate) fn update_family_options(
        &self,
        family: &Family,
        change: &mut dyn FnMut(&mut CfOptions) -> Result<()>,
    ) -> Result<()> {
        self.check(family)?;
        refuse_system(family.name())?;
        self.engine.update_options(family, change)?;
        self.note(family);
        self.policies.note_explicit(family.name());
        Ok(())
    }

    pub(crate) fn set_family_functions(
        &self,
        family: &Family,
        filter: Option<CompactionFilter>,
        properties: Vec<TableProperty>,
    ) -> Result<()> {
        self.check(family)?;
        refuse_system(family.name())?;
        self.engine.set_functions(family, filter, properties)
    }

    pub(crate) fn drop_column_family(&self, name: &str, is_described: bool, who: &Who) -> Result<()> {
        self.check_open()?;
        refuse_system(name)?;
        match &self.watching {
            Watching::Registrar(registrar) if is_described => registrar.drop_described_family(name, Some(who)),
            Watching::Registrar(registrar) => registrar.drop_family(name, Some(who)),
            Watching::Nobody => self.engine.drop_family(name),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }

    pub(crate) fn wrap(self: &Arc<Inner>, family: Family, who: &Who) -> ColumnFamily {
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
        let (mut values, mut copied) = (vec![None; keys.len()], Ok(()));
        let verify = cf.point_reading().verify;
        let found =
            self.engine.multi_get_resident(&cf.family, keys, at, verify, &mut copy_to(&mut values, &mut copied))?;
        copied.map(|()| found.then_some(values))
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
        let (mut values, mut copied) = (vec![None; keys.len()], Ok(()));
        let reading = cf.point_reading();
        self.engine.multi_get_checked(&cf.family, &keys, at, reading, &mut copy_to(&mut values, &mut copied))?;
        copied.map(|()| values)
    }

    /// Closes the store for all handles; a second call does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let written = self.end_events();
        self.engine.close().and(written)
    }

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

/// Fails with `Invalid` for a name that is reserved for the store's own families.
pub(crate) fn refuse_system(name: &str) -> Result<()> {
    if !is_system_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name:?}: families of this name are the store's own, to be read and not to be changed"
    )))
}

/// Returns a function that copies the values of found keys to their places. It leaves an error in `copied`.
fn copy_to<'a>(values: &'a mut [Option<Slice>], copied: &'a mut Result<()>) -> impl FnMut(usize, &Record<'_>) + 'a {
    move |index, record| match Slice::copied(record.value) {
        Ok(value) => values[index] = Some(value),
        Err(error) => *copied = Err(error),
    }
}

#[cold]
fn dropped(family: &Family) -> Error {
    Error::invalid(format!("the column family {:?} was dropped", family.name()))
}

/// A handle to one column family. Clones share it and may be used from any thread.
///
/// Keys have 0 to 65,535 bytes and values at most 3 GiB minus one byte. A write beyond these limits fails with
/// `Invalid` and changes nothing.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// let cf = db.column_family("fruit")?;
/// cf.put("apple", "red")?;
/// cf.put("banana", "yellow")?;
/// cf.put("cherry", "dark red")?;
///
/// let length = cf.get_with("banana", |value: &[u8]| value.len())?; // borrowed, nothing copied
/// assert_eq!(length, Some(6));
///
/// let keys: Vec<_> = cf.range("apple".."cherry").keys().collect::<waxseal::Result<_>>()?;
/// assert_eq!(keys, ["apple", "banana"]);
///
/// cf.delete("apple")?;
/// assert!(!cf.contains("apple")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ColumnFamily {
    pub(crate) inner: Arc<Inner>,
    pub(crate) family: Family,
    pub(crate) policy: VerifyPolicy,
    /// The session in whose name the handle writes.
    pub(crate) who: Who,
}

impl ColumnFamily {
    /// Returns the family's name.
    pub fn name(&self) -> &str {
        self.family.name()
    }

    /// Returns the family's id. A store gives no id twice: a family that is dropped and created again has another one.
    pub fn id(&self) -> u32 {
        self.family.id()
    }

    /// Returns the verification and cache policy of point reads through this handle.
    #[inline]
    pub(crate) fn point_reading(&self) -> ReadSettings {
        let verify = self.policy.reads.unwrap_or(self.family.verify_reads());
        ReadSettings { verify, fill_cache: !self.policy.passing }
    }

    /// Returns the verification and cache policy of cursors made through this handle.
    pub(crate) fn scan_reading(&self) -> ReadSettings {
        let verify = self.policy.scans.unwrap_or(self.family.verify_scans());
        ReadSettings { verify, fill_cache: !self.policy.passing }
    }

    pub(crate) fn order(&self) -> &Order {
        self.family.order()
    }
}
