//! Error objects, and calls that return them.
//!
//! In: a failed call. Out: its negative status, and an error object that describes the failure: the damaged file and
//! offset, the affected keys.

use std::ffi::{CString, c_char};

use face::{Damage, Verdict};

use crate::call::{IntoStatus, caught, status_of, value_of};
use crate::declare::{destroy, getters};
use crate::failure::{Failure, Result, WAXSEAL_OK};
use crate::handle::{HandleKind, end, handle, issue, take, with};
use crate::lent::{Out, lent, out, waxseal_slice_t};

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

handle!(waxseal_error_t => Story, HandleKind::Error, "error");

/// The content of an error object.
pub(crate) struct Story {
    status: i32,
    message: CString,
    file: CString,
    family: CString,
    damage: Option<Damage>,
    out_of_space: bool,
    errno: i32,
}

impl Story {
    pub(crate) fn of(failure: &Failure) -> Story {
        let engine = match failure {
            Failure::Engine(error) => Some(error),
            Failure::File(error) => error.store_error(),
            Failure::Table(error) => error.store_error(),
            Failure::Call(..) => None,
        };
        let damage = engine.and_then(|error| error.damage().cloned());
        Story {
            status: failure.status(),
            message: c_text(&failure.to_string()),
            file: c_text(damage.as_ref().map_or("", |damage| &damage.file)),
            family: c_text(damage.as_ref().and_then(|damage| damage.cf.as_deref()).unwrap_or("")),
            damage,
            out_of_space: engine.is_some_and(|error| error.is_out_of_space()),
            errno: if let Failure::File(error) = failure { error.errno() } else { 0 },
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

/// Runs a call. On failure its error is written to `error`, unless that is null.
#[inline]
pub(crate) fn answer<A: IntoStatus>(error: Out<'_, *mut waxseal_error_t>, call: impl FnOnce() -> Result<A>) -> i32 {
    match caught(call) {
        Ok(answer) => answer.status(),
        Err(failure) => fail(error, &failure),
    }
}

/// Functions that create an object with all defaults; messages call it by the name behind `=>`.
macro_rules! create {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($place:ident: *mut *mut $type:ty) => $called:literal;
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $place: *mut *mut $type,
            error: *mut *mut $crate::error::waxseal_error_t,
        ) -> i32 {
            // SAFETY: the header asks that outputs be null or writable.
            let ($place, error) = unsafe { ($crate::lent::out($place), $crate::lent::out(error)) };
            $crate::error::answer(error, || {
                let $place = $place.needed($called)?;
                $place.set($crate::handle::issue(Default::default())?);
                Ok(())
            })
        }
    )*};
}
pub(crate) use create;

/// Functions that may fail. Each returns a status and takes a place for an error object as its last argument. The body
/// runs as a call of `answer`, so `?` ends it with an error.
///
/// An argument is `NAME: TYPE`, taken as it is; `bytes NAME`, a pointer with a length; `buffer NAME`, the same to write
/// to; `optional NAME`, a pointer to bytes or null; `slices NAME` or `array NAME: TYPE`, a pointer with a count; `bounds NAME: TYPE`, a range; `lend NAME: TYPE`,
/// a struct with pointers, which is copied; or `out NAME: TYPE`, a place to write to. All but the first are the types of
/// `lent` in the body.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arguments:tt)*) $body:block
    )*) => {$(
        $crate::error::call! { [$(#[$doc])* $name $body] [] [] $($arguments)*, }
    )*};
}
pub(crate) use calls;

/// One function of `calls`: moves its arguments into the lists of C's arguments and of their types in the body.
macro_rules! call {
    (
        [$(#[$doc:meta])* $name:ident $body:block]
        [$($argument:ident: $argument_type:ty,)*] [$($lent:ident = $value:expr,)*] $(,)?
    ) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($argument: $argument_type,)*
            error: *mut *mut $crate::error::waxseal_error_t,
        ) -> i32 {
            // SAFETY: the header asks that inputs be readable and outputs null or writable.
            let ($($lent,)* error,) = unsafe { ($($value,)* $crate::lent::out(error),) };
            $crate::error::answer(error, || $body)
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] bytes $name:ident, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: *const u8, length: usize,]
            [$($body)* $name = $crate::lent::lent($name, length),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] buffer $name:ident, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: *mut u8, capacity: usize,]
            [$($body)* $name = $crate::lent::buffer($name, capacity),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] slices $name:ident, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: *const $crate::lent::waxseal_slice_t, count: usize,]
            [$($body)* $name = $crate::lent::lent_slices($name, count),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] optional $name:ident, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: *const $crate::lent::waxseal_slice_t,]
            [$($body)* $name = $crate::lent::lent_optional($name),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] array $name:ident: $items:ty, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: $items, count: usize,]
            [$($body)* $name = $crate::lent::lent_array($name, count),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] out $name:ident: $place:ty, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: $place,] [$($body)* $name = $crate::lent::out($name),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] bounds $name:ident: $range:ty, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: $range,] [$($body)* $name = $crate::range::bounds($name),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] [$($body:tt)*] lend $name:ident: $kind:ty, $($rest:tt)*) => {
        $crate::error::call! {
            $head [$($c)* $name: $kind,] [$($body)* $name = $crate::lent::Lend::copied($name),] $($rest)*
        }
    };
    ($head:tt [$($c:tt)*] $body:tt $name:ident: $kind:ty, $($rest:tt)*) => {
        $crate::error::call! { $head [$($c)* $name: $kind,] $body $($rest)* }
    };
}
pub(crate) use call;

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

    /// The error number of POSIX, as on Linux, if the call was one of a file store; 0 for other errors.
    fn waxseal_error_errno(error: *const waxseal_error_t) -> i32 => |story| story.errno, or 0;
}

destroy! {
    /// Destroys an error. Null is allowed; a destroyed error is `WAXSEAL_CLOSED`.
    fn waxseal_error_destroy(error: *mut waxseal_error_t);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::WAXSEAL_INTERNAL;
    use crate::lent::out;

    #[test]
    fn a_panic_is_a_status_with_its_message() {
        let mut error = std::ptr::null_mut();
        // SAFETY: a place of ours.
        let place = unsafe { out(&mut error) };
        assert_eq!(answer(place, || -> Result<()> { panic!("so it goes") }), WAXSEAL_INTERNAL);
        assert_eq!(waxseal_error_code(error), WAXSEAL_INTERNAL);
        assert_eq!(waxseal_error_destroy(error), WAXSEAL_OK);
    }
}
