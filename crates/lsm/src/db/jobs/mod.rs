//! The work of the background lanes: flushes, compactions, and other edits that make or drop tables.
//!
//! ```text
//! compact.rs      `Compactor`: merges and drops tables
//! compact_chosen.rs compactions of tables that a caller has chosen
//! newer_versions.rs looks for newer versions of a key above the inputs of a compaction
//! pick_cache.rs   the next compaction of each family whose tables have not changed
//! expire.rs       drops expired tables by an edit alone
//! range_deletes.rs retires range deletes that no table needs
//! prepopulate.rs  reads the outputs of a compaction into the cache
//! quarantine.rs   keeps damaged tables out of compactions
//! log_lane.rs     drains the ring, prepares and seals segments, shortens the log
//! ddl.rs          creates and drops families
//! flush.rs        memtables -> level-0 tables; redo.rs: repeats a flush from the log
//! rows.rs         rows that a flush writes for other families
//! level0.rs       parameters of the passes that write to level 0
//! job_lock.rs     `Flusher`: one job at a time
//! ```

pub(super) mod compact;
pub(super) mod compact_chosen;
pub(super) mod ddl;
pub(super) mod expire;
pub(super) mod flush;
pub(super) mod job_lock;
pub(super) mod level0;
mod log_lane;
mod newer_versions;
mod pick_cache;
mod prepopulate;
pub(super) mod quarantine;
pub(super) mod range_deletes;
pub(super) mod redo;
pub(super) mod rows;
