//! Repairs damaged tables step by step; records that no step restores leave a lost range.
//!
//! In:     an open store, and optionally a source that may have the lost records.
//! Out:    every damaged table is replaced by a table of its intact and restored records, in one manifest edit with the
//!         lost ranges. The report lists every step.
//! Holds:  a record is used only if its seal confirms it, or if the table's ledger (counts and sums by kind, kept in
//!         the manifest) shows that exactly this record is missing. Older versions are never used, and neither is one
//!         of two candidates.
//! Crash:  each table is either unchanged or replaced.
//!
//! ```text
//! read again, correction   done by the walk over the table
//! rebuild                  index, filter, properties and footer are rebuilt from the data
//! memory, log, trash, source, handler
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::cursor::ListCursor;
use waxseal_lsm::db::{Db, Family, HeldTables, Replacement, TableRef};
use waxseal_lsm::error::{Error, ErrorKind, Result, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::planted;
use waxseal_lsm::record::{OwnedRecord, Seqno};
use waxseal_lsm::seam::{Companions, Protection};
use waxseal_lsm::sst::Table;
use waxseal_lsm::values::{BlobBuffer, BlobFile};

mod elsewhere;
mod fill;
mod walk;

use super::options::{Corrupted, Decision, Progress, RepairOptions, goes_on};
use super::plan::{self, KeyPosition, TablePiece};
use super::report::{Finding, Outcome, Report, Rung, Step, finding_of, is_unread};
use super::spans::Spans;
use super::table_queue::{TableQueue, TableStep};
use super::verify::look_at;

/// Repairs every damaged table of a store; with `accept_loss` it also removes every lost range. Damage that cannot be
/// repaired is reported. Errors: only if the store itself fails (`Io`, `Halted`, `ReadOnly`, `Closed`).
pub(super) fn repair(db: &Db, mut options: RepairOptions<'_>) -> Result<Report> {
    let mut report = Report::default();
    let families = db.families();
    let mut waiting = Vec::new();
    for family in &families {
        waiting.push(TableQueue::of(db, family)?);
    }
    let total = waiting.iter().map(TableQueue::bytes).sum();
    let mut progress = Progress { total, ..Progress::default() };
    for (family, queue) in families.iter().zip(&mut waiting) {
        let (quarantined, mut kept) = (db.quarantined_tables(family), BTreeSet::new());
        while let Some(TableStep { bytes, table, .. }) = queue.next_table(db)? {
            let mut ended = Ended::Done;
            if let Some(table) = &table {
                ended = repair_table(db, table, quarantined.contains(&table.meta().number), &options, &mut report)?;
                if ended == Ended::PutOff {
                    kept.extend(own_lost_ranges(db, table));
                }
            }
            progress.done += bytes;
            progress.found = report.damage.len() as u64;
            if ended == Ended::All || !goes_on(&mut options.progress, progress) {
                report.cancelled = true;
                return Ok(report);
            }
        }
        if options.accept_loss {
            lift_lost_ranges(db, family, &kept, &mut report)?;
        }
    }
    Ok(report)
}

fn lift_lost_ranges(db: &Db, family: &Family, kept: &BTreeSet<u64>, report: &mut Report) -> Result<()> {
    let mut lost_ranges = db.lost_ranges(family);
    lost_ranges.retain(|(number, _)| !kept.contains(number));
    if lost_ranges.is_empty() {
        return Ok(());
    }
    let numbers: Vec<u64> = lost_ranges.iter().map(|(number, _)| *number).collect();
    db.lift_lost_ranges(family, &numbers)?;
    for (_, lost_range) in &lost_ranges {
        report.damage.push(Finding { outcome: Outcome::Accepted, ..finding_of(family, lost_range) });
    }
    Ok(())
}

/// How the repair of a table ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The repair is complete.
    Done,
    /// Postponed to another run: a place that may have the lost records could not be read.
    PutOff,
    /// The whole repair run ends.
    All,
}

/// Checks a table and repairs it if it is damaged.
pub(super) fn repair_table(
    db: &Db,
    table: &TableRef,
    is_quarantined: bool,
    options: &RepairOptions<'_>,
    report: &mut Report,
) -> Result<Ended> {
    let (found, lost, unread) = (report.damage.len(), report.lost, report.unread);
    look_at(db, table, report, &mut |_| Ok(()))?;
    let is_unread_alone = report.damage[found..].iter().all(|finding| finding.outcome == Outcome::Unread);
    if report.unread > unread && is_unread_alone && !options.accept_loss {
        return Ok(Ended::Done); // unreadable data counts neither as right nor as damaged
    }
    let family = table.family();
    let number = table.meta().number;
    if report.damage.len() == found {
        if is_quarantined {
            db.lift_lost_ranges(family, &own_lost_ranges(db, table))?;
            db.free_tables(family, &[number])?;
        }
        return Ok(Ended::Done);
    }
    // From here on no compaction uses the table. An earlier one has
    // replaced it, perhaps with its damage.
    let Some(held) = db.hold_tables(family, &[number])? else { return Ok(Ended::Done) };
    // The repair itself reports the findings of the check, place by place.
    let mut reported = report.damage.split_off(found);
    reported.retain(|finding| finding.outcome != Outcome::Unread);
    (report.lost, report.unread) = (lost, unread);
    match TableRepair::begin(db, table, options, reported) {
        Err(error) if is_unread(&error) => {
            report.unread += 1;
            report.damage.push(Finding { file: table.name(), ..Finding::of(&error, Some(family.name())) });
            Ok(Ended::PutOff)
        }
        table_repair => table_repair?.finish(held, report),
    }
}

/// Returns a lost range over the whole table, for a loss at an unknown position.
fn lost_range_over(table: &TableRef) -> LostRange {
    let meta = table.meta();
    LostRange::over(&meta.smallest, &meta.largest, meta.greatest_seqno, &table.name(), Verdict::Ledger)
}

/// Returns the numbers of the lost ranges that cover exactly this table.
fn own_lost_ranges(db: &Db, table: &TableRef) -> Vec<u64> {
    let own = lost_range_over(table);
    let lost_ranges = db.lost_ranges(table.family());
    lost_ranges.into_iter().filter(|(_, lost_range)| *lost_range == own).map(|(number, _)| number).collect()
}

/// Returns the earlier gaps that are closed now.
fn healed(before: Vec<LostRange>, left: &[LostRange]) -> Vec<LostRange> {
    let left: HashSet<(&KeyPosition, &KeyPosition)> = left.iter().map(|gap| (&gap.from, &gap.to)).collect();
    before.into_iter().filter(|gap| !left.contains(&(&gap.from, &gap.to))).collect()
}

/// The repair of one damaged table.
struct TableRepair<'a, 'o> {
    db: &'a Db,
    protector: &'a dyn Companions,
    table: &'a TableRef,
    /// The table, opened from its readable parts; `None` if nothing is readable.
    open: Option<Arc<Table>>,
    options: &'a RepairOptions<'o>,
    pieces: Vec<TablePiece<OwnedRecord>>,
    findings: Vec<Finding>,
    /// Steps that were tried for the remaining losses.
    steps: Vec<Step>,
    /// Reads of the table that failed in the last walk, with the offset of the block.
    refused: Vec<(u64, Error)>,
    /// A read of the table that still failed in the last walk; the lost records may be there.
    unseen: Option<Error>,
    /// The device answers inconsistently, or by now completely: another run may succeed.
    varies: bool,
    /// The first failed read of another place that may have the lost records.
    unread: Option<Error>,
    /// The error of the source, which may have the lost records.
    unanswered: Option<Error>,
    /// The source ended the repair; it is not called again.
    is_interrupted: bool,
    /// Blob files with unreadable parts, each with its first error.
    unread_values: Vec<(Uid, Error)>,
    ledger: Ledger,
    /// Number of entries and stamps that were dropped.
    lost_beside: u64,
    /// Number of found records with more companions than a seal word.
    with_more: u64,
    /// Pointers whose values are lost; each one leaves a gap until its value is found.
    pointers: Vec<OwnedRecord>,
    /// Blob files that are damaged or not otherwise referenced: their readable values are rewritten.
    collects: BTreeSet<Uid>,
    /// Blob files of records that were found elsewhere, held until the edit, each with true if the new table may point
    /// into it.
    pointed: BTreeMap<Uid, (Arc<BlobFile>, bool)>,
    room: BlobBuffer,
}

impl<'a, 'o> TableRepair<'a, 'o> {
    /// Reads the readable parts of a table.
    fn begin(
        db: &'a Db,
        table: &'a TableRef,
        options: &'a RepairOptions<'o>,
        reported: Vec<Finding>,
    ) -> Result<TableRepair<'a, 'o>> {
        let mut table_repair = TableRepair {
            db,
            protector: db.companions(),
            table,
            open: None,
            options,
            pieces: Vec::new(),
            findings: Vec::new(),
            steps: Vec::new(),
            refused: Vec::new(),
            unseen: None,
            varies: false,
            unread: None,
            unanswered: None,
            is_interrupted: false,
            unread_values: Vec::new(),
            ledger: Ledger::default(),
            lost_beside: 0,
            with_more: 0,
            pointers: Vec::new(),
            collects: BTreeSet::new(),
            pointed: BTreeMap::new(),
            room: BlobBuffer::default(),
        };
        table_repair.walk(&reported)?;
        // The remaining findings are fixed by rewriting the table: a filter, properties, or a checksum mismatch of an
        // intact block.
        let mut met: HashSet<u64> = table_repair.gaps().iter().map(|gap| gap.offset).collect();
        met.extend(table_repair.findings.iter().map(|finding| finding.offset));
        for mut finding in reported.into_iter().filter(|finding| !met.contains(&finding.offset)) {
            if !table_repair.stays(&finding) {
                finding.steps.push(Step { rung: Rung::Rebuild, helped: true });
                finding.outcome = Outcome::Repaired(Rung::Rebuild);
            }
            table_repair.findings.push(finding);
        }
        Ok(table_repair)
    }

    /// Returns true if the table's ledger has sums that match its companions.
    fn summed(&self) -> bool {
        self.protector.protection() != Protection::None && self.table.meta().ledger.has_sums()
    }

    fn deficit(&self) -> Option<Ledger> {
        plan::deficit(&self.table.meta().ledger, &self.ledger)
    }

    fn gaps(&self) -> Vec<LostRange> {
        let gap = |piece: &TablePiece<OwnedRecord>| match piece {
            TablePiece::Gap(lost_range) => Some(lost_range.clone()),
            TablePiece::Record(_) => None,
        };
        self.pieces.iter().filter_map(gap).collect()
    }

    /// Returns the gaps, for look-ups by position.
    fn spans(&self) -> Spans<()> {
        let mut spans = Spans::default();
        self.gaps().into_iter().for_each(|gap| spans.add(gap, ()));
        spans.sort(self.table.family().order());
        spans
    }

    /// Returns true once the table's ledger balances. Then nothing is lost, and the gaps are removed.
    fn is_whole(&mut self) -> bool {
        let whole = self.deficit().is_some_and(|deficit| plan::is_whole(&deficit, self.summed()));
        if whole {
            self.pieces.retain(|piece| matches!(piece, TablePiece::Record(_)));
        }
        whole
    }

    /// If all records were found, the unread part of the table does not matter, unless it holds the count of records
    /// with extra companions.
    fn sees_enough(&mut self) {
        if self.counted_beside() != Some(u64::MAX) {
            self.unseen = None;
        }
    }

    /// Tries the steps that read other places. A place that cannot be read does not end the repair, since a later one
    /// may have the records.
    fn climb(&mut self) -> Result<()> {
        let lost = self.gaps();
        if self.is_whole() {
            self.healed(&lost, Rung::Correction); // nothing was lost after all
            self.sees_enough();
            return Ok(());
        }
        if lost.is_empty() {
            return Ok(()); // there is no position to look for
        }
        self.steps =
            vec![Step { rung: Rung::ReadAgain, helped: false }, Step { rung: Rung::Correction, helped: false }];
        let is_whole = self.climb_once()?;
        if !is_whole
            && !self.is_interrupted
            && (self.unread.is_some() || self.unanswered.is_some())
            && self.options.accept_loss
        {
            // One failed read, or one failed call of the source, is not enough to give records up: try once more.
            (self.unread, self.unanswered) = (None, None);
            self.climb_once()?;
        }
        Ok(())
    }

    /// Returns true once nothing is lost.
    fn climb_once(&mut self) -> Result<bool> {
        for rung in [Rung::Memory, Rung::Log, Rung::Trash, Rung::Source] {
            let (found, is_counted) = match rung {
                Rung::Memory => (self.in_memory()?, true), // copies of the same block
                Rung::Log => self.in_log(),
                Rung::Trash => match &self.options.trash {
                    Some(dir) => (self.in_trash(dir)?, false),
                    None => continue,
                },
                _ => match self.options.source {
                    Some(_) => (self.at_source(), false),
                    None => continue,
                },
            };
            let before = self.gaps();
            self.fill(found, is_counted);
            let whole = self.is_whole();
            let healed = healed(before, &self.gaps());
            let helped = whole || !healed.is_empty();
            self.healed(&healed, rung);
            self.steps.push(Step { rung, helped });
            if whole {
                (self.unread, self.unanswered) = (None, None); // not needed anymore
                self.sees_enough();
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn healed(&mut self, gaps: &[LostRange], rung: Rung) {
        for gap in gaps {
            let steps = self.steps.iter().copied().chain([Step { rung, helped: true }]).collect();
            let outcome = Outcome::Repaired(rung);
            self.findings.push(Finding { steps, outcome, ..finding_of(self.table.family(), gap) });
        }
    }

    /// Returns readable entries of damaged blocks that no seal confirms, and pointers whose values are lost.
    fn suspects(&self) -> Vec<OwnedRecord> {
        let mut suspects = self.suspects_in_blocks();
        suspects.extend(self.lost_pointers().cloned());
        suspects
    }

    fn suspects_in_blocks(&self) -> Vec<OwnedRecord> {
        let mut offsets: Vec<u64> = self.gaps().iter().map(|gap| gap.offset).collect();
        offsets.dedup();
        let found = self.found();
        offsets.into_iter().flat_map(|offset| self.suspects_at(offset, &found)).collect()
    }

    /// Returns the pointers whose values have not been found yet.
    fn lost_pointers(&self) -> impl Iterator<Item = &OwnedRecord> {
        let found = if self.pointers.is_empty() { HashSet::new() } else { self.found() };
        self.pointers.iter().filter(move |pointer| !found.contains(&(&pointer.key[..], pointer.seqno)))
    }

    /// Returns the positions of all found records.
    fn found(&self) -> HashSet<(&[u8], Seqno)> {
        let records = self.pieces.iter().filter_map(|piece| match piece {
            TablePiece::Record(record) => Some(record),
            TablePiece::Gap(_) => None,
        });
        records.map(|record| (&record.key[..], record.seqno)).collect()
    }

    fn suspects_at(&self, offset: u64, found: &HashSet<(&[u8], Seqno)>) -> Vec<OwnedRecord> {
        let mut suspects = Vec::new();
        if let Some(open) = &self.open {
            open.suspects(offset, &mut |record| suspects.push(OwnedRecord::of(record)));
        }
        suspects.retain(|suspect| !found.contains(&(&suspect.key[..], suspect.seqno)));
        suspects
    }

    /// Returns the table's count of records with more companions than a seal word.
    fn counted_beside(&self) -> Option<u64> {
        self.open.as_ref().and_then(|open| open.properties().beside)
    }

    /// If every record was found, counts the records whose extra companions are gone; the ledger does not cover these.
    fn count_beside(&mut self) {
        let is_whole = self.deficit().is_some_and(|deficit| plan::is_whole(&deficit, self.summed()));
        let lost = plan::lost_beside(self.counted_beside(), self.with_more);
        if is_whole && lost > 0 {
            let meta = self.table.meta();
            let (family, keys) = (self.table.family().name(), (meta.smallest.clone(), meta.largest.clone()));
            let finding = Finding::beside_some(family, keys, lost, self.options.accept_loss);
            self.findings.push(Finding { file: self.table.name(), ..finding });
            self.lost_beside += lost;
        }
    }

    /// Runs the steps, then replaces the table if that is necessary and no unread place may still have lost records.
    /// Reports failed reads.
    fn finish(mut self, held: HeldTables<'_>, report: &mut Report) -> Result<Ended> {
        self.climb()?;
        if self.is_interrupted {
            self.put_off(report);
            return Ok(Ended::All);
        }
        self.collects.retain(|uid| self.unread_values.iter().all(|(unread, _)| unread != uid));
        // If a device never answers, its data may be given up; if it may still answer, the repair waits. For an
        // unanswered source, the handler may decide.
        let may_be_given = self.unseen.is_some() && self.varies;
        let is_awaited = self.unseen.is_some()
            || self.unread.is_some()
            || self.unanswered.is_some() && self.options.handler.is_none();
        let values = std::mem::take(&mut self.unread_values).into_iter().map(|(_, error)| error);
        let others = [self.unseen.take(), self.unread.take(), self.unanswered.take()];
        let family = self.table.family().name();
        let unread: Vec<Finding> =
            values.chain(others.into_iter().flatten()).map(|error| Finding::of(&error, Some(family))).collect();
        let ends = match is_awaited && (may_be_given || !self.options.accept_loss) {
            true => self.put_off(report),
            false if self.is_as_it_was() => {
                report.damage.append(&mut self.findings);
                Ended::Done
            }
            false => self.replace(held, report)?,
        };
        report.unread += unread.len() as u64;
        report.damage.extend(unread);
        Ok(ends)
    }

    /// Returns true if nothing needs repair: each finding was an unreadable place, or remains as it is.
    fn is_as_it_was(&self) -> bool {
        let is_whole = self.deficit().is_some_and(|deficit| plan::is_whole(&deficit, self.summed()));
        is_whole && self.gaps().is_empty() && self.findings.iter().all(|reported| reported.outcome == Outcome::Reported)
    }

    /// Replaces the table.
    fn replace(mut self, held: HeldTables<'_>, report: &mut Report) -> Result<Ended> {
        self.count_beside();
        let family = self.table.family().clone();
        let gaps = self.gaps();
        if let Some(finding) = self.unexplained(&gaps) {
            // With `accept_loss` a loss at an unknown position is accepted too, but not a table with records that its
            // ledger does not count.
            let accepted = self.options.accept_loss && self.deficit().is_some();
            if !accepted {
                report.lost += self.deficit().map_or(0, |deficit| deficit.count());
                return self.fence_all(held, finding, report);
            }
            self.findings.push(Finding { outcome: Outcome::Accepted, ..finding });
        }
        let (mut decision, mut reported, found) = (Decision::Quarantine, Vec::new(), self.found());
        for gap in &gaps {
            let mut finding = finding_of(&family, gap);
            finding.steps = self.steps.clone();
            if let (Some(handler), false) = (self.options.handler, self.options.accept_loss) {
                for event in self.events(gap, &found) {
                    let decided = handler.on_corruption(&event);
                    finding.steps.push(Step { rung: Rung::Handler, helped: decided == Decision::Quarantine });
                    decision = decision.max(decided);
                }
            }
            finding.outcome = if self.options.accept_loss { Outcome::Accepted } else { Outcome::Fenced };
            reported.push(finding);
        }
        self.findings.append(&mut reported);
        if decision != Decision::Quarantine {
            return self.leave(held, report, decision);
        }
        let lost = self.deficit().map_or(0, |deficit| deficit.count());
        if !gaps.is_empty() || lost > 0 || self.lost_beside > 0 {
            match self.db.keep_damaged(self.table) {
                Err(error) if *error.kind() == ErrorKind::Io(io::ErrorKind::NotFound) => {} // the file is gone
                kept => drop(kept?),
            }
        }
        let records: Vec<OwnedRecord> = std::mem::take(&mut self.pieces)
            .into_iter()
            .filter_map(|piece| match piece {
                TablePiece::Record(record) => Some(record),
                TablePiece::Gap(_) => None,
            })
            .collect();
        let base_seqno: Seqno = records.iter().map(|record| record.seqno).filter(|seqno| *seqno > 0).min().unwrap_or(0);
        let found =
            if self.protector.protection() == Protection::None { Protection::None } else { Protection::Partial };
        let protection = self.open.as_ref().map_or(found, |open| open.protection());
        let mut cursor = ListCursor::new(family.order().clone(), records, protection);
        let replacement = Replacement {
            expected: self.ledger,
            summed: self.summed(),
            base_seqno,
            fenced: if planted!(LossNotFencedByRepair, true, self.options.accept_loss) { Vec::new() } else { gaps },
            lifted: own_lost_ranges(self.db, self.table),
            records: if self.ledger.count() > 0 { Some(&mut cursor) } else { None },
        };
        let pointed = std::mem::take(&mut self.pointed).into_values().map(|(file, _)| file).collect();
        match held.collecting(std::mem::take(&mut self.collects)).keeping(pointed).replace(replacement) {
            Ok(_) => {
                let repaired = self.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Repaired(_)));
                report.repaired += repaired.count() as u64;
                report.lost += lost;
                report.lost_beside += self.lost_beside;
                report.damage.append(&mut self.findings);
                Ok(Ended::Done)
            }
            // The table is unchanged: report it, exclude it from compaction, and continue with the other tables.
            Err(error) if error.is_corruption() => {
                report.damage.push(Finding {
                    outcome: Outcome::Barred,
                    ..Finding::of(&error.in_file(&self.table.name(), 0), Some(family.name()))
                });
                // `None`: a compaction has replaced it meanwhile.
                if let Some(held) = self.db.hold_tables(&family, &[self.table.meta().number])? {
                    held.bar()?;
                }
                Ok(Ended::Done)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns a finding if the table does not hold the records that the manifest counts, and no gap explains it: the
    /// file is an older copy, or our code has a bug. A new table of the found records would hide the loss, so it is
    /// written only if the loss is accepted.
    fn unexplained(&self, gaps: &[LostRange]) -> Option<Finding> {
        let deficit = self.deficit();
        let explained = match &deficit {
            Some(deficit) => plan::explains(deficit, !gaps.is_empty(), self.room_in(gaps), self.summed()),
            None => false,
        };
        let meta = self.table.meta();
        (!explained).then(|| Finding {
            file: self.table.name(),
            family: Some(self.table.family().name().to_owned()),
            key_range: Some((meta.smallest.clone(), meta.largest.clone())),
            verdict: Verdict::Ledger,
            message: "the records of the table are not those the manifest counts, and nothing says which".to_owned(),
            steps: self.steps.clone(),
            ..Finding::default()
        })
    }

    /// Returns the maximum number of records lost in these gaps; `None` if it is unknown.
    fn room_in(&self, gaps: &[LostRange]) -> Option<u64> {
        let of_table = |gap: &LostRange| gap.file == self.table.name();
        let (of_table, of_values): (Vec<LostRange>, Vec<LostRange>) = gaps.iter().cloned().partition(of_table);
        let room = self.open.as_ref()?.room_in(&of_table)?;
        Some(room + of_values.len() as u64) // a lost value costs the record of its pointer
    }

    /// Returns the handler's events for a gap: one per readable record in it, or one for the gap.
    fn events(&self, gap: &LostRange, found: &HashSet<(&[u8], Seqno)>) -> Vec<Corrupted> {
        let order = self.table.family().order();
        let event = |span: (KeyPosition, KeyPosition)| Corrupted {
            file: gap.file.clone(),
            offset: gap.offset,
            family: self.table.family().name().to_owned(),
            span,
            verdict: gap.verdict,
        };
        let suspects = self.suspects_at(gap.offset, found).into_iter();
        let mut places: Vec<KeyPosition> = suspects.map(|suspect| (suspect.key, suspect.seqno)).collect();
        places.retain(|(key, seqno)| plan::stands_in(order, gap, key, *seqno));
        places.dedup();
        match places.is_empty() {
            true => vec![event((gap.from.clone(), gap.to.clone()))],
            false => places.into_iter().map(|place| event((place.clone(), place))).collect(),
        }
    }

    /// Leaves the table unchanged for another run, because a place that may have the lost records could not be read.
    fn put_off(mut self, report: &mut Report) -> Ended {
        let family = self.table.family();
        let gaps = self.gaps();
        self.findings.extend(gaps.iter().map(|gap| finding_of(family, gap)));
        self.findings.iter_mut().for_each(|finding| finding.outcome = Outcome::Reported);
        report.lost += self.deficit().map_or(0, |deficit| deficit.count());
        report.damage.append(&mut self.findings);
        Ended::PutOff
    }

    /// Leaves the table unchanged, excluded from compaction and under one lost range: only newer records are returned
    /// there.
    fn fence_all(mut self, held: HeldTables<'_>, finding: Finding, report: &mut Report) -> Result<Ended> {
        let family = self.table.family();
        let outcome = if self.options.accept_loss { Outcome::Barred } else { Outcome::Fenced };
        if outcome == Outcome::Fenced && own_lost_ranges(self.db, self.table).is_empty() {
            self.db.add_lost_ranges(family, vec![lost_range_over(self.table)])?;
        }
        held.bar()?;
        self.findings.iter_mut().for_each(|finding| finding.outcome = Outcome::Barred);
        self.findings.push(Finding { outcome, ..finding });
        report.damage.append(&mut self.findings);
        Ok(Ended::Done)
    }

    /// Leaves the table unchanged and excluded from compaction.
    fn leave(mut self, held: HeldTables<'_>, report: &mut Report, decision: Decision) -> Result<Ended> {
        held.bar()?;
        for finding in &mut self.findings {
            finding.outcome = Outcome::Barred;
        }
        report.damage.append(&mut self.findings);
        if decision == Decision::ReadOnly {
            self.db.refuse_writes();
        }
        Ok(if decision == Decision::ReadOnly { Ended::All } else { Ended::Done })
    }
}
