//! The async face on real runtimes, of one thread and of many: nothing blocks a task, nothing is lost by dropping one,
//! and a thousand synced writers share fdatasyncs. Where a test must know that something is under way, a gate in the
//! file system says so, not a clock.
#![cfg(feature = "tokio")]
#![expect(clippy::disallowed_methods, reason = "a test of damage writes to files, and threads are counted in /proc")]

mod calls;
mod dropped;
mod durable;
mod ends;
mod long;
mod streams;
mod support;
mod watched;
