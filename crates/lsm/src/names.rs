//! Names of a store's files, and their parsing (one counter numbers all files); names and ids of system families. Also
//! checks that the directory still holds the open store.

use crate::env::Env;
use crate::error::{IoContext, Result};

/// Fails with `Halted` if the store's lock file or `CURRENT` was removed or replaced, or its directory was removed.
/// Costs two `fstatat`.
pub(crate) fn check_place(env: &Env) -> Result<()> {
    env.fs.check_place().during(|| "checking LOCK and CURRENT")
}

/// The prefix of every system family's name; no other family has it.
pub const SYSTEM: &str = "system_metadata";

/// First id of system families. Ids of users' families are far below, so system families do not affect their numbering.
/// See docs/format.md, section 5.2.
const SYSTEM_IDS: u32 = 0xFFFF_FF00;

/// The greatest number of a system family. No family uses the id after it.
pub const MAX_SYSTEM: u8 = 254;

/// Returns the id of the system family with this number.
pub const fn system_id(number: u8) -> u32 {
    SYSTEM_IDS + number as u32
}

/// Returns the number of a system family from its id; `None` for a user's family.
pub const fn system_number(id: u32) -> Option<u8> {
    if id >= SYSTEM_IDS && id != u32::MAX { Some((id - SYSTEM_IDS) as u8) } else { None }
}

/// Returns true for names reserved for system families.
pub fn is_system_name(name: &str) -> bool {
    name.strip_prefix(SYSTEM).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A file of a store, identified by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum StoreFileName {
    /// `000012.tbl`
    Table(u64),
    /// `000012.val`
    Values(u64),
    /// `000012.log`
    Segment(u64),
    /// `000012.ring`
    Ring(u64),
    /// `MANIFEST-000012`
    Manifest(u64),
    /// `000012.cut`: log bytes set aside by recovery.
    Cut(u64),
    /// `000012.trash`: a replaced table, kept for repairs.
    Trash(u64),
    /// `000012.damaged`: a table before a repair that lost data.
    Damaged(u64),
    /// `CURRENT`, which names the manifest.
    Current,
    /// `LOCK`, held by the writing process.
    Lock,
    /// `CURRENT.tmp`, never read.
    Temporary,
    /// `UNFINISHED`: the directory is an unfinished checkpoint or export.
    Unfinished,
}

impl StoreFileName {
    /// Parses a file name in a store's directory; `None` for foreign files.
    pub fn parse(name: &str) -> Option<StoreFileName> {
        match name {
            "CURRENT" => return Some(StoreFileName::Current),
            "LOCK" => return Some(StoreFileName::Lock),
            "CURRENT.tmp" => return Some(StoreFileName::Temporary),
            "UNFINISHED" => return Some(StoreFileName::Unfinished),
            _ => {}
        }
        if let Some(number) = name.strip_prefix("MANIFEST-") {
            return number.parse().ok().map(StoreFileName::Manifest).filter(|parsed| parsed.to_string() == name);
        }
        let (number, extension) = name.split_once('.')?;
        let number = number.parse().ok()?;
        let parsed = match extension {
            "tbl" => StoreFileName::Table(number),
            "val" => StoreFileName::Values(number),
            "log" => StoreFileName::Segment(number),
            "ring" => StoreFileName::Ring(number),
            "cut" => StoreFileName::Cut(number),
            "trash" => StoreFileName::Trash(number),
            "damaged" => StoreFileName::Damaged(number),
            _ => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Returns the file number, if the name contains one.
    pub fn number(self) -> Option<u64> {
        match self {
            StoreFileName::Table(n)
            | StoreFileName::Values(n)
            | StoreFileName::Segment(n)
            | StoreFileName::Ring(n)
            | StoreFileName::Manifest(n) => Some(n),
            StoreFileName::Cut(n) | StoreFileName::Trash(n) | StoreFileName::Damaged(n) => Some(n),
            StoreFileName::Current | StoreFileName::Lock | StoreFileName::Temporary | StoreFileName::Unfinished => None,
        }
    }
}

impl std::fmt::Display for StoreFileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreFileName::Table(n) => write!(f, "{n:06}.tbl"),
            StoreFileName::Values(n) => write!(f, "{n:06}.val"),
            StoreFileName::Segment(n) => write!(f, "{n:06}.log"),
            StoreFileName::Ring(n) => write!(f, "{n:06}.ring"),
            StoreFileName::Manifest(n) => write!(f, "MANIFEST-{n:06}"),
            StoreFileName::Cut(n) => write!(f, "{n:06}.cut"),
            StoreFileName::Trash(n) => write!(f, "{n:06}.trash"),
            StoreFileName::Damaged(n) => write!(f, "{n:06}.damaged"),
            StoreFileName::Current => f.write_str("CURRENT"),
            StoreFileName::Lock => f.write_str("LOCK"),
            StoreFileName::Temporary => f.write_str("CURRENT.tmp"),
            StoreFileName::Unfinished => f.write_str("UNFINISHED"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_families_have_ids_and_names_of_their_own() {
        for number in [0, 1, MAX_SYSTEM] {
            assert_eq!(system_number(system_id(number)), Some(number));
        }
        assert_eq!((system_id(1), system_number(u32::MAX), system_number(SYSTEM_IDS - 1)), (0xFFFF_FF01, None, None));
        assert!(is_system_name("system_metadata") && is_system_name("system_metadata.log"));
        assert!(!is_system_name("system_metadatas") && !is_system_name("log"));
    }

    #[test]
    fn names_come_back() {
        for name in [
            StoreFileName::Table(1),
            StoreFileName::Values(2),
            StoreFileName::Segment(1_234_567),
            StoreFileName::Ring(3),
            StoreFileName::Manifest(9),
            StoreFileName::Cut(4),
            StoreFileName::Trash(6),
            StoreFileName::Damaged(5),
            StoreFileName::Current,
            StoreFileName::Lock,
            StoreFileName::Temporary,
            StoreFileName::Unfinished,
        ] {
            assert_eq!(StoreFileName::parse(&name.to_string()), Some(name));
        }
        for foreign in ["1.tbl", "0000001.tbl", "+00001.tbl", "000001.sst", "MANIFEST-x", "notes.txt", ""] {
            assert_eq!(StoreFileName::parse(foreign), None, "{foreign}");
        }
    }
}
