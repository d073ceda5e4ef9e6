//! Decides which records from other places belong in the gaps, and inserts them.
//!
//! In:     a table under repair, and candidate records. Out: the chosen records in their places, and the smaller gaps
//!         around them.
//! Holds:  records are used if together they are exactly those that the table's ledger lacks, or if a seal in the
//!         damaged block confirms them; never one of two candidates. A ledger without sums cannot tell a record from an
//!         older one that the table had dropped before. Its counts decide only if every candidate is used.

use std::collections::{HashMap, VecDeque};
use std::iter::Peekable;

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::order::Order;
use waxseal_lsm::pointer::{Pointer, value_hash};
use waxseal_lsm::record::{Kind, OwnedRecord, Record, Seqno, companion};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::values::BlobBuffer;

use super::super::plan::{self, KeyPosition, TablePiece};
use super::TableRepair;

/// Returns true if two records at one position have the same value, wherever it is stored.
fn say_the_same(a: &OwnedRecord, b: &OwnedRecord) -> bool {
    let value = |record: &OwnedRecord| (record.kind.is_value(), value_hash(record.kind, &record.value).ok());
    a.companion == b.companion && value(a) == value(b)
}

/// Returns true if two records have the same position.
fn is_twin(a: &Had, b: &Had) -> bool {
    (&a.record.key, a.record.seqno) == (&b.record.key, b.record.seqno)
}

/// A candidate with a readable value, and the blob file that its value must be copied from, if any.
struct Had {
    record: OwnedRecord,
    leaves: Option<Uid>,
}

impl TableRepair<'_, '_> {
    /// Inserts records into the gaps: all of them if together they are exactly what the ledger lacks, else those that a
    /// seal in the block confirms. A gap whose known entries are all restored remains a gap until the ledger balances,
    /// because it may have held other records. None are inserted if that would exceed the ledger, since some had left
    /// the table before. `is_counted`: without sums, a matching number of records is sufficient.
    pub(super) fn fill(&mut self, found: Vec<OwnedRecord>, is_counted: bool) {
        let order = self.table.family().order().clone();
        let (gaps, mut room) = (self.spans(), BlobBuffer::default());
        let in_gaps = |record: &OwnedRecord| gaps.around(&order, &record.key, record.seqno).next().is_some();
        let found = found.into_iter().filter(in_gaps);
        let mut found: Vec<Had> = found.filter_map(|record| self.have(record, &mut room)).collect();
        found.sort_by(|Had { record: a, leaves: from }, Had { record: b, leaves: to }| {
            let places = order.compare_internal((&a.key, a.seqno), (&b.key, b.seqno));
            places.then_with(|| (from.is_some(), &a.value).cmp(&(to.is_some(), &b.value)))
        });
        found.dedup_by(|a, b| is_twin(a, b) && say_the_same(&a.record, &b.record));
        // Two candidates for one position are both dropped.
        let is_alone = |at: usize| {
            let twins = |other: Option<&Had>| other.is_some_and(|other| is_twin(other, &found[at]));
            !twins(at.checked_sub(1).and_then(|at| found.get(at))) && !twins(found.get(at + 1))
        };
        let alone: Vec<bool> = (0..found.len()).map(is_alone).collect();
        let mut alone = alone.into_iter();
        found.retain(|_| alone.next() == Some(true));
        let Some(deficit) = self.deficit() else { return };
        let terms: Vec<(Kind, u64)> =
            found.iter().map(|Had { record, .. }| (record.kind, self.protector.term(&record.borrow()))).collect();
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

    /// Returns a record if its value is readable. A pointer stays a pointer, so that at most one value is in memory,
    /// and its blob file is held until the edit. If the new table must not reference the file, or the blob entry is
    /// damaged, the value is copied when the table is written.
    fn have(&mut self, record: OwnedRecord, room: &mut BlobBuffer) -> Option<Had> {
        if record.kind != Kind::BlobPointer {
            return Some(Had { record, leaves: None });
        }
        let uid = Pointer::decode(&record.value).ok()?.uid;
        let stays = self.hold(uid)?;
        let hit = self.as_read(self.db.look_at_value(self.table.family(), &record.borrow(), room))?;
        Some(Had { record, leaves: (hit.is_some() || !stays).then_some(uid) })
    }

    /// Holds a blob file. Returns true if the new table may point into it: it is referenced elsewhere, and header and
    /// end are intact. `None` if it is gone.
    fn hold(&mut self, uid: Uid) -> Option<bool> {
        if let Some((_, stays)) = self.pointed.get(&uid) {
            return Some(*stays);
        }
        let file = self.db.value_file(self.table.family(), &uid).ok().flatten()?;
        let stays = file.is_named() && file.check_ends().is_ok();
        self.pointed.insert(uid, (file, stays));
        Some(stays)
    }

    /// Returns the candidates whose seal is in a damaged block, at the same key and seqno.
    fn spoken_for(&self, found: &[Had]) -> Vec<usize> {
        let suspects = self.suspects();
        let mut at_place: HashMap<(&[u8], Seqno), Vec<&OwnedRecord>> = HashMap::new();
        for suspect in &suspects {
            at_place.entry((&suspect.key, suspect.seqno)).or_default().push(suspect);
        }
        let is_spoken_for = |record: &OwnedRecord| {
            at_place.get(&(&record.key[..], record.seqno)).into_iter().flatten().any(|suspect| {
                let claimed = Record { companion: &suspect.companion, ..record.borrow() };
                self.protector.verify(&claimed, hash_key(&record.key), Protection::Complete) == Check::Validated
            })
        };
        (0..found.len()).filter(|at| is_spoken_for(&found[*at].record)).collect()
    }

    /// Inserts records of one order in one pass: the gap of each becomes the gaps around it. A record is never inserted
    /// behind the record that follows its gap; newer versions of a key that two damaged blocks share would otherwise
    /// be.
    fn insert(&mut self, records: Vec<OwnedRecord>) {
        let order = self.table.family().order().clone();
        let mut records = records.into_iter().peekable();
        let mut pieces: VecDeque<_> = std::mem::take(&mut self.pieces).into();
        self.pieces.reserve(pieces.len() + 2 * records.len());
        while !pieces.is_empty() {
            let is_record = |piece: &TablePiece<OwnedRecord>| matches!(piece, TablePiece::Record(_));
            let gaps = pieces.iter().position(is_record).unwrap_or(pieces.len());
            let behind: Vec<_> = pieces.drain(..gaps).collect();
            let next = pieces.pop_front();
            for piece in behind {
                let TablePiece::Gap(gap) = piece else { continue };
                self.fill_gap(&order, gap, &mut records, next.as_ref());
            }
            self.pieces.extend(next);
        }
    }

    /// Inserts the next records that fit into a gap, before the following piece.
    fn fill_gap(
        &mut self,
        order: &Order,
        gap: LostRange,
        records: &mut Peekable<impl Iterator<Item = OwnedRecord>>,
        next: Option<&TablePiece<OwnedRecord>>,
    ) {
        let is_before_next = |record: &OwnedRecord| match next {
            Some(TablePiece::Record(next)) => {
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
                self.pieces.push(TablePiece::Gap(gap));
                break;
            };
            let place: KeyPosition = (record.key.clone(), record.seqno);
            self.ledger.add(record.kind, self.protector.term(&record.borrow()));
            self.with_more += u64::from(!companion::is_bare(&record.companion));
            self.pieces.extend(plan::between(order, None, Some(&place), &gap).map(TablePiece::Gap));
            self.pieces.push(TablePiece::Record(record));
            rest = plan::between(order, Some(&place), None, &gap);
        }
    }
}
