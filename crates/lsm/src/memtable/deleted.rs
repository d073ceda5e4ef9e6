//! What a cursor found of a leaf in which every key is deleted, so that the next one passes it by with one look.
//!
//! In:     a leaf that a cursor has put in order.
//! Out:    a word that stands at the leaf: of how many records it tells, and the newest seqno among them.
//! Holds:  a leaf is only ever appended to, so what was true of its first records stays true, and while it holds no more of them it is true of the
//!         leaf. A reader to whom all of them are visible (whose seqno is not below the newest) sees no key there.
//! Costs:  the leaf is looked through once for each time that something came to it, up to the first key that is not deleted. Where all are, each record
//!         is checked, however few the cursor checks of those that it shows; one that checks none tells nothing. From then on a queue's head costs a look for each leaf in front of it, not two steps for each key.
//!
//! Versions of a key may stand in two leaves. What begins a leaf and is no tombstone may be an older version of a key that was deleted in the leaf before: that is
//! told too, and so is whether the last key may go on in the leaf behind.

use super::node::{Leaf, NONE};
use super::sorted::Sorted;
use super::sync::LEAF;
use super::tree::Tree;
use crate::planted::{Bug, active};
use crate::record::{Kind, Record, Seqno};

/// All keys of the first `count` records of a leaf are deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Deleted {
    count: usize,
    /// The newest of these records.
    newest: Seqno,
    /// It begins with versions of a key that is deleted only if the leaf before says so.
    begins_inside: bool,
    /// Its last key is that of the first record behind it.
    ends_inside: bool,
}

const COUNT_BITS: u32 = 6;
const _: () = assert!(LEAF < 1 << COUNT_BITS, "the count and two flags fill the byte beside a seqno");

impl Deleted {
    /// What is to be told of a leaf, in order in `run`; none if a key of it is not deleted, or a record is not sound.
    pub(super) fn of(
        tree: &Tree,
        leaf: &Leaf,
        run: &Sorted,
        is_sound: impl Fn(&Record<'_>) -> bool,
    ) -> Option<Deleted> {
        let mut told = Deleted { count: run.len(), newest: 0, begins_inside: false, ends_inside: false };
        let mut key: Option<&[u8]> = None;
        for at in 0..run.len() {
            let record = tree.record(run.place(at))?;
            let is_older = key.is_some_and(|key| tree.is_same_key(key, record.key));
            match is_older || record.kind == Kind::Delete {
                _ if record.kind == Kind::Fence => return None,
                true => {}
                false if at == 0 => told.begins_inside = true,
                false => return None,
            }
            told.newest = told.newest.max(record.seqno);
            key = Some(record.key);
        }
        let behind = if leaf.high() == NONE { None } else { tree.record(leaf.high()) };
        told.ends_inside = behind.zip(key).is_some_and(|(behind, key)| tree.is_same_key(behind.key, key));
        let mut records = (0..run.len()).map(|at| tree.record(run.place(at)));
        records.all(|record| record.is_some_and(|record| is_sound(&record))).then_some(told)
    }

    /// As one word; never 0.
    pub(super) fn word(self) -> u64 {
        let flags = u64::from(self.begins_inside) | u64::from(self.ends_inside) << 1;
        self.newest << (COUNT_BITS + 2) | flags << COUNT_BITS | self.count as u64
    }

    /// From a word; none if it is 0, or tells of another number of records.
    #[inline]
    pub(super) fn from_word(word: u64, count: usize) -> Option<Deleted> {
        let flag = |bit: u32| word >> (COUNT_BITS + bit) & 1 == 1;
        let told = Deleted {
            count: word as usize & ((1 << COUNT_BITS) - 1),
            newest: word >> (COUNT_BITS + 2),
            begins_inside: flag(0),
            ends_inside: flag(1),
        };
        (word != 0 && (told.count == count || active(Bug::DeletedLeafGrewUnseen))).then_some(told)
    }

    /// True if a reader at a seqno sees no key there. `before`: what is told of the leaf before it, if the reader passes that too; none if he stands in
    /// this one, and knows what hides its first key.
    #[inline]
    pub(super) fn hides_from(self, seqno: Seqno, before: Option<Deleted>) -> bool {
        let is_begun = !self.begins_inside || before.is_none_or(|before| before.ends_inside);
        (self.newest <= seqno || active(Bug::DeletedLeafIgnoresItsSeqno)) && is_begun
    }
}
