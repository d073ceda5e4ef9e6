//! Opens a store, runs its background threads, and closes it.
//!
//! ```text
//! open.rs        opens, refreshes and assembles a store
//! background.rs  runs the lanes' steps
//! inner.rs       `StoreInner`: the open store behind its handles, and closing it
//! recover.rs     manifest -> families, log -> memtables -> tables, then a fresh log (I16)
//! kept_log.rs    what the change feed keeps of a log that recovery replaces
//! replay.rs      log frames -> memtables -> level-0 tables
//! pause.rs       pauses of background work
//! opening.rs     the inputs of an open
//! directory.rs   lock, creation and removal of the directory
//! ```

mod background;
pub(super) mod directory;
pub(super) mod inner;
pub(super) mod kept_log;
pub(super) mod open;
pub(super) mod opening;
pub(super) mod pause;
pub(super) mod recover;
mod replay;
