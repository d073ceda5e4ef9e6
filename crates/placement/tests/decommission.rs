//! Nodes that leave, and the checks that nothing is missing.

#![expect(clippy::disallowed_methods, reason = "the tests move, damage and delete directories of stores")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use waxseal::registry::{Operation, Payload, Query, Target};
use waxseal::{Db, Durability};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_placement::{Error, ErrorKind, NodeState, Placement, Splits, Verification};
use waxseal_table::{ColumnType, Row, RowOptions, Schema, Table, Tables};

const TABLE: &str = "library.books";

/// Rows of the placement, and ranges of its table.
const ROWS: i32 = 120;
const RANGES: u32 = 12;

fn books() -> Schema {
    Schema::new().partition_key("id", ColumnType::I32).column("title", ColumnType::Text).hashed()
}

/// A row of half a kilobyte that no compression shortens much.
fn book(id: i32) -> Row {
    let mut state = u64::from(id.unsigned_abs()) + 1;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 33) as u8 % 90)
    };
    Row::new().with("id", id).with("title", (0..500).map(letter).collect::<String>())
}

fn durable() -> RowOptions {
    RowOptions::new().durability(Durability::Sync)
}

fn open(dir: &TempDir) -> Placement {
    Placement::open(dir.path().join("placement")).unwrap()
}

/// A placement of three nodes.
fn filled() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let placement = open(&dir);
    for node in ["n1", "n2", "n3"] {
        placement.add(node, dir.path().join(node)).unwrap();
    }
    let table = placement.create_table(TABLE, books(), &Splits::Even(RANGES)).unwrap();
    (0..ROWS).for_each(|id| table.insert(book(id)).unwrap());
    dir
}

/// The same, after `n1` has left.
fn left() -> TempDir {
    let dir = filled();
    open(&dir).decommission("n1").unwrap();
    dir
}

fn verify(dir: &TempDir) -> Verification {
    open(dir).verify_decommission("n1").unwrap()
}

fn state_of(placement: &Placement, node: &str) -> NodeState {
    placement.status().unwrap().nodes.into_iter().find(|status| status.id == node).unwrap().state
}

/// Returns the ranges that moved to a node, as text.
fn moved_to(dir: &TempDir, node: &str) -> Vec<String> {
    let moves = open(dir).moves().unwrap();
    moves.iter().filter(|moved| moved.destination == node).map(|moved| moved.span.to_string()).collect()
}

/// Returns the table files of a store.
fn table_files(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "tbl")).collect();
    assert!(!tables.is_empty(), "{}", directory.display());
    tables
}

/// Flushes all rows of a store to table files.
fn flush(directory: &Path) {
    let db = Db::open(directory).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

/// Changes one byte in the middle of a file.
fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xFF;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_node_leaves_and_nothing_is_missing() {
    let dir = filled();
    let placement = open(&dir);
    let table = placement.table(TABLE).unwrap();
    let done = placement.decommission("n1").unwrap();
    assert_eq!(done.moves.len(), 4);
    let status = placement.status().unwrap();
    let owned: Vec<(NodeState, u64)> = status.nodes.iter().map(|node| (node.state, node.ranges)).collect();
    assert_eq!(owned, [(NodeState::Left, 0), (NodeState::Live, 6), (NodeState::Live, 6)]);
    let found = placement.verify_decommission("n1").unwrap();
    assert_eq!((found.ranges, found.problems), (4, vec![]));
    assert!((1..ROWS as u64).contains(&found.records), "{}", found.records);
    let events = placement.registry().query_all(Target::Node("n1".to_owned()), Operation::NODE_DECOMMISSION).unwrap();
    assert_eq!(events.len(), 4);

    // The archive has the event log of the node, and no rows. The store of the node is closed.
    let leaver = Db::open(dir.path().join("n1")).unwrap();
    for store in [&leaver, &Db::open_read_only(&done.archive).unwrap()] {
        assert!(!store.registry().query_all("engine:store", "Engine.Checkpoint").unwrap().is_empty());
        let rows = Tables::open(store).unwrap().table(TABLE).unwrap().rows_family().name().to_owned();
        let levels = store.family_metrics(&rows).unwrap().levels;
        assert_eq!(levels.iter().map(|level| level.records).sum::<u64>(), 0);
    }
    drop(leaver);

    // Rows and checks need nothing of the node. Later changes of rows are no problem.
    std::fs::remove_dir_all(dir.path().join("n1")).unwrap();
    assert_eq!(table.select().rows().unwrap().map(Result::unwrap).count(), ROWS as usize);
    assert!((0..ROWS).all(|id| table.get(id).unwrap() == Some(book(id))));
    (0..ROWS / 2).for_each(|id| table.delete(id).unwrap());
    drop((placement, table));
    let later = verify(&dir);
    assert_eq!(later.problems, [""; 0]);
    assert!((1..found.records).contains(&later.records), "{}", later.records);
    let placement = open(&dir);
    let verified = placement.registry().query_all(Target::Node("n1".to_owned()), Operation::NODE_VERIFY).unwrap();
    assert_eq!(verified.len(), 2);

    // Another node leaves. Ranges of the first are now read where they have gone.
    placement.decommission("n2").unwrap();
    drop(placement);
    std::fs::remove_dir_all(dir.path().join("n2")).unwrap();
    let again = verify(&dir);
    assert_eq!((again.records, again.problems), (later.records, vec![]));
    let table = open(&dir).table(TABLE).unwrap();
    assert_eq!(table.select().rows().unwrap().map(Result::unwrap).count(), ROWS as usize / 2);
}

#[test]
fn a_decommission_that_cannot_run_changes_nothing() {
    let dir = filled();
    let refused = |placement: &Placement, node: &str| -> Error {
        let error = placement.decommission(node).unwrap_err();
        assert!(placement.status().unwrap().nodes.iter().all(|status| status.state == NodeState::Live));
        error
    };
    let other = Db::open(dir.path().join("n1")).unwrap();
    let error = refused(&open(&dir), "n1");
    assert!(error.kind() == ErrorKind::Locked && error.to_string().starts_with("node n1: "), "{error}");
    drop(other);
    assert_eq!(refused(&open(&dir), "n9").kind(), ErrorKind::NotFound);

    // The move cannot write beside the directory of its destination.
    let (placement, blocked) = (open(&dir), dir.path().join("n2.moves"));
    std::fs::write(&blocked, "").unwrap();
    let span = placement.status().unwrap().ranges.into_iter().find(|range| range.owner == "n1").unwrap().span;
    placement.move_range(&span, "n2").unwrap_err();
    for node in ["n1", "n2"] {
        let error = refused(&placement, node).to_string();
        let expected =
            format!("node {node}: the move of range {span} from node n1 to node n2 is not done: resume it first");
        assert_eq!(error, expected);
    }
    std::fs::remove_file(&blocked).unwrap();
    placement.resume().unwrap();

    // The last node has to stay.
    placement.decommission("n3").unwrap();
    placement.decommission("n1").unwrap();
    for node in ["n1", "n2", "n3"] {
        let error = placement.decommission(node).unwrap_err().to_string();
        let reason = if node == "n2" {
            "no other live node has an open store: the ranges of node n2 stay".to_owned()
        } else {
            format!("node {node} has left")
        };
        assert_eq!(error, reason);
    }
    assert_eq!(state_of(&placement, "n2"), NodeState::Live);
    assert_eq!(placement.verify_decommission("n9").unwrap_err().kind(), ErrorKind::NotFound);
    // The range that was moved before has an event as well.
    assert_eq!(placement.verify_decommission("n1").unwrap().problems, [""; 0]);
    assert_eq!(placement.table(TABLE).unwrap().select().rows().unwrap().count(), ROWS as usize);
}

#[test]
fn a_node_whose_store_is_not_open_gets_no_range() {
    let dir = filled();
    let [n2, n3, away] = ["n2", "n3", "away"].map(|name| dir.path().join(name));
    let others = [Db::open(&n2).unwrap(), Db::open(&n3).unwrap()];
    let error = open(&dir).decommission("n1").unwrap_err().to_string();
    assert_eq!(error, "no other live node has an open store: the ranges of node n1 stay");
    assert_eq!(state_of(&open(&dir), "n1"), NodeState::Live);
    drop(others);

    std::fs::rename(&n2, &away).unwrap();
    let done = open(&dir).decommission("n1").unwrap();
    assert!(done.moves.len() == 4 && done.moves.iter().all(|moved| moved.destination == "n3"));
    let problems = verify(&dir).problems;
    assert!(problems.len() == 4 && problems.iter().all(|problem| problem.contains(": node n2: ")), "{problems:?}");
    std::fs::rename(&away, &n2).unwrap();
    assert_eq!(verify(&dir).problems, [""; 0]);
}

#[test]
fn a_decommission_that_failed_is_continued() {
    let (dir, table) = (filled(), "library.films");
    let (placement, blocked) = (open(&dir), dir.path().join("n2.moves"));
    std::fs::write(&blocked, "").unwrap();
    placement.decommission("n1").unwrap_err();
    assert_eq!(state_of(&placement, "n1"), NodeState::Leaving);
    let found = placement.verify_decommission("n1").unwrap().problems;
    let status = placement.status().unwrap();
    assert!(found.contains(&"node n1 has not left: it is leaving".to_owned()), "{found:?}");
    let owned: Vec<String> =
        status.ranges.iter().filter(|range| range.owner == "n1").map(|range| range.span.to_string()).collect();
    assert_eq!(owned.len(), 4);
    for range in &owned {
        assert!(found.contains(&format!("range {range}: its owner is still node n1")), "{found:?}");
    }
    assert!(found.contains(&format!("range {}: the move to node n2 is not done", owned[0])), "{found:?}");

    // A leaving node gets no ranges, not even those of a new table.
    placement.create_table(table, books(), &Splits::Even(2)).unwrap().insert(book(1)).unwrap();
    let last = placement.status().unwrap().ranges.pop().unwrap().span;
    assert_eq!(placement.move_range(&last, "n1").unwrap_err().to_string(), "node n1 leaves or has left");
    drop(placement);
    std::fs::remove_file(&blocked).unwrap();
    let placement = open(&dir);
    let done = placement.decommission("n1").unwrap();
    assert_eq!(done.moves.len(), 4);
    assert_eq!(placement.verify_decommission("n1").unwrap().problems, [""; 0]);

    // The archive is part of the promise.
    drop(placement);
    std::fs::remove_dir_all(&done.archive).unwrap();
    let found = verify(&dir).problems;
    assert!(found.len() == 1 && found[0].starts_with("archive of node n1, "), "{found:?}");
}

#[test]
fn damage_of_a_new_owner_is_found_with_its_ranges() {
    let dir = left();
    flush(&dir.path().join("n2"));
    let (moved, others) = (moved_to(&dir, "n2"), moved_to(&dir, "n3"));
    assert_eq!(verify(&dir).problems, [""; 0]);
    let store = dir.path().join("n2");
    let proof = std::fs::read_dir(dir.path().join("n2.moves")).unwrap().next().unwrap().unwrap().path();
    let cases = [(&proof, false), (&proof, true), (&store, false), (&store, true)];
    for (directory, is_deleted) in cases {
        let mut copies = Vec::new();
        for file in table_files(directory) {
            let bytes = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap(); // its links in checkpoints stay
            if !is_deleted {
                std::fs::write(&file, &bytes).unwrap();
                flip(&file);
            }
            copies.push((file, bytes));
        }
        let found = verify(&dir).problems;
        let place = if directory == &proof { "checkpoint" } else { "node n2" };
        let is_named =
            |range: &String| found.iter().any(|problem| problem.starts_with(&format!("range {range}: {place}")));
        assert!(moved.iter().any(is_named), "{}: {found:?}", directory.display());
        assert!(!others.iter().any(is_named), "{}: {found:?}", directory.display());
        copies.into_iter().for_each(|(file, bytes)| std::fs::write(file, bytes).unwrap());
    }
}

#[test]
fn a_range_that_was_left_out_is_named() {
    let dir = left();
    let edit = |change: &dyn Fn(&Tables)| {
        let db = Db::open(dir.path().join("placement")).unwrap();
        change(&Tables::open(&db).unwrap());
        db.close().unwrap();
    };
    let moved = open(&dir).moves().unwrap().remove(1);
    let range = format!("range {}", moved.span);
    let ranges = |tables: &Tables| -> (Table, Row) {
        let table = tables.table("placement.ranges").unwrap();
        let start: String = moved.span.start.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = table.get((TABLE, start)).unwrap().unwrap();
        (table, row)
    };
    let set_owner = |owner: &str| {
        edit(&|tables| {
            let (table, mut row) = ranges(tables);
            row.set("owner", owner);
            table.upsert_with(row, durable()).unwrap();
        });
    };
    for (owner, problem) in [("n1", "its owner is still node n1"), ("n9", "its owner, node n9, is unknown")] {
        set_owner(owner);
        assert_eq!(verify(&dir).problems, [format!("{range}: {problem}")]);
    }
    set_owner(&moved.destination);
    assert_eq!(verify(&dir).problems, [""; 0]);

    // The recorded digest is another one than that of the checkpoint and of the log.
    let add_records = |change: i64| {
        edit(&|tables| {
            let moves = tables.table("placement.moves").unwrap();
            let mut row = moves.get(moved.number).unwrap().unwrap();
            let records = row.get("records").unwrap().as_i64().unwrap();
            row.set("records", (records + change) as u64);
            moves.upsert_with(row, durable()).unwrap();
        });
    };
    add_records(1);
    let problems = verify(&dir).problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(problems[0], format!("{range}: its Node.Decommission in the log differs from the recorded move"));
    assert!(problems[1].starts_with(&range) && problems[1].ends_with("another digest than the one recorded"));
    add_records(-1);

    // The log has no moves, and nobody owns the range.
    edit(&|tables| {
        let registry = tables.db().registry();
        registry.log_delete(&Query::of(Target::Node("n1".to_owned()))).unwrap();
        registry.log_add(Target::Node("n1".to_owned()), Operation::NODE_DECOMMISSION, None, Payload::new()).unwrap();
        let (table, row) = ranges(tables);
        table.delete((TABLE, row.get("start").unwrap().clone())).unwrap();
        tables.db().sync().unwrap();
    });
    let problems = verify(&dir).problems;
    assert_eq!(
        problems.iter().filter(|problem| problem.ends_with("the log has no Node.Decommission of it")).count(),
        4
    );
    for problem in [format!("{range} has no owner"), format!("{range}: it has no owner")] {
        assert!(problems.contains(&problem), "{problems:?}");
    }
}

/// Opens a placement on a simulated disk.
fn open_on(disk: &SimFs) -> Result<Placement, Error> {
    Placement::open_in("/placement", &disk.env(disk.steps() + 1))
}

fn ids(placement: &Placement) -> Vec<i64> {
    let rows = placement.table(TABLE).unwrap().select().rows().unwrap();
    rows.map(|row| row.unwrap().get("id").unwrap().as_i64().unwrap()).collect()
}

#[test]
fn a_decommission_that_was_killed_at_any_step_is_continued() {
    const CRASHES: usize = 24;
    let base = SimFs::new(11);
    let placement = open_on(&base).unwrap();
    for node in ["n1", "n2"] {
        placement.add(node, Path::new("/").join(node)).unwrap();
    }
    let table = placement.create_table(TABLE, books(), &Splits::Even(4)).unwrap();
    (0..20).for_each(|id| table.insert_with(book(id), durable()).unwrap());
    let expected = ids(&placement);
    drop((placement, table));
    base.settle();
    base.reboot(Crash::Process);

    let whole = base.fork();
    let placement = open_on(&whole).unwrap();
    let first = whole.steps();
    placement.decommission("n1").unwrap();
    let steps: Vec<u64> =
        whole.changing_steps().into_iter().filter(|step| (first..=whole.steps()).contains(step)).collect();
    drop(placement);
    assert!(steps.len() > CRASHES, "{} steps", steps.len());

    let mut interrupted = [0; 3];
    for (number, step) in steps.iter().copied().step_by(steps.len() / CRASHES).enumerate() {
        let losses = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })];
        let disk = base.fork();
        disk.crash_at(step);
        if let Ok(placement) = open_on(&disk) {
            let _ = placement.decommission("n1");
        }
        disk.reboot(losses[number % losses.len()]);

        let placement = open_on(&disk).unwrap();
        assert_eq!(ids(&placement), expected, "step {step}");
        let (state, found) = (state_of(&placement, "n1"), placement.verify_decommission("n1").unwrap());
        interrupted[state as usize] += 1;
        assert_eq!(found.is_clean(), state == NodeState::Left, "step {step}: {:?}", found.problems);
        for range in placement.status().unwrap().ranges.iter().filter(|range| range.owner == "n1") {
            let problem = format!("range {}: its owner is still node n1", range.span);
            assert!(found.problems.contains(&problem), "step {step}: {:?}", found.problems);
        }
        if state != NodeState::Left {
            placement.decommission("n1").unwrap();
        }
        let found = placement.verify_decommission("n1").unwrap();
        assert_eq!((found.ranges, found.problems), (2, vec![]), "step {step}");
        let target = Target::Node("n1".to_owned());
        assert_eq!(
            placement.registry().query_all(target, Operation::NODE_DECOMMISSION).unwrap().len(),
            2,
            "step {step}"
        );
        assert_eq!(ids(&placement), expected, "step {step}");
    }
    println!("interrupted while the node was live, leaving, gone: {interrupted:?}");
    assert!(interrupted[1] > CRASHES / 2, "{interrupted:?}");
}

/// A name that ends in a slash, as shells complete it, is the name without it.
#[test]
fn nothing_is_put_inside_of_the_directory_of_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let named = |name: &str| format!("{}/{name}/", dir.path().display());
    let placement = Placement::open(named("placement")).unwrap();
    for node in ["n1", "n2"] {
        placement.add(node, named(node)).unwrap();
    }
    let table = placement.create_table(TABLE, books(), &Splits::Even(2)).unwrap();
    table.insert(book(1)).unwrap();
    assert_eq!(placement.decommission("n1").unwrap().archive, dir.path().join("placement.archive/n1"));
    drop((table, placement));
    for store in ["n1", "n2", "placement"] {
        let mut entries = std::fs::read_dir(dir.path().join(store)).unwrap();
        assert!(entries.all(|entry| entry.unwrap().file_type().unwrap().is_file()), "{store}");
    }
    std::fs::remove_dir_all(dir.path().join("n1")).unwrap();
    assert_eq!(open(&dir).verify_decommission("n1").unwrap().problems, Vec::<String>::new());
}
