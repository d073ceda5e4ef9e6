//! Statuses and error objects.
//!
//! In: what failed, in the engine or at the boundary. Out: a negative status, and an object that tells the story: where the damage
//! is, which keys it concerns. Positive statuses are answers, no failures, and make no object.

use std::borrow::Cow;
use std::ffi::{CString, c_char};
use std::fmt;

use face::{Damage, Error, ErrorKind, Verdict};

use crate::call::{status_of, value_of};
use crate::callback::has_failed;
use crate::handle::{Kind, end, handle, issue, take, with};
use crate::lent::{Out, lent, out, waxseal_slice_t};

/// The call did what it says.
pub const WAXSEAL_OK: i32 = 0;
/// What was asked for is not there; an iterator stands nowhere. No failure: outputs and error are untouched.
pub const WAXSEAL_NOT_FOUND: i32 = 1;
/// The caller's buffer is too small; how many bytes are needed was written, nothing else. No failure: no error is made.
pub const WAXSEAL_TOO_SMALL: i32 = 2;
/// The answer is not in memory, and the call must not wait for a file. No failure: nothing was written.
pub const WAXSEAL_NOT_RESIDENT: i32 = 3;
/// Bytes are not what was written. Repair, salvage or restore; the rest of the store goes on.
pub const WAXSEAL_CORRUPTION: i32 = -1;
/// The operating system refused. Free space or mend the device, then repeat.
pub const WAXSEAL_IO: i32 = -2;
/// Another process, or handle, has the store open.
pub const WAXSEAL_LOCKED: i32 = -3;
/// The call is wrong; nothing was changed.
pub const WAXSEAL_INVALID: i32 = -4;
/// Another commit came first; run the transaction again.
pub const WAXSEAL_CONFLICT: i32 = -5;
/// The store was opened without the right to write.
pub const WAXSEAL_READ_ONLY: i32 = -6;
/// An earlier fsync or write of the log failed; reads go on, reopen to write.
pub const WAXSEAL_HALTED: i32 = -7;
/// The store was written by a newer version.
pub const WAXSEAL_FORMAT_TOO_NEW: i32 = -8;
/// The store was closed, or the handle was ended.
pub const WAXSEAL_CLOSED: i32 = -9;
/// Another thread is using this object, which one thread at a time may use. Nothing was changed.
pub const WAXSEAL_BUSY: i32 = -10;
/// Memory for the answer cannot be had. Nothing was changed.
pub const WAXSEAL_OUT_OF_MEMORY: i32 = -11;
/// A callback of the caller's failed, with the reason that it gave.
pub const WAXSEAL_CALLBACK: i32 = -12;
/// A bug of the library was caught: please report the message. The object that the call was about cannot be used any more.
pub const WAXSEAL_INTERNAL: i32 = -13;
/// The thread's interrupt function ended the call (`waxseal_set_interrupt`). What it had finished stays; it may be repeated.
pub const WAXSEAL_INTERRUPTED: i32 = -14;

/// The error is not about damage.
pub const WAXSEAL_VERDICT_NONE: i32 = 0;
/// The bytes cannot be decoded.
pub const WAXSEAL_VERDICT_STRUCTURAL: i32 = 1;
/// A checksum does not match.
pub const WAXSEAL_VERDICT_CHECKSUM: i32 = 2;
/// Something that must be there is not.
pub const WAXSEAL_VERDICT_MISSING: i32 = 3;
/// The bytes are whole but do not belong here: another file, an older copy, another place.
pub const WAXSEAL_VERDICT_MISPLACED: i32 = 4;
/// A record does not match its seal.
pub const WAXSEAL_VERDICT_SEAL: i32 = 5;
/// Records were lost, added or changed by the engine itself.
pub const WAXSEAL_VERDICT_LEDGER: i32 = 6;
/// Damage of a kind that this library knows and this header does not.
pub const WAXSEAL_VERDICT_OTHER: i32 = 7;

/// What went wrong in one call. Written by a call that failed, to be read from any thread and ended by `waxseal_error_destroy`.
pub struct waxseal_error_t {
    _opaque: [u8; 0],
}

handle!(waxseal_error_t => Story, Kind::Error, "error");

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The engine says so.
    Engine(Error),
    /// The boundary says so.
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
            _ => WAXSEAL_INTERNAL, // a kind that this library was not built with
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

/// What an error object tells.
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

/// Text for C: a zero byte in it would end it early, so it is shown as `\0`.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

/// The number of a verdict.
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

/// Makes the error object of a failure and gives its status. An error of an earlier call that stands in its place is ended.
#[cold]
pub(crate) fn fail(error: Out<'_, *mut waxseal_error_t>, failure: &Failure) -> i32 {
    if !error.is_nowhere() {
        // Without room for one more object the status has to do.
        let story = issue(Story::of(failure)).unwrap_or(std::ptr::null_mut());
        if let Some(before) = error.replace(story) {
            let _ = end(before.cast_const());
        }
    }
    failure.status()
}

/// Ends the error that a function of the caller left, and gives its message; none if it left none.
pub(crate) fn taken_message(error: *mut waxseal_error_t) -> Option<String> {
    let story = take(error.cast_const()).ok()?;
    Some(story.object.message.to_string_lossy().into_owned())
}

/// An error of the caller's own, UTF-8 or not, for a callback that fails: it is put where the callback was told to, and the library ends it.
/// `code` is what `waxseal_error_code` answers. Null if there is no room for it.
///
/// Thread-safe. The error is the caller's, to be handed on or ended by `waxseal_error_destroy`.
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

/// The status that the call answered; `WAXSEAL_OK` for null and for an error that was ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_code(error: *const waxseal_error_t) -> i32 {
    value_of(WAXSEAL_OK, || with(error, |story| Ok(story.status)))
}

/// What happened, for people; empty for null and for an error that was ended. Never null. Valid until the error is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_message(error: *const waxseal_error_t) -> *const c_char {
    value_of(c"".as_ptr(), || with(error, |story| Ok(story.message.as_ptr())))
}

/// The damaged file, by its name in the store's directory; empty if the error is not about one. Never null. Valid until the error
/// is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_file(error: *const waxseal_error_t) -> *const c_char {
    value_of(c"".as_ptr(), || with(error, |story| Ok(story.file.as_ptr())))
}

/// The column family whose records are concerned; empty if none is known to be. Never null. Valid until the error is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_family(error: *const waxseal_error_t) -> *const c_char {
    value_of(c"".as_ptr(), || with(error, |story| Ok(story.family.as_ptr())))
}

/// The place in the file of the block or frame that is damaged; 0 if the error is not about a file.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_offset(error: *const waxseal_error_t) -> u64 {
    value_of(0, || with(error, |story| Ok(story.damage.as_ref().map_or(0, |damage| damage.offset))))
}

/// What is wrong with the damaged bytes, one of `WAXSEAL_VERDICT_..`; `WAXSEAL_VERDICT_NONE` if nothing is damaged.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_verdict(error: *const waxseal_error_t) -> i32 {
    value_of(WAXSEAL_VERDICT_NONE, || {
        with(error, |story| {
            let verdict = story.damage.as_ref().map(|damage| verdict_number(damage.verdict));
            Ok(verdict.unwrap_or(WAXSEAL_VERDICT_NONE))
        })
    })
}

/// The smallest and the largest key that may be concerned. `WAXSEAL_NOT_FOUND` if none are known. Valid until the error is ended.
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

/// The sum that was recorded and that of what is there. `WAXSEAL_NOT_FOUND` if the error is not about sums.
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

/// True if the device is full or the quota is used up: the same call may succeed once there is space.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_is_out_of_space(error: *const waxseal_error_t) -> bool {
    value_of(false, || with(error, |story| Ok(story.out_of_space)))
}

/// Ends an error. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_error_destroy(error: *mut waxseal_error_t) -> i32 {
    status_of(|| end(error.cast_const()))
}
