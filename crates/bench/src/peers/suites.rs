//! The steps of each suite, their stores and their order, as data.
//!
//! A suite answers one question with several groups of steps. A group runs in one process on one store, for all stores
//! of this build in turn. Steps that continue with a previous group's store name the same directory; the last such
//! group removes it.

use crate::engine::{Feature, File, Name, Sizes};
use crate::run::Step;
use clap::ValueEnum;

/// A suite.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
#[value(rename_all = "lowercase")]
pub(super) enum Suite {
    /// Fills, overwrites, reads, scans, seeks, mixes, synced writes: one thread.
    Core,
    /// The core steps with more threads.
    Threads,
    /// The other fills and mixes, reads during writes, deletes, a queue.
    More,
    /// Values of 1 kB, 20 kB and 1 MB.
    Values,
    /// Four times as much data as cache and memtable together.
    Budget,
    /// Reads of a store that is six times as large as the cache: from the page cache, then from the disk.
    Beyond,
    /// The first reads of a store that is not in the page cache.
    Cold,
    /// Opening the store of a killed process, with a long log.
    Recovery,
    /// Opening a store of many tables.
    Tables,
    /// The same reads on stores of increasing size.
    Growth,
    /// A long random load: bytes written to the disk, and space used.
    Load,
    /// A long mixed load: its latency over time.
    Mixed,
}

impl Suite {
    /// Returns its share of the time of a quick run.
    pub(super) fn weight(self) -> f64 {
        match self {
            Suite::Core => 5.0,
            Suite::Threads => 2.0,
            Suite::More | Suite::Values | Suite::Growth => 1.0,
            Suite::Budget | Suite::Beyond | Suite::Cold | Suite::Recovery | Suite::Tables | Suite::Load => 0.5,
            Suite::Mixed => 0.7,
        }
    }

    /// Returns its rounds in a run of `rounds`: three are the minimum for bounds, and one is enough for an hour-long
    /// step.
    pub(super) fn rounds(self, rounds: u64) -> u64 {
        match self {
            Suite::Core | Suite::Threads | Suite::More => rounds,
            Suite::Mixed => 1,
            _ => rounds.min(3),
        }
    }
}

/// Content and settings of a store.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Shape {
    pub(super) num: u64,
    pub(super) value_bytes: u64,
    pub(super) cache_mib: u64,
    pub(super) memtable_mib: u64,
    pub(super) table_kib: Option<u64>,
    pub(super) level_kib: Option<u64>,
}

/// Steps that share a process and a store.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Group {
    /// Prefix for the names of its steps, if other groups run the same steps.
    pub(super) prefix: String,
    pub(super) store: &'static str,
    pub(super) shape: Shape,
    pub(super) steps: Vec<Step>,
    pub(super) threads: u64,
    /// Operations of steps that are not fills; by default the number of records.
    pub(super) ops: Option<u64>,
    /// The store is created anew.
    pub(super) is_fresh: bool,
    /// Everything is read once before steps that only read.
    pub(super) is_warm: bool,
    /// Its files are evicted from the page cache first.
    pub(super) is_cold: bool,
    /// The process ends as if killed.
    pub(super) is_killed: bool,
    /// The store is removed afterwards.
    pub(super) is_last: bool,
    /// Runs only on stores with this feature.
    pub(super) needs: Option<Feature>,
    /// Prepares a store for other groups; its times are not reported.
    pub(super) only_prepares: bool,
}

impl Group {
    fn on(store: &'static str, shape: Shape, steps: &[Step]) -> Group {
        Group {
            prefix: String::new(),
            store,
            shape,
            steps: steps.to_vec(),
            threads: 1,
            ops: None,
            is_fresh: false,
            is_warm: true,
            is_cold: false,
            is_killed: false,
            is_last: false,
            needs: None,
            only_prepares: false,
        }
    }

    fn fresh(store: &'static str, shape: Shape, steps: &[Step]) -> Group {
        Group { is_fresh: true, is_warm: false, ..Group::on(store, shape, steps) }
    }

    fn prefix(self, prefix: impl Into<String>) -> Group {
        Group { prefix: prefix.into(), ..self }
    }

    fn threads(self, threads: u64) -> Group {
        Group { threads, ..self }
    }

    fn ops(self, ops: u64) -> Group {
        Group { ops: Some(ops.max(1)), ..self }
    }

    fn last(self) -> Group {
        Group { is_last: true, ..self }
    }

    fn needs(self, feature: Feature) -> Group {
        Group { needs: Some(feature), ..self }
    }

    fn prepares(self) -> Group {
        Group { only_prepares: true, ..self }
    }

    /// Returns a step's name in tables, gates and files.
    pub(super) fn label(&self, step: Step) -> String {
        match self.threads {
            1 => format!("{}{}", self.prefix, step.text()),
            threads => format!("{}{}/{threads}", self.prefix, step.text()),
        }
    }

    /// Returns true if a peer has the feature that the group needs.
    fn has_peers(&self) -> bool {
        let has =
            |feature| [Name::Fjall, Name::Redb, Name::Lmdb, Name::Rocksdb].into_iter().any(|name| name.has(feature));
        self.needs.is_none_or(has)
    }

    /// Returns the compared rows: each step, and each fill together with the following settle or sync.
    pub(super) fn rows(&self) -> Vec<Row> {
        if self.only_prepares || !self.has_peers() {
            return Vec::new();
        }
        let name = |step: Step| self.label(step).replace('/', "_");
        let mut rows = Vec::new();
        // The last fill, and the steps since then that made its records durable and settled.
        let mut fill: Vec<Step> = Vec::new();
        for step in &self.steps {
            let after = match step {
                Step::Settle => "settled",
                Step::Sync => "synced",
                Step::Mixed => continue,
                _ => {
                    rows.push(Row { id: name(*step), labels: vec![self.label(*step)] });
                    fill = if step.is_fill() { vec![*step] } else { Vec::new() };
                    continue;
                }
            };
            fill.push(*step);
            if fill[0].is_fill() {
                let labels = fill.iter().map(|step| self.label(*step)).collect();
                rows.push(Row { id: format!("{}_{after}", name(fill[0])), labels });
            }
        }
        rows
    }
}

/// One comparison: the total time of these steps, per operation of the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) labels: Vec<String>,
}

/// Records of the full size, for which the memtable and levels of the settings are chosen.
pub(super) const FULL: u64 = 2_000_000;

/// Bytes of a record of the default size.
pub(super) const RECORD: u64 = 116;

/// Share of distinct keys among the records of a random fill.
const DISTINCT: f64 = 0.632;

/// Records of the store beyond the cache at full size, for which the cache of the settings is chosen.
const BEYOND: u64 = 20_000_000;

/// Returns the number of commits of `fillsync`: enough synced groups for an average, few enough for a disk that syncs
/// in a millisecond.
pub(super) fn synced_commits(num: u64, threads: u64) -> u64 {
    (num * (2 + threads / 4) / 1000).max(100)
}

/// Returns all groups of a suite.
pub(super) fn groups(suite: Suite, file: &File, sizes: &Sizes, num: u64) -> Vec<Group> {
    use Step::{
        FillRandom, Mixed, MultiGet, Open, Overwrite, ReadMissing, ReadRandom, ReadReverse, ReadSeq, Settle, Sync,
    };
    use Step::{FillSync, SeekRandom, YcsbA, YcsbB, YcsbC};
    let shapes = Shapes { file, num };
    let (flat, deep) = (shapes.flat(), shapes.deep());
    match suite {
        Suite::Core => {
            let mut groups = vec![
                Group::fresh("flat", flat, &[FillRandom, Settle]),
                Group::on("flat", flat, &[Overwrite, Settle]).prefix("over.").last(),
                Group::fresh("main", deep, &[FillRandom, Settle]).prefix("deep.").prepares(),
            ];
            let reads = [ReadRandom, ReadMissing, ReadSeq, ReadReverse, SeekRandom, YcsbC, YcsbB, YcsbA];
            groups.extend(reads.map(|step| Group::on("main", deep, &[step])));
            groups.push(Group::fresh("side", flat, &[FillRandom, ReadRandom, ReadSeq]).prefix("unsettled."));
            groups.extend([1, 16, 64].map(|threads| {
                Group::fresh("side", flat, &[FillSync]).threads(threads).ops(synced_commits(num, threads))
            }));
            groups
        }
        Suite::Threads => sizes.threads.iter().flat_map(|threads| shapes.by_threads(*threads)).collect(),
        Suite::More => more(flat, deep, num),
        Suite::Values => {
            let large = |name: &str, bytes: u64, mib: u64| {
                let num = (mib << 20).div_ceil(bytes + 16);
                let shape = Shape { num, value_bytes: bytes, ..flat };
                let steps = [FillRandom, Sync, Settle, ReadRandom, ReadSeq];
                Group { is_warm: true, ..Group::fresh("values", shape, &steps).prefix(name).ops(num.min(100_000)) }
                    .last()
            };
            vec![
                large("20k.", 20_000, sizes.large_mib),
                large("1k.", 1_000, sizes.large_mib / 4),
                large("1m.", 1_000_000, sizes.large_mib / 4),
            ]
        }
        Suite::Budget => {
            let mib = sizes.budget_mib;
            let num = (((4 * mib) << 20) as f64 / DISTINCT) as u64 / RECORD;
            let budget = Shape { num, cache_mib: (mib / 2).max(1), memtable_mib: (mib / 4).max(1), ..flat };
            let steps = [FillRandom, Settle, ReadRandom, SeekRandom, YcsbA, ReadSeq];
            vec![Group::fresh("budget", budget, &steps).prefix("budget.").ops(num / 4).last()]
        }
        Suite::Beyond => {
            let num = sizes.beyond;
            let shape = Shape { num, cache_mib: (file.shared.cache_mib * num).div_ceil(BEYOND), ..flat };
            let reads = |steps: &[Step]| Group::on("beyond", shape, steps).ops((num / 40).max(1));
            let cold = |step| Group { is_warm: false, is_cold: true, ..reads(&[step]) }.prefix("cold.beyond.");
            vec![
                Group::fresh("beyond", shape, &[FillRandom, Settle]).prefix("beyond.").prepares(),
                reads(&[ReadRandom, SeekRandom, MultiGet, ReadSeq]).prefix("beyond."),
                cold(ReadRandom).ops((num / 2_000).max(1)),
                cold(MultiGet).ops((num / 500).max(1)).last(),
            ]
        }
        Suite::Cold => vec![
            Group::fresh("cold", flat, &[FillRandom, Settle]).prefix("cold.").prepares(),
            Group { is_warm: false, is_cold: true, ..Group::on("cold", flat, &[Open, ReadRandom]) }
                .prefix("cold.")
                .ops(num / 100)
                .last(),
        ],
        Suite::Recovery => {
            let num = (sizes.recover_mib << 20).div_ceil(1_056);
            // The kill comes before any flush, and recovery fits into one memtable.
            let shape = Shape { num, value_bytes: 1_000, memtable_mib: sizes.recover_mib * 5 / 4 + 16, ..flat };
            let killed =
                Group::fresh("recovery", shape, &[FillRandom]).prefix("recover.").needs(Feature::Tables).prepares();
            vec![
                Group { is_killed: true, ..killed },
                Group::on("recovery", shape, &[Open]).prefix("recover.").needs(Feature::Tables).last(),
            ]
        }
        Suite::Tables => {
            let num = (((sizes.tables * sizes.table_kib) << 10) as f64 / 1_016.0 / DISTINCT) as u64;
            let table_kib = Some(sizes.table_kib);
            let shape = Shape { num, value_bytes: 1_000, memtable_mib: 4, table_kib, ..flat };
            vec![
                Group::fresh("tables", shape, &[FillRandom, Settle]).prefix("tables.").prepares(),
                Group { is_warm: false, ..Group::on("tables", shape, &[Open, ReadRandom]) }
                    .prefix("tables.")
                    .ops(1_000)
                    .last(),
            ]
        }
        Suite::Growth => {
            let grown = |num: &u64| {
                let shape = Shape { num: *num, ..flat };
                let steps = [FillRandom, Settle, ReadRandom, SeekRandom];
                let group = Group::fresh("growth", shape, &steps).prefix(growth_prefix(*num)).ops((*num).min(500_000));
                Group { is_warm: true, ..group }.last()
            };
            sizes.growth.iter().map(grown).collect()
        }
        Suite::Load => {
            let scale = |mib: u64| (mib * sizes.load_mib).div_ceil(4096).max(1);
            let num = (sizes.load_mib << 20) / RECORD;
            let shape = Shape {
                num,
                memtable_mib: scale(file.shared.memtable_mib),
                // The level sizes scale with the load, so that a small load fills as many levels.
                level_kib: (sizes.load_mib < 4096).then(|| scale(256) << 10),
                ..flat
            };
            vec![Group::fresh("load", shape, &[FillRandom, Settle]).prefix("load.").needs(Feature::Tables).last()]
        }
        Suite::Mixed => vec![
            Group::fresh("mixed", flat, &[FillRandom, Settle]).prefix("long.").prepares(),
            Group { is_warm: false, ..Group::on("mixed", flat, &[Mixed]) }.prefix("long.").threads(2).last(),
        ],
    }
}

/// Returns the label prefix of the growing store.
pub(super) fn growth_prefix(num: u64) -> String {
    format!("grow{num}.")
}

fn more(flat: Shape, deep: Shape, num: u64) -> Vec<Group> {
    use Step::{
        Backup, BulkLoad, Changes, Compact, Counter, DeleteRandom, DeleteRange, FillBatch, FillRandom, FillSeq, Merge,
    };
    use Step::{Queue, ReadPrefix, ReadWhileWriting, Settle, TablesWith, TransactHigh, TransactLow};
    use Step::{YcsbA, YcsbD, YcsbE, YcsbF};
    let mut groups = vec![
        Group::fresh("side", flat, &[FillSeq, Settle]).prefix("seq."),
        Group::fresh("side", flat, &[FillBatch, Settle]).prefix("batch.").last(),
        Group::fresh("more", deep, &[FillRandom, Settle]).prefix("more.").prepares(),
    ];
    groups.extend([ReadWhileWriting, YcsbD, YcsbF].map(|step| Group::on("more", deep, &[step])));
    groups.push(Group::on("more", deep, &[YcsbE]).ops(num / 10));
    groups.push(Group::on("more", deep, &[DeleteRandom, Settle]).prefix("delete.").last());
    groups.push(Group::fresh("queue", flat, &[Queue]).last());
    groups.push(Group::fresh("transactions", flat, &[FillRandom, Settle]).prefix("transactions.").prepares());
    for threads in [1, 4] {
        let steps = [TransactLow, TransactHigh, Counter];
        groups.extend(steps.map(|step| Group::on("transactions", flat, &[step]).threads(threads).ops(num / 4)));
    }
    groups.push(Group::on("transactions", flat, &[DeleteRange]).ops(num / 1000).last());
    groups.extend(
        [1, 4].map(|threads| Group::fresh("merge", flat, &[Merge]).threads(threads).needs(Feature::Merge).last()),
    );
    groups.push(Group::fresh("bulk", flat, &[BulkLoad]).needs(Feature::BulkLoad).last());
    // A fill whose log is kept.
    groups.push(Group::fresh("feed", flat, &[FillRandom, Changes]).prefix("feed.").needs(Feature::Changes).last());
    let backup = |group: Group| Group { is_warm: false, ..group }.needs(Feature::Backup);
    groups.extend([
        backup(Group::fresh("backup", flat, &[FillRandom, Settle]).prefix("backup.first.").prepares()),
        backup(Group::on("backup", flat, &[Backup]).prefix("first.")),
        // Half of the operations are updates, of 1 % of the records at most.
        backup(Group::on("backup", flat, &[YcsbA]).prefix("backup.updated.").ops(num / 50).prepares()),
        backup(Group::on("backup", flat, &[Backup]).prefix("updated.").last()),
        Group::fresh("properties", flat, &[FillRandom, Settle, TablesWith])
            .prefix("properties.")
            .ops(num / 100)
            .needs(Feature::Properties)
            .last(),
        // A full compaction by a filter that drops half of the records.
        Group::fresh("filter", flat, &[FillRandom, Settle]).prefix("filter.").needs(Feature::Filter).prepares(),
        Group { is_warm: false, ..Group::on("filter", flat, &[Compact]) }
            .prefix("filter.")
            .needs(Feature::Filter)
            .last(),
        // Prefixes of which every second one has no rows, in three levels. Filters know them where a store has such.
        Group { is_warm: true, ..Group::fresh("prefix", deep, &[FillRandom, Settle, ReadPrefix]) }
            .prefix("prefix.")
            .last(),
    ]);
    groups
}

/// The shapes shared by most suites.
struct Shapes<'a> {
    file: &'a File,
    num: u64,
}

impl Shapes<'_> {
    /// Scales a memtable or level to a smaller store, so that it still flushes and compacts.
    fn scaled(&self, size: u64, least: u64) -> u64 {
        (size * self.num.min(FULL)).div_ceil(FULL).max(least)
    }

    fn flat(&self) -> Shape {
        let shared = &self.file.shared;
        Shape {
            num: self.num,
            value_bytes: shared.value_bytes,
            cache_mib: shared.cache_mib,
            memtable_mib: self.scaled(shared.memtable_mib, 4),
            table_kib: None,
            level_kib: None,
        }
    }

    /// Returns a shape with data in three levels.
    fn deep(&self) -> Shape {
        let shared = &self.file.shared;
        let level = self.scaled(shared.deep_level_kib, 128);
        let table = self.scaled(shared.deep_table_kib, 32);
        Shape { level_kib: Some(level), table_kib: Some(table.min(level)), ..self.flat() }
    }

    fn by_threads(&self, threads: u64) -> Vec<Group> {
        use Step::{DeleteRandom, FillBatch, FillRandom, FillSeq, Overwrite, Queue, Settle};
        use Step::{ReadMissing, ReadRandom, ReadReverse, ReadSeq, ReadWhileWriting, SeekRandom};
        use Step::{YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF};
        let (flat, deep) = (self.flat(), self.deep());
        let mut groups = vec![
            Group::fresh("side", flat, &[FillRandom, Settle]).threads(threads),
            Group::fresh("side", flat, &[FillSeq, Settle]).prefix("seq.").threads(threads),
            Group::fresh("side", flat, &[FillBatch, Settle]).prefix("batch.").threads(threads),
            Group::fresh("threads", deep, &[FillRandom, Settle]).prefix(format!("deep{threads}.")).prepares(),
        ];
        let steps = [
            ReadRandom,
            ReadMissing,
            ReadSeq,
            ReadReverse,
            SeekRandom,
            YcsbC,
            YcsbB,
            YcsbA,
            ReadWhileWriting,
            YcsbD,
            YcsbF,
        ];
        let on = |step| Group::on("threads", deep, &[step]).threads(threads);
        groups.extend(steps.map(on));
        groups.push(on(YcsbE).ops(self.num / 10));
        groups.extend([Overwrite, DeleteRandom].map(on));
        groups.push(Group::fresh("side", flat, &[Queue]).threads(threads).last());
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_groups_share_a_label_and_every_store_is_made_before_it_is_used() {
        let file = File::read(None).expect("built in");
        for quick in [true, false] {
            let sizes = file.sizes(quick);
            let mut labels = Vec::new();
            for suite in Suite::value_variants() {
                let mut made = Vec::new();
                for group in groups(*suite, &file, sizes, sizes.records) {
                    if group.is_fresh {
                        made.push(group.store);
                    }
                    assert!(made.contains(&group.store), "{suite:?} {group:?}");
                    if group.is_last {
                        made.retain(|store| *store != group.store);
                    }
                    assert!(group.shape.num > 0 && group.shape.table_kib <= group.shape.level_kib.or(Some(1 << 18)));
                    labels.extend(group.steps.iter().map(|step| group.label(*step)));
                }
            }
            let mut unique = labels.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), labels.len(), "two groups share a label: {labels:?}");
        }
    }

    #[test]
    fn a_fill_is_compared_alone_and_with_what_settles_it() {
        let file = File::read(None).expect("built in");
        let groups = groups(Suite::Values, &file, file.sizes(true), 1000);
        let ids: Vec<String> = groups[0].rows().into_iter().map(|row| row.id).collect();
        let expected = ["fillrandom", "fillrandom_synced", "fillrandom_settled", "readrandom", "readseq"];
        assert_eq!(ids, expected.map(|id| format!("20k.{id}")));
        assert_eq!(groups[0].rows()[2].labels, ["20k.fillrandom", "20k.sync", "20k.settle"]);
    }
}
