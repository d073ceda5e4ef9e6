//! Reads of rows: by key, and by select.

use std::sync::Mutex;
use std::vec::IntoIter;

use face::StoreId;
use waxseal_table::{Row, Rows};

use crate::arrow::{ArrowArrayStream, stream_of};
use crate::bytes::{copied, waxseal_bytes_t};
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, end, handle, issue, peek, with_mut};
use crate::lent::Out;
use crate::snapshot::waxseal_snapshot_t;
use crate::table::{on, waxseal_table_t};
use crate::table_select::{at_snapshot, waxseal_table_select_t};
use crate::table_transaction::{in_transaction, waxseal_table_transaction_t};
use crate::table_value::{LentRow, waxseal_cells_t, waxseal_value_list_t};

/// Rows of a table, one after the other. Used by one thread at a time. Destroyed by `waxseal_table_rows_destroy`; the
/// rows of a select pin their view of the store until then.
pub struct waxseal_table_rows_t {
    _opaque: [u8; 0],
}

handle!(waxseal_table_rows_t => Mutex<CallerRows>, HandleKind::TableRows, "rows object",
    |rows| peek(rows, |rows| rows.store));

/// Rows that remain, and the one that was returned last.
pub(crate) struct CallerRows {
    store: StoreId,
    rest: Rest,
    last: LentRow,
}

enum Rest {
    Select(Box<Rows>),
    Found(IntoIter<Row>),
}

impl CallerRows {
    fn step(&mut self) -> Result<Option<waxseal_cells_t>> {
        let next = match &mut self.rest {
            Rest::Select(rows) => rows.next().transpose()?,
            Rest::Found(rows) => rows.next(),
        };
        Ok(next.map(|row| self.last.lend(row)))
    }
}

fn give(place: Out<'_, *mut waxseal_table_rows_t>, store: StoreId, rest: Rest) -> Result<()> {
    place.set(issue(Mutex::new(CallerRows { store, rest, last: LentRow::default() }))?);
    Ok(())
}

calls! {
    /// Returns the row of a key: `waxseal_table_rows_next` lends it. `WAXSEAL_NOT_FOUND` if the table has no row of the
    /// key. Reads the current state, or that of a snapshot or of a transaction: the other one is null.
    ///
    /// Thread-safe, if no other thread uses the transaction meanwhile. On `WAXSEAL_OK` the caller owns `*rows` and
    /// frees it with `waxseal_table_rows_destroy`. Errors: `WAXSEAL_INVALID` for an incomplete key, for a snapshot and
    /// a transaction at once, and for those of another store; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_table_get(
        table: *const waxseal_table_t, transaction: *mut waxseal_table_transaction_t,
        snapshot: *const waxseal_snapshot_t, lend key: waxseal_value_list_t, out rows: *mut *mut waxseal_table_rows_t,
    ) {
        let (key, rows) = (key?, rows.needed("rows")?);
        let (found, store) = on(table, |table| {
            let found = match (transaction.is_null(), snapshot.is_null()) {
                (true, true) => table.get(key)?,
                (true, false) => at_snapshot(table, snapshot, |snapshot| Ok(table.get_at(key, snapshot)?))?,
                (false, true) => in_transaction(transaction, table, |transaction| Ok(transaction.get(table, key)?))?,
                (false, false) => return Err(Failure::invalid("a read has a snapshot or a transaction, not both")),
            };
            Ok((found, table.db().store()))
        })?;
        let Some(row) = found else { return Ok(false) };
        give(rows, store, Rest::Found(vec![row].into_iter()))?;
        Ok(true)
    }

    /// Reads rows. A null `select` is all rows.
    ///
    /// Thread-safe. On success the caller owns `*rows` and frees it with `waxseal_table_rows_destroy`. Errors:
    /// `WAXSEAL_NO_SUCH_NAME` for an unknown column or index; `WAXSEAL_INVALID` for a value that does not fit, and for
    /// a range over hashed partitions without `is_full_scan`; `WAXSEAL_CLOSED`.
    fn waxseal_table_select(
        table: *const waxseal_table_t, lend select: *const waxseal_table_select_t,
        out rows: *mut *mut waxseal_table_rows_t,
    ) {
        let (select, rows) = (select?, rows.needed("rows")?);
        let (found, store) = on(table, |table| Ok((select.on(table)?.rows()?, table.db().store())))?;
        give(rows, store, Rest::Select(Box::new(found)))
    }

    /// Reads one page of rows into memory: as many as the limit of the select. `*next` is the position of the next
    /// page, or null if this one has fewer rows than the limit.
    ///
    /// Thread-safe. On success the caller owns `*rows` and `*next`, and frees them with `waxseal_table_rows_destroy`
    /// and `waxseal_bytes_destroy`. Errors: as of `waxseal_table_select` and `waxseal_table_get`; `WAXSEAL_INVALID`
    /// without a limit.
    fn waxseal_table_page(
        table: *const waxseal_table_t, lend select: *const waxseal_table_select_t,
        out rows: *mut *mut waxseal_table_rows_t, out next: *mut *mut waxseal_bytes_t,
    ) {
        let (select, rows, next) = (select?, rows.needed("rows")?, next.needed("position")?);
        let (page, store) = on(table, |table| Ok((select.on(table)?.page()?, table.db().store())))?;
        let position = page.next.map(|token| copied(token.as_bytes())).transpose()?;
        let position = position.map_or(Ok(std::ptr::null_mut()), issue::<waxseal_bytes_t>)?;
        give(rows, store, Rest::Found(page.rows.into_iter())).inspect_err(|_| {
            let _ = end(position.cast_const()); // which no caller has
        })?;
        next.set(position);
        Ok(())
    }

    /// Reads the rows of a select as an Arrow C stream, with a column for each column of the table, or for those that
    /// the select names, in their order. A null `select` is all rows. Repeated groups and dynamic columns have no place
    /// in a stream.
    ///
    /// Types: large binary, large string, bool, int32, int64, uint64, float, double, decimal128, date32, timestamp in
    /// microseconds and UTC, and large list. The extension types `arrow.uuid`, `arrow.json` and `waxseal.empty` (true or
    /// null) are those of uuid, json and empty. Batches end and damage is reported as by `waxseal_scan_arrow`.
    ///
    /// Thread-safe; the stream is used by one thread at a time. On success the caller owns `*stream` and frees it with
    /// its `release`. Errors: as of `waxseal_table_select`; `WAXSEAL_INVALID` if no column is named, one twice, or one
    /// that has no place in a stream.
    fn waxseal_table_scan_arrow(
        table: *const waxseal_table_t, lend select: *const waxseal_table_select_t, batch_rows: usize, batch_bytes: usize,
        out stream: *mut ArrowArrayStream,
    ) {
        let (select, stream) = (select?, stream.needed("stream")?);
        stream.set(on(table, |table| stream_of(table, select, batch_rows, batch_bytes))?);
        Ok(())
    }

    /// Counts the rows of a select, which are all read. A null `select` is all rows.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_select` and `waxseal_table_get`.
    fn waxseal_table_count(
        table: *const waxseal_table_t, lend select: *const waxseal_table_select_t, out rows: *mut u64,
    ) {
        let (select, rows) = (select?, rows.needed("number")?);
        rows.set(on(table, |table| Ok(select.on(table)?.count()?))?);
        Ok(())
    }

    /// Returns the next row. `WAXSEAL_NOT_FOUND` at the end. The cells are valid until the next call with `rows`. A
    /// damaged row is one `WAXSEAL_CORRUPTION`, and the next call continues behind it.
    ///
    /// One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_table_rows_next(rows: *mut waxseal_table_rows_t, out row: *mut waxseal_cells_t) {
        let row = row.needed("row")?;
        with_mut(rows.cast_const(), |rows: &mut CallerRows| {
            let Some(cells) = rows.step()? else { return Ok(false) };
            row.set(cells);
            Ok(true)
        })
    }
}

destroy! {
    /// Destroys rows. Null is allowed; destroyed rows are `WAXSEAL_CLOSED`.
    fn waxseal_table_rows_destroy(rows: *mut waxseal_table_rows_t);
}
