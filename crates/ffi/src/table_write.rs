//! Writes of rows, alone and in transactions.

use std::time::Duration;

use waxseal_table::{RowOptions, Table};

use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::lent::{Lend, copied_array, copied_text, waxseal_slice_t};
use crate::options::durability;
use crate::table::{on, waxseal_table_t};
use crate::table_select::{waxseal_filter_t, waxseal_value_range_t};
use crate::table_transaction::{in_transaction, waxseal_table_transaction_t};
use crate::table_value::{waxseal_cells_t, waxseal_value_list_t};

/// When the columns of a group expire, if that is before their row.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_group_expiry_t {
    /// The name of the group; dynamic columns are the group `dynamic`.
    pub group: waxseal_slice_t,
    /// The time, in microseconds since 1970; 0 for none.
    pub expires_at_micros: u64,
    /// The time to live in microseconds; 0 for none.
    pub expires_in_micros: u64,
}

/// Options of a write of a row. All zeros are the defaults, and so is a null pointer to options.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_row_options_t {
    /// One of `WAXSEAL_DURABILITY_..`; 0 for a write of a transaction, whose commit has a durability.
    pub durability: i32,
    /// The time at which the row expires, in microseconds since 1970; 0 for never.
    pub expires_at_micros: u64,
    /// The row's time to live in microseconds; 0 for no end.
    pub expires_in_micros: u64,
    /// Groups that expire before their row.
    pub groups: *const waxseal_group_expiry_t,
    /// Number of these groups.
    pub group_count: usize,
}

/// An expiry: a group with a time, or with a time to live.
type GroupExpiry = (String, u64, u64);

impl Lend for waxseal_group_expiry_t {
    type Copied = GroupExpiry;

    unsafe fn copied(self) -> Result<GroupExpiry> {
        // SAFETY: the caller's promise.
        let group = unsafe { copied_text(self.group, "name of a group") }?;
        one_of(self.expires_at_micros, self.expires_in_micros)?;
        Ok((group, self.expires_at_micros, self.expires_in_micros))
    }
}

impl Lend for *const waxseal_row_options_t {
    type Copied = RowOptions;

    unsafe fn copied(self) -> Result<RowOptions> {
        // SAFETY: null, or readable by the caller's promise.
        let Some(given) = (unsafe { self.as_ref() }) else { return Ok(RowOptions::new()) };
        one_of(given.expires_at_micros, given.expires_in_micros)?;
        let mut options = RowOptions::new();
        if let Some(durability) = durability(given.durability)? {
            options = options.durability(durability);
        }
        if given.expires_at_micros > 0 {
            options = options.expires_at(given.expires_at_micros);
        }
        if given.expires_in_micros > 0 {
            options = options.expires_in(Duration::from_micros(given.expires_in_micros));
        }
        // SAFETY: the caller's promise.
        for (group, at, after) in unsafe { copied_array(given.groups, given.group_count) }? {
            options = match (at, after) {
                (0, 0) => options,
                (0, after) => options.group_expires_in(&group, Duration::from_micros(after)),
                (at, _) => options.group_expires_at(&group, at),
            };
        }
        Ok(options)
    }
}

/// Refuses a time together with a time to live.
fn one_of(at: u64, after: u64) -> Result<()> {
    match at > 0 && after > 0 {
        true => Err(Failure::invalid("an expiry is a time or a time to live, not both")),
        false => Ok(()),
    }
}

calls! {
    /// Adds a row. `transaction` and `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the transaction meanwhile. Errors: `WAXSEAL_EXISTS` if the table has a row
    /// of the key, or of the values of a unique index; `WAXSEAL_INVALID` if a column of the key is missing, and for a
    /// value that does not fit; `WAXSEAL_NO_SUCH_NAME` for an unknown column; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_table_insert(
        table: *mut waxseal_table_t, transaction: *mut waxseal_table_transaction_t,
        lend options: *const waxseal_row_options_t, lend row: waxseal_cells_t,
    ) {
        let (options, row) = (options?, row?.row()?);
        on(table, |table: &Table| match transaction.is_null() {
            true => Ok(table.insert_with(row, options)?),
            false => in_transaction(transaction, table, |transaction| {
                Ok(transaction.insert_with(table, row, options)?)
            }),
        })
    }

    /// Writes a whole row, whether or not the table has a row of the key. Columns that the row does not have are null
    /// afterwards. `transaction` and `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the transaction meanwhile. Errors: as of `waxseal_table_insert`.
    fn waxseal_table_upsert(
        table: *mut waxseal_table_t, transaction: *mut waxseal_table_transaction_t,
        lend options: *const waxseal_row_options_t, lend row: waxseal_cells_t,
    ) {
        let (options, row) = (options?, row?.row()?);
        on(table, |table: &Table| match transaction.is_null() {
            true => Ok(table.upsert_with(row, options)?),
            false => in_transaction(transaction, table, |transaction| {
                Ok(transaction.upsert_with(table, row, options)?)
            }),
        })
    }

    /// Changes columns of a row; the others stay. `WAXSEAL_NOT_FOUND`, and nothing changes, if the table has no row of
    /// the key. `transaction` and `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the transaction meanwhile. Errors: as of `waxseal_table_insert`;
    /// `WAXSEAL_INVALID` for a column of the key among the changes.
    fn waxseal_table_update(
        table: *mut waxseal_table_t, transaction: *mut waxseal_table_transaction_t,
        lend options: *const waxseal_row_options_t, lend key: waxseal_value_list_t, lend changes: waxseal_cells_t,
    ) {
        let (options, key, changes) = (options?, key?, changes?.changes());
        on(table, |table: &Table| match transaction.is_null() {
            true => Ok(table.update_with(key, changes, options)?),
            false => in_transaction(transaction, table, |transaction| {
                Ok(transaction.update_with(table, key, changes, options)?)
            }),
        })
    }

    /// Changes columns of a row if the row matches a filter, in one step. `WAXSEAL_NOT_FOUND`, and nothing changes, if
    /// it does not match or if the table has no row of the key.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_update`; `WAXSEAL_INVALID` for a filter without conditions.
    fn waxseal_table_update_if(
        table: *mut waxseal_table_t, lend key: waxseal_value_list_t, lend filter: waxseal_filter_t,
        lend changes: waxseal_cells_t,
    ) {
        let (key, changes) = (key?, changes?.changes());
        let filter = filter?.ok_or_else(|| Failure::invalid("the filter has no conditions"))?;
        on(table, |table: &Table| Ok(table.update_if(key, filter, changes)?))
    }

    /// Replaces the row of a key if it is `old`, in one step: with `new`, or with no row. No cells stand for no row.
    /// `*is_set` is false, and nothing changes, if the table has another row; it may be null.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_insert`; `WAXSEAL_INVALID` if `new` has another key.
    fn waxseal_table_compare_and_set(
        table: *mut waxseal_table_t, lend key: waxseal_value_list_t, lend old: waxseal_cells_t,
        lend new: waxseal_cells_t, out is_set: *mut bool,
    ) {
        let (key, old, new) = (key?, old?.optional_row()?, new?.optional_row()?);
        is_set.set(on(table, |table: &Table| Ok(table.compare_and_set(key, old.as_ref(), new.as_ref())?))?);
        Ok(())
    }

    /// Deletes a row. A key without a row is not an error. `transaction` and `options` may be null. Of the options only
    /// the durability applies, and none in a transaction.
    ///
    /// Thread-safe, if no other thread uses the transaction meanwhile. Errors: `WAXSEAL_INVALID` for an incomplete key;
    /// `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_table_delete(
        table: *mut waxseal_table_t, transaction: *mut waxseal_table_transaction_t,
        lend options: *const waxseal_row_options_t, lend key: waxseal_value_list_t,
    ) {
        let (options, key) = (options?, key?);
        on(table, |table: &Table| match transaction.is_null() {
            true => Ok(table.delete_with(key, options)?),
            false => in_transaction(transaction, table, |transaction| Ok(transaction.delete(table, key)?)),
        })
    }

    /// Deletes all rows of a partition, in one step whatever their number.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` unless `key` is the whole partition key; `WAXSEAL_READ_ONLY`,
    /// `WAXSEAL_CLOSED`.
    fn waxseal_table_delete_partition(table: *mut waxseal_table_t, lend key: waxseal_value_list_t) {
        let key = key?;
        on(table, |table: &Table| Ok(table.delete_partition(key)?))
    }

    /// Deletes the rows whose key begins with `prefix` and whose next columns are in a range, in one step. In a table
    /// with indexes its rows are read, and kept in memory until the commit.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_delete_partition`; `WAXSEAL_INVALID` for a prefix without the whole
    /// partition key in a table with hashed partitions.
    fn waxseal_table_delete_range(
        table: *mut waxseal_table_t, lend prefix: waxseal_value_list_t, lend range: waxseal_value_range_t,
    ) {
        let (prefix, range) = (prefix?, range?);
        on(table, |table: &Table| Ok(table.delete_range(prefix, range)?))
    }

    /// Deletes all rows, with the entries of the indexes, in one step.
    ///
    /// Thread-safe. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_table_truncate(table: *mut waxseal_table_t) {
        on(table, |table: &Table| Ok(table.truncate()?))
    }
}
