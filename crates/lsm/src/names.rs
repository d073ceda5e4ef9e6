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
pub enum Name {
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

impl Name {
    /// Parses a file name in a store's directory; `None` for foreign files.
    pub fn parse(name: &str) -> Option<Name> {
        match name {
            "CURRENT" => return Some(Name::Current),
            "LOCK" => return Some(Name::Lock),
            "CURRENT.tmp" => return Some(Name::Temporary),
            "UNFINISHED" => return Some(Name::Unfinished),
            _ => {}
        }
        if let Some(number) = name.strip_prefix("MANIFEST-") {
            return number.parse().ok().map(Name::Manifest).filter(|parsed| parsed.to_string() == name);
        }
        let (number, extension) = name.split_once('.')?;
        let number = number.parse().ok()?;
        let parsed = match extension {
            "tbl" => Name::Table(number),
            "val" => Name::Values(number),
            "log" => Name::Segment(number),
            "ring" => Name::Ring(number),
            "cut" => Name::Cut(number),
            "trash" => Name::Trash(number),
            "damaged" => Name::Damaged(number),
            _ => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Returns the file number, if the name contains one.
    pub fn number(self) -> Option<u64> {
        match self {
            Name::Table(n) | Name::Values(n) | Name::Segment(n) | Name::Ring(n) | Name::Manifest(n) => Some(n),
            Name::Cut(n) | Name::Trash(n) | Name::Damaged(n) => Some(n),
            Name::Current | Name::Lock | Name::Temporary | Name::Unfinished => None,
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Table(n) => write!(f, "{n:06}.tbl"),
            Name::Values(n) => write!(f, "{n:06}.val"),
            Name::Segment(n) => write!(f, "{n:06}.log"),
            Name::Ring(n) => write!(f, "{n:06}.ring"),
            Name::Manifest(n) => write!(f, "MANIFEST-{n:06}"),
            Name::Cut(n) => write!(f, "{n:06}.cut"),
            Name::Trash(n) => write!(f, "{n:06}.trash"),
            Name::Damaged(n) => write!(f, "{n:06}.damaged"),
            Name::Current => f.write_str("CURRENT"),
            Name::Lock => f.write_str("LOCK"),
            Name::Temporary => f.write_str("CURRENT.tmp"),
            Name::Unfinished => f.write_str("UNFINISHED"),
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
            Name::Table(1),
            Name::Values(2),
            Name::Segment(1_234_567),
            Name::Ring(3),
            Name::Manifest(9),
            Name::Cut(4),
            Name::Trash(6),
            Name::Damaged(5),
            Name::Current,
            Name::Lock,
            Name::Temporary,
            Name::Unfinished,
        ] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for foreign in ["1.tbl", "0000001.tbl", "+00001.tbl", "000001.sst", "MANIFEST-x", "notes.txt", ""] {
            assert_eq!(Name::parse(foreign), None, "{foreign}");
        }
    }
}
