//! CASSANDRA-3919: a column that is added again after a drop shows the values of the dropped one. A naive store, which
//! keeps columns under their names as Cassandra 1.2 did, has the fault. The same steps show that tables have not.

use std::collections::BTreeMap;

use waxseal::{ColumnFamily, Db};
use waxseal_table::{Alteration, ColumnType, ErrorKind, Row, Schema, Table, Tables};

use crate::store::memory;

/// The steps of the report.
trait Columns {
    fn insert(&mut self, key: &str, columns: &[(&str, &str)]);
    fn drop_column(&mut self, name: &str);
    /// Adds a column. Returns false if it is refused.
    fn add_column(&mut self, name: &str) -> bool;
    fn get(&self, key: &str, column: &str) -> Option<String>;
    fn flush(&self);
}

/// Columns under their names. A drop removes the name from the schema.
struct Naive {
    db: Db,
    rows: ColumnFamily,
    schema: Vec<String>,
}

impl Naive {
    fn new(columns: &[&str]) -> Naive {
        let db = Db::memory().unwrap();
        let rows = db.column_family("rows").unwrap();
        Naive { db, rows, schema: columns.iter().map(|name| (*name).to_owned()).collect() }
    }

    fn row(&self, key: &str) -> BTreeMap<String, String> {
        let row = self.rows.get(key).unwrap().map(|row| String::from_utf8(row.to_vec()).unwrap()).unwrap_or_default();
        row.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
    }
}

impl Columns for Naive {
    fn insert(&mut self, key: &str, columns: &[(&str, &str)]) {
        let lines: Vec<String> = columns.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.rows.put(key, lines.join("\n")).unwrap();
    }

    fn drop_column(&mut self, name: &str) {
        self.schema.retain(|own| own != name);
    }

    fn add_column(&mut self, name: &str) -> bool {
        self.schema.push(name.to_owned());
        true
    }

    fn get(&self, key: &str, column: &str) -> Option<String> {
        self.schema.iter().any(|own| own == column).then(|| self.row(key).get(column).cloned()).flatten()
    }

    fn flush(&self) {
        self.db.flush().unwrap();
    }
}

struct Ours {
    table: Table,
}

impl Ours {
    fn new(columns: &[&str]) -> Ours {
        let key = Schema::new().partition_key("key", ColumnType::Text);
        let schema = columns.iter().fold(key, |schema, name| schema.column(name, ColumnType::Text));
        Ours { table: memory().create("reports.cassandra_3919", schema).unwrap() }
    }
}

impl Columns for Ours {
    fn insert(&mut self, key: &str, columns: &[(&str, &str)]) {
        let row = columns.iter().fold(Row::new().with("key", key), |row, (name, value)| row.with(name, *value));
        self.table.insert(row).unwrap();
    }

    /// A drop that nobody takes back.
    fn drop_column(&mut self, name: &str) {
        self.table.drop_column(name).unwrap();
        self.table.drop_column(name).unwrap();
    }

    fn add_column(&mut self, name: &str) -> bool {
        match self.table.alter(Alteration::new().add_column(name, ColumnType::Text)) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid);
                false
            }
        }
    }

    fn get(&self, key: &str, column: &str) -> Option<String> {
        let row = self.table.get(key).unwrap().unwrap();
        row.get(column).map(|value| value.as_str().unwrap().to_owned())
    }

    fn flush(&self) {
        self.table.db().flush().unwrap();
    }
}

/// Runs the steps of the report. Returns the value that the new column has in the old row.
fn old_value(store: &mut dyn Columns, purge: &dyn Fn(), flushes: bool) -> Option<String> {
    store.insert("jsmith", &[("password", "ch@ngem3a"), ("gender", "m")]);
    if flushes {
        store.flush();
    }
    store.drop_column("gender");
    assert_eq!(store.get("jsmith", "gender"), None, "a dropped column is hidden");
    if !store.add_column("gender") {
        purge();
        assert!(store.add_column("gender"));
    }
    assert_eq!(store.get("jsmith", "password").as_deref(), Some("ch@ngem3a"));
    store.get("jsmith", "gender")
}

#[test]
fn a_column_that_is_added_again_has_no_old_value() {
    for flushes in [false, true] {
        let mut naive = Naive::new(&["password", "gender"]);
        assert_eq!(old_value(&mut naive, &|| {}, flushes).as_deref(), Some("m"), "the fault of the report");
        let mut ours = Ours::new(&["password", "gender"]);
        let table = ours.table.clone();
        let purge = || assert_eq!(table.purge_columns().unwrap().columns, ["gender"]);
        assert_eq!(old_value(&mut ours, &purge, flushes), None);
        // Rows that are written now have the new column.
        ours.insert("ajones", &[("password", "x"), ("gender", "f")]);
        assert_eq!(ours.get("ajones", "gender").as_deref(), Some("f"));
    }
}

#[test]
fn an_old_value_comes_back_by_no_other_name_or_type() {
    let ours = Ours::new(&["password", "gender"]);
    let table = &ours.table;
    table.insert(Row::new().with("key", "jsmith").with("password", "x").with("gender", "m")).unwrap();
    table.drop_column("gender").unwrap();
    // Until the drop is final, the old column is restored as what it was, and as nothing else.
    let number = Alteration::new().add_column("gender", ColumnType::I32);
    assert_eq!(table.alter(number.clone()).unwrap_err().kind(), ErrorKind::Invalid);
    let renamed = Alteration::new().rename_column("password", "gender");
    assert_eq!(table.alter(renamed.clone()).unwrap_err().kind(), ErrorKind::Exists);
    table.drop_column("gender").unwrap();
    for refused in [number.clone(), renamed.clone()] {
        assert_eq!(table.alter(refused).unwrap_err().kind(), ErrorKind::Invalid);
    }
    table.purge_columns().unwrap();
    table.alter(number).unwrap();
    assert_eq!(table.get("jsmith").unwrap(), Some(Row::new().with("key", "jsmith").with("password", "x")));
    drop_and_purge(table);
    table.alter(renamed).unwrap();
    assert_eq!(table.get("jsmith").unwrap(), Some(Row::new().with("key", "jsmith").with("gender", "x")));
}

fn drop_and_purge(table: &Table) {
    table.drop_column("gender").unwrap();
    table.drop_column("gender").unwrap();
    assert_eq!(table.purge_columns().unwrap().columns, ["gender"]);
}

#[test]
fn tables_opens_what_the_report_left() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    let tables = open();
    let schema = Schema::new().partition_key("key", ColumnType::Text).column("gender", ColumnType::Text);
    let table = tables.create("reports.cassandra_3919", schema).unwrap();
    table.insert(Row::new().with("key", "jsmith").with("gender", "m")).unwrap();
    table.drop_column("gender").unwrap();
    table.drop_column("gender").unwrap();
    table.purge_columns().unwrap();
    table.alter(Alteration::new().add_column("gender", ColumnType::Text)).unwrap();
    drop((table, tables));
    let table = open().table("reports.cassandra_3919").unwrap();
    assert_eq!(table.get("jsmith").unwrap(), Some(Row::new().with("key", "jsmith")));
}
