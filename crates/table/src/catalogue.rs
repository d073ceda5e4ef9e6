//! The catalogue: which tables a store has, and their schemas. docs/format-tables.md, section 6.
//!
//! The first byte of a key says what the record is: `n` the id of a table's name, `t` the schema of a table, `h` an
//! earlier or the present version of a schema, `p` a purged column, `e` the purge of its events, `k` a keyspace, `c` the
//! counter of table ids.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use waxseal::{Batch, CfOptions, ColumnFamily, Db, Seqno, Snapshot, Transaction};

use crate::codec::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspace::Keyspace;
use crate::packed::ColumnId;
use crate::purged_column::PurgedColumn;
use crate::purged_events::PurgedEvents;
use crate::schema::{Column, ColumnState, TableName};
use crate::schema_record::{TableId, TableRecord};

/// The family of the catalogue.
pub(crate) const CATALOGUE_FAMILY: &str = "waxseal_tables";

const COUNTER_KEY: &[u8] = b"c";
const NAME: u8 = b'n';
const TABLE: u8 = b't';
const HISTORY: u8 = b'h';
const PURGED: u8 = b'p';
const PURGED_EVENTS: u8 = b'e';
const KEYSPACE: u8 = b'k';

/// The purged columns of a table, by their ids.
pub(crate) struct PurgedColumns {
    /// Purged from the files of this store.
    pub(crate) here: Vec<PurgedColumn>,
    /// Purged from other stores alone. A copy brought the records, and the files of this store may have values.
    pub(crate) elsewhere: Vec<PurgedColumn>,
}

/// Reads and writes the catalogue's records.
pub(crate) struct Catalogue {
    db: Db,
    /// Empty in a read-only store until its writer has created the family.
    found: OnceLock<ColumnFamily>,
}

impl Catalogue {
    /// Opens the catalogue, or creates it. A read-only store without a catalogue has no tables.
    pub(crate) fn open(db: &Db) -> Result<Catalogue> {
        let catalogue = Catalogue { db: db.clone(), found: OnceLock::new() };
        if catalogue.family().is_none() && !db.is_read_only() {
            db.create_column_family(CATALOGUE_FAMILY, CfOptions::default())?;
        }
        Ok(catalogue)
    }

    /// Returns true if a store has a catalogue.
    pub(crate) fn exists(db: &Db) -> bool {
        family_of(db).is_some()
    }

    fn family(&self) -> Option<&ColumnFamily> {
        if let Some(family) = self.found.get() {
            return Some(family);
        }
        let found = family_of(&self.db)?;
        Some(self.found.get_or_init(|| found))
    }

    /// Returns the bytes of a table's record, now or at a snapshot; `None` for a table that does not exist.
    pub(crate) fn record_bytes(&self, id: TableId, at: Option<&Snapshot>) -> Result<Option<Vec<u8>>> {
        self.read(&table_key(id), at)
    }

    /// Returns the bytes of a table's record as a transaction sees it, and makes a change of it a conflict.
    pub(crate) fn record_in(&self, id: TableId, transaction: &Transaction) -> Result<Option<Vec<u8>>> {
        Ok(transaction.get_with(self.writable()?, table_key(id), <[u8]>::to_vec)?)
    }

    /// Returns the id of the table of a name.
    pub(crate) fn find(&self, name: &TableName) -> Result<Option<TableId>> {
        self.find_at(name, None)
    }

    /// Returns the id of the table that has a name, now or at a snapshot.
    pub(crate) fn find_at(&self, name: &TableName, at: Option<&Snapshot>) -> Result<Option<TableId>> {
        let Some(id) = self.read(&name_key(name), at)? else { return Ok(None) };
        let mut reader = Reader::new(&id);
        let id = reader.varint_u32()?;
        reader.end()?;
        Ok(Some(id))
    }

    /// Returns the record of the table that has a name at a snapshot.
    pub(crate) fn table_at(&self, name: &TableName, at: &Snapshot) -> Result<Option<TableRecord>> {
        let Some(id) = self.find_at(name, Some(at))? else { return Ok(None) };
        match self.record_bytes(id, Some(at))? {
            Some(record) => TableRecord::decode(&record).map(Some),
            None => Err(Error::corruption("the table has a name but no schema")),
        }
    }

    /// Returns true if a keyspace was created or has a table.
    pub(crate) fn has_keyspace(&self, keyspace: &str) -> Result<bool> {
        Ok(self.was_created(keyspace)? || self.has_tables(keyspace)?)
    }

    /// Returns true if a keyspace has a record, so that it exists without tables.
    pub(crate) fn was_created(&self, keyspace: &str) -> Result<bool> {
        Ok(self.read(&keyspace_key(keyspace), None)?.is_some())
    }

    fn has_tables(&self, keyspace: &str) -> Result<bool> {
        let prefix = names_prefix(keyspace);
        let first = self.family().into_iter().flat_map(|family| family.prefix(&prefix)).next();
        Ok(first.transpose()?.is_some())
    }

    /// Returns the names of the tables of a keyspace.
    pub(crate) fn names_in(&self, keyspace: &str) -> Result<Vec<TableName>> {
        let prefix = names_prefix(keyspace);
        let rows = self.family().into_iter().flat_map(|family| family.prefix(&prefix));
        rows.map(|row| name_of(&row?.0)).collect()
    }

    /// Returns a keyspace that was created or has a table.
    pub(crate) fn keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        match self.read(&keyspace_key(name), None)? {
            Some(record) => Keyspace::decode(name, &record).map(Some),
            None => Ok(self.has_tables(name)?.then(|| Keyspace::new(name))),
        }
    }

    /// Returns the keyspaces that were created or have tables, in the order of their names.
    pub(crate) fn keyspaces(&self) -> Result<Vec<Keyspace>> {
        let Some(family) = self.family() else { return Ok(Vec::new()) };
        let snapshot = self.db.snapshot();
        let mut found = BTreeMap::new();
        for row in snapshot.prefix(family, [NAME]) {
            let name = name_of(&row?.0)?.keyspace;
            found.insert(name.clone(), Keyspace::new(&name));
        }
        for row in snapshot.prefix(family, [KEYSPACE]) {
            let (key, record) = row?;
            let name = text_of(key.get(1..).unwrap_or_default())?;
            found.insert(name.to_owned(), Keyspace::decode(name, &record)?);
        }
        Ok(found.into_values().collect())
    }

    /// Adds the record of a keyspace to a batch.
    pub(crate) fn put_keyspace(&self, batch: &mut Batch, keyspace: &Keyspace) -> Result<()> {
        batch.put(self.writable()?, keyspace_key(keyspace.name()), keyspace.encode());
        Ok(())
    }

    /// Adds the removal of a keyspace to a batch.
    pub(crate) fn remove_keyspace(&self, batch: &mut Batch, name: &str) -> Result<()> {
        batch.delete(self.writable()?, keyspace_key(name));
        Ok(())
    }

    /// Returns all tables, now or at a snapshot, in the order of their names.
    pub(crate) fn tables(&self, at: Option<&Snapshot>) -> Result<Vec<TableRecord>> {
        let mut tables = Vec::new();
        let records = |family: &ColumnFamily| match at {
            Some(snapshot) => snapshot.prefix(family, [TABLE]),
            None => family.prefix([TABLE]),
        };
        for row in self.family().into_iter().flat_map(records) {
            tables.push(TableRecord::decode(&row?.1)?);
        }
        tables.sort_by(|one: &TableRecord, other: &TableRecord| one.name.cmp(&other.name));
        Ok(tables)
    }

    /// Takes an id that no table ever had.
    pub(crate) fn next_id(&self) -> Result<TableId> {
        let next = self.writable()?.fetch_add(COUNTER_KEY, 1)? + 1;
        TableId::try_from(next).map_err(|_| Error::invalid("the store has had too many tables"))
    }

    /// Returns the greatest id that a table ever had; 0 before the first one.
    pub(crate) fn last_id(&self) -> Result<TableId> {
        let Some(counter) = self.read(COUNTER_KEY, None)? else { return Ok(0) };
        let counter = Reader::new(&counter).array().map(i64::from_le_bytes)?;
        TableId::try_from(counter).map_err(|_| Error::corruption("the counter of tables is out of range"))
    }

    /// Adds a new version of a table to a batch.
    pub(crate) fn put(&self, batch: &mut Batch, table: &TableRecord) -> Result<()> {
        let family = self.writable()?;
        let record = table.encode();
        let mut id = Vec::new();
        crate::codec::put_varint(&mut id, u64::from(table.id));
        batch.put(family, name_key(&table.name), id);
        batch.put(family, history_key(table.id, table.schema.version), &record);
        batch.put(family, table_key(table.id), record);
        Ok(())
    }

    /// Adds the present record of a table to a batch, so that transactions that have read it conflict.
    pub(crate) fn touch(&self, batch: &mut Batch, table: &TableRecord) -> Result<()> {
        batch.put(self.writable()?, table_key(table.id), table.encode());
        Ok(())
    }

    /// Adds the removal of a table's name to a batch.
    pub(crate) fn remove_name(&self, batch: &mut Batch, name: &TableName) -> Result<()> {
        batch.delete(self.writable()?, name_key(name));
        Ok(())
    }

    /// Adds the removal of a table to a batch. The versions of its schema stay.
    pub(crate) fn remove(&self, batch: &mut Batch, table: &TableRecord) -> Result<()> {
        self.remove_name(batch, &table.name)?;
        batch.delete(self.writable()?, table_key(table.id));
        Ok(())
    }

    /// Returns the versions of a table's schema, oldest first.
    pub(crate) fn history(&self, id: TableId) -> Result<Vec<TableRecord>> {
        let mut prefix = vec![HISTORY];
        put_id(&mut prefix, id);
        let rows = self.family().into_iter().flat_map(|family| family.prefix(&prefix));
        rows.map(|row| TableRecord::decode(&row?.1)).collect()
    }

    /// Returns the seqno of the commit since which readers have not seen a column: the first version of the schema that
    /// purges it. `None` in a plain store, which does not know it.
    pub(crate) fn purging_since(&self, id: TableId, column: ColumnId) -> Result<Option<Seqno>> {
        let is_purging = |own: &Column| own.state == ColumnState::Purging && own.id == column;
        let purges = |version: &TableRecord| version.schema.columns.iter().any(is_purging);
        let Some(first) = self.history(id)?.into_iter().find(purges) else { return Ok(None) };
        match self.writable()?.get_sealed(history_key(id, first.schema.version)) {
            Err(error) if *error.kind() == waxseal::ErrorKind::Invalid => Ok(None), // records without seals
            found => Ok(found?.map(|record| record.seqno)),
        }
    }

    /// Adds the record of a column that was purged from the files of this store to a batch.
    pub(crate) fn put_purged(&self, batch: &mut Batch, table: TableId, column: &PurgedColumn) -> Result<()> {
        batch.put(self.writable()?, self.own_key(PURGED, table, column.id), column.encode());
        Ok(())
    }

    /// Returns the purged columns of a table.
    pub(crate) fn purged(&self, table: TableId) -> Result<PurgedColumns> {
        let mut prefix = vec![PURGED];
        put_id(&mut prefix, table);
        let (mut here, mut elsewhere) = (BTreeMap::new(), BTreeMap::new());
        for row in self.family().into_iter().flat_map(|family| family.prefix(&prefix)) {
            let (key, record) = row?;
            let mut reader = Reader::new(key.get(prefix.len()..).unwrap_or_default());
            let id = ColumnId::from_le_bytes(reader.array()?).swap_bytes();
            let is_own = *key == self.own_key(PURGED, table, id);
            let purged = if is_own { &mut here } else { &mut elsewhere };
            purged.insert(id, PurgedColumn::decode(id, &record)?);
        }
        elsewhere.retain(|id, _| !here.contains_key(id));
        Ok(PurgedColumns { here: here.into_values().collect(), elsewhere: elsewhere.into_values().collect() })
    }

    /// Adds the record of a purge of a column's events from the log of this store to a batch.
    pub(crate) fn put_purged_events(
        &self,
        batch: &mut Batch,
        table: TableId,
        column: ColumnId,
        events: &PurgedEvents,
    ) -> Result<()> {
        batch.put(self.writable()?, self.own_key(PURGED_EVENTS, table, column), events.encode());
        Ok(())
    }

    /// Returns the purge of a column's events from the log of this store.
    pub(crate) fn purged_events(&self, table: TableId, column: ColumnId) -> Result<Option<PurgedEvents>> {
        let record = self.read(&self.own_key(PURGED_EVENTS, table, column), None)?;
        record.map(|record| PurgedEvents::decode(&record)).transpose()
    }

    /// Returns the key of a record about a column in the files of this store. The record may come into another store, by
    /// a change feed for instance, whose files have other values.
    fn own_key(&self, kind: u8, table: TableId, column: ColumnId) -> Vec<u8> {
        let mut key = vec![kind];
        put_id(&mut key, table);
        put_id(&mut key, column);
        key.extend_from_slice(&self.db.uid().0);
        key
    }

    fn read(&self, key: &[u8], at: Option<&Snapshot>) -> Result<Option<Vec<u8>>> {
        let Some(family) = self.family() else { return Ok(None) };
        let found = match at {
            Some(snapshot) => snapshot.get_with(family, key, <[u8]>::to_vec),
            None => family.get_with(key, <[u8]>::to_vec),
        };
        Ok(found?)
    }

    fn writable(&self) -> Result<&ColumnFamily> {
        let read_only = || Error::of(ErrorKind::ReadOnly, "the store is open for reading only");
        self.family().ok_or_else(read_only)
    }
}

fn family_of(db: &Db) -> Option<ColumnFamily> {
    db.column_families().into_iter().find(|family| family.name() == CATALOGUE_FAMILY)
}

/// Returns the name of the family of a table's rows.
pub(crate) fn rows_family(id: TableId) -> String {
    format!("{CATALOGUE_FAMILY}-{id}-rows")
}

/// Returns the name of the family of a table's indexes.
pub(crate) fn indexes_family(id: TableId) -> String {
    format!("{CATALOGUE_FAMILY}-{id}-indexes")
}

/// Returns the id of the table that a family is of.
pub(crate) fn table_of_family(name: &str) -> Option<TableId> {
    let id = name.strip_prefix(CATALOGUE_FAMILY)?.strip_prefix('-')?;
    let id = id.strip_suffix("-rows").or_else(|| id.strip_suffix("-indexes"))?.parse().ok()?;
    [rows_family(id), indexes_family(id)].contains(&name.to_owned()).then_some(id)
}

fn name_key(name: &TableName) -> Vec<u8> {
    [&names_prefix(&name.keyspace)[..], name.table.as_bytes()].concat()
}

/// Returns the beginning of the keys of the names in a keyspace.
fn names_prefix(keyspace: &str) -> Vec<u8> {
    [&[NAME], keyspace.as_bytes(), b"\0"].concat()
}

/// Returns the name in the key of a name.
fn name_of(key: &[u8]) -> Result<TableName> {
    let text = text_of(key.get(1..).unwrap_or_default())?;
    let (keyspace, table) = text.split_once('\0').ok_or_else(|| Error::corruption("the name of a table is none"))?;
    Ok(TableName { keyspace: keyspace.to_owned(), table: table.to_owned() })
}

fn text_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::corruption("the catalogue has a name that is not UTF-8"))
}

fn keyspace_key(name: &str) -> Vec<u8> {
    [&[KEYSPACE], name.as_bytes()].concat()
}

fn table_key(id: TableId) -> Vec<u8> {
    let mut key = vec![TABLE];
    put_id(&mut key, id);
    key
}

fn history_key(id: TableId, version: u64) -> Vec<u8> {
    let mut key = vec![HISTORY];
    put_id(&mut key, id);
    key.extend_from_slice(&version.swap_bytes().to_le_bytes());
    key
}

/// Appends an id in four bytes, most significant first.
fn put_id(key: &mut Vec<u8>, id: u32) {
    key.extend_from_slice(&id.swap_bytes().to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_these_bytes() {
        assert_eq!(name_key(&TableName::parse("lib.books").unwrap()), b"nlib\0books");
        assert_eq!(table_key(258), b"t\0\0\x01\x02");
        assert_eq!(history_key(1, 2), b"h\0\0\0\x01\0\0\0\0\0\0\0\x02");
    }

    #[test]
    fn families_of_tables_are_told_from_others() {
        assert_eq!(table_of_family(&rows_family(12)), Some(12));
        assert_eq!(table_of_family(&indexes_family(12)), Some(12));
        for other in [CATALOGUE_FAMILY, "waxseal_tables-012-rows", "waxseal_tables-1", "waxseal_tables-1-other", "rows"]
        {
            assert_eq!(table_of_family(other), None, "{other}");
        }
    }
}
