//! The bytes of tables, in `tests/reader/tables.txt`, where the independent reader decodes them. `BLESS=1` writes the
//! file.

use std::fmt::Write;
use std::time::Duration;

use waxseal::Db;
use waxseal_table::{Alteration, ColumnType, Decimal, Index, Keyspace, Row, Schema, Tables, Value};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reader/tables.txt");

/// Every type as a value, and every type of keys in both orders.
fn every_type() -> (Schema, Vec<Row>) {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let number = |unscaled, scale| Value::from(Decimal::new(unscaled, scale).unwrap());
    let types = [
        ("text", ColumnType::Text, ["a\0b", ""].map(Value::from)),
        ("bytes", ColumnType::Bytes, [Value::from(b"\x00\xFF"), Value::from(b"z")]),
        ("bool", ColumnType::Bool, [true, false].map(Value::from)),
        ("i32", ColumnType::I32, [-2, i32::MAX].map(Value::from)),
        ("i64", ColumnType::I64, [258, i64::MIN].map(Value::from)),
        ("u64", ColumnType::U64, [258, u64::MAX].map(Value::from)),
        ("f32", ColumnType::F32, [-1.5f32, f32::INFINITY].map(Value::from)),
        ("f64", ColumnType::F64, [0.0, f64::NAN].map(Value::from)),
        ("decimal9", decimal(9, 2), [number(-100, 2), number(999_999_999, 2)]),
        ("decimal18", decimal(18, 0), [number(1, 0), number(-10i128.pow(18) + 1, 0)]),
        ("decimal38", decimal(38, 38), [number(-1, 38), number(10i128.pow(38) - 1, 38)]),
        ("date", ColumnType::Date, [-1, 20_000].map(Value::Date)),
        ("timestamp", ColumnType::Timestamp, [-1, 1_700_000_000_000_000].map(Value::Timestamp)),
        ("uuid", ColumnType::Uuid, [*b"0123456789abcdef", [0xFF; 16]].map(Value::Uuid)),
    ];
    let mut schema = Schema::new().partition_key("part", ColumnType::Text).hashed();
    let mut rows = ["one", "two"].map(|part| Row::new().with("part", part)).to_vec();
    for (number, (name, ty, values)) in types.into_iter().enumerate() {
        let key = format!("{name}-key");
        schema = match number % 2 {
            0 => schema.clustering_key(&key, ty.clone()),
            _ => schema.clustering_key_descending(&key, ty.clone()),
        };
        schema = schema.column(name, ty);
        for (row, value) in rows.iter_mut().zip(values) {
            row.set(&key, &value);
            row.set(name, value);
        }
    }
    let schema = schema
        .column("json", ColumnType::Json)
        .column("list", ColumnType::I32.list())
        .column("texts", ColumnType::Text.list())
        .column("mark", ColumnType::Empty)
        .column("null", ColumnType::Text);
    let first = rows[0].clone().with("json", "{\"a\": 1}").with("mark", Value::Empty);
    rows[0] = first.with("list", vec![Value::from(1), Value::from(-1)]).with("texts", Vec::<Value>::new());
    (schema, rows)
}

/// Groups of every kind, and a schema that has changed.
fn groups() -> (Schema, Row) {
    let schema = Schema::new()
        .partition_key("volume", ColumnType::U64)
        .column("title", ColumnType::Text)
        .column("year", ColumnType::I32)
        .column("genre", ColumnType::Text)
        .column_in("whole", "zip", ColumnType::Bytes)
        .repeated_group("pages")
        .column_in("pages", "contents", ColumnType::Text)
        .dynamic_columns()
        .index(Index::on("by_year", ["year"]).descending("title").with_missing())
        .index(Index::on("by_title", ["title"]).unique());
    let row = Row::new()
        .with("volume", 7u64)
        .with("title", "Emma")
        .with("year", 1815)
        .with("genre", "novel")
        .with("zip", b"PK")
        .with("label", 1.25)
        .with_entry("pages", "0001", "contents", "Preface")
        .with_entry("pages", "0002", "contents", "Chapter");
    (schema, row)
}

fn shown(value: &Value) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Value::Null => "null".to_owned(),
        Value::Bytes(bytes) => hex(bytes),
        Value::Text(text) | Value::Json(text) => hex(text.as_bytes()),
        Value::Bool(truth) => truth.to_string(),
        Value::F32(number) => f64::from(*number).to_string().to_lowercase(),
        Value::F64(number) => number.to_string().to_lowercase(),
        Value::Decimal(number) => format!("{}e-{}", number.unscaled(), number.scale()),
        Value::Date(number) => number.to_string(),
        Value::Uuid(uuid) => hex(uuid),
        Value::List(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Empty => "empty".to_owned(),
        Value::U64(number) => number.to_string(),
        Value::Timestamp(number) => number.to_string(),
        other => other.as_i64().unwrap().to_string(),
    }
}

/// Returns the records of a store's tables, and the rows that they are, as text.
fn dump(db: &Db, tables: &Tables) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut text = "# The records of tables (docs/format-tables.md), and the rows that they are.\n".to_owned();
    for family in db.column_families() {
        if family.name().starts_with("waxseal_tables") {
            for record in family.iter() {
                let (key, value) = record.unwrap();
                writeln!(text, "record {} {} {}", family.name(), hex(&key), hex(&value)).unwrap();
            }
        }
    }
    for name in tables.names().unwrap() {
        for row in tables.table(&name).unwrap().select().rows().unwrap() {
            let row = row.unwrap();
            let mut columns: Vec<String> =
                row.columns().map(|(name, value)| format!("{name}={}", shown(value))).collect();
            for entry in row.entries("pages") {
                columns.extend(
                    entry.columns().map(|(name, value)| format!("pages/{}/{name}={}", entry.name(), shown(value))),
                );
            }
            columns.sort();
            writeln!(text, "row {name} {}", columns.join(" ")).unwrap();
        }
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is one of the repository, read by tests only")]
fn the_bytes_of_tables_do_not_change() {
    let db = Db::memory().unwrap();
    let tables = Tables::open(&db).unwrap();
    let (schema, rows) = every_type();
    let table = tables.create("golden.types", schema).unwrap();
    rows.into_iter().for_each(|row| table.insert(row).unwrap());
    let (schema, row) = groups();
    let table = tables.create("golden.groups", schema).unwrap();
    table.insert(row).unwrap();
    table.insert(Row::new().with("volume", 8u64)).unwrap();
    let change = Alteration::new().widen_column("zip", ColumnType::Bytes).rename_column("title", "name");
    table.alter(change.add_column("note", ColumnType::Text)).unwrap();
    table.drop_column_for("genre", Duration::MAX).unwrap();
    tables.create_keyspace(Keyspace::new("empty").replication("dc2", 2).replication("dc1", 3)).unwrap();
    let text = dump(&db, &tables);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(FILE, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), text, "BLESS=1 writes the file");
}
