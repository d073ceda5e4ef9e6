//! Bulk load: writes rows in any order straight into tables, and ingests these in one commit.
//!
//! In:    rows in any order; a later row replaces an earlier one of the same key.
//! Out:   one ingestion of tables that do not overlap, each key in one of them.
//! Path:  rows collect in a buffer, with companions (`row_buffer.rs`) -> a full buffer is sorted and written as tables,
//!        a *run*, while the next one fills (`run_writer.rs`) -> runs
//!        that do not overlap, as those of sorted input, are ingested as they are; others are merged into new tables
//!        first (`run_merge.rs`) -> `ingest_tables` adds the tables.
//! Holds: memory is bounded by two buffers, and descriptors by the number of runs that are merged at once, whatever the
//!        number of rows. Runs are ordinary table files of the store, so that every byte of a run is verified when it
//!        is read back.
//! Crash: before the edit, files that no edit names, which the next open removes.

use std::sync::Arc;

use super::ingest_tables::{IngestedTables, install_tables};
use super::ingestion::check_family;
use super::placed_files::PlacedFiles;
use super::row_buffer::RowBuffer;
use super::run_merge::{MAX_MERGED_RUNS, Run, newest_of};
use super::run_writer::{self, RunWriter, WrittenRun};
use crate::compaction::output::PassOptions;
use crate::cursor::Cursor;
use crate::db::jobs::compact::Compactor;
use crate::db::open::inner::{StoreInner, forked};
use crate::db::state::family::Family;
use crate::error::{Error, Result};
use crate::format_level::FormatLevel;
use crate::interrupt;
use crate::ledger::Ledger;
use crate::options::CfOptions;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES, companion};
use crate::seam::{PendingWrite, bind_written};
use crate::sst::WRITTEN_SEQNO;
use crate::version::TableMeta;

/// Number of rows between two checks for an interrupt.
const ROWS_PER_CHECK: usize = 1024;

/// Receives the rows of a bulk load.
pub struct BulkLoad<'a> {
    compactor: &'a Compactor,
    family: &'a Family,
    buffer: RowBuffer,
    most_bytes: usize,
    runs: Vec<Run>,
    writer: RunWriter,
    /// The error of a run, which fails the load.
    failure: Option<Error>,
    placed: PlacedFiles<'a>,
    written: Vec<u8>,
    companion: Vec<u8>,
}

/// Loads the rows that `fill` adds; see `Db::bulk_load`.
pub(in crate::db) fn bulk_load(
    inner: &Arc<StoreInner>,
    family: &Family,
    fill: &mut dyn FnMut(&mut BulkLoad<'_>) -> Result<()>,
) -> Result<IngestedTables> {
    let compactor = inner.compactor();
    check_family(family)?;
    compactor.catalog().format_level().check(FormatLevel::RANGES)?;
    let settings = &compactor.context().settings.current();
    let share = if settings.memory_bytes == 0 { usize::MAX } else { settings.memory_bytes / 8 };
    let most_bytes = settings.memtable_bytes.min(share);
    let mut load = BulkLoad {
        compactor,
        family,
        buffer: RowBuffer::new(family.order().clone()),
        most_bytes,
        runs: Vec::new(),
        writer: RunWriter::new(inner.clone(), family.clone(), most_bytes),
        failure: None,
        placed: PlacedFiles::new(compactor),
        written: Vec::new(),
        companion: Vec::new(),
    };
    fill(&mut load)?;
    load.finish()
}

impl BulkLoad<'_> {
    /// Adds a row: a value, or a delete. `entries` are annotations of the value. Errors: `Invalid` beyond the limits, and
    /// in a forked child; errors of writing tables, after which the load fails.
    pub fn push(&mut self, kind: Kind, key: &[u8], value: &[u8], entries: &[(u16, &[u8])]) -> Result<()> {
        self.check_process()?;
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            let (key, value) = (key.len(), value.len());
            return Err(Error::invalid(format!(
                "a key of {key} bytes with a value of {value}; the limits are {MAX_KEY_BYTES} and {MAX_VALUE_BYTES}"
            )));
        }
        if !matches!(kind, Kind::Put | Kind::Delete) {
            return Err(Error::invalid("a bulk load takes values and deletes only"));
        }
        if self.buffer.rows().is_multiple_of(ROWS_PER_CHECK) {
            interrupt::check()?;
        }
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let protector = &*self.compactor.context().companions;
        self.written.clear();
        let pending = PendingWrite { family: self.family.id(), kind, key, key_hash: None, value, entries };
        protector.on_write(&pending, &mut self.written)?;
        if self.written.len() > companion::MAX_BYTES {
            return Err(Error::invalid("companions of one record are limited to 64 KiB"));
        }
        bind_written(protector, &self.written, WRITTEN_SEQNO, &mut self.companion);
        self.buffer.push(kind, key, value, &self.companion);
        if self.buffer.memory() < self.most_bytes {
            return Ok(());
        }
        // A run that is merged later keeps its values: only the last pass over them writes blob files.
        self.write_run(self.inline())
    }

    /// Returns the family's options without separated values.
    fn inline(&self) -> CfOptions {
        CfOptions { large_value_bytes: 0, ..(*self.family.options()).clone() }
    }

    /// Starts to write the buffer as a run, once the previous one is written, and empties it.
    fn write_run(&mut self, options: CfOptions) -> Result<()> {
        let buffer = std::mem::replace(&mut self.buffer, RowBuffer::new(self.family.order().clone()));
        let ready = self.writer.write(buffer, Arc::new(options));
        self.take(ready)
    }

    /// Takes over a written run and its buffer, for the next rows.
    fn take(&mut self, ready: Result<Option<WrittenRun>>) -> Result<()> {
        match ready {
            Ok(None) => Ok(()),
            Ok(Some(WrittenRun { tables, buffer })) => {
                self.placed.adopt(&tables);
                self.runs.push(tables);
                self.buffer = buffer;
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Fails in a forked child: the caller's function may fork.
    fn check_process(&self) -> Result<()> {
        if self.placed.is_here() { Ok(()) } else { Err(forked()) }
    }

    /// Ingests what was added.
    fn finish(mut self) -> Result<IngestedTables> {
        self.check_process()?;
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let options = self.family.options();
        let ready = self.writer.wait();
        let rest = std::mem::replace(&mut self.buffer, RowBuffer::new(self.family.order().clone()));
        self.take(ready)?;
        if rest.rows() > 0 {
            let last = if self.runs.is_empty() { (*options).clone() } else { self.inline() };
            let ready = self.writer.write(rest, Arc::new(last)).and_then(|_| self.writer.wait());
            self.take(ready)?;
        }
        let mut tables: Vec<TableMeta> = self.runs.iter().flatten().cloned().collect();
        let order = self.family.order();
        tables.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
        if tables.windows(2).any(|pair| order.compare(&pair[0].largest, &pair[1].smallest).is_ge()) {
            let inline = Arc::new(self.inline());
            let mut runs = std::mem::take(&mut self.runs);
            while runs.len() > MAX_MERGED_RUNS {
                runs = runs.chunks(MAX_MERGED_RUNS).map(|group| self.merge(group, &inline)).collect::<Result<_>>()?;
            }
            tables = self.merge(&runs, &options)?;
        }
        install_tables(self.compactor, vec![(self.family.clone(), tables)], self.placed)
    }

    /// Merges runs into one, and removes them.
    fn merge(&mut self, runs: &[Run], options: &Arc<CfOptions>) -> Result<Run> {
        let (context, order) = (self.compactor.context(), self.family.order());
        let mut expected = Ledger::default();
        let mut records = newest_of(runs, context, order);
        records.first()?;
        while records.valid() {
            interrupt::check()?;
            let record = records.record();
            expected.add(record.kind, context.companions.term(&record));
            records.next()?;
        }
        drop(records);
        let merged = || -> Box<dyn Cursor> { Box::new(newest_of(runs, context, order)) };
        let tables =
            run_writer::write(self.compactor, self.family, (options, &PassOptions::default()), expected, &[], merged)?;
        runs.iter().for_each(|run| self.placed.remove(run));
        self.placed.adopt(&tables);
        Ok(tables)
    }
}

impl std::fmt::Debug for BulkLoad<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLoad").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}
