//! Prefix extractors: the part of a key that filters know besides the whole key, so that a scan within one prefix can
//! skip tables.
//!
//! Holds: every key of a range that `prefix_of_range` accepts has the prefix that it returns. This needs the bytewise
//!        order.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use crate::checksum::{hash, mix};
use crate::error::{Error, Result};
use crate::record::MAX_KEY_BYTES;

/// Maximum number of a delimiter's occurrences in a prefix.
const MAX_COUNT: usize = 255;

/// The rule that cuts the prefix off a key. Its text is stored: `fixed:8`, or `delimited:2f:1` for a byte in
/// hexadecimal digits and its number of occurrences.
///
/// ```
/// use waxseal_lsm::prefix_extractor::PrefixExtractor;
///
/// let parent = PrefixExtractor::Delimited { byte: b'/', count: 2 };
/// assert_eq!(parent.prefix_of(b"home/ann/notes"), Some(&b"home/ann/"[..]));
/// assert_eq!(parent.prefix_of(b"home/ann"), None);
/// assert_eq!(PrefixExtractor::Fixed(4).prefix_of(b"home/ann"), Some(&b"home"[..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixExtractor {
    /// The first bytes of a key, as many as given: 1 to 65,535. A shorter key has no prefix.
    Fixed(usize),
    /// The bytes of a key through an occurrence of a delimiter. A key with fewer occurrences has no prefix.
    Delimited {
        /// The delimiter.
        byte: u8,
        /// The number of its occurrences in the prefix, 1 to 255.
        count: usize,
    },
}

impl PrefixExtractor {
    /// Returns the prefix of a key; `None` if it has none.
    pub fn prefix_of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match *self {
            PrefixExtractor::Fixed(bytes) => key.get(..bytes),
            PrefixExtractor::Delimited { byte, count } => {
                let mut occurrences = key.iter().enumerate().filter(|(_, found)| **found == byte);
                occurrences.nth(count.checked_sub(1)?).map(|(at, _)| &key[..=at])
            }
        }
    }

    /// Returns the prefix that every key between these bounds has, in bytewise order; `None` if they may have several,
    /// or none.
    pub fn prefix_of_range<'a>(&self, (lower, upper): &'a (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Option<&'a [u8]> {
        let (Bound::Included(lower) | Bound::Excluded(lower)) = lower else { return None };
        let prefix = self.prefix_of(lower)?;
        let ends_within = match upper {
            Bound::Included(upper) => upper.starts_with(prefix),
            Bound::Excluded(upper) => upper.starts_with(prefix) || follows_all(upper, prefix),
            Bound::Unbounded => prefix.iter().all(|byte| *byte == u8::MAX),
        };
        ends_within.then_some(prefix)
    }

    /// Returns true if its numbers are within their limits.
    pub(crate) fn is_valid(&self) -> bool {
        match *self {
            PrefixExtractor::Fixed(bytes) => (1..=MAX_KEY_BYTES).contains(&bytes),
            PrefixExtractor::Delimited { count, .. } => (1..=MAX_COUNT).contains(&count),
        }
    }
}

/// Returns true if `key` is the least one above all keys with this prefix.
fn follows_all(key: &[u8], prefix: &[u8]) -> bool {
    let Some(last) = prefix.iter().rposition(|byte| *byte != u8::MAX) else { return false };
    key.split_last() == Some((&(prefix[last] + 1), &prefix[..last]))
}

impl fmt::Display for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixExtractor::Fixed(bytes) => write!(f, "fixed:{bytes}"),
            PrefixExtractor::Delimited { byte, count } => write!(f, "delimited:{byte:02x}:{count}"),
        }
    }
}

impl FromStr for PrefixExtractor {
    type Err = Error;

    /// Reads the text that `Display` writes. Errors: `Invalid`.
    fn from_str(text: &str) -> Result<PrefixExtractor> {
        let parsed = match text.split(':').collect::<Vec<_>>()[..] {
            ["fixed", bytes] => bytes.parse().ok().map(PrefixExtractor::Fixed),
            ["delimited", byte, count] if byte.len() == 2 => u8::from_str_radix(byte, 16)
                .ok()
                .zip(count.parse().ok())
                .map(|(byte, count)| PrefixExtractor::Delimited { byte, count }),
            _ => None,
        };
        parsed.filter(|extractor| extractor.is_valid() && extractor.to_string() == text).ok_or_else(|| {
            Error::invalid(format!(
                "a prefix extractor is fixed:BYTES or delimited:HEX:COUNT, as fixed:8 or delimited:2f:1, not {text:?}"
            ))
        })
    }
}

/// A prefix that a scan stays within, for the filters of tables with the same extractor.
#[derive(Clone, Debug)]
pub struct KeyPrefix {
    extractor: PrefixExtractor,
    bytes: Vec<u8>,
    hash: u64,
}

impl KeyPrefix {
    /// Returns the prefix of all keys between these bounds, if they have one.
    pub fn of_range(extractor: PrefixExtractor, bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Option<KeyPrefix> {
        let bytes = extractor.prefix_of_range(bounds)?.to_vec();
        Some(KeyPrefix { extractor, hash: prefix_hash(&bytes), bytes })
    }

    /// Returns the rule that cuts it off keys.
    pub fn extractor(&self) -> PrefixExtractor {
        self.extractor
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns its hash in filters.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns true if all keys with this prefix are above `key`.
    pub fn is_above(&self, key: &[u8]) -> bool {
        key < &self.bytes[..]
    }

    /// Returns true if all keys with this prefix are below `key`.
    pub fn is_below(&self, key: &[u8]) -> bool {
        key > &self.bytes[..] && !key.starts_with(&self.bytes)
    }
}

/// Returns the hash of a prefix in filters. A key of the same bytes has another hash.
pub fn prefix_hash(prefix: &[u8]) -> u64 {
    mix(hash(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small_key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(proptest::sample::select(vec![0u8, 1, 0xfe, 0xff]), 0..6)
    }

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            1 => Just(Bound::Unbounded),
            4 => small_key().prop_map(Bound::Included),
            4 => small_key().prop_map(Bound::Excluded),
        ]
    }

    fn extractor() -> impl Strategy<Value = PrefixExtractor> {
        prop_oneof![
            (1usize..5).prop_map(PrefixExtractor::Fixed),
            (proptest::sample::select(vec![0u8, 1, 0xff]), 1usize..4)
                .prop_map(|(byte, count)| PrefixExtractor::Delimited { byte, count }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn every_key_of_a_range_has_its_prefix(
            extractor in extractor(),
            bounds in (bound(), bound()),
            keys in proptest::collection::vec(small_key(), 20),
        ) {
            use std::ops::RangeBounds;
            if let Some(prefix) = KeyPrefix::of_range(extractor, &bounds) {
                let (lower, upper) = (bounds.0.as_ref(), bounds.1.as_ref());
                for key in keys.iter().filter(|key| (lower, upper).contains(key)) {
                    prop_assert_eq!(extractor.prefix_of(key), Some(prefix.bytes()));
                    prop_assert!(!prefix.is_above(key) && !prefix.is_below(key));
                }
                for key in &keys {
                    prop_assert_eq!(!prefix.is_above(key) && !prefix.is_below(key), key.starts_with(prefix.bytes()));
                }
            }
        }

        #[test]
        fn a_scan_of_a_prefix_has_it(extractor in extractor(), key in small_key()) {
            let Some(prefix) = extractor.prefix_of(&key) else { return Ok(()) };
            let upper = match prefix.iter().rposition(|byte| *byte != 0xff) {
                Some(last) => Bound::Excluded([&prefix[..last], &[prefix[last] + 1]].concat()),
                None => Bound::Unbounded,
            };
            let bounds = (Bound::Included(prefix.to_vec()), upper);
            prop_assert_eq!(extractor.prefix_of_range(&bounds), Some(prefix));
        }

        #[test]
        fn texts_come_back(extractor in extractor(), text: String) {
            prop_assert_eq!(extractor.to_string().parse::<PrefixExtractor>().unwrap(), extractor);
            if let Ok(parsed) = text.parse::<PrefixExtractor>() {
                prop_assert_eq!(parsed.to_string(), text);
            }
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "fixed",
            "fixed:0",
            "fixed:08",
            "fixed:+8",
            "fixed:65536",
            "delimited:2f:0",
            "delimited:2F:1",
            "delimited:2f:256",
            "delimited:2f",
            "delimited:/:1",
            "none",
        ] {
            assert!(text.parse::<PrefixExtractor>().unwrap_err().to_string().contains("fixed:BYTES"), "{text}");
        }
    }
}
