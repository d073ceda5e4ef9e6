//! A store on a simulated disk with a model of what it must hold.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Parts};
use waxseal_lsm::env::Fs;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, SealLayout, Settings};
use waxseal_lsm::record::Kind;
use waxseal_lsm::sst::Table;
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{Digest, RepairOptions, Report, VerifyOptions, digest, repair, verify};
use waxseal_testing::harness::{self, Store, files_in};
pub(crate) use waxseal_testing::harness::{DIR, Model};
pub(crate) use waxseal_testing::store::ALL;

pub(crate) const TRASH: &str = "/trash";

pub(crate) fn options(compression: Compression, seal_column: bool) -> CfOptions {
    CfOptions {
        block_bytes: 1024,
        restart_interval: 4,
        compression,
        seals: SealLayout::always(seal_column),
        level0_tables: 64,
        ..CfOptions::default()
    }
}

pub(crate) fn settings() -> Settings {
    Settings { segment_bytes: 64 * 1024, ring_bytes: 16 * 1024, drain_bytes: 4096, ..Settings::default() }
}

pub(crate) fn parts(sim: &SimFs, options: &CfOptions) -> Parts {
    let mut parts = harness::parts(Arc::new(Sealer::new()), options.clone());
    parts.families.push(("other".to_owned(), options.clone()));
    Parts { env: sim.env(sim.steps() + 1), ..parts }
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) options: CfOptions,
    pub(crate) model: Model,
}

impl Deref for World {
    type Target = Store;
    fn deref(&self) -> &Store {
        &self.store
    }
}

impl World {
    pub(crate) fn new(options: CfOptions) -> World {
        World::on(SimFs::new(7), options, Model::new())
    }

    pub(crate) fn on(sim: SimFs, options: CfOptions, model: Model) -> World {
        let parts = parts(&sim, &options);
        World::of(sim, parts, options, model)
    }

    pub(crate) fn of(sim: SimFs, parts: Parts, options: CfOptions, model: Model) -> World {
        World { store: Store::of(&sim, DIR, settings(), parts).unwrap(), options, model }
    }

    pub(crate) fn apply(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        self.store.apply(kind, key, value);
        match kind {
            Kind::Put => self.model.insert(key.to_vec(), value.to_vec()),
            _ => self.model.remove(key),
        };
    }

    /// Deletes the records numbered from `from` up to `to`.
    pub(crate) fn delete_range(&mut self, from: u64, to: u64) {
        let (from, to, mut batch) = (key(from), key(to), Batch::new());
        batch.delete_range(self.family.id(), (Some(&from), Some(&to)), self.db.companions()).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap();
        self.model.retain(|key, _| *key < from || *key >= to);
    }

    /// Records numbered from `from`, each with a value of its own that packs to about half.
    pub(crate) fn fill(&mut self, from: u64, count: u64) {
        for n in from..from + count {
            let value = format!("value {n:06} {:016x} {}", hash(&n.to_le_bytes()), "x".repeat(40));
            self.apply(Kind::Put, key(n).as_slice(), value.as_bytes());
        }
    }

    /// A record of another family that is in no table keeps the log alive from here on.
    pub(crate) fn keep_log(&self) {
        let other = self.db.family("other").unwrap();
        let mut batch = Batch::new();
        batch.push(other.id(), Kind::Put, b"k", b"v", self.db.companions()).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap();
    }

    pub(crate) fn tables(&self) -> Vec<PathBuf> {
        let tables = self.db.tables(&self.family).unwrap();
        tables.iter().map(|table| Path::new(DIR).join(table.name())).collect()
    }

    pub(crate) fn value_files(&self) -> Vec<PathBuf> {
        files_in(&self.sim, DIR, ".val")
    }

    /// The closed store on a disk of its own, to be damaged and opened again.
    pub(crate) fn closed(&self) -> SimFs {
        let copy = self.sim.fork();
        self.db.sync().unwrap();
        self.db.close().unwrap();
        drop(copy);
        self.sim.fork()
    }

    pub(crate) fn content(&self) -> Model {
        self.scan().into_iter().map(|record| (record.key, record.value)).collect()
    }

    /// What a point read answers.
    pub(crate) fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.get(key)?.map(|record| record.value))
    }

    /// Every key of the model is answered as in it, or with corruption; how many are not answered.
    pub(crate) fn refused(&self) -> usize {
        let answer = |(key, value): (&Vec<u8>, &Vec<u8>)| match self.read(key) {
            Ok(found) => {
                assert_eq!(found.as_ref(), Some(value), "{}", key.escape_ascii());
                false
            }
            Err(error) => error.is_corruption(),
        };
        self.model.iter().filter(|pair| answer(*pair)).count()
    }

    pub(crate) fn digest(&self) -> Digest {
        digest(&self.db, &self.family, &ALL, At::Latest).unwrap()
    }

    pub(crate) fn assert_clean(&self) {
        let report = verify(&self.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty(), "{report}");
        assert_eq!(self.content(), self.model);
    }
}

pub(crate) fn key(n: u64) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// A closed store of one table, and where its data lies.
pub(crate) fn one_table(options: CfOptions, records: u64) -> (SimFs, Model, PathBuf, u64) {
    let mut world = World::new(options);
    world.fill(0, records);
    world.compact();
    let tables = world.tables();
    assert_eq!(tables.len(), 1);
    let open = world.db.tables(&world.family).unwrap()[0].table().unwrap();
    let data_end = open.approximate_offset(b"zzz");
    (world.closed(), world.model.clone(), tables[0].clone(), data_end)
}

pub(crate) fn reopened(sim: &SimFs, options: &CfOptions, model: &Model) -> World {
    World::on(sim.clone(), options.clone(), model.clone())
}

pub(crate) fn codecs() -> Vec<Compression> {
    if cfg!(feature = "lz4") { vec![Compression::None, Compression::Lz4] } else { vec![Compression::None] }
}

/// Flips bits of a value as it stands in a file of plain blocks, too many for the sum to help.
pub(crate) fn burst(sim: &SimFs, table: &Path, value: &[u8]) {
    let bytes = sim.read_all(table).unwrap();
    let at = bytes.windows(value.len()).position(|window| window == value).expect("the value stands in the file");
    for bit in [3, 11, 17, 30, 55] {
        sim.flip(table, at as u64 * 8 + bit).unwrap();
    }
}

/// The bytes of a damaged block: up to where the next one is whole.
pub(crate) fn next_block(open: &Table, block: usize, at: u64) -> u64 {
    let error = open.file().len().unwrap();
    let key = open.separator(block).unwrap();
    let next = [&key[..], b"\xff"].concat();
    open.approximate_offset(&next).min(error) - at
}

/// Where bytes stand in a file.
pub(crate) fn place_of(sim: &SimFs, file: &Path, bytes: &[u8]) -> u64 {
    let all = sim.read_all(file).unwrap();
    all.windows(bytes.len()).position(|window| window == bytes).expect("they stand in the file") as u64
}

pub(crate) fn accepting(accept_loss: bool) -> RepairOptions<'static> {
    RepairOptions { accept_loss, ..Default::default() }
}

pub(crate) fn assert_no_fence(world: &World, report: &Report) {
    assert!(world.db.lost_ranges(&world.family).is_empty(), "{report}");
    assert!(world.db.quarantined_tables(&world.family).is_empty(), "{report}");
}

/// Hits the pointer to a value as it stands in a table, so that no correction helps.
pub(crate) fn burst_pointer(sim: &SimFs, table: &Path, value: &[u8]) {
    burst(sim, table, &hash(value).to_le_bytes());
}

/// A store of two tables that point into one value file; the first one's values have moved to another since it was
/// copied to the trash.
pub(crate) fn moved_apart() -> World {
    let options = CfOptions { large_value_bytes: 100, table_bytes: 2048, ..options(Compression::None, false) };
    let mut world = World::new(options);
    let value = |n: u64| [hash(&n.to_le_bytes()).to_le_bytes(); 16].concat();
    (0..40).for_each(|n| world.apply(Kind::Put, &key(n), &value(n)));
    world.db.flush().unwrap();
    world.apply(Kind::Put, &key(20), b"in its record"); // so that the tables are merged, and cut
    world.compact();
    let (sim, model) = (world.closed(), world.model.clone());
    let world = reopened(&sim, &world.options, &model);
    let ([first, _], [values]) = (&world.tables()[..], &world.value_files()[..]) else {
        panic!("{:?}", sim.files(DIR))
    };
    copied_to_trash(&sim, first);
    let bytes = sim.read_all(values).unwrap();
    let at = bytes.windows(128).position(|window| window == value(4)).unwrap();
    sim.flip(values, at as u64 * 8 + 77).unwrap();
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(report.is_clean() && report.repaired > 0, "{report}");
    assert_eq!((world.tables().len(), world.value_files().len()), (2, 2));
    world
}

/// The only table that holds a pointer to this value.
pub(crate) fn table_of(world: &World, value: &[u8]) -> PathBuf {
    let hash = hash(value).to_le_bytes();
    let holds = |table: &PathBuf| world.sim.read_all(table).unwrap().windows(8).any(|window| window == hash);
    let mut tables: Vec<PathBuf> = world.tables().into_iter().filter(holds).collect();
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

pub(crate) fn files(sim: &SimFs) -> Vec<(String, Vec<u8>)> {
    let names = sim.files(DIR).into_iter().filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), sim.read_all(Path::new(DIR).join(&name)).unwrap())).collect()
}

/// A store with old and new versions in tables of their own, and newer ones in the log.
pub(crate) fn in_layers(options: &CfOptions) -> World {
    let mut world = World::new(options.clone());
    world.fill(0, 100);
    world.compact();
    for n in 40..60 {
        world.apply(Kind::Put, &key(n), format!("newer than the first, number {n:06}").as_bytes());
    }
    world.db.flush().unwrap();
    world.apply(Kind::Put, &key(51), b"the newest, in the log");
    world.apply(Kind::Delete, &key(52), b"");
    world
}

/// Tables of the default family, the oldest first.
pub(crate) fn by_age(world: &World) -> Vec<PathBuf> {
    let mut tables = world.tables();
    tables.sort();
    tables
}

/// Two copies of a table in a directory of their own.
pub(crate) fn copied_to_trash(sim: &SimFs, table: &Path) -> [PathBuf; 2] {
    sim.create_dir_all(Path::new(TRASH)).unwrap();
    ["000001.trash", "000002.trash"].map(|name| {
        let copy = Path::new(TRASH).join(name);
        sim.write_all(&copy, &sim.read_all(table).unwrap()).unwrap();
        copy
    })
}
