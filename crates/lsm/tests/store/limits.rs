//! The limits of a store: the shortest and longest keys, large values, many families, many versions of one key.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::{Env, MemoryFs};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::{Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use waxseal_testing::store::*;

fn memory() -> Env {
    Env { fs: Arc::new(MemoryFs::new()), ..Env::real() }
}

/// Runs `check` before a flush, after it, after a compaction and after reopening.
fn in_every_place(env: &Env, settings: &Settings, fill: impl Fn(&Db), check: impl Fn(&Db)) {
    let dir = Path::new("/store");
    let db = Db::open(dir, settings.clone(), parts(env.clone())).unwrap();
    fill(&db);
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.compact(&default(&db), &ALL).unwrap();
    check(&db);
    db.close().unwrap();
    check(&Db::open(dir, settings.clone(), parts(env.clone())).unwrap());
}

#[test]
fn keys_from_empty_to_the_limit() {
    assert_eq!(MAX_KEY_BYTES, 65_535);
    let lengths: [usize; 17] = [0, 1, 2, 7, 8, 9, 127, 128, 255, 256, 4095, 4096, 4097, 16_383, 16_384, 65_534, 65_535];
    let key = |length: usize| vec![b'k'; length];
    in_every_place(
        &memory(),
        &settings(),
        |db| {
            for length in lengths {
                put(db, &default(db), &key(length), &length.to_le_bytes(), Durability::Os).unwrap();
            }
        },
        |db| {
            let found = rows(db, &default(db), At::Latest).unwrap();
            let expected = lengths.map(|length| (key(length), length.to_le_bytes().to_vec()));
            assert_eq!(found, expected);
            for length in lengths {
                let value = get(db, &default(db), &key(length), At::Latest).unwrap();
                assert_eq!(value.as_deref(), Some(&length.to_le_bytes()[..]), "{length}");
            }
            assert_eq!(get(db, &default(db), &key(3), At::Latest).unwrap(), None);
        },
    );
}

#[test]
fn what_is_above_a_limit_is_refused_and_changes_nothing() {
    let env = memory();
    let db = Db::open(Path::new("/store"), settings(), parts(env)).unwrap();
    let mut batch = Batch::new();
    batch.push(0, Kind::Put, b"a", b"1", db.companions()).unwrap();
    let long = vec![0; MAX_KEY_BYTES + 1];
    for kind in [Kind::Put, Kind::Delete] {
        assert_kind(batch.push(0, kind, &long, b"", db.companions()), ErrorKind::Invalid, "a long key");
    }
    // Untouched zero pages: the check uses only the length.
    let large = vec![0; MAX_VALUE_BYTES + 1];
    assert_kind(batch.push(0, Kind::Put, b"b", &large, db.companions()), ErrorKind::Invalid, "a large value");
    batch.push(0, Kind::Put, b"c", b"3", db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
    let expected = [(b"a".to_vec(), b"1".to_vec()), (b"c".to_vec(), b"3".to_vec())];
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected);
    // A lookup of a key above the limit is valid; no such key exists.
    assert_eq!(get(&db, &default(&db), &long, At::Latest).unwrap(), None);
    let mut cursor = db.cursor(&default(&db), At::Latest, ALL).unwrap();
    cursor.seek(&[b'b'; MAX_KEY_BYTES + 10]).unwrap();
    assert_eq!(cursor.key(), b"c");
}

#[test]
fn values_up_to_64_mib_are_stored() {
    let lengths: [usize; 6] = [0, 1, 4096, 1 << 16, (1 << 20) + 1, 64 << 20];
    let value = |length: usize| -> Vec<u8> {
        let mut word = length as u64;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    };
    in_every_place(
        &memory(),
        &Settings::default(),
        |db| {
            for length in lengths {
                put(db, &default(db), &length.to_le_bytes(), &value(length), Durability::Os).unwrap();
            }
        },
        |db| {
            for length in lengths {
                let is_same = get(db, &default(db), &length.to_le_bytes(), At::Latest).unwrap() == Some(value(length));
                assert!(is_same, "{length}");
            }
            let mut cursor = db.cursor(&default(db), At::Latest, ALL).unwrap();
            cursor.seek(&(64usize << 20).to_le_bytes()).unwrap();
            assert_eq!(cursor.value().len(), 64 << 20);
        },
    );
}

#[test]
fn keys_are_ordered_as_unsigned_bytes() {
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    for a in 0..=255u8 {
        keys.push(vec![a]);
        for b in [0, 1, 127, 128, 254, 255] {
            keys.push(vec![a, b]);
            keys.push(vec![a, b, 0, 255]);
        }
    }
    keys.sort();
    in_every_place(
        &memory(),
        &settings(),
        |db| {
            // Written in another order.
            for n in 0..keys.len() {
                let key = &keys[n * 7919 % keys.len()];
                put(db, &default(db), key, key, Durability::Os).unwrap();
            }
        },
        |db| {
            let found = rows(db, &default(db), At::Latest).unwrap();
            assert!(found.iter().map(|(key, _)| key).eq(&keys));
            let mut cursor = db.cursor(&default(db), At::Latest, ALL).unwrap();
            cursor.last().unwrap();
            for key in keys.iter().rev() {
                assert_eq!(cursor.key(), key);
                cursor.prev().unwrap();
            }
            assert!(!cursor.valid());
            for key in &keys {
                assert_eq!(get(db, &default(db), key, At::Latest).unwrap().as_ref(), Some(key));
            }
        },
    );
}

#[test]
fn a_thousand_families_and_batches_over_all_of_them() {
    let env = memory();
    let dir = Path::new("/store");
    let db = Db::open(dir, settings(), parts(env.clone())).unwrap();
    let name = |n: usize| format!("family-{n:04}");
    let families: Vec<_> = (0..1000).map(|n| db.create_family(&name(n), options()).unwrap()).collect();
    for round in 0..3u64 {
        let mut batch = Batch::new();
        for family in &families {
            batch.push(family.id(), Kind::Put, b"round", &round.to_le_bytes(), db.companions()).unwrap();
        }
        db.commit(&mut batch, Durability::Os).unwrap();
    }
    (0..1000).step_by(2).for_each(|n| db.drop_family(&name(n)).unwrap());
    db.close().unwrap();
    let db = Db::open(dir, settings(), parts(env)).unwrap();
    assert_eq!(db.families().len(), 501);
    for n in 0..1000 {
        match db.family(&name(n)) {
            Some(family) if n % 2 == 1 => {
                let value = get(&db, &family, b"round", At::Latest).unwrap();
                assert_eq!(value.as_deref(), Some(&2u64.to_le_bytes()[..]));
            }
            family => assert!(family.is_none() && n % 2 == 0, "{n}"),
        }
    }
}

/// More retained versions of one key than fit into a table: they stay together (I05), and each snapshot sees its own
/// (I08).
#[test]
fn a_key_with_more_versions_than_a_table_holds() {
    let env = memory();
    let dir = Path::new("/store");
    let small = CfOptions { table_bytes: 1024, level_base_bytes: 2048, fanout: 2, ..options() };
    let parts =
        || waxseal_lsm::db::Parts { families: vec![("default".to_owned(), small.clone())], ..parts(env.clone()) };
    let db = Db::open(dir, settings(), parts()).unwrap();
    let family = default(&db);
    fill(&db, 0..200, 0);
    let mut snapshots = Vec::new();
    for version in 0..3000usize {
        put(&db, &family, b"key-0100", format!("version {version}").as_bytes(), Durability::Os).unwrap();
        if version % 3 == 0 {
            snapshots.push((version, db.snapshot().unwrap()));
        }
        if version % 1000 == 500 {
            db.compact(&family, &ALL).unwrap();
        }
    }
    db.compact(&family, &ALL).unwrap();
    for (version, snapshot) in &snapshots {
        let value = get(&db, &family, b"key-0100", At::Snapshot(snapshot)).unwrap();
        assert_eq!(value, Some(format!("version {version}").into_bytes()));
    }
    let (version, snapshot) = &snapshots[500];
    let mut expected = filled(0..200, 0);
    expected[100].1 = format!("version {version}").into_bytes();
    assert_eq!(rows(&db, &family, At::Snapshot(snapshot)).unwrap(), expected);
    let kept = |db: &Db| db.metrics().families[0].levels.iter().map(|level| level.records).sum::<u64>();
    assert_eq!(kept(&db), 199 + 1000 + 1, "one for each snapshot and the last");
    drop(snapshots);
    db.compact(&family, &ALL).unwrap();
    db.close().unwrap();
    let db = Db::open(dir, settings(), parts()).unwrap(); // the manifest checks I05 itself
    db.compact(&default(&db), &ALL).unwrap();
    expected[100].1 = b"version 2999".to_vec();
    assert_eq!(rows(&db, &default(&db), At::Latest).unwrap(), expected);
}
