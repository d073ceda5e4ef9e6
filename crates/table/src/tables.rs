//! The tables of a store: create, open, list and drop.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};

use waxseal::env::lock;
use waxseal::{CfOptions, ColumnFamily, Db, Durability, Session, Snapshot};

use crate::catalogue::{Catalogue, indexes_family, rows_family, table_of_family};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Schema, TableName};
use crate::schema_record::{TableId, TableRecord};
use crate::state::{StoreTables, TableState};
use crate::table::Table;
use crate::targets::TableNames;

/// The format level that has range deletes.
const LEAST_FORMAT_LEVEL: u32 = 2;

/// The tables of a store. Clones share them and may be used from any thread.
///
/// A table has two column families, one for rows and one for indexes, and a record in the catalogue, a family of its
/// own. All handles of one process share one state, however often the tables are opened. Write to these families
/// through this crate alone.
///
/// ```
/// # fn main() -> waxseal_table::Result<()> {
/// use waxseal_table::{ColumnType, Row, Schema, Tables};
///
/// let db = waxseal::Db::memory()?;
/// let tables = Tables::open(&db)?;
/// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("title", ColumnType::Text);
/// let books = tables.create("library.books", schema)?;
/// books.insert(Row::new().with("isbn", "0141439580").with("title", "Emma"))?;
/// assert_eq!(tables.names()?, ["library.books"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tables {
    pub(crate) shared: Arc<StoreTables>,
    /// The session in whose name the tables are changed.
    pub(crate) session: Session,
}

impl Tables {
    /// Returns true if a column family of this name has the rows or the index entries of a table.
    pub fn has_family(name: &str) -> bool {
        table_of_family(name).is_some()
    }

    /// Opens the tables of a store. The first open of a store creates the catalogue, an empty column family. Families
    /// that a crash has left without a table are dropped.
    ///
    /// Errors: `Invalid` if the store's [format level](Db::upgrade) is 1, which has no range deletes.
    pub fn open(db: &Db) -> Result<Tables> {
        if !db.is_read_only() && db.format_level() < LEAST_FORMAT_LEVEL {
            return Err(Error::invalid(format!(
                "tables need a store of format level {LEAST_FORMAT_LEVEL}, and this one has {}: \
                 upgrade({LEAST_FORMAT_LEVEL}) raises it",
                db.format_level()
            )));
        }
        let prepare = || {
            let catalogue = Catalogue::open(db)?;
            if !db.is_read_only() {
                drop_leftovers(db, &catalogue)?;
            }
            Ok(catalogue)
        };
        let shared = StoreTables::of(db, prepare)?;
        // A store without a registry logs nothing.
        let _ = db.registry().set_catalogue(Arc::new(TableNames(Arc::downgrade(&shared))));
        Ok(Tables { shared, session: db.nobody() })
    }

    /// Opens the tables of a store that has a catalogue, and returns `None` for any other store, which stays as it is. A
    /// store that is open for reading is always opened, since its writer may create the catalogue later. Errors: as for
    /// [`open`](Tables::open).
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// use waxseal_table::Tables;
    ///
    /// let db = waxseal::Db::memory()?;
    /// assert!(Tables::open_existing(&db)?.is_none());
    /// Tables::open(&db)?;
    /// assert!(Tables::open_existing(&db)?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_existing(db: &Db) -> Result<Option<Tables>> {
        match db.is_read_only() || Catalogue::exists(db) {
            true => Tables::open(db).map(Some),
            false => Ok(None),
        }
    }

    /// Returns the same tables in the name of a session: the events of what is done through them, through the tables that
    /// they open, and through their transactions name the session as the client. Errors: `Invalid` for a session of
    /// another store.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// let db = waxseal::Db::memory()?;
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("title", ColumnType::Text);
    /// let tables = Tables::open(&db)?;
    /// tables.create("library.books", schema)?;
    /// db.registry().register("library.books", "Row.Insert")?;
    ///
    /// let books = tables.in_session(&db.session("alice")?)?.table("library.books")?;
    /// books.insert(Row::new().with("isbn", "0141439580").with("title", "Emma"))?;
    /// let event = db.registry().query_latest("library.books.0141439580", "Row.Insert")?.unwrap();
    /// assert_eq!(event.key.client, "alice");
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_session(&self, session: &Session) -> Result<Tables> {
        match session.store() == self.shared.key {
            true => Ok(Tables { shared: self.shared.clone(), session: session.clone() }),
            false => Err(Error::invalid("the session is of another store")),
        }
    }

    /// Returns the store that the tables are in.
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// Creates a table, `keyspace.name`. The table is durable when the call returns; it costs several syncs.
    ///
    /// Errors: `Exists`; `Invalid` for a malformed name, for a keyspace with the name of a column family, and for a schema
    /// that no table can have; `ReadOnly`.
    pub fn create(&self, name: &str, schema: Schema) -> Result<Table> {
        self.try_create(name, schema).map_err(|error| error.in_table(name))
    }

    fn try_create(&self, name: &str, schema: Schema) -> Result<Table> {
        let name = TableName::parse(name)?;
        schema.check()?;
        let db = &self.shared.db;
        if db.is_read_only() {
            return Err(Error::of(ErrorKind::ReadOnly, "the store is open for reading only"));
        }
        let catalogue = &self.shared.catalogue;
        let mut open = lock(&self.shared.open);
        self.check_keyspace(&name.keyspace)?;
        if catalogue.find(&name)?.is_some() {
            return Err(Error::of(ErrorKind::Exists, "the table exists"));
        }
        // The record is last: without it, the next open drops the families.
        let id = catalogue.next_id()?;
        db.create_column_family(&rows_family(id), CfOptions::default())?;
        db.create_column_family(&indexes_family(id), CfOptions::default())?;
        let table = TableRecord { id, name, schema };
        let mut batch = self.session.batch();
        catalogue.put(&mut batch, &table)?;
        batch.describe_nothing().commit(Durability::Sync)?;
        let state = Arc::new(TableState::open(&self.shared, table)?);
        open.insert(id, Arc::downgrade(&state));
        Table::new(state, &self.session)
    }

    /// Refuses a keyspace with the name of a column family: targets of the registry could not tell them apart.
    pub(crate) fn check_keyspace(&self, keyspace: &str) -> Result<()> {
        let is_same = |family: &ColumnFamily| family.name() == keyspace;
        match self.shared.db.column_families().iter().any(is_same) {
            true => Err(Error::invalid(format!("a column family has the name of the keyspace, {keyspace}"))),
            false => Ok(()),
        }
    }

    /// Opens a table. Errors: `NotFound`; `Corruption` if its schema is damaged.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.try_table(name).map_err(|error| error.in_table(name))
    }

    /// Opens the table that had a name at a snapshot of the store, whatever its name is now. Read it
    /// [at](crate::Select::at) the snapshot. Errors: `NotFound` also if the table was dropped since.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text);
    /// tables.create("library.books", schema)?.insert(Row::new().with("isbn", "0141439580"))?;
    /// let snapshot = tables.db().snapshot();
    /// tables.rename("library.books", "library.old_books")?;
    /// assert_eq!(tables.names_at(&snapshot)?, ["library.books"]);
    /// assert_eq!(tables.table_at("library.books", &snapshot)?.select().at(&snapshot).count()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn table_at(&self, name: &str, snapshot: &Snapshot) -> Result<Table> {
        self.try_table_at(name, snapshot).map_err(|error| error.in_table(name))
    }

    fn try_table_at(&self, name: &str, snapshot: &Snapshot) -> Result<Table> {
        let catalogue = &self.shared.catalogue;
        let id = catalogue.find_at(&TableName::parse(name)?, Some(snapshot))?.ok_or_else(no_table)?;
        // Without a rename, create or drop until the table is open.
        let mut open = lock(&self.shared.open);
        let record = catalogue.record_bytes(id, None)?.ok_or_else(no_table)?;
        let state = self.state(&mut open, &TableRecord::decode(&record)?.name.to_string())?;
        // The writer of a store that is open for reading may have replaced the table meanwhile.
        if state.id == id { Table::new(state, &self.session) } else { Err(no_table()) }
    }

    fn try_table(&self, name: &str) -> Result<Table> {
        let state = self.state(&mut lock(&self.shared.open), name)?;
        Table::new(state, &self.session)
    }

    /// Returns the state of a table, which is opened if it has no handles.
    pub(crate) fn state(&self, open: &mut HashMap<TableId, Weak<TableState>>, name: &str) -> Result<Arc<TableState>> {
        let (catalogue, name) = (&self.shared.catalogue, TableName::parse(name)?);
        let id = catalogue.find(&name)?.ok_or_else(no_table)?;
        if let Some(state) = open.get(&id).and_then(Weak::upgrade) {
            return Ok(state);
        }
        // The record is read when no handle is left that could change it.
        let state = Arc::new(self.open_present(&name)?);
        open.insert(state.id, Arc::downgrade(&state));
        Ok(state)
    }

    /// Opens the table that has a name. A refresh of a store that is open for reading may remove the table meanwhile, or
    /// replace it: then the call looks again.
    fn open_present(&self, name: &TableName) -> Result<TableState> {
        let record = || self.shared.catalogue.table_at(name, &self.shared.db.snapshot());
        loop {
            let found = record()?.ok_or_else(no_table)?;
            let opened = TableState::open(&self.shared, found.clone());
            if opened.is_ok() || record()? == Some(found) {
                return opened;
            }
        }
    }

    /// Returns the names of all tables, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        self.names_of(None)
    }

    /// Returns the names that the tables had at a snapshot of the store, sorted.
    pub fn names_at(&self, snapshot: &Snapshot) -> Result<Vec<String>> {
        self.names_of(Some(snapshot))
    }

    fn names_of(&self, at: Option<&Snapshot>) -> Result<Vec<String>> {
        Ok(self.shared.catalogue.tables(at)?.iter().map(|table| table.name.to_string()).collect())
    }

    /// Returns the families of rows whose tables cannot be opened, because damage has lost their schemas. They keep their
    /// rows. Restore the store from a backup, or read the records of the family, which docs/format-tables.md describes.
    pub fn families_without_schema(&self) -> Result<Vec<String>> {
        let found = tables_without_schema(&self.shared.db, &self.shared.catalogue)?;
        Ok(found.into_iter().map(rows_family).collect())
    }

    /// Drops a table and everything in it. Handles of the table fail afterwards, also at snapshots that were taken before.
    /// The drop is durable when the call returns. Errors: `NotFound`, `ReadOnly`.
    pub fn drop(&self, name: &str) -> Result<()> {
        self.try_drop(name).map_err(|error| error.in_table(name))
    }

    fn try_drop(&self, name: &str) -> Result<()> {
        let mut open = lock(&self.shared.open);
        let state = self.state(&mut open, name)?;
        TableState::remove_all(std::slice::from_ref(&state), &self.session, |_| Ok(()))?;
        open.remove(&state.id);
        drop_families(&self.session, &self.shared.db, state.id)
    }

    /// Renames a table, also into another keyspace. Handles of the table stay valid. The new name is durable when the
    /// call returns. Errors: `NotFound`; `Exists`; `Invalid` for a malformed name; `ReadOnly`.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.try_rename(from, to).map_err(|error| error.in_table(from))
    }

    fn try_rename(&self, from: &str, to: &str) -> Result<()> {
        let name = TableName::parse(to)?;
        let mut open = lock(&self.shared.open);
        let state = self.state(&mut open, from)?;
        let catalogue = &self.shared.catalogue;
        self.check_keyspace(&name.keyspace)?;
        if catalogue.find(&name)?.is_some() {
            return Err(Error::of(ErrorKind::Exists, format!("the table {to} exists")));
        }
        let renamed = |record: &TableRecord| {
            let mut next = TableRecord { name, ..record.clone() };
            next.schema.version += 1;
            Ok(next)
        };
        state.change(&self.session, renamed, |batch, before, _| catalogue.remove_name(batch, &before.name))
    }
}

#[cold]
fn no_table() -> Error {
    Error::of(ErrorKind::NotFound, "the table does not exist")
}

/// Drops the families of tables that the catalogue does not have: a crash came between two steps of a create or drop.
/// Such families are empty. If one of them has records, damage has lost the schema of its table, and they stay.
fn drop_leftovers(db: &Db, catalogue: &Catalogue) -> Result<()> {
    let last = catalogue.last_id()?;
    for id in tables_without_schema(db, catalogue)?.into_iter().filter(|id| *id <= last) {
        let families = [rows_family(id), indexes_family(id)];
        let own = |family: &ColumnFamily| families.iter().any(|name| name == family.name());
        let found: Vec<ColumnFamily> = db.column_families().into_iter().filter(own).collect();
        if found.iter().all(|family| matches!(family.is_empty(), Ok(true))) {
            found.iter().try_for_each(|family| db.drop_described_family(family.name()))?;
        }
    }
    Ok(())
}

/// Returns the ids of the tables that have families and no schema.
fn tables_without_schema(db: &Db, catalogue: &Catalogue) -> Result<BTreeSet<TableId>> {
    let mut found = BTreeSet::new();
    for id in db.column_families().iter().filter_map(|family| table_of_family(family.name())) {
        if catalogue.record_bytes(id, None)?.is_none() {
            found.insert(id);
        }
    }
    Ok(found)
}

pub(crate) fn drop_families(session: &Session, db: &Db, id: TableId) -> Result<()> {
    for name in [rows_family(id), indexes_family(id)] {
        if db.column_families().iter().any(|family| family.name() == name) {
            session.drop_described_family(&name)?;
        }
    }
    Ok(())
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("store", &self.shared.key).finish_non_exhaustive()
    }
}
