//! Versions: the tables that make up the store, kept as immutable versions in memory and as a chain of edits on disk.
//!
//! In:     a flush, a compaction or a change of families, as an `Edit`.
//! Out:    `Levels`, the version that readers pin; `ManifestState`, the starting point of a reopened store.
//! Holds:  tables of a level >= 1 are disjoint (I05); a file is deleted only when no version names it (I06); an edit is
//!         durable before its files are relied on (I04); after a failed sync nothing more is written until reopen
//!         (I09).
//! Crash:  an edit is present or absent as a whole; `CURRENT` names the old manifest or the new one, both complete.
//!
//! ```text
//! edit      one change of the store, encoded            state     the result of all edits so far
//! manifest  appends edits, rotates                      recover   reads a manifest back
//! current   the file that names the manifest            family    the options of a family, encoded
//! handle    one table, opened on demand                 levels    the version of one family
//! contents  what a directory holds: a store or other files
//! feed      what the change feed keeps              table_meta   a table's description
//! event_log, obsolete_files
//! ```

mod contents;
#[cfg(test)]
mod contents_tests;
#[cfg(test)]
mod crash_tests;
mod current;
pub mod edit;
pub mod event_log;
pub mod family;
pub mod feed;
#[cfg(test)]
mod golden_tests;
pub mod handle;
pub mod levels;
pub mod manifest;
pub mod obsolete_files;
pub mod recover;
pub mod state;
mod table_meta;
#[cfg(test)]
mod tests;

pub(crate) use contents::BACKUP_PREFIX;
pub use contents::{
    Contents, FileOwner, Foreign, Marked, contents, is_a_stores, mark_finished, mark_unfinished, our_files, owner_of,
};
pub use current::store_named;
pub use edit::{Edit, EditChange};
pub use event_log::{EventLine, EventLines};
pub use feed::{
    ChangePosition, FeedCursor, FeedEdit, FeedHistory, FeedMark, FeedState, KeptFile, KeptSegment, MarkedTable,
};
pub use handle::{Holder, LazyTable, OpenTables, TableCache};
pub use levels::{Level, Levels};
pub use manifest::Manifest;
pub use obsolete_files::{ObsoleteList, ObsoleteObject};
pub use recover::{RecoveredManifest, Torn, is_unfinished, recover};
pub use state::{FamilyState, ManifestState, RecordedCut};
pub use table_meta::TableMeta;

/// Levels of a family: 0, whose tables may overlap, to 6, the bottom.
pub const LEVELS: usize = 7;

/// Entry points for fuzzers.
pub mod fuzzing {
    /// Reads `bytes` as a whole manifest file. Arbitrary bytes are decoded or rejected without a panic.
    pub fn manifest(bytes: &[u8]) {
        let _ = super::recover::replay(
            "MANIFEST-000001",
            || Ok(bytes.len() as u64),
            |offset, length| {
                let start = offset as usize;
                Ok(bytes[start..start + length].to_vec())
            },
        );
    }
}
