//! A directory tree, entry by entry, in the order of its names. Nothing is followed, nothing is opened.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One entry below the root.
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// The path below the root, as raw bytes.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    File(Metadata),
    Directory(Metadata),
    Link,
    /// What it is.
    Special(&'static str),
    /// The entry, or what a directory holds, could not be read.
    Unreadable(io::Error),
}

/// Iterates over a tree; a directory comes before what it holds.
pub(crate) struct Walk {
    root: PathBuf,
    /// Directories that are left out, by device and inode.
    left_out: Vec<(u64, u64)>,
    /// Entries still to come, of each directory on the way down, the next one last.
    pending: Vec<Vec<PathBuf>>,
    failed: Option<Entry>,
}

impl Walk {
    /// Starts below `root`, which must be a directory.
    pub(crate) fn new(root: &Path) -> io::Result<Walk> {
        Ok(Walk { root: root.to_owned(), left_out: Vec::new(), pending: vec![children(root)?], failed: None })
    }

    /// Leaves a directory out, if it exists: the store itself, say.
    pub(crate) fn leave_out(mut self, dir: &Path) -> Walk {
        self.left_out.extend(fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino())));
        self
    }

    fn entry(&mut self, path: PathBuf) -> Option<Entry> {
        let name = path.strip_prefix(&self.root).unwrap_or(&path).as_os_str().as_bytes().to_vec();
        let kind = match fs::symlink_metadata(&path) {
            Err(error) => Kind::Unreadable(error),
            Ok(metadata) if metadata.is_dir() => {
                if self.left_out.contains(&(metadata.dev(), metadata.ino())) {
                    return None;
                }
                match children(&path) {
                    Ok(children) => self.pending.push(children),
                    Err(error) => {
                        let kind = Kind::Unreadable(error);
                        self.failed = Some(Entry { path: path.clone(), name: name.clone(), kind });
                    }
                }
                Kind::Directory(metadata)
            }
            Ok(metadata) => kind(metadata),
        };
        Some(Entry { path, name, kind })
    }
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
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

fn kind(metadata: Metadata) -> Kind {
    let file_type = metadata.file_type();
    match () {
        () if file_type.is_file() => Kind::File(metadata),
        () if file_type.is_symlink() => Kind::Link,
        () if file_type.is_fifo() => Kind::Special("a pipe"),
        () if file_type.is_socket() => Kind::Special("a socket"),
        () if file_type.is_block_device() || file_type.is_char_device() => Kind::Special("a device"),
        () => Kind::Special("not a file"),
    }
}

/// The entries of a directory, the last name first.
fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_by(|a, b| b.cmp(a));
    Ok(paths)
}
