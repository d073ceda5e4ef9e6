//! Mounting and unmounting.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::io::Errno;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use waxseal_files::FileStore;

use crate::file_system::FileSystem;

/// Threads that answer the kernel.
const THREADS: usize = 4;
/// How often a store that another process writes is looked at again.
const REFRESH: Duration = Duration::from_secs(1);
/// How long the session may take to end after the directory is unmounted.
const GRACE: Duration = Duration::from_secs(2);

/// How a store is mounted.
#[derive(Debug)]
pub struct MountOptions {
    /// The files.
    pub files: FileStore,
    /// The directory of the store.
    pub store: PathBuf,
    /// The directory that shows the files.
    pub directory: PathBuf,
    /// Other users may use the mount, too. The kernel checks the permissions of the files.
    pub allow_other: bool,
}

/// A store that is mounted.
#[derive(Debug)]
pub struct Mounted {
    runtime: Runtime,
    signals: [Signal; 3],
    files: FileStore,
    directory: PathBuf,
    unmounter: SessionUnmounter,
    session: JoinHandle<io::Result<()>>,
    ended: oneshot::Receiver<()>,
}

impl Mounted {
    /// Mounts a store for reading. A mount that a killed process has left is removed first. From here on, SIGTERM,
    /// SIGINT and SIGHUP end [`wait`](Mounted::wait) alone. Errors: the directory does not exist or is a mount point,
    /// or FUSE is not permitted.
    pub fn mount(options: MountOptions) -> io::Result<Mounted> {
        let MountOptions { files, store, directory, allow_other } = options;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _entered = runtime.enter();
            [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?]
        };
        if rustix::fs::stat(&directory).err() == Some(Errno::NOTCONN) {
            detach(&directory)?;
        }
        if is_mount_point(&directory)? {
            return Err(Errno::BUSY.into());
        }
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::DefaultPermissions,
            MountOption::FSName(store.display().to_string().replace(',', "_")),
            MountOption::Subtype("waxseal".to_owned()),
        ];
        config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(THREADS);
        let file_system = FileSystem::new(files.clone(), File::open(&store)?);
        let mut session = Session::new(file_system, &directory, &config)?;
        let unmounter = session.unmount_callable();
        let (end, ended) = oneshot::channel();
        let session = std::thread::Builder::new().name("waxseal-mount".to_owned()).spawn(move || {
            let outcome = session.run();
            let _ = end.send(()); // nobody waits any more
            outcome
        })?;
        Ok(Mounted { runtime, signals, files, directory, unmounter, session, ended })
    }

    /// Serves until SIGTERM, SIGINT or SIGHUP, and unmounts then, or until the directory is unmounted. Files that are
    /// open then fail with `ENOTCONN`.
    pub fn wait(mut self) -> io::Result<()> {
        let Mounted { runtime, signals, files, ended, .. } = &mut self;
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
                if files.db().is_read_only() {
                    let _ = files.db().refresh(); // a failure leaves the state that was seen last
                }
            }
        });
        if is_unmounted { joined(self.session) } else { self.unmount() }
    }

    /// Unmounts the directory, also while files are open: they fail with `ENOTCONN` once the process ends.
    pub fn unmount(self) -> io::Result<()> {
        let Mounted { runtime, directory, mut unmounter, session, ended, .. } = self;
        if unmounter.unmount().is_err() {
            detach(&directory)?; // files are open
        }
        // Open files keep the session, which then ends with the process.
        match runtime.block_on(async { tokio::time::timeout(GRACE, ended).await }) {
            Ok(_) => joined(session),
            Err(_) => Ok(()),
        }
    }
}

fn joined(session: JoinHandle<io::Result<()>>) -> io::Result<()> {
    session.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount has panicked")))
}

/// Returns true if something is mounted at a directory.
fn is_mount_point(directory: &Path) -> io::Result<bool> {
    let (own, above) = (rustix::fs::stat(directory)?, rustix::fs::stat(directory.join(".."))?);
    // The root is the directory above itself.
    Ok(own.st_dev != above.st_dev || own.st_ino == above.st_ino)
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
