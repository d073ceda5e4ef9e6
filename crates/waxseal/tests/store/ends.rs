//! The first and the last record: tombstones, expired records and newer versions do not count, and damage is an error.

use std::sync::Arc;
use std::time::Duration;

use waxseal::env::ManualClock;
use waxseal::{Builder, CfOptions, Comparator, Db, ErrorKind, Order, Result, Slice, WriteOptions};

const HOUR: Duration = Duration::from_secs(3600);

fn row(key: &str, value: &str) -> Option<(Slice, Slice)> {
    Some((key.as_bytes().into(), value.as_bytes().into()))
}

#[test]
fn only_visible_records_count() -> Result<()> {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_790_000_000 * 1_000_000_000);
    let db = Builder::in_memory().clock(clock.clone()).open()?;
    let cf = db.column_family("default")?;
    for is_flushed in [false, true] {
        for key in ["a", "b", "c", "d"] {
            cf.put(key, "old")?;
            cf.put(key, "new")?;
        }
        cf.put_with("A", "short-lived", WriteOptions::new().expires_in(HOUR))?;
        cf.put_with("z", "short-lived", WriteOptions::new().expires_in(HOUR))?;
        if is_flushed {
            db.flush()?;
        }
        let all = db.snapshot();
        assert_eq!((cf.first_key_value()?, cf.last_key_value()?), (row("A", "short-lived"), row("z", "short-lived")));
        clock.advance_nanos(HOUR.as_nanos() as u64);
        assert_eq!((cf.first_key_value()?, cf.last_key_value()?), (row("a", "new"), row("d", "new")));
        cf.delete("a")?;
        cf.delete("d")?;
        if is_flushed {
            db.flush()?;
        }
        assert_eq!((cf.first_key_value()?, cf.last_key_value()?), (row("b", "new"), row("c", "new")));
        assert!(!cf.is_empty()?);
        cf.delete("b")?;
        cf.delete("c")?;
        assert_eq!((cf.first_key_value()?, cf.last_key_value()?, cf.is_empty()?), (None, None, true));
        assert_eq!(all.first_key_value(&cf)?, row("A", "short-lived")); // expiry is judged when it was taken
        assert_eq!(all.last_key_value(&cf)?, row("z", "short-lived"));
        assert!(!all.is_empty(&cf)?);
    }
    Ok(())
}

#[test]
fn pops_take_from_both_ends() -> Result<()> {
    let db = Db::memory()?;
    let cf = db.column_family("default")?;
    let before = db.snapshot();
    for is_flushed in [false, true] {
        for key in ["a", "b", "c", "d"] {
            cf.put(key, "value")?;
        }
        cf.put("z", vec![7; 10_000])?; // in a blob file
        if is_flushed {
            db.flush()?;
        }
        assert_eq!(cf.pop_first()?, row("a", "value"));
        assert_eq!(cf.pop_last()?.unwrap().1, vec![7; 10_000]);
        assert_eq!(cf.pop_last_with(WriteOptions::from(waxseal::Durability::Sync))?, row("d", "value"));
        assert_eq!(cf.pop_first_with(WriteOptions::new())?, row("b", "value"));
        assert_eq!((cf.pop_first()?, cf.is_empty()?), (row("c", "value"), true));
        assert_eq!((cf.pop_first()?, cf.pop_last()?), (None, None));
    }
    assert!(before.is_empty(&cf)?);
    db.close()?;
    assert_eq!(cf.pop_first().unwrap_err().kind(), &ErrorKind::Closed);
    Ok(())
}

/// Four threads fill a queue, and four empty it: each record is returned once, and those of one producer in order.
#[test]
fn a_queue_hands_each_record_to_one_consumer() -> Result<()> {
    const EACH: usize = 500;
    let db = Db::memory()?;
    let (cf, next) = (db.column_family("jobs")?, std::sync::atomic::AtomicU64::new(0));
    let produce = |producer: usize| {
        for n in 0..EACH {
            let key = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            cf.put(format!("{key:020}"), format!("{producer} {n:04}")).unwrap();
        }
    };
    let consume = || {
        let mut jobs = Vec::new();
        while jobs.last().is_none_or(|job: &Slice| &job[..] != b"the end") {
            jobs.extend(cf.pop_first().unwrap().map(|(_, job)| job));
        }
        jobs.pop();
        jobs
    };
    let mut jobs: Vec<Slice> = std::thread::scope(|scope| {
        let consumers = [0; 4].map(|_| scope.spawn(consume));
        let producers = [0, 1, 2, 3].map(|producer| scope.spawn(move || produce(producer)));
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        for n in 0..4u64 {
            cf.put(format!("{:020}", u64::MAX - n), "the end").unwrap();
        }
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
    });
    jobs.sort_by(|a, b| a[..].cmp(&b[..]));
    let all = (0..4).flat_map(|producer| (0..EACH).map(move |n| format!("{producer} {n:04}")));
    assert!(jobs.iter().map(|job| &job[..]).eq(all.map(String::into_bytes)), "{} jobs", jobs.len());
    assert!(cf.is_empty()?);
    Ok(())
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
fn the_ends_follow_the_order_of_the_family() -> Result<()> {
    let db = Db::memory()?;
    let options = CfOptions { order: Order::custom(Arc::new(Backwards)), ..CfOptions::default() };
    let cf = db.create_column_family("backwards", options)?;
    cf.put("a", "1")?;
    cf.put("b", vec![7; 10_000])?; // in a blob file
    assert_eq!(cf.first_key_value()?.unwrap().1, vec![7; 10_000]);
    assert_eq!(cf.last_key_value()?, row("a", "1"));
    assert_eq!(cf.pop_last()?, row("a", "1"));
    Ok(())
}

#[test]
fn other_stores_and_closed_ones_are_refused() -> Result<()> {
    let (db, other) = (Db::memory()?, Db::memory()?);
    let (cf, snapshot) = (db.column_family("default")?, other.snapshot());
    assert_eq!(snapshot.is_empty(&cf).unwrap_err().kind(), &ErrorKind::Invalid);
    assert_eq!(snapshot.first_key_value(&cf).unwrap_err().kind(), &ErrorKind::Invalid);
    db.close()?;
    assert_eq!(cf.is_empty().unwrap_err().kind(), &ErrorKind::Closed);
    assert_eq!(cf.last_key_value().unwrap_err().kind(), &ErrorKind::Closed);
    Ok(())
}

/// The first block is destroyed: nobody knows whether an intact record is the first.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test of damage writes to files")]
fn damage_before_the_first_record_is_an_error() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path)?;
    let cf = db.column_family("default")?;
    for n in 0..2000 {
        cf.put(format!("{n:04}"), [0; 100])?;
    }
    db.settle()?;
    db.close()?;
    let is_table = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "tbl");
    let table = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).find(is_table).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100..600].fill(0xa5);
    std::fs::write(&table, bytes).unwrap();

    let db = Db::open(&path)?;
    let cf = db.column_family("default")?;
    assert!(cf.first_key_value().unwrap_err().is_corruption());
    assert!(cf.is_empty().unwrap_err().is_corruption());
    assert_eq!(cf.last_key_value()?.unwrap().0, "1999");
    db.repair(waxseal::RepairOptions::default())?; // leaves a lost range
    assert!(cf.first_key_value().unwrap_err().is_corruption());
    assert!(cf.is_empty().unwrap_err().is_corruption());
    assert!(db.snapshot().is_empty(&cf).unwrap_err().is_corruption());
    assert!(cf.pop_first().unwrap_err().is_corruption());
    assert_eq!(cf.last_key_value()?.unwrap().0, "1999");
    db.close()
}
