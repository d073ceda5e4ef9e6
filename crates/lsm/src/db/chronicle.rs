//! The chronicle: each piece of work leaves a line in the edit that makes it true.
//!
//! In:     what was done, as facts; whoever keeps the chronicle makes a line of it, or none.
//! Out:    the lines that the manifest still holds, without its lock. Above `chronicle_lines` of them the oldest become rows of a
//!         family, in the edit of a flush that runs anyway: rows are shown before their lines go.
//! Crash:  a line is there if what it tells is.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::family::Family;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::seam::{Chronicle, Deed, MAX_LINE_BYTES, TableFact, Touched, Work};
use crate::version::{Change, Edit, Lines, State, TableMeta};

/// Who keeps the chronicle, and the lines as readers see them.
pub(crate) struct Book {
    keeper: Option<Arc<dyn Chronicle>>,
    lines: ArcSwap<Lines>,
}

impl Book {
    pub(super) fn new(keeper: Option<Arc<dyn Chronicle>>, lines: Lines) -> Book {
        Book { keeper, lines: ArcSwap::from_pointee(lines) }
    }

    pub(super) fn keeper(&self) -> Option<&Arc<dyn Chronicle>> {
        self.keeper.as_ref()
    }

    /// Shows readers the lines of a state.
    pub(super) fn show(&self, lines: &Lines) {
        let shown = self.lines.load();
        if (shown.last(), shown.taken_out()) != (lines.last(), lines.taken_out()) {
            self.lines.store(Arc::new(lines.clone()));
        }
    }
}

impl Db {
    /// The lines of the chronicle that are not rows yet, each with its number, oldest first. A line may be met here and as rows, if those
    /// are read afterwards; never not at all.
    pub fn chronicle(&self) -> Vec<(u64, Arc<[u8]>)> {
        self.inner().book.lines.load().iter().cloned().collect()
    }

    /// Adds a line to the chronicle, in an edit of its own. Costs an fsync.
    pub fn note(&self, line: Vec<u8>) -> Result<()> {
        let (inner, _) = self.writable()?;
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::invalid(format!("a line of {} bytes", line.len())));
        }
        let changes = vec![Change::Line { number: 0, bytes: line.into() }];
        inner.install(Edit { changes }, None)
    }
}

impl Inner {
    /// Adds the line of a work to the edit that makes it true.
    pub(super) fn tell<'a>(&self, edit: &mut Edit, work: impl FnOnce() -> Work<'a>) {
        if let Some(keeper) = &self.book.keeper {
            tell(&**keeper, edit, &work());
        }
    }
}

/// Adds the line of a work, if there is one, to the edit that makes it true; its number comes later.
pub(super) fn tell(keeper: &dyn Chronicle, edit: &mut Edit, work: &Work<'_>) {
    if let Some(line) = keeper.line(work).filter(|line| line.len() <= MAX_LINE_BYTES) {
        edit.changes.push(Change::Line { number: 0, bytes: line.into() });
    }
}

/// Gives the lines of an edit the next numbers.
pub(super) fn number(edit: &mut Edit, state: &State) {
    let mut last = state.lines.last();
    for change in &mut edit.changes {
        if let Change::Line { number, .. } = change {
            last += 1;
            *number = last;
        }
    }
}

/// What a work says of tables in a level.
pub(super) fn facts<'a>(tables: impl IntoIterator<Item = (usize, &'a TableMeta)>) -> Vec<TableFact> {
    let fact = |(level, meta): (usize, &TableMeta)| TableFact {
        number: meta.number,
        uid: meta.uid,
        digest: meta.digest,
        level: level as u8,
        records: meta.ledger.count(),
        bytes: meta.size,
    };
    tables.into_iter().map(fact).collect()
}

/// What a work does to a family.
pub(super) fn touched(family: &Family, read: Vec<TableFact>, written: Vec<TableFact>) -> Touched<'_> {
    Touched { family: family.id(), name: family.name(), read, written }
}

/// A work on one family that has nothing to do with the log.
pub(super) fn on_tables<'a>(deed: Deed<'a>, touched: Touched<'a>, seqno: u64, nanos: u64) -> Work<'a> {
    Work { deed, touched: vec![touched], log: None, seqno, nanos }
}
