//! The outside world: files, the machine's identity, pages of memory, time, randomness, threads. The only door to them (a lint holds it shut elsewhere).
//!
//! Three file systems stand behind `Fs`: `real` (the operating system), `memory` (in-memory stores) and `sim` (crashes, faults, torn and
//! reordered sectors, from a seed). Two stand before another one: `lasting` (a directory that could not be synced stays so; every open store
//! has it) and `traced` (a transcript of every operation).
//! With `sim`, a manual clock, seeded randomness and stepped work, a whole engine runs in one thread from a seed.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

mod clock;
mod lasting;
mod memory;
mod random;
mod real;
pub mod sim;
mod traced;
mod tree;
pub mod work;

pub use clock::{Clock, ManualClock, SystemClock};
pub use lasting::LastingFs;
pub use memory::MemoryFs;
pub use random::{Random, SeededRandom, SystemRandom};
pub use real::{Origin, Pages, RealFs, populate};
pub use sim::SimFs;
pub use traced::TracedFs;

/// Everything the engine needs from outside. Clones share it.
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers for uids and nonces.
    pub random: Arc<dyn Random>,
    /// Who does background work.
    pub work: work::Mode,
}

impl Env {
    /// The operating system's files, clock and random numbers, and background threads.
    pub fn real() -> Env {
        Env {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            work: work::Mode::Threads,
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("fs", &self.fs).field("work", &self.work).finish_non_exhaustive()
    }
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing in place.
    Write,
    /// A new file, for reading and writing; fails if the name exists.
    Create,
}

/// A kernel and device that pages written to a file live in. If both are as they were, no page can have been lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// The kernel's boot id; none counts as another kernel.
    pub boot_id: Option<[u8; 16]>,
    /// The device number of the directory's file system.
    pub device: u64,
}

impl Machine {
    /// True if pages written under `other` are certainly still there.
    pub fn is_same_kernel(&self, other: &Machine) -> bool {
        self.boot_id.is_some() && self == other
    }
}

/// Files and directories. Every call is one numbered I/O step of the simulation.
pub trait Fs: Send + Sync + fmt::Debug {
    /// Opens one file. The new directory entry of `Open::Create` is durable only after `sync_dir`.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Renames a file, replacing `to` if it exists. Durable only after `sync_dir` of the directory.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Durable only after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// A second name for a file that will never change again (tables of a checkpoint). `Unsupported` where there are no links.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The names in a directory, in no order, without subdirectories.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a directory and its parents; no error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// True if there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The directory, kept open, so that it can be synced however many files the process has open by then. None: a sync of it opens nothing.
    fn hold_dir(&self, _dir: &Path) -> io::Result<Option<Box<dyn Dir>>> {
        Ok(None)
    }
    /// Takes the lock file, or returns what its holder wrote into it. The lock goes with the returned value or its process.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>>;
    /// The kernel and device under a directory.
    fn machine(&self, dir: &Path) -> io::Result<Machine>;
    /// How many files the process may have open at the same time; none: as many as there is memory for.
    fn most_open(&self) -> Option<u64> {
        None
    }
    /// So many files may soon be open at the same time: a system that makes room for them by waiting makes it now. A hint.
    fn expect_open(&self, _dir: &Path, _files: u64) {}
    /// True if blocks of a file written with zeros stay reserved (ext4, XFS, tmpfs), so that a store into its mapping cannot fail for want of space.
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool>;
}

/// One open file. Positions are explicit; all methods may be called from any thread.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the data and the length durable. After an error nothing is known of pages written before (I09).
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Reserves space for `length` bytes and extends the file to it; the new bytes read as zeros.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Maps `length` bytes, shared, writable, populated and not inherited by fork; `None` where the file system declines.
    /// `length` is a multiple of 4096 and the file is at least that long, with its blocks reserved.
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>>;
    /// Tells that a range will be read once from end to end (true) or that its pages are not needed any more (false). A hint.
    fn advise(&self, _offset: u64, _length: u64, _will_need: bool) {}
}

/// A mapping of a file. There is one way in, `store`; bytes survive the process, not the machine, until the file is synced.
pub trait Mapped: Send + Sync + fmt::Debug {
    /// Copies `bytes` to `offset`, both multiples of 8, in words of 8 bytes: after a crash each word is old or new. Never fails.
    /// Two threads must not store to or load from the same word at once, marks (single words) excepted.
    fn store(&self, offset: usize, bytes: &[u8]);
    /// `store` of a head, a body and zeros up to a whole word, one behind the other.
    fn store_framed(&self, offset: usize, head: &[u8; 24], body: &[u8]) {
        let mut joined = [head, body].concat();
        joined.resize(joined.len().next_multiple_of(8), 0);
        self.store(offset, &joined);
    }
    /// `store` of one word.
    fn store_word(&self, offset: usize, word: u64) {
        self.store(offset, &word.to_le_bytes());
    }
    /// `store_word` at two places, one after the other.
    fn store_twice(&self, offsets: [usize; 2], word: u64) {
        offsets.into_iter().for_each(|offset| self.store_word(offset, word));
    }
    /// Copies bytes out; `offset` and the length are multiples of 8.
    fn load(&self, offset: usize, out: &mut [u8]);
    /// Makes stores durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory that is kept open.
pub trait Dir: Send + Sync + fmt::Debug {
    /// Makes its entries durable.
    fn sync(&self) -> io::Result<()>;
}

/// A lock on a store; it goes when this is dropped.
pub trait Lock: Send + Sync + fmt::Debug {}

/// Reads exactly `length` bytes; an early end is `UnexpectedEof`. The caller has checked `length` against the file's (I10).
pub fn read_exact(file: &dyn File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; length];
    read_into(file, offset, &mut buf)?;
    Ok(buf)
}

/// Fills `buf` from `offset` on; an early end is `UnexpectedEof`.
pub fn read_into(file: &dyn File, offset: u64, buf: &mut [u8]) -> io::Result<()> {
    match file.read_at(buf, offset)? {
        n if n == buf.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
