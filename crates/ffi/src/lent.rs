//! Memory that a caller lends for the duration of a call: input bytes and output places.
//!
//! In: raw pointers. Out: types whose construction is `unsafe` and whose use is safe. Lengths are checked before bytes
//! are read.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::slice;

use face::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

use crate::failure::{Failure, Result};

/// Bytes: a pointer and a length. A null pointer with length 0 is the empty slice.
///
/// The library reads a slice from the caller during the call only. A slice from the library is valid as long as the
/// documentation of the function that returned it states.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_slice_t {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
}

impl waxseal_slice_t {
    pub(crate) const EMPTY: waxseal_slice_t = waxseal_slice_t { data: std::ptr::null(), len: 0 };

    /// Lends bytes to the caller.
    pub(crate) fn of(bytes: &[u8]) -> waxseal_slice_t {
        waxseal_slice_t { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// Lends text to the caller.
    pub(crate) fn text(text: &str) -> waxseal_slice_t {
        waxseal_slice_t::of(text.as_bytes())
    }

    /// Lends bytes to the caller; `None` is a null pointer with length 0.
    pub(crate) fn or_empty(bytes: Option<impl AsRef<[u8]>>) -> waxseal_slice_t {
        bytes.map_or(waxseal_slice_t::EMPTY, |bytes| waxseal_slice_t::of(bytes.as_ref()))
    }
}

/// Bytes from a caller, not validated yet.
#[derive(Clone, Copy)]
pub(crate) struct Lent<'a> {
    data: *const u8,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

/// Wraps a caller's bytes.
///
/// # Safety
/// If `data` is not null, `len` bytes are readable there for `'a`, and no thread writes them.
#[inline]
pub(crate) unsafe fn lent<'a>(data: *const u8, len: usize) -> Lent<'a> {
    Lent { data, len, lifetime: PhantomData }
}

impl<'a> Lent<'a> {
    /// Returns the bytes of a key.
    #[inline]
    pub(crate) fn key(self) -> Result<&'a [u8]> {
        self.at_most(MAX_KEY_BYTES, "key")
    }

    /// Returns the bytes of a key that bounds a range; a null pointer with length 0 is no bound.
    pub(crate) fn bound(self) -> Result<Option<&'a [u8]>> {
        let is_unbounded = self.data.is_null() && self.len == 0;
        if is_unbounded { Ok(None) } else { self.key().map(Some) }
    }

    /// Returns the bytes of a value.
    #[inline]
    pub(crate) fn value(self) -> Result<&'a [u8]> {
        self.at_most(MAX_VALUE_BYTES, "value")
    }

    /// Returns bytes of any kind; error messages call them `what`.
    pub(crate) fn bytes(self, what: &str) -> Result<&'a [u8]> {
        self.at_most(isize::MAX as usize, what)
    }

    /// Returns UTF-8 text; error messages call it `what`.
    pub(crate) fn text(self, what: &str) -> Result<&'a str> {
        str::from_utf8(self.bytes(what)?)
            .map_err(|error| Failure::invalid(format!("the {what} is no UTF-8 from byte {} on", error.valid_up_to())))
    }

    /// Returns the path of a file or directory.
    pub(crate) fn path(self) -> Result<PathBuf> {
        let bytes = self.bytes("path")?;
        if bytes.is_empty() {
            return Err(Failure::invalid("the path is empty"));
        }
        if bytes.contains(&0) {
            return Err(Failure::invalid("the path has a zero byte in it"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            Ok(std::ffi::OsStr::from_bytes(bytes).into())
        }
        #[cfg(not(unix))]
        self.text("path").map(PathBuf::from)
    }

    #[inline]
    fn at_most(self, most: usize, what: &str) -> Result<&'a [u8]> {
        if self.len > most {
            return Err(too_long(what, self.len, most));
        }
        if self.data.is_null() {
            return if self.len == 0 { Ok(&[]) } else { Err(null_bytes(what, self.len)) };
        }
        // SAFETY: not null and not longer than memory; the rest is the contract of `lent`.
        Ok(unsafe { slice::from_raw_parts(self.data, self.len) })
    }
}

#[cold]
fn too_long(what: &str, len: usize, most: usize) -> Failure {
    Failure::invalid(format!("a {what} of {len} bytes; at most {most} are allowed"))
}

#[cold]
fn null_bytes(what: &str, len: usize) -> Failure {
    Failure::invalid(format!("the {what} is a null pointer with length {len}"))
}

/// Wraps a caller's optional bytes: a pointer to a slice, null for none.
///
/// # Safety
/// `slice` is null, or readable and its bytes meet the contract of `lent`.
pub(crate) unsafe fn lent_optional<'a>(slice: *const waxseal_slice_t) -> Option<Lent<'a>> {
    // SAFETY: null, or readable by the caller's promise.
    let slice = unsafe { slice.as_ref() }?;
    // SAFETY: the caller's promise.
    Some(unsafe { lent(slice.data, slice.len) })
}

/// Wraps a caller's array of slices.
///
/// # Safety
/// If `slices` is not null, `count` slices are readable there for `'a`, each meets the contract of `lent`, and no
/// thread writes them.
pub(crate) unsafe fn lent_slices<'a>(slices: *const waxseal_slice_t, count: usize) -> Result<Vec<Lent<'a>>> {
    if slices.is_null() && count > 0 {
        return Err(Failure::invalid(format!("the array of slices is a null pointer with length {count}")));
    }
    if count > isize::MAX as usize / size_of::<waxseal_slice_t>() {
        return Err(Failure::invalid(format!("an array of {count} slices does not fit into memory")));
    }
    let mut taken = Vec::new();
    taken.try_reserve_exact(count).map_err(|_| Failure::out_of_memory("an array of slices"))?;
    for index in 0..count {
        // SAFETY: the caller promises that `count` slices are readable, and the bytes of each slice too.
        taken.push(unsafe {
            let waxseal_slice_t { data, len } = *slices.add(index);
            lent(data, len)
        });
    }
    Ok(taken)
}

/// Wraps a caller's array of structs.
///
/// # Safety
/// If `items` is not null, `count` items are readable there for `'a`, and no thread writes them.
pub(crate) unsafe fn lent_array<'a, T>(items: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if items.is_null() {
        return Err(Failure::invalid(format!("an array is a null pointer with length {count}")));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::invalid(format!("an array of {count} does not fit into memory")));
    }
    // SAFETY: not null and not longer than memory; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(items, count) })
}

/// A caller's struct with pointers in its fields, or a pointer to such a struct.
pub(crate) trait Lend {
    /// Its content.
    type Copied;

    /// Copies the content.
    ///
    /// # Safety
    /// Every pointer in it is null, or readable for the length beside it, and no thread writes there.
    unsafe fn copied(self) -> Result<Self::Copied>;
}

/// Copies the items of an array of structs.
///
/// # Safety
/// As for `lent_array`; each item is as `Lend` asks.
pub(crate) unsafe fn copied_array<T: Lend + Copy>(items: *const T, count: usize) -> Result<Vec<T::Copied>> {
    // SAFETY: the caller's promise.
    let items = unsafe { lent_array(items, count) }?;
    // SAFETY: the caller's promise.
    items.iter().map(|item| unsafe { item.copied() }).collect()
}

impl Lend for waxseal_slice_t {
    type Copied = Vec<u8>;

    unsafe fn copied(self) -> Result<Vec<u8>> {
        // SAFETY: the caller's promise.
        unsafe { lent(self.data, self.len) }.bytes("slice").map(<[u8]>::to_vec)
    }
}

/// Copies a text; error messages call it `what`.
///
/// # Safety
/// As for `lent`.
pub(crate) unsafe fn copied_text(slice: waxseal_slice_t, what: &str) -> Result<String> {
    // SAFETY: the caller's promise.
    unsafe { lent(slice.data, slice.len) }.text(what).map(str::to_owned)
}

/// A place of the caller's that receives a result.
pub(crate) struct Out<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

/// Wraps a place for a result.
///
/// # Safety
/// `place` is null, or writable for `'a` by this call alone. Its previous content may be read if this library wrote it.
#[inline]
pub(crate) unsafe fn out<'a, T>(place: *mut T) -> Out<'a, T> {
    Out { place, lifetime: PhantomData }
}

impl<T> Out<'_, T> {
    /// Refuses a null pointer where the result is the purpose of the call.
    #[inline]
    pub(crate) fn needed(self, what: &str) -> Result<Self> {
        if self.place.is_null() {
            return Err(Failure::invalid(format!("no place for the {what}: its pointer is null")));
        }
        Ok(self)
    }

    /// Writes a result, unless the caller passed a null place.
    #[inline]
    pub(crate) fn set(self, value: T) {
        if !self.place.is_null() {
            // SAFETY: not null; the rest is the contract of `out`.
            unsafe { self.place.write(value) }
        }
    }

    /// Writes a value if there is a place for it, and returns the place's previous content.
    pub(crate) fn replace(self, value: T) -> Option<T> {
        if self.place.is_null() {
            return None;
        }
        // SAFETY: not null; the rest is the contract of `out`.
        Some(unsafe { self.place.replace(value) })
    }

    pub(crate) fn is_nowhere(&self) -> bool {
        self.place.is_null()
    }
}

/// A buffer of the caller's.
pub(crate) struct Buffer<'a> {
    data: *mut u8,
    capacity: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

/// Wraps a caller's buffer.
///
/// # Safety
/// If `data` is not null, `capacity` bytes are writable there for `'a` by this call alone.
#[inline]
pub(crate) unsafe fn buffer<'a>(data: *mut u8, capacity: usize) -> Buffer<'a> {
    Buffer { data, capacity, lifetime: PhantomData }
}

impl Buffer<'_> {
    /// Refuses a null pointer with a nonzero capacity.
    #[inline]
    pub(crate) fn checked(self) -> Result<Self> {
        if self.data.is_null() && self.capacity > 0 {
            return Err(null_bytes("buffer", self.capacity));
        }
        Ok(self)
    }

    /// Copies bytes to the buffer if they fit. Otherwise returns false and leaves the buffer unchanged.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.capacity {
            return false;
        }
        if !bytes.is_empty() {
            // SAFETY: the buffer was checked, so a non-empty one is not null. It has room for all written bytes. It
            // belongs to the caller, so it does not overlap memory that the library lends.
            unsafe { self.data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        }
        true
    }
}
