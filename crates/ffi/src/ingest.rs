//! Table files written outside of the store, and their ingestion.

use std::sync::Mutex;

use face::{IngestOptions, TableWriter};

use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::Result;
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, with, with_mut};
use crate::write_options::{waxseal_write_options_t, write_settings};

/// A table file that is being written, to be ingested later. Used by one thread at a time. Destroyed by
/// `waxseal_table_writer_destroy`; a file that is not finished is removed then.
pub struct waxseal_table_writer_t {
    _opaque: [u8; 0],
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

destroy! {
    /// Destroys a table writer, and removes its file unless it is finished. Null is allowed; a destroyed writer is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_table_writer_destroy(writer: *mut waxseal_table_writer_t);
}
