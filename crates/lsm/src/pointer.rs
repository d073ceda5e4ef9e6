//! Blob pointers: the reference that a record holds instead of a large value. See docs/format.md, section 10.1.
//!
//! A pointer holds the location of the value, its length, and V, the hash of the original value. Thus a record can be
//! checked against its companion without reading the value, and the value is checked against V when it is read.
//! Companions do not cover the rest of the pointer (file, offset, lengths), since a value may move: the pointer has a
//! checksum of its own.

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::planted;
use crate::record::{Kind, MAX_VALUE_BYTES, Record};

/// Length of a pointer.
pub const POINTER_BYTES: usize = COVERED_BYTES + 8;

/// Length of a pointer in the log, where the number of its file follows.
pub const LOGGED_BYTES: usize = POINTER_BYTES + 8;

/// Number of bytes that the checksum covers.
const COVERED_BYTES: usize = 48;

/// Length of an entry's header, before its key.
pub(crate) const HEAD_BYTES: usize = 32;

/// Number of bytes after the stored bytes of an entry: codec and CRC.
pub(crate) const FRAME_BYTES: usize = 5;

/// The location and identity of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pointer {
    /// The blob file's uid.
    pub uid: Uid,
    /// Offset of the value's entry in the file.
    pub offset: u64,
    /// Length of the value in the file.
    pub stored_len: u32,
    /// Length of the original value.
    pub raw_len: u32,
    /// V: `checksum::hash` of the original value.
    pub value_hash: u64,
    /// The CRC of the stored bytes and their codec.
    pub crc: u32,
    /// The compression codec of the value.
    pub codec: u8,
}

impl Pointer {
    /// Encodes the pointer: the value of a record of kind `BlobPointer`.
    pub fn encode(&self) -> [u8; POINTER_BYTES] {
        let mut out = [0; POINTER_BYTES];
        out[..16].copy_from_slice(&self.uid.0);
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..28].copy_from_slice(&self.stored_len.to_le_bytes());
        out[28..32].copy_from_slice(&self.raw_len.to_le_bytes());
        out[32..40].copy_from_slice(&self.value_hash.to_le_bytes());
        out[40..44].copy_from_slice(&self.crc.to_le_bytes());
        out[44] = self.codec;
        let check = hash(&out[..COVERED_BYTES]);
        out[COVERED_BYTES..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes a pointer. Errors: `Corruption` if its checksum does not match or its fields are invalid.
    pub fn decode(bytes: &[u8]) -> Result<Pointer> {
        let mut reader = Reader::new(bytes);
        let covered = reader.bytes(COVERED_BYTES)?;
        let (expected, found) = (reader.u64()?, hash(covered));
        if planted!(PointerCheckIgnored, false, expected != found) {
            return Err(Error::mismatch(expected, found, "pointer to a value"));
        }
        if !reader.is_empty() {
            return Err(Error::structural("a pointer to a value is too long"));
        }
        let mut reader = Reader::new(covered);
        let pointer = Pointer {
            uid: Uid(reader.array()?),
            offset: reader.u64()?,
            stored_len: reader.u32()?,
            raw_len: reader.u32()?,
            value_hash: reader.u64()?,
            crc: reader.u32()?,
            codec: reader.u8()?,
        };
        let too_long = pointer.raw_len as usize > MAX_VALUE_BYTES || pointer.stored_len > pointer.raw_len;
        if too_long || pointer.offset > u64::MAX >> 1 || reader.bytes(3)? != [0; 3] {
            return Err(Error::structural("a pointer to a value that cannot be"));
        }
        Ok(pointer)
    }

    /// Encodes the pointer for the log, where no table maps the file's uid to its number.
    pub fn encode_logged(&self, number: u64) -> [u8; LOGGED_BYTES] {
        let mut out = [0; LOGGED_BYTES];
        out[..POINTER_BYTES].copy_from_slice(&self.encode());
        out[POINTER_BYTES..].copy_from_slice(&number.to_le_bytes());
        out
    }

    /// Decodes a pointer in the log, and the number of its file. Errors: those of `decode`.
    pub fn decode_logged(bytes: &[u8]) -> Result<(Pointer, u64)> {
        let mut reader = Reader::new(bytes);
        let pointer = Pointer::decode(reader.bytes(POINTER_BYTES)?)?;
        let number = reader.u64()?;
        match reader.is_empty() {
            true => Ok((pointer, number)),
            false => Err(Error::structural("a pointer to a value is too long")),
        }
    }

    /// Returns the length of its entry in the file, for a key of this length.
    pub fn entry_bytes(&self, key_len: usize) -> u64 {
        (HEAD_BYTES + key_len + FRAME_BYTES) as u64 + u64::from(self.stored_len)
    }
}

/// Returns a record's value without the file number that the log appends to a pointer.
#[inline]
pub fn unlogged(kind: Kind, value: &[u8]) -> &[u8] {
    match kind {
        Kind::BlobPointer => value.get(..POINTER_BYTES).unwrap_or(value),
        _ => value,
    }
}

/// Returns `checksum::hash` of the value that a record represents. For a pointer, returns the stored hash without
/// reading the value. Errors: `Corruption` if the record should hold a pointer but does not.
#[inline]
pub fn value_hash(kind: Kind, value: &[u8]) -> Result<u64> {
    match kind {
        Kind::BlobPointer => Pointer::decode(value).map(|pointer| pointer.value_hash),
        _ => Ok(hash(value)),
    }
}

/// Returns the length of the value that a record represents.
pub fn value_bytes(record: &Record<'_>) -> u64 {
    let pointed = || Pointer::decode(record.value).ok().map(|pointer| u64::from(pointer.raw_len));
    let pointed = if record.kind == Kind::BlobPointer { pointed() } else { None };
    pointed.unwrap_or(record.value.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pointers() -> impl Strategy<Value = Pointer> {
        let lengths = (0..=MAX_VALUE_BYTES as u32).prop_flat_map(|raw| (0..=raw, Just(raw)));
        (any::<[u8; 16]>(), 0..u64::MAX >> 1, lengths, any::<u64>(), any::<u32>(), any::<u8>()).prop_map(
            |(uid, offset, (stored_len, raw_len), value_hash, crc, codec)| Pointer {
                uid: Uid(uid),
                offset,
                stored_len,
                raw_len,
                value_hash,
                crc,
                codec,
            },
        )
    }

    proptest! {
        #[test]
        fn a_pointer_comes_back_and_no_flipped_bit_or_cut_passes(pointer in pointers(), bit in 0..POINTER_BYTES * 8) {
            let mut bytes = pointer.encode().to_vec();
            prop_assert_eq!(Pointer::decode(&bytes).unwrap(), pointer);
            prop_assert!(Pointer::decode(&bytes[..bit / 8]).is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Pointer::decode(&bytes).is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes.push(0);
            prop_assert!(Pointer::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_a_pointer_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(pointer) = Pointer::decode(&bytes) {
                prop_assert_eq!(&pointer.encode()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn a_pointer_that_says_what_cannot_be_is_refused_though_its_check_fits() {
        let right = Pointer { stored_len: 5, raw_len: 5, ..Pointer::default() };
        assert!(Pointer::decode(&right.encode()).is_ok());
        for wrong in [
            Pointer { stored_len: 6, ..right },
            Pointer { raw_len: u32::MAX, stored_len: 0, ..right },
            Pointer { offset: u64::MAX, ..right },
        ] {
            assert!(Pointer::decode(&wrong.encode()).unwrap_err().is_corruption());
        }
    }

    #[test]
    fn a_record_stands_for_the_value_pointed_to() {
        let pointer = Pointer { value_hash: 7, raw_len: 5000, ..Pointer::default() }.encode();
        assert_eq!(value_hash(Kind::BlobPointer, &pointer).unwrap(), 7);
        assert_eq!(value_hash(Kind::Put, &pointer).unwrap(), hash(&pointer));
        assert!(value_hash(Kind::BlobPointer, b"no pointer").is_err());
        let record = Record { key: b"k", seqno: 1, kind: Kind::BlobPointer, value: &pointer, companion: &[] };
        assert_eq!(value_bytes(&record), 5000);
        assert_eq!(value_bytes(&Record { kind: Kind::Put, ..record }), POINTER_BYTES as u64);
    }
}
