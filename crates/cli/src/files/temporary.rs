//! Local entries on the way to their names.
//!
//! On Linux a file is written without any name (`O_TMPFILE`), so that a copy that is killed leaves nothing behind. Where
//! that is not possible, and while one entry replaces another, it has the name `.waxseal-PID-N`, and a lock for as long
//! as its process runs. [`remove_stale`] removes such entries of processes that have ended.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::Pid;

const PREFIX: &str = ".waxseal-";

/// The number of the next name that this process gives.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Names of ended processes of the same number that are passed over.
const MOST_TAKEN: usize = 1000;

/// Returns a name that no other entry of this process has.
fn new_name() -> String {
    format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Creates an entry under a new name. An ended process of the same number may have left an entry of that name: the next
/// one is tried.
fn create_named<T>(mut create: impl FnMut(&str) -> Result<T, Errno>) -> Result<(T, String), Errno> {
    for _ in 0..MOST_TAKEN {
        let name = new_name();
        match create(&name) {
            Err(Errno::EXIST) => {}
            created => return created.map(|created| (created, name)),
        }
    }
    Err(Errno::EXIST)
}

/// Returns the process that has given an entry its name, and the number; `None` for any other name.
fn process_of(name: &[u8]) -> Option<(Pid, u64)> {
    let (process, number) = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.split_once('-')?;
    Some((Pid::from_raw(process.parse().ok()?)?, number.parse().ok()?))
}

/// Returns true if the process that has given a name has ended. A process number may be reused by this process: then
/// the name has a number that this process has not reached.
fn has_ended(process: Pid, number: u64) -> bool {
    let is_own = process == rustix::process::getpid();
    is_own && number >= NEXT.load(Ordering::Relaxed) || rustix::process::test_kill_process(process) == Err(Errno::SRCH)
}

/// Removes the entries that copies of ended processes have left in a directory.
pub(crate) fn remove_stale(directory: &impl AsFd) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let Some((process, number)) = process_of(name.as_bytes()) else { continue };
        if has_ended(process, number) && !is_locked(directory, name) {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty()); // another copy may have removed it
        }
    }
    Ok(())
}

/// Returns true for a file that a process writes whose number is not known here, as in another container.
fn is_locked(directory: &impl AsFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK),
        Err(_) => false, // a symbolic link, which nobody locks
    }
}

/// A file that has no name yet, or a temporary one. Dropped, it is gone.
pub(crate) struct Unnamed {
    directory: OwnedFd,
    file: File,
    temporary: Option<String>,
}

impl Unnamed {
    /// Creates a file in a directory.
    pub(crate) fn create(directory: OwnedFd, mode: Mode) -> io::Result<Unnamed> {
        let (file, temporary) = match open_without_name(&directory, mode) {
            Some(file) => (file, None),
            None => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let created = create_named(|name| rustix::fs::openat(&directory, name, flags, mode))?;
                (created.0, Some(created.1))
            }
        };
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive); // not on every file system
        Ok(Unnamed { directory, file: File::from(file), temporary })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, and replaces a file of that name in one step.
    pub(crate) fn name(mut self, name: &OsStr) -> io::Result<()> {
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => match link(&self.file, &self.directory, name) {
                Err(Errno::EXIST) => {
                    create_named(|temporary| link(&self.file, &self.directory, OsStr::new(temporary)))?.1
                }
                linked => return Ok(linked?),
            },
        };
        let renamed = rustix::fs::renameat(&self.directory, &*temporary, &self.directory, name);
        if renamed.is_err() {
            self.temporary = Some(temporary);
        }
        Ok(renamed?)
    }

    /// Gives the file its name. Fails if an entry of that name exists, also if another process has just created it.
    pub(crate) fn name_new(self, name: &OsStr) -> io::Result<()> {
        let directory = &self.directory;
        let linked = match &self.temporary {
            Some(temporary) => match rustix::fs::linkat(directory, &**temporary, directory, name, AtFlags::empty()) {
                // FAT has no hard links.
                Err(Errno::PERM | Errno::NOTSUP) => {
                    rustix::fs::renameat_with(directory, &**temporary, directory, name, RenameFlags::NOREPLACE)
                }
                linked => linked,
            },
            None => link(&self.file, directory, name),
        };
        Ok(linked?) // dropping removes the temporary name
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.directory, &**temporary, AtFlags::empty());
        }
    }
}

/// Opens a file without a name; `None` where there are none, or where they cannot get a name later.
#[cfg(target_os = "linux")]
fn open_without_name(directory: &OwnedFd, mode: Mode) -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, ".", flags, mode).ok()?;
    let is_nameable = rustix::fs::statat(rustix::fs::CWD, own_path(&file), AtFlags::empty()).is_ok();
    is_nameable.then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn open_without_name(_: &OwnedFd, _: Mode) -> Option<OwnedFd> {
    None
}

/// The path by which this process finds an open file.
fn own_path(file: &impl std::os::fd::AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives an open file a name, which must be free.
fn link(file: &File, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    rustix::fs::linkat(rustix::fs::CWD, own_path(file), directory, name, AtFlags::SYMLINK_FOLLOW)
}

/// Creates a symbolic link, or replaces another one in one step.
pub(super) fn replace_symlink(directory: &OwnedFd, target: &OsStr, name: &OsStr) -> io::Result<()> {
    match rustix::fs::symlinkat(target, directory, name) {
        Err(Errno::EXIST) => {}
        made => return Ok(made?),
    }
    let other = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if rustix::fs::FileType::from_raw_mode(other.st_mode) != rustix::fs::FileType::Symlink {
        return Err(Errno::EXIST.into());
    }
    let ((), temporary) = create_named(|temporary| rustix::fs::symlinkat(target, directory, temporary))?;
    let renamed = rustix::fs::renameat(directory, &*temporary, directory, name);
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(directory, &*temporary, AtFlags::empty());
    }
    Ok(renamed?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_entries_are_none_of_a_copy() {
        assert_eq!(process_of(b".waxseal-17-0"), Some((Pid::from_raw(17).unwrap(), 0)));
        assert_eq!(process_of(new_name().as_bytes()).unwrap().0, rustix::process::getpid());
        for other in [&b".waxseal-"[..], b".waxseal-17", b".waxseal-x-1", b".waxseal-0-1", b"waxseal-17-0", b"\xff"] {
            assert_eq!(process_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_changed_link_is_always_there() {
        let dir = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(dir.path()).unwrap());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("first", &link).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..2000 {
                    replace_symlink(&directory, OsStr::new(&number.to_string()), OsStr::new("link")).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                std::fs::read_link(&link).unwrap();
            }
        });
        assert_eq!(std::fs::read_link(&link).unwrap().as_os_str(), "1999");
        std::fs::write(dir.path().join("file"), "kept").unwrap();
        assert!(replace_symlink(&directory, OsStr::new("x"), OsStr::new("file")).is_err());
    }

    #[test]
    fn names_that_an_ended_process_of_this_number_has_left_are_passed_over_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(dir.path()).unwrap());
        let left = |number| format!("{PREFIX}{}-{number}", std::process::id());
        let mut first = None;
        let ((), name) = create_named(|name| match first.replace(name.to_owned()) {
            None => Err(Errno::EXIST),
            Some(_) => Ok(()),
        })
        .unwrap();
        assert_ne!(first, None);
        assert_eq!(process_of(name.as_bytes()).unwrap().0, rustix::process::getpid());
        std::fs::write(dir.path().join(left(u64::MAX)), "left").unwrap();
        std::fs::write(dir.path().join(left(0)), "its own").unwrap();
        remove_stale(&directory).unwrap();
        assert!(!dir.path().join(left(u64::MAX)).exists() && dir.path().join(left(0)).exists());
    }

    /// Creates a file in either way, since a system has one of them alone.
    fn create(dir: &std::path::Path, is_named: bool) -> Unnamed {
        let directory = OwnedFd::from(File::open(dir).unwrap());
        let mut unnamed = Unnamed::create(directory, Mode::from_raw_mode(0o600)).unwrap();
        if is_named && unnamed.temporary.is_none() {
            let name = new_name();
            link(&unnamed.file, &unnamed.directory, OsStr::new(&name)).unwrap();
            unnamed.temporary = Some(name);
        }
        unnamed
    }

    fn names(dir: &std::path::Path) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_with_a_temporary_name_replaces_another_one_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for is_named in [false, true] {
            for _ in 0..2 {
                create(dir.path(), is_named).name(OsStr::new("file")).unwrap();
                drop(create(dir.path(), is_named));
                assert_eq!(names(dir.path()), ["file"]);
            }
        }
    }

    #[test]
    fn a_new_file_replaces_none() {
        for is_named in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            create(dir.path(), is_named).name_new(OsStr::new("file")).unwrap();
            std::fs::write(dir.path().join("file"), "kept").unwrap();
            let error = create(dir.path(), is_named).name_new(OsStr::new("file")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(names(dir.path()), ["file"]);
            assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"kept");
        }
    }
}
