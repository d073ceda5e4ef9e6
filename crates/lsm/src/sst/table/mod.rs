//! An open table: its metadata, point reads, cursors and the stream for jobs; and the writer.

pub(super) mod bad_blocks;
pub(super) mod cursor;
pub(super) mod cursor_blocks;
pub(super) mod dictionary_training;
pub(super) mod footer;
pub(super) mod ingested;
pub(super) mod partial_cursor;
pub(super) mod partitions;
pub(super) mod prefetch;
pub(super) mod prefix;
pub(super) mod prepopulate;
pub(super) mod properties;
pub(super) mod run;
pub(super) mod stream;
pub(super) mod table;
pub(super) mod tail;
pub(super) mod uncached_read;
pub(super) mod verify_read;
pub(super) mod verify_scan;
pub(super) mod watch;
pub(super) mod writer;
