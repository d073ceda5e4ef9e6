//! The directory of backups: its lock, its listing, and files that appear whole.
//!
//! Holds: a file is written under an unfinished name, synced, checked, and then renamed. The caller syncs the directory.
//!        Only regular files count: a symbolic link or a directory with a name of ours is not followed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::description::Description;
use super::file_name::BackupFileName;
use super::pace::Pace;
use crate::checksum::RunningHash;
use crate::db::{StoreLocks, create_directory, take_lock};
use crate::env::{Env, File, Open, Origin, read_exact, read_into};
use crate::error::{Damage, Error, ErrorKind, IoContext, Result, Verdict};
use crate::names::StoreFileName;
use crate::options::MIB;
use crate::planted;
use crate::version::{self, Contents};

/// A directory of backups.
#[derive(Clone, Debug)]
pub(super) struct BackupDirectory {
    pub(super) env: Env,
    pub(super) path: PathBuf,
}

/// The files in the directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Descriptions, tables, blob files, and the mark of a purge.
    pub(super) files: BTreeSet<BackupFileName>,
    /// Names of unfinished files.
    pub(super) unfinished: Vec<String>,
    /// The name of one entry that is not ours.
    pub(super) foreign: Option<String>,
}

impl Listing {
    /// Returns the ids of all backups in ascending order.
    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.files.iter().filter_map(|name| match name {
            BackupFileName::Description(id) => Some(*id),
            _ => None,
        })
    }

    /// Returns the greatest number that a backup in the directory had, also if it was purged; 0 if there was none.
    pub(super) fn last_id(&self) -> u64 {
        let ids = self.files.iter().filter_map(|name| match name {
            BackupFileName::Description(id) | BackupFileName::Purged(id) => Some(*id),
            BackupFileName::Table(..) | BackupFileName::Values(..) => None,
        });
        ids.max().unwrap_or(0)
    }
}

/// Longest description that is read, so that a damaged length causes no large allocation.
const MOST_DESCRIPTION_BYTES: u64 = 1 << 30;

impl BackupDirectory {
    pub(super) fn new(path: &Path, env: &Env) -> BackupDirectory {
        BackupDirectory { env: env.clone().within(path), path: path.to_owned() }
    }

    /// Creates the directory if it is missing, and locks it. Errors: `Invalid` if it holds other files and no backup,
    /// `Locked`, `Io`.
    pub(super) fn lock_for_backup(&self) -> Result<StoreLocks> {
        self.check_admissible()?;
        create_directory(&self.path, &self.env)?;
        let held = self.lock()?;
        self.check_admissible()?;
        Ok(held)
    }

    /// Locks the directory. Errors: `Locked` while a backup or a purge runs in it, `Io`.
    pub(super) fn lock(&self) -> Result<StoreLocks> {
        take_lock(&self.path, &self.env).map_err(|error| match error.kind() {
            ErrorKind::Locked => {
                let what = format!("{}: another backup or purge runs in this directory ({error})", self.path.display());
                Error::of(ErrorKind::Locked, what)
            }
            _ => error,
        })
    }

    fn check_admissible(&self) -> Result<()> {
        let refused = |what: String| {
            Err(Error::invalid(format!(
                "{} holds {what}; a backup needs an empty directory or one with backups",
                self.path.display()
            )))
        };
        match version::contents(&self.env, &self.path)? {
            Contents::Empty | Contents::Marked(version::Marked::Backups) => Ok(()),
            Contents::Foreign(_) => match self.listing()? {
                Listing { foreign: Some(name), .. } => refused(format!("no backup, but other files ({name:?})")),
                // A `LOCK` alone may be a user's; otherwise a first backup was interrupted.
                Listing { files, unfinished, .. } if files.is_empty() && unfinished.is_empty() => {
                    refused("no backup, but a file LOCK".to_owned())
                }
                _ => Ok(()),
            },
            contents => refused(contents.to_string()),
        }
    }

    /// Lists the directory. Errors: `Io`.
    pub(super) fn listing(&self) -> Result<Listing> {
        let entries = self.env.fs.entries(&self.path).during(|| format!("listing {}", self.path.display()))?;
        let (mut listing, lock) = (Listing::default(), StoreFileName::Lock.to_string());
        for entry in entries {
            match BackupFileName::parse(&entry.name) {
                Some(name) if entry.is_file => drop(listing.files.insert(name)),
                _ if entry.is_file && BackupFileName::is_unfinished(&entry.name) => listing.unfinished.push(entry.name),
                _ if entry.is_file && entry.name == lock => {}
                _ if !entry.is_file && entry.name == "lost+found" => {}
                _ => listing.foreign = Some(entry.name),
            }
        }
        Ok(listing)
    }

    /// Reads a description. Errors: `Invalid` if there is no backup with this id, `Corruption`, `FormatTooNew`, `Io`.
    pub(super) fn description(&self, id: u64) -> Result<Description> {
        let name = BackupFileName::Description(id).to_string();
        let file = match self.env.fs.open(&self.path.join(&name), Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::invalid(format!("{} holds no backup {id}", self.path.display())));
            }
            opened => opened.during(|| format!("opening {name}"))?,
        };
        let length = file.len().during(|| format!("asking for the length of {name}"))?;
        if length > MOST_DESCRIPTION_BYTES {
            return Err(Error::structural("too long to describe a backup").in_file(&name, 0));
        }
        let bytes = read_exact(&*file, 0, length as usize).during(|| format!("reading {name}"))?;
        let description = Description::decode(&name, &bytes)?;
        match description.id == id {
            true => Ok(description),
            false => Err(Error::structural("the description of another backup").in_file(&name, 0)),
        }
    }

    /// Reads the descriptions of all backups in ascending order, each with its result. Only one is in memory at a time,
    /// because each may name every file of a large store.
    pub(super) fn descriptions(&self, listing: &Listing) -> impl Iterator<Item = (u64, Result<Description>)> {
        listing.ids().map(|id| (id, self.description(id)))
    }

    /// Opens a file that a description names. Errors: `Corruption` if it is missing or has another length, `Io`.
    pub(super) fn open(&self, name: BackupFileName, size: u64) -> Result<Arc<dyn File>> {
        let file = match self.env.fs.open(&self.path.join(name.to_string()), Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(name)),
            opened => opened.during(|| format!("opening {name}"))?,
        };
        let length = file.len().during(|| format!("asking for the length of {name}"))?;
        if length != size {
            let what = format!("{name} has {length} bytes instead of {size}");
            return Err(Error::structural(&what).in_file(&name.to_string(), length.min(size)));
        }
        Ok(file)
    }

    /// Writes a whole file. `fill` writes its contents, and `check` checks them once they are durable. The name is
    /// durable after the next `sync`.
    pub(super) fn write<T>(
        &self,
        name: BackupFileName,
        fill: impl FnOnce(&dyn File) -> Result<T>,
        check: impl FnOnce(Arc<dyn File>) -> Result<()>,
    ) -> Result<T> {
        let (unfinished, origin) = (self.path.join(name.unfinished()), Origin::here());
        let create = || -> Result<T> {
            let file = self.env.fs.open(&unfinished, Open::Create).during(|| format!("creating {name}"))?;
            let filled = fill(&*file)?;
            if planted!(BackupFileNotSynced, false, true) {
                file.sync_data().during(|| format!("syncing {name}"))?;
            }
            check(file)?;
            Ok(filled)
        };
        let filled = create();
        if filled.is_err() && origin.is_here() {
            let _ = self.env.fs.remove(&unfinished);
        }
        let filled = filled?;
        let renamed = self.env.fs.rename(&unfinished, &self.path.join(name.to_string()));
        renamed.during(|| format!("renaming {name}"))?;
        Ok(filled)
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        self.env.fs.remove(&self.path.join(name)).during(|| format!("removing {name}"))
    }

    /// Makes the names in the directory durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.env.fs.sync_dir(&self.path).during(|| format!("syncing {}", self.path.display()))
    }
}

/// Returns the error for a file that a description names and that does not exist.
pub(super) fn missing(name: BackupFileName) -> Error {
    let damage = Damage { file: name.to_string(), verdict: Verdict::Missing, ..Damage::default() };
    Error::corruption(damage, format!("{name} is missing from the backup"))
}

/// Reads a file through, passes each piece with its offset to `visit`, and returns the hash of all bytes. `name` is used
/// in errors.
pub(super) fn read_through(
    file: &dyn File,
    length: u64,
    name: &dyn std::fmt::Display,
    pace: &mut Pace<'_, '_>,
    visit: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<u64> {
    let mut buffer = vec![0; length.min(MIB as u64) as usize];
    let (mut at, mut hash) = (0, RunningHash::default());
    file.advise(0, length, true);
    while at < length {
        let piece = &mut buffer[..(length - at).min(MIB as u64) as usize];
        match read_into(file, at, piece) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Error::structural("the file ends too early").in_file(&name.to_string(), at));
            }
            read => read.during(|| format!("reading {name}"))?,
        }
        hash.add(piece);
        visit(piece, at)?;
        at += piece.len() as u64;
        pace.moved(piece.len() as u64)?;
    }
    Ok(hash.value())
}
