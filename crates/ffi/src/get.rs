//! Point reads.

use face::Slice;

use crate::bytes::{copied, waxseal_bytes_t};
use crate::call::{answer, status_of, value_of};
use crate::error::{Failure, WAXSEAL_NOT_FOUND, WAXSEAL_NOT_RESIDENT, WAXSEAL_OK, WAXSEAL_TOO_SMALL, waxseal_error_t};
use crate::family::waxseal_family_t;
use crate::handle::{Kind, end, handle, issue, with};
use crate::lent::{Out, buffer, lent, lent_slices, out, waxseal_slice_t};
use crate::snapshot::{lend_resident, lend_value, read, waxseal_snapshot_t};

/// The value of a key, copied. `snapshot` null: as it is now. `WAXSEAL_NOT_FOUND` if the key is not there.
///
/// Thread-safe. On `WAXSEAL_OK` `*value` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CORRUPTION` if the
/// value is damaged: then none is given, and no older one in its place; `WAXSEAL_IO`, `WAXSEAL_INVALID`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_get(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    key: *const u8,
    key_len: usize,
    value: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, value, error) = unsafe { (lent(key, key_len), out(value), out(error)) };
    answer(error, || {
        let value = value.needed("value")?;
        let found = with(family, |family| lend_value(family, snapshot, key.key()?, copied))?;
        let Some(copy) = found.transpose()? else { return Ok(false) };
        value.set(issue(copy)?);
        Ok(true)
    })
}

/// Copies the value of a key into a buffer, and its length to `*length`. Nothing is allocated. `snapshot` null: as it is now. A null
/// buffer with capacity 0 asks for the length.
///
/// `WAXSEAL_NOT_FOUND` if the key is not there: nothing is written. `WAXSEAL_TOO_SMALL` if the value does not fit: its length is
/// written, the buffer is untouched; a larger one may come too late, if others write the key meanwhile.
///
/// Thread-safe. Errors: as of `waxseal_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_get_into(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    key: *const u8,
    key_len: usize,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, into, length, error) =
        unsafe { (lent(key, key_len), self::buffer(buffer, capacity), out(length), out(error)) };
    answer(error, || {
        let (mut into, length) = (into.checked()?, length.needed("length")?);
        let fill = |value: &[u8]| (value.len(), into.fill(value));
        let found = with(family, |family| lend_value(family, snapshot, key.key()?, fill))?;
        Ok(filled(Some(found), length))
    })
}

/// `waxseal_get_into`, if its answer is in memory: `WAXSEAL_NOT_RESIDENT` if a file would have to be read, and then nothing is written.
/// For those who must not wait: an event loop, a thread that holds an interpreter's lock. An answer costs what a cached
/// `waxseal_get_into` does.
///
/// Thread-safe. Errors: as of `waxseal_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_get_resident(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    key: *const u8,
    key_len: usize,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, into, length, error) =
        unsafe { (lent(key, key_len), self::buffer(buffer, capacity), out(length), out(error)) };
    answer(error, || {
        let (mut into, length) = (into.checked()?, length.needed("length")?);
        let fill = |value: &[u8]| (value.len(), into.fill(value));
        let found = with(family, |family| lend_resident(family, snapshot, key.key()?, fill))?;
        Ok(filled(found, length))
    })
}

/// The status of a read into a buffer, by the length of the value and whether it fitted. None: it is not in memory.
#[inline]
fn filled(found: Option<Option<(usize, bool)>>, length: Out<'_, usize>) -> i32 {
    match found {
        None => WAXSEAL_NOT_RESIDENT,
        Some(None) => WAXSEAL_NOT_FOUND,
        Some(Some((len, fits))) => {
            length.set(len);
            if fits { WAXSEAL_OK } else { WAXSEAL_TOO_SMALL }
        }
    }
}

/// `WAXSEAL_OK` if the key is there, `WAXSEAL_NOT_FOUND` if not. `snapshot` null: as it is now.
///
/// Thread-safe. Errors: as of `waxseal_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_contains(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    key: *const u8,
    key_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (key, error) = unsafe { (lent(key, key_len), out(error)) };
    answer(error, || with(family, |family| Ok(lend_value(family, snapshot, key.key()?, |_| ())?.is_some())))
}

/// The values of many keys at one moment. They depend on nothing, may be read from any thread, and are ended by
/// `waxseal_values_destroy`.
pub struct waxseal_values_t {
    _opaque: [u8; 0],
}

handle!(waxseal_values_t => Vec<Option<Slice>>, Kind::Values, "values object");

/// The values of `count` keys, all as they were at one moment, copied. `snapshot` null: now.
///
/// Thread-safe. On success `*values` is the caller's, to be ended by `waxseal_values_destroy`. Errors: as of `waxseal_get`; one value
/// that cannot be given fails the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_multi_get(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    keys: *const waxseal_slice_t,
    count: usize,
    values: *mut *mut waxseal_values_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (keys, values, error) = unsafe { (lent_slices(keys, count), out(values), out(error)) };
    answer(error, || {
        let values = values.needed("values")?;
        let keys = keys?.into_iter().map(|key| key.key()).collect::<Result<Vec<&[u8]>, Failure>>()?;
        let found = with(family, |family| {
            read(snapshot, || family.multi_get(&keys), |snapshot| snapshot.multi_get(family, &keys))
        })?;
        values.set(issue(found)?);
        Ok(())
    })
}

/// How many values there are, absent ones counted: as many as keys were asked for. 0 for null and for values that were ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_values_count(values: *const waxseal_values_t) -> usize {
    value_of(0, || with(values, |values| Ok(values.len())))
}

/// The value of the key at `index`, lent until the values are ended. `WAXSEAL_NOT_FOUND` if the key was not there: nothing is written.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` for an index past the end, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_values_at(
    values: *const waxseal_values_t,
    index: usize,
    value: *mut waxseal_slice_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let value = unsafe { out(value) };
    status_of(|| {
        with(values, |values| match values.get(index) {
            Some(Some(found)) => {
                value.set(waxseal_slice_t::of(found));
                Ok(true)
            }
            Some(None) => Ok(false),
            None => Err(Failure::invalid(format!("no value {index}: there are {}", values.len()))),
        })
    })
}

/// Ends values. Null is no error; values that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_values_destroy(values: *mut waxseal_values_t) -> i32 {
    status_of(|| end(values.cast_const()))
}
