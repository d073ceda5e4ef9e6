//! The outside world: files, the machine's identity, pages of memory, time, randomness, threads. The only door to them (a lint holds it shut elsewhere).
//!
//! Three file systems stand behind `Fs`: `real` (the operating system), `memory` (in-memory stores) and `sim` (crashes, faults, torn and
//! reordered sectors, from a seed). Two stand before another one: `store` (every open store has it: the files of its directory are reached
//! through the open directory, never through its path) and `traced` (a transcript of every operation).
//! With `sim`, a manual clock, seeded randomness and stepped work, a whole engine runs in one thread from a seed.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

mod clock;
mod memory;
mod opened;
mod random;
mod real;
pub mod sim;
mod store;
mod traced;
mod tree;
pub mod work;

pub use clock::{Clock, ManualClock, SystemClock};
pub use memory::MemoryFs;
pub(crate) use opened::StoreClosed;
pub use random::{Random, SeededRandom, SystemRandom};
pub use real::{Origin, Pages, RealFs, is_out_of_descriptors, populate};
pub use sim::SimFs;
/// A moment that a caller names; nothing is read from a clock.
pub use std::time::{SystemTime, UNIX_EPOCH};
pub(crate) use store::LockLost;
pub use store::StoreFs;
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

    /// This environment for a store in `dir`: its files are reached through the open directory (`StoreFs`).
    #[must_use]
    pub fn within(self, dir: &Path) -> Env {
        Env { fs: Arc::new(StoreFs::new(self.fs, dir)), ..self }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("fs", &self.fs).field("work", &self.work).finish_non_exhaustive()
    }
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The name; what is not UTF-8 of it is replaced.
    pub name: String,
    /// True for a regular file; false for a directory, a symbolic link, and everything else.
    pub is_file: bool,
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
    /// Everything in a directory, in no order: files, subdirectories and what else there is, names that are not UTF-8 included.
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        Ok(self.list(dir)?.into_iter().map(|name| DirEntry { name, is_file: true }).collect())
    }
    /// Makes a directory and its parents; no error if it exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// True if there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a directory. `None`: this file system reaches files by path alone.
    fn hold_dir(&self, _dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        Ok(None)
    }
    /// Releases the descriptors and mappings of all files that were opened through it: the store is closed. Only the file system of an open
    /// store does so (`StoreFs`); others are shared.
    fn close(&self) {}
    /// `link` to a name in an open directory.
    fn link_into(&self, _from: &Path, _dir: &dyn Dir, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes the lock file, or returns what its holder wrote into it. The lock goes with the returned value or its process.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>>;
    /// Locks a directory itself, without a file; `None` if another handle has locked it. Where directories cannot be locked, the lock is of nothing.
    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        match self.hold_dir(dir)? {
            Some(dir) => dir.lock(),
            None => Ok(Some(Box::new(Unlocked))),
        }
    }
    /// False once the lock file that `lock` took has lost its name or its directory: another process may have opened the store.
    fn owns_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// The kernel and device under a directory.
    fn machine(&self, dir: &Path) -> io::Result<Machine>;
    /// The soft limit on open files of the process (`RLIMIT_NOFILE`); none: as many as there is memory for.
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
    /// Maps `length` bytes, shared, writable and not inherited by fork; `None` where the file system declines. `length` is
    /// a multiple of 4096, and the file is at least that long. Its first page was written. A page behind that one takes
    /// stores only after `Mapped::prepare`.
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>>;
    /// Tells that a range will be read once from end to end (true) or that its pages are not needed any more (false). A hint.
    fn advise(&self, _offset: u64, _length: u64, _will_need: bool) {}
}

/// A mapping of a file. There is one way in, `store`; bytes survive the process, not the machine, until the file is synced.
pub trait Mapped: Send + Sync + fmt::Debug {
    /// Copies `bytes` to `offset`, both multiples of 8, in words of 8 bytes: after a crash each word is old or new. Never fails.
    /// Two threads must not store to or load from the same word at once, marks (single words) excepted.
    fn store(&self, offset: usize, bytes: &[u8]);
    /// Makes whole pages ready for `store`: reserves their blocks, writes zeros, and brings the pages into memory, so that
    /// no store into them can fail. Nothing may be stored there before. After an error the range is not ready.
    fn prepare(&self, offset: usize, length: usize) -> io::Result<()>;
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
    /// Unmaps the file. From now on a store reaches no file, and a load reads zeros. Safe beside both.
    fn release(&self);
}

/// An open directory. It reaches its files by name and goes on working when it is renamed. One that was removed answers `NotFound` to
/// whatever needs a name.
pub trait Dir: Any + Send + Sync + fmt::Debug {
    /// Opens a file, as `Fs::open` does.
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>>;
    /// Renames a file within the directory, replacing `to` if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file a second name in another open directory. `Unsupported` where there are no links.
    fn link(&self, name: &str, into: &dyn Dir, new: &str) -> io::Result<()>;
    /// The names of the files in it, in no order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Everything in it, as `Fs::entries` lists it.
    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        Ok(self.list()?.into_iter().map(|name| DirEntry { name, is_file: true }).collect())
    }
    /// True if the directory has an entry of this name.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Makes its entries durable.
    fn sync(&self) -> io::Result<()>;
    /// Locks the directory itself, as `Fs::lock_dir` does.
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>>;
    /// Takes a lock file, as `Fs::lock` does.
    fn lock_file(&self, name: &str, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>>;
    /// The kernel and device under it.
    fn machine(&self) -> io::Result<Machine>;
    /// True if blocks of a file written with zeros stay reserved.
    fn reserves_blocks(&self) -> io::Result<bool>;
    /// Prepares the process for this many open files. A hint.
    fn expect_open(&self, _files: u64) {}
    /// True if the path leads to this directory.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

/// A lock on a store; it goes when this is dropped.
pub trait Lock: Send + Sync + fmt::Debug {
    /// True while the name that the lock file was opened by still stands for it. One look at the directory.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// The lock of a directory that cannot be locked.
#[derive(Debug)]
struct Unlocked;

impl Lock for Unlocked {}

/// Shorter allocations are not checked by `check_room`.
const CHECKED_ROOM_BYTES: usize = 1 << 20;

/// Fails with `OutOfMemory` if `length` bytes cannot be allocated now. Call it before an allocation whose length a file states: a
/// hostile file may state any, and a failed allocation aborts the process.
pub fn check_room(length: usize) -> io::Result<()> {
    if length >= CHECKED_ROOM_BYTES {
        let mut room = Vec::<u8>::new();
        room.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        std::hint::black_box(room.as_ptr()); // else the compiler may drop the allocation and take it for done
    }
    Ok(())
}

/// Reads exactly `length` bytes; an early end is `UnexpectedEof`. The caller has checked `length` against the file's (I10). A length for
/// which there is no memory is `OutOfMemory`.
pub fn read_exact(file: &dyn File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    check_room(length)?;
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

#[cfg(test)]
mod room_tests {
    use super::*;

    #[test]
    fn a_length_without_memory_is_an_error_and_no_abort() {
        let sim = SimFs::new(1);
        sim.write_all("/file", b"few bytes").unwrap();
        let file = sim.open(Path::new("/file"), Open::Read).unwrap();
        for length in [isize::MAX as usize, usize::MAX] {
            assert_eq!(check_room(length).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
            assert_eq!(read_exact(&*file, 0, length).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        }
        assert!(check_room(0).is_ok() && check_room(CHECKED_ROOM_BYTES).is_ok());
    }
}
