//! Calls that do not wait: reads from memory, and commits that find space. Every file system call is counted, so the
//! absence of file accesses is verified.

use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Precondition};
use waxseal_lsm::env::sim::Fault;
use waxseal_lsm::env::{Env, RealFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{Durability, Settings, Verify};
use waxseal_lsm::record::Kind;
use waxseal_testing::gates::GatedFs;
use waxseal_testing::store::*;

/// Returns `None` if the read was declined.
fn resident(db: &Db, family: &Family, key: &[u8], at: At<'_>) -> Result<Option<Option<Vec<u8>>>> {
    let mut value = None;
    let found = db.get_resident(family, key, at, Verify::Always, &mut |record| value = Some(record.value.to_vec()))?;
    assert!(found.is_some() || value.is_none(), "a read was declined after it had shown something");
    Ok(found.map(|_| value))
}

fn batch(db: &Db, family: &Family, key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, key, value, db.companions()).unwrap();
    batch
}

#[test]
fn a_resident_read_is_the_ordinary_one_or_none_and_touches_no_file() {
    for cache_bytes in [1 << 20, 4096, 0] {
        let (sim, dir) = sim(7);
        let open = || Db::open(&dir, Settings { cache_bytes, ..settings() }, parts(sim.env(sim.steps()))).unwrap();
        let db = open();
        fill(&db, 0..400, 1);
        for n in (0..400).step_by(7) {
            delete(&db, &default(&db), &record(n, 1).0).unwrap();
        }
        db.settle().unwrap();
        let snapshot = db.snapshot().unwrap();
        fill(&db, 100..300, 2);
        db.flush().unwrap();
        fill(&db, 0..20, 3);
        assert!(db.families()[0].name() == "default" && db.metrics().families[0].levels.len() > 1);

        let (mut answered, mut declined) = (0, 0);
        let mut look = |db: &Db, at: At<'_>| {
            let family = default(db);
            for n in 0..450 {
                let key = record(n, 0).0;
                let before = sim.steps();
                let first = resident(db, &family, &key, at).unwrap();
                assert_eq!(sim.steps(), before, "a resident read of {n} touched a file");
                let value = get(db, &family, &key, at).unwrap();
                match first {
                    Some(first) => {
                        answered += 1;
                        assert_eq!(first, value, "key {n}");
                    }
                    None => declined += 1,
                }
                if let Some(second) = resident(db, &family, &key, at).unwrap() {
                    assert_eq!(second, value, "key {n}, once its blocks were read");
                } else {
                    assert!(cache_bytes < 1 << 20, "what was just read is in memory");
                }
            }
        };
        look(&db, At::Latest);
        look(&db, At::Snapshot(&snapshot));
        drop(snapshot);
        db.close().unwrap();
        look(&open(), At::Latest); // no table is open yet
        assert!(answered > 0 && declined > 0, "{answered} answered, {declined} declined");
    }
}

#[test]
fn many_keys_are_answered_together_or_not_at_all() {
    let (sim, dir) = sim(8);
    let db = open(&sim, &dir);
    fill(&db, 0..100, 1);
    db.settle().unwrap();
    let family = default(&db);
    let keys: Vec<Vec<u8>> = (0..120).map(|n| record(n, 1).0).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let ask = || {
        let mut found = vec![None; keys.len()];
        let mut take = |at: usize, record: &waxseal_lsm::record::Record<'_>| found[at] = Some(record.value.to_vec());
        db.multi_get_resident(&family, &keys, At::Latest, Verify::Always, &mut take).unwrap().then_some(found)
    };
    assert_eq!(ask(), None);
    keys.iter().for_each(|key| drop(get(&db, &family, key, At::Latest).unwrap()));
    let found = ask().unwrap();
    (0..120).for_each(|n| assert_eq!(found[n], (n < 100).then(|| record(n, 1).1)));
}

#[test]
fn a_damaged_block_is_left_to_the_read_that_may_heal_it() {
    let (sim, dir) = sim(9);
    let db = open(&sim, &dir);
    fill(&db, 0..40, 1);
    db.settle().unwrap();
    let family = default(&db);
    let key = record(20, 1).0;
    db.close().unwrap();
    for table in named(&sim, &dir, ".tbl") {
        let bits = sim.read_all(dir.join(&table)).unwrap().len() as u64 * 8;
        sim.flip(dir.join(&table), bits / 4).unwrap();
    }
    let db = open(&sim, &dir);
    let outcome = resident(&db, &default(&db), &key, At::Latest);
    assert!(matches!(outcome, Ok(None)), "{outcome:?}");
    assert_kind(resident(&open_closed(&sim, &dir), &family, &key, At::Latest), ErrorKind::Closed, "a closed store");
}

fn open_closed(sim: &waxseal_lsm::env::SimFs, dir: &std::path::Path) -> Db {
    let other = dir.with_file_name("other");
    let db = open(sim, &other);
    db.close().unwrap();
    db
}

/// Commits a batch if that needs no waiting and no file access.
fn at_once(db: &Db, batch: &mut Batch, epoch: u64) -> Result<Option<u64>> {
    db.commit_if(batch, Durability::Os, Precondition::epoch(epoch).without_waiting())
}

#[test]
fn a_commit_at_once_writes_to_no_file_and_survives_the_process() {
    let (sim, dir) = sim(10);
    let db = open(&sim, &dir);
    let family = default(&db);
    let (mut done, mut declined) = (Vec::new(), 0);
    for n in 0..600 {
        let (key, value) = record(n, 1);
        let mut batch = batch(&db, &family, &key, &value);
        // The ring does not count as a file to wait for: stores into it never fail, and file accesses do.
        sim.fail_from(sim.steps(), Fault::Error(std::io::ErrorKind::Other));
        let outcome = at_once(&db, &mut batch, db.epoch());
        sim.clear_faults();
        match outcome.unwrap() {
            Some(_) => {
                done.push((key, value));
            }
            None => {
                declined += 1;
                assert_eq!(get(&db, &family, &key, At::Latest).unwrap(), None, "declined, and yet it is there");
                db.commit(&mut batch, Durability::Os).unwrap();
                done.push((key, value));
            }
        }
    }
    assert!(declined > 0, "a ring of 32 KiB never had no room");
    assert!(declined < 100, "{declined} of 600 were declined");
    kill(&sim, db);
    let db = open(&sim, &dir);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), done);
}

#[test]
fn a_commit_at_once_is_declined_where_every_frame_is_a_write_or_the_rules_are_others() {
    let (sim, dir) = sim(11);
    let db = open(&sim, &dir);
    let family = default(&db);
    let mut one = batch(&db, &family, b"key", b"value");
    let epoch = db.epoch();
    db.set_epoch(6).unwrap();
    assert_eq!(at_once(&db, &mut one, epoch).unwrap(), None);
    assert!(at_once(&db, &mut one, db.epoch()).unwrap().is_some());
    let mut large = batch(&db, &family, b"large", &[7; 20_000]); // above a quarter of the ring
    assert_eq!(at_once(&db, &mut large, db.epoch()).unwrap(), None);
    db.close().unwrap();
    assert_kind(at_once(&db, &mut one, epoch), ErrorKind::Closed, "a closed store");

    sim.set_mapped(false);
    let db = open(&sim, &dir);
    let mut one = batch(&db, &default(&db), b"another", b"value");
    assert_eq!(at_once(&db, &mut one, db.epoch()).unwrap(), None);
    assert_eq!(get(&db, &default(&db), b"another", At::Latest).unwrap(), None);
}

/// A large frame is written by its own thread. A commit ordered after it must wait, so a commit that must not wait is
/// declined.
#[test]
fn a_commit_at_once_is_declined_behind_a_frame_that_is_on_its_way() {
    let home = tempfile::tempdir().unwrap();
    let (fs, gates) = GatedFs::new(Arc::new(RealFs));
    let db = Db::open(&home.path().join("store"), settings(), parts(Env { fs: Arc::new(fs), ..Env::real() })).unwrap();
    let family = default(&db);
    gates.writes.shut();
    std::thread::scope(|scope| {
        let large = scope.spawn(|| {
            // Many small values: a large one would go to a blob file.
            let mut batch = Batch::new();
            for n in 0..20u8 {
                batch.push(family.id(), Kind::Put, &[n], &[7; 1000], db.companions()).unwrap();
            }
            db.commit(&mut batch, Durability::Os)
        });
        gates.writes.wait_for_one();
        while db.metrics().wal.large_frames == 0 {
            std::thread::yield_now();
        }
        let mut small = batch(&db, &family, b"small", b"1");
        assert_eq!(at_once(&db, &mut small, db.epoch()).unwrap(), None);
        gates.writes.open();
        large.join().unwrap().unwrap();
        assert!(at_once(&db, &mut small, db.epoch()).unwrap().is_some());
    });
}

/// If the store is closed after a commit returned and before its sync, the sync still reports correctly that the commit
/// is durable.
#[test]
fn commits_that_returned_are_synced_by_a_close_too() {
    let (sim, dir) = sim(12);
    let db = open(&sim, &dir);
    fill(&db, 0..10, 1);
    db.sync_committed().unwrap();
    fill(&db, 10..20, 1);
    db.close().unwrap();
    let before = sim.steps();
    db.sync_committed().unwrap();
    assert_eq!(sim.steps(), before, "closing had synced everything");
    assert_kind(db.sync(), ErrorKind::Closed, "sync");
}
