//! An open directory: files are reached with openat, renameat, unlinkat and linkat, and the directory itself can be
//! locked.

use std::any::Any;
use std::ffi::CStr;
use std::fs::{self, File as StdFile};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::retry_on_intr;

use super::{Origin, RealFile, boot_id, space};
use crate::env::{Dir, DirEntry, File, FileStamp, Lock, Machine, Open};

/// Number of attempts to open a lock file that another process removes or replaces before it is locked.
const LOCK_ATTEMPTS: usize = 8;

/// The mode of a file whose creator asks for none: everything that the umask leaves.
const DEFAULT_MODE: u32 = 0o666;

/// An open directory.
#[derive(Debug)]
pub(super) struct RealDir(Arc<StdFile>);

impl RealDir {
    pub(super) fn open(dir: &Path) -> io::Result<RealDir> {
        let opened = retry_on_intr(|| rustix::fs::open(dir, directory(), Mode::empty()))?;
        Ok(RealDir(Arc::new(opened.into())))
    }

    pub(super) fn of(dir: &dyn Dir) -> io::Result<&RealDir> {
        (dir as &dyn Any).downcast_ref().ok_or_else(|| ErrorKind::Unsupported.into())
    }

    /// Links a file given by its path.
    pub(super) fn link_from(&self, from: &Path, name: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, from, &*self.0, name, AtFlags::empty())?)
    }

    fn open_file(&self, name: &str, flags: OFlags, mode: u32) -> io::Result<StdFile> {
        let mode = Mode::from_raw_mode(mode as rustix::fs::RawMode);
        // Opening a pipe in the place of a file would wait for a writer. Regular files ignore the flag.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(retry_on_intr(|| rustix::fs::openat(&*self.0, name, flags, mode))?.into())
    }

    /// Calls `call` with each entry and its kind, "." and ".." included.
    fn each_entry(&self, mut call: impl FnMut(&CStr, FileType)) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&*self.0)? {
            let entry = entry?;
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&*self.0, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            call(entry.file_name(), kind);
        }
        Ok(())
    }

    /// Returns device and inode of a file in the directory; `None` if the file does not exist.
    fn identity(&self, name: &str) -> io::Result<Option<FileIdentity>> {
        match rustix::fs::statat(&*self.0, name, AtFlags::empty()) {
            Ok(stat) => Ok(Some(FileIdentity::of(&stat))),
            Err(error) if io::Error::from(error).kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn directory() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// The identity of a file, independent of its names. It stays unique while the file is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    #[expect(clippy::unnecessary_cast, reason = "the types of these fields differ between systems")]
    fn of(stat: &rustix::fs::Stat) -> FileIdentity {
        FileIdentity { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }
}

impl Dir for RealDir {
    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Create | Open::CreateMode(_) => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let mode = if let Open::CreateMode(mode) = how { mode } else { DEFAULT_MODE };
        Ok(Arc::new(RealFile(self.open_file(name, flags, mode)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&*self.0, from, &*self.0, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&*self.0, name, AtFlags::empty())?)
    }

    fn link(&self, name: &str, into: &dyn Dir, new: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&*self.0, name, &*RealDir::of(into)?.0, new, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.each_entry(|name, kind| {
            if kind != FileType::Directory {
                names.extend(name.to_str().ok().map(str::to_owned));
            }
        })?;
        Ok(names)
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        self.each_entry(|name, kind| {
            if !matches!(name.to_bytes(), b"." | b"..") {
                let name = name.to_string_lossy().into_owned();
                entries.push(DirEntry { name, is_file: kind == FileType::RegularFile });
            }
        })?;
        Ok(entries)
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.identity(name)?.is_some())
    }

    #[allow(clippy::unnecessary_cast, reason = "the types of these fields differ between systems")]
    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        let stat = rustix::fs::statat(&*self.0, name, AtFlags::empty())?;
        let FileIdentity { device, inode } = FileIdentity::of(&stat);
        let written = (stat.st_mtime as i64, stat.st_mtime_nsec as i64);
        let changed = [written, (stat.st_ctime as i64, stat.st_ctime_nsec as i64)];
        Ok(Some(FileStamp { file: (device, inode), length: stat.st_size as u64, changed }))
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all() // `sync_data` may sync the length alone, without the entries
    }

    /// Uses an open file description of its own, so that two handles in one process exclude each other too.
    fn lock(&self) -> io::Result<Option<Box<dyn Lock>>> {
        let dir = StdFile::from(retry_on_intr(|| rustix::fs::openat(&*self.0, ".", directory(), Mode::empty()))?);
        match dir.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealLock::of_dir(dir)))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            // NFS can lock only files open for writing, which excludes directories; some file systems lock no directory
            // either. The lock file remains.
            Err(fs::TryLockError::Error(_)) => Ok(Some(Box::new(RealLock::of_dir(dir)))),
        }
    }

    fn lock_file(&self, name: &str, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        for _ in 0..LOCK_ATTEMPTS {
            let mut file = self.open_file(name, OFlags::RDWR | OFlags::CREATE, DEFAULT_MODE)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let mut holder = Vec::new();
                    file.take(4096).read_to_end(&mut holder)?;
                    return Ok(Err(String::from_utf8_lossy(&holder).trim().to_owned()));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
            let identity = FileIdentity::of(&rustix::fs::fstat(&file)?);
            if self.identity(name)? != Some(identity) {
                continue; // another process removed it before it was locked
            }
            write_holder(&mut file, holder)?;
            let place = Some(LockedFile { dir: self.0.clone(), name: name.to_owned(), identity });
            return Ok(Ok(Box::new(RealLock { file, place, origin: Origin::here() })));
        }
        Err(io::Error::other("the lock file is another one each time it is opened"))
    }

    fn machine(&self) -> io::Result<Machine> {
        Ok(Machine { boot_id: boot_id(), device: self.0.metadata()?.dev() })
    }

    fn reserves_blocks(&self) -> io::Result<bool> {
        space::reserves_blocks(&self.0)
    }

    fn expect_open(&self, files: u64) {
        space::expect_open(&self.0, files);
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(FileIdentity::of(&rustix::fs::stat(path)?) == FileIdentity::of(&rustix::fs::fstat(&*self.0)?))
    }
}

/// Writes the holder's name into the lock file. The lock is valid without it: a full disk does not accept it.
fn write_holder(file: &mut StdFile, holder: &str) -> io::Result<()> {
    let named = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
    match named {
        Err(error) if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Err(error),
        _ => Ok(()),
    }
}

/// The name of a lock file, and the file's identity.
#[derive(Debug)]
struct LockedFile {
    dir: Arc<StdFile>,
    name: String,
    identity: FileIdentity,
}

/// An flock on the lock file or the directory; the kernel releases it with the last descriptor.
#[derive(Debug)]
struct RealLock {
    file: StdFile,
    /// `None` for a directory's lock.
    place: Option<LockedFile>,
    origin: Origin,
}

impl RealLock {
    fn of_dir(file: StdFile) -> RealLock {
        RealLock { file, place: None, origin: Origin::here() }
    }
}

impl Lock for RealLock {
    fn is_in_place(&self) -> io::Result<bool> {
        let Some(place) = &self.place else { return Ok(true) };
        Ok(RealDir(place.dir.clone()).identity(&place.name)? == Some(place.identity))
    }
}

impl Drop for RealLock {
    /// Unlocks explicitly, because a child between fork and exec also has a descriptor and would keep the lock for that
    /// time. The child's own copy of this value must not unlock: the lock belongs to the parent.
    fn drop(&mut self) {
        if self.origin.is_here() {
            let _ = self.file.unlock();
        }
    }
}
