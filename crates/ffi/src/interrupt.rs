//! Interrupts: how a thread ends the long call that it is making.

use std::ffi::c_void;

use face::interrupt;

use crate::call::status_of;
use crate::callback::calls_from_any;

/// Is asked about every 10 ms by long calls of the thread that set it, on that thread. Answers 0 to go on; anything else ends the call with
/// `WAXSEAL_INTERRUPTED`. It must not call the library with an object of a store, and must not end its thread.
pub type waxseal_interrupt_fn = Option<unsafe extern "C" fn(context: *mut c_void) -> i32>;

/// From now on the calling thread's long calls ask `function` whether they are to end; null: they ask nobody. These are calls that flush,
/// compact, settle, wait for room, look at a store, count, copy, export or import; waiting for the device itself is not interrupted. What an
/// interrupted call had finished stays, and the call may be repeated.
///
/// Thread-safe: each thread sets its own. `function` and `context` must be good until they are replaced or the thread ends. Never fails.
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
