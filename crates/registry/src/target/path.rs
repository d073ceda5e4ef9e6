//! Targets as bytes. docs/format.md, section 9.2.
//!
//! A path is a sequence of marks, each followed by a component, from the top down; the cluster's path is empty. A mark
//! gives the kind of its component, so a path can be read without a schema. Marks of one level sort as in the tables
//! below. A path begins with the paths of its ancestors and with no other path, so a subtree is one key range. `END`
//! terminates a path that is followed by other data. `END` is smaller than every mark, so a target sorts before its
//! subtree.

use std::fmt;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};

use super::{MAX_NAME_BYTES, NoTables, TableName, Target};
use crate::ordered::{component_bytes, put_component, skip_component, take_component};

/// Longest path, in bytes. Together with operation, time, client and seqno it still fits into a key of the engine.
pub const MAX_PATH_BYTES: usize = 64_512;

/// Terminates a path inside a longer key.
pub const END: u8 = 0x00;

const KEYSPACE: u8 = 0x10;
const TABLE: u8 = 0x12;
const PARTITION: u8 = 0x14;
const CLUSTERING: u8 = 0x16;
const COLUMN: u8 = 0x18;
const NODE: u8 = 0x20;
pub(crate) const TABLE_FILE: u8 = 0x30;
pub(crate) const ENGINE: u8 = 0x40;
const FAMILY: u8 = 0x50;
const KEY: u8 = 0x52;

/// Returns the marks that may follow a mark (0: the start of a path).
fn may_follow(mark: u8) -> &'static [u8] {
    match mark {
        0 => &[KEYSPACE, NODE, TABLE_FILE, ENGINE, FAMILY],
        KEYSPACE => &[TABLE],
        TABLE => &[PARTITION, COLUMN],
        PARTITION => &[PARTITION, CLUSTERING, COLUMN],
        CLUSTERING => &[CLUSTERING, COLUMN],
        FAMILY => &[KEY],
        _ => &[],
    }
}

impl Target {
    /// Returns mark and bytes of each component, from the top down.
    pub(super) fn components(&self) -> Vec<(u8, &[u8])> {
        let mut out = Vec::with_capacity(4);
        self.for_each_component(|mark, bytes| out.push((mark, bytes)));
        out
    }

    fn for_each_component<'a>(&'a self, mut see: impl FnMut(u8, &'a [u8])) {
        let mut rows = |table: &'a TableName, partition: &'a [Vec<u8>], clustering: &'a [Vec<u8>]| {
            see(KEYSPACE, table.keyspace.as_bytes());
            see(TABLE, table.table.as_bytes());
            partition.iter().for_each(|key| see(PARTITION, key));
            clustering.iter().for_each(|key| see(CLUSTERING, key));
        };
        match self {
            Target::Cluster => {}
            Target::Keyspace(name) => see(KEYSPACE, name.as_bytes()),
            Target::Table(table) => rows(table, &[], &[]),
            Target::Partition { table, partition } => rows(table, partition, &[]),
            Target::Row { table, partition, clustering } => rows(table, partition, clustering),
            Target::Column { table, partition, clustering, column } => {
                rows(table, partition, clustering);
                see(COLUMN, column.as_bytes());
            }
            Target::Family(name) => see(FAMILY, name.as_bytes()),
            Target::Key { family, key } => {
                see(FAMILY, family.as_bytes());
                see(KEY, key);
            }
            Target::Node(id) => see(NODE, id.as_bytes()),
            Target::TableFile(uid) => see(TABLE_FILE, &uid.0),
            Target::Engine(part) => see(ENGINE, part.as_bytes()),
        }
    }

    /// Returns the length of its path.
    pub fn path_bytes(&self) -> usize {
        let mut length = 0;
        self.for_each_component(|_, bytes| length += 1 + component_bytes(bytes));
        length
    }

    /// Appends its path. Errors: `Invalid` for a malformed target; nothing is appended then.
    pub fn put_path(&self, out: &mut Vec<u8>) -> Result<()> {
        self.check()?;
        out.reserve(self.path_bytes());
        self.for_each_component(|mark, bytes| {
            out.push(mark);
            put_component(out, bytes);
        });
        Ok(())
    }

    /// Appends the path of a key of a family, without building a `Target`. Errors: as for `put_path`.
    pub(crate) fn put_key_path(family: &str, key: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let length = 2 + component_bytes(family.as_bytes()) + component_bytes(key);
        if family.is_empty() || family.len() > MAX_NAME_BYTES || length > MAX_PATH_BYTES {
            return Target::key(family, key).put_path(out); // returns the error
        }
        put_family_path(family, out);
        out.push(KEY);
        put_component(out, key);
        Ok(())
    }

    /// Returns its path.
    pub fn to_path(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.put_path(&mut out)?;
        Ok(out)
    }

    /// Decodes the target of a path. Malformed bytes are refused.
    pub fn from_path(path: &[u8]) -> Result<Target> {
        if path.len() > MAX_PATH_BYTES {
            return Err(Error::structural("a path longer than the limit"));
        }
        let mut reader = Reader::new(path);
        let mut names: Vec<String> = Vec::new();
        let (mut partition, mut clustering, mut key, mut uid) = (Vec::new(), Vec::new(), None, None);
        let mut last = 0;
        while !reader.is_empty() {
            let mark = reader.u8()?;
            if !may_follow(last).contains(&mark) {
                return Err(Error::structural("a path with a component where it cannot be"));
            }
            let bytes = take_component(&mut reader)?;
            match mark {
                PARTITION => partition.push(bytes),
                CLUSTERING => clustering.push(bytes),
                KEY => key = Some(bytes),
                TABLE_FILE => uid = Some(uid_of(&bytes)?),
                _ => names.push(name_of(bytes)?),
            }
            last = mark;
        }
        let mut names = names.into_iter();
        let mut name = || names.next().unwrap_or_default(); // each accepted mark has a name
        let mut table = || TableName { keyspace: name(), table: name() };
        Ok(match last {
            KEYSPACE => Target::Keyspace(name()),
            TABLE => Target::Table(table()),
            PARTITION => Target::Partition { table: table(), partition },
            CLUSTERING => Target::Row { table: table(), partition, clustering },
            COLUMN => Target::Column { table: table(), partition, clustering, column: name() },
            FAMILY => Target::Family(name()),
            KEY => Target::Key { family: name(), key: key.unwrap_or_default() },
            NODE => Target::Node(name()),
            TABLE_FILE => Target::TableFile(uid.unwrap_or_default()),
            ENGINE => Target::Engine(name()),
            _ => Target::Cluster,
        })
    }

    /// Returns the lengths of the prefixes of a path that are targets: its own length first, then those of the targets
    /// above it, nearest first.
    pub fn path_ends(path: &[u8]) -> Result<Vec<usize>> {
        let (mut reader, mut ends) = (Reader::new(path), vec![0]);
        while !reader.is_empty() {
            reader.u8()?;
            skip_component(&mut reader)?;
            ends.push(reader.position());
        }
        ends.reverse();
        Ok(ends)
    }
}

/// The path of a target in an event's payload. Formatted as the target's text, or in hexadecimal if this version cannot
/// decode it.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct TargetPath(Vec<u8>);

impl TargetPath {
    /// Returns the path of a target; for a malformed target, the path of the cluster.
    pub fn of(target: &Target) -> TargetPath {
        TargetPath(target.to_path().unwrap_or_default())
    }

    /// Returns the path's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the target. Errors: `Corruption` for malformed bytes, and for a path of a later version.
    pub fn target(&self) -> Result<Target> {
        Target::from_path(&self.0)
    }
}

impl From<Vec<u8>> for TargetPath {
    fn from(path: Vec<u8>) -> TargetPath {
        TargetPath(path)
    }
}

impl fmt::Display for TargetPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target() {
            Ok(target) => f.write_str(&target.text(&NoTables)),
            Err(_) => self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl fmt::Debug for TargetPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Appends the path of a family with a valid name.
pub(crate) fn put_family_path(family: &str, out: &mut Vec<u8>) {
    out.push(FAMILY);
    put_component(out, family.as_bytes());
}

/// Returns the number of bytes that `put_family_path` appends.
pub(crate) fn family_path_bytes(family: &str) -> usize {
    1 + component_bytes(family.as_bytes())
}

/// Skips a path and its `END` and returns the path, which is not fully validated.
pub fn skip_path<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let (rest, start) = (reader.rest(), reader.position());
    while reader.u8()? != END {
        skip_component(reader)?;
    }
    Ok(&rest[..reader.position() - start - 1])
}

fn name_of(bytes: Vec<u8>) -> Result<String> {
    if bytes.is_empty() || bytes.len() > MAX_NAME_BYTES {
        return Err(Error::structural("a name in a path that is empty or too long"));
    }
    String::from_utf8(bytes).map_err(|_| Error::structural("a name in a path that is no text"))
}

fn uid_of(bytes: &[u8]) -> Result<Uid> {
    <[u8; 16]>::try_from(bytes).map(Uid).map_err(|_| Error::structural("a table file in a path without a whole uid"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{john, target};
    use super::*;
    use crate::ordered::successor;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn golden_paths() {
        // docs/format.md, section 9.2.
        let cases: [(Target, &[u8]); 5] = [
            (Target::Cluster, b""),
            (john(), b"\x10School\0\x01\x12Teacher\0\x01\x14John\0\x01"),
            (Target::key("users", *b"a\0b"), b"\x50users\0\x01\x52a\0\xffb\0\x01"),
            (Target::Node("n1".to_owned()), b"\x20n1\0\x01"),
            (Target::Engine("compaction".to_owned()), b"\x40compaction\0\x01"),
        ];
        for (target, path) in cases {
            assert_eq!(target.to_path().unwrap(), path, "{target:?}");
        }
    }

    #[test]
    fn a_path_is_shown_as_its_target() {
        for (target, text) in [
            (Target::Cluster, "cluster:"),
            (Target::family("users"), "users"),
            (Target::key("users", *b"a.b\xFF"), "users.a\\.b\\xFF"),
            (Target::Engine("flush".to_owned()), "engine:flush"),
        ] {
            let path = TargetPath::of(&target);
            assert_eq!((path.to_string(), format!("{path:?}")), (text.to_owned(), text.to_owned()));
            assert_eq!((path.target().unwrap(), path.bytes()), (target.clone(), &target.to_path().unwrap()[..]));
        }
        assert_eq!(TargetPath::from(b"\x99users".to_vec()).to_string(), "997573657273");
    }

    proptest! {
        #[test]
        fn a_key_has_the_path_of_its_target(family in "[a-z\0]{0,3}", key: Vec<u8>, long in prop_oneof![Just(0usize), 64_490..64_520usize]) {
            let key = [key, vec![1; long]].concat();
            let mut out = Vec::new();
            let outcome = Target::put_key_path(&family, &key, &mut out).map(|()| out);
            prop_assert_eq!(outcome.map_err(|error| error.to_string()), Target::key(&family, key).to_path().map_err(|error| error.to_string()));
        }

        #[test]
        fn paths_come_back_and_sort_as_their_components(a in target(), b in target()) {
            let (one, other) = (a.to_path().unwrap(), b.to_path().unwrap());
            prop_assert_eq!(one.len(), a.path_bytes());
            prop_assert_eq!(Target::from_path(&one).unwrap(), a.clone());
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
            // The targets below are those whose paths begin with this path; the ends of a path are its ancestors.
            prop_assert_eq!(other.starts_with(&one), a.covers(&b));
            let within = other >= one && successor(&one).is_none_or(|end| other < end);
            prop_assert_eq!(within, a.covers(&b));
            let above = Target::path_ends(&other).unwrap().into_iter().any(|end| other[..end] == one);
            prop_assert_eq!(above, a.covers(&b));
        }

        #[test]
        fn a_path_ends_where_it_ends(target in target(), behind: Vec<u8>) {
            let path = target.to_path().unwrap();
            let key = [&path[..], &[END], &behind].concat();
            let mut reader = Reader::new(&key);
            prop_assert_eq!(skip_path(&mut reader).unwrap(), &path[..]);
            prop_assert_eq!(reader.rest(), &behind[..]);
        }

        #[test]
        fn any_bytes_are_a_path_in_its_one_form_or_refused(
            marks in vec((prop_oneof![0x0Fu8..0x1A, Just(0x20), Just(0x30), Just(0x40), Just(0x50), Just(0x52)], vec(any::<u8>(), 0..3)), 0..4),
            cut in 0..4usize,
            any: Vec<u8>,
        ) {
            let mut bytes = Vec::new();
            for (mark, component) in &marks {
                bytes.push(*mark);
                put_component(&mut bytes, component);
            }
            bytes.truncate(bytes.len().saturating_sub(cut / 3));
            for bytes in [bytes, any] {
                let _ = skip_path(&mut Reader::new(&bytes));
                if let Ok(target) = Target::from_path(&bytes) {
                    prop_assert_eq!(target.to_path().unwrap(), bytes);
                }
            }
        }
    }
}
