//! Stores: open, upkeep, close.

use face::{Builder, Db};

use crate::call::answer;
use crate::comparator::check_opening;
use crate::error::{Result, WAXSEAL_CLOSED, waxseal_error_t};
use crate::handle::{Kind, handle, issue, take, with, with_failed};
use crate::lent::{Lent, Out, lent, out};
use crate::options::{configured, waxseal_options_t};

/// An open store. May be used from any thread, and is ended by `waxseal_close`.
pub struct waxseal_db_t {
    _opaque: [u8; 0],
}

handle!(waxseal_db_t => Db, Kind::Store, "store", |db| Some(db.store()));

/// Opens what `builder` describes and gives it to the caller.
fn open_by(
    db: Out<'_, *mut waxseal_db_t>,
    options: *const waxseal_options_t,
    builder: impl FnOnce() -> Result<Builder>,
    open: impl FnOnce(Builder) -> face::Result<Db>,
) -> Result<()> {
    let db = db.needed("store")?;
    let (builder, caller) = configured(options, builder()?)?;
    let opened = open(builder);
    check_opening(&caller)?; // what it answers is not to be trusted then
    let opened = opened?;
    crate::comparator::opened(&caller, opened.store())?;
    db.set(issue(opened)?);
    Ok(())
}

fn at(path: Lent<'_>) -> Result<Builder> {
    Ok(Db::builder(path.path()?))
}

/// Opens the store in a directory, or makes one there. `options` may be null. One process at a time may write.
///
/// Thread-safe. On success `*db` is the caller's, to be ended by `waxseal_close`. Errors: `WAXSEAL_LOCKED` names the holder,
/// `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_FORMAT_TOO_NEW`; `WAXSEAL_INVALID` for options that cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_open(
    path: *const u8,
    path_len: usize,
    options: *const waxseal_options_t,
    db: *mut *mut waxseal_db_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (path, db, error) = unsafe { (lent(path, path_len), out(db), out(error)) };
    answer(error, || open_by(db, options, || at(path), Builder::open))
}

/// Opens a store for reading, also beside a process that writes: takes no lock and writes nothing. It shows the store as it was then,
/// until `waxseal_refresh`. `options` may be null.
///
/// Thread-safe. On success `*db` is the caller's, to be ended by `waxseal_close`. Errors: as of `waxseal_open`, without
/// `WAXSEAL_LOCKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_open_read_only(
    path: *const u8,
    path_len: usize,
    options: *const waxseal_options_t,
    db: *mut *mut waxseal_db_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (path, db, error) = unsafe { (lent(path, path_len), out(db), out(error)) };
    answer(error, || open_by(db, options, || at(path), Builder::open_read_only))
}

/// A new store in memory, gone when it is closed. `options` may be null.
///
/// Thread-safe. On success `*db` is the caller's, to be ended by `waxseal_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_open_memory(
    options: *const waxseal_options_t,
    db: *mut *mut waxseal_db_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (db, error) = unsafe { (out(db), out(error)) };
    answer(error, || open_by(db, options, || Ok(Builder::in_memory()), Builder::open))
}

/// Closes the store for everything that came from it, and ends its handle, whatever the answer. What was acknowledged is durable if
/// the answer is `WAXSEAL_OK`. Families, snapshots, batches and iterators answer `WAXSEAL_CLOSED` from then on, and still have to be
/// ended. Null is no error.
///
/// Releases the store's threads, descriptors, mappings, memtables and cached blocks, whoever still has a handle. A running call, a bytes object
/// and an Arrow batch keep the memory that they use; an iterator keeps its memtables and the indexes of its tables until it is ended.
///
/// Thread-safe: calls that run meanwhile finish or answer `WAXSEAL_CLOSED`. A second call answers `WAXSEAL_OK`, and does not wait for the
/// first. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED` if something could not be made durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_close(db: *mut waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || {
        if db.is_null() {
            return Ok(());
        }
        // Not inside a function that the store calls.
        match with_failed(db.cast_const(), |_| Ok(())).and_then(|()| take(db.cast_const())) {
            Ok(entry) => Ok(entry.object.close()?),
            Err(failure) if failure.status() == WAXSEAL_CLOSED => Ok(()),
            Err(failure) => Err(failure),
        }
    })
}

/// Removes a store and everything in it. Refuses a directory that holds no store, and one that is open.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID`, `WAXSEAL_LOCKED`, `WAXSEAL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_destroy_store(
    path: *const u8,
    path_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (path, error) = unsafe { (lent(path, path_len), out(error)) };
    answer(error, || Ok(Db::destroy(path.path()?)?))
}

/// Makes every acknowledged commit durable: none of them can be lost once this has answered `WAXSEAL_OK`.
///
/// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_sync(db: *mut waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(db.cast_const(), |db| Ok(db.sync()?)))
}

/// Writes all memtables to tables and waits for it.
///
/// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_flush(db: *mut waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(db.cast_const(), |db| Ok(db.flush()?)))
}

/// Flushes, then compacts until no compaction is due, the levels above the lowest hold an eighth of it at most (one of `fanout - 2`), since
/// all that stands there may be newer versions, and garbage in value files is an eighth of what is alive; then removes the log's spare
/// segments. For the end of a load: what it does beyond a compaction that is due it leaves out as soon as others write on.
///
/// Thread-safe. Errors: as of `waxseal_flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_settle(db: *mut waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(db.cast_const(), |db| Ok(db.settle()?)))
}

/// A copy of the store as it is now in a new directory, which a crash leaves whole or not at all. Tables are shared by hard links
/// where the file system has them.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` if something is in the directory, `WAXSEAL_LOCKED` while another is written there, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_checkpoint(
    db: *mut waxseal_db_t,
    path: *const u8,
    path_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (path, error) = unsafe { (lent(path, path_len), out(error)) };
    answer(error, || with(db.cast_const(), |db| Ok(db.checkpoint(path.path()?)?)))
}

/// Catches up with the process that writes, what is registered included; for stores opened by `waxseal_open_read_only`, others stay as they
/// are.
///
/// Thread-safe. Errors: `WAXSEAL_CORRUPTION`, also if what is registered cannot be read, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_refresh(db: *mut waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(db.cast_const(), |db| Ok(db.refresh()?)))
}

/// `WAXSEAL_OK` if the store was opened for reading alone, `WAXSEAL_NOT_FOUND` if it may be written.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_is_read_only(db: *const waxseal_db_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(db, |db| Ok(db.is_read_only())))
}
