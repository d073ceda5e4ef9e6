//! Checkpoints: an independent store in another directory, with all families as of one commit.
//!
//! All records up to that commit are flushed first, so tables alone carry them; no log file is linked or copied. Tables
//! never change, nor do the blob files that they point into. They are linked where the file system supports links, and
//! copied otherwise. The copy has its own manifest, log and uid.
//!
//! Holds: the copy's lock, from before the directory is checked until the copy is complete. Otherwise two concurrent
//!        checkpoints would take each other's files for their own.
//! Crash: a directory without `CURRENT`, which is not a store.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::db::catalog::event_log::{add_event, number_events, touched_in};
use crate::db::jobs::job_lock::Flusher;
use crate::db::open::directory::{create_directory, remove_directory, remove_ours, take_lock};
use crate::db::state::family::TableHandle;
use crate::env::work::lock;
use crate::env::{Env, File, Open, read_into};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::identity::StoreIdentity;
use crate::names::StoreFileName;
use crate::options::MIB;
use crate::seam::{EngineEvent, Work};
use crate::version::{self, Contents, Edit, EditChange, Manifest, ManifestState, Marked};

/// Writes a checkpoint into `dir`; see `Db::checkpoint`.
pub(in crate::db) fn checkpoint(flusher: &Flusher, dir: &Path) -> Result<()> {
    let env = &flusher.context().env.clone().within(dir); // the copy stays in the locked directory
    check_empty(dir, env)?; // before locking: no lock file in a foreign directory
    let is_made = !env.fs.exists(dir).during(|| "looking at the checkpoint's directory")?;
    create_directory(dir, env)?;
    let held = take_lock(dir, env).inspect_err(|error| {
        if is_made && *error.kind() != ErrorKind::Locked {
            let _ = env.fs.remove_dir(dir);
        }
    })?;
    check_empty(dir, env)?;
    let outcome = write_checkpoint(flusher, dir, env);
    if outcome.is_err() {
        let _ = remove_ours(dir, env);
        if is_made {
            remove_directory(dir, env, held);
        }
    }
    outcome
}

fn check_empty(dir: &Path, env: &Env) -> Result<()> {
    match version::contents(env, dir)? {
        Contents::Empty => Ok(()),
        contents => Err(Error::invalid(format!(
            "{} holds {contents}, and a checkpoint needs an empty directory",
            dir.display()
        ))),
    }
}

fn write_checkpoint(flusher: &Flusher, dir: &Path, env: &Env) -> Result<()> {
    let started = flusher.context().now_nanos();
    let (mut state, identity, tables) = picture(flusher)?;
    let left = version::our_files(env, dir)?.iter().any(|name| *name != StoreFileName::Lock);
    if left {
        remove_ours(dir, env)?; // of an interrupted creation
    }
    version::mark_unfinished(env, dir, Marked::UnfinishedCheckpoint)?;
    // A blob file that several tables point into is copied once.
    let values = |table: &Arc<TableHandle>| table.values().iter().map(|values| values.name()).collect::<Vec<_>>();
    let names =
        tables.iter().flat_map(|table| [vec![StoreFileName::Table(table.meta().number)], values(table)].concat());
    for name in names.collect::<BTreeSet<_>>() {
        copy_file(flusher, dir, env, name)?;
    }
    env.fs.sync_dir(dir).during(|| "syncing the checkpoint's directory")?;
    // The edit names no log: the open of the copy creates a fresh one, after the seqno in the counters.
    let number = state.next_file;
    let lines = log_of_copy(flusher, &state, dir, started);
    if let Some(lines) = &lines {
        let mut first = Edit::from(lines.clone());
        number_events(&mut first, &state);
        state.apply(&first).map_err(Error::invalid)?;
    }
    let identity = identity.of_checkpoint(flusher.context().env.random.uid(), number, state.last_seqno);
    Manifest::create(env, dir, number, identity, &state.snapshot())?;
    version::mark_finished(env, dir)?;
    lines.map_or(Ok(()), |lines| flusher.catalog().install(Edit::from(lines), None))
}

/// Returns the event log entries for the checkpoint, which go into the copy and into this store.
fn log_of_copy(flusher: &Flusher, state: &ManifestState, dir: &Path, started: u64) -> Option<Vec<EditChange>> {
    let engine_log = flusher.catalog().events.engine_log()?;
    let work = Work {
        engine_event: EngineEvent::Checkpointed { dir: &dir.to_string_lossy() },
        touched: touched_in(state, &[], true),
        log: None,
        seqno: state.last_seqno,
        nanos: flusher.context().now_nanos().saturating_sub(started),
    };
    let mut edit = Edit::default();
    add_event(&**engine_log, &mut edit, &work);
    Some(edit.changes).filter(|lines| !lines.is_empty())
}

/// The state of all families at one commit, in tables alone, and the handles that keep those tables alive.
fn picture(flusher: &Flusher) -> Result<(ManifestState, StoreIdentity, Vec<Arc<TableHandle>>)> {
    let _job = flusher.job()?;
    let through = flusher.write_path().freeze(&|_| true)?;
    flusher.flush_frozen(&|_| true, through)?;
    let manifest = lock(&flusher.catalog().manifest);
    let Some(manifest) = manifest.as_ref() else { return Err(Error::closed()) };
    let (state, identity) = (manifest.state().without_log(), manifest.identity().clone());
    let families = flusher.catalog().families();
    let views = families.by_id.values().map(|family| family.pinned_view());
    let tables =
        views.flat_map(|view| view.levels.iter().flat_map(|level| level.tables()).cloned().collect::<Vec<_>>());
    Ok((state, identity, tables.collect()))
}

fn copy_file(flusher: &Flusher, dir: &Path, env: &Env, name: StoreFileName) -> Result<()> {
    let (from, to) = (flusher.context().path(name), dir.join(name.to_string()));
    if env.fs.link(&from, &to).is_ok() {
        return Ok(());
    }
    let source = flusher.context().env.fs.open(&from, Open::Read).during(|| format!("opening {name}"))?;
    let copy = env.fs.open(&to, Open::Create).during(|| format!("creating a copy of {name}"))?;
    copy_contents(&*source, &*copy, &name)
}

/// Copies a file, and makes the copy's contents durable. `name` is used in errors.
pub(super) fn copy_contents(source: &dyn File, copy: &dyn File, name: &dyn fmt::Display) -> Result<()> {
    let length = source.len().during(|| format!("asking for the length of {name}"))?;
    let mut offset = 0;
    let mut buffer = vec![0; MIB];
    while offset < length {
        let part = (length - offset).min(MIB as u64) as usize;
        read_into(source, offset, &mut buffer[..part]).during(|| format!("reading {name}"))?;
        copy.write_at(&buffer[..part], offset).during(|| format!("copying {name}"))?;
        offset += part as u64;
    }
    copy.sync_data().during(|| format!("syncing a copy of {name}"))
}
