//! State shared by all handles of one process: the tables of a store, and each table's schema.
//!
//! A write holds the schema lock shared from the encoding of its rows to its commit, and a schema change holds it alone
//! for one commit. No record is therefore written by an older schema than the store has at that moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use waxseal::env::lock;
use waxseal::registry::Operation;
use waxseal::{Batch, ColumnFamily, Db, Durability, Session, Snapshot, StoreId};

use crate::catalogue::{Catalogue, indexes_family, rows_family};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{describe_change, describe_table};
use crate::index::IndexInfo;
use crate::layout::Layout;
use crate::row_functions::attach;
use crate::schema::TableName;
use crate::schema_record::{TableId, TableRecord};

/// The tables of a store.
pub(crate) struct StoreTables {
    pub(crate) key: StoreId,
    pub(crate) db: Db,
    pub(crate) catalogue: Catalogue,
    /// The tables with handles. Held while a table is created or dropped.
    pub(crate) open: Mutex<HashMap<TableId, Weak<TableState>>>,
}

/// The stores that have tables open in this process. A store's entry is removed with its last handle.
static OPEN: Mutex<Option<HashMap<StoreId, Weak<StoreTables>>>> = Mutex::new(None);

impl StoreTables {
    /// Returns the tables of a store, which `prepare` makes ready if they are not open yet.
    pub(crate) fn of(db: &Db, prepare: impl FnOnce() -> Result<Catalogue>) -> Result<Arc<StoreTables>> {
        let mut open = lock(&OPEN);
        let stores = open.get_or_insert_default();
        if let Some(found) = stores.get(&db.store()).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let new = StoreTables { key: db.store(), db: db.clone(), catalogue: prepare()?, open: Mutex::default() };
        let new = Arc::new(new);
        stores.insert(db.store(), Arc::downgrade(&new));
        Ok(new)
    }
}

impl Drop for StoreTables {
    fn drop(&mut self) {
        if let Some(open) = lock(&OPEN).as_mut()
            && open.get(&self.key).is_some_and(|store| store.strong_count() == 0)
        {
            open.remove(&self.key);
        }
    }
}

/// A table's families, and the schema that the last change has left.
pub(crate) struct TableState {
    pub(crate) id: TableId,
    pub(crate) store: Arc<StoreTables>,
    pub(crate) rows: ColumnFamily,
    pub(crate) indexes: ColumnFamily,
    current: RwLock<Arc<Prepared>>,
    /// Held by a purge of columns.
    pub(crate) purging: Mutex<()>,
    /// Held by a change of the schema that adds names to a table with dynamic columns.
    pub(crate) naming: Mutex<()>,
}

/// Names that are reserved for columns until this value is dropped.
pub(crate) struct ReservedNames<'a>(&'a TableState);

impl Drop for ReservedNames<'_> {
    fn drop(&mut self) {
        let mut current = self.0.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(Prepared::new(current.layout.record.clone(), &[]));
    }
}

/// Locks the schemas of tables alone.
fn lock_all(states: &[Arc<TableState>]) -> Vec<RwLockWriteGuard<'_, Arc<Prepared>>> {
    states.iter().map(|state| state.current.write().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// A layout and its schema record.
pub(crate) struct Prepared {
    record: Vec<u8>,
    pub(crate) layout: Arc<Layout>,
}

impl Prepared {
    fn new(table: TableRecord, reserved: &[String]) -> Prepared {
        let record = table.encode();
        let mut layout = Layout::new(table);
        layout.reserved = reserved.to_vec();
        Prepared { record, layout: Arc::new(layout) }
    }
}

impl TableState {
    /// Opens the families of a table of the catalogue. Errors: `Corruption` if they do not exist.
    pub(crate) fn open(store: &Arc<StoreTables>, table: TableRecord) -> Result<TableState> {
        let family = |name: String| {
            let found = store.db.column_families().into_iter().find(|family| family.name() == name);
            found.ok_or_else(|| Error::corruption(format!("the family {name:?} of the table does not exist")))
        };
        let (rows, indexes) = (family(rows_family(table.id))?, family(indexes_family(table.id))?);
        let (id, store, prepared) = (table.id, store.clone(), Prepared::new(table, &[]));
        if !store.db.is_read_only() {
            attach(&rows, &indexes, &prepared.layout)?;
        }
        let (current, purging, naming) = (RwLock::new(Arc::new(prepared)), Mutex::default(), Mutex::default());
        Ok(TableState { id, store, rows, indexes, current, purging, naming })
    }

    /// Locks the schema for a write.
    pub(crate) fn for_write(&self) -> Result<RwLockReadGuard<'_, Arc<Prepared>>> {
        self.store.db.check_writable()?;
        Ok(self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails with `NotFound` if the table was dropped.
    pub(crate) fn check_exists(&self) -> Result<()> {
        match self.store.catalogue.record_bytes(self.id, None)? {
            Some(_) => Ok(()),
            None => Err(Error::of(ErrorKind::NotFound, "the table was dropped")),
        }
    }

    /// Changes the table's record: commits the next version while no write is under way, and deletes the entries of
    /// indexes that it lacks. `also` adds to the commit; it gets the records before and after.
    pub(crate) fn change(
        &self,
        session: &Session,
        next: impl FnOnce(&TableRecord) -> Result<TableRecord>,
        also: impl FnOnce(&mut Batch, &TableRecord, &TableRecord) -> Result<()>,
    ) -> Result<()> {
        let store = &self.store;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        self.check_exists()?;
        let next = next(&current.layout.record)?;
        let mut batch = session.batch();
        batch.describe_nothing();
        also(&mut batch, &current.layout.record, &next)?;
        for index in &current.layout.record.schema.indexes {
            if !next.schema.indexes.iter().any(|other| other.id == index.id) {
                batch.delete_range(&self.indexes, index.prefix()..index.end());
            }
        }
        let known = &current.layout.record.schema.indexes;
        let is_new = |index: &&IndexInfo| !known.iter().any(|own| own.id == index.id);
        for index in next.schema.indexes.iter().filter(is_new) {
            // The id is new, unless damage has lost the newest schema: an older one counts then.
            if self.indexes.prefix(index.prefix()).next().is_some() {
                batch.delete_range(&self.indexes, index.prefix()..index.end());
            }
        }
        store.catalogue.put(&mut batch, &next)?;
        describe_change(&mut batch, &current.layout.record, &next);
        batch.commit(Durability::Sync)?;
        let prepared = Arc::new(Prepared::new(next, &current.layout.reserved));
        *current = prepared.clone();
        drop(current);
        // If this fails, files lack a list of their columns, and a purge rewrites them.
        let _ = attach(&self.rows, &self.indexes, &prepared.layout);
        Ok(())
    }

    /// Reserves names for columns: writes of dynamic columns with these names fail with `InUse`. Transactions that have read
    /// the schema before fail with `Conflict`.
    pub(crate) fn reserve(&self, session: &Session, names: &[String]) -> Result<ReservedNames<'_>> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let record = current.layout.record.clone();
        self.check_exists()?;
        let mut batch = session.batch();
        self.store.catalogue.touch(&mut batch, &record)?;
        batch.describe_nothing().commit(Durability::Os)?;
        *current = Arc::new(Prepared::new(record, names));
        Ok(ReservedNames(self))
    }

    /// Moves tables into another keyspace while no write is under way, in one commit, to which `also` adds. The caller
    /// holds the lock of the open tables: only then may a thread take the schema locks of several tables.
    pub(crate) fn move_all(
        states: &[Arc<TableState>],
        session: &Session,
        keyspace: &str,
        also: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        let mut locked = lock_all(states);
        let mut batch = session.batch();
        let mut moved = Vec::new();
        for (state, current) in states.iter().zip(&locked) {
            let (catalogue, before) = (&state.store.catalogue, &current.layout.record);
            let name = TableName { keyspace: keyspace.to_owned(), table: before.name.table.clone() };
            let mut next = TableRecord { name, ..before.clone() };
            next.schema.version += 1;
            catalogue.remove_name(&mut batch, &before.name)?;
            catalogue.put(&mut batch, &next)?;
            describe_change(&mut batch, before, &next);
            moved.push(Arc::new(Prepared::new(next, &current.layout.reserved)));
        }
        also(&mut batch)?;
        batch.commit(Durability::Sync)?;
        for (current, moved) in locked.iter_mut().zip(moved) {
            **current = moved;
        }
        Ok(())
    }

    /// Removes tables from the catalogue while no write is under way, in one commit, to which `also` adds. The caller holds
    /// the lock of the open tables.
    pub(crate) fn remove_all(
        states: &[Arc<TableState>],
        session: &Session,
        also: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        let locked = lock_all(states);
        let mut batch = session.batch();
        for (state, current) in states.iter().zip(&locked) {
            // Families with records and without a schema are those of a table that damage has hit.
            batch.delete_range(&state.rows, ..).delete_range(&state.indexes, ..);
            state.store.catalogue.remove(&mut batch, &current.layout.record)?;
            describe_table(&mut batch, &current.layout.record, Operation::TABLE_DROP);
        }
        also(&mut batch)?;
        Ok(batch.commit(Durability::Sync)?)
    }

    /// Returns the present layout. In a store that is open for reading, it is the one of the last refresh.
    pub(crate) fn layout(&self) -> Result<Arc<Layout>> {
        if self.store.db.is_read_only() {
            return self.layout_of(self.store.catalogue.record_bytes(self.id, None)?);
        }
        Ok(self.prepared().layout.clone())
    }

    /// Returns the layout at a snapshot. Errors: `NotFound` if the table did not exist.
    pub(crate) fn layout_at(&self, snapshot: &Snapshot) -> Result<Arc<Layout>> {
        self.layout_of(self.store.catalogue.record_bytes(self.id, Some(snapshot))?)
    }

    /// Returns the layout that a transaction sees. Its commit fails if the schema changes meanwhile.
    pub(crate) fn layout_in(&self, transaction: &waxseal::Transaction) -> Result<Arc<Layout>> {
        self.layout_of(self.store.catalogue.record_in(self.id, transaction)?)
    }

    fn layout_of(&self, record: Option<Vec<u8>>) -> Result<Arc<Layout>> {
        let record = record.ok_or_else(|| Error::of(ErrorKind::NotFound, "the table does not exist"))?;
        let prepared = self.prepared();
        match prepared.record == record {
            true => Ok(prepared.layout.clone()),
            false => Ok(Arc::new(Layout::new(TableRecord::decode(&record)?))),
        }
    }

    fn prepared(&self) -> Arc<Prepared> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
