//! Iterators: a position in a column family, moved by single steps or by packed batches of rows.
//!
//! A batch performs several single steps and copies their rows to one buffer of the iterator. Damage ends the batch:
//! the rows before it are returned first, the next call reports the damage, and the steps after that continue behind
//! it.

use std::sync::Mutex;

use face::{ColumnFamily, KeyRange, Prefix, Snapshot};

use crate::declare::{destroy, field, getters, setters};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, peek, with, with_mut};
use crate::lent::{Lent, Out, waxseal_slice_t};
use crate::range::{CallerBounds, waxseal_range_t};
use crate::row_cursor::RowCursor;
use crate::snapshot::waxseal_snapshot_t;

/// A position in a column family, in the state at the iterator's creation. Used by one thread at a time. Destroyed by
/// `waxseal_iter_destroy`; it pins its view of the store until then.
///
/// A new iterator is not positioned: `waxseal_iter_next` moves it to the first record, `waxseal_iter_prev` to the last.
/// Damage in its way is one `WAXSEAL_CORRUPTION`; the next step continues at the first record behind the damage. Any
/// other error leaves the iterator unpositioned; the caller may move it again.
pub struct waxseal_iter_t {
    _opaque: [u8; 0],
}

/// A row under an iterator, valid until the iterator is moved or destroyed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_row_t {
    /// The key.
    pub key: waxseal_slice_t,
    /// The value.
    pub value: waxseal_slice_t,
}

/// Rows in one buffer, valid until the iterator is moved or destroyed. The key of row `i` begins at `data[offsets[2 *
/// i]]`, its value at `data[offsets[2 * i + 1]]`, and the row ends at `data[offsets[2 * i + 2]]`: there are `2 * count
/// + 1` offsets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_rows_t {
    /// Keys and values, concatenated.
    pub data: *const u8,
    /// The start of each key and value, and the end of the last.
    pub offsets: *const usize,
    /// Number of rows.
    pub count: usize,
}

/// An iterator and its buffer of rows.
pub(crate) struct Iter {
    cursor: RowCursor,
    /// True until the first move.
    is_new: bool,
    /// The error that the last batch met after its rows.
    waiting: Option<Failure>,
    /// True if a batch had no memory for the row under the cursor: the next step returns that row.
    is_owed: bool,
    data: Vec<u8>,
    offsets: Vec<usize>,
    /// True if batches omit values.
    keys_only: bool,
}

handle!(waxseal_iter_t => Mutex<Iter>, HandleKind::Iterator, "iterator", |iter| peek(iter, |iter| iter.cursor.store()));

/// The direction of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepDirection {
    On,
    Back,
}

impl Iter {
    fn new(cursor: RowCursor) -> Iter {
        Iter {
            cursor,
            is_new: true,
            waiting: None,
            is_owed: false,
            data: Vec::new(),
            offsets: Vec::new(),
            keys_only: false,
        }
    }

    /// Moves to an absolute position. True if there is a record.
    fn seek(&mut self, to: impl FnOnce(&mut RowCursor) -> face::Result<()>) -> Result<bool> {
        self.waiting = None;
        self.is_owed = false;
        self.is_new = false;
        to(&mut self.cursor)?;
        Ok(self.cursor.valid())
    }

    /// Steps to the next or the previous record. True if there is one.
    #[inline]
    fn step(&mut self, way: StepDirection) -> Result<bool> {
        if let Some(failure) = self.waiting.take() {
            return Err(failure);
        }
        if std::mem::take(&mut self.is_owed) {
            return Ok(self.cursor.valid());
        }
        let is_new = std::mem::take(&mut self.is_new);
        match (way, is_new) {
            (StepDirection::On, false) => self.cursor.next()?,
            (StepDirection::Back, false) => self.cursor.prev()?,
            (StepDirection::On, true) => self.cursor.first()?,
            (StepDirection::Back, true) => self.cursor.last()?,
        }
        Ok(self.cursor.valid())
    }

    /// Steps up to `max_rows` times and packs the rows, until the buffer holds `max_bytes`. True if it holds a row.
    fn pack(&mut self, way: StepDirection, max_rows: usize, max_bytes: usize) -> Result<bool> {
        self.data.clear();
        self.offsets.clear();
        self.offsets.push(0);
        while self.count() < max_rows && (self.data.len() < max_bytes || self.count() == 0) {
            let packed = self.step(way).and_then(|there| if there { self.push().map(|()| true) } else { Ok(false) });
            match packed {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) if self.count() == 0 => return Err(failure),
                Err(failure) => {
                    self.waiting = Some(failure);
                    break;
                }
            }
        }
        Ok(self.count() > 0)
    }

    /// Packs the row under the cursor; on an allocation failure, sets `is_owed`.
    fn push(&mut self) -> Result<()> {
        let value = if self.keys_only { &[] } else { self.cursor.value() };
        let key = self.cursor.key();
        let room = self.data.try_reserve(key.len() + value.len()).and_then(|()| self.offsets.try_reserve(2));
        self.is_owed = room.is_err();
        room.map_err(|_| Failure::out_of_memory("a batch of rows"))?;
        self.data.extend_from_slice(key);
        self.offsets.push(self.data.len());
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len());
        Ok(())
    }

    fn count(&self) -> usize {
        self.offsets.len() / 2
    }

    fn row(&self) -> waxseal_row_t {
        waxseal_row_t { key: waxseal_slice_t::of(self.cursor.key()), value: waxseal_slice_t::of(self.cursor.value()) }
    }

    fn rows(&self) -> waxseal_rows_t {
        waxseal_rows_t { data: self.data.as_ptr(), offsets: self.offsets.as_ptr(), count: self.count() }
    }
}

/// Creates an iterator.
fn create(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    range: CallerBounds,
    iter: Out<'_, *mut waxseal_iter_t>,
) -> Result<()> {
    give(iter, || {
        let cursor = with(family, |family: &ColumnFamily| {
            if snapshot.is_null() {
                Ok(family.cursor_in(range))
            } else {
                with(snapshot, |snapshot: &Snapshot| Ok(snapshot.cursor_in(family, range)))
            }
        })?;
        Ok(RowCursor::Store(cursor))
    })
}

/// Gives the caller an iterator with a cursor.
pub(crate) fn give(iter: Out<'_, *mut waxseal_iter_t>, cursor: impl FnOnce() -> Result<RowCursor>) -> Result<()> {
    let iter = iter.needed("iterator")?;
    let cursor = cursor()?;
    cursor.check()?;
    iter.set(issue(Mutex::new(Iter::new(cursor)))?);
    Ok(())
}

/// Returns the bounds of the keys that begin with a prefix.
pub(crate) fn prefix_of(family: *const waxseal_family_t, prefix: &[u8]) -> Result<CallerBounds> {
    if !with(family, |family| Ok(family.options().order.is_bytewise()))? {
        return Err(Failure::invalid("a family with a comparator has no range of keys with one prefix"));
    }
    Ok(Prefix(prefix).into_bounds())
}

/// Moves an iterator and lends the row at its new position.
#[inline]
fn moved(
    iter: *mut waxseal_iter_t,
    row: Out<'_, waxseal_row_t>,
    to: impl FnOnce(&mut Iter) -> Result<bool>,
) -> Result<bool> {
    let there = with_mut(iter.cast_const(), |iter: &mut Iter| Ok(to(iter)?.then(|| iter.row())))?;
    Ok(given(row, there))
}

/// Writes the output if there is one. True if there is.
#[inline]
fn given<T>(place: Out<'_, T>, there: Option<T>) -> bool {
    there.map(|there| place.set(there)).is_some()
}

fn sought(
    iter: *mut waxseal_iter_t,
    key: Lent<'_>,
    row: Out<'_, waxseal_row_t>,
    to: impl FnOnce(&mut RowCursor, &[u8]) -> face::Result<()>,
) -> Result<bool> {
    let key = key.key()?;
    moved(iter, row, |iter| iter.seek(|cursor| to(cursor, key)))
}

calls! {
    /// Creates an iterator over the records with keys in a range. A null `snapshot` reads the current state. A null
    /// `range` means all keys.
    ///
    /// Thread-safe. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an invalid range, and for a snapshot of another store; `WAXSEAL_CLOSED`.
    fn waxseal_iter_create(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bounds range: *const waxseal_range_t,
        out iter: *mut *mut waxseal_iter_t,
    ) {
        create(family, snapshot, range?, iter)
    }

    /// Creates an iterator over the records whose keys begin with `prefix`. A null `snapshot` reads the current state.
    ///
    /// Thread-safe. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`. Errors: as of
    /// `waxseal_iter_create`; `WAXSEAL_INVALID` for a family with a comparator, whose order need not keep such keys
    /// together.
    fn waxseal_iter_create_prefix(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes prefix,
        out iter: *mut *mut waxseal_iter_t,
    ) {
        create(family, snapshot, prefix_of(family, prefix.key()?)?, iter)
    }

    /// Moves to the first record. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`, which may be null,
    /// receives the row.
    ///
    /// One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`; so do all moves.
    fn waxseal_iter_first(iter: *mut waxseal_iter_t, out row: *mut waxseal_row_t) {
        moved(iter, row, |iter| iter.seek(RowCursor::first))
    }

    /// Moves to the last record. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`, which may be null,
    /// receives the row.
    ///
    /// One thread at a time.
    fn waxseal_iter_last(iter: *mut waxseal_iter_t, out row: *mut waxseal_row_t) {
        moved(iter, row, |iter| iter.seek(RowCursor::last))
    }

    /// Moves to the first record at or after `key`. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`,
    /// which may be null, receives the row.
    ///
    /// One thread at a time.
    fn waxseal_iter_seek(iter: *mut waxseal_iter_t, bytes key, out row: *mut waxseal_row_t) {
        sought(iter, key, row, |cursor, key| cursor.seek(key))
    }

    /// Moves to the last record at or before `key`. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`,
    /// which may be null, receives the row.
    ///
    /// One thread at a time.
    fn waxseal_iter_seek_for_prev(iter: *mut waxseal_iter_t, bytes key, out row: *mut waxseal_row_t) {
        sought(iter, key, row, |cursor, key| cursor.seek_for_prev(key))
    }

    /// Moves to the next record, or a new iterator to the first one. `WAXSEAL_NOT_FOUND` if no such record exists;
    /// otherwise `row`, which may be null, receives the row.
    ///
    /// One thread at a time.
    fn waxseal_iter_next(iter: *mut waxseal_iter_t, out row: *mut waxseal_row_t) {
        moved(iter, row, |iter| iter.step(StepDirection::On))
    }

    /// Moves to the previous record, or a new iterator to the last one. `WAXSEAL_NOT_FOUND` if no such record exists;
    /// otherwise `row`, which may be null, receives the row.
    ///
    /// One thread at a time.
    fn waxseal_iter_prev(iter: *mut waxseal_iter_t, out row: *mut waxseal_row_t) {
        moved(iter, row, |iter| iter.step(StepDirection::Back))
    }

    /// Returns the rows of up to `max_rows` calls of `waxseal_iter_next`, packed in one buffer. A batch ends once it
    /// holds `max_bytes` or more, but always holds at least one row. The iterator is then positioned at the batch's
    /// last row.
    ///
    /// `WAXSEAL_NOT_FOUND` if there is no row. Damage ends a batch: the next call reports it, and the call after that
    /// continues behind it. A row for which memory cannot be allocated ends a batch too: the next call reports that,
    /// and the following step returns this row, in either direction.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` if `max_rows` is zero; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`,
    /// `WAXSEAL_CLOSED`, `WAXSEAL_OUT_OF_MEMORY`.
    fn waxseal_iter_next_rows(
        iter: *mut waxseal_iter_t, max_rows: usize, max_bytes: usize, out rows: *mut waxseal_rows_t,
    ) {
        packed(iter, StepDirection::On, max_rows, max_bytes, rows)
    }
}

setters! {
    field;

    /// Whether batches of rows hold only keys, with empty values. Default false. Rows of single steps always have their
    /// values.
    ///
    /// One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle.
    fn waxseal_iter_set_keys_only(iter: *mut waxseal_iter_t, keys_only: bool) => keys_only = keys_only;
}

calls! {
    /// As `waxseal_iter_next_rows`, backwards: returns the rows of up to `max_rows` calls of `waxseal_iter_prev`, in
    /// their order.
    ///
    /// One thread at a time. Errors: as of `waxseal_iter_next_rows`.
    fn waxseal_iter_prev_rows(
        iter: *mut waxseal_iter_t, max_rows: usize, max_bytes: usize, out rows: *mut waxseal_rows_t,
    ) {
        packed(iter, StepDirection::Back, max_rows, max_bytes, rows)
    }
}

fn packed(
    iter: *mut waxseal_iter_t,
    way: StepDirection,
    max_rows: usize,
    max_bytes: usize,
    rows: Out<'_, waxseal_rows_t>,
) -> Result<bool> {
    let rows = rows.needed("rows")?;
    if max_rows == 0 {
        return Err(Failure::invalid("a batch of no rows"));
    }
    let pack = |iter: &mut Iter| Ok(iter.pack(way, max_rows, max_bytes)?.then(|| iter.rows()));
    let there = with_mut(iter.cast_const(), pack)?;
    Ok(given(rows, there))
}

getters! {
    with_mut;

    /// True if the iterator is positioned at a record; false for null, for a destroyed iterator and for one that
    /// another thread is using.
    fn waxseal_iter_valid(iter: *const waxseal_iter_t) -> bool => |iter| iter.cursor.valid(), or false;

    /// The key at the iterator's position, valid until the iterator is moved or destroyed; empty where
    /// `waxseal_iter_valid` is false.
    fn waxseal_iter_key(iter: *const waxseal_iter_t) -> waxseal_slice_t =>
        |iter| waxseal_slice_t::of(iter.cursor.key()), or waxseal_slice_t::EMPTY;

    /// The value at the iterator's position, valid until the iterator is moved or destroyed; empty where
    /// `waxseal_iter_valid` is false.
    fn waxseal_iter_value(iter: *const waxseal_iter_t) -> waxseal_slice_t =>
        |iter| waxseal_slice_t::of(iter.cursor.value()), or waxseal_slice_t::EMPTY;
}

destroy! {
    /// Destroys an iterator. Null is allowed; a destroyed iterator is `WAXSEAL_CLOSED`.
    fn waxseal_iter_destroy(iter: *mut waxseal_iter_t);
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    use super::*;
    use crate::failure::WAXSEAL_OUT_OF_MEMORY;

    /// The system's allocator, which refuses allocations of a thread above a limit.
    struct Scarce;

    thread_local! {
        static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    fn is_refused(bytes: usize) -> bool {
        MOST.try_with(|most| bytes > most.get()).unwrap_or(false) // the thread may be ending
    }

    // SAFETY: every call is passed on to the system's allocator unchanged, or fails with a null pointer. Reading the
    // limit needs no allocation and no destructor.
    unsafe impl GlobalAlloc for Scarce {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promises are passed on.
            if is_refused(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
        }
        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the caller's promises are passed on.
            unsafe { System.dealloc(pointer, layout) }
        }
        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            // SAFETY: the caller's promises are passed on.
            if is_refused(bytes) { std::ptr::null_mut() } else { unsafe { System.realloc(pointer, layout, bytes) } }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Scarce = Scarce;

    #[test]
    fn a_row_without_memory_is_not_passed() {
        let db = face::Db::memory().unwrap();
        let family = db.column_family("default").unwrap();
        let (a, b) = ([&b"a"[..], &[b'1'; 3000]].concat(), [&b"b"[..], &[b'2'; 3000]].concat());
        for row in [&a, &b] {
            family.put(&row[..1], &row[1..]).unwrap();
        }
        for (way, rows) in [(StepDirection::On, [&a[..], &b]), (StepDirection::Back, [&b[..], &a])] {
            let mut iter = Iter::new(RowCursor::Store(family.cursor()));
            assert!(iter.step(way).unwrap());
            MOST.set(1000);
            let pushed = iter.push();
            MOST.set(usize::MAX);
            assert_eq!(pushed.map_err(|failure| failure.status()), Err(WAXSEAL_OUT_OF_MEMORY));
            assert!(iter.pack(way, 9, usize::MAX).unwrap());
            assert!(iter.data == rows.concat(), "{} rows", iter.count());
        }
    }
}
