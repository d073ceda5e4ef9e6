//! Full devices and failed syncs. Acknowledged commits are kept, reads continue, and operations that cannot continue
//! return an error.

use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::env::sim::Fault;
use waxseal_lsm::env::{Fs, Open, SimFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_testing::store::*;

/// Puts records until one is rejected; returns the number of accepted ones.
fn put_until_full(db: &Db, from: usize, durability: Durability) -> usize {
    for n in from..from + 5000 {
        let (key, value) = record(n, 0);
        if let Err(error) = put(db, &default(db), &key, &value, durability) {
            assert!(error.is_out_of_space(), "{error:?}");
            return n;
        }
    }
    panic!("the device never fills up");
}

fn check(db: &Db, records: usize) {
    assert_eq!(rows(db, &default(db), At::Latest).unwrap(), filled(0..records, 0));
    for n in [0, records / 2, records - 1] {
        assert_eq!(get(db, &default(db), &record(n, 0).0, At::Latest).unwrap(), Some(record(n, 0).1));
    }
}

#[test]
fn a_full_device_refuses_writes_and_nothing_else() {
    for mapped in [true, false] {
        for (free, durability) in
            [(0, Durability::Os), (4096, Durability::Sync), (40_000, Durability::Os), (300_000, Durability::Sync)]
        {
            let (sim, dir) = sim(free);
            sim.set_mapped(mapped);
            let db = open(&sim, &dir);
            fill(&db, 0..20, 0);
            sim.set_free_space(Some(free));
            let mut known = put_until_full(&db, 20, durability);
            check(&db, known);
            // More of the same: rejected or accepted, never half applied.
            for _ in 0..3 {
                known = put_until_full(&db, known, durability);
                check(&db, known);
            }
            sim.set_free_space(None);
            fill(&db, known..known + 200, 0);
            check(&db, known + 200);
            db.settle().unwrap();
            db.close().unwrap();
            let db = open(&sim, &dir);
            assert_eq!(db.recovery().cut_bytes, 0);
            check(&db, known + 200);
        }
    }
}

/// The log's spare segments provide space for a table, after whose flush the log needs less.
#[test]
fn a_flush_on_a_full_device_takes_the_room_that_the_log_keeps_for_later() {
    let (sim, dir) = sim(15);
    let db = open(&sim, &dir);
    let logs = || sim.files(&dir).iter().filter(|name| name.ends_with(".log")).count();
    let mut known = 0;
    while logs() < 4 {
        fill(&db, known..known + 100, 0);
        known += 100;
        while db.step().unwrap() {}
        assert!(known < 10_000, "the log keeps nothing for later");
    }
    fill(&db, known..known + 20, 0);
    known += 20;
    sim.set_free_space(Some(0));
    db.flush().unwrap();
    assert!(logs() < 4);
    check(&db, known);
    // The store accepts commits as before, into the current segment and the next one.
    let more = put_until_full(&db, known, Durability::Os);
    assert!(more > known);
    check(&db, more);
    kill(&sim, db);
    sim.set_free_space(None);
    check(&open(&sim, &dir), more);
}

#[test]
fn a_store_can_be_closed_on_a_full_device() {
    let (sim, dir) = sim(11);
    let db = open(&sim, &dir);
    sim.set_free_space(Some(0));
    let known = put_until_full(&db, 0, Durability::Os);
    let _ = db.close(); // may report the full disk; no record is lost either way
    sim.set_free_space(None);
    check(&open(&sim, &dir), known);
}

#[test]
fn without_room_to_recover_a_store_opens_for_reading() {
    for mapped in [true, false] {
        for free in [0, 9000, 40_000, 80_000] {
            let (sim, dir) = sim(free + 1);
            sim.set_mapped(mapped);
            let db = open(&sim, &dir);
            fill(&db, 0..150, 0);
            sim.set_free_space(Some(free));
            let known = put_until_full(&db, 150, Durability::Os);
            kill(&sim, db);
            sim.set_free_space(Some(free / 2));
            for _ in 0..2 {
                let db = open(&sim, &dir);
                assert!(db.is_read_only());
                check(&db, known);
                let error = assert_kind(
                    put(&db, &default(&db), b"k", b"v", Durability::Os),
                    ErrorKind::ReadOnly,
                    "a put without room",
                );
                assert!(error.to_string().contains("room"), "{error}");
                assert_kind(db.flush(), ErrorKind::ReadOnly, "flush");
                while db.step().unwrap() {}
                check(&db, known);
                db.close().unwrap();
            }
            sim.set_free_space(None);
            let db = open(&sim, &dir);
            assert!(!db.is_read_only());
            check(&db, known);
            fill(&db, known..known + 10, 0);
            db.close().unwrap();
            check(&open(&sim, &dir), known + 10);
        }
    }
}

/// Creates a store with some records in which the next sync fails; also returns the number of records.
fn with_a_failing_sync(mapped: bool) -> (SimFs, std::path::PathBuf, Db, usize) {
    let (sim, dir) = sim(12);
    sim.set_mapped(mapped);
    let db = open(&sim, &dir);
    fill(&db, 0..30, 0);
    db.sync().unwrap();
    sim.fail_at(sim.steps(), Fault::SyncFailed);
    (sim, dir, db, 30)
}

#[test]
fn after_a_failed_sync_nothing_more_is_acknowledged_until_reopening() {
    type Call = fn(&Db) -> Result<()>;
    let calls: [(&str, Call); 4] = [
        ("a synced put", |db| put(db, &default(db), b"x", b"1", Durability::Sync).map(drop)),
        ("sync", |db| put(db, &default(db), b"x", b"1", Durability::Os).and_then(|_| db.sync())),
        ("flush", |db| put(db, &default(db), b"x", b"1", Durability::Os).and_then(|_| db.flush())),
        ("create_family", |db| {
            put(db, &default(db), b"x", b"1", Durability::Os)?;
            db.create_family("f", options()).map(drop)
        }),
    ];
    for (name, call) in calls {
        let (sim, dir, db, known) = with_a_failing_sync(true);
        call(&db).expect_err(name);
        assert!(sim.clear_faults(), "{name}: the sync did not fail");
        for (what, outcome) in [
            ("a put", put(&db, &default(&db), b"y", b"2", Durability::Os).map(drop)),
            ("a synced put", put(&db, &default(&db), b"y", b"2", Durability::Sync).map(drop)),
            ("sync", db.sync()),
            ("flush", db.flush()),
            ("settle", db.settle()),
            ("create_family", db.create_family("g", options()).map(drop)),
            ("drop_family", db.drop_family("f")),
            ("checkpoint", db.checkpoint(&dir.join("copy"))),
        ] {
            if what != "drop_family" {
                assert_kind(outcome, ErrorKind::Halted, &format!("{what} after {name}"));
            }
        }
        let mut expected = filled(0..known, 0);
        expected.push((b"x".to_vec(), b"1".to_vec()));
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected, "reads go on after {name}");
        let _ = db.close();
        let db = open(&sim, &dir);
        let found = rows(&db, &default(&db), At::Latest).unwrap();
        assert_eq!(&found[..known], &filled(0..known, 0), "after {name}");
        assert!(found.len() <= known + 1);
        put(&db, &default(&db), b"z", b"3", Durability::Sync).unwrap();
    }
}

#[test]
fn a_failed_sync_of_a_table_is_no_end() {
    let (sim, dir) = sim(13);
    let db = open(&sim, &dir);
    fill(&db, 0..30, 0);
    db.sync().unwrap();
    // This flush still syncs its table, the directory and the manifest. A failed table sync is retried with a new
    // table, because no reader relied on it.
    sim.fail_at(sim.steps(), Fault::SyncFailed);
    assert!(matches!(db.flush().unwrap_err().kind(), ErrorKind::Io(_)));
    assert!(sim.clear_faults());
    check(&db, 30);
    db.flush().unwrap();
    assert_eq!(db.metrics().flushes, 1);
    check(&db, 30);
    db.close().unwrap();
    check(&open(&sim, &dir), 30);
}

/// If the store halts during a flush, the lane does not rewrite every 100 ms a table that no edit will name.
#[test]
fn a_halted_store_writes_no_table_again_and_again() {
    let mut halted = 0;
    for fault in [Fault::SyncFailed, Fault::Error(std::io::ErrorKind::StorageFull)] {
        for step in 0..60 {
            let (sim, dir) = sim(16);
            let db = open(&sim, &dir);
            let tables = || sim.files(&dir).iter().filter(|name| name.ends_with(".tbl")).count();
            let mut known = 0;
            while db.metrics().families[0].frozen == 0 {
                fill(&db, known..known + 1, 0);
                known += 1;
            }
            db.sync().unwrap();
            sim.fail_at(sim.steps() + step, fault);
            for _ in 0..10 {
                let _ = db.step();
            }
            sim.clear_faults();
            if put(&db, &default(&db), b"x", b"1", Durability::Os).is_ok() {
                continue;
            }
            halted += 1;
            let before = tables();
            (0..10).for_each(|_| drop(db.step()));
            assert!(tables() <= before, "{} tables after {before}, {fault:?} at {step}", tables());
            check(&db, known);
            let _ = db.close();
            check(&open(&sim, &dir), known);
        }
    }
    assert!(halted > 5, "{halted}");
}

#[test]
fn the_log_does_not_outgrow_its_budget_when_families_come_and_go() {
    let (sim, dir) = sim(14);
    let db = open(&sim, &dir);
    for round in 0..40 {
        let family = db.create_family("f", options()).unwrap();
        for n in 0..100 {
            let (key, value) = record(n, round);
            put(&db, &family, &key, &value, Durability::Os).unwrap();
        }
        db.drop_family("f").unwrap();
        while db.step().unwrap() {}
    }
    let settings = Settings { ..settings() };
    let limit = 4 * (settings.segment_bytes + settings.memtable_bytes as u64);
    let live = db.metrics().wal.live_bytes;
    assert!(live <= limit, "{live} bytes of log for an empty store");
    assert!(sim.exists(&dir).unwrap());
}

/// The busy family's next flush is due whenever the log lane checks. The idle family's few records must not keep the
/// log meanwhile.
#[test]
fn an_idle_family_does_not_keep_the_log_while_flushes_are_due() {
    let (sim, dir) = sim(15);
    let db = open(&sim, &dir);
    let idle = db.create_family("idle", options()).unwrap();
    // Level-0 tables do not throttle writers here: a throttled writer would perform the steps itself.
    let busy = db.create_family("busy", CfOptions { level0_tables: 64, ..options() }).unwrap();
    let is_due = || db.metrics().families.iter().any(|family| family.name == "busy" && family.frozen > 0);
    let mut written = 0;
    for round in 0..100 {
        let (key, value) = record(round, 0);
        put(&db, &idle, &key, &value, Durability::Os).unwrap();
        while !is_due() {
            let (key, value) = record(written % 5_000, written);
            put(&db, &busy, &key, &value, Durability::Os).unwrap();
            written += 1;
        }
        assert!(db.step().unwrap());
        let wal = db.metrics().wal;
        assert!(wal.needed_bytes <= wal.limit_bytes, "round {round}: {wal:?}");
        assert!(wal.live_bytes <= wal.limit_bytes + settings().segment_bytes, "round {round}: {wal:?}");
    }
    let wal = db.metrics().wal;
    assert!(wal.frame_bytes > 3 * wal.limit_bytes && wal.early_freezes > 5, "{wal:?}");
    kill(&sim, db);
    let db = open(&sim, &dir);
    let idle = db.family("idle").unwrap();
    assert_eq!(rows(&db, &idle, At::Latest).unwrap(), filled(0..100, 0));
}

/// Without a check by the log lane in between, writers wait at the bound for a flush that they request themselves.
#[test]
fn writers_wait_where_the_log_reaches_its_bound() {
    let (sim, dir) = sim(17);
    let db = open(&sim, &dir);
    let busy: Vec<Family> = (0..12).map(|n| db.create_family(&format!("busy {n}"), options()).unwrap()).collect();
    for n in 0..6_000 {
        let (key, value) = record(n % 500, n);
        put(&db, &busy[n % 12], &key, &value, Durability::Os).unwrap();
        let wal = db.metrics().wal;
        assert!(wal.needed_bytes <= wal.limit_bytes + settings().segment_bytes, "{n}: {wal:?}");
    }
    assert!(db.metrics().wal.frame_bytes > 4 * db.metrics().wal.limit_bytes);
}

/// A recovery that runs out of space removes the files it has written, whatever step fails.
#[test]
fn a_recovery_without_room_leaves_the_directory_as_it_was() {
    let (sim, dir) = sim(16);
    let db = open(&sim, &dir);
    fill(&db, 0..400, 0);
    kill(&sim, db);
    let before = sim.files(&dir);
    let mut refused = 0;
    for free in (0..).step_by(4096) {
        sim.set_free_space(Some(free));
        let db = open(&sim, &dir);
        check(&db, 400);
        if put(&db, &default(&db), b"x", b"1", Durability::Os).is_ok() {
            break;
        }
        db.close().unwrap();
        drop(db);
        assert_eq!(sim.files(&dir), before, "with {free} bytes free");
        refused += 1;
    }
    assert!(refused > 10, "{refused}");
}

/// A killed compaction or flush leaves files that no manifest names. On a full disk they make the room that the
/// recovery needs.
#[test]
fn a_recovery_without_room_removes_what_a_killed_job_has_left() {
    let (sim, dir) = sim(18);
    let db = open(&sim, &dir);
    fill(&db, 0..400, 0);
    db.flush().unwrap();
    fill(&db, 400..450, 0);
    kill(&sim, db);
    let named = sim.files(&dir).into_iter().find(|name| name.ends_with(".tbl")).unwrap();
    let bytes = sim.read_all(dir.join(&named)).unwrap();
    let left = sim.open(&dir.join("000001.tbl"), Open::Create).unwrap();
    for part in 0..(2 << 20) / bytes.len() {
        left.write_at(&bytes, (part * bytes.len()) as u64).unwrap();
    }
    drop(left);
    sim.set_free_space(Some(0));
    let db = open(&sim, &dir);
    assert!(!db.is_read_only());
    check(&db, 450);
    assert!(sim.files(&dir).iter().all(|name| name != "000001.tbl"));
}

/// A sync may be the call that reports a full disk (NFS, btrfs). While `CURRENT` names the old manifest, all new files
/// are removed.
#[test]
fn a_recovery_whose_sync_finds_no_room_leaves_the_directory_as_it_was() {
    let (sim, dir) = sim(17);
    let db = open(&sim, &dir);
    fill(&db, 0..100, 0);
    kill(&sim, db);
    let (before, current) = (sim.files(&dir), sim.read_all(dir.join("CURRENT")).unwrap());
    let mut refused = 0;
    for step in 0.. {
        let fork = sim.fork();
        fork.fail_at(fork.steps() + step, Fault::Error(std::io::ErrorKind::StorageFull));
        let Ok(db) = try_open(&fork, &dir) else { continue };
        if !fork.clear_faults() {
            break; // completed before the fault
        }
        check(&db, 100);
        drop(db);
        // After a failed rename the state is unknown, so `CURRENT.tmp` and all other files stay.
        let is_turning = fork.exists(&dir.join("CURRENT.tmp")).unwrap();
        if fork.read_all(dir.join("CURRENT")).unwrap() == current && !is_turning {
            assert_eq!(fork.files(&dir), before, "at step {step}");
            refused += 1;
        }
    }
    assert!(refused > 5, "{refused}");
}
