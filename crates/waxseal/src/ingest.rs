//! Bulk load: table files that are written outside of the store and ingested whole, and rows in any order.

use std::fmt;
use std::path::{Path, PathBuf};

use waxseal_lsm::db::{BulkLoad, IngestMode, IngestedTables, TableFile, TableFileWriter};
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Kind, Seqno};

use crate::batch::{Write, with_entries};
use crate::db::Db;
use crate::inner::ColumnFamily;
use crate::write_options::WriteOptions;

/// Writes one table file, for [`Db::ingest`].
///
/// The file belongs to nobody until it is ingested: it may be written by another process, moved, or deleted. Each record
/// gets its seal when it is put. The family determines the key order, the block size, the compression and the default
/// expiry; a family of another store with the same key order can ingest the file, too. A writer that is dropped before
/// [`finish`](TableWriter::finish) removes its file.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = waxseal::Db::open(dir.path().join("store"))?;
/// # let (users, path) = (db.column_family("users")?, dir.path().join("users.tbl"));
/// use waxseal::{IngestOptions, TableWriter};
///
/// let mut writer = TableWriter::create(&path, &users)?;
/// for (name, year) in [("alice", "1815"), ("bob", "1912")] {
///     writer.put(name, year)?; // in ascending order of the keys
/// }
/// writer.finish()?;
/// db.ingest(&users, [&path], IngestOptions::default().move_files(true))?;
/// assert_eq!(users.get("bob")?.unwrap(), "1912");
/// # Ok(())
/// # }
/// ```
pub struct TableWriter {
    writer: TableFileWriter,
    family: ColumnFamily,
}

impl TableWriter {
    /// Creates a file, which must not exist. Errors: `Invalid` if it exists, `Io`.
    pub fn create(path: impl AsRef<Path>, family: &ColumnFamily) -> Result<TableWriter> {
        family.inner.check(&family.family)?;
        let writer = family.inner.engine.table_writer(&family.family, path.as_ref())?;
        Ok(TableWriter { writer, family: family.clone() })
    }

    /// Adds a value. Errors: `Invalid`, and the file is unchanged, if the key is not greater than the one before it; `Io`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut TableWriter> {
        self.add(Write::put(key.as_ref(), value.as_ref()), WriteOptions::default())
    }

    /// Adds a value, with the entries, labels and expiry of `options`; a durability does not apply. Errors: as `put`, and
    /// `Invalid` for an entry that its provider refuses.
    pub fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<&mut TableWriter> {
        self.add(Write::put(key.as_ref(), value.as_ref()), options)
    }

    /// Adds a delete: the ingestion removes the key. Errors: as `put`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut TableWriter> {
        self.add(Write::delete(key.as_ref()), WriteOptions::default())
    }

    fn add(&mut self, write: Write<'_>, options: WriteOptions) -> Result<&mut TableWriter> {
        let TableWriter { writer, family } = self;
        with_entries(family, write, options, &mut |kind, key, value, entries| writer.push(kind, key, value, entries))?;
        Ok(self)
    }

    /// Returns the length of the file so far in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.writer.file_bytes()
    }

    /// Writes the rest of the file and makes it durable. Errors: `Invalid` without a record, or for a second call; `Io`.
    pub fn finish(&mut self) -> Result<TableFile> {
        self.writer.finish()
    }
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.fmt(f)
    }
}

/// Options of an ingestion. By default the files are copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct IngestOptions {
    mode: IngestMode,
}

impl IngestOptions {
    /// Makes the files part of the store: when the ingestion is durable, they lose their old names. That costs no copy
    /// where the store is on the same file system.
    #[must_use]
    pub fn move_files(self, moves: bool) -> IngestOptions {
        IngestOptions { mode: if moves { IngestMode::Move } else { IngestMode::Copy } }
    }
}

/// The result of an ingestion or of a bulk load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ingested {
    /// The seqno of the records; with several families, that of the last one. 0 if there were no records.
    pub seqno: Seqno,
    /// Number of records.
    pub records: u64,
    /// Number of tables that were added.
    pub tables: usize,
    /// Their size in bytes.
    pub bytes: u64,
}

impl From<IngestedTables> for Ingested {
    fn from(done: IngestedTables) -> Ingested {
        Ingested { seqno: done.seqno, records: done.records, tables: done.tables.len(), bytes: done.bytes }
    }
}

impl Db {
    /// Adds table files to a family in one commit, which is durable when the call returns.
    ///
    /// Their records are newer than everything written before, range deletes included, and older than everything
    /// written after. Snapshots and cursors keep what they see. Files of [`TableWriter`] are accepted, in any order.
    /// No two of them may hold the same key. Each file is read through and verified first. Reads and writes continue
    /// meanwhile; writers wait while the commit itself is made.
    ///
    /// An ingestion is one event `Engine.Ingest` of `engine:store`, with the smallest and the largest key of each
    /// family. It logs no event for a registered key.
    ///
    /// While such a table exists, versions of Waxseal without ingestion refuse the store.
    ///
    /// Errors: `Invalid` for a file that [`TableWriter`] did not write, that has another key order, that was written for
    /// another family of this store, that shares keys with another file, or whose table the store has already;
    /// `Corruption` for a damaged file; `Io`. After an error store and files are unchanged.
    pub fn ingest<P: AsRef<Path>>(
        &self,
        family: &ColumnFamily,
        files: impl IntoIterator<Item = P>,
        options: IngestOptions,
    ) -> Result<Ingested> {
        self.ingest_families([(family, files)], options)
    }

    /// Adds table files to several families in one commit: see [`Db::ingest`].
    pub fn ingest_families<'a, P: AsRef<Path>, F: IntoIterator<Item = P>>(
        &self,
        files: impl IntoIterator<Item = (&'a ColumnFamily, F)>,
        options: IngestOptions,
    ) -> Result<Ingested> {
        let paths = |files: F| files.into_iter().map(|path| path.as_ref().to_owned()).collect::<Vec<PathBuf>>();
        let files: Vec<_> = files.into_iter().map(|(family, files)| (family, paths(files))).collect();
        for (family, _) in &files {
            self.inner.own(family)?;
        }
        let asked: Vec<_> = files.iter().map(|(family, paths)| (&family.family, &paths[..])).collect();
        Ok(self.inner.engine.ingest_tables(&asked, options.mode)?.into())
    }

    /// Loads rows in any order into a family, in one commit that is durable when the call returns. A later row replaces
    /// an earlier one of the same key.
    ///
    /// The rows bypass log and memtables: they are sorted and written as tables, which are then ingested (see
    /// [`Db::ingest`] for what that means to readers, events and older versions). Nothing is visible before, and an
    /// error leaves the family as it was. Sorted rows are written once. Others are sorted in pieces of
    /// `memtable_bytes`, or an eighth of `memory_bytes` if that is less, and merged. One piece is written, by
    /// `subcompactions` threads, while the next one fills.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// let squares = db.column_family("squares")?;
    /// let loaded = db.bulk_load(&squares, (0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_string())))?;
    /// assert_eq!(loaded.records, 1000);
    /// assert_eq!(squares.get(7u32.to_be_bytes())?.unwrap(), "49");
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Ingested> {
        self.try_bulk_load(family, rows.into_iter().map(Ok))
    }

    /// Loads rows like [`Db::bulk_load`], from a source that may fail. Its first error ends the load, which then has
    /// changed nothing, and is returned.
    pub fn try_bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        rows: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<Ingested> {
        self.bulk_load_with(family, |load| {
            rows.into_iter().try_for_each(|row| {
                let (key, value) = row?;
                load.put(key, value).map(drop)
            })
        })
    }

    /// Loads the rows that `fill` adds, in one commit: see [`Db::bulk_load`]. An error of `fill` ends the load, which
    /// then has changed nothing, and is returned.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// use waxseal::WriteOptions;
    ///
    /// cf.put("old", "1")?;
    /// db.bulk_load_with(&cf, |load| {
    ///     load.put_with("new", "2", WriteOptions::new().label("source", "import"))?;
    ///     load.delete("old")?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(cf.iter().keys().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_load_with(
        &self,
        family: &ColumnFamily,
        fill: impl FnOnce(&mut BulkLoader<'_, '_>) -> Result<()>,
    ) -> Result<Ingested> {
        self.inner.own(family)?;
        let (mut fill, is_plain) = (Some(fill), family.family.default_ttl().is_none());
        let done = self.inner.engine.bulk_load(&family.family, &mut |load| match fill.take() {
            Some(fill) => fill(&mut BulkLoader { load, family, is_plain }),
            None => Ok(()),
        })?;
        Ok(done.into())
    }
}

/// Receives the rows of a bulk load, in any order; a later row replaces an earlier one of the same key.
pub struct BulkLoader<'a, 'b> {
    load: &'a mut BulkLoad<'b>,
    family: &'a ColumnFamily,
    /// The family gives values no expiry of its own.
    is_plain: bool,
}

impl BulkLoader<'_, '_> {
    /// Adds a value. Errors: `Invalid` beyond the limits; `Io`, after which the load fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        if self.is_plain {
            self.load.push(Kind::Put, key.as_ref(), value.as_ref(), &[])?;
            return Ok(self);
        }
        self.put_with(key, value, WriteOptions::default())
    }

    /// Adds a value, with the entries, labels and expiry of `options`; a durability does not apply. Errors: as `put`, and
    /// `Invalid` for an entry that its provider refuses.
    pub fn put_with(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<&mut Self> {
        let write = Write::put(key.as_ref(), value.as_ref());
        let load = &mut *self.load;
        with_entries(self.family, write, options, &mut |kind, key, value, entries| {
            load.push(kind, key, value, entries)
        })?;
        Ok(self)
    }

    /// Adds a delete: the load removes the key. Errors: as `put`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.load.push(Kind::Delete, key.as_ref(), &[], &[])?;
        Ok(self)
    }
}

impl fmt::Debug for BulkLoader<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load.fmt(f)
    }
}
