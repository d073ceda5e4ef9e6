//! The engine's operations for repairs: tables held, replaced by their remaining records, quarantined and freed;
//! persistent lost ranges.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db, Event, Parts, Replacement};
use waxseal_lsm::env::sim::{Fault, SimFs};
use waxseal_lsm::error::{ErrorKind, Result, Verdict};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::{CfOptions, Durability, SealLayout, Settings};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::RecordSource;
use waxseal_testing::listener::Heard;
use waxseal_testing::store::*;

/// A cursor over puts with ascending keys.
struct List(Vec<(Vec<u8>, Seqno)>, usize);

impl Cursor for List {
    fn seek(&mut self, key: &[u8], _: Seqno) -> Result<()> {
        self.1 = self.0.partition_point(|(held, _)| &held[..] < key);
        Ok(())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        unreachable!("nobody goes back")
    }
    fn first(&mut self) -> Result<()> {
        self.1 = 0;
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        unreachable!("nobody goes back")
    }
    fn next(&mut self) -> Result<()> {
        self.1 += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        unreachable!("nobody goes back")
    }
    fn valid(&self) -> bool {
        self.1 < self.0.len()
    }
    fn record(&self) -> Record<'_> {
        let (key, seqno) = &self.0[self.1];
        Record { key, seqno: *seqno, kind: Kind::Put, value: b"what is left", companion: &[] }
    }
    fn source(&self) -> RecordSource<'_> {
        RecordSource::default()
    }
}

fn lost_range(from: &[u8], to: &[u8], bound: Seqno) -> LostRange {
    let (from, to) = ((from.to_vec(), bound), (to.to_vec(), 0));
    LostRange { from, to, bound, file: "000077.tbl".into(), offset: 64, verdict: Verdict::Seal }
}

fn replacement(records: Option<&mut dyn Cursor>, puts: u64, fenced: Vec<LostRange>) -> Replacement<'_> {
    let mut expected = Ledger::default();
    expected.puts.count = puts;
    Replacement { records, expected, summed: false, base_seqno: 0, fenced, lifted: Vec::new() }
}

/// Opens a store with a listener for lost ranges and quarantined tables.
fn open_heard(sim: &SimFs, dir: &Path) -> (Db, Arc<Heard<String>>) {
    let heard = Heard::new(|event| match event {
        Event::Fenced { fence: lost_range, .. } => Some(format!("fenced {}", lost_range.file)),
        Event::Lifted { fence: lost_range, .. } => Some(format!("lifted {}", lost_range.file)),
        Event::Barred { table, .. } => Some(format!("barred {table}")),
        _ => None,
    });
    let parts = Parts { listener: heard.clone(), ..parts(sim.env(sim.steps())) };
    (Db::open(dir, settings(), parts).unwrap(), heard)
}

/// Returns the numbers of the table files.
fn tables(sim: &SimFs, dir: &Path) -> Vec<u64> {
    named(sim, dir, ".tbl").iter().map(|name| name[..6].parse().unwrap()).collect()
}

#[test]
fn fences_stay_over_reopening_rotation_and_copies_until_they_are_lifted() {
    let (sim, dir) = sim(60);
    let (db, heard) = open_heard(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..20, 0);
    let kept = lost_range(b"key-0003", b"key-0005", 4);
    db.add_lost_ranges(&family, vec![lost_range(b"a", b"b", 1), kept.clone()]).unwrap();
    let ids: Vec<u64> = db.lost_ranges(&family).iter().map(|(id, _)| *id).collect();
    db.lift_lost_ranges(&family, &ids[..1]).unwrap();
    assert_kind(db.lift_lost_ranges(&family, &ids[..1]).map(drop), ErrorKind::Invalid, "lifted twice");
    assert_eq!(heard.all(), ["fenced 000077.tbl", "fenced 000077.tbl", "lifted 000077.tbl"]);
    let expected = vec![(ids[1], kept)];
    assert_eq!(db.lost_ranges(&family), expected);
    db.checkpoint(Path::new("/copy")).unwrap();
    for _ in 0..3 {
        fill(&db, 0..200, 1); // edits and rotations
        db.flush().unwrap();
        db.settle().unwrap();
    }
    kill(&sim, db);
    for store in [&*dir, Path::new("/copy")] {
        let db = open(&sim, store);
        assert_eq!(db.lost_ranges(&default(&db)), expected);
        db.close().unwrap();
        let reader = read_only(&sim, store).unwrap();
        assert_eq!(reader.lost_ranges(&default(&reader)), expected);
        let db = open(&sim, store);
        db.lift_lost_ranges(&default(&db), &[ids[1]]).unwrap();
        reader.refresh().unwrap();
        assert_eq!(reader.lost_ranges(&default(&reader)), []);
        kill(&sim, db);
        let db = open(&sim, store);
        assert_eq!(db.lost_ranges(&default(&db)), []);
        db.close().unwrap();
    }
}

#[test]
fn a_barred_table_is_left_alone_after_reopening_too_until_it_is_freed() {
    let (sim, dir) = sim(61);
    let (db, heard) = open_heard(&sim, &dir);
    fill(&db, 0..20, 0);
    db.flush().unwrap();
    let old = tables(&sim, &dir);
    db.quarantine_tables(&default(&db), &old).unwrap();
    assert_kind(db.quarantine_tables(&default(&db), &[999]), ErrorKind::Invalid, "no such table");
    assert_eq!(heard.all(), [format!("barred {}", old[0])]);
    kill(&sim, db);
    let db = open(&sim, &dir);
    assert_eq!(db.quarantined_tables(&default(&db)), old);
    for round in 1..5 {
        fill(&db, 0..20, round);
        db.flush().unwrap();
        db.settle().unwrap();
    }
    db.compact(&default(&db), &ALL).unwrap();
    assert!(tables(&sim, &dir).contains(&old[0]));
    db.free_tables(&default(&db), &old).unwrap();
    assert_eq!(db.quarantined_tables(&default(&db)), []);
    kill(&sim, db);
    let db = open(&sim, &dir);
    assert_eq!(db.quarantined_tables(&default(&db)), []);
    db.compact(&default(&db), &ALL).unwrap();
    assert!(!tables(&sim, &dir).contains(&old[0]));
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..20, 4));
}

/// A quarantine whose edit failed is not persistent, although compactions skip the table while the store is open.
#[test]
fn a_bar_that_found_no_room_is_written_by_the_next_call() {
    let (sim, dir) = sim(68);
    let db = open(&sim, &dir);
    fill(&db, 0..20, 0);
    db.flush().unwrap();
    let old = tables(&sim, &dir);
    sim.fail_at(sim.steps(), Fault::Error(std::io::ErrorKind::StorageFull));
    db.quarantine_tables(&default(&db), &old).unwrap_err();
    assert!(sim.clear_faults());
    db.quarantine_tables(&default(&db), &old).unwrap();
    kill(&sim, db);
    let db = open(&sim, &dir);
    assert_eq!(db.quarantined_tables(&default(&db)), old);
}

#[test]
fn a_table_is_replaced_by_what_is_left_of_it_and_a_fence_in_one_edit() {
    let (sim, dir) = sim(62);
    let (db, _) = open_heard(&sim, &dir);
    let family = default(&db);
    fill(&db, 0..20, 0);
    db.compact(&family, &ALL).unwrap();
    let old = tables(&sim, &dir);
    assert_eq!(old.len(), 1);
    let before = rows(&db, &family, At::Latest).unwrap();
    let left = || List((0..20).filter(|n| *n != 7).map(|n| (record(n, 0).0, n as Seqno + 1)).collect(), 0);
    let lost = lost_range(&record(7, 0).0, &record(7, 0).0, 20);

    // Rejected without a change: a count that differs from the expected one, and a key outside the table.
    let held = || db.hold_tables(&family, &old).unwrap().unwrap();
    assert!(held().replace(replacement(Some(&mut left()), 20, vec![])).unwrap_err().is_corruption());
    let mut outside = List(vec![(b"zzz".to_vec(), 1)], 0);
    assert_kind(held().replace(replacement(Some(&mut outside), 1, vec![])), ErrorKind::Invalid, "outside");
    assert_kind(held().replace(replacement(None, 1, vec![])), ErrorKind::Invalid, "a ledger of nothing");
    assert_eq!((tables(&sim, &dir), rows(&db, &family, At::Latest).unwrap()), (old.clone(), before));

    // No compaction takes a held table.
    db.quarantine_tables(&family, &old).unwrap();
    let holding = held();
    assert!(db.quarantine_tables(&family, &old).is_err(), "whoever holds it may be moving it, and is waited for");
    let level = holding.tables().next().unwrap().0;
    fill(&db, 100..120, 0);
    db.flush().unwrap();
    assert!(!db.step().unwrap() || tables(&sim, &dir).contains(&old[0]));
    let new = holding.replace(replacement(Some(&mut left()), 19, vec![lost.clone()])).unwrap();
    assert_eq!((new.len(), level > 0), (1, true));
    assert_eq!(db.quarantined_tables(&family), []);
    let check = |db: &Db| {
        let family = default(db);
        assert_eq!(db.lost_ranges(&family).iter().map(|(_, lost_range)| lost_range).collect::<Vec<_>>(), [&lost]);
        assert_eq!(get(db, &family, &record(6, 0).0, At::Latest).unwrap().unwrap(), b"what is left");
        assert!(!tables(&sim, &dir).contains(&old[0]) && tables(&sim, &dir).contains(&new[0].number));
    };
    check(&db);
    kill(&sim, db);
    let db = open(&sim, &dir);
    check(&db);
    assert!(db.hold_tables(&default(&db), &old).unwrap().is_none());

    // A table replaced by no records, and a removed lost range.
    let (id, _) = db.lost_ranges(&default(&db))[0].clone();
    let held = db.hold_tables(&default(&db), &[new[0].number]).unwrap().unwrap();
    held.replace(Replacement { lifted: vec![id], ..replacement(None, 0, vec![]) }).unwrap();
    assert_eq!(db.lost_ranges(&default(&db)), []);
    assert_eq!(get(&db, &default(&db), &record(6, 0).0, At::Latest).unwrap(), None);
}

#[test]
fn tombstones_stay_at_the_bottom_while_a_fence_covers_them() {
    let (sim, dir) = sim(63);
    let db = open(&sim, &dir);
    let family = default(&db);
    for n in 0..20 {
        delete(&db, &family, &record(n, 0).0).unwrap();
    }
    put(&db, &family, b"key-9999", b"v", Durability::Os).unwrap();
    db.add_lost_ranges(&family, vec![lost_range(b"key-0003", b"key-0005", 0)]).unwrap();
    let tombstones = |db: &Db| {
        db.compact(&default(db), &ALL).unwrap();
        db.metrics().families[0].levels.iter().map(|level| level.tombstones).sum::<u64>()
    };
    assert_eq!(tombstones(&db), 3);
    let (id, _) = db.lost_ranges(&family)[0].clone();
    db.lift_lost_ranges(&family, &[id]).unwrap();
    assert_eq!(tombstones(&db), 0);
}

#[test]
fn the_column_of_seals_is_an_option_that_stays() {
    let (sim, dir) = sim(64);
    let with = |column| vec![("column".to_owned(), CfOptions { seals: SealLayout::always(column), ..options() })];
    let env = || parts(sim.env(sim.steps()));
    Db::open(&dir, settings(), Parts { families: with(true), ..env() }).unwrap().close().unwrap();
    let db = open(&sim, &dir);
    assert_eq!(db.family("column").unwrap().options().seals, SealLayout::Column);
    assert_eq!(default(&db).options().seals, SealLayout::ByCodec);
}

#[test]
fn replaced_tables_are_kept_as_trash_up_to_a_budget() {
    let (sim, dir) = sim(65);
    let trash_bytes = 20_000;
    let open =
        |trash_bytes| Db::open(&dir, Settings { trash_bytes, ..settings() }, parts(sim.env(sim.steps()))).unwrap();
    let trash = || {
        let names = named(&sim, &dir, ".trash");
        let bytes: usize = names.iter().map(|name| sim.read_all(dir.join(name)).unwrap().len()).sum();
        (names, bytes as u64)
    };
    let db = open(trash_bytes);
    let mut first = Vec::new();
    for round in 0..12 {
        fill(&db, 0..100, round);
        db.compact(&default(&db), &ALL).unwrap();
        if first.is_empty() {
            first = trash().0;
        }
        assert!(trash().1 <= trash_bytes);
    }
    let (names, _) = trash();
    assert!(names.len() > 1 && !first.is_empty() && first.iter().all(|name| !names.contains(name)), "{names:?}");
    kill(&sim, db);
    let db = open(trash_bytes);
    assert_eq!(trash().0, names);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..100, 11));
    fill(&db, 0..100, 12);
    db.compact(&default(&db), &ALL).unwrap();
    assert!(trash().1 <= trash_bytes && trash().0 != names);
    db.close().unwrap();
    drop(db);
    open(0).close().unwrap();
    assert_eq!(trash().0, Vec::<String>::new());
    let db = open(trash_bytes);
    fill(&db, 0..100, 13);
    db.compact(&default(&db), &ALL).unwrap();
    db.close().unwrap();
    drop(db);
    assert_ne!(trash().0, Vec::<String>::new());
    Db::destroy(&dir, &sim.env(sim.steps())).unwrap();
    assert_eq!(sim.files(&dir), Vec::<String>::new());
}

/// Tables kept for a possible repair are removed when writes need their space.
#[test]
fn a_full_disk_takes_what_the_trash_keeps() {
    let (sim, dir) = sim(69);
    let open = || {
        let db = Db::open(&dir, Settings { trash_bytes: 1 << 20, ..settings() }, parts(sim.env(sim.steps()))).unwrap();
        assert!(!db.is_read_only());
        db
    };
    let db = open();
    for round in 0..8 {
        fill(&db, 0..100, round);
        db.compact(&default(&db), &ALL).unwrap();
    }
    let kept = || named(&sim, &dir, ".trash").len();
    let before = kept();
    sim.set_free_space(Some(0));
    for round in 8..14 {
        fill(&db, 0..30, round);
        db.flush().unwrap();
    }
    let after = kept();
    assert!(after < before, "{after} of {before}");
    fill(&db, 0..30, 14);
    kill(&sim, db);
    sim.set_free_space(Some(0));
    let db = open();
    assert!(kept() < after, "{} of {after}", kept());
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), [filled(0..30, 14), filled(30..100, 7)].concat());
}
