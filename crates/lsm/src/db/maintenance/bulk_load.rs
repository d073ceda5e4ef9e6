//! Bulk load: writes rows in any order straight into tables, and ingests these in one commit.
//!
//! In:    rows in any order; a later row replaces an earlier one of the same key.
//! Out:   one ingestion of tables that do not overlap, each key in one of them.
//! Path:  rows collect in a buffer, with companions -> a full buffer is sorted and written as tables, a *run* -> runs
//!        that do not overlap, as those of sorted input, are ingested as they are; others are merged into new tables
//!        first (`run_merge.rs`) -> `ingest_tables` adds the tables.
//! Holds: memory is bounded by the buffer, and descriptors by the number of runs that are merged at once, whatever the
//!        number of rows. Runs are ordinary table files of the store, so that every byte of a run is verified when it
//!        is read back.
//! Crash: before the edit, files that no edit names, which the next open removes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::ingest_tables::{IngestedTables, install_tables};
use super::ingestion::check_family;
use super::placed_files::PlacedFiles;
use super::run_merge::{MAX_MERGED_RUNS, Run, forward_only, newest_of};
use crate::compaction::output::write_tables;
use crate::compaction::{Rules, Splitter};
use crate::cursor::Cursor;
use crate::db::jobs::compact::Compactor;
use crate::db::open::inner::forked;
use crate::db::state::family::Family;
use crate::error::{Error, Result};
use crate::format_level::FormatLevel;
use crate::interrupt;
use crate::ledger::Ledger;
use crate::options::CfOptions;
use crate::order::{Order, head};
use crate::record::{Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES, Record, Seqno, companion};
use crate::seam::{Companions, PendingWrite, RecordSource, bind_written};
use crate::sst::WRITTEN_SEQNO;
use crate::version::{LEVELS, TableMeta};

/// Number of rows between two checks for an interrupt.
const ROWS_PER_CHECK: usize = 1024;

/// Receives the rows of a bulk load.
pub struct BulkLoad<'a> {
    compactor: &'a Compactor,
    family: &'a Family,
    buffer: RowBuffer,
    most_bytes: usize,
    runs: Vec<Run>,
    placed: PlacedFiles<'a>,
    written: Vec<u8>,
    companion: Vec<u8>,
}

/// Loads the rows that `fill` adds; see `Db::bulk_load`.
pub(in crate::db) fn bulk_load(
    compactor: &Compactor,
    family: &Family,
    fill: &mut dyn FnMut(&mut BulkLoad<'_>) -> Result<()>,
) -> Result<IngestedTables> {
    check_family(family)?;
    compactor.catalog().format_level().check(FormatLevel::RANGES)?;
    let settings = &compactor.context().settings.current();
    let share = if settings.memory_bytes == 0 { usize::MAX } else { settings.memory_bytes / 4 };
    let mut load = BulkLoad {
        compactor,
        family,
        buffer: RowBuffer::new(family.order().clone()),
        most_bytes: settings.memtable_bytes.min(share),
        runs: Vec::new(),
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
        if self.buffer.rows.len().is_multiple_of(ROWS_PER_CHECK) {
            interrupt::check()?;
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
        let options = CfOptions { large_value_bytes: 0, ..(*self.family.options()).clone() };
        self.write_run(&Arc::new(options))
    }

    /// Writes the buffer as a run, and empties it.
    fn write_run(&mut self, options: &Arc<CfOptions>) -> Result<()> {
        self.buffer.sort();
        let ledger = self.buffer.ledger(&*self.compactor.context().companions);
        let tables =
            self.write(options, &mut BufferCursor { buffer: &self.buffer, at: 0, source: self.source() }, ledger)?;
        self.placed.adopt(&tables);
        self.runs.push(tables);
        self.buffer.clear();
        Ok(())
    }

    fn source(&self) -> RecordSource<'static> {
        RecordSource { protection: self.compactor.context().companions.protection(), file: "", offset: 0 }
    }

    /// Writes records to tables.
    fn write(&self, options: &Arc<CfOptions>, records: &mut dyn Cursor, expected: Ledger) -> Result<Vec<TableMeta>> {
        let (compactor, order) = (self.compactor, self.family.order());
        let next_file = || compactor.catalog().new_file_number();
        let mut job = compactor.pass_over(self.family, LEVELS - 1, WRITTEN_SEQNO, (expected, true), &next_file);
        job.options = options.clone();
        let rules = Rules::new(order.clone(), Vec::new(), |_: &[u8]| false);
        let splitter = Splitter::new(order.clone(), options.table_bytes, Vec::new());
        write_tables(&job, records, rules, splitter)
    }

    /// Fails in a forked child: the caller's function may fork.
    fn check_process(&self) -> Result<()> {
        if self.placed.is_here() { Ok(()) } else { Err(forked()) }
    }

    /// Ingests what was added.
    fn finish(mut self) -> Result<IngestedTables> {
        self.check_process()?;
        let options = self.family.options();
        if !self.buffer.rows.is_empty() {
            match self.runs.is_empty() {
                true => self.write_run(&options)?,
                false => self.write_run(&Arc::new(CfOptions { large_value_bytes: 0, ..(*options).clone() }))?,
            }
        }
        let mut tables: Vec<TableMeta> = self.runs.iter().flatten().cloned().collect();
        let order = self.family.order();
        tables.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
        if tables.windows(2).any(|pair| order.compare(&pair[0].largest, &pair[1].smallest).is_ge()) {
            let inline = Arc::new(CfOptions { large_value_bytes: 0, ..(*options).clone() });
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
        let tables = self.write(options, &mut newest_of(runs, context, order), expected)?;
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

/// Rows with their companions, in memory.
struct RowBuffer {
    order: Order,
    bytes: Vec<u8>,
    rows: Vec<BufferedRow>,
    /// True while the rows ascend, each key once.
    is_sorted: bool,
}

/// Key, value and companions of a row follow each other in the buffer's bytes.
#[derive(Clone, Copy)]
struct BufferedRow {
    /// Head of the key, in bytewise order.
    head: u64,
    at: usize,
    value_len: u32,
    companion_len: u32,
    key_len: u16,
    kind: Kind,
}

impl RowBuffer {
    fn new(order: Order) -> RowBuffer {
        RowBuffer { order, bytes: Vec::new(), rows: Vec::new(), is_sorted: true }
    }

    fn memory(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<BufferedRow>()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.is_sorted = true;
    }

    fn push(&mut self, kind: Kind, key: &[u8], value: &[u8], companion: &[u8]) {
        if self.is_sorted
            && let Some(last) = self.rows.last()
        {
            self.is_sorted = self.order.compare(self.key(last), key).is_lt();
        }
        let head = if self.order.is_bytewise() { head(key, 0) } else { 0 };
        let (key_len, value_len, companion_len) = (key.len() as u16, value.len() as u32, companion.len() as u32);
        self.rows.push(BufferedRow { head, at: self.bytes.len(), value_len, companion_len, key_len, kind });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(companion);
    }

    fn key(&self, row: &BufferedRow) -> &[u8] {
        &self.bytes[row.at..row.at + usize::from(row.key_len)]
    }

    fn record(&self, row: &BufferedRow) -> Record<'_> {
        let (key, rest) = self.bytes[row.at..].split_at(row.key_len.into());
        let (value, rest) = rest.split_at(row.value_len as usize);
        let companion = &rest[..row.companion_len as usize];
        Record { key, seqno: WRITTEN_SEQNO, kind: row.kind, value, companion }
    }

    /// Sorts the rows, and keeps the last one of each key.
    fn sort(&mut self) {
        if std::mem::replace(&mut self.is_sorted, true) {
            return;
        }
        let mut rows = std::mem::take(&mut self.rows);
        let compare = |a: &BufferedRow, b: &BufferedRow| {
            a.head.cmp(&b.head).then_with(|| self.order.compare(self.key(a), self.key(b)))
        };
        rows.sort_by(compare);
        rows.reverse();
        rows.dedup_by(|later, kept| compare(later, kept) == Ordering::Equal);
        rows.reverse();
        self.rows = rows;
    }

    fn ledger(&self, protector: &dyn Companions) -> Ledger {
        let mut ledger = Ledger::default();
        for row in &self.rows {
            let record = self.record(row);
            ledger.add(record.kind, protector.term(&record));
        }
        ledger
    }
}

/// The rows of a sorted buffer; forward only.
struct BufferCursor<'a> {
    buffer: &'a RowBuffer,
    at: usize,
    source: RecordSource<'static>,
}

impl Cursor for BufferCursor<'_> {
    fn seek(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        Err(forward_only())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }
    fn valid(&self) -> bool {
        self.at < self.buffer.rows.len()
    }
    fn record(&self) -> Record<'_> {
        self.buffer.record(&self.buffer.rows[self.at])
    }
    fn source(&self) -> RecordSource<'_> {
        self.source
    }
}
