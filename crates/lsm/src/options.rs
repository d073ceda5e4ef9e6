//! Settings: values that a user may change. Pluggable parts (files, clock, listener, protector) are not settings.

use std::sync::Arc;
use std::time::Duration;

use crate::compaction_filter::CompactionFilter;
use crate::error::{Error, Result};
use crate::format_level::FormatLevel;
use crate::merge_operator::MergeOperator;
use crate::names::MAX_SYSTEM;
use crate::order::Order;
use crate::policy::FilterPolicy;
use crate::prefix_extractor::PrefixExtractor;
use crate::seam::EventRetention;
use crate::table_property::{self, TableProperty};

/// 1,024 bytes.
pub const KIB: usize = 1024;
/// 1,024 KiB.
pub const MIB: usize = 1024 * KIB;

/// Maximum filter bits per key.
const MAX_FILTER_BITS: usize = 32;

/// The protection of a returned commit against later loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Durability {
    /// Lost at the latest when the process dies. Never weaker than that, and currently as strong as `Os`.
    Buffered,
    /// Survives a crash of the process, but may be lost with a crash of the machine. The default, as in comparable
    /// engines.
    #[default]
    Os,
    /// Never lost once the commit has returned.
    Sync,
}

/// How the blocks of a table are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not compressed.
    None,
    /// LZ4 (feature `lz4`, on by default).
    Lz4,
    /// Zstandard at a level from 1 to 19 (feature `zstd`, off by default). Tables of the bottom level may include a
    /// dictionary that was trained from samples of the compaction's inputs. A build without the feature refuses such a
    /// table.
    Zstd(i32),
}

impl Default for Compression {
    fn default() -> Self {
        if cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None }
    }
}

/// Settings of a store. `validate` reports every invalid setting at once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size at which a family's memtable is frozen and flushed, in bytes. A memtable of 8 GiB is frozen whatever this
    /// setting. Larger values mean fewer flushes and a longer recovery. Default 64 MiB.
    pub memtable_bytes: usize,
    /// Size of the cache for blocks and large values, in bytes. Indexes and filters of open tables do not count here
    /// but in `index_bytes`. Default 256 MiB.
    pub cache_bytes: usize,
    /// Maximum number of open table files and blob files. Beyond it the least recently read file is closed; its next
    /// read reopens it. Default 0: half of the process's limit (`RLIMIT_NOFILE`), so that the host keeps the other
    /// half. Cursors, jobs and read-only stores obey the limit too. Blob files being written come on top: at most a
    /// quarter of this number.
    pub open_tables: usize,
    /// Memory for indexes and filters of open tables, in bytes. Beyond it, tables that were not read recently drop
    /// theirs and reload them when needed. Default 1 GiB, enough for about 40 GB of records of 100 bytes. At most half
    /// of `memory_bytes`. A single table that needs more than that is the only one whose index stays in memory.
    pub index_bytes: usize,
    /// One budget, in bytes, for all memory of the store: memtables, the ring, indexes and filters of open tables, job
    /// buffers, and cached blocks. Blocks are evicted as memtables grow. Memtables may take half of what the other
    /// users leave: from a quarter on, the largest memtable and those of idle families are frozen before they are full;
    /// at half, writers wait. Default 0: no budget. Memory held by callers (snapshots, cursors, values) does not count.
    /// However small the budget, memtables get 256 KiB, or one memtable if that is less.
    pub memory_bytes: usize,
    /// Length of one log segment in bytes, a multiple of 4096. Default 16 MiB. If memtables are small, segments are
    /// shorter: half of `memtable_bytes`, but at least 1 MiB, so that the log stays below twice `memtable_bytes`.
    pub segment_bytes: u64,
    /// Length of the tail ring in bytes, a multiple of 4096. Default 4 MiB.
    pub ring_bytes: usize,
    /// Whether the newest log bytes are kept in a memory-mapped ring, if the file system allows it. Default true. If
    /// false, each commit calls `write`.
    pub wal_mapped: bool,
    /// The ring is drained to its segment whenever this many bytes have accumulated. Default 256 KiB.
    pub drain_bytes: usize,
    /// Size at which the manifest is rewritten, in bytes. Lines of the event log and edits of system families do not
    /// count. The manifest file grows to at most eight times this size. Default 4 MiB.
    pub manifest_bytes: u64,
    /// Number of compaction threads, in addition to the log thread and the flush thread. Default 1.
    pub background_threads: usize,
    /// Maximum number of threads for one compaction, 1 to 64. Only large compactions are divided: one thread for each
    /// `table_bytes` of input. Default 2.
    pub subcompactions: usize,
    /// Write rate limit for flushes and compactions together, in bytes per second. Default 0: no limit. If the limit is
    /// below the user's write rate times the write amplification, writers eventually stall.
    pub background_bytes_per_second: u64,
    /// Durability of a commit that does not specify one. Default `Os`.
    pub durability: Durability,
    /// Whether a missing store is created. Default true.
    pub create_if_missing: bool,
    /// Whether a store may be created in a directory that holds other files. Default false. A directory with another
    /// engine's files, or with files whose names a store would use, is always refused.
    pub beside_other_files: bool,
    /// Permission mode of the files that the store creates, less the bits of the process's umask: 0o600 keeps other users
    /// out. A directory that it creates, also for a checkpoint or an export, can be searched by everyone whom the mode
    /// lets read. Existing files keep their mode. The owner must be able to read and write, and only the nine permission
    /// bits may be set. Not stored. Default `None`: everything that the umask leaves.
    pub file_mode: Option<u32>,
    /// The format level of a store that is created: `Db::upgrade` describes the levels. An existing store keeps its own.
    /// Default: the newest.
    pub format_level: u32,
    /// Whether opening an existing store fails. Default false.
    pub error_if_exists: bool,
    /// Whether an open may cut off log bytes that are proved to be missing or damaged. They are set aside and reported.
    /// Default false.
    pub accept_loss: bool,
    /// Bytes of replaced table files that are kept for repairs, newest first. A flush that finds the disk full deletes
    /// them, oldest first. Default 0: replaced files are deleted at once.
    pub trash_bytes: u64,
    /// Number of event log lines in the manifest at which the oldest half become rows. 2 MiB of lines trigger this
    /// earlier. Default 4,096.
    pub chronicle_lines: usize,
    /// Number of engine events that the event log keeps: the newest ones, if they are younger than `engine_event_age`.
    /// An event beyond either bound is removed by a flush that moves lines out of the manifest. An event stays if it
    /// wrote a live table or concerns an open quarantine. User events are not counted and never removed. Default
    /// 10,000; `usize::MAX` keeps all.
    pub engine_events: usize,
    /// Age beyond which engine events are removed, as above. Default 30 days; `Duration::MAX` keeps all.
    pub engine_event_age: Duration,
    /// Bytes of log that are kept for the change feed: at least this many of the newest ones, as far as the store was open
    /// with the option. Default 0: only what cursors and readers of the feed need.
    pub keep_log_bytes: u64,
    /// Age up to which log is kept for the change feed, whatever `keep_log_bytes`. Default 0.
    pub keep_log_age: Duration,
    /// Maximum bytes of log that cursors and readers of the change feed keep. A cursor that needs older log has fallen
    /// behind: reads from it fail. Log that is not flushed yet does not count. Default 16 GiB.
    pub cursor_log_bytes: u64,
    /// Maximum age of log that cursors and readers of the change feed keep. Default `Duration::MAX`.
    pub cursor_log_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            memtable_bytes: 64 * MIB,
            cache_bytes: 256 * MIB,
            open_tables: 0,
            index_bytes: 1024 * MIB,
            memory_bytes: 0,
            segment_bytes: 16 * MIB as u64,
            ring_bytes: 4 * MIB,
            wal_mapped: true,
            drain_bytes: 256 * KIB,
            manifest_bytes: 4 * MIB as u64,
            background_threads: 1,
            subcompactions: 2,
            background_bytes_per_second: 0,
            durability: Durability::Os,
            create_if_missing: true,
            beside_other_files: false,
            file_mode: None,
            format_level: FormatLevel::NEWEST.number(),
            error_if_exists: false,
            accept_loss: false,
            trash_bytes: 0,
            chronicle_lines: 4096,
            engine_events: 10_000,
            engine_event_age: Duration::from_secs(30 * 24 * 3600),
            keep_log_bytes: 0,
            keep_log_age: Duration::ZERO,
            cursor_log_bytes: 16 << 30,
            cursor_log_age: Duration::MAX,
        }
    }
}

impl Settings {
    /// How long engine events are kept.
    pub(crate) fn event_retention(&self) -> EventRetention {
        EventRetention { events: self.engine_events, age: self.engine_event_age }
    }

    /// Returns the length of a log segment: `segment_bytes`, or half of `memtable_bytes` (at least 1 MiB) if that is
    /// less.
    pub(crate) fn log_segment_bytes(&self) -> u64 {
        let half = (self.memtable_bytes as u64 / 2) & !4095;
        self.segment_bytes.min(half.max(MIB as u64))
    }

    /// Reports every invalid setting in one error.
    pub fn validate(&self) -> Result<()> {
        let pages = |bytes: u64, least: u64| bytes.is_multiple_of(4096) && bytes >= least;
        let checks = [
            ((4 * KIB..=MIB * MIB).contains(&self.memtable_bytes), "memtable_bytes must lie between 4 KiB and 1 TiB"),
            (pages(self.segment_bytes, 16 * KIB as u64), "segment_bytes must be a multiple of 4096, at least 16 KiB"),
            (pages(self.ring_bytes as u64, 16 * KIB as u64), "ring_bytes must be a multiple of 4096, at least 16 KiB"),
            (
                (1..=self.ring_bytes / 2).contains(&self.drain_bytes),
                "drain_bytes must be at least 1, and at most half of ring_bytes",
            ),
            ((1..=256).contains(&self.background_threads), "background_threads must lie between 1 and 256"),
            ((1..=64).contains(&self.subcompactions), "subcompactions must lie between 1 and 64"),
            (
                self.file_mode.is_none_or(|mode| mode & 0o600 == 0o600 && mode <= 0o777),
                "file_mode must lie between 0o600 and 0o777, and let the owner read and write",
            ),
            (FormatLevel::new(self.format_level).is_ok(), "format_level must be one of the levels that upgrade knows"),
        ];
        faults(&checks)
    }
}

/// Placement of a block's seals: directly after each record, or all in one uncompressed column. A block has a column
/// only if every record has exactly one seal. Reads accept both; the setting affects new blocks only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealLayout {
    /// In a column if the block is compressed: seals are incompressible, and between records they also worsen the
    /// compression of their neighbors. After their records if the block is not compressed, since a scan then reads one
    /// stream.
    #[default]
    ByCodec,
    /// Always after their records.
    Following,
    /// Always in a column.
    Column,
}

impl SealLayout {
    /// Returns `Column` or `Following`, which do not depend on the codec.
    pub fn always(column: bool) -> SealLayout {
        if column { SealLayout::Column } else { SealLayout::Following }
    }

    /// Returns true if blocks of this compression have a column.
    pub fn is_column(self, compression: Compression) -> bool {
        match self {
            SealLayout::ByCodec => compression != Compression::None,
            SealLayout::Following => false,
            SealLayout::Column => true,
        }
    }
}

/// How many of the records that a read returns are checked against their companions, if the store's protector can.
///
/// At every level, a record that was checked and does not match is never returned, nor is an older version in its
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// No record. Only block CRCs are checked, when a block is loaded.
    Never,
    /// All records of a block, when it is loaded from its file.
    OnFill,
    /// As `OnFill`, plus one in n of the records read; 0 and 1 mean `Always`.
    Sampled(u32),
    /// Every record that is read. If no record is found, its absence is verified.
    Always,
}

/// How one read is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSettings {
    /// The verification level.
    pub verify: Verify,
    /// Whether blocks that it loads stay in the cache. Use false for one-time reads.
    pub fill_cache: bool,
}

impl From<Verify> for ReadSettings {
    fn from(verify: Verify) -> ReadSettings {
        ReadSettings { verify, fill_cache: true }
    }
}

/// Data blocks per partition of a partitioned index and filter: about 2 MiB of blocks of 4 KiB. Such a partition takes
/// 30 KB in the file and 50 KB in memory.
pub(crate) const PART_BLOCKS: usize = 512;

/// Settings of one column family.
#[derive(Clone, Debug)]
pub struct CfOptions {
    /// The order of keys; its name is stored. Default bytewise.
    pub order: Order,
    /// Target size of a data block before compression, in bytes, 64 to 1 MiB. Default 4 KiB.
    pub block_bytes: usize,
    /// Records between restart points of a block, 1 to 255. Default 16.
    pub restart_interval: usize,
    /// Filter bits per key in the deepest level, 0 (no filter) to 32; levels above have more. Default 10: a false
    /// positive rate of about 1 %.
    pub filter_bits: usize,
    /// The prefix of a key that filters know besides the whole key. A scan whose bounds are within one prefix skips the
    /// tables that have no key with it. Each table keeps the rule that it was written under; scans ask the filters of
    /// tables with the current rule. Needs the bytewise order and the engine's own filter. Stored. Default `None`:
    /// scans ask no filter.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// Builds and queries the filters of new tables instead of the engine's own filter. Not stored. Each table stores
    /// its policy's name; a table with another name is read without its filter. Default `None`.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// Compression of all levels except the first two, which are not compressed. Default LZ4.
    pub compression: Compression,
    /// Compression of the bottom level, which holds most of the data and is written least often. Default `None`: as
    /// `compression`.
    pub bottom_compression: Option<Compression>,
    /// Values of at least this size are stored in blob files, where they are written once; tables then hold pointers to
    /// them. 0 disables blob files. Stored. Default 4 KiB; stores of an earlier version have no blob files.
    pub large_value_bytes: usize,
    /// Lifetime of a record that is put without an expiry of its own. Records that arrive with their seal, by ingestion
    /// or from another store, keep their expiry, and so do records written before. At least one microsecond. Stored.
    /// Default `None`: such a record never expires.
    pub default_ttl: Option<Duration>,
    /// The operator that makes a value of a key's merge operands. Its name is stored, and cannot be changed: options with
    /// another operator are refused. Without this option, a stored family has the engine's operator of the stored name.
    /// If no such operator exists, reads of keys with operands fail. A family can be given an operator at any open; older
    /// versions of Waxseal then refuse the store. Default `None`: `merge` is refused.
    pub merge_operator: Option<MergeOperator>,
    /// The filter that compactions apply to values that no snapshot sees. Its name is stored, in place of that of an
    /// earlier filter. Without this option, a stored family has the store's filter (`Parts::filters`) of the stored name.
    /// If there is none, compactions keep all values. Default `None`.
    pub compaction_filter: Option<CompactionFilter>,
    /// Properties that are collected of each table that is written, at most 16. Not stored, and cannot be changed while
    /// the store is open. Default none.
    pub table_properties: Vec<TableProperty>,
    /// Target size of a table, in bytes. Default 64 MiB.
    pub table_bytes: u64,
    /// Maximum size of the first level below level 0 that holds data, in bytes. Default 256 MiB.
    pub level_base_bytes: u64,
    /// Size ratio of each level to the one above. Default 10.
    pub fanout: u64,
    /// Number of tables in level 0 that triggers a compaction. Level 0 is compacted earlier if it holds
    /// `level_base_bytes`. Default 4.
    pub level0_tables: usize,
    /// Verification level of point reads that do not specify one. Not stored. Default `Always`.
    pub verify_reads: Verify,
    /// Verification level of cursors that do not specify one. Not stored. Default `Always`.
    pub verify_scans: Verify,
    /// Placement of a block's seals. Stored. Default `ByCodec`.
    pub seals: SealLayout,
    /// Whether a key may end in a seqno, for keys that record their commit order. If the last eight bytes of a key
    /// begin with FF, they are a placeholder, which the commit replaces with the seqno of an operation of the same
    /// batch. The other seven bytes, big-endian, say how many operations earlier it is; 0 means this operation. Stored,
    /// and cannot be changed. Default false.
    pub key_ends_in_seqno: bool,
    /// Number of a system family, which a layer above reserves for itself. Anyone may read it, but only batches with a
    /// `SystemPass` may write it. Its name begins with `names::SYSTEM` and a dot. System families are created when the
    /// store is opened. Default `None`.
    pub system: Option<u8>,
    /// Data blocks per partition of the index and filter of a large table. For tests, which need small partitions. Not
    /// stored.
    #[doc(hidden)]
    pub part_blocks: usize,
}

impl Default for CfOptions {
    fn default() -> Self {
        CfOptions {
            order: Order::bytewise(),
            block_bytes: 4 * KIB,
            restart_interval: 16,
            filter_bits: 10,
            prefix_extractor: None,
            filter_policy: None,
            compression: Compression::default(),
            bottom_compression: None,
            large_value_bytes: 4 * KIB,
            default_ttl: None,
            merge_operator: None,
            compaction_filter: None,
            table_properties: Vec::new(),
            table_bytes: 64 * MIB as u64,
            level_base_bytes: 256 * MIB as u64,
            fanout: 10,
            level0_tables: 4,
            verify_reads: Verify::Always,
            verify_scans: Verify::Always,
            seals: SealLayout::default(),
            key_ends_in_seqno: false,
            system: None,
            part_blocks: PART_BLOCKS,
        }
    }
}

impl CfOptions {
    /// Returns the filter bits per key of a table with `levels` non-empty levels below its own. The deepest level,
    /// which holds nearly all keys, has `filter_bits`. Each level above gets enough additional bits to divide its false
    /// positive rate by the fanout; this is applied at most twice. A lookup of a missing key probes every level, and
    /// bits are cheapest where keys are few. With the default fanout, all levels together take 5 % more bits than with
    /// the same bits everywhere.
    pub fn filter_bits_above(&self, levels: usize) -> usize {
        let step = ((self.fanout as f64).ln() / std::f64::consts::LN_2.powi(2)).round() as usize;
        match self.filter_bits {
            0 => 0,
            bits => (bits + levels.min(2) * step).min(MAX_FILTER_BITS),
        }
    }

    /// Returns the size from which values go into blob files. `None` if they stay in their records, as in system
    /// families, which are read at any moment and by all parts.
    pub(crate) fn separates_from(&self) -> Option<usize> {
        (self.large_value_bytes > 0 && self.system.is_none()).then_some(self.large_value_bytes)
    }

    /// Returns the feature that these options' compression needs and this build lacks.
    pub fn missing_codec(&self) -> Option<&'static str> {
        let packed = [Some(self.compression), self.bottom_compression];
        packed.into_iter().flatten().find_map(|one| match one {
            Compression::Zstd(_) if !crate::zstd::AVAILABLE => Some("zstd"),
            Compression::Lz4 if !cfg!(feature = "lz4") => Some("lz4"),
            _ => None,
        })
    }

    /// Reports every invalid setting in one error.
    pub fn validate(&self) -> Result<()> {
        let mut packed = [Some(self.compression), self.bottom_compression].into_iter().flatten();
        let is_level = |one| !matches!(one, Compression::Zstd(level) if !(1..=19).contains(&level));
        let missing = self.missing_codec();
        let checks = [
            ((64..=MIB).contains(&self.block_bytes), "block_bytes must lie between 64 and 1 MiB"),
            ((1..=255).contains(&self.restart_interval), "restart_interval must lie between 1 and 255"),
            (self.filter_bits <= MAX_FILTER_BITS, "filter_bits must be at most 32"),
            (
                self.prefix_extractor.is_none_or(|extractor| extractor.is_valid()),
                "prefix_extractor must take 1 to 65535 bytes, or 1 to 255 occurrences of a delimiter",
            ),
            (
                self.prefix_extractor.is_none()
                    || (self.order.is_bytewise() && self.filter_bits > 0 && self.filter_policy.is_none()),
                "prefix_extractor needs the bytewise order, filter_bits of at least 1, and no filter_policy",
            ),
            (
                self.large_value_bytes == 0 || self.large_value_bytes >= 64,
                "large_value_bytes must be 0 (none) or at least 64",
            ),
            (
                self.default_ttl.is_none_or(|ttl| ttl.as_micros() > 0 && u64::try_from(ttl.as_micros()).is_ok()),
                "default_ttl must lie between a microsecond and 2^64 of them",
            ),
            (
                self.merge_operator.as_ref().is_none_or(MergeOperator::has_valid_separator),
                "the separator of the merge operator append must have at most 122 bytes",
            ),
            (
                self.merge_operator.as_ref().is_none_or(MergeOperator::has_valid_name),
                "the name of merge_operator must have 1 to 255 bytes, and must not begin with wax.",
            ),
            (
                self.merge_operator.is_none() || (self.system.is_none() && !self.key_ends_in_seqno),
                "a system family, or one whose keys end in a seqno, has no merge operator",
            ),
            (
                self.compaction_filter.as_ref().is_none_or(CompactionFilter::has_valid_name),
                "the name of compaction_filter must have 1 to 255 bytes",
            ),
            (self.compaction_filter.is_none() || self.system.is_none(), "a system family has no compaction filter"),
            (
                table_property::are_valid(&self.table_properties),
                "table_properties must be at most 16, each with a name of its own of 1 to 255 bytes",
            ),
            (self.table_bytes >= 1024, "table_bytes must be at least 1 KiB"),
            (self.level_base_bytes >= self.table_bytes, "level_base_bytes must be at least table_bytes"),
            ((2..=100).contains(&self.fanout), "fanout must lie between 2 and 100"),
            ((1..=64).contains(&self.level0_tables), "level0_tables must lie between 1 and 64"),
            (self.system.is_none_or(|number| number <= MAX_SYSTEM), "system must be at most 254"),
            (packed.all(is_level), "the level of zstd must lie between 1 and 19"),
            (missing != Some("zstd"), "zstd needs a build with the feature `zstd`"),
            (missing != Some("lz4"), "LZ4 needs a build with the feature `lz4`"),
        ];
        faults(&checks)
    }
}

fn faults(checks: &[(bool, &str)]) -> Result<()> {
    let faults: Vec<&str> = checks.iter().filter(|(holds, _)| !holds).map(|(_, fault)| *fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::invalid(faults.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_above_have_more_filter_bits_and_cost_little() {
        let options = CfOptions::default();
        let bits = [0, 1, 2, 3].map(|levels| options.filter_bits_above(levels));
        assert_eq!(bits, [10, 15, 20, 20]);
        // Each level holds a tenth of the one below.
        let (taken, evenly) = (bits[0] * 100 + bits[1] * 10 + bits[2], 10 * 111);
        assert!(taken * 100 <= evenly * 106, "{taken} of {evenly}");
        assert_eq!(CfOptions { filter_bits: 0, ..CfOptions::default() }.filter_bits_above(3), 0);
        assert_eq!(CfOptions { filter_bits: 30, ..CfOptions::default() }.filter_bits_above(3), 32);
    }
}
