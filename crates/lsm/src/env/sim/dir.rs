//! An open directory of the simulated disk, identified by its number: renames do not change it, and a removed directory
//! accepts no new names.

use std::any::Any;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::handle::SimLock;
use super::{SimFs, StepKind, file_names};
use crate::checksum::hash;
use crate::env::tree::{NameTree, TreeEntry, TreePath};
use crate::env::{Dir, DirEntry, File, FileStamp, Lock, Machine, Open};

/// An open directory. The handle becomes invalid at the end of its boot.
pub(super) struct SimDir {
    pub(super) fs: SimFs,
    pub(super) dir: u64,
    pub(super) epoch: u64,
}

impl fmt::Debug for SimDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDir {}", self.dir)
    }
}

impl SimDir {
    pub(super) fn of(dir: &dyn Dir) -> io::Result<&SimDir> {
        (dir as &dyn Any).downcast_ref().ok_or_else(|| ErrorKind::Unsupported.into())
    }

    pub(super) fn place(&self, live: &NameTree, name: &str) -> io::Result<TreePath> {
        live.place_in(self.dir, name)
    }
}

impl Dir for SimDir {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let at = |live: &NameTree| self.place(live, name);
        self.fs.open_at(self.epoch, how, at, |live| live.file_at(&at(live)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let plan = |live: &NameTree| live.plan_move(self.place(live, from)?, self.place(live, to)?);
        self.fs.state().rename(self.epoch, plan)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.fs.state().rename(self.epoch, |live| live.plan_remove(self.place(live, name)?).map(Some))
    }

    fn link(&self, name: &str, into: &dyn Dir, new: &str) -> io::Result<()> {
        let into = SimDir::of(into)?;
        let plan = |live: &NameTree| {
            let file = live.file_at(&self.place(live, name)?)?;
            live.plan_put(into.place(live, new)?, TreeEntry::File(file))
        };
        self.fs.state().rename(self.epoch, |live| plan(live).map(Some))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.fs.state();
        state.begin(self.epoch, StepKind::Look)?;
        match state.live.has_dir(self.dir) {
            true => Ok(file_names(&state, self.dir)),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let mut state = self.fs.state();
        state.begin(self.epoch, StepKind::Look)?;
        match state.live.has_dir(self.dir) {
            true => Ok(state.live.dir_entries(self.dir)),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        let mut state = self.fs.state();
        state.begin(self.epoch, StepKind::Look)?;
        Ok(self.place(&state.live, name).is_ok_and(|place| state.live.at(&place).is_some()))
    }

    /// The hash of the contents takes the place of the times of change.
    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        let mut state = self.fs.state();
        state.begin(self.epoch, StepKind::Look)?;
        let file = state.live.file_at(&self.place(&state.live, name)?)?;
        let image = &state.files[&file].live;
        let mut bytes = vec![0; image.length as usize];
        image.read_at(&mut bytes, 0);
        let changed = [(hash(&bytes) as i64, 0); 2];
        Ok(Some(FileStamp { file: (0, file), length: image.length, changed }))
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.state().sync_dir(self.epoch, |_| Ok(self.dir))
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        let is_free = self.fs.state().lock_dir(self.epoch, self.dir)?;
        let lock = || SimLock { state: self.fs.state.clone(), locked: self.dir, place: None, epoch: self.epoch };
        Ok(is_free.then(|| Box::new(lock()) as Box<dyn Lock>))
    }

    fn lock_file(&self, name: &str, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.fs.lock_at(self.epoch, |live| self.place(live, name), holder)
    }

    fn machine(&self) -> io::Result<Machine> {
        let mut state = self.fs.state();
        state.begin(self.epoch, StepKind::Look)?;
        Ok(state.machine)
    }

    fn reserves_blocks(&self) -> io::Result<bool> {
        let mut state = self.fs.state();
        state.begin(self.epoch, StepKind::Look)?;
        Ok(state.reserves)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.fs.look_at(path).map(|(_state, dir)| dir == self.dir)
    }
}
