//! Stores with expiring records, under a clock that is moved forward and back. Every read is compared with a model, at
//! the store's time and at the time of each live snapshot and cursor.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, CursorBounds, Db, Family, Parts, Snapshot};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Random, SeededRandom};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Companions, PendingWrite};
use waxseal_lsm::version::TableMeta;
use waxseal_meta::Sealer;
use waxseal_meta::builtin::{Expiry, standard};
use waxseal_meta::provider::EXPIRY;

const DIR: &str = "/store";
const EVERYTHING: CursorBounds = (Bound::Unbounded, Bound::Unbounded);
/// Upper bound of the keys, which are numbers.
const KEYS: u64 = 240;
const SECOND: u64 = 1_000_000;

/// Values by key, each with its expiry.
type Content = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the rows of a content that a reader sees at a time.
fn visible(content: &Content, micros: u64) -> Rows {
    let alive = content.iter().filter(|(_, (_, expiry))| expiry.is_none_or(|expiry| expiry > micros));
    alive.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
}

/// Returns the rows of a cursor in one direction.
fn walk(cursor: &mut UserCursor, forward: bool) -> Rows {
    let mut rows = Vec::new();
    if forward { cursor.first() } else { cursor.last() }.expect("a cursor");
    while cursor.valid() {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        if forward { cursor.next() } else { cursor.prev() }.expect("a step");
    }
    if !forward {
        rows.reverse();
    }
    rows
}

/// A view held during later operations, and its expected rows.
enum Held {
    Snapshot(Snapshot, Rows),
    Cursor(Box<UserCursor>, Rows),
}

struct Walk {
    sim: SimFs,
    random: SeededRandom,
    db: Option<Db>,
    opens: u64,
    content: Content,
    held: Vec<Held>,
    /// The latest expiry that a read found to have passed: no later read may see such a record again.
    judged: u64,
    written: u64,
}

impl Walk {
    fn new(seed: u64) -> Walk {
        let (sim, random) = (SimFs::new(seed), SeededRandom::new(seed));
        sim.clock().advance_nanos(1_000_000 * SECOND * 1000);
        let (content, held) = (Content::new(), Vec::new());
        let mut walk = Walk { sim, random, db: None, opens: 0, content, held, judged: 0, written: 0 };
        walk.open();
        walk
    }

    fn open(&mut self) {
        self.opens += 1;
        let options = CfOptions {
            block_bytes: 256,
            table_bytes: 2048,
            level_base_bytes: 4096,
            fanout: 3,
            level0_tables: 2,
            large_value_bytes: 90,
            ..CfOptions::default()
        };
        let settings = Settings { memtable_bytes: 1 << 16, durability: Durability::Sync, ..Settings::default() };
        let companions: Arc<dyn Companions> = Arc::new(Sealer::new().with(standard()));
        let families = vec![("default".to_owned(), options)];
        let parts = Parts { env: self.sim.env(self.opens), companions, families, ..Parts::real() };
        self.db = Some(Db::open(Path::new(DIR), settings, parts).expect("open"));
        self.judged = 0;
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn family(&self) -> Family {
        self.db().family("default").expect("always there")
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// Returns the store's time.
    fn now(&self) -> u64 {
        let now = self.db().expiry_micros();
        assert!(now >= self.judged, "what expired at {} is back at {now}", self.judged);
        now
    }

    /// Puts a run of neighboring keys; all, some or none of them expire soon.
    fn put(&mut self) {
        let (from, count, kind) = (self.below(KEYS), 1 + self.below(40), self.below(5));
        let now = self.now();
        let mut batch = Batch::new();
        for n in from..(from + count).min(KEYS) {
            self.written += 1;
            let expires = match kind {
                0 => false,
                1 => self.below(2) == 0,
                _ => true,
            };
            let far = if self.below(20) == 0 { 1_000_000 * SECOND } else { 20 * SECOND };
            let expiry = expires.then(|| now + 1 + self.random.next_u64() % far);
            let length = 10 + self.below(if n % 17 == 0 { 200 } else { 60 }) as usize;
            let (key, mut value) = (format!("{n:04}").into_bytes(), format!("{}.", self.written).into_bytes());
            value.resize(length.max(value.len()), b'v');
            let bytes = expiry.map(Expiry::at);
            let entries: Vec<(u16, &[u8])> = bytes.iter().map(|bytes| (EXPIRY, &bytes[..])).collect();
            let pending = PendingWrite {
                family: 0,
                kind: Kind::Put,
                key: &key,
                value: &value,
                key_hash: None,
                entries: &entries,
            };
            batch.push_pending(&mut { pending }, self.db().companions()).expect("a batch");
            self.content.insert(key, (value, expiry));
        }
        self.db().commit(&mut batch, Durability::Sync).expect("commit");
    }

    fn delete(&mut self) {
        let (from, count) = (self.below(KEYS), 1 + self.below(10));
        let mut batch = Batch::new();
        for n in from..(from + count).min(KEYS) {
            let key = format!("{n:04}").into_bytes();
            batch.push(0, Kind::Delete, &key, b"", self.db().companions()).expect("a batch");
            self.content.remove(&key);
        }
        self.db().commit(&mut batch, Durability::Sync).expect("commit");
    }

    /// Takes a view, or releases one.
    fn hold(&mut self) {
        if self.held.len() > 3 || !self.held.is_empty() && self.below(2) == 0 {
            let at = self.below(self.held.len() as u64) as usize;
            self.held.swap_remove(at);
            return;
        }
        let now = self.now();
        let held = match self.below(3) {
            0 => {
                let cursor = self.db().cursor(&self.family(), At::Latest, EVERYTHING).expect("a cursor");
                Held::Cursor(Box::new(cursor), visible(&self.content, now))
            }
            kind => {
                let db = self.db();
                let snapshot = if kind == 1 { db.snapshot() } else { db.durable_snapshot() }.expect("a snapshot");
                let micros = snapshot.micros();
                let rows = visible(&self.content, micros);
                self.judged = self.judged.max(micros);
                Held::Snapshot(snapshot, rows)
            }
        };
        self.held.push(held);
    }

    /// Closes or crashes the store, and reopens it. The clock may be set back meanwhile.
    fn reopen(&mut self) {
        self.held.clear();
        if self.below(2) == 0 {
            self.db().close().expect("close");
        }
        self.db = None;
        let crash = if self.below(2) == 0 { Crash::Process } else { Crash::Machine(Loss::DurableOnly) };
        self.sim.reboot(crash);
        if self.below(2) == 0 {
            let micros = self.below(30) * SECOND;
            self.sim.clock().step_back_micros(micros);
        }
        self.open();
    }

    /// Compares every read in every view with the model.
    fn check(&mut self) {
        let now = self.now();
        let (db, family) = (self.db.as_ref().expect("open").clone(), self.family());
        let rows = visible(&self.content, now);
        let at = |walk: &Walk, what: &str| format!("{what} after {} records, {} opens", walk.written, walk.opens);
        for forward in [true, false] {
            let mut cursor = db.cursor(&family, At::Latest, EVERYTHING).expect("a cursor");
            assert_eq!(walk(&mut cursor, forward), rows, "{}", at(self, "a scan"));
        }
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|n| format!("{n:04}").into_bytes()).collect();
        let found = |view: At<'_>| -> Rows {
            let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let (mut one_by_one, mut together) = (Rows::new(), Rows::new());
            for key in &borrowed {
                let mut see = |record: &Record<'_>| one_by_one.push((record.key.to_vec(), record.value.to_vec()));
                db.get(&family, key, view, &mut see).expect("a read");
            }
            db.multi_get(&family, &borrowed, view, &mut |_, record| {
                together.push((record.key.to_vec(), record.value.to_vec()));
            })
            .expect("reads");
            assert_eq!(one_by_one, together);
            one_by_one
        };
        assert_eq!(found(At::Latest), rows, "{}", at(self, "reads"));
        let mut held = std::mem::take(&mut self.held);
        for view in &mut held {
            match view {
                Held::Snapshot(snapshot, rows) => {
                    let view = At::Snapshot(snapshot);
                    let mut cursor = db.cursor(&family, view, EVERYTHING).expect("a cursor");
                    assert_eq!(walk(&mut cursor, true), *rows, "{}", at(self, "a scan of a snapshot"));
                    assert_eq!(found(view), *rows, "{}", at(self, "reads of a snapshot"));
                }
                Held::Cursor(cursor, rows) => {
                    assert_eq!(walk(cursor, true), *rows, "{}", at(self, "an old cursor"));
                    assert_eq!(walk(cursor, false), *rows, "{}", at(self, "an old cursor, backwards"));
                }
            }
        }
        self.held = held;
        let passed = self.content.values().filter_map(|(_, expiry)| expiry.filter(|expiry| *expiry <= now));
        self.judged = passed.fold(self.judged, u64::max);
        self.now();
    }

    fn operation(&mut self) {
        match self.below(22) {
            0..6 => self.put(),
            6 => self.delete(),
            7..10 => {
                let micros = self.below(8) * SECOND;
                self.sim.clock().advance_nanos(micros * 1000);
            }
            10 => {
                let micros = self.below(12) * SECOND;
                self.sim.clock().step_back_micros(micros);
            }
            11..13 => self.hold(),
            13..16 => self.db().flush_ordered(&self.family()).expect("flush"),
            16..19 => drop(self.db().step().expect("a step")),
            19 => self.db().settle().expect("settle"),
            20 => self.db().compact(&self.family(), &EVERYTHING).expect("compact"),
            _ if self.below(3) == 0 => self.reopen(),
            _ => {}
        }
    }

    /// Checks that no expired record remains once no view sees it.
    fn end(mut self, how: u64) {
        self.held.clear();
        self.sim.clock().advance_nanos(60 * SECOND * 1000);
        self.db().flush_ordered(&self.family()).expect("flush");
        let family = self.family();
        match how {
            0 => self.db().settle().expect("settle"),
            1 => self.db().compact(&family, &EVERYTHING).expect("compact"),
            _ => {
                self.db().settle().expect("settle");
                self.db().compact(&family, &EVERYTHING).expect("compact");
            }
        }
        self.check();
        let now = self.now();
        let alive = visible(&self.content, now).len() as u64;
        let tables = self.db().tables(&family).expect("tables");
        let puts: u64 = tables.iter().map(|table| table.meta().ledger.puts.count).sum();
        let metas: Vec<_> = tables.iter().map(|table| table.meta()).collect();
        let over: Vec<_> = metas.iter().filter(|meta| meta.expiry.is_some_and(|of| of.least <= now)).collect();
        if how > 0 {
            assert_eq!((puts, over.len()), (alive, 0), "records that nobody sees are left");
        }
        // A settled store may hold newer versions above expired records, or older ones below.
        for meta in over {
            let meets = |other: &TableMeta| {
                other.number != meta.number && other.smallest <= meta.largest && meta.smallest <= other.largest
            };
            assert!(metas.iter().any(|other| meets(other)), "a table by itself holds what has expired: {meta:?}");
        }
        self.db().close().expect("close");
    }
}

/// Runs one random walk from a seed.
pub fn walk_of(seed: u64) {
    let mut walk = Walk::new(seed);
    for n in 0..160 {
        walk.operation();
        if n % 4 == 0 {
            walk.check();
        }
    }
    walk.check();
    walk.end(seed % 3);
}

#[test]
fn every_view_sees_what_had_not_expired_at_its_time() {
    for seed in 0..36 {
        walk_of(seed);
    }
}

/// Returns true if a walk fails.
#[cfg(feature = "planted")]
pub fn is_found() -> bool {
    (0..60).any(|seed| std::panic::catch_unwind(|| walk_of(seed)).is_err())
}
