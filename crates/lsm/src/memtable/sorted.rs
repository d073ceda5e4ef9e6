//! The records of one leaf in order, for cursors and for the division of a leaf.
//!
//! The sorted part of the leaf is not sorted again: only the later words are sorted, as numbers, and merged in. Halves
//! of heads decide the order without reading records; words with equal halves are then ordered by their keys.

use std::cmp::Ordering;

use super::node::{Leaf, before, half_of, of};
use super::placed::{PlacedRecords, Probe};
use super::sync::LEAF;
use crate::planted;

/// The capacity of a leaf, plus one.
const ROOM: usize = LEAF + 1;

/// Up to this many words of the same half are compared in full.
const FEW: usize = 4;

/// Sorts a few items with a user-supplied comparator: an inconsistent one yields some order, and no panic. Versions of
/// a key arrive in ascending seqno order and sort in descending order, so a reversed slice is reversed first.
fn put_in_order<T>(few: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if few.windows(2).all(|pair| compare(&pair[0], &pair[1]) == Ordering::Greater) {
        few.reverse();
        return;
    }
    for end in 1..few.len() {
        if compare(&few[end - 1], &few[end]) == Ordering::Greater {
            let at = few[..end - 1].partition_point(|one| compare(one, &few[end]) != Ordering::Greater);
            few[at..=end].rotate_right(1);
        }
    }
}

/// Sorts words of the same half. A few, mostly versions of one key, are compared in full. Many are first sorted by the
/// next bytes of their keys, each of which is read once.
fn sort_behind_halves(records: &PlacedRecords, same: &mut [u64], skip: usize) {
    match same.len() {
        0 | 1 => {}
        2..=FEW => put_in_order(same, |a, b| records.compare_behind(of(*a), of(*b), skip)),
        _ => sort_by_next_bytes(records, same, skip),
    }
}

#[inline(never)]
fn sort_by_next_bytes(records: &PlacedRecords, same: &mut [u64], skip: usize) {
    let mut keyed = [(0, 0); ROOM];
    let keyed = &mut keyed[..same.len()];
    // Skip the common prefix, which is unknown in a leaf that was never divided.
    let skip = skip.max(records.common_start(same.iter().map(|word| of(*word))));
    for (to, word) in keyed.iter_mut().zip(&*same) {
        *to = (records.head_at(of(*word), skip), *word);
    }
    // The sort is stable: versions of a key keep their insertion order.
    keyed.sort_by_key(|(next, _)| *next);
    for equal in keyed.chunk_by_mut(|(a, _), (b, _)| a == b) {
        put_in_order(equal, |(_, a), (_, b)| records.compare_behind(of(*a), of(*b), skip + size_of::<u64>()));
    }
    same.iter_mut().zip(keyed).for_each(|(to, (_, word))| *to = *word);
}

/// The words of a leaf in internal order, with room for one more.
#[derive(Clone, Debug)]
pub(super) struct SortedLeaf {
    words: [u64; ROOM],
    len: usize,
    /// Buffer for the words being merged in, kept to avoid allocating it per merge.
    tail: [u64; ROOM],
}

impl SortedLeaf {
    /// Creates an empty list.
    pub(super) fn new() -> SortedLeaf {
        SortedLeaf { words: [0; ROOM], len: 0, tail: [0; ROOM] }
    }

    /// Replaces the contents by those of a leaf.
    pub(super) fn set(&mut self, records: &PlacedRecords, leaf: &Leaf) {
        let sorted = self.load(leaf);
        self.arrange(records, sorted, leaf.skip());
    }

    /// Replaces the contents by those of a full leaf and one more word, and returns that word's rank. `is_behind`: the
    /// word is known to sort after the one inserted last.
    pub(super) fn set_with(&mut self, records: &PlacedRecords, leaf: &Leaf, one: u64, is_behind: bool) -> usize {
        let sorted = self.load(leaf);
        self.words[self.len] = one;
        self.len += 1;
        let sorted = if is_behind && sorted + 1 == self.len { self.len } else { sorted };
        self.arrange(records, sorted, leaf.skip());
        self.words().iter().position(|word| *word == one).unwrap_or_default()
    }

    /// Loads the words of a leaf in slot order, and returns how many of them are sorted.
    fn load(&mut self, leaf: &Leaf) -> usize {
        self.len = leaf.len();
        for (to, word) in self.words.iter_mut().zip(leaf.slots(self.len)) {
            *to = word;
        }
        leaf.sorted(self.len)
    }

    /// Sorts the words, of which the first `sorted` are in order.
    fn arrange(&mut self, records: &PlacedRecords, sorted: usize, skip: usize) {
        let SortedLeaf { words, len, tail } = self;
        let (words, tail) = (&mut words[..*len], &mut tail[..*len - sorted]);
        if planted!(LeafTailLeftUnsorted, true, tail.is_empty()) {
            return;
        }
        tail.copy_from_slice(&words[sorted..]);
        tail.sort_unstable();
        merge(words, sorted, tail);
        // The sorted part is still in order, except for runs of one half that received new words. Places mostly grow in
        // insertion order: if every place in a run is below the lowest new place, the run received none.
        let came = tail.iter().map(|word| of(*word)).min().unwrap_or_default();
        let mut from = 0;
        while from + 1 < words.len() {
            let half = half_of(words[from]);
            if half != half_of(words[from + 1]) {
                from += 1;
                continue;
            }
            let same = words[from..].iter().take_while(|word| half_of(**word) == half).count();
            let same = &mut words[from..from + same];
            from += same.len();
            if same.iter().any(|word| of(*word) >= came) {
                sort_behind_halves(records, same, skip + size_of::<u32>());
            }
        }
    }

    /// Removes all words.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }

    #[inline]
    pub(super) fn place(&self, at: usize) -> u32 {
        of(self.words[at])
    }

    /// Returns how many words precede a probe; with `and_at`, precede or equal it.
    pub(super) fn before(&self, records: &PlacedRecords, probe: &Probe<'_>, half: u32, and_at: bool) -> usize {
        let is_before = |place| match records.compare(probe, place) {
            Ordering::Greater => true,
            Ordering::Equal => and_at,
            Ordering::Less => false,
        };
        before(self.len, |at| self.words[at], half, is_before)
    }
}

/// Merges a sorted tail into the `sorted` words before it, starting at the end, so that no unread word is overwritten.
fn merge(words: &mut [u64], sorted: usize, tail: &[u64]) {
    let (mut left, mut right) = (sorted, tail.len());
    while left > 0 && right > 0 {
        let (a, b) = (words[left - 1], tail[right - 1]);
        words[left + right - 1] = a.max(b);
        let takes_left = usize::from(a > b);
        left -= takes_left;
        right -= 1 - takes_left;
    }
    words[..right].copy_from_slice(&tail[..right]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn versions_as_they_come_are_put_in_order_by_one_look_at_each() {
        let looks = std::cell::Cell::new(0);
        let mut few: Vec<u32> = (0..LEAF as u32).collect();
        put_in_order(&mut few, |a, b| {
            looks.set(looks.get() + 1);
            b.cmp(a)
        });
        assert!(few.is_sorted_by(|a, b| a > b));
        assert_eq!(looks.get(), LEAF - 1);
    }

    proptest! {
        #[test]
        fn a_tail_is_merged_in(mut front: Vec<u8>, mut tail: Vec<u8>) {
            front.sort_unstable();
            tail.sort_unstable();
            let [front, tail] = [front, tail].map(|part| part.into_iter().map(u64::from).collect::<Vec<_>>());
            let mut words = [front.clone(), tail.clone()].concat();
            merge(&mut words, front.len(), &tail);
            let mut expected = [front, tail].concat();
            expected.sort_unstable();
            prop_assert_eq!(words, expected);
        }
    }
}
