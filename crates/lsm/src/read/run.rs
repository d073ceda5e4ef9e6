//! A run of one block in which every record is shown as stored: the table's own cursor, and the range of entries within
//! which it may move.
//!
//! The code that begins a run ensures that no key in it has another version here or elsewhere, and that all keys are
//! within the bounds. A record that is not a plain value, is above the seqno, or fails its check ends the run; the
//! cursor then keeps its position.

use crate::cursor::Cursor;
use crate::record::{Record, Seqno};
use crate::sst::TableCursor;

/// See the head of the file.
pub(super) struct SourceRun {
    table: Box<TableCursor>,
    first: usize,
    last: usize,
}

impl SourceRun {
    /// Creates the run between a cursor's position and another entry of its block.
    pub(super) fn new(table: Box<TableCursor>, other: usize) -> SourceRun {
        let at = table.place_in_block();
        SourceRun { table, first: at.min(other), last: at.max(other) }
    }

    /// Steps forward. Returns false if that step is not part of the run.
    #[inline]
    pub(super) fn next(&mut self, seqno: Seqno) -> bool {
        let at = self.table.place_in_block();
        at < self.last && self.table.step_to(at + 1, seqno)
    }

    /// Steps back. Returns false if that step is not part of the run.
    #[inline]
    pub(super) fn prev(&mut self, seqno: Seqno) -> bool {
        let at = self.table.place_in_block();
        at > self.first && self.table.step_to(at - 1, seqno)
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.table.current_key()
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.table.current_value()
    }

    #[inline]
    pub(super) fn record(&self) -> Record<'_> {
        self.table.record()
    }

    /// Returns the table's cursor at its current position.
    pub(super) fn into_table(self) -> Box<TableCursor> {
        self.table
    }
}
