//! Operations that can happen to a target. docs/format.md, section 9.4.
//!
//! Each operation has a permanent number and a name such as `Row.Update`; the names of Wasef's paper are accepted as
//! well. Embedders define operations of their own. Their number is derived from the name, so it is the same in every
//! store, and lies in a separate range. The store keeps the name. A name whose number is taken by another name, or that
//! already has a meaning, is refused.
//!
//! The table of operations also lists where each occurs. An operation that occurs nowhere is *reserved*: its number and
//! name are taken, its registrations and events can be decoded, but it cannot be registered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};

use crate::ordered::{put_u16, take_u16};

/// An operation, identified by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(u16);

/// The kind of target of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationGroup {
    /// Keyspaces.
    Schema,
    /// Tables and families.
    Table,
    /// Rows, and keys of families.
    Row,
    /// Columns.
    Column,
    /// Ranges of rows; the target is the table, family or partition.
    Range,
    /// Nodes.
    Node,
    /// Table files and parts of the engine.
    Engine,
    /// Registrations.
    Registry,
    /// Sessions.
    Session,
    /// Operations defined by an embedder.
    Defined,
}

/// The place where an operation occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Site {
    /// On any target that can be registered.
    Anything,
    /// On a raw column family.
    Family,
    /// On a key of a raw column family.
    Key,
    /// On a keyspace.
    Keyspace,
    /// On a table.
    Table,
    /// On a row of a table, or on a partition.
    Row,
    /// On a column of a row.
    Column,
    /// On an existing table file. The operation that writes a table file occurs before the file has a name.
    TableFile,
    /// On this engine part.
    Part(&'static str),
    /// On a node. The program that moves data between stores adds the event.
    Node,
}

use Site::{Anything, Column, Family, Key, Keyspace, Node, Part, Row, Table, TableFile};

/// A built-in operation.
struct BuiltinOperation {
    operation: Operation,
    name: &'static str,
    aliases: &'static [&'static str],
    /// The sites where it occurs; empty if it is reserved.
    sites: &'static [Site],
}

macro_rules! operations {
    ($($constant:ident = $number:literal, $name:literal, [$($alias:literal),*], [$($site:expr),*];)*) => {
        impl Operation {
            $(#[doc = concat!("`", $name, "`")] pub const $constant: Operation = Operation($number);)*
        }

        /// Every operation that the store itself knows, by number.
        const KNOWN: &[BuiltinOperation] = &[$(BuiltinOperation {
            operation: Operation::$constant,
            name: $name,
            aliases: &[$($alias),*],
            sites: &[$($site),*],
        }),*];
    };
}

operations! {
    SCHEMA_ALTER = 0x0101, "Schema.Alter", [], [Keyspace];
    SCHEMA_DROP = 0x0102, "Schema.Drop", [], [Keyspace];
    TABLE_ALTER_ADD = 0x0201, "Table.AlterAdd", ["AlterCF_Add", "Alter_Add_Column"], [Table];
    TABLE_ALTER_DROP = 0x0202, "Table.AlterDrop", ["AlterColumnFamily_Drop"], [Table];
    TABLE_ALTER_RENAME = 0x0203, "Table.AlterRename", [], [Table];
    TABLE_DROP = 0x0204, "Table.Drop", [], [Family, Table, TableFile, Part("store")];
    TABLE_TRUNCATE = 0x0205, "Table.Truncate", ["Truncate"], [Table];
    ROW_INSERT = 0x0301, "Row.Insert", ["Insert_Row"], [Key, Row];
    ROW_UPDATE = 0x0302, "Row.Update", ["Update_Row"], [Key, Row];
    ROW_DELETE = 0x0303, "Row.Delete", ["Delete_Row"], [Key, Row];
    ROW_WRITE = 0x0304, "Row.Write", [], [Key, Row];
    COLUMN_INSERT = 0x0401, "Column.Insert", ["Insert_Column"], [Column];
    COLUMN_UPDATE = 0x0402, "Column.Update", ["Update_Column"], [Column];
    COLUMN_DELETE = 0x0403, "Column.Delete", ["Delete_Column"], [Column];
    RANGE_DELETE = 0x0501, "Range.Delete", [], [Family, Key, Table, Row];
    NODE_DECOMMISSION = 0x0601, "Node.Decommission", ["decommission"], [Node];
    NODE_JOIN = 0x0602, "Node.Join", [], [Node];
    NODE_VERIFY = 0x0603, "Node.Verify", [], [Node];
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
    ENGINE_BACKUP = 0x070D, "Engine.Backup", [], [TableFile, Part("store")];
    REGISTRY_ADD = 0x0801, "Registry.Add", [], [Anything];
    REGISTRY_DELETE = 0x0802, "Registry.Delete", [], [Anything];
    REGISTRY_REWRITE = 0x0803, "Registry.Rewrite", [], [Anything];
    SESSION_OPEN = 0x0901, "Session.Open", [], [Part("session")];
    SESSION_CLOSE = 0x0902, "Session.Close", [], [Part("session")];
}

/// The log names of a put.
const PUTS: [Operation; 2] = [Operation::ROW_INSERT, Operation::ROW_UPDATE];

const INSERTS_ARE_SAID: &str = "Row.Insert is logged only for puts that their writer marks with log_as_insert; the store does not look whether a \
                                key was there, and calls every other put Row.Update. Row.Write is every put";

/// The numbers of operations that embedders define.
const DEFINED: std::ops::RangeInclusive<u16> = 0x8000..=0xFFFE;

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The first byte of the rows that hold the names of defined operations.
const ROW: u8 = 0x03;

impl Operation {
    /// Returns the operation with this number, even if this version does not know it: a later version, or another
    /// embedder, may have written it. `None` for 0.
    pub fn from_number(number: u16) -> Option<Operation> {
        (number != 0).then_some(Operation(number))
    }

    /// Returns the number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns true for an operation defined by an embedder.
    pub fn is_defined(self) -> bool {
        DEFINED.contains(&self.0)
    }

    /// Returns every operation that the store performs, by number. Each operation can be registered on the targets
    /// listed in its sites.
    pub fn known() -> impl Iterator<Item = Operation> {
        KNOWN.iter().filter(|known| !known.sites.is_empty()).map(|known| known.operation)
    }

    /// Returns the reserved operations by number: this version never performs them, and they cannot be registered.
    pub fn reserved() -> impl Iterator<Item = Operation> {
        KNOWN.iter().filter(|known| known.sites.is_empty()).map(|known| known.operation)
    }

    /// Returns the name of a built-in operation, including reserved ones.
    pub fn known_name(self) -> Option<&'static str> {
        self.entry().map(|known| known.name)
    }

    /// Returns its names in the paper, and names formed like them.
    pub fn aliases(self) -> &'static [&'static str] {
        self.entry().map_or(&[], |known| known.aliases)
    }

    /// Returns the sites where the store performs it. Empty for a reserved operation and for one defined by an
    /// embedder.
    pub fn sites(self) -> &'static [Site] {
        self.entry().map_or(&[], |known| known.sites)
    }

    /// Returns the names of the engine parts on which operations occur.
    pub fn parts() -> BTreeSet<&'static str> {
        let part = |site: &Site| if let Part(name) = site { Some(*name) } else { None };
        KNOWN.iter().flat_map(|known| known.sites.iter().filter_map(part)).collect()
    }

    fn entry(self) -> Option<&'static BuiltinOperation> {
        let at = KNOWN.binary_search_by_key(&self, |known| known.operation).ok()?;
        KNOWN.get(at)
    }

    /// Returns true if a registration or query of this operation includes events of `other`. `Row.Write` covers every
    /// put: `Row.Insert` and `Row.Update`. Any other operation covers only itself.
    #[inline]
    pub fn covers(self, other: Operation) -> bool {
        self == other || self == Operation::ROW_WRITE && PUTS.contains(&other)
    }

    /// Returns the numbers of the operations that it covers, ascending.
    pub(crate) fn covered(self) -> Vec<u16> {
        let puts = PUTS.iter().filter(|put| self != **put && self.covers(**put)).map(|put| put.0);
        let mut numbers: Vec<u16> = puts.chain([self.0]).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns a warning if a registration of this operation logs less than its name suggests.
    pub fn warning(self) -> Option<&'static str> {
        (self == Operation::ROW_INSERT).then_some(INSERTS_ARE_SAID)
    }

    /// Returns the kind of target that it happens to.
    pub fn group(self) -> OperationGroup {
        match self.0 >> 8 {
            1 => OperationGroup::Schema,
            2 => OperationGroup::Table,
            3 => OperationGroup::Row,
            4 => OperationGroup::Column,
            5 => OperationGroup::Range,
            6 => OperationGroup::Node,
            7 => OperationGroup::Engine,
            8 => OperationGroup::Registry,
            9 => OperationGroup::Session,
            _ => OperationGroup::Defined,
        }
    }

    /// Derives an operation's number from its name.
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

/// The operations of a store: the built-in ones and the defined ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    defined: BTreeMap<Operation, String>,
    /// Rows of names that were defined are lost.
    has_losses: bool,
}

impl Operations {
    /// Returns only the built-in operations.
    pub fn new() -> Operations {
        Operations::default()
    }

    /// Defines an operation, or returns the one defined earlier with this name. Errors: `Invalid` for a name that is
    /// not 1 to 64 letters, digits, `_`, `-` or `.`, that already has a meaning, or whose number belongs to another
    /// name.
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

    /// Returns the operation with this name. Errors: `Invalid` for an unknown name.
    pub fn named(&self, name: &str) -> Result<Operation> {
        if let Some(known) = KNOWN.iter().find(|known| known.name == name || known.aliases.contains(&name)) {
            return Ok(known.operation);
        }
        let operation = Operation::of_name(name);
        match self.defined.get(&operation) {
            Some(own) if own == name => Ok(operation),
            _ if self.has_losses => Err(Error::invalid(format!(
                "there is no operation {name:?}; names in system_metadata.schema are lost: if this is one of them, define it again"
            ))),
            _ => Err(Error::invalid(format!("there is no operation {name:?}"))),
        }
    }

    /// Returns the name of an operation; for a defined one that this store does not know, its number.
    pub fn name(&self, operation: Operation) -> String {
        let defined = || self.defined.get(&operation).cloned();
        operation.known_name().map(str::to_owned).or_else(defined).unwrap_or_else(|| format!("{operation:?}"))
    }

    /// Records that rows of names are lost. A name defined again gets its old number, which is a hash of the name.
    pub(crate) fn lose_names(&mut self) {
        self.has_losses = true;
    }

    /// True if the store knows it or it was defined.
    pub fn contains(&self, operation: Operation) -> bool {
        operation.known_name().is_some() || self.defined.contains_key(&operation)
    }

    /// Returns the defined operations by number.
    pub fn defined(&self) -> impl Iterator<Item = (Operation, &str)> {
        self.defined.iter().map(|(operation, name)| (*operation, name.as_str()))
    }

    /// Returns key and value of the row for a defined operation.
    pub fn row(operation: Operation, name: &str) -> (Vec<u8>, Vec<u8>) {
        let mut key = vec![ROW];
        put_u16(&mut key, operation.number());
        (key, name.as_bytes().to_vec())
    }

    /// Loads a row created by `row`. Errors: `Corruption` for malformed bytes, `Invalid` for a clash.
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
        for BuiltinOperation { operation, name, aliases, .. } in KNOWN {
            for name in [name].into_iter().chain(*aliases) {
                assert_eq!(operations.named(name).unwrap(), *operation);
                assert!(names.insert(*name), "{name} twice");
            }
            assert_eq!(operations.name(*operation), *name);
            assert_eq!(Operation::from_number(operation.number()), Some(*operation));
            assert!(!operation.is_defined() && operation.group() != OperationGroup::Defined);
        }
        assert!(KNOWN.is_sorted_by(|a, b| a.operation < b.operation), "found by binary search");
        assert_eq!((Operation::known().count(), Operation::reserved().count()), (35, 1));
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
        assert_eq!(reindex.group(), OperationGroup::Defined);
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
