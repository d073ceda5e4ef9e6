//! The cursor over one part of a tier. A `TableCursor` can be lent to the reader; other cursors cannot.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::record::{Kind, Record, Seqno};
use crate::seam::RecordSource;
use crate::sst::TableCursor;

/// The cursor of a part.
pub enum PartCursor {
    /// A table's cursor.
    Table(Box<TableCursor>),
    /// Any other cursor.
    Other(Box<dyn Cursor>),
    /// A table without a record that the caller wants: a cursor over nothing.
    Excluded,
    /// A table's cursor that is lent out.
    Lent,
}

impl PartCursor {
    /// Returns the table's cursor, for reuse with another table.
    pub(super) fn into_spare(self) -> Option<Box<TableCursor>> {
        match self {
            PartCursor::Table(table) => Some(table),
            PartCursor::Other(_) | PartCursor::Excluded | PartCursor::Lent => None,
        }
    }
}

/// Forwards a call to the cursor of a part; one that is lent or excluded is invalid.
macro_rules! opened {
    ($self:ident, $cursor:ident => $call:expr, $lent:expr) => {
        match $self {
            PartCursor::Table($cursor) => $call,
            PartCursor::Other($cursor) => $call,
            PartCursor::Excluded | PartCursor::Lent => $lent,
        }
    };
}

impl Cursor for PartCursor {
    #[inline]
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        opened!(self, cursor => cursor.seek(key, seqno), Ok(()))
    }

    #[inline]
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        opened!(self, cursor => cursor.seek_for_prev(key, seqno), Ok(()))
    }

    #[inline]
    fn first(&mut self) -> Result<()> {
        opened!(self, cursor => cursor.first(), Ok(()))
    }

    #[inline]
    fn last(&mut self) -> Result<()> {
        opened!(self, cursor => cursor.last(), Ok(()))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        opened!(self, cursor => cursor.next(), Ok(()))
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        opened!(self, cursor => cursor.prev(), Ok(()))
    }

    #[inline]
    fn valid(&self) -> bool {
        opened!(self, cursor => cursor.valid(), false)
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        let nothing = Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] };
        opened!(self, cursor => cursor.record(), nothing)
    }

    fn source(&self) -> RecordSource<'_> {
        opened!(self, cursor => cursor.source(), RecordSource::default())
    }
}
