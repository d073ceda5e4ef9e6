//! A copy of a store in a directory of its own, made of the tables and blob files of another store.
//!
//! In:    a state without a log, and the files that it names, which the caller places between `begin_copy` and
//!        `finish_copy`.
//! Out:   a store with its own manifest, log and uid.
//! Holds: the copy's lock, from before the directory is checked until the copy is complete. Otherwise two concurrent
//!        copies would take each other's files for their own.
//! Fork:  a child removes nothing.
//! Crash: a directory without `CURRENT`, which is not a store.

use std::path::Path;
use std::sync::Arc;

use crate::db::open::directory::{create_directory, remove_directory, remove_ours, take_lock};
use crate::env::{Env, Origin};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::identity::StoreIdentity;
use crate::names::StoreFileName;
use crate::record::Seqno;
use crate::version::{self, Contents, Manifest, ManifestState, Marked};

/// Creates and locks an empty directory, and calls `write`. After an error of `write`, removes the files that it has
/// created. `marked` is the mark of the unfinished copy; a restore may start again in a directory with its own mark.
pub(crate) fn in_empty_directory(
    dir: &Path,
    env: &Env,
    marked: Marked,
    write: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let origin = Origin::here();
    check_empty(dir, env, marked)?; // before locking: no lock file in a foreign directory
    let is_made = !env.fs.exists(dir).during(|| "looking at the directory of a copy")?;
    create_directory(dir, env)?;
    let held = take_lock(dir, env).inspect_err(|error| {
        if is_made && *error.kind() != ErrorKind::Locked {
            let _ = env.fs.remove_dir(dir);
        }
    })?;
    check_empty(dir, env, marked)?;
    // As at the creation of a store: without the lock file, an unwritten mark would look like a user's file.
    let synced = env.fs.sync_dir(dir).during(|| "syncing the directory of a copy");
    let outcome = synced.and_then(|()| write());
    if outcome.is_err() && origin.is_here() {
        let _ = remove_ours(dir, env);
        if is_made {
            remove_directory(dir, env, held);
        }
    }
    outcome
}

fn check_empty(dir: &Path, env: &Env, marked: Marked) -> Result<()> {
    match version::contents(env, dir)? {
        Contents::Empty => Ok(()),
        Contents::Marked(Marked::UnfinishedRestore) if marked == Marked::UnfinishedRestore => Ok(()),
        contents => {
            let what = if marked == Marked::UnfinishedRestore { "a restore" } else { "a checkpoint" };
            Err(Error::invalid(format!("{} holds {contents}, and {what} needs an empty directory", dir.display())))
        }
    }
}

/// Marks the directory as an unfinished copy. Removes the files of an interrupted creation.
pub(crate) fn begin_copy(dir: &Path, env: &Env, marked: Marked) -> Result<()> {
    if version::our_files(env, dir)?.iter().any(|name| *name != StoreFileName::Lock) {
        remove_ours(dir, env)?;
    }
    version::mark_unfinished(env, dir, marked)
}

/// Makes the copy a store with a uid of its own. Its files are synced. `identity` is that of the copied store.
/// `through` is its last commit in the copy: the change feed of the copy branches there.
pub(crate) fn finish_copy(
    dir: &Path,
    env: &Env,
    (state, through): (&ManifestState, Seqno),
    identity: &StoreIdentity,
) -> Result<()> {
    env.fs.sync_dir(dir).during(|| "syncing the directory of a copy")?;
    // The edit names no log: the open of the copy creates a fresh one, after the seqno in the counters.
    let number = state.next_file;
    let identity = identity.of_checkpoint(env.random.uid(), number, state.last_seqno);
    let feed = Arc::new(state.feed.of_copy(env.random.uid(), through, state.last_seqno));
    let mut state = state.clone();
    state.feed = feed;
    Manifest::create(env, dir, number, identity, &state.snapshot())?;
    version::mark_finished(env, dir)
}
