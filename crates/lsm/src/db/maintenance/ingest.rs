//! Ingestion: writes external records to a family, all under one new seqno. Also the raw records that an export reads.
//!
//! In:    a function that opens a cursor over records in internal order; it is called twice.
//! Out:   one level-0 table with the newest record of each key, as if all records had been written in one commit.
//! Path:  the first pass checks every record and changes nothing -> seqno and flush (`ingestion.rs`) -> the second pass
//!        copies the records, with companions bound to the seqno -> one edit.
//! Holds and crash: as `ingestion.rs`.
//!
//! The records are copied rather than linked: each one is verified in both passes, and the tables of this store hold no
//! seqno that another store assigned.

use std::ops::Bound;
use std::sync::Arc;

use super::ingestion::{Ingestion, check_family};
use super::placed_files::PlacedFiles;
use crate::checksum::hash_key;
use crate::compaction::output::write_tables;
use crate::compaction::{Rules, Splitter};
use crate::cursor::Cursor;
use crate::db::catalog::view_change::Replaced;
use crate::db::jobs::compact::Compactor;
use crate::db::state::family::{Family, View};
use crate::db::state::snapshot::Snapshot;
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::interrupt;
use crate::ledger::Ledger;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::range_index::RangeIndex;
use crate::read::CursorBounds;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Protection, RecordSource};
use crate::values::BlobBuffer;
use crate::version::TableMeta;

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

/// All versions of a family's records within bounds, up to a seqno, in internal order; forward only. Versions that a
/// range delete hides are skipped.
pub struct Raw {
    pub(in crate::db) cursor: Box<dyn Cursor>,
    pub(in crate::db) order: Order,
    pub(in crate::db) seqno: Seqno,
    pub(in crate::db) bounds: CursorBounds,
    pub(in crate::db) started: bool,
    pub(in crate::db) ranges: Option<Arc<RangeIndex>>,
    /// Buffer for values from blob files.
    pub(in crate::db) room: BlobBuffer,
    /// Pins the visible versions.
    pub(in crate::db) _snapshot: Snapshot,
    pub(in crate::db) view: Arc<View>,
}

/// Ingests records; see `Db::ingest`.
pub(in crate::db) fn ingest(
    compactor: &Compactor,
    family: &Family,
    open: &mut dyn FnMut() -> Result<Box<dyn Cursor>>,
) -> Result<Ingested> {
    check_family(family)?;
    let (order, started) = (family.order(), compactor.context().now_nanos());
    let mut first = NewestOnly::new(open()?, order.clone(), compactor.context().companions.clone(), MAX_SEQNO);
    let mut expected = Ledger::default();
    first.first()?;
    while first.valid() {
        interrupt::check()?;
        let record = first.record();
        expected.add(record.kind, compactor.context().companions.term(&record));
        first.next()?;
    }
    if expected.count() == 0 {
        return Ok(Ingested::default());
    }
    let superseded = first.superseded;
    let ingestion = Ingestion::begin(compactor, vec![family], started)?;
    let seqno = ingestion.take_seqnos()?;
    let second = NewestOnly::new(open()?, order.clone(), compactor.context().companions.clone(), seqno);
    let meta = write_ingested(compactor, family, second, seqno, expected)?;
    let (table, bytes) = (meta.number, meta.size);
    let mut placed = PlacedFiles::new(compactor);
    placed.adopt(std::slice::from_ref(&meta));
    ingestion.install(seqno, vec![Replaced::tables(family, Vec::new(), vec![(0, Arc::new(meta))])], &mut placed)?;
    Ok(Ingested { seqno, records: expected.count(), superseded, table: Some(table), bytes })
}

fn write_ingested(
    compactor: &Compactor,
    family: &Family,
    mut records: NewestOnly,
    seqno: Seqno,
    expected: Ledger,
) -> Result<TableMeta> {
    let next_file = || compactor.catalog().new_file_number();
    let job = compactor.pass_over(family, 0, seqno, (expected, true), &next_file);
    let rules = Rules::new(family.order().clone(), Vec::new(), |_: &[u8]| false);
    let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
    let tables = write_tables(&job, &mut records, rules, splitter)?;
    compactor.store_log().sync_dir_before_edit()?;
    tables.into_iter().next().ok_or_else(|| Error::invalid("what was to be ingested is not there any more"))
}

/// Returns true if records may have been lost within bounds.
pub(in crate::db) fn meets(order: &Order, lost_range: &LostRange, (low, high): &CursorBounds) -> bool {
    let begins = match high {
        Bound::Included(high) => order.compare(&lost_range.from.0, high).is_le(),
        Bound::Excluded(high) => order.compare(&lost_range.from.0, high).is_lt(),
        Bound::Unbounded => true,
    };
    let ends = match low {
        Bound::Included(low) => order.compare(&lost_range.to.0, low).is_ge(),
        Bound::Excluded(low) => order.compare(&lost_range.to.0, low).is_gt(),
        Bound::Unbounded => true,
    };
    begins && ends
}

impl Raw {
    /// Advances to the next record, initially the first; returns `None` after the last. A value in a blob file is read.
    #[allow(clippy::should_implement_trait, reason = "it lends what an iterator would have to own, and may fail")]
    pub fn next(&mut self) -> Result<Option<(Record<'_>, RecordSource<'_>)>> {
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
            return Err(LostRange::shown(&record).map_or_else(|error| error, |lost_range| lost_range.error()));
        }
        let record = match &self.view.values {
            Some(blob_files) => blob_files.resolve(&record, true, &mut self.room)?,
            None => record,
        };
        Ok(Some((record, self.cursor.source())))
    }

    fn is_passed_over(&self) -> bool {
        let record = self.cursor.record();
        let at_the_bound =
            matches!(&self.bounds.0, Bound::Excluded(low) if self.order.compare(low, record.key).is_eq());
        let hides = |ranges: &Arc<RangeIndex>| ranges.newest_over(record.key, self.seqno) > record.seqno;
        record.seqno > self.seqno || at_the_bound || self.ranges.as_ref().is_some_and(hides)
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
pub(super) struct NewestOnly {
    inner: Box<dyn Cursor>,
    order: Order,
    protector: Arc<dyn Companions>,
    seqno: Seqno,
    /// Key of the inner cursor's record, once it was verified. `old` is its seqno in the source.
    key: Vec<u8>,
    old: Seqno,
    has_key: bool,
    companion: Vec<u8>,
    superseded: u64,
}

impl NewestOnly {
    pub(super) fn new(
        inner: Box<dyn Cursor>,
        order: Order,
        protector: Arc<dyn Companions>,
        seqno: Seqno,
    ) -> NewestOnly {
        let (key, companion) = (Vec::new(), Vec::new());
        NewestOnly { inner, order, protector, seqno, key, old: 0, has_key: false, companion, superseded: 0 }
    }

    /// Verifies the inner cursor's current record, and advances to the newest record of the next key.
    fn settle(&mut self) -> Result<()> {
        while self.inner.valid() {
            let (record, source) = (self.inner.record(), self.inner.source());
            let step = if self.has_key { self.order.compare(&self.key, record.key) } else { std::cmp::Ordering::Less };
            let ordered = step.is_lt() || (step.is_eq() && record.seqno < self.old);
            check(&*self.protector, &record, source, ordered)?;
            self.old = record.seqno;
            if step.is_lt() {
                self.key.clear();
                self.key.extend_from_slice(record.key);
                self.has_key = true;
                self.companion.clear();
                let known = self.protector.protection() != Protection::None && source.protection != Protection::Foreign;
                if known && !record.companion.is_empty() {
                    self.companion.extend_from_slice(record.companion);
                    self.protector.bind(&mut self.companion, Some(record.seqno), self.seqno);
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
fn check(protector: &dyn Companions, record: &Record<'_>, source: RecordSource<'_>, ordered: bool) -> Result<()> {
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
    match protector.verify(record, hash_key(record.key), source.protection) {
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
    fn source(&self) -> RecordSource<'_> {
        let source = self.inner.source();
        // A dropped companion no longer protects the record.
        let protection = if self.companion.is_empty() { Protection::None } else { source.protection };
        RecordSource { protection, ..source }
    }
}
