//! Records of a memtable that are not what was written: where they may have stood.
//!
//! In:     a record that failed its check, among its neighbours.
//! Out:    a fence over every place that it may have had; the place that a search which met it is to end at.
//! Holds:  records stand in the order that their keys had when they came, whatever became of the bytes since. A damaged record lies between its
//!         nearest neighbours that are whole. If the memtable's filter knows its key, and the key lies between theirs, the fence covers the versions
//!         of that key alone; otherwise the fence covers everything between these neighbours.
//! Costs:  nothing before a check fails; then a few steps beside the record, and for a search a walk from one end.

use std::cmp::Ordering;

use super::Memtable;
use super::cursor::{Judge, Stand};
use crate::checksum::hash_key;
use crate::error::Verdict;
use crate::fence::Fence;
use crate::order::Order;
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};

/// So many damaged neighbours are passed over before the fence is drawn to the end of the memtable.
const MOST_NEIGHBOURS: usize = 256;

/// A place in internal order.
type Place = (Vec<u8>, Seqno);

impl Stand {
    /// The fence for the damaged record here; none: there is no record. Its `offset` is the seqno of the record as it is stored, to tell one from another.
    pub(super) fn doubt(&self, table: &Memtable, judge: Option<&Judge>) -> Option<Fence> {
        let record = self.record(&table.list)?;
        let (before, behind) = (self.sound_beside(table, judge, false), self.sound_beside(table, judge, true));
        let order = &table.order;
        // A key that became another one of the memtable stands beside that one.
        let is_between = before.as_ref().is_none_or(|place| order.compare(&place.0, record.key) == Ordering::Less)
            && behind.as_ref().is_none_or(|place| order.compare(record.key, &place.0) == Ordering::Less);
        let is_known = table.filter.as_ref().is_some_and(|filter| filter.may_hold(hash_key(record.key)));
        let own = (is_known && is_between).then_some(record.key);
        let (from, mut to) = (begin(before, own, order, &record), end(behind, own, order, &record));
        if order.compare_internal((&from.0, from.1), (&to.0, to.1)) == Ordering::Greater {
            to.clone_from(&from);
        }
        let bound = table.greatest_seqno().unwrap_or(record.seqno);
        Some(Fence { from, to, bound, file: String::new(), offset: record.seqno, verdict: Verdict::Seal })
    }

    /// The nearest record in a direction that is what was written.
    fn sound_beside(&self, table: &Memtable, judge: Option<&Judge>, forward: bool) -> Option<Place> {
        let mut at = self.clone();
        for _ in 0..MOST_NEIGHBOURS {
            at.step(&table.list, forward);
            let record = at.record(&table.list)?;
            if judge.is_none_or(|judge| judge.serves(table, &record)) {
                return Some((record.key.to_vec(), record.seqno));
            }
        }
        None
    }

    /// Where a search in a direction is to end, by a look at each record: the first at or behind `place` that is whole, or before it a damaged one
    /// that may have stood at or behind `place`.
    pub(super) fn found(table: &Memtable, judge: &Judge, place: (&[u8], Seqno), forward: bool) -> Stand {
        let order = &table.order;
        // Behind `place` in the direction, or at it.
        let is_reached = |other: (&[u8], Seqno)| {
            let compared = order.compare_internal(other, place);
            compared != if forward { Ordering::Less } else { Ordering::Greater }
        };
        let mut at = Stand::new(table);
        at.go_to_end(&table.list, !forward);
        let mut doubtful: Option<Stand> = None;
        while let Some(record) = at.record(&table.list) {
            if judge.serves(table, &record) {
                if is_reached((record.key, record.seqno)) {
                    break;
                }
                doubtful = None;
            } else if doubtful.is_none()
                && let Some(fence) = at.doubt(table, Some(judge))
            {
                let far_end = if forward { &fence.to } else { &fence.from };
                doubtful = is_reached((&far_end.0, far_end.1)).then(|| at.clone());
            }
            at.step(&table.list, forward);
        }
        doubtful.unwrap_or(at)
    }
}

/// The first place that a damaged record may have had, behind `before`. `own`: its key, if that is what was written.
fn begin(before: Option<Place>, own: Option<&[u8]>, order: &Order, record: &Record<'_>) -> Place {
    match (before, own) {
        (_, Some(own)) => (own.to_vec(), MAX_SEQNO),
        // Versions of a key are put in order by their seqnos, one of which may have been hit.
        (Some((key, _)), None) if order.compare(&key, record.key).is_eq() => (key, MAX_SEQNO),
        (Some((key, seqno)), None) => (key, seqno.saturating_sub(1)),
        (None, None) if order.is_bytewise() => (Vec::new(), MAX_SEQNO),
        (None, None) => (record.key.to_vec(), MAX_SEQNO),
    }
}

/// The last place, before `behind`.
fn end(behind: Option<Place>, own: Option<&[u8]>, order: &Order, record: &Record<'_>) -> Place {
    match (behind, own) {
        (_, Some(own)) => (own.to_vec(), 0),
        (Some((key, _)), None) if order.compare(&key, record.key).is_eq() => (key, 0),
        (Some((key, seqno)), None) => (key, (seqno + 1).min(MAX_SEQNO)),
        (None, None) if order.is_bytewise() => (vec![0xFF; MAX_KEY_BYTES], 0),
        (None, None) => (record.key.to_vec(), 0),
    }
}
