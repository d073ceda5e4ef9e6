//! The order of user keys: bytewise by default, which is fast, or a named comparator.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::record::Seqno;

/// A total order of user keys, fixed for the lifetime of a family; its name is stored and checked at open.
pub trait Comparator: Send + Sync + 'static {
    /// Returns the stored name. Opening a family with another name fails with `Invalid`.
    fn name(&self) -> &str;
    /// Compares two keys. The order must be total and never change.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Returns true (the default) if keys that compare equal have the same bytes. If not, filters are disabled.
    fn equal_means_same_bytes(&self) -> bool {
        true
    }
    /// Returns a key `s` with `a <= s < b`, as short as possible, for the index. Default: `a` itself.
    fn separator(&self, a: &[u8], _b: &[u8]) -> Vec<u8> {
        a.to_vec()
    }
    /// Returns a short key `>= a`. Default: `a` itself.
    fn successor(&self, a: &[u8]) -> Vec<u8> {
        a.to_vec()
    }
}

/// The order of one family. Clones are cheap, and bytewise order needs no dynamic call.
#[derive(Clone, Default)]
pub struct Order {
    custom: Option<Arc<dyn Comparator>>,
}

/// The stored name of bytewise order.
pub const BYTEWISE: &str = "wax.bytewise";

impl Order {
    /// Returns the order of unsigned bytes, as `memcmp`.
    pub const fn bytewise() -> Order {
        Order { custom: None }
    }

    /// Returns a comparator's order.
    pub fn custom(comparator: Arc<dyn Comparator>) -> Order {
        Order { custom: Some(comparator) }
    }

    /// Returns the stored name.
    pub fn name(&self) -> &str {
        self.custom.as_deref().map_or(BYTEWISE, Comparator::name)
    }

    /// Returns true for bytewise order, in which key heads may be compared as numbers.
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        self.custom.is_none()
    }

    /// Returns true if a hash of the bytes can represent the key (filters, hash indexes).
    pub fn is_hashable(&self) -> bool {
        self.custom.as_deref().is_none_or(Comparator::equal_means_same_bytes)
    }

    /// Compares two user keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.custom {
            None => a.cmp(b),
            Some(comparator) => comparator.compare(a, b),
        }
    }

    /// Compares two internal keys: user key ascending, then seqno descending (I02).
    #[inline]
    pub fn compare_internal(&self, a: (&[u8], Seqno), b: (&[u8], Seqno)) -> Ordering {
        self.compare(a.0, b.0).then_with(|| b.1.cmp(&a.1))
    }

    /// Sorts by keys, stably. With an inconsistent comparator the result has some order; unlike the standard library's
    /// sorts, this never panics.
    pub fn sorted<T>(&self, items: Vec<T>, compare: impl Fn(&Order, &T, &T) -> Ordering) -> Vec<T> {
        match self.custom {
            None => {
                let mut items = items;
                items.sort_by(|a, b| compare(self, a, b));
                items
            }
            Some(_) => merge_sorted(items, &|a, b| compare(self, a, b)),
        }
    }

    /// Returns a short key `s` with `a <= s < b`, where `a < b`.
    pub fn separator(&self, a: &[u8], b: &[u8]) -> Vec<u8> {
        match &self.custom {
            None => {
                let common = common_prefix(a, b);
                match (a.get(common), b.get(common)) {
                    // Increase the first byte that differs, if the result is less than b.
                    (Some(&x), Some(&y)) if x + 1 < y => [&a[..common], &[x + 1]].concat(),
                    // Cut b after the first differing byte: the result is greater than every key with a's prefix.
                    (Some(_), Some(_)) if b.len() > common + 1 => b[..common + 1].to_vec(),
                    _ => a.to_vec(),
                }
            }
            Some(comparator) => comparator.separator(a, b),
        }
    }

    /// Returns a short key `>= a`.
    pub fn successor(&self, a: &[u8]) -> Vec<u8> {
        match &self.custom {
            None => match a.iter().position(|byte| *byte != 0xff) {
                Some(at) => {
                    let mut key = a[..=at].to_vec();
                    key[at] += 1;
                    key
                }
                None => a.to_vec(),
            },
            Some(comparator) => comparator.successor(a),
        }
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({})", self.name())
    }
}

/// A stable merge sort that requires no consistency of the order.
fn merge_sorted<T>(mut items: Vec<T>, compare: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    if items.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
        return items;
    }
    let count = items.len();
    let behind = merge_sorted(items.split_off(count / 2), compare);
    let (mut left, mut right) = (merge_sorted(items, compare).into_iter(), behind.into_iter());
    let (mut a, mut b) = (left.next(), right.next());
    let mut merged = Vec::with_capacity(count);
    while let (Some(x), Some(y)) = (&a, &b) {
        match compare(x, y) {
            Ordering::Greater => merged.extend(std::mem::replace(&mut b, right.next())),
            _ => merged.extend(std::mem::replace(&mut a, left.next())),
        }
    }
    merged.extend(a.into_iter().chain(left).chain(b).chain(right));
    merged
}

/// Returns the length of the common prefix of two keys.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (most, mut at) = (a.len().min(b.len()), 0);
    while let (Some(x), Some(y)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..most].iter().zip(&b[at..most]).take_while(|(x, y)| x == y).count()
}

/// Returns eight bytes of a key after its first `skip` bytes, as a number that orders like the bytes. Short keys are
/// padded with zeros, so equal heads decide nothing. For bytewise order only; never stored on disk.
#[inline]
pub fn head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match (rest.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(bytes), _) => u64::from_le_bytes(*bytes).swap_bytes(),
        // The last eight bytes of the key, without those before the rest.
        (None, Some(_)) if rest.is_empty() => 0,
        (None, Some(bytes)) => u64::from_le_bytes(*bytes).swap_bytes() << (8 * (8 - rest.len())),
        (None, None) => {
            rest.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)) << 1 << (8 * (8 - rest.len()) - 1)
        }
    }
}

/// As `starts_with`, but without a function call for short prefixes.
#[inline]
pub fn begins_with(key: &[u8], start: &[u8]) -> bool {
    let Some(key) = key.get(..start.len()) else { return false };
    // The first and the last bytes, which may overlap, cover the whole prefix.
    if key.first_chunk::<8>().is_some() {
        let ends = key.first_chunk::<8>() == start.first_chunk() && key.last_chunk::<8>() == start.last_chunk();
        return ends && (key.len() <= 16 || key == start);
    }
    if key.first_chunk::<4>().is_some() {
        return key.first_chunk::<4>() == start.first_chunk() && key.last_chunk::<4>() == start.last_chunk();
    }
    key.iter().zip(start).all(|(a, b)| a == b)
}

/// The first sixteen bytes of a key as numbers, and its length. It decides most comparisons without access to the key's
/// bytes, and always if the keys have at most sixteen bytes. For a custom comparator it decides nothing. Never stored
/// on disk.
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    words: [u64; 2],
    len: u32,
}

impl Lead {
    const BYTES: u32 = 16;

    /// Returns the order of two keys, or `None` if their bytes must be compared.
    #[inline]
    pub fn compare(&self, other: &Lead) -> Option<Ordering> {
        match self.words.cmp(&other.words) {
            // Words are equal and one key ends within them: the shorter key is a prefix of the longer one.
            Ordering::Equal if self.is_whole() || other.is_whole() => Some(self.len.cmp(&other.len)),
            Ordering::Equal => None,
            unequal => Some(unequal),
        }
    }

    /// Returns true if the lead contains the whole key.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.len <= Lead::BYTES
    }
}

impl Order {
    /// Returns the lead of a key in this order.
    #[inline]
    pub fn lead(&self, key: &[u8]) -> Lead {
        match &self.custom {
            None => Lead { words: [head(key, 0), head(key, 8)], len: u32::try_from(key.len()).unwrap_or(u32::MAX) },
            Some(_) => Lead { words: [0; 2], len: u32::MAX },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small_keys() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(proptest::sample::select(vec![0u8, 1, 2, 0xfe, 0xff]), 0..6)
    }

    /// Keys of few byte values, mostly zeros; some are longer than a lead.
    fn padded_keys() -> impl Strategy<Value = Vec<u8>> {
        let tail = proptest::collection::vec(0u8..2, 0..4);
        (0usize..18, tail).prop_map(|(zeros, tail)| [&[0; 18][..zeros], &tail].concat())
    }

    /// Returns results from a pseudorandom sequence, whatever the keys.
    struct Contradicting(std::sync::atomic::AtomicU64);

    impl Comparator for Contradicting {
        fn name(&self) -> &str {
            "contradicting"
        }
        fn compare(&self, _: &[u8], _: &[u8]) -> Ordering {
            let turn = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, std::sync::atomic::Ordering::Relaxed);
            [Ordering::Less, Ordering::Greater, Ordering::Equal][(turn >> 32) as usize % 3]
        }
    }

    proptest! {
        #[test]
        fn a_sort_is_stable_and_endures_an_order_that_contradicts_itself(
            keys in proptest::collection::vec(small_keys(), 0..200), seed: u64
        ) {
            let numbered: Vec<_> = keys.into_iter().zip(0..).collect();
            let by_key = |order: &Order, a: &(Vec<u8>, i32), b: &(Vec<u8>, i32)| order.compare(&a.0, &b.0);
            let mut expected = numbered.clone();
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            prop_assert_eq!(&merge_sorted(numbered.clone(), &|a, b| a.0.cmp(&b.0)), &expected);
            prop_assert_eq!(&Order::bytewise().sorted(numbered.clone(), by_key), &expected);
            let order = Order::custom(Arc::new(Contradicting(seed.into())));
            let mut some = order.sorted(numbered, by_key);
            some.sort();
            prop_assert_eq!(some, expected);
        }

        #[test]
        fn a_separator_lies_between(a in small_keys(), b in small_keys()) {
            prop_assume!(a < b);
            let s = Order::bytewise().separator(&a, &b);
            prop_assert!(a <= s && s < b, "{s:?}");
        }

        #[test]
        fn a_successor_is_not_less(a in small_keys()) {
            prop_assert!(Order::bytewise().successor(&a) >= a);
        }

        #[test]
        fn a_common_prefix_is_as_long_as_it_is(start: Vec<u8>, a in small_keys(), b in small_keys()) {
            let (a, b) = ([&start[..], &a[..]].concat(), [&start[..], &b[..]].concat());
            let common = common_prefix(&a, &b);
            prop_assert_eq!(&a[..common], &b[..common]);
            prop_assert!(common == a.len() || common == b.len() || a[common] != b[common]);
        }

        #[test]
        fn leads_decide_as_the_bytes_do(a in padded_keys(), b in padded_keys()) {
            let order = Order::bytewise();
            match order.lead(&a).compare(&order.lead(&b)) {
                None => prop_assert!(a.len() > 16 && b.len() > 16 && a[..16] == b[..16]),
                Some(decided) => prop_assert_eq!(decided, a.cmp(&b)),
            }
        }

        #[test]
        fn a_head_is_the_bytes_behind_what_is_skipped(key: Vec<u8>, skip in 0usize..24) {
            let behind = key.iter().skip(skip).chain([&0; 8]).take(8);
            prop_assert_eq!(head(&key, skip), behind.fold(0, |head, byte| head << 8 | u64::from(*byte)));
        }

        #[test]
        fn begins_with_is_starts_with(key: Vec<u8>, at in 0usize..30, flip: bool) {
            let mut start = key[..at.min(key.len())].to_vec();
            if flip && !start.is_empty() {
                start[0] ^= 1;
            }
            prop_assert_eq!(begins_with(&key, &start), key.starts_with(&start));
            prop_assert!(!begins_with(&start, &[&start[..], b"x"].concat()));
        }

        #[test]
        fn heads_never_contradict_the_order(a: Vec<u8>, b: Vec<u8>, skip in 0usize..3) {
            let (a, b) = ([&[7; 3][..skip], &a[..]].concat(), [&[7; 3][..skip], &b[..]].concat());
            match head(&a, skip).cmp(&head(&b, skip)) {
                Ordering::Equal => {}
                unequal => prop_assert_eq!(unequal, a.cmp(&b)),
            }
        }
    }
}
