//! Transactions over rows of any tables of a store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use waxseal::Durability;
use waxseal::env::lock;

use crate::changes::Changes;
use crate::error::{Error, ErrorKind, Result};
use crate::key_values::IntoKey;
use crate::layout::Layout;
use crate::own_expiries::OwnExpiries;
use crate::row::Row;
use crate::row_writer::RowWriter;
use crate::schema_record::TableId;
use crate::table::Table;
use crate::tables::Tables;
use crate::write::RowOptions;

/// Reads and writes of rows that take effect together, and only if no other commit came between.
///
/// All reads see the store as it was when the transaction began, and the transaction's own writes. The commit fails
/// with [`Conflict`](ErrorKind::Conflict) if another commit changed a row that the transaction has read, or the schema
/// of a table that it has used. [`Tables::transact`] runs it again then. A transaction may be used from several threads;
/// its calls then run one after the other.
///
/// ```
/// # fn main() -> waxseal_table::Result<()> {
/// # use waxseal_table::{Changes, ColumnType, Row, Schema, Tables};
/// # let tables = Tables::open(&waxseal::Db::memory()?)?;
/// let schema = Schema::new().partition_key("name", ColumnType::Text).column("balance", ColumnType::I64);
/// let accounts = tables.create("bank.accounts", schema)?;
/// accounts.insert(Row::new().with("name", "alice").with("balance", 100i64))?;
/// accounts.insert(Row::new().with("name", "bob").with("balance", 0i64))?;
/// tables.transact(|transaction| {
///     for (name, amount) in [("alice", -40), ("bob", 40)] {
///         let row = transaction.get(&accounts, name)?.unwrap();
///         let balance = row.get("balance").unwrap().as_i64().unwrap();
///         transaction.update(&accounts, name, Changes::new().set("balance", balance + amount))?;
///     }
///     Ok(())
/// })?;
/// assert_eq!(accounts.get("bob")?.unwrap().get("balance"), Some(&40i64.into()));
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    transaction: waxseal::Transaction,
    /// Layouts of the used tables at the transaction's snapshot.
    layouts: Mutex<HashMap<TableId, Arc<Layout>>>,
    own_expiries: OwnExpiries,
    /// Held by each call: a call that fails discards the writes since its own savepoint.
    turn: Mutex<()>,
}

impl Tables {
    /// Begins a transaction. It commits in the name of the session of the tables, or, if that is anonymous, of the first
    /// written table that has one. Tables of two sessions in one transaction are `Invalid`.
    pub fn transaction(&self) -> Transaction {
        let transaction = self.session.transaction();
        Transaction {
            transaction,
            layouts: Mutex::default(),
            own_expiries: OwnExpiries::default(),
            turn: Mutex::default(),
        }
    }

    /// Runs a transaction: passes it to `run`, and commits it if `run` succeeds. After a conflict all of it runs again.
    /// An error of `run` discards the writes and is returned.
    pub fn transact<T>(&self, mut run: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        loop {
            let transaction = self.transaction();
            transaction.transaction.check()?;
            let outcome = run(&transaction)?;
            match transaction.commit() {
                Err(error) if error.kind() == ErrorKind::Conflict => waxseal::interrupt::check()?,
                committed => return committed.map(|()| outcome),
            }
        }
    }
}

impl Transaction {
    /// Fails if the store is closed, or open for reading only, so that no write of the transaction can succeed.
    pub fn check(&self) -> Result<()> {
        Ok(self.transaction.check()?)
    }

    /// Returns the row of a key. Errors: as for [`Table::get`].
    pub fn get(&self, table: &Table, key: impl IntoKey) -> Result<Option<Row>> {
        let key = key.into_key();
        self.run(table, |writer| writer.get(&writer.layout.row_key(&key)?))
    }

    /// Adds a row. Errors: as for [`Table::insert`]; the transaction continues without it.
    pub fn insert(&self, table: &Table, row: impl Into<Row>) -> Result<()> {
        self.insert_with(table, row, RowOptions::new())
    }

    /// [`insert`](Transaction::insert) with options. Those with a durability are refused.
    pub fn insert_with(&self, table: &Table, row: impl Into<Row>, options: RowOptions) -> Result<()> {
        let row = row.into();
        self.run(table, |writer| {
            let (encoded, expiries) = table.encode(writer.layout, &row, of_one(&options)?)?;
            if writer.contains(&encoded.key)? {
                return Err(table.exists(writer.layout, &encoded.key));
            }
            writer.put(&encoded, &expiries)
        })
    }

    /// Writes a whole row: see [`Table::upsert`].
    pub fn upsert(&self, table: &Table, row: impl Into<Row>) -> Result<()> {
        self.upsert_with(table, row, RowOptions::new())
    }

    /// [`upsert`](Transaction::upsert) with options. Those with a durability are refused.
    pub fn upsert_with(&self, table: &Table, row: impl Into<Row>, options: RowOptions) -> Result<()> {
        let row = row.into();
        self.run(table, |writer| {
            let (encoded, expiries) = table.encode(writer.layout, &row, of_one(&options)?)?;
            writer.put(&encoded, &expiries)
        })
    }

    /// Changes columns of a row: see [`Table::update`].
    pub fn update(&self, table: &Table, key: impl IntoKey, changes: Changes) -> Result<bool> {
        self.update_with(table, key, changes, RowOptions::new())
    }

    /// [`update`](Transaction::update) with options. Those with a durability are refused.
    pub fn update_with(&self, table: &Table, key: impl IntoKey, changes: Changes, options: RowOptions) -> Result<bool> {
        let key = key.into_key();
        self.run(table, |writer| {
            let row_key = writer.layout.row_key(&key)?;
            let expiries = table.expiries(writer.layout, of_one(&options)?)?;
            writer.update(&row_key, &writer.layout.changes(&changes)?, &expiries)
        })
    }

    /// Deletes a row. A key without a row is not an error.
    pub fn delete(&self, table: &Table, key: impl IntoKey) -> Result<()> {
        let key = key.into_key();
        self.run(table, |writer| writer.delete(&writer.layout.row_key(&key)?))
    }

    /// Commits the writes with the durability of the store. Errors: `Conflict`; nothing is written then.
    pub fn commit(self) -> Result<()> {
        Ok(self.transaction.commit()?)
    }

    /// Commits the writes. Errors: as for [`commit`](Transaction::commit).
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        Ok(self.transaction.commit_with(durability)?)
    }

    /// Discards the writes.
    pub fn rollback(self) {
        self.transaction.rollback();
    }

    /// Runs a call on one table. A call that fails writes nothing.
    fn run<T>(&self, table: &Table, call: impl FnOnce(&RowWriter<'_>) -> Result<T>) -> Result<T> {
        let outcome = || {
            let _turn = lock(&self.turn);
            let layout = self.layout(table)?;
            self.transaction.savepoint();
            self.own_expiries.savepoint();
            match call(&table.writer(&self.transaction, &layout, &self.own_expiries)) {
                Ok(outcome) => {
                    self.transaction.release_savepoint()?;
                    Ok(outcome)
                }
                Err(error) => {
                    self.own_expiries.rollback_to_savepoint();
                    self.transaction.rollback_to_savepoint()?;
                    Err(error)
                }
            }
        };
        outcome().map_err(|error| table.named(error))
    }

    /// Returns the layout of a table at the transaction's snapshot. The commit fails if it changes meanwhile.
    fn layout(&self, table: &Table) -> Result<Arc<Layout>> {
        if let Some(layout) = lock(&self.layouts).get(&table.state.id) {
            return Ok(layout.clone());
        }
        let layout = table.state.layout_in(&self.transaction)?;
        lock(&self.layouts).insert(table.state.id, layout.clone());
        Ok(layout)
    }
}

/// Refuses options with a durability.
fn of_one(options: &RowOptions) -> Result<&RowOptions> {
    match options.durability {
        Some(_) => Err(Error::invalid("a write of a transaction has no durability of its own: the commit has one")),
        None => Ok(options),
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.transaction).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{ColumnType, Row, Schema, Tables};

    #[test]
    fn a_call_leaves_no_savepoint() {
        let tables = Tables::open(&waxseal::Db::memory().unwrap()).unwrap();
        let table = tables.create("test.keys", Schema::new().partition_key("key", ColumnType::I32)).unwrap();
        let transaction = tables.transaction();
        transaction.insert(&table, Row::new().with("key", 1)).unwrap();
        transaction.insert(&table, Row::new().with("key", 1)).unwrap_err();
        assert!(transaction.transaction.release_savepoint().is_err());
    }
}
