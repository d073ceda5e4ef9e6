//! Names of the files in a directory of backups.

use std::fmt;

use crate::checksum::Uid;
use crate::version::BACKUP_PREFIX;

/// The suffix of a file that is being written.
const UNFINISHED: &str = ".tmp";

/// The prefix of the name of the mark that holds the last number of a purged backup.
const PURGED_PREFIX: &str = "PURGED-";

/// A file of a directory of backups, identified by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum BackupFileName {
    /// `BACKUP-000012`: the description of a backup.
    Description(u64),
    /// `PURGED-000012`: an empty file. The backups through this number were removed, and the number is not used again.
    Purged(u64),
    /// `0123….0123….tbl`: a copied table, by uid and digest.
    Table(Uid, u64),
    /// `0123….0123….val`: a copied blob file, by uid and digest.
    Values(Uid, u64),
}

impl BackupFileName {
    /// Parses a name; `None` for foreign files and unfinished ones.
    pub(super) fn parse(name: &str) -> Option<BackupFileName> {
        let parsed = match (name.strip_prefix(BACKUP_PREFIX), name.strip_prefix(PURGED_PREFIX)) {
            (Some(number), _) => BackupFileName::Description(number.parse().ok()?),
            (_, Some(number)) => BackupFileName::Purged(number.parse().ok()?),
            (None, None) => {
                let mut parts = name.split('.');
                let (uid, digest) = (Uid::parse(parts.next()?)?, parts.next()?);
                let digest = u64::from_str_radix(digest, 16).ok()?;
                match parts.next()? {
                    "tbl" => BackupFileName::Table(uid, digest),
                    "val" => BackupFileName::Values(uid, digest),
                    _ => return None,
                }
            }
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Returns true for the name of a file that is being written, or was when a backup was interrupted.
    pub(super) fn is_unfinished(name: &str) -> bool {
        name.strip_suffix(UNFINISHED).is_some_and(|name| BackupFileName::parse(name).is_some())
    }

    /// Returns the name under which the file is written.
    pub(super) fn unfinished(self) -> String {
        format!("{self}{UNFINISHED}")
    }
}

impl fmt::Display for BackupFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupFileName::Description(number) => write!(f, "{BACKUP_PREFIX}{number:06}"),
            BackupFileName::Purged(number) => write!(f, "{PURGED_PREFIX}{number:06}"),
            BackupFileName::Table(uid, digest) => write!(f, "{uid:?}.{digest:016x}.tbl"),
            BackupFileName::Values(uid, digest) => write!(f, "{uid:?}.{digest:016x}.val"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_no_others_are_taken() {
        for name in [
            BackupFileName::Description(1),
            BackupFileName::Description(u64::MAX),
            BackupFileName::Purged(12),
            BackupFileName::Table(Uid([0xab; 16]), 7),
            BackupFileName::Values(Uid([1; 16]), u64::MAX),
        ] {
            assert_eq!(BackupFileName::parse(&name.to_string()), Some(name));
            assert!(BackupFileName::is_unfinished(&name.unfinished()) && !BackupFileName::is_unfinished("notes.tmp"));
        }
        let uid = "ab".repeat(16);
        for foreign in [
            "BACKUP-1".to_owned(),
            "PURGED-1".to_owned(),
            "BACKUP-0000001".to_owned(),
            "BACKUP-../x".to_owned(),
            format!("{uid}.7.tbl"),
            format!("../{uid}.0000000000000007.tbl"),
            format!("{}.0000000000000007.tbl", uid.to_uppercase()),
            format!("{uid}.0000000000000007.tbl.tmp"),
            format!("{uid}.+000000000000007.tbl"),
            String::new(),
        ] {
            assert_eq!(BackupFileName::parse(&foreign), None, "{foreign}");
        }
    }
}
