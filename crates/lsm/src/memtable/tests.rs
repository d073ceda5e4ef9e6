use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::cursor::Cursor;
use crate::cursor::testing::{Move, Owned, check_moves, moves, orders, records};
use crate::record::MAX_SEQNO;

fn filled(order: &Order, records: &[Owned]) -> Arc<Memtable> {
    let table = Arc::new(Memtable::new(order.clone()));
    for record in records {
        table.insert(&record.borrow(), record.seqno * 7);
    }
    table
}

fn put<'a>(key: &'a [u8], seqno: Seqno, value: &'a [u8]) -> Record<'a> {
    Record { key, seqno, kind: Kind::Put, value, companion: &[] }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_get_answers_the_newest_version_not_above(order in orders(), records in records(60), probes in records(20)) {
        let table = filled(&order, &records);
        for probe in probes {
            let expected = records
                .iter()
                .filter(|r| order.compare(&r.key, &probe.key).is_eq() && r.seqno <= probe.seqno)
                .max_by_key(|r| r.seqno);
            let mut found = None;
            let answer = table.get(&probe.key, probe.seqno, &mut |record| found = Some(Owned::from(*record)));
            prop_assert_eq!(answer, found.is_some());
            prop_assert_eq!(found.as_ref(), expected);
        }
    }

    #[test]
    fn a_cursor_walks_in_internal_order(order in orders(), records in records(200), moves in moves(60)) {
        let mut cursor = filled(&order, &records).cursor();
        check_moves(&order, &records, &mut cursor, &moves);
    }

    #[test]
    fn totals_are_those_of_the_records(records in records(60)) {
        let table = filled(&Order::bytewise(), &records);
        let mut ledger = Ledger::default();
        records.iter().for_each(|r| ledger.add(r.kind, r.seqno * 7));
        prop_assert_eq!(table.ledger(), ledger);
        prop_assert_eq!(table.len(), records.len());
        prop_assert_eq!(table.is_empty(), records.is_empty());
        prop_assert_eq!(table.least_seqno(), records.iter().map(|r| r.seqno).min());
        prop_assert_eq!(table.greatest_seqno(), records.iter().map(|r| r.seqno).max());
        let payload: usize = records.iter().map(|r| r.key.len() + r.value.len() + r.companion.len()).sum();
        prop_assert!(table.bytes() >= payload + records.len() * 64);
    }
}

#[test]
fn large_and_empty_records_keep_their_parts() {
    let table = Memtable::new(Order::bytewise());
    let (key, value, companion) = (vec![7; 65_535], vec![8; 100_000], vec![9; 65_536]);
    let large = Record { key: &key, seqno: 2, kind: Kind::Put, value: &value, companion: &companion };
    let empty = Record { key: &[], seqno: 1, kind: Kind::Delete, value: &[], companion: &[] };
    table.insert(&large, 0);
    table.insert(&empty, 0);
    assert!(table.get(&key, 2, &mut |record| assert_eq!(*record, large)));
    assert!(table.get(&[], 1, &mut |record| assert_eq!(*record, empty)));
    assert!(!table.get(&[], 0, &mut |_| unreachable!()));
    assert!(!table.get(&key[1..], MAX_SEQNO, &mut |_| unreachable!()));
}

#[test]
fn a_cursor_outlives_the_last_other_handle() {
    let table = Arc::new(Memtable::new(Order::bytewise()));
    (1..100u64).for_each(|i| table.insert(&put(format!("{i:03}").as_bytes(), i, b"v"), 0));
    let mut cursor = table.cursor();
    drop(table);
    cursor.first().unwrap();
    let mut seen = 0;
    while cursor.valid() {
        seen += 1;
        assert_eq!(cursor.record().seqno, seen);
        cursor.next().unwrap();
    }
    assert_eq!(seen, 99);
}

/// The n-th key of the concurrent tests: scattered, so that inserts land everywhere.
fn key(n: u64) -> [u8; 8] {
    (n % 5_000).wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes().to_le_bytes()
}

/// `crossbeam-skiplist` 0.1.3 loses readers when an entry is replaced: with unique keys, what is published is found.
#[test]
fn readers_beside_the_writer_miss_nothing() {
    const RECORDS: u64 = 60_000;
    let table = Arc::new(Memtable::new(Order::bytewise()));
    let published = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seqno in 1..=RECORDS {
                table.insert(&put(&key(seqno), seqno, &seqno.to_le_bytes()), seqno);
                published.store(seqno, Ordering::Release);
            }
        });
        for reader in 0..3u64 {
            let (table, published) = (&table, &published);
            scope.spawn(move || {
                let mut n = reader;
                loop {
                    let visible = published.load(Ordering::Acquire);
                    n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let seqno = (n >> 20) % (visible + 1);
                    // The newest version at `seqno` of the key that was written at `seqno` is that one.
                    if seqno > 0 {
                        let mut found = 0;
                        assert!(table.get(&key(seqno), seqno, &mut |record| found = record.seqno), "lost {seqno}");
                        assert_eq!(found, seqno);
                    }
                    if visible == RECORDS {
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(table.len() as u64, RECORDS);
}

#[test]
fn cursors_beside_the_writer_see_all_that_was_published() {
    const RECORDS: u64 = 20_000;
    let table = Arc::new(Memtable::new(Order::bytewise()));
    let (published, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seqno in 1..=RECORDS {
                table.insert(&put(&key(seqno), seqno, &[]), 0);
                published.store(seqno, Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
        for forward in [true, false] {
            let (table, published, done) = (&table, &published, &done);
            scope.spawn(move || {
                let mut last_round = false;
                while !last_round {
                    last_round = done.load(Ordering::Acquire);
                    let visible = published.load(Ordering::Acquire);
                    let mut cursor = table.cursor();
                    let mut seen = BTreeMap::new();
                    let mut before: Option<(Vec<u8>, Reverse<Seqno>)> = None;
                    if forward {
                        cursor.first().unwrap()
                    } else {
                        cursor.last().unwrap()
                    }
                    while cursor.valid() {
                        let record = cursor.record();
                        let place = (record.key.to_vec(), Reverse(record.seqno));
                        if let Some(before) = &before {
                            assert!(if forward { *before < place } else { *before > place });
                        }
                        if record.seqno <= visible {
                            seen.insert(record.seqno, ());
                        }
                        before = Some(place);
                        if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
                    }
                    assert_eq!(seen.len() as u64, visible, "forward: {forward}");
                }
            });
        }
    });
}

#[test]
fn runs_grow_and_turn_round() {
    let records: Vec<Owned> = (1..=500u64).map(|i| Owned::from(put(format!("{i:04}").as_bytes(), i, b""))).collect();
    let mut cursor = filled(&Order::bytewise(), &records).cursor();
    let there_and_back =
        |steps: usize| std::iter::repeat_n(Move::Next, steps).chain(std::iter::repeat_n(Move::Prev, steps));
    let moves: Vec<Move> = std::iter::once(Move::First).chain((0..300).step_by(37).flat_map(there_and_back)).collect();
    check_moves(&Order::bytewise(), &records, &mut cursor, &moves);
}
