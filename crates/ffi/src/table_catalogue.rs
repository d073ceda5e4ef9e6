//! The tables of a store: create, open, list and drop.

use face::{Db, Session};
use waxseal_table::{Table, Tables};

use crate::bytes::{give as give_bytes, waxseal_bytes_t};
use crate::db::waxseal_db_t;
use crate::error::calls;
use crate::failure::Result;
use crate::handle::{issue, with};
use crate::lent::Out;
use crate::session::waxseal_session_t;
use crate::table::waxseal_table_t;
use crate::table_schema::waxseal_table_schema_t;

/// Runs a call on the tables of a store.
pub(crate) fn in_store<R>(db: *const waxseal_db_t, call: impl FnOnce(&Tables) -> Result<R>) -> Result<R> {
    with(db, |db: &Db| call(&Tables::open(db)?))
}

/// Runs a call on the tables of a session's store, in the name of the session.
pub(crate) fn in_session<R>(session: *const waxseal_session_t, call: impl FnOnce(&Tables) -> Result<R>) -> Result<R> {
    with(session, |session: &Session| call(&Tables::open(&session.db())?.in_session(session)?))
}

fn give(place: Out<'_, *mut waxseal_table_t>, open: impl FnOnce() -> Result<Table>) -> Result<()> {
    let place = place.needed("table")?;
    place.set(issue(open()?)?);
    Ok(())
}

calls! {
    /// Creates a table, `keyspace.name`. It is durable when the call returns.
    ///
    /// Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors:
    /// `WAXSEAL_EXISTS`; `WAXSEAL_INVALID` for a malformed name, for a schema that no table can have, and if the store
    /// has format level 1; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_table_create(
        db: *mut waxseal_db_t, bytes name, lend schema: *const waxseal_table_schema_t,
        out table: *mut *mut waxseal_table_t,
    ) {
        let (name, schema) = (name.text("name of the table")?, schema?);
        give(table, || in_store(db.cast_const(), |tables| Ok(tables.create(name, schema)?)))
    }

    /// Opens a table.
    ///
    /// Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors:
    /// `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_INVALID` for a malformed name; `WAXSEAL_CORRUPTION` if its schema is damaged;
    /// `WAXSEAL_CLOSED`.
    fn waxseal_table_open(db: *mut waxseal_db_t, bytes name, out table: *mut *mut waxseal_table_t) {
        let name = name.text("name of the table")?;
        give(table, || in_store(db.cast_const(), |tables| Ok(tables.table(name)?)))
    }

    /// Drops a table and everything in it. Its handles fail afterwards. The drop is durable when the call returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_table_drop(db: *mut waxseal_db_t, bytes name) {
        let name = name.text("name of the table")?;
        in_store(db.cast_const(), |tables| Ok(tables.drop(name)?))
    }

    /// Renames a table, also into another keyspace. Its handles stay valid. The new name is durable when the call
    /// returns.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_EXISTS`; `WAXSEAL_INVALID` for a malformed name;
    /// `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_table_rename(db: *mut waxseal_db_t, bytes name, bytes new_name) {
        let (name, new_name) = (name.text("name of the table")?, new_name.text("new name of the table")?);
        in_store(db.cast_const(), |tables| Ok(tables.rename(name, new_name)?))
    }

    /// Returns the names of all tables, sorted, each followed by a zero byte.
    ///
    /// Thread-safe. On success the caller owns `*names` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
    fn waxseal_table_names(db: *mut waxseal_db_t, out names: *mut *mut waxseal_bytes_t) {
        let names = names.needed("names")?;
        let found = in_store(db.cast_const(), |tables| Ok(tables.names()?))?;
        let text: String = found.iter().flat_map(|name| [name.as_str(), "\0"]).collect();
        give_bytes(names, text.as_bytes())
    }

    /// As `waxseal_table_create`, but creates the table and writes through the handle under the session's identity.
    ///
    /// Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors: as of
    /// `waxseal_table_create`.
    fn waxseal_session_table_create(
        session: *const waxseal_session_t, bytes name, lend schema: *const waxseal_table_schema_t,
        out table: *mut *mut waxseal_table_t,
    ) {
        let (name, schema) = (name.text("name of the table")?, schema?);
        give(table, || in_session(session, |tables| Ok(tables.create(name, schema)?)))
    }

    /// As `waxseal_table_open`, but the handle writes under the session's identity.
    ///
    /// Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors: as of
    /// `waxseal_table_open`.
    fn waxseal_session_table_open(
        session: *const waxseal_session_t, bytes name, out table: *mut *mut waxseal_table_t,
    ) {
        let name = name.text("name of the table")?;
        give(table, || in_session(session, |tables| Ok(tables.table(name)?)))
    }

    /// As `waxseal_table_drop`, under the session's identity.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_drop`.
    fn waxseal_session_table_drop(session: *const waxseal_session_t, bytes name) {
        let name = name.text("name of the table")?;
        in_session(session, |tables| Ok(tables.drop(name)?))
    }

    /// As `waxseal_table_rename`, under the session's identity.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_rename`.
    fn waxseal_session_table_rename(session: *const waxseal_session_t, bytes name, bytes new_name) {
        let (name, new_name) = (name.text("name of the table")?, new_name.text("new name of the table")?);
        in_session(session, |tables| Ok(tables.rename(name, new_name)?))
    }
}
