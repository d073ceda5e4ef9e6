//! A crash at every step of every operation. Afterwards each operation is done or not done.

use waxseal::Db;
use waxseal::registry::{Mode, RegisterOptions, Target, Values};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_table::{
    Alteration, Certificate, Changes, ColumnState, ColumnType, ErrorKind, Index, PurgedEvents, Result, Row, Schema,
    Table, Tables,
};

use crate::store::{book, books, volumes};

/// The value of the column that is dropped.
const TITLE: &str = "7Qk-title-x0Z";

type Operation = (&'static str, fn(&Tables) -> Result<()>);

/// Every operation that writes. Each is done or not done.
const OPERATIONS: &[Operation] = &[
    ("create", |tables| tables.create("library.books", books()).map(drop)),
    ("create with groups", |tables| tables.create("corpus.volumes", volumes()).map(drop)),
    ("insert one record", |tables| tables.table("library.books")?.insert(book("Austen", 1815, "Emma"))),
    ("insert records", |tables| tables.table("corpus.volumes")?.insert(volume("1", 2))),
    ("upsert fewer records", |tables| tables.table("corpus.volumes")?.upsert(volume("1", 1))),
    ("insert another", |tables| tables.table("corpus.volumes")?.insert(volume("2", 3))),
    ("delete records", |tables| tables.table("corpus.volumes")?.delete("2")),
    ("delete one record", |tables| tables.table("library.books")?.delete(("Austen", 1815))),
    ("update", |tables| {
        let changes = Changes::new().set("title", TITLE).set_entry("pages", "0", "contents", "b").remove("label");
        tables.table("corpus.volumes")?.update("1", changes).map(drop)
    }),
    ("alter", |tables| tables.table("corpus.volumes")?.alter(Alteration::new().add_column("genre", ColumnType::Text))),
    ("drop a column", |tables| tables.table("corpus.volumes")?.drop_column("title")),
    ("drop it for good", |tables| tables.table("corpus.volumes")?.drop_column("title")),
    ("purge it", |tables| tables.table("corpus.volumes")?.purge_columns().map(drop)),
    ("certify it", |tables| tables.table("corpus.volumes")?.certificate("title").map(drop)),
    ("transaction", |tables| {
        let (books, volumes) = (tables.table("library.books")?, tables.table("corpus.volumes")?);
        tables.transact(|transaction| {
            transaction.insert(&books, book("Shelley", 1818, "Frankenstein"))?;
            transaction.delete(&volumes, "1")
        })
    }),
    ("rename", |tables| tables.rename("library.books", "archive.books")),
    ("truncate", |tables| tables.table("archive.books")?.truncate()),
    ("drop", |tables| tables.drop("corpus.volumes")),
    ("create again", |tables| tables.create("corpus.volumes", volumes()).map(drop)),
];

fn volume(name: &str, pages: usize) -> Row {
    let row = Row::new().with("volume", name).with("zip", vec![7u8; 3000]).with("label", 1);
    (0..pages).fold(row, |row, page| row.with_entry("pages", &page.to_string(), "contents", "text"))
}

/// Everything that a caller can see.
fn state(tables: &Tables) -> Vec<(String, Vec<Row>)> {
    let rows = |name: &String| {
        let table = tables.table(name).unwrap();
        table.select().rows().unwrap().map(Result::unwrap).collect()
    };
    tables.names().unwrap().iter().map(|name| (name.clone(), rows(name))).collect()
}

fn open(disk: &SimFs) -> Result<Tables> {
    let db = Db::builder("/store").env(disk.env(disk.steps() + 1)).tune(|settings| {
        settings.memtable_bytes = 64 * 1024;
        settings.segment_bytes = 64 * 1024;
        settings.ring_bytes = 32 * 1024;
        settings.drain_bytes = 8 * 1024;
    });
    Tables::open(&db.open()?)
}

/// Runs the operations until the crash. Returns how many were done before it.
fn run(tables: &Tables, disk: &SimFs) -> usize {
    let is_done = |(name, operation): &&Operation| match operation(tables) {
        // A store to mapped memory does not fail: the dead process would never have seen this answer.
        Ok(()) if disk.is_crashed() => false,
        Ok(()) => true,
        Err(error) => {
            assert!(error.store_error().is_some(), "{name}: {error:?}");
            false
        }
    };
    OPERATIONS.iter().take_while(is_done).count()
}

/// Ends a purge that the crash has interrupted. Afterwards no file has a value of the column, its name is free, and a
/// certificate that was issued before or after the crash is true.
fn finish_purge(tables: &Tables, disk: &SimFs, step: u64) {
    let Ok(table) = tables.table("corpus.volumes") else { return };
    let schema = table.schema().unwrap();
    if schema.dropped_columns().any(|column| column.state() == ColumnState::Purging) {
        let report = table.purge_columns().unwrap();
        assert_eq!((report.columns, report.held), (vec!["title".to_owned()], vec![]), "step {step}");
        assert_eq!(table.schema().unwrap().dropped_columns().count(), 0);
    }
    if !table.purged_columns().unwrap().is_empty() {
        certify(&table, disk, step);
    }
}

/// Issues a certificate, which is true afterwards.
fn certify(table: &Table, disk: &SimFs, step: u64) -> Certificate {
    let set_aside: Vec<String> = disk.files("/store").into_iter().filter(|name| name.ends_with(".cut")).collect();
    if table.purged_columns().unwrap()[0].certified_at().is_none() && !set_aside.is_empty() {
        let error = table.certificate("title").unwrap_err();
        assert!(error.kind() == ErrorKind::InUse && error.to_string().contains(".cut"), "step {step}: {error}");
        set_aside.iter().for_each(|name| disk.delete(std::path::Path::new("/store").join(name)).unwrap());
    }
    let certificate = table.certificate("title").unwrap_or_else(|error| panic!("step {step}: {error}"));
    for name in disk.files("/store") {
        let bytes = disk.read_all(std::path::Path::new("/store").join(&name)).unwrap();
        assert!(!bytes.windows(TITLE.len()).any(|window| window == TITLE.as_bytes()), "step {step}: {name}");
    }
    certificate
}

/// Returns a disk with a table whose column `title` is purged, and whose events show its values.
fn with_events() -> SimFs {
    let disk = SimFs::new(11);
    let tables = open(&disk).unwrap();
    let schema = ["title", "note"]
        .into_iter()
        .fold(Schema::new().partition_key("id", ColumnType::I32), |schema, name| schema.column(name, ColumnType::Text));
    let table = tables.create("corpus.volumes", schema.index(Index::on("by_title", ["title"]))).unwrap();
    for (family, mode) in [("waxseal_tables-1-rows", Mode::Sync), ("waxseal_tables-1-indexes", Mode::Deferred)] {
        let values = if mode == Mode::Sync { Values::OldNew } else { Values::New };
        let options = RegisterOptions { mode, values, ..RegisterOptions::suited(&Target::family(family), None) };
        tables.db().registry().register_with(family, "*", options).unwrap();
    }
    for id in 0..3 {
        table.insert(Row::new().with("id", id).with("title", format!("{TITLE}{id}")).with("note", "n")).unwrap();
    }
    table.update(1, Changes::new().set("note", "later")).unwrap();
    table.delete(2).unwrap();
    (0..2).for_each(|_| table.drop_column("title").unwrap());
    assert_eq!(table.purge_columns().unwrap().columns, ["title"]);
    drop((table, tables));
    disk.settle();
    disk.reboot(Crash::Process);
    disk
}

#[test]
fn a_purge_of_events_is_ended_after_a_crash_at_any_step() {
    let base = with_events();
    let disk = base.fork();
    let first = disk.steps();
    let purge = |tables: &Tables| -> Result<PurgedEvents> {
        let table = tables.table("corpus.volumes")?;
        let events = table.purge_events("title")?;
        table.certificate("title")?;
        Ok(events)
    };
    let whole = purge(&open(&disk).unwrap()).unwrap();
    // Three rows were inserted with their entries; an update and a delete have the record before, and a delete an entry.
    assert_eq!((whole.changed(), whole.removed()), (5, 4));
    let steps: Vec<u64> = disk.changing_steps().into_iter().filter(|step| *step >= first).collect();
    assert!(steps.len() > 20, "{} steps", steps.len());
    for (number, step) in steps.into_iter().enumerate() {
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        let crash = losses[number % losses.len()];
        let disk = base.fork();
        disk.crash_at(step);
        let _ = open(&disk).and_then(|tables| purge(&tables));
        disk.reboot(crash);
        let tables = open(&disk).unwrap();
        let table = tables.table("corpus.volumes").unwrap();
        let events = table.purge_events("title").unwrap_or_else(|error| panic!("step {step}, {crash:?}: {error}"));
        assert_eq!((events.changed(), events.removed()), (5, 4), "step {step}, {crash:?}");
        assert_eq!(certify(&table, &disk, step).events(), Some(&events), "step {step}, {crash:?}");
    }
}

#[test]
fn each_operation_is_done_or_not_done_after_a_crash() {
    let base = SimFs::new(7);
    drop(open(&base).unwrap());
    base.settle();
    base.reboot(Crash::Process);
    let disk = base.fork();
    let first = disk.steps();
    let tables = open(&disk).unwrap();
    let mut states = vec![state(&tables)];
    for (name, operation) in OPERATIONS {
        operation(&tables).unwrap_or_else(|error| panic!("{name}: {error}"));
        states.push(state(&tables));
    }
    drop(tables);
    let disk = base.fork();
    let tables = open(&disk).unwrap();
    assert_eq!(run(&tables, &disk), OPERATIONS.len());
    let steps: Vec<u64> = disk.changing_steps().into_iter().filter(|step| *step >= first).collect();
    assert!(steps.len() > 50, "{} steps", steps.len());
    drop(tables);
    for (number, step) in steps.into_iter().enumerate() {
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        let crash = losses[number % losses.len()];
        let disk = base.fork();
        disk.crash_at(step);
        let done = match open(&disk) {
            Ok(tables) => run(&tables, &disk),
            Err(_) => 0,
        };
        disk.reboot(crash);
        let tables = open(&disk).unwrap();
        let found = state(&tables);
        let possible = &states[..states.len().min(done + 2)];
        let place = possible.iter().rposition(|state| *state == found);
        let place = place.unwrap_or_else(|| panic!("step {step}, {crash:?}: no state up to {done}: {found:?}"));
        finish_purge(&tables, &disk, step);
        let is_kept = crash != Crash::Process || states[done..].contains(&found);
        assert!(is_kept, "step {step}: state {place} after {done} operations");
        // No family is left of a table that does not exist.
        let of_tables = tables.db().column_families().into_iter().filter(|cf| cf.name().starts_with("waxseal_tables-"));
        assert_eq!(of_tables.count(), 2 * found.len(), "step {step}, {crash:?}");
        tables.create("after.wards", books()).unwrap();
    }
}
