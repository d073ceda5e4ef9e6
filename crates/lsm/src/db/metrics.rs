//! What the store counts, and how it tells.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Db, Inner};
use crate::compaction::debt;

/// Counters of background work; written by jobs, never by reads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    flushes: AtomicU64,
    flushed_bytes: AtomicU64,
    compactions: AtomicU64,
    moves: AtomicU64,
    compacted_read: AtomicU64,
    compacted_written: AtomicU64,
    stalls: AtomicU64,
    stall_nanos: AtomicU64,
}

impl Counters {
    pub(crate) fn flushed(&self, bytes: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn compacted(&self, read: u64, written: u64) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.compacted_read.fetch_add(read, Ordering::Relaxed);
        self.compacted_written.fetch_add(written, Ordering::Relaxed);
    }

    pub(crate) fn stalled(&self, nanos: u64) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.stall_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// A picture of the store in numbers. `Display` gives it as text. Bytes and nanoseconds; counters start at open.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Each family.
    pub families: Vec<FamilyMetrics>,
    /// The last seqno that reads see.
    pub visible_seqno: u64,
    /// Live snapshots.
    pub snapshots: usize,
    /// Flushes since open.
    pub flushes: u64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Merging compactions since open.
    pub compactions: u64,
    /// Tables moved down without being read.
    pub moves: u64,
    /// Bytes that compactions read.
    pub compacted_read: u64,
    /// Bytes that compactions wrote.
    pub compacted_written: u64,
    /// Times a writer was held back for compaction debt.
    pub stalls: u64,
    /// Time that writers were held back.
    pub stall_nanos: u64,
    /// The log; zeros when read-only.
    pub wal: crate::wal::WalMetrics,
    /// The block cache.
    pub cache: crate::sst::CacheMetrics,
}

/// One family in numbers.
#[derive(Clone, Debug, Default)]
pub struct FamilyMetrics {
    /// Its name.
    pub name: String,
    /// Bytes in the active memtable.
    pub memtable_bytes: u64,
    /// Frozen memtables waiting to be flushed.
    pub frozen: usize,
    /// The levels that hold tables, or would.
    pub levels: Vec<LevelMetrics>,
}

/// One level in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelMetrics {
    /// 0 is the newest.
    pub level: usize,
    /// Table files.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes at which the level is compacted into the next; 0 for level 0, which goes by its number of tables.
    pub target_bytes: u64,
    /// Records, all versions and tombstones.
    pub records: u64,
    /// Tombstones among them.
    pub tombstones: u64,
}

impl Db {
    /// The store in numbers.
    pub fn metrics(&self) -> Metrics {
        self.inner().metrics()
    }
}

impl Inner {
    fn metrics(&self) -> Metrics {
        let families = self.families().by_id.values().map(|family| {
            let view = family.view();
            let targets = debt::targets(&view.levels, family.options());
            let levels = (0..view.levels.depth()).map(|level| {
                let mut metrics = LevelMetrics { level, target_bytes: targets[level], ..LevelMetrics::default() };
                for table in view.levels.level(level) {
                    metrics.tables += 1;
                    metrics.bytes += table.meta().size;
                    metrics.records += table.meta().ledger.count();
                    metrics.tombstones += table.meta().ledger.deletes.count;
                }
                metrics
            });
            FamilyMetrics {
                name: family.name().to_owned(),
                memtable_bytes: view.active.memtable.bytes() as u64,
                frozen: view.frozen.len(),
                levels: levels.collect(),
            }
        });
        let counters = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            families: families.collect(),
            visible_seqno: self.visible(),
            snapshots: self.snapshots.count(),
            flushes: get(&counters.flushes),
            flushed_bytes: get(&counters.flushed_bytes),
            compactions: get(&counters.compactions),
            moves: get(&counters.moves),
            compacted_read: get(&counters.compacted_read),
            compacted_written: get(&counters.compacted_written),
            stalls: get(&counters.stalls),
            stall_nanos: get(&counters.stall_nanos),
            wal: self.log.as_ref().map(|log| log.metrics()).unwrap_or_default(),
            cache: self.cache.metrics(),
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in &self.families {
            writeln!(
                f,
                "family {:?}: memtable {} B, {} frozen",
                family.name, family.memtable_bytes, family.frozen
            )?;
            writeln!(f, "  level  tables         bytes        target       records    tombstones")?;
            for level in family.levels.iter().filter(|level| level.tables > 0) {
                writeln!(
                    f,
                    "  {:>5}  {:>6}  {:>12}  {:>12}  {:>12}  {:>12}",
                    level.level, level.tables, level.bytes, level.target_bytes, level.records, level.tombstones
                )?;
            }
        }
        writeln!(f, "visible seqno {}, snapshots {}", self.visible_seqno, self.snapshots)?;
        writeln!(f, "flushes {} ({} B written)", self.flushes, self.flushed_bytes)?;
        writeln!(
            f,
            "compactions {} ({} B read, {} B written), moves {}",
            self.compactions, self.compacted_read, self.compacted_written, self.moves
        )?;
        writeln!(f, "stalls {} ({} ms)", self.stalls, self.stall_nanos / 1_000_000)?;
        writeln!(f, "log   {}", self.wal)?;
        write!(f, "cache {}", self.cache)
    }
}
