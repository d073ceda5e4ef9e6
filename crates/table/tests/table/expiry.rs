//! Rows and groups that expire.

use std::sync::Arc;
use std::time::Duration;

use waxseal::Builder;
use waxseal::env::ManualClock;
use waxseal_table::{Changes, ColumnType, ErrorKind, Row, RowOptions, Schema, Tables};

#[test]
fn rows_and_groups_expire() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open().unwrap();
    let schema = Schema::new()
        .partition_key("key", ColumnType::I32)
        .column("a", ColumnType::I32)
        .column_in("draft", "b", ColumnType::I32)
        .dynamic_columns();
    let table = Tables::open(&db).unwrap().create("test.expiry", schema).unwrap();
    let row = |key: i32| Row::new().with("key", key).with("a", 1).with("b", 2).with("c", 3);
    let seconds = Duration::from_secs;
    table.insert_with(row(1), RowOptions::new().expires_in(seconds(100))).unwrap();
    table.insert_with(row(2), RowOptions::new().group_expires_in("draft", seconds(10))).unwrap();
    let early = RowOptions::new().expires_in(seconds(10)).group_expires_in("dynamic", seconds(1000));
    table.upsert_with(row(3), early).unwrap();
    assert_eq!(table.select().count().unwrap(), 3);

    let pass = |seconds: u64| clock.advance_nanos(seconds * 1_000_000_000);
    pass(11);
    assert_eq!(table.get(1).unwrap(), Some(row(1)));
    assert_eq!(table.get(2).unwrap(), Some(row(2).with("b", None::<i32>)));
    assert_eq!(table.get(3).unwrap(), None);
    table.insert(Row::new().with("key", 3)).unwrap();
    pass(90);
    assert_eq!(table.get(1).unwrap(), None);
    assert_eq!(table.select().count().unwrap(), 2);
    let refused = table.upsert_with(row(4), RowOptions::new().expires_at(1_700_000_000));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    for (group, kind) in [("other", ErrorKind::NotFound), ("default", ErrorKind::Invalid)] {
        let refused = table.upsert_with(row(4), RowOptions::new().group_expires_in(group, seconds(1)));
        assert_eq!(refused.unwrap_err().kind(), kind, "{group}");
    }
}

#[test]
fn a_row_that_expires_during_its_update_stays_expired() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open().unwrap();
    let schema = Schema::new().partition_key("key", ColumnType::I32).column("a", ColumnType::I32);
    let tables = Tables::open(&db).unwrap();
    let table = tables.create("test.expiry", schema).unwrap();
    let row = Row::new().with("key", 1).with("a", 1);
    table.insert_with(row, RowOptions::new().expires_in(Duration::from_secs(10))).unwrap();
    let transaction = tables.transaction();
    clock.advance_nanos(11_000_000_000);
    assert!(transaction.update(&table, 1, Changes::new().set("a", 2)).unwrap());
    transaction.commit().unwrap();
    assert_eq!(table.get(1).unwrap(), None);
}
