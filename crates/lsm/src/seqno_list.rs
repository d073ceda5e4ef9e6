//! A persistent list of ascending seqnos: copies share their nodes, and a search takes logarithmic time.
//!
//! In:    seqnos, each greater than the one before it.
//! Out:   for a boundary, the oldest seqno above it and the newest seqno at or below it.
//! Shape: each node has a link to the next older node, and a *jump* to one much older. The jumps follow a skew binary
//!        counter (Myers, "An applicative random-access stack", 1983): a push sets one jump in constant time, and a
//!        search takes at most about three steps for each doubling of the length. The last copy frees its nodes by
//!        nested drops of logarithmic depth: those through `next` end at the node that `jump` still holds.
//! Limit: 48 bytes a seqno on 64-bit systems; the newest is in the list itself and costs no allocation.

use std::fmt;
use std::sync::Arc;

use crate::record::Seqno;

/// Ascending seqnos, none of them 0. Clones share their nodes.
#[derive(Clone, Default)]
pub(crate) struct SeqnoList {
    /// 0: the list is empty.
    newest: Seqno,
    older: Option<Arc<OlderSeqno>>,
}

struct OlderSeqno {
    seqno: Seqno,
    /// The number of older nodes.
    depth: usize,
    next: Option<Arc<OlderSeqno>>,
    /// `next`, or a node older than it. `None` for the oldest node.
    jump: Option<Arc<OlderSeqno>>,
}

impl OlderSeqno {
    fn new(seqno: Seqno, next: Option<Arc<OlderSeqno>>) -> OlderSeqno {
        let depth = next.as_ref().map_or(0, |next| next.depth + 1);
        let jump = next.as_ref().map(|next| next.joined().unwrap_or(next).clone());
        OlderSeqno { seqno, depth, next, jump }
    }

    /// Returns the jump of the node above this one if it joins two jumps of equal length, this node's and the next one.
    fn joined(&self) -> Option<&Arc<OlderSeqno>> {
        let middle = self.jump.as_ref()?;
        let end = middle.jump.as_ref()?;
        (self.depth - middle.depth == middle.depth - end.depth).then_some(end)
    }

    /// Returns the next node of a search for `at`, which is below this node's seqno.
    fn toward(&self, at: Seqno) -> Option<&OlderSeqno> {
        self.jump.as_deref().filter(|jump| jump.seqno > at).or(self.next.as_deref())
    }
}

impl SeqnoList {
    /// Adds a seqno that is greater than all others.
    pub(crate) fn push(&mut self, seqno: Seqno) {
        debug_assert!(seqno > self.newest);
        if !self.is_empty() {
            self.older = Some(Arc::new(OlderSeqno::new(self.newest, self.older.take())));
        }
        self.newest = seqno;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest == 0
    }

    /// Returns the newest seqno at or below a boundary; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self, at: Seqno) -> Seqno {
        if self.newest <= at { self.newest } else { self.around(at).1 }
    }

    /// Returns the oldest seqno above a boundary.
    pub(crate) fn oldest_above(&self, at: Seqno) -> Option<Seqno> {
        (self.newest > at).then(|| self.around(at).0)
    }

    /// Returns the oldest seqno above a boundary, and the newest one at or below it; 0 if there is none. The newest of
    /// all is above.
    fn around(&self, at: Seqno) -> (Seqno, Seqno) {
        let (mut above, mut node) = (self.newest, self.older.as_deref());
        while let Some(here) = node.filter(|node| node.seqno > at) {
            (above, node) = (here.seqno, here.toward(at));
        }
        (above, node.map_or(0, |node| node.seqno))
    }

    /// Iterates over the seqnos, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Seqno> {
        let older = std::iter::successors(self.older.as_deref(), |node| node.next.as_deref());
        (!self.is_empty()).then_some(self.newest).into_iter().chain(older.map(|node| node.seqno))
    }
}

impl FromIterator<Seqno> for SeqnoList {
    fn from_iter<I: IntoIterator<Item = Seqno>>(ascending: I) -> SeqnoList {
        let mut list = SeqnoList::default();
        ascending.into_iter().for_each(|seqno| list.push(seqno));
        list
    }
}

impl PartialEq for SeqnoList {
    fn eq(&self, other: &SeqnoList) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for SeqnoList {}

impl fmt::Debug for SeqnoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of nodes that a search for `at` visits.
    fn steps(list: &SeqnoList, at: Seqno) -> usize {
        let visited = std::iter::successors(list.older.as_deref(), |node| node.toward(at).filter(|_| node.seqno > at));
        visited.count()
    }

    #[test]
    fn a_search_finds_the_seqnos_on_both_sides_of_every_boundary() {
        for length in 0..70 {
            let seqnos: Vec<Seqno> = (1..=length).map(|n| 3 * n).collect();
            let list: SeqnoList = seqnos.iter().copied().collect();
            assert_eq!(list.is_empty(), length == 0);
            assert!(list.iter().eq(seqnos.iter().rev().copied()));
            for at in 0..3 * length + 3 {
                let newest = seqnos.iter().copied().filter(|seqno| *seqno <= at).max();
                assert_eq!(list.newest(at), newest.unwrap_or(0), "{length} seqnos at {at}");
                let above = seqnos.iter().copied().filter(|seqno| *seqno > at).min();
                assert_eq!(list.oldest_above(at), above, "{length} seqnos at {at}");
            }
        }
    }

    #[test]
    fn a_search_takes_logarithmic_steps() {
        let list: SeqnoList = (1..=100_000).collect();
        let most = (0..=100_000).map(|at| steps(&list, at)).max();
        assert!(most <= Some(3 * 17), "{most:?} steps for 100,000 seqnos");
    }

    #[test]
    fn copies_share_their_nodes_and_a_long_list_is_freed_without_deep_recursion() {
        let short: SeqnoList = (1..=1_000).collect();
        let mut long = short.clone();
        (1_001..=300_000).for_each(|seqno| long.push(seqno));
        assert_ne!(short, long);
        drop(long);
        assert!(short.iter().eq((1..=1_000).rev()));
        assert_eq!(size_of::<OlderSeqno>() + 2 * size_of::<usize>(), 6 * size_of::<u64>());
    }
}
