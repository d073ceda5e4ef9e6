//! The change feed: what it returns, what it keeps, and where it refuses to go on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Change, ChangeOperation, ChangeReach, Changes, Db, Parts};
use waxseal_lsm::env::sim::{Crash, Fault, Loss, SimFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::range_delete::encode_bounds;
use waxseal_lsm::record::Kind;
use waxseal_lsm::version::ChangePosition;
use waxseal_testing::protector::TestProtector;
use waxseal_testing::store::*;

const NAME: &str = "copy";

/// A follower in memory: the rows of each family, as far as changes were applied.
#[derive(Default, Debug, PartialEq, Eq, Clone)]
struct Mirror {
    families: BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Mirror {
    fn apply(&mut self, change: &Change) {
        let name = change.family.name.to_string();
        let rows = self.families.entry(name.clone()).or_default();
        match &change.operation {
            ChangeOperation::Put { key, value } => drop(rows.insert(key.clone(), value.clone())),
            ChangeOperation::Delete { key } => drop(rows.remove(key)),
            ChangeOperation::Merge { key, operand } => {
                let old = rows.get(key).map_or(0, |old| i64::from_le_bytes(old[..].try_into().unwrap()));
                let sum = old + i64::from_le_bytes(operand[..].try_into().unwrap());
                rows.insert(key.clone(), sum.to_le_bytes().to_vec());
            }
            ChangeOperation::DeleteRange { start, end } => rows.retain(|key, _| {
                start.as_ref().is_some_and(|start| key < start) || end.as_ref().is_some_and(|end| key >= end)
            }),
            ChangeOperation::DropFamily => drop(self.families.remove(&name)),
        }
    }

    /// Applies everything that is there now.
    fn catch_up(&mut self, changes: &mut Changes) -> Result<usize> {
        let mut count = 0;
        let mut last = true;
        while let Some(change) = changes.next()? {
            self.apply(&change);
            (count, last) = (count + 1, change.ends_commit);
        }
        assert!(last, "a commit came in part");
        Ok(count)
    }

    fn of(db: &Db) -> Mirror {
        let rows_of = |family| rows(db, family, At::Latest).unwrap().into_iter().collect::<BTreeMap<_, _>>();
        let mut families: BTreeMap<_, _> =
            db.families().iter().map(|family| (family.name().to_owned(), rows_of(family))).collect();
        families.retain(|_, rows| !rows.is_empty());
        Mirror { families }
    }

    fn check(&self, db: &Db) {
        let mut own = self.clone();
        own.families.retain(|_, rows| !rows.is_empty());
        assert!(own == Mirror::of(db), "{own:?}");
    }
}

fn follow(db: &Db, position: &ChangePosition) -> Changes {
    db.changes_since(position, ChangeReach::Visible).unwrap()
}

fn segments(sim: &SimFs) -> usize {
    sim.files("/store").iter().filter(|name| name.ends_with(".log")).count()
}

fn refused<T>(outcome: Result<T>) -> String {
    let error = outcome.map(drop).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutOfReach, "{error}");
    error.to_string()
}

#[test]
fn a_reader_returns_whole_commits_in_order_over_flushes_and_recycled_segments() {
    let (sim, dir) = sim(1);
    let db = open(&sim, &dir);
    fill(&db, 0..50, 0);
    let mut mirror = Mirror::of(&db);
    let mut changes = follow(&db, &db.change_position(ChangeReach::Visible).unwrap());
    assert!(changes.next().unwrap().is_none());
    for round in 1..6 {
        fill(&db, 0..600, round);
        delete(&db, &default(&db), b"key-0001").unwrap();
        let mut batch = Batch::new();
        for n in 0..10 {
            let (key, value) = record(n + 600, round);
            batch.push(0, Kind::Put, &key, &value, db.companions()).unwrap();
        }
        let last = db.commit(&mut batch, Durability::Os).unwrap();
        if round % 2 == 0 {
            db.settle().unwrap();
        }
        assert_eq!(mirror.catch_up(&mut changes).unwrap(), 611);
        assert_eq!(changes.position().seqno, last);
        mirror.check(&db);
    }
    assert!(segments(&sim) < 8, "{:?}", sim.files("/store"));
}

#[test]
fn a_cursor_keeps_the_log_over_closes_and_kills_until_it_moves() {
    let (sim, dir) = sim(2);
    let mut db = open(&sim, &dir);
    fill(&db, 0..30, 0);
    let mut mirror = Mirror::of(&db);
    let mut at = db.keep_log_for(NAME, None).unwrap();
    at.seqno = at.seqno.max(30);
    assert_eq!(db.keep_log_for(NAME, Some(&db.change_position(ChangeReach::Visible).unwrap())).unwrap().seqno, 30);
    for round in 1..9 {
        fill(&db, 0..400, round);
        if round % 3 == 0 {
            db.settle().unwrap();
        }
        if round % 2 == 0 {
            kill(&sim, db);
        } else {
            db.close().unwrap();
        }
        db = open(&sim, &dir);
        let cursor = &db.change_cursors()[0];
        assert_eq!((&cursor.name[..], cursor.position.seqno), (NAME, at.seqno));
        if round % 4 == 0 {
            let mut changes = follow(&db, &at);
            mirror.catch_up(&mut changes).unwrap();
            mirror.check(&db);
            at = db.keep_log_for(NAME, Some(&changes.position())).unwrap();
        }
    }
    let held = segments(&sim);
    db.settle().unwrap();
    assert!(segments(&sim) < held, "the cursor has moved to the end");
    db.drop_change_cursor(NAME).unwrap();
    db.settle().unwrap();
    assert_eq!(db.oldest_change_position(), None);
    assert!(refused(db.changes_since(&ChangePosition { seqno: 1, ..at }, ChangeReach::Visible)).contains("the oldest"));
}

#[test]
fn a_cut_tail_begins_a_history_that_earlier_positions_continue_in() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir);
    let durable = db.keep_log_for(NAME, None).unwrap();
    fill(&db, 0..20, 0);
    db.sync().unwrap();
    let mut mirror = Mirror::of(&db);
    let synced = db.change_position(ChangeReach::Durable).unwrap();
    fill(&db, 20..40, 0);
    let seen = db.change_position(ChangeReach::Visible).unwrap();
    assert!(synced.seqno < seen.seqno && synced.history == seen.history);
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Machine(Loss::DurableOnly));

    let db = open(&sim, &dir);
    assert_eq!(db.change_branch(), Some(synced));
    fill(&db, 50..60, 0);
    let error = refused(db.changes_since(&seen, ChangeReach::Visible));
    assert!(error.contains(&format!("behind seqno {}", synced.seqno)), "{error}");
    let mut changes = follow(&db, &synced);
    mirror.catch_up(&mut changes).unwrap();
    mirror.check(&db);
    let mut all = Mirror::default();
    all.catch_up(&mut follow(&db, &durable)).unwrap();
    all.check(&db);
    assert_ne!(changes.position().history, synced.history);
}

#[test]
fn a_reader_of_durable_changes_stops_at_the_last_sync_and_a_waiting_one_syncs() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir);
    let start = db.change_position(ChangeReach::Durable).unwrap();
    let mut changes = db.changes_since(&start, ChangeReach::Durable).unwrap();
    put(&db, &default(&db), b"a", b"1", Durability::Sync).unwrap();
    put(&db, &default(&db), b"b", b"2", Durability::Os).unwrap();
    let mut mirror = Mirror::default();
    assert_eq!(mirror.catch_up(&mut changes).unwrap(), 1);
    let change = changes.wait_next(Duration::from_secs(9)).unwrap().unwrap();
    assert_eq!(change.operation, ChangeOperation::Put { key: b"b".to_vec(), value: b"2".to_vec() });
    assert!(changes.wait_next(Duration::from_millis(3)).unwrap().is_none());
}

/// Large values of commits without a sync are in blob files, which collections remove.
#[test]
fn values_in_blob_files_stay_as_long_as_the_log_that_points_to_them() {
    let sim = SimFs::new(5);
    let open = || {
        let families = vec![("default".to_owned(), CfOptions { large_value_bytes: 100, ..options() })];
        let companions = Arc::new(TestProtector::default());
        Db::open(Path::new("/store"), settings(), Parts { families, companions, ..parts(sim.env(sim.steps())) })
            .unwrap()
    };
    let values = || sim.files("/store").iter().filter(|name| name.ends_with(".val")).count();
    let mut db = open();
    let at = db.keep_log_for(NAME, None).unwrap();
    for round in 0..4_u8 {
        for n in 0..40_u8 {
            put(&db, &default(&db), &[n], &vec![round ^ n; 500], Durability::Os).unwrap();
        }
        db.settle().unwrap();
        if round == 1 {
            kill(&sim, db);
            db = open();
        }
        if round == 2 {
            put(&db, &default(&db), b"last", &[round; 700], Durability::Os).unwrap();
            kill(&sim, db);
            db = open();
        }
    }
    let mut changes = follow(&db, &at);
    let (mut mirror, kept) = (Mirror::default(), values());
    assert_eq!(mirror.catch_up(&mut changes).unwrap(), 161);
    mirror.check(&db);
    db.keep_log_for(NAME, Some(&changes.position())).unwrap();
    drop(changes);
    db.settle().unwrap();
    assert!(values() < kept, "{} of {kept}", values());
    mirror.check(&db);
}

#[test]
fn drops_ranges_operands_and_ingested_rows_are_changes() {
    let (sim, dir) = sim(6);
    let db = open(&sim, &dir);
    let counter = CfOptions { merge_operator: Some(MergeOperator::add_i64()), ..options() };
    let counters = db.create_family("counters", counter).unwrap();
    let at = db.keep_log_for(NAME, None).unwrap();
    fill(&db, 0..100, 0);
    let mut batch = Batch::new();
    batch.push(counters.id(), Kind::Merge, b"n", &3_i64.to_le_bytes(), db.companions()).unwrap();
    batch.push(counters.id(), Kind::Merge, b"n", &4_i64.to_le_bytes(), db.companions()).unwrap();
    let end = encode_bounds(Some(b"key-0010"), Some(b"key-0020"));
    batch.push(0, Kind::RangeDelete, b"key-0010", &end, db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
    db.create_family("gone", options()).unwrap();
    put(&db, &db.family("gone").unwrap(), b"a", b"b", Durability::Os).unwrap();
    let load = |family: &str, round: usize| {
        db.bulk_load(&db.family(family).unwrap(), &mut |load| {
            (50..90).try_for_each(|n| {
                let (key, value) = record(n, round);
                load.push(Kind::Put, &key, &value, &[])
            })
        })
    };
    load("default", 7).unwrap();
    db.settle().unwrap();
    db.flush_ordered(&default(&db)).unwrap();
    load("gone", 8).unwrap();
    fill(&db, 60..65, 9);
    let mut mirror = Mirror::default();
    mirror.catch_up(&mut follow(&db, &at)).unwrap();
    mirror.check(&db);
    db.drop_family("gone").unwrap();
    db.compact(&default(&db), &ALL).unwrap();
    drop(db);
    let db = open(&sim, &dir);
    let mut mirror = Mirror::default();
    let mut changes = follow(&db, &at);
    mirror.catch_up(&mut changes).unwrap();
    mirror.check(&db);
    assert!(!mirror.families.contains_key("gone"));
    let tables = || sim.files(&dir).iter().filter(|name| name.ends_with(".tbl")).count();
    let kept = tables();
    db.keep_log_for(NAME, Some(&changes.position())).unwrap();
    drop(changes);
    db.settle().unwrap();
    assert!(tables() < kept, "{} of {kept} tables", tables());
}

/// Ingested rows are read in their family's order when the family is dropped, when a read-only store does not know it yet,
/// and after an open. A store without the order says which one it needs.
#[test]
fn ingestions_in_an_order_of_the_user_are_read_whatever_became_of_the_family() {
    let (sim, dir) = sim(12);
    let without_order = || Parts { orders: Vec::new(), ..parts(sim.env(sim.steps())) };
    let db = Db::open(&dir, settings(), without_order()).unwrap();
    let at = db.keep_log_for(NAME, None).unwrap();
    let reader = read_only(&sim, &dir).unwrap();
    let family = db.create_family("mine", CfOptions { order: backwards(), ..options() }).unwrap();
    db.bulk_load(&family, &mut |load| [b"b", b"a"].iter().try_for_each(|key| load.push(Kind::Put, *key, b"v", &[])))
        .unwrap();
    drop(family);
    db.sync().unwrap();
    let count = |db: &Db, reach| Mirror::default().catch_up(&mut db.changes_since(&at, reach).unwrap());
    assert_eq!(count(&db, ChangeReach::Visible).unwrap(), 2);
    assert_eq!(count(&reader, ChangeReach::Durable).unwrap(), 2);
    db.drop_family("mine").unwrap();
    db.sync().unwrap();
    assert_eq!(count(&db, ChangeReach::Visible).unwrap(), 3);
    assert_eq!(count(&reader, ChangeReach::Durable).unwrap(), 3);
    drop(reader);
    drop(db);
    assert_eq!(count(&open(&sim, &dir), ChangeReach::Visible).unwrap(), 3);
    let refused = count(&Db::open(&dir, settings(), without_order()).unwrap(), ChangeReach::Visible).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("test.backwards"), "{refused}");
}

#[test]
fn a_reader_beside_a_writer_follows_it_over_retired_segments_ingestions_and_opens() {
    let (sim, dir) = sim(11);
    let mut db = open(&sim, &dir);
    let at = db.keep_log_for(NAME, None).unwrap();
    let reader = read_only(&sim, &dir).unwrap();
    assert_eq!(reader.change_cursors().len(), 1);
    assert_kind(reader.changes_since(&at, ChangeReach::Visible), ErrorKind::Invalid, "commits in the ring alone");
    let mut changes = reader.changes_since(&at, ChangeReach::Durable).unwrap();
    let mut mirror = Mirror::default();
    for round in 0..6 {
        fill(&db, 0..300, round);
        if round % 2 == 0 {
            let family = db.family("new").map_or_else(|| db.create_family("new", options()), Ok).unwrap();
            let load =
                &mut |load: &mut waxseal_lsm::db::BulkLoad<'_>| load.push(Kind::Put, b"loaded", &[round as u8], &[]);
            db.bulk_load(&family, load).unwrap();
        }
        if round == 3 {
            db.drop_family("new").unwrap();
        }
        db.settle().unwrap();
        if round == 4 {
            fill(&db, 300..310, round);
            db.close().unwrap();
            db = open(&sim, &dir);
        }
        db.sync().unwrap();
        mirror.catch_up(&mut changes).unwrap();
        mirror.check(&db);
        put(&db, &default(&db), b"not durable", b"", Durability::Os).unwrap();
        assert!(changes.next().unwrap().is_none());
        delete(&db, &default(&db), b"not durable").unwrap();
    }
    assert_kind(reader.keep_log_for("own", None), ErrorKind::ReadOnly, "a cursor of a reader");
}

#[test]
fn a_cursor_beyond_its_bound_has_fallen_behind() {
    let (sim, dir) = sim(7);
    let settings = Settings { cursor_log_bytes: 100_000, ..settings() };
    let db = Db::open(&dir, settings, parts(sim.env(1))).unwrap();
    let at = db.keep_log_for(NAME, None).unwrap();
    let mut changes = follow(&db, &at);
    (0..12).for_each(|round| fill(&db, 0..400, round));
    db.settle().unwrap();
    let error = refused(db.changes_since(&at, ChangeReach::Visible));
    assert!(error.contains(&db.oldest_change_position().unwrap().to_string()), "{error}");
    refused(changes.next());
    let mut mirror = Mirror::default();
    mirror.catch_up(&mut follow(&db, &db.oldest_change_position().unwrap())).unwrap();
    assert!(mirror.families["default"].len() > 100);
    assert!(segments(&sim) < 6, "{:?}", sim.files("/store"));
}

#[test]
fn options_keep_log_without_a_cursor_and_nothing_is_kept_without_need() {
    let (sim, dir) = sim(8);
    let open = |keep_log_bytes| {
        let settings = Settings { keep_log_bytes, ..settings() };
        Db::open(&dir, settings, parts(sim.env(sim.steps()))).unwrap()
    };
    let db = open(200_000);
    let at = db.oldest_change_position().unwrap();
    fill(&db, 0..400, 0);
    db.close().unwrap();
    let db = open(200_000);
    let mut mirror = Mirror::default();
    mirror.catch_up(&mut follow(&db, &at)).unwrap();
    mirror.check(&db);
    db.close().unwrap();
    let kept = segments(&sim);
    open(0).close().unwrap();
    assert!(kept > 1 && segments(&sim) == 1, "{kept}");
}

#[test]
fn a_checkpoint_branches_where_its_commits_end() {
    let (sim, dir) = sim(9);
    let db = open(&sim, &dir);
    fill(&db, 0..10, 0);
    let at = db.keep_log_for(NAME, None).unwrap();
    fill(&db, 10..20, 0);
    let copied = db.change_position(ChangeReach::Visible).unwrap();
    db.checkpoint(Path::new("/copy")).unwrap();
    fill(&db, 20..30, 0);
    let later = db.change_position(ChangeReach::Visible).unwrap();
    let copy = open(&sim, Path::new("/copy"));
    assert_eq!(copy.change_branch(), Some(copied));
    assert!(copy.change_cursors().is_empty());
    let mut mirror = Mirror::of(&copy);
    mirror.catch_up(&mut follow(&db, &copy.change_branch().unwrap())).unwrap();
    mirror.check(&db);
    // Its own feed goes on from the branch, and refuses what it does not have.
    let mut changes = follow(&copy, &copied);
    fill(&copy, 40..45, 1);
    assert_eq!(Mirror::default().catch_up(&mut changes).unwrap(), 5);
    for position in [later, at] {
        refused(copy.changes_since(&position, ChangeReach::Visible));
    }
}

/// A reader beside the writer waits at the seqno of a job until a mark says what the job did.
#[test]
fn the_mark_of_a_failed_job_outlives_an_edit_that_fails() {
    let full = Fault::Error(std::io::ErrorKind::StorageFull);
    let seqno = |db: &Db| db.change_position(ChangeReach::Visible).unwrap().seqno;
    let mut read = 0;
    for (job_step, edit_step) in (0..30).flat_map(|job| (0..12).map(move |edit| (job, edit))) {
        let (sim, dir) = sim(12);
        let db = open(&sim, &dir);
        let at = db.keep_log_for(NAME, None).unwrap();
        fill(&db, 0..5, 0);
        let before = seqno(&db);
        sim.fail_at(sim.steps() + job_step, full);
        let loaded = db.bulk_load(&default(&db), &mut |load| load.push(Kind::Put, b"loaded", b"1", &[]));
        sim.clear_faults();
        if loaded.is_ok() || seqno(&db) == before {
            continue;
        }
        if put(&db, &default(&db), b"later", b"1", Durability::Os).is_err() {
            continue; // the fault halted the store
        }
        sim.fail_at(sim.steps() + edit_step, full);
        let _ = db.flush();
        sim.clear_faults();
        if db.flush().is_err() {
            continue; // this one did
        }
        let reader = read_only(&sim, &dir).unwrap();
        let mut changes = reader.changes_since(&at, ChangeReach::Durable).unwrap();
        let count = Mirror::default().catch_up(&mut changes).unwrap();
        assert_eq!(count, 6, "job fails at step {job_step}, edit at {edit_step}");
        read += 1;
    }
    assert!(read > 0);
}

/// Recovery replaces a log whose newest frames are in the ring alone, and blob files that only these frames name.
#[test]
fn a_recovery_that_crashes_at_any_step_keeps_what_a_cursor_needs() {
    let (sim, dir) = sim(13);
    let open = |sim: &SimFs| {
        let families = vec![("default".to_owned(), CfOptions { large_value_bytes: 100, ..options() })];
        Db::open(&dir, settings(), Parts { families, ..parts(sim.env(sim.steps())) })
    };
    let db = open(&sim).unwrap();
    let at = db.keep_log_for(NAME, None).unwrap();
    fill(&db, 0..60, 0);
    db.flush().unwrap();
    fill(&db, 30..90, 1);
    put(&db, &default(&db), b"large", &[7; 300], Durability::Sync).unwrap();
    kill(&sim, db);
    let steps = {
        let sim = sim.fork();
        let before = sim.steps();
        open(&sim).unwrap();
        sim.steps() - before
    };
    assert!(steps > 20, "{steps}");
    for step in 0..=steps {
        for loss in [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Random { seed: step })] {
            let sim = sim.fork();
            sim.crash_at(sim.steps() + step);
            drop(open(&sim));
            sim.reboot(loss);
            let db = open(&sim).unwrap();
            let mut mirror = Mirror::default();
            let count = mirror.catch_up(&mut follow(&db, &at)).unwrap();
            assert_eq!(count, 121, "crash at step {step} of the recovery");
            mirror.check(&db);
        }
    }
}

/// A damaged bit of a kept segment, of a kept blob file or of an ingested table is reported, or changes nothing.
#[test]
fn no_damaged_bit_of_what_is_kept_changes_a_change() {
    let (sim, dir) = sim(14);
    let open = |sim: &SimFs| {
        let families = vec![("default".to_owned(), CfOptions { large_value_bytes: 100, ..options() })];
        Db::open(&dir, settings(), Parts { families, ..parts(sim.env(sim.steps())) })
    };
    let read = |db: &Db, at: &ChangePosition| -> Result<Vec<String>> {
        let mut changes = db.changes_since(at, ChangeReach::Durable)?;
        std::iter::from_fn(|| changes.next().transpose()).map(|change| Ok(format!("{:?}", change?))).collect()
    };
    let db = open(&sim).unwrap();
    let at = db.keep_log_for(NAME, None).unwrap();
    fill(&db, 0..20, 0);
    put(&db, &default(&db), b"large", &[7; 300], Durability::Os).unwrap();
    let load = &mut |load: &mut waxseal_lsm::db::BulkLoad<'_>| load.push(Kind::Put, b"loaded", b"1", &[]);
    db.bulk_load(&default(&db), load).unwrap();
    put(&db, &default(&db), b"large", &[8; 300], Durability::Os).unwrap();
    delete(&db, &default(&db), b"loaded").unwrap();
    db.settle().unwrap();
    let whole = read(&db, &at).unwrap();
    db.close().unwrap();
    let (mut reported, mut flips) = (0, 0);
    for name in sim.files(&dir).into_iter().filter(|name| !name.starts_with("LOCK") && !name.ends_with(".ring")) {
        let bytes = sim.read_all(dir.join(&name)).unwrap();
        let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        for byte in used.iter().step_by(used.len() / 40 + 1) {
            let fork = sim.fork();
            fork.flip(dir.join(&name), *byte as u64 * 8 + *byte as u64 % 8).unwrap();
            flips += 1;
            match open(&fork).and_then(|db| read(&db, &at)) {
                Ok(found) => assert!(found == whole, "byte {byte} of {name}"),
                Err(_) => reported += 1,
            }
        }
    }
    assert!(reported > flips / 4, "{reported} of {flips}");
}

#[test]
fn positions_are_texts_and_impossible_ones_are_refused() {
    let (sim, dir) = sim(10);
    let db = open(&sim, &dir);
    let position = db.change_position(ChangeReach::Visible).unwrap();
    assert_eq!(position.to_string().parse::<ChangePosition>().unwrap(), position);
    for text in ["", "1", ":1", "zz:1", "00112233445566778899aabbccddeeff:", "00112233445566778899aabbccddeeff:-1"] {
        assert_kind(text.parse::<ChangePosition>(), ErrorKind::Invalid, text);
    }
    let ahead = ChangePosition { seqno: 99, ..position };
    assert_kind(db.changes_since(&ahead, ChangeReach::Visible), ErrorKind::Invalid, "ahead");
    refused(db.changes_since(&ChangePosition::default(), ChangeReach::Visible));
    for name in ["", "a\0b", &"x".repeat(256)] {
        assert_kind(db.keep_log_for(name, None), ErrorKind::Invalid, name);
    }
    assert_kind(db.drop_change_cursor("none"), ErrorKind::Invalid, "no such cursor");
}
