//! Scrub: verifies rarely read data at a limited rate.
//!
//! Tables are checked in the order of family and number, block by block. A pass that stops early returns a token, and
//! the next pass resumes there. Concurrent compactions are harmless: a removed table was verified by the compaction
//! that replaced it, and the new table has a higher number. The next pass checks the new table, except for values that
//! a compaction took over without reading (`TableQueue`). So only the current table is held: tables that are replaced
//! during a pass, which may take hours, can be deleted.

use waxseal_lsm::db::{Db, TableRef};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::ledger::Ledger;

use super::options::{Progress, ScrubOptions, cancelled, goes_on};
use super::repair::{Ended, repair_table};
use super::report::{Report, Token, Visited};
use super::table_queue::{TableQueue, TableStep};
use super::values::{Which, values_are_whole};
use super::verify::{is_same_ledger, look_at};

/// The longest sleep, which bounds the delay until a scrub notices that it should end.
const NAP_NANOS: u64 = 100_000_000;

/// Verifies the tables of a store at a limited rate, starting where the previous pass stopped. With `repair` set,
/// damage is repaired.
pub(super) fn scrub(db: &Db, mut options: ScrubOptions<'_>) -> Result<Report> {
    let mut report = Report::default();
    let resume = options.resume.unwrap_or_default();
    let mut families = Vec::new();
    for family in db.families().iter().filter(|family| family.id() >= resume.family) {
        let first = if family.id() == resume.family { resume.table } else { 0 };
        families.push(TableQueue::of(db, family)?.by_number_from(first));
    }
    let total = families.iter().map(TableQueue::bytes).sum();
    let progress = Progress { total, ..Progress::default() };
    let mut pace = Pace { started: db.clock().monotonic_nanos(), read: 0, progress, through: 0, is_ended: false };
    for queue in &mut families {
        while let Some(TableStep { bytes, table, .. }) = queue.next_table(db)? {
            pace.through = pace.progress.done + bytes;
            pace.progress.found = report.damage.len() as u64;
            if let Some(table) = table {
                let (family, meta) = (table.family(), table.meta());
                let from = if meta.uid == resume.uid { (resume.block, resume.ledger) } else { Default::default() };
                let stopped = match scrub_table(db, &table, from, &mut options, &mut pace, &mut report) {
                    // The family was dropped during the repair, so its damage does not matter.
                    Err(error) if *error.kind() == ErrorKind::Invalid && family.is_dropped() => None,
                    stopped => stopped?,
                };
                if let Some((block, ledger)) = stopped {
                    report.cancelled |= pace.is_ended;
                    let (family, table, uid) = (family.id(), meta.number, meta.uid);
                    report.resume = Some(Token { family, table, uid, block, ledger });
                    return Ok(report);
                }
            }
            pace.progress.done = pace.through;
        }
    }
    Ok(report)
}

struct Pace {
    started: u64,
    /// Bytes read by this pass: removed tables and earlier passes cost no time.
    read: u64,
    progress: Progress,
    /// Progress at the end of the current table.
    through: u64,
    /// True if the caller has ended the pass.
    is_ended: bool,
}

impl Pace {
    /// Called after each read: sleeps as the rate limit requires. Returns false if the pass must stop here.
    fn after(&mut self, db: &Db, bytes: u64, options: &mut ScrubOptions<'_>) -> bool {
        self.read += bytes;
        self.progress.done = (self.progress.done + bytes).min(self.through);
        loop {
            if !goes_on(&mut options.progress, self.progress) {
                self.is_ended = true;
                return false;
            }
            let Some(rate) = options.bytes_per_second.filter(|rate| *rate > 0) else { break };
            let due = u128::from(self.read) * 1_000_000_000 / u128::from(rate);
            let passed = u128::from(db.clock().monotonic_nanos().saturating_sub(self.started));
            match u64::try_from(due.saturating_sub(passed)) {
                Ok(0) => break,
                left => db.clock().sleep_nanos(left.unwrap_or(NAP_NANOS).min(NAP_NANOS)),
            }
        }
        options.most_bytes.is_none_or(|most| self.read < most)
    }
}

/// Block index of a token for a completed table.
const THROUGH: u64 = u64::MAX;

/// Checks one table from a block on; `ledger` is that of the earlier blocks. If it stops early, returns the next block
/// and the ledger up to there. The last part balances the table's ledger, even after several passes.
fn scrub_table(
    db: &Db,
    table: &TableRef,
    (from, mut ledger): (u64, Ledger),
    options: &mut ScrubOptions<'_>,
    pace: &mut Pace,
    report: &mut Report,
) -> Result<Option<(u64, Ledger)>> {
    if from == THROUGH {
        return Ok(None);
    }
    let mut clean = false;
    if let Ok(open) = db.open_anew(table) {
        report.files += 1;
        clean = true;
        for block in from..open.blocks() as u64 {
            let checked = open.check_block(block as usize, db.companions());
            let Ok(checked) = checked else {
                clean = false;
                break;
            };
            report.records += checked.validated + checked.unverified;
            report.validated += checked.validated;
            report.unverified += checked.unverified;
            report.bytes += checked.bytes;
            ledger.merge(&checked.ledger);
            if !pace.after(db, checked.bytes, options) {
                return Ok(Some((block + 1, ledger)));
            }
        }
        clean &= is_same_ledger(db, &ledger, &table.meta().ledger);
        if clean {
            // A table's values are checked without interruption by the byte limit, which applies after them. If the
            // caller ends the pass, it stops at once.
            let blocks = open.blocks() as u64;
            let mut which = Which { behind: from.saturating_sub(blocks), ..Which::default() };
            let (are_whole, looked) = values_are_whole(db, table, &open, &mut which, report, &mut |bytes| {
                pace.after(db, bytes, options);
                if pace.is_ended { Err(cancelled()) } else { Ok(()) }
            });
            match are_whole && pace.is_ended {
                true => return Ok(Some((blocks + which.passed, ledger))), // the next pass resumes behind them
                false if pace.is_ended => {}                              // damage is reported or repaired first
                false => looked?,
            }
            clean = are_whole;
        }
        if clean {
            table.forget_damage(); // it has passed
            report.tables.push(Visited::of(table, 0));
        }
    }
    if !clean {
        match &options.repair {
            Some(repair) if !db.is_read_only() => {
                let quarantined = db.quarantined_tables(table.family()).contains(&table.meta().number);
                if repair_table(db, table, quarantined, repair, report)? == Ended::All {
                    report.cancelled = true; // the next pass begins with this table
                    return Ok(Some(Default::default()));
                }
            }
            _ => look_at(db, table, report, &mut |_| Ok(()))?,
        }
    }
    Ok(pace.is_ended.then_some((THROUGH, ledger)))
}
