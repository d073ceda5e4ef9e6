//! The steps that every ingestion takes, whether of records or of table files.
//!
//! In:    the families that receive records, then their new tables.
//! Out:   one seqno for each family, and one edit that adds the tables.
//! Path:  the job lock -> a log frame takes the seqnos, and freezes the families' memtables at exactly that position in
//!        the commit order -> memtables up to there are flushed -> the caller writes or places its tables -> one edit.
//! Holds: in every table and memtable, earlier commits are older and later commits are newer than the ingested records.
//!        The first hit of a read decides, so no memtable or table may hold records from both sides of a seqno. A
//!        snapshot taken between seqno and edit holds its views, so that the records do not appear in it later (I13).
//! Crash: before the edit, only seqnos without records exist, and files that no edit names; after it, all records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::placed_files::PlacedFiles;
use crate::db::catalog::Catalog;
use crate::db::catalog::view_change::Replaced;
use crate::db::jobs::compact::Compactor;
use crate::db::jobs::job_lock::JobLock;
use crate::db::notify::lanes::Lane;
use crate::db::state::family::Family;
use crate::db::writes::commit::TakenFor;
use crate::error::{Error, Result};
use crate::planted;
use crate::record::Seqno;
use crate::seam::EngineEvent;
use crate::version::Edit;
use crate::wal::EpochChange;

/// An ingestion that holds the job lock.
pub(super) struct Ingestion<'a> {
    compactor: &'a Compactor,
    families: Vec<&'a Family>,
    /// When the work began, for its event.
    started: u64,
    _shown_at_the_end: IngestGuard<'a>,
    _job: JobLock<'a>,
}

impl<'a> Ingestion<'a> {
    /// Takes the job lock. Errors: `Invalid` for a family that takes no ingestion.
    pub(super) fn begin(compactor: &'a Compactor, families: Vec<&'a Family>, started: u64) -> Result<Ingestion<'a>> {
        let job = compactor.flusher().job()?;
        families.iter().try_for_each(|family| check_family(family))?;
        let shown_at_the_end = IngestGuard::begin(compactor.catalog());
        Ok(Ingestion { compactor, families, started, _shown_at_the_end: shown_at_the_end, _job: job })
    }

    /// Takes consecutive seqnos, one for each family, and flushes everything before them. Returns the first.
    pub(super) fn take_seqnos(&self) -> Result<Seqno> {
        let first =
            self.compactor.write_path().take_seqno(&self.families, (EpochChange::Stay, TakenFor::Edit), |_| {})?;
        if planted!(IngestNotOrdered, false, true) {
            let last = first + self.families.len() as Seqno - 1;
            self.compactor.flusher().flush_frozen(&|family| self.families.contains(&family), last)?;
        }
        Ok(first)
    }

    /// Adds the tables to their families in one edit: one part for each family, in the order of their seqnos, which begin
    /// with `first`. `placed` are the tables' files.
    pub(super) fn install(self, first: Seqno, replaced: Vec<Replaced<'_>>, placed: &mut PlacedFiles<'_>) -> Result<()> {
        let compactor = self.compactor;
        let moment = compactor.write_path().sync_log()?; // I15
        let mut edit = Edit::from(replaced.iter().flat_map(Replaced::changes).collect::<Vec<_>>());
        for (part, seqno) in replaced.iter().zip(first..) {
            let tables: Vec<_> = part.adds.iter().map(|(_, table)| Arc::clone(table)).collect();
            edit.changes.extend(compactor.catalog().feed.ingested(part.family.id(), seqno, &tables));
        }
        let spans: Vec<_> = replaced.iter().filter_map(Replaced::added_keys).collect();
        let event = EngineEvent::Ingested { spans: &spans };
        compactor.catalog().log_event(&mut edit, event, &replaced, None, self.started);
        let log_edit = compactor.write_path().log_changes(&mut edit, moment, &[]);
        placed.hand_over();
        compactor.catalog().install(edit, replaced)?;
        compactor.write_path().end_log_edit(log_edit);
        compactor.write_path().note_stall();
        compactor.lanes().kick(Lane::Compact);
        Ok(())
    }
}

/// Checks that a family takes ingestions.
pub(super) fn check_family(family: &Family) -> Result<()> {
    if family.options().system.is_some() {
        return Err(Error::invalid("nothing is ingested into a system family"));
    }
    if family.is_dropped() {
        return Err(Error::invalid("the family was dropped"));
    }
    Ok(())
}

/// Counts the end of an ingestion when dropped, even after a failure.
struct IngestGuard<'a>(&'a Catalog);

impl<'a> IngestGuard<'a> {
    /// Counts the begin of an ingestion.
    fn begin(catalog: &'a Catalog) -> IngestGuard<'a> {
        catalog.ingestions.fetch_add(1, Ordering::SeqCst);
        IngestGuard(catalog)
    }
}

impl Drop for IngestGuard<'_> {
    fn drop(&mut self) {
        self.0.ingestions.fetch_add(1, Ordering::SeqCst);
    }
}
