//! A table: writes and reads of single rows.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use waxseal::registry::Operation;
use waxseal::{ColumnFamily, Db, Durability, Session, Snapshot, WriteOptions};

use crate::alteration::Alteration;
use crate::changes::Changes;
use crate::error::{Error, ErrorKind, Result};
use crate::events::describe_table;
use crate::filter::Filter;
use crate::index_reader::read_row;
use crate::key_range::{KeyRange, Keys, is_empty, key_bounds};
use crate::key_values::{IntoKey, IntoKeyRange};
use crate::layout::{EncodedRow, Layout};
use crate::own_expiries::OwnExpiries;
use crate::row::Row;
use crate::row_writer::RowWriter;
use crate::schema::Schema;
use crate::state::TableState;
use crate::value::Value;
use crate::write::{Expiries, RowOptions, delete_row, expiring, put_row};

/// A table. Clones share it and may be used from any thread.
///
/// Every write is one commit: readers, snapshots and crashes see all of it or nothing. A write has the durability of
/// the store, or that of its [`RowOptions`].
#[derive(Clone)]
pub struct Table {
    pub(crate) state: Arc<TableState>,
    pub(crate) session: Session,
    /// The rows, in the name of the session.
    pub(crate) rows: ColumnFamily,
}

impl Table {
    pub(crate) fn new(state: Arc<TableState>, session: &Session) -> Result<Table> {
        Ok(Table { rows: state.rows.in_session(session)?, session: session.clone(), state })
    }

    /// Returns the store that the table is in.
    pub fn db(&self) -> &Db {
        &self.state.store.db
    }

    /// Returns the name, `keyspace.table`.
    pub fn name(&self) -> String {
        self.state.layout().map_or_else(|_| "-".to_owned(), |layout| layout.record.name.to_string())
    }

    /// Returns the present schema. Errors: `NotFound` if the table was dropped and the store is open for reading only.
    pub fn schema(&self) -> Result<Schema> {
        Ok(self.state.layout()?.record.schema.clone())
    }

    /// Returns the schema at a snapshot of the store. Errors: `NotFound` if the table did not exist.
    pub fn schema_at(&self, snapshot: &Snapshot) -> Result<Schema> {
        self.state.layout_at(snapshot).map(|layout| layout.record.schema.clone()).map_err(|error| self.named(error))
    }

    /// Fails with `NotFound` if the table was dropped.
    pub fn check(&self) -> Result<()> {
        self.state.check_exists().map_err(|error| self.named(error))
    }

    /// Returns the version of the present schema. Errors: as for [`schema`](Table::schema).
    pub fn schema_version(&self) -> Result<u64> {
        Ok(self.state.layout()?.record.schema.version)
    }

    /// Returns all versions of the schema, oldest first.
    pub fn schema_history(&self) -> Result<Vec<Schema>> {
        let versions = self.state.store.catalogue.history(self.state.id)?;
        Ok(versions.into_iter().map(|version| version.schema).collect())
    }

    /// Changes the schema. Reads and writes go on: each call uses the old schema or the new one. The change is
    /// durable when the call returns. Rows are not rewritten.
    ///
    /// A column of the schema and a dynamic one cannot have the same name. So in a table with dynamic columns, a change
    /// that adds a column or renames one reads all rows first. Meanwhile a write of a dynamic column of the new name fails
    /// with `InUse`. Other writes go on.
    ///
    /// Errors: `NotFound` and `Exists` for columns, and `Exists` if a row has a dynamic column of a new name; `Invalid` for
    /// a change that is not possible. Nothing changes then.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{Alteration, ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("year", ColumnType::I32);
    /// let books = tables.create("library.books", schema)?;
    /// books.insert(Row::new().with("isbn", "0141439580").with("year", 1815))?;
    /// books.alter(Alteration::new().add_column("title", ColumnType::Text).widen_column("year", ColumnType::I64))?;
    /// assert_eq!(books.get("0141439580")?.unwrap().get("year"), Some(&1815i64.into()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn alter(&self, change: Alteration) -> Result<()> {
        self.try_alter(&change).map_err(|error| self.named(error))
    }

    /// Drops a column for a while: no read returns it any more, also not of rows that are written meanwhile, and
    /// [`undelete_column`](Table::undelete_column) restores it with its values. A second drop, or the end of the time,
    /// makes the drop final. Errors: `NotFound`; `Invalid` for a column of the key.
    pub fn drop_column_for(&self, name: &str, time: Duration) -> Result<()> {
        let now = self.state.store.db.env().clock.wall_micros();
        let deadline = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).saturating_add(now);
        self.alter(Alteration::new().drop_column(name, i64::try_from(deadline).unwrap_or(i64::MAX)))
    }

    /// [`drop_column_for`](Table::drop_column_for) seven days.
    pub fn drop_column(&self, name: &str) -> Result<()> {
        self.drop_column_for(name, Duration::from_secs(7 * 24 * 3600))
    }

    /// Restores a column that was dropped, with its values. Errors: `NotFound`; `Invalid` for a column that was not
    /// dropped, and after a second drop or the end of the time.
    pub fn undelete_column(&self, name: &str) -> Result<()> {
        self.alter(Alteration::new().undelete_column(name))
    }

    /// Adds a row. Errors: `Exists` if the table has a row of the key; `Invalid` if a column of the key is missing, and
    /// for a value that does not fit; `NotFound` for an unknown column.
    pub fn insert(&self, row: impl Into<Row>) -> Result<()> {
        self.insert_with(row, RowOptions::new())
    }

    /// [`insert`](Table::insert) with options.
    pub fn insert_with(&self, row: impl Into<Row>, options: RowOptions) -> Result<()> {
        self.try_insert(&row.into(), &options).map_err(|error| self.named(error))
    }

    fn try_insert(&self, row: &Row, options: &RowOptions) -> Result<()> {
        let schema = self.state.for_write()?;
        let layout = &schema.layout;
        let (encoded, expiries) = self.encode(layout, row, options)?;
        let blind = match (layout.is_blind(), encoded.records.first()) {
            (true, Some(record)) => {
                let options = self.write_options(expiring(expiries.of(record.group)), options);
                self.unless_watched(|| self.rows.put_if_absent_with(&record.key, &record.value, options))?
            }
            _ => None,
        };
        let is_new = match blind {
            Some(is_new) => is_new,
            None => self.transact(layout, options, |writer| {
                let is_new = !writer.contains(&encoded.key)?;
                if is_new {
                    writer.put(&encoded, &expiries)?;
                }
                Ok(is_new)
            })?,
        };
        match is_new {
            true => Ok(()),
            false => Err(self.exists(layout, &encoded.key)),
        }
    }

    /// Writes a whole row, whether or not the table has a row of the key. Columns that the row does not have are null
    /// afterwards. Errors: those of [`insert`](Table::insert) except `Exists`.
    pub fn upsert(&self, row: impl Into<Row>) -> Result<()> {
        self.upsert_with(row, RowOptions::new())
    }

    /// [`upsert`](Table::upsert) with options.
    pub fn upsert_with(&self, row: impl Into<Row>, options: RowOptions) -> Result<()> {
        self.try_upsert(&row.into(), &options).map_err(|error| self.named(error))
    }

    fn try_upsert(&self, row: &Row, options: &RowOptions) -> Result<()> {
        let schema = self.state.for_write()?;
        let layout = &schema.layout;
        let (encoded, expiries) = self.encode(layout, row, options)?;
        let blind = match (layout.is_blind(), encoded.records.first()) {
            (true, Some(record)) => {
                let options = self.write_options(expiring(expiries.of(record.group)), options);
                self.unless_watched(|| self.rows.put_with(&record.key, &record.value, options))?
            }
            _ if layout.indexes.is_empty() => {
                self.write(options, |batch| put_row(batch, &self.rows, layout, &encoded, &expiries))?
            }
            _ => None,
        };
        match blind {
            Some(()) => Ok(()),
            None => self.transact(layout, options, |writer| writer.put(&encoded, &expiries)),
        }
    }

    /// Deletes a row. A key without a row is not an error. Errors: `Invalid` for an incomplete key.
    pub fn delete(&self, key: impl IntoKey) -> Result<()> {
        self.delete_with(key, RowOptions::new())
    }

    /// [`delete`](Table::delete) with options, of which only the durability applies.
    pub fn delete_with(&self, key: impl IntoKey, options: RowOptions) -> Result<()> {
        let delete = || {
            let schema = self.state.for_write()?;
            let layout = &schema.layout;
            let row_key = layout.row_key(&key.into_key())?;
            let blind = match layout.indexes.is_empty() {
                true => self.write(&options, |batch| delete_row(batch, &self.rows, layout, &row_key))?,
                false => None,
            };
            match blind {
                Some(()) => Ok(()),
                None => self.transact(layout, &options, |writer| writer.delete(&row_key)),
            }
        };
        delete().map_err(|error| self.named(error))
    }

    /// Changes columns of a row, and returns true. Other columns stay, and so does the expiry of the records that are
    /// written. Returns false, and changes nothing, if the table has no row of the key.
    ///
    /// Costs a read of the changed groups. Another commit to them in between makes the call read again.
    ///
    /// Errors: `Invalid` for a column of the key and for a value that does not fit; `NotFound` for an unknown column.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{Changes, ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new()
    ///     .partition_key("isbn", ColumnType::Text)
    ///     .column("title", ColumnType::Text)
    ///     .column("year", ColumnType::I32);
    /// let books = tables.create("library.books", schema)?;
    /// books.insert(Row::new().with("isbn", "0141439580").with("title", "Emma").with("year", 1815))?;
    /// assert!(books.update("0141439580", Changes::new().set("title", "Emma: A Novel").remove("year"))?);
    /// let expected = Row::new().with("isbn", "0141439580").with("title", "Emma: A Novel");
    /// assert_eq!(books.get("0141439580")?, Some(expected));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, key: impl IntoKey, changes: Changes) -> Result<bool> {
        self.update_with(key, changes, RowOptions::new())
    }

    /// [`update`](Table::update) with options. An expiry applies to the records of the groups that are changed.
    pub fn update_with(&self, key: impl IntoKey, changes: Changes, options: RowOptions) -> Result<bool> {
        self.try_update(&key.into_key(), None, &changes, &options).map_err(|error| self.named(error))
    }

    /// Changes columns of a row if the row matches a condition: see [`update`](Table::update). Returns false, and
    /// changes nothing, if it does not match or if the table has no row of the key. Costs a read of the whole row.
    pub fn update_if(&self, key: impl IntoKey, condition: Filter, changes: Changes) -> Result<bool> {
        let (key, options) = (key.into_key(), RowOptions::new());
        self.try_update(&key, Some(condition), &changes, &options).map_err(|error| self.named(error))
    }

    fn try_update(
        &self,
        key: &[Value],
        condition: Option<Filter>,
        changes: &Changes,
        options: &RowOptions,
    ) -> Result<bool> {
        let schema = self.state.for_write()?;
        let layout = &schema.layout;
        let (row_key, changes) = (layout.row_key(key)?, layout.changes(changes)?);
        let (expiries, condition) = (self.expiries(layout, options)?, layout.checked(condition)?);
        self.transact(layout, options, |writer| {
            if let Some(condition) = &condition
                && !writer.get(&row_key)?.is_some_and(|row| condition.matches(&row))
            {
                return Ok(false);
            }
            writer.update(&row_key, &changes, &expiries)
        })
    }

    /// Replaces the row of a key if it is `old`: with `new`, or with no row. `None` for `old` expects no row. Returns
    /// false, and changes nothing, if the table has another row.
    ///
    /// Errors: `Invalid` if `new` has another key, and as for [`upsert`](Table::upsert).
    pub fn compare_and_set(&self, key: impl IntoKey, old: Option<&Row>, new: Option<&Row>) -> Result<bool> {
        self.try_compare_and_set(&key.into_key(), old, new).map_err(|error| self.named(error))
    }

    fn try_compare_and_set(&self, key: &[Value], old: Option<&Row>, new: Option<&Row>) -> Result<bool> {
        let (schema, options) = (self.state.for_write()?, RowOptions::new());
        let layout = &schema.layout;
        let row_key = layout.row_key(key)?;
        let new = new.map(|row| self.encode(layout, row, &options)).transpose()?;
        if new.as_ref().is_some_and(|(encoded, _)| encoded.key != row_key) {
            return Err(Error::invalid("the new row has another key"));
        }
        self.transact(layout, &options, |writer| {
            let found = writer.get(&row_key)?;
            if !layout.are_equal(found.as_ref(), old) {
                return Ok(false);
            }
            match &new {
                Some((encoded, expiries)) => writer.put(encoded, expiries)?,
                None => writer.delete(&row_key)?,
            }
            Ok(true)
        })
    }

    /// Deletes all rows of a partition, in one step whatever their number. Errors: `Invalid` unless `key` is the whole
    /// partition key.
    pub fn delete_partition(&self, key: impl IntoKey) -> Result<()> {
        let delete = |key: Vec<Value>| {
            let schema = self.state.for_write()?;
            if key.len() != schema.layout.partition_parts {
                let (found, wanted) = (key.len(), schema.layout.partition_parts);
                return Err(Error::invalid(format!("the partition key has {wanted} columns, not {found}")));
            }
            self.delete_keys(&schema.layout, &key, &(Bound::Unbounded, Bound::Unbounded))
        };
        delete(key.into_key()).map_err(|error| self.named(error))
    }

    /// Deletes the rows whose key begins with `prefix` and whose next columns are in a range: see
    /// [`Select::range`](crate::Select::range). The range is one record of the log, whatever it holds. In a table with
    /// indexes its rows are read, and kept in memory until the commit.
    ///
    /// Errors: `Invalid` for a prefix without the whole partition key in a table with hashed partitions.
    pub fn delete_range(&self, prefix: impl IntoKey, range: impl IntoKeyRange) -> Result<()> {
        let delete = |prefix: Vec<Value>| {
            let schema = self.state.for_write()?;
            if schema.layout.is_hashed() && prefix.len() < schema.layout.partition_parts {
                return Err(Error::invalid("partitions are hashed: give the whole partition key"));
            }
            self.delete_keys(&schema.layout, &prefix, &range.into_key_range())
        };
        delete(prefix.into_key()).map_err(|error| self.named(error))
    }

    fn delete_keys(&self, layout: &Arc<Layout>, prefix: &[Value], range: &KeyRange) -> Result<()> {
        let bounds = key_bounds(Keys::Rows(layout), prefix, range)?;
        if is_empty(&bounds) {
            return Ok(());
        }
        let options = RowOptions::new();
        let delete = |batch: &mut waxseal::Batch| {
            batch.delete_range(&self.rows, bounds.clone());
            Ok(())
        };
        if layout.indexes.is_empty() && self.write(&options, delete)?.is_some() {
            return Ok(());
        }
        self.transact(layout, &options, |writer| writer.delete_range(prefix, &bounds))
    }

    /// Deletes all rows, with the indexes, in one step. Errors: `ReadOnly`.
    pub fn truncate(&self) -> Result<()> {
        let truncate = || {
            let schema = self.state.for_write()?;
            let mut batch = self.session.batch();
            batch.delete_range(&self.rows, ..).delete_range(&self.state.indexes, ..);
            describe_table(&mut batch, &schema.layout.record, Operation::TABLE_TRUNCATE);
            Ok(batch.commit(self.durability(&RowOptions::new()))?)
        };
        truncate().map_err(|error: Error| self.named(error))
    }

    /// Returns the family of the rows, to copy ranges of keys with their seals. Its records are those of
    /// docs/format-tables.md, section 5. Write rows through the table.
    pub fn rows_family(&self) -> &ColumnFamily {
        &self.rows
    }

    /// Returns the beginning of the keys of the rows whose first key columns have these values. With hashed partitions
    /// it starts with the token, 8 bytes. Errors: `Invalid` for a prefix without the whole partition key in a table with
    /// hashed partitions, and for values that do not fit.
    pub fn encoded_key(&self, prefix: impl IntoKey) -> Result<Vec<u8>> {
        let encode = |prefix: Vec<Value>| {
            let layout = self.state.layout()?;
            if layout.is_hashed() && prefix.len() < layout.partition_parts {
                return Err(Error::invalid("partitions are hashed: give the whole partition key"));
            }
            layout.key_prefix(&prefix)
        };
        encode(prefix.into_key()).map_err(|error| self.named(error))
    }

    /// Returns the row of a key. Errors: `Invalid` for an incomplete key; `Corruption` if a record of the row is
    /// damaged.
    pub fn get(&self, key: impl IntoKey) -> Result<Option<Row>> {
        self.try_get(&key.into_key()).map_err(|error| self.named(error))
    }

    fn try_get(&self, key: &[Value]) -> Result<Option<Row>> {
        let db = &self.state.store.db;
        if db.is_read_only() {
            return self.row_at(key, &db.snapshot()); // a refresh between the schema and the row would part them
        }
        loop {
            let layout = self.state.layout()?;
            let found = layout.row_key(key).and_then(|row_key| self.get_in(&layout, &row_key));
            // After a schema change meanwhile, the row may have columns that this layout does not know.
            if Arc::ptr_eq(&layout, &self.state.layout()?) {
                return found;
            }
        }
    }

    fn row_at(&self, key: &[Value], snapshot: &Snapshot) -> Result<Option<Row>> {
        let layout = self.state.layout_at(snapshot)?;
        read_row(snapshot, &self.rows, &layout, &Arc::new(layout.select_all()), &layout.row_key(key)?)
    }

    /// Returns the row of a key as a snapshot sees it. Errors: as for [`get`](Table::get).
    pub fn get_at(&self, key: impl IntoKey, snapshot: &Snapshot) -> Result<Option<Row>> {
        self.row_at(&key.into_key(), snapshot).map_err(|error| self.named(error))
    }

    /// Returns true if the table has a row of a key. Errors: as for [`get`](Table::get).
    pub fn contains(&self, key: impl IntoKey) -> Result<bool> {
        let contains = || {
            let row_key = self.state.layout()?.row_key(&key.into_key())?;
            Ok(self.rows.contains(row_key)?)
        };
        contains().map_err(|error| self.named(error))
    }

    fn get_in(&self, layout: &Arc<Layout>, row_key: &[u8]) -> Result<Option<Row>> {
        let selection = layout.select_all();
        if layout.is_single_record() {
            let decode = |record: &[u8]| layout.decode_default(row_key, record, &selection);
            return self.rows.get_with(row_key, decode)?.transpose();
        }
        read_row(&self.state.store.db.snapshot(), &self.rows, layout, &Arc::new(selection), row_key)
    }

    pub(crate) fn encode(&self, layout: &Layout, row: &Row, options: &RowOptions) -> Result<(EncodedRow, Expiries)> {
        Ok((layout.encode(row)?, self.expiries(layout, options)?))
    }

    pub(crate) fn expiries(&self, layout: &Layout, options: &RowOptions) -> Result<Expiries> {
        options.expiries(layout, self.state.store.db.env().clock.wall_micros())
    }

    /// Returns the error of an insert of a key that has a row.
    #[cold]
    pub(crate) fn exists(&self, layout: &Layout, row_key: &[u8]) -> Error {
        Error::of(ErrorKind::Exists, format!("a row of the key {} exists", layout.shown(row_key)))
    }

    fn write_options(&self, write: WriteOptions, options: &RowOptions) -> WriteOptions {
        options.durability.into_iter().fold(write.expect_unwatched(), WriteOptions::durability)
    }

    /// Commits writes in one batch, without a description. Returns `None`, and writes nothing, if operations are
    /// registered.
    fn write(&self, options: &RowOptions, fill: impl FnOnce(&mut waxseal::Batch) -> Result<()>) -> Result<Option<()>> {
        let mut batch = self.session.batch();
        fill(&mut batch)?;
        self.unless_watched(|| batch.expect_unwatched().commit(self.durability(options)))
    }

    /// Makes a commit that describes no operation. Returns `None`, and changes nothing, if operations are registered.
    fn unless_watched<T>(&self, commit: impl FnOnce() -> waxseal::Result<T>) -> Result<Option<T>> {
        if self.db().is_watched() {
            return Ok(None);
        }
        match commit() {
            Err(error) if *error.kind() == waxseal::ErrorKind::Conflict => Ok(None), // registered meanwhile
            committed => Ok(committed.map(Some)?),
        }
    }

    /// Runs a transaction until no other commit comes between. The caller holds the schema lock.
    pub(crate) fn transact<T>(
        &self,
        layout: &Arc<Layout>,
        options: &RowOptions,
        mut run: impl FnMut(&RowWriter<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            if let Some(outcome) = self.try_transact(layout, options, &mut run)? {
                return Ok(outcome);
            }
            waxseal::interrupt::check()?;
        }
    }

    /// Runs a transaction. Returns `None`, and changes nothing, if another commit came between.
    pub(crate) fn try_transact<T>(
        &self,
        layout: &Arc<Layout>,
        options: &RowOptions,
        run: &mut impl FnMut(&RowWriter<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let (transaction, own_expiries) = (self.session.transaction(), OwnExpiries::default());
        transaction.check()?;
        let writer = self.writer(&transaction, layout, &own_expiries);
        let outcome = run(&writer)?;
        match transaction.commit_with(self.durability(options)) {
            Ok(()) => Ok(Some(outcome)),
            Err(error) if *error.kind() == waxseal::ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the rows of the table in a transaction.
    pub(crate) fn writer<'a>(
        &'a self,
        transaction: &'a waxseal::Transaction,
        layout: &'a Arc<Layout>,
        own_expiries: &'a OwnExpiries,
    ) -> RowWriter<'a> {
        let (rows, indexes, db) = (&self.rows, &self.state.indexes, self.db());
        let is_watched = db.is_watched();
        match is_watched {
            true => transaction.describe_nothing(),
            false => transaction.expect_unwatched(),
        }
        let now = db.env().clock.wall_micros();
        RowWriter { transaction, rows, indexes, layout, own_expiries, is_watched, now }
    }

    fn durability(&self, options: &RowOptions) -> Durability {
        options.durability.unwrap_or_else(|| self.state.store.db.batch().durability())
    }

    /// Adds the table's name to an error.
    #[cold]
    pub(crate) fn named(&self, error: Error) -> Error {
        error.in_table(&self.name())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.name())
    }
}
