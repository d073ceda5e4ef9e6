//! A tree of files that the verbs of `fs` work on: that of a store, or a local directory.

use std::cmp::Ordering;

use waxseal_files::{Digest, Digester, FileKind, FileStore, Metadata};

use crate::failure::Failure;

/// The chunk size by which two files are compared whose digests are not on record.
pub(super) const COMPARED_CHUNK_BYTES: u32 = 256 * 1024;

/// An entry of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The path from the root of the tree, without a leading `/`.
    pub(crate) path: Vec<u8>,
    /// The kind; `None` for a device, which a store cannot hold.
    pub(crate) kind: Option<FileKind>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// In nanoseconds since 1970.
    pub(crate) mtime: i64,
    pub(crate) size: u64,
    /// The attributes of an entry in a store.
    pub(crate) stored: Option<Metadata>,
}

impl Node {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Some(FileKind::Directory)
    }

    pub(crate) fn name(&self) -> &[u8] {
        name_of(&self.path)
    }

    /// Returns the kind in one word.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            Some(FileKind::File) => "file",
            Some(FileKind::Directory) => "directory",
            Some(FileKind::Link) => "link",
            Some(FileKind::Fifo) => "pipe",
            Some(FileKind::Socket) => "socket",
            None => "device",
        }
    }
}

/// Entries in the order of their components: a directory comes before its content.
pub(crate) type Nodes = Box<dyn Iterator<Item = Result<Node, Failure>>>;

/// The operations of a tree. Paths are relative to its root, which is the empty path; no call follows a symbolic link
/// below the root.
pub(crate) trait Tree {
    /// Returns the file store of the tree; `None` for a local directory.
    fn store(&self) -> Option<&FileStore>;

    /// Returns the tree once more, as it is now; `None` for a local directory.
    fn beside(&self) -> Option<Box<dyn Tree>>;

    /// Returns true if entries have names and content only, as objects do: there are no modes, and a directory is a part
    /// of names.
    fn has_names_only(&self) -> bool {
        false
    }

    /// Returns the name of a path for messages.
    fn show(&self, path: &[u8]) -> String;

    /// Returns an entry. Errors: not found.
    fn stat(&self, path: &[u8]) -> Result<Node, Failure>;

    /// Returns the entries of a directory.
    fn list(&self, path: &[u8]) -> Result<Nodes, Failure>;

    /// Returns the entries of a tree, its root first.
    fn walk(&self, path: &[u8]) -> Result<Nodes, Failure>;

    /// Opens an entry for reading.
    fn open<'a>(&'a self, node: &'a Node) -> Result<Box<dyn OpenNode + 'a>, Failure>;

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Begins a file, which appears with its whole content when it is finished, and replaces an existing one. It gets
    /// the mode and time of `like`, without one the defaults.
    fn write(&self, path: &[u8], like: Option<&Node>) -> Result<Box<dyn Sink>, Failure>;

    fn mkdir(&self, path: &[u8], like: Option<&Node>) -> Result<(), Failure>;

    /// Creates a symbolic link, or replaces another one in one step. Errors: usage for an entry of another kind.
    fn symlink(&self, target: &[u8], path: &[u8], like: &Node) -> Result<(), Failure>;

    /// Sets extended attributes of an entry that exists. Errors: those that cannot be set; the others are.
    fn set_xattrs(&self, path: &[u8], xattrs: &Xattrs) -> Result<(), Failure>;

    fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), Failure>;

    fn remove(&self, path: &[u8]) -> Result<(), Failure>;

    /// Removes an entry with everything below it.
    fn remove_tree(&self, path: &[u8]) -> Result<(), Failure>;

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure>;

    /// Makes all changes durable.
    fn finish(&self) -> Result<(), Failure>;
}

/// An entry that is open for reading. Attributes and content are those of one open: another entry may get its path
/// meanwhile.
pub(crate) trait OpenNode {
    /// Returns a chunk size and the digest of the content for it, if they are on record beside the content.
    fn recorded_digest(&self) -> Option<(u32, Digest)> {
        None
    }

    /// Returns the extended attributes that a copy has: those of users, in the order of their names.
    fn xattrs(&self) -> Result<Xattrs, Failure>;

    /// Passes the content of a file in parts.
    fn read(&self, take: &mut dyn FnMut(Part<'_>) -> Result<(), Failure>) -> Result<(), Failure>;
}

/// Extended attributes: names and values.
pub(crate) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Sets each extended attribute. Errors: the names of those that `set` refuses, with the last reason.
pub(crate) fn set_each_xattr<E: std::fmt::Display>(
    xattrs: &Xattrs,
    mut set: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), Failure> {
    let (mut names, mut reason) = (Vec::new(), None);
    for (name, value) in xattrs {
        if let Err(error) = set(name, value) {
            names.push(crate::text::escape(name));
            reason = Some(error);
        }
    }
    match reason {
        None => Ok(()),
        Some(reason) => Err(Failure::usage(format!("extended attributes {}: {reason}", names.join(", ")))),
    }
}

/// A part of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part<'a> {
    Bytes(&'a [u8]),
    /// This number of zeros that take no space.
    Hole(u64),
}

impl Part<'_> {
    /// Adds the part to a digest.
    pub(crate) fn add_to(self, digester: &mut Digester) {
        match self {
            Part::Bytes(bytes) => digester.update(bytes),
            Part::Hole(bytes) => digester.skip(bytes),
        }
    }

    /// Passes the bytes; those of a hole in several pieces.
    pub(crate) fn each(self, mut take: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        match self {
            Part::Bytes(bytes) => take(bytes),
            Part::Hole(mut left) => {
                let zeros = [0; 64 << 10];
                while left > 0 {
                    let length = left.min(zeros.len() as u64);
                    take(&zeros[..length as usize])?;
                    left -= length;
                }
                Ok(())
            }
        }
    }
}

/// A file that is written. Dropped before it is finished, it leaves nothing.
pub(crate) trait Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Appends zeros, as a hole.
    fn skip(&mut self, bytes: u64) -> Result<(), Failure>;

    /// Appends a part of another file.
    fn put(&mut self, part: Part<'_>) -> Result<(), Failure> {
        match part {
            Part::Bytes(bytes) => self.write(bytes),
            Part::Hole(bytes) => self.skip(bytes),
        }
    }

    /// Sets the extended attributes that the file gets with its content. Errors: those that cannot be set; the others
    /// are.
    fn set_xattrs(&mut self, xattrs: &Xattrs) -> Result<(), Failure>;

    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

/// Returns an entry; `None` without one.
pub(crate) fn find(tree: &dyn Tree, path: &[u8]) -> Result<Option<Node>, Failure> {
    match tree.stat(path) {
        Ok(node) => Ok(Some(node)),
        Err(failure) if failure.exit() == crate::failure::Exit::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the path of an entry in a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match (directory.is_empty(), name.is_empty()) {
        (true, _) => name.to_vec(),
        (_, true) => directory.to_vec(),
        _ => [directory, b"/", name].concat(),
    }
}

/// Compares paths component by component, as trees are walked.
pub(crate) fn by_component(one: &[u8], other: &[u8]) -> Ordering {
    one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
}

/// Returns the last component of a path.
pub(crate) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns the part of a path below one of its directories.
pub(crate) fn below<'a>(path: &'a [u8], directory: &[u8]) -> &'a [u8] {
    let rest = path.strip_prefix(directory).unwrap_or(path);
    rest.strip_prefix(b"/").unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_walked_in_the_order_of_components() {
        assert_eq!(by_component(b"", b"a"), Ordering::Less);
        assert_eq!(by_component(b"a/z", b"a!"), Ordering::Less);
        assert_eq!(by_component(b"a/b", b"a/b"), Ordering::Equal);
    }
}
