//! Prefixes in filters: a filter never denies the prefix of a key, whatever memory has lost.

use super::*;
use crate::prefix_extractor::{KeyPrefix, PrefixExtractor};
use crate::sst::index::partitions::{IndexPartition, TableIndex};
use std::ops::Bound;

const RULE: PrefixExtractor = PrefixExtractor::Delimited { byte: b'/', count: 1 };

fn prefix(n: u32) -> KeyPrefix {
    let (from, to) = (format!("{n:03}/").into_bytes(), format!("{n:03}0").into_bytes());
    KeyPrefix::of_range(RULE, &(Bound::Included(from), Bound::Excluded(to))).unwrap()
}

/// Directories of even numbers, with one to nine files in them.
fn records() -> Vec<Owned> {
    let files = (0..100u32).step_by(2).flat_map(|n| (0..=n % 9).map(move |file| format!("{n:03}/{file}")));
    files.map(|key| Owned::put(key.as_bytes(), 50, b"value").sealed()).collect()
}

fn table(part_blocks: usize, rule: Option<PrefixExtractor>) -> Arc<Table> {
    let settings = WriterSettings { block_bytes: 100, prefix_extractor: rule, ..settings() };
    let file = Memory::of(Vec::new());
    let writer = Writer::new(file.clone(), UID, settings, Arc::new(Sealer));
    let mut writer = writer.cut_into(part_blocks);
    records().iter().for_each(|record| writer.add(&record.borrow()).unwrap());
    let finished = writer.finish().unwrap();
    let table = opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(1 << 20)));
    table.verify(&Sealer, &mut |_| Ok(())).unwrap();
    table
}

fn denied(table: &Table, numbers: impl Iterator<Item = u32>) -> usize {
    numbers.filter(|n| !table.may_contain_prefix(&prefix(*n))).count()
}

fn present() -> impl Iterator<Item = u32> {
    (0..100).step_by(2)
}

#[test]
fn filters_know_the_prefixes_of_their_keys_and_deny_others() {
    for part_blocks in [1, 2, 5, 1000] {
        let table = table(part_blocks, Some(RULE));
        assert_eq!(table.table_index.spans().is_empty(), part_blocks == 1000);
        assert_eq!(denied(&table, present()), 0);
        let absent = denied(&table, (1..99).step_by(2));
        assert!((45..=49).contains(&absent), "{absent} of 49");
        // Outside of the table's keys.
        assert!(denied(&table, 100..150) >= 45);
    }
}

#[test]
fn a_table_of_another_rule_denies_nothing() {
    for rule in [None, Some(PrefixExtractor::Fixed(4)), Some(PrefixExtractor::Delimited { byte: b'/', count: 2 })] {
        assert_eq!(denied(&table(2, rule), 0..150), 0);
    }
}

#[test]
fn a_damaged_line_never_denies_a_prefix() {
    let whole = table(1000, Some(RULE));
    for at in 0..whole.table_index.loaded().map(|part| part.filter.as_ref().unwrap().memory()).sum::<usize>() {
        let damage = |index: &mut TableIndex| {
            if let TableIndex::Whole(IndexPartition { filter: Some(filter), .. }) = index {
                filter.damage(at, 0xff);
            }
            Ok(())
        };
        let damaged = whole.opened_anew(damage).unwrap();
        assert_eq!(denied(&damaged, present()), 0, "byte {at}");
    }
}

/// Memory that leads to the partition of another range.
#[test]
fn a_partition_of_another_range_never_denies_a_prefix() {
    let table = table(1, Some(RULE));
    let count = table.table_index.spans().len();
    assert!(count > 20);
    for at in 0..count {
        for from in [(at + 1) % count, (at + count - 1) % count, count - 1 - at] {
            let misled = table.opened_anew(|index| {
                if let TableIndex::Partitioned(cut) = index {
                    let part = table.check_partition(&cut.top.spans()[from])?;
                    cut.put(at, part);
                }
                Ok(())
            });
            assert_eq!(denied(&misled.unwrap(), present()), 0, "{from} in place of {at}");
        }
    }
}

#[test]
fn a_check_by_blocks_finds_a_filter_without_prefixes() {
    let whole = table(1000, Some(RULE));
    let without_prefixes = table(1000, None);
    let misled = whole.opened_anew(|index| {
        if let (TableIndex::Whole(part), TableIndex::Whole(other)) = (index, without_prefixes.read_parts()?.table_index)
        {
            part.filter = other.filter;
        }
        Ok(())
    });
    let misled = misled.unwrap();
    assert!(denied(&misled, present()) > 0 && denied(&whole, present()) == 0);
    let blocks =
        |table: &Table| (0..table.blocks()).filter(|block| table.check_block(*block, &Sealer).is_err()).count();
    assert_eq!(blocks(&whole), 0);
    assert!(blocks(&misled) > 1, "each block with a directory that the filter denies");
}
