//! Group commit: many synced commits share a sync, and others never wait for one. Proved by a gate, not by a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::{Env, RealFs};
use waxseal_lsm::options::{Durability, Settings};

use crate::gate::GatedFs;
use crate::support::*;

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

#[test]
fn sixteen_threads_of_synced_commits_make_fewer_syncs() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(&home.path().join("store"), settings(), parts(Env::real())).unwrap();
    let family = default(&db);
    let before = db.metrics().wal.syncs;
    std::thread::scope(|scope| {
        for thread in 0..16u32 {
            let (db, family) = (&db, &family);
            scope.spawn(move || {
                for n in 0..25u32 {
                    put(db, family, &(thread * 1000 + n).to_le_bytes(), b"v", Durability::Sync).unwrap();
                }
            });
        }
    });
    let syncs = db.metrics().wal.syncs - before;
    println!("{syncs} syncs for 400 synced commits");
    assert!(syncs < 400, "{syncs} syncs for 400 commits");
}

/// A commit whose frame is on its way when `close` comes is acknowledged, so the seal must lie behind it.
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
        // Time for a close that does not wait; one that does is not disturbed.
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
