//! Tables: typed rows in a store.
//!
//! The tables of a store are in `table_catalogue`, schemas in `table_schema`, indexes in `table_indexes`, writes in
//! `table_write`, reads in `table_rows` and `table_select`, values in `table_value`, transactions in
//! `table_transaction`.

use waxseal_table::Table;

use crate::bytes::{give as give_bytes, waxseal_bytes_t};
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::Result;
use crate::handle::{HandleKind, handle, with};

/// A table: typed rows in the order of their keys. Usable from any thread. Destroyed by `waxseal_table_destroy`, before
/// or after its store is closed.
///
/// The name of a table is `keyspace.name`. Every write is one commit, with the durability of the store or of its
/// options. docs/tables.md describes keys, types, groups, indexes and changes of schemas.
pub struct waxseal_table_t {
    _opaque: [u8; 0],
}

handle!(waxseal_table_t => Table, HandleKind::Table, "table", |table| Some(table.db().store()));

/// Runs a call on a table.
pub(crate) fn on<R>(table: *const waxseal_table_t, call: impl FnOnce(&Table) -> Result<R>) -> Result<R> {
    with(table, call)
}

calls! {
    /// Returns the present name of a table.
    ///
    /// Thread-safe. On success the caller owns `*name` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_table_name(table: *const waxseal_table_t, out name: *mut *mut waxseal_bytes_t) {
        let name = name.needed("name")?;
        let found = on(table, |table| Ok(table.name()))?;
        give_bytes(name, found.as_bytes())
    }
}

destroy! {
    /// Destroys a handle of a table. Null is allowed; a destroyed handle is `WAXSEAL_CLOSED`.
    fn waxseal_table_destroy(table: *mut waxseal_table_t);
}
