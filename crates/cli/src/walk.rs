//! Traversal of a directory tree, in the order of names. It follows no links and opens no files.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One entry below the root.
pub(crate) struct WalkedEntry {
    pub(crate) path: PathBuf,
    /// The path below the root, as raw bytes.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: WalkedKind,
}

pub(crate) enum WalkedKind {
    File(Metadata),
    Directory(Metadata),
    Link,
    /// The kind of special file.
    Special(&'static str),
    /// The entry, or the content of a directory, could not be read.
    Unreadable(io::Error),
}

/// An iterator over a tree; a directory comes before its content.
pub(crate) struct TreeWalk {
    root: PathBuf,
    /// Excluded directories, by device and inode.
    left_out: Vec<(u64, u64)>,
    /// The remaining entries of each directory on the current path, the next one last.
    pending: Vec<Vec<PathBuf>>,
    failed: Option<WalkedEntry>,
}

impl TreeWalk {
    /// Starts a traversal below `root`, which must be a directory.
    pub(crate) fn new(root: &Path) -> io::Result<TreeWalk> {
        Ok(TreeWalk { root: root.to_owned(), left_out: Vec::new(), pending: vec![children(root)?], failed: None })
    }

    /// Excludes a directory if it exists, for instance the store itself.
    pub(crate) fn leave_out(mut self, dir: &Path) -> TreeWalk {
        self.left_out.extend(fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino())));
        self
    }

    fn entry(&mut self, path: PathBuf) -> Option<WalkedEntry> {
        let name = path.strip_prefix(&self.root).unwrap_or(&path).as_os_str().as_bytes().to_vec();
        let kind = match fs::symlink_metadata(&path) {
            Err(error) => WalkedKind::Unreadable(error),
            Ok(metadata) if metadata.is_dir() => {
                if self.left_out.contains(&(metadata.dev(), metadata.ino())) {
                    return None;
                }
                match children(&path) {
                    Ok(children) => self.pending.push(children),
                    Err(error) => {
                        let kind = WalkedKind::Unreadable(error);
                        self.failed = Some(WalkedEntry { path: path.clone(), name: name.clone(), kind });
                    }
                }
                WalkedKind::Directory(metadata)
            }
            Ok(metadata) => kind(metadata),
        };
        Some(WalkedEntry { path, name, kind })
    }
}

impl Iterator for TreeWalk {
    type Item = WalkedEntry;

    fn next(&mut self) -> Option<WalkedEntry> {
        if let Some(failed) = self.failed.take() {
            return Some(failed);
        }
        loop {
            match self.pending.last_mut()?.pop() {
                None => {
                    self.pending.pop();
                }
                Some(path) => {
                    if let Some(entry) = self.entry(path) {
                        return Some(entry);
                    }
                }
            }
        }
    }
}

fn kind(metadata: Metadata) -> WalkedKind {
    let file_type = metadata.file_type();
    match () {
        () if file_type.is_file() => WalkedKind::File(metadata),
        () if file_type.is_symlink() => WalkedKind::Link,
        () if file_type.is_fifo() => WalkedKind::Special("a pipe"),
        () if file_type.is_socket() => WalkedKind::Special("a socket"),
        () if file_type.is_block_device() || file_type.is_char_device() => WalkedKind::Special("a device"),
        () => WalkedKind::Special("not a file"),
    }
}

/// Returns the entries of a directory in descending order of names.
fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_by(|a, b| b.cmp(a));
    Ok(paths)
}
