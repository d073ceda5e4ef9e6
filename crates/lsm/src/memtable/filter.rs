//! A filter of the keys in a memtable: a read for old data skips the search.
//!
//! Each key sets four bits in one 64-bit word, chosen by the hash that the key has anyway: a lookup that answers "no"
//! costs one cache line. Pages of words are allocated on first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of words in a page.
const PAGE_WORDS: usize = 512;
/// Minimum number of words in a filter.
const LEAST_WORDS: usize = 8;
/// Bytes of a memtable per byte of its filter: 16 bits per record of 128 bytes.
const BUDGET_SHARE: usize = 64;

type FilterPage = Box<[AtomicU64]>;

/// The bits of the inserted keys.
#[derive(Debug)]
pub(super) struct MemtableFilter {
    pages: Box<[OnceLock<FilterPage>]>,
    /// Binary logarithm of the number of words in a page.
    log2: u32,
}

impl MemtableFilter {
    /// Creates an empty filter for a memtable of about `budget` bytes.
    pub(super) fn new(budget: usize) -> MemtableFilter {
        let words = (budget / BUDGET_SHARE / 8).clamp(LEAST_WORDS, 1 << 24);
        let log2 = words.min(PAGE_WORDS).ilog2();
        MemtableFilter { pages: (0..words >> log2).map(|_| OnceLock::new()).collect(), log2 }
    }

    /// Adds a key by its hash and returns the number of bytes allocated for it. One thread at a time.
    #[inline]
    pub(super) fn add(&self, hash: u64) -> usize {
        let (page, word) = self.place(hash);
        let slot = &self.pages[page];
        let (page, bytes) = match slot.get() {
            Some(page) => (page, 0),
            None => (self.make(slot), 8 << self.log2),
        };
        let word = &page[word];
        word.store(word.load(Relaxed) | bits(hash), Relaxed);
        bytes
    }

    #[cold]
    fn make<'a>(&self, slot: &'a OnceLock<FilterPage>) -> &'a FilterPage {
        slot.get_or_init(|| (0..1 << self.log2).map(|_| AtomicU64::new(0)).collect())
    }

    /// False if no key with this hash was added.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let (page, word) = self.place(hash);
        let bits = bits(hash);
        self.pages[page].get().is_some_and(|page| page[word].load(Relaxed) & bits == bits)
    }

    /// Returns page and word of a key, from the upper half of its hash.
    #[inline]
    fn place(&self, hash: u64) -> (usize, usize) {
        let words = (self.pages.len() << self.log2) as u64;
        let word = (((hash >> 32) * words) >> 32) as usize;
        (word >> self.log2, word & ((1 << self.log2) - 1))
    }
}

/// Returns the four bits in a word, from the lower half of the hash.
#[inline]
fn bits(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::mix;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let filter = MemtableFilter::new(4 << 20);
        let count = if cfg!(miri) { 300 } else { 32_768 }; // 128 bytes of memtable each
        assert!((0..count).all(|n| !filter.may_hold(mix(n))));
        let bytes: usize = (0..count).map(|n| filter.add(mix(n))).sum();
        assert!((0..count).all(|n| filter.may_hold(mix(n))));
        assert!(bytes <= (4 << 20) / BUDGET_SHARE);
        let wrong = (count..2 * count).filter(|n| filter.may_hold(mix(*n))).count() as u64;
        assert!(wrong < count / 40, "{wrong} of {count}");
    }
}
