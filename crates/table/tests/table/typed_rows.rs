//! Structs as rows.

use waxseal_table::{Alteration, ColumnType, Decimal, ErrorKind, Index, Row, Schema, TypedRow, Value};

use crate::store::memory;

/// Every type of a field, as a value and as a list.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(hashed, index = "by_date = day, r#type:desc", unique_index = "by_id=id")]
struct Everything {
    #[column(partition_key)]
    text: String,
    #[column(clustering_key, descending, name = "count-down")]
    number: i64,
    #[column(clustering_key)]
    small: i32,
    bytes: Vec<u8>,
    truth: Option<bool>,
    large: u64,
    single: f32,
    double: Option<f64>,
    #[column(type = "decimal(9, 2)")]
    price: Option<Decimal>,
    #[column(type = "date")]
    day: i32,
    #[column(type = "timestamp", group = "times")]
    at: Option<i64>,
    #[column(name = "r#type")]
    id: [u8; 16],
    #[column(name = "id")]
    r#type: Option<String>,
    #[column(type = "json")]
    document: Option<String>,
    texts: Vec<String>,
    numbers: Option<Vec<i32>>,
}

fn everything() -> Everything {
    Everything {
        text: "a".to_owned(),
        number: -5,
        small: i32::MAX,
        bytes: vec![0, 255],
        truth: Some(false),
        large: u64::MAX,
        single: -0.5,
        double: Some(1e300),
        price: Some("12.50".parse().unwrap()),
        day: -1,
        at: Some(i64::MIN),
        id: *b"0123456789abcdef",
        r#type: Some(String::new()),
        document: Some("{\"a\": [1]}".to_owned()),
        texts: vec!["b".to_owned(), String::new()],
        numbers: Some(Vec::new()),
    }
}

fn schema() -> Schema {
    Schema::new()
        .hashed()
        .partition_key("text", ColumnType::Text)
        .clustering_key_descending("count-down", ColumnType::I64)
        .clustering_key("small", ColumnType::I32)
        .column("bytes", ColumnType::Bytes)
        .column("truth", ColumnType::Bool)
        .column("large", ColumnType::U64)
        .column("single", ColumnType::F32)
        .column("double", ColumnType::F64)
        .column("price", ColumnType::Decimal { precision: 9, scale: 2 })
        .column("day", ColumnType::Date)
        .column_in("times", "at", ColumnType::Timestamp)
        .column("r#type", ColumnType::Uuid)
        .column("id", ColumnType::Text)
        .column("document", ColumnType::Json)
        .column("texts", ColumnType::Text.list())
        .column("numbers", ColumnType::I32.list())
        .index(Index::on("by_date", ["day"]).descending("r#type"))
        .index(Index::on("by_id", ["id"]).unique())
}

#[test]
fn a_struct_is_a_row() {
    assert_eq!(Everything::schema(), schema());
    let tables = memory();
    let table = tables.create("test.typed", Everything::schema()).unwrap();
    let nulls = Everything {
        small: 0,
        truth: None,
        double: None,
        price: None,
        at: None,
        r#type: None,
        document: None,
        numbers: None,
        ..everything()
    };
    table.insert(everything()).unwrap();
    tables.transact(|transaction| transaction.upsert(&table, nulls.clone())).unwrap();
    let rows = table.select().prefix("a").rows().unwrap();
    let rows: Vec<Everything> = rows.map(|row| Everything::from_row(&row.unwrap()).unwrap()).collect();
    assert_eq!(rows, [nulls, everything()]);
    let row = table.get(("a", -5i64, i32::MAX)).unwrap().unwrap();
    assert_eq!((row.get("day"), row.get("at")), (Some(&Value::Date(-1)), Some(&Value::Timestamp(i64::MIN))));
}

#[derive(Row, Debug, PartialEq)]
struct Count {
    #[column(partition_key)]
    key: String,
    count: i32,
}

#[test]
fn a_row_that_a_struct_does_not_hold_is_refused() {
    let table = memory().create("test.counts", Count::schema()).unwrap();
    table.insert(Count { key: "a".to_owned(), count: 1 }).unwrap();
    table.insert(Row::new().with("key", "b")).unwrap();
    let widen = Alteration::new().widen_column("count", ColumnType::I64).add_column("note", ColumnType::Text);
    table.alter(widen).unwrap();
    let read = |key: &str| Count::from_row(&table.get(key).unwrap().unwrap());
    // The value still fits, and the new column is left out.
    assert_eq!(read("a").unwrap(), Count { key: "a".to_owned(), count: 1 });
    let error = read("b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "column \"count\" is null, and the field of the struct is no Option");
    table.upsert(Row::new().with("key", "a").with("count", i64::MAX)).unwrap();
    let message = "column \"count\": the field of the struct does not hold this value of type i64";
    assert_eq!(read("a").unwrap_err().to_string(), message);
}

type Number = Option<i32>;

/// More columns than are searched one by one.
#[derive(Row, Clone, Debug, PartialEq)]
struct Wide {
    #[column(partition_key)]
    a: i32,
    b: Number,
    c: Number,
    d: Number,
    e: Number,
    f: Number,
    g: Number,
    h: Number,
    i: Number,
    j: Number,
    k: Number,
    l: Number,
    m: Number,
    n: Number,
    o: Number,
    p: Number,
    q: Number,
    r: Number,
    #[column(type = "date")]
    s: Number,
}

#[test]
fn a_row_has_its_columns_in_any_order() {
    let names: Vec<String> = ('a'..='s').map(String::from).collect();
    let mut row = Row::new();
    for (number, name) in (0..19).zip(&names).rev().filter(|(number, _)| *number != 5) {
        row.set(name, number);
    }
    let wide = Wide::from_row(&row).unwrap();
    assert_eq!((wide.a, wide.b, wide.e, wide.f, wide.g, wide.s), (0, Some(1), Some(4), None, Some(6), Some(18)));
    let own = wide.clone().into_row();
    let expected: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "f").collect();
    assert_eq!(own.columns().map(|(name, _)| name).collect::<Vec<_>>(), expected);
    assert_eq!(own.get("s"), Some(&Value::Date(18)));
    assert_eq!(Wide::from_row(&own).unwrap(), wide);
}
