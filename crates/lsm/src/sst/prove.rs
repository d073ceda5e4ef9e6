//! What a point read believes: the record that it gives out, and that there is none where it finds none.
//!
//! In:    a block in memory and the place of a search in it.
//! Out:   whether what stands there may be given out; whether its neighbours bracket the key with nothing between them.
//! Holds: nothing is believed that was not checked in the bytes it is taken from, in memory, at this very read. A verified read
//!        touches the blocks that a plain one touches, and no others.
//! Costs: of a hit one check of the record. Neighbours are checked where the key is not found behind a filter that says maybe,
//!        or where the block holds several versions of a key, so that a newer one may have been hit.

use std::cmp::Ordering;

use super::block::Block;
use super::entry::{Entry, Shape};
use super::index::Index;
use super::table::Table;
use crate::checksum::hash_key;
use crate::codec::Reader;
use crate::order::Order;
use crate::record::{Record, Seqno, companion};
use crate::seam::{Companions, Protection};

/// What one read checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// Every record that is given out, and that there is none where none is found.
    pub each: bool,
    /// All records of a block when it is loaded from its file.
    pub loaded: bool,
    /// Blocks that are loaded are used once, and not kept in the cache.
    pub passing: bool,
    /// The block is asked for again by the same request: it is kept if it may be, whenever it was asked for before.
    pub again: bool,
}

impl Checks {
    /// Nothing.
    pub const NONE: Checks = Checks { each: false, loaded: false, passing: false, again: false };
    /// What is given out, where it lies.
    pub const EACH: Checks = Checks { each: true, ..Checks::NONE };
    /// Blocks, when they are loaded.
    pub const LOADED: Checks = Checks { loaded: true, ..Checks::NONE };

    /// True if a value that is read from its file is checked for what was put, not only for what was stored.
    pub fn asks_values(&self) -> bool {
        self.each || self.loaded
    }
}

/// What a point read looks for in a block.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: &'a [u8],
    pub(super) key_hash: u64,
    pub(super) seqno: Seqno,
    /// It is to be believed only after a check.
    pub(super) each: bool,
    /// The index that led to the block.
    pub(super) index: &'a Index,
    /// The block before was searched; it ends with newer versions of the key.
    pub(super) follows: bool,
}

impl Wanted<'_> {
    #[inline]
    fn place(&self) -> (&[u8], Seqno) {
        (self.key, self.seqno)
    }
}

/// What of the neighbours of a search's end is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The record before it, and the order of the one at it, which is checked by whoever stands there.
    Before,
    /// Both; true: the search has found a version of its key.
    Both(bool),
}

/// By whom, and against what promise.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) keeper: &'a dyn Companions,
    pub(super) protection: Protection,
}

impl Judge<'_> {
    #[inline]
    pub(super) fn serves(&self, record: &Record<'_>, key_hash: u64) -> bool {
        self.keeper.verify(record, key_hash, self.protection).serves()
    }

    /// The same for a cursor, which has no hash of the key.
    #[inline]
    pub(super) fn passes(&self, record: &Record<'_>) -> bool {
        self.keeper.serves(record, self.protection)
    }
}

impl Table {
    #[inline]
    pub(super) fn judge(&self) -> Judge<'_> {
        Judge { keeper: &*self.keeper, protection: self.protection }
    }

    /// True if the record that was found may be given out: it is what was written, and no newer version of its key was passed over.
    #[inline]
    pub(super) fn believes(
        &self,
        block: &Block,
        (number, at): (usize, usize),
        record: &Record<'_>,
        wanted: &Wanted<'_>,
    ) -> bool {
        self.judge().serves(record, wanted.key_hash)
            && block.ends_beside(at)
            && ((at > 0 && !block.has_versions) || self.is_newest(block, (number, at), wanted))
    }

    /// True if nothing newer than what was found at a place was passed over.
    #[inline(never)]
    fn is_newest(&self, block: &Block, (number, at): (usize, usize), wanted: &Wanted<'_>) -> bool {
        let left = match at.checked_sub(1) {
            Some(left) => block.is_before(left, wanted.place(), &self.order, self.judge()) && block.meet(left),
            None => wanted.follows || wanted.index.begins_at(number, wanted.key, &self.order),
        };
        // Versions of a key have one head: what moved up into the place of the newest would pass for it.
        left && (!block.has_versions || block.stands(at, self.judge()))
    }

    /// True if a block ends with a version of the key that is newer than wanted.
    pub(super) fn goes_on(&self, block: &Block, wanted: &Wanted<'_>) -> bool {
        let last = block.len() - 1;
        block.ends_behind(last)
            && block.is_whole(last, self.judge(), |key, seqno| {
                self.order.compare(key, wanted.key).is_eq() && seqno > wanted.seqno
            })
    }

    /// True if what stands around the place of a search in vain shows that nothing is missing there.
    #[inline(never)]
    pub(super) fn proves_absence(&self, block: &Block, (number, at): (usize, usize), wanted: &Wanted<'_>) -> bool {
        let (order, judge) = (&self.order, self.judge());
        let Wanted { key, seqno, follows, .. } = *wanted;
        let left = at.checked_sub(1).is_none_or(|left| {
            block.is_before(left, (key, seqno), order, judge)
                && if at == block.len() { block.ends_behind(left) } else { block.meet(left) }
        });
        let right = at == block.len() || block.is_behind(at, key, order, judge);
        // At an edge the index alone says that the key is in no other block.
        let edge = match at {
            0 => block.begins_at_its_start() && wanted.index.proves(number, key, follows, order),
            at if at == block.len() => wanted.index.proves(number, key, follows, order),
            _ => true,
        };
        left && right && edge && block.stands(at.min(block.len() - 1), judge)
    }

    /// True if a search for a place in internal order has rightly ended where it did: what stands before it there is before it.
    /// `spills`: the block ends with versions of the key, and the search goes on.
    pub(super) fn places(
        &self,
        block: &Block,
        (number, at): (usize, usize),
        place: (&[u8], Seqno),
        (index, follows, spills): (&Index, bool, bool),
        side: Side,
    ) -> bool {
        let left = match at.checked_sub(1) {
            Some(left) => block.is_before(left, place, &self.order, self.judge()),
            None => follows || index.begins_at(number, place.0, &self.order),
        };
        let right = at == block.len()
            || match side {
                Side::Before => block.is_not_before(at, place, &self.order),
                // A search that has found no version of the key has found a greater one.
                Side::Both(found) => block.is_whole(at, self.judge(), |key, seqno| match found {
                    true => self.order.compare_internal((key, seqno), place) != Ordering::Less,
                    false => self.order.compare(key, place.0) == Ordering::Greater,
                }),
            };
        left && right
            && (at < block.len() || spills || index.proves(number, place.0, follows, &self.order))
            && block.stands(at.min(block.len() - 1), self.judge())
    }
}

impl Block {
    /// True if the record at a place is whole and stands before another place in internal order.
    fn is_before(&self, at: usize, place: (&[u8], Seqno), order: &Order, judge: Judge<'_>) -> bool {
        self.is_whole(at, judge, |key, seqno| order.compare_internal((key, seqno), place) == Ordering::Less)
    }

    /// True if the record at a place is whole and has a greater key than this: no version of this stands there or behind it.
    fn is_behind(&self, at: usize, key: &[u8], order: &Order, judge: Judge<'_>) -> bool {
        self.is_whole(at, judge, |found, _| order.compare(found, key) == Ordering::Greater)
    }

    /// True if the record at a place is what was written and its key and seqno pass.
    pub(super) fn is_whole(&self, at: usize, judge: Judge<'_>, pass: impl FnOnce(&[u8], Seqno) -> bool) -> bool {
        let Ok(entry) = self.entry(at) else { return false };
        let mut short = [0; 256];
        let mut long = Vec::new();
        let Some(key) = self.key_in(at, &entry, &mut short, &mut long) else { return false };
        let record = self.record(at, &entry, key);
        self.remembers(at, key)
            && judge.serves(&record, hash_key(key))
            && self.ends_beside(at)
            && pass(key, record.seqno)
    }

    /// True if nothing speaks against it that all records stand where they stood when the block was loaded: then the last one does
    /// whose place heads cannot tell from the others', or the last one of all where there are no heads.
    fn stands(&self, at: usize, judge: Judge<'_>) -> bool {
        let last = match self.alike(at) {
            Some(alike) if alike.len() < 2 => return true,
            Some(alike) => alike.end - 1,
            None => self.len() - 1,
        };
        self.is_whole(last, judge, |_, _| true)
    }

    /// The whole key of an entry, put together in one of two rooms.
    fn key_in<'a>(
        &'a self,
        at: usize,
        entry: &Entry,
        short: &'a mut [u8; 256],
        long: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let suffix = self.suffix(entry);
        if entry.shared == 0 {
            return Some(suffix);
        }
        let start = self.shared_key(at, entry).ok()?;
        let length = start.len() + suffix.len();
        match short.get_mut(..length) {
            Some(room) => {
                room[..start.len()].copy_from_slice(start);
                room[start.len()..].copy_from_slice(suffix);
                Some(room)
            }
            None => {
                long.extend_from_slice(start);
                long.extend_from_slice(suffix);
                Some(long)
            }
        }
    }

    /// False if the offset behind a record, which was hit, leaves out some of what stands beside it: each of the others is whole.
    #[inline]
    pub(super) fn ends_beside(&self, at: usize) -> bool {
        self.ends_at(self.offset(at + 1))
    }

    /// The same of an offset that is at hand.
    #[inline]
    pub(super) fn ends_at(&self, end: usize) -> bool {
        // Without a column nothing stands behind the body.
        self.has_column() || self.bytes().get(end).is_none_or(|byte| !companion::begins(*byte))
    }

    /// True if the bytes of the entry at a place end where those of the next begin.
    fn meet(&self, at: usize) -> bool {
        self.end_of(at) == Some(self.offset(at + 1))
    }

    /// True if the entry at a place is the last one by its bytes and by those that end the body.
    fn ends_behind(&self, at: usize) -> bool {
        let shape = Shape::read(self.body()).ok();
        self.meet(at) && shape.is_some_and(|shape| shape.entries_end as usize == self.offset(at + 1))
    }

    /// True if the first entry stands where a body begins.
    fn begins_at_its_start(&self) -> bool {
        self.offset(0) == 0
    }

    /// Where the bytes of an entry end, its companions included.
    fn end_of(&self, at: usize) -> Option<usize> {
        let entry = self.entry(at).ok()?;
        if self.has_column() {
            return Some(entry.value_end);
        }
        let mut reader = Reader::starting_at(self.body(), entry.value_end);
        companion::take(&mut reader).ok()?;
        Some(reader.position())
    }
}
