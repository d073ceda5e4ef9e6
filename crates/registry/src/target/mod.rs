//! Targets: typed, ordered and readable names of everything that an operation can happen to.
//!
//! ```text
//! Cluster ─┬─ Keyspace ── Table ─┬─ Partition ─┬─ Row ── Column
//!          │                     └─ Column     └─ Column
//!          ├─ Family ── Key            a raw column family and a key in it
//!          ├─ Node
//!          ├─ TableFile
//!          └─ Engine                   a part of the engine
//! ```
//!
//! A partition of a table without clustering columns is its only row, and both have the same name, so `Target::row`
//! returns a `Partition` there. A column without a partition is a column of the schema. A column with a partition but
//! without clustering keys covers all rows of the partition.
//!
//! `path` encodes a target as bytes that compare like its components and begin with the path of every target above it.
//! `text` formats and parses the readable form. The log keeps names as they were when the event occurred; this module
//! does not check whether they still exist.

mod path;
mod text;

#[cfg(test)]
pub(crate) mod testing;

use std::fmt;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::error::{Error, Result};

pub use path::{END, MAX_PATH_BYTES, TargetPath, skip_path};
pub(crate) use path::{ENGINE, TABLE_FILE, family_path_bytes, put_family_path};
pub use text::{NoTables, Schema, TableColumns};

/// Longest name of a keyspace, table, column, family, node or part of the engine, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// The keyspace of the store's metadata: registry, log, quarantine, schema, sessions.
pub const SYSTEM_KEYSPACE: &str = "system_metadata";

/// The name of a table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableName {
    /// The keyspace that holds it.
    pub keyspace: String,
    /// Its own name.
    pub table: String,
}

impl TableName {
    /// Creates the name of a table in a keyspace.
    pub fn new(keyspace: impl Into<String>, table: impl Into<String>) -> TableName {
        TableName { keyspace: keyspace.into(), table: table.into() }
    }
}

/// Something that operations happen to.
///
/// `Display` writes the short text form; `{:#}` writes the long form, which can be parsed without knowing the schema:
///
/// ```text
/// users  users.key                              a raw column family; a key of it, which is all behind the first dot
/// School  School.Teacher  School.Teacher.John   a keyspace, a table, a row
/// ks.cf.pk1,pk2.ck1.ck2.col  ks.cf#col          a column: of a row, of the schema
/// cluster:  node:ID  sst:UID  engine:PART       the rest, by a prefix
/// cf:users.key  ks:School.Teacher               family or keyspace, whatever there is of that name
/// ```
///
/// In names, and in the keys of tables, the characters `.` `,` `:` `(` `)` `#` and `\` are escaped by a `\`; `\xHH` is
/// any byte. In the key of a raw family only `\` itself needs an escape: `files.src/main.rs` is the key `src/main.rs`.
///
/// ```
/// use waxseal_registry::Target;
/// use waxseal_registry::target::NoTables;
///
/// assert_eq!(Target::parse("files.src/main.rs", &NoTables)?, Target::key("files", "src/main.rs"));
/// assert_eq!(Target::parse("my\\.files", &NoTables)?, Target::family("my.files"));
/// assert_eq!(Target::key("users", *b"\xFF").to_string(), "users.\\xFF");
/// # Ok::<(), waxseal_lsm::error::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The whole store.
    Cluster,
    /// A keyspace: a group of tables.
    Keyspace(String),
    /// A table.
    Table(TableName),
    /// The rows of a table that share their partitioning keys; a single row if there are no clustering columns.
    Partition {
        /// The table.
        table: TableName,
        /// The partitioning keys, at least one.
        partition: Vec<Vec<u8>>,
    },
    /// A row of a table with clustering columns, or all rows that share its first clustering keys.
    Row {
        /// The table.
        table: TableName,
        /// The partitioning keys, at least one.
        partition: Vec<Vec<u8>>,
        /// The clustering keys, at least one.
        clustering: Vec<Vec<u8>>,
    },
    /// A column: of a row, of a partition (no clustering keys), or of the table's schema (no keys at all).
    Column {
        /// The table.
        table: TableName,
        /// The partitioning keys.
        partition: Vec<Vec<u8>>,
        /// The clustering keys; none without partitioning keys.
        clustering: Vec<Vec<u8>>,
        /// Its name.
        column: String,
    },
    /// A raw column family.
    Family(String),
    /// A key of a raw column family.
    Key {
        /// The family.
        family: String,
        /// The key, which may be empty.
        key: Vec<u8>,
    },
    /// A node of a cluster.
    Node(String),
    /// A table file, by its uid.
    TableFile(Uid),
    /// A part of the engine: `store`, `flush`, `compaction`, `integrity` or `session`.
    Engine(String),
}

impl Target {
    /// Returns the target of a raw column family.
    pub fn family(name: impl Into<String>) -> Target {
        Target::Family(name.into())
    }

    /// Returns the target of a key of a raw column family.
    pub fn key(family: impl Into<String>, key: impl Into<Vec<u8>>) -> Target {
        Target::Key { family: family.into(), key: key.into() }
    }

    /// Returns the target of a row; without clustering keys this is its partition.
    pub fn row(table: TableName, partition: Vec<Vec<u8>>, clustering: Vec<Vec<u8>>) -> Target {
        match clustering.is_empty() {
            true => Target::Partition { table, partition },
            false => Target::Row { table, partition, clustering },
        }
    }

    /// Fails with `Invalid` for a malformed target: an empty or overlong name, missing keys, or a path beyond the
    /// limit.
    pub fn check(&self) -> Result<()> {
        let mut fault = None;
        self.for_each_name(|name| {
            if name.is_empty() || name.len() > MAX_NAME_BYTES {
                fault = Some(format!("a name in a target has 1 to {MAX_NAME_BYTES} bytes, this one {}", name.len()));
            }
        });
        match self {
            Target::Partition { partition, .. } | Target::Row { partition, .. } if partition.is_empty() => {
                fault = Some("a row without partitioning keys".to_owned());
            }
            Target::Row { clustering, .. } if clustering.is_empty() => {
                fault = Some("a row without clustering keys is written as its partition".to_owned());
            }
            Target::Column { partition, clustering, .. } if partition.is_empty() && !clustering.is_empty() => {
                fault = Some("a column with clustering keys and no partitioning keys".to_owned());
            }
            _ => {}
        }
        if fault.is_none() && self.path_bytes() > MAX_PATH_BYTES {
            fault = Some(format!("a target of {} bytes; the limit is {MAX_PATH_BYTES}", self.path_bytes()));
        }
        fault.map_or(Ok(()), |fault| Err(Error::invalid(fault)))
    }

    /// Returns true if `other` is this target or one of its descendants.
    pub fn covers(&self, other: &Target) -> bool {
        let (own, others) = (self.components(), other.components());
        own.len() <= others.len() && own.iter().zip(&others).all(|(own, other)| own == other)
    }

    /// Returns the table that the target is in, if it is one in a table, else the target.
    pub(crate) fn above_rows(&self) -> Target {
        match self {
            Target::Partition { table, .. } | Target::Row { table, .. } | Target::Column { table, .. } => {
                Target::Table(table.clone())
            }
            other => other.clone(),
        }
    }

    /// Returns its depth below the cluster, in components. Of two targets that cover a third one, the deeper is more
    /// specific.
    pub fn depth(&self) -> usize {
        self.components().len()
    }

    /// Visits every name in it.
    fn for_each_name(&self, mut see: impl FnMut(&str)) {
        match self {
            Target::Cluster | Target::TableFile(_) => {}
            Target::Keyspace(name) | Target::Family(name) | Target::Node(name) | Target::Engine(name) => see(name),
            Target::Key { family, .. } => see(family),
            Target::Table(table) | Target::Partition { table, .. } | Target::Row { table, .. } => {
                see(&table.keyspace);
                see(&table.table);
            }
            Target::Column { table, column, .. } => {
                see(&table.keyspace);
                see(&table.table);
                see(column);
            }
        }
    }
}

/// Formats as readable text: a printed event shows `users.john` instead of bytes.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Targets compare like their components, and so do their paths.
impl Ord for Target {
    fn cmp(&self, other: &Target) -> std::cmp::Ordering {
        self.components().cmp(&other.components())
    }
}

impl PartialOrd for Target {
    fn partial_cmp(&self, other: &Target) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{john, target};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_target_is_refused() {
        let table = || TableName::new("School", "Teacher");
        for wrong in [
            Target::Keyspace(String::new()),
            Target::family("x".repeat(MAX_NAME_BYTES + 1)),
            Target::row(table(), Vec::new(), Vec::new()),
            Target::Row { table: table(), partition: vec![vec![1]], clustering: Vec::new() },
            Target::Column { table: table(), partition: Vec::new(), clustering: vec![vec![1]], column: "c".to_owned() },
            Target::Column { table: table(), partition: Vec::new(), clustering: Vec::new(), column: String::new() },
            Target::key("users", vec![0; MAX_PATH_BYTES / 2]),
        ] {
            assert_eq!(*wrong.check().unwrap_err().kind(), waxseal_lsm::error::ErrorKind::Invalid, "{wrong:?}");
        }
        Target::key("users", vec![1; MAX_PATH_BYTES - 100]).check().unwrap();
        Target::key("users", Vec::new()).check().unwrap();
    }

    #[test]
    fn a_target_covers_what_lies_below_it() {
        let table = Target::Table(TableName::new("School", "Teacher"));
        assert!(Target::Cluster.covers(&john()) && table.covers(&john()) && john().covers(&john()));
        assert!(!john().covers(&table));
        assert!(!Target::Table(TableName::new("School", "Teach")).covers(&john()));
        assert!(!Target::family("School").covers(&Target::Keyspace("School".to_owned())));
        assert!(Target::family("users").covers(&Target::key("users", *b"k")));
        assert_eq!((Target::Cluster.depth(), table.depth(), john().depth()), (0, 2, 3));
    }

    proptest! {
        #[test]
        fn the_cluster_covers_all_and_only_equals_cover_each_other(a in target(), b in target()) {
            prop_assert!(Target::Cluster.covers(&a));
            prop_assert_eq!(a.covers(&b) && b.covers(&a), a == b);
            prop_assert_eq!(a.cmp(&b) == std::cmp::Ordering::Equal, a == b);
        }
    }
}
