//! Forged records: damage that no block checksum detects, because it occurred before the block was built. A careless
//! record protector lets them into tables. A careful one then opens the store; it must not return them, nor an older
//! version, nor treat them as correct.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Listener, Parts, Silent};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings, Verify};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Plain, Protection};
use waxseal_meta::builtin::{Expiry, standard};
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::{Sealer, annotations};

use crate::hurt::read_all;
use crate::oracle::Content;

const DIR: &str = "/store";

/// The forgery that the careless protector writes.
#[derive(Clone, Copy)]
enum Forgery {
    /// The seal of another value.
    Value,
    /// The seal of another key.
    Key,
    /// No seal, although the protector promises one.
    Missing,
    /// The seal of a record that expires later.
    Expiry,
}

/// Seals correctly except for keys that begin with `x`, and accepts every record.
struct Careless {
    right: Sealer,
    forgery: Forgery,
}

impl Companions for Careless {
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()> {
        if !pending.key.starts_with(b"x") {
            return self.right.on_write(pending, out);
        }
        match self.forgery {
            Forgery::Value => self.right.on_write(&PendingWrite { value: b"another", ..*pending }, out),
            Forgery::Key => self.right.on_write(&PendingWrite { key: b"x another", key_hash: None, ..*pending }, out),
            Forgery::Missing => Ok(()),
            Forgery::Expiry => {
                let (mut later, mut given) = (Vec::new(), Vec::new());
                self.right
                    .on_write(&PendingWrite { entries: &[(EXPIRY, &Expiry::at(u64::MAX))], ..*pending }, &mut later)?;
                self.right.on_write(&PendingWrite { entries: &[(EXPIRY, &Expiry::at(1))], ..*pending }, &mut given)?;
                out.extend_from_slice(&later[..annotations::SEAL_BYTES]);
                out.extend_from_slice(&given[annotations::SEAL_BYTES..]);
                Ok(())
            }
        }
    }
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        self.right.bind(companion, old, new);
    }
    fn verify(&self, _: &Record<'_>, _: u64, _: Protection) -> Check {
        Check::Validated
    }
    fn term(&self, record: &Record<'_>) -> u64 {
        self.right.term(record)
    }
    fn protection(&self) -> Protection {
        Protection::Complete
    }
    fn algorithm(&self) -> u64 {
        self.right.algorithm()
    }
    fn descriptors(&self) -> Vec<u8> {
        self.right.descriptors()
    }
}

struct Store {
    sim: SimFs,
    db: Db,
    family: Family,
}

impl Store {
    fn open(sim: &SimFs, protector: Arc<dyn Companions>, listener: Arc<dyn Listener>) -> Store {
        let options = CfOptions {
            compression: Compression::None,
            level0_tables: 64,
            filter_bits: 0, // a filter would exclude damaged keys
            verify_reads: Verify::Always,
            ..CfOptions::default()
        };
        let families = vec![("default".to_owned(), options)];
        let parts = Parts {
            env: sim.env(sim.steps()),
            companions: protector,
            listener,
            families,
            orders: Vec::new(),
            engine_log: None,
            cache: None,
        };
        let settings =
            Settings { segment_bytes: 64 * 1024, ring_bytes: 16 * 1024, drain_bytes: 4096, ..Settings::default() };
        let db = Db::open(Path::new(DIR), settings, parts).expect("the store");
        let family = db.family("default").expect("the default family");
        Store { sim: sim.clone(), db, family }
    }

    fn careless(forgery: Forgery) -> Store {
        let right = Sealer::new().with(standard());
        Store::open(&SimFs::new(5), Arc::new(Careless { right, forgery }), Arc::new(Silent))
    }

    /// Closes the store, and opens it with a careful protector.
    fn careful(self) -> Store {
        self.db.close().expect("close");
        drop(self.db);
        Store::open(&self.sim, Arc::new(Sealer::new().with(standard())), Arc::new(Silent))
    }

    /// Writes two tables for a compaction to merge, one of them with the forged record.
    fn filled(self) -> Store {
        for keys in [["a", "x", "z"], ["b", "c", "y"]] {
            keys.iter().for_each(|key| self.put(key, "right"));
            self.db.flush().expect("flush");
        }
        self
    }

    fn put(&self, key: &str, value: &str) {
        let mut batch = Batch::new();
        batch.push(self.family.id(), Kind::Put, key.as_bytes(), value.as_bytes(), self.db.companions()).expect("put");
        self.db.commit(&mut batch, Durability::Os).expect("commit");
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.db.get(&self.family, key.as_bytes(), At::Latest, &mut |record| found = Some(record.value.to_vec()))?;
        Ok(found)
    }

    fn compact(&self) {
        self.db.compact(&self.family, &(Bound::Unbounded, Bound::Unbounded)).expect("compaction");
    }

    /// Checks that the forged key is an error, by key and with a cursor, and that all other keys are readable.
    fn check(&self, forged: &str, others: &[&str]) {
        for _ in 0..2 {
            for key in others {
                assert_eq!(self.get(key).expect("a right one"), Some(b"right".to_vec()), "{key}");
            }
            let answer = self.get(forged);
            assert!(answer.as_ref().is_err_and(waxseal_lsm::error::Error::is_corruption), "{forged}: {answer:?}");
        }
    }
}

fn seal_of_another_value() {
    let store = Store::careless(Forgery::Value).filled().careful();
    store.check("x", &["a", "z"]);
    store.compact();
    store.check("x", &["a", "z"]);
}

/// A correct older version is in a table below.
fn older_version_beneath() {
    let first = Store::open(&SimFs::new(5), Arc::new(Sealer::new().with(standard())), Arc::new(Silent));
    first.put("x", "old");
    first.put("a", "right");
    first.put("z", "right");
    first.db.flush().expect("flush");
    first.db.close().expect("close");
    drop(first.db);
    let right = Sealer::new().with(standard());
    let store = Store::open(&first.sim, Arc::new(Careless { right, forgery: Forgery::Value }), Arc::new(Silent));
    store.put("x", "new");
    store.db.flush().expect("flush");
    let store = store.careful();
    store.check("x", &["a", "z"]);
    let mut cursor = store
        .db
        .cursor_checked(&store.family, At::Latest, (Bound::Unbounded, Bound::Unbounded), Verify::Always)
        .expect("cursor");
    let mut outcome = cursor.first();
    let mut errors = 0;
    loop {
        match outcome {
            Err(_) => errors += 1,
            Ok(()) if !cursor.valid() => break,
            Ok(()) => assert_ne!(cursor.value(), b"old", "an older version in the place of a damaged one"),
        }
        outcome = cursor.next();
    }
    assert_eq!(errors, 1);
    store.compact();
    store.check("x", &["a", "z"]);
}

/// The record stored as `x1` was sealed as `x another`, so the absence of `x another` cannot be proven.
fn seal_of_another_key() {
    let store = Store::careless(Forgery::Key);
    for key in ["a", "x1", "z"] {
        store.put(key, "right");
    }
    store.db.flush().expect("flush");
    let store = store.careful();
    store.get("a").expect("the block is in memory now");
    store.check("x another", &["a", "z"]);
    store.check("x1", &["a", "z"]);
    store.check("x another", &["a", "z"]);
}

fn seal_that_is_missing() {
    let store = Store::careless(Forgery::Missing).filled().careful();
    store.check("x", &["a", "z"]);
    store.compact();
    store.check("x", &["a", "z"]);
}

fn time_that_was_hit() {
    let store = Store::careless(Forgery::Expiry).filled().careful();
    store.sim.clock().advance_nanos(1_000_000_000);
    store.compact(); // the first verification
    store.check("x", &["a", "z"]);
}

/// Records without seals come from a plain node: they are sealed, and marked as unverified before that.
fn adopted_ones_are_marked() {
    let store = Store::open(&SimFs::new(5), Arc::new(Plain), Arc::new(Silent));
    store.put("a", "right");
    store.put("d", "right");
    store.db.flush().expect("flush");
    let store = store.careful();
    store.put("c", "right");
    store.compact();
    for (key, is_adopted) in [("a", true), ("c", false)] {
        let mut found = None;
        store
            .db
            .get(&store.family, key.as_bytes(), At::Latest, &mut |record| {
                found = Some((Sealer::is_adopted(record), Sealer::seal_of(record).expect("companions").is_some()));
            })
            .expect("get");
        assert_eq!(found, Some((is_adopted, true)), "{key}");
    }
}

/// Three flipped bits sometimes have the checksum of two others; only the seals reveal a wrong correction.
fn corrections_are_confirmed() {
    let store = Store::open(&SimFs::new(5), Arc::new(Sealer::new()), Arc::new(Silent));
    let mut content = Content::new();
    let rows = content.entry("default".to_owned()).or_default();
    for n in 0..40 {
        let (key, value) = (format!("key {n:04}"), format!("{n:0>80}"));
        store.put(&key, &value);
        rows.insert(key.into_bytes(), value.into_bytes());
    }
    store.db.flush().expect("flush");
    let name = store.db.tables(&store.family).expect("tables")[0].name();
    store.db.close().expect("close");
    drop(store.db);
    let random = waxseal_lsm::env::SeededRandom::new(3);
    for trial in 0..60 {
        let hurt = store.sim.fork();
        for _ in 0..3 {
            hurt.flip(Path::new(DIR).join(&name), 64 * 8 + random.below(3_600 * 8)).expect("flip");
        }
        let store = Store::open(&hurt, Arc::new(Sealer::new()), Arc::new(Silent));
        read_all(&store.db, &content, &format!("trial {trial}"));
    }
}

/// All checks of this file.
pub const ALL: [fn(); 7] = [
    seal_of_another_value,
    older_version_beneath,
    seal_of_another_key,
    seal_that_is_missing,
    time_that_was_hit,
    adopted_ones_are_marked,
    corrections_are_confirmed,
];

#[test]
fn forged_records_are_neither_given_out_nor_made_right() {
    ALL.iter().for_each(|check| check());
}
