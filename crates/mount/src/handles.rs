//! Open files and directories. Each keeps the snapshot that it was opened at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use waxseal_files::{DirEntry, EntityTag, List, Metadata, Result, Snapshot, SnapshotFile};

/// A table of what is open, by the numbers that the kernel gets.
pub(crate) struct Handles<T> {
    open: Mutex<(u64, HashMap<u64, Arc<T>>)>,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Handles<T> {
        Handles { open: Mutex::new((0, HashMap::new())) }
    }

    pub(crate) fn add(&self, handle: T) -> u64 {
        let (next, open) = &mut *self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        open.insert(*next, Arc::new(handle));
        *next
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<T>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.get(&number).cloned()
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number)
    }
}

/// How the kernel may cache the content of a file that is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caching {
    /// Cached pages hold this content.
    Keep,
    /// Cached pages hold an earlier content, or may do so until an open that is on its way.
    Begin,
    /// Another content of the same inode is open, and uses the cached pages.
    Bypass,
}

/// The contents that the kernel may have pages of, by inode number.
#[derive(Default)]
pub(crate) struct Contents {
    seen: Mutex<HashMap<u64, Seen>>,
}

struct Seen {
    tag: Option<EntityTag>,
    /// Handles that use its pages.
    open: u64,
    /// The kernel has processed an open of this content, and has dropped the pages of the one before.
    is_begun: bool,
}

impl Contents {
    /// Adds a handle, unless it has to bypass the pages.
    pub(crate) fn open(&self, file: &SnapshotFile) -> Caching {
        let metadata = file.metadata();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let content = seen.entry(metadata.inode).or_insert(Seen { tag: None, open: 0, is_begun: false });
        let caching = match (content.tag == metadata.etag(), content.open) {
            (true, _) if content.is_begun => Caching::Keep,
            (true, _) => Caching::Begin,
            (false, 0) => {
                content.is_begun = false;
                Caching::Begin
            }
            (false, _) => return Caching::Bypass,
        };
        content.tag = metadata.etag();
        content.open += 1;
        caching
    }

    /// The kernel reads through a handle that uses pages.
    pub(crate) fn begin(&self, inode: u64) {
        if let Some(content) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&inode) {
            content.is_begun = true;
        }
    }

    /// Returns true if pages of another content of the inode are in use.
    pub(crate) fn is_other_open(&self, metadata: &Metadata) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&metadata.inode).is_some_and(|content| content.open > 0 && content.tag != metadata.etag())
    }

    /// Takes back a handle that uses pages.
    pub(crate) fn close(&self, inode: u64) {
        if let Some(content) = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&inode) {
            content.open = content.open.saturating_sub(1);
            content.is_begun = true;
        }
    }

    /// The kernel has dropped the inode, and with it the pages.
    pub(crate) fn forget(&self, inode: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.get(&inode).is_some_and(|content| content.open == 0) {
            seen.remove(&inode);
        }
    }
}

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) file: SnapshotFile,
    pub(crate) caching: Caching,
}

/// An open directory: its entries in order, at one point in time.
pub(crate) struct OpenDirectory {
    snapshot: Snapshot,
    path: Vec<u8>,
    reader: Mutex<Reader>,
}

struct Reader {
    list: List,
    /// Ordinal of the next entry.
    next: u64,
    /// An entry for which the last answer had no room.
    kept: Option<DirEntry>,
}

impl OpenDirectory {
    pub(crate) fn open(snapshot: Snapshot, path: Vec<u8>) -> Result<OpenDirectory> {
        let list = snapshot.list(&path)?;
        Ok(OpenDirectory { snapshot, path, reader: Mutex::new(Reader { list, next: 0, kept: None }) })
    }

    /// Passes the entries from an ordinal on, until `take` returns false: it has no room for that one. Costs a step for
    /// each entry, and for those before the ordinal unless the last read ended there.
    pub(crate) fn read(&self, from: u64, mut take: impl FnMut(u64, &DirEntry) -> bool) -> Result<()> {
        let reader = &mut *self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if from != reader.next {
            *reader = Reader { list: self.snapshot.list(&self.path)?, next: 0, kept: None };
            while reader.next < from && reader.step().is_some() {}
        }
        while let Some(entry) = reader.step() {
            let entry = entry?;
            if !take(reader.next - 1, &entry) {
                reader.put_back(entry);
                break;
            }
        }
        Ok(())
    }
}

impl Reader {
    fn step(&mut self) -> Option<Result<DirEntry>> {
        let entry = match self.kept.take() {
            Some(entry) => Ok(entry),
            None => self.list.next()?,
        };
        self.next += 1;
        Some(entry)
    }

    fn put_back(&mut self, entry: DirEntry) {
        self.next -= 1;
        self.kept = Some(entry);
    }
}
