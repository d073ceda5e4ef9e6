//! Point reads of one column family, in its current state or at a snapshot.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::arguments::bytes_of;
use crate::c::{self, Handle, Slice};
use crate::interrupt;
use crate::shared::{Shared, Store, bytes_at};

/// Values up to this size are first read to the stack, so that only the result is allocated.
const SHORT: usize = 4096;

/// Reads one column family: `Reader(store, family, snapshot=0)`, by handles of the library.
#[pyclass(frozen, subclass, module = "waxseal._native")]
pub(crate) struct Reader {
    pub(crate) shared: Arc<Shared>,
    pub(crate) family: Handle,
    pub(crate) snapshot: Handle,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (store, family, snapshot=0))]
    pub(crate) fn new(store: &Store, family: Handle, snapshot: Handle) -> Reader {
        Reader { shared: Arc::clone(&store.shared), family, snapshot }
    }

    /// Returns the value of a key, or `default` if the key does not exist.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.read(key)?.map(Bound::into_any).or(default))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let bytes = bytes_of(key, "key")?;
        self.shared.check(py)?;
        let (family, snapshot, bytes) = (self.family, self.snapshot, &*bytes);
        let (status, error) = py.detach(|| {
            let mut error = 0;
            // SAFETY: the key is readable, the error is writable.
            let status = unsafe { c::waxseal_contains(family, snapshot, bytes.as_ptr(), bytes.len(), &raw mut error) };
            (status, error)
        });
        if status < 0 {
            return Err(self.shared.failure(py, status, error));
        }
        interrupt::check()?;
        Ok(status == c::WAXSEAL_OK)
    }

    /// Returns the values of several keys, in their order, all read at one point in time; None for missing keys.
    fn multi_get<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = keys.py();
        let keys: Vec<Bound<'_, PyAny>> = keys.try_iter()?.collect::<PyResult<_>>()?;
        let bytes = keys.iter().map(|key| bytes_of(key, "key")).collect::<PyResult<Vec<_>>>()?;
        self.shared.check(py)?;
        let (family, snapshot) = (self.family, self.snapshot);
        let bytes: Vec<&[u8]> = bytes.iter().map(|key| &**key).collect();
        let (status, values, error) = py.detach(|| {
            let slices: Vec<Slice> = bytes.iter().map(|key| Slice::of(key)).collect();
            let (mut values, mut error) = (0, 0);
            // SAFETY: the slices and their keys are readable; handle and error are writable.
            let status = unsafe {
                let (values, error) = (&raw mut values, &raw mut error);
                c::waxseal_multi_get(family, snapshot, slices.as_ptr(), slices.len(), values, error)
            };
            (status, values, error)
        });
        if status < 0 {
            return Err(self.shared.failure(py, status, error));
        }
        let found = (0..keys.len()).map(|index| value_at(py, values, index));
        let list = PyList::new(py, found.collect::<Vec<_>>());
        c::waxseal_values_destroy(values);
        interrupt::check()?;
        list
    }
}

impl Reader {
    /// Returns the value of a key; `None` if the key does not exist.
    #[inline]
    fn read<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.look(key)?;
        interrupt::check()?;
        Ok(found)
    }

    #[inline]
    fn look<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = key.py();
        let bytes = bytes_of(key, "key")?;
        self.shared.check(py)?;
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; SHORT];
        // A read from memory takes less time than releasing the GIL and acquiring it again.
        let (status, length, error) = match self.read_by(c::waxseal_get_resident, &bytes, &mut buffer) {
            (c::WAXSEAL_NOT_RESIDENT, ..) => return self.read_file(py, &bytes),
            answer => answer,
        };
        match status {
            // SAFETY: the library has written `length` bytes, which fitted into the buffer.
            c::WAXSEAL_OK => Ok(Some(unsafe { PyBytes::from_ptr(py, buffer.as_ptr().cast(), length) })),
            c::WAXSEAL_NOT_FOUND => Ok(None),
            c::WAXSEAL_TOO_SMALL => self.read_long(py, &bytes, length),
            _ => Err(self.shared.failure(py, status, error)),
        }
    }

    /// Reads a value that is not in memory, with one call whatever its length.
    #[cold]
    fn read_file<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (family, snapshot) = (self.family, self.snapshot);
        let (status, value, error) = py.detach(|| {
            let (mut value, mut error) = (0, 0);
            // SAFETY: the key is readable; value and error are writable.
            let status =
                unsafe { c::waxseal_get(family, snapshot, key.as_ptr(), key.len(), &raw mut value, &raw mut error) };
            (status, value, error)
        });
        match status {
            c::WAXSEAL_OK => {
                // SAFETY: the library's bytes are valid until they are destroyed, which comes later.
                let found = PyBytes::new(py, unsafe { bytes_at(c::waxseal_bytes_slice(value)) });
                c::waxseal_bytes_destroy(value);
                Ok(Some(found))
            }
            c::WAXSEAL_NOT_FOUND => Ok(None),
            _ => Err(self.shared.failure(py, status, error)),
        }
    }

    /// Reads a value that is longer than the stack buffer directly into the result, which has the length that the
    /// previous call returned.
    #[cold]
    fn read_long<'py>(&self, py: Python<'py>, key: &[u8], length: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut length = length;
        loop {
            let mut answer = (c::WAXSEAL_OK, 0, 0);
            let value = PyBytes::new_with(py, length, |buffer| {
                let place = buffer.as_mut_ptr().cast::<MaybeUninit<u8>>();
                // SAFETY: the same bytes, viewed as possibly uninitialized.
                let buffer = unsafe { std::slice::from_raw_parts_mut(place, buffer.len()) };
                answer = py.detach(|| self.read_into(key, buffer));
                Ok(())
            })?;
            match answer {
                (c::WAXSEAL_OK, found, _) if found == length => return Ok(Some(value)),
                // Another thread has made the value shorter or longer.
                (c::WAXSEAL_OK, found, _) => return Ok(Some(PyBytes::new(py, &value.as_bytes()[..found]))),
                (c::WAXSEAL_NOT_FOUND, _, _) => return Ok(None),
                (c::WAXSEAL_TOO_SMALL, needed, _) => length = needed,
                (status, _, error) => return Err(self.shared.failure(py, status, error)),
            }
        }
    }

    /// Returns the status, the length of the value and the error.
    #[inline]
    fn read_into(&self, key: &[u8], buffer: &mut [MaybeUninit<u8>]) -> (i32, usize, Handle) {
        self.read_by(c::waxseal_get_into, key, buffer)
    }

    /// As `read_into`, with a chosen function of the library.
    #[inline]
    fn read_by(&self, call: c::GetInto, key: &[u8], buffer: &mut [MaybeUninit<u8>]) -> (i32, usize, Handle) {
        let (mut length, mut error) = (0, 0);
        // SAFETY: the key is readable, the buffer is writable for its length; length and error are writable.
        let status = unsafe {
            call(
                self.family,
                self.snapshot,
                key.as_ptr(),
                key.len(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut length,
                &raw mut error,
            )
        };
        (status, length, error)
    }
}

/// Returns the value at an index in the result of a multi-key read.
fn value_at(py: Python<'_>, values: Handle, index: usize) -> Option<Bound<'_, PyBytes>> {
    let mut value = Slice { data: ptr::null(), len: 0 };
    // SAFETY: the slice is writable.
    let status = unsafe { c::waxseal_values_at(values, index, &raw mut value) };
    // SAFETY: valid until the values are destroyed, which comes later.
    (status == c::WAXSEAL_OK).then(|| PyBytes::new(py, unsafe { bytes_at(value) }))
}
