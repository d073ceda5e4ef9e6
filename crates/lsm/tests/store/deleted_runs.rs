//! Runs of deleted keys: a reader walks over one once, and no reader misses a record in it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Snapshot};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::order::{Comparator, Order};
use waxseal_lsm::record::Kind;
use waxseal_testing::store::*;

/// The bytewise order, counted.
#[derive(Default)]
struct Counted(AtomicU64);

impl Comparator for Counted {
    fn name(&self) -> &str {
        "test.counted"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

/// Returns the first key.
fn first(db: &Db, family: &Family, at: At<'_>) -> Option<Vec<u8>> {
    let mut cursor = db.cursor(family, at, (Bound::Unbounded, Bound::Unbounded)).unwrap();
    cursor.first().unwrap();
    cursor.valid().then(|| cursor.key().to_vec())
}

/// The records of a queue lie in a table and their tombstones in memory, so that no source alone knows what is deleted.
#[test]
fn the_head_of_a_queue_is_found_without_a_walk() {
    let (sim, dir) = sim(41);
    let settings = Settings { memtable_bytes: 1 << 20, ..settings() };
    let db = Db::open(&dir, settings, parts(sim.env(41))).unwrap();
    let counted = Arc::new(Counted::default());
    let options = CfOptions { order: Order::custom(counted.clone()), ..options() };
    let family = db.create_family("queue", options).unwrap();
    for n in 0..2000 {
        put(&db, &family, &key(n), b"message", Durability::Os).unwrap();
    }
    db.flush().unwrap();
    let _pause = db.pause_background().unwrap();
    let comparisons = |expected: u32| {
        let before = counted.0.load(Relaxed);
        assert_eq!(first(&db, &family, At::Latest), Some(key(expected)));
        counted.0.load(Relaxed) - before
    };
    for n in 0..1000 {
        delete(&db, &family, &key(n)).unwrap();
    }
    let walk = comparisons(1000);
    delete(&db, &family, &key(1000)).unwrap(); // the first commit that is noted
    comparisons(1001);
    let seek = comparisons(1001);
    assert!(walk > 1000 && seek < 300, "{walk} comparisons, then {seek}");
    for n in 1001..1500 {
        delete(&db, &family, &key(n)).unwrap();
        let costs = comparisons(n + 1);
        assert!(costs < 300, "{costs} comparisons behind {n} deleted keys");
    }
    // A record in the midst of the run, and one in front of it.
    put(&db, &family, &key(700), b"again", Durability::Os).unwrap();
    comparisons(700);
    put(&db, &family, &key(3), b"again", Durability::Os).unwrap();
    comparisons(3);
}

/// Puts, deletes, flushes, compactions and snapshots at random, in long runs of neighbors, beside a model.
#[test]
fn no_record_in_a_deleted_run_is_missed() {
    for seed in 0..12 {
        random_run(seed);
    }
}

fn random_run(seed: u64) {
    type Model = BTreeMap<Vec<u8>, Vec<u8>>;
    let (sim, dir) = sim(seed);
    let settings = Settings { memtable_bytes: if seed.is_multiple_of(2) { 1 << 20 } else { 16 << 10 }, ..settings() };
    let db = Db::open(&dir, settings, parts(sim.env(seed))).unwrap();
    let family = default(&db);
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |n: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % n
    };
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    let scan = |at: At<'_>, model: &Model, from: Option<Vec<u8>>, steps: usize| {
        let mut cursor = db.cursor(&family, at, (Bound::Unbounded, Bound::Unbounded)).unwrap();
        match &from {
            None => cursor.first().unwrap(),
            Some(from) => cursor.seek(from).unwrap(),
        }
        for (key, value) in model.range(from.clone().unwrap_or_default()..).take(steps) {
            assert!(cursor.valid(), "seed {seed}: {:?} is missed", String::from_utf8_lossy(key));
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]), "seed {seed}");
            cursor.next().unwrap();
        }
        assert!(steps < usize::MAX || !cursor.valid(), "seed {seed}: one more");
    };
    for step in 0..400u32 {
        let (start, length) = (below(600), 1 + below(200));
        match below(10) {
            0..3 => {
                for n in (start..start + length).step_by(1 + below(3) as usize) {
                    put(&db, &family, &key(n), &step.to_le_bytes(), Durability::Os).unwrap();
                    model.insert(key(n), step.to_le_bytes().to_vec());
                }
            }
            3..6 => {
                for n in start..start + length {
                    delete(&db, &family, &key(n)).unwrap();
                    model.remove(&key(n));
                }
            }
            6 => {
                let n = below(800);
                put(&db, &family, &key(n), b"one", Durability::Os).unwrap();
                model.insert(key(n), b"one".to_vec());
            }
            7 => {
                let mut batch = Batch::new();
                let (start, end) = (key(start), key(start + length));
                batch.delete_range(family.id(), (Some(&start), Some(&end)), db.companions()).unwrap();
                db.commit(&mut batch, Durability::Os).unwrap();
                model.retain(|of, _| *of < start || *of >= end);
            }
            8 if below(3) == 0 => db.flush().unwrap(),
            8 if below(6) == 0 => db.settle().unwrap(),
            8 => {
                let n = below(800);
                db.bulk_load(&family, &mut |load| load.push(Kind::Put, &key(n), b"ingested", &[])).unwrap();
                model.insert(key(n), b"ingested".to_vec());
                // A reader from before the ingestion must not mislead those after it.
                for (snapshot, model) in &snapshots {
                    scan(At::Snapshot(snapshot), model, None, 2);
                }
            }
            _ => snapshots.push((db.snapshot().unwrap(), model.clone())),
        }
        if snapshots.len() > 3 {
            snapshots.remove(below(3) as usize);
        }
        for _ in 0..3 {
            scan(At::Latest, &model, None, 2);
            scan(At::Latest, &model, Some(key(below(800))), 3);
        }
        if let Some((snapshot, model)) = snapshots.first() {
            scan(At::Snapshot(snapshot), model, None, 2);
        }
        if step % 20 == 0 {
            scan(At::Latest, &model, None, usize::MAX);
        }
    }
}
