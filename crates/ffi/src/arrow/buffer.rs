//! Buffers in Arrow's layout: 64-byte aligned, numbers in native byte order.

use std::collections::TryReserveError;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Alignment of a buffer, and the unit of its growth.
const LINE_BYTES: usize = 64;

/// Memory of one cache line, possibly uninitialized.
#[repr(align(64))]
struct CacheLine {
    _bytes: MaybeUninit<[u8; LINE_BYTES]>,
}

/// A byte buffer that only grows. The first `len` bytes are initialized; `finished` zeroes the rest of the last line.
#[derive(Default)]
pub(super) struct ColumnBuffer {
    lines: Vec<CacheLine>,
    len: usize,
}

impl ColumnBuffer {
    /// Creates a buffer with capacity for approximately `bytes`, if the allocation succeeds.
    pub(super) fn with_room(bytes: usize) -> ColumnBuffer {
        let mut lines = Vec::new();
        let _ = lines.try_reserve(bytes.div_ceil(LINE_BYTES)); // `grow` retries a failed allocation
        ColumnBuffer { lines, len: 0 }
    }

    /// Returns the number of written bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), TryReserveError> {
        let at = self.grow(bytes.len())?;
        // SAFETY: `grow` made room for `bytes.len()` bytes at `at`; `bytes` is borrowed, so it does not overlap this
        // buffer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) }
        Ok(())
    }

    /// Appends a number in native byte order.
    #[inline]
    pub(super) fn push<T: Number>(&mut self, number: T) -> Result<(), TryReserveError> {
        let at = self.grow(size_of::<T>())?;
        // SAFETY: `grow` made room for a `T` at `at`; it need not be aligned.
        unsafe { at.cast::<T>().write_unaligned(number) }
        Ok(())
    }

    /// Sets the bit with this index; bits never set are 0. Bits must come in ascending order.
    pub(super) fn set_bit(&mut self, bit: usize, is_set: bool) -> Result<(), TryReserveError> {
        while self.len <= bit / 8 {
            self.push(0u8)?;
        }
        if is_set {
            // SAFETY: byte `bit / 8` is below `len`, so it is allocated and initialized.
            unsafe { *self.lines.as_mut_ptr().cast::<u8>().add(bit / 8) |= 1 << (bit % 8) }
        }
        Ok(())
    }

    /// Finishes the buffer: zeroes the rest of the last line, so that it discloses no old memory.
    pub(super) fn finished(mut self) -> ColumnBuffer {
        let left = self.lines.len() * LINE_BYTES - self.len;
        // SAFETY: these `left` bytes behind the written ones lie within the lines.
        unsafe { self.lines.as_mut_ptr().cast::<u8>().add(self.len).write_bytes(0, left) }
        self
    }

    /// Returns the address: 64-byte aligned, never null, valid until the buffer is dropped or grows.
    pub(super) fn as_ptr(&self) -> *const c_void {
        self.lines.as_ptr().cast()
    }

    /// Makes room for `bytes` more bytes, counts them as written, and returns their address.
    #[inline]
    fn grow(&mut self, bytes: usize) -> Result<*mut u8, TryReserveError> {
        let start = self.len;
        let lines = (start + bytes).div_ceil(LINE_BYTES);
        if lines > self.lines.len() {
            self.lines.try_reserve(lines - self.lines.len())?;
            // SAFETY: `lines` lines are allocated, and a line may be uninitialized.
            unsafe { self.lines.set_len(lines) }
        }
        self.len += bytes;
        // SAFETY: `start` is at most the size of all lines.
        Ok(unsafe { self.lines.as_mut_ptr().cast::<u8>().add(start) })
    }
}

/// Numbers that `ColumnBuffer::push` accepts: plain, without padding.
pub(super) trait Number: Copy {}
impl Number for u8 {}
impl Number for i32 {}
impl Number for i64 {}
impl Number for u64 {}
impl Number for i128 {}
impl Number for f32 {}
impl Number for f64 {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(buffer: &ColumnBuffer) -> &[u8] {
        // SAFETY: the first `len` bytes are written.
        unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), buffer.len()) }
    }

    #[test]
    fn what_was_appended_is_there_and_aligned() {
        for appended in [0, 1, 63, 64, 65, 1000] {
            let mut buffer = ColumnBuffer::default();
            let mut expected = Vec::new();
            for n in 0..appended {
                buffer.push(n as u8).unwrap();
                buffer.extend(&[n as u8; 7]).unwrap();
                expected.extend_from_slice(&[n as u8; 8]);
            }
            let buffer = buffer.finished();
            assert_eq!(bytes(&buffer), expected);
            assert_eq!(buffer.as_ptr() as usize % 64, 0);
        }
    }

    #[test]
    fn bits_stand_low_first() {
        let mut buffer = ColumnBuffer::with_room(2);
        [true, false, false, true, false, false, false, false, true].iter().enumerate().for_each(|(bit, is_set)| {
            buffer.set_bit(bit, *is_set).unwrap();
        });
        assert_eq!(bytes(&buffer.finished()), [0b1001, 1]);
    }
}
