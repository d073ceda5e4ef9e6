//! Damaged values that the log still points to: each loses its own record only. Reads never return an older version
//! instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::Env;
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_testing::gates::GatedFs;
use waxseal_testing::protector::TestProtector;
use waxseal_testing::store::*;

/// The value of each key if no record is lost.
type Truth = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// An entry of a blob file: its key, its first byte in the file and its end.
type Entry = (Vec<u8>, u64, u64);

fn roomy() -> Settings {
    Settings { memtable_bytes: 1 << 20, ..settings() }
}

fn parts_of(sim: &SimFs) -> Parts {
    let options = CfOptions { large_value_bytes: 100, compression: Compression::None, ..options() };
    let families = vec![("default".to_owned(), options)];
    Parts { families, companions: Arc::new(TestProtector::default()), ..parts(sim.env(sim.steps())) }
}

fn open(sim: &SimFs, dir: &Path) -> Result<Db> {
    Db::open(dir, roomy(), parts_of(sim))
}

fn large(n: u8, round: u8) -> Vec<u8> {
    (0..1_000u32).map(|at| (at * (u32::from(n) + 3)) as u8 ^ round.wrapping_mul(31)).collect()
}

/// Creates a killed store with an older version of eight keys in a table, and newer versions of the same length in the
/// log. Key 5 has two newer versions, key 6 a delete and a put, and key 7 is in a batch with small records.
fn killed(dir: &Path, seed: u64, crash: Crash) -> (SimFs, Truth) {
    let sim = SimFs::new(seed);
    let db = open(&sim, dir).unwrap();
    let family = default(&db);
    let mut truth = Truth::new();
    for n in 0..8 {
        put(&db, &family, &[n], &large(n, 0), Durability::Os).unwrap();
    }
    put(&db, &family, b"small", b"old", Durability::Os).unwrap();
    db.flush().unwrap();
    for n in 0..7 {
        if n == 6 {
            delete(&db, &family, &[n]).unwrap();
        }
        put(&db, &family, &[n], &large(n, 1), Durability::Os).unwrap();
        truth.insert(vec![n], Some(large(n, 1)));
    }
    put(&db, &family, &[5], &large(5, 2), Durability::Os).unwrap();
    truth.insert(vec![5], Some(large(5, 2)));
    let mut batch = Batch::new();
    for (key, value) in [(&b"small"[..], &b"new"[..]), (&[7], &large(7, 1)), (b"other", b"new")] {
        batch.push(family.id(), Kind::Put, key, value, db.companions()).unwrap();
        truth.insert(key.to_vec(), Some(value.to_vec()));
    }
    db.commit(&mut batch, Durability::Os).unwrap();
    delete(&db, &family, &[3]).unwrap();
    truth.insert(vec![3], None);
    if crash != Crash::Process {
        // Frames written by the second sync prove the first sync: recovery finds this by following the frames.
        db.sync().unwrap();
        put(&db, &family, b"tail", b"1", Durability::Sync).unwrap();
        truth.insert(b"tail".to_vec(), Some(b"1".to_vec()));
    }
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(crash);
    (sim, truth)
}

/// Returns the blob file that the log points into, which has no footer yet, and its entries: each has 37 bytes, a
/// one-byte key and a value.
fn entries(sim: &SimFs, dir: &Path) -> (PathBuf, Vec<Entry>) {
    let path = dir.join(named(sim, dir, ".val").pop().unwrap());
    let bytes = sim.read_all(&path).unwrap();
    let keys = [0, 1, 2, 3, 4, 5, 6, 5, 7];
    let place = |at: u64| 64 + at * 1_038;
    let entries: Vec<Entry> = (0..).zip(keys).map(|(at, key)| (vec![key], place(at), place(at + 1))).collect();
    assert!(entries.iter().all(|(key, from, _)| bytes[*from as usize + 32] == key[0]));
    (path, entries)
}

/// Returns ways to damage entries of the blob file, each with the damaged entries.
fn damages(entries: &[Entry]) -> Vec<(String, Vec<usize>)> {
    let last = entries.len() - 1;
    let mut all: Vec<(String, Vec<usize>)> = (0..=last).map(|at| ("hit".to_owned(), vec![at])).collect();
    all.push(("hit".to_owned(), vec![0, 2, last]));
    all.push(("hit".to_owned(), (0..=last).collect()));
    all.extend((0..=last).map(|at| ("cut".to_owned(), (at..=last).collect())));
    all.extend([(0, 1), (2, last), (4, 5)].map(|(a, b)| ("swap".to_owned(), vec![a, b])));
    all.push(("remove".to_owned(), (0..=last).collect()));
    all.push(("other".to_owned(), (0..=last).collect()));
    all
}

fn apply(sim: &SimFs, path: &Path, entries: &[Entry], (how, hit): &(String, Vec<usize>)) {
    let mut bytes = sim.read_all(path).unwrap();
    let range = |at: usize| entries[at].1 as usize..entries[at].2 as usize;
    match &how[..] {
        "hit" => {
            for at in hit {
                let end = entries[*at].2 as usize;
                bytes[end - 500..end - 484].iter_mut().for_each(|byte| *byte ^= 0x5A);
            }
        }
        "cut" => bytes.truncate(range(hit[0]).end - 100),
        "swap" => {
            let (a, b) = (bytes[range(hit[0])].to_vec(), bytes[range(hit[1])].to_vec());
            bytes[range(hit[0])].copy_from_slice(&b);
            bytes[range(hit[1])].copy_from_slice(&a);
        }
        "remove" => return sim.delete(path).unwrap(),
        // Replaces the file by that of the older versions.
        _ => {
            let older = named(sim, path.parent().unwrap(), ".val").remove(0);
            bytes = sim.read_all(path.with_file_name(older)).unwrap();
        }
    }
    sim.write_all(path, &bytes).unwrap();
}

/// Returns the keys whose newest version was damaged.
fn lost<'a>(entries: &'a [Entry], hit: &[usize], truth: &Truth) -> Vec<&'a [u8]> {
    let is_newest = |at: &usize| entries.iter().rposition(|(key, ..)| *key == entries[*at].0) == Some(*at);
    let newest = hit.iter().filter(|at| is_newest(at)).map(|at| &entries[*at].0[..]);
    newest.filter(|key| truth[*key].is_some()).collect()
}

/// Checks that every key has its last written value; lost keys must fail with corruption.
#[track_caller]
fn check(db: &Db, truth: &Truth, lost: &[&[u8]], what: &str) {
    let family = default(db);
    let mut expected = Rows::new();
    for (key, value) in truth {
        match get(db, &family, key, At::Latest) {
            Ok(found) => {
                assert!(!lost.contains(&&key[..]), "{what}: {key:?} answers");
                assert!(found == *value, "{what}: {key:?} answers another version");
                expected.extend(found.map(|value| (key.clone(), value)));
            }
            Err(error) => assert!(error.is_corruption() && lost.contains(&&key[..]), "{what}: {key:?}: {error}"),
        }
    }
    let (mut cursor, mut seen, mut errors) = (db.cursor(&family, At::Latest, ALL).unwrap(), Rows::new(), 0);
    let mut moved = cursor.first();
    while moved.is_err() || cursor.valid() {
        match moved {
            Ok(()) => seen.push((cursor.key().to_vec(), cursor.value().to_vec())),
            Err(error) => {
                assert!(error.is_corruption() && errors < 9, "{what}: {error}");
                errors += 1;
            }
        }
        moved = cursor.next();
    }
    assert!(seen == expected, "{what}: a scan sees other rows");
    // A scan also reports a lost version below a newer one.
    assert!(errors >= lost.len(), "{what}: {errors} errors in a scan");
}

#[test]
fn a_damaged_value_of_the_log_costs_its_own_record() {
    let dir = Path::new("/store");
    for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly)] {
        let (whole, truth) = killed(dir, 1, crash);
        let (path, entries) = entries(&whole, dir);
        for damage in damages(&entries) {
            let sim = whole.fork();
            apply(&sim, &path, &entries, &damage);
            let (what, lost) = (format!("{crash:?}, {damage:?}"), lost(&entries, &damage.1, &truth));
            let before = sim_bytes(&sim, dir);
            let reader = Db::open_read_only(dir, roomy(), parts_of(&sim)).unwrap();
            check(&reader, &truth, &lost, &what);
            assert_eq!(reader.recovery().lost_values, damage.1.len() as u64, "{what}");
            assert!(sim_bytes(&sim, dir) == before, "{what}: a reader wrote");
            drop(reader);
            let db = open(&sim, dir).unwrap();
            let report = db.recovery();
            assert_eq!((report.cut_bytes, report.lost_values), (0, damage.1.len() as u64), "{what}");
            check(&db, &truth, &lost, &what);
            let mut truth = truth.clone();
            let kept = lost.split_first().map_or(&lost[..], |(first, rest)| {
                put(&db, &default(&db), first, b"written again", Durability::Os).unwrap();
                truth.insert(first.to_vec(), Some(b"written again".to_vec()));
                rest
            });
            check(&db, &truth, kept, &what);
            db.flush().unwrap();
            db.compact(&default(&db), &ALL).unwrap();
            check(&db, &truth, kept, &what);
            db.close().unwrap();
            drop(db);
            let db = open(&sim, dir).unwrap();
            assert_eq!(db.recovery().lost_values, 0, "{what}");
            check(&db, &truth, kept, &what);
        }
    }
}

/// If no later frame proves that a frame was complete, the machine may have failed before it was; the log then ends
/// before this frame.
#[test]
fn a_value_that_nothing_proves_was_whole_ends_the_log() {
    let dir = Path::new("/store");
    let sim = SimFs::new(7);
    let db = open(&sim, dir).unwrap();
    let family = default(&db);
    put(&db, &family, b"a", &large(1, 0), Durability::Os).unwrap();
    db.sync().unwrap();
    for n in 2..5 {
        put(&db, &family, &[n], &large(n, 0), Durability::Os).unwrap();
    }
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Machine(Loss::KeepAll));
    let path = dir.join(named(&sim, dir, ".val").pop().unwrap());
    let mut bytes = sim.read_all(&path).unwrap();
    let at = bytes.windows(64).position(|window| window == &large(3, 0)[..64]).unwrap();
    bytes[at + 100..at + 200].fill(0);
    sim.write_all(&path, &bytes).unwrap();
    let db = open(&sim, dir).unwrap();
    let report = db.recovery();
    assert!(report.cut_bytes > 0 && report.lost_values == 0 && report.may_lack_unsynced, "{report:?}");
    let expected: Rows = vec![(vec![2], large(2, 0)), (b"a".to_vec(), large(1, 0))];
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected);
}

/// A crash at any step of a recovery that loses a value leaves the same results.
#[test]
fn a_recovery_that_loses_a_value_may_crash_anywhere() {
    let dir = Path::new("/store");
    let (whole, truth) = killed(dir, 3, Crash::Process);
    let (path, entries) = entries(&whole, dir);
    let damage = ("hit".to_owned(), vec![1, 6]);
    apply(&whole, &path, &entries, &damage);
    let lost = lost(&entries, &damage.1, &truth);
    let mut crashed = 0;
    for step in 0.. {
        let sim = whole.fork();
        sim.crash_at(sim.steps() + step);
        let outcome = open(&sim, dir).map(drop);
        let is_crashed = sim.is_crashed();
        assert!(outcome.is_ok() || is_crashed, "step {step}: {outcome:?}");
        sim.reboot(Crash::Process);
        check(&open(&sim, dir).unwrap(), &truth, &lost, &format!("step {step}"));
        if !is_crashed {
            break;
        }
        crashed += 1;
    }
    assert!(crashed > 20, "{crashed}");
}

/// An unreadable value may become readable later, so the open is rejected with that advice. With `accept_loss` only
/// this value is lost. A reader loses no value permanently, and opens.
#[test]
fn a_value_that_the_device_does_not_return_is_lost_only_if_that_is_accepted() {
    let dir = Path::new("/store");
    let (whole, truth) = killed(dir, 5, Crash::Process);
    let (path, entries) = entries(&whole, dir);
    let all: Vec<usize> = (0..entries.len()).collect();
    let lost = lost(&entries, &all, &truth);
    let unread = |sim: &SimFs| {
        let env = sim.env(9);
        let (fs, gates) = GatedFs::new(env.fs);
        *gates.unread.lock().unwrap() = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Parts { env: Env { fs: Arc::new(fs), ..env }, ..parts_of(sim) }
    };
    let sim = whole.fork();
    let refused = Db::open(dir, roomy(), unread(&sim)).map(drop).unwrap_err();
    assert!(refused.is_corruption() && refused.to_string().contains("`accept_loss`"), "{refused}");
    check(&Db::open_read_only(dir, roomy(), unread(&sim)).unwrap(), &truth, &lost, "a reader");
    check(&open(&sim.fork(), dir).unwrap(), &truth, &[], "later");
    let db = Db::open(dir, Settings { accept_loss: true, ..roomy() }, unread(&sim)).unwrap();
    assert_eq!((db.recovery().cut_bytes, db.recovery().lost_values), (0, entries.len() as u64));
    check(&db, &truth, &lost, "accepted");
}

/// The error of a rejected open names the user's options.
#[test]
fn a_refused_open_names_the_way_on() {
    let dir = Path::new("/store");
    let (whole, _) = killed(dir, 6, Crash::Process);
    let refused = |hurt: &dyn Fn(&SimFs)| {
        let sim = whole.fork();
        hurt(&sim);
        let writer = open(&sim, dir).map(drop).unwrap_err().to_string();
        let reader = Db::open_read_only(dir, roomy(), parts_of(&sim)).map(drop).unwrap_err().to_string();
        [writer, reader]
    };
    let manifest = whole.files(dir).into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let check = |hurt: &dyn Fn(&SimFs), way: &str| {
        for error in refused(hurt) {
            assert!(error.contains(way), "{error}");
        }
    };
    check(&|sim| drop(sim.delete(dir.join(&manifest))), "`salvage`");
    check(&|sim| sim.flip(dir.join(&manifest), 8 * 4_130).unwrap(), "`salvage`");
    check(&|sim| sim.delete(dir.join(named(sim, dir, ".log").remove(0))).unwrap(), "`salvage`");
    check(&|sim| sim.flip(dir.join(named(sim, dir, ".ring").remove(0)), 8 * 70).unwrap(), "`accept_loss`");
}
