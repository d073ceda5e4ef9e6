use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cursor::testing::{Move, Owned, VecCursor, check_moves, keys, moves, orders, records, sorted};
use crate::error::Error;

/// Deals records out to sources.
fn deal(order: &Order, records: &[Owned], hands: &[usize], sources: usize) -> Vec<Box<dyn Cursor>> {
    let hand = |n: usize| hands.get(n).map_or(0, |hand| hand % sources);
    let of = |source| -> Vec<Owned> {
        records.iter().enumerate().filter(|(n, _)| hand(*n) == source).map(|(_, record)| record.clone()).collect()
    };
    (0..sources).map(|source| Box::new(VecCursor::new(order, &of(source))) as Box<dyn Cursor>).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_merge_walks_as_one_sorted_vector(
        order in orders(), records in records(80), hands in vec(0usize..100, 80), sources in 1usize..7, moves in moves(80),
    ) {
        let mut merge = MergeCursor::new(order.clone(), deal(&order, &records, &hands, sources));
        prop_assert!(!merge.valid());
        check_moves(&order, &records, &mut merge, &moves);
        let mut merge = merged(order.clone(), deal(&order, &records, &hands, sources));
        let there = std::iter::once(Move::First).chain(std::iter::repeat_n(Move::Next, records.len()));
        let back = std::iter::once(Move::Last).chain(std::iter::repeat_n(Move::Prev, records.len()));
        check_moves(&order, &records, &mut *merge, &there.chain(back).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_surfaces_and_a_seek_mends_it(
        order in orders(), records in records(40), hands in vec(0usize..100, 40), sources in 1usize..4,
        breaks_after in 0usize..12, forward: bool, turns in vec(any::<bool>(), 0..30),
    ) {
        let mut cursors = deal(&order, &records, &hands, sources);
        cursors.push(Box::new(VecCursor::failing(&order, &[], 0)));
        let mut merge = MergeCursor::new(order.clone(), cursors);
        prop_assert!(merge.first().is_err() && !merge.valid());
        prop_assert!(merge.last().is_err() && !merge.valid());

        // A source that fails later: the walk is correct up to the error, and ends with it.
        let mut cursors = deal(&order, &records, &hands, sources + 1);
        cursors.pop();
        let lost = records.iter().enumerate().filter(|(n, _)| hands[*n] % (sources + 1) == sources).map(|(_, r)| r.clone());
        cursors.push(Box::new(VecCursor::failing(&order, &lost.collect::<Vec<_>>(), breaks_after)));
        let mut merge = MergeCursor::new(order.clone(), cursors);
        let all = sorted(&order, &records);
        let mut at = if forward { 0 } else { all.len().wrapping_sub(1) };
        let mut moved = if forward { merge.first() } else { merge.last() };
        let mut turns = turns.into_iter();
        while moved.is_ok() {
            let found = merge.valid().then(|| Owned::from(merge.record()));
            prop_assert_eq!(found.as_ref(), all.get(at));
            let Some(on) = turns.next().filter(|_| merge.valid()) else { break };
            at = if on { at + 1 } else { at.wrapping_sub(1) };
            moved = if on { merge.next() } else { merge.prev() };
        }
        prop_assert!(moved.is_ok() || !merge.valid());
    }

    #[test]
    fn parts_walk_as_one_sorted_vector(
        order in orders(), records in records(80), cuts in vec(keys(), 0..6), moves in moves(80),
    ) {
        let opened = Arc::new(AtomicUsize::new(0));
        let parts = cut(&order, &records, cuts, &opened);
        let count = parts.len();
        let mut concat = ConcatCursor::new(order.clone(), parts);
        prop_assert_eq!(opened.load(Relaxed), 0);
        check_moves(&order, &records, &mut concat, &moves);

        opened.store(0, Relaxed);
        concat.first().unwrap();
        while concat.valid() {
            concat.next().unwrap();
        }
        prop_assert!(opened.load(Relaxed) <= count, "a scan opens each part once");
    }
}

struct VecPart {
    order: Order,
    records: Vec<Owned>,
    opened: Arc<AtomicUsize>,
    broken: bool,
}

impl MergePart for VecPart {
    fn smallest(&self) -> &[u8] {
        &self.records[0].key
    }
    fn largest(&self) -> &[u8] {
        &self.records[self.records.len() - 1].key
    }
    fn open(&self) -> Result<PartCursor> {
        self.opened.fetch_add(1, Relaxed);
        if self.broken {
            return Err(Error::structural("told to fail"));
        }
        Ok(PartCursor::Other(Box::new(VecCursor::new(&self.order, &self.records))))
    }
}

/// Splits records into parts before each of the keys.
fn cut(order: &Order, records: &[Owned], mut cuts: Vec<Vec<u8>>, opened: &Arc<AtomicUsize>) -> Arc<[VecPart]> {
    cuts.sort_by(|a, b| order.compare(a, b));
    let mut rest = sorted(order, records);
    let mut parts = Vec::new();
    for key in cuts {
        let at = rest.partition_point(|record| order.compare(&record.key, &key).is_lt());
        let tail = rest.split_off(at);
        parts.push(std::mem::replace(&mut rest, tail));
    }
    parts.push(rest);
    parts.retain(|part| !part.is_empty());
    let part = |records| VecPart { order: order.clone(), records, opened: opened.clone(), broken: false };
    parts.into_iter().map(part).collect()
}

fn put(key: &str, seqno: Seqno) -> Owned {
    Owned::from(Record { key: key.as_bytes(), seqno, kind: Kind::Put, value: b"v", companion: &[] })
}

#[test]
fn a_part_that_does_not_open_is_an_error_not_a_gap() {
    let order = Order::bytewise();
    let part = |key: &str, broken| VecPart {
        order: order.clone(),
        records: vec![put(key, 1)],
        opened: Arc::default(),
        broken,
    };
    let parts: Arc<[VecPart]> = Arc::new([part("a", false), part("b", true), part("c", false)]);
    let mut concat = ConcatCursor::new(order.clone(), parts);
    concat.first().unwrap();
    assert!(concat.next().is_err() && !concat.valid());
    concat.last().unwrap();
    assert!(concat.prev().is_err() && !concat.valid());
    assert!(concat.seek(b"aa", 9).is_err() && !concat.valid());
    concat.seek(b"bb", 9).unwrap();
    assert_eq!(concat.record().key, b"c");
}

#[test]
fn a_seek_in_the_open_part_does_not_open_it_again() {
    let order = Order::bytewise();
    let opened = Arc::new(AtomicUsize::new(0));
    let records = [put("a", 1), put("b", 2), put("c", 3), put("d", 4)];
    let mut concat = ConcatCursor::new(order.clone(), cut(&order, &records, vec![b"c".to_vec()], &opened));
    concat.seek(b"c", 9).unwrap();
    concat.seek(b"cc", 9).unwrap();
    concat.seek(b"x", 9).unwrap();
    assert!(!concat.valid());
    concat.last().unwrap();
    assert_eq!((concat.record().key, opened.load(Relaxed)), (&b"d"[..], 1));
}

#[test]
fn no_sources_hold_no_records() {
    let mut merge = merged(Order::bytewise(), Vec::new());
    merge.first().unwrap();
    assert!(!merge.valid());
    merge.seek_for_prev(b"k", 1).unwrap();
    assert!(!merge.valid());
}

/// A source that gains records during the walk, as an active memtable does: the order must hold across a direction
/// change.
#[test]
fn a_turn_stays_in_order_beside_a_growing_memtable() {
    use crate::memtable::Memtable;
    let order = Order::bytewise();
    let table = Arc::new(Memtable::new(order.clone()));
    table.insert(&put("m", 1).borrow(), 0).unwrap();
    table.insert(&put("z", 2).borrow(), 0).unwrap();
    let fixed = [put("a", 3), put("k", 4), put("x", 5)];
    let sources: Vec<Box<dyn Cursor>> = vec![Box::new(table.cursor()), Box::new(VecCursor::new(&order, &fixed))];
    let mut merge = MergeCursor::new(order, sources);
    merge.seek(b"k", 9).unwrap();
    // New records between the current one and the memtable cursor's position, and at both ends.
    for (key, seqno) in [("l", 6), ("zz", 7), ("b", 8)] {
        table.insert(&put(key, seqno).borrow(), 0).unwrap();
    }
    // New records may or may not be visited. The order must hold, and no existing record may be missed.
    assert_eq!(merge.record().key, b"k");
    for (forward, edge) in [(false, &b"a"[..]), (true, b"x"), (false, b"a"), (true, b"z")] {
        let mut before = merge.record().key.to_vec();
        while before != edge {
            if forward {
                merge.next().unwrap()
            } else {
                merge.prev().unwrap()
            }
            let key = merge.record().key.to_vec();
            assert!(if forward { before < key } else { before > key }, "{before:?}, then {key:?}");
            before = key;
        }
    }
}
