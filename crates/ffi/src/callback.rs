//! Calls of callbacks, functions that the caller supplied.
//!
//! In:     a function, the `context` that it receives, and optionally a function that destroys that context.
//! Holds:  a callback reports failure by its status, and the reason by an error that it creates; the call in which it
//!         ran returns `WAXSEAL_CALLBACK` with that reason. The store that calls it is busy meanwhile (`reentry`).
//! Trust:  that a callback does not unwind or `longjmp` out of itself, and that any thread may use `context`.

use std::ffi::c_void;

use face::Result;

use crate::error::{taken_message, waxseal_error_t};
use crate::failure::{Failed, failed};
use crate::reentry::Caller;

/// Destroys a context. Called once, after the last use of the context, on the thread that used it last.
pub type waxseal_destroy_fn = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// The context of a callback.
pub(crate) struct Context {
    pointer: *mut c_void,
    destroy: waxseal_destroy_fn,
}

// SAFETY: the header requires that any thread may use a context.
unsafe impl Send for Context {}
// SAFETY: likewise, and several threads at once.
unsafe impl Sync for Context {}

impl Context {
    /// Wraps a context, which `destroy`, if set, destroys when this value is dropped.
    pub(crate) fn new(pointer: *mut c_void, destroy: waxseal_destroy_fn) -> Context {
        Context { pointer, destroy }
    }

    /// Returns the caller's pointer.
    pub(crate) fn get(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy.take() {
            // SAFETY: the header promises one call, after the last use, and this is it.
            unsafe { destroy(self.pointer) }
        }
    }
}

/// Runs a callback that returns a status and may leave an error in the place that it receives. Destroys that error. A
/// negative status becomes an error that `has_failed` recognizes.
pub(crate) fn ask(caller: &Caller, name: &str, function: impl FnOnce(*mut *mut waxseal_error_t) -> i32) -> Result<i32> {
    try_ask(caller, function).map_err(|Failed(reason)| failed(name, reason))
}

/// As `ask`, with the bare reason for a failure.
pub(crate) fn try_ask(
    caller: &Caller,
    function: impl FnOnce(*mut *mut waxseal_error_t) -> i32,
) -> std::result::Result<i32, Failed> {
    let mut reason: *mut waxseal_error_t = std::ptr::null_mut();
    let status = caller.calls(|| function(&mut reason));
    let answer_given = taken_message(reason);
    if status >= 0 {
        return Ok(status);
    }
    Err(Failed(answer_given.unwrap_or_else(|| format!("it answered {status} and no reason"))))
}
