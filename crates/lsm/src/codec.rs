//! Encoding of numbers and bytes: little-endian words and LEB128 varints, decoded with bounds checks only (I10).
//!
//! A `Reader` never panics and never allocates. Every length that it returns fits into the remaining bytes.

use crate::error::{Error, Result};

/// Appends `value` as a LEB128 varint: seven bits per byte, low bits first, at most ten bytes.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Returns the number of bytes that `put_varint` writes for `value`.
pub fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a byte slice forward, with a bounds check at every step.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Creates a reader at offset `at`; past the end it is empty.
    pub fn starting_at(bytes: &'a [u8], at: usize) -> Self {
        Reader { bytes, at: at.min(bytes.len()) }
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns true at the end.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Returns the bytes left.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns the next byte without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Reads the next byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(short)?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next two bytes.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads the next four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads the next eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, _) = self.rest().split_first_chunk::<N>().ok_or_else(short)?;
        self.at += N;
        Ok(*head)
    }

    /// Reads the next `length` bytes, borrowed.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.remaining() {
            return Err(short());
        }
        let taken = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    /// Reads a varint; rejects more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        match self.bytes.get(self.at) {
            Some(&only) if only < 0x80 => {
                self.at += 1;
                Ok(only as u64)
            }
            _ => self.long_varint(),
        }
    }

    /// Reads a varint of more than one byte.
    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            let bits = (byte & 0x7f) as u64;
            if shift > 63 || (shift == 63 && bits > 1) {
                return Err(Error::structural("varint longer than 64 bits"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// Reads a varint that is the length of following bytes, and checks it against the bytes left.
    #[inline]
    pub fn varint_len(&mut self) -> Result<usize> {
        let length = self.varint()?;
        if length > self.remaining() as u64 {
            return Err(Error::structural("length points past the end"));
        }
        Ok(length as usize)
    }

    /// Reads a varint length and that many bytes.
    pub fn length_prefixed(&mut self) -> Result<&'a [u8]> {
        let length = self.varint_len()?;
        self.bytes(length)
    }
}

#[cold]
fn short() -> Error {
    Error::structural("ends too early")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_bytes(value));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint().unwrap(), value);
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.length_prefixed().is_ok() && !reader.is_empty() {}
            let _ = reader.varint();
            prop_assert!(reader.position() <= bytes.len());
        }
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_refused() {
        let mut reader = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]);
        assert!(reader.varint().is_err());
    }
}
