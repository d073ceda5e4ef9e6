//! What the engine tells a listener. Calls come from the thread that did the work, after it is done, with no lock held.

use crate::compaction::Reason;
use crate::error::{Error, Remedy};
use crate::fence::Fence;

/// Something that happened inside a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The log was read at open.
    Recovered {
        /// Commits replayed.
        commits: u64,
        /// Bytes cut from the tail, set aside and reported.
        cut_bytes: u64,
    },
    /// Memtables became a table of level 0 (or nothing, if all they held was dropped).
    Flushed {
        /// Name of the family.
        family: String,
        /// Number of the table file, if one was written.
        table: Option<u64>,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Tables were merged, or moved down without being read.
    Compacted {
        /// Name of the family.
        family: String,
        /// Numbers of the tables that are gone.
        inputs: Vec<u64>,
        /// Numbers of the tables that replace them.
        outputs: Vec<u64>,
        /// The level of the outputs.
        level: usize,
        /// True if the table only changed its level.
        moved: bool,
        /// Why.
        reason: Reason,
    },
    /// Damage was met; what it covers answers `Corruption`, the rest of the store goes on.
    Corruption {
        /// The damage, with file, offset and keys as far as known.
        error: Error,
    },
    /// A block that did not fit its sum, or a record that did not match its companion, was read right after all.
    Healed {
        /// The file.
        file: String,
        /// The offset of the block.
        offset: u64,
        /// What helped.
        by: Remedy,
    },
    /// A damaged table is left alone from now on: compaction does not pick it until it is repaired.
    Barred {
        /// Name of the family.
        family: String,
        /// Number of the table file.
        table: u64,
    },
    /// Records were lost for good: reads between these keys answer corruption until the fence is lifted.
    Fenced {
        /// Name of the family.
        family: String,
        /// The span, and what is known of the loss.
        fence: Fence,
    },
    /// A fence was lifted.
    Lifted {
        /// Name of the family.
        family: String,
        /// The span.
        fence: Fence,
    },
    /// Work in the background failed and will be tried again (a full disk), or halted the store.
    BackgroundError {
        /// What failed.
        error: Error,
        /// True if nothing more is acknowledged until reopen (I09).
        halted: bool,
    },
    /// Writers are held back (true) or free again (false).
    Stalled {
        /// Whether they are.
        stalled: bool,
    },
}

/// Receives events. Must return soon; may not call back into the store's writes.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &Event);
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn on_event(&self, _event: &Event) {}
}
