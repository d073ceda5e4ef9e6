//! Mounting and unmounting.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use waxseal_files::FileStore;

use crate::file_system::FileSystem;
use crate::handles::OpenHandles;
use crate::kernel_cache::KernelCache;

/// Threads that answer the kernel. One that makes changes durable answers nothing else meanwhile.
const THREADS: usize = 8;
/// How often a store that another process writes is looked at again, and what is open for snapshots to give back.
const REFRESH: Duration = Duration::from_secs(1);
/// How long the session may take to end after the directory is unmounted.
const GRACE: Duration = Duration::from_secs(2);

/// How a store is mounted.
#[derive(Debug)]
pub struct MountOptions {
    /// The files. The mount is for writing if their store is open for writing.
    pub files: FileStore,
    /// The directory of the store.
    pub store: PathBuf,
    /// The directory that shows the files.
    pub directory: PathBuf,
    /// Other users may use the mount, too. The kernel checks the permissions of the files.
    pub allow_other: bool,
    /// A handle that was not used for this time gives its snapshot back. Reading it fails with `ESTALE` then, unless
    /// the content is the same or the directory is read from its start.
    pub idle: Duration,
}

/// A store that is mounted.
#[derive(Debug)]
pub struct Mounted {
    runtime: Runtime,
    signals: [Signal; 3],
    files: FileStore,
    directory: PathBuf,
    /// The number of the mount's device.
    device: (u32, u32),
    idle: Duration,
    open: Arc<OpenHandles>,
    kernel_cache: KernelCache,
    unmounter: SessionUnmounter,
    session: JoinHandle<io::Result<()>>,
    ended: oneshot::Receiver<()>,
}

impl Mounted {
    /// Mounts a store. A mount that a killed process has left is removed first. From here on, SIGTERM, SIGINT and SIGHUP
    /// end [`wait`](Mounted::wait) alone. Another user than root needs `fusermount3`. Errors: the directory does not
    /// exist, is no directory or is a mount point, or FUSE is not permitted.
    pub fn mount(options: MountOptions) -> io::Result<Mounted> {
        let MountOptions { files, store, directory, allow_other, idle } = options;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _entered = runtime.enter();
            [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?]
        };
        // Without the flag the kernel answers for a second after the process has been killed.
        let asked = rustix::fs::statx(CWD, &directory, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
        if asked.err() == Some(Errno::NOTCONN) {
            detach(&directory)?;
        }
        if !std::fs::metadata(&directory)?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        if is_mount_point(&directory)? {
            return Err(Errno::BUSY.into());
        }
        let mut config = Config::default();
        config.mount_options = vec![
            if files.db().is_read_only() { MountOption::RO } else { MountOption::RW },
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::DefaultPermissions,
            MountOption::FSName(store.display().to_string().replace(',', "_")),
            MountOption::Subtype("waxseal".to_owned()),
        ];
        config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(THREADS);
        let open = Arc::new(OpenHandles::new());
        let file_system = FileSystem::new(files.clone(), File::open(&store)?, Arc::clone(&open), allow_other);
        let inodes = file_system.inodes();
        let mut session = Session::new(file_system, &directory, &config).map_err(explained)?;
        let device = device_at(&directory)?;
        let unmounter = session.unmount_callable();
        let kernel_cache = KernelCache::new(inodes, session.notifier());
        let (end, ended) = oneshot::channel();
        let session = std::thread::Builder::new().name("waxseal-mount".to_owned()).spawn(move || {
            let outcome = session.run();
            let _ = end.send(()); // nobody waits any more
            outcome
        })?;
        Ok(Mounted { runtime, signals, files, directory, device, idle, open, kernel_cache, unmounter, session, ended })
    }

    /// Returns the cache of the kernel, to be invalidated after changes that do not come through the mount.
    pub fn kernel_cache(&self) -> KernelCache {
        self.kernel_cache.clone()
    }

    /// Serves until SIGTERM, SIGINT or SIGHUP, and unmounts then, or until the directory is unmounted. Files that are
    /// open then fail with `ENOTCONN`, after a commit of their changes. Errors: also those of this commit.
    pub fn wait(mut self) -> io::Result<()> {
        let Mounted { runtime, signals, files, ended, open, idle, .. } = &mut self;
        let [terminate, interrupt, hang_up] = signals;
        let is_unmounted = runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return false,
                    _ = interrupt.recv() => return false,
                    _ = hang_up.recv() => return false,
                    _ = &mut *ended => return true,
                    () = tokio::time::sleep(REFRESH) => {}
                }
                if let Some(since) = Instant::now().checked_sub(*idle) {
                    open.give_back_idle(since);
                }
                if files.db().is_read_only() {
                    let _ = files.db().refresh(); // a failure leaves the state that was seen last
                }
            }
        });
        if !is_unmounted {
            return self.unmount();
        }
        let joined = joined(self.session);
        joined.and(self.open.end().map_err(io::Error::from))
    }

    /// Unmounts the directory, also while files are open: their changes are committed, and further ones fail with
    /// `ENOTCONN`. Leaves a mount alone that has taken the directory meanwhile. Returns the first error, after all
    /// steps.
    pub fn unmount(self) -> io::Result<()> {
        let Mounted { runtime, directory, device, open, mut unmounter, session, ended, .. } = self;
        let unmounted = match device_at(&directory) {
            Ok(found) if found == device => unmounter.unmount().or_else(|_| detach(&directory)), // files are open
            _ => Ok(()),
        };
        // Open files keep the session, which then ends with the process.
        let is_ended = runtime.block_on(async { tokio::time::timeout(GRACE, ended).await }).is_ok();
        let committed = open.end().map_err(io::Error::from);
        unmounted.and(committed).and(if is_ended { joined(session) } else { Ok(()) })
    }
}

/// Names what a mount lacks, where the error of the system does not.
fn explained(error: io::Error) -> io::Error {
    const DEVICE: &str = "/dev/fuse";
    let reason = match File::options().read(true).write(true).open(DEVICE).map_err(|error| error.kind()) {
        Err(ErrorKind::NotFound) => "the system has no FUSE: there is no /dev/fuse",
        Err(_) => "this user may not open /dev/fuse",
        Ok(_) if error.kind() == ErrorKind::NotFound => {
            "other users than root mount by fusermount3, which is not installed (package fuse3)"
        }
        Ok(_) => return error,
    };
    io::Error::new(error.kind(), reason)
}

fn joined(session: JoinHandle<io::Result<()>>) -> io::Result<()> {
    session.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount has panicked")))
}

/// Returns true if something is mounted at a directory.
fn is_mount_point(directory: &Path) -> io::Result<bool> {
    let status = rustix::fs::statx(CWD, directory, AtFlags::NO_AUTOMOUNT, StatxFlags::empty())?;
    if status.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8. The root is the directory above itself.
    let (own, above) = (rustix::fs::stat(directory)?, rustix::fs::stat(directory.join(".."))?);
    Ok(own.st_dev != above.st_dev || own.st_ino == above.st_ino)
}

/// Returns the number of the device that a directory is on. Asks no file system: it may be one that answers nothing.
fn device_at(directory: &Path) -> io::Result<(u32, u32)> {
    let status = rustix::fs::statx(CWD, directory, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
    Ok((status.stx_dev_major, status.stx_dev_minor))
}

/// Removes a mount whatever uses it.
fn detach(directory: &Path) -> io::Result<()> {
    let unmounted = rustix::mount::unmount(directory, rustix::mount::UnmountFlags::DETACH);
    if unmounted != Err(Errno::PERM) {
        return Ok(unmounted?);
    }
    let mut helper = Command::new("fusermount3"); // it may unmount for others than root
    helper.args(["-u", "-z", "--"]).arg(directory).stdin(Stdio::null());
    match helper.status()?.success() {
        true => Ok(()),
        false => Err(Errno::PERM.into()),
    }
}
