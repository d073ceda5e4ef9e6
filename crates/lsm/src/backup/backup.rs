//! `Backup`: a directory of backups, and the calls that need no open store.

use std::path::Path;

use super::description::Description;
use super::directory::BackupDirectory;
use crate::checksum::Uid;
use crate::env::Env;
use crate::error::{Error, IoContext, Result};

/// A directory of backups. The handle reads the directory at each call and holds no lock.
#[derive(Clone, Debug)]
pub struct Backup {
    pub(super) directory: BackupDirectory,
}

/// One backup.
#[derive(Clone, Debug, Default)]
pub struct BackupInfo {
    /// The backup's number in its directory. A later backup has a greater one.
    pub id: u64,
    /// The time of the backup, in microseconds since 1970.
    pub created_micros: u64,
    /// The unique id of the store.
    pub store: Uid,
    /// The last commit in the backup.
    pub seqno: u64,
    /// Number of files.
    pub files: usize,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the files that this backup copied; earlier backups in the directory had the others.
    pub copied_bytes: u64,
    /// The reason why the description is unusable; then only `id` is set.
    pub error: Option<Error>,
}

impl BackupInfo {
    fn of(id: u64, description: Result<Description>) -> BackupInfo {
        let described = description.and_then(|description| Ok((description.files()?, description)));
        match described {
            Ok((files, description)) => BackupInfo {
                id,
                created_micros: description.created_micros,
                store: description.identity.store,
                seqno: description.seqno,
                files: files.len(),
                bytes: files.iter().map(|file| file.size).fold(0, u64::saturating_add),
                copied_bytes: description.copied_bytes,
                error: None,
            },
            Err(error) => BackupInfo { id, error: Some(error), ..BackupInfo::default() },
        }
    }
}

impl Backup {
    /// Opens a directory of backups. Errors: `Invalid` if it does not exist or holds no backup, `Io`.
    pub fn open(dir: impl AsRef<Path>) -> Result<Backup> {
        Backup::open_in(dir.as_ref(), &Env::real())
    }

    /// As `open`, in an environment.
    pub fn open_in(dir: &Path, env: &Env) -> Result<Backup> {
        let exists = env.fs.exists(dir).during(|| format!("looking for {}", dir.display()))?;
        let directory = BackupDirectory::new(dir, env);
        if !exists || directory.listing()?.ids().next().is_none() {
            return Err(Error::invalid(format!("{} holds no backup", dir.display())));
        }
        Ok(Backup { directory })
    }

    /// Returns all backups, the oldest first. A backup with a damaged description is included, with the error.
    ///
    /// Costs a read of the descriptions, one after the other. Errors: `Io` if the directory cannot be listed.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let listing = self.directory.listing()?;
        Ok(self.directory.descriptions(&listing).map(|(id, description)| BackupInfo::of(id, description)).collect())
    }
}
