//! The check that an open store is still the one in its directory: `LOCK` is the file that the store locked, and the
//! pinned file (`CURRENT`) has the contents that the store wrote.
//!
//! Another process that found no `LOCK` may have opened the store, and a `CURRENT` copied from a backup names another
//! manifest: an edit or a commit made after that would be in no store. Both are checked together, before each edit and
//! before a sync or a close returns. The pinned file is read only if its stamp has changed, so a check costs two
//! `fstatat`.

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use super::work::lock;
use super::{File, FileStamp, read_exact};

/// The cause of a halt after another process changed the directory of an open store.
#[derive(Debug)]
pub(crate) enum PlaceLost {
    Lock,
    Current,
}

impl fmt::Display for PlaceLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlaceLost::Lock => {
                "LOCK was removed or replaced, or the store's directory was removed, while the store was open: another \
                 process may have opened the store, so nothing more is written"
            }
            PlaceLost::Current => {
                "CURRENT was removed or replaced while the store was open: another process changed the open store, so \
                 nothing more is written"
            }
        })
    }
}

impl std::error::Error for PlaceLost {}

impl From<PlaceLost> for io::Error {
    fn from(lost: PlaceLost) -> io::Error {
        io::Error::other(lost)
    }
}

/// A file that must keep its contents.
#[derive(Debug)]
pub(super) struct Pinned {
    name: String,
    /// The possible contents: the old and the new ones while the file is being replaced.
    contents: Vec<Vec<u8>>,
    /// The stamp that the file had before its contents were last compared.
    seen: Mutex<Option<FileStamp>>,
}

impl Pinned {
    pub(super) fn new(name: &str, contents: Vec<Vec<u8>>) -> Arc<Pinned> {
        Arc::new(Pinned { name: name.to_owned(), contents, seen: Mutex::default() })
    }

    /// Returns these contents and `more`.
    pub(super) fn or(&self, more: &[u8]) -> Arc<Pinned> {
        Pinned::new(&self.name, self.contents.iter().cloned().chain([more.to_vec()]).collect())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if this file has the name.
    pub(super) fn is_of(&self, name: &str) -> bool {
        self.name == name
    }

    /// Returns true if the file, with this stamp now, has the expected contents. No lock is held during the I/O.
    pub(super) fn is_in_place(
        &self,
        stamp: io::Result<Option<FileStamp>>,
        open: impl FnOnce() -> io::Result<Arc<dyn File>>,
    ) -> io::Result<bool> {
        let stamp = match stamp {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            stamp => stamp?,
        };
        if stamp.is_some() && *lock(&self.seen) == stamp {
            return Ok(true);
        }
        let found = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => self.has_contents(&*opened?)?,
        };
        if found {
            *lock(&self.seen) = stamp;
        }
        Ok(found)
    }

    fn has_contents(&self, file: &dyn File) -> io::Result<bool> {
        let length = file.len()?;
        if self.contents.iter().all(|contents| contents.len() as u64 != length) {
            return Ok(false);
        }
        match read_exact(file, 0, length as usize) {
            Ok(bytes) => Ok(self.contents.contains(&bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false), // it was cut meanwhile
            Err(error) => Err(error),
        }
    }
}
