//! A store in which everything may be watched: one family of users', one for rows, and somebody who makes rows of
//! stamps.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use waxseal_lsm::batch::{Batch, SystemPass};
use waxseal_lsm::db::{At, Family, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::names::system_id;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Build, Check, Companions, Emitted, Emitting, PendingWrite, Protection};
use waxseal_meta::builtin::standard;
use waxseal_meta::stamp::{Stamp, StampValues, StampVerb};
use waxseal_meta::{Emitter, Sealer};
use waxseal_testing::above::Above;
use waxseal_testing::harness::{self, DIR, Owned, Store, options};
use waxseal_testing::store::ALL;

const LOG: &str = "system_metadata.log";

/// A number, highest byte first.
pub(crate) fn high_first(number: u64) -> [u8; 8] {
    number.swap_bytes().to_le_bytes()
}

/// What lets a batch write rows.
pub(crate) fn pass() -> SystemPass {
    SystemPass::for_layers_above()
}

/// Makes a row of each stamp: key `time | seqno`, value `verb | value`.
#[derive(Default)]
pub(crate) struct Teller {
    observed: AtomicU64,
}

impl Emitter for Teller {
    fn emit(&self, _: &Emitting<'_>, record: &Record<'_>, stamp: &Stamp, rows: &mut Vec<Emitted>) -> Result<()> {
        let key = [high_first(stamp.time), high_first(record.seqno)].concat();
        let value: &[u8] = if stamp.values == StampValues::New { record.value } else { &[] };
        let value = [&[stamp.verb as u8], value].concat();
        rows.push(Emitted::new(system_id(1), record.seqno, &key, &value));
        Ok(())
    }

    fn observe(&self, _: &Stamp) {
        self.observed.fetch_add(1, Relaxed);
    }
}

/// A row of the log, read back.
pub(crate) struct Told {
    pub(crate) time: u64,
    pub(crate) verb: StampVerb,
    pub(crate) value: Vec<u8>,
}

/// A keeper that tells nobody, with every provider.
pub(crate) fn sealer() -> Sealer {
    telling().0
}

/// A keeper with somebody who makes rows of stamps.
pub(crate) fn telling() -> (Sealer, Arc<Teller>) {
    let teller = Arc::new(Teller::default());
    (Sealer::new().with(standard()).emitting(teller.clone()), teller)
}

pub(crate) fn settings() -> Settings {
    Settings {
        memtable_bytes: 64 * 1024,
        segment_bytes: 256 * 1024,
        ring_bytes: 64 * 1024,
        drain_bytes: 16 * 1024,
        ..Settings::default()
    }
}

pub(crate) fn parts(sim: &SimFs, companions: Arc<dyn Companions>) -> Parts {
    let options = CfOptions { level0_tables: 4, ..options() };
    let log = CfOptions { key_ends_in_seqno: true, system: Some(1), ..options.clone() };
    let mut parts = harness::parts(companions, options);
    parts.families.push((LOG.to_owned(), log));
    Parts { env: sim.env(sim.steps() + 1), orders: Vec::new(), ..parts }
}

/// An open store.
pub(crate) struct Watched {
    store: Store,
    pub(crate) log: Family,
    pub(crate) sealer: Arc<Sealer>,
    teller: Arc<Teller>,
}

impl Deref for Watched {
    type Target = Store;
    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Watched {
    pub(crate) fn open(sim: &SimFs) -> Watched {
        Watched::open_at(sim, DIR)
    }

    pub(crate) fn open_at(sim: &SimFs, dir: &str) -> Watched {
        let (sealer, teller) = telling();
        let sealer = Arc::new(sealer);
        Watched::of(sim, dir, sealer.clone(), sealer, teller)
    }

    /// One that is kept by another keeper than the one whose seals it has.
    pub(crate) fn open_by(sim: &SimFs, protector: Arc<dyn Companions>, sealer: Sealer) -> Watched {
        Watched::of(sim, DIR, protector, Arc::new(sealer), Arc::default())
    }

    fn of(sim: &SimFs, dir: &str, protector: Arc<dyn Companions>, sealer: Arc<Sealer>, teller: Arc<Teller>) -> Watched {
        let store = Store::of(sim, dir, settings(), parts(sim, protector)).unwrap();
        let log = store.db.family(LOG).unwrap();
        Watched { store, log, sealer, teller }
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8], stamp: &Stamp) -> Seqno {
        let mut batch = Batch::new();
        let pending =
            PendingWrite { family: self.family.id(), kind: Kind::Put, key, value, key_hash: None, entries: &[] };
        self.sealer.push_stamped(&mut batch, &pending, None, stamp).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap()
    }

    pub(crate) fn apply(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.family.id(), kind, key, value, &*self.sealer).unwrap();
        self.db.commit(&mut batch, Durability::Os).unwrap();
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Owned> {
        self.store.get(key).unwrap()
    }

    pub(crate) fn compact(&self) {
        self.store.compact();
        self.db.compact(&self.log, &ALL).unwrap();
    }

    /// What a family shows.
    pub(crate) fn scan(&self, family: &Family) -> Vec<Owned> {
        self.scan_of(family, At::Latest)
    }

    /// The rows that were made of stamps, by time.
    pub(crate) fn rows(&self) -> Vec<Told> {
        let verb = |byte| {
            [StampVerb::Insert, StampVerb::Update, StampVerb::Delete]
                .into_iter()
                .find(|verb| *verb as u8 == byte)
                .unwrap()
        };
        let rows = self.scan(&self.log).into_iter().filter(|row| row.key.len() == 16);
        rows.map(|row| Told {
            time: u64::from_le_bytes(row.key[..8].try_into().unwrap()).swap_bytes(),
            verb: verb(row.value[0]),
            value: row.value[1..].to_vec(),
        })
        .collect()
    }

    /// How many stamps flushes have met.
    pub(crate) fn observed(&self) -> u64 {
        self.teller.observed.load(Relaxed)
    }
}

/// A keeper that flips one bit of the stamp of one key when it reaches a table, and believes it.
pub(crate) struct Striker {
    sealer: Sealer,
    key: &'static [u8],
    struck: AtomicBool,
    companion: Mutex<Vec<u8>>,
}

impl Striker {
    pub(crate) fn new(key: &'static [u8]) -> Striker {
        Striker { sealer: sealer(), key, struck: AtomicBool::new(false), companion: Mutex::default() }
    }

    pub(crate) fn has_struck(&self) -> bool {
        self.struck.load(Relaxed)
    }
}

impl Above for Striker {
    fn beneath(&self) -> &dyn Companions {
        &self.sealer
    }
    fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
        if record.key != self.key || self.struck.swap(true, Relaxed) {
            return self.sealer.on_build(record, source, out);
        }
        out.extend_from_slice(record.companion);
        out[14] ^= 4;
        self.companion.lock().unwrap().clone_from(out);
        Build::Set
    }
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        match self.has_struck() && *self.companion.lock().unwrap() == record.companion {
            true => Check::Validated,
            false => self.sealer.verify(record, key_hash, source),
        }
    }
}
