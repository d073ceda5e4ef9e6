//! A file system over another one that asks a *hook* about its calls. Wrap one in another to combine hooks.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::env::{DirEntry, File, Fs, Lock, Machine, Mapped, Open};

/// Delays, fails or changes calls of a [`HookedFs`] and of its files. By default all calls pass. Clones share their
/// state.
pub trait FsHook: Clone + Debug + Send + Sync + 'static {
    /// Called first, before every call.
    fn on_call(&self) {}
    /// Called before a file is opened; an error fails the call.
    fn before_open(&self, _path: &Path, _how: Open) -> io::Result<()> {
        Ok(())
    }
    /// Reads from the file below.
    fn read(&self, _path: &Path, file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buf, offset)
    }
    /// Called before a file is written; an error fails the call.
    fn before_write(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Called before a file is synced; an error fails the call.
    fn before_sync(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Called before a file is removed; an error fails the call.
    fn before_remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Called after a file was renamed; an error fails the call, which has taken effect.
    fn after_rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Called before a directory is synced; an error fails the call.
    fn before_sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// A file system that asks a hook. It reaches files by path only, and so never holds a directory.
#[derive(Clone, Debug)]
pub struct HookedFs<H> {
    inner: Arc<dyn Fs>,
    hook: H,
}

impl<H: FsHook> HookedFs<H> {
    /// Puts a hook over a file system.
    pub fn over(inner: Arc<dyn Fs>, hook: H) -> HookedFs<H> {
        HookedFs { inner, hook }
    }

    /// Puts a new hook over a file system, and returns both.
    pub fn new(inner: Arc<dyn Fs>) -> (HookedFs<H>, H)
    where
        H: Default,
    {
        let hook = H::default();
        (HookedFs::over(inner, hook.clone()), hook)
    }

    /// Returns the hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    fn called(&self) -> &dyn Fs {
        self.hook.on_call();
        &*self.inner
    }
}

impl<H: FsHook> Fs for HookedFs<H> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.hook.before_open(path, how)?;
        let inner = self.called().open(path, how)?;
        Ok(Arc::new(HookedFile { inner, path: path.to_owned(), hook: self.hook.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.called().rename(from, to)?;
        self.hook.after_rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.hook.before_remove(path)?;
        self.called().remove(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.called().link(from, to)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.called().list(dir)
    }
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.called().entries(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.called().create_dir_all(dir)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.called().remove_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.called().exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.hook.before_sync_dir(dir)?;
        self.called().sync_dir(dir)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.called().lock(path, holder)
    }
    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.called().machine(dir)
    }
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.called().reserves_blocks(dir)
    }
}

#[derive(Debug)]
struct HookedFile<H> {
    inner: Arc<dyn File>,
    path: PathBuf,
    hook: H,
}

impl<H: FsHook> HookedFile<H> {
    fn called(&self) -> &dyn File {
        self.hook.on_call();
        &*self.inner
    }
}

impl<H: FsHook> File for HookedFile<H> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hook.read(&self.path, self.called(), buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.hook.before_write(&self.path)?;
        self.called().write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.hook.before_sync(&self.path)?;
        self.called().sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.called().len()
    }
    fn data_end(&self) -> io::Result<u64> {
        self.called().data_end()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.called().set_len(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.called().allocate(length)
    }
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.called().map(length)
    }
    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        self.called().advise(offset, length, will_need);
    }
}
