//! The maker of event rows: what a flush calls for stamped records.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::error::Result;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Emitted, Emitting};

use crate::stamp::Stamp;

/// Makes the rows of other families that a stamped record causes. Calls come from flushes, on any thread, and from
/// recovery before the store is open.
pub trait Emitter: Send + Sync {
    /// Called when a flush reads a stamped record whose row has not been written: appends the row. The protector seals
    /// rows without companions. `record` and `stamp` have passed their checks. If the flush fails, the call may repeat
    /// for the same record.
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, stamp: &Stamp, rows: &mut Vec<Emitted>) -> Result<()>;

    /// Called when a flush reads a stamp, whether or not its row was written elsewhere. The clock must continue after
    /// its time.
    fn observe(&self, _stamp: &Stamp) {}
}

/// The emitter, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Emits(pub(crate) Option<Arc<dyn Emitter>>);

impl fmt::Debug for Emits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Emits" } else { "EmitsNothing" })
    }
}
