//! Create, open, list and drop; schemas are kept and checked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use waxseal::Db;
use waxseal_table::{Alteration, ColumnType, ErrorKind, Index, Row, Schema, Tables};

use crate::store::{book, books, fill, memory, volumes};

#[test]
fn tables_are_kept_with_their_schemas_and_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    let tables = Tables::open(&db).unwrap();
    let table = tables.create("library.books", books()).unwrap();
    fill(&table);
    tables.create("corpus.volumes", volumes()).unwrap();
    let schema = table.schema().unwrap();
    db.close().unwrap();

    for db in [Db::open(dir.path().join("store")), Db::open_read_only(dir.path().join("store"))] {
        let tables = Tables::open(&db.unwrap()).unwrap();
        assert_eq!(tables.names().unwrap(), ["corpus.volumes", "library.books"]);
        let table = tables.table("library.books").unwrap();
        assert_eq!(table.schema().unwrap(), schema);
        assert_eq!(table.get(("Austen", 1815)).unwrap(), Some(book("Austen", 1815, "Emma")));
        assert_eq!(table.select().count().unwrap(), 5);
    }
}

#[test]
fn a_store_for_reading_takes_no_writes() {
    let dir = tempfile::tempdir().unwrap();
    drop(Db::open(dir.path().join("store")).unwrap());
    let tables = Tables::open(&Db::open_read_only(dir.path().join("store")).unwrap()).unwrap();
    assert!(tables.names().unwrap().is_empty());
    assert_eq!(tables.create("library.books", books()).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(tables.table("library.books").unwrap_err().kind(), ErrorKind::NotFound);

    Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap().create("library.books", books()).unwrap();
    let tables = Tables::open(&Db::open_read_only(dir.path().join("store")).unwrap()).unwrap();
    let table = tables.table("library.books").unwrap();
    for refused in [table.insert(book("a", 1, "b")), table.upsert(book("a", 1, "b")), table.delete(("a", 1))] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    }
}

#[test]
fn a_table_is_found_by_the_name_that_it_had() {
    let tables = memory();
    for name in ["library.books", "library.others"] {
        fill(&tables.create(name, books()).unwrap());
    }
    let snapshot = tables.db().snapshot();
    tables.rename("library.books", "archive.books").unwrap();
    tables.rename("library.others", "library.books").unwrap();
    tables.table("library.books").unwrap().truncate().unwrap();
    assert_eq!(tables.names_at(&snapshot).unwrap(), ["library.books", "library.others"]);
    assert_eq!(tables.table_at("library.books", &snapshot).unwrap().name(), "archive.books");
    let others = tables.table_at("library.others", &snapshot).unwrap();
    assert_eq!((others.name().as_str(), others.select().at(&snapshot).count().unwrap()), ("library.books", 5));
    let absent = |name: &str| tables.table_at(name, &snapshot).unwrap_err().kind();
    assert_eq!(absent("archive.books"), ErrorKind::NotFound);
    let dropped = tables.table("archive.books").unwrap();
    dropped.check().unwrap();
    tables.drop("archive.books").unwrap();
    assert_eq!(dropped.check().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(absent("library.books"), ErrorKind::NotFound);
}

#[test]
fn a_table_that_goes_while_a_reader_opens_it_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let tables = Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    let db = Db::open_read_only(dir.path().join("store")).unwrap();
    let reader = Tables::open(&db).unwrap();
    thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for _ in 0..20 {
                tables.create("library.books", books()).unwrap();
                db.refresh().unwrap();
                tables.drop("library.books").unwrap();
                db.refresh().unwrap();
            }
        });
        while !changes.is_finished() {
            let opened = reader.table("library.books").map_err(|error| (error.kind(), error.to_string()));
            assert!(opened.is_ok() || opened.as_ref().is_err_and(|error| error.0 == ErrorKind::NotFound), "{opened:?}");
        }
    });
}

#[test]
fn wrong_names_and_schemas_are_refused() {
    let tables = memory();
    for name in ["books", ".books", "library.", "a.b.c", "a.\n", &format!("a.{}", "b".repeat(256))] {
        assert_eq!(tables.create(name, books()).unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
    }
    let key = || Schema::new().partition_key("key", ColumnType::Text);
    for schema in [
        Schema::new(),
        Schema::new().clustering_key("key", ColumnType::Text),
        Schema::new().partition_key("key", ColumnType::Json),
        key().column("key", ColumnType::I32),
        key().column("", ColumnType::I32),
        key().column("a.b", ColumnType::I32),
        key().column("list", ColumnType::I32.list().list()),
        key().column("price", ColumnType::Decimal { precision: 39, scale: 0 }),
        key().column("price", ColumnType::Decimal { precision: 2, scale: 3 }),
        key().column("pages", ColumnType::I32).repeated_group("pages"),
    ] {
        assert_eq!(tables.create("a.b", schema.clone()).unwrap_err().kind(), ErrorKind::Invalid, "{schema:?}");
    }
    assert!(tables.names().unwrap().is_empty());
    tables.create("a.b", books()).unwrap();
    assert_eq!(tables.create("a.b", books()).unwrap_err().kind(), ErrorKind::Exists);
}

#[test]
fn a_dropped_table_is_gone_and_its_name_is_free() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    fill(&table);
    tables.drop("library.books").unwrap();
    assert!(table.insert(book("a", 1, "b")).is_err() && table.get(("Austen", 1815)).is_err());
    assert_eq!(tables.drop("library.books").unwrap_err().kind(), ErrorKind::NotFound);
    let again = tables.create("library.books", books()).unwrap();
    assert_eq!(again.select().count().unwrap(), 0);
    again.insert(book("a", 1, "b")).unwrap();
}

#[test]
fn all_handles_of_a_store_share_the_tables() {
    let db = Db::memory().unwrap();
    let table = Tables::open(&db).unwrap().create("library.books", books()).unwrap();
    let other = Tables::open(&db).unwrap();
    other.table("library.books").unwrap().insert(book("a", 1, "b")).unwrap();
    assert_eq!(table.get(("a", 1)).unwrap().unwrap().get("title"), Some(&"b".into()));
    assert_eq!(table.insert(Row::new().with("author", "a").with("year", 1)).unwrap_err().kind(), ErrorKind::Exists);
}

#[test]
fn a_table_that_is_opened_beside_changes_has_the_present_schema() {
    let tables = memory();
    // A schema whose record takes long to check.
    let names: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
    let schema = Schema::new().partition_key("key", ColumnType::I32);
    let schema = names.iter().fold(schema, |schema, name| schema.column(name, ColumnType::I32));
    let schema = (0..400).fold(schema, |schema, number| schema.repeated_group(&format!("g{number}")));
    let schema = (0..100).fold(schema, |schema, number| schema.index(Index::on(&format!("i{number}"), names.clone())));
    tables.create("test.wide", schema).unwrap();
    let changed = AtomicU64::new(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..100u64 {
                let (from, to) = if round % 2 == 0 { ("c0", "d0") } else { ("d0", "c0") };
                let table = tables.table("test.wide").unwrap();
                table.alter(Alteration::new().rename_column(from, to)).unwrap();
                changed.store(round + 2, Ordering::SeqCst);
            }
        });
        while changed.load(Ordering::SeqCst) < 101 {
            let table = tables.table("test.wide").unwrap();
            let least = changed.load(Ordering::SeqCst);
            assert!(table.schema().unwrap().version() >= least);
        }
    });
}

#[test]
fn a_reader_from_before_the_first_table_sees_it_after_a_refresh() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path).unwrap();
    let reader = Tables::open(&Db::open_read_only(&path).unwrap()).unwrap();
    assert_eq!(reader.names().unwrap(), Vec::<String>::new());
    let table = Tables::open(&db).unwrap().create("library.books", books()).unwrap();
    table.insert(book("Austen", 1815, "Emma")).unwrap();
    reader.db().refresh().unwrap();
    assert_eq!(reader.names().unwrap(), ["library.books"]);
    let found = reader.table("library.books").unwrap().get(("Austen", 1815)).unwrap();
    assert_eq!(found, Some(book("Austen", 1815, "Emma")));
}
