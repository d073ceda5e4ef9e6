//! Ranges of rows and of entries of indexes as ranges of keys.

use std::ops::Bound;

use crate::error::{Error, Result};
use crate::index::present_marker;
use crate::key::{KeyPart, SortOrder, above};
use crate::layout::{IndexLayout, Layout};
use crate::value::Value;

/// A range of the values of the next columns of a key.
pub(crate) type KeyRange = (Bound<Vec<Value>>, Bound<Vec<Value>>);

/// A bound of keys.
pub(crate) type KeyBound = Bound<Vec<u8>>;

/// The keys that a select reads.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    Rows(&'a Layout),
    Entries(&'a IndexLayout),
}

impl Keys<'_> {
    fn parts(&self) -> &[KeyPart] {
        match self {
            Keys::Rows(layout) => &layout.parts,
            Keys::Entries(index) => &index.parts,
        }
    }

    /// Returns the beginning of the keys that have these values.
    fn prefix(&self, values: &[Value]) -> Result<Vec<u8>> {
        match self {
            Keys::Rows(_) if values.is_empty() => Ok(Vec::new()),
            Keys::Rows(layout) => layout.key_prefix(values),
            Keys::Entries(index) if values.len() <= index.parts.len() => index.entry_prefix(values),
            Keys::Entries(index) => {
                let (found, most) = (values.len(), index.parts.len());
                Err(Error::invalid(format!("the index has {most} columns, and {found} values were given")))
            }
        }
    }
}

/// Returns the range of the keys that begin with `prefix` and whose next columns are in `range`. A range has no rows
/// that lack its first column.
pub(crate) fn key_bounds(keys: Keys<'_>, prefix: &[Value], range: &KeyRange) -> Result<(KeyBound, KeyBound)> {
    let compared = compared_parts(keys.parts(), prefix.len(), range)?;
    let mut below = keys.prefix(prefix)?;
    if let (Keys::Entries(_), Some(first)) = (keys, compared.first()) {
        below.push(present_marker(first.order));
    }
    let mut start = Bound::Included(below.clone());
    let mut end = above(&below).map_or(Bound::Unbounded, Bound::Excluded);
    let (first, last) = match compared.first().map(|part| part.order) {
        Some(SortOrder::Descending) => (&range.1, &range.0),
        _ => (&range.0, &range.1),
    };
    let whole = |values: &Vec<Value>| keys.prefix(&[prefix, values].concat());
    match first {
        Bound::Included(values) => start = Bound::Included(whole(values)?),
        Bound::Excluded(values) => match above(&whole(values)?) {
            Some(above) => start = Bound::Included(above),
            // Nothing is above a key of `FF` bytes alone but its own records: the range is empty.
            None => return Ok((Bound::Excluded(Vec::new()), Bound::Excluded(Vec::new()))),
        },
        Bound::Unbounded => {}
    }
    match last {
        Bound::Included(values) => end = above(&whole(values)?).map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Excluded(values) => end = Bound::Excluded(whole(values)?),
        Bound::Unbounded => {}
    }
    Ok((start, end))
}

/// Returns true if no key can be within the bounds.
pub(crate) fn is_empty(bounds: &(KeyBound, KeyBound)) -> bool {
    match bounds {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

/// Returns the parts that a range compares. Errors: `Invalid` if they have different orders, or if there are fewer
/// parts than values.
fn compared_parts<'a>(parts: &'a [KeyPart], prefix: usize, range: &KeyRange) -> Result<&'a [KeyPart]> {
    let length = |bound: &Bound<Vec<Value>>| match bound {
        Bound::Included(values) | Bound::Excluded(values) => values.len(),
        Bound::Unbounded => 0,
    };
    let most = length(&range.0).max(length(&range.1));
    let compared = match most {
        0 => &[],
        most => parts.get(prefix..prefix + most).ok_or_else(|| {
            Error::invalid(format!("the range has more values than there are columns behind the prefix of {prefix}"))
        })?,
    };
    match compared.windows(2).all(|pair| pair[0].order == pair[1].order) {
        true => Ok(compared),
        false => Err(Error::invalid("a bound of several values has ascending and descending columns")),
    }
}
