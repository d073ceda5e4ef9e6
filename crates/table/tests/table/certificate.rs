//! Certificates: what they need, and that no byte of a value is left in the store's directory then.

use std::path::Path;

use waxseal::{Db, Settings};
use waxseal_table::{Alteration, Certificate, Changes, ColumnType, ErrorKind, Index, Row, Schema, Table, Tables};

pub(crate) const SECRET: &str = "4M9-qXz7-pw";

pub(crate) fn open(path: &Path) -> Tables {
    let small = |settings: &mut Settings| {
        settings.memtable_bytes = 64 * 1024;
        settings.segment_bytes = 64 * 1024;
        settings.ring_bytes = 32 * 1024;
        settings.drain_bytes = 8 * 1024;
    };
    Tables::open(&Db::builder(path).tune(small).open().unwrap()).unwrap()
}

/// Returns the files of a store that hold the secret. The store may remove a file meanwhile.
#[expect(clippy::disallowed_methods, reason = "the bytes of the store's own files")]
pub(crate) fn leaking(path: &Path) -> Vec<String> {
    let holds = |file: &Path| match std::fs::read(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        bytes => bytes.unwrap().windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()),
    };
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| holds(file)).map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// People with a secret in a column of group 0, in one of another group, in a large value and in an index.
pub(crate) fn people(tables: &Tables) -> Table {
    let schema = Schema::new()
        .partition_key("id", ColumnType::I32)
        .column("name", ColumnType::Text)
        .column("phone", ColumnType::Text)
        .index(Index::on("by_phone", ["phone", "name"]));
    let table = tables.create("staff.people", schema).unwrap();
    for id in 0..600 {
        let phone = if id % 100 == 7 { SECRET.repeat(1000) } else { format!("{SECRET}{id}") };
        table.upsert(Row::new().with("id", id).with("name", "n").with("phone", phone)).unwrap();
    }
    table
}

pub(crate) fn dropped(table: &Table) {
    table.drop_column("phone").unwrap();
    table.drop_column("phone").unwrap();
}

pub(crate) fn held(certificate: waxseal_table::Result<Certificate>, holder: &str) {
    let error = certificate.unwrap_err();
    assert!(error.kind() == ErrorKind::InUse && error.to_string().contains(holder), "{error}");
}

#[test]
fn no_byte_of_the_column_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = open(&path);
    let table = people(&tables);
    tables.db().flush().unwrap();
    table.upsert(Row::new().with("id", -1).with("name", "n").with("phone", SECRET)).unwrap();
    let before = leaking(&path);
    for ending in [".log", ".ring", ".tbl", ".val"] {
        assert!(before.iter().any(|name| name.ends_with(ending)), "{ending}: {before:?}");
    }
    let certificate = || table.certificate("phone");
    assert_eq!(table.certificate("none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(certificate().unwrap_err().kind(), ErrorKind::Invalid);
    table.drop_column("phone").unwrap();
    assert_eq!(certificate().unwrap_err().kind(), ErrorKind::Invalid);
    table.drop_column("phone").unwrap();
    assert_eq!(certificate().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.purge_columns().unwrap().columns, ["phone"]);
    assert!(!leaking(&path).is_empty(), "the log still has it");
    let issued = certificate().unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
    assert_eq!((issued.table(), issued.column(), issued.column_id()), ("staff.people", "phone", 3));
    assert!(issued.to_string().contains("checkpoints") && issued.issued_at() >= issued.purged_at());
    // The name is free, and the certificate stays that of the column that was purged.
    table.alter(Alteration::new().add_column("phone", ColumnType::Text)).unwrap();
    table.upsert(Row::new().with("id", 1).with("phone", "new")).unwrap();
    assert_eq!(certificate().unwrap(), issued);
    assert_eq!(table.select().count().unwrap(), 601);
    drop((table, tables));
    let tables = open(&path);
    assert_eq!(tables.table("staff.people").unwrap().certificate("phone").unwrap(), issued);
    let reader = Tables::open(&Db::open_read_only(&path).unwrap()).unwrap();
    assert_eq!(reader.table("staff.people").unwrap().certificate("phone").unwrap(), issued);
}

/// The key of a deleted entry has the values. Its file may be above the one that the purge rewrites.
#[test]
fn deleted_entries_of_indexes_go_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = open(&path);
    let schema = Schema::new().partition_key("id", ColumnType::I32);
    let schema = ["name", "phone"].into_iter().fold(schema, |schema, name| schema.column(name, ColumnType::Text));
    let schema = schema.index(Index::on("by_phone", ["phone"])).index(Index::on("by_name", ["name"]));
    let table = tables.create("staff.people", schema).unwrap();
    let indexes = tables.db().column_family("waxseal_tables-1-indexes").unwrap();
    (0..100).for_each(|id| table.insert(Row::new().with("id", id).with("name", "n").with("phone", SECRET)).unwrap());
    indexes.compact_range(..).unwrap();
    table.update(7, Changes::new().remove("phone").set("name", "other")).unwrap();
    tables.db().flush().unwrap();
    dropped(&table);
    assert_eq!(table.purge_columns().unwrap().columns, ["phone"]);
    table.certificate("phone").unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
}

/// A recovery writes tables that list no columns. They are written again.
#[test]
fn a_certificate_is_issued_after_a_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = open(&path);
    let table = people(&tables);
    dropped(&table);
    table.purge_columns().unwrap();
    table.upsert(Row::new().with("id", 1).with("name", "not flushed")).unwrap();
    drop((table, tables));
    let tables = open(&path);
    tables.table("staff.people").unwrap().certificate("phone").unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
}

/// A certificate of an earlier column says nothing of a later one of its name.
#[test]
fn a_name_that_is_dropped_again_has_no_certificate() {
    let tables = Tables::open(&Db::memory().unwrap()).unwrap();
    let table = people(&tables);
    dropped(&table);
    table.purge_columns().unwrap();
    let issued = table.certificate("phone").unwrap();
    table.alter(Alteration::new().add_column("phone", ColumnType::Text)).unwrap();
    assert_eq!(table.certificate("phone").unwrap(), issued);
    dropped(&table);
    assert_eq!(table.certificate("phone").unwrap_err().kind(), ErrorKind::Invalid);
    table.purge_columns().unwrap();
    assert_ne!(table.certificate("phone").unwrap().column_id(), issued.column_id());
}

#[test]
fn whoever_holds_a_value_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = open(&path);
    let table = people(&tables);
    tables.db().flush().unwrap();
    let rows = tables.db().column_family("waxseal_tables-1-rows").unwrap();
    let (cursor, feed) = (rows.cursor(), tables.db().change_cursor("replica").unwrap());
    table.upsert(Row::new().with("id", -1).with("name", "n").with("phone", SECRET)).unwrap();
    dropped(&table);
    table.purge_columns().unwrap();
    held(table.certificate("phone"), "cursor");
    drop(cursor);
    held(table.certificate("phone"), "change feed");
    assert!(!leaking(&path).is_empty());
    feed.remove().unwrap();
    table.certificate("phone").unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
}

#[test]
fn a_certificate_is_issued_beside_writers() {
    let dir = tempfile::tempdir().unwrap();
    let tables = open(&dir.path().join("store"));
    let table = people(&tables);
    dropped(&table);
    table.purge_columns().unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut id = 0;
            while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                table.upsert(Row::new().with("id", id % 50).with("name", "other")).unwrap();
                id += 1;
            }
        });
        let issued = table.certificate("phone");
        is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        issued.unwrap();
    });
    assert_eq!(leaking(&dir.path().join("store")), Vec::<String>::new());
}
