//! The Unix socket in the directory of a store. Its owner alone may connect.
//!
//! The address of a socket has at most 108 bytes. The directory is therefore opened, and the socket addressed below its
//! descriptor (`/proc/self/fd/N`), so that the length of its path does not matter.

use std::fs::File;
use std::io;
#[cfg(feature = "server")]
use std::os::fd::AsFd;
#[cfg(feature = "server")]
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The name of the socket.
const NAME: &str = "files.sock";

/// Opens the directory, and returns with it a path of the socket for as long as it is open.
fn address(directory: &Path) -> io::Result<(File, PathBuf)> {
    let open = File::open(directory)?;
    #[cfg(target_os = "linux")]
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", std::os::fd::AsRawFd::as_raw_fd(&open)));
    #[cfg(not(target_os = "linux"))]
    let path = directory.join(NAME);
    Ok((open, path))
}

/// Connects to the process that serves a store. `None` if none does.
pub(crate) fn connect(directory: &Path) -> io::Result<Option<UnixStream>> {
    let (_open, path) = address(directory)?;
    match UnixStream::connect(path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name of a socket that listens. Dropped, it is removed.
#[cfg(feature = "server")]
#[derive(Debug)]
pub(crate) struct SocketName {
    directory: File,
}

/// Listens in a directory. Replaces a socket that is there: the caller holds the lock of the store, so that the process
/// that made it has ended.
#[cfg(feature = "server")]
pub(crate) fn bind(directory: &Path) -> io::Result<(UnixListener, SocketName)> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
    let (directory, path) = address(directory)?;
    remove(&directory)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
    let name = SocketName { directory };
    // Nobody can connect before the call of `listen`.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::chmodat(name.directory.as_fd(), NAME, mode, rustix::fs::AtFlags::empty())?;
    rustix::net::listen(&socket, 128)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

#[cfg(feature = "server")]
fn remove(directory: &File) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, NAME, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(feature = "server")]
impl Drop for SocketName {
    fn drop(&mut self) {
        let _ = remove(&self.directory); // the next server replaces it
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_its_owners_and_replaces_that_of_an_ended_process() {
        let dir = tempfile::tempdir().unwrap();
        // Longer than the address of a socket may be.
        let deep = dir.path().join(format!("{0}/{0}", "d".repeat(120)));
        std::fs::create_dir_all(&deep).unwrap();
        assert!(connect(&deep).unwrap().is_none());
        let socket = bind(&deep).unwrap();
        assert_eq!(std::fs::metadata(deep.join(NAME)).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(connect(&deep).unwrap().is_some());
        // As a process leaves it that is killed: a name on which nobody listens.
        std::fs::hard_link(deep.join(NAME), deep.join("kept")).unwrap();
        drop(socket);
        std::fs::rename(deep.join("kept"), deep.join(NAME)).unwrap();
        assert!(connect(&deep).unwrap().is_none());
        let socket = bind(&deep).unwrap();
        assert!(connect(&deep).unwrap().is_some());
        drop(socket);
        assert!(!deep.join(NAME).exists());
    }
}
