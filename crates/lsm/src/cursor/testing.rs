//! Test support for all cursors: records that own their bytes, a plain cursor over a vector, random records and moves,
//! and a minimal model of a cursor.

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{Cursor, ListCursor};
use crate::error::{Error, Result};
use crate::order::{Comparator, Order};
pub(crate) use crate::record::OwnedRecord as Owned;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{Protection, RecordSource};

impl Owned {
    pub(crate) fn place(&self) -> (&[u8], Seqno) {
        (&self.key, self.seqno)
    }
}

impl From<Record<'_>> for Owned {
    fn from(record: Record<'_>) -> Owned {
        Owned::of(&record)
    }
}

/// Records in internal order.
pub(crate) fn sorted(order: &Order, records: &[Owned]) -> Vec<Owned> {
    let mut records = records.to_vec();
    records.sort_by(|a, b| order.compare_internal(a.place(), b.place()));
    records
}

/// A list cursor that can be set to fail.
pub(crate) struct VecCursor {
    list: ListCursor<Owned>,
    moves_left: usize,
}

impl VecCursor {
    pub(crate) fn new(order: &Order, records: &[Owned]) -> VecCursor {
        VecCursor::failing(order, records, usize::MAX)
    }

    /// Creates a cursor whose moves fail after the first `moves_left`.
    pub(crate) fn failing(order: &Order, records: &[Owned], moves_left: usize) -> VecCursor {
        VecCursor { list: ListCursor::new(order.clone(), sorted(order, records), Protection::None), moves_left }
    }

    /// Counts a move. A failed one leaves the cursor invalid.
    fn step(&mut self) -> Result<&mut ListCursor<Owned>> {
        match self.moves_left.checked_sub(1) {
            Some(left) => self.moves_left = left,
            None => {
                self.list.invalidate();
                return Err(Error::structural("told to fail"));
            }
        }
        Ok(&mut self.list)
    }
}

impl Cursor for VecCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.step()?.seek(key, seqno)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.step()?.seek_for_prev(key, seqno)
    }
    fn first(&mut self) -> Result<()> {
        self.step()?.first()
    }
    fn last(&mut self) -> Result<()> {
        self.step()?.last()
    }
    fn next(&mut self) -> Result<()> {
        self.step()?.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.step()?.prev()
    }
    fn valid(&self) -> bool {
        self.list.valid()
    }
    fn record(&self) -> Record<'_> {
        self.list.record()
    }
    fn source(&self) -> RecordSource<'_> {
        RecordSource::default()
    }
}

fn lower(order: &Order, records: &[Owned], key: &[u8], seqno: Seqno) -> usize {
    records.partition_point(|record| order.compare_internal(record.place(), (key, seqno)) == Ordering::Less)
}

fn upper(order: &Order, records: &[Owned], key: &[u8], seqno: Seqno) -> usize {
    records.partition_point(|record| order.compare_internal(record.place(), (key, seqno)) != Ordering::Greater)
}

/// One move of a cursor.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    First,
    Last,
    Next,
    Prev,
    Seek(Vec<u8>, Seqno),
    SeekForPrev(Vec<u8>, Seqno),
}

/// Makes the moves with the cursor and with an index into the sorted records; both must always be at the same record.
/// Steps from an invalid position are left out: they are not allowed.
pub(crate) fn check_moves(order: &Order, records: &[Owned], cursor: &mut dyn Cursor, moves: &[Move]) {
    let records = sorted(order, records);
    let mut at: Option<usize> = None;
    for (n, step) in moves.iter().enumerate() {
        let to = match step {
            Move::First => cursor.first().map(|()| Some(0)),
            Move::Last => cursor.last().map(|()| records.len().checked_sub(1)),
            Move::Seek(key, seqno) => cursor.seek(key, *seqno).map(|()| Some(lower(order, &records, key, *seqno))),
            Move::SeekForPrev(key, seqno) => {
                cursor.seek_for_prev(key, *seqno).map(|()| upper(order, &records, key, *seqno).checked_sub(1))
            }
            Move::Next | Move::Prev if at.is_none() => continue,
            Move::Next => cursor.next().map(|()| at.map(|at| at + 1)),
            Move::Prev => cursor.prev().map(|()| at.and_then(|at| at.checked_sub(1))),
        };
        at = to.unwrap().filter(|at| *at < records.len());
        let found = cursor.valid().then(|| Owned::from(cursor.record()));
        assert_eq!(found.as_ref(), at.map(|at| &records[at]), "after move {n}, {step:?}");
    }
}

/// Keys that are often equal, often share sixteen or more bytes, and differ in case.
pub(crate) fn keys() -> impl Strategy<Value = Vec<u8>> {
    let short = || vec(select(&b"aAbB\0\xff"[..]), 0..3);
    prop_oneof![
        3 => short(),
        1 => short().prop_map(|tail| [&b"fourteen bytes"[..], &tail].concat()),
        2 => short().prop_map(|tail| [&b"more than sixteen"[..], &tail].concat()),
    ]
}

/// Up to `most` records with distinct seqnos, in random key order.
pub(crate) fn records(most: usize) -> impl Strategy<Value = Vec<Owned>> {
    let kinds = prop_oneof![3 => Just(Kind::Put), 1 => Just(Kind::Delete)];
    let companions = select(vec![vec![], vec![0xF0, 1, 2, 3, 4]]);
    vec((keys(), kinds, vec(any::<u8>(), 0..3), companions, 1..3u64), 0..most).prop_map(|drawn| {
        let mut seqno = 0;
        let mut number = |(key, kind, value, companion, gap)| {
            seqno += gap;
            Owned { key, seqno, kind, value, companion }
        };
        drawn.into_iter().map(&mut number).collect()
    })
}

/// Seqnos around those of `records`.
pub(crate) fn seqnos() -> impl Strategy<Value = Seqno> {
    prop_oneof![6 => 0..120u64, 1 => Just(0), 1 => Just(MAX_SEQNO)]
}

/// Up to `most` moves, mostly steps, with direction changes at any point.
pub(crate) fn moves(most: usize) -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        6 => Just(Move::Next),
        6 => Just(Move::Prev),
        2 => (keys(), seqnos()).prop_map(|(key, seqno)| Move::Seek(key, seqno)),
        2 => (keys(), seqnos()).prop_map(|(key, seqno)| Move::SeekForPrev(key, seqno)),
    ];
    vec(one, 0..most)
}

/// Bytewise order and two comparators: a reversed one, and one that treats keys with different bytes as equal.
pub(crate) fn orders() -> impl Strategy<Value = Order> {
    select(vec![Order::bytewise(), Order::custom(Arc::new(Backwards)), Order::custom(Arc::new(CaseFolded))])
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

pub(crate) struct CaseFolded;

impl Comparator for CaseFolded {
    fn name(&self) -> &str {
        "test.case-folded"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}
