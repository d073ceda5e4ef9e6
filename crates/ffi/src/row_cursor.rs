//! The position of an iterator: a cursor of the store, or of a transaction, which adds the transaction's own writes.

use face::{Cursor, Result, StoreId, TransactionCursor};

/// A cursor of either kind.
pub(crate) enum RowCursor {
    Store(Cursor),
    Transaction(TransactionCursor),
}

macro_rules! of_either {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            RowCursor::Store($cursor) => $call,
            RowCursor::Transaction($cursor) => $call,
        }
    };
}

impl RowCursor {
    pub(crate) fn store(&self) -> StoreId {
        of_either!(self, cursor => cursor.store())
    }

    pub(crate) fn check(&self) -> Result<()> {
        of_either!(self, cursor => cursor.check())
    }

    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        of_either!(self, cursor => cursor.seek(key))
    }

    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        of_either!(self, cursor => cursor.seek_for_prev(key))
    }

    pub(crate) fn first(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.first())
    }

    pub(crate) fn last(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.last())
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.next())
    }

    #[inline]
    pub(crate) fn prev(&mut self) -> Result<()> {
        of_either!(self, cursor => cursor.prev())
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        of_either!(self, cursor => cursor.valid())
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        of_either!(self, cursor => cursor.key())
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        of_either!(self, cursor => cursor.value())
    }
}
