//! Files in memory, for stores without a disk: plain and fast. No data is lost while the process lives, and none
//! survives it.
//!
//! There is no mapping (`map` declines, so stores use plain writes), no boot id, and a sync does nothing. A removed
//! file remains usable through open handles. Clones share the same files.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::tree::{NameTree, TreeChange, TreeEntry, TreePath};
use super::work::lock;
use super::{Dir, DirEntry, File, Fs, Lock, Machine, Mapped, Open};
use dir::MemoryDir;

mod dir;

/// A file system in memory.
#[derive(Clone)]
pub struct MemoryFs {
    state: Arc<Mutex<MemoryFsState>>,
}

struct MemoryFsState {
    tree: NameTree,
    files: HashMap<u64, Linked>,
    /// The locked directories.
    locked_dirs: HashSet<u64>,
    next: u64,
}

/// A file and the number of its names.
struct Linked {
    content: Arc<MemoryContent>,
    names: u32,
}

impl MemoryFs {
    /// An empty file system.
    pub fn new() -> MemoryFs {
        MemoryFs { state: Arc::new(Mutex::new(MemoryFsState::new())) }
    }
}

impl Default for MemoryFs {
    fn default() -> Self {
        MemoryFs::new()
    }
}

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryFs")
    }
}

impl MemoryFsState {
    fn new() -> MemoryFsState {
        MemoryFsState { tree: NameTree::new(), files: HashMap::new(), locked_dirs: HashSet::new(), next: 1 }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn create(&mut self, at: TreePath) -> io::Result<Arc<MemoryContent>> {
        let file = self.number();
        let change = self.tree.plan_put(at, TreeEntry::File(file))?;
        let content = Arc::new(MemoryContent::default());
        self.files.insert(file, Linked { content: content.clone(), names: 0 });
        self.apply(&change);
        Ok(content)
    }

    fn existing(&self, at: &TreePath) -> io::Result<Arc<MemoryContent>> {
        Ok(self.files[&self.tree.file_at(at)?].content.clone())
    }

    fn open(&mut self, at: TreePath, how: Open) -> io::Result<Arc<dyn File>> {
        let content = match how {
            Open::Create | Open::CreateMode(_) => self.create(at)?,
            Open::Read | Open::Write => self.existing(&at)?,
        };
        Ok(Arc::new(MemoryFile { content, writable: how != Open::Read }))
    }

    fn lock(&mut self, at: TreePath, holder: &str) -> io::Result<Result<Arc<MemoryContent>, String>> {
        let content = match self.existing(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.create(at)?,
            found => found?,
        };
        if content.locked.swap(true, Ordering::Acquire) {
            let mut holder = vec![0; content.read().length.min(4096) as usize];
            let length = content.read().read_at(&mut holder, 0);
            return Ok(Err(String::from_utf8_lossy(&holder[..length]).trim().to_owned()));
        }
        let mut bytes = content.write();
        bytes.set_len(0);
        bytes.write_at(holder.as_bytes(), 0);
        drop(bytes);
        Ok(Ok(content))
    }

    fn file_names(&self, dir: u64) -> Vec<String> {
        let files = self.tree.entries(dir).iter().filter(|(_, entry)| matches!(entry, TreeEntry::File(_)));
        files.map(|(name, _)| name.to_string()).collect()
    }

    fn apply(&mut self, change: &TreeChange) {
        self.tree.apply(change);
        match change {
            TreeChange::Put { entry, .. } => self.count(*entry, 1),
            TreeChange::Take { entry, .. } => self.count(*entry, -1),
            TreeChange::Move { replaced: Some(replaced), .. } => self.count(*replaced, -1),
            TreeChange::Move { replaced: None, .. } => {}
        }
    }

    /// Adjusts a file's name count; a file without names is removed from the map.
    fn count(&mut self, entry: TreeEntry, by: i32) {
        if let TreeEntry::File(file) = entry
            && let Some(linked) = self.files.get_mut(&file)
        {
            linked.names = linked.names.saturating_add_signed(by);
            if linked.names == 0 {
                self.files.remove(&file);
            }
        }
    }
}

impl Fs for MemoryFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = lock(&self.state);
        let at = state.tree.place(path)?;
        state.open(at, how)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        if let Some(change) = state.tree.plan_rename(from, to)? {
            state.apply(&change);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let change = state.tree.plan_remove(state.tree.place(path)?)?;
        state.apply(&change);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let file = state.tree.file(from)?;
        let change = state.tree.plan_put(state.tree.place(to)?, TreeEntry::File(file))?;
        state.apply(&change);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        Ok(state.file_names(state.tree.dir(dir)?))
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = lock(&self.state);
        Ok(state.tree.dir_entries(state.tree.dir(dir)?))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        for path in state.tree.missing_dirs(dir)? {
            let dir = state.number();
            let change = state.tree.plan_put(state.tree.place(&path)?, TreeEntry::Dir(dir))?;
            state.tree.add_dir(dir);
            state.apply(&change);
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let change = state.tree.plan_remove_dir(dir)?;
        state.apply(&change);
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match lock(&self.state).tree.lookup(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        lock(&self.state).tree.dir(dir).map(drop)
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        let dir = lock(&self.state).tree.dir(dir)?;
        Ok(Some(Arc::new(MemoryDir { fs: self.clone(), dir })))
    }

    fn link_into(&self, from: &Path, dir: &dyn Dir, name: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        let file = state.tree.file(from)?;
        let change = state.tree.plan_put(MemoryDir::of(dir)?.place(&state, name)?, TreeEntry::File(file))?;
        state.apply(&change);
        Ok(())
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        let mut state = lock(&self.state);
        let at = state.tree.place(path)?;
        Ok(match state.lock(at.clone(), holder)? {
            Ok(content) => Ok(Box::new(MemoryLock { state: self.state.clone(), content, at })),
            Err(holder) => Err(holder),
        })
    }

    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        lock(&self.state).tree.dir(dir)?;
        Ok(Machine::default())
    }

    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        lock(&self.state).tree.dir(dir)?;
        Ok(false)
    }
}

/// A file's bytes, and whether the file is held as a lock.
#[derive(Default)]
struct MemoryContent {
    bytes: RwLock<Chunks>,
    locked: AtomicBool,
}

impl MemoryContent {
    fn read(&self) -> RwLockReadGuard<'_, Chunks> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Chunks> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Large enough that a table has few chunks, small enough that growth never copies much.
const CHUNK: usize = 1 << 16;

/// Bytes in chunks, each as long as it was written; the missing part of a chunk before the end reads as zeros.
#[derive(Default)]
struct Chunks {
    chunks: Vec<Vec<u8>>,
    length: u64,
}

impl Chunks {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let length = self.length.saturating_sub(offset).min(buf.len() as u64) as usize;
        for_each_chunk(offset, length, |chunk, within, from, n| {
            let out = &mut buf[from..from + n];
            let held = self.chunks.get(chunk).and_then(|bytes| bytes.get(within..)).unwrap_or_default();
            let known = held.len().min(n);
            out[..known].copy_from_slice(&held[..known]);
            out[known..].fill(0);
        });
        length
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        for_each_chunk(offset, bytes.len(), |chunk, within, from, n| {
            let held = self.chunk(chunk);
            if held.len() < within + n {
                held.resize(within, 0);
                held.extend_from_slice(&bytes[from..from + n]);
            } else {
                held[within..within + n].copy_from_slice(&bytes[from..from + n]);
            }
        });
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    fn chunk(&mut self, at: usize) -> &mut Vec<u8> {
        if self.chunks.len() <= at {
            self.chunks.resize_with(at + 1, Vec::new);
        }
        &mut self.chunks[at]
    }

    fn set_len(&mut self, length: u64) {
        if length < self.length {
            self.chunks.truncate(length.div_ceil(CHUNK as u64) as usize);
            let last = (length % CHUNK as u64) as usize;
            if last > 0 && self.chunks.len() as u64 == length.div_ceil(CHUNK as u64) {
                self.chunks.last_mut().into_iter().for_each(|chunk| chunk.truncate(last));
            }
        }
        self.length = length;
    }
}

/// Splits `length` bytes from `offset` on: calls `call` with the chunk, the offset in the chunk, the offset in the
/// range, and the length.
fn for_each_chunk(offset: u64, length: usize, mut call: impl FnMut(usize, usize, usize, usize)) {
    let mut done = 0;
    while done < length {
        let at = offset + done as u64;
        let within = (at % CHUNK as u64) as usize;
        let n = (length - done).min(CHUNK - within);
        call((at / CHUNK as u64) as usize, within, done, n);
        done += n;
    }
}

struct MemoryFile {
    content: Arc<MemoryContent>,
    writable: bool,
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryFile")
    }
}

impl MemoryFile {
    fn writable(&self) -> io::Result<RwLockWriteGuard<'_, Chunks>> {
        if self.writable { Ok(self.content.write()) } else { Err(ErrorKind::PermissionDenied.into()) }
    }
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.content.read().read_at(buf, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        offset.checked_add(bytes.len() as u64).ok_or(ErrorKind::FileTooLarge)?;
        self.writable()?.write_at(bytes, offset);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.read().length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.writable()?.set_len(length);
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut bytes = self.writable()?;
        if bytes.length < length {
            bytes.set_len(length);
        }
        Ok(())
    }

    fn map(&self, _length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        Ok(None)
    }
}

/// The lock of this process on one file.
struct MemoryLock {
    state: Arc<Mutex<MemoryFsState>>,
    content: Arc<MemoryContent>,
    at: TreePath,
}

impl fmt::Debug for MemoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryLock")
    }
}

impl Lock for MemoryLock {
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(lock(&self.state).existing(&self.at).is_ok_and(|content| Arc::ptr_eq(&content, &self.content)))
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.content.locked.store(false, Ordering::Release);
    }
}
