//! Group commit: many synced commits share a sync, and other commits never wait for one. Proved with gates, not by
//! timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::work::Mode;
use waxseal_lsm::env::{Env, RealFs, TracedFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_testing::gates::GatedFs;
use waxseal_testing::store::*;

#[test]
fn an_os_commit_does_not_wait_for_a_sync() {
    for wal_mapped in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let (fs, gates) = GatedFs::new(Arc::new(RealFs));
        let env = Env { fs: Arc::new(fs), ..Env::real() };
        let db = Db::open(&home.path().join("store"), Settings { wal_mapped, ..settings() }, parts(env)).unwrap();
        let family = default(&db);
        let returned = AtomicUsize::new(0);
        gates.syncs.shut();
        std::thread::scope(|scope| {
            let synced = scope.spawn(|| {
                put(&db, &family, b"synced", b"1", Durability::Sync).unwrap();
                returned.fetch_add(1, Ordering::SeqCst);
            });
            gates.syncs.wait_for_one();
            for n in 0..50u32 {
                put(&db, &family, &n.to_le_bytes(), b"2", Durability::Os).unwrap();
            }
            assert_eq!(
                get(&db, &family, b"synced", At::Latest).unwrap().unwrap(),
                b"1",
                "visible before it is durable"
            );
            let durable = db.durable_snapshot().unwrap();
            assert_eq!(get(&db, &family, b"synced", At::Snapshot(&durable)).unwrap(), None);
            assert_eq!(returned.load(Ordering::SeqCst), 0, "a synced commit returned before its sync");
            gates.syncs.open();
            synced.join().unwrap();
        });
        let durable = db.durable_snapshot().unwrap();
        assert_eq!(get(&db, &family, b"synced", At::Snapshot(&durable)).unwrap().unwrap(), b"1");
    }
}

#[test]
fn synced_commits_that_wait_share_the_next_sync() {
    for wal_mapped in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let (fs, gates) = GatedFs::new(Arc::new(RealFs));
        let env = Env { fs: Arc::new(fs), ..Env::real() };
        let db = Db::open(&home.path().join("store"), Settings { wal_mapped, ..settings() }, parts(env)).unwrap();
        let family = default(&db);
        let before = db.metrics().wal;
        gates.syncs.shut();
        std::thread::scope(|scope| {
            for n in 0..16u32 {
                let (db, family) = (&db, &family);
                scope.spawn(move || put(db, family, &n.to_le_bytes(), b"v", Durability::Sync).unwrap());
            }
            gates.syncs.wait_for_one();
            while rows(&db, &family, At::Latest).unwrap().len() < 16 {
                std::thread::yield_now();
            }
            gates.syncs.open();
        });
        let after = db.metrics().wal;
        let (groups, syncs) = (after.groups - before.groups, after.syncs - before.syncs);
        assert!((1..=3).contains(&groups) && syncs <= 3, "{groups} groups and {syncs} syncs for 16 commits");
    }
}

/// The groups of 64 threads pass through many small segments, whichever segments are completed meanwhile.
#[test]
fn threads_of_synced_commits_make_fewer_syncs_and_a_group_is_one() {
    const THREADS: u32 = 64;
    const EACH: u32 = 12;
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(&home.path().join("store"), settings(), parts(Env::real())).unwrap();
    let family = default(&db);
    let before = db.metrics().wal;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, family) = (&db, &family);
            scope.spawn(move || {
                for n in 0..EACH {
                    put(db, family, &(thread * 1000 + n).to_le_bytes(), &[7; 300], Durability::Sync).unwrap();
                }
            });
        }
    });
    let after = db.metrics().wal;
    let (syncs, groups) = (after.syncs - before.syncs, after.groups - before.groups);
    println!("{syncs} syncs in {groups} groups for {} synced commits", THREADS * EACH);
    assert!(after.turnovers - before.turnovers > 2, "segments are left behind");
    assert_eq!(syncs, groups);
    assert!(syncs < u64::from(THREADS * EACH));
}

/// Returns the file operations between two commits, from the transcript of a store's files.
fn files_touched(traced: &TracedFs) -> Vec<String> {
    let is_store = |line: &&str| line.starts_with("store ");
    traced.take().lines().filter(|line| !is_store(line)).map(str::to_owned).collect()
}

#[test]
fn a_commit_calls_the_system_only_to_sync_and_then_for_one_write_and_one_sync() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let traced = TracedFs::new(Arc::new(RealFs), dir.to_str().unwrap());
    let env = Env { fs: Arc::new(traced.clone()), work: Mode::Stepped, ..Env::real() };
    let settings = Settings { drain_bytes: 16 << 10, segment_bytes: 128 << 10, memtable_bytes: 1 << 20, ..settings() };
    let db = Db::open(&dir, settings, parts(env)).unwrap();
    let family = default(&db);
    // The ring and the first segment allocate blocks as the log grows, with system calls. The next segment is fully
    // allocated.
    for n in 0..130u32 {
        put(&db, &family, &n.to_le_bytes(), &[7; 1000], Durability::Os).unwrap();
    }
    put(&db, &family, b"first", b"1", Durability::Sync).unwrap();
    traced.take();
    for n in 0..50u32 {
        put(&db, &family, &n.to_le_bytes(), &[7; 100], Durability::Os).unwrap();
    }
    assert_eq!(files_touched(&traced), [""; 0], "the ring is memory");
    put(&db, &family, b"synced", b"2", Durability::Sync).unwrap();
    let touched = files_touched(&traced);
    let verbs: Vec<&str> = touched.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(verbs, ["write", "sync"], "{touched:?}");
    let mut pages = 0;
    for _ in 0..12 {
        put(&db, &family, b"synced", b"3", Durability::Sync).unwrap();
        let lone = files_touched(&traced);
        assert_eq!(lone.len(), 2, "a write and its sync: {lone:?}");
        pages += usize::from(lone[0].ends_with("+4096"));
    }
    assert!(
        (8..=12).contains(&pages),
        "a page, or one with zeros behind it for those that follow: {pages} of 12 alone"
    );
}

/// A commit whose frame is in flight when `close` begins is acknowledged, so the seal must come after it.
#[test]
fn a_close_waits_for_the_commits_that_are_on_their_way() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let (fs, gates) = GatedFs::new(Arc::new(RealFs));
    let env = Env { fs: Arc::new(fs), ..Env::real() };
    let settings = Settings { wal_mapped: false, ..settings() };
    let db = Db::open(&dir, settings.clone(), parts(env)).unwrap();
    let family = default(&db);
    put(&db, &family, b"before", b"1", Durability::Sync).unwrap();
    gates.writes.shut();
    let committed = std::thread::scope(|scope| {
        let commit = scope.spawn(|| put(&db, &family, b"on its way", b"2", Durability::Os));
        gates.writes.wait_for_one();
        let close = scope.spawn(|| db.close());
        // Enough time for a close that does not wait; a waiting one is not disturbed.
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        gates.writes.open();
        close.join().unwrap().unwrap();
        commit.join().unwrap()
    });
    committed.unwrap();
    let db = Db::open(&dir, settings, parts(Env::real())).unwrap();
    assert_eq!(db.recovery().cut_bytes, 0);
    assert_eq!(get(&db, &default(&db), b"on its way", At::Latest).unwrap().unwrap(), b"2");
}

/// A failed directory sync may also lose the names of another job's files, although that job's own sync would report
/// success. This applies to a full disk as well.
#[test]
fn a_directory_that_could_not_be_synced_halts_the_store() {
    let flush: fn(&Db, &Family) -> Result<()> = |db, _| db.flush();
    let value_file: fn(&Db, &Family) -> Result<()> =
        |db, family| put(db, family, b"large", &[7; 10_000], Durability::Os).map(drop);
    let segment: fn(&Db, &Family) -> Result<()> = |db, family| {
        let before = db.metrics().wal.turnovers;
        while db.metrics().wal.turnovers < before + 2 {
            put(db, family, b"first", b"1", Durability::Os)?;
        }
        Ok(())
    };
    for (needs_a_name, what) in [
        (flush, "syncing the store's directory"),
        (value_file, "syncing the store's directory"),
        (segment, "sync the directory of"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("store");
        let (fs, gates) = GatedFs::new(Arc::new(RealFs));
        let env = Env { fs: Arc::new(fs), work: Mode::Stepped, ..Env::real() };
        let db = Db::open(&dir, settings(), parts(env)).unwrap();
        let family = default(&db);
        put(&db, &family, b"first", b"1", Durability::Sync).unwrap();
        gates.names_fail.store(true, Ordering::SeqCst);
        needs_a_name(&db, &family).unwrap_err();
        gates.names_fail.store(false, Ordering::SeqCst);
        let error = put(&db, &family, b"second", b"2", Durability::Os).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        db.flush().unwrap_err();
        assert_eq!(get(&db, &family, b"first", At::Latest).unwrap().unwrap(), b"1");
        drop((db, family));
        let db = Db::open(&dir, settings(), parts(Env::real())).unwrap();
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), [(b"first".to_vec(), b"1".to_vec())]);
    }
}

/// The store's directory contains the name of a checkpoint: after its failed sync, a flush cannot rely on the directory
/// either.
#[test]
fn a_sync_of_the_store_s_directory_that_failed_elsewhere_halts_the_next_who_needs_one() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let (fs, gates) = GatedFs::new(Arc::new(RealFs));
    let env = Env { fs: Arc::new(fs), work: Mode::Stepped, ..Env::real() };
    let db = Db::open(&dir, settings(), parts(env)).unwrap();
    let family = default(&db);
    gates.names_fail.store(true, Ordering::SeqCst);
    db.checkpoint(&dir.join("within")).unwrap_err();
    gates.names_fail.store(false, Ordering::SeqCst);
    put(&db, &family, b"first", b"1", Durability::Sync).unwrap();
    assert_eq!(*db.flush().unwrap_err().kind(), ErrorKind::Halted, "there is no room, and nobody may try again");
    assert_eq!(*put(&db, &family, b"second", b"2", Durability::Os).unwrap_err().kind(), ErrorKind::Halted);
}

/// With synced commits, zeros are written ahead of the log. Meanwhile a frame too long for the ring is written directly
/// to its place.
#[test]
fn zeros_ahead_of_the_log_leave_a_frame_alone_that_is_written_past_the_ring() {
    let large = vec![7; settings().ring_bytes / 2];
    // Each commit takes a page. The first few pages of a segment are already written, and zeros are written with the
    // commit that follows them.
    for before in 0..5u8 {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("store");
        let (fs, gates) = GatedFs::new(Arc::new(RealFs));
        let env = Env { fs: Arc::new(fs), work: Mode::Stepped, ..Env::real() };
        let settings = Settings { segment_bytes: 128 << 10, drain_bytes: 16 << 10, ..settings() };
        let db = Db::open(&dir, settings.clone(), parts(env)).unwrap();
        let family = default(&db);
        for n in 0..=before {
            put(&db, &family, &[n], b"1", Durability::Sync).unwrap();
        }
        gates.writes.shut_for_one();
        std::thread::scope(|scope| {
            scope.spawn(|| put(&db, &family, &[before], b"2", Durability::Sync).unwrap());
            gates.writes.wait_for_one();
            let frames = db.metrics().wal.large_frames;
            scope.spawn(|| put(&db, &family, b"large", &large, Durability::Sync).unwrap());
            while db.metrics().wal.large_frames == frames {
                std::thread::yield_now();
            }
            // Enough time for a frame that does not wait; a waiting one is not disturbed.
            std::thread::park_timeout(std::time::Duration::from_millis(50));
            gates.writes.open();
        });
        drop((db, family)); // as after a kill
        let db = Db::open(&dir, settings, parts(Env::real())).unwrap();
        assert_eq!(get(&db, &default(&db), b"large", At::Latest).unwrap().as_ref(), Some(&large));
        assert_eq!(get(&db, &default(&db), &[before], At::Latest).unwrap().unwrap(), b"2");
    }
}

/// Families with little data are flushed in groups, even if few files may be open. A separate flush would sync
/// directory, log and manifest for each table, and visit all families.
#[test]
fn families_that_hold_little_share_the_syncs_of_their_flush() {
    let (sim, dir) = sim(44);
    let families: Vec<_> = (0..300).map(|n| (format!("family-{n:03}"), options())).collect();
    let names: Vec<String> = families.iter().map(|(name, _)| name.clone()).collect();
    let traced = TracedFs::new(Arc::new(sim.clone()), &dir);
    let env = Env { fs: Arc::new(traced.clone()), ..sim.env(1) };
    let settings = || Settings { memtable_bytes: 64 << 20, open_tables: 32, ..settings() };
    let db = Db::open(&dir, settings(), Parts { families: families.clone(), ..parts(env) }).unwrap();
    let count = |trace: &str, of: &dyn Fn(&str) -> bool| trace.lines().filter(|line| of(line)).count();
    let is_shared = |line: &str| line.starts_with("sync") && !line.contains(".tbl");
    let opened = traced.take();
    assert!(count(&opened, &is_shared) < 40, "one edit makes the families:\n{opened}");
    for (n, name) in names.iter().enumerate() {
        put(&db, &db.family(name).unwrap(), b"key", &[n as u8], Durability::Os).unwrap();
    }
    traced.take();
    db.flush().unwrap();
    let flushed = traced.take();
    let is_table = |line: &str| line.starts_with("sync") && line.contains(".tbl");
    assert_eq!(count(&flushed, &is_table), 300, "each table is synced:\n{flushed}");
    assert!(count(&flushed, &is_shared) < 10, "{flushed}");
    let unsynced = flushed.lines().filter(|line| line.contains(".tbl")).scan(0, |unsynced, line| {
        *unsynced += i32::from(line.starts_with("create")) - i32::from(line.starts_with("sync"));
        Some(*unsynced)
    });
    assert_eq!(unsynced.max(), Some(9), "a quarter of the files that may be open, and the next:\n{flushed}");
    kill(&sim, db);
    let db = Db::open(&dir, settings(), Parts { families, ..parts(sim.env(2)) }).unwrap();
    for (n, name) in names.iter().enumerate() {
        assert_eq!(get(&db, &db.family(name).unwrap(), b"key", At::Latest).unwrap(), Some(vec![n as u8]), "{name}");
    }
    db.close().unwrap();
}
