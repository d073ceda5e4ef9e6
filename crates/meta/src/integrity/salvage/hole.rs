//! Records that a table lacks by its own ledger: lost, unless other tables or the log have these very records.
//!
//! Holds:  a table counts its records and sums their seals. Records from elsewhere that fit into its gaps and balance
//!         its ledger are the missing ones. They are searched for only without a manifest, when replaced tables exist
//!         next to their replacements. A seal identifies a record's content but not its time: it may belong to an older
//!         record with the same content, and a version between the two would be the right answer. So only authoritative
//!         records fill a hole: the newest of its key, or one below a version that is newer than everything lost.

use std::collections::{BTreeMap, BTreeSet};

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::Family;
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::interrupt;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record, Seqno, companion};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::sst::ExaminedItem;

use super::super::carry::term;
use super::super::plan::{self, KeyPosition};
use super::super::report::{Finding, Outcome, Rung, Step, finding_of};
use super::Salvage;
use super::unread::Unread;

/// The missing records of a table, and their gaps.
#[derive(Debug)]
pub(super) struct Hole {
    family: u32,
    /// The table's file name.
    file: String,
    gaps: Vec<LostRange>,
    counted: Ledger,
    deficit: Ledger,
    /// Smallest and greatest seqno of the table.
    seqnos: (Seqno, Seqno),
    candidates: Candidates,
    /// Number of missing records with more companions than a seal, if the table counts them.
    beside: u64,
    /// The step that filled the hole; `ReadAgain` means that the table itself was read completely.
    filled: Option<Rung>,
}

impl Hole {
    /// Returns true if a record of the table may have this seqno.
    fn had(&self, seqno: Seqno) -> bool {
        (self.seqnos.0..=self.seqnos.1).contains(&seqno)
    }

    fn is_open(&self) -> bool {
        self.filled.is_none()
    }
}

/// A record that may fill a hole.
#[derive(Clone, Copy, Debug)]
struct HoleCandidate {
    kind: Kind,
    term: u64,
    /// True if its only companion is a seal.
    is_bare: bool,
}

/// Candidates for a hole, at most twice as many as can be distinguished.
#[derive(Debug, Default)]
struct Candidates {
    kept: BTreeMap<KeyPosition, HoleCandidate>,
    /// True if the number of candidates exceeded the limit; then none is kept.
    is_hopeless: bool,
}

impl Candidates {
    /// Adds a candidate. If there are too many, candidates that are no longer authoritative are removed first.
    fn add(&mut self, one: (KeyPosition, HoleCandidate), most: usize, decides: impl Fn(&KeyPosition, u64) -> bool) {
        if self.is_hopeless {
            return;
        }
        self.kept.insert(one.0, one.1);
        if self.kept.len() / 2 > most {
            self.kept.retain(|place, candidate| decides(place, candidate.term));
            if self.kept.len() > most {
                (self.kept, self.is_hopeless) = (BTreeMap::new(), true);
            }
        }
    }
}

impl Salvage<'_> {
    /// Compares the found records of a table with its ledger. Missing records are lost in the gaps. If the gaps do not
    /// explain the deficit (given their `room`), they are lost anywhere in the table (`all`, and its smallest seqno).
    /// If no record is missing, `lost_beside` records may have lost companions; otherwise the missing records had them.
    pub(super) fn closes(
        &mut self,
        id: u32,
        family: &Family,
        (counted, found): (&Ledger, &Ledger),
        (gaps, room): (Vec<LostRange>, Option<u64>),
        (all, least): (&LostRange, Seqno),
        lost_beside: u64,
    ) {
        let summed = self.parts.companions.protection() != Protection::None && counted.has_sums();
        let deficit = plan::deficit(counted, found);
        self.report.structural += gaps.len() as u64;
        if deficit.as_ref().is_some_and(|deficit| plan::is_whole(deficit, summed)) {
            for gap in &gaps {
                let outcome = Outcome::Repaired(Rung::Correction); // nothing was lost after all
                self.report.damage.push(Finding { outcome, ..finding_of(family, gap) });
            }
            if lost_beside > 0 {
                let keys = (all.from.0.clone(), all.to.0.clone());
                let finding = Finding::beside_some(family.name(), keys, lost_beside, self.accepts);
                self.report.damage.push(Finding { file: all.file.clone(), ..finding });
                self.report.lost_beside += lost_beside;
            }
            return;
        }
        let is_explained =
            deficit.as_ref().is_some_and(|deficit| plan::explains(deficit, !gaps.is_empty(), room, summed));
        if let Some(deficit) = deficit.filter(|_| self.state.is_none() && summed && is_explained) {
            let of_family = self.gaps.entry(id).or_default();
            gaps.iter().for_each(|gap| of_family.add(gap.clone(), self.holes.len()));
            let (file, seqnos, candidates) = (all.file.clone(), (least, all.bound), Candidates::default());
            self.holes.push(Hole {
                family: id,
                file,
                gaps,
                counted: *counted,
                deficit,
                seqnos,
                candidates,
                beside: lost_beside,
                filled: None,
            });
            return;
        }
        self.report.lost += deficit.as_ref().map_or(0, Ledger::count);
        gaps.iter().for_each(|gap| self.lost_between(id, family, gap));
        if !is_explained {
            self.report.structural += 1;
            self.lost_between(id, family, all);
        }
    }

    /// Reads a table again for records that others lack, and for records whose first read failed; these are copied now.
    pub(super) fn look_into(&mut self, name: &str) -> Result<()> {
        let Ok(table) = self.open(name, None) else { return Ok(()) };
        let id = table.properties().family;
        // A table whose properties are unreadable now would count as one of the first family.
        if !self.seen.iter().any(|seen| seen.name == name && seen.family == id) {
            return Ok(());
        }
        let Some(family) = self.families.get(&id).map(|into| into.family.clone()) else { return Ok(()) };
        let protector = self.parts.companions.clone();
        let (mut ledger, mut serves, mut taken_with_more) = (Ledger::default(), true, 0);
        table.examine(&*protector, true, &mut |found| {
            interrupt::check()?;
            match found {
                ExaminedItem::Record(record, check, _) => {
                    ledger.add(record.kind, term(&*protector, record, check));
                    serves &= check.serves();
                    let holes = self.holes_about(id, family.order(), record, check);
                    let is_of_it = holes.iter().any(|at| self.holes[*at].file == name);
                    if !holes.is_empty() && !self.is_newest(id, record.key, record.seqno) {
                        taken_with_more += u64::from(is_of_it && !companion::is_bare(record.companion));
                        self.take(id, &family, record, check, false)?;
                    }
                    self.may_fill(&holes, record, check);
                }
                ExaminedItem::Gap(_) | ExaminedItem::Refused { .. } | ExaminedItem::Healed { .. } => {}
            }
            Ok(())
        })?;
        // All counted records were copied, now or earlier, so it need not be decided which of them are authoritative.
        let of_it = self.holes.iter_mut().filter(|hole| serves && hole.file == name && hole.counted == ledger);
        of_it.for_each(|hole| {
            hole.filled = Some(Rung::ReadAgain);
            hole.beside = hole.beside.saturating_sub(taken_with_more);
        });
        Ok(())
    }

    /// Returns the open holes that a log record may fill. Other log records of the tables' time were dropped from the
    /// tables and must not reappear.
    pub(super) fn open_holes(&self, id: u32, record: &Record<'_>) -> Vec<usize> {
        if !self.gaps.contains_key(&id) {
            return Vec::new();
        }
        let mut holes = self.holes_about(id, &self.order_of(id), record, Check::Validated);
        holes.retain(|at| self.holes[*at].is_open());
        if holes.is_empty() {
            return holes;
        }
        let protector = &*self.parts.companions;
        let check = protector.verify(record, hash(record.key), Protection::Partial);
        let term = term(protector, record, check);
        holes.retain(|at| check.serves() && plan::may_be_lost(&self.holes[*at].deficit, record.kind, term));
        holes
    }

    /// Returns the holes that may have contained a record, without duplicates.
    pub(super) fn holes_about(&self, id: u32, order: &Order, record: &Record<'_>, check: Check) -> Vec<usize> {
        let gaps = self.gaps.get(&id).filter(|_| check.serves());
        let around = gaps.into_iter().flat_map(|gaps| gaps.around(order, record.key, record.seqno)).copied();
        let mut holes: Vec<usize> = around.filter(|hole| self.holes[*hole].had(record.seqno)).collect();
        holes.sort_unstable();
        holes.dedup();
        holes
    }

    /// Remembers a copied record as a candidate for these holes. A record without a seal cannot be recognized.
    pub(super) fn may_fill(&mut self, holes: &[usize], record: &Record<'_>, check: Check) {
        if holes.is_empty() {
            return;
        }
        let term = term(&*self.parts.companions, record, check);
        let place = (record.key.to_vec(), record.seqno);
        let one = HoleCandidate { kind: record.kind, term, is_bare: companion::is_bare(record.companion) };
        for at in holes {
            let mut candidates = std::mem::take(&mut self.holes[*at].candidates);
            let hole = &self.holes[*at];
            let decides = |place: &KeyPosition, term| self.decides(hole, place, term);
            if term != 0 && plan::may_be_lost(&hole.deficit, record.kind, term) && decides(&place, term) {
                candidates.add((place.clone(), one), plan::most_candidates(&hole.deficit), decides);
            }
            self.holes[*at].candidates = candidates;
        }
    }

    /// Marks the holes that the copied records fill; `rung` is the place in which they were found.
    pub(super) fn fill_holes(&mut self, rung: Rung) {
        let mut holes = std::mem::take(&mut self.holes);
        for hole in holes.iter_mut().filter(|hole| hole.is_open()) {
            hole.filled = self.filling(hole).map(|_| rung);
        }
        self.holes = holes;
    }

    /// Returns the positions of the other tables' records that fill a hole.
    fn filling(&self, hole: &Hole) -> Option<Vec<KeyPosition>> {
        if hole.filled == Some(Rung::ReadAgain) {
            return Some(Vec::new());
        }
        let deciding = hole.candidates.kept.iter().filter(|(place, one)| self.decides(hole, place, one.term));
        let (places, candidates): (Vec<&KeyPosition>, Vec<(Kind, u64)>) =
            deciding.map(|(place, one)| (place, (one.kind, one.term))).unzip();
        let chosen = plan::fill(&hole.deficit, &candidates)?;
        Some(chosen.into_iter().map(|at| places[at].clone()).collect())
    }

    /// Returns true for a record that was copied or is individually lost, without a known newer version, and for a
    /// record below a version newer than everything in the table.
    fn decides(&self, hole: &Hole, (key, seqno): &KeyPosition, term: u64) -> bool {
        match self.newest.get(&(hole.family, hash(key))) {
            Some((newest, _)) if *newest >= hole.seqnos.1 => true,
            Some((newest, of)) if newest >= seqno => (newest, *of) == (seqno, term),
            _ => self.unread.contains_key(&Unread { family: hole.family, key: key.clone(), seqno: *seqno, term }),
        }
    }

    /// Reports the open holes as lost, and those that a newer version has reopened.
    pub(super) fn close_holes(&mut self) {
        self.gaps.clear();
        let holes = std::mem::take(&mut self.holes);
        let mut chosen = BTreeSet::new();
        for hole in &holes {
            let Some(into) = self.families.get(&hole.family).map(|into| into.family.clone()) else { continue };
            let filling = hole.filled.and_then(|rung| Some((rung, self.filling(hole)?)));
            let Some((rung, filling)) = filling else {
                self.report.lost += hole.deficit.count();
                hole.gaps.iter().for_each(|gap| self.lost_between(hole.family, &into, gap));
                continue;
            };
            self.report_annotations(&into, hole, &filling);
            chosen.extend(filling.into_iter().map(|place| (hole.family, place)));
            for gap in &hole.gaps {
                let steps = vec![Step { rung, helped: true }];
                let finding = finding_of(&into, gap);
                self.report.damage.push(Finding { steps, outcome: Outcome::Repaired(rung), ..finding });
            }
            self.report.repaired += hole.deficit.count();
        }
        self.judge_stand_ins(&holes, &chosen);
    }

    /// Reports lost companions of filled holes. Records from elsewhere may be older ones of the same content, whose
    /// unsealed companions differ. A completely read table may still lack companions by its own count.
    fn report_annotations(&mut self, into: &Family, hole: &Hole, filling: &[KeyPosition]) {
        let with_more = filling.iter().filter(|place| hole.candidates.kept.get(*place).is_some_and(|one| !one.is_bare));
        let records = hole.beside.max(with_more.count() as u64);
        let (Some(first), Some(last)) = (hole.gaps.first(), hole.gaps.last()) else { return };
        if records > 0 {
            let keys = (first.from.0.clone(), last.to.0.clone());
            let mut finding = Finding::beside_some(into.name(), keys, records, self.accepts);
            if !filling.is_empty() {
                finding.message = format!(
                    "what stood beside {records} of the table's records may be gone or older, the records are right"
                );
            }
            self.report.damage.push(Finding { file: hole.file.clone(), ..finding });
            self.report.lost_beside += records;
        }
    }

    /// A log record for a hole that other records filled was not missing there. A table may have dropped it for an
    /// unknown reason, so its key becomes a lost range.
    fn judge_stand_ins(&mut self, holes: &[Hole], chosen: &BTreeSet<(u32, KeyPosition)>) {
        self.sort();
        for ((id, key), (seqno, hole)) in std::mem::take(&mut self.stand_ins) {
            let Some(into) = self.families.get(&id).map(|into| into.family.clone()) else { continue };
            let is_fenced = || self.losses.may_have_had(id, into.order(), &key, seqno);
            let is_chosen = || chosen.contains(&(id, (key.clone(), seqno)));
            if self.is_newest(id, &key, seqno) && !is_chosen() && !is_fenced() {
                let lost_range = LostRange::over(&key, &key, seqno, &holes[hole].file, Verdict::Ledger);
                self.lost_between(id, &into, &lost_range);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_that_decide_no_more_make_room_and_too_many_are_hopeless() {
        let place = |key: u64, seqno| (key.to_le_bytes().to_vec(), seqno);
        let one = HoleCandidate { kind: Kind::Put, term: 7, is_bare: true };
        // Versions of one key, of which the newest is authoritative.
        let mut candidates = Candidates::default();
        for seqno in 1..1000 {
            candidates.add((place(1, seqno), one), 10, |(_, of), _| *of == seqno);
            assert!(candidates.kept.len() < 22 && candidates.kept.contains_key(&place(1, seqno)));
        }
        assert!(!candidates.is_hopeless);
        // The same number of different keys.
        for key in 2..1000 {
            candidates.add((place(key, 1), one), 10, |(key, _), _| *key != 1u64.to_le_bytes());
            assert!(candidates.kept.len() < 22);
        }
        assert!(candidates.is_hopeless && candidates.kept.is_empty());
    }
}
