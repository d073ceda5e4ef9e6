//! Retires range deletes: removes those from the manifest that hide no record in any table.
//!
//! Before: all records older than a range delete of the manifest are in tables, because one flush takes both.
//! After:  one edit removes the range deletes, and lifts the lost ranges in which they hide every record. A range
//!         delete stays while a lost range overlaps it, because a repair may bring older records back.
//! Crash:  before the edit, the same range deletes; after it, the complete change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::compaction::range_deleted;
use crate::db::catalog::view_change::Replaced;
use crate::db::state::family::{Family, TableLevels, View};
use crate::db::writes::write_path::WritePath;
use crate::env::work::lock;
use crate::error::Result;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::range_index::RangeIndex;
use crate::record::{MAX_SEQNO, Seqno};
use crate::version::Edit;

/// The states of families in which no range delete could be retired, so that they are not examined again.
#[derive(Default)]
pub(in crate::db) struct RetiredRanges {
    examined: HashMap<u32, Examined>,
}

/// The parts of a view that decide. Weak pointers keep nothing alive, but keep an address from being reused.
struct Examined {
    levels: Weak<TableLevels>,
    range_deletes: Weak<Vec<Arc<RangeDelete>>>,
    lost_ranges: Weak<Vec<LostRange>>,
    has_snapshots: bool,
}

impl Examined {
    fn of(view: &View, has_snapshots: bool) -> Examined {
        Examined {
            levels: Arc::downgrade(&view.levels),
            range_deletes: Arc::downgrade(&view.range_deletes),
            lost_ranges: Arc::downgrade(&view.lost_ranges),
            has_snapshots,
        }
    }

    fn is_of(&self, view: &View, has_snapshots: bool) -> bool {
        std::ptr::eq(self.levels.as_ptr(), Arc::as_ptr(&view.levels))
            && std::ptr::eq(self.range_deletes.as_ptr(), Arc::as_ptr(&view.range_deletes))
            && std::ptr::eq(self.lost_ranges.as_ptr(), Arc::as_ptr(&view.lost_ranges))
            && self.has_snapshots == has_snapshots
    }
}

/// Retires the range deletes of all families that no table needs. Returns true if there were any.
pub(super) fn retire_range_deletes(write_path: &WritePath, retired_ranges: &Mutex<RetiredRanges>) -> Result<bool> {
    let families = write_path.catalog().families();
    let mut any = false;
    for family in families.all().filter(|family| !family.view().range_deletes.is_empty()) {
        any |= retire_of(write_path, family, &mut lock(retired_ranges))?;
    }
    Ok(any)
}

fn retire_of(write_path: &WritePath, family: &Family, retired_ranges: &mut RetiredRanges) -> Result<bool> {
    let (view, catalog) = (family.pinned_view(), write_path.catalog());
    let has_snapshots = !catalog.snapshots.boundaries().is_empty();
    let examined = retired_ranges.examined.get(&family.id());
    if family.is_dropped() || examined.is_some_and(|examined| examined.is_of(&view, has_snapshots)) {
        return Ok(false);
    }
    // A snapshot may see the lost records.
    let lifted = if has_snapshots { Vec::new() } else { hidden_lost_ranges(&view, family.order()) };
    let retired = retirable(&view, family.order(), &lifted);
    if retired.is_empty() && lifted.is_empty() {
        retired_ranges.examined.insert(family.id(), Examined::of(&view, has_snapshots));
        return Ok(false);
    }
    let replaced = Replaced { retired, lifted, ..Replaced::tables(family, Vec::new(), Vec::new()) };
    catalog.install(Edit::from(replaced.changes()), [replaced])?;
    let _apply = lock(&write_path.applier.apply);
    family.renew_range_index(&|| write_path.readers());
    Ok(true)
}

/// Returns the seqnos of the range deletes that hide no record of any table, and overlap no lost range except those in
/// `lifted`.
fn retirable(view: &View, order: &Order, lifted: &[u64]) -> Vec<Seqno> {
    let newest = view.durable_ranges().map(|range| range.seqno).max().unwrap_or(0);
    let tables = view.levels.iter().flat_map(|level| level.tables()).map(|table| table.meta());
    let uncleared: Vec<_> =
        tables.filter(|table| table.oldest_seqno() < newest && table.cleared_through < newest).collect();
    let lost_ranges = view.lost_range_ids.iter().zip(&*view.lost_ranges).filter(|(id, _)| !lifted.contains(id));
    let lost_ranges: Vec<_> = lost_ranges.map(|(_, lost_range)| lost_range).collect();
    let is_needed = |range: &RangeDelete| {
        uncleared.iter().any(|table| range_deleted::may_need(table, range, order))
            || lost_ranges.iter().any(|lost_range| range.overlaps(order, &lost_range.from.0, &lost_range.to.0))
    };
    let retirable = view.durable_ranges().filter(|range| planted!(RangeDeleteRetiredEarly, true, !is_needed(range)));
    retirable.map(|range| range.seqno).collect()
}

/// Returns the numbers of the lost ranges in which range deletes hide every record that may have been lost.
fn hidden_lost_ranges(view: &View, order: &Order) -> Vec<u64> {
    if view.lost_ranges.is_empty() {
        return Vec::new();
    }
    let ranges = RangeIndex::build(order, view.durable_ranges(), &[]);
    let lost_ranges = view.lost_range_ids.iter().zip(&*view.lost_ranges);
    let is_hidden = |lost: &LostRange| ranges.newest_over_all(&lost.from.0, &lost.to.0, MAX_SEQNO) > lost.bound;
    lost_ranges.filter(|(_, lost_range)| is_hidden(lost_range)).map(|(id, _)| *id).collect()
}
