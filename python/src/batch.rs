//! Batches: writes to any column families that commit atomically.

use pyo3::prelude::*;

use crate::arguments::{bound_of, bytes_of};
use crate::batch_handle::BatchHandle;
use crate::c::{self, Handle};
use crate::reader::Reader;
use crate::shared::Store;
use crate::write::{Keyspace, durability_of};

/// Writes that commit atomically, for a session: `Batch(store, db, keyspace, durability=None, session=0)`. As a context
/// manager it commits at the end of its block, unless an exception leaves the block.
#[pyclass(frozen, subclass, module = "waxseal._native")]
pub(crate) struct Batch {
    handled: BatchHandle,
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
        Ok(Batch { handled: BatchHandle::create(shared, py, db, session)?, _keyspace: kept, family, durability })
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

    /// Adds the last change of a reader, a handle of the library.
    #[pyo3(signature = (changes, family=None))]
    fn apply_last(&self, py: Python<'_>, changes: Handle, family: Option<&Bound<'_, Keyspace>>) -> PyResult<()> {
        self.handled.shared.check(py)?;
        self.handled.apply_last(py, self.family(family), changes)
    }

    /// Adds a write that deletes a key, in `family` or in the batch's own family.
    #[pyo3(signature = (key, family=None))]
    fn delete(&self, key: &Bound<'_, PyAny>, family: Option<&Bound<'_, Keyspace>>) -> PyResult<()> {
        let bytes = bytes_of(key, "key")?;
        self.handled.shared.check(key.py())?;
        self.handled.delete(key.py(), self.family(family), &bytes)
    }

    /// Adds a write that deletes all keys from `start` to `end`, `end` excluded; None is no bound.
    #[pyo3(signature = (start=None, end=None, family=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        family: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (start, end) = (bound_of(start, "start")?, bound_of(end, "end")?);
        self.handled.shared.check(py)?;
        self.handled.delete_range(py, self.family(family), start.as_deref(), end.as_deref())
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
