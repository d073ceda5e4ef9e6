//! Split: where an output table ends. Pure: the key of each record that is kept, and the size of the table so far, in; whether a
//! new table begins with this record, out.
//!
//! A table ends when it is large enough, or when it overlaps so much of the level after next that its own merge would become
//! too large. It never ends between two versions of one user key (I05): one with more versions than a table holds makes it longer.

use crate::compaction::pick::GRANDPARENT_TABLES;
use crate::order::Order;

/// The state of one pass over the kept records.
pub struct Splitter {
    order: Order,
    table_bytes: u64,
    /// Largest key and size of the tables two levels below the inputs, by key.
    grandparents: Vec<(Vec<u8>, u64)>,
    /// The first grandparent that ends at or after the last key, and the bytes of those passed within this table.
    at: usize,
    overlap: u64,
    key: Vec<u8>,
    has_key: bool,
}

impl Splitter {
    /// `grandparents` are the tables of the level below the output, by key: largest key and size, as `Levels::ends` gives them.
    pub fn new(order: Order, table_bytes: u64, grandparents: Vec<(Vec<u8>, u64)>) -> Splitter {
        Splitter { order, table_bytes, grandparents, at: 0, overlap: 0, key: Vec::new(), has_key: false }
    }

    /// True if the table ends before the record with this key. `bytes` is the size of the table so far, 0 if it is empty.
    #[inline]
    pub fn ends_before(&mut self, key: &[u8], bytes: u64) -> bool {
        if self.has_key && self.order.compare(&self.key, key).is_eq() {
            return false;
        }
        while let Some((largest, size)) = self.grandparents.get(self.at) {
            if self.order.compare(largest, key).is_ge() {
                break;
            }
            // What lies before the first record of a table does not overlap it.
            if bytes > 0 {
                self.overlap = self.overlap.saturating_add(*size);
            }
            self.at += 1;
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.has_key = true;
        let limit = self.table_bytes.saturating_mul(GRANDPARENT_TABLES);
        let ends = bytes > 0 && (bytes >= self.table_bytes || self.overlap > limit);
        if ends || bytes == 0 {
            self.overlap = 0;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Feeds records of 10 bytes and returns the keys of each table.
    fn tables(splitter: &mut Splitter, keys: &[u8]) -> Vec<Vec<u8>> {
        let mut tables = vec![Vec::new()];
        for key in keys {
            let bytes = tables.last().map_or(0, |table| table.len() as u64 * 10);
            if splitter.ends_before(&[*key], bytes) {
                tables.push(Vec::new());
            }
            tables.last_mut().unwrap().push(*key);
        }
        tables
    }

    #[test]
    fn a_table_ends_when_it_is_large_enough() {
        let mut splitter = Splitter::new(Order::bytewise(), 20, vec![]);
        assert_eq!(tables(&mut splitter, b"abcde"), [b"ab".to_vec(), b"cd".to_vec(), b"e".to_vec()]);
    }

    #[test]
    fn versions_of_one_key_stay_together_however_many() {
        let mut splitter = Splitter::new(Order::bytewise(), 20, vec![]);
        assert_eq!(tables(&mut splitter, b"abbbbbc"), [b"abbbbb".to_vec(), b"c".to_vec()]);
    }

    #[test]
    fn a_table_ends_when_it_overlaps_too_much_of_the_level_after_next() {
        let grandparents = [b"b", b"d", b"f"].map(|largest| (largest.to_vec(), 150)).to_vec();
        let mut splitter = Splitter::new(Order::bytewise(), 20, grandparents.clone());
        // Below `e` lie 300 bytes, more than ten tables of 20: the second table begins there.
        assert_eq!(tables(&mut splitter, b"ae"), [b"a".to_vec(), b"e".to_vec()]);
        // What a table begins behind does not count.
        let mut splitter = Splitter::new(Order::bytewise(), 20, grandparents);
        assert_eq!(tables(&mut splitter, b"eg"), [b"eg".to_vec()]);
    }

    proptest! {
        #[test]
        fn tables_are_neither_too_long_nor_share_a_key(mut keys in vec(any::<u8>(), 1..200), target in 1u64..100) {
            keys.sort();
            let mut splitter = Splitter::new(Order::bytewise(), target, vec![]);
            let tables = tables(&mut splitter, &keys);
            for pair in tables.windows(2) {
                prop_assert!(pair[0].last() < pair[1].first());
            }
            for table in &tables {
                let without_last_key = table.iter().filter(|key| Some(*key) != table.last()).count() as u64;
                prop_assert!(without_last_key == 0 || without_last_key * 10 < target);
            }
        }
    }
}
