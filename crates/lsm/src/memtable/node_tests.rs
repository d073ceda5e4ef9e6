//! Tests of the nodes alone. Separate from `node.rs`, which another test compiles with other word types.

use proptest::prelude::*;

use super::node::*;
use super::sync::{INNER, LEAF};

const OPEN: NodeRange = NodeRange { low: NONE, high: NONE, skip: 0 };

#[test]
fn words_are_found_where_they_were_inserted() {
    let node = InnerNode::default();
    node.fill(OPEN, None, [word(0, 0)].into_iter());
    for n in (1..INNER as u32).map(|n| n * 37 % INNER as u32) {
        let at = node.find(n, |_| unreachable!("halves decide")) + 1;
        node.insert(at, word(n, n));
        assert_eq!(node.last() + 1, node.len());
    }
    assert!(node.is_full() && node.len() == INNER);
    for n in 0..INNER as u32 {
        let at = node.find(n, |child| child.cmp(&n));
        assert_eq!(of(node.word(at)), n);
    }
    assert_eq!(node.find(u32::MAX, |_| unreachable!("halves decide")), INNER - 1);
    node.redirect(5, 99);
    assert_eq!(node.word(5), word(5, 99));
}

/// With some or all words sharing a half, the records decide the order, wherever among them the place is.
#[test]
fn among_words_of_the_same_half_records_decide() {
    for same in [1, 2, 3, INNER as u32 / 2, INNER as u32 - 1] {
        let node = InnerNode::default();
        node.fill(OPEN, None, (0..=same).map(|n| word(u32::MAX, 10 * n)));
        for place in (0..10 * (same + 2)).step_by(5) {
            let expected = (place / 10).min(same);
            assert_eq!(node.find(u32::MAX, |child| child.cmp(&place)) as u32, expected);
        }
    }
}

#[test]
fn a_leaf_takes_what_it_has_room_for_and_knows_how_much_of_it_is_in_order() {
    let leaf = Leaf::default();
    assert!((0..LEAF as u32).all(|n| leaf.append(word(n, n * 2), n != 7)));
    assert!(!leaf.append(0, true));
    assert_eq!((leaf.len(), leaf.sorted(LEAF), leaf.sorted(3)), (LEAF, 7, 3));
    assert!(leaf.slots(99).zip(0..).all(|(slot, n)| slot == word(n, n * 2)));
}

proptest! {
    #[test]
    fn a_half_is_the_bytes_behind_what_is_skipped(key: Vec<u8>, skip in 0usize..24) {
        let behind = key.iter().skip(skip).chain([&0; 4]).take(4);
        prop_assert_eq!(half(&key, skip), behind.fold(0, |half, byte| half << 8 | u32::from(*byte)));
    }

    /// A key that `begins` accepts has the common prefix of all separators, or is shorter and has it when padded with
    /// zeros.
    #[test]
    fn a_key_begins_as_the_witness_does(witness: [u8; 24], at in 0usize..24, skip in 0usize..=16, flip: bool, length in 0usize..24) {
        let node = InnerNode::default();
        node.fill(OPEN, Some((1, &witness)), std::iter::empty());
        let mut key = witness;
        key[at] ^= u8::from(flip);
        let padded: Vec<u8> = key[..length].iter().copied().chain([0; 24]).take(skip).collect();
        prop_assert_eq!(node.begins(&key[..length], skip), padded == witness[..skip]);
        prop_assert!(!node.begins(&key, 17));
    }

    #[test]
    fn a_place_is_found_among_sorted_words(mut words: Vec<(u8, u8)>, half: u8, place: u8) {
        words.sort_unstable();
        let expected = words.iter().filter(|other| **other < (half, place)).count();
        let word = |at: usize| word(words[at].0.into(), words[at].1.into());
        prop_assert_eq!(before(words.len(), word, half.into(), |other| other < place.into()), expected);
    }
}
