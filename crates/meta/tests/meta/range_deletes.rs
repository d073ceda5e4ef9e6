//! The bytes of a manifest with range deletes, beside their meaning. When this fails, the format has changed: that is a
//! new format level. `BLESS=1 cargo test -p waxseal-meta --test meta range_deletes` writes the file anew; tests/reader
//! reads it too.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::CfOptions;
use waxseal_lsm::range_delete::RangeDelete;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Companions, PendingWrite};
use waxseal_lsm::version::{Edit, EditChange, Manifest, TableMeta, family, recover};
use waxseal_meta::Sealer;
use waxseal_meta::builtin::standard;
use waxseal_testing::golden;
use waxseal_testing::store::sim_bytes;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lsm/tests/golden/range_deletes.txt");
const DIR: &str = "/golden";

/// Four range deletes: with both bounds, without an end, without a start, and of all keys. Each has its seal.
fn ranges() -> Vec<Arc<RangeDelete>> {
    let bounds = [(Some("b"), Some("m")), (Some("x"), None), (None, Some("c")), (None, None)];
    let sealer = Sealer::new().with(standard());
    let sealed = |((start, end), seqno): ((Option<&str>, Option<&str>), u64)| {
        let [start, end] = [start, end].map(|key| key.map(|key| key.as_bytes().to_vec()));
        let range = RangeDelete { start, end, seqno, companion: Vec::new() };
        let mut companion = Vec::new();
        range.with_record(|record| {
            let &Record { kind, key, value, .. } = record;
            let pending = PendingWrite { family: 0, kind, key, key_hash: None, value, entries: &[] };
            sealer.on_write(&pending, &mut companion).unwrap();
        });
        sealer.bind(&mut companion, None, seqno);
        Arc::new(RangeDelete { companion, ..range })
    };
    bounds.into_iter().zip(11..).map(sealed).collect()
}

/// A table of which only the manifest speaks. The range deletes up to 12 hide nothing in it.
fn table() -> TableMeta {
    TableMeta {
        number: 2,
        uid: Uid([2; 16]),
        size: 4096,
        smallest: b"a".to_vec(),
        largest: b"z".to_vec(),
        least_seqno: 1,
        greatest_seqno: 10,
        cleared_through: 12,
        retains_nothing: true,
        ..TableMeta::default()
    }
}

/// A manifest that names the table and says that the log may hold range deletes; then a flush adds four, and one is
/// retired.
fn written(sim: &SimFs) {
    let (env, dir) = (sim.env(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    let created = EditChange::FamilyCreated {
        id: 0,
        name: "default".to_owned(),
        comparator: "wax.bytewise".to_owned(),
        options: family::encode(&CfOptions::default()),
    };
    let table = EditChange::TableAdded { family: 0, level: 0, table: Arc::new(table()) };
    let counters = EditChange::Counters { next_file: 6, last_seqno: 14, next_family: 1 };
    let edit = Edit::from(vec![created, EditChange::LogDeletesRanges, table, counters]);
    let mut manifest = Manifest::create(&env, dir, 5, Uid([9; 16]), &edit).unwrap();
    let added = ranges().into_iter().map(|range| EditChange::RangeDeleteAdded { family: 0, range });
    manifest.append(&Edit::from(added.collect::<Vec<_>>())).unwrap();
    manifest.append(&Edit::from(vec![EditChange::RangeDeleteRetired { family: 0, seqno: 12 }])).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_bytes_of_a_manifest_with_range_deletes() {
    let sim = SimFs::new(1);
    written(&sim);
    let text = golden::hex_of(&sim_bytes(&sim, Path::new(DIR)));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap(), "the format has changed");
}

/// The manifest of an earlier build says the same to this one, and the seals of its range deletes are right.
#[test]
fn the_kept_bytes_delete_the_same_ranges() {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    for (name, bytes) in golden::files_of(include_str!("../../../lsm/tests/golden/range_deletes.txt")) {
        sim.open(&dir.join(name), Open::Create).unwrap().write_at(&bytes, 0).unwrap();
    }
    let state = recover(&sim.env(1), dir).unwrap().unwrap().state;
    assert!(state.log_deletes_ranges);
    let family = &state.families[&0];
    let left: Vec<_> = ranges().into_iter().filter(|range| range.seqno != 12).collect();
    assert_eq!(family.range_deletes.values().cloned().collect::<Vec<_>>(), left);
    let (_, table) = &family.tables[&2];
    assert_eq!((table.cleared_through, table.retains_nothing), (12, true));
    let sealer = Sealer::new().with(standard());
    for range in family.range_deletes.values() {
        range.with_record(|record: &Record<'_>| {
            assert_eq!(record.kind, Kind::RangeDelete);
            assert!(sealer.verify(record, hash_key(record.key), sealer.written()).serves());
        });
    }
}
