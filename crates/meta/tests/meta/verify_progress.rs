//! The progress of `verify` over a log.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Db, Parts, Silent};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{Progress, VerifyOptions, verify};

const RECORDS: u64 = 60;
const VALUE_BYTES: usize = 1000;

fn put(db: &Db, key: &str, value: &[u8]) {
    let (family, mut batch) = (db.family("default").unwrap(), Batch::new());
    batch.push(family.id(), Kind::Put, key.as_bytes(), value, db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
}

/// Bytes of the tables of a store.
fn in_tables(db: &Db) -> u64 {
    let tables = db.tables(&db.family("default").unwrap()).unwrap();
    tables.iter().map(|table| table.meta().bytes_with_values()).sum()
}

/// A store with records in its log alone.
fn all_log() -> Db {
    let settings = Settings {
        memtable_bytes: 1 << 20,
        segment_bytes: 1 << 20,
        ring_bytes: 64 << 10,
        drain_bytes: 16 << 10,
        ..Settings::default()
    };
    let parts = Parts {
        env: SimFs::new(3).env(1),
        companions: Arc::new(Sealer::new()),
        listener: Arc::new(Silent),
        families: vec![("default".to_owned(), CfOptions::default())],
        filters: Vec::new(),
        orders: Vec::new(),
        merge_operators: Vec::new(),
        engine_log: None,
        cache: None,
    };
    let db = Db::open(Path::new("/store"), settings, parts).unwrap();
    (0..RECORDS).for_each(|n| put(&db, &format!("{n:04}"), &[n as u8; VALUE_BYTES]));
    assert_eq!(in_tables(&db), 0);
    db
}

fn told(db: &Db) -> Vec<Progress> {
    let mut told = Vec::new();
    let mut watch = |progress: Progress| {
        told.push(progress);
        ControlFlow::Continue(())
    };
    let report = verify(db, VerifyOptions { progress: Some(&mut watch), ..Default::default() }).unwrap();
    assert!(report.is_clean() && !report.cancelled, "{report}");
    told
}

#[test]
fn a_store_that_is_all_log_has_progress() {
    let db = all_log();
    let told = told(&db);
    let (least, total) = (RECORDS * VALUE_BYTES as u64, told[0].total);
    assert!((least..least + RECORDS * 64).contains(&total), "{total} is not what the log holds");
    assert!(told.len() > 2 && told.is_sorted_by_key(|told| told.done), "{told:?}");
    assert!(told.iter().all(|told| told.total == total && told.done <= total), "{told:?}");
    assert_eq!(told.last().unwrap().done, total);
}

#[test]
fn tables_come_before_the_log_and_both_count() {
    let db = all_log();
    db.settle().unwrap();
    let tables = in_tables(&db);
    assert!(tables > 0);
    put(&db, "late", &[7; VALUE_BYTES]);
    let told = told(&db);
    let total = told[0].total;
    assert!((VALUE_BYTES as u64..VALUE_BYTES as u64 + 64).contains(&(total - tables)), "{total}, {tables} in tables");
    assert!(told.is_sorted_by_key(|told| told.done) && told.last().unwrap().done == total, "{told:?}");
}

#[test]
fn a_watch_that_ends_the_pass_in_the_log_is_not_called_again() {
    let db = all_log();
    let mut calls = 0;
    let mut watch = |_: Progress| {
        calls += 1;
        ControlFlow::Break(())
    };
    let report = verify(&db, VerifyOptions { progress: Some(&mut watch), ..Default::default() }).unwrap();
    assert!(report.cancelled && calls == 1, "{calls} calls");
}
