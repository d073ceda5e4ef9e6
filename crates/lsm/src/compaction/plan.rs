//! The plan of one compaction, and how it is formed around a table. Pure: a level summary in, a plan out.
//!
//! Shape:  level 6 is the bottom. The targets of the levels above follow from the largest level, each smaller by
//!         `fanout`, up to the *base*, the level into which level 0 is merged (dynamic level sizes: about nine tenths
//!         of the data are at the bottom).
//! Holds:  inputs are closed: the tables that move down include everything older of their keys (level 0: all older
//!         tables that overlap). Two plans never share an input, and never write to overlapping ranges of one level
//!         (I05).

use std::ops::Range;

use crate::expiry::Expiries;
use crate::lost_range::LostRange;
use crate::options::CfOptions;
use crate::order::Order;
use crate::record::{MAX_SEQNO, Seqno};
use crate::version::{LEVELS, Levels};

/// The bottom level.
pub const BOTTOM: usize = LEVELS - 1;

/// A merge of this many table lengths takes no further optional inputs.
pub(super) const MERGE_TABLES: u64 = 25;

/// A table may overlap this many table lengths of the level after next; more would make its own merge too large.
pub(super) const GRANDPARENT_TABLES: u64 = 10;

/// The properties of one table.
#[derive(Clone, Copy, Debug)]
pub struct TableFacts<'a> {
    /// Its number.
    pub number: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its smallest user key.
    pub smallest: &'a [u8],
    /// Its largest user key.
    pub largest: &'a [u8],
    /// Number of its records.
    pub entries: u64,
    /// Number of its tombstones.
    pub tombstones: u64,
    /// Number of its records that have a newer version in the same table, if it was counted; otherwise 0.
    pub hidden: u64,
    /// True if a compaction of a range should apply a filter to its records.
    pub may_filter: bool,
    /// The greatest seqno of a record.
    pub greatest_seqno: Seqno,
    /// True for an input of a running job, or a table quarantined after a job failed: it must not be picked.
    pub is_busy: bool,
    /// Expiry times of its records; `None` if unknown.
    pub expiry: Option<Expiries>,
    /// True if it was rewritten for its expired records and some of them were kept.
    pub is_kept: bool,
    /// True if a memtable holds a key within its bounds.
    pub is_in_memory: bool,
    /// Which of its records range deletes hide from every reader.
    pub range_deleted: RangeDeleted,
    /// True if nobody may ask for a version of its records that is hidden.
    pub retains_nothing: bool,
    /// True if a lost range overlaps it: tombstones there are kept, and rewriting the table for them would never end.
    pub is_fenced: bool,
}

/// Which records of a table range deletes hide from every reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RangeDeleted {
    /// None is known to be hidden.
    #[default]
    No,
    /// Some may be.
    Partly,
    /// All are.
    Wholly,
}

/// The target shape of a family's levels.
#[derive(Clone, Copy, Debug)]
pub struct LevelShape {
    /// Number of level-0 tables that triggers a merge.
    pub level0_tables: usize,
    /// Maximum size of the base level.
    pub level_base_bytes: u64,
    /// Ratio of a level's size to that of the level above.
    pub fanout: u64,
    /// Target size of a table.
    pub table_bytes: u64,
    /// The first level whose tables are compressed; a table that crosses this boundary is rewritten, not moved.
    pub compressed_from: usize,
}

impl LevelShape {
    /// Returns the shape that a family's options define.
    pub fn new(options: &CfOptions, compressed_from: usize) -> LevelShape {
        let &CfOptions { level0_tables, level_base_bytes, fanout, table_bytes, .. } = options;
        LevelShape { level0_tables, level_base_bytes, fanout, table_bytes, compressed_from }
    }
}

/// The level summary: all facts that a choice depends on.
#[derive(Clone, Debug)]
pub struct LevelSummary<'a> {
    /// The order of keys.
    pub order: &'a Order,
    /// The target shape.
    pub shape: LevelShape,
    /// The tables: level 0 newest first, the others by key.
    pub levels: [Vec<TableFacts<'a>>; LEVELS],
    /// The output ranges of running jobs.
    pub running: &'a [OutputRange],
    /// The oldest seqno of a live snapshot; `MAX_SEQNO` if there is none.
    pub oldest_snapshot: Seqno,
    /// No reader sees records that expired by this time, in microseconds since 1970.
    pub expired: u64,
}

/// A closed interval of keys in one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRange {
    /// The output level.
    pub level: usize,
    /// Smallest key.
    pub smallest: Vec<u8>,
    /// Largest key.
    pub largest: Vec<u8>,
}

/// A compaction to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Input tables by level, upper level first; level 0 newest first.
    pub inputs: Vec<(usize, Vec<u64>)>,
    /// The output level.
    pub output_level: usize,
    /// How the inputs reach the output level.
    pub action: PlanAction,
    /// The reason for the compaction.
    pub reason: Reason,
    /// Urgency in thousandths, for choosing among families: at least 1000 if due, 0 if not due.
    pub score: u64,
    /// The key range of all inputs, at the output level: kept in `LevelSummary::running` while the job runs.
    pub span: OutputRange,
}

/// How tables reach another level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAction {
    /// Their records are merged into new tables.
    Merge,
    /// They overlap no table there: the same files are assigned to the other level.
    Move,
    /// All their records have expired or are hidden by range deletes: they are removed by an edit alone, without output.
    Drop,
}

/// The reason for which tables are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Level 0 has too many tables.
    Level0,
    /// A level is larger than its target.
    Size,
    /// A table is dense with tombstones, and nothing else is due.
    Tombstones,
    /// A caller requested this range.
    Range,
    /// A caller chose these tables.
    Chosen,
    /// A table points into value files that are mostly garbage, and nothing else is due.
    Values,
    /// In a store that is settling, the levels above the lowest, or the value files, hold more than they should.
    Space,
    /// Records of the table have expired.
    Expired,
    /// A range delete hides records of the table.
    RangeDelete,
}

impl Reason {
    /// True if it runs only when nothing is due, to reclaim space.
    pub fn is_spare(self) -> bool {
        matches!(self, Reason::Tombstones | Reason::Values | Reason::Space | Reason::Expired | Reason::RangeDelete)
    }

    /// Returns the reason in words.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Level0 => "level 0",
            Reason::Size => "size",
            Reason::Tombstones => "tombstones",
            Reason::Range => "range",
            Reason::Chosen => "chosen",
            Reason::Values => "values",
            Reason::Space => "space",
            Reason::Expired => "expired",
            Reason::RangeDelete => "range delete",
        }
    }
}

/// The policy that selects value files for collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GcPolicy {
    /// Files that are mostly garbage, if a large share of all value bytes is.
    Usual,
    /// Files that are mostly garbage.
    Mostly,
    /// As many files as are needed to leave little garbage.
    Lean,
}

impl CompactionPlan {
    /// True unless it rewrites tables in place that were written after a caller began to wait, when `newest` was the
    /// next file number. A plan that moves tables down may follow another one.
    pub(super) fn is_new_work(&self, newest: u64) -> bool {
        let goes_down = self.inputs.iter().any(|(level, _)| *level != self.output_level);
        goes_down || self.inputs[0].1.iter().all(|number| *number < newest)
    }

    /// True if its purpose is to move values; other compactions move the values they encounter.
    pub fn is_for_values(&self) -> bool {
        let is_in_place = || self.inputs.iter().all(|(level, _)| *level == self.output_level);
        self.reason == Reason::Values || self.reason == Reason::Space && is_in_place()
    }

    /// Returns the policy for collecting value files during the compaction: more files are collected if its purpose is
    /// space rather than the shape of the levels.
    pub fn thrift(&self) -> GcPolicy {
        match self.reason {
            Reason::Range | Reason::Chosen | Reason::Values => GcPolicy::Mostly,
            Reason::Space if self.is_for_values() => GcPolicy::Lean,
            Reason::Level0
            | Reason::Size
            | Reason::Tombstones
            | Reason::Space
            | Reason::Expired
            | Reason::RangeDelete => GcPolicy::Usual,
        }
    }
}

impl<'a> LevelSummary<'a> {
    /// Returns the summary of a family's levels. `is_busy` marks tables that must not be picked.
    pub fn new<T>(
        levels: &'a Levels<T>,
        shape: LevelShape,
        running: &'a [OutputRange],
        oldest_snapshot: Option<Seqno>,
        is_busy: impl Fn(u64) -> bool,
    ) -> LevelSummary<'a> {
        let facts = |level| {
            let tables = levels.level(level).tables().iter().map(|handle| handle.meta());
            let facts = tables.map(|meta| TableFacts {
                number: meta.number,
                size: meta.size,
                smallest: &meta.smallest,
                largest: &meta.largest,
                entries: meta.ledger.count(),
                tombstones: meta.ledger.deletes.count,
                hidden: 0,
                may_filter: false,
                greatest_seqno: meta.newest_seqno(),
                is_busy: is_busy(meta.number),
                expiry: meta.expiry,
                is_kept: false,
                is_in_memory: false,
                range_deleted: RangeDeleted::No,
                retains_nothing: meta.retains_nothing,
                is_fenced: false,
            });
            facts.collect()
        };
        let oldest_snapshot = oldest_snapshot.unwrap_or(MAX_SEQNO);
        LevelSummary {
            order: levels.order(),
            shape,
            levels: std::array::from_fn(facts),
            running,
            oldest_snapshot,
            expired: 0,
        }
    }

    /// Adds the lost ranges that overlap tables.
    #[must_use]
    pub fn fenced(mut self, lost_ranges: &[LostRange]) -> LevelSummary<'a> {
        let order = self.order;
        if !lost_ranges.is_empty() {
            for table in self.levels.iter_mut().flatten() {
                let overlaps = |lost_range: &LostRange| {
                    order.compare(&lost_range.from.0, table.largest).is_le()
                        && order.compare(table.smallest, &lost_range.to.0).is_le()
                };
                table.is_fenced = lost_ranges.iter().any(overlaps);
            }
        }
        self
    }

    /// Returns the sizes of all levels.
    pub fn sizes(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| total(&self.levels[level]))
    }

    /// Returns the targets that follow from the sizes.
    pub fn targets(&self) -> Targets {
        targets(&self.sizes(), &self.shape)
    }

    /// Returns the scores of all levels in thousandths of their targets; tables already being merged do not count.
    pub fn scores(&self) -> [u64; LEVELS] {
        let targets = self.targets();
        std::array::from_fn(|level| {
            let idle = self.levels[level].iter().filter(|table| !table.is_busy);
            let bytes = idle.clone().map(|table| table.size).fold(0, u64::saturating_add);
            match level {
                0 => {
                    let by_count = idle.count() as u64 * 1000 / self.shape.level0_tables.max(1) as u64;
                    by_count.max(thousandths(bytes, self.shape.level_base_bytes))
                }
                BOTTOM => 0,
                _ => thousandths(bytes, targets.bytes[level]),
            }
        })
    }
}

/// The target sizes of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The level into which level 0 is merged; the levels in between are empty.
    pub base: usize,
    /// Target of each level from the base to the bottom; 0 above the base.
    pub bytes: [u64; LEVELS],
}

/// Returns the targets, computed from the bottom up: the largest level is at its target, each level above is smaller by
/// `fanout`, and the base is the first level not larger than `level_base_bytes`. A base far smaller than that is raised
/// to `level_base_bytes / fanout`. While level 0 holds more than the base should, no target is smaller than level 0:
/// moving the base's overlapping tables down first would delay level 0, and with it the writers.
pub fn targets(sizes: &[u64; LEVELS], shape: &LevelShape) -> Targets {
    let fanout = shape.fanout.max(2);
    let first = (1..LEVELS).find(|level| sizes[*level] > 0).unwrap_or(BOTTOM);
    let greatest = sizes[1..].iter().copied().max().unwrap_or(0);
    let most = shape.level_base_bytes.max(1);
    // The target of the first non-empty level, if the largest level were the bottom.
    let mut bytes = (first..BOTTOM).fold(greatest, |bytes, _| bytes / fanout);
    let mut base = first;
    while base > 1 && bytes > most {
        base -= 1;
        bytes /= fanout;
    }
    bytes = bytes.clamp(most / fanout + 1, most);
    let mut targets = Targets { base, bytes: [0; LEVELS] };
    let waiting = if sizes[0] > most { sizes[0] } else { 0 };
    for level in base..LEVELS {
        targets.bytes[level] = bytes.max(waiting);
        bytes = bytes.saturating_mul(fanout);
    }
    targets
}

/// Returns the size of a table with each tombstone counted as two more records: a tombstone frees the records it hides.
pub(super) fn compensated(table: &TableFacts<'_>) -> u64 {
    let record = table.size / table.entries.max(1);
    table.size.saturating_add(record.saturating_mul(2).saturating_mul(table.tombstones)).max(1)
}

/// True if a merge of level 0 rewrites no more of the level below than it removes from level 0, with tombstones
/// weighted as in `compensated`.
pub(super) fn is_cheap(summary: &LevelSummary<'_>, plan: &CompactionPlan) -> bool {
    let of = |level: usize, weigh: fn(&TableFacts<'_>) -> u64| {
        let numbers = plan.inputs.iter().filter(|(from, _)| *from == level).flat_map(|(_, numbers)| numbers);
        let tables = numbers.filter_map(|number| summary.levels[level].iter().find(|table| table.number == *number));
        tables.map(weigh).fold(0, u64::saturating_add)
    };
    of(plan.output_level, |table| table.size) <= of(0, compensated)
}

/// Plans a merge of one level-0 table, and all level-0 tables that overlap it or one another, into the base. If the
/// group exceeds the merge limit, only its oldest tables are merged: no table older than a merged table stays. A
/// level-0 table is as large as a memtable, however small other tables are: for each that stays, the base is rewritten
/// once more.
pub(super) fn plan_level0(
    summary: &LevelSummary<'_>,
    seed: usize,
    base: usize,
    reason: Reason,
) -> Option<CompactionPlan> {
    let tables = &summary.levels[0];
    let mut group = closure(summary.order, tables, seed);
    if group.iter().any(|at| tables[*at].is_busy) {
        return None;
    }
    let longest = group.iter().map(|at| tables[*at].size).max().unwrap_or(0);
    let limit = summary.shape.table_bytes.max(longest).saturating_mul(MERGE_TABLES);
    let mut bytes = 0u64;
    let fitting = group.iter().rev().take_while(|at| {
        let fits = bytes == 0 || bytes + tables[**at].size <= limit;
        bytes = bytes.saturating_add(tables[**at].size);
        fits
    });
    let fitting = fitting.count();
    group.drain(..group.len() - fitting);
    let inputs: Vec<&TableFacts<'_>> = group.iter().map(|at| &tables[*at]).collect();
    finish(summary, 0, &inputs, base, reason)
}

/// Returns the indices of the tables that overlap `seed` directly or through others; newest first, as in the level.
fn closure(order: &Order, tables: &[TableFacts<'_>], seed: usize) -> Vec<usize> {
    let (mut low, mut high) = (tables[seed].smallest, tables[seed].largest);
    let mut inside = vec![false; tables.len()];
    loop {
        let mut has_grown = false;
        for (at, table) in tables.iter().enumerate() {
            if !inside[at] && order.compare(table.smallest, high).is_le() && order.compare(table.largest, low).is_ge() {
                (low, high) = (order_min(order, low, table.smallest), order_max(order, high, table.largest));
                inside[at] = true;
                has_grown = true;
            }
        }
        if !has_grown {
            return (0..tables.len()).filter(|at| inside[*at]).collect();
        }
    }
}

/// Plans a merge of one table of a level from 1 to 5 into the next, with neighbors that add no tables below.
pub(super) fn plan_level(
    summary: &LevelSummary<'_>,
    level: usize,
    at: usize,
    reason: Reason,
) -> Option<CompactionPlan> {
    let tables = &summary.levels[level];
    let inputs = grow(summary, level, at);
    let inputs: Vec<&TableFacts<'_>> = tables[inputs].iter().collect();
    finish(summary, level, &inputs, level + 1, reason)
}

/// Returns the range of tables around `at` that share its tables in the next level, within the size limit of a merge.
fn grow(summary: &LevelSummary<'_>, level: usize, at: usize) -> Range<usize> {
    let (order, tables, below) = (summary.order, &summary.levels[level], &summary.levels[level + 1]);
    let under =
        |range: &Range<usize>| overlapping(order, below, tables[range.start].smallest, tables[range.end - 1].largest);
    let mut range = at..at + 1;
    let shared = under(&range);
    let Some((low, high)) = below[shared.clone()]
        .first()
        .map(|table| table.smallest)
        .zip(below[shared.clone()].last().map(|table| table.largest))
    else {
        return range;
    };
    let limit = summary.shape.table_bytes.saturating_mul(MERGE_TABLES);
    let mut bytes = total(&below[shared.clone()]).saturating_add(tables[at].size);
    let mut takes = |table: &TableFacts<'_>, wider: &Range<usize>| {
        let touches = order.compare(table.smallest, high).is_le() && order.compare(table.largest, low).is_ge();
        bytes = bytes.saturating_add(table.size);
        touches && !table.is_busy && bytes <= limit && under(wider) == shared
    };
    while range.end < tables.len() && takes(&tables[range.end], &(range.start..range.end + 1)) {
        range.end += 1;
    }
    while range.start > 0 && takes(&tables[range.start - 1], &(range.start - 1..range.end)) {
        range.start -= 1;
    }
    range
}

/// Plans to move a table one level down; if no data lies below it, to rewrite it in place.
pub(super) fn sink(summary: &LevelSummary<'_>, level: usize, at: usize, reason: Reason) -> Option<CompactionPlan> {
    let table = &summary.levels[level][at];
    let is_bottom = summary.levels[level + 1..]
        .iter()
        .all(|deeper| overlapping(summary.order, deeper, table.smallest, table.largest).is_empty());
    if !is_bottom {
        return plan_level(summary, level, at, reason);
    }
    let can = !table.is_fenced && (table.may_filter || table.greatest_seqno <= summary.oldest_snapshot);
    if can { rewrite(summary, level, at, reason) } else { None }
}

/// Plans to rewrite a table in place.
pub(super) fn rewrite(summary: &LevelSummary<'_>, level: usize, at: usize, reason: Reason) -> Option<CompactionPlan> {
    let table = &summary.levels[level][at];
    let span = OutputRange { level, smallest: table.smallest.to_vec(), largest: table.largest.to_vec() };
    let can = !table.is_busy && is_free(summary, &span);
    can.then(|| CompactionPlan {
        inputs: vec![(level, vec![table.number])],
        output_level: level,
        action: PlanAction::Merge,
        reason,
        score: 0,
        span,
    })
}

/// Adds the tables of the output level that the inputs overlap, and rejects conflicts with running jobs.
fn finish(
    summary: &LevelSummary<'_>,
    level: usize,
    inputs: &[&TableFacts<'_>],
    output_level: usize,
    reason: Reason,
) -> Option<CompactionPlan> {
    let order = summary.order;
    let low = inputs.iter().map(|table| table.smallest).reduce(|a, b| order_min(order, a, b))?;
    let high = inputs.iter().map(|table| table.largest).reduce(|a, b| order_max(order, a, b))?;
    let below = &summary.levels[output_level];
    let below = &below[overlapping(order, below, low, high)];
    if inputs.iter().copied().chain(below).any(|table| table.is_busy) {
        return None;
    }
    let smallest = below.first().map_or(low, |table| order_min(order, low, table.smallest));
    let largest = below.last().map_or(high, |table| order_max(order, high, table.largest));
    let span = OutputRange { level: output_level, smallest: smallest.to_vec(), largest: largest.to_vec() };
    if !is_free(summary, &span) {
        return None;
    }
    let can_move = below.is_empty() && (level > 0 || inputs.len() == 1) && {
        let grandparents = summary.levels.get(output_level + 1).map_or(&[][..], Vec::as_slice);
        let overlap = total(&grandparents[overlapping(order, grandparents, low, high)]);
        let is_packed = |level: usize| level >= summary.shape.compressed_from;
        overlap <= summary.shape.table_bytes.saturating_mul(GRANDPARENT_TABLES)
            && is_packed(level) == is_packed(output_level)
    };
    let mut plan = CompactionPlan {
        inputs: vec![(level, inputs.iter().map(|table| table.number).collect())],
        output_level,
        action: if can_move { PlanAction::Move } else { PlanAction::Merge },
        reason,
        score: 0,
        span,
    };
    if !below.is_empty() {
        plan.inputs.push((output_level, below.iter().map(|table| table.number).collect()));
    }
    Some(plan)
}

/// True if no running job writes to this range.
pub(super) fn is_free(summary: &LevelSummary<'_>, span: &OutputRange) -> bool {
    let order = summary.order;
    summary.running.iter().all(|other| {
        other.level != span.level
            || order.compare(&other.largest, &span.smallest).is_lt()
            || order.compare(&span.largest, &other.smallest).is_lt()
    })
}

/// Returns the tables of a sorted level that overlap the range from `low` to `high`, both inclusive.
pub(super) fn overlapping(order: &Order, tables: &[TableFacts<'_>], low: &[u8], high: &[u8]) -> Range<usize> {
    let start = tables.partition_point(|table| order.compare(table.largest, low).is_lt());
    let length = tables[start..].partition_point(|table| order.compare(table.smallest, high).is_le());
    start..start + length
}

pub(super) fn order_min<'a>(order: &Order, a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
    if order.compare(a, b).is_le() { a } else { b }
}

pub(super) fn order_max<'a>(order: &Order, a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
    if order.compare(a, b).is_ge() { a } else { b }
}

pub(super) fn total(tables: &[TableFacts<'_>]) -> u64 {
    tables.iter().map(|table| table.size).fold(0, u64::saturating_add)
}

/// Returns `part` of `whole` in thousandths.
pub(super) fn thousandths(part: u64, whole: u64) -> u64 {
    u64::try_from(part as u128 * 1000 / whole.max(1) as u128).unwrap_or(u64::MAX)
}
