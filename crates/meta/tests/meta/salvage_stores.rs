//! Salvage without a manifest in a directory that has tables and logs of several stores.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{At, Db, Parts, Silent};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::identity;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::Plain;
use waxseal_lsm::sst::{Table, Writer, WriterSettings};
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{Outcome, Report, SalvageOptions, salvage};
use waxseal_testing::store::ALL;

/// The store that is salvaged, another one, and where the salvaged records go.
const OWN: &str = "/own";
const OTHER: &str = "/other";
const SAVED: &str = "/saved";

fn parts(sim: &SimFs) -> Parts {
    let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
    Parts {
        env: sim.env(sim.steps() + 1),
        companions: Arc::new(Sealer::new()),
        listener: Arc::new(Silent),
        families: vec![("default".to_owned(), options)],
        filters: Vec::new(),
        orders: Vec::new(),
        merge_operators: Vec::new(),
        engine_log: None,
        cache: None,
    }
}

fn open(sim: &SimFs, dir: &str) -> Db {
    Db::open(Path::new(dir), Settings::default(), parts(sim)).unwrap()
}

fn put(db: &Db, key: &str, value: &str) {
    let family = db.family("default").unwrap();
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, key.as_bytes(), value.as_bytes(), db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
}

/// A store with two tables, and one record that only its log has.
fn store(sim: &SimFs, dir: &str, name: &str) {
    let db = open(sim, dir);
    for at in 0..2 {
        put(&db, &format!("{name}{at}"), name);
        put(&db, "k", &format!("{name}'s, number {at}"));
        db.flush().unwrap();
    }
    put(&db, &format!("{name} in the log"), name);
    drop(db);
    sim.settle();
}

fn files(sim: &SimFs, dir: &str, ends: &str) -> Vec<String> {
    sim.files(dir).into_iter().filter(|name| name.ends_with(ends)).collect()
}

/// Puts files of one directory beside those of another, under names that are free there.
fn mix(sim: &SimFs, (from, to): (&str, &str), ends: &str) -> Vec<String> {
    let moved = files(sim, from, ends).into_iter().map(|name| {
        let number: u64 = name[..6].parse().unwrap();
        let to_name = format!("{:06}{}", number + 50, &name[6..]);
        let bytes = sim.read_all(Path::new(from).join(&name)).unwrap();
        sim.write_all(Path::new(to).join(&to_name), &bytes).unwrap();
        to_name
    });
    let moved = moved.collect();
    sim.settle();
    moved
}

/// Takes the manifest, and what names it, away.
fn lose_the_manifest(sim: &SimFs, dir: &str) {
    for name in sim.files(dir).into_iter().filter(|name| name == "CURRENT" || name.starts_with("MANIFEST")) {
        sim.delete(Path::new(dir).join(name)).unwrap();
    }
}

fn rows(db: &Db) -> Vec<(String, String)> {
    let (family, mut rows) = (db.family("default").unwrap(), Vec::new());
    let mut cursor = db.cursor(&family, At::Latest, ALL).unwrap();
    cursor.first().unwrap();
    while cursor.valid() {
        let record = cursor.record();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        rows.push((text(record.key), text(record.value)));
        cursor.next().unwrap();
    }
    rows
}

fn salvaged(sim: &SimFs, options: SalvageOptions<'_>) -> Result<(Report, Vec<(String, String)>)> {
    let report = salvage(Path::new(OWN), Path::new(SAVED), Settings::default(), parts(sim), options)?;
    Ok((report, rows(&open(sim, SAVED))))
}

/// The uid of a store, as its files say.
fn uid(sim: &SimFs, dir: &str) -> Uid {
    let named = identity::named_in(&sim.env(0), Path::new(dir)).unwrap();
    let first = named[0].1.store;
    assert!(named.len() >= 3 && named.iter().all(|(_, identity)| identity.store == first), "{named:?}");
    first
}

/// The files that a report says were left alone.
fn left_alone(report: &Report) -> Vec<String> {
    let left = report.damage.iter().filter(|finding| finding.outcome == Outcome::LeftAlone);
    let names: Vec<String> = left.map(|finding| finding.file.clone()).collect();
    assert_eq!(report.left_alone, names.len() as u64);
    names
}

fn accepting() -> SalvageOptions<'static> {
    SalvageOptions { accept_loss: true, ..SalvageOptions::default() }
}

/// What `store` wrote.
fn rows_of(name: &str) -> Vec<(String, String)> {
    let row = |key: String, value: &str| (key, value.to_owned());
    let mut rows = vec![
        row(format!("{name} in the log"), name),
        row(format!("{name}0"), name),
        row(format!("{name}1"), name),
        row("k".to_owned(), &format!("{name}'s, number 1")),
    ];
    rows.sort();
    rows
}

/// Two stores whose files lie in one directory, and their uids.
fn mixed(sim: &SimFs, ends: &[&str]) -> (Uid, Uid, Vec<String>) {
    store(sim, OWN, "own");
    store(sim, OTHER, "other");
    let uids = (uid(sim, OWN), uid(sim, OTHER));
    let moved = ends.iter().flat_map(|ends| mix(sim, (OTHER, OWN), ends)).collect();
    (uids.0, uids.1, moved)
}

/// The case: tables of another store in the directory of one that has lost its manifest.
#[test]
fn tables_of_another_store_are_left_alone() {
    let sim = SimFs::new(1);
    let (_, other, moved) = mixed(&sim, &[".tbl"]);
    lose_the_manifest(&sim, OWN);
    let (report, rows) = salvaged(&sim, accepting()).unwrap();
    assert_eq!(rows, rows_of("own"));
    assert_eq!(left_alone(&report), moved, "{report}");
    assert!(report.to_string().contains(&format!("{other:?}")), "{report}");
    assert!(report.json().contains(&format!("\"left_alone\":{}", moved.len())), "{}", report.json());
}

/// Every table names the store that wrote it: those of flushes, of compactions, and those that a recovery writes.
#[test]
fn every_table_names_its_store() {
    let sim = SimFs::new(2);
    store(&sim, OWN, "own"); // what is in the log becomes a table of the next open
    let db = open(&sim, OWN);
    let family = db.family("default").unwrap();
    let own = uid(&sim, OWN);
    let check = |what: &str| {
        let tables = files(&sim, OWN, ".tbl");
        assert!(!tables.is_empty(), "{what}");
        for name in tables {
            let file = sim.open(&Path::new(OWN).join(&name), Open::Read).unwrap();
            assert_eq!(Table::properties_of(&name, &*file).unwrap().store, Some(own), "{what}: {name}");
        }
    };
    check("flushed, and recovered");
    db.compact(&family, &ALL).unwrap();
    check("compacted");
}

/// `CURRENT` says whose directory it is, though its manifest is gone and the log of another store lies there too.
#[test]
fn the_store_that_current_names_is_salvaged() {
    let sim = SimFs::new(3);
    let (_, _, moved) = mixed(&sim, &[".tbl", ".log", ".ring"]);
    for name in sim.files(OWN).into_iter().filter(|name| name.starts_with("MANIFEST")) {
        sim.delete(Path::new(OWN).join(name)).unwrap();
    }
    let (report, rows) = salvaged(&sim, accepting()).unwrap();
    assert_eq!(rows, rows_of("own"), "{report}");
    let mut left = left_alone(&report);
    left.sort();
    let mut expected = moved;
    expected.sort();
    // A segment has its number in it: under another name it was never read. It is left alone all the same.
    assert_eq!(left, expected, "{report}");
}

/// Where nothing tells which of two stores is meant, nothing is written before the caller names one.
#[test]
fn of_two_stores_the_caller_chooses() {
    for ends in [&[".tbl", ".log", ".ring"][..], &[".tbl"]] {
        let sim = SimFs::new(4);
        let (own, other, _) = mixed(&sim, ends);
        lose_the_manifest(&sim, OWN);
        if ends.len() == 1 {
            [".log", ".ring"].iter().flat_map(|ends| files(&sim, OWN, ends)).for_each(|name| {
                sim.delete(Path::new(OWN).join(name)).unwrap();
            });
        }
        let error = salvaged(&sim, accepting()).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{own:?}")) && text.contains(&format!("{other:?}")), "{text}");
        assert!(text.contains("--store") && text.contains("move"), "{text}");
        assert_eq!(sim.files(SAVED), Vec::<String>::new());
        for (store, name) in [(own, "own"), (other, "other")] {
            let sim = sim.fork();
            let (report, rows) = salvaged(&sim, SalvageOptions { stores: vec![store], ..accepting() }).unwrap();
            let in_tables: Vec<_> = rows_of(name).into_iter().filter(|row| !row.0.contains("log")).collect();
            let found: Vec<_> = rows.into_iter().filter(|row| !row.0.contains("log")).collect();
            assert_eq!(found, in_tables, "{report}");
        }
        let both = SalvageOptions { stores: vec![own, other], ..accepting() };
        let (report, rows) = salvaged(&sim, both).unwrap();
        assert!(rows.iter().any(|row| row.0 == "own0") && rows.iter().any(|row| row.0 == "other0"), "{report}");
    }
}

#[test]
fn a_store_that_no_file_names_is_refused() {
    let sim = SimFs::new(5);
    let (own, _, _) = mixed(&sim, &[".tbl"]);
    lose_the_manifest(&sim, OWN);
    let wanted = SalvageOptions { stores: vec![Uid([9; 16])], ..accepting() };
    let error = salvaged(&sim, wanted).unwrap_err();
    assert!(error.to_string().contains(&format!("{own:?} has")), "{error}");
}

/// A checkpoint is a store of its own with tables of its parent: they are its own, and what the parent wrote later is
/// not.
#[test]
fn a_checkpoint_keeps_the_tables_of_its_parents() {
    for generations in [1, 2] {
        let sim = SimFs::new(6);
        store(&sim, OTHER, "parent");
        let mut from = OTHER.to_owned();
        for generation in 1..=generations {
            let to = if generation == generations { OWN.to_owned() } else { format!("/checkpoint{generation}") };
            let db = open(&sim, &from);
            db.checkpoint(Path::new(&to)).unwrap();
            // The parent goes on, under the same key.
            put(&db, "k", "written behind the checkpoint");
            db.flush().unwrap();
            db.close().unwrap();
            from = to;
        }
        let db = open(&sim, OWN);
        put(&db, "child", "its own");
        db.flush().unwrap();
        drop(db);
        sim.settle();
        // The newest table of the direct parent, under a low number that is free.
        let parent = if generations == 1 { OTHER.to_owned() } else { "/checkpoint1".to_owned() };
        let later = files(&sim, &parent, ".tbl").pop().unwrap();
        let bytes = sim.read_all(Path::new(&parent).join(&later)).unwrap();
        sim.write_all(Path::new(OWN).join("000001.tbl"), &bytes).unwrap();
        sim.settle();
        lose_the_manifest(&sim, OWN);
        let (report, rows) = salvaged(&sim, accepting()).unwrap();
        let mut expected = rows_of("parent");
        expected.push(("child".to_owned(), "its own".to_owned()));
        expected.sort();
        assert_eq!(rows, expected, "{generations} generations: {report}");
        assert_eq!(left_alone(&report), ["000001.tbl"], "{report}");
    }
}

/// The files of a checkpoint that was never opened are its parent's but for the manifest.
#[test]
fn a_checkpoint_that_was_never_opened_is_salvaged_by_its_tables() {
    let sim = SimFs::new(7);
    store(&sim, OTHER, "parent");
    let db = open(&sim, OTHER);
    db.checkpoint(Path::new(OWN)).unwrap();
    drop(db);
    for with_manifest in [true, false] {
        let sim = sim.fork();
        sim.delete(Path::new(OWN).join("CURRENT")).unwrap();
        if !with_manifest {
            lose_the_manifest(&sim, OWN);
        }
        let (report, rows) = salvaged(&sim, accepting()).unwrap();
        assert_eq!(rows, rows_of("parent"), "{report}");
        assert_eq!(left_alone(&report), Vec::<String>::new(), "{report}");
    }
}

/// A table of an earlier build names no store: it is taken, as before, and the report says so.
#[test]
fn a_table_that_names_no_store_is_taken_and_named() {
    let sim = SimFs::new(8);
    store(&sim, OWN, "own");
    let file = sim.open(&Path::new(OWN).join("000090.tbl"), Open::Create).unwrap();
    let options = CfOptions { restart_interval: 4, compression: Compression::None, ..CfOptions::default() };
    let settings = WriterSettings::of(&options, 0, 1);
    let mut writer = Writer::new(file, Uid([5; 16]), settings, Arc::new(Plain));
    writer.add(&Record { key: b"early", seqno: 1, kind: Kind::Put, value: b"v", companion: b"" }).unwrap();
    writer.finish().unwrap();
    sim.settle();
    lose_the_manifest(&sim, OWN);
    let (report, rows) = salvaged(&sim, accepting()).unwrap();
    assert!(rows.iter().any(|row| row.0 == "early"), "{report}");
    assert!(report.to_string().contains("do not say which store wrote them: 000090.tbl"), "{report}");
}

/// A salvage of one of two stores that stops at any step leaves no store, or the whole one; the next one succeeds.
#[test]
fn no_crash_mixes_the_stores() {
    let sim = SimFs::new(9);
    let (own, _, moved) = mixed(&sim, &[".tbl", ".log", ".ring"]);
    lose_the_manifest(&sim, OWN);
    let run = |sim: &SimFs| {
        let options = SalvageOptions { stores: vec![own], ..accepting() };
        salvage(Path::new(OWN), Path::new(SAVED), Settings::default(), parts(sim), options)
    };
    let (whole, begin) = (sim.fork(), sim.steps());
    let report = run(&whole).unwrap();
    assert_eq!(left_alone(&report).len(), moved.len(), "{report}");
    let expected = rows(&open(&whole, SAVED));
    assert!(expected.iter().all(|row| !row.0.starts_with("other")), "{expected:?}");
    let steps: Vec<u64> = whole.changing_steps().into_iter().filter(|step| *step >= begin).collect();
    assert!(steps.len() > 30, "{} steps", steps.len());
    let mut whole_stores = 0;
    let crashes = [Crash::Process, Crash::Machine(Loss::DurableOnly), Crash::Machine(Loss::Names)];
    for (first, crash) in crashes.into_iter().enumerate() {
        for step in steps.iter().skip(first).step_by(crashes.len()) {
            let sim = sim.fork();
            let before: Vec<Vec<u8>> = sim.files(OWN).iter().map(|name| read(&sim, OWN, name)).collect();
            sim.crash_at(*step);
            let _ = run(&sim);
            sim.reboot(crash);
            let after: Vec<Vec<u8>> = sim.files(OWN).iter().map(|name| read(&sim, OWN, name)).collect();
            assert!(before == after, "step {step}: the source was changed");
            let settings = Settings { create_if_missing: false, ..Settings::default() };
            if let Ok(db) = Db::open(Path::new(SAVED), settings, parts(&sim)) {
                whole_stores += 1;
                assert_eq!(rows(&db), expected, "step {step}");
            }
        }
    }
    assert!((1..steps.len()).contains(&whole_stores), "{whole_stores} of {} steps", steps.len());
}

fn read(sim: &SimFs, dir: &str, name: &str) -> Vec<u8> {
    sim.read_all(Path::new(dir).join(name)).unwrap()
}

/// Alone in its process: `cargo test -p waxseal-meta --features planted --test meta planted`.
#[cfg(feature = "planted")]
#[test]
fn planted_bugs_are_found() {
    use std::panic::catch_unwind;
    use waxseal_lsm::planted::{Bug, plant};
    let is_found = || {
        let checks = [tables_of_another_store_are_left_alone, the_store_that_current_names_is_salvaged];
        checks.into_iter().any(|check| catch_unwind(check).is_err()) || catch_unwind(no_crash_mixes_the_stores).is_err()
    };
    let clean = !is_found();
    for bug in Bug::OF_SALVAGE {
        plant(Some(bug));
        let found = is_found();
        plant(None);
        assert!(found, "not found: {bug:?}");
    }
    assert!(clean, "the suite fails without a planted bug");
}
