//! cat, put, get, cp: content from one tree to another.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};

use serde_json::json;
use waxseal_files::{Digester, FileKind};

use super::location::{Access, Location, Place, last_name};
use super::tree::{Node, OpenNode, Part, Tree, below, find, join};
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::input::standard_input;
use crate::output::Output;
use crate::{progress, text};

pub(super) fn cat(args: &Args, paths: &[OsString], output: &mut Output) -> Result<Exit, Failure> {
    for path in paths {
        let Place { tree, path } = Location::parse(path)?.open(args, Access::Read)?;
        let node = tree.stat(&path)?;
        if node.kind != Some(FileKind::File) {
            return Err(Failure::usage(format!("{} is no file but a {}", tree.show(&path), node.kind_name())));
        }
        tree.open(&node)?.read(&mut |part| part.each(|bytes| output.write(&[bytes])))?;
    }
    Ok(Exit::Ok)
}

pub(super) fn put(args: &Args, src: &OsStr, dest: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let location = Location::parse(dest)?;
    if location.is_local() {
        return Err(Failure::usage(format!("{} is not in a store: waxseal://STORE/path", dest.display())));
    }
    if src != "-" {
        return match Location::parse(src)?.is_local() {
            true => cp(args, src, dest, output),
            false => Err(Failure::usage(format!("{} is not local; use cp", src.display()))),
        };
    }
    location.check_new()?;
    let mut input = standard_input()?;
    let Place { tree, path } = location.open(args, Access::Fill)?;
    let mut sink = tree.write(&path, None)?;
    let (mut part, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        match input.read(&mut part) {
            Ok(0) => break,
            Ok(length) => {
                sink.write(&part[..length])?;
                bytes += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io("standard input", error)),
        }
    }
    sink.finish()?;
    tree.finish()?;
    let counts = EntryCounts { files: 1, bytes, ..EntryCounts::default() };
    Copied { counts, ..Copied::default() }.print(false, output)
}

pub(super) fn get(args: &Args, src: &OsStr, dest: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    if Location::parse(src)?.is_local() {
        return Err(Failure::usage(format!("{} is not in a store: waxseal://STORE/path", src.display())));
    }
    if dest == "-" {
        return cat(args, &[src.to_owned()], output);
    }
    match Location::parse(dest)?.is_local() {
        true => cp(args, src, dest, output),
        false => Err(Failure::usage(format!("{} is not local; use cp", dest.display()))),
    }
}

pub(super) fn cp(args: &Args, src: &OsStr, dest: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    Location::parse(src)?.check_apart(&Location::parse(dest)?, Some(&last_name(src)))?;
    let (from, to) = open_both(args, src, dest, Access::Fill)?;
    let target = target(&*to.tree, &to.path, src)?;
    check_parent(&*to.tree, &target)?;
    let root = from.tree.stat(&from.path)?;
    let mut copied = Copied::default();
    let bar = progress::bar("copy", None, "entries");
    let mut modes = Vec::new();
    let mut copy = |entry: Result<Node, Failure>, copied: &mut Copied| -> Result<(), Failure> {
        let node = entry?;
        let path = join(&target, below(&node.path, &root.path));
        let left = copy_entry(&*from.tree, &node, &*to.tree, &path, || Ok(()))?;
        copied.counts.add(&node);
        if node.is_directory() {
            modes.push((path, node.mode));
        }
        left.map_or(Ok(()), Err)
    };
    let ended = from.tree.walk(&root.path)?.try_for_each(|entry| {
        bar.inc(1);
        copy(entry, &mut copied).or_else(|failure| copied.fail(failure))
    });
    bar.finish_and_clear();
    copied.complete(ended, &*to.tree, &modes, output)
}

/// Opens the source to read, and the destination. At least one is in a store or an object store; a store that has both is opened
/// once.
pub(super) fn open_both(args: &Args, src: &OsStr, dest: &OsStr, access: Access) -> Result<(Place, Place), Failure> {
    let (from, to) = (Location::parse(src)?, Location::parse(dest)?);
    match (&from, &to) {
        (Location::Local(_), Location::Local(_)) => {
            Err(Failure::usage("neither path is in a store: waxseal://STORE/path"))
        }
        _ if from.is_in_tree_of(&to) => {
            let to = to.open(args, access)?;
            Ok((from.open_beside(&to)?, to))
        }
        _ => {
            let from = from.open(args, Access::Read)?;
            from.tree.stat(&from.path)?; // before a store is created
            to.check_new()?;
            Ok((from, to.open(args, access)?))
        }
    }
}

/// Returns the path that a copy gets: in a directory that exists, under its own name.
pub(super) fn target(tree: &dyn Tree, path: &[u8], src: &OsStr) -> Result<Vec<u8>, Failure> {
    match find(tree, path)? {
        Some(node) if node.is_directory() => Ok(join(path, &last_name(src))),
        _ => Ok(path.to_vec()),
    }
}

/// Fails if the directory that would hold a copy does not exist; in an object store it need not. Errors: not found; usage if it is none.
pub(super) fn check_parent(tree: &dyn Tree, path: &[u8]) -> Result<(), Failure> {
    if tree.has_names_only() {
        return Ok(());
    }
    let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |end| &path[..end]);
    match tree.stat(parent)? {
        node if node.is_directory() => Ok(()),
        node => Err(Failure::usage(format!("{} is no directory but a {}", tree.show(parent), node.kind_name()))),
    }
}

/// Fails for an entry that has no content to copy.
pub(super) fn check_kind(from: &dyn Tree, node: &Node) -> Result<(), Failure> {
    match node.kind {
        Some(FileKind::File | FileKind::Directory | FileKind::Link) => Ok(()),
        _ => Err(Failure::usage(format!("{}: a {} has no content to copy", from.show(&node.path), node.kind_name()))),
    }
}

/// Copies one entry. A directory that exists stays; where entries have names only, no directory is looked for.
/// `make_room` is called once the content is at hand, before the entry gets its name. Returns the failure of the extended
/// attributes that the copy does not have.
pub(super) fn copy_entry(
    from: &dyn Tree,
    node: &Node,
    to: &dyn Tree,
    path: &[u8],
    make_room: impl FnOnce() -> Result<(), Failure>,
) -> Result<Option<Failure>, Failure> {
    check_kind(from, node)?;
    let opened = from.open(node)?;
    let xattrs = opened.xattrs()?;
    match node.kind {
        Some(FileKind::Directory) => {
            make_room()?;
            let exists = to.has_names_only() || find(to, path)?.is_some_and(|other| other.is_directory());
            if !exists {
                to.mkdir(path, Some(node))?;
            }
        }
        Some(FileKind::Link) => {
            let target = from.read_link(&node.path)?;
            make_room()?;
            let is_link = find(to, path)?.is_some_and(|other| other.kind == Some(FileKind::Link));
            if !is_link || to.read_link(path)? != target {
                to.symlink(&target, path, node)?;
            }
        }
        _ => {
            let mut sink = to.write(path, Some(node))?;
            read_verified(from, node, &*opened, &mut |part| sink.put(part))?;
            let left = sink.set_xattrs(&xattrs).err();
            make_room()?;
            sink.finish()?;
            return Ok(left);
        }
    }
    Ok(to.set_xattrs(path, &xattrs).err())
}

/// Passes the content of a file in parts, and compares it with the digest of its entry, if it is in a store. Errors:
/// damage, after the last part.
fn read_verified(
    tree: &dyn Tree,
    node: &Node,
    opened: &dyn OpenNode,
    take: &mut dyn FnMut(Part<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(entry) = node.stored.filter(|entry| !entry.has_changes) else {
        return opened.read(take);
    };
    let mut digester = Digester::new(if entry.chunk_bytes == 0 { u32::MAX } else { entry.chunk_bytes });
    opened.read(&mut |part| {
        part.add_to(&mut digester);
        take(part)
    })?;
    match digester.finish() == entry.digest {
        true => Ok(()),
        false => {
            let shown = tree.show(&node.path);
            Err(Failure::new(Exit::Corruption, format!("{shown}: the content does not match the digest of its entry")))
        }
    }
}

/// The entries that were copied.
#[derive(Clone, Copy, Default)]
pub(super) struct EntryCounts {
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) links: u64,
    pub(super) bytes: u64,
}

impl EntryCounts {
    pub(super) fn add(&mut self, node: &Node) {
        match node.kind {
            Some(FileKind::File) => {
                self.files += 1;
                self.bytes += node.size;
            }
            Some(FileKind::Directory) => self.directories += 1,
            _ => self.links += 1,
        }
    }
}

impl fmt::Display for EntryCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EntryCounts { files, directories, links, bytes } = *self;
        write!(
            f,
            "{}, {} and {}: {}",
            text::counted(files, "file", "files"),
            text::counted(directories, "directory", "directories"),
            text::counted(links, "link", "links"),
            text::size(bytes),
        )
    }
}

/// Sets the modes of directories that were copied. Children first: a directory may lose its own write permission. The
/// root of a tree is not the copy's.
pub(super) fn set_modes(
    to: &dyn Tree,
    modes: &[(Vec<u8>, u32)],
    mut fail: impl FnMut(Failure) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let modes = modes.iter().rev().filter(|(path, _)| !path.is_empty());
    modes.into_iter().try_for_each(|(path, mode)| to.set_mode(path, *mode).or_else(&mut fail))
}

/// The result of a copy.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) counts: EntryCounts,
    pub(super) removed: u64,
    failed: u64,
    is_damaged: bool,
}

impl Copied {
    /// Reports an entry that was not copied; the others are. Errors: a failure of the device, which ends the copy.
    pub(super) fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.is_of_entry() {
            return Err(failure);
        }
        eprintln!("waxseal: not copied: {failure}");
        self.failed += 1;
        self.is_damaged |= failure.is_corruption();
        Ok(())
    }

    /// Sets the modes of directories, makes the copy durable and prints it, also if a failure has ended it. Errors:
    /// that failure, or one of the device.
    pub(super) fn complete(
        mut self,
        ended: Result<(), Failure>,
        to: &dyn Tree,
        modes: &[(Vec<u8>, u32)],
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let set = set_modes(to, modes, |failure| self.fail(failure));
        let ended = ended.and(set).and(to.finish());
        match ended {
            Ok(()) => self.print(false, output),
            Err(failure) => {
                output.line(self.line(false))?; // the object is that of the failure
                Err(failure)
            }
        }
    }

    fn line(&self, is_dry_run: bool) -> String {
        let (copy, remove) = if is_dry_run { ("would copy", "would remove") } else { ("copied", "removed") };
        let Copied { counts, removed, failed, .. } = *self;
        let mut line = format!("{copy} {counts}");
        if removed > 0 {
            line += &format!("; {remove} {}", text::counted(removed, "entry", "entries"));
        }
        if failed > 0 {
            line += &format!("; not copied {}", text::count(failed));
        }
        line
    }

    /// Prints what was done, or what would be done.
    pub(super) fn print(&self, is_dry_run: bool, output: &mut Output) -> Result<Exit, Failure> {
        let Copied { counts: EntryCounts { files, directories, links, bytes }, removed, failed, .. } = *self;
        output.line(self.line(is_dry_run))?;
        output.object(&json!({
            "ok": failed == 0,
            "files": files,
            "directories": directories,
            "links": links,
            "bytes": bytes,
            "removed": removed,
            "failed": failed,
        }))?;
        Ok(match (failed, self.is_damaged) {
            (0, _) => Exit::Ok,
            (_, true) => Exit::Corruption,
            (_, false) => Exit::CheckFailed,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use waxseal::Db;
    use waxseal_files::FileStore;

    use super::super::stored::StoredTree;
    use super::super::tree::{Nodes, Sink, Xattrs};
    use super::*;

    /// Path and content.
    type Object = (Vec<u8>, Vec<u8>);

    /// Names and contents in memory. It counts the calls that are requests in an object store.
    #[derive(Default)]
    struct Names {
        objects: Rc<RefCell<Vec<Object>>>,
        requests: Cell<u32>,
    }

    struct NamesSink {
        object: Object,
        objects: Rc<RefCell<Vec<Object>>>,
    }

    impl Names {
        fn request<T>(&self) -> Result<T, Failure> {
            self.requests.set(self.requests.get() + 1);
            Err(Failure::new(Exit::NotFound, "not found"))
        }
    }

    impl Tree for Names {
        fn store(&self) -> Option<&FileStore> {
            None
        }
        fn beside(&self) -> Option<Box<dyn Tree>> {
            None
        }
        fn has_names_only(&self) -> bool {
            true
        }
        fn show(&self, path: &[u8]) -> String {
            text::escape(path)
        }
        fn stat(&self, _: &[u8]) -> Result<Node, Failure> {
            self.request()
        }
        fn list(&self, _: &[u8]) -> Result<Nodes, Failure> {
            self.request()
        }
        fn walk(&self, _: &[u8]) -> Result<Nodes, Failure> {
            self.request()
        }
        fn open<'a>(&'a self, _: &'a Node) -> Result<Box<dyn OpenNode + 'a>, Failure> {
            self.request()
        }
        fn read_link(&self, _: &[u8]) -> Result<Vec<u8>, Failure> {
            self.request()
        }
        fn write(&self, path: &[u8], _: Option<&Node>) -> Result<Box<dyn Sink>, Failure> {
            self.requests.set(self.requests.get() + 1);
            Ok(Box::new(NamesSink { object: (path.to_vec(), Vec::new()), objects: Rc::clone(&self.objects) }))
        }
        fn mkdir(&self, _: &[u8], _: Option<&Node>) -> Result<(), Failure> {
            self.request()
        }
        fn symlink(&self, _: &[u8], _: &[u8], _: &Node) -> Result<(), Failure> {
            self.request()
        }
        fn set_xattrs(&self, _: &[u8], _: &Xattrs) -> Result<(), Failure> {
            Ok(())
        }
        fn set_mode(&self, _: &[u8], _: u32) -> Result<(), Failure> {
            self.request()
        }
        fn remove(&self, _: &[u8]) -> Result<(), Failure> {
            self.request()
        }
        fn remove_tree(&self, _: &[u8]) -> Result<(), Failure> {
            self.request()
        }
        fn rename(&self, _: &[u8], _: &[u8]) -> Result<(), Failure> {
            self.request()
        }
        fn finish(&self) -> Result<(), Failure> {
            Ok(())
        }
    }

    impl Sink for NamesSink {
        fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
            self.object.1.extend_from_slice(bytes);
            Ok(())
        }
        fn skip(&mut self, bytes: u64) -> Result<(), Failure> {
            Part::Hole(bytes).each(|zeros| self.write(zeros))
        }
        fn set_xattrs(&mut self, _: &Xattrs) -> Result<(), Failure> {
            Ok(())
        }
        fn finish(self: Box<Self>) -> Result<(), Failure> {
            self.objects.borrow_mut().push(self.object);
            Ok(())
        }
    }

    #[test]
    fn a_directory_costs_an_object_store_no_request() {
        let files = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        files.create_dir_all("tree/a/b/c").unwrap();
        files.create_dir_all("tree/d").unwrap();
        files.write("tree/a/b/c/file", b"content").unwrap();
        let (from, to) = (StoredTree::new(files, "waxseal://store".to_owned()), Names::default());
        for node in from.walk(b"tree").unwrap() {
            let node = node.unwrap();
            let left = copy_entry(&from, &node, &to, &node.path, || Ok(())).unwrap();
            assert!(left.is_none());
        }
        assert_eq!(to.requests.get(), 1, "of the file alone");
        assert_eq!(*to.objects.borrow(), [(b"tree/a/b/c/file".to_vec(), b"content".to_vec())]);
    }
}
