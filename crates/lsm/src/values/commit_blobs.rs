//! Key-value separation at commit: the value file into which commits of a family write large values before their frames
//! are ordered, so that the log holds pointers and each value is written once.
//!
//! In:     a key, its value and its record's ledger term, on the committing thread. Out: a pointer, and the file, held.
//! Holds:  a value has reached the operating system before a frame that points to it is ordered, so after a kill every
//!         frame in the log finds its values. A value is durable before that frame is reported as durable (I15): a log
//!         sync calls `UnsyncedBlobs::sync` first. The name of a file is durable before the first pointer into it
//!         exists. A file gets its footer, and is synced, before a table that points into it is written (I04), by the
//!         flush that writes the table.
//! Life:   the file is held by the committing thread, then by the memtable of the record, then by tables. Values whose
//!         frames were never ordered are removed from the end of the file, so that repeated failing commits do not fill
//!         the device; if other values follow them, they stay as garbage.
//! Crash:  leaves a file without a footer that no table names. Recovery reads the values that the log points to and
//!         writes them with their tables; then the file is deleted as obsolete. A missing or damaged value makes its
//!         frame incomplete.
//! Fails:  a failed entry write fails only its commit, and the next entry takes its place. A failed footer write fails
//!         the flush, which is retried. A failed sync halts the log (I09). again. A sync that failed halts the log
//!         (I09).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::blob_files::{BlobFile, BlobFiles};
use super::writer::{BlobWriter, WriterMark};
use crate::env::work::lock;
use crate::env::{Env, File};
use crate::error::{Error, IoContext, Result};
use crate::left_files::LeftFiles;
use crate::names::StoreFileName;
use crate::options::CfOptions;
use crate::planted;
use crate::pointer::Pointer;
use crate::record::Seqno;
use crate::sst::{Charge, LargeValues};

/// The parameters with which an intake creates a file.
#[derive(Clone, Copy)]
pub struct BlobSetup<'a> {
    /// Files and randomness.
    pub env: &'a Env,
    /// The store's directory.
    pub dir: &'a Path,
    /// Knows the files that could not be removed.
    pub left: &'a LeftFiles,
    /// Returns the options of the family as of now.
    pub options: &'a dyn Fn() -> Arc<CfOptions>,
    /// Returns the number of a new file.
    pub new_number: &'a dyn Fn() -> u64,
    /// Syncs the directory, so that the names in it are durable.
    pub sync_names: &'a dyn Fn() -> Result<()>,
    /// The least seqno that a commit which is not ordered yet can have.
    pub oldest: Seqno,
    /// Registry of files with bytes that are not durable.
    pub unsynced: &'a UnsyncedBlobs,
}

/// The value file that the commits of one family write into.
#[derive(Debug, Default)]
pub struct CommitBlobs {
    state: Mutex<CommitState>,
    is_open: AtomicBool,
}

#[derive(Debug, Default)]
struct CommitState {
    open: Option<OpenBlob>,
    /// True if no flush will finish a file begun from now on.
    is_over: bool,
}

#[derive(Debug)]
struct OpenBlob {
    writer: BlobWriter,
    file: Arc<BlobFile>,
    /// Budget charge for the buffers that the writer keeps between values; `None` without a budget.
    room: Option<Charge>,
}

/// Consecutive values just added to a file. Keep it until a memtable or table that stores the pointers holds the file.
#[derive(Debug)]
pub struct AddedValue {
    file: Arc<BlobFile>,
    before: WriterMark,
    after: WriterMark,
}

impl AddedValue {
    /// Returns the file of the values.
    pub fn file(&self) -> &Arc<BlobFile> {
        &self.file
    }

    /// Merges values that were added directly after these. Returns `next` unchanged if they are elsewhere.
    pub fn join(&mut self, next: AddedValue) -> std::result::Result<(), AddedValue> {
        if self.after != next.before || !Arc::ptr_eq(&self.file, &next.file) {
            return Err(next);
        }
        self.after = next.after;
        Ok(())
    }
}

impl CommitBlobs {
    /// Adds a value. On return it has reached the operating system but is not durable. Returns `Io`, or `Invalid` once
    /// the intake is abandoned; then nothing was changed.
    pub fn add(
        &self,
        making: BlobSetup<'_>,
        blob_files: &Arc<BlobFiles>,
        (key, value, term): (&[u8], &[u8], u64),
    ) -> Result<(Pointer, AddedValue)> {
        let CommitState { open, is_over } = &mut *lock(&self.state);
        let OpenBlob { writer, file, room } = match open {
            Some(open) => open,
            None if *is_over => return Err(Error::invalid("the family was dropped")),
            None => {
                let BlobSetup { env, dir, left, sync_names, oldest, .. } = making;
                let (number, options) = ((making.new_number)(), (making.options)());
                let writer = BlobWriter::create_shared((env, dir, left), number, options.compression, sync_names)?;
                let writer = writer.collecting(&options.table_properties);
                let file = blob_files.hold_unfinished((number, oldest), writer.uid(), Some(writer.file()));
                self.is_open.store(true, Ordering::Release);
                open.insert(OpenBlob { writer, file, room: blob_files.values().map(LargeValues::charge) })
            }
        };
        let before = writer.mark();
        let pointer = writer.add_through(key, value, term)?;
        if let Some(room) = room.as_ref().filter(|room| room.bytes() != writer.kept_bytes()) {
            room.set(writer.kept_bytes());
        }
        making.unsynced.note(file.name(), writer.file());
        Ok((pointer, AddedValue { file: file.clone(), before, after: writer.mark() }))
    }

    /// Returns true if a file is open and not finished.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Removes values that no frame points to; the next values take their place. If other values follow them, they stay
    /// as garbage.
    pub fn take_back(&self, added: &AddedValue) {
        if let Some(OpenBlob { writer, file, .. }) = &mut lock(&self.state).open
            && Arc::ptr_eq(file, &added.file)
            && writer.mark() == added.after
        {
            writer.back_to(added.before);
        }
    }

    /// Writes the footer of the open file; later values go into another file. Returns `None` if no file is open. On
    /// `Io` the file stays open.
    pub fn end(&self) -> Result<Option<EndedBlob>> {
        self.end_before(|| {})
    }

    /// Ends the open file like `end`, then changes the family's options: values before the change are in that file, and
    /// values after it in a file that is begun with the new options. On `Io` nothing is changed.
    pub fn end_before(&self, change: impl FnOnce()) -> Result<Option<EndedBlob>> {
        let open = &mut lock(&self.state).open;
        if let Some(OpenBlob { writer, .. }) = open {
            writer.end()?;
        }
        change();
        self.is_open.store(false, Ordering::Release);
        Ok(open.take().map(EndedBlob))
    }

    /// Releases the open file and begins no other: its family was durably dropped.
    pub fn abandon(&self, unsynced: &UnsyncedBlobs) {
        let CommitState { open, is_over } = &mut *lock(&self.state);
        *is_over = true;
        self.is_open.store(false, Ordering::Release);
        if let Some(OpenBlob { file, .. }) = open.take() {
            unsynced.forget(file.name());
        }
    }
}

/// A finished file, with footer, that must be synced.
#[derive(Debug)]
pub struct EndedBlob(OpenBlob);

impl EndedBlob {
    /// Makes the file durable, so that tables may name it. After an error the state of its bytes is unknown (I09).
    pub fn sync(self, unsynced: &UnsyncedBlobs) -> Result<()> {
        let OpenBlob { writer, file, .. } = self.0;
        unsynced.one_at_a_time(|| {
            file.finish(writer.sync()?);
            unsynced.forget(file.name());
            Ok(())
        })
    }
}

/// The value files of a store with bytes that are not durable.
#[derive(Debug, Default)]
pub struct UnsyncedBlobs {
    files: Mutex<Vec<(StoreFileName, Arc<dyn File>)>>,
    /// Held during a sync, because a concurrent caller needs the same files synced. Holds the first sync error: the
    /// system reports lost pages once, so a later sync would wrongly treat them as durable.
    syncing: Mutex<Option<Error>>,
}

impl UnsyncedBlobs {
    fn note(&self, name: StoreFileName, file: &Arc<dyn File>) {
        let mut files = lock(&self.files);
        if !files.iter().any(|(known, _)| *known == name) {
            files.push((name, file.clone()));
        }
    }

    /// Unregisters a file that is durable or no longer needed, so that it is not kept open for a sync that may never
    /// come.
    fn forget(&self, name: StoreFileName) {
        lock(&self.files).retain(|(known, _)| *known != name);
    }

    /// Makes all bytes written before the call durable, with one `fdatasync` per file. After an error their state is
    /// unknown (I09).
    pub fn sync(&self) -> Result<()> {
        self.one_at_a_time(|| {
            let files = std::mem::take(&mut *lock(&self.files));
            if planted!(LogSyncedBeforeItsValues, true, files.is_empty()) {
                return Ok(());
            }
            files.iter().try_for_each(|(name, file)| file.sync_data().during(|| format!("syncing {name}")))
        })
    }

    fn one_at_a_time(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failed = lock(&self.syncing);
        match &*failed {
            Some(error) => Err(error.clone()),
            None => sync().inspect_err(|error| *failed = Some(error.clone())),
        }
    }
}
