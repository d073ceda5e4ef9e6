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
use waxseal_lsm::options::{CfOptions, Compression, Durability};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{VerifyOptions, verify};
use waxseal_testing::golden;
use waxseal_testing::store::{get, settings, sim_bytes};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lsm/tests/golden/operands.txt");
const DIR: &str = "/golden";

/// The families of the store, each with the operator that the manifest names.
fn operators() -> [(&'static str, MergeOperator); 3] {
    [("default", MergeOperator::add_i64()), ("tags", MergeOperator::append(", ")), ("sets", MergeOperator::union())]
}

fn open(sim: &SimFs, families: Vec<(String, CfOptions)>) -> Db {
    let companions = Arc::new(Sealer::new());
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
