//! Double-ended iterators over a key range, as a transaction sees it.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::error::Result;

use super::{Shared, TransactionCursor};
use crate::inner::ColumnFamily;
use crate::range::{Bounds, End, KeyRange, Prefix, have_met};
use crate::slice::Slice;

/// An iterator over the records of a range, as a transaction sees them. It can be used from both ends. Each item is a
/// copy. An error ends the iteration.
pub struct TransactionRange {
    shared: Arc<Shared>,
    cf: ColumnFamily,
    bounds: Bounds,
    /// Keys must begin with this prefix. Set only if the key order does not keep such keys adjacent.
    prefix: Option<Vec<u8>>,
    front: Side,
    back: Side,
    has_ended: bool,
}

/// State of one end: its cursor once the end has been used, and the key that it returned last.
#[derive(Default)]
struct Side {
    cursor: Option<TransactionCursor>,
    given: Option<Vec<u8>>,
}

impl TransactionRange {
    pub(super) fn new(
        shared: &Arc<Shared>,
        cf: &ColumnFamily,
        bounds: Bounds,
        prefix: Option<Vec<u8>>,
    ) -> TransactionRange {
        let (front, back) = (Side::default(), Side::default());
        TransactionRange { shared: Arc::clone(shared), cf: cf.clone(), bounds, prefix, front, back, has_ended: false }
    }

    pub(super) fn with_prefix(shared: &Arc<Shared>, cf: &ColumnFamily, prefix: &[u8]) -> TransactionRange {
        match cf.order().is_bytewise() {
            true => TransactionRange::new(shared, cf, Prefix(prefix).into_bounds(), None),
            false => TransactionRange::new(shared, cf, (Bound::Unbounded, Bound::Unbounded), Some(prefix.to_vec())),
        }
    }

    fn take(&mut self, end: End) -> Option<Result<(Slice, Slice)>> {
        if self.has_ended {
            return None;
        }
        let row = self.step(end).transpose();
        if !matches!(row, Some(Ok(_))) {
            self.has_ended = true;
            (self.front, self.back) = (Side::default(), Side::default());
        }
        row
    }

    fn step(&mut self, end: End) -> Result<Option<(Slice, Slice)>> {
        let TransactionRange { shared, cf, bounds, prefix, front, back, .. } = self;
        let (mine, other) = if end == End::Front { (front, back) } else { (back, front) };
        let (cursor, mut is_new) = match &mut mine.cursor {
            Some(cursor) => (cursor, false),
            none => (none.insert(TransactionCursor::new(shared, cf, bounds.clone())), true),
        };
        loop {
            match (std::mem::take(&mut is_new), end) {
                (true, End::Front) => cursor.first()?,
                (true, End::Back) => cursor.last()?,
                (false, End::Front) => cursor.next()?,
                (false, End::Back) => cursor.prev()?,
            }
            let has_met = |given: &Vec<u8>| have_met(cf.order(), cursor.key(), given, end);
            if !cursor.valid() || other.given.as_ref().is_some_and(has_met) {
                return Ok(None);
            }
            if prefix.as_ref().is_none_or(|prefix| cursor.key().starts_with(prefix)) {
                cursor.key().clone_into(mine.given.get_or_insert_default());
                return Ok(Some((cursor.key().into(), Slice::copied(cursor.value())?)));
            }
        }
    }
}

impl Iterator for TransactionRange {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(End::Front)
    }
}

impl DoubleEndedIterator for TransactionRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(End::Back)
    }
}

impl FusedIterator for TransactionRange {}

impl fmt::Debug for TransactionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRange").field("cf", &self.cf.name()).field("bounds", &self.bounds).finish()
    }
}
