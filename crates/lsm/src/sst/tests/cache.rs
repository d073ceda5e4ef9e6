//! The block cache: its budget, scan resistance, and the bytes that a closed table returns.

use super::*;
use crate::cursor::Cursor;
use crate::env::work;
use crate::record::MAX_SEQNO;

fn table(blocks: u32, cache: &Arc<Cache>) -> Arc<Table> {
    // One record per block.
    let records: Vec<Owned> = (0..blocks).map(|n| Owned::put(&numbered(n), 1, &[7; 900])).collect();
    let settings = WriterSettings { block_bytes: 1000, ..settings() };
    let (file, finished) = written(&records, &settings);
    let table = opened(file, &finished, &settings.order, cache);
    assert_eq!(table.blocks(), blocks as usize);
    table
}

fn read(table: &Table, n: u32) {
    assert!(got(table, &numbered(n), MAX_SEQNO).unwrap().is_some());
}

/// Used bytes without the legacy of closed tables.
fn by_blocks(cache: &Cache) -> u64 {
    cache.metrics().used_bytes - cache.spares.legacy_bytes() as u64
}

fn scan(table: &Arc<Table>) {
    let mut cursor = table.cursor(true);
    cursor.first().unwrap();
    while cursor.valid() {
        cursor.next().unwrap();
    }
}

#[test]
fn cached_blocks_are_not_read_again() {
    let cache = Arc::new(Cache::new(1 << 20));
    let table = table(100, &cache);
    scan(&table);
    scan(&table);
    (0..100).for_each(|n| read(&table, n));
    let metrics = cache.metrics();
    assert_eq!((metrics.loads, metrics.blocks, metrics.evictions, metrics.refused), (100, 100, 0, 0));
}

#[test]
fn the_budget_holds() {
    for budget in [0, 1, 1500, 10_000, 100_000] {
        let cache = Arc::new(Cache::new(budget));
        let tables = [table(200, &cache), table(50, &cache)];
        let mut n = 1u32;
        for _ in 0..2000 {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            read(&tables[(n >> 30) as usize % 2], (n >> 8) % 50);
            assert!(cache.metrics().used_bytes <= budget as u64);
        }
        let metrics = cache.metrics();
        assert_eq!(metrics.blocks, metrics.loads - metrics.evictions - metrics.refused, "{metrics:?}");
    }
}

/// Memory of a closed table's blocks is reused by new blocks, and never takes their room.
#[test]
fn what_dead_tables_leave_is_used_again_and_gives_way() {
    let cache = Arc::new(Cache::within(100_000, 150_000));
    let legacy = || cache.spares.legacy_bytes();
    let first = table(60, &cache);
    scan(&first);
    let (full, held) = (cache.metrics().used_bytes, first.slots.slot(3).load_full().unwrap());
    drop(first);
    assert_eq!((by_blocks(&cache), cache.metrics().blocks), (0, 0));
    let left = legacy();
    assert!(full > 60_000 && (20_000..=25_000).contains(&left), "{left} of {full}");
    assert!(held.memory() > 900, "who holds a block keeps it");
    let second = table(400, &cache);
    for n in 0..20 {
        read(&second, n);
    }
    assert!(legacy() < left - 15_000 && cache.metrics().evictions == 0, "{}", legacy());
    for n in 20..400 {
        read(&second, n);
        assert!(cache.metrics().used_bytes <= 100_000);
    }
    assert!(legacy() < 1000 && cache.metrics().used_bytes > 90_000 && cache.metrics().evictions == 0);
    drop(second);
    assert!(legacy() > 20_000);
    let charge = Charge::new(cache.clone(), 140_000);
    assert!(legacy() <= 10_000);
    charge.set(150_000);
    assert_eq!(legacy(), 0);
}

#[test]
fn what_others_charge_takes_blocks_their_place() {
    let cache = Arc::new(Cache::within(100_000, 150_000));
    let table = table(200, &cache);
    let pinned = cache.metrics().charged_bytes;
    assert_eq!(pinned, table.pinned_bytes() as u64);
    scan(&table);
    let full = cache.metrics().used_bytes;
    assert!((90_000..=100_000).contains(&full));
    let charge = Charge::new(cache.clone(), 100_000);
    let within = |most: u64| {
        let metrics = cache.metrics();
        assert!(metrics.used_bytes <= most && metrics.used_bytes + metrics.charged_bytes <= 150_000, "{metrics:?}");
        metrics.used_bytes
    };
    assert!(within(50_000) > 30_000);
    charge.set(1_000_000);
    assert_eq!(cache.metrics().blocks, 0);
    read(&table, 7);
    assert_eq!((cache.metrics().blocks, charge.bytes()), (0, 1_000_000));
    charge.set(20_000);
    scan(&table);
    assert!(within(100_000) > 90_000);
    drop(charge);
    assert_eq!(cache.metrics().charged_bytes, pinned);
    drop(table);
    assert_eq!((cache.metrics().charged_bytes, by_blocks(&cache)), (0, 0));
}

#[test]
fn a_block_that_is_asked_for_once_drives_nothing_out_of_a_full_cache_and_is_kept_the_second_time() {
    let cache = Arc::new(Cache::new(100_000));
    let table = table(400, &cache);
    scan(&table);
    let full = cache.metrics();
    assert!(
        full.blocks > 40 && full.evictions == 0 && full.loads == 400 && full.refused == 400 - full.blocks,
        "{full:?}"
    );
    let kept: Vec<u32> = (0..400).filter(|n| table.slots.slot(*n as usize).load().is_some()).collect();
    (100..300).filter(|n| !kept.contains(n)).for_each(|n| read(&table, n));
    assert!(kept.iter().all(|n| table.slots.slot(*n as usize).load().is_some()));
    let evictions = || cache.metrics().evictions;
    assert_eq!(evictions(), 0);
    // Requested again soon: cached, and not read from the file again.
    let late = 299 - full.blocks as u32 / 8;
    for again in late..late + 3 {
        read(&table, again);
        assert!(table.slots.slot(again as usize).load().is_some());
    }
    assert!(evictions() > 0);
    let loads = cache.metrics().loads;
    read(&table, late);
    assert_eq!(cache.metrics().loads, loads);
    // Requested again too late.
    read(&table, 110);
    assert!(table.slots.slot(110).load().is_none());
    // The same for a cursor.
    let mut cursor = table.cursor(true);
    for (n, is_kept) in [(398, false), (398, true)] {
        cursor.seek(&numbered(n), MAX_SEQNO).unwrap();
        cursor.seek(&numbered(0), MAX_SEQNO).unwrap();
        assert_eq!(table.slots.slot(n as usize).load().is_some(), is_kept);
    }
}

/// A range that is scanned repeatedly has a longer period than the limit for immediate admission, and just fits into
/// the cache.
#[test]
fn what_comes_round_as_a_whole_and_fits_is_here_after_some_rounds() {
    let cache = Arc::new(Cache::new(100_000));
    let table = table(400, &cache);
    (300..400).for_each(|n| read(&table, n));
    let round = cache.metrics().blocks as u32 * 7 / 8;
    let reads_of_a_round = || {
        let before = cache.metrics().loads;
        (0..round).for_each(|n| read(&table, n));
        cache.metrics().loads - before
    };
    let rounds: Vec<u64> = (0..20).map(|_| reads_of_a_round()).collect();
    assert_eq!((rounds[0], rounds[19]), (u64::from(round), 0), "{rounds:?}");
}

/// Two consecutive requests may belong to one read: the block is cached, but evicted among the first.
#[test]
fn a_block_that_is_asked_for_twice_in_a_row_is_kept_and_drives_no_other_out_for_long() {
    let cache = Arc::new(Cache::new(100_000));
    let table = table(400, &cache);
    let is_here = |n: u32| table.slots.slot(n as usize).load().is_some();
    (0..100).for_each(|n| read(&table, n));
    let hot: Vec<u32> = (0..100).filter(|n| is_here(*n)).collect();
    hot.iter().for_each(|n| read(&table, *n));
    (200..400).for_each(|n| [n, n].iter().for_each(|n| read(&table, *n)));
    assert!(is_here(399) && !is_here(200), "it was kept and went again");
    let left = hot.iter().filter(|n| is_here(**n)).count();
    assert!(left + 16 >= hot.len(), "{left} of {}", hot.len());
}

#[test]
fn a_scan_leaves_hot_blocks_alone() {
    let cache = Arc::new(Cache::new(200 << 10));
    let hot = table(100, &cache);
    let cold = table(2000, &cache);
    for _ in 0..3 {
        (0..100).for_each(|n| read(&hot, n));
    }
    scan(&cold);
    let before = cache.metrics().loads;
    (0..100).for_each(|n| read(&hot, n));
    let again = cache.metrics().loads - before;
    assert!(again <= 10, "{again} of 100 hot blocks were lost to a scan");
}

#[test]
fn a_cursor_that_fills_no_cache_leaves_it_as_it_was() {
    let cache = Arc::new(Cache::new(1 << 20));
    let table = table(100, &cache);
    read(&table, 50);
    let mut cursor = table.cursor(false);
    cursor.first().unwrap();
    let mut count = 0;
    while cursor.valid() {
        count += 1;
        cursor.next().unwrap();
    }
    assert_eq!((count, cache.metrics().loads), (100, 1));
}

#[test]
fn a_closed_table_gives_its_bytes_back() {
    let cache = Arc::new(Cache::new(50_000));
    let kept = table(10, &cache);
    scan(&kept);
    let before = cache.metrics();
    for _ in 0..100 {
        scan(&table(20, &cache));
        assert_eq!(by_blocks(&cache), before.used_bytes);
        assert!(cache.metrics().used_bytes <= before.used_bytes + 50_000 / 4);
    }
    drop(kept);
    assert_eq!((by_blocks(&cache), cache.metrics().blocks), (0, 0));
}

#[test]
fn threads_share_a_cache_that_is_too_small() {
    let cache = Arc::new(Cache::new(20_000));
    let table = table(200, &cache);
    let threads: Vec<_> = (0..4u32)
        .map(|seed| {
            let table = table.clone();
            work::spawn("reader", false, move || {
                let mut n = seed;
                for _ in 0..5000 {
                    n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let key = numbered((n >> 8) % 200);
                    assert_eq!(got(&table, &key, 9).unwrap().unwrap().key, key);
                }
            })
            .unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let metrics = cache.metrics();
    assert!(metrics.used_bytes <= 20_000 && metrics.evictions > 0);
    drop(table);
    assert_eq!((by_blocks(&cache), cache.metrics().blocks), (0, 0));
}
