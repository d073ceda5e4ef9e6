//! File descriptors of a store's table and blob files, bounded in number.
//!
//! In:    the name of an immutable file.
//! Out:   a [`CachedFile`] that reads it. Reading a closed file opens it first, and closes another file if too many are
//!        open.
//! Holds: at most `most` descriptors, plus one for each read in progress. An index or block in memory needs no
//!        descriptor.
//! Locks: the list of open files is locked when a file is opened or dropped, never during I/O and never by reads of
//!        open files.
//! Fails: a missing file is `Corruption` in a store that owns its files. A read-only store beside a writer checks the
//!        manifest first: if the manifest no longer names the file, it was replaced, and the error asks for `refresh`.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwapOption;

use crate::env::work::lock;
use crate::env::{File, Fs, Mapped, Open, is_out_of_descriptors};
use crate::error::{Damage, Error, Result, Verdict};
use crate::names::StoreFileName;

/// Returns whether the manifest currently names a file.
pub type IsNamed = dyn Fn(StoreFileName) -> Result<bool> + Send + Sync;

/// The open table and blob files of one store.
pub struct Descriptors {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    most: usize,
    open: Mutex<DescriptorQueue>,
    /// Set if another process may remove files.
    is_named: Option<Box<IsNamed>>,
}

/// A CLOCK replacement queue: the file at the front is closed, unless it was read since its last turn.
#[derive(Default)]
struct DescriptorQueue {
    count: usize,
    /// Files in the order of their turns. Dropped files leave dead entries.
    queue: VecDeque<Weak<DescriptorSlot>>,
}

/// Holds the descriptor of a file.
#[derive(Default)]
struct DescriptorSlot {
    file: ArcSwapOption<Arc<dyn File>>,
    was_read: AtomicBool,
}

impl Descriptors {
    /// Allows at most `most` open files of a directory, and at least one.
    pub fn bounded(fs: Arc<dyn Fs>, dir: &Path, most: usize) -> Descriptors {
        Descriptors { fs, dir: dir.to_owned(), most: most.max(1), open: Mutex::default(), is_named: None }
    }

    /// As `bounded`, beside a process that may remove files: `is_named` distinguishes replaced files from lost ones.
    pub fn beside_a_writer(self, is_named: Box<IsNamed>) -> Descriptors {
        Descriptors { is_named: Some(is_named), ..self }
    }

    /// Maximum number of open files.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Number of open files.
    pub fn count(&self) -> usize {
        lock(&self.open).count
    }

    /// Opens a file. If the process has no descriptors left, closes half of this store's files and retries once.
    fn open(&self, name: StoreFileName) -> Result<Arc<dyn File>> {
        let path = self.dir.join(name.to_string());
        let mut opened = self.fs.open(&path, Open::Read);
        if opened.as_ref().is_err_and(is_out_of_descriptors) {
            self.close_down_to(self.count() / 2);
            opened = self.fs.open(&path, Open::Read);
        }
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.gone(name)),
            opened => opened.map_err(|error| Error::io(format_args!("opening {name}"), error)),
        }
    }

    /// Returns the error for a missing file.
    #[cold]
    fn gone(&self, name: StoreFileName) -> Error {
        match self.is_named.as_ref().map(|is_named| is_named(name)) {
            Some(Ok(false)) => return Error::outdated(&name.to_string()),
            Some(Err(error)) => return error,
            None | Some(Ok(true)) => {}
        }
        let what = match name {
            StoreFileName::Values(_) => "a value file that a table points into is missing",
            _ => "a table that the manifest names is missing",
        };
        Error::corruption(Damage { file: name.to_string(), verdict: Verdict::Missing, ..Damage::default() }, what)
    }

    /// Counts an opened file, and closes others if too many are open.
    fn opened(&self, slot: &Arc<DescriptorSlot>) {
        let mut open = lock(&self.open);
        open.count += 1;
        if open.queue.len() > 2 * open.count + 16 {
            open.queue.retain(|slot| slot.strong_count() > 0);
        }
        open.queue.push_back(Arc::downgrade(slot));
        let closed = open.take(self.most);
        drop(open);
        drop(closed);
    }

    fn close_down_to(&self, most: usize) {
        let closed = lock(&self.open).take(most);
        drop(closed); // files are closed with no lock held
    }
}

impl DescriptorQueue {
    /// Removes descriptors until at most `most` files are open. Skips a file once if it was read since its last turn.
    fn take(&mut self, most: usize) -> Vec<Arc<Arc<dyn File>>> {
        let (mut taken, mut chances) = (Vec::new(), self.queue.len());
        while self.count > most
            && let Some(first) = self.queue.pop_front()
        {
            let Some(slot) = first.upgrade() else { continue };
            if slot.was_read.swap(false, Ordering::Relaxed) && chances > 0 {
                chances -= 1;
                self.queue.push_back(first);
            } else if let Some(file) = slot.file.swap(None) {
                self.count -= 1;
                taken.push(file);
            }
        }
        taken
    }
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptors({} of {} in {})", self.count(), self.most, self.dir.display())
    }
}

/// A read-only file. It is open while its descriptor is cached; otherwise the next read opens it again.
pub struct CachedFile {
    name: StoreFileName,
    files: Arc<Descriptors>,
    slot: Arc<DescriptorSlot>,
}

impl CachedFile {
    /// Creates a file of this name, not open.
    pub fn new(files: &Arc<Descriptors>, name: StoreFileName) -> CachedFile {
        CachedFile { name, files: Arc::clone(files), slot: Arc::default() }
    }

    /// Opens the file if it is closed. Errors: `Corruption` if it is missing, `Io`.
    pub fn ensure_open(&self) -> Result<()> {
        match self.slot.file.load().is_some() {
            true => Ok(()),
            false => self.open().map(drop),
        }
    }

    /// Returns a descriptor that stays open as long as the caller holds it. Errors: as for `ensure_open`.
    pub fn descriptor(&self) -> Result<Arc<dyn File>> {
        match &*self.slot.file.load() {
            Some(file) => Ok(Arc::clone(&**file)),
            None => self.open().map(|file| Arc::clone(&*file)),
        }
    }

    /// Caches a descriptor that the caller has opened, unless the file is open already.
    pub fn adopt(&self, file: Arc<dyn File>) {
        self.keep(Arc::new(file));
    }

    #[cold]
    fn open(&self) -> Result<Arc<Arc<dyn File>>> {
        self.files.open(self.name).map(|file| self.keep(Arc::new(file)))
    }

    /// Caches a descriptor until its turn to be closed. If two threads open the file at once, the first descriptor is
    /// kept.
    fn keep(&self, file: Arc<Arc<dyn File>>) -> Arc<Arc<dyn File>> {
        self.slot.was_read.store(true, Ordering::Relaxed);
        let none = None::<Arc<Arc<dyn File>>>;
        if let Some(first) = &*self.slot.file.compare_and_swap(&none, Some(Arc::clone(&file))) {
            return Arc::clone(first);
        }
        self.files.opened(&self.slot);
        file
    }

    fn with<R>(&self, act: impl FnOnce(&dyn File) -> io::Result<R>) -> io::Result<R> {
        if let Some(file) = &*self.slot.file.load() {
            if !self.slot.was_read.load(Ordering::Relaxed) {
                self.slot.was_read.store(true, Ordering::Relaxed);
            }
            return act(&***file);
        }
        act(&**self.open()?)
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let mut open = lock(&self.files.open);
        let file = self.slot.file.swap(None);
        open.count -= usize::from(file.is_some());
        drop(open);
        drop(file);
    }
}

impl fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedFile({})", self.name)
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl File for CachedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|file| file.read_at(buf, offset))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file| file.len())
    }

    fn data_end(&self) -> io::Result<u64> {
        self.with(|file| file.data_end())
    }

    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        let _ = self.with(|file| {
            file.advise(offset, length, will_need);
            Ok(())
        });
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        read_only()
    }

    fn sync_data(&self) -> io::Result<()> {
        read_only()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn map(&self, _: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        read_only()
    }
}
