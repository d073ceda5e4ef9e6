//! Large values: where they are stored, how they are read, and when their files are removed.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::cursor::ListCursor;
use waxseal_lsm::db::{At, Db, Event, Family, Parts, Precondition};
use waxseal_lsm::env::sim::{Fault, SimFs};
use waxseal_lsm::env::{Env, Open, SeededRandom};
use waxseal_lsm::options::{CfOptions, Durability, Settings, Verify};
use waxseal_lsm::record::{Kind, OwnedRecord};
use waxseal_lsm::seam::Protection;
use waxseal_lsm::values::walk;
use waxseal_testing::listener::Heard;
use waxseal_testing::protector::TestProtector;
use waxseal_testing::store::*;

fn parts_of(sim: &SimFs) -> Parts {
    let options = CfOptions { large_value_bytes: 100, ..options() };
    let families = vec![("default".to_owned(), options)];
    Parts { families, companions: Arc::new(TestProtector::default()), ..parts(sim.env(sim.steps())) }
}

/// Returns settings with a memtable so large that it fills only on request.
fn roomy() -> Settings {
    Settings { memtable_bytes: 1 << 20, ..settings() }
}

fn open_with_values(sim: &SimFs, dir: &Path) -> Db {
    Db::open(dir, roomy(), parts_of(sim)).unwrap()
}

fn key(n: usize) -> Vec<u8> {
    format!("key-{n:03}").into_bytes()
}

/// Returns a value; every third is small, the others have 100 bytes to 3 kB.
fn value(n: usize, round: usize) -> Vec<u8> {
    let length = if n.is_multiple_of(3) { n % 50 } else { 100 + n * 37 % 3000 };
    (0..length).map(|at| (at * (n + 7) + round * 131) as u8 ^ (at >> 3) as u8).collect()
}

fn write(db: &Db, numbers: impl Iterator<Item = usize>, round: usize) {
    for n in numbers {
        put(db, &default(db), &key(n), &value(n, round), Durability::Os).unwrap();
    }
}

fn expected(count: usize, round: impl Fn(usize) -> usize) -> Rows {
    (0..count).map(|n| (key(n), value(n, round(n)))).collect()
}

/// Checks that tables count exactly the blob file entries that their records point to, that the files match the
/// manifest, and that no other file exists. Returns the bytes of all entries and of the live ones.
fn check_files(sim: &SimFs, dir: &Path, db: &Db) -> (u64, u64) {
    let (mut all, mut alive, mut names) = (0, 0, Vec::new());
    for family in db.families() {
        let mut said = std::collections::BTreeMap::<_, (u64, u64)>::new();
        for table in db.tables(&family).unwrap() {
            let mut found = std::collections::BTreeMap::<_, (u64, u64)>::new();
            let mut cursor = table.table().unwrap().cursor(false);
            use waxseal_lsm::cursor::Cursor;
            cursor.first().unwrap();
            while cursor.valid() {
                let record = cursor.record();
                if record.kind == Kind::BlobPointer {
                    let pointer = waxseal_lsm::pointer::Pointer::decode(record.value).unwrap();
                    let of = found.entry(pointer.uid).or_default();
                    *of = (of.0 + 1, of.1 + pointer.entry_bytes(record.key.len()));
                }
                cursor.next().unwrap();
            }
            let table_says = table.meta().values.iter().map(|of| (of.file.uid, (of.count, of.bytes)));
            assert_eq!(table_says.collect::<std::collections::BTreeMap<_, _>>(), found, "{table:?}");
            found.iter().for_each(|(uid, (count, bytes))| {
                let of = said.entry(*uid).or_default();
                *of = (of.0 + count, of.1 + bytes);
            });
        }
        for file in db.value_files(&family).unwrap() {
            let mut count = 0;
            let name = file.name().to_string();
            walk(&name, file.file(), file.meta().map(|meta| &**meta), &mut |_| {
                count += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(count, file.meta().unwrap().count);
            let (live, bytes) = said.remove(&file.meta().unwrap().uid).unwrap();
            assert!(live <= count && bytes <= file.meta().unwrap().entry_bytes());
            all += file.meta().unwrap().entry_bytes();
            alive += bytes;
            names.push(name);
        }
        assert!(said.is_empty(), "pointers into no file");
    }
    names.sort();
    assert_eq!(named(sim, dir, ".val"), names, "files that nobody names");
    (all, alive)
}

#[test]
fn large_values_stand_apart_and_every_read_finds_them() {
    let (sim, dir) = sim(1);
    let db = open_with_values(&sim, &dir);
    write(&db, 0..60, 1);
    let rows_now = expected(60, |_| 1);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), rows_now, "from memory");
    assert_eq!(named(&sim, &dir, ".val").len(), 1, "the log and the memtable point to them");
    let before = db.snapshot().unwrap();
    db.flush().unwrap();
    let family = default(&db);
    let (all, alive) = check_files(&sim, &dir, &db);
    assert!(all == alive && all > 20_000, "{all} {alive}");
    let tables: u64 = db.tables(&family).unwrap().iter().map(|table| table.meta().size).sum();
    assert!(tables < 16_000, "tables take {tables} bytes");
    reads(&db, &family, &rows_now);
    db.settle().unwrap();
    reads(&db, &family, &rows_now);
    assert_eq!(rows(&db, &family, At::Snapshot(&before)).unwrap(), rows_now);
    assert_eq!(check_files(&sim, &dir, &db), (all, alive), "moves and merges write no value");
    drop(before);
    kill(&sim, db);
    let db = open_with_values(&sim, &dir);
    reads(&db, &default(&db), &rows_now);
    db.close().unwrap();
    let beside = Db::open_read_only(&dir, roomy(), parts_of(&sim)).unwrap();
    reads(&beside, &default(&beside), &rows_now);
    // A writer rewrites all values: the reader first sees its old state, and after a refresh the new one.
    let db = open_with_values(&sim, &dir);
    write(&db, 0..60, 2);
    db.compact(&default(&db), &ALL).unwrap();
    db.settle().unwrap();
    reads(&beside, &default(&beside), &rows_now);
    beside.refresh().unwrap();
    reads(&beside, &default(&beside), &expected(60, |_| 2));
}

/// Checks every way to read.
fn reads(db: &Db, family: &Family, all: &Rows) {
    assert_eq!(rows(db, family, At::Latest).unwrap(), *all);
    let mut cursor = db.cursor(family, At::Latest, ALL).unwrap();
    cursor.last().unwrap();
    for (key, value) in all.iter().rev() {
        assert_eq!((cursor.key(), cursor.value(), cursor.record().kind), (&key[..], &value[..], Kind::Put));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    let keys: Vec<&[u8]> = all.iter().map(|(key, _)| &key[..]).collect();
    let mut many = vec![None; keys.len()];
    db.multi_get(family, &keys, At::Latest, &mut |n, record| many[n] = Some(record.value.to_vec())).unwrap();
    for ((key, value), of_many) in all.iter().zip(many) {
        assert_eq!(of_many.as_ref(), Some(value));
        for verify in [Verify::Always, Verify::Never, Verify::OnFill] {
            let mut found = None;
            let is_there = db.get_checked(family, key, At::Latest, verify, &mut |record| {
                assert_eq!((record.key, record.kind), (&key[..], Kind::Put));
                assert!(TestProtector::is_right(record), "the very word of the put");
                found = Some(record.value.to_vec());
            });
            assert!(is_there.unwrap());
            assert_eq!(found.as_ref(), Some(value));
        }
        let mut as_it_lies = None;
        db.get_record(family, key, At::Latest, Verify::Always, &mut |record| as_it_lies = Some(record.kind)).unwrap();
        let large = value.len() >= 100;
        assert_eq!(as_it_lies, Some(if large { Kind::BlobPointer } else { Kind::Put }));
        let resident = db.get_resident(family, key, At::Latest, Verify::Always, &mut |_| {}).unwrap();
        assert_eq!(resident, Some(true), "what was read stays in memory");
        let found = db.locate(family, key, At::Latest).unwrap().unwrap();
        assert_eq!(found.kind, Kind::Put);
    }
    let mut keys = db.cursor(family, At::Latest, ALL).unwrap().without_values();
    keys.first().unwrap();
    let mut count = 0;
    while keys.valid() {
        count += 1;
        keys.next().unwrap();
    }
    assert_eq!(count, all.len());
}

#[test]
fn garbage_is_collected_and_what_a_snapshot_sees_is_kept() {
    let (sim, dir) = sim(2);
    let db = open_with_values(&sim, &dir);
    let family = default(&db);
    write(&db, 0..60, 1);
    db.settle().unwrap();
    db.compact(&family, &ALL).unwrap();
    let first: Vec<String> = named(&sim, &dir, ".val");
    let held = db.snapshot().unwrap();
    for n in (0..60).filter(|n| n % 4 != 0) {
        put(&db, &family, &key(n), &value(n, 2), Durability::Os).unwrap();
    }
    let now = expected(60, |n| if n % 4 == 0 { 1 } else { 2 });
    db.compact(&family, &ALL).unwrap();
    db.settle().unwrap();
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), now);
    assert_eq!(rows(&db, &family, At::Snapshot(&held)).unwrap(), expected(60, |_| 1));
    check_files(&sim, &dir, &db);
    // A cursor opened while the values are live can still read them later.
    let mut cursor = db.cursor(&family, At::Snapshot(&held), ALL).unwrap();
    cursor.first().unwrap();
    drop(held);
    db.compact(&family, &ALL).unwrap();
    for n in (0..60).filter(|n| n % 4 != 0) {
        put(&db, &family, &key(n), &value(n, 3), Durability::Os).unwrap();
    }
    db.compact(&family, &ALL).unwrap();
    db.settle().unwrap();
    let mut seen = Rows::new();
    while cursor.valid() {
        seen.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().unwrap();
    }
    assert_eq!(seen, expected(60, |_| 1));
    drop(cursor);
    while db.step().unwrap() {} // the background removes obsolete files
    let metrics = db.metrics();
    assert!(metrics.values_moved > 0, "{metrics}");
    let (all, alive) = check_files(&sim, &dir, &db);
    assert!(all - alive <= alive / 8, "{alive} of {all} bytes are alive");
    let values = metrics.families.iter().find(|family| family.name == "default").unwrap().values;
    assert_eq!((values.garbage, values.bytes > 0), (all - alive, true));
    assert!(named(&sim, &dir, ".val").iter().all(|name| !first.contains(name)), "the first files are gone");
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), expected(60, |n| if n % 4 == 0 { 1 } else { 3 }));
    kill(&sim, db);
    let db = open_with_values(&sim, &dir);
    assert_eq!(check_files(&sim, &dir, &db), (all, alive));
}

#[test]
fn orphans_go_when_the_store_is_opened_and_files_go_with_their_family() {
    let (sim, dir) = sim(3);
    let db = open_with_values(&sim, &dir);
    let options = CfOptions { large_value_bytes: 64, ..options() };
    let other = db.create_family("other", options).unwrap();
    for n in 0..20 {
        put(&db, &other, &key(n), &value(n * 3 + 1, 1), Durability::Os).unwrap();
    }
    write(&db, 0..20, 1);
    db.flush().unwrap();
    let before = named(&sim, &dir, ".val").len();
    db.drop_family("other").unwrap();
    drop(other);
    check_files(&sim, &dir, &db);
    let own = named(&sim, &dir, ".val").len();
    assert!(own > 0 && own < before, "{own} of {before}");
    let env = sim.env(1);
    let orphan = env.fs.open(&dir.join("009999.val"), Open::Create).unwrap();
    let header = waxseal_lsm::header::FileHeader::new(waxseal_lsm::header::FileKind::Values, env.random.uid()).encode();
    orphan.write_at(&[&header[..], b"left by a crash"].concat(), 0).unwrap();
    orphan.sync_data().unwrap();
    kill(&sim, db);
    let db = open_with_values(&sim, &dir);
    while db.step().unwrap() {}
    assert_eq!(named(&sim, &dir, ".val").len(), own);
    check_files(&sim, &dir, &db);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(20, |_| 1));
}

#[test]
fn a_checkpoint_takes_the_files_along() {
    let (sim, dir) = sim(4);
    let db = open_with_values(&sim, &dir);
    write(&db, 0..40, 1);
    db.settle().unwrap();
    write(&db, 10..20, 2);
    let now = rows(&db, &default(&db), At::Latest).unwrap();
    let copy = dir.join("copy");
    db.checkpoint(&copy).unwrap();
    write(&db, 0..40, 3);
    db.compact(&default(&db), &ALL).unwrap();
    db.settle().unwrap();
    db.close().unwrap();
    let copied = open_with_values(&sim, &copy);
    assert_eq!(rows(&copied, &default(&copied), At::Latest).unwrap(), now);
    check_files(&sim, &copy, &copied);
}

#[test]
fn a_value_that_is_hit_costs_its_record_and_no_older_one_takes_its_place() {
    let (sim, dir) = sim(5);
    let options = |families: &mut Vec<(String, CfOptions)>| {
        families[0].1.compression = waxseal_lsm::options::Compression::None;
    };
    let open = || {
        let mut parts = parts_of(&sim);
        options(&mut parts.families);
        Db::open(&dir, roomy(), parts).unwrap()
    };
    let db = open();
    write(&db, 0..30, 1);
    db.flush().unwrap();
    write(&db, 0..30, 2);
    db.flush().unwrap();
    let family = default(&db);
    let files = db.value_files(&family).unwrap().into_iter();
    let file = files.max_by_key(|file| (file.meta().unwrap().count.min(9), file.meta().unwrap().number)).unwrap();
    let mut entries = Vec::new();
    walk("v", file.file(), None, &mut |entry| {
        entries.push(entry);
        Ok(())
    })
    .unwrap();
    let hit = &entries[3];
    let at = hit.pointer.offset + 32 + hit.key.len() as u64;
    // Bits in distant bytes of a value this long: no correction is possible.
    let raw = sim.env(2).fs.open(&dir.join(file.name().to_string()), Open::Write).unwrap();
    for (place, bits) in [(at, 0x41), (at + 40, 0x22), (at + 90, 0x18)] {
        let mut byte = [0];
        raw.read_at(&mut byte, place).unwrap();
        raw.write_at(&[byte[0] ^ bits], place).unwrap();
    }
    let error = get(&db, &family, &hit.key, At::Latest).unwrap_err();
    let damage = error.damage().unwrap();
    assert_eq!((damage.file.clone(), damage.cf.as_deref()), (file.name().to_string(), Some("default")));
    assert_eq!(damage.key_range, Some((hit.key.clone(), hit.key.clone())));
    let others: Rows = expected(30, |_| 2).into_iter().filter(|(key, _)| *key != hit.key).collect();
    for forward in [true, false] {
        let mut cursor = db.cursor(&family, At::Latest, ALL).unwrap();
        let (mut seen, mut errors) = (Rows::new(), 0);
        let mut moved = if forward { cursor.first() } else { cursor.last() };
        loop {
            match moved {
                Err(error) => {
                    assert!(error.is_corruption());
                    errors += 1;
                }
                Ok(()) if !cursor.valid() => break,
                Ok(()) => seen.push((cursor.key().to_vec(), cursor.value().to_vec())),
            }
            moved = if forward { cursor.next() } else { cursor.prev() };
        }
        seen.sort();
        assert_eq!((errors, &seen), (1, &others), "forward: {forward}");
    }
    // Its companions are still readable, and compactions copy the record.
    assert!(db.get_record(&family, &hit.key, At::Latest, Verify::Always, &mut |_| {}).unwrap());
    write(&db, (0..30).filter(|n| key(*n) != hit.key), 3);
    db.compact(&family, &ALL).unwrap();
    db.settle().unwrap();
    assert!(get(&db, &family, &hit.key, At::Latest).unwrap_err().is_corruption());
    assert!(db.metrics().values_unreadable > 0);
    let later: Rows = expected(30, |_| 3).into_iter().filter(|(key, _)| *key != hit.key).collect();
    for (key, value) in later {
        assert_eq!(get(&db, &family, &key, At::Latest).unwrap(), Some(value));
    }
    drop(file);
    kill(&sim, db);
    let db = open();
    assert!(get(&db, &default(&db), &hit.key, At::Latest).unwrap_err().is_corruption());
}

/// All records of an ingestion have the same seqno. Damage to their values is still reported separately, also by scans.
#[test]
fn each_value_of_an_ingestion_that_is_hit_is_told_of_once() {
    let (sim, dir) = sim(19);
    let told = Heard::new(|event| match event {
        Event::Corruption { error } => error.damage().unwrap().key_range.clone().map(|(first, _)| first),
        _ => None,
    });
    let db = Db::open(&dir, roomy(), Parts { listener: told.clone(), ..unpacked(&sim) }).unwrap();
    let family = default(&db);
    let (seqno, kind) = (1, Kind::Put);
    let record = |n: usize| OwnedRecord { key: key(n), seqno, kind, value: vec![n as u8; 1000], companion: Vec::new() };
    let records: Vec<OwnedRecord> = (0..12).map(record).collect();
    let list = || ListCursor::new(family.order().clone(), records.clone(), Protection::None);
    db.ingest(&family, &mut || Ok(Box::new(list()))).unwrap();
    let files = db.value_files(&family).unwrap();
    assert_eq!(files.len(), 1);
    let mut entries = Vec::new();
    walk("v", files[0].file(), None, &mut |entry| {
        entries.push(entry);
        Ok(())
    })
    .unwrap();
    let mut hit: Vec<Vec<u8>> = [3, 8].map(|n: usize| entries[n].key.clone()).to_vec();
    for n in [3, 8] {
        let at = entries[n].pointer.offset + 32 + entries[n].key.len() as u64;
        // More bits than can be corrected.
        for (byte, bit) in [(0, 1), (40, 4), (41, 6), (90, 2)] {
            sim.flip(dir.join(files[0].name().to_string()), (at + byte) * 8 + bit).unwrap();
        }
    }
    let before = db.metrics().integrity.gaps_met;
    for forward in [true, false] {
        let mut cursor = db.cursor(&family, At::Latest, ALL).unwrap();
        let (mut rows, mut errors) = (0, 0);
        let mut moved = if forward { cursor.first() } else { cursor.last() };
        while moved.is_err() || cursor.valid() {
            if moved.is_ok() {
                rows += 1
            } else {
                errors += 1
            }
            moved = if forward { cursor.next() } else { cursor.prev() };
        }
        assert_eq!((rows, errors), (10, 2), "forward: {forward}");
    }
    assert_eq!(db.metrics().integrity.gaps_met - before, 4);
    hit.iter().for_each(|key| assert!(get(&db, &family, key, At::Latest).unwrap_err().is_corruption()));
    let mut found = told.all();
    found.sort();
    hit.sort();
    assert_eq!(found, hit, "each once, whoever comes by it");
}

#[test]
fn a_store_that_knew_no_value_files_gets_none_by_being_opened() {
    let (sim, dir) = sim(6);
    let none = |sim: &SimFs| {
        let mut parts = parts_of(sim);
        parts.families[0].1.large_value_bytes = 0;
        parts
    };
    let db = Db::open(&dir, roomy(), none(&sim)).unwrap();
    write(&db, 0..30, 1);
    db.settle().unwrap();
    assert_eq!(named(&sim, &dir, ".val").len(), 0);
    db.close().unwrap();
    // Blob separation can be enabled and disabled again: separated values stay readable until they are rewritten.
    let db = open_with_values(&sim, &dir);
    write(&db, 0..30, 2);
    db.flush().unwrap();
    assert!(!named(&sim, &dir, ".val").is_empty());
    db.close().unwrap();
    let db = Db::open(&dir, roomy(), none(&sim)).unwrap();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(30, |_| 2));
    write(&db, 0..30, 3);
    db.compact(&default(&db), &ALL).unwrap();
    db.settle().unwrap();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(30, |_| 3));
    assert_eq!(named(&sim, &dir, ".val").len(), 0, "nobody points to them any more");
}

/// Returns the bytes that flushes and compactions write per byte of user data, for 2 kB values in random order.
fn written_per_byte(large_value_bytes: usize) -> f64 {
    let (sim, dir) = sim(7);
    let mut parts = parts_of(&sim);
    parts.families[0].1.large_value_bytes = large_value_bytes;
    parts.families[0].1.compression = waxseal_lsm::options::Compression::None;
    let db = Db::open(&dir, settings(), parts).unwrap();
    let mut bytes = 0;
    for n in 0..400usize {
        let (key, value) = (key(n * 7919 % 997), vec![n as u8; 2000]);
        bytes += key.len() + value.len();
        put(&db, &default(&db), &key, &value, Durability::Os).unwrap();
        if n % 7 == 6 {
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
    }
    db.settle().unwrap();
    let metrics = db.metrics();
    (metrics.flushed_bytes + metrics.compacted_written) as f64 / bytes as f64
}

#[test]
fn compactions_do_not_write_large_values_again() {
    let (inline, apart) = (written_per_byte(0), written_per_byte(100));
    println!("bytes written to tables and value files for each byte: {inline:.2} inline, {apart:.2} apart");
    assert!(apart < 1.6 && inline > 2.0 * apart, "{inline:.2} inline, {apart:.2} apart");
}

/// Returns the bytes written to files with this suffix, from a transcript.
fn written_to(trace: &str, end: &str) -> usize {
    let lengths = trace.lines().filter_map(|line| {
        let (name, range) = line.strip_prefix("write ")?.split_once(' ')?;
        let (_, length) = range.split_once('+')?;
        name.ends_with(end).then(|| length.parse::<usize>().unwrap())
    });
    lengths.sum()
}

#[test]
fn a_large_value_is_written_once() {
    for (durability, times) in [(Durability::Os, 1), (Durability::Buffered, 1), (Durability::Sync, 2)] {
        let (sim, dir) = sim(8);
        let mut parts = unpacked(&sim);
        let fs = waxseal_lsm::env::TracedFs::new(parts.env.fs.clone(), &dir);
        let healed = Heard::new(|event| matches!(event, Event::Healed { .. }).then_some(()));
        (parts.env.fs, parts.listener) = (Arc::new(fs.clone()), healed.clone());
        let db = Db::open(&dir, roomy(), parts).unwrap();
        fs.take();
        for n in 0..30 {
            put(&db, &default(&db), &key(n), &[n as u8; 2000], durability).unwrap();
        }
        assert_eq!(named(&sim, &dir, ".val").len(), 2 - times, "{durability:?}");
        db.sync().unwrap();
        db.flush().unwrap();
        let (trace, bytes) = (fs.take(), 30 * 2000);
        let (values, log) = (written_to(&trace, ".val"), written_to(&trace, ".log"));
        assert!((bytes..bytes + 30 * 60).contains(&values), "{durability:?}: {values} to value files");
        assert_eq!(log > bytes, times == 2, "{durability:?}: {log} to the log");
        let (all, alive) = check_files(&sim, &dir, &db);
        assert_eq!((all, healed.all().len()), (alive, 0), "a flush was done again");
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap().len(), 30);
    }
}

#[test]
fn what_is_small_or_may_not_wait_goes_with_the_log() {
    let (sim, dir) = sim(9);
    let db = open_with_values(&sim, &dir);
    let family = default(&db);
    put(&db, &family, b"small", &[1; 99], Durability::Os).unwrap();
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, b"at once", &[2; 500], db.companions()).unwrap();
    assert!(
        db.commit_if(&mut batch, Durability::Os, Precondition::epoch(db.epoch()).without_waiting()).unwrap().is_some()
    );
    assert_eq!(named(&sim, &dir, ".val").len(), 0);
    put(&db, &family, b"large", &[3; 100], Durability::Os).unwrap();
    assert_eq!(named(&sim, &dir, ".val").len(), 1);
    kill(&sim, db);
    let db = open_with_values(&sim, &dir);
    let found: Vec<usize> =
        rows(&db, &default(&db), At::Latest).unwrap().iter().map(|(_, value)| value.len()).collect();
    assert_eq!(found, [500, 100, 99]);
    while db.step().unwrap() {}
    check_files(&sim, &dir, &db);
}

/// Returns parts without compression.
fn unpacked(sim: &SimFs) -> Parts {
    let mut parts = parts_of(sim);
    parts.families[0].1.compression = waxseal_lsm::options::Compression::None;
    parts
}

/// Makes three commits, and returns the location of the second one's value in the blob file that the log points into.
fn three_commits(sim: &SimFs, dir: &Path) -> (std::path::PathBuf, u64) {
    let db = Db::open(dir, roomy(), unpacked(sim)).unwrap();
    for n in 0..3u8 {
        put(&db, &default(&db), &[n], &[n; 1000], Durability::Os).unwrap();
    }
    kill(sim, db);
    let files = named(sim, dir, ".val");
    assert_eq!(files.len(), 1);
    (dir.join(&files[0]), 64 + 1000 + 38 + 100)
}

#[test]
fn one_bit_of_a_value_that_the_log_points_to_is_corrected() {
    let (sim, dir) = sim(11);
    let (path, place) = three_commits(&sim, &dir);
    sim.flip(&path, place * 8).unwrap();
    let db = open_with_values(&sim, &dir);
    let expected: Rows = (0..3u8).map(|n| (vec![n], vec![n; 1000])).collect();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected);
}

#[test]
fn a_reader_beside_the_writer_sees_values_that_no_table_points_to() {
    let (sim, dir) = sim(12);
    let db = open_with_values(&sim, &dir);
    write(&db, 0..30, 1);
    let beside = Db::open_read_only(&dir, roomy(), parts_of(&sim)).unwrap();
    assert_eq!(rows(&beside, &default(&beside), At::Latest).unwrap(), expected(30, |_| 1));
    // The writer flushes and rewrites all values, and the file is removed.
    write(&db, 0..30, 2);
    db.compact(&default(&db), &ALL).unwrap();
    db.settle().unwrap();
    assert_eq!(rows(&beside, &default(&beside), At::Latest).unwrap(), expected(30, |_| 1));
    beside.refresh().unwrap();
    assert_eq!(rows(&beside, &default(&beside), At::Latest).unwrap(), expected(30, |_| 2));
}

/// A reader holds the log's pointers, not the values, and its files still belong to the writer after their release.
#[test]
fn a_reader_keeps_no_value_of_the_log_in_memory_and_removes_no_file() {
    let (sim, dir) = sim(15);
    let db = open_with_values(&sim, &dir);
    write(&db, 0..200, 1);
    let values: usize = (0..200).map(|n| value(n, 1).len()).sum();
    let beside = Db::open_read_only(&dir, roomy(), parts_of(&sim)).unwrap();
    let held = beside.metrics().families[0].memtable_bytes;
    assert!(held < values as u64 / 2, "{held} bytes in memory, {values} of values");
    for round in 2..5 {
        write(&db, 0..200, round);
        beside.refresh().unwrap();
        assert_eq!(rows(&beside, &default(&beside), At::Latest).unwrap(), expected(200, |_| round));
    }
    beside.close().unwrap();
    drop(beside);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(200, |_| 4));
    kill(&sim, db);
    let db = open_with_values(&sim, &dir);
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(200, |_| 4));
}

/// At each attempt, values that the log points to are removed after the manifest was read. Files opened by then stay
/// readable.
#[test]
fn a_reader_beside_a_writer_of_values_that_die_young_is_not_kept_waiting() {
    let (sim, dir) = sim(17);
    let db = open_with_values(&sim, &dir);
    let long = |n: usize| vec![n as u8; 1000];
    put(&db, &default(&db), b"k", &long(0), Durability::Os).unwrap();
    let env = sim.env(9);
    let (fs, gates) = waxseal_testing::gates::GatedFs::new(env.fs);
    let parts = Parts { env: Env { fs: Arc::new(fs), ..env }, ..parts_of(&sim) };
    for n in 1..40 {
        let writer = db.clone();
        gates.before_segments.push(move || {
            put(&writer, &default(&writer), b"k", b"short", Durability::Os).unwrap();
            writer.flush().unwrap();
            while writer.step().unwrap() {} // removes the file
            put(&writer, &default(&writer), b"k", &long(n), Durability::Os).unwrap();
        });
    }
    let beside = Db::open_read_only(&dir, roomy(), parts).unwrap();
    assert_eq!(get(&beside, &default(&beside), b"k", At::Latest).unwrap(), Some(long(0)));
    assert!(!gates.before_segments.are_over());
    assert!(!named(&sim, &dir, ".val").contains(&"000005.val".to_owned()), "the value is in no file that has a name");
}

#[test]
fn a_flush_that_finds_no_room_is_tried_again() {
    let (sim, dir) = sim(14);
    let db = open_with_values(&sim, &dir);
    write(&db, 0..30, 1);
    // The footer is written first.
    sim.fail_at(sim.steps(), Fault::Error(std::io::ErrorKind::StorageFull));
    db.flush().unwrap_err();
    sim.clear_faults();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(30, |_| 1));
    put(&db, &default(&db), &key(1), &value(1, 1), Durability::Os).unwrap();
    db.flush().unwrap();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(30, |_| 1));
}

#[test]
fn a_memtable_is_flushed_when_it_points_to_as_much_as_it_may_hold() {
    let (sim, dir) = sim(13);
    let db = Db::open(&dir, Settings { memtable_bytes: 64 << 10, ..settings() }, unpacked(&sim)).unwrap();
    for n in 0..40 {
        put(&db, &default(&db), &key(n), &[n as u8; 4000], Durability::Os).unwrap();
        while db.step().unwrap() {}
    }
    assert!(db.metrics().flushes >= 2, "{} flushes of 160 kB", db.metrics().flushes);
    // No background step runs: a writer that finds two waiting memtables and a full third one is throttled, and flushes
    // them itself.
    let before = db.metrics().flushes;
    for n in 0..200 {
        put(&db, &default(&db), &key(n), &[n as u8; 4000], Durability::Os).unwrap();
    }
    assert!(db.metrics().flushes >= before + 4, "{} flushes of 800 kB", db.metrics().flushes - before);
    check_files(&sim, &dir, &{
        db.flush().unwrap();
        db.clone()
    });
}

/// The disk of a settled store holds at most an eighth more values than the store has rows; no pointer hides another
/// pointer's value.
#[test]
fn a_settled_store_holds_little_besides_one_value_a_row() {
    let (sim, dir) = sim(3);
    let db = open_with_values(&sim, &dir);
    let family = default(&db);
    write(&db, 0..80, 1);
    db.settle().unwrap();
    for round in 2..9 {
        write(&db, (0..80).filter(|n| n % 11 == round), round); // less than an eighth
        db.settle().unwrap();
        let tables = db.tables(&family).unwrap();
        let pointers: u64 = tables.iter().flat_map(|table| &table.meta().values).map(|of| of.count).sum();
        assert_eq!(pointers, (0..80).filter(|n| n % 3 > 0).count() as u64, "one of each large value");
        let (all, alive) = check_files(&sim, &dir, &db);
        assert!(all - alive <= alive / 8, "{alive} of {all} bytes are alive");
    }
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 80);
}

/// Versions that a flush dropped are garbage next to the values of a single level-0 table.
#[test]
fn a_settled_store_keeps_nothing_of_what_a_flush_left_out() {
    let (sim, dir) = sim(4);
    let db = open_with_values(&sim, &dir);
    for round in 0..200 {
        write(&db, [1, 2, 4].into_iter(), round);
    }
    db.settle().unwrap();
    let (all, alive) = check_files(&sim, &dir, &db);
    assert!(all - alive <= alive / 8, "{alive} of {all} bytes are alive");
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), [1, 2, 4].map(|n| (key(n), value(n, 199))));
}

/// The log points to values; its recovery must not hold all of them in memory at once.
#[test]
fn a_recovery_makes_room_among_many_families() {
    let (sim, dir) = sim(77);
    let options = CfOptions { large_value_bytes: 100, ..options() };
    let families: Vec<_> = (0..8).map(|n| (format!("family-{n}"), options.clone())).collect();
    let parts = || Parts { families: families.clone(), ..parts_of(&sim) };
    let few = Settings { memtable_bytes: 64 << 10, ..settings() };
    let db = Db::open(&dir, few.clone(), parts()).unwrap();
    for n in 0..16 {
        for (name, _) in &families {
            put(&db, &db.family(name).unwrap(), &key(n), &[n as u8; 3000], Durability::Os).unwrap();
        }
    }
    assert_eq!(db.metrics().flushes, 0, "eight times 48 kB of values are no more than pointers to it");
    kill(&sim, db);
    let db = Db::open(&dir, few, parts()).unwrap();
    let tables = families.iter().map(|(name, _)| db.tables(&db.family(name).unwrap()).unwrap().len()).sum::<usize>();
    assert!(tables > 8, "{tables} tables: each family was flushed once, at the end");
    for (name, _) in &families {
        let family = db.family(name).unwrap();
        (0..16).for_each(|n| assert_eq!(get(&db, &family, &key(n), At::Latest).unwrap(), Some(vec![n as u8; 3000])));
    }
}

/// Returns this process's open files in a directory, by suffix.
#[expect(clippy::disallowed_methods, reason = "these are no files of a store")]
fn open_files(dir: &Path, ending: &str) -> usize {
    let is_of_it = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        target.parent() == Some(dir) && target.to_string_lossy().ends_with(ending)
    };
    std::fs::read_dir("/proc/self/fd").unwrap().map(is_of_it).filter(|is_of_it| *is_of_it).count()
}

/// A family with rare writes keeps an unfinished blob file open; the number of such families is bounded.
#[test]
fn few_families_keep_a_value_file_that_is_not_finished() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().canonicalize().unwrap().join("store");
    let options = CfOptions { large_value_bytes: 100, ..options() };
    let families: Vec<_> = (0..40).map(|n| (format!("family-{n}"), options.clone())).collect();
    let parts = Parts { families, companions: Arc::new(TestProtector::default()), ..parts(Env::real()) };
    let db = Db::open(&dir, Settings { open_tables: 16, ..roomy() }, parts).unwrap();
    let families: Vec<_> = (0..40).map(|n| db.family(&format!("family-{n}")).unwrap()).collect();
    for round in 0..3u8 {
        for family in &families {
            put(&db, family, &[round], &[round; 500], Durability::Os).unwrap();
            // Sixteen files may be open, plus four unfinished ones.
            assert!(open_files(&dir, ".val") <= 20, "{}", open_files(&dir, ".val"));
        }
    }
    db.settle().unwrap();
    for (family, round) in families.iter().flat_map(|family| (0..3u8).map(move |round| (family, round))) {
        assert_eq!(get(&db, family, &[round], At::Latest).unwrap(), Some(vec![round; 500]));
    }
}

#[test]
fn few_value_files_stay_open_whoever_wrote_them() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().canonicalize().unwrap().join("store");
    let store = |settings: Settings| {
        let options = CfOptions { large_value_bytes: 100, ..options() };
        let families = vec![("default".to_owned(), options)];
        let parts = Parts { families, companions: Arc::new(TestProtector::default()), ..parts(Env::real()) };
        Db::open(&dir, settings, parts).unwrap()
    };
    let few = Settings { open_tables: 8, ..roomy() };
    let db = store(few.clone());
    for n in 0..30 {
        write(&db, [3 * n + 1].into_iter(), 0);
        db.flush().unwrap();
        assert!(open_files(&dir, ".val") <= 8, "{} after {n} flushes", open_files(&dir, ".val"));
    }
    let read_all = |db: &Db| {
        for _ in 0..2 {
            for n in 0..30 {
                let found = get(db, &default(db), &key(3 * n + 1), At::Latest).unwrap();
                assert_eq!(found, Some(value(3 * n + 1, 0)));
                assert!(open_files(&dir, ".val") <= 8, "{} after {n} reads", open_files(&dir, ".val"));
            }
        }
    };
    assert_eq!(db.value_files(&default(&db)).unwrap().len(), 30);
    read_all(&db);
    db.close().unwrap();
    drop(db); // including its cached open files
    let db = store(Settings { cache_bytes: 0, ..few });
    read_all(&db);
    db.close().unwrap();
}

/// A failed commit removes the values that it wrote, whether the device or the log rejected it. Repeated attempts thus
/// do not fill the disk.
#[test]
fn commits_that_fail_leave_no_values_behind() {
    let length = |sim: &SimFs, dir: &Path| -> u64 {
        let names = sim.files(dir).into_iter().filter(|name| name.ends_with(".val"));
        names.map(|name| sim.env(0).fs.open(&dir.join(name), Open::Read).unwrap().len().unwrap()).sum()
    };
    for mapped in [true, false] {
        let (sim, dir) = sim(41);
        sim.set_mapped(mapped);
        let db = open_with_values(&sim, &dir);
        write(&db, 0..30, 0);
        let family = default(&db);
        let random = SeededRandom::new(5);
        let large: Vec<u8> = (0..300_000).map(|_| random.below(256) as u8).collect(); // incompressible
        let before = length(&sim, &dir);
        sim.set_free_space(Some(40_000));
        for _ in 0..3 {
            let error = put(&db, &family, &key(1), &large, Durability::Os).unwrap_err();
            assert!(error.is_out_of_space(), "{error:?}");
            assert_eq!((length(&sim, &dir), sim.free_space()), (before, Some(40_000)));
        }
        sim.set_free_space(None);
        // Rejected when ordered, because the configuration epoch has changed by then.
        let mut batch = Batch::new();
        for n in 0..3 {
            batch.push(family.id(), Kind::Put, &key(n), &large, db.companions()).unwrap();
        }
        let epoch = db.epoch();
        db.bump_epoch().unwrap();
        for _ in 0..3 {
            assert_eq!(db.commit_if(&mut batch, Durability::Os, Precondition::epoch(epoch)).unwrap(), None);
            assert_eq!(length(&sim, &dir), before);
        }
        write(&db, 0..30, 1);
        assert_eq!(rows(&db, &family, At::Latest).unwrap(), expected(30, |_| 1));
        db.flush().unwrap();
        check_files(&sim, &dir, &db);
        db.close().unwrap();
        let db = open_with_values(&sim, &dir);
        assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected(30, |_| 1));
    }
}

/// A failed cursor step leaves no trace of the previous record, whose value was in a blob file.
#[test]
fn a_cursor_that_a_fault_has_left_nowhere_lends_no_value() {
    let (sim, dir) = sim(1);
    let db = open_with_values(&sim, &dir);
    write(&db, 0..60, 1);
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let mut faults = 0;
    for (after, forward) in (0..90).flat_map(|after| [(after, true), (after, false)]) {
        let sim = sim.fork();
        let db = open_with_values(&sim, &dir);
        let mut cursor = db.cursor(&default(&db), At::Latest, ALL).unwrap();
        if forward {
            cursor.first().unwrap()
        } else {
            cursor.last().unwrap()
        }
        sim.fail_at(sim.steps() + after, Fault::Error(std::io::ErrorKind::PermissionDenied));
        while cursor.valid() {
            let stepped = if forward { cursor.next() } else { cursor.prev() };
            if stepped.is_err() {
                faults += 1;
                assert!(!cursor.valid() && cursor.key().is_empty() && cursor.value().is_empty(), "{after}, {forward}");
                assert_eq!((cursor.record().kind, cursor.record().value), (Kind::Delete, &b""[..]));
                break;
            }
        }
    }
    assert!(faults > 50, "{faults}");
}

/// Returns incompressible bytes.
fn noise(n: usize, round: usize) -> Vec<u8> {
    use waxseal_lsm::env::Random;
    let random = SeededRandom::new((n * 10 + round) as u64);
    (0..8192).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// A table of 16 kB points to megabytes of values. Moving all live ones at once would repeatedly need more disk space
/// than is free.
#[test]
fn garbage_is_collected_piece_by_piece_where_there_is_little_room() {
    let (sim, dir) = sim(83);
    let sized = CfOptions { table_bytes: 16 * 1024, level_base_bytes: 64 * 1024, ..options() };
    let options = CfOptions { large_value_bytes: 100, level0_tables: 1, ..sized };
    let families = vec![("default".to_owned(), options)];
    let settings = Settings { memtable_bytes: 64 << 20, ..settings() };
    let db = Db::open(&dir, settings, Parts { families, ..parts(sim.env(1)) }).unwrap();
    let family = default(&db);
    let write = |numbers: std::ops::Range<usize>, round: usize| {
        for n in numbers.filter(|n| round == 0 || n % 6 != 0) {
            put(&db, &family, &key(n), &noise(n, round), Durability::Os).unwrap();
        }
        db.flush_ordered(&family).unwrap();
    };
    for from in (0..192).step_by(16) {
        write(from..from + 16, 0);
        while db.step().unwrap() {}
    }
    write(0..192, 1);
    let garbage = || {
        let values = db.metrics().families[0].values;
        (values.garbage, values.bytes)
    };
    let alive = 32 << 16; // bytes of the first files
    sim.set_free_space(Some(alive / 3));
    while db.step().unwrap() {}
    let (garbage, all) = garbage();
    assert!(garbage * 5 < all * 2 && db.metrics().values_moved > 0, "{garbage} of {all} bytes");
    put(&db, &family, b"more", b"fits", Durability::Os).unwrap();
    sim.set_free_space(None);
    check_files(&sim, &dir, &db);
    for n in 0..192 {
        let round = usize::from(n % 6 != 0);
        assert_eq!(get(&db, &family, &key(n), At::Latest).unwrap(), Some(noise(n, round)));
    }
}

/// Merging deletes frees space even if the disk has no room for moving values during the merge.
#[test]
fn a_merge_that_finds_no_room_for_values_is_done_without_them() {
    let (sim, dir) = sim(84);
    let sized = CfOptions { table_bytes: 16 * 1024, level_base_bytes: 64 * 1024, ..options() };
    let families = vec![("default".to_owned(), CfOptions { large_value_bytes: 100, level0_tables: 4, ..sized })];
    let settings = Settings { memtable_bytes: 64 << 20, ..settings() };
    let db = Db::open(&dir, settings, Parts { families, ..parts(sim.env(1)) }).unwrap();
    let family = default(&db);
    for n in 0..64 {
        put(&db, &family, &key(n), &noise(n, 0), Durability::Os).unwrap();
        if n % 16 == 15 {
            db.flush_ordered(&family).unwrap();
        }
    }
    db.compact(&family, &ALL).unwrap();
    // Half of each file is garbage and half is live, so no value can be moved.
    for n in (0..64).filter(|n| n % 2 == 0) {
        put(&db, &family, &key(n), b"", Durability::Os).unwrap();
    }
    db.compact(&family, &ALL).unwrap();
    let bytes = || db.metrics().families[0].values.bytes;
    let before = bytes();
    for n in (0..64).filter(|n| n % 2 == 1 && *n != 1) {
        put(&db, &family, &key(n), b"", Durability::Os).unwrap();
    }
    db.flush_ordered(&family).unwrap();
    sim.set_free_space(Some(48 * 1024));
    let _ = db.settle();
    assert!(bytes() < before / 2, "{} of {before} bytes", bytes());
    sim.set_free_space(None);
    check_files(&sim, &dir, &db);
    assert_eq!(get(&db, &family, &key(1), At::Latest).unwrap(), Some(noise(1, 0)));
}
