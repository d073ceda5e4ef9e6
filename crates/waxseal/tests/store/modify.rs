//! Atomic read-modify-write: alone, beside other writers, on records that expire or whose values are in blob files, and
//! with registered operations.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use waxseal::env::ManualClock;
use waxseal::registry::{Mode, RegisterOptions, Values};
use waxseal::{Builder, CfOptions, ColumnFamily, Db, Durability, ErrorKind, Result, WriteOptions};

fn counter(cf: &ColumnFamily, key: &str) -> i64 {
    cf.get_with(key, |value| i64::from_le_bytes(value.try_into().unwrap())).unwrap().unwrap_or(0)
}

fn is_invalid<T: std::fmt::Debug>(outcome: Result<T>) {
    assert_eq!(outcome.unwrap_err().kind(), &ErrorKind::Invalid);
}

/// Runs `one` in threads, `times` times in each, beside a thread that runs `other` until they are done.
fn beside(threads: u64, times: u64, one: impl Fn(u64, u64) + Sync, other: impl Fn(u64) + Sync) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| (0..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(&other));
        let one = &one;
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || (0..times).for_each(|n| one(thread, n)))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
        other.join().unwrap();
    });
}

#[test]
fn four_threads_of_ten_thousand_increments_make_forty_thousand() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path().join("store"))?;
    let cf = db.column_family("counters")?;
    let befores: Vec<AtomicU64> = (0..40_000).map(|_| AtomicU64::new(0)).collect();
    let add = |_, _| {
        let before = cf.fetch_add("visits", 1).unwrap();
        befores[before as usize].fetch_add(1, Ordering::Relaxed);
    };
    beside(4, 10_000, add, |n| cf.put(format!("other {}", n % 100), "value").unwrap());
    assert_eq!(counter(&cf, "visits"), 40_000);
    assert!(befores.iter().all(|before| before.load(Ordering::Relaxed) == 1), "each value is seen before once");
    Ok(())
}

#[test]
fn no_value_is_replaced_twice_beside_puts_of_the_same_key() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let seen: Vec<_> = (0..3).map(|_| std::sync::Mutex::new(Vec::new())).collect();
    let update = |thread: u64, n: u64| {
        let mut old = None;
        let change = |found: Option<&[u8]>| {
            old = found.map(<[u8]>::to_vec);
            Some(format!("update {thread} {n}"))
        };
        cf.update("key", change).unwrap();
        seen[thread as usize].lock().unwrap().extend(old);
    };
    beside(3, 3000, update, |n| cf.put("key", format!("put {n}")).unwrap());
    let seen: Vec<Vec<u8>> = seen.into_iter().flat_map(|seen| seen.into_inner().unwrap()).collect();
    let distinct: HashSet<&Vec<u8>> = seen.iter().collect();
    assert!(seen.len() >= 8999, "only the first update may find no value");
    assert_eq!(distinct.len(), seen.len(), "every value is unique, so each was replaced by one update at most");
    assert!(seen.iter().any(|value| value.starts_with(b"put")), "the puts took part");
    Ok(())
}

#[test]
fn writes_of_other_keys_do_not_make_a_change_run_again() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let runs = AtomicU64::new(0);
    let update = |_, n: u64| {
        let change = |_: Option<&[u8]>| {
            runs.fetch_add(1, Ordering::Relaxed);
            Some(n.to_string())
        };
        cf.update("key", change).unwrap();
    };
    beside(1, 5000, update, |n| cf.put(format!("other {}", n % 1000), "value").unwrap());
    assert_eq!(runs.into_inner(), 5000);
    Ok(())
}

#[test]
fn the_comparison_decides_and_nothing_else_is_written() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let options = CfOptions { large_value_bytes: 1000, ..CfOptions::default() };
    let db = Db::builder(home.path().join("store")).open()?;
    let cf = db.create_column_family("c", options)?;
    let (small, large, other) = (vec![1; 10], vec![2; 100_000], vec![3; 100_000]);
    const NONE: Option<&[u8]> = None;

    assert!(!cf.compare_and_set("k", Some(&small), Some(&large))?);
    assert!(cf.compare_and_set("k", NONE, NONE)?, "absent, and stays so");
    let before = db.snapshot().seqno()?;
    assert!(cf.update("k", |old| old.map(<[u8]>::to_vec))?.is_none());
    assert_eq!(db.snapshot().seqno()?, before, "an absent key that stays absent writes nothing");
    assert!(cf.put_if_absent("k", &small)?);
    assert!(!cf.put_if_absent("k", &other)?);
    for flush in [false, true] {
        if flush {
            db.flush()?;
        }
        assert!(cf.compare_and_set("k", Some(&small), Some(&large))?);
        if flush {
            db.flush()?;
        }
        assert!(!cf.compare_and_set("k", Some(&other), NONE)?);
        assert!(!cf.compare_and_set("k", NONE, Some(&other))?);
        assert!(cf.compare_and_set("k", Some(&large), Some(&other))?);
        assert!(cf.compare_and_set("k", Some(&other), Some(&small))?);
    }
    let before = db.snapshot().seqno()?;
    assert!(!cf.compare_and_set("k", Some(&other), Some(&other))?);
    assert!(!cf.put_if_absent("k", &other)?);
    assert_eq!(db.snapshot().seqno()?, before, "a comparison that fails writes nothing");
    assert!(cf.compare_and_set("k", Some(&small), NONE)?);
    assert_eq!(cf.get("k")?, None);
    assert!(db.verify(waxseal::VerifyOptions::default())?.is_clean());
    Ok(())
}

#[test]
fn what_is_refused_changes_nothing() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("store");
    let db = Db::open(&path)?;
    let cf = db.column_family("c")?;
    cf.put("text", "seven")?;
    cf.put("greatest", i64::MAX.to_le_bytes())?;
    let before = db.snapshot().seqno()?;
    is_invalid(cf.fetch_add("text", 1));
    is_invalid(cf.fetch_add("greatest", 1));
    is_invalid(cf.put_if_absent(vec![0; 70_000], "value"));
    is_invalid(cf.update(vec![0; 70_000], |_| Some("value")));
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cf.update("text", |_| -> Option<&str> { panic!("the change of a user") })
    }));
    assert!(panics.is_err());
    assert_eq!(db.snapshot().seqno()?, before);
    assert_eq!(cf.fetch_add("greatest", -1)?, i64::MAX);
    assert_eq!(cf.fetch_add("greatest", i64::MIN)?, i64::MAX - 1);
    assert_eq!(cf.get("text")?.unwrap(), "seven");

    let reader = Db::open_read_only(&path)?;
    let error = reader.column_family("c")?.put_if_absent("text", "eight").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ReadOnly);
    db.drop_column_family("c")?;
    is_invalid(cf.fetch_add("n", 1));
    db.close()?;
    assert_eq!(cf.fetch_add("n", 1).unwrap_err().kind(), &ErrorKind::Closed);
    Ok(())
}

#[test]
fn an_expired_record_is_absent_and_a_change_can_expire() -> Result<()> {
    let clock = Arc::new(ManualClock::default());
    let second = |n: u64| clock.advance_nanos(n * 1_000_000_000);
    second(1_790_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open()?;
    let locks = db.column_family("locks")?;
    let minute = || WriteOptions::new().expires_in(Duration::from_secs(60));
    assert!(locks.put_if_absent_with("job", "worker 1", minute())?);
    second(59);
    assert!(!locks.put_if_absent_with("job", "worker 2", minute())?);
    second(1);
    assert!(!locks.compare_and_set("job", Some("worker 1"), Some("worker 1"))?);
    assert!(locks.put_if_absent_with("job", "worker 2", minute())?);
    assert_eq!(locks.fetch_add_with("rate", 5, minute())?, 0);
    assert_eq!(locks.fetch_add_with("rate", 5, minute())?, 5);
    second(60);
    assert_eq!(locks.fetch_add("rate", 1)?, 0);
    // The new value has no expiry.
    second(1000);
    assert_eq!(locks.fetch_add("rate", 1)?, 1);
    // One time decides for the whole operation: time that passes meanwhile does not make it run again.
    locks.put_with("slow", "1", minute())?;
    let mut runs = 0;
    let change = |old: Option<&[u8]>| {
        runs += 1;
        assert_eq!(old, Some(&b"1"[..]));
        second(61);
        locks.put("other", "value").unwrap();
        Some("2")
    };
    locks.update("slow", change)?;
    assert_eq!(runs, 1);
    assert_eq!(locks.get("slow")?.unwrap(), "2");
    Ok(())
}

#[test]
fn a_change_may_use_the_store() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let mut runs = 0;
    let change = |old: Option<&[u8]>| {
        runs += 1;
        cf.put("other", runs.to_string()).unwrap();
        assert_eq!(cf.fetch_add("count", 1).unwrap() + 1, runs);
        if runs < 8 {
            cf.put("key", runs.to_string()).unwrap(); // beyond the patience: the thread has a hold then
        }
        Some(format!("{}!", String::from_utf8_lossy(old.unwrap_or_default())))
    };
    assert_eq!(cf.update("key", change)?.unwrap(), "7!");
    assert_eq!(runs, 8);
    assert_eq!(cf.get("key")?.unwrap(), "7!");
    Ok(())
}

#[test]
fn registered_changes_are_logged_once_each() -> Result<()> {
    for (mode, values) in [
        (Mode::Deferred, Values::None),
        (Mode::Sync, Values::None),
        (Mode::Async, Values::None),
        (Mode::Deferred, Values::New),
        (Mode::Sync, Values::OldNew),
    ] {
        let db = Db::memory()?;
        let cf = db.column_family("counters")?;
        let options = RegisterOptions { mode, values, ..RegisterOptions::default() };
        db.registry().register_with("counters.visits", "*", options)?;
        let alice = db.session("alice")?;
        let hers = alice.column_family("counters")?;
        let add = |thread, n| {
            let cf = if thread == 0 { &hers } else { &cf };
            cf.fetch_add("visits", 1).unwrap();
            if n % 50 == 49 {
                assert!(!cf.put_if_absent("visits", "taken").unwrap());
            }
        };
        beside(4, 200, add, |n| cf.put(format!("other {}", n % 100), "value").unwrap());
        assert_eq!(counter(&cf, "visits"), 800, "{mode:?} {values:?}");
        assert!(cf.compare_and_set("visits", Some(800i64.to_le_bytes()), None::<&[u8]>)?);
        db.flush()?;
        let registry = db.registry();
        registry.drain_events()?;
        let events = registry.query_all("counters.visits", "Row.Update")?;
        assert_eq!(events.len(), 800, "{mode:?} {values:?}");
        assert_eq!(events.iter().filter(|event| event.key.client == "alice").count(), 200);
        assert_eq!(registry.query_all("counters.visits", "Row.Delete")?.len(), 1);
    }
    Ok(())
}

#[test]
fn a_change_is_as_durable_as_its_options_ask() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path().join("store"))?;
    let cf = db.column_family("c")?;
    assert!(cf.put_if_absent_with("k", "v", Durability::Sync.into())?);
    assert!(db.durable_snapshot().contains(&cf, "k")?);
    Ok(())
}
