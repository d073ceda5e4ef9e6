//! Pauses of background work: nothing starts by itself, writers stay bounded, and explicit calls work.

use waxseal_lsm::db::{At, Db, Metrics};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::MIB;
use waxseal_testing::store::*;

fn step_all(db: &Db) {
    while db.step().unwrap() {}
}

/// Flushes and compactions of any kind so far.
fn jobs(db: &Db) -> (u64, u64) {
    let Metrics { flushes, compactions, moves, .. } = db.metrics();
    (flushes, compactions + moves)
}

#[test]
fn nothing_starts_by_itself_until_the_last_pause_ends() {
    let (sim, dir) = sim(1);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 1);
    let (one, other) = (db.pause_background().unwrap(), db.pause_background().unwrap());
    let before = jobs(&db);
    let full = (0..).find(|n| {
        fill(&db, n * 5..n * 5 + 5, 2);
        db.metrics().families[0].frozen > 0
    });
    assert!(full.is_some_and(|n| n < 100));
    step_all(&db);
    drop(one);
    step_all(&db);
    assert_eq!((jobs(&db), db.metrics().families[0].frozen), (before, 1));
    drop(other);
    step_all(&db);
    assert_eq!((jobs(&db).0, db.metrics().families[0].frozen), (before.0 + 1, 0));
}

#[test]
fn compactions_that_are_due_wait_for_the_end_of_the_pause() {
    let (sim, dir) = sim(2);
    let db = open(&sim, &dir);
    let pause = db.pause_background().unwrap();
    for round in 0..4 {
        fill(&db, 0..60, round);
        db.flush().unwrap(); // an explicit call does its work
        step_all(&db);
    }
    assert_eq!(jobs(&db), (4, 0));
    drop(pause);
    step_all(&db);
    assert!(jobs(&db).1 > 0);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..60, 3));
}

#[test]
fn explicit_calls_work_during_a_pause() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir);
    let _pause = db.pause_background().unwrap();
    for round in 0..4 {
        fill(&db, 0..60, round);
        db.flush().unwrap();
    }
    db.compact(&default(&db), &ALL).unwrap();
    assert!(jobs(&db).1 > 0);
    fill(&db, 0..600, 9);
    db.settle().unwrap();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..600, 9));
}

/// The memtables of 16 KiB would take megabytes, and level 0 hundreds of tables.
#[test]
fn writers_during_a_pause_are_bounded_and_end() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir);
    let _pause = db.pause_background().unwrap();
    let mut most = (0, 0);
    for round in 0..40 {
        for n in 0..12 {
            fill(&db, n * 50..n * 50 + 50, round);
            let metrics = db.metrics();
            most = (most.0.max(metrics.memory.memtable_bytes), most.1.max(metrics.families[0].levels[0].tables));
        }
    }
    assert!(most.0 < MIB as u64 && (1..=200).contains(&most.1), "{most:?}");
    assert!(jobs(&db).0 > 0 && db.metrics().stalls > 0);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..600, 39));
}

#[test]
fn a_close_ends_the_effect_of_pauses() {
    let (sim, dir) = sim(5);
    let db = open(&sim, &dir);
    let pause = db.pause_background().unwrap();
    fill(&db, 0..300, 1);
    db.close().unwrap();
    drop(pause);
    assert_kind(db.pause_background(), ErrorKind::Closed, "a closed store");
    let db = open(&sim, &dir);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..300, 1));
    let pause = db.pause_background().unwrap();
    drop(db); // the last handle closes the store
    drop(pause);
    open(&sim, &dir);
}
