//! A stretch of one block in which every record is shown as it stands: the table's own cursor, and between which places it may go.
//!
//! Who begins a run has made sure that no key of it has another version here or elsewhere, and that all lie within the bounds. A record
//! that is no plain value, or is above the seqno, or does not pass its check ends it: the cursor then stands where it stood.

use crate::cursor::Cursor;
use crate::record::{Record, Seqno};
use crate::sst::TableCursor;

/// See the head of the file.
pub(super) struct Run {
    table: Box<TableCursor>,
    first: usize,
    last: usize,
}

impl Run {
    /// The run between where a cursor stands and another place of its block.
    pub(super) fn new(table: Box<TableCursor>, other: usize) -> Run {
        let at = table.place_in_block();
        Run { table, first: at.min(other), last: at.max(other) }
    }

    /// Steps on; false if that is no step of the run.
    #[inline]
    pub(super) fn next(&mut self, seqno: Seqno) -> bool {
        let at = self.table.place_in_block();
        at < self.last && self.table.step_to(at + 1, seqno)
    }

    /// Steps back; false if that is no step of the run.
    #[inline]
    pub(super) fn prev(&mut self, seqno: Seqno) -> bool {
        let at = self.table.place_in_block();
        at > self.first && self.table.step_to(at - 1, seqno)
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.table.standing_key()
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.table.standing_value()
    }

    #[inline]
    pub(super) fn record(&self) -> Record<'_> {
        self.table.record()
    }

    /// The table's cursor, where it stands.
    pub(super) fn into_table(self) -> Box<TableCursor> {
        self.table
    }
}
