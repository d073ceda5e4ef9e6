//! Content ids and inode numbers: one counter, never the same number twice.
//!
//! Numbers are taken from a range that the store's counter was advanced over before. A crash loses the rest of the
//! range, never a number in use: the commit that reserved the range comes before every commit that uses one of its
//! numbers, and recovery yields a prefix of the commits.

use std::ops::Range;
use std::sync::Mutex;

use waxseal::env::lock;

use crate::entry::ROOT_INODE;
use crate::error::Result;
use crate::families::Families;
use crate::records::NEXT_ID_KEY;

/// Numbers of one reservation.
const RESERVED: u64 = 4096;

/// Assigns numbers.
pub(crate) struct Ids {
    range: Mutex<Range<u64>>,
}

impl Ids {
    pub(crate) fn new() -> Ids {
        Ids { range: Mutex::new(0..0) }
    }

    /// Returns a number that was never returned before. Costs a commit once in 4,096 calls.
    pub(crate) fn next(&self, families: &Families) -> Result<u64> {
        let mut range = lock(&self.range);
        if range.is_empty() {
            let start = families.chunks.fetch_add(NEXT_ID_KEY, RESERVED as i64)? as u64;
            // The root has its number from the beginning.
            *range = start.max(ROOT_INODE + 1)..start + RESERVED;
        }
        let number = range.start;
        range.start += 1;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use waxseal::Db;

    #[test]
    fn no_number_comes_twice_even_if_a_range_is_lost() {
        let db = Db::memory().unwrap();
        let families = Families::open(&db, "files").unwrap();
        let mut seen = HashSet::from([0, ROOT_INODE]);
        for _ in 0..3 {
            let ids = Ids::new(); // as after a crash
            for _ in 0..RESERVED + 2 {
                assert!(seen.insert(ids.next(&families).unwrap()));
            }
        }
    }
}
