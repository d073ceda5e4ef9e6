//! The attributes of entries, as `stat` returns and callers set them.

use crate::digest::Digest;
use crate::entity_tag::EntityTag;
use crate::error::{Error, ErrorKind, Result};

/// The kinds of entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// The attributes of an entry, as `stat` returns them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// The kind.
    pub kind: FileKind,
    /// Permission bits, with set-user-ID, set-group-ID and sticky: at most `0o7777`. This crate does not enforce them.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// When the content changed last, in nanoseconds since 1970.
    pub mtime: i64,
    /// When the entry changed last, in nanoseconds since 1970.
    pub ctime: i64,
    /// The inode number. It is never reused. A rename keeps it; a whole-file write over an existing file takes a new
    /// one.
    pub inode: u64,
    /// The length of a file, or of a link's target, in bytes. 0 for other kinds.
    pub size: u64,
    /// The digest of a file's content. 0 for other kinds and for files of zeros.
    pub digest: Digest,
    /// The bytes of the file that are stored as chunks, without holes: at most a chunk more than `size`.
    pub allocated: u64,
    /// The chunk size of a file with chunks, in bytes; 0 for an inline content and for other kinds. Digests of longer
    /// contents depend on it.
    pub chunk_bytes: u32,
    /// Changes of an open file wait in memory: size, allocated bytes and times include them, the digest does not. Never
    /// true in a snapshot.
    pub has_changes: bool,
    /// The entry was removed or replaced, and handles keep the file. Never true in a snapshot.
    pub is_removed: bool,
}

impl Metadata {
    /// Returns true for a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// Returns the entity tag of a file's content. `None` for other kinds, and while changes wait in memory; the
    /// attributes in a [`Snapshot`](crate::Snapshot) have the tag of the last commit.
    pub fn etag(&self) -> Option<EntityTag> {
        (self.is_file() && !self.has_changes).then_some(EntityTag { digest: self.digest, size: self.size })
    }

    /// Compares two files by their digests, also of two stores. Returns `None` if only their bytes can tell: changes
    /// wait in memory, or the digests are of different chunk sizes.
    pub fn has_content_of(&self, other: &Metadata) -> Option<bool> {
        if self.has_changes || other.has_changes {
            return None;
        }
        if self.size != other.size {
            return Some(false);
        }
        let is_one_chunk = |file: &Metadata| file.chunk_bytes == 0 || file.size <= file.chunk_bytes.into();
        let is_comparable = self.chunk_bytes == other.chunk_bytes || is_one_chunk(self) && is_one_chunk(other);
        is_comparable.then_some(self.digest == other.digest)
    }
}

/// The permission bits of an entry that is created without any.
pub(crate) fn default_mode(kind: FileKind) -> u32 {
    match kind {
        FileKind::Directory => 0o755,
        FileKind::Link => 0o777,
        FileKind::File | FileKind::Fifo | FileKind::Socket => 0o644,
    }
}

/// A change of attributes. Attributes that it does not name keep their values; in a new entry they have defaults.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// use waxseal_files::SetAttributes;
///
/// fs.mkdir_with("private", &SetAttributes::new().mode(0o700).owner(1000, 1000))?;
/// assert_eq!(fs.stat("private")?.mode, 0o700);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct SetAttributes {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<i64>,
}

impl SetAttributes {
    /// Sets nothing yet.
    pub const fn new() -> SetAttributes {
        SetAttributes { mode: None, uid: None, gid: None, mtime: None }
    }

    /// Sets the permission bits: at most `0o7777`.
    pub const fn mode(mut self, mode: u32) -> SetAttributes {
        self.mode = Some(mode);
        self
    }

    /// Sets owner and group.
    pub const fn owner(self, uid: u32, gid: u32) -> SetAttributes {
        self.uid(uid).gid(gid)
    }

    /// Sets the owner.
    pub const fn uid(mut self, uid: u32) -> SetAttributes {
        self.uid = Some(uid);
        self
    }

    /// Sets the group.
    pub const fn gid(mut self, gid: u32) -> SetAttributes {
        self.gid = Some(gid);
        self
    }

    /// Sets the time of the last change of the content, in nanoseconds since 1970.
    pub const fn mtime(mut self, nanos: i64) -> SetAttributes {
        self.mtime = Some(nanos);
        self
    }

    /// Fails for bits beyond the permissions.
    pub(crate) fn check(&self) -> Result<()> {
        match self.mode {
            Some(mode) if mode > 0o7777 => {
                Err(Error::of(ErrorKind::Invalid, format!("mode {mode:o}: permission bits are at most 7777")))
            }
            _ => Ok(()),
        }
    }

    /// Changes an entry's attributes. The caller sets `ctime`.
    pub(crate) fn apply(&self, metadata: &mut Metadata) {
        metadata.mode = self.mode.unwrap_or(metadata.mode);
        metadata.uid = self.uid.unwrap_or(metadata.uid);
        metadata.gid = self.gid.unwrap_or(metadata.gid);
        metadata.mtime = self.mtime.unwrap_or(metadata.mtime);
    }
}
