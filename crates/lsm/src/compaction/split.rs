//! Decides where output tables end. Pure: takes the key of each kept record and the current size of the table, and
//! returns whether a new table begins with this record.
//!
//! `cut` decides where a job is divided into parallel parts.
//!
//! A table ends when it is large enough, or when it overlaps so much of the level after next that its own merge would
//! become too large. It never ends between two versions of one user key (I05): a key with more versions than fit makes
//! the table longer.

use super::plan::GRANDPARENT_TABLES;
use crate::order::Order;

/// The state of one pass over the kept records.
pub struct Splitter {
    order: Order,
    table_bytes: u64,
    /// Largest key and size of the tables two levels below the inputs, by key.
    grandparents: Vec<(Vec<u8>, u64)>,
    /// Index of the first grandparent that ends at or after the last key, and the bytes of those passed within this
    /// table.
    at: usize,
    overlap: u64,
    key: Vec<u8>,
    has_key: bool,
}

impl Splitter {
    /// Creates a splitter. `grandparents` are the tables of the level below the output, by key: largest key and size,
    /// as returned by `Levels::ends`.
    pub fn new(order: Order, table_bytes: u64, grandparents: Vec<(Vec<u8>, u64)>) -> Splitter {
        Splitter { order, table_bytes, grandparents, at: 0, overlap: 0, key: Vec::new(), has_key: false }
    }

    /// True if the table must end before the record with this key. `bytes` is the current size of the table, 0 if it is
    /// empty.
    pub fn ends_before(&mut self, key: &[u8], bytes: u64) -> bool {
        if self.has_key && self.order.compare(&self.key, key).is_eq() {
            return false;
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.has_key = true;
        self.ends_before_key(key, bytes)
    }

    /// Decides the same, for callers that know that the key differs from the previous one.
    #[inline]
    pub fn ends_before_key(&mut self, key: &[u8], bytes: u64) -> bool {
        while let Some((largest, size)) = self.grandparents.get(self.at) {
            if self.order.compare(largest, key).is_ge() {
                break;
            }
            // A grandparent before the first record of a table does not overlap the table.
            if bytes > 0 {
                self.overlap = self.overlap.saturating_add(*size);
            }
            self.at += 1;
        }
        let limit = self.table_bytes.saturating_mul(GRANDPARENT_TABLES);
        let ends = bytes > 0 && (bytes >= self.table_bytes || self.overlap > limit);
        if ends || bytes == 0 {
            self.overlap = 0;
        }
        ends
    }
}

/// Returns keys that divide a job into at most `parts` parts of similar size. `samples`: keys of the inputs in any
/// order, each with the number of bytes that begin there. The result is ascending, and every part contains samples.
pub fn cut(order: &Order, samples: Vec<(Vec<u8>, u64)>, parts: usize) -> Vec<Vec<u8>> {
    let samples = order.sorted(samples, |order, a, b| order.compare(&a.0, &b.0));
    let total = samples.iter().map(|(_, bytes)| *bytes as u128).sum::<u128>();
    let (mut cuts, mut before): (Vec<Vec<u8>>, u128) = (Vec::new(), 0);
    let Some((first, _)) = samples.first() else { return cuts };
    let first = first.clone();
    for (key, bytes) in samples {
        let behind = cuts.last().unwrap_or(&first);
        if cuts.len() + 1 < parts
            && before * parts as u128 >= total * (cuts.len() as u128 + 1)
            && order.compare(behind, &key).is_lt()
        {
            cuts.push(key);
        }
        before += bytes as u128;
    }
    cuts
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
        // 300 bytes lie below `e`, more than ten tables of 20: the second table begins there.
        assert_eq!(tables(&mut splitter, b"ae"), [b"a".to_vec(), b"e".to_vec()]);
        // Grandparents before the first key of a table do not count.
        let mut splitter = Splitter::new(Order::bytewise(), 20, grandparents);
        assert_eq!(tables(&mut splitter, b"eg"), [b"eg".to_vec()]);
    }

    #[test]
    fn a_job_is_cut_where_its_bytes_are() {
        let cuts = |sizes: &[(&str, u64)], parts| {
            let samples = sizes.iter().map(|(key, bytes)| (key.as_bytes().to_vec(), *bytes)).collect();
            let cuts = cut(&Order::bytewise(), samples, parts);
            cuts.into_iter().map(|key| String::from_utf8(key).unwrap()).collect::<Vec<_>>()
        };
        let even = [("a", 10), ("b", 10), ("c", 10), ("d", 10)];
        assert_eq!(cuts(&even, 2), ["c"]);
        assert_eq!(cuts(&even, 4), ["b", "c", "d"]);
        assert_eq!(cuts(&even, 1), [""; 0]);
        assert_eq!(cuts(&[], 4), [""; 0]);
        assert_eq!(cuts(&[("a", 90), ("b", 10), ("c", 10)], 2), ["b"]);
        assert_eq!(cuts(&[("b", 5), ("a", 5), ("b", 5)], 3), ["b"]);
    }

    proptest! {
        #[test]
        fn parts_ascend_and_none_is_much_larger_than_its_share(
            samples in vec((vec(any::<u8>(), 1..3), 1u64..50), 0..60), parts in 1usize..9
        ) {
            let cuts = cut(&Order::bytewise(), samples.clone(), parts);
            prop_assert!(cuts.len() < parts.max(1));
            let mut bounds: Vec<Option<&Vec<u8>>> = vec![None];
            bounds.extend(cuts.iter().map(Some));
            prop_assert!(bounds.is_sorted());
            let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
            for (at, from) in bounds.iter().enumerate() {
                let to = bounds.get(at + 1).copied().flatten();
                let within = |key: &Vec<u8>| from.is_none_or(|from| key >= from) && to.is_none_or(|to| key < to);
                let inside: Vec<_> = samples.iter().filter(|(key, _)| within(key)).collect();
                prop_assert!(samples.is_empty() || !inside.is_empty());
                let bytes: u64 = inside.iter().map(|(_, bytes)| bytes).sum();
                let largest = |key: &Vec<u8>| samples.iter().filter(|(other, _)| other == key).map(|(_, bytes)| bytes).sum::<u64>();
                let lump = inside.iter().map(|(key, _)| largest(key)).max().unwrap_or(0);
                prop_assert!(bytes <= total / parts as u64 + 2 * lump + 1, "{} of {}", bytes, total);
            }
        }

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
