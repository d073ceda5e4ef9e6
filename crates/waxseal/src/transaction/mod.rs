//! Optimistic transactions: reads of one snapshot, private writes, and a commit that fails with `Conflict` if another
//! commit came between.
//!
//! ```text
//! own_writes.rs   the writes, as the transaction's own reads see them
//! cursor.rs       a cursor of the store with the own writes merged in, which notes the ranges that it has passed
//! range.rs        iterators over two such cursors
//! ```
//!
//! The batch has the writes, and the engine validates what was read (`waxseal_lsm::db::Validation`). Nothing is locked
//! before the commit.

mod cursor;
mod own_writes;
mod range;

use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waxseal_lsm::batch::BatchPosition;
use waxseal_lsm::db::{self as engine, At, ReadSet};
use waxseal_lsm::env::try_copy;
use waxseal_lsm::error::{Error, ErrorKind, IoContext, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::range_delete::bounds_of;
use waxseal_lsm::read::CursorBounds;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::Companions;
use waxseal_meta::reading::Meta;
use waxseal_registry::{Operation, Payload, Session as Who, Target};

use crate::batch::{Batch, BatchMark};
use crate::db::Db;
use crate::inner::{ColumnFamily, Inner};
use crate::range::KeyRange;
use crate::session::Session;
use crate::slice::Slice;
use crate::write_options::WriteOptions;
use own_writes::{OwnValue, OwnWrites};

pub use cursor::TransactionCursor;
pub use range::TransactionRange;

/// The conflicts that a transaction detects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// The transaction takes effect as if it ran alone, at the moment of its commit. Its commit fails if anything that
    /// it read has changed since it began: keys, absent keys, and ranges as far as they were read. Keys that were only
    /// written never conflict.
    #[default]
    Serializable,
    /// The transaction reads one snapshot, and its commit fails if a key that it wrote, or read by
    /// [`get_for_update`](Transaction::get_for_update), has changed since it began. Write skew is possible: two
    /// transactions that each read what the other one writes may both commit.
    Snapshot,
}

/// Reads and writes that take effect together, and only if no other commit came between.
///
/// All reads see the store as it was when the transaction began, and the transaction's own writes. Writes are private
/// until [`commit`](Transaction::commit). The commit fails with [`Conflict`](ErrorKind::Conflict), and changes nothing,
/// if another commit changed what the transaction depends on (see [`Isolation`]); the message names the key. Run the
/// transaction again then, or let [`Db::transact`] do that. A transaction without writes always commits. Dropping a
/// transaction discards its writes.
///
/// Nothing is locked: a transaction never waits for another one and never blocks plain writes, which pay nothing for
/// it. It keeps its reads' keys and its writes in memory. The versions that it may read are retained until it ends, as
/// for a [`Snapshot`](crate::Snapshot). A commit costs about one `get` for each key that was read, in memory for
/// recent changes, and nothing if no other commit came between.
///
/// A record expires by the time at which the transaction began, for all of its reads. A change of a key to the same
/// value is a change. A transaction may be used from several threads; its calls then run one after the other.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// let accounts = db.column_family("accounts")?;
/// accounts.put("alice", "100")?;
/// let transaction = db.transaction();
/// let balance = transaction.get(&accounts, "alice")?.unwrap();
/// transaction.put(&accounts, "alice", "60")?;
/// transaction.put(&accounts, "bob", "40")?;
/// assert_eq!((&balance[..], accounts.get("bob")?), (&b"100"[..], None));
/// transaction.commit()?;
/// assert_eq!(accounts.get("bob")?.unwrap(), "40");
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    shared: Arc<Shared>,
}

/// State shared by a transaction's handle and its cursors.
struct Shared {
    inner: Arc<Inner>,
    isolation: Isolation,
    /// The snapshot that it reads, or the error that prevented it.
    snapshot: Result<engine::Snapshot>,
    state: Mutex<State>,
}

struct State {
    batch: Batch,
    own_writes: OwnWrites,
    reads: ReadSet,
    /// The ranges that cursors have passed.
    spans: Vec<(ColumnFamily, Arc<Mutex<CursorBounds>>)>,
    savepoints: Vec<BatchMark>,
    /// Number of rollbacks to a savepoint.
    rollbacks: u64,
    has_ended: bool,
}

impl Shared {
    /// Returns the state. Errors: `Invalid` after the end of the transaction.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.has_ended {
            true => Err(Error::invalid("the transaction has ended")),
            false => Ok(state),
        }
    }

    /// Returns the snapshot. Errors: those of its creation, and `Invalid` for a family of another store.
    fn snapshot_for(&self, cf: &ColumnFamily) -> Result<&engine::Snapshot> {
        if !Arc::ptr_eq(&self.inner, &cf.inner) {
            let name = cf.name();
            return Err(Error::invalid(format!(
                "column family {name:?} belongs to another store than the transaction"
            )));
        }
        self.snapshot.as_ref().map_err(Error::clone)
    }

    /// Returns the value of a key in the snapshot.
    fn stored(&self, cf: &ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let at = At::Snapshot(self.snapshot_for(cf)?);
        let copied = self.inner.read(cf, key, at, |record| try_copy(record.value))?;
        copied.transpose().during(|| "copying a value")
    }
}

impl State {
    /// Adds a write by `push`, and makes it visible to the transaction's reads. A refused write changes nothing.
    fn write(&mut self, cf: &ColumnFamily, micros: u64, push: impl FnOnce(&mut Batch) -> Result<()>) -> Result<()> {
        let before = self.batch.mark();
        push(&mut self.batch)?;
        let added = self.show_from(before.operations(), cf.inner.engine.companions(), micros);
        if added.is_err() {
            self.batch.truncate(&before);
        }
        added
    }

    /// Makes the operations after a position of the batch visible to the transaction's reads.
    fn show_from(&mut self, position: &BatchPosition, companions: &dyn Companions, micros: u64) -> Result<()> {
        let State { batch, own_writes, .. } = self;
        for operation in batch.operations_after(position) {
            let operation = operation?;
            let Some(family) = batch.family(operation.family) else { continue };
            let (key, value, companion) = (operation.key, operation.value, operation.companion);
            let record = Record { key, seqno: 0, kind: operation.kind, value, companion };
            let is_expired = companions.expiry(&record).is_some_and(|expiry| expiry <= micros);
            own_writes.add(family.order(), &operation, is_expired)?;
        }
        Ok(())
    }
}

impl Transaction {
    fn begin(inner: &Arc<Inner>, who: &Who, isolation: Isolation) -> Transaction {
        let snapshot = inner.check_writable().and_then(|()| inner.engine.transaction_snapshot());
        let state = State {
            batch: Batch::new(inner, who),
            own_writes: OwnWrites::default(),
            reads: ReadSet::default(),
            spans: Vec::new(),
            savepoints: Vec::new(),
            rollbacks: 0,
            has_ended: false,
        };
        let shared = Shared { inner: Arc::clone(inner), isolation, snapshot, state: Mutex::new(state) };
        Transaction { shared: Arc::new(shared) }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.shared.inner
    }

    /// Returns the error that prevented the transaction's begin, if any: every other call returns it too.
    pub fn check(&self) -> Result<()> {
        self.shared.snapshot.as_ref().map(|_| ()).map_err(Error::clone)
    }

    /// Returns the isolation level.
    pub fn isolation(&self) -> Isolation {
        self.shared.isolation
    }

    /// Returns the number of writes so far.
    pub fn len(&self) -> usize {
        self.shared.state().map_or(0, |state| state.batch.len())
    }

    /// Returns true if the transaction has no writes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a copy of the value of a key, as the transaction sees it.
    pub fn get(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_with(cf, key, Slice::copied)?.transpose()
    }

    /// Passes the value of a key to `visit` and returns the result of `visit`.
    pub fn get_with<R>(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.read(cf, key.as_ref(), self.shared.isolation == Isolation::Serializable, visit)
    }

    /// Returns true if a key exists, as the transaction sees it.
    pub fn contains(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(cf, key, |_| ())?.is_some())
    }

    /// Returns the values of many keys, in the order of `keys`.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let snapshot = self.shared.snapshot_for(cf)?;
        self.shared.inner.check(&cf.family)?;
        let keys: Vec<K> = keys.into_iter().collect();
        let mut values = vec![None; keys.len()];
        let (mut stored, mut owned) = (Vec::with_capacity(keys.len()), Vec::new());
        let mut state = self.shared.state()?;
        for (index, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            let own = state.own_writes.of(cf.family.id()).and_then(|writes| writes.get(key));
            if own.as_ref().is_none_or(OwnValue::needs_stored) {
                if self.shared.isolation == Isolation::Serializable {
                    state.reads.add_key(&cf.family, key);
                }
                stored.push((index, key));
            }
            owned.extend(own.map(|own| (index, key, own)));
        }
        drop(state);
        let found = self.shared.inner.read_many(cf, At::Snapshot(snapshot), stored.iter().map(|(_, key)| key))?;
        for ((index, _), value) in stored.into_iter().zip(found) {
            values[index] = value;
        }
        for (index, key, own) in owned {
            let stored = values[index].take().map(|value| try_copy(&value)).transpose().during(|| "copying a value")?;
            let resolved = own.resolve(&cf.family, key, || Ok(stored))?;
            values[index] = resolved.map(|value| Slice::copied(&value)).transpose()?;
        }
        Ok(values)
    }

    /// Reads a key like [`get`](Transaction::get). Under [`Isolation::Snapshot`], the commit then fails if another
    /// commit changed the key, as if the transaction had written it. Two transactions that read each other's keys in
    /// this way have no write skew. Under [`Isolation::Serializable`] every `get` does that.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use waxseal::{ErrorKind, Isolation};
    ///
    /// let transaction = db.transaction_with(Isolation::Snapshot);
    /// assert_eq!(transaction.get_for_update(&cf, "limit")?, None);
    /// transaction.put(&cf, "order", "17")?;
    /// cf.put("limit", "10")?;
    /// assert_eq!(transaction.commit().unwrap_err().kind(), &ErrorKind::Conflict);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_for_update(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.read(cf, key.as_ref(), true, Slice::copied)?.transpose()
    }

    /// Returns the entry that a provider stored with the value of a key, in the transaction's snapshot: see
    /// [`ColumnFamily::get_meta`]. The transaction's own writes do not change it. A value that had expired when the
    /// transaction began has no entry. Under [`Isolation::Serializable`] the key counts as read.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use waxseal::WriteOptions;
    /// use waxseal::meta::LABELS;
    ///
    /// cf.put_with("key", "value", WriteOptions::new().label("source", "file"))?;
    /// let transaction = db.transaction();
    /// cf.put("key", "other")?;
    /// assert_eq!(transaction.get_meta(&cf, "key", LABELS)?.unwrap().bytes, b"\x06source\x04file");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_meta(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        let (snapshot, key) = (self.shared.snapshot_for(cf)?, key.as_ref());
        self.shared.inner.check(&cf.family)?;
        let mut state = self.shared.state()?;
        if self.shared.isolation == Isolation::Serializable {
            state.reads.add_key(&cf.family, key);
        }
        drop(state);
        waxseal_meta::get_meta(&self.shared.inner.engine, &cf.family, key, At::Snapshot(snapshot), provider)
    }

    fn read<R>(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        is_noted: bool,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let snapshot = self.shared.snapshot_for(cf)?;
        self.shared.inner.check(&cf.family)?;
        let mut state = self.shared.state()?;
        let own = state.own_writes.of(cf.family.id()).and_then(|writes| writes.get(key));
        if is_noted && own.as_ref().is_none_or(OwnValue::needs_stored) {
            state.reads.add_key(&cf.family, key);
        }
        drop(state); // `visit` and a merge operator may use the transaction
        match own {
            Some(own) => Ok(own.resolve(&cf.family, key, || self.shared.stored(cf, key))?.as_deref().map(visit)),
            None => self.shared.inner.read(cf, key, At::Snapshot(snapshot), |record| visit(record.value)),
        }
    }

    /// Creates a cursor over a family, as the transaction sees it.
    pub fn cursor(&self, cf: &ColumnFamily) -> TransactionCursor {
        self.cursor_in(cf, ..)
    }

    /// Creates a cursor over the records of a family with keys in a range. No move leaves the range.
    pub fn cursor_in(&self, cf: &ColumnFamily, range: impl KeyRange) -> TransactionCursor {
        TransactionCursor::new(&self.shared, cf, range.into_bounds())
    }

    /// Iterates over the records with keys in a range, from both ends, as the transaction sees them.
    ///
    /// Under [`Isolation::Serializable`], the range is validated as far as it was read: a change behind the last record
    /// that was returned is no conflict.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// cf.put("a", "1")?;
    /// cf.put("b", "2")?;
    /// let transaction = db.transaction();
    /// transaction.delete(&cf, "a")?;
    /// transaction.put(&cf, "c", "3")?;
    /// let keys: Vec<_> = transaction.range(&cf, ..).map(|row| row.map(|(key, _)| key)).collect::<Result<_, _>>()?;
    /// assert_eq!(keys, ["b", "c"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, cf: &ColumnFamily, range: impl KeyRange) -> TransactionRange {
        TransactionRange::new(&self.shared, cf, range.into_bounds(), None)
    }

    /// Iterates over the records whose keys begin with `prefix`, as the transaction sees them. With a custom key order
    /// this reads the whole family.
    pub fn prefix(&self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> TransactionRange {
        TransactionRange::with_prefix(&self.shared, cf, prefix.as_ref())
    }

    /// Iterates over all records of a family, as the transaction sees them.
    pub fn iter(&self, cf: &ColumnFamily) -> TransactionRange {
        self.range(cf, ..)
    }

    /// Sets a key to a value. Errors: those that refuse a write; the transaction continues without it.
    pub fn put(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(cf, |batch| batch.put_now(cf, key.as_ref(), value.as_ref(), WriteOptions::default()))
    }

    /// Sets a key to a value, with options: an expiry, labels, entries, `log_as_insert`. The durability is that of the
    /// commit: options with a durability are refused (`Invalid`).
    pub fn put_with(
        &self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.write(cf, |batch| batch.put_now(cf, key.as_ref(), value.as_ref(), options))
    }

    /// Merges an operand into the value of a key without reading it: see [`ColumnFamily::merge`]. The transaction's own
    /// reads of the key read the value of the snapshot and merge the operands into it. Only they can conflict under
    /// [`Isolation::Serializable`]; a merge alone does not.
    ///
    /// Errors: those that refuse a write, and `Invalid` if the family has no merge operator or if the operator cannot
    /// read the operand; the transaction continues without it. A failure of the operator is an error of the read.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::{CfOptions, MergeOperator};
    ///
    /// let options = CfOptions { merge_operator: Some(MergeOperator::append(b",")), ..CfOptions::default() };
    /// let tags = db.create_column_family("tags", options)?;
    /// tags.put("book", "new")?;
    /// let transaction = db.transaction();
    /// transaction.merge(&tags, "book", "read")?;
    /// assert_eq!(transaction.get(&tags, "book")?.unwrap(), "new,read");
    /// transaction.commit()?;
    /// assert_eq!(tags.get("book")?.unwrap(), "new,read");
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write(cf, |batch| batch.merge_now(cf, key.as_ref(), operand.as_ref()))
    }

    /// Removes a key. Removing an absent key is not an error.
    pub fn delete(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(cf, |batch| batch.delete_now(cf, key.as_ref()))
    }

    /// Removes all keys in a range: those of the store when the transaction commits, and those that the transaction
    /// wrote before. See [`ColumnFamily::delete_range`]. Errors: `Invalid` for a start behind the end.
    pub fn delete_range(&self, cf: &ColumnFamily, range: impl KeyRange) -> Result<()> {
        let bounds = range.into_bounds();
        self.write(cf, |batch| batch.delete_range_now(cf, bounds))
    }

    fn write(&self, cf: &ColumnFamily, push: impl FnOnce(&mut Batch) -> Result<()>) -> Result<()> {
        let micros = self.shared.snapshot_for(cf)?.micros();
        self.shared.inner.check(&cf.family)?;
        self.shared.state()?.write(cf, micros, push)
    }

    /// Says that the writes since the last description are an operation on a table: see [`Batch::describe`]. A rollback to a
    /// savepoint discards the descriptions since.
    pub fn describe(&self, target: Target, operation: Operation, payload: Payload) {
        if let Ok(mut state) = self.shared.state() {
            state.batch.describe(target, operation, payload);
        }
    }

    /// Says that the writes belong to a layer that describes its operations: see [`Batch::describe_nothing`].
    pub fn describe_nothing(&self) {
        if let Ok(mut state) = self.shared.state() {
            state.batch.describe_nothing();
        }
    }

    /// Lets the commit fail with `Conflict` if anything is registered: see [`Batch::expect_unwatched`].
    pub fn expect_unwatched(&self) {
        if let Ok(mut state) = self.shared.state() {
            state.batch.expect_unwatched();
        }
    }

    /// Marks the present state of the writes for [`rollback_to_savepoint`](Transaction::rollback_to_savepoint).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// let transaction = db.transaction();
    /// transaction.put(&cf, "a", "1")?;
    /// transaction.savepoint();
    /// transaction.delete_range(&cf, ..)?;
    /// transaction.rollback_to_savepoint()?;
    /// assert_eq!(transaction.get(&cf, "a")?.unwrap(), "1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn savepoint(&self) {
        if let Ok(mut state) = self.shared.state() {
            let mark = state.batch.mark();
            state.savepoints.push(mark);
        }
    }

    /// Discards the writes since the last savepoint, and the savepoint. Reads stay read: they are validated by the
    /// commit. Costs time by the number of writes that remain. Errors: `Invalid` without a savepoint.
    pub fn rollback_to_savepoint(&self) -> Result<()> {
        let micros = self.shared.snapshot.as_ref().map_err(Error::clone)?.micros();
        let mut state = self.shared.state()?;
        let mark = state.savepoints.pop().ok_or_else(no_savepoint)?;
        state.batch.truncate(&mark);
        state.own_writes.clear();
        state.rollbacks += 1;
        state.show_from(&BatchPosition::default(), self.shared.inner.engine.companions(), micros)
    }

    /// Keeps the writes since the last savepoint, and forgets the savepoint. Errors: `Invalid` without a savepoint.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// let transaction = db.transaction();
    /// transaction.savepoint();
    /// transaction.put(&cf, "a", "1")?;
    /// transaction.release_savepoint()?;
    /// assert!(transaction.rollback_to_savepoint().is_err());
    /// assert_eq!(transaction.get(&cf, "a")?.unwrap(), "1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_savepoint(&self) -> Result<()> {
        self.shared.state()?.savepoints.pop().map(drop).ok_or_else(no_savepoint)
    }

    /// Makes all writes visible atomically, with the store's durability.
    ///
    /// Errors: `Conflict` if another commit changed what the transaction depends on; its message names the key. Also
    /// those of a batch's commit, and those of a read, because validation reads. Nothing was changed then.
    pub fn commit(self) -> Result<()> {
        let durability = self.shared.inner.engine.durability();
        self.commit_with(durability)
    }

    /// [`commit`](Transaction::commit) with a durability.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_now(durability)
    }

    /// Commits without giving up the handle. The transaction has ended then, whatever the outcome.
    pub(crate) fn commit_now(&self, durability: Durability) -> Result<()> {
        let snapshot = self.shared.snapshot.as_ref().map_err(Error::clone)?;
        let mut state = self.shared.state()?;
        state.has_ended = true;
        let State { batch, reads, spans, own_writes, .. } = &mut *state;
        own_writes.clear();
        if batch.is_empty() {
            return self.shared.inner.check_open();
        }
        match self.shared.isolation {
            Isolation::Serializable => {
                for (cf, span) in spans.drain(..) {
                    let bounds = span.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    reads.add_range(&cf.family, bounds);
                }
            }
            Isolation::Snapshot => add_writes(reads, batch)?,
        }
        let mut validation = self.shared.inner.engine.validation(reads, snapshot)?;
        batch.commit_when(durability, &mut validation)
    }

    /// Discards all writes. Dropping the transaction does the same.
    pub fn rollback(self) {
        self.end();
    }

    /// Ends the transaction without giving up the handle.
    pub(crate) fn end(&self) {
        if let Ok(mut state) = self.shared.state() {
            state.has_ended = true;
        }
    }
}

/// A cursor or an iterator that outlives the transaction shows nothing more.
#[cold]
fn no_savepoint() -> Error {
    Error::invalid("the transaction has no savepoint")
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end();
    }
}

/// Adds the keys and ranges that a batch writes.
fn add_writes(reads: &mut ReadSet, batch: &Batch) -> Result<()> {
    for operation in batch.operations_after(&BatchPosition::default()) {
        let operation = operation?;
        let Some(family) = batch.family(operation.family) else { continue };
        match operation.kind {
            Kind::RangeDelete => {
                let (start, end) = bounds_of(operation.key, operation.value)?;
                let start = start.map_or(Bound::Unbounded, |start| Bound::Included(start.to_vec()));
                let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec()));
                reads.add_range(family, (start, end));
            }
            _ => reads.add_key(family, operation.key),
        }
    }
    Ok(())
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seqno = self.shared.snapshot.as_ref().map(engine::Snapshot::seqno);
        f.debug_struct("Transaction").field("isolation", &self.shared.isolation).field("seqno", &seqno).finish()
    }
}

impl Db {
    /// Begins a serializable transaction. If it cannot begin, because the store is closed or read-only, its calls
    /// return the error.
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(Isolation::Serializable)
    }

    /// Begins a transaction with an isolation level.
    pub fn transaction_with(&self, isolation: Isolation) -> Transaction {
        Transaction::begin(&self.inner, &Who::ANONYMOUS, isolation)
    }

    /// Runs a serializable transaction: passes it to `run`, and commits it if `run` succeeds. After a
    /// [`Conflict`](ErrorKind::Conflict) all of it runs again, on a new snapshot. An error of `run` discards the
    /// writes and is returned.
    ///
    /// `run` should be free of side effects, because it may run several times. No conflict makes it wait: some
    /// transaction among those in conflict always succeeds.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// let cf = db.column_family("accounts")?;
    /// cf.put("alice", "100")?;
    /// let moved = db.transact(|transaction| {
    ///     let Some(balance) = transaction.get(&cf, "alice")? else { return Ok(false) };
    ///     transaction.put(&cf, "bob", balance)?;
    ///     transaction.delete(&cf, "alice")?;
    ///     Ok(true)
    /// })?;
    /// assert!(moved && !cf.contains("alice")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<T>(&self, run: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        transact(&self.inner, &Who::ANONYMOUS, run)
    }
}

impl Session {
    /// [`Db::transaction`], which commits in this session's name.
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(Isolation::Serializable)
    }

    /// [`Db::transaction_with`], which commits in this session's name.
    pub fn transaction_with(&self, isolation: Isolation) -> Transaction {
        Transaction::begin(&self.inner, &self.who, isolation)
    }

    /// [`Db::transact`], which commits in this session's name.
    pub fn transact<T>(&self, run: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        transact(&self.inner, &self.who, run)
    }
}

fn transact<T>(inner: &Arc<Inner>, who: &Who, mut run: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
    loop {
        let transaction = Transaction::begin(inner, who, Isolation::Serializable);
        transaction.check()?;
        let outcome = run(&transaction)?;
        match transaction.commit() {
            Err(error) if *error.kind() == ErrorKind::Conflict => waxseal_lsm::interrupt::check()?,
            committed => return committed.map(|()| outcome),
        }
    }
}
