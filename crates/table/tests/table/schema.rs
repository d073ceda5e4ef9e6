//! Schema changes beside reads and writes; columns that are dropped and restored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use waxseal::env::ManualClock;
use waxseal::{Builder, Db, Durability};
use waxseal_table::{
    Alteration, Changes, ColumnState, ColumnType, Decimal, ErrorKind, Filter, Row, Schema, Table, Tables, Value,
};

use crate::store::{book, books, fill, memory, volumes};

#[test]
fn a_changed_schema_reads_the_rows_that_were_written_before() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    table.insert(book("Austen", 1815, "Emma").with("price", Decimal::new(950, 2).unwrap())).unwrap();
    let before = tables.db().snapshot();
    let change = Alteration::new()
        .add_column("genre", ColumnType::Text)
        .add_column_in("notes", "note", ColumnType::Text)
        .rename_column("title", "name")
        .rename_column("author", "writer")
        .widen_column("price", ColumnType::Decimal { precision: 38, scale: 4 });
    table.alter(change).unwrap();
    let expected = Row::new()
        .with("writer", "Austen")
        .with("year", 1815)
        .with("name", "Emma")
        .with("price", Decimal::new(95, 1).unwrap());
    assert_eq!(table.get(("Austen", 1815)).unwrap(), Some(expected));
    assert!(table.update(("Austen", 1815), Changes::new().set("note", "read").set("genre", "novel")).unwrap());
    assert_eq!(table.get(("Austen", 1815)).unwrap().unwrap().get("note"), Some(&"read".into()));
    assert_eq!(table.upsert(book("Austen", 1815, "a")).unwrap_err().kind(), ErrorKind::Invalid);

    let old = table.get_at(("Austen", 1815), &before).unwrap().unwrap();
    assert_eq!((old.get("title"), old.get("genre")), (Some(&"Emma".into()), None));
    let select = |names: [&str; 1]| table.select().at(&before).columns(names).rows();
    assert_eq!(select(["author"]).unwrap().next().unwrap().unwrap(), Row::new().with("author", "Austen"));
    assert_eq!(select(["genre"]).unwrap_err().kind(), ErrorKind::NotFound);
    let versions: Vec<u64> = table.schema_history().unwrap().iter().map(Schema::version).collect();
    assert_eq!((versions, table.schema().unwrap().version()), (vec![1, 2], 2));
}

#[test]
fn a_refused_change_changes_nothing() {
    let table = memory().create("library.books", books()).unwrap();
    let schema = table.schema().unwrap();
    let change = Alteration::new().add_column("genre", ColumnType::Text).rename_column("isbn", "id");
    assert_eq!(table.alter(change).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(table.schema().unwrap(), schema);
}

#[test]
fn a_reader_in_another_process_sees_rows_with_their_schema() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let table = Tables::open(&Db::open(&path).unwrap()).unwrap().create("library.books", books()).unwrap();
    fill(&table);
    let db = Db::open_read_only(&path).unwrap();
    let reader = Tables::open(&db).unwrap().table("library.books").unwrap();
    table.alter(Alteration::new().rename_column("title", "name").add_column("genre", ColumnType::Text)).unwrap();
    table.update(("Austen", 1815), Changes::new().set("genre", "novel")).unwrap();
    assert_eq!(reader.get(("Austen", 1815)).unwrap(), Some(book("Austen", 1815, "Emma")));
    db.refresh().unwrap();
    let row = reader.get(("Austen", 1815)).unwrap().unwrap();
    assert_eq!((row.get("name"), row.get("genre")), (Some(&"Emma".into()), Some(&"novel".into())));
    assert_eq!(reader.select().filter(Filter::eq("genre", "novel")).count().unwrap(), 1);
}

#[test]
fn a_renamed_table_keeps_its_rows_and_handles() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    fill(&table);
    tables.create("library.other", books()).unwrap();
    assert_eq!(tables.rename("library.books", "library.other").unwrap_err().kind(), ErrorKind::Exists);
    tables.rename("library.books", "archive.books").unwrap();
    assert_eq!(
        (table.name(), tables.names().unwrap()),
        ("archive.books".to_owned(), vec!["archive.books".to_owned(), "library.other".to_owned()])
    );
    assert_eq!(tables.table("library.books").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(tables.table("archive.books").unwrap().select().count().unwrap(), 5);
    tables.create("library.books", books()).unwrap();
    tables.drop("archive.books").unwrap();
    assert_eq!(
        table.alter(Alteration::new().add_column("a", ColumnType::I32)).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(tables.names().unwrap(), ["library.books", "library.other"]);
}

#[test]
fn a_transaction_conflicts_with_a_change_of_its_schema() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    let transaction = tables.transaction();
    transaction.insert(&table, book("Austen", 1815, "Emma")).unwrap();
    table.alter(Alteration::new().rename_column("title", "name")).unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn rows_are_written_and_read_while_the_schema_changes() {
    let schema = Schema::new().partition_key("key", ColumnType::I32).column("value", ColumnType::I32);
    let table = memory().create("test.online", schema).unwrap();
    table.insert(Row::new().with("key", 0).with("value", 0)).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (table, is_done) = (&table, &is_done);
            scope.spawn(move || {
                let mut number = 0;
                while !is_done.load(Ordering::SeqCst) {
                    number += 1;
                    let key = writer * 1_000_000 + number;
                    // One of the two names exists at every moment.
                    let write = |name: &str| table.upsert(Row::new().with("key", key).with(name, number));
                    if write("value").is_err() {
                        let _ = write("renamed");
                    }
                    for row in table.select().limit(3).rows().unwrap() {
                        let row = row.unwrap();
                        let values = [row.get("value"), row.get("renamed")];
                        assert_eq!(values.iter().flatten().count(), 1, "{row:?}");
                    }
                    let row = table.get(0).unwrap().unwrap();
                    assert!(row.get("value").is_some() || row.get("renamed").is_some(), "{row:?}");
                }
            });
        }
        for round in 0..40 {
            let (from, to) = if round % 2 == 0 { ("value", "renamed") } else { ("renamed", "value") };
            table.alter(Alteration::new().rename_column(from, to)).unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
    });
    assert_eq!(table.schema().unwrap().version(), 41);
}

/// Gets a row in a loop while the type of its column, and then its value, widens.
fn get_beside_widening(write: &Table, read: &Table, refresh: impl Fn() + Sync) {
    let key = "\0".repeat(20_000); // long to encode: changes come between the schema and the row
    let columns = 40;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..columns {
                let name = format!("c{number}");
                write.alter(Alteration::new().add_column(&name, ColumnType::I32)).unwrap();
                refresh();
                write.alter(Alteration::new().widen_column(&name, ColumnType::I64)).unwrap();
                write.upsert(Row::new().with("key", key.as_str()).with(&name, i64::MAX)).unwrap();
                refresh();
            }
            is_done.store(true, Ordering::SeqCst);
        });
        while !is_done.load(Ordering::SeqCst) {
            let row = read.get(key.as_str()).unwrap();
            assert!(row.is_none_or(|row| row.columns().count() == 2));
        }
    });
}

#[test]
fn a_row_is_read_while_its_columns_widen() {
    let schema = || Schema::new().partition_key("key", ColumnType::Text);
    let table = memory().create("test.widening", schema()).unwrap();
    get_beside_widening(&table, &table, || {});

    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path().join("store")).durability(Durability::Os).open().unwrap();
    let table = Tables::open(&db).unwrap().create("test.widening", schema()).unwrap();
    let db = Db::open_read_only(dir.path().join("store")).unwrap();
    let reader = Tables::open(&db).unwrap().table("test.widening").unwrap();
    get_beside_widening(&table, &reader, || db.refresh().unwrap());
}

/// A store with a manual clock, and a table of books with a genre.
fn with_genres() -> (Arc<ManualClock>, Tables) {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let tables = Tables::open(&Builder::in_memory().clock(clock.clone()).open().unwrap()).unwrap();
    let schema = Schema::new()
        .partition_key("isbn", ColumnType::Text)
        .column("title", ColumnType::Text)
        .column("genre", ColumnType::Text)
        .column_in("notes", "note", ColumnType::Text);
    let table = tables.create("library.books", schema).unwrap();
    for isbn in ["1", "2"] {
        table
            .insert(Row::new().with("isbn", isbn).with("title", "Emma").with("genre", "novel").with("note", "n"))
            .unwrap();
    }
    (clock, tables)
}

#[test]
fn a_dropped_column_is_hidden_and_comes_back_with_its_values() {
    let (_, tables) = with_genres();
    let table = tables.table("library.books").unwrap();
    table.drop_column("genre").unwrap();
    table.drop_column("note").unwrap();
    let hidden = Row::new().with("isbn", "1").with("title", "Emma");
    assert_eq!(table.get("1").unwrap(), Some(hidden.clone()));
    assert_eq!(table.select().rows().unwrap().next().unwrap().unwrap(), hidden);
    assert_eq!(table.select().columns(["genre"]).rows().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(table.upsert(hidden.clone().with("genre", "a")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(table.schema().unwrap().columns().all(|column| column.state() == ColumnState::Active));
    // An update carries the hidden column, and a whole row replaces it.
    assert!(table.update("1", Changes::new().set("title", "Emma!")).unwrap());
    table.upsert(Row::new().with("isbn", "2").with("title", "Emma")).unwrap();
    table.undelete_column("genre").unwrap();
    table.alter(Alteration::new().add_column_in("notes", "note", ColumnType::Text)).unwrap();
    let row = table.get("1").unwrap().unwrap();
    assert_eq!((row.get("genre"), row.get("note")), (Some(&"novel".into()), Some(&"n".into())));
    let row = table.get("2").unwrap().unwrap();
    assert_eq!((row.get("genre"), row.get("note")), (None, None));
}

#[test]
fn a_final_drop_lets_no_value_come_back() {
    let (clock, tables) = with_genres();
    let table = tables.table("library.books").unwrap();
    table.drop_column_for("genre", Duration::from_secs(10)).unwrap();
    clock.advance_nanos(11_000_000_000);
    assert_eq!(table.undelete_column("genre").unwrap_err().kind(), ErrorKind::Invalid);
    table.drop_column("note").unwrap();
    table.drop_column("note").unwrap();
    for name in ["genre", "note"] {
        let add = Alteration::new().add_column(name, ColumnType::Text);
        assert_eq!(table.alter(add).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
    }
    assert_eq!(table.get("1").unwrap(), Some(Row::new().with("isbn", "1").with("title", "Emma")));
    assert_eq!(table.drop_column("isbn").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.drop_column("none").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_purged_column_leaves_no_value_and_its_name_is_free() {
    let (_, tables) = with_genres();
    let table = tables.table("library.books").unwrap();
    assert_eq!(table.purge_columns().unwrap(), Default::default());
    for name in ["genre", "genre", "note", "note"] {
        table.drop_column(name).unwrap();
    }
    let report = table.purge_columns().unwrap();
    assert_eq!((report.columns, report.files), (vec!["genre".to_owned(), "note".to_owned()], 2));
    let rows = tables.db().column_family("waxseal_tables-1-rows").unwrap();
    let values: Vec<_> = rows.iter().map(|record| record.unwrap().1.to_vec()).collect();
    assert_eq!(values, [b"\x01\x02\x02\x04Emma"; 2]);
    table.alter(Alteration::new().add_column("genre", ColumnType::I32)).unwrap();
    assert_eq!(table.get("1").unwrap(), Some(Row::new().with("isbn", "1").with("title", "Emma")));
    let ids: Vec<u32> = table.schema().unwrap().columns().map(waxseal_table::Column::id).collect();
    assert_eq!(ids, [1, 2, 5]);
}

#[test]
fn a_column_of_the_schema_hides_no_dynamic_one() {
    let schema = Schema::new().partition_key("key", ColumnType::I32).column("name", ColumnType::Text).dynamic_columns();
    let table = memory().create("test.dynamic", schema).unwrap();
    let row = Row::new().with("key", 700).with("name", "n").with("label", "old");
    (0..700).for_each(|key| table.insert(Row::new().with("key", key).with("other", "x")).unwrap());
    table.insert(row.clone()).unwrap();
    let add = || Alteration::new().add_column("note", ColumnType::I32).add_column("label", ColumnType::I32);
    for change in
        [add(), Alteration::new().rename_column("name", "label"), Alteration::new().rename_column("key", "label")]
    {
        let error = table.alter(change).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists);
        assert!(error.to_string().contains("row (700) has a dynamic column \"label\""), "{error}");
    }
    assert_eq!((table.get(700).unwrap(), table.schema_version().unwrap()), (Some(row), 1));
    table.update(700, Changes::new().remove("label")).unwrap();
    table.alter(add()).unwrap();
    assert!(table.update(700, Changes::new().set("label", 5)).unwrap());
    assert_eq!(table.get(700).unwrap().unwrap().get("label"), Some(&Value::I32(5)));
    table.update(0, Changes::new().set("later", "a dynamic column of another name")).unwrap();
}

#[test]
fn a_repeated_group_takes_no_name_of_a_column_that_can_be_restored() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    table.drop_column("title").unwrap();
    let add = || table.alter(Alteration::new().add_repeated_group("title"));
    assert_eq!(add().unwrap_err().kind(), ErrorKind::Invalid);
    table.undelete_column("title").unwrap();
    (0..2).for_each(|_| table.drop_column("title").unwrap());
    add().unwrap();
}

#[test]
fn a_dropped_column_keeps_its_name_and_takes_no_values() {
    let tables = memory();
    let table = tables.create("corpus.volumes", volumes()).unwrap();
    let named = |name: &str| Row::new().with("volume", name);
    table.insert(named("1")).unwrap();
    table.alter(Alteration::new().add_column("label", ColumnType::I32)).unwrap();
    table.update("1", Changes::new().set("label", 7)).unwrap();
    for _state in [ColumnState::Tentative(0), ColumnState::Purging] {
        table.drop_column("label").unwrap();
        assert_eq!(table.get("1").unwrap(), Some(named("1")));
        for refused in [
            table.upsert(named("2").with("label", "x")),
            table.update("1", Changes::new().set("label", "x")).map(drop),
            table.update("1", Changes::new().remove("label")).map(drop),
            table.select().columns(["label"]).rows().map(drop),
            table.select().filter(Filter::eq("label", 7)).rows().map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string().contains("was dropped")),
                (ErrorKind::NotFound, true),
                "{error}"
            );
        }
    }
    assert_eq!(table.purge_columns().unwrap().columns, ["label"]);
    assert_eq!(table.get("1").unwrap(), Some(named("1")));
    table.upsert(named("1").with("label", "dynamic")).unwrap();
    assert_eq!(table.get("1").unwrap(), Some(named("1").with("label", "dynamic")));
}
