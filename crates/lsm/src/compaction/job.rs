//! The parameters of a pass that writes tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::unsynced::UnsyncedTables;
use super::write_rate::{IoPriority, WriteRate};
use crate::checksum::Uid;
use crate::env::Env;
use crate::ledger::Ledger;
use crate::left_files::LeftFiles;
use crate::options::{CfOptions, Compression};
use crate::record::Seqno;
use crate::seam::Companions;
use crate::sst::Dictionary;
use crate::values::BlobFiles;

/// The parameters of a pass; plain facts, not the store.
pub struct CompactionJob<'a> {
    /// Files and randomness.
    pub env: &'a Env,
    /// The store's directory.
    pub dir: &'a Path,
    /// Knows the files that could not be removed.
    pub left: &'a LeftFiles,
    /// The store that the tables are written for.
    pub store: Option<Uid>,
    /// The record protector.
    pub companions: &'a Arc<dyn Companions>,
    /// The family's id.
    pub family: u32,
    /// The family's settings.
    pub options: Arc<CfOptions>,
    /// Compression of the outputs.
    pub compression: Compression,
    /// Bits per key of the outputs' filters.
    pub filter_bits: usize,
    /// The zstd dictionary of the outputs.
    pub dictionary: Option<Arc<Dictionary>>,
    /// At most the lowest seqno of the inputs.
    pub base_seqno: Seqno,
    /// Returns the numbers of new files.
    pub next_file: &'a (dyn Fn() -> u64 + Sync),
    /// Set when the store closes: the pass stops with `Closed`.
    pub cancelled: &'a AtomicBool,
    /// Ledger of the inputs' own records.
    pub expected: Ledger,
    /// True if the inputs' ledgers have sums for all companions; tables written by a plain node have counts only.
    pub summed: bool,
    /// The value files of the family; `None` keeps values inline.
    pub values: Option<&'a Arc<BlobFiles>>,
    /// The rate limit and this job's priority in it; `None` for no limit.
    pub pace: Option<(&'a WriteRate, IoPriority)>,
    /// Collects finished tables, for a caller that syncs many of them together; `None` syncs each table here.
    pub unsynced: Option<&'a UnsyncedTables>,
}
