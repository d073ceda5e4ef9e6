//! Stores that nobody has open: destroy and repair.

use std::io;
use std::path::{Path, PathBuf};

use waxseal::care::Outcome;
use waxseal::env::{Fs, RealFs};
use waxseal::{Contents, Db, Error, ErrorKind, RepairOptions, Report, SalvageOptions};

use crate::failure::Failure;
use crate::foreign::refuse_other_engines;
use crate::options::{Options, Plan};

/// Removes a store with all that is in it. Where there is none, there is nothing to do, as with LevelDB. A database that LevelDB or RocksDB wrote is
/// refused: it is not this library's to remove.
pub(crate) fn destroy(dir: &Path) -> Result<(), Failure> {
    refuse_other_engines(dir)?;
    match Db::contents(dir)? {
        Contents::Store | Contents::Damaged | Contents::Marked(_) => Ok(Db::destroy(dir)?),
        Contents::Empty | Contents::Foreign(_) => Ok(()), // other files are left alone
    }
}

/// Mends what can be mended. What cannot is an error, and the store is open to everything else: reads of what was lost answer an error
/// for good, so nothing older stands in its place, unless no fence can be (`rebuilt`).
pub(crate) fn repair(dir: &Path, options: &Options) -> Result<(), Failure> {
    // What it is made for is there: a repair makes no store and refuses none.
    let options = Options { create_if_missing: false, error_if_exists: false, ..options.clone() };
    let plan = Plan::of(&options)?;
    refuse_other_engines(dir)?;
    if !holds_something(dir)? {
        return Err(Failure::io(format_args!("{}: repair found no files", dir.display())));
    }
    // Its own name, so that others can be made of it: not "." nor one that ends in a slash.
    let dir = dir.canonicalize().map_err(|error| Failure::io(format_args!("{}: {error}", dir.display())))?;
    match in_place(&plan, &dir) {
        // Log or manifest are hit. A log that is cut there would end there, and what stands behind it is whole.
        Err(error) if error.is_corruption() => rebuilt(&plan, &dir),
        done => told(done?),
    }
}

/// Opens the store and repairs it.
fn in_place(plan: &Plan, dir: &Path) -> Result<Report, Error> {
    let db = plan.builder(dir).open()?;
    let report = db.repair(RepairOptions::default())?;
    db.close()?;
    Ok(report)
}

/// Reads what can be read into a new store and puts that in the place of the old one, which is kept beside it. Where a loss cannot be
/// fenced, all of them are accepted.
fn rebuilt(plan: &Plan, dir: &Path) -> Result<(), Failure> {
    let (fresh, old) = (free_name(dir, "salvaged")?, free_name(dir, "damaged")?);
    let salvage = |accept_loss| {
        let options = SalvageOptions { accept_loss, ..SalvageOptions::default() };
        plan.builder(dir).salvage(&fresh, options)
    };
    let report = match salvage(false) {
        // A comparator names no last key, so what was lost anywhere cannot be kept out of reach: reads answer with what there is.
        Err(error) if plan.has_comparator() && *error.kind() == ErrorKind::Invalid => salvage(true)?,
        done => done?,
    };
    exchange(dir, &fresh, &old).map_err(|error| {
        Failure::io(format_args!("{}: putting the salvaged store in place: {error}", dir.display()))
    })?;
    told(report)
}

/// Puts the new store in the place of the old one; if that cannot be done, the old one stays, and the new one goes.
fn exchange(dir: &Path, fresh: &Path, old: &Path) -> io::Result<()> {
    let fs = RealFs;
    let forget = || drop(Db::destroy(fresh));
    fs.rename(dir, old).inspect_err(|_| forget())?;
    fs.rename(fresh, dir).inspect_err(|_| {
        if fs.rename(old, dir).is_ok() {
            forget(); // else both stay beside it, for whoever finds out why
        }
    })
}

/// What is left to say of a repair.
fn told(report: Report) -> Result<(), Failure> {
    let is_mended = |outcome: &Outcome| matches!(outcome, Outcome::Repaired(_));
    let left = report.damage.iter().filter(|finding| !is_mended(&finding.outcome)).count();
    if left == 0 && report.lost == 0 {
        return Ok(());
    }
    Err(Failure::corruption(format_args!(
        "the store is open to what was not lost, but not all could be repaired: {report}"
    )))
}

/// A path beside the store that nothing stands at.
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
