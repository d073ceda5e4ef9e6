//! Determines where a damaged record of a memtable may belong.
//!
//! In:     a record that failed its check, and its neighbors.
//! Out:    a lost range over every place that the record may have had, and the place where a search that encountered it
//! must
//!         end.
//! Holds:  records are ordered by the keys that they had on insertion, whatever became of their bytes since. So a
//!         damaged record lies between its nearest undamaged neighbors. If the memtable's filter contains its key, and
//!         the key lies between those neighbors, the lost range covers only the versions of that key; otherwise the
//!         lost range covers the whole range between the neighbors.
//! Costs:  nothing before a check fails; then a few steps beside the record, and for a search a scan from one end.

use std::cmp::Ordering;

use super::Memtable;
use super::cursor::CursorCheck;
use super::walk::LeafWalk;
use crate::checksum::hash_key;
use crate::error::Verdict;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Seqno};

/// Number of damaged neighbors that are skipped before the lost range is extended to the end of the memtable.
const MOST_NEIGHBOURS: usize = 256;

/// A place in internal order.
type InternalPlace = (Vec<u8>, Seqno);

/// The places where a damaged record may belong.
pub(super) struct SuspectRange {
    /// Its `offset` is the seqno of the stored record, to distinguish it from others.
    pub(super) fence: LostRange,
    /// True if the key is undamaged and the record is in its place.
    is_in_place: bool,
}

impl LeafWalk {
    /// Returns the findings about the damaged record here; `None` if there is no record.
    pub(super) fn suspect(&self, table: &Memtable, judge: Option<&CursorCheck>) -> Option<SuspectRange> {
        let record = self.record(&table.tree)?;
        let (before, behind) = (self.sound_beside(table, judge, false), self.sound_beside(table, judge, true));
        let order = &table.order;
        // A key that was corrupted into another existing key is adjacent to that key.
        let is_between = before.as_ref().is_none_or(|place| order.compare(&place.0, record.key) == Ordering::Less)
            && behind.as_ref().is_none_or(|place| order.compare(record.key, &place.0) == Ordering::Less);
        let is_known = table.filter.as_ref().is_some_and(|filter| filter.may_hold(hash_key(record.key)));
        let is_in_place = is_known && is_between;
        let (from, mut to) = match is_in_place {
            true => ((record.key.to_vec(), MAX_SEQNO), (record.key.to_vec(), 0)),
            false => self.around_group(table, judge, record.key),
        };
        if order.compare_internal((&from.0, from.1), (&to.0, to.1)) == Ordering::Greater {
            to.clone_from(&from);
        }
        let bound = table.greatest_seqno().unwrap_or(record.seqno);
        let fence = LostRange { from, to, bound, file: String::new(), offset: record.seqno, verdict: Verdict::Seal };
        Some(SuspectRange { fence, is_in_place })
    }

    /// Returns the lost range for a group of the leaf in which a corrupted record may have changed the order; `None` if
    /// there is no such record.
    pub(super) fn suspect_of_group(
        &self,
        table: &Memtable,
        judge: Option<&CursorCheck>,
        at: usize,
    ) -> Option<LostRange> {
        self.group(at).find_map(|at| {
            let other = self.moved(at);
            let record = other.record(&table.tree)?;
            if judge.is_none_or(|judge| judge.serves(table, &record)) {
                return None;
            }
            other.suspect(table, judge).filter(|suspect| !suspect.is_in_place).map(|suspect| suspect.fence)
        })
    }

    /// Returns the range between the nearest undamaged records of other groups than this record's. The order of keys
    /// within a group depends on their bytes.
    fn around_group(
        &self,
        table: &Memtable,
        judge: Option<&CursorCheck>,
        key: &[u8],
    ) -> (InternalPlace, InternalPlace) {
        let group = self.group(self.at());
        let (first, last) = (self.moved(group.start), self.moved(group.end.saturating_sub(1)));
        let (before, behind) = (first.sound_beside(table, judge, false), last.sound_beside(table, judge, true));
        (begin(before, &table.order, key), end(behind, &table.order, key))
    }

    /// Returns the place of the nearest undamaged record in a direction.
    fn sound_beside(&self, table: &Memtable, judge: Option<&CursorCheck>, forward: bool) -> Option<InternalPlace> {
        let mut at = self.clone();
        for _ in 0..MOST_NEIGHBOURS {
            at.step(&table.tree, forward);
            let record = at.record(&table.tree)?;
            if judge.is_none_or(|judge| judge.serves(table, &record)) {
                return Some((record.key.to_vec(), record.seqno));
            }
        }
        None
    }

    /// Returns where a search must end, by examining every record: at the first undamaged record at or after `place` in
    /// the direction, or at an earlier damaged record that may have been at or after `place`.
    pub(super) fn found(table: &Memtable, judge: &CursorCheck, place: (&[u8], Seqno), forward: bool) -> LeafWalk {
        let order = &table.order;
        // At or after `place`, in the direction.
        let is_reached = |other: (&[u8], Seqno)| {
            let compared = order.compare_internal(other, place);
            compared != if forward { Ordering::Less } else { Ordering::Greater }
        };
        let mut at = LeafWalk::new();
        at.end(&table.tree, !forward);
        let mut doubtful: Option<LeafWalk> = None;
        while let Some(record) = at.record(&table.tree) {
            if judge.serves(table, &record) {
                if is_reached((record.key, record.seqno)) {
                    break;
                }
            } else if doubtful.is_none()
                && let Some(SuspectRange { fence, .. }) = at.suspect(table, Some(judge))
            {
                let far_end = if forward { &fence.to } else { &fence.from };
                doubtful = is_reached((&far_end.0, far_end.1)).then(|| at.clone());
            }
            at.step(&table.tree, forward);
        }
        doubtful.unwrap_or(at)
    }
}

/// Returns the first possible place of a damaged record, after `before`. `key` is its current key.
fn begin(before: Option<InternalPlace>, order: &Order, key: &[u8]) -> InternalPlace {
    match before {
        // Versions of a key are ordered by their seqnos, one of which may be corrupted.
        Some((before, _)) if order.compare(&before, key).is_eq() => (before, MAX_SEQNO),
        Some((before, seqno)) => (before, seqno.saturating_sub(1)),
        None if order.is_bytewise() => (Vec::new(), MAX_SEQNO),
        None => (key.to_vec(), MAX_SEQNO),
    }
}

/// Returns the last possible place of the damaged record, before `behind`.
fn end(behind: Option<InternalPlace>, order: &Order, key: &[u8]) -> InternalPlace {
    match behind {
        Some((behind, _)) if order.compare(&behind, key).is_eq() => (behind, 0),
        Some((behind, seqno)) => (behind, (seqno + 1).min(MAX_SEQNO)),
        None if order.is_bytewise() => (vec![0xFF; MAX_KEY_BYTES], 0),
        None => (key.to_vec(), 0),
    }
}
