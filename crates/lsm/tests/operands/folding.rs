//! Flushes and compactions fold operands, as far as no reader can tell.

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_testing::store::*;

use crate::merge;

fn store(operator: MergeOperator) -> Db {
    let (sim, dir) = sim(11);
    let families = vec![("default".into(), CfOptions { merge_operator: Some(operator), ..options() })];
    Db::open(&dir, settings(), Parts { families, ..parts(sim.env(sim.steps())) }).unwrap()
}

fn value(db: &Db, at: At<'_>) -> Option<Vec<u8>> {
    get(db, &default(db), b"k", at).unwrap()
}

/// Returns the values and the operands in tables.
fn records(db: &Db) -> (u64, u64) {
    let tables = db.tables(&default(db)).unwrap();
    let ledgers = || tables.iter().map(|table| table.meta().ledger);
    (ledgers().map(|ledger| ledger.puts.count).sum(), ledgers().map(|ledger| ledger.others.count).sum())
}

fn append(db: &Db, operands: &[u8]) {
    operands.iter().for_each(|operand| {
        merge(db, &default(db), b"k", &[*operand], Durability::Os).unwrap();
    });
}

#[test]
fn a_flush_folds_operands_and_a_compaction_folds_them_into_their_base() {
    let db = store(MergeOperator::append(""));
    put(&db, &default(&db), b"k", b"v", Durability::Os).unwrap();
    db.flush().unwrap();
    append(&db, b"abcdefg");
    db.flush().unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((1, 1), Some(b"vabcdefg".to_vec())));
    append(&db, b"h");
    db.flush().unwrap();
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((1, 0), Some(b"vabcdefgh".to_vec())));
    assert_eq!((db.metrics().operands_folded, db.metrics().merge_failures), (9, 0));
    // Without a base at the bottom, and above a tombstone.
    delete(&db, &default(&db), b"k").unwrap();
    append(&db, b"xyz");
    db.flush().unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((2, 0), Some(b"xyz".to_vec())));
    merge(&db, &default(&db), b"other", b"1", Durability::Os).unwrap();
    db.flush().unwrap();
    assert_eq!(records(&db), (2, 1));
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((2, 0), Some(b"xyz".to_vec())));
}

#[test]
fn operands_do_not_fold_across_a_snapshot() {
    let db = store(MergeOperator::append(""));
    append(&db, b"ab");
    let snapshot = db.snapshot().unwrap();
    append(&db, b"cd");
    for round in 0..2 {
        assert_eq!(value(&db, At::Snapshot(&snapshot)), Some(b"ab".to_vec()));
        assert_eq!(value(&db, At::Latest), Some(b"abcd".to_vec()));
        if round == 0 {
            db.flush().unwrap();
            assert_eq!(records(&db), (0, 2));
            db.compact(&default(&db), &ALL).unwrap();
        }
    }
    assert_eq!(records(&db), (1, 1));
    drop(snapshot);
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((1, 0), Some(b"abcd".to_vec())));
}

#[test]
fn a_range_delete_ends_a_group() {
    let db = store(MergeOperator::append(""));
    append(&db, b"ab");
    let mut batch = Batch::new();
    batch.delete_range(default(&db).id(), (Some(b"a"), Some(b"z")), db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
    append(&db, b"cd");
    let early = db.snapshot().unwrap();
    db.flush().unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((0, 4), Some(b"cd".to_vec())));
    append(&db, b"e");
    db.flush().unwrap();
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!(value(&db, At::Latest), Some(b"cde".to_vec()));
    assert_eq!(value(&db, At::Snapshot(&early)), Some(b"cd".to_vec()));
    drop(early);
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((1, 0), Some(b"cde".to_vec())));
}

#[test]
fn a_full_operator_folds_at_its_base_and_a_failure_keeps_the_operands() {
    let joined = |_: &[u8], base: Option<&[u8]>, operands: &[&[u8]]| match operands.contains(&&b"!"[..]) {
        true => Err("told to".into()),
        false => Ok([base.unwrap_or(b"none"), &operands.concat()].concat()),
    };
    let db = store(MergeOperator::custom_full("joined", joined));
    append(&db, b"ab");
    db.flush().unwrap();
    assert_eq!(records(&db), (0, 2));
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!((records(&db), value(&db, At::Latest)), ((1, 0), Some(b"noneab".to_vec())));
    append(&db, b"c!");
    db.flush().unwrap();
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!((records(&db), db.metrics().merge_failures), ((1, 2), 1));
    assert!(get(&db, &default(&db), b"k", At::Latest).is_err());
    // Operands beside a failure fold.
    let fragile = MergeOperator::custom("fragile", |_, older, newer| match [older, newer].concat() {
        joined if joined.contains(&b'!') => Err("told to".into()),
        joined => Ok(joined),
    });
    let db = store(fragile);
    append(&db, b"abc!de");
    db.flush().unwrap();
    assert!(db.metrics().merge_failures > 0 && db.metrics().operands_folded > 0);
    assert!(get(&db, &default(&db), b"k", At::Latest).is_err());
}
