//! Iterators: a position between two rows, moved in both directions.
//!
//! In: bounds, and the requested parts of a row. Out: rows, as Python objects. The library returns rows in packed
//! batches, the *window*, valid until the library's iterator is moved again; `at` is the iterator's position between
//! two rows of the window. The library is called only at the edge of the window, with the GIL released. Invariants:
//!
//! - The window is read and replaced under the lock of the state only.
//! - If the window is empty, the `Place` is the position from which the next fetch continues.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arguments::bytes_of;
use crate::c::{self, Handle};
use crate::interrupt;
use crate::reader::Reader;
use crate::shared::{Shared, bytes_at};

/// Maximum number of rows in the first window, so that short scans read little. The maximum quadruples with each
/// further window, up to `MOST_ROWS`.
const FIRST_ROWS: usize = 16;
const MOST_ROWS: usize = 4096;
/// Number of bytes at which a window ends.
const WINDOW_BYTES: usize = 256 << 10;

/// Direction of a step, in key order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    On,
    Back,
}

impl Way {
    fn turned(self, turn: bool) -> Way {
        match (self, turn) {
            (way, false) => way,
            (Way::On, true) => Way::Back,
            (Way::Back, true) => Way::On,
        }
    }
}

/// Position of the iterator without a window.
enum Place {
    /// The position of the library's iterator: a step in either direction is a step of that iterator.
    Itself,
    Start,
    End,
    /// Before the first row whose key is not less than this key.
    Before(Vec<u8>),
    /// Behind the existing row with this key.
    Behind(Vec<u8>),
}

/// Fetched rows, in the order of their steps.
struct Window {
    rows: c::Rows,
    way: Way,
    /// Number of rows before the iterator's position.
    at: usize,
    /// A single copied row, and the offsets of its parts; `rows` then has no offsets.
    own: Vec<u8>,
    offsets: [usize; 3],
}

// SAFETY: the pointers refer to the library's iterator, which any thread may read, and which is moved and destroyed
// under the state's lock.
unsafe impl Send for Window {}

impl Window {
    fn empty() -> Window {
        Window { rows: c::Rows::EMPTY, way: Way::On, at: 0, own: Vec::new(), offsets: [0; 3] }
    }

    /// Returns key and value of a row.
    #[inline]
    fn row(&self, index: usize) -> (&[u8], &[u8]) {
        debug_assert!(index < self.rows.count, "a row outside the window");
        let offsets = if self.rows.offsets.is_null() { self.offsets.as_ptr() } else { self.rows.offsets };
        // SAFETY: there are 2 * count + 1 ascending offsets into the data, and index is less than count.
        unsafe {
            let begin = *offsets.add(2 * index);
            let middle = *offsets.add(2 * index + 1);
            let end = *offsets.add(2 * index + 2);
            let slice = |from: usize, to: usize| c::Slice { data: self.rows.data.add(from), len: to - from };
            (bytes_at(slice(begin, middle)), bytes_at(slice(middle, end)))
        }
    }

    /// Takes rows that the library lends, fetched in direction `way`; the position is before the first of them.
    fn lend(&mut self, rows: c::Rows, way: Way) {
        (self.rows, self.way, self.at) = (rows, way, 0);
    }

    /// Copies a single row that the library lends.
    fn copy(&mut self, row: c::Row, way: Way) {
        // SAFETY: valid until the next move.
        let (key, value) = unsafe { (bytes_at(row.key), bytes_at(row.value)) };
        self.own.clear();
        self.own.extend_from_slice(key);
        self.own.extend_from_slice(value);
        self.offsets = [0, key.len(), key.len() + value.len()];
        self.lend(c::Rows { data: self.own.as_ptr(), offsets: std::ptr::null(), count: 1 }, way);
    }
}

/// The state that moves change.
struct State {
    iter: Handle,
    window: Window,
    place: Place,
    portion: usize,
    closed: bool,
}

/// The result of a fetch: rows, no rows, or a failure.
type Moved = Result<bool, (i32, Handle)>;

impl State {
    /// Takes one step within the window. Returns the index of the row that it passed; `None` at the edge of the window.
    #[inline]
    fn step(&mut self, way: Way) -> Option<usize> {
        let window = &mut self.window;
        if way == window.way {
            if window.at == window.rows.count {
                return None;
            }
            window.at += 1;
            return Some(window.at - 1);
        }
        window.at = window.at.checked_sub(1)?;
        Some(window.at)
    }

    /// Steps over all rows of the window, and returns their number.
    fn leap(&mut self, way: Way) -> usize {
        let window = &mut self.window;
        let left = if way == window.way { window.rows.count - window.at } else { window.at };
        window.at = if way == window.way { window.rows.count } else { 0 };
        left
    }

    /// True if the next step in this direction leaves the window.
    fn is_at_edge(&self, way: Way) -> bool {
        self.window.at == if way == self.window.way { self.window.rows.count } else { 0 }
    }

    /// Fetches rows in this direction. The position is at the edge of the window.
    fn fetch(&mut self, way: Way) -> Moved {
        let place = self.place_at_edge(way);
        let moved = match place {
            Place::Itself => self.pack(way),
            Place::Start if way == Way::On => self.single(way, c::waxseal_iter_first),
            Place::End if way == Way::Back => self.single(way, c::waxseal_iter_last),
            Place::Start | Place::End => {
                self.place = place;
                return Ok(false);
            }
            Place::Before(key) => self.go_from_before(&key, way),
            Place::Behind(key) => self.go_from_behind(&key, way),
        };
        match moved {
            Ok(true) => self.place = Place::Itself,
            Ok(false) => {
                self.window = Window::empty();
                self.place = if way == Way::On { Place::End } else { Place::Start };
            }
            // The next step, in either direction, continues behind the damage.
            Err(_) => {
                self.window = Window::empty();
                self.place = Place::Itself;
            }
        }
        moved
    }

    /// Returns the position of an iterator at the edge of its window, from which a fetch in direction `way` continues.
    fn place_at_edge(&mut self, way: Way) -> Place {
        let window = &self.window;
        if window.rows.count == 0 || way == window.way {
            return std::mem::replace(&mut self.place, Place::Itself);
        }
        let key = window.row(0).0.to_vec();
        if way == Way::Back { Place::Before(key) } else { Place::Behind(key) }
    }

    /// Fetches a window of rows from the position of the library's iterator.
    fn pack(&mut self, way: Way) -> Moved {
        let rows_wanted = self.portion;
        self.portion = (self.portion * 4).min(MOST_ROWS);
        let mut rows = c::Rows::EMPTY;
        let call = if way == Way::On { c::waxseal_iter_next_rows } else { c::waxseal_iter_prev_rows };
        let mut error = 0;
        // SAFETY: rows and error are writable.
        let status = unsafe { call(self.iter, rows_wanted, WINDOW_BYTES, &raw mut rows, &raw mut error) };
        let there = answered(status, error)?;
        if there {
            self.window.lend(rows, way);
        }
        Ok(there)
    }

    /// Moves the library's iterator, and makes a window of the row at its new position.
    fn single(&mut self, way: Way, call: unsafe extern "C" fn(Handle, *mut c::Row, c::HandlePlace) -> i32) -> Moved {
        let (mut row, mut error) = (c::Row::EMPTY, 0);
        // SAFETY: row and error are writable.
        let status = unsafe { call(self.iter, &raw mut row, &raw mut error) };
        let there = answered(status, error)?;
        if there {
            self.window.copy(row, way);
        }
        Ok(there)
    }

    fn seek(&mut self, key: &[u8], row: &mut c::Row) -> Moved {
        let mut error = 0;
        // SAFETY: the key is readable, row and error are writable.
        let status = unsafe { c::waxseal_iter_seek(self.iter, key.as_ptr(), key.len(), row, &raw mut error) };
        answered(status, error)
    }

    fn go_from_before(&mut self, key: &[u8], way: Way) -> Moved {
        let mut row = c::Row::EMPTY;
        match (self.seek(key, &mut row)?, way) {
            (true, Way::On) => {
                self.window.copy(row, way);
                Ok(true)
            }
            (false, Way::On) => Ok(false),
            (true, Way::Back) => self.single(way, c::waxseal_iter_prev),
            (false, Way::Back) => self.single(way, c::waxseal_iter_last),
        }
    }

    fn go_from_behind(&mut self, key: &[u8], way: Way) -> Moved {
        let mut row = c::Row::EMPTY;
        match (self.seek(key, &mut row)?, way) {
            (true, Way::Back) => {
                self.window.copy(row, way);
                Ok(true)
            }
            (true, Way::On) => self.single(way, c::waxseal_iter_next),
            (false, _) => Ok(false),
        }
    }

    /// Clears the window and sets the position.
    fn stand(&mut self, place: Place) {
        self.window = Window::empty();
        self.place = place;
        self.portion = FIRST_ROWS;
    }
}

fn answered(status: i32, error: Handle) -> Moved {
    if status < 0 { Err((status, error)) } else { Ok(status == c::WAXSEAL_OK) }
}

/// Iterates over the rows of a reader: `Rows(reader, start, stop, include_start, include_stop, reverse, include_key,
/// include_value, skip, prefix)`. The position is between two rows: `next` returns the row behind it, `prev` the row
/// before it; with `reverse` they change roles. The first `skip` bytes of the keys are removed.
#[pyclass(frozen, subclass, module = "waxseal._native")]
pub(crate) struct Rows {
    shared: Arc<Shared>,
    /// The reader of the rows; it keeps the store open.
    _reader: Py<Reader>,
    state: Mutex<State>,
    reverse: bool,
    include_key: bool,
    include_value: bool,
    skip: usize,
}

#[pymethods]
impl Rows {
    #[new]
    #[pyo3(signature = (
        reader, start=None, stop=None, include_start=true, include_stop=false, reverse=false, include_key=true,
        include_value=true, skip=0, prefix=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are plyvel's keywords, in its order")]
    fn new(
        reader: &Bound<'_, Reader>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        include_start: bool,
        include_stop: bool,
        reverse: bool,
        include_key: bool,
        include_value: bool,
        skip: usize,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let start = start.map(|key| bytes_of(key, "start")).transpose()?;
        let stop = stop.map(|key| bytes_of(key, "stop")).transpose()?;
        let prefix = prefix.map(|key| bytes_of(key, "prefix")).transpose()?;
        if prefix.is_some() && (start.is_some() || stop.is_some()) {
            return Err(PyTypeError::new_err("'prefix' cannot be used together with 'start' or 'stop'"));
        }
        let (py, kept) = (reader.py(), reader.clone().unbind());
        let reader = reader.get();
        reader.shared.check(py)?;
        let (family, snapshot) = (reader.family, reader.snapshot);
        let (start, stop, prefix) = (start.as_deref(), stop.as_deref(), prefix.as_deref());
        let (status, iter, error) = py.detach(|| {
            let range = c::Range { lower: bound(start, include_start), upper: bound(stop, include_stop) };
            let (mut iter, mut error) = (0, 0);
            let (place, fault) = (&raw mut iter, &raw mut error);
            // SAFETY: prefix, range and its keys are readable; handle and error are writable.
            let mut status = unsafe {
                match prefix {
                    Some(key) => c::waxseal_iter_create_prefix(family, snapshot, key.as_ptr(), key.len(), place, fault),
                    None => c::waxseal_iter_create(family, snapshot, &raw const range, place, fault),
                }
            };
            if status == c::WAXSEAL_OK && !include_value {
                status = c::waxseal_iter_set_keys_only(iter, true);
            }
            (status, iter, error)
        });
        if status < 0 {
            c::waxseal_iter_destroy(iter);
            return Err(reader.shared.failure(py, status, error));
        }
        let place = if reverse { Place::End } else { Place::Start };
        let state = State { iter, window: Window::empty(), place, portion: FIRST_ROWS, closed: false };
        let shared = Arc::clone(&reader.shared);
        let rows = Rows { shared, _reader: kept, state: Mutex::new(state), reverse, include_key, include_value, skip };
        interrupt::check()?;
        Ok(rows)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.moved(py, Way::On.turned(self.reverse))
    }

    /// Returns the previous row. Raises StopIteration if there is none.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.moved(py, Way::Back.turned(self.reverse))?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Moves before the first row whose key is not less than `target`, within the bounds.
    fn seek(&self, target: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = bytes_of(target, "key")?.into_owned();
        self.open(target.py())?.stand(Place::Before(key));
        Ok(())
    }

    /// Moves before the first row.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.open(py)?.stand(Place::Start);
        Ok(())
    }

    /// Moves behind the last row.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.open(py)?.stand(Place::End);
        Ok(())
    }

    /// Closes the iterator and releases its view. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        let mut state = self.locked(py);
        if !state.closed {
            state.closed = true;
            state.window = Window::empty();
            if self.shared.is_here() {
                c::waxseal_iter_destroy(state.iter);
            }
        }
    }

    /// Raises if the iterator or its store is closed.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.open(py).map(drop)
    }

    /// Steps over all following rows, and returns their number.
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        let way = Way::On.turned(self.reverse);
        let mut count = 0;
        loop {
            let mut state = self.open(py)?;
            count += state.leap(way);
            drop(state);
            if !self.fetched(py, way)? {
                return Ok(count);
            }
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        self.close(py);
    }
}

impl Rows {
    /// Takes one step. Returns the row that it passed; `None` at the end.
    #[inline]
    fn moved<'py>(&self, py: Python<'py>, way: Way) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            let mut state = self.open(py)?;
            if let Some(row) = state.step(way) {
                let (key, value) = state.window.row(row);
                let key = self.include_key.then(|| PyBytes::new(py, key.get(self.skip..).unwrap_or_default()));
                let value = self.include_value.then(|| PyBytes::new(py, value));
                // Creating a tuple may start the garbage collector, which may run any code: no lock is held here.
                drop(state);
                return Ok(Some(match (key, value) {
                    (Some(key), Some(value)) => PyTuple::new(py, [key, value])?.into_any(),
                    (Some(one), None) | (None, Some(one)) => one.into_any(),
                    (None, None) => py.None().into_bound(py),
                }));
            }
            drop(state);
            if !self.fetched(py, way)? {
                return Ok(None);
            }
        }
    }

    /// Fetches rows with the GIL released. Returns false if there are none in this direction.
    #[cold]
    fn fetched(&self, py: Python<'_>, way: Way) -> PyResult<bool> {
        py.check_signals()?; // a caller may run no Python code between two windows
        let moved = py.detach(|| {
            let mut state = self.lock();
            // Threads may share an iterator: another thread may have fetched rows already.
            if state.closed || !state.is_at_edge(way) { Ok(true) } else { state.fetch(way) }
        });
        let there = moved.map_err(|(status, error)| self.shared.failure(py, status, error))?;
        interrupt::check()?;
        Ok(there)
    }

    /// Locks the state of an open iterator.
    #[inline]
    fn open(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        self.shared.check(py)?;
        let state = self.locked(py);
        if state.closed {
            drop(state);
            return Err(self.shared.error(py, c::WAXSEAL_CLOSED, "the iterator was closed"));
        }
        Ok(state)
    }

    /// Locks the state, even of a closed iterator. Releases the GIL to wait, since the thread that holds the lock may
    /// wait for the GIL.
    #[inline]
    fn locked(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(state)) => return state.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.lock())),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !state.closed && self.shared.is_here() {
            c::waxseal_iter_destroy(state.iter);
        }
    }
}

/// Returns one end of a range.
fn bound(key: Option<&[u8]>, included: bool) -> c::Bound {
    let kind = match (key, included) {
        (None, _) => c::WAXSEAL_UNBOUNDED,
        (Some(_), true) => c::WAXSEAL_INCLUDED,
        (Some(_), false) => c::WAXSEAL_EXCLUDED,
    };
    let key = key.unwrap_or_default();
    c::Bound { kind, key: key.as_ptr(), key_len: key.len() }
}
