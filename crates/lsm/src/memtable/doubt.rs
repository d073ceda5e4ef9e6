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
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Seqno};

/// So many damaged neighbours are passed over before the fence is drawn to the end of the memtable.
const MOST_NEIGHBOURS: usize = 256;

/// A place in internal order.
type Place = (Vec<u8>, Seqno);

/// Where a damaged record may have stood.
pub(super) struct Doubt {
    /// Its `offset` is the seqno of the record as it is stored, to tell one from another.
    pub(super) fence: Fence,
    /// The key is what was written, and the record where it belongs.
    is_in_place: bool,
}

impl Stand {
    /// What is known of the damaged record here; none: there is no record.
    pub(super) fn doubt(&self, table: &Memtable, judge: Option<&Judge>) -> Option<Doubt> {
        let record = self.record(&table.list)?;
        let (before, behind) = (self.sound_beside(table, judge, false), self.sound_beside(table, judge, true));
        let order = &table.order;
        // A key that became another one of the memtable stands beside that one.
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
        let fence = Fence { from, to, bound, file: String::new(), offset: record.seqno, verdict: Verdict::Seal };
        Some(Doubt { fence, is_in_place })
    }

    /// The fence for a group of the leaf in which a record was hit and may have changed the order; none: there is no such record.
    pub(super) fn doubt_of_group(&self, table: &Memtable, judge: Option<&Judge>, at: usize) -> Option<Fence> {
        let Stand::Leaves(walk) = self else { return None };
        walk.group(at).find_map(|at| {
            let other = Stand::Leaves(walk.moved(at));
            let record = other.record(&table.list)?;
            if judge.is_none_or(|judge| judge.serves(table, &record)) {
                return None;
            }
            other.doubt(table, judge).filter(|doubt| !doubt.is_in_place).map(|doubt| doubt.fence)
        })
    }

    /// What lies between the nearest whole records that are of other groups than the record here. The order of keys within a group goes by their bytes.
    fn around_group(&self, table: &Memtable, judge: Option<&Judge>, key: &[u8]) -> (Place, Place) {
        let (mut first, mut last) = (self.clone(), self.clone());
        if let Stand::Leaves(walk) = self {
            let group = walk.group(walk.at());
            first = Stand::Leaves(walk.moved(group.start));
            last = Stand::Leaves(walk.moved(group.end.saturating_sub(1)));
        }
        let (before, behind) = (first.sound_beside(table, judge, false), last.sound_beside(table, judge, true));
        (begin(before, &table.order, key), end(behind, &table.order, key))
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
            } else if doubtful.is_none()
                && let Some(Doubt { fence, .. }) = at.doubt(table, Some(judge))
            {
                let far_end = if forward { &fence.to } else { &fence.from };
                doubtful = is_reached((&far_end.0, far_end.1)).then(|| at.clone());
            }
            at.step(&table.list, forward);
        }
        doubtful.unwrap_or(at)
    }
}

/// The first place that a damaged record may have had, behind `before`. `key`: what its key is now.
fn begin(before: Option<Place>, order: &Order, key: &[u8]) -> Place {
    match before {
        // Versions of a key are put in order by their seqnos, one of which may have been hit.
        Some((before, _)) if order.compare(&before, key).is_eq() => (before, MAX_SEQNO),
        Some((before, seqno)) => (before, seqno.saturating_sub(1)),
        None if order.is_bytewise() => (Vec::new(), MAX_SEQNO),
        None => (key.to_vec(), MAX_SEQNO),
    }
}

/// The last place, before `behind`.
fn end(behind: Option<Place>, order: &Order, key: &[u8]) -> Place {
    match behind {
        Some((behind, _)) if order.compare(&behind, key).is_eq() => (behind, 0),
        Some((behind, seqno)) => (behind, (seqno + 1).min(MAX_SEQNO)),
        None if order.is_bytewise() => (vec![0xFF; MAX_KEY_BYTES], 0),
        None => (key.to_vec(), 0),
    }
}
