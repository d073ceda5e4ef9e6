//! The handle of a batch of the library.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::arguments::lent_bound;
use crate::c::{self, Handle};
use crate::interrupt;
use crate::shared::Shared;

/// A batch of the library, destroyed with this object.
pub(crate) struct BatchHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) batch: Handle,
}

impl BatchHandle {
    /// Creates a batch of a session, or of the store if `session` is 0.
    pub(crate) fn create(shared: &Arc<Shared>, py: Python<'_>, db: Handle, session: Handle) -> PyResult<BatchHandle> {
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
        Ok(BatchHandle { shared: Arc::clone(shared), batch })
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

    pub(crate) fn put_with(
        &self,
        py: Python<'_>,
        family: Handle,
        options: Handle,
        key: &[u8],
        value: &[u8],
    ) -> PyResult<()> {
        let mut error = 0;
        let (key, key_len, value, value_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        let batch = self.batch;
        // SAFETY: key and value are readable, the error is writable.
        let status = unsafe {
            c::waxseal_batch_put_with_options(batch, family, options, key, key_len, value, value_len, &raw mut error)
        };
        self.settled(py, status, error)
    }

    pub(crate) fn apply_last(&self, py: Python<'_>, family: Handle, changes: Handle) -> PyResult<()> {
        let mut error = 0;
        // SAFETY: the error is writable.
        let status = unsafe { c::waxseal_batch_apply(self.batch, family, changes, &raw mut error) };
        self.settled(py, status, error)
    }

    #[inline]
    pub(crate) fn delete(&self, py: Python<'_>, family: Handle, key: &[u8]) -> PyResult<()> {
        let mut error = 0;
        // SAFETY: the key is readable, the error is writable.
        let status = unsafe { c::waxseal_batch_delete(self.batch, family, key.as_ptr(), key.len(), &raw mut error) };
        self.settled(py, status, error)
    }

    pub(crate) fn delete_range(
        &self,
        py: Python<'_>,
        family: Handle,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> PyResult<()> {
        let mut error = 0;
        let ((start, start_len), (end, end_len)) = (lent_bound(start), lent_bound(end));
        // SAFETY: the bounds are readable, the error is writable.
        let status = unsafe {
            c::waxseal_batch_delete_range(self.batch, family, start, start_len, end, end_len, &raw mut error)
        };
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

impl Drop for BatchHandle {
    fn drop(&mut self) {
        if self.shared.is_here() {
            c::waxseal_batch_destroy(self.batch);
        }
    }
}
