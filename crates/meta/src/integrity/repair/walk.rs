//! Reads the readable part of a damaged table, and records which reads fail.
//!
//! In:     a table that is held. Out: its records, the gaps between them, damaged companions, and the blob files to be
//!         rewritten.
//! Holds:  a failed read looks like a gap, so a walk with failed reads is no proof of a gap. Gaps are accepted once two
//!         walks without failed reads agree and no third walk found fewer. Without two such walks, the failed read is
//!         kept in `unseen`, with a flag for inconsistent answers. A record with an unreadable value is kept.

use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{Db, TableRef};
use waxseal_lsm::error::{Error, ErrorKind, Result, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::record::{Kind, OwnedRecord, Record, companion};
use waxseal_lsm::seam::Check;
use waxseal_lsm::sst::{ExaminedItem, Table};

use super::super::plan::{self, TablePiece};
use super::super::report::{Finding, Outcome, Rung, Step, is_unread, ladder_up_to, rung_of};
use super::{TableRepair, lost_range_over};
use crate::rebuild_companions::rebuilt_companions;

/// The table is walked at most this often, until two walks agree.
const WALKS: usize = 4;

/// Opens a damaged table from its readable parts, with a finding about the damage. `None` if nothing is readable.
/// `accepts`: footer, index and properties that never become readable are given up.
fn opened(db: &Db, table: &TableRef, accepts: bool) -> Result<(Option<Arc<Table>>, Option<Finding>)> {
    let rebuilt = |error: &Error, damaged: &[&str]| {
        let mut finding = Finding::of(error, Some(table.family().name()));
        if !damaged.is_empty() {
            finding.message.push_str(&format!("; damaged: {}", damaged.join(", ")));
        }
        finding.steps.push(Step { rung: Rung::Rebuild, helped: true });
        Finding { file: table.name(), outcome: Outcome::Repaired(Rung::Rebuild), ..finding }
    };
    let error = match open_whole(db, table, false) {
        Ok(open) => return Ok((Some(open), None)),
        Err(error) if accepts && is_unread(&error) => {
            for _ in 1..WALKS {
                if let Ok(open) = open_whole(db, table, true) {
                    let anew = open.refused().map(|refused| rebuilt(refused, &[]));
                    return Ok((Some(open), anew));
                }
            }
            error
        }
        Err(error) => error,
    };
    let is_gone = *error.kind() == ErrorKind::Io(std::io::ErrorKind::NotFound);
    if error.is_corruption() || accepts && is_unread(&error) {
        match db.rebuild_table(table) {
            Ok(of_data) => return Ok((Some(of_data.table), Some(rebuilt(&error, &of_data.damaged)))),
            Err(error) if is_unread(&error) => return Err(error), // it cannot be opened
            Err(_) => {}
        }
    } else if !is_gone {
        return Err(error);
    }
    // The index in memory may still be intact.
    match table.table() {
        Err(error) if is_unread(&error) => Err(error),
        open => Ok((open.ok(), None)),
    }
}

/// Opens the table with its complete index; with `by_data`, an unreadable part is replaced from the data.
fn open_whole(db: &Db, table: &TableRef, by_data: bool) -> Result<Arc<Table>> {
    let open = db.open_anew(table)?;
    open.read_guide(by_data)?;
    Ok(open)
}

/// The result of a walk: the gaps in the table, and the failed reads.
#[derive(PartialEq)]
struct TableWalk {
    gaps: Vec<LostRange>,
    refused: Vec<String>,
}

impl TableWalk {
    /// Returns true if this walk found no damage that the other did not. A walk with fewer failed reads may have more
    /// gaps.
    fn is_within(&self, other: &TableWalk) -> bool {
        let has_gaps = || self.gaps == other.gaps || self.gaps.iter().all(|gap| other.gaps.contains(gap));
        self.refused.iter().all(|refused| other.refused.contains(refused))
            && (self.refused.len() < other.refused.len() || has_gaps())
    }
}

impl TableRepair<'_, '_> {
    /// Reads the readable part of the table.
    pub(super) fn walk(&mut self, reported: &[Finding]) -> Result<()> {
        let mut walks: Vec<TableWalk> = Vec::new();
        for _ in 0..WALKS {
            self.walk_once(reported)?;
            let mut gaps = self.gaps();
            gaps.retain(|gap| gap.file == self.table.name()); // gaps of values do not count
            let refused = self.refused.iter().map(|(_, error)| error.to_string()).collect();
            let walk = TableWalk { gaps, refused };
            // Accept a result only if no other walk found less damage.
            let is_least = walks.iter().all(|other| walk.is_within(other));
            let agrees = is_least && walks.contains(&walk);
            match self.refused.pop() {
                None if agrees || walk.gaps.is_empty() => return Ok(()),
                Some((offset, error)) if agrees => {
                    self.refused.push((offset, error.clone()));
                    self.unseen = Some(error);
                    self.varies = self.gives_some() || self.db.read_file(self.table).is_ok();
                    return Ok(());
                }
                _ => walks.push(walk),
            }
        }
        let differs = std::io::Error::other("it does not read the same twice");
        self.unseen = Some(Error::io(format!("reading {}", self.table.name()), differs));
        self.varies = true;
        Ok(())
    }

    /// Returns true if a block whose read failed is readable now.
    fn gives_some(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| self.refused.iter().any(|(offset, _)| open.gives(*offset)))
    }

    fn walk_once(&mut self, reported: &[Finding]) -> Result<()> {
        (self.ledger, self.lost_beside, self.with_more) = (Ledger::default(), 0, 0);
        (self.pieces, self.findings, self.pointers) = Default::default();
        self.collects.clear();
        self.unread_values.clear();
        let (open, finding) = opened(self.db, self.table, self.options.accept_loss)?;
        self.findings.extend(finding);
        self.open = open.clone();
        let refused = open.as_ref().and_then(|open| open.refused());
        self.refused = refused.map(|error| (0, error.clone())).into_iter().collect(); // no block is at offset 0
        for file in self.table.values() {
            if let (Err(error), Some(meta)) = (file.check_ends(), file.meta()) {
                self.leave_values(meta.uid, error);
            }
        }
        let (table, protector) = (self.table, self.protector);
        let Some(open) = open else {
            let meta = table.meta();
            let all =
                LostRange::over(&meta.smallest, &meta.largest, meta.greatest_seqno, &table.name(), Verdict::Missing);
            self.pieces.push(TablePiece::Gap(all));
            self.refused =
                self.db.read_file(table).err().filter(is_unread).map(|error| (0, error)).into_iter().collect();
            return Ok(());
        };
        let examined = open.examine(protector, true, &mut |found| {
            match found {
                ExaminedItem::Record(record, check, source) => self.take(record, check, source.offset),
                ExaminedItem::Gap(lost_range) => self.pieces.push(TablePiece::Gap(lost_range.clone())),
                ExaminedItem::Refused { offset, error } => self.refused.push((offset, error.clone())),
                ExaminedItem::Healed { offset, by } => {
                    let rung = rung_of(by);
                    let at = reported.iter().find(|finding| finding.offset == offset);
                    let message = at
                        .map_or_else(|| "a block did not fit its sum".to_owned(), |reported| reported.message.clone());
                    self.findings.push(Finding {
                        file: table.name(),
                        offset,
                        family: Some(table.family().name().to_owned()),
                        verdict: at.map(|reported| reported.verdict).unwrap_or(Verdict::Checksum),
                        message,
                        steps: ladder_up_to(rung),
                        outcome: Outcome::Repaired(rung),
                        ..Finding::default()
                    });
                }
            }
            Ok(())
        });
        self.add_gaps_at_ends();
        examined
    }

    /// Adds gaps if the table does not begin and end with the keys that the manifest names.
    fn add_gaps_at_ends(&mut self) {
        let ends = self.pieces.first().zip(self.pieces.last()).map(|(first, last)| (first.begin(), last.end()));
        let order = self.table.family().order();
        let [before, behind] = plan::gaps_at_ends(order, ends.as_ref(), &lost_range_over(self.table));
        self.pieces.splice(0..0, before.map(TablePiece::Gap));
        self.pieces.extend(behind.map(TablePiece::Gap));
    }

    /// A damaged blob file is scheduled for rewriting. One that is currently unreadable is not: its values could not be
    /// copied.
    fn leave_values(&mut self, uid: Uid, error: Error) {
        if !is_unread(&error) {
            self.collects.insert(uid);
        } else if self.unread_values.iter().all(|(known, _)| *known != uid) {
            self.unread_values.push((uid, error));
        }
    }

    /// Adds a readable record. A damaged seal is recomputed, and other damaged companions are dropped.
    fn take(&mut self, record: &Record<'_>, check: Check, offset: u64) {
        let mut owned = OwnedRecord::of(record);
        if record.kind == Kind::BlobPointer && !self.has_value(record) {
            self.pointers.push(owned);
            return;
        }
        self.with_more += u64::from(!companion::is_bare(record.companion));
        if check == Check::CompanionDamaged
            && let Some(mended) = rebuilt_companions(self.protector, record)
        {
            owned.companion = mended.companions;
            let family = self.table.family().name();
            let finding = Finding::beside(family, record, &mended.left_out, self.options.accept_loss);
            self.findings.push(Finding { file: self.table.name(), offset, ..finding });
            self.lost_beside += mended.left_out.len() as u64;
        }
        self.ledger.add(owned.kind, self.protector.term(&owned.borrow()));
        self.pieces.push(TablePiece::Record(owned));
    }

    /// Returns false for a record whose value is lost; a gap takes its place.
    fn has_value(&mut self, record: &Record<'_>) -> bool {
        let family = self.table.family();
        let Ok(pointer) = Pointer::decode(record.value) else { return true }; // reported with its own block
        match self.db.look_at_value(family, record, &mut self.room) {
            Ok(None) => {}
            Ok(Some(hit)) => self.leave_values(pointer.uid, hit),
            Err(error) => {
                let Some(damage) = error.damage() else {
                    self.leave_values(pointer.uid, error);
                    return true; // not read: neither right nor damaged
                };
                let place = (record.key.to_vec(), record.seqno);
                self.pieces.push(TablePiece::Gap(LostRange {
                    from: place.clone(),
                    to: place,
                    bound: record.seqno,
                    file: damage.file.clone(),
                    offset: damage.offset,
                    verdict: damage.verdict,
                }));
                return false;
            }
        }
        true
    }

    /// Returns true if a finding remains as it is, because it concerns a blob file with unreadable parts.
    pub(super) fn stays(&self, finding: &Finding) -> bool {
        let is_of = |uid: &Uid| {
            let mut files = self.table.values().iter();
            let file = files.find(|file| file.meta().is_some_and(|meta| meta.uid == *uid));
            file.is_some_and(|file| file.name().to_string() == finding.file)
        };
        self.unread_values.iter().any(|(uid, _)| is_of(uid))
    }
}
