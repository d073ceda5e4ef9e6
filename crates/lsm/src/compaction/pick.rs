//! Compaction picking: selects the tables to merge next, and the output level. Pure: a level summary in, a plan out.
//!
//! Score:  size over target, in thousandths; for level 0 also by table count. A level is due from 1000 on. Of several
//!         due levels, the one that is fullest relative to the next goes first, so that no data is added to a level
//!         that already exceeds its target.
//! Choice: within a level, the table with the least overlap in the next level relative to its size, where a tombstone
//!         counts as two more records.

use std::cmp::Reverse;

use super::expired;
pub use super::plan::{
    BOTTOM, CompactionPlan, LevelShape, LevelSummary, OutputRange, PlanAction, RangeDeleted, Reason, TableFacts,
    Targets, targets,
};
use super::plan::{compensated, is_cheap, overlapping, plan_level, plan_level0, rewrite, sink, thousandths, total};

/// A table is dense with tombstones if at least every fourth record is one.
const DENSE: u64 = 4;

/// The next step in compacting a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeStep {
    /// Run this plan, then call again.
    Run(CompactionPlan),
    /// Work remains but conflicts with a job: call again when it has finished. If no job runs, the remaining tables are
    /// quarantined.
    Wait,
    /// No work remains in this level.
    Done,
}

/// Returns the most urgent plan; `None` if no level is due, or all tables of the due levels are in use.
pub fn pick(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    let scores = summary.scores();
    let base = summary.targets().base;
    let urgency = |level: usize| {
        let next = if level == 0 { base } else { level + 1 };
        thousandths(scores[level], scores.get(next).copied().unwrap_or(0).max(1000))
    };
    let mut due: Vec<usize> = (0..BOTTOM).filter(|level| scores[*level] >= 1000).collect();
    due.sort_by_key(|level| (Reverse(urgency(*level)), *level));
    due.into_iter().find_map(|level| {
        let plan = match level {
            0 => pick_level0(summary, base, Reason::Level0),
            _ => pick_level(summary, level, Reason::Size),
        };
        plan.map(|plan| CompactionPlan { score: urgency(level), ..plan })
    })
}

/// True if a compaction is due that could run now. A store is settled when none is due and none runs.
pub fn is_due(summary: &LevelSummary<'_>) -> bool {
    pick(summary).is_some()
}

/// Returns what to do when nothing is due: the table that is densest with tombstones moves down, or is rewritten
/// without them if no data lies below. It is rewritten in place only if no snapshot keeps a tombstone, so that the same
/// table is not picked forever. A level-0 table is merged if that rewrites little compared with the data its
/// tombstones hide: a queue, which is read where it is deleted, must not wait for three more tables.
pub fn pick_idle(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    let mut dense: Vec<(Reverse<u64>, usize, usize)> = Vec::new();
    for (level, tables) in summary.levels.iter().enumerate() {
        for (at, table) in tables.iter().enumerate() {
            if table.tombstones > 0 && table.tombstones.saturating_mul(DENSE) >= table.entries {
                dense.push((Reverse(thousandths(table.tombstones, table.entries)), level, at));
            }
        }
    }
    dense.sort();
    let base = summary.targets().base;
    dense.into_iter().find_map(|(_, level, at)| match level {
        0 => plan_level0(summary, at, base, Reason::Tombstones).filter(|plan| is_cheap(summary, plan)),
        _ => sink(summary, level, at, Reason::Tombstones),
    })
}

/// Returns the next step in compacting the keys between `low` and `high` (both inclusive, `None` for open) out of
/// `level`; at the bottom, in removing tombstones, hidden versions and expired records. Call it for levels 0 to 6 in
/// turn, each until it returns `PartOutput`. Level-0 tables with numbers above `newest` are newer and left alone, so
/// that the compaction ends under steady writes. Newer tables at the bottom are left alone too, because their hidden
/// versions are still wanted.
pub fn plan_range(
    summary: &LevelSummary<'_>,
    level: usize,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
    newest: u64,
) -> RangeStep {
    let order = summary.order;
    let concerned = |table: &TableFacts<'_>| {
        low.is_none_or(|low| order.compare(table.largest, low).is_ge())
            && high.is_none_or(|high| order.compare(table.smallest, high).is_le())
    };
    let Some(tables) = summary.levels.get(level) else { return RangeStep::Done };
    let wanted = |table: &TableFacts<'_>| match level {
        0 => table.number <= newest && concerned(table),
        BOTTOM => {
            let can_go = table.greatest_seqno <= summary.oldest_snapshot && !table.is_fenced;
            let is_old = table.number < newest; // `newest`: the next number to be assigned
            let has_hidden = table.hidden > 0 && is_old;
            let expired = table.expiry.is_some_and(|of| of.any_by(summary.expired)) && is_old && !table.is_kept;
            let is_range_deleted = table.range_deleted != RangeDeleted::No && is_old;
            let is_reclaimable = (table.tombstones > 0 || has_hidden || expired || is_range_deleted) && can_go;
            concerned(table) && (is_reclaimable || (table.may_filter && is_old && !table.is_fenced))
        }
        _ => concerned(table),
    };
    let mut wanted = (0..tables.len()).filter(|at| wanted(&tables[*at])).peekable();
    if wanted.peek().is_none() {
        return RangeStep::Done;
    }
    let plan = match level {
        0 => {
            let base = summary.targets().base;
            wanted.rev().find_map(|at| plan_level0(summary, at, base, Reason::Range))
        }
        BOTTOM => wanted.find_map(|at| expired::plan_bottom(summary, at, Reason::Range)),
        _ => wanted.find_map(|at| plan_level(summary, level, at, Reason::Range)),
    };
    plan.map_or(RangeStep::Wait, RangeStep::Run)
}

/// Returns the compaction of one table, which a caller has chosen: it is merged into the next level with what it
/// overlaps there, from level 0 with the tables that overlap it, or rewritten in place at the bottom. `Done` once the
/// family has no such table.
pub fn plan_table(summary: &LevelSummary<'_>, number: u64) -> RangeStep {
    let position = |tables: &[TableFacts<'_>]| tables.iter().position(|table| table.number == number);
    let found = summary.levels.iter().enumerate().find_map(|(level, tables)| Some((level, position(tables)?)));
    let Some((level, at)) = found else { return RangeStep::Done };
    let plan = match level {
        0 => plan_level0(summary, at, summary.targets().base, Reason::Chosen),
        BOTTOM => rewrite(summary, level, at, Reason::Chosen),
        _ => plan_level(summary, level, at, Reason::Chosen),
    };
    let merged = |plan| RangeStep::Run(CompactionPlan { action: PlanAction::Merge, ..plan });
    plan.map_or(RangeStep::Wait, merged)
}

/// Picks the first group in level 0 that can be merged, starting with the oldest table.
pub(super) fn pick_level0(summary: &LevelSummary<'_>, base: usize, reason: Reason) -> Option<CompactionPlan> {
    (0..summary.levels[0].len()).rev().find_map(|at| plan_level0(summary, at, base, reason))
}

/// For a level from 1 to 5, picks the table whose merge rewrites least for what it removes.
pub(super) fn pick_level(summary: &LevelSummary<'_>, level: usize, reason: Reason) -> Option<CompactionPlan> {
    let tables = &summary.levels[level];
    let cost = |at: usize| {
        let table = &tables[at];
        let below = &summary.levels[level + 1];
        let overlap = total(&below[overlapping(summary.order, below, table.smallest, table.largest)]);
        thousandths(overlap, compensated(table))
    };
    let mut order: Vec<(u64, usize)> = (0..tables.len()).map(|at| (cost(at), at)).collect();
    order.sort();
    order.into_iter().find_map(|(_, at)| plan_level(summary, level, at, reason))
}

#[cfg(test)]
#[path = "pick_tests.rs"]
mod tests;
