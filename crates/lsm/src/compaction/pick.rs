//! Pick: which tables are merged next, and into which level. Pure: a picture of the levels in, a plan out.
//!
//! Shape:  level 6 is the bottom. The sizes of the levels above follow from the greatest level, each `fanout` smaller, up to the
//!         *base*, the level that level 0 is merged into (dynamic level sizes: about nine tenths of the data stand at the bottom).
//! Score:  size over target, in thousandths; level 0 by count too. A level is due from 1000 on. Of several, the one goes first
//!         that is fullest in comparison with the next, so that nothing is poured into a level that overflows already.
//! Choice: in a level, the table with the least overlap in the next for its size, where a tombstone counts as twice a record.
//! Holds:  inputs are closed: what goes down takes along everything older of its keys (level 0: all older tables that overlap).
//!         Two plans never share an input, and never write to overlapping spans of one level (I05).

use std::cmp::Reverse;
use std::ops::Range;

use super::collect::Thrift;
use super::expired;
use crate::expiry::Expiries;
use crate::fence::Fence;
use crate::options::CfOptions;
use crate::order::Order;
use crate::record::{MAX_SEQNO, Seqno};
use crate::version::{LEVELS, Levels};

/// The bottom level.
pub const BOTTOM: usize = LEVELS - 1;

/// A merge that reaches so many table lengths takes no further inputs that it could do without.
pub(super) const MERGE_TABLES: u64 = 25;

/// A table may overlap so many table lengths of the level after next; more would make its own merge too large.
pub(super) const GRANDPARENT_TABLES: u64 = 10;

/// A table is dense with tombstones when every fourth record or more is one.
const DENSE: u64 = 4;

/// One table.
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
    /// Its records.
    pub entries: u64,
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// How many have a newer version of their key beside them, where somebody has looked; else 0.
    pub hidden: u64,
    /// The greatest seqno of a record.
    pub greatest_seqno: Seqno,
    /// Not to be touched: an input of a running job, or barred after a job failed.
    pub is_busy: bool,
    /// When its records expire, as far as that is known.
    pub expiry: Option<Expiries>,
    /// It was written anew for its expired records, and some of them stayed.
    pub is_kept: bool,
    /// A memtable holds a key within its bounds.
    pub is_in_memory: bool,
    /// A fence reaches into its keys: tombstones there stay, and to write it anew for them would never end.
    pub is_fenced: bool,
}

/// The shape a family wants for its levels.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Tables in level 0 at which they are merged.
    pub level0_tables: usize,
    /// Greatest size of the base level.
    pub level_base_bytes: u64,
    /// Size of a level over that of the one above.
    pub fanout: u64,
    /// Size of a table.
    pub table_bytes: u64,
    /// The first level whose tables are compressed; a table does not move over this line, it is written anew.
    pub compressed_from: usize,
}

impl Shape {
    /// The shape that a family's options ask for.
    pub fn new(options: &CfOptions, compressed_from: usize) -> Shape {
        let &CfOptions { level0_tables, level_base_bytes, fanout, table_bytes, .. } = options;
        Shape { level0_tables, level_base_bytes, fanout, table_bytes, compressed_from }
    }
}

/// Everything that a choice depends on.
#[derive(Clone, Debug)]
pub struct Picture<'a> {
    /// The order of keys.
    pub order: &'a Order,
    /// The shape wanted.
    pub shape: Shape,
    /// The tables: level 0 newest first, the others by key.
    pub levels: [Vec<TableFacts<'a>>; LEVELS],
    /// What running jobs write.
    pub running: &'a [Span],
    /// The oldest seqno that somebody still reads at; `MAX_SEQNO` if there is none.
    pub oldest_snapshot: Seqno,
    /// No reader sees what expired by this time, in microseconds since 1970.
    pub expired: u64,
}

/// A closed interval of keys in one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The level that is written.
    pub level: usize,
    /// Smallest key.
    pub smallest: Vec<u8>,
    /// Largest key.
    pub largest: Vec<u8>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Input tables by level, upper level first; level 0 newest first.
    pub inputs: Vec<(usize, Vec<u64>)>,
    /// Where they go.
    pub output_level: usize,
    /// How.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// How urgent it is, in thousandths, 1000 and more if it is due: to choose among families. 0 if it is not due.
    pub score: u64,
    /// All keys of the inputs, in the output level: to be put among `Picture::running` while the job runs.
    pub span: Span,
}

/// How tables go to another level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Their records are merged into new tables.
    Merge,
    /// They overlap nothing there: the same files, named in the other level.
    Move,
    /// All their records have expired: they go by an edit alone, and nothing comes.
    Drop,
}

/// Why tables are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Level 0 has too many tables.
    Level0,
    /// A level is larger than its target.
    Size,
    /// A table is dense with tombstones, and there is nothing better to do.
    Tombstones,
    /// Somebody asked for this range.
    Range,
    /// It points into value files that are mostly garbage, and there is nothing better to do.
    Values,
    /// The levels above the lowest hold more than they should in a store that is to settle, or value files do.
    Space,
    /// Records have expired.
    Expired,
}

impl Reason {
    /// True if it is done only where nothing is due: room that could be had.
    pub fn is_spare(self) -> bool {
        matches!(self, Reason::Tombstones | Reason::Values | Reason::Space | Reason::Expired)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Level0 => "level 0",
            Reason::Size => "size",
            Reason::Tombstones => "tombstones",
            Reason::Range => "range",
            Reason::Values => "values",
            Reason::Space => "space",
            Reason::Expired => "expired",
        }
    }
}

/// The next step of compacting a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do this, then ask again.
    Run(Plan),
    /// Something is left, but a job stands in the way: ask again when it is done. If none runs, what is left is barred.
    Wait,
    /// Nothing is left to do in this level.
    Done,
}

impl Plan {
    /// True if files only change their level.
    pub fn is_move(&self) -> bool {
        self.action == Action::Move
    }

    /// True if it is for the values that it moves; all others move them by the way.
    pub fn is_for_values(&self) -> bool {
        let is_in_place = || self.inputs.iter().all(|(level, _)| *level == self.output_level);
        self.reason == Reason::Values || self.reason == Reason::Space && is_in_place()
    }

    /// Which value files are collected by the way: more of them where it is not the shape of the levels that asks, but the room that could be had.
    pub fn thrift(&self) -> Thrift {
        match self.reason {
            Reason::Range | Reason::Values => Thrift::Mostly,
            Reason::Space if self.is_for_values() => Thrift::Lean,
            Reason::Level0 | Reason::Size | Reason::Tombstones | Reason::Space | Reason::Expired => Thrift::Usual,
        }
    }
}

impl<'a> Picture<'a> {
    /// The picture of a family's levels. `is_busy` says which tables are not to be touched.
    pub fn new<T>(
        levels: &'a Levels<T>,
        shape: Shape,
        running: &'a [Span],
        oldest_snapshot: Option<Seqno>,
        is_busy: impl Fn(u64) -> bool,
    ) -> Picture<'a> {
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
                greatest_seqno: meta.newest_seqno(),
                is_busy: is_busy(meta.number),
                expiry: meta.expiry,
                is_kept: false,
                is_in_memory: false,
                is_fenced: false,
            });
            facts.collect()
        };
        let oldest_snapshot = oldest_snapshot.unwrap_or(MAX_SEQNO);
        Picture {
            order: levels.order(),
            shape,
            levels: std::array::from_fn(facts),
            running,
            oldest_snapshot,
            expired: 0,
        }
    }

    /// The same, with the fences that reach into tables.
    #[must_use]
    pub fn fenced(mut self, fences: &[Fence]) -> Picture<'a> {
        let order = self.order;
        if !fences.is_empty() {
            for table in self.levels.iter_mut().flatten() {
                let overlaps = |fence: &Fence| {
                    order.compare(&fence.from.0, table.largest).is_le()
                        && order.compare(table.smallest, &fence.to.0).is_le()
                };
                table.is_fenced = fences.iter().any(overlaps);
            }
        }
        self
    }

    /// Sizes of all levels.
    pub fn sizes(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| total(&self.levels[level]))
    }

    /// The targets that follow from the sizes.
    pub fn targets(&self) -> Targets {
        targets(&self.sizes(), &self.shape)
    }

    /// The scores of all levels in thousandths of their targets; tables that are being merged already do not count.
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

/// How large levels should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The level that level 0 is merged into; those between are empty.
    pub base: usize,
    /// Target of each level from the base to the bottom, 0 above.
    pub bytes: [u64; LEVELS],
}

/// Targets from the bottom up: the greatest level is as large as it should be, each above is `fanout` smaller, and the base is
/// the first one that is not larger than `level_base_bytes`. A base far smaller than that is raised to a `fanout`th of it. While level 0
/// holds more than the base should, no level needs to be smaller than it: to pour down first what it overlaps anyway would keep level
/// 0 waiting, and the writers with it.
pub fn targets(sizes: &[u64; LEVELS], shape: &Shape) -> Targets {
    let fanout = shape.fanout.max(2);
    let first = (1..LEVELS).find(|level| sizes[*level] > 0).unwrap_or(BOTTOM);
    let greatest = sizes[1..].iter().copied().max().unwrap_or(0);
    let most = shape.level_base_bytes.max(1);
    // The target of the first level that holds data, if the greatest level stood at the bottom.
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

/// The most urgent plan, if any level is due and not all of its tables are in use.
pub fn pick(picture: &Picture<'_>) -> Option<Plan> {
    let scores = picture.scores();
    let base = picture.targets().base;
    let urgency = |level: usize| {
        let next = if level == 0 { base } else { level + 1 };
        thousandths(scores[level], scores.get(next).copied().unwrap_or(0).max(1000))
    };
    let mut due: Vec<usize> = (0..BOTTOM).filter(|level| scores[*level] >= 1000).collect();
    due.sort_by_key(|level| (Reverse(urgency(*level)), *level));
    due.into_iter().find_map(|level| {
        let plan = match level {
            0 => pick_level0(picture, base, Reason::Level0),
            _ => pick_level(picture, level, Reason::Size),
        };
        plan.map(|plan| Plan { score: urgency(level), ..plan })
    })
}

/// True if a compaction is due that could run now: a store is settled when nothing is, and nothing runs.
pub fn is_due(picture: &Picture<'_>) -> bool {
    pick(picture).is_some()
}

/// What to do when nothing is due: the table that is densest with tombstones goes down, or is written anew without them where
/// nothing lies below. In place only if no snapshot keeps a tombstone, so that the same table is not picked for ever. A table of
/// level 0 goes where that rewrites little for what its tombstones hide: a queue, which is read where it is deleted, is not to
/// wait until three more tables have come.
pub fn pick_idle(picture: &Picture<'_>) -> Option<Plan> {
    let mut dense: Vec<(Reverse<u64>, usize, usize)> = Vec::new();
    for (level, tables) in picture.levels.iter().enumerate() {
        for (at, table) in tables.iter().enumerate() {
            if table.tombstones > 0 && table.tombstones.saturating_mul(DENSE) >= table.entries {
                dense.push((Reverse(thousandths(table.tombstones, table.entries)), level, at));
            }
        }
    }
    dense.sort();
    let base = picture.targets().base;
    dense.into_iter().find_map(|(_, level, at)| match level {
        0 => plan_level0(picture, at, base, Reason::Tombstones).filter(|plan| is_cheap(picture, plan)),
        _ => sink(picture, level, at, Reason::Tombstones),
    })
}

/// True if a merge of level 0 rewrites no more of the level below than it takes out of level 0, each tombstone counted as in `compensated`.
pub(super) fn is_cheap(picture: &Picture<'_>, plan: &Plan) -> bool {
    let of = |level: usize, weigh: fn(&TableFacts<'_>) -> u64| {
        let numbers = plan.inputs.iter().filter(|(from, _)| *from == level).flat_map(|(_, numbers)| numbers);
        let tables = numbers.filter_map(|number| picture.levels[level].iter().find(|table| table.number == *number));
        tables.map(weigh).fold(0, u64::saturating_add)
    };
    of(plan.output_level, |table| table.size) <= of(0, compensated)
}

/// The next step of compacting the keys between `low` and `high` (both included, none: open) out of `level`; at the bottom, of
/// ridding it of tombstones, hidden versions and expired records. Ask for levels 0 to 6 in turn, each until it is `Done`. Tables of level 0 above
/// number `newest` came later and are left alone, so that it ends under steady writes; so are those at the bottom that were made since, whose hidden
/// versions somebody wants to keep.
pub fn plan_range(picture: &Picture<'_>, level: usize, low: Option<&[u8]>, high: Option<&[u8]>, newest: u64) -> Step {
    let order = picture.order;
    let concerned = |table: &TableFacts<'_>| {
        low.is_none_or(|low| order.compare(table.largest, low).is_ge())
            && high.is_none_or(|high| order.compare(table.smallest, high).is_le())
    };
    let Some(tables) = picture.levels.get(level) else { return Step::Done };
    let wanted = |table: &TableFacts<'_>| match level {
        0 => table.number <= newest && concerned(table),
        BOTTOM => {
            let can_go = table.greatest_seqno <= picture.oldest_snapshot && !table.is_fenced;
            let is_old = table.number < newest; // the next that will be given
            let has_hidden = table.hidden > 0 && is_old;
            let expired = table.expiry.is_some_and(|of| of.any_by(picture.expired)) && is_old && !table.is_kept;
            concerned(table) && (table.tombstones > 0 || has_hidden || expired) && can_go
        }
        _ => concerned(table),
    };
    let mut wanted = (0..tables.len()).filter(|at| wanted(&tables[*at])).peekable();
    if wanted.peek().is_none() {
        return Step::Done;
    }
    let plan = match level {
        0 => {
            let base = picture.targets().base;
            wanted.rev().find_map(|at| plan_level0(picture, at, base, Reason::Range))
        }
        BOTTOM => wanted.find_map(|at| expired::plan_bottom(picture, at, Reason::Range)),
        _ => wanted.find_map(|at| plan_level(picture, level, at, Reason::Range)),
    };
    plan.map_or(Step::Wait, Step::Run)
}

/// Level 0: from the oldest table on, the first group that can go.
pub(super) fn pick_level0(picture: &Picture<'_>, base: usize, reason: Reason) -> Option<Plan> {
    (0..picture.levels[0].len()).rev().find_map(|at| plan_level0(picture, at, base, reason))
}

/// A level from 1 to 5: the table whose merge rewrites least for what it takes away.
pub(super) fn pick_level(picture: &Picture<'_>, level: usize, reason: Reason) -> Option<Plan> {
    let tables = &picture.levels[level];
    let cost = |at: usize| {
        let table = &tables[at];
        let below = &picture.levels[level + 1];
        let overlap = total(&below[overlapping(picture.order, below, table.smallest, table.largest)]);
        thousandths(overlap, compensated(table))
    };
    let mut order: Vec<(u64, usize)> = (0..tables.len()).map(|at| (cost(at), at)).collect();
    order.sort();
    order.into_iter().find_map(|(_, at)| plan_level(picture, level, at, reason))
}

/// Size of a table, each tombstone counted as two more records: it frees what it hides.
fn compensated(table: &TableFacts<'_>) -> u64 {
    let record = table.size / table.entries.max(1);
    table.size.saturating_add(record.saturating_mul(2).saturating_mul(table.tombstones)).max(1)
}

/// One table of level 0, with all tables of level 0 that overlap it or one another, into the base. If they are too many, the
/// oldest of them: nothing older than what goes stays behind. A table of level 0 is as long as a memtable, however short others
/// are: each that stays behind has the base written once more.
pub(super) fn plan_level0(picture: &Picture<'_>, seed: usize, base: usize, reason: Reason) -> Option<Plan> {
    let tables = &picture.levels[0];
    let mut group = closure(picture.order, tables, seed);
    if group.iter().any(|at| tables[*at].is_busy) {
        return None;
    }
    let longest = group.iter().map(|at| tables[*at].size).max().unwrap_or(0);
    let limit = picture.shape.table_bytes.max(longest).saturating_mul(MERGE_TABLES);
    let mut bytes = 0u64;
    let fitting = group.iter().rev().take_while(|at| {
        let fits = bytes == 0 || bytes + tables[**at].size <= limit;
        bytes = bytes.saturating_add(tables[**at].size);
        fits
    });
    let fitting = fitting.count();
    group.drain(..group.len() - fitting);
    let inputs: Vec<&TableFacts<'_>> = group.iter().map(|at| &tables[*at]).collect();
    finish(picture, 0, &inputs, base, reason)
}

/// Indices of the tables that overlap `seed`, or one that does, and so on; newest first, as they stand.
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

/// One table of a level from 1 to 5 into the next, and its neighbours as far as they cost nothing more below.
fn plan_level(picture: &Picture<'_>, level: usize, at: usize, reason: Reason) -> Option<Plan> {
    let tables = &picture.levels[level];
    let inputs = grow(picture, level, at);
    let inputs: Vec<&TableFacts<'_>> = tables[inputs].iter().collect();
    finish(picture, level, &inputs, level + 1, reason)
}

/// The range of tables around `at` that share its tables in the next level, within the limit of a merge.
fn grow(picture: &Picture<'_>, level: usize, at: usize) -> Range<usize> {
    let (order, tables, below) = (picture.order, &picture.levels[level], &picture.levels[level + 1]);
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
    let limit = picture.shape.table_bytes.saturating_mul(MERGE_TABLES);
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

/// A table goes one level down; where nothing lies below it, it is written anew in place.
pub(super) fn sink(picture: &Picture<'_>, level: usize, at: usize, reason: Reason) -> Option<Plan> {
    let table = &picture.levels[level][at];
    let is_bottom = picture.levels[level + 1..]
        .iter()
        .all(|deeper| overlapping(picture.order, deeper, table.smallest, table.largest).is_empty());
    if !is_bottom {
        return plan_level(picture, level, at, reason);
    }
    let span = Span { level, smallest: table.smallest.to_vec(), largest: table.largest.to_vec() };
    let can = !table.is_busy
        && !table.is_fenced
        && table.greatest_seqno <= picture.oldest_snapshot
        && is_free(picture, &span);
    can.then(|| Plan {
        inputs: vec![(level, vec![table.number])],
        output_level: level,
        action: Action::Merge,
        reason,
        score: 0,
        span,
    })
}

/// Adds the tables of the output level that the inputs overlap, and refuses what would meet a running job.
fn finish(
    picture: &Picture<'_>,
    level: usize,
    inputs: &[&TableFacts<'_>],
    output_level: usize,
    reason: Reason,
) -> Option<Plan> {
    let order = picture.order;
    let low = inputs.iter().map(|table| table.smallest).reduce(|a, b| order_min(order, a, b))?;
    let high = inputs.iter().map(|table| table.largest).reduce(|a, b| order_max(order, a, b))?;
    let below = &picture.levels[output_level];
    let below = &below[overlapping(order, below, low, high)];
    if inputs.iter().copied().chain(below).any(|table| table.is_busy) {
        return None;
    }
    let smallest = below.first().map_or(low, |table| order_min(order, low, table.smallest));
    let largest = below.last().map_or(high, |table| order_max(order, high, table.largest));
    let span = Span { level: output_level, smallest: smallest.to_vec(), largest: largest.to_vec() };
    if !is_free(picture, &span) {
        return None;
    }
    let can_move = below.is_empty() && (level > 0 || inputs.len() == 1) && {
        let grandparents = picture.levels.get(output_level + 1).map_or(&[][..], Vec::as_slice);
        let overlap = total(&grandparents[overlapping(order, grandparents, low, high)]);
        let is_packed = |level: usize| level >= picture.shape.compressed_from;
        overlap <= picture.shape.table_bytes.saturating_mul(GRANDPARENT_TABLES)
            && is_packed(level) == is_packed(output_level)
    };
    let mut plan = Plan {
        inputs: vec![(level, inputs.iter().map(|table| table.number).collect())],
        output_level,
        action: if can_move { Action::Move } else { Action::Merge },
        reason,
        score: 0,
        span,
    };
    if !below.is_empty() {
        plan.inputs.push((output_level, below.iter().map(|table| table.number).collect()));
    }
    Some(plan)
}

/// True if no running job writes to this span.
pub(super) fn is_free(picture: &Picture<'_>, span: &Span) -> bool {
    let order = picture.order;
    picture.running.iter().all(|other| {
        other.level != span.level
            || order.compare(&other.largest, &span.smallest).is_lt()
            || order.compare(&span.largest, &other.smallest).is_lt()
    })
}

/// The tables of a sorted level that hold something between `low` and `high`, both included.
fn overlapping(order: &Order, tables: &[TableFacts<'_>], low: &[u8], high: &[u8]) -> Range<usize> {
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

/// `part` of `whole` in thousandths.
pub(super) fn thousandths(part: u64, whole: u64) -> u64 {
    u64::try_from(part as u128 * 1000 / whole.max(1) as u128).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "pick_tests.rs"]
mod tests;
