//! Unreadable records: lost, unless the same records are found intact elsewhere.
//!
//! Holds:  without a manifest, the same record may occur in a replaced table, in its replacements and in the log. Two
//!         records are the same if key, seqno and seal agree; without a seal this cannot be decided.

use std::collections::BTreeMap;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::error::Verdict;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::Check;

use super::super::carry::term;
use super::super::report::{Finding, Outcome, Rung, Step, finding_of};
use super::Salvage;

/// The identity of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unread {
    pub(super) family: u32,
    pub(super) key: Vec<u8>,
    pub(super) seqno: Seqno,
    pub(super) term: u64,
}

impl Unread {
    /// Returns a lost range for the record.
    fn lost_range(&self, (file, verdict): &Met) -> LostRange {
        LostRange::over(&self.key, &self.key, self.seqno, file, *verdict)
    }
}

/// The file with the damage, and its kind.
pub(super) type Met = (String, Verdict);

impl Salvage<'_> {
    /// Remembers an unreadable record.
    pub(super) fn add_unread(&mut self, id: u32, record: &Record<'_>, check: Check, met: Met) {
        let term = term(&*self.parts.companions, record, check);
        self.unread.insert(Unread { family: id, key: record.key.to_vec(), seqno: record.seqno, term }, met);
    }

    /// Returns true if a record of this key with this seqno or a greater one is unreadable.
    pub(super) fn is_unread(&self, id: u32, key: &[u8], seqno: Seqno) -> bool {
        let least = Unread { family: id, key: key.to_vec(), seqno, term: 0 };
        self.unread.range(least..).next().is_some_and(|(unread, _)| unread.family == id && unread.key == key)
    }

    /// Removes the records that were found intact, and reports them as repaired; `rung` is the place in which they were
    /// found.
    pub(super) fn found_again(&mut self, rung: Rung) {
        let is_whole = |(unread, _): &(Unread, Met)| {
            let Unread { family, key, seqno, term } = unread;
            *term != 0 && self.newest.get(&(*family, hash(key))) == Some(&(*seqno, *term))
        };
        let (whole, unread): (BTreeMap<_, _>, _) = std::mem::take(&mut self.unread).into_iter().partition(is_whole);
        self.unread = unread;
        for (unread, met) in whole {
            let Some(into) = self.families.get(&unread.family) else { continue };
            let steps = vec![Step { rung, helped: true }];
            let finding = finding_of(&into.family, &unread.lost_range(&met));
            self.report.damage.push(Finding { steps, outcome: Outcome::Repaired(rung), ..finding });
            self.report.repaired += 1;
        }
    }

    /// Reports the remaining unreadable records as lost.
    pub(super) fn not_found_again(&mut self) {
        for (unread, met) in std::mem::take(&mut self.unread) {
            let Some(into) = self.families.get(&unread.family).map(|into| into.family.clone()) else { continue };
            self.report.lost += 1;
            self.lost_between(unread.family, &into, &unread.lost_range(&met));
        }
    }
}
