//! Removes old backups.
//!
//! Holds: a file goes only when no description names it. Descriptions go first, durably. If the newest goes, a mark
//!        keeps its number, so that no later backup gets it.
//! Crash: leaves copied files that no description names, which the next purge removes.

use std::collections::HashSet;

use super::backup::Backup;
use super::file_name::BackupFileName;
use crate::env::Open;
use crate::error::{IoContext, Result};
use crate::planted;

/// The result of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgedBackups {
    /// Number of backups removed.
    pub backups: usize,
    /// Number of copied files removed.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
}

impl Backup {
    /// Removes all backups except the `keep` newest, and all files that none of these needs.
    ///
    /// Errors: `Locked` while a backup or another purge runs in the directory; `Corruption` or `FormatTooNew` if the
    /// description of a backup to be kept is unreadable, because its files are then unknown; `Io`. Nothing is removed
    /// before the descriptions to be kept are read.
    pub fn purge(&self, keep: usize) -> Result<PurgedBackups> {
        let directory = &self.directory;
        let _held = directory.lock()?;
        let listing = directory.listing()?;
        let ids: Vec<u64> = listing.ids().collect();
        let (old, kept) = ids.split_at(ids.len().saturating_sub(keep));
        let mut needed = HashSet::new();
        planted!(PurgeForgetsSharedFiles => let kept = &kept[..0]);
        for id in kept {
            needed.extend(directory.description(*id)?.files()?.into_iter().map(|file| file.name));
        }
        let last = listing.last_id();
        let mark = (kept.is_empty() && last > 0).then_some(BackupFileName::Purged(last));
        if let Some(mark) = mark.filter(|mark| !listing.files.contains(mark)) {
            directory.write(mark, |_| Ok(()), |_| Ok(()))?;
            directory.sync()?;
        }
        let mut purged = PurgedBackups { backups: old.len(), ..PurgedBackups::default() };
        if planted!(PurgeRemovesFilesFirst, false, true) {
            self.remove_descriptions(old)?;
        }
        for name in &listing.unfinished {
            directory.remove(name)?;
        }
        for name in
            listing.files.iter().filter(|name| matches!(name, BackupFileName::Purged(_)) && Some(**name) != mark)
        {
            directory.remove(&name.to_string())?;
        }
        let is_copy = |name: &&BackupFileName| matches!(name, BackupFileName::Table(..) | BackupFileName::Values(..));
        for name in listing.files.iter().filter(is_copy).filter(|name| !needed.contains(name)) {
            let file = directory.env.fs.open(&directory.path.join(name.to_string()), Open::Read);
            purged.bytes += file.and_then(|file| file.len()).during(|| format!("looking at {name}"))?;
            directory.remove(&name.to_string())?;
            purged.files += 1;
        }
        planted!(PurgeRemovesFilesFirst => self.remove_descriptions(old)?);
        directory.sync()?;
        Ok(purged)
    }

    /// Removes descriptions durably.
    fn remove_descriptions(&self, ids: &[u64]) -> Result<()> {
        let remove = |id: &u64| self.directory.remove(&BackupFileName::Description(*id).to_string());
        ids.iter().try_for_each(remove)?;
        self.directory.sync()
    }
}
