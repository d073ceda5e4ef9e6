//! The log: all commits, in one chained stream of frames. docs/format.md, section 5. Top to bottom; each file imports
//! only from those below it:
//!
//! ```text
//! sync.rs           one leader a group: pad, drain, fdatasync, witness
//! log.rs            `Wal`: order, copy, take, acknowledge; the fast path does the first three in one step
//! supply.rs         makes the next segment ahead of its use, recycles retired ones, reserves blocks, trims
//! hold.rs           lets one optimistic commit after another have the order for itself
//! stream.rs         frames on their way: ring -> segment, in whole pages; what is whole; whether the log has failed
//! order.rs          short mutex: seqno, placement and link of a frame; what a frame must wait for
//! group.rs          the threads that wait for a sync: who leads, and when
//! epoch.rs          preconditions for ordering a batch
//! preallocation.rs  when the next segments are made
//! blocks.rs, frame_ends.rs, holds.rs, limits.rs, metrics.rs       small states of the above
//!
//! live_read.rs      reads the log while another process writes it
//! find.rs           reads the log without a manifest, for salvage
//! recover.rs        segments and ring -> bodies of batches, in order; where the log ends
//! scan.rs           traces of frames after that end
//! forward.rs        reads whole frames of known segments, for the change feed
//! kept_copy.rs      writes frames that recovery read to segments that the change feed keeps
//! source.rs         segment and ring as sources of frames
//! ring.rs, segment.rs                                  the files
//! ```
//!
//! Before: the manifest names the first segment and the ring. After: I01 (a commit is whole only if all commits before
//!         it are), I15 (older segments are synced first). The log knows no families and no memtables: each batch
//!         carries an opaque payload `T` through the queue.
//!
//! Failures (I09): a failed write or sync of the log halts it. Waiting threads get the error, every later write gets
//! `Halted`, and nothing more is acknowledged, synced, marked or sealed. A failure *before* a frame is ordered (no
//! space for the next segment) fails that commit alone.
//!
//! Waiting: a thread that needs room or a segment drains or prepares itself unless another thread is doing so. So the
//! log works without background threads (`work::Mode::Stepped`); they only make it faster.

mod blocks;
mod epoch;
mod find;
mod forward;
mod frame_ends;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod hold;
mod holds;
mod kept_copy;
mod limits;
mod live_read;
mod log;
mod metrics;
mod order;
mod preallocation;
mod recover;
mod ring;
mod scan;
#[cfg(test)]
mod scripts;
mod segment;
mod source;
mod stream;
mod supply;
mod sync;

pub use epoch::{EpochChange, Precondition};
pub use find::{FoundSegments, HeadlessSegment, find, read_linked};
pub use forward::{ForwardFrame, LogCursor};
pub use hold::Hold;
pub use kept_copy::{CopiedSegment, KeptLogCopy};
pub use live_read::{LiveRead, ReadUntil, read_marks, recover_live};
pub use log::{Retirable, RetiredSegment, SyncsFirst, Ticket, Wal, Whole};
pub use metrics::LogMetrics;
pub use recover::{
    Gap, LogCut, LogEnd, LogProofs, Replayed, Stop, Tolerates, Visit, recover, recover_behind_gaps, set_aside,
};
pub use ring::Marks;
pub use segment::{LogPlace, LogStart};
pub use supply::Numbers;
