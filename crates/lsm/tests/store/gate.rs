//! A file system with gates at which syncs of log segments, or writes to them, wait, so that tests control the events
//! during a sync or write. On request it fails directory syncs, makes a table unreadable, or runs a callback between
//! two reads of a store's files.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use waxseal_lsm::env::{DirEntry, File, Fs, Lock, Machine, Mapped, Open};

#[derive(Debug)]
pub(crate) struct GatedFs {
    inner: Arc<dyn Fs>,
    gates: Gates,
}

/// One gate for syncs of segments, one for writes to them, and a switch for failing directory syncs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates {
    pub(crate) syncs: Arc<Gate>,
    pub(crate) writes: Arc<Gate>,
    pub(crate) names_fail: Arc<AtomicBool>,
    /// The name of an unreadable table or blob file.
    pub(crate) unread: Arc<Mutex<Option<String>>>,
    /// Callbacks to run before `CURRENT` is opened, the last one first.
    pub(crate) before_looks: Looks,
    /// Callbacks to run before a segment is opened, the last one first.
    pub(crate) before_segments: Looks,
}

/// Callbacks to run before a file is opened.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Mutex<Vec<Happens>>>);

type Happens = Box<dyn FnOnce() + Send>;

impl Looks {
    pub(crate) fn push(&self, happens: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap().push(Box::new(happens));
    }

    fn happen(&self) {
        let happens = self.0.lock().unwrap().pop();
        happens.into_iter().for_each(|happens| happens());
    }

    pub(crate) fn are_over(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl std::fmt::Debug for Looks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Looks")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    /// Only the first thread waits.
    for_one: bool,
    waiting: usize,
}

impl Gate {
    pub(crate) fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    /// Shuts the gate for the first thread; later ones pass.
    pub(crate) fn shut_for_one(&self) {
        let mut state = self.state.lock().unwrap();
        (state.shut, state.for_one) = (true, true);
    }

    pub(crate) fn open(&self) {
        let mut state = self.state.lock().unwrap();
        (state.shut, state.for_one) = (false, false);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until a thread waits at the shut gate.
    pub(crate) fn wait_for_one(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        if state.for_one && state.waiting > 0 {
            return;
        }
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.shut).unwrap();
        state.waiting -= 1;
    }
}

impl GatedFs {
    pub(crate) fn new(inner: Arc<dyn Fs>) -> (GatedFs, Gates) {
        let gates = Gates::default();
        (GatedFs { inner, gates: gates.clone() }, gates)
    }
}

impl Fs for GatedFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let is_segment = path.extension().is_some_and(|extension| extension == "log");
        if path.ends_with("CURRENT") {
            self.gates.before_looks.happen();
        } else if is_segment {
            self.gates.before_segments.happen();
        }
        let inner = self.inner.open(path, how)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_table = name.ends_with(".tbl") || name.ends_with(".val");
        Ok(match is_segment || is_table {
            true => Arc::new(GatedFile { inner, name, is_segment, gates: self.gates.clone() }),
            false => inner,
        })
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.entries(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self.gates.names_fail.load(Ordering::SeqCst) {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "no names today")),
            false => self.inner.sync_dir(dir),
        }
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.inner.lock(path, holder)
    }
    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.inner.machine(dir)
    }
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.inner.reserves_blocks(dir)
    }
}

/// A segment, which waits at the gates, or a table or blob file, which may be unreadable.
#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    name: String,
    is_segment: bool,
    gates: Gates,
}

impl File for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.gates.unread.lock().unwrap().as_ref() == Some(&self.name) {
            true => Err(io::Error::other("a sector that does not answer")),
            false => self.inner.read_at(buf, offset),
        }
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.is_segment {
            self.gates.writes.pass();
        }
        self.inner.write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.is_segment {
            self.gates.syncs.pass();
        }
        self.inner.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.inner.map(length)
    }
}
