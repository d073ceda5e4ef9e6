//! Secondary indexes of tables: build, verify and repair.

use waxseal_table::IndexReport;

use crate::declare::mirror;
use crate::error::calls;
use crate::table::{on, waxseal_table_t};
use crate::table_schema::waxseal_table_index_t;

mirror! {
    /// Result of a check of a table's indexes. They are clean if the last three numbers are 0.
    #[derive(Clone, Copy, Debug)]
    pub struct waxseal_table_index_report_t of |report: &IndexReport| {
        /// Rows that were read.
        pub rows: u64,
        /// Entries that were read, of all indexes.
        pub entries: u64,
        /// Missing entries of existing rows.
        pub missing: u64,
        /// Entries that belong to no row.
        pub stale: u64,
        /// Rows and entries that could not be read.
        pub damaged: u64,
    }
}

calls! {
    /// Adds an index, and builds it while reads and writes go on. Selects can use it when the call returns. After a
    /// crash, or an error of the store, call it again. `waxseal_table_alter` drops an index.
    ///
    /// Thread-safe. Errors: `WAXSEAL_EXISTS` for an index of the name, unless its build was interrupted, and for rows
    /// that have the same values of a unique index; `WAXSEAL_INVALID` for an index that the table cannot have;
    /// `WAXSEAL_CONFLICT` if another call builds or drops the index; `WAXSEAL_CORRUPTION` if a row is damaged.
    fn waxseal_table_create_index(table: *mut waxseal_table_t, lend index: *const waxseal_table_index_t) {
        let index = index?;
        on(table, |table| Ok(table.create_index(index)?))
    }

    /// Builds an index again from the rows. If that fails, the index stays as it was.
    ///
    /// Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`, and as of `waxseal_table_create_index`.
    fn waxseal_table_rebuild_index(table: *mut waxseal_table_t, bytes name) {
        let name = name.text("name of the index")?;
        on(table, |table| Ok(table.rebuild_index(name)?))
    }

    /// Checks at one snapshot that every row has its entries and every entry its row. Damage is counted, not an error.
    ///
    /// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_table_verify_indexes(table: *const waxseal_table_t, out report: *mut waxseal_table_index_report_t) {
        let report = report.needed("report")?;
        report.set(waxseal_table_index_report_t::of(&on(table, |table| Ok(table.verify_indexes()?))?));
        Ok(())
    }

    /// Rebuilds every index. `*count` is their number; it may be null. Beside damaged rows the indexes stay as they were.
    ///
    /// Thread-safe. Errors: as of `waxseal_table_create_index`.
    fn waxseal_table_repair_indexes(table: *mut waxseal_table_t, out count: *mut u64) {
        count.set(on(table, |table| Ok(table.repair_indexes()?))? as u64);
        Ok(())
    }
}
