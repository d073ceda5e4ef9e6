//! Declarations of the C functions that this module calls; a test compares them with `waxseal.h`.
//!
//! Handles are numbers in the shape of pointers and are never dereferenced, so their type here is a number. Every
//! function accepts any number as a handle; a call's safety depends only on the memory behind its pointers.

use std::ffi::c_char;
use std::ptr;

pub(crate) const WAXSEAL_OK: i32 = 0;
pub(crate) const WAXSEAL_NOT_FOUND: i32 = 1;
pub(crate) const WAXSEAL_TOO_SMALL: i32 = 2;
pub(crate) const WAXSEAL_NOT_RESIDENT: i32 = 3;
pub(crate) const WAXSEAL_CLOSED: i32 = -9;

pub(crate) const WAXSEAL_COMPARE_FAILED: i32 = i32::MIN;

pub(crate) const WAXSEAL_VERDICT_NONE: i32 = 0;

pub(crate) const WAXSEAL_UNBOUNDED: i32 = 0;
pub(crate) const WAXSEAL_INCLUDED: i32 = 1;
pub(crate) const WAXSEAL_EXCLUDED: i32 = 2;

pub(crate) const WAXSEAL_DURABILITY_DEFAULT: i32 = 0;
pub(crate) const WAXSEAL_DURABILITY_BUFFERED: i32 = 1;
pub(crate) const WAXSEAL_DURABILITY_OS: i32 = 2;
pub(crate) const WAXSEAL_DURABILITY_SYNC: i32 = 3;

/// A handle.
pub(crate) type Handle = usize;

/// The place to which a call writes a handle.
pub(crate) type HandlePlace = *mut Handle;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) data: *const u8,
    pub(crate) len: usize,
}

impl Slice {
    pub(crate) const EMPTY: Slice = Slice { data: ptr::null(), len: 0 };

    pub(crate) fn of(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr(), len: bytes.len() }
    }
}

#[repr(C)]
pub(crate) struct Bound {
    pub(crate) kind: i32,
    pub(crate) key: *const u8,
    pub(crate) key_len: usize,
}

#[repr(C)]
pub(crate) struct Range {
    pub(crate) lower: Bound,
    pub(crate) upper: Bound,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) key: Slice,
    pub(crate) value: Slice,
}

impl Row {
    pub(crate) const EMPTY: Row = Row { key: Slice::EMPTY, value: Slice::EMPTY };
}

/// The type of the functions that read a value into a buffer.
pub(crate) type GetInto = unsafe extern "C" fn(
    family: Handle,
    snapshot: Handle,
    key: *const u8,
    key_len: usize,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: HandlePlace,
) -> i32;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) data: *const u8,
    pub(crate) offsets: *const usize,
    pub(crate) count: usize,
}

impl Rows {
    pub(crate) const EMPTY: Rows = Rows { data: ptr::null(), offsets: ptr::null(), count: 0 };
}

unsafe extern "C" {
    pub(crate) safe fn waxseal_error_message(error: Handle) -> *const c_char;
    pub(crate) safe fn waxseal_error_file(error: Handle) -> *const c_char;
    pub(crate) safe fn waxseal_error_family(error: Handle) -> *const c_char;
    pub(crate) safe fn waxseal_error_offset(error: Handle) -> u64;
    pub(crate) safe fn waxseal_error_verdict(error: Handle) -> i32;
    pub(crate) fn waxseal_error_key_range(error: Handle, smallest: *mut Slice, largest: *mut Slice) -> i32;
    pub(crate) safe fn waxseal_error_destroy(error: Handle) -> i32;

    pub(crate) fn waxseal_get(
        family: Handle,
        snapshot: Handle,
        key: *const u8,
        key_len: usize,
        value: HandlePlace,
        error: HandlePlace,
    ) -> i32;
    pub(crate) safe fn waxseal_bytes_slice(bytes: Handle) -> Slice;
    pub(crate) safe fn waxseal_bytes_destroy(bytes: Handle) -> i32;
    pub(crate) fn waxseal_get_into(
        family: Handle,
        snapshot: Handle,
        key: *const u8,
        key_len: usize,
        buffer: *mut u8,
        capacity: usize,
        length: *mut usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_get_resident(
        family: Handle,
        snapshot: Handle,
        key: *const u8,
        key_len: usize,
        buffer: *mut u8,
        capacity: usize,
        length: *mut usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_contains(
        family: Handle,
        snapshot: Handle,
        key: *const u8,
        key_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_multi_get(
        family: Handle,
        snapshot: Handle,
        keys: *const Slice,
        count: usize,
        values: HandlePlace,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_values_at(values: Handle, index: usize, value: *mut Slice) -> i32;
    pub(crate) safe fn waxseal_values_destroy(values: Handle) -> i32;

    pub(crate) fn waxseal_put(
        family: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_put_with(
        family: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_compare_and_set(
        family: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        old_value: *const Slice,
        new_value: *const Slice,
        is_set: *mut bool,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_delete(family: Handle, key: *const u8, key_len: usize, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_delete_with(
        family: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_delete_range(
        family: Handle,
        start: *const u8,
        start_len: usize,
        end: *const u8,
        end_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_delete_range_with(
        family: Handle,
        options: Handle,
        start: *const u8,
        start_len: usize,
        end: *const u8,
        end_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_write_options_create(options: HandlePlace, error: HandlePlace) -> i32;
    pub(crate) safe fn waxseal_write_options_set_durability(options: Handle, number: i32) -> i32;
    pub(crate) safe fn waxseal_write_options_destroy(options: Handle) -> i32;

    pub(crate) fn waxseal_batch_create(db: Handle, batch: HandlePlace, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_session_batch_create(session: Handle, batch: HandlePlace, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_batch_put(
        batch: Handle,
        family: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_batch_put_with_options(
        batch: Handle,
        family: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_batch_apply(batch: Handle, family: Handle, changes: Handle, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_batch_delete(
        batch: Handle,
        family: Handle,
        key: *const u8,
        key_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_batch_delete_range(
        batch: Handle,
        family: Handle,
        start: *const u8,
        start_len: usize,
        end: *const u8,
        end_len: usize,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_batch_commit(batch: Handle, durability: i32, error: HandlePlace) -> i32;
    pub(crate) safe fn waxseal_batch_clear(batch: Handle) -> i32;
    pub(crate) safe fn waxseal_batch_count(batch: Handle) -> usize;
    pub(crate) safe fn waxseal_batch_bytes(batch: Handle) -> usize;
    pub(crate) safe fn waxseal_batch_destroy(batch: Handle) -> i32;

    pub(crate) fn waxseal_iter_create(
        family: Handle,
        snapshot: Handle,
        range: *const Range,
        iter: HandlePlace,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_iter_create_prefix(
        family: Handle,
        snapshot: Handle,
        prefix: *const u8,
        prefix_len: usize,
        iter: HandlePlace,
        error: HandlePlace,
    ) -> i32;
    pub(crate) safe fn waxseal_iter_set_keys_only(iter: Handle, keys_only: bool) -> i32;
    pub(crate) fn waxseal_iter_first(iter: Handle, row: *mut Row, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_iter_last(iter: Handle, row: *mut Row, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_iter_seek(
        iter: Handle,
        key: *const u8,
        key_len: usize,
        row: *mut Row,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_iter_next(iter: Handle, row: *mut Row, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_iter_prev(iter: Handle, row: *mut Row, error: HandlePlace) -> i32;
    pub(crate) fn waxseal_iter_next_rows(
        iter: Handle,
        max_rows: usize,
        max_bytes: usize,
        rows: *mut Rows,
        error: HandlePlace,
    ) -> i32;
    pub(crate) fn waxseal_iter_prev_rows(
        iter: Handle,
        max_rows: usize,
        max_bytes: usize,
        rows: *mut Rows,
        error: HandlePlace,
    ) -> i32;
    pub(crate) safe fn waxseal_iter_destroy(iter: Handle) -> i32;
}
