//! The numbers and byte strings that records consist of. docs/format-tables.md, section 1.

use crate::error::{Error, Result};

/// Appends a number in groups of seven bits, least first (LEB128).
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a byte string behind its length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above have written. Every length is checked against the bytes that remain.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Takes a number of bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::corruption("the record is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a byte that is 0 or 1.
    pub(crate) fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::corruption("the record holds a truth value that is neither 0 nor 1")),
        }
    }

    /// Reads a byte of a schema that is 0 or 1, and that newer versions may extend.
    pub(crate) fn choice(&mut self, what: &str) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            newer => Err(Error::too_new(format!("a schema with {what} {newer}"))),
        }
    }

    /// Reads a number. A number has one encoding: the shortest.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits || byte == 0 && shift > 0 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Error::corruption("the record holds a number that is not encoded as one"))
    }

    pub(crate) fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| Error::corruption("the record holds a number beyond 32 bits"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::corruption("the record holds a text that is not UTF-8"))
    }

    /// Reads the number of elements that follow, each of which takes at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize> {
        match usize::try_from(self.varint()?) {
            Ok(count) if count <= self.0.len() => Ok(count),
            _ => Err(Error::corruption("the record is cut short")),
        }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if bytes are left.
    pub(crate) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::corruption("the record is followed by other bytes")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_has_one_encoding(number: u64, bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut out = Vec::new();
            put_varint(&mut out, number);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint().unwrap(), number);
            reader.end().unwrap();
            let mut reader = Reader::new(&bytes);
            if let Ok(number) = reader.varint() {
                let mut again = Vec::new();
                put_varint(&mut again, number);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
    }
}
