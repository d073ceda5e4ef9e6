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

impl Unread {
    /// A fence over it.
    fn fence(&self, (file, verdict): &Met) -> Fence {
        Fence::over(&self.key, &self.key, self.seqno, file, *verdict)
    }
}

/// The file in which it could not be had, and why.
pub(super) type Met = (String, Verdict);

impl Salvage<'_> {
    /// A record was met that cannot be had.
    pub(super) fn add_unread(&mut self, id: u32, record: &Record<'_>, check: Check, met: Met) {
        let term = term(&*self.parts.companions, record, check);
        self.unread.insert(Unread { family: id, key: record.key.to_vec(), seqno: record.seqno, term }, met);
    }

    /// True if a record of this key could not be had that is not older than this.
    pub(super) fn is_unread(&self, id: u32, key: &[u8], seqno: Seqno) -> bool {
        let least = Unread { family: id, key: key.to_vec(), seqno, term: 0 };
        self.unread.range(least..).next().is_some_and(|(unread, _)| unread.family == id && unread.key == key)
    }

    /// What was found whole where `rung` says is not lost.
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
            let finding = finding_of(&into.family, &unread.fence(&met));
            self.report.damage.push(Finding { steps, outcome: Outcome::Repaired(rung), ..finding });
            self.report.repaired += 1;
        }
    }

    /// What was not found whole anywhere is lost.
    pub(super) fn not_found_again(&mut self) {
        for (unread, met) in std::mem::take(&mut self.unread) {
            let Some(into) = self.families.get(&unread.family).map(|into| into.family.clone()) else { continue };
            self.report.lost += 1;
            self.lost_between(unread.family, &into, &unread.fence(&met));
        }
    }
}
