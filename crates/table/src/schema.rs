//! Schemas: the columns, groups and keys of a table.

use std::collections::HashSet;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, IndexId, IndexInfo, IndexState};
use crate::key::SortOrder;
use crate::packed::ColumnId;
use crate::types::ColumnType;

/// Longest name of a keyspace, table, column, group or index, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Most columns of a table.
pub const MAX_COLUMNS: usize = 4096;

/// Identifies a group of a table.
pub(crate) type GroupId = u16;

/// The group that every row has.
pub(crate) const DEFAULT_GROUP: GroupId = 0;

/// The largest id of a group. Dynamic columns use the next id.
pub(crate) const MAX_GROUP: GroupId = GroupId::MAX - 1;

/// The name of a table: a keyspace and a name in it, written `library.books`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableName {
    pub(crate) keyspace: String,
    pub(crate) table: String,
}

impl TableName {
    /// Parses `keyspace.table`. Errors: `Invalid` unless both have 1 to 255 bytes without dots and control characters.
    pub fn parse(text: &str) -> Result<TableName> {
        let Some((keyspace, table)) = text.split_once('.') else {
            return Err(Error::invalid(format!("{text:?} is no name of a table: it is written keyspace.table")));
        };
        check_name("keyspace", keyspace)?;
        check_name("table", table)?;
        Ok(TableName { keyspace: keyspace.to_owned(), table: table.to_owned() })
    }

    /// Returns the keyspace.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Returns the name in the keyspace.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

/// Fails for a name that is empty, too long, or has dots or control characters.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(|char: char| char == '.' || char.is_control()) {
        return Err(Error::invalid(format!(
            "{name:?} is no name of a {what}: it has 1 to {MAX_NAME_BYTES} bytes, without dots and control characters"
        )));
    }
    Ok(())
}

/// How rows are distributed over keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Partitioning {
    /// Partitions are in the order of their keys, so that ranges of partitions can be read.
    #[default]
    Ordered,
    /// Partitions are in the order of a hash of their keys, so that neighboring keys are far apart.
    Hashed,
}

/// Purpose of a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ColumnRole {
    /// A part of the partition key.
    Partition,
    /// A part of the key within the partition.
    Clustering(SortOrder),
    /// A value.
    Value,
}

impl ColumnRole {
    /// Returns true for a part of the key.
    pub fn is_key(self) -> bool {
        self != ColumnRole::Value
    }
}

/// Whether a column is visible.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ColumnState {
    /// The column is visible.
    Active,
    /// The column was dropped and can be restored until the deadline, in microseconds since 1970.
    Tentative(i64),
    /// The column's values are being removed from the store. Nothing restores it.
    Purging,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub(crate) id: ColumnId,
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    pub(crate) role: ColumnRole,
    pub(crate) group: GroupId,
    pub(crate) state: ColumnState,
}

impl Column {
    /// Returns the column's id. A dropped column's id is never used again.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type.
    pub fn column_type(&self) -> &ColumnType {
        &self.ty
    }

    /// Returns what the column is for.
    pub fn role(&self) -> ColumnRole {
        self.role
    }

    /// Returns whether the column is visible.
    pub fn state(&self) -> ColumnState {
        self.state
    }

    pub(crate) fn is_active(&self) -> bool {
        self.state == ColumnState::Active
    }
}

/// A group of columns, which are stored in one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub(crate) id: GroupId,
    pub(crate) name: String,
    pub(crate) is_repeated: bool,
}

impl Group {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if a row has any number of named entries of the group.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }
}

/// The columns of a table, their types, and how rows are keyed and grouped.
///
/// The methods that add to a schema check nothing. [`Tables::create`](crate::Tables::create) returns the first fault.
///
/// ```
/// use waxseal_table::{ColumnType, Schema};
///
/// let schema = Schema::new()
///     .partition_key("author", ColumnType::Text)
///     .clustering_key_descending("year", ColumnType::I32)
///     .column("title", ColumnType::Text)
///     .column("genres", ColumnType::Text.list())
///     .column_in("text", "contents", ColumnType::Bytes); // in a record of its own
/// assert_eq!(schema.columns().count(), 5);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    pub(crate) version: u64,
    pub(crate) partitioning: Partitioning,
    pub(crate) has_dynamic_columns: bool,
    /// Key columns in the order of the key, then values.
    pub(crate) columns: Vec<Column>,
    pub(crate) groups: Vec<Group>,
    pub(crate) next_column: ColumnId,
    pub(crate) next_group: GroupId,
    pub(crate) indexes: Vec<IndexInfo>,
    pub(crate) next_index: IndexId,
}

impl Default for Schema {
    fn default() -> Schema {
        Schema::new()
    }
}

impl Schema {
    /// Returns a schema without columns, with ordered partitions.
    pub fn new() -> Schema {
        Schema {
            version: 1,
            partitioning: Partitioning::Ordered,
            has_dynamic_columns: false,
            columns: Vec::new(),
            groups: vec![Group { id: DEFAULT_GROUP, name: "default".to_owned(), is_repeated: false }],
            next_column: 1,
            next_group: 1,
            indexes: Vec::new(),
            next_index: 1,
        }
    }

    /// Adds a part of the partition key. A table has at least one.
    pub fn partition_key(self, name: &str, ty: ColumnType) -> Schema {
        self.with_column(name, ty, ColumnRole::Partition, DEFAULT_GROUP)
    }

    /// Adds a part of the key within a partition, in ascending order.
    pub fn clustering_key(self, name: &str, ty: ColumnType) -> Schema {
        self.with_column(name, ty, ColumnRole::Clustering(SortOrder::Ascending), DEFAULT_GROUP)
    }

    /// Adds a part of the key within a partition, greatest value first.
    pub fn clustering_key_descending(self, name: &str, ty: ColumnType) -> Schema {
        self.with_column(name, ty, ColumnRole::Clustering(SortOrder::Descending), DEFAULT_GROUP)
    }

    /// Adds a column to the group `default`.
    pub fn column(self, name: &str, ty: ColumnType) -> Schema {
        self.with_column(name, ty, ColumnRole::Value, DEFAULT_GROUP)
    }

    /// Adds a column to a group, which is created if it does not exist. A read of columns reads the records of their
    /// groups only.
    pub fn column_in(mut self, group: &str, name: &str, ty: ColumnType) -> Schema {
        let group = self.group_or_new(group, false);
        self.with_column(name, ty, ColumnRole::Value, group)
    }

    /// Adds a repeated group. A row has any number of entries of it, each with a name and the group's columns.
    pub fn repeated_group(mut self, name: &str) -> Schema {
        self.group_or_new(name, true);
        self
    }

    /// Lets rows have columns that the schema does not name, with values of any type. Each has a record of its own.
    pub fn dynamic_columns(mut self) -> Schema {
        self.has_dynamic_columns = true;
        self
    }

    /// Adds an index over columns that the schema already has.
    pub fn index(mut self, index: Index) -> Schema {
        self.add_index(&index, IndexState::Public);
        self
    }

    /// Orders partitions by a hash of their keys.
    pub fn hashed(mut self) -> Schema {
        self.partitioning = Partitioning::Hashed;
        self
    }

    /// Returns the version, which each change of a table's schema increases by one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns how rows are distributed over keys.
    pub fn partitioning(&self) -> Partitioning {
        self.partitioning
    }

    /// Returns true if rows may have columns that the schema does not name.
    pub fn has_dynamic_columns(&self) -> bool {
        self.has_dynamic_columns
    }

    /// Returns the visible columns, key columns first.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_active())
    }

    /// Returns the columns of the key, in its order.
    pub fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.role.is_key())
    }

    /// Returns the columns that were dropped and whose values are not purged yet.
    pub fn dropped_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.is_active())
    }

    /// Returns the groups. The first one is `default`.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the name of a column's group.
    pub fn group_of(&self, column: &Column) -> &str {
        self.groups.iter().find(|group| group.id == column.group).map_or("default", Group::name)
    }

    /// Returns the indexes over visible columns. An index stays public while it is rebuilt.
    pub fn indexes(&self) -> impl Iterator<Item = &IndexInfo> {
        self.indexes.iter().filter(|index| self.is_visible(index) && !self.is_rebuild(index))
    }

    /// Returns true for the build of an index that can be read meanwhile.
    fn is_rebuild(&self, build: &IndexInfo) -> bool {
        let replaces = |index: &IndexInfo| index.name == build.name && index.state == IndexState::Public;
        build.state == IndexState::Building && self.indexes.iter().any(replaces)
    }

    /// Returns the columns of an index of this schema, with their order.
    pub fn columns_of_index<'a>(&'a self, index: &'a IndexInfo) -> impl Iterator<Item = (&'a Column, SortOrder)> {
        let column = |id| self.columns.iter().find(move |column| column.id == id);
        index.columns.iter().filter_map(move |(id, order)| Some((column(*id)?, *order)))
    }

    fn is_visible(&self, index: &IndexInfo) -> bool {
        let is_active = |id| self.columns().any(|column| column.id == id);
        index.columns.iter().all(|(id, _)| is_active(*id))
    }

    /// Adds an index. A column that the schema does not have gets the id 0, which `check` refuses.
    pub(crate) fn add_index(&mut self, index: &Index, state: IndexState) {
        let id_of = |name: &str| self.columns().find(|column| column.name == name).map_or(0, |column| column.id);
        let columns = index.columns.iter().map(|(name, order)| (id_of(name), *order)).collect();
        let Index { name, is_unique, has_missing, .. } = index.clone();
        self.indexes.push(IndexInfo { id: self.next_index, name, columns, is_unique, has_missing, state });
        self.next_index = self.next_index.saturating_add(1);
    }

    /// Fails with `Invalid` for an index that no table can have.
    fn check_index(&self, index: &IndexInfo) -> Result<()> {
        check_name("index", &index.name)?;
        let wrong = |what: String| Err(Error::invalid(format!("index {:?} {what}", index.name)));
        if index.columns.is_empty() {
            return wrong("has no columns".to_owned());
        }
        let ids: HashSet<_> = index.columns.iter().map(|(id, _)| id).collect();
        if ids.len() < index.columns.len() && !ids.contains(&0) {
            return wrong("has a column twice".to_owned());
        }
        for (id, _) in &index.columns {
            let Some(column) = self.columns.iter().find(|column| column.id == *id) else {
                return wrong("has a column that the table does not have".to_owned());
            };
            let (name, ty) = (&column.name, &column.ty);
            if !ty.is_ordered() {
                return wrong(format!("has the column {name:?}, whose type {ty} has no order"));
            }
            if self.groups.iter().any(|group| group.id == column.group && group.is_repeated) {
                return wrong(format!("has the column {name:?} of a repeated group"));
            }
            if index.has_missing && column.group != DEFAULT_GROUP {
                return wrong(format!("has missing values, but column {name:?} is not of the group \"default\""));
            }
        }
        Ok(())
    }

    /// Begins the purge of the columns whose deadline has passed.
    pub(crate) fn expire(&mut self, now_micros: i64) {
        for column in &mut self.columns {
            if matches!(column.state, ColumnState::Tentative(deadline) if deadline <= now_micros) {
                column.state = ColumnState::Purging;
            }
        }
        self.drop_indexes_of_purging();
    }

    /// Drops the indexes over columns that nothing restores.
    pub(crate) fn drop_indexes_of_purging(&mut self) {
        let is_purging = |id| self.columns.iter().any(|column| column.id == id && column.state == ColumnState::Purging);
        self.indexes.retain(|index| !index.columns.iter().any(|(id, _)| is_purging(*id)));
    }

    fn with_column(mut self, name: &str, ty: ColumnType, role: ColumnRole, group: GroupId) -> Schema {
        let column =
            Column { id: self.next_column, name: name.to_owned(), ty, role, group, state: ColumnState::Active };
        let place = |role| match role {
            ColumnRole::Partition => 0,
            ColumnRole::Clustering(_) => 1,
            ColumnRole::Value => 2,
        };
        let at = self.columns.partition_point(|other| place(other.role) <= place(role));
        self.columns.insert(at, column);
        self.next_column = self.next_column.saturating_add(1);
        self
    }

    /// Returns the id of a group, which is added if the schema has none of the name.
    pub(crate) fn group_or_new(&mut self, name: &str, is_repeated: bool) -> GroupId {
        if let Some(group) = self.groups.iter().find(|group| group.name == name) {
            return group.id;
        }
        let id = self.next_group;
        self.next_group = self.next_group.saturating_add(1);
        self.groups.push(Group { id, name: name.to_owned(), is_repeated });
        id
    }

    /// Fails with `Invalid` for a schema that no table can have.
    pub(crate) fn check(&self) -> Result<()> {
        let mut names = HashSet::new();
        for column in self.columns() {
            check_name("column", &column.name)?;
            column.ty.check().map_err(|error| Error::invalid(format!("column {:?}: {error}", column.name)))?;
            if !names.insert(&column.name) {
                return Err(Error::of(ErrorKind::Invalid, format!("the schema has two columns {:?}", column.name)));
            }
            if column.role.is_key() && !column.ty.is_ordered() {
                let (name, ty) = (&column.name, &column.ty);
                return Err(Error::invalid(format!("column {name:?} is of the key, which has no part of type {ty}")));
            }
        }
        if self.columns.iter().all(|column| column.role != ColumnRole::Partition) {
            return Err(Error::invalid("the schema has no partition key"));
        }
        if self.columns.len() > MAX_COLUMNS || self.next_group > MAX_GROUP {
            return Err(Error::invalid(format!("a table has at most {MAX_COLUMNS} columns and {MAX_GROUP} groups")));
        }
        let mut indexes = HashSet::new();
        for index in &self.indexes {
            self.check_index(index)?;
            if !indexes.insert((&index.name, index.state)) {
                return Err(Error::invalid(format!("the schema has two indexes {:?}", index.name)));
            }
        }
        let mut groups = HashSet::new();
        for group in &self.groups {
            check_name("group", &group.name)?;
            if !groups.insert(&group.name) {
                return Err(Error::invalid(format!("the schema has two groups {:?}", group.name)));
            }
            let is_named = |column: &Column| column.name == group.name && column.state != ColumnState::Purging;
            if group.is_repeated && self.columns.iter().any(is_named) {
                return Err(Error::invalid(format!("the schema has a group and a column {:?}", group.name)));
            }
        }
        Ok(())
    }
}
