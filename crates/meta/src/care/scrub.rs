//! Scrub: verify, slowly, for data that nobody reads.
//!
//! Tables are taken in the order of family and number, block by block, at a pace; a pass that stops early leaves a token, and the
//! next goes on there. A compaction between the two does no harm: a table that is gone has been verified by whoever replaced it,
//! and what it became has a higher number, so it is still to come.

use waxseal_lsm::db::{Db, TableRef};
use waxseal_lsm::error::Result;
use waxseal_lsm::ledger::Ledger;

use super::options::{Progress, ScrubOptions, goes_on};
use super::repair::{Ended, repair_table};
use super::report::{Report, Token, Visited};
use super::values::values_are_whole;
use super::verify::look_at;

/// The longest nap, so that whoever ends a scrub does not wait long.
const NAP_NANOS: u64 = 100_000_000;

/// Looks at the tables of a store at a pace, and goes on where the pass before stopped. With `repair` what is found is mended.
pub(super) fn scrub(db: &Db, mut options: ScrubOptions<'_>) -> Result<Report> {
    let mut report = Report::default();
    let mut tables = Vec::new();
    for family in db.families() {
        tables.extend(db.tables(&family)?);
    }
    tables.sort_by_key(|table| (table.family().id(), table.meta().number));
    let resume = options.resume.unwrap_or_default();
    tables.retain(|table| (table.family().id(), table.meta().number) >= (resume.family, resume.table));
    let total = tables.iter().map(|table| table.meta().size).sum();
    let mut pace = Pace { started: db.clock().monotonic_nanos(), progress: Progress { total, ..Progress::default() } };
    for table in &tables {
        let from = if table.meta().uid == resume.uid { (resume.block, resume.ledger) } else { Default::default() };
        let stopped = scrub_table(db, table, from, &mut options, &mut pace, &mut report)?;
        if let Some((block, ledger)) = stopped {
            let (family, number) = (table.family().id(), table.meta().number);
            report.resume = Some(Token { family, table: number, uid: table.meta().uid, block, ledger });
            return Ok(report);
        }
    }
    Ok(report)
}

struct Pace {
    started: u64,
    progress: Progress,
}

impl Pace {
    /// After some bytes: waits as long as the pace asks for; false if the pass is to stop here.
    fn after(&mut self, db: &Db, bytes: u64, options: &mut ScrubOptions<'_>, report: &mut Report) -> bool {
        self.progress.done += bytes;
        self.progress.found = report.damage.len() as u64;
        report.bytes += bytes;
        loop {
            if !goes_on(&mut options.progress, self.progress) {
                report.cancelled = true;
                return false;
            }
            let Some(rate) = options.bytes_per_second.filter(|rate| *rate > 0) else { break };
            let due = u128::from(self.progress.done) * 1_000_000_000 / u128::from(rate);
            let passed = u128::from(db.clock().monotonic_nanos().saturating_sub(self.started));
            match u64::try_from(due.saturating_sub(passed)) {
                Ok(0) => break,
                left => db.clock().sleep_nanos(left.unwrap_or(NAP_NANOS).min(NAP_NANOS)),
            }
        }
        options.most_bytes.is_none_or(|most| self.progress.done < most)
    }
}

/// Looks at one table from a block on, those before which held `ledger`; answers the block at which it stopped early, and what those
/// before that hold. The last part closes the table's count, however many passes there were.
fn scrub_table(
    db: &Db,
    table: &TableRef,
    (from, mut ledger): (u64, Ledger),
    options: &mut ScrubOptions<'_>,
    pace: &mut Pace,
    report: &mut Report,
) -> Result<Option<(u64, Ledger)>> {
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
            ledger.merge(&checked.ledger);
            if !pace.after(db, checked.bytes, options, report) {
                return Ok(Some((block + 1, ledger)));
            }
        }
        let kept = table.meta().ledger;
        let same = ledger == kept || !kept.has_sums() && ledger.counts() == kept.counts();
        clean &= same;
        if clean {
            // A table's values are looked at in one piece: a pass that is to stop does so behind them.
            let mut paced = Report::default();
            clean = values_are_whole(db, table, &open, report, &mut |bytes| {
                let _ = pace.after(db, bytes, options, &mut paced);
                Ok(())
            })?;
            report.cancelled |= paced.cancelled;
        }
        if clean {
            report.tables.push(Visited::of(table, 0));
        }
    }
    if !clean {
        match &options.repair {
            Some(repair) if !db.is_read_only() => {
                let barred = db.barred_tables(table.family()).contains(&table.meta().number);
                if repair_table(db, table, barred, repair, report)? == Ended::All {
                    report.cancelled = true; // and the next pass begins with it
                    return Ok(Some(Default::default()));
                }
            }
            _ => look_at(db, table, report, &mut |_| Ok(()))?,
        }
    }
    Ok(None)
}
