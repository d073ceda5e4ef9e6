//! The first and the last record of a family: copied, or removed atomically; and whether it has any.

use face::{ColumnFamily, Slice, Snapshot, WriteOptions};

use crate::bytes::{copied, waxseal_bytes_t};
use crate::error::calls;
use crate::failure::Result;
use crate::family::waxseal_family_t;
use crate::handle::{end, issue, with};
use crate::lent::Out;
use crate::snapshot::{read, waxseal_snapshot_t};
use crate::write_options::{waxseal_write_options_t, write_settings};

/// A copied record, if there is one.
type Outermost = face::Result<Option<(Slice, Slice)>>;

/// Hands the caller copies of the key and the value of the record that `latest` or `then` returns. False if no record
/// exists.
fn give_row(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    (key, value): (Out<'_, *mut waxseal_bytes_t>, Out<'_, *mut waxseal_bytes_t>),
    latest: impl FnOnce(&ColumnFamily) -> Outermost,
    then: impl FnOnce(&Snapshot, &ColumnFamily) -> Outermost,
) -> Result<bool> {
    let (key, value) = (key.needed("key")?, value.needed("value")?);
    let row = with(family, |family| read(snapshot, || latest(family), |snapshot| then(snapshot, family)))?;
    give(row, key, value)
}

/// Removes the record that `pop` removes, and hands the caller its key and value. False if no record exists.
fn pop_row(
    family: *mut waxseal_family_t,
    options: *const waxseal_write_options_t,
    (key, value): (Out<'_, *mut waxseal_bytes_t>, Out<'_, *mut waxseal_bytes_t>),
    pop: impl FnOnce(&ColumnFamily, WriteOptions) -> Outermost,
) -> Result<bool> {
    let (key, value, options) = (key.needed("key")?, value.needed("value")?, write_settings(options)?);
    give(with(family.cast_const(), |family| Ok(pop(family, options)?))?, key, value)
}

/// Hands the caller copies of the key and the value of a record. False if there is none.
fn give(
    row: Option<(Slice, Slice)>,
    key: Out<'_, *mut waxseal_bytes_t>,
    value: Out<'_, *mut waxseal_bytes_t>,
) -> Result<bool> {
    let Some((first, second)) = row else { return Ok(false) };
    let (first, second) = (copied(&first)?, copied(&second)?);
    let first: *mut waxseal_bytes_t = issue(first)?;
    let second = issue(second).inspect_err(|_| drop(end(first.cast_const())))?;
    key.set(first);
    value.set(second);
    Ok(true)
}

calls! {
    /// Returns copies of the first record's key and value, in key order. A null `snapshot` reads the current state.
    /// `WAXSEAL_NOT_FOUND` if no record exists: nothing is written. Costs a seek, and a step for each deleted and
    /// expired record before the first record.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*key` and `*value` and frees them with `waxseal_bytes_destroy`.
    /// Errors: `WAXSEAL_CORRUPTION` if damage or a lost range precedes the first readable record; `WAXSEAL_IO`,
    /// `WAXSEAL_INVALID`, `WAXSEAL_CLOSED`.
    fn waxseal_first_key_value(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, out key: *mut *mut waxseal_bytes_t,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        give_row(family, snapshot, (key, value), ColumnFamily::first_key_value, Snapshot::first_key_value)
    }

    /// Returns copies of the last record's key and value: as `waxseal_first_key_value`, from the other end.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*key` and `*value` and frees them with `waxseal_bytes_destroy`.
    /// Errors: as of `waxseal_first_key_value`.
    fn waxseal_last_key_value(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, out key: *mut *mut waxseal_bytes_t,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        give_row(family, snapshot, (key, value), ColumnFamily::last_key_value, Snapshot::last_key_value)
    }

    /// Removes the first record in key order, atomically, and returns copies of its key and value. `WAXSEAL_NOT_FOUND` if
    /// no record exists: nothing is written. Each record is returned to one caller. With keys in the order of their
    /// arrival, the family is a queue. `options` may be null.
    ///
    /// Beside fast writers of other threads the commit may be attempted several times; then the writers wait for it, at
    /// most 10 ms. Costs a `waxseal_first_key_value` and a `waxseal_delete`.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. On `WAXSEAL_OK` the caller owns `*key` and `*value`
    /// and frees them with `waxseal_bytes_destroy`. Errors: as of `waxseal_first_key_value` and `waxseal_delete_with`.
    fn waxseal_pop_first(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, out key: *mut *mut waxseal_bytes_t,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        pop_row(family, options, (key, value), ColumnFamily::pop_first_with)
    }

    /// Removes the last record in key order and returns copies of its key and value: as `waxseal_pop_first`, from the
    /// other end.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. On `WAXSEAL_OK` the caller owns `*key` and `*value`
    /// and frees them with `waxseal_bytes_destroy`. Errors: as of `waxseal_pop_first`.
    fn waxseal_pop_last(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, out key: *mut *mut waxseal_bytes_t,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        pop_row(family, options, (key, value), ColumnFamily::pop_last_with)
    }

    /// Stores true to `*is_empty` if no record exists. A null `snapshot` reads the current state. Costs as
    /// `waxseal_first_key_value`, and reads no large value.
    ///
    /// Thread-safe. Errors: as of `waxseal_first_key_value`.
    fn waxseal_is_empty(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, out is_empty: *mut bool,
    ) {
        let is_empty = is_empty.needed("result")?;
        is_empty.set(with(family, |family| {
            read(snapshot, || family.is_empty(), |snapshot| snapshot.is_empty(family))
        })?);
        Ok(())
    }
}
