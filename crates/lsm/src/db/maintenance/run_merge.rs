//! Reads the runs of a bulk load: one as a cursor, and several merged into one.
//!
//! In:    runs, oldest first, of tables that do not overlap and ascend.
//! Out:   the newest row of each key.
//! Holds: a run has one open table at a time, so a merge of n runs needs n descriptors.

use std::path::PathBuf;
use std::sync::Arc;

use super::ingest::NewestOnly;
use crate::cursor::Cursor;
use crate::db::state::context::StoreContext;
use crate::env::{Env, Open};
use crate::error::{Error, IoContext, Result};
use crate::merge::MergeCursor;
use crate::names::StoreFileName;
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Companions, RecordSource};
use crate::sst::{Cache, Expected, Table, TableStream, WRITTEN_SEQNO};
use crate::version::TableMeta;

/// Maximum number of runs that are merged at once. More are merged in several passes.
pub(super) const MAX_MERGED_RUNS: usize = 64;

/// A sorted part of a bulk load: tables that do not overlap and ascend.
pub(super) type Run = Vec<TableMeta>;

/// Returns a cursor over the newest row of each key in some runs, oldest run first. Each run is read under a seqno of its
/// own, so that a later run is newer.
pub(super) fn newest_of(runs: &[Run], context: &StoreContext, order: &Order) -> NewestOnly {
    let files = RunFiles {
        env: context.env.clone(),
        dir: context.dir.clone(),
        cache: context.cache.clone(),
        companions: context.companions.clone(),
        order: order.clone(),
    };
    let cursor = |(run, seqno): (&Run, Seqno)| -> Box<dyn Cursor> {
        Box::new(RunCursor { files: files.clone(), run: run.clone(), seqno, next: 0, stream: None })
    };
    let mut sources: Vec<_> = runs.iter().zip(WRITTEN_SEQNO + 1..).map(cursor).collect();
    sources.reverse(); // newest first
    let merged = Box::new(MergeCursor::new(order.clone(), sources));
    NewestOnly::new(merged, order.clone(), files.companions, WRITTEN_SEQNO)
}

/// Opens the tables of runs.
#[derive(Clone)]
struct RunFiles {
    env: Env,
    dir: PathBuf,
    cache: Arc<Cache>,
    companions: Arc<dyn Companions>,
    order: Order,
}

impl RunFiles {
    fn open(&self, meta: &TableMeta, seqno: Seqno) -> Result<Arc<Table>> {
        let name = StoreFileName::Table(meta.number).to_string();
        let file = self.env.fs.open(&self.dir.join(&name), Open::Read).during(|| format!("opening {name}"))?;
        let expected = Expected { ingest_seqno: seqno, ..meta.expected() };
        Table::open(name, file, expected, self.order.clone(), self.cache.clone(), self.companions.clone())
    }
}

/// The records of one run; forward only.
struct RunCursor {
    files: RunFiles,
    run: Run,
    seqno: Seqno,
    /// The index of the table behind the open one.
    next: usize,
    stream: Option<TableStream>,
}

impl RunCursor {
    /// Moves to the first record of the next table, if the open one has ended.
    fn settle(&mut self) -> Result<()> {
        while self.stream.as_ref().is_none_or(|stream| !stream.valid())
            && let Some(meta) = self.run.get(self.next)
        {
            self.stream = None; // closed before the next one is opened
            self.next += 1;
            let mut stream = self.files.open(meta, self.seqno)?.stream();
            stream.first()?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    fn here(&self) -> &TableStream {
        self.stream.as_ref().expect("a cursor at a record has an open table")
    }
}

pub(super) fn forward_only() -> Error {
    Error::invalid("a run is read from front to back")
}

impl Cursor for RunCursor {
    fn seek(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }
    fn first(&mut self) -> Result<()> {
        (self.next, self.stream) = (0, None);
        self.settle()
    }
    fn last(&mut self) -> Result<()> {
        Err(forward_only())
    }
    fn next(&mut self) -> Result<()> {
        if let Some(stream) = &mut self.stream {
            stream.next()?;
        }
        self.settle()
    }
    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }
    fn valid(&self) -> bool {
        self.stream.as_ref().is_some_and(TableStream::valid)
    }
    fn record(&self) -> Record<'_> {
        self.here().record()
    }
    fn source(&self) -> RecordSource<'_> {
        self.here().source()
    }
}
