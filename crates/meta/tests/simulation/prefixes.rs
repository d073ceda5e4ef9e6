//! Scans within one prefix of a sealed store, which skip tables by their filters. With any bit of a table flipped, they
//! return every record of the prefix, or an error.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::prefix_extractor::PrefixExtractor;
use waxseal_meta::Sealer;
use waxseal_testing::store::{default, named, options, parts, put, settings, sim};

/// The checks that must find the planted bug.
pub const ALL: [fn(); 2] = [scans, flips];

#[test]
fn scans_within_a_prefix_miss_nothing() {
    ALL.iter().for_each(|check| check());
}

/// Every other prefix has keys.
const PREFIXES: usize = 20;

fn open(sim: &SimFs, dir: &Path) -> Db {
    let prefix_extractor = Some(PrefixExtractor::Fixed(6));
    let options = CfOptions { prefix_extractor, part_blocks: 2, block_bytes: 128, level0_tables: 64, ..options() };
    let families = vec![("default".to_owned(), options)];
    let parts = Parts { families, companions: Arc::new(Sealer::new()), ..parts(sim.env(sim.steps())) };
    Db::open(dir, settings(), parts).expect("a store")
}

fn key(prefix: usize, n: usize) -> Vec<u8> {
    format!("user{prefix:02}{n}").into_bytes()
}

/// Returns a store with two tables: the first has the even prefixes, the second every fourth one.
fn filled(sim: &SimFs, dir: &Path) -> Db {
    let db = open(sim, dir);
    for step in [2, 4] {
        for prefix in (0..PREFIXES).step_by(step) {
            put(&db, &default(&db), &key(prefix, step), b"value", Durability::Os).expect("a put");
        }
        db.flush().expect("a flush");
    }
    db
}

/// Returns the keys with a prefix, in the direction of the scan.
fn scan(db: &Db, prefix: usize, backwards: bool) -> Result<Vec<Vec<u8>>> {
    let end = |prefix: usize| format!("user{prefix:02}").into_bytes();
    let bounds = (Bound::Included(end(prefix)), Bound::Excluded([&end(prefix)[..5], &[end(prefix)[5] + 1]].concat()));
    let (mut cursor, mut keys) = (db.cursor(&default(db), At::Latest, bounds)?, Vec::new());
    if backwards {
        cursor.last()?
    } else {
        cursor.first()?
    }
    while cursor.valid() {
        keys.push(cursor.key().to_vec());
        if backwards { cursor.prev()? } else { cursor.next()? }
    }
    Ok(keys)
}

/// Checks every prefix. Returns the number of errors.
fn check(db: &Db, what: &str) -> usize {
    let mut errors = 0;
    for prefix in 0..PREFIXES {
        let mut stored: Vec<_> = [2, 4].into_iter().filter(|step| prefix % step == 0).map(|n| key(prefix, n)).collect();
        for backwards in [false, true] {
            match scan(db, prefix, backwards) {
                Ok(found) => assert_eq!(found, stored, "{what}: prefix {prefix}, backwards {backwards}"),
                Err(_) => errors += 1,
            }
            stored.reverse();
        }
    }
    errors
}

fn scans() {
    let (sim, dir) = sim(1);
    let db = filled(&sim, &dir);
    assert_eq!(check(&db, "whole"), 0);
    assert!(db.metrics().prefix_skips > PREFIXES as u64);
}

fn flips() {
    let (sim, dir) = sim(2);
    filled(&sim, &dir).close().expect("an end");
    let mut errors = 0;
    for table in named(&sim, &dir, ".tbl") {
        let path = dir.join(table);
        let bits = sim.read_all(&path).expect("a table").len() as u64 * 8;
        for bit in (0..bits).step_by(211) {
            let fork = sim.fork();
            fork.flip(&path, bit).expect("a flip");
            errors += check(&open(&fork, &dir), &format!("bit {bit}"));
        }
    }
    assert!(errors > 0, "no flip hit a record");
}
