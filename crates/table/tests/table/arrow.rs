//! Rows as Arrow record batches. Run with `--features arrow`.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int8Array, Int64Array, LargeStringArray, NullArray, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use waxseal_table::{ColumnType, Decimal, ErrorKind, Row, Schema, Value};

use crate::store::{book, books, fill, memory, volumes};

fn every_type() -> Schema {
    Schema::new()
        .partition_key("key", ColumnType::U64)
        .column("text", ColumnType::Text)
        .column("bytes", ColumnType::Bytes)
        .column("bool", ColumnType::Bool)
        .column("i32", ColumnType::I32)
        .column("i64", ColumnType::I64)
        .column("f32", ColumnType::F32)
        .column("f64", ColumnType::F64)
        .column("decimal", ColumnType::Decimal { precision: 38, scale: 10 })
        .column("date", ColumnType::Date)
        .column("timestamp", ColumnType::Timestamp)
        .column_in("other", "uuid", ColumnType::Uuid)
        .column("json", ColumnType::Json)
        .column("texts", ColumnType::Text.list())
        .column("decimals", ColumnType::Decimal { precision: 9, scale: 2 }.list())
        .column("mark", ColumnType::Empty)
}

fn rows() -> Vec<Row> {
    let number = |unscaled, scale| Value::from(Decimal::new(unscaled, scale).unwrap());
    let full = Row::new()
        .with("key", u64::MAX)
        .with("text", "")
        .with("bytes", b"\x00\xFF")
        .with("bool", false)
        .with("i32", i32::MIN)
        .with("i64", i64::MIN)
        .with("f32", f32::INFINITY)
        .with("f64", -0.0)
        .with("decimal", number(1 - 10i128.pow(38), 10))
        .with("date", Value::Date(i32::MIN))
        .with("timestamp", Value::Timestamp(i64::MAX))
        .with("uuid", Value::Uuid([7; 16]))
        .with("json", Value::Json("null".to_owned()))
        .with("texts", vec![Value::from("a"), Value::from("")])
        .with("decimals", vec![number(-150, 2)])
        .with("mark", Value::Empty);
    let empty = Row::new().with("key", 1u64).with("texts", Vec::<Value>::new()).with("bytes", b"");
    vec![Row::new().with("key", 0u64), empty, full]
}

#[test]
fn every_type_comes_back_from_arrow() {
    let table = memory().create("test.types", every_type()).unwrap();
    for row in rows() {
        table.insert(row).unwrap();
    }
    for batch_rows in [1, 2, 8192] {
        let scan = table.scan_arrow().unwrap().batch_rows(batch_rows);
        let (schema, mut read) = (scan.schema(), Vec::new());
        for batch in scan {
            let batch = batch.unwrap();
            assert!(batch.schema() == schema && batch.num_rows() <= batch_rows);
            read.extend(every_type().rows_from_arrow(&batch).unwrap());
        }
        let sorted = |row: &Row| {
            let mut columns: Vec<String> = row.columns().map(|column| format!("{column:?}")).collect();
            columns.sort();
            columns
        };
        assert_eq!(read.iter().map(sorted).collect::<Vec<_>>(), rows().iter().map(sorted).collect::<Vec<_>>());
        assert_eq!((schema.field(0).is_nullable(), schema.field(1).is_nullable()), (false, true));
    }
}

#[test]
fn a_scan_reads_the_selected_columns_and_rows() {
    let tables = memory();
    let table = tables.create("library.books", books()).unwrap();
    fill(&table);
    let select = table.select().prefix("Austen").range(1812..).columns(["title"]);
    let batches: Vec<RecordBatch> = select.scan_arrow().unwrap().map(Result::unwrap).collect();
    let expected: ArrayRef = Arc::new(StringArray::from(vec!["Pride and Prejudice", "Emma"]));
    assert_eq!((batches.len(), batches[0].num_columns(), batches[0].column(0)), (1, 1, &expected));
    let volumes = tables.create("library.volumes", volumes()).unwrap();
    assert_eq!(volumes.scan_arrow().unwrap_err().kind(), ErrorKind::Invalid);
    let select = |column: &str| volumes.select().columns([column]).scan_arrow();
    assert_eq!(select("contents").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(select("label").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(select("title").unwrap().count(), 0);
}

#[test]
fn arrays_of_other_types_are_read_unless_that_loses_something() {
    let schema = books().column("at", ColumnType::Timestamp).column("n", ColumnType::I32);
    let batch = |name: &str, array: ArrayRef| {
        let author: ArrayRef = Arc::new(LargeStringArray::from(vec!["Austen"]));
        let year: ArrayRef = Arc::new(Int64Array::from(vec![1815]));
        RecordBatch::try_from_iter([("author", author), ("year", year), (name, array)]).unwrap()
    };
    let read = |name: &str, array: ArrayRef| schema.rows_from_arrow(&batch(name, array));
    let row = book("Austen", 1815, "Emma");
    assert_eq!(read("title", Arc::new(LargeStringArray::from(vec!["Emma"]))).unwrap(), [row]);
    let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![-5]));
    assert_eq!(read("at", millis).unwrap()[0].get("at"), Some(&Value::Timestamp(-5000)));
    let nanos = |nanos| Arc::new(TimestampNanosecondArray::from(vec![nanos]));
    assert_eq!(read("at", nanos(5000)).unwrap()[0].get("at"), Some(&Value::Timestamp(5)));
    assert_eq!(read("n", Arc::new(Int8Array::from(vec![-5]))).unwrap()[0].get("n"), Some(&Value::I32(-5)));
    for (name, array) in [
        ("at", nanos(5001) as ArrayRef),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![i64::MAX]))),
        ("n", Arc::new(Int64Array::from(vec![1i64 << 31]))),
        ("title", Arc::new(Int8Array::from(vec![1]))),
    ] {
        let error = read(name, array).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(name), "{error}");
    }
    let nulls = Arc::new(NullArray::new(1));
    assert_eq!(read("title", nulls).unwrap()[0].get("title"), None);
    assert_eq!(read("isbn", Arc::new(Int8Array::from(vec![1]))).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Another value, or a null, would replace the first one.
#[test]
fn two_arrays_of_one_name_are_refused() {
    let text = |title: Option<&str>| Arc::new(StringArray::from(vec![title])) as ArrayRef;
    for second in [Some("Persuasion"), None] {
        let columns = [("author", text(Some("Austen"))), ("title", text(Some("Emma"))), ("title", text(second))];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let error = books().rows_from_arrow(&batch).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Invalid, "the row has column \"title\" twice")
        );
    }
}
