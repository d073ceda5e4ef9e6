//! Writes: single operations, and batches that commit atomically.
//!
//! A single put is a batch of one operation. It reuses a thread-local buffer, so this layer allocates nothing per put.

use std::cell::Cell;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use waxseal_lsm::batch::{Batch as Operations, BatchOperations, BatchPosition};
#[cfg(feature = "tokio")]
use waxseal_lsm::db::Precondition;
use waxseal_lsm::db::{Condition, End, Family};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::range_delete::RangeBounds;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::Seal;
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_registry::{DescribedOperation, Notes, Operation, Payload, Session as Who, StampVerb, Target, is_watched};

use crate::inner::{ColumnFamily, Inner};
use crate::range::{Bounds, KeyRange, half_open};
use crate::slice::Slice;
use crate::write_options::{Expires, WriteOptions, micros_of};

/// Largest buffer that a thread keeps between puts, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static SPARE: Cell<Option<Box<Operations>>> = const { Cell::new(None) };
}

/// One operation, with borrowed key and value.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The seal that the caller passed, if any.
    pub(crate) seal: Option<Seal>,
    /// The metadata entries of the value.
    pub(crate) entries: &'a [(u16, &'a [u8])],
    /// The family's default time to live does not apply.
    pub(crate) is_lasting: bool,
    /// The expiry was already checked, or was computed from the current time.
    pub(crate) is_resolved: bool,
}

impl<'a> Write<'a> {
    pub(crate) fn put(key: &'a [u8], value: &'a [u8]) -> Write<'a> {
        Write { kind: Kind::Put, key, value, seal: None, entries: &[], is_lasting: false, is_resolved: false }
    }

    pub(crate) fn delete(key: &'a [u8]) -> Write<'a> {
        Write { kind: Kind::Delete, ..Write::put(key, &[]) }
    }

    pub(crate) fn merge(key: &'a [u8], operand: &'a [u8]) -> Write<'a> {
        Write { kind: Kind::Merge, ..Write::put(key, operand) }
    }

    /// Adds the operation to a batch. If it is refused, the batch is unchanged.
    #[inline(always)]
    fn push(&self, inner: &Inner, family: &Family, operations: &mut Operations) -> Result<()> {
        self.completed(inner, family, |write| {
            let mut pending = write.pending(family.id());
            match write.seal {
                None => operations.push_pending(&mut pending, inner.engine.companions()),
                Some(seal) => inner.protector()?.push_sealed(operations, &pending, seal),
            }
        })
    }

    /// Passes the write to `done` in its final form. Adds the family's default expiry, unless the write has its own
    /// expiry or a seal from the caller. Errors: `Invalid` for an expiry entry before the year 2000.
    #[inline]
    fn completed<T>(&self, inner: &Inner, family: &Family, done: impl FnOnce(&Write<'_>) -> Result<T>) -> Result<T> {
        match family.default_ttl() {
            None if self.entries.is_empty() => done(self),
            ttl => self.completed_slowly(inner, ttl, done),
        }
    }

    fn completed_slowly<T>(
        &self,
        inner: &Inner,
        ttl: Option<Duration>,
        done: impl FnOnce(&Write<'_>) -> Result<T>,
    ) -> Result<T> {
        let given = self.entries.iter().find(|(provider, _)| *provider == EXPIRY);
        if let Some(micros) = given.and_then(|(_, entry)| Expiry::read(entry))
            && !self.is_resolved
        {
            Expiry::checked(micros)?;
        }
        let is_bound = given.is_some() || self.is_lasting || self.seal.is_some() || self.kind != Kind::Put;
        let Some(ttl) = ttl.filter(|_| !is_bound) else { return done(self) };
        let expiry = Expiry::at(inner.engine.expiry_micros().saturating_add(micros_of(ttl)));
        let mut entries = self.entries.to_vec();
        entries.push((EXPIRY, &expiry));
        done(&Write { entries: &entries, ..*self })
    }

    #[inline]
    fn pending(&self, family: u32) -> PendingWrite<'a> {
        let Write { kind, key, value, entries, .. } = *self;
        PendingWrite { family, kind, key, value, key_hash: None, entries }
    }
}

/// The metadata entries that a write's options ask for.
struct WriteEntries {
    given: Vec<(u16, Vec<u8>)>,
    is_lasting: bool,
    is_resolved: bool,
}

impl WriteEntries {
    fn of(options: WriteOptions, inner: &Inner) -> Result<WriteEntries> {
        let is_lasting = matches!(options.expires, Some(Expires::Never));
        let is_resolved = matches!(options.expires, Some(Expires::At(_) | Expires::In(_)));
        let given = options.into_entries(|| inner.engine.expiry_micros())?;
        Ok(WriteEntries { given, is_lasting, is_resolved })
    }

    fn entries(&self) -> Vec<(u16, &[u8])> {
        self.given.iter().map(|(provider, bytes)| (*provider, &bytes[..])).collect()
    }

    fn of_write<'w>(&self, write: Write<'w>, entries: &'w [(u16, &'w [u8])]) -> Write<'w> {
        Write { entries, is_lasting: self.is_lasting, is_resolved: self.is_resolved, ..write }
    }
}

/// Receives kind, key, value and annotations of an operation.
type Receiver<'r> = &'r mut dyn FnMut(Kind, &[u8], &[u8], &[(u16, &[u8])]) -> Result<()>;

/// Passes an operation to `receive` with the annotations that its options and its family ask for.
pub(crate) fn with_entries(
    cf: &ColumnFamily,
    write: Write<'_>,
    options: WriteOptions,
    receive: Receiver<'_>,
) -> Result<()> {
    cf.inner.check(&cf.family)?;
    let write_entries = WriteEntries::of(options, &cf.inner)?;
    write_entries
        .of_write(write, &write_entries.entries())
        .completed(&cf.inner, &cf.family, |write| receive(write.kind, write.key, write.value, write.entries))
}

/// Commits one operation, with options.
pub(crate) fn write_one(cf: &ColumnFamily, write: Write<'_>, options: WriteOptions) -> Result<()> {
    cf.inner.check(&cf.family)?;
    let durability = options.durability.unwrap_or(cf.inner.engine.durability());
    let verb = if options.logged_as_insert { StampVerb::Insert } else { StampVerb::Update };
    let expects_unwatched = options.expects_unwatched;
    let write_entries = WriteEntries::of(options, &cf.inner)?;
    let (entries, ColumnFamily { inner, family, who, .. }) = (write_entries.entries(), cf);
    let write = write_entries.of_write(write, &entries);
    if !expects_unwatched {
        return write_checked(cf, &write, durability, verb);
    }
    with_spare(|operations| {
        let epoch = inner.engine.epoch();
        write.push(inner, family, operations)?;
        inner.commit(operations, durability, epoch, Notes { who: Some(who), expects_unwatched, ..Notes::default() })
    })
}

/// Commits one operation with the store's defaults and no entries: the common case.
#[inline]
pub(crate) fn write_plainly(cf: &ColumnFamily, write: Write<'_>) -> Result<()> {
    cf.inner.check(&cf.family)?;
    write_checked(cf, &write, cf.inner.engine.durability(), StampVerb::Update)
}

fn write_checked(cf: &ColumnFamily, write: &Write<'_>, durability: Durability, verb: StampVerb) -> Result<()> {
    with_spare(|operations| write_in(operations, cf, write, durability, verb))
}

/// Lends the thread's buffer. It is taken, not borrowed: a listener that writes from inside the commit finds the cell
/// empty and allocates its own.
#[inline(always)]
fn with_spare<T>(run: impl FnOnce(&mut Operations) -> T) -> T {
    let mut operations = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let outcome = run(&mut operations);
    if operations.encoded_bytes() <= KEPT_BYTES {
        operations.clear();
        let _ = SPARE.try_with(|spare| spare.set(Some(operations))); // the thread may be ending
    }
    outcome
}

/// The change of a key that was decided from its value.
pub(crate) enum Change<V> {
    /// No change.
    Keep,
    Put(V),
    Delete,
}

impl<V> Change<V> {
    /// Returns the new value.
    pub(crate) fn value(self) -> Option<V> {
        match self {
            Change::Put(value) => Some(value),
            Change::Keep | Change::Delete => None,
        }
    }
}

/// Reads a key, lets `decide` choose its change, and commits the change if the key still has the same value; otherwise
/// reads and decides again. Returns the last decision. `decide` runs with no lock held; its error
/// ends the operation. The entries of `options` apply to a put.
pub(crate) fn modify<V: AsRef<[u8]>, T>(
    cf: &ColumnFamily,
    key: &[u8],
    options: WriteOptions,
    mut decide: impl FnMut(Option<&[u8]>) -> Result<(Change<V>, T)>,
) -> Result<(Change<V>, T)> {
    let ColumnFamily { inner, family, who, .. } = cf;
    inner.check(family)?;
    inner.check_writable()?;
    let durability = options.durability.unwrap_or(inner.engine.durability());
    let verbs: &[StampVerb] = if options.logged_as_insert { &[StampVerb::Insert] } else { &[] };
    let expects_unwatched = options.expects_unwatched;
    let notes = Notes { who: Some(who), verbs, expects_unwatched, ..Notes::default() };
    let write_entries = WriteEntries::of(options, inner)?;
    let entries = write_entries.entries();
    let mut read = inner.engine.read_optimistic(family, key, cf.point_reading())?;
    with_spare(|operations| {
        loop {
            let (change, outcome) = decide(read.value())?;
            let write = match &change {
                Change::Keep => return Ok((change, outcome)),
                Change::Put(value) => write_entries.of_write(Write::put(key, value.as_ref()), &entries),
                Change::Delete => Write::delete(key),
            };
            operations.clear();
            write.push(inner, family, operations)?;
            if inner.commit_when(operations, durability, notes, &mut read)? {
                return Ok((change, outcome));
            }
        }
    })
}

/// Removes the record at an end of a family if it is still the one that was read; otherwise reads again. Returns the
/// removed record.
pub(crate) fn pop(cf: &ColumnFamily, end: End, options: WriteOptions) -> Result<Option<(Slice, Slice)>> {
    let ColumnFamily { inner, family, who, .. } = cf;
    inner.check(family)?;
    inner.check_writable()?;
    let durability = options.durability.unwrap_or(inner.engine.durability());
    let write_entries = WriteEntries::of(options, inner)?;
    let entries = write_entries.entries();
    let mut read = inner.engine.read_end_optimistic(family, end, cf.scan_reading())?;
    with_spare(|operations| {
        loop {
            let Some((key, value)) = read.record() else { return Ok(None) };
            let popped = (key.into(), Slice::copied(value)?);
            operations.clear();
            write_entries.of_write(Write::delete(key), &entries).push(inner, family, operations)?;
            let notes = Notes { who: Some(who), ..Notes::default() };
            if inner.commit_when(operations, durability, notes, &mut read)? {
                return Ok(Some(popped));
            }
        }
    })
}

#[inline]
fn write_in(
    operations: &mut Operations,
    cf: &ColumnFamily,
    write: &Write<'_>,
    durability: Durability,
    verb: StampVerb,
) -> Result<()> {
    let ColumnFamily { inner, family, who, .. } = cf;
    let epoch = inner.engine.epoch();
    if is_watched(epoch) {
        // Something is registered: the registrar encodes the operation, and decides whether it carries a stamp.
        let registrar = inner.watching.registrar()?;
        return write.completed(inner, family, |write| {
            let (seal, mut pending) = (write.seal, write.pending(family.id()));
            registrar.commit_one(operations, &mut pending, seal, durability, (Some(who), verb)).map(drop)
        });
    }
    write.push(inner, family, operations)?;
    let verbs: &[StampVerb] = if verb == StampVerb::Insert { &[StampVerb::Insert] } else { &[] };
    inner.commit(operations, durability, epoch, Notes { who: Some(who), verbs, ..Notes::default() })
}

/// Writes to any column families of one store that commit atomically: after a crash, the store contains either all
/// writes of the batch or none.
///
/// If a write is refused (a key that is too long, a family of another store), the batch remembers the error. `commit`
/// then returns it and applies nothing. Later writes to a key win over earlier ones. Dropping a batch discards it.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// use waxseal::Durability;
///
/// let (names, ages) = (db.column_family("names")?, db.column_family("ages")?);
/// let mut batch = db.batch();
/// batch.put(&names, "1", "Ada");
/// batch.put(&ages, "1", "36");
/// batch.delete(&ages, "2");
/// batch.commit(Durability::Sync)?;
/// assert_eq!(names.get("1")?.unwrap(), "Ada");
/// # Ok(())
/// # }
/// ```
///
/// A batch writes in the name of the [`Session`](crate::Session) that created it. A batch created by [`Db`](crate::Db)
/// writes in the name of the first session handle that it receives, for all its writes. Handles of two sessions in one
/// batch are a refused write.
pub struct Batch {
    pub(crate) inner: Arc<Inner>,
    operations: Operations,
    /// The session that created the batch. `who` is the session in whose name it commits.
    made_by: Who,
    who: Who,
    /// The log names of the writes, in order. For missing entries at the end, the name follows from the operation.
    verbs: Vec<StampVerb>,
    /// The operations on tables that the writes make up.
    described: Vec<DescribedOperation>,
    is_described: bool,
    expects_unwatched: bool,
    /// The families that the batch writes to.
    families: Vec<Family>,
    /// The error of the first refused write, which `commit` returns.
    fault: Option<Error>,
}

impl Batch {
    pub(crate) fn new(inner: &Arc<Inner>, who: &Who) -> Batch {
        Batch {
            inner: Arc::clone(inner),
            operations: Operations::new(),
            made_by: who.clone(),
            who: who.clone(),
            verbs: Vec::new(),
            described: Vec::new(),
            is_described: false,
            expects_unwatched: false,
            families: Vec::new(),
            fault: None,
        }
    }

    /// Sets a key to a value.
    pub fn put(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        self.push(cf, Write::put(key.as_ref(), value.as_ref()))
    }

    /// Sets a key to a value and logs the put as `Row.Insert`. It overwrites like `put`: see
    /// [`WriteOptions::log_as_insert`].
    pub fn put_logged_as_insert(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.push_called(cf, Write::put(key.as_ref(), value.as_ref()), Some(StampVerb::Insert))
    }

    /// Sets a key to a value with a seal from the caller. If the seal does not match key and value, the write is
    /// refused (`Invalid`).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use waxseal::{Durability, Seal};
    ///
    /// let mut batch = db.batch();
    /// batch.put_sealed(&cf, "key", "value", Seal::of("key", "value"));
    /// batch.commit(Durability::Os)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_sealed(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        seal: Seal,
    ) -> &mut Batch {
        self.push(cf, Write { seal: Some(seal), ..Write::put(key.as_ref(), value.as_ref()) })
    }

    /// Sets a key to a value and stores entries (provider id and bytes) with it: see [`WriteOptions::entry`].
    pub fn put_given(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        entries: &[(u16, &[u8])],
    ) -> &mut Batch {
        self.push(cf, Write { entries, ..Write::put(key.as_ref(), value.as_ref()) })
    }

    /// Sets a key to a value, with options: an expiry, labels, entries, `log_as_insert`. The durability is a parameter
    /// of `commit`: options with a durability are a refused write (`Invalid`).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use std::time::Duration;
    /// use waxseal::{Durability, WriteOptions};
    ///
    /// let mut batch = db.batch();
    /// batch.put_with(&cf, "session", "1", WriteOptions::new().expires_in(Duration::from_secs(60)));
    /// batch.commit(Durability::Os)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_with(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> &mut Batch {
        if self.fault.is_none() {
            self.fault = self.try_put_with(cf, key.as_ref(), value.as_ref(), options).err();
        }
        self
    }

    fn try_put_with(&mut self, cf: &ColumnFamily, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if options.durability.is_some() {
            return Err(Error::invalid("a write of a batch has no durability of its own: commit says it"));
        }
        let verb = options.logged_as_insert.then_some(StampVerb::Insert);
        let write_entries = WriteEntries::of(options, &cf.inner)?;
        self.try_push(cf, write_entries.of_write(Write::put(key, value), &write_entries.entries()), verb)
    }

    /// Merges an operand into the value of a key: see [`ColumnFamily::merge`]. An operand that the family's merge
    /// operator cannot read fails the commit.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::{CfOptions, Durability, MergeOperator};
    ///
    /// let options = CfOptions { merge_operator: Some(MergeOperator::append(b",")), ..CfOptions::default() };
    /// let tags = db.create_column_family("tags", options)?;
    /// let mut batch = db.batch();
    /// batch.put(&tags, "book", "new").merge(&tags, "book", "read");
    /// batch.commit(Durability::Os)?;
    /// assert_eq!(tags.get("book")?.unwrap(), "new,read");
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Batch {
        self.push(cf, Write::merge(key.as_ref(), operand.as_ref()))
    }

    /// Removes a key.
    pub fn delete(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Batch {
        self.push(cf, Write::delete(key.as_ref()))
    }

    /// Removes all keys in a range that were written before, earlier in the batch or before its commit: see
    /// [`ColumnFamily::delete_range`]. A bound that the family's key order cannot express is a refused write; a start
    /// behind the end fails the commit.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use waxseal::Durability;
    ///
    /// cf.put("a", "old")?;
    /// let mut batch = db.batch();
    /// batch.delete_range(&cf, ..).put(&cf, "b", "new");
    /// batch.commit(Durability::Os)?;
    /// assert_eq!(cf.iter().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&mut self, cf: &ColumnFamily, range: impl KeyRange) -> &mut Batch {
        if self.fault.is_none() {
            self.fault = self.try_delete_range(cf, range.into_bounds()).err();
        }
        self
    }

    fn try_delete_range(&mut self, cf: &ColumnFamily, bounds: Bounds) -> Result<()> {
        let (start, end) = half_open(cf.order().is_bytewise(), bounds)?;
        self.try_delete_between(cf, (start.as_deref(), end.as_deref()))
    }

    /// Removes the keys from a start, included, to an end, excluded.
    pub(crate) fn try_delete_between(&mut self, cf: &ColumnFamily, bounds: RangeBounds<'_>) -> Result<()> {
        self.push_by(cf, None, |inner, operations| {
            operations.delete_range(cf.family.id(), bounds, inner.engine.companions())
        })
    }

    /// Refuses the batch: its commit fails with this error, unless an earlier one does.
    pub(crate) fn refuse(&mut self, error: Error) -> &mut Batch {
        self.fault.get_or_insert(error);
        self
    }

    /// Says that the writes since the last description are an operation on a table, for layers that keep tables in column
    /// families. If the operation is registered on the target, its event is written with the commit. Registrations of the
    /// whole store then log the described operations in place of the writes themselves. Costs nothing unless something is
    /// registered: ask [`Db::is_watched`](crate::Db::is_watched) before describing.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use waxseal::Durability;
    /// use waxseal::registry::{Operation, Payload, TableName, Target};
    ///
    /// let emma = Target::row(TableName::new("library", "books"), vec![b"Emma".to_vec()], vec![]);
    /// let mut batch = db.batch();
    /// batch.put(&cf, "books/Emma", "1815").describe(emma, Operation::ROW_INSERT, Payload::new());
    /// batch.commit(Durability::Os)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(&mut self, target: Target, operation: Operation, payload: Payload) -> &mut Batch {
        let at = (self.operations.len() as u64).saturating_sub(1);
        self.described.push(DescribedOperation { at, target, operation, payload });
        self.describe_nothing()
    }

    /// Says that the writes belong to a layer that describes its operations, and that they make up none: registrations of
    /// the whole store do not log them.
    pub fn describe_nothing(&mut self) -> &mut Batch {
        self.is_described = true;
        self
    }

    /// Lets the commit fail with `Conflict` if anything is registered: the caller has described nothing because
    /// [`Db::is_watched`](crate::Db::is_watched) was false.
    pub fn expect_unwatched(&mut self) -> &mut Batch {
        self.expects_unwatched = true;
        self
    }

    /// Makes all writes of the batch visible atomically, and empties the batch for reuse. On an error the batch keeps
    /// its writes, and nothing was applied unless the error says otherwise.
    pub fn commit(&mut self, durability: Durability) -> Result<()> {
        self.ready()?;
        if !self.operations.is_empty() {
            let epoch = self.inner.engine.epoch();
            let Batch { inner, operations, who, verbs, described, is_described, expects_unwatched, .. } = self;
            let (is_described, expects_unwatched) = (*is_described, *expects_unwatched);
            let notes = Notes { who: Some(who), verbs, described, is_described, expects_unwatched };
            inner.commit(operations, durability, epoch, notes)?;
            self.clear();
        }
        Ok(())
    }

    /// Adds a put now, for a transaction. Errors: those that refuse it; the batch is unchanged then.
    pub(crate) fn put_now(&mut self, cf: &ColumnFamily, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        self.try_put_with(cf, key, value, options)
    }

    /// Adds a delete now, for a transaction. Errors: those that refuse it; the batch is unchanged then.
    pub(crate) fn delete_now(&mut self, cf: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.try_push(cf, Write::delete(key), None)
    }

    /// Adds a merge operand now, for a transaction. Errors: those that refuse it, and `Invalid` if the family's operator
    /// cannot read it; the batch is unchanged then.
    pub(crate) fn merge_now(&mut self, cf: &ColumnFamily, key: &[u8], operand: &[u8]) -> Result<()> {
        cf.family.check_operand(key, operand)?;
        self.try_push(cf, Write::merge(key, operand), None)
    }

    /// Adds a range delete now, for a transaction. Errors: those that refuse it, and `Invalid` for a start behind the
    /// end; the batch is unchanged then.
    pub(crate) fn delete_range_now(&mut self, cf: &ColumnFamily, bounds: Bounds) -> Result<()> {
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) = &bounds
            && cf.order().compare(start, end).is_gt()
        {
            return Err(Error::invalid("the start of the range is behind its end"));
        }
        self.try_delete_range(cf, bounds)
    }

    /// Makes all writes visible atomically while a condition holds. Errors: those of `commit` and of the condition.
    pub(crate) fn commit_when(&mut self, durability: Durability, condition: &mut dyn Condition) -> Result<()> {
        self.ready()?;
        let Batch { inner, operations, who, verbs, described, is_described, expects_unwatched, .. } = self;
        let (is_described, expects_unwatched) = (*is_described, *expects_unwatched);
        let notes = Notes { who: Some(who), verbs, described, is_described, expects_unwatched };
        match inner.commit_when(operations, durability, notes, condition)? {
            true => Ok(()),
            false => Err(Error::of(ErrorKind::Conflict, "another commit came first")),
        }
    }

    /// Returns the position after the writes so far.
    pub(crate) fn mark(&self) -> BatchMark {
        BatchMark {
            operations: self.operations.position(),
            verbs: self.verbs.len(),
            described: self.described.len(),
            families: self.families.len(),
            who: self.who.clone(),
        }
    }

    /// Removes the writes after a position of this batch.
    pub(crate) fn truncate(&mut self, mark: &BatchMark) {
        self.operations.truncate(&mark.operations);
        self.verbs.truncate(mark.verbs);
        self.described.truncate(mark.described);
        self.families.truncate(mark.families);
        self.who = mark.who.clone();
    }

    /// Returns the operations after a position of this batch.
    pub(crate) fn operations_after(&self, position: &BatchPosition) -> BatchOperations<'_> {
        self.operations.operations_after(position)
    }

    /// Returns a family that the batch writes to.
    pub(crate) fn family(&self, id: u32) -> Option<&Family> {
        self.families.iter().find(|family| family.id() == id)
    }

    /// Checks whether the batch can commit.
    fn ready(&self) -> Result<()> {
        self.inner.check_writable()?;
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.families.iter().try_for_each(|family| self.inner.check(family))
    }

    /// Returns the error of the refused write, if any: the error that `commit` would return.
    pub fn check(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Returns the durability of the store's writes that do not set one.
    pub fn durability(&self) -> Durability {
        self.inner.engine.durability()
    }

    /// Discards all writes, including a refused one.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.verbs.clear();
        self.described.clear();
        (self.is_described, self.expects_unwatched) = (false, false);
        self.families.clear();
        self.fault = None;
        if !self.who.is(&self.made_by) {
            self.who = self.made_by.clone();
        }
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Estimates how many bytes the commit will take in the log.
    pub fn bytes(&self) -> usize {
        self.operations.encoded_bytes()
    }

    /// Creates a batch of one write, and returns it with the durability that its options ask for. Errors: those that
    /// refuse the write.
    #[cfg(feature = "tokio")]
    pub(crate) fn one(cf: &ColumnFamily, write: Write<'_>, options: WriteOptions) -> Result<(Batch, Durability)> {
        let durability = options.durability.unwrap_or(cf.inner.engine.durability());
        let verb = options.logged_as_insert.then_some(StampVerb::Insert);
        let write_entries = WriteEntries::of(options, &cf.inner)?;
        let mut batch = Batch::new(&cf.inner, &cf.who);
        batch.try_push(cf, write_entries.of_write(write, &write_entries.entries()), verb)?;
        Ok((batch, durability))
    }

    /// Creates a batch of one range delete, and returns it with the durability that its options ask for. Errors: those
    /// that refuse the range delete.
    pub(crate) fn one_range(
        cf: &ColumnFamily,
        range: impl KeyRange,
        options: WriteOptions,
    ) -> Result<(Batch, Durability)> {
        let durability = options.of_range(cf.inner.engine.durability())?;
        let mut batch = Batch::new(&cf.inner, &cf.who);
        batch.try_delete_range(cf, range.into_bounds())?;
        Ok((batch, durability))
    }

    /// Creates an empty batch of the same session.
    #[cfg(feature = "tokio")]
    pub(crate) fn another(&self) -> Batch {
        Batch::new(&self.inner, &self.made_by)
    }

    /// Commits with `Os` if that needs no waiting. Otherwise returns false and applies nothing.
    #[cfg(feature = "tokio")]
    pub(crate) fn commit_at_once(&mut self) -> Result<bool> {
        self.ready()?;
        let epoch = self.inner.engine.epoch();
        if is_watched(epoch) || self.operations.encoded_bytes() > KEPT_BYTES {
            return Ok(false); // something is registered, or the batch is large
        }
        let is_done = self.is_empty()
            || self
                .inner
                .engine
                .commit_if(&mut self.operations, Durability::Os, Precondition::epoch(epoch).without_waiting())?
                .is_some();
        if is_done {
            self.clear();
        }
        Ok(is_done)
    }

    #[inline]
    pub(crate) fn push(&mut self, cf: &ColumnFamily, write: Write<'_>) -> &mut Batch {
        self.push_called(cf, write, None)
    }

    fn push_called(&mut self, cf: &ColumnFamily, write: Write<'_>, verb: Option<StampVerb>) -> &mut Batch {
        if self.fault.is_none() {
            self.fault = self.try_push(cf, write, verb).err();
        }
        self
    }

    fn try_push(&mut self, cf: &ColumnFamily, write: Write<'_>, verb: Option<StampVerb>) -> Result<()> {
        self.push_by(cf, verb, |inner, operations| write.push(inner, &cf.family, operations))
    }

    /// Adds an operation by `push`, which leaves the operations unchanged if it fails.
    #[inline]
    fn push_by(
        &mut self,
        cf: &ColumnFamily,
        verb: Option<StampVerb>,
        push: impl FnOnce(&Inner, &mut Operations) -> Result<()>,
    ) -> Result<()> {
        if !Arc::ptr_eq(&self.inner, &cf.inner) {
            return Err(Error::invalid(format!(
                "column family {:?} belongs to another store than the batch",
                cf.name()
            )));
        }
        if !cf.who.is(&self.who) {
            self.meet(&cf.who)?;
        }
        push(&self.inner, &mut self.operations)?;
        self.operations.hold();
        if let Some(verb) = verb {
            // Earlier writes without an explicit name have the name of their operation; `Update` on a delete means
            // `Row.Delete`.
            self.verbs.resize(self.operations.len() - 1, StampVerb::Update);
            self.verbs.push(verb);
        }
        if !self.families.contains(&cf.family) {
            self.families.push(cf.family.clone());
        }
        Ok(())
    }

    /// Adopts the session of a handle, or refuses a second one.
    #[cold]
    fn meet(&mut self, other: &Who) -> Result<()> {
        if other.is(&Who::ANONYMOUS) {
            return Ok(());
        }
        if self.who.is(&Who::ANONYMOUS) {
            self.who = other.clone();
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a batch is written in one name: this one is of {:?}, and was given a handle of {:?}",
            self.who.name(),
            other.name()
        )))
    }
}

/// A position in a batch, between the writes before it and those added later.
pub(crate) struct BatchMark {
    operations: BatchPosition,
    verbs: usize,
    described: usize,
    families: usize,
    who: Who,
}

impl BatchMark {
    /// Returns the position in the encoded operations.
    pub(crate) fn operations(&self) -> &BatchPosition {
        &self.operations
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).field("fault", &self.fault).finish_non_exhaustive()
    }
}
