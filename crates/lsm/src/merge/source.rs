//! The sources of a merge: tables and memtables, whose types it knows, and any other cursor.
//!
//! A table's cursor may be lent to the reader of the merge, so that steps within its run go to it directly, bypassing
//! all layers in between. The source must not be used until the cursor is returned.

use super::concat::ConcatCursor;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::memtable::MemtableCursor;
use crate::record::{Record, Seqno};
use crate::seam::RecordSource;
use crate::sst::TableCursor;

/// One source of a merge.
pub enum MergeSource {
    /// Tables that follow one another.
    Tables(ConcatCursor),
    /// A memtable.
    Memtable(Box<MemtableCursor>),
    /// Anything else.
    Other(Box<dyn Cursor>),
}

impl MergeSource {
    /// Returns key and seqno of the current record.
    #[inline]
    pub(super) fn place(&self) -> (&[u8], Seqno) {
        if let Some(table) = self.table() {
            return table.current_position();
        }
        let record = self.record();
        (record.key, record.seqno)
    }

    /// Returns the table cursor at the current record; `None` for other sources.
    #[inline]
    pub(super) fn table(&self) -> Option<&TableCursor> {
        match self {
            MergeSource::Tables(tables) => tables.table(),
            MergeSource::Memtable(_) | MergeSource::Other(_) => None,
        }
    }

    /// Returns the tables, if the source consists of tables.
    #[inline]
    pub(super) fn tables(&mut self) -> Option<&mut ConcatCursor> {
        match self {
            MergeSource::Tables(tables) => Some(tables),
            MergeSource::Memtable(_) | MergeSource::Other(_) => None,
        }
    }

    pub(super) fn lend(&mut self) -> Option<Box<TableCursor>> {
        match self {
            MergeSource::Tables(tables) => tables.lend(),
            MergeSource::Memtable(_) | MergeSource::Other(_) => None,
        }
    }

    pub(super) fn take_back(&mut self, table: Box<TableCursor>) {
        if let MergeSource::Tables(tables) = self {
            tables.take_back(table);
        }
    }
}

/// Forwards a call to the source's cursor.
macro_rules! each {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            MergeSource::Tables($cursor) => $call,
            MergeSource::Memtable($cursor) => $call,
            MergeSource::Other($cursor) => $call,
        }
    };
}

impl Cursor for MergeSource {
    #[inline]
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        each!(self, cursor => cursor.seek(key, seqno))
    }

    #[inline]
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        each!(self, cursor => cursor.seek_for_prev(key, seqno))
    }

    #[inline]
    fn first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.first())
    }

    #[inline]
    fn last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.last())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }

    #[inline]
    fn valid(&self) -> bool {
        each!(self, cursor => cursor.valid())
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        each!(self, cursor => cursor.record())
    }

    fn source(&self) -> RecordSource<'_> {
        each!(self, cursor => cursor.source())
    }
}
