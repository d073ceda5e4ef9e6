//! Writes a table file outside of the store, to be ingested later.
//!
//! In:    keys in ascending order, each once, with values or deletes.
//! Out:   a synced table file whose records have `WRITTEN_SEQNO`, with companions bound to it.
//! Fork:  only the process that created the file writes or removes it.
//! Crash: a file without a footer, which no ingestion accepts.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compaction::packing::compression_at;
use crate::db::open::inner::forked;
use crate::db::state::context::StoreContext;
use crate::db::state::family::Family;
use crate::env::{Env, File, Open, Origin};
use crate::error::{Error, IoContext, Result};
use crate::options::SealLayout;
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES, Record, companion};
use crate::seam::{Companions, PendingWrite, bind_written};
use crate::sst::{WRITTEN_SEQNO, Writer, WriterSettings};
use crate::version::LEVELS;

/// A finished table file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableFile {
    /// Its path.
    pub path: PathBuf,
    /// Number of its records.
    pub records: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Writes one table file. A writer that is dropped before `finish` removes its file.
pub struct TableFileWriter {
    env: Env,
    origin: Origin,
    path: PathBuf,
    /// The writer and its file, until `finish`.
    open: Option<(Writer, Arc<dyn File>)>,
    order: Order,
    protector: Arc<dyn Companions>,
    family: u32,
    last_key: Option<Vec<u8>>,
    written: Vec<u8>,
    companion: Vec<u8>,
}

impl TableFileWriter {
    /// Creates the file, which must not exist.
    pub(in crate::db) fn create(context: &StoreContext, family: &Family, path: &Path) -> Result<TableFileWriter> {
        if family.system().is_some() {
            return Err(Error::invalid("nothing is ingested into a system family"));
        }
        let env = context.env.clone();
        let naming = || format!("creating {}", path.display());
        if env.fs.exists(path).during(naming)? {
            return Err(Error::invalid(format!("{} exists already", path.display())));
        }
        let file = env.fs.open(path, Open::Create).during(naming)?;
        let options = family.options();
        let compression = compression_at(&options, LEVELS - 1);
        let settings = WriterSettings {
            compression,
            // The companions of a column are bound to another seqno without a look at the records.
            seal_column: options.seals != SealLayout::Following,
            created_micros: env.clock.wall_micros(),
            store: Some(context.store),
            ..WriterSettings::of(&options, family.id(), WRITTEN_SEQNO)
        };
        let writer = Writer::new(file.clone(), env.random.uid(), settings, context.companions.clone());
        let writer = writer.cut_into(options.part_blocks);
        Ok(TableFileWriter {
            env,
            origin: Origin::here(),
            path: path.to_owned(),
            open: Some((writer, file)),
            order: options.order.clone(),
            protector: context.companions.clone(),
            family: family.id(),
            last_key: None,
            written: Vec::new(),
            companion: Vec::new(),
        })
    }

    /// Adds a record. Errors: `Invalid` for a key that is not greater than the one before, or beyond the limits, and in
    /// a forked child; then nothing was added. After other errors the writer is unusable.
    pub fn push(&mut self, kind: Kind, key: &[u8], value: &[u8], entries: &[(u16, &[u8])]) -> Result<()> {
        let Some((writer, _)) = &mut self.open else { return Err(Error::invalid("the table file is finished")) };
        if !self.origin.is_here() {
            return Err(forked());
        }
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            let (key, value) = (key.len(), value.len());
            return Err(Error::invalid(format!(
                "a key of {key} bytes with a value of {value}; the limits are {MAX_KEY_BYTES} and {MAX_VALUE_BYTES}"
            )));
        }
        if !matches!(kind, Kind::Put | Kind::Delete) {
            return Err(Error::invalid("a table file holds values and deletes only"));
        }
        if let Some(last) = &self.last_key
            && self.order.compare(last, key) != Ordering::Less
        {
            return Err(Error::invalid("keys of a table file must ascend, each of them once"));
        }
        self.written.clear();
        let pending = PendingWrite { family: self.family, kind, key, key_hash: None, value, entries };
        self.protector.on_write(&pending, &mut self.written)?;
        if self.written.len() > companion::MAX_BYTES {
            return Err(Error::invalid("companions of one record are limited to 64 KiB"));
        }
        bind_written(&*self.protector, &self.written, WRITTEN_SEQNO, &mut self.companion);
        let promise = self.protector.protection();
        writer.add_promised(&Record { key, seqno: WRITTEN_SEQNO, kind, value, companion: &self.companion }, promise)?;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Returns the length of the file so far, including buffered bytes.
    pub fn file_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |(writer, _)| writer.file_bytes())
    }

    /// Writes the rest of the file and makes it durable, with its name. Errors: `Invalid` without a record, and in a
    /// forked child.
    pub fn finish(&mut self) -> Result<TableFile> {
        if !self.origin.is_here() {
            return Err(forked());
        }
        let Some((writer, file)) = self.open.take() else { return Err(Error::invalid("the table file is finished")) };
        let finished = writer.finish().and_then(|finished| {
            let syncing = || format!("syncing {}", self.path.display());
            file.sync_data().during(syncing)?;
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            self.env.fs.sync_dir(parent.unwrap_or(Path::new("."))).during(syncing)?;
            Ok(finished)
        });
        let finished = finished.inspect_err(|_| self.remove())?;
        Ok(TableFile { path: self.path.clone(), records: finished.ledger.count(), bytes: finished.size })
    }

    fn remove(&self) {
        let _ = self.env.fs.remove(&self.path);
    }
}

impl Drop for TableFileWriter {
    fn drop(&mut self) {
        if self.open.take().is_some() && self.origin.is_here() {
            self.remove();
        }
    }
}

impl std::fmt::Debug for TableFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFileWriter").field("path", &self.path).finish_non_exhaustive()
    }
}
