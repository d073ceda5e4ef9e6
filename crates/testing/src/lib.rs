//! The test bench: tools that the tests of several crates share. Nothing that is shipped imports it.
//!
//! ```text
//! golden     runs golden scripts: expected behavior as readable text
//! ```
//!
//! The unit tests of `waxseal-lsm` see other types than this crate does, so they use its `golden` only.

pub mod golden;
