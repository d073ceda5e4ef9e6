//! The Python reader, written only from docs/format.md, reads the engine's files and detects damage.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::Env;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::prefix_extractor::PrefixExtractor;
use waxseal_lsm::record::Kind;
use waxseal_testing::store::*;

fn reader(command: &str, dir: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reader/waxread.py");
    Command::new("python3").arg("-B").arg(script).arg(command).arg(dir).output().unwrap()
}

/// Returns false, after printing a message, if Python is not installed.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: no python3 on this machine");
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns every live record as the reader's `list` prints it: by family id, then by key bytes.
fn listed(db: &Db) -> String {
    let mut text = String::new();
    for family in db.families() {
        let mut found = rows(db, &family, At::Latest).unwrap();
        found.sort();
        for (key, value) in found {
            let name = family.name().replace("\t", "\\t"); // as the reader shows it
            text += &format!("{name}\t{}\t{}\n", hex(&key), hex(&value));
        }
    }
    text
}

fn check(dir: &Path, expected: &str, what: &str) {
    let output = reader("verify", dir);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{what}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let output = reader("list", dir);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(text == expected, "{what}: {} rows listed, {} expected", text.lines().count(), expected.lines().count());
}

/// Writes several families, one in another order, overwrites, deletes, a dropped family, tables in several levels, and
/// an unflushed log.
fn write_something(db: &Db) {
    let back = db.create_family("back\twards", CfOptions { order: backwards(), ..options() }).unwrap();
    let gone = db.create_family("gone", options()).unwrap();
    fill(db, 0..500, 0);
    put(db, &gone, b"k", b"v", Durability::Os).unwrap();
    for n in 0..200 {
        let (key, value) = record(n, 1);
        put(db, &back, &key, &value, Durability::Os).unwrap();
    }
    db.compact(&default(db), &ALL).unwrap();
    fill(db, 100..200, 1);
    for n in (0..500).step_by(7) {
        delete(db, &default(db), &record(n, 0).0).unwrap();
    }
    db.flush().unwrap();
    db.drop_family("gone").unwrap();
    let mut batch = Batch::new();
    for n in 300..320 {
        for family in [&default(db), &back] {
            batch.push(family.id(), Kind::Put, &record(n, 2).0, &record(n, 2).1, db.companions()).unwrap();
        }
    }
    batch.push(0, Kind::Put, b"", &[0xff; 20_000], db.companions()).unwrap();
    batch.push(0, Kind::Delete, b"key-0301", b"", db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
}

fn parts_with(compression: Compression) -> Parts {
    let families = vec![(
        "default".to_owned(),
        CfOptions { compression, prefix_extractor: Some(PrefixExtractor::Fixed(6)), ..options() },
    )];
    Parts { families, ..parts(Env::real()) }
}

#[test]
fn the_independent_reader_agrees() {
    if !has_python() {
        return;
    }
    for (wal_mapped, compression) in
        [(true, Compression::Lz4), (false, Compression::Lz4), (true, Compression::None), (false, Compression::None)]
    {
        let what = format!("mapped {wal_mapped}, {compression:?}");
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("store");
        let db = Db::open(&dir, Settings { wal_mapped, ..settings() }, parts_with(compression)).unwrap();
        write_something(&db);
        db.sync().unwrap();
        let expected = listed(&db);
        let copy: PathBuf = home.path().join("copy");
        write_files(&copy, &real_bytes(&dir));
        check(&copy, &expected, &format!("{what}, open"));
        let checkpoint = home.path().join("checkpoint");
        db.checkpoint(&checkpoint).unwrap();
        check(&checkpoint, &expected, &format!("{what}, a checkpoint"));
        db.close().unwrap();
        check(&dir, &expected, &format!("{what}, closed"));
        // The recovered copy, and the checkpoint opened by the engine.
        for store in [copy, checkpoint] {
            let db = Db::open(&store, Settings { wal_mapped, ..settings() }, parts_with(compression)).unwrap();
            assert!(listed(&db) == expected, "{what}");
            db.close().unwrap();
            check(&store, &expected, &format!("{what}, opened again"));
        }
    }
}

#[test]
fn the_independent_reader_reports_a_flipped_byte_of_a_table() {
    if !has_python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let db = Db::open(&dir, settings(), parts(Env::real())).unwrap();
    fill(&db, 0..60, 0);
    db.flush().unwrap();
    db.close().unwrap();
    let files = real_bytes(&dir);
    let table = files.keys().find(|name| name.ends_with(".tbl")).unwrap().clone();
    let length = files[&table].len();
    for at in (0..length).step_by(length / 10) {
        let mut damaged = files.clone();
        damaged.get_mut(&table).unwrap()[at] ^= 0x10;
        let copy = home.path().join(format!("flipped-{at}"));
        write_files(&copy, &damaged);
        let output = reader("verify", &copy);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "byte {at}: {text}");
        assert!(text.contains(&table), "byte {at}: {text}");
    }
}
