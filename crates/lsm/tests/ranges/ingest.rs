//! Table files that are written outside of the store and ingested: every read sees them at their place in the commit
//! order, and a crash or bad input leaves either all of an ingestion or nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, BulkLoad, Db, Family, IngestMode, Parts};
use waxseal_lsm::env::Env;
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::work::Signal;
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Compression, Durability, SealLayout};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_testing::fs::{FsHook, HookedFs};
use waxseal_testing::protector::TestProtector;
use waxseal_testing::store::*;

use crate::delete_range;

/// Writes a table file of these records; `None` is a delete.
pub(crate) fn write_file(db: &Db, family: &Family, path: &Path, records: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<()> {
    let mut writer = db.table_writer(family, path)?;
    for (key, value) in records {
        let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
        writer.push(kind, key, value.as_deref().unwrap_or_default(), &[])?;
    }
    writer.finish().map(drop)
}

fn records(numbers: impl IntoIterator<Item = usize>, round: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let one = |n| (record(n, round).0, (n % 7 != 3).then(|| record(n, round).1));
    numbers.into_iter().map(one).collect()
}

fn rows_in(records: &[(Vec<u8>, Option<Vec<u8>>)]) -> Rows {
    records.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
}

fn open_with(sim: &SimFs, dir: &Path, options: CfOptions, companions: Arc<dyn Companions>) -> Db {
    let families = vec![("default".into(), options.clone()), ("other".into(), options)];
    let parts = Parts { families, companions, ..parts(sim.env(sim.steps())) };
    Db::open(dir, settings(), parts).unwrap()
}

fn sealed(sim: &SimFs, dir: &Path, options: CfOptions) -> Db {
    open_with(sim, dir, options, Arc::new(TestProtector::default()))
}

/// Checks that every record, in memory and in tables, has its own word.
fn check_words(db: &Db) {
    for table in db.tables(&default(db)).unwrap() {
        let mut cursor = table.table().unwrap().cursor(false);
        cursor.first().unwrap();
        while cursor.valid() {
            assert!(TestProtector::is_right(&cursor.record()), "{:?}", cursor.record());
            cursor.next().unwrap();
        }
    }
}

#[test]
fn ingested_records_have_their_place_among_the_commits() {
    for seals in [SealLayout::Column, SealLayout::Following] {
        for compression in [Compression::None, Compression::Lz4] {
            let (sim, dir) = sim(3);
            let options = CfOptions { seals, compression, ..options() };
            let db = sealed(&sim, &dir, options.clone());
            let (family, other) = (default(&db), db.family("other").unwrap());
            let path = PathBuf::from("/files/one");
            sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
            for n in 0..200 {
                let (key, value) = record(n, 0);
                put(&db, &family, &key, &value, Durability::Os).unwrap();
            }
            let (from, to) = (record(0, 0).0, record(90, 0).0);
            delete_range(&db, &family, (Some(&from), Some(&to)), Durability::Os).unwrap();
            let before = (db.snapshot().unwrap(), rows(&db, &family, At::Latest).unwrap());
            let files = records(50..150, 1);
            write_file(&db, &family, &path, &files).unwrap();
            write_file(&db, &other, Path::new("/files/two"), &files).unwrap();
            let paths = [[path.clone()], ["/files/two".into()]];
            let done = db.ingest_tables(&[(&family, &paths[0]), (&other, &paths[1])], IngestMode::Copy).unwrap();
            assert_eq!((done.records, done.tables.len()), (200, 2));
            assert_eq!(done.tables[1].1, 6, "an empty family receives a table in its lowest level");
            let mut expected = rows_in(&files);
            expected.extend((150..200).map(|n| record(n, 0)));
            assert_eq!(rows(&db, &family, At::Latest).unwrap(), expected);
            assert_eq!(rows(&db, &other, At::Latest).unwrap(), rows_in(&files));
            assert_eq!(rows(&db, &family, At::Snapshot(&before.0)).unwrap(), before.1);
            for (key, value) in &files {
                assert_eq!(get(&db, &family, key, At::Latest).unwrap(), *value);
            }
            let (from, to) = (record(60, 0).0, record(70, 0).0);
            delete_range(&db, &family, (Some(&from), Some(&to)), Durability::Os).unwrap();
            put(&db, &family, &record(65, 2).0, b"newest", Durability::Os).unwrap();
            expected.retain(|(key, _)| *key < from || *key >= to);
            expected.push((record(65, 2).0, b"newest".to_vec()));
            expected.sort();
            let check = |db: &Db| {
                assert_eq!(rows(db, &default(db), At::Latest).unwrap(), expected);
                check_words(db);
            };
            check(&db);
            drop(before);
            drop((family, other));
            kill(&sim, db);
            let db = sealed(&sim, &dir, options.clone());
            check(&db);
            db.flush().unwrap();
            check(&db);
            db.compact(&default(&db), &ALL).unwrap();
            check(&db);
            assert!(db.tables(&default(&db)).unwrap().iter().all(|table| table.meta().ingest_seqno == 0));
            db.settle().unwrap();
            check(&db);
        }
    }
}

#[test]
fn a_node_without_the_protector_reads_and_merges_an_ingested_table() {
    for seals in [SealLayout::Column, SealLayout::Following] {
        let (sim, dir) = sim(4);
        let options = CfOptions { seals, ..options() };
        let db = sealed(&sim, &dir, options.clone());
        sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
        let files = records(0..100, 1);
        write_file(&db, &default(&db), Path::new("/files/one"), &files).unwrap();
        db.ingest_tables(&[(&default(&db), &["/files/one".into()])], IngestMode::Move).unwrap();
        assert_eq!(sim.files("/files"), [""; 0], "a file that is moved has no other name");
        db.close().unwrap();
        let db = open_with(&sim, &dir, options.clone(), Arc::new(Plain));
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), rows_in(&files));
        put(&db, &default(&db), &record(7, 0).0, b"plain", Durability::Os).unwrap();
        db.compact(&default(&db), &ALL).unwrap();
        db.close().unwrap();
        let db = sealed(&sim, &dir, options);
        let mut expected = rows_in(&files);
        expected.iter_mut().find(|(key, _)| *key == record(7, 0).0).unwrap().1 = b"plain".to_vec();
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected);
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let (sim, dir) = sim(5);
    let db = sealed(&sim, &dir, options());
    let (family, other) = (default(&db), db.family("other").unwrap());
    sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
    for n in 0..20 {
        put(&db, &family, &record(n, 0).0, b"old", Durability::Os).unwrap();
    }
    db.flush().unwrap();
    let kept = rows(&db, &family, At::Latest).unwrap();
    let at = |name: &str| PathBuf::from(format!("/files/{name}"));
    let mut writer = db.table_writer(&family, &at("order")).unwrap();
    writer.push(Kind::Put, b"b", b"1", &[]).unwrap();
    for key in [b"b", b"a"] {
        assert_eq!(*writer.push(Kind::Put, key, b"2", &[]).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(*writer.push(Kind::RangeDelete, b"c", b"\x01d", &[]).unwrap_err().kind(), ErrorKind::Invalid);
    drop(writer);
    assert_eq!(sim.files("/files"), [""; 0], "an unfinished file is removed");
    assert_eq!(*db.table_writer(&family, &at("empty")).unwrap().finish().unwrap_err().kind(), ErrorKind::Invalid);
    write_file(&db, &family, &at("a"), &records(0..10, 1)).unwrap();
    write_file(&db, &family, &at("b"), &records(9..20, 1)).unwrap();
    write_file(&db, &other, &at("c"), &records(30..40, 1)).unwrap();
    assert!(db.table_writer(&family, &at("a")).is_err(), "no file is overwritten");
    let own = db.tables(&family).unwrap()[0].meta().number;
    let own = dir.join(format!("{own:06}.tbl"));
    let tables = || sim.files(&dir).into_iter().filter(|name| name.ends_with(".tbl")).count();
    let before = tables();
    let refused = |family: &Family, paths: &[PathBuf]| {
        for mode in [IngestMode::Copy, IngestMode::Move] {
            let error = db.ingest_tables(&[(&default(&db), &[at("a")]), (family, paths)], mode).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Io(_)), "{error}");
            assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), kept);
            assert_eq!((tables(), sim.files("/files").len()), (before, 3));
        }
    };
    refused(&family, &[at("b")]); // shares a key with `a`
    refused(&family, &[at("c")]); // of another family
    refused(&other, &[at("a")]);
    refused(&other, &[at("none")]);
    refused(&other, &[own]); // the records have seqnos already
    let backwards = CfOptions { order: backwards(), ..options() };
    let reversed = db.create_family("reversed", backwards).unwrap();
    refused(&reversed, &[at("c")]);
    assert!(db.ingest_tables(&[], IngestMode::Move).unwrap().tables.is_empty());
    // A file of another store, whichever family it was written for.
    let donor = sealed(&sim, Path::new("/donor"), options());
    write_file(&donor, &default(&donor), &at("d"), &records(100..110, 1)).unwrap();
    db.ingest_tables(&[(&other, &[at("d")])], IngestMode::Copy).unwrap();
    assert_eq!(rows(&db, &other, At::Latest).unwrap(), rows_in(&records(100..110, 1)));
    // A table of the store, under its own name and under another one, and one file for two families.
    let number = db.tables(&other).unwrap()[0].meta().number;
    for path in [dir.join(format!("{number:06}.tbl")), at("d")] {
        let error = db.ingest_tables(&[(&family, &[path])], IngestMode::Move).unwrap_err();
        assert!(error.to_string().contains("already"), "{error}");
    }
    write_file(&donor, &default(&donor), &at("e"), &records(200..210, 1)).unwrap();
    let twice = [(&family, &[at("e")][..]), (&other, &[at("e")][..])];
    assert_eq!(*db.ingest_tables(&twice, IngestMode::Copy).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(rows(&db, &other, At::Latest).unwrap(), rows_in(&records(100..110, 1)));
}

#[test]
fn no_flipped_bit_of_a_file_is_ingested() {
    let (sim, dir) = sim(6);
    let db = sealed(&sim, &dir, options());
    sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
    let (path, files) = (PathBuf::from("/files/one"), records(0..12, 1));
    write_file(&db, &default(&db), &path, &files).unwrap();
    let whole = sim.read_all(&path).unwrap();
    for at in 0..whole.len() {
        let mut hit = whole.clone();
        hit[at] ^= 1 << (at % 8);
        sim.write_all(&path, &hit).unwrap();
        let outcome = db.ingest_tables(&[(&default(&db), std::slice::from_ref(&path))], IngestMode::Copy);
        let error = outcome.expect_err("a file with a flipped bit");
        // A version or feature that nobody knows is no damage.
        assert!(error.is_corruption() || *error.kind() == ErrorKind::FormatTooNew, "byte {at}: {error}");
        if let Some(damage) = error.damage() {
            assert_eq!(damage.file, "/files/one", "byte {at}: {error}");
        }
    }
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), []);
    sim.write_all(&path, &whole).unwrap();
    db.ingest_tables(&[(&default(&db), &[path])], IngestMode::Move).unwrap();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), rows_in(&files));
}

/// Reads of a hit table return what was ingested, or an error.
#[test]
fn no_flipped_bit_of_an_ingested_table_gives_a_wrong_answer() {
    for seals in [SealLayout::Column, SealLayout::Following] {
        let (sim, dir) = sim(7);
        let options = CfOptions { seals, ..options() };
        let db = sealed(&sim, &dir, options.clone());
        sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
        let files = records(0..12, 1);
        for (key, _) in &files {
            put(&db, &default(&db), key, b"old", Durability::Os).unwrap();
        }
        write_file(&db, &default(&db), Path::new("/files/one"), &files).unwrap();
        let done = db.ingest_tables(&[(&default(&db), &["/files/one".into()])], IngestMode::Move).unwrap();
        db.close().unwrap();
        let path = dir.join(format!("{:06}.tbl", done.tables[0].0));
        let whole = sim.read_all(&path).unwrap();
        let (mut right, mut failed) = (0, 0);
        for at in (0..whole.len()).step_by(3) {
            let mut hit = whole.clone();
            hit[at] ^= 1 << (at % 8);
            sim.write_all(&path, &hit).unwrap();
            let db = Db::open_read_only(
                &dir,
                settings(),
                Parts {
                    families: vec![("default".into(), options.clone())],
                    companions: Arc::new(TestProtector::default()),
                    ..parts(sim.env(9))
                },
            )
            .unwrap();
            for (key, value) in &files {
                match get(&db, &default(&db), key, At::Latest) {
                    Ok(found) => {
                        assert_eq!(found, *value, "byte {at}");
                        right += 1;
                    }
                    Err(error) => {
                        assert!(error.is_corruption(), "byte {at}: {error}");
                        failed += 1;
                    }
                }
            }
        }
        assert!(right > 0 && failed > 0, "{right} {failed}");
    }
}

#[test]
fn an_ingested_table_without_its_footer_is_rebuilt() {
    let (sim, dir) = sim(8);
    let db = sealed(&sim, &dir, options());
    sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
    let files = records(0..60, 1);
    put(&db, &default(&db), b"z", b"1", Durability::Os).unwrap();
    write_file(&db, &default(&db), Path::new("/files/one"), &files).unwrap();
    let done = db.ingest_tables(&[(&default(&db), &["/files/one".into()])], IngestMode::Move).unwrap();
    let path = dir.join(format!("{:06}.tbl", done.tables[0].0));
    let mut bytes = sim.read_all(&path).unwrap();
    let end = bytes.len();
    bytes[end - 100..].fill(7);
    sim.write_all(&path, &bytes).unwrap();
    let table = db.table(&default(&db), done.tables[0].0).unwrap().unwrap();
    let rebuilt = db.rebuild_table(&table).unwrap();
    let (mut cursor, mut found) = (rebuilt.table.cursor(false), 0);
    cursor.first().unwrap();
    while cursor.valid() {
        assert_eq!(cursor.record().seqno, done.seqno);
        assert!(TestProtector::is_right(&cursor.record()));
        found += 1;
        cursor.next().unwrap();
    }
    assert_eq!((found, rebuilt.gaps.len()), (60, 0));
}

/// At every step of a move: afterwards the store has all records, or none and the file is still there.
#[test]
fn a_crash_loses_neither_the_records_nor_their_file() {
    let mut seen = [0; 2];
    for loss in [Loss::DurableOnly, Loss::Random { seed: 3 }] {
        for after in 0.. {
            let (sim, dir) = sim(9);
            let db = sealed(&sim, &dir, options());
            sim.env(1).fs.create_dir_all(Path::new("/files")).unwrap();
            sim.env(1).fs.sync_dir(Path::new("/")).unwrap();
            put(&db, &default(&db), &record(3, 0).0, b"old", Durability::Sync).unwrap();
            let (path, files) = (PathBuf::from("/files/one"), records(0..20, 1));
            write_file(&db, &default(&db), &path, &files).unwrap();
            write_file(&db, &db.family("other").unwrap(), Path::new("/files/two"), &files).unwrap();
            let ingest = |db: &Db, which: &[PathBuf], other: &[PathBuf]| {
                db.ingest_tables(&[(&default(db), which), (&db.family("other").unwrap(), other)], IngestMode::Move)
            };
            sim.crash_at(sim.steps() + after);
            let outcome = ingest(&db, std::slice::from_ref(&path), &["/files/two".into()]);
            let crashed = sim.is_crashed();
            drop(db);
            if !crashed {
                outcome.unwrap();
                assert!(after > 10, "{after} steps");
                break;
            }
            sim.reboot(Crash::Machine(loss));
            let db = sealed(&sim, &dir, options());
            let found =
                [default(&db), db.family("other").unwrap()].map(|family| rows(&db, &family, At::Latest).unwrap());
            let is_in = found[1] == rows_in(&files);
            seen[usize::from(is_in)] += 1;
            if is_in {
                assert_eq!(found[0], found[1], "step {after}");
            } else {
                assert_eq!(found, [vec![(record(3, 0).0, b"old".to_vec())], Vec::new()], "step {after}");
                ingest(&db, std::slice::from_ref(&path), &["/files/two".into()]).unwrap();
                assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), rows_in(&files), "step {after}");
            }
            assert!(outcome.is_err() || is_in, "step {after}: a durable ingestion is lost");
            while db.step().unwrap() {}
            let tables: usize = db.families().iter().map(|family| db.tables(family).unwrap().len()).sum();
            let kept = sim.files(&dir).into_iter().filter(|name| name.ends_with(".tbl")).count();
            assert_eq!(kept, tables, "step {after}: files that nobody names");
        }
    }
    assert!(seen[0] > 10 && seen[1] > 1, "{seen:?}");
}

/// Rows in any order, with duplicates: the last one of each key is loaded, whether or not the buffer holds them all.
#[test]
fn a_bulk_load_keeps_the_last_row_of_each_key() {
    for (count, is_sorted) in [(60, false), (1500, false), (1500, true)] {
        let (sim, dir) = sim(10);
        let options = CfOptions { large_value_bytes: 120, ..options() };
        let db = sealed(&sim, &dir, options.clone());
        for n in 0..40 {
            put(&db, &default(&db), &record(n, 0).0, b"old", Durability::Os).unwrap();
        }
        let row = |n: usize| {
            let number = if is_sorted { n } else { n * 7919 % (count * 2 / 3) };
            (record(number, n).0, format!("{n} {}", "v".repeat(n % 9 * 20)).into_bytes())
        };
        let mut expected: std::collections::BTreeMap<_, _> = rows_in(&records([], 0)).into_iter().collect();
        expected.extend((0..40).map(|n| (record(n, 0).0, b"old".to_vec())));
        let load = |db: &Db, until: usize| {
            db.bulk_load(&default(db), &mut |load| {
                for n in 0..until {
                    let (key, value) = row(n);
                    load.push(Kind::Put, &key, &value, &[])?;
                }
                if until < count { Err(Error::invalid("the source failed")) } else { Ok(()) }
            })
        };
        // An error of the source changes nothing.
        load(&db, count - 1).unwrap_err();
        assert_eq!(rows_of(&db), expected);
        assert_eq!(data_files(&sim, &dir), files_named(&db), "files of a load that failed");
        let seen = db.snapshot().unwrap();
        let before = expected.clone();
        let done = load(&db, count).unwrap();
        let loaded: std::collections::BTreeMap<_, _> = (0..count).map(row).collect();
        assert_eq!(done.records, loaded.len() as u64);
        expected.extend(loaded);
        assert_eq!(rows_of(&db), expected);
        assert_eq!(rows(&db, &default(&db), At::Snapshot(&seen)).unwrap(), before.into_iter().collect::<Rows>());
        check_words(&db);
        drop(seen);
        while db.step().unwrap() {}
        assert_eq!(data_files(&sim, &dir), files_named(&db), "runs that were merged");
        db.settle().unwrap();
        assert_eq!(rows_of(&db), expected);
        kill(&sim, db);
        let db = sealed(&sim, &dir, options);
        assert_eq!(rows_of(&db), expected);
    }
}

/// Counts the table files that are open at once.
#[derive(Clone, Debug)]
struct OpenTables {
    sim: SimFs,
    most: Arc<AtomicUsize>,
}

impl FsHook for OpenTables {
    fn on_call(&self) {
        let is_table = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "tbl");
        self.most.fetch_max(self.sim.open_files().iter().filter(is_table).count(), Ordering::Relaxed);
    }
}

#[test]
fn a_bulk_load_of_many_runs_opens_few_tables() {
    let (sim, dir) = sim(11);
    let hook = OpenTables { sim: sim.clone(), most: Arc::default() };
    let mut env = sim.env(1);
    env.fs = Arc::new(HookedFs::over(env.fs, hook.clone()));
    let db = Db::open(&dir, settings(), parts(env)).unwrap();
    let row = |n: usize| (record(n * 7919 % 2400, 0).0, format!("{n}{}", "v".repeat(700)).into_bytes());
    let done = db.bulk_load(&default(&db), &mut |load| {
        (0..2600).map(row).try_for_each(|(key, value)| load.push(Kind::Put, &key, &value, &[]))
    });
    assert_eq!(done.unwrap().records, 2400);
    let most = hook.most.load(Ordering::Relaxed);
    assert!((64..=70).contains(&most), "{most} open tables");
    let expected: std::collections::BTreeMap<_, _> = (0..2600).map(row).collect();
    assert!(rows_of(&db) == expected, "each key has its last row");
    assert_eq!(data_files(&sim, &dir), files_named(&db));
}

/// With threads, each run is written while the next one fills.
#[test]
fn runs_are_written_beside_the_rows_that_follow() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env { clock: sim(0).0.env(1).clock, ..Env::real() };
    let options = CfOptions { large_value_bytes: 300, ..options() };
    let families = vec![("default".into(), options)];
    let parts = Parts { families, companions: Arc::new(TestProtector::default()), ..parts(env) };
    let db = Db::open(dir.path(), settings(), parts).unwrap();
    for is_sorted in [true, false] {
        let count = 4000;
        let row = |n: usize| {
            let number = if is_sorted { n } else { n * 7919 % 3000 };
            (record(number, n).0, format!("{n} {}", "v".repeat(n % 9 * 40)).into_bytes())
        };
        let (before, files) = (rows_of(&db), data_bytes(dir.path()));
        let load = |fill: &mut dyn FnMut(&mut BulkLoad<'_>, usize) -> Result<()>| {
            db.bulk_load(&default(&db), &mut |load| {
                (0..count).try_for_each(|n| {
                    let (key, value) = row(n);
                    load.push(Kind::Put, &key, &value, &[])?;
                    fill(load, n)
                })
            })
        };
        load(&mut |_, n| if n == count - 2 { Err(Error::invalid("the source failed")) } else { Ok(()) }).unwrap_err();
        let panics = || load(&mut |_, n| if n == count - 2 { panic!("the source panics") } else { Ok(()) });
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!((rows_of(&db), data_bytes(dir.path())), (before.clone(), files));
        let expected = (0..count).map(row).collect::<std::collections::BTreeMap<_, _>>();
        assert_eq!(load(&mut |_, _| Ok(())).unwrap().records, expected.len() as u64);
        let expected: std::collections::BTreeMap<_, _> = before.into_iter().chain(expected).collect();
        assert_eq!(rows_of(&db), expected);
        check_words(&db);
    }
}

/// Fails writes of tables while it is told to.
#[derive(Clone, Debug, Default)]
struct FailedTables(Arc<AtomicUsize>);

impl FsHook for FailedTables {
    fn before_write(&self, path: &Path) -> std::io::Result<()> {
        let is_table = path.extension().is_some_and(|extension| extension == "tbl");
        match is_table && self.0.load(Ordering::Relaxed) > 0 {
            true => Err(std::io::Error::other("a table cannot be written")),
            false => Ok(()),
        }
    }
}

/// Holds each write of a table until all are released, or for three seconds.
#[derive(Clone, Debug, Default)]
struct HeldTables(Arc<Signal<bool>>);

impl HeldTables {
    fn release(&self) {
        *self.0.lock() = true;
        self.0.notify_all();
    }
}

impl FsHook for HeldTables {
    fn before_write(&self, path: &Path) -> std::io::Result<()> {
        let is_released = self.0.lock();
        if !*is_released && path.extension().is_some_and(|extension| extension == "tbl") {
            drop(self.0.wait(is_released, Some(std::time::Duration::from_secs(3))));
        }
        Ok(())
    }
}

/// A caller that waits for a run is asked whether it goes on.
#[test]
fn a_load_that_waits_for_a_run_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let hook = HeldTables::default();
    let env = Env { fs: Arc::new(HookedFs::over(Env::real().fs, hook.clone())), ..Env::real() };
    let db = Db::open(dir.path(), settings(), parts(env)).unwrap();
    let asked = AtomicUsize::new(0);
    waxseal_lsm::interrupt::set(Some(Box::new(move || {
        let is_over = asked.fetch_add(1, Ordering::Relaxed) >= 20; // more often than for the first row of each buffer
        if is_over {
            hook.release();
        }
        is_over
    })));
    let done = db.bulk_load(&default(&db), &mut |load| {
        (0..1000).map(|n| record(n, 0)).try_for_each(|(key, value)| load.push(Kind::Put, &key, &value, &[]))
    });
    waxseal_lsm::interrupt::set(None);
    assert_kind(done, ErrorKind::Interrupted, "a load whose run is held");
    assert!(rows_of(&db).is_empty() && data_bytes(dir.path()).is_empty());
}

/// A load that lost a run fails, even if the source goes on after the error.
#[test]
fn a_failed_run_fails_the_load() {
    let (sim, dir) = sim(12);
    let hook = FailedTables::default();
    let mut env = sim.env(1);
    env.fs = Arc::new(HookedFs::over(env.fs, hook.clone()));
    let db = Db::open(&dir, settings(), parts(env)).unwrap();
    let done = db.bulk_load(&default(&db), &mut |load| {
        hook.0.store(1, Ordering::Relaxed);
        let mut failed = 0;
        for n in 0..2000 {
            let (key, value) = record(n, 0);
            if load.push(Kind::Put, &key, &value, &[]).is_err() {
                hook.0.store(0, Ordering::Relaxed);
                failed += 1;
            }
        }
        assert!(failed > 1, "every row after the failed run is refused");
        Ok(())
    });
    assert!(matches!(done.unwrap_err().kind(), ErrorKind::Io(_)));
    assert!(rows_of(&db).is_empty());
    assert_eq!(data_files(&sim, &dir), files_named(&db));
}

/// The tables and value files of a store in a real directory.
fn data_bytes(dir: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut files = real_bytes(dir);
    files.retain(|name, _| name.ends_with(".tbl") || name.ends_with(".val"));
    files
}

fn rows_of(db: &Db) -> std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
    rows(db, &default(db), At::Latest).unwrap().into_iter().collect()
}

/// The tables in the store's directory.
fn data_files(sim: &SimFs, dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = sim.files(dir).into_iter().filter(|name| name.ends_with(".tbl")).collect();
    names.sort();
    names
}

fn files_named(db: &Db) -> Vec<String> {
    let families = db.families();
    let tables = families.iter().flat_map(|family| db.tables(family).unwrap());
    let mut names: Vec<_> = tables.map(|table| table.name()).collect();
    names.sort();
    names
}
