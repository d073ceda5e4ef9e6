//! Fill: which of the records that were found elsewhere stood in the gaps, and putting them there.
//!
//! In:     a table that is mended, and records that may have stood in its gaps. Out: those that did, in their places; the gaps around them.
//! Holds:  a record is taken if it and the others are exactly what the table counts and has not, or if a seal in the damaged block speaks
//!         for it; never one of two. A count without sums does not tell a record from an older one that the table had lost before: it
//!         speaks of what memory and the log have, and of nothing from the trash.

use std::sync::Arc;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::OwnedRecord;
use waxseal_lsm::pointer::{Pointer, value_hash};
use waxseal_lsm::record::{Kind, Record, companion};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::values::{Room, ValueFile};

use super::super::plan::{self, Piece, Place};
use super::super::report::Rung;
use super::Mending;

/// True of two records of one place that stand for one value, wherever that stands.
fn say_the_same(a: &OwnedRecord, b: &OwnedRecord) -> bool {
    let value = |record: &OwnedRecord| (record.kind.is_value(), value_hash(record.kind, &record.value).ok());
    a.companion == b.companion && value(a) == value(b)
}

impl Mending<'_, '_> {
    /// Puts records into the gaps where they were lost: all of them if together they are exactly what the table counts and has not,
    /// else those that a seal in the block speaks for. A gap that every suspect of is found for stays a gap: nobody knows what
    /// else stood in it, until the counts agree. None, if then there were more than the table counts: some had left it before.
    pub(super) fn fill(&mut self, found: Vec<OwnedRecord>, rung: Rung) {
        let order = self.table.family().order().clone();
        let (gaps, mut room) = (self.gaps(), Room::default());
        let in_gaps =
            |record: &OwnedRecord| gaps.iter().any(|gap| plan::stands_in(&order, gap, &record.key, record.seqno));
        let found = found.into_iter().filter(in_gaps);
        let mut found: Vec<OwnedRecord> = found.filter_map(|record| self.on_its_own(record, &mut room)).collect();
        found.sort_by(|a, b| {
            order.compare_internal((&a.key, a.seqno), (&b.key, b.seqno)).then_with(|| a.value.cmp(&b.value))
        });
        let same = |a: &OwnedRecord, b: &OwnedRecord| (&a.key, a.seqno) == (&b.key, b.seqno);
        found.dedup_by(|a, b| same(a, b) && say_the_same(a, b));
        // Two that claim one place are none.
        let alone = |at: usize| {
            let twin = |other: Option<&OwnedRecord>| other.is_some_and(|other| same(other, &found[at]));
            !twin(at.checked_sub(1).and_then(|at| found.get(at))) && !twin(found.get(at + 1))
        };
        let found: Vec<OwnedRecord> = (0..found.len()).filter(|at| alone(*at)).map(|at| found[at].clone()).collect();
        let Some(deficit) = self.deficit() else { return };
        let terms: Vec<(Kind, u64)> =
            found.iter().map(|record| (record.kind, self.keeper.term(&record.borrow()))).collect();
        let chosen = if self.summed() {
            plan::fill(&deficit, &terms)
        } else {
            let are_those = rung < Rung::Trash && deficit.count() == found.len() as u64;
            are_those.then(|| (0..found.len()).collect())
        };
        let chosen = chosen.unwrap_or_else(|| self.spoken_for(&found));
        let mut filled = self.ledger;
        chosen.iter().map(|at| terms[*at]).for_each(|(kind, term)| filled.add(kind, term));
        if plan::deficit(&self.table.meta().ledger, &filled).is_some() {
            chosen.into_iter().for_each(|at| self.insert(found[at].clone()));
        }
    }

    /// A record as it may stand in another table; none: its value cannot be had. A pointer stays one only into a file that this
    /// table holds, and if all of its entry is as it was written: any other file may be gone before the edit that would name it.
    fn on_its_own(&mut self, record: OwnedRecord, room: &mut Room) -> Option<OwnedRecord> {
        if record.kind != Kind::BlobPointer {
            return Some(record);
        }
        let pointer = Pointer::decode(&record.value).ok()?;
        let (db, family) = (self.db, self.table.family());
        let is_held = |file: &Arc<ValueFile>| file.meta().is_some_and(|meta| meta.uid == pointer.uid);
        if self.table.values().iter().any(is_held)
            && let Some(None) = self.as_read(db.look_at_value(family, &record.borrow(), room))
        {
            return Some(record);
        }
        let whole = self.as_read(db.resolve(family, &record.borrow(), room))?;
        Some(OwnedRecord::of(&whole))
    }

    /// Those whose own seal stands in a damaged block, at the same key and seqno.
    fn spoken_for(&self, found: &[OwnedRecord]) -> Vec<usize> {
        let suspects = self.suspects();
        let is_spoken_for = |record: &OwnedRecord| {
            suspects.iter().any(|suspect| {
                let claimed = Record { companion: &suspect.companion, ..record.borrow() };
                (&suspect.key, suspect.seqno) == (&record.key, record.seqno)
                    && self.keeper.verify(&claimed, hash_key(&record.key), Protection::Complete) == Check::Validated
            })
        };
        (0..found.len()).filter(|at| is_spoken_for(&found[*at])).collect()
    }

    /// Puts a record where it belongs: its gap becomes the gaps around it.
    fn insert(&mut self, record: OwnedRecord) {
        let order = self.table.family().order().clone();
        let holds = |piece: &Piece<OwnedRecord>| match piece {
            Piece::Gap(gap) => plan::stands_in(&order, gap, &record.key, record.seqno),
            Piece::Record(_) => false,
        };
        let Some(at) = self.pieces.iter().position(holds) else { return };
        let Piece::Gap(gap) = self.pieces[at].clone() else { return };
        let place: Place = (record.key.clone(), record.seqno);
        self.ledger.add(record.kind, self.keeper.term(&record.borrow()));
        self.with_more += u64::from(!companion::is_bare(&record.companion));
        let left = plan::between(&order, None, Some(&place), &gap).map(Piece::Gap);
        let right = plan::between(&order, Some(&place), None, &gap).map(Piece::Gap);
        self.pieces.splice(at..=at, left.into_iter().chain([Piece::Record(record)]).chain(right));
    }
}
