//! A tree of files that the verbs of `fs` work on: that of a store, or a local directory.

use waxseal_files::{FileKind, FileStore, Metadata};

use crate::failure::Failure;

/// An entry of a tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The path from the root of the tree, without a leading `/`.
    pub(super) path: Vec<u8>,
    /// The kind; `None` for a device, which a store cannot hold.
    pub(super) kind: Option<FileKind>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// In nanoseconds since 1970.
    pub(super) mtime: i64,
    pub(super) size: u64,
    /// The attributes of an entry in a store.
    pub(super) stored: Option<Metadata>,
}

impl Node {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == Some(FileKind::Directory)
    }

    pub(super) fn name(&self) -> &[u8] {
        name_of(&self.path)
    }

    /// Returns the kind in one word.
    pub(super) fn kind_name(&self) -> &'static str {
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
pub(super) type Nodes = Box<dyn Iterator<Item = Result<Node, Failure>>>;

/// The operations of a tree. Paths are relative to its root, which is the empty path; no call follows a symbolic link
/// below the root.
pub(super) trait Tree {
    /// Returns the file store of the tree; `None` for a local directory.
    fn store(&self) -> Option<&FileStore>;

    /// Returns the name of a path for messages.
    fn show(&self, path: &[u8]) -> String;

    /// Returns an entry. Errors: not found.
    fn stat(&self, path: &[u8]) -> Result<Node, Failure>;

    /// Returns the entries of a directory.
    fn list(&self, path: &[u8]) -> Result<Nodes, Failure>;

    /// Returns the entries of a tree, its root first.
    fn walk(&self, path: &[u8]) -> Result<Nodes, Failure>;

    /// Passes the content of a file in parts.
    fn read(&self, path: &[u8], take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure>;

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Begins a file, which appears with its whole content when it is finished, and replaces an existing one. It gets
    /// the mode and time of `like`, without one the defaults.
    fn write(&self, path: &[u8], like: Option<&Node>) -> Result<Box<dyn Sink>, Failure>;

    fn mkdir(&self, path: &[u8], like: Option<&Node>) -> Result<(), Failure>;

    fn symlink(&self, target: &[u8], path: &[u8], like: &Node) -> Result<(), Failure>;

    fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), Failure>;

    fn remove(&self, path: &[u8]) -> Result<(), Failure>;

    /// Removes an entry with everything below it.
    fn remove_tree(&self, path: &[u8]) -> Result<(), Failure>;

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure>;

    /// Makes all changes durable.
    fn finish(&self) -> Result<(), Failure>;
}

/// A file that is written. Dropped before it is finished, it leaves nothing.
pub(super) trait Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    fn finish(self: Box<Self>) -> Result<(), Failure>;
}

/// Returns an entry; `None` without one.
pub(super) fn find(tree: &dyn Tree, path: &[u8]) -> Result<Option<Node>, Failure> {
    match tree.stat(path) {
        Ok(node) => Ok(Some(node)),
        Err(failure) if failure.exit() == crate::failure::Exit::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the path of an entry in a directory.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match (directory.is_empty(), name.is_empty()) {
        (true, _) => name.to_vec(),
        (_, true) => directory.to_vec(),
        _ => [directory, b"/", name].concat(),
    }
}

/// Returns the last component of a path.
pub(super) fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns the part of a path below one of its directories.
pub(super) fn below<'a>(path: &'a [u8], directory: &[u8]) -> &'a [u8] {
    let rest = path.strip_prefix(directory).unwrap_or(path);
    rest.strip_prefix(b"/").unwrap_or(rest)
}
