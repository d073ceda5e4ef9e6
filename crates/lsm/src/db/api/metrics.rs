//! The store's counters and their textual form.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::Body;
use crate::compaction::blob_gc;
use crate::compaction::packing::level_shape;
use crate::compaction::pick::LevelSummary;
use crate::db::notify::notifier::IntegrityMetrics;
use crate::db::state::family::Family;
use crate::db::writes::log_retirement::LogBound;
use crate::db::writes::memory::MemoryMetrics;
use crate::db::writes::write_path::WritePath;
use crate::version::{KeptSegment, LEVELS};
use crate::wal::Wal;

/// A point-in-time report of the store's counters. `Display` formats it as text. Sizes are in bytes and durations in
/// nanoseconds; counters start at open.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// One entry for each family.
    pub families: Vec<FamilyMetrics>,
    /// The last seqno that reads see.
    pub visible_seqno: u64,
    /// Number of live snapshots.
    pub snapshots: usize,
    /// Age of the oldest live snapshot; 0 without one.
    pub oldest_snapshot_nanos: u64,
    /// Time since the memtables or tables that the oldest cursor reads were replaced; 0 if every cursor reads the current
    /// ones, and so keeps nothing alive. Snapshots of a read-only store count here too.
    pub oldest_cursor_nanos: u64,
    /// Pauses of background work in force.
    pub background_pauses: usize,
    /// Flushes since open.
    pub flushes: u64,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Merging compactions since open.
    pub compactions: u64,
    /// Tables moved down without being read.
    pub moves: u64,
    /// Bytes read by compactions.
    pub compacted_read: u64,
    /// Bytes written by compactions.
    pub compacted_written: u64,
    /// Subcompactions that ran in addition to the first one of their compaction.
    pub subcompactions: u64,
    /// Time that flushes and compactions waited for the I/O rate limit.
    pub paced_nanos: u64,
    /// Write stalls caused by slow flushes, slow compactions or a shortage of memory.
    pub stalls: u64,
    /// Total time of write stalls.
    pub stall_nanos: u64,
    /// Longest single write stall.
    pub longest_stall_nanos: u64,
    /// Rewrites of the manifest since open.
    pub manifest_rotations: u64,
    /// Merge operands that flushes and compactions folded into one another or into values since open.
    pub operands_folded: u64,
    /// Failures of merge operators in flushes and compactions since open. The operands stay.
    pub merge_failures: u64,
    /// Damaged companions that flushes and compactions restored to their original bytes since open.
    pub mended: u64,
    /// Records without a companion that flushes and compactions gave one.
    pub adopted: u64,
    /// Values that compactions moved out of blob files under garbage collection.
    pub values_moved: u64,
    /// Values that compactions could not move, because they are unreadable.
    pub values_unreadable: u64,
    /// Tables that scans within one prefix skipped since open, because the table's filter has no key with the prefix. A
    /// cursor counts a table each time that it opens it: `CfOptions::prefix_extractor`.
    pub prefix_skips: u64,
    /// Values that compaction filters dropped since open.
    pub filter_dropped: u64,
    /// Values that compaction filters changed since open.
    pub filter_changed: u64,
    /// Calls of compaction filters that failed or panicked since open. Their values stay.
    pub filter_failures: u64,
    /// Values that compaction filters did not see because their blob files could not be read. They stay.
    pub filter_unreadable: u64,
    /// Expired records that compactions dropped since open.
    pub expired: u64,
    /// Tables dropped without reading them, because all of their records had expired or were hidden by range deletes.
    pub dropped_tables: u64,
    /// Bytes of these tables, including the blob file entries that they pointed to.
    pub dropped_bytes: u64,
    /// Bytes of the files that running backups and checkpoints still keep from deletion.
    pub pinned_bytes: u64,
    /// Bytes of log that are kept for the change feed. The live log does not count.
    pub kept_log_bytes: u64,
    /// Blob files and ingested tables that are recorded as needed by the change feed; other parts of the store may need
    /// them too.
    pub kept_files: usize,
    /// Cursors of the change feed.
    pub change_cursors: usize,
    /// Nanoseconds since the cursor of the change feed that was not moved for the longest time was moved; 0 without one.
    pub oldest_change_cursor_nanos: u64,
    /// Tables whose indexes and filters are in memory.
    pub open_tables: usize,
    /// Open table and blob files (bounded by `Settings::open_tables`).
    pub open_files: usize,
    /// Bytes of the open tables' indexes and filters.
    pub index_bytes: u64,
    /// The log; all zeros when the store is read-only.
    pub wal: WalMetrics,
    /// Memory use.
    pub memory: MemoryMetrics,
    /// The block cache.
    pub cache: crate::sst::CacheMetrics,
    /// Damage that reads encountered.
    pub integrity: IntegrityMetrics,
}

impl Metrics {
    /// Returns the bytes written by flushes and compactions per byte flushed, since open; 0 before the first flush. The
    /// log writes every byte once more and is counted in `wal`.
    pub fn write_amplification(&self) -> f64 {
        match self.flushed_bytes {
            0 => 0.0,
            flushed => (flushed + self.compacted_written) as f64 / flushed as f64,
        }
    }
}

/// Metrics of one family.
#[derive(Clone, Debug, Default)]
pub struct FamilyMetrics {
    /// Name of the family.
    pub name: String,
    /// Bytes in the active memtable.
    pub memtable_bytes: u64,
    /// Frozen memtables waiting to be flushed.
    pub frozen: usize,
    /// All levels, including empty ones.
    pub levels: Vec<LevelMetrics>,
    /// The family's blob files.
    pub values: ValueMetrics,
}

/// Metrics of the blob files that a family's newest version references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueMetrics {
    /// Number of files.
    pub files: usize,
    /// Bytes of the files.
    pub bytes: u64,
    /// Values that a record points to.
    pub values: u64,
    /// Bytes of entries that no record points to.
    pub garbage: u64,
}

/// Metrics of one level.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelMetrics {
    /// Level number; 0 is the newest.
    pub level: usize,
    /// Number of table files.
    pub tables: usize,
    /// Bytes of the table files.
    pub bytes: u64,
    /// Size at which the level is compacted into the next; 0 for level 0, whose trigger is the number of tables.
    pub target_bytes: u64,
    /// Records, counting all versions and tombstones.
    pub records: u64,
    /// Tombstones among the records.
    pub tombstones: u64,
}

/// Metrics of the log since open.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalMetrics {
    /// True if commits go through the mapped ring.
    pub mapped: bool,
    /// Frames written, without padding.
    pub frames: u64,
    /// Bytes of these frames.
    pub frame_bytes: u64,
    /// Bytes of padding and turnover frames.
    pub filler_bytes: u64,
    /// Frames written directly to a segment, past the ring.
    pub large_frames: u64,
    /// Drains of the ring.
    pub drains: u64,
    /// Groups of synced commits.
    pub groups: u64,
    /// fdatasync calls on segments.
    pub syncs: u64,
    /// Segments begun.
    pub turnovers: u64,
    /// Segments recycled.
    pub recycled: u64,
    /// Commits that waited for room in the ring.
    pub waits_for_room: u64,
    /// Commits that waited for a segment.
    pub waits_for_segment: u64,
    /// Longest single wait of a commit for room, for a segment or for earlier commits; syncs are excluded.
    pub longest_wait_nanos: u64,
    /// Bytes of log that a recovery would read now.
    pub live_bytes: u64,
    /// Bytes of log from the oldest record that no table holds to the end of the log.
    pub needed_bytes: u64,
    /// Bound of `needed_bytes`, at which writers wait for a flush. `live_bytes` may exceed it by a segment.
    pub limit_bytes: u64,
    /// Memtables frozen before they were full, because they kept the log from being retired.
    pub early_freezes: u64,
}

impl WalMetrics {
    fn of(wal: &Wal<Body>) -> WalMetrics {
        let counters = wal.metrics();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WalMetrics {
            mapped: wal.is_mapped(),
            frames: get(&counters.frames),
            frame_bytes: get(&counters.frame_bytes),
            filler_bytes: get(&counters.filler_bytes),
            large_frames: get(&counters.large_frames),
            drains: get(&counters.drains),
            groups: get(&counters.groups),
            syncs: get(&counters.syncs),
            turnovers: get(&counters.turnovers),
            recycled: get(&counters.segments_recycled),
            waits_for_room: get(&counters.waits_for_room),
            waits_for_segment: get(&counters.waits_for_segment),
            longest_wait_nanos: get(&counters.longest_wait_nanos),
            live_bytes: wal.live_bytes(),
            ..WalMetrics::default()
        }
    }
}

/// The numbers of a family. Costs a look at each of its tables.
pub(in crate::db) fn of_family(family: &Family) -> FamilyMetrics {
    let view = family.view();
    let targets = LevelSummary::new(&view.levels, level_shape(&family.options()), &[], None, |_| false).targets();
    let levels = (0..LEVELS).map(|level| {
        let mut metrics = LevelMetrics { level, target_bytes: targets.bytes[level], ..LevelMetrics::default() };
        for table in view.levels.level(level).tables() {
            metrics.tables += 1;
            metrics.bytes += table.meta().size;
            metrics.records += table.meta().ledger.count();
            metrics.tombstones += table.meta().ledger.deletes.count;
        }
        metrics
    });
    let tables = view.levels.iter().flat_map(|level| level.tables()).map(|table| &**table.meta());
    let mut values = ValueMetrics::default();
    for living in blob_gc::living(tables).values() {
        values.files += 1;
        values.bytes += living.file.size;
        values.values += living.count;
        values.garbage += living.garbage();
    }
    FamilyMetrics {
        name: family.name().to_owned(),
        memtable_bytes: view.active.memtable.bytes() as u64,
        frozen: view.frozen.len(),
        levels: levels.collect(),
        values,
    }
}

fn wal_metrics(write_path: &WritePath, wal: &Wal<Body>) -> WalMetrics {
    WalMetrics {
        needed_bytes: write_path.needed_log_bytes(),
        limit_bytes: LogBound::of(&write_path.context().settings.current()).limit(),
        early_freezes: write_path.context().counters.log_freezes.load(Ordering::Relaxed),
        ..WalMetrics::of(wal)
    }
}

/// Returns the metrics of a store.
pub(in crate::db) fn metrics(write_path: &WritePath) -> Metrics {
    let all = write_path.catalog().families();
    let families = all.by_id.values().map(of_family);
    let (now, oldest) = (write_path.catalog().reads.expiry_clock().now(), write_path.catalog().snapshots.oldest());
    let (counters, open_tables) = (&write_path.context().counters, write_path.catalog().open_tables.now());
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (feed, wall) = (write_path.catalog().feed.view().state.clone(), write_path.context().env.clock.wall_micros());
    let oldest_cursor = feed.cursors.values().map(|cursor| cursor.moved_micros).min();
    Metrics {
        families: families.collect(),
        visible_seqno: write_path.store_log().visible(),
        snapshots: write_path.catalog().snapshots.count(),
        oldest_snapshot_nanos: oldest.map_or(0, |oldest| now.saturating_sub(oldest).saturating_mul(1000)),
        oldest_cursor_nanos: all.by_id.values().map(Family::oldest_reader_nanos).max().unwrap_or(0),
        background_pauses: write_path.lanes().pauses(),
        flushes: get(&counters.flushes),
        flushed_bytes: get(&counters.flushed_bytes),
        compactions: get(&counters.compactions),
        moves: get(&counters.moves),
        compacted_read: get(&counters.compacted_read),
        compacted_written: get(&counters.compacted_written),
        subcompactions: get(&counters.parts),
        paced_nanos: write_path.context().pace.waited_nanos(),
        stalls: get(&counters.stalls),
        stall_nanos: get(&counters.stall_nanos),
        longest_stall_nanos: get(&counters.longest_stall_nanos),
        manifest_rotations: get(&counters.rotations),
        operands_folded: get(&counters.operands_folded),
        merge_failures: get(&counters.merge_failures),
        mended: get(&counters.mended),
        adopted: get(&counters.adopted),
        values_moved: get(&counters.values_moved),
        values_unreadable: get(&counters.values_unreadable),
        prefix_skips: write_path.catalog().reads.prefix_skips(),
        filter_dropped: get(&counters.filter_dropped),
        filter_changed: get(&counters.filter_changed),
        filter_failures: get(&counters.filter_failures),
        filter_unreadable: get(&counters.filter_unreadable),
        expired: get(&counters.expired),
        dropped_tables: get(&counters.dropped_tables),
        dropped_bytes: get(&counters.dropped_bytes),
        pinned_bytes: get(&counters.pinned_bytes),
        kept_log_bytes: feed.segments.values().map(KeptSegment::bytes).sum(),
        kept_files: feed.files.len(),
        change_cursors: feed.cursors.len(),
        oldest_change_cursor_nanos: oldest_cursor.map_or(0, |moved| wall.saturating_sub(moved).saturating_mul(1000)),
        open_tables: open_tables.0,
        open_files: write_path.catalog().open_tables.files().count(),
        index_bytes: open_tables.1 as u64,
        wal: write_path.store_log().log().map(|log| wal_metrics(write_path, log.wal())).unwrap_or_default(),
        memory: write_path.memory.metrics(write_path.catalog()),
        cache: write_path.context().cache.metrics(),
        integrity: write_path.notifier().integrity_metrics(),
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in &self.families {
            writeln!(f, "family {:?}: memtable {} B, {} frozen", family.name, family.memtable_bytes, family.frozen)?;
            writeln!(f, "  level  tables         bytes        target       records    tombstones")?;
            for level in family.levels.iter().filter(|level| level.tables > 0) {
                writeln!(
                    f,
                    "  {:>5}  {:>6}  {:>12}  {:>12}  {:>12}  {:>12}",
                    level.level, level.tables, level.bytes, level.target_bytes, level.records, level.tombstones
                )?;
            }
        }
        let held = self.families.iter().filter(|family| family.values.files > 0);
        for FamilyMetrics { name, values, .. } in held {
            writeln!(
                f,
                "values of {name:?}: {} in {} files of {} B, {} B garbage",
                values.values, values.files, values.bytes, values.garbage
            )?;
        }
        if self.values_moved + self.values_unreadable > 0 {
            writeln!(f, "values moved {}, not readable {}", self.values_moved, self.values_unreadable)?;
        }
        if self.operands_folded + self.merge_failures > 0 {
            writeln!(f, "merge operands folded {}, failures {}", self.operands_folded, self.merge_failures)?;
        }
        let [dropped, changed] = [self.filter_dropped, self.filter_changed];
        let [failures, unreadable] = [self.filter_failures, self.filter_unreadable];
        if dropped + changed + failures + unreadable > 0 {
            writeln!(
                f,
                "filters dropped {dropped}, changed {changed}, failures {failures}, not readable {unreadable}"
            )?;
        }
        if self.prefix_skips > 0 {
            writeln!(f, "tables skipped by prefix {}", self.prefix_skips)?;
        }
        if self.expired > 0 {
            writeln!(f, "expired records dropped {}, {} tables of them unread", self.expired, self.dropped_tables)?;
        }
        writeln!(f, "visible seqno {}, snapshots {}", self.visible_seqno, self.snapshots)?;
        if self.oldest_snapshot_nanos.max(self.oldest_cursor_nanos) > 0 {
            let [snapshot, cursor] =
                [self.oldest_snapshot_nanos, self.oldest_cursor_nanos].map(|age| age / 1_000_000_000);
            writeln!(f, "oldest snapshot {snapshot} s, oldest cursor {cursor} s")?;
        }
        if self.background_pauses > 0 {
            writeln!(f, "background work paused ({} pauses)", self.background_pauses)?;
        }
        if self.pinned_bytes > 0 {
            writeln!(f, "files kept for backups {} B", self.pinned_bytes)?;
        }
        if self.change_cursors > 0 || self.kept_log_bytes > 0 {
            let (log, files, cursors) = (self.kept_log_bytes, self.kept_files, self.change_cursors);
            writeln!(f, "kept for the change feed: {log} B of log, {files} files, {cursors} cursors")?;
        }
        writeln!(f, "flushes {} ({} B written)", self.flushes, self.flushed_bytes)?;
        writeln!(
            f,
            "compactions {} ({} B read, {} B written, {} parts beside others), moves {}",
            self.compactions, self.compacted_read, self.compacted_written, self.subcompactions, self.moves
        )?;
        writeln!(
            f,
            "write amplification {:.2} (tables), jobs waited {} ms for their rate",
            self.write_amplification(),
            self.paced_nanos / 1_000_000
        )?;
        let [all, longest] = [self.stall_nanos, self.longest_stall_nanos].map(|nanos| nanos / 1_000_000);
        writeln!(f, "stalls {} ({all} ms, the longest {longest} ms)", self.stalls)?;
        writeln!(
            f,
            "log: {}, {} frames ({} B, filler {} B, {} large), {} drains, {} groups with {} fdatasyncs, {} turnovers, \
             {} recycled, waits {} for room and {} for a segment, {} B live, {} B needed of {} B, {} early freezes",
            if self.wal.mapped { "mapped" } else { "plain" },
            self.wal.frames,
            self.wal.frame_bytes,
            self.wal.filler_bytes,
            self.wal.large_frames,
            self.wal.drains,
            self.wal.groups,
            self.wal.syncs,
            self.wal.turnovers,
            self.wal.recycled,
            self.wal.waits_for_room,
            self.wal.waits_for_segment,
            self.wal.live_bytes,
            self.wal.needed_bytes,
            self.wal.limit_bytes,
            self.wal.early_freezes
        )?;
        writeln!(
            f,
            "memory: {} B in memtables, {} B in blocks, {} B else, of {} B; callers hold {} B more",
            self.memory.memtable_bytes,
            self.memory.block_bytes,
            self.memory.other_bytes,
            self.memory.budget_bytes,
            self.memory.held_by_callers_bytes
        )?;
        let seen = &self.integrity;
        if *seen != IntegrityMetrics::default() {
            writeln!(
                f,
                "damage: {} doubts, {} read again, {} corrected, {} blocks and {} records in memory lost, {} reads at gaps, {} \
                 at fences",
                seen.doubted,
                seen.read_again,
                seen.corrected,
                seen.damaged_blocks,
                seen.damaged_in_memory,
                seen.gaps_met,
                seen.fences_met
            )?;
        }
        write!(
            f,
            "cache: {} of {} B in {} blocks, {} loads ({} not kept), {} evictions; {} tables open, indexes {} B; manifest rotations {}",
            self.cache.used_bytes,
            self.cache.budget_bytes,
            self.cache.blocks,
            self.cache.loads,
            self.cache.refused,
            self.cache.evictions,
            self.open_tables,
            self.index_bytes,
            self.manifest_rotations
        )
    }
}
