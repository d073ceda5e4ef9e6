//! A world: a simulated disk, a store on it in stepped mode, and the oracle with the store's expected content.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Event, Family, IngestMode, Listener, Parts, Precondition, Reason};
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::env::{Env, SeededRandom};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::options::{CfOptions, Compression, Durability, SealLayout, Settings, Verify};
use waxseal_lsm::prefix_extractor::PrefixExtractor;
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::{Companions, PendingWrite, Plain};
use waxseal_meta::exchange::{ExportRequest, Policy, export, import};
use waxseal_meta::integrity::{Digest, digest};
use waxseal_meta::provider::{EXPIRY, LABELS};
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::above::Over;
use waxseal_testing::scribe::{LINES, Retaining, Scribe, Told};
use waxseal_testing::store::backwards;

use crate::beside;
use crate::displaced;
use crate::events::{self, EVENTS, Watching};
use crate::history::History;
use crate::oracle::{Change, Content, Oracle, merge_operator_of, order_of};

/// One configuration; all configurations must return the same results.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub mapped: bool,
    pub boot_id: bool,
    pub compression: Compression,
    pub block_bytes: usize,
    pub filter_bits: usize,
    pub cache_bytes: usize,
    pub memtable_bytes: usize,
    /// One memory budget for the whole store; 0 means no budget.
    pub memory_bytes: usize,
    pub seals: Seals,
    /// Some values are watched, and an event log records them.
    pub events: bool,
    /// The engine's jobs are recorded, and some versions are retained.
    pub watched: bool,
    /// Values of at least this size are in blob files; 0 disables them.
    pub large: usize,
    /// The bottom level has a compression of its own, tables are larger, and values have much in common.
    pub bottom: Option<Compression>,
    /// Blocks per partition of a partitioned index and filter; tables with more than twice as many blocks are
    /// partitioned.
    pub part_blocks: usize,
}

/// The companions of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seals {
    /// None: a plain node.
    None,
    /// The records' seals.
    Following,
    /// The records' seals, one column per block.
    Column,
    /// The records' seals, and labels or an expiry time for many records.
    Entries,
}

pub const CONFIGS: [Config; 11] = [
    MAPPED,
    PLAIN,
    NO_BOOT_ID,
    LARGE_MEMTABLE,
    Config { name: "mapped, sealed", seals: Seals::Column, watched: false, large: 64, ..MAPPED },
    Config { name: "plain, sealed", seals: Seals::Following, watched: true, part_blocks: 3, ..PLAIN },
    Config { name: "no boot id, sealed", seals: Seals::Following, watched: false, ..NO_BOOT_ID },
    Config { name: "large memtable, sealed", seals: Seals::Entries, watched: true, ..LARGE_MEMTABLE },
    Config { name: "mapped, events", events: true, ..MAPPED },
    Config { name: "plain, sealed, events", events: true, seals: Seals::Following, ..PLAIN },
    // The default configuration: commits separate their large values.
    Config { name: "mapped, sealed, large", seals: Seals::Following, watched: false, large: 64, ..MAPPED },
];

/// In a build with zstd: the bottom level is compressed with a dictionary, and the levels above without one or not at
/// all.
#[cfg(feature = "zstd")]
pub const WITH_DICTIONARIES: [Config; 2] = [
    Config { name: "dictionaries", watched: false, bottom: Some(Compression::Zstd(1)), large: 150, ..MAPPED },
    Config {
        name: "dictionaries, sealed",
        seals: Seals::Column,
        bottom: Some(Compression::Zstd(3)),
        block_bytes: 256,
        large: 150,
        ..PLAIN
    },
];

/// In a build with zstd one of the compressed configurations uses it.
const PACKED: Compression = if cfg!(feature = "zstd") { Compression::Zstd(1) } else { Compression::Lz4 };

const MAPPED: Config = Config {
    name: "mapped",
    mapped: true,
    boot_id: true,
    compression: PACKED,
    block_bytes: 256,
    filter_bits: 10,
    cache_bytes: 1 << 20,
    memtable_bytes: 4096,
    memory_bytes: 0,
    seals: Seals::None,
    events: false,
    watched: true,
    large: 0,
    bottom: None,
    part_blocks: 2,
};
const PLAIN: Config = Config {
    name: "plain",
    mapped: false,
    boot_id: true,
    compression: Compression::None,
    block_bytes: 64,
    filter_bits: 0,
    cache_bytes: 0,
    memtable_bytes: 4096,
    memory_bytes: 0,
    seals: Seals::None,
    events: false,
    watched: false,
    large: 64,
    bottom: None,
    part_blocks: 512,
};
const NO_BOOT_ID: Config = Config {
    name: "no boot id",
    mapped: true,
    boot_id: false,
    compression: Compression::None,
    block_bytes: 4096,
    filter_bits: 4,
    cache_bytes: 2048,
    memtable_bytes: 8192,
    memory_bytes: 48 * 1024,
    seals: Seals::None,
    events: false,
    watched: true,
    large: 300,
    bottom: None,
    part_blocks: 512,
};
const LARGE_MEMTABLE: Config = Config {
    name: "large memtable",
    mapped: true,
    boot_id: true,
    compression: Compression::Lz4,
    block_bytes: 512,
    filter_bits: 10,
    cache_bytes: 1 << 20,
    memtable_bytes: 32768,
    memory_bytes: 0,
    seals: Seals::None,
    events: false,
    watched: false,
    large: 64,
    bottom: None,
    part_blocks: 1,
};

/// A key that no world writes, where lost ranges without a loss begin.
pub const FENCED: &[u8] = b"~a";

/// Counts events by kind.
#[derive(Default)]
pub struct Tally {
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    pub fn add(&self, what: &'static str, n: u64) {
        *self.counts.lock().unwrap().entry(what).or_default() += n;
    }

    pub fn get(&self, what: &str) -> u64 {
        self.counts.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    pub fn merge(&self, other: &Tally) {
        for (what, n) in other.counts.lock().unwrap().iter() {
            self.add(what, *n);
        }
    }

    pub fn print(&self) {
        for (what, n) in self.counts.lock().unwrap().iter() {
            println!("{n:>10}  {what}");
        }
    }
}

impl Listener for Tally {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Recovered { .. } => self.add("event: recovered", 1),
            Event::Flushed { .. } => self.add("event: flushed", 1),
            Event::Compacted { moved: true, .. } => self.add("event: moved", 1),
            Event::Compacted { reason, .. } => self.add(
                match reason {
                    Reason::Level0 => "event: compacted level 0",
                    Reason::Size => "event: compacted for size",
                    Reason::Tombstones => "event: compacted for tombstones",
                    Reason::Range | Reason::Chosen => "event: compacted a range",
                    Reason::Values => "event: compacted for values",
                    Reason::Space => "event: compacted for space",
                    Reason::Expired => "event: compacted for expired records",
                    Reason::RangeDelete => "event: compacted for range deletes",
                },
                1,
            ),
            Event::Healed { .. } => self.add("event: healed", 1),
            Event::Barred { .. } => self.add("event: barred", 1),
            Event::Fenced { .. } => self.add("event: fenced", 1),
            Event::Lifted { .. } => self.add("event: fence lifted", 1),
            Event::Corruption { error } => {
                if std::env::var_os("WAXSEAL_TRACE").is_some() {
                    eprintln!("heard: {error}");
                }
                self.add("event: corruption", 1);
            }
            Event::Stalled { stalled: true } => self.add("event: stalled", 1),
            _ => {}
        }
    }
}

pub struct World {
    pub sim: SimFs,
    pub dir: PathBuf,
    pub config: Config,
    pub random: SeededRandom,
    pub oracle: Oracle,
    pub tally: Arc<Tally>,
    pub db: Option<Db>,
    /// The step at which a sweep crashes this world; earlier kills do not clear it.
    pub plan: u64,
    /// The record protector of the open store, or of the next one; `None` for a plain node.
    pub sealer: Option<Arc<Sealer>>,
    /// The lower half of the configuration epoch.
    pub epoch: u32,
    /// Number of lost ranges in the default family; `None` if it may be 0 or 2.
    pub lost_ranges: Option<usize>,
    /// Versions with known seqnos.
    pub history: History,
    /// Event log entries checked so far.
    pub told: std::cell::RefCell<Told>,
    seed: u64,
    opens: std::cell::Cell<u64>,
}

impl World {
    pub fn new(seed: u64, config: Config) -> World {
        let sim = SimFs::new(seed);
        sim.set_mapped(config.mapped);
        if !config.boot_id {
            sim.set_machine(waxseal_lsm::env::Machine { boot_id: None, device: 1 });
        }
        World {
            sim,
            dir: PathBuf::from("/store"),
            config,
            random: SeededRandom::new(seed),
            oracle: if config.events { Oracle::new().with(EVENTS) } else { Oracle::new() },
            tally: Arc::default(),
            db: None,
            plan: u64::MAX,
            sealer: (config.seals != Seals::None).then(|| beside::sealer(config.seals)),
            epoch: 0,
            lost_ranges: Some(0),
            history: History::default(),
            told: Default::default(),
            seed,
            opens: std::cell::Cell::new(0),
        }
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("the store is open")
    }

    pub fn settings(&self) -> Settings {
        Settings {
            memtable_bytes: self.config.memtable_bytes,
            cache_bytes: self.config.cache_bytes,
            segment_bytes: 32 * 1024,
            ring_bytes: 16 * 1024,
            drain_bytes: 4096,
            manifest_bytes: 8192,
            wal_mapped: self.config.mapped,
            chronicle_lines: 12,
            // Without a block cache, indexes are not cached either; between two and four files may be open.
            open_tables: 2 + self.config.block_bytes % 3,
            index_bytes: if self.config.cache_bytes == 0 { 1024 } else { Settings::default().index_bytes },
            subcompactions: 3,
            memory_bytes: self.config.memory_bytes,
            ..Settings::default()
        }
    }

    pub fn options(&self, family: &str) -> CfOptions {
        let table_bytes = if self.config.bottom.is_some() { 32 * 1024 } else { 2048 };
        CfOptions {
            order: order_of(family),
            merge_operator: merge_operator_of(family),
            block_bytes: self.config.block_bytes,
            restart_interval: 3,
            filter_bits: self.config.filter_bits,
            // Groups of ten of the usual keys.
            prefix_extractor: (self.config.filter_bits > 0 && order_of(family).is_bytewise())
                .then_some(PrefixExtractor::Fixed(6)),
            compression: self.config.compression,
            bottom_compression: self.config.bottom,
            table_bytes,
            level_base_bytes: 2 * table_bytes,
            fanout: 3,
            level0_tables: 2,
            large_value_bytes: self.config.large,
            seals: SealLayout::always(self.config.seals == Seals::Column),
            part_blocks: self.config.part_blocks,
            // Scans that verify every record seek differently from those that do not, so both variants are tested.
            verify_scans: if self.config.seals == Seals::Following { Verify::Sampled(64) } else { Verify::Always },
            ..CfOptions::default()
        }
    }

    pub fn env(&self) -> Env {
        self.opens.set(self.opens.get() + 1);
        self.sim.env(self.seed.wrapping_mul(1_000_003).wrapping_add(self.opens.get()))
    }

    pub fn parts(&self) -> Parts {
        let mut companions: Arc<dyn Companions> = match &self.sealer {
            Some(sealer) => sealer.clone(),
            None => Arc::new(Plain),
        };
        let mut families = vec![("default".to_owned(), self.options("default"))];
        if self.config.events {
            companions = Arc::new(Over(Watching(companions)));
            for (name, number) in events::FAMILIES {
                let options = CfOptions { system: Some(number), ..self.options(name) };
                families.push((name.to_owned(), CfOptions { key_ends_in_seqno: name == events::LOG, ..options }));
            }
        }
        let mut parts = Parts {
            env: self.env(),
            companions,
            listener: self.tally.clone(),
            families,
            filters: Vec::new(),
            orders: vec![backwards()],
            merge_operators: Vec::new(),
            engine_log: None,
            cache: None,
        };
        if self.config.watched {
            parts.companions = Arc::new(Over(Retaining(parts.companions)));
            parts.engine_log = Some(Arc::new(Scribe));
            // Event log entries are never deleted. In tables as small as the users' they would account for most open
            // files.
            let options = self.options(LINES.0);
            let large = CfOptions { table_bytes: 64 * 1024, level_base_bytes: 128 * 1024, ..options };
            let options = CfOptions { system: Some(LINES.1), ..large };
            parts.families.push((LINES.0.to_owned(), options));
        }
        parts
    }

    pub fn open(&mut self) -> Result<()> {
        let parts = self.parts();
        // Finds the directory in which a crash left the store, if it was moved.
        let holds_it = |path: &PathBuf| self.sim.files(path).iter().any(|name| name == "CURRENT");
        self.dir = displaced::PATHS.map(PathBuf::from).into_iter().find(holds_it).unwrap_or_else(|| self.dir.clone());
        self.db = Some(Db::open(&self.dir, self.settings(), parts)?);
        self.opened()
    }

    /// Prepares a store that was just opened.
    fn opened(&mut self) -> Result<()> {
        self.epoch = 0;
        if self.config.events { events::introduce(self.db()) } else { Ok(()) }
    }

    /// Returns the whole content of the store.
    pub fn content(&self) -> Result<Content> {
        content_of(self.db())
    }

    /// Checks that the store agrees with the oracle, key by key.
    pub fn check(&self) {
        let found = match self.content() {
            Ok(found) => found,
            Err(_) if self.sim.is_crashed() => return,
            Err(error) if self.has_lost_values(&error) => return,
            Err(error) => panic!("seed {}: reading: {error}", self.seed),
        };
        if found != *self.oracle.now() {
            panic!("seed {}: content differs\n{}", self.seed, crate::oracle::difference(self.oracle.now(), &found));
        }
        crate::values::check(self.db());
        self.check_watched();
    }

    /// Commits changes as one batch and updates the oracle. After an error, first determines whether the commit took
    /// place; then returns the error.
    pub fn commit(&mut self, changes: Vec<Change>, durability: Durability) -> Result<()> {
        let db = self.db().clone();
        let mut batch = Batch::new();
        for change in &changes {
            match change {
                Change::Put(family, key, value) => {
                    let family = db.family(family).expect("family");
                    let entries = self.entries(value);
                    let entries: Vec<(u16, &[u8])> = entries.iter().map(|(id, entry)| (*id, &entry[..])).collect();
                    match &self.sealer {
                        // Sometimes the caller supplies the seal.
                        Some(sealer) if value.len() % 4 == 1 => {
                            let pending = PendingWrite {
                                family: family.id(),
                                kind: Kind::Put,
                                key,
                                value,
                                key_hash: None,
                                entries: &entries,
                            };
                            sealer.push_sealed(&mut batch, &pending, self.seal(key, value))?;
                        }
                        _ => batch.push_given(family.id(), Kind::Put, key, value, &entries, db.companions())?,
                    }
                    if self.config.events {
                        events::push_row(&db, &mut batch, family.name(), key, value)?;
                    }
                }
                Change::Merge(family, key, operand) => {
                    let family = db.family(family).expect("family");
                    batch.push(family.id(), Kind::Merge, key, operand, db.companions())?;
                }
                Change::Delete(family, key) => {
                    let family = db.family(family).expect("family");
                    batch.push(family.id(), Kind::Delete, key, &[], db.companions())?;
                }
                Change::DeleteRange(family, from, to) => {
                    let family = db.family(family).expect("family");
                    batch.delete_range(family.id(), (from.as_deref(), to.as_deref()), db.companions())?;
                }
                Change::Create(_) | Change::Drop(_) => unreachable!("not in a batch"),
            }
        }
        let outcome = self.commit_by_epoch(&db, &mut batch, durability);
        let told = self.told(&changes);
        let written = changes.clone();
        // An expired value hides earlier versions, and is not visible itself.
        let changes: Vec<Change> = changes
            .into_iter()
            .map(|change| match change {
                Change::Put(family, key, value) if self.is_over(&value) => Change::Delete(family, key),
                change => change,
            })
            .chain(told)
            .collect();
        match outcome {
            Ok(_) if self.sim.is_crashed() => {
                self.forget(&written);
                // The process died in its last store into the mapping, so the call never returned.
                self.oracle.commit(changes);
                Err(Error::closed())
            }
            Ok(last) => {
                // A kill may remove the commit, and rows of events may have seqnos between the operations.
                let is_known = durability != Durability::Buffered && !self.config.events;
                if !is_known {
                    self.forget(&written);
                }
                let first = last + 1 - written.len() as u64;
                for (seqno, change) in (first..).zip(&written).filter(|_| is_known) {
                    match change {
                        Change::Put(family, key, value) => self.history.add(family, key, seqno, Some(value)),
                        Change::Delete(family, key) => self.history.add(family, key, seqno, None),
                        Change::Merge(family, ..) => self.history.forget(family),
                        Change::DeleteRange(family, from, to) => {
                            self.history.add_range(family, from.as_deref(), to.as_deref(), seqno);
                        }
                        Change::Create(_) | Change::Drop(_) => unreachable!("not in a batch"),
                    }
                }
                self.oracle.commit(changes);
                self.oracle.acknowledge();
                if durability == Durability::Sync {
                    self.oracle.sync();
                }
                Ok(())
            }
            Err(error) => {
                self.forget(&written);
                if self.sim.is_crashed() {
                    self.oracle.commit(changes); // may or may not have reached the disk
                } else {
                    self.settle_doubt(changes);
                }
                Err(error)
            }
        }
    }

    /// Commits in one of the four ways; with another configuration epoch, or too early a timestamp, the commit has no
    /// effect.
    fn commit_by_epoch(&mut self, db: &Db, batch: &mut Batch, durability: Durability) -> Result<Seqno> {
        if batch.is_empty() {
            return db.commit(batch, durability);
        }
        let (epoch, mut ordered) = (db.epoch(), Vec::new());
        assert_eq!(epoch as u32, self.epoch, "seed {}: the rules", self.seed);
        let mut note = |seqno: Seqno| ordered.push(seqno);
        match self.random.below(8) {
            0..3 => db.commit(batch, durability),
            3 => {
                let family = db.family("default").expect("always there");
                match db.read_optimistic(&family, b"k1", Verify::Always) {
                    Ok(mut read) => Ok(db.commit_when(batch, durability, &mut read)?.expect("the key is unchanged")),
                    Err(_) => db.commit(batch, durability), // the key may be lost
                }
            }
            4 => {
                let (before, late) = (db.snapshot()?.seqno(), db.last_time().load(Relaxed));
                for other in [before.saturating_sub(1), before + 1] {
                    let under = Precondition::epoch(epoch).unchanged_since(other);
                    if other != before
                        && let Some(last) = db.commit_if(batch, durability, under)?
                    {
                        panic!("seed {}: seqno {last} of a batch behind seqno {other}", self.seed);
                    }
                }
                if late > 0
                    && let Some(last) = db.commit_if(batch, durability, Precondition::epoch(epoch).at_time(late))?
                {
                    panic!("seed {}: seqno {last} at a time that is over", self.seed);
                }
                assert_eq!(
                    (db.snapshot()?.seqno(), db.last_time().load(Relaxed)),
                    (before, late),
                    "seed {}",
                    self.seed
                );
                let time = late + 1 + self.random.below(9);
                let under = Precondition::epoch(epoch).unchanged_since(before);
                let last = db.commit_if(batch, durability, under.at_time(time))?.expect("later than all");
                assert_eq!(db.last_time().load(Relaxed), time, "seed {}: the time", self.seed);
                Ok(last)
            }
            5 => {
                let other = epoch ^ 1 << self.random.below(64);
                let before = db.snapshot()?.seqno();
                if let Some(last) = db.commit_observed(batch, durability, Precondition::epoch(other), &mut note)? {
                    panic!("seed {}: seqno {last} under rules that are not those", self.seed);
                }
                assert_eq!((db.snapshot()?.seqno(), db.epoch()), (before, epoch), "seed {}", self.seed);
                let last = db
                    .commit_observed(batch, durability, Precondition::epoch(epoch), &mut note)?
                    .expect("under the rules as they are");
                assert_eq!(ordered, [last + 1 - batch.len() as u64], "seed {}: what was ordered", self.seed);
                Ok(last)
            }
            _ => {
                let last = Precondition::epoch(epoch).last_of_epoch(epoch as u32 + 1);
                let outcome = db.commit_observed(batch, durability, last, &mut note);
                let outcome = outcome.map(|last| last.expect("no family was dropped meanwhile"));
                // The epoch changes when the batch is ordered, whatever happens to the batch later.
                self.epoch += ordered.len() as u32;
                let expected = (epoch >> 32 << 32) + u64::from(self.epoch);
                assert_eq!(db.epoch(), expected, "seed {}: the rules after {outcome:?}", self.seed);
                outcome
            }
        }
    }

    /// Removes the families of changes with an unknown outcome from the history.
    fn forget(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(family, ..)
                | Change::Merge(family, ..)
                | Change::Delete(family, _)
                | Change::DeleteRange(family, ..) => self.history.forget(family),
                Change::Create(_) | Change::Drop(_) => {}
            }
        }
    }

    /// Returns the oracle's changes for the events of these changes.
    fn told(&self, changes: &[Change]) -> Vec<Change> {
        self.oracle.now().get(EVENTS).map_or_else(Vec::new, |before| events::told(changes, before))
    }

    /// Returns the annotations of a value besides its seal.
    fn entries(&self, value: &[u8]) -> Vec<(u16, Vec<u8>)> {
        if self.sealer.is_some() && self.config.seals == Seals::Entries { beside::entries(value) } else { Vec::new() }
    }

    fn is_over(&self, value: &[u8]) -> bool {
        self.sealer.is_some() && self.config.seals == Seals::Entries && beside::is_over(value)
    }

    /// Returns the expected seal of a value.
    pub fn seal(&self, key: &[u8], value: &[u8]) -> Seal {
        beside::seal(key, value, &self.entries(value))
    }

    /// Returns the expected digest of the family, computed from the oracle.
    pub fn expected_digest(&self, family: &str) -> Digest {
        let mut digest = Digest::default();
        self.oracle.now()[family].iter().for_each(|(key, value)| digest.add(self.seal(key, value)));
        digest
    }

    /// Checks that the digest of every family matches its expected content.
    pub fn check_digests(&self) -> Result<()> {
        for family in users(self.db()) {
            let found = digest(self.db(), &family, &(Bound::Unbounded, Bound::Unbounded), At::Latest)?;
            let name = family.name();
            assert_eq!(found, self.expected_digest(name), "seed {}: the digest of {name}", self.seed);
        }
        Ok(())
    }

    /// Resolves a failed commit: its batch is completely visible or not at all.
    fn settle_doubt(&mut self, changes: Vec<Change>) {
        let found = match self.content() {
            Ok(found) => found,
            Err(_) if self.sim.is_crashed() => return self.oracle.commit(changes),
            // After a failed sync the state of the written pages is unknown. A missing value must be an error, never
            // another value.
            Err(error) if self.has_lost_values(&error) => return self.oracle.doubt(changes),
            Err(error) => panic!("seed {}: reading after an error: {error}", self.seed),
        };
        if found == *self.oracle.now() {
            self.oracle.doubt(changes);
        } else {
            self.oracle.commit(changes);
            assert_eq!(found, *self.oracle.now(), "seed {}: a failed commit left half of itself", self.seed);
        }
    }

    /// Returns true if a value is unreadable because the disk fails, or because the store halted.
    fn has_lost_values(&self, error: &Error) -> bool {
        match (error.kind(), error.damage()) {
            (ErrorKind::Io(_), _) => error.to_string().contains(".val"),
            (_, Some(damage)) => {
                damage.file.ends_with(".val") && self.db().sync().is_err_and(|error| *error.kind() == ErrorKind::Halted)
            }
            _ => false,
        }
    }

    pub fn create_family(&mut self, name: &str) -> Result<()> {
        let options = self.options(name);
        let outcome = self.db().create_family(name, options);
        self.family_change(outcome.map(|_| ()), Change::Create(name.to_owned()))
    }

    pub fn drop_family(&mut self, name: &str) -> Result<()> {
        let events = self.config.events;
        let epoch = self.db().epoch();
        let rows = &mut |seqno| if events { events::farewell(name, seqno) } else { Vec::new() };
        let outcome = self.db().drop_family_with(name, rows);
        assert!(
            outcome.is_err() || self.db().epoch() != epoch,
            "seed {}: {name} is gone, and no rule changed",
            self.seed
        );
        self.family_change(outcome, Change::Drop(name.to_owned()))
    }

    fn family_change(&mut self, outcome: Result<()>, change: Change) -> Result<()> {
        if let Change::Drop(family) = &change {
            self.history.forget(family);
        }
        let told = self.told(std::slice::from_ref(&change));
        let changes: Vec<Change> = told.into_iter().chain([change]).collect();
        match outcome {
            Ok(()) => {
                self.oracle.commit(changes);
                self.oracle.sync(); // I15
                Ok(())
            }
            Err(error) => {
                if self.sim.is_crashed() {
                    self.oracle.commit(changes);
                }
                Err(error)
            }
        }
    }

    /// Adds the counters of the open store to the tally.
    pub fn count_store(&self) {
        if let Some(db) = &self.db {
            let metrics = db.metrics();
            self.tally.add("segment begun", metrics.wal.turnovers);
            self.tally.add("segment recycled", metrics.wal.recycled);
            self.tally.add("manifest rotated", metrics.manifest_rotations);
            self.tally.add("writer held back", metrics.stalls);
            self.tally.add("wait for room in the ring", metrics.wal.waits_for_room);
        }
    }

    /// Ends this boot, so that the store's pending work is lost, and begins the next one.
    pub fn kill(&mut self, crash: Crash) {
        if !self.sim.is_crashed() {
            self.sim.crash_at(self.sim.steps());
        }
        self.count_store();
        self.db = None; // calls made by the drop fail
        self.sim.reboot(crash);
        self.sim.crash_at(self.plan);
    }

    /// Kills and reopens the store after a failed sync. Pages that were never synced may be lost even under the same
    /// kernel. No other copy exists of data outside the ring (plain mode, large frames). The store reports such a loss,
    /// and opens only if told to accept it.
    pub fn crash_after_failed_sync(&mut self) {
        self.kill(Crash::Process);
        match self.open() {
            Ok(()) => {
                // Without a boot id, lost pages cannot be proven; the report shows that commits are missing.
                let missing = self.db().recovery().acknowledged_bytes_missing;
                let given_up = self.give_up_lost_values();
                self.check_recovered(missing > 0 || given_up);
            }
            Err(error) => {
                assert!(error.is_corruption(), "seed {}: refused: {error}", self.seed);
                self.open_with_loss();
                self.check_recovered(true);
            }
        }
    }

    /// Opens although commits are missing; the store reports them.
    pub fn open_with_loss(&mut self) {
        self.tally.add("loss accepted after a failed sync", 1);
        let settings = Settings { accept_loss: true, ..self.settings() };
        let db = Db::open(&self.dir, settings, self.parts());
        self.db = Some(db.unwrap_or_else(|error| panic!("seed {}: with accept_loss: {error}", self.seed)));
        self.opened().unwrap_or_else(|error| panic!("seed {}: with accept_loss: {error}", self.seed));
        let report = self.db().recovery();
        let is_told = report.cut_bytes > 0 || report.acknowledged_bytes_missing > 0 || report.lost_values > 0;
        assert!(is_told, "lost in silence: {report:?}");
        self.give_up_lost_values();
    }

    /// Deletes values that the log pointed to and a failed sync lost. Reads of their keys return corruption, or a later
    /// value. Their lost ranges are removed, and the oracle continues without them.
    pub fn give_up_lost_values(&mut self) -> bool {
        let (db, mut any) = (self.db().clone(), false);
        for family in db.families() {
            let is_value =
                |lost_range: &LostRange| lost_range.from == lost_range.to && lost_range.file.ends_with(".val");
            let lost = db.lost_ranges(&family).into_iter().filter(|(_, lost_range)| is_value(lost_range));
            for (number, lost_range) in lost.collect::<Vec<_>>() {
                any = true;
                self.tally.add("value of the log lost", 1);
                let key = &lost_range.from.0;
                if let Err(error) = db.get(&family, key, At::Latest, &mut |_| {}) {
                    assert!(error.is_corruption(), "seed {}: {error}", self.seed);
                    let mut batch = Batch::new();
                    batch.push(family.id(), Kind::Delete, key, &[], db.companions()).expect("a delete");
                    let deleted = db.commit(&mut batch, Durability::Sync); // the oracle expects it after a crash
                    assert!(deleted.is_ok() || self.sim.is_crashed(), "seed {}: {deleted:?}", self.seed);
                }
                let lifted = db.lift_lost_ranges(&family, &[number]);
                assert!(lifted.is_ok() || self.sim.is_crashed(), "seed {}: {lifted:?}", self.seed);
            }
        }
        if let (true, Ok(content)) = (any, self.content()) {
            self.oracle.adopt(content);
        }
        any
    }

    /// Kills and reopens the store; its content must be a prefix of the commits that contains all required ones.
    pub fn crash(&mut self, crash: Crash) {
        self.kill(crash);
        self.recover(!matches!(crash, Crash::Process));
    }

    pub fn recover(&mut self, machine: bool) {
        if let Err(error) = self.open() {
            panic!("seed {}, {}: an honest store is refused: {error}", self.seed, self.config.name);
        }
        self.check_recovered(machine);
    }

    pub fn check_recovered(&mut self, machine: bool) {
        let found = match self.content() {
            Ok(found) => found,
            Err(_) if self.sim.is_crashed() => return,
            Err(error) => panic!("seed {}: reading after recovery: {error}", self.seed),
        };
        if let Err(what) = self.oracle.recovered(found, machine) {
            let report = self.db().recovery();
            panic!("seed {}, {}: {what}\n{report:?}", self.seed, self.config.name);
        }
        self.check_lost_ranges();
        if machine {
            self.history = History::default(); // seqnos do not tell which versions are lost
        }
        self.check_watched();
        if self.sealer.is_some()
            && self.lost_ranges == Some(0)
            && let Err(error) = self.check_digests()
        {
            assert!(self.sim.is_crashed(), "seed {}: the digest after recovery: {error}", self.seed);
        }
    }

    /// Checks that the engine's jobs are recorded, and that retained versions exist.
    fn check_watched(&self) {
        if !self.config.watched {
            return;
        }
        let at = format!("seed {}, {}", self.seed, self.config.name);
        let is_over = |value: &[u8]| self.is_over(value);
        let checked = self.history.check(self.db(), 40, &at, &is_over);
        let outcome = self.told.borrow_mut().check(self.db(), &at).and(checked);
        match outcome {
            Ok(checked) => self.tally.add("retained version checked", checked),
            Err(error) => assert!(self.sim.is_crashed(), "{at}: {error}"),
        }
    }

    /// Checks that the lost ranges of an edit exist all or not at all, and that reads respect them.
    fn check_lost_ranges(&self) {
        let family = self.db().family("default").expect("the default family");
        let found = self.db().lost_ranges(&family).len();
        assert!(self.lost_ranges.map_or(found == 0 || found == 2, |expected| found == expected), "{found} fences");
        let answer = self.db().get(&family, FENCED, At::Latest, &mut |_| {});
        assert!(answer.is_err() == (found > 0) || self.sim.is_crashed(), "{found} fences, and {answer:?}");
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.random.one_in(n)
    }

    /// Returns a key from a small set: some empty, some long, many with a common prefix.
    pub fn key(&self) -> Vec<u8> {
        match self.below(40) {
            0 => Vec::new(),
            1 => vec![0xff; self.below(4) as usize],
            2 => vec![b'L'; 300 + self.below(3) as usize],
            n if n < 10 => vec![n as u8, 0, self.below(4) as u8],
            _ => format!("user{:03}", self.below(if self.config.bottom.is_some() { 400 } else { 60 })).into_bytes(),
        }
    }

    /// Returns a value: mostly short, sometimes empty, rarely larger than a quarter of the ring or of a segment.
    pub fn value(&self) -> Vec<u8> {
        if self.config.bottom.is_some() && !self.one_in(8) {
            return alike(self.below(1 << 40));
        }
        let length = match self.below(400) {
            0 => 9_000 + self.below(4000),
            1..4 => 4_000 + self.below(400),
            4..20 => 0,
            20..60 => 200 + self.below(400),
            _ => self.below(40),
        };
        let seed = self.below(1 << 20) as u32;
        (0..length).map(|i| if i % 8 < 4 { b'.' } else { (seed >> (i % 24)) as u8 }).collect()
    }

    /// Returns a range delete: mostly of few keys, sometimes of any, rarely without a start or an end.
    pub fn range_delete(&self) -> Change {
        let family = self.family_name();
        let (mut from, mut to) = (self.key(), self.key());
        if !self.one_in(4) {
            let first = self.below(if self.config.bottom.is_some() { 400 } else { 60 });
            [from, to] = [first, first + self.below(7)].map(|n| format!("user{n:03}").into_bytes());
        }
        if order_of(&family).compare(&from, &to).is_gt() {
            (from, to) = (to, from);
        }
        let [has_start, has_end] = [(); 2].map(|()| !self.one_in(16));
        Change::DeleteRange(family, has_start.then_some(from), has_end.then_some(to))
    }

    /// Returns the name of an existing family.
    pub fn family_name(&self) -> String {
        let names: Vec<&String> = self.oracle.now().keys().filter(|name| *name != EVENTS).collect();
        names[self.below(names.len() as u64) as usize].clone()
    }
}

/// Returns a value that resembles others of its kind but has little internal repetition; every eighth one is large.
pub fn alike(word: u64) -> Vec<u8> {
    let (number, city, street) = (word >> 3, word % 97, word / 97 % 89);
    let notes = if word.is_multiple_of(8) {
        format!(",\"notes\":\"{:064x}{:064x}\"", number * 7, number * 11)
    } else {
        String::new()
    };
    format!("{{\"id\":{number},\"city\":\"city number {city}\",\"street\":\"street number {street}\"{notes}}}")
        .into_bytes()
}

/// Copies a family's records into another family through an export, as one commit, and updates the oracle.
pub fn exchange(world: &mut World, from: &str, to: &str) -> Result<()> {
    let dir = PathBuf::from("/exchange");
    for name in world.sim.files(&dir) {
        world.sim.delete(dir.join(name)).expect("clearing an old export");
    }
    let family = |name: &str| world.db().family(name).expect("family");
    let policy = match world.sealer {
        Some(_) => Policy::Companion { allow: vec![EXPIRY, LABELS] },
        None => Policy::Strip,
    };
    let env = world.env();
    export(world.db(), &family(from), &env, &dir, &ExportRequest { policy, ..ExportRequest::default() })?;
    let outcome = import(world.db(), &family(to), &env, &dir);
    world.history.forget(to);
    let rows = world.oracle.now()[from].clone();
    let changes: Vec<Change> = rows.into_iter().map(|(key, value)| Change::Put(to.to_owned(), key, value)).collect();
    if outcome.is_ok() || world.sim.is_crashed() {
        world.oracle.commit(changes); // otherwise no record was changed
    }
    if outcome.is_ok() && !world.sim.is_crashed() {
        world.oracle.sync();
    }
    outcome.map(drop)
}

/// Writes table files for one or two families outside of the store, ingests them as one commit, and updates the oracle.
pub fn ingest_tables(world: &mut World) -> Result<()> {
    let dir = PathBuf::from("/ingest");
    world.env().fs.create_dir_all(&dir).map_err(|error| Error::io("a directory", error))?;
    for name in world.sim.files(&dir) {
        world.sim.delete(dir.join(name)).expect("clearing old files");
    }
    let names = BTreeSet::from([world.family_name(), world.family_name()]);
    let (mut changes, mut files) = (Vec::new(), Vec::new());
    for name in &names {
        let family = world.db().family(name).expect("family");
        let (path, order) = (dir.join(name), order_of(name));
        let mut keys: Vec<_> = (0..1 + world.below(12)).map(|_| world.key()).collect();
        keys.sort_by(|a, b| order.compare(a, b));
        keys.dedup();
        let mut writer = world.db().table_writer(&family, &path)?;
        for key in keys {
            if world.one_in(5) {
                writer.push(Kind::Delete, &key, &[], &[])?;
                changes.push(Change::Delete(name.clone(), key));
                continue;
            }
            let value = world.value();
            let entries = world.entries(&value);
            let entries: Vec<(u16, &[u8])> = entries.iter().map(|(id, entry)| (*id, &entry[..])).collect();
            writer.push(Kind::Put, &key, &value, &entries)?;
            changes.push(match world.is_over(&value) {
                true => Change::Delete(name.clone(), key),
                false => Change::Put(name.clone(), key, value),
            });
        }
        writer.finish()?;
        files.push((family, [path]));
    }
    let asked: Vec<(&Family, &[PathBuf])> = files.iter().map(|(family, paths)| (family, &paths[..])).collect();
    let mode = if world.one_in(2) { IngestMode::Move } else { IngestMode::Copy };
    let outcome = world.db().ingest_tables(&asked, mode);
    names.iter().for_each(|name| world.history.forget(name));
    if outcome.is_ok() || world.sim.is_crashed() {
        world.oracle.commit(changes); // otherwise no record was changed
    }
    if outcome.is_ok() && !world.sim.is_crashed() {
        world.oracle.sync();
    }
    outcome.map(drop)
}

/// Returns the families that users write.
pub fn users(db: &Db) -> Vec<Family> {
    db.families().into_iter().filter(|family| family.system().is_none()).collect()
}

pub fn content_of(db: &Db) -> Result<Content> {
    let mut content = Content::new();
    for family in db.families() {
        let name = family.name().to_owned();
        match family.system() {
            None => drop(content.insert(name, rows_of(db, &family, At::Latest)?)),
            Some(_) if name == events::LOG => drop(content.insert(EVENTS.into(), events::events_of(db, &family)?)),
            Some(_) => {}
        }
    }
    Ok(content)
}

pub fn rows_of(db: &Db, family: &Family, at: At<'_>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut rows = BTreeMap::new();
    let mut cursor = db.cursor(family, at, (Bound::Unbounded, Bound::Unbounded))?;
    let mut outcome = cursor.first();
    loop {
        match outcome {
            Err(error) if is_nothing_lost(&error) => {
                outcome = cursor.next();
                continue;
            }
            outcome => outcome?,
        }
        if !cursor.valid() {
            return Ok(rows);
        }
        let before = rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
        assert!(before.is_none(), "a key twice in a scan: {:?}", cursor.key());
        outcome = cursor.next();
    }
}

/// Returns true for the sweep's artificial lost ranges, which contain no records. An unreadable value in such a range
/// is another error.
fn is_nothing_lost(error: &Error) -> bool {
    let fenced = error.damage().filter(|damage| !damage.file.ends_with(".val"));
    let range = fenced.and_then(|damage| damage.key_range.as_ref());
    range.is_some_and(|(from, _)| &from[..] >= FENCED && from.len() == 2)
}

/// Returns true for errors that a full or failing disk may cause.
pub fn is_honest(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io(_) | ErrorKind::Halted | ErrorKind::ReadOnly)
}
