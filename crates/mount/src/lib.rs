//! A file store as a file system of Linux, by FUSE.
//!
//! [`Mounted::mount`] mounts a store, and [`Mounted::wait`] serves it until a signal or `umount`. A store that is open
//! for writing is mounted for writing: all handles of a file share its content, and flush, `fsync` and close commit the
//! changes. In one that is open for reading, an open file is of one point in time. An open directory is so in both.
//! Attributes and names are looked up again after a second. [`KernelCache`] invalidates them after a change that does
//! not come through the mount.
//!
//! The crate uses the public interface of `waxseal-files` alone. Modules import from lower lines only:
//!
//! ```text
//! mounted      mounts, waits, unmounts
//! file_system  answers the kernel
//! handles      open files and directories
//! privileges   ends set-user-ID, set-group-ID and capabilities
//! kernel_cache  invalidates entries, attributes and pages that the kernel has cached
//! attributes   converts attributes between kernel and store
//! ```

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a mount is of the system's own files, and waits on a thread of its own"
)]

mod attributes;
mod file_system;
mod handles;
mod kernel_cache;
mod mounted;
mod privileges;

pub use kernel_cache::KernelCache;
pub use mounted::{MountOptions, Mounted};
