//! Keyspaces and tables, as DataFusion looks them up.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use waxseal::Snapshot;
use waxseal_table::{ErrorKind, Tables};

use crate::provider::SnapshotTable;

/// The tables of a store at a snapshot.
#[derive(Clone)]
pub(crate) struct StoreCatalog {
    tables: Tables,
    snapshot: Snapshot,
    /// `keyspace.table`, sorted.
    names: Arc<Vec<String>>,
}

impl StoreCatalog {
    pub(crate) fn new(tables: &Tables, snapshot: Snapshot) -> waxseal_table::Result<StoreCatalog> {
        Ok(StoreCatalog { names: Arc::new(tables.names_at(&snapshot)?), tables: tables.clone(), snapshot })
    }
}

impl CatalogProvider for StoreCatalog {
    fn schema_names(&self) -> Vec<String> {
        let keyspaces = self.names.iter().filter_map(|name| name.split_once('.'));
        let mut keyspaces: Vec<String> = keyspaces.map(|(keyspace, _)| keyspace.to_owned()).collect();
        keyspaces.dedup();
        keyspaces
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let keyspace = Keyspace { catalog: self.clone(), name: name.to_owned() };
        (!keyspace.table_names().is_empty()).then(|| Arc::new(keyspace) as Arc<dyn SchemaProvider>)
    }
}

/// The tables of a keyspace.
#[derive(Debug)]
struct Keyspace {
    catalog: StoreCatalog,
    name: String,
}

#[async_trait]
impl SchemaProvider for Keyspace {
    fn table_names(&self) -> Vec<String> {
        let names = self.catalog.names.iter().filter_map(|name| name.split_once('.'));
        names.filter(|(keyspace, _)| *keyspace == self.name).map(|(_, table)| table.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.table_exist(name) {
            return Ok(None);
        }
        let table = self.catalog.tables.table_at(&format!("{}.{name}", self.name), &self.catalog.snapshot);
        let table = table.and_then(|table| SnapshotTable::new(table, self.catalog.snapshot.clone()));
        match table {
            Ok(table) => Ok(Some(Arc::new(table))),
            // Dropped since the snapshot.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DataFusionError::External(Box::new(error))),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|table| table == name)
    }
}

impl fmt::Debug for StoreCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCatalog").field("tables", &self.names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use waxseal_table::{ColumnType, Schema};

    use super::*;

    /// The tables exchange their names behind the snapshot.
    #[test]
    fn a_table_is_looked_up_by_its_name_at_the_snapshot() {
        let tables = Tables::open(&waxseal::Db::memory().unwrap()).unwrap();
        for name in ["one", "two"] {
            tables.create(&format!("library.{name}"), Schema::new().partition_key(name, ColumnType::I32)).unwrap();
        }
        let runtime = Builder::new_current_thread().build().unwrap();
        let catalog = StoreCatalog::new(&tables, tables.db().snapshot()).unwrap();
        for (name, new) in [("one", "spare"), ("two", "one"), ("spare", "two")] {
            tables.rename(&format!("library.{name}"), &format!("library.{new}")).unwrap();
        }
        let keyspace = catalog.schema("library").unwrap();
        for name in ["one", "two"] {
            let table = runtime.block_on(keyspace.table(name)).unwrap().unwrap();
            assert_eq!(table.schema().field(0).name(), name);
        }
        tables.rename("library.one", "library.three").unwrap();
        assert!(runtime.block_on(keyspace.table("one")).unwrap().is_some());
        assert!(runtime.block_on(keyspace.table("three")).unwrap().is_none());
    }
}
