//! Checkpoints of nodes, read at a given time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal::env::{Env, ManualClock};
use waxseal::{ChangePosition, ColumnFamily, Db, Digest};

use crate::error::{Error, Result};
use crate::key_span::KeySpan;

/// A checkpoint of a node's store. Its tables are linked to those of the store where the file system has links.
pub(crate) struct Checkpoint {
    pub(crate) directory: PathBuf,
}

impl Checkpoint {
    /// Takes a checkpoint, in place of anything that an earlier run has left in the directory.
    pub(crate) fn take(db: &Db, directory: PathBuf, env: &Env) -> Result<Checkpoint> {
        remove_directory(env, &directory)?;
        db.checkpoint(&directory)?;
        Ok(Checkpoint { directory })
    }

    pub(crate) fn open(&self, env: &Env) -> Result<Db> {
        Ok(Db::builder(&self.directory).env(env.clone()).open_read_only()?)
    }

    /// Returns the digest of a range of a family. `time`, in microseconds since 1970, decides which records have
    /// expired.
    pub(crate) fn digest(&self, env: &Env, time: u64, rows: &str, span: &KeySpan) -> Result<Digest> {
        let clock = ManualClock::default();
        clock.advance_nanos(time.saturating_mul(1000));
        let db = self.open(&Env { clock: Arc::new(clock), ..env.clone() })?;
        let digest = family(&db, rows)?.digest(span.bounds())?;
        db.close()?;
        Ok(digest)
    }

    /// Returns the last commit of the store that the checkpoint has.
    pub(crate) fn position(&self, env: &Env) -> Result<ChangePosition> {
        let position = self.open(env)?.change_branch();
        position
            .ok_or_else(|| Error::corruption(format!("{}: a checkpoint without a position", self.directory.display())))
    }

    /// Exports a range of a family to a new directory.
    pub(crate) fn export(&self, env: &Env, rows: &str, span: &KeySpan, to: &Path) -> Result<()> {
        let db = self.open(env)?;
        family(&db, rows)?.export(to, waxseal::exchange::ExportOptions::new().range(span.bounds()))?;
        Ok(db.close()?)
    }
}

/// Returns a family of a store.
fn family(db: &Db, name: &str) -> Result<ColumnFamily> {
    let found = db.column_families().into_iter().find(|family| family.name() == name);
    found.ok_or_else(|| Error::corruption(format!("the checkpoint has no family {name:?}")))
}

/// Removes a directory and the files in it; does nothing if it does not exist.
pub(crate) fn remove_directory(env: &Env, directory: &Path) -> Result<()> {
    let remove = || {
        if !env.fs.exists(directory)? {
            return Ok(());
        }
        for name in env.fs.list(directory)? {
            env.fs.remove(&directory.join(name))?;
        }
        env.fs.remove_dir(directory)
    };
    let failed = |error: io::Error| Error::io(format!("removing {}: {error}", directory.display()));
    remove().map_err(failed)
}
