//! Stores whose bottom level is compressed with zstd and a dictionary: the model, the crash sweep, the flips, and the
//! planted bugs that these must find. Only in builds with the feature, and alone in its process: `cargo test -p
//! waxseal-meta --features zstd,planted --test simulation packed`.

use std::ops::Bound;

use waxseal_lsm::db::Db;
use waxseal_lsm::env::{Random, SeededRandom};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Durability;

use crate::flips::{Outcomes, Subject};
use crate::model::Run;
use crate::oracle::Change;
use crate::sweep::sweep;
use crate::world::{Config, WITH_DICTIONARIES, World, alike};

const EVERYTHING: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Unbounded, Bound::Unbounded);

/// Returns the number of tables with a dictionary.
fn dictionaries(db: &Db) -> usize {
    let tables = db.families().into_iter().flat_map(|family| db.tables(&family).expect("tables"));
    tables.filter(|table| table.table().is_ok_and(|table| table.dictionary().is_some())).count()
}

/// Fills the default family down to the bottom level, then overwrites a part of it.
fn fill(world: &mut World) -> Result<()> {
    let family = world.db().family("default").expect("always there");
    for round in 0..2 {
        for n in 0..260 / (round + 1) {
            let word = world.below(1 << 40);
            let key = format!("user{:03}", n * (round + 1)).into_bytes();
            world.commit(vec![Change::Put("default".into(), key, alike(word))], Durability::Os)?;
            if n % 40 == 39 {
                world.db().step()?;
            }
        }
        world.db().flush()?;
        world.db().compact(&family, &EVERYTHING)?;
    }
    Ok(())
}

/// Runs all operations in random order, and compares a digest that does not depend on compression.
fn model(operations: u64) {
    let mut met = 0;
    for seed in 0..4 {
        let config = WITH_DICTIONARIES[seed as usize % 2];
        let mut run = Run::new(1000 + seed, config);
        fill(&mut run.world).expect("a full store");
        met += dictionaries(run.world.db());
        if run.world.sealer.is_some() {
            run.world.check_digests().expect("a digest");
        }
        run.operations(operations);
    }
    assert!(met >= 4, "{met} dictionaries");
}

fn crashes(points: usize) {
    for config in WITH_DICTIONARIES {
        sweep("packed with dictionaries", fill, config, points);
    }
}

/// Flips random bits of tables, half of them after the data blocks, where dictionaries are stored.
fn flips(config: Config, count: u64) -> Outcomes {
    let mut world = World::new(777, config);
    world.open().expect("a new store");
    fill(&mut world).expect("a full store");
    assert!(dictionaries(world.db()) > 0, "no dictionary");
    let mut subject = Subject::of(world, true);
    let tables = subject.tables();
    let (random, outcomes) = (SeededRandom::new(5), Outcomes::default());
    for n in 0..count {
        let (from, data_end, to) = tables[random.next_u64() as usize % tables.len()];
        let from = if n % 2 == 0 { from } else { data_end };
        subject.flip(from + random.next_u64() % (to - from), &outcomes);
    }
    outcomes
}

fn errors(outcomes: &Outcomes) -> u64 {
    outcomes.read_errors.load(std::sync::atomic::Ordering::Relaxed)
}

fn all_of_it() {
    let [plain, sealed] = WITH_DICTIONARIES.map(|config| flips(config, 300));
    println!("300 flips: {} refused reads without seals, {} with them", errors(&plain), errors(&sealed));
    assert!(errors(&sealed) < errors(&plain), "no dictionary was made whole");
    crashes(30);
    model(800);
}

#[test]
fn packed_stores_keep_every_answer() {
    all_of_it();
    #[cfg(feature = "planted")]
    for bug in waxseal_lsm::planted::Bug::OF_ZSTD {
        use std::panic::{catch_unwind, set_hook, take_hook};
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        waxseal_lsm::planted::plant(Some(bug));
        let found = catch_unwind(all_of_it).is_err();
        waxseal_lsm::planted::plant(None);
        set_hook(hook);
        assert!(found, "not found: {bug:?}");
    }
}
