//! Signals during long calls: the interrupt function of Python's main thread.

use std::cell::RefCell;
use std::ffi::c_void;

use pyo3::prelude::*;

thread_local! {
    /// The exception of a signal handler, until the interrupted call raises it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs the handlers of pending signals. Returns nonzero once a handler has raised an exception.
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

/// Returns the address of the interrupt function for the library.
#[pyfunction]
pub(crate) fn interrupt_address() -> usize {
    poll as *const () as usize
}

/// Returns, once, the exception that a handler raised on this thread.
#[pyfunction]
pub(crate) fn take_interrupt(py: Python<'_>) -> Option<Py<PyAny>> {
    raised().map(|error| error.into_value(py).into_any())
}

/// As `take_interrupt`, as an error.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.with(|raised| raised.borrow_mut().take())
}
