//! Arrow streams, wrapped for Python: the capsule of the Arrow protocol.
//!
//! The library makes the stream; this file moves it into a capsule that whoever reads Arrow takes it from. A capsule that nobody took
//! anything from releases the stream.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The capsule's name, as the protocol says.
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
/// The address is of a stream that the library made and that was not released; what stands there belongs to the capsule afterwards.
#[pyfunction]
pub(crate) fn stream_capsule(py: Python<'_>, address: usize) -> PyResult<Bound<'_, PyCapsule>> {
    let place = ptr::with_exposed_provenance_mut::<ArrowArrayStream>(address);
    if !place.is_aligned() || place.is_null() {
        return Err(PyValueError::new_err("no stream stands at this address"));
    }
    // SAFETY: the package calls this with the address of a stream alone; a move leaves a released one behind, as Arrow's rules say.
    let stream = unsafe {
        let stream = place.read();
        (*place).release = None;
        NonNull::from(Box::leak(Box::new(stream)))
    };
    // SAFETY: the pointer is a box's, and the destructor of the capsule ends it.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, stream.cast(), NAME, Some(destroy)) }
}

/// Releases the stream of a capsule, unless somebody has moved it out, and ends its box.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is one of `stream_capsule`, whose pointer is a box's that nobody else ends.
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
