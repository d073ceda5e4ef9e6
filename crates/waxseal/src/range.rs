//! Iterators over a range of keys, from both ends.
//!
//! A `Range` holds a snapshot and up to two engine cursors, one for each end that was asked. Each stands on the record it gave
//! last; the ends have met when the next record of one is not before the other's.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{
    Bound, Range as Between, RangeFrom as From, RangeFull as Full, RangeInclusive as Through, RangeTo as To,
    RangeToInclusive as ToThrough,
};
use std::sync::Arc;

use waxseal_lsm::db::{At, Family, Snapshot};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::read::UserCursor;

use crate::db::Inner;
use crate::slice::Slice;

/// Bounds of keys, included, excluded, or none.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of [`Bound`]s, of anything that reads as bytes.
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
    /// The lower and the upper bound.
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
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

/// The records of a range, as they were when it was made; it may be taken from both ends and sent to other threads.
///
/// Each item is a copy. It keeps its view of the store until it is dropped. After an error it has ended: what lies beyond is
/// unknown, and asking again needs a new range.
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
/// # Ok(())
/// # }
/// ```
pub struct Range {
    inner: Arc<Inner>,
    family: Family,
    bounds: Bounds,
    /// Keys must begin with this; only where the order does not put such keys together.
    prefix: Option<Vec<u8>>,
    /// The moment, why there is none, or that the range has ended.
    at: State,
    front: Option<UserCursor>,
    back: Option<UserCursor>,
}

enum State {
    Open(Snapshot),
    Failed(Error),
    Ended,
}

/// Which end of the range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Range {
    pub(crate) fn new(inner: &Arc<Inner>, family: &Family, at: Result<Snapshot>, bounds: Bounds) -> Range {
        let at = match at {
            Ok(_) if is_inverted(family, &bounds) => State::Ended,
            Ok(snapshot) => State::Open(snapshot),
            Err(error) => State::Failed(error),
        };
        let (inner, family) = (Arc::clone(inner), family.clone());
        Range { inner, family, bounds, prefix: None, at, front: None, back: None }
    }

    pub(crate) fn with_prefix(inner: &Arc<Inner>, family: &Family, at: Result<Snapshot>, prefix: &[u8]) -> Range {
        if family.options().order.is_bytewise() {
            let bounds = (Bound::Included(prefix.to_vec()), above_prefix(prefix));
            return Range::new(inner, family, at, bounds);
        }
        let range = Range::new(inner, family, at, (Bound::Unbounded, Bound::Unbounded));
        Range { prefix: Some(prefix.to_vec()), ..range }
    }

    /// The keys alone; values are not copied.
    pub fn keys(self) -> Keys {
        Keys(self)
    }

    /// Moves one end on; the cursor that now stands on its next record, or the end of all.
    fn advance(&mut self, end: End) -> Option<Result<&UserCursor>> {
        match self.step(end) {
            Ok(true) => match end {
                End::Front => self.front.as_ref().map(Ok),
                End::Back => self.back.as_ref().map(Ok),
            },
            Ok(false) => {
                self.finish();
                None
            }
            Err(error) => {
                self.finish();
                Some(Err(error))
            }
        }
    }

    /// True if the end moved to a record of the range that the other end has not given.
    fn step(&mut self, end: End) -> Result<bool> {
        let snapshot = match &self.at {
            State::Ended => return Ok(false),
            State::Failed(error) => return Err(error.clone()),
            State::Open(snapshot) => snapshot,
        };
        self.inner.check_open()?;
        let (mine, other) = match end {
            End::Front => (&mut self.front, &self.back),
            End::Back => (&mut self.back, &self.front),
        };
        let cursor = match mine {
            Some(cursor) => {
                step(cursor, end)?;
                cursor
            }
            None => {
                self.inner.check(&self.family)?;
                let cursor = self.inner.engine.cursor(&self.family, At::Snapshot(snapshot), self.bounds.clone())?;
                let cursor = mine.insert(cursor);
                match end {
                    End::Front => cursor.first()?,
                    End::Back => cursor.last()?,
                }
                cursor
            }
        };
        loop {
            if !cursor.valid() || other.as_ref().is_some_and(|other| have_met(&self.family, cursor, other, end)) {
                return Ok(false);
            }
            match &self.prefix {
                Some(prefix) if !cursor.key().starts_with(prefix) => step(cursor, end)?,
                _ => return Ok(true),
            }
        }
    }

    /// Ends the range and lets go of the store's files.
    fn finish(&mut self) {
        self.at = State::Ended;
        self.front = None;
        self.back = None;
    }
}

fn step(cursor: &mut UserCursor, end: End) -> Result<()> {
    match end {
        End::Front => cursor.next(),
        End::Back => cursor.prev(),
    }
}

/// True if `cursor`, coming from `end`, has reached what `other` gave from the opposite end.
fn have_met(family: &Family, cursor: &UserCursor, other: &UserCursor, end: End) -> bool {
    let ordering = family.options().order.compare(cursor.key(), other.key());
    match end {
        End::Front => ordering.is_ge(),
        End::Back => ordering.is_le(),
    }
}

/// True if no key can lie between the bounds.
fn is_inverted(family: &Family, bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => family.options().order.compare(low, high).is_gt(),
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            family.options().order.compare(low, high).is_ge()
        }
    }
}

/// The bound above every key that begins with `prefix`, in bytewise order.
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

fn record(cursor: &UserCursor) -> (Slice, Slice) {
    (cursor.key().into(), cursor.value().into())
}

impl Iterator for Range {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.advance(End::Front)?.map(record))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.advance(End::Back)?.map(record))
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("cf", &self.family.name()).field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// The keys of a [`Range`].
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
