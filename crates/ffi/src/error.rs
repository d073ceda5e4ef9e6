//! Statuses and error objects.
//!
//! In: a failure of the engine or of the boundary. Out: a negative status, and an error object that describes the
//! failure: the damaged file and offset, the affected keys. Positive statuses are not failures and create no error
//! object.

use std::borrow::Cow;
use std::ffi::{CString, c_char};
use std::fmt;

use face::{Damage, Error, ErrorKind, Verdict};

use crate::call::{status_of, value_of};
use crate::callback::has_failed;
use crate::declare::{destroy, getters};
use crate::handle::{Kind, end, handle, issue, take, with};
use crate::lent::{Out, lent, out, waxseal_slice_t};

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
/// Another thread is using this object, which only one thread at a time may use. Nothing was changed.
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

/// The error is not about damage.
pub const WAXSEAL_VERDICT_NONE: i32 = 0;
/// The bytes cannot be decoded.
pub const WAXSEAL_VERDICT_STRUCTURAL: i32 = 1;
/// A checksum does not match.
pub const WAXSEAL_VERDICT_CHECKSUM: i32 = 2;
/// Required data is missing.
pub const WAXSEAL_VERDICT_MISSING: i32 = 3;
/// The bytes are intact but belong elsewhere: to another file, an older copy, or another offset.
pub const WAXSEAL_VERDICT_MISPLACED: i32 = 4;
/// A record does not match its seal.
pub const WAXSEAL_VERDICT_SEAL: i32 = 5;
/// The engine itself lost, added or changed records.
pub const WAXSEAL_VERDICT_LEDGER: i32 = 6;
/// A kind of damage that this library knows and this header does not.
pub const WAXSEAL_VERDICT_OTHER: i32 = 7;

/// Why one call failed. Written by the failed call, readable from any thread, and freed by `waxseal_error_destroy`.
pub struct waxseal_error_t {
    _opaque: [u8; 0],
}

handle!(waxseal_error_t => Story, Kind::Error, "error");

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The reason why a call failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// An error detected at the boundary.
    Call(i32, Cow<'static, str>),
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
        };
        match error.kind() {
            ErrorKind::Corruption(_) => WAXSEAL_CORRUPTION,
            ErrorKind::Io(_) if has_failed(error) => WAXSEAL_CALLBACK,
            ErrorKind::Io(_) => WAXSEAL_IO,
            ErrorKind::Locked => WAXSEAL_LOCKED,
            ErrorKind::Invalid => WAXSEAL_INVALID,
            ErrorKind::Conflict => WAXSEAL_CONFLICT,
            ErrorKind::ReadOnly => WAXSEAL_READ_ONLY,
            ErrorKind::Halted => WAXSEAL_HALTED,
            ErrorKind::FormatTooNew => WAXSEAL_FORMAT_TOO_NEW,
            ErrorKind::Closed => WAXSEAL_CLOSED,
            ErrorKind::Interrupted => WAXSEAL_INTERRUPTED,
            _ => WAXSEAL_INTERNAL, // a kind unknown to this library
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => error.fmt(f),
            Failure::Call(_, message) => f.write_str(message),
        }
    }
}

/// The content of an error object.
pub(crate) struct Story {
    status: i32,
    message: CString,
    file: CString,
    family: CString,
    damage: Option<Damage>,
    out_of_space: bool,
}

impl Story {
    pub(crate) fn of(failure: &Failure) -> Story {
        let damage = match failure {
            Failure::Engine(error) => error.damage().cloned(),
            Failure::Call(..) => None,
        };
        Story {
            status: failure.status(),
            message: c_text(&failure.to_string()),
            file: c_text(damage.as_ref().map_or("", |damage| &damage.file)),
            family: c_text(damage.as_ref().and_then(|damage| damage.cf.as_deref()).unwrap_or("")),
            damage,
            out_of_space: matches!(failure, Failure::Engine(error) if error.is_out_of_space()),
        }
    }
}

/// Converts text for C. A zero byte would end the C string early, so it is shown as `\0`.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

/// Returns the number of a verdict.
pub(crate) fn verdict_number(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Structural => WAXSEAL_VERDICT_STRUCTURAL,
        Verdict::Checksum => WAXSEAL_VERDICT_CHECKSUM,
        Verdict::Missing => WAXSEAL_VERDICT_MISSING,
        Verdict::Misplaced => WAXSEAL_VERDICT_MISPLACED,
        Verdict::Seal => WAXSEAL_VERDICT_SEAL,
        Verdict::Ledger => WAXSEAL_VERDICT_LEDGER,
        _ => WAXSEAL_VERDICT_OTHER,
    }
}

/// Creates the error object of a failure and returns the failure's status. An error object of an earlier call in
/// `error` is destroyed.
#[cold]
pub(crate) fn fail(error: Out<'_, *mut waxseal_error_t>, failure: &Failure) -> i32 {
    if !error.is_nowhere() {
        // If no error object can be allocated, the caller gets the status alone.
        let story = issue(Story::of(failure)).unwrap_or(std::ptr::null_mut());
        if let Some(before) = error.replace(story) {
            let _ = end(before.cast_const());
        }
    }
    failure.status()
}

/// Takes the error that a callback left, and returns its message; `None` if the callback left no error.
pub(crate) fn taken_message(error: *mut waxseal_error_t) -> Option<String> {
    let story = take(error.cast_const()).ok()?;
    Some(story.object.message.to_string_lossy().into_owned())
}

/// Creates an error for a callback that fails. The callback writes it to its error argument, and the library destroys
/// it. `message` need not be valid UTF-8. `waxseal_error_code` returns `code`. Returns null if no object can be
/// allocated.
///
/// Thread-safe. The caller owns the error, and hands it to the library or frees it with `waxseal_error_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_error_create(
    code: i32,
    message: *const u8,
    message_len: usize,
) -> *mut waxseal_error_t {
    // SAFETY: the header asks that inputs be readable.
    let message = unsafe { lent(message, message_len) };
    value_of(std::ptr::null_mut(), || {
        let message = String::from_utf8_lossy(message.bytes("message")?).into_owned();
        issue(Story::of(&Failure::Call(code, message.into())))
    })
}

getters! {
    with;

    /// The status of the failed call; `WAXSEAL_OK` for null and for a destroyed error.
    fn waxseal_error_code(error: *const waxseal_error_t) -> i32 => |story| story.status, or WAXSEAL_OK;

    /// The message for people; empty for null and for a destroyed error. Never null. Valid until the error is
    /// destroyed.
    fn waxseal_error_message(error: *const waxseal_error_t) -> *const c_char =>
        |story| story.message.as_ptr(), or c"".as_ptr();

    /// The name of the damaged file in the store's directory; empty if no file is damaged. Never null. Valid until the
    /// error is destroyed.
    fn waxseal_error_file(error: *const waxseal_error_t) -> *const c_char =>
        |story| story.file.as_ptr(), or c"".as_ptr();

    /// The column family of the affected records; empty if it is unknown. Never null. Valid until the error is
    /// destroyed.
    fn waxseal_error_family(error: *const waxseal_error_t) -> *const c_char =>
        |story| story.family.as_ptr(), or c"".as_ptr();

    /// The offset of the damaged block or frame in its file; 0 if the error is not about a file.
    fn waxseal_error_offset(error: *const waxseal_error_t) -> u64 =>
        |story| story.damage.as_ref().map_or(0, |damage| damage.offset), or 0;

    /// The kind of damage, one of `WAXSEAL_VERDICT_..`; `WAXSEAL_VERDICT_NONE` if nothing is damaged.
    fn waxseal_error_verdict(error: *const waxseal_error_t) -> i32 =>
        |story| story.damage.as_ref().map_or(WAXSEAL_VERDICT_NONE, |damage| verdict_number(damage.verdict)),
        or WAXSEAL_VERDICT_NONE;
}

/// The smallest and the largest key that may be affected. `WAXSEAL_NOT_FOUND` if they are unknown. Valid until the
/// error is destroyed.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_error_key_range(
    error: *const waxseal_error_t,
    smallest: *mut waxseal_slice_t,
    largest: *mut waxseal_slice_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (smallest, largest) = unsafe { (out(smallest), out(largest)) };
    status_of(|| {
        with(error, |story| {
            let range = story.damage.as_ref().and_then(|damage| damage.key_range.as_ref());
            let Some((low, high)) = range else { return Ok(false) };
            smallest.set(waxseal_slice_t::of(low));
            largest.set(waxseal_slice_t::of(high));
            Ok(true)
        })
    })
}

/// The recorded checksum, and the checksum computed from the stored bytes. `WAXSEAL_NOT_FOUND` if the error is not a
/// checksum mismatch.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_error_sums(error: *const waxseal_error_t, expected: *mut u64, found: *mut u64) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (expected, found) = unsafe { (out(expected), out(found)) };
    status_of(|| {
        with(error, |story| {
            let sums = story.damage.as_ref().and_then(|damage| damage.expected.zip(damage.found));
            let Some((recorded, there)) = sums else { return Ok(false) };
            expected.set(recorded);
            found.set(there);
            Ok(true)
        })
    })
}

getters! {
    with;

    /// True if the device is full or the quota is used up: the same call may succeed once space is free.
    fn waxseal_error_is_out_of_space(error: *const waxseal_error_t) -> bool => |story| story.out_of_space, or false;
}

destroy! {
    /// Destroys an error. Null is allowed; a destroyed error is `WAXSEAL_CLOSED`.
    fn waxseal_error_destroy(error: *mut waxseal_error_t);
}
