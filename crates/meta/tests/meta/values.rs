//! Care of large values: what is hit in a value file is found, mended where somebody has it, and costs one record where
//! nobody does.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Db, Family, Parts, Silent, TableRef};
use waxseal_lsm::env::Fs;
use waxseal_lsm::env::sim::{Crash, Fault, Loss, SimFs};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_lsm::values::{BlobEntry, walk};
use waxseal_meta::exchange::{ExportRequest, Policy, export};
use waxseal_meta::integrity::{
    Candidate, Finding, Outcome, Progress, RepairOptions, RepairSource, Report, Rung, SalvageOptions, ScrubOptions,
    VerifyOptions, Watch, digest, repair, salvage, scrub, verify,
};
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::harness::{DIR, Owned, Store, options};
use waxseal_testing::store::ALL;

use crate::support::holds;

fn with_values() -> CfOptions {
    CfOptions { large_value_bytes: 100, table_bytes: 1 << 20, level_base_bytes: 1 << 20, ..options() }
}

fn key(n: usize) -> Vec<u8> {
    format!("k{n:03}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    let random = waxseal_lsm::env::SeededRandom::new(n as u64);
    (0..300 + n * 10).map(|_| random.below(256) as u8).collect()
}

fn filled(seed: u64) -> (SimFs, Store) {
    let sim = SimFs::new(seed);
    let store = Store::open(&sim, Arc::new(Sealer::new()), with_values());
    for n in 0..20 {
        store.put(&key(n), &value(n));
    }
    store.compact();
    // Opened again, so that the log has nothing of it.
    store.db.close().unwrap();
    drop(store);
    let store = Store::open(&sim, Arc::new(Sealer::new()), with_values());
    (sim, store)
}

/// The only value file, and its entries.
fn entries(store: &Store) -> (PathBuf, Vec<BlobEntry>) {
    let file = store.db.value_files(&store.family).unwrap().remove(0);
    let mut entries = Vec::new();
    walk("v", file.file(), None, &mut |entry| {
        entries.push(entry);
        Ok(())
    })
    .unwrap();
    (Path::new(DIR).join(file.name().to_string()), entries)
}

fn place_of(entry: &BlobEntry) -> u64 {
    entry.pointer.offset + 32 + entry.key.len() as u64
}

/// Hits a value so that no correction helps.
fn strike(sim: &SimFs, path: &Path, entry: &BlobEntry) {
    for (at, bit) in [(3, 1), (50, 4), (51, 6), (200, 2)] {
        sim.flip(path, (place_of(entry) + at) * 8 + bit).unwrap();
    }
}

fn holds_all_but(store: &Store, lost: Option<usize>) {
    for n in 0..20 {
        match store.get(&key(n)) {
            Ok(found) => assert_eq!(found.map(|found| found.value), Some(value(n)), "{n}"),
            Err(error) => assert!(error.is_corruption() && lost == Some(n), "{n}: {error}"),
        }
    }
}

/// The fence over a lost old version hides neither the newest version nor other keys; a snapshot that needs the old one
/// is told of it.
#[test]
fn a_lost_old_version_ends_no_scan_and_no_digest() {
    let (sim, store) = filled(3);
    let (path, found) = entries(&store);
    strike(&sim, &path, &found[4]);
    let before = store.db.snapshot().unwrap();
    store.put(&found[4].key, b"newest");
    store.db.flush().unwrap();
    let report = repair(&store.db, RepairOptions::default()).unwrap();
    assert_eq!((report.lost, store.db.lost_ranges(&store.family).len()), (1, 1), "{report:?}");
    let rows = store.scan();
    assert_eq!((rows.len(), &rows[4].value[..]), (20, &b"newest"[..]));
    assert_eq!(digest(&store.db, &store.family, &ALL, At::Latest).unwrap().count, 20);
    let of_snapshot = || At::Snapshot(&before);
    assert!(store.get_at(&found[4].key, of_snapshot()).unwrap_err().is_corruption());
    assert!(digest(&store.db, &store.family, &ALL, of_snapshot()).unwrap_err().is_corruption());
    assert_eq!(store.get_at(&found[5].key, of_snapshot()).unwrap().map(|row| row.key), Some(found[5].key.clone()));
}

#[test]
fn one_flipped_bit_is_read_past_found_by_verify_and_gone_after_a_repair() {
    let (sim, store) = filled(1);
    let (path, found) = entries(&store);
    assert!(verify(&store.db, VerifyOptions::default()).unwrap().is_clean());
    for (at, what) in
        [(place_of(&found[4]) + 7, "a value"), (found[9].pointer.offset + 26, "a head"), (30, "the header")]
    {
        sim.flip(&path, at * 8 + 3).unwrap();
        holds_all_but(&store, None);
        let report = verify(&store.db, VerifyOptions::default()).unwrap();
        assert!(!report.is_clean() && report.structural > 0 && report.corrupted == 0, "{what}: {report:?}");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(report.damage.iter().all(|finding| finding.file == name), "{what}: {report:?}");
        sim.flip(&path, at * 8 + 3).unwrap();
    }
    sim.flip(&path, (place_of(&found[4]) + 7) * 8).unwrap();
    sim.flip(&path, (found[9].pointer.offset + 26) * 8).unwrap();
    let report = repair(&store.db, RepairOptions::default()).unwrap();
    assert!(report.is_clean() && report.repaired > 0 && report.lost == 0, "{report:?}");
    holds_all_but(&store, None);
    assert!(verify(&store.db, VerifyOptions::default()).unwrap().is_clean());
    while store.db.step().unwrap() {} // the background hears of what died, and removes it
    assert!(!sim.files(DIR).iter().any(|name| Path::new(DIR).join(name) == path), "its values were moved");
}

struct Replica;

impl RepairSource for Replica {
    fn by_seal(&self, _: &str, asked: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        let whole = (0..20).find(|n| key(*n) == asked).filter(|n| Seal::of(key(*n), value(*n)) == seal);
        let of = |n: usize| Candidate { key: key(n), kind: Kind::Put, value: value(n) };
        Ok(whole.map(of))
    }
    fn by_range(&self, _: &str, _: &[u8], _: &[u8], _: &mut dyn FnMut(Candidate)) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_lost_value_costs_its_record_until_a_source_has_it() {
    let (sim, store) = filled(2);
    let (path, found) = entries(&store);
    strike(&sim, &path, &found[6]);
    holds_all_but(&store, Some(6));
    let report = verify(&store.db, VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.damage.len()), (1, 1), "{report:?}");
    assert_eq!(report.damage[0].key_range, Some((key(6), key(6))));
    let scrubbed = scrub(&store.db, ScrubOptions::default()).unwrap();
    assert_eq!((scrubbed.corrupted, scrubbed.damage.len()), (1, 1), "{scrubbed:?}");
    // Nobody has it: a fence over the one record, and the others are as they were.
    let report = repair(&store.db, RepairOptions::default()).unwrap();
    assert_eq!(report.lost, 1, "{report:?}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Fenced), "{report:?}");
    let lost_ranges = store.db.lost_ranges(&store.family);
    assert_eq!(lost_ranges.len(), 1);
    assert_eq!((&lost_ranges[0].1.from.0, &lost_ranges[0].1.to.0), (&key(6), &key(6)));
    holds_all_but(&store, Some(6));
    assert!(store.get(&key(6)).unwrap_err().is_corruption());
    // A newer record decides as ever.
    store.put(&key(6), &value(6));
    holds_all_but(&store, None);

    let (sim, store) = filled(3);
    let (path, found) = entries(&store);
    strike(&sim, &path, &found[11]);
    let source = Replica;
    let options = RepairOptions { source: Some(&source), ..RepairOptions::default() };
    let report = repair(&store.db, options).unwrap();
    assert!(report.is_clean() && report.lost == 0, "{report:?}");
    let by = |finding: &&Finding| finding.outcome == Outcome::Repaired(Rung::Source);
    assert_eq!(report.damage.iter().filter(by).count(), 1, "{report:?}");
    assert!(store.db.lost_ranges(&store.family).is_empty());
    holds_all_but(&store, None);
    let (seal, of) = (Seal::of(key(11), value(11)), store.get(&key(11)).unwrap().unwrap());
    assert_eq!(Sealer::seal_of(&of.record()).unwrap(), Some(seal));
    assert!(verify(&store.db, VerifyOptions::default()).unwrap().is_clean());
}

fn parts(sim: &SimFs) -> Parts {
    Parts {
        env: sim.env(sim.steps() + 1),
        companions: Arc::new(Sealer::new()),
        listener: Arc::new(Silent),
        families: vec![("default".to_owned(), with_values())],
        filters: Vec::new(),
        orders: Vec::new(),
        merge_operators: Vec::new(),
        engine_log: None,
        cache: None,
    }
}

#[test]
fn salvage_takes_values_along_with_a_manifest_or_without() {
    for without in [false, true] {
        let (sim, store) = filled(4);
        let (path, found) = entries(&store);
        strike(&sim, &path, &found[2]);
        store.db.close().unwrap();
        drop(store);
        if without {
            sim.env(1).fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
        }
        let to = Path::new("/salvaged");
        let options = SalvageOptions::default();
        let report = salvage(Path::new(DIR), to, Settings::default(), parts(&sim), options).unwrap();
        assert_eq!(report.lost, 1, "{report:?}");
        let db = Db::open(to, Settings::default(), parts(&sim)).unwrap();
        let family = db.family("default").unwrap();
        for n in 0..20 {
            let mut value_found = None;
            let read = db.get(&family, &key(n), At::Latest, &mut |record| value_found = Some(Owned::of(record).value));
            match n {
                2 => assert!(read.unwrap_err().is_corruption()),
                _ => assert_eq!((read.unwrap(), value_found), (true, Some(value(n))), "{n}"),
            }
        }
    }
}

#[test]
fn a_value_file_whose_footer_was_hit_costs_a_salvage_nothing() {
    for cut in [false, true] {
        let (sim, store) = filled(9);
        let (path, found) = entries(&store);
        strike(&sim, &path, &found[7]);
        store.db.close().unwrap();
        drop(store);
        let mut bytes = sim.read_all(&path).unwrap();
        match cut {
            true => bytes.truncate(bytes.len() - 20),
            false => *bytes.last_mut().unwrap() ^= 4,
        }
        sim.write_all(&path, &bytes).unwrap();
        sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        let (found, report) = salvaged(&sim, 20, false);
        for (n, [found, _]) in found.into_iter().enumerate() {
            match n {
                7 => assert!(found.unwrap_err().is_corruption()),
                _ => assert_eq!(found.unwrap(), value(n), "{n}: {report}"),
            }
        }
        assert_eq!(report.lost, 1, "{report}");
    }
}

/// Without a manifest a table that was replaced may stand beside the one that replaced it: here each with its own copy
/// of a value.
#[test]
fn a_value_that_another_table_has_whole_is_not_lost_without_a_manifest() {
    let (sim, store) = filled(11);
    let (path, found) = entries(&store);
    let replaced = [&store.tables()[0], &path].map(|path| (path.clone(), sim.read_all(path).unwrap()));
    for n in (0..20).filter(|n| n % 4 != 3) {
        store.put(&key(n), b"newer");
    }
    store.compact();
    store.db.settle().unwrap();
    let (moved_to, moved) = entries(&store);
    assert!(moved_to != path && moved.len() == 5, "the values that are alive were moved");
    store.db.close().unwrap();
    drop(store);
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    replaced.iter().for_each(|(path, bytes)| sim.write_all(path, bytes).unwrap());
    let (older, newer) = (sim.fork(), sim.fork());
    strike(&older, &path, &found[7]);
    strike(&newer, &moved_to, &moved[1]);
    for sim in [older, newer] {
        for accept_loss in [false, true] {
            let (found, report) = salvaged(&sim.fork(), 20, accept_loss);
            for (n, [found, _]) in found.into_iter().enumerate() {
                let expected = if n % 4 == 3 { value(n) } else { b"newer".to_vec() };
                assert!(found.unwrap() == expected, "{n}: {report}");
            }
            assert_eq!((report.lost, report.repaired), (0, 1), "{report}");
            let by_table = |finding: &&Finding| finding.outcome == Outcome::Repaired(Rung::Trash);
            assert_eq!(report.damage.iter().filter(by_table).count(), 1, "{report}");
        }
    }
    // Both copies are hit: it is lost, and once.
    strike(&sim, &path, &found[7]);
    strike(&sim, &moved_to, &moved[1]);
    let (found, report) = salvaged(&sim, 20, false);
    assert!(found[7][0].as_ref().unwrap_err().is_corruption(), "{report}");
    assert_eq!((report.lost, report.repaired), (1, 0), "{report}");
}

#[test]
fn a_value_that_the_log_still_holds_is_not_lost_without_a_manifest() {
    let sim = SimFs::new(10);
    let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
    let family = db.family("default").unwrap();
    let large = large();
    for (n, large) in large.iter().enumerate() {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, &key(n), large, db.companions()).unwrap();
        // Only of the first the log has the value itself.
        db.commit(&mut batch, if n == 0 { Durability::Sync } else { Durability::Os }).unwrap();
    }
    db.flush().unwrap();
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Process);
    hit(&sim, &large[0]);
    hit(&sim, &large[1]);
    sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
    let (found, report) = salvaged(&sim, 3, false);
    assert!(found[0][0].as_ref().unwrap() == &large[0] && found[2][0].as_ref().unwrap() == &large[2], "{report}");
    assert!(found[1][0].as_ref().unwrap_err().is_corruption(), "{report}");
    assert_eq!((report.lost, report.repaired), (1, 1), "{report}");
    let by_log = |finding: &&Finding| finding.outcome == Outcome::Repaired(Rung::Log);
    assert_eq!(report.damage.iter().filter(by_log).count(), 1, "{report}");
}

#[test]
fn verify_looks_at_values_that_no_table_points_to_yet() {
    let sim = SimFs::new(7);
    let store = Store::open(&sim, Arc::new(Sealer::new()), with_values());
    for n in 0..20 {
        store.put(&key(n), &value(n));
    }
    assert!(verify(&store.db, VerifyOptions::default()).unwrap().is_clean());
    let names: Vec<String> = sim.files(DIR).into_iter().filter(|name| name.ends_with(".val")).collect();
    assert_eq!(names.len(), 1);
    // The first value behind the header, the head of its entry and its key.
    let path = Path::new(DIR).join(&names[0]);
    for (at, bit) in [(3, 1), (50, 4), (51, 6), (200, 2)] {
        sim.flip(&path, (64 + 32 + 4 + at) * 8 + bit).unwrap();
    }
    let report = verify(&store.db, VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.damage.len()), (1, 1), "{report:?}");
    assert_eq!(report.damage[0].file, names[0]);
    holds_all_but(&store, Some(0));
}

/// A writer replaces tables and value files while a reader beside it is looked through, and the reader moves on or not:
/// what it looks at is whole, though it has no name any more.
#[test]
fn what_is_replaced_under_a_look_is_no_damage() {
    let options = CfOptions { table_bytes: 1024, ..with_values() };
    let write = |store: &Store, numbers: std::ops::Range<usize>| {
        numbers.for_each(|n| store.put(&key(n), &value(n)));
        store.compact();
    };
    for (scrubs, moves_on) in [(false, true), (true, true), (true, false)] {
        let sim = SimFs::new(17);
        let store = Store::open(&sim, Arc::new(Sealer::new()), options.clone());
        write(&store, 0..60);
        for n in 60..70 {
            store.put(&key(n), &value(n)); // the log points to these
        }
        let reader = Db::open_read_only(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
        let family = reader.family("default").unwrap();
        let old: Vec<String> = reader.tables(&family).unwrap().iter().map(|table| table.name()).collect();
        assert!(old.len() > 2, "{old:?}");
        let mut moved = false;
        let progress: Watch<'_> = &mut |_| {
            if !moved {
                write(&store, 0..70);
                write(&store, 0..70);
                if moves_on {
                    reader.refresh().unwrap();
                }
                moved = true;
            }
            ControlFlow::Continue(())
        };
        let report = match scrubs {
            false => verify(&reader, VerifyOptions { progress: Some(progress), ..VerifyOptions::default() }),
            true => scrub(&reader, ScrubOptions { progress: Some(progress), ..ScrubOptions::default() }),
        };
        assert!(moved && !sim.files(DIR).iter().any(|name| old.contains(name)));
        let report = report.unwrap();
        assert!(report.is_clean(), "{report}");
        // What it does not see any more it was not to look at.
        assert_eq!(report.tables.len(), if moves_on { 1 } else { old.len() }, "{report}");
        // One that the manifest names is missed.
        reader.refresh().unwrap();
        let table = &reader.tables(&family).unwrap()[0];
        sim.env(1).fs.remove(&Path::new(DIR).join(table.name())).unwrap();
        let report = verify(&reader, VerifyOptions::default()).unwrap();
        assert!(report.damage.iter().any(|damage| damage.file == table.name()), "{report}");
    }
}

/// Small tables of pointers to values of their own.
fn many_tables(seed: u64, compression: Compression, value: impl Fn(usize) -> Vec<u8>) -> (SimFs, Store) {
    let sim = SimFs::new(seed);
    let options = CfOptions { table_bytes: 1024, compression, ..with_values() };
    let store = Store::open(&sim, Arc::new(Sealer::new()), options);
    (0..60).for_each(|n| store.put(&key(n), &value(n)));
    store.compact();
    assert!(store.tables().len() > 1);
    (sim, store)
}

/// The tables that a store has now, each with the value files that it points into.
fn live(store: &Store) -> Vec<(String, Vec<String>)> {
    let values = |table: &TableRef| table.values().iter().map(|file| file.name().to_string()).collect();
    store.db.tables(&store.family).unwrap().iter().map(|table| (table.name(), values(table))).collect()
}

/// What may be done with all tables of a store.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    Verify,
    Scrub,
    Repair,
}

fn look(store: &Store, how: Look, progress: Watch<'_>) -> Report {
    let progress = Some(progress);
    let report = match how {
        Look::Verify => verify(&store.db, VerifyOptions { progress, ..VerifyOptions::default() }),
        Look::Scrub => scrub(&store.db, ScrubOptions { progress, ..ScrubOptions::default() }),
        Look::Repair => repair(&store.db, RepairOptions { progress, ..RepairOptions::default() }),
    };
    report.unwrap()
}

/// Hits a value where it stands, so that no correction helps.
fn strike_value(sim: &SimFs, value: &[u8]) {
    let mut hits = 0;
    for name in sim.files(DIR).into_iter().filter(|name| name.ends_with(".val")) {
        let path = Path::new(DIR).join(name);
        let bytes = sim.read_all(&path).unwrap();
        if let Some(place) = bytes.windows(64).position(|window| window == &value[..64]) {
            for (at, bit) in [(3, 1), (50, 4), (51, 6), (200, 2)] {
                sim.flip(&path, (place + at) as u64 * 8 + bit).unwrap();
            }
            hits += 1;
        }
    }
    assert_eq!(hits, 1);
}

/// A look may take hours: it holds the table at hand, and what is replaced of the others is removed meanwhile.
#[test]
fn what_is_replaced_under_a_look_is_removed_while_it_goes_on() {
    for how in [Look::Verify, Look::Scrub, Look::Repair] {
        let (sim, store) = many_tables(18, Compression::None, value);
        let old = live(&store);
        // What of those that were there is still on the disk and nobody's any more.
        let left = || -> (Vec<String>, Vec<String>) {
            let (now, files) = (live(&store), sim.files(DIR));
            let tables = old.iter().map(|(table, _)| table).filter(|table| now.iter().all(|(name, _)| name != *table));
            let values = old.iter().flat_map(|(_, values)| values);
            let values = values.filter(|file| now.iter().all(|(_, values)| !values.contains(file)));
            let is_there = |name: &&String| files.contains(name);
            (tables.filter(is_there).cloned().collect(), values.filter(is_there).cloned().collect())
        };
        let mut told = 0;
        let progress: Watch<'_> = &mut |progress| {
            assert!(progress.done <= progress.total);
            told += 1;
            if told == 1 {
                (0..60).for_each(|n| store.put(&key(n), &value(n)));
                store.compact();
                while store.db.step().unwrap() {}
                let (tables, values) = left();
                let [hand] = &tables[..] else { panic!("{tables:?} are held") };
                let of_hand = &old.iter().find(|(table, _)| table == hand).unwrap().1;
                assert!(values.iter().all(|file| of_hand.contains(file)), "{values:?}, and not {of_hand:?} alone");
            }
            ControlFlow::Continue(())
        };
        let report = look(&store, how, progress);
        assert!(told > 1 && report.is_clean(), "{report}");
        assert_eq!(report.tables.len(), 1, "the others were gone when their turn came: {report}");
        while store.db.step().unwrap() {}
        assert_eq!(left(), (Vec::new(), Vec::new()));
    }
}

/// A merge takes pointers over and reads no values. So those of a table that is gone when its turn comes are looked at
/// where they are pointed to then.
#[test]
fn values_of_a_table_that_is_replaced_before_its_turn_are_looked_at() {
    for how in [Look::Verify, Look::Scrub, Look::Repair] {
        let (sim, store) = many_tables(19, Compression::None, value);
        let tables = store.db.tables(&store.family).unwrap();
        let hit = |table: &&TableRef| table.meta().smallest <= key(30) && key(30) <= table.meta().largest;
        let hit = tables.iter().find(hit).unwrap();
        // It is the first in no order.
        assert!(hit.name() != tables[0].name() && tables.iter().any(|table| table.meta().number < hit.meta().number));
        let name = hit.name();
        drop(tables);
        strike_value(&sim, &value(30));
        let mut is_replaced = false;
        let progress: Watch<'_> = &mut |_| {
            if !is_replaced {
                (0..60).for_each(|n| store.put(&small(n), b"new"));
                store.compact();
                is_replaced = live(&store).iter().all(|(table, _)| *table != name);
                assert!(is_replaced);
            }
            ControlFlow::Continue(())
        };
        let report = look(&store, how, progress);
        assert!(is_replaced);
        assert_eq!((report.corrupted, report.damage.len()), (1, 1), "{report}");
        assert_eq!(report.damage[0].key_range, Some((key(30), key(30))), "{report}");
    }
}

/// A writer who replaces all tables again and again keeps no verify from its end.
#[test]
fn a_verify_beside_a_writer_who_replaces_everything_ends() {
    let (sim, store) = many_tables(23, Compression::None, value);
    let first = store.db.tables(&store.family).unwrap()[0].meta().smallest.clone();
    let hit = (0..60).find(|n| key(*n) == first).unwrap();
    strike_value(&sim, &value(hit));
    let mut round = 0u32;
    let mut told = 0;
    let progress: Watch<'_> = &mut |_| {
        told += 1;
        // From behind the first table on.
        if told > 40 && told % 8 == 0 {
            round += 1;
            (0..60).for_each(|n| store.put(&small(n), &round.to_le_bytes()));
            store.compact();
        }
        if told > 5000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let report = look(&store, Look::Verify, progress);
    assert!(!report.cancelled && round > 1, "{round} rounds: {report}");
    assert_eq!((report.corrupted, report.damage.len()), (1, 1), "{report}");
}

#[test]
fn progress_counts_what_is_stored_and_never_passes_its_total() {
    for compression in [Compression::None, Compression::default()] {
        let (_, store) = many_tables(20, compression, |n| vec![n as u8; 2000 + n]);
        let tables = store.db.tables(&store.family).unwrap();
        let total: u64 = tables.iter().map(|table| table.meta().bytes_with_values()).sum();
        let longest = tables.iter().map(|table| table.meta().size).max().unwrap();
        drop(tables);
        for how in [Look::Verify, Look::Scrub, Look::Repair] {
            let mut told: Vec<Progress> = Vec::new();
            let report = look(&store, how, &mut |progress| {
                told.push(progress);
                ControlFlow::Continue(())
            });
            assert!(report.is_clean() && report.bytes <= total, "{} of {total}: {report}", report.bytes);
            assert!(told.iter().all(|told| told.total == total && told.done <= total), "{told:?}");
            assert!(told.is_sorted_by_key(|told| told.done), "{told:?}");
            // Of the last table what stands around its blocks is not told any more.
            assert!(told.last().unwrap().done + longest >= total, "{told:?}");
        }
    }
}

/// Whoever ends a scrub among the values of a table ends it there, whatever he would answer later, and the next one
/// goes on with them.
#[test]
fn a_scrub_that_is_ended_among_the_values_of_a_table_goes_on_with_them() {
    let (sim, store) = many_tables(21, Compression::None, value);
    let mut tables = store.db.tables(&store.family).unwrap();
    tables.sort_by_key(|table| table.meta().number);
    let blocks = |table: &TableRef| table.table().unwrap().blocks() as u64;
    let values = |table: &TableRef| table.meta().values.iter().map(|values| values.count).sum::<u64>();
    // Ended behind the first value of a table, once.
    let ended_in = |at: usize| {
        let before: u64 = tables[..at].iter().map(|table| blocks(table) + values(table)).sum();
        let (ends_at, mut told) = (before + blocks(&tables[at]) + 1, 0);
        let report = look(&store, Look::Scrub, &mut |_| {
            told += 1;
            if told == ends_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(told, ends_at, "nobody is asked again");
        let token = report.resume.unwrap();
        assert_eq!(token.table, tables[at].meta().number);
        assert!(report.cancelled, "{report}");
        report
    };
    let gone_on = |before: &Report| {
        let report = scrub(&store.db, ScrubOptions { resume: before.resume, ..ScrubOptions::default() }).unwrap();
        assert!(report.resume.is_none() && !report.cancelled, "{report}");
        report
    };
    for at in [0, tables.len() - 1] {
        let first = ended_in(at);
        assert_eq!(first.resume.unwrap().block, blocks(&tables[at]) + 1, "behind the first value");
        assert_eq!(first.tables.len(), at, "{first}");
        let rest = gone_on(&first);
        assert!(rest.is_clean(), "{rest}");
        assert_eq!((first.records + rest.records, rest.tables.len()), (60, tables.len() - at), "no block twice");
    }
    // One who ends each pass behind one value comes to the end.
    let (mut resume, mut passes) = (None, 0);
    loop {
        let mut told = 0;
        let watch: Watch<'_> = &mut |_| {
            told += 1;
            if told > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let report =
            scrub(&store.db, ScrubOptions { resume, progress: Some(watch), ..ScrubOptions::default() }).unwrap();
        (resume, passes) = (report.resume, passes + 1);
        if resume.is_none() {
            break;
        }
        assert!(passes < 1000, "{report}");
    }
    // What was found among them is told before the pass ends, and once.
    let hit = (0..60).find(|n| key(*n) == tables[0].meta().smallest).unwrap();
    strike_value(&sim, &value(hit));
    let first = ended_in(0);
    assert_eq!((first.corrupted, first.damage.len(), first.tables.len()), (1, 1, 1), "{first}");
    let rest = gone_on(&first);
    assert!(rest.is_clean() && rest.tables.len() == tables.len() - 1, "{rest}");
}

#[test]
fn salvage_takes_values_along_that_only_the_log_points_to() {
    for without in [false, true] {
        let sim = SimFs::new(6);
        let store = Store::open(&sim, Arc::new(Sealer::new()), with_values());
        for n in 0..20 {
            store.put(&key(n), &value(n));
        }
        sim.crash_at(sim.steps());
        drop(store);
        sim.reboot(Crash::Process);
        if without {
            sim.env(1).fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
        }
        let to = Path::new("/salvaged");
        let report = salvage(Path::new(DIR), to, Settings::default(), parts(&sim), SalvageOptions::default()).unwrap();
        assert_eq!(report.lost, 0, "{report:?}");
        let db = Db::open(to, Settings::default(), parts(&sim)).unwrap();
        let family = db.family("default").unwrap();
        for n in 0..20 {
            let mut found = None;
            db.get(&family, &key(n), At::Latest, &mut |record| found = Some(Owned::of(record).value)).unwrap();
            assert_eq!(found, Some(value(n)), "{n}, manifest gone: {without}");
        }
    }
}

/// The key of the small value that goes with a large one.
fn small(n: usize) -> Vec<u8> {
    [&key(n)[..], b" small"].concat()
}

/// A store with an older version of three keys in tables, and newer ones in the log alone: one batch of a large and a
/// small value each, of which the last was not asked to be durable when the machine lost power. Its frame is on the
/// disk, and of its value only the beginning.
fn torn(large: &[Vec<u8>; 3]) -> SimFs {
    let sim = SimFs::new(8);
    let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
    let family = db.family("default").unwrap();
    let put = |n: usize, large: &[u8], text: &[u8], durability| {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, &key(n), large, db.companions()).unwrap();
        batch.push(family.id(), Kind::Put, &small(n), text, db.companions()).unwrap();
        db.commit(&mut batch, durability).unwrap();
    };
    (0..3).for_each(|n| put(n, &value(n), b"old", Durability::Os));
    db.flush().unwrap();
    for (n, large) in large.iter().enumerate() {
        put(n, large, b"new", Durability::Os);
        if n < 2 {
            db.sync().unwrap();
        }
    }
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Machine(Loss::KeepAll));
    hit(&sim, &large[2]);
    sim
}

/// Makes zeros of the tail of a value, as the disk had not written it.
fn hit(sim: &SimFs, value: &[u8]) {
    let mut hits = 0;
    for name in sim.files(DIR).into_iter().filter(|name| name.ends_with(".val")) {
        let path = Path::new(DIR).join(name);
        let mut bytes = sim.read_all(&path).unwrap();
        if let Some(at) = bytes.windows(64).position(|window| window == &value[..64]) {
            bytes[at + 4096..at + value.len()].fill(0);
            sim.write_all(&path, &bytes).unwrap();
            hits += 1;
        }
    }
    assert_eq!(hits, 1);
}

/// What a salvage of the store answers: large and small value of each key.
fn salvaged(sim: &SimFs, keys: usize, accept_loss: bool) -> (Vec<[Result<Vec<u8>>; 2]>, Report) {
    let to = Path::new("/salvaged");
    let how = SalvageOptions { accept_loss, ..SalvageOptions::default() };
    let report = salvage(Path::new(DIR), to, Settings::default(), parts(sim), how).unwrap();
    (answers(sim, keys), report)
}

fn answers(sim: &SimFs, keys: usize) -> Vec<[Result<Vec<u8>>; 2]> {
    let db = Db::open(Path::new("/salvaged"), Settings::default(), parts(sim)).unwrap();
    let family = db.family("default").unwrap();
    let read = |key: &[u8]| {
        let mut found = Vec::new();
        db.get(&family, key, At::Latest, &mut |record| found = record.value.to_vec()).map(|_| found)
    };
    (0..keys).map(|n| [read(&key(n)), read(&small(n))]).collect()
}

fn large() -> [Vec<u8>; 3] {
    [970, 971, 972].map(value)
}

#[test]
fn a_salvage_ends_the_log_where_recovery_does() {
    let large = large();
    let sim = torn(&large);
    let store = Store::open(&sim.fork(), Arc::new(Sealer::new()), with_values());
    let recovered: Vec<_> =
        (0..3).map(|n| [key(n), small(n)].map(|key| store.get(&key).unwrap().unwrap().value)).collect();
    assert_eq!(recovered[2], [value(2), b"old".to_vec()], "half a batch is none");
    for (without, accepts) in [(false, false), (false, true), (true, false), (true, true)] {
        let sim = sim.fork();
        if without {
            sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        }
        let (found, report) = salvaged(&sim, 3, accepts);
        let found: Vec<_> = found.into_iter().map(|pair| pair.map(|value| value.unwrap())).collect();
        assert!(found == recovered, "{report}");
        let torn = |finding: &&Finding| finding.message.contains("at the end of the log were not whole");
        assert_eq!(report.damage.iter().filter(torn).count(), 1, "{report}");
        assert_eq!((report.lost, report.damage.len()), (0, 1 + without as usize), "{report}");
    }
}

#[test]
fn a_salvage_answers_what_recovery_does_whatever_a_crash_has_left() {
    let written = SimFs::new(12);
    let store = Store::open(&written, Arc::new(Sealer::new()), with_values());
    let mut stages = Vec::new();
    for n in 0..24 {
        let mut batch = Batch::new();
        for (key, value) in [(key(n % 7), value(n * 40)), (small(n % 7), vec![n as u8; 10])] {
            batch.push(store.family.id(), Kind::Put, &key, &value, store.db.companions()).unwrap();
        }
        store.db.commit(&mut batch, if n % 5 == 4 { Durability::Sync } else { Durability::Os }).unwrap();
        stages.push(written.fork());
    }
    let (mut torn, mut whole) = (0, 0);
    for (seed, stage) in (0..).zip(&stages) {
        for loss in Loss::all(seed) {
            let sim = stage.fork();
            sim.reboot(Crash::Machine(loss));
            let (found, report) = salvaged(&sim.fork(), 7, false);
            let store = Store::open(&sim, Arc::new(Sealer::new()), with_values());
            for (n, found) in found.into_iter().enumerate() {
                let recovered = [key(n), small(n)].map(|key| store.get(&key).unwrap().map_or(Vec::new(), |r| r.value));
                assert!(found.map(|value| value.unwrap()) == recovered, "{n} of {seed}, {loss:?}: {report}");
            }
            assert_eq!(report.lost, 0, "{report}");
            if report.damage.is_empty() { whole += 1 } else { torn += 1 }
        }
    }
    assert!(torn > 30 && whole > 30, "{torn} with a torn tail, {whole} without");
}

#[test]
fn a_batch_that_was_promised_loses_one_value_to_damage_and_no_more() {
    let large = large();
    for without in [false, true] {
        let sim = torn(&large);
        hit(&sim, &large[0]);
        if without {
            sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        }
        let (found, report) = salvaged(&sim, 3, false);
        assert!(found[0][0].as_ref().unwrap_err().is_corruption(), "{report}");
        assert_eq!(found[0][1].as_ref().unwrap(), b"new");
        assert!(found[1][0].as_ref().unwrap() == &large[1] && found[1][1].as_ref().unwrap() == b"new", "{report}");
        // Behind it nothing proves of the last one that it was.
        assert!(found[2][0].as_ref().unwrap() == &value(2) && found[2][1].as_ref().unwrap() == b"old", "{report}");
        assert_eq!(report.lost, 1, "{report}");
        assert_eq!(report.damage.iter().filter(|finding| finding.outcome == Outcome::Fenced).count(), 1, "{report}");
    }
}

/// What a table holds was ordered, and all before it, of whatever family: a value that was hit ends no log below that,
/// though neither marks nor a manifest say that it was promised.
#[test]
fn what_a_table_of_another_family_holds_proves_the_log_before_it() {
    let large = value(970);
    for loss in Loss::all(5) {
        let sim = SimFs::new(8);
        let db = Db::open(Path::new(DIR), Settings::default(), parts(&sim)).unwrap();
        let first = db.family("default").unwrap();
        let other = db.create_family("other", with_values()).unwrap();
        let put = |family: &Family, pairs: &[(Vec<u8>, &[u8])]| {
            let mut batch = Batch::new();
            for (key, value) in pairs {
                batch.push(family.id(), Kind::Put, key, value, db.companions()).unwrap();
            }
            db.commit(&mut batch, Durability::Os).unwrap();
        };
        put(&first, &[(key(0), &value(0)), (small(0), b"old"), (small(1), b"old")]);
        db.flush().unwrap();
        put(&first, &[(key(0), &large), (small(0), b"new")]);
        put(&first, &[(small(1), b"new")]);
        put(&other, &[(key(2), b"in a table")]);
        db.flush_ordered(&other).unwrap();
        sim.crash_at(sim.steps());
        drop(db);
        sim.reboot(Crash::Machine(loss));
        hit(&sim, &large);
        sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        let (found, report) = salvaged(&sim, 2, false);
        assert!(found[0][0].as_ref().unwrap_err().is_corruption(), "{loss:?}: {report}");
        assert_eq!(
            [&found[0][1], &found[1][1]].map(|found| found.as_deref().unwrap()),
            [b"new"; 2],
            "{loss:?}: {report}"
        );
        // Beside that there is no manifest.
        assert_eq!((report.lost, report.damage.len()), (1, 2), "{loss:?}: {report}");
    }
}

/// What a device does not give now is no torn tail: nothing behind it is cut, and nothing older stands in for it.
#[test]
fn a_value_that_cannot_be_read_now_ends_no_log() {
    let large = large();
    let sim = SimFs::new(8);
    let store = Store::open(&sim, Arc::new(Sealer::new()), with_values());
    let mut written = Vec::new();
    for (round, text) in [b"old", b"new"].into_iter().enumerate() {
        for (n, large) in large.iter().enumerate() {
            let large = if round == 0 { value(n) } else { large.clone() };
            store.put(&key(n), &large);
            store.put(&small(n), text);
            written.push(large);
        }
        if round == 0 {
            store.db.flush().unwrap();
        }
    }
    sim.crash_at(sim.steps());
    drop(store);
    sim.reboot(Crash::Machine(Loss::KeepAll)); // all of it is there, and nothing proves that it was promised
    for without in [false, true] {
        if without {
            sim.delete(Path::new(DIR).join("CURRENT")).unwrap();
        }
        no_fault_gives_an_older_answer(&sim, &written[3..], usize::from(without));
    }
}

/// Whatever a salvage is not given once or twice, it answers the newest or corruption. `told`: what it tells of without
/// a fault.
fn no_fault_gives_an_older_answer(sim: &SimFs, newest: &[Vec<u8>], told: usize) {
    let (first, whole) = (sim.steps(), sim.fork());
    assert_eq!(salvaged(&whole, 3, false).1.damage.len(), told);
    let (mut spared, mut fenced) = (0, 0);
    for (step, times) in (first..whole.steps()).flat_map(|step| [1, 2].map(|times| (step, times))) {
        let sim = sim.fork();
        (0..times).for_each(|_| sim.fail_at(step, Fault::Error(ErrorKind::PermissionDenied)));
        let to = Path::new("/salvaged");
        let how = SalvageOptions::default();
        let Ok(report) = salvage(Path::new(DIR), to, Settings::default(), parts(&sim), how) else { continue };
        if !sim.clear_faults() {
            break; // the salvage was through before
        }
        for (n, found) in answers(&sim, 3).into_iter().enumerate() {
            for (found, newest) in found.into_iter().zip([&newest[n][..], b"new"]) {
                match found {
                    Ok(found) => assert!(found == newest, "{n}, step {step}: {report}"),
                    Err(error) => assert!(error.is_corruption() && !report.is_clean(), "{error}"),
                }
            }
        }
        spared += usize::from(report.damage.len() == told);
        fenced += usize::from(report.lost == 1 && report.damage.len() == told + 1);
    }
    assert!(spared > 0 && fenced > 2, "{spared} without damage, {fenced} with a fence over one value");
}

#[test]
fn what_leaves_the_store_has_its_values() {
    let (sim, store) = filled(5);
    let dir = Path::new("/export");
    for (n, policy) in [Policy::Strip, Policy::Companion { allow: Vec::new() }].into_iter().enumerate() {
        let to = dir.join(n.to_string());
        let request = ExportRequest { policy, ..ExportRequest::default() };
        let exported = export(&store.db, &store.family, &sim.env(9), &to, &request).unwrap();
        assert_eq!(exported.records, 20);
        let file = sim.env(9).fs.open(&to.join("000001.tbl"), waxseal_lsm::env::Open::Read).unwrap();
        let expected = waxseal_lsm::sst::Table::identify("t", &*file).unwrap();
        let cache = Arc::new(waxseal_lsm::sst::Cache::new(0));
        let order = waxseal_lsm::order::Order::bytewise();
        let plain = Arc::new(waxseal_lsm::seam::Plain);
        let table = waxseal_lsm::sst::Table::open("t".into(), file, expected, order, cache, plain).unwrap();
        use waxseal_lsm::cursor::Cursor;
        let mut cursor = table.cursor(false);
        cursor.first().unwrap();
        for n in 0..20 {
            let record = cursor.record();
            assert_eq!((record.key, record.kind, record.value), (&key(n)[..], Kind::Put, &value(n)[..]));
            cursor.next().unwrap();
        }
    }
}

/// A replica that lets go of tables when it is asked, so that the value files that they alone held are removed under
/// the repair.
struct LettingGo<'a> {
    db: &'a Db,
    held: Mutex<Vec<TableRef>>,
}

impl RepairSource for LettingGo<'_> {
    fn by_seal(&self, family: &str, asked: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        self.held.lock().unwrap().clear();
        while self.db.step()? {}
        Replica.by_seal(family, asked, seal)
    }
    fn by_range(&self, _: &str, _: &[u8], _: &[u8], _: &mut dyn FnMut(Candidate)) -> Result<()> {
        Ok(())
    }
}

/// Hits the pointer to a value as it stands in a table, so that no correction helps.
fn strike_pointer(sim: &SimFs, table: &Path, value: &[u8]) {
    let (bytes, hash) = (sim.read_all(table).unwrap(), hash(value).to_le_bytes());
    let at = bytes.windows(8).position(|window| window == hash).expect("the pointer stands in the table");
    for bit in [3, 11, 17, 30, 55] {
        sim.flip(table, at as u64 * 8 + bit).unwrap();
    }
}

/// A directory with a copy of a table.
fn copied_to_trash(sim: &SimFs, table: &Path) -> PathBuf {
    let trash = PathBuf::from("/trash");
    sim.create_dir_all(&trash).unwrap();
    sim.write_all(trash.join("000001.trash"), &sim.read_all(table).unwrap()).unwrap();
    trash
}

#[test]
fn a_value_from_the_trash_outlives_the_file_it_stood_in() {
    let (sim, store) = filled(8);
    let (first, (values, _)) = (store.tables().remove(0), entries(&store));
    let trash = copied_to_trash(&sim, &first);
    // The values move to another file; from now on whoever holds the first table alone keeps the one that the trash
    // points into.
    let held = Mutex::new(store.db.tables(&store.family).unwrap());
    sim.flip(&values, 30 * 8).unwrap();
    assert!(repair(&store.db, RepairOptions::default()).unwrap().is_clean());
    let table = Path::new(DIR).join(store.db.tables(&store.family).unwrap()[0].name());
    assert!(table != first && entries(&store).0 != values && sim.read_all(&values).is_ok());
    // The trash has one of two that are lost; the source is asked for the other, after that.
    strike_pointer(&sim, &table, &value(3));
    strike_pointer(&sim, &table, &value(15));
    strike_pointer(&sim, &trash.join("000001.trash"), &value(15));
    let source = LettingGo { db: &store.db, held };
    let options = RepairOptions { source: Some(&source), trash: Some(trash), ..RepairOptions::default() };
    let report = repair(&store.db, options).unwrap();
    assert!(sim.read_all(&values).is_err(), "nothing holds it any more");
    for rung in [Rung::Trash, Rung::Source] {
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(rung)), "{rung:?}: {report:?}");
    }
    assert!(report.is_clean() && report.lost == 0, "{report:?}");
    assert!(verify(&store.db, VerifyOptions::default()).unwrap().is_clean());
    store.compact();
    holds_all_but(&store, None);
    holds(&store);
    store.db.close().unwrap();
    drop(store);
    holds_all_but(&Store::open(&sim, Arc::new(Sealer::new()), with_values()), None);
}

#[test]
fn a_value_that_was_hit_is_written_anew_with_a_pointer_from_the_trash() {
    let (sim, store) = filled(9);
    let (table, (values, found)) = (store.tables().remove(0), entries(&store));
    let trash = Some(copied_to_trash(&sim, &table));
    strike_pointer(&sim, &table, &value(3));
    sim.flip(&values, (place_of(&found[3]) + 7) * 8).unwrap();
    let report = repair(&store.db, RepairOptions { trash, ..RepairOptions::default() }).unwrap();
    assert!(report.is_clean() && report.repaired > 0 && report.lost == 0, "{report:?}");
    assert!(verify(&store.db, VerifyOptions::default()).unwrap().is_clean());
    holds_all_but(&store, None);
}
