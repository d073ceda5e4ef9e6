//! Signals during long calls: what the library asks while a call of Python's main thread goes on.

use std::cell::RefCell;
use std::ffi::c_void;

use pyo3::prelude::*;

thread_local! {
    /// What the handler of a signal raised, until the call that it ended raises it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs the handlers of signals that came. Not 0 once one of them has raised.
unsafe extern "C" fn poll(_context: *mut c_void) -> i32 {
    if RAISED.with(|raised| raised.borrow().is_some()) {
        return 1;
    }
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => 0,
        Err(error) => {
            RAISED.with(|raised| raised.replace(Some(error)));
            1
        }
    }
}

/// The address of the function that the library asks.
#[pyfunction]
pub(crate) fn interrupt_address() -> usize {
    poll as *const () as usize
}

/// What a handler raised on this thread, once.
#[pyfunction]
pub(crate) fn take_interrupt(py: Python<'_>) -> Option<Py<PyAny>> {
    raised().map(|error| error.into_value(py).into_any())
}

/// The same as an error.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.with(|raised| raised.borrow_mut().take())
}
