//! The keyspaces and tables that targets of the store's registry may name.

use std::sync::{Arc, Weak};

use waxseal::registry::{Schema, TableColumns, TableName};

use crate::schema::ColumnRole;
use crate::state::StoreTables;

/// The keyspace of the store's own metadata.
const SYSTEM_KEYSPACE: &str = "system_metadata";

/// The tables of a store, while they are open.
pub(crate) struct TableNames(pub(crate) Weak<StoreTables>);

impl Schema for TableNames {
    fn is_keyspace(&self, name: &str) -> bool {
        let has = |store: Arc<StoreTables>| store.catalogue.has_keyspace(name).unwrap_or(false);
        name == SYSTEM_KEYSPACE || self.0.upgrade().is_some_and(has)
    }

    fn shape(&self, table: &TableName) -> Option<TableColumns> {
        let name = crate::schema::TableName { keyspace: table.keyspace.clone(), table: table.table.clone() };
        let store = self.0.upgrade()?;
        let record = store.catalogue.table_at(&name, &store.db.snapshot()).ok()??;
        let keys = || record.schema.columns.iter().filter(|column| column.role.is_key());
        let partition = keys().filter(|column| column.role == ColumnRole::Partition).count();
        Some(TableColumns { partition, clustering: keys().count() - partition })
    }
}
