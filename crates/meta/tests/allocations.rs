//! A cached read, a cached cursor step and a cached seek allocate nothing.

use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::{Uid, hash};
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::{Fs, Open, RealFs};
use waxseal_lsm::memtable::Memtable;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings, Verify};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_lsm::sst::{Cache, Checks, Expected, Table, Writer, WriterSettings};
use waxseal_meta::Sealer;
use waxseal_testing::allocator::{Counting, allocations};
use waxseal_testing::protector::TestProtector;
use waxseal_testing::records::Owned;

const BLOCK_BYTES: usize = 4096;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn table(records: u32) -> (tempfile::TempDir, Arc<Table>) {
    let (dir, table, _) = table_packed(records, 64 << 20, Compression::None);
    (dir, table)
}

fn table_packed(
    records: u32,
    cache_bytes: usize,
    compression: Compression,
) -> (tempfile::TempDir, Arc<Table>, Arc<Cache>) {
    let dir = tempfile::tempdir().unwrap();
    let file = RealFs.open(&dir.path().join("000001.tbl"), Open::Create).unwrap();
    let options = CfOptions { block_bytes: BLOCK_BYTES, compression, ..CfOptions::default() };
    let settings = WriterSettings { seal_column: false, ..WriterSettings::of(&options, 0, 1) };
    let uid = Uid([1; 16]);
    let protector: Arc<dyn Companions> = Arc::new(TestProtector::default());
    let mut writer = Writer::new(file.clone(), uid, settings, protector.clone());
    for n in 0..records {
        let key = format!("{n:016}").into_bytes();
        let record = Owned::made(&*protector, Kind::Put, &key, 1 + n as u64, &[7; 100]).unwrap();
        writer.add(&record.record()).unwrap();
    }
    let finished = writer.finish().unwrap();
    let expected = Expected { uid, size: finished.size, digest: finished.digest, ingest_seqno: 0 };
    let cache = Arc::new(Cache::new(cache_bytes));
    let table = Table::open("000001.tbl".into(), file, expected, Order::bytewise(), cache.clone(), protector).unwrap();
    (dir, table, cache)
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(100)))) > 0);
}

#[test]
fn a_cached_get_allocates_nothing() {
    let (_dir, table) = table(10_000);
    let keys: Vec<Vec<u8>> = (0..10_500u32).map(|n| format!("{n:016}").into_bytes()).collect();
    let mut bytes = 0;
    let absent: Vec<Vec<u8>> = (0..10_000u32).map(|n| format!("{n:015}x").into_bytes()).collect();
    let mut read_all = || {
        // Some absent keys pass the filter, so their neighbors are read.
        for key in keys.iter().chain(&absent) {
            table.get(key, hash(key), MAX_SEQNO, Checks::EACH, &mut |record| bytes += record.value.len()).unwrap();
        }
    };
    read_all();
    assert_eq!(allocations(read_all), 0);
    assert_eq!(bytes, 2 * 10_000 * 100);
}

/// A block is loaded into the buffers of the block it evicts, whichever thread allocated them. Memory thus does not
/// move between the allocator's arenas, and no thread waits for one.
#[test]
fn a_full_cache_reads_blocks_into_those_that_made_way() {
    // One buffer each for the entries under verification, and one for the compressed bytes.
    for (compression, each) in [(Compression::None, 1), (Compression::Lz4, 2)] {
        let (_dir, table, cache) = table_packed(40_000, 2 << 20, compression);
        let key = |n: u64| format!("{:016}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 & 0x7FFF).into_bytes();
        let keys: Vec<Vec<u8>> = (0..20_000).map(key).collect();
        let loads = || cache.metrics().loads;
        let read_all = || {
            for key in &keys {
                table.get(key, hash(key), MAX_SEQNO, Checks::EACH, &mut |_| ()).unwrap();
            }
        };
        read_all();
        let before = loads();
        let allocated = allocations(read_all);
        let loaded = loads() - before;
        assert!(
            loaded > 5_000 && allocated <= loaded * each + loaded / 20,
            "{allocated} for {loaded} blocks, {compression:?}"
        );
    }
}

#[test]
fn cached_cursor_steps_and_seeks_allocate_nothing() {
    let (_dir, table) = table(10_000);
    let keys: Vec<Vec<u8>> = (0..10_500u32).step_by(7).map(|n| format!("{n:016}").into_bytes()).collect();
    for verify in [Verify::Never, Verify::Sampled(64), Verify::Always] {
        walks_without_allocating(&table, &keys, verify);
    }
}

/// A cursor that leaves an uncached block returns the block's buffer, whether it continues in a cached block or ends.
#[test]
fn a_cursor_reads_blocks_into_those_that_it_has_left() {
    let tables = [(); 2].map(|()| table_packed(40_000, 2 << 20, Compression::None));
    let key = |n: u64| format!("{:016}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 & 0x7FFF).into_bytes();
    let keys: Vec<Vec<u8>> = (0..4_000).map(key).collect();
    let loads = || tables.iter().map(|(_, _, cache)| cache.metrics().loads).sum::<u64>();
    let seek_all = || {
        for two in keys.chunks(2) {
            let mut cursor = tables[0].1.cursor_checked(Verify::Always);
            cursor.seek(&two[0], MAX_SEQNO).unwrap();
            cursor.seek(b"0000000000000000", MAX_SEQNO).unwrap();
            cursor.seek(&two[1], MAX_SEQNO).unwrap();
            drop(cursor);
            tables[1].1.cursor_checked(Verify::Always).seek(&two[1], MAX_SEQNO).unwrap();
        }
    };
    (0..3).for_each(|_| seek_all());
    let before = loads();
    let allocated = allocations(seek_all);
    let loaded = loads() - before;
    // One per load, and one for each cursor's key.
    let cursors = keys.len() as u64;
    assert!(loaded > 3_000 && allocated <= loaded + cursors + loaded / 20, "{allocated} for {loaded} blocks");
}

fn walks_without_allocating(table: &Arc<Table>, keys: &[Vec<u8>], verify: Verify) {
    let mut cursor = table.cursor_checked(verify);
    let mut steps = 0;
    let mut walk = || {
        cursor.first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
            steps += 1;
        }
        cursor.last().unwrap();
        while cursor.valid() {
            cursor.prev().unwrap();
            steps += 1;
        }
        for key in keys {
            cursor.seek(key, MAX_SEQNO).unwrap();
            cursor.seek_for_prev(key, 0).unwrap();
        }
    };
    walk();
    assert_eq!(allocations(walk), 0);
    assert_eq!(steps, 40_000);
}

/// The memtable allocates chunks of its arena, leaves and filter now and then, but no memory per record, get or step.
#[test]
fn a_memtable_allocates_its_pieces_and_nothing_else() {
    let table = Arc::new(Memtable::with_budget(Order::bytewise(), 64 << 20));
    let keys: Vec<Vec<u8>> =
        (0..20_000u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes().to_vec()).collect();
    let fill = || {
        for (key, seqno) in keys.iter().zip(1..) {
            let record = Record { key, seqno, kind: Kind::Put, value: &[7; 100], companion: &[8; 9] };
            table.insert(&record, seqno).unwrap();
        }
    };
    let pieces = allocations(fill);
    assert!(pieces < 600, "{pieces} for 20,000 records");
    let mut cursor = table.cursor();
    let mut seen = 0;
    let read = || {
        for key in &keys {
            seen += u64::from(table.get(key, MAX_SEQNO, &mut |record| assert_eq!(record.value.len(), 100)));
            cursor.seek(key, MAX_SEQNO).unwrap();
            cursor.seek_for_prev(key, 0).unwrap();
        }
        cursor.first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
            seen += 1;
        }
        cursor.last().unwrap();
        while cursor.valid() {
            cursor.prev().unwrap();
            seen += 1;
        }
    };
    assert_eq!(allocations(read), 0);
    assert_eq!(seen, 60_000);
}

#[test]
fn a_batch_of_one_is_made_and_sealed_without_an_allocation() {
    let mut batch = Batch::new();
    let mut put = |n: u32| {
        batch.clear();
        batch.push(0, Kind::Put, &n.to_le_bytes(), &[7; 100], &Plain).unwrap();
        assert_eq!(batch.seal().count, 1);
    };
    put(0);
    assert_eq!(allocations(|| (1..100).for_each(put)), 0);
}

/// Creates a store with a settled level, two tables above it and a memtable, in which some keys were overwritten;
/// returns the number of keys.
fn layers(dir: &std::path::Path) -> (Db, Family, usize) {
    let parts = Parts { companions: Arc::new(Sealer::new()), ..Parts::real() };
    let db = Db::open(dir, Settings::default(), parts).unwrap();
    let family = db.family("default").unwrap();
    for (every, settles) in [(1, true), (10, false), (100, false), (1000, false)] {
        for n in (0..10_000).step_by(every) {
            let mut batch = Batch::new();
            let (key, value) = (format!("{n:016}").into_bytes(), vec![every as u8; 100]);
            batch.push(family.id(), Kind::Put, &key, &value, db.companions()).unwrap();
            db.commit(&mut batch, Durability::Buffered).unwrap();
        }
        match (settles, every) {
            (true, _) => db.settle().unwrap(),
            (false, 1000) => {}
            (false, _) => db.flush().unwrap(),
        }
    }
    (db, family, 10_000)
}

#[test]
fn a_kept_cursor_over_a_store_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (db, family, keys) = layers(dir.path());
    let seeks: Vec<Vec<u8>> = (0..10_500u32).step_by(7).map(|n| format!("{n:016}").into_bytes()).collect();
    for verify in [Verify::Never, Verify::Sampled(64), Verify::Always] {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = db.cursor_checked(&family, At::Latest, everything, verify).unwrap();
        let mut shown = 0;
        let mut walk = || {
            cursor.first().unwrap();
            while cursor.valid() {
                shown += usize::from(cursor.value().len() == 100);
                cursor.next().unwrap();
            }
            cursor.last().unwrap();
            while cursor.valid() {
                shown += usize::from(cursor.key().len() == 16);
                cursor.prev().unwrap();
            }
            for key in &seeks {
                cursor.seek(key).unwrap();
                (0..10).for_each(|_| cursor.next().unwrap());
                cursor.seek_for_prev(key).unwrap();
                (0..10).for_each(|_| cursor.prev().unwrap());
            }
        };
        walk();
        assert_eq!(allocations(&mut walk), 0, "{verify:?}");
        assert_eq!(shown, 4 * keys);
    }
}

#[test]
fn a_read_of_a_large_value_in_memory_allocates_nothing_and_asks_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let parts = Parts { companions: Arc::new(Sealer::new()), ..Parts::real() };
    let db = Db::open(dir.path(), Settings::default(), parts).unwrap();
    let family = db.family("default").unwrap();
    let mut batch = Batch::new();
    for n in 0..100u8 {
        batch.clear();
        batch.push(family.id(), Kind::Put, &[n], &vec![n; 20_000], db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    }
    db.settle().unwrap();
    let resident = |n: u8| db.get_resident(&family, &[n], At::Latest, Verify::Always, &mut |_| {}).unwrap();
    assert_eq!(resident(1), None, "nobody has read it yet");
    let loads = || db.metrics().cache.loads;
    for verify in [Verify::Always, Verify::OnFill, Verify::Never] {
        let mut shown = 0;
        let mut walk = || {
            for n in 0..100u8 {
                let visit = &mut |record: &Record<'_>| shown += usize::from(*record.value == [n; 20_000]);
                db.get_checked(&family, &[n], At::Latest, verify, visit).unwrap();
            }
        };
        (0..2).for_each(|_| walk());
        let before = loads();
        assert_eq!(allocations(&mut walk), 0, "{verify:?}");
        assert_eq!((shown, loads()), (300, before));
    }
    assert!((0..100).all(|n| resident(n) == Some(true)));
}
