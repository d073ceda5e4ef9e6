//! The rungs that look elsewhere: memory, log, trash, source.
//!
//! In:     a table that is mended, and the gaps in it. Out: records that may have stood there; which of them did, `fill` decides.
//! Holds:  what is damaged itself has nothing to say; what the device does not give is an error, since it may have had what was lost.

use std::io;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::OwnedRecord;
use waxseal_lsm::env::Open;
use waxseal_lsm::error::{ErrorKind, IoContext, Result};
use waxseal_lsm::fence::Fence;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::sst::{Cache, Found, Table};

use super::super::options::Candidate;
use super::super::plan;
use super::super::report::is_unread;
use super::Mending;
use crate::keeper::Sealer;

/// What was found, unless what was to be read is damaged, gone or no file. Errors: it could not be read.
pub(super) fn unless_damaged<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_unread(&error) && *error.kind() != ErrorKind::Io(io::ErrorKind::IsADirectory) => Err(error),
        Err(_) => Ok(None),
    }
}

impl Mending<'_, '_> {
    pub(super) fn in_memory(&self) -> Result<Vec<OwnedRecord>> {
        let mut found = Vec::new();
        let Ok(shared) = self.table.table() else { return Ok(found) };
        let mut offsets: Vec<u64> = self.gaps().iter().map(|gap| gap.offset).collect();
        offsets.dedup();
        for offset in offsets {
            shared.cached_copy(offset, self.keeper, &mut |record| {
                found.push(OwnedRecord::of(record));
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Whether a record may be one of those that were lost here.
    fn is_wanted(&self, gaps: &[Fence], record: &Record<'_>) -> bool {
        let meta = self.table.meta();
        let order = self.table.family().order();
        (meta.least_seqno..=meta.greatest_seqno).contains(&record.seqno)
            && gaps.iter().any(|gap| plan::stands_in(order, gap, record.key, record.seqno))
            && self.keeper.verify(record, hash_key(record.key), Protection::Partial).serves()
    }

    pub(super) fn in_log(&self) -> Result<Vec<OwnedRecord>> {
        let (id, gaps) = (self.table.family().id(), self.gaps());
        let read = || self.db.read_log(&mut |family, record| family == id && self.is_wanted(&gaps, record));
        // A page of it that cannot be read is damage, and may be read the next time.
        let found = read().or_else(|error| if error.is_corruption() { read() } else { Err(error) });
        let found = unless_damaged(found)?.unwrap_or_default();
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Tables that compaction had replaced, as far as each can be opened and is of this family.
    pub(super) fn in_trash(&self, dir: &Path) -> Result<Vec<OwnedRecord>> {
        let fs = &self.db.env().fs;
        let gaps = self.gaps();
        let order = self.table.family().order();
        let keeper = self.db.keeper().clone();
        let mut found = Vec::new();
        for name in fs.list(dir).during(|| "listing the trash")? {
            let opened = fs.open(&dir.join(&name), Open::Read).during(|| format!("opening {name}")).and_then(|file| {
                let (expected, cache) = (Table::identify(&name, &*file)?, Arc::new(Cache::new(0)));
                Table::open(name, file, expected, order.clone(), cache, keeper.clone())
            });
            let Some(trash) = unless_damaged(opened)? else { continue };
            if trash.properties().family != self.table.family().id() {
                continue;
            }
            trash.examine(self.keeper, true, &mut |piece| {
                if let Found::Record(record, Check::Validated, _) = piece
                    && self.is_wanted(&gaps, record)
                {
                    found.push(OwnedRecord::of(record));
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Asks the source for each suspect by its key and seal, and for each gap by its keys; an answer becomes a record by the
    /// seqno and seal of the suspect that it fits.
    pub(super) fn at_source(&self) -> Vec<OwnedRecord> {
        let Some(source) = self.options.source else { return Vec::new() };
        let family = self.table.family().name();
        let suspects = self.suspects();
        let mut offered: Vec<Candidate> = Vec::new();
        for suspect in &suspects {
            let Ok(Some(seal)) = Sealer::seal_of(&suspect.borrow()) else { continue };
            if let Some(answer) = self.patiently(|| source.by_seal(family, &suspect.key, seal)) {
                offered.extend(answer);
            }
        }
        for gap in self.gaps() {
            let answer = self.patiently(|| {
                let mut all = Vec::new();
                source.by_range(family, &gap.from.0, &gap.to.0, &mut |candidate| all.push(candidate))?;
                Ok(all)
            });
            offered.extend(answer.unwrap_or_default());
        }
        let mut found = Vec::new();
        for candidate in &offered {
            for suspect in &suspects {
                let claimed = Record {
                    key: &candidate.key,
                    seqno: suspect.seqno,
                    kind: candidate.kind,
                    value: &candidate.value,
                    companion: &suspect.companion,
                };
                if self.keeper.verify(&claimed, hash_key(&candidate.key), Protection::Complete) == Check::Validated {
                    found.push(OwnedRecord::of(&claimed));
                }
            }
        }
        found
    }

    /// Asks as often as the caller allows.
    fn patiently<T>(&self, ask: impl Fn() -> Result<T>) -> Option<T> {
        (0..self.options.retries()).find_map(|_| ask().ok())
    }
}
