//! Batches: writes to any column families that commit atomically.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::arguments::bytes_of;
use crate::c::{self, Handle};
use crate::interrupt;
use crate::reader::Reader;
use crate::shared::{Shared, Store};
use crate::write::{Keyspace, durability_of};

/// A batch of the library, destroyed with this object.
pub(crate) struct Handled {
    shared: Arc<Shared>,
    batch: Handle,
}

impl Handled {
    /// Creates a batch of a session, or of the store if `session` is 0.
    pub(crate) fn create(shared: &Arc<Shared>, py: Python<'_>, db: Handle, session: Handle) -> PyResult<Handled> {
        let (mut batch, mut error) = (0, 0);
        // SAFETY: both places are writable.
        let status = unsafe {
            match session {
                0 => c::waxseal_batch_create(db, &raw mut batch, &raw mut error),
                _ => c::waxseal_session_batch_create(session, &raw mut batch, &raw mut error),
            }
        };
        if status < 0 {
            return Err(shared.failure(py, status, error));
        }
        Ok(Handled { shared: Arc::clone(shared), batch })
    }

    #[inline]
    pub(crate) fn put(&self, py: Python<'_>, family: Handle, key: &[u8], value: &[u8]) -> PyResult<()> {
        let mut error = 0;
        let (key, key_len, value, value_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        // SAFETY: key and value are readable, the error is writable.
        let status =
            unsafe { c::waxseal_batch_put(self.batch, family, key, key_len, value, value_len, &raw mut error) };
        self.settled(py, status, error)
    }

    fn put_with(&self, py: Python<'_>, family: Handle, options: Handle, key: &[u8], value: &[u8]) -> PyResult<()> {
        let mut error = 0;
        let (key, key_len, value, value_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        let batch = self.batch;
        // SAFETY: key and value are readable, the error is writable.
        let status = unsafe {
            c::waxseal_batch_put_with_options(batch, family, options, key, key_len, value, value_len, &raw mut error)
        };
        self.settled(py, status, error)
    }

    #[inline]
    fn delete(&self, py: Python<'_>, family: Handle, key: &[u8]) -> PyResult<()> {
        let mut error = 0;
        // SAFETY: the key is readable, the error is writable.
        let status = unsafe { c::waxseal_batch_delete(self.batch, family, key.as_ptr(), key.len(), &raw mut error) };
        self.settled(py, status, error)
    }

    pub(crate) fn commit(&self, py: Python<'_>, durability: i32) -> PyResult<()> {
        self.shared.check(py)?;
        let batch = self.batch;
        let (status, error) = py.detach(|| {
            let mut error = 0;
            // SAFETY: the error is writable.
            let status = unsafe { c::waxseal_batch_commit(batch, durability, &raw mut error) };
            (status, error)
        });
        self.settled(py, status, error)
    }

    #[inline]
    fn settled(&self, py: Python<'_>, status: i32, error: Handle) -> PyResult<()> {
        if status < 0 { Err(self.shared.failure(py, status, error)) } else { interrupt::check() }
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        if self.shared.is_here() {
            c::waxseal_batch_destroy(self.batch);
        }
    }
}

/// Writes that commit atomically, for a session: `Batch(store, db, keyspace, durability=None, session=0)`. As a context
/// manager it commits at the end of its block, unless an exception leaves the block.
#[pyclass(frozen, subclass, module = "waxseal._native")]
pub(crate) struct Batch {
    handled: Handled,
    /// The keyspace of the batch's writes; it keeps the store open.
    _keyspace: Py<Reader>,
    family: Handle,
    durability: i32,
}

#[pymethods]
impl Batch {
    #[new]
    #[pyo3(signature = (store, db, keyspace, durability=None, session=0))]
    fn new(
        store: &Bound<'_, Store>,
        db: Handle,
        keyspace: &Bound<'_, Reader>,
        durability: Option<&Bound<'_, PyAny>>,
        session: Handle,
    ) -> PyResult<Batch> {
        let py = store.py();
        let shared = &store.get().shared;
        let durability = durability_of(durability)?;
        shared.check(py)?;
        let (family, kept) = (keyspace.get().family, keyspace.clone().unbind());
        Ok(Batch { handled: Handled::create(shared, py, db, session)?, _keyspace: kept, family, durability })
    }

    /// Adds a write that sets a key to a value, in `family` or in the batch's own family.
    #[pyo3(signature = (key, value, family=None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (bytes, value) = (bytes_of(key, "key")?, bytes_of(value, "value")?);
        self.handled.shared.check(key.py())?;
        self.handled.put(key.py(), self.family(family), &bytes, &value)
    }

    /// Adds a write that sets a key to a value with options, a handle of the library.
    #[pyo3(signature = (key, value, options, family=None))]
    fn put_options(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        options: Handle,
        family: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (bytes, value) = (bytes_of(key, "key")?, bytes_of(value, "value")?);
        self.handled.shared.check(key.py())?;
        self.handled.put_with(key.py(), self.family(family), options, &bytes, &value)
    }

    /// Adds a write that deletes a key, in `family` or in the batch's own family.
    #[pyo3(signature = (key, family=None))]
    fn delete(&self, key: &Bound<'_, PyAny>, family: Option<&Bound<'_, Keyspace>>) -> PyResult<()> {
        let bytes = bytes_of(key, "key")?;
        self.handled.shared.check(key.py())?;
        self.handled.delete(key.py(), self.family(family), &bytes)
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value, None)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key, None)
    }

    /// Commits all writes atomically, and empties the batch for reuse.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.handled.commit(py, self.durability)
    }

    /// Removes all writes, and the error of a rejected one.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.handled.shared.check(py)?;
        let status = c::waxseal_batch_clear(self.handled.batch);
        if status < 0 { Err(self.handled.shared.error(py, status, "the batch is in use")) } else { Ok(()) }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.handled.shared.check(py)?;
        Ok(c::waxseal_batch_count(self.handled.batch))
    }

    /// The approximate bytes that the commit will take in the log.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.handled.shared.check(py)?;
        Ok(c::waxseal_batch_bytes(self.handled.batch))
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().handled.shared.check(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_value, traceback);
        if exc_type.is_none() {
            return self.commit(py);
        }
        c::waxseal_batch_clear(self.handled.batch);
        Ok(())
    }
}

impl Batch {
    fn family(&self, family: Option<&Bound<'_, Keyspace>>) -> Handle {
        family.map_or(self.family, |family| family.as_super().get().family)
    }
}
