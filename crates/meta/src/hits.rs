//! Damaged seal words that checks have found. The next flush or compaction repairs them without judging every record
//! twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use waxseal_lsm::env::work::lock;

/// Maximum number of remembered words. Further ones are found again by a later check.
const MOST: usize = 4096;

/// The damaged words as they were read. An empty set costs a look-up one load.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    any: AtomicBool,
    words: Mutex<BTreeSet<u64>>,
}

impl Hits {
    /// Returns true if no damaged word is known.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    /// Returns true if this word is known to be damaged.
    #[inline]
    pub(crate) fn has(&self, word: u64) -> bool {
        !self.is_empty() && lock(&self.words).contains(&word)
    }

    /// Remembers a damaged word.
    #[cold]
    pub(crate) fn note(&self, word: u64) {
        let mut words = lock(&self.words);
        if words.len() < MOST {
            words.insert(word);
            self.any.store(true, Relaxed);
        }
    }
}
