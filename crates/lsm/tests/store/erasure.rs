//! How far back a store reaches outside of its tables, and the erasure of its log. Every value holds its own seqno, so
//! the bytes on the simulated disk show what is left.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, OldestSeqnos, Parts, Precondition};
use waxseal_lsm::env::Env;
use waxseal_lsm::env::sim::{Crash, Fault, Loss, SimFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_testing::fs::{FsHook, HookedFs};
use waxseal_testing::store::*;

fn family_options() -> CfOptions {
    CfOptions { compression: Compression::None, large_value_bytes: 1000, ..options() }
}

fn open_with(sim: &SimFs, dir: &Path, settings: Settings) -> Db {
    try_open_on(sim.env(sim.steps()), dir, settings).unwrap()
}

fn try_open_on(env: Env, dir: &Path, settings: Settings) -> Result<Db> {
    Db::open(dir, settings, Parts { families: vec![("default".into(), family_options())], ..parts(env) })
}

/// Opens a store on a disk whose calls can fail.
fn open_hooked(sim: &SimFs, dir: &Path, settings: Settings) -> (Db, FailOnce) {
    let hook = FailOnce::default();
    (open_on_hook(sim, dir, settings, &hook), hook)
}

fn open_on_hook(sim: &SimFs, dir: &Path, settings: Settings, hook: &FailOnce) -> Db {
    let env = sim.env(sim.steps());
    let fs = HookedFs::over(env.fs.clone(), hook.clone());
    try_open_on(Env { fs: Arc::new(fs), ..env }, dir, settings).unwrap()
}

/// Counts down the calls of four kinds, two of them for log segments. The call at which a count is 0 fails. A rename
/// takes effect before it fails. While `tables_stay` is set, each removal of a table fails.
#[derive(Clone, Debug)]
struct FailOnce {
    segment_syncs: Arc<AtomicI64>,
    segment_removals: Arc<AtomicI64>,
    manifest_removals: Arc<AtomicI64>,
    renames: Arc<AtomicI64>,
    tables_stay: Arc<AtomicBool>,
}

impl Default for FailOnce {
    fn default() -> FailOnce {
        let [segment_syncs, segment_removals, manifest_removals, renames] =
            [(); 4].map(|()| Arc::new(AtomicI64::new(-1)));
        FailOnce { segment_syncs, segment_removals, manifest_removals, renames, tables_stay: Arc::default() }
    }
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"MANIFEST-"))
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "tbl")
}

fn count_down(calls: &AtomicI64) -> io::Result<()> {
    match calls.fetch_sub(1, Ordering::Relaxed) {
        0 => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    }
}

impl FsHook for FailOnce {
    fn before_sync(&self, path: &Path) -> io::Result<()> {
        if is_segment(path) { count_down(&self.segment_syncs) } else { Ok(()) }
    }

    fn before_remove(&self, path: &Path) -> io::Result<()> {
        match path {
            path if is_segment(path) => count_down(&self.segment_removals),
            path if is_manifest(path) => count_down(&self.manifest_removals),
            path if is_table(path) && self.tables_stay.load(Ordering::Relaxed) => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            _ => Ok(()),
        }
    }

    fn after_rename(&self, _from: &Path, to: &Path) -> io::Result<()> {
        if to.extension().is_some() { count_down(&self.renames) } else { Ok(()) }
    }
}

fn with_trash(trash_bytes: u64) -> Settings {
    Settings { trash_bytes, ..settings() }
}

/// Puts a value of about this length that holds its seqno every 20 bytes.
fn put_marked(db: &Db, key: u64, length: usize, last: &mut Seqno) {
    put_marked_in(db, &default(db), key, length, last);
}

fn put_marked_in(db: &Db, family: &Family, key: u64, length: usize, last: &mut Seqno) {
    let value = format!("[mark {:012}]", *last + 1).repeat(length.div_ceil(19));
    let seqno = put(db, family, format!("{key:04}").as_bytes(), value.as_bytes(), Durability::Os).unwrap();
    assert!(seqno > *last && seqno <= *last + 1, "{seqno} after {last}");
    *last = seqno;
}

/// Returns the least marked seqno in the files that are no current tables or value files, with the name of the file.
fn least_mark(sim: &SimFs, dir: &Path, db: &Db) -> Option<(Seqno, String)> {
    let mut current = BTreeSet::new();
    for table in db.tables(&default(db)).unwrap() {
        current.insert(table.name());
        let values = table.meta().values.iter().map(|values| format!("{:06}.val", values.file.number));
        current.extend(values);
    }
    let marks =
        sim_bytes(sim, dir).into_iter().filter(|(name, _)| !current.contains(name)).flat_map(|(name, bytes)| {
            let marks = bytes.windows(18).filter(|window| window.starts_with(b"[mark ")).filter_map(|window| {
                std::str::from_utf8(&window[6..]).ok().and_then(|digits| digits.parse::<Seqno>().ok())
            });
            marks.min().map(|mark| (mark, name))
        });
    marks.min()
}

/// Checks the promise: no file has a mark below the oldest seqno.
fn check(sim: &SimFs, dir: &Path, db: &Db) -> OldestSeqnos {
    let oldest = db.oldest_seqnos().unwrap();
    let least = least_mark(sim, dir, db);
    if let Some((mark, name)) = &least {
        let promised = OldestSeqnos { snapshots: None, ..oldest }.oldest();
        assert!(promised.is_some_and(|promised| promised <= *mark), "{mark} is in {name}, promised was {oldest:?}");
    }
    oldest
}

/// Runs a random history, and checks the promise after each step. Returns the holders that had a record of a known
/// seqno.
fn history(settings: &Settings, seed: u64) -> BTreeSet<usize> {
    let (sim, dir) = sim(seed);
    let mut db = open_with(&sim, &dir, settings.clone());
    let (mut last, mut held, mut reached) = (0, Vec::new(), BTreeSet::new());
    let mut dice = seed;
    for round in 0..150 {
        dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let roll = dice >> 40;
        for n in 0..roll % 40 {
            let length = if n % 13 == 5 { 2000 } else { 60 + (roll % 400) as usize };
            put_marked(&db, (dice >> 20).wrapping_add(n * 17) % 300, length, &mut last);
        }
        match (roll / 40) % 16 {
            0 => db.flush().unwrap(),
            1 => db.settle().unwrap(),
            2 => db.erase_log().unwrap(),
            3 => held.push((db.snapshot().unwrap(), db.cursor(&default(&db), At::Latest, ALL).unwrap())),
            4 | 5 => held.clear(),
            6 if settings.keep_log_bytes > 0 => drop(db.keep_log_for("copy", None).unwrap()),
            7 => drop(db.drop_change_cursor("copy")),
            8 if settings.trash_bytes > 0 => {
                let trash_bytes = if round % 2 == 0 { 0 } else { settings.trash_bytes };
                db.set_settings(Settings { trash_bytes, ..settings.clone() }).unwrap();
            }
            9 if round % 3 == 0 => {
                held.clear();
                db.close().unwrap();
                db = open_with(&sim, &dir, settings.clone());
                last = db.metrics().visible_seqno; // an open may take seqnos
            }
            _ => while db.step().unwrap() {},
        }
        let oldest = check(&sim, &dir, &db);
        let all = [oldest.memtables, oldest.log, oldest.kept_log, oldest.obsolete_files, oldest.snapshots];
        let is_known = |holder: &usize| all[*holder].is_some_and(|oldest| oldest > 0);
        reached.extend((0..all.len()).filter(is_known));
    }
    reached
}

#[test]
fn no_file_holds_an_older_record_than_the_store_says() {
    let kept_log = Settings { keep_log_bytes: 150_000, ..settings() };
    let all = [settings(), with_trash(30_000), kept_log];
    let reached = all.iter().zip(5..).map(|(settings, seed)| history(settings, seed));
    assert_eq!(reached.flatten().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3, 4]));
}

#[test]
fn an_erased_log_holds_no_old_record() {
    let (sim, dir) = sim(12);
    let db = open_with(&sim, &dir, with_trash(100_000));
    let mut last = 0;
    for n in 0..1500 {
        put_marked(&db, n % 200, if n % 10 == 0 { 3000 } else { 200 }, &mut last);
        while db.step().unwrap() {}
    }
    db.compact(&default(&db), &ALL).unwrap();
    let before = check(&sim, &dir, &db);
    assert!(before.log.is_some_and(|oldest| oldest < last), "{before:?}");
    assert!(before.obsolete_files.is_some(), "the trash: {before:?}");
    db.set_settings(with_trash(0)).unwrap();
    db.erase_log().unwrap();
    assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default());
    assert_eq!(least_mark(&sim, &dir, &db), None);
    put_marked(&db, 1, 100, &mut last);
    let after = check(&sim, &dir, &db);
    assert_eq!((after.memtables, after.log, after.oldest()), (Some(last), Some(last), Some(last)));
}

#[test]
fn an_erased_manifest_holds_no_key_of_an_old_table() {
    let (sim, dir) = sim(14);
    let db = open_with(&sim, &dir, settings());
    let holders = || {
        let holds = |bytes: &[u8]| bytes.windows(10).any(|window| window == b"secret key");
        let files = sim_bytes(&sim, &dir).into_iter().filter(|(_, bytes)| holds(bytes));
        files.map(|(name, _)| name.split('-').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    put(&db, &default(&db), b"secret key", b"value", Durability::Os).unwrap();
    db.flush().unwrap();
    delete(&db, &default(&db), b"secret key").unwrap();
    db.flush().unwrap();
    db.compact(&default(&db), &ALL).unwrap();
    db.settle().unwrap();
    assert!(holders().contains(&"MANIFEST".to_owned()), "{:?}", holders());
    db.erase_log().unwrap();
    assert_eq!(holders(), Vec::<String>::new());
}

#[test]
fn files_that_an_open_has_found_are_erased_with_the_log() {
    let (sim, dir) = sim(15);
    let mut last = 0;
    let db = open_with(&sim, &dir, settings());
    put_marked(&db, 1, 100, &mut last);
    db.flush().unwrap();
    let table = db.tables(&default(&db)).unwrap()[0].name();
    db.close().unwrap();
    let copy = sim.read_all(dir.join(&table)).unwrap();
    sim.write_all(dir.join("000001.tbl"), &copy).unwrap();
    let db = open_with(&sim, &dir, settings());
    assert_eq!(db.oldest_seqnos().unwrap().obsolete_files, Some(0));
    db.erase_log().unwrap();
    assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default());
    assert_eq!(least_mark(&sim, &dir, &db), None);
}

#[test]
fn each_holder_of_an_old_record_is_named() {
    let (sim, dir) = sim(13);
    let db = open_with(&sim, &dir, settings());
    let mut last = 0;
    put_marked(&db, 1, 100, &mut last);
    db.flush().unwrap();
    let cursor = db.cursor(&default(&db), At::Latest, ALL).unwrap();
    let snapshot = db.snapshot().unwrap();
    put_marked(&db, 1, 100, &mut last);
    let memory = db.oldest_seqnos().unwrap();
    assert_eq!((memory.memtables, memory.obsolete_files, memory.snapshots), (Some(2), None, Some(1)));
    drop(snapshot);
    db.compact(&default(&db), &ALL).unwrap();
    db.erase_log().unwrap();
    let held = check(&sim, &dir, &db);
    assert_eq!((held.obsolete_files, held.log, held.snapshots), (Some(1), None, None), "{held:?}");
    assert_eq!(held.memtables, Some(2), "the cursor may hold the memtable of its view");
    drop(cursor);
    while db.step().unwrap() {}
    assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default());

    db.keep_log_for("copy", None).unwrap();
    put_marked(&db, 2, 100, &mut last);
    db.erase_log().unwrap();
    let kept = check(&sim, &dir, &db);
    assert_eq!((kept.kept_log, kept.log), (Some(3), None), "{kept:?}");
    db.drop_change_cursor("copy").unwrap();
    db.erase_log().unwrap();
    assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default());
    sim.write_all(dir.join("000999.cut"), b"left by a recovery").unwrap();
    assert_eq!(db.oldest_seqnos().unwrap().oldest(), Some(0));
    let read_only = read_only(&sim, &dir).unwrap();
    assert_kind(read_only.oldest_seqnos(), ErrorKind::ReadOnly, "a reader");
    assert_kind(read_only.erase_log(), ErrorKind::ReadOnly, "a reader");
}

#[test]
fn a_dropped_family_counts_while_a_cursor_holds_it() {
    let (sim, dir) = sim(14);
    let db = open_with(&sim, &dir, settings());
    let other = db.create_family("other", family_options()).unwrap();
    let mut last = db.metrics().visible_seqno;
    let first = last + 1;
    put_marked_in(&db, &other, 1, 2000, &mut last);
    put_marked_in(&db, &other, 2, 100, &mut last);
    let cursor = db.cursor(&other, At::Latest, ALL).unwrap();
    db.drop_family("other").unwrap();
    drop(other);
    db.erase_log().unwrap();
    let held = check(&sim, &dir, &db);
    assert_eq!((held.memtables, held.obsolete_files), (Some(first), Some(first)), "{held:?}");
    assert_eq!(least_mark(&sim, &dir, &db).map(|(mark, _)| mark), Some(first));
    drop(cursor);
    while db.step().unwrap() {}
    assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default());
    assert_eq!(least_mark(&sim, &dir, &db), None);
}

#[test]
fn a_value_file_counts_by_its_own_values() {
    let (sim, dir) = sim(15);
    let db = open_with(&sim, &dir, settings());
    let mut last = 0;
    put_marked(&db, 1, 2000, &mut last);
    last = delete(&db, &default(&db), b"0001").unwrap(); // the flush drops the value, and no table names its file
    while db.metrics().families[0].frozen == 0 {
        put_marked(&db, 2, 400, &mut last);
    }
    put_marked(&db, 3, 2000, &mut last); // into the same file
    last = delete(&db, &default(&db), b"0003").unwrap();
    while db.step().unwrap() {}
    let cursor = db.cursor(&default(&db), At::Latest, ALL).unwrap();
    db.erase_log().unwrap();
    let held = check(&sim, &dir, &db);
    assert!(held.memtables > Some(2), "{held:?}");
    assert_eq!(held.obsolete_files, Some(1), "{held:?}");
    assert_eq!(least_mark(&sim, &dir, &db).map(|(mark, _)| mark), Some(1));
    drop(cursor);
    while db.step().unwrap() {}
    assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default());
    assert!(last > 4);
}

#[test]
fn what_was_erased_stays_erased_after_a_loss_of_power() {
    let (sim, dir) = sim(16);
    let db = open_with(&sim, &dir, settings());
    let mut last = 0;
    for n in 0..600 {
        put_marked(&db, n % 100, if n % 10 == 0 { 2000 } else { 200 }, &mut last);
        while db.step().unwrap() {}
    }
    db.compact(&default(&db), &ALL).unwrap();
    assert!(least_mark(&sim, &dir, &db).is_some());
    db.erase_log().unwrap();
    assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default());
    let random = (0..8).map(|seed| Loss::Random { seed });
    for loss in [Loss::DurableOnly, Loss::KeepAll, Loss::Names, Loss::Data].into_iter().chain(random) {
        let after = sim.fork();
        after.reboot(Crash::Machine(loss));
        assert_eq!(least_mark(&after, &dir, &db), None, "{loss:?}");
    }
}

/// Runs calls that write and remove files of each kind, whatever they return.
fn run_all(db: &Db, dice: u64) {
    for n in 0..60 {
        let mark = format!("[mark {:012}]", db.metrics().visible_seqno + 1);
        let value = mark.repeat(if n % 20 == 0 { 110 } else { 10 });
        let _ = put(db, &default(db), format!("{:04}", (n + dice) % 40).as_bytes(), value.as_bytes(), Durability::Os);
        let _ = db.step();
    }
    let _ = db.flush();
    let _ = db.compact(&default(db), &ALL);
    let _ = db.erase_log();
    let _ = db.settle();
}

/// Fails one step of a run, or all from one step on, and checks the promise afterwards. Then everything can be erased,
/// so the store knows each file that it could not remove. Some steps halt the store, and some do not.
fn fail_each_step(settings: &Settings, lasts: bool, stride: usize) {
    let (sim, dir) = sim(18);
    let db = open_with(&sim, &dir, settings.clone());
    (0..4).for_each(|round| run_all(&db, round));
    db.close().unwrap();
    let mut halted = BTreeSet::new();
    for step in (0..).step_by(stride) {
        let sim = sim.fork();
        let db = open_with(&sim, &dir, settings.clone());
        let fault = Fault::Error(io::ErrorKind::PermissionDenied);
        if lasts {
            sim.fail_from(sim.steps() + step, fault)
        } else {
            sim.fail_at(sim.steps() + step, fault)
        }
        run_all(&db, 7);
        let is_over = sim.steps() < step;
        let has_occurred = sim.clear_faults();
        let oldest = db.oldest_seqnos();
        halted.insert(oldest.is_err());
        match oldest {
            Err(error) => assert_eq!(*error.kind(), ErrorKind::Halted, "step {step}"),
            Ok(_) => {
                check(&sim, &dir, &db);
                db.set_settings(Settings { trash_bytes: 0, ..settings.clone() }).unwrap();
                db.erase_log().unwrap();
                while db.step().unwrap() {}
                assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default(), "step {step}");
                assert_eq!(least_mark(&sim, &dir, &db), None, "step {step}");
            }
        }
        if is_over || !has_occurred {
            break;
        }
    }
    assert_eq!(halted, BTreeSet::from([false, true]));
}

#[test]
fn a_failure_at_any_step_hides_no_old_record() {
    fail_each_step(&with_trash(8_000), false, 1);
    fail_each_step(&with_trash(8_000), true, 1);
}

#[test]
fn old_frames_behind_those_of_a_kept_segment_count() {
    let (sim, dir) = sim(17);
    let db = open_with(&sim, &dir, settings());
    (0..4).for_each(|round| run_all(&db, round)); // segments are used again
    db.close().unwrap();
    let mut reached = BTreeSet::new();
    for step in 0.. {
        let sim = sim.fork();
        let db = open_with(&sim, &dir, settings());
        db.keep_log_for("copy", None).unwrap();
        sim.crash_at(sim.steps() + step);
        (7..9).for_each(|round| run_all(&db, round));
        let has_crashed = sim.is_crashed();
        drop(db);
        sim.reboot(Crash::Machine(if step % 2 == 0 { Loss::KeepAll } else { Loss::DurableOnly }));
        let db = open_with(&sim, &dir, settings());
        while db.step().unwrap() {}
        reached.insert(check(&sim, &dir, &db).kept_log == Some(0));
        db.erase_log().unwrap();
        assert_ne!(check(&sim, &dir, &db).kept_log, Some(0), "step {step}");
        check_after_power_loss(&sim, &dir, &db);
        if !has_crashed {
            break;
        }
    }
    assert_eq!(reached, BTreeSet::from([false, true]));
}

#[test]
fn an_erasure_that_failed_is_completed_later_or_has_halted_the_store() {
    let (sim, dir) = sim(19);
    let (db, mut last) = (open_with(&sim, &dir, settings()), 0);
    put_marked(&db, 1, 100, &mut last);
    db.close().unwrap();
    let (mut is_ring_reached, mut halted) = (false, BTreeSet::new());
    for step in 0.. {
        let sim = sim.fork();
        let db = open_with(&sim, &dir, settings());
        let mut last = db.metrics().visible_seqno;
        put_marked(&db, 2, 100, &mut last);
        sim.fail_at(sim.steps() + step, Fault::Error(io::ErrorKind::PermissionDenied));
        let error = db.erase_log().err().map_or_else(String::new, |error| error.to_string());
        if !sim.clear_faults() {
            break;
        }
        let is_ring = error.contains("sync ") && error.contains(".ring");
        is_ring_reached |= is_ring;
        let again = db.erase_log();
        halted.insert(again.is_err());
        if is_ring || again.is_err() {
            assert_kind(again, ErrorKind::Halted, "a second call");
            assert_kind(put(&db, &default(&db), b"3", b"", Durability::Os), ErrorKind::Halted, "a put");
        } else {
            assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default(), "step {step}: {error}");
        }
    }
    assert!(is_ring_reached);
    assert_eq!(halted, BTreeSet::from([false, true]));
}

/// Fills a store whose log uses segments again, and then keeps the log. Returns the last seqno.
fn keep_segments_used_again(db: &Db, puts: u64) -> Seqno {
    let mut last = 0;
    for n in 0..900 {
        put_marked(db, n % 100, 250, &mut last);
        while db.step().unwrap() {}
    }
    assert!(db.metrics().wal.recycled > 0);
    db.keep_log_for("copy", None).unwrap();
    for n in 0..puts {
        put_marked(db, n % 100, 250, &mut last);
        while db.step().unwrap() {}
    }
    last
}

/// Checks the promise for the state of the disk after a loss of power, apart from the current tables.
fn check_after_power_loss(sim: &SimFs, dir: &Path, db: &Db) {
    let promised = db.oldest_seqnos().unwrap().oldest();
    for loss in [Loss::DurableOnly, Loss::Names, Loss::Data] {
        let after = sim.fork();
        after.reboot(Crash::Machine(loss));
        if let Some((mark, name)) = least_mark(&after, dir, db) {
            assert!(
                promised.is_some_and(|promised| promised <= mark),
                "{loss:?}: {mark} is in {name}, not {promised:?}"
            );
        }
    }
}

#[test]
fn the_cut_of_a_kept_segment_outlives_a_loss_of_power() {
    for puts in [10, 60, 200] {
        let (sim, dir) = sim(20);
        let db = open_with(&sim, &dir, settings());
        keep_segments_used_again(&db, puts);
        db.erase_log().unwrap();
        assert!(db.oldest_seqnos().unwrap().kept_log.is_some_and(|oldest| oldest > 0));
        check_after_power_loss(&sim, &dir, &db);
    }
}

#[test]
fn a_cut_that_was_not_synced_is_synced_by_the_next_erasure() {
    let mut outcomes = BTreeSet::new();
    for nth in 0.. {
        let (sim, dir) = sim(20);
        let (db, hook) = open_hooked(&sim, &dir, settings());
        keep_segments_used_again(&db, 60);
        hook.segment_syncs.store(nth, Ordering::Relaxed);
        let erased = db.erase_log();
        let has_failed = hook.segment_syncs.swap(-1, Ordering::Relaxed) < 0;
        match db.erase_log() {
            Err(error) => assert_eq!(*error.kind(), ErrorKind::Halted),
            Ok(()) => {
                outcomes.insert(erased.is_ok());
                check_after_power_loss(&sim, &dir, &db);
            }
        }
        if !has_failed {
            break;
        }
    }
    assert_eq!(outcomes, BTreeSet::from([false, true]));
}

/// Makes a store with an old log, as a process leaves it that was killed.
fn killed(seed: u64) -> (SimFs, std::path::PathBuf) {
    let (sim, dir) = sim(seed);
    let (db, mut last) = (open_with(&sim, &dir, settings()), 0);
    for n in 0..200 {
        put_marked(&db, n % 50, if n % 20 == 0 { 2000 } else { 200 }, &mut last);
        while db.step().unwrap() {}
    }
    kill(&sim, db);
    (sim, dir)
}

#[test]
fn the_log_of_a_killed_process_is_erased_at_once() {
    let (sim, dir) = killed(21);
    let db = open_with(&sim, &dir, settings());
    assert_eq!(check(&sim, &dir, &db).obsolete_files, Some(0));
    db.erase_log().unwrap();
    assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default());
    check_after_power_loss(&sim, &dir, &db);
}

#[test]
fn a_leftover_that_could_not_be_read_stays_known() {
    let (sim, dir) = killed(22);
    let mut halted = BTreeSet::new();
    for lasts in [false, true] {
        for step in 0.. {
            let sim = sim.fork();
            let db = open_with(&sim, &dir, settings());
            let fault = Fault::Error(io::ErrorKind::PermissionDenied);
            let at = sim.steps() + step;
            if lasts {
                sim.fail_from(at, fault)
            } else {
                sim.fail_at(at, fault)
            }
            (0..20).for_each(|_| drop(db.step()));
            let is_over = sim.steps() < at;
            sim.clear_faults();
            let oldest = db.oldest_seqnos();
            halted.insert(oldest.is_err());
            match oldest {
                Err(error) => assert_eq!(*error.kind(), ErrorKind::Halted, "step {step}"),
                Ok(_) => {
                    check(&sim, &dir, &db);
                    db.erase_log().unwrap();
                    assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default(), "step {step}");
                }
            }
            if is_over {
                break;
            }
        }
    }
    assert_eq!(halted, BTreeSet::from([false, true]));
}

#[test]
fn a_failure_at_any_step_of_an_open_hides_no_trash() {
    let (sim, dir) = sim(23);
    let (db, mut last) = (open_with(&sim, &dir, with_trash(100_000)), 0);
    for n in 0..300 {
        put_marked(&db, n % 50, 200, &mut last);
        while db.step().unwrap() {}
    }
    db.compact(&default(&db), &ALL).unwrap();
    db.close().unwrap();
    assert!(!named(&sim, &dir, ".trash").is_empty());
    for step in 0.. {
        let sim = sim.fork();
        sim.fail_at(sim.steps() + step, Fault::Error(io::ErrorKind::PermissionDenied));
        let opened = try_open_on(sim.env(1), &dir, with_trash(100_000));
        if !sim.clear_faults() {
            break;
        }
        let Ok(db) = opened else { continue };
        check(&sim, &dir, &db);
        db.set_settings(with_trash(0)).unwrap();
        db.erase_log().unwrap();
        assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default(), "step {step}");
    }
}

#[test]
fn a_large_value_that_was_refused_is_erased() {
    let (sim, dir) = sim(24);
    let db = open_with(&sim, &dir, settings());
    let family = default(&db);
    let mut refused = Batch::new();
    refused.push(family.id(), Kind::Put, b"key", &[7; 2000], db.companions()).unwrap();
    let before = Precondition::epoch(db.epoch());
    db.set_epoch(9).unwrap();
    assert_eq!(db.commit_if(&mut refused, Durability::Os, before).unwrap(), None);
    assert_eq!(named(&sim, &dir, ".val").len(), 1);
    let mut last = 0;
    put_marked(&db, 1, 100, &mut last);
    db.erase_log().unwrap();
    assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default());
    assert!(named(&sim, &dir, ".val").is_empty());
    put_marked(&db, 2, 2000, &mut last); // into another file
    db.erase_log().unwrap();
    assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default());
}

#[test]
fn a_rename_that_took_effect_and_failed_hides_no_file() {
    let mut reached = 0;
    for nth in 0.. {
        let (sim, dir) = sim(25);
        let (db, hook) = open_hooked(&sim, &dir, with_trash(20_000));
        hook.renames.store(nth, Ordering::Relaxed);
        for n in 0..500 {
            let mark = format!("[mark {:012}]", db.metrics().visible_seqno + 1).repeat(15);
            put(&db, &default(&db), format!("{:04}", n % 100).as_bytes(), mark.as_bytes(), Durability::Os).unwrap();
            while db.step().unwrap_or_default() {}
        }
        if hook.renames.swap(-1, Ordering::Relaxed) >= 0 {
            break;
        }
        reached += 1;
        db.set_settings(with_trash(0)).unwrap();
        db.erase_log().unwrap();
        assert_eq!(check(&sim, &dir, &db), OldestSeqnos::default(), "rename {nth}");
    }
    assert!(reached > 3);
}

#[test]
fn a_busy_store_tries_again_to_remove_segments() {
    let (sim, dir) = sim(26);
    let (db, hook) = open_hooked(&sim, &dir, settings());
    let (mut last, mut was_left) = (0, false);
    put_marked(&db, 1, 400, &mut last);
    db.settle().unwrap(); // the log continues in a short segment, which is not used again
    hook.segment_removals.store(0, Ordering::Relaxed);
    for n in 0..1000 {
        put_marked(&db, n % 100, 400, &mut last);
        while db.step().unwrap() {}
        was_left |= db.oldest_seqnos().unwrap().log == Some(0);
    }
    assert!(was_left);
    assert_ne!(db.oldest_seqnos().unwrap().log, Some(0));
}

/// Makes a store whose compactions have replaced all tables of before.
fn with_replaced_tables(db: &Db, replaces: impl FnOnce()) -> Seqno {
    let mut last = 0;
    db.keep_log_for("copy", None).unwrap(); // the log gives no room back
    for _ in 0..2 {
        (0..100).for_each(|n| put_marked(db, n, 400, &mut last));
        db.flush().unwrap();
    }
    replaces();
    db.compact(&default(db), &ALL).unwrap();
    last
}

/// Puts and flushes records until a flush finds no room on the disk.
fn fill_disk(sim: &SimFs, db: &Db, mut last: Seqno) {
    for _ in 0..20 {
        sim.set_free_space(None);
        (0..20).for_each(|n| put_marked(db, n, 400, &mut last));
        sim.set_free_space(Some(0));
        if let Err(error) = db.flush() {
            return assert!(error.is_out_of_space(), "{error}");
        }
    }
    panic!("the disk never fills up");
}

/// A flush on a full disk needs room that only files have whose removal failed before.
#[test]
fn a_flush_on_a_full_disk_tries_again_to_remove_files() {
    let (sim, dir) = sim(27);
    let (db, hook) = open_hooked(&sim, &dir, settings());
    let last = with_replaced_tables(&db, || hook.tables_stay.store(true, Ordering::Relaxed));
    let current: Vec<String> = db.tables(&default(&db)).unwrap().iter().map(|table| table.name()).collect();
    let on_disk = || named(&sim, &dir, ".tbl");
    let left: Vec<String> = on_disk().into_iter().filter(|name| !current.contains(name)).collect();
    assert!(!left.is_empty());
    fill_disk(&sim, &db, last);
    assert!(db.flush().unwrap_err().is_out_of_space());
    hook.tables_stay.store(false, Ordering::Relaxed);
    db.flush().unwrap();
    assert!(left.iter().all(|name| !on_disk().contains(name)));
    assert_eq!(db.oldest_seqnos().unwrap().memtables, None);
}

/// A flush of the background that lacks room is repeated after files were removed that a reader has released.
#[test]
fn a_flush_on_a_full_disk_is_repeated_after_obsolete_files_are_removed() {
    let (sim, dir) = sim(28);
    let without_compactions = CfOptions { level0_tables: 64, ..family_options() };
    let parts = Parts { families: vec![("default".into(), without_compactions)], ..parts(sim.env(28)) };
    let db = Db::open(&dir, settings(), parts).unwrap();
    let mut cursor = None;
    let last = with_replaced_tables(&db, || cursor = Some(db.cursor(&default(&db), At::Latest, ALL).unwrap()));
    fill_disk(&sim, &db, last);
    let is_flushed = || (0..5).all(|_| db.step().is_ok()) && db.oldest_seqnos().unwrap().memtables.is_none();
    assert!(!is_flushed());
    drop(cursor);
    assert!(is_flushed());
}

fn manifests(sim: &SimFs, dir: &Path) -> usize {
    sim.files(dir).iter().filter(|name| name.starts_with("MANIFEST-")).count()
}

#[test]
fn an_old_manifest_that_could_not_be_removed_stays_known() {
    let (sim, dir) = sim(29);
    let (db, hook) = open_hooked(&sim, &dir, settings());
    put_marked(&db, 1, 100, &mut 0);
    hook.manifest_removals.store(0, Ordering::Relaxed);
    db.erase_log().unwrap();
    assert_eq!((manifests(&sim, &dir), db.oldest_seqnos().unwrap().obsolete_files), (2, Some(0)));
    db.erase_log().unwrap();
    assert_eq!((manifests(&sim, &dir), db.oldest_seqnos().unwrap()), (1, OldestSeqnos::default()));
}

#[test]
fn the_manifest_before_an_open_is_removed_later_if_that_fails() {
    let (sim, dir) = sim(29);
    open_with(&sim, &dir, settings()).close().unwrap();
    let hook = FailOnce::default();
    hook.manifest_removals.store(0, Ordering::Relaxed);
    let db = open_on_hook(&sim, &dir, settings(), &hook);
    assert_eq!(manifests(&sim, &dir), 2);
    while db.step().unwrap() {}
    assert_eq!(manifests(&sim, &dir), 1);
}

/// A file of the store whose header is damaged may also be a user's file: it stays, and it counts.
#[test]
fn a_leftover_with_a_damaged_header_stays_known() {
    let (sim, dir) = sim(30);
    let db = open_with(&sim, &dir, settings());
    put_marked(&db, 1, 100, &mut 0);
    db.flush().unwrap();
    let table = db.tables(&default(&db)).unwrap()[0].name();
    db.close().unwrap();
    let leftover = dir.join("000001.tbl");
    sim.write_all(&leftover, &sim.read_all(dir.join(&table)).unwrap()).unwrap();
    sim.flip(&leftover, 0).unwrap();
    let db = open_with(&sim, &dir, settings());
    db.erase_log().unwrap();
    assert_eq!(check(&sim, &dir, &db).obsolete_files, Some(0));
    sim.delete(&leftover).unwrap(); // the user has moved it; the store has not removed it
    db.erase_log().unwrap();
    assert_eq!(db.oldest_seqnos().unwrap(), OldestSeqnos::default());
}
