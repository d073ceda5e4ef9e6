//! The records of one leaf, in order: as a cursor walks them, and as two leaves take over from it.

use std::cmp::Ordering;

use super::node::Leaf;
use super::sync::LEAF;
use super::tree::{Probe, Tree};

/// Heads and places in internal order, with room for one more than a leaf has.
#[derive(Debug)]
pub(super) struct Sorted {
    heads: [u64; LEAF + 1],
    places: [u32; LEAF + 1],
    len: usize,
}

impl Sorted {
    /// None.
    pub(super) fn new() -> Sorted {
        Sorted { heads: [0; LEAF + 1], places: [0; LEAF + 1], len: 0 }
    }

    /// What a leaf holds now.
    pub(super) fn of(tree: &Tree, leaf: &Leaf) -> Sorted {
        let mut sorted = Sorted::new();
        sorted.set(tree, leaf);
        sorted
    }

    /// The same, in the place of what was there. A leaf begins sorted, so that most slots stay where they are.
    pub(super) fn set(&mut self, tree: &Tree, leaf: &Leaf) {
        self.len = 0;
        for (head, place) in leaf.slots(leaf.len()) {
            self.insert(tree, head, place);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Puts one more in its place, and answers which that is. With all the room taken it is left out.
    pub(super) fn insert(&mut self, tree: &Tree, head: u64, place: u32) -> usize {
        if self.len > LEAF {
            return self.len;
        }
        let mut at = self.len;
        while at > 0 {
            let (head_before, before) = (self.heads[at - 1], self.places[at - 1]);
            let is_before = match head_before.cmp(&head) {
                Ordering::Less => true,
                Ordering::Equal => tree.compare_places(before, place) == Ordering::Less,
                Ordering::Greater => false,
            };
            if is_before {
                break;
            }
            (self.heads[at], self.places[at]) = (head_before, before);
            at -= 1;
        }
        (self.heads[at], self.places[at]) = (head, place);
        self.len += 1;
        at
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn head(&self, at: usize) -> u64 {
        self.heads[at]
    }

    #[inline]
    pub(super) fn place(&self, at: usize) -> u32 {
        self.places[at]
    }

    /// How many stand before a probe; with `and_at`, or at it.
    pub(super) fn before(&self, tree: &Tree, probe: &Probe<'_>, head: u64, and_at: bool) -> usize {
        let is_before = |at: usize| match self.heads[at].cmp(&head) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match tree.compare(probe, self.places[at]) {
                Ordering::Greater => true,
                Ordering::Equal => and_at,
                Ordering::Less => false,
            },
        };
        let (mut from, mut left) = (0, self.len);
        while left > 0 {
            let half = left / 2;
            if is_before(from + half) {
                from += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        from
    }
}
