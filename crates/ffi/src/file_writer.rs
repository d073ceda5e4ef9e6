//! Whole-file writes of content that is not in memory.

use std::io::Write;
use std::sync::Mutex;

use waxseal_files::{Error, Writer};

use crate::declare::destroy;
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::files::{condition, on, path_of, waxseal_file_attributes_t, waxseal_file_info_t, waxseal_files_t};
use crate::handle::{HandleKind, handle, issue, with_mut};

/// A whole-file write in progress. Used by one thread at a time. Destroyed by `waxseal_file_writer_destroy`; a file
/// that is not finished leaves nothing.
pub struct waxseal_file_writer_t {
    _opaque: [u8; 0],
}

handle!(waxseal_file_writer_t => Mutex<Option<Writer>>, HandleKind::FileWriter, "file writer");

fn finished() -> Failure {
    Failure::invalid("the file is finished")
}

/// Takes the writer out of its handle.
fn taken(writer: &mut Option<Writer>) -> Result<Writer> {
    writer.take().ok_or_else(finished)
}

/// Runs a call of a writer.
fn change<R>(writer: *const waxseal_file_writer_t, call: impl FnOnce(&mut Writer) -> Result<R>) -> Result<R> {
    with_mut(writer, |writer: &mut Option<Writer>| call(writer.as_mut().ok_or_else(finished)?))
}

calls! {
    /// Begins to write a whole file: `waxseal_files_write` for content that is not in memory.
    ///
    /// Thread-safe. On success the caller owns `*writer` and frees it with `waxseal_file_writer_destroy`. Errors: as of
    /// `waxseal_files_write`.
    fn waxseal_file_writer_create(
        files: *mut waxseal_files_t, bytes path, attributes: waxseal_file_attributes_t,
        out writer: *mut *mut waxseal_file_writer_t,
    ) {
        let (writer, path, attributes) = (writer.needed("writer")?, path_of(path)?, attributes.to_set()?);
        let begun = on(files, |files| files.writer_with(path, &attributes))?;
        writer.set(issue(Mutex::new(Some(begun)))?);
        Ok(())
    }

    /// Sets the condition of the write, one of `WAXSEAL_IF_..`. `etag` counts where the condition needs one: the text
    /// that `waxseal_files_etag` returns.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown condition and after the end; `WAXSEAL_FILE` with
    /// `EINVAL` for a text that is no entity tag.
    fn waxseal_file_writer_only_if(writer: *mut waxseal_file_writer_t, condition: i32, bytes etag) {
        let condition = self::condition(condition, etag)?;
        with_mut(writer.cast_const(), |writer: &mut Option<Writer>| {
            *writer = Some(taken(writer)?.only_if(condition));
            Ok(())
        })
    }

    /// Appends bytes.
    ///
    /// One thread at a time. Errors: `WAXSEAL_FILE` with `EFBIG`, and with `EINVAL` after a call that failed;
    /// `WAXSEAL_INVALID` after the end; `WAXSEAL_IO`.
    fn waxseal_file_writer_write(writer: *mut waxseal_file_writer_t, bytes content) {
        let content = content.bytes("content")?;
        change(writer, |writer| {
            writer.write_all(content).map_err(|error| match error.downcast::<Error>() {
                Ok(error) => error.into(),
                Err(error) => Failure::internal(error.to_string()),
            })
        })
    }

    /// Appends zeros. Whole chunks of them become a hole, which takes no space.
    ///
    /// One thread at a time. Errors: as of `waxseal_file_writer_write`.
    fn waxseal_file_writer_skip(writer: *mut waxseal_file_writer_t, length: u64,) {
        change(writer, |writer| Ok(writer.skip(length)?))
    }

    /// Sets an extended attribute, which the file gets with its content. The file then has those that this call sets,
    /// and none of an existing file.
    ///
    /// One thread at a time. Errors: `WAXSEAL_FILE` with `EINVAL`, `ENAMETOOLONG` or `ENOSPC`, as of
    /// `waxseal_files_set_xattr`.
    fn waxseal_file_writer_set_xattr(writer: *mut waxseal_file_writer_t, bytes name, bytes value) {
        let (name, value) = (name.bytes("name")?, value.bytes("value")?);
        change(writer, |writer| Ok(writer.set_xattr(name, value)?))
    }

    /// Gives the file its content, in one atomic step, and ends the writer, whatever the outcome. `*info` receives the
    /// attributes of the file; it may be null.
    ///
    /// One thread at a time. Errors: as of `waxseal_files_write`; `WAXSEAL_FILE` with `ECANCELED` if the condition is
    /// not met, and with `EINVAL` if an earlier write failed: the old file stays.
    fn waxseal_file_writer_finish(writer: *mut waxseal_file_writer_t, out info: *mut waxseal_file_info_t) {
        let written = with_mut(writer.cast_const(), |writer: &mut Option<Writer>| Ok(taken(writer)?.finish()?))?;
        info.set(waxseal_file_info_t::of(&written));
        Ok(())
    }

    /// Gives several files their contents, all in one atomic step: readers, snapshots and crashes see all of them or
    /// none. Ends all `writers`, whatever the outcome. Of several writers of one path the last one counts.
    ///
    /// Thread-safe, but each writer is used by one thread at a time. Errors: as of `waxseal_file_writer_finish`, and
    /// `WAXSEAL_FILE` with `EINVAL` for a writer of another store, and with `ECANCELED` for two writers of a path of which one has
    /// a condition: no file is changed. An error of a sync comes after the commit.
    fn waxseal_file_writers_finish(
        files: *mut waxseal_files_t, array writers: *const *mut waxseal_file_writer_t,
    ) {
        let mut all = Vec::new();
        let mut ended = Ok(());
        for writer in writers? {
            match with_mut(writer.cast_const(), taken) {
                Ok(writer) => all.push(writer),
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended?;
        on(files, |files| files.finish_all(all))?;
        Ok(())
    }
}

destroy! {
    /// Destroys a file writer; a file that is not finished leaves nothing. Null is allowed; a destroyed one is
    /// `WAXSEAL_CLOSED`.
    fn waxseal_file_writer_destroy(writer: *mut waxseal_file_writer_t);
}
