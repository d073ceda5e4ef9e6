//! A store stays with the directory that it opened. If the directory is moved, the store continues, and never touches
//! another directory at the old path. A store that lost its directory or its lock halts before it acknowledges any
//! durability.

#![expect(clippy::disallowed_methods, reason = "the tests move directories and locks beneath an open store")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::{Env, Fs, RealFs, SimFs};
use waxseal_lsm::error::{Error, ErrorKind};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_testing::gates::GatedFs;
use waxseal_testing::store::*;

/// Creates a store under a name in a directory of the test's own.
fn real() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let (dir, moved) = (home.path().join("data"), home.path().join("data.bak"));
    (home, dir, moved)
}

fn open_real(dir: &Path) -> Db {
    Db::open(dir, settings(), parts(Env::real())).unwrap()
}

/// Removes the directory of an open store, whose threads may create a file in it meanwhile.
fn remove_whole(dir: &Path) {
    while let Err(error) = fs::remove_dir_all(dir) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
    }
}

fn assert_rows(db: &Db, expected: &Rows) {
    assert_eq!(rows(db, &default(db), At::Latest).unwrap(), *expected);
}

/// Checks that no acknowledged commit is missing, and that none is acknowledged any more.
fn assert_halted(db: &Db) -> Error {
    let error = assert_kind(db.sync(), ErrorKind::Halted, "sync");
    assert_kind(put(db, &default(db), b"late", b"1", Durability::Os), ErrorKind::Halted, "a later commit");
    assert_kind(db.flush(), ErrorKind::Halted, "flush");
    assert_kind(db.sync(), ErrorKind::Halted, "a second sync");
    assert_kind(db.close(), ErrorKind::Halted, "close");
    error
}

#[test]
fn a_moved_store_and_one_made_in_its_place_keep_apart() {
    let (_home, dir, moved) = real();
    let old = open_real(&dir);
    fill(&old, 0..200, 1);
    old.flush().unwrap();
    fs::rename(&dir, &moved).unwrap();
    let new = open_real(&dir);
    for round in 2..6 {
        fill(&old, 100..300, round);
        fill(&new, 0..50, round + 10);
        old.flush().unwrap();
        new.flush().unwrap();
    }
    old.settle().unwrap();
    new.settle().unwrap();
    fill(&old, 300..310, 7);
    old.sync().unwrap();
    let of_old = rows(&old, &default(&old), At::Latest).unwrap();
    let of_new = rows(&new, &default(&new), At::Latest).unwrap();
    old.close().unwrap();
    new.close().unwrap();
    assert_eq!(of_old.len(), 310);
    assert_rows(&open_real(&moved), &of_old);
    assert_rows(&open_real(&dir), &of_new);
}

#[test]
fn an_open_store_is_found_under_every_path() {
    let (_home, dir, moved) = real();
    let db = open_real(&dir);
    fs::rename(&dir, &moved).unwrap();
    let here = format!("process {}", std::process::id());
    for refused in [
        assert_kind(Db::open(&moved, settings(), parts(Env::real())), ErrorKind::Locked, "the new path"),
        assert_kind(Db::destroy(&moved, &Env::real()), ErrorKind::Locked, "destroying it"),
    ] {
        assert!(refused.to_string().contains(&here), "{refused}");
    }
    fs::remove_file(moved.join("LOCK")).unwrap();
    let refused =
        assert_kind(Db::open(&moved, settings(), parts(Env::real())), ErrorKind::Locked, "without its lock file");
    assert!(refused.to_string().ends_with("by a process or handle that its lock file does not name"), "{refused}");
    drop(db);
    open_real(&moved).close().unwrap();
}

#[test]
fn a_store_without_its_lock_file_promises_nothing() {
    for replaced in [false, true] {
        let (_home, dir, _) = real();
        let db = open_real(&dir);
        fill(&db, 0..20, 1);
        db.sync().unwrap();
        fs::remove_file(dir.join("LOCK")).unwrap();
        if replaced {
            fs::write(dir.join("LOCK"), "process 1").unwrap();
        }
        let _ = put(&db, &default(&db), b"c", b"3", Durability::Os); // unless the log thread has noticed it by now
        let error =
            assert_kind(put(&db, &default(&db), b"d", b"4", Durability::Sync), ErrorKind::Halted, "a synced commit");
        assert!(error.to_string().contains("LOCK"), "{error}");
        assert_halted(&db);
        drop(db);
        let again = open_real(&dir);
        let found = rows(&again, &default(&again), At::Latest).unwrap();
        assert_eq!(found.iter().filter(|(key, _)| key.starts_with(b"key-")).count(), 20);
    }
}

/// The log is already synced, so no fdatasync would reveal the loss.
#[test]
fn a_sync_without_anything_to_sync_says_that_the_lock_is_gone() {
    let (_home, dir, _) = real();
    let db = open_real(&dir);
    put(&db, &default(&db), b"a", b"1", Durability::Sync).unwrap();
    db.sync().unwrap();
    fs::remove_file(dir.join("LOCK")).unwrap();
    assert_halted(&db);
}

#[test]
fn a_close_says_that_the_lock_is_gone() {
    let (_home, dir, _) = real();
    let db = open_real(&dir);
    put(&db, &default(&db), b"a", b"1", Durability::Sync).unwrap();
    fs::remove_file(dir.join("LOCK")).unwrap();
    assert_kind(db.close(), ErrorKind::Halted, "close");
    let again = open_real(&dir);
    assert_eq!(get(&again, &default(&again), b"a", At::Latest).unwrap().unwrap(), b"1");
}

#[test]
fn a_store_whose_directory_was_removed_halts() {
    for emptied in [false, true] {
        let (_home, dir, _) = real();
        let db = open_real(&dir);
        fill(&db, 0..20, 1);
        db.sync().unwrap();
        if emptied {
            remove_whole(&dir);
        } else {
            fs::rename(&dir, dir.with_extension("gone")).unwrap();
            remove_whole(&dir.with_extension("gone"));
            fs::create_dir(&dir).unwrap(); // another directory now has this path
        }
        let error = assert_halted(&db);
        // A check beside the removal may find the file CURRENT gone before the directory.
        let names = ["directory was removed", "CURRENT"];
        assert!(names.iter().any(|name| error.to_string().contains(name)), "{error}");
        assert_eq!(fs::read_dir(&dir).map(Iterator::count).unwrap_or(0), 0, "nothing was made at the path");
        drop(db);
    }
}

#[test]
fn a_commit_that_needs_a_file_halts_a_store_without_a_directory() {
    let (_home, dir, _) = real();
    let db = open_real(&dir);
    remove_whole(&dir);
    let value = vec![7; 8192];
    let refused = (0..10_000).find_map(|_| put(&db, &default(&db), b"k", &value, Durability::Os).err());
    let refused = refused.expect("commits went on for 80 MB in a directory that was removed");
    assert!(matches!(refused.kind(), ErrorKind::Halted | ErrorKind::Io(_)), "{refused:?}");
    assert_halted(&db);
}

#[test]
fn another_current_halts_the_store_before_an_edit() {
    for content in [None, Some("MANIFEST-000999 of another store\n")] {
        let (_home, dir, _) = real();
        let db = open_real(&dir);
        fill(&db, 0..20, 1);
        let current = fs::read(dir.join("CURRENT")).unwrap();
        match content {
            Some(content) => fs::write(dir.join("CURRENT"), content).unwrap(),
            None => fs::remove_file(dir.join("CURRENT")).unwrap(),
        }
        let error = db.flush().unwrap_err();
        assert!(error.to_string().contains("CURRENT"), "{error}");
        assert_kind(db.flush(), ErrorKind::Halted, "a second flush");
        assert_halted(&db); // the log had nothing left to sync, and `sync` returned Ok
        drop(db);
        fs::write(dir.join("CURRENT"), current).unwrap();
        assert_rows(&open_real(&dir), &filled(0..20, 1));
    }
}

/// Replaces `CURRENT` with other contents: a rename as of a restored backup, or a write in place.
fn replace_current(dir: &Path, in_place: bool, contents: &[u8]) {
    let written = if in_place { dir.join("CURRENT") } else { dir.with_extension("restored") };
    fs::write(&written, contents).unwrap();
    if !in_place {
        fs::rename(&written, dir.join("CURRENT")).unwrap();
    }
}

/// No edit is due, so only a sync can reveal that the commit is in no store.
#[test]
fn another_current_halts_the_store_before_a_sync_returns() {
    for (in_place, commits) in [(false, false), (true, false), (false, true), (true, true)] {
        let (_home, dir, _) = real();
        open_real(&dir).close().unwrap();
        let older = fs::read(dir.join("CURRENT")).unwrap();
        let db = open_real(&dir);
        fill(&db, 0..20, 1);
        db.sync().unwrap();
        let current = fs::read(dir.join("CURRENT")).unwrap();
        assert_ne!(older, current);
        replace_current(&dir, in_place, &older);
        if commits {
            // Refused only if a background job has looked at `CURRENT` by now.
            if let Err(error) = put(&db, &default(&db), b"c", b"3", Durability::Os) {
                assert_eq!(*error.kind(), ErrorKind::Halted);
            }
            let synced = put(&db, &default(&db), b"d", b"4", Durability::Sync);
            let error = assert_kind(synced, ErrorKind::Halted, "a synced commit");
            assert!(error.to_string().contains("CURRENT"), "{error}");
        }
        let error = assert_halted(&db);
        assert!(error.to_string().contains("CURRENT"), "{error}");
        drop(db);
        fs::write(dir.join("CURRENT"), current).unwrap();
        let again = open_real(&dir);
        let found = rows(&again, &default(&again), At::Latest).unwrap();
        assert_eq!(found.iter().filter(|(key, _)| key.starts_with(b"key-")).count(), 20);
    }
}

#[test]
fn a_close_says_that_current_was_replaced() {
    let (_home, dir, _) = real();
    let db = open_real(&dir);
    put(&db, &default(&db), b"a", b"1", Durability::Sync).unwrap();
    replace_current(&dir, false, b"MANIFEST-000999 of another store\n");
    assert_kind(db.close(), ErrorKind::Halted, "close");
}

/// `CURRENT` is identified by its content, so a restored copy is equivalent.
#[test]
fn the_same_current_in_another_file_changes_nothing() {
    let (_home, dir, _) = real();
    let db = open_real(&dir);
    fill(&db, 0..20, 1);
    let current = fs::read(dir.join("CURRENT")).unwrap();
    fs::remove_file(dir.join("CURRENT")).unwrap();
    fs::write(dir.join("CURRENT"), current).unwrap();
    db.sync().unwrap();
    put(&db, &default(&db), b"a", b"1", Durability::Sync).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

#[test]
fn a_reader_follows_the_directory_that_it_opened() {
    let (_home, dir, moved) = real();
    let writer = open_real(&dir);
    fill(&writer, 0..100, 1);
    writer.flush().unwrap();
    let reader = Db::open_read_only(&dir, settings(), parts(Env::real())).unwrap();
    fs::rename(&dir, &moved).unwrap();
    let other = open_real(&dir);
    fill(&other, 0..10, 9);
    other.flush().unwrap();
    assert_rows(&reader, &filled(0..100, 1)); // opens its tables now
    fill(&writer, 100..200, 1);
    writer.flush().unwrap();
    reader.refresh().unwrap();
    assert_rows(&reader, &filled(0..200, 1));
    drop((writer, reader));
    let reader = Db::open_read_only(&moved, settings(), parts(Env::real())).unwrap();
    fs::remove_dir_all(&moved).unwrap();
    reader.refresh().unwrap_err();
}

#[test]
fn a_checkpoint_of_a_moved_store_is_its_own() {
    let (home, dir, moved) = real();
    let db = open_real(&dir);
    fill(&db, 0..100, 1);
    fs::rename(&dir, &moved).unwrap();
    fs::create_dir(&dir).unwrap();
    let copy = home.path().join("copy");
    db.checkpoint(&copy).unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    drop(db);
    assert_rows(&open_real(&copy), &filled(0..100, 1));
    assert_rows(&open_real(&moved), &filled(0..100, 1));
}

/// A relative path means another directory after the process changes its working directory. The test simulates this by
/// creating the path again.
#[test]
fn what_takes_the_path_of_a_moved_store_is_left_alone_when_that_is_destroyed() {
    let (_home, dir, moved) = real();
    open_real(&dir).close().unwrap();
    let db = open_real(&dir);
    fs::rename(&dir, &moved).unwrap();
    fs::create_dir(&dir).unwrap();
    drop(db);
    assert_kind(Db::destroy(&dir, &Env::real()), ErrorKind::Invalid, "an empty directory");
    Db::destroy(&moved, &Env::real()).unwrap();
    assert!(dir.exists() && !moved.exists());
}

#[test]
fn directories_are_locked_by_handle_and_freed_with_it() {
    let (_home, dir, _) = real();
    fs::create_dir(&dir).unwrap();
    let first = RealFs.lock_dir(&dir).unwrap().expect("nobody has it");
    assert!(RealFs.lock_dir(&dir).unwrap().is_none());
    drop(first);
    RealFs.lock_dir(&dir).unwrap().expect("free again");
}

fn simulated(dir: &Path) -> (SimFs, Db) {
    let (sim, _) = sim(31);
    let db = open(&sim, dir);
    fill(&db, 0..200, 1);
    db.flush().unwrap();
    (sim, db)
}

/// If the lock is lost while an edit is written, the next edit fails.
#[test]
fn each_edit_looks_at_the_lock() {
    let dir = Path::new("/store");
    type Step = fn(&Db) -> waxseal_lsm::error::Result<()>;
    let steps: [(&str, Step); 5] = [
        ("flush", |db| db.flush()),
        ("settle", |db| db.settle()),
        ("compact", |db| db.compact(&default(db), &ALL)),
        ("create", |db| db.create_family("more", options()).map(drop)),
        ("checkpoint", |db| db.checkpoint(Path::new("/copy"))),
    ];
    for (what, step) in steps {
        let (sim, db) = simulated(dir);
        fill(&db, 100..300, 2);
        let before = sim.files(dir).into_iter().filter(|name| name != "LOCK").collect::<Vec<_>>();
        sim.delete(dir.join("LOCK")).unwrap();
        assert_kind(step(&db), ErrorKind::Halted, what);
        let error = assert_kind(db.sync(), ErrorKind::Halted, what);
        assert!(error.to_string().contains("LOCK"), "{error}");
        drop(db);
        assert_eq!(sim.files(dir), before, "{what}: nothing was made or removed");
        assert_rows(&open(&sim, dir), &[filled(0..100, 1), filled(100..300, 2)].concat());
    }
}

/// An older version of the engine knows only the lock file.
#[test]
fn a_second_writer_that_knows_no_directory_lock_costs_nothing_that_was_synced() {
    let dir = Path::new("/store");
    let (sim, db) = simulated(dir);
    fill(&db, 200..210, 1);
    db.sync().unwrap();
    sim.delete(dir.join("LOCK")).unwrap();
    let (older, _) = GatedFs::new(Arc::new(sim.clone()));
    let two = Db::open(dir, settings(), parts(Env { fs: Arc::new(older), ..sim.env(5) })).unwrap();
    put(&two, &default(&two), b"b", b"2", Durability::Sync).unwrap();
    put(&db, &default(&db), b"c", b"3", Durability::Os).unwrap();
    assert_halted(&db);
    drop(db);
    two.sync().unwrap();
    fill(&two, 210..220, 1);
    two.flush().unwrap();
    two.close().unwrap();
    let expected = [vec![(b"b".to_vec(), b"2".to_vec())], filled(0..220, 1)].concat();
    assert_rows(&open(&sim, dir), &expected);
}

#[test]
fn a_store_that_is_moved_between_steps_goes_on_where_it_is() {
    for step in 0..12 {
        let (sim, dir) = sim(step);
        let moved = Path::new("/moved");
        let db = open(&sim, &dir);
        fill(&db, 0..100, 1);
        for _ in 0..step {
            db.step().unwrap();
        }
        sim.rename(&dir, moved).unwrap();
        fill(&db, 50..150, 2);
        db.flush().unwrap();
        assert_kind(try_open(&sim, moved), ErrorKind::Locked, "moved");
        assert!(!sim.exists(&dir).unwrap());
        db.sync().unwrap();
        if step % 2 == 0 {
            kill(&sim, db)
        } else {
            db.close().unwrap()
        }
        let settings = Settings { create_if_missing: false, ..settings() };
        assert_kind(Db::open(&dir, settings, parts(sim.env(1))), ErrorKind::Invalid, "the old path");
        assert_rows(&open(&sim, moved), &[filled(0..50, 1), filled(50..150, 2)].concat());
    }
}
