//! A local directory as a tree.
//!
//! Every path is opened name by name from the root's descriptor, and no name is followed if it is a symbolic link: what
//! a store holds is never written outside of the destination.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat, Timespec, Timestamps, UTIME_OMIT};
use waxseal_files::{FileKind, FileStore};

use super::tree::{Node, Nodes, Sink, Tree, join};
use crate::failure::{Exit, Failure};

/// Bytes of one read.
const PART: usize = 1 << 20;

pub(super) struct LocalTree {
    root: OwnedFd,
    /// The root's path, for messages.
    name: PathBuf,
}

impl LocalTree {
    /// Opens a directory, which may be a symbolic link to one.
    pub(super) fn open(path: &Path) -> Result<LocalTree, Failure> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| local(path.display(), error))?;
        Ok(LocalTree { root, name: path.to_owned() })
    }

    fn failure(&self, path: &[u8], error: impl Into<io::Error>) -> Failure {
        local(self.show(path), error)
    }

    /// Opens the directory that holds a path. Returns it with the path's name; `.` for the root.
    fn parent<'a>(&self, path: &'a [u8]) -> io::Result<(OwnedFd, &'a OsStr)> {
        let mut directory = self.root.try_clone()?;
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let name = names.pop().unwrap_or(b".");
        for name in names {
            directory = open_directory(&directory, name)?;
        }
        Ok((directory, OsStr::from_bytes(name)))
    }

    fn at<R>(&self, path: &[u8], act: impl FnOnce(&OwnedFd, &OsStr) -> io::Result<R>) -> Result<R, Failure> {
        let acted = self.parent(path).and_then(|(directory, name)| act(&directory, name));
        acted.map_err(|error| self.failure(path, error))
    }

    fn children(&self, path: &[u8]) -> Result<Vec<Node>, Failure> {
        let mut nodes = self.at(path, |directory, name| {
            let directory = open_directory(directory, name.as_bytes())?;
            let mut nodes = Vec::new();
            for entry in rustix::fs::Dir::read_from(&directory)? {
                let name = entry?.file_name().to_bytes().to_vec();
                if name == b"." || name == b".." {
                    continue;
                }
                match rustix::fs::statat(&directory, OsStr::from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW) {
                    Err(rustix::io::Errno::NOENT) => {} // removed meanwhile
                    stat => nodes.push(node(join(path, &name), &stat?)),
                }
            }
            Ok(nodes)
        })?;
        nodes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(nodes)
    }
}

/// Opens a directory in another one. A symbolic link is an error.
fn open_directory(parent: &impl AsFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, OsStr::from_bytes(name), flags, Mode::empty())?)
}

fn local(what: impl std::fmt::Display, error: impl Into<io::Error>) -> Failure {
    use rustix::io::Errno;
    let error = error.into();
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => Failure::not_found(format!("{what}: {error}")),
        // As of a store: the paths are at fault, not the device.
        Some(
            Errno::EXIST
            | Errno::NOTEMPTY
            | Errno::ISDIR
            | Errno::NOTDIR
            | Errno::ACCESS
            | Errno::PERM
            | Errno::LOOP
            | Errno::INVAL
            | Errno::NAMETOOLONG,
        ) => Failure::usage(format!("{what}: {error}")),
        _ => Failure::io(what, error),
    }
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other systems")]
fn node(path: Vec<u8>, stat: &Stat) -> Node {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(FileKind::File),
        FileType::Directory => Some(FileKind::Directory),
        FileType::Symlink => Some(FileKind::Link),
        FileType::Fifo => Some(FileKind::Fifo),
        FileType::Socket => Some(FileKind::Socket),
        _ => None,
    };
    let size = if matches!(kind, Some(FileKind::File | FileKind::Link)) { stat.st_size as u64 } else { 0 };
    let mtime = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64);
    let mode = stat.st_mode as u32 & 0o7777;
    Node { path, kind, mode, uid: stat.st_uid, gid: stat.st_gid, mtime, size, stored: None }
}

impl Tree for LocalTree {
    fn store(&self) -> Option<&FileStore> {
        None
    }

    fn show(&self, path: &[u8]) -> String {
        self.name.join(OsStr::from_bytes(path)).display().to_string()
    }

    fn stat(&self, path: &[u8]) -> Result<Node, Failure> {
        let stat =
            self.at(path, |directory, name| Ok(rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?))?;
        Ok(node(path.to_vec(), &stat))
    }

    fn list(&self, path: &[u8]) -> Result<Nodes, Failure> {
        Ok(Box::new(self.children(path)?.into_iter().map(Ok)))
    }

    fn walk(&self, path: &[u8]) -> Result<Nodes, Failure> {
        let first = self.stat(path)?;
        let root = self.root.try_clone().map_err(|error| self.failure(path, error))?;
        let tree = LocalTree { root, name: self.name.clone() };
        Ok(Box::new(LocalWalk { tree, pending: vec![vec![first]] }))
    }

    fn read(&self, path: &[u8], take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = self.at(path, |directory, name| Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?))?;
        let (mut file, mut part) = (File::from(opened), vec![0; PART]);
        loop {
            match file.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(length) => take(&part[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(path, error)),
            }
        }
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Failure> {
        self.at(path, |directory, name| Ok(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes()))
    }

    fn write(&self, path: &[u8], like: Option<&Node>) -> Result<Box<dyn Sink>, Failure> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let temporary = format!(".waxseal-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (directory, name) = self.parent(path).map_err(|error| self.failure(path, error))?;
        if name == "." {
            return Err(self.failure(path, rustix::io::Errno::ISDIR));
        }
        // The content may be private: others get what the mode of `like` allows once the file is complete.
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let opened = rustix::fs::openat(&directory, &*temporary, flags, mode);
        let file = opened.map_err(|error| self.failure(path, error))?;
        Ok(Box::new(LocalFile {
            directory,
            name: name.as_bytes().to_vec(),
            temporary: Some(temporary),
            file: File::from(file),
            shown: self.show(path),
            attributes: like.map(|node| (node.mode, node.mtime)),
        }))
    }

    fn mkdir(&self, path: &[u8], like: Option<&Node>) -> Result<(), Failure> {
        // Its owner must be able to fill it. `set_mode` follows.
        let mode = like.map_or(0o777, |node| node.mode & 0o777 | 0o700);
        self.at(path, |directory, name| Ok(rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode as RawMode))?))
    }

    fn symlink(&self, target: &[u8], path: &[u8], _: &Node) -> Result<(), Failure> {
        self.at(path, |directory, name| Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), directory, name)?))
    }

    fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), Failure> {
        self.at(path, |directory, name| {
            let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let opened = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            Ok(rustix::fs::fchmod(opened, Mode::from_raw_mode((mode & 0o777) as RawMode))?)
        })
    }

    fn remove(&self, path: &[u8]) -> Result<(), Failure> {
        self.at(path, |directory, name| match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Err(rustix::io::Errno::ISDIR) => Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?),
            removed => Ok(removed?),
        })
    }

    fn remove_tree(&self, path: &[u8]) -> Result<(), Failure> {
        if path.is_empty() {
            return Err(Failure::usage(format!("{} is the root, which stays", self.show(path))));
        }
        let nodes: Vec<Node> = self.walk(path)?.collect::<Result<_, _>>()?;
        nodes.iter().rev().try_for_each(|node| self.remove(&node.path))
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        let (into, new) = self.parent(to).map_err(|error| self.failure(to, error))?;
        self.at(from, |directory, name| Ok(rustix::fs::renameat(directory, name, into, new)?))
    }

    fn finish(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// A walk that holds the entries of the directories above the current one.
struct LocalWalk {
    tree: LocalTree,
    /// The remaining entries of each directory on the current path, the next one last.
    pending: Vec<Vec<Node>>,
}

impl Iterator for LocalWalk {
    type Item = Result<Node, Failure>;

    fn next(&mut self) -> Option<Result<Node, Failure>> {
        loop {
            match self.pending.last_mut()?.pop() {
                None => drop(self.pending.pop()),
                Some(node) => {
                    if node.is_directory() {
                        match self.tree.children(&node.path) {
                            Ok(mut children) => {
                                children.reverse();
                                self.pending.push(children);
                            }
                            Err(failure) if failure.exit() == Exit::NotFound => continue, // removed meanwhile
                            Err(failure) => return Some(Err(failure)),
                        }
                    }
                    return Some(Ok(node));
                }
            }
        }
    }
}

/// A file that is written beside its name.
struct LocalFile {
    directory: OwnedFd,
    name: Vec<u8>,
    /// `None` once it has its name.
    temporary: Option<String>,
    file: File,
    shown: String,
    /// Mode and time.
    attributes: Option<(u32, i64)>,
}

impl LocalFile {
    /// Makes the file durable before it replaces another one: an error of the disk that comes late is no copy.
    fn complete(&mut self) -> io::Result<()> {
        if let Some((mode, mtime)) = self.attributes {
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode((mode & 0o777) as RawMode))?;
            let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let second = 1_000_000_000;
            let time = Timespec { tv_sec: mtime.div_euclid(second), tv_nsec: mtime.rem_euclid(second) };
            rustix::fs::futimens(&self.file, &Timestamps { last_access: omit, last_modification: time })?;
        }
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            rustix::fs::renameat(&self.directory, &**temporary, &self.directory, OsStr::from_bytes(&self.name))?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Sink for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| local(&self.shown, error))
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        self.complete().map_err(|error| local(&self.shown, error))
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.directory, &**temporary, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn errors_of_a_path_are_none_of_the_device() {
        for error in [Errno::ACCESS, Errno::PERM, Errno::LOOP, Errno::INVAL, Errno::NAMETOOLONG, Errno::EXIST] {
            assert_eq!(local("path", error).exit(), Exit::Usage, "{error}");
        }
        for error in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::MFILE] {
            assert_eq!(local("path", error).exit(), Exit::Io, "{error}");
        }
    }

    #[test]
    fn the_root_stays() {
        let dir = tempfile::tempdir().unwrap();
        let tree = LocalTree::open(dir.path()).unwrap();
        tree.mkdir(b"kept", None).unwrap();
        assert_eq!(tree.remove_tree(b"").unwrap_err().exit(), Exit::Usage);
        assert!(tree.stat(b"kept").unwrap().is_directory());
    }

    #[test]
    fn nobody_else_reads_a_file_that_is_not_complete() {
        let dir = tempfile::tempdir().unwrap();
        let tree = LocalTree::open(dir.path()).unwrap();
        tree.mkdir(b"like", None).unwrap();
        let like = Node { mode: 0o644, ..tree.stat(b"like").unwrap() };
        let sink = tree.write(b"file", Some(&like)).unwrap();
        let temporary = tree.children(b"").unwrap().remove(0);
        assert_eq!((temporary.kind, temporary.mode), (Some(FileKind::File), 0o600));
        sink.finish().unwrap();
        assert_eq!(tree.stat(b"file").unwrap().mode, 0o644);
    }
}
