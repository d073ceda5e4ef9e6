//! Point reads of one column family, as it is now or as a snapshot sees it.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::arguments::bytes_of;
use crate::c::{self, Handle, Slice};
use crate::shared::{Shared, Store, bytes_at};

/// Values up to this size are read to the stack first, so that nothing is allocated but the answer.
const SHORT: usize = 4096;

/// Reads one column family: `Reader(store, family, snapshot=0)`, by the handles of the library.
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

    /// The value of a key, or `default` if it is not there.
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
            // SAFETY: the key is readable, the error may be written.
            let status = unsafe { c::waxseal_contains(family, snapshot, bytes.as_ptr(), bytes.len(), &raw mut error) };
            (status, error)
        });
        if status < 0 { Err(self.shared.failure(py, status, error)) } else { Ok(status == c::WAXSEAL_OK) }
    }

    /// The values of many keys, in their order, all as they were at one moment; None for those that are not there.
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
            // SAFETY: the slices are readable, and so are the keys that they name; handle and error may be written.
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
        list
    }
}

impl Reader {
    /// The value of a key; none if it is not there.
    #[inline]
    fn read<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = key.py();
        let bytes = bytes_of(key, "key")?;
        self.shared.check(py)?;
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; SHORT];
        // What is in memory takes less time than to let others run and wait for the turn again.
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

    /// Reads a value that is not in memory: once, whatever its length is.
    #[cold]
    fn read_file<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (family, snapshot) = (self.family, self.snapshot);
        let (status, value, error) = py.detach(|| {
            let (mut value, mut error) = (0, 0);
            // SAFETY: the key is readable; value and error may be written.
            let status =
                unsafe { c::waxseal_get(family, snapshot, key.as_ptr(), key.len(), &raw mut value, &raw mut error) };
            (status, value, error)
        });
        match status {
            c::WAXSEAL_OK => {
                // SAFETY: the library's bytes live until they are destroyed, which comes later.
                let found = PyBytes::new(py, unsafe { bytes_at(c::waxseal_bytes_slice(value)) });
                c::waxseal_bytes_destroy(value);
                Ok(Some(found))
            }
            c::WAXSEAL_NOT_FOUND => Ok(None),
            _ => Err(self.shared.failure(py, status, error)),
        }
    }

    /// Reads a value that is longer than the buffer on the stack: into the answer itself, which is as long as it was a moment ago.
    #[cold]
    fn read_long<'py>(&self, py: Python<'py>, key: &[u8], length: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut length = length;
        loop {
            let mut answer = (c::WAXSEAL_OK, 0, 0);
            let value = PyBytes::new_with(py, length, |buffer| {
                let place = buffer.as_mut_ptr().cast::<MaybeUninit<u8>>();
                // SAFETY: the same bytes, seen as bytes that need not be written.
                let buffer = unsafe { std::slice::from_raw_parts_mut(place, buffer.len()) };
                answer = py.detach(|| self.read_into(key, buffer));
                Ok(())
            })?;
            match answer {
                (c::WAXSEAL_OK, found, _) if found == length => return Ok(Some(value)),
                // Others have made it shorter since, or longer.
                (c::WAXSEAL_OK, found, _) => return Ok(Some(PyBytes::new(py, &value.as_bytes()[..found]))),
                (c::WAXSEAL_NOT_FOUND, _, _) => return Ok(None),
                (c::WAXSEAL_TOO_SMALL, needed, _) => length = needed,
                (status, _, error) => return Err(self.shared.failure(py, status, error)),
            }
        }
    }

    /// Status, length of the value, error.
    #[inline]
    fn read_into(&self, key: &[u8], buffer: &mut [MaybeUninit<u8>]) -> (i32, usize, Handle) {
        self.read_by(c::waxseal_get_into, key, buffer)
    }

    /// The same by one of the calls that read into a buffer.
    #[inline]
    fn read_by(&self, call: c::GetInto, key: &[u8], buffer: &mut [MaybeUninit<u8>]) -> (i32, usize, Handle) {
        let (mut length, mut error) = (0, 0);
        // SAFETY: the key is readable, the buffer may be written for its length, and so may length and error.
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

/// The value at a place of an answer to many keys.
fn value_at(py: Python<'_>, values: Handle, index: usize) -> Option<Bound<'_, PyBytes>> {
    let mut value = Slice { data: ptr::null(), len: 0 };
    // SAFETY: the slice may be written.
    let status = unsafe { c::waxseal_values_at(values, index, &raw mut value) };
    // SAFETY: lent until the values are ended, which comes later.
    (status == c::WAXSEAL_OK).then(|| PyBytes::new(py, unsafe { bytes_at(value) }))
}
