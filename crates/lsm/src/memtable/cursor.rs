//! A cursor over a memtable that owns what it stands on.
//!
//! A node of the list cannot be held across calls without borrowing the list, so the cursor fetches a run of nodes by one
//! search, 4 at first and up to 64 while it keeps its direction, and steps inside the run. Nodes share their bytes with
//! the list: nothing is copied, and once the run has its room nothing is allocated.
//!
//! A record inserted after its neighbours were fetched may be missed by a step inside the run. That is allowed: its seqno
//! is above that of every reader who was there before it. It must only not break the order, and it cannot: a run is fetched
//! in order, and the next one starts past the end of the last.
//!
//! A user's cursor checks the record that it stands on, as often as its policy says. One that does not match its companion is
//! shown as a fence at its own place: older versions of its key do not decide.

use std::sync::Arc;

use super::Memtable;
use super::skiplist::{Node, Start};
use crate::checksum::hash_key;
use crate::cursor::Cursor;
use crate::error::{Result, Verdict};
use crate::fence::Fence;
use crate::options::Verify;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, Protection, Source};

const FIRST_RUN: usize = 4;
const LONGEST_RUN: usize = 64;

/// A position among the records of a memtable. Its moves do not fail.
pub struct MemtableCursor {
    table: Arc<Memtable>,
    /// Neighbours in the list, ascending.
    run: Vec<Node>,
    /// The position inside the run; past its end if the cursor stands nowhere.
    at: usize,
    /// Nodes to fetch next time, if the direction stays.
    length: usize,
    forward: bool,
    judge: Option<Judge>,
    /// The fence that stands for a damaged record under the cursor; empty: the record is shown.
    fence: Vec<u8>,
}

/// Who checks, and how often.
struct Judge {
    keeper: Arc<dyn Companions>,
    protection: Protection,
    /// Records until the next one is checked.
    left: u32,
    every: u32,
}

impl MemtableCursor {
    pub(super) fn new(table: Arc<Memtable>) -> MemtableCursor {
        let (run, fence) = (Vec::new(), Vec::new());
        MemtableCursor { table, run, at: 0, length: FIRST_RUN, forward: true, judge: None, fence }
    }

    pub(super) fn checked(table: Arc<Memtable>, keeper: &Arc<dyn Companions>, verify: Verify) -> MemtableCursor {
        let protection = table.protection(keeper.protection());
        let every = match verify {
            Verify::Always => 1,
            Verify::Sampled(of) => of.max(1),
            Verify::Never | Verify::OnFill => 0,
        };
        let judge = (every > 0 && protection != Protection::None).then(|| Judge {
            keeper: keeper.clone(),
            protection,
            left: every,
            every,
        });
        MemtableCursor { judge, ..MemtableCursor::new(table) }
    }

    /// Checks the record that the cursor has come to, if it is its turn.
    #[inline]
    fn arrive(&mut self) {
        if let Some(judge) = &mut self.judge {
            self.fence.clear();
            judge.left -= 1;
            if judge.left == 0 {
                judge.left = judge.every;
                self.check();
            }
        }
    }

    fn check(&mut self) {
        let (Some(judge), Some(node)) = (&self.judge, self.run.get(self.at)) else { return };
        let record = node.record();
        // A record that came in later may be the first without a companion.
        let protection = self.table.protection(judge.protection);
        if judge.keeper.verify(&record, hash_key(record.key), protection).serves() {
            return;
        }
        let place = (record.key.to_vec(), record.seqno);
        let bound = self.table.greatest_seqno().unwrap_or(record.seqno);
        let (file, offset) = (String::new(), 0);
        Fence { from: place.clone(), to: place, bound, file, offset, verdict: Verdict::Seal }.encode(&mut self.fence);
    }

    /// Fetches a run upwards and stands on its first node, or nowhere.
    fn fetch_after(&mut self, start: Start<'_>, length: usize) {
        self.run.clear();
        self.table.list.run_after(start, length, &mut self.run);
        self.at = 0;
        self.forward = true;
        self.length = length;
        self.arrive();
    }

    /// Fetches a run downwards and stands on its last node, or nowhere.
    fn fetch_before(&mut self, start: Start<'_>, length: usize) {
        self.run.clear();
        self.table.list.run_before(start, length, &mut self.run);
        self.run.reverse();
        self.at = self.run.len().saturating_sub(1);
        self.forward = false;
        self.length = length;
        self.arrive();
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
            self.arrive();
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
            self.arrive();
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
            Some(node) if self.fence.is_empty() => node.record(),
            Some(node) => Record { kind: Kind::Fence, value: &self.fence, companion: &[], ..node.record() },
            None => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    fn source(&self) -> Source<'_> {
        // As long as every record had companions when it came in, one without has lost them.
        Source { protection: self.table.protection(Protection::Complete), ..Source::default() }
    }
}

impl std::fmt::Debug for MemtableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemtableCursor").field("at", &self.at).finish_non_exhaustive()
    }
}
