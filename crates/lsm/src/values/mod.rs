//! Value files: large values, written once, pointed to from the records of tables. docs/format.md, section 10.
//!
//! ```text
//! take in a commit that is not synced: key, value -> entry -> file, before its frame is ordered; the frame holds the pointer      intake.rs
//! write   a flush, of what the log holds itself, or a compaction that collects: key, value -> entry -> file, synced before an edit
//!         names a table that points into it
//! replay  frame -> pointer -> the value, or a frame that is not whole                                                           logged.rs
//! read    record -> pointer -> the value in memory, or pread of the stored bytes -> checked against V, the hash of the value as it was put
//! move    a compaction copies pointers; values only out of files that are collected (`compaction::collect`)
//! ```
//!
//! Names:  nothing in the manifest says that a value file exists but the tables that point into it, each with how many values and how many
//!         bytes of it are theirs. What is alive in a file is the sum over these tables, by construction and after any crash: nobody counts
//!         garbage, so it cannot be counted twice.
//! Holds:  a file is durable before a table that points into it is named (I04), and dies when no version names such a table (I06):
//!         whoever may read a pointer holds its table, and each table its files.
//! Damage: a value that is not what its record says is an error of that record alone. Header, footer and the heads of entries are needed
//!         by nobody who has a record: they serve whoever looks at the file by itself.
//!         Before there is such a table, the log is: it points to values that are in a file already, which memtables hold.
//! Crash:  a file that no table names; the next open takes what the log points to, and removes it.

mod format;
pub mod fuzzing;
mod intake;
mod logged;
mod shelf;
#[cfg(test)]
mod tests;
mod walk;
mod writer;

use std::sync::Arc;

use crate::checksum::Uid;

pub use intake::{Added, Intake, Making, Unsynced};
pub use logged::{LoggedValues, Losses};
pub use shelf::{DeadValues, Fetch, Room, ValueFile, ValueShelf};
pub use walk::{Entry, identify, walk};
pub use writer::ValueWriter;

/// What the manifest says of a value file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueMeta {
    /// The number in its file name.
    pub number: u64,
    /// The file's own name, for ever.
    pub uid: Uid,
    /// Length of the file in bytes.
    pub size: u64,
    /// Values in it, dead ones too.
    pub count: u64,
    /// Made of the sums of all entries, so that an old copy does not pass.
    pub digest: u64,
}

impl ValueMeta {
    /// Bytes of its entries.
    pub fn entry_bytes(&self) -> u64 {
        self.size.saturating_sub((format::START + format::FOOTER_BYTES) as u64)
    }
}

/// How much of a value file one table points to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueRef {
    /// The file.
    pub file: Arc<ValueMeta>,
    /// Pointers into it.
    pub count: u64,
    /// Bytes of the entries they point to.
    pub bytes: u64,
}
