//! Cursor moves within the readable part of a damaged block.
//!
//! Salvaged records are returned as they are. A gap between them is returned as a record of kind `Fence`, at the end of
//! the gap that the cursor reaches first; after a seek into the gap, at the position sought.

use std::cmp::Ordering;
use std::sync::Arc;

use super::cursor::TableCursor;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::record::{Kind, Record, Seqno};
use crate::sst::damage::partial_block::{Item, Remains};

/// A position in the readable part of a block.
pub(in crate::sst) struct Wreck {
    pub(in crate::sst) remains: Arc<Remains>,
    pub(in crate::sst) at: usize,
    pub(in crate::sst) standing: bool,
    /// The position at which the cursor entered a gap, and the encoded fence.
    key: Vec<u8>,
    seqno: Seqno,
    fence: Vec<u8>,
}

/// Moves within the readable part of a block.
impl TableCursor {
    /// Moves to an item, clamped to the last one. `sought`: the position of a seek, if a gap contains it.
    pub(in crate::sst) fn stand_among(
        &mut self,
        at: usize,
        forward: bool,
        sought: Option<(&[u8], Seqno)>,
    ) -> Result<()> {
        self.entry = None;
        let order = &self.table.order;
        let Some(wreck) = &mut self.wreck else { return Ok(()) };
        let Some(last) = wreck.remains.items.len().checked_sub(1) else {
            // Only an inconsistent comparator leaves neither a record nor a gap.
            wreck.standing = false;
            return Err(self.table.named(Error::structural("nothing is left of a block"), self.number));
        };
        wreck.at = at.min(last);
        wreck.standing = true;
        if let Some(Item::Gap(fence)) = wreck.remains.items.get(wreck.at) {
            let end = if forward { &fence.from } else { &fence.to };
            let beyond = if forward { Ordering::Greater } else { Ordering::Less };
            let (key, seqno) = match sought {
                Some(sought) if order.compare_internal(sought, (&end.0, end.1)) == beyond => sought,
                _ => (&end.0[..], end.1),
            };
            // A forward move returns the gap after the versions that are newer than all lost records.
            let behind = (key, seqno.min(fence.bound));
            let is_inside = forward && order.compare_internal(behind, (&fence.to.0, fence.to.1)) != Ordering::Greater;
            wreck.seqno = if is_inside { behind.1 } else { seqno };
            wreck.key.clear();
            wreck.key.extend_from_slice(key);
            wreck.fence.clear();
            fence.encode(&mut wreck.fence);
            self.table.watch.gap_met();
        }
        Ok(())
    }

    /// Moves to the first item at or after a position, or into the next block if there is none.
    pub(in crate::sst) fn seek_among(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let order = &self.table.order;
        let is_before = |item: &Item| match item {
            Item::Whole(kept) => {
                let record = kept.record();
                order.compare_internal((record.key, record.seqno), (key, seqno)) == Ordering::Less
            }
            // A gap lost no record above its bound.
            Item::Gap(fence) => {
                let newest = (key, seqno.min(fence.bound));
                order.compare_internal((&fence.to.0, fence.to.1), newest) == Ordering::Less
            }
        };
        let Some(wreck) = &self.wreck else { return Ok(()) };
        let at = wreck.remains.items.iter().position(|item| !is_before(item));
        match at {
            Some(at) => self.stand_among(at, true, Some((key, seqno))),
            None => self.stand_first(self.number + 1),
        }
    }

    /// Moves to the first item after all versions of a key.
    pub(in crate::sst) fn seek_behind(&mut self, key: &[u8]) -> Result<()> {
        self.seek_among(key, 0)?;
        while self.valid()
            && self.table.order.compare(self.record().key, key).is_eq()
            && self.record().kind != Kind::Fence
        {
            self.step_out(true)?;
        }
        Ok(())
    }

    /// Moves to the last item at or before a position, or into the previous block if there is none.
    pub(in crate::sst) fn seek_back_among(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let order = &self.table.order;
        let begins = |item: &Item| {
            let place = match item {
                Item::Whole(kept) => (kept.record().key, kept.record().seqno),
                Item::Gap(fence) => (&fence.from.0[..], fence.from.1),
            };
            order.compare_internal(place, (key, seqno)) != Ordering::Greater
        };
        let Some(wreck) = &self.wreck else { return Ok(()) };
        let at = wreck.remains.items.iter().rposition(begins);
        match at {
            Some(at) => self.stand_among(at, false, Some((key, seqno))),
            None => self.stand_last_before(self.number),
        }
    }

    /// Returns true if the readable part of a block ends with a newer version of a key, so that older ones may follow
    /// in the next block.
    pub(in crate::sst) fn goes_on_among(&self, key: &[u8], seqno: Seqno, number: usize) -> bool {
        let last = self.wreck.as_ref().and_then(|wreck| wreck.remains.items.last());
        number + 1 < self.table.blocks()
            && match last {
                Some(Item::Whole(kept)) => {
                    let record = kept.record();
                    self.table.order.compare(record.key, key).is_eq() && record.seqno > seqno
                }
                // The cursor must return the gap first.
                Some(Item::Gap(_)) | None => false,
            }
    }
}

impl Wreck {
    pub(in crate::sst) fn new(remains: Arc<Remains>) -> Wreck {
        Wreck { remains, at: 0, standing: false, key: Vec::new(), seqno: 0, fence: Vec::new() }
    }

    pub(in crate::sst) fn record(&self) -> Option<Record<'_>> {
        match self.remains.items.get(self.at)? {
            _ if !self.standing => None,
            Item::Whole(kept) => Some(kept.record()),
            Item::Gap(_) => Some(Record {
                key: &self.key,
                seqno: self.seqno,
                kind: Kind::Fence,
                value: &self.fence,
                companion: &[],
            }),
        }
    }
}
