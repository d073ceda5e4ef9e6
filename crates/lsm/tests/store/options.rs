//! Options of a family that change while the store is open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::format_level::FormatLevel;
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Settings, Verify};
use waxseal_testing::store::*;

fn roomy() -> Settings {
    Settings { memtable_bytes: 1 << 20, ..settings() }
}

/// Opens the store with the options that it records.
fn open_as_recorded(sim: &SimFs, dir: &Path) -> Db {
    Db::open(dir, roomy(), Parts { env: sim.env(7), ..Parts::real() }).unwrap()
}

type Facts = (usize, Option<Duration>, Compression, u64, usize);

fn facts(db: &Db) -> Facts {
    let options = default(db).options();
    let CfOptions { level0_tables, default_ttl, compression, table_bytes, large_value_bytes, .. } = *options;
    (level0_tables, default_ttl, compression, table_bytes, large_value_bytes)
}

const CHANGED: Facts = (9, Some(Duration::from_secs(90)), Compression::None, 1 << 20, 200);

fn change(db: &Db) -> waxseal_lsm::error::Result<()> {
    let (level0_tables, default_ttl, compression, table_bytes, large_value_bytes) = CHANGED;
    let family = default(db);
    let options = CfOptions {
        level0_tables,
        default_ttl,
        compression,
        table_bytes,
        large_value_bytes,
        verify_scans: Verify::Never,
        ..(*family.options()).clone()
    };
    db.set_options(&family, options)
}

#[test]
fn changed_options_are_recorded_wherever_a_crash_comes() {
    let (sim, dir) = sim(5);
    let db = open_as_recorded(&sim, &dir);
    let before = facts(&db);
    put(&db, &default(&db), b"key", b"value", Durability::Sync).unwrap();
    kill(&sim, db);
    let (mut old, mut new) = (0, 0);
    for step in 0.. {
        let fork = sim.fork();
        let db = open_as_recorded(&fork, &dir);
        fork.crash_at(fork.steps() + step);
        let outcome = change(&db);
        if outcome.is_ok() {
            assert_eq!((facts(&db), default(&db).verify_scans()), (CHANGED, Verify::Never));
        }
        let is_through = !fork.is_crashed();
        drop(db);
        fork.reboot(Crash::Machine(if step % 2 == 0 { Loss::DurableOnly } else { Loss::Random { seed: step } }));
        let db = open_as_recorded(&fork, &dir);
        let found = facts(&db);
        assert!(found == CHANGED || (found == before && outcome.is_err()), "step {step}: {found:?} after {outcome:?}");
        assert_eq!(default(&db).verify_scans(), Verify::Always, "it is not stored");
        assert_eq!(get(&db, &default(&db), b"key", At::Latest).unwrap().unwrap(), b"value");
        if found == CHANGED {
            new += 1
        } else {
            old += 1
        }
        if is_through {
            break;
        }
    }
    assert!(old > 2 && new > 0, "{old} and {new}");
}

#[test]
fn values_and_levels_obey_new_options_at_once() {
    let (sim, dir) = sim(6);
    let db = open_as_recorded(&sim, &dir);
    let family = default(&db);
    let with = |large_value_bytes, level0_tables| CfOptions {
        large_value_bytes,
        level0_tables,
        ..(*family.options()).clone()
    };
    db.set_options(&family, with(0, 64)).unwrap();
    for n in 0..10u8 {
        put(&db, &family, &[n], &[n; 5000], Durability::Os).unwrap();
        db.flush().unwrap();
        while db.step().unwrap() {}
    }
    assert_eq!(named(&sim, &dir, ".val"), Vec::<String>::new());
    assert_eq!(db.tables(&family).unwrap().iter().filter(|table| table.level() == 0).count(), 10);
    db.set_options(&family, with(1000, 2)).unwrap();
    while db.step().unwrap() {}
    assert!(db.tables(&family).unwrap().iter().filter(|table| table.level() == 0).count() < 2);
    put(&db, &family, b"large", &[7; 5000], Durability::Os).unwrap();
    put(&db, &family, b"small", &[7; 999], Durability::Os).unwrap();
    db.flush().unwrap();
    assert!(!named(&sim, &dir, ".val").is_empty());
    let other = db.create_family("other", CfOptions { large_value_bytes: 100, ..options() }).unwrap();
    db.set_options(&family, with(0, 2)).unwrap();
    let before = named(&sim, &dir, ".val").len();
    put(&db, &other, b"large", &[7; 500], Durability::Os).unwrap();
    db.flush().unwrap();
    assert_eq!(named(&sim, &dir, ".val").len(), before + 1, "another family keeps its own options");
}

#[test]
fn options_that_cannot_change_are_refused_by_name() {
    let (sim, dir) = sim(7);
    let db = open_as_recorded(&sim, &dir);
    let family = default(&db);
    let (before, bytes) = (facts(&db), sim_bytes(&sim, &dir));
    let now = || (*family.options()).clone();
    let refused = [
        (CfOptions { order: backwards(), ..now() }, "order"),
        (CfOptions { merge_operator: Some(MergeOperator::add_i64()), ..now() }, "merge_operator"),
        (CfOptions { key_ends_in_seqno: true, ..now() }, "key_ends_in_seqno"),
        (CfOptions { system: Some(3), ..now() }, "system"),
        (CfOptions { fanout: 1, level0_tables: 3, ..now() }, "fanout"),
    ];
    for (options, name) in refused {
        let error = assert_kind(db.set_options(&family, options), ErrorKind::Invalid, name);
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!((facts(&db), sim_bytes(&sim, &dir)), (before, bytes));
    let gone = db.create_family("gone", options()).unwrap();
    db.drop_family("gone").unwrap();
    assert_kind(db.set_options(&gone, options()), ErrorKind::Invalid, "a dropped family");
    let reader = read_only(&sim, &dir).unwrap();
    assert_kind(reader.set_options(&default(&reader), options()), ErrorKind::ReadOnly, "a reader");
    drop(reader);
    db.close().unwrap();
    assert_kind(db.set_options(&family, now()), ErrorKind::Closed, "a closed store");
}

#[test]
fn settings_of_an_open_store_change_and_others_are_refused_by_name() {
    let (sim, dir) = sim(9);
    let db = open_as_recorded(&sim, &dir);
    let family = default(&db);
    for n in 0..200u32 {
        put(&db, &family, format!("{n:03}").as_bytes(), &[n as u8; 1000], Durability::Os).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 200);
    let now = || (*db.settings()).clone();
    assert!(db.metrics().cache.used_bytes > 50_000);
    db.set_settings(Settings { cache_bytes: 10_000, durability: Durability::Sync, subcompactions: 7, ..now() })
        .unwrap();
    assert_eq!((db.durability(), db.settings().subcompactions), (Durability::Sync, 7));
    let cache = db.metrics().cache;
    assert!(cache.used_bytes <= 10_000 && cache.budget_bytes == 10_000, "{cache:?}");
    for (settings, name) in [
        (Settings { memtable_bytes: 1 << 21, trash_bytes: 1, ..now() }, "memtable_bytes"),
        (Settings { wal_mapped: !now().wal_mapped, ..now() }, "wal_mapped"),
        (Settings { ring_bytes: 1, ..now() }, "ring_bytes"),
        (Settings { subcompactions: 0, ..now() }, "subcompactions"),
    ] {
        let error = assert_kind(db.set_settings(settings), ErrorKind::Invalid, name);
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!((db.settings().trash_bytes, db.settings().subcompactions), (0, 7));
    let cache = Arc::new(waxseal_lsm::sst::Cache::new(1 << 20));
    let shared = Db::open(Path::new("/other"), roomy(), Parts { cache: Some(cache), env: sim.env(8), ..Parts::real() });
    let shared = shared.unwrap();
    let other = Settings { cache_bytes: 1, ..(*shared.settings()).clone() };
    assert_kind(shared.set_settings(other), ErrorKind::Invalid, "a shared cache");
}

/// The order has only its name to compare: the family goes on with its own.
#[test]
fn an_order_of_the_same_name_does_not_replace_the_one_in_use() {
    let (sim, dir) = sim(8);
    let families = vec![("default".to_owned(), CfOptions { order: backwards(), ..options() })];
    let db = Db::open(&dir, roomy(), Parts { families, env: sim.env(7), ..Parts::real() }).unwrap();
    let family = default(&db);
    put(&db, &family, b"a", b"1", Durability::Os).unwrap();
    put(&db, &family, b"b", b"2", Durability::Os).unwrap();
    db.set_options(&family, CfOptions { order: backwards(), fanout: 7, ..options() }).unwrap();
    assert!(Arc::ptr_eq(&family.options(), &family.options()));
    assert_eq!(family.options().fanout, 7);
    let keys: Vec<Vec<u8>> = rows(&db, &family, At::Latest).unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"b", b"a"]);
}

#[test]
fn a_format_level_is_raised_wherever_a_crash_comes() {
    let (sim, dir) = sim(8);
    let open = |sim: &SimFs| {
        let settings = Settings { format_level: 1, ..roomy() };
        Db::open(&dir, settings, Parts { env: sim.env(7), ..Parts::real() }).unwrap()
    };
    let db = open(&sim);
    put(&db, &default(&db), b"key", b"value", Durability::Sync).unwrap();
    kill(&sim, db);
    let mut found = [0, 0];
    for step in 0.. {
        let fork = sim.fork();
        let db = open(&fork);
        fork.crash_at(fork.steps() + step);
        let outcome = db.upgrade(FormatLevel::NEWEST);
        if outcome.is_ok() {
            assert_eq!(db.format_level(), FormatLevel::NEWEST);
        }
        let is_through = !fork.is_crashed();
        drop(db);
        fork.reboot(Crash::Machine(if step % 2 == 0 { Loss::DurableOnly } else { Loss::Random { seed: step } }));
        let db = open(&fork);
        let level = db.format_level();
        assert!(level == FormatLevel::NEWEST || outcome.is_err(), "step {step}: {level:?} after {outcome:?}");
        let mut batch = Batch::new();
        batch.delete_range(default(&db).id(), (Some(b"a"), Some(b"b")), db.companions()).unwrap();
        assert_eq!(db.commit(&mut batch, Durability::Os).is_ok(), level == FormatLevel::NEWEST);
        found[level.number() as usize - 1] += 1;
        if is_through {
            break;
        }
    }
    assert!(found[0] > 1 && found[1] > 0, "{found:?}");
}
