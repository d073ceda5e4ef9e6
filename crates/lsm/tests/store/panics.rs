//! Callbacks that panic in the threads of a store: writers get an error, reads continue, and closing returns. The
//! simulation tries every call of a comparator; this file tests the threads.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use waxseal_lsm::db::{At, Db, Event, Listener, Parts};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::order::{Comparator, Order};
use waxseal_testing::store::*;

/// Panics in threads whose name has this prefix.
struct Panicking {
    of: &'static str,
    armed: AtomicBool,
}

impl Panicking {
    fn new(of: &'static str) -> Arc<Panicking> {
        Arc::new(Panicking { of, armed: AtomicBool::new(true) })
    }

    fn look(&self) {
        let is_meant = std::thread::current().name().is_some_and(|name| name.starts_with(self.of));
        assert!(!is_meant || !self.armed.load(Relaxed), "as it was meant to");
    }
}

impl Comparator for Panicking {
    fn name(&self) -> &str {
        "test.panicking"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.look();
        a.cmp(b)
    }
}

impl Listener for Panicking {
    fn on_event(&self, _event: &Event) {
        self.look();
    }
}

/// Writes until a write is rejected; returns the number of accepted writes.
fn write_on(db: &Db) -> (usize, Result<u64>) {
    let family = default(db);
    for n in 0.. {
        let (key, value) = record(n % 1000, n);
        let written = put(db, &family, &key, &value, Durability::Os);
        if written.is_err() || n > 200_000 {
            return (n, written);
        }
    }
    unreachable!("it ends")
}

/// Runs a store whose writers continue until a callback panics; then closes and reopens it, and checks all accepted
/// writes.
fn lives_on(parts: impl Fn() -> Parts, disarm: impl FnOnce()) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("store");
    let db = Db::open(&dir, settings(), parts()).unwrap();
    let (taken, refused) = write_on(&db);
    let error = refused.expect_err("nothing panicked");
    assert_eq!(*error.kind(), ErrorKind::Halted, "{error}");
    assert!(error.to_string().contains("panicked") && error.to_string().contains("as it was meant to"), "{error}");
    let last = taken.checked_sub(1).expect("something was taken");
    let (key, value) = record(last % 1000, last);
    assert_eq!(get(&db, &default(&db), &key, At::Latest).unwrap(), Some(value.clone()), "reads go on");
    assert_eq!(*db.close().unwrap_err().kind(), ErrorKind::Halted);
    disarm();
    let db = Db::open(&dir, settings(), parts()).unwrap();
    assert_eq!(get(&db, &default(&db), &key, At::Latest).unwrap(), Some(value));
    assert!(rows(&db, &default(&db), At::Latest).unwrap().len() >= taken.min(1000));
    db.settle().unwrap();
    db.close().unwrap();
}

#[test]
fn a_comparator_that_panics_in_a_lane_halts_the_store_and_nobody_waits_for_it() {
    for lane in ["waxseal-compact", "waxseal-flush"] {
        let order = Panicking::new(lane);
        let parts = || {
            let families = vec![("default".to_owned(), CfOptions { order: Order::custom(order.clone()), ..options() })];
            Parts { families, ..parts(Env::real()) }
        };
        lives_on(parts, || order.armed.store(false, Relaxed));
    }
}

#[test]
fn a_listener_that_panics_in_a_lane_halts_the_store_and_is_not_asked_on_the_way() {
    let listener = Panicking::new("waxseal-flush");
    let parts = || Parts { listener: listener.clone(), ..parts(Env::real()) };
    lives_on(parts, || listener.armed.store(false, Relaxed));
}

/// The family is durable by then, but not visible: the store halts, and has the family after a reopen.
#[test]
fn a_family_whose_rules_panic_halts_the_store_and_is_there_when_it_opens() {
    let (sim, dir) = sim(9);
    let db = open(&sim, &dir);
    let make = || db.create_family_with("made", options(), &mut |_| panic!("as it was meant to"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(make)).is_err());
    assert_kind(db.create_family("another", options()).map(drop), ErrorKind::Halted, "the edit before is not shown");
    drop(db);
    let db = open(&sim, &dir);
    assert!(db.family("made").is_some());
    db.create_family("another", options()).unwrap();
}

/// If the log is not mapped, a frame that was ordered but not copied blocks all later frames.
#[test]
fn rows_of_a_dropped_family_that_panic_halt_the_store_and_it_closes() {
    for mapped in [true, false] {
        let (sim, dir) = sim(71);
        sim.set_mapped(mapped);
        let db = open(&sim, &dir);
        db.create_family("gone", options()).unwrap();
        fill(&db, 0..20, 0);
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.drop_family_with("gone", &mut |_| panic!("as it was meant to"))
        }));
        assert!(dropped.is_err());
        let refused = put(&db, &default(&db), b"k", b"v", Durability::Os).unwrap_err();
        assert_eq!(*refused.kind(), ErrorKind::Halted);
        let _ = db.close();
        drop(db);
        let db = open(&sim, &dir);
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), filled(0..20, 0));
    }
}
