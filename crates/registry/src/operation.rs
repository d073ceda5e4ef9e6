//! Operations: what can happen to a target. docs/format.md, section 9.4.
//!
//! Each has a number that never changes and a name, `Row.Update`; where Wasef's paper has a name, that one is read as well.
//! Whoever embeds the store defines operations of their own: the number of such a one is made from its name, so that it is the
//! same in every store, and stands in a range of its own. The name is kept in the store; two names that would share a number,
//! or a name that means something else already, are refused.
//!
//! The table of operations also says where each occurs. An operation that occurs nowhere is *reserved*: its number and name are
//! taken, registrations and events of it are read, and nothing can be registered for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};

use crate::ordered::{put_u16, take_u16};

/// An operation, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(u16);

/// What operations of a group happen to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Keyspaces.
    Schema,
    /// Tables and families.
    Table,
    /// Rows, and keys of families.
    Row,
    /// Columns.
    Column,
    /// Spans of rows; the target is the table, family or partition.
    Range,
    /// Nodes.
    Node,
    /// Table files and parts of the engine.
    Engine,
    /// What is registered.
    Registry,
    /// Sessions.
    Session,
    /// Whatever an embedder defines.
    Defined,
}

/// Where an operation occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Site {
    /// On whatever a registration can name.
    Anything,
    /// On a raw column family.
    Family,
    /// On a key of a raw column family.
    Key,
    /// On a table file, once it is there. What writes a table file happens before anybody can name it.
    TableFile,
    /// On this part of the engine.
    Part(&'static str),
}

use Site::{Anything, Family, Key, Part, TableFile};

/// An operation that the store itself knows.
struct Known {
    operation: Operation,
    name: &'static str,
    aliases: &'static [&'static str],
    /// Where it occurs; empty: it is reserved.
    sites: &'static [Site],
}

macro_rules! operations {
    ($($constant:ident = $number:literal, $name:literal, [$($alias:literal),*], [$($site:expr),*];)*) => {
        impl Operation {
            $(#[doc = concat!("`", $name, "`")] pub const $constant: Operation = Operation($number);)*
        }

        /// Every operation that the store itself knows, by number.
        const KNOWN: &[Known] = &[$(Known {
            operation: Operation::$constant,
            name: $name,
            aliases: &[$($alias),*],
            sites: &[$($site),*],
        }),*];
    };
}

operations! {
    SCHEMA_ALTER = 0x0101, "Schema.Alter", [], [];
    SCHEMA_DROP = 0x0102, "Schema.Drop", [], [];
    TABLE_ALTER_ADD = 0x0201, "Table.AlterAdd", ["AlterCF_Add", "Alter_Add_Column"], [];
    TABLE_ALTER_DROP = 0x0202, "Table.AlterDrop", ["AlterColumnFamily_Drop"], [];
    TABLE_ALTER_RENAME = 0x0203, "Table.AlterRename", [], [];
    TABLE_DROP = 0x0204, "Table.Drop", [], [Family, TableFile, Part("store")];
    TABLE_TRUNCATE = 0x0205, "Table.Truncate", ["Truncate"], [];
    ROW_INSERT = 0x0301, "Row.Insert", ["Insert_Row"], [Key];
    ROW_UPDATE = 0x0302, "Row.Update", ["Update_Row"], [Key];
    ROW_DELETE = 0x0303, "Row.Delete", ["Delete_Row"], [Key];
    ROW_WRITE = 0x0304, "Row.Write", [], [Key];
    COLUMN_INSERT = 0x0401, "Column.Insert", ["Insert_Column"], [];
    COLUMN_UPDATE = 0x0402, "Column.Update", ["Update_Column"], [];
    COLUMN_DELETE = 0x0403, "Column.Delete", ["Delete_Column"], [];
    RANGE_DELETE = 0x0501, "Range.Delete", [], [];
    NODE_DECOMMISSION = 0x0601, "Node.Decommission", ["decommission"], [];
    NODE_JOIN = 0x0602, "Node.Join", [], [];
    NODE_VERIFY = 0x0603, "Node.Verify", [], [];
    ENGINE_OPEN = 0x0701, "Engine.Open", [], [Part("store")];
    ENGINE_RECOVER = 0x0702, "Engine.Recover", [], [Part("store")];
    ENGINE_FLUSH = 0x0703, "Engine.Flush", [], [Part("flush")];
    ENGINE_COMPACT = 0x0704, "Engine.Compact", [], [TableFile, Part("compaction")];
    ENGINE_INGEST = 0x0705, "Engine.Ingest", [], [Part("store")];
    ENGINE_EXPORT = 0x0706, "Engine.Export", [], [Part("store")];
    ENGINE_CHECKPOINT = 0x0707, "Engine.Checkpoint", [], [TableFile, Part("store")];
    ENGINE_RESTORE = 0x0708, "Engine.Restore", [], [];
    ENGINE_SCRUB = 0x0709, "Engine.Scrub", [], [Part("integrity")];
    ENGINE_REPAIR = 0x070A, "Engine.Repair", [], [TableFile, Part("integrity")];
    ENGINE_QUARANTINE = 0x070B, "Engine.Quarantine", [], [TableFile, Part("integrity")];
    ENGINE_FENCE = 0x070C, "Engine.Fence", [], [Part("integrity")];
    REGISTRY_ADD = 0x0801, "Registry.Add", [], [Anything];
    REGISTRY_DELETE = 0x0802, "Registry.Delete", [], [Anything];
    SESSION_OPEN = 0x0901, "Session.Open", [], [Part("session")];
    SESSION_CLOSE = 0x0902, "Session.Close", [], [Part("session")];
}

/// What the log calls a put.
const PUTS: [Operation; 2] = [Operation::ROW_INSERT, Operation::ROW_UPDATE];

const INSERTS_ARE_SAID: &str = "Row.Insert is logged only for puts that their writer marks with log_as_insert; the store does not look whether a \
                                key was there, and calls every other put Row.Update. Row.Write is every put";

/// Numbers of operations that embedders define.
const DEFINED: std::ops::RangeInclusive<u16> = 0x8000..=0xFFFE;

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The first byte of the rows in which names of defined operations are kept.
const ROW: u8 = 0x03;

impl Operation {
    /// The operation of this number, known or not: a later store, or another one's embedder, may have written it. None for 0.
    pub fn from_number(number: u16) -> Option<Operation> {
        (number != 0).then_some(Operation(number))
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// True for those that embedders define.
    pub fn is_defined(self) -> bool {
        DEFINED.contains(&self.0)
    }

    /// Every operation that the store itself performs, by number. Each can be registered on the targets where it occurs.
    pub fn known() -> impl Iterator<Item = Operation> {
        KNOWN.iter().filter(|known| !known.sites.is_empty()).map(|known| known.operation)
    }

    /// The operations whose names are taken and that this version never performs, by number. None can be registered.
    pub fn reserved() -> impl Iterator<Item = Operation> {
        KNOWN.iter().filter(|known| known.sites.is_empty()).map(|known| known.operation)
    }

    /// Its name, if the store itself knows it. Reserved operations have names.
    pub fn known_name(self) -> Option<&'static str> {
        self.entry().map(|known| known.name)
    }

    /// Its names in the paper, and those made like them.
    pub fn aliases(self) -> &'static [&'static str] {
        self.entry().map_or(&[], |known| known.aliases)
    }

    /// Where the store performs it. Empty for a reserved operation and for one that an embedder defined.
    pub fn sites(self) -> &'static [Site] {
        self.entry().map_or(&[], |known| known.sites)
    }

    /// The parts of the engine on which something occurs, by name.
    pub fn parts() -> BTreeSet<&'static str> {
        let part = |site: &Site| if let Part(name) = site { Some(*name) } else { None };
        KNOWN.iter().flat_map(|known| known.sites.iter().filter_map(part)).collect()
    }

    fn entry(self) -> Option<&'static Known> {
        let at = KNOWN.binary_search_by_key(&self, |known| known.operation).ok()?;
        KNOWN.get(at)
    }

    /// True if this operation, registered or asked for, means events of `other`. `Row.Write` means every put: what the log calls
    /// `Row.Insert` or `Row.Update`. Any other operation means itself alone.
    #[inline]
    pub fn covers(self, other: Operation) -> bool {
        self == other || self == Operation::ROW_WRITE && PUTS.contains(&other)
    }

    /// The numbers of the operations that it covers, ascending.
    pub(crate) fn covered(self) -> Vec<u16> {
        let puts = PUTS.iter().filter(|put| self != **put && self.covers(**put)).map(|put| put.0);
        let mut numbers: Vec<u16> = puts.chain([self.0]).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Why a registration of this operation logs less than its name promises; none if it does not.
    pub fn warning(self) -> Option<&'static str> {
        (self == Operation::ROW_INSERT).then_some(INSERTS_ARE_SAID)
    }

    /// What it happens to.
    pub fn group(self) -> Group {
        match self.0 >> 8 {
            1 => Group::Schema,
            2 => Group::Table,
            3 => Group::Row,
            4 => Group::Column,
            5 => Group::Range,
            6 => Group::Node,
            7 => Group::Engine,
            8 => Group::Registry,
            9 => Group::Session,
            _ => Group::Defined,
        }
    }

    /// The number that a name gives an operation.
    fn of_name(name: &str) -> Operation {
        let places = u64::from(DEFINED.end() - DEFINED.start()) + 1;
        Operation(DEFINED.start() + (hash(name.as_bytes()) % places) as u16)
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known_name() {
            Some(name) => f.write_str(name),
            None => write!(f, "operation {:04X}", self.0),
        }
    }
}

/// The operations of a store: those it knows itself, and those that were defined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    defined: BTreeMap<Operation, String>,
}

impl Operations {
    /// Those that the store itself knows.
    pub fn new() -> Operations {
        Operations::default()
    }

    /// Defines an operation, or finds the one of this name that was defined before. Errors: `Invalid` for a name that is not 1
    /// to 64 letters, digits, `_`, `-` or `.`, that means something already, or whose number another name has.
    pub fn define(&mut self, name: &str) -> Result<Operation> {
        check_name(name)?;
        let operation = Operation::of_name(name);
        match self.defined.get(&operation) {
            Some(other) if other != name => Err(Error::invalid(format!(
                "the operation {name:?} would have the number of {other:?}: choose another name"
            ))),
            Some(_) => Ok(operation),
            None => {
                self.defined.insert(operation, name.to_owned());
                Ok(operation)
            }
        }
    }

    /// The operation that a name means. Errors: `Invalid` if it means none.
    pub fn named(&self, name: &str) -> Result<Operation> {
        if let Some(known) = KNOWN.iter().find(|known| known.name == name || known.aliases.contains(&name)) {
            return Ok(known.operation);
        }
        let operation = Operation::of_name(name);
        match self.defined.get(&operation) {
            Some(own) if own == name => Ok(operation),
            _ => Err(Error::invalid(format!("there is no operation {name:?}"))),
        }
    }

    /// The name of an operation; a defined one that this store has never heard of is written by its number.
    pub fn name(&self, operation: Operation) -> String {
        let defined = || self.defined.get(&operation).cloned();
        operation.known_name().map(str::to_owned).or_else(defined).unwrap_or_else(|| format!("{operation:?}"))
    }

    /// True if the store knows it or it was defined.
    pub fn contains(&self, operation: Operation) -> bool {
        operation.known_name().is_some() || self.defined.contains_key(&operation)
    }

    /// The defined ones, by number.
    pub fn defined(&self) -> impl Iterator<Item = (Operation, &str)> {
        self.defined.iter().map(|(operation, name)| (*operation, name.as_str()))
    }

    /// Key and value of the row that keeps a defined operation.
    pub fn row(operation: Operation, name: &str) -> (Vec<u8>, Vec<u8>) {
        let mut key = vec![ROW];
        put_u16(&mut key, operation.number());
        (key, name.as_bytes().to_vec())
    }

    /// Takes up a row that `row` made. Errors: `Corruption` for any other bytes, `Invalid` for a clash.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<Operation> {
        let mut reader = Reader::new(key);
        let (row, number) = (reader.u8()?, take_u16(&mut reader)?);
        let name = std::str::from_utf8(value).map_err(|_| Error::structural("an operation whose name is no text"))?;
        if row != ROW || !reader.is_empty() || check_name(name).is_err() || Operation::of_name(name).0 != number {
            return Err(Error::structural("a row that keeps no operation"));
        }
        self.define(name)
    }
}

fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(allowed) {
        let rule =
            format!("a name of an operation is 1 to {MAX_NAME_BYTES} letters, digits, _ - or .; this is {name:?}");
        return Err(Error::invalid(rule));
    }
    match Operations::new().named(name) {
        Ok(known) => Err(Error::invalid(format!("the operation {name:?} is the store's own {known:?}"))),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::error::ErrorKind;

    #[test]
    fn every_name_means_one_operation() {
        let operations = Operations::new();
        let mut names = BTreeSet::new();
        for Known { operation, name, aliases, .. } in KNOWN {
            for name in [name].into_iter().chain(*aliases) {
                assert_eq!(operations.named(name).unwrap(), *operation);
                assert!(names.insert(*name), "{name} twice");
            }
            assert_eq!(operations.name(*operation), *name);
            assert_eq!(Operation::from_number(operation.number()), Some(*operation));
            assert!(!operation.is_defined() && operation.group() != Group::Defined);
        }
        assert!(KNOWN.is_sorted_by(|a, b| a.operation < b.operation), "found by binary search");
        assert_eq!((Operation::known().count(), Operation::reserved().count()), (20, 14));
        assert_eq!(operations.named("AlterColumnFamily_Drop").unwrap(), Operation::TABLE_ALTER_DROP);
        let later = Operation::from_number(0x0399).unwrap();
        assert!(!operations.contains(later) && operations.name(later) == "operation 0399");
        assert_eq!(Operation::from_number(0), None);
    }

    #[test]
    fn a_defined_operation_has_one_number_everywhere() {
        let (mut here, mut there) = (Operations::new(), Operations::new());
        there.define("other.one").unwrap();
        let reindex = here.define("app.reindex").unwrap();
        assert_eq!(reindex.number(), 0xCEF9); // docs/format.md, section 9.4
        assert_eq!(there.define("app.reindex").unwrap(), reindex);
        assert_eq!(here.define("app.reindex").unwrap(), reindex);
        assert_eq!((here.named("app.reindex").unwrap(), here.name(reindex)), (reindex, "app.reindex".to_owned()));
        assert!(here.contains(reindex) && !Operations::new().contains(reindex));
        assert_eq!(reindex.group(), Group::Defined);
        let (key, value) = Operations::row(reindex, "app.reindex");
        let mut loaded = Operations::new();
        assert_eq!(loaded.load(&key, &value).unwrap(), reindex);
        assert_eq!(loaded, here);
        assert!(loaded.load(&key, b"app.other").unwrap_err().is_corruption());
    }

    #[test]
    fn names_that_clash_or_mean_something_are_refused() {
        let mut operations = Operations::new();
        let mut taken = BTreeMap::new();
        let mut clashes = 0;
        for n in 0..2000 {
            let name = format!("op{n}");
            let number = Operation::of_name(&name);
            let free = !taken.contains_key(&number);
            match operations.define(&name) {
                Ok(operation) => {
                    assert!(free && operation == number);
                    taken.insert(number, name);
                }
                Err(error) => {
                    assert!(!free && error.to_string().contains(&taken[&number]));
                    assert!(operations.named(&name).is_err());
                    clashes += 1;
                }
            }
        }
        assert!(clashes > 0, "two thousand names in 32,767 places meet");
        let long = "x".repeat(65);
        for wrong in ["", "Row.Update", "Update_Row", "decommission", "a b", "ü", long.as_str()] {
            assert_eq!(*operations.define(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_row_is_taken_or_refused(key: Vec<u8>, number: u16, value: Vec<u8>, name in "[a-z.]{0,5}") {
            let mut operations = Operations::new();
            let mut likely = vec![ROW];
            put_u16(&mut likely, number);
            let (own, _) = Operations::row(Operation::of_name(&name), &name);
            for (key, value) in [(&key, &value[..]), (&likely, &value), (&likely, name.as_bytes()), (&own, name.as_bytes())] {
                if let Ok(operation) = operations.load(key, value) {
                    prop_assert_eq!(Operations::row(operation, &operations.name(operation)), (key.clone(), value.to_vec()));
                }
            }
        }
    }
}
