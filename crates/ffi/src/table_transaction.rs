//! Transactions over rows of tables.

use std::sync::Mutex;

use face::StoreId;
use waxseal_table::{Table, Tables, Transaction};

use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, handle, issue, peek, with_mut};
use crate::lent::Out;
use crate::options::durability;
use crate::session::waxseal_session_t;
use crate::table_catalogue::{in_session, in_store};

/// Reads and writes of rows of any tables of a store that take effect together, and only if no other commit came
/// between. Used by one thread at a time. Destroyed by `waxseal_table_transaction_destroy`, which discards its writes
/// unless they were committed.
///
/// `waxseal_table_get`, `waxseal_table_insert`, `waxseal_table_upsert`, `waxseal_table_update` and
/// `waxseal_table_delete` take one. All reads see the store as it was when the transaction began, and the transaction's
/// own writes. The commit fails with `WAXSEAL_CONFLICT`, and changes nothing, if another commit changed a row that the
/// transaction has read, or the schema of a table that it has used: run a new one then. A write that is refused leaves
/// the transaction as it was.
pub struct waxseal_table_transaction_t {
    _opaque: [u8; 0],
}

handle!(waxseal_table_transaction_t => Mutex<CallerTransaction>, HandleKind::TableTransaction, "transaction of rows",
    |transaction| peek(transaction, |transaction| transaction.store));

/// A transaction until it ends.
pub(crate) struct CallerTransaction {
    store: StoreId,
    open: Option<Transaction>,
}

fn ended() -> Failure {
    Failure::invalid("the transaction has ended")
}

fn begin(tables: &Tables) -> Result<CallerTransaction> {
    let begun = tables.transaction();
    begun.check()?;
    Ok(CallerTransaction { store: tables.db().store(), open: Some(begun) })
}

fn give(
    place: Out<'_, *mut waxseal_table_transaction_t>,
    begin: impl FnOnce() -> Result<CallerTransaction>,
) -> Result<()> {
    let place = place.needed("transaction")?;
    place.set(issue(Mutex::new(begin()?))?);
    Ok(())
}

/// Lends a transaction of the table's store to `call`.
pub(crate) fn in_transaction<R>(
    transaction: *mut waxseal_table_transaction_t,
    table: &Table,
    call: impl FnOnce(&Transaction) -> Result<R>,
) -> Result<R> {
    with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
        match transaction.store == table.db().store() {
            true => call(transaction.open.as_ref().ok_or_else(ended)?),
            false => Err(Failure::invalid("the transaction is of another store")),
        }
    })
}

calls! {
    /// Begins a transaction over rows.
    ///
    /// Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_table_transaction_destroy`.
    /// Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`, and those of `waxseal_table_open`.
    fn waxseal_table_transaction_begin(
        db: *mut waxseal_db_t, out transaction: *mut *mut waxseal_table_transaction_t,
    ) {
        give(transaction, || in_store(db.cast_const(), begin))
    }

    /// As `waxseal_table_transaction_begin`, but it commits under the session's identity, and takes only tables of that
    /// session, and tables without one.
    ///
    /// Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_table_transaction_destroy`.
    /// Errors: as of `waxseal_table_transaction_begin`.
    fn waxseal_session_table_transaction_begin(
        session: *const waxseal_session_t, out transaction: *mut *mut waxseal_table_transaction_t,
    ) {
        give(transaction, || in_session(session, begin))
    }

    /// Makes all writes visible atomically and ends the transaction, whatever the outcome. `durability` is one of
    /// `WAXSEAL_DURABILITY_..`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_CONFLICT` if another commit came between: nothing was changed;
    /// `WAXSEAL_INVALID` after the end of the transaction, and for an unknown durability, which does not end it;
    /// `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_table_transaction_commit(transaction: *mut waxseal_table_transaction_t, durability: i32) {
        let durability = self::durability(durability)?;
        with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
            let transaction = transaction.open.take().ok_or_else(ended)?;
            match durability {
                None => transaction.commit()?,
                Some(durability) => transaction.commit_with(durability)?,
            }
            Ok(())
        })
    }

    /// Discards all writes and ends the transaction, as its destruction does.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` after the end of the transaction, `WAXSEAL_CLOSED`.
    fn waxseal_table_transaction_rollback(transaction: *mut waxseal_table_transaction_t) {
        with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
            transaction.open.take().ok_or_else(ended)?.rollback();
            Ok(())
        })
    }
}

destroy! {
    /// Destroys a transaction and discards its uncommitted writes. Null is allowed; a destroyed transaction is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_table_transaction_destroy(transaction: *mut waxseal_table_transaction_t);
}
