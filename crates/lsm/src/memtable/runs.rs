//! A position among the nodes of a skip list: a run of neighbors, fetched by one search.
//!
//! A node cannot be kept across calls without borrowing the list, so a run of them is cloned: 4 at first, up to 64
//! while the direction stays the same, and steps move inside the run. Nodes share their bytes with the list. A step
//! inside the run may miss a record that was inserted after its neighbors were fetched; the seqno of that record is
//! above that of every existing reader. The order cannot break: a run is fetched in order, and the next one starts past
//! the end of the last.

use super::skiplist::{Node, Skiplist, Start};
use crate::record::{Record, Seqno};

const FIRST_RUN: usize = 4;
const LONGEST_RUN: usize = 64;

/// A position in a skip list, which is a parameter of every call.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// Neighbors in the list, ascending.
    run: Vec<Node>,
    /// Index into the run; past its end, the position is invalid.
    at: usize,
    /// Number of nodes to fetch next, if the direction stays the same.
    length: usize,
    forward: bool,
}

impl Runs {
    /// Creates an invalid position.
    pub(super) fn new() -> Runs {
        Runs { run: Vec::new(), at: 0, length: FIRST_RUN, forward: true }
    }

    pub(super) fn seek(&mut self, list: &Skiplist, key: &[u8], seqno: Seqno) {
        self.fetch_after(list, Start::At(key, seqno), FIRST_RUN);
    }

    pub(super) fn seek_for_prev(&mut self, list: &Skiplist, key: &[u8], seqno: Seqno) {
        self.fetch_before(list, Start::At(key, seqno), FIRST_RUN);
    }

    pub(super) fn end(&mut self, list: &Skiplist, is_last: bool) {
        match is_last {
            true => self.fetch_before(list, Start::Edge, FIRST_RUN),
            false => self.fetch_after(list, Start::Edge, FIRST_RUN),
        }
    }

    #[inline]
    pub(super) fn next(&mut self, list: &Skiplist) {
        if self.at + 1 < self.run.len() {
            self.at += 1;
        } else if let Some(edge) = self.run.last().cloned() {
            self.fetch_after(list, Start::Past(&edge), self.next_length(true));
        }
    }

    #[inline]
    pub(super) fn prev(&mut self, list: &Skiplist) {
        if self.at > 0 {
            self.at -= 1;
        } else if let Some(edge) = self.run.first().cloned() {
            self.fetch_before(list, Start::Past(&edge), self.next_length(false));
        }
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.at < self.run.len()
    }

    #[inline]
    pub(super) fn record(&self) -> Option<Record<'_>> {
        self.run.get(self.at).map(Node::record)
    }

    /// Fetches a run upwards and moves to its first node; invalid if the run is empty.
    fn fetch_after(&mut self, list: &Skiplist, start: Start<'_>, length: usize) {
        self.run.clear();
        list.run_after(start, length, &mut self.run);
        (self.at, self.forward, self.length) = (0, true, length);
    }

    /// Fetches a run downwards and moves to its last node; invalid if the run is empty.
    fn fetch_before(&mut self, list: &Skiplist, start: Start<'_>, length: usize) {
        self.run.clear();
        list.run_before(start, length, &mut self.run);
        self.run.reverse();
        (self.at, self.forward, self.length) = (self.run.len().saturating_sub(1), false, length);
    }

    /// Returns the number of nodes to fetch for a step beyond the run.
    fn next_length(&self, forward: bool) -> usize {
        if forward == self.forward { (self.length * 2).min(LONGEST_RUN) } else { FIRST_RUN }
    }
}
