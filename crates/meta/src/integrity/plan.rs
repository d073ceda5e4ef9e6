//! Pure decisions of repair: which candidates restore a loss, and which losses remain.

use waxseal_lsm::ledger::{Ledger, LedgerEntry};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_SEQNO, OwnedRecord, Seqno};

/// Pairs are searched among at most this many candidates.
const PAIRED: usize = 1024;

/// Returns the ledger of a table minus its found records. `None` if more were found than the ledger counts: then the
/// table and its ledger do not belong together.
pub(super) fn deficit(counted: &Ledger, found: &Ledger) -> Option<Ledger> {
    let less = |a: LedgerEntry, b: LedgerEntry| {
        Some(LedgerEntry { count: a.count.checked_sub(b.count)?, sum: a.sum.wrapping_sub(b.sum) })
    };
    Some(Ledger {
        puts: less(counted.puts, found.puts)?,
        deletes: less(counted.deletes, found.deletes)?,
        others: less(counted.others, found.others)?,
    })
}

/// Returns true if a table has lost no record.
pub(super) fn is_whole(deficit: &Ledger, summed: bool) -> bool {
    if summed { *deficit == Ledger::default() } else { deficit.count() == 0 }
}

/// Returns true if the gaps of a table explain its deficit: gaps exist, they have room for the missing records, and
/// every kind with no missing record has the right sum. A wrong sum without a missing record means that some record is
/// not the counted one.
pub(super) fn explains(deficit: &Ledger, has_gaps: bool, room: Option<u64>, summed: bool) -> bool {
    let is_of_missing = |lost: &LedgerEntry| !summed || lost.count > 0 || lost.sum == 0;
    is_whole(deficit, summed)
        || has_gaps
            && room.is_none_or(|room| deficit.count() <= room)
            && [deficit.puts, deficit.deletes, deficit.others].iter().all(is_of_missing)
}

/// Returns the gaps before the first and behind the last position found in a table, within its range `all`. There is no
/// gap at an end if the expected boundary key was found there.
pub(super) fn gaps_at_ends(
    order: &Order,
    ends: Option<&(KeyPosition, KeyPosition)>,
    all: &LostRange,
) -> [Option<LostRange>; 2] {
    let Some((first, last)) = ends else { return [Some(all.clone()), None] };
    let is_short = |low: &[u8], high: &[u8]| order.compare(low, high).is_lt();
    let before = is_short(&all.from.0, &first.0).then(|| between(order, None, Some(first), all)).flatten();
    let behind = is_short(&last.0, &all.to.0).then(|| between(order, Some(last), None, all)).flatten();
    [before, behind]
}

/// Returns how many records have lost their extra companions, in a table whose records were all found: the counted
/// records with more than a seal word (if counted) minus those found.
pub(super) fn lost_beside(counted: Option<u64>, found: u64) -> u64 {
    let known = counted.filter(|counted| *counted != u64::MAX); // the value that means "not counted"
    known.map_or(0, |counted| counted.saturating_sub(found))
}

/// Returns true if a candidate may be a lost record: its kind has losses and, if only one record was lost, its term
/// matches.
pub(super) fn may_be_lost(deficit: &Ledger, kind: Kind, term: u64) -> bool {
    let lost = match kind.logical() {
        Kind::Put => deficit.puts,
        Kind::Delete => deficit.deletes,
        _ => deficit.others,
    };
    lost.count > 1 || lost.count == 1 && lost.sum == term
}

/// Beyond this number of candidates none are chosen, unless a single record was lost.
pub(super) fn most_candidates(deficit: &Ledger) -> usize {
    usize::try_from(deficit.count()).unwrap_or(usize::MAX).saturating_add(PAIRED)
}

/// Returns the indexes of the candidates (given by kind and term) that restore the deficit: the missing number of each
/// kind, with the missing sum. `None` if no choice or several choices fit: two candidates are no repair.
pub(super) fn fill(deficit: &Ledger, candidates: &[(Kind, u64)]) -> Option<Vec<usize>> {
    let mut chosen = Vec::new();
    for (of, lost) in [(Some(Kind::Put), deficit.puts), (Some(Kind::Delete), deficit.deletes), (None, deficit.others)] {
        let is_of = |kind: Kind| match of {
            Some(of) => kind.logical() == of,
            None => kind != Kind::Delete && !kind.is_value(),
        };
        let those: Vec<(usize, u64)> = (candidates.iter().enumerate())
            .filter(|(_, (kind, _))| is_of(*kind))
            .map(|(at, (_, term))| (at, *term))
            .collect();
        chosen.extend(choose(&lost, &those)?);
    }
    chosen.sort_unstable();
    Some(chosen)
}

/// Returns the only subset with this count and sum. The search covers subsets of at most two terms, and their
/// complements.
fn choose(lost: &LedgerEntry, terms: &[(usize, u64)]) -> Option<Vec<usize>> {
    let wanted = usize::try_from(lost.count).ok().filter(|wanted| *wanted <= terms.len())?;
    let all = terms.iter().fold(0u64, |sum, (_, term)| sum.wrapping_add(*term));
    let left_out = terms.len() - wanted;
    if left_out == 0 {
        return (all == lost.sum).then(|| terms.iter().map(|(at, _)| *at).collect());
    }
    if wanted <= left_out {
        return few(terms, wanted, lost.sum);
    }
    let out = few(terms, left_out, all.wrapping_sub(lost.sum))?;
    Some(terms.iter().map(|(at, _)| *at).filter(|at| !out.contains(at)).collect())
}

/// Returns the only set of zero, one or two terms with this sum.
fn few(terms: &[(usize, u64)], count: usize, sum: u64) -> Option<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = Vec::new();
    match count {
        0 if sum == 0 => sets.push(Vec::new()),
        1 => sets.extend(terms.iter().filter(|(_, term)| *term == sum).map(|(at, _)| vec![*at])),
        2 if terms.len() <= PAIRED => {
            for (i, (a, x)) in terms.iter().enumerate() {
                sets.extend(
                    terms[i + 1..].iter().filter(|(_, y)| x.wrapping_add(*y) == sum).map(|(b, _)| vec![*a, *b]),
                );
            }
        }
        _ => {}
    }
    match &mut sets[..] {
        [only] => Some(std::mem::take(only)),
        _ => None,
    }
}

/// A piece of a damaged table, in internal key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TablePiece<R> {
    /// A record that was found.
    Record(R),
    /// A gap in which records may have been lost.
    Gap(LostRange),
}

impl TablePiece<OwnedRecord> {
    /// Returns the first position of the piece.
    pub(super) fn begin(&self) -> KeyPosition {
        match self {
            TablePiece::Record(record) => (record.key.clone(), record.seqno),
            TablePiece::Gap(gap) => gap.from.clone(),
        }
    }

    /// Returns the last position of the piece.
    pub(super) fn end(&self) -> KeyPosition {
        match self {
            TablePiece::Record(record) => (record.key.clone(), record.seqno),
            TablePiece::Gap(gap) => gap.to.clone(),
        }
    }
}

/// A position in internal key order.
pub(super) type KeyPosition = (Vec<u8>, Seqno);

/// Returns the span between two records, excluding both; `None` if no position fits between them.
pub(super) fn between(
    order: &Order,
    left: Option<&KeyPosition>,
    right: Option<&KeyPosition>,
    span: &LostRange,
) -> Option<LostRange> {
    let mut lost_range = span.clone();
    if let Some((key, seqno)) = left {
        let behind = match seqno.checked_sub(1) {
            Some(seqno) => (key.clone(), seqno),
            // After seqno 0 no older version exists: the next position is the next key in bytewise order.
            None if order.is_bytewise() => ([&key[..], &[0]].concat(), MAX_SEQNO),
            None => (key.clone(), 0),
        };
        lost_range.from = later(order, lost_range.from, behind);
    }
    if let Some((key, seqno)) = right {
        let before = (key.clone(), seqno.saturating_add(1).min(MAX_SEQNO));
        lost_range.to = earlier(order, lost_range.to, before);
    }
    let is_span =
        order.compare_internal((&lost_range.from.0, lost_range.from.1), (&lost_range.to.0, lost_range.to.1)).is_le();
    is_span.then_some(lost_range)
}

fn later(order: &Order, a: KeyPosition, b: KeyPosition) -> KeyPosition {
    if order.compare_internal((&a.0, a.1), (&b.0, b.1)).is_lt() { b } else { a }
}

fn earlier(order: &Order, a: KeyPosition, b: KeyPosition) -> KeyPosition {
    if order.compare_internal((&a.0, a.1), (&b.0, b.1)).is_gt() { b } else { a }
}

/// Returns true if a record's position and seqno lie in a gap.
pub(super) fn stands_in(order: &Order, gap: &LostRange, key: &[u8], seqno: Seqno) -> bool {
    seqno <= gap.bound
        && order.compare_internal((&gap.from.0, gap.from.1), (key, seqno)).is_le()
        && order.compare_internal((key, seqno), (&gap.to.0, gap.to.1)).is_le()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::checksum::mix;
    use waxseal_lsm::error::Verdict;

    fn gap(from: (&str, Seqno), to: (&str, Seqno)) -> LostRange {
        let place = |(key, seqno): (&str, Seqno)| (key.as_bytes().to_vec(), seqno);
        LostRange {
            from: place(from),
            to: place(to),
            bound: 90,
            file: String::new(),
            offset: 0,
            verdict: Verdict::Seal,
        }
    }

    proptest! {
        #[test]
        fn what_was_lost_is_chosen_and_nothing_else(seed: u64, lost in 0usize..5, others in 0usize..3, deletes in 0usize..3) {
            let term = |n: usize| mix(seed ^ mix(n as u64 + 1));
            let kind = |n: usize| if n < deletes { Kind::Delete } else { Kind::Put };
            let candidates: Vec<(Kind, u64)> = (0..lost + others).map(|n| (kind(n), term(n))).collect();
            let mut deficit = Ledger::default();
            candidates[others..].iter().for_each(|(kind, term)| deficit.add(*kind, *term));
            let expected: Vec<usize> = (others..others + lost).collect();
            prop_assert_eq!(fill(&deficit, &candidates), Some(expected));
            deficit.add(Kind::Put, 77);
            prop_assert_eq!(fill(&deficit, &candidates), None);
        }
    }

    #[test]
    fn two_candidates_are_no_repair() {
        let mut deficit = Ledger::default();
        deficit.add(Kind::Put, 5);
        assert_eq!(fill(&deficit, &[(Kind::Put, 4), (Kind::Put, 5)]), Some(vec![1]));
        assert_eq!(fill(&deficit, &[(Kind::Put, 5), (Kind::Put, 5)]), None);
        assert_eq!(fill(&deficit, &[(Kind::Delete, 5)]), None);
        deficit.add(Kind::Put, 5);
        assert_eq!(fill(&deficit, &[(Kind::Put, 4), (Kind::Put, 6), (Kind::Put, 3), (Kind::Put, 7)]), None);
    }

    #[test]
    fn what_cannot_be_lost_is_no_candidate() {
        let mut deficit = Ledger::default();
        deficit.add(Kind::Put, 5);
        let may = |deficit: &Ledger, kind, term| may_be_lost(deficit, kind, term);
        assert!(may(&deficit, Kind::Put, 5) && may(&deficit, Kind::BlobPointer, 5) && !may(&deficit, Kind::Put, 4));
        assert!(!may(&deficit, Kind::Delete, 5) && !may(&deficit, Kind::Merge, 5));
        deficit.add(Kind::Put, 3);
        assert!(may(&deficit, Kind::Put, 4) && most_candidates(&deficit) == 2 + PAIRED);
    }

    #[test]
    fn a_fence_stands_between_its_neighbours() {
        let order = Order::bytewise();
        let place = |key: &str, seqno| (key.as_bytes().to_vec(), seqno);
        let wide = gap(("a", 50), ("m", 0));
        let lost_range = between(&order, Some(&place("c", 7)), Some(&place("f", 3)), &wide).unwrap();
        assert_eq!((lost_range.from, lost_range.to), (place("c", 6), place("f", 4)));
        assert_eq!(between(&order, None, None, &wide), Some(wide.clone()));
        // No position lies between two consecutive versions.
        assert_eq!(between(&order, Some(&place("c", 7)), Some(&place("c", 6)), &wide), None);
        assert!(stands_in(&order, &wide, b"a", 50) && !stands_in(&order, &wide, b"a", 51));
        assert!(!stands_in(&order, &wide, b"b", 91) && !stands_in(&order, &wide, b"n", 1));
    }

    #[test]
    fn what_stood_beside_records_is_missed_where_it_was_counted() {
        let lost = [(None, 0), (Some(u64::MAX), 3), (Some(3), 3), (Some(3), 4), (Some(3), 1)];
        assert_eq!(lost.map(|(counted, found)| lost_beside(counted, found)), [0, 0, 0, 0, 2]);
    }

    #[test]
    fn gaps_explain_no_more_than_they_have_room_for() {
        let mut lost = Ledger::default();
        lost.add(Kind::Put, 3);
        lost.add(Kind::Put, 4);
        assert!(explains(&lost, true, None, true) && explains(&lost, true, Some(2), true));
        assert!(!explains(&lost, true, Some(1), true) && !explains(&lost, false, None, true));
        // No tombstone is missing, but the sum of the tombstones is wrong: one of them is not the written one.
        lost.deletes.sum = 9;
        assert!(!explains(&lost, true, None, true) && explains(&lost, true, None, false));
        assert!(explains(&Ledger::default(), false, Some(0), true));
    }

    #[test]
    fn a_table_that_does_not_reach_its_own_keys_has_gaps_at_its_ends() {
        let order = Order::bytewise();
        let place = |key: &str, seqno| (key.as_bytes().to_vec(), seqno);
        let all = LostRange::over(b"b", b"x", 90, "t", Verdict::Ledger);
        let ends = |first: &str, last: &str| gaps_at_ends(&order, Some(&(place(first, 7), place(last, 5))), &all);
        assert_eq!(ends("b", "x"), [None, None]);
        let [before, behind] = ends("c", "w").map(Option::unwrap);
        assert_eq!((before.from, before.to), (place("b", MAX_SEQNO), place("c", 8)));
        assert_eq!((behind.from, behind.to), (place("w", 4), place("x", 0)));
        assert_eq!(gaps_at_ends(&order, None, &all), [Some(all.clone()), None]);
    }

    #[test]
    fn a_deficit_is_what_is_missing() {
        let (mut counted, mut found) = (Ledger::default(), Ledger::default());
        counted.add(Kind::Put, 3);
        counted.add(Kind::Put, 4);
        found.add(Kind::Put, 3);
        let missing = deficit(&counted, &found).unwrap();
        assert_eq!((missing.puts.count, missing.puts.sum, is_whole(&missing, true)), (1, 4, false));
        assert_eq!(deficit(&found, &counted), None);
        assert!(is_whole(&deficit(&found, &found).unwrap(), true));
    }
}
