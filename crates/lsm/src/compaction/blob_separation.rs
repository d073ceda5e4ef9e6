//! Key-value separation in a pass: large values go to value files (blob files), values in stale files to new files, and
//! other pointers stay unchanged.
//!
//! In:     the kept records, in order, with their final companions; the caller holds the value files that they point to
//!         until the edit. Out: the pointers that replace the values in the table.
//! Holds:  a record's companion is the same for a pointer as for its value. Value files are durable before the pass
//!         ends (I04), and the ledger covers them: entries and bytes must equal those that the finished blocks of the
//!         tables point to.
//! Damage: a value that cannot be moved stays in place with its pointer: it remains an error of that record alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::job::CompactionJob;
use crate::checksum::Uid;
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::names::StoreFileName;
use crate::planted;
use crate::pointer::{POINTER_BYTES, Pointer};
use crate::record::{Kind, Record};
use crate::values::{BlobBuffer, BlobMeta, BlobRef, BlobWriter};
use crate::version::TableMeta;

/// A value file ends at this multiple of the target table size.
const TABLES: u64 = 4;

/// Number of pointers and length of the entries that they point to, by file.
pub(super) type BlobRefs = BTreeMap<Uid, (u64, u64)>;

/// The value files that were written.
pub(super) type NewBlobFiles = BTreeMap<Uid, Arc<BlobMeta>>;

/// The separated values of one pass, or of a part of it.
pub(super) struct BlobSeparation<'a> {
    /// Minimum length of a separated value; `None` keeps all values inline.
    from_bytes: Option<usize>,
    /// Files whose values are moved.
    collects: &'a BTreeSet<Uid>,
    open: Option<BlobWriter>,
    /// Finished files of this pass.
    made: NewBlobFiles,
    room: BlobBuffer,
    #[cfg(feature = "planted")]
    before: Option<Pointer>,
    /// Bytes of values moved since the last call of `take_moved`.
    moved_bytes: usize,
    /// Numbers of moved values, and of values that could not be moved.
    pub(super) moved: u64,
    pub(super) unreadable: u64,
}

impl<'a> BlobSeparation<'a> {
    pub(super) fn new(job: &CompactionJob<'_>, collects: &'a BTreeSet<Uid>) -> BlobSeparation<'a> {
        // The protector's own rows are paired with the records as stored.
        let stay = job.values.is_none() || job.companions.has_rows();
        BlobSeparation {
            from_bytes: job.options.separates_from().filter(|_| !stay),
            collects,
            open: None,
            made: NewBlobFiles::new(),
            room: BlobBuffer::default(),
            #[cfg(feature = "planted")]
            before: None,
            moved_bytes: 0,
            moved: 0,
            unreadable: 0,
        }
    }

    /// Returns the total size of the finished files.
    pub(super) fn bytes(&self) -> u64 {
        self.made.values().map(|meta| meta.size).sum()
    }

    /// Returns the pointer that replaces a record's value; `None` if the record stays unchanged.
    #[inline]
    pub(super) fn place(
        &mut self,
        job: &CompactionJob<'_>,
        record: &Record<'_>,
        names: &mut Vec<StoreFileName>,
    ) -> Result<Option<[u8; POINTER_BYTES]>> {
        match record.kind {
            Kind::Put if self.from_bytes.is_some_and(|bytes| record.value.len() >= bytes) => {
                self.write(job, record.key, record.value, job.companions.term(record), names).map(Some)
            }
            Kind::BlobPointer if !self.collects.is_empty() => self.collect(job, record, names),
            _ => Ok(None),
        }
    }

    /// Moves a value, if its file is being collected and the value can be read.
    fn collect(
        &mut self,
        job: &CompactionJob<'_>,
        record: &Record<'_>,
        names: &mut Vec<StoreFileName>,
    ) -> Result<Option<[u8; POINTER_BYTES]>> {
        let pointer = Pointer::decode(record.value)?;
        let Some(blob_files) = job.values.filter(|_| self.collects.contains(&pointer.uid)) else { return Ok(None) };
        let mut room = std::mem::take(&mut self.room);
        let placed = match blob_files.resolve(record, true, &mut room) {
            Ok(whole) => {
                self.moved += 1;
                self.moved_bytes += whole.value.len();
                let written = self.write(job, record.key, whole.value, job.companions.term(record), names);
                planted!(MovedValueKeepsItsPlace, written.map(|_| None), written.map(Some))
            }
            Err(error) if matches!(error.kind(), ErrorKind::Corruption(_) | ErrorKind::Io(_)) => {
                self.unreadable += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        };
        self.room = room;
        placed
    }

    fn write(
        &mut self,
        job: &CompactionJob<'_>,
        key: &[u8],
        value: &[u8],
        term: u64,
        names: &mut Vec<StoreFileName>,
    ) -> Result<[u8; POINTER_BYTES]> {
        if self.open.as_ref().is_some_and(|open| open.file_bytes() >= job.options.table_bytes.saturating_mul(TABLES)) {
            self.finish_file()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let number = (job.next_file)();
                names.push(StoreFileName::Values(number));
                let writer = BlobWriter::create(job.env, job.dir, number, job.options.compression)?;
                self.open.insert(writer.collecting(&job.options.table_properties))
            }
        };
        let pointer = open.add(key, value, term)?;
        planted!(ValueOfAnotherKey => let pointer = match self.before.replace(pointer) { Some(Pointer { offset, stored_len, raw_len, crc, codec, .. }) => Pointer { offset, stored_len, raw_len, crc, codec, ..pointer }, None => pointer });
        Ok(pointer.encode())
    }

    /// Finishes and syncs the open file.
    pub(super) fn finish_file(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            let meta = open.finish()?;
            self.made.insert(meta.uid, Arc::new(meta));
        }
        Ok(())
    }

    /// Returns the finished files.
    pub(super) fn into_made(self) -> NewBlobFiles {
        self.made
    }

    /// Returns and resets the bytes of moved values: the pass itself counts only the pointers in records.
    pub(super) fn take_moved(&mut self) -> usize {
        std::mem::take(&mut self.moved_bytes)
    }

    /// Returns the bytes written so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.bytes() + self.open.as_ref().map_or(0, |open| open.file_bytes())
    }
}

/// Records for each table of a pass which value files it points into, and balances the ledger over the files that the
/// pass wrote.
pub(super) fn record_blob_refs(
    job: &CompactionJob<'_>,
    made: &NewBlobFiles,
    tables: &mut [TableMeta],
    refs: &[BlobRefs],
) -> Result<()> {
    let mut pointed: BlobRefs = BlobRefs::new();
    for (table, refs) in tables.iter_mut().zip(refs) {
        for (uid, (count, bytes)) in refs {
            let known = || job.values.and_then(|blob_files| blob_files.find(uid)).and_then(|file| file.meta().cloned());
            let file = made.get(uid).cloned().or_else(known);
            let file = file.ok_or_else(|| Error::structural("a pointer names a value file that no table names"))?;
            let all = pointed.entry(*uid).or_default();
            (all.0, all.1) = (all.0 + count, all.1 + bytes);
            table.values.push(BlobRef { file, count: *count, bytes: *bytes });
        }
        planted!(ValueRefForgotten => { table.values.truncate(table.values.len().saturating_sub(1)); });
    }
    let closes = |meta: &Arc<BlobMeta>| pointed.get(&meta.uid) == Some(&(meta.count, meta.entry_bytes()));
    if planted!(ValueOfAnotherKey, true, made.values().all(closes)) {
        return Ok(());
    }
    let damage = Damage { verdict: Verdict::Ledger, ..Damage::default() };
    Err(Error::corruption(damage, "the tables of a pass do not point to the values that it wrote"))
}
