//! The engine of Waxseal: a log-structured merge tree of records and opaque companions.
//!
//! The engine knows nothing of seals: it stores records with the companion bytes that follow each of them, and calls
//! the [`seam`] where a layer above may act. Layers, top first; a module may import only from layers below its own
//! (`cargo xtask tidy` enforces this):
//!
//! ```text
//! backup                                      copies of several states of a store in one directory
//! db                                          open, commit, read, background work
//! read, compaction                            one job each
//! version, merge                              pictures of the levels; many cursors as one
//! values                                      where large values live
//! wal, memtable, sst                          the three places where a record lives
//! batch, frame, record, pointer, order, cursor, codec, checksum, header, identity, names, format_level, options, option_list, policy, prefetch, prefix_extractor, sampler, error, seam, expiry, lost_range, deleted_runs, range_delete, range_index, seqno_list, sorted_heads, merge_operator, compaction_filter, table_property, ledger, left_files, descriptors, interrupt, key_text, zstd, planted, inject
//! env                                         files, time, randomness, threads
//! ```
//!
//! Data flows and the invariants I01 to I16 are described in ARCHITECTURE.md, and every byte on disk in docs/format.md.

pub mod backup;
pub mod batch;
pub mod checksum;
pub mod codec;
pub mod compaction;
pub mod compaction_filter;
pub mod cursor;
pub mod db;
mod deleted_runs;
pub mod descriptors;
pub mod env;
pub mod error;
pub mod expiry;
pub mod format_level;
pub mod frame;
pub mod header;
pub mod identity;
#[doc(hidden)]
pub mod inject;
pub mod interrupt;
pub mod key_text;
pub mod ledger;
pub mod left_files;
pub mod lost_range;
pub mod memtable;
pub mod merge;
pub mod merge_operator;
pub mod names;
pub mod option_list;
pub mod options;
pub mod order;
pub mod planted;
pub mod pointer;
pub mod policy;
mod prefetch;
pub mod prefix_extractor;
pub mod range_delete;
pub mod range_index;
pub mod read;
pub mod record;
mod sampler;
pub mod seam;
mod seqno_list;
mod sorted_heads;
pub mod sst;
pub mod table_property;
pub mod values;
pub mod version;
pub mod wal;
#[cfg(any(feature = "zstd", test))]
mod zstd;
#[cfg(not(any(feature = "zstd", test)))]
#[path = "zstd_absent.rs"]
mod zstd;
