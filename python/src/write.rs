//! Writes to one column family.

use std::ptr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::arguments::{bound_of, bytes_of, lent_bound};
use crate::batch_handle::BatchHandle;
use crate::c::{self, Handle, Slice};
use crate::interrupt;
use crate::reader::Reader;
use crate::shared::Store;

/// Number of bytes at which a portion of `put_many` is committed.
const PORTION_BYTES: usize = 4 << 20;

/// Reads and writes one column family: `Keyspace(store, family, db)`, by handles of the library.
#[pyclass(frozen, subclass, extends = Reader, module = "waxseal._native")]
pub(crate) struct Keyspace {
    db: Handle,
}

#[pymethods]
impl Keyspace {
    #[new]
    fn new(store: &Store, family: Handle, db: Handle) -> PyClassInitializer<Keyspace> {
        PyClassInitializer::from(Reader::new(store, family, 0)).add_subclass(Keyspace { db })
    }

    /// Sets a key to a value. `durability` is "none", "os" or "sync"; None means the store's default.
    #[pyo3(signature = (key, value, durability=None))]
    fn put(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (py, reader) = (slf.py(), slf.as_super().get());
        let (key, value) = (bytes_of(key, "key")?, bytes_of(value, "value")?);
        let durability = durability_of(durability)?;
        reader.shared.check(py)?;
        let (family, key, value) = (reader.family, &*key, &*value);
        let answer = py.detach(|| {
            with_durability(durability, |options, error| {
                let (key, key_len, value, value_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
                // SAFETY: key and value are readable, the error is writable.
                unsafe {
                    match options {
                        None => c::waxseal_put(family, key, key_len, value, value_len, error),
                        Some(options) => c::waxseal_put_with(family, options, key, key_len, value, value_len, error),
                    }
                }
            })
        });
        settled(reader, py, answer)
    }

    /// Deletes a key; a missing key is not an error. `durability` as of `put`.
    #[pyo3(signature = (key, durability=None))]
    fn delete(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, durability: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (py, reader) = (slf.py(), slf.as_super().get());
        let key = bytes_of(key, "key")?;
        let durability = durability_of(durability)?;
        reader.shared.check(py)?;
        let (family, key) = (reader.family, &*key);
        let answer = py.detach(|| {
            with_durability(durability, |options, error| {
                // SAFETY: the key is readable, the error is writable.
                unsafe {
                    match options {
                        None => c::waxseal_delete(family, key.as_ptr(), key.len(), error),
                        Some(options) => c::waxseal_delete_with(family, options, key.as_ptr(), key.len(), error),
                    }
                }
            })
        });
        settled(reader, py, answer)
    }

    /// Deletes all keys from `start` to `end`, `end` excluded; None is no bound. `durability` as of `put`.
    #[pyo3(signature = (start=None, end=None, durability=None))]
    fn delete_range(
        slf: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (py, reader) = (slf.py(), slf.as_super().get());
        let (start, end) = (bound_of(start, "start")?, bound_of(end, "end")?);
        let durability = durability_of(durability)?;
        reader.shared.check(py)?;
        let (family, start, end) = (reader.family, start.as_deref(), end.as_deref());
        let answer = py.detach(|| {
            with_durability(durability, |options, error| {
                let ((start, start_len), (end, end_len)) = (lent_bound(start), lent_bound(end));
                // SAFETY: the bounds are readable, the error is writable.
                unsafe {
                    match options {
                        None => c::waxseal_delete_range(family, start, start_len, end, end_len, error),
                        Some(options) => {
                            c::waxseal_delete_range_with(family, options, start, start_len, end, end_len, error)
                        }
                    }
                }
            })
        });
        settled(reader, py, answer)
    }

    /// Sets a key to `new` if its value is `old`, atomically. None stands for an absent key. Returns False, and
    /// changes nothing, if the key has another value.
    ///
    /// No write of the key comes between the comparison and the change. An expired record counts as absent.
    #[pyo3(signature = (key, old, new, durability=None))]
    fn compare_and_set(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        old: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (py, reader) = (slf.py(), slf.as_super().get());
        let (key, old, new) = (bytes_of(key, "key")?, bound_of(old, "value")?, bound_of(new, "value")?);
        let durability = durability_of(durability)?;
        reader.shared.check(py)?;
        let (family, key, old, new) = (reader.family, &*key, old.as_deref(), new.as_deref());
        let mut is_set = false;
        let answer = py.detach(|| {
            let (old, new) = (old.map(Slice::of), new.map(Slice::of));
            let place = |slice: &Option<Slice>| slice.as_ref().map_or(ptr::null(), ptr::from_ref);
            with_durability(durability, |options, error| {
                let (options, old, new) = (options.unwrap_or_default(), place(&old), place(&new));
                // SAFETY: key and values are readable, answer and error are writable.
                unsafe {
                    c::waxseal_compare_and_set(
                        family,
                        options,
                        key.as_ptr(),
                        key.len(),
                        old,
                        new,
                        &raw mut is_set,
                        error,
                    )
                }
            })
        });
        settled(reader, py, answer)?;
        Ok(is_set)
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        Keyspace::put(slf, key, value, None)
    }

    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        // The class that extends this one has `pop`, which is atomic.
        slf.as_any().call_method1(intern!(slf.py(), "pop"), (key,)).map(drop)
    }

    /// Sets many keys, from an iterable of pairs, and returns their number. Commits them in atomic portions of a few
    /// megabytes. An exception of the iterable discards the current portion.
    #[pyo3(signature = (pairs, durability=None))]
    fn put_many(
        slf: &Bound<'_, Self>,
        pairs: &Bound<'_, PyAny>,
        durability: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let (py, reader) = (slf.py(), slf.as_super().get());
        let durability = durability_of(durability)?;
        reader.shared.check(py)?;
        let batch = BatchHandle::create(&reader.shared, py, slf.get().db, 0)?;
        let (mut count, mut bytes) = (0, 0);
        for pair in pairs.try_iter()? {
            let pair = pair?;
            let (key, value) = pair_of(&pair)?;
            let (key, value) = (bytes_of(&key, "key")?, bytes_of(&value, "value")?);
            batch.put(py, reader.family, &key, &value)?;
            count += 1;
            bytes += key.len() + value.len();
            if bytes >= PORTION_BYTES {
                py.check_signals()?; // the iterable may run no Python code
                batch.commit(py, durability)?;
                bytes = 0;
            }
        }
        batch.commit(py, durability)?;
        Ok(count)
    }
}

/// Returns the key and the value of a pair.
#[inline]
fn pair_of<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match pair.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        _ if pair.len().is_ok_and(|len| len == 2) => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        _ => Err(PyTypeError::new_err("each item is a pair of key and value")),
    }
}

/// Runs a write, with options if it has a durability of its own. Returns status and error.
#[inline]
fn with_durability(durability: i32, write: impl FnOnce(Option<Handle>, c::HandlePlace) -> i32) -> (i32, Handle) {
    let mut error = 0;
    if durability == c::WAXSEAL_DURABILITY_DEFAULT {
        return (write(None, &raw mut error), error);
    }
    let mut options = 0;
    // SAFETY: both places are writable.
    let made = unsafe { c::waxseal_write_options_create(&raw mut options, &raw mut error) };
    if made != c::WAXSEAL_OK {
        return (made, error);
    }
    let set = c::waxseal_write_options_set_durability(options, durability);
    let status = if set == c::WAXSEAL_OK { write(Some(options), &raw mut error) } else { set };
    c::waxseal_write_options_destroy(options);
    (status, error)
}

#[inline]
fn settled(reader: &Reader, py: Python<'_>, (status, error): (i32, Handle)) -> PyResult<()> {
    if status < 0 { Err(reader.shared.failure(py, status, error)) } else { interrupt::check() }
}

/// Returns the number of a durability word.
#[inline]
pub(crate) fn durability_of(word: Option<&Bound<'_, PyAny>>) -> PyResult<i32> {
    match word {
        None => Ok(c::WAXSEAL_DURABILITY_DEFAULT),
        Some(word) => durability_in(word),
    }
}

fn durability_in(word: &Bound<'_, PyAny>) -> PyResult<i32> {
    let text = word.cast::<PyString>().map_err(|_| PyTypeError::new_err("durability is a word"))?;
    match &*text.to_cow()? {
        "none" => Ok(c::WAXSEAL_DURABILITY_BUFFERED),
        "os" => Ok(c::WAXSEAL_DURABILITY_OS),
        "sync" => Ok(c::WAXSEAL_DURABILITY_SYNC),
        other => Err(PyValueError::new_err(format!("durability is \"none\", \"os\" or \"sync\", not {other:?}"))),
    }
}
