//! Forged records: damage that no block checksum detects, because it occurred before the block was built. A careless
//! record protector lets them into tables. A careful one then opens the store; it must not return them, nor an older
//! version, nor treat them as correct.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::db::{At, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Compression, Settings, Verify};
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Plain, Protection};
use waxseal_meta::builtin::{Expiry, standard};
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::{Sealer, annotations};
use waxseal_testing::harness::{DIR, Store, parts};
use waxseal_testing::store;

use crate::hurt::read_all;
use crate::oracle::Content;

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

fn open(sim: &SimFs, protector: Arc<dyn Companions>) -> Store {
    open_with(sim, protector, Settings::default().cache_bytes)
}

fn open_with(sim: &SimFs, protector: Arc<dyn Companions>, cache_bytes: usize) -> Store {
    let options = CfOptions {
        compression: Compression::None,
        level0_tables: 64,
        filter_bits: 0, // a filter would exclude damaged keys
        verify_reads: Verify::Always,
        ..CfOptions::default()
    };
    let (segment_bytes, ring_bytes, drain_bytes) = (64 * 1024, 16 * 1024, 4096);
    let settings = Settings { segment_bytes, ring_bytes, drain_bytes, cache_bytes, ..Settings::default() };
    let parts = Parts { env: sim.env(sim.steps()), ..parts(protector, options) };
    Store::of(sim, DIR, settings, parts).expect("the store")
}

fn careless(forgery: Forgery) -> Store {
    let right = Sealer::new().with(standard());
    open(&SimFs::new(5), Arc::new(Careless { right, forgery }))
}

/// Closes the store, and opens it with a careful protector.
fn careful(store: Store) -> Store {
    store.db.close().expect("close");
    drop(store.db);
    open(&store.sim, Arc::new(Sealer::new().with(standard())))
}

/// Writes two tables for a compaction to merge, one of them with the forged record.
fn filled(store: Store) -> Store {
    for keys in [["a", "x", "z"], ["b", "c", "y"]] {
        keys.iter().for_each(|key| store.put(key.as_bytes(), b"right"));
        store.db.flush().expect("flush");
    }
    store
}

/// Checks that the forged key is an error, by key and with a cursor, and that all other keys are readable.
fn check(store: &Store, forged: &str, others: &[&str]) {
    for _ in 0..2 {
        for key in others {
            assert_eq!(store.value(At::Latest, key.as_bytes()), Some(b"right".to_vec()), "{key}");
        }
        let answer = store.get(forged.as_bytes());
        assert!(answer.as_ref().is_err_and(waxseal_lsm::error::Error::is_corruption), "{forged}: {answer:?}");
    }
}

fn seal_of_another_value() {
    let store = careful(filled(careless(Forgery::Value)));
    check(&store, "x", &["a", "z"]);
    store.compact();
    check(&store, "x", &["a", "z"]);
}

/// A correct older version is in a table below.
fn older_version_beneath() {
    let first = open(&SimFs::new(5), Arc::new(Sealer::new().with(standard())));
    first.put(b"x", b"old");
    first.put(b"a", b"right");
    first.put(b"z", b"right");
    first.db.flush().expect("flush");
    first.db.close().expect("close");
    drop(first.db);
    let right = Sealer::new().with(standard());
    let store = open(&first.sim, Arc::new(Careless { right, forgery: Forgery::Value }));
    store.put(b"x", b"new");
    store.db.flush().expect("flush");
    let store = careful(store);
    check(&store, "x", &["a", "z"]);
    let mut cursor = store.db.cursor_checked(&store.family, At::Latest, store::ALL, Verify::Always).expect("cursor");
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
    check(&store, "x", &["a", "z"]);
}

/// The record stored as `x1` was sealed as `x another`, so the absence of `x another` cannot be proven.
fn seal_of_another_key() {
    let store = careless(Forgery::Key);
    for key in ["a", "x1", "z"] {
        store.put(key.as_bytes(), b"right");
    }
    store.db.flush().expect("flush");
    let store = careful(store);
    store.get(b"a").expect("the block is in memory now");
    check(&store, "x another", &["a", "z"]);
    check(&store, "x1", &["a", "z"]);
    check(&store, "x another", &["a", "z"]);
}

/// The newest version of `x another` is stored under a smaller key, before the older version. A read that finds the older
/// one checks the record before it, whether the block is cached or not.
fn newest_version_under_a_smaller_key() {
    for cache_bytes in [0, 1 << 20] {
        let store = careless(Forgery::Key);
        for key in ["a", "x another", "x !", "z"] {
            store.put(key.as_bytes(), b"right");
        }
        let snapshot = store.db.snapshot().expect("a snapshot");
        store.put(b"z", b"right"); // a block with versions
        store.db.flush().expect("flush");
        drop(snapshot);
        store.db.close().expect("close");
        drop(store.db);
        let store = open_with(&store.sim, Arc::new(Sealer::new().with(standard())), cache_bytes);
        check(&store, "x another", &[]); // the first read of the block, which an empty cache does not admit
        check(&store, "x another", &["a", "z"]);
        check(&store, "x !", &["a", "z"]);
    }
}

fn seal_that_is_missing() {
    let store = careful(filled(careless(Forgery::Missing)));
    check(&store, "x", &["a", "z"]);
    store.compact();
    check(&store, "x", &["a", "z"]);
}

fn time_that_was_hit() {
    let store = careful(filled(careless(Forgery::Expiry)));
    store.sim.clock().advance_nanos(1_000_000_000);
    store.compact(); // the first verification
    check(&store, "x", &["a", "z"]);
}

/// Records without seals come from a plain node: they are sealed, and marked as unverified before that.
fn adopted_ones_are_marked() {
    let store = open(&SimFs::new(5), Arc::new(Plain));
    store.put(b"a", b"right");
    store.put(b"d", b"right");
    store.db.flush().expect("flush");
    let store = careful(store);
    store.put(b"c", b"right");
    store.compact();
    for (key, is_adopted) in [("a", true), ("c", false)] {
        let found = store.get(key.as_bytes()).expect("get").expect("a record");
        let is_sealed = Sealer::seal_of(&found.record()).expect("companions").is_some();
        assert_eq!((Sealer::is_adopted(&found.record()), is_sealed), (is_adopted, true), "{key}");
    }
}

/// Three flipped bits sometimes have the checksum of two others; only the seals reveal a wrong correction.
fn corrections_are_confirmed() {
    let store = open(&SimFs::new(5), Arc::new(Sealer::new()));
    let mut content = Content::new();
    let rows = content.entry("default".to_owned()).or_default();
    for n in 0..40 {
        let (key, value) = (format!("key {n:04}"), format!("{n:0>80}"));
        store.put(key.as_bytes(), value.as_bytes());
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
        let store = open(&hurt, Arc::new(Sealer::new()));
        read_all(&store.db, &content, &format!("trial {trial}"));
    }
}

/// All checks of this file.
pub const ALL: [fn(); 8] = [
    seal_of_another_value,
    older_version_beneath,
    seal_of_another_key,
    newest_version_under_a_smaller_key,
    seal_that_is_missing,
    time_that_was_hit,
    adopted_ones_are_marked,
    corrections_are_confirmed,
];

#[test]
fn forged_records_are_neither_given_out_nor_made_right() {
    ALL.iter().for_each(|check| check());
}
