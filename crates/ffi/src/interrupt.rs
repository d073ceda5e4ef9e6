//! Interrupts: how a thread stops its own long-running call.

use std::ffi::c_void;

use face::interrupt;

use crate::call::status_of;
use crate::reentry::calls_from_any;

/// Interrupt function, called about every 10 ms by long calls of the thread that set it, on that thread. It returns 0
/// to continue; any other value stops the call with `WAXSEAL_INTERRUPTED`. It must not call the library with an object
/// of a store, and must not end its thread.
pub type waxseal_interrupt_fn = Option<unsafe extern "C" fn(context: *mut c_void) -> i32>;

/// Sets the interrupt function of the calling thread's long calls; null removes it. Long calls are those that flush,
/// compact, settle, wait out a write stall, verify or repair a store, count, copy, export or import.
/// A wait for the device itself is not interrupted. The work that an interrupted call had finished stays, and the call
/// may be repeated.
///
/// Thread-safe: each thread sets its own function. `function` and `context` must stay valid until they are replaced or
/// the thread ends. Never fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_set_interrupt(function: waxseal_interrupt_fn, context: *mut c_void) -> i32 {
    status_of(|| {
        interrupt::set(function.map(|function| -> Box<dyn Fn() -> bool> {
            // SAFETY: the header asks that the function and its context be good for calls on this thread.
            Box::new(move || calls_from_any(|| unsafe { function(context) }) != 0)
        }));
        Ok(())
    })
}
