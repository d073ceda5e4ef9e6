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
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::{CfOptions, Compression, Durability, Verify};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;
use waxseal_meta::integrity::{Report, SalvageOptions, VerifyOptions, digest, salvage, verify};
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

/// Operands in tables of several levels, kept apart by snapshots, above and below values, and in the log.
fn layered(sim: &SimFs, families: &[(&str, MergeOperator)]) -> Db {
    let of = |operator: &MergeOperator| CfOptions { merge_operator: Some(operator.clone()), ..CfOptions::default() };
    let db = open(sim, families.iter().map(|(name, operator)| ((*name).to_owned(), of(operator))).collect());
    let mut snapshots = Vec::new();
    for (key, kind, value) in [
        ("base", Kind::Put, "0"),
        ("none", Kind::Merge, "1"),
        ("none", Kind::Merge, "2"),
        ("between", Kind::Merge, "3"),
        ("between", Kind::Put, "4"),
        ("between", Kind::Merge, "5"),
        ("deleted", Kind::Merge, "6"),
        ("deleted", Kind::Delete, ""),
        ("flush", Kind::Merge, ""),
        ("base", Kind::Merge, "7"),
        ("none", Kind::Merge, "8"),
        ("gone", Kind::Put, "9"),
        ("flush", Kind::Merge, ""),
        ("base", Kind::Merge, "a"),
        ("between", Kind::Merge, "b"),
        ("deleted", Kind::Merge, "c"),
        ("gone", Kind::RangeDelete, "gonf"),
        ("gone", Kind::Merge, "d"),
    ] {
        for (name, _) in families {
            match key {
                "flush" => db.compact(&db.family(name).unwrap(), &ALL).unwrap(),
                _ if kind == Kind::RangeDelete => {
                    let (mut batch, id) = (Batch::new(), db.family(name).unwrap().id());
                    let bounds = (Some(key.as_bytes()), Some(value.as_bytes()));
                    batch.delete_range(id, bounds, db.companions()).unwrap();
                    db.commit(&mut batch, Durability::Os).unwrap();
                }
                _ => apply(&db, name, kind, key.as_bytes(), value.as_bytes()),
            }
        }
        snapshots.push(db.snapshot().unwrap());
    }
    db.sync().unwrap();
    drop(snapshots);
    db
}

/// The values of a family of `layered`.
const LAYERED: [(&str, &str); 5] =
    [("base", "0-7-a"), ("none", "1-2-8"), ("between", "4-5-b"), ("deleted", "c"), ("gone", "d")];

fn salvaged(sim: &SimFs, merge_operators: Vec<MergeOperator>) -> (Db, Report) {
    let to = Path::new("/salvaged");
    let companions: Arc<dyn Companions> = Arc::new(Sealer::new());
    let parts = Parts { env: sim.env(3), companions, merge_operators, ..Parts::real() };
    let report = salvage(Path::new(DIR), to, settings(), parts.clone(), SalvageOptions::default()).unwrap();
    (Db::open(to, settings(), parts).unwrap(), report)
}

/// A salvage copies operands in their order, behind the values that they change, with the operator of their family.
#[test]
fn operands_are_salvaged() {
    let sim = SimFs::new(1);
    let families = [("default", MergeOperator::append("-")), ("other", MergeOperator::append("-"))];
    let db = layered(&sim, &families);
    let digests = families.clone().map(|(name, _)| digest(&db, &db.family(name).unwrap(), &ALL, At::Latest).unwrap());
    let (saved, report) = salvaged(&sim.fork(), Vec::new());
    assert_eq!((report.lost, report.damage.len()), (0, 0), "{report}");
    for ((name, operator), content) in families.iter().zip(digests) {
        let family = saved.family(name).unwrap();
        assert_eq!(family.merge_operator().unwrap().name(), operator.name());
        for (key, value) in LAYERED {
            let found = get(&saved, &family, key.as_bytes(), At::Latest).unwrap().unwrap();
            assert_eq!((key, String::from_utf8_lossy(&found)), (key, value.into()));
        }
        assert_eq!(digest(&saved, &family, &ALL, At::Latest).unwrap(), content);
    }
    let report = verify(&saved, VerifyOptions::default()).unwrap();
    assert_eq!((report.corrupted, report.missing), (0, 0), "{report}");
}

/// Operands whose operator is not given, or whose order no manifest tells, are lost with their keys, and the report says
/// so; so are those whose base may be lost.
#[test]
fn operands_that_cannot_be_salvaged_are_lost_with_their_keys() {
    let mine = MergeOperator::custom("mine", |_, older, newer| Ok([older, newer].concat()));
    let sim = SimFs::new(1);
    let db = layered(&sim, &[("default", mine.clone())]);
    let (saved, report) = salvaged(&sim.fork(), Vec::new());
    assert!(report.to_string().contains("\"mine\", which was not given"), "{report}");
    for (key, _) in LAYERED {
        get(&saved, &saved.family("default").unwrap(), key.as_bytes(), At::Latest).unwrap_err();
    }
    let (saved, report) = salvaged(&sim.fork(), vec![mine.clone()]);
    assert_eq!(report.damage.len(), 0, "{report}");
    let found = get(&saved, &saved.family("default").unwrap(), b"base", At::Latest).unwrap().unwrap();
    assert_eq!(found, b"07a");
    // The table with the base is gone.
    let family = db.family("default").unwrap();
    let meta = db.tables(&family).unwrap().last().unwrap().meta().clone();
    let without_table = sim.fork();
    without_table.delete(Path::new(DIR).join(StoreFileName::Table(meta.number).to_string())).unwrap();
    // No manifest.
    let without_manifest = sim.fork();
    for name in
        without_manifest.files(DIR).into_iter().filter(|name| name.starts_with("MANIFEST") || *name == "CURRENT")
    {
        without_manifest.delete(Path::new(DIR).join(name)).unwrap();
    }
    for sim in [without_table, without_manifest] {
        let (saved, report) = salvaged(&sim, vec![mine.clone()]);
        assert_ne!(report.damage.len(), 0);
        get(&saved, &saved.family("default").unwrap(), b"base", At::Latest).unwrap_err();
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
