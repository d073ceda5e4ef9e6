//! What an operation of the face allocates and seals, counted: the speeds rest on it.

use waxseal::{CfOptions, ColumnFamily, Cursor, Db, Durability, Result, WriteOptions};
use waxseal_testing::allocator::{Counting, allocated_bytes, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u32 = 10_000;

fn key(n: u32) -> String {
    format!("{n:016}")
}

/// A settled level, two tables above it and a memtable, in which keys were written again.
fn layers(db: &Db) -> Result<ColumnFamily> {
    let cf = db.column_family("default")?;
    for every in [1, 10, 100, 1000] {
        for n in (0..KEYS).step_by(every) {
            cf.put(key(n), [every as u8; 100])?;
        }
        match every {
            1 => db.settle()?,
            1000 => {}
            _ => db.flush()?,
        }
    }
    Ok(cf)
}

#[test]
fn a_cached_read_allocates_nothing() -> Result<()> {
    assert!(allocations(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(100)))) > 0);
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path())?;
    let cf = layers(&db)?;
    let keys: Vec<String> = (0..KEYS + 500).map(key).chain((0..KEYS).map(|n| key(n) + "x")).collect();
    let mut cursor: Cursor = cf.cursor();
    let (mut found, mut shown) = (0, 0);
    let mut read_all = || {
        for key in &keys {
            found += u32::from(cf.get_with(key, |value| assert_eq!(value.len(), 100)).unwrap().is_some());
        }
        for key in keys.iter().step_by(7) {
            cursor.seek(key).unwrap();
            for _ in 0..10 {
                if cursor.valid() {
                    shown += u32::from(cursor.key().len() == 16 && cursor.value().len() == 100);
                    cursor.next().unwrap();
                }
            }
        }
    };
    read_all();
    assert_eq!(allocations(&mut read_all), 0);
    assert_eq!((found, shown > 2 * KEYS), (2 * KEYS, true));
    Ok(())
}

/// The memory of a long value is requested once, for its copy.
#[test]
fn a_long_value_is_copied_into_memory_that_is_requested_once() -> Result<()> {
    // The value stays in the memtable, where a read borrows it.
    let cf = Db::memory()?.create_column_family("rows", CfOptions { large_value_bytes: 0, ..CfOptions::default() })?;
    let value = vec![7; 4 << 20];
    cf.put("long", &value)?;
    assert_eq!(cf.get("long")?.unwrap(), value);
    let bytes = allocated_bytes(|| drop(std::hint::black_box(cf.get("long").unwrap())));
    assert!(bytes >= value.len() && bytes < value.len() * 3 / 2, "{bytes} bytes for {}", value.len());
    Ok(())
}

/// A record is sealed once in its life, by the put; neither its flush nor a merge nor a read makes another seal.
#[test]
fn a_write_is_sealed_once_and_nothing_else_is() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path())?;
    let cf = layers(&db)?;
    let writes = u64::from(KEYS + KEYS / 10 + KEYS / 100 + KEYS / 1000);
    db.settle()?;
    assert!(db.metrics().compactions > 0);
    assert!((0..KEYS).all(|n| cf.contains(key(n)).unwrap()));
    let counts = db.seals().unwrap();
    assert_eq!((counts.computed, counts.mended, counts.derived, counts.missing), (writes, 0, 0, 0));
    Ok(())
}

/// The pieces of a memtable are allocated once in a while, a put never allocates for itself.
#[test]
fn a_put_allocates_nothing_of_its_own() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path())?;
    let cf = db.column_family("default")?;
    let keys: Vec<String> = (0..20_000).map(|n: u32| key(n.wrapping_mul(0x9E37_79B9))).collect();
    let put = |key: &String| {
        cf.put_with(key, [7; 100], WriteOptions::default().durability(Durability::Os)).unwrap();
    };
    put(&keys[0]);
    let pieces = allocations(|| keys.iter().for_each(put));
    assert!(pieces < 700, "{pieces} for 20,000 puts");
    Ok(())
}
