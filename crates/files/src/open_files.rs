//! The files that handles have open, by inode number.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use waxseal::env::lock;

use crate::entry::Entry;
use crate::file_state::FileState;
use crate::path::FilePath;

/// Most bytes of changed chunks of one store that wait in memory.
pub(crate) const MAX_CHANGED_BYTES: usize = 64 << 20;

/// The open files of one store.
#[derive(Default)]
pub(crate) struct OpenFiles {
    table: Mutex<HashMap<u64, Opened>>,
    /// The number of files in the table, for readers that look for none.
    count: AtomicUsize,
    /// How many files have left the table.
    closed: AtomicU64,
    changed_bytes: Arc<AtomicUsize>,
}

struct Opened {
    file: Arc<OpenFile>,
    handles: usize,
}

impl Opened {
    /// Returns the file with one more handle.
    fn add(&mut self, is_writing: bool) -> Arc<OpenFile> {
        self.handles += 1;
        self.file.writers.fetch_add(usize::from(is_writing), Ordering::Relaxed);
        Arc::clone(&self.file)
    }
}

/// A file that one or more handles have open.
pub(crate) struct OpenFile {
    inode: u64,
    state: RwLock<FileState>,
    /// How many handles may write. A handle is counted before it can lock the state.
    writers: AtomicUsize,
    /// The part of the store's changed bytes that is this file's.
    own_bytes: AtomicUsize,
    store_bytes: Arc<AtomicUsize>,
}

impl OpenFile {
    /// Returns a file with one handle of its own, in no table.
    pub(crate) fn detached(inode: u64, state: FileState) -> Arc<OpenFile> {
        Arc::new(OpenFile::new(inode, state, &Arc::default()))
    }

    fn new(inode: u64, state: FileState, store_bytes: &Arc<AtomicUsize>) -> OpenFile {
        OpenFile {
            inode,
            state: RwLock::new(state),
            writers: AtomicUsize::new(0),
            own_bytes: AtomicUsize::new(0),
            store_bytes: Arc::clone(store_bytes),
        }
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the number of handles that may write. Under the lock of the state it includes every handle whose changes
    /// wait, except those that are being closed.
    pub(crate) fn writers(&self) -> usize {
        self.writers.load(Ordering::Relaxed)
    }

    /// Notes that a handle writes no more.
    pub(crate) fn end_writing(&self) {
        self.writers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, FileState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, FileState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the changed bytes of a state that was written to. Returns true if the store should flush.
    pub(crate) fn account(&self, state: &FileState) -> bool {
        let now = state.changed_bytes();
        let before = self.own_bytes.swap(now, Ordering::Relaxed);
        self.store_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed); // wraps to a subtraction
        is_full(&self.store_bytes)
    }
}

/// Returns true if changed bytes of a store have to be flushed before others are added.
fn is_full(store_bytes: &AtomicUsize) -> bool {
    store_bytes.load(Ordering::Relaxed) > MAX_CHANGED_BYTES
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.store_bytes.fetch_sub(*self.own_bytes.get_mut(), Ordering::Relaxed);
    }
}

impl OpenFiles {
    /// Returns the open file of an inode with one more handle. `open` returns the state of a file that no handle has
    /// open.
    pub(crate) fn open(&self, entry: Entry, is_writing: bool, open: impl FnOnce(Entry) -> FileState) -> Arc<OpenFile> {
        let inode = entry.metadata.inode;
        let mut table = lock(&self.table);
        let opened = table.entry(inode).or_insert_with(|| Opened {
            file: Arc::new(OpenFile::new(inode, open(entry), &self.changed_bytes)),
            handles: 0,
        });
        let file = opened.add(is_writing);
        self.count.store(table.len(), Ordering::Release);
        file
    }

    /// Returns the open file of an inode with one more handle, if a handle has it open.
    pub(crate) fn open_again(&self, inode: u64, is_writing: bool) -> Option<Arc<OpenFile>> {
        lock(&self.table).get_mut(&inode).map(|opened| opened.add(is_writing))
    }

    /// Returns the open file of an inode, if a handle has it open. Costs one load if no file is open.
    pub(crate) fn find(&self, inode: u64) -> Option<Arc<OpenFile>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.table).get(&inode).map(|opened| Arc::clone(&opened.file))
    }

    /// Returns the number of files that have been closed. If it has not changed since an entry was read, and `find`
    /// returns no file after that, the entry is as the last handle has left it.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns all open files.
    pub(crate) fn all(&self) -> Vec<Arc<OpenFile>> {
        lock(&self.table).values().map(|opened| Arc::clone(&opened.file)).collect()
    }

    /// Returns the inode numbers of all open files.
    pub(crate) fn inodes(&self) -> HashSet<u64> {
        lock(&self.table).keys().copied().collect()
    }

    /// Returns true if the store should flush.
    pub(crate) fn is_full(&self) -> bool {
        is_full(&self.changed_bytes)
    }

    /// Returns the file with the most changed bytes.
    pub(crate) fn most_changed(&self) -> Option<Arc<OpenFile>> {
        self.all().into_iter().max_by_key(|file| file.own_bytes.load(Ordering::Relaxed))
    }

    /// Gives a handle back. Changes of the last one whose flush has failed are lost, and are not committed over those of
    /// the next handle.
    pub(crate) fn close(&self, file: &OpenFile) {
        let mut table = lock(&self.table);
        let Some(opened) = table.get_mut(&file.inode) else { return };
        opened.handles -= 1;
        let last = if opened.handles == 0 { table.remove(&file.inode) } else { None };
        if let Some(last) = &last {
            last.file.write().discard(); // a state is locked with the table locked, never the other way round
            self.closed.fetch_add(1, Ordering::Release); // before others find no file
        }
        self.count.store(table.len(), Ordering::Release);
        drop(table);
        drop(last); // gives the pin back
    }

    /// Notes that an entry was removed or replaced: its handles keep the file without a path.
    pub(crate) fn unlink(&self, inode: u64, now: i64) {
        if let Some(file) = self.find(inode) {
            file.write().set_path(None, now);
        }
    }

    /// Notes that an entry was renamed.
    pub(crate) fn rename(&self, inode: u64, to: &FilePath, now: i64) {
        if let Some(file) = self.find(inode) {
            file.write().set_path(Some(to.clone()), now);
        }
    }

    /// Notes that everything below a path was renamed. The caller holds the whole namespace, or nothing is below.
    pub(crate) fn rename_tree(&self, from: &FilePath, to: &FilePath) {
        self.rename_each(|path| path.is_below(from).then(|| path.moved(from, to)));
    }

    /// Notes that everything below two paths was exchanged. The caller holds the whole namespace, or nothing is below.
    pub(crate) fn exchange_trees(&self, one: &FilePath, other: &FilePath) {
        self.rename_each(|path| match (path.is_below(one), path.is_below(other)) {
            (true, _) => Some(path.moved(one, other)),
            (_, true) => Some(path.moved(other, one)),
            _ => None,
        });
    }

    fn rename_each(&self, new: impl Fn(&FilePath) -> Option<FilePath>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for file in self.all() {
            let mut state = file.write();
            if let Some(new) = state.path.as_ref().and_then(&new) {
                state.path = Some(new);
            }
        }
    }

    /// Takes the path from each open file at or below `path` whose key is at least `from`: the entries were removed. The
    /// caller holds the whole namespace, or the path has no entries below it.
    pub(crate) fn unlink_tree(&self, path: &FilePath, from: &[u8], now: i64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for file in self.all() {
            let mut state = file.write();
            if state.path.as_ref().is_some_and(|own| (own == path || own.is_below(path)) && own.key() >= from) {
                state.set_path(None, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::MAX_CHANGED_BYTES;
    use crate::error::ErrorKind;
    use crate::handle::OpenOptions;
    use crate::path::FilePath;
    use crate::store::FileStore;
    use waxseal::Db;
    use waxseal_lsm::env::sim::SimFs;

    /// A thread that frees memory may hold a file whose last handle has failed to commit it.
    #[test]
    fn lost_changes_are_not_committed_over_later_ones() {
        let disk = SimFs::new(1);
        let fs = FileStore::open(&Db::builder("/store").env(disk.env(1)).open().unwrap(), "files").unwrap();
        let options = OpenOptions::new().write(true).create(true);
        fs.write("file", vec![7; 300_000]).unwrap();
        let lost = fs.open_with("file", &options).unwrap();
        disk.set_free_space(Some(0));
        (0..16).for_each(|part| lost.write_at(&[1; 1 << 20], part << 20).unwrap());
        let held = fs.shared.open_files.most_changed().unwrap();
        assert!(lost.close().is_err());
        disk.set_free_space(None);
        let next = fs.open_with("file", &options).unwrap();
        next.write_at(b"next", 0).unwrap();
        next.close().unwrap();
        fs.flush_file(&held).unwrap();
        drop(held);
        fs.reclaim().unwrap();
        let report = fs.fsck().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        assert!(fs.read("file").unwrap() == [&b"next"[..], &[7; 299_996]].concat());
    }

    /// Changes that their own handle could not commit are committed by the last handle that may write, also while others
    /// read the file.
    #[test]
    fn the_last_writer_commits_what_another_could_not() {
        let disk = SimFs::new(1);
        let fs = FileStore::open(&Db::builder("/store").env(disk.env(1)).open().unwrap(), "files").unwrap();
        let options = OpenOptions::new().write(true).create(true);
        let (one, other) = (fs.open_with("file", &options).unwrap(), fs.open_with("file", &options).unwrap());
        let reader = fs.open("file").unwrap();
        disk.set_free_space(Some(0));
        (0..16).for_each(|part| one.write_at(&[1; 1 << 20], part << 20).unwrap());
        assert!(one.close().is_err());
        disk.set_free_space(None);
        other.close().unwrap();
        drop(reader);
        assert_eq!(fs.stat("file").unwrap().size, 16 << 20);
    }

    /// A close that waits for the directory's lock commits nothing of a rewrite that begins meanwhile. FUSE closes a file
    /// while the process that closed it opens it again.
    #[test]
    fn a_close_leaves_a_rewrite_that_begins_meanwhile() {
        let fs = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        let options = OpenOptions::new().write(true);
        fs.write("file", "old").unwrap();
        for _ in 0..100 {
            let before = fs.open_with("file", &options).unwrap();
            let file = fs.shared.open_files.find(before.inode()).unwrap();
            std::thread::scope(|scope| {
                let other = fs.shared.namespace.lock([&FilePath::ROOT]); // as the commit of another file holds it
                let close = scope.spawn(|| before.close().unwrap());
                while file.writers() > 0 {
                    std::thread::yield_now();
                }
                let rewrite = fs.open_inode(file.inode(), None, &options).unwrap();
                rewrite.write_at(b"new", 0).unwrap();
                drop(other);
                close.join().unwrap();
                assert_eq!(fs.read("file").unwrap(), b"old");
                rewrite.set_len(0).unwrap();
                rewrite.write_at(b"old", 0).unwrap();
            });
        }
    }

    /// A handle that is closed after another one has committed its changes commits nothing of a later rewrite.
    #[test]
    fn changes_that_another_handle_has_committed_are_no_own_changes() {
        let fs = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        let options = OpenOptions::new().write(true).create(true);
        let (one, other) = (fs.open_with("file", &options).unwrap(), fs.open_with("file", &options).unwrap());
        one.write_at(b"old", 0).unwrap();
        other.flush().unwrap();
        other.write_at(b"new", 0).unwrap();
        one.close().unwrap();
        assert_eq!(fs.read("file").unwrap(), b"old");
        other.close().unwrap();
        assert_eq!(fs.read("file").unwrap(), b"new");
    }

    /// A write that fails because memory and disk are full leaves the file as it was.
    #[test]
    fn a_write_without_memory_writes_nothing() {
        let disk = SimFs::new(1);
        let fs = FileStore::open(&Db::builder("/store").env(disk.env(1)).open().unwrap(), "files").unwrap();
        let changed_bytes = &fs.shared.open_files.changed_bytes;
        let file = fs.open_with("file", &OpenOptions::new().write(true).create(true)).unwrap();
        disk.set_free_space(Some(0));
        (0..15).for_each(|part| file.write_at(&[1; 1 << 20], part << 20).unwrap());
        changed_bytes.fetch_add(MAX_CHANGED_BYTES - (16 << 20), Ordering::Relaxed); // as another file does it
        file.append(&[2; 1 << 20]).unwrap();
        let (full, size) = (changed_bytes.load(Ordering::Relaxed), file.metadata().size);
        for _ in 0..2 {
            assert_eq!(file.append(&[3; 1 << 20]).unwrap_err().kind(), ErrorKind::NoSpace);
        }
        assert_eq!((changed_bytes.load(Ordering::Relaxed), file.metadata().size), (full, size));
        disk.set_free_space(None);
        file.append(b"end").unwrap();
        file.close().unwrap();
        assert_eq!(fs.stat("file").unwrap().size, size + 3);
    }

    /// The chunks that a failed write has read are no changes, and a flush gives their memory back.
    #[test]
    fn chunks_of_a_failed_write_are_not_counted_after_a_flush() {
        let fs = FileStore::open(&Db::memory().unwrap(), "files").unwrap();
        fs.write("file", vec![7; 1 << 20]).unwrap();
        let last = fs.families.chunks.range("c".."d").keys().last().unwrap().unwrap();
        fs.families.chunks.delete(last).unwrap();
        let file = fs.open_with("file", &OpenOptions::new().write(true)).unwrap();
        assert!(file.write_at(&[1; 1 << 20], 0).is_err());
        assert!(fs.shared.open_files.changed_bytes.load(Ordering::Relaxed) > 0);
        file.flush().unwrap();
        assert_eq!(fs.shared.open_files.changed_bytes.load(Ordering::Relaxed), 0);
    }
}
