//! The values that a table or a memtable points to, looked at with it.
//!
//! In:     a table whose records were found right, or what is left of one; records of a memtable.
//! Out:    what is wrong with a value, or with what stands around it in its file, in the report; the bytes that were read, as they are stored.
//! Holds:  a value is compared with the hash that its record's seal speaks for, as it lies: what a read would correct on the way is damage
//!         here. Both ends of each file are looked at too. Garbage is not: nobody can read it.

use std::collections::HashSet;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{Db, Family, TableRef};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::sst::{Found, Table};
use waxseal_lsm::values::Room;

use super::report::{Finding, Report, is_unread};
use super::verify::bearable;

/// Which values of a table are looked at, in the order of its records.
#[derive(Default)]
pub(super) struct Which<'a> {
    /// Those behind so many.
    pub(super) behind: u64,
    /// Those in these files; none: in any.
    pub(super) of: Option<&'a HashSet<Uid>>,
    /// How many the look has come by.
    pub(super) passed: u64,
    /// What was told before, and is not told again.
    pub(super) told: &'a [Finding],
}

impl Which<'_> {
    /// Comes by one; true if it is to be looked at.
    fn takes(&mut self, record: &Record<'_>) -> bool {
        self.passed += 1;
        let is_of = |of: &HashSet<Uid>| Pointer::decode(record.value).is_ok_and(|pointer| of.contains(&pointer.uid));
        self.passed > self.behind && self.of.is_none_or(is_of)
    }
}

/// Looks at values that the records of a table point to. `progress` hears of bytes, and its error ends the look.
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
    let (family, keeper) = (table.family(), db.companions());
    let mut room = Room::default();
    open.examine(keeper, true, &mut |found| match found {
        Found::Record(record, check, _)
            if record.kind == Kind::BlobPointer && check.serves() && which.takes(record) =>
        {
            let bytes = stored_bytes(record);
            report.bytes += bytes;
            tell_of_value(family, table.look_at_value(record, &mut room), which.told, report)?;
            progress(bytes)
        }
        _ => Ok(()),
    })?;
    for file in table.values() {
        if let Err(error) = file.check_ends() {
            let count = if is_unread(&error) { &mut report.unread } else { &mut report.structural };
            let finding = Finding::of(&bearable(error)?, Some(family.name()));
            if !which.told.contains(&finding) {
                *count += 1;
                report.damage.push(finding);
            }
        }
    }
    Ok(())
}

/// Bytes in its file of the value that a record points to, with what stands around it: what the manifest counts of each.
pub(super) fn stored_bytes(record: &Record<'_>) -> u64 {
    Pointer::decode(record.value).map_or(0, |pointer| pointer.entry_bytes(record.key.len()))
}

/// Tells of what a look at a value has found, unless it was told before.
pub(super) fn tell_of_value(
    family: &Family,
    looked: Result<Option<Error>>,
    told: &[Finding],
    report: &mut Report,
) -> Result<()> {
    let (count, error) = match looked {
        Ok(None) => return Ok(()),
        Ok(Some(error)) => (&mut report.structural, error),
        Err(error) if is_unread(&error) => (&mut report.unread, error),
        Err(error) => (&mut report.corrupted, error),
    };
    let finding = Finding::of(&bearable(error)?, Some(family.name()));
    if !told.contains(&finding) {
        *count += 1;
        report.damage.push(finding);
    }
    Ok(())
}

/// True if every value that was looked at can be had and nothing around it was hit; and whether `progress` ended the look. What was found is not told.
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
