//! Caches that every key of a leaf is deleted, so that the next cursor passes the leaf with one load.
//!
//! In:     a leaf that a cursor has sorted.
//! Out:    a word stored in the leaf: the number of records it describes, and the newest seqno among them.
//! Holds:  a leaf is append-only, so a statement about its first records stays true. While the leaf has no other
//!         records, the statement covers the leaf. A reader that sees all of these records (its seqno is at least the
//!         newest) finds no key in the leaf.
//! Costs:  each time records were added, the leaf is scanned once, up to the first key that is not deleted. If all keys
//!         are deleted, each record is checked, even by a cursor that checks few of the records that it shows; a cursor
//!         that checks none stores nothing. From then on the head of a queue costs one load per leaf before it, not two
//!         steps per key.
//!
//! Versions of a key may span two leaves. A leaf that begins with a record other than a tombstone may hold an older
//! version of a key that was deleted in the previous leaf. The word records this, and whether the last key may continue
//! in the next leaf.

use super::node::{Leaf, NONE};
use super::sorted::SortedLeaf;
use super::sync::LEAF;
use super::tree::RecordTree;
use crate::planted;
use crate::record::{Kind, Record, Seqno};

/// States that all keys of the first `count` records of a leaf are deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeletedLeaf {
    count: usize,
    /// The newest seqno among these records.
    newest: Seqno,
    /// The leaf begins with versions of a key that is deleted only if the previous leaf says so.
    begins_inside: bool,
    /// The last key is also the key of the first record after the leaf.
    ends_inside: bool,
}

const COUNT_BITS: u32 = 6;
const _: () = assert!(LEAF < 1 << COUNT_BITS, "the count and two flags fill the byte beside a seqno");

impl DeletedLeaf {
    /// Returns the statement about a leaf, sorted in `run`; `None` if the leaf has a live key or a damaged record.
    pub(super) fn of(
        tree: &RecordTree,
        leaf: &Leaf,
        run: &SortedLeaf,
        is_sound: impl Fn(&Record<'_>) -> bool,
    ) -> Option<DeletedLeaf> {
        let mut leaf_summary = DeletedLeaf { count: run.len(), newest: 0, begins_inside: false, ends_inside: false };
        let mut key: Option<&[u8]> = None;
        for at in 0..run.len() {
            let record = tree.records.record(run.place(at))?;
            let is_older = key.is_some_and(|key| tree.records.is_same_key(key, record.key));
            match is_older || record.kind == Kind::Delete {
                _ if record.kind == Kind::Fence => return None,
                true => {}
                false if at == 0 => leaf_summary.begins_inside = true,
                false => return None,
            }
            leaf_summary.newest = leaf_summary.newest.max(record.seqno);
            key = Some(record.key);
        }
        let behind = if leaf.high() == NONE { None } else { tree.records.record(leaf.high()) };
        leaf_summary.ends_inside =
            behind.zip(key).is_some_and(|(behind, key)| tree.records.is_same_key(behind.key, key));
        let mut records = (0..run.len()).map(|at| tree.records.record(run.place(at)));
        records.all(|record| record.is_some_and(|record| is_sound(&record))).then_some(leaf_summary)
    }

    /// Encodes the statement as one word; never 0.
    pub(super) fn word(self) -> u64 {
        let flags = u64::from(self.begins_inside) | u64::from(self.ends_inside) << 1;
        self.newest << (COUNT_BITS + 2) | flags << COUNT_BITS | self.count as u64
    }

    /// Decodes a word; `None` for 0, and for a word that describes a different record count.
    #[inline]
    pub(super) fn from_word(word: u64, count: usize) -> Option<DeletedLeaf> {
        let flag = |bit: u32| word >> (COUNT_BITS + bit) & 1 == 1;
        let leaf_summary = DeletedLeaf {
            count: word as usize & ((1 << COUNT_BITS) - 1),
            newest: word >> (COUNT_BITS + 2),
            begins_inside: flag(0),
            ends_inside: flag(1),
        };
        (word != 0 && planted!(DeletedLeafGrewUnseen, true, leaf_summary.count == count)).then_some(leaf_summary)
    }

    /// True if a reader at a seqno sees no key in the leaf. `before`: the statement about the previous leaf if the
    /// reader skips that leaf too; `None` if the reader is in this leaf and knows what hides its first key.
    #[inline]
    pub(super) fn hides_from(self, seqno: Seqno, before: Option<DeletedLeaf>) -> bool {
        let is_begun = !self.begins_inside || before.is_none_or(|before| before.ends_inside);
        planted!(DeletedLeafIgnoresItsSeqno, true, self.newest <= seqno) && is_begun
    }
}
