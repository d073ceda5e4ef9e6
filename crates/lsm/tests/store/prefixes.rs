//! Scans within one prefix, which skip the tables whose filters have no key with it.

use std::ops::Bound;
use std::path::Path;

use proptest::prelude::*;
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts, Snapshot};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::{CfOptions, Durability, Verify};
use waxseal_lsm::prefix_extractor::PrefixExtractor;
use waxseal_lsm::read::CursorBounds;
use waxseal_testing::store::*;

const PARENT: PrefixExtractor = PrefixExtractor::Delimited { byte: b'/', count: 1 };

/// Options for tables whose filters are partitioned if they have more than two blocks.
fn with_prefixes(extractor: PrefixExtractor) -> CfOptions {
    CfOptions { prefix_extractor: Some(extractor), part_blocks: 1, block_bytes: 128, ..options() }
}

fn open_with(sim: &SimFs, dir: &Path, options: CfOptions) -> Db {
    let parts = Parts { families: vec![("default".into(), options)], ..parts(sim.env(sim.steps())) };
    Db::open(dir, settings(), parts).unwrap()
}

/// Returns the bounds of all keys with a prefix, whose last byte is not 0xff.
fn all_of(prefix: &str) -> CursorBounds {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    (Bound::Included(prefix.into()), Bound::Excluded(end))
}

/// Returns the keys of a scan in both directions, which must agree.
fn keys(db: &Db, at: At<'_>, bounds: CursorBounds) -> Vec<Vec<u8>> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let mut cursor = db.cursor(&default(db), at, bounds.clone()).unwrap();
    cursor.first().unwrap();
    while cursor.valid() {
        forward.push(cursor.key().to_vec());
        cursor.next().unwrap();
    }
    let mut cursor = db.cursor(&default(db), at, bounds).unwrap();
    cursor.last().unwrap();
    while cursor.valid() {
        backward.push(cursor.key().to_vec());
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

fn put_key(db: &Db, key: &str) {
    put(db, &default(db), key.as_bytes(), b"value", Durability::Os).unwrap();
}

/// Stores keys of the directories 000, 002, .. in each of three tables.
fn sparse(db: &Db) {
    for round in 0..3 {
        for n in (0..60).step_by(2) {
            put_key(db, &format!("{n:03}/file {round}"));
        }
        db.flush().unwrap();
    }
}

#[test]
fn tables_without_the_prefix_are_skipped_and_counted() {
    let (sim, dir) = sim(1);
    let db = open_with(&sim, &dir, CfOptions { level0_tables: 64, ..with_prefixes(PARENT) });
    sparse(&db);
    let skips = || db.metrics().prefix_skips;
    assert_eq!(keys(&db, At::Latest, all_of("004/")).len(), 3);
    assert_eq!(skips(), 0, "each table has the prefix");
    let absent = (1..59).step_by(2);
    for n in absent.clone() {
        assert_eq!(keys(&db, At::Latest, all_of(&format!("{n:03}/"))), Vec::<Vec<u8>>::new());
    }
    // Two scans of three tables for each prefix; about one in a hundred filters has no answer.
    let most = absent.count() as u64 * 6;
    assert!((most * 9 / 10..=most).contains(&skips()), "{} of {most}", skips());
    let before = skips();
    for bounds in [all_of("00"), (Bound::Included(b"001/".to_vec()), Bound::Unbounded), ALL] {
        keys(&db, At::Latest, bounds);
    }
    assert_eq!(skips(), before, "no bounds of one prefix");
    // A table of another rule is read, and the next one has the new rule.
    db.set_options(&default(&db), with_prefixes(PrefixExtractor::Fixed(4))).unwrap();
    assert_eq!(keys(&db, At::Latest, all_of("004/")).len(), 3);
    assert_eq!(keys(&db, At::Latest, all_of("005/")).len(), 0);
    assert_eq!(skips(), before);
    db.compact(&default(&db), &ALL).unwrap();
    assert_eq!(keys(&db, At::Latest, all_of("004/")).len(), 3);
    assert_eq!(keys(&db, At::Latest, all_of("005/")).len(), 0);
    assert!(skips() > before);
}

#[test]
fn a_flipped_bit_never_hides_a_key_of_a_prefix() {
    let (sim, dir) = sim(3);
    let db = open_with(&sim, &dir, with_prefixes(PARENT));
    for n in 0..20 {
        put_key(&db, &format!("{n:03}/file"));
    }
    db.flush().unwrap();
    db.close().unwrap();
    let path = dir.join(&named(&sim, &dir, ".tbl")[0]);
    let bits = sim.read_all(&path).unwrap().len() as u64 * 8;
    let mut errors = 0;
    for bit in (0..bits).step_by(83) {
        let fork = sim.fork();
        fork.flip(&path, bit).unwrap();
        let db = open_with(&fork, &dir, with_prefixes(PARENT));
        for n in 0..20 {
            let prefix = format!("{n:03}/");
            let mut cursor = db.cursor(&default(&db), At::Latest, all_of(&prefix)).unwrap();
            match cursor.first() {
                Ok(()) => assert_eq!(cursor.key(), format!("{prefix}file").as_bytes(), "bit {bit}"),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 0, "no flip hit a record");
}

/// A reader that skips a table must not tell others that no record follows the deleted keys that it walked over.
#[test]
fn a_deleted_run_ends_with_the_prefix() {
    let (sim, dir) = sim(1);
    let db = open_with(&sim, &dir, with_prefixes(PARENT));
    put_key(&db, "0/one");
    put_key(&db, "b/two");
    db.flush().unwrap();
    let family = default(&db);
    for n in 0..60 {
        put_key(&db, &format!("a/{n}"));
        delete(&db, &family, format!("a/{n}").as_bytes()).unwrap();
        assert_eq!(keys(&db, At::Latest, all_of("a/")).len(), 0);
        assert_eq!(keys(&db, At::Latest, ALL), [b"0/one", b"b/two"]);
    }
    assert!(db.metrics().prefix_skips > 0);
}

#[test]
fn the_rule_is_recorded_with_the_family() {
    let (sim, dir) = sim(1);
    drop(open_with(&sim, &dir, with_prefixes(PARENT)));
    let db = Db::open(&dir, settings(), Parts { env: sim.env(7), ..Parts::real() }).unwrap();
    assert_eq!(default(&db).options().prefix_extractor, Some(PARENT));
}

#[test]
fn a_rule_that_no_filter_could_follow_is_refused() {
    let (sim, dir) = sim(1);
    let db = open_with(&sim, &dir, options());
    for options in [
        with_prefixes(PrefixExtractor::Fixed(0)),
        with_prefixes(PrefixExtractor::Delimited { byte: 0, count: 256 }),
        CfOptions { filter_bits: 0, ..with_prefixes(PARENT) },
        CfOptions { order: backwards(), ..with_prefixes(PARENT) },
    ] {
        let outcome = db.create_family("other", options);
        let error = assert_kind(outcome, ErrorKind::Invalid, "a rule");
        assert!(error.to_string().contains("prefix_extractor"), "{error}");
    }
    assert!(db.family("other").is_none());
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    DeleteRange(u8, u8),
    Flush,
    Settle,
    Snapshot,
    DropSnapshot,
    /// Changes the rule: to none, or to one of two.
    Rule(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        40 => any::<u8>().prop_map(Step::Put),
        6 => any::<u8>().prop_map(Step::Delete),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::DeleteRange(a.min(b), a.max(b))),
        8 => Just(Step::Flush),
        1 => Just(Step::Settle),
        2 => Just(Step::Snapshot),
        1 => Just(Step::DropSnapshot),
        1 => (0u8..3).prop_map(Step::Rule),
    ];
    prop::collection::vec(one, 1..150)
}

/// Returns a key of one to four bytes: of few prefixes, some of which no key has.
fn small(n: u8) -> Vec<u8> {
    let bytes = [b'a' + (n >> 6), b"/b"[usize::from(n >> 5 & 1)], b"/bc\xff"[usize::from(n >> 3 & 3)], n & 3];
    bytes[..1 + usize::from(n & 3)].to_vec()
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    let key = || prop_oneof![any::<u8>().prop_map(small), any::<u8>().prop_map(|n| small(n | 1)[..2].to_vec())];
    prop_oneof![1 => Just(Bound::Unbounded), 4 => key().prop_map(Bound::Included), 4 => key().prop_map(Bound::Excluded)]
}

/// Compares scans between bounds, which may skip tables, with the whole scan, which skips none. `moves` turn anywhere.
fn compare(db: &Db, at: At<'_>, bounds: &[CursorBounds], moves: &[(u8, u8)]) {
    use std::ops::RangeBounds;
    let all = rows(db, &default(db), at).unwrap();
    for bounds in bounds {
        let is_within = |key: &Vec<u8>| (bounds.0.as_ref(), bounds.1.as_ref()).contains(key);
        let within: Vec<&Vec<u8>> = all.iter().map(|(key, _)| key).filter(|key| is_within(key)).collect();
        assert!(keys(db, at, bounds.clone()).iter().eq(within.iter().copied()), "{bounds:?}");
        let mut cursor = db.cursor(&default(db), at, bounds.clone()).unwrap();
        let mut place: Option<usize> = None;
        for (kind, n) in moves {
            let target = small(*n);
            let from = within.partition_point(|key| **key < target);
            let through = within.partition_point(|key| **key <= target);
            (place, _) = match kind % 8 {
                0 => (Some(0), cursor.first().unwrap()),
                1 => (within.len().checked_sub(1), cursor.last().unwrap()),
                2 => (Some(from), cursor.seek(&target).unwrap()),
                3 => (through.checked_sub(1), cursor.seek_for_prev(&target).unwrap()),
                4 | 5 => (place.map(|place| place + 1), cursor.next().unwrap()),
                _ => (place.and_then(|place| place.checked_sub(1)), cursor.prev().unwrap()),
            };
            place = place.filter(|place| *place < within.len());
            let shown = cursor.valid().then(|| cursor.key().to_vec());
            assert_eq!(shown.as_ref(), place.map(|place| within[place]), "{bounds:?}: {kind} {n}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_scan_with_filters_equals_one_without(
        steps in steps(),
        bounds in prop::collection::vec((bound(), bound()), 12),
        moves in prop::collection::vec(any::<(u8, u8)>(), 30),
    ) {
        let (sim, dir) = sim(7);
        let db = open_with(&sim, &dir, CfOptions { verify_scans: Verify::Always, ..with_prefixes(PARENT) });
        let family = default(&db);
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for step in steps {
            match step {
                Step::Put(n) => drop(put(&db, &family, &small(n), &[b'v'; 60], Durability::Os).unwrap()),
                Step::Delete(n) => drop(delete(&db, &family, &small(n)).unwrap()),
                Step::DeleteRange(a, b) => {
                    let (a, b) = (small(a), small(b));
                    let (start, end) = if a <= b { (a, b) } else { (b, a) };
                    let mut batch = Batch::new();
                    batch.delete_range(family.id(), (Some(&start), Some(&end)), db.companions()).unwrap();
                    db.commit(&mut batch, Durability::Os).unwrap();
                }
                Step::Flush => db.flush().unwrap(),
                Step::Settle => db.settle().unwrap(),
                Step::Snapshot => snapshots.push(db.snapshot().unwrap()),
                Step::DropSnapshot => drop(snapshots.pop()),
                Step::Rule(n) => {
                    let prefix_extractor = [None, Some(PARENT), Some(PrefixExtractor::Fixed(2))][usize::from(n)];
                    db.set_options(&family, CfOptions { prefix_extractor, ..(*family.options()).clone() }).unwrap();
                }
            }
        }
        compare(&db, At::Latest, &bounds, &moves);
        for snapshot in &snapshots {
            compare(&db, At::Snapshot(snapshot), &bounds, &moves);
        }
    }
}
