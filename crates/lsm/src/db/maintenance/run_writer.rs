//! Writes the runs of a bulk load, one at a time, in a thread beside the one that adds rows.
//!
//! In:    buffers of rows.
//! Out:   the tables of each buffer, and the empty buffer.
//! Holds: each run is written in concurrent parts, as a compaction is (`compaction/parts.rs`).
//! Fork:  a forked child has no writing thread, so it never waits for a run.
//! Steps: in stepped mode a run is written in the caller's thread.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::placed_files::PlacedFiles;
use super::row_buffer::RowBuffer;
use super::run_merge::Run;
use crate::compaction::output::PassOptions;
use crate::compaction::parts::{CompactionPart, write_parts};
use crate::compaction::{Rules, Splitter};
use crate::cursor::Cursor;
use crate::db::jobs::compact::Compactor;
use crate::db::open::inner::StoreInner;
use crate::db::state::family::Family;
use crate::env::work::{Mode, Signal, lock, spawn};
use crate::error::Result;
use crate::interrupt;
use crate::ledger::Ledger;
use crate::options::CfOptions;
use crate::sst::WRITTEN_SEQNO;
use crate::version::{LEVELS, TableMeta};

/// A part of a run holds at least this fraction of a full buffer: smaller ones would cost more than they save.
const PARTS_IN_BUFFER: usize = 8;

/// Time between two questions to the caller of a long wait whether it goes on.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(20);

/// Writes runs in a thread of its own, one at a time.
pub(super) struct RunWriter {
    inner: Arc<StoreInner>,
    family: Family,
    part_bytes: usize,
    writing: Option<Writing>,
}

/// A run that is being written. Without a thread it has been written already.
struct Writing {
    thread: Option<JoinHandle<()>>,
    task: Arc<Task>,
}

/// A buffer, then its run.
struct Task {
    part_bytes: usize,
    options: Arc<CfOptions>,
    buffer: Mutex<Option<RowBuffer>>,
    done: Signal<Option<Result<WrittenRun>>>,
    /// Set when nobody wants the run any more.
    stop: AtomicBool,
}

impl Writing {
    /// Waits until the run is written, or its thread has ended. Errors: `Interrupted`.
    fn wait(&self) -> Result<()> {
        let mut done = self.task.done.lock();
        while done.is_none() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            done = self.task.done.wait(done, Some(INTERRUPT_INTERVAL));
            interrupt::check()?;
        }
        Ok(())
    }
}

impl Task {
    fn run(&self, compactor: &Compactor, family: &Family) {
        let buffer = lock(&self.buffer).take();
        let written = buffer.map(|buffer| write_run(compactor, family, self, buffer));
        *self.done.lock() = written;
        self.done.notify_all();
    }
}

/// A run, and the buffer that it was written from, now empty.
pub(super) struct WrittenRun {
    pub(super) tables: Run,
    pub(super) buffer: RowBuffer,
}

impl RunWriter {
    /// Creates a writer. Its buffers are full at `buffer_bytes`.
    pub(super) fn new(inner: Arc<StoreInner>, family: Family, buffer_bytes: usize) -> RunWriter {
        RunWriter { inner, family, part_bytes: (buffer_bytes / PARTS_IN_BUFFER).max(1), writing: None }
    }

    /// Waits for the previous run and returns it, and starts to write another one. If the system refuses a thread, the
    /// calling thread writes the run.
    pub(super) fn write(&mut self, buffer: RowBuffer, options: Arc<CfOptions>) -> Result<Option<WrittenRun>> {
        let previous = self.wait()?;
        let (part_bytes, buffer) = (self.part_bytes, Mutex::new(Some(buffer)));
        let task = Arc::new(Task { part_bytes, options, buffer, done: Signal::default(), stop: AtomicBool::default() });
        let (inner, family, run) = (self.inner.clone(), self.family.clone(), task.clone());
        let thread = match self.inner.compactor().context().env.work {
            Mode::Threads => spawn("waxseal-run", true, move || run.run(inner.compactor(), &family)).ok(),
            Mode::Stepped => None,
        };
        if thread.is_none() {
            task.run(self.inner.compactor(), &self.family);
        }
        self.writing = Some(Writing { thread, task });
        Ok(previous)
    }

    /// Waits for the run that is being written, and returns it; panics as its thread did. A forked child has no such
    /// thread, and gets no run. Errors: of the run; `Interrupted`, and then the run goes on until this is dropped.
    pub(super) fn wait(&mut self) -> Result<Option<WrittenRun>> {
        if !self.inner.origin.is_here() {
            self.writing = None;
        }
        let Some(writing) = &self.writing else { return Ok(None) };
        writing.wait()?;
        let Some(Writing { thread, task }) = self.writing.take() else { return Ok(None) };
        if let Some(Err(panic)) = thread.map(JoinHandle::join) {
            resume_unwind(panic);
        }
        task.done.lock().take().transpose()
    }
}

impl Drop for RunWriter {
    /// Ends a run that nobody wants any more, and removes its files.
    fn drop(&mut self) {
        let Some(Writing { thread, task }) = self.writing.take() else { return };
        task.stop.store(true, Ordering::Relaxed);
        if !self.inner.origin.is_here() || thread.is_some_and(|thread| thread.join().is_err()) {
            return;
        }
        if let Some(Ok(run)) = task.done.lock().take() {
            PlacedFiles::new(self.inner.compactor()).adopt(&run.tables);
        }
    }
}

/// Writes the buffer of a task as a run, in concurrent parts, and empties it.
fn write_run(compactor: &Compactor, family: &Family, task: &Task, mut buffer: RowBuffer) -> Result<WrittenRun> {
    buffer.sort();
    let context = compactor.context();
    let ledger = buffer.ledger(&*context.companions);
    let parts = match context.companions.has_rows() {
        true => 1, // the protector needs all records in one sequence
        false => (buffer.memory() / task.part_bytes).clamp(1, context.settings.current().subcompactions),
    };
    let rows = || -> Box<dyn Cursor + '_> { Box::new(buffer.cursor(context.companions.protection())) };
    let pass = PassOptions { stop: Some(&task.stop), ..PassOptions::default() };
    let tables = write(compactor, family, (&task.options, &pass), ledger, &buffer.cuts(parts), rows)?;
    buffer.clear();
    Ok(WrittenRun { tables, buffer })
}

/// Writes records to tables, in concurrent parts: the first one from the start, the others from the keys `cuts`.
pub(super) fn write<'c>(
    compactor: &Compactor,
    family: &Family,
    (options, pass): (&Arc<CfOptions>, &PassOptions<'_>),
    expected: Ledger,
    cuts: &[Vec<u8>],
    records: impl Fn() -> Box<dyn Cursor + 'c>,
) -> Result<Vec<TableMeta>> {
    let next_file = || compactor.catalog().new_file_number();
    let mut job = compactor.pass_over(family, LEVELS - 1, WRITTEN_SEQNO, (expected, true), &next_file);
    job.options = options.clone();
    let part = || {
        Ok(CompactionPart {
            cursor: records(),
            rules: Rules::new(family.order().clone(), Vec::new(), |_: &[u8]| false),
            splitter: Splitter::new(family.order().clone(), options.table_bytes, Vec::new()),
        })
    };
    write_parts(&job, pass, cuts, part).map(|written| written.tables)
}
