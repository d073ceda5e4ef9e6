//! Blob separation at commit: moves large values of a batch to their family's blob file before the batch is ordered.
//!
//! In:    a batch as the caller built it.
//! Out:   the batch with pointers instead of large values, and the blob files, held until it is applied.
//! Holds: used only if the commit itself is not synced. A synced commit would wait for two files instead of one, so its
//!        values go to the log and a flush separates them (`compaction::blob_separation`). The same applies to commits
//!        that must not wait for a file, to system families, to record protectors with rows of their own, and to
//!        records from which a flush may emit rows.
//! Costs: one write of each value, none of which goes to the log; two passes over it for its checksums.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::batch::{Batch, BatchOperation};
use crate::checksum::hash_key;
use crate::db::catalog::{Catalog, FamilyMap};
use crate::db::state::family::{Family, Generation};
use crate::env::work::lock;
use crate::error::{Damage, Error, Result, Verdict};
use crate::record::{Kind, Record};
use crate::seam::Protection;
use crate::values::{AddedValue, BlobSetup, EndedBlob, UnsyncedBlobs};
use crate::version::{Edit, EditChange};

/// A batch whose large values are in blob files.
pub(super) struct SeparatedBatch {
    pub(in crate::db) batch: Batch,
    added: Vec<(Family, AddedValue)>,
}

impl SeparatedBatch {
    /// Removes the values again: the batch was not ordered, so no record points to them.
    pub(in crate::db) fn take_back(self) {
        take_back(&self.added);
    }
}

/// Removes the last values first, because a value can only be cut off at the end of its file.
fn take_back(added: &[(Family, AddedValue)]) {
    added.iter().rev().for_each(|(family, added)| family.intake().take_back(added));
}

fn keep(added: &mut Vec<(Family, AddedValue)>, family: &Family, new: AddedValue) {
    let joined = match added.last_mut() {
        Some((known, last)) if known.id() == family.id() => last.join(new),
        _ => Err(new),
    };
    added.extend(joined.err().map(|new| (family.clone(), new)));
}

/// Returns the smallest such size of these families.
fn least_separated<'a>(families: impl Iterator<Item = &'a Family>) -> usize {
    families.map(Family::separates_from).min().unwrap_or(usize::MAX)
}

/// The state of blob separation in an open store.
pub(in crate::db) struct BlobSeparator {
    /// The smallest value size that a commit to any family moves to a blob file.
    least_bytes: AtomicUsize,
    /// True if the manifest records that the log may point into blob files.
    log_points: AtomicBool,
    /// Ids of the families whose commits have begun a blob file, finished ones included.
    families: Mutex<HashSet<u32>>,
    /// Blob files that commits wrote to since the last log sync.
    unsynced: Arc<UnsyncedBlobs>,
}

impl BlobSeparator {
    pub(in crate::db) fn new<'a>(families: impl Iterator<Item = &'a Family>, log_points: bool) -> BlobSeparator {
        BlobSeparator {
            least_bytes: AtomicUsize::new(least_separated(families)),
            log_points: AtomicBool::new(log_points),
            families: Mutex::default(),
            unsynced: Arc::default(),
        }
    }

    /// Returns the blob files that commits wrote to since the last log sync.
    pub(in crate::db) fn unsynced(&self) -> &Arc<UnsyncedBlobs> {
        &self.unsynced
    }

    /// Notes that families were created.
    pub(in crate::db) fn note_families<'a>(&self, families: impl Iterator<Item = &'a Family>) {
        self.least_bytes.fetch_min(least_separated(families), Ordering::Relaxed);
    }

    /// Notes that options of a family were changed. The caller keeps families from being created meanwhile.
    pub(in crate::db) fn note_options<'a>(&self, all: impl Iterator<Item = &'a Family>) {
        self.least_bytes.store(least_separated(all), Ordering::Relaxed);
    }

    /// Moves the large values of a batch to blob files; returns `None` if it has none. Errors: `Io`; `Corruption` if
    /// the written bytes are not those of the batch. After an error no value is kept.
    #[inline]
    pub(super) fn separate(&self, catalog: &Catalog, batch: &Batch) -> Result<Option<SeparatedBatch>> {
        match batch.largest_value() < self.least_bytes.load(Ordering::Relaxed) {
            true => Ok(None),
            false => self.separate_any(catalog, batch).inspect_err(|error| catalog.store_log().report_halt(error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn separate_any(&self, catalog: &Catalog, batch: &Batch) -> Result<Option<SeparatedBatch>> {
        if catalog.context().companions.has_rows() {
            return Ok(None);
        }
        catalog.store_log().check_halted()?;
        let families = catalog.families();
        let mut added: Vec<(Family, AddedValue)> = Vec::new();
        let (new_number, sync_names) = (|| catalog.new_file_number(), || catalog.store_log().sync_names());
        let pointing = batch.with_pointers(&mut |operation| {
            let family = families.by_id.get(&operation.family).filter(|family| !family.is_dropped());
            let Some(family) = family.filter(|_| operation.kind == Kind::Put) else { return Ok(None) };
            if operation.value.len() < family.separates_from() {
                return Ok(None);
            }
            let Some(blob_files) = family.table_cache().values() else { return Ok(None) };
            let BatchOperation { kind, key, value, .. } = *operation;
            let mut companion = operation.companion.to_vec();
            catalog.context().companions.bind(&mut companion, None, 0);
            let record = Record { key, seqno: 0, kind, value, companion: &companion };
            if catalog.context().companions.may_emit(operation.family, &record)
                || !self.may_separate(catalog, &families, family)
            {
                return Ok(None);
            }
            let making = BlobSetup {
                env: &catalog.context().env,
                dir: &catalog.context().dir,
                left: &catalog.context().left,
                options: &|| family.options(),
                new_number: &new_number,
                sync_names: &sync_names,
                oldest: catalog.store_log().visible() + 1,
                unsynced: &self.unsynced,
            };
            self.record_that_log_points(catalog)?;
            let put = (key, value, catalog.context().companions.term(&record));
            let (pointer, new) = family.intake().add(making, blob_files, put)?;
            let number = new.file().number();
            keep(&mut added, family, new);
            // Verify the written value: no other copy of it exists.
            let pointing = Record { kind: Kind::BlobPointer, value: &pointer.encode(), ..record };
            if !catalog.context().companions.verify(&pointing, hash_key(key), Protection::Partial).serves() {
                return Err(damaged_batch(key));
            }
            Ok(Some(pointer.encode_logged(number)))
        });
        match pointing {
            Ok(batch) => Ok(batch.map(|batch| SeparatedBatch { batch, added })),
            Err(error) => {
                take_back(&added);
                Err(error)
            }
        }
    }

    /// Returns true if a family may separate values now. The descriptor of an unfinished blob file stays open until its
    /// flush. Therefore at most a quarter of the open-file bound may be unfinished blob files; values of other families
    /// go to the log until some are flushed.
    fn may_separate(&self, catalog: &Catalog, families: &FamilyMap, family: &Family) -> bool {
        if family.intake().is_open() {
            return true;
        }
        let most = (catalog.open_tables.files().most() / 4).max(1);
        let mut intakes = lock(&self.families);
        if intakes.len() >= most {
            intakes.retain(|id| families.by_id.get(id).is_some_and(|family| family.intake().is_open()));
        }
        intakes.len() < most && {
            intakes.insert(family.id());
            true
        }
    }

    /// Versions that do not know pointers in frames must not read the log, so the manifest records them first, once in
    /// the life of a store.
    fn record_that_log_points(&self, catalog: &Catalog) -> Result<()> {
        if !self.log_points.load(Ordering::Acquire) {
            catalog.install(Edit::from(vec![EditChange::LogPoints]), None)?;
            self.log_points.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Finishes the open blob file that frozen memtables of a family point into, because a table is going to name it.
    /// After a failed sync the state of the committed values is unknown, and the store halts (I09).
    pub(in crate::db) fn finish_values(
        &self,
        catalog: &Catalog,
        family: &Family,
        frozen: &[Arc<Generation>],
    ) -> Result<()> {
        if !frozen.iter().any(|generation| generation.points_into_unfinished()) {
            return Ok(());
        }
        self.sync_ended(catalog, family.intake().end()?)
    }

    /// Finishes the open blob files of all families. A file becomes obsolete if no memtable points into it, because its
    /// commits were refused. Errors as for `finish_values`.
    pub(in crate::db) fn finish_all(&self, catalog: &Catalog) -> Result<()> {
        catalog.families().all().try_for_each(|family| self.sync_ended(catalog, family.intake().end()?))
    }

    /// Changes options of a family. Values of commits that begin afterwards go into a blob file that is begun with them.
    /// Errors and their consequences are those of `finish_values`; after `Io` the options are unchanged.
    pub(in crate::db) fn change_options(
        &self,
        catalog: &Catalog,
        family: &Family,
        change: impl FnOnce(),
    ) -> Result<()> {
        self.sync_ended(catalog, family.intake().end_before(change)?)
    }

    fn sync_ended(&self, catalog: &Catalog, ended: Option<EndedBlob>) -> Result<()> {
        match ended {
            Some(ended) => ended.sync(&self.unsynced).map_err(|error| catalog.store_log().halt(error)),
            None => Ok(()),
        }
    }
}

#[cold]
pub(super) fn damaged_batch(key: &[u8]) -> Error {
    let key_range = Some((key.to_vec(), key.to_vec()));
    let damage = Damage { verdict: Verdict::Seal, key_range, ..Damage::default() };
    Error::corruption(damage, "an operation is no longer what was put into its batch; nothing was changed")
}
