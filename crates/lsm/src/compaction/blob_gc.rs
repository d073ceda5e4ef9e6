//! Value-file garbage collection: selects the value files (blob files) that are mostly garbage, and the table to
//! rewrite in order to free one. Pure.
//!
//! In:     the value references of a family's tables. Out: files to be collected, and a plan.
//! Choice: a file of which at least half is garbage, once two fifths of all value bytes of the family are garbage: a
//!         value moved too early is soon overwritten, and was moved for nothing. So garbage takes no more space than
//!         live values, and each byte written for collection frees at least one. A compaction that encounters a pointer
//!         into such a file moves the value. If no other compaction is due, the table that points to most of these
//!         values is rewritten in place, until the last pointer is gone and the file with it. In a store that is
//!         settling, the files with the greatest share of garbage are collected first, until the remaining garbage is
//!         1/8 of the live bytes.
//! Turns:  only as many files at once as keep the moved bytes small: a table of 64 MiB may point to a terabyte, and
//!         until the last pointer into a file is gone, its values take their space twice. The files with the greatest
//!         share of garbage are collected first, from all tables, and then the next ones.
//! Holds:  level 0 is left alone: it is merged soon, and a table that stays there has younger ones above it. In a
//!         settling store it is merged first, if it points to such values.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pick::pick_level0;
pub use super::plan::GcPolicy;
use super::plan::{CompactionPlan, LevelSummary, MERGE_TABLES, OutputRange, PlanAction, Reason, is_free};
use crate::checksum::Uid;
use crate::values::BlobMeta;
use crate::version::TableMeta;

/// The live part of a value file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveValues {
    /// The file.
    pub file: Arc<BlobMeta>,
    /// Number of pointers into it.
    pub count: u64,
    /// Total length of the entries that they point to, in bytes.
    pub bytes: u64,
}

impl LiveValues {
    /// Returns the bytes of entries without a pointer.
    pub fn garbage(&self) -> u64 {
        self.file.entry_bytes().saturating_sub(self.bytes)
    }

    /// Returns how much of `bytes` bytes of the file is garbage, in proportion to the file's share of garbage.
    fn garbage_in(&self, bytes: u64) -> u64 {
        let share = u128::from(self.garbage()) * u128::from(bytes) / u128::from(self.file.entry_bytes().max(1));
        share as u64
    }

    /// True if at least half of the file is garbage.
    pub fn is_stale(&self) -> bool {
        self.garbage() > 0 && self.garbage() >= self.bytes
    }
}

/// Returns the value files that tables point into, and the live part of each.
pub fn living<'a>(tables: impl Iterator<Item = &'a TableMeta>) -> BTreeMap<Uid, LiveValues> {
    let mut files: BTreeMap<Uid, LiveValues> = BTreeMap::new();
    for of in tables.flat_map(|table| &table.values) {
        let living =
            files.entry(of.file.uid).or_insert_with(|| LiveValues { file: of.file.clone(), count: 0, bytes: 0 });
        living.count += of.count;
        living.bytes = living.bytes.saturating_add(of.bytes);
    }
    files
}

/// In a settled store, garbage is at most this fraction of the live bytes.
const LEAN_PART: u128 = 8;

/// Returns the files to be collected.
pub fn stale(files: &BTreeMap<Uid, LiveValues>, thrift: GcPolicy) -> BTreeSet<Uid> {
    let (mut garbage, all) = files.values().fold((0u128, 0u128), |(garbage, all), living| {
        (garbage + u128::from(living.garbage()), all + u128::from(living.file.entry_bytes()))
    });
    let alive = all.saturating_sub(garbage);
    match thrift {
        GcPolicy::Usual if garbage * 5 < all * 2 => BTreeSet::new(),
        GcPolicy::Usual | GcPolicy::Mostly => {
            files.iter().filter(|(_, living)| living.is_stale()).map(|(uid, _)| *uid).collect()
        }
        GcPolicy::Lean => {
            let worst = worst_first(files.iter().filter(|(_, living)| living.garbage() > 0));
            let is_too_much = |(_, living): &(&Uid, &LiveValues)| {
                let is_too_much = garbage * LEAN_PART > alive;
                garbage -= u128::from(living.garbage());
                is_too_much
            };
            worst.into_iter().take_while(is_too_much).map(|(uid, _)| *uid).collect()
        }
    }
}

fn worst_first<'a>(files: impl Iterator<Item = (&'a Uid, &'a LiveValues)>) -> Vec<(&'a Uid, &'a LiveValues)> {
    let mut worst: Vec<_> = files.collect();
    worst.sort_by_key(|(_, living)| Reverse(living.garbage_in(1 << 32)));
    worst
}

/// Returns a limit on the value bytes moved before the first of these files is freed. The limit is four times the size
/// of the rewritten tables, but at most 1/8 of all data, and at least the output of one merge. `held`, `alive`: bytes
/// of tables, and of the values they point to.
pub fn most_at_once(table_bytes: u64, held: u64, alive: u64) -> u64 {
    let worth = held.saturating_mul(4).min(held.saturating_add(alive) / 8);
    worth.max(table_bytes.saturating_mul(MERGE_TABLES))
}

/// Returns the files to collect now: at least one file, and a total of about `most` live bytes to move. `movable`: for
/// each file, the bytes referenced by tables that can be rewritten now. Without this limit, files referenced by other
/// tables would block the rest forever.
pub fn select_files(
    files: &BTreeMap<Uid, LiveValues>,
    stale: BTreeSet<Uid>,
    movable: &BTreeMap<Uid, LiveValues>,
    most_bytes: u64,
) -> BTreeSet<Uid> {
    let mut bytes = 0u64;
    let has_room = |(uid, _): &(&Uid, &LiveValues)| {
        let has_room = bytes < most_bytes;
        bytes = bytes.saturating_add(movable.get(*uid).map_or(0, |living| living.bytes));
        has_room
    };
    let worst = worst_first(files.iter().filter(|(uid, _)| stale.contains(*uid)));
    worst.into_iter().take_while(has_room).map(|(uid, _)| *uid).collect()
}

/// Returns the plan that rewrites a table, for `reason`, because of the values that it points to in stale files;
/// `stale` returns how many bytes of them a table has.
pub fn pick_stale(summary: &LevelSummary<'_>, reason: Reason, stale: &dyn Fn(u64) -> u64) -> Option<CompactionPlan> {
    if reason == Reason::Space
        && summary.levels[0].iter().any(|table| stale(table.number) > 0)
        && let Some(plan) = pick_level0(summary, summary.targets().base, reason)
    {
        return Some(plan);
    }
    let mut found: Option<(u64, CompactionPlan)> = None;
    for (level, tables) in summary.levels.iter().enumerate().skip(1) {
        for table in tables.iter().filter(|table| !table.is_busy) {
            let bytes = stale(table.number);
            if bytes == 0 || found.as_ref().is_some_and(|(most, _)| *most >= bytes) {
                continue;
            }
            let span = OutputRange { level, smallest: table.smallest.to_vec(), largest: table.largest.to_vec() };
            if is_free(summary, &span) {
                let plan = CompactionPlan {
                    inputs: vec![(level, vec![table.number])],
                    output_level: level,
                    action: PlanAction::Merge,
                    reason,
                    score: 0,
                    span,
                };
                found = Some((bytes, plan));
            }
        }
    }
    found.map(|(_, plan)| plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Order;
    use crate::values::BlobRef;
    use crate::version::{LazyTable, Levels, TableCache};

    fn file(number: u64, entry_bytes: u64) -> Arc<BlobMeta> {
        let size = entry_bytes + 64 + 40; // header and footer
        Arc::new(BlobMeta { number, uid: Uid([number as u8; 16]), size, count: 9, ..BlobMeta::default() })
    }

    fn table(number: u64, keys: [&[u8]; 2], values: &[(&Arc<BlobMeta>, u64)]) -> TableMeta {
        let values = values.iter().map(|(file, bytes)| BlobRef { file: (*file).clone(), count: 1, bytes: *bytes });
        let (smallest, largest) = (keys[0].to_vec(), keys[1].to_vec());
        TableMeta { number, size: 10, smallest, largest, values: values.collect(), ..TableMeta::default() }
    }

    #[test]
    fn what_is_alive_is_the_sum_over_the_tables_and_half_of_it_is_stale() {
        let (a, b) = (file(7, 100), file(8, 100));
        let tables = [table(1, [b"a", b"b"], &[(&a, 30), (&b, 60)]), table(2, [b"c", b"d"], &[(&a, 20)])];
        let living = living(tables.iter());
        assert_eq!(a.entry_bytes(), 100);
        let of = |file: &Arc<BlobMeta>| &living[&file.uid];
        assert_eq!((of(&a).bytes, of(&a).count, of(&a).garbage(), of(&a).is_stale()), (50, 2, 50, true));
        assert_eq!((of(&b).bytes, of(&b).garbage(), of(&b).is_stale()), (60, 40, false));
        let whole = LiveValues { file: file(9, 0), count: 0, bytes: 0 };
        assert!(!whole.is_stale());
    }

    #[test]
    fn files_are_collected_where_garbage_weighs_against_what_is_alive() {
        let (a, b) = (file(7, 100), file(8, 100));
        let stale_of = |alive: [u64; 2], thrift| {
            let tables = [table(1, [b"a", b"b"], &[(&a, alive[0]), (&b, alive[1])])];
            stale(&living(tables.iter()), thrift).into_iter().map(|uid| uid.0[0]).collect::<Vec<_>>()
        };
        use GcPolicy::{Lean, Mostly, Usual};
        assert_eq!((stale_of([40, 81], Usual), stale_of([40, 81], Mostly)), (vec![], vec![7]));
        assert_eq!((stale_of([40, 80], Usual), stale_of([40, 80], Mostly)), (vec![7], vec![7]));
        assert_eq!((stale_of([50, 50], Usual), stale_of([51, 51], Usual)), (vec![7, 8], vec![]));
        assert_eq!((stale_of([51, 51], Mostly), stale_of([51, 51], Lean)), (vec![], vec![7, 8]));
        assert_eq!((stale_of([78, 100], Lean), stale_of([77, 100], Lean)), (vec![], vec![7]));
        assert_eq!((stale_of([90, 70], Lean), stale_of([80, 70], Lean)), (vec![8], vec![7, 8]));
        assert_eq!(stale(&BTreeMap::new(), Lean), BTreeSet::new());
    }

    /// However much garbage there is, the first files are freed after a bounded number of moved bytes, and the other
    /// files get their turn.
    #[test]
    fn files_take_turns_and_those_that_cannot_go_take_none() {
        let (a, b, c) = (file(7, 1000), file(8, 1000), file(9, 1000));
        let tables = [table(1, [b"a", b"b"], &[(&a, 100), (&b, 200)]), table(2, [b"c", b"d"], &[(&b, 100), (&c, 400)])];
        let files = living(tables.iter());
        let turn = |movable: &[TableMeta], most: u64| {
            let stale = stale(&files, GcPolicy::Mostly);
            assert_eq!(stale.len(), 3);
            let turn = select_files(&files, stale, &living(movable.iter()), most);
            turn.into_iter().map(|uid| uid.0[0]).collect::<Vec<_>>()
        };
        assert_eq!((turn(&tables, 1), turn(&tables, 100), turn(&tables, 101)), (vec![7], vec![7], vec![7, 8]));
        assert_eq!((turn(&tables, 400), turn(&tables, 401)), (vec![7, 8], vec![7, 8, 9]));
        assert_eq!((turn(&tables[1..], 100), turn(&[], 1)), (vec![7, 8], vec![7, 8, 9]));
    }

    #[test]
    fn what_is_moved_at_once_is_a_merge_or_what_the_tables_are_worth() {
        let mib = 1u64 << 20;
        let most = |held: u64, alive: u64| most_at_once(64 * mib, held * mib, alive * mib) / mib;
        assert_eq!(most(64, 300_000), 1600, "a table of pointers to large values");
        assert_eq!(most(20_000, 1_000_000), 80_000, "and many, to small ones");
        assert_eq!(most(1_000_000, 100_000), 137_500, "values are few beside what else there is");
        assert_eq!(most_at_once(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn the_table_with_most_is_written_anew_in_its_place_but_never_in_level_0_or_beside_a_job() {
        let table_cache = TableCache::<()>::new("f", Arc::default(), |_| Ok(()));
        let a = file(7, 1000);
        let tables = [(0, 1, [b"a", b"b"], 500), (1, 2, [b"a", b"b"], 20), (1, 3, [b"c", b"d"], 30)];
        let handles = tables.map(|(level, number, [low, high], bytes)| {
            (level, LazyTable::new(Arc::new(table(number, [low, high], &[(&a, bytes)])), table_cache.clone()))
        });
        let levels = Levels::new(Order::bytewise(), handles).unwrap();
        let shape = super::super::LevelShape::new(&crate::options::CfOptions::default(), 2);
        let stale = |number: u64| tables.iter().find(|table| table.1 == number).map_or(0, |table| table.3);
        let plan = |running: &[OutputRange], busy: u64| {
            let summary = LevelSummary::new(&levels, shape, running, None, |number| number == busy);
            pick_stale(&summary, Reason::Values, &stale).map(|plan| (plan.inputs, plan.output_level))
        };
        assert_eq!(plan(&[], 0), Some((vec![(1, vec![3])], 1)));
        assert_eq!(plan(&[], 3), Some((vec![(1, vec![2])], 1)));
        let running = [OutputRange { level: 1, smallest: b"a".to_vec(), largest: b"z".to_vec() }];
        assert_eq!(plan(&running, 0), None);
        let summary = LevelSummary::new(&levels, shape, &[], None, |_| false);
        assert_eq!(pick_stale(&summary, Reason::Values, &|_| 0), None);
    }
}
