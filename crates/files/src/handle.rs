//! Handles of open files.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry::{Entry, not_a_file};
use crate::error::{Error, ErrorKind, Result};
use crate::file_state::FileState;
use crate::metadata::{FileKind, Metadata, SetAttributes};
use crate::namespace::node_body;
use crate::open_files::OpenFile;
use crate::path::FilePath;
use crate::place::Place;
use crate::snapshot::SnapshotFile;
use crate::store::{Files, stale};

/// How a file is opened.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// use waxseal_files::OpenOptions;
///
/// let log = fs.open_with("log", &OpenOptions::new().create(true).append(true))?;
/// log.append(b"one line\n")?;
/// log.close()?; // commits what waits in memory
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    attributes: SetAttributes,
}

impl OpenOptions {
    /// Allows nothing yet.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Allows reads.
    pub fn read(mut self, read: bool) -> OpenOptions {
        self.read = read;
        self
    }

    /// Allows writes.
    pub fn write(mut self, write: bool) -> OpenOptions {
        self.write = write;
        self
    }

    /// Allows writes, all at the end of the file.
    pub fn append(mut self, append: bool) -> OpenOptions {
        self.append = append;
        self
    }

    /// Removes the content of an existing file.
    pub fn truncate(mut self, truncate: bool) -> OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self
    }

    /// Creates the file, and fails with `Exists` if it exists.
    pub fn create_new(mut self, create_new: bool) -> OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Sets the attributes of a file that is created.
    pub fn attributes(mut self, attributes: SetAttributes) -> OpenOptions {
        self.attributes = attributes;
        self
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.write || self.append
    }
}

/// An open file. May be used from any thread; all handles of one file see one content.
///
/// Writes change the file in place. They wait in memory, 64 MiB for all files of the store, until [`flush`](File::flush),
/// [`sync`](File::sync) or [`close`](File::close) commits them in one atomic step. Readers without a handle and
/// snapshots see the last commit. If memory is full, a write commits the file that has changed most.
///
/// In a store that is open for reading only, a handle reads the commit that it was opened at, whatever
/// [`Db::refresh`](waxseal::Db::refresh) shows.
///
/// A handle keeps its file when the path is removed, replaced or renamed. Dropping it flushes and ignores an error: call
/// `close` to learn of it.
///
/// ```
/// # fn main() -> waxseal_files::Result<()> {
/// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
/// fs.write("data", "0123456789")?;
/// let file = fs.open_with("data", &waxseal_files::OpenOptions::new().read(true).write(true))?;
/// file.write_at(b"ab", 4)?;
/// let mut buffer = [0; 4];
/// assert_eq!(file.read_at(&mut buffer, 3)?, 4);
/// assert_eq!(&buffer, b"3ab6");
/// assert_eq!(fs.read("data")?, b"0123456789"); // the last commit
/// file.flush()?;
/// assert_eq!(fs.read("data")?, b"0123ab6789");
/// # Ok(())
/// # }
/// ```
pub struct File {
    fs: Files,
    file: Arc<OpenFile>,
    options: OpenOptions,
    /// The generation of the file that the handle changed last; 0 before its first change.
    changed: AtomicU64,
    is_closed: bool,
}

impl Files {
    /// Opens a file for reading. Errors: as for `read`.
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<File> {
        self.open_with(path, &OpenOptions::new().read(true))
    }

    /// Opens a file. Errors: as for `read`; `Exists`; `Invalid` for options that allow nothing, or that create or
    /// truncate without allowing writes.
    pub fn open_with(&self, path: impl AsRef<[u8]>, options: &OpenOptions) -> Result<File> {
        self.open_at(&Place::parse(path.as_ref())?, options)
    }

    /// `open_with` of a place.
    pub(crate) fn open_at(&self, place: &Place, options: &OpenOptions) -> Result<File> {
        self.check_options(options)?;
        let OpenOptions { create, create_new, attributes, .. } = options;
        if *create_new {
            // Opened under the lock under which it was created: another thread may remove it at once.
            let entry = self.new_entry(FileKind::File, attributes)?;
            return self.create_entry(place, entry, |entry| self.open_entry(&place.path, entry, options));
        }
        loop {
            match self.open_existing(place, options) {
                Err(error) if *create && error.kind() == ErrorKind::NotFound => {
                    match self.create(place, FileKind::File, attributes, node_body(FileKind::File)?) {
                        Err(error) if error.kind() == ErrorKind::Exists => {} // created meanwhile
                        created => drop(created?),
                    }
                }
                opened => return truncated(opened?),
            }
        }
    }

    /// Opens a file by its inode number: one that has handles, also without a path, or the one at `path`. The options
    /// create nothing. Errors: as for `open_with`; `Stale` if another entry is at the path.
    pub(crate) fn open_inode(&self, inode: u64, path: Option<&FilePath>, options: &OpenOptions) -> Result<File> {
        self.check_options(options)?;
        if let Some(file) = self.shared.open_files.open_again(inode, options.is_writing()) {
            return truncated(self.handle(file, options));
        }
        let Some(path) = path else { return Err(stale()) };
        let file = self.open_existing(&Place::of(path.clone()), options)?;
        match file.inode() == inode {
            true => truncated(file),
            false => Err(stale().at(path.display())),
        }
    }

    fn check_options(&self, options: &OpenOptions) -> Result<()> {
        let OpenOptions { read, truncate, create, create_new, .. } = *options;
        if !read && !options.is_writing() || (truncate || create || create_new) && !options.is_writing() {
            return Err(Error::invalid("open a file for reading or writing; create and truncate need writing"));
        }
        if options.is_writing() { self.check_writable() } else { Ok(()) }
    }

    fn open_existing(&self, place: &Place, options: &OpenOptions) -> Result<File> {
        let path = &place.path;
        if self.families.db.is_read_only() {
            let snapshot = self.snapshot();
            place.check(snapshot.view())?;
            let SnapshotFile { snapshot, path, entry } = snapshot.open_path(path)?;
            let (inode, chunk_bytes) = (entry.metadata.inode, self.shared.chunk_bytes);
            let state = FileState::in_snapshot(path, entry, snapshot.at, chunk_bytes);
            return Ok(self.handle(OpenFile::detached(inode, state), options));
        }
        let _locked = self.shared.namespace.lock_for_reading(path);
        let view = self.families.latest();
        place.check(view)?;
        let entry = view.entry(path)?;
        if entry.metadata.kind != FileKind::File {
            return Err(not_a_file(entry.metadata.kind).at(path.display()));
        }
        Ok(self.open_entry(path, entry, options))
    }

    /// Opens an entry, which is a file. The caller holds the lock of its directory.
    fn open_entry(&self, path: &FilePath, entry: Entry, options: &OpenOptions) -> File {
        let file = self.shared.open_files.open(entry, options.is_writing(), |entry| {
            let pin = self.pin_of(&entry);
            FileState::new(path.clone(), entry, pin, self.shared.chunk_bytes)
        });
        self.handle(file, options)
    }

    fn handle(&self, file: Arc<OpenFile>, options: &OpenOptions) -> File {
        File { fs: self.clone(), file, options: *options, changed: AtomicU64::new(0), is_closed: false }
    }

    /// Appends to a file, which is created if it does not exist, and commits. Errors: as for `open`.
    pub fn append(&self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let file = self.open_with(path, &OpenOptions::new().append(true).create(true))?;
        file.append(bytes.as_ref())?;
        file.close()
    }

    /// Sets the length of a file, and commits. A longer file ends in zeros. Errors: as for `open`; `TooLarge`.
    pub fn truncate(&self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let file = self.open_with(path, &OpenOptions::new().write(true))?;
        file.set_len(size)?;
        file.close()
    }
}

/// Removes the content of a file that was opened to be truncated.
fn truncated(file: File) -> Result<File> {
    if file.options.truncate {
        file.set_len(0)?;
    }
    Ok(file)
}

impl File {
    /// Returns the inode number.
    pub fn inode(&self) -> u64 {
        self.file.inode()
    }

    /// Returns the attributes, with changes that wait in memory. The digest is that of the last commit;
    /// [`has_changes`](Metadata::has_changes) tells whether it is that of this content.
    pub fn metadata(&self) -> Metadata {
        self.file.read().metadata()
    }

    /// Returns the path, which follows renames; `None` once the file was removed or replaced.
    pub fn path(&self) -> Option<Vec<u8>> {
        self.file.read().path.as_ref().map(FilePath::display)
    }

    /// Reads from a position. Returns the number of bytes, which is short at the end of the file only.
    ///
    /// Errors: `BadHandle` if the handle is not for reading; `Corruption` if a byte is damaged or missing, and `out`
    /// holds nothing to rely on then.
    pub fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        self.allow(self.options.read, "reading")?;
        let state = self.file.read();
        state.read_at(&self.fs.families, offset, out).map_err(|error| self.of_file(error, &state))
    }

    /// Returns the first position from `offset` on that is in a hole, where the file has no chunk; its end counts as one.
    /// `None` from the end on (`SEEK_HOLE`).
    pub fn next_hole(&self, offset: u64) -> Option<u64> {
        self.file.read().next_hole(offset)
    }

    /// Returns the first position from `offset` on that is in no hole. `None` if nothing but holes follow (`SEEK_DATA`).
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        self.file.read().next_data(offset)
    }

    /// Writes at a position, or at the end if the handle appends. Bytes between the end and the position become zeros.
    ///
    /// Errors: `BadHandle` if the handle is not for writing; `TooLarge`; `Corruption` if a chunk that changes is
    /// damaged; those of `flush` if memory is full and cannot be freed. Nothing is written then.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let position = if self.options.append { None } else { Some(offset) };
        self.write_by(bytes, position).map(drop)
    }

    /// Writes at the end. Returns the position. Errors: as for `write_at`.
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        self.write_by(bytes, None)
    }

    fn write_by(&self, bytes: &[u8], position: Option<u64>) -> Result<u64> {
        self.allow(self.options.is_writing(), "writing")?;
        if self.fs.shared.open_files.is_full() {
            self.relieve()?;
        }
        let now = self.fs.now();
        let (position, is_full) = {
            let mut state = self.file.write();
            let position = position.unwrap_or(state.size());
            self.note_change(&state); // a failed write may have changed something, too
            let written = state.write_at(&self.fs.families, position, bytes, now);
            let is_full = self.file.account(&state);
            written.map_err(|error| self.of_file(error, &state))?;
            (position, is_full)
        };
        if is_full {
            let _ = self.relieve(); // the write is done; the next one gets the error
        }
        Ok(position)
    }

    /// Commits the file that has changed most. If another one cannot be committed, its own handles get the error, and
    /// this file is committed instead.
    fn relieve(&self) -> Result<()> {
        let most = self.fs.shared.open_files.most_changed();
        let other = most.filter(|file| !Arc::ptr_eq(file, &self.file));
        match other.is_some_and(|file| self.fs.flush_file(&file).is_ok()) {
            true => Ok(()),
            false => self.fs.flush_file(&self.file),
        }
    }

    /// Sets the length. A longer file ends in zeros, in a hole as far as chunks go. Errors: as for `write_at`.
    ///
    /// A shorter file costs a read of the chunks that are cut off or of those that stay, whichever are fewer, unless
    /// the length is 0.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.change(|state, now| state.set_len(&self.fs.families, size, now).map(|()| true))
    }

    /// Makes the bytes of a range zeros, and keeps the length: a range beyond the end changes nothing. Chunks that the
    /// range covers become a hole, whose space the next commit gives back.
    ///
    /// Costs a read of the chunks that are covered or of all others, whichever are fewer, and memory for the chunks at the
    /// ends of the range. Holes cost nothing, however long they are. Errors: as for `write_at`.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// fs.write("disk", vec![1; 4 << 20])?;
    /// let disk = fs.open_with("disk", &waxseal_files::OpenOptions::new().read(true).write(true))?;
    /// disk.punch_hole(1 << 20..3 << 20)?;
    /// assert_eq!(disk.next_hole(0), Some(1 << 20));
    /// assert_eq!(disk.next_data(1 << 20), Some(3 << 20));
    /// disk.close()?;
    /// assert_eq!(fs.stat("disk")?.allocated, 2 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        self.zero(range, 0)
    }

    /// Makes the bytes of a range zeros as [`punch_hole`](File::punch_hole) does, in a file that is as long as the range
    /// needs. Errors: as for `write_at`.
    pub fn zero_range(&self, range: Range<u64>) -> Result<()> {
        let len = if range.is_empty() { 0 } else { range.end };
        self.zero(range, len)
    }

    /// Sets the length if the file is shorter. The new bytes are zeros, in a hole as far as chunks go: no space is
    /// reserved. Errors: as for `write_at`.
    pub fn extend_to(&self, size: u64) -> Result<()> {
        self.zero(0..0, size)
    }

    fn zero(&self, range: Range<u64>, len: u64) -> Result<()> {
        self.change(|state, now| state.zero(&self.fs.families, range, len, now))
    }

    /// Changes the file in memory. `change` returns whether it has changed something.
    fn change(&self, change: impl FnOnce(&mut FileState, i64) -> Result<bool>) -> Result<()> {
        self.allow(self.options.is_writing(), "writing")?;
        let now = self.fs.now();
        let mut state = self.file.write();
        let changed = change(&mut state, now);
        self.file.account(&state);
        if !matches!(changed, Ok(false)) {
            self.note_change(&state);
        }
        changed.map(drop).map_err(|error| self.of_file(error, &state))
    }

    /// Commits all changes of the file in one step, with size, times and digest. Changes of other handles are among
    /// them.
    pub fn flush(&self) -> Result<()> {
        self.fs.flush_file(&self.file)?;
        self.fs.settle()
    }

    /// Commits what [`close`](File::close) commits, and keeps the handle: all changes of the file, as `flush` does, if
    /// changes of this handle are among them or if no other handle may write the file. Otherwise nothing, since the
    /// changes of other handles may be incomplete. Commits nothing of a removed file.
    pub fn flush_own(&self) -> Result<()> {
        if !self.options.is_writing() {
            return Ok(());
        }
        let own = usize::from(!self.is_closed);
        let is_due =
            |state: &FileState| state.path.is_some() && (self.has_changes_in(state) || self.file.writers() == own);
        match self.fs.flush_file_if(&self.file, is_due)? {
            true => self.fs.settle(),
            false => Ok(()),
        }
    }

    fn note_change(&self, state: &FileState) {
        self.changed.store(state.generation(), Ordering::Relaxed);
    }

    /// Returns true if changes of this handle wait in a state, which the caller has locked.
    fn has_changes_in(&self, state: &FileState) -> bool {
        self.changed.load(Ordering::Relaxed) == state.generation()
    }

    /// Commits all changes as `flush` does, and makes them durable.
    pub fn sync(&self) -> Result<()> {
        self.fs.flush_file(&self.file)?;
        self.fs.sync()
    }

    /// Gives the handle back. Flushes before if changes of the handle wait, or if no other handle may write the file
    /// ([`flush_own`](File::flush_own)).
    pub fn close(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        if self.options.is_writing() {
            self.file.end_writing(); // before the flush: of handles that are closed at once, the last one is the last writer
        }
        let flushed = self.flush_own();
        self.fs.shared.open_files.close(&self.file);
        flushed
    }

    fn allow(&self, is_allowed: bool, purpose: &str) -> Result<()> {
        match is_allowed {
            true => Ok(()),
            false => Err(Error::of(ErrorKind::BadHandle, format!("the file was not opened for {purpose}"))),
        }
    }

    fn of_file(&self, error: Error, state: &FileState) -> Error {
        match &state.path {
            Some(path) => error.at(path.display()),
            None => error,
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = self.give_back();
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.inode())
    }
}
