//! Compaction: selects the tables to merge, the records to keep, the boundaries of output tables, and the delays of
//! writers.
//!
//! All modules but `output` and `parts` are pure decisions: facts in, a decision out. `output` is the pass that flushes
//! and compactions share; `parts` runs it in parallel.
//!
//! ```text
//! pick      selects tables and the output level           plan      forms a plan around a table
//! job       the parameters of a pass                      split     ends output tables
//! rules     selects the records that may be dropped       debt      estimates the backlog and the resulting stalls
//! pace      limits the write rate                         parts     runs one pass on several threads
//! packing   selects the codec of a level                  expired   reclaims the space of expired records
//! output    writes records into tables                    collect   selects value files that are mostly garbage
//! unsynced  finished tables that are synced together      values    moves values into value files
//! lean      further compaction for a store that should be small
//! ```

pub mod collect;
pub mod debt;
pub mod expired;
mod job;
pub mod lean;
pub mod output;
pub mod pace;
pub mod packing;
pub mod parts;
pub mod pick;
mod plan;
pub mod rules;
pub mod split;
mod unsynced;
mod values;

pub use debt::{Debt, Limits, Stall};
pub use pace::{Pace, Turn};
pub use plan::{Action, Picture, Plan, Reason, Shape, Span, TableFacts};
pub use rules::{Decision, Rules};
pub use split::Splitter;
pub use unsynced::UnsyncedTables;
