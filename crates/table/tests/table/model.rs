//! Random operations on tables of every kind, beside a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use waxseal_table::{ColumnType, ErrorKind, Row, Schema, Table, Value};

use crate::store::memory;

/// Text that often is equal, escaped, or a beginning of another one, and a number.
type Key = (String, i32);

#[derive(Clone, Debug)]
enum Operation {
    Insert(Key, Option<i64>, Option<i64>),
    Upsert(Key, Option<i64>, Option<i64>),
    Delete(Key),
    Flush,
    Range(String, i32, i32, bool),
}

fn operation() -> impl Strategy<Value = Operation> {
    let text = || prop::sample::select(vec!["", "\0", "a", "a\0", "a\0b", "b", "\u{10FFFF}"]).prop_map(str::to_owned);
    let key = move || (text(), -2..3i32);
    let value = || prop::option::of(-3..3i64);
    prop_oneof![
        3 => (key(), value(), value()).prop_map(|(key, a, b)| Operation::Insert(key, a, b)),
        3 => (key(), value(), value()).prop_map(|(key, a, b)| Operation::Upsert(key, a, b)),
        2 => key().prop_map(Operation::Delete),
        1 => Just(Operation::Flush),
        2 => (text(), -3..3i32, -3..4i32, any::<bool>()).prop_map(|(a, b, c, d)| Operation::Range(a, b, c, d)),
    ]
}

/// A row with a column in group 0 and another one in a group, an entry or a dynamic column.
fn row(kind: usize, (text, number): &Key, a: Option<i64>, b: Option<i64>) -> Row {
    let row = Row::new().with("text", text.as_str()).with("number", *number).with("a", a);
    match (kind, b) {
        (3, Some(b)) => row.with_entry("entries", "one", "b", b),
        (_, b) => row.with("b", b),
    }
}

fn schema(kind: usize, is_descending: bool) -> Schema {
    let schema = Schema::new().partition_key("text", ColumnType::Text);
    let schema = match is_descending {
        true => schema.clustering_key_descending("number", ColumnType::I32),
        false => schema.clustering_key("number", ColumnType::I32),
    };
    let schema = schema.column("a", ColumnType::I64);
    match kind {
        0 => schema.column("b", ColumnType::I64),
        1 => schema.column_in("other", "b", ColumnType::I64),
        2 => schema.dynamic_columns(),
        _ => schema.repeated_group("entries").column_in("entries", "b", ColumnType::I64),
    }
}

fn all(table: &Table, is_reverse: bool) -> Vec<Row> {
    let select = if is_reverse { table.select().reverse() } else { table.select() };
    select.rows().unwrap().map(Result::unwrap).collect()
}

fn check(operations: &[Operation], kind: usize, is_descending: bool, is_hashed: bool) {
    let tables = memory();
    let schema = schema(kind, is_descending);
    let table = tables.create("test.model", if is_hashed { schema.hashed() } else { schema }).unwrap();
    // The number in the order of the table.
    let place = |number: i32| if is_descending { -number } else { number };
    let mut model: BTreeMap<(String, i32), Row> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::Insert(key, a, b) => {
                let (row, at) = (row(kind, key, *a, *b), (key.0.clone(), place(key.1)));
                match table.insert(row.clone()) {
                    Ok(()) => assert!(model.insert(at, row).is_none(), "{key:?} existed"),
                    Err(error) => assert!(error.kind() == ErrorKind::Exists && model.contains_key(&at), "{error}"),
                }
            }
            Operation::Upsert(key, a, b) => {
                let row = row(kind, key, *a, *b);
                table.upsert(row.clone()).unwrap();
                model.insert((key.0.clone(), place(key.1)), row);
            }
            Operation::Delete(key) => {
                table.delete((key.0.as_str(), key.1)).unwrap();
                model.remove(&(key.0.clone(), place(key.1)));
                assert_eq!(table.get((key.0.as_str(), key.1)).unwrap(), None);
            }
            Operation::Flush => tables.db().flush().unwrap(),
            Operation::Range(text, low, high, is_reverse) => {
                let select = table.select().prefix(text.as_str()).range(*low..*high);
                let select = if *is_reverse { select.reverse() } else { select };
                let found: Vec<Row> = select.rows().unwrap().map(Result::unwrap).collect();
                let is_in = |row: &&Row| {
                    let number = row.get("number").and_then(Value::as_i64).unwrap();
                    row.get("text") == Some(&text.as_str().into()) && (*low..*high).contains(&(number as i32))
                };
                let mut expected: Vec<Row> = model.values().filter(is_in).cloned().collect();
                if *is_reverse {
                    expected.reverse();
                }
                assert_eq!(found, expected, "{text:?} {low}..{high}");
            }
        }
    }
    let (mut found, mut backward) = (all(&table, false), all(&table, true));
    backward.reverse();
    assert_eq!(found, backward);
    let mut expected: Vec<Row> = model.values().cloned().collect();
    if is_hashed {
        let key = |row: &Row| format!("{:?}", (row.get("text"), row.get("number")));
        found.sort_by_key(key);
        expected.sort_by_key(key);
    }
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_sorted_map_of_rows(
        operations in prop::collection::vec(operation(), 1..40),
        kind in 0usize..4,
        is_descending: bool,
        is_hashed: bool,
    ) {
        check(&operations, kind, is_descending, is_hashed);
    }
}
