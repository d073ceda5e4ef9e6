//! A memory limit of the kernel for one process: a control group of version 1.

use std::path::{Path, PathBuf};
use waxseal_bench::{Fault, Outcome};

/// Where version 1 has the groups of memory.
const MEMORY: &str = "/sys/fs/cgroup/memory";

/// A control group, deleted on drop.
pub(super) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Creates a group whose processes and page cache share this many bytes.
    pub(super) fn limited_to(bytes: u64) -> Outcome<Cgroup> {
        let dir = Path::new(MEMORY).join(format!("waxseal-papers-{}", std::process::id()));
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(refused(&error)),
            _ => {}
        }
        let group = Cgroup { dir };
        std::fs::write(group.dir.join("memory.limit_in_bytes"), bytes.to_string()).map_err(|error| refused(&error))?;
        Ok(group)
    }

    /// Returns the file that a process writes its number to when it enters the group.
    pub(super) fn door(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The page cache of the group would stay with it.
        let _ = std::fs::write(self.dir.join("memory.force_empty"), "0");
        let _ = std::fs::remove_dir(&self.dir);
    }
}

fn refused(error: &std::io::Error) -> Fault {
    format!("cannot limit memory by a control group below {MEMORY} ({error}): version 1 and root are needed").into()
}

/// Enters a group: memory that this process uses from here on counts there.
pub(super) fn enter(door: &Path) -> Outcome<()> {
    std::fs::write(door, std::process::id().to_string()).map_err(|error| refused(&error))
}
