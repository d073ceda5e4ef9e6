//! Makes a backup: copies the files that the directory lacks, then writes the description.
//!
//! In:    an open store, whose writers continue.
//! Out:   a description that names the files of one commit, and a durable, checked copy of each.
//! Holds: each file is pinned until it is copied (`db::PinnedFiles`). Its copy is checked as a table or blob file, so a
//!        damaged source is refused by name, and so is a copy that differs from it.
//! Costs: a flush; a read, a write and a check of every file that no earlier backup in the directory has. A file that an
//!        earlier backup has is not read.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::backup::Backup;
use super::description::Description;
use super::directory::{BackupDirectory, Listing, read_through};
use super::file_name::BackupFileName;
use super::pace::{BackupOptions, Pace};
use crate::checksum::Uid;
use crate::db::{Db, PinnedFile, PinnedFiles};
use crate::env::{Env, File};
use crate::error::{Error, IoContext, Result};
use crate::identity::StoreIdentity;
use crate::names::StoreFileName;
use crate::planted;

/// The result of a backup.
#[derive(Clone, Debug, Default)]
pub struct CreatedBackup {
    /// The backup's number in its directory.
    pub id: u64,
    /// The last commit in it.
    pub seqno: u64,
    /// Number of files in it.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Number of files that were copied.
    pub copied_files: usize,
    /// Bytes of the copied files.
    pub copied_bytes: u64,
    /// The reason why the store could not log the event `Engine.Backup`. The backup is durable and whole nevertheless.
    pub unlogged: Option<Error>,
}

impl Backup {
    /// Adds a backup of a store to a directory, which is created if it is missing. The backup is durable when the call
    /// returns. Writers continue meanwhile.
    ///
    /// Errors: `Invalid` if the directory holds other files and no backup, or backups of another store; `Locked` while
    /// another backup or a purge runs there; `Corruption` for a damaged file of the store, with its name, the offset
    /// and the keys; `Interrupted` if the progress callback ends the call; `Io`. After an error the directory holds no
    /// new backup, but may hold copied files, which the next backup uses. If the sync of the directory failed, a whole
    /// new backup may appear there after a loss of power.
    pub fn create(db: &Db, dir: &Path, options: BackupOptions<'_>) -> Result<CreatedBackup> {
        Backup::create_in(db, dir, db.env(), options)
    }

    /// As `create`, for a directory in another environment, whose clock the rate limit uses.
    pub fn create_in(db: &Db, dir: &Path, env: &Env, mut options: BackupOptions<'_>) -> Result<CreatedBackup> {
        let directory = BackupDirectory::new(dir, env);
        let _held = directory.lock_for_backup()?;
        let listing = directory.listing()?;
        let known = Known::read(&directory, &listing);
        let started = db.clock().monotonic_nanos();
        let PinnedFiles { mut state, through, identity, files } = db.pin_files()?;
        known.check_lineage(&identity, dir)?;
        for name in &listing.unfinished {
            directory.remove(name)?;
        }
        let next = listing.last_id().checked_add(1);
        let mut created = CreatedBackup {
            id: next.ok_or_else(|| Error::invalid(format!("{} has the last possible number", dir.display())))?,
            seqno: through,
            files: files.len(),
            bytes: files.iter().map(PinnedFile::size).sum(),
            ..CreatedBackup::default()
        };
        let mut pace = Pace::new(&mut options, &*env.clock, created.bytes);
        let mut hashes = BTreeMap::new();
        for file in files {
            let name = name_of(&file);
            let present = listing.files.contains(&name).then(|| directory.open(name, file.size()).ok()).flatten();
            let kept = match (present, known.hashes.get(&name)) {
                (Some(_), Some(hash)) => {
                    pace.skipped(file.size())?;
                    Some(*hash)
                }
                (Some(left), None) => adopt(left, &file, &mut pace)?,
                (None, _) => None,
            };
            let hash = match kept {
                Some(hash) => hash,
                None => {
                    created.copied_files += 1;
                    created.copied_bytes += file.size();
                    copy(&directory, &file, &mut pace)?
                }
            };
            hashes.insert(file.name(), hash);
        }
        if planted!(BackupDescribedEarly, false, true) {
            directory.sync()?;
        }
        let lines = db.lines_of_backup(&mut state, dir, started)?;
        let description = Description {
            uid: db.env().random.uid(),
            id: created.id,
            created_micros: db.clock().wall_micros(),
            copied_bytes: created.copied_bytes,
            seqno: through,
            identity,
            hashes,
            state,
        };
        let bytes = description.encode();
        let name = BackupFileName::Description(created.id);
        let fill = |file: &dyn File| file.write_at(&bytes, 0).during(|| format!("writing {name}"));
        directory.write(name, fill, |_| Ok(()))?;
        // The caller must not take a backup for durable that a loss of power removes.
        directory.sync().inspect_err(|_| drop(directory.remove(&name.to_string())))?;
        created.unlogged = db.log_backup(lines).err();
        Ok(created)
    }
}

/// The facts that the descriptions in the directory state.
struct Known {
    /// The hash of every file that a readable description names.
    hashes: HashMap<BackupFileName, u64>,
    /// The store of the newest readable description.
    last_store: Option<Uid>,
}

impl Known {
    /// Reads the descriptions. A damaged one proves nothing: the files that only it names are checked before use.
    fn read(directory: &BackupDirectory, listing: &Listing) -> Known {
        let mut known = Known { hashes: HashMap::new(), last_store: None };
        for description in directory.descriptions(listing).filter_map(|(_, description)| description.ok()) {
            let files = description.files().unwrap_or_default();
            known.hashes.extend(files.into_iter().map(|file| (file.name, file.hash)));
            known.last_store = Some(description.identity.store);
        }
        known
    }

    /// Checks that the newest readable backup of the directory, if there is one, is of this store or of an ancestor: a
    /// directory has one line of stores, so that the newest backup, and what a purge keeps, are always of the last one.
    fn check_lineage(&self, identity: &StoreIdentity, dir: &Path) -> Result<()> {
        let is_kin = |store: &Uid| {
            *store == identity.store || identity.ancestors.iter().any(|ancestor| ancestor.store == *store)
        };
        match &self.last_store {
            Some(other) if !is_kin(other) => Err(Error::invalid(format!(
                "the newest backup in {} is of another store ({other:?}, this one is {:?}): use a directory for each store",
                dir.display(),
                identity.store
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns the name of a file's copy in the directory.
fn name_of(file: &PinnedFile) -> BackupFileName {
    match file.name() {
        StoreFileName::Values(_) => BackupFileName::Values(file.uid(), file.digest()),
        _ => BackupFileName::Table(file.uid(), file.digest()),
    }
}

/// Checks a copy that no readable description names. Returns its hash, or `None` if it is damaged.
fn adopt(left: Arc<dyn File>, file: &PinnedFile, pace: &mut Pace<'_, '_>) -> Result<Option<u64>> {
    match file.check(Arc::clone(&left)) {
        Err(error) if error.is_corruption() => Ok(None),
        checked => {
            checked?;
            read_through(&*left, file.size(), &name_of(file), pace, &mut |_, _| Ok(())).map(Some)
        }
    }
}

/// Copies a file, checks the copy, and returns the hash of its bytes.
fn copy(directory: &BackupDirectory, file: &PinnedFile, pace: &mut Pace<'_, '_>) -> Result<u64> {
    let (source, name) = (file.open()?, file.name());
    let length = source.len().during(|| format!("asking for the length of {name}"))?;
    if length != file.size() {
        let what = format!("the file has {length} bytes instead of {}", file.size());
        return Err(Error::structural(&what).in_file(&name.to_string(), length.min(file.size())));
    }
    let fill = |copy: &dyn File| {
        read_through(&*source, length, &name, pace, &mut |piece, at| {
            copy.write_at(piece, at).during(|| format!("copying {name}"))
        })
    };
    let check = |copy: Arc<dyn File>| planted!(BackupSourceNotChecked, Ok(()), file.check(copy));
    directory.write(name_of(file), fill, check)
}
