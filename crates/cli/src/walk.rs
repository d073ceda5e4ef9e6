//! Traversal of a directory tree, in the order of names. It follows no links and opens no files.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use waxseal::MAX_VALUE_BYTES;

/// One entry below the root.
pub(crate) struct WalkedEntry {
    pub(crate) path: PathBuf,
    /// The path below the root, as raw bytes.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: WalkedKind,
}

pub(crate) enum WalkedKind {
    File(Metadata),
    Directory,
    Link,
    Special,
    /// The entry, or the content of a directory, could not be read.
    Unreadable,
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
            Err(_) => WalkedKind::Unreadable,
            Ok(metadata) if metadata.is_dir() => {
                if self.left_out.contains(&(metadata.dev(), metadata.ino())) {
                    return None;
                }
                match children(&path) {
                    Ok(children) => self.pending.push(children),
                    Err(_) => {
                        let kind = WalkedKind::Unreadable;
                        self.failed = Some(WalkedEntry { path: path.clone(), name: name.clone(), kind });
                    }
                }
                WalkedKind::Directory
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
        () => WalkedKind::Special,
    }
}

/// Returns the entries of a directory in descending order of names.
fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_by(|a, b| b.cmp(a));
    Ok(paths)
}

/// Replaces `content` by the content of a file, whose last known length is `length`. A file larger than a value may be
/// is refused.
pub(crate) fn read_file(path: &Path, length: u64, content: &mut Vec<u8>) -> io::Result<()> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MAX_VALUE_BYTES} bytes"));
    if length > MAX_VALUE_BYTES as u64 {
        return Err(too_large());
    }
    content.clear();
    content.shrink_to((1 << 20).max(length as usize)); // releases the memory of a previous large file
    content.reserve_exact(length as usize);
    let read = File::open(path)?.take(MAX_VALUE_BYTES as u64 + 1).read_to_end(content)?;
    if read > MAX_VALUE_BYTES { Err(too_large()) } else { Ok(()) }
}
