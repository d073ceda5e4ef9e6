//! Notifications from the readers of a table.

use crate::error::{Error, Remedy};

/// Receives notifications from readers of a table. Calls come from reader threads, outside of their fast paths, with no
/// lock held.
pub trait TableListener: Send + Sync {
    /// Returns the family of the table, for error messages.
    fn family(&self) -> &str {
        ""
    }
    /// A check failed, and the cause is being examined.
    fn doubted(&self) {}
    /// A block was repaired.
    fn healed(&self, _file: &str, _offset: u64, _by: Remedy) {}
    /// A block cannot be repaired. Called once per block.
    fn damaged(&self, _error: &Error) {}
    /// A read reached a gap in such a block.
    fn gap_met(&self) {}
    /// Index and filter bytes were loaded, and stay in memory until the table is closed.
    fn grew(&self, _bytes: usize) {}
    /// Index and filter bytes were freed together with their table.
    fn shrank(&self, _bytes: usize) {}
}

/// A `TableListener` that ignores all notifications.
pub(crate) struct NoWatch;

impl TableListener for NoWatch {}
