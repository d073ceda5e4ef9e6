//! Closing releases the store's resources, even while callers hold handles, snapshots, tables or cursors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::{Env, MemoryFs};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::sst::Cache;
use waxseal_testing::store::*;

const NO_FILES: [PathBuf; 0] = [];

/// A cursor reads from pinned tables, and closing the store closes their files.
#[test]
fn no_file_stays_open_for_a_cursor_a_snapshot_or_a_table() {
    let (sim, dir) = sim(1);
    let parts = Parts {
        families: vec![("default".to_owned(), CfOptions { large_value_bytes: 100, ..options() })],
        ..parts(sim.env(1))
    };
    let db = Db::open(&dir, settings(), parts).unwrap();
    fill(&db, 0..500, 0);
    db.flush().unwrap();
    let family = default(&db);
    put(&db, &family, b"large", &[7; 500], Durability::Os).unwrap();
    let snapshot = db.snapshot().unwrap();
    let mut cursor = db.cursor(&family, At::Latest, ALL).unwrap();
    cursor.first().unwrap();
    let tables = db.tables(&family).unwrap();
    tables.iter().for_each(|table| drop(table.table().unwrap()));
    assert!(sim.open_files().len() > tables.len());

    db.close().unwrap();
    assert_eq!((sim.open_files(), sim.held_locks()), (NO_FILES.to_vec(), NO_FILES.to_vec()));
    // The record under the cursor stays readable; the next step needs a file.
    assert!(cursor.valid() && !cursor.key().is_empty());
    let error = loop {
        match cursor.next() {
            Ok(()) => assert!(cursor.valid(), "a closed store's cursor ended as if there were no more records"),
            Err(error) => break error,
        }
    };
    assert_eq!(*error.kind(), ErrorKind::Closed);
    assert_eq!(db.metrics().integrity.doubted, 0, "a closed file is no damage");
    assert_kind(get(&db, &family, b"large", At::Snapshot(&snapshot)), ErrorKind::Closed, "get");
    assert_kind(db.read_file(&tables[0]), ErrorKind::Closed, "read a table");
    let again = open(&sim, &dir);
    assert_eq!(get(&again, &default(&again), b"large", At::Latest).unwrap().unwrap(), [7; 500]);
}

/// A snapshot of a read-only store holds its views itself.
#[test]
fn no_file_stays_open_for_a_snapshot_of_a_reader() {
    let (sim, dir) = sim(2);
    let db = open(&sim, &dir);
    fill(&db, 0..500, 0);
    db.close().unwrap();
    let reader = read_only(&sim, &dir).unwrap();
    let family = default(&reader);
    let snapshot = reader.snapshot().unwrap();
    let key = rows(&reader, &family, At::Snapshot(&snapshot)).unwrap().swap_remove(0).0;
    assert!(!sim.open_files().is_empty());
    reader.close().unwrap();
    assert_eq!(sim.open_files(), NO_FILES);
    assert_kind(get(&reader, &family, &key, At::Snapshot(&snapshot)), ErrorKind::Closed, "get");
}

#[test]
fn memtables_and_blocks_are_freed_unless_other_stores_share_the_cache() {
    let shared = Arc::new(Cache::new(1 << 20));
    for cache in [None, Some(shared.clone())] {
        let (is_shared, env) = (cache.is_some(), Env { fs: Arc::new(MemoryFs::new()), ..Env::real() });
        let roomy = Settings { memtable_bytes: 8 << 20, ..settings() };
        let db = Db::open("/store".as_ref(), roomy, Parts { cache, ..parts(env) }).unwrap();
        fill(&db, 0..500, 0);
        db.flush().unwrap();
        let family = default(&db);
        let read = rows(&db, &family, At::Latest).unwrap();
        for (key, _) in &read {
            get(&db, &family, key, At::Latest).unwrap();
        }
        fill(&db, 500..1500, 0);
        let before = db.metrics().memory;
        assert!(before.block_bytes > 0 && before.memtable_bytes > 0, "{before:?}");
        let cursor = db.cursor(&family, At::Latest, ALL).unwrap();
        let kept = db.clone();
        db.close().unwrap();
        let after = kept.metrics().memory;
        assert_eq!(after.memtable_bytes, 0);
        if !is_shared {
            assert_eq!(after.block_bytes, 0); // a shared cache keeps spare buffers for the other stores
        }
        drop(cursor);
    }
    assert_eq!(shared.metrics().blocks, 0);
}

/// A read that passed the open check before the close reads the closed view. It fails with `Closed`, and never reports
/// an existing key as missing.
#[test]
fn no_read_beside_a_close_misses_a_record() {
    for _ in 0..20 {
        let env = Env { fs: Arc::new(MemoryFs::new()), ..Env::real() };
        let db = Db::open("/store".as_ref(), settings(), parts(env)).unwrap();
        fill(&db, 0..200, 0);
        let family = default(&db);
        let key = rows(&db, &family, At::Latest).unwrap().swap_remove(0).0;
        let is_reading = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            match get(&db, &family, &key, At::Latest) {
                                Ok(found) => assert!(found.is_some(), "a record that was written is missing"),
                                Err(error) => return error,
                            }
                            is_reading.store(true, Ordering::Release);
                        }
                    })
                })
                .collect();
            while !is_reading.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            db.close().unwrap();
            for reader in readers {
                assert_eq!(*reader.join().unwrap().kind(), ErrorKind::Closed);
            }
        });
    }
}

/// After a concurrent close, every successful commit is in the store, and no rejected one is.
#[test]
fn commits_beside_a_close_are_whole_or_refused() {
    for round in 0..10 {
        let env = Env { fs: Arc::new(MemoryFs::new()), ..Env::real() };
        let db = Db::open("/store".as_ref(), settings(), parts(env.clone())).unwrap();
        let family = default(&db);
        let durability = if round % 2 == 0 { Durability::Os } else { Durability::Sync };
        let started = AtomicBool::new(false);
        let written: Vec<u32> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (db, family, started) = (&db, &family, &started);
                    scope.spawn(move || {
                        let put =
                            |n: &u32| put(db, family, format!("{writer}-{n:08}").as_bytes(), b"value", durability);
                        let refused = (0..).find(|n| {
                            started.store(true, Ordering::Release);
                            put(n).inspect_err(|error| assert_eq!(*error.kind(), ErrorKind::Closed)).is_err()
                        });
                        refused.unwrap()
                    })
                })
                .collect();
            while !started.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            db.close().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let again = Db::open("/store".as_ref(), settings(), parts(env)).unwrap();
        let found = rows(&again, &default(&again), At::Latest).unwrap().len();
        assert_eq!(found, written.iter().sum::<u32>() as usize);
    }
}

/// A cursor may be the last holder of a table that a compaction replaced before the close.
#[test]
fn what_a_compaction_replaced_is_freed_with_the_last_cursor_of_a_closed_store() {
    let shared = Arc::new(Cache::new(1 << 20));
    let env = Env { fs: Arc::new(MemoryFs::new()), ..Env::real() };
    let db = Db::open("/store".as_ref(), settings(), Parts { cache: Some(shared.clone()), ..parts(env) }).unwrap();
    let family = default(&db);
    fill(&db, 0..500, 0);
    db.flush().unwrap();
    rows(&db, &family, At::Latest).unwrap();
    let cursor = db.cursor(&family, At::Latest, ALL).unwrap();
    fill(&db, 0..500, 1);
    db.compact(&family, &ALL).unwrap();
    assert!(shared.metrics().blocks > 0);
    db.close().unwrap();
    drop(cursor);
    assert_eq!(shared.metrics().blocks, 0);
}
