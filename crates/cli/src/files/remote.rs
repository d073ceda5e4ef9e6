//! The tree of an object store, below a URL.
//!
//! Objects have names and content, and nothing else: a directory is a part of names, and there are no modes, owners,
//! links or extended attributes. The label of an object that was copied from a store is the digest of the content. A
//! read compares the content with it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use waxseal_files::{Digest, Digester, FileKind, FileStore};
use waxseal_remote::{Download, RemoteDirectory, RemoteEntry, Upload, UploadQueue};

use super::tree::{COMPARED_CHUNK_BYTES, Node, Nodes, OpenNode, Part, Sink, Tree, Xattrs, by_component};
use crate::failure::{Exit, Failure};

pub(super) struct RemoteTree {
    directory: RemoteDirectory,
    /// Small files that are being sent.
    queue: Rc<RefCell<UploadQueue>>,
}

impl RemoteTree {
    pub(super) fn new(directory: RemoteDirectory) -> RemoteTree {
        let queue = Rc::new(RefCell::new(UploadQueue::new(&directory)));
        RemoteTree { directory, queue }
    }

    fn failed(&self, path: &[u8], error: &io::Error) -> Failure {
        failure(&self.show(path), error)
    }

    /// Returns the objects below a path, without a directory's own marker.
    fn objects(&self, path: &[u8]) -> Result<Vec<RemoteEntry>, Failure> {
        self.send_all()?;
        let entries = self.directory.list_all(name(path)?).map_err(|error| self.failed(path, &error))?;
        Ok(entries.into_iter().filter(|entry| entry.name.as_bytes() != path).collect())
    }

    fn remove_object(&self, path: &[u8]) -> Result<(), Failure> {
        self.directory.remove(name(path)?).map_err(|error| self.failed(path, &error))
    }

    /// Waits for files that are being sent, before they are listed or read.
    fn send_all(&self) -> Result<(), Failure> {
        self.queue.borrow_mut().finish().map_err(|error| self.failed(b"", &error))
    }
}

/// Returns a failure at a URL. The message of the error names the URL, too, if it is one of the store.
fn failure(url: &str, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Exit::Usage,
        _ => Exit::Io,
    };
    let message = error.to_string();
    Failure::new(exit, if message.contains(url) { message } else { format!("{url}: {message}") })
}

fn refused(what: &str, url: &str) -> Failure {
    Failure::usage(format!("{url}: an object store has no {what}"))
}

/// Returns the name of an object. Errors: usage for bytes that are not UTF-8.
fn name(path: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(path)
        .map_err(|_| Failure::usage(format!("{}: the name of an object is UTF-8", crate::text::escape(path))))
}

fn node(kind: FileKind, path: Vec<u8>, size: u64, modified_micros: u64) -> Node {
    let mode = if kind == FileKind::Directory { 0o755 } else { 0o644 };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mtime = i64::try_from(modified_micros.saturating_mul(1000)).unwrap_or(i64::MAX);
    Node { path, kind: Some(kind), mode, uid, gid, mtime, size, stored: None }
}

fn of_entry(entry: RemoteEntry) -> Node {
    let kind = if entry.is_prefix { FileKind::Directory } else { FileKind::File };
    node(kind, entry.name.into_bytes(), entry.size, entry.modified_micros)
}

/// Adds the directories of objects, which are in the order of components. An object that is also a directory is an error,
/// unless it is empty: some programs mark directories so.
fn with_directories(
    objects: Vec<RemoteEntry>,
    root: &[u8],
    url: impl Fn(&[u8]) -> String,
) -> Vec<Result<Node, Failure>> {
    let mut nodes = vec![Ok(node(FileKind::Directory, root.to_vec(), 0, 0))];
    let mut inside = root.to_vec();
    let mut objects = objects.into_iter().peekable();
    while let Some(object) = objects.next() {
        let below = objects.peek().is_some_and(|next| is_below(next.name.as_bytes(), object.name.as_bytes()));
        let own = object.name.as_bytes();
        let start = if inside.is_empty() { 0 } else { inside.len() + 1 };
        let common = if inside.is_empty() || is_below(own, &inside) { start } else { common_directory(own, &inside) };
        for end in (common..own.len()).filter(|at| own[*at] == b'/') {
            nodes.push(Ok(node(FileKind::Directory, own[..end].to_vec(), 0, 0)));
        }
        inside = own[..own.iter().rposition(|byte| *byte == b'/').unwrap_or(0)].to_vec();
        match below {
            false => nodes.push(Ok(of_entry(object))),
            true if object.size == 0 => {}
            true => nodes.push(Err(Failure::usage(format!("{}: both an object and a directory", url(own))))),
        }
    }
    nodes
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Returns where the part of a path begins that is below a directory of both paths.
fn common_directory(path: &[u8], other: &[u8]) -> usize {
    let mut start = 0;
    for (at, byte) in path.iter().enumerate() {
        if *byte == b'/' && (other == &path[..at] || is_below(other, &path[..at])) {
            start = at + 1;
        }
    }
    start
}

/// Returns a digest as the label of an object.
fn label(chunk_bytes: u32, digest: Digest) -> String {
    format!("1 {chunk_bytes} {:032x}", digest.number())
}

/// Returns the chunk size and the digest of a label; `None` for another kind of label.
fn labelled(label: &str) -> Option<(u32, Digest)> {
    let (chunk_bytes, digest) = label.strip_prefix("1 ")?.split_once(' ')?;
    let chunk_bytes = chunk_bytes.parse().ok().filter(|chunk_bytes| *chunk_bytes > 0)?;
    Some((chunk_bytes, Digest::from_number(u128::from_str_radix(digest, 16).ok()?)))
}

impl Tree for RemoteTree {
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
        self.directory.url_of(&crate::text::escape(path))
    }

    /// The root exists always.
    fn stat(&self, path: &[u8]) -> Result<Node, Failure> {
        if path.is_empty() {
            return Ok(node(FileKind::Directory, Vec::new(), 0, 0));
        }
        self.send_all()?;
        match self.directory.head(name(path)?) {
            Ok(entry) if entry.size > 0 => Ok(of_entry(entry)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(path, &error)),
            // Perhaps a directory. A server of HTTP alone has no lists.
            head => match (self.directory.list(name(path)?), head) {
                (Ok(below), _) if below.iter().any(|entry| entry.name.as_bytes() != path) => {
                    Ok(node(FileKind::Directory, path.to_vec(), 0, 0))
                }
                (_, Ok(entry)) => Ok(of_entry(entry)),
                (_, Err(error)) => Err(self.failed(path, &error)),
            },
        }
    }

    fn list(&self, path: &[u8]) -> Result<Nodes, Failure> {
        self.send_all()?;
        let mut entries = self.directory.list(name(path)?).map_err(|error| self.failed(path, &error))?;
        let prefixes: Vec<_> = entries.iter().filter(|entry| entry.is_prefix).map(|entry| entry.name.clone()).collect();
        entries.retain(|entry| {
            let is_marker = !entry.is_prefix && entry.size == 0 && prefixes.contains(&entry.name);
            !is_marker && entry.name.as_bytes() != path
        });
        Ok(Box::new(entries.into_iter().map(|entry| Ok(of_entry(entry)))))
    }

    /// The list of all objects is held in memory.
    fn walk(&self, path: &[u8]) -> Result<Nodes, Failure> {
        let root = self.stat(path)?;
        if !root.is_directory() {
            return Ok(Box::new([Ok(root)].into_iter()));
        }
        let mut objects = self.objects(path)?;
        objects.sort_by(|one, other| by_component(one.name.as_bytes(), other.name.as_bytes()));
        Ok(Box::new(with_directories(objects, path, |path| self.show(path)).into_iter()))
    }

    fn open<'a>(&'a self, node: &'a Node) -> Result<Box<dyn OpenNode + 'a>, Failure> {
        if node.is_directory() {
            return Ok(Box::new(RemoteNode { url: self.show(&node.path), download: None }));
        }
        self.send_all()?;
        let download = Download::open(&self.directory, name(&node.path)?);
        let download = download.map_err(|error| self.failed(&node.path, &error))?;
        Ok(Box::new(RemoteNode { url: self.show(&node.path), download: Some(download) }))
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Failure> {
        Err(refused("links", &self.show(path)))
    }

    fn write(&self, path: &[u8], like: Option<&Node>) -> Result<Box<dyn Sink>, Failure> {
        let upload = Upload::begin(&self.directory, name(path)?).map_err(|error| self.failed(path, &error))?;
        let mut upload = upload.expecting(like.map_or(0, |like| like.size));
        let known = like.and_then(|like| like.stored).filter(|entry| !entry.has_changes);
        // The content of an entry without chunks is shorter than any chunk.
        let chunk_bytes = known.map_or(0, |entry| entry.chunk_bytes);
        let chunk_bytes = if chunk_bytes == 0 { COMPARED_CHUNK_BYTES } else { chunk_bytes };
        if let Some(entry) = known {
            upload.label(label(chunk_bytes, entry.digest));
        }
        let (url, queue) = (self.show(path), Rc::clone(&self.queue));
        Ok(Box::new(RemoteSink { upload, url, digester: Digester::new(chunk_bytes), chunk_bytes, queue }))
    }

    /// Objects make their directories.
    fn mkdir(&self, _: &[u8], _: Option<&Node>) -> Result<(), Failure> {
        Ok(())
    }

    fn symlink(&self, _: &[u8], path: &[u8], _: &Node) -> Result<(), Failure> {
        Err(refused("links", &self.show(path)))
    }

    fn set_xattrs(&self, path: &[u8], xattrs: &Xattrs) -> Result<(), Failure> {
        match xattrs.is_empty() {
            true => Ok(()),
            false => Err(refused("extended attributes", &self.show(path))),
        }
    }

    fn set_mode(&self, _: &[u8], _: u32) -> Result<(), Failure> {
        Ok(())
    }

    fn remove(&self, path: &[u8]) -> Result<(), Failure> {
        match self.stat(path)?.is_directory() {
            true => Err(Failure::usage(format!("{} is a directory", self.show(path)))),
            false => self.remove_object(path),
        }
    }

    /// Not in one step: after a failure some objects are left.
    fn remove_tree(&self, path: &[u8]) -> Result<(), Failure> {
        self.stat(path)?;
        for object in self.objects(path)? {
            self.remove_object(object.name.as_bytes())?;
        }
        if path.is_empty() { Ok(()) } else { self.remove_object(path) }
    }

    fn rename(&self, from: &[u8], _: &[u8]) -> Result<(), Failure> {
        Err(refused("rename", &self.show(from)).explain("copy, then remove"))
    }

    fn finish(&self) -> Result<(), Failure> {
        self.send_all()
    }
}

/// An object that is read, or a directory.
struct RemoteNode {
    url: String,
    download: Option<Download>,
}

impl OpenNode for RemoteNode {
    fn recorded_digest(&self) -> Option<(u32, Digest)> {
        self.download.as_ref()?.entry().label.as_deref().and_then(labelled)
    }

    fn xattrs(&self) -> Result<Xattrs, Failure> {
        Ok(Xattrs::new())
    }

    /// Errors: damage if the content does not match the digest in the object's label, after the last part.
    fn read(&self, take: &mut dyn FnMut(Part<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let Some(download) = &self.download else { return Err(refused("content of a directory", &self.url)) };
        let recorded = self.recorded_digest();
        let mut digester = Digester::new(recorded.map_or(COMPARED_CHUNK_BYTES, |(chunk_bytes, _)| chunk_bytes));
        let mut refusal = None;
        let read = download.each(|bytes| {
            digester.update(bytes);
            take(Part::Bytes(bytes)).map_err(|failure| {
                refusal = Some(failure);
                io::Error::other("refused")
            })
        });
        if let Some(failure) = refusal {
            return Err(failure);
        }
        read.map_err(|error| failure(&self.url, &error))?;
        match recorded {
            Some((_, digest)) if digester.finish() != digest => {
                let what = format!("{}: the content does not match the digest in its label", self.url);
                Err(Failure::new(Exit::Corruption, what))
            }
            _ => Ok(()),
        }
    }
}

/// An object that is written.
struct RemoteSink {
    upload: Upload,
    url: String,
    digester: Digester,
    chunk_bytes: u32,
    queue: Rc<RefCell<UploadQueue>>,
}

impl Sink for RemoteSink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.digester.update(bytes);
        self.upload.write(bytes).map_err(|error| failure(&self.url, &error))
    }

    /// An object has no holes.
    fn skip(&mut self, bytes: u64) -> Result<(), Failure> {
        Part::Hole(bytes).each(|zeros| self.write(zeros))
    }

    fn set_xattrs(&mut self, xattrs: &Xattrs) -> Result<(), Failure> {
        match xattrs.is_empty() {
            true => Ok(()),
            false => Err(refused("extended attributes", &self.url)),
        }
    }

    /// A small file is sent while others are read; [`Tree::finish`] waits for it.
    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        if !self.upload.has_parts() {
            self.upload.label(label(self.chunk_bytes, self.digester.finish()));
        }
        self.upload.finish_in(&mut self.queue.borrow_mut()).map_err(|error| failure(&self.url, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, size: u64) -> RemoteEntry {
        RemoteEntry { name: name.to_owned(), size, modified_micros: 0, etag: None, is_prefix: false, label: None }
    }

    #[test]
    fn each_directory_comes_once_before_its_content() {
        let names = ["r/a", "r/a/b/c", "r/a/b/d", "r/a/e/f", "r/ab/c", "r/g", "r/g/h"];
        let objects = names.iter().map(|name| object(name, if *name == "r/g" { 5 } else { 0 })).collect();
        let nodes = with_directories(objects, b"r", |path| String::from_utf8_lossy(path).into_owned());
        let shown: Vec<String> = nodes
            .iter()
            .map(|node| match node {
                Ok(node) => format!("{} {}", node.kind_name(), String::from_utf8_lossy(&node.path)),
                Err(failure) => failure.to_string(),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "directory r",
                "directory r/a",
                "directory r/a/b",
                "file r/a/b/c",
                "file r/a/b/d",
                "directory r/a/e",
                "file r/a/e/f",
                "directory r/ab",
                "file r/ab/c",
                "r/g: both an object and a directory",
                "directory r/g",
                "file r/g/h",
            ]
        );
    }

    #[test]
    fn labels_name_the_chunk_size() {
        let digest = Digester::new(4096).finish();
        assert_eq!(labelled(&label(4096, digest)), Some((4096, digest)));
        for other in ["", "1 4096", "2 4096 00", "1 0 00", "1 4096 x"] {
            assert_eq!(labelled(other), None, "{other}");
        }
    }
}
