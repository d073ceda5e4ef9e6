//! Small stores on a simulated disk, and short functions for a user's typical calls.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, CursorBounds, Db, Family, Parts};
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::env::{Env, Fs, Open, RealFs, read_exact};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::order::{Comparator, Order};
use waxseal_lsm::record::Kind;

/// Bounds of a cursor over everything.
pub const ALL: CursorBounds = (Bound::Unbounded, Bound::Unbounded);

/// Keys and values, in the order of a scan.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Orders keys in reverse.
pub struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Returns the order of `Backwards`.
pub fn backwards() -> Order {
    Order::custom(Arc::new(Backwards))
}

/// Returns limits so small that a few hundred records reach every stage.
pub fn settings() -> Settings {
    Settings {
        memtable_bytes: 16 * 1024,
        cache_bytes: 1 << 20,
        segment_bytes: 64 * 1024,
        ring_bytes: 32 * 1024,
        drain_bytes: 8 * 1024,
        manifest_bytes: 64 * 1024,
        ..Settings::default()
    }
}

/// Returns options for such small blocks, tables and levels that a few hundred records make several levels.
pub fn options() -> CfOptions {
    CfOptions {
        block_bytes: 512,
        table_bytes: 4096,
        level_base_bytes: 8192,
        fanout: 4,
        level0_tables: 2,
        ..CfOptions::default()
    }
}

/// Returns the parts of a store with one family, `default`.
pub fn parts(env: Env) -> Parts {
    let families = vec![("default".to_owned(), options())];
    Parts { env, families, orders: vec![backwards()], ..Parts::real() }
}

/// Returns a simulated disk and the directory of a store on it.
pub fn sim(seed: u64) -> (SimFs, PathBuf) {
    (SimFs::new(seed), PathBuf::from("/store"))
}

/// Opens a small store, with one seed for its random numbers at every step of the disk.
pub fn open(sim: &SimFs, dir: &Path) -> Db {
    try_open(sim, dir).unwrap()
}

/// Opens a small store, or returns the error.
pub fn try_open(sim: &SimFs, dir: &Path) -> Result<Db> {
    Db::open(dir, settings(), parts(sim.env(sim.steps())))
}

/// Opens a small store for reading.
pub fn read_only(sim: &SimFs, dir: &Path) -> Result<Db> {
    Db::open_read_only(dir, settings(), parts(sim.env(sim.steps())))
}

/// Kills the process that has the store open.
pub fn kill(sim: &SimFs, db: Db) {
    sim.crash_at(sim.steps());
    drop(db);
    sim.reboot(Crash::Process);
}

/// Returns the family `default`.
pub fn default(db: &Db) -> Family {
    db.family("default").unwrap()
}

/// Puts one record.
pub fn put(db: &Db, family: &Family, key: &[u8], value: &[u8], durability: Durability) -> Result<u64> {
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, key, value, db.companions())?;
    db.commit(&mut batch, durability)
}

/// Deletes one record, with `Os` durability.
pub fn delete(db: &Db, family: &Family, key: &[u8]) -> Result<u64> {
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Delete, key, &[], db.companions())?;
    db.commit(&mut batch, Durability::Os)
}

/// Returns the value of a key.
pub fn get(db: &Db, family: &Family, key: &[u8], at: At<'_>) -> Result<Option<Vec<u8>>> {
    let mut value = None;
    db.get(family, key, at, &mut |record| value = Some(record.value.to_vec()))?;
    Ok(value)
}

/// Returns everything, from front to back.
pub fn rows(db: &Db, family: &Family, at: At<'_>) -> Result<Rows> {
    let mut cursor = db.cursor(family, at, ALL)?;
    let mut rows = Vec::new();
    cursor.first()?;
    while cursor.valid() {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    Ok(rows)
}

/// Returns `key-0007` and a value of variable length that names the round.
pub fn record(n: usize, round: usize) -> (Vec<u8>, Vec<u8>) {
    (format!("key-{n:04}").into_bytes(), format!("round {round} of {n} {}", "x".repeat(n % 90)).into_bytes())
}

/// Puts a range of records of one round, all with `Os` durability.
pub fn fill(db: &Db, numbers: std::ops::Range<usize>, round: usize) {
    for n in numbers {
        let (key, value) = record(n, round);
        put(db, &default(db), &key, &value, Durability::Os).unwrap();
    }
}

/// Returns the rows that `fill` puts.
pub fn filled(numbers: std::ops::Range<usize>, round: usize) -> Rows {
    numbers.map(|n| record(n, round)).collect()
}

/// Returns every file of a simulated directory except the lock.
pub fn sim_bytes(sim: &SimFs, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = sim.files(dir).into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), sim.read_all(dir.join(name)).unwrap())).collect()
}

/// Returns every file of a real directory. Repeats the read until two results are equal, because an active store may
/// create or remove a file after the listing.
pub fn real_bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = RealFs.open(&dir.join(&name), Open::Read).ok()?;
        Some((name, read_exact(&*file, 0, file.len().ok()? as usize).ok()?))
    };
    let all = || RealFs.list(dir).unwrap().into_iter().map(read).collect::<Option<BTreeMap<_, _>>>();
    let mut before = None;
    for _ in 0..1000 {
        let now = all();
        if now.is_some() && now == before {
            return now.unwrap_or_default();
        }
        before = now;
    }
    panic!("the files of {dir:?} never stay as they are");
}

/// Writes files into a real directory, as `cp` would.
pub fn write_files(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    RealFs.create_dir_all(dir).unwrap();
    for (name, bytes) in files {
        let file = RealFs.open(&dir.join(name), Open::Create).unwrap();
        file.write_at(bytes, 0).unwrap();
    }
}

/// Returns the file names with this suffix, sorted.
pub fn named(sim: &SimFs, dir: &Path, end: &str) -> Vec<String> {
    sim.files(dir).into_iter().filter(|name| name.ends_with(end)).collect()
}

/// Returns the error of a call that must fail with this kind.
#[track_caller]
pub fn assert_kind<T>(outcome: Result<T>, kind: ErrorKind, what: &str) -> Error {
    match outcome {
        Ok(_) => panic!("{what}: succeeded, expected {kind:?}"),
        Err(error) => {
            assert_eq!(*error.kind(), kind, "{what}: {error}");
            error
        }
    }
}

/// Calls every method of an open store that can return an error.
pub fn every_call(db: &Db, family: &Family, dir: &Path) -> Vec<(&'static str, Option<Error>)> {
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, b"k", b"v", db.companions()).unwrap();
    vec![
        ("get", get(db, family, b"key", At::Latest).err()),
        ("cursor", db.cursor(family, At::Latest, ALL).err()),
        ("multi_get", db.multi_get(family, &[b"key"], At::Latest, &mut |_, _| {}).err()),
        ("approximate_size", db.approximate_size(family, &ALL).err()),
        ("commit", db.commit(&mut batch, Durability::Os).err()),
        ("an empty commit", db.commit(&mut Batch::new(), Durability::Os).err()),
        ("sync", db.sync().err()),
        ("flush", db.flush().err()),
        ("settle", db.settle().err()),
        ("oldest_seqnos", db.oldest_seqnos().err()),
        ("erase_log", db.erase_log().err()),
        ("compact", db.compact(family, &ALL).err()),
        ("checkpoint", db.checkpoint(&dir.join("copy")).err()),
        ("snapshot", db.snapshot().err()),
        ("durable_snapshot", db.durable_snapshot().err()),
        ("create_family", db.create_family("another", options()).err()),
        ("drop_family", db.drop_family("another").err()),
        ("set_options", db.set_options(family, (*family.options()).clone()).err()),
        ("refresh", db.refresh().err()),
        ("step", db.step().err()),
    ]
}
