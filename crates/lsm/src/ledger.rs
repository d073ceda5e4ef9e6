//! The ledger of a job (I11): what came in equals what went out plus what was dropped, counted and summed by kind.
//!
//! Sums are of the seam's terms, modulo 2^64, so that a duplicate does not cancel a loss. On a plain node only counts speak.
//! What a job balances stands at the head of `compaction::output`. Kinds other than puts and tombstones (range deletes, once there
//! are any) share one entry: they are apart from the records that they cover, which is what a balance needs.

use crate::record::Kind;

/// Counts and sums of records by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// Values, those in value files among them: count and sum.
    pub puts: Entry,
    /// Tombstones: count and sum.
    pub deletes: Entry,
    /// All other kinds together.
    pub others: Entry,
}

/// A count of records and the sum of their terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// How many.
    pub count: u64,
    /// Σ of their terms, modulo 2^64.
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

    /// Adds to the sum of a kind alone: a record that is counted already has another term now.
    #[inline]
    pub fn adjust(&mut self, kind: Kind, by: u64) {
        let entry = self.entry(kind);
        entry.sum = entry.sum.wrapping_add(by);
    }

    /// The same counts, without sums.
    pub fn counts(&self) -> Ledger {
        let count = |entry: &Entry| Entry { count: entry.count, sum: 0 };
        Ledger { puts: count(&self.puts), deletes: count(&self.deletes), others: count(&self.others) }
    }

    /// True if any kind has a sum.
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

    /// All records.
    pub fn count(&self) -> u64 {
        self.puts.count + self.deletes.count + self.others.count
    }

    fn entry(&mut self, kind: Kind) -> &mut Entry {
        match kind {
            Kind::Put | Kind::BlobPointer => &mut self.puts,
            Kind::Delete => &mut self.deletes,
            _ => &mut self.others,
        }
    }
}
