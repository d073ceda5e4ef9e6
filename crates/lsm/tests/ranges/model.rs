//! Random walks over a store with range deletes, compared with a map of versions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use proptest::prelude::*;
use waxseal_lsm::db::{At, Db, IngestMode, Parts, Snapshot};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::order::Order;
use waxseal_testing::store::*;

use crate::delete_range;
use crate::ingest::write_file;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    DeleteRange(Option<u8>, Option<u8>),
    /// Keys, a bit for each that says whether it is deleted, and whether the file is moved.
    Ingest(u8, u8, u16, bool),
    Flush,
    Work,
    Settle,
    Compact,
    Snapshot,
    DropSnapshot,
    Reopen,
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0u8..60;
    let one = prop_oneof![
        30 => key().prop_map(Step::Put),
        4 => key().prop_map(Step::Delete),
        6 => (prop::option::weighted(0.8, key()), prop::option::weighted(0.8, key())).prop_map(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => Step::DeleteRange(Some(a.min(b)), Some(a.max(b))),
            (a, b) => Step::DeleteRange(a, b),
        }),
        4 => (key(), 1u8..9, any::<u16>(), any::<bool>()).prop_map(|(a, n, bits, moved)| Step::Ingest(a, n, bits, moved)),
        4 => Just(Step::Flush),
        6 => Just(Step::Work),
        1 => Just(Step::Settle),
        1 => Just(Step::Compact),
        2 => Just(Step::Snapshot),
        2 => Just(Step::DropSnapshot),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
    ];
    prop::collection::vec(one, 1..120)
}

fn key(n: u8) -> Vec<u8> {
    format!("key {n:02}").into_bytes()
}

fn open_in(sim: &SimFs, dir: &Path, order: &Order) -> Db {
    let options = CfOptions { order: order.clone(), level0_tables: 2, ..options() };
    let parts = Parts { families: vec![("default".into(), options)], ..parts(sim.env(sim.steps())) };
    Db::open(dir, settings(), parts).unwrap()
}

/// Compares every way to read with the model.
fn compare(db: &Db, order: &Order, at: At<'_>, model: &Model) {
    let family = default(db);
    for n in 0..60 {
        assert_eq!(get(db, &family, &key(n), at).unwrap().as_ref(), model.get(&key(n)), "{n}");
    }
    let keys: Vec<Vec<u8>> = (0..60).map(key).collect();
    let lent: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut found = BTreeMap::new();
    db.multi_get(&family, &lent, at, &mut |number, record| {
        found.insert(keys[number].clone(), record.value.to_vec());
    })
    .unwrap();
    assert_eq!(&found, model);
    let mut expected: Rows = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    expected.sort_by(|(a, _), (b, _)| order.compare(a, b));
    assert_eq!(rows(db, &family, at).unwrap(), expected);
    let mut cursor = db.cursor(&family, at, ALL).unwrap();
    cursor.last().unwrap();
    for (key, value) in expected.iter().rev() {
        assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    // Turns at every row.
    cursor.first().unwrap();
    for pair in expected.windows(2) {
        cursor.next().unwrap();
        assert_eq!(cursor.key(), pair[1].0);
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), pair[0].0);
        cursor.next().unwrap();
    }
    let mut middle = db.cursor(&family, at, (Bound::Excluded(key(20)), Bound::Included(key(40)))).unwrap();
    let is_within = |key: &[u8]| match order.compare(b"a", b"b").is_lt() {
        true => key > &self::key(20)[..] && key <= &self::key(40)[..],
        false => key < &self::key(20)[..] && key >= &self::key(40)[..],
    };
    middle.first().unwrap();
    for (key, _) in expected.iter().filter(|(key, _)| is_within(key)) {
        assert_eq!(middle.key(), key);
        middle.next().unwrap();
    }
    assert!(!middle.valid());
}

fn walk(order: &Order, steps: &[Step]) {
    let (sim, dir) = sim(7);
    let mut db = open_in(&sim, &dir, order);
    let (mut model, mut snapshots): (Model, Vec<(Snapshot, Model)>) = Default::default();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Put(n) => {
                // Long values fill memtables and tables.
                let value = format!("value {number} {}", "x".repeat(number % 7 * 150)).into_bytes();
                put(&db, &default(&db), &key(*n), &value, Durability::Sync).unwrap();
                model.insert(key(*n), value);
            }
            Step::Delete(n) => {
                delete(&db, &default(&db), &key(*n)).unwrap();
                db.sync().unwrap();
                model.remove(&key(*n));
            }
            Step::DeleteRange(a, b) => {
                let (mut a, mut b) = (a.map(key), b.map(key));
                if let (Some(from), Some(to)) = (&a, &b)
                    && order.compare(from, to).is_gt()
                {
                    (a, b) = (b, a);
                }
                delete_range(&db, &default(&db), (a.as_deref(), b.as_deref()), Durability::Sync).unwrap();
                model.retain(|key, _| {
                    a.as_ref().is_some_and(|a| order.compare(key, a).is_lt())
                        || b.as_ref().is_some_and(|b| order.compare(key, b).is_ge())
                });
            }
            Step::Ingest(from, count, bits, moved) => {
                let mut numbers: Vec<u8> = (*from..60.min(from + count * 3)).step_by(3).collect();
                numbers.sort_by(|a, b| order.compare(&key(*a), &key(*b)));
                let value = |n: u8| (bits >> (n / 3 % 16) & 1 == 0).then(|| format!("ingested {number}").into_bytes());
                let records: Vec<_> = numbers.into_iter().map(|n| (key(n), value(n))).collect();
                let path = Path::new("/files").join(number.to_string());
                sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
                write_file(&db, &default(&db), &path, &records).unwrap();
                let mode = if *moved { IngestMode::Move } else { IngestMode::Copy };
                db.ingest_tables(&[(&default(&db), &[path])], mode).unwrap();
                for (key, value) in records {
                    match value {
                        Some(value) => drop(model.insert(key, value)),
                        None => drop(model.remove(&key)),
                    }
                }
            }
            Step::Flush => db.flush().unwrap(),
            Step::Work => drop(db.step().unwrap()),
            Step::Settle => db.settle().unwrap(),
            Step::Compact => db.compact(&default(&db), &ALL).unwrap(),
            Step::Snapshot => snapshots.push((db.snapshot().unwrap(), model.clone())),
            Step::DropSnapshot if !snapshots.is_empty() => drop(snapshots.remove(number % snapshots.len())),
            Step::DropSnapshot => {}
            Step::Reopen => {
                snapshots.clear();
                db.close().unwrap();
                db = open_in(&sim, &dir, order);
            }
            Step::Kill => {
                snapshots.clear();
                sim.crash_at(sim.steps());
                drop(db);
                sim.reboot(Crash::Machine(Loss::DurableOnly));
                db = open_in(&sim, &dir, order);
            }
        }
        if !matches!(step, Step::Put(_)) {
            compare(&db, order, At::Latest, &model);
            snapshots.iter().for_each(|(snapshot, model)| compare(&db, order, At::Snapshot(snapshot), model));
        }
    }
    compare(&db, order, At::Latest, &model);
    snapshots.clear();
    db.settle().unwrap();
    compare(&db, order, At::Latest, &model);
    assert_eq!(db.range_deletes(&default(&db)).unwrap(), [], "a settled store needs no range delete");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_read_agrees_with_the_model(steps in steps()) {
        walk(&Order::bytewise(), &steps);
    }

    #[test]
    fn every_read_agrees_with_the_model_in_an_order_of_the_user(steps in steps()) {
        walk(&backwards(), &steps);
    }
}
