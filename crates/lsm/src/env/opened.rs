//! The open files of one store: closing the store releases their descriptors and mappings.
//!
//! A cursor, a snapshot or a caller's reference to a table may outlive the store's close, and each of them holds
//! tables. A table holds a `File`, but the descriptor behind that file belongs to the store. After `FileTracker::close`
//! every call on such a file fails with `Closed` (`Error::io` recognizes the cause). A call that is running keeps its
//! own descriptor until it returns.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwapOption, Guard};

use super::work::lock;
use super::{File, Mapped};

/// The cause of a failed call on a file of a closed store.
#[derive(Debug)]
pub(crate) struct StoreClosed;

impl fmt::Display for StoreClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store is closed")
    }
}

impl std::error::Error for StoreClosed {}

pub(super) fn closed() -> io::Error {
    io::Error::other(StoreClosed)
}

/// Tracks the files that are open through one file system.
#[derive(Debug, Default)]
pub(super) struct FileTracker(Mutex<Tracked>);

#[derive(Debug, Default)]
struct Tracked {
    is_closed: bool,
    files: Vec<Weak<OpenFile>>,
    /// Number of files that were alive when dropped ones were last removed from the list.
    alive: usize,
}

impl FileTracker {
    /// Returns the same file, which `close` will release. Fails once the store is closed.
    pub(super) fn track(&self, file: Arc<dyn File>) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(OpenFile { file: ArcSwapOption::from_pointee(file), mapped: Mutex::default() });
        let mut tracked = lock(&self.0);
        if tracked.is_closed {
            return Err(closed());
        }
        if tracked.files.len() > 2 * tracked.alive + 64 {
            tracked.files.retain(|file| file.strong_count() > 0);
            tracked.alive = tracked.files.len();
        }
        tracked.files.push(Arc::downgrade(&file));
        Ok(file)
    }

    /// Releases every file and mapping. No file can be opened afterwards.
    pub(super) fn close(&self) {
        let mut tracked = lock(&self.0);
        tracked.is_closed = true;
        let files = std::mem::take(&mut tracked.files);
        drop(tracked);
        files.iter().filter_map(Weak::upgrade).for_each(|file| file.release());
    }
}

/// One file. It has no descriptor once it is released.
#[derive(Debug)]
struct OpenFile {
    file: ArcSwapOption<Arc<dyn File>>,
    mapped: Mutex<Option<Weak<dyn Mapped>>>,
}

impl OpenFile {
    fn open(&self) -> io::Result<OpenGuard> {
        let file = self.file.load();
        if file.is_some() { Ok(OpenGuard(file)) } else { Err(closed()) }
    }

    fn release(&self) {
        self.file.store(None);
        if let Some(mapped) = lock(&self.mapped).take().and_then(|mapped| mapped.upgrade()) {
            mapped.release();
        }
    }
}

/// Keeps the descriptor open during a call.
struct OpenGuard(Guard<Option<Arc<Arc<dyn File>>>>);

impl OpenGuard {
    fn call<T>(&self, call: impl FnOnce(&dyn File) -> io::Result<T>) -> io::Result<T> {
        self.0.as_ref().map_or_else(|| Err(closed()), |file| call(&***file))
    }
}

impl File for OpenFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.open()?.call(|file| file.read_at(buf, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.open()?.call(|file| file.write_at(bytes, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.open()?.call(|file| file.sync_data())
    }

    fn len(&self) -> io::Result<u64> {
        self.open()?.call(|file| file.len())
    }

    fn data_end(&self) -> io::Result<u64> {
        self.open()?.call(|file| file.data_end())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.open()?.call(|file| file.set_len(length))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.open()?.call(|file| file.allocate(length))
    }

    fn map(&self, length: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        let mapped = self.open()?.call(|file| file.map(length))?;
        *lock(&self.mapped) = mapped.as_ref().map(Arc::downgrade);
        Ok(mapped)
    }

    fn advise(&self, offset: u64, length: u64, will_need: bool) {
        let _ = self.open().and_then(|open| {
            open.call(|file| {
                file.advise(offset, length, will_need);
                Ok(())
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::env::{Fs, Open, SimFs};
    use crate::error::{Error, ErrorKind};

    #[test]
    fn a_released_file_holds_no_descriptor_and_answers_closed() {
        let sim = SimFs::new(1);
        sim.create_dir_all(Path::new("/store")).unwrap();
        let open = |name: &str| sim.open(&Path::new("/store").join(name), Open::Create).unwrap();
        let files = FileTracker::default();
        let (file, ring) = (files.track(open("file")).unwrap(), files.track(open("ring")).unwrap());
        file.write_at(b"bytes", 0).unwrap();
        ring.allocate(4096).unwrap();
        let mapped = ring.map(4096).unwrap();
        assert!(sim.open_files().len() >= 2);
        files.close();
        assert_eq!(sim.open_files(), [] as [std::path::PathBuf; 0]);
        let errors = [file.write_at(b"more", 0).unwrap_err(), files.track(open("late")).unwrap_err()];
        for error in errors {
            assert_eq!(Error::io("writing", error).kind(), &ErrorKind::Closed);
        }
        if let Some(mapped) = mapped {
            mapped.store(0, &[1; 8]); // stores after the release reach no file
        }
    }
}
