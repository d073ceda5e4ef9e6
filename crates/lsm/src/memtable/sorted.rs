//! The records of one leaf, in order: as a cursor walks them, and as two leaves take over from it.

use std::cmp::Ordering;

use super::node::Leaf;
use super::sync::LEAF;
use super::tree::{Probe, Tree};

/// Sorts a few by a comparator that may be anybody's: what says one thing today and another tomorrow gives some order, and no panic.
fn put_in_order<T>(few: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    for end in 1..few.len() {
        let mut at = end;
        while at > 0 && compare(&few[at - 1], &few[at]) == Ordering::Greater {
            few.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Sorts records of the same head: by the next bytes of their keys, each looked at once, and where these are the same too in full.
fn sort_behind_heads(tree: &Tree, same: &mut [(u64, u32)], skip: usize) {
    let Some((head, _)) = same.first().copied() else { return };
    for (next, place) in &mut *same {
        *next = tree.record(*place).map_or(0, |record| tree.head(record.key, skip));
    }
    same.sort_unstable_by_key(|(next, _)| *next);
    for equal in same.chunk_by_mut(|(a, _), (b, _)| a == b) {
        put_in_order(equal, |(_, a), (_, b)| tree.compare_places(*a, *b));
    }
    same.iter_mut().for_each(|(next, _)| *next = head);
}

/// Heads and places in internal order, with room for one more than a leaf has.
#[derive(Debug)]
pub(super) struct Sorted {
    slots: [(u64, u32); LEAF + 1],
    len: usize,
}

impl Sorted {
    /// None.
    pub(super) fn new() -> Sorted {
        Sorted { slots: [(0, 0); LEAF + 1], len: 0 }
    }

    /// What a leaf holds now.
    pub(super) fn of(tree: &Tree, leaf: &Leaf) -> Sorted {
        let mut sorted = Sorted::new();
        sorted.set(tree, leaf);
        sorted
    }

    /// The same, in the place of what was there.
    pub(super) fn set(&mut self, tree: &Tree, leaf: &Leaf) {
        self.len = 0;
        for (to, slot) in self.slots.iter_mut().zip(leaf.slots(leaf.len())) {
            *to = slot;
            self.len += 1;
        }
        let slots = &mut self.slots[..self.len];
        // By their heads alone, which costs no look at a record; then those whose heads are the same.
        slots.sort_unstable_by_key(|(head, _)| *head);
        for same in slots.chunk_by_mut(|(a, _), (b, _)| a == b) {
            if same.len() > 1 {
                sort_behind_heads(tree, same, leaf.skip() + size_of::<u64>());
            }
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
            let before = self.slots[at - 1];
            let is_before = match before.0.cmp(&head) {
                Ordering::Less => true,
                Ordering::Equal => tree.compare_places(before.1, place) == Ordering::Less,
                Ordering::Greater => false,
            };
            if is_before {
                break;
            }
            self.slots[at] = before;
            at -= 1;
        }
        self.slots[at] = (head, place);
        self.len += 1;
        at
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn head(&self, at: usize) -> u64 {
        self.slots[at].0
    }

    #[inline]
    pub(super) fn place(&self, at: usize) -> u32 {
        self.slots[at].1
    }

    /// How many stand before a probe; with `and_at`, or at it.
    pub(super) fn before(&self, tree: &Tree, probe: &Probe<'_>, head: u64, and_at: bool) -> usize {
        let is_before = |at: usize| match self.slots[at].0.cmp(&head) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match tree.compare(probe, self.slots[at].1) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparator_that_contradicts_itself_is_endured() {
        let mut few: Vec<u32> = (0..LEAF as u32).rev().collect();
        put_in_order(&mut few, u32::cmp);
        assert!(few.is_sorted());
        let turn = std::cell::Cell::new(0u32);
        put_in_order(&mut few, |a, b| {
            turn.set(turn.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
            if turn.get() >> 31 == 0 { a.cmp(b) } else { b.cmp(a) }
        });
        few.sort_unstable();
        assert_eq!(few, (0..LEAF as u32).collect::<Vec<_>>());
    }
}
