//! Memtables: the newest records of a family, in order, in memory.
//!
//! In:     records whose frame is whole in the log, from the commit path or from recovery, by one thread at a time.
//! Out:    point reads and cursors, beside the writer and without locks; at the end one pass of a cursor into a table.
//! Holds:  a key (user key, seqno) is unique; nothing is ever replaced or removed, so a reader that found a place keeps it.
//!         A record is in the list before `insert` returns, and a seqno is published after that (I01): a reader at a
//!         published seqno finds every record up to it. A frozen memtable never changes (I03) because nobody inserts.
//! Ledger: counts and sums of what came in, for the flush to balance against (I11). A record that the list refused (its
//!         key was there already, which the order of commits excludes) still counts, so that the flush cannot hide it.
//! Crash:  all of it is gone, and comes back from the log.
//!
//! `Memtable` is the front; `skiplist` is where the records stand. A second list may stand beside it behind the same front.

mod cursor;
#[cfg(test)]
mod scripts;
mod skiplist;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

pub use self::cursor::MemtableCursor;
use self::skiplist::Skiplist;
use crate::ledger::{Entry, Ledger};
use crate::options::Verify;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, Protection};

/// Records of one family in internal order, in memory.
#[derive(Debug)]
pub struct Memtable {
    list: Skiplist,
    totals: Totals,
}

impl Memtable {
    /// An empty memtable.
    pub fn new(order: Order) -> Memtable {
        Memtable { list: Skiplist::new(order), totals: Totals::default() }
    }

    /// Puts a record in its place. One thread at a time, each after the one before it; readers run beside it.
    /// No record with the same key and seqno may be there. `term` is the record's term in the ledger.
    pub fn insert(&self, record: &Record<'_>, term: u64) {
        if record.companion.is_empty() {
            self.totals.unsealed(); // before a reader can meet it and miss its companion
        }
        let bytes = crate::inject::inserted(record, |record| self.list.insert(record));
        self.totals.add(record, term, bytes);
    }

    /// What is promised of the records' companions, where a keeper promises `kept` of those that it writes.
    #[inline]
    pub fn protection(&self, kept: Protection) -> Protection {
        match kept {
            Protection::Complete if !self.totals.sealed.load(Relaxed) => Protection::Partial,
            kept => kept,
        }
    }

    /// Shows the newest version of a key that is not above `seqno`, be it a tombstone; false if there is none.
    pub fn get(&self, key: &[u8], seqno: Seqno, visit: &mut dyn FnMut(&Record<'_>)) -> bool {
        self.list.get(key, seqno, visit)
    }

    /// A cursor over all records. Records inserted after it was made may be met or missed: a reader holds a seqno that was
    /// published before, and skips them either way.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// The same for a user: it checks records as `verify` says and shows one that is damaged as a fence at its own place.
    pub fn cursor_checked(self: &Arc<Self>, keeper: &Arc<dyn Companions>, verify: Verify) -> MemtableCursor {
        MemtableCursor::checked(self.clone(), keeper, verify)
    }

    /// Memory in use, in bytes, with the cost of nodes and allocations as far as they can be known.
    pub fn bytes(&self) -> usize {
        self.totals.bytes.load(Relaxed)
    }

    /// Counts and sums of what came in. Exact for the writer and once frozen.
    pub fn ledger(&self) -> Ledger {
        self.totals.ledger()
    }

    /// How many records came in.
    pub fn len(&self) -> usize {
        self.totals.records.load(Relaxed)
    }

    /// True before the first insert.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The least seqno that came in.
    pub fn least_seqno(&self) -> Option<Seqno> {
        (!self.is_empty()).then(|| self.totals.least.load(Relaxed))
    }

    /// The greatest seqno that came in.
    pub fn greatest_seqno(&self) -> Option<Seqno> {
        (!self.is_empty()).then(|| self.totals.greatest.load(Relaxed))
    }
}

/// What came in. Written by one thread at a time, so a load and a store make an addition; read by anyone.
#[derive(Debug)]
struct Totals {
    records: AtomicUsize,
    bytes: AtomicUsize,
    least: AtomicU64,
    greatest: AtomicU64,
    /// True while every record that came in had companions.
    sealed: AtomicBool,
    puts: Total,
    deletes: Total,
    others: Total,
}

/// A ledger entry in the making.
#[derive(Debug, Default)]
struct Total {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            records: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            least: AtomicU64::new(Seqno::MAX),
            greatest: AtomicU64::new(0),
            sealed: AtomicBool::new(true),
            puts: Total::default(),
            deletes: Total::default(),
            others: Total::default(),
        }
    }
}

impl Totals {
    fn add(&self, record: &Record<'_>, term: u64, bytes: usize) {
        let total = match record.kind {
            Kind::Put => &self.puts,
            Kind::Delete => &self.deletes,
            _ => &self.others,
        };
        total.count.store(total.count.load(Relaxed) + 1, Relaxed);
        total.sum.store(total.sum.load(Relaxed).wrapping_add(term), Relaxed);
        self.least.store(self.least.load(Relaxed).min(record.seqno), Relaxed);
        self.greatest.store(self.greatest.load(Relaxed).max(record.seqno), Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
        self.records.store(self.records.load(Relaxed) + 1, Relaxed);
    }

    fn unsealed(&self) {
        if self.sealed.load(Relaxed) {
            self.sealed.store(false, Relaxed);
        }
    }

    fn ledger(&self) -> Ledger {
        let entry = |total: &Total| Entry { count: total.count.load(Relaxed), sum: total.sum.load(Relaxed) };
        Ledger { puts: entry(&self.puts), deletes: entry(&self.deletes), others: entry(&self.others) }
    }
}
