//! A position among the records of a tree: it sorts the records of one leaf, iterates over them, and continues in the
//! next leaf.
//!
//! It copies only the places of a leaf's records, and allocates nothing. It may miss a record that was inserted after
//! its leaf was read; the seqno of that record is above that of every existing reader. The order cannot break: leaves
//! follow each other (`tree.rs`).

use std::ops::Range;

use super::deleted::DeletedLeaf;
use super::node::{Leaf, NONE, half_of, of};
use super::placed::Probe;
use super::sorted::SortedLeaf;
use super::sync::Ordering::Acquire;
use super::tree::RecordTree;
use crate::planted;
use crate::record::{Record, Seqno};

/// Records are prefetched this many steps in advance.
const AHEAD: usize = 6;

/// A position in a tree, which is a parameter of every call.
#[derive(Clone, Debug)]
pub(super) struct LeafWalk {
    /// The current leaf.
    leaf: u32,
    /// Its records, sorted.
    run: SortedLeaf,
    /// The index of the current record; past the end, the position is invalid.
    at: usize,
    /// True if passing the leaf has been tried since it was read.
    was_tried: bool,
}

impl LeafWalk {
    /// Creates an invalid position.
    pub(super) fn new() -> LeafWalk {
        LeafWalk { leaf: NONE, run: SortedLeaf::new(), at: 0, was_tried: false }
    }

    /// Moves to the first record at or after a place.
    pub(super) fn seek(&mut self, tree: &RecordTree, key: &[u8], seqno: Seqno) {
        self.stand(tree, &Probe { key, seqno }, false);
        if self.at == self.run.len() {
            self.enter(tree, self.neighbour(tree, true), true);
        }
    }

    /// Moves to the last record at or before a place.
    pub(super) fn seek_for_prev(&mut self, tree: &RecordTree, key: &[u8], seqno: Seqno) {
        self.stand(tree, &Probe { key, seqno }, true);
        self.prev(tree);
    }

    /// Moves one record forward or back; from an invalid position, to the end on that side.
    pub(super) fn step(&mut self, tree: &RecordTree, forward: bool) {
        match (self.valid(), forward) {
            (false, _) => self.end(tree, !forward),
            (true, true) => self.next(tree),
            (true, false) => self.prev(tree),
        }
    }

    /// Moves to the first or last record.
    pub(super) fn end(&mut self, tree: &RecordTree, is_last: bool) {
        self.enter(tree, tree.end(is_last), !is_last);
    }

    #[inline]
    pub(super) fn next(&mut self, tree: &RecordTree) {
        self.at += 1;
        if self.at >= self.run.len() {
            self.enter(tree, self.neighbour(tree, true), true);
        } else {
            self.ask_for(tree, self.at + AHEAD);
        }
    }

    #[inline]
    pub(super) fn prev(&mut self, tree: &RecordTree) {
        match self.at.checked_sub(1) {
            Some(at) => {
                self.at = at;
                self.ask_for(tree, at.wrapping_sub(AHEAD));
            }
            None => self.enter(tree, self.neighbour(tree, false), false),
        }
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.at < self.run.len()
    }

    #[inline]
    pub(super) fn record<'a>(&self, tree: &'a RecordTree) -> Option<Record<'a>> {
        if self.valid() { tree.records.record(self.run.place(self.at)) } else { None }
    }

    /// Returns the adjacent record, if it is in the same leaf.
    #[inline]
    pub(super) fn record_beside<'a>(&self, tree: &'a RecordTree, forward: bool) -> Option<Record<'a>> {
        let at = if forward { self.at + 1 } else { self.at.checked_sub(1)? };
        tree.records.record(of(*self.run.words().get(at)?))
    }

    /// Returns the records of the leaf with the same half as the one at a position: their order depends on key bytes
    /// that may have been corrupted since.
    pub(super) fn group(&self, at: usize) -> Range<usize> {
        let words = self.run.words();
        let Some(half) = words.get(at).map(|word| half_of(*word)) else { return at..at };
        let is_alike = |word: &&u64| half_of(**word) == half;
        let before = words[..at].iter().rev().take_while(is_alike).count();
        at - before..at + words[at..].iter().take_while(is_alike).count()
    }

    /// Returns the identity of a group: its leaf and its half; `None` if the record at the position is alone in its
    /// group.
    #[inline]
    pub(super) fn group_name(&self, at: usize) -> Option<(u32, u32)> {
        let words = self.run.words();
        let half = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|word| half_of(*word));
        let own = half(Some(at))?;
        let is_alone = half(at.checked_sub(1)) != Some(own) && half(Some(at + 1)) != Some(own);
        (!is_alone).then_some((self.leaf, own))
    }

    /// Returns the index in the leaf.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the same walk at another index of the leaf.
    pub(super) fn moved(&self, at: usize) -> LeafWalk {
        LeafWalk { at, ..self.clone() }
    }

    /// Skips deleted keys. The walk must be at a tombstone that hides its key from a reader at `seqno`. If that reader
    /// sees no key in the rest of this leaf, the walk moves to the leaf's last record visible at `seqno`, or to that of
    /// the last of at most `most` following leaves that also have no visible key, and returns the number of these leaves:
    /// all keys from there back to the old position are hidden. It passes no record after `until`. `is_sound` is present
    /// if the caller checks records: only undamaged leaves are recorded for other readers. Tried once per leaf: after a
    /// failure few steps remain.
    pub(super) fn pass_deleted(
        &mut self,
        tree: &RecordTree,
        seqno: Seqno,
        until: Option<Probe<'_>>,
        most: u32,
        is_sound: Option<impl Fn(&Record<'_>) -> bool>,
    ) -> Option<u32> {
        let mut leaf = tree.leaf(self.leaf).filter(|_| self.may_pass())?;
        self.was_tried = true;
        let ends_before = |leaf: &Leaf| match until {
            Some(_) if planted!(DeletedLeafIgnoresItsRival, true, false) => true,
            Some(until) => leaf.high() != NONE && tree.records.compare(&until, leaf.high()).is_ge(),
            None => true,
        };
        if !ends_before(leaf) {
            return None;
        }
        let known = DeletedLeaf::from_word(leaf.deleted(), self.run.len()).or_else(|| self.ask(tree, leaf, is_sound));
        let mut leaf_summary = known.filter(|leaf_summary| leaf_summary.hides_from(seqno, None))?;
        let mut passed = 0;
        while passed < most {
            let id = leaf.next.load(Acquire);
            let Some(next) = tree.leaf(id) else { break };
            match DeletedLeaf::from_word(next.deleted(), next.len()) {
                Some(of_next) if of_next.hides_from(seqno, Some(leaf_summary)) && ends_before(next) => {
                    (self.leaf, leaf, leaf_summary) = (id, next, of_next);
                    passed += 1;
                }
                _ => break,
            }
        }
        if passed > 0 {
            self.run.set(&tree.records, leaf);
        }
        // Records inserted meanwhile are invisible to every current reader, and hide nothing.
        let visible = |at: &usize| tree.records.record(self.run.place(*at)).is_some_and(|record| record.seqno <= seqno);
        match (0..self.run.len()).rev().find(visible) {
            Some(at) => self.at = at,
            None => self.at = 0,
        }
        Some(passed)
    }

    /// False if passing was already tried in this leaf.
    #[inline]
    pub(super) fn may_pass(&self) -> bool {
        !self.was_tried
    }

    /// Scans the leaf and caches the result.
    fn ask(
        &self,
        tree: &RecordTree,
        leaf: &Leaf,
        is_sound: Option<impl Fn(&Record<'_>) -> bool>,
    ) -> Option<DeletedLeaf> {
        let leaf_summary = DeletedLeaf::of(tree, leaf, &self.run, is_sound?)?;
        leaf.publish_deleted(leaf_summary.word());
        Some(leaf_summary)
    }

    /// Moves past the leaf's records before a place; `and_at` includes a record at that place.
    fn stand(&mut self, tree: &RecordTree, probe: &Probe<'_>, and_at: bool) {
        self.run.clear();
        (self.leaf, self.at, self.was_tried) = (NONE, 0, false);
        if let Some((id, leaf)) = tree.find(probe) {
            self.leaf = id;
            self.run.set(&tree.records, leaf);
            self.at = self.run.before(&tree.records, probe, tree.records.half(probe.key, leaf.skip()), and_at);
            (self.at..self.at + AHEAD).for_each(|at| self.ask_for(tree, at));
        }
    }

    /// Prefetches a record that will be visited soon, if the leaf has one there: records lie in insertion order, so
    /// each costs a memory access.
    #[inline]
    fn ask_for(&self, tree: &RecordTree, at: usize) {
        if let Some(word) = self.run.words().get(at) {
            tree.records.ask_for(of(*word));
        }
    }

    fn neighbour(&self, tree: &RecordTree, is_next: bool) -> u32 {
        let link = |leaf: &Leaf| if is_next { leaf.next.load(Acquire) } else { leaf.prev.load(Acquire) };
        tree.leaf(self.leaf).map_or(NONE, link)
    }

    /// Moves to the first or last record of a leaf; invalid if there is no such leaf.
    fn enter(&mut self, tree: &RecordTree, id: u32, at_first: bool) {
        self.run.clear();
        (self.leaf, self.was_tried) = (id, false);
        if let Some(leaf) = tree.leaf(id) {
            self.run.set(&tree.records, leaf);
        }
        self.at = if at_first { 0 } else { self.run.len().saturating_sub(1) };
        let from = if at_first { 0 } else { self.run.len().saturating_sub(AHEAD) };
        (from..from + AHEAD).for_each(|at| self.ask_for(tree, at));
        if let Some(next) = tree.leaf(self.neighbour(tree, at_first)) {
            next.ask_for();
        }
    }
}
