//! Columns that are dropped for good: which files the purge rewrites, what a snapshot holds, and what stays of the rows.

use std::sync::Arc;
use std::time::Duration;

use waxseal::env::ManualClock;
use waxseal::{Builder, ColumnFamily, Db};
use waxseal_table::{Alteration, ColumnState, ColumnType, ErrorKind, Index, Row, RowOptions, Schema, Table, Tables};

use crate::store::memory;

fn songs() -> Schema {
    Schema::new()
        .partition_key("id", ColumnType::I32)
        .column("title", ColumnType::Text)
        .column("genre", ColumnType::Text)
        .column_in("notes", "note", ColumnType::Text)
}

fn song(id: i32) -> Row {
    Row::new().with("id", id).with("title", "t")
}

fn rows(tables: &Tables) -> ColumnFamily {
    tables.db().column_family("waxseal_tables-1-rows").unwrap()
}

/// Returns the column names of a report.
fn purged(table: &Table) -> Vec<String> {
    table.purge_columns().unwrap().columns
}

fn drop_for_good(table: &Table, name: &str) {
    table.drop_column(name).unwrap();
    table.drop_column(name).unwrap();
}

#[test]
fn a_purge_rewrites_the_files_that_have_the_column() {
    let tables = memory();
    let _no_other_compaction = tables.db().pause_background().unwrap();
    let table = tables.create("music.songs", songs()).unwrap();
    for row in [song(1).with("genre", "folk"), song(2), song(3).with("note", "n").with("genre", "rock")] {
        table.insert(row).unwrap();
        tables.db().flush().unwrap();
    }
    let before = rows(&tables).tables().unwrap();
    let other = before.iter().find(|file| file.smallest == [0x80, 0, 0, 2]).unwrap();
    drop_for_good(&table, "genre");
    let report = table.purge_columns().unwrap();
    assert_eq!((report.columns, report.held, report.files), (vec!["genre".to_owned()], vec![], 2));
    let after = rows(&tables).tables().unwrap();
    assert!(after.contains(other), "a file without the column was rewritten: {after:?}");
    assert!(before.iter().all(|file| file == other || !after.contains(file)));
    let found: Vec<Row> = table.select().rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, [song(1), song(2), song(3).with("note", "n")]);
    assert_eq!(table.purge_columns().unwrap(), Default::default());
    let gone = table.purged_columns().unwrap();
    assert_eq!((gone.len(), gone[0].name(), gone[0].id()), (1, "genre", 3));
    // A new column of the name has another id, and no value of the old one.
    table.alter(Alteration::new().add_column("genre", ColumnType::I64)).unwrap();
    assert_eq!(table.get(1).unwrap(), Some(song(1)));
}

#[test]
fn files_of_before_a_crash_are_purged_although_they_list_no_columns() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tables::open(&Db::open(dir.path().join("store")).unwrap()).unwrap();
    let tables = open();
    let table = tables.create("music.songs", songs()).unwrap();
    table.insert(song(1).with("genre", "folk")).unwrap();
    tables.db().flush().unwrap();
    table.insert(song(2).with("genre", "rock")).unwrap();
    drop_for_good(&table, "genre");
    drop((table, tables)); // the purge has not begun
    let tables = open();
    let table = tables.table("music.songs").unwrap();
    assert_eq!(table.schema().unwrap().dropped_columns().next().unwrap().state(), ColumnState::Purging);
    assert_eq!(purged(&table), ["genre"]);
    assert!(rows(&tables).iter().all(|record| !record.unwrap().1.ends_with(b"k")));
    assert_eq!(table.schema().unwrap().dropped_columns().count(), 0);
}

#[test]
fn a_snapshot_holds_the_column_until_it_is_dropped() {
    let tables = memory();
    let table = tables.create("music.songs", songs()).unwrap();
    table.insert(song(1).with("genre", "folk")).unwrap();
    let snapshot = tables.db().snapshot();
    drop_for_good(&table, "genre");
    let report = table.purge_columns().unwrap();
    assert_eq!((report.columns, report.held), (vec![], vec!["genre".to_owned()]));
    assert_eq!(table.get_at(1, &snapshot).unwrap(), Some(song(1).with("genre", "folk")));
    let add = || table.alter(Alteration::new().add_column("genre", ColumnType::Text));
    assert_eq!(add().unwrap_err().kind(), ErrorKind::Invalid);
    drop(snapshot);
    assert_eq!(purged(&table), ["genre"]);
    add().unwrap();
}

#[test]
fn a_snapshot_from_after_the_final_drop_holds_no_column() {
    let tables = memory();
    let schema = songs().column_in("verse", "text", ColumnType::Text);
    let table = tables.create("music.songs", schema).unwrap();
    for id in 1..4 {
        table.insert(song(id).with("genre", "folk").with("text", "la")).unwrap();
    }
    drop_for_good(&table, "genre");
    drop_for_good(&table, "text");
    let snapshot = tables.db().snapshot();
    table.upsert(song(1).with("note", "later")).unwrap();
    table.delete(2).unwrap();
    tables.db().flush().unwrap();
    table.upsert(song(3).with("note", "later")).unwrap();
    assert_eq!(purged(&table), ["genre", "text"]);
    assert!(rows(&tables).files_with("waxseal columns", [0, 0, 0, 3]).unwrap().is_empty());
    let at = |id: i32| table.get_at(id, &snapshot).unwrap();
    assert_eq!([at(1), at(2), at(3)], [1, 2, 3].map(|id| Some(song(id))));
    let now: Vec<Row> = table.select().rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(now, [song(1).with("note", "later"), song(3).with("note", "later")]);
    // The snapshot may stay: it hides the values.
    assert_eq!(table.certificate("genre").unwrap().column(), "genre");
    assert!(snapshot.seqno().unwrap() < table.purged_columns().unwrap()[0].through());
}

#[test]
fn a_column_of_a_wide_table_is_purged_from_wide_files() {
    let tables = memory();
    let names: Vec<String> = (0..900).map(|number| format!("c{number}")).collect();
    let schema = Schema::new().partition_key("id", ColumnType::I32);
    let schema = names.iter().take(790).fold(schema, |schema, name| schema.column(name, ColumnType::I32));
    let table = tables.create("wide.rows", schema).unwrap();
    let add = |change: Alteration, name: &String| change.add_column(name, ColumnType::I32);
    table.alter(names.iter().skip(790).fold(Alteration::new(), add)).unwrap();
    let whole = |id: i32| names.iter().fold(Row::new().with("id", id), |row, name| row.with(name, id));
    (0..3).for_each(|id| table.insert(whole(id)).unwrap());
    for name in ["c3", "c850"] {
        drop_for_good(&table, name);
    }
    let report = table.purge_columns().unwrap();
    assert_eq!((report.columns, report.held), (vec!["c3".to_owned(), "c850".to_owned()], vec![]));
    assert_eq!(table.certificate("c850").unwrap().column_id(), 852);
    assert_eq!(table.get(1).unwrap().unwrap().columns().count(), 899);
}

#[test]
fn the_end_of_the_deadline_begins_the_purge() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let tables = Tables::open(&Builder::in_memory().clock(clock.clone()).open().unwrap()).unwrap();
    let table = tables.create("music.songs", songs()).unwrap();
    tables.create("music.other", songs()).unwrap();
    table.insert(song(1).with("genre", "folk")).unwrap();
    table.drop_column_for("genre", Duration::from_secs(10)).unwrap();
    let version = table.schema().unwrap().version();
    assert_eq!((tables.purge_columns().unwrap(), table.schema().unwrap().version()), (vec![], version));
    clock.advance_nanos(10_000_000_000);
    let reports = tables.purge_columns().unwrap();
    assert_eq!((reports.len(), &*reports[0].0, &*reports[0].1.columns), (1, "music.songs", &["genre".to_owned()][..]));
}

#[test]
fn rows_keep_entries_groups_and_expiry() {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_700_000_000_000_000_000);
    let tables = Tables::open(&Builder::in_memory().clock(clock.clone()).open().unwrap()).unwrap();
    let schema = songs().repeated_group("verses").column_in("verses", "text", ColumnType::Text).dynamic_columns();
    let table = tables.create("music.songs", schema.index(Index::on("by_genre", ["genre"]))).unwrap();
    let whole =
        song(1).with("genre", "folk").with("note", "n").with("label", 7).with_entry("verses", "1", "text", "la");
    table.insert_with(whole, RowOptions::new().expires_in(Duration::from_secs(10))).unwrap();
    table.insert(song(2).with("genre", "rock")).unwrap();
    for name in ["genre", "note", "text"] {
        drop_for_good(&table, name);
    }
    assert_eq!(purged(&table), ["genre", "note", "text"]);
    let left = table.get(1).unwrap().unwrap();
    assert_eq!((left.get("title"), left.get("label")), (Some(&"t".into()), Some(&7.into())));
    assert_eq!(
        left.entries("verses").map(|entry| (entry.name(), entry.columns().count())).collect::<Vec<_>>(),
        [("1", 0)]
    );
    let keys: Vec<usize> = rows(&tables).iter().keys().map(|key| key.unwrap().len()).collect();
    assert_eq!(keys, [4, 7, 11, 4], "group 0, an entry, a dynamic column; group 0. The record of `note` is gone");
    assert!(tables.db().column_family("waxseal_tables-1-indexes").unwrap().is_empty().unwrap());
    clock.advance_nanos(11_000_000_000);
    assert_eq!((table.get(1).unwrap(), table.get(2).unwrap()), (None, Some(song(2))));
}

#[test]
fn a_purge_runs_beside_writers() {
    let tables = memory();
    let table = tables.create("music.songs", songs()).unwrap();
    (0..200).for_each(|id| table.insert(song(id).with("genre", "folk")).unwrap());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..20 {
                for id in (0..200).step_by(7) {
                    // Until the drop the row has the column, and afterwards it cannot.
                    let row = song(id).with("genre", "rock");
                    if table.upsert(row).is_err() {
                        table.upsert(song(id).with("note", round.to_string())).unwrap();
                    }
                }
            }
        });
        drop_for_good(&table, "genre");
        assert_eq!(purged(&table), ["genre"]);
        writer.join().unwrap();
    });
    assert!(table.select().rows().unwrap().all(|row| row.unwrap().get("genre").is_none()));
    tables.db().flush().unwrap();
    assert_eq!(rows(&tables).files_with("waxseal columns", [0, 0, 0, 3]).unwrap(), []);
}
