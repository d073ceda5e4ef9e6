//! Compaction: selects the tables to merge, the records to keep, the boundaries of output tables, and the delays of
//! writers.
//!
//! All modules but `output` and `parts` are pure decisions: facts in, a decision out. `output` is the pass that flushes
//! and compactions share; `parts` runs it in parallel.
//!
//! ```text
//! pick              selects tables and the output level
//! plan              forms a plan around a table
//! expired           reclaims the space of expired records
//! range_deleted     reclaims the space of records that range deletes hide
//! space_compaction  further compaction for a store that should be small
//! blob_gc           selects blob files that are mostly garbage
//! packing           selects the codec of a level
//! filter            applies a compaction filter to a record
//! debt              estimates the backlog and the resulting stalls
//! fold              merges operands into one, or into their base
//! output            writes records into tables
//! parts             runs one pass on several threads
//! job               the parameters of a pass
//! pass              its options and its result
//! rules             selects the records that may be dropped
//! split             ends output tables
//! blob_separation   moves values into blob files
//! unsynced          finished tables that are synced together
//! write_rate        limits the write rate
//! ```

pub mod blob_gc;
mod blob_separation;
pub mod debt;
pub mod expired;
mod filter;
mod fold;
mod job;
pub mod output;
pub mod packing;
pub mod parts;
mod pass;
pub mod pick;
mod plan;
pub mod range_deleted;
pub mod rules;
pub mod space_compaction;
pub mod split;
mod unsynced;
pub mod write_rate;

pub use debt::{Debt, Stall, StallLimits};
pub use plan::{CompactionPlan, LevelShape, LevelSummary, OutputRange, PlanAction, RangeDeleted, Reason, TableFacts};
pub use rules::{RecordDecision, Rules};
pub use split::Splitter;
pub use unsynced::UnsyncedTables;
pub use write_rate::{IoPriority, WriteRate};
