//! An open directory in memory, identified by its number.

use std::any::Any;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{MemoryFs, MemoryFsState, MemoryLock};
use crate::env::tree::{TreeEntry, TreePath};
use crate::env::work::lock;
use crate::env::{Dir, DirEntry, File, FileStamp, Lock, Machine, Open};

/// An open directory.
pub(super) struct MemoryDir {
    pub(super) fs: MemoryFs,
    pub(super) dir: u64,
}

impl fmt::Debug for MemoryDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryDir {}", self.dir)
    }
}

impl MemoryDir {
    pub(super) fn of(dir: &dyn Dir) -> io::Result<&MemoryDir> {
        (dir as &dyn Any).downcast_ref().ok_or_else(|| ErrorKind::Unsupported.into())
    }

    pub(super) fn place(&self, state: &MemoryFsState, name: &str) -> io::Result<TreePath> {
        state.tree.place_in(self.dir, name)
    }
}

impl Dir for MemoryDir {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = lock(&self.fs.state);
        let at = self.place(&state, name)?;
        state.open(at, how)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = lock(&self.fs.state);
        if let Some(change) = state.tree.plan_move(self.place(&state, from)?, self.place(&state, to)?)? {
            state.apply(&change);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = lock(&self.fs.state);
        let change = state.tree.plan_remove(self.place(&state, name)?)?;
        state.apply(&change);
        Ok(())
    }

    fn link(&self, name: &str, into: &dyn Dir, new: &str) -> io::Result<()> {
        let mut state = lock(&self.fs.state);
        let file = state.tree.file_at(&self.place(&state, name)?)?;
        let change = state.tree.plan_put(MemoryDir::of(into)?.place(&state, new)?, TreeEntry::File(file))?;
        state.apply(&change);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = lock(&self.fs.state);
        match state.tree.has_dir(self.dir) {
            true => Ok(state.file_names(self.dir)),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let state = lock(&self.fs.state);
        match state.tree.has_dir(self.dir) {
            true => Ok(state.tree.dir_entries(self.dir)),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        let state = lock(&self.fs.state);
        Ok(self.place(&state, name).is_ok_and(|place| state.tree.at(&place).is_some()))
    }

    /// Other processes cannot reach the file, so its number identifies its contents.
    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        let state = lock(&self.fs.state);
        let at = self.place(&state, name)?;
        let (file, length) = (state.tree.file_at(&at)?, state.existing(&at)?.read().length);
        Ok(Some(FileStamp { file: (0, file), length, changed: [(0, 0); 2] }))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        let is_free = lock(&self.fs.state).locked_dirs.insert(self.dir);
        let locked = || DirLock { state: self.fs.state.clone(), dir: self.dir };
        Ok(is_free.then(|| Box::new(locked()) as Box<dyn Lock>))
    }

    fn lock_file(&self, name: &str, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        let mut state = lock(&self.fs.state);
        let at = self.place(&state, name)?;
        Ok(match state.lock(at.clone(), holder)? {
            Ok(content) => Ok(Box::new(MemoryLock { state: self.fs.state.clone(), content, at })),
            Err(holder) => Err(holder),
        })
    }

    fn machine(&self) -> io::Result<Machine> {
        Ok(Machine::default())
    }

    fn reserves_blocks(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(lock(&self.fs.state).tree.dir(path)? == self.dir)
    }
}

/// The lock of a directory.
struct DirLock {
    state: Arc<Mutex<MemoryFsState>>,
    dir: u64,
}

impl fmt::Debug for DirLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirLock {}", self.dir)
    }
}

impl Lock for DirLock {}

impl Drop for DirLock {
    fn drop(&mut self) {
        lock(&self.state).locked_dirs.remove(&self.dir);
    }
}
