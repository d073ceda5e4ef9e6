//! A file system that remembers which threads touched it.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use waxseal::env::{DirEntry, File, Fs, Lock, Machine, Mapped, Open, RealFs};

pub(crate) type Touched = Arc<Mutex<HashSet<ThreadId>>>;

#[derive(Debug)]
pub(crate) struct WatchedFs {
    touched: Touched,
}

impl WatchedFs {
    pub(crate) fn new() -> (WatchedFs, Touched) {
        let touched = Touched::default();
        (WatchedFs { touched: touched.clone() }, touched)
    }

    /// The real file system, for a thread that is remembered.
    fn real(&self) -> RealFs {
        touch(&self.touched);
        RealFs
    }
}

fn touch(touched: &Touched) {
    touched.lock().unwrap().insert(std::thread::current().id());
}

impl Fs for WatchedFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = self.real().open(path, how)?;
        Ok(Arc::new(WatchedFile { inner, touched: self.touched.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real().rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real().remove(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real().link(from, to)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.real().list(dir)
    }
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.real().entries(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.real().create_dir_all(dir)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.real().remove_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.real().exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.real().sync_dir(dir)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.real().lock(path, holder)
    }
    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.real().machine(dir)
    }
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.real().reserves_blocks(dir)
    }
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    touched: Touched,
}

impl WatchedFile {
    fn real(&self) -> &dyn File {
        touch(&self.touched);
        &*self.inner
    }
}

impl File for WatchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.real().read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.real().write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.real().sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.real().len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.real().set_len(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.real().allocate(length)
    }
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.real().map(length)
    }
}
