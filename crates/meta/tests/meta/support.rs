//! A store on a simulated disk, small enough that a few hundred records make several levels.
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts, Silent};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Plain, Protection};
use waxseal_meta::{Seal, Sealer};

pub(crate) const DIR: &str = "/store";

/// Everything.
pub(crate) const ALL: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Unbounded, Bound::Unbounded);

/// A record of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) key: Vec<u8>,
    pub(crate) seqno: Seqno,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
    pub(crate) companion: Vec<u8>,
}

impl Owned {
    pub(crate) fn of(record: &Record<'_>) -> Owned {
        let Record { key, seqno, kind, value, companion } = *record;
        Owned { key: key.into(), seqno, kind, value: value.into(), companion: companion.into() }
    }

    pub(crate) fn record(&self) -> Record<'_> {
        let Owned { key, seqno, kind, value, companion } = self;
        Record { key, seqno: *seqno, kind: *kind, value, companion }
    }
}

pub(crate) struct Store {
    pub(crate) sim: SimFs,
    pub(crate) db: Db,
    pub(crate) family: Family,
    pub(crate) protector: Arc<dyn Companions>,
}

/// Small blocks and tables, no compression.
pub(crate) fn options() -> CfOptions {
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

impl Store {
    pub(crate) fn sealed(sim: &SimFs, sealer: &Arc<Sealer>) -> Store {
        Store::open(sim, sealer.clone(), options()).unwrap()
    }

    pub(crate) fn plain(sim: &SimFs) -> Store {
        Store::open(sim, Arc::new(Plain), options()).unwrap()
    }

    pub(crate) fn open(sim: &SimFs, protector: Arc<dyn Companions>, options: CfOptions) -> Result<Store> {
        Store::open_with(sim, protector, options, true)
    }

    pub(crate) fn open_with(
        sim: &SimFs,
        protector: Arc<dyn Companions>,
        options: CfOptions,
        mapped: bool,
    ) -> Result<Store> {
        let settings = Settings {
            memtable_bytes: 8 * 1024,
            segment_bytes: 64 * 1024,
            ring_bytes: 16 * 1024,
            drain_bytes: 4096,
            wal_mapped: mapped,
            ..Settings::default()
        };
        let parts = Parts {
            env: sim.env(sim.steps() + 1),
            companions: protector.clone(),
            listener: Arc::new(Silent),
            families: vec![("default".to_owned(), options.clone())],
            orders: vec![options.order],
            engine_log: None,
            cache: None,
        };
        let db = Db::open(Path::new(DIR), settings, parts)?;
        let family = db.family("default").unwrap();
        Ok(Store { sim: sim.clone(), db, family, protector })
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) {
        self.apply(Kind::Put, key, value, &[]).unwrap();
    }

    pub(crate) fn delete(&self, key: &[u8]) {
        self.apply(Kind::Delete, key, b"", &[]).unwrap();
    }

    pub(crate) fn apply(&self, kind: Kind, key: &[u8], value: &[u8], entries: &[(u16, &[u8])]) -> Result<()> {
        let mut batch = Batch::new();
        batch.push_given(self.family.id(), kind, key, value, entries, self.db.companions())?;
        self.db.commit(&mut batch, Durability::Os)?;
        Ok(())
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Owned>> {
        self.get_at(key, At::Latest)
    }

    pub(crate) fn get_at(&self, key: &[u8], at: At<'_>) -> Result<Option<Owned>> {
        let mut found = None;
        self.db.get(&self.family, key, at, &mut |record| found = Some(Owned::of(record)))?;
        Ok(found)
    }

    /// Everything, from front to back; from back to front it is the same.
    pub(crate) fn scan(&self) -> Vec<Owned> {
        let mut cursor = self.db.cursor(&self.family, At::Latest, ALL).unwrap();
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

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.scan().into_iter().map(|record| record.key).collect()
    }

    /// Flushes, and merges everything into the lowest level.
    pub(crate) fn compact(&self) {
        self.db.compact(&self.family, &ALL).unwrap();
    }

    pub(crate) fn tables(&self) -> Vec<PathBuf> {
        let names = self.sim.files(DIR).into_iter().filter(|name| name.ends_with(".tbl"));
        names.map(|name| Path::new(DIR).join(name)).collect()
    }

    /// Every record that is shown has its own seal, and it is right.
    pub(crate) fn holds(&self) {
        for owned in self.scan() {
            let record = owned.record();
            let check = self.protector.verify(&record, waxseal_lsm::checksum::hash(record.key), Protection::Complete);
            assert_eq!(check, waxseal_lsm::seam::Check::Validated, "{owned:?}");
            if record.companion.len() == 9 {
                assert_eq!(Sealer::seal_of(&record).unwrap(), Some(Seal::of(record.key, record.value)));
            }
        }
    }
}
