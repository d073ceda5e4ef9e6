//! What stands beside the values of a range: keys with the entries of one provider.

use std::fmt;

use waxseal_lsm::error::Result;
use waxseal_meta::reading::{Meta, MetaIter as Below};

use crate::family::ColumnFamily;

/// Keys with what a provider keeps beside their values: made by [`ColumnFamily::iter_meta`]. It sees the store as it was then.
///
/// Damage is one error, and the iterator goes on behind it. Once the store is closed it gives `Closed`, once, and ends.
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
            self.below = None; // lets go of the store's files
        }
        next
    }
}

impl fmt::Debug for MetaIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetaIter").field("cf", &self.cf).finish_non_exhaustive()
    }
}
