//! Ingestion: writes external records to a family, all under one new seqno. Also the raw records that an export reads.
//!
//! In:    a function that opens a cursor over records in internal order; it is called twice.
//! Out:   one level-0 table with the newest record of each key, as if all records had been written in one commit.
//! Path:  the first pass checks every record and changes nothing -> a log frame takes a seqno, and the family's
//!        memtable is frozen at exactly that position in the commit order -> memtables up to there are flushed -> the
//!        second pass copies the records, with companions bound to the seqno -> one edit.
//! Holds: in every table and memtable, earlier commits are older and later commits are newer than the ingested records.
//!        The first hit of a read decides, so no memtable or table may hold records from both sides of the seqno. A
//!        snapshot taken between seqno and edit holds its views, so that the records do not appear in it later (I13).
//! Crash: before the edit, only a seqno without records exists; after it, all records.
//!
//! The records are copied rather than linked: each one is verified in both passes, and the tables of this store hold no
//! seqno that another store assigned.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::background::Lane;
use super::family::{Family, View};
use super::install::Replaced;
use super::reads::{Bounds, LevelPart};
use super::snapshot::{At, Snapshot};
use super::{Db, Families, Inner};
use crate::batch::Batch;
use crate::checksum::hash_key;
use crate::codec::{Reader, put_varint};
use crate::compaction::output::write_tables;
use crate::compaction::{Rules, Splitter};
use crate::cursor::Cursor;
use crate::env::work::or_undo;
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::fence::Fence;
use crate::interrupt;
use crate::ledger::Ledger;
use crate::merge::{ConcatCursor, MergeCursor};
use crate::order::Order;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Deed, Protection, Source};
use crate::values::Room;
use crate::version::{Edit, TableMeta};
use crate::wal::{Then, Under};

/// The id that no family ever has. An operation with this id takes a seqno and holds no data (docs/format.md, section
/// 5.2).
pub(super) const NO_FAMILY: u32 = u32::MAX;

/// The result of an ingestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ingested {
    /// The seqno of every ingested record; 0 if the source had none.
    pub seqno: Seqno,
    /// Number of ingested records.
    pub records: u64,
    /// Versions skipped because the source has a newer version of the same key.
    pub superseded: u64,
    /// The number of the new table, if one was written.
    pub table: Option<u64>,
    /// The size of the new table in bytes.
    pub bytes: u64,
}

/// All versions of a family's records within bounds, up to a seqno, in internal order; forward only.
pub struct Raw {
    cursor: Box<dyn Cursor>,
    order: Order,
    seqno: Seqno,
    bounds: Bounds,
    started: bool,
    /// Buffer for values from blob files.
    room: Room,
    /// Pins the visible versions.
    _snapshot: Snapshot,
    view: Arc<View>,
}

impl Db {
    /// Returns the record protector, for sharing.
    pub fn keeper(&self) -> &Arc<dyn Companions> {
        &self.inner().companions
    }

    /// Returns every version within bounds at or below the seqno of `at`, with its companions and its location. Its
    /// reads do not populate the block cache. Fails with `Corruption` if records were lost within the bounds;
    /// unreadable records are errors of the iteration.
    pub fn raw(&self, family: &Family, at: At<'_>, bounds: Bounds) -> Result<Raw> {
        let inner = self.open_inner()?;
        let snapshot = match at {
            At::Snapshot(snapshot) => snapshot.clone(),
            At::Latest => self.snapshot()?,
        };
        let seqno = inner.seqno(At::Snapshot(&snapshot))?;
        let view = snapshot.view_of(family)?;
        if let Some(fence) = view.fences.iter().find(|fence| meets(family.order(), fence, &bounds)) {
            return Err(fence.error());
        }
        let cursor = raw_cursor(family, &view)?;
        let (order, room) = (family.order().clone(), Room::default());
        Ok(Raw { cursor, order, seqno, bounds, started: false, room, view, _snapshot: snapshot })
    }

    /// Ingests the newest record of each key that `open` supplies, tombstones included, in one commit that is durable
    /// when the call returns. `open` is called twice and must supply the same records both times. Reads continue
    /// meanwhile, and writes continue while memtables have space. No flush runs during the second pass, so the source
    /// must not wait for a write to this store.
    ///
    /// Errors: `Corruption` with file and offset for a record that does not match its companion, that lacks the
    /// companion which its file promises, or that is out of order. Then nothing was changed. `Invalid` for record kinds
    /// that this version does not write. Companions of an unknown algorithm are dropped, and so are all companions on a
    /// node without a record protector.
    pub fn ingest(&self, family: &Family, open: &mut dyn FnMut() -> Result<Box<dyn Cursor>>) -> Result<Ingested> {
        let (inner, _) = self.writable()?;
        if family.options().system.is_some() {
            return Err(Error::invalid("nothing is ingested into a system family"));
        }
        let (order, started) = (family.order(), inner.now_nanos());
        let mut first = NewestOnly::new(open()?, order.clone(), inner.companions.clone(), MAX_SEQNO);
        let mut expected = Ledger::default();
        first.first()?;
        while first.valid() {
            interrupt::check()?;
            let record = first.record();
            expected.add(record.kind, inner.companions.term(&record));
            first.next()?;
        }
        if expected.count() == 0 {
            return Ok(Ingested::default());
        }
        let superseded = first.superseded;
        let _job = inner.job()?;
        if family.is_dropped() {
            return Err(Error::invalid("the family was dropped"));
        }
        inner.ingesting.fetch_add(1, Ordering::SeqCst);
        let _shown_at_the_end = Shown(inner);
        let seqno = inner.take_seqno(family, Then::Stay, |_| {})?;
        inner.flush_frozen(&|other| other == family, seqno)?;
        let second = NewestOnly::new(open()?, order.clone(), inner.companions.clone(), seqno);
        let meta = inner.write_ingested(family, second, seqno, expected)?;
        let (table, bytes) = (meta.number, meta.size);
        inner.install_ingested(family, meta, started)?;
        Ok(Ingested { seqno, records: expected.count(), superseded, table: Some(table), bytes })
    }
}

impl Inner {
    /// Makes a snapshot taken between an ingestion's seqno and its edit hold its views. Whether such a snapshot sees
    /// the records is thus fixed. A snapshot taken before the ingestion incremented the counter has a lower seqno than
    /// the records.
    pub(super) fn held_while_ingesting(&self, snapshot: Snapshot) -> Snapshot {
        if self.ingesting.load(Ordering::SeqCst) == 0 {
            return snapshot;
        }
        let views = self.families().by_id.iter().map(|(id, family)| (*id, family.pinned_view())).collect();
        snapshot.holding(views)
    }

    /// Takes a seqno without a record, at which the family's memtable is frozen. `then` changes the configuration epoch
    /// from this seqno on.
    pub(super) fn take_seqno(&self, family: &Family, then: Then, on_ordered: impl FnOnce(Seqno)) -> Result<Seqno> {
        let Some(log) = &self.log else { return Err(Error::invalid("the store has no log")) };
        let mut id = Vec::new();
        put_varint(&mut id, family.id().into());
        let mut batch = Batch::new();
        batch.push_with(NO_FAMILY, Kind::Delete, &id, b"", &[])?;
        let body = batch.seal();
        let under = Under { then, ..Under::default() };
        let ordered = || log.wal().order_under(&body, body.clone(), &under, on_ordered);
        let ticket = or_undo(ordered, || self.halt_unwound("a commit was ordered"));
        let ticket = ticket.inspect_err(|error| self.note_halted(error))?;
        let ticket = ticket.ok_or_else(|| Error::structural("refused under any rules"))?;
        log.wal().copy(&ticket, &body).inspect_err(|error| self.note_halted(error))?;
        self.apply_through(log, ticket.end).inspect_err(|error| self.note_halted(error))?;
        Ok(ticket.seqno)
    }

    fn write_ingested(
        &self,
        family: &Family,
        mut records: NewestOnly,
        seqno: Seqno,
        expected: Ledger,
    ) -> Result<TableMeta> {
        let next_file = || self.new_file_number();
        let job = self.pass_over(family, 0, seqno, (expected, true), &next_file);
        let rules = Rules::new(family.order().clone(), Vec::new(), |_: &[u8]| false);
        let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
        let tables = write_tables(&job, &mut records, rules, splitter)?;
        self.sync_dir_before_edit()?;
        tables.into_iter().next().ok_or_else(|| Error::invalid("what was to be ingested is not there any more"))
    }

    fn install_ingested(&self, family: &Family, meta: TableMeta, started: u64) -> Result<()> {
        let moment = self.sync_log()?; // I15
        let mut edit = Edit::default();
        let replaced = Replaced::tables(family, Vec::new(), vec![(0, Arc::new(meta))]);
        edit.changes.extend(replaced.changes());
        self.tell(&mut edit, Deed::Ingested, std::slice::from_ref(&replaced), None, started);
        let said = self.log_changes(&mut edit, moment, &[]);
        self.install(edit, Some(replaced))?;
        self.end_log_edit(said);
        self.note_stall();
        self.background.kick(Lane::Compact);
        Ok(())
    }
}

/// Decrements the ingestion counter when dropped, even after a failure.
struct Shown<'a>(&'a Inner);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.ingesting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Freezes the memtable of the family that an operation for `NO_FAMILY` names; under the apply lock, in commit order.
pub(super) fn freeze_named(families: &Families, key: &[u8], seqno: Seqno) {
    let id = Reader::new(key).varint().ok().and_then(|id| u32::try_from(id).ok());
    if let Some(family) = id.and_then(|id| families.by_id.get(&id)) {
        family.freeze(seqno);
    }
}

/// Opens a cursor over all records of a view in internal order. Unreadable data is an error, not a lost range; the
/// block cache is not populated.
fn raw_cursor(family: &Family, view: &View) -> Result<Box<dyn Cursor>> {
    let order = family.order();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for generation in [&view.active].into_iter().chain(&view.frozen) {
        if !generation.memtable.is_empty() {
            sources.push(Box::new(generation.memtable.cursor()));
        }
    }
    for table in view.levels.level(0).tables() {
        sources.push(Box::new(table.table()?.cursor(false)));
    }
    for level in view.levels.iter().skip(1).filter(|level| !level.tables().is_empty()) {
        let parts = level.tables().iter().map(|table| LevelPart { table: table.clone(), fill_cache: false });
        sources.push(Box::new(ConcatCursor::new(order.clone(), parts.collect())));
    }
    Ok(match sources.len() {
        1 => sources.remove(0),
        _ => Box::new(MergeCursor::new(order.clone(), sources)),
    })
}

/// Returns true if records may have been lost within bounds.
fn meets(order: &Order, fence: &Fence, (low, high): &Bounds) -> bool {
    let begins = match high {
        Bound::Included(high) => order.compare(&fence.from.0, high).is_le(),
        Bound::Excluded(high) => order.compare(&fence.from.0, high).is_lt(),
        Bound::Unbounded => true,
    };
    let ends = match low {
        Bound::Included(low) => order.compare(&fence.to.0, low).is_ge(),
        Bound::Excluded(low) => order.compare(&fence.to.0, low).is_gt(),
        Bound::Unbounded => true,
    };
    begins && ends
}

impl Raw {
    /// Advances to the next record, initially the first; returns `None` after the last. A value in a blob file is read.
    #[allow(clippy::should_implement_trait, reason = "it lends what an iterator would have to own, and may fail")]
    pub fn next(&mut self) -> Result<Option<(Record<'_>, Source<'_>)>> {
        if !self.started {
            self.started = true;
            match &self.bounds.0 {
                Bound::Included(low) | Bound::Excluded(low) => self.cursor.seek(low, MAX_SEQNO)?,
                Bound::Unbounded => self.cursor.first()?,
            }
        } else if self.cursor.valid() {
            self.cursor.next()?;
        }
        while self.cursor.valid() && self.is_passed_over() {
            self.cursor.next()?;
        }
        if !self.cursor.valid() || self.is_behind() {
            return Ok(None);
        }
        let record = self.cursor.record();
        if record.kind == Kind::Fence {
            return Err(Fence::shown(&record).map_or_else(|error| error, |fence| fence.error()));
        }
        let record = match &self.view.values {
            Some(shelf) => shelf.resolve(&record, true, &mut self.room)?,
            None => record,
        };
        Ok(Some((record, self.cursor.source())))
    }

    fn is_passed_over(&self) -> bool {
        let record = self.cursor.record();
        let at_the_bound =
            matches!(&self.bounds.0, Bound::Excluded(low) if self.order.compare(low, record.key).is_eq());
        record.seqno > self.seqno || at_the_bound
    }

    fn is_behind(&self) -> bool {
        let key = self.cursor.record().key;
        match &self.bounds.1 {
            Bound::Included(high) => self.order.compare(key, high).is_gt(),
            Bound::Excluded(high) => self.order.compare(key, high).is_ge(),
            Bound::Unbounded => false,
        }
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raw").field("seqno", &self.seqno).finish_non_exhaustive()
    }
}

/// The newest record of each key, verified in place, under another seqno; forward only.
struct NewestOnly {
    inner: Box<dyn Cursor>,
    order: Order,
    keeper: Arc<dyn Companions>,
    seqno: Seqno,
    /// Key of the inner cursor's record, once it was verified. `old` is its seqno in the source.
    key: Vec<u8>,
    old: Seqno,
    has_key: bool,
    companion: Vec<u8>,
    superseded: u64,
}

impl NewestOnly {
    fn new(inner: Box<dyn Cursor>, order: Order, keeper: Arc<dyn Companions>, seqno: Seqno) -> NewestOnly {
        let (key, companion) = (Vec::new(), Vec::new());
        NewestOnly { inner, order, keeper, seqno, key, old: 0, has_key: false, companion, superseded: 0 }
    }

    /// Verifies the inner cursor's current record, and advances to the newest record of the next key.
    fn settle(&mut self) -> Result<()> {
        while self.inner.valid() {
            let (record, source) = (self.inner.record(), self.inner.source());
            let step = if self.has_key { self.order.compare(&self.key, record.key) } else { std::cmp::Ordering::Less };
            let ordered = step.is_lt() || (step.is_eq() && record.seqno < self.old);
            check(&*self.keeper, &record, source, ordered)?;
            self.old = record.seqno;
            if step.is_lt() {
                self.key.clear();
                self.key.extend_from_slice(record.key);
                self.has_key = true;
                self.companion.clear();
                let known = self.keeper.protection() != Protection::None && source.protection != Protection::Foreign;
                if known && !record.companion.is_empty() {
                    self.companion.extend_from_slice(record.companion);
                    self.keeper.bind(&mut self.companion, Some(record.seqno), self.seqno);
                }
                return Ok(());
            }
            self.superseded += 1;
            self.inner.next()?;
        }
        Ok(())
    }
}

/// Checks whether a record may be ingested.
fn check(keeper: &dyn Companions, record: &Record<'_>, source: Source<'_>, ordered: bool) -> Result<()> {
    let refused = |verdict, message: &str| {
        let key_range = Some((record.key.to_vec(), record.key.to_vec()));
        let damage = Damage { verdict, key_range, ..Damage::default() };
        Err(Error::corruption(damage, message).in_file(source.file, source.offset))
    };
    if !ordered {
        return refused(Verdict::Structural, "records of another store are out of order");
    }
    if !matches!(record.kind, Kind::Put | Kind::Delete) {
        let what = format!("a record of kind {:?}, which this version does not write", record.kind);
        return Err(Error::of(ErrorKind::FormatTooNew, what));
    }
    match keeper.verify(record, hash_key(record.key), source.protection) {
        Check::Validated | Check::Unverified => Ok(()),
        Check::Missing => refused(Verdict::Missing, "a record has no companion, and its file promises one"),
        Check::CompanionDamaged | Check::Corrupted => refused(Verdict::Seal, "a record does not match its companion"),
    }
}

fn front_to_back() -> Error {
    Error::invalid("what is ingested is read front to back")
}

impl Cursor for NewestOnly {
    fn seek(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(front_to_back())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(front_to_back())
    }
    fn first(&mut self) -> Result<()> {
        self.inner.first()?;
        self.settle()
    }
    fn last(&mut self) -> Result<()> {
        Err(front_to_back())
    }
    fn next(&mut self) -> Result<()> {
        self.inner.next()?;
        self.settle()
    }
    fn prev(&mut self) -> Result<()> {
        Err(front_to_back())
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn record(&self) -> Record<'_> {
        Record { seqno: self.seqno, companion: &self.companion, ..self.inner.record() }
    }
    fn source(&self) -> Source<'_> {
        let source = self.inner.source();
        // A dropped companion no longer protects the record.
        let protection = if self.companion.is_empty() { Protection::None } else { source.protection };
        Source { protection, ..source }
    }
}
