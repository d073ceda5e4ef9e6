//! An open store: the family that LevelDB's callers see, and its reads and writes.

use std::ops::Bound;

use waxseal::{Batch as Operations, ColumnFamily, Cursor, Db, Durability, Snapshot, Verify, WriteOptions};

use crate::batch::{BatchWrite, LevelBatch};
use crate::failure::Failure;

/// The family that holds all records; the tool and the other language bindings find it by this name.
pub(crate) const FAMILY: &str = "default";

/// The settings of one read.
pub(crate) struct ReadMode {
    /// Check every record against its seal, also in scans.
    pub(crate) verify: bool,
    /// Do not add loaded blocks to the cache.
    pub(crate) passing: bool,
    /// The snapshot to read, or `None` for the current state.
    pub(crate) snapshot: Option<Snapshot>,
}

/// An open store.
pub(crate) struct Store {
    db: Db,
    /// Handles of the family with different read settings: default, with `verify`, with `passing`, with both.
    families: [ColumnFamily; 4],
    /// A description of the options of the open.
    options: String,
    write_buffer_bytes: u64,
}

impl Store {
    /// Wraps an open store. `options` describes the options of the open.
    pub(crate) fn new(db: Db, options: String, write_buffer_bytes: u64) -> Result<Store, Failure> {
        let family = db.column_family(FAMILY)?;
        let passing = family.with_fill_cache(false);
        let always = |family: &ColumnFamily| family.with_verify(Verify::Always);
        let families = [family.clone(), always(&family), passing.clone(), always(&passing)];
        Ok(Store { db, families, options, write_buffer_bytes })
    }

    /// Closes the store for all users, iterators and snapshots included. Acknowledged commits are durable, or the next
    /// open reports their loss.
    pub(crate) fn close(&self) {
        let _ = self.db.close();
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the description of the options of the open.
    pub(crate) fn options(&self) -> &str {
        &self.options
    }

    /// Size of a memtable that waits for its flush.
    pub(crate) fn write_buffer_bytes(&self) -> u64 {
        self.write_buffer_bytes
    }

    /// Returns the family.
    pub(crate) fn family(&self) -> &ColumnFamily {
        &self.families[0]
    }

    #[inline]
    fn family_for(&self, how: &ReadMode) -> &ColumnFamily {
        &self.families[how.verify as usize | (how.passing as usize) << 1]
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), Failure> {
        Ok(self.family().put_with(key, value, durability(sync))?)
    }

    pub(crate) fn delete(&self, key: &[u8], sync: bool) -> Result<(), Failure> {
        Ok(self.family().delete_with(key, durability(sync))?)
    }

    /// Commits a batch atomically. An empty synced batch still makes earlier commits durable.
    pub(crate) fn write(&self, batch: &LevelBatch, sync: bool) -> Result<(), Failure> {
        batch.check()?;
        let mut operations: Operations = self.db.batch();
        for write in batch.writes() {
            match write {
                BatchWrite::Put(key, value) => operations.put(self.family(), key, value),
                BatchWrite::Delete(key) => operations.delete(self.family(), key),
            };
        }
        if operations.is_empty() && sync {
            return Ok(self.db.sync()?);
        }
        Ok(operations.commit(if sync { Durability::Sync } else { Durability::Os })?)
    }

    /// Lends the value of a key to `visit`, if the key exists.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        how: &ReadMode,
        key: &[u8],
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Failure> {
        let family = self.family_for(how);
        Ok(match &how.snapshot {
            None => family.get_with(key, visit)?,
            Some(snapshot) => snapshot.get_with(family, key, visit)?,
        })
    }

    pub(crate) fn cursor(&self, how: &ReadMode) -> Cursor {
        let family = self.family_for(how);
        match &how.snapshot {
            None => family.cursor(),
            Some(snapshot) => snapshot.cursor(family),
        }
    }

    /// Returns the bytes of table files between two keys, without memtables.
    pub(crate) fn approximate_size(&self, start: &[u8], limit: &[u8]) -> Result<u64, Failure> {
        Ok(self.family().approximate_size((Bound::Included(start), Bound::Excluded(limit)))?)
    }

    /// Compacts the keys between two keys, both inclusive; `None` means no limit.
    pub(crate) fn compact(&self, start: Option<&[u8]>, limit: Option<&[u8]>) -> Result<(), Failure> {
        let bound = |key: Option<&[u8]>| key.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        Ok(self.family().compact_range((bound(start), bound(limit)))?)
    }
}

fn durability(sync: bool) -> WriteOptions {
    WriteOptions::new().durability(if sync { Durability::Sync } else { Durability::Os })
}
