//! Backups of a store. `waxseal_lsm::backup` implements them.

use std::path::Path;

use waxseal_lsm::env::Env;
use waxseal_lsm::error::Result;

pub use waxseal_lsm::backup::{
    Backup, BackupInfo, BackupOptions, BackupProgress, BackupVerification, BackupWatch, CreatedBackup, PurgedBackups,
};

use crate::db::Db;

impl Db {
    /// Adds a backup of the store to a directory, which is created if it is missing. The backup is durable when the call
    /// returns; after a crash it is complete or absent. Reads and writes continue meanwhile.
    ///
    /// Backups are incremental: a table or blob file that an earlier backup in the directory has is neither read nor
    /// copied. Every copied byte is checked, seals included. A directory holds the backups of one store. A store that
    /// was restored from it, or that is a checkpoint, may continue there.
    ///
    /// Costs a flush, and a read, a write and a check of each new file. Until a file is copied it is kept from deletion;
    /// [`Metrics::pinned_bytes`](crate::Metrics::pinned_bytes) counts these files. They hold at most as much space as
    /// the store had at the start of the backup.
    ///
    /// Errors: `Invalid` if the directory holds other files and no backup, or backups of another store; `Locked` while
    /// another backup or a purge runs there; `Corruption` for a damaged file of the store, with its name, the offset
    /// and the keys; `Io`. After an error the directory holds no new backup. It may hold copied files, which the next
    /// backup uses.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, backups, restored) = (dir.path().join("store"), dir.path().join("backups"), dir.path().join("new"));
    /// use waxseal::{Backup, Db};
    ///
    /// let db = Db::open(&path)?;
    /// let users = db.column_family("users")?;
    /// users.put("john", "33")?;
    /// let first = db.backup(&backups)?;
    /// users.put("john", "34")?;
    /// db.backup(&backups)?;
    ///
    /// let backup = Backup::open(&backups)?;
    /// assert_eq!(backup.list()?.len(), 2);
    /// assert!(backup.verify(first.id)?.damage.is_empty());
    /// backup.restore(first.id, &restored)?;
    /// assert_eq!(Db::open(&restored)?.column_family("users")?.get("john")?.unwrap(), "33");
    /// backup.purge(1)?; // keeps the newest
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<CreatedBackup> {
        self.backup_with(dir, BackupOptions::default())
    }

    /// As [`backup`](Db::backup), with a rate limit and a progress callback, which may end the backup.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = waxseal::Db::open(dir.path().join("store"))?;
    /// use std::ops::ControlFlow;
    /// use waxseal::{BackupOptions, BackupProgress};
    ///
    /// let mut show = |progress: BackupProgress| {
    ///     eprintln!("{} of {} bytes", progress.done, progress.total);
    ///     ControlFlow::Continue(())
    /// };
    /// let options = BackupOptions { bytes_per_second: Some(50_000_000), progress: Some(&mut show) };
    /// db.backup_with(dir.path().join("backups"), options)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup_with(&self, dir: impl AsRef<Path>, options: BackupOptions<'_>) -> Result<CreatedBackup> {
        self.inner.check_open()?;
        Backup::create(&self.inner.engine, dir.as_ref(), options)
    }

    /// As [`backup_with`](Db::backup_with), into a directory of another environment, such as an object store of the crate
    /// `waxseal-remote`. [`Backup::open_in`] and [`Backup::restore_in`] read it.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = waxseal::Db::open(dir.path().join("store"))?;
    /// use std::{path::Path, sync::Arc};
    /// use waxseal::env::{Env, MemoryFs};
    /// use waxseal::{Backup, BackupOptions};
    ///
    /// let place = Env { fs: Arc::new(MemoryFs::default()), ..Env::real() };
    /// db.backup_in("backups", &place, BackupOptions::default())?;
    /// let backup = Backup::open_in(Path::new("backups"), &place)?;
    /// backup.restore_in(1, dir.path().join("restored"), &Env::real(), BackupOptions::default())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup_in(&self, dir: impl AsRef<Path>, env: &Env, options: BackupOptions<'_>) -> Result<CreatedBackup> {
        self.inner.check_open()?;
        Backup::create_in(&self.inner.engine, dir.as_ref(), env, options)
    }

    /// Restores a backup into a directory, which must not exist or must be empty: see [`Backup::restore`].
    pub fn restore(backups: impl AsRef<Path>, id: u64, to: impl AsRef<Path>) -> Result<()> {
        Backup::open(backups)?.restore(id, to)
    }
}
