//! Operations on closed stores: destroy and repair.

use std::io;
use std::path::{Path, PathBuf};

use waxseal::care::Outcome;
use waxseal::env::{Fs, RealFs};
use waxseal::{Contents, Db, Error, ErrorKind, RepairOptions, Report, SalvageOptions};

use crate::failure::Failure;
use crate::foreign::refuse_other_engines;
use crate::open_plan::OpenPlan;
use crate::options::Options;

/// Removes a store with all its data. As in LevelDB, a missing store is not an error. A database that LevelDB or
/// RocksDB wrote is refused, since it does not belong to this library.
pub(crate) fn destroy(dir: &Path) -> Result<(), Failure> {
    refuse_other_engines(dir)?;
    match Db::contents(dir)? {
        Contents::Store | Contents::Damaged | Contents::Marked(_) => Ok(Db::destroy(dir)?),
        Contents::Empty | Contents::Foreign(_) => Ok(()), // other files are left alone
    }
}

/// Repairs the store. Unrepairable damage is an error, but the store can be opened: reads of lost records return an
/// error and never an older value. The exception is a loss that cannot be fenced (`rebuilt`).
pub(crate) fn repair(dir: &Path, options: &Options) -> Result<(), Failure> {
    // These options govern creation, which a repair never does: it neither creates a store nor refuses an existing one.
    let options = Options { create_if_missing: false, error_if_exists: false, ..options.clone() };
    let plan = OpenPlan::of(&options)?;
    refuse_other_engines(dir)?;
    if !holds_something(dir)? {
        return Err(Failure::io(format_args!("{}: repair found no files", dir.display())));
    }
    // The canonical path, from which other names are derived: not "." and without a trailing slash.
    let dir = dir.canonicalize().map_err(|error| Failure::io(format_args!("{}: {error}", dir.display())))?;
    match in_place(&plan, &dir) {
        // The log or the manifest is damaged. Opening with a cut log would lose the undamaged frames behind the damage.
        Err(error) if error.is_corruption() => rebuilt(&plan, &dir),
        done => checked(done?),
    }
}

/// Opens the store and repairs it in place.
fn in_place(plan: &OpenPlan, dir: &Path) -> Result<Report, Error> {
    let db = plan.builder(dir).open()?;
    let report = db.repair(RepairOptions::default())?;
    db.close()?;
    Ok(report)
}

/// Copies all readable records to a new store and replaces the old store with it; the old one is kept next to it. If a
/// loss cannot be fenced, all losses are accepted.
fn rebuilt(plan: &OpenPlan, dir: &Path) -> Result<(), Failure> {
    let (fresh, old) = (free_name(dir, "salvaged")?, free_name(dir, "damaged")?);
    let salvage = |accept_loss| {
        let options = SalvageOptions { accept_loss, ..SalvageOptions::default() };
        plan.builder(dir).salvage(&fresh, options)
    };
    let report = match salvage(false) {
        // A custom order has no last key, so a loss at an unknown key cannot be fenced: reads may then return older
        // values.
        Err(error) if plan.has_comparator() && *error.kind() == ErrorKind::Invalid => salvage(true)?,
        done => done?,
    };
    exchange(dir, &fresh, &old).map_err(|error| {
        Failure::io(format_args!("{}: putting the salvaged store in place: {error}", dir.display()))
    })?;
    checked(report)
}

/// Replaces the old store with the new one. On a failure the old store stays, and the new one is removed.
fn exchange(dir: &Path, fresh: &Path, old: &Path) -> io::Result<()> {
    let fs = RealFs;
    let forget = || drop(Db::destroy(fresh));
    fs.rename(dir, old).inspect_err(|_| forget())?;
    fs.rename(fresh, dir).inspect_err(|_| {
        if fs.rename(old, dir).is_ok() {
            forget(); // otherwise both stay, for a manual repair
        }
    })
}

/// Returns an error that describes the remaining damage, if any.
fn checked(report: Report) -> Result<(), Failure> {
    let is_mended = |outcome: &Outcome| matches!(outcome, Outcome::Repaired(_));
    let left = report.damage.iter().filter(|finding| !is_mended(&finding.outcome)).count();
    if left == 0 && report.lost == 0 {
        return Ok(());
    }
    Err(Failure::corruption(format_args!(
        "the store is open to what was not lost, but not all could be repaired: {report}"
    )))
}

/// Returns an unused path next to the store.
fn free_name(dir: &Path, word: &str) -> Result<PathBuf, Failure> {
    let named = |number: usize| {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!(".{word}-{number}"));
        PathBuf::from(name)
    };
    let free = (1..1000).map(named).find(|path| matches!(RealFs.exists(path), Ok(false)));
    free.ok_or_else(|| Failure::io(format_args!("no name is free for {}.{word}-N", dir.display())))
}

fn holds_something(dir: &Path) -> Result<bool, Failure> {
    let fs = RealFs;
    let looked = fs.exists(dir).and_then(|there| Ok(there && !fs.list(dir)?.is_empty()));
    looked.map_err(|error| Failure::io(format_args!("{}: {error}", dir.display())))
}
