//! Opening and closing: permissions, created files, and rejected opens, which change no file.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::{Crash, Fault, Loss};
use waxseal_lsm::env::work::Mode;
use waxseal_lsm::env::{Env, Fs, MemoryFs, RealFs};
use waxseal_lsm::error::{ErrorKind, Verdict};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_testing::store::*;

#[test]
fn a_second_handle_of_this_process_is_told_who_holds_the_store() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let db = Db::open(&dir, settings(), Parts::real()).unwrap();
    let here = format!("process {}", std::process::id());
    for error in [
        assert_kind(Db::open(&dir, settings(), Parts::real()), ErrorKind::Locked, "open"),
        assert_kind(Db::destroy(&dir, &Env::real()), ErrorKind::Locked, "destroy"),
    ] {
        assert!(error.to_string().contains(&format!("by this process ({here})")), "{error}");
    }
    db.close().unwrap();
    Db::open(&dir, settings(), Parts::real()).unwrap();
}

const CHILD: &str = "WAXSEAL_TEST_HOLD";

/// Not a test of its own: the test below runs it in another process, where it holds a store until its input ends.
#[test]
fn child_that_holds_a_store() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let db = Db::open(Path::new(&dir), settings(), Parts::real()).unwrap();
    put(&db, &default(&db), b"from", b"the child", Durability::Sync).unwrap();
    println!("holding");
    std::io::read_to_string(std::io::stdin()).unwrap();
}

#[test]
fn another_process_is_named_and_its_death_frees_the_store() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "opening::child_that_holds_a_store", "--nocapture"])
        .env(CHILD, &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut lines = lines.map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains("holding")), "the child did not open the store");
    let error = assert_kind(Db::open(&dir, settings(), Parts::real()), ErrorKind::Locked, "open");
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let db = Db::open(&dir, settings(), Parts::real()).unwrap();
    assert_eq!(get(&db, &default(&db), b"from", At::Latest).unwrap().unwrap(), b"the child");
}

#[test]
fn a_closed_store_answers_closed_everywhere() {
    let (sim, dir) = sim(1);
    let db = open(&sim, &dir);
    fill(&db, 0..10, 0);
    let family = default(&db);
    db.close().unwrap();
    db.close().unwrap();
    for (call, error) in every_call(&db, &family, &dir) {
        assert_eq!(error.map(|error| error.kind().clone()), Some(ErrorKind::Closed), "{call}");
    }
    assert_eq!(sim.held_locks().len(), 0);
    let again = open(&sim, &dir);
    assert_eq!(rows(&again, &default(&again), At::Latest).unwrap(), filled(0..10, 0));
}

#[test]
fn a_missing_store_is_created_only_if_asked_for() {
    let (sim, dir) = sim(2);
    let settings = Settings { create_if_missing: false, ..settings() };
    let try_open = || Db::open(&dir, settings.clone(), parts(sim.env(1)));
    assert_kind(try_open(), ErrorKind::Invalid, "a missing directory");
    assert!(!sim.exists(&dir).unwrap(), "nothing was made");
    assert_kind(read_only(&sim, &dir), ErrorKind::Invalid, "a missing directory, read-only");
    sim.create_dir_all(&dir).unwrap();
    sim.write_all(dir.join("notes.txt"), b"mine").unwrap();
    assert_kind(try_open(), ErrorKind::Invalid, "somebody else's directory");
    assert_kind(read_only(&sim, &dir), ErrorKind::Invalid, "somebody else's directory, read-only");
    assert_kind(Db::destroy(&dir, &sim.env(1)), ErrorKind::Invalid, "destroying somebody else's directory");
    assert_eq!(sim.files(&dir), ["notes.txt"]);
    let beside = Settings { beside_other_files: true, ..settings.clone() };
    let beside = Settings { create_if_missing: true, ..beside };
    Db::open(&dir, beside, parts(sim.env(1))).unwrap().close().unwrap();
    try_open().unwrap().close().unwrap();
    Db::destroy(&dir, &sim.env(1)).unwrap();
    assert_eq!(sim.files(&dir), ["LOCK", "notes.txt"], "what is not ours stays");
}

#[test]
fn destroy_leaves_nothing_and_takes_what_an_interrupted_one_left() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    db.settle().unwrap();
    assert_kind(Db::destroy(&dir, &sim.env(1)), ErrorKind::Locked, "open");
    db.close().unwrap();
    sim.delete(dir.join("LOCK")).unwrap();
    let half = sim.copy(waxseal_lsm::env::Machine::default());
    Db::destroy(&dir, &sim.env(1)).unwrap();
    assert!(!sim.exists(&dir).unwrap());
    half.delete(dir.join("CURRENT")).unwrap();
    Db::destroy(&dir, &half.env(1)).unwrap();
    assert!(!half.exists(&dir).unwrap());
}

#[test]
fn another_order_is_refused_and_changes_nothing() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir);
    let back = db.create_family("back", CfOptions { order: backwards(), ..options() }).unwrap();
    for key in ["a", "b", "c"] {
        put(&db, &back, key.as_bytes(), b"1", Durability::Os).unwrap();
    }
    kill(&sim, db); // a log to replay: a rejected open must not have started on it
    let before = sim_bytes(&sim, &dir);
    let open_with = |families: Vec<(String, CfOptions)>, orders| {
        Db::open(&dir, settings(), Parts { families, orders, ..parts(sim.env(9)) })
    };
    let error = assert_kind(
        open_with(vec![("back".to_owned(), options())], vec![backwards()]),
        ErrorKind::Invalid,
        "bytewise options for the family",
    );
    assert!(error.to_string().contains("test.backwards") && error.to_string().contains("back"), "{error}");
    let error = assert_kind(open_with(Vec::new(), Vec::new()), ErrorKind::Invalid, "an order that nobody gave");
    assert!(error.to_string().contains("test.backwards"), "{error}");
    assert_eq!(sim_bytes(&sim, &dir), before);
    let db = open_with(Vec::new(), vec![backwards()]).unwrap();
    let found = rows(&db, &db.family("back").unwrap(), At::Latest).unwrap();
    assert_eq!(found.iter().map(|(key, _)| &key[..]).collect::<Vec<_>>(), [b"c", b"b", b"a"]);
}

#[test]
fn settings_that_cannot_work_change_nothing() {
    let (sim, dir) = sim(5);
    let bad = Settings { ring_bytes: 5000, segment_bytes: 1, ..settings() };
    let error = assert_kind(Db::open(&dir, bad, parts(sim.env(1))), ErrorKind::Invalid, "settings");
    assert!(error.to_string().contains("ring_bytes") && error.to_string().contains("segment_bytes"), "{error}");
    let families = vec![("default".to_owned(), CfOptions { fanout: 1, ..options() })];
    let outcome = Db::open(&dir, settings(), Parts { families, ..parts(sim.env(1)) });
    assert_kind(outcome, ErrorKind::Invalid, "options");
    assert!(!sim.exists(&dir).unwrap());
}

#[test]
fn a_family_is_created_and_dropped_once() {
    let (sim, dir) = sim(6);
    let db = open(&sim, &dir);
    let family = db.create_family("f", options()).unwrap();
    for name in ["f", "default", "", &"n".repeat(256)] {
        assert_kind(db.create_family(name, options()), ErrorKind::Invalid, name);
    }
    put(&db, &family, b"k", b"v", Durability::Os).unwrap();
    let snapshot = db.snapshot().unwrap();
    db.drop_family("f").unwrap();
    assert_kind(db.drop_family("f"), ErrorKind::Invalid, "dropped twice");
    assert_kind(db.drop_family("default"), ErrorKind::Invalid, "the default family");
    assert_kind(put(&db, &family, b"k", b"v", Durability::Os), ErrorKind::Invalid, "a put into a dropped family");
    for at in [At::Latest, At::Snapshot(&snapshot)] {
        assert_kind(get(&db, &family, b"k", at), ErrorKind::Invalid, "a get in a dropped family");
        assert_kind(rows(&db, &family, at), ErrorKind::Invalid, "a scan of a dropped family");
    }
    let next = db.create_family("f", options()).unwrap();
    assert!(next.id() > family.id(), "ids are never used again");
    assert_eq!(rows(&db, &next, At::Latest).unwrap(), []);
    db.close().unwrap();
    let db = open(&sim, &dir);
    assert_eq!(rows(&db, &db.family("f").unwrap(), At::Latest).unwrap(), []);
}

#[test]
fn directories_that_were_made_on_the_way_survive_the_machine() {
    let (sim, _) = sim(7);
    let dir = Path::new("/a/b/c/store");
    let db = open(&sim, dir);
    put(&db, &default(&db), b"k", b"v", Durability::Sync).unwrap();
    let copy = Path::new("/copies/of/today");
    db.checkpoint(copy).unwrap();
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Machine(Loss::DurableOnly));
    for dir in [dir, copy] {
        let db = Db::open(dir, Settings { create_if_missing: false, ..settings() }, parts(sim.env(3)));
        let db = db.unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"v");
    }
}

/// The directory may exist without a durable name: an open that finds no store in it syncs the name.
#[test]
fn a_first_open_that_is_killed_takes_no_later_commit_along() {
    let mut killed = 0;
    for step in 0.. {
        let (sim, _) = sim(70);
        let dir = Path::new("/a/store");
        sim.crash_at(sim.steps() + step);
        let _ = try_open(&sim, dir).map(|db| drop(db.close()));
        if !sim.is_crashed() {
            break;
        }
        sim.reboot(Crash::Process);
        let db = open(&sim, dir);
        put(&db, &default(&db), b"k", b"v", Durability::Sync).unwrap();
        sim.crash_at(sim.steps());
        drop(db);
        sim.reboot(Crash::Machine(Loss::DurableOnly));
        let db = Db::open(dir, Settings { create_if_missing: false, ..settings() }, parts(sim.env(3)));
        let db = db.unwrap_or_else(|error| panic!("killed at step {step}: {error}"));
        assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"v");
        killed += 1;
    }
    assert!(killed > 10, "{killed}");
}

/// A failed sync of the parent directory removes the new directory, so that the next call creates it and its name
/// again.
#[test]
fn a_checkpoint_whose_directory_is_not_durable_leaves_none() {
    let (sim, dir) = sim(71);
    let db = open(&sim, &dir);
    put(&db, &default(&db), b"k", b"v", Durability::Sync).unwrap();
    let copy = Path::new("/copy");
    sim.fail_at(sim.steps(), Fault::SyncFailed);
    db.checkpoint(copy).unwrap_err();
    assert!(sim.clear_faults() && !sim.exists(copy).unwrap());
    db.checkpoint(copy).unwrap();
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Machine(Loss::DurableOnly));
    let db = Db::open(copy, Settings { create_if_missing: false, ..settings() }, parts(sim.env(3))).unwrap();
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"v");
}

/// Two checkpoints into one directory would take each other's files for their own, and a failed one would remove the
/// other's. `scripts/durability` tests that the lock is held until the end.
#[test]
fn a_checkpoint_holds_the_lock_of_its_copy() {
    let (sim, dir) = sim(72);
    let db = open(&sim, &dir);
    fill(&db, 0..20, 0);
    let copy = Path::new("/copy");
    sim.create_dir_all(copy).unwrap();
    let other = sim.lock(&copy.join("LOCK"), "process another").unwrap().unwrap();
    let refused = assert_kind(db.checkpoint(copy), ErrorKind::Locked, "while another is at it");
    assert!(refused.to_string().contains("another"), "{refused}");
    assert_eq!(sim.files(copy), ["LOCK"]);
    drop(other);
    db.checkpoint(copy).unwrap();
    assert_kind(db.checkpoint(copy), ErrorKind::Invalid, "into a store");
    let db = open(&sim, copy);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..20, 0));
}

#[test]
fn a_store_with_a_missing_file_says_which() {
    let (sim, dir) = sim(8);
    let db = open(&sim, &dir);
    fill(&db, 0..100, 0);
    db.flush().unwrap();
    fill(&db, 100..110, 0);
    db.sync().unwrap();
    let machine = sim.machine(&dir).unwrap();
    let without = |name: &str| {
        let copy = sim.copy(machine);
        copy.delete(dir.join("LOCK")).unwrap();
        copy.delete(dir.join(name)).unwrap();
        copy
    };
    for end in [".log", ".ring", "CURRENT"] {
        let name = &named(&sim, &dir, end)[0];
        let copy = without(name);
        for outcome in [try_open(&copy, &dir), read_only(&copy, &dir)] {
            let error = outcome.map(drop).unwrap_err();
            let damage = error.damage().unwrap_or_else(|| panic!("without {name}: {error:?}"));
            assert_eq!((&damage.file, damage.verdict), (name, Verdict::Missing), "{error}");
        }
    }
    let manifests: Vec<String> = sim.files(&dir).into_iter().filter(|name| name.starts_with("MANIFEST")).collect();
    assert_eq!(manifests.len(), 1);
    let error = try_open(&without(&manifests[0]), &dir).map(drop).unwrap_err();
    assert_eq!(error.damage().map(|damage| (&damage.file, damage.verdict)), Some((&manifests[0], Verdict::Missing)));

    let table = &named(&sim, &dir, ".tbl")[0];
    let copy = without(table);
    for outcome in [read_only(&copy, &dir), try_open(&copy, &dir)] {
        let db = outcome.unwrap_or_else(|error| panic!("without {table}: {error}"));
        let error = get(&db, &default(&db), &record(5, 0).0, At::Latest).unwrap_err();
        let damage = error.damage().unwrap_or_else(|| panic!("without {table}: {error:?}"));
        assert_eq!((&damage.file, damage.verdict, damage.cf.as_deref()), (table, Verdict::Missing, Some("default")));
        assert_eq!(get(&db, &default(&db), &record(105, 0).0, At::Latest).unwrap(), Some(record(105, 0).1));
    }
    drop(db);
}

#[test]
fn a_store_of_a_newer_format_is_left_alone() {
    let (sim, dir) = sim(9);
    let db = open(&sim, &dir);
    fill(&db, 0..50, 0);
    db.flush().unwrap();
    db.close().unwrap();
    let manifest = sim.files(&dir).into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let mut bytes = sim.read_all(dir.join(&manifest)).unwrap();
    bytes[20] = 1; // an incompatible feature
    let check = waxseal_lsm::checksum::hash(&bytes[..56]);
    bytes[56..64].copy_from_slice(&check.to_le_bytes());
    sim.write_all(dir.join(&manifest), &bytes).unwrap();
    let before = sim_bytes(&sim, &dir);
    assert_kind(try_open(&sim, &dir), ErrorKind::FormatTooNew, "open");
    assert_kind(read_only(&sim, &dir), ErrorKind::FormatTooNew, "read-only");
    assert_eq!(sim_bytes(&sim, &dir), before);
}

#[test]
fn a_store_in_memory_is_a_store() {
    let fs = Arc::new(MemoryFs::new());
    let env = Env { fs, ..Env::real() };
    assert_eq!(env.work, Mode::Threads);
    let dir = Path::new("/memory");
    let db = Db::open(dir, settings(), parts(env.clone())).unwrap();
    fill(&db, 0..500, 0);
    db.compact(&default(&db), &ALL).unwrap();
    db.checkpoint(Path::new("/copy")).unwrap();
    db.close().unwrap();
    for dir in [dir, Path::new("/copy")] {
        let db = Db::open(dir, settings(), parts(env.clone())).unwrap();
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..500, 0));
    }
}

/// Runs `check` in a forked child; the result returns as an otherwise unused error number.
#[expect(unsafe_code, reason = "to fork")]
fn in_a_child(check: impl Fn() -> bool + Send + Sync + 'static) -> bool {
    const NO: i32 = 4000;
    const YES: i32 = 4001;
    let mut command = Command::new("/nonexistent");
    let answer =
        move || -> std::io::Result<()> { Err(std::io::Error::from_raw_os_error(if check() { YES } else { NO })) };
    // SAFETY: between fork and exec the closure makes calls that fail before they take a lock, and uses the allocator,
    // which the C library makes usable in a forked child.
    unsafe { command.pre_exec(answer) };
    match command.spawn().err().and_then(|error| error.raw_os_error()) {
        Some(YES) => true,
        Some(NO) => false,
        other => panic!("no answer from the child: {other:?}"),
    }
}

/// A child between fork and exec has a copy of every descriptor, including the lock's.
#[test]
#[expect(unsafe_code, reason = "to stop a child before exec")]
fn a_child_on_its_way_to_exec_does_not_hold_the_lock() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let db = Db::open(&dir, settings(), Parts::real()).unwrap();
    let (mut go_ahead, mut go) = std::io::pipe().unwrap();
    let (mut forked, mut tell) = std::io::pipe().unwrap();
    let mut command = Command::new("/nonexistent");
    let wait = move || {
        tell.write_all(b"f")?;
        go_ahead.read_exact(&mut [0])
    };
    // SAFETY: between fork and exec the closure writes and reads a byte.
    unsafe { command.pre_exec(wait) };
    std::thread::scope(|scope| {
        let child = scope.spawn(move || command.spawn().map(drop).unwrap_err());
        forked.read_exact(&mut [0]).unwrap();
        db.close().unwrap();
        let again = Db::open(&dir, settings(), Parts::real());
        go.write_all(b"g").unwrap();
        child.join().unwrap();
        again.unwrap();
    });
}

#[test]
fn a_forked_child_can_do_nothing_with_its_parents_store() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let db = Db::open(&dir, settings(), Parts::real()).unwrap();
    put(&db, &default(&db), b"k", b"v", Durability::Sync).unwrap();
    let (family, child) = (default(&db), db.clone());
    assert!(in_a_child(move || {
        let is_refused = |error: &waxseal_lsm::error::Error| {
            *error.kind() == ErrorKind::Invalid && error.to_string().contains("forked")
        };
        let calls = every_call(&child, &family, &dir);
        calls.iter().all(|(_, error)| error.as_ref().is_some_and(is_refused))
            && child.close().is_err_and(|error| is_refused(&error))
    }));
    put(&db, &default(&db), b"k", b"w", Durability::Sync).unwrap();
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"w");
    assert!(RealFs.exists(db.path()).unwrap());
}
