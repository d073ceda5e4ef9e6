//! Databases written by LevelDB or RocksDB. This library refuses to open, repair or remove them.

use std::path::Path;

use waxseal::{Contents, Db, Foreign};

use crate::failure::Failure;

/// Refuses a directory that another engine wrote.
pub(crate) fn refuse_other_engines(dir: &Path) -> Result<(), Failure> {
    let contents = Db::contents(dir)?;
    if !matches!(contents, Contents::Foreign(Foreign::LevelDb | Foreign::RocksDb)) {
        return Ok(());
    }
    let what = "its files cannot be used here: copy the records with both libraries";
    Err(Failure::invalid(format_args!("{}: holds {contents}; {what}", dir.display())))
}
