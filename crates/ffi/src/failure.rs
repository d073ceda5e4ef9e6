//! Statuses, and the reasons why calls fail.
//!
//! In: an error of the engine, or a fault that the boundary detects. Out: a negative status with a message. Positive
//! statuses are not failures.

use std::borrow::Cow;
use std::fmt;
use std::io;

use face::{Error, ErrorKind};

/// Success.
pub const WAXSEAL_OK: i32 = 0;
/// The key, entry or list element does not exist, or the iterator is not positioned. Not a failure: outputs and error
/// are untouched.
pub const WAXSEAL_NOT_FOUND: i32 = 1;
/// The caller's buffer is too small. The required size was written, and nothing else. Not a failure: no error object is
/// created.
pub const WAXSEAL_TOO_SMALL: i32 = 2;
/// The answer is not in memory, and the call must not read a file. Not a failure: nothing was written.
pub const WAXSEAL_NOT_RESIDENT: i32 = 3;
/// Stored bytes are damaged. Repair, salvage or restore the store; undamaged data stays readable.
pub const WAXSEAL_CORRUPTION: i32 = -1;
/// The operating system reported an error. Free space or fix the device, then retry.
pub const WAXSEAL_IO: i32 = -2;
/// Another process, or another handle, has the store open.
pub const WAXSEAL_LOCKED: i32 = -3;
/// The call is invalid; nothing was changed.
pub const WAXSEAL_INVALID: i32 = -4;
/// Another commit came first; retry the transaction.
pub const WAXSEAL_CONFLICT: i32 = -5;
/// The store was opened read-only.
pub const WAXSEAL_READ_ONLY: i32 = -6;
/// An earlier fsync or write of the log failed. Reads still work; reopen the store to write.
pub const WAXSEAL_HALTED: i32 = -7;
/// The store was written by a newer version.
pub const WAXSEAL_FORMAT_TOO_NEW: i32 = -8;
/// The store was closed, or the handle was destroyed.
pub const WAXSEAL_CLOSED: i32 = -9;
/// Another thread is using this object, which only one thread at a time may use, and nothing was changed. Or a snapshot,
/// a cursor or a file, which the message names, holds what the call would erase.
pub const WAXSEAL_BUSY: i32 = -10;
/// Memory for the result cannot be allocated. Nothing was changed.
pub const WAXSEAL_OUT_OF_MEMORY: i32 = -11;
/// A callback failed; the error carries the reason that it gave.
pub const WAXSEAL_CALLBACK: i32 = -12;
/// The library detected a bug in itself: please report the message. The object that the call operated on is unusable
/// from now on.
pub const WAXSEAL_INTERNAL: i32 = -13;
/// The thread's interrupt function stopped the call (`waxseal_set_interrupt`). Work that it had finished stays; the
/// call may be repeated.
pub const WAXSEAL_INTERRUPTED: i32 = -14;
/// An operation on a path or an open file failed as POSIX names it: `waxseal_error_errno` returns the number.
pub const WAXSEAL_FILE: i32 = -15;
/// The change feed cannot continue at the position: the log behind it is not kept any more, or it lies in a history that
/// was cut. The message names the oldest position. Copy the store again, and continue from there.
pub const WAXSEAL_OUT_OF_REACH: i32 = -16;

/// No table, column, group or index has this name.
pub const WAXSEAL_NO_SUCH_NAME: i32 = -17;
/// A table, column or index of this name exists, or a row of this key or of these unique values.
pub const WAXSEAL_EXISTS: i32 = -18;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The reason why a call failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// An error detected at the boundary.
    Call(i32, Cow<'static, str>),
    /// An error of a file store.
    File(waxseal_files::Error),
    /// An error of a table.
    Table(waxseal_table::Error),
}

impl From<waxseal_table::Error> for Failure {
    #[cold]
    fn from(error: waxseal_table::Error) -> Failure {
        Failure::Table(error)
    }
}

impl From<waxseal_files::Error> for Failure {
    #[cold]
    fn from(error: waxseal_files::Error) -> Failure {
        Failure::File(error)
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    #[cold]
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::Call(WAXSEAL_INVALID, message.into())
    }

    #[cold]
    pub(crate) fn closed(message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::Call(WAXSEAL_CLOSED, message.into())
    }

    #[cold]
    pub(crate) fn busy(name: &str) -> Failure {
        Failure::Call(WAXSEAL_BUSY, format!("another thread is using this {name}").into())
    }

    #[cold]
    pub(crate) fn out_of_memory(what: &str) -> Failure {
        Failure::Call(WAXSEAL_OUT_OF_MEMORY, format!("no memory for {what}").into())
    }

    #[cold]
    pub(crate) fn internal(message: impl Into<Cow<'static, str>>) -> Failure {
        Failure::Call(WAXSEAL_INTERNAL, message.into())
    }

    pub(crate) fn status(&self) -> i32 {
        let error = match self {
            Failure::Call(status, _) => return *status,
            Failure::Engine(error) => error,
            Failure::File(error) => return file_status(error),
            Failure::Table(error) => return table_status(error),
        };
        match error.kind() {
            ErrorKind::Corruption(_) => WAXSEAL_CORRUPTION,
            ErrorKind::Io(_) | ErrorKind::Invalid if has_failed(error) => WAXSEAL_CALLBACK,
            ErrorKind::Io(_) => WAXSEAL_IO,
            ErrorKind::Locked => WAXSEAL_LOCKED,
            ErrorKind::Invalid => WAXSEAL_INVALID,
            ErrorKind::Conflict => WAXSEAL_CONFLICT,
            ErrorKind::ReadOnly => WAXSEAL_READ_ONLY,
            ErrorKind::Halted => WAXSEAL_HALTED,
            ErrorKind::FormatTooNew => WAXSEAL_FORMAT_TOO_NEW,
            ErrorKind::Closed => WAXSEAL_CLOSED,
            ErrorKind::Interrupted => WAXSEAL_INTERRUPTED,
            ErrorKind::OutOfReach => WAXSEAL_OUT_OF_REACH,
            _ => WAXSEAL_INTERNAL, // a kind unknown to this library
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => error.fmt(f),
            Failure::Call(_, message) => f.write_str(message),
            Failure::File(error) => error.fmt(f),
            Failure::Table(error) => error.fmt(f),
        }
    }
}

/// Returns the status of a file store's error: that of the store below, unless POSIX has a name for it.
fn file_status(error: &waxseal_files::Error) -> i32 {
    use waxseal_files::ErrorKind;
    let below = error.store_error().map(|error| Failure::Engine(error.clone()).status());
    match error.kind() {
        ErrorKind::Corruption => WAXSEAL_CORRUPTION,
        ErrorKind::ReadOnly => WAXSEAL_READ_ONLY,
        ErrorKind::Interrupted => WAXSEAL_INTERRUPTED,
        _ => below.unwrap_or(WAXSEAL_FILE),
    }
}

/// Returns the status of a table's error. An error that the store below caused has the store's status.
fn table_status(error: &waxseal_table::Error) -> i32 {
    use waxseal_table::ErrorKind;
    if let Some(below) = error.store_error() {
        return Failure::Engine(below.clone()).status();
    }
    match error.kind() {
        ErrorKind::NotFound => WAXSEAL_NO_SUCH_NAME,
        ErrorKind::Exists => WAXSEAL_EXISTS,
        ErrorKind::Invalid => WAXSEAL_INVALID,
        ErrorKind::Conflict => WAXSEAL_CONFLICT,
        ErrorKind::InUse => WAXSEAL_BUSY,
        ErrorKind::ReadOnly => WAXSEAL_READ_ONLY,
        ErrorKind::Closed => WAXSEAL_CLOSED,
        ErrorKind::Interrupted => WAXSEAL_INTERRUPTED,
        ErrorKind::FormatTooNew => WAXSEAL_FORMAT_TOO_NEW,
        ErrorKind::Corruption => WAXSEAL_CORRUPTION,
        _ => WAXSEAL_INTERNAL, // a kind unknown to this library
    }
}

/// A callback failed; holds the reason.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Returns the error of a callback that failed or broke its contract.
#[cold]
pub(crate) fn failed(name: &str, why: String) -> Error {
    failed_as(io::ErrorKind::Other, name, why)
}

/// As `failed`, with the kind of the I/O error.
#[cold]
pub(crate) fn failed_as(kind: io::ErrorKind, name: &str, why: String) -> Error {
    Error::io(name, io::Error::new(kind, Failed(why)))
}

/// True for an error that a callback caused.
pub(crate) fn has_failed(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<Failed>())
}
