//! The system families: ordinary column families that everyone may read and only the store writes. docs/format.md,
//! section 9.

use std::ops::Bound::Unbounded;

use waxseal_lsm::batch::{Batch, SystemPass};
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::names::system_id;
use waxseal_lsm::options::{CfOptions, Verify};
use waxseal_lsm::record::Kind;

/// The registrations.
pub const REGISTRY: &str = "system_metadata.registry";
/// The events.
pub const LOG: &str = "system_metadata.log";
/// The current and past quarantine cases.
pub const QUARANTINE: &str = "system_metadata.quarantine";
/// Operations that embedders define; later also keyspaces and tables.
pub const SCHEMA: &str = "system_metadata.schema";
/// The sessions.
pub const SESSIONS: &str = "system_metadata.sessions";

/// The system families, by number.
const NAMES: [&str; 5] = [REGISTRY, LOG, QUARANTINE, SCHEMA, SESSIONS];

pub(crate) const REGISTRY_ID: u32 = system_id(0);
pub(crate) const LOG_ID: u32 = system_id(1);
pub(crate) const QUARANTINE_ID: u32 = system_id(2);
pub(crate) const SCHEMA_ID: u32 = system_id(3);
pub(crate) const SESSIONS_ID: u32 = system_id(4);

/// Number of level-0 tables before the log is compacted: four times the usual number. A query consults that many more
/// tables, through their filters.
const LOG_LEVEL0_TABLES: usize = 16;

/// Returns name and options of each system family, for `db::Parts::families`.
pub fn system_families() -> Vec<(String, CfOptions)> {
    let options = |number: u8, name: &str| CfOptions {
        system: Some(number),
        key_ends_in_seqno: name == LOG,
        // Every flush adds a table of events that are rarely read soon, and whose keys are interleaved with those of
        // earlier flushes.
        level0_tables: if name == LOG { LOG_LEVEL0_TABLES } else { CfOptions::default().level0_tables },
        ..CfOptions::default()
    };
    (0u8..).zip(NAMES).map(|(number, name)| (name.to_owned(), options(number, name))).collect()
}

/// Returns one of the system families of a store.
pub(crate) fn family(db: &Db, name: &str) -> Result<Family> {
    db.family(name)
        .ok_or_else(|| Error::invalid(format!("the store has no family {name}: it was never opened with one")))
}

/// A visitor of rows: receives key and value.
pub(crate) type See<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Passes the readable rows to `see`. Returns true if a row was damaged or may be lost. Fails with any error except
/// damage and `FormatTooNew`.
pub(crate) fn readable_rows(db: &Db, name: &str, see: See<'_>) -> Result<bool> {
    let mut damaged = false;
    walk(db, name, see, &mut |error| {
        damaged = true;
        if error.is_corruption() || matches!(error.kind(), ErrorKind::FormatTooNew) { Ok(()) } else { Err(error) }
    })?;
    Ok(damaged)
}

/// The first and last key of a range in which rows were lost; `None` if the range is not known.
pub(crate) type Lost = Option<(Vec<u8>, Vec<u8>)>;

/// Visits the readable rows and returns the ranges in which other rows were lost. Errors: those of reads except damage,
/// and those of `see`.
pub(crate) fn rows_and_losses(db: &Db, name: &str, see: See<'_>) -> Result<Vec<Lost>> {
    let (mut lost, mut refused) = (Vec::new(), None);
    let mut show = |key: &[u8], value: &[u8]| {
        if let Err(error) = see(key, value) {
            refused.get_or_insert(error);
        }
        Ok(())
    };
    walk(db, name, &mut show, &mut |error| match error.damage() {
        Some(damage) => {
            lost.push(damage.key_range.clone());
            Ok(())
        }
        None => Err(error),
    })?;
    refused.map_or(Ok(lost), Err)
}

/// Visits the rows of a family; `judge` decides whether the scan continues after an error.
fn walk(db: &Db, name: &str, see: See<'_>, judge: &mut dyn FnMut(Error) -> Result<()>) -> Result<()> {
    // A read-only store without these families has no rows in them.
    let Some(family) = db.family(name) else { return Ok(()) };
    let mut cursor = db.cursor_checked(&family, At::Latest, (Unbounded, Unbounded), Verify::Always)?;
    let mut moved = cursor.first();
    loop {
        let met = moved.is_err();
        moved.or_else(&mut *judge)?;
        match (cursor.valid(), met) {
            (true, _) => see(cursor.key(), cursor.value()).or_else(&mut *judge)?,
            (false, true) => {} // behind damage, the scan continues
            (false, false) => return Ok(()),
        }
        moved = cursor.next();
    }
}

/// Creates a batch that may write the system families.
pub(crate) fn granted() -> Batch {
    let mut batch = Batch::new();
    batch.grant(SystemPass::for_layers_above());
    batch
}

/// Creates a batch of one row.
pub(crate) fn one_row(db: &Db, family: u32, key: &[u8], value: &[u8]) -> Result<Batch> {
    let mut batch = granted();
    batch.push(family, Kind::Put, key, value, db.companions())?;
    Ok(batch)
}
