//! The state that all objects of one open store share: whether it is closed, its process, and the conversion of its
//! errors to exceptions.

use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::c::{self, Handle, Slice};
use crate::interrupt;

/// Number of forks between the process that loaded the module first and this process.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Tells the module that the process is a forked child; Python calls it there.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The state of one open store, shared by every object made from it.
pub(crate) struct Shared {
    closed: AtomicBool,
    born: u64,
    /// The function that makes an exception of a status and its details.
    make_error: Py<PyAny>,
}

impl Shared {
    /// Fails if the store is closed, or belongs to the parent of this process.
    #[inline]
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(self.error(py, c::WAXSEAL_CLOSED, "the store was closed"));
        }
        if !self.is_here() {
            return Err(self.error(
                py,
                c::WAXSEAL_CLOSED,
                "the store was opened before a fork: open it again in this process",
            ));
        }
        Ok(())
    }

    /// False in a forked child of the process that opened the store: the child must not use the store's handles, not
    /// even to destroy them.
    pub(crate) fn is_here(&self) -> bool {
        self.born == FORKS.load(Ordering::Relaxed)
    }

    /// Returns the exception of a status that this module detected.
    #[cold]
    pub(crate) fn error(&self, py: Python<'_>, status: i32, message: &str) -> PyErr {
        let none = py.None();
        self.make(py, (status, message, &none, &none, &none, &none, &none))
    }

    /// Returns the exception of a failed call, and destroys its error object.
    #[cold]
    pub(crate) fn failure(&self, py: Python<'_>, status: i32, error: Handle) -> PyErr {
        if let Some(raised) = interrupt::raised() {
            c::waxseal_error_destroy(error);
            return raised;
        }
        let damaged = c::waxseal_error_verdict(error) != c::WAXSEAL_VERDICT_NONE;
        let (file, family) = (text(c::waxseal_error_file(error)), text(c::waxseal_error_family(error)));
        let offset = (damaged && !file.is_empty()).then(|| c::waxseal_error_offset(error));
        let arguments = (
            status,
            text(c::waxseal_error_message(error)),
            (!file.is_empty()).then_some(file),
            offset,
            (!family.is_empty()).then_some(family),
            key_range(py, error),
            damaged.then(|| c::waxseal_error_verdict(error)),
        );
        let exception = self.make(py, arguments);
        c::waxseal_error_destroy(error);
        exception
    }

    fn make<'py>(&self, py: Python<'py>, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
        match self.make_error.bind(py).call1(arguments) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }
}

/// Copies a text of an error object.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null; the library's texts are zero-terminated and valid until the error is destroyed, which comes
    // later.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn key_range<'py>(py: Python<'py>, error: Handle) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (mut smallest, mut largest) = (Slice::EMPTY, Slice::EMPTY);
    // SAFETY: both places are writable.
    let status = unsafe { c::waxseal_error_key_range(error, &raw mut smallest, &raw mut largest) };
    if status != c::WAXSEAL_OK {
        return None;
    }
    // SAFETY: both slices are valid as long as the error.
    let (smallest, largest) = unsafe { (bytes_at(smallest), bytes_at(largest)) };
    Some((PyBytes::new(py, smallest), PyBytes::new(py, largest)))
}

/// Returns bytes that the library lends.
///
/// # Safety
/// The slice is valid for `'a`.
#[inline]
pub(crate) unsafe fn bytes_at<'a>(slice: Slice) -> &'a [u8] {
    if slice.len == 0 {
        return &[];
    }
    // SAFETY: the library lends readable bytes with their length; null has length 0.
    unsafe { std::slice::from_raw_parts(slice.data, slice.len) }
}

/// The part of an open store that its objects need.
#[pyclass(frozen, module = "waxseal._native")]
pub(crate) struct Store {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Store {
    #[new]
    fn new(make_error: Py<PyAny>) -> Store {
        let born = FORKS.load(Ordering::Relaxed);
        Store { shared: Arc::new(Shared { closed: AtomicBool::new(false), born, make_error }) }
    }

    /// True once the store is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// True in the process that opened the store, false in its forked children.
    #[getter]
    fn here(&self) -> bool {
        self.shared.is_here()
    }

    /// Marks the store as closed. Returns false if it already was.
    fn close(&self) -> bool {
        !self.shared.closed.swap(true, Ordering::AcqRel)
    }

    /// Raises if the store is closed, or belongs to the parent of this process.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check(py)
    }
}
