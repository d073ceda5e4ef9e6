//! The ledger of a job (I11): its input equals its output plus the dropped records, counted and summed by kind.
//!
//! Sums are over the seam's terms, modulo 2^64, so that a duplicate does not cancel a loss. On a plain node only counts
//! are compared. The balance of a job is described in `compaction::output`. Kinds other than puts and tombstones (range
//! deletes, once supported) share one entry: they are counted apart from the records that they cover, which is all that
//! a balance needs.

use crate::record::Kind;

/// Counts and sums of records by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// Values, including those in blob files: count and sum.
    pub puts: LedgerEntry,
    /// Tombstones: count and sum.
    pub deletes: LedgerEntry,
    /// All other kinds together.
    pub others: LedgerEntry,
}

/// The number of records and the sum of their terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LedgerEntry {
    /// The number of records.
    pub count: u64,
    /// Sum of their terms, modulo 2^64.
    pub sum: u64,
}

impl Ledger {
    /// Adds one record.
    #[inline]
    pub fn add(&mut self, kind: Kind, term: u64) {
        let entry = self.entry(kind);
        entry.count += 1;
        entry.sum = entry.sum.wrapping_add(term);
    }

    /// Adds to the sum of a kind without counting: the term of a counted record has changed.
    #[inline]
    pub fn adjust(&mut self, kind: Kind, by: u64) {
        let entry = self.entry(kind);
        entry.sum = entry.sum.wrapping_add(by);
    }

    /// Returns the same counts without sums.
    pub fn counts(&self) -> Ledger {
        let count = |entry: &LedgerEntry| LedgerEntry { count: entry.count, sum: 0 };
        Ledger { puts: count(&self.puts), deletes: count(&self.deletes), others: count(&self.others) }
    }

    /// Returns true if any kind has a nonzero sum.
    pub fn has_sums(&self) -> bool {
        [self.puts, self.deletes, self.others].iter().any(|entry| entry.sum != 0)
    }

    /// Adds another ledger.
    pub fn merge(&mut self, other: &Ledger) {
        for (a, b) in
            [(&mut self.puts, &other.puts), (&mut self.deletes, &other.deletes), (&mut self.others, &other.others)]
        {
            a.count += b.count;
            a.sum = a.sum.wrapping_add(b.sum);
        }
    }

    /// Returns the number of all records.
    pub fn count(&self) -> u64 {
        self.puts.count + self.deletes.count + self.others.count
    }

    fn entry(&mut self, kind: Kind) -> &mut LedgerEntry {
        match kind {
            Kind::Put | Kind::BlobPointer => &mut self.puts,
            Kind::Delete => &mut self.deletes,
            _ => &mut self.others,
        }
    }
}
