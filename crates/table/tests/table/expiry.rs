//! Rows and groups that expire.

use std::sync::Arc;
use std::time::Duration;

use waxseal::Builder;
use waxseal::env::ManualClock;
use waxseal_table::{Changes, ColumnType, ErrorKind, Index, Row, RowOptions, Schema, Table, Tables};

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

/// Tables with a manual clock, and one whose column of the group `draft` is indexed.
fn drafts() -> (Arc<ManualClock>, Tables, Table) {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let tables = Tables::open(&Builder::in_memory().clock(clock.clone()).open().unwrap()).unwrap();
    let schema = Schema::new()
        .partition_key("key", ColumnType::I32)
        .column("a", ColumnType::I32)
        .column_in("draft", "b", ColumnType::I32)
        .index(Index::on("by_b", ["b"]));
    let table = tables.create("test.drafts", schema).unwrap();
    (clock, tables, table)
}

#[test]
fn a_deleted_record_of_a_transaction_has_no_expiry_left() {
    let row = || Row::new().with("key", 1).with("a", 1).with("b", 1);
    let soon = || RowOptions::new().group_expires_in("draft", Duration::from_secs(10));
    let (remove, set) = (|| Changes::new().remove("b"), || Changes::new().set("b", 2));
    for is_stored in [false, true] {
        for is_row_deleted in [false, true] {
            let (clock, tables, table) = drafts();
            if is_stored {
                table.insert_with(row(), soon()).unwrap();
            }
            let transaction = tables.transaction();
            if !is_stored {
                transaction.insert_with(&table, row(), soon()).unwrap();
            }
            if is_row_deleted {
                transaction.delete(&table, 1).unwrap();
                transaction.insert(&table, Row::new().with("key", 1)).unwrap();
            } else {
                assert!(transaction.update(&table, 1, remove()).unwrap());
            }
            assert!(transaction.update(&table, 1, set()).unwrap());
            transaction.commit().unwrap();
            clock.advance_nanos(11_000_000_000);
            assert_eq!(table.select().index("by_b").prefix(2).count().unwrap(), 1, "{is_stored}, {is_row_deleted}");
            assert!(table.verify_indexes().unwrap().is_clean());
        }
    }
}

#[test]
fn a_failed_call_of_a_transaction_leaves_no_expiry() {
    let (clock, tables, table) = drafts();
    table.insert(Row::new().with("key", 1).with("a", 1)).unwrap();
    table.drop_index("by_b").unwrap();
    let rows = tables.db().column_family("waxseal_tables-1-rows").unwrap();
    let key = rows.iter().keys().next().unwrap().unwrap();
    let draft = [&key[..], b"\0\x01"].concat();
    rows.put(&draft, b"\0").unwrap(); // damage
    let transaction = tables.transaction();
    let changes = Changes::new().set("a", 2).set("b", 2);
    let soon = RowOptions::new().expires_in(Duration::from_secs(10));
    assert!(transaction.update_with(&table, 1, changes, soon).unwrap_err().is_corruption());
    assert!(transaction.update(&table, 1, Changes::new().set("a", 3)).unwrap());
    transaction.commit().unwrap();
    rows.delete(&draft).unwrap();
    clock.advance_nanos(11_000_000_000);
    assert_eq!(table.get(1).unwrap(), Some(Row::new().with("key", 1).with("a", 3)));
}
