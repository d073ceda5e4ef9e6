//! An index of range deletes: for each key, the seqnos of the range deletes that hold it.
//!
//! In:    range deletes, in ascending order of their seqnos.
//! Out:   of a key and a seqno: the newest range delete that a reader at that seqno sees; the fragment around a key.
//! Shape: *fragments* divide the key space at the starts and ends of all ranges. Fragments are in chunks that copies of
//!        the index share, so that adding a range to a copy takes time by the square root of their number.
//! Limit: many ranges that hold each other make many fragments with many seqnos. `build` keeps of each fragment only
//!        the seqnos that a snapshot can tell apart, and joins fragments that are then equal.

use std::collections::BTreeSet;
use std::sync::Arc;

use rpds::ListSync;

use crate::order::Order;
use crate::range_delete::RangeDelete;
use crate::record::{MAX_SEQNO, Seqno};

/// Maximum number of fragments in a chunk.
const CHUNK: usize = 64;

/// An index of range deletes. Clones share their chunks.
#[derive(Clone, Debug)]
pub struct RangeIndex {
    order: Order,
    /// None is empty, and the first fragment begins before all keys.
    chunks: Vec<Arc<Vec<Fragment>>>,
}

/// The keys from a start up to the start of the next fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    /// `None`: before all keys.
    start: Option<Arc<[u8]>>,
    /// The seqnos of the range deletes that hold the fragment, newest first.
    seqnos: ListSync<Seqno>,
}

/// A fragment of an index: the keys between two bounds, which the same range deletes hold.
#[derive(Clone, Copy, Debug)]
pub struct RangeFragment<'a> {
    /// The first key; `None`: before all keys.
    pub start: Option<&'a [u8]>,
    /// The first key after it; `None`: after all keys.
    pub end: Option<&'a [u8]>,
    seqnos: &'a ListSync<Seqno>,
}

impl RangeFragment<'_> {
    /// Returns the seqno of the newest range delete that a reader at `seqno` sees; 0 if it sees none.
    pub fn newest(&self, seqno: Seqno) -> Seqno {
        newest(self.seqnos, seqno)
    }
}

#[inline]
fn newest(seqnos: &ListSync<Seqno>, at: Seqno) -> Seqno {
    seqnos.iter().copied().find(|seqno| *seqno <= at).unwrap_or(0)
}

impl RangeIndex {
    /// Creates an empty index.
    pub fn new(order: Order) -> RangeIndex {
        RangeIndex { order, chunks: vec![Arc::new(vec![Fragment { start: None, seqnos: ListSync::new_sync() }])] }
    }

    /// Creates an index of range deletes in any order. Of each fragment it keeps the newest seqno, and the newest one
    /// at or below each of `boundaries`, the seqnos at which somebody may still read.
    pub fn build<'a>(order: &Order, ranges: impl Iterator<Item = &'a RangeDelete>, boundaries: &[Seqno]) -> RangeIndex {
        // (key, `None`: before all keys; seqno; true at a start), starts and ends of the ranges.
        let mut edges: Vec<(Option<&[u8]>, Seqno, bool)> = Vec::new();
        for range in ranges {
            edges.push((range.start.as_deref(), range.seqno, true));
            edges.extend(range.end.as_deref().map(|end| (Some(end), range.seqno, false)));
        }
        let edges = order.sorted(edges, |order, (a, ..), (b, ..)| match (a, b) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        let (mut fragments, mut active) = (Vec::new(), BTreeSet::new());
        let mut edges = edges.into_iter().peekable();
        let mut start: Option<&[u8]> = None;
        loop {
            let is_here = |edge: &(Option<&[u8]>, Seqno, bool)| match (edge.0, start) {
                (Some(a), Some(b)) => order.compare(a, b).is_eq(),
                (a, b) => a.is_none() && b.is_none(),
            };
            while let Some((_, seqno, begins)) = edges.next_if(is_here) {
                if begins {
                    active.insert(seqno)
                } else {
                    active.remove(&seqno)
                };
            }
            let mut kept: Vec<Seqno> = Vec::new();
            for boundary in boundaries.iter().copied().chain([MAX_SEQNO]) {
                kept.extend(active.range(..=boundary).next_back());
            }
            kept.sort_unstable();
            kept.dedup();
            let seqnos = kept.into_iter().fold(ListSync::new_sync(), |list, seqno| list.push_front(seqno));
            if fragments.last().is_none_or(|before: &Fragment| before.seqnos != seqnos) {
                fragments.push(Fragment { start: start.map(Arc::from), seqnos });
            }
            match edges.peek() {
                Some((key, ..)) => start = *key,
                None => break,
            }
        }
        let chunks = fragments.chunks(CHUNK / 2).map(|chunk| Arc::new(chunk.to_vec())).collect();
        RangeIndex { order: order.clone(), chunks }
    }

    /// Adds a range delete whose seqno is greater than those of all others. Returns the number of fragments that it
    /// holds.
    pub fn insert(&mut self, range: &RangeDelete) -> usize {
        let from = range.start.as_deref().map_or((0, 0), |start| self.cut_at(start));
        let to = range.end.as_deref().map_or((self.chunks.len(), 0), |end| self.cut_at(end));
        let mut touched = 0;
        for chunk in from.0..self.chunks.len().min(to.0 + 1) {
            let first = if chunk == from.0 { from.1 } else { 0 };
            let last = if chunk == to.0 { to.1 } else { self.chunks[chunk].len() };
            if first < last {
                for fragment in &mut Arc::make_mut(&mut self.chunks[chunk])[first..last] {
                    fragment.seqnos.push_front_mut(range.seqno);
                }
                touched += last - first;
            }
        }
        self.divide();
        touched
    }

    /// Returns true if no range delete is in the index.
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.iter().all(|fragment| fragment.seqnos.is_empty()))
    }

    /// Returns the seqno of the newest range delete that holds a key and that a reader at `seqno` sees; 0 if there is
    /// none.
    #[inline(never)]
    pub fn newest_over(&self, key: &[u8], seqno: Seqno) -> Seqno {
        let (chunk, at) = self.find(key);
        newest(&self.chunks[chunk][at].seqnos, seqno)
    }

    /// Returns the seqno of the oldest range delete that holds a key and is newer than `seqno`.
    pub fn oldest_above(&self, key: &[u8], seqno: Seqno) -> Option<Seqno> {
        let (chunk, at) = self.find(key);
        self.chunks[chunk][at].seqnos.iter().copied().take_while(|newer| *newer > seqno).last()
    }

    /// Returns the fragment that holds a key.
    pub fn fragment(&self, key: &[u8]) -> RangeFragment<'_> {
        self.fragment_at(self.find(key))
    }

    /// Returns the fragments that hold a key from `smallest` to `largest`, both included.
    pub fn fragments<'a>(
        &'a self,
        smallest: &[u8],
        largest: &'a [u8],
    ) -> impl Iterator<Item = RangeFragment<'a>> + use<'a> {
        let mut next = Some(self.find(smallest));
        std::iter::from_fn(move || {
            let fragment = self.fragment_at(next?);
            let (chunk, at) = next?;
            next = match fragment.end {
                Some(end) if self.order.compare(end, largest).is_le() => {
                    Some(if at + 1 < self.chunks[chunk].len() { (chunk, at + 1) } else { (chunk + 1, 0) })
                }
                _ => None,
            };
            Some(fragment)
        })
    }

    /// Returns the greatest seqno such that a range delete at or above it, which a reader at `seqno` sees, holds every
    /// key from `smallest` to `largest`; 0 if a key is in no range.
    pub fn newest_over_all(&self, smallest: &[u8], largest: &[u8], seqno: Seqno) -> Seqno {
        self.fragments(smallest, largest).map(|fragment| fragment.newest(seqno)).min().unwrap_or(0)
    }

    fn fragment_at(&self, (chunk, at): (usize, usize)) -> RangeFragment<'_> {
        let here = &self.chunks[chunk];
        let next = here.get(at + 1).or_else(|| self.chunks.get(chunk + 1)?.first());
        let end = next.and_then(|next| next.start.as_deref());
        RangeFragment { start: here[at].start.as_deref(), end, seqnos: &here[at].seqnos }
    }

    /// Returns chunk and position of the last fragment that begins at or before a key.
    #[inline]
    fn find(&self, key: &[u8]) -> (usize, usize) {
        let begins = |fragment: &Fragment| match &fragment.start {
            Some(start) => self.order.compare(start, key).is_le(),
            None => true,
        };
        let chunk = self.chunks.partition_point(|chunk| chunk.first().is_some_and(begins)).saturating_sub(1);
        (chunk, self.chunks[chunk].partition_point(begins).saturating_sub(1))
    }

    /// Makes a fragment begin at a key, and returns its place.
    fn cut_at(&mut self, key: &[u8]) -> (usize, usize) {
        let (chunk, at) = self.find(key);
        let before = &self.chunks[chunk][at];
        if before.start.as_deref().is_some_and(|start| self.order.compare(start, key).is_eq()) {
            return (chunk, at);
        }
        let after = Fragment { start: Some(key.into()), seqnos: before.seqnos.clone() };
        Arc::make_mut(&mut self.chunks[chunk]).insert(at + 1, after);
        (chunk, at + 1)
    }

    /// Divides chunks that have grown too large.
    fn divide(&mut self) {
        while let Some(at) = self.chunks.iter().position(|chunk| chunk.len() > CHUNK) {
            let chunk = Arc::make_mut(&mut self.chunks[at]);
            let half = chunk.split_off(chunk.len() / 2);
            self.chunks.insert(at + 1, Arc::new(half));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u8, end: u8, seqno: Seqno) -> RangeDelete {
        // 0 and 200 stand for the unbounded sides.
        let (start, end) = ((start > 0).then(|| vec![start]), (end < 200).then(|| vec![end]));
        RangeDelete { start, end, seqno, companion: Vec::new() }
    }

    proptest! {
        /// An index that grew and one that was built answer as the list of ranges does, at every seqno that is kept.
        #[test]
        fn an_index_answers_like_the_list_of_its_ranges(
            spans in proptest::collection::vec((0u8..200, 1u8..=200), 0..150), keys in proptest::collection::vec(0u8..=201, 1..20)
        ) {
            let order = Order::bytewise();
            let spans = spans.into_iter().map(|(a, length)| (a, a.saturating_add(length).min(200)));
            let ranges: Vec<RangeDelete> =
                (1..).zip(spans).map(|(seqno, (start, end))| range(start, end, seqno)).collect();
            let mut grown = RangeIndex::new(order.clone());
            for range in &ranges {
                let copy = grown.clone();
                grown.insert(range);
                prop_assert_eq!(copy.newest_over(&keys[..1], MAX_SEQNO) <= grown.newest_over(&keys[..1], MAX_SEQNO), true);
            }
            let boundaries = [ranges.len() as u64 / 3, ranges.len() as u64 / 2];
            let built = RangeIndex::build(&order, ranges.iter(), &boundaries);
            let all: Vec<Seqno> = (0..=ranges.len() as u64).chain([MAX_SEQNO]).collect();
            for key in &keys {
                let key = &[*key][..];
                let expected = |at: Seqno| {
                    let held = ranges.iter().filter(|range| range.seqno <= at && range.holds(&order, key));
                    held.map(|range| range.seqno).max().unwrap_or(0)
                };
                for at in &all {
                    prop_assert_eq!(grown.newest_over(key, *at), expected(*at));
                    let above = ranges.iter().filter(|range| range.seqno > *at && range.holds(&order, key));
                    prop_assert_eq!(grown.oldest_above(key, *at), above.map(|range| range.seqno).min());
                }
                for at in boundaries.into_iter().chain([MAX_SEQNO]) {
                    prop_assert_eq!(built.newest_over(key, at), expected(at));
                }
                for index in [&grown, &built] {
                    let fragment = index.fragment(key);
                    prop_assert!(fragment.start.is_none_or(|start| start <= key));
                    prop_assert!(fragment.end.is_none_or(|end| key < end));
                    prop_assert_eq!(fragment.newest(MAX_SEQNO), expected(MAX_SEQNO));
                }
            }
            let (low, high) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
            let least = (*low..=*high).map(|key| grown.newest_over(&[key], MAX_SEQNO)).min().unwrap();
            prop_assert_eq!(grown.newest_over_all(&[*low], &[*high], MAX_SEQNO), least);
            prop_assert_eq!(built.newest_over_all(&[*low], &[*high], MAX_SEQNO), least);
        }
    }

    /// Ranges that hold all ranges before them cost as many seqnos as there are readers, once the index is built.
    #[test]
    fn an_index_that_is_built_keeps_what_somebody_can_read() {
        let ranges: Vec<RangeDelete> = (1..=199).map(|n| range(0, n, n.into())).collect();
        let built = RangeIndex::build(&Order::bytewise(), ranges.iter(), &[]);
        assert_eq!(built.chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), 2);
        assert!(built.chunks.iter().flat_map(|chunk| chunk.iter()).all(|fragment| fragment.seqnos.len() <= 1));
        let same: Vec<RangeDelete> = (1..=199).map(|n| range(5, 9, n)).collect();
        let built = RangeIndex::build(&Order::bytewise(), same.iter(), &[]);
        assert_eq!(built.chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), 3);
    }
}
