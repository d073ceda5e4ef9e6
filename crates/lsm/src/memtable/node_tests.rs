//! The nodes alone. Beside their file, which is compiled elsewhere too, with other words.

use super::node::*;
use super::sync::{INNER, LEAF};

#[test]
fn words_are_found_where_they_were_inserted() {
    let node = Inner::default();
    node.fill(Range { low: NONE, high: NONE, skip: 0 }, NONE, [word(0, 0)].into_iter());
    for n in (1..INNER as u64).map(|n| n * 37 % INNER as u64) {
        let at = node.find(n << 32, |_| unreachable!("heads decide")) + 1;
        node.insert(at, word(n << 32, n as u32));
    }
    assert!(node.is_full() && node.len() == INNER);
    for n in 0..INNER as u64 {
        let at = node.find(n << 32 | 7, |child| child.cmp(&(n as u32)));
        assert_eq!(child(node.word(at)), n as u32);
    }
    assert_eq!(node.find(u64::MAX, |_| unreachable!("heads decide")), INNER - 1);
    node.redirect(5, 99);
    assert_eq!(node.word(5), word(5 << 32, 99));
}

#[test]
fn a_leaf_takes_what_it_has_room_for() {
    let leaf = Leaf::default();
    assert!((0..LEAF as u32).all(|n| leaf.append(u64::from(n), n * 2)));
    assert!(!leaf.append(0, 0));
    assert_eq!(leaf.len(), LEAF);
    assert!(leaf.slots(99).zip(0..).all(|(slot, n)| slot == (n, n as u32 * 2)));
}
