//! A store with merge operands in tables and in the log, as an earlier build wrote it: this build finds the operators by
//! their names and makes the same values. `BLESS=1 cargo test -p waxseal-meta --test meta operands` writes the store
//! anew, for a new format level; tests/reader reads it too.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::Fs;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::merge_operator::{MergeOperator, encode_set};
use waxseal_lsm::options::{CfOptions, Compression, Durability, Verify};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{VerifyOptions, verify};
use waxseal_testing::golden;
use waxseal_testing::store::{ALL, get, settings, sim_bytes};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lsm/tests/golden/operands.txt");
const DIR: &str = "/golden";

/// The families of the store, each with the operator that the manifest names.
fn operators() -> [(&'static str, MergeOperator); 3] {
    [("default", MergeOperator::add_i64()), ("tags", MergeOperator::append(", ")), ("sets", MergeOperator::union())]
}

fn open(sim: &SimFs, families: Vec<(String, CfOptions)>) -> Db {
    open_as(sim, families, Arc::new(Sealer::new()))
}

fn open_as(sim: &SimFs, families: Vec<(String, CfOptions)>, companions: Arc<dyn Companions>) -> Db {
    Db::open(Path::new(DIR), settings(), Parts { env: sim.env(1), companions, families, ..Parts::real() }).unwrap()
}

fn apply(db: &Db, family: &str, kind: Kind, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.push(db.family(family).unwrap().id(), kind, key, value, db.companions()).unwrap();
    db.commit(&mut batch, Durability::Os).unwrap();
}

/// A base and two operands in tables, kept apart by a snapshot, and operands in the log.
fn written(sim: &SimFs) {
    let of = |merge_operator| CfOptions { merge_operator, compression: Compression::None, ..CfOptions::default() };
    let families = operators().map(|(name, operator)| (name.to_owned(), of(Some(operator))));
    let db = open(sim, families.into());
    apply(&db, "default", Kind::Put, b"k", &40i64.to_le_bytes());
    apply(&db, "tags", Kind::Merge, b"k", b"a");
    let snapshot = db.snapshot().unwrap();
    apply(&db, "default", Kind::Merge, b"k", &3i64.to_le_bytes());
    apply(&db, "tags", Kind::Merge, b"k", b"b");
    db.flush().unwrap();
    apply(&db, "default", Kind::Merge, b"k", &(-1i64).to_le_bytes());
    apply(&db, "sets", Kind::Merge, b"k", &encode_set(["c", "a"]));
    apply(&db, "sets", Kind::Merge, b"k", &encode_set(["b"]));
    db.sync().unwrap();
    drop(snapshot);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_kept_operands_make_the_same_values() {
    if std::env::var_os("BLESS").is_some() {
        let sim = SimFs::new(1);
        written(&sim);
        std::fs::write(GOLDEN, golden::hex_of(&sim_bytes(&sim, Path::new(DIR)))).unwrap();
    }
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    for (name, bytes) in golden::files_of(&std::fs::read_to_string(GOLDEN).unwrap()) {
        sim.write_all(dir.join(name), &bytes).unwrap();
    }
    let db = open(&sim, Vec::new());
    let values: [(&str, &[u8]); 3] =
        [("default", &42i64.to_le_bytes()), ("tags", b"a, b"), ("sets", b"\x01a\x01b\x01c")];
    for _ in 0..2 {
        for ((name, operator), (_, value)) in operators().iter().zip(values) {
            let family = db.family(name).unwrap();
            assert_eq!(family.merge_operator().unwrap().name(), operator.name());
            assert_eq!(get(&db, &family, b"k", At::Latest).unwrap().unwrap(), value, "{name}");
        }
        let report = verify(&db, VerifyOptions::default()).unwrap();
        assert_eq!((report.corrupted, report.missing), (0, 0), "{report}");
        db.settle().unwrap();
    }
}

/// A merged value is marked as adopted if any of its inputs is, be it neither the base nor the newest operand: in reads,
/// and in the records that compactions fold, with a base or without.
#[test]
fn a_value_with_one_adopted_operand_is_marked() {
    for (adopted, with_base) in [(None, true), (Some(1), true), (Some(1), false), (Some(0), true), (Some(3), true)] {
        let sim = SimFs::new(1);
        let of = CfOptions { merge_operator: Some(MergeOperator::append("")), ..CfOptions::default() };
        let families = || vec![("default".to_owned(), of.clone())];
        for (at, value) in [b"a", b"b", b"c", b"d"].iter().enumerate() {
            let plain: Arc<dyn Companions> = Arc::new(Plain);
            let db = open_as(&sim, families(), if adopted == Some(at) { plain } else { Arc::new(Sealer::new()) });
            apply(&db, "default", if at == 0 && with_base { Kind::Put } else { Kind::Merge }, b"k", *value);
            db.flush().unwrap();
            db.close().unwrap();
        }
        let db = open(&sim, families());
        let family = db.family("default").unwrap();
        for round in 0..3 {
            let mut is_marked = None;
            let mut visit = |record: &waxseal_lsm::record::Record<'_>| is_marked = Some(Sealer::is_adopted(record));
            assert!(db.get_record(&family, b"k", At::Latest, Verify::Always, &mut visit).unwrap());
            // Before anything is compacted, the plain node's record has no seal yet.
            assert_eq!(is_marked, Some(adopted.is_some()), "{adopted:?} {with_base} {round}");
            db.compact(&family, &ALL).unwrap();
        }
        assert_eq!(get(&db, &family, b"k", At::Latest).unwrap().unwrap(), b"abcd");
    }
}
