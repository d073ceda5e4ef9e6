//! Key ranges in the form that callers pass.

use std::ops::Bound;

use crate::failure::{Failure, Result};
use crate::lent::{Lent, lent};

/// The range has no bound at this end. The key is ignored.
pub const WAXSEAL_UNBOUNDED: i32 = 0;
/// The range includes this key.
pub const WAXSEAL_INCLUDED: i32 = 1;
/// The range excludes this key.
pub const WAXSEAL_EXCLUDED: i32 = 2;

/// One end of a range. All zeros mean no bound.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_bound_t {
    /// One of `WAXSEAL_UNBOUNDED`, `WAXSEAL_INCLUDED`, `WAXSEAL_EXCLUDED`.
    pub kind: i32,
    /// The key; null with length 0 is the empty key.
    pub key: *const u8,
    /// Its length.
    pub key_len: usize,
}

/// A range of keys. All zeros mean all keys, and so does a null pointer to a range. A range whose end precedes its
/// start is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_range_t {
    /// The lower end.
    pub lower: waxseal_bound_t,
    /// The upper end.
    pub upper: waxseal_bound_t,
}

/// Bounds in the form of the Rust API.
pub(crate) type CallerBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Converts a caller's range.
///
/// # Safety
/// `range` is null, or readable together with its keys.
pub(crate) unsafe fn bounds(range: *const waxseal_range_t) -> Result<CallerBounds> {
    if range.is_null() {
        return Ok((Bound::Unbounded, Bound::Unbounded));
    }
    // SAFETY: not null; the rest is the caller's promise.
    unsafe {
        let waxseal_range_t { lower, upper } = *range;
        Ok((bound(lower)?, bound(upper)?))
    }
}

/// The lower and the upper bound of a range that a caller lends.
type LentBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Converts a start (included) and an end (excluded), of which null pointers are no bounds.
pub(crate) fn half_open<'a>(start: Lent<'a>, end: Lent<'a>) -> Result<LentBounds<'a>> {
    let (start, end) = (start.bound()?, end.bound()?);
    Ok((start.map_or(Bound::Unbounded, Bound::Included), end.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// # Safety
/// As for `bounds`.
unsafe fn bound(bound: waxseal_bound_t) -> Result<Bound<Vec<u8>>> {
    // SAFETY: the caller's promise. The key of an unbounded end is not read.
    let key = || unsafe { lent(bound.key, bound.key_len) }.key().map(<[u8]>::to_vec);
    match bound.kind {
        WAXSEAL_UNBOUNDED => Ok(Bound::Unbounded),
        WAXSEAL_INCLUDED => Ok(Bound::Included(key()?)),
        WAXSEAL_EXCLUDED => Ok(Bound::Excluded(key()?)),
        other => Err(Failure::invalid(format!("{other} is no kind of bound"))),
    }
}
