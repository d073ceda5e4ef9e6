//! Updates, deletes of ranges and partitions, truncate, compare and set, transactions.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use waxseal::Builder;
use waxseal::env::ManualClock;
use waxseal_table::{Changes, ColumnType, ErrorKind, Filter, Row, RowOptions, Schema, Table, Tables, Value};

use crate::store::{book, books, fill, memory, volumes, years};

#[test]
fn an_update_changes_the_columns_that_it_names() {
    let table = memory().create("corpus.volumes", volumes()).unwrap();
    let volume = Row::new()
        .with("volume", "1")
        .with("title", "Emma")
        .with("zip", b"zip")
        .with("label", 1)
        .with_entry("pages", "1", "contents", "preface")
        .with_entry("pages", "1", "byte_count", 7u64)
        .with_entry("pages", "2", "contents", "chapter");
    table.insert(volume).unwrap();
    table.insert(Row::new().with("volume", "10").with("title", "other")).unwrap();
    let changes = Changes::new()
        .set("title", None::<&str>)
        .remove("label")
        .set("other label", 2)
        .remove("zip")
        .set_entry("pages", "1", "byte_count", 8u64)
        .remove_entry("pages", "2")
        .set_entry("pages", "3", "contents", "index");
    assert!(table.update("1", changes).unwrap());
    let expected = Row::new()
        .with("volume", "1")
        .with("other label", 2)
        .with_entry("pages", "1", "contents", "preface")
        .with_entry("pages", "1", "byte_count", 8u64)
        .with_entry("pages", "3", "contents", "index");
    assert!(table.compare_and_set("1", Some(&expected), Some(&expected)).unwrap(), "{:?}", table.get("1"));
    assert!(!table.update("2", Changes::new().set("title", "new")).unwrap());
    assert_eq!(table.get("2").unwrap(), None);
    assert_eq!(table.get("10").unwrap().unwrap().get("title"), Some(&"other".into()));
    let replaced = Changes::new().remove_entry("pages", "1").set_entry("pages", "1", "contents", "new");
    assert!(table.update("1", replaced).unwrap());
    let expected = Row::new()
        .with("volume", "1")
        .with("other label", 2)
        .with_entry("pages", "1", "contents", "new")
        .with_entry("pages", "3", "contents", "index");
    assert!(table.compare_and_set("1", Some(&expected), Some(&expected)).unwrap(), "{:?}", table.get("1"));
    let of_entry = table.update_if("1", Filter::is_null("contents"), Changes::new().set("title", "a"));
    assert_eq!(of_entry.unwrap_err().kind(), ErrorKind::Invalid);
    for (changes, kind) in [
        (Changes::new().set("volume", "3"), ErrorKind::Invalid),
        (Changes::new().set("title", 1), ErrorKind::Invalid),
        (Changes::new().set("contents", "a"), ErrorKind::Invalid),
        (Changes::new().set_entry("pages", "1", "title", "a"), ErrorKind::NotFound),
        (Changes::new().set_entry("whole", "1", "zip", "a"), ErrorKind::NotFound),
        (Changes::new().remove_entry("chapters", "1"), ErrorKind::NotFound),
    ] {
        assert_eq!(table.update("1", changes).unwrap_err().kind(), kind);
    }
}

#[test]
fn nothing_is_behind_the_greatest_key_and_its_records() {
    let schema = Schema::new().partition_key("number", ColumnType::U64).dynamic_columns();
    let table = memory().create("corpus.numbers", schema).unwrap();
    let row = Row::new().with("number", u64::MAX).with("label", "kept");
    table.insert(row.clone()).unwrap();
    let behind = (Bound::Excluded(u64::MAX), Bound::Unbounded);
    assert_eq!(table.select().range(behind).rows().unwrap().count(), 0);
    table.delete_range(Vec::<Value>::new(), behind).unwrap();
    assert_eq!(table.get(u64::MAX).unwrap(), Some(row));
}

#[test]
fn an_update_keeps_the_expiry() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open().unwrap();
    let schema = Schema::new().partition_key("key", ColumnType::I32).column("a", ColumnType::I32).column_in(
        "draft",
        "b",
        ColumnType::I32,
    );
    let tables = Tables::open(&db).unwrap();
    let table = tables.create("test.expiry", schema).unwrap();
    let seconds = Duration::from_secs;
    let row = |key: i32| Row::new().with("key", key).with("a", 1);
    table.insert_with(row(1), RowOptions::new().expires_in(seconds(10))).unwrap();
    table.insert_with(row(2).with("b", 1), RowOptions::new().group_expires_in("draft", seconds(10))).unwrap();
    assert!(table.update(1, Changes::new().set("a", 2).set("b", 2)).unwrap());
    assert!(table.update(2, Changes::new().set("a", 2).set("b", 2)).unwrap());
    tables
        .transact(|transaction| {
            transaction.insert_with(&table, row(3), RowOptions::new().expires_in(seconds(10)))?;
            transaction.update(&table, 3, Changes::new().set("a", 2).set("b", 3))?;
            Ok(())
        })
        .unwrap();
    assert_eq!(table.get(3).unwrap().unwrap().get("b"), Some(&3.into()));
    table.insert_with(row(4), RowOptions::new().expires_in(seconds(10))).unwrap();
    let later = RowOptions::new().expires_in(seconds(100));
    assert!(table.update_with(4, Changes::new().set("a", 4), later).unwrap());
    clock.advance_nanos(11_000_000_000);
    assert_eq!(table.get(1).unwrap(), None);
    assert_eq!(table.get(2).unwrap(), Some(row(2).with("a", 2)));
    assert_eq!(table.get(3).unwrap(), None);
    assert_eq!(table.get(4).unwrap(), Some(row(4).with("a", 4)));
    table.insert(row(1)).unwrap();
    assert_eq!(table.get(1).unwrap(), Some(row(1)));
}

#[test]
fn ranges_partitions_and_all_rows_are_deleted() {
    let table = memory().create("library.books", books()).unwrap();
    fill(&table);
    table.delete_range("Austen", 1812..=1813).unwrap();
    table.delete_range("Austen", (Bound::Included(1816), Bound::Excluded(1810))).unwrap();
    assert_eq!(years(table.select().rows().unwrap()), [1811, 1815, 1818, 1826]);
    table.delete_partition("Austen").unwrap();
    assert_eq!(years(table.select().rows().unwrap()), [1818, 1826]);
    table.delete_range(Vec::<Value>::new(), "A".."T").unwrap();
    assert_eq!(table.select().count().unwrap(), 0);
    fill(&table);
    table.truncate().unwrap();
    assert_eq!(table.select().count().unwrap(), 0);
    fill(&table);
    assert_eq!(table.select().count().unwrap(), 5);
    assert_eq!(table.delete_partition(("Austen", 1815)).unwrap_err().kind(), ErrorKind::Invalid);

    let hashed = memory().create("library.books", books().hashed()).unwrap();
    fill(&hashed);
    assert_eq!(hashed.delete_range(Vec::<Value>::new(), "A"..).unwrap_err().kind(), ErrorKind::Invalid);
    hashed.delete_range("Austen", ..1815).unwrap();
    hashed.delete_partition("Shelley").unwrap();
    assert_eq!(years(hashed.select().rows().unwrap()), [1815]);
}

#[test]
fn a_row_is_replaced_only_if_it_is_the_expected_one() {
    let table = memory().create("library.books", books()).unwrap();
    let (emma, other) = (book("Austen", 1815, "Emma"), book("Austen", 1815, "Other"));
    let key = ("Austen", 1815);
    assert!(!table.compare_and_set(key, Some(&emma), Some(&other)).unwrap());
    assert!(table.compare_and_set(key, None, Some(&emma)).unwrap());
    assert!(!table.compare_and_set(key, None, Some(&other)).unwrap());
    assert!(!table.compare_and_set(key, Some(&other), None).unwrap());
    let wider = Row::new().with("title", "Emma").with("year", 1815i64).with("author", "Austen");
    assert!(table.compare_and_set(key, Some(&wider), Some(&other)).unwrap());
    assert_eq!(table.compare_and_set(("Zola", 1), None, Some(&emma)).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!table.update_if(key, Filter::eq("title", "Emma"), Changes::new().set("title", "new")).unwrap());
    assert!(table.update_if(key, Filter::eq("title", "Other"), Changes::new().set("title", "new")).unwrap());
    assert!(table.compare_and_set(key, Some(&book("Austen", 1815, "new")), None).unwrap());
    assert_eq!(table.get(key).unwrap(), None);
}

#[test]
fn writers_of_one_row_lose_no_update() {
    let schema = Schema::new()
        .partition_key("key", ColumnType::I32)
        .column("a", ColumnType::I64)
        .column("b", ColumnType::I64)
        .column("c", ColumnType::I64)
        .column("d", ColumnType::I64);
    let table = memory().create("test.counters", schema).unwrap();
    table.insert(Row::new().with("key", 1)).unwrap();
    let count = |table: &Table, name: &str| {
        for number in 1..=50i64 {
            assert!(table.update(1, Changes::new().set(name, number)).unwrap());
        }
    };
    thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let table = &table;
            scope.spawn(move || count(table, name));
        }
    });
    let row = table.get(1).unwrap().unwrap();
    assert!(["a", "b", "c", "d"].iter().all(|name| row.get(name) == Some(&50i64.into())), "{row:?}");
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let tables = memory();
    let (one, other) = (tables.create("test.one", books()).unwrap(), tables.create("test.other", volumes()).unwrap());
    let transaction = tables.transaction();
    transaction.insert(&one, book("Austen", 1815, "Emma")).unwrap();
    let volume = Row::new().with("volume", "1").with_entry("pages", "1", "contents", "a").with("label", 1);
    transaction.upsert(&other, volume.clone()).unwrap();
    assert_eq!(transaction.get(&other, "1").unwrap(), Some(volume.clone()));
    assert_eq!(transaction.insert(&one, book("Austen", 1815, "b")).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(transaction.insert(&one, Row::new()).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(one.get(("Austen", 1815)).unwrap().is_none());
    transaction.commit().unwrap();
    assert_eq!((one.select().count().unwrap(), other.get("1").unwrap()), (1, Some(volume)));

    let transaction = tables.transaction();
    transaction.delete(&other, "1").unwrap();
    assert_eq!(transaction.get(&other, "1").unwrap(), None);
    assert!(!transaction.update(&other, "1", Changes::new().set("title", "a")).unwrap());
    transaction.rollback();
    assert!(other.contains("1").unwrap());

    let transaction = tables.transaction();
    assert!(transaction.get(&one, ("Austen", 1815)).unwrap().is_some());
    transaction.upsert(&one, book("Zola", 1885, "Germinal")).unwrap();
    one.update(("Austen", 1815), Changes::new().set("title", "changed")).unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(!one.contains(("Zola", 1885)).unwrap());
}

#[test]
fn a_failing_call_of_another_thread_discards_no_write() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    table.insert(book("Austen", 1815, "Emma")).unwrap();
    let transaction = tables.transaction();
    let (failed, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let failing = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                transaction.insert(&table, book("Austen", 1815, "Emma")).unwrap_err();
                failed.fetch_add(1, Ordering::SeqCst);
            }
        });
        for year in 0..100 {
            let before = failed.load(Ordering::SeqCst);
            while failed.load(Ordering::SeqCst) == before && !failing.is_finished() {
                thread::yield_now();
            }
            transaction.insert(&table, book("Shelley", year, "a")).unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
    });
    transaction.commit().unwrap();
    assert_eq!(table.select().prefix("Shelley").count().unwrap(), 100);
}
