//! A transcript of the operations on another file system, one line each, for golden tests of the order of durability.
//!
//! ```text
//! create 000007.tbl
//! write 000007.tbl 0+4196
//! sync 000007.tbl
//! sync-dir .
//! rename CURRENT.tmp CURRENT
//! store 000004.ring 4096+200
//! ```
//!
//! Paths are relative to the directory of the transcript. Only operations that change or sync data are recorded: no
//! reads, no queries. The line of a failed call ends in `: ` and the kind of its error. Operations are recorded when
//! they end; those of two threads in the order of their ends.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::work::lock;
use super::{Dir, DirEntry, File, FileStamp, Fs, Lock, Machine, Mapped, Open};

/// A file system that records operations and passes them to another one.
#[derive(Clone)]
pub struct TracedFs {
    inner: Arc<dyn Fs>,
    trace: Trace,
}

/// The lines so far, and the directory to which paths are relative.
#[derive(Clone)]
struct Trace {
    root: Arc<Path>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl TracedFs {
    /// Traces `inner`; paths are recorded relative to `root`.
    pub fn new(inner: Arc<dyn Fs>, root: impl AsRef<Path>) -> TracedFs {
        TracedFs { inner, trace: Trace { root: Arc::from(root.as_ref()), lines: Arc::default() } }
    }

    /// Returns the lines since the last `take`, each terminated by a newline.
    pub fn take(&self) -> String {
        std::mem::take(&mut *lock(&self.trace.lines)).into_iter().map(|line| line + "\n").collect()
    }

    /// Adds a line of the test itself.
    pub fn note(&self, text: &str) {
        lock(&self.trace.lines).push(text.to_owned());
    }
}

impl fmt::Debug for TracedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TracedFs over {:?}", self.inner)
    }
}

impl Trace {
    /// Returns a path in the form of the transcript.
    fn name(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root).unwrap_or(path) {
            path if path == Path::new("") => ".".to_owned(),
            path => path.display().to_string(),
        }
    }

    /// Records an operation, and its error if it failed.
    fn line<T>(&self, text: fmt::Arguments<'_>, result: io::Result<T>) -> io::Result<T> {
        let line = match &result {
            Ok(_) => text.to_string(),
            Err(error) => format!("{text}: {:?}", error.kind()),
        };
        lock(&self.lines).push(line);
        result
    }

    /// Records the result of an open.
    fn open(&self, name: String, how: Open, mut inner: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        if how.creates() {
            inner = self.line(format_args!("create {name}"), inner);
        }
        Ok(Arc::new(TracedFile { inner: inner?, name: name.into(), trace: self.clone() }))
    }

    /// Records the result of a lock.
    fn lock(
        &self,
        name: String,
        taken: io::Result<Result<Box<dyn Lock>, String>>,
    ) -> io::Result<Result<Box<dyn Lock>, String>> {
        let refused = if matches!(taken, Ok(Err(_))) { " refused" } else { "" };
        match self.line(format_args!("lock {name}{refused}"), taken)? {
            Ok(inner) => Ok(Ok(Box::new(TracedLock { inner: Some(inner), name, trace: self.clone() }))),
            Err(holder) => Ok(Err(holder)),
        }
    }
}

impl Fs for TracedFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.trace.open(self.trace.name(path), how, self.inner.open(path, how))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let names = (self.trace.name(from), self.trace.name(to));
        self.trace.line(format_args!("rename {} {}", names.0, names.1), self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.trace.line(format_args!("remove {}", self.trace.name(path)), self.inner.remove(path))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let names = (self.trace.name(from), self.trace.name(to));
        self.trace.line(format_args!("link {} {}", names.0, names.1), self.inner.link(from, to))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.entries(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.trace.line(format_args!("create-dir {}", self.trace.name(dir)), self.inner.create_dir_all(dir))
    }

    fn create_dir_mode(&self, dir: &Path, mode: u32) -> io::Result<()> {
        let line = format_args!("create-dir {} {mode:o}", self.trace.name(dir));
        self.trace.line(line, self.inner.create_dir_mode(dir, mode))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.trace.line(format_args!("remove-dir {}", self.trace.name(dir)), self.inner.remove_dir(dir))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.trace.line(format_args!("sync-dir {}", self.trace.name(dir)), self.inner.sync_dir(dir))
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        let held = self.inner.hold_dir(dir)?;
        Ok(held.map(|inner| {
            Arc::new(TracedDir { inner, path: dir.to_owned(), trace: self.trace.clone() }) as Arc<dyn Dir>
        }))
    }

    fn link_into(&self, from: &Path, dir: &dyn Dir, name: &str) -> io::Result<()> {
        let into = TracedDir::of(dir)?;
        let names = (self.trace.name(from), into.name(name));
        let linked = self.inner.link_into(from, &*into.inner, name);
        self.trace.line(format_args!("link {} {}", names.0, names.1), linked)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.trace.lock(self.trace.name(path), self.inner.lock(path, holder))
    }

    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.inner.machine(dir)
    }

    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.inner.reserves_blocks(dir)
    }
}

/// A directory. The transcript names its files by the path under which it was opened.
#[derive(Debug)]
struct TracedDir {
    inner: Arc<dyn Dir>,
    path: PathBuf,
    trace: Trace,
}

impl TracedDir {
    fn of(dir: &dyn Dir) -> io::Result<&TracedDir> {
        (dir as &dyn Any).downcast_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn name(&self, name: &str) -> String {
        self.trace.name(&self.path.join(name))
    }
}

impl Dir for TracedDir {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        self.trace.open(self.name(name), how, self.inner.open(name, how))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let names = (self.name(from), self.name(to));
        self.trace.line(format_args!("rename {} {}", names.0, names.1), self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.trace.line(format_args!("remove {}", self.name(name)), self.inner.remove(name))
    }

    fn link(&self, name: &str, into: &dyn Dir, new: &str) -> io::Result<()> {
        let into = TracedDir::of(into)?;
        let names = (self.name(name), into.name(new));
        let linked = self.inner.link(name, &*into.inner, new);
        self.trace.line(format_args!("link {} {}", names.0, names.1), linked)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        self.inner.entries()
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.inner.exists(name)
    }

    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        self.inner.stamp(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.trace.line(format_args!("sync-dir {}", self.trace.name(&self.path)), self.inner.sync())
    }

    /// Records no line: the lock file taken afterwards has one.
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock()
    }

    fn lock_file(&self, name: &str, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        self.trace.lock(self.name(name), self.inner.lock_file(name, holder))
    }

    fn machine(&self) -> io::Result<Machine> {
        self.inner.machine()
    }

    fn reserves_blocks(&self) -> io::Result<bool> {
        self.inner.reserves_blocks()
    }

    fn expect_open(&self, files: u64) {
        self.inner.expect_open(files);
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_at(path)
    }
}

/// A traced file. Its lines show the name used to open the file, even after a rename.
#[derive(Debug)]
struct TracedFile {
    inner: Arc<dyn File>,
    name: Arc<str>,
    trace: Trace,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trace of {}", PathBuf::from(&*self.root).display())
    }
}

impl File for TracedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let done = self.inner.write_at(bytes, offset);
        self.trace.line(format_args!("write {} {offset}+{}", self.name, bytes.len()), done)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.trace.line(format_args!("sync {}", self.name), self.inner.sync_data())
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn data_end(&self) -> io::Result<u64> {
        self.inner.data_end()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.trace.line(format_args!("set-len {} {length}", self.name), self.inner.set_len(length))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.trace.line(format_args!("allocate {} {length}", self.name), self.inner.allocate(length))
    }

    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        let mapped = self.inner.map(length);
        let declined = if matches!(mapped, Ok(None)) { " declined" } else { "" };
        let mapped = self.trace.line(format_args!("map {} {length}{declined}", self.name), mapped)?;
        Ok(mapped.map(|inner| {
            Arc::new(TracedMapped { inner, name: self.name.clone(), trace: self.trace.clone() }) as Arc<dyn Mapped>
        }))
    }

    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        self.inner.advise(offset, length, will_need);
    }
}

/// A mapping of a traced file.
#[derive(Debug)]
struct TracedMapped {
    inner: Arc<dyn Mapped>,
    name: Arc<str>,
    trace: Trace,
}

impl Mapped for TracedMapped {
    fn prepare(&self, offset: usize, length: usize) -> io::Result<()> {
        let done = self.inner.prepare(offset, length);
        self.trace.line(format_args!("prepare {} {offset}+{length}", self.name), done)
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        self.inner.store(offset, bytes);
        lock(&self.trace.lines).push(format!("store {} {offset}+{}", self.name, bytes.len()));
    }

    fn load(&self, offset: usize, out: &mut [u8]) {
        self.inner.load(offset, out);
    }

    fn sync(&self) -> io::Result<()> {
        self.trace.line(format_args!("sync-map {}", self.name), self.inner.sync())
    }

    fn release(&self) {
        self.inner.release();
    }
}

/// A lock whose release is recorded as well.
#[derive(Debug)]
struct TracedLock {
    inner: Option<Box<dyn Lock>>,
    name: String,
    trace: Trace,
}

impl Lock for TracedLock {
    fn is_in_place(&self) -> io::Result<bool> {
        self.inner.as_ref().map_or(Ok(true), |inner| inner.is_in_place())
    }
}

impl Drop for TracedLock {
    fn drop(&mut self) {
        self.inner = None;
        lock(&self.trace.lines).push(format!("unlock {}", self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::SimFs;
    use crate::env::sim::Fault;

    #[test]
    fn the_transcript_says_what_was_done_in_which_order() {
        let sim = SimFs::new(1);
        let traced = TracedFs::new(Arc::new(sim.clone()), "db");
        let at = |name: &str| Path::new("db").join(name);
        traced.create_dir_all(&at("")).unwrap();
        let lock = traced.lock(&at("LOCK"), "me").unwrap().unwrap();
        assert!(traced.lock(&at("LOCK"), "you").unwrap().is_err());
        let file = traced.open(&at("000004.ring"), Open::Create).unwrap();
        file.allocate(8192).unwrap();
        let mapped = file.map(8192).unwrap().unwrap();
        mapped.prepare(4096, 4096).unwrap();
        mapped.store(4096, &[0; 200]);
        traced.note("-- and now the table");
        let table = traced.open(&at("000007.tbl"), Open::Create).unwrap();
        table.write_at(&[0; 4196], 0).unwrap();
        table.len().unwrap();
        sim.fail_at(0, Fault::SyncFailed);
        table.sync_data().unwrap_err();
        table.sync_data().unwrap();
        traced.rename(&at("000007.tbl"), &at("a")).unwrap();
        traced.link(&at("a"), &at("b")).unwrap();
        traced.remove(&at("a")).unwrap();
        traced.open(&at("b"), Open::Create).unwrap_err();
        traced.sync_dir(&at("")).unwrap();
        drop(lock);
        let expected = "\
create-dir .
lock LOCK
lock LOCK refused
create 000004.ring
allocate 000004.ring 8192
map 000004.ring 8192
prepare 000004.ring 4096+4096
store 000004.ring 4096+200
-- and now the table
create 000007.tbl
write 000007.tbl 0+4196
sync 000007.tbl: Other
sync 000007.tbl
rename 000007.tbl a
link a b
remove a
create b: AlreadyExists
sync-dir .
unlock LOCK
";
        assert_eq!(traced.take(), expected);
        assert_eq!(traced.take(), "");
        assert_eq!(sim.read_all("db/b").unwrap().len(), 4196);
    }
}
