//! The estimated number of records, against the exact one: with data in one level, with newer data above it, in
//! memtables, after deletes, and after records have expired.

use std::sync::Arc;
use std::time::Duration;

use waxseal::env::{Clock, Env, ManualClock, MemoryFs, Mode, SeededRandom};
use waxseal::{Builder, CfOptions, ColumnFamily, Compression, Db, Result, WriteOptions};

const HOUR: Duration = Duration::from_secs(3600);
/// Number of records below the newer ones.
const COUNT: u32 = 20_000;

/// Opens a store with small levels, so that settled stores keep newer data above the lowest level.
fn open() -> Result<(Db, ColumnFamily, Arc<ManualClock>)> {
    let clock = Arc::new(ManualClock::default());
    clock.advance_nanos(1_790_000_000 * 1_000_000_000);
    let (db, cf) = open_on(&Arc::new(MemoryFs::default()), &clock)?;
    Ok((db, cf, clock))
}

fn open_on(fs: &Arc<MemoryFs>, clock: &Arc<ManualClock>) -> Result<(Db, ColumnFamily)> {
    let random = Arc::new(SeededRandom::new(clock.wall_micros()));
    let env = Env { fs: fs.clone(), clock: clock.clone(), random, work: Mode::Stepped };
    let db = Builder::in_memory().env(env).open()?;
    if db.column_families().iter().any(|cf| cf.name() == "records") {
        let cf = db.column_family("records")?;
        return Ok((db, cf));
    }
    let options = CfOptions {
        compression: Compression::None,
        table_bytes: 256 << 10,
        level_base_bytes: 1 << 20,
        ..CfOptions::default()
    };
    let cf = db.create_column_family("records", options)?;
    Ok((db, cf))
}

/// Returns the key of a number, in an order that no other order of numbers shares.
fn key(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9e37_79b1).to_le_bytes()
}

fn put(cf: &ColumnFamily, numbers: std::ops::Range<u32>) -> Result<()> {
    numbers.into_iter().try_for_each(|n| cf.put(key(n), [n as u8; 100]))
}

/// Compares the estimate with the number of records, and returns both.
#[track_caller]
fn check(cf: &ColumnFamily, within_percent: u64, what: &str) -> (u64, u64) {
    let (exact, about) = (cf.iter().keys().count() as u64, cf.approximate_len());
    assert!(about.abs_diff(exact) * 100 <= exact * within_percent, "{what}: {about} estimated, {exact} exact");
    (exact, about)
}

/// Returns the number of records above the lowest level that holds data.
fn above(db: &Db) -> u64 {
    let metrics = db.metrics();
    let family = metrics.families.iter().find(|family| family.name == "records").unwrap();
    let records: Vec<u64> = family.levels.iter().map(|level| level.records).filter(|records| *records > 0).collect();
    records[..records.len() - 1].iter().sum()
}

/// Records that a range delete hides do not count: in memory, in tables that a snapshot keeps, and beside newer ones.
/// Tables that it hides in part are sampled at few places.
#[test]
fn records_that_a_range_delete_hides_are_left_out() -> Result<()> {
    let (db, cf, _) = open()?;
    put(&cf, 0..COUNT)?;
    db.settle()?;
    let snapshot = db.snapshot();
    for settles in [false, true] {
        cf.delete_range([0x80]..)?;
        if settles {
            db.settle()?;
        }
        check(&cf, 30, "half deleted");
        put(&cf, 0..COUNT / 10)?;
        if settles {
            db.settle()?;
        }
        check(&cf, 30, "some put again");
        cf.clear()?;
        if settles {
            db.settle()?;
        }
        assert_eq!(check(&cf, 0, "cleared"), (0, 0));
        put(&cf, 0..COUNT)?;
    }
    drop(snapshot);
    Ok(())
}

#[test]
fn settled_stores_are_estimated_within_five_percent() -> Result<()> {
    type Change = fn(&ColumnFamily) -> Result<()>;
    let changes: [(&str, Change); 5] = [
        ("overwritten", |cf| put(cf, 0..COUNT / 10)),
        ("inserted", |cf| put(cf, COUNT..COUNT + COUNT / 10)),
        ("both", |cf| put(cf, COUNT - COUNT / 20..COUNT + COUNT / 20)),
        ("deleted", |cf| (0..COUNT / 10).try_for_each(|n| cf.delete(key(n)))),
        ("never there", |cf| (COUNT..COUNT + COUNT / 10).try_for_each(|n| cf.delete(key(n)))),
    ];
    let mut settled_above = 0;
    for (what, change) in changes {
        let (db, cf, _) = open()?;
        put(&cf, 0..COUNT)?;
        db.flush()?;
        cf.compact()?;
        assert_eq!((above(&db), cf.approximate_len()), (0, u64::from(COUNT))); // counts alone
        change(&cf)?;
        check(&cf, 5, &format!("{what}, in a memtable"));
        db.flush()?;
        assert!(above(&db) > 0, "{what}: all data is in one level");
        check(&cf, 5, &format!("{what}, flushed"));
        db.settle()?;
        settled_above += u64::from(above(&db) > 0);
        check(&cf, 5, &format!("{what}, settled"));
        cf.compact()?;
        assert_eq!(above(&db), 0);
        let (exact, about) = check(&cf, 0, &format!("{what}, compacted"));
        assert_eq!(exact, about);
    }
    assert!(settled_above >= 3, "{settled_above} settled stores had data above the lowest level");
    Ok(())
}

#[test]
fn versions_in_one_memtable_count_once() -> Result<()> {
    let (db, cf, _) = open()?;
    for _ in 0..5 {
        put(&cf, 0..1000)?;
    }
    (0..500).try_for_each(|n| cf.delete(key(n)))?;
    check(&cf, 15, "a memtable alone"); // a sample of 1,000 records of 5,500
    let snapshot = db.snapshot(); // keeps the deleted versions
    db.flush()?;
    check(&cf, 15, "level 0 alone");
    drop(snapshot);
    cf.compact()?;
    assert_eq!(cf.approximate_len(), 500);
    (0..1000).try_for_each(|n| cf.delete(key(n)))?;
    assert!(cf.approximate_len() < 50 && cf.is_empty()?);
    cf.compact()?;
    assert_eq!(cf.approximate_len(), 0);
    Ok(())
}

#[test]
fn expired_records_do_not_count() -> Result<()> {
    let (db, cf, clock) = open()?;
    for n in 0..COUNT {
        let options = if n % 4 == 0 { WriteOptions::new().expires_in(HOUR) } else { WriteOptions::new() };
        cf.put_with(key(n), [0; 100], options)?;
    }
    for is_settled in [false, true] {
        if is_settled {
            db.flush()?;
        }
        check(&cf, 0, "before the hour");
    }
    cf.compact()?;
    clock.advance_nanos(2 * HOUR.as_nanos() as u64);
    let (exact, _) = check(&cf, 0, "after the hour");
    assert_eq!(exact, u64::from(COUNT) * 3 / 4);
    (0..COUNT).step_by(4).try_for_each(|n| cf.put(key(n), "again"))?;
    check(&cf, 5, "all again");
    for n in COUNT..2 * COUNT {
        cf.put_with(key(n), "for an hour", WriteOptions::new().expires_in(HOUR))?;
    }
    check(&cf, 5, "new ones in a memtable");
    clock.advance_nanos(2 * HOUR.as_nanos() as u64);
    check(&cf, 5, "and after the hour");
    Ok(())
}

/// A snapshot kept tombstones and older versions in the lowest level. Of a table that is not open, the manifest does not
/// say what they delete.
#[test]
fn tombstones_in_the_lowest_level_are_judged() -> Result<()> {
    let (fs, clock) = (Arc::new(MemoryFs::default()), Arc::new(ManualClock::default()));
    clock.advance_nanos(1_790_000_000 * 1_000_000_000);
    let (db, cf) = open_on(&fs, &clock)?;
    put(&cf, 0..1000)?;
    let snapshot = db.snapshot();
    (0..500).try_for_each(|n| cf.delete(key(n)))?;
    cf.compact()?;
    drop(snapshot);
    db.close()?;
    let (db, cf) = open_on(&fs, &clock)?;
    assert_eq!(above(&db), 0);
    let about = cf.approximate_len(); // before a scan opens the tables
    assert!((425..=575).contains(&about), "{about}");
    assert_eq!(check(&cf, 15, "reopened").0, 500);
    Ok(())
}

#[test]
fn a_dropped_family_and_a_closed_store_have_none() -> Result<()> {
    let (db, cf, _) = open()?;
    put(&cf, 0..10)?;
    let other = db.column_family("other")?;
    other.put("key", "value")?;
    assert_eq!((cf.approximate_len(), other.approximate_len()), (10, 1));
    db.drop_column_family("records")?;
    assert_eq!(cf.approximate_len(), 0);
    db.close()?;
    assert_eq!(other.approximate_len(), 0);
    Ok(())
}
