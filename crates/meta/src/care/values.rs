//! The values that a table points to, looked at with it.
//!
//! In:     a table whose records were found right, or what is left of one.
//! Out:    what is wrong with a value, or with what stands around it in its file, in the report; the bytes that were read.
//! Holds:  a value is compared with the hash that its record's seal speaks for, as it lies: what a read would correct on the way is damage
//!         here. Both ends of each file are looked at too. Garbage is not: nobody can read it.

use waxseal_lsm::db::{Db, TableRef};
use waxseal_lsm::error::Result;
use waxseal_lsm::pointer::value_bytes;
use waxseal_lsm::record::Kind;
use waxseal_lsm::sst::{Found, Table};
use waxseal_lsm::values::Room;

use super::report::{Finding, Report, is_unread};
use super::verify::bearable;

/// Looks at every value that the records of a table point to. `progress` hears of bytes, and its error ends the look.
pub(super) fn look_at_values(
    db: &Db,
    table: &TableRef,
    open: &Table,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    if table.meta().values.is_empty() {
        return Ok(());
    }
    let (family, keeper) = (table.family(), db.companions());
    let mut tell = |error| -> Result<()> {
        let finding = Finding::of(&bearable(error)?, Some(family.name()));
        report.damage.push(finding);
        Ok(())
    };
    let mut room = Room::default();
    let (mut lost, mut hit, mut unread, mut bytes) = (0, 0, 0, 0);
    open.examine(keeper, true, &mut |found| {
        let Found::Record(record, check, _) = found else { return Ok(()) };
        if record.kind != Kind::BlobPointer || !check.serves() {
            return Ok(());
        }
        let length = value_bytes(record);
        match db.look_at_value(family, record, &mut room) {
            Ok(None) => {}
            Ok(Some(error)) => {
                hit += 1;
                tell(error)?;
            }
            Err(error) => {
                *if is_unread(&error) { &mut unread } else { &mut lost } += 1;
                tell(error)?;
            }
        }
        bytes += length;
        progress(length)
    })?;
    for file in table.values() {
        if let Err(error) = file.check_ends() {
            *if is_unread(&error) { &mut unread } else { &mut hit } += 1;
            tell(error)?;
        }
    }
    report.bytes += bytes;
    report.corrupted += lost;
    report.structural += hit;
    report.unread += unread;
    Ok(())
}

/// True if every value can be had and nothing around it was hit.
pub(super) fn values_are_whole(
    db: &Db,
    table: &TableRef,
    open: &Table,
    report: &mut Report,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<bool> {
    let mut seen = Report::default();
    look_at_values(db, table, open, &mut seen, progress)?;
    report.bytes += seen.bytes;
    Ok(seen.damage.is_empty())
}
