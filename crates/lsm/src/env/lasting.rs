//! A file system in which one directory, once it could not be synced, stays so.
//!
//! After a failed sync the system may count names as durable that it lost, and the next sync, by whoever made other files there, says that
//! all is well. So one failure is the answer to every later sync of the store's directory, for as long as the store is open (I09); and two
//! syncs of it come one after the other, so that none passes by a failure that nobody heard of yet. Other directories, a checkpoint's say,
//! may be tried again: what is in them is made anew. The directory is known by the path that the store was opened with, and by no other; what is synced is the one
//! that stood there at first.
//! It is kept open from its first sync on: that a process has no descriptor left is no failed sync, and must not stop a store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use super::work::lock;
use super::{Dir, File, Fs, Lock, Machine, Open};

/// Passes everything on, and remembers that its directory could not be synced.
#[derive(Debug)]
pub struct LastingFs {
    inner: Arc<dyn Fs>,
    dir: PathBuf,
    /// None inside: its file system need not keep it open.
    held: OnceLock<Option<Box<dyn Dir>>>,
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

impl LastingFs {
    /// Over another file system, for a store in `dir`.
    pub fn new(inner: Arc<dyn Fs>, dir: &Path) -> LastingFs {
        LastingFs { inner, dir: dir.to_owned(), held: OnceLock::new(), failed: Mutex::default() }
    }

    fn held(&self) -> io::Result<Option<&dyn Dir>> {
        let held = match self.held.get() {
            Some(held) => held,
            None => {
                let held = self.inner.hold_dir(&self.dir)?;
                self.held.get_or_init(|| held)
            }
        };
        Ok(held.as_deref())
    }
}

impl Fs for LastingFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.inner.open(path, how)
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
        if *dir != *self.dir {
            return self.inner.sync_dir(dir);
        }
        let mut failed = lock(&self.failed);
        if let Some((kind, text)) = &*failed {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let synced = match self.held()? {
            Some(held) => held.sync(),
            None => self.inner.sync_dir(dir),
        };
        synced.inspect_err(|error| *failed = Some((error.kind(), error.to_string())))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.inner.lock(path, holder)
    }

    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.inner.machine(dir)
    }

    fn most_open(&self) -> Option<u64> {
        self.inner.most_open()
    }

    fn expect_open(&self, dir: &Path, files: u64) {
        self.inner.expect_open(dir, files);
    }

    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.inner.reserves_blocks(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::RealFs;
    use crate::env::sim::{Fault, SimFs};

    #[test]
    fn a_directory_that_could_not_be_synced_stays_so_and_another_does_not_mind() {
        let sim = SimFs::new(1);
        let [store, other] = ["store", "other"].map(Path::new);
        let fs = LastingFs::new(Arc::new(sim.clone()), store);
        let fail = |dir| {
            fs.create_dir_all(dir).unwrap();
            fs.sync_dir(dir).unwrap();
            sim.fail_at(sim.steps(), Fault::Error(io::ErrorKind::StorageFull));
            let error = fs.sync_dir(dir).unwrap_err();
            assert!(sim.clear_faults());
            (error.kind(), error.to_string())
        };
        fail(other);
        fs.sync_dir(other).unwrap();
        let first = fail(store);
        sim.sync_dir(store).unwrap(); // the system would say that all is well
        let again = fs.sync_dir(store).unwrap_err();
        assert_eq!(first, (again.kind(), again.to_string()));
        fs.sync_dir(other).unwrap();
    }

    /// What is left of a process that has as many files open as it may: nothing can be opened, what is open can be synced.
    #[test]
    fn a_directory_is_synced_by_what_was_opened_once() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("store");
        let fs = LastingFs::new(Arc::new(RealFs), &store);
        assert_eq!(fs.sync_dir(&store).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs.create_dir_all(&store).unwrap();
        fs.sync_dir(&store).unwrap(); // that it could not be opened is no failed sync
        let moved = home.path().join("moved");
        fs.rename(&store, &moved).unwrap();
        fs.sync_dir(&store).unwrap();
        assert_eq!(fs.sync_dir(&home.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
