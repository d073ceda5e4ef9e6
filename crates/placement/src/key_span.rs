//! Ranges of encoded keys of a table.

use std::fmt;
use std::ops::Bound;

/// A range of the [encoded keys](waxseal_table::Table::encoded_key) of a table: from `start` to before `end`. With
/// hashed partitions both are tokens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeySpan {
    /// The table, `keyspace.name`.
    pub table: String,
    /// The first key; empty for the beginning of the table.
    pub start: Vec<u8>,
    /// The key behind the last one; `None` for the end of the table.
    pub end: Option<Vec<u8>>,
}

impl KeySpan {
    /// Returns true if an encoded key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Returns true if keys that begin with `prefix` may be in the range.
    pub(crate) fn may_have_prefix(&self, prefix: &[u8]) -> bool {
        let starts_in_time = self.start.as_slice() <= prefix || self.start.starts_with(prefix);
        starts_in_time && self.end.as_deref().is_none_or(|end| prefix < end)
    }

    /// Returns the range for reads of a family.
    pub(crate) fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Included(self.start.clone()), self.end.clone().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Returns the part of a range of keys that is in this one; `None` if they do not overlap.
    pub(crate) fn clipped(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Option<KeySpan> {
        let start = start.unwrap_or_default().max(&self.start).to_vec();
        let end = end.into_iter().chain(self.end.as_deref()).min().map(<[u8]>::to_vec);
        let is_empty = end.as_ref().is_some_and(|end| *end <= start);
        (!is_empty).then(|| KeySpan { table: self.table.clone(), start, end })
    }

    /// Returns the starts of this number of ranges of equal size that cover all tokens. The first one is empty.
    pub(crate) fn token_starts(ranges: u32) -> Vec<Vec<u8>> {
        let ranges = u64::from(ranges.max(1));
        let width = (u64::MAX / ranges).wrapping_add(1);
        let start = |number: u64| (number * width).swap_bytes().to_le_bytes().to_vec();
        std::iter::once(Vec::new()).chain((1..ranges).map(start)).collect()
    }
}

impl fmt::Display for KeySpan {
    /// `library.books [4000000000000000, 8000000000000000)`: keys in hexadecimal digits; `-` is no limit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |key: &[u8]| if key.is_empty() { "-".to_owned() } else { hex(key) };
        write!(f, "{} [{}, {})", self.table, bound(&self.start), bound(self.end.as_deref().unwrap_or_default()))
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal digits; `None` for other text.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = digits.len().is_multiple_of(2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| digits.as_bytes().chunks(2).map(pair).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: &[u8], end: Option<&[u8]>) -> KeySpan {
        KeySpan { table: "t.t".to_owned(), start: start.to_vec(), end: end.map(<[u8]>::to_vec) }
    }

    #[test]
    fn tokens_are_divided_into_equal_ranges() {
        for ranges in [1, 2, 3, 7, 16, 1000] {
            let starts = KeySpan::token_starts(ranges);
            assert_eq!(starts.len(), ranges as usize);
            assert!(starts.is_sorted() && starts[0].is_empty());
            assert!(starts[1..].iter().all(|start| start.len() == 8));
        }
        assert_eq!(KeySpan::token_starts(4)[3], [0xC0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_range_may_have_the_prefixes_of_its_keys_alone() {
        let middle = span(b"b", Some(b"dd"));
        for (prefix, expected) in [("a", false), ("b", true), ("c", true), ("d", true), ("dd", false), ("e", false)] {
            assert_eq!(middle.may_have_prefix(prefix.as_bytes()), expected, "{prefix}");
        }
        assert!(span(b"ab", None).may_have_prefix(b"a")); // the start is longer than the prefix
        assert!(span(b"", None).may_have_prefix(b""));
    }

    #[test]
    fn ranges_are_clipped_to_their_common_part() {
        let middle = span(b"b", Some(b"d"));
        for (start, end, expected) in [
            (None, None, Some(span(b"b", Some(b"d")))),
            (Some("a"), Some("c"), Some(span(b"b", Some(b"c")))),
            (Some("c"), None, Some(span(b"c", Some(b"d")))),
            (Some("a"), Some("b"), None),
            (Some("d"), Some("e"), None),
        ] {
            assert_eq!(middle.clipped(start.map(str::as_bytes), end.map(str::as_bytes)), expected, "{start:?} {end:?}");
        }
        assert_eq!(span(b"b", None).clipped(Some(b"c"), None), Some(span(b"c", None)));
    }

    #[test]
    fn a_range_is_shown_with_its_limits() {
        assert_eq!(span(b"", Some(b"\x40\xFF")).to_string(), "t.t [-, 40ff)");
        assert_eq!(span(b"\x40", None).to_string(), "t.t [40, -)");
    }
}
