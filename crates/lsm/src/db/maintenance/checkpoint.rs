//! Checkpoints: an independent store in another directory, with all families as of one commit.
//!
//! All records up to that commit are flushed first, so tables alone carry them; no log file is linked or copied. Tables
//! never change, nor do the blob files that they point into. They are linked where the file system supports links, and
//! copied otherwise. The copy has its own manifest, log and uid.
//!
//! Crash: a directory without `CURRENT`, which is not a store.

use std::fmt;
use std::path::Path;

use super::pinned_files::PinnedFiles;
use super::store_copy::{begin_copy, finish_copy, in_empty_directory};
use crate::db::catalog::event_log::{add_event, number_events, touched_in};
use crate::db::jobs::job_lock::Flusher;
use crate::env::{Env, File, Open, read_into};
use crate::error::{Error, IoContext, Result};
use crate::names::StoreFileName;
use crate::options::MIB;
use crate::seam::{EngineEvent, Work};
use crate::version::{Edit, EditChange, ManifestState, Marked};

/// Writes a checkpoint into `dir`; see `Db::checkpoint`.
pub(in crate::db) fn checkpoint(flusher: &Flusher, dir: &Path) -> Result<()> {
    let env = &flusher.context().env.clone().within(dir); // the copy stays in the locked directory
    in_empty_directory(dir, env, Marked::UnfinishedCheckpoint, || write_checkpoint(flusher, dir, env))
}

fn write_checkpoint(flusher: &Flusher, dir: &Path, env: &Env) -> Result<()> {
    let started = flusher.context().now_nanos();
    let PinnedFiles { mut state, through, identity, files } = PinnedFiles::pin(flusher)?;
    begin_copy(dir, env, Marked::UnfinishedCheckpoint)?;
    for file in &files {
        copy_file(flusher, dir, env, file.name())?;
    }
    let event = EngineEvent::Checkpointed { dir: &dir.to_string_lossy() };
    let lines = lines_of_copy(flusher, &mut state, event, started)?;
    finish_copy(dir, env, (&state, through), &identity)?;
    log_copy(flusher, lines)
}

/// Returns the event log entries for a copy of the store, and adds them to the state of the copy. `log_copy` adds them
/// to the store.
pub(in crate::db) fn lines_of_copy(
    flusher: &Flusher,
    state: &mut ManifestState,
    engine_event: EngineEvent<'_>,
    started: u64,
) -> Result<Vec<EditChange>> {
    let Some(engine_log) = flusher.catalog().events.engine_log() else { return Ok(Vec::new()) };
    let work = Work {
        engine_event,
        touched: touched_in(state, &[], true),
        log: None,
        seqno: state.last_seqno,
        nanos: flusher.context().now_nanos().saturating_sub(started),
    };
    let mut edit = Edit::default();
    add_event(&**engine_log, &mut edit, &work);
    let lines = edit.changes.clone();
    number_events(&mut edit, state);
    state.apply(&edit).map_err(Error::invalid)?;
    Ok(lines)
}

/// Adds the entries of `lines_of_copy` to the store's event log.
pub(in crate::db) fn log_copy(flusher: &Flusher, lines: Vec<EditChange>) -> Result<()> {
    if lines.is_empty() { Ok(()) } else { flusher.catalog().install(Edit::from(lines), None) }
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
