//! Blob files in any world: the tables' references match the pointers of their records. Also checks that find planted
//! bugs.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::sim::{Crash, Loss};
use waxseal_lsm::options::{Durability, Verify};
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::record::Kind;
use waxseal_lsm::values::{BlobFile, walk};

use crate::oracle::Change;
use crate::world::{CONFIGS, Config, World};

/// Checks that each find a planted bug.
pub const ALL: [fn(); 6] = [
    pointers_are_checked,
    values_are_checked,
    values_in_memory_are_checked,
    values_in_memory_are_those_of_their_pointers,
    files_outlive_their_tables_readers,
    values_are_durable_before_they_are_named,
];

type Refs = BTreeMap<Uid, (u64, u64)>;

/// Checks by a full scan that each table's pointers and bytes match its metadata, that each file matches the manifest,
/// and that every pointer refers to a file.
pub fn check(db: &Db) {
    for family in db.families() {
        let Ok(tables) = db.tables(&family) else { return };
        let mut all = Refs::new();
        for table in tables {
            let Ok(open) = table.table() else { continue };
            let (mut found, mut cursor) = (Refs::new(), open.cursor(false));
            let mut moved = cursor.first();
            while moved.is_ok() && cursor.valid() {
                let record = cursor.record();
                if record.kind == Kind::BlobPointer {
                    let pointer = Pointer::decode(record.value).expect("a pointer in a table");
                    for refs in [&mut found, &mut all] {
                        let of = refs.entry(pointer.uid).or_default();
                        *of = (of.0 + 1, of.1 + pointer.entry_bytes(record.key.len()));
                    }
                }
                moved = cursor.next();
            }
            let said: Refs = table.meta().values.iter().map(|of| (of.file.uid, (of.count, of.bytes))).collect();
            assert!(moved.is_err() || said == found, "{table:?} says {said:?} and holds {found:?}");
        }
        let Ok(files) = db.value_files(&family) else { return };
        for file in files {
            let (live, bytes) = all.remove(&file.meta().unwrap().uid).unwrap_or_default();
            let mut count = 0;
            let name = file.name().to_string();
            let walked = walk(&name, file.file(), file.meta().map(|meta| &**meta), &mut |_| {
                count += 1;
                Ok(())
            });
            if walked.is_ok() {
                assert!(
                    count == file.meta().unwrap().count && live <= count && bytes <= file.meta().unwrap().entry_bytes(),
                    "{name}"
                );
            }
        }
        assert!(all.is_empty(), "pointers into files that no table names: {all:?}");
    }
}

#[test]
fn no_wrong_turn_with_values_is_taken() {
    ALL.iter().for_each(|check| check());
}

/// Creates a sealed, uncompressed store with large values in one table, none of which was read. Its cache keeps no
/// value.
fn with_values() -> World {
    with_values_in(CONFIGS[5])
}

/// Creates the same store with a cache.
fn with_cached_values() -> World {
    with_values_in(Config { cache_bytes: 1 << 20, ..CONFIGS[5] })
}

fn with_values_in(config: Config) -> World {
    let mut world = World::new(31, config);
    world.open().expect("a new store");
    write(&mut world, 1);
    world.db().flush().expect("flush");
    world
}

fn write(world: &mut World, round: u8) {
    for n in 0..12u8 {
        let change = Change::Put("default".into(), vec![b'v', n], vec![n ^ round << 4; 300 + usize::from(n)]);
        world.commit(vec![change], Durability::Os).expect("put");
    }
}

fn pointers_are_checked() {
    let mut bytes = Pointer { value_hash: 77, stored_len: 4000, raw_len: 4000, ..Pointer::default() }.encode();
    assert!(Pointer::decode(&bytes).is_ok());
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Pointer::decode(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

fn values_are_checked() {
    let world = with_values();
    let family = world.db().family("default").expect("default");
    let file = world.db().value_files(&family).expect("files").remove(0);
    let path = world.dir.join(file.name().to_string());
    let mut places = Vec::new();
    walk("v", file.file(), None, &mut |entry| {
        places.push((entry.key.clone(), entry.pointer.offset + 32 + entry.key.len() as u64));
        Ok(())
    })
    .expect("walk");
    for (key, at) in places {
        for bit in [8, 90, 130, 700, 1500] {
            world.sim.flip(&path, at * 8 + bit).expect("flip");
        }
        for verify in [Verify::Always, Verify::Never, Verify::OnFill] {
            let mut found = None;
            let read = world.db().get_checked(&family, &key, At::Latest, verify, &mut |record| {
                found = Some(record.value.to_vec());
            });
            match read {
                Ok(_) => assert_eq!(found.as_ref(), world.oracle.now()["default"].get(&key), "a value that was hit"),
                Err(error) => assert!(error.is_corruption()),
            }
        }
    }
}

/// Returns each key of a family with its pointer and its blob file.
fn pointers(world: &World) -> Vec<(Arc<BlobFile>, Vec<u8>, Pointer)> {
    let family = world.db().family("default").expect("default");
    let files = world.db().value_files(&family).expect("files");
    let mut all = Vec::new();
    for key in world.oracle.now()["default"].keys() {
        let read = world.db().get_record(&family, key, At::Latest, Verify::Always, &mut |record| {
            if record.kind == Kind::BlobPointer {
                let pointer = Pointer::decode(record.value).expect("a pointer");
                let file = files.iter().find(|file| file.meta().is_some_and(|meta| meta.uid == pointer.uid));
                all.push((file.expect("a file that tables point into").clone(), key.clone(), pointer));
            }
        });
        assert!(read.expect("a read"));
    }
    assert!(!all.is_empty());
    all
}

fn values_in_memory_are_checked() {
    let world = with_cached_values();
    for (file, key, pointer) in pointers(&world) {
        for (n, verify) in [Verify::Always, Verify::OnFill].into_iter().enumerate() {
            for _ in 0..2 {
                assert_eq!(read(&world, &key, verify).as_ref(), world.oracle.now()["default"].get(&key));
            }
            assert!(file.hit_in_memory(&pointer, 100 * (n + 1), 1 << n), "a value that was read stays in memory");
            assert_eq!(
                read(&world, &key, verify).as_ref(),
                world.oracle.now()["default"].get(&key),
                "a value that was hit"
            );
            // It is cached again, with the written bytes.
            assert!(file.hit_in_memory(&pointer, 0, 0));
            assert_eq!(read(&world, &key, Verify::Never).as_ref(), world.oracle.now()["default"].get(&key));
        }
    }
}

fn values_in_memory_are_those_of_their_pointers() {
    let mut world = with_cached_values();
    for n in 0..=u8::MAX {
        let change = Change::Put("default".into(), vec![b'w', n], vec![n; 200 + usize::from(n)]);
        world.commit(vec![change], Durability::Os).expect("put");
    }
    world.db().flush().expect("flush");
    let now = world.oracle.now()["default"].clone();
    for verify in [Verify::Never, Verify::Always, Verify::Never] {
        for (key, value) in &now {
            assert_eq!(read(&world, key, verify).as_ref(), Some(value), "{}", key.escape_ascii());
        }
    }
}

fn read(world: &World, key: &[u8], verify: Verify) -> Option<Vec<u8>> {
    let (family, mut found) = (world.db().family("default").expect("default"), None);
    let read =
        world.db().get_checked(&family, key, At::Latest, verify, &mut |record| found = Some(record.value.to_vec()));
    read.expect("a value that can be had");
    found
}

fn files_outlive_their_tables_readers() {
    let mut world = with_values();
    // The writing store keeps the file open; after a reopen it is closed.
    world.db().close().expect("close");
    world.db = None;
    world.open().expect("open");
    let family = world.db().family("default").expect("default");
    let all = (Bound::Unbounded, Bound::Unbounded);
    let before = world.oracle.now()["default"].clone();
    let mut cursor = world.db().cursor(&family, At::Latest, all.clone()).expect("cursor");
    // Every value is hidden, so the file becomes obsolete without being read.
    write(&mut world, 2);
    world.db().compact(&family, &all).expect("compact");
    world.db().settle().expect("settle");
    let mut seen = BTreeMap::new();
    cursor.first().expect("first");
    while cursor.valid() {
        seen.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next().expect("next");
    }
    assert_eq!(seen, before);
    drop(cursor);
    world.db().settle().expect("settle");
    write(&mut world, 3);
    world.db().compact(&family, &all).expect("compact");
    let left = world.sim.files(&world.dir).into_iter().filter(|name| name.ends_with(".val")).count();
    assert_eq!(left, world.db().value_files(&family).expect("files").len(), "a file that nobody names stays");
    world.check();
}

fn values_are_durable_before_they_are_named() {
    for loss in [Loss::DurableOnly, Loss::Random { seed: 5 }] {
        let mut world = with_values();
        world.check();
        world.crash(Crash::Machine(loss));
        world.check();
    }
}

/// Values damaged while only the log holds their records: after any crash, each key returns the last written value or
/// corruption.
#[test]
fn a_value_of_the_log_that_is_hit_is_never_an_older_one() {
    for config in [CONFIGS[4], CONFIGS[5], CONFIGS[10]] {
        let (mut lost, mut found) = (0, 0);
        for seed in 0..6u64 {
            let mut world = World::new(seed, config);
            world.open().expect("a new store");
            write(&mut world, 1);
            world.db().flush().expect("flush");
            write(&mut world, 2);
            world.kill(Crash::Process);
            // The file of the second round is the last one; some of its entries get a burst error.
            let files = world.sim.files(&world.dir).into_iter().filter(|name| name.ends_with(".val"));
            let path = world.dir.join(files.max().expect("a file that the log points into"));
            let mut bytes = world.sim.read_all(&path).expect("read");
            for _ in 0..=seed {
                let at = world.below(bytes.len() as u64 - 80) as usize + 64;
                bytes[at..at + 16].iter_mut().for_each(|byte| *byte ^= 0xA5);
            }
            world.sim.write_all(&path, &bytes).expect("write");
            world.open().expect("open");
            assert_eq!(world.db().recovery().cut_bytes, 0);
            for round in 0..2 {
                let family = world.db().family("default").expect("default");
                for (key, value) in &world.oracle.now()["default"] {
                    let mut read = None;
                    match world.db().get(&family, key, At::Latest, &mut |record| read = Some(record.value.to_vec())) {
                        Ok(_) => assert_eq!(read.as_ref(), Some(value), "{}, seed {seed}: {key:?}", config.name),
                        Err(error) => assert!(error.is_corruption(), "{error}"),
                    }
                    lost += usize::from(read.is_none());
                    found += usize::from(read.is_some());
                }
                if round == 0 {
                    world.db().flush().expect("flush");
                    world.db().close().expect("close");
                    world.db = None;
                    world.open().expect("open again");
                }
            }
        }
        assert!(lost > 4 && found > 50, "{}: {lost} lost, {found} found", config.name);
    }
}
