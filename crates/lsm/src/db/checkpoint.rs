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
    /// Writes a checkpoint into `dir`, which must not exist or must be empty. The checkpoint is durable when the call
    /// returns. Writers continue meanwhile; flushes wait. Costs a flush, a link per table (a copy where links are
    /// unsupported) and about ten fsyncs. After an error the created files are removed. Errors: `Invalid` if `dir` is
    /// not empty, `Locked` while another checkpoint is written there, `Io`.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        let (inner, _) = self.writable()?;
        let env = &inner.env.clone().within(dir); // the copy stays in the locked directory
        check_empty(dir, env)?; // before locking: no lock file in a foreign directory
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
            remove_ours(dir, env)?; // of an interrupted creation
        }
        version::mark_unfinished(env, dir, Marked::UnfinishedCheckpoint)?;
        // A blob file that several tables point into is copied once.
        let values = |table: &Arc<TableHandle>| table.values().iter().map(|values| values.name()).collect::<Vec<_>>();
        let names = tables.iter().flat_map(|table| [vec![Name::Table(table.meta().number)], values(table)].concat());
        for name in names.collect::<BTreeSet<_>>() {
            self.copy_file(dir, env, name)?;
        }
        env.fs.sync_dir(dir).during(|| "syncing the checkpoint's directory")?;
        // The edit names no log: the open of the copy creates a fresh one, after the seqno in the counters.
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

    /// Returns the event log entries for the checkpoint, which go into the copy and into this store.
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
