//! Nodes of a mixed cluster on one simulated disk, each a directory of its own.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::{Uid, hash};
use waxseal_lsm::db::{At, Db, Family, Parts, Silent};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open, read_exact};
use waxseal_lsm::error::Result;
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_lsm::sst::{Cache, Table, Writer, WriterSettings};
use waxseal_lsm::version::{Edit, EditChange, Manifest, TableMeta, recover};
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// One store, small enough that a few hundred records make several levels.
pub(crate) struct Node {
    pub(crate) sim: SimFs,
    pub(crate) db: Db,
    pub(crate) family: Family,
    dir: PathBuf,
    protector: Arc<dyn Companions>,
    order: Order,
}

impl Node {
    pub(crate) fn open(sim: &SimFs, dir: &str, protector: Arc<dyn Companions>) -> Node {
        Node::open_ordered(sim, dir, protector, Order::bytewise())
    }

    pub(crate) fn open_ordered(sim: &SimFs, dir: &str, protector: Arc<dyn Companions>, order: Order) -> Node {
        let dir = PathBuf::from(dir);
        let db = Node::db(sim, &dir, protector.clone(), order.clone());
        let family = db.family("default").unwrap();
        Node { sim: sim.clone(), db, family, dir, protector, order }
    }

    fn db(sim: &SimFs, dir: &Path, companions: Arc<dyn Companions>, order: Order) -> Db {
        let options = CfOptions {
            order,
            block_bytes: 512,
            restart_interval: 4,
            compression: if cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None },
            table_bytes: 4096,
            level_base_bytes: 8192,
            fanout: 3,
            level0_tables: 2,
            ..CfOptions::default()
        };
        let settings = Settings {
            memtable_bytes: 8 * 1024,
            segment_bytes: 64 * 1024,
            ring_bytes: 16 * 1024,
            drain_bytes: 4096,
            ..Settings::default()
        };
        let families = vec![("default".to_owned(), options)];
        let env = sim.env(sim.steps() + 1);
        let parts = Parts {
            env,
            companions,
            listener: Arc::new(Silent),
            families,
            orders: Vec::new(),
            engine_log: None,
            cache: None,
        };
        Db::open(dir, settings, parts).unwrap()
    }

    /// The same store after a clean close.
    pub(crate) fn reopen(self) -> Node {
        let protector = self.protector.clone();
        self.reopen_as(protector)
    }

    /// The same store, opened by a node of another kind.
    pub(crate) fn reopen_as(self, protector: Arc<dyn Companions>) -> Node {
        let Node { sim, db, dir, order, .. } = self;
        db.close().unwrap();
        drop(db);
        Node::open_ordered(&sim, dir.to_str().unwrap(), protector, order)
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) {
        self.try_put(key, value).unwrap();
    }

    pub(crate) fn try_put(&self, key: &[u8], value: &[u8]) -> Result<Seqno> {
        self.try_apply(Kind::Put, key, value)
    }

    pub(crate) fn apply(&self, kind: Kind, key: &[u8], value: &[u8]) {
        self.try_apply(kind, key, value).unwrap();
    }

    fn try_apply(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<Seqno> {
        let mut batch = Batch::new();
        batch.push(self.family.id(), kind, key, value, self.db.companions())?;
        self.db.commit(&mut batch, Durability::Os)
    }

    /// Puts a record that is absent from a time on, in microseconds since 1970.
    pub(crate) fn put_until(&self, key: &[u8], value: &[u8], end: u64) {
        self.put_given(key, value, (EXPIRY, &Expiry::at(end)));
    }

    /// Puts a record with an entry beside it.
    pub(crate) fn put_given(&self, key: &[u8], value: &[u8], entry: (u16, &[u8])) {
        let mut batch = Batch::new();
        batch.push_given(self.family.id(), Kind::Put, key, value, &[entry], self.db.companions()).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap();
    }

    /// Puts and deletes from a seed, with the model beside.
    pub(crate) fn work(&self, model: &mut Model, seed: u64, operations: u64) {
        for n in 0..operations {
            let dice = hash(&[seed.to_le_bytes(), n.to_le_bytes()].concat());
            let key = (dice % 300).to_string().into_bytes();
            if dice >> 32 & 7 == 0 {
                self.apply(Kind::Delete, &key, b"");
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
    }

    pub(crate) fn get(&self, at: At<'_>, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = None;
        let found = self.db.get(&self.family, key, at, &mut |record| value = Some(record.value.to_vec()));
        assert_eq!(found.unwrap(), value.is_some());
        value
    }

    /// The whole content both ways and by key.
    pub(crate) fn check(&self, model: &Model) {
        let mut cursor = self.db.cursor(&self.family, At::Latest, (Bound::Unbounded, Bound::Unbounded)).unwrap();
        let mut found = Vec::new();
        cursor.first().unwrap();
        while cursor.valid() {
            found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next().unwrap();
        }
        let mut back = Vec::new();
        cursor.last().unwrap();
        while cursor.valid() {
            back.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.prev().unwrap();
        }
        back.reverse();
        assert_eq!(found, back);
        assert_eq!(found.into_iter().collect::<Model>(), *model);
        for (key, value) in model {
            assert_eq!(self.get(At::Latest, key).as_ref(), Some(value));
        }
    }

    /// Every record of every version, rows and tombstones too.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Record<'_>)) {
        let mut raw = self.db.raw(&self.family, At::Latest, (Bound::Unbounded, Bound::Unbounded)).unwrap();
        while let Some((record, _)) = raw.next().unwrap() {
            visit(&record);
        }
    }

    pub(crate) fn companion_bytes(&self) -> usize {
        let mut bytes = 0;
        self.each(|record| bytes += record.companion.len());
        bytes
    }

    pub(crate) fn tombstones(&self) -> usize {
        let mut count = 0;
        self.each(|record| count += usize::from(record.kind == Kind::Delete));
        count
    }

    /// The table files of its directory.
    pub(crate) fn tables(&self) -> Vec<PathBuf> {
        tables_in(&self.sim, &self.dir)
    }

    /// Gives whole table files to a node that cannot import: they are copied into its directory and named in its
    /// manifest, as level 0, with the seqnos that stand in them.
    pub(crate) fn adopt_whole_tables(self, paths: &[PathBuf]) -> Node {
        let Node { sim, db, dir, protector, order, .. } = self;
        db.flush().unwrap();
        db.close().unwrap();
        drop(db);
        let env = sim.env(sim.steps() + 1);
        let found = recover(&env, &dir).unwrap().unwrap();
        let mut next_file = found.next_file;
        let mut last_seqno = found.state.last_seqno;
        let mut edit = Edit::default();
        for path in paths {
            let meta = copy_table(&sim, path, &dir, next_file, &order);
            next_file += 1;
            last_seqno = last_seqno.max(meta.greatest_seqno);
            edit.changes.push(EditChange::TableAdded { family: 0, level: 0, table: Arc::new(meta) });
        }
        sim.sync_dir(&dir).unwrap();
        let next_family = found.state.next_family;
        edit.changes.push(EditChange::Counters { next_file: next_file + 1, last_seqno, next_family });
        Manifest::resume(&env, &dir, &found, next_file, &edit).unwrap();
        Node::open_ordered(&sim, dir.to_str().unwrap(), protector, order)
    }
}

pub(crate) fn tables_in(sim: &SimFs, dir: &Path) -> Vec<PathBuf> {
    let mut names = sim.list(dir).unwrap();
    names.sort();
    names.iter().filter(|name| name.ends_with(".tbl")).map(|name| dir.join(name)).collect()
}

fn copy_table(sim: &SimFs, from: &Path, dir: &Path, number: u64, order: &Order) -> TableMeta {
    let file = sim.open(from, Open::Read).unwrap();
    let bytes = read_exact(&*file, 0, file.len().unwrap() as usize).unwrap();
    let copy = sim.open(&dir.join(StoreFileName::Table(number).to_string()), Open::Create).unwrap();
    copy.write_at(&bytes, 0).unwrap();
    copy.sync_data().unwrap();
    let table = open_table(sim, from, order);
    let (expected, properties) = (*table.expected(), table.properties());
    TableMeta {
        number,
        uid: expected.uid,
        size: expected.size,
        smallest: properties.smallest.clone(),
        largest: properties.largest.clone(),
        least_seqno: properties.least_seqno,
        greatest_seqno: properties.greatest_seqno,
        digest: expected.digest,
        ingest_seqno: 0,
        values: Vec::new(),
        expiry: None,
        ledger: properties.ledger,
    }
}

pub(crate) fn open_table(sim: &SimFs, path: &Path, order: &Order) -> Arc<Table> {
    let file = sim.open(path, Open::Read).unwrap();
    let expected = Table::identify("table", &*file).unwrap();
    let cache = Arc::new(Cache::new(1 << 20));
    Table::open("table".into(), file, expected, order.clone(), cache, Arc::new(Plain)).unwrap()
}

/// A table of unsealed records, as a foreign node might give it; its path.
pub(crate) fn write_table(sim: &SimFs, dir: &str, records: &[(Vec<u8>, Seqno, Kind, Vec<u8>)]) -> PathBuf {
    sim.create_dir_all(Path::new(dir)).unwrap();
    let path = Path::new(dir).join("000001.tbl");
    let file = sim.open(&path, Open::Create).unwrap();
    let settings = WriterSettings {
        order: Order::bytewise(),
        family: 0,
        block_bytes: 4096,
        restart_interval: 16,
        filter_bits: 10,
        filter_policy: None,
        compression: Compression::None,
        base_seqno: 0,
        seal_column: false,
        created_micros: 0,
        store: None,
    };
    let mut writer = Writer::new(file, Uid([7; 16]), settings, Arc::new(Plain));
    for (key, seqno, kind, value) in records {
        writer.add(&Record { key, seqno: *seqno, kind: *kind, value, companion: &[] }).unwrap();
    }
    writer.finish().unwrap();
    path
}
