//! Insert, upsert, get and delete of rows of every kind.

use waxseal_table::{ColumnType, Decimal, ErrorKind, Row, Schema, Value};

use crate::store::{book, books, fill, memory, volumes};

#[test]
fn a_row_is_inserted_once_and_replaced_whole() {
    let table = memory().create("library.books", books()).unwrap();
    let emma = book("Austen", 1815, "Emma").with("price", Decimal::new(950, 2).unwrap());
    table.insert(emma.clone()).unwrap();
    let error = table.insert(book("Austen", 1815, "Other")).unwrap_err();
    assert_eq!((error.kind(), error.table()), (ErrorKind::Exists, Some("library.books")));
    assert_eq!(table.get(("Austen", 1815)).unwrap(), Some(emma));
    table.upsert(book("Austen", 1815, "Emma")).unwrap();
    assert_eq!(table.get(("Austen", 1815)).unwrap().unwrap().get("price"), None);
    table.delete(("Austen", 1815)).unwrap();
    assert_eq!(table.get(("Austen", 1815)).unwrap(), None);
    assert!(!table.contains(("Austen", 1815)).unwrap());
    table.delete(("Austen", 1815)).unwrap();
}

#[test]
fn a_wrong_row_is_refused_and_changes_nothing() {
    let table = memory().create("library.books", books()).unwrap();
    fill(&table);
    for (row, kind) in [
        (Row::new().with("author", "Austen"), ErrorKind::Invalid),
        (book("Austen", 1815, "Emma").with("isbn", 1), ErrorKind::NotFound),
        (book("Austen", 1815, "Emma").with("title", 1), ErrorKind::Invalid),
        (book("Austen", 1815, "Emma").with("price", Decimal::new(1, 3).unwrap()), ErrorKind::Invalid),
        (book("Austen", 1815, "Emma").with("price", 100_000_000), ErrorKind::Invalid),
        (book("Austen", 1815, "Emma").with_entry("pages", "1", "contents", "a"), ErrorKind::NotFound),
        (book(&"a".repeat(70_000), 1815, "Emma"), ErrorKind::Invalid),
    ] {
        assert_eq!(table.upsert(row.clone()).unwrap_err().kind(), kind, "{row:?}");
    }
    assert_eq!(table.get("Austen").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.delete(("Austen", "year")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.select().count().unwrap(), 5);
    assert_eq!(table.get(("Austen", 1815)).unwrap(), Some(book("Austen", 1815, "Emma")));
}

#[test]
fn values_of_every_type_are_read_back() {
    let values = [
        ("bytes", ColumnType::Bytes, Value::from(b"\0\xFF")),
        ("text", ColumnType::Text, Value::from("é")),
        ("bool", ColumnType::Bool, Value::from(true)),
        ("i32", ColumnType::I32, Value::from(i32::MIN)),
        ("i64", ColumnType::I64, Value::from(i64::MIN)),
        ("u64", ColumnType::U64, Value::from(u64::MAX)),
        ("f32", ColumnType::F32, Value::from(f32::NAN)),
        ("f64", ColumnType::F64, Value::from(-0.0)),
        ("decimal", ColumnType::Decimal { precision: 38, scale: 38 }, Value::from(Decimal::new(-1, 38).unwrap())),
        ("date", ColumnType::Date, Value::Date(-1)),
        ("timestamp", ColumnType::Timestamp, Value::Timestamp(i64::MAX)),
        ("uuid", ColumnType::Uuid, Value::Uuid([7; 16])),
        ("json", ColumnType::Json, Value::Json("{\"a\": [1]}".to_owned())),
        ("list", ColumnType::Text.list(), Value::from(vec![Value::from("a"), Value::from("")])),
        ("empty list", ColumnType::I32.list(), Value::List(Vec::new())),
        ("empty", ColumnType::Empty, Value::Empty),
    ];
    let schema = Schema::new().partition_key("key", ColumnType::I32);
    let schema = values.iter().fold(schema, |schema, (name, ty, _)| schema.column(name, ty.clone()));
    let table = memory().create("test.types", schema).unwrap();
    let row = values.iter().fold(Row::new().with("key", 1), |row, (name, _, value)| row.with(name, value));
    table.insert(row.clone()).unwrap();
    table.insert(Row::new().with("key", 2)).unwrap(); // all columns are null
    let found = table.get(1).unwrap().unwrap();
    assert_eq!(found, row);
    let Some(Value::F64(zero)) = found.get("f64") else { panic!("{found:?}") };
    assert!(zero.is_sign_negative(), "a value keeps its sign, a key does not");
    assert_eq!(table.get(2).unwrap().unwrap().columns().count(), 1);
    assert!(table.upsert(Row::new().with("key", 1).with("json", "{")).is_err());
    assert!(table.upsert(Row::new().with("key", 1).with("list", vec![Value::Null])).is_err());
}

#[test]
fn a_row_has_groups_entries_and_dynamic_columns() {
    let table = memory().create("corpus.volumes", volumes()).unwrap();
    let volume = Row::new()
        .with("volume", "loc.1")
        .with("title", "Emma")
        .with("zip", vec![1u8, 2, 3])
        .with("collection-7", Value::Empty)
        .with("year", 1815)
        .with_entry("pages", "00000001", "contents", "preface")
        .with_entry("pages", "00000001", "byte_count", 7u64)
        .with_entry("pages", "00000002", "contents", "chapter");
    table.insert(volume.clone()).unwrap();
    table.insert(Row::new().with("volume", "loc.10")).unwrap();
    let found = table.get("loc.1").unwrap().unwrap();
    assert_eq!(found, volume);
    assert_eq!(found.entry("pages", "00000001").unwrap().get("byte_count"), Some(&Value::U64(7)));
    assert_eq!(found.entries("pages").count(), 2);

    let rows: Vec<Row> = table.select().columns(["pages"]).rows().unwrap().map(Result::unwrap).collect();
    assert_eq!((rows.len(), rows[0].columns().count(), rows[0].entries("pages").count()), (2, 0, 2));
    let rows: Vec<Row> = table.select().columns(["title", "year"]).rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows[0], Row::new().with("title", "Emma").with("year", 1815));
    let forward: Vec<Row> = table.select().rows().unwrap().map(Result::unwrap).collect();
    let mut backward: Vec<Row> = table.select().reverse().rows().unwrap().map(Result::unwrap).collect();
    backward.reverse();
    assert_eq!(forward, backward);

    table.upsert(Row::new().with("volume", "loc.1").with("title", "Emma")).unwrap();
    assert_eq!(table.get("loc.1").unwrap().unwrap(), Row::new().with("volume", "loc.1").with("title", "Emma"));
    table.delete("loc.1").unwrap();
    assert_eq!(table.get("loc.1").unwrap(), None);
    assert_eq!(table.select().count().unwrap(), 1);
    for (row, kind) in [
        (Row::new().with("volume", "x").with("contents", "a"), ErrorKind::Invalid),
        (Row::new().with("volume", "x").with_entry("pages", "1", "title", "a"), ErrorKind::NotFound),
        (Row::new().with("volume", "x").with_entry("whole", "1", "zip", "a"), ErrorKind::NotFound),
        (Row::new().with("volume", "x").with("mixed", vec![Value::from(1), Value::from("a")]), ErrorKind::Invalid),
    ] {
        assert_eq!(table.insert(row.clone()).unwrap_err().kind(), kind, "{row:?}");
    }
}

#[test]
fn an_insert_leaves_nothing_of_a_row_that_was_deleted() {
    let schema = Schema::new().partition_key("key", ColumnType::I32).column("a", ColumnType::I32).column_in(
        "other",
        "b",
        ColumnType::I32,
    );
    let table = memory().create("test.groups", schema).unwrap();
    let row = |key: i32| Row::new().with("key", key).with("a", 1);
    table.insert(row(1).with("b", 2)).unwrap();
    assert_eq!(table.get(1).unwrap(), Some(row(1).with("b", 2)));
    table.upsert(row(1)).unwrap();
    assert_eq!(table.get(1).unwrap(), Some(row(1)));
    table.upsert(row(1).with("b", 2)).unwrap();
    table.delete(1).unwrap();
    table.insert(row(1)).unwrap();
    assert_eq!(table.get(1).unwrap(), Some(row(1)));
}
