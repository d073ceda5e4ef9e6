//! Indexes beside damaged rows: a select fails where a row may be missing, and a unique index refuses the values of rows
//! that cannot be read.

use std::path::{Path, PathBuf};

use waxseal::{Db, RepairOptions};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_table::{ColumnType, ErrorKind, Index, IndexState, Result, Row, Schema, Table, Tables, Value};

use crate::damage::noise;

const ROWS: i64 = 40;

fn title(number: i64) -> String {
    format!("title {number:03}")
}

fn row(number: i64) -> Row {
    Row::new()
        .with("number", number)
        .with("title", title(number))
        .with("year", number % 7)
        .with("text", noise(number as u64))
}

fn open_store(disk: &SimFs) -> Db {
    let builder = Db::builder("/store").env(disk.env(disk.steps() + 1)).block_bytes(1024).tune(|settings| {
        settings.memtable_bytes = 64 * 1024;
        settings.segment_bytes = 64 * 1024;
        settings.ring_bytes = 32 * 1024;
        settings.drain_bytes = 8 * 1024;
    });
    builder.open().unwrap()
}

fn open(disk: &SimFs) -> (Tables, Table) {
    let tables = Tables::open(&open_store(disk)).unwrap();
    let table = tables.table("a.b").unwrap();
    (tables, table)
}

/// Returns a closed store with a table, and the file of its rows.
fn written() -> (SimFs, PathBuf) {
    let disk = SimFs::new(1);
    let db = open_store(&disk);
    let schema = Schema::new()
        .partition_key("number", ColumnType::I64)
        .column("title", ColumnType::Text)
        .column("year", ColumnType::I64)
        .column("text", ColumnType::Bytes)
        .index(Index::on("by_title", ["title"]).unique())
        .index(Index::on("by_year", ["year"]));
    let table = Tables::open(&db).unwrap().create("a.b", schema).unwrap();
    (0..ROWS).for_each(|number| table.insert(row(number)).unwrap());
    db.flush().unwrap();
    db.column_family("waxseal_tables-1-rows").unwrap().compact().unwrap();
    db.close().unwrap();
    let files = disk.files("/store").into_iter().filter(|name| name.ends_with(".tbl"));
    let largest =
        files.map(|name| Path::new("/store").join(name)).max_by_key(|file| disk.read_all(file).unwrap().len());
    (disk, largest.unwrap())
}

/// Returns a closed store with damaged rows.
fn damaged() -> SimFs {
    let (disk, file) = written();
    let mut bytes = disk.read_all(&file).unwrap();
    for at in [1200, 2400] {
        bytes[at..at + 150].fill(0x5A);
    }
    disk.write_all(&file, &bytes).unwrap();
    disk
}

/// Returns the numbers of the rows that cannot be read by their keys.
fn lost(table: &Table) -> Vec<i64> {
    (0..ROWS).filter(|number| table.get(*number).is_err_and(|error| error.is_corruption())).collect()
}

/// Checks that the indexes are complete beside damaged rows, and refuse the title of every row.
fn assert_nothing_is_hidden(table: &Table) {
    let lost = lost(table);
    for number in 0..ROWS {
        let found = table.select().index("by_title").prefix(title(number)).count();
        match lost.contains(&number) {
            true => assert!(found.as_ref().is_err_and(|error| error.is_corruption()), "row {number}: {found:?}"),
            false => assert_eq!(found.unwrap(), 1, "row {number}"),
        }
        let refused = table.insert(row(number).with("number", 1000 + number)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exists, "row {number}: {refused}");
    }
    assert_complete(table, &lost);
}

/// Checks that the indexes answer with every row, or with an error for a row that cannot be read.
fn assert_complete(table: &Table, lost: &[i64]) {
    for index in ["by_title", "by_year"] {
        let (found, failed): (Vec<_>, Vec<_>) = table.select().index(index).rows().unwrap().partition(Result::is_ok);
        assert_eq!((found.len(), failed.len()), (ROWS as usize - lost.len(), lost.len()), "{index}");
        assert!(failed.into_iter().all(|row| row.unwrap_err().is_corruption()));
    }
}

/// Checks that the repair builds no index without the damaged rows.
fn assert_repair_refuses(table: &Table) {
    let error = table.repair_indexes().unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("the indexes stay as they were"), "{error}");
    assert!(error.store_error().and_then(waxseal::Error::damage).is_some_and(|damage| damage.key_range.is_some()));
}

/// Checks that the indexes have the rows that a scan returns, and no others.
fn assert_repaired(table: &Table) {
    assert_eq!(table.repair_indexes().unwrap(), 2);
    let report = table.verify_indexes().unwrap();
    assert!(report.is_clean(), "{report:?}");
    let rows = |rows: waxseal_table::Rows| {
        let mut rows: Vec<_> = rows.map(|row| row.unwrap().get("number").unwrap().as_i64().unwrap()).collect();
        rows.sort_unstable();
        rows
    };
    let all = rows(table.select().rows().unwrap());
    for index in ["by_title", "by_year"] {
        assert_eq!(rows(table.select().index(index).rows().unwrap()), all);
    }
}

#[test]
fn damaged_rows_keep_their_entries_until_the_loss_is_accepted() {
    let disk = damaged();
    let (tables, table) = open(&disk);
    let lost_count = lost(&table).len();
    assert!((3..30).contains(&lost_count), "{lost_count}");
    assert_nothing_is_hidden(&table);
    assert_repair_refuses(&table);
    tables.db().repair(RepairOptions::default()).unwrap();
    assert_repair_refuses(&table);
    tables.db().close().unwrap();
    drop((tables, table));

    let (tables, table) = open(&disk);
    assert_repair_refuses(&table);
    assert_nothing_is_hidden(&table);
    let lost = lost(&table);
    tables.db().repair(RepairOptions { accept_loss: true, ..RepairOptions::default() }).unwrap();
    // The entries of the lost rows are errors, not rows that the table never had.
    assert!(table.select().index("by_title").prefix(title(lost[0])).count().unwrap_err().is_corruption());
    assert_repaired(&table);
    assert_eq!(table.select().count().unwrap(), (ROWS as usize - lost.len()) as u64);
    table.insert(row(lost[0]).with("number", 1000)).unwrap();
}

#[test]
fn damaged_rows_that_are_deleted_or_written_again_are_in_repaired_indexes() {
    for is_repaired in [false, true] {
        let (tables, table) = open(&damaged());
        if is_repaired {
            tables.db().repair(RepairOptions::default()).unwrap();
        }
        let lost = lost(&table);
        let (first, last) = (lost[0] - 1, lost[lost.len() - 1] + 1);
        // One by one the rows are back, but others may have been among the damaged keys.
        lost.iter().for_each(|number| table.upsert(row(*number)).unwrap());
        assert_nothing_is_hidden(&table);
        assert!(lost.iter().all(|number| table.get(*number).unwrap() == Some(row(*number))));
        // The range is deleted as a whole, and written again.
        table.delete_range(Vec::<Value>::new(), first..=last).unwrap();
        assert_repaired(&table);
        let deleted: Vec<i64> = (0..ROWS).filter(|number| (first..=last).contains(number)).collect();
        assert_eq!(table.select().count().unwrap() as i64, ROWS - deleted.len() as i64);
        deleted.into_iter().for_each(|number| table.insert(row(number)).unwrap());
        assert_repaired(&table);
        assert_nothing_is_hidden(&table);
    }
}

#[test]
fn an_index_over_damaged_rows_is_not_created() {
    let (_tables, table) = open(&damaged());
    for index in [Index::on("by_text", ["text"]), Index::on("by_text", ["text"]).unique()] {
        assert!(table.create_index(index).unwrap_err().is_corruption());
        assert_eq!(table.select().index("by_text").rows().unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_nothing_is_hidden(&table);
}

#[test]
fn a_crash_in_a_repair_leaves_the_old_indexes_or_complete_new_ones() {
    for (base, is_damaged) in [(written().0, false), (damaged(), true)] {
        let disk = base.fork();
        let first = disk.steps();
        let (tables, table) = open(&disk);
        let opened = disk.steps();
        assert_eq!(table.repair_indexes().is_err(), is_damaged);
        drop((tables, table));
        let steps: Vec<u64> = disk.changing_steps().into_iter().filter(|step| (opened..).contains(step)).collect();
        assert!(steps.len() > 3 && opened > first, "{steps:?}");
        for (number, step) in steps.into_iter().enumerate() {
            let losses =
                [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
            let disk = base.fork();
            disk.crash_at(step);
            let (tables, table) = open(&disk);
            let _ = table.repair_indexes();
            drop((tables, table));
            disk.reboot(losses[number % losses.len()]);
            let (_tables, table) = open(&disk);
            let lost = lost(&table);
            assert_eq!(lost.is_empty(), !is_damaged);
            assert_complete(&table, &lost);
            match is_damaged {
                true => assert_repair_refuses(&table),
                false => assert_repaired(&table),
            }
            let schema = table.schema().unwrap();
            let public = schema.indexes().filter(|index| index.state() == IndexState::Public).count();
            assert_eq!((public, schema.indexes().count()), (2, 2), "step {step}");
        }
    }
}

/// Damages entries of a closed store.
fn damage_entries(disk: &SimFs) {
    let db = open_store(disk);
    db.column_family("waxseal_tables-1-indexes").unwrap().compact().unwrap();
    db.close().unwrap();
    let files = disk.files("/store").into_iter().filter(|name| name.ends_with(".tbl"));
    let newest = Path::new("/store").join(files.max().unwrap());
    let mut bytes = disk.read_all(&newest).unwrap();
    bytes[1200..1300].fill(0x5A);
    disk.write_all(&newest, &bytes).unwrap();
}

/// Checks that some entries can be read, and some cannot.
fn assert_entries_are_damaged(table: &Table) {
    let report = table.verify_indexes().unwrap();
    assert!((1..2 * ROWS as u64).contains(&report.entries), "{report:?}");
}

#[test]
fn damaged_entries_are_built_again_from_whole_rows() {
    let disk = written().0;
    damage_entries(&disk);
    let (tables, table) = open(&disk);
    assert_entries_are_damaged(&table);
    assert_repaired(&table);
    tables.db().repair(RepairOptions::default()).unwrap();
    assert_nothing_is_hidden(&table);
}

#[test]
fn rows_and_entries_that_are_both_damaged_are_restored_under_a_new_index() {
    let disk = damaged();
    damage_entries(&disk);
    let (_tables, table) = open(&disk);
    assert_entries_are_damaged(&table);
    let lost = lost(&table);
    assert_repair_refuses(&table);
    assert!(table.upsert(row(lost[0])).unwrap_err().is_corruption());
    for index in ["by_title", "by_year"] {
        table.drop_index(index).unwrap();
    }
    table.delete_range(Vec::<Value>::new(), lost[0] - 1..=lost[lost.len() - 1] + 1).unwrap();
    (0..ROWS).for_each(|number| table.upsert(row(number)).unwrap());
    table.create_index(Index::on("by_title", ["title"]).unique()).unwrap();
    table.create_index(Index::on("by_year", ["year"])).unwrap();
    assert_repaired(&table);
    assert_nothing_is_hidden(&table);
}
