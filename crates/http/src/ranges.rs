//! The header `Range`: a part of a file.

use std::ops::Range;

/// The part of a content that a request asks for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// The whole content: there is no range, one that HTTP ignores, or several.
    Whole,
    Part(Range<u64>),
    /// A range behind the end.
    Unsatisfiable,
}

/// Returns the part of a content of `size` bytes that a header names.
pub(crate) fn asked(header: Option<&str>, size: u64) -> Asked {
    let Some((first, last)) = header.and_then(|header| header.trim().strip_prefix("bytes=")?.split_once('-')) else {
        return Asked::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Some(first), None) if last.is_empty() => first..size,
        (None, Some(length)) if first.is_empty() => size.saturating_sub(length)..size,
        _ => return Asked::Whole,
    };
    match range.is_empty() {
        true => Asked::Unsatisfiable,
        false => Asked::Part(range),
    }
}

/// Parses a number of digits alone; one that is too large counts as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        let of_ten = |header| asked(Some(header), 10);
        assert_eq!(of_ten("bytes=0-0"), Asked::Part(0..1));
        assert_eq!(of_ten("bytes=2-"), Asked::Part(2..10));
        assert_eq!(of_ten("bytes=2-99999999999999999999999"), Asked::Part(2..10));
        assert_eq!(of_ten("bytes=-3"), Asked::Part(7..10));
        assert_eq!(of_ten("bytes=-99999999999999999999999"), Asked::Part(0..10));
        for behind in ["bytes=10-", "bytes=-0", "bytes=99999999999999999999999-", "bytes=10-11"] {
            assert_eq!(of_ten(behind), Asked::Unsatisfiable, "{behind}");
        }
        for ignored in ["bytes=3-2", "bytes=-", "bytes=0-1,3-4", "lines=0-1", "bytes=+1-2", "bytes=a-b", ""] {
            assert_eq!(of_ten(ignored), Asked::Whole, "{ignored}");
        }
        assert_eq!((asked(None, 10), asked(Some("bytes=0-"), 0)), (Asked::Whole, Asked::Unsatisfiable));
    }
}
