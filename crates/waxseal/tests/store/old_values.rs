//! What events say of values that were overwritten: the one that was there, or that it is not kept. Where the store was
//! copied, was open in another way meanwhile, or lost a family and has another of that name, nobody may be told of a
//! value that was never there.

#![expect(clippy::disallowed_methods, reason = "a test damages a file that the store made")]

use std::os::unix::fs::FileExt;
use std::path::Path;

use waxseal::env::{Fs, Open, RealFs};
use waxseal::registry::{Event, Field, Image, Mode, RegisterOptions, Scope, Values};
use waxseal::{ColumnFamily, Db, Result};
use waxseal_lsm::values::{BlobEntry, walk};

/// Old values are kept with the rows.
const KEPT: RegisterOptions = RegisterOptions {
    scope: Scope::Subtree,
    mode: Mode::Deferred,
    values: Values::OldNew,
    history: true,
    retention: None,
};

/// A store whose family is watched.
fn watched(path: &Path) -> Result<(Db, ColumnFamily)> {
    let db = Db::open(path)?;
    let users = db.column_family("users")?;
    db.registry().register_with("users", "*", KEPT)?;
    Ok((db, users))
}

fn put_all(users: &ColumnFamily, values: std::ops::RangeInclusive<u32>) -> Result<()> {
    values.into_iter().try_for_each(|value| users.put("k", value.to_string()))
}

fn image(image: &Image) -> String {
    match image {
        Image::Absent => "none".to_owned(),
        Image::Value(value) => String::from_utf8_lossy(value).into_owned(),
        Image::Seal(seal) => format!("{seal:?}"),
    }
}

/// Of each event of the key, in order: what was put, and over what.
fn overwritten(db: &Db) -> Result<Vec<(String, String)>> {
    let mut events = db.registry().query_all("users.k", "*")?;
    events.sort_by_key(|event| event.key.time);
    let find = |event: &Event, say: fn(&Field) -> Option<String>| event.payload.fields().iter().find_map(say).unwrap();
    let new = |field: &Field| if let Field::NewValue(new) = field { Some(image(new)) } else { None };
    let old = |field: &Field| match field {
        Field::OldValue(old) => Some(image(old)),
        Field::OldKept(_) => Some("not kept".to_owned()),
        _ => None,
    };
    let told = |event: &Event| (find(event, new), find(event, old));
    let all: Vec<_> = events.iter().map(told).collect();
    let latest = db.registry().query_latest("users.k", "*")?;
    assert_eq!(latest.as_ref().map(told).as_ref(), all.last());
    Ok(all)
}

/// What is said of values that were put from 1 on: of those in the range over what.
fn told(count: u32, kept: std::ops::RangeInclusive<u32>) -> Vec<(String, String)> {
    let old = |value: u32| match (kept.contains(&value), value) {
        (false, _) => "not kept".to_owned(),
        (_, 1) => "none".to_owned(),
        (_, value) => (value - 1).to_string(),
    };
    (1..=count).map(|value| (value.to_string(), old(value))).collect()
}

#[test]
fn a_copy_that_counts_its_commits_anew_has_the_old_values_of_what_it_replays() -> Result<()> {
    for before in [2, 200] {
        let dir = tempfile::tempdir().unwrap();
        let [path, saved] = ["store", "saved"].map(|name| dir.path().join(name));
        let (db, users) = watched(&path)?;
        for value in 1..=before {
            // Left out of the copy: of many, some event has the number that a record of the copy has.
            db.column_family("default")?.put("another", value.to_string())?;
            put_all(&users, value..=value)?;
        }
        db.flush()?;
        put_all(&users, before + 1..=before + 3)?;
        assert_eq!(overwritten(&db)?, told(before + 3, 1..=before + 3));
        db.close()?;
        assert!(Db::salvage(&path, &saved)?.is_clean());
        let db = Db::open(&saved)?;
        assert_eq!(overwritten(&db)?, told(before + 3, before + 1..=before + 3), "{before}");
        db.flush()?;
        db.column_family("users")?.compact()?;
        assert_eq!(overwritten(&db)?, told(before + 3, before + 1..=before + 3), "{before}, compacted");
    }
    Ok(())
}

#[test]
fn a_copy_whose_record_has_the_number_it_had_does_not_say_that_nothing_was_there() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let [path, saved] = ["store", "saved"].map(|name| dir.path().join(name));
    let (db, users) = watched(&path)?;
    put_all(&users, 1..=2)?;
    // As many as the copy leaves out before the record.
    ["a", "b"].iter().try_for_each(|key| db.column_family("default")?.put(key, "another"))?;
    db.flush()?;
    let number = db.registry().explain(&users, "k")?.seqno;
    db.close()?;
    assert!(Db::salvage(&path, &saved)?.is_clean());
    let db = Db::open(&saved)?;
    assert_eq!(db.registry().explain(&db.column_family("users")?, "k")?.seqno, number);
    assert_eq!(overwritten(&db)?, told(2, 9..=9));
    Ok(())
}

#[test]
fn a_copy_keeps_no_value_for_an_event_that_does_not_find_it() -> Result<()> {
    for (mode, records, kept) in [(Mode::Deferred, 3, 1..=3), (Mode::Sync, 1, 9..=9), (Mode::Async, 1, 9..=9)] {
        let dir = tempfile::tempdir().unwrap();
        let [path, saved] = ["store", "saved"].map(|name| dir.path().join(name));
        let db = Db::open(&path)?;
        // What the copy leaves out, so that it counts otherwise.
        ["a", "b"].iter().try_for_each(|value| db.column_family("default")?.put("another", value))?;
        db.flush()?;
        let users = db.column_family("users")?;
        db.registry().register_with("users", "*", RegisterOptions { mode, ..KEPT })?;
        put_all(&users, 1..=3)?;
        db.close()?;
        assert!(Db::salvage(&path, &saved)?.is_clean());
        let db = Db::open(&saved)?;
        assert_eq!(overwritten(&db)?, told(3, kept), "{mode:?}");
        let users = db.column_family("users")?;
        users.compact()?;
        assert_eq!(users.tables()?.iter().map(|table| table.records).sum::<u64>(), records, "{mode:?}");
    }
    Ok(())
}

#[test]
fn what_was_compacted_without_seals_or_registry_keeps_its_old_values() -> Result<()> {
    for plain in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let (db, users) = watched(&path)?;
        put_all(&users, 1..=2)?;
        db.flush()?;
        put_all(&users, 3..=4)?;
        db.registry().unregister("users", "*")?;
        db.flush()?;
        db.close()?;
        let builder = Db::builder(&path);
        let db = if plain { builder.plain() } else { builder.registry(false) }.open()?;
        db.column_family("users")?.put("k", "unwatched")?;
        db.flush()?;
        db.column_family("users")?.compact()?;
        db.close()?;
        assert_eq!(overwritten(&Db::open(&path)?)?, told(4, 1..=4), "plain: {plain}");
    }
    Ok(())
}

#[test]
fn a_family_made_anew_has_nothing_to_say_of_the_one_before() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (db, users) = watched(&path)?;
    put_all(&users, 1..=3)?;
    db.registry().unregister("users", "*")?;
    db.flush()?;
    db.close()?;
    let db = Db::builder(&path).registry(false).open()?;
    db.drop_column_family("users")?; // nobody is there who would keep old values
    db.column_family("users")?.put("k", "unwatched")?;
    db.close()?;
    assert_eq!(overwritten(&Db::open(&path)?)?, told(3, 9..=9));
    Ok(())
}

/// A value that has a file of its own, and that no codec packs.
fn large(number: u64) -> Vec<u8> {
    let scattered = |at: u64| (at + number * 10_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..6000).map(|at| scattered(at) as u8).collect()
}

/// Writes zeros over a value in the store's value files, wherever it was put under this key.
fn spoil(path: &Path, key: &[u8], value: &[u8]) {
    let mut hits = 0;
    for name in RealFs.list(path).unwrap().iter().filter(|name| name.ends_with(".val")) {
        let path = path.join(name);
        let mut of_key = Vec::new();
        let file = RealFs.open(&path, Open::Read).unwrap();
        let collect = &mut |entry: BlobEntry| {
            of_key.extend((entry.key == key).then_some(entry.pointer.offset));
            Ok(())
        };
        let _ = walk(name, &*file, None, collect); // one that is not through has no end
        let bytes = std::fs::read(&path).unwrap();
        for entry in of_key {
            let entry = entry as usize;
            let found = bytes[entry..].windows(100).position(|window| window == &value[..100]);
            if let Some(at) = found.filter(|at| *at < 100) {
                let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(&[0; 100], (entry + at + 1000) as u64).unwrap();
                hits += 1;
            }
        }
    }
    assert_eq!(hits, 1);
}

#[test]
fn an_old_value_is_told_though_the_new_one_is_lost() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (db, users) = watched(&path)?;
    let [old, new] = [1, 2].map(large);
    users.put("k", &old)?;
    users.put("k", &new)?;
    db.flush()?;
    db.close()?;
    spoil(&path, b"k", &new);
    let db = Db::open(&path)?;
    assert!(db.column_family("users")?.get("k").unwrap_err().is_corruption());
    let is_told = |db: &Db| -> Result<bool> {
        let latest = db.registry().query_latest("users.k", "*")?.unwrap();
        Ok(latest.payload.fields().contains(&Field::OldValue(Image::Value(old.clone()))))
    };
    assert!(is_told(&db)?);
    db.drop_column_family("users")?;
    assert!(is_told(&db)?);
    Ok(())
}
