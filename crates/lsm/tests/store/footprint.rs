//! Disk usage of a store: little while it is new, more as it is used. Also log growth on a full disk, and growth
//! interrupted by a crash.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Env, Fs, Open};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_testing::store::*;

const KIB: u64 = 1024;

/// Returns the bytes of allocated blocks of all files in a real directory, ignoring files removed meanwhile.
#[expect(clippy::disallowed_methods, reason = "the file system's own count of blocks")]
fn allocated(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.filter_map(|entry| entry.unwrap().metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}

fn open_real(dir: &Path, mapped: bool) -> Db {
    let settings = Settings { wal_mapped: mapped, ..Settings::default() };
    Db::open(dir, settings, parts(Env::real())).unwrap()
}

#[test]
fn an_empty_store_takes_256_kib_and_one_with_a_small_write_1_mib() {
    for mapped in [true, false] {
        for durability in [Durability::Os, Durability::Sync] {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("store");
            let db = open_real(&dir, mapped);
            assert!(allocated(&dir) <= 256 * KIB, "{} bytes, mapped: {mapped}", allocated(&dir));
            db.close().unwrap();
            assert!(allocated(&dir) <= 256 * KIB, "{} bytes closed, mapped: {mapped}", allocated(&dir));

            let db = open_real(&dir, mapped);
            assert!(allocated(&dir) <= 256 * KIB, "{} bytes opened again, mapped: {mapped}", allocated(&dir));
            put(&db, &default(&db), b"key", b"value", durability).unwrap();
            assert!(allocated(&dir) <= 1024 * KIB, "{} bytes, {durability:?}, mapped: {mapped}", allocated(&dir));
            let reader = Db::open_read_only(&dir, Settings::default(), parts(Env::real())).unwrap();
            assert_eq!(get(&reader, &default(&reader), b"key", At::Latest).unwrap().unwrap(), b"value");
            db.close().unwrap();

            let db = open_real(&dir, mapped);
            assert!(allocated(&dir) <= 1024 * KIB, "{} bytes opened again, mapped: {mapped}", allocated(&dir));
            assert_eq!(get(&db, &default(&db), b"key", At::Latest).unwrap().unwrap(), b"value");
        }
    }
}

/// Ring and segment each hold the log's newest bytes, and each reserves up to as much again.
#[test]
fn the_disk_grows_with_the_log() {
    for durability in [Durability::Os, Durability::Sync] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("store");
        let db = open_real(&dir, true);
        let mut grown = 0;
        for n in 0..400_u64 {
            put(&db, &default(&db), format!("key-{n}").as_bytes(), &[7; 1000], durability).unwrap();
            let (used, now) = (db.metrics().wal.live_bytes, allocated(&dir));
            if used >= 512 * KIB {
                break; // the next segment is created
            }
            assert!(now <= 5 * used + 512 * KIB, "{now} bytes of disk for {used} of log, {durability:?}");
            grown = now;
        }
        assert!(grown >= 512 * KIB, "{grown}");
    }
}

/// Returns settings with small files whose log grows in many steps: two pages at first, and at most 16 KiB at once.
fn growing() -> Settings {
    Settings {
        segment_bytes: 512 * KIB,
        ring_bytes: 256 * 1024,
        drain_bytes: 32 * 1024,
        memtable_bytes: 1 << 20,
        ..settings()
    }
}

fn open_growing(sim: &SimFs, dir: &Path) -> Db {
    Db::open(dir, growing(), parts(sim.env(sim.steps()))).unwrap()
}

/// Returns a record of half a kilobyte.
fn half_kib(n: usize) -> (Vec<u8>, Vec<u8>) {
    (format!("key-{n:04}").into_bytes(), vec![n as u8; 500])
}

fn durability_of(n: usize) -> Durability {
    if n % 7 == 6 { Durability::Sync } else { Durability::Os }
}

fn check(db: &Db, least: usize, most: usize, what: &str) {
    let found = rows(db, &default(db), At::Latest).unwrap();
    assert!((least..=most).contains(&found.len()), "{} records, {least} to {most} expected: {what}", found.len());
    assert!(found.iter().enumerate().all(|(n, row)| *row == half_kib(n)), "{what}");
}

#[test]
fn growth_without_room_refuses_commits_and_loses_none() {
    for mapped in [true, false] {
        let mut refused = 0;
        for free in (0..).step_by(4096) {
            let (sim, dir) = sim(free + 1);
            sim.set_mapped(mapped);
            let db = open_growing(&sim, &dir);
            sim.set_free_space(Some(free));
            let outcome = (0..150).map(|n| put_half_kib(&db, n)).take_while(Result::is_ok).count();
            if outcome == 150 {
                break;
            }
            refused += 1;
            for _ in 0..2 {
                let error = put_half_kib(&db, outcome).unwrap_err();
                assert!(error.is_out_of_space() && error.to_string().contains("reserve"), "{error}");
                let _ = db.step();
            }
            check(&db, outcome, outcome, "while the disk is full");
            sim.set_free_space(None);
            (outcome..outcome + 50).for_each(|n| put_half_kib(&db, n).unwrap());
            kill(&sim, db);
            check(&open_growing(&sim, &dir), outcome + 50, outcome + 50, "after a crash");
        }
        assert!(refused > 10, "{refused} with mapped {mapped}");
    }
}

fn put_half_kib(db: &Db, n: usize) -> waxseal_lsm::error::Result<()> {
    let (key, value) = half_kib(n);
    put(db, &default(db), &key, &value, durability_of(n)).map(drop)
}

/// Puts up to 100 records, with steps of the lanes in between, until the machine stops. Returns the number of
/// acknowledged records, and the number of durable ones among them.
fn grow(sim: &SimFs, db: &Db) -> (usize, usize) {
    let (mut acknowledged, mut synced) = (0, 0);
    for n in 0..100 {
        let outcome = put_half_kib(db, n);
        if sim.is_crashed() {
            break; // a store into a mapping reports nothing
        }
        outcome.unwrap();
        acknowledged = n + 1;
        if durability_of(n) == Durability::Sync {
            synced = acknowledged;
        }
        if n % 10 == 9 {
            let _ = db.step();
        }
    }
    (acknowledged, synced)
}

#[test]
fn a_crash_at_any_step_of_growth_loses_nothing_that_was_acknowledged() {
    let begin = || {
        let (sim, dir) = sim(21);
        let db = open_growing(&sim, &dir);
        (sim, dir, db)
    };
    let (sim, _, db) = begin();
    let opened = sim.steps();
    assert_eq!(grow(&sim, &db), (100, 98));
    let steps: Vec<u64> = sim.changing_steps().into_iter().filter(|step| *step >= opened).collect();
    drop(db);
    assert!(steps.len() > 200, "{}", steps.len());
    for step in steps {
        let (sim, dir, db) = begin();
        sim.crash_at(step);
        let (acknowledged, synced) = grow(&sim, &db);
        drop(db);
        let losses = [Loss::DurableOnly, Loss::KeepAll, Loss::Random { seed: step }].map(Crash::Machine);
        for crash in [Crash::Process].into_iter().chain(losses) {
            let fork = sim.fork();
            fork.reboot(crash);
            let least = if crash == Crash::Process { acknowledged } else { synced };
            let db = open_growing(&fork, &dir);
            check(&db, least, acknowledged + 1, &format!("{crash:?} at step {step}"));
            db.close().unwrap();
        }
    }
}

/// Older versions reserved the whole ring and the whole first segment.
#[test]
fn a_store_with_full_size_files_opens_and_goes_on_in_small_ones() {
    let (sim, dir) = sim(22);
    let db = open_growing(&sim, &dir);
    (0..30).for_each(|n| put_half_kib(&db, n).unwrap());
    kill(&sim, db);
    for name in [named(&sim, &dir, ".ring"), named(&sim, &dir, ".log")].concat() {
        let file = sim.open(&dir.join(name), Open::Write).unwrap();
        file.allocate(file.len().unwrap()).unwrap();
    }
    let reader = Db::open_read_only(&dir, growing(), Parts { ..parts(sim.env(7)) }).unwrap();
    check(&reader, 30, 30, "read only");
    drop(reader);
    let free = 10 << 20;
    sim.set_free_space(Some(free));
    let db = open_growing(&sim, &dir);
    let taken = free.saturating_sub(sim.free_space().unwrap());
    assert!(taken < 128 * KIB, "{taken} bytes for a new ring and segment");
    check(&db, 30, 30, "opened again");
    (30..60).for_each(|n| put_half_kib(&db, n).unwrap());
    kill(&sim, db);
    check(&open_growing(&sim, &dir), 60, 60, "after a crash");
}
