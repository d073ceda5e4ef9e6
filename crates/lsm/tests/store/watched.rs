//! The event log of the engine's own work, and versions retained for later reads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db, Parts, RecordPlace, Replacement};
use waxseal_lsm::env::Env;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::{ErrorKind, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::{CfOptions, Durability, Settings, Verify};
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Check, Plain};
use waxseal_testing::above::Over;
use waxseal_testing::scribe::{LINES, Retaining, Scribe, check_lines, lines, retains};
use waxseal_testing::store::*;

fn watched(env: Env) -> Parts {
    let system = CfOptions { system: Some(LINES.1), ..options() };
    let mut parts = parts(env);
    parts.families.push((LINES.0.to_owned(), system));
    parts.companions = Arc::new(Over(Retaining(Arc::new(Plain))));
    parts.engine_log = Some(Arc::new(Scribe));
    parts
}

fn open_watched(sim: &SimFs, dir: &Path, chronicle_lines: usize) -> Db {
    let settings = Settings { chronicle_lines, ..settings() };
    Db::open(dir, settings, watched(sim.env(sim.steps()))).unwrap()
}

/// Returns the jobs in the entries after a number, without seqnos and tables.
fn engine_events(db: &Db, behind: u64) -> Vec<String> {
    let engine_event = |(_, line): (u64, String)| line.split(' ').next().unwrap().to_owned();
    lines(db).unwrap().into_iter().filter(|(number, _)| *number > behind).map(engine_event).collect()
}

/// Returns a value that the record protector retains, or one that it does not retain.
fn value(retained: bool, n: usize) -> Vec<u8> {
    let values = (n * 1000..).map(|n| n.to_string().into_bytes());
    values.into_iter().find(|value| retains(Kind::Put, b"", value) == retained).unwrap()
}

#[test]
fn every_work_leaves_its_line_and_reading_opening_and_closing_none() {
    let (sim, dir) = sim(1);
    let db = open_watched(&sim, &dir, 4096);
    let users = db.create_family("users", options()).unwrap();
    let (mut seen, mut told) = (0, Vec::new());
    let mut tell = |db: &Db| {
        let engine_events = engine_events(db, seen);
        seen += engine_events.len() as u64;
        told.push(engine_events.join(" "));
        check_lines(db, &format!("after {told:?}")).unwrap();
    };
    tell(&db);
    fill(&db, 0..40, 0);
    db.flush().unwrap();
    tell(&db);
    db.flush().unwrap(); // nothing to do
    fill(&db, 0..40, 1);
    db.flush().unwrap();
    db.compact(&default(&db), &ALL).unwrap();
    tell(&db);
    let table = db.tables(&default(&db)).unwrap()[0].meta().number;
    db.quarantine_tables(&default(&db), &[table]).unwrap();
    db.free_tables(&default(&db), &[table]).unwrap();
    tell(&db);
    let lost_range = LostRange {
        from: (b"x".to_vec(), 9),
        to: (b"y".to_vec(), 0),
        bound: 9,
        file: "000001.tbl".into(),
        offset: 64,
        verdict: Verdict::Seal,
    };
    db.add_lost_ranges(&default(&db), vec![lost_range.clone(), lost_range]).unwrap();
    let numbers: Vec<u64> = db.lost_ranges(&default(&db)).iter().map(|(number, _)| *number).collect();
    db.lift_lost_ranges(&default(&db), &numbers).unwrap();
    tell(&db);
    put(&db, &users, b"k", b"v", Durability::Os).unwrap();
    db.ingest(&users, &mut || Ok(Box::new(db.tables(&default(&db))?[0].table()?.cursor(false)))).unwrap();
    tell(&db);
    put(&db, &users, b"k", b"w", Durability::Os).unwrap();
    db.drop_family("users").unwrap();
    tell(&db);
    let held = db.hold_tables(&default(&db), &[table]).unwrap().unwrap();
    let nothing = Replacement {
        records: None,
        expected: Ledger::default(),
        summed: true,
        base_seqno: 0,
        fenced: Vec::new(),
        lifted: Vec::new(),
    };
    held.replace(nothing).unwrap();
    tell(&db);
    db.checkpoint(Path::new("/copy")).unwrap();
    db.note(b"Noted 1".to_vec()).unwrap();
    tell(&db);
    let copy = Db::open(Path::new("/copy"), settings(), watched(sim.env(99))).unwrap();
    assert_eq!(engine_events(&copy, 0).last().unwrap(), "Checkpointed");
    check_lines(&copy, "the copy").unwrap();
    fill(&db, 0..3, 2);
    kill(&sim, db);
    let db = open_watched(&sim, &dir, 4096);
    tell(&db);
    db.close().unwrap();
    let db = open_watched(&sim, &dir, 4096);
    rows(&db, &default(&db), At::Latest).unwrap();
    db.settle().unwrap();
    tell(&db);
    let expected = [
        "",
        "Flushed",
        "Flushed Compacted",
        "Barred Freed",
        "Fenced Fenced Lifted Lifted",
        "Flushed Ingested",
        "Dropped",
        "Replaced",
        "Checkpointed Noted",
        "Recovered",
        "",
    ];
    assert_eq!(told, expected, "{:#?}", lines(&db).unwrap());
}

#[test]
fn the_oldest_lines_become_rows_and_numbers_go_on() {
    let (sim, dir) = sim(2);
    for round in 0..6 {
        let db = open_watched(&sim, &dir, 10);
        for n in 0..7 {
            db.note(format!("Noted 1 {round} {n}").into_bytes()).unwrap();
        }
        assert_eq!(*db.note(vec![0; (1 << 20) + 1]).unwrap_err().kind(), ErrorKind::Invalid);
        fill(&db, 0..5, round);
        db.flush().unwrap();
        db.settle().unwrap();
        check_lines(&db, "after a flush").unwrap();
        assert!(db.engine_log().len() <= 18, "{}", db.engine_log().len());
        let beside = Db::open_read_only(&dir, settings(), watched(sim.env(5))).unwrap();
        assert_eq!(lines(&beside).unwrap(), lines(&db).unwrap());
        assert_eq!(*beside.note(Vec::new()).unwrap_err().kind(), ErrorKind::ReadOnly);
        db.close().unwrap();
    }
    // A store without an event log implementation leaves the entries unchanged.
    let plain = Db::open(&dir, settings(), Parts { engine_log: None, ..watched(sim.env(7)) }).unwrap();
    let before = lines(&plain).unwrap();
    fill(&plain, 0..5, 9);
    plain.flush().unwrap();
    assert_eq!((lines(&plain).unwrap(), before.len() > 42), (before, true));
}

/// An entry is in the event log, or in the rows read afterwards.
#[test]
fn no_line_is_missing_while_lines_become_rows() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { chronicle_lines: 4, ..settings() };
    let db = Db::open(dir.path(), settings, watched(Env::real())).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..40 {
                fill(&db, 0..20, round);
                db.flush().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let lines = lines(&db).unwrap();
            assert!(lines.keys().copied().eq(1..=lines.len() as u64), "{:?}", lines.keys());
        }
    });
    db.settle().unwrap();
    check_lines(&db, "settled").unwrap();
    assert!(db.engine_log().len() < lines(&db).unwrap().len());
}

/// Returns a version as `get_before` shows it: seqno, and value (`None` for a tombstone).
fn before(db: &Db, key: &[u8], seqno: u64) -> Option<(u64, Option<Vec<u8>>)> {
    let mut found = None;
    let mut see = |record: &Record<'_>| {
        found = Some((record.seqno, (record.kind == Kind::Put).then(|| record.value.to_vec())));
    };
    let any = db.get_before(&default(db), key, seqno, Verify::Always, &mut see).unwrap();
    assert_eq!(any, found.is_some());
    found
}

#[test]
fn what_was_there_before_a_retained_version_is_there() {
    let (sim, dir) = sim(3);
    let db = open_watched(&sim, &dir, 4096);
    let family = default(&db);
    let step = |retained: bool, n: usize| {
        let value = value(retained, n);
        (put(&db, &family, b"key", &value, Durability::Os).unwrap(), value)
    };
    let (first, _) = step(false, 1);
    let (second, old) = step(false, 2);
    let (third, new) = step(true, 3);
    let (fourth, now) = step(false, 4);
    let check = |db: &Db, settled: bool| {
        assert_eq!(get(db, &default(db), b"key", At::Latest).unwrap().as_ref(), Some(&now));
        assert_eq!(before(db, b"key", fourth), Some((third, Some(new.clone()))));
        assert_eq!(before(db, b"key", third), Some((second, Some(old.clone()))));
        assert_eq!(before(db, b"key", second).map(|(seqno, _)| seqno), (!settled).then_some(first));
        assert_eq!((before(db, b"key", 0), before(db, b"kex", fourth)), (None, None));
    };
    check(&db, false);
    db.settle().unwrap();
    db.compact(&family, &ALL).unwrap();
    check(&db, true);
    // A tombstone at the bottom stays while it hides a retained version; compactions must not retry it forever.
    delete(&db, &family, b"key").unwrap();
    for n in 0..3 {
        delete(&db, &family, &[n]).unwrap();
    }
    for _ in 0..3 {
        db.settle().unwrap();
        db.compact(&family, &ALL).unwrap();
    }
    assert_eq!(get(&db, &family, b"key", At::Latest).unwrap(), None);
    assert_eq!(before(&db, b"key", fourth + 1), Some((third, Some(new.clone()))));
    assert_eq!(before(&db, b"key", fourth), Some((third, Some(new.clone()))));
    let held: u64 = db.tables(&family).unwrap().iter().map(|table| table.meta().ledger.deletes.count).sum();
    assert_eq!(held, 1);
    while db.step().unwrap() {}
    db.close().unwrap();
    let db = open_watched(&sim, &dir, 4096);
    db.settle().unwrap();
    assert_eq!(before(&db, b"key", fourth), Some((third, Some(new))));
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), []);
}

#[test]
fn what_no_flush_has_taken_up_is_shown_version_by_version() {
    let (sim, dir) = sim(4);
    let db = open_watched(&sim, &dir, 4096);
    let family = default(&db);
    put(&db, &family, b"a", b"flushed", Durability::Os).unwrap();
    db.flush().unwrap();
    put(&db, &family, b"b", b"1", Durability::Os).unwrap();
    put(&db, &family, b"a", b"2", Durability::Os).unwrap();
    let snapshot = db.snapshot().unwrap();
    put(&db, &family, b"b", b"3", Durability::Os).unwrap();
    delete(&db, &family, b"a").unwrap();
    let walk = |cursor: &mut dyn Cursor, backwards: bool| {
        let mut seen = Vec::new();
        if backwards {
            cursor.last().unwrap()
        } else {
            cursor.first().unwrap()
        }
        while cursor.valid() {
            let record = cursor.record();
            seen.push((record.key.to_vec(), record.seqno, record.value.to_vec()));
            if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        seen
    };
    let version = |key: &str, seqno: u64, value: &str| (key.as_bytes().to_vec(), seqno, value.as_bytes().to_vec());
    let all = [version("a", 5, ""), version("a", 3, "2"), version("b", 4, "3"), version("b", 2, "1")];
    let mut now = db.unflushed(&family, At::Latest).unwrap();
    let mut then = db.unflushed(&family, At::Snapshot(&snapshot)).unwrap();
    db.flush().unwrap();
    for backwards in [false, true] {
        let turned = |mut versions: Vec<_>| {
            if backwards {
                versions.reverse();
            }
            versions
        };
        assert_eq!(walk(&mut *now, backwards), turned(all.to_vec()), "it holds its view");
        assert_eq!(walk(&mut *then, backwards), turned(vec![all[1].clone(), all[3].clone()]));
    }
    then.seek(b"a", 2).unwrap();
    assert_eq!(then.record().key, b"b");
    then.seek_for_prev(b"b", 4).unwrap();
    assert_eq!((then.record().key, then.record().seqno), (&b"a"[..], 3));
    let mut none = db.unflushed(&family, At::Latest).unwrap();
    assert_eq!(walk(&mut *none, false), []);
}

#[test]
fn a_version_is_found_where_it_stands() {
    let (sim, dir) = sim(5);
    let db = open_watched(&sim, &dir, 4096);
    let family = default(&db);
    let located = |key: &[u8], at: At<'_>| db.locate(&family, key, at).unwrap();
    assert_eq!(located(b"key-0001", At::Latest), None);
    fill(&db, 0..20, 0);
    let found = located(b"key-0001", At::Latest).unwrap();
    assert_eq!(
        (found.seqno, found.kind, found.place, found.check),
        (2, Kind::Put, RecordPlace::Active, Check::Unverified)
    );
    fill(&db, 20..140, 0);
    assert_eq!(located(b"key-0001", At::Latest).unwrap().place, RecordPlace::Frozen(0));
    fill(&db, 140..200, 0);
    let snapshot = db.snapshot().unwrap();
    db.settle().unwrap();
    delete(&db, &family, b"key-0001").unwrap();
    let found = located(b"key-0001", At::Latest).unwrap();
    assert_eq!((found.seqno, found.kind, found.place), (201, Kind::Delete, RecordPlace::Active));
    let found = located(b"key-0001", At::Snapshot(&snapshot)).unwrap();
    let tables = db.tables(&family).unwrap();
    let RecordPlace::Table { level, number, uid, offset } = found.place else { panic!("{found:?}") };
    let table = tables.iter().find(|table| table.meta().number == number).unwrap();
    assert_eq!((found.seqno, table.level(), table.meta().uid, offset), (2, level, uid, 64));
    let last = located(b"key-0199", At::Latest).unwrap();
    assert!(matches!(last.place, RecordPlace::Table { offset, .. } if offset > 64), "{last:?}");
    assert_eq!(located(b"key-0", At::Latest), None);
    let (from, to) = ((b"key-0002".to_vec(), 1000), (b"key-0002".to_vec(), 0));
    let lost_range = LostRange { from, to, bound: 1000, file: "000001.tbl".into(), offset: 64, verdict: Verdict::Seal };
    db.add_lost_ranges(&family, vec![lost_range]).unwrap();
    assert!(db.locate(&family, b"key-0002", At::Latest).unwrap_err().is_corruption());
    assert!(located(b"key-0003", At::Latest).is_some());
}

/// The index of range deletes keeps the newest one; the version before a record may be hidden by an older one.
#[test]
fn no_version_before_a_record_is_one_that_a_range_delete_between_them_hides() {
    let (sim, dir) = sim(23);
    let db = open_watched(&sim, &dir, 64);
    let family = default(&db);
    let delete_all = || {
        let mut batch = Batch::new();
        batch.delete_range(family.id(), (None, None), db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    };
    put(&db, &family, b"k", &value(false, 1), Durability::Os).unwrap();
    delete_all();
    let seqno = put(&db, &family, b"k", &value(true, 2), Durability::Os).unwrap();
    let before = |db: &Db, seqno| {
        let (mut found, mut record) = (None, None);
        let mut see = |of: &Record<'_>| found = Some(of.value.to_vec());
        let any = db.get_before(&family, b"k", seqno, Verify::Always, &mut see).unwrap();
        let mut see = |of: &Record<'_>| record = Some(of.value.to_vec());
        assert_eq!(db.get_record_before(&family, b"k", seqno, Verify::Always, &mut see).unwrap(), any);
        assert_eq!((any, &record), (found.is_some(), &found));
        found
    };
    let check = |at: &str| {
        assert_eq!(before(&db, seqno), None, "{at}");
        assert_eq!(before(&db, seqno + 1), Some(value(true, 2)), "{at}");
    };
    check("before the second range delete");
    delete_all();
    check("in memory");
    db.flush().unwrap();
    check("flushed");
    db.settle().unwrap();
    check("settled");
    assert!(!db.get(&family, b"k", At::Latest, &mut |_| {}).unwrap());
}
