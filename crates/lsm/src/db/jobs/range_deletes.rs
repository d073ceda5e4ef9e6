//! Retires range deletes: removes those from the manifest that hide no record in any table.
//!
//! Before: all records older than a range delete of the manifest are in tables, because one flush takes both.
//! After:  one edit removes the range deletes, and lifts the lost ranges in which they hide every record. A range
//!         delete stays while a lost range overlaps it, because a repair may bring older records back.
//! Crash:  before the edit, the same range deletes; after it, the complete change.

use crate::compaction::range_deleted;
use crate::db::catalog::view_change::Replaced;
use crate::db::jobs::compact::Compactor;
use crate::db::state::family::{Family, View};
use crate::env::work::lock;
use crate::error::Result;
use crate::lost_range::LostRange;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::range_index::RangeIndex;
use crate::record::{MAX_SEQNO, Seqno};
use crate::version::Edit;

impl Compactor {
    /// Retires the range deletes of all families that no table needs. Returns true if there were any.
    pub(super) fn retire_range_deletes(&self) -> Result<bool> {
        let mut any = false;
        for family in self.catalog().families().all().filter(|family| !family.view().range_deletes.is_empty()) {
            any |= self.retire_of(family)?;
        }
        Ok(any)
    }

    fn retire_of(&self, family: &Family) -> Result<bool> {
        let _one_at_a_time = lock(&self.retiring);
        let (view, order) = (family.pinned_view(), family.order());
        if family.is_dropped() {
            return Ok(false);
        }
        let ranges = RangeIndex::build(order, view.durable_ranges(), &[]);
        let lifted = match self.catalog().snapshots.boundaries().is_empty() {
            true => range_deleted_losses(&view, &ranges),
            false => Vec::new(), // a snapshot may see the lost records
        };
        let stays = |id: &u64| !lifted.contains(id);
        let retired: Vec<Seqno> = {
            let lost_ranges: Vec<_> =
                view.lost_range_ids.iter().zip(&*view.lost_ranges).filter(|(id, _)| stays(id)).collect();
            let is_needed = |range: &&RangeDelete| {
                let tables = view.levels.iter().flat_map(|level| level.tables());
                let lost = |(_, lost): &(&u64, &LostRange)| range.overlaps(order, &lost.from.0, &lost.to.0);
                tables.into_iter().any(|table| range_deleted::may_need(table.meta(), range, order))
                    || lost_ranges.iter().any(lost)
            };
            view.durable_ranges()
                .filter(|range| planted!(RangeDeleteRetiredEarly, true, !is_needed(range)))
                .map(|range| range.seqno)
                .collect()
        };
        if retired.is_empty() && lifted.is_empty() {
            return Ok(false);
        }
        let replaced = Replaced { retired, lifted, ..Replaced::tables(family, Vec::new(), Vec::new()) };
        self.catalog().install(Edit::from(replaced.changes()), [replaced])?;
        let _apply = lock(&self.write_path().applier.apply);
        family.renew_range_index(&|| self.write_path().readers());
        Ok(true)
    }
}

/// Returns the numbers of the lost ranges in which range deletes hide every record that may have been lost.
fn range_deleted_losses(view: &View, ranges: &RangeIndex) -> Vec<u64> {
    let lost_ranges = view.lost_range_ids.iter().zip(&*view.lost_ranges);
    let is_hidden = |lost: &LostRange| ranges.newest_over_all(&lost.from.0, &lost.to.0, MAX_SEQNO) > lost.bound;
    lost_ranges.filter(|(_, lost)| is_hidden(lost)).map(|(id, _)| *id).collect()
}
