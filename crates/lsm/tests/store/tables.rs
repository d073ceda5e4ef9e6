//! Tables are opened at their first read, and a bound limits the number of open ones.

use std::path::Path;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::table_property::TableProperty;
use waxseal_testing::store::*;

fn bounded(sim: &SimFs, dir: &Path, open_tables: usize) -> Db {
    let settings = Settings { open_tables, ..settings() };
    Db::open(dir, settings, parts(sim.env(sim.steps()))).unwrap()
}

fn tables(db: &Db) -> usize {
    db.tables(&default(db)).unwrap().len()
}

#[test]
fn a_store_of_many_tables_is_read_with_few_of_them_open() {
    let (sim, dir) = sim(1);
    let db = bounded(&sim, &dir, 4);
    fill(&db, 0..1500, 0);
    db.settle().unwrap();
    assert!(tables(&db) > 10, "{}", tables(&db));
    let family = default(&db);
    for (key, value) in filled(0..1500, 0) {
        assert_eq!(get(&db, &family, &key, At::Latest).unwrap(), Some(value));
        assert!(db.metrics().open_files <= 4, "{}", db.metrics().open_files);
    }
    let snapshot = db.snapshot().unwrap();
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), filled(0..1500, 0));
    assert!(db.metrics().open_files <= 4, "{}", db.metrics().open_files);
    assert_eq!(db.metrics().open_tables, tables(&db), "their indexes stay in memory");
    let keys: Vec<Vec<u8>> = filled(0..1500, 0).into_iter().map(|(key, _)| key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).rev().collect();
    let mut found = 0;
    db.multi_get(&family, &keys, At::Latest, &mut |at, record| {
        assert_eq!(record.key, keys[at]);
        found += 1;
    })
    .unwrap();
    assert_eq!(found, 1500);
    // Compactions hold their inputs, and obsolete files are removed although handles were closed and reopened.
    fill(&db, 0..1500, 1);
    db.compact(&family, &ALL).unwrap();
    assert_eq!(rows(&db, &family, At::Snapshot(&snapshot)).unwrap(), filled(0..1500, 0));
    drop(snapshot);
    db.compact(&family, &ALL).unwrap();
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), filled(0..1500, 1));
    let files = sim.files(&dir).iter().filter(|name| name.ends_with(".tbl")).count();
    assert_eq!(files, tables(&db), "files of tables that nobody names");
    db.close().unwrap();
}

#[test]
fn indexes_and_filters_stay_within_their_bytes() {
    let (sim, dir) = sim(2);
    let db = bounded(&sim, &dir, 0);
    fill(&db, 0..1500, 0);
    db.settle().unwrap();
    let family = default(&db);
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), filled(0..1500, 0));
    let (all, open) = (db.metrics().index_bytes, db.metrics().open_tables);
    assert_eq!(open, tables(&db), "nothing bounds them");
    db.close().unwrap();
    let most = all as usize / 4;
    let of_a_budget = Settings { memory_bytes: 2 * most, ..settings() };
    for settings in [Settings { index_bytes: most, ..settings() }, of_a_budget] {
        let db = Db::open(&dir, settings, parts(sim.env(3))).unwrap();
        let family = default(&db);
        for (key, value) in filled(0..1500, 0) {
            assert_eq!(get(&db, &family, &key, At::Latest).unwrap(), Some(value));
            assert!(db.metrics().index_bytes <= most as u64, "{} of {most}", db.metrics().index_bytes);
        }
        assert!(db.metrics().open_tables > 1);
        db.close().unwrap();
    }
}

#[test]
fn opening_a_store_touches_no_table() {
    let (sim, dir) = sim(3);
    let mut steps = Vec::new();
    for records in [200, 2000] {
        let db = open(&sim, &dir);
        fill(&db, 0..records, 0);
        db.settle().unwrap();
        db.close().unwrap();
        open(&sim, &dir).close().unwrap(); // removes files left by the previous process
        let before = sim.steps();
        let db = open(&sim, &dir);
        steps.push((tables(&db), sim.steps() - before));
        assert_eq!(db.metrics().open_tables, 0);
        db.close().unwrap();
    }
    let [(few, less), (many, more)] = steps[..] else { panic!("two stores") };
    assert!(many > 5 * few, "{few} and {many} tables");
    assert!(more <= less + 8, "{less} steps for {few} tables, {more} for {many}"); // the manifest is longer as well
}

/// Returns the options of the other tests, with large tables and partitions of four blocks.
fn cut(sim: &SimFs) -> Parts {
    let options = CfOptions {
        compression: Compression::None,
        table_bytes: 64 * 1024,
        level_base_bytes: 128 * 1024,
        part_blocks: 4,
        ..options()
    };
    Parts { families: vec![("default".to_owned(), options)], ..parts(sim.env(sim.steps())) }
}

#[test]
fn ranges_of_large_tables_come_when_they_are_read_and_count() {
    let (sim, dir) = sim(4);
    let db = Db::open(&dir, settings(), cut(&sim)).unwrap();
    for round in [0, 1] {
        fill(&db, 0..3000, round);
    }
    db.compact(&default(&db), &ALL).unwrap();
    db.close().unwrap();
    let db = Db::open(&dir, settings(), cut(&sim)).unwrap();
    let family = default(&db);
    let largest = db.tables(&family).unwrap().into_iter().max_by_key(|table| table.meta().size).unwrap();
    assert!(largest.table().unwrap().blocks() > 40);
    let opened = db.metrics();
    let (smallest, _) = record(0, 0);
    assert!(get(&db, &family, &smallest, At::Latest).unwrap().is_some());
    let one = db.metrics();
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), filled(0..3000, 1));
    let all = db.metrics();
    assert!(opened.index_bytes < one.index_bytes && 2 * one.index_bytes < all.index_bytes);
    assert!(all.cache.charged_bytes - opened.cache.charged_bytes >= all.index_bytes - opened.index_bytes);
    drop(largest);
    db.close().unwrap();
    // The bound holds for later changes too: evicted tables release their partitions.
    let most = all.index_bytes as usize / 2;
    let db = Db::open(&dir, Settings { index_bytes: most, ..settings() }, cut(&sim)).unwrap();
    let family = default(&db);
    let mut least = u64::MAX;
    for round in 0..3 {
        for (key, value) in filled(0..3000, 1).into_iter().skip(round).step_by(3) {
            assert_eq!(get(&db, &family, &key, At::Latest).unwrap(), Some(value));
            let bytes = db.metrics().index_bytes;
            assert!(bytes <= most as u64, "{bytes} of {most}");
            least = least.min(bytes);
        }
    }
    assert!(least > 0);
    let keys: Vec<Vec<u8>> = filled(0..3000, 1).into_iter().map(|(key, _)| key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).rev().collect();
    let mut found = 0;
    db.multi_get(&family, &keys, At::Latest, &mut |at, record| {
        assert_eq!(record.key, keys[at]);
        found += 1;
    })
    .unwrap();
    assert_eq!(found, 3000);
    db.close().unwrap();
}

/// A block that holds several keys of one request is read once, although a full cache does not admit it at its first
/// request.
#[test]
fn keys_of_one_block_that_are_asked_for_together_read_it_once() {
    let (sim, dir) = sim(9);
    let settings = Settings { cache_bytes: 256 * 1024, ..settings() };
    let db = Db::open(&dir, settings, parts(sim.env(sim.steps()))).unwrap();
    fill(&db, 0..6000, 0);
    db.settle().unwrap();
    let family = default(&db);
    rows(&db, &family, At::Latest).unwrap();
    let keys: Vec<Vec<u8>> = filled(0..6000, 0).into_iter().map(|(key, _)| key).collect();
    let loads = || db.metrics().cache.loads;
    let read = |keys: &[&[u8]]| {
        let before = loads();
        db.multi_get(&family, keys, At::Latest, &mut |_, _| ()).unwrap();
        loads() - before
    };
    let starts = (0..5000).step_by(100);
    let groups = starts.len() as u64;
    let together: u64 =
        starts.map(|first| read(&keys[first..first + 16].iter().map(|key| &key[..]).collect::<Vec<&[u8]>>())).sum();
    // Sixteen keys are in three or four blocks, some of which are cached.
    assert!(together > groups && together <= 3 * groups, "{together} loads for {groups} groups");
}

/// A flipped bit makes a table one that may have any item, or an error, and never one that is not found.
#[test]
fn no_damage_hides_a_table_from_a_search_by_property() {
    let (sim, dir) = sim(7);
    let opened = |sim: &SimFs| {
        let first = TableProperty::new("first", |_, value, add| {
            add(&value[..1]);
            Ok(())
        });
        let options = CfOptions { table_properties: vec![first], ..options() };
        let families = vec![("default".to_owned(), options)];
        Db::open(&dir, settings(), Parts { families, ..parts(sim.env(sim.steps())) }).unwrap()
    };
    let with = |db: &Db, item: &[u8]| -> waxseal_lsm::error::Result<Vec<u64>> {
        Ok(db.files_with(&default(db), "first", item)?.iter().map(|table| table.meta().number).collect())
    };
    let db = opened(&sim);
    for (key, value) in [(b"a", b"x of a"), (b"b", b"y of b")] {
        put(&db, &default(&db), key, value, Durability::Os).unwrap();
        db.flush().unwrap();
    }
    let (x, y) = (with(&db, b"x").unwrap(), with(&db, b"y").unwrap());
    assert!(x.len() == 1 && y.len() == 1 && x != y && with(&db, b"z").unwrap().is_empty());
    db.close().unwrap();
    let path = dir.join(format!("{:06}.tbl", x[0]));
    let (mut unknown, mut failed) = (0, 0);
    for bit in (0..sim.read_all(&path).unwrap().len() as u64 * 8).step_by(13) {
        let fork = sim.fork();
        fork.flip(&path, bit).unwrap();
        let db = opened(&fork);
        match with(&db, b"x") {
            Ok(found) => assert!(found.contains(&x[0]), "bit {bit}"),
            Err(_) => failed += 1,
        }
        unknown += usize::from(with(&db, b"z").is_ok_and(|found| found == x));
    }
    assert!(unknown > 10, "{unknown} unknown, {failed} failed");
}
