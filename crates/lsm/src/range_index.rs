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

use crate::order::Order;
use crate::range_delete::RangeDelete;
use crate::record::{MAX_SEQNO, Seqno};
use crate::seqno_list::SeqnoList;
use crate::sorted_heads::SortedHeads;

/// Maximum number of fragments in a chunk.
const CHUNK: usize = 64;

/// An index of range deletes. Clones share their chunks.
#[derive(Clone, Debug)]
pub struct RangeIndex {
    order: Order,
    /// None is empty, and the first fragment begins before all keys.
    chunks: Vec<Arc<Chunk>>,
    /// The starts of all chunks but the first.
    heads: SortedHeads,
}

/// Fragments side by side.
#[derive(Clone, Debug)]
struct Chunk {
    fragments: Vec<Fragment>,
    /// The starts of all fragments but the first.
    heads: SortedHeads,
}

impl Chunk {
    fn new(order: &Order, fragments: Vec<Fragment>) -> Chunk {
        let heads = SortedHeads::of(order, fragments[1..].iter().map(Fragment::key));
        Chunk { fragments, heads }
    }
}

/// The keys from a start up to the start of the next fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    /// `None`: before all keys.
    start: Option<Arc<[u8]>>,
    /// The seqnos of the range deletes that hold the fragment.
    seqnos: SeqnoList,
}

impl Fragment {
    /// Returns the start of a fragment other than the first.
    fn key(&self) -> &[u8] {
        self.start.as_deref().unwrap_or_default()
    }
}

/// A fragment of an index: the keys between two bounds, which the same range deletes hold.
#[derive(Clone, Copy, Debug)]
pub struct RangeFragment<'a> {
    /// The first key; `None`: before all keys.
    pub start: Option<&'a [u8]>,
    /// The first key after it; `None`: after all keys.
    pub end: Option<&'a [u8]>,
    seqnos: &'a SeqnoList,
}

/// A fragment's place in an index.
#[derive(Clone, Copy, Debug, Default)]
pub struct FragmentPlace {
    chunk: usize,
    at: usize,
}

impl RangeFragment<'_> {
    fn is_at_or_before(&self, order: &Order, key: &[u8]) -> bool {
        self.start.is_none_or(|start| order.compare(start, key).is_le())
    }

    fn ends_after(&self, order: &Order, key: &[u8]) -> bool {
        self.end.is_none_or(|end| order.compare(end, key).is_gt())
    }

    /// Returns the seqno of the newest range delete that a reader at `seqno` sees; 0 if it sees none.
    pub fn newest(&self, seqno: Seqno) -> Seqno {
        self.seqnos.newest(seqno)
    }
}

impl RangeIndex {
    /// Creates an empty index.
    pub fn new(order: Order) -> RangeIndex {
        RangeIndex::of(order, [vec![Fragment { start: None, seqnos: SeqnoList::default() }]])
    }

    fn of(order: Order, chunks: impl IntoIterator<Item = Vec<Fragment>>) -> RangeIndex {
        let chunks: Vec<_> = chunks.into_iter().map(|fragments| Arc::new(Chunk::new(&order, fragments))).collect();
        let heads = RangeIndex::heads_of(&order, &chunks);
        RangeIndex { order, chunks, heads }
    }

    fn heads_of(order: &Order, chunks: &[Arc<Chunk>]) -> SortedHeads {
        SortedHeads::of(order, chunks[1..].iter().map(|chunk| chunk.fragments[0].key()))
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
            let seqnos = kept.into_iter().collect();
            if fragments.last().is_none_or(|before: &Fragment| before.seqnos != seqnos) {
                fragments.push(Fragment { start: start.map(Arc::from), seqnos });
            }
            match edges.peek() {
                Some((key, ..)) => start = *key,
                None => break,
            }
        }
        RangeIndex::of(order.clone(), fragments.chunks(CHUNK / 2).map(<[Fragment]>::to_vec))
    }

    /// Adds a range delete whose seqno is greater than those of all others. Returns the number of fragments that it
    /// holds.
    pub fn insert(&mut self, range: &RangeDelete) -> usize {
        let from = range.start.as_deref().map_or(FragmentPlace::default(), |start| self.cut_at(start));
        let to = range.end.as_deref().map_or(FragmentPlace { chunk: self.chunks.len(), at: 0 }, |end| self.cut_at(end));
        let mut touched = 0;
        for chunk in from.chunk..self.chunks.len().min(to.chunk + 1) {
            let first = if chunk == from.chunk { from.at } else { 0 };
            let last = if chunk == to.chunk { to.at } else { self.chunks[chunk].fragments.len() };
            if first < last {
                for fragment in &mut Arc::make_mut(&mut self.chunks[chunk]).fragments[first..last] {
                    fragment.seqnos.push(range.seqno);
                }
                touched += last - first;
            }
        }
        self.divide();
        touched
    }

    /// Returns true if no range delete is in the index.
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.fragments.iter().all(|fragment| fragment.seqnos.is_empty()))
    }

    /// Returns the seqno of the newest range delete that holds a key and that a reader at `seqno` sees; 0 if there is
    /// none.
    #[inline(never)]
    pub fn newest_over(&self, key: &[u8], seqno: Seqno) -> Seqno {
        let FragmentPlace { chunk, at } = self.find(key);
        self.chunks[chunk].fragments[at].seqnos.newest(seqno)
    }

    /// Returns the seqno of the oldest range delete that holds a key and is newer than `seqno`.
    pub fn oldest_above(&self, key: &[u8], seqno: Seqno) -> Option<Seqno> {
        let FragmentPlace { chunk, at } = self.find(key);
        self.chunks[chunk].fragments[at].seqnos.oldest_above(seqno)
    }

    /// Returns the fragment that holds a key, and notes its place. It looks first at the place of the previous call with
    /// the same index, and at the fragment after it; at the first call, at the default place.
    #[inline(never)]
    pub fn fragment_from(&self, place: &mut FragmentPlace, key: &[u8]) -> RangeFragment<'_> {
        let here = self.fragment_at(*place);
        if here.is_at_or_before(&self.order, key) {
            if here.ends_after(&self.order, key) {
                return here;
            }
            *place = self.after(*place);
            let next = self.fragment_at(*place);
            if next.ends_after(&self.order, key) {
                return next;
            }
        }
        *place = self.find(key);
        self.fragment_at(*place)
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
            next = match fragment.end {
                Some(end) if self.order.compare(end, largest).is_le() => Some(self.after(next?)),
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

    fn fragment_at(&self, FragmentPlace { chunk, at }: FragmentPlace) -> RangeFragment<'_> {
        let here = &self.chunks[chunk].fragments;
        let next = here.get(at + 1).or_else(|| self.chunks.get(chunk + 1)?.fragments.first());
        let end = next.and_then(|next| next.start.as_deref());
        RangeFragment { start: here[at].start.as_deref(), end, seqnos: &here[at].seqnos }
    }

    /// Returns the next place. The given one must not be the last.
    fn after(&self, FragmentPlace { chunk, at }: FragmentPlace) -> FragmentPlace {
        let is_last = at + 1 == self.chunks[chunk].fragments.len();
        if is_last { FragmentPlace { chunk: chunk + 1, at: 0 } } else { FragmentPlace { chunk, at: at + 1 } }
    }

    /// Returns the place of the last fragment that begins at or before a key.
    #[inline]
    fn find(&self, key: &[u8]) -> FragmentPlace {
        let chunk = self.heads.at_or_before(&self.order, key, |chunk| self.chunks[chunk + 1].fragments[0].key());
        let Chunk { fragments, heads } = &*self.chunks[chunk];
        FragmentPlace { chunk, at: heads.at_or_before(&self.order, key, |at| fragments[at + 1].key()) }
    }

    /// Makes a fragment begin at a key, and returns its place.
    fn cut_at(&mut self, key: &[u8]) -> FragmentPlace {
        let FragmentPlace { chunk, at } = self.find(key);
        let before = &self.chunks[chunk].fragments[at];
        if before.start.as_deref().is_some_and(|start| self.order.compare(start, key).is_eq()) {
            return FragmentPlace { chunk, at };
        }
        let after = Fragment { start: Some(key.into()), seqnos: before.seqnos.clone() };
        let mut fragments = self.chunks[chunk].fragments.clone();
        fragments.insert(at + 1, after);
        self.chunks[chunk] = Arc::new(Chunk::new(&self.order, fragments));
        FragmentPlace { chunk, at: at + 1 }
    }

    /// Divides chunks that have grown too large.
    fn divide(&mut self) {
        while let Some(at) = self.chunks.iter().position(|chunk| chunk.fragments.len() > CHUNK) {
            let (low, high) = self.chunks[at].fragments.split_at(CHUNK / 2);
            let halves = [low, high].map(|half| Arc::new(Chunk::new(&self.order, half.to_vec())));
            self.chunks.splice(at..=at, halves);
            self.heads = RangeIndex::heads_of(&self.order, &self.chunks);
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
            let mut places = [FragmentPlace::default(); 2];
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
                for (index, place) in [&grown, &built].into_iter().zip(&mut places) {
                    let fragment = index.fragment_from(place, key);
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
        assert_eq!(built.chunks.iter().map(|chunk| chunk.fragments.len()).sum::<usize>(), 2);
        assert!(
            built
                .chunks
                .iter()
                .flat_map(|chunk| chunk.fragments.iter())
                .all(|fragment| fragment.seqnos.iter().count() <= 1)
        );
        let same: Vec<RangeDelete> = (1..=199).map(|n| range(5, 9, n)).collect();
        let built = RangeIndex::build(&Order::bytewise(), same.iter(), &[]);
        assert_eq!(built.chunks.iter().map(|chunk| chunk.fragments.len()).sum::<usize>(), 3);
    }
}
