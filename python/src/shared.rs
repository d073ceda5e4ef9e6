//! What all objects of one open store share: whether it is closed, in which process it lives, and how its errors become exceptions.

use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::c::{self, Handle, Slice};
use crate::interrupt;

/// How many forks lie between this process and the first one that loaded the module.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Tells the module that this process is the child of a fork; Python calls it there.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The state of one open store, behind every object that was made from it.
pub(crate) struct Shared {
    closed: AtomicBool,
    born: u64,
    /// Makes an exception of a status and its story.
    make_error: Py<PyAny>,
}

impl Shared {
    /// An exception if the store was closed, or belongs to the parent of this process.
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

    /// False in a child of the process that opened the store: its handles must not be touched, not even to end them.
    pub(crate) fn is_here(&self) -> bool {
        self.born == FORKS.load(Ordering::Relaxed)
    }

    /// The exception of a status that this module found out by itself.
    #[cold]
    pub(crate) fn error(&self, py: Python<'_>, status: i32, message: &str) -> PyErr {
        let none = py.None();
        self.make(py, (status, message, &none, &none, &none, &none, &none))
    }

    /// The exception of a call that failed. Its error object is ended.
    #[cold]
    pub(crate) fn failure(&self, py: Python<'_>, status: i32, error: Handle) -> PyErr {
        if status == c::WAXSEAL_INTERRUPTED
            && let Some(raised) = interrupt::raised()
        {
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

/// A text of an error object, copied.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null; the library's texts end with a zero byte and live as long as the error, which is ended later.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn key_range<'py>(py: Python<'py>, error: Handle) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (mut smallest, mut largest) = (Slice::EMPTY, Slice::EMPTY);
    // SAFETY: both places may be written.
    let status = unsafe { c::waxseal_error_key_range(error, &raw mut smallest, &raw mut largest) };
    if status != c::WAXSEAL_OK {
        return None;
    }
    // SAFETY: both slices live as long as the error.
    let (smallest, largest) = unsafe { (bytes_at(smallest), bytes_at(largest)) };
    Some((PyBytes::new(py, smallest), PyBytes::new(py, largest)))
}

/// Bytes that the library lends.
///
/// # Safety
/// The slice is alive for `'a`.
#[inline]
pub(crate) unsafe fn bytes_at<'a>(slice: Slice) -> &'a [u8] {
    if slice.len == 0 {
        return &[];
    }
    // SAFETY: the library lends readable bytes with their length; null has length 0.
    unsafe { std::slice::from_raw_parts(slice.data, slice.len) }
}

/// An open store, as far as its objects have to know of it.
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

    /// True once the store was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// True in the process that opened the store, false in its children.
    #[getter]
    fn here(&self) -> bool {
        self.shared.is_here()
    }

    /// Marks the store as closed. False if it was.
    fn close(&self) -> bool {
        !self.shared.closed.swap(true, Ordering::AcqRel)
    }

    /// Raises if the store was closed, or belongs to the parent of this process.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check(py)
    }
}
