//! Verification of point reads: of the returned record, and of the absence of a record.
//!
//! In:    a block in memory and the position of a search in it.
//! Out:   whether the record there may be returned; or whether its neighbors bracket the key with nothing between them.
//! Holds: every conclusion is based on bytes in memory that were checked during this read. A verified read accesses the
//!        same blocks as an unverified one.
//! Costs: for a hit, one check of the record. Neighbors are checked if the filter answers "maybe" but the key is not
//!        found, or if the block holds several versions of a key, so that a newer one may have been damaged.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::checksum::hash_key;
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Companions, Protection};
use crate::sst::block::block::Block;
use crate::sst::index::index::Index;

/// The checks of one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// Check every returned record, and verify the absence of a record if none is found.
    pub each: bool,
    /// Check all records of a block when it is loaded from its file.
    pub loaded: bool,
    /// Loaded blocks are used once and not cached.
    pub passing: bool,
    /// The same request asks for the block again: it is cached if possible, whenever it was requested before.
    pub again: bool,
}

impl Checks {
    /// No checks.
    pub const NONE: Checks = Checks { each: false, loaded: false, passing: false, again: false };
    /// Check returned records in memory.
    pub const EACH: Checks = Checks { each: true, ..Checks::NONE };
    /// Check blocks when they are loaded.
    pub const LOADED: Checks = Checks { loaded: true, ..Checks::NONE };

    /// Returns true if a value read from its blob file is checked against the hash of the original value, not only
    /// against its stored bytes.
    pub fn asks_values(&self) -> bool {
        self.each || self.loaded
    }
}

/// The target of a point read in a block.
#[derive(Clone, Copy)]
pub(in crate::sst) struct PointRead<'a> {
    pub(in crate::sst) key: &'a [u8],
    pub(in crate::sst) key_hash: u64,
    pub(in crate::sst) seqno: Seqno,
    /// The result must be checked.
    pub(in crate::sst) each: bool,
    /// The index that returned the block.
    pub(in crate::sst) index: &'a Index,
    /// The previous block was searched; it ends with newer versions of the key.
    pub(in crate::sst) follows: bool,
}

impl PointRead<'_> {
    #[inline]
    fn place(&self) -> (&[u8], Seqno) {
        (self.key, self.seqno)
    }
}

/// The neighbors of a search position that are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::sst) enum NeighborCheck {
    /// Check the record before the position, and the order of the record at the position. The caller checks the latter
    /// when it moves there.
    Before,
    /// Both; true if the search found a version of its key.
    Both(bool),
}

/// The order of a table's records, and their checks against their companions.
pub(in crate::sst) struct RecordChecker {
    pub(in crate::sst) order: Order,
    pub(in crate::sst) protector: Arc<dyn Companions>,
    /// The promised protection, as far as the protector can check it.
    pub(in crate::sst) protection: Protection,
}

impl RecordChecker {
    #[inline]
    pub(in crate::sst) fn serves(&self, record: &Record<'_>, key_hash: u64) -> bool {
        self.protector.verify(record, key_hash, self.protection).serves()
    }

    /// As `serves`, for a cursor, which has no hash of the key.
    #[inline]
    pub(in crate::sst) fn passes(&self, record: &Record<'_>) -> bool {
        self.protector.serves(record, self.protection)
    }

    /// Returns true if a found record may be returned: it passes its check, and no newer version of its key was
    /// skipped.
    #[inline]
    pub(in crate::sst) fn verify_hit(
        &self,
        block: &Block,
        (number, at): (usize, usize),
        (record, key_hash): (&Record<'_>, u64),
        wanted: &PointRead<'_>,
    ) -> bool {
        self.serves(record, key_hash)
            && block.ends_beside(at)
            && ((at > 0 && !block.has_versions) || self.is_newest(block, (number, at), wanted))
    }

    /// Returns true if no version newer than the one found at this position was skipped.
    #[inline(never)]
    fn is_newest(&self, block: &Block, (number, at): (usize, usize), wanted: &PointRead<'_>) -> bool {
        let left = match at.checked_sub(1) {
            Some(left) => self.is_before(block, left, wanted.place()) && block.meet(left),
            None => wanted.follows || wanted.index.begins_at(number, wanted.key, &self.order),
        };
        // All versions of a key have the same head: another version in the newest one's position would go unnoticed.
        left && (!block.has_versions || self.stands(block, at))
    }

    /// Returns true if a block ends with a version of the key that is newer than the one sought.
    pub(in crate::sst) fn verify_continuation(&self, block: &Block, wanted: &PointRead<'_>) -> bool {
        let last = block.len() - 1;
        block.ends_behind(last)
            && self
                .is_whole(block, last, |key, seqno| self.order.compare(key, wanted.key).is_eq() && seqno > wanted.seqno)
    }

    /// Returns true if the neighbors of an unsuccessful search's position show that no record is missing there.
    #[inline(never)]
    pub(in crate::sst) fn verify_absence(
        &self,
        block: &Block,
        (number, at): (usize, usize),
        wanted: &PointRead<'_>,
    ) -> bool {
        let PointRead { key, seqno, follows, .. } = *wanted;
        let left = at.checked_sub(1).is_none_or(|left| {
            self.is_before(block, left, (key, seqno))
                && if at == block.len() { block.ends_behind(left) } else { block.meet(left) }
        });
        let right = at == block.len() || self.is_behind(block, at, key);
        // At an edge, only the index shows that the key is in no other block.
        let edge = match at {
            0 => block.begins_at_its_start() && wanted.index.proves(number, key, follows, &self.order),
            at if at == block.len() => wanted.index.proves(number, key, follows, &self.order),
            _ => true,
        };
        left && right && edge && self.stands(block, at.min(block.len() - 1))
    }

    /// Returns true if a search ended at the right position in internal order: the record before it is less. `spills`:
    /// the block ends with versions of the key, and the search continues.
    pub(in crate::sst) fn verify_position(
        &self,
        block: &Block,
        (number, at): (usize, usize),
        place: (&[u8], Seqno),
        (index, follows, spills): (&Index, bool, bool),
        side: NeighborCheck,
    ) -> bool {
        let left = match at.checked_sub(1) {
            Some(left) => self.is_before(block, left, place),
            None => follows || index.begins_at(number, place.0, &self.order),
        };
        let right = at == block.len()
            || match side {
                NeighborCheck::Before => block.is_not_before(at, place, &self.order),
                // A search that found no version of the key has found a greater key.
                NeighborCheck::Both(found) => self.is_whole(block, at, |key, seqno| match found {
                    true => self.order.compare_internal((key, seqno), place) != Ordering::Less,
                    false => self.order.compare(key, place.0) == Ordering::Greater,
                }),
            };
        left && right
            && (at < block.len() || spills || index.proves(number, place.0, follows, &self.order))
            && self.stands(block, at.min(block.len() - 1))
    }

    /// Returns true if the record at a position passes its check and is before another position in internal order.
    fn is_before(&self, block: &Block, at: usize, place: (&[u8], Seqno)) -> bool {
        self.is_whole(block, at, |key, seqno| self.order.compare_internal((key, seqno), place) == Ordering::Less)
    }

    /// Returns true if the record at a position passes its check and has a greater key. Then all versions of `key` are
    /// before this position.
    fn is_behind(&self, block: &Block, at: usize, key: &[u8]) -> bool {
        self.is_whole(block, at, |found, _| self.order.compare(found, key) == Ordering::Greater)
    }

    /// Returns true if the record at a position passes its check and `pass` accepts its key and seqno.
    pub(in crate::sst) fn is_whole(&self, block: &Block, at: usize, pass: impl FnOnce(&[u8], Seqno) -> bool) -> bool {
        let Ok(entry) = block.entry(at) else { return false };
        let mut short = [0; 256];
        let mut long = Vec::new();
        let Some(key) = block.key_in(at, &entry, &mut short, &mut long) else { return false };
        let record = block.record(at, &entry, key);
        block.remembers(at, key)
            && self.serves(&record, hash_key(key))
            && block.ends_beside(at)
            && pass(key, record.seqno)
    }

    /// Returns true if no evidence contradicts that all records are where they were when the block was loaded. Checks
    /// the last record whose head equals that of the one at `at`; without heads, the block's last record.
    fn stands(&self, block: &Block, at: usize) -> bool {
        let last = match block.alike(at) {
            Some(alike) if alike.len() < 2 => return true,
            Some(alike) => alike.end - 1,
            None => block.len() - 1,
        };
        self.is_whole(block, last, |_, _| true)
    }
}
