//! Flush: frozen memtables become one table of level 0.
//!
//! Before: the memtables never change again (I03); the log is durable through what the table makes permanent (I15).
//! After:  table and directory are synced before the edit names the table (I04); the ledger closed (I11).
//! Crash:  before the edit, an unnamed file that the next open sweeps; the log still holds every record.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, MutexGuard};

use super::background::Lane;
use super::commit::Moment;
use super::family::{Family, Generation};
use super::install::Replaced;
use super::{Db, Event, Inner};
use crate::compaction::output::{Job, write_tables};
use crate::compaction::{Rules, Splitter};
use crate::cursor::Cursor;
use crate::env::Env;
use crate::env::work::lock;
use crate::error::{Error, IoContext, Result};
use crate::ledger::Ledger;
use crate::merge::MergeCursor;
use crate::options::Compression;
use crate::planted::{self, Bug};
use crate::record::Seqno;
use crate::seam::Companions;
use crate::version::{Change, Edit, TableMeta};

impl Db {
    /// Writes all memtables to tables and waits until they are durable.
    pub fn flush(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flush_all(|_| true).map(|_| ())
    }
}

impl Inner {
    /// Waits for its turn to flush, create, drop or copy; `Closed` if the store closed meanwhile.
    pub(super) fn job(&self) -> Result<MutexGuard<'_, ()>> {
        let turn = lock(&self.jobs_lock);
        if self.background.is_stopping() { Err(Error::closed()) } else { Ok(turn) }
    }

    /// True if a frozen memtable waits.
    pub(crate) fn flush_is_due(&self) -> bool {
        self.families().by_id.values().any(|family| !family.view().frozen.is_empty())
    }

    /// Freezes the memtables of the chosen families at one commit and flushes them.
    pub(crate) fn flush_all(&self, choose: impl Fn(&Family) -> bool) -> Result<Seqno> {
        let _job = self.job()?;
        let through = self.freeze(&choose)?;
        self.flush_frozen(&choose, through)?;
        Ok(through)
    }

    /// The flush lane: everything frozen, of all families.
    pub(crate) fn flush_step(&self) -> Result<bool> {
        if !self.flush_is_due() {
            return Ok(false);
        }
        let _job = self.job()?;
        self.flush_frozen(&|_| true, Seqno::MAX)
    }

    /// Flushes the memtables of the chosen families that were frozen at commits up to `through`; the caller holds `jobs_lock`.
    /// Writers go on and freeze more meanwhile: with that a checkpoint would hold another moment of each family.
    pub(super) fn flush_frozen(&self, choose: &dyn Fn(&Family) -> bool, through: Seqno) -> Result<bool> {
        let families: Vec<Family> = self.families().by_id.values().filter(|family| choose(family)).cloned().collect();
        let mut any = false;
        for family in families {
            let view = family.pinned_view();
            let newer = view.frozen.iter().take_while(|generation| generation.through() > through).count();
            if newer < view.frozen.len() {
                self.flush_family(&family, &view.frozen[newer..])?;
                any = true;
            }
        }
        Ok(any)
    }

    fn flush_family(&self, family: &Family, frozen: &[Arc<Generation>]) -> Result<()> {
        let Some(through) = frozen.iter().map(|generation| generation.through()).max() else { return Ok(()) };
        let moment = match planted::active(Bug::LogNotSyncedBeforeEdit) {
            false => self.sync_log()?, // I15
            true => Moment { offset: 0, seqno: 0 },
        };
        let level0 = Level0 {
            env: &self.env,
            dir: &self.dir,
            companions: &self.companions,
            next_file: &|| self.new_file_number(),
            cancelled: &self.background.stopping,
            snapshots: self.snapshots.boundaries(),
        };
        let added = write_level0(&level0, family, frozen)?;
        self.sync_dir_before_edit()?;
        let table = added.first().map(|meta| meta.number);
        let bytes = added.iter().map(|meta| meta.size).sum();
        let adds = added.into_iter().map(|meta| (0, Arc::new(meta))).collect();
        let replaced = Replaced { flushed: Some(through), ..Replaced::tables(family, Vec::new(), adds) };
        let mut edit = Edit::from(replaced.changes());
        let flushed = if planted::active(Bug::FlushedSeqnoTooHigh) { self.visible() } else { through };
        edit.changes.push(Change::Flushed { family: family.id(), seqno: flushed });
        let retirable = self.log_changes(&mut edit, moment, Some((family, through)));
        self.install(edit, [replaced])?;
        self.retire_log(retirable);
        self.counters.flushed(bytes);
        self.revise_stall();
        self.background.kick(Lane::Compact);
        self.listener.on_event(&Event::Flushed { family: family.name().to_owned(), table, bytes });
        Ok(())
    }

    pub(super) fn sync_dir_before_edit(&self) -> Result<()> {
        if planted::active(Bug::EditBeforeDirectorySync) {
            return Ok(());
        }
        self.env.fs.sync_dir(&self.dir).during(|| "syncing the store's directory")
    }
}

/// What a flush needs to know; also used by recovery, before there is a store.
pub(super) struct Level0<'a> {
    pub(super) env: &'a Env,
    pub(super) dir: &'a Path,
    pub(super) companions: &'a Arc<dyn Companions>,
    pub(super) next_file: &'a dyn Fn() -> u64,
    pub(super) cancelled: &'a AtomicBool,
    pub(super) snapshots: Vec<Seqno>,
}

/// The records of frozen memtables as a table of level 0, synced but not named yet.
pub(super) fn write_level0(level0: &Level0<'_>, family: &Family, frozen: &[Arc<Generation>]) -> Result<Vec<TableMeta>> {
    let mut expected = Ledger::default();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for generation in frozen {
        expected.merge(&generation.memtable.ledger());
        sources.push(Box::new(generation.memtable.cursor()));
    }
    let base_seqno = frozen.iter().filter_map(|generation| generation.memtable.least_seqno()).min().unwrap_or(0);
    let mut cursor = MergeCursor::new(family.order().clone(), sources);
    let job = Job {
        env: level0.env,
        dir: level0.dir,
        companions: level0.companions,
        family: family.id(),
        options: family.options(),
        compression: Compression::None,
        base_seqno,
        next_file: level0.next_file,
        cancelled: level0.cancelled,
        expected,
        summed: true,
    };
    let rules = Rules::new(family.order().clone(), level0.snapshots.clone(), |_: &[u8]| false);
    let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
    write_tables(&job, &mut cursor, rules, splitter)
}
