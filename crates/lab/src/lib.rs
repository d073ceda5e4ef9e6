//! The laboratory: what tests, experiments and fuzzers need and no user does.
//!
//! ```text
//! faults     every kind of fault at every site, injected from a seed and judged against a model
//! paper      the store exactly as the MetaHive paper describes it, for comparison
//! fuzz       drivers for the fuzz targets of `fuzz/`
//! ```
//!
//! The product crates import nothing from here, except for their tests. They offer narrow hooks, hidden from the
//! documentation: `waxseal_lsm::inject`, `db::Db::damage_memtable` and its neighbors, and `sst::fuzzing`.

pub mod faults;
pub mod fuzz;
pub mod paper;
