//! The log lane: drains the ring, prepares, syncs and seals segments, and shortens the log.

use super::job_lock::Flusher;
use crate::db::notify::lanes::Lane;
use crate::db::state::store_log::OpenLog;
use crate::db::writes::log_retirement::LogBound;
use crate::env::work::try_lock;
use crate::error::Result;
use crate::version::{Edit, EditChange};

impl Flusher {
    /// One step of the log lane: drain, prepare a segment, sync full segments, and freeze memtables that keep the log
    /// too long. It avoids manifest edits where possible, because the ring fills up while an edit waits for the disk.
    pub(crate) fn log_step(&self) -> Result<bool> {
        let Some(log) = self.store_log().log() else { return Ok(false) };
        if log.wal().failed().is_some() {
            return Ok(false);
        }
        // First: while a writer is busy, the ring always has something to drain.
        if self.write_path().freeze_log_holders() {
            self.write_path().note_waits();
            self.lanes().kick(Lane::Flush);
        }
        let moved = if log.wal().drain_due() { log.wal().drain() } else { log.wal().reserve_ahead() };
        if moved.inspect_err(|error| self.store_log().report_halt(error))? {
            return Ok(true);
        }
        // If the disk lacks room for the next segment, trimming the log frees some.
        let mut lacks_room = None;
        if log.wal().prepare_due() {
            match log.wal().prepare_some() {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.is_out_of_space() && log.wal().failed().is_none() => lacks_room = Some(error),
                Err(error) => {
                    self.store_log().report_halt(&error);
                    return Err(error);
                }
            }
        }
        if log.wal().sync_full().inspect_err(|error| self.store_log().report_halt(error))? {
            return Ok(true);
        }
        if lacks_room.is_none()
            && log.wal().prepare_more_due()
            && log.wal().prepare_some().inspect_err(|error| self.store_log().report_halt(error))?
        {
            return Ok(true);
        }
        if !log.wal().seals_due().is_empty() {
            self.lanes().kick(Lane::Flush);
        }
        match (self.shorten_log(log)?, lacks_room) {
            (false, Some(error)) => Err(error),
            (done, _) => Ok(done),
        }
    }

    /// Seals the full and durable segments, unless an edit has already done so; returns true if it did. If another job
    /// runs, its edit or the next one seals them: the witness proves the same.
    pub(super) fn seal_log(&self) -> Result<bool> {
        let Some(log) = self.store_log().log() else { return Ok(false) };
        if log.wal().seals_due().is_empty() {
            return Ok(false);
        }
        let Some(job) = try_lock(&self.jobs_lock) else { return Ok(false) };
        let sealed = log.wal().seals_due();
        if sealed.is_empty() {
            return Ok(false);
        }
        let mut edit = Edit::from(sealed.iter().copied().map(EditChange::SegmentSealed).collect::<Vec<_>>());
        edit.changes.push(EditChange::LogWitness { offset: log.wal().synced().offset });
        self.catalog().install(edit, None)?;
        log.wal().sealed(&sealed);
        drop(job);
        self.lanes().kick(Lane::Log); // which may have wanted the job lock to shorten it
        Ok(true)
    }

    /// Retires segments when no flush will: the log exceeds its bound, but no frozen or old active memtable keeps it
    /// (for instance because the family that did was dropped).
    pub(super) fn shorten_log(&self, log: &OpenLog) -> Result<bool> {
        if log.wal().live_bytes() <= LogBound::of(&self.context().settings.current()).limit()
            || self.catalog().flush_is_due()
        {
            return Ok(false);
        }
        self.forget_log()
    }

    /// Retires the unneeded segments in an edit of its own; returns true if any were found.
    fn forget_log(&self) -> Result<bool> {
        let Some(_job) = try_lock(&self.jobs_lock) else { return Ok(false) }; // that job's edit or a later seal does it
        let moment = self.write_path().sync_log()?;
        let mut edit = Edit::default();
        let log_edit = self.write_path().log_changes(&mut edit, moment, &[]);
        if log_edit.retirable.is_none() {
            return Ok(false);
        }
        self.catalog().install(edit, None)?;
        self.write_path().end_log_edit(log_edit);
        Ok(true)
    }
}
