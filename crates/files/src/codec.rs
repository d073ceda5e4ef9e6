//! The numbers and byte strings that entries consist of. docs/format-files.md, section 1.

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

/// Appends a number in eight bytes, most significant first, so that keys sort by it.
pub(crate) fn put_ordered_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.swap_bytes().to_le_bytes());
}

/// Appends a number in four bytes, most significant first.
pub(crate) fn put_ordered_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.swap_bytes().to_le_bytes());
}

/// Reads what the functions above have written. Every length is checked against the bytes that remain.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Takes a number of bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::corruption("the record is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn ordered_u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?).swap_bytes())
    }

    pub(crate) fn ordered_u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?).swap_bytes())
    }

    /// Reads a number. A number has one encoding: the shortest.
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

    #[cfg(test)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
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

    #[test]
    fn numbers_of_keys_sort_like_numbers() {
        let key = |number: u64| {
            let mut out = Vec::new();
            put_ordered_u64(&mut out, number);
            out
        };
        assert!(key(255) < key(256) && key(1) < key(u64::MAX));
        assert_eq!(Reader::new(&key(0x0102)).ordered_u64().unwrap(), 0x0102);
        assert_eq!(key(0x0102), [0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
