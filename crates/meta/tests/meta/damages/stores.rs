//! The stores that are damaged: several families, several levels, overwritten and deleted keys, range deletes in the
//! manifest and in the log, large values, merge operands, records in the log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{Db, Family, Parts, Silent};
use waxseal_lsm::env::Machine;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::{CfOptions, Compression, Durability, SealLayout, Settings};
use waxseal_lsm::record::Kind as RecordKind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;

const DIR: &str = "/store";

/// Where salvage puts a store.
pub(crate) const SAVED: &str = "/saved";

/// Keys of each family.
pub(crate) const KEYS: u64 = 240;

pub(crate) const FAMILIES: [&str; 3] = ["default", "other", "large"];

/// The family with merge operands.
const MERGED: &str = "other";

/// What a store is like.
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    compression: Compression,
    seal_column: bool,
    /// Blocks of one part of a cut index; 0: no index is cut.
    part_blocks: usize,
    is_sealed: bool,
    /// Cache; a small one holds a few blocks, so that most reads of keys search a block once.
    cache_bytes: usize,
    /// Every family in one table of the deepest level.
    compacted: bool,
    closed: bool,
}

const fn plan(name: &'static str, lz4: bool, seal_column: bool, compacted: bool, closed: bool) -> Plan {
    let compression = if lz4 && cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None };
    Plan { name, compression, seal_column, part_blocks: 0, is_sealed: true, cache_bytes: 256 << 20, compacted, closed }
}

/// A plan with a small cache.
const fn uncached(plan: Plan) -> Plan {
    Plan { cache_bytes: 4096, ..plan }
}

pub(crate) const STORES: [Plan; 9] = [
    plan("plain, compacted, closed", false, false, true, true),
    plan("lz4, levels, open", true, false, false, false),
    plan("plain, column, levels, open", false, true, false, false),
    plan("lz4, column, compacted, closed", true, true, true, true),
    Plan { part_blocks: 4, ..plan("plain, cut index, compacted, closed", false, false, true, true) },
    uncached(plan("plain, compacted, closed, few cached blocks", false, false, true, true)),
    uncached(plan("plain, levels, open, few cached blocks", false, false, false, false)),
    uncached(plan("lz4, column, levels, open, few cached blocks", true, true, false, false)),
    Plan { is_sealed: false, ..plan("without seals, levels, open", false, false, false, false) },
];

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    Values,
    Log,
    Manifest,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Table, Kind::Values, Kind::Log, Kind::Manifest];

    fn of(name: &str) -> Option<Kind> {
        match StoreFileName::parse(name)? {
            StoreFileName::Table(_) => Some(Kind::Table),
            StoreFileName::Values(_) => Some(Kind::Values),
            StoreFileName::Segment(_) | StoreFileName::Ring(_) => Some(Kind::Log),
            StoreFileName::Manifest(_) | StoreFileName::Current => Some(Kind::Manifest),
            _ => None,
        }
    }
}

/// The value of each key that exists.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store on a disk of its own, and what it holds.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) disk: SimFs,
    pub(crate) rows: BTreeMap<&'static str, Rows>,
    /// The rows that range deletes of the manifest hide.
    pub(crate) deleted: BTreeMap<&'static str, Rows>,
    options: CfOptions,
    cache_bytes: usize,
    companions: Arc<dyn Companions>,
    used: BTreeMap<String, usize>,
}

pub(crate) fn key(n: u64) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

impl Sample {
    pub(crate) fn new(plan: &Plan) -> Sample {
        let options = CfOptions {
            block_bytes: 512,
            restart_interval: 4,
            compression: plan.compression,
            seals: SealLayout::always(plan.seal_column),
            level0_tables: 4,
            table_bytes: 8 * 1024,
            level_base_bytes: 16 * 1024,
            fanout: 4,
            part_blocks: if plan.part_blocks > 0 { plan.part_blocks } else { CfOptions::default().part_blocks },
            ..CfOptions::default()
        };
        let companions: Arc<dyn Companions> = match plan.is_sealed {
            true => Arc::new(Sealer::new()),
            false => Arc::new(Plain),
        };
        let (name, disk) = (plan.name, SimFs::new(hash(plan.name.as_bytes())));
        let [rows, deleted] = [(); 2].map(|()| FAMILIES.map(|name| (name, Rows::new())).into());
        let cache_bytes = plan.cache_bytes;
        let mut sample = Sample { name, disk, rows, deleted, options, cache_bytes, companions, used: BTreeMap::new() };
        let db = sample.open(&sample.disk).expect("a new store");
        let mut snapshot = None;
        for round in 0..4 {
            if round == 3 {
                // The range deletes stay in the manifest, because the snapshot keeps what they hide.
                snapshot = Some(db.snapshot().expect("a snapshot"));
                sample.deleted = sample.delete_range(&db, 40, 60);
            }
            sample.fill(&db, round);
            for family in db.families() {
                match plan.compacted {
                    true => db.compact(&family, &super::checks::ALL).expect("compact"),
                    false => db.flush().expect("flush"),
                }
            }
            while !plan.compacted && round < 3 && db.step().expect("step") {}
        }
        sample.delete_range(&db, 100, 110);
        sample.fill(&db, 4);
        for family in db.families() {
            assert_eq!(db.range_deletes(&family).expect("range deletes").len(), 1, "{}", family.name());
        }
        drop(snapshot);
        db.sync().expect("sync");
        if plan.closed {
            db.close().expect("close");
        }
        sample.disk = sample.disk.copy(Machine { boot_id: Some([1; 16]), device: 1 });
        drop(db);
        let names = sample.disk.files(DIR).into_iter().filter(|name| Kind::of(name).is_some());
        for name in names.collect::<Vec<_>>() {
            let bytes = sample.disk.read_all(sample.dir().join(&name)).expect("a file");
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            sample.used.insert(name, used);
        }
        sample
    }

    /// Overwrites a part of the keys, deletes some, and merges operands into some.
    fn fill(&mut self, db: &Db, round: u64) {
        for name in FAMILIES {
            let family = db.family(name).expect("family");
            let drawn = |n: u64| hash(&[&round.to_le_bytes()[..], &n.to_le_bytes(), name.as_bytes()].concat());
            let share = [1, 3, 4, 6, 12][round as usize];
            for n in (0..KEYS).filter(|n| drawn(*n) % share == 0) {
                let (key, drawn) = (key(n), drawn(n) >> 8);
                let long = if name == "large" { 40 + drawn as usize % 400 } else { 30 };
                let value = format!("round {round} of {n} {drawn:016x} {}", "abc".repeat(long / 3)).into_bytes();
                let kind = match drawn % 8 {
                    0 if round > 0 => RecordKind::Delete,
                    1..4 if name == MERGED => RecordKind::Merge,
                    _ => RecordKind::Put,
                };
                self.apply(db, &family, name, kind, (key, value));
            }
        }
    }

    /// Deletes a range of each family. Returns the rows that it deleted.
    fn delete_range(&mut self, db: &Db, from: u64, to: u64) -> BTreeMap<&'static str, Rows> {
        let (from, to) = (key(from), key(to));
        let mut delete = |name: &'static str| {
            let (family, mut batch) = (db.family(name).expect("family"), Batch::new());
            batch.delete_range(family.id(), (Some(&from), Some(&to)), db.companions()).expect("a range");
            db.commit(&mut batch, Durability::Os).expect("commit");
            let rows = self.rows.get_mut(name).expect("family");
            let (deleted, stay) = std::mem::take(rows).into_iter().partition(|(key, _)| *key >= from && *key < to);
            *rows = stay;
            (name, deleted)
        };
        FAMILIES.map(&mut delete).into()
    }

    fn apply(&mut self, db: &Db, family: &Family, name: &str, kind: RecordKind, (key, value): (Vec<u8>, Vec<u8>)) {
        let mut batch = Batch::new();
        let written = if kind == RecordKind::Delete { &[] } else { &value[..] };
        batch.push(family.id(), kind, &key, written, db.companions()).expect("push");
        db.commit(&mut batch, Durability::Os).expect("commit");
        let rows = self.rows.get_mut(name).expect("family");
        match kind {
            RecordKind::Delete => drop(rows.remove(&key)),
            RecordKind::Merge => rows.entry(key).or_default().extend(value),
            _ => drop(rows.insert(key, value)),
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        PathBuf::from(DIR)
    }

    pub(crate) fn settings(&self) -> Settings {
        let (segment_bytes, ring_bytes, drain_bytes, cache_bytes) = (64 * 1024, 16 * 1024, 4096, self.cache_bytes);
        Settings { segment_bytes, ring_bytes, drain_bytes, cache_bytes, ..Settings::default() }
    }

    pub(crate) fn parts(&self, disk: &SimFs) -> Parts {
        let large = CfOptions { large_value_bytes: 120, ..self.options.clone() };
        let merged = CfOptions { merge_operator: Some(MergeOperator::append("")), ..self.options.clone() };
        let of = |name: &str| match name {
            "large" => large.clone(),
            MERGED => merged.clone(),
            _ => self.options.clone(),
        };
        Parts {
            env: disk.env(disk.steps() + 1),
            companions: self.companions.clone(),
            listener: Arc::new(Silent),
            families: FAMILIES.map(|name| (name.to_owned(), of(name))).into(),
            filters: Vec::new(),
            orders: Vec::new(),
            merge_operators: Vec::new(),
            engine_log: None,
            cache: None,
        }
    }

    pub(crate) fn open(&self, disk: &SimFs) -> Result<Db> {
        self.open_at(disk, Path::new(DIR))
    }

    pub(crate) fn open_at(&self, disk: &SimFs, dir: &Path) -> Result<Db> {
        Db::open(dir, self.settings(), self.parts(disk))
    }

    pub(crate) fn files(&self, kind: Kind) -> Vec<String> {
        self.used.keys().filter(|name| Kind::of(name) == Some(kind)).cloned().collect()
    }

    /// How many bytes of a file hold something.
    pub(crate) fn used(&self, file: &str) -> usize {
        self.used.get(file).copied().unwrap_or(0)
    }
}
