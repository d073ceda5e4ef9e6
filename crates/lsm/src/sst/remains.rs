//! Remains: what is left of a block that cannot be made whole. Pure.
//!
//! In:    the bytes of a block as they came, and what is known of it from elsewhere: where it must stand, who seals, which
//!        records can be in it.
//! Out:   its records in order as far as each can be believed by itself, and between them the gaps: spans in which something
//!        was lost.
//! Holds: a record is believed if its seal says so; one without a seal only where the block's sum is right, so that nothing
//!        but its neighbours can be hit. A block whose sum is not the one that its index names, or whose records are all whole
//!        while its sum is wrong, is taken for another one, or an older copy: all of it is lost. Two records stand side by side only if the one's bytes end where the other's begin;
//!        else there is a gap between them, and whoever reads there hears of it. What stands beside a record besides its seal is
//!        not in the seal: a record behind which neither the end nor anything like a record stands may have lost it, and is lost.
//!        `glean` finds them.

use super::dictionary::Dictionary;
use crate::error::Verdict;
use crate::fence::Fence;
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Protection};

/// What is known of a block besides its bytes.
pub(super) struct Site<'a> {
    pub(super) order: &'a Order,
    /// Seqnos in the block count from here.
    pub(super) base: Seqno,
    pub(super) keeper: &'a dyn Companions,
    pub(super) protection: Protection,
    /// The first place that a record of the block can have, and the last.
    pub(super) span: [(Vec<u8>, Seqno); 2],
    /// No record of the table is newer.
    pub(super) bound: Seqno,
    /// No key of the table has two versions in it.
    pub(super) single: bool,
    /// Records may have more beside them than one word.
    pub(super) more_beside: bool,
    /// The block's sum is right: what is hit was hit before it was taken, or the sum does not help.
    pub(super) fits: bool,
    /// Where that sum starts.
    pub(super) seed: u32,
    pub(super) file: &'a str,
    pub(super) offset: u64,
    pub(super) verdict: Verdict,
    /// What the block was packed with.
    pub(super) dictionary: Option<&'a Dictionary>,
}

/// What is left of a block, in internal order.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) items: Vec<Item>,
}

/// One thing that is left.
#[derive(Debug)]
pub(super) enum Item {
    /// A record that may be believed.
    Whole(Kept),
    /// A span in which something was lost.
    Gap(Fence),
}

/// A record on its own.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) key: Vec<u8>,
    pub(super) seqno: Seqno,
    pub(super) kind: Kind,
    /// Value and companions.
    pub(super) bytes: Vec<u8>,
    pub(super) value_len: usize,
    /// What its companion says.
    pub(super) check: Check,
}

impl Kept {
    pub(super) fn record(&self) -> Record<'_> {
        let (value, companion) = self.bytes.split_at(self.value_len);
        Record { key: &self.key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}

/// What remains answer a point read.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    /// This record decides.
    Found(&'a Kept),
    /// Something may have been lost that would decide.
    Lost(&'a Fence),
    /// No version of the key that is old enough was in the block.
    Absent,
    /// The block ends with newer versions of the key; older ones may stand in the next.
    Further,
}

impl Remains {
    /// The newest version of `key` not above `seqno`, if nothing that is lost can hide it.
    pub(super) fn get(&self, order: &Order, key: &[u8], seqno: Seqno) -> Answer<'_> {
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

    /// The first gap, if there is one.
    pub(super) fn first_gap(&self) -> Option<&Fence> {
        self.items.iter().find_map(|item| match item {
            Item::Gap(fence) => Some(fence),
            Item::Whole(_) => None,
        })
    }

    /// Bytes in memory, about.
    pub(super) fn memory(&self) -> usize {
        let item = |item: &Item| match item {
            Item::Whole(kept) => kept.key.len() + kept.bytes.len(),
            Item::Gap(fence) => fence.from.0.len() + fence.to.0.len() + fence.file.len(),
        };
        self.items.iter().map(|one| size_of::<Item>() + item(one)).sum()
    }
}

/// The place right behind a record. `single`: the key has no other version here.
pub(super) fn after(order: &Order, key: &[u8], seqno: Seqno, single: bool) -> (Vec<u8>, Seqno) {
    if (single || seqno == 0) && order.is_bytewise() && key.len() < MAX_KEY_BYTES {
        return ([key, &[0]].concat(), MAX_SEQNO);
    }
    (key.to_vec(), seqno.saturating_sub(1))
}

/// The place right before a record; before all versions of its key that were not above `bound` if it has no others here.
pub(super) fn before(key: &[u8], seqno: Seqno, bound: Seqno, single: bool) -> (Vec<u8>, Seqno) {
    let newer = if single { seqno.max(bound) } else { seqno };
    (key.to_vec(), (newer + 1).min(MAX_SEQNO))
}

/// All of a block is lost.
pub(super) fn nothing(site: &Site<'_>) -> Remains {
    let [from, to] = site.span.clone();
    Remains { items: vec![Item::Gap(gap(site, from, to))] }
}

pub(super) fn gap(site: &Site<'_>, from: (Vec<u8>, Seqno), to: (Vec<u8>, Seqno)) -> Fence {
    let (file, offset, verdict) = (site.file.to_owned(), site.offset, site.verdict);
    Fence { from, to, bound: site.bound, file, offset, verdict }
}
