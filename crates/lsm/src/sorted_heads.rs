//! A search in ascending keys by their heads: eight bytes of each, after the prefix that all share, as numbers that lie
//! side by side. Whole keys are compared only where heads are equal. In memory only.

use crate::order::{Order, begins_with, common_prefix, head};

/// The heads of ascending keys.
#[derive(Clone, Debug)]
pub(crate) struct SortedHeads {
    prefix: Box<[u8]>,
    /// One of each key; `None` for a custom order, where heads decide nothing.
    heads: Option<Vec<u64>>,
    keys: usize,
}

impl SortedHeads {
    /// Takes the heads of keys that ascend in an order.
    pub(crate) fn of<'a>(order: &Order, keys: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> SortedHeads {
        let count = keys.len();
        if !order.is_bytewise() {
            return SortedHeads { prefix: Box::default(), heads: None, keys: count };
        }
        let first = keys.clone().next().unwrap_or_default();
        let prefix = &first[..keys.clone().last().map_or(0, |last| common_prefix(first, last))];
        let heads = keys.map(|key| head(key, prefix.len())).collect();
        SortedHeads { prefix: prefix.into(), heads: Some(heads), keys: count }
    }

    /// Returns the number of keys at or before `key`. `key_at` returns the key with an index.
    #[inline]
    pub(crate) fn at_or_before<'a>(&self, order: &Order, key: &[u8], key_at: impl Fn(usize) -> &'a [u8]) -> usize {
        let (mut low, mut high) = match &self.heads {
            None => (0, self.keys),
            Some(heads) if begins_with(key, &self.prefix) => {
                let wanted = head(key, self.prefix.len());
                let low = heads.partition_point(|head| *head < wanted);
                match heads.get(low) {
                    Some(head) if *head == wanted => (low, low + heads[low..].partition_point(|head| *head == wanted)),
                    _ => (low, low),
                }
            }
            Some(heads) if *key > *self.prefix => (heads.len(), heads.len()),
            Some(_) => (0, 0),
        };
        while low < high {
            let middle = low.midpoint(high);
            if order.compare(key_at(middle), key).is_le() { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::testing::orders;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_search_by_heads_is_a_search_by_keys(
            start in prop_oneof![Just(vec![]), Just(vec![1; 9])],
            ends in prop::collection::btree_set(prop::collection::vec(0u8..2, 0..12), 0..40),
            key in prop::collection::vec(0u8..2, 0..22),
            order in orders(),
        ) {
            let mut keys: Vec<Vec<u8>> = ends.into_iter().map(|end| [&start[..], &end].concat()).collect();
            keys.sort_by(|a, b| order.compare(a, b));
            let heads = SortedHeads::of(&order, keys.iter().map(Vec::as_slice));
            for wanted in keys.iter().chain([&key]) {
                let expected = keys.iter().filter(|other| order.compare(other, wanted).is_le()).count();
                prop_assert_eq!(heads.at_or_before(&order, wanted, |at| &keys[at]), expected);
            }
        }
    }
}
