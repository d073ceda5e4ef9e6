//! Work on a store as a whole, one call each.
//!
//! ```text
//! changes.rs        the change feed: reads the log in commit order; named cursors
//! erasure.rs        how far back files and memtables reach; erases old log
//! examine.rs        shows tables, memtables and log piece by piece, without a change
//! replace.rs        replaces tables by their remaining records; lost ranges
//! bulk_load.rs      sorts rows into tables and adds these to a family in one commit
//! row_buffer.rs     rows of a bulk load in memory, sorted
//! run_writer.rs     writes them in a thread of its own
//! run_merge.rs      reads the runs of a bulk load as one
//! table_file.rs     writes a table file outside of the store
//! ingest_tables.rs  adds such files to families in one commit
//! ingest.rs         writes external records to a family under one seqno
//! ingestion.rs      seqno, flush and edit of both
//! placed_files.rs   files of the store that no edit names yet
//! checkpoint.rs     makes an independent store of the same contents
//! store_copy.rs     makes a store of copied files, for checkpoints and restored backups
//! pinned_files.rs   keeps the files of one commit while they are copied
//! ```

pub(super) mod bulk_load;
pub(super) mod changes;
pub(super) mod checkpoint;
pub(super) mod erasure;
pub(super) mod examine;
pub(super) mod ingest;
pub(super) mod ingest_tables;
mod ingestion;
pub(super) mod pinned_files;
mod placed_files;
pub(super) mod replace;
mod row_buffer;
mod run_merge;
mod run_writer;
pub(super) mod store_copy;
pub(super) mod table_file;
