//! The file store: its parts, and how it is opened.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};

use waxseal::env::lock;
use waxseal::registry::Registry;
use waxseal::{Batch, Db, Durability, Session, StoreId};

use crate::entry::{Entry, ROOT_INODE};
use crate::error::{Error, Result};
use crate::events::{Events, Verb};
use crate::families::{Families, check_unused};
use crate::file_state::FileState;
use crate::ids::Ids;
use crate::locks::Namespace;
use crate::metadata::{FileKind, SetAttributes};
use crate::open_files::{OpenFile, OpenFiles};
use crate::path::FilePath;
use crate::reclaim::{Reclaimer, Worker};
use crate::records::{CHUNK_BYTES, ContentId, HEADER_KEY, Header};

/// A directory's times are not written again within this time: the granularity of `ext4`.
const DIRECTORY_TIME_NANOS: i64 = 4_000_000;

/// The format level that has range deletes, which removals of large files and of trees need.
const LEAST_FORMAT_LEVEL: u32 = 2;

/// A directory tree in a store. Clones share it and may be used from any thread.
///
/// Files, directories, symbolic links, fifos and sockets are entries of one column family, ordered by path; the content
/// of files is stored in chunks in a second one, named after it. Both belong to the file store: write to them through it
/// alone. All handles of one process share one state, however often the store is opened.
///
/// A path is bytes: components separated by `/`, relative to the root, which is the empty path. `.` and `..` are
/// refused, and no call follows a symbolic link.
///
/// The operations are those of [`Files`], which a file store dereferences to.
///
/// **Durability.** An operation has the durability of the [`Db`], or that of
/// [`with_durability`](FileStore::with_durability). Every operation is atomic: readers, snapshots and crashes see all of it or nothing.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// use waxseal::Db;
/// use waxseal_files::FileStore;
///
/// let db = Db::memory()?;
/// let fs = FileStore::open(&db, "files")?;
/// fs.mkdir("photos")?;
/// fs.write("photos/cat.jpg", b"...")?;
/// assert_eq!(fs.read("photos/cat.jpg")?, b"...");
/// fs.rename("photos", "pictures")?; // one atomic step, whatever is in it
/// for entry in fs.list("pictures")? {
///     let entry = entry?;
///     println!("{} {}", entry.name.escape_ascii(), entry.metadata.size);
/// }
/// fs.remove_tree("pictures")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileStore {
    files: Files,
}

impl Deref for FileStore {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

/// The operations of a [`FileStore`], in the name of one session and with one durability.
#[derive(Clone)]
pub struct Files {
    pub(crate) shared: Arc<Shared>,
    /// The families in the name of the session.
    pub(crate) families: Families,
    registry: Registry,
    durability: Durability,
}

/// The state of a file store that all its handles share.
pub(crate) struct Shared {
    /// Before `families`, so that the worker ends before the store may close.
    _worker: Worker,
    key: (StoreId, String),
    pub(crate) chunk_bytes: u32,
    pub(crate) ids: Ids,
    pub(crate) namespace: Namespace,
    pub(crate) open_files: OpenFiles,
    pub(crate) reclaimer: Arc<Reclaimer>,
    events: Events,
    families: Families,
}

/// File stores by their store and name.
type OpenStores = HashMap<(StoreId, String), Weak<Shared>>;

/// The file stores of this process. A store's entry is removed with its last handle.
static OPEN: Mutex<Option<OpenStores>> = Mutex::new(None);

/// Options of a file store that is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct FileStoreOptions {
    chunk_bytes: u32,
}

impl Default for FileStoreOptions {
    fn default() -> FileStoreOptions {
        FileStoreOptions::new()
    }
}

impl FileStoreOptions {
    /// Returns the defaults.
    pub const fn new() -> FileStoreOptions {
        FileStoreOptions { chunk_bytes: 256 * 1024 }
    }

    /// Sets the chunk size of new files in bytes, 4 KiB to 5,000,000. Default 256 KiB. Stored when the file store is
    /// created; an existing one keeps its own.
    pub const fn chunk_bytes(mut self, bytes: u32) -> FileStoreOptions {
        self.chunk_bytes = bytes;
        self
    }

    /// Opens a file store, or creates it with these options: see [`FileStore::open`]. Errors: also `Invalid` for a chunk
    /// size that is not permitted.
    pub fn open(self, db: &Db, name: &str) -> Result<FileStore> {
        if !CHUNK_BYTES.contains(&self.chunk_bytes) {
            let (least, most) = (CHUNK_BYTES.start(), CHUNK_BYTES.end());
            return Err(Error::invalid(format!("a chunk has {least} to {most} bytes, not {}", self.chunk_bytes)));
        }
        if !db.is_read_only() && db.format_level() < LEAST_FORMAT_LEVEL {
            return Err(Error::invalid(format!(
                "files need a store of format level {LEAST_FORMAT_LEVEL}, and this one has {}: upgrade({LEAST_FORMAT_LEVEL}) raises it",
                db.format_level()
            )));
        }
        let key = (db.store(), name.to_owned());
        let mut open = lock(&OPEN);
        let open = open.get_or_insert_default();
        let shared = match open.get(&key).and_then(Weak::upgrade) {
            Some(shared) => shared,
            None => {
                let shared = Arc::new(Shared::open(db, key.clone(), self)?);
                open.insert(key, Arc::downgrade(&shared));
                shared
            }
        };
        let families = shared.families.clone();
        let durability = db.batch().durability();
        Ok(FileStore { files: Files { families, shared, registry: db.registry(), durability } })
    }
}

impl FileStore {
    /// Opens the file store in the families `name` and `name-chunks`, or creates it with the default
    /// [options](FileStoreOptions).
    ///
    /// Errors: `Invalid` if a family of this name holds other records, if there is none and the store was opened for
    /// reading, or if the store's [format level](Db::upgrade) is 1, which has no range deletes; `Corruption` if the header
    /// is damaged, or if one of the families is missing or empty and the other is that of a file store. Costs a scan of
    /// the reclaim records, which are few, whatever the number of files.
    pub fn open(db: &Db, name: &str) -> Result<FileStore> {
        FileStoreOptions::new().open(db, name)
    }

    /// Returns a handle whose operations have this durability.
    ///
    /// With [`Durability::Sync`] an operation returns when it is durable; concurrent operations share a sync.
    pub fn with_durability(&self, durability: Durability) -> FileStore {
        FileStore { files: Files { durability, ..self.files.clone() } }
    }

    /// Returns a handle that writes in the name of a session: with every registered event, and in the records. Errors:
    /// `Invalid` if a family of the files was dropped.
    pub fn in_session(&self, session: &Session) -> Result<FileStore> {
        let families = self.families.in_session(session)?;
        let registry = Registry::clone(session);
        Ok(FileStore { files: Files { families, registry, ..self.files.clone() } })
    }
}

impl Files {
    /// Returns the name of the family of entries.
    pub fn name(&self) -> &str {
        self.families.entries.name()
    }

    /// Returns the store that the files are in.
    pub fn db(&self) -> &Db {
        &self.families.db
    }

    /// Returns the chunk size of new files, in bytes.
    pub fn chunk_bytes(&self) -> u32 {
        self.shared.chunk_bytes
    }

    /// Makes every finished operation durable.
    pub fn sync(&self) -> Result<()> {
        Ok(self.families.db.sync()?)
    }

    /// Deletes the content that removed and replaced files have left, except what handles have open. Returns the number
    /// of contents that it deleted. A thread does this on its own, unless the store runs without threads; this call waits
    /// for the batch that the thread deletes.
    pub fn reclaim(&self) -> Result<usize> {
        let mut count = 0;
        loop {
            match self.shared.reclaimer.step(&self.families)? {
                0 => {
                    self.shared.reclaimer.wait_for_batches();
                    return Ok(count);
                }
                deleted => count += deleted,
            }
        }
    }

    /// Returns the number of contents that wait to be deleted, those that handles have open included.
    pub fn waiting_to_reclaim(&self) -> usize {
        self.shared.reclaimer.waiting()
    }

    /// Returns the time, in nanoseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.families.db.env().clock.wall_micros()).unwrap_or(i64::MAX).saturating_mul(1000)
    }

    /// Creates an entry with the next inode number.
    pub(crate) fn new_entry(&self, kind: FileKind, attributes: &SetAttributes) -> Result<Entry> {
        attributes.check()?;
        Ok(Entry::new(kind, self.shared.ids.next(&self.families)?, self.now(), attributes))
    }

    /// Fails if the store cannot be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        Ok(self.families.db.check_writable()?)
    }

    /// Makes an operation durable if the handle asks for it. The caller holds no lock.
    pub(crate) fn settle(&self) -> Result<()> {
        match self.durability {
            Durability::Sync => self.sync(),
            Durability::Os | Durability::Buffered => Ok(()),
        }
    }

    /// Logs an event of an operation that was committed. The caller holds no lock.
    pub(crate) fn log(&self, verb: Verb, path: &FilePath, text: impl FnOnce() -> String) -> Result<()> {
        self.shared.events.log(&self.registry, self.name(), verb, path, text)
    }

    /// Adds the times of a directory whose entries change to a batch. The caller holds the directory's lock.
    pub(crate) fn touch_directory(&self, batch: &mut Batch, path: &FilePath, directory: Entry, now: i64) {
        if let Some(touched) = touched(directory, now) {
            self.families.put_entry(batch, path, &touched);
        }
    }

    /// Commits the changes of an open file. Takes the lock of its directory.
    pub(crate) fn flush_file(&self, file: &OpenFile) -> Result<()> {
        self.flush_file_if(file, |_| true).map(drop)
    }

    /// Commits the changes of an open file if a condition holds, which is decided under the lock of the state: nothing
    /// is committed that was written after the decision. Returns whether it holds. Takes the lock of its directory.
    pub(crate) fn flush_file_if(&self, file: &OpenFile, is_due: impl Fn(&FileState) -> bool) -> Result<bool> {
        loop {
            let path = file.read().path.clone();
            let parent = path.as_ref().map(|path| path.parent().unwrap_or(FilePath::ROOT));
            let _locked = self.shared.namespace.lock(&parent);
            let mut state = file.write();
            if state.path != path {
                continue; // renamed or removed meanwhile
            }
            if !is_due(&state) {
                return Ok(false);
            }
            if !state.is_changed() {
                if state.changed_bytes() > 0 {
                    state.discard(); // chunks that a failed write has loaded
                    file.account(&state);
                }
                return Ok(true);
            }
            let committed = self.commit_changes(file, &mut state);
            committed.map_err(|error| path.iter().fold(error, |error, path| error.at(path.display())))?;
            break;
        }
        let path = file.read().path.clone();
        path.map_or(Ok(()), |path| self.log(Verb::Write, &path, || shown(&path)))?;
        Ok(true)
    }

    /// Commits the changes of an open file. The caller holds the lock of its directory.
    pub(crate) fn commit_changes(&self, file: &OpenFile, state: &mut FileState) -> Result<()> {
        let mut batch = self.families.batch();
        let flush = state.flush_into(&self.families, &self.shared.ids, &mut batch)?;
        let pin = self.pin_of(&flush.entry);
        self.families.commit(batch)?;
        self.shared.reclaimer.add(flush.replaced.into_iter().chain(flush.orphaned));
        state.flushed(flush.entry, pin);
        file.account(state);
        Ok(())
    }

    /// Pins the content of an entry. The caller holds a lock under which the entry cannot change.
    pub(crate) fn pin_of(&self, entry: &Entry) -> Option<crate::reclaim::Pin> {
        entry.stored_content().map(|(content, _)| self.shared.reclaimer.pin(content))
    }

    /// Adds the reclaim record of an entry's content to a batch, before the entry goes. Returns what the reclaimer gets
    /// after the commit.
    pub(crate) fn release(&self, batch: &mut Batch, entry: &Entry) -> Option<(ContentId, u32)> {
        let (content, mut chunks) = entry.stored_content()?;
        if self.shared.open_files.find(entry.metadata.inode).is_some() {
            chunks = u32::MAX; // its handles may add chunks
        }
        let value = crate::records::reclaim_value(chunks);
        batch.put(&self.families.chunks, crate::records::reclaim_key(content), value);
        Some((content, chunks))
    }
}

/// Returns a directory with new times; `None` if its times are fresh.
fn touched(mut directory: Entry, now: i64) -> Option<Entry> {
    let age = now.saturating_sub(directory.metadata.mtime);
    if (0..DIRECTORY_TIME_NANOS).contains(&age) {
        return None;
    }
    (directory.metadata.mtime, directory.metadata.ctime) = (now, now);
    Some(directory)
}

pub(crate) fn stale() -> Error {
    Error::of(crate::error::ErrorKind::Stale, "the entry is not known, or no longer at its path: look it up again")
}

/// Returns a path as text for events.
pub(crate) fn shown(path: &FilePath) -> String {
    path.display().escape_ascii().to_string()
}

impl Shared {
    fn open(db: &Db, key: (StoreId, String), options: FileStoreOptions) -> Result<Shared> {
        let families = Families::open(db, &key.1)?;
        let header = match families.chunks.get_with(HEADER_KEY, Header::decode)? {
            Some(header) => header?,
            None => create(&families, options)?,
        };
        let reclaimer = Reclaimer::load(&families)?;
        Ok(Shared {
            _worker: Worker::start(&families, &reclaimer),
            key,
            chunk_bytes: header.chunk_bytes,
            ids: Ids::new(),
            namespace: Namespace::new(),
            open_files: OpenFiles::default(),
            reclaimer,
            events: Events::define(db),
            families,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(open) = lock(&OPEN).as_mut()
            && open.get(&self.key).is_some_and(|shared| shared.strong_count() == 0)
        {
            open.remove(&self.key);
        }
    }
}

/// Creates header and root of a file store in empty families.
fn create(families: &Families, options: FileStoreOptions) -> Result<Header> {
    [&families.entries, &families.chunks]
        .into_iter()
        .try_for_each(|found| check_unused(found, families.entries.name()))?;
    let header = Header { chunk_bytes: options.chunk_bytes };
    let now = i64::try_from(families.db.env().clock.wall_micros()).unwrap_or(i64::MAX).saturating_mul(1000);
    let root = Entry::new(FileKind::Directory, ROOT_INODE, now, &SetAttributes::new());
    let mut batch = families.batch();
    batch.put(&families.chunks, HEADER_KEY, header.encode());
    families.put_entry(&mut batch, &FilePath::ROOT, &root);
    families.commit(batch)?;
    Ok(header)
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileStore({:?})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_fresh_times() {
        let directory = || Entry::new(FileKind::Directory, 1, 1_000_000_000, &SetAttributes::new());
        assert!(touched(directory(), 1_000_000_000 + DIRECTORY_TIME_NANOS - 1).is_none());
        for now in [1_000_000_000 + DIRECTORY_TIME_NANOS, 999_999_999] {
            let touched = touched(directory(), now).unwrap().metadata;
            assert_eq!((touched.mtime, touched.ctime), (now, now));
        }
    }
}
