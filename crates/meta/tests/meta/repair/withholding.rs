//! A file system that fails chosen reads.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use waxseal_lsm::db::Parts;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{DirEntry, Env, File, Fs, Lock, Machine, Mapped, Open};
use waxseal_lsm::options::CfOptions;

use super::world::*;

/// A disk of which some files cannot be opened for reading, and a byte of one not be read.
#[derive(Clone, Debug)]
pub(crate) struct Withholding {
    pub(crate) sim: SimFs,
    pub(crate) withheld: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// Where the bytes stand, and which of the reads to come do not get each, the next one in the lowest bit.
    pub(crate) unread: Arc<Mutex<Vec<(PathBuf, u64, u128)>>>,
    /// Bytes that reads asked for.
    pub(crate) bytes_read: Arc<AtomicU64>,
}

/// No read gets it.
pub(crate) const ALWAYS: u128 = u128::MAX;

/// A file of such a disk.
#[derive(Debug)]
pub(crate) struct Withheld {
    pub(crate) disk: Withholding,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
}

impl File for Withheld {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.pass(&self.path, offset..offset + buf.len() as u64)?;
        self.disk.bytes_read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.file.read_at(buf, offset)
    }
    fn data_end(&self) -> io::Result<u64> {
        self.file.data_end()
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        self.file.map(length)
    }
}

impl Withholding {
    pub(crate) fn new(sim: &SimFs) -> Withholding {
        Withholding { sim: sim.clone(), withheld: Arc::default(), unread: Arc::default(), bytes_read: Arc::default() }
    }

    /// From now on these, and no others.
    pub(crate) fn hold_back<P: AsRef<Path>>(&self, files: impl IntoIterator<Item = P>) {
        *self.withheld.lock().unwrap() = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
    }

    pub(crate) fn release(&self) {
        self.withheld.lock().unwrap().clear();
        self.unread.lock().unwrap().clear();
    }

    /// From now on these reads of a byte fail too.
    pub(crate) fn fail_reads(&self, file: &Path, at: u64, reads: u128) {
        self.unread.lock().unwrap().push((file.to_owned(), at, reads));
    }

    pub(crate) fn pass(&self, file: &Path, span: Range<u64>) -> io::Result<()> {
        let mut fails = false;
        for (unread, at, reads) in self.unread.lock().unwrap().iter_mut() {
            if unread == file && span.contains(at) {
                fails |= *reads & 1 == 1;
                if *reads != ALWAYS {
                    *reads >>= 1;
                }
            }
        }
        if fails { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// A store on it.
    pub(crate) fn world(&self, options: &CfOptions, model: &Model) -> World {
        let parts = parts(&self.sim, options);
        let parts = Parts { env: Env { fs: Arc::new(self.clone()), ..parts.env }, ..parts };
        World::of(self.sim.clone(), parts, options.clone(), model.clone())
    }
}

impl Fs for Withholding {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        match how {
            Open::Read if self.withheld.lock().unwrap().contains(path) => Err(ErrorKind::PermissionDenied.into()),
            _ => Ok(Arc::new(Withheld { disk: self.clone(), path: path.to_owned(), file: self.sim.open(path, how)? })),
        }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.sim.remove(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.link(from, to)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.sim.list(dir)
    }
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.sim.entries(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.sim.create_dir_all(dir)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.remove_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Fs::exists(&self.sim, path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.sync_dir(dir)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.sim.lock(path, holder)
    }
    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.sim.machine(dir)
    }
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.sim.reserves_blocks(dir)
    }
}
