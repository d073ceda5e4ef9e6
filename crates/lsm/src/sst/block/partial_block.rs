//! The readable part of a block that cannot be repaired: trusted records in order, and gaps between them. Pure.

use crate::lost_range::LostRange;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::seam::Check;

/// The readable part of a block, in internal order.
#[derive(Debug, Default)]
pub(in crate::sst) struct PartialBlock {
    pub(in crate::sst) items: Vec<PartialItem>,
}

/// One item of a readable part.
#[derive(Debug)]
pub(in crate::sst) enum PartialItem {
    /// A trusted record.
    Record(SalvagedRecord),
    /// A range in which records were lost.
    Lost(LostRange),
}

/// An owned record.
#[derive(Debug)]
pub(in crate::sst) struct SalvagedRecord {
    pub(in crate::sst) key: Vec<u8>,
    pub(in crate::sst) seqno: Seqno,
    pub(in crate::sst) kind: Kind,
    /// Value and companions.
    pub(in crate::sst) bytes: Vec<u8>,
    pub(in crate::sst) value_len: usize,
    /// The result of its check.
    pub(in crate::sst) check: Check,
}

impl SalvagedRecord {
    pub(in crate::sst) fn record(&self) -> Record<'_> {
        let (value, companion) = self.bytes.split_at(self.value_len);
        Record { key: &self.key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}

/// The answer of a readable part to a point read.
#[derive(Debug)]
pub(in crate::sst) enum PartialAnswer<'a> {
    /// This record is the result.
    Found(&'a SalvagedRecord),
    /// The deciding record may have been lost.
    Lost(&'a LostRange),
    /// The block held no version of the key that is old enough.
    Absent,
    /// The block ends with newer versions of the key; older ones may follow in the next block.
    Further,
}

impl PartialBlock {
    /// Returns the newest version of `key` not above `seqno`, unless a lost record may hide it.
    pub(in crate::sst) fn get(&self, order: &Order, key: &[u8], seqno: Seqno) -> PartialAnswer<'_> {
        let mut further = false;
        for item in &self.items {
            match item {
                PartialItem::Lost(lost_range) if lost_range.may_hide(order, key, seqno) => {
                    return PartialAnswer::Lost(lost_range);
                }
                PartialItem::Lost(_) => further = false,
                PartialItem::Record(kept) => {
                    let is_version = order.compare(&kept.key, key).is_eq();
                    if is_version && kept.seqno <= seqno {
                        return PartialAnswer::Found(kept);
                    }
                    further = is_version;
                }
            }
        }
        if further { PartialAnswer::Further } else { PartialAnswer::Absent }
    }

    /// Returns the first gap, if there is one.
    pub(in crate::sst) fn first_gap(&self) -> Option<&LostRange> {
        self.items.iter().find_map(|item| match item {
            PartialItem::Lost(lost_range) => Some(lost_range),
            PartialItem::Record(_) => None,
        })
    }

    /// Its approximate size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        let item = |item: &PartialItem| match item {
            PartialItem::Record(kept) => kept.key.len() + kept.bytes.len(),
            PartialItem::Lost(lost_range) => lost_range.from.0.len() + lost_range.to.0.len() + lost_range.file.len(),
        };
        self.items.iter().map(|one| size_of::<PartialItem>() + item(one)).sum()
    }
}
