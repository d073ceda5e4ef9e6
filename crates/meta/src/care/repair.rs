//! Repair: what is damaged goes up the ladder, and what nothing helps becomes a fence.
//!
//! In:     an open store, and whoever may still have what it has lost.
//! Out:    each damaged table replaced by one of its records, in one edit with the fences for what is lost for good; a report that
//!         names every step.
//! Holds:  a record is taken only if its seal says so, or if the table's own ledger (counts and sums by kind, kept in the manifest)
//!         says that it, and nothing else, is what is missing. Never from an older version; never one of two.
//! Crash:  a table is as it was, or replaced.
//!
//! ```text
//! read again, correction   the walk over the table does both
//! rebuild                  index, filter, properties and footer anew from the data
//! memory, log, trash, source, handler
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{Db, Family, HeldTables, ListCursor, OwnedRecord, Replacement, TableRef};
use waxseal_lsm::error::{Error, ErrorKind, Result, Verdict};
use waxseal_lsm::fence::Fence;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::planted::{Bug, active};
use waxseal_lsm::record::Seqno;
use waxseal_lsm::seam::{Companions, Protection};
use waxseal_lsm::sst::Table;
use waxseal_lsm::values::{Room, ValueFile};

mod elsewhere;
mod fill;
mod walk;

use super::options::{Corrupted, Decision, Progress, RepairOptions, goes_on};
use super::plan::{self, Piece, Place};
use super::report::{Finding, Outcome, Report, Rung, Step, finding_of, is_unread};
use super::spans::Spans;
use super::turns::{Turn, Turns};
use super::verify::look_at;

/// Mends every damaged table of a store, and with `accept_loss` lifts every fence. What cannot be mended is reported; an error
/// means that the store itself failed (`Io`, `Halted`, `ReadOnly`, `Closed`).
pub(super) fn repair(db: &Db, mut options: RepairOptions<'_>) -> Result<Report> {
    let mut report = Report::default();
    let families = db.families();
    let mut waiting = Vec::new();
    for family in &families {
        waiting.push(Turns::of(db, family)?);
    }
    let total = waiting.iter().map(Turns::bytes).sum();
    let mut progress = Progress { total, ..Progress::default() };
    for (family, turns) in families.iter().zip(&mut waiting) {
        let (barred, mut kept) = (db.barred_tables(family), BTreeSet::new());
        while let Some(Turn { bytes, table, .. }) = turns.next_turn(db)? {
            let mut ended = Ended::Done;
            if let Some(table) = &table {
                ended = repair_table(db, table, barred.contains(&table.meta().number), &options, &mut report)?;
                if ended == Ended::PutOff {
                    kept.extend(own_fences(db, table));
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
            lift_fences(db, family, &kept, &mut report)?;
        }
    }
    Ok(report)
}

fn lift_fences(db: &Db, family: &Family, kept: &BTreeSet<u64>, report: &mut Report) -> Result<()> {
    let mut fences = db.fences(family);
    fences.retain(|(number, _)| !kept.contains(number));
    if fences.is_empty() {
        return Ok(());
    }
    let numbers: Vec<u64> = fences.iter().map(|(number, _)| *number).collect();
    db.lift_fences(family, &numbers)?;
    for (_, fence) in &fences {
        report.damage.push(Finding { outcome: Outcome::Accepted, ..finding_of(family, fence) });
    }
    Ok(())
}

/// How the repair of a table ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// As far as it went.
    Done,
    /// For another run to go on: who may have what the table lost could not be asked.
    PutOff,
    /// And with it that of all.
    All,
}

/// Looks at a table and mends it if it is damaged.
pub(super) fn repair_table(
    db: &Db,
    table: &TableRef,
    is_barred: bool,
    options: &RepairOptions<'_>,
    report: &mut Report,
) -> Result<Ended> {
    let (found, lost, unread) = (report.damage.len(), report.lost, report.unread);
    look_at(db, table, report, &mut |_| Ok(()))?;
    let is_unread_alone = report.damage[found..].iter().all(|finding| finding.outcome == Outcome::Unread);
    if report.unread > unread && is_unread_alone && !options.accept_loss {
        return Ok(Ended::Done); // what the device does not give is neither right nor damaged
    }
    let family = table.family();
    let number = table.meta().number;
    if report.damage.len() == found {
        if is_barred {
            db.lift_fences(family, &own_fences(db, table))?;
            db.free_tables(family, &[number])?;
        }
        return Ok(Ended::Done);
    }
    // No compaction works on it from now on; one that did has mended it, or not.
    let Some(held) = db.hold_tables(family, &[number])? else { return Ok(Ended::Done) };
    // What the look found is told by the repair, place by place.
    let mut told = report.damage.split_off(found);
    told.retain(|finding| finding.outcome != Outcome::Unread);
    (report.lost, report.unread) = (lost, unread);
    match Mending::begin(db, table, options, told) {
        Err(error) if is_unread(&error) => {
            report.unread += 1;
            report.damage.push(Finding { file: table.name(), ..Finding::of(&error, Some(family.name())) });
            Ok(Ended::PutOff)
        }
        mending => mending?.finish(held, report),
    }
}

/// A fence over all that a table holds: something is lost of it, and nobody knows where.
fn fence_over(table: &TableRef) -> Fence {
    let meta = table.meta();
    Fence::over(&meta.smallest, &meta.largest, meta.greatest_seqno, &table.name(), Verdict::Ledger)
}

/// The numbers of the fences that stand over all of a table.
fn own_fences(db: &Db, table: &TableRef) -> Vec<u64> {
    let own = fence_over(table);
    let fences = db.fences(table.family());
    fences.into_iter().filter(|(_, fence)| *fence == own).map(|(number, _)| number).collect()
}

/// The gaps of before that are not there any more.
fn healed(before: Vec<Fence>, left: &[Fence]) -> Vec<Fence> {
    let left: HashSet<(&Place, &Place)> = left.iter().map(|gap| (&gap.from, &gap.to)).collect();
    before.into_iter().filter(|gap| !left.contains(&(&gap.from, &gap.to))).collect()
}

/// A damaged table on its way to another.
struct Mending<'a, 'o> {
    db: &'a Db,
    keeper: &'a dyn Companions,
    table: &'a TableRef,
    /// The table by what is left of it; none: nothing is.
    open: Option<Arc<Table>>,
    options: &'a RepairOptions<'o>,
    pieces: Vec<Piece<OwnedRecord>>,
    findings: Vec<Finding>,
    /// Steps that were tried for what is still lost.
    steps: Vec<Step>,
    /// What of the table itself was not read in the last walk, each with the offset of its block.
    refused: Vec<(u64, Error)>,
    /// What of it was not read in the end, though it may have what seems lost.
    unseen: Option<Error>,
    /// The device gives now this and now that, or by now all of it: whoever asks again may have it.
    varies: bool,
    /// The first of what could not be read on the way up, though it may have had what was lost.
    unread: Option<Error>,
    /// Why the source did not answer, though it may have what was lost.
    unanswered: Option<Error>,
    /// The source ends the repair: it is asked no more.
    is_interrupted: bool,
    /// Value files of which something cannot be read, each with the first that was.
    unread_values: Vec<(Uid, Error)>,
    ledger: Ledger,
    /// Entries and stamps that are left out.
    lost_beside: u64,
    /// Records that were found with more than a word beside them.
    with_more: u64,
    /// Records whose values cannot be had: pointers, each in a gap of its own until somebody has the value.
    pointers: Vec<OwnedRecord>,
    /// Value files in which something was hit, or that nobody else names: what can be had of them is written anew.
    collects: BTreeSet<Uid>,
    /// Value files that records found elsewhere point into, held until the edit; and whether it may name each of them.
    pointed: BTreeMap<Uid, (Arc<ValueFile>, bool)>,
    room: Room,
}

impl<'a, 'o> Mending<'a, 'o> {
    /// Reads what can be read of a table.
    fn begin(
        db: &'a Db,
        table: &'a TableRef,
        options: &'a RepairOptions<'o>,
        told: Vec<Finding>,
    ) -> Result<Mending<'a, 'o>> {
        let mut mending = Mending {
            db,
            keeper: db.companions(),
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
            room: Room::default(),
        };
        mending.walk(&told)?;
        // What else was told is right once it is written anew: a filter, a sum that does not fit although its block is whole, properties.
        let mut met: HashSet<u64> = mending.gaps().iter().map(|gap| gap.offset).collect();
        met.extend(mending.findings.iter().map(|finding| finding.offset));
        for mut finding in told.into_iter().filter(|finding| !met.contains(&finding.offset)) {
            if !mending.stays(&finding) {
                finding.steps.push(Step { rung: Rung::Rebuild, helped: true });
                finding.outcome = Outcome::Repaired(Rung::Rebuild);
            }
            mending.findings.push(finding);
        }
        Ok(mending)
    }

    /// Whether the sums of the table speak of its companions.
    fn summed(&self) -> bool {
        self.keeper.protection() != Protection::None && self.table.meta().ledger.has_sums()
    }

    fn deficit(&self) -> Option<Ledger> {
        plan::deficit(&self.table.meta().ledger, &self.ledger)
    }

    fn gaps(&self) -> Vec<Fence> {
        let gap = |piece: &Piece<OwnedRecord>| match piece {
            Piece::Gap(fence) => Some(fence.clone()),
            Piece::Record(_) => None,
        };
        self.pieces.iter().filter_map(gap).collect()
    }

    /// The same, to be asked by place.
    fn spans(&self) -> Spans<()> {
        let mut spans = Spans::default();
        self.gaps().into_iter().for_each(|gap| spans.add(gap, ()));
        spans.sort(self.table.family().order());
        spans
    }

    /// True once the table's own count closes: then nothing is lost, whatever seemed to be.
    fn is_whole(&mut self) -> bool {
        let whole = self.deficit().is_some_and(|deficit| plan::is_whole(&deficit, self.summed()));
        if whole {
            self.pieces.retain(|piece| matches!(piece, Piece::Record(_)));
        }
        whole
    }

    /// Where all records are there nobody misses what of the table was not read, unless that was what says how many had something beside
    /// them.
    fn sees_enough(&mut self) {
        if self.counted_beside() != Some(u64::MAX) {
            self.unseen = None;
        }
    }

    /// Climbs the rungs that look elsewhere. One that cannot be read now ends nothing: whoever comes after it may have what was lost.
    fn climb(&mut self) -> Result<()> {
        let lost = self.gaps();
        if self.is_whole() {
            self.healed(&lost, Rung::Correction); // what seemed lost was never there
            self.sees_enough();
            return Ok(());
        }
        if lost.is_empty() {
            return Ok(()); // nothing says where to look
        }
        self.steps =
            vec![Step { rung: Rung::ReadAgain, helped: false }, Step { rung: Rung::Correction, helped: false }];
        let is_whole = self.climb_once()?;
        if !is_whole
            && !self.is_interrupted
            && (self.unread.is_some() || self.unanswered.is_some())
            && self.options.accept_loss
        {
            // Nothing is given up for one moment in which the device, or the source, did not answer.
            (self.unread, self.unanswered) = (None, None);
            self.climb_once()?;
        }
        Ok(())
    }

    /// True if nothing is lost any more.
    fn climb_once(&mut self) -> Result<bool> {
        for rung in [Rung::Memory, Rung::Log, Rung::Trash, Rung::Source] {
            let (found, is_counted) = match rung {
                Rung::Memory => (self.in_memory()?, true), // of the very block
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
                (self.unread, self.unanswered) = (None, None); // nobody misses it
                self.sees_enough();
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn healed(&mut self, gaps: &[Fence], rung: Rung) {
        for gap in gaps {
            let steps = self.steps.iter().copied().chain([Step { rung, helped: true }]).collect();
            let outcome = Outcome::Repaired(rung);
            self.findings.push(Finding { steps, outcome, ..finding_of(self.table.family(), gap) });
        }
    }

    /// Entries of the damaged blocks that can be read, though nothing speaks for them; and pointers whose values cannot be had.
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

    /// Pointers whose values nobody has had so far.
    fn lost_pointers(&self) -> impl Iterator<Item = &OwnedRecord> {
        let found = if self.pointers.is_empty() { HashSet::new() } else { self.found() };
        self.pointers.iter().filter(move |pointer| !found.contains(&(&pointer.key[..], pointer.seqno)))
    }

    /// The places of all records that were found.
    fn found(&self) -> HashSet<(&[u8], Seqno)> {
        let records = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Record(record) => Some(record),
            Piece::Gap(_) => None,
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

    /// How many records have more than a word beside them, as the table says.
    fn counted_beside(&self) -> Option<u64> {
        self.open.as_ref().and_then(|open| open.properties().beside)
    }

    /// Where every record is there, what stood beside them may not be: no ledger has it.
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

    /// Climbs, and replaces the table, if there is a reason to and nothing that may have what it lost is to be waited for; tells of what
    /// was not read.
    fn finish(mut self, held: HeldTables<'_>, report: &mut Report) -> Result<Ended> {
        self.climb()?;
        if self.is_interrupted {
            self.put_off(report);
            return Ok(Ended::All);
        }
        self.collects.retain(|uid| self.unread_values.iter().all(|(unread, _)| unread != uid));
        // A device that never answers keeps nobody from giving up what only it may have had, one that may answer does; and a handler
        // decides for a source.
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

    /// True if nothing is to be mended: what was told could not be read, or stays.
    fn is_as_it_was(&self) -> bool {
        let is_whole = self.deficit().is_some_and(|deficit| plan::is_whole(&deficit, self.summed()));
        is_whole && self.gaps().is_empty() && self.findings.iter().all(|told| told.outcome == Outcome::Reported)
    }

    /// Replaces the table.
    fn replace(mut self, held: HeldTables<'_>, report: &mut Report) -> Result<Ended> {
        self.count_beside();
        let family = self.table.family().clone();
        let gaps = self.gaps();
        if let Some(finding) = self.unexplained(&gaps) {
            // Who accepts a loss accepts one that nobody can place; but a table that counts something else is none of that.
            let accepted = self.options.accept_loss && self.deficit().is_some();
            if !accepted {
                report.lost += self.deficit().map_or(0, |deficit| deficit.count());
                return self.fence_all(held, finding, report);
            }
            self.findings.push(Finding { outcome: Outcome::Accepted, ..finding });
        }
        let (mut decision, mut told, found) = (Decision::Quarantine, Vec::new(), self.found());
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
            told.push(finding);
        }
        self.findings.append(&mut told);
        if decision != Decision::Quarantine {
            return self.leave(held, report, decision);
        }
        let lost = self.deficit().map_or(0, |deficit| deficit.count());
        if !gaps.is_empty() || lost > 0 || self.lost_beside > 0 {
            match self.db.keep_damaged(self.table) {
                Err(error) if *error.kind() == ErrorKind::Io(io::ErrorKind::NotFound) => {} // it is gone
                kept => drop(kept?),
            }
        }
        let records: Vec<OwnedRecord> = std::mem::take(&mut self.pieces)
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Record(record) => Some(record),
                Piece::Gap(_) => None,
            })
            .collect();
        let base_seqno: Seqno = records.iter().map(|record| record.seqno).filter(|seqno| *seqno > 0).min().unwrap_or(0);
        let found = if self.keeper.protection() == Protection::None { Protection::None } else { Protection::Partial };
        let protection = self.open.as_ref().map_or(found, |open| open.protection());
        let mut cursor = ListCursor::new(family.order().clone(), records, protection);
        let replacement = Replacement {
            expected: self.ledger,
            summed: self.summed(),
            base_seqno,
            fenced: if self.options.accept_loss || active(Bug::LossNotFencedByRepair) { Vec::new() } else { gaps },
            lifted: own_fences(self.db, self.table),
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
            // The table is as it was: it is told, barred, and the others are mended.
            Err(error) if error.is_corruption() => {
                report.damage.push(Finding {
                    outcome: Outcome::Barred,
                    ..Finding::of(&error.in_file(&self.table.name(), 0), Some(family.name()))
                });
                // None: a merge has taken its place meanwhile.
                if let Some(held) = self.db.hold_tables(&family, &[self.table.meta().number])? {
                    held.bar()?;
                }
                Ok(Ended::Done)
            }
            Err(error) => Err(error),
        }
    }

    /// The table does not hold what the manifest counts, and no gap says where: an older copy of the file, or a fault of our own.
    /// A new table of what was found would close over the loss and hide it; so none is written unless the loss is accepted.
    fn unexplained(&self, gaps: &[Fence]) -> Option<Finding> {
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

    /// Returns the most records that can have been lost in these gaps; `None` if that is not known.
    fn room_in(&self, gaps: &[Fence]) -> Option<u64> {
        let of_table = |gap: &Fence| gap.file == self.table.name();
        let (of_table, of_values): (Vec<Fence>, Vec<Fence>) = gaps.iter().cloned().partition(of_table);
        let room = self.open.as_ref()?.room_in(&of_table)?;
        Some(room + of_values.len() as u64) // a value that is lost costs the record of its pointer
    }

    /// What the handler is asked about a gap: each record of it that can be read, else the gap.
    fn events(&self, gap: &Fence, found: &HashSet<(&[u8], Seqno)>) -> Vec<Corrupted> {
        let order = self.table.family().order();
        let event = |span: (Place, Place)| Corrupted {
            file: gap.file.clone(),
            offset: gap.offset,
            family: self.table.family().name().to_owned(),
            span,
            verdict: gap.verdict,
        };
        let suspects = self.suspects_at(gap.offset, found).into_iter();
        let mut places: Vec<Place> = suspects.map(|suspect| (suspect.key, suspect.seqno)).collect();
        places.retain(|(key, seqno)| plan::stands_in(order, gap, key, *seqno));
        places.dedup();
        match places.is_empty() {
            true => vec![event((gap.from.clone(), gap.to.clone()))],
            false => places.into_iter().map(|place| event((place.clone(), place))).collect(),
        }
    }

    /// Leaves the table as it is for another run: who may have what it lost could not be asked now.
    fn put_off(mut self, report: &mut Report) -> Ended {
        let family = self.table.family();
        let gaps = self.gaps();
        self.findings.extend(gaps.iter().map(|gap| finding_of(family, gap)));
        self.findings.iter_mut().for_each(|finding| finding.outcome = Outcome::Reported);
        report.lost += self.deficit().map_or(0, |deficit| deficit.count());
        report.damage.append(&mut self.findings);
        Ended::PutOff
    }

    /// Leaves the table as it is, barred and under one fence: within it only newer records decide.
    fn fence_all(mut self, held: HeldTables<'_>, finding: Finding, report: &mut Report) -> Result<Ended> {
        let family = self.table.family();
        let outcome = if self.options.accept_loss { Outcome::Barred } else { Outcome::Fenced };
        if outcome == Outcome::Fenced && own_fences(self.db, self.table).is_empty() {
            self.db.add_fences(family, vec![fence_over(self.table)])?;
        }
        held.bar()?;
        self.findings.iter_mut().for_each(|finding| finding.outcome = Outcome::Barred);
        self.findings.push(Finding { outcome, ..finding });
        report.damage.append(&mut self.findings);
        Ok(Ended::Done)
    }

    /// Leaves the table as it is, barred.
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
