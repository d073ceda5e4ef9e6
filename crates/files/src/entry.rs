//! The entry of a path: attributes, and the content or where it is. docs/format-files.md, section 2.
//!
//! ```text
//! version 1, kind, mode, uid, gid, mtime, ctime, inode
//! file:  size, digest, then 0 and the content, or 1, content id, chunk size and holes
//! link:  target
//! extended attributes: count, then name and value of each
//! ```
//!
//! Attributes come first, so that `stat` and lists decode the beginning only.

use std::collections::BTreeMap;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::holes::Holes;
use crate::metadata::{FileKind, Metadata, SetAttributes, default_mode};
use crate::records::{ContentId, VERSION, check_chunk_bytes, check_version};

/// Longest content that is stored in its entry, in bytes.
pub const MAX_INLINE_BYTES: usize = 1024;
/// Longest target of a symbolic link, in bytes.
pub const MAX_LINK_BYTES: usize = 4095;
/// Most bytes of all extended attributes of one entry, names and values.
pub const MAX_XATTR_BYTES: usize = 2048;
/// Longest name of an extended attribute, in bytes.
pub(crate) const MAX_XATTR_NAME_BYTES: usize = 255;

/// The inode number of the root.
pub const ROOT_INODE: u64 = 1;

/// The extended attributes of an entry.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) metadata: Metadata,
    pub(crate) body: Body,
    pub(crate) xattrs: Xattrs,
}

/// The part of an entry that depends on its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    File(Content),
    Link(Vec<u8>),
    /// Directory, fifo or socket.
    Nothing,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    Inline(Vec<u8>),
    Chunks(Chunks),
}

/// Where a content is that is longer than the limit of inline contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunks {
    pub(crate) id: ContentId,
    pub(crate) chunk_bytes: u32,
    pub(crate) holes: Holes,
}

impl Default for Content {
    fn default() -> Content {
        Content::Inline(Vec::new())
    }
}

/// Returns the number of chunks of a file. Errors: `TooLarge` if it does not fit 32 bits.
pub(crate) fn chunk_count(size: u64, chunk_bytes: u32) -> Result<u32> {
    u32::try_from(size.div_ceil(u64::from(chunk_bytes))).map_err(|_| {
        let most = u64::from(u32::MAX) * u64::from(chunk_bytes);
        Error::of(ErrorKind::TooLarge, format!("a file of {size} bytes; the limit with this chunk size is {most}"))
    })
}

fn kind_number(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => 1,
        FileKind::Directory => 2,
        FileKind::Link => 3,
        FileKind::Fifo => 4,
        FileKind::Socket => 5,
    }
}

fn kind_of(number: u8) -> Result<FileKind> {
    match number {
        1 => Ok(FileKind::File),
        2 => Ok(FileKind::Directory),
        3 => Ok(FileKind::Link),
        4 => Ok(FileKind::Fifo),
        5 => Ok(FileKind::Socket),
        _ => Err(Error::corruption(format!("an entry of the unknown kind {number}"))),
    }
}

impl Entry {
    /// Creates an entry without content.
    pub(crate) fn new(kind: FileKind, inode: u64, now: i64, attributes: &SetAttributes) -> Entry {
        let mut metadata = Metadata {
            kind,
            mode: default_mode(kind),
            uid: 0,
            gid: 0,
            mtime: now,
            ctime: now,
            inode,
            size: 0,
            digest: Digest::default(),
            allocated: 0,
            chunk_bytes: 0,
            has_changes: false,
            is_removed: false,
        };
        attributes.apply(&mut metadata);
        let body = if kind == FileKind::File { Body::File(Content::default()) } else { Body::Nothing };
        Entry { metadata, body, xattrs: Xattrs::new() }
    }

    /// Returns the content of a file. Errors: `IsDirectory`, `SymbolicLink` and `Invalid` for other kinds.
    pub(crate) fn content(&self) -> Result<&Content> {
        match &self.body {
            Body::File(content) => Ok(content),
            _ => Err(not_a_file(self.metadata.kind)),
        }
    }

    /// Sets the content of a file, with its size and digest.
    pub(crate) fn set_content(&mut self, content: Content, size: u64, digest: Digest) {
        self.metadata.size = size;
        self.metadata.digest = digest;
        (self.metadata.allocated, self.metadata.chunk_bytes) = match &content {
            Content::Inline(_) => (0, 0),
            Content::Chunks(chunks) => (chunks.allocated(size), chunks.chunk_bytes),
        };
        self.body = Body::File(content);
    }

    /// Returns the content id and the number that its chunks are below; `None` if nothing is stored as chunks.
    pub(crate) fn stored_content(&self) -> Option<(ContentId, u32)> {
        match &self.body {
            Body::File(Content::Chunks(chunks)) => {
                Some((chunks.id, chunk_count(self.metadata.size, chunks.chunk_bytes).unwrap_or(u32::MAX)))
            }
            _ => None,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Entry { metadata, body, xattrs } = self;
        let mut out = Vec::with_capacity(64);
        out.push(VERSION);
        out.push(kind_number(metadata.kind));
        put_varint(&mut out, metadata.mode.into());
        put_varint(&mut out, metadata.uid.into());
        put_varint(&mut out, metadata.gid.into());
        out.extend_from_slice(&metadata.mtime.to_le_bytes());
        out.extend_from_slice(&metadata.ctime.to_le_bytes());
        put_varint(&mut out, metadata.inode);
        match body {
            Body::File(content) => {
                put_varint(&mut out, metadata.size);
                out.extend_from_slice(&metadata.digest.number().to_le_bytes());
                content.encode(&mut out);
            }
            Body::Link(target) => put_bytes(&mut out, target),
            Body::Nothing => {}
        }
        put_varint(&mut out, xattrs.len() as u64);
        for (name, value) in xattrs {
            put_bytes(&mut out, name);
            put_bytes(&mut out, value);
        }
        out
    }

    /// Decodes a whole entry. Errors: `Corruption` for bytes that `encode` does not write.
    pub(crate) fn decode(value: &[u8]) -> Result<Entry> {
        let mut reader = Reader::new(value);
        let mut entry = Entry::head(&mut reader)?;
        if let Body::File(Content::Inline(content)) = &mut entry.body {
            content.extend_from_slice(reader.take(entry.metadata.size as usize)?);
        }
        let count = reader.varint()?;
        let mut bytes = 0;
        for _ in 0..count {
            let (name, value) = (reader.bytes()?, reader.bytes()?);
            bytes += name.len() + value.len();
            let is_next = entry.xattrs.last_key_value().is_none_or(|(last, _)| &last[..] < name);
            if !is_next || name.is_empty() || bytes > MAX_XATTR_BYTES {
                return Err(Error::corruption("an entry whose extended attributes are not in order, or too long"));
            }
            entry.xattrs.insert(name.to_vec(), value.to_vec());
        }
        reader.end()?;
        Ok(entry)
    }

    /// Decodes the attributes of an entry alone.
    pub(crate) fn decode_metadata(value: &[u8]) -> Result<Metadata> {
        Ok(Entry::head(&mut Reader::new(value))?.metadata)
    }

    /// Returns the inode number of an encoded entry, its content id, and the number that its chunks are below.
    pub(crate) fn decode_stored_content(value: &[u8]) -> Result<(u64, Option<(ContentId, u32)>)> {
        let entry = Entry::head(&mut Reader::new(value))?;
        Ok((entry.metadata.inode, entry.stored_content()))
    }

    /// Decodes an entry up to its inline content.
    fn head(reader: &mut Reader<'_>) -> Result<Entry> {
        check_version(reader.u8()?)?;
        let kind = kind_of(reader.u8()?)?;
        let mode = reader.varint_u32()?;
        if mode > 0o7777 {
            return Err(Error::corruption(format!("an entry of mode {mode:o}")));
        }
        let (uid, gid) = (reader.varint_u32()?, reader.varint_u32()?);
        let (mtime, ctime) = (reader.i64()?, reader.i64()?);
        let inode = reader.varint()?;
        let attributes = SetAttributes::new().mode(mode).owner(uid, gid).mtime(mtime);
        let mut entry = Entry::new(kind, inode, ctime, &attributes);
        match kind {
            FileKind::File => {
                let (size, digest) = (reader.varint()?, Digest::from_number(reader.u128()?));
                entry.set_content(Content::head(reader, size)?, size, digest);
            }
            FileKind::Link => {
                let target = reader.bytes()?;
                if target.is_empty() || target.len() > MAX_LINK_BYTES {
                    return Err(Error::corruption(format!("a symbolic link to {} bytes", target.len())));
                }
                entry.metadata.size = target.len() as u64;
                entry.body = Body::Link(target.to_vec());
            }
            _ => {}
        }
        Ok(entry)
    }
}

impl Content {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Content::Inline(bytes) => {
                out.push(0);
                out.extend_from_slice(bytes);
            }
            Content::Chunks(Chunks { id, chunk_bytes, holes }) => {
                out.push(1);
                put_varint(out, *id);
                put_varint(out, u64::from(*chunk_bytes));
                holes.encode(out);
            }
        }
    }

    /// Decodes a content except the bytes of an inline one.
    fn head(reader: &mut Reader<'_>, size: u64) -> Result<Content> {
        match reader.u8()? {
            0 if size > MAX_INLINE_BYTES as u64 => Err(Error::corruption(format!(
                "an entry with {size} bytes of content; the limit is {MAX_INLINE_BYTES}"
            ))),
            0 => Ok(Content::default()),
            1 => {
                let (id, chunk_bytes) = (reader.varint()?, reader.varint_u32()?);
                check_chunk_bytes(chunk_bytes)?;
                let count = chunk_count(size, chunk_bytes).map_err(|error| Error::corruption(error.to_string()))?;
                if id == 0 {
                    return Err(Error::corruption("an entry with the content id 0"));
                }
                Ok(Content::Chunks(Chunks { id, chunk_bytes, holes: Holes::decode(reader, count)? }))
            }
            other => Err(Error::corruption(format!("an entry with a content of the unknown kind {other}"))),
        }
    }
}

impl Chunks {
    /// Returns the bytes of a file that are in no hole, in whole chunks.
    pub(crate) fn allocated(&self, size: u64) -> u64 {
        let count = size.div_ceil(u64::from(self.chunk_bytes));
        count.saturating_sub(u64::from(self.holes.chunks())) * u64::from(self.chunk_bytes)
    }
}

/// Returns the error of an operation that only files have.
pub(crate) fn not_a_file(kind: FileKind) -> Error {
    match kind {
        FileKind::Directory => Error::of(ErrorKind::IsDirectory, "is a directory"),
        FileKind::Link => Error::of(ErrorKind::SymbolicLink, "is a symbolic link, which this call does not follow"),
        _ => Error::of(ErrorKind::Invalid, "is no regular file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn file(content: Content, size: u64) -> Entry {
        let mut entry = Entry::new(FileKind::File, 300, 0x0102_0304_0506_0708, &SetAttributes::new().owner(1000, 7));
        entry.set_content(content, size, Digest::from_number(5));
        entry
    }

    fn chunks() -> Chunks {
        let mut holes = Holes::default();
        holes.insert(1, 3);
        holes.insert(5, 6);
        Chunks { id: 9, chunk_bytes: 4096, holes }
    }

    /// The bytes of docs/format-files.md.
    #[test]
    fn entries_have_these_bytes() {
        let mut inline = file(Content::Inline(b"hello".to_vec()), 5);
        inline.xattrs.insert(b"user.k".to_vec(), b"v".to_vec());
        let head = "0101a403e8070708070605040302010807060504030201ac02";
        let digest = "05000000000000000000000000000000";
        assert_eq!(hex(&inline.encode()), format!("{head}05{digest}0068656c6c6f0106757365722e6b0176"));
        let large = file(Content::Chunks(chunks()), 7 * 4096);
        assert_eq!(hex(&large.encode()), format!("{head}80e001{digest}0109802002010202010 0").replace(' ', ""));
        let mut link = Entry::new(FileKind::Link, 2, 0, &SetAttributes::new());
        link.body = Body::Link(b"../x".to_vec());
        assert_eq!(hex(&link.encode()), "0103ff0300000000000000000000000000000000000002042e2e2f7800");
    }

    #[test]
    fn allocated_bytes_leave_holes_out() {
        assert_eq!(file(Content::Chunks(chunks()), 7 * 4096).metadata.allocated, 4 * 4096);
        assert_eq!(file(Content::Inline(vec![1; 5]), 5).metadata.allocated, 0);
    }

    #[test]
    fn entries_of_other_versions_are_refused_with_a_reason() {
        let mut bytes = file(Content::default(), 0).encode();
        bytes[0] = 2;
        let error = Entry::decode(&bytes).unwrap_err();
        assert!(!error.is_corruption() && error.to_string().contains("newer version"), "{error}");
        bytes[0] = 0;
        assert!(Entry::decode(&bytes).unwrap_err().is_corruption());
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        let content = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| (bytes.len() as u64, Content::Inline(bytes))),
            Just((7 * 4096 - 1, Content::Chunks(chunks()))),
        ];
        let xattrs = prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 1..5),
            prop::collection::vec(any::<u8>(), 0..5),
            0..3,
        );
        (0u8..5, content, xattrs, any::<(i64, u32, u128)>()).prop_map(|(kind, (size, content), xattrs, numbers)| {
            let kind = kind_of(kind + 1).unwrap();
            let attributes = SetAttributes::new().mode(numbers.1 % 0o10000).uid(numbers.1);
            let mut entry = Entry::new(kind, numbers.1.into(), numbers.0, &attributes);
            match kind {
                FileKind::File => entry.set_content(content, size, Digest::from_number(numbers.2)),
                FileKind::Link => {
                    entry.body = Body::Link(b"target".to_vec());
                    entry.metadata.size = 6;
                }
                _ => {}
            }
            entry.xattrs = xattrs;
            entry
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entry in any_entry(), cut: u16, place: u16, bit in 0u8..8) {
            let bytes = entry.encode();
            prop_assert_eq!(&Entry::decode(&bytes).unwrap(), &entry);
            prop_assert_eq!(Entry::decode_metadata(&bytes).unwrap(), entry.metadata);
            let short = &bytes[..usize::from(cut) % bytes.len()];
            prop_assert!(Entry::decode(short).is_err());
            // Any other bytes are refused, or mean something that has these bytes.
            let mut flipped = bytes.clone();
            flipped[usize::from(place) % bytes.len()] ^= 1 << bit;
            if let Ok(other) = Entry::decode(&flipped) {
                prop_assert_eq!(other.encode(), flipped);
            }
        }

        #[test]
        fn any_bytes_are_an_entry_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 2..80), kind in 1u8..7) {
            (bytes[0], bytes[1]) = (VERSION, kind);
            if let Ok(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(entry.encode(), bytes);
            }
        }
    }
}
