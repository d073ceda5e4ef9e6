#![allow(unsafe_code, reason = "fence: the caller's memory, read and written as the header says")]
//! The caller's memory: memory that the caller lends for a call, and results that the caller owns.
//!
//! All functions here have the contract of the header: a pointer is NULL or readable for the given length. They check
//! for NULL, and refuse a length above the limit of keys or values before they read anything.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use waxseal::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

use crate::failure::Failure;

/// Returns the bytes of a key.
///
/// # Safety
/// `data` is NULL or readable for `len` bytes until the call returns.
#[inline]
pub(crate) unsafe fn key<'a>(data: *const c_char, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: this function's contract.
    unsafe { bytes(data, len, MAX_KEY_BYTES, "a key") }
}

/// Returns the bytes of a value.
///
/// # Safety
/// As of `key`.
#[inline]
pub(crate) unsafe fn value<'a>(data: *const c_char, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: this function's contract.
    unsafe { bytes(data, len, MAX_VALUE_BYTES, "a value") }
}

/// # Safety
/// As of `key`.
#[inline]
unsafe fn bytes<'a>(data: *const c_char, len: usize, most: usize, what: &str) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if len > most {
        return Err(Failure::invalid(format_args!("{what} of {len} bytes: {most} at most")));
    }
    if data.is_null() {
        return Err(Failure::invalid(format_args!("{what} is NULL, with a length of {len}")));
    }
    // SAFETY: not NULL, and readable for `len` bytes by this function's contract; `most` keeps it below isize::MAX.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// Returns bytes of any length from a callback; `None` for NULL.
///
/// # Safety
/// As of `key`; the length is trusted.
pub(crate) unsafe fn handed<'a>(data: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: this function's contract.
    (!data.is_null() && len <= isize::MAX as usize).then(|| unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// Returns a text without its terminating zero; `None` for NULL.
///
/// # Safety
/// `text` is NULL or zero-terminated, and unchanged until the call returns.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not NULL, and zero-terminated.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns the directory of a store.
///
/// # Safety
/// As of `text`.
pub(crate) unsafe fn directory(name: *const c_char) -> Result<PathBuf, Failure> {
    // SAFETY: this function's contract.
    match unsafe { text(name) } {
        None => Err(Failure::invalid("the name is NULL")),
        Some([]) => Err(Failure::invalid("the name is empty")),
        Some(name) => Ok(PathBuf::from(OsStr::from_bytes(name))),
    }
}

/// Returns an element of an array; `None` if the array is NULL.
///
/// # Safety
/// `array` is NULL or has more than `at` elements.
pub(crate) unsafe fn element<T: Copy>(array: *const T, at: usize) -> Option<T> {
    // SAFETY: not NULL, and the array has the element.
    (!array.is_null()).then(|| unsafe { array.add(at).read() })
}

/// Writes a result to the caller's place; does nothing for NULL.
///
/// # Safety
/// `to` is NULL or writable.
#[inline]
pub(crate) unsafe fn give<T>(to: *mut T, answer: T) {
    if !to.is_null() {
        // SAFETY: not NULL, and writable.
        unsafe { to.write(answer) }
    }
}

/// Writes a result to an element of an array.
///
/// # Safety
/// `array` is NULL or has more than `at` elements.
pub(crate) unsafe fn give_at<T>(array: *mut T, at: usize, answer: T) {
    if !array.is_null() {
        // SAFETY: not NULL, and the array has the element.
        unsafe { array.add(at).write(answer) }
    }
}

/// Returns a `malloc`ed copy, followed by a zero byte. Returns NULL if the allocation fails.
pub(crate) fn malloced(bytes: &[u8]) -> *mut c_char {
    let Some(room) = bytes.len().checked_add(1) else { return std::ptr::null_mut() };
    // SAFETY: `malloc` accepts any size.
    let copy = unsafe { libc::malloc(room) }.cast::<u8>();
    if !copy.is_null() {
        // SAFETY: the copy is new and has room for the bytes and the zero.
        unsafe {
            copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            copy.add(bytes.len()).write(0);
        }
    }
    copy.cast()
}

/// Frees `malloc`ed memory.
///
/// # Safety
/// `memory` is NULL, or was `malloc`ed and not freed yet.
pub(crate) unsafe fn free(memory: *mut c_void) {
    // SAFETY: this function's contract.
    unsafe { libc::free(memory) }
}

/// Reports a failure: replaces the text in `*errptr`, and frees the old text.
///
/// # Safety
/// `errptr` is NULL, or points to NULL or to a `malloc`ed text.
#[cold]
pub(crate) unsafe fn report(errptr: *mut *mut c_char, failure: &Failure) {
    if errptr.is_null() {
        return;
    }
    // A zero byte would end the C string early.
    let text: Vec<u8> = failure.text().bytes().map(|byte| if byte == 0 { b'?' } else { byte }).collect();
    // SAFETY: `errptr` is not NULL, and `*errptr` is NULL or was `malloc`ed.
    unsafe {
        free((*errptr).cast());
        errptr.write(malloced(&text));
    }
}

/// Runs a call. On a failure, which it reports, and on a panic the result is `otherwise`.
///
/// # Safety
/// As of `report`.
#[inline]
pub(crate) unsafe fn answer<R>(errptr: *mut *mut c_char, otherwise: R, call: impl FnOnce() -> Result<R, Failure>) -> R {
    match catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic))) {
        Ok(done) => done,
        Err(failure) => {
            // SAFETY: this function's contract.
            unsafe { report(errptr, &failure) };
            otherwise
        }
    }
}

/// Runs a call that cannot report an error.
#[inline]
pub(crate) fn quietly<R>(otherwise: R, call: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        panicked(panic);
        otherwise
    })
}

/// Converts a panic, which is a bug of this library, to an error.
#[cold]
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Failure {
    let what = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let failure = Failure::io(format_args!("internal error: {}", what.unwrap_or("a panic")));
    std::mem::forget(panic); // dropping it could panic again
    failure
}

/// Returns the effective user id of the process.
pub(crate) fn user() -> u32 {
    // SAFETY: `geteuid` has no preconditions.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn what_no_key_can_be_is_refused_before_it_is_read() {
        let somewhere = std::ptr::dangling::<c_char>();
        // SAFETY: none of these reads a byte.
        unsafe {
            assert_eq!(key(null(), 0).unwrap(), b"");
            assert_eq!(key(somewhere, 0).unwrap(), b"");
            assert!(key(null(), 1).unwrap_err().text().contains("NULL"));
            assert!(key(somewhere, 65_536).unwrap_err().text().contains("65535 at most"));
            assert!(key(somewhere, usize::MAX).is_err());
            assert!(value(somewhere, 1 << 32).is_err());
            assert!(text(null()).is_none());
            assert!(directory(null()).is_err());
            assert!(directory(c"".as_ptr()).is_err());
        }
    }

    #[test]
    fn a_failure_takes_the_place_of_the_one_before_and_success_leaves_it() {
        let mut err = std::ptr::null_mut();
        // SAFETY: `err` is NULL or what was put there.
        unsafe {
            assert_eq!(answer(&mut err, 0, || Ok(7)), 7);
            assert!(err.is_null());
            assert_eq!(answer(&mut err, 0, || Err(Failure::io("one\0two"))), 0);
            assert_eq!(text(err).unwrap(), b"IO error: one?two");
            assert_eq!(answer(&mut err, 0, || panic!("three")), 0);
            assert_eq!(text(err).unwrap(), b"IO error: internal error: three");
            assert_eq!(answer(&mut err, 0, || Ok(7)), 7);
            assert_eq!(text(err).unwrap(), b"IO error: internal error: three");
            answer(std::ptr::null_mut(), (), || Err(Failure::io("nobody listens")));
            free(err.cast());
        }
        assert_eq!(quietly(1, || panic!("unheard")), 1);
    }
}
