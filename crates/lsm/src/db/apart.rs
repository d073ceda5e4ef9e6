//! Large values on their way in: out of a batch into the intake of their family, before the batch is ordered.
//!
//! In:    a batch as its caller made it. Out: the same with pointers in the place of large values, and their files, held until it is applied.
//! Holds: only where a commit is not synced itself: one that is would wait for two files where it waits for one, so its values go with the
//!        log, and a flush puts them apart (`compaction::values`). So they do where nobody may wait for a file, in the system's families, where
//!        a keeper keeps rows of its own, and where a flush may ask for them to give rows.
//! Costs: a write of each value, and none of it to the log; two passes over it for its sums.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::commit::damaged_batch;
use super::family::{Family, Generation};
use super::{Families, Inner};
use crate::batch::{Batch, Operation};
use crate::checksum::hash_key;
use crate::env::work::lock;
use crate::error::Result;
use crate::options::CfOptions;
use crate::record::{Kind, Record};
use crate::seam::Protection;
use crate::values::{Added, Making};
use crate::version::{Change, Edit};

/// A batch whose large values stand apart.
pub(super) struct Apart {
    pub(super) batch: Batch,
    added: Vec<(Family, Added)>,
}

impl Apart {
    /// Takes the values back: the batch was not ordered, and nobody points to them.
    pub(super) fn take_back(self) {
        take_back(&self.added);
    }
}

/// The last ones first: what stands behind a value would keep it.
fn take_back(added: &[(Family, Added)]) {
    added.iter().rev().for_each(|(family, added)| family.intake().take_back(added));
}

fn keep(added: &mut Vec<(Family, Added)>, family: &Family, new: Added) {
    let joined = match added.last_mut() {
        Some((known, last)) if known.id() == family.id() => last.join(new),
        _ => Err(new),
    };
    added.extend(joined.err().map(|new| (family.clone(), new)));
}

/// Values of so many bytes are put apart by a commit; none: they go with the log.
fn apart_from(options: &CfOptions) -> Option<usize> {
    options.separates_from().filter(|_| !options.key_ends_in_seqno)
}

/// No value that is shorter is put apart by a commit to any of these.
pub(super) fn least_apart<'a>(families: impl Iterator<Item = &'a Family>) -> usize {
    families.filter_map(|family| apart_from(family.options())).min().unwrap_or(usize::MAX)
}

impl Inner {
    /// Puts the large values of a batch apart; none: it has none. Errors: `Io`; `Corruption` if what was written is not what was put. Then
    /// none of them is kept.
    #[inline]
    pub(super) fn put_apart(&self, batch: &Batch) -> Result<Option<Apart>> {
        match batch.largest_value() < self.least_apart.load(Ordering::Relaxed) {
            true => Ok(None),
            false => self.put_any_apart(batch).inspect_err(|error| self.tell_halted(error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn put_any_apart(&self, batch: &Batch) -> Result<Option<Apart>> {
        if self.companions.has_rows() {
            return Ok(None);
        }
        self.check_halted()?;
        let families = self.families();
        let mut added: Vec<(Family, Added)> = Vec::new();
        let (new_number, sync_names) = (|| self.new_file_number(), || self.sync_names());
        let pointing = batch.with_pointers(&mut |operation| {
            let family = families.by_id.get(&operation.family).filter(|family| !family.is_dropped());
            let Some(family) = family.filter(|_| operation.kind == Kind::Put) else { return Ok(None) };
            if apart_from(family.options()).is_none_or(|from| operation.value.len() < from) {
                return Ok(None);
            }
            let Some(shelf) = family.shelf().values() else { return Ok(None) };
            let Operation { kind, key, value, .. } = *operation;
            let mut companion = operation.companion.to_vec();
            self.companions.bind(&mut companion, None, 0);
            let record = Record { key, seqno: 0, kind, value, companion: &companion };
            if self.companions.may_emit(operation.family, &record) || !self.has_intake(&families, family) {
                return Ok(None);
            }
            let making = Making {
                env: &self.env,
                dir: &self.dir,
                compression: family.options().compression,
                new_number: &new_number,
                sync_names: &sync_names,
                unsynced: &self.unsynced,
            };
            self.say_that_log_points()?;
            let put = (key, value, self.companions.term(&record));
            let (pointer, new) = family.intake().add(making, shelf, put)?;
            let number = new.file().number();
            keep(&mut added, family, new);
            // What was written must be what was put: nobody holds another copy of it.
            let pointing = Record { kind: Kind::BlobPointer, value: &pointer.encode(), ..record };
            if !self.companions.verify(&pointing, hash_key(key), Protection::Partial).serves() {
                return Err(damaged_batch(key));
            }
            Ok(Some(pointer.encode_logged(number)))
        });
        match pointing {
            Ok(batch) => Ok(batch.map(|batch| Apart { batch, added })),
            Err(error) => {
                take_back(&added);
                Err(error)
            }
        }
    }

    /// Whether a family may put values apart now. Nobody can close the descriptor of an unfinished value file before its flush. So no more families
    /// have one than a quarter of the files that may be open; the values of others go with the log until some are flushed.
    fn has_intake(&self, families: &Families, family: &Family) -> bool {
        if family.intake().is_open() {
            return true;
        }
        let most = (self.open_tables.files().most() / 4).max(1);
        let mut intakes = lock(&self.intakes);
        if intakes.len() >= most {
            intakes.retain(|id| families.by_id.get(id).is_some_and(|family| family.intake().is_open()));
        }
        intakes.len() < most && {
            intakes.insert(family.id());
            true
        }
    }

    /// Whoever does not know that frames may point must not read them: the manifest says so first, once in the life of a store.
    fn say_that_log_points(&self) -> Result<()> {
        if !self.log_points.load(Ordering::Acquire) {
            self.install(Edit::from(vec![Change::LogPoints]), None)?;
            self.log_points.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Finishes the value file that frozen memtables of a family point into, if it is open still: a table is to name it. After a failed sync
    /// nothing is known of what commits wrote there, and the store halts (I09).
    pub(super) fn finish_values(&self, family: &Family, frozen: &[Arc<Generation>]) -> Result<()> {
        if !frozen.iter().any(|generation| generation.points_into_unfinished()) {
            return Ok(());
        }
        match family.intake().end()? {
            Some(ended) => ended.sync(&self.unsynced).map_err(|error| self.halt(error)),
            None => Ok(()),
        }
    }
}
