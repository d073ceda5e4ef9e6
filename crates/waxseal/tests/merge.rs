//! Merge operators from the Rust face: every way to read and to change a key sees the merged value.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use waxseal::exchange::{ExportOptions, Policy, Versions};
use waxseal::registry::Event;
use waxseal::{CfOptions, ColumnFamily, Db, Durability, ErrorKind, MergeOperator, Seal, Transaction, WriteOptions};

fn family(db: &Db, operator: MergeOperator) -> ColumnFamily {
    let options = CfOptions { merge_operator: Some(operator), ..CfOptions::default() };
    db.create_column_family("merged", options).unwrap()
}

fn number(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn all_reads_and_conditional_writes_see_the_merged_value() {
    let db = Db::memory().unwrap();
    let cf = family(&db, MergeOperator::add_i64());
    cf.put("k", number(40)).unwrap();
    let snapshot = db.snapshot();
    for round in 0..2 {
        cf.merge("k", number(1)).unwrap();
        cf.merge_with("k", number(1), Durability::Sync.into()).unwrap();
        let expected = number(42 + 2 * round);
        assert_eq!(cf.get("k").unwrap().unwrap(), expected);
        assert!(cf.contains("k").unwrap());
        assert_eq!(cf.multi_get(["k", "none"]).unwrap()[0].as_ref().unwrap(), &expected);
        assert_eq!(cf.iter().next().unwrap().unwrap().1, expected);
        assert_eq!(cf.iter().next_back().unwrap().unwrap().1, expected);
        assert_eq!(cf.first_key_value().unwrap().unwrap().1, expected);
        assert_eq!(snapshot.get(&cf, "k").unwrap().unwrap(), number(40));
        let sealed = cf.get_sealed("k").unwrap().unwrap();
        assert_eq!(sealed.seal, Seal::of("k", expected), "the seal of the value that was read");
        db.flush().unwrap();
    }
    assert!(!cf.compare_and_set("k", Some(number(40)), Some(number(0))).unwrap());
    assert!(!cf.put_if_absent("k", number(0)).unwrap());
    assert_eq!(cf.fetch_add("k", 6).unwrap(), 44);
    cf.merge("k", number(50)).unwrap();
    assert!(cf.compare_and_set("k", Some(number(100)), Some(number(1))).unwrap());
    cf.merge("k", number(-3)).unwrap();
    assert_eq!(cf.get("k").unwrap().unwrap(), number(-2));
    cf.delete("k").unwrap();
    assert_eq!(cf.get("k").unwrap(), None);
    cf.merge("k", number(5)).unwrap();
    assert_eq!(cf.get("k").unwrap().unwrap(), number(5));
    cf.delete_range("a".."z").unwrap();
    assert_eq!(cf.get("k").unwrap(), None);
    let mut batch = db.batch();
    batch.merge(&cf, "k", number(1)).merge(&cf, "k", number(2)).put(&cf, "l", number(3)).merge(&cf, "l", number(4));
    batch.commit(Durability::Os).unwrap();
    assert_eq!(cf.get("k").unwrap().unwrap(), number(3));
    assert_eq!(cf.get("l").unwrap().unwrap(), number(7));
    let report = db.verify(waxseal::VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.missing), (0, 0));
}

#[test]
fn a_refused_operand_changes_nothing() {
    let db = Db::memory().unwrap();
    let (cf, plain) = (family(&db, MergeOperator::add_i64()), db.column_family("plain").unwrap());
    let invalid = |outcome: waxseal::Result<()>| assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid);
    invalid(plain.merge("k", number(1)));
    invalid(cf.merge("k", "text"));
    invalid(cf.merge_with("k", number(1), WriteOptions::new().expires_in(Duration::from_secs(9))));
    invalid(cf.merge_with("k", number(1), WriteOptions::new().label("a", "b")));
    invalid(cf.merge_with("k", number(1), WriteOptions::new().log_as_insert()));
    let mut batch = db.batch();
    invalid(batch.put(&cf, "l", "1").merge(&cf, "k", "text").commit(Durability::Os));
    assert_eq!((cf.get("k").unwrap(), cf.get("l").unwrap(), plain.get("k").unwrap()), (None, None, None));
}

#[test]
fn a_merged_value_has_the_expiry_of_its_base_and_an_expired_base_counts_as_absent() {
    let db = Db::memory().unwrap();
    let cf = family(&db, MergeOperator::add_i64());
    let past = WriteOptions::new().expires_at(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let later = WriteOptions::new().expires_in(Duration::from_secs(3600));
    for (key, options) in [("past", past), ("later", later)] {
        cf.put_with(key, number(100), options).unwrap();
        cf.merge(key, number(1)).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(cf.get("past").unwrap().unwrap(), number(1));
        assert_eq!(cf.get("later").unwrap().unwrap(), number(101));
        assert!(cf.get_meta("later", waxseal::meta::EXPIRY).unwrap().is_some());
        assert!(cf.get_meta("past", waxseal::meta::EXPIRY).unwrap().is_none());
        db.settle().unwrap();
        cf.compact().unwrap();
    }
}

#[test]
fn an_operand_is_logged_as_an_update_without_values() {
    let db = Db::memory().unwrap();
    let cf = family(&db, MergeOperator::append(b","));
    db.registry().register("merged", "*").unwrap();
    let alice = db.session("alice").unwrap();
    let mine = alice.column_family("merged").unwrap();
    cf.put("k", "a").unwrap();
    mine.merge("k", "b").unwrap();
    let mut batch = db.batch();
    batch.merge(&cf, "k", "c");
    batch.commit(Durability::Os).unwrap();
    for _ in 0..2 {
        let events: Vec<Event> = db.registry().query_all("merged.k", "Row.Update").unwrap();
        assert_eq!(events.len(), 3);
        db.flush().unwrap();
    }
    assert_eq!(cf.get("k").unwrap().unwrap(), "a,b,c");
}

#[test]
fn an_export_holds_merged_values() {
    let dir = tempfile::tempdir().unwrap();
    let parcel = |name: &str| dir.path().join(name);
    let [db, other] = ["store", "other"].map(|name| Db::open(dir.path().join(name)).unwrap());
    let cf = family(&db, MergeOperator::append(","));
    let later = WriteOptions::new().expires_in(Duration::from_secs(3600));
    for (key, options) in [("k", WriteOptions::new()), ("later", later)] {
        cf.put_with(key, "a", options).unwrap();
        cf.merge(key, "b").unwrap();
        db.flush().unwrap();
        cf.merge(key, "c").unwrap();
    }
    cf.merge("deleted", "a").unwrap();
    cf.delete("deleted").unwrap();
    let exported = cf.export(parcel("newest"), ExportOptions::new()).unwrap();
    assert_eq!((exported.records, exported.unsealed), (2, 0), "{exported:?}");
    let taker = other.column_family("default").unwrap();
    assert_eq!(taker.import(parcel("newest")).unwrap().sealed, 2);
    assert_eq!(taker.get("k").unwrap().unwrap(), "a,b,c");
    assert_eq!(taker.get("later").unwrap().unwrap(), "a,b,c");
    assert!(taker.get_meta("later", waxseal::meta::EXPIRY).unwrap().is_some());
    assert_eq!(db.digest(&cf, ..).unwrap(), other.digest(&taker, ..).unwrap());
    let refused = cf.export(parcel("all"), ExportOptions::new().versions(Versions::All)).unwrap_err();
    assert!(refused.kind() == &ErrorKind::Invalid && refused.to_string().contains("merge operands"), "{refused}");
    let refused = cf.export(parcel("strip"), ExportOptions::new().policy(Policy::Strip)).unwrap_err();
    assert!(refused.to_string().contains("expires"), "{refused}");
}

#[test]
fn a_salvage_keeps_keys_of_operands() {
    let dir = tempfile::tempdir().unwrap();
    let [path, saved] = ["store", "saved"].map(|name| dir.path().join(name));
    let db = Db::open(&path).unwrap();
    let cf = family(&db, MergeOperator::append(","));
    cf.put("whole", "value").unwrap();
    cf.put("shadowed", "a").unwrap();
    cf.merge("shadowed", "b").unwrap();
    cf.put("shadowed", "new").unwrap();
    cf.put("merged", "a").unwrap();
    db.flush().unwrap();
    cf.merge("merged", "b").unwrap();
    db.close().unwrap();
    let report = Db::salvage(&path, &saved).unwrap();
    assert_eq!((report.lost, report.damage.len()), (0, 0), "{report:?}");
    let db = Db::open(&saved).unwrap();
    let cf = db.column_family("merged").unwrap();
    assert_eq!(cf.get("whole").unwrap().unwrap(), "value");
    assert_eq!(cf.get("shadowed").unwrap().unwrap(), "new");
    assert_eq!(cf.get("merged").unwrap().unwrap(), "a,b");
    cf.merge("merged", "c").unwrap();
    assert_eq!(cf.get("merged").unwrap().unwrap(), "a,b,c");
}

/// Returns an operator that counts its calls and fails for the key `bad`.
fn counted(calls: &Arc<AtomicUsize>) -> MergeOperator {
    let calls = calls.clone();
    MergeOperator::custom_full("counted", move |key, base, operands| {
        calls.fetch_add(1, Ordering::Relaxed);
        match key {
            b"bad" => Err("told to".into()),
            _ => Ok([base.unwrap_or_default(), &operands.concat()].concat()),
        }
    })
}

/// A scan for keys merges nothing, so it also lists a key whose operator fails.
#[test]
fn keys_are_listed_without_the_operator() {
    let (db, calls) = (Db::memory().unwrap(), Arc::default());
    let cf = family(&db, counted(&calls));
    cf.put("a", "1").unwrap();
    for key in ["a", "b", "bad", "c"] {
        cf.merge(key, "2").unwrap();
    }
    for _ in 0..2 {
        assert_eq!(cf.iter().keys().map(Result::unwrap).collect::<Vec<_>>(), ["a", "b", "bad", "c"]);
        assert_eq!(cf.iter().keys().rev().map(Result::unwrap).collect::<Vec<_>>(), ["c", "bad", "b", "a"]);
        assert!(!cf.is_empty().unwrap());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        db.flush().unwrap();
        calls.store(0, Ordering::Relaxed); // the flush may have merged
    }
    assert_eq!(cf.prefix("a").next().unwrap().unwrap().1, "12");
    assert!(cf.iter().any(|row| row.is_err()));
}

/// A scan of a transaction merges each key at most once, and not at all what the transaction has replaced or deleted.
#[test]
fn a_transaction_scans_past_operands_that_it_has_replaced() {
    let (db, calls) = (Db::memory().unwrap(), Arc::default());
    let cf = family(&db, counted(&calls));
    for key in ["a", "b", "bad", "c", "d"] {
        cf.merge(key, "1").unwrap();
    }
    let transaction = db.transaction();
    transaction.put(&cf, "bad", "mine").unwrap();
    transaction.delete(&cf, "c").unwrap();
    transaction.merge(&cf, "b", "2").unwrap();
    let expected = [("a", "1"), ("b", "12"), ("bad", "mine"), ("d", "1")];
    let rows = |range: &mut dyn Iterator<Item = waxseal::Result<(waxseal::Slice, waxseal::Slice)>>| {
        range.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect::<waxseal::Result<Vec<_>>>()
    };
    let mut expected: Vec<_> = expected.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).into();
    calls.store(0, Ordering::Relaxed);
    assert_eq!(rows(&mut transaction.iter(&cf)).unwrap(), expected);
    assert_eq!(calls.load(Ordering::Relaxed), 4, "a, d, the snapshot's b, and the operand above it");
    expected.reverse();
    assert_eq!(rows(&mut transaction.iter(&cf).rev()).unwrap(), expected);
    // The error comes at the key, and only where its value is wanted.
    let transaction = db.transaction();
    let mut cursor = transaction.cursor(&cf);
    cursor.seek("b").unwrap();
    assert!(cursor.next().is_err() && !cursor.valid());
    cursor.seek("c").unwrap();
    assert_eq!((cursor.key(), cursor.value()), (&b"c"[..], &b"1"[..]));
}

/// A merge operator may use the transaction whose scan calls it.
#[test]
fn an_operator_uses_the_transaction_that_scans() {
    let db = Db::memory().unwrap();
    let scanning: Arc<Mutex<Option<(Transaction, ColumnFamily)>>> = Arc::default();
    let used = scanning.clone();
    let operator = MergeOperator::custom_full("reads", move |_, _, operands| match &*used.lock().unwrap() {
        Some((transaction, cf)) => Ok(transaction.get(cf, "own").unwrap().unwrap().to_vec()),
        None => Ok(operands.concat()),
    });
    let cf = family(&db, operator);
    cf.merge("k", "operand").unwrap();
    let transaction = db.transaction();
    transaction.put(&cf, "own", "mine").unwrap();
    let mut cursor = transaction.cursor(&cf);
    *scanning.lock().unwrap() = Some((transaction, cf.clone()));
    cursor.first().unwrap();
    assert_eq!((cursor.key(), cursor.value()), (&b"k"[..], &b"mine"[..]));
    *scanning.lock().unwrap() = None;
}
