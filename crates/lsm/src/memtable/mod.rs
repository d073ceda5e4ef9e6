//! Memtables: the newest records of a family, in order, in memory.
//!
//! In:     records whose frame is whole in the log, from the commit path or from recovery, by one thread at a time.
//! Out:    point reads and cursors, concurrent with the writer and without locks; finally one pass of a cursor into a
//!         table.
//! Holds:  a key (user key, seqno) is unique. Records are never replaced or removed, so a reader keeps the position it
//!         found. A record is in the list before `insert` returns, and its seqno is published after that (I01): a
//!         reader at a published seqno finds every record up to it. A frozen memtable never changes (I03) because no
//!         thread inserts into it.
//! Ledger: counts and sums of the inserted records, for the flush to balance against (I11). A record that the list
//!         failed to take still counts, so that the flush cannot hide the loss.
//! Crash:  the contents are lost, and are rebuilt from the log.
//!
//! `Memtable` is the interface. Its records are in a `tree` of leaves over an `arena`. A `filter` in front of it spares
//! reads for old data the search. Tests compare the tree with a skip list (`skiplist`).

mod arena;
mod cursor;
mod deleted;
mod filter;
mod growing;
mod node;
#[cfg(test)]
mod node_tests;
mod placed;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod skiplist;
mod sorted;
mod suspect_range;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

pub use self::cursor::MemtableCursor;
use self::filter::MemtableFilter;
use self::placed::Probe;
use self::tree::RecordTree;
use crate::checksum::hash_key;
use crate::cursor::Cursor;
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::inject::{Fate, Strike};
use crate::ledger::{Ledger, LedgerEntry};
use crate::options::{MIB, Verify};
use crate::order::Order;
use crate::planted;
use crate::range_delete::RangeDelete;
use crate::record::{Kind, OwnedRecord, Record, Seqno};
use crate::seam::{Companions, Protection};

/// The types of a tree's words, and the number of words per node. A test of their protocol substitutes others.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

    /// Number of records in a leaf.
    pub(super) const LEAF: usize = 32;
    /// Number of children of an inner node.
    pub(super) const INNER: usize = 256;

    /// Called in a retry loop, after a concurrent change.
    pub(super) fn look_again() {
        std::hint::spin_loop();
    }
}

/// Size at which a memtable is frozen, whatever its budget.
const MOST_BYTES: u64 = 8 << 30;

/// Limit on the address range of the arena's places, of 32 GiB: the remainder has room for the largest batch, of 4 GiB,
/// even if its records take four times their length.
const MOST_REACH: u64 = 12 << 30;

/// The records of one family in memory, in internal order.
#[derive(Debug)]
pub struct Memtable {
    order: Order,
    tree: RecordTree,
    /// `None` in an order in which keys with different bytes can be equal.
    filter: Option<MemtableFilter>,
    totals: Totals,
    /// In ascending order of their seqnos.
    range_deletes: Mutex<Vec<Arc<RangeDelete>>>,
}

impl Memtable {
    /// Creates an empty memtable for about 64 MiB.
    pub fn new(order: Order) -> Memtable {
        Memtable::with_budget(order, 64 * MIB)
    }

    /// Creates an empty memtable for about `budget` bytes, which it may exceed. It allocates memory in pieces of 1/64
    /// of the budget, at most 1 MiB.
    pub fn with_budget(order: Order, budget: usize) -> Memtable {
        let filter = order.is_hashable().then(|| MemtableFilter::new(budget));
        let tree = RecordTree::new(order.clone(), budget);
        Memtable { order, tree, filter, totals: Totals::default(), range_deletes: Mutex::default() }
    }

    /// Inserts a record. One thread at a time, each call after the previous one; readers run concurrently. No record
    /// with the same key and seqno may exist. `term` is the record's term in the ledger. Returns `Invalid` if a
    /// memtable that was not frozen at its limit is full.
    #[inline]
    pub fn insert(&self, record: &Record<'_>, term: u64) -> Result<()> {
        self.insert_hashed(record, term, || hash_key(record.key))
    }

    /// Inserts a record whose key hash (`checksum::hash_key`) is known.
    #[inline]
    pub fn insert_hashed(&self, record: &Record<'_>, term: u64, key_hash: impl FnOnce() -> u64) -> Result<()> {
        if record.companion.is_empty() {
            self.totals.unsealed(); // before a reader can find the record and report its companion as missing
        }
        let forgets = planted!(MemtableFilterForgetsTombstones, record.kind == Kind::Delete, false);
        let page = self.filter.as_ref().filter(|_| !forgets).map_or(0, |filter| filter.add(key_hash()));
        let mut is_taken = true;
        let bytes = self.tree.insert(record).unwrap_or_else(|| {
            is_taken = false;
            0
        });
        self.totals.add(record, term, bytes + page);
        if is_taken { Ok(()) } else { Err(Error::invalid("a memtable can hold no more records")) }
    }

    /// Adds a range delete, which takes `bytes` outside of the memtable, unless it can hold no key. One thread at a
    /// time, as for `insert`.
    pub fn add_range_delete(&self, range: RangeDelete, bytes: usize) {
        if range.is_empty(&self.order) {
            return;
        }
        if range.companion.is_empty() {
            self.totals.unsealed();
        }
        let (seqno, keys) = (range.seqno, [&range.start, &range.end]);
        let keys: usize = keys.into_iter().flatten().map(Vec::len).sum();
        let own = size_of::<RangeDelete>() + keys + range.companion.len();
        lock(&self.range_deletes).push(Arc::new(range));
        self.totals.add_range_delete(seqno, own + bytes);
    }

    /// Returns the range deletes, in ascending order of their seqnos.
    pub fn range_deletes(&self) -> Vec<Arc<RangeDelete>> {
        if self.totals.range_deletes.load(Relaxed) == 0 { Vec::new() } else { lock(&self.range_deletes).clone() }
    }

    /// Returns a memtable in the arena that claims to hold the same records, and holds what `strike` makes of them.
    #[doc(hidden)]
    pub fn struck(self: &Arc<Self>, strike: &mut dyn Strike) -> Result<Memtable> {
        let budget = self.bytes();
        let struck = Memtable::with_budget(self.order.clone(), budget);
        let mut cursor = self.cursor();
        cursor.first()?;
        while cursor.valid() {
            let record = cursor.record();
            if let Some(filter) = &struck.filter {
                filter.add(hash_key(record.key));
            }
            let mut passing = OwnedRecord::of(&record);
            if strike.insert(&mut passing) != Fate::Lost {
                struck.tree.insert_struck(&passing.borrow(), |kind, lengths| strike.header(kind, lengths));
            }
            cursor.next()?;
        }
        let range_deletes = Mutex::new(self.range_deletes());
        Ok(Memtable { totals: self.totals.clone(), range_deletes, ..struck })
    }

    /// Returns which protection the records' companions have, given that the protector guarantees `kept` for the
    /// companions it writes.
    #[inline]
    pub fn protection(&self, kept: Protection) -> Protection {
        match kept {
            Protection::Complete if !self.totals.sealed.load(Relaxed) => Protection::Partial,
            kept => kept,
        }
    }

    /// Passes the newest version of a key at or below `seqno` to `visit`, including a tombstone. Returns false if there
    /// is none.
    #[inline]
    pub fn get(&self, key: &[u8], seqno: Seqno, visit: &mut dyn FnMut(&Record<'_>)) -> bool {
        self.tree.get(&Probe { key, seqno }, visit)
    }

    /// False if the memtable certainly has no version of a key. `key_hash` is its `checksum::hash_key`. Call it only in
    /// an order in which equal keys have the same bytes.
    #[inline]
    pub fn may_hold(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(key_hash))
    }

    /// True if the memtable should be frozen: it exceeds its budget or the fixed limit.
    #[inline]
    pub fn is_full(&self, budget: usize) -> bool {
        self.bytes() as u64 > (budget as u64).min(MOST_BYTES) || self.tree.reach() > MOST_REACH
    }

    /// Returns a cursor over all records. It may or may not see records inserted after its creation: a reader holds a
    /// seqno published before, and skips them in both cases.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// Returns a cursor for a user. It checks records as `verify` requires, and shows a damaged one as a lost range at
    /// its own place.
    pub fn cursor_checked(self: &Arc<Self>, protector: &Arc<dyn Companions>, verify: Verify) -> MemtableCursor {
        MemtableCursor::checked(self.clone(), protector, verify)
    }

    /// Returns the memory in use, in bytes: records, nodes (including divided ones) and filter. The allocated memory
    /// exceeds it by at most one piece of each.
    pub fn bytes(&self) -> usize {
        self.totals.bytes.load(Relaxed)
    }

    /// Returns counts and sums of the inserted records. Exact for the writer and once frozen.
    pub fn ledger(&self) -> Ledger {
        self.totals.ledger()
    }

    /// Returns the number of inserted records, range deletes included.
    pub fn len(&self) -> usize {
        self.totals.records.load(Relaxed) + self.totals.range_deletes.load(Relaxed)
    }

    /// True before the first insert.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the lowest inserted seqno.
    pub fn least_seqno(&self) -> Option<Seqno> {
        (!self.is_empty()).then(|| self.totals.least.load(Relaxed))
    }

    /// Returns the highest inserted seqno.
    pub fn greatest_seqno(&self) -> Option<Seqno> {
        (!self.is_empty()).then(|| self.totals.greatest.load(Relaxed))
    }
}

/// Totals of the inserted records. One thread writes at a time, so a load and a store make an addition; any thread may
/// read.
#[derive(Debug)]
struct Totals {
    records: AtomicUsize,
    range_deletes: AtomicUsize,
    bytes: AtomicUsize,
    least: AtomicU64,
    greatest: AtomicU64,
    /// True while every inserted record had companions.
    sealed: AtomicBool,
    puts: Total,
    deletes: Total,
    others: Total,
}

/// A ledger entry being summed.
#[derive(Debug, Default)]
struct Total {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            records: AtomicUsize::new(0),
            range_deletes: AtomicUsize::new(0),
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

impl Clone for Totals {
    fn clone(&self) -> Totals {
        let of = |total: &Total| Total { count: total.count.load(Relaxed).into(), sum: total.sum.load(Relaxed).into() };
        Totals {
            records: self.records.load(Relaxed).into(),
            range_deletes: self.range_deletes.load(Relaxed).into(),
            bytes: self.bytes.load(Relaxed).into(),
            least: self.least.load(Relaxed).into(),
            greatest: self.greatest.load(Relaxed).into(),
            sealed: self.sealed.load(Relaxed).into(),
            puts: of(&self.puts),
            deletes: of(&self.deletes),
            others: of(&self.others),
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

    fn add_range_delete(&self, seqno: Seqno, bytes: usize) {
        self.least.store(self.least.load(Relaxed).min(seqno), Relaxed);
        self.greatest.store(self.greatest.load(Relaxed).max(seqno), Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
        self.range_deletes.store(self.range_deletes.load(Relaxed) + 1, Relaxed);
    }

    fn unsealed(&self) {
        if self.sealed.load(Relaxed) {
            self.sealed.store(false, Relaxed);
        }
    }

    fn ledger(&self) -> Ledger {
        let entry = |total: &Total| LedgerEntry { count: total.count.load(Relaxed), sum: total.sum.load(Relaxed) };
        Ledger { puts: entry(&self.puts), deletes: entry(&self.deletes), others: entry(&self.others) }
    }
}
