//! Callbacks that panic, at one call after another: held resources are released, a half-done change halts the store,
//! and no acknowledged commit is lost or partly visible. Each check runs a series of short-lived stores.

use std::cmp::Ordering;
use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, CursorBounds, Db, Family, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::order::{Comparator, Order};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, PendingWrite};

/// The checks that must find the planted bugs.
#[cfg(feature = "planted")]
pub const ALL: [fn(); 3] = [plans, commits, operations];

const EVERYTHING: CursorBounds = (Bound::Unbounded, Bound::Unbounded);
/// Records in each of the merged tables.
const RECORDS: u32 = 12;

/// A bytewise comparator that panics at a chosen call.
#[derive(Default)]
struct Wary {
    left: AtomicU64,
}

impl Wary {
    /// Panics after this many calls; 0 disables the panic.
    fn panic_behind(&self, calls: u64) {
        self.left.store(calls, Relaxed);
    }
}

impl Comparator for Wary {
    fn name(&self) -> &str {
        "test.wary"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.left.load(Relaxed) {
            0 => {}
            1 => panic!("asked once too often"),
            left => self.left.store(left - 1, Relaxed),
        }
        a.cmp(b)
    }
}

/// Makes no companions, and panics for certain keys.
struct Touchy;

impl Companions for Touchy {
    fn on_write(&self, pending: &PendingWrite<'_>, _out: &mut Vec<u8>) -> Result<()> {
        assert_ne!(pending.key, b"boom", "such a key is not kept");
        Ok(())
    }
}

/// A store on a simulated disk. Its handle is leaked if a check fails, because closing it could hang.
struct Life {
    sim: SimFs,
    wary: Arc<Wary>,
    db: ManuallyDrop<Db>,
}

impl Life {
    fn new(seed: u64) -> Life {
        let (sim, wary) = (SimFs::new(seed), Arc::new(Wary::default()));
        let db = ManuallyDrop::new(open(&sim, &wary));
        Life { sim, wary, db }
    }

    fn family(&self) -> Family {
        self.db.family("default").expect("always there")
    }

    /// Commits these keys with one value, in one batch.
    fn commit(&self, keys: std::ops::Range<u32>, value: u32) -> Result<()> {
        let (mut batch, family) = (Batch::new(), self.family());
        for key in keys {
            batch.push(
                family.id(),
                Kind::Put,
                &key.swap_bytes().to_le_bytes(),
                &value.to_le_bytes(),
                self.db.companions(),
            )?;
        }
        self.db.commit(&mut batch, Durability::Os).map(drop)
    }

    /// Returns the value of each key, in key order.
    fn rows(&self) -> Vec<(u32, u32)> {
        let mut rows = Vec::new();
        let mut cursor = self.db.cursor(&self.family(), At::Latest, EVERYTHING).expect("a cursor");
        cursor.first().expect("first");
        while cursor.valid() {
            let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
            rows.push((number(cursor.key()).swap_bytes(), number(cursor.value()))); // keys are big-endian
            cursor.next().expect("next");
        }
        rows
    }

    /// Runs `work`, and returns whether it panicked after this many calls.
    fn panics(&self, calls: u64, work: impl FnOnce(&Life)) -> bool {
        self.wary.panic_behind(calls);
        let panicked = catch_unwind(AssertUnwindSafe(|| work(self))).is_err();
        self.wary.panic_behind(0);
        panicked
    }

    /// Closes the store, which must return, and reopens it.
    fn reopen(self) -> Life {
        let Life { sim, wary, db } = self;
        let closed = db.close();
        assert!(closed.is_ok() || is_halted(&closed), "{closed:?}");
        drop(ManuallyDrop::into_inner(db));
        let db = ManuallyDrop::new(open(&sim, &wary));
        Life { sim, wary, db }
    }

    fn end(self) {
        ManuallyDrop::into_inner(self.db).close().expect("closed");
    }
}

fn open(sim: &SimFs, wary: &Arc<Wary>) -> Db {
    let options =
        CfOptions { order: Order::custom(wary.clone()), block_bytes: 64, level0_tables: 8, ..CfOptions::default() };
    let settings = Settings {
        memtable_bytes: 64 * 1024,
        segment_bytes: 64 * 1024,
        ring_bytes: 32 * 1024,
        drain_bytes: 8 * 1024,
        ..Settings::default()
    };
    let families = vec![("default".to_owned(), options)];
    let parts = Parts { env: sim.env(sim.steps()), families, companions: Arc::new(Touchy), ..Parts::real() };
    Db::open(Path::new("/store"), settings, parts).expect("open")
}

fn is_halted<T>(outcome: &Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Halted && error.to_string().contains("callback"))
}

/// A comparator panics in a compaction, requested or run as a step: the tables are released or the store has halted. No
/// record is lost, and closing returns.
fn plans() {
    let (mut calls, mut panics, mut halted) = (1, 0, 0);
    loop {
        let life = Life::new(calls);
        for value in 0..3 {
            life.commit(0..RECORDS, value).expect("commit");
            life.db.flush().expect("flush");
        }
        let expected: Vec<_> = (0..RECORDS).map(|key| (key, 2)).collect();
        let compact = |life: &Life| life.db.compact(&life.family(), &EVERYTHING).expect("compact");
        if !life.panics(calls, compact) {
            break life.end();
        }
        panics += 1;
        assert_eq!(life.rows(), expected, "behind {calls} calls");
        match life.db.compact(&life.family(), &EVERYTHING) {
            Ok(()) => assert_eq!(life.rows(), expected),
            again => {
                assert!(is_halted(&again), "behind {calls} calls: {again:?}");
                halted += 1;
            }
        }
        let life = life.reopen();
        assert_eq!(life.rows(), expected, "opened anew, behind {calls} calls");
        compact(&life);
        assert_eq!(life.rows(), expected);
        life.end();
        calls += 1 + calls / 8;
    }
    assert!(panics > 12 && halted < panics, "{panics} panics, {halted} halts: too little was tried");
}

/// A comparator panics while a commit is applied: neither this commit nor a later one becomes visible, even in part,
/// until the store is reopened. Then it is visible, because it was in the log.
fn commits() {
    for calls in 1.. {
        let life = Life::new(calls);
        for n in 0..40 {
            life.commit(3 * n..3 * n + 3, 0).expect("commit");
        }
        let before = life.rows();
        if !life.panics(calls, |life| life.commit(57..63, 1).expect("commit")) {
            assert!(calls > 6, "too little was tried");
            life.end();
            break;
        }
        assert_eq!(life.rows(), before, "a part is shown, behind {calls} calls");
        for _ in 0..2 {
            let next = life.commit(200..201, 2);
            assert!(is_halted(&next), "behind {calls} calls: {next:?}");
        }
        assert!(is_halted(&life.db.sync()) && is_halted(&life.db.flush()));
        assert_eq!(life.rows(), before);
        let life = life.reopen();
        let is_new = |key: u32| (57..63).contains(&key);
        let expected: Vec<_> =
            before.iter().map(|(key, value)| (*key, if is_new(*key) { 1 } else { *value })).collect();
        assert_eq!(life.rows(), expected);
        life.commit(200..201, 2).expect("writes go on");
        life.end();
    }
}

/// A record protector panics at one operation of a batch: the batch keeps its earlier operations, and commits without
/// this one.
fn operations() {
    let life = Life::new(7);
    let (mut batch, family) = (Batch::new(), life.family());
    let mut push = |key: &[u8]| {
        let pushed = || batch.push(family.id(), Kind::Put, key, &7u32.to_le_bytes(), life.db.companions());
        catch_unwind(AssertUnwindSafe(pushed)).is_ok_and(|pushed| pushed.is_ok())
    };
    assert_eq!([&[0, 0, 0, 1][..], b"boom", &[0, 0, 0, 2], b"boom"].map(&mut push), [true, false, true, false]);
    life.db.commit(&mut batch, Durability::Os).expect("commit");
    assert_eq!(life.rows(), [(1, 7), (2, 7)]);
    let life = life.reopen();
    assert_eq!(life.rows(), [(1, 7), (2, 7)]);
    life.end();
}

/// A comparator panics in a background step: the panic is caught, and the next writer gets an error.
#[test]
fn a_lane_that_panics_halts_the_store() {
    let life = Life::new(1);
    for value in 0..9 {
        life.commit(0..RECORDS, value).expect("commit");
        life.db.flush().expect("flush");
    }
    assert!(!life.panics(40, |life| while life.db.step().expect("open") {}), "caught");
    let next = life.commit(0..1, 9);
    assert!(is_halted(&next), "{next:?}");
    assert!(next.unwrap_err().to_string().contains("asked once too often"), "what it said is told");
    assert_eq!(life.rows(), (0..RECORDS).map(|key| (key, 8)).collect::<Vec<_>>());
    let life = life.reopen();
    while life.db.step().expect("open") {}
    assert_eq!(life.rows(), (0..RECORDS).map(|key| (key, 8)).collect::<Vec<_>>());
    life.end();
}

#[test]
fn a_comparator_may_panic_anywhere_in_a_compaction() {
    plans();
}

#[test]
fn a_comparator_may_panic_anywhere_in_a_commit() {
    commits();
}

#[test]
fn a_keeper_may_panic_at_an_operation() {
    operations();
}
