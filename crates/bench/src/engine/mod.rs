//! The trait of a store under test, and the functions that open all stores with the same settings.
//!
//! An adapter adds nothing and hides nothing: each call is the call that a user of the store would make. If a store
//! needs a transaction around a read, `View::Fixed` lets a reader keep one; `View::Latest` must see every acknowledged
//! write.

mod null;

#[cfg(feature = "peers")]
mod fjall;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod settings;
mod waxseal;

pub use settings::{File, Own, Settings, Shared, Sizes};

use crate::measure::Laps;
use crate::workload::touch;
use crate::{Fault, Outcome};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The stores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Stores nothing, to measure the driver itself.
    Null,
    /// Waxseal with default options: seals on and verified.
    Waxseal,
    /// Waxseal without seals, on the same engine.
    Plain,
    /// fjall.
    Fjall,
    /// redb.
    Redb,
    /// LMDB, through heed.
    Lmdb,
    /// RocksDB with default options.
    Rocksdb,
    /// RocksDB with all checks that its C interface offers.
    RocksdbStrict,
}

impl Name {
    /// Returns the name as used on the command line and in reports.
    pub fn text(self) -> &'static str {
        match self {
            Name::Null => "null",
            Name::Waxseal => "waxseal",
            Name::Plain => "plain",
            Name::Fjall => "fjall",
            Name::Redb => "redb",
            Name::Lmdb => "lmdb",
            Name::Rocksdb => "rocksdb",
            Name::RocksdbStrict => "rocksdb-strict",
        }
    }

    /// Returns true if this build contains the store.
    pub fn is_built(self) -> bool {
        match self {
            Name::Null => true,
            Name::Waxseal | Name::Plain => true,
            Name::Fjall | Name::Redb | Name::Lmdb => cfg!(feature = "peers"),
            Name::Rocksdb | Name::RocksdbStrict => cfg!(feature = "rocksdb"),
        }
    }

    /// Returns true if the store has the feature and offers it to Rust. The driver's own `null` store has all.
    pub fn has(self, feature: Feature) -> bool {
        let is_ours = matches!(self, Name::Null | Name::Waxseal | Name::Plain);
        match feature {
            Feature::Tables => !matches!(self, Name::Redb | Name::Lmdb),
            Feature::Properties => is_ours,
            Feature::Merge | Feature::BulkLoad | Feature::Changes | Feature::Backup | Feature::Filter => {
                is_ours || matches!(self, Name::Rocksdb | Name::RocksdbStrict)
            }
        }
    }

    /// Returns all stores of this build.
    pub fn built() -> Vec<Name> {
        Name::value_variants().iter().copied().filter(|name| name.is_built()).collect()
    }

    /// Returns the store's version, from the workspace's lock file.
    pub fn version(self) -> String {
        let package = match self {
            Name::Null | Name::Waxseal | Name::Plain => return format!("waxseal {}", env!("CARGO_PKG_VERSION")),
            Name::Fjall => "fjall",
            Name::Redb => "redb",
            Name::Lmdb => "lmdb-master-sys",
            Name::Rocksdb | Name::RocksdbStrict => "librocksdb-sys",
        };
        let version = locked_version(include_str!("../../../../Cargo.lock"), package);
        format!("{package} {}", version.unwrap_or("of unknown version"))
    }
}

/// A feature that some stores lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A log and sorted tables, like LSM trees.
    Tables,
    /// Merge operators.
    Merge,
    /// A bulk load.
    BulkLoad,
    /// A feed of all changes. redb, LMDB and fjall have none.
    Changes,
    /// Incremental backups by files. redb and fjall have none, and LMDB copies the whole store.
    Backup,
    /// Compaction filters. fjall, redb and LMDB have none.
    Filter,
    /// Property collectors, and a search for tables by their items. RocksDB has collectors, which its C interface and
    /// its Rust crate do not offer; the other peers have none.
    Properties,
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = lock.lines();
    lines.find(|line| line.strip_prefix("name = \"").and_then(|rest| rest.strip_suffix('"')) == Some(package))?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Whether a reader may keep its initial state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// There are no concurrent writes: a transaction may be kept open.
    Fixed,
    /// Each call sees all writes acknowledged before it.
    Latest,
}

/// Start and direction of a scan.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// The first key, forwards.
    First,
    /// The last key, backwards.
    Last,
    /// The first key at or above this one, forwards.
    Seek(&'a [u8]),
}

/// One write of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: Vec<u8>,
    /// Its new value; `None` deletes.
    pub value: Option<Vec<u8>>,
}

/// Findings that a store reports after an open; all false by default.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// True if it reported that the end of its log was cut.
    pub cut: bool,
    /// True if it reported that it repaired damage.
    pub repaired: bool,
}

/// A store under test. A write without `sync` survives a process crash (or the nearest equivalent that the store
/// offers); with `sync` it survives a machine crash.
pub trait Engine: Send + Sync {
    /// Writes one record.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()>;

    /// Deletes one record.
    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()>;

    /// Writes all operations or none.
    fn batch(&self, ops: &[Op], sync: bool) -> Outcome<()>;

    /// Adds 1 to a counter, atomically beside other threads.
    fn count(&self, key: &[u8]) -> Outcome<()>;

    /// Adds 1 to a counter by a merge operand, without reading it. The settings are `merging`.
    fn merge(&self, _key: &[u8]) -> Outcome<()> {
        Err("the store has no merge operators".into())
    }

    /// Reads two records and sets both to a value, in one serializable transaction, which runs again after a conflict.
    /// Returns the number of records found. The settings are `transactional`.
    fn transact(&self, keys: [&[u8]; 2], value: &[u8]) -> Outcome<u64>;

    /// Deletes the records from `start` to `end`, `end` excluded, in one commit. A store without such a call scans them.
    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()>;

    /// Loads the rows that `fill` adds, in ascending order of their keys, by the store's bulk load.
    fn bulk_load(&self, _fill: &mut dyn FnMut(Sink<'_>) -> Outcome<()>) -> Outcome<()> {
        Err("the store has no bulk load".into())
    }

    /// Passes all changes since the store was first opened to `rows`, in the order of the commits. The settings are
    /// `feeding`.
    fn changes(&self, _rows: &mut Rows<'_>) -> Outcome<()> {
        Err("the store has no feed of changes".into())
    }

    /// Adds a backup of the store to the directory `backups_of` it.
    fn backup(&self) -> Outcome<()> {
        Err("the store has no backups".into())
    }

    /// Returns the number of tables that may have a key with the first bytes of this one. The settings are
    /// `collecting`.
    fn tables_with(&self, _key: &[u8]) -> Outcome<u64> {
        Err("the store has no search for tables".into())
    }

    /// Compacts all tables, with the compaction filter. The settings are `filtering`.
    fn compact(&self) -> Outcome<()> {
        Err("the store has no compaction filters".into())
    }

    /// Returns a reader for the calling thread.
    fn reader(&self, view: View) -> Outcome<Box<dyn Reader + '_>>;

    /// Makes all acknowledged writes durable.
    fn sync(&self) -> Outcome<()>;

    /// Flushes memtables to tables, if the store has any.
    fn flush(&self) -> Outcome<()>;

    /// Waits until all background work is done. Returns the part of the wait in which the store was already idle.
    fn settle(&self) -> Outcome<Duration>;

    /// Returns the longest wait of a write for the store itself (write stall, or room in the log) since the open.
    /// `None` if the store does not count it.
    fn own_wait(&self) -> Option<Duration> {
        None
    }

    /// Returns the findings of the open.
    fn findings(&self) -> Findings {
        Findings::default()
    }

    /// Closes the store properly.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// Receives a row of a bulk load.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Outcome<()>;

/// Reads of one thread.
pub trait Reader {
    /// Looks up a key and reads all of its value; returns the sum of the bytes.
    fn get(&mut self, key: &[u8]) -> Outcome<Option<u64>>;

    /// Looks up keys in one call, and reads their values; passes the sum of the bytes of each to `each`. A store without
    /// such a call looks them up one by one.
    fn multi_get(&mut self, keys: &[Vec<u8>], each: &mut dyn FnMut(Option<u64>)) -> Outcome<()> {
        for key in keys {
            each(self.get(key)?);
        }
        Ok(())
    }

    /// Looks up a key and copies its value.
    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;

    /// Passes rows to `rows` until it wants no more.
    fn scan(&mut self, start: Start<'_>, rows: &mut Rows<'_>) -> Outcome<()>;

    /// Passes the rows whose keys begin with `prefix` to `rows`, which is `Rows::of_prefix`. A store whose filters know no
    /// prefixes scans the range of these keys.
    fn scan_prefix(&mut self, prefix: &[u8], rows: &mut Rows<'_>) -> Outcome<()> {
        self.scan(Start::Seek(prefix), rows)
    }
}

/// Callback for each row: key and value.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// Receives the rows of a scan: counts them, reads their values, and reads the clock occasionally.
pub struct Rows<'a> {
    wanted: u64,
    seen: u64,
    touched: u64,
    /// The first key that is not accepted; empty if there is none.
    end: Vec<u8>,
    laps: Option<&'a mut Laps>,
    each: Option<&'a mut Each<'a>>,
}

impl<'a> Rows<'a> {
    /// A clock reading costs as much as a row, so it is shared by this many rows.
    const LAP_ROWS: u64 = 256;

    /// Accepts at most `wanted` rows.
    pub fn wanted(wanted: u64) -> Rows<'static> {
        Rows { wanted, seen: 0, touched: 0, end: Vec::new(), laps: None, each: None }
    }

    /// Accepts the rows of an ascending scan whose keys begin with `prefix`, which does not end with the greatest byte.
    pub fn of_prefix(prefix: &[u8]) -> Rows<'static> {
        let mut end = prefix.to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Rows { end, ..Rows::wanted(u64::MAX) }
    }

    /// Accepts all rows and measures time.
    pub fn timed(laps: &'a mut Laps) -> Rows<'a> {
        Rows { wanted: u64::MAX, seen: 0, touched: 0, end: Vec::new(), laps: Some(laps), each: None }
    }

    /// Accepts all rows and passes each to a callback.
    pub fn shown(each: &'a mut Each<'a>) -> Rows<'a> {
        Rows::below(Vec::new(), each)
    }

    /// Accepts the rows below the key `end` of an ascending scan and passes each to a callback; all rows if `end` is
    /// empty.
    pub fn below(end: Vec<u8>, each: &'a mut Each<'a>) -> Rows<'a> {
        Rows { wanted: u64::MAX, seen: 0, touched: 0, end, laps: None, each: Some(each) }
    }

    /// Receives one row. Returns false if no more are wanted.
    #[inline]
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> bool {
        if !self.end.is_empty() && key >= self.end.as_slice() {
            return false;
        }
        self.touched = self.touched.wrapping_add(touch(value)).wrapping_add(key.len() as u64);
        self.seen += 1;
        if let Some(laps) = &mut self.laps
            && self.seen.is_multiple_of(Rows::LAP_ROWS)
        {
            laps.laps(Rows::LAP_ROWS);
        }
        if let Some(each) = &mut self.each {
            each(key, value);
        }
        self.seen < self.wanted
    }

    /// Returns the number of rows received.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the sum of the bytes read, so that the compiler cannot remove the reads.
    pub fn touched(&self) -> u64 {
        self.touched
    }
}

/// The driver's compaction filter: returns false for a key whose last digit is odd.
fn keeps(key: &[u8]) -> bool {
    key.last().is_none_or(|digit| digit % 2 == 0)
}

/// Decodes a counter.
#[cfg(any(feature = "peers", feature = "rocksdb"))]
fn number(value: &[u8]) -> i64 {
    value.try_into().map_or(0, i64::from_le_bytes)
}

/// Opens an existing store or creates one.
pub fn open(name: Name, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    match name {
        Name::Null => Ok(null::open(settings)),
        Name::Waxseal => waxseal::open(dir, settings, false),
        Name::Plain => waxseal::open(dir, settings, true),
        #[cfg(feature = "peers")]
        Name::Fjall => fjall::open(dir, settings),
        #[cfg(feature = "peers")]
        Name::Redb => redb::open(dir, settings),
        #[cfg(feature = "peers")]
        Name::Lmdb => lmdb::open(dir, settings),
        #[cfg(feature = "rocksdb")]
        Name::Rocksdb => rocksdb::open(dir, settings, false),
        #[cfg(feature = "rocksdb")]
        Name::RocksdbStrict => rocksdb::open(dir, settings, true),
        #[allow(unreachable_patterns, reason = "with every feature on nothing is missing")]
        missing => Err(not_built(missing)),
    }
}

/// Returns the directory for the backups of a store.
pub fn backups_of(dir: &Path) -> PathBuf {
    dir.with_extension("backups")
}

/// Returns the error for a store that this build does not contain.
pub fn not_built(name: Name) -> Fault {
    format!("this build has no {}: features `peers` (fjall, redb, LMDB) and `rocksdb` add stores", name.text()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_line_below_its_package() {
        let lock =
            "[[package]]\nname = \"fjall-x\"\nversion = \"9\"\n\n[[package]]\nname = \"fjall\"\nversion = \"3.1.13\"\n";
        assert_eq!(locked_version(lock, "fjall"), Some("3.1.13"));
        assert_eq!(locked_version(lock, "redb"), None);
    }

    /// Every store of this build behaves like a map: with batches, deletes, a flush, scans in both directions, and a
    /// reopen.
    #[test]
    fn every_store_is_a_map() {
        let settings = Settings::new(8 << 20, 1 << 20);
        for name in Name::built().into_iter().filter(|name| *name != Name::Null) {
            let dir = tempfile::tempdir().expect("a directory");
            let store = open(name, dir.path(), &settings).expect("opened");
            store.put(b"b", b"2", false).expect("put");
            store.put(b"a", b"old", false).expect("put");
            store.flush().expect("flushed");
            store.put(b"a", b"1", true).expect("put");
            let ops = [
                Op { key: b"c".to_vec(), value: Some(b"3".to_vec()) },
                Op { key: b"b".to_vec(), value: None },
                Op { key: b"d".to_vec(), value: Some(b"4".to_vec()) },
            ];
            store.batch(&ops, false).expect("batch");
            store.sync().expect("synced");
            store.delete(b"d", true).expect("deleted");
            for key in [b"e", b"f", b"g"] {
                store.put(key, b"5", false).expect("put");
            }
            store.delete_range(b"e", b"g").expect("deleted");
            store.delete(b"g", false).expect("deleted");
            check(name, store.as_ref());
            store.settle().expect("settled");
            check(name, store.as_ref());
            store.close().expect("closed");
            let store = open(name, dir.path(), &settings).expect("opened again");
            check(name, store.as_ref());
            store.close().expect("closed again");
        }
    }

    /// Threads that count and move lose nothing.
    #[test]
    fn every_store_counts_and_has_transactions() {
        let settings = Settings { transactional: true, ..Settings::new(8 << 20, 1 << 20) };
        for name in Name::built().into_iter().filter(|name| *name != Name::Null) {
            let dir = tempfile::tempdir().expect("a directory");
            let store = open(name, dir.path(), &settings).expect("opened");
            store.put(b"a", b"0", false).expect("put");
            store.batch(&[Op { key: b"b".to_vec(), value: Some(b"0".to_vec()) }], false).expect("batch");
            std::thread::scope(|scope| {
                for thread in 0..2u8 {
                    let store = store.as_ref();
                    scope.spawn(move || {
                        for number in 0..50u8 {
                            store.count(b"counter").expect("counted");
                            let found = store.transact([b"a", b"b"], &[thread, number]).expect("committed");
                            assert_eq!(found, 2, "{name:?}");
                        }
                    });
                }
            });
            store.settle().expect("settled");
            let mut reader = store.reader(View::Latest).expect("a reader");
            assert_eq!(reader.fetch(b"counter").expect("read"), Some(100i64.to_le_bytes().to_vec()), "{name:?}");
            let (a, b) = (reader.fetch(b"a").expect("read"), reader.fetch(b"b").expect("read"));
            assert!(a == b && a.is_some_and(|value| value[1] == 49), "{name:?}");
            drop(reader);
            store.close().expect("closed");
        }
    }

    fn check(name: Name, store: &dyn Engine) {
        for view in [View::Fixed, View::Latest] {
            let mut reader = store.reader(view).expect("a reader");
            assert_eq!(reader.fetch(b"a").expect("read"), Some(b"1".to_vec()), "{name:?}");
            assert_eq!(reader.fetch(b"b").expect("read"), None, "{name:?}");
            assert_eq!(reader.get(b"c").expect("read"), Some(u64::from(b'3')), "{name:?}");
            assert_eq!(listed(reader.as_mut(), Start::First), ["a=1", "c=3"], "{name:?}");
            assert_eq!(listed(reader.as_mut(), Start::Last), ["c=3", "a=1"], "{name:?}");
            assert_eq!(listed(reader.as_mut(), Start::Seek(b"b")), ["c=3"], "{name:?}");
            let mut one = Rows::wanted(1);
            reader.scan(Start::First, &mut one).expect("scanned");
            assert_eq!(one.seen(), 1, "{name:?}");
        }
    }

    fn listed(reader: &mut dyn Reader, start: Start<'_>) -> Vec<String> {
        let mut list = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            list.push(format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
        };
        reader.scan(start, &mut Rows::shown(&mut each)).expect("scanned");
        list
    }
}
