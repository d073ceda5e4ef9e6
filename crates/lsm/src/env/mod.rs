//! The environment: files, the machine's identity, pages of memory, time, randomness, threads. The engine reaches them
//! only through this module (a lint forbids other access).
//!
//! `Fs` has three implementations: `real` (the operating system), `memory` (in-memory stores) and `sim` (crashes,
//! faults, torn and reordered sectors, from a seed). Two more wrap another file system: `store` (used by every open
//! store: the files of its directory are reached through the open directory, never through its path) and `traced` (a
//! transcript of every operation). With `sim`, a manual clock, seeded randomness and stepped work, a whole engine runs
//! in one thread from a seed.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

mod clock;
mod memory;
mod opened;
mod place;
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
pub(crate) use place::PlaceLost;
pub use random::{Random, SeededRandom, SystemRandom};
pub use real::{Origin, Pages, RealFs, is_out_of_descriptors, populate};
pub use sim::SimFs;
/// A time supplied by a caller; no clock is read.
pub use std::time::{SystemTime, UNIX_EPOCH};
pub use store::StoreFs;
pub use traced::TracedFs;

/// The engine's environment. Clones share it.
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers for uids and nonces.
    pub random: Arc<dyn Random>,
    /// The way in which background work is done.
    pub work: work::Mode,
}

impl Env {
    /// Returns the operating system's files, clock and random numbers, with background threads.
    pub fn real() -> Env {
        Env {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            work: work::Mode::Threads,
        }
    }

    /// Returns this environment for a store in `dir`: its files are reached through the open directory (`StoreFs`).
    #[must_use]
    pub fn within(self, dir: &Path) -> Env {
        let mode = self.fs.file_mode();
        self.within_mode(dir, mode)
    }

    /// Returns this environment for a store in `dir` whose new files get a permission mode.
    #[must_use]
    pub(crate) fn within_mode(self, dir: &Path, mode: Option<u32>) -> Env {
        Env { fs: Arc::new(StoreFs::new(self.fs, dir).creating(mode)), ..self }
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
    /// The name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// True for a regular file; false for a directory, a symbolic link, or any other kind.
    pub is_file: bool,
}

/// The way a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing in place.
    Write,
    /// A new file, for reading and writing; fails if the name exists.
    Create,
    /// A new file like `Create`, with this permission mode less the bits of the process's umask. A file system without
    /// modes ignores the mode.
    CreateMode(u32),
}

impl Open {
    /// Returns true if a new file is created.
    pub fn creates(self) -> bool {
        matches!(self, Open::Create | Open::CreateMode(_))
    }
}

/// The kernel and device that hold pages written to a file. As long as kernel and device stay the same, no page is
/// lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// The kernel's boot id; `None` counts as another kernel.
    pub boot_id: Option<[u8; 16]>,
    /// The device number of the directory's file system.
    pub device: u64,
}

impl Machine {
    /// Returns true if pages written under `other` certainly still exist.
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
    /// Adds a second name for a file that will never change again (tables of a checkpoint). Returns `Unsupported` if
    /// the file system has no links.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Lists the names in a directory, in no particular order, without subdirectories.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Lists all entries of a directory, in no particular order: files, subdirectories and other kinds, including names
    /// that are not UTF-8.
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        Ok(self.list(dir)?.into_iter().map(|name| DirEntry { name, is_file: true }).collect())
    }
    /// Creates a directory and its parents; succeeds if the directory exists.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates a directory like `create_dir_all`, with this permission mode less the bits of the process's umask. Parents
    /// get the default mode. A file system without modes ignores the mode.
    fn create_dir_mode(&self, dir: &Path, _mode: u32) -> io::Result<()> {
        self.create_dir_all(dir)
    }
    /// Returns the permission mode of new files, if this file system sets one.
    fn file_mode(&self) -> Option<u32> {
        None
    }
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Returns true if a file or directory with this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a directory. Returns `None` if this file system reaches files by path only.
    fn hold_dir(&self, _dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        Ok(None)
    }
    /// Releases the descriptors and mappings of all files that were opened through this file system, when the store is
    /// closed. Only the file system of an open store does so (`StoreFs`); others are shared.
    fn close(&self) {}
    /// Links a file to a name in an open directory, like `link`.
    fn link_into(&self, _from: &Path, _dir: &dyn Dir, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes the lock file, or returns the text that its holder wrote into it. The lock is released when the returned
    /// value is dropped or the process ends.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>>;
    /// Locks a directory itself, without a file. Returns `None` if another handle has locked it. If directories cannot
    /// be locked, the returned lock has no effect.
    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        match self.hold_dir(dir)? {
            Some(dir) => dir.lock(),
            None => Ok(Some(Box::new(Unlocked))),
        }
    }
    /// Renames a file over the file whose contents identify the open store (`CURRENT`). From now on `check_place` fails
    /// if that file has other contents.
    fn rename_pinned(&self, from: &Path, to: &Path, _contents: &[u8]) -> io::Result<()> {
        self.rename(from, to)
    }
    /// Fails once the lock file that `lock` took has lost its name or its directory, or the pinned file has other
    /// contents: another process may have opened or replaced the store. `Error::io` turns the failure into `Halted`.
    fn check_place(&self) -> io::Result<()> {
        Ok(())
    }
    /// Returns the kernel and device of a directory.
    fn machine(&self, dir: &Path) -> io::Result<Machine>;
    /// Returns the soft limit on open files of the process (`RLIMIT_NOFILE`); `None` if only memory limits them.
    fn most_open(&self) -> Option<u64> {
        None
    }
    /// Announces that this many files may soon be open at the same time, so that a system that must wait to make room
    /// for them does so now. A hint.
    fn expect_open(&self, _dir: &Path, _files: u64) {}
    /// Returns true if blocks of a file written with zeros stay reserved (ext4, XFS, tmpfs), so that a store into its
    /// mapping cannot fail for lack of space.
    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool>;
}

/// One open file. Positions are explicit; all methods may be called from any thread.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the data and the length durable. After an error the state of pages written before is unknown (I09).
    fn sync_data(&self) -> io::Result<()>;
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns true if the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Returns an offset behind which the file has no data, only a hole that reads as zeros; at most the length. A file
    /// system that cannot tell returns the length.
    fn data_end(&self) -> io::Result<u64> {
        self.len()
    }
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Reserves space for `length` bytes and extends the file to it; the new bytes read as zeros.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Maps `length` bytes, shared, writable and not inherited by fork. Returns `None` if the file system declines.
    /// `length` is a multiple of 4096, and the file is at least that long. Its first page has been written; any other
    /// page accepts stores only after `Mapped::prepare`.
    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>>;
    /// Announces that a range will be read once from end to end (true), or that its pages are no longer needed (false).
    /// A hint.
    fn advise(&self, _offset: u64, _length: u64, _will_need: bool) {}
}

/// A mapping of a file. It is written only through `store`; stored bytes survive the process, but not the machine until
/// the file is synced.
pub trait Mapped: Send + Sync + fmt::Debug {
    /// Copies `bytes` to `offset`, both multiples of 8, in words of 8 bytes: after a crash each word is old or new.
    /// Never fails. Two threads must not store to or load from the same word concurrently, except for marks (single
    /// words).
    fn store(&self, offset: usize, bytes: &[u8]);
    /// Prepares whole pages for `store`: reserves their blocks, writes zeros, and loads the pages into memory, so that
    /// no store into them can fail. No bytes may be stored there before. After an error the range is not ready.
    fn prepare(&self, offset: usize, length: usize) -> io::Result<()>;
    /// Stores a head, a body, and zeros up to a whole word, consecutively.
    fn store_framed(&self, offset: usize, head: &[u8; 24], body: &[u8]) {
        let mut joined = [head, body].concat();
        joined.resize(joined.len().next_multiple_of(8), 0);
        self.store(offset, &joined);
    }
    /// Stores one word.
    fn store_word(&self, offset: usize, word: u64) {
        self.store(offset, &word.to_le_bytes());
    }
    /// Stores a word at two offsets, one after the other.
    fn store_twice(&self, offsets: [usize; 2], word: u64) {
        offsets.into_iter().for_each(|offset| self.store_word(offset, word));
    }
    /// Copies bytes out; `offset` and the length are multiples of 8.
    fn load(&self, offset: usize, out: &mut [u8]);
    /// Makes earlier stores durable.
    fn sync(&self) -> io::Result<()>;
    /// Unmaps the file. After this call stores reach no file and loads read zeros. It may be called concurrently with
    /// both.
    fn release(&self);
}

/// An open directory. It reaches its files by name and remains valid when the directory is renamed. For a removed
/// directory, calls that need a name return `NotFound`.
pub trait Dir: Any + Send + Sync + fmt::Debug {
    /// Opens a file, as `Fs::open` does.
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>>;
    /// Renames a file within the directory, replacing `to` if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Adds a second name for a file in another open directory. Returns `Unsupported` if the file system has no links.
    fn link(&self, name: &str, into: &dyn Dir, new: &str) -> io::Result<()>;
    /// Lists the names of the files in the directory, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Lists all entries of the directory, as `Fs::entries` does.
    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        Ok(self.list()?.into_iter().map(|name| DirEntry { name, is_file: true }).collect())
    }
    /// Returns true if the directory has an entry with this name.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Returns the identity of a file without opening it. Returns `None` if the file system records none; the caller
    /// must then read the file.
    fn stamp(&self, _name: &str) -> io::Result<Option<FileStamp>> {
        Ok(None)
    }
    /// Makes the directory's entries durable.
    fn sync(&self) -> io::Result<()>;
    /// Locks the directory itself, as `Fs::lock_dir` does.
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>>;
    /// Takes a lock file, as `Fs::lock` does.
    fn lock_file(&self, name: &str, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>>;
    /// Returns the kernel and device of the directory.
    fn machine(&self) -> io::Result<Machine>;
    /// Returns true if blocks of a file written with zeros stay reserved.
    fn reserves_blocks(&self) -> io::Result<bool>;
    /// Prepares the process for this many open files. A hint.
    fn expect_open(&self, _files: u64) {}
    /// Returns true if the path leads to this directory.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

/// The identity and last change of a named file: equal for two lookups if the file was neither replaced nor written
/// between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStamp {
    /// Device and inode.
    pub file: (u64, u64),
    /// Length in bytes.
    pub length: u64,
    /// Times of the last changes of the contents and of the inode, each in seconds and nanoseconds.
    pub changed: [(i64, i64); 2],
}

/// A lock on a store, released when it is dropped.
pub trait Lock: Send + Sync + fmt::Debug {
    /// Returns true while the name under which the lock file was opened still refers to it. Costs one directory lookup.
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

/// Fails with `OutOfMemory` if `length` bytes cannot be allocated now. Call it before an allocation whose length a file
/// states: a hostile file may state any, and a failed allocation aborts the process.
pub fn check_room(length: usize) -> io::Result<()> {
    if length >= CHECKED_ROOM_BYTES {
        let mut room = Vec::<u8>::new();
        room.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        std::hint::black_box(room.as_ptr()); // otherwise the compiler may remove the allocation and assume its success
    }
    Ok(())
}

/// Sets the length of a buffer; new bytes are zero. Returns `OutOfMemory` if the memory is not available.
pub fn try_resize(buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    buffer.try_reserve(length.saturating_sub(buffer.len())).map_err(|_| io::ErrorKind::OutOfMemory)?;
    buffer.resize(length, 0);
    Ok(())
}

/// Appends bytes to a buffer. Returns `OutOfMemory` if the memory is not available.
pub fn try_extend(buffer: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    buffer.try_reserve(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    buffer.extend_from_slice(bytes);
    Ok(())
}

/// Copies bytes. Returns `OutOfMemory` if the memory is not available.
pub fn try_copy(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Reads exactly `length` bytes; an early end is `UnexpectedEof`. The caller has checked `length` against the file's
/// length (I10). Returns `OutOfMemory` if the memory is not available.
pub fn read_exact(file: &dyn File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    check_room(length)?;
    let mut buf = vec![0; length];
    read_into(file, offset, &mut buf)?;
    Ok(buf)
}

/// Fills `buf` from `offset` on; an early end of the file is `UnexpectedEof`.
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
        let mut buffer = b"kept".to_vec();
        assert_eq!(try_resize(&mut buffer, isize::MAX as usize).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(buffer, b"kept");
        try_resize(&mut buffer, 5).unwrap();
        assert_eq!(buffer, b"kept\0");
        assert!(check_room(0).is_ok() && check_room(CHECKED_ROOM_BYTES).is_ok());
    }
}
