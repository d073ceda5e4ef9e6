//! A cursor over a memtable that owns what it stands on.
//!
//! A node of the list cannot be held across calls without borrowing the list, so the cursor fetches a run of nodes by one
//! search, 4 at first and up to 64 while it keeps its direction, and steps inside the run. Nodes share their bytes with
//! the list: nothing is copied, and once the run has its room nothing is allocated.
//!
//! A record inserted after its neighbours were fetched may be missed by a step inside the run. That is allowed: its seqno
//! is above that of every reader who was there before it. It must only not break the order, and it cannot: a run is fetched
//! in order, and the next one starts past the end of the last.

use std::sync::Arc;

use super::Memtable;
use super::skiplist::{Node, Start};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::record::{Kind, Record, Seqno};
use crate::seam::Source;

const FIRST_RUN: usize = 4;
const LONGEST_RUN: usize = 64;

/// A position among the records of a memtable. Its moves do not fail.
#[derive(Debug)]
pub struct MemtableCursor {
    table: Arc<Memtable>,
    /// Neighbours in the list, ascending.
    run: Vec<Node>,
    /// The position inside the run; past its end if the cursor stands nowhere.
    at: usize,
    /// Nodes to fetch next time, if the direction stays.
    length: usize,
    forward: bool,
}

impl MemtableCursor {
    pub(super) fn new(table: Arc<Memtable>) -> MemtableCursor {
        MemtableCursor { table, run: Vec::new(), at: 0, length: FIRST_RUN, forward: true }
    }

    /// Fetches a run upwards and stands on its first node, or nowhere.
    fn fetch_after(&mut self, start: Start<'_>, length: usize) {
        self.run.clear();
        self.table.list.run_after(start, length, &mut self.run);
        self.at = 0;
        self.forward = true;
        self.length = length;
    }

    /// Fetches a run downwards and stands on its last node, or nowhere.
    fn fetch_before(&mut self, start: Start<'_>, length: usize) {
        self.run.clear();
        self.table.list.run_before(start, length, &mut self.run);
        self.run.reverse();
        self.at = self.run.len().saturating_sub(1);
        self.forward = false;
        self.length = length;
    }

    /// How much to fetch on a step beyond the run.
    fn next_length(&self, forward: bool) -> usize {
        if forward == self.forward { (self.length * 2).min(LONGEST_RUN) } else { FIRST_RUN }
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.fetch_after(Start::At(key, seqno), FIRST_RUN);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.fetch_before(Start::At(key, seqno), FIRST_RUN);
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.fetch_after(Start::Edge, FIRST_RUN);
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.fetch_before(Start::Edge, FIRST_RUN);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        if self.at + 1 < self.run.len() {
            self.at += 1;
        } else if let Some(edge) = self.run.last().cloned() {
            self.fetch_after(Start::Past(&edge), self.next_length(true));
        }
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        if self.at > 0 {
            self.at -= 1;
        } else if let Some(edge) = self.run.first().cloned() {
            self.fetch_before(Start::Past(&edge), self.next_length(false));
        }
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at < self.run.len()
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        debug_assert!(self.valid());
        match self.run.get(self.at) {
            Some(node) => node.record(),
            None => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    fn source(&self) -> Source<'_> {
        Source::default()
    }
}
