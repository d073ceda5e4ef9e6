//! Value files (blob files): large values, written once, and pointed to by the records of tables. docs/format.md,
//! section 10.
//!
//! ```text
//! take in an unsynced commit: key, value -> entry -> file, before its frame is ordered;
//!         the frame holds the pointer                                                      commit_blobs.rs
//! write   a flush, for values that the log holds itself, or a value-collecting compaction:
//!         key, value -> entry -> file, synced before an edit names a table that points into it
//! replay  frame -> pointer -> the value, or a frame that is not whole                                      logged.rs
//! read    record -> pointer -> the cached value, or pread of the stored bytes
//!         -> checked against V, the hash of the value
//! move    a compaction copies pointers; values only from files being collected (`compaction::blob_gc`)
//! ```
//!
//! Names:  the manifest names a value file only through the tables that point into it. Each table records how many
//!         values and how many bytes of the file it uses. The live part of a file is the sum over these tables, by
//!         construction and after any crash. Garbage is not counted separately, so it cannot be counted twice.
//! Holds:  a file is durable before a table that points into it is named (I04), and is deleted when no version names
//!         such a table (I06): a reader of a pointer holds its table, and each table holds its files. Before a table
//!         exists, the log takes its role: it points to values in a file, which memtables hold.
//! Damage: a value that does not match its record is an error of that record alone. Reads through a record need neither
//!         header, footer nor entry heads; these serve tools that inspect a file by itself.
//! Crash:  leaves a file that no table names; the next open recovers the values that the log points to, and deletes the
//!         file.

mod blob_files;
mod commit_blobs;
mod format;
mod logged;
#[cfg(test)]
mod tests;
mod walk;
mod writer;

use std::sync::Arc;

use crate::checksum::Uid;
use crate::table_property::CollectedSets;

pub use blob_files::{BlobBuffer, BlobFile, BlobFiles, Fetch, ObsoleteBlobs};
pub use commit_blobs::{AddedValue, BlobSetup, CommitBlobs, EndedBlob, UnsyncedBlobs};
pub use logged::{LoggedValues, LostValues};
pub use walk::{BlobEntry, identify, verify, walk};
pub use writer::BlobWriter;

/// A value file's description in the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobMeta {
    /// The number in its file name.
    pub number: u64,
    /// The file's permanent unique id.
    pub uid: Uid,
    /// Length of the file in bytes.
    pub size: u64,
    /// Number of values in the file, including dead ones.
    pub count: u64,
    /// Digest over the checksums of all entries, so that an old copy of the file is detected.
    pub digest: u64,
    /// The items of the properties that the application collected from all its values, including dead ones.
    pub collected: CollectedSets,
}

impl BlobMeta {
    /// Returns the total length of its entries in bytes.
    pub fn entry_bytes(&self) -> u64 {
        self.size.saturating_sub((format::START + format::FOOTER_BYTES) as u64)
    }
}

/// The part of a value file that one table points to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobRef {
    /// The file.
    pub file: Arc<BlobMeta>,
    /// Number of pointers into it.
    pub count: u64,
    /// Total length of the entries they point to, in bytes.
    pub bytes: u64,
}
