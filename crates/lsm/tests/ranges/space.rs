//! What a range delete costs, and the space that it frees.

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::Durability;
use waxseal_testing::store::*;

use crate::delete_range;

#[test]
fn tables_that_a_range_delete_hides_are_dropped_unread() {
    let (sim, dir) = sim(1);
    let db = open(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..1500, 0);
    db.settle().unwrap();
    assert!(db.tables(&family).unwrap().len() > 10);
    let read = db.metrics().compacted_read;
    delete_range(&db, &family, (None, None), Durability::Os).unwrap();
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), []);
    db.flush().unwrap();
    while db.step().unwrap() {}
    assert_eq!(db.tables(&family).unwrap().len(), 0);
    assert_eq!(db.metrics().compacted_read, read, "tables were read");
    assert_eq!(db.range_deletes(&family).unwrap(), []);
    assert_eq!(named(&sim, &dir, ".tbl"), Vec::<String>::new());
}

#[test]
fn a_snapshot_keeps_what_it_sees_and_its_end_frees_the_space() {
    let (sim, dir) = sim(2);
    let db = open(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..1500, 0);
    db.settle().unwrap();
    let snapshot = db.snapshot().unwrap();
    delete_range(&db, &family, (None, None), Durability::Os).unwrap();
    db.settle().unwrap();
    assert_eq!(rows(&db, &family, At::Snapshot(&snapshot)).unwrap(), filled(0..1500, 0));
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), []);
    drop(snapshot);
    db.settle().unwrap();
    assert_eq!((db.tables(&family).unwrap().len(), db.range_deletes(&family).unwrap()), (0, Vec::new()));
}

/// A durable snapshot sees the durable range deletes below those that are not durable yet, also when a full memtable was
/// frozen between the two.
#[test]
fn a_durable_snapshot_sees_what_newer_range_deletes_hide() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir);
    let family = default(&db);
    put(&db, &family, b"key", b"deleted", Durability::Os).unwrap();
    delete_range(&db, &family, (None, Some(b"l")), Durability::Sync).unwrap();
    let pause = db.pause_background().unwrap(); // no flush, which would sync the log
    delete_range(&db, &family, (None, Some(b"l")), Durability::Os).unwrap();
    for n in 0..400 {
        let (key, value) = record(n, 0);
        put(&db, &family, &[b"m", &key[..]].concat(), &value, Durability::Os).unwrap();
        let durable = db.durable_snapshot().unwrap();
        assert_eq!(get(&db, &family, b"key", At::Snapshot(&durable)).unwrap(), None, "after {n} more puts");
    }
    drop(pause);
}

#[test]
fn the_edges_of_a_range_are_rewritten_when_the_store_settles() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..1500, 0);
    db.settle().unwrap();
    let before = db.tables(&family).unwrap().len();
    let (from, to) = (record(100, 0).0, record(1400, 0).0);
    delete_range(&db, &family, (Some(&from), Some(&to)), Durability::Os).unwrap();
    db.settle().unwrap();
    let left = [filled(0..100, 0), filled(1400..1500, 0)].concat();
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), left);
    assert_eq!(db.range_deletes(&family).unwrap(), []);
    let tables = db.tables(&family).unwrap();
    assert!(tables.len() < before / 4, "{} of {before}", tables.len());
    let records: u64 = tables.iter().map(|table| table.meta().ledger.count()).sum();
    assert_eq!(records, 200);
}

#[test]
fn a_range_delete_of_many_keys_is_one_short_record() {
    let mut batch = Batch::new();
    let (from, to) = (b"user:0000000000000000".as_slice(), b"user:9999999999999999".as_slice());
    batch.delete_range(0, (Some(from), Some(to)), &waxseal_lsm::seam::Plain).unwrap();
    assert!(batch.encoded_bytes() < 100, "{}", batch.encoded_bytes());
}

#[test]
fn a_range_that_ends_before_its_start_is_refused_and_changes_nothing() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir);
    let family = default(&db);
    put(&db, &family, b"m", b"1", Durability::Os).unwrap();
    let mut batch = Batch::new();
    batch.push(family.id(), waxseal_lsm::record::Kind::Put, b"x", b"2", db.companions()).unwrap();
    batch.delete_range(family.id(), (Some(b"z"), Some(b"a")), db.companions()).unwrap();
    assert_kind(db.commit(&mut batch, Durability::Os), ErrorKind::Invalid, "commit");
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), [(b"m".to_vec(), b"1".to_vec())]);
    // An empty range deletes nothing.
    delete_range(&db, &family, (Some(b"m"), Some(b"m")), Durability::Os).unwrap();
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 1);
}

/// Ranges that hold each other would otherwise make a list of seqnos for each key.
#[test]
fn many_ranges_that_hold_each_other_are_flushed_in_time() {
    let (sim, dir) = sim(5);
    let db = open(&sim, &dir);
    let family = default(&db);
    for n in 0..2_000 {
        put(&db, &family, &record(n, 0).0, b"value", Durability::Os).unwrap();
        delete_range(&db, &family, (None, Some(&record(n, 0).0)), Durability::Os).unwrap();
        assert_eq!(get(&db, &family, &record(n, 0).0, At::Latest).unwrap().as_deref(), Some(&b"value"[..]));
        while db.step().unwrap() {}
    }
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 1);
    let memory = db.metrics().memory.memtable_bytes;
    assert!(memory < 64 * 1024, "{memory}");
}

#[test]
fn all_versions_are_those_that_no_range_delete_hides() {
    let (sim, dir) = sim(6);
    let db = open(&sim, &dir);
    let family = default(&db);
    let keys = |at: At<'_>| {
        let (mut raw, mut keys) = (db.raw(&family, at, ALL).unwrap(), Vec::new());
        while let Some((record, _)) = raw.next().unwrap() {
            keys.push(record.key.to_vec());
        }
        keys
    };
    fill(&db, 0..30, 0);
    let snapshot = db.snapshot().unwrap();
    let (from, to) = (record(10, 0).0, record(20, 0).0);
    delete_range(&db, &family, (Some(&from), Some(&to)), Durability::Os).unwrap();
    let left = [filled(0..10, 0), filled(20..30, 0)].concat();
    for _ in 0..2 {
        assert_eq!(keys(At::Latest), left.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
        assert_eq!(keys(At::Snapshot(&snapshot)).len(), 30);
        db.flush().unwrap();
    }
}
