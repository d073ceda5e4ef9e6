//! Settings (numbers a user may turn). Parts that are plugged in (files, clock, listener, companions) are not settings.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::names::MAX_SYSTEM;
use crate::order::Order;
use crate::policy::FilterPolicy;
use crate::seam::EventRetention;

/// 1,024 bytes.
pub const KIB: usize = 1024;
/// 1,024 KiB.
pub const MIB: usize = 1024 * KIB;

/// Most filter bits per key.
const MAX_FILTER_BITS: usize = 32;

/// When a commit that returned can still be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Durability {
    /// Lost with the process at the latest. Never weaker than that, and today as strong as `Os`.
    Buffered,
    /// Survives the process, may be lost with the machine. The default, as with the peers.
    #[default]
    Os,
    /// Never lost once the commit has returned.
    Sync,
}

/// How the blocks of a table are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Stored as they are.
    None,
    /// LZ4 (feature `lz4`, on by default).
    Lz4,
    /// Zstandard at a level from 1 to 19 (feature `zstd`, off by default). Tables of the bottom level may bring a dictionary along that was
    /// trained from samples of what they were merged from. A build without the feature refuses such a table.
    Zstd(i32),
}

impl Default for Compression {
    fn default() -> Self {
        if cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None }
    }
}

/// In what the newest records stand until they are flushed. Nothing of it is on disk: it may be another one at each open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemtableKind {
    /// A tree of leaves in an arena: a few misses an operation, no allocation a record.
    #[default]
    Arena,
    /// A skip list with a node a record: slower, without unsafe code of ours; what the other one is held against.
    Skiplist,
}

/// Settings of a store. `validate` names every fault at once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size at which a family's memtable is frozen and flushed, in bytes; at 8 GiB it is frozen whatever stands here. Default 64 MiB. Larger: fewer flushes, longer recovery.
    pub memtable_bytes: usize,
    /// What memtables are made of. Default `Arena`.
    pub memtable: MemtableKind,
    /// Blocks and large values kept in memory, in bytes, indexes and filters of open tables (`index_bytes`) not counted. Default 256 MiB.
    pub cache_bytes: usize,
    /// Files of tables and of large values open at the same time. Beyond that number the file that was not read for longest is closed, and
    /// opened again by its next read. Default 0: what leaves the host half of the files that the process may have open (`RLIMIT_NOFILE`).
    /// Cursors, jobs and read-only stores keep to it too. At most a quarter as many files of large values are being written besides.
    pub open_tables: usize,
    /// Memory that indexes and filters of open tables take, in bytes. Beyond it, tables that nobody asked of late drop theirs and read them again. Default 1 GiB,
    /// enough for about 40 GB of records of 100 bytes. No more than half of `memory_bytes`. One table that takes more than that is open alone.
    pub index_bytes: usize,
    /// One budget for everything the store keeps in memory: memtables, the ring, indexes and filters of open tables, the room of
    /// jobs, and blocks, which give way as memtables grow, to half of what the rest leaves: from a quarter of that on the largest memtable is frozen
    /// before it is full, at half writers wait. Default 0: none.
    /// What callers hold (snapshots, cursors, values) is not in it. Memtables are left 256 KiB, or one of them, whatever it is.
    pub memory_bytes: usize,
    /// Length of one log segment in bytes, a multiple of 4096. Default 16 MiB. Segments are shorter where memtables are small: half of
    /// `memtable_bytes`, but no less than 1 MiB, so that the log stays below twice `memtable_bytes`.
    pub segment_bytes: u64,
    /// Length of the tail ring in bytes, a multiple of 4096. Default 4 MiB.
    pub ring_bytes: usize,
    /// Whether the newest log bytes live in a mapped ring where the file system allows it. Default true; false makes each commit `write`.
    pub wal_mapped: bool,
    /// The ring is drained to its segment each time this many bytes have gathered. Default 256 KiB.
    pub drain_bytes: usize,
    /// Size at which the manifest is written anew, in bytes, lines of the chronicle and edits of the store's own families not counted. It is at most
    /// eight times as long. Default 4 MiB.
    pub manifest_bytes: u64,
    /// Threads that compact, next to the one that keeps the log and the one that flushes. Default 1.
    pub background_threads: usize,
    /// Threads that one compaction may be divided among, 1 to 64: large ones only, one for each `table_bytes` of their inputs.
    /// Default 2.
    pub subcompactions: usize,
    /// Bytes that flushes and compactions together may write in a second. Default 0: as many as they can. Less than what is written
    /// to the store, times its write amplification, ends in writers that wait.
    pub background_bytes_per_second: u64,
    /// Durability of a commit that does not say. Default `Os`.
    pub durability: Durability,
    /// Whether a missing store is created. Default true.
    pub create_if_missing: bool,
    /// Whether a store may be created in a directory that holds other files. Default false. A directory with files of another engine, or with files
    /// whose names a store would use, is refused either way.
    pub beside_other_files: bool,
    /// Whether a store that is there already is refused. Default false.
    pub error_if_exists: bool,
    /// Whether an open may cut away log bytes that are proved to be missing or damaged; they are set aside and reported. Default false.
    pub accept_loss: bool,
    /// Bytes of replaced table files that are kept, the newest, for a repair to look into; a flush that finds the
    /// disk full has them back, oldest first. Default 0: they are removed at once.
    pub trash_bytes: u64,
    /// Lines of the chronicle that the manifest holds before the oldest half become rows, if 2 MiB of them are not there before. Default 4,096.
    pub chronicle_lines: usize,
    /// Events of the engine's own work that the log keeps: the newest so many, if they are younger than `engine_event_age`. An event that is
    /// beyond either bound goes, with a flush that takes lines out of the manifest; one that wrote a table of the store, or tells of an open
    /// quarantine, stays. Events of users are not counted and never go. Default 10,000; `usize::MAX`: all.
    pub engine_events: usize,
    /// Age beyond which events of the engine's own work go, as above. Default 30 days; `Duration::MAX`: none.
    pub engine_event_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            memtable_bytes: 64 * MIB,
            memtable: MemtableKind::default(),
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
            error_if_exists: false,
            accept_loss: false,
            trash_bytes: 0,
            chronicle_lines: 4096,
            engine_events: 10_000,
            engine_event_age: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

impl Settings {
    /// How long events of the engine's own work are kept.
    pub(crate) fn event_retention(&self) -> EventRetention {
        EventRetention { events: self.engine_events, age: self.engine_event_age }
    }

    /// Length of a log segment: `segment_bytes`, or less where two memtables are shorter than four segments.
    pub(crate) fn log_segment_bytes(&self) -> u64 {
        let half = (self.memtable_bytes as u64 / 2) & !4095;
        self.segment_bytes.min(half.max(MIB as u64))
    }

    /// Every setting that cannot work, in one error.
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
        ];
        faults(&checks)
    }
}

/// Where the seals of a block stand: each right behind its record, or all of them as one column outside of the codec. A block in which
/// not every record has just one seal has no column. Reads find either; only what is written from now on changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealLayout {
    /// In a column where a codec packs the block: seals cannot be packed, and between records they take more than their own bytes.
    /// Behind their records where none does, since a scan then walks one stream.
    #[default]
    ByCodec,
    /// Always behind their records.
    Following,
    /// Always in a column.
    Column,
}

impl SealLayout {
    /// Always in a column, or always behind their records, whatever the codec.
    pub fn always(column: bool) -> SealLayout {
        if column { SealLayout::Column } else { SealLayout::Following }
    }

    /// True if blocks packed so have a column.
    pub fn is_column(self, compression: Compression) -> bool {
        match self {
            SealLayout::ByCodec => compression != Compression::None,
            SealLayout::Following => false,
            SealLayout::Column => true,
        }
    }
}

/// How much of what a read gives out is checked against its companion, in a store whose keeper can.
///
/// Whatever is asked for, a record that was checked and does not match is never given out, nor an older version in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Nothing, besides the sums of blocks when they are loaded.
    Never,
    /// All records of a block when it is loaded from its file.
    OnFill,
    /// As `OnFill`, and one record in so many of those read; 0 and 1 are as `Always`.
    Sampled(u32),
    /// Every record that is read, and that there is none where none is found.
    Always,
}

/// How one read is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it checks.
    pub verify: Verify,
    /// Whether blocks that it loads stay in the cache. False is for reads that come by once.
    pub fill_cache: bool,
}

impl From<Verify> for Reading {
    fn from(verify: Verify) -> Reading {
        Reading { verify, fill_cache: true }
    }
}

/// Data blocks of one range of a cut index and filter: about 2 MiB of blocks of 4 KiB, whose parts take 30 KB in the file and 50 in memory.
pub(crate) const PART_BLOCKS: usize = 512;

/// Settings of one column family.
#[derive(Clone, Debug)]
pub struct CfOptions {
    /// The order of keys; its name is kept in the store. Default bytewise.
    pub order: Order,
    /// Target size of a data block before compression, in bytes, 64 to 1 MiB. Default 4 KiB.
    pub block_bytes: usize,
    /// Records between restart points of a block, 1 to 255. Default 16.
    pub restart_interval: usize,
    /// Filter bits per key in the deepest level, 0 (no filter) to 32; levels above have more. Default 10: about one false positive in a
    /// hundred.
    pub filter_bits: usize,
    /// Makes and asks the filters of new tables in the place of the engine's own. Not kept in the store; its name is kept in each
    /// table, and a table whose name is another is read without. Default none.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// Compression of all levels but the first two, which stay uncompressed. Default LZ4.
    pub compression: Compression,
    /// Compression of the bottom level, where most of the data stands and least of it is written. Default none: as `compression`.
    pub bottom_compression: Option<Compression>,
    /// Values of at least so many bytes stand in files of their own, where they are written once; tables then hold pointers to them.
    /// 0: none does. Kept in the store. Default 4 KiB; stores of an earlier version keep none.
    pub large_value_bytes: usize,
    /// How long a record of the family lives that is put without an expiry of its own. Records that come with their seal, by ingestion or from
    /// another store keep what they came with, and so does what was written before. At least a microsecond. Kept in the store. Default
    /// none: such a record never expires.
    pub default_ttl: Option<Duration>,
    /// Target size of a table, in bytes. Default 64 MiB.
    pub table_bytes: u64,
    /// Most that the first level below level 0 that holds data is to hold, in bytes. Default 256 MiB.
    pub level_base_bytes: u64,
    /// How much larger each level is than the one above. Default 10.
    pub fanout: u64,
    /// Tables in level 0 at which they are compacted, if they do not hold `level_base_bytes` before. Default 4.
    pub level0_tables: usize,
    /// What point reads check, unless they say otherwise. Not kept in the store. Default `Always`.
    pub verify_reads: Verify,
    /// What cursors check, unless they say otherwise. Not kept in the store. Default `Always`.
    pub verify_scans: Verify,
    /// Where the seals of a block stand. Kept in the store. Default `ByCodec`.
    pub seals: SealLayout,
    /// A key whose last eight bytes begin with FF gets the seqno there, when it is known, of the operation of its batch that stands
    /// so many before it as the other seven say, highest byte first (none: its own). For keys that say when they came. Kept in the
    /// store; it cannot be changed. Default false.
    pub key_ends_in_seqno: bool,
    /// The number of a family that a layer above keeps for itself: anybody may read it, only batches with a `SystemPass` write it.
    /// The name begins with `names::SYSTEM` and a dot. Such families are made when the store is opened. Default none.
    pub system: Option<u8>,
    /// Blocks of one range of the index and filter of a large table: for tests, which want small ones. Not kept in the store.
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
            filter_policy: None,
            compression: Compression::default(),
            bottom_compression: None,
            large_value_bytes: 4 * KIB,
            default_ttl: None,
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
    /// Filter bits per key of a table with so many levels below its own that hold tables. The deepest level, which holds nearly all
    /// keys, has `filter_bits`; each above it as many more as make its false positives rarer by the fanout, twice at most: a
    /// missing key asks every level, and bits cost least where keys are few. With the default fanout all levels together take a
    /// twentieth more than with the same bits everywhere.
    pub fn filter_bits_above(&self, levels: usize) -> usize {
        let step = ((self.fanout as f64).ln() / std::f64::consts::LN_2.powi(2)).round() as usize;
        match self.filter_bits {
            0 => 0,
            bits => (bits + levels.min(2) * step).min(MAX_FILTER_BITS),
        }
    }

    /// Values of so many bytes go into value files; none: they stay in their records, as in the system's families, which are read by everybody
    /// at any moment.
    pub(crate) fn separates_from(&self) -> Option<usize> {
        (self.large_value_bytes > 0 && self.system.is_none()).then_some(self.large_value_bytes)
    }

    /// The feature without which this build was made, and which packing as these options say needs.
    pub fn missing_codec(&self) -> Option<&'static str> {
        let packed = [Some(self.compression), self.bottom_compression];
        packed.into_iter().flatten().find_map(|one| match one {
            Compression::Zstd(_) if !cfg!(feature = "zstd") => Some("zstd"),
            Compression::Lz4 if !cfg!(feature = "lz4") => Some("lz4"),
            _ => None,
        })
    }

    /// Every setting that cannot work, in one error.
    pub fn validate(&self) -> Result<()> {
        let mut packed = [Some(self.compression), self.bottom_compression].into_iter().flatten();
        let is_level = |one| !matches!(one, Compression::Zstd(level) if !(1..=19).contains(&level));
        let missing = self.missing_codec();
        let checks = [
            ((64..=MIB).contains(&self.block_bytes), "block_bytes must lie between 64 and 1 MiB"),
            ((1..=255).contains(&self.restart_interval), "restart_interval must lie between 1 and 255"),
            (self.filter_bits <= MAX_FILTER_BITS, "filter_bits must be at most 32"),
            (
                self.large_value_bytes == 0 || self.large_value_bytes >= 64,
                "large_value_bytes must be 0 (none) or at least 64",
            ),
            (
                self.default_ttl.is_none_or(|ttl| ttl.as_micros() > 0 && u64::try_from(ttl.as_micros()).is_ok()),
                "default_ttl must lie between a microsecond and 2^64 of them",
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
        // A level is a tenth of the one below.
        let (taken, evenly) = (bits[0] * 100 + bits[1] * 10 + bits[2], 10 * 111);
        assert!(taken * 100 <= evenly * 106, "{taken} of {evenly}");
        assert_eq!(CfOptions { filter_bits: 0, ..CfOptions::default() }.filter_bits_above(3), 0);
        assert_eq!(CfOptions { filter_bits: 30, ..CfOptions::default() }.filter_bits_above(3), 32);
    }
}
