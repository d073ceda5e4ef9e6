//! The lost ranges of one family, for look-ups by position.
//!
//! Pure.
//! Holds:  sorted ranges form a binary tree by their start: the middle of a slice is the root of its two halves. Each
//!         root knows which range of its slice ends last, so a look-up visits the matching ranges and few others,
//!         whatever their number and length. Ranges added after the last sort are searched linearly: after many
//!         additions, sort first.

use std::cmp::Ordering;
use std::ops::Range;

use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{MAX_SEQNO, Seqno};

use super::plan;

/// Lost ranges, each with a tag.
#[derive(Clone, Debug)]
pub(super) struct Spans<T> {
    spans: Vec<(LostRange, T)>,
    /// For each sorted range, the index of the range that ends last in the slice whose middle it is.
    reach: Vec<usize>,
}

impl<T> Default for Spans<T> {
    fn default() -> Spans<T> {
        Spans { spans: Vec::new(), reach: Vec::new() }
    }
}

impl<T: Ord> Spans<T> {
    pub(super) fn add(&mut self, lost_range: LostRange, tag: T) {
        self.spans.push((lost_range, tag));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns all ranges, sorted and deduplicated.
    pub(super) fn into_lost_ranges(mut self, order: &Order) -> Vec<LostRange> {
        self.sort(order);
        self.spans.into_iter().map(|(lost_range, _)| lost_range).collect()
    }

    /// Returns all ranges; sorted ones are deduplicated.
    pub(super) fn lost_ranges(&self) -> impl Iterator<Item = &LostRange> {
        self.spans.iter().map(|(lost_range, _)| lost_range)
    }

    /// Sorts and deduplicates the ranges.
    pub(super) fn sort(&mut self, order: &Order) {
        if self.reach.len() == self.spans.len() {
            return;
        }
        self.spans.sort_by(|a, b| compare(order, a, b));
        self.spans.dedup();
        let mut reach = vec![0; self.spans.len()];
        self.fill_reach(order, &mut reach, 0..self.spans.len());
        self.reach = reach;
    }

    /// Returns which range of a slice ends last, and fills `reach` for its middle and its halves.
    fn fill_reach(&self, order: &Order, reach: &mut [usize], part: Range<usize>) -> Option<usize> {
        let middle = middle(&part)?;
        let end = |at: usize| place(&self.spans[at].0.to);
        let mut farthest = middle;
        for side in [part.start..middle, middle + 1..part.end] {
            let of_side = self.fill_reach(order, reach, side);
            let is_farther = |at: &usize| order.compare_internal(end(farthest), end(*at)).is_lt();
            farthest = of_side.filter(is_farther).unwrap_or(farthest);
        }
        reach[middle] = farthest;
        Some(farthest)
    }

    /// Returns the tags of the ranges in which a record may have been.
    pub(super) fn around<'a>(&'a self, order: &'a Order, key: &'a [u8], seqno: Seqno) -> impl Iterator<Item = &'a T> {
        let of_it = self.reaching(order, (key, seqno), (key, seqno));
        of_it.filter(move |(lost_range, _)| plan::stands_in(order, lost_range, key, seqno)).map(|(_, tag)| tag)
    }

    /// Returns true if a record may be older than a lost one.
    pub(super) fn cover(&self, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        // Any newer version of the key may have been lost.
        self.reaching(order, (key, MAX_SEQNO), (key, seqno)).any(|(lost_range, _)| lost_range.covers(order, key, seqno))
    }

    /// Returns true if a range overlaps the given one.
    pub(super) fn meet(&self, order: &Order, lost_range: &LostRange) -> bool {
        self.reaching(order, place(&lost_range.from), place(&lost_range.to)).any(|(span, _)| {
            order.compare_internal(place(&span.from), place(&lost_range.to)).is_le()
                && order.compare_internal(place(&lost_range.from), place(&span.to)).is_le()
        })
    }

    /// Returns the ranges that start at or before `last` and end at or after `first`, and all unsorted ranges.
    fn reaching<'a>(
        &'a self,
        order: &'a Order,
        first: (&'a [u8], Seqno),
        last: (&'a [u8], Seqno),
    ) -> impl Iterator<Item = &'a (LostRange, T)> {
        let (sorted, added) = self.spans.split_at(self.reach.len());
        let reaches = move |at: usize| order.compare_internal(first, place(&sorted[at].0.to)).is_le();
        let whole = 0..sorted.len();
        let mut parts = vec![whole];
        let next = move || {
            while let Some(part) = parts.pop() {
                let Some(middle) = middle(&part).filter(|middle| reaches(self.reach[*middle])) else { continue };
                parts.push(part.start..middle);
                if order.compare_internal(place(&sorted[middle].0.from), last).is_le() {
                    parts.push(middle + 1..part.end);
                    if reaches(middle) {
                        return Some(&sorted[middle]);
                    }
                }
            }
            None
        };
        std::iter::from_fn(next).chain(added)
    }
}

fn middle(part: &Range<usize>) -> Option<usize> {
    (!part.is_empty()).then(|| part.start + part.len() / 2)
}

fn place((key, seqno): &(Vec<u8>, Seqno)) -> (&[u8], Seqno) {
    (key, *seqno)
}

/// Compares by start, then by all other fields, so that equal ranges are adjacent.
fn compare<T: Ord>(order: &Order, (a, of_a): &(LostRange, T), (b, of_b): &(LostRange, T)) -> Ordering {
    let by_place = order.compare_internal(place(&a.from), place(&b.from));
    let rest = |lost_range: &LostRange| (lost_range.bound, lost_range.offset, lost_range.verdict as u64);
    let by_rest = || (&a.from, &a.to, rest(a), &a.file, of_a).cmp(&(&b.from, &b.to, rest(b), &b.file, of_b));
    by_place.then_with(by_rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use waxseal_lsm::error::Verdict;

    use super::*;

    proptest! {
        #[test]
        fn what_is_found_by_place_is_what_a_look_at_each_finds(
            given in prop::collection::vec((0u8..12, 0u64..6, 0u8..4, 0u64..6, 0u64..8), 0..40),
            sorted in 0usize..40,
        ) {
            let order = Order::bytewise();
            let (mut spans, mut each) = (Spans::default(), Vec::new());
            for (at, (from, newest, keys, oldest, bound)) in given.into_iter().enumerate() {
                let (from, to) = ((vec![from], newest), (vec![from + keys], oldest));
                if order.compare_internal(place(&from), place(&to)).is_gt() {
                    continue;
                }
                let lost_range = LostRange { from, to, bound, ..LostRange::over(b"", b"", 0, "t", Verdict::Seal) };
                spans.add(lost_range.clone(), at);
                spans.add(lost_range.clone(), at);
                each.push((lost_range, at));
                if at == sorted {
                    spans.sort(&order);
                }
            }
            for (key, seqno) in (0u8..16).flat_map(|key| (0u64..8).map(move |seqno| ([key], seqno))) {
                let mut found: Vec<usize> = spans.around(&order, &key, seqno).copied().collect();
                found.sort_unstable();
                found.dedup();
                let stands_in = |(lost_range, _): &&(LostRange, usize)| plan::stands_in(&order, lost_range, &key, seqno);
                let expected: Vec<usize> = each.iter().filter(stands_in).map(|(_, at)| *at).collect();
                prop_assert_eq!(found, expected);
                let covered = each.iter().any(|(lost_range, _)| lost_range.covers(&order, &key, seqno));
                prop_assert_eq!(spans.cover(&order, &key, seqno), covered);
            }
            spans.sort(&order);
            prop_assert_eq!(spans.lost_ranges().count(), each.len());
        }
    }

    #[test]
    fn of_many_spans_few_are_looked_at() {
        let key = |n: u32| format!("{n:06}").into_bytes();
        let order = Order::bytewise();
        let mut spans = Spans::default();
        for n in (0..10_000u32).rev() {
            let key = key(n * 2);
            spans.add(LostRange::over(&key, &key, 9, "t", Verdict::Seal), n);
        }
        spans.sort(&order);
        let (key, between) = (key(6_000), key(6_001));
        assert_eq!(spans.around(&order, &key, 5).collect::<Vec<_>>(), [&3_000]);
        assert!(spans.reaching(&order, (&key, 5), (&key, 5)).count() == 1 && spans.cover(&order, &key, 9));
        assert_eq!(spans.reaching(&order, (&between, MAX_SEQNO), (&between, 0)).count(), 0);
        // Add a few ranges that cover all others.
        for n in 0..3u32 {
            spans.add(LostRange::over(b"", &[0xFF], n.into(), "t", Verdict::Missing), n);
        }
        spans.sort(&order);
        assert_eq!(spans.reaching(&order, (&key, 5), (&key, 5)).count(), 4);
        assert_eq!(spans.around(&order, &key, 5).collect::<Vec<_>>(), [&3_000]);
        assert_eq!(spans.reaching(&order, (&between, MAX_SEQNO), (&between, 0)).count(), 3);
    }
}
