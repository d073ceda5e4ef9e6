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
        let (fs, gate) = GatedFs::new(Arc::new(RealFs));
        let env = Env { fs: Arc::new(fs), ..Env::real() };
        let db = Db::open(&home.path().join("store"), Settings { wal_mapped, ..settings() }, parts(env)).unwrap();
        let family = default(&db);
        let returned = AtomicUsize::new(0);
        gate.shut();
        std::thread::scope(|scope| {
            let synced = scope.spawn(|| {
                put(&db, &family, b"synced", b"1", Durability::Sync).unwrap();
                returned.fetch_add(1, Ordering::SeqCst);
            });
            gate.wait_for_a_sync();
            for n in 0..50u32 {
                put(&db, &family, &n.to_be_bytes(), b"2", Durability::Os).unwrap();
            }
            assert_eq!(
                get(&db, &family, b"synced", At::Latest).unwrap().unwrap(),
                b"1",
                "visible before it is durable"
            );
            let durable = db.durable_snapshot().unwrap();
            assert_eq!(get(&db, &family, b"synced", At::Snapshot(&durable)).unwrap(), None);
            assert_eq!(returned.load(Ordering::SeqCst), 0, "a synced commit returned before its sync");
            gate.open();
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
        let (fs, gate) = GatedFs::new(Arc::new(RealFs));
        let env = Env { fs: Arc::new(fs), ..Env::real() };
        let db = Db::open(&home.path().join("store"), Settings { wal_mapped, ..settings() }, parts(env)).unwrap();
        let family = default(&db);
        let before = db.metrics().wal;
        gate.shut();
        std::thread::scope(|scope| {
            for n in 0..16u32 {
                let (db, family) = (&db, &family);
                scope.spawn(move || put(db, family, &n.to_be_bytes(), b"v", Durability::Sync).unwrap());
            }
            gate.wait_for_a_sync();
            while rows(&db, &family, At::Latest).unwrap().len() < 16 {
                std::thread::yield_now();
            }
            gate.open();
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
                    put(db, family, &(thread * 1000 + n).to_be_bytes(), b"v", Durability::Sync).unwrap();
                }
            });
        }
    });
    let syncs = db.metrics().wal.syncs - before;
    println!("{syncs} syncs for 400 synced commits");
    assert!(syncs < 400, "{syncs} syncs for 400 commits");
}
