//! Fill: which of the records that were found elsewhere stood in the gaps, and putting them there.
//!
//! In:     a table that is mended, and records that may have stood in its gaps. Out: those that did, in their places; the gaps around them.
//! Holds:  a record is taken if it and the others are exactly what the table counts and has not, or if a seal in the damaged block speaks
//!         for it; never one of two. A count without sums does not tell a record from an older one that the table had lost before: it
//!         speaks only where nothing else was found, or all that there was.

use std::collections::{HashMap, VecDeque};
use std::iter::Peekable;

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::db::OwnedRecord;
use waxseal_lsm::fence::Fence;
use waxseal_lsm::order::Order;
use waxseal_lsm::pointer::{Pointer, value_hash};
use waxseal_lsm::record::{Kind, Record, Seqno, companion};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::values::Room;

use super::super::plan::{self, Piece, Place};
use super::Mending;

/// True of two records of one place that stand for one value, wherever that stands.
fn say_the_same(a: &OwnedRecord, b: &OwnedRecord) -> bool {
    let value = |record: &OwnedRecord| (record.kind.is_value(), value_hash(record.kind, &record.value).ok());
    a.companion == b.companion && value(a) == value(b)
}

/// True of two records that claim one place.
fn is_twin(a: &Had, b: &Had) -> bool {
    (&a.record.key, a.record.seqno) == (&b.record.key, b.record.seqno)
}

/// A record that can be had, and the value file that it leaves when it is written.
struct Had {
    record: OwnedRecord,
    leaves: Option<Uid>,
}

impl Mending<'_, '_> {
    /// Puts records into the gaps where they were lost: all of them if together they are exactly what the table counts and has not,
    /// else those that a seal in the block speaks for. A gap that every suspect of is found for stays a gap: nobody knows what
    /// else stood in it, until the counts agree. None, if then there were more than the table counts: some had left it before.
    /// `is_counted`: where there are no sums, as many as are missing are those.
    pub(super) fn fill(&mut self, found: Vec<OwnedRecord>, is_counted: bool) {
        let order = self.table.family().order().clone();
        let (gaps, mut room) = (self.spans(), Room::default());
        let in_gaps = |record: &OwnedRecord| gaps.around(&order, &record.key, record.seqno).next().is_some();
        let found = found.into_iter().filter(in_gaps);
        let mut found: Vec<Had> = found.filter_map(|record| self.have(record, &mut room)).collect();
        found.sort_by(|Had { record: a, leaves: from }, Had { record: b, leaves: to }| {
            let places = order.compare_internal((&a.key, a.seqno), (&b.key, b.seqno));
            places.then_with(|| (from.is_some(), &a.value).cmp(&(to.is_some(), &b.value)))
        });
        found.dedup_by(|a, b| is_twin(a, b) && say_the_same(&a.record, &b.record));
        // Two that claim one place are none.
        let is_alone = |at: usize| {
            let twins = |other: Option<&Had>| other.is_some_and(|other| is_twin(other, &found[at]));
            !twins(at.checked_sub(1).and_then(|at| found.get(at))) && !twins(found.get(at + 1))
        };
        let alone: Vec<bool> = (0..found.len()).map(is_alone).collect();
        let mut alone = alone.into_iter();
        found.retain(|_| alone.next() == Some(true));
        let Some(deficit) = self.deficit() else { return };
        let terms: Vec<(Kind, u64)> =
            found.iter().map(|Had { record, .. }| (record.kind, self.keeper.term(&record.borrow()))).collect();
        let chosen = if self.summed() {
            plan::fill(&deficit, &terms)
        } else {
            let are_those = is_counted && deficit.count() == found.len() as u64;
            are_those.then(|| (0..found.len()).collect())
        };
        let chosen = chosen.unwrap_or_else(|| self.spoken_for(&found));
        let mut filled = self.ledger;
        chosen.iter().map(|at| terms[*at]).for_each(|(kind, term)| filled.add(kind, term));
        if plan::deficit(&self.table.meta().ledger, &filled).is_some() {
            let mut chosen = chosen.into_iter().peekable();
            let those = found.into_iter().enumerate().filter(|(at, _)| chosen.next_if_eq(at).is_some());
            let (leaves, records): (Vec<_>, Vec<_>) = those.map(|(_, had)| (had.leaves, had.record)).unzip();
            self.collects.extend(leaves.into_iter().flatten());
            self.insert(records);
        }
    }

    /// A record, if its value can be had. A pointer stays one, so that no more than one value is in memory: its file is held until the
    /// edit. If that must not name the file, or something of the entry was hit, the value leaves it when the table is written.
    fn have(&mut self, record: OwnedRecord, room: &mut Room) -> Option<Had> {
        if record.kind != Kind::BlobPointer {
            return Some(Had { record, leaves: None });
        }
        let uid = Pointer::decode(&record.value).ok()?.uid;
        let stays = self.hold(uid)?;
        let hit = self.as_read(self.db.look_at_value(self.table.family(), &record.borrow(), room))?;
        Some(Had { record, leaves: (hit.is_some() || !stays).then_some(uid) })
    }

    /// Holds a value file; true if the new table may point into it: others do, and its ends are as they were written. None: it is gone.
    fn hold(&mut self, uid: Uid) -> Option<bool> {
        if let Some((_, stays)) = self.pointed.get(&uid) {
            return Some(*stays);
        }
        let file = self.db.value_file(self.table.family(), &uid).ok().flatten()?;
        let stays = file.is_named() && file.check_ends().is_ok();
        self.pointed.insert(uid, (file, stays));
        Some(stays)
    }

    /// Those whose own seal stands in a damaged block, at the same key and seqno.
    fn spoken_for(&self, found: &[Had]) -> Vec<usize> {
        let suspects = self.suspects();
        let mut at_place: HashMap<(&[u8], Seqno), Vec<&OwnedRecord>> = HashMap::new();
        for suspect in &suspects {
            at_place.entry((&suspect.key, suspect.seqno)).or_default().push(suspect);
        }
        let is_spoken_for = |record: &OwnedRecord| {
            at_place.get(&(&record.key[..], record.seqno)).into_iter().flatten().any(|suspect| {
                let claimed = Record { companion: &suspect.companion, ..record.borrow() };
                self.keeper.verify(&claimed, hash_key(&record.key), Protection::Complete) == Check::Validated
            })
        };
        (0..found.len()).filter(|at| is_spoken_for(&found[*at].record)).collect()
    }

    /// Puts records where they belong, those of one order in one pass: the gap of each becomes the gaps around it. None comes behind a
    /// record that stands behind its gap, as newer versions of a key may that two damaged blocks share.
    fn insert(&mut self, records: Vec<OwnedRecord>) {
        let order = self.table.family().order().clone();
        let mut records = records.into_iter().peekable();
        let mut pieces: VecDeque<_> = std::mem::take(&mut self.pieces).into();
        self.pieces.reserve(pieces.len() + 2 * records.len());
        while !pieces.is_empty() {
            let is_record = |piece: &Piece<OwnedRecord>| matches!(piece, Piece::Record(_));
            let gaps = pieces.iter().position(is_record).unwrap_or(pieces.len());
            let behind: Vec<_> = pieces.drain(..gaps).collect();
            let next = pieces.pop_front();
            for piece in behind {
                let Piece::Gap(gap) = piece else { continue };
                self.fill_gap(&order, gap, &mut records, next.as_ref());
            }
            self.pieces.extend(next);
        }
    }

    /// Puts those of the records that come next into a gap, up to a piece that follows.
    fn fill_gap(
        &mut self,
        order: &Order,
        gap: Fence,
        records: &mut Peekable<impl Iterator<Item = OwnedRecord>>,
        next: Option<&Piece<OwnedRecord>>,
    ) {
        let is_before_next = |record: &OwnedRecord| match next {
            Some(Piece::Record(next)) => {
                order.compare_internal((&record.key, record.seqno), (&next.key, next.seqno)).is_lt()
            }
            _ => true,
        };
        let mut rest = Some(gap);
        while let Some(gap) = rest.take() {
            let stands_in = |record: &OwnedRecord| {
                plan::stands_in(order, &gap, &record.key, record.seqno) && is_before_next(record)
            };
            let Some(record) = records.next_if(stands_in) else {
                self.pieces.push(Piece::Gap(gap));
                break;
            };
            let place: Place = (record.key.clone(), record.seqno);
            self.ledger.add(record.kind, self.keeper.term(&record.borrow()));
            self.with_more += u64::from(!companion::is_bare(&record.companion));
            self.pieces.extend(plan::between(order, None, Some(&place), &gap).map(Piece::Gap));
            self.pieces.push(Piece::Record(record));
            rest = plan::between(order, Some(&place), None, &gap);
        }
    }
}
