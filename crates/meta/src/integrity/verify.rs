//! Verify: reads every byte of a store and changes nothing.
//!
//! In:     an open store, concurrently with readers and writers, or a closed one, opened read-only.
//! Out:    the result of every seal check, and every damaged place. Tables are read from their files, bypassing caches:
//!         checksums, order and seals, then index, filter and properties against the data. Memtables, log and manifest
//!         follow.
//! Holds:  nothing is written. Damage is reported, not returned as an error. An unreadable file is distinguished from a
//!         damaged one.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::{Uid, hash};
use waxseal_lsm::db::{Db, Family, Parts, TableRef};
use waxseal_lsm::error::{Damage, Error, ErrorKind, Result, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::options::Settings;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::sst::{ExaminedItem, Table};
use waxseal_lsm::values::BlobBuffer;

use super::options::{Progress, VerifyOptions, Watch, cancelled, goes_on};
use super::report::{Finding, Outcome, Report, Visited, bearable, finding_of, is_unread};
use super::table_queue::{TableQueue, TableStep};
use super::values::{Which, add_value_finding, look_at_values, stored_bytes};
use crate::annotations::Annotations;
use crate::stamped::is_stamp_hit;

/// Verifies every table, block and record of an open store, its memtables, log and manifest, concurrently with readers
/// and writers. Errors: `Invalid` for an unknown family, `Closed`.
pub(super) fn verify(db: &Db, mut options: VerifyOptions<'_>) -> Result<Report> {
    let mut report = Report::default();
    let families = chosen(db, options.families.as_deref())?;
    let mut waiting = Vec::new();
    for family in &families {
        waiting.push(TableQueue::of(db, family)?);
    }
    let tables: u64 = waiting.iter().map(TableQueue::bytes).sum();
    let logged = families.iter().map(|family| bytes_in_memory(db, family)).sum::<Result<u64>>()?;
    let mut progress = Progress { total: tables + logged, ..Progress::default() };
    for queue in &mut waiting {
        while let Some(TableStep { bytes, table, missed }) = queue.next_table(db)? {
            let (through, mut is_ended) = (progress.done + bytes, false);
            progress.found = report.damage.len() as u64;
            if let Some(table) = table {
                let reported = &mut |bytes: u64| {
                    progress.done = (progress.done + bytes).min(through);
                    is_ended = !goes_on(&mut options.progress, progress);
                    if is_ended { Err(cancelled()) } else { Ok(()) }
                };
                let outcome = match &missed {
                    None => look_at(db, &table, &mut report, reported),
                    Some(missed) => look_at_missed(db, &table, missed, &mut report, reported),
                };
                if is_ended {
                    report.cancelled = true;
                    return Ok(report);
                }
                outcome?;
            }
            progress.done = through;
        }
    }
    progress.done = tables;
    for family in &families {
        look_at_memory(db, family, &mut report)?;
        look_at_range_deletes(db, family, &mut report)?;
        report.add_lost_ranges(family, db.lost_ranges(family));
    }
    progress.found = report.damage.len() as u64;
    let log = read_log(db, &mut options.progress, progress, &mut report.cancelled);
    // The log and the manifest are read as an open would read them.
    for outcome in [db.check_manifest(), log] {
        if let Err(error) = outcome {
            let finding = Finding::of(&bearable(error)?, None);
            *if finding.outcome == Outcome::Unread { &mut report.unread } else { &mut report.structural } += 1;
            report.damage.push(finding);
        }
    }
    Ok(report)
}

/// Verifies a store that is not open. A store that fails to open with corruption is reported as damaged. Writes
/// nothing.
pub fn verify_closed(dir: &Path, settings: Settings, parts: Parts, options: VerifyOptions<'_>) -> Result<Report> {
    match Db::open_read_only(dir, settings, parts) {
        Ok(db) => {
            let report = super::verify(&db, options);
            db.close()?;
            report
        }
        Err(error) if error.is_corruption() => {
            let damage = vec![Finding::of(&error, None)];
            Ok(Report { structural: 1, unopened: true, damage, ..Report::default() })
        }
        Err(error) => Err(error),
    }
}

/// Progress in the log is reported after this many bytes of records.
const LOG_STEP: u64 = 16 << 10;

/// Reads the whole log, and continues the reported `progress`. After a break the callback is not called again, and
/// `is_ended` is set.
fn read_log(db: &Db, watch: &mut Option<Watch<'_>>, mut progress: Progress, is_ended: &mut bool) -> Result<()> {
    let mut reported = progress.done;
    db.read_log(&mut |_, record| {
        progress.done = (progress.done + stored_in_log(record)).min(progress.total);
        if !*is_ended && progress.done >= reported + LOG_STEP {
            reported = progress.done;
            *is_ended = !goes_on(watch, progress);
        }
        false
    })?;
    if !*is_ended && reported < progress.total {
        *is_ended = !goes_on(watch, Progress { done: progress.total, ..progress });
    }
    Ok(())
}

/// Returns the length of a record's parts that its log frame contains too.
fn stored_in_log(record: &Record<'_>) -> u64 {
    (record.key.len() + record.value.len() + record.companion.len()) as u64
}

/// Returns the bytes of the records that are in the log and in no table. An open store reads them from memory.
fn bytes_in_memory(db: &Db, family: &Family) -> Result<u64> {
    let mut bytes = 0;
    db.memory(family)?.visit(&mut |record, _| {
        bytes += stored_in_log(record);
        Ok(())
    })?;
    Ok(bytes)
}

fn chosen(db: &Db, names: Option<&[String]>) -> Result<Vec<Family>> {
    let Some(names) = names else { return Ok(db.families()) };
    let named = |name: &String| db.family(name).ok_or_else(|| Error::invalid(format!("there is no family {name:?}")));
    names.iter().map(named).collect()
}

/// Checks the seals of the range deletes that the manifest holds.
fn look_at_range_deletes(db: &Db, family: &Family, report: &mut Report) -> Result<()> {
    for range in db.range_deletes(family)? {
        let verify = |record: &Record<'_>| db.companions().verify(record, hash(record.key), Protection::Partial);
        let check = range.with_record(verify);
        report.count(check);
        if !check.serves() || check == Check::CompanionDamaged {
            report.damage.push(Finding {
                family: Some(family.name().to_owned()),
                key_range: range.start.clone().zip(range.end.clone()),
                verdict: Verdict::Seal,
                message: format!("the range delete with seqno {} does not match its seal", range.seqno),
                ..Finding::default()
            });
        }
    }
    Ok(())
}

/// Checks the values of a table that are in missed blob files. Another table may have had some of them checked; their
/// findings are not repeated.
fn look_at_missed(
    db: &Db,
    table: &TableRef,
    missed: &HashSet<Uid>,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let Ok(open) = db.open_anew(table) else { return look_at(db, table, report, progress) };
    let reported = report.damage.clone();
    let mut which = Which { of: Some(missed), reported: &reported, ..Which::default() };
    look_at_values(db, table, &open, &mut which, report, progress)
}

/// Checks one table and reports its findings. `progress` gets the number of bytes, and its error ends the check.
pub(super) fn look_at(
    db: &Db,
    table: &TableRef,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let (before, unread) = (report.damage.len(), report.unread);
    look_into(db, table, report, progress)?;
    if report.unread == unread {
        report.tables.push(Visited::of(table, report.damage.len() - before));
    }
    Ok(())
}

const OUT_OF_MEMORY: ErrorKind = ErrorKind::Io(io::ErrorKind::OutOfMemory);

fn look_into(
    db: &Db,
    table: &TableRef,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let protector = db.companions();
    let add_unread = |error: &Error, report: &mut Report| {
        report.unread += 1;
        report.damage.push(Finding { file: table.name(), ..Finding::of(error, Some(table.family().name())) });
        Ok(())
    };
    let opened = match db.open_anew(table) {
        Err(error) if error.needs_refresh() => return Err(error),
        Err(error) if is_unread(&error) => return add_unread(&error, report),
        opened => opened,
    };
    report.files += 1;
    report.bytes += table.meta().size;
    let strict = match &opened {
        Ok(open) => open.verify(protector, progress).and_then(|ledger| {
            // The manifest has its own ledger of the file's records.
            let same = is_same_ledger(db, &ledger, &table.meta().ledger);
            let damage = Damage { verdict: Verdict::Ledger, ..Damage::default() };
            let differ = || Error::corruption(damage, "the records of the table are not those the manifest counts");
            if same { Ok(ledger) } else { Err(differ().in_file(&table.name(), 0)) }
        }),
        Err(error) => Err(error.clone()),
    };
    let error = match (&opened, strict) {
        (Ok(open), Ok(ledger)) => {
            table.forget_damage(); // it has passed
            count(open, protector, ledger.count(), report)?;
            return look_at_values(db, table, open, &mut Which::default(), report, progress);
        }
        // Too little memory for a block says nothing about the file.
        (_, Err(error)) if *error.kind() == OUT_OF_MEMORY => return add_unread(&error, report),
        (_, Err(error)) => bearable(error)?,
        (Err(error), Ok(_)) => bearable(error.clone())?,
    };
    let family = table.family().name();
    let before = report.damage.len();
    if opened.is_err() {
        report.damage.push(Finding { file: table.name(), ..Finding::of(&error, Some(family)) });
        report.structural += 1;
    }
    let open = match opened {
        Ok(open) => {
            open.read_guide(true)?; // read failures are reported below
            open
        }
        Err(_) => match db.rebuild_table(table) {
            Ok(rebuilt) => rebuilt.table,
            Err(_) => match table.table() {
                Ok(open) if open.read_guide(false).is_ok() => open, // with the index loaded before the damage
                _ => {
                    report.lost += table.meta().ledger.count();
                    return Ok(());
                }
            },
        },
    };
    let mut readable = 0;
    open.examine(protector, true, &mut |found| {
        match found {
            ExaminedItem::Record(record, check, source) => {
                readable += 1;
                report.count(check);
                if check == Check::CompanionDamaged {
                    let message = format!("{} of a record was hit, its record is right", hit_part(record));
                    report.damage.push(Finding {
                        file: table.name(),
                        offset: source.offset,
                        family: Some(family.to_owned()),
                        key_range: Some((record.key.to_vec(), record.key.to_vec())),
                        verdict: Verdict::Seal,
                        message,
                        ..Finding::default()
                    });
                }
            }
            ExaminedItem::Gap(lost_range) => {
                *match lost_range.verdict {
                    Verdict::Seal => &mut report.corrupted,
                    Verdict::Missing => &mut report.missing,
                    _ => &mut report.structural,
                } += 1;
                report.damage.push(finding_of(table.family(), lost_range));
            }
            ExaminedItem::Refused { .. } => {} // reported below
            ExaminedItem::Healed { offset, by } => {
                report.structural += 1;
                report.damage.push(Finding {
                    file: table.name(),
                    offset,
                    family: Some(family.to_owned()),
                    verdict: Verdict::Checksum,
                    message: format!(
                        "a block does not fit its sum; it can be made whole: {}",
                        super::report::rung_of(by)
                    ),
                    ..Finding::default()
                });
            }
        }
        Ok(())
    })?;
    report.lost += table.meta().ledger.count().saturating_sub(readable);
    // The walk does not show damage of a block outside its records: its checksum, or a filter that denies its keys.
    let place = |finding: &Finding| (finding.offset, finding.outcome == Outcome::Unread);
    let mut reported: HashSet<(u64, bool)> = report.damage[before..].iter().map(place).collect();
    for block in 0..open.blocks() {
        let Err(error) = open.check_block(block, protector) else { continue };
        let finding = Finding::of(&bearable(error)?, Some(family));
        if reported.insert(place(&finding)) {
            add_finding(table, finding, report);
        }
    }
    if report.damage.len() == before {
        // All records are there: the filter, the properties or the order is wrong, or the file is readable by now.
        add_finding(table, Finding::of(&error, Some(family)), report);
    }
    look_at_values(db, table, &open, &mut Which::default(), report, progress)
}

/// Returns true if the records that were read are those that the manifest counts. The sums are those of the seals, which
/// a plain node does not read.
pub(super) fn is_same_ledger(db: &Db, read: &Ledger, kept: &Ledger) -> bool {
    let is_summed = kept.has_sums() && db.companions().protection() != Protection::None;
    read == kept || !is_summed && read.counts() == kept.counts()
}

/// Reports damage outside a table's records, or a failed read.
fn add_finding(table: &TableRef, finding: Finding, report: &mut Report) {
    let is_unread = finding.outcome == Outcome::Unread;
    *if is_unread { &mut report.unread } else { &mut report.structural } += 1;
    report.damage.push(if is_unread { Finding { file: table.name(), ..finding } } else { finding });
}

/// Returns a name for the damaged companion of an intact record.
fn hit_part(record: &Record<'_>) -> &'static str {
    let key_hash = hash(record.key);
    let annotations = Annotations::read(record.companion).unwrap_or_default();
    if is_stamp_hit(record.companion, key_hash) {
        "the stamp"
    } else if annotations.entries().any(|entry| entry.is_ok_and(|entry| !entry.is_whole(key_hash))) {
        "an entry"
    } else {
        "the seal"
    }
}

/// Counts the records of an intact table.
fn count(
    open: &Arc<Table>,
    protector: &dyn waxseal_lsm::seam::Companions,
    records: u64,
    report: &mut Report,
) -> Result<()> {
    match open.protection() {
        _ if protector.protection() == Protection::None => {}
        Protection::Complete => {
            report.records += records;
            report.validated += records;
            return Ok(());
        }
        Protection::Partial => {
            return open.examine(protector, false, &mut |found| {
                if let ExaminedItem::Record(_, check, _) = found {
                    report.count(check);
                }
                Ok(())
            });
        }
        Protection::None | Protection::Foreign => {}
    }
    report.records += records;
    report.unverified += records;
    Ok(())
}

fn look_at_memory(db: &Db, family: &Family, report: &mut Report) -> Result<()> {
    let (memory, mut room) = (db.memory(family)?, BlobBuffer::default());
    memory.visit(&mut |record, check| {
        report.count(check);
        if !check.serves() {
            report.damage.push(Finding::of(&mismatch(record), Some(family.name())));
        } else if record.kind == Kind::BlobPointer {
            report.bytes += stored_bytes(record);
            add_value_finding(family, memory.look_at_value(record, &mut room), &[], report)?;
        }
        Ok(())
    })
}

/// Returns the error for a record that does not match its seal.
pub(super) fn mismatch(record: &Record<'_>) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    let damage = Damage { key_range, verdict: Verdict::Seal, ..Damage::default() };
    Error::corruption(damage, "a record does not match its seal")
}
