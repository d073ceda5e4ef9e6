//! Arguments from Python: bytes, or any object with a buffer.
//!
//! `bytes` objects are immutable and are borrowed. Any other buffer is copied first: other threads may modify or shrink
//! it while the GIL is released.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

/// Returns the bytes of an argument; error messages call it `what`.
#[inline]
pub(crate) fn bytes_of<'a>(argument: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Cow<'a, [u8]>> {
    match argument.cast::<PyBytes>() {
        Ok(bytes) => Ok(Cow::Borrowed(bytes.as_bytes())),
        Err(_) => copied(argument, what),
    }
}

/// Returns the bytes of a bound of a key range; `None` is no bound.
pub(crate) fn bound_of<'a>(bound: Option<&'a Bound<'_, PyAny>>, what: &str) -> PyResult<Option<Cow<'a, [u8]>>> {
    bound.map(|bound| bytes_of(bound, what)).transpose()
}

/// Returns the pointer and the length of a bound in the library's form.
pub(crate) fn lent_bound(bound: Option<&[u8]>) -> (*const u8, usize) {
    bound.map_or((std::ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()))
}

#[cold]
fn copied(argument: &Bound<'_, PyAny>, what: &str) -> PyResult<Cow<'static, [u8]>> {
    if argument.is_instance_of::<PyString>() {
        let message = format!("a {what} is bytes, and this is str: say which encoding, as in {what}.encode(\"utf-8\")");
        return Err(PyTypeError::new_err(message));
    }
    let view = PyMemoryView::from(argument).map_err(|_| refused(argument, what))?;
    let bytes = view.call_method0("tobytes")?;
    Ok(Cow::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
}

#[cold]
fn refused(argument: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let kind = argument.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("a {what} is bytes or has a buffer of them, and {kind} has none"))
}
