//! Open files, mappings and locks of the simulated disk. Each handle becomes invalid at the end of its boot.

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::fault::StepKind;
use super::state::SimState;
use crate::env::tree::TreePath;
use crate::env::work::lock;
use crate::env::{File, Lock, Mapped};

/// An open file.
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<SimState>>,
    pub(super) file: u64,
    pub(super) epoch: u64,
    pub(super) writable: bool,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile {}", self.file)
    }
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        lock(&self.state).read(self.epoch, self.file, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        offset.checked_add(bytes.len() as u64).ok_or(ErrorKind::FileTooLarge)?;
        lock(&self.state).write(self.epoch, self.file, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        lock(&self.state).sync(self.epoch, self.file)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.begin(self.epoch, StepKind::Look)?;
        Ok(state.files[&self.file].live.length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        lock(&self.state).set_len(self.epoch, self.file, length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        lock(&self.state).allocate(self.epoch, self.file, length)
    }

    fn data_end(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.begin(self.epoch, StepKind::Look)?;
        Ok(state.files[&self.file].live.data_end())
    }

    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        let mut state = lock(&self.state);
        if !state.map(self.epoch, self.file, length)? {
            return Ok(None);
        }
        state.hold(self.file);
        drop(state);
        Ok(Some(Arc::new(SimMapped {
            state: self.state.clone(),
            file: self.file,
            epoch: self.epoch,
            length,
            is_released: AtomicBool::new(false),
        })))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        lock(&self.state).let_go(self.epoch, self.file);
    }
}

/// A mapping of a file.
struct SimMapped {
    state: Arc<Mutex<SimState>>,
    file: u64,
    epoch: u64,
    length: usize,
    is_released: AtomicBool,
}

impl fmt::Debug for SimMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimMapped {}", self.file)
    }
}

impl SimMapped {
    fn check(&self, offset: usize, length: usize) {
        assert!(offset.is_multiple_of(8) && length.is_multiple_of(8), "whole words");
        assert!(offset <= self.length && length <= self.length - offset, "inside the mapping");
    }
}

impl Mapped for SimMapped {
    fn prepare(&self, offset: usize, length: usize) -> io::Result<()> {
        self.check(offset, length);
        lock(&self.state).prepare(self.epoch, self.file, offset as u64, length)
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if self.is_released.load(Ordering::Acquire) {
            return;
        }
        lock(&self.state).store(self.epoch, self.file, bytes, offset as u64);
    }

    fn load(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        out.fill(0);
        // A mapping from an earlier boot has no file behind it.
        let state = lock(&self.state);
        if state.epoch == self.epoch
            && !self.is_released.load(Ordering::Acquire)
            && let Some(content) = state.files.get(&self.file)
        {
            content.live.read_at(out, offset as u64);
        }
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.state).sync(self.epoch, self.file)
    }

    fn release(&self) {
        if !self.is_released.swap(true, Ordering::AcqRel) {
            lock(&self.state).let_go(self.epoch, self.file);
        }
    }
}

impl Drop for SimMapped {
    fn drop(&mut self) {
        self.release();
    }
}

/// A file or directory held as a lock.
pub(super) struct SimLock {
    pub(super) state: Arc<Mutex<SimState>>,
    pub(super) locked: u64,
    /// The name of the file; `None` for a directory.
    pub(super) place: Option<TreePath>,
    pub(super) epoch: u64,
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimLock {}", self.locked)
    }
}

impl Lock for SimLock {
    fn is_in_place(&self) -> io::Result<bool> {
        match &self.place {
            Some(place) => lock(&self.state).stands_for(self.epoch, place, self.locked),
            None => Ok(true),
        }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if state.epoch == self.epoch {
            state.locks.remove(&self.locked);
        }
    }
}
