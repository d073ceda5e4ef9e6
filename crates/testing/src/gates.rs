//! Gates at which syncs of log segments, or writes to them, wait, so that tests control the events during a sync or
//! write. On request they fail directory syncs, make a table unreadable, or run a callback between two reads of a
//! store's files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use waxseal_lsm::env::{File, Open};

use crate::fs::{FsHook, HookedFs};

/// A file system with gates.
pub type GatedFs = HookedFs<Gates>;

/// One gate for syncs of segments, one for writes to them, and a switch for failing directory syncs.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// The gate before syncs of segments.
    pub syncs: Arc<Gate>,
    /// The gate before writes to segments.
    pub writes: Arc<Gate>,
    /// While set, directory syncs fail.
    pub names_fail: Arc<AtomicBool>,
    /// The name of an unreadable table or blob file.
    pub unread: Arc<Mutex<Option<String>>>,
    /// Callbacks to run before `CURRENT` is opened, the last one first.
    pub before_looks: Looks,
    /// Callbacks to run before a segment is opened, the last one first.
    pub before_segments: Looks,
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

impl FsHook for Gates {
    fn before_open(&self, path: &Path, _: Open) -> io::Result<()> {
        if path.ends_with("CURRENT") {
            self.before_looks.happen();
        } else if is_segment(path) {
            self.before_segments.happen();
        }
        Ok(())
    }
    fn read(&self, path: &Path, file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.unread.lock().unwrap().as_ref() {
            Some(name) if path.ends_with(name) => Err(io::Error::other("a sector that does not answer")),
            _ => file.read_at(buf, offset),
        }
    }
    fn before_write(&self, path: &Path) -> io::Result<()> {
        if is_segment(path) {
            self.writes.pass();
        }
        Ok(())
    }
    fn before_sync(&self, path: &Path) -> io::Result<()> {
        if is_segment(path) {
            self.syncs.pass();
        }
        Ok(())
    }
    fn before_sync_dir(&self, _: &Path) -> io::Result<()> {
        match self.names_fail.load(Ordering::SeqCst) {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "no names today")),
            false => Ok(()),
        }
    }
}

/// Callbacks to run before a file is opened.
#[derive(Clone, Default)]
pub struct Looks(Arc<Mutex<Vec<Happens>>>);

type Happens = Box<dyn FnOnce() + Send>;

impl Looks {
    /// Adds a callback, which runs before those that were added earlier.
    pub fn push(&self, happens: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap().push(Box::new(happens));
    }

    fn happen(&self) {
        let happens = self.0.lock().unwrap().pop();
        happens.into_iter().for_each(|happens| happens());
    }

    /// Returns true if all callbacks have run.
    pub fn are_over(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Looks")
    }
}

/// A gate at which threads wait while it is shut.
#[derive(Debug, Default)]
pub struct Gate {
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
    /// Shuts the gate for all threads.
    pub fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    /// Shuts the gate for the first thread; later ones pass.
    pub fn shut_for_one(&self) {
        let mut state = self.state.lock().unwrap();
        (state.shut, state.for_one) = (true, true);
    }

    /// Opens the gate, and lets all waiting threads pass.
    pub fn open(&self) {
        let mut state = self.state.lock().unwrap();
        (state.shut, state.for_one) = (false, false);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until a thread waits at the shut gate.
    pub fn wait_for_one(&self) {
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
