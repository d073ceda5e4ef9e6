//! Orders of keys that functions of Python's say.
//!
//! The handler of a signal may raise at any instruction of such a function, and leave it without an answer. Its
//! exception is kept for the end of the call in which the library compares, and the function is asked again: it has no
//! answer yet, and the library cannot go on without one.

use std::ffi::c_void;

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::c;
use crate::interrupt;

/// A function that was left so often has failed.
const MOST_ATTEMPTS: usize = 16;

/// Asks a function of Python's, whose object is the context.
///
/// # Safety
/// The context is an object that lives as long as the store; the keys are readable.
unsafe extern "C" fn compare(context: *mut c_void, a: *const u8, a_len: usize, b: *const u8, b_len: usize) -> i32 {
    let said = Python::try_attach(|py| {
        // SAFETY: the caller promises it.
        let function = unsafe { Borrowed::<PyAny>::from_ptr(py, context.cast()) };
        // SAFETY: likewise; a key that has a length has an address.
        let key = |data, len| PyBytes::new(py, unsafe { crate::shared::bytes_at(c::Slice { data, len }) });
        let keys = (key(a, a_len), key(b, b_len));
        for _ in 0..MOST_ATTEMPTS {
            match function.call1((&keys.0, &keys.1)).and_then(|said| said.extract()) {
                Ok(said) => return said,
                Err(error) => interrupt::keep(error),
            }
        }
        c::WAXSEAL_COMPARE_FAILED
    });
    said.unwrap_or(c::WAXSEAL_COMPARE_FAILED) // the interpreter ends
}

/// The address of the function that the library asks.
#[pyfunction]
pub(crate) fn compare_address() -> usize {
    compare as *const () as usize
}
