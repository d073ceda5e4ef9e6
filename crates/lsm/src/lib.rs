//! The engine of Waxseal: a log-structured merge tree of records and opaque companions.
//!
//! It has never heard of a seal: it stores records, keeps the companion bytes that follow each of them, and calls the
//! [`seam`] where somebody above may care. Floors, top first; a module imports only from floors below its own
//! (`cargo xtask test` holds it to that):
//!
//! ```text
//! db                                          open, commit, read, background work
//! read, flush, compaction, checkpoint         one job each
//! version, merge                              pictures of the levels; many cursors as one
//! values                                      where large values live
//! wal, memtable, sst                          the three places where a record lives
//! batch, frame, record, pointer, order, cursor, codec, checksum, header, names, options, policy, prefetch, turn, error, seam, expiry, fence, ledger, descriptors, interrupt, key_text, planted, inject, scripts
//! env                                         files, time, randomness, threads
//! ```
//!
//! The paths through them, and the invariants I01 to I16, are in ARCHITECTURE.md; every byte on disk in docs/format.md.

pub mod batch;
pub mod checksum;
pub mod codec;
pub mod compaction;
pub mod cursor;
pub mod db;
pub mod descriptors;
pub mod env;
pub mod error;
pub mod expiry;
pub mod fence;
pub mod frame;
pub mod header;
#[doc(hidden)]
pub mod inject;
pub mod interrupt;
pub mod key_text;
pub mod ledger;
pub mod memtable;
pub mod merge;
pub mod names;
pub mod options;
pub mod order;
pub mod planted;
pub mod pointer;
pub mod policy;
mod prefetch;
pub mod read;
pub mod record;
#[cfg(test)]
mod scripts;
pub mod seam;
pub mod sst;
mod turn;
pub mod values;
pub mod version;
pub mod wal;
