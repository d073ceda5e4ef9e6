//! A position among the records of a tree: it puts the records of one leaf in order, walks those, and goes on to the next leaf.
//!
//! Nothing is copied but the places of a leaf's records, and nothing is allocated. A record that came in after its leaf was looked at may be missed: its
//! seqno is above that of every reader who was there before it. The order cannot break: leaves follow each other (`tree.rs`).

use super::node::NONE;
use super::sorted::Sorted;
use super::sync::Ordering::Acquire;
use super::tree::{Probe, Tree};
use crate::record::{Record, Seqno};

/// A position in a tree, which is given with every call.
#[derive(Debug)]
pub(super) struct Walk {
    /// The leaf that was looked at.
    leaf: u32,
    /// What it held.
    run: Sorted,
    /// The position in it; past its end: nowhere.
    at: usize,
}

impl Walk {
    /// Nowhere.
    pub(super) fn new() -> Walk {
        Walk { leaf: NONE, run: Sorted::new(), at: 0 }
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
        }
    }

    #[inline]
    pub(super) fn prev(&mut self, tree: &Tree) {
        match self.at.checked_sub(1) {
            Some(at) => self.at = at,
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

    /// Behind all records of the leaf before a place, or with `and_at` behind one at it too.
    fn stand(&mut self, tree: &Tree, probe: &Probe<'_>, and_at: bool) {
        self.run.clear();
        (self.leaf, self.at) = (NONE, 0);
        if let Some((id, leaf)) = tree.find(probe) {
            self.leaf = id;
            self.run.set(tree, leaf);
            self.at = self.run.before(tree, probe, tree.half(probe.key, leaf.skip()), and_at);
        }
    }

    fn neighbour(&self, tree: &Tree, is_next: bool) -> u32 {
        let link = |leaf: &super::node::Leaf| if is_next { leaf.next.load(Acquire) } else { leaf.prev.load(Acquire) };
        tree.leaf(self.leaf).map_or(NONE, link)
    }

    /// To the first record of a leaf, or the last; nowhere if there is no such leaf.
    fn enter(&mut self, tree: &Tree, id: u32, at_first: bool) {
        self.run.clear();
        self.leaf = id;
        if let Some(leaf) = tree.leaf(id) {
            self.run.set(tree, leaf);
        }
        self.at = if at_first { 0 } else { self.run.len().saturating_sub(1) };
    }
}
