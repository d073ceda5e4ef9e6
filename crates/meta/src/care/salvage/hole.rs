//! What a table has lost by its own count: lost, unless other tables or the log hold those very records.
//!
//! Holds: a table counts its records and adds up their seals. Records found elsewhere that can have stood in its gaps, and close the count,
//!        are those that it lacks. They are looked for where no manifest says which tables live: then one that was replaced stands
//!        beside those that replaced it.

use std::collections::BTreeMap;

use waxseal_lsm::db::Family;
use waxseal_lsm::error::Result;
use waxseal_lsm::fence::Fence;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::sst::Found;

use super::super::carry::term;
use super::super::plan::{self, Place};
use super::super::report::{Finding, Outcome, Rung, Step, finding_of};
use super::Salvage;

/// What a table lacks, and where it stood.
#[derive(Debug)]
pub(super) struct Hole {
    family: u32,
    gaps: Vec<Fence>,
    deficit: Ledger,
    /// Kind and term of what can have stood there.
    candidates: BTreeMap<Place, (Kind, u64)>,
}

/// The gaps of a family.
pub(super) fn gaps(holes: &[Hole], id: u32) -> impl Iterator<Item = &Fence> {
    holes.iter().filter(move |hole| hole.family == id).flat_map(|hole| &hole.gaps)
}

impl Salvage<'_> {
    /// Holds what was found of a table against what it counts. If something is lost it is lost in the gaps; where there are none,
    /// anywhere in it (`all`). If nothing is, so many records may have lost what stood beside them.
    pub(super) fn closes(
        &mut self,
        id: u32,
        family: &Family,
        (counted, found): (&Ledger, &Ledger),
        gaps: Vec<Fence>,
        (all, lost_beside): (&Fence, u64),
    ) {
        let summed = self.parts.companions.protection() != Protection::None && counted.has_sums();
        let deficit = plan::deficit(counted, found);
        self.report.structural += gaps.len() as u64;
        if deficit.as_ref().is_some_and(|deficit| plan::is_whole(deficit, summed)) {
            for gap in &gaps {
                let outcome = Outcome::Repaired(Rung::Correction); // what seemed lost was never there
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
        if let Some(deficit) = deficit.filter(|_| self.state.is_none() && summed && !gaps.is_empty()) {
            self.holes.push(Hole { family: id, gaps, deficit, candidates: BTreeMap::new() });
            return;
        }
        self.report.lost += deficit.as_ref().map_or(0, Ledger::count);
        gaps.iter().for_each(|gap| self.lost_between(id, family, gap));
        if gaps.is_empty() || deficit.is_none() {
            self.report.structural += 1;
            self.lost_between(id, family, all);
        }
    }

    /// Looks into a table for what others lack.
    pub(super) fn look_into(&mut self, name: &str) -> Result<()> {
        let Ok(table) = self.open(name, None) else { return Ok(()) };
        let id = table.properties().family;
        table.examine(&*self.parts.companions, true, &mut |found| {
            if let Found::Record(record, check, _) = found {
                self.may_fill(id, record, check);
            }
            Ok(())
        })
    }

    /// Keeps a record in mind that can have stood where tables have gaps.
    pub(super) fn may_fill(&mut self, id: u32, record: &Record<'_>, check: Check) {
        if self.holes.is_empty() || !check.serves() {
            return;
        }
        let (order, term) = (self.order_of(id), term(&*self.parts.companions, record, check));
        for hole in self.holes.iter_mut().filter(|hole| hole.family == id) {
            if hole.gaps.iter().any(|gap| plan::stands_in(&order, gap, record.key, record.seqno)) {
                hole.candidates.insert((record.key.to_vec(), record.seqno), (record.kind, term));
            }
        }
    }

    /// What was found whole where `rung` says is not lost: it was taken there.
    pub(super) fn fill_holes(&mut self, rung: Rung) {
        for hole in std::mem::take(&mut self.holes) {
            let candidates: Vec<(Kind, u64)> = hole.candidates.values().copied().collect();
            let Some(into) = self.families.get(&hole.family) else { continue };
            if plan::fill(&hole.deficit, &candidates).is_none() {
                self.holes.push(hole);
                continue;
            }
            for gap in &hole.gaps {
                let steps = vec![Step { rung, helped: true }];
                let finding = finding_of(&into.family, gap);
                self.report.damage.push(Finding { steps, outcome: Outcome::Repaired(rung), ..finding });
            }
            self.report.repaired += hole.deficit.count();
        }
    }

    /// What fills no hole is lost.
    pub(super) fn unfilled(&mut self) {
        for hole in std::mem::take(&mut self.holes) {
            let Some(into) = self.families.get(&hole.family).map(|into| into.family.clone()) else { continue };
            self.report.lost += hole.deficit.count();
            hole.gaps.iter().for_each(|gap| self.lost_between(hole.family, &into, gap));
        }
    }
}
