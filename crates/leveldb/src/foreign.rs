//! Databases that LevelDB itself wrote. They are known by their names, never read, and changed only by a destroy.

use std::path::Path;

use waxseal::env::{Fs, RealFs};

use crate::failure::Failure;

/// True if files of LevelDB's are there that no store of ours has.
pub(crate) fn is_leveldbs(dir: &Path) -> bool {
    let names = RealFs.list(dir).unwrap_or_default();
    let is_table = |name: &String| is_leveldbs_name(name) && (name.ends_with(".ldb") || name.ends_with(".sst"));
    let is_log = |name: &String| name == "LOG" || name == "LOG.old";
    names.iter().any(is_table) || (names.iter().any(is_log) && names.iter().any(|name| name == "CURRENT"))
}

/// Refuses a directory that LevelDB wrote.
pub(crate) fn refuse_leveldbs(dir: &Path) -> Result<(), Failure> {
    if !is_leveldbs(dir) {
        return Ok(());
    }
    let what = "holds a database that LevelDB wrote; Waxseal keeps other files: copy it with both libraries";
    Err(Failure::invalid(format_args!("{}: {what}", dir.display())))
}

/// True for the names that LevelDB gives to files.
pub(crate) fn is_leveldbs_name(name: &str) -> bool {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((number, "log" | "ldb" | "sst" | "dbtmp")) => is_number(number),
        Some((stem, extension)) => (stem, extension) == ("LOG", "old"),
        None => matches!(name, "CURRENT" | "LOCK" | "LOG") || name.strip_prefix("MANIFEST-").is_some_and(is_number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_leveldbs_or_somebodys() {
        let own =
            ["CURRENT", "LOCK", "LOG", "LOG.old", "MANIFEST-000002", "000005.ldb", "7.sst", "000003.log", "9.dbtmp"];
        assert!(own.iter().all(|name| is_leveldbs_name(name)));
        let others =
            ["", "LOG.txt", "MANIFEST-", "MANIFEST-x", ".ldb", "x.ldb", "000012.tbl", "CURRENT.tmp", "letters"];
        assert!(!others.iter().any(|name| is_leveldbs_name(name)));
    }
}
