//! Operators that fail, panic or are missing: errors of the read of their keys, and of nothing else.

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::interrupt;
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::record::MAX_VALUE_BYTES;
use waxseal_testing::store::*;

use crate::merge;

fn open(sim: &SimFs, dir: &std::path::Path, operator: Option<MergeOperator>) -> Result<Db> {
    let families = vec![("default".into(), CfOptions { merge_operator: operator, ..options() })];
    Db::open(dir, settings(), Parts { families, ..parts(sim.env(sim.steps())) })
}

/// Fails on an operand "fail" and panics on an operand "panic"; otherwise appends.
fn fragile() -> MergeOperator {
    MergeOperator::custom("fragile", |_, older, newer| match newer {
        b"fail" => Err("told to".into()),
        b"panic" => panic!("told to"),
        _ => Ok([older, newer].concat()),
    })
}

#[test]
fn a_failing_operator_fails_reads_of_its_keys_alone_and_no_compaction() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir, Some(fragile())).unwrap();
    let family = default(&db);
    for (key, operand) in [(b"a", &b"fail"[..]), (b"b", b"fine"), (b"c", b"panic"), (b"d", b"fine")] {
        put(&db, &family, key, b"base ", Durability::Os).unwrap();
        merge(&db, &family, key, operand, Durability::Os).unwrap();
    }
    for round in 0..3 {
        for (key, reason) in [(b"a", "told to"), (b"c", "panicked")] {
            let error = get(&db, &family, key, At::Latest).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(reason) && error.to_string().contains("fragile"), "{error}");
        }
        let mut cursor = db.cursor(&family, At::Latest, ALL).unwrap();
        assert!(cursor.first().is_err() && !cursor.valid());
        cursor.next().unwrap();
        assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b"base fine"[..]));
        assert!(cursor.next().is_err());
        cursor.next().unwrap();
        assert_eq!(cursor.key(), b"d");
        cursor.next().unwrap();
        assert!(!cursor.valid());
        cursor.last().unwrap();
        assert!(cursor.prev().is_err());
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), b"b");
        assert!(cursor.prev().is_err());
        cursor.prev().unwrap();
        assert!(!cursor.valid());
        match round {
            0 => db.flush().unwrap(),
            _ => db.compact(&family, &ALL).unwrap(),
        }
    }
    put(&db, &family, b"a", b"new", Durability::Os).unwrap();
    assert_eq!(get(&db, &family, b"a", At::Latest).unwrap().unwrap(), b"new");
    delete(&db, &family, b"c").unwrap();
    assert_eq!(get(&db, &family, b"c", At::Latest).unwrap(), None);
}

#[test]
fn an_operator_is_stored_by_name() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir, None).unwrap();
    let refused = merge(&db, &default(&db), b"k", b"1", Durability::Os).unwrap_err();
    assert!(refused.to_string().contains("has no merge operator"), "{refused}");
    db.close().unwrap();
    let db = open(&sim, &dir, Some(fragile())).unwrap();
    put(&db, &default(&db), b"other", b"value", Durability::Os).unwrap();
    merge(&db, &default(&db), b"k", b"1", Durability::Os).unwrap();
    merge(&db, &default(&db), b"k", b"2", Durability::Os).unwrap();
    db.close().unwrap();
    let refused = open(&sim, &dir, Some(MergeOperator::add_i64())).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("fragile") && refused.to_string().contains("wax.add_i64"), "{refused}");
    // Without the operator, other keys can be read, and compactions keep the operands.
    let db = open(&sim, &dir, None).unwrap();
    let family = default(&db);
    assert_eq!(get(&db, &family, b"other", At::Latest).unwrap().unwrap(), b"value");
    for _ in 0..2 {
        let error = get(&db, &family, b"k", At::Latest).unwrap_err();
        assert!(error.to_string().contains("open the store with it"), "{error}");
        db.compact(&family, &ALL).unwrap();
    }
    assert!(merge(&db, &family, b"k", b"3", Durability::Os).unwrap_err().to_string().contains("fragile"));
    db.close().unwrap();
    let db = open(&sim, &dir, Some(fragile())).unwrap();
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"12");
}

#[test]
fn an_operator_is_found_by_its_name() {
    let (sim, dir) = sim(8);
    let db = open(&sim, &dir, Some(fragile())).unwrap();
    merge(&db, &default(&db), b"k", b"1", Durability::Os).unwrap();
    db.close().unwrap();
    let known = |operator: MergeOperator| {
        Db::open(&dir, settings(), Parts { merge_operators: vec![operator], ..parts(sim.env(sim.steps())) })
    };
    let refused = known(MergeOperator::custom("wax.add_i64", |_, older, _| Ok(older.to_vec()))).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Invalid);
    let other = known(MergeOperator::custom("other", |_, older, _| Ok(older.to_vec()))).unwrap();
    assert!(get(&other, &default(&other), b"k", At::Latest).is_err());
    other.close().unwrap();
    let db = known(fragile()).unwrap();
    merge(&db, &default(&db), b"k", b"2", Durability::Os).unwrap();
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"12");
    // A reader finds it for families that are created later, too.
    let parts = Parts { merge_operators: vec![fragile()], ..parts(sim.env(sim.steps())) };
    let reader = Db::open_read_only(&dir, settings(), parts).unwrap();
    let later = db.create_family("later", CfOptions { merge_operator: Some(fragile()), ..options() }).unwrap();
    merge(&db, &later, b"k", b"3", Durability::Os).unwrap();
    reader.refresh().unwrap();
    assert_eq!(get(&reader, &reader.family("later").unwrap(), b"k", At::Latest).unwrap().unwrap(), b"3");
}

#[test]
fn an_operand_that_the_operator_cannot_read_is_refused() {
    let (sim, dir) = sim(5);
    let db = open(&sim, &dir, Some(MergeOperator::add_i64())).unwrap();
    let family = default(&db);
    assert!(merge(&db, &family, b"k", b"1", Durability::Os).unwrap_err().to_string().contains("8 bytes"));
    assert_eq!(get(&db, &family, b"k", At::Latest).unwrap(), None);
    put(&db, &family, b"text", b"abc", Durability::Os).unwrap();
    for key in [&b"text"[..], b"k"] {
        merge(&db, &family, key, &5i64.to_le_bytes(), Durability::Os).unwrap();
        merge(&db, &family, key, &(-7i64).to_le_bytes(), Durability::Os).unwrap();
    }
    assert!(get(&db, &family, b"text", At::Latest).unwrap_err().to_string().contains("8 bytes"));
    assert_eq!(get(&db, &family, b"k", At::Latest).unwrap().unwrap(), (-2i64).to_le_bytes());
    db.close().unwrap();
    // The engine's own operators are found by their names.
    let db = open(&sim, &dir, None).unwrap();
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), (-2i64).to_le_bytes());
}

#[test]
fn a_value_that_is_too_long_fails_the_read_and_stays_apart() {
    let (sim, dir) = sim(6);
    let longest = MergeOperator::custom("longest", |_, _, newer| match newer {
        b"1" => Ok(vec![0; MAX_VALUE_BYTES + 1]),
        _ => Ok(newer.to_vec()),
    });
    let db = open(&sim, &dir, Some(longest)).unwrap();
    let family = default(&db);
    put(&db, &family, b"k", b"base", Durability::Os).unwrap();
    merge(&db, &family, b"k", b"1", Durability::Os).unwrap();
    for failures in 0..2 {
        let error = get(&db, &family, b"k", At::Latest).unwrap_err().to_string();
        assert!(error.contains("its value has") && error.contains("the limit is"), "{error}");
        assert_eq!(db.metrics().merge_failures, failures);
        db.flush().unwrap();
    }
    merge(&db, &family, b"k", b"2", Durability::Os).unwrap();
    assert!(get(&db, &family, b"k", At::Latest).is_ok());
}

#[test]
fn a_long_chain_can_be_interrupted() {
    let (sim, dir) = sim(7);
    let db = open(&sim, &dir, Some(MergeOperator::add_u64())).unwrap();
    merge(&db, &default(&db), b"k", &7u64.to_le_bytes(), Durability::Os).unwrap();
    interrupt::set(Some(Box::new(|| true)));
    let found = get(&db, &default(&db), b"k", At::Latest);
    interrupt::set(None);
    assert_eq!(*found.unwrap_err().kind(), ErrorKind::Interrupted);
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), 7u64.to_le_bytes());
}
