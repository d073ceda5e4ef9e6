//! The driver that stands outside: it measures Waxseal and its peers by the same rule, and it damages them by the same rule.
//!
//! ```text
//! peers                        alternating rounds of `run` in child processes, paired ratios, gates
//! run      flip     killloop   one step after the other | one bit flipped in a copy | one process killed
//! metahive    wasef    tasks   the claims about seals | about registry and log | about async code, an experiment each
//! experiment  rounds  node  content    a size, a directory, lines | sides in turn | a store without a face | records
//!    \       |        /
//!        engine                one small trait, one adapter a store
//!    /       |        \
//! workload  measure  probe  heap  stats   keys and values | clocks and counters | the disk itself | allocations | intervals and verdicts
//! ```
//!
//! Nothing here is imported by the engine. Numbers are taken from outside (the process's own clocks and counters), so that
//! no store can flatter itself.
#![expect(
    clippy::disallowed_methods,
    reason = "a driver lives outside the engine: it has its own clock, threads and files"
)]

pub mod child;
mod content;
pub mod engine;
mod experiment;
pub mod flip;
pub mod gate;
pub mod heap;
pub mod killloop;
pub mod measure;
pub mod metahive;
mod node;
pub mod peers;
pub mod probe;
pub mod rounds;
pub mod run;
pub mod stats;
pub mod tasks;
pub mod wasef;
pub mod workload;

/// What went wrong, in words: a driver hands it on to a person.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A result of the driver.
pub type Outcome<T> = Result<T, Fault>;
