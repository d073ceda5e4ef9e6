//! Reclaims the space of records that range deletes hide. Pure.
//!
//! Drop:   a table is removed by an edit alone, unread, if range deletes hide all its records from every present and
//!         future reader, nobody may ask for one of them (`TableMeta::retains_nothing` of it and of every table that
//!         overlaps it), and the table is neither quarantined nor in a lost range.
//! Merge:  any other table with hidden records is compacted, and `rules` decide on each record: at once while a store
//!         settles, otherwise when nothing is due and the family has many range deletes.
//! Ends:   a rewritten table has no hidden record (`TableMeta::cleared_through`), or is excluded from being picked
//!         again.

use super::plan::{CompactionPlan, LevelSummary, RangeDeleted, Reason, TableFacts};
use super::{expired, plan};
use crate::order::Order;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::range_index::RangeIndex;
use crate::record::Seqno;
use crate::version::{LEVELS, TableMeta};

/// The number of range deletes of a family from which tables are rewritten for them although nothing is due.
const MANY: usize = 256;

/// Returns which records of a table range deletes hide from every reader. `snapshots`: the seqnos of the live
/// snapshots, ascending.
pub fn hidden_in(table: &TableMeta, ranges: &RangeIndex, snapshots: &[Seqno]) -> RangeDeleted {
    let (oldest, newest) = (table.oldest_seqno(), table.newest_seqno());
    // The newest range delete that comes before every snapshot which sees the oldest record.
    let most = snapshots.iter().copied().find(|snapshot| *snapshot >= oldest).unwrap_or(Seqno::MAX);
    let (mut all, mut any) = (true, false);
    for fragment in ranges.fragments(&table.smallest, &table.largest) {
        let by = fragment.newest(most);
        all &= by > planted!(TableDroppedWithNewerRecords, oldest, newest);
        any |= by > oldest && by > table.cleared_through;
    }
    match (all, any) {
        (true, _) => RangeDeleted::Wholly,
        (false, true) => RangeDeleted::Partly,
        (false, false) => RangeDeleted::No,
    }
}

/// Returns true if a range delete may hide a record of a table.
pub fn may_need(table: &TableMeta, range: &RangeDelete, order: &Order) -> bool {
    range.seqno > table.oldest_seqno()
        && range.seqno > table.cleared_through
        && range.overlaps(order, &table.smallest, &table.largest)
}

/// Returns a plan that removes tables of one level by an edit alone; the lowest level first.
pub fn pick_drop(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    let is_hidden = |table: &TableFacts<'_>| table.range_deleted == RangeDeleted::Wholly;
    (0..LEVELS).rev().find_map(|level| expired::drop_of(summary, level, Reason::RangeDelete, is_hidden))
}

/// Returns a plan that rewrites a table with hidden records, when nothing is due. `ranges` is the number of range deletes
/// of the family. `is_kept`: the table with this number was rewritten for them before, and somebody needed its records.
pub fn pick_many(summary: &LevelSummary<'_>, ranges: usize, is_kept: impl Fn(u64) -> bool) -> Option<CompactionPlan> {
    let is_wanted = |table: &TableFacts<'_>| match table.range_deleted {
        RangeDeleted::No => false,
        RangeDeleted::Partly => ranges >= MANY && !is_kept(table.number),
        RangeDeleted::Wholly => !is_kept(table.number),
    };
    pick_merge(summary, is_wanted, |_| true)
}

/// Returns the same for a caller who waits for the space, and whose tables had numbers below `newest`.
pub fn pick_any(summary: &LevelSummary<'_>, newest: u64) -> Option<CompactionPlan> {
    pick_merge(summary, |table| table.range_deleted != RangeDeleted::No, |plan| plan.is_new_work(newest))
}

fn pick_merge(
    summary: &LevelSummary<'_>,
    is_wanted: impl Fn(&TableFacts<'_>) -> bool,
    is_worth_it: impl Fn(&CompactionPlan) -> bool,
) -> Option<CompactionPlan> {
    let base = summary.targets().base;
    let levels = summary.levels.iter().enumerate();
    let tables = levels.flat_map(|(level, tables)| (0..tables.len()).map(move |at| (level, at)));
    let mut wanted = tables.filter(|(level, at)| is_wanted(&summary.levels[*level][*at]));
    wanted.find_map(|(level, at)| {
        let plan = match level {
            0 => plan::plan_level0(summary, at, base, Reason::RangeDelete),
            _ => plan::sink(summary, level, at, Reason::RangeDelete),
        };
        plan.filter(&is_worth_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_hidden_as_far_as_every_reader_sees_a_newer_range() {
        let order = Order::bytewise();
        let range = |start: &str, end: &str, seqno| {
            let [start, end] = [start, end].map(|key| Some(key.as_bytes().to_vec()));
            RangeDelete { start, end, seqno, companion: Vec::new() }
        };
        let hidden = |ranges: &[RangeDelete], cleared_through, snapshots: &[Seqno]| {
            let [smallest, largest] = [b"c".to_vec(), b"m".to_vec()];
            let table = TableMeta {
                smallest,
                largest,
                least_seqno: 5,
                greatest_seqno: 9,
                cleared_through,
                ..TableMeta::default()
            };
            hidden_in(&table, &RangeIndex::build(&order, ranges.iter(), snapshots), snapshots)
        };
        let whole = [range("a", "x", 10)];
        assert_eq!(hidden(&whole, 0, &[]), RangeDeleted::Wholly);
        assert_eq!(hidden(&whole, 0, &[4, 10]), RangeDeleted::Wholly);
        assert_eq!(hidden(&whole, 0, &[5]), RangeDeleted::No);
        assert_eq!(hidden(&whole, 0, &[9]), RangeDeleted::No);
        assert_eq!(hidden(&[range("a", "m", 10)], 0, &[]), RangeDeleted::Partly);
        assert_eq!(hidden(&[range("a", "m", 10)], 10, &[]), RangeDeleted::No);
        assert_eq!(hidden(&[range("a", "m", 10), range("m", "n", 11)], 0, &[]), RangeDeleted::Wholly);
        assert_eq!(hidden(&[range("a", "x", 7)], 0, &[]), RangeDeleted::Partly);
        assert_eq!(hidden(&[range("a", "x", 4)], 0, &[]), RangeDeleted::No);
        assert_eq!(hidden(&[range("a", "c", 10), range("n", "x", 11)], 0, &[]), RangeDeleted::No);
        assert_eq!(hidden(&[range("a", "x", 7), range("a", "x", 12)], 0, &[8]), RangeDeleted::Partly);
    }
}
