//! Signals during calls of Python's main thread. The library polls for them during long calls. An exception that a
//! signal handler raised inside a comparator is kept here until the interrupted call ends, which then raises it.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;

thread_local! {
    /// The exception of a signal handler, until the interrupted call raises it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// How many threads have such an exception: none, nearly always, so that calls look here first.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Runs the handlers of signals that came. Not 0 once one of them has raised.
unsafe extern "C" fn poll(_context: *mut c_void) -> i32 {
    if RAISED.with(|raised| raised.borrow().is_some()) {
        return 1;
    }
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => 0,
        Err(error) => {
            keep(error);
            1
        }
    }
}

/// Keeps an exception for the end of this thread's call; the first one of several.
#[cold]
pub(crate) fn keep(error: PyErr) {
    RAISED.with_borrow_mut(|raised| {
        if raised.is_none() {
            *raised = Some(error);
            KEPT.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// The same, for Python.
#[pyfunction]
pub(crate) fn keep_interrupt(error: Bound<'_, PyAny>) {
    keep(PyErr::from_value(error));
}

/// The address of the function that the library asks.
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
    if KEPT.load(Ordering::Relaxed) == 0 { None } else { taken() }
}

#[cold]
fn taken() -> Option<PyErr> {
    let taken = RAISED.take()?;
    KEPT.fetch_sub(1, Ordering::Relaxed);
    Some(taken)
}

/// Raises what a handler raised during the call that has just answered, if one did.
#[inline]
pub(crate) fn check() -> PyResult<()> {
    raised().map_or(Ok(()), Err)
}
