//! A local directory as a tree.
//!
//! Every path is opened name by name from the root's descriptor, and no name is followed if it is a symbolic link: what
//! a store holds is never written outside of the destination.
//!
//! A file that is written has no name until it is complete, where the system has such files. Elsewhere, and for the
//! moment in which one entry replaces another, it has a name of [`super::temporary`]. A copy that is killed may leave
//! that name behind, and the next copy into the directory removes it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
};
use rustix::io::Errno;
use waxseal_files::{FileKind, FileStore};

use super::temporary::{self, Unnamed};
use super::tree::{Node, Nodes, OpenNode, Part, Sink, Tree, Xattrs, join, set_each_xattr};
use crate::failure::{Exit, Failure};

/// Bytes of one read, and of the reads of a file that was short when it was opened.
const PART: usize = 1 << 20;
const SHORT_PART: usize = 1 << 14;
/// Longest list of the names of extended attributes, and longest value: the limits of Linux.
const XATTR_NAMES_BYTES: usize = 65_536;
const XATTR_VALUE_BYTES: usize = 65_536;

pub(crate) struct LocalTree {
    root: OwnedFd,
    /// The root's path, for messages.
    name: PathBuf,
    /// Directories from which the files of ended copies were removed.
    cleaned: RefCell<HashSet<Vec<u8>>>,
    /// Directories that lists and walks leave out, by device and inode.
    left_out: Vec<(u64, u64)>,
}

/// The beginning of the names of extended attributes that users set.
const USER_XATTRS: &[u8] = b"user.";

impl LocalTree {
    /// Opens a directory, which may be a symbolic link to one.
    pub(crate) fn open(path: &Path) -> Result<LocalTree, Failure> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| local(path.display(), error))?;
        Ok(LocalTree { root, name: path.to_owned(), cleaned: RefCell::default(), left_out: Vec::new() })
    }

    /// Leaves a directory out of lists and walks, if it exists: for instance the store that the tree is copied into.
    pub(crate) fn without(mut self, directory: &Path) -> LocalTree {
        self.left_out.extend(rustix::fs::stat(directory).ok().as_ref().map(identity));
        self
    }

    fn failure(&self, path: &[u8], error: impl Into<io::Error>) -> Failure {
        local(self.show(path), error).at(path)
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

    /// `parent` of an entry that is written. Removes what ended copies have left in the directory.
    fn parent_to_fill<'a>(&self, path: &'a [u8]) -> Result<(OwnedFd, &'a OsStr), Failure> {
        let (directory, name) = self.parent(path).map_err(|error| self.failure(path, error))?;
        let above = &path[..path.len() - name.len().min(path.len())];
        if !self.cleaned.borrow().contains(above) {
            temporary::remove_stale(&directory).map_err(|error| self.failure(above, error))?;
            self.cleaned.borrow_mut().insert(above.to_vec());
        }
        Ok((directory, name))
    }

    /// Opens an entry itself, to read it or its attributes.
    fn open_entry(&self, path: &[u8]) -> Result<File, Failure> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = self.at(path, |directory, name| Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?))?;
        Ok(File::from(opened))
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
                    Err(Errno::NOENT) => {} // removed meanwhile
                    Ok(stat) if self.left_out.contains(&identity(&stat)) => {}
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

/// Returns device and inode.
#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other systems")]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
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

    fn beside(&self) -> Option<Box<dyn Tree>> {
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
        let (name, left_out) = (self.name.clone(), self.left_out.clone());
        let tree = LocalTree { root, name, cleaned: RefCell::default(), left_out };
        Ok(Box::new(LocalWalk { tree, pending: vec![vec![first]] }))
    }

    fn open<'a>(&'a self, node: &'a Node) -> Result<Box<dyn OpenNode + 'a>, Failure> {
        let file = match node.kind {
            Some(FileKind::File | FileKind::Directory) => Some(self.open_entry(&node.path)?),
            _ => None,
        };
        Ok(Box::new(LocalNode { tree: self, path: &node.path, file }))
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Failure> {
        self.at(path, |directory, name| Ok(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes()))
    }

    fn write(&self, path: &[u8], like: Option<&Node>) -> Result<Box<dyn Sink>, Failure> {
        let (directory, name) = self.parent_to_fill(path)?;
        if name == "." {
            return Err(self.failure(path, Errno::ISDIR));
        }
        // The content may be private: others get what the mode of `like` allows once the file is complete.
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let unnamed = Unnamed::create(directory, mode).map_err(|error| self.failure(path, error))?;
        Ok(Box::new(LocalFile {
            unnamed,
            name: name.as_bytes().to_vec(),
            length: 0,
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
        let (directory, name) = self.parent_to_fill(path)?;
        let replaced = temporary::replace_symlink(&directory, OsStr::from_bytes(target), name);
        replaced.map_err(|error| self.failure(path, error))
    }

    fn set_xattrs(&self, path: &[u8], xattrs: &Xattrs) -> Result<(), Failure> {
        if xattrs.is_empty() {
            return Ok(());
        }
        // A link has none: the error of each attribute says that.
        let opened = self.open_entry(path);
        set_each_xattr(xattrs, |name, value| {
            let set = match &opened {
                Ok(file) => rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()),
                Err(_) => Err(Errno::NOTSUP),
            };
            set.map_err(|error| self.failure(path, error))
        })
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
            Err(Errno::ISDIR) => Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?),
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

/// An entry that is open.
struct LocalNode<'a> {
    tree: &'a LocalTree,
    path: &'a [u8],
    /// `None` for an entry that has neither content nor extended attributes of users.
    file: Option<File>,
}

impl OpenNode for LocalNode<'_> {
    fn xattrs(&self) -> Result<Xattrs, Failure> {
        let Some(file) = &self.file else { return Ok(Xattrs::new()) };
        user_xattrs(file).map_err(|error| self.tree.failure(self.path, error))
    }

    fn read(&self, take: &mut dyn FnMut(Part<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let failure = |error: io::Error| self.tree.failure(self.path, error);
        let file = self.file.as_ref().ok_or_else(|| failure(Errno::INVAL.into()))?;
        let length = file.metadata().map_err(failure)?.len();
        let (mut part, mut place) = (vec![0; (length.min(PART as u64) as usize).max(SHORT_PART)], 0);
        loop {
            let Extent { data, hole } = next_extent(file, place).map_err(failure)?;
            if data > place {
                take(Part::Hole(data - place))?;
            }
            place = data;
            while place < hole {
                let length = (part.len() as u64).min(hole - place) as usize;
                match file.read_at(&mut part[..length], place) {
                    Ok(0) => return Ok(()),
                    Ok(length) => {
                        take(Part::Bytes(&part[..length]))?;
                        place += length as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(failure(error)),
                }
            }
        }
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

/// Where the next data of a file is, and the hole behind it.
struct Extent {
    data: u64,
    /// `u64::MAX` if the file system does not know.
    hole: u64,
}

/// Finds the next data of a file from a position on. Behind the last data it is at the end of the file.
fn next_extent(file: &File, place: u64) -> io::Result<Extent> {
    let data = match rustix::fs::seek(file, SeekFrom::Data(place)) {
        Ok(data) => data,
        Err(Errno::NXIO) => file.metadata()?.len().max(place),
        Err(_) => place, // holes are not known here
    };
    Ok(Extent { data, hole: rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(u64::MAX) })
}

/// Returns the extended attributes of users, sorted. None where the file system has none.
fn user_xattrs(file: &File) -> io::Result<Xattrs> {
    let mut names = vec![0; XATTR_NAMES_BYTES];
    let length = match rustix::fs::flistxattr(file, &mut names[..]) {
        Err(Errno::NOTSUP) => 0,
        length => length?,
    };
    let mut xattrs = Xattrs::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(USER_XATTRS)) {
        let mut value = vec![0; XATTR_VALUE_BYTES];
        let length = rustix::fs::fgetxattr(file, name, &mut value[..])?;
        value.truncate(length);
        xattrs.push((name.to_vec(), value));
    }
    xattrs.sort_unstable();
    Ok(xattrs)
}

/// A file that gets its name when its content is complete.
struct LocalFile {
    unnamed: Unnamed,
    name: Vec<u8>,
    length: u64,
    shown: String,
    /// Mode and time.
    attributes: Option<(u32, i64)>,
}

impl LocalFile {
    /// Makes the file durable before it replaces another one: an error of the disk that comes late is no copy.
    fn complete(self) -> io::Result<()> {
        self.unnamed.file().set_len(self.length)?; // it may end in a hole
        if let Some((mode, mtime)) = self.attributes {
            rustix::fs::fchmod(self.unnamed.file(), Mode::from_raw_mode((mode & 0o777) as RawMode))?;
            let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let second = 1_000_000_000;
            let time = Timespec { tv_sec: mtime.div_euclid(second), tv_nsec: mtime.rem_euclid(second) };
            rustix::fs::futimens(self.unnamed.file(), &Timestamps { last_access: omit, last_modification: time })?;
        }
        self.unnamed.file().sync_all()?;
        self.unnamed.name(OsStr::from_bytes(&self.name))
    }
}

impl Sink for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.unnamed.file().write_all_at(bytes, self.length);
        written.map_err(|error| local(&self.shown, error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Failure> {
        self.length = self.length.saturating_add(bytes);
        Ok(())
    }

    fn set_xattrs(&mut self, xattrs: &Xattrs) -> Result<(), Failure> {
        set_each_xattr(xattrs, |name, value| {
            let set = rustix::fs::fsetxattr(self.unnamed.file(), name, value, XattrFlags::empty());
            set.map_err(|error| local(&self.shown, error))
        })
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        let shown = self.shown.clone();
        self.complete().map_err(|error| local(shown, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_open_stays_one_file_whatever_gets_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let tree = LocalTree::open(dir.path()).unwrap();
        let write = |name: &[u8], content: &[u8]| {
            let mut sink = tree.write(name, None).unwrap();
            sink.write(content).unwrap();
            sink.finish().unwrap();
        };
        write(b"file", b"old");
        write(b"other", b"other");
        let node = tree.stat(b"file").unwrap();
        let opened = tree.open(&node).unwrap();
        tree.remove(b"file").unwrap();
        tree.symlink(b"other", b"file", &node).unwrap();
        let mut content = Vec::new();
        let read = opened.read(&mut |part| {
            part.each(|bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            })
        });
        assert!(read.is_ok() && opened.xattrs().unwrap().is_empty());
        assert_eq!(content, b"old");
        assert_eq!(tree.open(&node).err().unwrap().exit(), Exit::Usage, "a link is not followed");
    }

    #[test]
    fn nobody_else_reads_a_file_that_is_not_complete() {
        let dir = tempfile::tempdir().unwrap();
        let tree = LocalTree::open(dir.path()).unwrap();
        tree.mkdir(b"like", None).unwrap();
        let like = Node { mode: 0o644, ..tree.stat(b"like").unwrap() };
        let sink = tree.write(b"file", Some(&like)).unwrap();
        let seen = tree.children(b"").unwrap();
        assert!(seen.iter().all(|node| node.is_directory() || node.mode == 0o600), "{seen:?}");
        sink.finish().unwrap();
        assert_eq!(tree.stat(b"file").unwrap().mode, 0o644);
    }
}
