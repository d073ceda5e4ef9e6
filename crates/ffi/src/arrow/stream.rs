//! Streams: a cursor's rows, one batch at a time.
//!
//! Damage does not end a stream, as with every cursor: the rows before it come first, in a batch of their own. Then one
//! call of `get_next` fails and `get_last_error` describes the damage; the next call continues behind it. After any
//! other failure, every call returns the same failure. That includes a failed comparator of the store: rows read since
//! then may be wrong.

use std::collections::TryReserveError;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

use face::{Cursor, Error, ErrorKind, StoreId};

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
use super::columns::{Column, RowBatch, schema};
use crate::failure::{Failure, Result, WAXSEAL_CLOSED, WAXSEAL_INVALID};
use crate::order_failure::{OrderGuard, check, unwound};
use crate::reentry::{is_inside, refuse_reentry};

/// The limits at which a batch ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows: usize,
    /// Bytes of keys and values; the row that reaches the limit is the last.
    pub(super) bytes: usize,
}

/// Rows in batches.
pub(super) trait BatchSource: Send {
    /// Returns the store of the rows.
    fn store(&self) -> StoreId;

    /// Returns the schema of the batches.
    fn schema(&self) -> ArrowSchema;

    /// Returns the next rows; a released array at the end.
    fn next_array(&mut self) -> Result<ArrowArray>;

    /// Lets all further calls fail with this error.
    fn fail(&mut self, error: Error);
}

/// The rows of a cursor, in batches.
pub(super) struct RowSource {
    cursor: Cursor,
    place: StreamPosition,
    columns: Vec<Column>,
    limits: Limits,
    /// Rows and bytes of the previous batch, used as capacity of the next one.
    before: (usize, usize),
}

enum StreamPosition {
    Before,
    Within,
    /// Within, and the next call returns this error first.
    Owing(Error),
    Behind,
    /// Every call returns this error.
    Failed(Error),
}

impl RowSource {
    pub(super) fn new(cursor: Cursor, columns: Vec<Column>, limits: Limits) -> RowSource {
        RowSource { cursor, place: StreamPosition::Before, columns, limits, before: (0, 0) }
    }

    /// Returns the next rows; `None` at the end.
    fn next(&mut self) -> face::Result<Option<RowBatch>> {
        match std::mem::replace(&mut self.place, StreamPosition::Within) {
            StreamPosition::Before => self.fill(true),
            StreamPosition::Within => self.fill(false),
            StreamPosition::Owing(error) => Err(error),
            StreamPosition::Behind => {
                self.place = StreamPosition::Behind;
                Ok(None)
            }
            StreamPosition::Failed(error) => {
                self.place = StreamPosition::Failed(error.clone());
                Err(error)
            }
        }
    }

    fn fill(&mut self, is_first: bool) -> face::Result<Option<RowBatch>> {
        let mut batch = RowBatch::new(&self.columns, self.before.0, self.before.1).map_err(|error| {
            let error = no_memory(error);
            self.place = StreamPosition::Failed(error.clone()); // the cursor has not moved
            error
        })?;
        let mut moved = if is_first { self.cursor.first() } else { self.cursor.next() };
        loop {
            match moved.and_then(|()| take(&self.cursor, &mut batch)) {
                Ok(true) if batch.rows() >= self.limits.rows || batch.bytes() >= self.limits.bytes => break,
                Ok(true) => moved = self.cursor.next(),
                Ok(false) => {
                    self.place = StreamPosition::Behind;
                    break;
                }
                Err(error) if !error.is_corruption() => {
                    self.place = StreamPosition::Failed(error.clone());
                    if batch.rows() == 0 {
                        return Err(error);
                    }
                    break;
                }
                Err(error) if batch.rows() == 0 => return Err(error),
                Err(error) => {
                    self.place = StreamPosition::Owing(error);
                    break;
                }
            }
        }
        self.before = (batch.rows(), batch.bytes());
        Ok(Some(batch).filter(|batch| batch.rows() > 0))
    }
}

impl BatchSource for RowSource {
    fn store(&self) -> StoreId {
        self.cursor.store()
    }

    fn schema(&self) -> ArrowSchema {
        schema(&self.columns)
    }

    fn next_array(&mut self) -> Result<ArrowArray> {
        Ok(self.next()?.map_or(ArrowArray::released(), RowBatch::into_array))
    }

    fn fail(&mut self, error: Error) {
        self.place = StreamPosition::Failed(error);
    }
}

/// Runs `act`, unless this is a callback of the store. Discards its result if the store's comparator has failed by
/// then.
fn guarded<T>(source: &mut dyn BatchSource, act: impl FnOnce(&mut dyn BatchSource) -> Result<T>) -> Result<T> {
    let store = source.store();
    if is_inside() {
        refuse_reentry(Some(store))?;
    }
    let watch = OrderGuard(|| Some(store));
    check(&watch.0)?;
    let outcome = act(source);
    check(&watch.0)?;
    outcome
}

/// Adds the row under the cursor to the batch; false if there is none.
fn take(cursor: &Cursor, batch: &mut RowBatch) -> face::Result<bool> {
    let Some(row) = cursor.row()? else { return Ok(false) };
    batch.push(&row).map_err(no_memory)?;
    Ok(true)
}

#[cold]
pub(super) fn no_memory(_: TryReserveError) -> Error {
    Error::io("making a batch of rows", io::ErrorKind::OutOfMemory.into())
}

/// Memory that a stream owns until it is released.
struct StreamMemory {
    source: Box<dyn BatchSource>,
    message: Option<CString>,
}

/// Converts a source to a stream, which its owner must release.
pub(super) fn streamed(source: impl BatchSource + 'static) -> ArrowArrayStream {
    let source = Box::new(source);
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(Box::new(StreamMemory { source, message: None })).cast::<c_void>(),
    }
}

// Return values of `get_schema` and `get_next`, as the specification requires: 0, or an errno value.
const EIO: c_int = 5;
const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

/// Runs `act` on the stream's source and writes the result to `out`. A failure is kept for `get_last_error`.
///
/// # Safety
/// `of` is null, released, or made by `streamed`, and no other thread uses it now; `out` is null or writable.
unsafe fn answer<T>(
    of: *mut ArrowArrayStream,
    out: *mut T,
    act: impl FnOnce(&mut dyn BatchSource) -> Result<T>,
) -> c_int {
    // SAFETY: as the caller promises; `private_data` is the box of `streamed` as long as `release` is set.
    let held = unsafe {
        match of.as_mut() {
            Some(stream) if stream.release.is_some() => &mut *stream.private_data.cast::<StreamMemory>(),
            _ => return EINVAL,
        }
    };
    if out.is_null() {
        held.message = Some(c"where is the answer to go? the pointer is null".to_owned());
        return EINVAL;
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| guarded(&mut *held.source, act)));
    let outcome = outcome.unwrap_or_else(|_| {
        let error = Error::invalid("a bug in waxseal: it panicked while reading");
        held.source.fail(error.clone());
        Err(unwound().unwrap_or(Failure::Engine(error)))
    });
    match outcome {
        Ok(made) => {
            held.message = None;
            // SAFETY: `out` is not null, and writable as the caller promises. The consumer is responsible for its
            // previous content.
            unsafe { out.write(made) };
            0
        }
        Err(failure) => {
            let text = failure.to_string().replace('\0', " ");
            held.message = CString::new(text).ok();
            number_of(&failure)
        }
    }
}

fn number_of(failure: &Failure) -> c_int {
    match failure {
        Failure::Engine(error) if *error.kind() == ErrorKind::Io(io::ErrorKind::OutOfMemory) => ENOMEM,
        _ if matches!(failure.status(), WAXSEAL_INVALID | WAXSEAL_CLOSED) => EINVAL,
        _ => EIO,
    }
}

unsafe extern "C" fn get_schema(of: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the consumer follows the specification.
    unsafe { answer(of, out, |source| Ok(source.schema())) }
}

unsafe extern "C" fn get_next(of: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the consumer follows the specification.
    unsafe { answer(of, out, |source| source.next_array()) }
}

/// The text belongs to the stream, and is valid until the stream's next call.
unsafe extern "C" fn get_last_error(of: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: the consumer follows the specification.
    let message = unsafe {
        match of.as_ref() {
            Some(stream) if stream.release.is_some() => &(*stream.private_data.cast::<StreamMemory>()).message,
            _ => return null(),
        }
    };
    message.as_ref().map_or(null(), |message| message.as_ptr())
}

unsafe extern "C" fn release(of: *mut ArrowArrayStream) {
    // SAFETY: the consumer follows the specification.
    let Some(stream) = (unsafe { of.as_mut() }) else { return };
    if stream.release.take().is_none() {
        return;
    }
    // SAFETY: `private_data` is the box that `streamed` leaked, and it is taken back once.
    let held = unsafe { Box::from_raw(stream.private_data.cast::<StreamMemory>()) };
    stream.private_data = null_mut();
    let _ = catch_unwind(AssertUnwindSafe(move || drop(held))); // the last handle of a store closes it
}
