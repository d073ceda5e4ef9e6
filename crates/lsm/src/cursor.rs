//! The one way to walk records in internal order: (user key ascending, seqno descending).

use crate::error::Result;
use crate::record::{Record, Seqno};
use crate::seam::Source;

#[cfg(test)]
pub(crate) mod testing;

/// A position among records. Starts invalid; any move may fail, and after an error the cursor is invalid until the next seek.
/// A cached step allocates nothing.
pub trait Cursor: Send {
    /// To the first record at or after (`key`, `seqno`) in internal order: the newest version of `key` not above `seqno`, or what follows.
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()>;
    /// To the last record at or before (`key`, `seqno`) in internal order. With seqno 0 that is the oldest version of `key`, or what precedes.
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()>;
    /// To the first record.
    fn first(&mut self) -> Result<()>;
    /// To the last record.
    fn last(&mut self) -> Result<()>;
    /// One record on; the cursor must be valid.
    fn next(&mut self) -> Result<()>;
    /// One record back; the cursor must be valid.
    fn prev(&mut self) -> Result<()>;
    /// True if the cursor stands on a record.
    fn valid(&self) -> bool;
    /// The record under the cursor, borrowed until the next move; the cursor must be valid.
    fn record(&self) -> Record<'_>;
    /// Where the record under the cursor stands; the cursor must be valid.
    fn source(&self) -> Source<'_>;
}
