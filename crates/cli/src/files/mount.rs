//! mount: the files of a store as a file system of the kernel.

use crate::args::{Args, MountArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[cfg(not(all(feature = "mount", target_os = "linux")))]
pub(crate) fn mount(_: &Args, _: &MountArgs, _: &mut Output) -> Result<Exit, Failure> {
    Err(Failure::usage("this build mounts nothing").explain("cargo install builds it with --features mount, on Linux"))
}

/// Serves the mount until a signal, or until it is unmounted. Prints a line once it is there.
#[cfg(all(feature = "mount", target_os = "linux"))]
pub(crate) fn mount(args: &Args, mount: &MountArgs, output: &mut Output) -> Result<Exit, Failure> {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;
    use waxseal_http::{ChangeListener, Server, ServerOptions};
    use waxseal_mount::{MountOptions, Mounted};

    use super::location::{Access, is_within, open_files, store_of_url};

    let MountArgs { store, directory, read_only, allow_other, idle } = mount;
    let store = store_of_url(store);
    if is_within(directory, &store) || is_within(&store, directory) {
        let message = format!("{} and the store {} overlap", directory.display(), store.display());
        return Err(Failure::usage(message).explain("mount it at a directory beside the store"));
    }
    if std::fs::metadata(directory).is_ok_and(|found| !found.is_dir()) {
        return Err(Failure::usage(format!("{} is no directory", directory.display())));
    }
    let files = open_files(args, &store, if *read_only { Access::Read } else { Access::Change })?;
    let db = files.db().clone();
    let failed = |error| Failure::io(directory.display(), error);
    let options = MountOptions {
        files: files.clone(),
        store: store.clone(),
        directory: directory.clone(),
        allow_other: *allow_other,
        idle: Duration::from_secs(*idle),
    };
    let mounted = Mounted::mount(options).map_err(failed)?;
    let listener: Arc<dyn ChangeListener> = Arc::new(MountListener(mounted.kernel_cache()));
    let start = || -> Result<Option<Server>, Failure> {
        // Others change the files of a store that this process has open for writing through its socket.
        let (socket_directory, listener) = (Some(store.clone()), Some(listener));
        let socket = ServerOptions { files, listen: None, token: None, socket_directory, listener };
        let served = (!read_only).then(|| Server::bind(socket)).transpose();
        let served = served.map_err(|error| Failure::io(store.display(), error))?;
        output.line(format!("mounted {} at {}", store.display(), directory.display()))?;
        output.object(&json!({ "ok": true }))?;
        output.flush()?;
        Ok(served)
    };
    let served = match start() {
        Ok(served) => served,
        Err(failure) => {
            let _ = mounted.unmount(); // the first failure is the one to report
            return Err(failure);
        }
    };
    let ended = match served {
        Some(server) => server.run_beside(|| mounted.wait()),
        None => mounted.wait(),
    };
    ended.map_err(failed)?;
    db.close()?;
    Ok(Exit::Ok)
}

/// Invalidates what the kernel has cached of a mount, after changes through the socket.
#[cfg(all(feature = "mount", target_os = "linux"))]
#[derive(Debug)]
struct MountListener(waxseal_mount::KernelCache);

#[cfg(all(feature = "mount", target_os = "linux"))]
impl waxseal_http::ChangeListener for MountListener {
    fn entry_changed(&self, path: &[u8]) {
        self.0.invalidate(path);
    }

    fn tree_removed(&self, path: &[u8]) {
        self.0.invalidate_tree(path);
    }
}
