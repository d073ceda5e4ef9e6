//! Opening the store of `-d`, for reading or for writing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use waxseal::{ColumnFamily, Contents, Db, Session};

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::text;

/// The family of a copy that `follow` keeps, with the copy's position in the change feed of its source. A store that
/// follows the copy replaces the record by its own, in the same commit.
pub(crate) const FOLLOWED: &str = "waxseal.followed";
pub(crate) const POSITION: &str = "position";

/// Returns the directory of `-d`.
pub(crate) fn dir(args: &Args) -> Result<&Path, Failure> {
    args.dir.as_deref().ok_or_else(|| Failure::usage("say which store: -d DIR"))
}

/// Returns the directory of `-d`, if it holds a store, intact or damaged.
pub(crate) fn existing_store(args: &Args) -> Result<&Path, Failure> {
    let dir = dir(args)?;
    match Db::contents(dir)? {
        Contents::Store | Contents::Damaged => Ok(dir),
        contents => Err(no_store(dir, &contents)),
    }
}

/// The same for `salvage`, which also accepts an incomplete checkpoint or export.
pub(crate) fn salvageable(args: &Args) -> Result<&Path, Failure> {
    let dir = dir(args)?;
    match Db::contents(dir)? {
        Contents::Store | Contents::Damaged | Contents::Marked(_) => Ok(dir),
        contents => Err(no_store(dir, &contents)),
    }
}

fn no_store(dir: &Path, contents: &Contents) -> Failure {
    match contents {
        Contents::Empty => Failure::not_found(format!("no store in {}", dir.display())),
        _ => Failure::not_found(format!("{} holds {contents}", dir.display())),
    }
}

/// Opens for verbs that only read; works while another process writes, and changes nothing.
pub(crate) fn open_to_read(args: &Args) -> Result<Db, Failure> {
    Ok(Db::open_read_only(existing_store(args)?)?)
}

/// Opens for verbs that change an existing store.
pub(crate) fn open_to_change(args: &Args) -> Result<Db, Failure> {
    report_cut(Db::builder(existing_store(args)?).create_if_missing(false).open()?)
}

/// Opens for verbs that add data; creates the store if it does not exist.
pub(crate) fn open_to_fill(args: &Args) -> Result<Db, Failure> {
    report_cut(Db::open(dir(args)?)?)
}

/// Returns the family of `--cf`, if it exists.
pub(crate) fn existing_family(db: &Db, name: &str) -> Result<ColumnFamily, Failure> {
    find_family(db, name).ok_or_else(|| Failure::not_found(format!("no column family {name:?}")))
}

/// Returns an existing family, which may be one of the store's own.
pub(crate) fn find_family(db: &Db, name: &str) -> Option<ColumnFamily> {
    db.find_column_family(name).ok().flatten()
}

/// Fails for a copy that `follow` keeps. Contents and inodes that another process adds would get the numbers of later
/// ones of the source.
pub(crate) fn check_not_followed(db: &Db, store: &Path) -> Result<(), Failure> {
    match find_family(db, FOLLOWED) {
        Some(family) if family.contains(POSITION)? => {
            let store = store.display();
            let message = format!("{store} is a copy that `waxseal follow` keeps: change its source");
            Err(Failure::new(Exit::CheckFailed, message)
                .explain(format!("`waxseal -d {store} --cf {FOLLOWED} del {POSITION}` makes it a store of its own")))
        }
        _ => Ok(()),
    }
}

/// Returns the session of `--as`.
pub(crate) fn session(args: &Args, db: &Db) -> Result<Session, Failure> {
    match &args.name {
        Some(name) => Ok(db.session(name.as_str())?),
        None => Ok(db.nobody()),
    }
}

/// Returns the bytes of a key or value of the command line, decoded from hexadecimal with `--hex`.
pub(crate) fn bytes_of(args: &Args, argument: &OsStr) -> Result<Vec<u8>, Failure> {
    if !args.hex {
        return Ok(argument.as_bytes().to_vec());
    }
    let bytes = argument.to_str().and_then(text::unhex);
    bytes.ok_or_else(|| Failure::usage(format!("{} is not hexadecimal", argument.display())))
}

/// Reports on standard error the bytes that recovery cut from the log's torn end, so that no loss is silent.
pub(crate) fn report_cut(db: Db) -> Result<Db, Failure> {
    let recovery = db.recovery();
    if recovery.cut_bytes > 0 {
        eprintln!(
            "waxseal: the log ended in a torn write: {} cut{}; {} of it had been acknowledged",
            text::counted(recovery.cut_bytes, "byte", "bytes"),
            recovery.set_aside.map(|name| format!(" and set aside in {name}")).unwrap_or_default(),
            text::counted(recovery.acknowledged_bytes_missing, "byte", "bytes"),
        );
    }
    if recovery.may_lack_unsynced {
        eprintln!(
            "waxseal: the store was not closed before the machine stopped (or it is a copy): writes that were not synced may be missing"
        );
    }
    if recovery.lost_values > 0 {
        eprintln!(
            "waxseal: {} of the log damaged: reading the keys fails until they are written again; `verify` lists them",
            text::counted(recovery.lost_values, "value", "values"),
        );
    }
    Ok(db)
}
