//! Transactions: reads of one snapshot and private writes, which commit if no other commit came between.

use std::sync::Mutex;

use face::{ColumnFamily, Db, Durability, Isolation, StoreId, Transaction};

use crate::bytes::{copied, give as give_bytes, waxseal_bytes_t};
use crate::db::waxseal_db_t;
use crate::declare::{destroy, getters};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::family::waxseal_family_t;
use crate::get::waxseal_values_t;
use crate::handle::{HandleKind, handle, issue, peek, with, with_mut};
use crate::iter::{give, prefix_of, waxseal_iter_t};
use crate::lent::Out;
use crate::options::durability;
use crate::range::{CallerBounds, half_open, waxseal_range_t};
use crate::row_cursor::RowCursor;
use crate::session::waxseal_session_t;
use crate::write_options::{waxseal_write_options_t, write_settings};

/// The transaction takes effect as if it ran alone, at the moment of its commit: the commit fails if anything that it
/// read has changed since it began. Ranges count as far as they were read.
pub const WAXSEAL_ISOLATION_SERIALIZABLE: i32 = 0;
/// The commit fails if a key that the transaction wrote, or read by `waxseal_transaction_get_for_update`, has changed
/// since it began. Two transactions that each read what the other one writes may both commit.
pub const WAXSEAL_ISOLATION_SNAPSHOT: i32 = 1;

/// Reads and writes that take effect together, and only if no other commit came between. Used by one thread at a time.
/// Destroyed by `waxseal_transaction_destroy`, which discards its writes unless they were committed.
///
/// All reads see the store as it was when the transaction began, and the transaction's own writes. Nothing is locked: a
/// transaction never waits for another one. Its commit fails with `WAXSEAL_CONFLICT`, and changes nothing, if another
/// commit changed what the transaction depends on; destroy it then, and run a new one. The versions that it may read
/// take space until it ends. A write that is refused leaves the transaction as it was.
pub struct waxseal_transaction_t {
    _opaque: [u8; 0],
}

handle!(waxseal_transaction_t => Mutex<CallerTransaction>, HandleKind::Transaction, "transaction",
    |transaction| peek(transaction, |transaction| transaction.store));

/// A transaction until it ends.
pub(crate) struct CallerTransaction {
    store: StoreId,
    open: Option<Transaction>,
}

impl CallerTransaction {
    fn open(&self) -> Result<&Transaction> {
        self.open.as_ref().ok_or_else(ended)
    }
}

fn ended() -> Failure {
    Failure::invalid("the transaction has ended")
}

/// Gives the caller a transaction.
pub(crate) fn begin(
    place: Out<'_, *mut waxseal_transaction_t>,
    isolation: i32,
    begin: impl FnOnce(Isolation) -> Result<Transaction>,
) -> Result<()> {
    let place = place.needed("transaction")?;
    let transaction = begin(match isolation {
        WAXSEAL_ISOLATION_SERIALIZABLE => Isolation::Serializable,
        WAXSEAL_ISOLATION_SNAPSHOT => Isolation::Snapshot,
        other => return Err(Failure::invalid(format!("{other} is no isolation level"))),
    })?;
    transaction.check()?;
    place.set(issue(Mutex::new(CallerTransaction { store: transaction.store(), open: Some(transaction) }))?);
    Ok(())
}

/// Commits a transaction and ends it; without a durability, with the store's.
pub(crate) fn commit(transaction: *mut waxseal_transaction_t, durability: Option<Durability>) -> Result<()> {
    with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
        let transaction = transaction.open.take().ok_or_else(ended)?;
        match durability {
            None => transaction.commit()?,
            Some(durability) => transaction.commit_with(durability)?,
        }
        Ok(())
    })
}

/// Runs a call of a transaction on a family.
fn on<R>(
    transaction: *const waxseal_transaction_t,
    family: *const waxseal_family_t,
    call: impl FnOnce(&Transaction, &ColumnFamily) -> Result<R>,
) -> Result<R> {
    with_mut(transaction, |transaction: &mut CallerTransaction| {
        let transaction = transaction.open()?;
        with(family, |family| call(transaction, family))
    })
}

fn iterate(
    transaction: *const waxseal_transaction_t,
    family: *const waxseal_family_t,
    range: CallerBounds,
    iter: Out<'_, *mut waxseal_iter_t>,
) -> Result<()> {
    give(iter, || {
        on(transaction, family, |transaction, family| Ok(RowCursor::Transaction(transaction.cursor_in(family, range))))
    })
}

calls! {
    /// Begins a transaction with an isolation level, one of `WAXSEAL_ISOLATION_..`.
    ///
    /// Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_transaction_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an unknown level, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_transaction_begin(
        db: *mut waxseal_db_t, isolation: i32, out transaction: *mut *mut waxseal_transaction_t,
    ) {
        begin(transaction, isolation, |isolation| {
            with(db.cast_const(), |db: &Db| Ok(db.transaction_with(isolation)))
        })
    }

    /// As `waxseal_transaction_begin`; the transaction commits under the session's identity.
    ///
    /// Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_transaction_destroy`. Errors: as
    /// of `waxseal_transaction_begin`.
    fn waxseal_session_transaction_begin(
        session: *const waxseal_session_t, isolation: i32, out transaction: *mut *mut waxseal_transaction_t,
    ) {
        begin(transaction, isolation, |isolation| with(session, |session| Ok(session.transaction_with(isolation))))
    }

    /// Returns a copy of a key's value, as the transaction sees it. `WAXSEAL_NOT_FOUND` if the key does not exist.
    ///
    /// One thread at a time. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors:
    /// as of `waxseal_get`; `WAXSEAL_INVALID` for a family of another store, and after the end of the transaction. So do
    /// all calls of a transaction.
    fn waxseal_transaction_get(
        transaction: *mut waxseal_transaction_t, family: *const waxseal_family_t, bytes key,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        let value = value.needed("value")?;
        let read = |transaction: &Transaction, family: &ColumnFamily| {
            Ok(transaction.get_with(family, key.key()?, copied)?)
        };
        let Some(copy) = on(transaction, family, read)?.transpose()? else { return Ok(false) };
        value.set(issue(copy)?);
        Ok(true)
    }

    /// As `waxseal_transaction_get`; under `WAXSEAL_ISOLATION_SNAPSHOT` the commit then fails if another commit changed
    /// the key, as if the transaction had written it.
    ///
    /// One thread at a time. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors:
    /// as of `waxseal_transaction_get`.
    fn waxseal_transaction_get_for_update(
        transaction: *mut waxseal_transaction_t, family: *const waxseal_family_t, bytes key,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        let value = value.needed("value")?;
        let read = |transaction: &Transaction, family: &ColumnFamily| {
            Ok(transaction.get_for_update(family, key.key()?)?)
        };
        let Some(found) = on(transaction, family, read)? else { return Ok(false) };
        give_bytes(value, &found)?;
        Ok(true)
    }

    /// `WAXSEAL_OK` if the key exists, as the transaction sees it, `WAXSEAL_NOT_FOUND` if not.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_get`.
    fn waxseal_transaction_contains(
        transaction: *mut waxseal_transaction_t, family: *const waxseal_family_t, bytes key,
    ) {
        on(transaction, family, |transaction, family| Ok(transaction.contains(family, key.key()?)?))
    }

    /// Returns copies of the values of `count` keys, as the transaction sees them.
    ///
    /// One thread at a time. On success the caller owns `*values` and frees it with `waxseal_values_destroy`. Errors: as
    /// of `waxseal_transaction_get`; if one value cannot be read, the whole call fails.
    fn waxseal_transaction_multi_get(
        transaction: *mut waxseal_transaction_t, family: *const waxseal_family_t, slices keys,
        out values: *mut *mut waxseal_values_t,
    ) {
        let values = values.needed("values")?;
        let keys = keys?.into_iter().map(|key| key.key()).collect::<Result<Vec<&[u8]>>>()?;
        let found = on(transaction, family, |transaction, family| Ok(transaction.multi_get(family, &keys)?))?;
        values.set(issue(found)?);
        Ok(())
    }

    /// Creates an iterator over the records with keys in a range, as the transaction sees them: each move sees the writes
    /// that the transaction has made by then. A null `range` means all keys. Under `WAXSEAL_ISOLATION_SERIALIZABLE` the
    /// range is validated by the commit as far as the iterator was moved.
    ///
    /// The iterator's moves fail with `WAXSEAL_INVALID` once the transaction has ended. Any error leaves it
    /// unpositioned: after damage, a seek continues behind it.
    ///
    /// One thread at a time. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`, before or after
    /// the transaction. Errors: as of `waxseal_iter_create` and `waxseal_transaction_get`.
    fn waxseal_transaction_iter_create(
        transaction: *mut waxseal_transaction_t, family: *const waxseal_family_t,
        bounds range: *const waxseal_range_t, out iter: *mut *mut waxseal_iter_t,
    ) {
        iterate(transaction, family, range?, iter)
    }

    /// As `waxseal_transaction_iter_create`, over the records whose keys begin with `prefix`.
    ///
    /// One thread at a time. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`. Errors: as of
    /// `waxseal_transaction_iter_create` and `waxseal_iter_create_prefix`.
    fn waxseal_transaction_iter_create_prefix(
        transaction: *mut waxseal_transaction_t, family: *const waxseal_family_t, bytes prefix,
        out iter: *mut *mut waxseal_iter_t,
    ) {
        iterate(transaction, family, prefix_of(family, prefix.key()?)?, iter)
    }

    /// Sets a key to a value when the transaction commits.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put` and `waxseal_transaction_get`.
    fn waxseal_transaction_put(
        transaction: *mut waxseal_transaction_t, family: *mut waxseal_family_t, bytes key, bytes value,
    ) {
        on(transaction, family.cast_const(), |transaction, family| {
            Ok(transaction.put(family, key.key()?, value.value()?)?)
        })
    }

    /// Sets a key to a value when the transaction commits, with options. `options` may be null.
    ///
    /// One thread at a time, for the options too. Errors: as of `waxseal_transaction_put`; `WAXSEAL_INVALID` for options
    /// with a durability, which is that of the commit.
    fn waxseal_transaction_put_with(
        transaction: *mut waxseal_transaction_t, family: *mut waxseal_family_t,
        options: *const waxseal_write_options_t, bytes key, bytes value,
    ) {
        let options = write_settings(options)?;
        on(transaction, family.cast_const(), |transaction, family| {
            Ok(transaction.put_with(family, key.key()?, value.value()?, options)?)
        })
    }

    /// Merges an operand into the value of a key when the transaction commits: see `waxseal_merge`. Reads of the
    /// transaction see the merged value. Under `WAXSEAL_ISOLATION_SERIALIZABLE` a merge alone never conflicts.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_put`; `WAXSEAL_INVALID` if the family has no merge
    /// operator, or if the operator cannot read the operand.
    fn waxseal_transaction_merge(
        transaction: *mut waxseal_transaction_t, family: *mut waxseal_family_t, bytes key, bytes operand,
    ) {
        on(transaction, family.cast_const(), |transaction, family| {
            Ok(transaction.merge(family, key.key()?, operand.value()?)?)
        })
    }

    /// Deletes a key when the transaction commits; a missing key is not an error.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_put`.
    fn waxseal_transaction_delete(transaction: *mut waxseal_transaction_t, family: *mut waxseal_family_t, bytes key) {
        on(transaction, family.cast_const(), |transaction, family| Ok(transaction.delete(family, key.key()?)?))
    }

    /// Deletes all keys from `start` to `end`, `end` excluded, when the transaction commits: those of the store at that
    /// moment, and those that the transaction wrote before. A null pointer with length 0 is no bound.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_put`; `WAXSEAL_INVALID` for a start behind the end.
    fn waxseal_transaction_delete_range(
        transaction: *mut waxseal_transaction_t, family: *mut waxseal_family_t, bytes start, bytes end,
    ) {
        let range = half_open(start, end)?;
        on(transaction, family.cast_const(), |transaction, family| Ok(transaction.delete_range(family, range)?))
    }

    /// Marks the present state of the writes for `waxseal_transaction_rollback_to_savepoint`. Savepoints nest.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_get`.
    fn waxseal_transaction_savepoint(transaction: *mut waxseal_transaction_t) {
        with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
            transaction.open()?.savepoint();
            Ok(())
        })
    }

    /// Discards the writes since the last savepoint, and the savepoint. Reads stay read: the commit validates them.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_get`; `WAXSEAL_INVALID` without a savepoint.
    fn waxseal_transaction_rollback_to_savepoint(transaction: *mut waxseal_transaction_t) {
        with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
            Ok(transaction.open()?.rollback_to_savepoint()?)
        })
    }

    /// Keeps the writes since the last savepoint, and forgets the savepoint.
    ///
    /// One thread at a time. Errors: as of `waxseal_transaction_get`; `WAXSEAL_INVALID` without a savepoint.
    fn waxseal_transaction_release_savepoint(transaction: *mut waxseal_transaction_t) {
        with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
            Ok(transaction.open()?.release_savepoint()?)
        })
    }

    /// Makes all writes visible atomically and ends the transaction, whatever the outcome. A transaction without writes
    /// always commits. `durability` is one of `WAXSEAL_DURABILITY_..`.
    ///
    /// One thread at a time. Errors: `WAXSEAL_CONFLICT` if another commit changed what the transaction depends on: the
    /// message names the key, and nothing was changed. Also those of `waxseal_batch_commit` and of `waxseal_get`. For an
    /// unknown durability, `WAXSEAL_INVALID`: the transaction goes on.
    fn waxseal_transaction_commit(transaction: *mut waxseal_transaction_t, durability: i32) {
        commit(transaction, self::durability(durability)?)
    }

    /// Discards all writes and ends the transaction, as its destruction does.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` after the end of the transaction, `WAXSEAL_CLOSED`.
    fn waxseal_transaction_rollback(transaction: *mut waxseal_transaction_t) {
        with_mut(transaction.cast_const(), |transaction: &mut CallerTransaction| {
            transaction.open.take().ok_or_else(ended)?.rollback();
            Ok(())
        })
    }
}

getters! {
    with_mut;

    /// Number of writes; 0 for null, for a transaction that has ended, and for one that another thread is using.
    fn waxseal_transaction_count(transaction: *const waxseal_transaction_t) -> usize =>
        |transaction| transaction.open.as_ref().map_or(0, Transaction::len), or 0;
}

destroy! {
    /// Destroys a transaction and discards its uncommitted writes. Null is allowed; a destroyed transaction is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_transaction_destroy(transaction: *mut waxseal_transaction_t);
}
