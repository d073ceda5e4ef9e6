//! Real threads on real files: writers, readers, cursors, snapshots, flushes, compactions, checkpoints, and families
//! being created and dropped, all concurrently. Bounded by the number of operations, not by time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::env::{Env, Fs, RealFs};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::{Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_testing::store::*;

const WRITERS: u64 = 8;
const KEYS: u64 = 97;

fn counter_key(writer: u64) -> Vec<u8> {
    format!("counter-{writer}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Makes commit `n` of a writer: its counter in both families, one of its keys in the first; deletes another key.
fn commit(db: &Db, families: &[Family; 2], writer: u64, n: u64) -> u64 {
    let mut batch = Batch::new();
    let mut value = n.to_le_bytes().to_vec();
    value.resize(8 + (n % 60) as usize, b'.');
    let companions = db.companions();
    for family in families {
        batch.push(family.id(), Kind::Put, &counter_key(writer), &value, companions).unwrap();
    }
    let key = |n: u64| format!("key-{writer}-{:03}", n % KEYS).into_bytes();
    batch.push(families[0].id(), Kind::Put, &key(n), &value, companions).unwrap();
    batch.push(families[0].id(), Kind::Delete, &key(n + KEYS / 2), b"", companions).unwrap();
    let durability = match n % 50 {
        0 => Durability::Sync,
        n if n % 3 == 0 => Durability::Buffered,
        _ => Durability::Os,
    };
    db.commit(&mut batch, durability).unwrap()
}

/// Returns the keys of writer `writer` in the first family after its commit `last`, without the counter.
fn keys_after(writer: u64, last: u64) -> Vec<(Vec<u8>, u64)> {
    let mut keys = std::collections::BTreeMap::new();
    for n in 1..=last {
        keys.insert(format!("key-{writer}-{:03}", n % KEYS).into_bytes(), n);
        keys.remove(format!("key-{writer}-{:03}", (n + KEYS / 2) % KEYS).as_bytes());
    }
    keys.into_iter().collect()
}

/// Checks that a view of the whole store holds, for every writer, exactly the rows that its counter implies.
fn check_view(db: &Db, families: &[Family; 2], at: At<'_>, is_snapshot: bool) -> Vec<u64> {
    let found = rows(db, &families[0], at).unwrap();
    let counters: Vec<u64> = (0..WRITERS)
        .map(|writer| {
            let key = counter_key(writer);
            let last = found.iter().find(|(found, _)| *found == key).map_or(0, |(_, value)| number(value));
            let prefix = format!("key-{writer}-").into_bytes();
            let keys = found.iter().filter(|(key, _)| key.starts_with(&prefix));
            let keys: Vec<_> = keys.map(|(key, value)| (key.clone(), number(value))).collect();
            assert_eq!(keys, keys_after(writer, last), "writer {writer} at {last}");
            last
        })
        .collect();
    if is_snapshot {
        for writer in 0..WRITERS {
            let value = get(db, &families[1], &counter_key(writer), at).unwrap();
            let other = value.map_or(0, |value| number(&value));
            assert_eq!(other, counters[writer as usize], "a batch is torn over families");
        }
    }
    counters
}

/// A reader: later reads never see older values, views are exact, and snapshots do not change.
fn read(db: &Db, families: &[Family; 2], acknowledged: &[AtomicU64], done: &AtomicBool) {
    let mut last = vec![0; WRITERS as usize];
    let mut held = None;
    let mut rounds = 0u64;
    while !done.load(Ordering::Relaxed) || rounds < 3 {
        rounds += 1;
        let mut now = last.clone();
        for writer in 0..WRITERS {
            let least = acknowledged[writer as usize].load(Ordering::SeqCst);
            let family = &families[(rounds % 2) as usize];
            let value = get(db, family, &counter_key(writer), At::Latest).unwrap();
            let seen = value.map_or(0, |value| number(&value));
            assert!(seen >= least, "writer {writer}: {seen} is older than what was acknowledged, {least}");
            assert!(seen >= now[writer as usize], "writer {writer}: time went back");
            now[writer as usize] = seen;
        }
        let counters = check_view(db, families, At::Latest, false); // a cursor sees one moment, too
        assert!(counters.iter().zip(&now).all(|(later, earlier)| later >= earlier));
        let snapshot = db.snapshot().unwrap();
        let counters = check_view(db, families, At::Snapshot(&snapshot), true);
        assert!(counters.iter().zip(&now).all(|(later, earlier)| later >= earlier));
        if let Some((snapshot, before)) = held.replace((snapshot, counters.clone())) {
            assert_eq!(check_view(db, families, At::Snapshot(&snapshot), true), before, "a snapshot changed");
        }
        last = counters;
    }
}

/// Runs every operation on the whole store, in rotation.
fn maintain(db: &Db, families: &[Family; 2], home: &Path, done: &AtomicBool) {
    let mut rounds = 0;
    while !done.load(Ordering::Relaxed) {
        rounds += 1;
        db.flush().unwrap();
        db.compact(&families[rounds % 2], &ALL).unwrap();
        db.sync().unwrap();
        let copy = home.join(format!("copy-{rounds}"));
        db.checkpoint(&copy).unwrap();
        let store = Db::open(&copy, settings(), parts(Env::real())).unwrap();
        let both = [store.family("default").unwrap(), store.family("other").unwrap()];
        let snapshot = store.snapshot().unwrap();
        check_view(&store, &both, At::Snapshot(&snapshot), true);
        store.close().unwrap();
        Db::destroy(&copy, &Env::real()).unwrap();
        db.settle().unwrap();
    }
}

/// Creates, writes, flushes, compacts and drops families.
fn come_and_go(db: &Db, done: &AtomicBool) {
    let mut rounds = 0;
    while !done.load(Ordering::Relaxed) {
        rounds += 1;
        let name = format!("passing-{rounds}");
        let family = db.create_family(&name, options()).unwrap();
        for n in 0..150 {
            let (key, value) = record(n, rounds);
            put(db, &family, &key, &value, Durability::Os).unwrap();
        }
        if rounds % 2 == 0 {
            db.flush().unwrap();
        }
        let cursor = db.cursor(&family, At::Latest, ALL);
        db.drop_family(&name).unwrap();
        let mut cursor = cursor.unwrap();
        cursor.first().unwrap();
        assert_eq!(cursor.key(), record(0, rounds).0, "a cursor keeps what it saw");
    }
}

fn everything_at_once(home: &Path, settings: Settings, commits: u64) {
    let dir = home.join("store");
    let db = Db::open(&dir, settings.clone(), parts(Env::real())).unwrap();
    let families = [default(&db), db.create_family("other", options()).unwrap()];
    let done = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, families, acknowledged) = (&db, &families, &acknowledged);
                scope.spawn(move || {
                    let mut before = 0;
                    for n in 1..=commits {
                        let seqno = commit(db, families, writer, n);
                        assert!(seqno > before, "seqnos grow");
                        before = seqno;
                        acknowledged[writer as usize].store(n, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| read(&db, &families, &acknowledged, &done));
        }
        scope.spawn(|| maintain(&db, &families, home, &done));
        scope.spawn(|| come_and_go(&db, &done));
        // A failing writer does not keep the other threads from ending.
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    assert_eq!(check_view(&db, &families, At::Latest, true), vec![commits; WRITERS as usize]);
    println!("{}", db.metrics());
    drop(families);
    db.close().unwrap();
    let db = Db::open(&dir, settings, parts(Env::real())).unwrap();
    assert_eq!((db.recovery().commits > 0, db.recovery().cut_bytes), (db.recovery().commits > 0, 0));
    let families = [default(&db), db.family("other").unwrap()];
    assert_eq!(check_view(&db, &families, At::Latest, true), vec![commits; WRITERS as usize]);
    assert_eq!(db.families().len(), 2);
}

#[test]
fn everything_at_once_on_a_disk() {
    let home = tempfile::tempdir().unwrap();
    everything_at_once(home.path(), Settings { background_threads: 2, subcompactions: 3, ..settings() }, 400);
}

#[test]
fn everything_at_once_in_memory_and_without_a_ring() {
    let shm = Path::new("/dev/shm");
    let home = match RealFs.exists(shm) {
        Ok(true) => tempfile::tempdir_in(shm).unwrap(),
        _ => tempfile::tempdir().unwrap(),
    };
    everything_at_once(home.path(), Settings { wal_mapped: false, memory_bytes: 128 * 1024, ..settings() }, 400);
}

#[test]
fn what_was_acknowledged_before_a_close_is_there_after_it() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let mut expected = vec![0; WRITERS as usize];
    for round in 0..12 {
        let settings = Settings { wal_mapped: round % 2 == 0, ..settings() };
        let db = Db::open(&dir, settings, parts(Env::real())).unwrap();
        let family = default(&db);
        for writer in 0..WRITERS {
            let value = get(&db, &family, &counter_key(writer), At::Latest).unwrap();
            let found = value.map_or(0, |value| number(&value));
            assert_eq!(found, expected[writer as usize], "writer {writer} in round {round}");
        }
        let all = AtomicU64::new(0);
        expected = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (db, family, all) = (&db, &family, &all);
                    let mut last = expected[writer as usize];
                    scope.spawn(move || {
                        loop {
                            let durability = if writer == 0 { Durability::Sync } else { Durability::Os };
                            match put(db, family, &counter_key(writer), &(last + 1).to_le_bytes(), durability) {
                                Ok(_) => last += 1,
                                Err(error) => {
                                    assert_eq!(*error.kind(), ErrorKind::Closed, "{error}");
                                    return last;
                                }
                            }
                            all.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let busy = scope.spawn(|| {
                loop {
                    if let Err(error) = db.compact(&family, &ALL) {
                        assert_eq!(*error.kind(), ErrorKind::Closed, "{error}");
                        return;
                    }
                }
            });
            while all.load(Ordering::Relaxed) < 200 {
                std::thread::yield_now();
            }
            db.close().unwrap();
            busy.join().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
    }
}
