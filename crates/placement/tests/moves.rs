//! Moves of ranges: while they are read and written, after a crash at any step, and with a damaged copy.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use waxseal::Db;
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_placement::{ErrorKind, KeySpan, MoveStatus, MoveStep, Placement, RoutedTable, Splits};
use waxseal_table::{Changes, ColumnType, Row, RowOptions, Schema, Tables};

const TABLE: &str = "library.books";

/// Rows of two records each, of which some expire.
fn books() -> Schema {
    Schema::new().partition_key("id", ColumnType::I32).column("title", ColumnType::Text).column_in(
        "text",
        "contents",
        ColumnType::Text,
    )
}

fn book(id: i32, title: &str) -> Row {
    Row::new().with("id", id).with("title", title).with("contents", format!("contents of {title}"))
}

/// The range that moves: ids from 100 to before 200, of node `n1`.
fn create(placement: &Placement) -> RoutedTable {
    let splits = Splits::At(vec![vec![0.into()], vec![100.into()], vec![200.into()]]);
    placement.create_table(TABLE, books(), &splits).unwrap()
}

fn moving(placement: &Placement) -> KeySpan {
    let ranges = placement.status().unwrap().ranges;
    ranges.into_iter().map(|range| range.span).filter(|span| span.table == TABLE).nth(2).unwrap()
}

fn rows(table: &RoutedTable) -> Vec<Row> {
    table.select().rows().unwrap().map(|row| row.unwrap()).collect()
}

/// Returns the ids of the rows in the store of a node.
fn ids_in(tables: &Tables) -> Vec<i64> {
    let rows = tables.table(TABLE).unwrap();
    rows.select().rows().unwrap().map(|row| row.unwrap().get("id").unwrap().as_i64().unwrap()).collect()
}

fn in_directory(directory: &Path) -> Vec<i64> {
    ids_in(&Tables::open(&Db::open_read_only(directory).unwrap()).unwrap())
}

#[test]
fn a_range_moves_with_all_its_rows_and_leaves_the_old_owner() {
    let dir = tempfile::tempdir().unwrap();
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    for node in ["n1", "n2"] {
        placement.add(node, dir.path().join(node)).unwrap();
    }
    let table = create(&placement);
    for id in [-1, 0, 99, 100, 150, 199, 200] {
        table.insert(book(id, "first")).unwrap();
    }
    let expired = RowOptions::new().expires_in(Duration::from_micros(1));
    table.insert_with(book(160, "expired"), expired).unwrap();
    table.insert_with(book(170, "lasting"), RowOptions::new().expires_in(Duration::from_secs(3600))).unwrap();
    table.delete(150).unwrap();
    let before = rows(&table);
    assert_eq!(table.owner(150).unwrap(), "n1");

    let span = moving(&placement);
    let moved = placement.move_range(&span, "n2").unwrap();
    assert_eq!((moved.number, moved.step, moved.source.as_str()), (1, MoveStep::Done, "n1"));
    assert_eq!(moved.proved.unwrap().count, 6); // three rows of two records
    assert_eq!(table.owner(150).unwrap(), "n2");
    assert_eq!(rows(&table), before);
    assert_eq!(in_directory(&dir.path().join("n1")), [-1]);
    assert_eq!(in_directory(&dir.path().join("n2")), [0, 99, 100, 170, 199, 200]);
    assert_eq!(in_directory(&dir.path().join("n2.moves").join("1-proof")), [0, 99, 100, 170, 199, 200]);
    assert!(Db::open_read_only(dir.path().join("n1")).unwrap().change_cursors().is_empty());
    assert!(!dir.path().join("n1.moves").join("1-source").exists());

    table.upsert(book(150, "second")).unwrap();
    assert_eq!(placement.move_range(&span, "n1").unwrap().number, 2); // and back
    assert_eq!(in_directory(&dir.path().join("n1")), [-1, 100, 150, 170, 199]);
    let reopened = {
        drop((placement, table));
        Placement::open(dir.path().join("placement")).unwrap()
    };
    assert_eq!(reopened.table(TABLE).unwrap().owner(150).unwrap(), "n1");
    assert_eq!(reopened.moves().unwrap().len(), 2);
}

#[test]
fn refused_moves_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    placement.add("n1", dir.path().join("n1")).unwrap();
    create(&placement);
    let span = moving(&placement);
    let kind = |result: waxseal_placement::Result<MoveStatus>| result.unwrap_err().kind();
    assert_eq!(kind(placement.move_range(&span, "n1")), ErrorKind::Invalid);
    assert_eq!(kind(placement.move_range(&span, "n2")), ErrorKind::NotFound);
    let other = KeySpan { end: None, ..span };
    assert_eq!(kind(placement.move_range(&other, "n1")), ErrorKind::NotFound);
    assert!(placement.moves().unwrap().is_empty());
}

#[test]
fn reads_and_writes_go_on_during_moves() {
    const WRITERS: i32 = 2;
    const MOVES: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let placement = Placement::open(dir.path().join("placement")).unwrap();
    for node in ["n1", "n2"] {
        placement.add(node, dir.path().join(node)).unwrap();
    }
    let table = create(&placement);
    for id in 100..200 {
        table.insert(book(id, "0")).unwrap();
    }
    let (span, is_over, written) = (moving(&placement), AtomicBool::new(false), AtomicU64::new(0));
    let mut pauses = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (table, is_over, written) = (table.clone(), &is_over, &written);
            scope.spawn(move || {
                // Writers write different rows. A writer reads back its last write.
                for round in 1.. {
                    for id in (100..200).filter(|id| id % WRITERS == writer) {
                        match (id + round) % 5 {
                            0 => table.delete(id).unwrap(),
                            1 => drop(table.update(id, Changes::new().set("title", format!("{round}"))).unwrap()),
                            _ => table.upsert(book(id, &format!("{round}"))).unwrap(),
                        }
                        let found = table.get(id).unwrap();
                        let title = found.as_ref().map(|row| row.get("title").unwrap().as_str().unwrap().to_owned());
                        match (id + round) % 5 {
                            0 => assert_eq!(title, None, "{id} in round {round}"),
                            1 => assert!(title.is_none_or(|title| title == format!("{round}"))),
                            _ => assert_eq!(title, Some(format!("{round}")), "{id} in round {round}"),
                        }
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let (reader, over) = (table.clone(), &is_over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let ids = rows(&reader).iter().map(|row| row.get("id").unwrap().as_i64().unwrap()).collect::<Vec<_>>();
                assert!(ids.is_sorted() && ids.len() > 40, "{} rows", ids.len());
            }
        });
        for to in ["n2", "n1"].into_iter().cycle().take(MOVES) {
            let moved = placement.move_range(&span, to);
            if moved.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            pauses.push(moved.unwrap().paused.unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{} writes beside {MOVES} moves; writes paused {pauses:?}", written.into_inner());
    assert_eq!(in_directory(&dir.path().join("n2")).iter().filter(|id| (100..200).contains(*id)).count(), 0);
}

/// Opens the placement on a simulated disk.
fn open(disk: &SimFs) -> waxseal_placement::Result<Placement> {
    Placement::open_in("/placement", &disk.env(disk.steps() + 1))
}

/// Returns a disk with a placement of two nodes, whose rows are durable.
fn simulated() -> SimFs {
    let disk = SimFs::new(7);
    let placement = open(&disk).unwrap();
    for node in ["n1", "n2"] {
        placement.add(node, Path::new("/").join(node)).unwrap();
    }
    let table = create(&placement);
    let durable = || RowOptions::new().durability(waxseal::Durability::Sync);
    for id in [0, 100, 120, 140, 160, 180, 200] {
        table.insert_with(book(id, "first"), durable()).unwrap();
    }
    table.delete(140).unwrap();
    table.insert_with(book(199, "first"), durable()).unwrap();
    drop((table, placement));
    disk.settle();
    disk.reboot(Crash::Process);
    disk
}

/// A placement of before a move takes the old owner for the owner, and a node of before it lacks rows.
#[test]
fn stores_from_before_a_move_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let put = |from: &str, to: &str| Db::open(path(from)).unwrap().checkpoint(path(to)).unwrap();
    let placement = Placement::open(path("placement")).unwrap();
    for node in ["n1", "n2"] {
        placement.add(node, path(node)).unwrap();
    }
    let table = create(&placement);
    for id in [0, 100, 150, 200] {
        table.insert(book(id, "first")).unwrap();
    }
    drop((table, placement));
    for store in ["placement", "n1", "n2"] {
        put(store, &format!("{store}-before"));
    }
    let placement = Placement::open(path("placement")).unwrap();
    placement.move_range(&moving(&placement), "n2").unwrap();
    let expected = rows(&placement.table(TABLE).unwrap());
    drop(placement);

    let outdated = Placement::open(path("placement-before")).unwrap_err();
    assert_eq!(outdated.kind(), ErrorKind::Outdated);
    let message = "node n1: its store knows move 1, and the placement no move: restore a later backup";
    assert_eq!(outdated.to_string(), message);
    let status = Placement::open_read_only(path("placement-before")).unwrap().status().unwrap();
    assert_eq!(status.nodes[0].problem.as_deref(), Some(message));

    for (node, id) in [("n1", -1), ("n2", 150)] {
        let (before, after) = (format!("{node}-before"), format!("{node}-after"));
        put(node, &after);
        Db::destroy(path(node)).unwrap();
        put(&before, node);
        let placement = Placement::open(path("placement")).unwrap();
        let error = placement.table(TABLE).unwrap().get(id).unwrap_err().to_string();
        assert!(error.starts_with(&format!("node {node}: its store is older than move 1")), "{error}");
        drop(placement);
        Db::destroy(path(node)).unwrap();
        put(&after, node);
        let placement = Placement::open(path("placement")).unwrap();
        assert_eq!(rows(&placement.table(TABLE).unwrap()), expected);
    }
}

/// Opens the placement after a crash, and returns the one move that was begun, if it was.
fn reopened(disk: &SimFs) -> (Placement, RoutedTable, Option<MoveStatus>) {
    let placement = open(disk).unwrap();
    let (table, begun) = (placement.table(TABLE).unwrap(), placement.moves().unwrap().pop());
    (placement, table, begun)
}

/// Runs the move until a crash at a step of the disk.
fn crashed_at(base: &SimFs, step: u64, crash: Crash) -> SimFs {
    let disk = base.fork();
    disk.crash_at(step);
    if let Ok(placement) = open(&disk) {
        let _ = placement.move_range(&moving(&placement), "n2");
    }
    disk.reboot(crash);
    disk
}

/// Returns the steps of the disk at which the move changes something.
fn steps_of_a_move(base: &SimFs) -> Vec<u64> {
    let disk = base.fork();
    let placement = open(&disk).unwrap();
    let first = disk.steps();
    placement.move_range(&moving(&placement), "n2").unwrap();
    let last = disk.steps();
    drop(placement);
    disk.changing_steps().into_iter().filter(|step| (first..=last).contains(step)).collect()
}

#[test]
fn a_move_that_was_killed_at_any_step_is_continued() {
    const CRASHES: usize = 40;
    const STEPS: [MoveStep; 5] =
        [MoveStep::Planned, MoveStep::Copied, MoveStep::Proved, MoveStep::Switched, MoveStep::Done];
    let base = simulated();
    let expected = rows(&reopened(&base.fork()).1);
    let steps = steps_of_a_move(&base);
    assert!(steps.len() > CRASHES, "{} steps", steps.len());
    let mut interrupted = [0; STEPS.len()];
    for (number, step) in steps.iter().copied().step_by(steps.len() / CRASHES).enumerate() {
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        let disk = crashed_at(&base, step, losses[number % losses.len()]);
        let (placement, table, begun) = reopened(&disk);
        assert_eq!(rows(&table), expected, "step {step}");
        let begun = begun.map(|begun| begun.step);
        if let Some(begun) = begun.and_then(|begun| STEPS.iter().position(|step| *step == begun)) {
            interrupted[begun] += 1;
        }
        // The move goes on after writes to either owner.
        let span = moving(&placement);
        table.upsert(book(110, "meanwhile")).unwrap();
        table.delete(160).unwrap();
        let resumed = placement.resume().unwrap();
        assert_eq!(resumed.len(), usize::from(begun.is_some_and(|begun| begun != MoveStep::Done)), "step {step}");
        if table.owner(110).unwrap() == "n1" {
            placement.move_range(&span, "n2").unwrap();
        }
        let ids: Vec<i64> = rows(&table).iter().map(|row| row.get("id").unwrap().as_i64().unwrap()).collect();
        assert_eq!(ids, [0, 100, 110, 120, 180, 199, 200], "step {step}");
        drop((placement, table));
        let ids = |node: &str| {
            let db = Db::builder(node).env(disk.env(1)).open().unwrap();
            assert!(db.change_cursors().is_empty());
            ids_in(&Tables::open(&db).unwrap())
        };
        assert_eq!((ids("/n1"), ids("/n2")), (vec![], vec![0, 100, 110, 120, 180, 199, 200]), "step {step}");
    }
    println!("interrupted when the last step was planned, copied, proved, switched, done: {interrupted:?}");
    assert!(interrupted[..4].iter().all(|crashes| *crashes > 0), "{interrupted:?}");
}

/// Returns a disk on which the move was killed after a step.
fn killed_after(wanted: MoveStep) -> SimFs {
    let base = simulated();
    for step in steps_of_a_move(&base).into_iter().step_by(9) {
        let disk = crashed_at(&base, step, Crash::Process);
        if reopened(&disk.fork()).2.is_some_and(|begun| begun.step == wanted) {
            return disk;
        }
    }
    panic!("no crash after the step {}", wanted.word());
}

#[test]
fn a_copy_that_differs_is_not_switched_to_and_is_made_again() {
    for step in [MoveStep::Copied, MoveStep::Proved] {
        let disk = killed_after(step);
        let db = Db::builder("/n2").env(disk.env(1)).open().unwrap();
        Tables::open(&db).unwrap().table(TABLE).unwrap().delete(180).unwrap(); // a record that is lost
        drop(db);
        let (placement, table, _) = reopened(&disk);
        let error = placement.resume().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unproved);
        let range = moving(&placement).to_string();
        assert!(error.to_string().starts_with(&format!("range {range}: the copy on node n2 differs")), "{error}");
        assert_eq!((table.owner(180).unwrap().as_str(), table.get(180).unwrap().is_some()), ("n1", true));
        let to_another = placement.move_range(&moving(&placement), "n1").unwrap_err();
        assert_eq!(to_another.kind(), ErrorKind::Invalid);
        assert_eq!(placement.resume().unwrap().len(), 1);
        assert_eq!((table.owner(180).unwrap().as_str(), table.get(180).unwrap().is_some()), ("n2", true));
    }
}
