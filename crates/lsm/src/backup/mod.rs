//! Backups: a directory with the tables and blob files of several states of a store, each file once.
//!
//! ```text
//! backup.rs       `Backup`: the calls
//! create.rs       store -> pinned files -> copies of those that the directory lacks -> description
//! restore.rs      description -> copies, checked by their hashes -> a store with a uid of its own
//! verify.rs       reads every byte of a backup
//! purge.rs        removes old descriptions, then the files that no description names
//! directory.rs    the directory: its lock, its listing, whole files
//! description.rs  the file that describes one backup; docs/format.md, section 11
//! file_name.rs    names of the files in the directory
//! pace.rs         rate limit and progress
//! ```
//!
//! Names:  a copied file is named by the file's uid and digest, never by a name that a description holds, so no
//!         description leads out of the directory.
//! Holds:  a description is written last, and renamed to its name when it and all its files are durable. A copied file
//!         gets its name when it is durable and every byte of it was checked. Files under their names never change.
//! Crash:  leaves all earlier backups as they were, and at most copied files that no description names. The next backup
//!         checks and uses them; `purge` removes them.

#[expect(clippy::module_inception, reason = "the type is named like the module")]
mod backup;
mod create;
mod description;
mod directory;
mod file_name;
mod pace;
mod purge;
mod restore;
mod verify;

pub use backup::{Backup, BackupInfo};
pub use create::CreatedBackup;
pub use pace::{BackupOptions, BackupProgress, BackupWatch};
pub use purge::PurgedBackups;
pub use verify::BackupVerification;

/// Entry points for fuzzers.
pub mod fuzzing {
    use crate::backup::description::Description;

    /// Decodes arbitrary bytes as the description of a backup. Panics if encoding changes a decoded description.
    pub fn backup(bytes: &[u8]) {
        let decode = |bytes: &[u8]| Description::decode("BACKUP-000001", bytes);
        if let Ok(description) = decode(bytes) {
            let again = decode(&description.encode()).expect("a description that was just written");
            assert!(description.files().is_ok() && again == description, "read back as another");
        }
    }
}
