//! A watched store without watched values is byte for byte identical to an unwatched one: its tables, log and ring have
//! the same names and bytes, and its manifest rotates at the same moments.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Db, Parts};
use waxseal_lsm::env::SeededRandom;
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_testing::scribe::{LINES, Scribe};

const DIR: &str = "/store";

fn open(sim: &SimFs, opens: u64, watched: bool) -> Db {
    let options = CfOptions {
        block_bytes: 256,
        table_bytes: 2048,
        level_base_bytes: 4096,
        fanout: 3,
        level0_tables: 2,
        ..CfOptions::default()
    };
    let settings = Settings {
        memtable_bytes: 4096,
        segment_bytes: 32 * 1024,
        ring_bytes: 16 * 1024,
        drain_bytes: 4096,
        manifest_bytes: 8192,
        trash_bytes: 1 << 20,
        ..Settings::default()
    };
    let mut families: Vec<_> = ["default", "users"].map(|name| (name.to_owned(), options.clone())).to_vec();
    if watched {
        let names = ["registry", "log", "quarantine", "schema", "sessions"];
        families.extend((0u8..).zip(names).map(|(number, name)| {
            (format!("system_metadata.{name}"), CfOptions { system: Some(number), ..options.clone() })
        }));
        families.push((LINES.0.to_owned(), CfOptions { system: Some(LINES.1), ..options.clone() }));
    }
    let env = sim.env(7_000 + opens);
    let mut parts = Parts { env, families, companions: Arc::new(Sealer::new()), ..Parts::real() };
    if watched {
        parts.engine_log = Some(Arc::new(Scribe));
    }
    Db::open(Path::new(DIR), settings, parts).expect("open")
}

/// Returns the files except the manifest, and the number of manifests, after flushes, compactions, a snapshot, created
/// and dropped families, clean closes and a kill.
fn life(watched: bool) -> (BTreeMap<String, Vec<u8>>, u64, u64) {
    let (sim, random) = (SimFs::new(5), SeededRandom::new(6));
    let (mut rotations, mut lines) = (0, 0);
    for opens in 0..4 {
        let db = open(&sim, opens, watched);
        for n in 0..600u64 {
            let family = db.family(if random.one_in(3) { "users" } else { "default" }).expect("family");
            let key = format!("key{:04}", random.below(500));
            let mut batch = Batch::new();
            let kind = if random.one_in(5) { Kind::Delete } else { Kind::Put };
            let value = if kind == Kind::Put { vec![n as u8; random.below(60) as usize] } else { Vec::new() };
            batch.push(family.id(), kind, key.as_bytes(), &value, db.companions()).expect("push");
            let durability = if random.one_in(50) { Durability::Sync } else { Durability::Os };
            db.commit(&mut batch, durability).expect("commit");
            match random.below(40) {
                0 => {
                    db.create_family("guest", CfOptions::default()).expect("create");
                    db.drop_family("guest").expect("drop");
                }
                1 => db.flush().expect("flush"),
                2..12 => drop(db.step().expect("step")),
                _ => {}
            }
        }
        if opens == 2 {
            db.settle().expect("settle");
        }
        rotations += db.metrics().manifest_rotations;
        lines = lines.max(db.engine_log().len() as u64);
        match opens {
            1 => {
                sim.crash_at(sim.steps());
                drop(db);
                sim.reboot(Crash::Process);
            }
            _ => db.close().expect("close"),
        }
    }
    let is_compared = |name: &String| !name.starts_with("MANIFEST-");
    let names = sim.files(DIR).into_iter();
    let read = |name: String| (name.clone(), sim.read_all(Path::new(DIR).join(&name)).expect("a file"));
    let manifests: Vec<String> = names.clone().filter(|name| !is_compared(name)).collect();
    let mut files: BTreeMap<_, _> = names.filter(is_compared).map(read).collect();
    files.extend(manifests.into_iter().map(|name| (name, Vec::new())));
    (files, rotations, lines)
}

#[test]
fn a_store_with_nothing_to_watch_has_the_same_files() {
    let (plain, rotations, none) = life(false);
    let (watched, as_often, lines) = life(true);
    assert!(plain.keys().filter(|name| name.ends_with(".tbl")).count() > 5, "{:?}", plain.keys());
    assert!((none, rotations > 4, lines > 100) == (0, true, true), "{none} {rotations} {lines}");
    assert_eq!(as_often, rotations);
    assert!(plain.keys().eq(watched.keys()), "{:?}\n{:?}", plain.keys(), watched.keys());
    for (name, bytes) in &plain {
        let differ = bytes.iter().zip(&watched[name]).position(|(a, b)| a != b);
        assert!(
            *bytes == watched[name],
            "{name} differs: {} and {} bytes, at {differ:?}",
            bytes.len(),
            watched[name].len()
        );
    }
}
