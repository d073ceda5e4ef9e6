//! Open files: reads and writes at positions.

use waxseal_files::{File, Metadata, OpenOptions, SnapshotFile};

use crate::bytes::{owned, waxseal_bytes_t};
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::file_reads::{view, waxseal_file_snapshot_t};
use crate::files::{on, path_of, waxseal_file_attributes_t, waxseal_file_info_t, waxseal_files_t};
use crate::handle::{HandleKind, handle, issue, with};

/// Allows reads.
pub const WAXSEAL_FILE_READ: u32 = 1;
/// Allows writes.
pub const WAXSEAL_FILE_WRITE: u32 = 2;
/// Allows writes, all at the end of the file.
pub const WAXSEAL_FILE_APPEND: u32 = 4;
/// Removes the content of an existing file.
pub const WAXSEAL_FILE_TRUNCATE: u32 = 8;
/// Creates the file if it does not exist.
pub const WAXSEAL_FILE_CREATE: u32 = 16;
/// Creates the file, and fails with `EEXIST` if it exists.
pub const WAXSEAL_FILE_CREATE_NEW: u32 = 32;

/// An open file. Usable from any thread; all handles of one file see one content. Destroyed by `waxseal_file_destroy`.
///
/// Writes change the file in place. They wait in memory, 64 MiB for all files of the store, until `waxseal_file_flush`
/// or `waxseal_file_sync` commits them in one step. A handle keeps its file when the path is removed, replaced or
/// renamed.
pub struct waxseal_file_t {
    _opaque: [u8; 0],
}

/// A file, now or at a snapshot.
pub(crate) enum OpenedFile {
    Now(File),
    Then(SnapshotFile),
}

impl OpenedFile {
    fn metadata(&self) -> Metadata {
        match self {
            OpenedFile::Now(file) => file.metadata(),
            OpenedFile::Then(file) => file.metadata(),
        }
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> waxseal_files::Result<usize> {
        match self {
            OpenedFile::Now(file) => file.read_at(out, offset),
            OpenedFile::Then(file) => file.read_at(out, offset),
        }
    }

    fn next(&self, offset: u64, is_hole: bool) -> Option<u64> {
        match (self, is_hole) {
            (OpenedFile::Now(file), true) => file.next_hole(offset),
            (OpenedFile::Now(file), false) => file.next_data(offset),
            (OpenedFile::Then(file), true) => file.next_hole(offset),
            (OpenedFile::Then(file), false) => file.next_data(offset),
        }
    }
}

handle!(waxseal_file_t => OpenedFile, HandleKind::File, "open file");

/// Runs a call that writes.
fn change<R>(file: *const waxseal_file_t, call: impl FnOnce(&File) -> waxseal_files::Result<R>) -> Result<R> {
    with(file, |file| match file {
        OpenedFile::Now(file) => Ok(call(file)?),
        OpenedFile::Then(_) => Err(Failure::invalid("a file of a snapshot is not written")),
    })
}

fn options(flags: u32) -> Result<OpenOptions> {
    const ALL: u32 = WAXSEAL_FILE_CREATE_NEW * 2 - 1;
    if flags & !ALL != 0 {
        return Err(Failure::invalid(format!("{flags} are no flags of an open file")));
    }
    let is = |flag: u32| flags & flag != 0;
    Ok(OpenOptions::new()
        .read(is(WAXSEAL_FILE_READ))
        .write(is(WAXSEAL_FILE_WRITE))
        .append(is(WAXSEAL_FILE_APPEND))
        .truncate(is(WAXSEAL_FILE_TRUNCATE))
        .create(is(WAXSEAL_FILE_CREATE))
        .create_new(is(WAXSEAL_FILE_CREATE_NEW)))
}

calls! {
    /// Opens a file; `flags` are `WAXSEAL_FILE_READ` and others, combined by or. `attributes` are those of a file that
    /// is created. With a `snapshot`, the file is opened as it was then, for reading only.
    ///
    /// Thread-safe. On success the caller owns `*file` and frees it with `waxseal_file_destroy`. Errors: `WAXSEAL_FILE`
    /// with `ENOENT`, `ENOTDIR`, `EISDIR`, `ELOOP` or `EEXIST`, and with `EINVAL` for flags that allow nothing, or that
    /// create or truncate without allowing writes; `WAXSEAL_INVALID` for unknown flags, and for writes in a snapshot.
    fn waxseal_file_open(
        files: *mut waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path, flags: u32,
        attributes: waxseal_file_attributes_t, out file: *mut *mut waxseal_file_t,
    ) {
        let (file, path) = (file.needed("file")?, path_of(path)?);
        let options = options(flags)?.attributes(attributes.to_set()?);
        let opened = match snapshot.is_null() {
            true => OpenedFile::Now(on(files, |files| files.open_with(path, &options))?),
            false if flags == WAXSEAL_FILE_READ => OpenedFile::Then(view(files, snapshot)?.open(path)?),
            false => return Err(Failure::invalid("a file of a snapshot is opened for reading only")),
        };
        file.set(issue(opened)?);
        Ok(())
    }

    /// Returns the attributes, with changes that wait in memory.
    ///
    /// Thread-safe.
    fn waxseal_file_stat(file: *const waxseal_file_t, out info: *mut waxseal_file_info_t) {
        let info = info.needed("attributes")?;
        info.set(with(file, |file| Ok(waxseal_file_info_t::of(&file.metadata())))?);
        Ok(())
    }

    /// Returns up to `length` bytes from a position: fewer at the end of the file only. Every byte is verified.
    ///
    /// Thread-safe. On success the caller owns `*content` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_FILE` with `EBADF` if the handle is not for reading; `WAXSEAL_CORRUPTION` if a byte is damaged or
    /// missing; `WAXSEAL_OUT_OF_MEMORY`.
    fn waxseal_file_read(
        file: *const waxseal_file_t, offset: u64, length: usize, out content: *mut *mut waxseal_bytes_t,
    ) {
        let content = content.needed("content")?;
        let read = with(file, |file| {
            let length = file.metadata().size.saturating_sub(offset).min(length as u64) as usize;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(length + 1).map_err(|_| Failure::out_of_memory("a part of a file"))?;
            bytes.resize(length, 0);
            let length = file.read_at(&mut bytes, offset)?;
            bytes.truncate(length);
            Ok(bytes)
        })?;
        content.set(issue(owned(read)?)?);
        Ok(())
    }

    /// Writes at a position, or at the end if the handle appends. Bytes between the end and the position become zeros.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `EBADF` if the handle is not for writing, or with `EFBIG`;
    /// `WAXSEAL_CORRUPTION` if a chunk that changes is damaged.
    fn waxseal_file_write(file: *mut waxseal_file_t, bytes content, offset: u64,) {
        let content = content.bytes("content")?;
        change(file, |file| file.write_at(content, offset))
    }

    /// Writes at the end. `*offset` receives the position; it may be null.
    ///
    /// Thread-safe. Errors: as of `waxseal_file_write`.
    fn waxseal_file_append(file: *mut waxseal_file_t, bytes content, out offset: *mut u64) {
        let content = content.bytes("content")?;
        offset.set(change(file, |file| file.append(content))?);
        Ok(())
    }

    /// Sets the length. A longer file ends in zeros.
    ///
    /// Thread-safe. Errors: as of `waxseal_file_write`.
    fn waxseal_file_set_len(file: *mut waxseal_file_t, size: u64,) {
        change(file, |file| file.set_len(size))
    }

    /// Returns the first position from `offset` on that is in a hole; the end of the file counts as one.
    /// `WAXSEAL_NOT_FOUND` from the end on (`SEEK_HOLE`).
    ///
    /// Thread-safe.
    fn waxseal_file_next_hole(file: *const waxseal_file_t, offset: u64, out hole: *mut u64) {
        with(file, |file| Ok(file.next(offset, true).map(|found| hole.set(found)).is_some()))
    }

    /// Returns the first position from `offset` on that is in no hole. `WAXSEAL_NOT_FOUND` if only holes follow
    /// (`SEEK_DATA`).
    ///
    /// Thread-safe.
    fn waxseal_file_next_data(file: *const waxseal_file_t, offset: u64, out data: *mut u64) {
        with(file, |file| Ok(file.next(offset, false).map(|found| data.set(found)).is_some()))
    }

    /// Commits all changes of the file in one step, with size, times and digest.
    ///
    /// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
    fn waxseal_file_flush(file: *mut waxseal_file_t) {
        change(file, File::flush)
    }

    /// Commits all changes and makes them durable.
    ///
    /// Thread-safe. Errors: as of `waxseal_file_flush`.
    fn waxseal_file_sync(file: *mut waxseal_file_t) {
        change(file, File::sync)
    }
}

destroy! {
    /// Destroys an open file. Changes are flushed, and an error is lost: call `waxseal_file_flush` first. Null is
    /// allowed; a destroyed file is `WAXSEAL_CLOSED`.
    fn waxseal_file_destroy(file: *mut waxseal_file_t);
}
