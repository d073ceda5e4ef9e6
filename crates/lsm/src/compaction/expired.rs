//! Reclaims the space of expired records. Pure.
//!
//! Drop:   a table is removed by an edit alone, unread, if all its records have expired forevery present and future
//!         reader and no other data depends on them. That is: no older table would become visible, no newer table or
//!         memtable may hold a version that retains one of them, and the table is neither quarantined nor in a lost
//!         range.
//! Merge:  any other table with expired records is compacted, and `rules` decide on each record.
//! When:   if no more urgent compaction is due, once a quarter of a table's records have expired, or one expired a day
//!         ago; and whenever a caller requests the space.
//! Ends:   a rewritten table holds no record that had expired, or is excluded from being picked again.

use std::cmp::Reverse;

use super::plan::{BOTTOM, CompactionPlan, LevelSummary, OutputRange, PlanAction, Reason, TableFacts};
use super::plan::{is_cheap, is_free, order_max, order_min, plan_level0, sink};
use crate::expiry::Expiries;
use crate::planted;
use crate::version::LEVELS;

/// A table is dense with expired records if at least every fourth has expired.
const DENSE: u64 = 4;

/// A record that expired this long ago, in microseconds, is sufficient reason: one day.
const LATE_MICROS: u64 = 24 * 60 * 60 * 1_000_000;

/// Maximum number of tables removed in one edit.
const DROPPED_AT_ONCE: usize = 512;

/// Returns the time from which a table with `entries` records is worth compacting, in microseconds since 1970.
pub fn due_at(of: &Expiries, entries: u64) -> u64 {
    let share = u128::from(entries.div_ceil(DENSE)) * u128::from(of.greatest - of.least) / u128::from(of.count.max(1));
    let dense = of.least.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
    if of.count.saturating_mul(DENSE) < entries { of.least.saturating_add(LATE_MICROS) } else { dense }
        .min(of.least.saturating_add(LATE_MICROS))
}

/// Returns a plan that removes tables of one level by an edit alone; the lowest level first, since its records keep
/// tables above it.
pub fn pick_drop(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    (0..LEVELS).rev().find_map(|level| drop_of(summary, level, Reason::Expired, |table| has_gone(summary, table)))
}

/// Returns what to compact for the space of expired records when nothing is due.
pub fn pick_dense(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    let is_dense = |table: &TableFacts<'_>| {
        let (about, least) = table.expiry.map_or((0, u64::MAX), |of| (of.about_by(summary.expired), of.least));
        about.saturating_mul(DENSE) >= table.entries || least.saturating_add(LATE_MICROS) <= summary.expired
    };
    pick_merge(summary, |plan| plan.inputs[0].0 > 0 || is_cheap(summary, plan), is_dense)
}

/// Returns the same for a caller who waits for the space, and whose tables had numbers below `newest`.
pub fn pick_any(summary: &LevelSummary<'_>, newest: u64) -> Option<CompactionPlan> {
    pick_merge(summary, |plan| plan.is_new_work(newest), |_| true)
}

/// Returns the plan for one table at the bottom: it is removed, or rewritten.
pub(super) fn plan_bottom(summary: &LevelSummary<'_>, at: usize, reason: Reason) -> Option<CompactionPlan> {
    let number = summary.levels[BOTTOM][at].number;
    let has_gone = |table: &TableFacts<'_>| table.number == number && has_gone(summary, table);
    let dropped = drop_of(summary, BOTTOM, Reason::Expired, has_gone);
    dropped.or_else(|| sink(summary, BOTTOM, at, reason))
}

/// Returns a plan that removes tables of a level by an edit alone. `wanted`: every reader may do without the table, as
/// far as its own records decide that.
pub(super) fn drop_of(
    summary: &LevelSummary<'_>,
    level: usize,
    reason: Reason,
    wanted: impl Fn(&TableFacts<'_>) -> bool,
) -> Option<CompactionPlan> {
    let mut plan: Option<CompactionPlan> = None;
    for (at, table) in summary.levels[level].iter().enumerate() {
        let is_free_of_others = || {
            if reason == Reason::RangeDelete {
                may_be_forgotten(summary, level, at)
            } else {
                stands_alone(summary, level, at)
            }
        };
        if table.is_busy || table.is_fenced || !wanted(table) || !is_free_of_others() {
            continue;
        }
        let before = plan
            .as_ref()
            .map_or((table.smallest, table.largest), |plan| (&plan.span.smallest[..], &plan.span.largest[..]));
        let smallest = order_min(summary.order, before.0, table.smallest).to_vec();
        let span = OutputRange { level, smallest, largest: order_max(summary.order, before.1, table.largest).to_vec() };
        if !is_free(summary, &span) {
            continue;
        }
        let mut numbers = plan.map_or(Vec::new(), |plan: CompactionPlan| plan.inputs[0].1.clone());
        numbers.push(table.number);
        let is_full = numbers.len() == DROPPED_AT_ONCE;
        let (inputs, action) = (vec![(level, numbers)], PlanAction::Drop);
        plan = Some(CompactionPlan { inputs, output_level: level, action, reason, score: 0, span });
        if is_full {
            break;
        }
    }
    plan
}

/// True if all records of a table have expired forevery reader.
fn has_gone(summary: &LevelSummary<'_>, table: &TableFacts<'_>) -> bool {
    let all = |count| planted!(LiveRecordsGoWithTheirTable, true, count == table.entries);
    table.expiry.is_some_and(|of| all(of.count) && of.all_by(summary.expired))
}

/// True if no record retains a hidden record of a table: neither the table nor one that overlaps it has a record that
/// retains its version before. Records of memtables retain none: they are newer than the range delete that hides the
/// table, and their version before is that range delete.
fn may_be_forgotten(summary: &LevelSummary<'_>, level: usize, at: usize) -> bool {
    let (order, table) = (summary.order, &summary.levels[level][at]);
    let meets = |other: &TableFacts<'_>| {
        order.compare(other.smallest, table.largest).is_le() && order.compare(table.smallest, other.largest).is_le()
    };
    let all = || summary.levels.iter().flatten();
    !table.is_in_memory && all().filter(|other| meets(other)).all(|other| other.retains_nothing)
}

/// True if no other table and no memtable may hold a version of one of the table's keys.
fn stands_alone(summary: &LevelSummary<'_>, level: usize, at: usize) -> bool {
    let (order, table) = (summary.order, &summary.levels[level][at]);
    let meets = |other: &TableFacts<'_>| {
        other.number != table.number
            && order.compare(other.smallest, table.largest).is_le()
            && order.compare(table.smallest, other.largest).is_le()
    };
    let others = planted!(ExpiredTableUncoversOlder, 0..=level.saturating_sub(1), 0..=BOTTOM);
    !table.is_in_memory && !summary.levels[others].iter().flatten().any(meets)
}

fn pick_merge(
    summary: &LevelSummary<'_>,
    is_worth_it: impl Fn(&CompactionPlan) -> bool,
    wanted: impl Fn(&TableFacts<'_>) -> bool,
) -> Option<CompactionPlan> {
    let mut found: Vec<(Reverse<u64>, usize, usize)> = Vec::new();
    for (level, tables) in summary.levels.iter().enumerate() {
        for (at, table) in tables.iter().enumerate() {
            let any = table.expiry.filter(|of| of.any_by(summary.expired) && !table.is_kept);
            if let Some(of) = any.filter(|_| wanted(table)) {
                found.push((Reverse(of.about_by(summary.expired)), level, at));
            }
        }
    }
    found.sort();
    let base = summary.targets().base;
    found.into_iter().find_map(|(_, level, at)| {
        let plan = match level {
            0 => plan_level0(summary, at, base, Reason::Expired),
            _ => sink(summary, level, at, Reason::Expired),
        };
        plan.filter(&is_worth_it)
    })
}
