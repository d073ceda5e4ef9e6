//! Makes a store of a backup.
//!
//! Out:   a store with a uid of its own, which names the backed up store as its ancestor.
//! Holds: the store appears only if every byte of every file has the hash that the description holds.
//! Crash: a directory that is marked as an unfinished restore. A second restore into it starts again.

use std::io;
use std::path::Path;

use super::backup::Backup;
use super::description::Description;
use super::pace::{BackupOptions, Pace};
use crate::db::{begin_copy, finish_copy, in_empty_directory};
use crate::env::{Env, Open};
use crate::error::{Error, IoContext, Result};
use crate::version::Marked;

impl Backup {
    /// Restores a backup into a directory, which must not exist or must be empty. Every byte is checked. The store is
    /// durable when the call returns, and is independent of the backup.
    ///
    /// Errors: `Invalid` if there is no backup with this id, or if the directory is not empty; `Corruption` for a
    /// damaged or missing file of the backup; `Locked`, `Interrupted`, `Io`. After an error the files that the call
    /// created are removed.
    pub fn restore(&self, id: u64, to: impl AsRef<Path>) -> Result<()> {
        self.restore_with(id, to, BackupOptions::default())
    }

    /// As `restore`, with a rate limit and a progress callback.
    pub fn restore_with(&self, id: u64, to: impl AsRef<Path>, options: BackupOptions<'_>) -> Result<()> {
        self.restore_in(id, to, &self.directory.env, options)
    }

    /// As `restore_with`, into a directory in another environment than that of the backups.
    pub fn restore_in(&self, id: u64, to: impl AsRef<Path>, env: &Env, mut options: BackupOptions<'_>) -> Result<()> {
        let (description, dir) = (self.directory.description(id)?, to.as_ref());
        let env = &env.clone().within(dir);
        in_empty_directory(dir, env, Marked::UnfinishedRestore, || {
            begin_copy(dir, env, Marked::UnfinishedRestore)?;
            self.copy_files(&description, (dir, env), &mut options)?;
            finish_copy(dir, env, (&description.state, description.seqno), &description.identity)
        })
    }

    fn copy_files(
        &self,
        description: &Description,
        (dir, env): (&Path, &Env),
        options: &mut BackupOptions<'_>,
    ) -> Result<()> {
        let (files, listing) = (description.files()?, self.directory.listing()?);
        let total = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let mut pace = Pace::new(options, &*env.clock, total);
        for file in &files {
            let name = file.store_name;
            let path = dir.join(name.to_string());
            // A part of a damaged file, from a restore that was interrupted, does not look like a file of ours.
            match env.fs.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(format!("removing {name}"), error));
                }
                _ => {}
            }
            let copy = env.fs.open(&path, Open::Create).during(|| format!("creating {name}"))?;
            let copied = self.check_file(file, &listing, &mut pace, &mut |piece, at| {
                copy.write_at(piece, at).during(|| format!("writing {name}"))
            });
            if copied.is_err() && pace.is_here() {
                let _ = env.fs.remove(&path);
            }
            copied?;
            copy.sync_data().during(|| format!("syncing {name}"))?;
        }
        Ok(())
    }
}
