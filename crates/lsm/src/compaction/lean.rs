//! Lean: what is merged beyond what is due, so that a settled store holds little besides one version of each key. Pure.
//!
//! In:    a picture in which nothing is due. Out: the next plan; none once the family is lean, or while a job of it runs.
//! Lean:  all that stands above the lowest level that holds data is no more than a share of it, one of `fanout - 2`: an eighth by default. Levels
//!        as large as they should be take a little less than that. What stands above may be newer versions of what lies below, all of it; more
//!        than that cannot be hidden, but for what snapshots keep. A level 0 with nothing below is lean if it is one table.
//! Bare:  nothing stands above. For tables that point to more than they hold: what they hide are values that stand elsewhere, an eighth of them by
//!        an eighth of the pointers, and no value is moved where pointers are merged.
//! Cost:  of a byte that goes down `fanout` are rewritten at most, in each level that is full, as ever; and once the base for what goes down
//!        from level 0. Only who asks for it pays: beside writers that go on it would be paid again for every memtable.
//! Ends:  each plan takes tables to a lower level, and none comes up.

use std::cmp::Reverse;

use super::pick::{BOTTOM, Picture, Plan, Reason, pick_level, pick_level0};
use crate::version::LEVELS;

/// True if little stands above the lowest level that holds data.
pub fn is_lean(picture: &Picture<'_>) -> bool {
    stands_at_most(picture, |lowest| lowest / picture.shape.fanout.saturating_sub(2).max(1))
}

/// True if nothing does.
pub fn is_bare(picture: &Picture<'_>) -> bool {
    stands_at_most(picture, |_| 0)
}

/// What to merge where nothing is due until a family is lean.
pub fn pick_lean(picture: &Picture<'_>) -> Option<Plan> {
    if is_lean(picture) { None } else { pick_fullest(picture) }
}

/// The same until it is bare.
pub fn pick_bare(picture: &Picture<'_>) -> Option<Plan> {
    if is_bare(picture) { None } else { pick_fullest(picture) }
}

/// Whether no more stands above the lowest level that holds data than what that one allows.
fn stands_at_most(picture: &Picture<'_>, allowed: impl Fn(u64) -> u64) -> bool {
    let sizes = picture.sizes();
    let Some(lowest) = (1..LEVELS).rev().find(|level| sizes[*level] > 0) else { return picture.levels[0].len() <= 1 };
    let above = sizes[..lowest].iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
    above <= allowed(sizes[lowest])
}

/// Level 0 first, then the level that holds most.
fn pick_fullest(picture: &Picture<'_>) -> Option<Plan> {
    if !picture.running.is_empty() {
        return None;
    }
    let (sizes, base) = (picture.sizes(), picture.targets().base);
    let mut levels: Vec<usize> = (1..BOTTOM).filter(|level| sizes[*level] > 0).collect();
    levels.sort_by_key(|level| Reverse(sizes[*level]));
    let level0 = pick_level0(picture, base, Reason::Space);
    level0.or_else(|| levels.into_iter().find_map(|level| pick_level(picture, level, Reason::Space)))
}
