//! Decides which records a merge may drop. Pure: each record in internal order in, keep or drop out.
//!
//! Snapshots divide the seqnos into stripes: one stripe ends at each snapshot, the last stripe at the present. A reader
//! sees, of each key, the newest version of one stripe and no other version of that stripe. So the newest version in
//! each stripe is kept (I08). A tombstone in the oldest stripe may also be dropped if no deeper level may hold its key:
//! then no version remains for it to hide.
//!
//! A retaining record is kept even if it is hidden, and so is the version directly below it, for queries about the
//! previous version. A tombstone or version that hides these must be kept with them, but comes first: it is held until
//! the next version of its key is decided, or there is none.
//!
//! The snapshots are those alive when the merge begins. A later snapshot reads at a seqno above every record of the
//! inputs, or at the same seqno as an existing one, so it misses no record.

use std::cmp::Ordering;

use crate::order::Order;
use crate::planted;
use crate::record::{Kind, Seqno};
use crate::seam::DropReason;

/// The decision on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordDecision {
    /// The record is written to the output.
    Keep,
    /// The record is dropped.
    Drop(DropReason),
    /// The record is dropped unless an older version of its key, which it hides, is kept.
    Hold(DropReason),
    /// The record is not in internal order: all decisions of this pass are unreliable.
    Disordered,
}

/// The state of one pass over records in internal order, which the pass verifies. It allocates nothing per record once
/// the key buffer has grown.
pub struct Rules<B> {
    order: Order,
    /// In ascending order.
    snapshots: Vec<Seqno>,
    is_bottom: B,
    /// Key and seqno of the last record, and the stripe of the last of its versions that hides older ones.
    key: Vec<u8>,
    seqno: Seqno,
    stripe: Option<usize>,
    has_key: bool,
    /// True if the last version retains the one below it.
    retains: bool,
    /// True if the last version is kept unconditionally.
    stays: bool,
    /// True if all records are kept.
    keeps_all: bool,
    /// True if the last record is the first of its key.
    is_first: bool,
}

impl<B: FnMut(&[u8]) -> bool> Rules<B> {
    /// Creates the rules. `snapshots` is ascending. `is_bottom(key)` may return true only if no level deeper than the
    /// output may hold the key, and no data older than the inputs is in the levels between. A flush passes `|_| false`.
    pub fn new(order: Order, snapshots: Vec<Seqno>, is_bottom: B) -> Rules<B> {
        debug_assert!(snapshots.is_sorted());
        planted!(SnapshotIgnoredByCompaction => let snapshots = Vec::new());
        let (key, seqno, stripe, has_key) = (Vec::new(), 0, None, false);
        let (retains, stays, keeps_all, is_first) = (false, false, false, false);
        Rules { order, snapshots, is_bottom, key, seqno, stripe, has_key, retains, stays, keeps_all, is_first }
    }

    /// Keeps every record: for rewriting the contents of a table, as opposed to a merge.
    #[must_use]
    pub fn keeping_all(self) -> Self {
        Rules { keeps_all: true, ..self }
    }

    /// Decides on the next record in internal order. `retains`: it is kept, together with the version below it.
    #[inline]
    pub fn decide(&mut self, key: &[u8], seqno: Seqno, kind: Kind, retains: bool) -> RecordDecision {
        let step = if self.has_key { self.order.compare(&self.key, key) } else { Ordering::Less };
        self.is_first = step == Ordering::Less;
        match step {
            Ordering::Less => {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.has_key = true;
                self.stripe = None;
                self.retains = false;
            }
            Ordering::Equal if seqno < self.seqno => {}
            Ordering::Equal | Ordering::Greater => return RecordDecision::Disordered,
        }
        self.seqno = seqno;
        // A record that covers other keys than its own is neither hidden by a version of its own key nor hides one.
        if self.keeps_all || matches!(kind, Kind::RangeDelete | Kind::Fence) {
            return RecordDecision::Keep;
        }
        let is_below = std::mem::replace(&mut self.retains, planted!(VersionBelowRetainedDropped, false, retains));
        self.stays = is_below || planted!(RetainedVersionDropped, false, retains);
        // A retained operand is worth nothing without the versions that it is merged into.
        self.retains |= planted!(ChainBelowRetainedDropped, false, self.stays && kind == Kind::Merge);
        let stripe = self.snapshots.partition_point(|snapshot| *snapshot < seqno);
        // A merge operand, or a tombstone for exactly one put, needs the older versions.
        let hides = !matches!(kind, Kind::Merge | Kind::SingleDelete);
        if std::mem::replace(&mut self.stripe, hides.then_some(stripe)) == Some(stripe) {
            self.stripe = Some(stripe);
            if !self.stays {
                return RecordDecision::Drop(DropReason::Shadowed);
            }
        }
        // A tombstone below a retaining record may still be dropped: its absence has the same meaning.
        let is_needed = planted!(RetainingTombstoneDropped, false, retains);
        if kind == Kind::Delete
            && stripe == 0
            && !is_needed
            && planted!(TombstoneDroppedEarly, true, (self.is_bottom)(key))
        {
            return RecordDecision::Hold(DropReason::Tombstone);
        }
        RecordDecision::Keep
    }

    /// True if the record last decided on is the first of its key.
    #[inline]
    pub fn is_first_of_key(&self) -> bool {
        self.is_first
    }

    /// Returns the stripe of the record last decided on: a merge may replace it and its neighbors in the same stripe by
    /// a record that every reader takes for them. `None` if the record must stay as it is.
    pub fn merged_stripe(&self) -> Option<usize> {
        if self.stays || self.keeps_all {
            return None;
        }
        let stripe = self.snapshots.partition_point(|snapshot| *snapshot < self.seqno);
        Some(planted!(OperandsFoldedAcrossSnapshot, 0, stripe))
    }

    /// Returns true if no older version of a key, all of whose versions in the inputs have been decided, exists.
    pub fn is_bottom(&mut self, key: &[u8]) -> bool {
        (self.is_bottom)(key)
    }

    /// True if a range delete at `newer` hides the record last decided on from every reader, and nobody asks for it.
    pub fn may_hide(&self, newer: Seqno) -> bool {
        let stripe = |seqno| self.snapshots.partition_point(|snapshot| *snapshot < seqno);
        let is_unread = planted!(RangeDeleteIgnoresSnapshots, true, stripe(newer) == stripe(self.seqno));
        !self.stays && !self.keeps_all && is_unread
    }

    /// True if the record just kept is the newest of its key in the inputs, if no snapshot sees it, and if no query for
    /// an earlier version asks for it: a filter may change it for all readers to come. With `hidden_from`, only snapshots
    /// before this seqno count, and the record may be an older version.
    pub fn may_filter(&self, hidden_from: Option<Seqno>) -> bool {
        let oldest = self.snapshots.partition_point(|snapshot| *snapshot < self.seqno);
        let sees_not = |snapshot: &Seqno| hidden_from.is_some_and(|from| *snapshot >= from);
        let is_unseen = planted!(FilterIgnoresSnapshots, true, self.snapshots.get(oldest).is_none_or(sees_not));
        (self.is_first || hidden_from.is_some()) && !self.stays && !self.keeps_all && is_unseen
    }

    /// True if the record just kept could be dropped like a tombstone at the bottom if it has expired: every reader
    /// sees it, and no deeper level holds a version that would become visible.
    pub fn may_expire(&mut self) -> bool {
        !self.stays && self.stripe == Some(0) && (self.is_bottom)(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::bool::weighted;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use waxseal_testing::golden;

    /// Returns what a reader at `seqno` finds among versions (newest first): the seqnos of operands and of the put below
    /// them.
    fn visible(versions: &[(Seqno, Kind)], at: Seqno) -> Vec<Seqno> {
        let mut seen = versions.iter().filter(|(seqno, _)| *seqno <= at);
        let mut found = Vec::new();
        for (seqno, kind) in seen.by_ref() {
            found.extend((*kind != Kind::Delete).then_some(*seqno));
            if *kind != Kind::Merge {
                break;
            }
        }
        found
    }

    /// Returns the versions of a key that are kept.
    fn merged(
        rules: &mut Rules<impl FnMut(&[u8]) -> bool>,
        versions: &[(Seqno, Kind)],
        retains: &dyn Fn(usize) -> bool,
    ) -> Vec<(Seqno, Kind)> {
        let (mut stay, mut held) = (Vec::new(), None);
        for (at, version) in versions.iter().enumerate() {
            match rules.decide(b"k", version.0, version.1, retains(at)) {
                RecordDecision::Keep => {
                    stay.extend(held.take());
                    stay.push(*version);
                }
                RecordDecision::Hold(_) => {
                    stay.extend(held.replace(*version));
                }
                RecordDecision::Drop(_) => {}
                RecordDecision::Disordered => panic!("disordered"),
            }
        }
        stay
    }

    proptest! {
        /// Every snapshot, and the present, read the same after the merge, even with an older version in a deeper
        /// level. A query for the version before a retaining record returns the same result.
        #[test]
        fn no_reader_notices(
            seqnos in btree_set(2u64..40, 1..12), kinds in vec(0..6usize, 12), retaining in vec(weighted(0.2), 12),
            snapshots in btree_set(0u64..45, 0..5), deeper: bool
        ) {
            // As likely: puts, tombstones and operands.
            let kind = |kind: &usize| [Kind::Put, Kind::Delete, Kind::Merge][kind % 3];
            let before: Vec<(Seqno, Kind)> = seqnos.into_iter().rev().zip(kinds.iter().map(kind)).collect();
            let retains = |at: usize| retaining[at];
            let snapshots: Vec<Seqno> = snapshots.into_iter().collect();
            let mut rules = Rules::new(Order::bytewise(), snapshots.clone(), |_: &[u8]| !deeper);
            let mut after = merged(&mut rules, &before, &retains);
            let mut before = before.clone();
            let retaining: Vec<Seqno> = (0..before.len()).filter(|at| retains(*at)).map(|at| before[at].0).collect();
            let operands = before.iter().filter(|(_, kind)| *kind == Kind::Merge).count();
            prop_assert!(after.len() <= snapshots.len() + 2 + 2 * retaining.len() + 2 * operands);
            prop_assert!(retaining.iter().all(|seqno| after.iter().any(|(stays, _)| stays == seqno)));
            if deeper {
                before.push((1, Kind::Put));
                after.push((1, Kind::Put));
            }
            let before_those = retaining.iter().map(|seqno| seqno - 1);
            for at in snapshots.into_iter().chain(before_those).chain([100]) {
                prop_assert_eq!(visible(&before, at), visible(&after, at), "at {}: {:?}", at, after);
            }
        }
    }

    #[test]
    fn an_operand_keeps_what_is_older_and_a_dropped_tombstone_still_hides_it() {
        let shadowed = RecordDecision::Drop(DropReason::Shadowed);
        let mut rules = Rules::new(Order::bytewise(), vec![], |_: &[u8]| true);
        let mut decide = |key: &str, seqno, kind| rules.decide(key.as_bytes(), seqno, kind, false);
        assert_eq!(decide("a", 9, Kind::Merge), RecordDecision::Keep);
        assert_eq!(decide("a", 8, Kind::Merge), RecordDecision::Keep);
        assert_eq!(decide("a", 7, Kind::Put), RecordDecision::Keep);
        assert_eq!(decide("a", 6, Kind::Put), shadowed);
        assert_eq!(decide("b", 9, Kind::Delete), RecordDecision::Hold(DropReason::Tombstone));
        assert_eq!(decide("b", 8, Kind::RangeDelete), RecordDecision::Keep);
        assert_eq!(decide("b", 7, Kind::Merge), shadowed);
        assert_eq!(decide("b", 6, Kind::Put), shadowed);
        assert_eq!(decide("b", 6, Kind::Put), RecordDecision::Disordered);
        assert_eq!(decide("b", 9, Kind::Delete), RecordDecision::Disordered);
        assert_eq!(decide("a", 1, Kind::Put), RecordDecision::Disordered);
        assert_eq!(decide("b", 5, Kind::Put), shadowed);
        assert_eq!(decide("c", 50, Kind::Put), RecordDecision::Keep);
    }

    #[test]
    fn a_value_may_expire_where_a_tombstone_could_go() {
        let mut rules = Rules::new(Order::bytewise(), vec![5], |key: &[u8]| key != b"deeper");
        let mut may = |key: &str, seqno| {
            assert_eq!(rules.decide(key.as_bytes(), seqno, Kind::Put, false), RecordDecision::Keep);
            rules.may_expire()
        };
        assert!(may("a", 5));
        assert!(!may("b", 9)); // the version that the snapshot sees below it would become visible
        assert!(may("b", 4));
        assert!(!may("deeper", 3));
    }

    #[test]
    fn a_filter_changes_what_no_reader_sees_or_only_readers_that_hide_it() {
        let mut rules = Rules::new(Order::bytewise(), vec![5, 20], |_: &[u8]| true);
        let mut may = |seqno| {
            assert_eq!(rules.decide(b"k", seqno, Kind::Put, false), RecordDecision::Keep);
            [None, Some(5), Some(6), Some(20), Some(21)].map(|hidden_from| rules.may_filter(hidden_from))
        };
        assert_eq!(may(30), [true; 5]);
        assert_eq!(may(15), [false, true, true, true, false]);
        assert_eq!(may(4), [false, true, false, false, false]);
    }

    /// `snapshots 3 7`, `deeper a b` (keys that deeper levels may hold), then records in internal order: `a 9 put`, `a
    /// 9 put retains`.
    #[test]
    fn scripts_tell_which_records_go() {
        golden::run(
            "scripts/rules",
            || (),
            |(), input| {
                let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
                let named =
                    |name: &str| input.lines().find(|line| line.starts_with(name)).map(words).unwrap_or_default();
                let snapshots = named("snapshots").iter().map(|word| word.parse().unwrap()).collect();
                let deeper = named("deeper");
                let is_bottom = |key: &[u8]| !deeper.iter().any(|held| held.as_bytes() == key);
                let mut rules = Rules::new(Order::bytewise(), snapshots, is_bottom);
                let mut out = String::new();
                for line in input.lines().filter(|line| !line.starts_with("snapshots") && !line.starts_with("deeper")) {
                    let words: Vec<_> = line.split_whitespace().collect();
                    let [key, seqno, kind, rest @ ..] = &words[..] else { panic!("{line}") };
                    let kind = if *kind == "put" { Kind::Put } else { Kind::Delete };
                    out += &match rules.decide(key.as_bytes(), seqno.parse().unwrap(), kind, !rest.is_empty()) {
                        RecordDecision::Keep => format!("{line}\n"),
                        RecordDecision::Drop(reason) => format!("{line}  dropped: {reason:?}\n"),
                        RecordDecision::Hold(reason) => format!("{line}  held: {reason:?}\n"),
                        RecordDecision::Disordered => format!("{line}  disordered\n"),
                    };
                }
                out
            },
        );
    }
}
