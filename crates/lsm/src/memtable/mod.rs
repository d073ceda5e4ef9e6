//! Memtables: the newest records of a family, in order, in memory.
//!
//! In:     records whose frame is whole in the log, from the commit path or from recovery, by one thread at a time.
//! Out:    point reads and cursors, beside the writer and without locks; at the end one pass of a cursor into a table.
//! Holds:  a key (user key, seqno) is unique; nothing is ever replaced or removed, so a reader that found a place keeps it.
//!         A record is in the list before `insert` returns, and a seqno is published after that (I01): a reader at a
//!         published seqno finds every record up to it. A frozen memtable never changes (I03) because nobody inserts.
//! Ledger: counts and sums of what came in, for the flush to balance against (I11). A record that the list did not take still
//!         counts, so that the flush cannot hide it.
//! Crash:  all of it is gone, and comes back from the log.
//!
//! `Memtable` is the front. Its records stand in one of two lists: `tree`, leaves in an `arena`, or `skiplist`, a node a record, which is slower, has
//! no unsafe code of ours, and is what the other is held against. In front of either stands a `filter`, so that a read for old data does not search it.

mod arena;
mod cursor;
mod deleted;
mod doubt;
mod filter;
mod growing;
mod node;
#[cfg(test)]
mod node_tests;
mod runs;
#[cfg(test)]
mod scripts;
mod skiplist;
mod sorted;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

pub use self::cursor::MemtableCursor;
use self::filter::Filter;
use self::skiplist::Skiplist;
use self::tree::{Probe, Tree};
use crate::checksum::hash_key;
use crate::error::{Error, Result};
use crate::ledger::{Entry, Ledger};
use crate::options::{MIB, MemtableKind, Verify};
use crate::order::Order;
use crate::planted::{self, Bug};
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, Protection};

/// What the words of a tree are made of, and how many of them a node has. A test of their protocol has others in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

    /// Records of a leaf.
    pub(super) const LEAF: usize = 32;
    /// Children of an inner node.
    pub(super) const INNER: usize = 256;

    /// Somebody else changed what is to be looked at once more.
    pub(super) fn look_again() {
        std::hint::spin_loop();
    }
}

/// The most that a memtable may hold before it is frozen, whatever its budget.
const MOST_BYTES: u64 = 8 << 30;

/// And over how much the places of its arena may reach, of 32 GiB: behind it there is room for the largest batch, of 4 GiB, though its records
/// take four times as much.
const MOST_REACH: u64 = 12 << 30;

/// Records of one family in internal order, in memory.
#[derive(Debug)]
pub struct Memtable {
    order: Order,
    list: List,
    /// None in an order in which keys of other bytes are equal.
    filter: Option<Filter>,
    totals: Totals,
}

/// Where the records stand.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, behind a reference")]
enum List {
    Arena(Tree),
    Skiplist(Skiplist),
}

impl Memtable {
    /// An empty memtable of the usual kind, for about 64 MiB.
    pub fn new(order: Order) -> Memtable {
        Memtable::of_kind(MemtableKind::default(), order, 64 * MIB)
    }

    /// An empty memtable for about so many bytes: what it takes from the allocator comes in pieces of a sixty-fourth of them, at most 1 MiB. It
    /// may grow beyond.
    pub fn of_kind(kind: MemtableKind, order: Order, budget: usize) -> Memtable {
        let filter = order.is_hashable().then(|| Filter::new(budget));
        let list = match kind {
            MemtableKind::Arena => List::Arena(Tree::new(order.clone(), budget)),
            MemtableKind::Skiplist => List::Skiplist(Skiplist::new(order.clone())),
        };
        Memtable { order, list, filter, totals: Totals::default() }
    }

    /// Puts a record in its place. One thread at a time, each after the one before it; readers run beside it.
    /// No record with the same key and seqno may be there. `term` is the record's term in the ledger. Errors: `Invalid` if a memtable that
    /// was not frozen at its limit can hold no more.
    #[inline]
    pub fn insert(&self, record: &Record<'_>, term: u64) -> Result<()> {
        self.insert_hashed(record, term, || hash_key(record.key))
    }

    /// The same, where the hash of the key (`checksum::hash_key`) is at hand.
    #[inline]
    pub fn insert_hashed(&self, record: &Record<'_>, term: u64, key_hash: impl FnOnce() -> u64) -> Result<()> {
        if record.companion.is_empty() {
            self.totals.unsealed(); // before a reader can meet it and miss its companion
        }
        let forgets = planted::active(Bug::MemtableFilterForgetsTombstones) && record.kind == Kind::Delete;
        let page = self.filter.as_ref().filter(|_| !forgets).map_or(0, |filter| filter.add(key_hash()));
        let mut is_taken = true;
        let bytes = crate::inject::inserted(record, |record| match &self.list {
            List::Arena(tree) => tree.insert(record).unwrap_or_else(|| {
                is_taken = false;
                0
            }),
            List::Skiplist(list) => list.insert(record),
        });
        self.totals.add(record, term, bytes + page);
        if is_taken { Ok(()) } else { Err(Error::invalid("a memtable can hold no more records")) }
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
    #[inline]
    pub fn get(&self, key: &[u8], seqno: Seqno, visit: &mut dyn FnMut(&Record<'_>)) -> bool {
        match &self.list {
            List::Arena(tree) => tree.get(&Probe { key, seqno }, visit),
            List::Skiplist(list) => list.get(key, seqno, visit),
        }
    }

    /// False if certainly no version of a key is here. `key_hash` is `checksum::hash_key` of it; asked only in an order in which equal keys have
    /// the same bytes.
    #[inline]
    pub fn may_hold(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(key_hash))
    }

    /// True if it is to be frozen: it takes more than its budget, or as much as one may.
    #[inline]
    pub fn is_full(&self, budget: usize) -> bool {
        let reach = match &self.list {
            List::Arena(tree) => tree.reach(),
            List::Skiplist(_) => 0,
        };
        self.bytes() as u64 > (budget as u64).min(MOST_BYTES) || reach > MOST_REACH
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

    /// Memory in use, in bytes: records, nodes (those that were divided too), filter. What the allocator was asked for beyond that is one piece of
    /// each at most. For a skip list: with the cost of allocations as far as it can be known.
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
            Kind::Put | Kind::BlobPointer => &self.puts,
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
