//! Reads and writes of rows, on whichever node they are.

use std::fmt;
use std::sync::Arc;

use waxseal_table::{Changes, IntoKey, Row, RowOptions, Schema, Table, Value};

use crate::error::{Error, Result};
use crate::routed_select::RoutedSelect;
use crate::routes::Routes;

/// A placed table. Clones share it and may be used from any thread.
///
/// Each call goes to the owner of the row's range. A write is one commit of that store, with its durability. The errors
/// are those of [`Table`], and those of the open of the owner's store.
///
/// Indexes, transactions over several rows, and deletes of ranges are not offered yet.
#[derive(Clone)]
pub struct RoutedTable {
    routes: Arc<Routes>,
}

impl RoutedTable {
    pub(crate) fn new(routes: Arc<Routes>) -> RoutedTable {
        RoutedTable { routes }
    }

    /// Returns the name, `keyspace.table`.
    pub fn name(&self) -> &str {
        &self.routes.table
    }

    /// Returns the schema. All nodes have the same one.
    pub fn schema(&self) -> &Schema {
        &self.routes.schema
    }

    /// Returns the id of the node that owns the row of a key, whether or not the row exists. Errors: `Invalid` for
    /// values that do not fit.
    pub fn owner(&self, key: impl IntoKey) -> Result<String> {
        let route = self.routes.route(&self.routes.encoded_key(key)?);
        Ok(route.owner().node.id.clone())
    }

    /// Adds a row: see [`Table::insert`].
    pub fn insert(&self, row: impl Into<Row>) -> Result<()> {
        self.insert_with(row, RowOptions::new())
    }

    /// [`insert`](RoutedTable::insert) with options.
    pub fn insert_with(&self, row: impl Into<Row>, options: RowOptions) -> Result<()> {
        let row = row.into();
        self.write(self.key_of(&row)?, |table, _| table.insert_with(row, options))
    }

    /// Writes a whole row: see [`Table::upsert`].
    pub fn upsert(&self, row: impl Into<Row>) -> Result<()> {
        self.upsert_with(row, RowOptions::new())
    }

    /// [`upsert`](RoutedTable::upsert) with options.
    pub fn upsert_with(&self, row: impl Into<Row>, options: RowOptions) -> Result<()> {
        let row = row.into();
        self.write(self.key_of(&row)?, |table, _| table.upsert_with(row, options))
    }

    /// Changes columns of a row: see [`Table::update`].
    pub fn update(&self, key: impl IntoKey, changes: Changes) -> Result<bool> {
        self.write(key.into_key(), |table, key| table.update(key, changes))
    }

    /// Deletes a row: see [`Table::delete`].
    pub fn delete(&self, key: impl IntoKey) -> Result<()> {
        self.write(key.into_key(), |table, key| table.delete(key))
    }

    /// Returns the row of a key: see [`Table::get`].
    pub fn get(&self, key: impl IntoKey) -> Result<Option<Row>> {
        let key = key.into_key();
        let route = self.routes.route(&self.routes.encoded_key(&key)?);
        Ok(route.owner().table()?.get(&key)?)
    }

    /// Begins a read of rows.
    pub fn select(&self) -> RoutedSelect {
        RoutedSelect::new(self.routes.clone())
    }

    /// Makes a write on the owner of a key.
    fn write<T>(&self, key: Vec<Value>, call: impl FnOnce(&Table, &[Value]) -> waxseal_table::Result<T>) -> Result<T> {
        let route = self.routes.route(&self.routes.encoded_key(&key)?);
        let _admitted = route.admit_write();
        Ok(call(route.owner().table()?, &key)?)
    }

    /// Returns the values of a row's key.
    fn key_of(&self, row: &Row) -> Result<Vec<Value>> {
        let value = |name: &str| {
            row.get(name).cloned().ok_or_else(|| {
                Error::invalid(format!("{}: the row has no value of the key's column {name:?}", self.name()))
            })
        };
        self.schema().key_columns().map(|column| value(column.name())).collect()
    }
}

impl fmt::Debug for RoutedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedTable").field("name", &self.name()).finish_non_exhaustive()
    }
}
