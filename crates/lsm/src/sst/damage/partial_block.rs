//! The readable part of a block that cannot be repaired. Pure.
//!
//! In:    the bytes of a block, and its context: its position, the protector, and bounds on its records.
//! Out:   its trustworthy records in order, and gaps between them: ranges in which records were lost.
//! Holds: a record is trusted if its seal matches. A record without a seal is trusted only if the block's CRC matches,
//!        so that only its neighbors can be damaged. A block whose CRC differs from the one in its index is taken for
//!        another block, or an older copy, and is lost entirely. The same holds for a block whose records are all
//!        intact although its CRC does not match. Two records are adjacent only if the first one's bytes end where the
//!        second one's begin. Otherwise there is a gap between them, and reads of it report the loss. The seal does not
//!        cover the companions besides the seal. A record that is followed neither by the end of the entries nor by an
//!        apparent record may have lost some of them, and is lost. `glean` finds the records.

use crate::error::Verdict;
use crate::fence::Fence;
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::Dictionary;

/// The context of a block: everything known besides its bytes.
pub(in crate::sst) struct Site<'a> {
    pub(in crate::sst) order: &'a Order,
    /// The base that seqnos in the block are relative to.
    pub(in crate::sst) base: Seqno,
    pub(in crate::sst) keeper: &'a dyn Companions,
    pub(in crate::sst) protection: Protection,
    /// The first and last possible position of the block's records.
    pub(in crate::sst) span: [(Vec<u8>, Seqno); 2],
    /// Upper bound of the table's seqnos.
    pub(in crate::sst) bound: Seqno,
    /// No key has two versions in this table.
    pub(in crate::sst) single: bool,
    /// Companions may be longer than one word.
    pub(in crate::sst) more_beside: bool,
    /// The block's CRC matches: it was damaged before its CRC was computed, or the CRC missed the damage.
    pub(in crate::sst) fits: bool,
    /// Start value of that CRC.
    pub(in crate::sst) seed: u32,
    pub(in crate::sst) file: &'a str,
    pub(in crate::sst) offset: u64,
    pub(in crate::sst) verdict: Verdict,
    /// The dictionary that the block was compressed with.
    pub(in crate::sst) dictionary: Option<&'a Dictionary>,
}

/// The readable part of a block, in internal order.
#[derive(Debug, Default)]
pub(in crate::sst) struct Remains {
    pub(in crate::sst) items: Vec<Item>,
}

/// One item of a readable part.
#[derive(Debug)]
pub(in crate::sst) enum Item {
    /// A trusted record.
    Whole(Kept),
    /// A range in which records were lost.
    Gap(Fence),
}

/// An owned record.
#[derive(Debug)]
pub(in crate::sst) struct Kept {
    pub(in crate::sst) key: Vec<u8>,
    pub(in crate::sst) seqno: Seqno,
    pub(in crate::sst) kind: Kind,
    /// Value and companions.
    pub(in crate::sst) bytes: Vec<u8>,
    pub(in crate::sst) value_len: usize,
    /// The result of its check.
    pub(in crate::sst) check: Check,
}

impl Kept {
    pub(in crate::sst) fn record(&self) -> Record<'_> {
        let (value, companion) = self.bytes.split_at(self.value_len);
        Record { key: &self.key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}

/// The answer of a readable part to a point read.
#[derive(Debug)]
pub(in crate::sst) enum Answer<'a> {
    /// This record is the result.
    Found(&'a Kept),
    /// The deciding record may have been lost.
    Lost(&'a Fence),
    /// The block held no version of the key that is old enough.
    Absent,
    /// The block ends with newer versions of the key; older ones may follow in the next block.
    Further,
}

impl Remains {
    /// Returns the newest version of `key` not above `seqno`, unless a lost record may hide it.
    pub(in crate::sst) fn get(&self, order: &Order, key: &[u8], seqno: Seqno) -> Answer<'_> {
        let mut further = false;
        for item in &self.items {
            match item {
                Item::Gap(fence) if fence.may_hide(order, key, seqno) => return Answer::Lost(fence),
                Item::Gap(_) => further = false,
                Item::Whole(kept) => {
                    let is_version = order.compare(&kept.key, key).is_eq();
                    if is_version && kept.seqno <= seqno {
                        return Answer::Found(kept);
                    }
                    further = is_version;
                }
            }
        }
        if further { Answer::Further } else { Answer::Absent }
    }

    /// Returns the first gap, if there is one.
    pub(in crate::sst) fn first_gap(&self) -> Option<&Fence> {
        self.items.iter().find_map(|item| match item {
            Item::Gap(fence) => Some(fence),
            Item::Whole(_) => None,
        })
    }

    /// Its approximate size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        let item = |item: &Item| match item {
            Item::Whole(kept) => kept.key.len() + kept.bytes.len(),
            Item::Gap(fence) => fence.from.0.len() + fence.to.0.len() + fence.file.len(),
        };
        self.items.iter().map(|one| size_of::<Item>() + item(one)).sum()
    }
}

/// Returns the position directly after a record. `single`: the key has no other version in this table.
pub(in crate::sst) fn after(order: &Order, key: &[u8], seqno: Seqno, single: bool) -> (Vec<u8>, Seqno) {
    if (single || seqno == 0) && order.is_bytewise() && key.len() < MAX_KEY_BYTES {
        return ([key, &[0]].concat(), MAX_SEQNO);
    }
    (key.to_vec(), seqno.saturating_sub(1))
}

/// Returns the position directly before a record. If its key has no other version in this table, returns the position
/// before all versions of the key up to `bound`.
pub(in crate::sst) fn before(key: &[u8], seqno: Seqno, bound: Seqno, single: bool) -> (Vec<u8>, Seqno) {
    let newer = if single { seqno.max(bound) } else { seqno };
    (key.to_vec(), (newer + 1).min(MAX_SEQNO))
}

/// Returns a readable part without records: the whole block is one gap.
pub(in crate::sst) fn nothing(site: &Site<'_>) -> Remains {
    let [from, to] = site.span.clone();
    Remains { items: vec![Item::Gap(gap(site, from, to))] }
}

pub(in crate::sst) fn gap(site: &Site<'_>, from: (Vec<u8>, Seqno), to: (Vec<u8>, Seqno)) -> Fence {
    let (file, offset, verdict) = (site.file.to_owned(), site.offset, site.verdict);
    Fence { from, to, bound: site.bound, file, offset, verdict }
}
