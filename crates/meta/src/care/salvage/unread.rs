//! Records that were met and could not be had: lost, unless the very same are found whole elsewhere.
//!
//! Holds: where no manifest says which tables live, one that was replaced holds the same records as those that replaced it, and so may
//!        the log. The same is a record of the same key and seqno under the same seal; without a seal nobody can tell.

use std::collections::BTreeMap;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::error::Verdict;
use waxseal_lsm::fence::Fence;
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::Check;

use super::super::carry::term;
use super::super::report::{Finding, Outcome, Rung, Step, finding_of};
use super::Salvage;

/// A record as it is known again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unread {
    pub(super) family: u32,
    pub(super) key: Vec<u8>,
    pub(super) seqno: Seqno,
    pub(super) term: u64,
}

/// Fences over those of a family.
pub(super) fn of(unread: &BTreeMap<Unread, Fence>, id: u32) -> impl Iterator<Item = &Fence> {
    let first = Unread { family: id, key: Vec::new(), seqno: 0, term: 0 };
    unread.range(first..).take_while(move |(unread, _)| unread.family == id).map(|(_, fence)| fence)
}

impl Salvage<'_> {
    /// A record was met that cannot be had.
    pub(super) fn add_unread(&mut self, id: u32, record: &Record<'_>, check: Check, (file, verdict): (&str, Verdict)) {
        let term = term(&*self.parts.companions, record, check);
        let unread = Unread { family: id, key: record.key.to_vec(), seqno: record.seqno, term };
        self.unread.insert(unread, Fence::over(record.key, record.key, record.seqno, file, verdict));
    }

    /// What was found whole where `rung` says is not lost.
    pub(super) fn found_again(&mut self, rung: Rung) {
        let is_whole = |(unread, _): &(Unread, _)| {
            let Unread { family, key, seqno, term } = unread;
            *term != 0 && self.newest.get(&(*family, hash(key))) == Some(&(*seqno, *term))
        };
        let (whole, unread): (BTreeMap<_, _>, _) = std::mem::take(&mut self.unread).into_iter().partition(is_whole);
        self.unread = unread;
        for (Unread { family, .. }, fence) in whole {
            let Some(into) = self.families.get(&family) else { continue };
            let steps = vec![Step { rung, helped: true }];
            let finding = finding_of(&into.family, &fence);
            self.report.damage.push(Finding { steps, outcome: Outcome::Repaired(rung), ..finding });
            self.report.repaired += 1;
        }
    }

    /// What was not found whole anywhere is lost.
    pub(super) fn not_found_again(&mut self) {
        for (Unread { family, .. }, fence) in std::mem::take(&mut self.unread) {
            let Some(into) = self.families.get(&family).map(|into| into.family.clone()) else { continue };
            self.report.lost += 1;
            self.lost_between(family, &into, &fence);
        }
    }
}
