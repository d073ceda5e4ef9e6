//! Inspection of a store piece by piece, for verification, scrubbing and repair. Changes nothing.
//!
//! Out: the tables of a family, each kept alive while it is inspected; its memtables; the part of the log that still
//!      exists; a fresh read of the manifest. Damage is an error of the damaged piece only.

use std::fmt;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::db::state::family::{Family, TableHandle, View};
use crate::error::{Damage, Error, Result, Verdict};
use crate::names::StoreFileName;
use crate::record::{Kind, Record};
use crate::seam::{Check, Companions};
use crate::sst::Table;
use crate::values::{BlobBuffer, BlobFile, BlobFiles};
use crate::version::TableMeta;
use crate::wal::{self};

/// One table of a family. Its file is not removed while this value lives.
#[derive(Clone)]
pub struct TableRef {
    pub(in crate::db) family: Family,
    pub(in crate::db) level: usize,
    pub(in crate::db) handle: Arc<TableHandle>,
}

impl TableRef {
    /// Returns the family.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// Returns the table's level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Returns the manifest's metadata of the table.
    pub fn meta(&self) -> &TableMeta {
        self.handle.meta()
    }

    /// Returns the blob files that it points into.
    pub fn values(&self) -> &[Arc<BlobFile>] {
        self.handle.values()
    }

    /// Returns the name of its file.
    pub fn name(&self) -> String {
        StoreFileName::Table(self.meta().number).to_string()
    }

    /// Returns the table, opened as for any reader.
    pub fn table(&self) -> Result<Arc<Table>> {
        self.handle.table().cloned()
    }

    /// Makes readers forget damage that they met in the table. Call it after the whole file was found intact.
    pub fn forget_damage(&self) {
        if let Some(table) = self.handle.opened() {
            table.forget_damage(); // for readers of an earlier view
        }
        self.family.forget_damage(self.meta().number);
    }

    /// Verifies the value that a record of the table points to, and the rest of its entry in the blob file. Returns
    /// `None` if the entry is intact. Returns an error in `Some` if the value is readable, but part of its entry is
    /// damaged. Fails if the value is unreadable.
    pub fn look_at_value(&self, record: &Record<'_>, room: &mut BlobBuffer) -> Result<Option<Error>> {
        look_at_value(self.values().first().map(|file| file.blob_files()), &self.family, record, room)
    }
}

impl fmt::Debug for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in level {}", self.handle, self.level)
    }
}

/// The memtables of a family as of one moment. Blob files that they point into are not removed while this value lives.
pub struct MemoryRef<'a> {
    pub(in crate::db) protector: &'a dyn Companions,
    pub(in crate::db) family: Family,
    pub(in crate::db) view: Arc<View>,
}

impl MemoryRef<'_> {
    /// Passes every record to `visit`, with the result of its companion's check.
    pub fn visit(&self, visit: &mut dyn FnMut(&Record<'_>, Check) -> Result<()>) -> Result<()> {
        for generation in self.view.memtables() {
            let mut cursor = generation.memtable.cursor();
            cursor.first()?;
            while cursor.valid() {
                let record = cursor.record();
                let key_hash = crate::checksum::hash_key(record.key);
                let check = match record.kind {
                    Kind::Fence => Check::Corrupted, // its key and value are unknown
                    _ => self.protector.verify(&record, key_hash, cursor.source().protection),
                };
                visit(&record, check)?;
                cursor.next()?;
            }
        }
        Ok(())
    }

    /// Verifies a value like `TableRef::look_at_value`, for a record of these memtables.
    pub fn look_at_value(&self, record: &Record<'_>, room: &mut BlobBuffer) -> Result<Option<Error>> {
        look_at_value(self.view.values.as_deref(), &self.family, record, room)
    }
}

impl fmt::Debug for MemoryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memtables of {:?}", self.family.name())
    }
}

fn look_at_value(
    blob_files: Option<&BlobFiles>,
    family: &Family,
    record: &Record<'_>,
    room: &mut BlobBuffer,
) -> Result<Option<Error>> {
    let named = |error: Error| error.in_family(family.name(), None);
    let blob_files = blob_files.ok_or_else(|| named(Error::structural("a pointer of what names no value file")))?;
    blob_files.look_at(record, room).map(|hit| hit.map(named)).map_err(named)
}

/// Returns the error of a ring that lost its marks, for example because the file system was shut down under an open
/// store.
pub(in crate::db) fn marks_lost(log: &wal::LogStart) -> Error {
    let damage =
        Damage { file: StoreFileName::Ring(log.ring).to_string(), verdict: Verdict::Missing, ..Damage::default() };
    Error::corruption(
        damage,
        "the marks of the log are older than the manifest, and nobody writes the log: its newest pages are lost",
    )
}
