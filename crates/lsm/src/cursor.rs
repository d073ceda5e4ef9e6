//! The cursor interface: iteration over records in internal order (user key ascending, seqno descending).

use crate::error::Result;
use crate::record::{Record, Seqno};
use crate::seam::RecordSource;

mod list;
#[cfg(test)]
pub(crate) mod testing;

pub use list::ListCursor;

/// A position among records. A new cursor is invalid. Any move may fail; after an error the cursor is invalid until the
/// next seek. A step within cached blocks allocates nothing.
pub trait Cursor: Send {
    /// Moves to the first record at or after (`key`, `seqno`) in internal order: the newest version of `key` not above
    /// `seqno`, or else the next record.
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()>;
    /// Moves to the last record at or before (`key`, `seqno`) in internal order. With seqno 0 this is the oldest
    /// version of `key`, or else the preceding record.
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()>;
    /// Moves to the first record.
    fn first(&mut self) -> Result<()>;
    /// Moves to the last record.
    fn last(&mut self) -> Result<()>;
    /// Moves one record forward; the cursor must be valid.
    fn next(&mut self) -> Result<()>;
    /// Moves one record backward; the cursor must be valid.
    fn prev(&mut self) -> Result<()>;
    /// Returns true if the cursor is at a record.
    fn valid(&self) -> bool;
    /// Returns the record under the cursor, borrowed until the next move; the cursor must be valid.
    fn record(&self) -> Record<'_>;
    /// Returns the location of the record under the cursor; the cursor must be valid.
    fn source(&self) -> RecordSource<'_>;
}
