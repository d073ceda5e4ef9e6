//! Reads every byte of a backup and compares it with the hashes in the description.

use super::backup::Backup;
use super::description::DescribedFile;
use super::directory::{Listing, missing, read_through};
use super::pace::{BackupOptions, Pace};
use crate::error::{Error, Result};
use crate::planted;

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct BackupVerification {
    /// Number of files read.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// One error for each damaged or missing file. Empty if the backup is whole.
    pub damage: Vec<Error>,
}

impl Backup {
    /// Reads a backup, and compares every byte with the hashes that its description holds. Damaged and missing files are
    /// results, not errors.
    ///
    /// Errors: `Invalid` if there is no backup with this id, `Corruption` if its description is damaged, `Io`,
    /// `Interrupted`.
    pub fn verify(&self, id: u64) -> Result<BackupVerification> {
        self.verify_with(id, BackupOptions::default())
    }

    /// As `verify`, with a rate limit and a progress callback.
    pub fn verify_with(&self, id: u64, mut options: BackupOptions<'_>) -> Result<BackupVerification> {
        let files = self.directory.description(id)?.files()?;
        let listing = self.directory.listing()?;
        let total = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let mut pace = Pace::new(&mut options, &*self.directory.env.clock, total);
        let mut verified = BackupVerification::default();
        for file in &files {
            match self.check_file(file, &listing, &mut pace, &mut |_, _| Ok(())) {
                Ok(()) => {
                    verified.files += 1;
                    verified.bytes += file.size;
                }
                Err(error) if error.is_corruption() => verified.damage.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(verified)
    }

    /// Reads a file of a backup, passes each piece with its offset to `visit`, and compares the hash of all bytes.
    pub(super) fn check_file(
        &self,
        file: &DescribedFile,
        listing: &Listing,
        pace: &mut Pace<'_, '_>,
        visit: &mut dyn FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let DescribedFile { name, size, hash, .. } = *file;
        if !listing.files.contains(&name) {
            return Err(missing(name));
        }
        let opened = self.directory.open(name, size)?;
        let found = read_through(&*opened, size, &name, pace, visit)?;
        match planted!(RestoreNotChecked, true, found == hash) {
            true => Ok(()),
            false => Err(Error::mismatch(hash, found, "a file of a backup").in_file(&name.to_string(), 0)),
        }
    }
}
