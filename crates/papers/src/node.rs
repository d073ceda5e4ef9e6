//! A store on the bare engine, with one family and the record protector that an experiment chooses. Both engines of a
//! comparison run in one process, on the same disk, each in its own directory.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use waxseal_bench::Outcome;
use waxseal_bench::workload::touch;
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, CursorBounds, Db, Family, Listener, Parts, Silent};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, MIB, Settings};
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::Companions;
use waxseal_testing::harness;

/// The whole key space.
pub(crate) const ALL: CursorBounds = (Bound::Unbounded, Bound::Unbounded);

/// The configuration of a store.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) env: Env,
    pub(crate) options: CfOptions,
    pub(crate) settings: Settings,
    pub(crate) listener: Arc<dyn Listener>,
}

impl Shape {
    /// The configuration of the published runs: 256 MiB of cache, memtables of 64 MiB, no compression.
    pub(crate) fn real() -> Shape {
        let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
        let settings = Settings { cache_bytes: 256 * MIB, memtable_bytes: 64 * MIB, ..Settings::default() };
        Shape { env: Env::real(), options, settings, listener: Arc::new(Silent) }
    }

    /// A small configuration, in which a few hundred records make several blocks, tables and levels.
    pub(crate) fn small(env: Env) -> Shape {
        let settings = Settings { cache_bytes: MIB, ..harness::settings() };
        Shape { env, options: harness::options(), settings, listener: Arc::new(Silent) }
    }
}

/// An open store.
pub(crate) struct Node {
    pub(crate) db: Db,
    pub(crate) family: Family,
    batch: Batch,
}

impl Node {
    pub(crate) fn open(dir: &Path, shape: &Shape, companions: Arc<dyn Companions>) -> Outcome<Node> {
        Ok(Node::try_open(dir, shape, companions)?)
    }

    /// Opens a store, and returns the engine's own error.
    pub(crate) fn try_open(dir: &Path, shape: &Shape, companions: Arc<dyn Companions>) -> Result<Node> {
        let parts = Parts {
            env: shape.env.clone(),
            companions,
            listener: shape.listener.clone(),
            families: vec![("default".to_owned(), shape.options.clone())],
            filters: Vec::new(),
            orders: vec![shape.options.order.clone()],
            merge_operators: Vec::new(),
            engine_log: None,
            cache: None,
        };
        let db = Db::open(dir, shape.settings.clone(), parts)?;
        let family = db.family("default").ok_or_else(waxseal_lsm::error::Error::closed)?;
        Ok(Node { db, family, batch: Batch::new() })
    }

    pub(crate) fn apply(&mut self, kind: Kind, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.batch.clear();
        self.batch.push(self.family.id(), kind, key, value, self.db.companions())?;
        self.db.commit(&mut self.batch, durability)?;
        Ok(())
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.apply(Kind::Put, key, value, Durability::Os)
    }

    /// Returns a sum over all bytes of the value, as a reader would use them; `None` if the key has no value.
    pub(crate) fn touch(&self, key: &[u8]) -> Result<Option<u64>> {
        let mut sum = 0;
        let found = self.db.get(&self.family, key, At::Latest, &mut |record: &Record<'_>| sum = touch(record.value))?;
        Ok(found.then_some(sum))
    }

    /// Reads key and value of every row; returns their number and a sum.
    pub(crate) fn scan(&self) -> Result<(u64, u64)> {
        let mut cursor = self.db.cursor(&self.family, At::Latest, ALL)?;
        let (mut rows, mut sum) = (0, 0u64);
        cursor.first()?;
        while cursor.valid() {
            sum = sum.wrapping_add(touch(cursor.key())).wrapping_add(touch(cursor.value()));
            rows += 1;
            cursor.next()?;
        }
        Ok((rows, sum))
    }

    /// Returns the bytes and the number of records of the table files.
    pub(crate) fn tables(&self) -> (u64, u64) {
        let metrics = self.db.metrics();
        let levels = metrics.families.iter().flat_map(|family| &family.levels);
        levels.fold((0, 0), |(bytes, records), level| (bytes + level.bytes, records + level.records))
    }

    /// Returns the number of live table files.
    pub(crate) fn table_files(&self) -> u64 {
        let metrics = self.db.metrics();
        metrics.families.iter().flat_map(|family| &family.levels).map(|level| level.tables as u64).sum()
    }

    pub(crate) fn compact(&self) -> Result<()> {
        self.db.compact(&self.family, &ALL)
    }
}
