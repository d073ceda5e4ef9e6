//! Cursors over a view.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::values::read_value;
use super::{ReadPoint, Reads};
use crate::cursor::Cursor;
use crate::db::notify::notifier::DamagedPlace;
use crate::db::state::family::{Family, TableHandle, View};
use crate::deleted_runs::DeletedRuns;
use crate::error::{Error, Result};
use crate::expiry::AsOf;
use crate::lost_range::LostRange;
use crate::merge::{ConcatCursor, LostRangeCursor, MergeCursor, MergePart, MergeSource, PartCursor, Tiers};
use crate::options::{ReadSettings, Verify};
use crate::order::Order;
use crate::planted;
use crate::prefix_extractor::{KeyPrefix, PrefixExtractor};
use crate::read::{BlobReader, CursorBounds, UserCursor};
use crate::record::{MAX_SEQNO, OwnedRecord, Record, Seqno};
use crate::seam::Protection;
use crate::sst::{Checks, Table, TableCursor};
use crate::values::BlobBuffer;
use crate::version::LEVELS;

/// Typical stores have at most this many memtables, levels and level-0 tables.
const USUAL_SOURCES: usize = 8;

impl Reads {
    /// Opens a cursor over a view.
    pub(in crate::db) fn cursor_in(
        self: &Arc<Self>,
        family: &Family,
        view: Arc<View>,
        ReadPoint { seqno, as_of }: ReadPoint,
        bounds: CursorBounds,
        reading: ReadSettings,
    ) -> UserCursor {
        let ranges = planted!(RangeDeleteForgottenByCursors, None, view.active.range_index());
        let prefix = family.prefix_extractor().and_then(|extractor| PrefixScan::of(extractor, &bounds, &view));
        let (internal, tables) = self.internal_cursor(family, view, reading, prefix);
        let cursor = UserCursor::over(family.order().clone(), internal, seqno, bounds).of_family(family.shared_name());
        let cursor = cursor.within_ranges(ranges);
        cursor.reading(tables).expiring(self.companions.clone(), self.expiry_clock.clone(), as_of)
    }

    /// Opens a cursor over all records and lost ranges of a view in internal order. No table is opened before a cursor
    /// movement needs it.
    fn internal_cursor(
        self: &Arc<Self>,
        family: &Family,
        view: Arc<View>,
        reading: ReadSettings,
        prefix: Option<PrefixScan>,
    ) -> (MergeCursor, Arc<ViewTables>) {
        let order = family.order();
        // The same rule as `Checks::asks_values`, but without advancing the verification sampler.
        let asks_values = self.promise != Protection::None && reading.verify != Verify::Never;
        let reads = Arc::clone(self);
        let tables = Arc::new(ViewTables { view, reading, family: family.clone(), asks_values, reads, prefix });
        let view = &tables.view;
        let mut sources = Vec::with_capacity(USUAL_SOURCES);
        for generation in view.memtables() {
            if !generation.memtable.is_empty() {
                let memtable = generation.memtable.cursor_checked(&self.companions, reading.verify);
                sources.push(MergeSource::Memtable(Box::new(memtable)));
            }
        }
        if !view.lost_ranges.is_empty() {
            sources.push(MergeSource::Other(Box::new(LostRangeCursor::new(order.clone(), view.lost_ranges.clone()))));
        }
        let level0 = view.levels.level(0).tables().len();
        let deeper = (1..LEVELS).filter(|level| !view.levels.level(*level).tables().is_empty());
        for tier in (0..level0).chain(deeper.map(|level| level0 + level - 1)) {
            if tables.prefix.is_some() && tables.parts(tier) == 0 {
                continue;
            }
            sources.push(MergeSource::Tables(ConcatCursor::over(order.clone(), tables.clone(), tier)));
        }
        (MergeCursor::of(order.clone(), sources), tables)
    }
}

/// The tables of a view for a user's cursor, and the blob files they point into. Each level-0 table is a tier of its
/// own, newest first, followed by the lower levels. A table that cannot be opened becomes a lost range.
struct ViewTables {
    view: Arc<View>,
    reading: ReadSettings,
    family: Family,
    /// Values read from blob files are verified against their companions.
    asks_values: bool,
    reads: Arc<Reads>,
    /// The prefix that the scan stays within; `None`: it may be anywhere.
    prefix: Option<PrefixScan>,
}

/// The prefix that a scan stays within, and the tables whose bounds meet it, by level. No other table is opened.
struct PrefixScan {
    prefix: KeyPrefix,
    tables: [Range<usize>; LEVELS],
}

impl PrefixScan {
    /// Returns `None` if a scan between these bounds does not stay within one prefix.
    #[cold]
    fn of(extractor: PrefixExtractor, bounds: &CursorBounds, view: &View) -> Option<PrefixScan> {
        let prefix = KeyPrefix::of_range(extractor, bounds)?;
        let tables = std::array::from_fn(|level| {
            let tables = view.levels.level(level).tables();
            match level {
                0 => 0..tables.len(),
                _ => {
                    let first = tables.partition_point(|table| prefix.is_above(&table.meta().largest));
                    let end = tables.partition_point(|table| !prefix.is_below(&table.meta().smallest));
                    first..end.max(first)
                }
            }
        });
        Some(PrefixScan { prefix, tables })
    }

    /// Returns true if the bounds of a table meet the prefix.
    fn meets(&self, table: &TableHandle) -> bool {
        !self.prefix.is_above(&table.meta().largest) && !self.prefix.is_below(&table.meta().smallest)
    }
}

impl BlobReader for ViewTables {
    fn read(&self, record: &Record<'_>, room: &mut BlobBuffer) -> Result<()> {
        read_value((&self.family, &self.view), &self.reads.notifier, record, self.asks_values, room)
    }

    fn deleted_runs(&self) -> Option<(&DeletedRuns, usize)> {
        let finds_damage = !self.reads.verifies() || self.reading.verify == Verify::Always;
        finds_damage.then(|| (self.family.deleted_runs(), Arc::as_ptr(&self.view).addr()))
    }

    fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.view, &self.family.view())
    }

    fn damaged_in_memory(&self, seqno: Seqno, error: &Error) {
        self.reads.notifier.report_damage(DamagedPlace::Memory(seqno), error);
    }

    fn merge(&self, key: &[u8], (seqno, as_of): (Seqno, AsOf), merged: &mut OwnedRecord) -> Result<()> {
        let checks = Checks { passing: !self.reading.fill_cache, ..Checks::NONE };
        let moment = ReadPoint { seqno, as_of };
        let mut copied = Ok(());
        let mut visit = |record: &Record<'_>| copied = OwnedRecord::try_of(record).map(|record| *merged = record);
        self.reads.merged_in((&self.family, &self.view), key, moment, checks, &mut visit)?;
        copied
    }
}

impl ViewTables {
    /// Returns the level of a tier, and its tables.
    fn tier(&self, tier: usize) -> (usize, &[Arc<TableHandle>]) {
        let level0 = self.view.levels.level(0).tables();
        match level0.get(tier..=tier) {
            Some(table) => match &self.prefix {
                Some(scan) if !scan.meets(&table[0]) => (0, &[]),
                _ => (0, table),
            },
            None => {
                let level = tier + 1 - level0.len();
                let tables = self.view.levels.level(level).tables();
                (level, self.prefix.as_ref().map_or(tables, |scan| &tables[scan.tables[level].clone()]))
            }
        }
    }
}

impl ViewTables {
    /// Returns true if a table has no key of the prefix that the scan stays within, as its filters know.
    #[inline]
    fn is_excluded(&self, table: &Table) -> bool {
        match &self.prefix {
            None => false,
            Some(scan) => self.lacks_prefix(table, scan),
        }
    }

    #[cold]
    fn lacks_prefix(&self, table: &Table, scan: &PrefixScan) -> bool {
        let lacks = !table.may_contain_prefix(&scan.prefix);
        if lacks {
            self.reads.prefix_skips.fetch_add(1, Ordering::Relaxed);
        }
        lacks
    }
}

impl Tiers for ViewTables {
    fn parts(&self, tier: usize) -> usize {
        self.tier(tier).1.len()
    }

    fn smallest(&self, tier: usize, part: usize) -> &[u8] {
        &self.tier(tier).1[part].meta().smallest
    }

    fn largest(&self, tier: usize, part: usize) -> &[u8] {
        &self.tier(tier).1[part].meta().largest
    }

    fn find(&self, tier: usize, key: &[u8], order: &Order) -> usize {
        match self.tier(tier) {
            (0, tables) => tables.iter().take_while(|table| order.compare(&table.meta().largest, key).is_lt()).count(),
            (level, tables) => match &self.prefix {
                None => self.view.levels.seek(level, key),
                Some(_) => tables.partition_point(|table| order.compare(&table.meta().largest, key).is_lt()),
            },
        }
    }

    fn open(&self, tier: usize, part: usize, spare: Option<Box<TableCursor>>) -> Result<PartCursor> {
        let handle = &self.tier(tier).1[part];
        match handle.table() {
            Ok(table) if self.is_excluded(table) => Ok(PartCursor::Excluded),
            Ok(table) => Ok(PartCursor::Table(match spare {
                Some(spare) => spare.moved_to(table),
                None => Box::new(table.cursor_checked(self.reading)),
            })),
            Err(error) => match error.damage() {
                None => Err(error),
                Some(damage) => {
                    let meta = handle.meta();
                    self.reads.notifier.report_damage(DamagedPlace::Table(meta.number), &error);
                    let lost_range = LostRange {
                        from: (meta.smallest.clone(), MAX_SEQNO),
                        to: (meta.largest.clone(), 0),
                        bound: meta.newest_seqno(),
                        file: damage.file.clone(),
                        offset: damage.offset,
                        verdict: damage.verdict,
                    };
                    Ok(PartCursor::Other(Box::new(LostRangeCursor::new(
                        self.family.order().clone(),
                        Arc::new(vec![lost_range]),
                    ))))
                }
            },
        }
    }
}

/// Opens a cursor over all records of a view in internal order. Unreadable data is an error, not a lost range; the
/// block cache is not populated.
pub(in crate::db) fn raw_cursor(family: &Family, view: &View) -> Result<Box<dyn Cursor>> {
    let order = family.order();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for generation in view.memtables() {
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

/// A table as one part of its level, opened when a cursor reaches it.
struct LevelPart {
    table: Arc<TableHandle>,
    fill_cache: bool,
}

impl MergePart for LevelPart {
    fn smallest(&self) -> &[u8] {
        &self.table.meta().smallest
    }

    fn largest(&self) -> &[u8] {
        &self.table.meta().largest
    }

    fn open(&self) -> Result<PartCursor> {
        Ok(PartCursor::Table(Box::new(self.table.table()?.cursor(self.fill_cache))))
    }
}
