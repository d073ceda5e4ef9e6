//! Point reads.

use face::Slice;

use crate::bytes::{copied, waxseal_bytes_t};
use crate::call::status_of;
use crate::declare::{destroy, getters};
use crate::error::calls;
use crate::failure::{Failure, WAXSEAL_NOT_FOUND, WAXSEAL_NOT_RESIDENT, WAXSEAL_OK, WAXSEAL_TOO_SMALL};
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, with};
use crate::lent::{Out, out, waxseal_slice_t};
use crate::snapshot::{lend_resident, lend_value, read, waxseal_snapshot_t};

calls! {
    /// Returns a copy of a key's value. A null `snapshot` reads the current state. `WAXSEAL_NOT_FOUND` if the key does
    /// not exist.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CORRUPTION` if the value is damaged; the call then returns no value, not even an older one.
    /// `WAXSEAL_IO`, `WAXSEAL_INVALID`, `WAXSEAL_CLOSED`.
    fn waxseal_get(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes key,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        let value = value.needed("value")?;
        let found = with(family, |family| lend_value(family, snapshot, key.key()?, copied))?;
        let Some(copy) = found.transpose()? else { return Ok(false) };
        value.set(issue(copy)?);
        Ok(true)
    }

    /// Copies the value of a key to a buffer, and its length to `*length`. Allocates nothing. A null `snapshot` reads
    /// the current state. A null buffer with capacity 0 queries the length.
    ///
    /// `WAXSEAL_NOT_FOUND` if the key does not exist: nothing is written. `WAXSEAL_TOO_SMALL` if the value does not
    /// fit: only its length is written. A retry with a larger buffer may again be too small, if other threads write the
    /// key meanwhile.
    ///
    /// Thread-safe. Errors: as of `waxseal_get`.
    fn waxseal_get_into(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes key, buffer buffer,
        out length: *mut usize,
    ) {
        let (mut buffer, length) = (buffer.checked()?, length.needed("length")?);
        let fill = |value: &[u8]| (value.len(), buffer.fill(value));
        let found = with(family, |family| lend_value(family, snapshot, key.key()?, fill))?;
        Ok(filled(Some(found), length))
    }

    /// As `waxseal_get_into`, but never reads a file: returns `WAXSEAL_NOT_RESIDENT`, and writes nothing, if the answer
    /// is not in memory. Meant for threads that must not block, such as an event loop or a thread that holds an
    /// interpreter's lock. A resident answer costs as much as a cached `waxseal_get_into`.
    ///
    /// Thread-safe. Errors: as of `waxseal_get`.
    fn waxseal_get_resident(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes key, buffer buffer,
        out length: *mut usize,
    ) {
        let (mut buffer, length) = (buffer.checked()?, length.needed("length")?);
        let fill = |value: &[u8]| (value.len(), buffer.fill(value));
        let found = with(family, |family| lend_resident(family, snapshot, key.key()?, fill))?;
        Ok(filled(found, length))
    }
}

/// Returns the status of a read into a buffer, from the value's length and whether it fitted. `None` means that the
/// answer is not in memory.
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

calls! {
    /// `WAXSEAL_OK` if the key exists, `WAXSEAL_NOT_FOUND` if not. A null `snapshot` reads the current state.
    ///
    /// Thread-safe. Errors: as of `waxseal_get`.
    fn waxseal_contains(family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes key) {
        with(family, |family| Ok(lend_value(family, snapshot, key.key()?, |_| ())?.is_some()))
    }
}

/// The values of several keys at one point in time. They do not depend on the store, are readable from any thread, and
/// are freed by `waxseal_values_destroy`.
pub struct waxseal_values_t {
    _opaque: [u8; 0],
}

handle!(waxseal_values_t => Vec<Option<Slice>>, HandleKind::Values, "values object");

calls! {
    /// Returns copies of the values of `count` keys, all read at one point in time. A null `snapshot` reads the current
    /// state.
    ///
    /// Thread-safe. On success the caller owns `*values` and frees it with `waxseal_values_destroy`. Errors: as of
    /// `waxseal_get`; if one value cannot be read, the whole call fails.
    fn waxseal_multi_get(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, slices keys,
        out values: *mut *mut waxseal_values_t,
    ) {
        let values = values.needed("values")?;
        let keys = keys?.into_iter().map(|key| key.key()).collect::<Result<Vec<&[u8]>, Failure>>()?;
        let found = with(family, |family| {
            read(snapshot, || family.multi_get(&keys), |snapshot| snapshot.multi_get(family, &keys))
        })?;
        values.set(issue(found)?);
        Ok(())
    }
}

getters! {
    with;

    /// Number of values, absent ones included: the number of requested keys. 0 for null and for a destroyed object.
    fn waxseal_values_count(values: *const waxseal_values_t) -> usize => |values| values.len(), or 0;
}

/// The value of the key at `index`, valid until the values are destroyed. `WAXSEAL_NOT_FOUND` if the key does not
/// exist: nothing is written.
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

destroy! {
    /// Destroys values. Null is allowed; a destroyed object is `WAXSEAL_CLOSED`.
    fn waxseal_values_destroy(values: *mut waxseal_values_t);
}
