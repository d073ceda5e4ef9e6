//! The family as a cursor sees it.

use crate::deleted_runs::DeletedRuns;
use crate::error::{Error, Result};
use crate::expiry::AsOf;
use crate::record::{OwnedRecord, Record, Seqno};
use crate::values::BlobBuffer;

/// The family of a cursor: reads values that are not stored in their records, knows deleted runs, and receives damage
/// reports that no lower layer can make.
pub trait BlobReader: Send + Sync {
    /// Reads the value that a record points to into a buffer.
    fn read(&self, record: &Record<'_>, room: &mut BlobBuffer) -> Result<()>;
    /// Returns the family's deleted runs and the address of the reader's view; `None` for a reader that may have missed
    /// damage in what it walked over.
    fn deleted_runs(&self) -> Option<(&DeletedRuns, usize)>;
    /// Returns false if the family has another view meanwhile.
    fn is_current(&self) -> bool;
    /// Reports that a record in memory is damaged: its seqno, and the error returned in its place.
    fn damaged_in_memory(&self, seqno: Seqno, error: &Error);
    /// Merges the operands of a key at or below a seqno. A base that has expired by a time counts as absent.
    fn merge(&self, key: &[u8], at: (Seqno, AsOf), merged: &mut OwnedRecord) -> Result<()>;
}
