//! Compaction: which tables are merged, which records survive it, where the new tables end, and how long writers wait for it.
//!
//! Everything here decides and nothing acts: facts in, a decision out.
//!
//! ```text
//! pick    which tables, into which level          split   where an output table ends
//! rules   which records may go                    debt    how far behind compaction is, and what that costs a writer
//! ```

pub mod debt;
pub mod pick;
pub mod rules;
pub mod split;

pub use debt::{Debt, Limits, Stall};
pub use pick::{Action, Picture, Plan, Reason, Shape, Span, TableFacts};
pub use rules::{Decision, Rules};
pub use split::Splitter;
