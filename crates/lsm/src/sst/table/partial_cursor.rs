//! A position in the readable part of a damaged block.
//!
//! Salvaged records are returned as they are. A gap between them is returned as a record of kind `Fence`, at the end of
//! the gap that the cursor reaches first; after a seek into the gap, at the position sought.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::sst::block::partial_block::{PartialBlock, PartialItem};

/// A position in the readable part of a block.
pub(in crate::sst) struct PartialCursor {
    block: Arc<PartialBlock>,
    at: usize,
    is_valid: bool,
    /// The position at which the cursor entered a gap, and the encoded lost range.
    key: Vec<u8>,
    seqno: Seqno,
    lost_range: Vec<u8>,
}

impl PartialCursor {
    pub(in crate::sst) fn new(block: Arc<PartialBlock>) -> PartialCursor {
        PartialCursor { block, at: 0, is_valid: false, key: Vec::new(), seqno: 0, lost_range: Vec::new() }
    }

    /// Returns true if the cursor is on an item.
    #[inline]
    pub(in crate::sst) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Makes the cursor not valid.
    #[inline]
    pub(in crate::sst) fn leave(&mut self) {
        self.is_valid = false;
    }

    pub(in crate::sst) fn record(&self) -> Option<Record<'_>> {
        match self.block.items.get(self.at)? {
            _ if !self.is_valid => None,
            PartialItem::Record(kept) => Some(kept.record()),
            PartialItem::Lost(_) => Some(Record {
                key: &self.key,
                seqno: self.seqno,
                kind: Kind::Fence,
                value: &self.lost_range,
                companion: &[],
            }),
        }
    }

    /// Moves to an item, clamped to the last one. `sought`: the position of a seek, if a gap contains it. Returns
    /// whether the item is a gap; `None` if there is no item at all.
    pub(in crate::sst) fn settle(
        &mut self,
        at: usize,
        forward: bool,
        sought: Option<(&[u8], Seqno)>,
        order: &Order,
    ) -> Option<bool> {
        self.is_valid = false;
        let last = self.block.items.len().checked_sub(1)?;
        self.at = at.min(last);
        self.is_valid = true;
        let PartialItem::Lost(lost_range) = &self.block.items[self.at] else { return Some(false) };
        let end = if forward { &lost_range.from } else { &lost_range.to };
        let beyond = if forward { Ordering::Greater } else { Ordering::Less };
        let (key, seqno) = match sought {
            Some(sought) if order.compare_internal(sought, (&end.0, end.1)) == beyond => sought,
            _ => (&end.0[..], end.1),
        };
        // A forward move returns the gap after the versions that are newer than all lost records.
        let behind = (key, seqno.min(lost_range.bound));
        let is_inside =
            forward && order.compare_internal(behind, (&lost_range.to.0, lost_range.to.1)) != Ordering::Greater;
        self.seqno = if is_inside { behind.1 } else { seqno };
        self.key.clear();
        self.key.extend_from_slice(key);
        self.lost_range.clear();
        lost_range.encode(&mut self.lost_range);
        Some(true)
    }

    /// Returns the next item in a direction, if there is one.
    pub(in crate::sst) fn next(&self, forward: bool) -> Option<usize> {
        let next = if forward { Some(self.at + 1) } else { self.at.checked_sub(1) };
        next.filter(|next| *next < self.block.items.len())
    }

    /// Returns the first item at or after a position.
    pub(in crate::sst) fn find(&self, key: &[u8], seqno: Seqno, order: &Order) -> Option<usize> {
        let is_before = |item: &PartialItem| match item {
            PartialItem::Record(kept) => {
                let record = kept.record();
                order.compare_internal((record.key, record.seqno), (key, seqno)) == Ordering::Less
            }
            // A gap lost no record above its bound.
            PartialItem::Lost(lost_range) => {
                let newest = (key, seqno.min(lost_range.bound));
                order.compare_internal((&lost_range.to.0, lost_range.to.1), newest) == Ordering::Less
            }
        };
        self.block.items.iter().position(|item| !is_before(item))
    }

    /// Returns the last item at or before a position.
    pub(in crate::sst) fn find_back(&self, key: &[u8], seqno: Seqno, order: &Order) -> Option<usize> {
        let begins = |item: &PartialItem| {
            let place = match item {
                PartialItem::Record(kept) => (kept.record().key, kept.record().seqno),
                PartialItem::Lost(lost_range) => (&lost_range.from.0[..], lost_range.from.1),
            };
            order.compare_internal(place, (key, seqno)) != Ordering::Greater
        };
        self.block.items.iter().rposition(begins)
    }

    /// Returns true if the last item is a version of `key` newer than `seqno`, so that older ones may follow in the
    /// next block. The cursor must return a gap first.
    pub(in crate::sst) fn ends_with_newer(&self, key: &[u8], seqno: Seqno, order: &Order) -> bool {
        match self.block.items.last() {
            Some(PartialItem::Record(kept)) => {
                let record = kept.record();
                order.compare(record.key, key).is_eq() && record.seqno > seqno
            }
            Some(PartialItem::Lost(_)) | None => false,
        }
    }
}
