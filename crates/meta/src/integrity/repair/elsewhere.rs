//! Repair steps that read other places: memory, log, trash, source.
//!
//! In:     a table under repair, and its gaps. Out: records that may have been in the gaps; `fill` decides which were.
//! Holds:  damaged data from other places is ignored. Read failures are kept in `unread` and failures of the source in
//!         `unanswered`, since that place may have the lost records; the other places are still tried.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::Family;
use waxseal_lsm::env::Open;
use waxseal_lsm::error::{Error, ErrorKind, IoContext, Result};
use waxseal_lsm::record::{OwnedRecord, Record, Seqno};
use waxseal_lsm::seam::{Check, Protection};
use waxseal_lsm::sst::{Cache, ExaminedItem, Table};

use super::super::options::Candidate;
use super::super::report::is_unread;
use super::super::spans::Spans;
use super::TableRepair;
use crate::annotations::Annotations;
use crate::protector::Sealer;
use crate::seal::Seal;

/// State of a scan of the log.
#[derive(Default)]
struct LogScanState {
    oldest: Option<Seqno>,
    /// True if the log has records of an unknown family.
    has_unknown: bool,
    wanted: usize,
}

/// Returns the seal of an unconfirmed record without its attributes.
fn plain_seal_of(suspect: &OwnedRecord) -> Option<Seal> {
    let seal = Sealer::seal_of(&suspect.borrow()).ok()??;
    let attributes = Annotations::read(&suspect.companion).ok()?.attributes().ok()?;
    Some(attributes.map_or(seal, |attributes| seal.with(attributes)))
}

impl TableRepair<'_, '_> {
    /// Returns the result of a read. Damaged or missing files and directories give `None`; other failures are also kept
    /// in `unread`.
    pub(super) fn as_read<T>(&mut self, read: Result<T>) -> Option<T> {
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        if is_unread(&error) && *error.kind() != ErrorKind::Io(io::ErrorKind::IsADirectory) {
            self.unread.get_or_insert(error);
        }
        None
    }

    pub(super) fn in_memory(&self) -> Result<Vec<OwnedRecord>> {
        let mut found = Vec::new();
        let Ok(shared) = self.table.table() else { return Ok(found) };
        let mut offsets: Vec<u64> = self.gaps().iter().map(|gap| gap.offset).collect();
        offsets.dedup();
        for offset in offsets {
            shared.cached_copy(offset, self.protector, &mut |record| {
                found.push(OwnedRecord::of(record));
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Returns true if a record may be one of those lost here.
    fn is_wanted(&self, gaps: &Spans<()>, record: &Record<'_>) -> bool {
        let meta = self.table.meta();
        let order = self.table.family().order();
        (meta.least_seqno..=meta.greatest_seqno).contains(&record.seqno)
            && gaps.around(order, record.key, record.seqno).next().is_some()
            && self.protector.verify(record, hash_key(record.key), Protection::Partial).serves()
    }

    /// Returns matching records of the log, and true if no other record can have been in the gaps. That holds if the
    /// log reaches back to the table's oldest record and has no record of an unknown family, because such a record
    /// reports tables that were added outside the log.
    pub(super) fn in_log(&mut self) -> (Vec<OwnedRecord>, bool) {
        let (id, gaps) = (self.table.family().id(), self.spans());
        let known: HashSet<u32> = self.db.families().iter().map(Family::id).collect();
        let read = || {
            let (seen, found) = self.db.read_log_into(&mut |seen: &mut LogScanState, family, record| {
                seen.oldest = Some(seen.oldest.map_or(record.seqno, |oldest| oldest.min(record.seqno)));
                seen.has_unknown |= !known.contains(&family);
                let is_wanted = family == id && self.is_wanted(&gaps, record);
                seen.wanted += usize::from(is_wanted);
                is_wanted
            })?;
            let goes_back = seen.oldest.is_some_and(|oldest| oldest <= self.table.meta().least_seqno);
            let is_all = !seen.has_unknown && goes_back && seen.wanted == found.len();
            Ok((found.into_iter().map(|(_, record)| record).collect(), is_all))
        };
        // An unreadable page of the log counts as damage, and may be readable at the second attempt.
        let found = read().or_else(|error: Error| if error.is_corruption() { read() } else { Err(error) });
        self.as_read(found).unwrap_or_default()
    }

    /// Returns matching records from the readable tables of this family in the trash. Errors: the directory does not
    /// exist.
    pub(super) fn in_trash(&mut self, dir: &Path) -> Result<Vec<OwnedRecord>> {
        let (gaps, mut found) = (self.spans(), Vec::new());
        let names = match self.db.env().fs.list(dir).during(|| "listing the trash") {
            Err(error) if !is_unread(&error) => return Err(error),
            listed => self.as_read(listed).unwrap_or_default(),
        };
        for name in names {
            let read = self.in_trashed(&dir.join(&name), name, &gaps, &mut found);
            self.as_read(read);
        }
        Ok(found)
    }

    /// Adds the matching records of one table in the trash.
    fn in_trashed(&self, path: &Path, name: String, gaps: &Spans<()>, found: &mut Vec<OwnedRecord>) -> Result<()> {
        let family = self.table.family();
        let file = self.db.env().fs.open(path, Open::Read).during(|| format!("opening {name}"))?;
        let (expected, cache) = (Table::identify(&name, &*file)?, Arc::new(Cache::new(0)));
        let trash = Table::open(name, file, expected, family.order().clone(), cache, self.db.protector().clone())?;
        if trash.properties().family != family.id() {
            return Ok(());
        }
        // A read that fails once may succeed the next time.
        let mut refused = None;
        for _ in 0..2 {
            let mut lacks_some = false;
            refused = None;
            trash.examine(self.protector, true, &mut |piece| {
                match piece {
                    ExaminedItem::Record(record, Check::Validated, _) if self.is_wanted(gaps, record) => {
                        found.push(OwnedRecord::of(record));
                    }
                    ExaminedItem::Gap(lost) => lacks_some |= gaps.meet(family.order(), lost),
                    ExaminedItem::Refused { error, .. } => refused = Some(error.clone()),
                    _ => {}
                }
                Ok(())
            })?;
            if !lacks_some {
                return Ok(());
            }
            if refused.is_none() {
                break;
            }
        }
        refused.or_else(|| trash.refused().cloned()).map_or(Ok(()), Err)
    }

    /// Asks the source for each unconfirmed record by key and seal, and for each gap by its key range. An answer
    /// becomes a record with the seqno and seal of the unconfirmed record that it matches.
    pub(super) fn at_source(&mut self) -> Vec<OwnedRecord> {
        let (table, Some(source)) = (self.table, self.options.source) else { return Vec::new() };
        let family = table.family().name();
        let suspects = self.suspects_in_blocks();
        let pointers: Vec<OwnedRecord> = self.lost_pointers().cloned().collect();
        if suspects.is_empty() && pointers.is_empty() {
            return Vec::new(); // no seal could confirm an answer
        }
        let mut offered: Vec<Candidate> = Vec::new();
        for suspect in suspects.iter().chain(&pointers) {
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
        let mut by_seal: HashMap<Seal, Vec<&OwnedRecord>> = HashMap::new();
        for suspect in suspects.iter().chain(&pointers) {
            if let Some(seal) = plain_seal_of(suspect) {
                by_seal.entry(seal).or_default().push(suspect);
            }
        }
        let mut found = Vec::new();
        for candidate in &offered {
            let seal = Seal::of_operation(candidate.kind, &candidate.key, &candidate.value);
            for suspect in by_seal.get(&seal).into_iter().flatten() {
                let claimed = Record {
                    key: &candidate.key,
                    seqno: suspect.seqno,
                    kind: candidate.kind,
                    value: &candidate.value,
                    companion: &suspect.companion,
                };
                if self.protector.verify(&claimed, hash_key(&candidate.key), Protection::Complete) == Check::Validated {
                    found.push(OwnedRecord::of(&claimed));
                }
            }
        }
        found
    }

    /// Retries as often as the caller allows, and stops after an interrupt. Keeps the error in `unanswered`, unless it
    /// is the source's own damage.
    fn patiently<T>(&mut self, ask: impl Fn() -> Result<T>) -> Option<T> {
        let mut why = None;
        for _ in 0..self.options.retries() {
            if self.is_interrupted {
                return None;
            }
            match ask() {
                Ok(answer) => return Some(answer),
                Err(error) => {
                    self.is_interrupted = *error.kind() == ErrorKind::Io(io::ErrorKind::Interrupted);
                    why = Some(error);
                }
            }
        }
        if let Some(error) = why.filter(|error| !error.is_corruption()) {
            let error = match is_unread(&error) {
                true => error,
                false => Error::of(ErrorKind::Io(io::ErrorKind::Other), format!("asking the source: {error}")),
            };
            self.unanswered.get_or_insert(error);
        }
        None
    }
}
