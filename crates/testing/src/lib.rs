//! The test bench: tools that the tests of several crates share. Nothing that is shipped imports it.
//!
//! ```text
//! above      a record protector on top of another, which changes some of its methods
//! fs         a file system over another one, which a hook may delay, fail or change
//! gates      hook: syncs and writes of the log that wait
//! golden     runs golden scripts: expected behavior as readable text
//! memory     damage to cached blocks, indexes and filters of an open store
//! unreadable hook: reads that fail
//! ```
//!
//! The unit tests of `waxseal-lsm` see other types than this crate does, so they use its `golden` only.

pub mod above;
pub mod fs;
pub mod gates;
pub mod golden;
pub mod memory;
pub mod unreadable;
