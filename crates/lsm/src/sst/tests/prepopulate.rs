//! Cache prepopulation: the choice of output blocks, and their unrequested load into the cache.

use super::partial_block::spoilt;
use super::*;
use crate::record::MAX_SEQNO;

/// Writes a table with one record per block, optionally partitioned.
fn table(blocks: u32, cache: &Arc<Cache>, part_blocks: Option<usize>) -> (Arc<Table>, Arc<Memory>) {
    let file = Memory::of(Vec::new());
    let settings = WriterSettings { block_bytes: 1000, ..settings() };
    let mut writer = Writer::new(file.clone(), UID, settings.clone(), Arc::new(Sealer));
    if let Some(part_blocks) = part_blocks {
        writer = writer.cut_into(part_blocks);
    }
    (0..blocks).for_each(|n| writer.add(&Owned::put(&numbered(n), 1, &[7; 900]).sealed().borrow()).unwrap());
    let finished = writer.finish().unwrap();
    let table = opened(file.clone(), &finished, &settings.order, cache);
    assert_eq!(table.blocks(), blocks as usize);
    (table, file)
}

fn all(table: &Table) -> Vec<usize> {
    (0..table.blocks()).collect()
}

#[test]
fn blocks_are_chosen_by_where_their_keys_end() {
    for part_blocks in [None, Some(7)] {
        let cache = Arc::new(Cache::new(1 << 20));
        let (table, _) = table(40, &cache, part_blocks);
        let chosen = |from: u32, to: u32| {
            let (from, to) = (numbered(from), numbered(to));
            table.blocks_where(&mut |key| from[..] <= *key && *key < to[..]).unwrap()
        };
        assert_eq!(chosen(0, 100), all(&table));
        // A separator may be greater than the last key of its block.
        for (from, to) in [(0, 3), (12, 17), (39, 40)] {
            assert_eq!(chosen(from, to), (from as usize..to as usize).collect::<Vec<_>>());
        }
        assert!(!table.has_cached_blocks() && !(0..40).any(|n| table.is_cached_at(&numbered(n))));
        assert!(got(&table, &numbered(17), MAX_SEQNO).unwrap().is_some());
        assert!(table.has_cached_blocks() && (0..40).all(|n| table.is_cached_at(&numbered(n)) == (n == 17)));
        assert!(!table.is_cached_at(&numbered(100)), "behind the last block");
    }
}

#[test]
fn what_was_warmed_is_not_read_again() {
    let cache = Arc::new(Cache::new(1 << 20));
    let (table, _) = table(100, &cache, None);
    table.prepopulate(&[3, 50, 99], &|| true);
    table.prepopulate(&[50, 51], &|| true);
    let metrics = cache.metrics();
    assert_eq!((metrics.warmed, metrics.blocks, metrics.loads), (4, 4, 0));
    for n in [3, 50, 51, 99] {
        assert_eq!(got(&table, &numbered(n), MAX_SEQNO).unwrap().unwrap().key, numbered(n));
    }
    assert_eq!(cache.metrics().loads, 0);
    got(&table, &numbered(52), MAX_SEQNO).unwrap();
    assert_eq!((cache.metrics().loads, cache.metrics().blocks), (1, 5));
    table.prepopulate(&[4, 5, 6], &|| false);
    assert_eq!(cache.metrics().warmed, 4, "whoever warms is told to stop");
    drop(table);
    assert_eq!(cache.metrics().blocks, 0);
}

#[test]
fn what_is_warmed_takes_no_blocks_place() {
    for budget in [0, 1500, 20_000] {
        let cache = Arc::new(Cache::new(budget));
        let (first, _) = table(10, &cache, None);
        (0..10).for_each(|n| drop(got(&first, &numbered(n), MAX_SEQNO).unwrap()));
        let before = cache.metrics();
        let (second, _) = table(100, &cache, None);
        second.prepopulate(&all(&second), &|| true);
        let after = cache.metrics();
        assert!(after.evictions == before.evictions && after.used_bytes <= budget as u64, "{after:?}");
        assert_eq!(after.blocks, before.blocks + after.warmed);
        assert!((0..10).filter(|n| first.is_cached_at(&numbered(*n))).count() as u64 == before.blocks);
        assert_eq!(after.warmed > 0, budget > 15_000);
        // Memory of closed tables counts as free.
        drop(first);
        second.prepopulate(&all(&second), &|| true);
        let then = cache.metrics();
        assert!(then.evictions == before.evictions && then.used_bytes <= budget as u64, "{then:?}");
        assert_eq!((then.blocks, then.warmed > after.warmed), (then.warmed, budget > 15_000));
    }
}

#[test]
fn what_does_not_pass_is_left_to_readers() {
    let cache = Arc::new(Cache::new(1 << 20));
    let (table, file) = table(20, &cache, None);
    let at = table.offset_of(7) as usize + 100;
    file.0.write().unwrap()[at] ^= 1;
    table.prepopulate(&all(&table), &|| true);
    assert!((0..20).all(|n| table.is_cached_at(&numbered(n)) == (n != 7)));
    assert_eq!(got(&table, &numbered(7), MAX_SEQNO).unwrap().unwrap().value, [7; 900], "corrected");
    assert!(table.is_cached_at(&numbered(7)));
}

/// Reads that check blocks when they are loaded rely on cached blocks being checked.
#[test]
fn a_block_of_a_record_that_is_not_what_its_companion_says_is_left_to_readers() {
    let mut records: Vec<Owned> = (0..40).map(|n| Owned::put(&numbered(n), 1, &[7; 90]).sealed()).collect();
    records[5].value[7..20].fill(0x77);
    let table = spoilt(&records, &WriterSettings { block_bytes: 1000, ..settings() }).table;
    assert_eq!(table.index().find(&numbered(5), &Order::bytewise()), 0);
    table.prepopulate(&all(&table), &|| true);
    let warm: Vec<bool> = all(&table).into_iter().map(|n| table.slots.slot(n).load().is_some()).collect();
    assert!(warm.len() > 3 && !warm[0] && warm[1..].iter().all(|warm| *warm), "{warm:?}");
}
