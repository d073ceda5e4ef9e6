//! The engine on a simulated disk, plain and sealed: the model test, the crash sweep, the flip sweep, and the planted
//! bugs that these must find.
//!
//! All tests run in one thread from a seed; a failure prints the seed that reproduces it.

#![expect(unreachable_pub, reason = "a test binary exports nothing; `pub` says what other files of it use")]

mod backup;
mod beside;
mod care;
mod displaced;
mod epoch;
mod events;
mod expiring;
mod feed;
mod filters;
mod flips;
mod forged;
mod history;
mod hurt;
mod ingest;
mod kept;
mod memory;
mod model;
mod operands;
mod oracle;
#[cfg(feature = "zstd")]
mod packed;
mod panics;
#[cfg(feature = "planted")]
mod planted;
mod prefixes;
mod same;
mod sweep;
mod transactions;
mod values;
mod world;
