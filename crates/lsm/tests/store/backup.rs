//! Backups: incremental copies in one directory, and what damage, other files and shortage do to them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::backup::{Backup, BackupOptions, BackupProgress};
use waxseal_lsm::checksum::{Uid, mix};
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::{Crash, Fault, Loss};
use waxseal_lsm::env::{Clock, Fs, SimFs};
use waxseal_lsm::error::{Error, ErrorKind, Result, Verdict};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::version::{Contents, Marked, store_named};
use waxseal_testing::golden;
use waxseal_testing::scribe::Scribe;
use waxseal_testing::store::{
    ALL, assert_kind, default, fill, filled, kill, named, open, parts, put, read_only, rows, settings, sim, sim_bytes,
};

const BACKUPS: &str = "/backups";

fn backup(db: &Db) -> Result<u64> {
    Backup::create(db, Path::new(BACKUPS), BackupOptions::default()).map(|created| created.id)
}

fn backups(sim: &SimFs) -> Backup {
    Backup::open_in(Path::new(BACKUPS), &sim.env(sim.steps())).unwrap()
}

/// Returns the uid of the store in a directory.
fn uid(sim: &SimFs, dir: &Path) -> Uid {
    store_named(&sim.env(1), dir).unwrap()
}

/// Restores a backup into a directory, and returns the rows and the uid of the store.
fn restored(sim: &SimFs, id: u64, to: &str) -> (waxseal_testing::store::Rows, Uid) {
    backups(sim).restore(id, to).unwrap();
    let db = open(sim, Path::new(to));
    let found = (rows(&db, &default(&db), At::Latest).unwrap(), uid(sim, Path::new(to)));
    db.close().unwrap();
    found
}

/// Puts values that are large enough for a blob file of their own.
fn fill_large(db: &Db, round: u8) {
    for n in 0..6u8 {
        put(db, &default(db), &[b'v', n], &vec![round ^ n; 30_000], Durability::Os).unwrap();
    }
}

fn names(sim: &SimFs) -> Vec<String> {
    sim.files(BACKUPS)
}

/// Each commit puts one key, so the number of keys in a backup says which commit was its last.
#[test]
fn a_backup_beside_a_writer_names_its_last_commit() {
    let home = tempfile::tempdir().unwrap();
    let (dir, backups) = (home.path().join("store"), home.path().join("backups"));
    let db = Db::open(&dir, Settings { memtable_bytes: 1 << 20, ..settings() }, Parts::real()).unwrap();
    let number = |n: u32| format!("{n:08}").into_bytes();
    let start = put(&db, &default(&db), &number(0), b"v", Durability::Os).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (1..).take_while(|_| !stop.load(std::sync::atomic::Ordering::Relaxed)) {
                put(&db, &default(&db), &number(n), b"v", Durability::Os).unwrap();
            }
        });
        for id in 1..6 {
            let created = Backup::create(&db, &backups, BackupOptions::default()).unwrap();
            let to = home.path().join(id.to_string());
            let backup = Backup::open(&backups).unwrap();
            backup.restore(id, &to).unwrap();
            let copy = Db::open(&to, settings(), Parts::real()).unwrap();
            let keys = rows(&copy, &default(&copy), At::Latest).unwrap().len() as u64;
            assert_eq!(created.seqno, start + keys - 1, "backup {id}");
            assert_eq!(backup.list().unwrap().last().unwrap().seqno, created.seqno);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn every_kept_backup_is_restored_as_it_was() {
    let (sim, dir) = sim(1);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    fill_large(&db, 1);
    let before = rows(&db, &default(&db), At::Latest).unwrap();
    assert_eq!(backup(&db).unwrap(), 1);
    fill(&db, 100..350, 1);
    fill_large(&db, 2);
    db.compact(&default(&db), &ALL).unwrap(); // so that the first backup has files that the second lacks
    assert_eq!(backup(&db).unwrap(), 2);
    fill(&db, 0..10, 2);
    let listed = backups(&sim).list().unwrap();
    let ids: Vec<u64> = listed.iter().map(|info| info.id).collect();
    assert_eq!((ids, listed[0].store, listed[0].files > 2), (vec![1, 2], uid(&sim, &dir), true));
    assert!(listed[0].seqno < listed[1].seqno && listed[0].copied_bytes == listed[0].bytes);
    let (first, new) = restored(&sim, 1, "/first");
    assert_eq!(first, before);
    assert_ne!(new, uid(&sim, &dir), "a restored store is another store");
    let (second, _) = restored(&sim, 2, "/second");
    assert_eq!(second[100..350], filled(100..350, 1)[..]);
    assert_eq!(second.len(), 356);
    for id in [1, 2] {
        let verified = backups(&sim).verify(id).unwrap();
        assert_eq!((verified.files, verified.damage.len()), (listed[id as usize - 1].files, 0));
    }
    let purged = backups(&sim).purge(1).unwrap();
    assert!(purged.backups == 1 && purged.files > 0 && purged.bytes > 0, "{purged:?}");
    assert_eq!(restored(&sim, 2, "/third").0, second);
    assert_kind(backups(&sim).verify(1), ErrorKind::Invalid, "a backup that was purged");
    assert_eq!(backups(&sim).purge(0).unwrap().backups, 1);
    assert_eq!(names(&sim), ["LOCK", "PURGED-000002"], "no file stays without a backup");
}

#[test]
fn one_percent_of_updates_writes_at_most_five() {
    let (sim, dir) = sim(2);
    let settings = Settings { memtable_bytes: 1 << 20, ..settings() };
    let db = Db::open(&dir, settings, Parts { families: Vec::new(), ..parts(sim.env(1)) }).unwrap();
    let row = |n: u64, round: u64| {
        let words = (0..25).flat_map(|at| mix(n * 1_000 + at + round).to_le_bytes());
        put(&db, &default(&db), &mix(n).to_le_bytes(), &words.collect::<Vec<u8>>(), Durability::Os).unwrap();
    };
    (0..20_000).for_each(|n| row(n, 0));
    db.settle().unwrap();
    let first = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    (0..20_000).step_by(100).for_each(|n| row(n, 500));
    db.flush().unwrap();
    let second = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    assert!(first.copied_bytes == first.bytes && first.bytes > 4_000_000, "{first:?}");
    assert!(second.copied_bytes > 0 && second.copied_bytes * 20 <= second.bytes, "{second:?}");
    let written = sim.read_all(Path::new(BACKUPS).join("BACKUP-000002")).unwrap().len() as u64;
    assert!((second.copied_bytes + written) * 20 <= second.bytes, "with its description, {written} bytes");
    let third = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    assert_eq!((third.copied_files, third.copied_bytes, third.files), (0, 0, second.files));
}

#[test]
fn files_are_pinned_until_they_are_copied() {
    let (sim, dir) = sim(3);
    let db = open(&sim, &dir);
    fill(&db, 0..400, 0);
    fill_large(&db, 1);
    db.flush().unwrap();
    let before = rows(&db, &default(&db), At::Latest).unwrap();
    let (mut most, mut calls) = (0, 0);
    let mut watch = |progress: BackupProgress| {
        if calls == 0 {
            // Everything is rewritten or collected beside the backup.
            fill(&db, 0..400, 1);
            fill_large(&db, 2);
            db.compact(&default(&db), &ALL).unwrap();
            db.settle().unwrap();
        }
        calls += 1;
        let pinned = db.metrics().pinned_bytes;
        most = pinned.max(most);
        assert!(pinned <= progress.total && progress.done <= progress.total, "{pinned} {progress:?}");
        assert!(sim.open_files().len() < 30, "{:?}", sim.open_files());
        ControlFlow::Continue(())
    };
    let options = BackupOptions { bytes_per_second: Some(1 << 20), progress: Some(&mut watch) };
    let created = Backup::create(&db, Path::new(BACKUPS), options).unwrap();
    assert!(most > 0 && calls > 2);
    assert_eq!(db.metrics().pinned_bytes, 0);
    assert_eq!(restored(&sim, created.id, "/new").0, before);
    while db.step().unwrap() {}
    let live: usize = db.tables(&default(&db)).unwrap().len();
    assert_eq!(named(&sim, &dir, ".tbl").len(), live, "the replaced tables are gone");
}

#[test]
fn the_callback_ends_a_backup_and_the_next_one_uses_its_files() {
    let (sim, dir) = sim(4);
    let db = open(&sim, &dir);
    fill(&db, 0..400, 0);
    let before = sim.clock().monotonic_nanos();
    let mut watch = |progress: BackupProgress| match progress.done * 2 < progress.total {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = BackupOptions { bytes_per_second: Some(10_000), progress: Some(&mut watch) };
    assert_kind(Backup::create(&db, Path::new(BACKUPS), options), ErrorKind::Interrupted, "a callback that ends it");
    assert!(sim.clock().monotonic_nanos() - before > 100_000_000, "the rate holds");
    assert!(names(&sim).iter().all(|name| name.ends_with(".tbl") || name == "LOCK"), "{:?}", names(&sim));
    assert_kind(Backup::open_in(Path::new(BACKUPS), &sim.env(1)), ErrorKind::Invalid, "no backup");
    let created = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    assert!(created.copied_files > 0 && created.copied_bytes < created.bytes, "{created:?}");
    assert_eq!(restored(&sim, 1, "/new").0, filled(0..400, 0));
}

#[test]
fn one_backup_or_purge_at_a_time_runs_in_a_directory() {
    let (sim, dir) = sim(5);
    let db = open(&sim, &dir);
    fill(&db, 0..50, 0);
    backup(&db).unwrap();
    fill(&db, 0..50, 1);
    let mut tried = 0;
    let mut watch = |_: BackupProgress| {
        tried += 1;
        let locked = assert_kind(backup(&db), ErrorKind::Locked, "a second backup");
        assert!(locked.to_string().contains("another backup"), "{locked}");
        assert_kind(backups(&sim).purge(0), ErrorKind::Locked, "a purge");
        assert_eq!(restored(&sim, 1, &format!("/new{tried}")).0, filled(0..50, 0), "a restore needs no lock");
        ControlFlow::Continue(())
    };
    let options = BackupOptions { progress: Some(&mut watch), ..BackupOptions::default() };
    Backup::create(&db, Path::new(BACKUPS), options).unwrap();
    assert!(tried > 0);
    assert_eq!(backup(&db).unwrap(), 3);
}

#[test]
fn a_directory_holds_the_backups_of_one_store_and_its_descendants() {
    let (sim, dir) = sim(6);
    let db = open(&sim, &dir);
    fill(&db, 0..50, 0);
    backup(&db).unwrap();
    let other = open(&sim, Path::new("/other"));
    fill(&other, 0..50, 0);
    let refused = assert_kind(backup(&other), ErrorKind::Invalid, "another store");
    assert!(refused.to_string().contains("of another store"), "{refused}");
    backups(&sim).restore(1, "/restored").unwrap();
    let heir = open(&sim, Path::new("/restored"));
    fill(&heir, 0..50, 1);
    let created = Backup::create(&heir, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    assert!(created.id == 2 && created.copied_files < created.files, "{created:?}");
    assert_eq!(backups(&sim).list().unwrap()[1].store, uid(&sim, Path::new("/restored")));
    // From here on the directory is the heir's: a purge that keeps the newest would remove the last one of the others.
    backups(&sim).restore(1, "/sibling").unwrap();
    for other in [db, open(&sim, Path::new("/sibling"))] {
        let refused = assert_kind(backup(&other), ErrorKind::Invalid, "a store beside the line");
        assert!(refused.to_string().contains("newest backup"), "{refused}");
    }
    assert_eq!(backup(&heir).unwrap(), 3);
    let other_place = Backup::create(&other, Path::new("/elsewhere"), BackupOptions::default());
    assert_eq!(other_place.unwrap().id, 1);
}

#[test]
fn a_directory_with_other_files_is_refused_unchanged() {
    let (sim, dir) = sim(7);
    let db = open(&sim, &dir);
    fill(&db, 0..50, 0);
    let at = |path: &str| Backup::create(&db, Path::new(path), BackupOptions::default());
    sim.create_dir_all(Path::new("/notes")).unwrap();
    sim.write_all("/notes/todo.txt", b"buy milk").unwrap();
    assert_kind(at("/notes"), ErrorKind::Invalid, "a user's directory");
    assert_eq!(sim.files("/notes"), ["todo.txt"]);
    assert_kind(at("/store"), ErrorKind::Invalid, "the store itself");
    db.checkpoint(Path::new("/copy")).unwrap();
    assert_kind(at("/copy"), ErrorKind::Invalid, "another store's directory");
    sim.create_dir_all(Path::new("/mine")).unwrap();
    sim.write_all("/mine/LOCK", b"of another program").unwrap();
    assert_kind(at("/mine"), ErrorKind::Invalid, "a lock that is not ours");
    assert_eq!(sim.read_all("/mine/LOCK").unwrap(), b"of another program");
    at(BACKUPS).unwrap();
    sim.write_all("/backups/README", b"of the store").unwrap();
    at(BACKUPS).unwrap();
    backups(&sim).purge(1).unwrap();
    assert!(names(&sim).contains(&"README".to_owned()), "a user's file stays");
    // Neither the directory of backups nor a half restore is a store.
    for open in [Db::open(Path::new(BACKUPS), settings(), parts(sim.env(1))), read_only(&sim, Path::new(BACKUPS))] {
        let refused = assert_kind(open, ErrorKind::Invalid, "a directory of backups");
        assert!(refused.to_string().contains("backups"), "{refused}");
    }
    assert_kind(backups(&sim).restore(2, "/copy"), ErrorKind::Invalid, "into a store");
    assert_kind(backups(&sim).restore(2, "/notes"), ErrorKind::Invalid, "into a user's directory");
    assert_kind(backups(&sim).restore(9, "/new"), ErrorKind::Invalid, "no such backup");
    assert!(!sim.files("/").contains(&"new".to_owned()));
}

/// The damage of an error.
fn place(error: &Error) -> (String, Verdict) {
    let damage = error.damage().unwrap_or_else(|| panic!("{error} is no damage"));
    (damage.file.clone(), damage.verdict)
}

#[test]
fn a_damaged_source_is_refused_and_named() {
    let (sim, dir) = sim(8);
    let db = open(&sim, &dir);
    fill(&db, 0..200, 0);
    backup(&db).unwrap();
    fill(&db, 200..260, 0);
    fill_large(&db, 1);
    db.flush().unwrap();
    let elsewhere = Path::new("/elsewhere");
    let files = sim_bytes(&sim, &dir).into_iter();
    for (name, bytes) in files.filter(|(name, _)| name.ends_with(".tbl") || name.ends_with(".val")) {
        let (path, bits) = (dir.join(&name), bytes.len() as u64 * 8);
        for bit in (0..bits).step_by((bits / 11) as usize | 1).chain([bits - 1]) {
            sim.flip(&path, bit).unwrap();
            let Err(error) = Backup::create(&db, elsewhere, BackupOptions::default()) else {
                panic!("{name}, bit {bit}: not refused")
            };
            assert_eq!(place(&error).0, name, "bit {bit}: {error}");
            assert!(!sim.files(elsewhere).iter().any(|name| name.starts_with("BACKUP") || name.ends_with(".tmp")));
            sim.delete_dir(elsewhere).unwrap();
            sim.flip(&path, bit).unwrap();
        }
    }
    // An older backup in the directory is not touched.
    let newest = named(&sim, &dir, ".tbl").pop().unwrap();
    sim.flip(dir.join(&newest), 1000).unwrap();
    assert_eq!(place(&backup(&db).unwrap_err()).0, newest);
    assert_eq!(backups(&sim).list().unwrap().len(), 1);
    assert_eq!(restored(&sim, 1, "/new").0, filled(0..200, 0));
    sim.flip(dir.join(&newest), 1000).unwrap();
    assert_eq!(backup(&db).unwrap(), 2);
}

fn backup_files(sim: &SimFs) -> Vec<String> {
    names(sim).into_iter().filter(|name| name != "LOCK").collect()
}

#[test]
fn a_missing_source_is_refused_and_named() {
    let (sim, dir) = sim(9);
    let db = open(&sim, &dir);
    fill(&db, 0..50, 0);
    db.flush().unwrap();
    let name = named(&sim, &dir, ".tbl").remove(0);
    sim.delete(dir.join(&name)).unwrap();
    let error = backup(&db).unwrap_err();
    assert_eq!(place(&error), (name, Verdict::Missing));
    assert_eq!(names(&sim), ["LOCK"]);
}

#[test]
fn every_flip_in_a_backup_is_found() {
    let (sim, dir) = sim(10);
    let db = open(&sim, &dir);
    fill(&db, 0..120, 0);
    fill_large(&db, 1);
    backup(&db).unwrap();
    fill(&db, 120..150, 0);
    backup(&db).unwrap();
    drop(db);
    let whole = sim_bytes(&sim, Path::new(BACKUPS));
    let second: Vec<String> = {
        backups(&sim).purge(1).unwrap();
        backup_files(&sim)
    };
    assert!(second.len() < whole.len());
    for name in &second {
        let bits = whole[name].len() as u64 * 8;
        for bit in (0..bits).step_by((bits / 40) as usize | 1) {
            let path = Path::new(BACKUPS).join(name);
            sim.flip(&path, bit).unwrap();
            let found = match backups(&sim).verify(2) {
                Ok(verified) => verified.damage.first().map(place),
                Err(error) => match error.kind() {
                    ErrorKind::FormatTooNew => Some((name.clone(), Verdict::Structural)),
                    _ => Some(place(&error)),
                },
            };
            assert_eq!(found.unwrap_or_else(|| panic!("{name}, bit {bit}: not found")).0, *name, "bit {bit}");
            let error = backups(&sim).restore(2, "/new").unwrap_err();
            assert!(error.is_corruption() || *error.kind() == ErrorKind::FormatTooNew, "{name}, bit {bit}: {error}");
            assert!(sim.files("/new").is_empty(), "{name}, bit {bit}");
            sim.flip(&path, bit).unwrap();
        }
    }
    assert_eq!(restored(&sim, 2, "/new").0.len(), 156);
}

#[test]
fn a_backup_repairs_files_of_another_length_and_does_without_damaged_descriptions() {
    let (sim, dir) = sim(11);
    let db = open(&sim, &dir);
    fill(&db, 0..200, 0);
    backup(&db).unwrap();
    let path = |name: &str| Path::new(BACKUPS).join(name);
    let table = named(&sim, Path::new(BACKUPS), ".tbl").remove(0);
    let bytes = sim.read_all(path(&table)).unwrap();
    // A missing file, and one that is too short.
    sim.delete(path(&table)).unwrap();
    assert_eq!(place(&backups(&sim).verify(1).unwrap().damage[0]), (table.clone(), Verdict::Missing));
    sim.write_all(path(&table), &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(place(&backups(&sim).verify(1).unwrap().damage[0]), (table.clone(), Verdict::Structural));
    let created = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    assert_eq!(created.copied_files, 1, "the short file is copied again");
    assert!(backups(&sim).verify(1).unwrap().damage.is_empty());
    // Without a description, the files are checked before they are used again.
    for id in [1, 2] {
        sim.flip(path(&format!("BACKUP-{id:06}")), 3_000).unwrap();
    }
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    sim.delete(path(&table)).unwrap();
    sim.write_all(path(&table), &damaged).unwrap();
    let created = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default()).unwrap();
    assert_eq!((created.id, created.copied_files), (3, 1), "only the damaged file is copied");
    let listed = backups(&sim).list().unwrap();
    assert_eq!(listed.iter().map(|info| info.error.is_some()).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(restored(&sim, 3, "/new").0, filled(0..200, 0));
    // A description that must be kept and is unreadable stops a purge; an older one does not.
    let before = names(&sim);
    assert!(backups(&sim).purge(2).unwrap_err().is_corruption());
    assert_eq!(names(&sim), before);
    assert_eq!(backups(&sim).purge(1).unwrap().backups, 2);
    assert!(backups(&sim).verify(3).unwrap().damage.is_empty());
}

#[test]
fn a_description_under_another_number_is_refused() {
    let (sim, dir) = sim(12);
    let db = open(&sim, &dir);
    fill(&db, 0..20, 0);
    backup(&db).unwrap();
    let path = |id: u64| Path::new(BACKUPS).join(format!("BACKUP-{id:06}"));
    let bytes = sim.read_all(path(1)).unwrap();
    sim.write_all(path(7), &bytes).unwrap();
    assert_eq!(place(&backups(&sim).verify(7).unwrap_err()).0, "BACKUP-000007");
    for length in [0, 1, 63, 64, 71, 72, bytes.len() - 1] {
        sim.delete(path(7)).unwrap();
        sim.write_all(path(7), &bytes[..length]).unwrap();
        assert!(backups(&sim).verify(7).unwrap_err().is_corruption(), "{length} bytes");
    }
    sim.write_all(path(u64::MAX), &bytes).unwrap();
    assert_kind(backup(&db), ErrorKind::Invalid, "no number is left");
}

#[test]
fn a_full_disk_fails_a_backup_and_a_restore_and_nothing_else() {
    let (sim, dir) = sim(13);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    backup(&db).unwrap();
    fill(&db, 0..300, 1);
    db.flush().unwrap();
    sim.set_free_space(Some(12_000));
    let error = backup(&db).unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    let error = backups(&sim).restore(1, "/new").unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    assert!(sim.files("/new").is_empty());
    sim.set_free_space(None);
    assert_eq!(backup(&db).unwrap(), 2);
    assert_eq!(restored(&sim, 1, "/new").0, filled(0..300, 0));
    assert_eq!(restored(&sim, 2, "/newer").0, filled(0..300, 1));
    assert!(!names(&sim).iter().any(|name| name.ends_with(".tmp")));
}

#[test]
fn an_interrupted_restore_starts_again() {
    let (sim, dir) = sim(14);
    let db = open(&sim, &dir);
    fill(&db, 0..300, 0);
    backup(&db).unwrap();
    let steps = sim.steps();
    backups(&sim).restore(1, "/first").unwrap();
    let half = (sim.steps() - steps) / 2;
    sim.crash_at(sim.steps() + half);
    assert!(backups(&sim).restore(1, "/second").is_err());
    kill(&sim, db);
    let env = sim.env(1);
    let contents = waxseal_lsm::version::contents(&env, Path::new("/second")).unwrap();
    assert_eq!(contents, Contents::Marked(Marked::UnfinishedRestore));
    let refused = assert_kind(
        Db::open(Path::new("/second"), settings(), parts(sim.env(2))),
        ErrorKind::Invalid,
        "half a restore is no store",
    );
    assert!(refused.to_string().contains("restore the backup again"), "{refused}");
    assert_eq!(restored(&sim, 1, "/second").0, filled(0..300, 0));
    assert!(!sim.files("/second").contains(&"UNFINISHED".to_owned()));
}

/// Leaves a restore that was killed after its store was complete, before the mark was removed.
fn restored_but_marked(sim: &SimFs, to: &Path) {
    let db = open(sim, Path::new("/store"));
    fill(&db, 0..300, 0);
    backup(&db).unwrap();
    db.close().unwrap();
    let fork = sim.fork();
    let steps = fork.steps();
    backups(&fork).restore(1, to).unwrap();
    let steps = fork.steps() - steps;
    let is_between = |sim: &SimFs| {
        let files = sim.files(to);
        files.contains(&"CURRENT".to_owned()) && files.contains(&"UNFINISHED".to_owned())
    };
    for step in (0..steps).rev() {
        let fork = sim.fork();
        fork.crash_at(fork.steps() + step);
        assert!(backups(&fork).restore(1, to).is_err());
        fork.reboot(Crash::Process);
        if is_between(&fork) {
            sim.crash_at(sim.steps() + step);
            assert!(backups(sim).restore(1, to).is_err());
            sim.reboot(Crash::Process);
            assert!(is_between(sim));
            return;
        }
    }
    panic!("no step between the store and the removal of its mark");
}

#[test]
fn a_mark_beside_a_store_is_removed_and_never_clears_it() {
    let (sim, to) = (SimFs::new(17), Path::new("/new"));
    restored_but_marked(&sim, to);
    let bits = sim.fork();
    // A store that was never opened: without its `CURRENT` it is a damaged store, not half a restore.
    bits.flip(to.join("CURRENT"), 100).unwrap();
    let before = sim_bytes(&bits, to);
    let refused = assert_kind(backups(&bits).restore(1, to), ErrorKind::Invalid, "a directory with CURRENT");
    assert!(refused.to_string().contains("CURRENT"), "{refused}");
    assert_eq!(sim_bytes(&bits, to), before);
    // A reader writes nothing.
    let before = sim_bytes(&sim, to);
    drop(read_only(&sim, to).unwrap());
    assert_eq!(sim_bytes(&sim, to), before);
    assert_kind(backups(&sim).restore(1, to), ErrorKind::Invalid, "a store");
    // A writer removes the mark, and so durably that it does not come back.
    let db = open(&sim, to);
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Machine(Loss::DurableOnly));
    assert!(!sim.files(to).contains(&"UNFINISHED".to_owned()), "{:?}", sim.files(to));
    sim.delete(to.join("CURRENT")).unwrap();
    assert_kind(backups(&sim).restore(1, to), ErrorKind::Invalid, "a store that lost its CURRENT");
    assert!(!named(&sim, to, ".tbl").is_empty());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a user's file of this name")]
fn a_file_that_only_has_the_name_of_the_mark_stays() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let open = || Db::open(&dir, settings(), Parts { families: vec![], ..Parts::real() }).unwrap();
    open().close().unwrap();
    let name = dir.join("UNFINISHED");
    std::fs::create_dir(&name).unwrap();
    open().close().unwrap();
    assert!(name.is_dir());
    std::fs::remove_dir(&name).unwrap();
    std::fs::write(&name, "my novel").unwrap();
    open().close().unwrap();
    assert_eq!(std::fs::read(&name).unwrap(), b"my novel");
}

/// Opens a store that logs its own work, so that a backup writes an edit into the manifest.
fn logging(sim: &SimFs) -> Db {
    let parts = Parts { engine_log: Some(Arc::new(Scribe)), ..parts(sim.env(sim.steps())) };
    Db::open(Path::new("/store"), settings(), parts).unwrap()
}

#[test]
fn a_call_says_whether_the_backup_exists_whatever_fails() {
    let sim = SimFs::new(18);
    let db = logging(&sim);
    fill(&db, 0..40, 0);
    backup(&db).unwrap();
    fill(&db, 0..40, 1);
    db.close().unwrap();
    let (mut failed, mut unlogged) = (0, 0);
    for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::SyncFailed] {
        for step in 0.. {
            let fork = sim.fork();
            let db = logging(&fork);
            fork.fail_at(fork.steps() + step, fault);
            let created = Backup::create(&db, Path::new(BACKUPS), BackupOptions::default());
            let has_failed = fork.clear_faults();
            let ids: Vec<u64> = backups(&fork).list().unwrap().iter().map(|info| info.id).collect();
            match created {
                Ok(created) => {
                    assert_eq!((created.id, &ids[..]), (2, &[1, 2][..]), "{fault:?} {step}");
                    assert!(backups(&fork).verify(2).unwrap().damage.is_empty());
                    unlogged += usize::from(created.unlogged.is_some());
                }
                Err(error) => {
                    assert_eq!(ids, [1], "{fault:?} {step}: {error}");
                    failed += 1;
                }
            }
            if !has_failed {
                break;
            }
        }
    }
    assert!(failed > 20 && unlogged > 2, "{failed} {unlogged}");
}

#[test]
fn a_number_is_never_used_twice() {
    let sim = SimFs::new(19);
    let db = open(&sim, Path::new("/store"));
    fill(&db, 0..40, 0);
    assert_eq!((backup(&db).unwrap(), backup(&db).unwrap()), (1, 2));
    let handle = backups(&sim);
    db.close().unwrap();
    let fork = sim.fork();
    let steps = fork.steps();
    backups(&fork).purge(0).unwrap();
    let steps = fork.steps() - steps;
    for step in 0..=steps {
        for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly)] {
            let fork = sim.fork();
            let handle = backups(&fork);
            fork.crash_at(fork.steps() + step);
            let _ = handle.purge(0);
            fork.reboot(crash);
            assert_eq!(backup(&open(&fork, Path::new("/store"))).unwrap(), 3, "{crash:?} at step {step}");
        }
    }
    let db = open(&sim, Path::new("/store"));
    for next in 3..6 {
        assert_eq!(handle.purge(0).unwrap().backups, if next == 3 { 2 } else { 1 });
        assert_kind(Backup::open_in(Path::new(BACKUPS), &sim.env(1)), ErrorKind::Invalid, "no backup");
        assert_kind(Db::open(Path::new(BACKUPS), settings(), parts(sim.env(1))), ErrorKind::Invalid, "no store");
        assert_eq!(handle.purge(0).unwrap().backups, 0);
        assert_eq!(backup(&db).unwrap(), next);
    }
    assert_eq!(handle.purge(1).unwrap().backups, 0);
    assert!(!names(&sim).iter().any(|name| name.starts_with("PURGED")), "{:?}", names(&sim));
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/backup.txt");

/// `BLESS=1 cargo test -p waxseal-lsm --test store backup` writes the file anew, which is a change of the format.
#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_bytes_of_two_backups() {
    let (sim, dir) = sim(15);
    let families = vec![("default".to_owned(), CfOptions { large_value_bytes: 64, ..CfOptions::default() })];
    let settings = Settings { format_level: 1, ..settings() }; // as before there were levels
    let db = Db::open(&dir, settings, Parts { families, ..parts(sim.env(1)) }).unwrap();
    put(&db, &default(&db), b"a", b"1", Durability::Os).unwrap();
    put(&db, &default(&db), b"b", &[7; 100], Durability::Os).unwrap();
    backup(&db).unwrap();
    put(&db, &default(&db), b"a", b"2", Durability::Os).unwrap();
    backup(&db).unwrap();
    let text = golden::hex_of(&sim_bytes(&sim, Path::new(BACKUPS)));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap(), "the format has changed");
}

/// Backups of an earlier build are restored.
#[test]
fn the_kept_backups_are_restored() {
    let (sim, _) = sim(16);
    sim.create_dir_all(Path::new(BACKUPS)).unwrap();
    for (name, bytes) in golden::files_of(include_str!("../golden/backup.txt")) {
        sim.write_all(Path::new(BACKUPS).join(name), &bytes).unwrap();
    }
    for (id, first) in [(1, b"1"), (2, b"2")] {
        assert!(backups(&sim).verify(id).unwrap().damage.is_empty());
        let (found, _) = restored(&sim, id, &format!("/restored{id}"));
        assert_eq!(found, [(b"a".to_vec(), first.to_vec()), (b"b".to_vec(), vec![7; 100])]);
    }
}
