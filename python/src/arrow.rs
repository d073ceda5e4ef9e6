//! Arrow streams for Python: the capsule of the Arrow protocol.
//!
//! The library makes the stream; this file moves it into a capsule, from which an Arrow consumer takes it. If no
//! consumer took the stream, the capsule's destructor releases it.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The capsule's name, as the protocol requires.
const NAME: &CStr = c"arrow_array_stream";

/// The struct of the Arrow C stream interface, byte for byte.
#[repr(C)]
struct ArrowArrayStream {
    get_schema: *mut c_void,
    get_next: *mut c_void,
    get_last_error: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// Moves the stream at an address into a capsule.
///
/// The address holds a stream that the library made and that is not released; afterwards its content belongs to the
/// capsule.
#[pyfunction]
pub(crate) fn stream_capsule(py: Python<'_>, address: usize) -> PyResult<Bound<'_, PyCapsule>> {
    let place = ptr::with_exposed_provenance_mut::<ArrowArrayStream>(address);
    if !place.is_aligned() || place.is_null() {
        return Err(PyValueError::new_err("no stream stands at this address"));
    }
    // SAFETY: the package passes only addresses of streams; by Arrow's rules a move leaves a released stream behind.
    let stream = unsafe {
        let stream = place.read();
        (*place).release = None;
        NonNull::from(Box::leak(Box::new(stream)))
    };
    // SAFETY: the pointer comes from a box, which the capsule's destructor frees.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, stream.cast(), NAME, Some(destroy)) }
}

/// Releases the stream of a capsule, unless a consumer has moved it out, and frees its box.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: `stream_capsule` made the capsule; its pointer is a box that only this destructor frees.
    unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr());
        if pointer.is_null() {
            return;
        }
        let mut stream = Box::from_raw(pointer.cast::<ArrowArrayStream>());
        if let Some(release) = stream.release {
            release(&raw mut *stream);
        }
    }
}
