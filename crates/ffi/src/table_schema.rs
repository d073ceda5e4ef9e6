//! Schemas of tables: read, written, and changed.

use std::time::Duration;

use waxseal_table::{
    Alteration, Column, ColumnRole, ColumnState, Index, IndexState, Partitioning, PurgeReport, Schema, SortOrder,
};

use crate::bytes::{give as give_bytes, waxseal_bytes_t};
use crate::declare::{destroy, getters};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, handle, issue};
use crate::json::put_text;
use crate::lent::{Lend, copied_array, copied_text, waxseal_slice_t};
use crate::snapshot::waxseal_snapshot_t;
use crate::table::{on, waxseal_table_t};
use crate::table_select::at_snapshot;
use crate::table_value::waxseal_table_type_t;

/// The column is a value.
pub const WAXSEAL_ROLE_VALUE: i32 = 0;
/// The column is a part of the partition key.
pub const WAXSEAL_ROLE_PARTITION: i32 = 1;
/// The column is a part of the key within the partition, in ascending order.
pub const WAXSEAL_ROLE_CLUSTERING: i32 = 2;
/// The column is a part of the key within the partition, in descending order.
pub const WAXSEAL_ROLE_CLUSTERING_DESCENDING: i32 = 3;

/// The column is visible.
pub const WAXSEAL_COLUMN_STATE_ACTIVE: i32 = 0;
/// The column was dropped and can be restored until its deadline.
pub const WAXSEAL_COLUMN_STATE_TENTATIVE: i32 = 1;
/// The column's values are being removed from the store.
pub const WAXSEAL_COLUMN_STATE_PURGING: i32 = 2;

/// Adds the column `name` of the type `column_type` to the group `group`; an empty group is `default`.
pub const WAXSEAL_ALTER_ADD_COLUMN: i32 = 1;
/// Adds the repeated group `name`.
pub const WAXSEAL_ALTER_ADD_REPEATED_GROUP: i32 = 2;
/// Renames the column `name` to `new_name`.
pub const WAXSEAL_ALTER_RENAME_COLUMN: i32 = 3;
/// Widens the column `name` to `column_type`.
pub const WAXSEAL_ALTER_WIDEN_COLUMN: i32 = 4;
/// Restores the dropped column `name` with its values.
pub const WAXSEAL_ALTER_UNDELETE_COLUMN: i32 = 5;
/// Drops the index `name`.
pub const WAXSEAL_ALTER_DROP_INDEX: i32 = 6;

/// A column of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_column_t {
    /// The name.
    pub name: waxseal_slice_t,
    /// The type.
    pub column_type: waxseal_table_type_t,
    /// One of `WAXSEAL_ROLE_..`.
    pub role: i32,
    /// The name of the group; empty is `default`.
    pub group: waxseal_slice_t,
    /// One of `WAXSEAL_COLUMN_STATE_..`; 0 in the schema of a new table.
    pub state: i32,
    /// The time until which a tentatively dropped column can be restored, in microseconds since 1970.
    pub deadline_micros: i64,
    /// The id of the column; a dropped column's id is never used again. Ignored in the schema of a new table.
    pub id: u32,
}

/// A group of columns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_group_t {
    /// The name.
    pub name: waxseal_slice_t,
    /// True if a row has any number of named entries of the group.
    pub is_repeated: bool,
}

/// A column of an index.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_index_column_t {
    /// The name of the column.
    pub name: waxseal_slice_t,
    /// True for descending order.
    pub is_descending: bool,
}

/// An index of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_index_t {
    /// The name.
    pub name: waxseal_slice_t,
    /// Its columns.
    pub columns: *const waxseal_table_index_column_t,
    /// Number of columns.
    pub column_count: usize,
    /// True if each combination of values has one row.
    pub is_unique: bool,
    /// True if the index has the rows that lack a column.
    pub has_missing: bool,
    /// True while the index is being built and cannot be read. Ignored in the definition of a new index.
    pub is_building: bool,
}

/// The schema of a table: written by the caller for a new table, and by the library for one that exists.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_schema_t {
    /// The columns; those of the key in its order. The library puts dropped columns behind the others.
    pub columns: *const waxseal_table_column_t,
    /// Number of columns.
    pub column_count: usize,
    /// The groups. A new table needs its repeated ones; the others are those of its columns.
    pub groups: *const waxseal_table_group_t,
    /// Number of groups.
    pub group_count: usize,
    /// The indexes.
    pub indexes: *const waxseal_table_index_t,
    /// Number of indexes.
    pub index_count: usize,
    /// True if partitions are in the order of a hash of their keys.
    pub is_hashed: bool,
    /// True if rows may have columns that the schema does not name.
    pub has_dynamic_columns: bool,
    /// The version, which each change increases by one. Ignored for a new table.
    pub version: u64,
}

/// A step of a change of a schema. Fields that a step does not need are ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_step_t {
    /// One of `WAXSEAL_ALTER_..`.
    pub kind: i32,
    /// The name of the column, group or index.
    pub name: waxseal_slice_t,
    /// The new name of a column.
    pub new_name: waxseal_slice_t,
    /// The group of a new column.
    pub group: waxseal_slice_t,
    /// The type of a column.
    pub column_type: waxseal_table_type_t,
}

/// A change of a schema: steps that take effect together.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_table_alteration_t {
    /// The first step.
    pub steps: *const waxseal_table_step_t,
    /// Number of steps.
    pub count: usize,
}

/// The schema of a table at one version. It does not depend on the store, is readable from any thread, and is freed by
/// `waxseal_table_description_destroy`.
pub struct waxseal_table_description_t {
    _opaque: [u8; 0],
}

handle!(waxseal_table_description_t => Description, HandleKind::TableDescription, "description");

/// A schema, and the structs that lend it to the caller.
pub(crate) struct Description {
    /// Owns the names that the structs point to.
    _schema: Box<Schema>,
    _columns: Vec<waxseal_table_column_t>,
    _groups: Vec<waxseal_table_group_t>,
    _indexes: Vec<waxseal_table_index_t>,
    _index_columns: Vec<Vec<waxseal_table_index_column_t>>,
    lent: Box<waxseal_table_schema_t>,
}

// SAFETY: the pointers point into the description itself, which nothing changes.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Sync for Description {}

impl Description {
    fn of(schema: Schema) -> Description {
        let schema = Box::new(schema);
        let columns: Vec<_> =
            schema.columns().chain(schema.dropped_columns()).map(|column| lent_column(&schema, column)).collect();
        let groups: Vec<_> = schema
            .groups()
            .iter()
            .map(|group| waxseal_table_group_t {
                name: waxseal_slice_t::text(group.name()),
                is_repeated: group.is_repeated(),
            })
            .collect();
        let index_columns: Vec<Vec<_>> = schema
            .indexes()
            .map(|index| {
                let columns = schema.columns_of_index(index);
                let lent = |(column, order): (&Column, SortOrder)| waxseal_table_index_column_t {
                    name: waxseal_slice_t::text(column.name()),
                    is_descending: order == SortOrder::Descending,
                };
                columns.map(lent).collect()
            })
            .collect();
        let indexes: Vec<_> = schema
            .indexes()
            .zip(&index_columns)
            .map(|(index, columns)| waxseal_table_index_t {
                name: waxseal_slice_t::text(index.name()),
                columns: columns.as_ptr(),
                column_count: columns.len(),
                is_unique: index.is_unique(),
                has_missing: index.has_missing(),
                is_building: index.state() == IndexState::Building,
            })
            .collect();
        let lent = waxseal_table_schema_t {
            columns: columns.as_ptr(),
            column_count: columns.len(),
            groups: groups.as_ptr(),
            group_count: groups.len(),
            indexes: indexes.as_ptr(),
            index_count: indexes.len(),
            is_hashed: schema.partitioning() == Partitioning::Hashed,
            has_dynamic_columns: schema.has_dynamic_columns(),
            version: schema.version(),
        };
        Description {
            lent: Box::new(lent),
            _schema: schema,
            _columns: columns,
            _groups: groups,
            _indexes: indexes,
            _index_columns: index_columns,
        }
    }
}

fn lent_column(schema: &Schema, column: &Column) -> waxseal_table_column_t {
    let (state, deadline_micros) = match column.state() {
        ColumnState::Active => (WAXSEAL_COLUMN_STATE_ACTIVE, 0),
        ColumnState::Tentative(deadline) => (WAXSEAL_COLUMN_STATE_TENTATIVE, deadline),
        ColumnState::Purging => (WAXSEAL_COLUMN_STATE_PURGING, 0),
    };
    waxseal_table_column_t {
        name: waxseal_slice_t::text(column.name()),
        column_type: waxseal_table_type_t::of(column.column_type()),
        role: match column.role() {
            ColumnRole::Value => WAXSEAL_ROLE_VALUE,
            ColumnRole::Partition => WAXSEAL_ROLE_PARTITION,
            ColumnRole::Clustering(SortOrder::Ascending) => WAXSEAL_ROLE_CLUSTERING,
            ColumnRole::Clustering(SortOrder::Descending) => WAXSEAL_ROLE_CLUSTERING_DESCENDING,
        },
        group: waxseal_slice_t::text(schema.group_of(column)),
        state,
        deadline_micros,
        id: column.id(),
    }
}

type AddColumn = Box<dyn FnOnce(Schema) -> Schema>;

impl Lend for waxseal_table_column_t {
    type Copied = AddColumn;

    unsafe fn copied(self) -> Result<AddColumn> {
        // SAFETY: the caller's promise.
        let (name, group) =
            unsafe { (copied_text(self.name, "name of a column")?, copied_text(self.group, "name of a group")?) };
        let column_type = self.column_type.column_type()?;
        if self.state != WAXSEAL_COLUMN_STATE_ACTIVE {
            return Err(Failure::invalid(format!("the new column {name:?} has the state {}", self.state)));
        }
        if self.role != WAXSEAL_ROLE_VALUE && !group.is_empty() && group != "default" {
            return Err(Failure::invalid(format!(
                "the column {name:?} is of the key, and so of the group \"default\""
            )));
        }
        Ok(match self.role {
            WAXSEAL_ROLE_VALUE if group.is_empty() => Box::new(move |schema| schema.column(&name, column_type)),
            WAXSEAL_ROLE_VALUE => Box::new(move |schema| schema.column_in(&group, &name, column_type)),
            WAXSEAL_ROLE_PARTITION => Box::new(move |schema| schema.partition_key(&name, column_type)),
            WAXSEAL_ROLE_CLUSTERING => Box::new(move |schema| schema.clustering_key(&name, column_type)),
            WAXSEAL_ROLE_CLUSTERING_DESCENDING => {
                Box::new(move |schema| schema.clustering_key_descending(&name, column_type))
            }
            other => return Err(Failure::invalid(format!("{other} is no role of a column"))),
        })
    }
}

impl Lend for waxseal_table_group_t {
    type Copied = (String, bool);

    unsafe fn copied(self) -> Result<(String, bool)> {
        // SAFETY: the caller's promise.
        Ok((unsafe { copied_text(self.name, "name of a group") }?, self.is_repeated))
    }
}

impl Lend for waxseal_table_index_column_t {
    type Copied = (String, bool);

    unsafe fn copied(self) -> Result<(String, bool)> {
        // SAFETY: the caller's promise.
        Ok((unsafe { copied_text(self.name, "name of a column") }?, self.is_descending))
    }
}

impl Lend for waxseal_table_index_t {
    type Copied = Index;

    unsafe fn copied(self) -> Result<Index> {
        // SAFETY: the caller's promise.
        let (name, columns) =
            unsafe { (copied_text(self.name, "name of an index")?, copied_array(self.columns, self.column_count)?) };
        let index = columns.into_iter().fold(Index::on(&name, [""; 0]), |index, (column, is_descending)| {
            if is_descending { index.descending(&column) } else { index.ascending(&column) }
        });
        let index = if self.is_unique { index.unique() } else { index };
        Ok(if self.has_missing { index.with_missing() } else { index })
    }
}

impl Lend for *const waxseal_table_index_t {
    type Copied = Index;

    unsafe fn copied(self) -> Result<Index> {
        // SAFETY: null, or readable by the caller's promise.
        let index = unsafe { self.as_ref() }.ok_or_else(|| Failure::invalid("the index is a null pointer"))?;
        // SAFETY: the caller's promise.
        unsafe { index.copied() }
    }
}

impl Lend for *const waxseal_table_schema_t {
    type Copied = Schema;

    unsafe fn copied(self) -> Result<Schema> {
        // SAFETY: null, or readable by the caller's promise.
        let given = unsafe { self.as_ref() }.ok_or_else(|| Failure::invalid("the schema is a null pointer"))?;
        // SAFETY: the caller's promise.
        let (columns, groups, indexes) = unsafe {
            (
                copied_array(given.columns, given.column_count)?,
                copied_array(given.groups, given.group_count)?,
                copied_array(given.indexes, given.index_count)?,
            )
        };
        let repeated = groups.iter().filter(|(_, is_repeated)| *is_repeated);
        let schema = repeated.fold(Schema::new(), |schema, (name, _)| schema.repeated_group(name));
        let schema = columns.into_iter().fold(schema, |schema, add| add(schema));
        let schema = indexes.into_iter().fold(schema, Schema::index);
        let schema = if given.is_hashed { schema.hashed() } else { schema };
        Ok(if given.has_dynamic_columns { schema.dynamic_columns() } else { schema })
    }
}

type AddStep = Box<dyn FnOnce(Alteration) -> Alteration>;

impl Lend for waxseal_table_step_t {
    type Copied = AddStep;

    unsafe fn copied(self) -> Result<AddStep> {
        // SAFETY: the caller's promise.
        let (name, new_name, group) = unsafe {
            (
                copied_text(self.name, "name")?,
                copied_text(self.new_name, "new name")?,
                copied_text(self.group, "name of a group")?,
            )
        };
        let column_type = || self.column_type.column_type();
        Ok(match self.kind {
            WAXSEAL_ALTER_ADD_COLUMN => {
                let (column_type, group) =
                    (column_type()?, if group.is_empty() { "default".to_owned() } else { group });
                Box::new(move |change| change.add_column_in(&group, &name, column_type))
            }
            WAXSEAL_ALTER_ADD_REPEATED_GROUP => Box::new(move |change| change.add_repeated_group(&name)),
            WAXSEAL_ALTER_RENAME_COLUMN => Box::new(move |change| change.rename_column(&name, &new_name)),
            WAXSEAL_ALTER_WIDEN_COLUMN => {
                let column_type = column_type()?;
                Box::new(move |change| change.widen_column(&name, column_type))
            }
            WAXSEAL_ALTER_UNDELETE_COLUMN => Box::new(move |change| change.undelete_column(&name)),
            WAXSEAL_ALTER_DROP_INDEX => Box::new(move |change| change.drop_index(&name)),
            other => return Err(Failure::invalid(format!("{other} is no change of a schema"))),
        })
    }
}

impl Lend for waxseal_table_alteration_t {
    type Copied = Alteration;

    unsafe fn copied(self) -> Result<Alteration> {
        // SAFETY: the caller's promise.
        let steps = unsafe { copied_array(self.steps, self.count) }?;
        Ok(steps.into_iter().fold(Alteration::new(), |change, add| add(change)))
    }
}

calls! {
    /// Returns the version of a table's schema as a snapshot sees it; a null `snapshot` is the current state. It is
    /// cheap, so that a copy of the schema can be kept until it changes.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME` if the table was dropped and the store is open for reading only, and
    /// if the snapshot is older than the table; `WAXSEAL_INVALID` for a snapshot of another store; `WAXSEAL_CLOSED`.
    fn waxseal_table_schema_version(
        table: *const waxseal_table_t, snapshot: *const waxseal_snapshot_t, out version: *mut u64,
    ) {
        let version = version.needed("version")?;
        version.set(on(table, |table| match snapshot.is_null() {
            true => Ok(table.schema_version()?),
            false => at_snapshot(table, snapshot, |snapshot| Ok(table.schema_at(snapshot)?.version())),
        })?);
        Ok(())
    }

    /// Returns a version of a table's schema; 0 is the present one. `WAXSEAL_NOT_FOUND` for a version that does not
    /// exist.
    ///
    /// Thread-safe. On success the caller owns `*description` and frees it with `waxseal_table_description_destroy`.
    /// Errors: as of `waxseal_table_schema_version`, `WAXSEAL_CORRUPTION`.
    fn waxseal_table_describe(
        table: *const waxseal_table_t, version: u64, out description: *mut *mut waxseal_table_description_t,
    ) {
        let description = description.needed("description")?;
        let schema = on(table, |table| match version {
            0 => Ok(Some(table.schema()?)),
            version => Ok(table.schema_history()?.into_iter().find(|schema| schema.version() == version)),
        })?;
        let Some(schema) = schema else { return Ok(false) };
        description.set(issue(Description::of(schema))?);
        Ok(true)
    }

    /// Changes the schema: all steps take effect together, while reads and writes go on. The change is durable when the
    /// call returns. Rows are not rewritten.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME` and `WAXSEAL_EXISTS` for columns and indexes; `WAXSEAL_INVALID` for
    /// a change that is not possible; `WAXSEAL_READ_ONLY`. Nothing changes then.
    fn waxseal_table_alter(table: *mut waxseal_table_t, lend alteration: waxseal_table_alteration_t) {
        let alteration = alteration?;
        on(table, |table| Ok(table.alter(alteration)?))
    }

    /// Drops a column: no read returns it any more. For `keep_micros` microseconds, `WAXSEAL_ALTER_UNDELETE_COLUMN`
    /// restores it with its values. A second drop, or the end of the time, is final.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_INVALID` for a column of the key; `WAXSEAL_READ_ONLY`.
    fn waxseal_table_drop_column(table: *mut waxseal_table_t, bytes name, keep_micros: u64) {
        let name = name.text("name of the column")?;
        on(table, |table| Ok(table.drop_column_for(name, Duration::from_micros(keep_micros))?))
    }

    /// Removes the values of the columns whose drop is final from all files of the table, and then the columns from the
    /// schema. `*report` is JSON: `columns` lists the purged columns, `held` the columns that a snapshot still reads,
    /// and `files` is the number of files that may have had values.
    ///
    /// Thread-safe. On success the caller owns `*report` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CORRUPTION`; call it again then.
    fn waxseal_table_purge_columns(table: *mut waxseal_table_t, out report: *mut *mut waxseal_bytes_t) {
        let report = report.needed("report")?;
        let found = on(table, |table| Ok(table.purge_columns()?))?;
        give_bytes(report, purge_json(&found).as_bytes())
    }
}

fn purge_json(report: &PurgeReport) -> String {
    let mut out = String::from("{\"columns\":");
    put_names(&mut out, &report.columns);
    out.push_str(",\"held\":");
    put_names(&mut out, &report.held);
    out + &format!(",\"files\":{}}}", report.files)
}

/// Appends names as an array.
fn put_names(out: &mut String, names: &[String]) {
    out.push('[');
    for (at, name) in names.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        put_text(out, name);
    }
    out.push(']');
}

getters! {
    with;

    /// The schema; null for null and for a destroyed description. Valid until the description is destroyed.
    fn waxseal_table_description_schema(description: *const waxseal_table_description_t)
        -> *const waxseal_table_schema_t => |description| &raw const *description.lent, or std::ptr::null();
}

destroy! {
    /// Destroys a description. Null is allowed; a destroyed one is `WAXSEAL_CLOSED`.
    fn waxseal_table_description_destroy(description: *mut waxseal_table_description_t);
}
