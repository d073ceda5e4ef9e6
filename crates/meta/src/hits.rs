//! Words that were found to have been hit, so that the next pass over their records mends them without judging every record twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use waxseal_lsm::env::work::lock;

/// So many are remembered; what is met beyond is met again.
const MOST: usize = 4096;

/// Words as they were found, damaged. Asking costs one load while there are none.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    any: AtomicBool,
    words: Mutex<BTreeSet<u64>>,
}

impl Hits {
    /// True if none was found.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    /// True if this word was found.
    #[inline]
    pub(crate) fn has(&self, word: u64) -> bool {
        !self.is_empty() && lock(&self.words).contains(&word)
    }

    /// A word was found.
    #[cold]
    pub(crate) fn note(&self, word: u64) {
        let mut words = lock(&self.words);
        if words.len() < MOST {
            words.insert(word);
            self.any.store(true, Relaxed);
        }
    }
}
