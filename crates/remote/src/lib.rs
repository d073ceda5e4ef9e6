//! Backups of Waxseal stores in object stores: S3, Google Cloud Storage, Azure and local directories.
//!
//! ```text
//! url.rs          a URL -> an object store, configured by the environment, and a prefix in it
//! directory.rs    `RemoteDirectory`: the objects below a URL, by blocking calls
//! blocking.rs     the runtime that turns futures into blocking calls
//! download.rs     sequential reads of one object
//! upload.rs       one object, written in parts
//! upload_queue.rs small objects that are sent at the same time
//! backup_fs.rs    `BackupFs`: a directory of backups, object by object
//! lease.rs        the lock of a directory of backups
//! ```
//!
//! Holds: an object appears whole or not at all. A file of a backup is complete and checked before its upload begins,
//!        and the upload ends only if the bytes sent are those that were checked.
//! Crash: leaves no part of an object under its name. A store may keep the parts of an unfinished upload aside, until
//!        its own rules remove them.
//!
//! Calls block the thread, and panic inside a task of a tokio runtime.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let (path, bucket) = (dir.path().join("store"), format!("file://{}/bucket", dir.path().display()));
//! use waxseal::{BackupOptions, Db};
//! use waxseal_remote::BackupFs;
//!
//! let db = Db::open(&path)?;
//! db.column_family("users")?.put("john", "33")?;
//! let place = BackupFs::open(&bucket)?; // or "s3://bucket/prefix", with the feature `cloud`
//! db.backup_in(place.path(), &place.env(), BackupOptions::default())?;
//! let backup = waxseal::Backup::open_in(place.path(), &place.env())?;
//! assert_eq!(backup.list()?.len(), 1);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod backup_fs;
mod blocking;
mod directory;
mod download;
mod lease;
mod upload;
mod upload_queue;
mod url;

pub use backup_fs::BackupFs;
pub use directory::{RemoteDirectory, RemoteEntry};
pub use download::Download;
pub use upload::Upload;
pub use upload_queue::UploadQueue;
