//! Bytes that the library hands to the caller: a value, a report, a text.

use crate::call::value_of;
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::handle::{HandleKind, handle, issue, take, with};
use crate::lent::{Out, waxseal_slice_t};

/// Bytes that the caller owns: a value that was read, a text. They do not depend on the store, are readable from any
/// thread, and are freed by `waxseal_bytes_destroy`.
pub struct waxseal_bytes_t {
    _opaque: [u8; 0],
}

handle!(waxseal_bytes_t => Box<[u8]>, HandleKind::Bytes, "bytes object");

/// Copies bytes for the caller. A zero byte, which the length does not count, follows them, so that text is a C string.
pub(crate) fn copied(bytes: &[u8]) -> Result<Box<[u8]>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len() + 1).map_err(|_| Failure::out_of_memory("a value"))?;
    copy.extend_from_slice(bytes);
    copy.push(0);
    Ok(copy.into_boxed_slice())
}

/// Returns bytes for the caller without a copy, if they have room for the zero byte.
pub(crate) fn owned(mut bytes: Vec<u8>) -> Result<Box<[u8]>> {
    bytes.try_reserve_exact(1).map_err(|_| Failure::out_of_memory("a value"))?;
    bytes.push(0);
    Ok(bytes.into_boxed_slice())
}

/// Hands the caller a copy of bytes.
pub(crate) fn give(place: Out<'_, *mut waxseal_bytes_t>, bytes: &[u8]) -> Result<()> {
    place.set(issue(copied(bytes)?)?);
    Ok(())
}

/// Takes the bytes object that a callback made, and returns a copy of its bytes.
pub(crate) fn taken(bytes: *const waxseal_bytes_t) -> Result<Vec<u8>> {
    let taken = take(bytes)?;
    Ok(taken.object.split_last().map_or(Vec::new(), |(_, bytes)| bytes.to_vec()))
}

calls! {
    /// Creates a bytes object with a copy of the data, for a callback that returns one.
    ///
    /// Thread-safe. On success the caller owns `*bytes`, and hands it to the library or frees it with
    /// `waxseal_bytes_destroy`. Errors: `WAXSEAL_INVALID` for data that is null with a length or longer than a value.
    fn waxseal_bytes_create(bytes data, out bytes: *mut *mut waxseal_bytes_t) {
        give(bytes.needed("bytes object")?, data.value()?)
    }
}

/// The bytes, followed by a zero byte that the length does not count; empty for null and for a destroyed object. Valid
/// until the object is destroyed.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_bytes_slice(bytes: *const waxseal_bytes_t) -> waxseal_slice_t {
    value_of(waxseal_slice_t::EMPTY, || {
        with(bytes, |bytes| {
            Ok(bytes.split_last().map_or(waxseal_slice_t::EMPTY, |(_, bytes)| waxseal_slice_t::of(bytes)))
        })
    })
}

destroy! {
    /// Destroys a bytes object. Null is allowed; a destroyed object is `WAXSEAL_CLOSED`.
    fn waxseal_bytes_destroy(bytes: *mut waxseal_bytes_t);
}
