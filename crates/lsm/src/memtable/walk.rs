//! A position among the records of a tree: it puts the records of one leaf in order, walks those, and goes on to the next leaf.
//!
//! Nothing is copied but the places of a leaf's records, and nothing is allocated. A record that came in after its leaf was looked at may be missed: its
//! seqno is above that of every reader who was there before it. The order cannot break: leaves follow each other (`tree.rs`).

use std::ops::Range;

use super::deleted::Deleted;
use super::node::{Leaf, NONE, half_of, of};
use super::sorted::Sorted;
use super::sync::Ordering::Acquire;
use super::tree::{Probe, Tree};
use crate::planted::{Bug, active};
use crate::record::{Record, Seqno};

/// Records are asked for so many steps before they are come to.
const AHEAD: usize = 6;

/// A position in a tree, which is given with every call.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// The leaf that was looked at.
    leaf: u32,
    /// What it held.
    run: Sorted,
    /// The position in it; past its end: nowhere.
    at: usize,
    /// It was tried to pass it since it was looked at.
    was_tried: bool,
}

impl Walk {
    /// Nowhere.
    pub(super) fn new() -> Walk {
        Walk { leaf: NONE, run: Sorted::new(), at: 0, was_tried: false }
    }

    /// To the first record at or behind a place.
    pub(super) fn seek(&mut self, tree: &Tree, key: &[u8], seqno: Seqno) {
        self.stand(tree, &Probe { key, seqno }, false);
        if self.at == self.run.len() {
            self.enter(tree, self.neighbour(tree, true), true);
        }
    }

    /// To the last record at or before a place.
    pub(super) fn seek_for_prev(&mut self, tree: &Tree, key: &[u8], seqno: Seqno) {
        self.stand(tree, &Probe { key, seqno }, true);
        self.prev(tree);
    }

    /// To the record at one end.
    pub(super) fn end(&mut self, tree: &Tree, is_last: bool) {
        self.enter(tree, tree.end(is_last), !is_last);
    }

    #[inline]
    pub(super) fn next(&mut self, tree: &Tree) {
        self.at += 1;
        if self.at >= self.run.len() {
            self.enter(tree, self.neighbour(tree, true), true);
        } else {
            self.ask_for(tree, self.at + AHEAD);
        }
    }

    #[inline]
    pub(super) fn prev(&mut self, tree: &Tree) {
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
    pub(super) fn record<'a>(&self, tree: &'a Tree) -> Option<Record<'a>> {
        if self.valid() { tree.record(self.run.place(self.at)) } else { None }
    }

    /// The record beside the position, if it is in the same leaf.
    #[inline]
    pub(super) fn record_beside<'a>(&self, tree: &'a Tree, forward: bool) -> Option<Record<'a>> {
        let at = if forward { self.at + 1 } else { self.at.checked_sub(1)? };
        tree.record(of(*self.run.words().get(at)?))
    }

    /// The records of the leaf whose halves are that of the one at a position: they were put in order by their bytes, which may have been hit since.
    pub(super) fn group(&self, at: usize) -> Range<usize> {
        let words = self.run.words();
        let Some(half) = words.get(at).map(|word| half_of(*word)) else { return at..at };
        let is_alike = |word: &&u64| half_of(**word) == half;
        let before = words[..at].iter().rev().take_while(is_alike).count();
        at - before..at + words[at..].iter().take_while(is_alike).count()
    }

    /// What tells a group from others: its leaf and its half; none: the record at the position is alone in its group.
    #[inline]
    pub(super) fn group_name(&self, at: usize) -> Option<(u32, u32)> {
        let words = self.run.words();
        let half = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|word| half_of(*word));
        let own = half(Some(at))?;
        let is_alone = half(at.checked_sub(1)) != Some(own) && half(Some(at + 1)) != Some(own);
        (!is_alone).then_some((self.leaf, own))
    }

    /// The position in the leaf.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The same walk at another position of the leaf.
    pub(super) fn moved(&self, at: usize) -> Walk {
        Walk { at, ..self.clone() }
    }

    /// Stands on a tombstone that hides its key from a reader at `seqno`. If he sees no key in the rest of this leaf, goes to the last of its records
    /// that is visible to him, or to that of the last leaf behind it of which the same is true, and answers true: all keys from there back to where it
    /// stood are hidden. Passes no record that lies behind `until`. `is_sound`, if whoever asks checks records: only what is sound is told to others.
    /// Tried once in a leaf: where it fails there are few steps left.
    pub(super) fn pass_deleted(
        &mut self,
        tree: &Tree,
        seqno: Seqno,
        until: Option<Probe<'_>>,
        is_sound: Option<impl Fn(&Record<'_>) -> bool>,
    ) -> bool {
        let Some(mut leaf) = tree.leaf(self.leaf).filter(|_| self.may_pass()) else { return false };
        self.was_tried = true;
        let ends_before = |leaf: &Leaf| match until {
            Some(_) if active(Bug::DeletedLeafIgnoresItsRival) => true,
            Some(until) => leaf.high() != NONE && tree.compare(&until, leaf.high()).is_ge(),
            None => true,
        };
        if !ends_before(leaf) {
            return false;
        }
        let known = Deleted::from_word(leaf.deleted(), self.run.len()).or_else(|| self.ask(tree, leaf, is_sound));
        let Some(mut told) = known.filter(|told| told.hides_from(seqno, None)) else { return false };
        let here = self.leaf;
        loop {
            let id = leaf.next.load(Acquire);
            let Some(next) = tree.leaf(id) else { break };
            match Deleted::from_word(next.deleted(), next.len()) {
                Some(of_next) if of_next.hides_from(seqno, Some(told)) && ends_before(next) => {
                    (self.leaf, leaf, told) = (id, next, of_next);
                }
                _ => break,
            }
        }
        if self.leaf != here {
            self.run.set(tree, leaf);
        }
        // What came in meanwhile is visible to nobody who asks now, and hides nothing.
        let visible = |at: &usize| tree.record(self.run.place(*at)).is_some_and(|record| record.seqno <= seqno);
        match (0..self.run.len()).rev().find(visible) {
            Some(at) => self.at = at,
            None => self.at = 0,
        }
        true
    }

    /// False if it was tried in this leaf.
    #[inline]
    pub(super) fn may_pass(&self) -> bool {
        !self.was_tried
    }

    /// Looks through the leaf and tells what it finds.
    fn ask(&self, tree: &Tree, leaf: &Leaf, is_sound: Option<impl Fn(&Record<'_>) -> bool>) -> Option<Deleted> {
        let told = Deleted::of(tree, leaf, &self.run, is_sound?)?;
        leaf.tell_deleted(told.word());
        Some(told)
    }

    /// Behind all records of the leaf before a place, or with `and_at` behind one at it too.
    fn stand(&mut self, tree: &Tree, probe: &Probe<'_>, and_at: bool) {
        self.run.clear();
        (self.leaf, self.at, self.was_tried) = (NONE, 0, false);
        if let Some((id, leaf)) = tree.find(probe) {
            self.leaf = id;
            self.run.set(tree, leaf);
            self.at = self.run.before(tree, probe, tree.half(probe.key, leaf.skip()), and_at);
            (self.at..self.at + AHEAD).for_each(|at| self.ask_for(tree, at));
        }
    }

    /// Asks for a record that is about to be come to, if the leaf has one there: records lie as they came, so each is a wait for memory.
    #[inline]
    fn ask_for(&self, tree: &Tree, at: usize) {
        if let Some(word) = self.run.words().get(at) {
            tree.ask_for(of(*word));
        }
    }

    fn neighbour(&self, tree: &Tree, is_next: bool) -> u32 {
        let link = |leaf: &Leaf| if is_next { leaf.next.load(Acquire) } else { leaf.prev.load(Acquire) };
        tree.leaf(self.leaf).map_or(NONE, link)
    }

    /// To the first record of a leaf, or the last; nowhere if there is no such leaf.
    fn enter(&mut self, tree: &Tree, id: u32, at_first: bool) {
        self.run.clear();
        (self.leaf, self.was_tried) = (id, false);
        if let Some(leaf) = tree.leaf(id) {
            self.run.set(tree, leaf);
        }
        self.at = if at_first { 0 } else { self.run.len().saturating_sub(1) };
        let from = if at_first { 0 } else { self.run.len().saturating_sub(AHEAD) };
        (from..from + AHEAD).for_each(|at| self.ask_for(tree, at));
        if let Some(next) = tree.leaf(self.neighbour(tree, at_first)) {
            next.ask_for();
        }
    }
}
