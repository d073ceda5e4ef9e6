//! Space compaction: merges beyond the due ones, so that a settled store holds little more than one version of each
//! key. Pure.
//!
//! In:     a level summary in which nothing is due. Out: the next plan; `None` once the family is compact, or while one
//!         of its jobs runs.
//! Lean:   the data above the lowest non-empty level is at most a fraction 1 / (`fanout` - 2) of that level: 1/8 by
//!         default. Levels at their target sizes take a little less than that. All of the data above may be newer
//!         versions of data below; apart from versions kept by snapshots, no more than that can be superseded. If only
//!         level 0 holds data, one table is lean.
//! Bare:   no data is above the lowest level. For tables that point to more bytes than they hold: the superseded
//!         records then refer to separated values, 1/8 of the pointers to 1/8 of the values, and merging pointers moves
//!         no value.
//! Cost:   each byte that moves down rewrites at most `fanout` others in each full level, as usual; in addition the
//!         base is rewritten once for the data from level 0. Only a caller that requests it pays: with ongoing writes
//!         the cost would recur forevery memtable.
//! Ends:   each plan moves tables to a lower level, and none moves up.

use std::cmp::Reverse;

use super::pick::{pick_level, pick_level0};
use super::plan::{BOTTOM, CompactionPlan, LevelSummary, Reason};
use crate::version::LEVELS;

/// True if little data is above the lowest non-empty level.
pub fn is_compact(summary: &LevelSummary<'_>) -> bool {
    stands_at_most(summary, |lowest| lowest / summary.shape.fanout.saturating_sub(2).max(1))
}

/// True if no data is above the lowest non-empty level.
pub fn is_single_level(summary: &LevelSummary<'_>) -> bool {
    stands_at_most(summary, |_| 0)
}

/// Returns the next merge towards a lean family, when nothing is due.
pub fn pick_compact(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    if is_compact(summary) { None } else { pick_fullest(summary) }
}

/// Returns the next merge towards a bare family, when nothing is due.
pub fn pick_single_level(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    if is_single_level(summary) { None } else { pick_fullest(summary) }
}

/// Returns whether the data above the lowest non-empty level is within the limit that `allowed` computes from that
/// level's size.
fn stands_at_most(summary: &LevelSummary<'_>, allowed: impl Fn(u64) -> u64) -> bool {
    let sizes = summary.sizes();
    let Some(lowest) = (1..LEVELS).rev().find(|level| sizes[*level] > 0) else { return summary.levels[0].len() <= 1 };
    let above = sizes[..lowest].iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
    above <= allowed(sizes[lowest])
}

/// Picks level 0 first, then the largest level.
fn pick_fullest(summary: &LevelSummary<'_>) -> Option<CompactionPlan> {
    if !summary.running.is_empty() {
        return None;
    }
    let (sizes, base) = (summary.sizes(), summary.targets().base);
    let mut levels: Vec<usize> = (1..BOTTOM).filter(|level| sizes[*level] > 0).collect();
    levels.sort_by_key(|level| Reverse(sizes[*level]));
    let level0 = pick_level0(summary, base, Reason::Space);
    level0.or_else(|| levels.into_iter().find_map(|level| pick_level(summary, level, Reason::Space)))
}
