//! Injected faults: one interface for tests, bench and fuzzers.
//!
//! ```text
//! anatomy     where everything stands in a table file: a second reading of docs/format.md
//! flow        records on their way, owned and damageable
//! keepers     keepers that go wrong, or do less, on purpose
//! ```

pub mod anatomy;
pub mod flow;
pub mod keepers;
