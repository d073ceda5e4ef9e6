//! Secondary indexes: kept in the same commit as the rows, verified, repaired, and built beside writers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use waxseal::Builder;
use waxseal::env::ManualClock;
use waxseal_table::{
    Alteration, Changes, ColumnType, ErrorKind, Index, IndexState, Row, RowOptions, Schema, Select, Table, Tables,
    Value,
};

use crate::store::memory;

/// Books by isbn, with indexes of every kind.
fn schema() -> Schema {
    Schema::new()
        .partition_key("isbn", ColumnType::I32)
        .column("author", ColumnType::Text)
        .column("year", ColumnType::I32)
        .column("code", ColumnType::Text)
        .column_in("notes", "note", ColumnType::Text)
        .dynamic_columns()
        .hashed()
        .index(Index::on("by_author", ["author"]).descending("year"))
        .index(Index::on("by_year", ["year"]).with_missing())
        .index(Index::on("by_code", ["code"]).unique())
        .index(Index::on("by_note", ["note"]))
}

fn row(isbn: i32, author: &str, year: i32) -> Row {
    Row::new().with("isbn", isbn).with("author", author).with("year", year)
}

fn library() -> Table {
    let table = memory().create("library.books", schema()).unwrap();
    for (isbn, author, year) in [(1, "Austen", 1811), (2, "Austen", 1815), (3, "Shelley", 1818), (4, "Austen", 1813)] {
        table.insert(row(isbn, author, year)).unwrap();
    }
    table.insert(Row::new().with("isbn", 5).with("author", "Austen")).unwrap();
    table
}

fn isbns(select: Select<'_>) -> Vec<i64> {
    let isbn = |row: waxseal_table::Result<Row>| row.unwrap().get("isbn").unwrap().as_i64().unwrap();
    select.rows().unwrap().map(isbn).collect()
}

fn assert_clean(table: &Table) {
    let report = table.verify_indexes().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn rows_are_read_in_the_order_of_an_index() {
    let table = library();
    let by = |name: &str| table.select().index(name);
    assert_eq!(isbns(by("by_author")), [2, 4, 1, 3]);
    assert_eq!(isbns(by("by_author").prefix("Austen").range(1812..)), [2, 4]);
    assert_eq!(isbns(by("by_author").prefix("Austen").range(..1815).reverse()), [1, 4]);
    assert_eq!(isbns(by("by_author").range("B"..)), [3]);
    assert_eq!(isbns(by("by_year")), [5, 1, 4, 2, 3]);
    assert_eq!(isbns(by("by_year").range(..1815)), [1, 4]);
    assert_eq!(isbns(by("by_year").range(1815..)), [2, 3]);
    assert_eq!(isbns(by("by_year").prefix(Value::Null)), [5]);
    assert_eq!(isbns(by("by_year").prefix(1813)), [4]);
    let page = by("by_year").limit(2).page().unwrap();
    assert_eq!(isbns(by("by_year").limit(2).after(page.next.as_ref().unwrap())), [4, 2]);
    let columns = by("by_author").prefix("Shelley").columns(["year"]).rows().unwrap().next().unwrap().unwrap();
    assert_eq!(columns, Row::new().with("year", 1818));
    assert_eq!(by("none").rows().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(by("by_year").prefix((1, 2)).rows().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(by("by_year").prefix("a").rows().unwrap_err().kind(), ErrorKind::Invalid);
    assert_clean(&table);
}

#[test]
fn indexes_follow_every_write() {
    let table = library();
    table.upsert(row(1, "Brontë", 1847).with("note", "read")).unwrap();
    assert!(table.update(2, Changes::new().set("year", 1816).set("note", "again")).unwrap());
    assert!(table.update(3, Changes::new().remove("author").set("label", 1)).unwrap());
    table.delete(4).unwrap();
    assert_eq!(isbns(table.select().index("by_author")), [2, 1]);
    assert_eq!(isbns(table.select().index("by_note")), [2, 1]);
    assert_eq!(isbns(table.select().index("by_year")), [5, 2, 3, 1]);
    assert_clean(&table);
    table.delete_partition(1).unwrap();
    assert_eq!(isbns(table.select().index("by_note")), [2]);
    assert!(
        table
            .compare_and_set(5, Some(&Row::new().with("isbn", 5).with("author", "Austen")), Some(&row(5, "Zola", 1885)))
            .unwrap()
    );
    assert_eq!(isbns(table.select().index("by_author")), [2, 5]);
    assert_clean(&table);
    table.truncate().unwrap();
    assert_eq!(table.verify_indexes().unwrap(), Default::default());
}

#[test]
fn a_unique_index_has_one_row_for_its_values() {
    let table = library();
    let code = |isbn: i32, code: &str| table.update(isbn, Changes::new().set("code", code));
    assert!(code(1, "a").unwrap() && code(2, "b").unwrap());
    let error = code(3, "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.to_string().contains("(1)") && error.to_string().contains("(3)"), "{error}");
    assert_eq!(table.insert(row(9, "x", 1).with("code", "b")).unwrap_err().kind(), ErrorKind::Exists);
    assert!(!table.contains(9).unwrap());
    assert!(code(1, "a").unwrap() && code(1, "c").unwrap() && code(3, "a").unwrap());
    table.delete(2).unwrap();
    assert!(code(5, "b").unwrap());
    assert_eq!(isbns(table.select().index("by_code")), [3, 5, 1]);
    assert_clean(&table);
}

#[test]
fn wrong_indexes_are_refused() {
    let tables = memory();
    let schema = Schema::new()
        .partition_key("key", ColumnType::I32)
        .column("json", ColumnType::Json)
        .column_in("other", "b", ColumnType::I32)
        .repeated_group("pages")
        .column_in("pages", "c", ColumnType::I32);
    let table = tables.create("test.table", schema.clone()).unwrap();
    for index in [
        Index::on("", ["key"]),
        Index::on("none", [""; 0]),
        Index::on("unknown", ["d"]),
        Index::on("twice", ["b", "b"]),
        Index::on("unordered", ["json"]),
        Index::on("repeated", ["c"]),
        Index::on("missing", ["b"]).with_missing(),
    ] {
        let created = tables.create("test.other", schema.clone().index(index.clone()));
        assert_eq!(created.unwrap_err().kind(), ErrorKind::Invalid, "{index:?}");
        assert_eq!(table.create_index(index.clone()).unwrap_err().kind(), ErrorKind::Invalid, "{index:?}");
    }
    table.create_index(Index::on("by_b", ["b"])).unwrap();
    assert_eq!(table.create_index(Index::on("by_b", ["b"])).unwrap_err().kind(), ErrorKind::Exists);
    let widen = Alteration::new().widen_column("b", ColumnType::I64);
    assert_eq!(table.alter(widen.clone()).unwrap_err().kind(), ErrorKind::Invalid);
    table.drop_index("by_b").unwrap();
    table.alter(widen).unwrap();
    assert_eq!(table.drop_index("by_b").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn entries_expire_with_their_rows_and_groups() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open().unwrap();
    let table = Tables::open(&db).unwrap().create("library.books", schema()).unwrap();
    let seconds = Duration::from_secs;
    let soon = || RowOptions::new().expires_in(seconds(10));
    table.insert_with(row(1, "a", 1).with("code", "x").with("note", "n"), soon()).unwrap();
    let note = RowOptions::new().group_expires_in("notes", seconds(10));
    table.insert_with(row(2, "b", 2).with("note", "n"), note).unwrap();
    table.insert_with(row(3, "c", 3), soon()).unwrap();
    assert!(table.update(3, Changes::new().set("author", "d")).unwrap());
    assert!(table.update_with(1, Changes::new().set("year", 7), RowOptions::new().expires_in(seconds(20))).unwrap());
    assert_eq!(isbns(table.select().index("by_author")), [1, 2, 3]);
    clock.advance_nanos(11_000_000_000);
    assert_eq!(isbns(table.select().index("by_author")), [1, 2]);
    assert_eq!(isbns(table.select().index("by_note")), [0i64; 0]);
    assert_clean(&table);
    clock.advance_nanos(11_000_000_000);
    assert_eq!(isbns(table.select().index("by_author")), [2]);
    table.insert(row(4, "e", 4).with("code", "x")).unwrap();
    assert_clean(&table);
}

#[test]
fn missing_and_stale_entries_are_found_and_repaired() {
    let table = library();
    let entries = table.db().column_family("waxseal_tables-1-indexes").unwrap();
    let keys: Vec<_> = entries.iter().keys().map(Result::unwrap).collect();
    entries.delete(&keys[0]).unwrap();
    let mut stale = keys[1].to_vec();
    *stale.last_mut().unwrap() ^= 1;
    entries.put(&stale, "").unwrap();
    let report = table.verify_indexes().unwrap();
    assert_eq!((report.rows, report.missing, report.stale, report.damaged), (5, 1, 1, 0));
    let broken: Vec<_> = table.select().index("by_author").rows().unwrap().filter_map(Result::err).collect();
    assert!(broken.len() == 1 && broken[0].is_corruption(), "{broken:?}");
    assert_eq!(table.repair_indexes().unwrap(), 4);
    assert_clean(&table);
    assert_eq!(isbns(table.select().index("by_author")), [2, 4, 1, 3]);
}

#[test]
fn a_dropped_columns_index_is_hidden_and_kept() {
    let table = library();
    table.drop_column("year").unwrap();
    for name in ["by_author", "by_year"] {
        assert_eq!(table.select().index(name).rows().unwrap_err().kind(), ErrorKind::NotFound, "{name}");
    }
    assert_eq!(table.schema().unwrap().indexes().count(), 2);
    assert!(table.update(1, Changes::new().set("author", "Z")).unwrap());
    table.delete(2).unwrap();
    table.upsert(Row::new().with("isbn", 3).with("author", "Shelley")).unwrap();
    table.undelete_column("year").unwrap();
    assert_eq!(isbns(table.select().index("by_author")), [4, 1]);
    assert_clean(&table);
    table.drop_column("year").unwrap();
    table.drop_column("year").unwrap();
    let names: Vec<_> = table.schema().unwrap().indexes().map(|index| index.name().to_owned()).collect();
    assert_eq!(names, ["by_code", "by_note"]);
    let entries = table.db().column_family("waxseal_tables-1-indexes").unwrap();
    assert_eq!(entries.iter().count(), 0);
}

#[test]
fn a_dropped_columns_index_is_repaired() {
    let table = library();
    table.drop_column("year").unwrap();
    table.drop_column_for("note", Duration::ZERO).unwrap(); // the next change drops its index
    let entries = table.db().column_family("waxseal_tables-1-indexes").unwrap();
    entries.clear().unwrap();
    assert_eq!(table.repair_indexes().unwrap(), 3);
    table.undelete_column("year").unwrap();
    assert_clean(&table);
    assert_eq!(isbns(table.select().index("by_year")), [5, 1, 4, 2, 3]);
}

/// Runs four writers of random rows until `run` has ended.
fn beside_writers(table: &Table, run: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..4i32 {
            let is_done = &is_done;
            scope.spawn(move || {
                let mut number = writer;
                while !is_done.load(Ordering::SeqCst) {
                    number = (number * 31 + 17) % 601;
                    let year = number % 7;
                    match number % 5 {
                        0 => table.delete(number).unwrap(),
                        1 => drop(table.update(number, Changes::new().set("year", year)).unwrap()),
                        2 => drop(table.insert(row(number, "insert", year))),
                        _ => table.upsert(row(number, "upsert", year).with("note", "n")).unwrap(),
                    }
                }
            });
        }
        run();
        is_done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn an_index_is_built_beside_four_writers() {
    let schema = Schema::new()
        .partition_key("isbn", ColumnType::I32)
        .column("author", ColumnType::Text)
        .column("year", ColumnType::I32)
        .column_in("notes", "note", ColumnType::Text)
        .index(Index::on("by_note", ["note", "year"]));
    let table = memory().create("library.books", schema).unwrap();
    (0..600).for_each(|isbn| table.insert(row(isbn, "a", isbn % 3)).unwrap());
    beside_writers(&table, || {
        table.create_index(Index::on("by_author", ["author", "year"])).unwrap();
        table.rebuild_index("by_note").unwrap();
    });
    assert_clean(&table);
    let by_index: BTreeSet<i64> = isbns(table.select().index("by_author")).into_iter().collect();
    assert_eq!(by_index, isbns(table.select()).into_iter().collect());
    assert!(table.schema().unwrap().indexes().all(|index| index.state() == IndexState::Public));
}

#[test]
fn four_writers_never_share_a_unique_value() {
    let table = memory().create("library.books", schema()).unwrap();
    let inserted: usize = thread::scope(|scope| {
        let insert = |writer: i32| {
            let table = &table;
            move || {
                let insert = |number: i32| {
                    let row = row(writer * 100 + number, "a", 1).with("code", format!("{}", number % 20));
                    table.insert(row).is_ok()
                };
                (0..60).filter(|number| insert(*number)).count()
            }
        };
        let writers: Vec<_> = (0..4).map(|writer| scope.spawn(insert(writer))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!((inserted, isbns(table.select().index("by_code")).len()), (20, 20));
    assert_clean(&table);
}

#[test]
fn a_unique_index_over_equal_rows_is_not_built() {
    let table = library();
    let error = table.create_index(Index::on("one_author", ["author"]).unique()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(table.schema().unwrap().indexes().all(|index| index.name() != "one_author"));
    let entries = table.db().column_family("waxseal_tables-1-indexes").unwrap();
    assert_eq!(entries.prefix([0, 0, 0, 5]).count(), 0);
}

#[test]
fn an_index_that_cannot_be_rebuilt_stays_as_it_was() {
    let table = library();
    table.update(1, Changes::new().set("code", "x")).unwrap();
    let rows = table.db().column_family("waxseal_tables-1-rows").unwrap();
    let records = |isbn: i32| {
        let ends = |key: &[u8]| key.ends_with(&(isbn as u32 ^ 1 << 31).swap_bytes().to_le_bytes()) && key.len() == 12;
        rows.iter().map(Result::unwrap).find(|(key, _)| ends(key)).unwrap()
    };
    // A row with the same code as another one, without an entry.
    rows.put(&records(2).0, &records(1).1).unwrap();
    for rebuild in [|table: &Table| table.rebuild_index("by_code"), |table: &Table| table.repair_indexes().map(drop)] {
        assert_eq!(rebuild(&table).unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(isbns(table.select().index("by_code").prefix("x")), [1]);
        let states: Vec<_> = table.schema().unwrap().indexes().map(|index| index.state()).collect();
        assert_eq!(states, [IndexState::Public; 4]);
    }
    table.upsert(row(2, "Austen", 1815)).unwrap();
    assert_eq!(table.repair_indexes().unwrap(), 4);
    assert_clean(&table);
}
