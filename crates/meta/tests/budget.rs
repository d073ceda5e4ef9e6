//! A store's memory stays within its budget, measured by the allocator under a mixed load on four times as much data. A
//! list of backups needs the memory of one description.

use std::ops::Bound;
use std::sync::{Arc, Mutex};

use waxseal_lsm::backup::{Backup, BackupOptions};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::{Fs, Open, RealFs};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, KIB, MIB, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_testing::allocator::{Counting, live_bytes, peak_bytes, reset_peak};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocator counts for the process, so that one test at a time may measure.
static MEASURED: Mutex<()> = Mutex::new(());

const BUDGET: usize = 16 * MIB;

/// Bytes by which a store may exceed its budget, for temporary memory of calls and threads.
const SLACK: usize = 4 * MIB;

fn value(random: u64) -> Vec<u8> {
    (0..200 + random % 1200).map(|at| (random.rotate_left(at as u32 % 64) >> 3) as u8).collect()
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 20
}

struct Store {
    db: Db,
    families: Vec<Family>,
    batch: Batch,
}

impl Store {
    fn put(&mut self, random: &mut u64) -> Result<usize> {
        let (n, family) = (next(random), next(random) as usize % self.families.len());
        let (key, value) = (format!("{:012}", n % 100_000), value(n));
        self.batch.clear();
        let kind = if n.is_multiple_of(16) { Kind::Delete } else { Kind::Put };
        let value = if kind == Kind::Put { &value[..] } else { &[] };
        self.batch.push(self.families[family].id(), kind, key.as_bytes(), value, self.db.companions())?;
        self.db.commit(&mut self.batch, Durability::Os)?;
        Ok(key.len() + value.len())
    }

    fn read(&self, random: &mut u64) -> Result<()> {
        let (n, family) = (next(random), next(random) as usize % self.families.len());
        let key = format!("{:012}", n % 100_000);
        self.db.get(&self.families[family], key.as_bytes(), At::Latest, &mut |_| ())?;
        if n.is_multiple_of(64) {
            let mut cursor =
                self.db.cursor(&self.families[family], At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
            cursor.seek(key.as_bytes())?;
            for _ in 0..200 {
                if cursor.valid() {
                    cursor.next()?;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn a_mixed_load_on_four_times_the_budget_stays_within_it() {
    let _alone = MEASURED.lock().unwrap();
    let home = tempfile::tempdir().unwrap();
    let settings = Settings {
        memory_bytes: BUDGET,
        cache_bytes: BUDGET,
        memtable_bytes: BUDGET / 2,
        ring_bytes: MIB,
        drain_bytes: 64 * KIB,
        segment_bytes: 2 * MIB as u64,
        ..Settings::default()
    };
    let options = CfOptions {
        compression: Compression::None,
        table_bytes: 2 * MIB as u64,
        level_base_bytes: 8 * MIB as u64,
        ..CfOptions::default()
    };
    let families = ["default", "other"].map(|name| (name.to_owned(), options.clone()));
    let parts = Parts { companions: Arc::new(Sealer::new()), families: families.to_vec(), ..Parts::real() };
    let before = live_bytes();
    let db = Db::open(home.path(), settings, parts).unwrap();
    let families = db.families();
    let mut store = Store { db, families, batch: Batch::new() };
    let (mut random, mut written, mut seen) = (1u64, 0, [0u64; 3]);
    reset_peak();
    while written < 4 * BUDGET {
        for _ in 0..64 {
            written += store.put(&mut random).unwrap();
            store.read(&mut random).unwrap();
        }
        let memory = store.db.metrics().memory;
        seen[0] = seen[0].max(memory.memtable_bytes);
        seen[1] = seen[1].max(memory.block_bytes);
        seen[2] = seen[2].max(memory.other_bytes);
        assert_eq!(memory.budget_bytes, BUDGET as u64);
    }
    store.db.settle().unwrap();
    let most = peak_bytes().saturating_sub(before);
    println!("{most} bytes at most of {BUDGET}; memtables, blocks and else: {seen:?}\n{}", store.db.metrics());
    assert!(most <= BUDGET + SLACK, "{most} bytes");
    // The budget was used, and each part had its share.
    assert!(seen.iter().all(|bytes| *bytes >= MIB as u64 / 2), "{seen:?}");

    // Memory held by a snapshot is reported separately.
    store.put(&mut random).unwrap();
    let snapshot = store.db.snapshot().unwrap();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let cursor = |family: &Family| store.db.cursor(family, At::Snapshot(&snapshot), everything.clone());
    let cursors: Vec<_> = store.families.iter().map(|family| cursor(family).unwrap()).collect();
    store.db.flush().unwrap();
    assert!(store.db.metrics().memory.held_by_callers_bytes > 0);
    drop((cursors, snapshot));
    assert_eq!(store.db.metrics().memory.held_by_callers_bytes, 0);
    assert_eq!(store.db.metrics().memory.memtable_bytes, 0);
}

#[test]
fn backups_are_listed_one_description_at_a_time() {
    let _alone = MEASURED.lock().unwrap();
    let home = tempfile::tempdir().unwrap();
    let backups = home.path().join("backups");
    // The bounds of the tables make the descriptions long.
    let options = CfOptions { level0_tables: 64, ..CfOptions::default() };
    let parts = Parts { families: vec![("default".to_owned(), options)], ..Parts::real() };
    let db = Db::open(&home.path().join("store"), Settings::default(), parts).unwrap();
    let family = db.family("default").unwrap();
    for table in 0..10u8 {
        let mut batch = Batch::new();
        for key in [vec![table; 60_000], vec![255 - table; 60_000]] {
            batch.push(family.id(), Kind::Put, &key, b"", db.companions()).unwrap();
        }
        db.commit(&mut batch, Durability::Os).unwrap();
        db.flush().unwrap();
    }
    for _ in 0..12 {
        Backup::create(&db, &backups, BackupOptions::default()).unwrap();
    }
    drop(family);
    db.close().unwrap();
    drop(db);
    let one = RealFs.open(&backups.join("BACKUP-000012"), Open::Read).unwrap().len().unwrap() as usize;
    assert!(one > MIB, "{one} bytes");
    let backup = Backup::open(&backups).unwrap();
    let before = live_bytes();
    reset_peak();
    assert_eq!(backup.list().unwrap().len(), 12);
    let most = peak_bytes().saturating_sub(before);
    assert!(most <= 6 * one, "{most} bytes for descriptions of {one}");
}
