//! Purges and certificates where rows or records of the catalogue come from another store.

use waxseal::exchange::ExportOptions;
use waxseal::registry::Mode;
use waxseal::{ChangePosition, Db, Durability};
use waxseal_table::{Alteration, Certificate, ColumnType, ErrorKind, Row, Schema, Table, Tables};

use crate::certificate::{SECRET, dropped, held, leaking, open, people};
use crate::event_purge;

const ROWS: &str = "waxseal_tables-1-rows";

/// Applies the changes of a store behind a position to its copy, and returns the new position.
fn follow(source: &Db, from: ChangePosition, copy: &Db) -> ChangePosition {
    source.sync().unwrap();
    let mut changes = source.changes_since(from).unwrap();
    let mut batch = copy.batch();
    for change in &mut changes {
        let change = change.unwrap();
        batch.apply(&copy.column_family(&change.family).unwrap(), &change);
        if change.ends_commit {
            batch.commit(Durability::Os).unwrap();
            batch.clear();
        }
    }
    changes.position()
}

/// The certificate is refused, because another store was purged.
fn refused(certificate: waxseal_table::Result<Certificate>) {
    let error = certificate.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("another store"), "{error}");
}

fn phones(tables: &Tables) -> Table {
    tables.table("staff.people").unwrap()
}

#[test]
fn a_follower_purges_its_own_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy");
    let (source, copy) = (open(&dir.path().join("source")), open(&path));
    let cursor = source.db().change_cursor("copy").unwrap();
    let table = people(&source);
    let position = follow(source.db(), cursor.position().unwrap(), copy.db());
    dropped(&table);
    table.purge_columns().unwrap();
    let position = follow(source.db(), position, copy.db());
    cursor.advance(position).unwrap();
    source.db().flush().unwrap(); // lets the log go
    let issued = table.certificate("phone").unwrap();
    let position = follow(source.db(), position, copy.db());

    let copied = phones(&copy);
    refused(copied.certificate("phone"));
    assert!(copied.purged_columns().unwrap().is_empty());
    copy.db().flush().unwrap();
    assert!(leaking(&path).iter().any(|name| name.ends_with(".tbl")));
    let report = copied.purge_columns().unwrap();
    assert_eq!((report.columns, report.held, report.files > 0), (vec!["phone".to_owned()], vec![], true));
    let own = copied.certificate("phone").unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
    assert_eq!((own.column_id(), copied.schema().unwrap()), (issued.column_id(), table.schema().unwrap()));
    assert_eq!(copied.select().count().unwrap(), 600);
    // Later records of the source do not replace those of the copy.
    table.purge_events("phone").unwrap();
    follow(source.db(), position, copy.db());
    assert_eq!(copied.certificate("phone").unwrap(), own);
    assert_eq!(copied.purge_columns().unwrap(), Default::default());
}

#[test]
fn a_follower_purges_its_own_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy");
    let source = open(&dir.path().join("source"));
    let table = event_purge::people(&source, Mode::Sync);
    let cursor = source.db().change_cursor("copy").unwrap();
    source.db().checkpoint(&path).unwrap();
    dropped(&table);
    table.purge_columns().unwrap();
    let changed = table.purge_events("phone").unwrap().changed();
    let copy = Db::open(&path).unwrap();
    let position = follow(source.db(), copy.change_branch().unwrap(), &copy);
    cursor.advance(position).unwrap();
    source.db().flush().unwrap();
    assert!(table.certificate("phone").unwrap().events().is_some());
    follow(source.db(), position, &copy);

    let copy = Tables::open(&copy).unwrap();
    let copied = phones(&copy);
    assert_eq!(copied.purge_columns().unwrap().columns, ["phone"]);
    assert_eq!(copied.certificate("phone").unwrap().events(), None);
    assert!(!leaking(&path).is_empty(), "the log of the copy has the values");
    assert_eq!(copied.purge_events("phone").unwrap().changed(), changed);
    assert!(copied.certificate("phone").unwrap().events().is_some());
    assert_eq!(leaking(&path), Vec::<String>::new());
}

#[test]
fn a_checkpoint_has_no_certificate_of_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let (tables, path) = (open(&dir.path().join("source")), dir.path().join("copy"));
    let table = people(&tables);
    dropped(&table);
    table.purge_columns().unwrap();
    table.certificate("phone").unwrap();
    tables.db().checkpoint(&path).unwrap();
    let reader = Tables::open(&Db::open_read_only(&path).unwrap()).unwrap();
    refused(phones(&reader).certificate("phone"));
    drop(reader);
    let copy = open(&path);
    refused(phones(&copy).certificate("phone"));
    let report = phones(&copy).purge_columns().unwrap();
    assert_eq!((report.columns, report.files), (vec!["phone".to_owned()], 0));
    phones(&copy).certificate("phone").unwrap();
}

/// A record of an earlier build does not name its store, which may be another one.
#[test]
fn a_record_without_a_store_is_no_proof() {
    let dir = tempfile::tempdir().unwrap();
    let tables = open(&dir.path().join("store"));
    let table = people(&tables);
    dropped(&table);
    table.purge_columns().unwrap();
    table.certificate("phone").unwrap();
    let catalogue = tables.db().column_family("waxseal_tables").unwrap();
    let (key, record) = catalogue.prefix(b"p").next().unwrap().unwrap();
    assert_eq!((key.len(), &key[..9], &key[9..]), (25, &b"p\0\0\0\x01\0\0\0\x03"[..], &tables.db().uid().0[..]));
    catalogue.put(&key[..9], &record).unwrap();
    catalogue.delete(&key).unwrap();
    refused(table.certificate("phone"));
    assert_eq!(table.purge_columns().unwrap().columns, ["phone"]);
    table.certificate("phone").unwrap();
}

/// The rows of a moved table are newer than the drop of the column.
#[test]
fn a_moved_table_is_purged_of_rows_that_came_after_the_drop() {
    let dir = tempfile::tempdir().unwrap();
    let (path, parcel) = (dir.path().join("to"), dir.path().join("parcel"));
    let (from, to) = (open(&dir.path().join("from")), open(&path));
    let schema = Schema::new().partition_key("id", ColumnType::I32).column("phone", ColumnType::Text);
    let table = from.create("staff.people", schema).unwrap();
    // No large values: the seqnos of an obsolete blob file are not known.
    (0..100).for_each(|id| table.insert(Row::new().with("id", id).with("phone", format!("{SECRET}{id}"))).unwrap());
    dropped(&table);
    from.db().column_family(ROWS).unwrap().export(&parcel, ExportOptions::new()).unwrap();
    let moved = to.create("staff.people", table.schema().unwrap()).unwrap();
    let rows = to.db().column_family(ROWS).unwrap();
    rows.import(&parcel).unwrap();
    let cursor = rows.cursor();
    assert_eq!(moved.purge_columns().unwrap().columns, ["phone"]);
    held(moved.certificate("phone"), "cursor");
    drop(cursor);
    moved.certificate("phone").unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
}

#[test]
fn values_that_come_back_are_purged_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, parcel) = (dir.path().join("store"), dir.path().join("parcel"));
    let tables = open(&path);
    let table = people(&tables);
    let rows = tables.db().column_family(ROWS).unwrap();
    rows.export(&parcel, ExportOptions::new()).unwrap();
    dropped(&table);
    table.purge_columns().unwrap();
    let issued = table.certificate("phone").unwrap();
    assert_eq!(leaking(&path), Vec::<String>::new());
    rows.import(&parcel).unwrap();
    table.alter(Alteration::new().add_column("phone", ColumnType::Text)).unwrap();
    assert!(!leaking(&path).is_empty());
    let again = table.certificate("phone").unwrap();
    assert!(again.through() > issued.through() && again.column_id() == issued.column_id());
    assert_eq!(leaking(&path), Vec::<String>::new());
    assert_eq!(table.certificate("phone").unwrap(), again);
    assert_eq!(table.select().count().unwrap(), 600);
}
