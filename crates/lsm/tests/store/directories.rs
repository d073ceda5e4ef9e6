//! Directories with foreign contents: no file in them is created, changed or removed.

use std::path::Path;

use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::sim::{Crash, Fault, Loss};
use waxseal_lsm::env::{Env, Fs, Machine, SimFs};
use waxseal_lsm::error::{ErrorKind, Verdict};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_testing::store::*;

/// Returns the files with their bytes, except for the lock file, whose text names a process.
fn picture(sim: &SimFs, dir: &Path) -> Vec<(String, Vec<u8>)> {
    sim.files(dir).into_iter().map(|name| (name.clone(), sim.read_all(dir.join(&name)).unwrap())).collect()
}

fn leveldbs() -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("CURRENT", b"MANIFEST-000004\n"),
        ("LOCK", b""),
        ("LOG", b"2026/11/27 Recovering log"),
        ("MANIFEST-000004", b"\x56\xf9\xb8\xf8\x1c\0\x01\x01\x1aleveldb.BytewiseComparator"),
        ("000003.log", b"\x1c\xc5\x28\x0b\x11\0\x01\x01"),
        ("000005.ldb", b"\0\x04k\0\0\0"),
    ]
}

#[test]
fn a_directory_of_somebody_else_is_refused_and_left_as_it_is() {
    let rocksdbs: Vec<_> = leveldbs().into_iter().chain([("OPTIONS-000007", &b"[Version]"[..])]).collect();
    let own: Vec<(&str, &[u8])> = vec![("CURRENT", b"42"), ("MANIFEST-000001", b"cargo"), ("000001.log", b"day 1")];
    let cases = [
        (leveldbs(), "a LevelDB database"),
        (rocksdbs, "a RocksDB database"),
        (own, "other files"),
        (vec![("000001.log", &b"day 1"[..])], "\"000001.log\""),
        (vec![("MANIFEST-000001", &b"cargo"[..])], "\"MANIFEST-000001\""),
        (vec![("notes.txt", &b"mine"[..])], "\"notes.txt\""),
        (vec![("LOCK", &b"my padlock"[..])], "\"LOCK\""),
    ];
    for (files, named) in cases {
        let (sim, dir) = sim(80);
        sim.create_dir_all(&dir).unwrap();
        files.iter().for_each(|(name, bytes)| sim.write_all(dir.join(name), bytes).unwrap());
        let before = picture(&sim, &dir);
        for create_if_missing in [true, false] {
            let settings = Settings { create_if_missing, ..settings() };
            let error = assert_kind(Db::open(&dir, settings, parts(sim.env(1))), ErrorKind::Invalid, "open");
            assert!(error.to_string().contains(named), "{error}");
        }
        let error = assert_kind(read_only(&sim, &dir), ErrorKind::Invalid, "read-only");
        assert!(error.to_string().contains(named), "{error}");
        let error = assert_kind(Db::destroy(&dir, &sim.env(1)), ErrorKind::Invalid, "destroy");
        assert!(error.to_string().contains(named), "{error}");
        let db = open(&sim, Path::new("/other"));
        assert_kind(db.checkpoint(&dir), ErrorKind::Invalid, "a checkpoint");
        assert_eq!(picture(&sim, &dir), before, "{named}");
    }
}

#[test]
fn a_directory_of_directories_is_not_empty() {
    let (sim, dir) = sim(81);
    sim.create_dir_all(&dir.join("photos")).unwrap();
    assert_kind(try_open(&sim, &dir), ErrorKind::Invalid, "open");
    assert_eq!(sim.files(&dir), [""; 0]);
    let found = Path::new("/mounted");
    sim.create_dir_all(&found.join("lost+found")).unwrap();
    open(&sim, found).close().unwrap();
    open(&sim, found).close().unwrap();
    Db::destroy(found, &sim.env(1)).unwrap();
    assert!(sim.exists(&found.join("lost+found")).unwrap());
    open(&sim, found).close().unwrap(); // files left by a destroy count as empty
}

#[test]
fn a_destroy_that_succeeds_leaves_no_file() {
    let (sim, dir) = sim(89);
    let db = open(&sim, &dir);
    fill(&db, 0..10, 0);
    db.close().unwrap();
    for step in 0.. {
        let sim = sim.fork();
        sim.fail_at(sim.steps() + step, Fault::Error(std::io::ErrorKind::PermissionDenied));
        let destroyed = Db::destroy(&dir, &sim.env(1));
        let left: Vec<String> = sim.files(&dir).into_iter().filter(|name| name != "LOCK").collect();
        if !sim.clear_faults() {
            return;
        }
        assert!(destroyed.is_err() || left.is_empty(), "step {step}: {left:?}");
    }
}

#[test]
fn other_files_are_allowed_where_the_caller_says_so() {
    let (sim, dir) = sim(82);
    sim.create_dir_all(&dir).unwrap();
    sim.write_all(dir.join("notes.txt"), b"mine").unwrap();
    let beside = || Settings { beside_other_files: true, ..settings() };
    let db = Db::open(&dir, beside(), parts(sim.env(1))).unwrap();
    fill(&db, 0..10, 0);
    db.close().unwrap();
    open(&sim, &dir).close().unwrap(); // an existing store needs no such option
    Db::destroy(&dir, &sim.env(1)).unwrap();
    assert_eq!(sim.read_all(dir.join("notes.txt")).unwrap(), b"mine");
    // Never over a name that the store would use, and never over another engine's files.
    for name in ["000001.log", "CURRENT", "MANIFEST-000001", "000009.ldb"] {
        sim.write_all(dir.join(name), b"mine").unwrap();
        let before = picture(&sim, &dir);
        assert_kind(Db::open(&dir, beside(), parts(sim.env(1))), ErrorKind::Invalid, name);
        assert_eq!(picture(&sim, &dir), before);
        sim.delete(dir.join(name)).unwrap();
    }
}

#[test]
fn a_users_file_of_our_name_in_a_store_stays() {
    let (sim, dir) = sim(83);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    db.close().unwrap();
    drop(db);
    let own = ["000900.log", "MANIFEST-000901", "000902.tbl", "000903.trash"];
    own.iter().for_each(|name| sim.write_all(dir.join(name), b"my own notes").unwrap());
    sim.create_dir_all(&dir.join("000904.val")).unwrap();
    for _ in 0..3 {
        let db = open(&sim, &dir);
        fill(&db, 0..300, 0);
        db.settle().unwrap();
        db.close().unwrap();
    }
    let kept = |name: &&str| sim.read_all(dir.join(name)).is_ok_and(|bytes| bytes == b"my own notes");
    assert!(own.iter().all(kept), "{:?}", sim.files(&dir));
    Db::destroy(&dir, &sim.env(1)).unwrap();
    assert!(own.iter().all(kept) && sim.exists(&dir.join("000904.val")).unwrap());
    let left = sim.files(&dir);
    assert_eq!(left.iter().filter(|name| *name != "LOCK").count(), own.len(), "{left:?}");
}

/// A store without `CURRENT` is damaged, whatever other files remain; the error does not claim that no store exists.
#[test]
fn a_store_without_current_is_damaged() {
    let (sim, dir) = sim(84);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    db.flush().unwrap();
    fill(&db, 300..310, 0);
    kill(&sim, db);
    sim.delete(dir.join("CURRENT")).unwrap();
    let names = sim.files(&dir);
    for kept in [".log", ".ring", ".tbl"] {
        let copy = sim.copy(Machine::default());
        let without = |name: &&String| !name.ends_with(kept) && !name.starts_with("MANIFEST");
        names.iter().filter(without).for_each(|name| copy.delete(dir.join(name)).unwrap());
        copy.delete(dir.join("LOCK")).ok();
        let before = copy.files(&dir);
        for outcome in [try_open(&copy, &dir), read_only(&copy, &dir)] {
            let error = outcome.map(drop).unwrap_err();
            assert_eq!(error.damage().map(|damage| damage.verdict), Some(Verdict::Missing), "{kept}: {error}");
            assert!(error.to_string().contains("salvage"), "{error}");
        }
        assert_eq!(copy.files(&dir), before, "a refused open creates nothing");
    }
}

/// The files of an interrupted checkpoint are not a store, nor a damaged store.
#[test]
fn an_interrupted_checkpoint_is_no_store_and_is_destroyed_as_such() {
    let (sim, dir) = sim(85);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let (mut unfinished, copy) = (0, Path::new("/copy"));
    for step in 0.. {
        let fork = sim.fork();
        let db = open(&fork, &dir);
        fork.crash_at(fork.steps() + step);
        let outcome = db.checkpoint(copy);
        let is_through = !fork.is_crashed();
        drop(db);
        if is_through {
            outcome.unwrap();
            break;
        }
        let crash = if step % 2 == 0 { Crash::Process } else { Crash::Machine(Loss::Random { seed: step }) };
        fork.reboot(crash);
        let opened = Db::open(copy, Settings { create_if_missing: false, ..settings() }, parts(fork.env(3)));
        match opened {
            Ok(db) => assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..300, 0)),
            Err(error) => {
                assert_eq!(*error.kind(), ErrorKind::Invalid, "at step {step}: {error}");
                if error.to_string().contains("checkpoint") {
                    unfinished += 1;
                    assert_kind(try_open(&fork, copy), ErrorKind::Invalid, "into an unfinished checkpoint");
                    Db::destroy(copy, &fork.env(1)).unwrap();
                    assert!(!fork.exists(copy).unwrap());
                }
                let db = open(&fork, copy);
                fill(&db, 0..5, 0);
                db.close().unwrap();
            }
        }
    }
    assert!(unfinished > 3, "{unfinished}");
}

/// A store creation that runs out of space at any step reports it. The remaining files are not taken for a store, and a
/// later open with enough space creates one.
#[test]
fn a_creation_without_room_fails_with_its_cause_and_is_made_up_for_later() {
    let whole = |sim: &SimFs, dir: &Path| {
        let db = open(sim, dir);
        assert!(!db.is_read_only());
        put(&db, &default(&db), b"k", b"v", Durability::Sync).unwrap();
        db.close().unwrap();
        drop(db);
        let db = open(sim, dir);
        assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().unwrap(), b"v");
    };
    let mut refused = 0;
    for step in 0.. {
        let (sim, dir) = sim(86);
        sim.fail_at(sim.steps() + step, Fault::Error(std::io::ErrorKind::StorageFull));
        let outcome = try_open(&sim, &dir);
        if !sim.clear_faults() {
            outcome.unwrap().close().unwrap();
            break;
        }
        match outcome {
            // A failure after the creation does not affect it, nor does one while writing the name into the lock file.
            Ok(db) => assert!(!db.is_read_only(), "at step {step}"),
            Err(error) => {
                refused += 1;
                assert!(error.is_out_of_space(), "at step {step}: {error}");
                assert_kind(read_only(&sim, &dir), ErrorKind::Invalid, "read-only");
            }
        }
        whole(&sim, &dir);
    }
    assert!(refused > 10, "{refused}");
    for free in (0..).step_by(4096) {
        let (sim, dir) = sim(87);
        sim.set_free_space(Some(free));
        match try_open(&sim, &dir) {
            Ok(db) => {
                assert!(!db.is_read_only(), "with {free} bytes free");
                break;
            }
            Err(error) => assert!(error.is_out_of_space(), "with {free} bytes free: {error}"),
        }
        assert_kind(read_only(&sim, &dir), ErrorKind::Invalid, "read-only");
        sim.set_free_space(None);
        whole(&sim, &dir);
    }
}

/// A file with the highest possible number.
#[test]
fn a_stray_file_of_the_greatest_number_keeps_nobody_from_writing() {
    for stray in ["18446744073709551615.tbl", "18446744073709551614.log", "MANIFEST-18446744073709551615"] {
        let (sim, dir) = sim(88);
        let db = open(&sim, &dir);
        fill(&db, 0..10, 0);
        db.close().unwrap();
        drop(db);
        sim.write_all(dir.join(stray), b"somebody's").unwrap();
        for n in 1..4 {
            let db = open(&sim, &dir);
            fill(&db, n * 10..n * 10 + 10, 0);
            db.flush().unwrap();
            db.close().unwrap();
        }
        let db = open(&sim, &dir);
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..40, 0));
    }
}

/// A pipe in the place of a file of the store is a damaged file. Opening a pipe waits for its other end, for ever.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::disallowed_methods, reason = "pipes are made in a real directory")]
fn a_pipe_in_the_place_of_a_file_keeps_nobody_waiting() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let make = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let home = tempfile::tempdir().unwrap();
    let written = |name: &str| {
        let dir = home.path().join(name);
        let db = Db::open(&dir, settings(), parts(Env::real())).unwrap();
        fill(&db, 0..20, 1);
        db.flush().unwrap();
        fill(&db, 20..40, 1);
        db.close().unwrap();
        dir
    };
    let names: Vec<String> =
        std::fs::read_dir(written("plain")).unwrap().map(|entry| name_of(&entry.unwrap())).collect();
    assert!(names.iter().any(|name| name == "LOCK"), "{names:?}");
    for name in &names {
        let dir = written(&format!("with {name}"));
        std::fs::remove_file(dir.join(name)).unwrap();
        make(&dir.join(name));
        let read = |db: Db| rows(&db, &default(&db), At::Latest);
        let outcome = Db::open(&dir, settings(), parts(Env::real())).and_then(read);
        // A log that was closed is whole in its segments: the ring is not needed.
        assert!(outcome.as_ref().map_or(true, |rows| *rows == filled(0..40, 1)), "{name}: {outcome:?}");
        assert!(outcome.is_err() || name.ends_with(".ring"), "{name}");
    }
    let dir = written("beside a stray pipe");
    make(&dir.join("000999.tbl"));
    let db = Db::open(&dir, settings(), parts(Env::real())).unwrap();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap().len(), 40);
}

fn name_of(entry: &std::fs::DirEntry) -> String {
    entry.file_name().into_string().unwrap()
}
