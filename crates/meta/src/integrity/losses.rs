//! Lost ranges of a store during salvage, and the found records that are still authoritative despite them.
//!
//! Pure. Seqnos are those of the old store. The new store first gets the records that may be outdated, then the
//! authoritative ones. A lost range whose bound lies between the two groups hides exactly the first group.

use std::collections::BTreeMap;

use waxseal_lsm::error::Verdict;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Seqno;

use super::spans::Spans;

/// A loss whose key range is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anywhere {
    /// Upper bound of the seqnos of the lost records.
    pub(super) bound: Seqno,
    /// The damaged file.
    pub(super) file: String,
    /// The offset of the damage in the file.
    pub(super) offset: u64,
    /// The kind of damage.
    pub(super) verdict: Verdict,
}

/// All losses of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    known: BTreeMap<u32, Spans<()>>,
    anywhere: Vec<Anywhere>,
}

impl Losses {
    /// Adds a lost range of a family.
    pub(super) fn add(&mut self, family: u32, lost_range: LostRange) {
        self.known.entry(family).or_default().add(lost_range, ());
    }

    /// Sorts and deduplicates a family's lost ranges, which makes look-ups fast.
    pub(super) fn sort(&mut self, family: u32, order: &Order) {
        if let Some(known) = self.known.get_mut(&family) {
            known.sort(order);
        }
    }

    /// Adds a loss that may concern any family and key.
    pub(super) fn add_anywhere(&mut self, loss: Anywhere) {
        self.anywhere.push(loss);
    }

    /// Returns true if a record's position lies in a lost range of its family.
    pub(super) fn may_have_had(&self, family: u32, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        self.known.get(&family).is_some_and(|known| known.around(order, key, seqno).next().is_some())
    }

    /// Returns the losses without a key range that may concern a family whose records up to `flushed` are all in
    /// tables: lost log records below that are in tables too.
    fn anywhere(&self, flushed: Seqno) -> impl Iterator<Item = &Anywhere> {
        self.anywhere.iter().filter(move |loss| loss.bound > flushed)
    }

    /// Returns true if a record may be older than a lost one, so that it is not authoritative.
    pub(super) fn cover(&self, family: u32, flushed: Seqno, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        self.known.get(&family).is_some_and(|known| known.cover(order, key, seqno))
            || self.anywhere(flushed).any(|loss| seqno <= loss.bound)
    }

    /// Returns the lost ranges of the new store: records up to `bound` may be older than a lost record. `None` if a
    /// range must cover all keys and the family's order names no last key.
    pub(super) fn lost_ranges(
        &mut self,
        family: u32,
        flushed: Seqno,
        order: &Order,
        bound: Seqno,
    ) -> Option<Vec<LostRange>> {
        self.sort(family, order);
        let narrowed = |lost_range: &LostRange| LostRange {
            offset: lost_range.offset,
            ..LostRange::over(&lost_range.from.0, &lost_range.to.0, bound, &lost_range.file, lost_range.verdict)
        };
        let known = self.known.get(&family);
        let mut lost_ranges: Vec<LostRange> = known.into_iter().flat_map(Spans::lost_ranges).map(narrowed).collect();
        if let Some(loss) = self.anywhere(flushed).next() {
            let all = LostRange::over_all(order, bound, &loss.file, loss.verdict)?;
            lost_ranges.push(LostRange { offset: loss.offset, ..all });
        }
        Some(lost_ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_newer_than_a_loss_decides() {
        let order = Order::bytewise();
        let mut losses = Losses::default();
        // The lost range lies between b@7 and d@4, which were both found; no lost seqno exceeds 9.
        let (from, to) = ((b"b".to_vec(), 6), (b"d".to_vec(), 5));
        let lost_range = LostRange { from, to, ..LostRange::over(b"", b"", 9, "000001.tbl", Verdict::Seal) };
        losses.add(0, lost_range.clone());
        losses.add(0, lost_range);
        for (key, seqno, hidden) in
            [(b"a", 1, false), (b"b", 7, false), (b"b", 6, true), (b"c", 9, true), (b"c", 10, false), (b"d", 4, true)]
        {
            assert_eq!(losses.cover(0, 0, &order, key, seqno), hidden, "{key:?}@{seqno}");
            assert!(!losses.cover(1, 0, &order, key, seqno));
        }
        // In the new store the range covers all versions of its boundary keys; the bound separates the authoritative
        // ones.
        let lost_ranges = losses.lost_ranges(0, 0, &order, 100).unwrap();
        assert_eq!(lost_ranges, [LostRange::over(b"b", b"d", 100, "000001.tbl", Verdict::Seal)]);
        assert!(losses.lost_ranges(1, 0, &order, 100).unwrap().is_empty());
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
        assert_eq!(losses.lost_ranges(3, 40, &order, 7).unwrap().len(), 1);
        assert!(losses.lost_ranges(3, 50, &order, 7).unwrap().is_empty());
    }
}
