//! The directory of a store: its lock, its creation, and the removal of a store's files.

use std::path::Path;

use crate::env::{DirEntry, Env, Lock, Open};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::names::StoreFileName;
use crate::options::Settings;
use crate::version::{self, Contents, Foreign, Marked};

/// Removes a store's files, and its directory unless it contains other files. `LOCK` is removed only together with the
/// directory.
pub(in crate::db) fn destroy(dir: &Path, env: &Env) -> Result<()> {
    let env = &env.clone().within(dir);
    let refuse = |contents: &Contents| Error::invalid(format!("{} holds {contents}", dir.display()));
    let check = || match version::contents(env, dir)? {
        Contents::Store | Contents::Damaged => Ok(()),
        Contents::Marked(Marked::UnfinishedCheckpoint | Marked::UnfinishedRestore) => Ok(()),
        Contents::Empty if holds_unfinished(dir, env)? => Ok(()),
        contents => Err(refuse(&contents)),
    };
    check()?;
    let held = take_lock(dir, env)?;
    check()?;
    remove_ours(dir, env)?;
    remove_directory(dir, env, held);
    Ok(())
}

/// Returns true if an interrupted creation has left files.
fn holds_unfinished(dir: &Path, env: &Env) -> Result<bool> {
    if !env.fs.exists(dir).during(|| "looking for the store")? {
        return Ok(false);
    }
    Ok(version::our_files(env, dir)?.iter().any(|name| *name != StoreFileName::Lock))
}

/// Removes the store's files in a locked directory, except for the lock. Durably removes `CURRENT` first, so that a
/// crash leaves no openable store. Removes as many of the other files as possible, and returns the first error.
pub(in crate::db) fn remove_ours(dir: &Path, env: &Env) -> Result<()> {
    let ours = version::our_files(env, dir)?;
    if ours.contains(&StoreFileName::Current) {
        env.fs.remove(&dir.join(StoreFileName::Current.to_string())).during(|| "removing CURRENT")?;
        env.fs.sync_dir(dir).during(|| "syncing the store's directory")?;
    }
    let remove = |name: StoreFileName| env.fs.remove(&dir.join(name.to_string())).during(|| format!("removing {name}"));
    // The marker of an unfinished checkpoint is removed last, so that an interruption leaves an unfinished checkpoint.
    let (marks, others): (Vec<StoreFileName>, Vec<StoreFileName>) = ours
        .into_iter()
        .filter(|name| !matches!(name, StoreFileName::Current | StoreFileName::Lock))
        .partition(|name| *name == StoreFileName::Unfinished);
    others.into_iter().chain(marks).map(remove).fold(Ok(()), Result::and)
}

/// Removes a directory that contains only the lock file, and the lock file with it. The lock stays held until then:
/// another process that waits for it finds no directory.
pub(in crate::db) fn remove_directory(dir: &Path, env: &Env, held: StoreLocks) {
    let lock = StoreFileName::Lock.to_string();
    let is_lock = |entry: &DirEntry| entry.is_file && entry.name == lock;
    if env.fs.entries(dir).is_ok_and(|entries| entries.iter().all(is_lock)) {
        let _ = env.fs.remove(&dir.join(&lock));
        let _ = env.fs.remove_dir(dir);
    }
    drop(held);
}

/// Removes a store whose creation ran out of space at its last steps, unless another handle has opened it meanwhile.
pub(in crate::db) fn take_back(dir: &Path, env: &Env) {
    if let Ok(held) = take_lock(dir, env) {
        undo_creation(dir, env);
        drop(held);
    }
}

/// Removes the files of a store that no caller has seen, `CURRENT` first, ignoring failures. Syncs nothing, because
/// syncing may be the operation that failed.
pub(super) fn undo_creation(dir: &Path, env: &Env) {
    let mut ours = version::our_files(env, dir).unwrap_or_default();
    ours.sort_by_key(|name| *name != StoreFileName::Current);
    let files = ours.into_iter().filter(|name| *name != StoreFileName::Lock);
    files.for_each(|name| drop(env.fs.remove(&dir.join(name.to_string()))));
}

/// Checks the directory, creates it if it is missing, and locks it. Returns true if it holds no store yet. A rejected
/// directory is not modified.
pub(super) fn prepare_directory(dir: &Path, settings: &Settings, env: &Env) -> Result<(StoreLocks, bool)> {
    admit(dir, settings, env)?;
    if settings.create_if_missing {
        create_directory(dir, env)?;
    }
    let held = take_lock(dir, env)?;
    let is_new = admit(dir, settings, env)?; // another process may have changed it before we got the lock
    if is_new {
        // The lock file distinguishes the files of a creation from a user's own files, so its name becomes durable
        // before any other.
        env.fs.sync_dir(dir).during(|| "syncing the store's directory")?;
    }
    if settings.error_if_exists && !is_new {
        return Err(Error::invalid(format!("{}: exists (error_if_exists is true)", dir.display())));
    }
    Ok((held, is_new))
}

/// Rejects a directory unless it holds a store, or a store may be created in it. Returns true if it holds no store yet.
fn admit(dir: &Path, settings: &Settings, env: &Env) -> Result<bool> {
    let refuse = |contents: &Contents, what: &str| Error::invalid(format!("{} holds {contents}{what}", dir.display()));
    match version::contents(env, dir)? {
        Contents::Store if !version::is_unfinished(env, dir)? => Ok(false),
        Contents::Damaged => Err(version::recover(env, dir).err().unwrap_or_else(|| no_store(dir))),
        Contents::Store | Contents::Empty if settings.create_if_missing => Ok(true),
        Contents::Store | Contents::Empty => Err(no_store(dir)),
        contents @ Contents::Marked(Marked::UnfinishedCheckpoint) => {
            Err(refuse(&contents, ": destroy it, and take the checkpoint again"))
        }
        contents @ Contents::Marked(Marked::UnfinishedRestore) => Err(refuse(&contents, ": restore the backup again")),
        contents @ Contents::Marked(Marked::Backups) => Err(refuse(&contents, ": restore one into another directory")),
        contents @ Contents::Foreign(Foreign::Other(_)) if settings.create_if_missing => {
            let entries = env.fs.entries(dir).during(|| "listing the store's directory")?;
            let is_ours =
                |entry: &&DirEntry| StoreFileName::parse(&entry.name).is_some_and(|name| name != StoreFileName::Lock);
            match entries.iter().find(is_ours) {
                None if settings.beside_other_files => Ok(true),
                Some(entry) if settings.beside_other_files => {
                    Err(refuse(&contents, &format!(", and a store would give the name {:?} to a file", entry.name)))
                }
                _ => Err(refuse(&contents, ": no store is created beside them")),
            }
        }
        contents => Err(refuse(&contents, "")),
    }
}

pub(super) fn no_store(dir: &Path) -> Error {
    Error::no_store(dir).advise("`create_if_missing` is off")
}

/// Creates a directory and its missing parents, and makes each name durable. An existing directory without a store may
/// have been created by a call that was killed before it synced the name. Its name is synced as well, as far as the
/// parent directories can be synced.
pub(crate) fn create_directory(dir: &Path, env: &Env) -> Result<()> {
    let mut missing = Vec::new();
    for path in dir.ancestors().take_while(|path| !path.as_os_str().is_empty()) {
        if env.fs.exists(path).during(|| format!("looking for {}", path.display()))? {
            break;
        }
        missing.push(path);
    }
    if !missing.is_empty() {
        env.fs.create_dir_all(dir).during(|| format!("creating {}", dir.display()))?;
    } else if env.fs.exists(&dir.join(StoreFileName::Current.to_string())).during(|| "looking for a store")? {
        return Ok(());
    }
    let above: Vec<&Path> = dir.ancestors().filter_map(|path| path.parent()).collect();
    let synced = above.iter().enumerate().try_for_each(|(place, parent)| {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match env.fs.sync_dir(parent) {
            Err(error) if place >= missing.len() && is_not_ours(&error) => Ok(()),
            outcome => outcome.during(|| format!("syncing {}", parent.display())),
        }
    });
    if synced.is_err() {
        // After a failed sync the durability of their names is unknown (I09), so a retry must create the directories
        // again.
        missing.iter().for_each(|path| drop(env.fs.remove_dir(path)));
    }
    synced
}

/// Returns true for an error of a parent directory that another owner controls: unreadable, or on a read-only device.
fn is_not_ours(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | NotFound | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

/// The locks of an open store. The file lock is released first, so that a process that gets the directory lock gets
/// both.
#[derive(Debug)]
pub(crate) struct StoreLocks {
    _file: Box<dyn Lock>,
    _dir: Box<dyn Lock>,
}

/// Locks the directory, which survives a rename, and the lock file, the only lock that older versions and some file
/// systems support.
pub(crate) fn take_lock(dir: &Path, env: &Env) -> Result<StoreLocks> {
    let path = dir.join(StoreFileName::Lock.to_string());
    let Some(locked) = env.fs.lock_dir(dir).during(|| "locking the store's directory")? else {
        return Err(already_open(dir, &holder_in(&path, env)));
    };
    match env.fs.lock(&path, &this_process()).during(|| "locking the store")? {
        Ok(file) => Ok(StoreLocks { _file: file, _dir: locked }),
        Err(other) => Err(already_open(dir, &other)),
    }
}

/// Returns the holder's name that this process writes to the lock file.
fn this_process() -> String {
    format!("process {}", std::process::id())
}

/// Returns the holder's name in a lock file; empty if the file has none.
fn holder_in(path: &Path, env: &Env) -> String {
    let mut name = [0; 128];
    let read = env.fs.open(path, Open::Read).and_then(|file| file.read_at(&mut name, 0));
    String::from_utf8_lossy(&name[..read.unwrap_or(0)]).trim().to_owned()
}

fn already_open(dir: &Path, holder: &str) -> Error {
    let by = match holder {
        "" => "a process or handle that its lock file does not name".to_owned(),
        other if other == this_process() => {
            format!("this process ({other}): use the handle that it has, or close that")
        }
        other => other.to_owned(),
    };
    Error::of(ErrorKind::Locked, format!("{} is open already, by {by}", dir.display()))
}
