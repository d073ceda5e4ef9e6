//! Families that the caller names, in a salvage without a manifest: their match among the found families is unknown.
//!
//! Holds:  a named family that may be one of the families found by number does not report keys as absent, unless the
//!         loss is accepted. If its order names no last key, no lost range can be set, and the report is the only sign.

use waxseal_lsm::db::Family;
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::names::system_number;
use waxseal_lsm::record::MAX_SEQNO;

use super::super::report::{Finding, Outcome};
use super::{NO_FAMILY, Salvage};

/// Returns true for a family other than the default and the system families: without a manifest its name is lost.
fn has_lost_its_name(id: u32) -> bool {
    id != 0 && system_number(id).is_none()
}

impl Salvage<'_> {
    /// Sets a lost range over all keys of each named family.
    pub(super) fn hold_unclaimed(&mut self) -> Result<()> {
        if self.state.is_some() {
            return Ok(());
        }
        for family in self.db.families().into_iter().filter(|family| has_lost_its_name(family.id())) {
            let working = self.begin_lost_range(&family)?;
            self.unclaimed.push((family, working));
        }
        Ok(())
    }

    /// At the end, keeps a lost range over each named family that may be a found one, or that may have losses, and
    /// reports it.
    pub(super) fn judge_unclaimed(&mut self) -> Result<()> {
        for (family, working) in std::mem::take(&mut self.unclaimed) {
            let names = self.may_be(&family).collect::<Vec<_>>().join(", ");
            let mut lost_ranges = self.losses.lost_ranges(NO_FAMILY, 0, family.order(), self.last).unwrap_or_default();
            if !names.is_empty() {
                let file = self.from.join("CURRENT").display().to_string();
                let all = LostRange::over_all(family.order(), self.last, &file, Verdict::Missing);
                let outcome = match (self.accepts, &all) {
                    (true, _) => Outcome::Accepted,
                    (false, Some(_)) => Outcome::Fenced,
                    (false, None) => Outcome::Reported, // its order names no last key
                };
                let message = format!("without a manifest nobody knows which of these it was: {names}");
                let finding = Finding { message, verdict: Verdict::Missing, outcome, ..Finding::default() };
                let name = Some(family.name().to_owned());
                self.report.damage.push(Finding { file: "CURRENT".to_owned(), family: name, ..finding });
                self.report.structural += 1;
                lost_ranges = all.into_iter().collect();
            }
            if self.accepts {
                lost_ranges.clear();
            }
            self.db.replace_lost_ranges(&family, &working, lost_ranges)?;
        }
        Ok(())
    }

    /// Returns the names of the found families that it may be: those with its order or an unknown one.
    fn may_be<'a>(&'a self, family: &'a Family) -> impl Iterator<Item = &'a str> {
        let found = self.families.iter().filter(|(id, _)| has_lost_its_name(**id));
        let is_other = |id: u32, found: &Family| {
            self.seen.iter().any(|table| table.family == id) && found.order().name() != family.order().name()
        };
        found.filter(move |(id, into)| !is_other(**id, &into.family)).map(|(_, into)| into.family.name())
    }

    /// Returns a name for a family without a known name; it differs from the caller's families.
    pub(super) fn name_of_found(&self, id: u32) -> String {
        let mut name = self.name_of_stray(id).unwrap_or_else(|| format!("family {id}"));
        while has_lost_its_name(id) && self.db.family(&name).is_some() {
            name.push_str(" found");
        }
        name
    }

    /// Sets a lost range over all keys of a family until its salvage is complete; returns the numbers of its lost
    /// ranges.
    pub(super) fn begin_lost_range(&self, family: &Family) -> Result<Vec<u64>> {
        let all = LostRange::over_all(family.order(), MAX_SEQNO, "(a salvage that is not through)", Verdict::Missing);
        self.db.add_lost_ranges(family, all.into_iter().collect())?;
        Ok(self.db.lost_ranges(family).into_iter().map(|(number, _)| number).collect())
    }
}
