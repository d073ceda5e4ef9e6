//! The benchmark driver. It runs outside the stores, and measures and damages Waxseal and its peers by the same rules.
//!
//! ```text
//! peers                        alternating rounds of `run` in child processes, paired ratios, gates
//! run      flip     killloop   steps in sequence | one flipped bit in a copy | one killed process
//! tasks                        what async code costs
//! tables                       what typed rows cost, beside the engine and SQLite
//! experiment  rounds           size, directory, output lines | alternating sides
//!    \       |
//!      engine                one small trait, one adapter per store
//!    /       |        \
//! workload  measure  probe  heap  stats   keys and values | clocks and counters | raw disk | allocations | intervals
//! ```
//!
//! The papers' experiments (`crates/papers`) share `experiment`, `rounds`, `stats` and `gate`. The engine imports
//! nothing from here. All numbers come from outside the stores (the process's own clocks and
//! counters), so that no store can report better results than it had.
#![expect(
    clippy::disallowed_methods,
    reason = "a driver lives outside the engine: it has its own clock, threads and files"
)]

pub mod child;
pub mod engine;
pub mod experiment;
pub mod flip;
pub mod gate;
pub mod heap;
pub mod histories;
pub mod killloop;
pub mod measure;
pub mod peers;
pub mod probe;
pub mod rounds;
pub mod run;
pub mod stats;
#[cfg(feature = "tables")]
pub mod tables;
pub mod tasks;
pub mod workload;

/// An error of the driver, as text for the user.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The result type of the driver.
pub type Outcome<T> = Result<T, Fault>;
