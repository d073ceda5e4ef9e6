//! Double-ended iterators over a key range.
//!
//! A `Range` holds a snapshot and up to two engine cursors, one for each end that has been used. The ends have met when
//! the next record of one end is not before the last record returned by the other. Damage is returned as an error, and
//! the engine's cursor continues behind it. Damage that both ends reach is reported only by the first of them.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{
    Bound, Range as Between, RangeFrom as From, RangeFull as Full, RangeInclusive as Through, RangeTo as To,
    RangeToInclusive as ToThrough,
};

use waxseal_lsm::db::{At, Snapshot};
use waxseal_lsm::error::{Damage, Error, Result};
use waxseal_lsm::order::Order;
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::MAX_KEY_BYTES;

use crate::inner::ColumnFamily;
use crate::slice::Slice;

/// Key bounds: included, excluded or unbounded.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of [`Bound`]s, of any type that converts to
/// bytes.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let cf = waxseal::Db::memory()?.column_family("default")?;
/// use std::ops::Bound;
///
/// cf.range("a".."b");
/// cf.range(b"a"..=b"b");
/// cf.range(vec![0u8]..);
/// cf.range((Bound::Excluded("a"), Bound::Unbounded));
/// # Ok(())
/// # }
/// ```
pub trait KeyRange {
    /// Returns the lower and the upper bound.
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

/// The start (included) and the end (excluded) of a range; `None` for an unbounded side.
pub(crate) type HalfOpen = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Returns the half-open range with these bounds. Errors: `Invalid` for
/// a bound whose next key is needed and does not exist.
pub(crate) fn half_open(is_bytewise: bool, (start, end): Bounds) -> Result<HalfOpen> {
    let next = |mut key: Vec<u8>| match is_bytewise && key.len() < MAX_KEY_BYTES {
        true => {
            key.push(0);
            Ok(Some(key))
        }
        false => Err(Error::invalid(
            "the range needs the key after a bound, which a custom order or a key of the greatest length does not have; \
             include the start and exclude the end",
        )),
    };
    let start = match start {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => next(key)?,
    };
    let end = match end {
        Bound::Unbounded => None,
        Bound::Excluded(key) => Some(key),
        Bound::Included(key) => next(key)?,
    };
    Ok((start, end))
}

fn owned(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().to_vec()
}

impl<K: AsRef<[u8]>> KeyRange for Between<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Included(owned(self.start)), Bound::Excluded(owned(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyRange for Through<K> {
    fn into_bounds(self) -> Bounds {
        let (start, end) = self.into_inner();
        (Bound::Included(owned(start)), Bound::Included(owned(end)))
    }
}

impl<K: AsRef<[u8]>> KeyRange for From<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Included(owned(self.start)), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for To<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Excluded(owned(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyRange for ToThrough<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Included(owned(self.end)))
    }
}

impl KeyRange for Full {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> Bounds {
        (self.0.map(owned), self.1.map(owned))
    }
}

/// The range of keys that begin with these bytes, in bytewise order. In a custom key order such keys need not be
/// adjacent; use [`ColumnFamily::prefix`](crate::ColumnFamily::prefix) there.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let cf = waxseal::Db::memory()?.column_family("default")?;
/// # for key in ["a", "ab", "b"] { cf.put(key, key)?; }
/// let mut cursor = cf.cursor_in(waxseal::Prefix("a"));
/// cursor.last()?;
/// assert_eq!(cursor.key(), b"ab");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prefix<K>(
    /// The bytes.
    pub K,
);

impl<K: AsRef<[u8]>> KeyRange for Prefix<K> {
    fn into_bounds(self) -> Bounds {
        let prefix = self.0.as_ref();
        (Bound::Included(prefix.to_vec()), above_prefix(prefix))
    }
}

/// An iterator over the records of a range, as of its creation. It can be used from both ends and sent to other
/// threads.
///
/// Each item is a copy. The iterator pins its view of the store until it is dropped. Damage is one `Corruption` item
/// that names the affected keys as far as known, and the iterator continues behind it. It returns every undamaged
/// record and reports each gap once. Collecting into a `Result` stops at the first gap. After an error of another kind
/// the iterator has ended.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let cf = waxseal::Db::memory()?.column_family("default")?;
/// # for key in ["a", "b", "c", "d"] { cf.put(key, key)?; }
/// let mut range = cf.iter();
/// assert_eq!(range.next().unwrap()?.0, "a");
/// assert_eq!(range.next_back().unwrap()?.0, "d");
/// let between: Vec<_> = range.keys().collect::<waxseal::Result<_>>()?;
/// assert_eq!(between, ["b", "c"]);
///
/// let (whole, gaps): (Vec<_>, Vec<_>) = cf.iter().partition(Result::is_ok);
/// assert_eq!((whole.len(), gaps.len()), (4, 0));
/// # Ok(())
/// # }
/// ```
pub struct Range {
    cf: ColumnFamily,
    bounds: Bounds,
    /// Keys must begin with this prefix. Set only if the key order does not keep such keys adjacent.
    prefix: Option<Vec<u8>>,
    /// The snapshot, the error that prevented it, or the end of the range.
    at: RangeView,
    front: Side,
    back: Side,
    /// Only keys are requested: values in blob files are not read.
    keys_only: bool,
}

enum RangeView {
    Open(Snapshot),
    Failed(Error),
    Ended,
}

/// One end of the range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

#[cfg(feature = "tokio")]
impl End {
    pub(crate) fn other(self) -> End {
        match self {
            End::Front => End::Back,
            End::Back => End::Front,
        }
    }
}

/// State of one end of the range.
#[derive(Default)]
struct Side {
    cursor: Option<UserCursor>,
    /// The key returned last. Kept here because the cursor has no key after an error.
    given: Option<Vec<u8>>,
    /// The damage reported by this end that extends beyond its position. The other end may still reach the same damage.
    reported: Vec<Damage>,
}

impl Range {
    pub(crate) fn new(cf: &ColumnFamily, at: Result<Snapshot>, bounds: Bounds) -> Range {
        let at = match at {
            Ok(_) if is_inverted(cf.order(), &bounds) => RangeView::Ended,
            Ok(snapshot) => RangeView::Open(snapshot),
            Err(error) => RangeView::Failed(error),
        };
        Range {
            cf: cf.clone(),
            bounds,
            prefix: None,
            at,
            front: Side::default(),
            back: Side::default(),
            keys_only: false,
        }
    }

    pub(crate) fn with_prefix(cf: &ColumnFamily, at: Result<Snapshot>, prefix: &[u8]) -> Range {
        if cf.order().is_bytewise() {
            return Range::new(cf, at, Prefix(prefix).into_bounds());
        }
        let range = Range::new(cf, at, (Bound::Unbounded, Bound::Unbounded));
        Range { prefix: Some(prefix.to_vec()), ..range }
    }

    /// Iterates over the keys only. Values are not copied, and values in blob files are not read.
    pub fn keys(self) -> Keys {
        Keys(Range { keys_only: true, ..self })
    }

    /// Returns the next record at an end, with or without its value.
    #[cfg(feature = "tokio")]
    pub(crate) fn row_at(&mut self, end: End, keys_only: bool) -> Option<Result<(Slice, Slice)>> {
        let key = |cursor: &UserCursor| Ok((cursor.key().into(), Slice::new()));
        Some(self.advance(end)?.and_then(if keys_only { key } else { record }))
    }

    /// Advances one end. Returns the cursor on its next record, an error for damage, or `None` at the end of the range.
    fn advance(&mut self, end: End) -> Option<Result<&UserCursor>> {
        loop {
            match self.step(end) {
                Ok(true) => break,
                Ok(false) => {
                    self.finish();
                    return None;
                }
                Err(error) => {
                    let (mine, other) = self.sides(end);
                    let Some(damage) = error.damage().filter(|_| mine.cursor.is_some()) else {
                        self.finish();
                        return Some(Err(error));
                    };
                    if let Some(at) = other.reported.iter().rposition(|reported| reported == damage) {
                        other.reported.remove(at);
                        continue;
                    }
                    mine.reported.push(damage.clone());
                    return Some(Err(error));
                }
            }
        }
        let side = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        let cursor = side.cursor.as_ref()?;
        if !side.reported.is_empty() {
            let order = self.cf.order();
            side.reported.retain(|reported| reaches_beyond(order, reported, cursor.key(), end));
        }
        let given = side.given.get_or_insert_default();
        given.clear();
        given.extend_from_slice(cursor.key());
        Some(Ok(cursor))
    }

    /// Returns the states of this end and of the opposite end.
    fn sides(&mut self, end: End) -> (&mut Side, &mut Side) {
        match end {
            End::Front => (&mut self.front, &mut self.back),
            End::Back => (&mut self.back, &mut self.front),
        }
    }

    /// Moves one end. Returns true if it reached a record of the range that the other end has not returned.
    fn step(&mut self, end: End) -> Result<bool> {
        let snapshot = match &self.at {
            RangeView::Ended => return Ok(false),
            RangeView::Failed(error) => return Err(error.clone()),
            RangeView::Open(snapshot) => snapshot,
        };
        self.cf.inner.check_open()?;
        let (mine, other) = match end {
            End::Front => (&mut self.front, &self.back),
            End::Back => (&mut self.back, &self.front),
        };
        let cursor = match &mut mine.cursor {
            Some(cursor) => {
                step(cursor, end)?;
                cursor
            }
            none => {
                let cursor = self.cf.inner.scan(&self.cf, At::Snapshot(snapshot), self.bounds.clone())?;
                // Values of records that the prefix filter skips are not read, so a missing one is not an error.
                let is_lean = self.keys_only || self.prefix.is_some();
                let cursor = none.insert(if is_lean { cursor.without_values() } else { cursor });
                match end {
                    End::Front => cursor.first()?,
                    End::Back => cursor.last()?,
                }
                cursor
            }
        };
        loop {
            if !cursor.valid()
                || other.given.as_ref().is_some_and(|given| have_met(self.cf.order(), cursor.key(), given, end))
            {
                return Ok(false);
            }
            match &self.prefix {
                Some(prefix) if !cursor.key().starts_with(prefix) => step(cursor, end)?,
                Some(_) if !self.keys_only => return cursor.read_pointed().map(|()| true),
                _ => return Ok(true),
            }
        }
    }

    /// Ends the range and releases the store's files.
    fn finish(&mut self) {
        self.at = RangeView::Ended;
        self.front = Side::default();
        self.back = Side::default();
    }
}

fn step(cursor: &mut UserCursor, end: End) -> Result<()> {
    match end {
        End::Front => cursor.next(),
        End::Back => cursor.prev(),
    }
}

/// Returns true if an end at `key` has reached the key that the opposite end returned.
pub(crate) fn have_met(order: &Order, key: &[u8], given: &[u8], end: End) -> bool {
    let ordering = order.compare(key, given);
    match end {
        End::Front => ordering.is_ge(),
        End::Back => ordering.is_le(),
    }
}

/// Returns true if damage extends beyond `key`, the last key returned by this end: the lost records may include newer
/// versions there. Damage without a key range returns false. Such damage may be reported twice, but is never omitted.
#[cold]
fn reaches_beyond(order: &Order, damage: &Damage, key: &[u8], end: End) -> bool {
    damage.key_range.as_ref().is_some_and(|(low, high)| match end {
        End::Front => order.compare(high, key).is_ge(),
        End::Back => order.compare(low, key).is_le(),
    })
}

/// Returns true if no key can be within the bounds.
pub(crate) fn is_inverted(order: &Order, bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => order.compare(low, high).is_gt(),
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            order.compare(low, high).is_ge()
        }
    }
}

/// Returns the upper bound of all keys that begin with `prefix`, in bytewise order.
fn above_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut above = prefix[..=last].to_vec();
            above[last] += 1;
            Bound::Excluded(above)
        }
        None => Bound::Unbounded,
    }
}

fn record(cursor: &UserCursor) -> Result<(Slice, Slice)> {
    Ok((cursor.key().into(), Slice::copied(cursor.value())?))
}

impl Iterator for Range {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.advance(End::Front)?.and_then(record))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.advance(End::Back)?.and_then(record))
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("cf", &self.cf.name()).field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// An iterator over the keys of a [`Range`].
#[derive(Debug)]
pub struct Keys(Range);

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.advance(End::Front)?.map(|cursor| cursor.key().into()))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.advance(End::Back)?.map(|cursor| cursor.key().into()))
    }
}

impl FusedIterator for Keys {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_is_bounded_exactly(prefix in small_key(), key in small_key()) {
            let below = match above_prefix(&prefix) {
                Bound::Excluded(bound) => key < bound,
                _ => true,
            };
            prop_assert_eq!(key >= prefix && below, key.starts_with(&prefix));
        }
    }

    fn small_key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(proptest::sample::select(vec![0u8, 1, 0xfe, 0xff]), 0..5)
    }
}
