//! Compaction: which tables are merged, which records survive it, where the new tables end, and how long writers wait for it.
//!
//! All but `output` and `parts` decide and do not act: facts in, a decision out. `output` is the pass that flushes share with compactions, `parts` does it side by side.
//!
//! ```text
//! pick    which tables, into which level          split   where an output table ends
//! rules   which records may go                    debt    how far behind compaction is, and what that costs a writer
//! pace    how fast they may be written            parts   one pass over several threads
//! packing with which codec a level is packed      expired which tables go, or are merged, for records that have expired
//! output  records in, tables out                  collect which value files are mostly garbage
//! unsynced  finished tables that are synced together
//! values  values out of their records, into value files                 lean    what more is done for a store that is to be small
//! ```

pub mod collect;
pub mod debt;
pub mod expired;
pub mod lean;
#[cfg(test)]
mod life;
pub mod output;
pub mod pace;
pub mod packing;
pub mod parts;
pub mod pick;
pub mod rules;
pub mod split;
mod unsynced;
mod values;

pub use debt::{Debt, Limits, Stall};
pub use pace::{Pace, Turn};
pub use pick::{Action, Picture, Plan, Reason, Shape, Span, TableFacts};
pub use rules::{Decision, Rules};
pub use split::Splitter;
pub use unsynced::UnsyncedTables;
