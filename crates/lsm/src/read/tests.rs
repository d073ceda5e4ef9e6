mod deleted;
mod run;

use std::ops::Bound;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::cursor::Cursor;
use crate::cursor::testing::{Move, Owned, VecCursor, keys, moves, orders, records, seqnos, sorted};
use crate::error::{ErrorKind, Verdict};
use crate::lost_range::LostRange;
use crate::memtable::Memtable;
use crate::merge::{LostRangeCursor, MergeCursor};
use crate::order::Order;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};

/// The expected view: for each key the newest version at or below the seqno, if it is a put, within the bounds.
fn view(order: &Order, records: &[Owned], seqno: Seqno, (from, to): &CursorBounds) -> Vec<Owned> {
    let mut seen = sorted(order, records);
    seen.retain(|record| record.seqno <= seqno);
    seen.dedup_by(|later, first| order.compare(&later.key, &first.key).is_eq());
    seen.retain(|record| {
        let above = match from {
            Bound::Unbounded => true,
            Bound::Included(from) => order.compare(&record.key, from).is_ge(),
            Bound::Excluded(from) => order.compare(&record.key, from).is_gt(),
        };
        let below = match to {
            Bound::Unbounded => true,
            Bound::Included(to) => order.compare(&record.key, to).is_le(),
            Bound::Excluded(to) => order.compare(&record.key, to).is_lt(),
        };
        record.kind == Kind::Put && above && below
    });
    seen
}

/// Makes the moves with the cursor and with an index into the view; both must always show the same.
fn check_view(order: &Order, view: &[Owned], cursor: &mut UserCursor, moves: &[Move], mut before_each: impl FnMut()) {
    let from = |key: &[u8]| view.partition_point(|record| order.compare(&record.key, key).is_lt());
    let past = |key: &[u8]| view.partition_point(|record| order.compare(&record.key, key).is_le());
    let mut at: Option<usize> = None;
    for (n, step) in moves.iter().enumerate() {
        before_each();
        let to = match step {
            Move::First => cursor.first().map(|()| Some(0)),
            Move::Last => cursor.last().map(|()| view.len().checked_sub(1)),
            Move::Seek(key, _) => cursor.seek(key).map(|()| Some(from(key))),
            Move::SeekForPrev(key, _) => cursor.seek_for_prev(key).map(|()| past(key).checked_sub(1)),
            Move::Next => cursor.next().map(|()| at.map(|at| at + 1)),
            Move::Prev => cursor.prev().map(|()| at.and_then(|at| at.checked_sub(1))),
        };
        at = to.unwrap().filter(|at| *at < view.len());
        let expected = at.map(|at| &view[at]);
        let found = cursor.valid().then(|| Owned::from(cursor.record()));
        assert_eq!(found.as_ref(), expected, "after move {n}, {step:?}");
        assert_eq!(cursor.key(), expected.map_or(&[][..], |record| &record.key));
        assert_eq!(cursor.value(), expected.map_or(&[][..], |record| &record.value));
    }
}

fn bounds() -> impl Strategy<Value = CursorBounds> {
    let bound = || {
        prop_oneof![
            2 => Just(Bound::Unbounded),
            1 => keys().prop_map(Bound::Included),
            1 => keys().prop_map(Bound::Excluded),
        ]
    };
    (bound(), bound())
}

/// Many versions of few keys, to produce long runs of versions.
fn versions() -> impl Strategy<Value = Vec<Owned>> {
    let key = select(vec![b"a".to_vec(), b"b".to_vec(), b"B".to_vec(), b"a key longer than its lead".to_vec()]);
    vec((key, 0u8..8), 0..200).prop_map(|drawn| {
        let record = |(n, (key, kind)): (usize, (Vec<u8>, u8))| Owned {
            key,
            seqno: n as Seqno,
            kind: if kind == 0 { Kind::Delete } else { Kind::Put },
            value: n.to_string().into_bytes(),
            companion: vec![],
        };
        drawn.into_iter().enumerate().map(record).collect()
    })
}

/// Simulates a source that has lost some records: returns the rest, and a lost range around each run of lost ones.
fn lost(order: &Order, records: &[Owned], holes: &[(prop::sample::Index, usize)]) -> (Vec<Owned>, Vec<LostRange>) {
    let records = sorted(order, records);
    let mut is_lost = vec![false; records.len()];
    for (at, length) in holes.iter().filter(|_| !records.is_empty()) {
        let at = at.index(records.len());
        is_lost[at..(at + length).min(records.len())].fill(true);
    }
    let bound = records.iter().map(|record| record.seqno).max().unwrap_or(0);
    let mut lost_ranges = Vec::new();
    for (start, run) in is_lost.iter().enumerate().filter_map(|(at, lost)| {
        let starts = *lost && (at == 0 || !is_lost[at - 1]);
        starts.then(|| (at, is_lost[at..].iter().take_while(|lost| **lost).count()))
    }) {
        let from = match start.checked_sub(1).map(|left| &records[left]) {
            Some(left) => (left.key.clone(), left.seqno.saturating_sub(1)),
            None => (records[0].key.clone(), MAX_SEQNO),
        };
        let to = match records.get(start + run) {
            Some(right) => (right.key.clone(), right.seqno + 1),
            None => (records[records.len() - 1].key.clone(), 0),
        };
        let (file, offset, verdict) = (format!("{start}"), 0, Verdict::Seal);
        lost_ranges.push(LostRange { from, to, bound, file, offset, verdict });
    }
    let mut at = 0..;
    (records.into_iter().filter(|_| !is_lost[at.next().unwrap()]).collect(), lost_ranges)
}

/// The expected view with lost ranges: for each key the newest remaining version, unless a lost range covers it.
fn view_beside(
    order: &Order,
    kept: &[Owned],
    lost_ranges: &[LostRange],
    seqno: Seqno,
    bounds: &CursorBounds,
) -> Vec<Owned> {
    let mut seen = view(order, kept, seqno, bounds);
    seen.retain(|record| {
        !lost_ranges.iter().any(|lost_range| lost_range.covers_at(order, &record.key, record.seqno, seqno))
    });
    seen
}

/// True if a lost range spans versions of one key only, and a version that no lost range hides is the result for that
/// key.
fn is_decided(order: &Order, left: &[Owned], lost_ranges: &[LostRange], lost_range: &LostRange, seqno: Seqno) -> bool {
    let Some(key) = lost_range.only_key(order) else { return false };
    let visible = left.iter().filter(|record| record.key == key && record.seqno <= seqno);
    let newest = visible.max_by_key(|record| record.seqno);
    newest.is_some_and(|newest| {
        !lost_ranges.iter().any(|lost_range| lost_range.covers_at(order, key, newest.seqno, seqno))
    })
}

/// True if a lost range spans a key that a cursor with these bounds may show.
fn reaches_into((low, high): &CursorBounds, lost_range: &LostRange) -> bool {
    let from_low = match low {
        Bound::Unbounded => true,
        Bound::Included(low) => lost_range.to.0 >= *low,
        Bound::Excluded(low) => lost_range.to.0 > *low,
    };
    let to_high = match high {
        Bound::Unbounded => true,
        Bound::Included(high) => lost_range.from.0 <= *high,
        Bound::Excluded(high) => lost_range.from.0 < *high,
    };
    from_low && to_high
}

/// Makes a move, and continues in its direction past lost ranges; returns the files of the lost ranges encountered.
fn go_on(cursor: &mut UserCursor, step: &Move) -> Vec<String> {
    let (mut outcome, forward) = match step {
        Move::First => (cursor.first(), true),
        Move::Last => (cursor.last(), false),
        Move::Seek(key, _) => (cursor.seek(key), true),
        Move::SeekForPrev(key, _) => (cursor.seek_for_prev(key), false),
        Move::Next => (cursor.next(), true),
        Move::Prev => (cursor.prev(), false),
    };
    let mut met = Vec::new();
    while let Err(error) = outcome {
        assert_eq!(error.damage().unwrap().verdict, Verdict::Seal);
        assert_eq!(error.damage().unwrap().cf.as_deref(), Some("family"));
        assert!(!cursor.valid());
        met.push(error.damage().unwrap().file.clone());
        outcome = if forward { cursor.next() } else { cursor.prev() };
    }
    met
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// No wrong record is shown, no record is silently missing, and no lost range is reported twice on the way through.
    #[test]
    fn beside_fences_what_decides_is_shown_and_the_rest_is_told(
        records in prop_oneof![records(80), versions()], share in 0usize..100, seqno in seqnos(), bounds in bounds(),
        holes in vec((any::<prop::sample::Index>(), 1usize..6), 0..4), moves in moves(60), at_all: bool,
    ) {
        let (order, seqno) = (Order::bytewise(), if at_all { MAX_SEQNO } else { seqno });
        let (older, newer) = records.split_at(records.len() * share / 100);
        let (kept, lost_ranges) = lost(&order, older, &holes);
        let left = [&kept[..], newer].concat();
        let truth = view(&order, &records, seqno, &bounds);
        let shown = view_beside(&order, &left, &lost_ranges, seqno, &bounds);
        for record in &shown {
            prop_assert!(truth.contains(record), "{:?} is not what was written last: {:?}", record, lost_ranges);
        }
        for record in truth.iter().filter(|record| !shown.contains(record)) {
            prop_assert!(lost_ranges.iter().any(|lost_range| lost_range.may_hide(&order, &record.key, seqno)), "{:?} is lost: {:?}, kept {:?}", record, lost_ranges, kept.len());
        }
        let cursor = |bounds: CursorBounds| {
            let sources: Vec<Box<dyn Cursor>> = vec![
                Box::new(VecCursor::new(&order, newer)),
                Box::new(LostRangeCursor::new(order.clone(), Arc::new(lost_ranges.clone()))),
                Box::new(VecCursor::new(&order, &kept)),
            ];
            let merged = Box::new(MergeCursor::new(order.clone(), sources));
            UserCursor::new(order.clone(), merged, seqno, bounds).of_family("family")
        };
        // A full walk, in both directions.
        for forward in [true, false] {
            let mut through = cursor((Bound::Unbounded, Bound::Unbounded));
            let all = view_beside(&order, &left, &lost_ranges, seqno, &(Bound::Unbounded, Bound::Unbounded));
            let mut met = go_on(&mut through, if forward { &Move::First } else { &Move::Last });
            let mut found = Vec::new();
            while through.valid() {
                found.push(Owned::from(through.record()));
                met.extend(go_on(&mut through, if forward { &Move::Next } else { &Move::Prev }));
            }
            if !forward {
                found.reverse();
            }
            prop_assert_eq!(&found, &all);
            let truth = view(&order, &records, seqno, &(Bound::Unbounded, Bound::Unbounded));
            for record in truth.iter().filter(|record| !found.contains(record)) {
                let mut told = lost_ranges.iter().filter(|lost_range| met.contains(&lost_range.file));
                prop_assert!(told.any(|lost_range| lost_range.may_hide(&order, &record.key, seqno)), "{:?} lost in silence", record);
            }
            for lost_range in lost_ranges.iter().filter(|lost_range| met.contains(&lost_range.file)) {
                prop_assert!(!is_decided(&order, &left, &lost_ranges, lost_range, seqno), "told of a key that is decided: {:?}", lost_range);
            }
            let count = met.len();
            met.sort();
            met.dedup();
            prop_assert_eq!(met.len(), count, "told twice");
        }
        // Random moves into and out of lost ranges.
        let mut cursor = cursor(bounds.clone());
        let mut at: Option<usize> = None;
        for (n, step) in moves.iter().enumerate() {
            let from = |key: &[u8]| shown.partition_point(|record| &record.key[..] < key);
            let past = |key: &[u8]| shown.partition_point(|record| &record.key[..] <= key);
            let to = match step {
                Move::First => Some(0),
                Move::Last => shown.len().checked_sub(1),
                Move::Seek(key, _) => Some(from(key)),
                Move::SeekForPrev(key, _) => past(key).checked_sub(1),
                Move::Next => at.map(|at| at + 1),
                Move::Prev => at.and_then(|at| at.checked_sub(1)),
            };
            let met = go_on(&mut cursor, step);
            at = to.filter(|at| *at < shown.len());
            let found = cursor.valid().then(|| Owned::from(cursor.record()));
            prop_assert_eq!(found.as_ref(), at.map(|at| &shown[at]), "after move {}, {:?}, {:?}", n, step, &lost_ranges);
            let told = lost_ranges.iter().filter(|lost_range| met.contains(&lost_range.file));
            for lost_range in told {
                prop_assert!(reaches_into(&bounds, lost_range), "after move {n}, {step:?}: {lost_range:?} of keys beyond {bounds:?}");
            }
        }
    }

    #[test]
    fn the_view_is_that_of_the_oracle(
        order in orders(), records in prop_oneof![records(80), versions()], seqno in seqnos(), bounds in bounds(),
        moves in moves(60),
    ) {
        let view = view(&order, &records, seqno, &bounds);
        let inner = Box::new(VecCursor::new(&order, &records));
        let mut cursor = UserCursor::new(order.clone(), inner, seqno, bounds);
        prop_assert!(!cursor.valid());
        check_view(&order, &view, &mut cursor, &moves, || ());
    }

    /// The seqno is that of the memtable's records at the start; records inserted between the moves stay invisible.
    #[test]
    fn records_that_come_in_beneath_stay_unseen(
        order in orders(), records in prop_oneof![records(120), versions()], share in 0usize..100, bounds in bounds(),
        moves in moves(60),
    ) {
        let (now, later) = records.split_at(records.len() * share / 100);
        let (older, newer) = now.split_at(now.len() / 2);
        let seqno = now.last().map_or(0, |record| record.seqno);
        let later = if now.is_empty() { &[] } else { later };
        let table = Arc::new(Memtable::new(order.clone()));
        newer.iter().for_each(|record| table.insert(&record.borrow(), 0).unwrap());

        let view = view(&order, now, seqno, &bounds);
        let sources: Vec<Box<dyn Cursor>> = vec![Box::new(table.cursor()), Box::new(VecCursor::new(&order, older))];
        let inner = Box::new(MergeCursor::new(order.clone(), sources));
        let mut cursor = UserCursor::new(order.clone(), inner, seqno, bounds);
        let mut later = later.iter();
        check_view(&order, &view, &mut cursor, &moves, || {
            later.by_ref().take(3).for_each(|record| table.insert(&record.borrow(), 0).unwrap());
        });
    }

    #[test]
    fn an_error_from_below_surfaces_and_never_shows_less(
        records in records(40), seqno in seqnos(), forward: bool, breaks_after in 0usize..60,
    ) {
        let order = Order::bytewise();
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let view = view(&order, &records, seqno, &everything);
        let inner = Box::new(VecCursor::failing(&order, &records, breaks_after));
        let mut cursor = UserCursor::new(order, inner, seqno, everything);
        let mut shown = 0;
        let mut moved = if forward { cursor.first() } else { cursor.last() };
        while moved.is_ok() && cursor.valid() {
            let expected = if forward { &view[shown] } else { &view[view.len() - 1 - shown] };
            prop_assert_eq!(&Owned::from(cursor.record()), expected);
            shown += 1;
            moved = if forward { cursor.next() } else { cursor.prev() };
        }
        prop_assert!(!cursor.valid());
        prop_assert!(moved.is_err() || shown == view.len());
    }
}

fn record(key: &str, seqno: Seqno, kind: Kind) -> Owned {
    Owned::from(Record { key: key.as_bytes(), seqno, kind, value: b"v", companion: &[] })
}

/// A newer record comes before the place at which a seek enters a lost range. The walk that turns around at that record
/// has not met the range, which extends to both sides.
#[test]
fn a_lost_range_is_met_after_a_turn_before_it() {
    let order = Order::bytewise();
    let newer = [record("c", 8, Kind::Put), record("d", 9, Kind::Put)];
    let older = [record("b", 1, Kind::Put), record("e", 2, Kind::Put)];
    let lost_range = LostRange::over(b"a", b"f", 3, "0", Verdict::Seal);
    for back in [false, true] {
        let lost_ranges = LostRangeCursor::new(order.clone(), Arc::new(vec![lost_range.clone()]));
        let sources: Vec<Box<dyn Cursor>> = vec![
            Box::new(VecCursor::new(&order, &newer)),
            Box::new(lost_ranges),
            Box::new(VecCursor::new(&order, &older)),
        ];
        let inner = Box::new(MergeCursor::new(order.clone(), sources));
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = UserCursor::new(order.clone(), inner, MAX_SEQNO, all).of_family("family");
        // Neither b nor e is shown: each may have a newer version among the lost records.
        let moves = match back {
            false => vec![(Move::Seek(b"d".to_vec(), 0), "d"), (Move::Prev, "c"), (Move::Next, "d"), (Move::Next, "")],
            true => {
                vec![(Move::SeekForPrev(b"c".to_vec(), 0), "c"), (Move::Next, "d"), (Move::Prev, "c"), (Move::Prev, "")]
            }
        };
        let mut met = Vec::new();
        for (step, key) in moves {
            met.extend(go_on(&mut cursor, &step));
            assert_eq!(cursor.key(), key.as_bytes(), "{step:?}");
        }
        assert!(!met.is_empty());
    }
}

#[test]
fn a_reserved_kind_is_a_typed_error_where_it_decides() {
    let order = Order::bytewise();
    let records = [
        record("a", 1, Kind::Put),
        record("b", 5, Kind::Put),
        record("b", 4, Kind::Merge),
        record("c", 2, Kind::Put),
        record("d", 6, Kind::SidePointer),
        record("d", 3, Kind::Put),
        record("e", 7, Kind::Put),
    ];
    let at = |seqno| {
        let inner = Box::new(VecCursor::new(&order, &records));
        UserCursor::new(order.clone(), inner, seqno, (Bound::Unbounded, Bound::Unbounded))
    };
    // Hidden by a newer version, or above the seqno, a record of a reserved kind has no effect.
    for seqno in [3, 5] {
        let mut cursor = at(seqno);
        cursor.first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
        cursor.last().unwrap();
        while cursor.valid() {
            cursor.prev().unwrap();
        }
    }
    let mut cursor = at(MAX_SEQNO);
    cursor.seek(b"c").unwrap();
    assert_eq!(*cursor.next().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!cursor.valid());
    cursor.next().unwrap();
    assert!(!cursor.valid(), "invalid until the next seek");
    cursor.last().unwrap();
    assert_eq!(cursor.key(), b"e");
    assert_eq!(*cursor.prev().unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!cursor.valid());
    assert_eq!(*at(4).seek(b"b").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(*at(4).seek_for_prev(b"b").unwrap_err().kind(), ErrorKind::Invalid);
}

/// Counts the steps of the inner cursor.
struct Counting {
    inner: VecCursor,
    steps: Arc<std::sync::atomic::AtomicUsize>,
}

impl Counting {
    fn count(&mut self) -> &mut VecCursor {
        self.steps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        &mut self.inner
    }
}

impl Cursor for Counting {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> crate::error::Result<()> {
        self.count().seek(key, seqno)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> crate::error::Result<()> {
        self.count().seek_for_prev(key, seqno)
    }
    fn first(&mut self) -> crate::error::Result<()> {
        self.count().first()
    }
    fn last(&mut self) -> crate::error::Result<()> {
        self.count().last()
    }
    fn next(&mut self) -> crate::error::Result<()> {
        self.count().next()
    }
    fn prev(&mut self) -> crate::error::Result<()> {
        self.count().prev()
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn record(&self) -> Record<'_> {
        self.inner.record()
    }
    fn source(&self) -> crate::seam::RecordSource<'_> {
        self.inner.source()
    }
}

#[test]
fn a_key_written_a_thousand_times_costs_a_search_not_a_thousand_steps() {
    let order = Order::bytewise();
    let mut records: Vec<Owned> = (1..=3000).map(|seqno| record("b", seqno, Kind::Put)).collect();
    records.push(record("a", 3001, Kind::Put));
    records.push(record("c", 3002, Kind::Put));
    records.push(record("a", 1, Kind::Put));
    records.push(record("c", 2, Kind::Put));
    for seqno in [MAX_SEQNO, 1500] {
        let steps = Arc::default();
        let inner = Counting { inner: VecCursor::new(&order, &records), steps: Arc::clone(&steps) };
        let mut cursor = UserCursor::new(order.clone(), Box::new(inner), seqno, (Bound::Unbounded, Bound::Unbounded));
        let mut keys = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            keys.extend_from_slice(cursor.key());
            cursor.next().unwrap();
        }
        cursor.last().unwrap();
        while cursor.valid() {
            keys.extend_from_slice(cursor.key());
            cursor.prev().unwrap();
        }
        assert_eq!(keys, b"abccba");
        let steps = steps.load(std::sync::atomic::Ordering::Relaxed);
        assert!(steps < 150, "{steps} steps at {seqno}");
    }
}

#[test]
fn who_turns_round_at_a_fence_comes_back_to_what_was_shown() {
    let order = Order::bytewise();
    let records = [record("a", 1, Kind::Put), record("c", 2, Kind::Put)];
    let place = |key: &str| (key.as_bytes().to_vec(), 9);
    let (file, offset, verdict) = ("lost".to_owned(), 0, Verdict::Seal);
    let lost_range = LostRange { from: place("b"), to: place("bb"), bound: 9, file, offset, verdict };
    let sources: Vec<Box<dyn Cursor>> = vec![
        Box::new(LostRangeCursor::new(order.clone(), Arc::new(vec![lost_range]))),
        Box::new(VecCursor::new(&order, &records)),
    ];
    let inner = MergeCursor::new(order.clone(), sources);
    let mut cursor = UserCursor::over(order, inner, MAX_SEQNO, (Bound::Unbounded, Bound::Unbounded));
    cursor.seek(b"c").unwrap();
    assert!(cursor.prev().unwrap_err().is_corruption());
    cursor.next().unwrap();
    assert_eq!(cursor.key(), b"c");
}
