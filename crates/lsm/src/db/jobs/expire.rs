//! Drops expired tables, by an edit alone; also decides when the compaction lane checks for more.
//!
//! `compaction::expired` chooses the tables. The edit carries the counts and sums of the dropped records (I11), and the
//! time by which all of them had expired, so that the store never evaluates expiry at an earlier time.

use std::time::Duration;

use crate::compaction::{TableFacts, expired};
use crate::cursor::Cursor;
use crate::db::catalog::Catalog;
use crate::db::state::family::{Family, TableHandle, View};
use crate::record::MAX_SEQNO;
use crate::version::TableMeta;

/// Maximum interval between checks of the compaction lane in a store with expiring records, because the release of a
/// view rings no bell.
const LOOK_MICROS: u64 = 60_000_000;

/// Minimum interval between these checks.
const LEAST_LOOK_MICROS: u64 = 20_000;

/// Returns how long the compaction lane may sleep until enough records expire; `None` if no table has expiring
/// records.
pub(in crate::db) fn until_expiry(catalog: &Catalog) -> Option<Duration> {
    let (families, now) = (catalog.families(), catalog.reads.expiry_clock().now());
    let due = |table: &TableHandle| {
        let meta = table.meta();
        meta.expiry.map(|of| expired::due_at(&of, meta.ledger.count()))
    };
    let soonest = |family: &Family| {
        let view = family.view();
        let tables = view.levels.iter().flat_map(|level| level.tables());
        let waits = tables.filter_map(|table| due(table)).map(|at| at.checked_sub(now).unwrap_or(LOOK_MICROS));
        waits.min()
    };
    let micros = families.by_id.values().filter_map(soonest).min()?;
    Some(Duration::from_micros(micros.clamp(LEAST_LOOK_MICROS, LOOK_MICROS)))
}

/// Returns true if a memtable holds a key within the bounds of a table.
pub(super) fn is_in_memory(view: &View, table: &TableFacts<'_>) -> bool {
    let order = view.levels.order();
    let mut generations = view.memtables();
    generations.any(|generation| {
        let mut cursor = generation.memtable.cursor();
        let sought = cursor.seek(table.smallest, MAX_SEQNO);
        sought.is_err() || cursor.valid() && order.compare(cursor.record().key, table.largest).is_le()
    })
}

/// Returns true if a lost range overlaps the keys of a table.
pub(super) fn is_fenced(view: &View, table: &TableMeta) -> bool {
    let order = view.levels.order();
    view.lost_ranges.iter().any(|lost_range| {
        order.compare(&lost_range.from.0, &table.largest).is_le()
            && order.compare(&table.smallest, &lost_range.to.0).is_le()
    })
}
