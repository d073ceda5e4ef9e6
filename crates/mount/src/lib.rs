//! A file store as a file system of Linux, by FUSE, for reading.
//!
//! [`Mounted::mount`] mounts a store, and [`Mounted::wait`] serves it until a signal or `umount`. An open file or
//! directory is of one point in time. Attributes and names are looked up again after a second.
//!
//! The crate uses the public interface of `waxseal-files` alone. Modules import from lower lines only:
//!
//! ```text
//! mounted      mounts, waits, unmounts
//! file_system  answers the kernel
//! handles      open files and directories
//! ```

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "a mount is of the system's own files, and waits on a thread of its own"
)]

mod file_system;
mod handles;
mod mounted;

pub use mounted::{MountOptions, Mounted};
