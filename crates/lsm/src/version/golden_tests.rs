//! The bytes of a manifest with the items of a value file (tag 49), beside their meaning. When this fails, the format has
//! changed: that is a new format level. `BLESS=1 cargo test -p waxseal-lsm --lib golden_tests` writes the file anew;
//! tests/reader reads it too.

use std::path::Path;
use std::sync::Arc;

use super::edit::{Edit, EditChange};
use super::family;
use super::manifest::Manifest;
use super::recover::recover;
use super::table_meta::TableMeta;
use crate::checksum::Uid;
use crate::env::{Open, SimFs};
use crate::options::CfOptions;
use crate::table_property::{CollectedSets, PropertyCollectors, TableProperty};
use crate::values::{BlobMeta, BlobRef};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/value_items.txt");
const DIR: &str = "/golden";

/// The items of two properties: the bytes of the values, and the first bytes of the keys.
fn items() -> CollectedSets {
    let bytes = TableProperty::new("bytes", |_, value, add| {
        value.iter().for_each(|byte| add(&[*byte]));
        Ok(())
    });
    let firsts = TableProperty::new("a first", |key, _, add| {
        add(&key[..1]);
        Ok(())
    });
    let mut collectors = PropertyCollectors::begin(&[bytes, firsts]);
    [("k", "zx"), ("l", "x")].iter().for_each(|(key, value)| collectors.add(key.as_bytes(), value.as_bytes()));
    collectors.finish()
}

fn table(number: u64, range: [&[u8]; 2], values: &[(u64, CollectedSets)]) -> EditChange {
    let file = |(number, collected): &(u64, CollectedSets)| {
        let uid = Uid([*number as u8; 16]);
        let file = BlobMeta { number: *number, uid, size: 300, count: 2, digest: 8, collected: collected.clone() };
        BlobRef { file: Arc::new(file), count: 1, bytes: 100 }
    };
    let [smallest, largest] = range.map(<[u8]>::to_vec);
    let values = values.iter().map(file).collect();
    let table = TableMeta { number, uid: Uid([2; 16]), size: 4096, smallest, largest, values, ..TableMeta::default() };
    EditChange::TableAdded { family: 0, level: 1, table: Arc::new(table) }
}

/// A table points into a file whose items are known, and into one of which nothing is known; then another table points
/// into the first file, whose items are not written again.
fn written(sim: &SimFs) {
    let (env, dir) = (sim.env(1), Path::new(DIR));
    env.fs.create_dir_all(dir).unwrap();
    let created = EditChange::FamilyCreated {
        id: 0,
        name: "default".to_owned(),
        comparator: "wax.bytewise".to_owned(),
        options: family::encode(&CfOptions::default()),
    };
    let counters = EditChange::Counters { next_file: 9, last_seqno: 4, next_family: 1 };
    let mut manifest = Manifest::create(&env, dir, 7, Uid([9; 16]), &Edit::from(vec![created, counters])).unwrap();
    let first = table(2, [b"k", b"l"], &[(3, items()), (4, CollectedSets::default())]);
    manifest.append(&Edit::from(vec![first])).unwrap();
    manifest.append(&Edit::from(vec![table(5, [b"m", b"n"], &[(3, items())])])).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_bytes_of_the_items_of_a_value_file() {
    let sim = SimFs::new(1);
    written(&sim);
    let files = sim.files(DIR).into_iter().map(|name| {
        let bytes = sim.read_all(Path::new(DIR).join(&name)).unwrap();
        (name, bytes)
    });
    let text = waxseal_testing::golden::hex_of(&files.collect());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap(), "the format has changed");
}

/// The manifest of an earlier build says the same to this one.
#[test]
fn the_kept_bytes_have_the_same_items() {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    let env = sim.env(1);
    env.fs.create_dir_all(dir).unwrap();
    for (name, bytes) in waxseal_testing::golden::files_of(include_str!("../../tests/golden/value_items.txt")) {
        env.fs.open(&dir.join(name), Open::Create).unwrap().write_at(&bytes, 0).unwrap();
    }
    let state = recover(&env, dir).unwrap().unwrap().state;
    let files = state.families[&0].tables.values().flat_map(|(_, table)| &table.values);
    let found: Vec<_> = files.map(|values| (values.file.number, values.file.collected.clone())).collect();
    assert_eq!(found, [(3, items()), (4, CollectedSets::default()), (3, items())]);
    let may_have = |property, item: &[u8]| found[0].1.may_have(property, item);
    assert!(may_have("bytes", b"z") && may_have("a first", b"l") && may_have("other", b"z"));
    assert!(!may_have("bytes", b"y") && !may_have("a first", b"z"));
}
