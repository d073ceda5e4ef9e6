//! The test bench: tools that the tests of several crates share. No library depends on it.
//!
//! ```text
//! store      small stores on a simulated disk, and short functions for typical calls
//! harness    a store on a simulated disk, with calls that tests repeat
//! records    owned records that can be damaged, and a cursor that returns them like a merge
//! protector  a record protector with switchable faults
//! scribe     an event log with readable entries, and a protector that retains some versions
//! above      a record protector on top of another, which changes some of its methods
//! gates      file system hook: syncs and writes of the log that wait
//! unreadable file system hook: reads that fail
//! fs         a file system over another one, which a hook may delay, fail or change
//! listener   keeps a part of the events
//! memory     damage to cached blocks, indexes and filters of an open store
//! allocator  the system allocator with counters
//! golden     runs golden scripts: expected behavior as readable text
//! ```
//!
//! The unit tests of `waxseal-lsm` see other types than this crate does, so they use its `golden` only.

pub mod above;
pub mod allocator;
pub mod fs;
pub mod gates;
pub mod golden;
pub mod harness;
pub mod listener;
pub mod memory;
pub mod protector;
pub mod records;
pub mod scribe;
pub mod store;
pub mod unreadable;
