//! Iteration over the entries of one metadata provider in a key range.

use std::fmt;

use waxseal_lsm::error::Result;
use waxseal_meta::reading::{AnnotationCursor as Below, Meta};

use crate::inner::ColumnFamily;

/// An iterator over keys and the entries that a provider stored with their values, created by
/// [`ColumnFamily::iter_meta`]. It sees the store as of its creation.
///
/// Damage is one error, and the iterator continues behind it. After the store was closed it returns `Closed` once and
/// ends.
pub struct MetaIter {
    cf: ColumnFamily,
    below: Option<Below>,
}

impl MetaIter {
    pub(crate) fn new(cf: &ColumnFamily, below: Below) -> MetaIter {
        MetaIter { cf: cf.clone(), below: Some(below) }
    }
}

impl Iterator for MetaIter {
    type Item = Result<(Vec<u8>, Meta)>;

    fn next(&mut self) -> Option<Self::Item> {
        let below = self.below.as_mut()?;
        if let Err(closed) = self.cf.inner.check_open() {
            self.below = None;
            return Some(Err(closed));
        }
        let next = below.next();
        if next.is_none() {
            self.below = None; // releases the store's files
        }
        next
    }
}

impl fmt::Debug for MetaIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetaIter").field("cf", &self.cf).finish_non_exhaustive()
    }
}
