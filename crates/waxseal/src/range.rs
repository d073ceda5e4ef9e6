//! Iterators over a range of keys, from both ends.
//!
//! A `Range` holds a snapshot and up to two engine cursors, one for each end that was asked. The ends have met when the next
//! record of one is not before the last that the other gave. Damage is told and passed: an engine cursor that met it leads on
//! behind it. A gap that both ends meet is told by the first of them.

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

use crate::family::ColumnFamily;
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

/// The keys that begin with these bytes, as a range of keys in bytewise order. In an order of a family's own they need not stand
/// together: there [`ColumnFamily::prefix`](crate::ColumnFamily::prefix) finds them.
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

/// The records of a range, as they were when it was made; it may be taken from both ends and sent to other threads.
///
/// Each item is a copy. It keeps its view of the store until it is dropped. What is damaged is one `Corruption` that names the
/// keys concerned as far as known, and the range goes on behind it: records that are whole are all given, each gap is told once.
/// Whoever collects into a `Result` stops at the first. After an error of another kind it has ended.
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
    /// Keys must begin with this; only where the order does not put such keys together.
    prefix: Option<Vec<u8>>,
    /// The moment, why there is none, or that the range has ended.
    at: State,
    front: Side,
    back: Side,
    /// Nobody asks for values: those that stand in value files are not read.
    keys_only: bool,
}

enum State {
    Open(Snapshot),
    Failed(Error),
    Ended,
}

/// Which end of the range.
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

/// One end of the range, and what was said there.
#[derive(Default)]
struct Side {
    cursor: Option<UserCursor>,
    /// The key given last: after an error the cursor does not tell.
    given: Option<Vec<u8>>,
    /// The damage told, as far as this end has not left it behind: the other end may come to it from its side.
    told: Vec<Damage>,
}

impl Range {
    pub(crate) fn new(cf: &ColumnFamily, at: Result<Snapshot>, bounds: Bounds) -> Range {
        let at = match at {
            Ok(_) if is_inverted(cf.order(), &bounds) => State::Ended,
            Ok(snapshot) => State::Open(snapshot),
            Err(error) => State::Failed(error),
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

    /// The keys alone; values are not copied, and not read where they stand in value files.
    pub fn keys(self) -> Keys {
        Keys(Range { keys_only: true, ..self })
    }

    /// The next record at an end; with its value, or without.
    #[cfg(feature = "tokio")]
    pub(crate) fn row_at(&mut self, end: End, keys_only: bool) -> Option<Result<(Slice, Slice)>> {
        let key = |cursor: &UserCursor| (cursor.key().into(), Slice::new());
        Some(self.advance(end)?.map(if keys_only { key } else { record }))
    }

    /// Moves one end on; the cursor that now stands on its next record, damage in the place of records, or the end of all.
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
                    if let Some(at) = other.told.iter().rposition(|told| told == damage) {
                        other.told.remove(at);
                        continue;
                    }
                    mine.told.push(damage.clone());
                    return Some(Err(error));
                }
            }
        }
        let side = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        let cursor = side.cursor.as_ref()?;
        if !side.told.is_empty() {
            let order = self.cf.order();
            side.told.retain(|told| reaches_beyond(order, told, cursor.key(), end));
        }
        let given = side.given.get_or_insert_default();
        given.clear();
        given.extend_from_slice(cursor.key());
        Some(Ok(cursor))
    }

    /// The side of this end, and the other.
    fn sides(&mut self, end: End) -> (&mut Side, &mut Side) {
        match end {
            End::Front => (&mut self.front, &mut self.back),
            End::Back => (&mut self.back, &mut self.front),
        }
    }

    /// True if the end moved to a record of the range that the other end has not given.
    fn step(&mut self, end: End) -> Result<bool> {
        let snapshot = match &self.at {
            State::Ended => return Ok(false),
            State::Failed(error) => return Err(error.clone()),
            State::Open(snapshot) => snapshot,
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
                // Of those that a prefix passes over no value is read, nor missed.
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

    /// Ends the range and lets go of the store's files.
    fn finish(&mut self) {
        self.at = State::Ended;
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

/// True if an end that comes to `key` has reached what the opposite one gave.
fn have_met(order: &Order, key: &[u8], given: &[u8], end: End) -> bool {
    let ordering = order.compare(key, given);
    match end {
        End::Front => ordering.is_ge(),
        End::Back => ordering.is_le(),
    }
}

/// True if an end that has given `key` has not left all of the damage behind: newer records may stand among what was lost. Of one that names no
/// keys that is not known, and it is rather told twice than not at all.
#[cold]
fn reaches_beyond(order: &Order, damage: &Damage, key: &[u8], end: End) -> bool {
    damage.key_range.as_ref().is_some_and(|(low, high)| match end {
        End::Front => order.compare(high, key).is_ge(),
        End::Back => order.compare(low, key).is_le(),
    })
}

/// True if no key can lie between the bounds.
fn is_inverted(order: &Order, bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => order.compare(low, high).is_gt(),
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            order.compare(low, high).is_ge()
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
        f.debug_struct("Range").field("cf", &self.cf.name()).field("bounds", &self.bounds).finish_non_exhaustive()
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
