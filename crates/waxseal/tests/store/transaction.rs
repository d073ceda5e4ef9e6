//! Transactions: the anomalies that each isolation level prevents and permits, own writes, savepoints, conflicts with
//! range deletes and dropped families, expiry, registered operations, and histories against a model.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Atomic};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use waxseal::env::ManualClock;
use waxseal::meta::EXPIRY;
use waxseal::{
    Builder, CfOptions, ColumnFamily, Comparator, Db, ErrorKind, Isolation, MergeOperator, Order, Result, Slice,
    Transaction, WriteOptions,
};

const LEVELS: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

/// Where the records of conflicting commits are when they are looked for.
const MOVES: [fn(&Db); 3] = [
    |_| {},
    |db| db.flush().unwrap(),
    |db| {
        db.flush().unwrap();
        db.column_families().iter().for_each(|cf| cf.compact().unwrap());
    },
];

fn store() -> (Db, ColumnFamily) {
    let db = Db::memory().unwrap();
    let cf = db.column_family("rows").unwrap();
    for key in ["a", "b", "c", "x", "y"] {
        cf.put(key, "0").unwrap();
    }
    (db, cf)
}

fn text(found: Option<Slice>) -> String {
    found.map_or_else(|| "-".into(), |value| String::from_utf8(value.to_vec()).unwrap())
}

fn keys(rows: impl Iterator<Item = Result<(Slice, Slice)>>) -> String {
    rows.map(|row| String::from_utf8(row.unwrap().0.to_vec()).unwrap()).collect::<Vec<_>>().join(" ")
}

/// Asserts that a transaction commits, or fails with a conflict that names a key.
fn outcome(transaction: Transaction, conflict: Option<&str>) {
    match (transaction.commit(), conflict) {
        (Ok(()), None) => {}
        (Err(error), Some(key)) if *error.kind() == ErrorKind::Conflict => {
            assert!(error.to_string().contains(&format!("{key:?}")), "{error} does not name {key}");
        }
        (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
    }
}

/// Runs a check for each isolation level and each place of the other commits' records.
fn everywhere(check: impl Fn(&Db, &ColumnFamily, Isolation, &dyn Fn())) {
    for isolation in LEVELS {
        for settle in MOVES {
            let (db, cf) = store();
            check(&db, &cf, isolation, &|| settle(&db));
        }
    }
}

#[test]
fn a_lost_update_is_prevented_by_both_levels() {
    everywhere(|db, cf, isolation, settle| {
        let transaction = db.transaction_with(isolation);
        assert_eq!(text(transaction.get(cf, "x").unwrap()), "0");
        transaction.put(cf, "x", "1").unwrap();
        cf.put("x", "7").unwrap();
        settle();
        outcome(transaction, Some("x"));
        assert_eq!(text(cf.get("x").unwrap()), "7");
    });
}

#[test]
fn write_skew_is_prevented_by_the_serializable_level_only() {
    everywhere(|db, cf, isolation, settle| {
        let [one, other] = [(); 2].map(|()| db.transaction_with(isolation));
        for transaction in [&one, &other] {
            assert_eq!(text(transaction.get(cf, "x").unwrap()) + &text(transaction.get(cf, "y").unwrap()), "00");
        }
        one.put(cf, "x", "1").unwrap();
        other.put(cf, "y", "1").unwrap();
        outcome(one, None);
        settle();
        outcome(other, (isolation == Isolation::Serializable).then_some("x"));
    });
}

#[test]
fn a_read_for_update_prevents_write_skew_under_snapshot_isolation() {
    everywhere(|db, cf, isolation, settle| {
        let [one, other] = [(); 2].map(|()| db.transaction_with(isolation));
        for transaction in [&one, &other] {
            transaction.get_for_update(cf, "x").unwrap();
            transaction.get_for_update(cf, "absent").unwrap();
        }
        one.put(cf, "absent", "1").unwrap();
        other.put(cf, "y", "1").unwrap();
        outcome(one, None);
        settle();
        outcome(other, Some("absent"));
    });
}

#[test]
fn a_phantom_is_prevented_by_the_serializable_level_only() {
    everywhere(|db, cf, isolation, settle| {
        for change in ["insert", "update", "delete", "delete range"] {
            if change == "delete range" {
                cf.put("d", "3").unwrap();
            }
            let transaction = db.transaction_with(isolation);
            let before = keys(transaction.range(cf, "b".."e"));
            transaction.put(cf, "sum", &before).unwrap();
            match change {
                "insert" => cf.put("d", "1"),
                "update" => cf.put("d", "2"),
                "delete" => cf.delete("d"),
                _ => cf.delete_range("d".."dd"),
            }
            .unwrap();
            settle();
            assert_eq!(keys(transaction.range(cf, "b".."e")), before, "the snapshot does not change");
            outcome(transaction, (isolation == Isolation::Serializable).then_some("d"));
        }
    });
}

/// Fekete, O'Neil, O'Neil: A read-only transaction anomaly under snapshot isolation.
#[test]
fn the_read_only_anomaly_is_prevented_by_the_serializable_level_only() {
    everywhere(|db, cf, isolation, settle| {
        let withdraw = db.transaction_with(isolation);
        let balances = text(withdraw.get(cf, "x").unwrap()) + &text(withdraw.get(cf, "y").unwrap());
        let deposit = db.transaction_with(isolation);
        deposit.get(cf, "y").unwrap();
        deposit.put(cf, "y", "20").unwrap();
        outcome(deposit, None);
        let report = db.transaction_with(isolation);
        let seen = text(report.get(cf, "x").unwrap()) + " " + &text(report.get(cf, "y").unwrap());
        assert_eq!((&balances[..], &seen[..]), ("00", "0 20"));
        outcome(report, None);
        withdraw.put(cf, "x", "-11").unwrap(); // with the penalty, which the report has excluded
        settle();
        outcome(withdraw, (isolation == Isolation::Serializable).then_some("y"));
    });
}

/// The reads of a transaction.
type Read<'a> = dyn Fn(&Transaction) + 'a;

#[test]
fn only_what_was_read_conflicts() {
    for (place, settle) in MOVES.into_iter().enumerate() {
        let (db, cf) = store();
        let conflicts = |read: &dyn Fn(&Transaction), write: &dyn Fn(&ColumnFamily)| {
            let transaction = db.transaction();
            read(&transaction);
            transaction.put(&cf, "own", "1").unwrap();
            write(&cf);
            settle(&db);
            transaction.commit().is_err_and(|error| *error.kind() == ErrorKind::Conflict)
        };
        let put = |key: &'static str| move |cf: &ColumnFamily| cf.put(key, "1").unwrap();
        let first = |t: &Transaction| drop(t.range(&cf, "b"..).next().unwrap().unwrap());
        let two = |t: &Transaction| assert_eq!(keys(t.range(&cf, "b"..).take(2)), "b c");
        let last = |t: &Transaction| drop(t.range(&cf, .."x").next_back().unwrap().unwrap());
        let all = |t: &Transaction| assert_eq!(keys(t.range(&cf, "b".."d")), "b c");
        let nothing = |t: &Transaction| drop(t.range(&cf, ..));
        let seek = |t: &Transaction| {
            let mut cursor = t.cursor(&cf);
            cursor.seek("bb").unwrap();
            assert_eq!(cursor.key(), b"c");
            cursor.prev().unwrap();
            assert_eq!(cursor.key(), b"b");
        };
        let blind = |t: &Transaction| {
            t.put(&cf, "x", "1").unwrap();
            t.delete_range(&cf, "a".."c").unwrap();
            assert_eq!(text(t.get(&cf, "x").unwrap()) + &text(t.get(&cf, "a").unwrap()), "1-");
        };
        let cases: [(&Read<'_>, &[&'static str], &[&'static str]); 7] = [
            (&first, &["b"], &["a", "bb", "c", "own"]),
            (&two, &["b", "bb", "c"], &["a", "cc", "x", "own"]),
            (&last, &["w", "c"], &["bb", "b", "x"]),
            (&all, &["b", "c", "cz"], &["a", "d", "own"]),
            (&nothing, &[], &["b"]),
            (&seek, &["b", "bb", "bbb", "c"], &["az", "cc"]),
            (&blind, &[], &["a", "x", "own"]),
        ];
        for (case, (read, conflicting, others)) in cases.into_iter().enumerate() {
            for key in conflicting.iter().chain(others) {
                let expected = conflicting.contains(key);
                assert_eq!(conflicts(read, &put(key)), expected, "case {case}, put {key}");
                cf.delete_range(..).unwrap();
                for key in ["a", "b", "c", "x", "y"] {
                    cf.put(key, "0").unwrap();
                }
            }
        }
        let absent = |t: &Transaction| assert!(!t.contains(&cf, "m").unwrap());
        // Tables may forget a range delete that hides no record.
        assert!(conflicts(&absent, &|cf| cf.delete_range("k".."n").unwrap()) || place > 0);
        assert!(!conflicts(&absent, &|cf| cf.delete_range("n"..).unwrap()));
        assert!(conflicts(&all, &|cf| cf.clear().unwrap()));
        assert!(!conflicts(&absent, &|cf| cf.put("n", "1").unwrap()));
    }
}

/// Versions are compared, not values: a key that was changed and changed back conflicts, and so does an absent key that was
/// written and removed.
#[test]
fn a_key_that_changed_back_conflicts() {
    for level in LEVELS {
        for place in MOVES {
            let (db, cf) = store();
            let [present, absent] = ["a", "m"].map(|key| {
                let transaction = db.transaction_with(level);
                transaction.get_for_update(&cf, key).unwrap();
                transaction.put(&cf, "own", key).unwrap();
                transaction
            });
            cf.put("a", "1").unwrap();
            cf.put("m", "1").unwrap();
            place(&db);
            cf.put("a", "0").unwrap();
            cf.delete("m").unwrap();
            place(&db);
            outcome(present, Some("a"));
            outcome(absent, Some("m"));
        }
    }
}

#[test]
fn a_dropped_family_is_a_conflict() -> Result<()> {
    let (db, cf) = store();
    let other = db.column_family("other")?;
    let transaction = db.transaction();
    transaction.get(&other, "key")?;
    transaction.put(&cf, "a", "1")?;
    db.drop_column_family("other")?;
    outcome(transaction, Some("other"));
    let (transaction, other) = (db.transaction(), db.column_family("other")?);
    transaction.put(&other, "key", "1")?;
    db.drop_column_family("other")?;
    assert_eq!(transaction.commit().unwrap_err().kind(), &ErrorKind::Invalid, "as for a batch");
    Ok(())
}

#[test]
fn savepoints_undo_writes_and_nothing_else() -> Result<()> {
    let (db, cf) = store();
    let transaction = db.transaction();
    assert_eq!(transaction.rollback_to_savepoint().unwrap_err().kind(), &ErrorKind::Invalid);
    transaction.put(&cf, "n", "1")?;
    transaction.savepoint();
    transaction.delete_range(&cf, "a".."o")?;
    let mut cursor = transaction.cursor(&cf);
    cursor.seek("n")?;
    assert_eq!(cursor.key(), b"x");
    transaction.put(&cf, "b", "9")?;
    transaction.savepoint();
    transaction.delete(&cf, "b")?;
    assert_eq!(keys(transaction.iter(&cf)), "x y");
    transaction.rollback_to_savepoint()?;
    assert_eq!(keys(transaction.iter(&cf)), "b x y");
    cursor.prev()?;
    assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b"9"[..]));
    cursor.seek("b")?; // forward, so that the next move does not turn
    transaction.get(&cf, "c")?; // deleted by the transaction: not read
    transaction.rollback_to_savepoint()?;
    assert_eq!((transaction.len(), keys(transaction.iter(&cf))), (1, "a b c n x y".into()));
    cursor.next()?;
    assert_eq!(cursor.key(), b"c", "the cursor finds records again that were deleted when it passed");
    transaction.savepoint();
    transaction.savepoint();
    transaction.put(&cf, "o", "2")?;
    transaction.release_savepoint()?;
    assert_eq!(keys(transaction.iter(&cf)), "a b c n o x y");
    transaction.rollback_to_savepoint()?; // to the outer one
    assert_eq!(keys(transaction.iter(&cf)), "a b c n x y");
    assert_eq!(transaction.release_savepoint().unwrap_err().kind(), &ErrorKind::Invalid);
    transaction.put(&cf, "o", "2")?;
    transaction.commit()?;
    assert_eq!(cursor.next().unwrap_err().kind(), &ErrorKind::Invalid, "the transaction has ended");
    assert_eq!(keys(cf.iter()), "a b c n o x y");
    Ok(())
}

#[test]
fn a_cursor_that_outlives_its_transaction_shows_no_discarded_write() {
    let db = Db::memory().unwrap();
    let cf = db.column_family("default").unwrap();
    let transaction = db.transaction();
    transaction.put(&cf, "a", "discarded").unwrap();
    let (mut cursor, mut range) = (transaction.cursor(&cf), transaction.range(&cf, ..));
    drop(transaction);
    assert_eq!(cursor.first().unwrap_err().kind(), &ErrorKind::Invalid);
    assert!(!cursor.valid());
    assert!(range.next().unwrap().is_err() && range.next().is_none());
}

#[test]
fn a_transaction_reads_its_snapshot_at_one_time() -> Result<()> {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_750_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open()?;
    let cf = db.column_family("rows")?;
    let in_a_second = || WriteOptions::new().expires_in(Duration::from_secs(1));
    cf.put_with("lease", "1", in_a_second())?;
    let transaction = db.transaction();
    clock.advance_nanos(2_000_000_000);
    assert_eq!(cf.get("lease")?, None);
    assert_eq!(text(transaction.get(&cf, "lease")?), "1");
    assert_eq!(keys(transaction.iter(&cf)), "lease");
    transaction.put_with(&cf, "new", "1", in_a_second())?;
    let past = std::time::UNIX_EPOCH + Duration::from_secs(950_000_000);
    transaction.put_with(&cf, "lease", "2", WriteOptions::new().expires_at(past))?;
    assert_eq!(keys(transaction.iter(&cf)), "new", "the lease was replaced by an expired one");
    transaction.commit()?;
    assert_eq!(keys(cf.iter()), "new");
    Ok(())
}

#[test]
fn transactions_log_the_events_of_a_batch() -> Result<()> {
    let (db, cf) = store();
    let registry = db.registry();
    registry.register("rows", "*")?;
    let session = db.session("alice")?;
    let transaction = session.transaction();
    assert_eq!(text(transaction.get(&cf, "x")?), "0");
    transaction.put(&cf, "x", "1")?;
    transaction.savepoint();
    transaction.delete(&cf, "y")?;
    transaction.rollback_to_savepoint()?;
    transaction.put_with(&cf, "z", "1", WriteOptions::new().log_as_insert())?;
    transaction.delete_range(&cf, "a".."b")?;
    transaction.commit()?;
    let count = |target: &str, operation: &str| registry.query_all(target, operation).unwrap().len();
    let counts = ["rows.x", "rows.y", "rows.z"].map(|target| count(target, "Row.Write"));
    assert_eq!((counts, count("rows.z", "Row.Insert"), count("rows", "Range.Delete")), ([1, 0, 1], 1, 1));
    assert_eq!(registry.query_all("rows.x", "Row.Update")?[0].key.client, "alice");

    let transaction = db.transaction();
    transaction.get(&cf, "y")?;
    transaction.put(&cf, "x", "2")?;
    cf.put("y", "1")?;
    registry.register("rows.y", "*")?; // a new epoch: the reads are validated again
    outcome(transaction, Some("y"));
    assert_eq!(count("rows.x", "Row.Update"), 1, "what was not committed is not logged");
    Ok(())
}

#[test]
fn a_refused_write_leaves_the_transaction_as_it_was() -> Result<()> {
    let (db, cf) = store();
    let (_, foreign) = store();
    let transaction = db.transaction();
    transaction.put(&cf, "n", "1")?;
    let refused = [
        transaction.put(&cf, vec![0; waxseal::MAX_KEY_BYTES + 1], "1"),
        transaction.put(&foreign, "key", "1"),
        transaction.get(&foreign, "key").map(drop),
        transaction.delete_range(&cf, "b".."a"),
        transaction.put_with(&cf, "key", "1", WriteOptions::new().durability(waxseal::Durability::Sync)),
    ];
    for outcome in refused {
        assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid);
    }
    assert_eq!((transaction.len(), transaction.isolation()), (1, Isolation::Serializable));
    let kept = transaction.cursor(&cf);
    transaction.rollback();
    drop(kept);
    assert_eq!(cf.get("n")?, None);
    let late = db.transaction();
    db.close()?;
    assert_eq!(late.get(&cf, "a").unwrap_err().kind(), &ErrorKind::Closed);
    assert_eq!(late.commit().unwrap_err().kind(), &ErrorKind::Closed);
    assert_eq!(db.transaction().check().unwrap_err().kind(), &ErrorKind::Closed);
    assert_eq!(db.transact(|_| Ok(())).unwrap_err().kind(), &ErrorKind::Closed);
    Ok(())
}

#[test]
fn merges_alone_do_not_conflict_under_the_serializable_level_and_reads_of_them_do() -> Result<()> {
    let number = |value: i64| Slice::from(&value.to_le_bytes()[..]);
    let one = number(1);
    for (reads, isolation) in [(false, LEVELS[0]), (true, LEVELS[0]), (false, LEVELS[1])] {
        let db = Db::memory()?;
        let merge_operator = Some(MergeOperator::add_i64());
        let cf = db.create_column_family("counters", CfOptions { merge_operator, ..CfOptions::default() })?;
        cf.put("k", number(40))?;
        let transaction = db.transaction_with(isolation);
        transaction.merge(&cf, "k", &one)?;
        transaction.merge(&cf, "new", &one)?;
        if reads {
            assert_eq!(transaction.get(&cf, "k")?.unwrap(), number(41));
            assert_eq!(transaction.multi_get(&cf, ["new", "k", "none"])?, [Some(one.clone()), Some(number(41)), None]);
        }
        cf.merge("k", &one)?;
        if reads || isolation == Isolation::Snapshot {
            outcome(transaction, Some("k"));
            assert_eq!((cf.get("k")?.unwrap(), cf.get("new")?), (number(41), None));
        } else {
            outcome(transaction, None);
            assert_eq!((cf.get("k")?.unwrap(), cf.get("new")?.unwrap()), (number(42), one.clone()));
        }
    }
    Ok(())
}

#[test]
fn a_failing_merge_operator_fails_the_reads_of_a_transaction_and_not_its_commit() -> Result<()> {
    let db = Db::memory()?;
    let fragile = MergeOperator::custom("fragile", |_, older, newer| match newer {
        b"panic" => panic!("told to"),
        _ => Ok([older, newer].concat()),
    });
    let cf = db.create_column_family("rows", CfOptions { merge_operator: Some(fragile), ..CfOptions::default() })?;
    let plain = db.column_family("plain")?;
    for key in ["a", "b", "c"] {
        cf.put(key, "0")?;
    }
    let transaction = db.transaction();
    assert_eq!(transaction.merge(&plain, "a", "1").unwrap_err().kind(), &ErrorKind::Invalid);
    transaction.merge(&cf, "b", "panic")?;
    transaction.merge(&cf, "c", "1")?;
    assert!(transaction.get(&cf, "b").unwrap_err().to_string().contains("panicked"));
    assert!(transaction.multi_get(&cf, ["a", "b"]).is_err());
    let mut cursor = transaction.cursor(&cf);
    cursor.first()?;
    assert!(cursor.next().is_err() && !cursor.valid());
    cursor.seek("c")?;
    assert_eq!(cursor.value(), b"01");
    assert!(cursor.prev().is_err() && !cursor.valid());
    assert_eq!(transaction.len(), 2);
    transaction.commit()?;
    assert!(cf.get("b").is_err());
    assert_eq!(cf.get("c")?.unwrap(), "01");
    Ok(())
}

#[test]
fn a_merge_in_a_transaction_begins_with_nothing_above_an_expired_value_or_a_deleted_range() -> Result<()> {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_750_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open()?;
    let merge_operator = Some(MergeOperator::append(","));
    let cf = db.create_column_family("rows", CfOptions { merge_operator, ..CfOptions::default() })?;
    cf.put_with("k", "old", WriteOptions::new().expires_in(Duration::from_secs(10)))?;
    cf.put("l", "old")?;
    let before = db.transaction();
    clock.advance_nanos(20_000_000_000);
    let after = db.transaction();
    for (transaction, value) in [(&before, "old,new"), (&after, "new")] {
        transaction.merge(&cf, "k", "new")?;
        assert_eq!(text(transaction.get(&cf, "k")?), value);
        transaction.delete_range(&cf, "l"..)?;
        transaction.merge(&cf, "l", "new")?;
        assert_eq!(text(transaction.get(&cf, "l")?), "new");
    }
    Ok(())
}

/// Four threads move amounts between accounts, while others put and delete unrelated keys, flush and compact.
#[test]
fn concurrent_transfers_keep_the_sum() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let db = Db::builder(home.path().join("store")).memtable_bytes(64 * 1024).open()?;
    let cf = db.column_family("accounts")?;
    let read = |value: &[u8]| i64::from_le_bytes(value.try_into().unwrap());
    for account in 0..8u8 {
        cf.put([account], 100i64.to_le_bytes())?;
    }
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (db, cf) = (&db, &cf);
            scope.spawn(move || {
                for n in 0..400u64 {
                    let from = [(n * 7 + thread) as u8 % 8];
                    let to = [(n * 3 + thread * 5 + 1) as u8 % 8];
                    db.transact(|transaction| {
                        let sum: i64 = transaction.iter(cf).map(|row| Ok(read(&row?.1))).sum::<Result<i64>>()?;
                        assert_eq!(sum, 800);
                        if from != to {
                            let [has, gets] = [from, to].map(|key| transaction.get_with(cf, key, read));
                            transaction.put(cf, from, (has?.unwrap() - 1).to_le_bytes())?;
                            transaction.put(cf, to, (gets?.unwrap() + 1).to_le_bytes())?;
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
        let (db, other) = (&db, db.column_family("other").unwrap());
        scope.spawn(move || {
            for n in 0..2000u32 {
                other.put(n.to_le_bytes(), vec![0; 500]).unwrap();
                if n % 500 == 0 {
                    db.settle().unwrap();
                }
            }
        });
    });
    assert_eq!(cf.iter().map(|row| read(&row.unwrap().1)).sum::<i64>(), 800);
    Ok(())
}

/// The reverse of bytewise order.
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// An order in which capitals equal small letters.
struct IgnoringCase;

impl Comparator for IgnoringCase {
    fn name(&self) -> &str {
        "test.ignoring-case"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }

    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}

/// Of keys that are equal in the family's order, a transaction shows the one that the store shows after its commit.
#[test]
fn equal_keys_have_the_bytes_of_the_last_write() {
    let db = Db::memory().unwrap();
    let order = Order::custom(Arc::new(IgnoringCase));
    let options = CfOptions { order, merge_operator: Some(MergeOperator::append("")), ..CfOptions::default() };
    let cf = db.create_column_family("rows", options).unwrap();
    let transaction = db.transaction();
    transaction.put(&cf, "a", "1").unwrap();
    transaction.put(&cf, "A", "2").unwrap();
    transaction.put(&cf, "b", "3").unwrap();
    transaction.merge(&cf, "B", "4").unwrap();
    transaction.merge(&cf, "C", "5").unwrap();
    transaction.delete(&cf, "c").unwrap();
    transaction.merge(&cf, "c", "6").unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let own: Vec<_> =
        transaction.iter(&cf).map(|row| row.unwrap()).map(|(key, value)| (text(&key), text(&value))).collect();
    transaction.commit().unwrap();
    let stored: Vec<_> = cf.iter().map(|row| row.unwrap()).map(|(key, value)| (text(&key), text(&value))).collect();
    assert_eq!(stored, [("A", "2"), ("B", "34"), ("c", "6")].map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(own, stored);
}

/// Bytewise order, until it contradicts itself: then a pseudorandom sequence, whatever the keys.
struct Contradicting {
    has_begun: AtomicBool,
    sequence: AtomicU64,
}

impl Comparator for Contradicting {
    fn name(&self) -> &str {
        "test.contradicting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if !self.has_begun.load(Atomic::Relaxed) {
            return a.cmp(b);
        }
        let drawn = self.sequence.fetch_add(1, Atomic::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [Ordering::Less, Ordering::Greater, Ordering::Equal][(drawn >> 40) as usize % 3]
    }
}

/// A comparator that contradicts itself makes no call of a transaction panic or run forever.
#[test]
fn a_comparator_that_contradicts_itself_is_endured() {
    for seed in 0..300 {
        let db = Db::memory().unwrap();
        let comparator =
            Arc::new(Contradicting { has_begun: AtomicBool::new(false), sequence: AtomicU64::new(seed << 32) });
        let order = Order::custom(Arc::clone(&comparator) as Arc<dyn Comparator>);
        let cf = db.create_column_family("rows", CfOptions { order, ..CfOptions::default() }).unwrap();
        (0..40u8).for_each(|key| cf.put([key], [key]).unwrap());
        let transaction = db.transaction();
        for key in (0..40u8).step_by(4) {
            transaction.delete_range(&cf, [key]..[key + 2]).unwrap();
            transaction.put(&cf, [key + 1], "own").unwrap();
        }
        comparator.has_begun.store(true, Atomic::Relaxed);
        for key in 0..10u8 {
            let _ = transaction.get(&cf, [key]);
            let _ = transaction.delete_range(&cf, [key]..[key + 2]);
            let _ = transaction.put(&cf, [key], "own");
            let mut cursor = transaction.cursor(&cf);
            let _ = cursor.seek([key]).and_then(|()| cursor.prev());
            let _ = cursor.seek_for_prev([key]).and_then(|()| cursor.next());
            let _ = transaction.range(&cf, [key]..).take(100).count();
            let _ = transaction.range(&cf, ..[key]).rev().take(100).count();
        }
        let _ = transaction.commit();
    }
}

/// The base of operands without a value.
const ABSENT: u8 = 7;

/// Merges an operand into a value. The order of operands matters.
fn chain(value: u8, operand: u8) -> u8 {
    value.wrapping_mul(31).wrapping_add(operand)
}

fn chained() -> MergeOperator {
    MergeOperator::custom_full("chained", |_, base, operands| {
        let first = base.map_or(ABSENT, |base| base[0]);
        Ok(vec![operands.iter().fold(first, |value, operand| chain(value, operand[0]))])
    })
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Merge(u8, u8),
    Delete(u8),
    DeleteRange(u8, u8),
    Savepoint,
    Rollback,
    Get(u8),
    Seek(u8, Vec<bool>),
    SeekForPrev(u8, Vec<bool>),
    Range(u8, u8, Vec<bool>),
    /// A commit of another writer, which the transaction does not see.
    Other(u8),
}

fn steps() -> impl Strategy<Value = Step> {
    let key = || 0u8..20;
    let moves = || vec(any::<bool>(), 0..12);
    prop_oneof![
        4 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        4 => (key(), any::<u8>()).prop_map(|(key, operand)| Step::Merge(key, operand)),
        2 => key().prop_map(Step::Delete),
        1 => (key(), key()).prop_map(|(a, b)| Step::DeleteRange(a.min(b), a.max(b))),
        1 => Just(Step::Savepoint),
        1 => Just(Step::Rollback),
        2 => key().prop_map(Step::Get),
        3 => (key(), moves()).prop_map(|(key, moves)| Step::Seek(key, moves)),
        3 => (key(), moves()).prop_map(|(key, moves)| Step::SeekForPrev(key, moves)),
        3 => (key(), key(), moves()).prop_map(|(a, b, moves)| Step::Range(a.min(b), a.max(b), moves)),
        1 => key().prop_map(Step::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// A transaction reads as a map that its writes are applied to, in both directions and both orders.
    #[test]
    fn a_transaction_reads_like_a_map(
        first in vec((0u8..20, any::<u8>()), 0..20), steps in vec(steps(), 1..40), reversed: bool, place in 0usize..3
    ) {
        let db = Db::memory().unwrap();
        let order = if reversed { Order::custom(Arc::new(Reverse)) } else { Order::bytewise() };
        let merge_operator = Some(chained());
        let cf = db.create_column_family("rows", CfOptions { order, merge_operator, ..CfOptions::default() }).unwrap();
        // In reversed order, the model has the complement of each key.
        let stored = |key: u8| [if reversed { 255 - key } else { key }];
        let mut model: BTreeMap<u8, u8> = BTreeMap::new();
        for (key, value) in first {
            cf.put(stored(key), [value]).unwrap();
            cf.merge(stored(key), [1]).unwrap();
            model.insert(key, chain(value, 1));
        }
        MOVES[place](&db);
        let transaction = db.transaction_with(Isolation::Snapshot);
        let mut savepoints = Vec::new();
        let row = |key: &[u8], value: &[u8]| (if reversed { 255 - key[0] } else { key[0] }, value[0]);
        let mut others: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Put(key, value) => {
                    transaction.put(&cf, stored(key), [value]).unwrap();
                    model.insert(key, value);
                }
                Step::Merge(key, operand) => {
                    transaction.merge(&cf, stored(key), [operand]).unwrap();
                    let value = model.entry(key).or_insert(ABSENT);
                    *value = chain(*value, operand);
                }
                Step::Delete(key) => {
                    transaction.delete(&cf, stored(key)).unwrap();
                    model.remove(&key);
                }
                Step::DeleteRange(a, b) => {
                    transaction.delete_range(&cf, stored(a)..stored(b)).unwrap();
                    model.retain(|key, _| !(a..b).contains(key));
                }
                Step::Savepoint => {
                    transaction.savepoint();
                    savepoints.push(model.clone());
                }
                Step::Rollback => match savepoints.pop() {
                    Some(before) => {
                        transaction.rollback_to_savepoint().unwrap();
                        model = before;
                    }
                    None => prop_assert!(transaction.rollback_to_savepoint().is_err()),
                },
                Step::Get(key) => {
                    let found = transaction.get_with(&cf, stored(key), |value| value[0]).unwrap();
                    prop_assert_eq!(found, model.get(&key).copied());
                    let found = transaction.multi_get(&cf, (0..20).map(stored)).unwrap();
                    let found = found.iter().map(|value| value.as_ref().map(|value| value[0]));
                    prop_assert!(found.eq((0..20).map(|key| model.get(&key).copied())));
                }
                Step::Seek(key, moves) => {
                    let mut cursor = transaction.cursor(&cf);
                    cursor.seek(stored(key)).unwrap();
                    let mut at = model.range(key..).next();
                    walk(&mut cursor, &mut at, &model, &moves, row)?;
                }
                Step::SeekForPrev(key, moves) => {
                    let mut cursor = transaction.cursor(&cf);
                    cursor.seek_for_prev(stored(key)).unwrap();
                    let mut at = model.range(..=key).next_back();
                    walk(&mut cursor, &mut at, &model, &moves, row)?;
                }
                Step::Range(a, b, ends) => {
                    let mut range = transaction.range(&cf, stored(a)..stored(b));
                    let mut expected = model.range(a..b);
                    for from_back in ends {
                        let found = if from_back { range.next_back() } else { range.next() };
                        let found = found.map(|found| { let (key, value) = found.unwrap(); row(&key, &value) });
                        let next = if from_back { expected.next_back() } else { expected.next() };
                        prop_assert_eq!(found, next.map(|(key, value)| (*key, *value)));
                    }
                }
                Step::Other(key) => {
                    cf.put(stored(key + 100), "other").unwrap();
                    cf.delete(stored(key + 100)).unwrap();
                    others.push(key + 100);
                }
            }
        }
        let committed: Vec<_> = model.into_iter().collect();
        transaction.commit().unwrap();
        let found = cf.iter().map(|found| { let (key, value) = found.unwrap(); row(&key, &value) });
        prop_assert_eq!(found.collect::<Vec<_>>(), committed);
    }
}

/// Moves a cursor forward and backward beside a position in the model.
fn walk<'a>(
    cursor: &mut waxseal::TransactionCursor,
    at: &mut Option<(&'a u8, &'a u8)>,
    model: &'a BTreeMap<u8, u8>,
    moves: &[bool],
    row: impl Fn(&[u8], &[u8]) -> (u8, u8),
) -> std::result::Result<(), TestCaseError> {
    for step in [None].into_iter().chain(moves.iter().map(Some)) {
        match step {
            Some(true) => {
                cursor.next().unwrap();
                *at = at.and_then(|(key, _)| model.range(key + 1..).next());
            }
            Some(false) => {
                cursor.prev().unwrap();
                *at = at.and_then(|(key, _)| model.range(..*key).next_back());
            }
            None => {}
        }
        let found = cursor.valid().then(|| row(cursor.key(), cursor.value()));
        prop_assert_eq!(found, at.map(|(key, value)| (*key, *value)));
    }
    Ok(())
}

#[test]
fn a_transaction_reads_the_expiry_that_its_snapshot_has() -> Result<()> {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_750_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open()?;
    let cf = db.column_family("rows")?;
    cf.put_with("k", "1", WriteOptions::new().expires_in(Duration::from_secs(10)))?;
    for level in LEVELS {
        let transaction = db.transaction_with(level);
        let expiry = transaction.get_meta(&cf, "k", EXPIRY)?.unwrap();
        clock.advance_nanos(6_000_000_000);
        assert_eq!(transaction.get_meta(&cf, "k", EXPIRY)?.unwrap().bytes, expiry.bytes);
        assert!(transaction.get_meta(&cf, "l", EXPIRY)?.is_none());
        cf.put_with("k", "2", WriteOptions::new().expires_in(Duration::from_secs(10)))?;
        assert_eq!(transaction.get_meta(&cf, "k", EXPIRY)?.unwrap().bytes, expiry.bytes);
        transaction.put(&cf, "l", "3")?;
        let is_conflict = transaction.commit().is_err_and(|error| *error.kind() == ErrorKind::Conflict);
        assert_eq!(is_conflict, level == Isolation::Serializable);
    }
    let late = db.transaction();
    clock.advance_nanos(11_000_000_000);
    assert!(late.get_meta(&cf, "k", EXPIRY)?.is_some() && db.transaction().get_meta(&cf, "k", EXPIRY)?.is_none());
    Ok(())
}
