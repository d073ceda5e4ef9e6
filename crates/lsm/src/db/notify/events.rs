//! The events of a store, and the listener that receives them. `notifier.rs` delivers them.

use crate::compaction::Reason;
use crate::error::{Error, Remedy};
use crate::lost_range::LostRange;

/// An event of a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Opening the store read the log.
    Recovered {
        /// Number of commits replayed.
        commits: u64,
        /// Bytes cut from the log's tail, saved to a separate file and reported.
        cut_bytes: u64,
    },
    /// A flush wrote memtables to a level-0 table, or to no table if it dropped all of their records.
    Flushed {
        /// Name of the family.
        family: String,
        /// Number of the table file, if one was written.
        table: Option<u64>,
        /// Size of the table file in bytes.
        bytes: u64,
    },
    /// A compaction merged tables, or moved one down without reading it.
    Compacted {
        /// Name of the family.
        family: String,
        /// Numbers of the removed tables.
        inputs: Vec<u64>,
        /// Numbers of the tables that replace them.
        outputs: Vec<u64>,
        /// Level of the output tables.
        level: usize,
        /// True if the table only changed its level.
        moved: bool,
        /// Why the compaction ran.
        reason: Reason,
    },
    /// A read found damage. Reads of the damaged keys fail with `Corruption`; the rest of the store keeps working.
    Corruption {
        /// The damage, with file, offset and keys as far as known.
        error: Error,
    },
    /// A block with a wrong checksum, or a record that did not match its companion, was recovered.
    Healed {
        /// The file.
        file: String,
        /// The offset of the block.
        offset: u64,
        /// The remedy that recovered it.
        by: Remedy,
    },
    /// A damaged table was quarantined: compaction does not pick it until it is repaired.
    Barred {
        /// Name of the family.
        family: String,
        /// Number of the table file.
        table: u64,
    },
    /// Records were permanently lost: reads in this key range fail with `Corruption` until the lost range is removed.
    Fenced {
        /// Name of the family.
        family: String,
        /// The key range, and the known facts about the loss.
        fence: LostRange,
    },
    /// A lost range was removed.
    Lifted {
        /// Name of the family.
        family: String,
        /// The key range.
        fence: LostRange,
    },
    /// Background work failed. It will be retried (a full disk), or the store halted.
    BackgroundError {
        /// The failure.
        error: Error,
        /// True if the store acknowledges no more commits until it is reopened (I09).
        halted: bool,
    },
    /// A compaction filter failed or panicked. The values that it was called for stay as they were.
    FilterFailed {
        /// Name of the family.
        family: String,
        /// The first failure of the compaction, which names filter and key.
        error: Error,
        /// Number of values for which it failed in this compaction.
        values: u64,
    },
    /// A snapshot or a cursor has been kept for more than `OLD_READER_NANOS` (one hour): the versions, memtables and files
    /// that it sees take space. Reported once for each snapshot or replaced view, after a flush.
    OldReader {
        /// What is old.
        reader: OldReader,
        /// Its age: of a snapshot since it was taken, of a cursor since the state that it reads was replaced.
        nanos: u64,
    },
    /// Write throttling began (true) or ended (false).
    Stalled {
        /// True while writers are throttled.
        stalled: bool,
    },
}

/// Age above which a snapshot or cursor is reported, in nanoseconds: one hour.
pub const OLD_READER_NANOS: u64 = 3_600_000_000_000;

/// What keeps old versions or files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OldReader {
    /// A snapshot, which keeps the versions that it sees.
    Snapshot,
    /// A cursor or iterator, which keeps the memtables and files that it reads.
    Cursor,
}

/// Receives events. An implementation must return soon and must not write to the store. The calling thread is one of
/// the store's own, or one that is inside a call of the store; it holds none of the store's locks. The application must
/// not hold a lock that its listener takes while it calls the store.
pub trait Listener: Send + Sync {
    /// Handles one event.
    fn on_event(&self, event: &Event);
}

/// A listener that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn on_event(&self, _event: &Event) {}
}
