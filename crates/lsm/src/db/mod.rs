//! The database: opens a store, commits, reads, and runs background jobs. Decisions are pure functions in other
//! folders.
//!
//! An open store consists of owners. Each owner holds its own state and contains the owner below it, so its methods can
//! only call downwards. Work that concerns one call is a function that takes the lowest owner that it needs.
//!
//! Folders, top first; a folder imports only from folders below its own:
//!
//! ```text
//! api          `Db` and its calls, metrics
//! maintenance  examination, replacement of damaged tables, ingestion, checkpoints
//! open         `StoreInner`: opening, recovery, replay of the log, background threads, closing
//! jobs         `Compactor` and `Flusher`: merges, flushes, families made and dropped, quarantine
//! writes       `WritePath`: commits, stalls, retirement of log segments, the memory budget
//! catalog      `Catalog`: families, manifest, table claims, obsolete files, event log
//! reads        `Reads`: the read path, functions over a pinned view
//! state        `StoreLog` and `StoreContext`: the log's position, families and their views, snapshots, settings
//! notify       `Notifier`: events for the listener, damage reports; signals that wake the background lanes
//! ```
//!
//! Lock order: `jobs_lock` (one flush, drop or checkpoint at a time) -> `apply` (one thread applies frames) ->
//! `manifest` (held during its own I/O) -> the short locks. The lock of obsolete files is also held during I/O, and its
//! holder takes only short locks. Readers take none of these locks (I14).

mod api;
mod catalog;
mod jobs;
mod maintenance;
mod notify;
mod open;
mod reads;
mod state;
mod writes;

pub use crate::compaction::Reason;
pub use crate::error::Remedy;
pub use crate::read::CursorBounds;
pub use crate::wal::Precondition;
pub use api::Db;
pub use api::metrics::{FamilyMetrics, LevelMetrics, Metrics, ValueMetrics, WalMetrics};
pub use api::optimistic::{Condition, End, OptimisticRead};
pub use api::transaction::{ReadSet, Validation};
pub use maintenance::bulk_load::BulkLoad;
pub use maintenance::changes::{Change, ChangeOperation, ChangeReach, ChangedFamily, Changes};
pub use maintenance::erasure::OldestSeqnos;
pub use maintenance::examine::{MemoryRef, TableRef};
pub use maintenance::ingest::{Ingested, Raw};
pub use maintenance::ingest_tables::{IngestMode, IngestedTables};
pub use maintenance::pinned_files::{PinnedFile, PinnedFiles};
pub use maintenance::replace::{HeldTables, Replacement};
pub(crate) use maintenance::store_copy::{begin_copy, finish_copy, in_empty_directory};
pub use maintenance::table_file::{TableFile, TableFileWriter};
pub use notify::events::{Event, Listener, OLD_READER_NANOS, OldReader, Silent};
pub use notify::notifier::IntegrityMetrics;
pub(crate) use open::directory::{StoreLocks, create_directory, take_lock};
pub use open::opening::Parts;
pub use open::pause::BackgroundPause;
pub use open::recover::RecoveryReport;
pub use reads::versions::{RecordLocation, RecordPlace};
pub use state::family::{DEFAULT_FAMILY, Family};
pub use state::snapshot::{At, Snapshot};
pub use state::store_log::facts_of;
pub use writes::memory::MemoryMetrics;
