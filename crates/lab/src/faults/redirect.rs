//! A file system that silently answers a read with other bytes of the same file. Everything else goes to the disk
//! below.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use waxseal_lsm::env::work::lock;
use waxseal_lsm::env::{DirEntry, File, Fs, Lock, Machine, Mapped, Open, SimFs};

/// The reads to misdirect.
#[derive(Clone, Debug)]
pub(super) struct Astray {
    /// Suffix of the file names.
    pub(super) name: String,
    /// Start of the misdirected span.
    pub(super) from: u64,
    pub(super) length: u64,
    /// Position of the bytes that are returned instead.
    pub(super) to: u64,
    /// Number of misdirected reads.
    pub(super) times: usize,
}

/// The disk and its misdirected reads; clones share both.
#[derive(Clone, Debug)]
pub(super) struct RedirectFs {
    inner: SimFs,
    astray: Arc<Mutex<Option<Astray>>>,
}

impl RedirectFs {
    pub(super) fn over(inner: SimFs) -> RedirectFs {
        RedirectFs { inner, astray: Arc::default() }
    }

    pub(super) fn set(&self, astray: Option<Astray>) {
        *lock(&self.astray) = astray;
    }
}

#[derive(Debug)]
struct RedirectFile {
    inner: Arc<dyn File>,
    name: String,
    astray: Arc<Mutex<Option<Astray>>>,
}

impl Fs for RedirectFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = Fs::open(&self.inner, path, how)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Arc::new(RedirectFile { inner, name, astray: self.astray.clone() }))
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
        self.inner.sync_dir(dir)
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

impl File for RedirectFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.inner.read_at(buf, offset)?;
        let mut astray = lock(&self.astray);
        let Some(astray) = astray.as_mut().filter(|astray| astray.times > 0 && self.name.ends_with(&astray.name))
        else {
            return Ok(read);
        };
        let from = astray.from.max(offset);
        let to = (astray.from + astray.length).min(offset + read as u64);
        if from < to {
            astray.times -= 1;
            let part = &mut buf[(from - offset) as usize..(to - offset) as usize];
            self.inner.read_at(part, astray.to + (from - astray.from))?;
        }
        Ok(read)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
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
    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        self.inner.advise(offset, length, will_need);
    }
}
