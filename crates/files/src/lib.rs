//! Files in a Waxseal store: a directory tree of any size that copies like one file, reads at random like memory, is
//! backed up beside its readers, and proves each byte.
//!
//! [`FileStore`] is an open file store with the operations of [`Files`], [`File`] is an open file, [`Writer`] a whole-file write in progress, and
//! [`Snapshot`] the tree at one point in time. [`Error`] names errors as POSIX does. docs/files.md shows the crate,
//! docs/format-files.md has the bytes.
//!
//! The crate uses the public interface of `waxseal` alone. Its modules import from lower lines only, top first:
//!
//! ```text
//! inodes                 operations by inode number
//! trees, check, contents  remove, copy, find and measure trees; verify and fsck; reads of many files
//! writer, rename, handle  whole-file writes; renames; open files
//! swap                   new contents of files
//! namespace              create, remove and change single entries
//! snapshot               reads of one point in time
//! place                  entries as callers name them
//! store                  the parts of an open file store
//! file_state, open_files  the changes of open files that wait in memory
//! events, walk           registered operations; lists and walks
//! content, reclaim, ids  chunks; content that no entry names; numbers
//! families               the two families and reads of entries
//! entry                  the entry of a path, as bytes
//! condition              conditions of writes and removals
//! metadata, records, holes  attributes; other records; chunks without a record
//! path, codec, entity_tag, digest, glob, locks, pace, error  keys; numbers; tags and sums of chunks; patterns; locks;
//!                        the pace of a traversal; errors
//! ```

mod check;
mod codec;
mod condition;
mod content;
mod contents;
mod digest;
mod entity_tag;
mod entry;
mod error;
mod events;
mod families;
mod file_state;
mod glob;
mod handle;
mod holes;
mod ids;
mod inodes;
mod locks;
mod metadata;
mod namespace;
mod open_files;
mod pace;
mod path;
mod place;
mod reclaim;
mod records;
mod rename;
mod snapshot;
mod store;
mod swap;
mod trees;
mod walk;
mod writer;

pub use check::{FsckReport, Problem, VerifyReport};
pub use condition::Condition;
pub use contents::{ReadDir, ReadTree};
pub use digest::{Digest, Digester};
pub use entity_tag::EntityTag;
pub use entry::{MAX_INLINE_BYTES, MAX_LINK_BYTES, MAX_XATTR_BYTES, ROOT_INODE};
pub use error::{Error, ErrorKind, Result};
pub use glob::matches as glob_matches;
pub use handle::{File, OpenOptions};
pub use inodes::{InodePlace, Inodes};
pub use metadata::{FileKind, Metadata, SetAttributes};
pub use namespace::XattrMode;
pub use path::{MAX_NAME_BYTES, MAX_PATH_BYTES};
pub use rename::{MAX_TREE_ENTRIES, RenameMode};
pub use snapshot::{Snapshot, SnapshotFile};
pub use store::{FileStore, FileStoreOptions, Files};
pub use trees::{DiskUsage, Find};
pub use walk::{DirEntry, List, Walk, WalkEntry};
pub use writer::Writer;

/// The page of the repository, included so that its examples are compiled and run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/files.md")]
    struct Page;
}
