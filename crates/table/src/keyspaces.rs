//! The keyspaces of a store: create, change, rename, drop and list.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use waxseal::env::lock;
use waxseal::registry::Operation;
use waxseal::{Batch, Durability};

use crate::error::{Error, ErrorKind, Result};
use crate::events::{describe_keyspace, describe_new_name};
use crate::keyspace::Keyspace;
use crate::schema::check_name;
use crate::schema_record::TableId;
use crate::state::TableState;
use crate::tables::{Tables, drop_families};

impl Tables {
    /// Creates a keyspace with its replication map. A keyspace also exists, with an empty map, while it has a table: it
    /// need not be created. The keyspace is durable when the call returns. The event is `Schema.Alter`, with the new
    /// name.
    ///
    /// Errors: `Exists`, also for a keyspace that has tables; `Invalid` for a malformed name or map, and for the name of a
    /// column family; `ReadOnly`.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// use waxseal_table::{ColumnType, Keyspace, Schema, Tables};
    ///
    /// let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// tables.create_keyspace(Keyspace::new("library").replication("east", 3))?;
    /// let books = tables.create("library.books", Schema::new().partition_key("isbn", ColumnType::Text))?;
    /// tables.rename_keyspace("library", "archive")?;
    /// assert_eq!(books.name(), "archive.books");
    /// tables.drop_keyspace("archive")?; // with its tables
    /// assert!(tables.keyspaces()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_keyspace(&self, keyspace: Keyspace) -> Result<()> {
        let create = || {
            keyspace.check()?;
            let _open = lock(&self.shared.open);
            self.check_new_keyspace(keyspace.name())?;
            let also = |batch: &mut Batch| describe_new_name(batch, None, &keyspace);
            self.put_keyspace(&keyspace, also)
        };
        create().map_err(|error: Error| error.in_table(keyspace.name()))
    }

    /// Replaces the replication map of a keyspace. It is durable when the call returns. The event is `Schema.Alter`.
    /// Errors: `NotFound`; `Invalid` for a malformed map; `ReadOnly`.
    pub fn alter_keyspace(&self, keyspace: Keyspace) -> Result<()> {
        let alter = || {
            keyspace.check()?;
            let _open = lock(&self.shared.open);
            self.present_keyspace(keyspace.name())?;
            self.put_keyspace(&keyspace, |batch| describe_keyspace(batch, &keyspace, Operation::SCHEMA_ALTER))
        };
        alter().map_err(|error: Error| error.in_table(keyspace.name()))
    }

    fn put_keyspace(&self, keyspace: &Keyspace, describe: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut batch = self.session.batch();
        self.shared.catalogue.put_keyspace(&mut batch, keyspace)?;
        describe(&mut batch);
        Ok(batch.commit(Durability::Sync)?)
    }

    /// Renames a keyspace, with all its tables in one commit. Handles of the tables stay valid. The new name is durable
    /// when the call returns. The events are `Schema.Alter` of the keyspace and `Table.AlterRename` of each table.
    ///
    /// Waits for the writes that run, and delays those to the tables of the keyspace. Errors: `NotFound`; `Exists`;
    /// `Invalid` for a malformed name and for the name of a column family; `ReadOnly`.
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        let rename = || {
            check_name("keyspace", to)?;
            let mut open = lock(&self.shared.open);
            let keyspace = self.present_keyspace(from)?;
            self.check_new_keyspace(to)?;
            let states = self.states_in(&mut open, from)?;
            TableState::move_all(&states, &self.session, to, |batch| {
                let (catalogue, renamed) = (&self.shared.catalogue, keyspace.renamed(to));
                if catalogue.was_created(from)? {
                    catalogue.remove_keyspace(batch, from)?;
                    catalogue.put_keyspace(batch, &renamed)?;
                }
                describe_new_name(batch, Some(from), &renamed);
                Ok(())
            })
        };
        rename().map_err(|error: Error| error.in_table(from))
    }

    /// Drops a keyspace with all its tables and everything in them. Handles of the tables fail afterwards. The drop is
    /// durable when the call returns. The events are `Schema.Drop` of the keyspace and `Table.Drop` of each table.
    /// Errors: `NotFound`, `ReadOnly`.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let drop = || {
            let mut open = lock(&self.shared.open);
            let keyspace = self.present_keyspace(name)?;
            let states = self.states_in(&mut open, name)?;
            TableState::remove_all(&states, &self.session, |batch| {
                self.shared.catalogue.remove_keyspace(batch, name)?;
                describe_keyspace(batch, &keyspace, Operation::SCHEMA_DROP);
                Ok(())
            })?;
            for state in &states {
                open.remove(&state.id);
                drop_families(&self.session, &self.shared.db, state.id)?;
            }
            Ok(())
        };
        drop().map_err(|error: Error| error.in_table(name))
    }

    /// Returns all keyspaces, sorted by name: created keyspaces, and keyspaces that exist by their tables.
    pub fn keyspaces(&self) -> Result<Vec<Keyspace>> {
        self.shared.catalogue.keyspaces()
    }

    /// Returns a keyspace. Errors: `NotFound`; `Corruption` if its record is damaged.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.present_keyspace(name).map_err(|error| error.in_table(name))
    }

    fn present_keyspace(&self, name: &str) -> Result<Keyspace> {
        let none = || Error::of(ErrorKind::NotFound, "the keyspace does not exist");
        self.shared.catalogue.keyspace(name)?.ok_or_else(none)
    }

    /// Fails if a new keyspace cannot have a name.
    fn check_new_keyspace(&self, name: &str) -> Result<()> {
        self.check_keyspace(name)?;
        match self.shared.catalogue.has_keyspace(name)? {
            true => Err(Error::of(ErrorKind::Exists, format!("the keyspace {name} exists"))),
            false => Ok(()),
        }
    }

    /// Returns the states of the tables of a keyspace.
    fn states_in(&self, open: &mut HashMap<TableId, Weak<TableState>>, keyspace: &str) -> Result<Vec<Arc<TableState>>> {
        let names = self.shared.catalogue.names_in(keyspace)?;
        names.iter().map(|name| self.state(open, &name.to_string())).collect()
    }
}
