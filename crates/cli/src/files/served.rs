//! The tree of a store that another process serves: changes go through that process's socket, reads beside it.

use std::cell::Cell;

use waxseal_files::FileStore;
use waxseal_http::{Attributes, Client, Error, Upload};

use super::stored::StoredTree;
use super::tree::{Node, Nodes, OpenNode, Sink, Tree, Xattrs};
use crate::failure::{Exit, Failure};

pub(super) struct ServedTree {
    /// The store, opened for reading.
    files: FileStore,
    read: StoredTree,
    url: String,
    client: Client,
    /// There are changes that `read` has not seen yet.
    is_changed: Cell<bool>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match &error {
            Error::Io(_) => Exit::Io,
            Error::Refused { is_corruption: true, .. } => Exit::Corruption,
            Error::Refused { posix_name, .. } => match posix_name.as_str() {
                "ENOENT" => Exit::NotFound,
                "ECANCELED" => Exit::CheckFailed,
                "EIO" | "ENOSPC" | "ESTALE" | "EROFS" | "EINTR" => Exit::Io,
                _ => Exit::Usage,
            },
        };
        Failure::new(exit, error.to_string())
    }
}

fn attributes(like: Option<&Node>) -> Attributes {
    match like {
        Some(node) => Attributes { mode: Some(node.mode), owner: Some((node.uid, node.gid)), mtime: Some(node.mtime) },
        None => Attributes::default(),
    }
}

fn refused(message: Option<String>) -> Result<(), Failure> {
    message.map_or(Ok(()), |message| Err(Failure::usage(format!("extended attributes {message}"))))
}

impl ServedTree {
    pub(super) fn new(files: FileStore, url: String, client: Client) -> ServedTree {
        let read = StoredTree::new(files.clone(), url.clone());
        ServedTree { files, read, url, client, is_changed: Cell::new(false) }
    }

    /// Returns the process that serves the store, before a change.
    fn change(&self) -> &Client {
        self.is_changed.set(true);
        &self.client
    }
}

impl Tree for ServedTree {
    fn store(&self) -> Option<&FileStore> {
        Some(&self.files)
    }

    fn beside(&self) -> Option<Box<dyn Tree>> {
        Some(Box::new(ServedTree::new(self.files.clone(), self.url.clone(), self.client.clone())))
    }

    fn show(&self, path: &[u8]) -> String {
        self.read.show(path)
    }

    fn stat(&self, path: &[u8]) -> Result<Node, Failure> {
        if self.is_changed.take() {
            self.files.db().refresh()?;
        }
        self.read.stat(path)
    }

    fn list(&self, path: &[u8]) -> Result<Nodes, Failure> {
        self.read.list(path)
    }

    fn walk(&self, path: &[u8]) -> Result<Nodes, Failure> {
        self.read.walk(path)
    }

    fn open<'a>(&'a self, node: &'a Node) -> Result<Box<dyn OpenNode + 'a>, Failure> {
        self.read.open(node)
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Failure> {
        self.read.read_link(path)
    }

    fn write(&self, path: &[u8], like: Option<&Node>) -> Result<Box<dyn Sink>, Failure> {
        Ok(Box::new(self.change().upload(path, &attributes(like))?))
    }

    fn mkdir(&self, path: &[u8], like: Option<&Node>) -> Result<(), Failure> {
        Ok(self.change().make_directory(path, &attributes(like))?)
    }

    fn symlink(&self, target: &[u8], path: &[u8], like: &Node) -> Result<(), Failure> {
        Ok(self.change().replace_link(target, path, &attributes(Some(like)))?)
    }

    fn set_xattrs(&self, path: &[u8], xattrs: &Xattrs) -> Result<(), Failure> {
        match xattrs.is_empty() {
            true => Ok(()),
            false => refused(self.change().set_attributes(path, &Attributes::default(), xattrs)?),
        }
    }

    fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), Failure> {
        let attributes = Attributes { mode: Some(mode), ..Attributes::default() };
        self.change().set_attributes(path, &attributes, &[])?;
        Ok(())
    }

    fn remove(&self, path: &[u8]) -> Result<(), Failure> {
        Ok(self.change().remove(path)?)
    }

    fn remove_tree(&self, path: &[u8]) -> Result<(), Failure> {
        Ok(self.change().remove_tree(path)?)
    }

    /// A tree that is too large for one step is copied, then removed.
    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        match self.change().rename(from, to) {
            Err(Error::Refused { posix_name, .. }) if posix_name == "EFBIG" => {
                self.client.copy(from, to)?;
                Ok(self.client.remove_tree(from)?)
            }
            renamed => Ok(renamed?),
        }
    }

    fn finish(&self) -> Result<(), Failure> {
        Ok(self.client.sync()?)
    }
}

impl Sink for Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(Upload::write(self, bytes)?)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Failure> {
        Ok(Upload::skip(self, bytes)?)
    }

    /// Those that the store refuses are named when the file is finished.
    fn set_xattrs(&mut self, xattrs: &Xattrs) -> Result<(), Failure> {
        Ok(xattrs.iter().try_for_each(|(name, value)| self.set_xattr(name, value))?)
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        refused(Upload::finish(*self)?)
    }
}
