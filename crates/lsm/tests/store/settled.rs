//! Disk usage of settled and of closed stores, measured in bytes of files, never in time.

use std::path::Path;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::SimFs;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_testing::store::*;

const SEGMENT: u64 = 256 * 1024;
/// An eighth of a segment.
const SHORT: u64 = 32 * 1024;

fn settings() -> Settings {
    Settings { segment_bytes: SEGMENT, ..waxseal_testing::store::settings() }
}

/// Opens a store with the default level structure on a smaller scale: several tables wait in level 0 above one more
/// level.
fn open(sim: &SimFs, dir: &Path) -> Db {
    let options =
        CfOptions { level_base_bytes: 1 << 20, table_bytes: 64 * 1024, level0_tables: 4, fanout: 10, ..options() };
    let parts = Parts { families: vec![("default".into(), options)], ..parts(sim.env(sim.steps())) };
    Db::open(dir, settings(), parts).unwrap()
}

/// Returns the bytes of all files with this suffix.
fn bytes(sim: &SimFs, dir: &Path, end: &str) -> u64 {
    let names = sim.files(dir).into_iter().filter(|name| name.ends_with(end));
    names.map(|name| sim.read_all(dir.join(name)).unwrap().len() as u64).sum()
}

fn step_all(db: &Db) {
    while db.step().unwrap() {}
}

#[test]
fn a_settled_store_holds_little_besides_one_version_of_each_record() {
    for rounds in 1..6 {
        let (sim, dir) = sim(rounds as u64);
        let db = open(&sim, &dir);
        for round in 0..=rounds {
            // Each round writes less than the trigger of level 0.
            fill(&db, 0..600, round);
            db.flush().unwrap();
            step_all(&db);
        }
        let before = bytes(&sim, &dir, ".tbl");
        db.settle().unwrap();
        let settled = bytes(&sim, &dir, ".tbl");
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..600, rounds));
        db.compact(&default(&db), &ALL).unwrap();
        let least = bytes(&sim, &dir, ".tbl");
        assert!(
            settled <= least + least / 8,
            "{settled} bytes of tables are settled, {least} would do; {before} before"
        );
        assert_eq!(bytes(&sim, &dir, ".log"), SHORT, "{:?}", sim.files(&dir));
    }
}

#[test]
fn the_log_of_a_settled_store_is_short_until_it_is_written() {
    for (mapped, durability) in [(true, Durability::Os), (true, Durability::Sync), (false, Durability::Sync)] {
        let (sim, dir) = sim(7);
        sim.set_mapped(mapped);
        let db = open(&sim, &dir);
        let mut known = 0;
        for _ in 0..3 {
            // Enough for segments that are retired and kept as spares.
            for n in known..known + 6_000 {
                let (key, value) = record(n, 0);
                put(&db, &default(&db), &key, &value, durability).unwrap();
                if n % 64 == 0 {
                    step_all(&db);
                }
            }
            known += 6_000;
            step_all(&db);
            assert!(bytes(&sim, &dir, ".log") >= 2 * SEGMENT, "{:?}", sim.files(&dir));
            db.settle().unwrap();
            assert_eq!(bytes(&sim, &dir, ".log"), SHORT, "{:?}", sim.files(&dir));
            let steps = sim.changing_steps().len();
            db.settle().unwrap();
            assert_eq!(sim.changing_steps().len(), steps, "what has settled stays as it is");
        }
        // Kill the store now, and again after writing a few more records.
        kill(&sim, db);
        let db = open(&sim, &dir);
        db.settle().unwrap();
        fill(&db, known..known + 10, 0);
        kill(&sim, db);
        let db = open(&sim, &dir);
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap().len(), known + 10);
    }
}

#[test]
fn a_closed_store_keeps_the_log_that_it_needs_and_no_more() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir);
    let needed = |db: &Db| (db.metrics().wal.live_bytes / (SEGMENT - 4096) + 1) * SEGMENT;
    let mut known = 0;
    while known < 3_000 || bytes(&sim, &dir, ".log") <= needed(&db) {
        assert!(known < 9_000, "a written store keeps segments ready");
        fill(&db, known..known + 16, 0);
        known += 16;
        step_all(&db);
    }
    let needed = needed(&db);
    db.close().unwrap();
    assert!(bytes(&sim, &dir, ".log") <= needed, "{:?}", sim.files(&dir));
    let db = open(&sim, &dir);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..known, 0));
    fill(&db, 0..1, 0);
    db.flush().unwrap();
    db.close().unwrap();
    assert_eq!(bytes(&sim, &dir, ".log"), SHORT, "{:?}", sim.files(&dir));
    let db = open(&sim, &dir);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..known, 0));
}
