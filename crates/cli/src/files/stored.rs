//! The tree of a store.

use std::io::Write;

use waxseal::Db;
use waxseal_files::{
    DirEntry, Error, ErrorKind, FileStore, Metadata, Result, SetAttributes, Snapshot, WalkEntry, Writer, XattrMode,
};

use super::tree::{Node, Nodes, OpenNode, Part, Sink, Tree, Xattrs, join, set_each_xattr};
use crate::failure::{Exit, Failure};

/// Bytes of one read.
const PART: usize = 1 << 20;

/// The files of a store. Reads are of the snapshot that was taken when it was opened.
pub(crate) struct StoredTree {
    files: FileStore,
    snapshot: Snapshot,
    /// The URL of the store, for messages.
    url: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Corruption => Exit::Corruption,
            ErrorKind::ConditionFailed => Exit::CheckFailed,
            ErrorKind::Store | ErrorKind::NoSpace | ErrorKind::Stale | ErrorKind::ReadOnly | ErrorKind::Interrupted => {
                Exit::Io
            }
            _ => Exit::Usage,
        };
        let failure = match error.store_error() {
            Some(below) if exit == Exit::Io => Failure::from(below.clone()),
            _ => Failure::new(exit, error.to_string()),
        };
        match error.path() {
            Some(path) => failure.at(path),
            None => failure,
        }
    }
}

impl StoredTree {
    pub(crate) fn new(files: FileStore, url: String) -> StoredTree {
        StoredTree { snapshot: files.snapshot(), files, url }
    }

    fn db(&self) -> &Db {
        self.files.db()
    }
}

fn node(path: Vec<u8>, metadata: Metadata) -> Node {
    Node {
        path,
        kind: Some(metadata.kind),
        mode: metadata.mode,
        uid: metadata.uid,
        gid: metadata.gid,
        mtime: metadata.mtime,
        size: metadata.size,
        stored: Some(metadata),
    }
}

fn attributes(like: Option<&Node>) -> SetAttributes {
    match like {
        Some(node) => SetAttributes::new().mode(node.mode).owner(node.uid, node.gid).mtime(node.mtime),
        None => SetAttributes::new(),
    }
}

/// Passes the content of a file of a snapshot in parts.
pub(crate) fn read(
    snapshot: &Snapshot,
    path: &[u8],
    take: &mut dyn FnMut(Part<'_>) -> std::result::Result<(), Failure>,
) -> std::result::Result<(), Failure> {
    let file = snapshot.open(path)?;
    let size = file.metadata().size;
    let (mut part, mut place) = (vec![0; PART.min(size as usize)], 0);
    while place < size {
        let data = file.next_data(place).unwrap_or(size);
        if data > place {
            take(Part::Hole(data - place))?;
            place = data;
            continue;
        }
        let hole = file.next_hole(place).unwrap_or(size);
        let length = (part.len() as u64).min(hole - place) as usize;
        let length = file.read_at(&mut part[..length], place)?;
        take(Part::Bytes(&part[..length]))?;
        place += length as u64;
    }
    Ok(())
}

impl Tree for StoredTree {
    fn store(&self) -> Option<&FileStore> {
        Some(&self.files)
    }

    fn beside(&self) -> Option<Box<dyn Tree>> {
        Some(Box::new(StoredTree::new(self.files.clone(), self.url.clone())))
    }

    fn show(&self, path: &[u8]) -> String {
        format!("{}/{}", self.url, crate::text::escape(path))
    }

    fn stat(&self, path: &[u8]) -> std::result::Result<Node, Failure> {
        Ok(node(path.to_vec(), self.files.stat(path)?))
    }

    fn list(&self, path: &[u8]) -> std::result::Result<Nodes, Failure> {
        let directory = path.to_vec();
        let entry = move |entry: Result<DirEntry>| {
            let entry = entry?;
            Ok(node(join(&directory, &entry.name), entry.metadata))
        };
        Ok(Box::new(self.snapshot.list(path)?.map(entry)))
    }

    fn walk(&self, path: &[u8]) -> std::result::Result<Nodes, Failure> {
        let entry = |entry: Result<WalkEntry>| {
            let WalkEntry { path, metadata, .. } = entry?;
            Ok(node(path, metadata))
        };
        Ok(Box::new(self.snapshot.walk(path)?.map(entry)))
    }

    fn open<'a>(&'a self, node: &'a Node) -> std::result::Result<Box<dyn OpenNode + 'a>, Failure> {
        Ok(Box::new(StoredNode { snapshot: &self.snapshot, path: &node.path }))
    }

    fn read_link(&self, path: &[u8]) -> std::result::Result<Vec<u8>, Failure> {
        Ok(self.snapshot.read_link(path)?)
    }

    fn write(&self, path: &[u8], like: Option<&Node>) -> std::result::Result<Box<dyn Sink>, Failure> {
        Ok(Box::new(self.files.writer_with(path, &attributes(like))?))
    }

    fn mkdir(&self, path: &[u8], like: Option<&Node>) -> std::result::Result<(), Failure> {
        Ok(self.files.mkdir_with(path, &attributes(like))?)
    }

    fn symlink(&self, target: &[u8], path: &[u8], like: &Node) -> std::result::Result<(), Failure> {
        Ok(self.files.replace_symlink(target, path, &attributes(Some(like)))?)
    }

    fn set_xattrs(&self, path: &[u8], xattrs: &Xattrs) -> std::result::Result<(), Failure> {
        set_each_xattr(xattrs, |name, value| self.files.set_xattr(path, name, value, XattrMode::Set))
    }

    fn set_mode(&self, path: &[u8], mode: u32) -> std::result::Result<(), Failure> {
        Ok(self.files.set_attributes(path, &SetAttributes::new().mode(mode))?)
    }

    fn remove(&self, path: &[u8]) -> std::result::Result<(), Failure> {
        match self.files.remove(path) {
            Err(error) if error.kind() == ErrorKind::IsDirectory => Ok(self.files.remove_dir(path)?),
            removed => Ok(removed?),
        }
    }

    fn remove_tree(&self, path: &[u8]) -> std::result::Result<(), Failure> {
        Ok(self.files.remove_tree(path)?)
    }

    /// A tree that is too large for one step is copied, then removed.
    fn rename(&self, from: &[u8], to: &[u8]) -> std::result::Result<(), Failure> {
        match self.files.rename(from, to) {
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                self.files.copy_tree(from, to)?;
                Ok(self.files.remove_tree(from)?)
            }
            renamed => Ok(renamed?),
        }
    }

    fn finish(&self) -> std::result::Result<(), Failure> {
        if !self.db().is_read_only() {
            // Otherwise the content of removed files stays until the next open for writing. An error leaves it there.
            let _ = self.files.reclaim();
            self.files.sync()?;
        }
        Ok(())
    }
}

/// An entry of the snapshot, which does not change.
struct StoredNode<'a> {
    snapshot: &'a Snapshot,
    path: &'a [u8],
}

impl OpenNode for StoredNode<'_> {
    fn xattrs(&self) -> std::result::Result<Xattrs, Failure> {
        let names = self.snapshot.xattrs(self.path)?;
        let pair = |name: Vec<u8>| Ok((name.clone(), self.snapshot.xattr(self.path, name)?));
        Ok(names.into_iter().map(pair).collect::<Result<_>>()?)
    }

    fn read(
        &self,
        take: &mut dyn FnMut(Part<'_>) -> std::result::Result<(), Failure>,
    ) -> std::result::Result<(), Failure> {
        read(self.snapshot, self.path, take)
    }
}

impl Sink for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::result::Result<(), Failure> {
        self.write_all(bytes).map_err(|error| match error.downcast::<Error>() {
            Ok(error) => error.into(),
            Err(error) => Failure::io("the store", error),
        })
    }

    fn skip(&mut self, bytes: u64) -> std::result::Result<(), Failure> {
        Ok(Writer::skip(self, bytes)?)
    }

    fn set_xattrs(&mut self, xattrs: &Xattrs) -> std::result::Result<(), Failure> {
        self.clear_xattrs();
        set_each_xattr(xattrs, |name, value| self.set_xattr(name, value))
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), Failure> {
        Writer::finish(*self)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_interrupted_is_no_mistake_of_the_caller() {
        let interrupted = waxseal::Error::of(waxseal::ErrorKind::Interrupted, "stopped by a signal");
        assert_eq!(Failure::from(Error::from(interrupted)).exit(), Exit::Io);
    }
}
