//! The 64-byte header of every binary file: its kind, and the features needed to read it. See docs/format.md, section
//! 3.
//!
//!   0  magic            [u8; 8]   "WAXSEAL" and the letter of the file kind
//!   8  level            u16       format level, 1
//!  10  zero             u16
//!  12  compatible       u32       features that any reader and writer may ignore
//!  16  read_compatible  u32       features that a reader may ignore, a writer not
//!  20  incompatible     u32       features that must be known
//!  24  uid              [u8; 16]
//!  40  cipher           u32       0: none
//!  44  key_id           u64       0: none
//!  52  zero             u32
//!  56  check            u64       XXH3-64 of bytes 0..56

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};

/// Length of the header.
pub const HEADER_BYTES: usize = 64;

/// The only format level defined so far.
pub const FORMAT_LEVEL: u16 = 1;

/// Incompatible feature of a table or blob file: its data may be compressed with zstd, and a table may have a
/// dictionary.
pub const ZSTD_FRAMES: u32 = 1;

/// Incompatible feature of a table: its index and filter are partitioned.
pub const CUT_INDEX: u32 = 2;

/// The kinds of binary files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// A table of records.
    Table = b'T',
    /// A segment of the log.
    Segment = b'L',
    /// The tail ring and its marks.
    Ring = b'R',
    /// The log of manifest edits.
    Manifest = b'M',
    /// An export's description of the table files beside it.
    Exchange = b'X',
    /// Large values (a blob file).
    Values = b'V',
    /// The description of a backup.
    Backup = b'B',
}

/// The decoded header of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// The kind of file.
    pub kind: FileKind,
    /// The file's uid, which never changes.
    pub uid: Uid,
    /// Features that a reader must support.
    pub incompatible: u32,
    /// Features that a reader may ignore but a writer must support. This version knows none.
    pub read_compatible: u32,
}

impl FileHeader {
    /// Creates the header of a file written by this version.
    pub fn new(kind: FileKind, uid: Uid) -> FileHeader {
        FileHeader { kind, uid, incompatible: 0, read_compatible: 0 }
    }

    /// Creates the header of a compressed file, with or without zstd.
    pub fn packed(kind: FileKind, uid: Uid, with_zstd: bool) -> FileHeader {
        FileHeader { incompatible: if with_zstd { ZSTD_FRAMES } else { 0 }, ..FileHeader::new(kind, uid) }
    }

    /// Returns true if a file beginning with these bytes was written as this kind, even if the rest of its header is
    /// damaged or missing.
    pub fn is_of(bytes: &[u8], kind: FileKind) -> bool {
        let mut magic = *b"WAXSEAL ";
        magic[7] = kind as u8;
        !bytes.is_empty() && magic.starts_with(&bytes[..bytes.len().min(magic.len())])
    }

    fn may_be_packed(kind: FileKind) -> bool {
        matches!(kind, FileKind::Table | FileKind::Values)
    }

    /// Returns the incompatible features of this kind of file that this build supports.
    fn known(kind: FileKind) -> u32 {
        let zstd = if FileHeader::may_be_packed(kind) && crate::zstd::AVAILABLE { ZSTD_FRAMES } else { 0 };
        zstd | if kind == FileKind::Table { CUT_INDEX } else { 0 }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..7].copy_from_slice(b"WAXSEAL");
        out[7] = self.kind as u8;
        out[8..10].copy_from_slice(&FORMAT_LEVEL.to_le_bytes());
        out[16..20].copy_from_slice(&self.read_compatible.to_le_bytes());
        out[20..24].copy_from_slice(&self.incompatible.to_le_bytes());
        out[24..40].copy_from_slice(&self.uid.0);
        let check = hash(&out[..56]);
        out[56..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes the header of a file of this kind. Errors: damage, another kind of file, or features of a newer version.
    pub fn decode(bytes: &[u8], kind: FileKind) -> Result<FileHeader> {
        let mut reader = Reader::new(bytes);
        let head = reader.bytes(56)?;
        let expected = reader.u64()?;
        let found = hash(head);
        if expected != found {
            return Err(Error::mismatch(expected, found, "file header"));
        }
        let mut reader = Reader::new(head);
        if reader.bytes(7)? != b"WAXSEAL" || reader.u8()? != kind as u8 {
            let damage = Damage { verdict: Verdict::Misplaced, ..Damage::default() };
            return Err(Error::corruption(damage, format!("not a file of kind {kind:?}")));
        }
        let level = reader.u16()?;
        reader.u16()?;
        let (_compatible, read_compatible, incompatible) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let uid = Uid(reader.array()?);
        let cipher = reader.u32()?;
        if FileHeader::may_be_packed(kind)
            && level <= FORMAT_LEVEL
            && incompatible & !FileHeader::known(kind) == ZSTD_FRAMES
        {
            let what = "the file may be packed with zstd, and this build is one without the feature `zstd`";
            return Err(Error::of(ErrorKind::FormatTooNew, what));
        }
        if level > FORMAT_LEVEL || incompatible & !FileHeader::known(kind) != 0 || cipher != 0 {
            let what = format!(
                "format level {level}, features {incompatible:#x}, cipher {cipher}: written by a newer version"
            );
            return Err(Error::of(ErrorKind::FormatTooNew, what));
        }
        Ok(FileHeader { kind, uid, incompatible, read_compatible })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_and_no_flipped_bit_passes() {
        let header = FileHeader::new(FileKind::Table, Uid([7; 16]));
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes, FileKind::Table).unwrap(), header);
        assert!(FileHeader::decode(&bytes, FileKind::Ring).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::decode(&flipped, FileKind::Table).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_feature_from_the_future_is_refused_as_such() {
        let mut bytes = FileHeader::new(FileKind::Table, Uid([7; 16])).encode();
        bytes[20] = 4;
        let check = hash(&bytes[..56]);
        bytes[56..].copy_from_slice(&check.to_le_bytes());
        assert_eq!(*FileHeader::decode(&bytes, FileKind::Table).unwrap_err().kind(), ErrorKind::FormatTooNew);
    }
}
