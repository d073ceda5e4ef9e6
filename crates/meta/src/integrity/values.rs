//! Checks the blob values that a table or a memtable points to.
//!
//! In:     a table whose records are intact, or its readable part; records of a memtable.
//! Out:    findings about values and their blob files in the report; the bytes read, as stored.
//! Holds:  a value is compared, as stored, with the hash that its record's seal covers. Damage that a read would
//!         correct is reported here. Header and end of each blob file are checked too. Garbage is not checked, because
//!         no read returns it.

use std::collections::HashSet;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{Db, Family, TableRef};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::sst::{ExaminedItem, Table};
use waxseal_lsm::values::BlobBuffer;

use super::report::{Finding, Report, bearable, is_unread};

/// Which values of a table are checked, in record order.
#[derive(Default)]
pub(super) struct Which<'a> {
    /// Skips this many values.
    pub(super) behind: u64,
    /// Only values in these blob files; `None` means all.
    pub(super) of: Option<&'a HashSet<Uid>>,
    /// Number of values passed so far.
    pub(super) passed: u64,
    /// Earlier findings, which are not reported again.
    pub(super) reported: &'a [Finding],
}

impl Which<'_> {
    /// Passes one value; returns true if it must be checked.
    fn takes(&mut self, record: &Record<'_>) -> bool {
        self.passed += 1;
        let is_of = |of: &HashSet<Uid>| Pointer::decode(record.value).is_ok_and(|pointer| of.contains(&pointer.uid));
        self.passed > self.behind && self.of.is_none_or(is_of)
    }
}

/// Checks the values of a table's records. `progress` gets the number of bytes, and its error ends the check.
pub(super) fn look_at_values(
    db: &Db,
    table: &TableRef,
    open: &Table,
    which: &mut Which<'_>,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    if table.meta().values.is_empty() {
        return Ok(());
    }
    let (family, protector) = (table.family(), db.companions());
    let mut room = BlobBuffer::default();
    open.examine(protector, true, &mut |found| match found {
        ExaminedItem::Record(record, check, _)
            if record.kind == Kind::BlobPointer && check.serves() && which.takes(record) =>
        {
            let bytes = stored_bytes(record);
            report.bytes += bytes;
            add_value_finding(family, table.look_at_value(record, &mut room), which.reported, report)?;
            progress(bytes)
        }
        _ => Ok(()),
    })?;
    for file in table.values() {
        let looked = match file.check_ends() {
            Err(error) if !is_unread(&error) => Ok(Some(error)),
            ends => ends.map(|()| None),
        };
        add_value_finding(family, looked, which.reported, report)?;
    }
    Ok(())
}

/// Returns the stored length of a record's value with its frame in the blob file, as the manifest counts it.
pub(super) fn stored_bytes(record: &Record<'_>) -> u64 {
    Pointer::decode(record.value).map_or(0, |pointer| pointer.entry_bytes(record.key.len()))
}

/// Reports the result of a value check, unless it was reported before.
pub(super) fn add_value_finding(
    family: &Family,
    looked: Result<Option<Error>>,
    reported: &[Finding],
    report: &mut Report,
) -> Result<()> {
    let (count, error) = match looked {
        Ok(None) => return Ok(()),
        Ok(Some(error)) => (&mut report.structural, error),
        Err(error) if is_unread(&error) => (&mut report.unread, error),
        Err(error) => (&mut report.corrupted, error),
    };
    let finding = Finding::of(&bearable(error)?, Some(family.name()));
    if !reported.contains(&finding) {
        *count += 1;
        report.damage.push(finding);
    }
    Ok(())
}

/// Returns true if all checked values are readable and the frames around them are intact, and the error of `progress`
/// if it ended the check. Findings are not reported.
pub(super) fn values_are_whole(
    db: &Db,
    table: &TableRef,
    open: &Table,
    which: &mut Which<'_>,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> (bool, Result<()>) {
    let mut seen = Report::default();
    let looked = look_at_values(db, table, open, which, &mut seen, progress);
    report.bytes += seen.bytes;
    (seen.damage.is_empty(), looked)
}
