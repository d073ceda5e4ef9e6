//! Open files and directories. Directories, and the files of a mount for reading, keep the snapshot that they were
//! opened at. One that is not used for a time gives its snapshot back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use waxseal_files::{DirEntry, EntityTag, File, List, Metadata, Result, Snapshot, SnapshotFile};

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

    fn all(&self) -> Vec<Arc<T>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.values().cloned().collect()
    }
}

/// Everything that is open.
pub(crate) struct OpenHandles {
    pub(crate) files: Handles<OpenFile>,
    pub(crate) directories: Handles<Lease<OpenDirectory>>,
    /// True once the mount ends. Held for reading while a file is opened or changed.
    has_ended: RwLock<bool>,
}

impl OpenHandles {
    pub(crate) fn new() -> OpenHandles {
        OpenHandles { files: Handles::new(), directories: Handles::new(), has_ended: RwLock::new(false) }
    }

    /// Returns a guard under which changes of files are committed before the mount ends. `None` once it ends.
    pub(crate) fn before_end(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let has_ended = self.has_ended.read().unwrap_or_else(PoisonError::into_inner);
        (!*has_ended).then_some(has_ended)
    }

    /// Gives the snapshots back of what was not used since a time.
    pub(crate) fn give_back_idle(&self, since: Instant) {
        self.directories.all().iter().for_each(|directory| directory.give_back(since));
        for file in self.files.all() {
            if let OpenFile::Pinned(pinned) = &*file {
                pinned.lease.give_back(since);
            }
        }
    }

    /// Refuses further changes, and commits those of files that are open. Returns the first error, after trying all.
    pub(crate) fn end(&self) -> Result<()> {
        *self.has_ended.write().unwrap_or_else(PoisonError::into_inner) = true; // changes that run end first
        let mut flushed = Ok(());
        for file in self.files.all() {
            if let OpenFile::Live(file) = &*file {
                flushed = flushed.and(file.flush());
            }
        }
        flushed
    }
}

impl fmt::Debug for OpenHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenHandles({} files, {} directories)", self.files.all().len(), self.directories.all().len())
    }
}

/// A value that holds a snapshot, until it was not used for a time.
pub(crate) struct Lease<T> {
    state: Mutex<LeaseState<T>>,
}

struct LeaseState<T> {
    value: Option<Arc<T>>,
    used: Instant,
}

impl<T> Lease<T> {
    pub(crate) fn new(value: T) -> Lease<T> {
        Lease { state: Mutex::new(LeaseState { value: Some(Arc::new(value)), used: Instant::now() }) }
    }

    /// Returns a lease that has no value yet.
    pub(crate) fn empty() -> Lease<T> {
        Lease { state: Mutex::new(LeaseState { value: None, used: Instant::now() }) }
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used = Instant::now();
        Arc::clone(state.value.insert(Arc::new(value)))
    }

    /// Returns the value. `renew` returns one in place of a value that was given back.
    pub(crate) fn value<E>(&self, renew: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<Arc<T>, E> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used = Instant::now();
        let value = match state.value.take() {
            Some(value) => value,
            None => Arc::new(renew()?),
        };
        Ok(Arc::clone(state.value.insert(value)))
    }

    fn give_back(&self, since: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.used < since {
            state.value = None;
        }
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
    pub(crate) fn open(&self, metadata: &Metadata) -> Caching {
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
pub(crate) enum OpenFile {
    /// Of a mount for writing: the file as it is, with changes that wait in memory.
    Live(File),
    /// Of a mount for reading: the content that it was opened with.
    Pinned(PinnedFile),
}

/// A file of one point in time.
pub(crate) struct PinnedFile {
    pub(crate) lease: Lease<SnapshotFile>,
    pub(crate) metadata: Metadata,
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
