//! A checkpoint: a store of its own in another directory, as this one was at one commit, across all families.
//!
//! Everything frozen at that commit is flushed first, so that tables alone carry it; no log file is linked or copied. Tables, and
//! the value files that they point into, are linked where the file system can (they never change), else copied. The copy has its own manifest, log and uid.
//! Holds: the lock of the copy, from before it is empty until it is whole: two at once would take each other's files for their own.
//! Crash: a directory without `CURRENT`, which is no store.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::open::{create_directory, remove_directory, remove_ours, take_lock};
use super::{Db, Inner, TableHandle, chronicle};
use crate::env::work::lock;
use crate::env::{Env, Open, read_into};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::identity::StoreIdentity;
use crate::names::Name;
use crate::options::MIB;
use crate::seam::{Deed, Work};
use crate::version::{self, Change, Contents, Edit, Manifest, Marked, State};

impl Db {
    /// Writes a checkpoint into `dir`, which must not exist or be empty. Durable when it returns. Writers go on, flushes wait.
    /// Costs a flush, a link per table (a copy where there are no links) and about ten fsyncs. On error what was made is removed.
    /// Errors: `Invalid` if something is in `dir`, `Locked` while another checkpoint is written there, `Io`.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        let (inner, _) = self.writable()?;
        let env = &inner.env.clone().within(dir); // the copy stays in the directory that was locked
        check_empty(dir, env)?; // before the lock: none is left in somebody else's directory
        let is_made = !env.fs.exists(dir).during(|| "looking at the checkpoint's directory")?;
        create_directory(dir, env)?;
        let held = take_lock(dir, env).inspect_err(|error| {
            if is_made && *error.kind() != ErrorKind::Locked {
                let _ = env.fs.remove_dir(dir);
            }
        })?;
        check_empty(dir, env)?;
        let outcome = inner.checkpoint(dir, env);
        if outcome.is_err() {
            let _ = remove_ours(dir, env);
            if is_made {
                remove_directory(dir, env, held);
            }
        }
        outcome
    }
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

impl Inner {
    fn checkpoint(&self, dir: &Path, env: &Env) -> Result<()> {
        let started = self.now_nanos();
        let (mut state, identity, tables) = self.picture()?;
        let left = version::our_files(env, dir)?.iter().any(|name| *name != Name::Lock);
        if left {
            remove_ours(dir, env)?; // by a creation that was interrupted
        }
        version::mark_unfinished(env, dir, Marked::UnfinishedCheckpoint)?;
        // A value file that several tables point into is copied once.
        let values = |table: &Arc<TableHandle>| table.values().iter().map(|values| values.name()).collect::<Vec<_>>();
        let names = tables.iter().flat_map(|table| [vec![Name::Table(table.meta().number)], values(table)].concat());
        for name in names.collect::<BTreeSet<_>>() {
            self.copy_file(dir, env, name)?;
        }
        env.fs.sync_dir(dir).during(|| "syncing the checkpoint's directory")?;
        // No log is named: whoever opens the copy makes a fresh one, after the seqno that the counters name.
        let number = state.next_file;
        let lines = self.tell_of_copy(&state, dir, started);
        if let Some(lines) = &lines {
            let mut first = Edit::from(lines.clone());
            chronicle::number(&mut first, &state);
            state.apply(&first).map_err(Error::invalid)?;
        }
        let identity = identity.of_checkpoint(self.env.random.uid(), number, state.last_seqno);
        Manifest::create(env, dir, number, identity, &state.snapshot())?;
        version::mark_finished(env, dir)?;
        lines.map_or(Ok(()), |lines| self.install(Edit::from(lines), None))
    }

    /// The line of a copy, for itself and for this store.
    fn tell_of_copy(&self, state: &State, dir: &Path, started: u64) -> Option<Vec<Change>> {
        let keeper = self.book.keeper()?;
        let work = Work {
            deed: Deed::Checkpointed { dir: &dir.to_string_lossy() },
            touched: chronicle::touched_in(state, &[], true),
            log: None,
            seqno: state.last_seqno,
            nanos: self.now_nanos().saturating_sub(started),
        };
        let mut edit = Edit::default();
        chronicle::tell(&**keeper, &mut edit, &work);
        Some(edit.changes).filter(|lines| !lines.is_empty())
    }

    /// The state of all families at one commit, in tables alone, and the handles that keep those tables alive.
    fn picture(&self) -> Result<(State, StoreIdentity, Vec<Arc<TableHandle>>)> {
        let _job = self.job()?;
        let through = self.freeze(&|_| true)?;
        self.flush_frozen(&|_| true, through)?;
        let manifest = lock(&self.manifest);
        let Some(manifest) = manifest.as_ref() else { return Err(Error::closed()) };
        let (state, identity) = (manifest.state().without_log(), manifest.identity().clone());
        let families = self.families();
        let views = families.by_id.values().map(|family| family.pinned_view());
        let tables =
            views.flat_map(|view| view.levels.iter().flat_map(|level| level.tables()).cloned().collect::<Vec<_>>());
        Ok((state, identity, tables.collect()))
    }

    fn copy_file(&self, dir: &Path, env: &Env, name: Name) -> Result<()> {
        let (from, to) = (self.path(name), dir.join(name.to_string()));
        if env.fs.link(&from, &to).is_ok() {
            return Ok(());
        }
        let source = self.env.fs.open(&from, Open::Read).during(|| format!("opening {name}"))?;
        let copy = env.fs.open(&to, Open::Create).during(|| format!("creating a copy of {name}"))?;
        let length = source.len().during(|| format!("asking for the length of {name}"))?;
        let mut offset = 0;
        let mut buffer = vec![0; MIB];
        while offset < length {
            let part = (length - offset).min(MIB as u64) as usize;
            read_into(&*source, offset, &mut buffer[..part]).during(|| format!("reading {name}"))?;
            copy.write_at(&buffer[..part], offset).during(|| format!("copying {name}"))?;
            offset += part as u64;
        }
        copy.sync_data().during(|| format!("syncing a copy of {name}"))
    }
}
