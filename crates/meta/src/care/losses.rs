//! Losses of a store that is being salvaged: where records may be gone, and which of those that were found decide all the same.
//!
//! Pure. Seqnos are those of the old store. In the new one what decides nothing is written first and the rest behind it, so that a
//! fence whose bound lies between the two hides what it hid, and nothing else.

use std::collections::BTreeMap;

use waxseal_lsm::error::Verdict;
use waxseal_lsm::fence::Fence;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Seqno;

use super::spans::Spans;

/// A loss of which nobody can say between which keys it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anywhere {
    /// No record that was lost is newer.
    pub(super) bound: Seqno,
    /// Where it was met.
    pub(super) file: String,
    /// The offset in it.
    pub(super) offset: u64,
    /// What was wrong.
    pub(super) verdict: Verdict,
}

/// All losses of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    known: BTreeMap<u32, Spans<()>>,
    anywhere: Vec<Anywhere>,
}

impl Losses {
    /// Something was lost of a family between these places.
    pub(super) fn add(&mut self, family: u32, fence: Fence) {
        self.known.entry(family).or_default().add(fence, ());
    }

    /// Before many ask: what was lost of a family, in order and each once.
    pub(super) fn sort(&mut self, family: u32, order: &Order) {
        if let Some(known) = self.known.get_mut(&family) {
            known.sort(order);
        }
    }

    /// Something was lost of any family.
    pub(super) fn add_anywhere(&mut self, loss: Anywhere) {
        self.anywhere.push(loss);
    }

    /// True if a record can have stood where something of its family was lost.
    pub(super) fn may_have_had(&self, family: u32, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        self.known.get(&family).is_some_and(|known| known.around(order, key, seqno).next().is_some())
    }

    /// The losses that may be of a family which has everything up to `flushed` in tables: what the log lost below is there.
    fn anywhere(&self, flushed: Seqno) -> impl Iterator<Item = &Anywhere> {
        self.anywhere.iter().filter(move |loss| loss.bound > flushed)
    }

    /// True if a record may be older than one that was lost: it decides nothing.
    pub(super) fn cover(&self, family: u32, flushed: Seqno, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        self.known.get(&family).is_some_and(|known| known.cover(order, key, seqno))
            || self.anywhere(flushed).any(|loss| seqno <= loss.bound)
    }

    /// The fences of the new store, in which everything up to `bound` may be older than what was lost. None if one would have to
    /// stand over all keys of an order that does not say which is the last.
    pub(super) fn fences(&mut self, family: u32, flushed: Seqno, order: &Order, bound: Seqno) -> Option<Vec<Fence>> {
        self.sort(family, order);
        let narrowed = |fence: &Fence| Fence {
            offset: fence.offset,
            ..Fence::over(&fence.from.0, &fence.to.0, bound, &fence.file, fence.verdict)
        };
        let known = self.known.get(&family);
        let mut fences: Vec<Fence> = known.into_iter().flat_map(Spans::fences).map(narrowed).collect();
        if let Some(loss) = self.anywhere(flushed).next() {
            let all = Fence::over_all(order, bound, &loss.file, loss.verdict)?;
            fences.push(Fence { offset: loss.offset, ..all });
        }
        Some(fences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_newer_than_a_loss_decides() {
        let order = Order::bytewise();
        let mut losses = Losses::default();
        // Between b@7 and d@4, both of which were found; nothing above 9 was lost.
        let (from, to) = ((b"b".to_vec(), 6), (b"d".to_vec(), 5));
        let fence = Fence { from, to, ..Fence::over(b"", b"", 9, "000001.tbl", Verdict::Seal) };
        losses.add(0, fence.clone());
        losses.add(0, fence);
        for (key, seqno, hidden) in
            [(b"a", 1, false), (b"b", 7, false), (b"b", 6, true), (b"c", 9, true), (b"c", 10, false), (b"d", 4, true)]
        {
            assert_eq!(losses.cover(0, 0, &order, key, seqno), hidden, "{key:?}@{seqno}");
            assert!(!losses.cover(1, 0, &order, key, seqno));
        }
        // All versions of the keys it touches are under it in the new store: which of them decide is said by their seqno.
        let fences = losses.fences(0, 0, &order, 100).unwrap();
        assert_eq!(fences, [Fence::over(b"b", b"d", 100, "000001.tbl", Verdict::Seal)]);
        assert!(losses.fences(1, 0, &order, 100).unwrap().is_empty());
    }

    #[test]
    fn a_loss_anywhere_spares_what_is_newer_and_what_was_flushed_before() {
        let order = Order::bytewise();
        let mut losses = Losses::default();
        losses.add_anywhere(Anywhere {
            bound: 50,
            file: "000003.log".to_owned(),
            offset: 4096,
            verdict: Verdict::Checksum,
        });
        assert!(losses.cover(3, 40, &order, b"k", 50) && !losses.cover(3, 40, &order, b"k", 51));
        assert!(!losses.cover(3, 50, &order, b"k", 1));
        assert_eq!(losses.fences(3, 40, &order, 7).unwrap().len(), 1);
        assert!(losses.fences(3, 50, &order, 7).unwrap().is_empty());
    }
}
