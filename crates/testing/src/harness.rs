//! A store on a simulated disk, with calls that tests repeat.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Env, Fs, Open};
use waxseal_lsm::error::Result;
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_lsm::sst::{Cache, Table};
use waxseal_lsm::version::{Edit, EditChange, Manifest, TableMeta, recover};

pub use crate::records::Owned;
use crate::store::ALL;

/// The directory of a store that is alone on its disk.
pub const DIR: &str = "/store";

/// The expected content of a store.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns options with small blocks and tables, without compression.
pub fn options() -> CfOptions {
    CfOptions {
        block_bytes: 256,
        restart_interval: 4,
        compression: Compression::None,
        table_bytes: 2048,
        level_base_bytes: 4096,
        fanout: 3,
        level0_tables: 2,
        ..CfOptions::default()
    }
}

/// Returns options with small blocks and tables, compressed if the engine can.
pub fn packed() -> CfOptions {
    CfOptions {
        block_bytes: 512,
        compression: Compression::default(),
        table_bytes: 4096,
        level_base_bytes: 8192,
        ..options()
    }
}

/// Returns settings with a small memtable and a small log.
pub fn settings() -> Settings {
    Settings {
        memtable_bytes: 8 * 1024,
        segment_bytes: 64 * 1024,
        ring_bytes: 16 * 1024,
        drain_bytes: 4096,
        ..Settings::default()
    }
}

/// Returns the parts of a store with one family, `default`. Opening adds the environment.
pub fn parts(protector: Arc<dyn Companions>, options: CfOptions) -> Parts {
    let orders = vec![options.order.clone()];
    Parts { companions: protector, families: vec![("default".to_owned(), options)], orders, ..Parts::real() }
}

/// An open store.
pub struct Store {
    /// The disk.
    pub sim: SimFs,
    /// The store.
    pub db: Db,
    /// The family `default`, for all calls that name none.
    pub family: Family,
    dir: PathBuf,
    settings: Settings,
    parts: Parts,
}

impl Store {
    /// Opens a store in `DIR`. Panics if that fails; `try_open` returns the error.
    pub fn open(sim: &SimFs, protector: Arc<dyn Companions>, options: CfOptions) -> Store {
        Store::open_in(sim, DIR, protector, options)
    }

    /// Opens a store in another directory.
    pub fn open_in(sim: &SimFs, dir: &str, protector: Arc<dyn Companions>, options: CfOptions) -> Store {
        Store::try_open(sim, dir, settings(), parts(protector, options)).unwrap()
    }

    /// Opens a store in the disk's environment.
    pub fn try_open(sim: &SimFs, dir: impl AsRef<Path>, settings: Settings, parts: Parts) -> Result<Store> {
        Store::of(sim, dir, settings, Parts { env: sim.env(sim.steps() + 1), ..parts })
    }

    /// Opens a store in the environment of its parts, whose file system leads to the disk.
    pub fn of(sim: &SimFs, dir: impl AsRef<Path>, settings: Settings, parts: Parts) -> Result<Store> {
        let db = Db::open(dir.as_ref(), settings.clone(), parts.clone())?;
        let family = db.family("default").unwrap();
        Ok(Store { sim: sim.clone(), db, family, dir: dir.as_ref().to_owned(), settings, parts })
    }

    /// Closes the store, and opens it again.
    pub fn reopen(self) -> Store {
        let protector = self.parts.companions.clone();
        self.reopen_as(protector)
    }

    /// Closes the store, and opens it again with another record protector.
    pub fn reopen_as(self, protector: Arc<dyn Companions>) -> Store {
        self.reopen_after(protector, |_, _| {})
    }

    /// Closes the store, changes its files, and opens it again.
    pub fn reopen_after(self, protector: Arc<dyn Companions>, change: impl FnOnce(&SimFs, &Path)) -> Store {
        let Store { sim, db, dir, settings, parts, .. } = self;
        db.close().unwrap();
        drop(db);
        change(&sim, &dir);
        let env = Env { fs: parts.env.fs.clone(), ..sim.env(sim.steps() + 1) };
        Store::of(&sim, dir, settings, Parts { companions: protector, env, ..parts }).unwrap()
    }

    /// Returns the record protector.
    pub fn protector(&self) -> &Arc<dyn Companions> {
        &self.parts.companions
    }

    /// Returns the store's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Commits one record with entries of providers.
    pub fn try_apply(&self, kind: Kind, key: &[u8], value: &[u8], entries: &[(u16, &[u8])]) -> Result<Seqno> {
        let mut batch = Batch::new();
        batch.push_given(self.family.id(), kind, key, value, entries, self.db.companions())?;
        self.db.commit(&mut batch, Durability::Os)
    }

    /// Commits one record.
    pub fn apply(&self, kind: Kind, key: &[u8], value: &[u8]) {
        self.try_apply(kind, key, value, &[]).unwrap();
    }

    /// Puts a record.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.apply(Kind::Put, key, value);
    }

    /// Deletes a record.
    pub fn delete(&self, key: &[u8]) {
        self.apply(Kind::Delete, key, b"");
    }

    /// Puts and deletes records from a seed, here and in a model, and runs the background work now and then. Returns
    /// the number of operations.
    pub fn work(&self, model: &mut Model, seed: u64, operations: u64) -> u64 {
        for n in 0..operations {
            let dice = hash(&[seed.to_le_bytes(), n.to_le_bytes()].concat());
            let key = (dice % 300).to_string().into_bytes();
            if dice >> 32 & 7 == 0 {
                self.delete(&key);
                model.remove(&key);
            } else {
                let value = dice.to_string().repeat(1 + (dice >> 40 & 3) as usize).into_bytes();
                self.put(&key, &value);
                model.insert(key, value);
            }
            if n % 5 == 0 {
                while self.db.step().unwrap() {}
            }
        }
        operations
    }

    /// Returns the record of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Owned>> {
        self.get_at(key, At::Latest)
    }

    /// Returns the record of a key in a snapshot.
    pub fn get_at(&self, key: &[u8], at: At<'_>) -> Result<Option<Owned>> {
        let mut found = None;
        let is_there = self.db.get(&self.family, key, at, &mut |record| found = Some(Owned::of(record)))?;
        assert_eq!(is_there, found.is_some());
        Ok(found)
    }

    /// Returns the value of a key.
    pub fn value(&self, at: At<'_>, key: &[u8]) -> Option<Vec<u8>> {
        self.get_at(key, at).unwrap().map(|record| record.value)
    }

    /// Scans the family `default` forward and backward, and checks that both scans return the same records.
    pub fn scan(&self) -> Vec<Owned> {
        self.scan_at(At::Latest)
    }

    /// Returns the records of a scan of a snapshot.
    pub fn scan_at(&self, at: At<'_>) -> Vec<Owned> {
        self.scan_of(&self.family, at)
    }

    /// Returns the records of a scan of a family.
    pub fn scan_of(&self, family: &Family, at: At<'_>) -> Vec<Owned> {
        let mut cursor = self.db.cursor(family, at, ALL).unwrap();
        let (mut there, mut back) = (Vec::new(), Vec::new());
        cursor.first().unwrap();
        while cursor.valid() {
            there.push(Owned::of(&cursor.record()));
            cursor.next().unwrap();
        }
        cursor.last().unwrap();
        while cursor.valid() {
            back.push(Owned::of(&cursor.record()));
            cursor.prev().unwrap();
        }
        back.reverse();
        assert_eq!(there, back);
        there
    }

    /// Returns the keys of a scan.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.scan().into_iter().map(|record| record.key).collect()
    }

    /// Checks that scans and gets return the content of a model.
    #[track_caller]
    pub fn check(&self, model: &Model) {
        let content: Model = self.scan().into_iter().map(|record| (record.key, record.value)).collect();
        assert_eq!(content, *model);
        for (key, value) in model {
            assert_eq!(self.value(At::Latest, key).as_ref(), Some(value));
        }
    }

    /// Visits every version of every key, including tombstones and records that scans hide.
    pub fn each(&self, visit: impl FnMut(&Record<'_>)) {
        self.each_of(&self.family, visit);
    }

    /// Visits every version of every key of a family.
    pub fn each_of(&self, family: &Family, mut visit: impl FnMut(&Record<'_>)) {
        let mut raw = self.db.raw(family, At::Latest, ALL).unwrap();
        while let Some((record, _)) = raw.next().unwrap() {
            visit(&record);
        }
    }

    /// Returns the number of tombstones.
    pub fn tombstones(&self) -> usize {
        let mut count = 0;
        self.each(|record| count += usize::from(record.kind == Kind::Delete));
        count
    }

    /// Flushes, and merges everything into the lowest level.
    pub fn compact(&self) {
        self.db.compact(&self.family, &ALL).unwrap();
    }

    /// Returns the table files, sorted.
    pub fn tables(&self) -> Vec<PathBuf> {
        files_in(&self.sim, &self.dir, ".tbl")
    }
}

/// Returns the paths of the files of a directory with this suffix, sorted.
pub fn files_in(sim: &SimFs, dir: impl AsRef<Path>, end: &str) -> Vec<PathBuf> {
    let dir = dir.as_ref();
    let mut names: Vec<_> = sim.files(dir).into_iter().filter(|name| name.ends_with(end)).collect();
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// Opens a table file without the store.
pub fn open_table(sim: &SimFs, path: &Path, order: &Order) -> Arc<Table> {
    let file = sim.open(path, Open::Read).unwrap();
    let expected = Table::identify("table", &*file).unwrap();
    let cache = Arc::new(Cache::new(1 << 20));
    Table::open("table".into(), file, expected, order.clone(), cache, Arc::new(Plain)).unwrap()
}

/// Copies whole table files into the directory of a closed store, and names them in its manifest as tables of level 0
/// with their own seqnos, as a store without import can take them.
pub fn adopt_tables(sim: &SimFs, dir: &Path, order: &Order, paths: &[PathBuf]) {
    let env = sim.env(sim.steps() + 1);
    let found = recover(&env, dir).unwrap().unwrap();
    let (mut number, mut last_seqno) = (found.next_file, found.state.last_seqno);
    let mut edit = Edit::default();
    for path in paths {
        sim.write_all(dir.join(StoreFileName::Table(number).to_string()), &sim.read_all(path).unwrap()).unwrap();
        let table = open_table(sim, path, order);
        let (expected, properties) = (*table.expected(), table.properties());
        let meta = TableMeta {
            number,
            uid: expected.uid,
            size: expected.size,
            smallest: properties.smallest.clone(),
            largest: properties.largest.clone(),
            least_seqno: properties.least_seqno,
            greatest_seqno: properties.greatest_seqno,
            digest: expected.digest,
            ledger: properties.ledger,
            ..TableMeta::default()
        };
        (number, last_seqno) = (number + 1, last_seqno.max(meta.greatest_seqno));
        edit.changes.push(EditChange::TableAdded { family: 0, level: 0, table: Arc::new(meta) });
    }
    sim.sync_dir(dir).unwrap();
    edit.changes.push(EditChange::Counters { next_file: number + 1, last_seqno, next_family: found.state.next_family });
    Manifest::resume(&env, dir, &found, number, &edit).unwrap();
}
