//! What a caller lends for the time of a call: bytes to read, places to write to.
//!
//! In: raw pointers. Out: types whose making is the `unsafe` step and whose use is safe. Lengths are looked at before bytes are.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::slice;

use face::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

use crate::error::{Failure, Result};

/// Bytes: where, and how many. A null pointer with length 0 is the empty slice.
///
/// Lent to the library it is read during the call only. Lent by the library it is valid as long as the function that gave it says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_slice_t {
    /// The first byte.
    pub data: *const u8,
    /// Their number.
    pub len: usize,
}

impl waxseal_slice_t {
    pub(crate) const EMPTY: waxseal_slice_t = waxseal_slice_t { data: std::ptr::null(), len: 0 };

    /// Lends bytes to the caller.
    pub(crate) fn of(bytes: &[u8]) -> waxseal_slice_t {
        waxseal_slice_t { data: bytes.as_ptr(), len: bytes.len() }
    }
}

/// Bytes of a caller, not looked at yet.
#[derive(Clone, Copy)]
pub(crate) struct Lent<'a> {
    data: *const u8,
    len: usize,
    lifetime: PhantomData<&'a [u8]>,
}

/// Takes a caller's bytes.
///
/// # Safety
/// If `data` is not null, `len` bytes are readable there for `'a`, and nobody writes them.
#[inline]
pub(crate) unsafe fn lent<'a>(data: *const u8, len: usize) -> Lent<'a> {
    Lent { data, len, lifetime: PhantomData }
}

impl<'a> Lent<'a> {
    /// The bytes of a key.
    #[inline]
    pub(crate) fn key(self) -> Result<&'a [u8]> {
        self.at_most(MAX_KEY_BYTES, "key")
    }

    /// The bytes of a value.
    #[inline]
    pub(crate) fn value(self) -> Result<&'a [u8]> {
        self.at_most(MAX_VALUE_BYTES, "value")
    }

    /// Bytes of another kind, called `what` should they be wrong.
    pub(crate) fn bytes(self, what: &str) -> Result<&'a [u8]> {
        self.at_most(isize::MAX as usize, what)
    }

    /// Text, called `what` should it be wrong.
    pub(crate) fn text(self, what: &str) -> Result<&'a str> {
        str::from_utf8(self.bytes(what)?)
            .map_err(|error| Failure::invalid(format!("the {what} is no UTF-8 from byte {} on", error.valid_up_to())))
    }

    /// The name of a file or directory.
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
        // SAFETY: not null and not longer than memory; the rest is what `lent` was promised.
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

/// Takes a caller's array of slices.
///
/// # Safety
/// If `slices` is not null, `count` of them are readable there for `'a`, each as `lent` asks for its bytes, and nobody writes them.
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
        // SAFETY: the caller says that `count` slices are readable, and for what each of them says.
        taken.push(unsafe {
            let waxseal_slice_t { data, len } = *slices.add(index);
            lent(data, len)
        });
    }
    Ok(taken)
}

/// Takes a caller's array of structs.
///
/// # Safety
/// If `items` is not null, `count` of them are readable there for `'a`, and nobody writes them.
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

/// A place of the caller's that a result is written to.
pub(crate) struct Out<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

/// Takes a place for a result.
///
/// # Safety
/// `place` is null, or may be written for `'a` by nobody else. What stands there may be read if it was made by this library.
#[inline]
pub(crate) unsafe fn out<'a, T>(place: *mut T) -> Out<'a, T> {
    Out { place, lifetime: PhantomData }
}

impl<T> Out<'_, T> {
    /// No place: what is written is dropped.
    pub(crate) fn nowhere() -> Self {
        Out { place: std::ptr::null_mut(), lifetime: PhantomData }
    }

    /// Refuses a null pointer, where an answer that goes nowhere would be lost.
    #[inline]
    pub(crate) fn needed(self, what: &str) -> Result<Self> {
        if self.place.is_null() {
            return Err(Failure::invalid(format!("no place for the {what}: its pointer is null")));
        }
        Ok(self)
    }

    /// Writes a result, if there is a place for it.
    #[inline]
    pub(crate) fn set(self, value: T) {
        if !self.place.is_null() {
            // SAFETY: not null; the rest is what `out` was promised.
            unsafe { self.place.write(value) }
        }
    }

    /// Puts a value there, if there is a place for it, and gives back what stood there.
    pub(crate) fn replace(self, value: T) -> Option<T> {
        if self.place.is_null() {
            return None;
        }
        // SAFETY: not null; the rest is what `out` was promised.
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

/// Takes a caller's buffer.
///
/// # Safety
/// If `data` is not null, `capacity` bytes may be written there for `'a`, by nobody else.
#[inline]
pub(crate) unsafe fn buffer<'a>(data: *mut u8, capacity: usize) -> Buffer<'a> {
    Buffer { data, capacity, lifetime: PhantomData }
}

impl Buffer<'_> {
    /// Refuses a null pointer that has a capacity.
    #[inline]
    pub(crate) fn checked(self) -> Result<Self> {
        if self.data.is_null() && self.capacity > 0 {
            return Err(null_bytes("buffer", self.capacity));
        }
        Ok(self)
    }

    /// Copies bytes there if they fit. False, and an untouched buffer, if not.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.capacity {
            return false;
        }
        if !bytes.is_empty() {
            // SAFETY: the buffer is not null, since it was checked and has room for a byte; it holds as many bytes as are written,
            // and is the caller's own, so it does not overlap what the library lends.
            unsafe { self.data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        }
        true
    }
}
