//! Reads and writes of single rows inside a transaction of the store.
//!
//! A record that is rewritten keeps its expiry, which is read at the transaction's snapshot: a record that expires
//! meanwhile expires all the same. A commit of another expiry in between is a conflict.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use waxseal::meta::{EXPIRY, Expiry};
use waxseal::registry::Operation;
use waxseal::{ColumnFamily, Transaction, TransactionCursor};

use crate::error::{Error, ErrorKind, Result};
use crate::events::{RowOperation, describe_range};
use crate::index::{IndexEntry, row_key_of};
use crate::key::above;
use crate::key_range::KeyBound;
use crate::layout::{ContentChange, EncodedRow, IndexLayout, Layout, RecordChange};
use crate::own_expiries::OwnExpiries;
use crate::row::Row;
use crate::row_reader::{Move, RowReader};
use crate::schema::{DEFAULT_GROUP, GroupId};
use crate::selection::Selection;
use crate::value::Value;
use crate::write::{Expiries, Writes, delete_row, expiring, put_row};

/// The rows of one table in a transaction.
pub(crate) struct RowWriter<'a> {
    pub(crate) transaction: &'a Transaction,
    pub(crate) rows: &'a ColumnFamily,
    pub(crate) indexes: &'a ColumnFamily,
    pub(crate) layout: &'a Arc<Layout>,
    pub(crate) own_expiries: &'a OwnExpiries,
    /// True if operations are registered, and are described.
    pub(crate) is_watched: bool,
    /// The present time, in microseconds since 1970.
    pub(crate) now: u64,
}

impl RowWriter<'_> {
    /// Returns true if the table has a row of a key.
    pub(crate) fn contains(&self, row_key: &[u8]) -> Result<bool> {
        Ok(self.transaction.contains(self.rows, row_key)?)
    }

    /// Returns true if the table has a row of a key, damaged or not.
    fn is_stored(&self, row_key: &[u8]) -> Result<bool> {
        match self.contains(row_key) {
            Err(error) if error.is_corruption() => Ok(true),
            found => found,
        }
    }

    /// Returns a row.
    pub(crate) fn get(&self, row_key: &[u8]) -> Result<Option<Row>> {
        self.read(row_key, self.layout.select_all())
    }

    fn read(&self, row_key: &[u8], selection: Selection) -> Result<Option<Row>> {
        let cursor = self.records_of(row_key);
        cursor.check()?;
        let mut reader = RowReader::new(self.layout.clone(), selection, cursor, false);
        let found = reader.next_row()?;
        reader.take_pending().map_or(Ok(found.map(|(_, row)| row)), Err)
    }

    /// Writes a whole row over whatever is there. Errors: `Exists` for values that a unique index has of another row.
    pub(crate) fn put(&self, row: &EncodedRow, expiries: &Expiries) -> Result<()> {
        if !self.layout.indexes.is_empty() {
            let old = self.replaced_values(&row.key)?;
            let change = IndexChange { row_key: &row.key, old: old.as_deref(), new: Some(&row.values), rewrites: true };
            self.maintain(&change, |group| Ok(expiries.of(group)))?;
        }
        let is_new = self.is_watched && !self.is_stored(&row.key)?;
        put_row(&mut &*self, self.rows, self.layout, row, expiries)?;
        if !self.is_watched {
            return Ok(());
        }
        let (operation, of_column) = match is_new {
            true => (Operation::ROW_INSERT, Operation::COLUMN_INSERT),
            false => (Operation::ROW_UPDATE, Operation::COLUMN_UPDATE),
        };
        let columns = self.layout.columns_of_row(row).into_iter().map(|name| (name, of_column)).collect();
        self.describe(&row.key, operation, columns, expiries.of(DEFAULT_GROUP))
    }

    fn describe(
        &self,
        row_key: &[u8],
        operation: Operation,
        columns: Vec<(String, Operation)>,
        expires: Option<u64>,
    ) -> Result<()> {
        let ttl = expires.map(|at| at.saturating_sub(self.now) / 1_000_000);
        RowOperation { row_key, operation, columns, ttl }.describe(self.layout, self.transaction)
    }

    /// Deletes a row.
    pub(crate) fn delete(&self, row_key: &[u8]) -> Result<()> {
        self.delete_entries(row_key)?;
        delete_row(&mut &*self, self.rows, self.layout, row_key)?;
        match self.is_watched {
            true => self.describe(row_key, Operation::ROW_DELETE, Vec::new(), None),
            false => Ok(()),
        }
    }

    /// Deletes the rows of a range, whose keys begin with these values.
    pub(crate) fn delete_range(&self, prefix: &[Value], bounds: &(KeyBound, KeyBound)) -> Result<()> {
        if !self.layout.indexes.is_empty() {
            let cursor = self.transaction.cursor_in(self.rows, bounds.clone());
            cursor.check()?;
            let mut reader = RowReader::new(self.layout.clone(), self.layout.select_indexed(), cursor, false);
            let mut is_damaged = false;
            loop {
                let (row_key, row) = match reader.next_row() {
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    Err(error) if error.is_corruption() => {
                        is_damaged = true;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let old = self.layout.values_of(row);
                let change = IndexChange { row_key: &row_key, old: Some(&old), new: None, rewrites: false };
                self.maintain(&change, |_| Ok(None))?;
            }
            if is_damaged {
                self.delete_entries_if(|row_key| bounds.contains(&row_key.to_vec()))?;
            }
        }
        self.transaction.delete_range(self.rows, bounds.clone())?;
        if self.is_watched {
            let key = |bound: &KeyBound| match bound {
                Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
                Bound::Unbounded => None,
            };
            describe_range(self.layout, prefix, (key(&bounds.0), key(&bounds.1)), self.transaction);
        }
        Ok(())
    }

    fn delete_entries(&self, row_key: &[u8]) -> Result<()> {
        if self.layout.indexes.is_empty() {
            return Ok(());
        }
        let old = self.replaced_values(row_key)?;
        let change = IndexChange { row_key, old: old.as_deref(), new: None, rewrites: false };
        self.maintain(&change, |_| Ok(None))
    }

    /// Adds the entry of a row with these indexed values to an index that is being built.
    pub(crate) fn add_entry(&self, index: &IndexLayout, row_key: &[u8], values: &[Option<Value>]) -> Result<()> {
        match index.entry(values, row_key)? {
            Some(entry) => self.put_entry(index, &entry, row_key, &|group| self.group_expiry(row_key, group)),
            None => Ok(()),
        }
    }

    /// Returns a cursor over the records of a row.
    fn records_of(&self, row_key: &[u8]) -> TransactionCursor {
        match above(row_key) {
            Some(end) => self.transaction.cursor_in(self.rows, row_key.to_vec()..end),
            None => self.transaction.cursor_in(self.rows, row_key.to_vec()..),
        }
    }

    /// Returns the values of a row's indexed columns, by the index of the column in the schema; `None` without a row.
    pub(crate) fn indexed_values(&self, row_key: &[u8]) -> Result<Option<Vec<Option<Value>>>> {
        Ok(self.read(row_key, self.layout.select_indexed())?.map(|row| self.layout.values_of(row)))
    }

    /// Returns the indexed values of a row that is replaced as a whole. If the row is damaged, its entries are found by
    /// a read of all entries, and deleted.
    fn replaced_values(&self, row_key: &[u8]) -> Result<Option<Vec<Option<Value>>>> {
        match self.indexed_values(row_key) {
            Err(error) if error.is_corruption() => self.delete_entries_if(|found| found == row_key).map(|()| None),
            values => values,
        }
    }

    /// Reads all entries, and deletes those whose row keys fulfill a condition.
    fn delete_entries_if(&self, is_deleted: impl Fn(&[u8]) -> bool) -> Result<()> {
        for index in &self.layout.indexes {
            let mut entries = self.transaction.cursor_in(self.indexes, index.info.prefix()..index.info.end());
            entries.check()?;
            let (mut next, mut deleted) = (Move::Begin, Vec::new());
            while next.make(&mut entries, false)? {
                let row_key = row_key_of(&index.parts, entries.key(), entries.value());
                // An entry that cannot be decoded belongs to no row.
                if row_key.is_ok_and(&is_deleted) {
                    deleted.push(entries.key().to_vec());
                }
            }
            deleted.iter().try_for_each(|key| self.transaction.delete(self.indexes, key))?;
        }
        Ok(())
    }

    /// Replaces the entries of a row.
    fn maintain(&self, change: &IndexChange<'_>, expiry: impl Fn(GroupId) -> Result<Option<u64>>) -> Result<()> {
        for index in &self.layout.indexes {
            let entry = |values: Option<&[Option<Value>]>| {
                values.map_or(Ok(None), |values| index.entry(values, change.row_key))
            };
            let (old, new) = (entry(change.old)?, entry(change.new)?);
            let is_same = old == new;
            if let Some(old) = old.filter(|_| !is_same) {
                self.delete_entry(&old)?;
            }
            if let Some(new) = new.filter(|_| !is_same || change.rewrites) {
                self.put_entry(index, &new, change.row_key, &expiry)?;
            }
        }
        Ok(())
    }

    /// Deletes an entry, unless another row has it: a unique index that is being built may have met equal rows.
    fn delete_entry(&self, entry: &IndexEntry) -> Result<()> {
        let is_own = entry.value.is_empty()
            || self.transaction.get(self.indexes, &entry.key)?.is_some_and(|found| *found == *entry.value);
        if is_own {
            self.transaction.delete(self.indexes, &entry.key)?;
        }
        Ok(())
    }

    fn put_entry(
        &self,
        index: &IndexLayout,
        entry: &IndexEntry,
        row_key: &[u8],
        expiry: &dyn Fn(GroupId) -> Result<Option<u64>>,
    ) -> Result<()> {
        if !entry.value.is_empty()
            && let Some(found) = self.transaction.get(self.indexes, &entry.key)?
            && *found != *row_key
        {
            let (found, own) = (self.layout.shown(&found), self.layout.shown(row_key));
            let name = &index.info.name;
            let what = format!("the unique index {name:?} has the values of row {own} for row {found}");
            return Err(Error::of(ErrorKind::Exists, what));
        }
        let mut expires = expiry(DEFAULT_GROUP)?;
        for column in &index.columns {
            expires = earlier(expires, expiry(self.layout.column(*column).group)?);
        }
        Ok(self.transaction.put_with(self.indexes, &entry.key, &entry.value, expiring(expires))?)
    }

    /// Returns the expiry of a row's group. A row without a record of the group has no expiry of it.
    fn group_expiry(&self, row_key: &[u8], group: GroupId) -> Result<Option<u64>> {
        let key = self.layout.group_key(row_key, group);
        if self.transaction.contains(self.rows, &key)? { self.expiry(&key) } else { Ok(None) }
    }

    /// Changes columns of a row. Returns false, and changes nothing, if the table has no row of the key. `expiries` are
    /// those of the records that are written; without one, a record keeps its own, and a new record has that of the
    /// row.
    pub(crate) fn update(&self, row_key: &[u8], changes: &[RecordChange], expiries: &Expiries) -> Result<bool> {
        if !self.contains(row_key)? {
            return Ok(false);
        }
        if !self.layout.indexes.is_empty() {
            self.maintain_updated(row_key, changes, expiries)?;
        }
        for change in changes {
            let key = [row_key, &change.suffix].concat();
            let old = match &change.content {
                ContentChange::Replace(_) => None,
                _ => self.transaction.get(self.rows, &key)?,
            };
            let new = match &change.content {
                ContentChange::Columns(columns) | ContentChange::Replace(columns) => {
                    self.layout.apply(old.as_deref(), columns)?
                }
                ContentChange::Single(value) => Some(crate::packed::pack_single(value)),
                ContentChange::Remove => None,
            };
            let new = match new {
                None if change.group == DEFAULT_GROUP => Some(crate::packed::Packer::new().finish()),
                new => new,
            };
            match new {
                Some(new) => {
                    let expires = match (expiries.of(change.group), &old) {
                        (Some(expires), _) => Some(expires),
                        (None, Some(_)) => self.expiry(&key)?,
                        (None, None) => self.expiry(row_key)?,
                    };
                    (&mut &*self).put(self.rows, &key, &new, expires)?;
                }
                None => (&mut &*self).delete(self.rows, &key)?,
            }
        }
        if self.is_watched {
            let columns = changes.iter().flat_map(|change| self.layout.changed_columns(change));
            let operation_of =
                |is_removed| if is_removed { Operation::COLUMN_DELETE } else { Operation::COLUMN_UPDATE };
            let columns = columns.map(|(name, is_removed)| (name, operation_of(is_removed))).collect();
            self.describe(row_key, Operation::ROW_UPDATE, columns, expiries.of(DEFAULT_GROUP))?;
        }
        Ok(true)
    }

    /// Replaces the entries of a row whose columns change.
    fn maintain_updated(&self, row_key: &[u8], changes: &[RecordChange], expiries: &Expiries) -> Result<()> {
        let Some(old) = self.indexed_values(row_key)? else { return Ok(()) };
        let mut new = old.clone();
        for change in changes {
            if let ContentChange::Columns(columns) = &change.content
                && change.is_of_row()
            {
                let value = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
                columns.iter().for_each(|(column, changed)| new[*column] = value(changed));
            }
        }
        let is_changed = |group| changes.iter().any(|change| change.group == group && change.is_of_row());
        let rewrites = changes.iter().any(|change| expiries.of(change.group).is_some());
        let change = IndexChange { row_key, old: Some(&old), new: Some(&new), rewrites };
        self.maintain(&change, |group| match expiries.of(group).filter(|_| is_changed(group)) {
            Some(expires) => Ok(Some(expires)),
            None => self.group_expiry(row_key, group),
        })
    }

    /// Returns the expiry of a record that the transaction sees.
    fn expiry(&self, key: &[u8]) -> Result<Option<u64>> {
        if let Some(own) = self.own_expiries.get(self.layout.record.id, key) {
            return Ok(own);
        }
        let Some(meta) = self.transaction.get_meta(self.rows, key, EXPIRY)? else { return Ok(None) };
        let micros = Expiry::read(&meta.bytes);
        micros.map(Some).ok_or_else(|| Error::corruption("a record with an expiry that is none"))
    }
}

/// A change of a row's entries.
struct IndexChange<'a> {
    row_key: &'a [u8],
    old: Option<&'a [Option<Value>]>,
    new: Option<&'a [Option<Value>]>,
    /// True if an entry that stays may get another expiry.
    rewrites: bool,
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Writes to the transaction, and remembers the expiry.
impl Writes for &RowWriter<'_> {
    fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        self.transaction.put_with(family, key, value, expiring(expires))?;
        self.own_expiries.insert(self.layout.record.id, key, expires);
        Ok(())
    }

    fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        Ok(self.transaction.delete(family, key)?)
    }

    fn delete_range(&mut self, family: &ColumnFamily, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        match end {
            Some(end) => self.transaction.delete_range(family, start..end)?,
            None => self.transaction.delete_range(family, start..)?,
        }
        Ok(())
    }
}
