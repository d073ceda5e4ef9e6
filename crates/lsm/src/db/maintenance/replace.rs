//! Replacement of tables by their remaining records, lost ranges, and quarantine; used by repairs. Each change is one
//! edit.
//!
//! In:     held tables, which no compaction processes meanwhile; the records that replace their contents.
//! Before: the new tables and the directory are synced (I04); the ledger of the new tables matches the caller's (I11).
//! After:  one edit has removed the old tables, added the new ones, and added and removed lost ranges.
//! Crash:  before the edit, unnamed files that the next open removes; after it, the complete change.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::checksum::Uid;
use crate::compaction::output::{PassOptions, write_pass};
use crate::compaction::{OutputRange, Rules, Splitter};
use crate::cursor::Cursor;
use crate::db::catalog::view_change::Replaced;
use crate::db::jobs::compact::Compactor;
use crate::db::jobs::quarantine::{QuarantinedItem, quarantine_row, quarantine_tables, write_quarantine};
use crate::db::notify::events::Event;
use crate::db::notify::lanes::Lane;
use crate::db::state::family::{Family, TableHandle};
use crate::db::writes::write_path::WritePath;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Emitted, EngineEvent, RecordSource};
use crate::values::BlobFile;
use crate::version::{Edit, LEVELS, TableMeta};

/// Tables that no compaction picks until this value is dropped. They stay readable. Closing the store waits for the
/// drop.
pub struct HeldTables<'a> {
    compactor: &'a Compactor,
    family: Family,
    tables: Vec<(usize, Arc<TableHandle>)>,
    pub(in crate::db) span: Option<OutputRange>,
    /// Blob files under collection, whose values are rewritten.
    collects: BTreeSet<Uid>,
    /// Blob files kept alive until the edit.
    keeps: Vec<Arc<BlobFile>>,
}

/// The contents that replace held tables.
pub struct Replacement<'a> {
    /// The remaining records, in internal order, with keys within the bounds of the removed tables; `None` leaves no
    /// record.
    pub records: Option<&'a mut dyn Cursor>,
    /// Counts and sums of these records, computed by the caller.
    pub expected: Ledger,
    /// True if `expected` has sums; otherwise only counts are compared.
    pub summed: bool,
    /// At or below every seqno of the records, except 0.
    pub base_seqno: Seqno,
    /// Key ranges whose records are permanently lost.
    pub fenced: Vec<LostRange>,
    /// Numbers of the lost ranges to remove.
    pub lifted: Vec<u64>,
}

impl<'a> HeldTables<'a> {
    pub(in crate::db) fn find(compactor: &'a Compactor, family: &Family, numbers: &[u64]) -> Option<HeldTables<'a>> {
        let tables = HeldTables::locate(family, numbers)?;
        let span = hull(family.order(), &tables);
        Some(HeldTables {
            compactor,
            family: family.clone(),
            tables,
            span,
            collects: BTreeSet::new(),
            keeps: Vec::new(),
        })
    }

    /// Declares blob files under collection: the new tables do not point into them, and the values are rewritten.
    #[must_use]
    pub fn collecting(mut self, values: BTreeSet<Uid>) -> HeldTables<'a> {
        self.collects = values;
        self
    }

    /// Keeps blob files alive, so that the replacement records may point into them.
    #[must_use]
    pub fn keeping(mut self, values: Vec<Arc<BlobFile>>) -> HeldTables<'a> {
        self.keeps = values;
        self
    }

    fn locate(family: &Family, numbers: &[u64]) -> Option<Vec<(usize, Arc<TableHandle>)>> {
        let view = family.view();
        let find = |number: &u64| {
            (0..LEVELS).find_map(|level| view.levels.get(level, *number).map(|table| (level, table.clone())))
        };
        numbers.iter().map(find).collect()
    }

    /// Returns level and metadata of each table, in the requested order.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableMeta>)> {
        self.tables.iter().map(|(level, table)| (*level, table.meta()))
    }

    /// Replaces the tables by `replacement`, in the deepest level of the held tables, and returns the new tables. After
    /// an error the store is unchanged, unless it halted.
    pub fn replace(self, replacement: Replacement<'_>) -> Result<Vec<Arc<TableMeta>>> {
        let (compactor, family) = (self.compactor, &self.family);
        let Replacement { records, expected, summed, base_seqno, fenced, lifted } = replacement;
        let started = compactor.context().now_nanos();
        let removes: Vec<_> = self.tables.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let written = match (records, &self.span) {
            (Some(records), Some(span)) => {
                self.check_alone(span)?;
                let mut within = Within { records, order: family.order(), span };
                self.write_anew(span.level, &mut within, (expected, summed), base_seqno)?
            }
            (Some(_), None) => return Err(Error::invalid("records in the place of no table")),
            (None, _) if expected != Ledger::default() => {
                return Err(Error::invalid("a ledger of records that are not given"));
            }
            (None, _) => Vec::new(),
        };
        let written: Vec<_> = written.into_iter().map(Arc::new).collect();
        let level = self.span.as_ref().map_or(0, |span| span.level);
        let adds = written.iter().map(|meta| (level, meta.clone())).collect();
        let replaced = Replaced::tables(family, removes, adds);
        exchange_lost_ranges(compactor.write_path(), replaced, (lifted, fenced), Some(EngineEvent::Replaced), started)?;
        Ok(written)
    }

    /// Quarantines the tables: compactions skip them until they are replaced or freed, even after they are released or
    /// the store is reopened.
    pub fn bar(&self) -> Result<()> {
        let numbers: Vec<u64> = self.tables.iter().map(|(_, table)| table.meta().number).collect();
        quarantine_tables(self.compactor.write_path(), &self.family, &numbers)
    }

    /// Ends the quarantine of the tables; the edit removes each table and adds it again.
    pub fn free(self) -> Result<()> {
        let removes = self.tables.iter().map(|(level, table)| (*level, table.meta().number)).collect();
        let adds = self.tables.iter().map(|(level, table)| (*level, table.meta().clone())).collect();
        let (replaced, started) = (Replaced::tables(&self.family, removes, adds), self.compactor.context().now_nanos());
        exchange_lost_ranges(
            self.compactor.write_path(),
            replaced,
            (Vec::new(), Vec::new()),
            Some(EngineEvent::Freed),
            started,
        )
    }

    /// Writes all records of a cursor to tables of a level, synced but not yet named by an edit.
    fn write_anew(
        &self,
        level: usize,
        records: &mut dyn Cursor,
        counted: (Ledger, bool),
        base_seqno: Seqno,
    ) -> Result<Vec<TableMeta>> {
        let (compactor, family) = (self.compactor, &self.family);
        let next_file = || compactor.catalog().new_file_number();
        let mut job = compactor.pass_over(family, level, base_seqno, counted, &next_file);
        // Reuse a readable dictionary of the old tables: the remaining records offer no better training data.
        job.dictionary = self.tables.iter().find_map(|(_, table)| table.table().ok()?.dictionary());
        let rules = Rules::new(family.order().clone(), Vec::new(), |_: &[u8]| false).keeping_all();
        let table_bytes = if level == 0 { u64::MAX } else { family.options().table_bytes };
        let splitter = Splitter::new(family.order().clone(), table_bytes, Vec::new());
        let pass = PassOptions { collects: self.collects.clone(), ..PassOptions::default() };
        let written = write_pass(&job, &pass, records, rules, splitter)?;
        compactor.store_log().sync_dir_before_edit()?;
        Ok(written.tables)
    }

    /// Checks I05: records that move to another level, or merge into one table, must not pass versions of other tables
    /// in between, nor overlap tables that stay. A single table that keeps its place cannot do either.
    fn check_alone(&self, span: &OutputRange) -> Result<()> {
        if self.tables.len() == 1 {
            return Ok(());
        }
        let view = self.family.view();
        let first = self.tables.iter().map(|(level, _)| *level).min().unwrap_or(0);
        let overlap = |level| view.levels.overlapping(level, Some(&span.smallest), Some(&span.largest));
        let number = |table: &Arc<TableHandle>| table.meta().number;
        let is_held = |table: &Arc<TableHandle>| self.tables.iter().any(|(_, held)| number(held) == number(table));
        match (first..=span.level).flat_map(overlap).all(is_held) {
            true => Ok(()),
            false => Err(Error::invalid("the tables to be replaced reach over others between them")),
        }
    }
}

impl Drop for HeldTables<'_> {
    fn drop(&mut self) {
        let span = self.span.as_ref().map(|span| (self.family.id(), span));
        self.compactor.catalog().claims.release(self.tables.iter().map(|(_, table)| table.meta().number), span);
        self.tables.clear(); // possibly the last references to obsolete files
        self.keeps.clear();
        self.compactor.lanes().changed();
        self.compactor.lanes().kick(Lane::Compact); // which may have found them taken
        self.compactor.catalog().remove_obsolete_files();
    }
}

pub(in crate::db) fn change_lost_ranges(
    write_path: &WritePath,
    family: &Family,
    lifted: Vec<u64>,
    fenced: Vec<LostRange>,
) -> Result<()> {
    let nothing = Replaced::tables(family, Vec::new(), Vec::new());
    exchange_lost_ranges(write_path, nothing, (lifted, fenced), None, write_path.context().now_nanos())
}

/// Changes tables and lost ranges in one edit, then reports the lost ranges to the listener.
fn exchange_lost_ranges(
    write_path: &WritePath,
    replaced: Replaced<'_>,
    (lifted, fenced): (Vec<u64>, Vec<LostRange>),
    engine_event: Option<EngineEvent<'_>>,
    started: u64,
) -> Result<()> {
    let family = replaced.family;
    let view = family.pinned_view();
    let fenced: Vec<_> =
        fenced.into_iter().map(|lost_range| (write_path.catalog().new_file_number(), Arc::new(lost_range))).collect();
    let replaced = Replaced { lifted: lifted.clone(), fenced: fenced.clone(), ..replaced };
    let ended: Vec<_> =
        view.lost_range_ids.iter().zip(&*view.lost_ranges).filter(|(id, _)| lifted.contains(id)).collect();
    let rows = quarantine_rows(write_path, &replaced, &ended, engine_event);
    let received = write_quarantine(write_path.catalog(), rows);
    let beside = received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables));
    let parts: Vec<_> = [replaced].into_iter().chain(beside).collect();
    let mut edit = Edit::from(parts.iter().flat_map(Replaced::changes).collect::<Vec<_>>());
    let begun = fenced.iter().map(|(_, lost_range)| EngineEvent::Fenced(lost_range));
    let over = ended.iter().map(|(_, lost_range)| EngineEvent::Lifted(lost_range));
    // All tables of the edit belong to the first entry; the other entries concern only the family.
    let (mut touched, family_alone) = (&parts[..], [Replaced::tables(family, Vec::new(), Vec::new())]);
    for engine_event in engine_event.into_iter().chain(begun).chain(over) {
        write_path.catalog().log_event(&mut edit, engine_event, touched, None, started);
        touched = &family_alone;
    }
    write_path.catalog().install(edit, parts)?;
    let name = || family.name().to_owned();
    for (_, lost_range) in fenced {
        write_path.notifier().notify(Event::Fenced { family: name(), fence: (*lost_range).clone() });
    }
    ended.iter().for_each(|(_, lost_range)| {
        write_path.notifier().notify(Event::Lifted { family: name(), fence: (*lost_range).clone() })
    });
    write_path.revise_stall();
    write_path.lanes().kick(Lane::Compact);
    Ok(())
}

/// Returns the rows for replaced tables, tables freed from quarantine, and lost ranges added or removed.
fn quarantine_rows(
    write_path: &WritePath,
    replaced: &Replaced<'_>,
    ended: &[(&u64, &LostRange)],
    engine_event: Option<EngineEvent<'_>>,
) -> Vec<Emitted> {
    let row = |item, begins, how| quarantine_row(write_path.catalog(), replaced.family, item, begins, how);
    let gone = |how| move |table| row(QuarantinedItem::Table(table), false, how);
    let tables: Vec<_> = match engine_event {
        Some(EngineEvent::Freed) => {
            write_path.catalog().quarantined(&replaced.removes).filter_map(gone("freed")).collect()
        }
        _ => replaced.removes.iter().filter_map(gone("replaced")).collect(),
    };
    let begun = replaced
        .fenced
        .iter()
        .filter_map(|(id, lost_range)| row(QuarantinedItem::Span(*id, lost_range), true, "fenced"));
    let over =
        ended.iter().filter_map(|(id, lost_range)| row(QuarantinedItem::Span(**id, lost_range), false, "lifted"));
    tables.into_iter().chain(begun).chain(over).collect()
}

/// Returns the key span of the tables, in the deepest of their levels.
fn hull(order: &Order, tables: &[(usize, Arc<TableHandle>)]) -> Option<OutputRange> {
    let level = tables.iter().map(|(level, _)| *level).max()?;
    let metas = || tables.iter().map(|(_, table)| table.meta());
    let smallest = metas().map(|meta| &meta.smallest).min_by(|a, b| order.compare(a, b))?;
    let largest = metas().map(|meta| &meta.largest).max_by(|a, b| order.compare(a, b))?;
    Some(OutputRange { level, smallest: smallest.clone(), largest: largest.clone() })
}

/// A cursor that rejects keys outside a span.
struct Within<'a> {
    records: &'a mut dyn Cursor,
    order: &'a Order,
    span: &'a OutputRange,
}

impl Within<'_> {
    fn checked(&self, moved: Result<()>) -> Result<()> {
        moved?;
        if !self.records.valid() {
            return Ok(());
        }
        let key = self.records.record().key;
        let inside =
            self.order.compare(&self.span.smallest, key).is_le() && self.order.compare(key, &self.span.largest).is_le();
        if inside { Ok(()) } else { Err(Error::invalid("a record outside of the tables that it replaces")) }
    }
}

impl Cursor for Within<'_> {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.records.seek(key, seqno);
        self.checked(moved)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.records.seek_for_prev(key, seqno);
        self.checked(moved)
    }
    fn first(&mut self) -> Result<()> {
        let moved = self.records.first();
        self.checked(moved)
    }
    fn last(&mut self) -> Result<()> {
        let moved = self.records.last();
        self.checked(moved)
    }
    fn next(&mut self) -> Result<()> {
        let moved = self.records.next();
        self.checked(moved)
    }
    fn prev(&mut self) -> Result<()> {
        let moved = self.records.prev();
        self.checked(moved)
    }
    fn valid(&self) -> bool {
        self.records.valid()
    }
    fn record(&self) -> Record<'_> {
        self.records.record()
    }
    fn source(&self) -> RecordSource<'_> {
        self.records.source()
    }
}

impl std::fmt::Debug for HeldTables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldTables").field("family", &self.family).field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Replacement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replacement").field("expected", &self.expected).finish_non_exhaustive()
    }
}
