//! Execution of jobs: divided among threads, and limited in rate.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::sim::Fault;
use waxseal_lsm::env::{Env, SimFs};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Companions, DropReason};
use waxseal_testing::store::*;

/// Fills and settles a store; returns its rows, and the number of records and tombstones by level.
fn settled(settings: Settings) -> (Rows, Vec<(u64, u64)>, u64) {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(&home.path().join("store"), settings, parts(Env::real())).unwrap();
    let family = default(&db);
    for round in 0..3 {
        fill(&db, 0..1500, round);
    }
    for n in (0..1500).step_by(7) {
        delete(&db, &family, &record(n, 0).0).unwrap();
    }
    db.settle().unwrap();
    db.compact(&family, &ALL).unwrap();
    let metrics = db.metrics();
    let levels = metrics.families[0].levels.iter().map(|level| (level.records, level.tombstones));
    (rows(&db, &family, At::Latest).unwrap(), levels.collect(), metrics.subcompactions)
}

#[test]
fn parts_of_a_compaction_give_what_one_pass_gives() {
    let [one, many] = [1, 4].map(|subcompactions| settled(Settings { subcompactions, ..settings() }));
    assert_eq!((one.2, many.2 > 0), (0, true));
    assert_eq!(one.0, many.0);
    assert_eq!(one.1, many.1);
    assert_eq!(one.0.len(), 1500 - 1500usize.div_ceil(7));
}

#[test]
fn jobs_wait_for_their_rate() {
    let unlimited = Settings::default().background_bytes_per_second;
    for rate in [unlimited, 256 * 1024] {
        let home = tempfile::tempdir().unwrap();
        let settings = Settings { memtable_bytes: 1 << 20, background_bytes_per_second: rate, ..settings() };
        let db = Db::open(&home.path().join("store"), settings, parts(Env::real())).unwrap();
        let family = default(&db);
        for n in 0..200u32 {
            put(&db, &family, &n.to_le_bytes(), &[7; 2048], Durability::Os).unwrap();
        }
        db.flush().unwrap();
        // More was written than the rate allows at once, so some writes were delayed.
        assert_eq!(db.metrics().paced_nanos > 0, rate != unlimited);
        assert!(db.metrics().flushed_bytes > 256 * 1024);
    }
}

#[test]
fn versions_that_nobody_sees_any_more_go_when_asked() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(&home.path().join("store"), settings(), parts(Env::real())).unwrap();
    let family = default(&db);
    let records = || db.metrics().families[0].levels.iter().map(|level| level.records).sum::<u64>();
    fill(&db, 0..300, 0);
    let snapshot = db.snapshot().unwrap();
    fill(&db, 0..300, 1);
    db.compact(&family, &ALL).unwrap();
    assert_eq!(records(), 600, "the snapshot sees the old ones");
    db.compact(&family, &ALL).unwrap();
    assert_eq!(records(), 600);
    drop(snapshot);
    db.compact(&family, &ALL).unwrap();
    assert_eq!(records(), 300, "they stand at the bottom, without a tombstone beside them");
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 300);
}

/// Creates a store in which only a cursor still holds replaced tables.
fn held_by_a_cursor(seed: u64) -> (SimFs, PathBuf, Db, UserCursor) {
    let (sim, dir) = sim(seed);
    let db = open(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..500, 0);
    db.settle().unwrap();
    let mut cursor = db.cursor(&family, At::Latest, ALL).unwrap();
    cursor.first().unwrap();
    fill(&db, 0..500, 1);
    db.compact(&family, &ALL).unwrap();
    while db.step().unwrap() {}
    (sim, dir, db, cursor)
}

/// Freeing all blocks of a table takes 0.1 seconds, and removing its file longer. The reader that held it last does
/// neither.
#[test]
fn what_a_cursor_held_last_is_removed_in_the_background() {
    let (sim, dir, db, cursor) = held_by_a_cursor(1);
    let files = || named(&sim, &dir, ".tbl").len();
    let (live, held) = (db.tables(&default(&db)).unwrap().len(), files());
    assert!(held > live, "{held} files of {live} tables");
    drop(cursor);
    assert_eq!(files(), held);
    while db.step().unwrap() {}
    assert_eq!(files(), live);
}

/// Obsolete files may occupy the space that a flush lacks: they are removed before the flush is retried.
#[test]
fn a_flush_that_finds_no_room_is_given_what_died() {
    let (sim, dir, db, cursor) = held_by_a_cursor(2);
    db.settle().unwrap(); // so that the log keeps nothing that it could give
    let files = || named(&sim, &dir, ".tbl").len();
    let (live, held) = (db.tables(&default(&db)).unwrap().len(), files());
    let frozen = || db.metrics().families[0].frozen;
    let mut n = 500;
    while frozen() == 0 {
        fill(&db, n..n + 1, 0);
        n += 1;
    }
    sim.set_free_space(Some(0));
    while db.step().unwrap() {}
    drop(cursor);
    assert!(held > live && files() == held && frozen() > 0);
    while db.step().unwrap() {}
    assert!(frozen() > 0, "the room that is there now is for the next time");
    assert_eq!(files(), live);
    while db.step().unwrap() {}
    assert_eq!(frozen(), 0, "{:?}", sim.free_space());
}

/// Blocks the first merge that drops a record, once armed.
#[derive(Default)]
struct Pause {
    is_armed: AtomicBool,
    came: Mutex<Option<Sender<()>>>,
    go_on: Mutex<Option<Receiver<()>>>,
}

impl Companions for Pause {
    fn on_drop(&self, _: &Record<'_>, _: DropReason) {
        if self.is_armed.swap(false, Relaxed) {
            self.came.lock().unwrap().take().unwrap().send(()).unwrap();
            self.go_on.lock().unwrap().take().unwrap().recv().unwrap();
        }
    }
}

#[test]
fn a_merge_holds_no_memtable_that_was_flushed_meanwhile() {
    let home = tempfile::tempdir().unwrap();
    let ((came, has_come), (go_on, may_go_on)) = (channel(), channel());
    let pause =
        Arc::new(Pause { came: Mutex::new(Some(came)), go_on: Mutex::new(Some(may_go_on)), ..Pause::default() });
    let parts = Parts { companions: pause.clone(), ..parts(Env::real()) };
    let db = Db::open(&home.path().join("store"), settings(), parts).unwrap();
    let family = default(&db);
    // A flush of these records drops none, so the first drop happens in a merge, either the lane's or the requested
    // one.
    pause.is_armed.store(true, Relaxed);
    for round in 0..2 {
        fill(&db, 0..100, round);
        db.flush().unwrap();
    }
    std::thread::scope(|scope| {
        let merge = scope.spawn(|| db.compact(&family, &ALL));
        has_come.recv_timeout(Duration::from_secs(60)).unwrap(); // much longer than needed
        fill(&db, 0..100, 2);
        db.flush().unwrap();
        let memory = db.metrics().memory;
        go_on.send(()).unwrap();
        merge.join().unwrap().unwrap();
        assert_eq!((memory.memtable_bytes, memory.held_by_callers_bytes), (0, 0));
    });
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 100);
}

/// An unreadable table does not keep other families from being compacted, nor writers from writing; its compaction is
/// retried later.
#[test]
fn a_table_that_is_not_read_stops_nobody_else() {
    let (sim, dir) = sim(61);
    let env = sim.env(9);
    let (fs, gates) = waxseal_testing::gates::GatedFs::new(env.fs);
    let db = Db::open(&dir, settings(), parts(Env { fs: Arc::new(fs), ..env })).unwrap();
    let (a, b) = (default(&db), db.create_family("b", options()).unwrap());
    let write = |family: &Family, round: usize| {
        for n in 0..20 {
            let (key, value) = record(n, round);
            put(&db, family, &key, &value, Durability::Os).unwrap();
        }
        db.flush_ordered(family).unwrap();
    };
    let tables = |family: &Family, level: usize| {
        let metrics = db.metrics();
        metrics.families.iter().find(|of| of.name == family.name()).unwrap().levels[level].tables
    };
    write(&a, 0);
    db.compact(&a, &ALL).unwrap();
    let hit = db.tables(&a).unwrap()[0].name();
    *gates.unread.lock().unwrap() = Some(hit);
    for round in 1..8 {
        write(&a, round);
    }
    for round in 1..4 {
        write(&b, round);
    }
    for _ in 0..100 {
        let _ = db.step();
    }
    assert_eq!(tables(&b, 0), 0, "the other family");
    // Far more level-0 tables than the limit at which writers stop.
    for round in 8..80 {
        write(&a, round);
        write(&b, round);
        let _ = db.step();
    }
    assert!(tables(&a, 0) > 54);
    *gates.unread.lock().unwrap() = None;
    db.settle().unwrap();
    assert_eq!(tables(&a, 0), 0);
    let expected: Rows = (0..20).map(|n| record(n, 79)).collect();
    assert_eq!(rows(&db, &a, At::Latest).unwrap(), expected);
    assert_eq!(rows(&db, &b, At::Latest).unwrap(), expected);
}

/// At whatever step the flush of one family fails, the other family gets its table, unless the store halts.
#[test]
fn a_flush_that_fails_keeps_no_other_family_from_its_own() {
    let mut failed = 0;
    for step in 0..30 {
        let (sim, dir) = sim(62);
        let db = open(&sim, &dir);
        let families = [default(&db), db.create_family("b", options()).unwrap()];
        // Too much data for a group: a failed group would be flushed family by family after the fault.
        for (family, n) in families.iter().flat_map(|family| (0..8u8).map(move |n| (family, n))) {
            put(&db, family, &[n], &[b'v'; 1000], Durability::Os).unwrap();
        }
        sim.fail_at(sim.steps() + step, Fault::Error(std::io::ErrorKind::Other));
        let flushed = db.flush();
        sim.clear_faults();
        let is_halted = put(&db, &families[0], b"k", b"w", Durability::Os).is_err();
        if flushed.is_err() && !is_halted {
            let tables: usize = families.iter().map(|family| db.tables(family).unwrap().len()).sum();
            assert!(tables > 0, "step {step}");
            failed += 1;
        }
    }
    assert!(failed > 2, "{failed}");
}

/// In an idle store no bell rings; a merge that was postponed runs all the same.
#[test]
fn a_merge_that_failed_is_tried_again_in_a_store_that_is_idle() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::real();
    let (fs, gates) = waxseal_testing::gates::GatedFs::new(env.fs);
    let clock = Arc::clone(&env.clock);
    let db = Db::open(&home.path().join("store"), settings(), parts(Env { fs: Arc::new(fs), ..env })).unwrap();
    let family = default(&db);
    fill(&db, 0..20, 0);
    db.compact(&family, &ALL).unwrap();
    *gates.unread.lock().unwrap() = Some(db.tables(&family).unwrap()[0].name());
    for round in 1..6 {
        fill(&db, 0..20, round);
        db.flush().unwrap();
    }
    let level0 = || db.metrics().families[0].levels[0].tables;
    clock.sleep_nanos(600_000_000); // it has failed, and was postponed repeatedly
    assert!(level0() > 0);
    *gates.unread.lock().unwrap() = None;
    let deadline = clock.monotonic_nanos() + 30_000_000_000;
    while level0() > 0 {
        assert!(clock.monotonic_nanos() < deadline, "nobody tries it again");
        clock.sleep_nanos(20_000_000);
    }
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), filled(0..20, 5));
}

/// A merge loads into the cache the blocks with the keys that were cached from its inputs, and no others.
#[test]
fn what_was_in_memory_of_merged_tables_is_there_again() {
    let (sim, dir) = sim(9);
    let db = open(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..1500, 0);
    db.compact(&family, &ALL).unwrap();
    let read = |round| {
        // About half of the blocks of each table.
        for (key, value) in (0..1500).step_by(60).flat_map(|n| filled(n..n + 30, round)) {
            assert_eq!(get(&db, &family, &key, At::Latest).unwrap(), Some(value));
        }
        db.metrics().cache
    };
    let before = read(0);
    assert!(before.blocks > 50 && before.warmed == 0, "{before:?}");
    fill(&db, 0..1500, 1);
    db.compact(&family, &ALL).unwrap();
    let merged = db.metrics().cache;
    assert_eq!((merged.loads, merged.evictions), (before.loads, 0), "jobs load nothing for themselves");
    assert!(merged.blocks < before.blocks + before.blocks / 4, "{before:?} {merged:?}");
    let after = read(1);
    assert!(after.loads - merged.loads < before.blocks / 4, "{merged:?} {after:?}");
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), filled(0..1500, 1));
    db.close().unwrap();
}
