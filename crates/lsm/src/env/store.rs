//! The file system of one open store: operations on names in the store's directory use the open directory, never its
//! path.
//!
//! So the store continues in its own directory if that is renamed, and never touches another directory that takes over
//! its path. The directory is opened when a name in it is first used. All other paths (a checkpoint, a trash directory)
//! are passed to the underlying file system.
//!
//! Before a name in the directory is created, changed or removed, the lock file that `lock` took must still have its
//! own name, and the pinned file its contents (`check_place`): another process may have opened the store and rely on
//! its files.
//!
//! After a failed sync the system may treat names as durable that it has lost, and the next sync, by a thread that made
//! other files there, would report success. So one failure is returned by every later sync of the directory, for as
//! long as the store is open (I09). Two syncs of the directory run one after the other, so that none misses a failure
//! not yet reported. Other directories may be synced again: their contents are created anew.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use super::opened::{FileTracker, closed};
use super::place::{Pinned, PlaceLost};
use super::work::lock;
use super::{Dir, DirEntry, File, FileStamp, Fs, Lock, Machine, Open};

/// A file system in which one directory stays the same even if its path changes.
#[derive(Debug)]
pub struct StoreFs {
    inner: Arc<dyn Fs>,
    dir: PathBuf,
    /// The permission mode of files that it creates; `None`: the file system's default.
    mode: Option<u32>,
    /// The open files of the store.
    files: FileTracker,
    held: Mutex<HeldDir>,
    /// The lock file, while it is held.
    locked: Mutex<Option<Weak<dyn Lock>>>,
    /// The file whose contents identify the store, once this process has written it.
    pinned: Mutex<Option<Arc<Pinned>>>,
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

/// The open directory of a store.
#[derive(Debug, Default)]
enum HeldDir {
    /// The directory was not used yet.
    #[default]
    NotYet,
    /// `None`: the underlying file system reaches files by path only.
    Open(Option<Arc<dyn Dir>>),
    /// The store is closed.
    Closed,
}

impl StoreFs {
    /// Wraps another file system, for a store in `dir`.
    pub fn new(inner: Arc<dyn Fs>, dir: &Path) -> StoreFs {
        StoreFs {
            inner,
            dir: dir.to_owned(),
            mode: None,
            files: FileTracker::default(),
            held: Mutex::default(),
            locked: Mutex::default(),
            pinned: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Returns it with a permission mode for the files and directories that it creates.
    #[must_use]
    pub(super) fn creating(self, mode: Option<u32>) -> StoreFs {
        StoreFs { mode, ..self }
    }

    /// Returns the open directory.
    fn held(&self) -> io::Result<Option<Arc<dyn Dir>>> {
        let mut held = lock(&self.held);
        match &*held {
            HeldDir::Open(dir) => Ok(dir.clone()),
            HeldDir::Closed => Err(closed()),
            HeldDir::NotYet => {
                let dir = self.inner.hold_dir(&self.dir)?;
                *held = HeldDir::Open(dir.clone());
                Ok(dir)
            }
        }
    }

    /// Returns the open directory if `dir` is its path.
    fn at(&self, dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        if *dir == *self.dir { self.held() } else { Ok(None) }
    }

    /// Returns the open directory and a name in it, if the path is that of a file in it.
    fn named<'a>(&self, path: &'a Path) -> io::Result<Option<(Arc<dyn Dir>, &'a str)>> {
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if path.parent() == Some(&self.dir) => Ok(self.held()?.map(|dir| (dir, name))),
            _ => Ok(None),
        }
    }

    /// Returns the same for a name that is about to change, after checking that the directory still holds this store.
    fn changing<'a>(&self, path: &'a Path) -> io::Result<Option<(Arc<dyn Dir>, &'a str)>> {
        let named = self.named(path)?;
        if named.is_some() {
            self.check_place()?;
        }
        Ok(named)
    }

    /// Returns the reason why a file of an open store is missing: if the lock is gone, the directory may be gone too,
    /// and the file is not known to be damaged.
    fn missing(&self, error: io::Error) -> io::Error {
        let is_lost = error.kind() == io::ErrorKind::NotFound && matches!(self.owns_lock(), Ok(false));
        if is_lost { PlaceLost::Lock.into() } else { error }
    }

    /// Returns false once the lock file that `lock` took has lost its name or its directory.
    fn owns_lock(&self) -> io::Result<bool> {
        let locked = lock(&self.locked).as_ref().and_then(Weak::upgrade);
        locked.map_or(Ok(true), |locked| locked.is_in_place())
    }

    /// Opens a file of the directory that the store does not keep open.
    fn open_own(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        match self.held()? {
            Some(dir) => dir.open(name, how),
            None => self.inner.open(&self.dir.join(name), how),
        }
    }

    /// Returns the stamp of a file in the directory.
    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        self.held()?.map_or(Ok(None), |dir| dir.stamp(name))
    }

    /// Fails if the pinned file has other contents.
    fn check_pinned(&self) -> io::Result<()> {
        loop {
            let Some(pinned) = lock(&self.pinned).clone() else { return Ok(()) };
            let open = || self.open_own(pinned.name(), Open::Read);
            if pinned.is_in_place(self.stamp(pinned.name()), open)? {
                return Ok(());
            }
            // Contents that were pinned meanwhile are expected.
            if lock(&self.pinned).as_ref().is_some_and(|now| Arc::ptr_eq(now, &pinned)) {
                return Err(PlaceLost::Current.into());
            }
        }
    }
}

impl Fs for StoreFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let named = if how.creates() { self.changing(path)? } else { self.named(path)? };
        let how = match (how, self.mode) {
            (Open::Create, Some(mode)) => Open::CreateMode(mode),
            (how, _) => how,
        };
        let opened = match named {
            Some((dir, name)) => dir.open(name, how).map_err(|error| self.missing(error))?,
            None => self.inner.open(path, how)?,
        };
        self.files.track(opened)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.changing(from)?, self.named(to)?) {
            (Some((dir, from)), Some((_, to))) => dir.rename(from, to),
            (None, None) => self.inner.rename(from, to),
            _ => Err(io::ErrorKind::CrossesDevices.into()), // no rename moves a file into or out of the directory
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.changing(path)? {
            Some((dir, name)) => {
                dir.remove(name)?;
                lock(&self.pinned).take_if(|pinned| pinned.is_of(name));
                Ok(())
            }
            None => self.inner.remove(path),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.named(from)?, self.changing(to)?) {
            (Some((dir, from)), Some((into, to))) => dir.link(from, &*into, to),
            (None, Some((into, to))) => self.inner.link_into(from, &*into, to),
            (Some((dir, from)), None) => {
                let (parent, name) = (to.parent(), to.file_name().and_then(|name| name.to_str()));
                let (Some(parent), Some(name)) = (parent, name) else { return Err(io::ErrorKind::InvalidInput.into()) };
                match self.inner.hold_dir(parent)? {
                    Some(into) => dir.link(from, &*into, name),
                    None => Err(io::ErrorKind::Unsupported.into()),
                }
            }
            (None, None) => self.inner.link(from, to),
        }
    }

    fn link_into(&self, from: &Path, dir: &dyn Dir, name: &str) -> io::Result<()> {
        match self.named(from)? {
            Some((own, from)) => own.link(from, dir, name),
            None => self.inner.link_into(from, dir, name),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.at(dir)?.map_or_else(|| self.inner.list(dir), |held| held.list())
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.at(dir)?.map_or_else(|| self.inner.entries(dir), |held| held.entries())
    }

    /// A directory can be searched by everyone whom the mode lets read its files.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        match self.mode {
            Some(mode) => self.inner.create_dir_mode(dir, mode | (mode & 0o444) >> 2),
            None => self.inner.create_dir_all(dir),
        }
    }

    fn file_mode(&self) -> Option<u32> {
        self.mode
    }

    /// Removes the directory at a path; the store's own directory only if the path still leads to that directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        match self.at(dir)? {
            Some(held) if !held.is_at(dir)? => Err(io::ErrorKind::NotFound.into()),
            _ => self.inner.remove_dir(dir),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.named(path) {
            Ok(Some((dir, name))) => dir.exists(name),
            Ok(None) => self.inner.exists(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
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

    fn close(&self) {
        self.files.close();
        *lock(&self.held) = HeldDir::Closed;
        *lock(&self.pinned) = None;
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        match self.at(dir)? {
            Some(held) => Ok(Some(held)),
            None => self.inner.hold_dir(dir),
        }
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        let Some((dir, name)) = self.named(path)? else { return self.inner.lock(path, holder) };
        if let Some(mode) = self.mode {
            match dir.open(name, Open::CreateMode(mode)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let taken: Arc<dyn Lock> = match dir.lock_file(name, holder)? {
            Ok(taken) => Arc::from(taken),
            Err(holder) => return Ok(Err(holder)),
        };
        *lock(&self.locked) = Some(Arc::downgrade(&taken));
        Ok(Ok(Box::new(StoreLock(taken))))
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.at(dir)?.map_or_else(|| self.inner.lock_dir(dir), |held| held.lock())
    }

    /// After a failed rename both the old and the new contents are expected.
    fn rename_pinned(&self, from: &Path, to: &Path, contents: &[u8]) -> io::Result<()> {
        let name = match to.file_name().and_then(|name| name.to_str()) {
            Some(name) if to.parent() == Some(&self.dir) => name,
            _ => return self.rename(from, to),
        };
        let both = lock(&self.pinned).as_ref().map(|old| old.or(contents));
        *lock(&self.pinned) = both;
        self.rename(from, to)?;
        *lock(&self.pinned) = Some(Pinned::new(name, vec![contents.to_vec()]));
        // Notes the stamp now, so that later checks need no descriptor. A failure here leaves that to the next check.
        let _ = self.check_pinned();
        Ok(())
    }

    fn check_place(&self) -> io::Result<()> {
        match self.owns_lock()? {
            true => self.check_pinned(),
            false => Err(PlaceLost::Lock.into()),
        }
    }

    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.at(dir)?.map_or_else(|| self.inner.machine(dir), |held| held.machine())
    }

    fn most_open(&self) -> Option<u64> {
        self.inner.most_open()
    }

    fn expect_open(&self, dir: &Path, files: u64) {
        match self.at(dir) {
            Ok(Some(held)) => held.expect_open(files),
            _ => self.inner.expect_open(dir, files),
        }
    }

    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.at(dir)?.map_or_else(|| self.inner.reserves_blocks(dir), |held| held.reserves_blocks())
    }
}

/// The lock file of a store, which the file system checks for as long as this is held.
#[derive(Debug)]
struct StoreLock(Arc<dyn Lock>);

impl Lock for StoreLock {
    fn is_in_place(&self) -> io::Result<bool> {
        self.0.is_in_place()
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
        let fs = StoreFs::new(Arc::new(sim.clone()), store);
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
        sim.sync_dir(store).unwrap(); // the system would report success
        let again = fs.sync_dir(store).unwrap_err();
        assert_eq!(first, (again.kind(), again.to_string()));
        fs.sync_dir(other).unwrap();
    }

    /// A process at its limit of open files: it can open no file, but can sync the open ones.
    #[test]
    fn a_directory_is_synced_by_what_was_opened_once() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("store");
        let fs = StoreFs::new(Arc::new(RealFs), &store);
        assert_eq!(fs.sync_dir(&store).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs.create_dir_all(&store).unwrap();
        fs.sync_dir(&store).unwrap(); // a failed open of the directory is no failed sync
        let moved = home.path().join("moved");
        fs.rename(&store, &moved).unwrap();
        fs.sync_dir(&store).unwrap();
        assert_eq!(fs.sync_dir(&home.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
