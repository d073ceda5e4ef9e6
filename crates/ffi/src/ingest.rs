//! Table files written outside of the store, their ingestion, and bulk loads.

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr::null;
use std::sync::Mutex;

use face::{BulkLoader, ColumnFamily, IngestOptions, TableWriter};

use crate::callback::ask;
use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::{calls, waxseal_error_t};
use crate::failure::{Failure, Result, failed};
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, with, with_mut};
use crate::iter::waxseal_row_t;
use crate::lent::{lent, lent_array, waxseal_slice_t};
use crate::reentry::Caller;
use crate::write_options::{waxseal_write_options_t, write_settings};

/// A table file that is being written, to be ingested later. Used by one thread at a time. Destroyed by
/// `waxseal_table_writer_destroy`; a file that is not finished is removed then.
pub struct waxseal_table_writer_t {
    _opaque: [u8; 0],
}

/// Supplies the next rows of a bulk load: sets `*rows` to an array of `*count` rows, which stay valid until the next
/// call or the end of the load, and returns `WAXSEAL_OK`. A count of 0 ends the rows; a source that leaves
/// `*count` as it is has given no answer, and the load fails. A negative
/// status ends the load, which then has changed nothing and returns `WAXSEAL_CALLBACK`.
///
/// Called on the thread that loads. It must not call the store that is loaded.
pub type waxseal_rows_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        rows: *mut *const waxseal_row_t,
        count: *mut usize,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

/// A table file and the family that it is ingested into.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_family_file_t {
    /// The family.
    pub family: *mut waxseal_family_t,
    /// The path of the file.
    pub path: waxseal_slice_t,
}

/// The name of a source of rows in errors.
const SOURCE: &str = "the source of rows";

/// A caller's source of rows.
struct RowSource {
    caller: Caller,
    function:
        unsafe extern "C" fn(*mut c_void, *mut *const waxseal_row_t, *mut usize, *mut *mut waxseal_error_t) -> i32,
    context: *mut c_void,
}

impl RowSource {
    /// Loads all rows.
    fn load(&self, load: &mut BulkLoader<'_, '_>) -> face::Result<()> {
        loop {
            // A callback that was cut short, by an exception for instance, sets neither.
            let (mut rows, mut count) = (null(), usize::MAX);
            ask(&self.caller, SOURCE, |error| {
                // SAFETY: the header states the arguments and their lifetime; the context came with the function.
                unsafe { (self.function)(self.context, &mut rows, &mut count, error) }
            })?;
            if count == 0 {
                return Ok(());
            }
            // SAFETY: the header asks that the rows and their bytes be readable until the next call.
            let rows = unsafe { lent_array(rows, count) };
            let refused = |failure: Failure| failed(SOURCE, failure.to_string());
            for waxseal_row_t { key, value } in rows.map_err(refused)? {
                // SAFETY: likewise.
                let (key, value) = unsafe { (lent(key.data, key.len), lent(value.data, value.len)) };
                load.put(key.key().map_err(refused)?, value.value().map_err(refused)?)?;
            }
        }
    }
}

handle!(waxseal_table_writer_t => Mutex<TableWriter>, HandleKind::TableWriter, "table writer");

calls! {
    /// Creates a table file for a family. The file must not exist; it belongs to no store until it is ingested.
    ///
    /// Thread-safe. On success the caller owns `*writer` and frees it with `waxseal_table_writer_destroy`. Errors:
    /// `WAXSEAL_INVALID` if the file exists, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_table_writer_create(
        family: *mut waxseal_family_t, bytes path, out writer: *mut *mut waxseal_table_writer_t,
    ) {
        let writer = writer.needed("writer")?;
        let path = path.path()?;
        let created = with(family.cast_const(), |family| Ok(TableWriter::create(path, family)?))?;
        writer.set(issue(Mutex::new(created))?);
        Ok(())
    }

    /// Adds a value, with the entries, labels and expiry of `options`, which may be null. Keys must ascend, each of them
    /// once.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a key that is not greater than the one before, and as of
    /// `waxseal_put_with`: nothing is added then; `WAXSEAL_IO`.
    fn waxseal_table_writer_put(
        writer: *mut waxseal_table_writer_t, options: *const waxseal_write_options_t, bytes key, bytes value,
    ) {
        let options = write_settings(options)?;
        with_mut(writer.cast_const(), |writer| {
            writer.put_with(key.key()?, value.value()?, options)?;
            Ok(())
        })
    }

    /// Adds a delete: the ingestion removes the key.
    ///
    /// One thread at a time. Errors: as of `waxseal_table_writer_put`.
    fn waxseal_table_writer_delete(writer: *mut waxseal_table_writer_t, bytes key) {
        with_mut(writer.cast_const(), |writer| {
            writer.delete(key.key()?)?;
            Ok(())
        })
    }

    /// Writes the rest of the file and makes it durable. `*records` is the number of its records; it may be null.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` without a record, or for a second call; `WAXSEAL_IO`.
    fn waxseal_table_writer_finish(writer: *mut waxseal_table_writer_t, out records: *mut u64) {
        with_mut(writer.cast_const(), |writer| {
            records.set(writer.finish()?.records);
            Ok(())
        })
    }

    /// Adds table files to a family, in one commit that is durable when the call returns. Their records are newer than
    /// everything written before, range deletes included, and older than everything written after. With `move_files`
    /// the files become part of the store and lose their old names; otherwise they are copied. `*records` is the number
    /// of records; it may be null.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for a file that no table writer wrote, that has another key order, that was
    /// written for another family of this store, or that shares keys with another file; `WAXSEAL_CORRUPTION` for a
    /// damaged file; `WAXSEAL_IO`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. Nothing is changed then.
    fn waxseal_ingest(
        db: *mut waxseal_db_t, family: *mut waxseal_family_t, slices paths, move_files: bool, out records: *mut u64,
    ) {
        let paths = paths?.into_iter().map(|path| path.path()).collect::<Result<Vec<_>>>()?;
        let options = IngestOptions::default().move_files(move_files);
        with(db.cast_const(), |db| {
            with(family.cast_const(), |family| {
                records.set(db.ingest(family, paths, options)?.records);
                Ok(())
            })
        })
    }
}

calls! {
    /// Adds table files to several families in one commit: as `waxseal_ingest`, and a crash leaves all of them or none.
    /// A family may occur more than once.
    ///
    /// Thread-safe. Errors: as of `waxseal_ingest`.
    fn waxseal_ingest_families(
        db: *mut waxseal_db_t, array files: *const waxseal_family_file_t, move_files: bool, out records: *mut u64,
    ) {
        let mut asked: Vec<(ColumnFamily, [PathBuf; 1])> = Vec::new();
        for waxseal_family_file_t { family, path } in files? {
            // SAFETY: the header asks that the bytes be readable during the call.
            let path = unsafe { lent(path.data, path.len) }.path()?;
            let family = with(family.cast_const(), |family: &ColumnFamily| Ok(family.clone()))?;
            asked.push((family, [path]));
        }
        let options = IngestOptions::default().move_files(move_files);
        with(db.cast_const(), |db| {
            let files = asked.iter().map(|(family, paths)| (family, paths));
            records.set(db.ingest_families(files, options)?.records);
            Ok(())
        })
    }

    /// Loads rows in any order into a family, in one commit that is durable when the call returns. `rows` supplies
    /// them, with `context`. A later row replaces an earlier one of the same key. The rows bypass log and memtables:
    /// they are sorted and written as tables, which are ingested as by `waxseal_ingest`. Nothing is visible before.
    /// `*records` is the number of keys; it may be null.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CALLBACK` if the source fails, or supplies a row beyond the limits of keys and
    /// values; `WAXSEAL_INVALID`, `WAXSEAL_IO`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. Nothing is changed then.
    fn waxseal_bulk_load(
        db: *mut waxseal_db_t,
        family: *mut waxseal_family_t,
        rows: waxseal_rows_fn,
        context: *mut c_void,
        out records: *mut u64,
    ) {
        let function = rows.ok_or_else(|| Failure::invalid("the source of rows is a null pointer"))?;
        with(db.cast_const(), |db| {
            with(family.cast_const(), |family| {
                let source = RowSource { caller: Caller::of(db.store()), function, context };
                records.set(db.bulk_load_with(family, |load| source.load(load))?.records);
                Ok(())
            })
        })
    }
}

destroy! {
    /// Destroys a table writer, and removes its file unless it is finished. Null is allowed; a destroyed writer is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_table_writer_destroy(writer: *mut waxseal_table_writer_t);
}
