//! The bytes of a manifest and of tables whose records expire, beside their meaning. When this fails, the format has
//! changed: that is a new format level. `BLESS=1 cargo test -p waxseal-meta --test meta expiring` writes the file anew;
//! tests/reader reads it too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::expiry::Expiries;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::Companions;
use waxseal_lsm::sst::{Writer, WriterSettings};
use waxseal_lsm::version::{Edit, EditChange, Manifest, TableMeta, family, recover};
use waxseal_meta::Sealer;
use waxseal_meta::builtin::{Expiry, Labels, standard};
use waxseal_meta::provider::{EXPIRY, LABELS};
use waxseal_testing::golden;
use waxseal_testing::harness::Store;
use waxseal_testing::store::sim_bytes;

/// The year 2030, in microseconds since 1970.
const END: u64 = 1_893_456_000_000_000;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lsm/tests/golden/expiring.txt");
const DIR: &str = "/golden";

/// Key, value if it is no tombstone, and expiry.
type Row = (&'static [u8], Option<&'static [u8]>, Option<u64>);

/// Some records of the first table expire, at three times; all of the second at one; none of the third.
const TABLES: [&[Row]; 3] = [
    &[
        (b"a", Some(b"first"), Some(END)),
        (b"b", Some(b"never"), None),
        (b"c", None, None),
        (b"d", Some(b"last"), Some(END + 86_400_000_000)),
        (b"e", Some(b"between"), Some(END + 1)),
    ],
    &[(b"a", Some(b"1"), Some(END + 7)), (b"z", Some(b"2"), Some(END + 7))],
    &[(b"x", Some(b"never"), None)],
];

fn protector() -> Arc<dyn Companions> {
    Arc::new(Sealer::new().with(standard()))
}

/// A store that only makes the records, with the companions that they have in tables.
fn committed(rows: &[Row]) -> Store {
    let store = Store::open(&SimFs::new(5), protector(), CfOptions::default());
    for (key, value, expiry) in rows {
        let (bytes, labels) = (expiry.map(Expiry::at), Labels::of(&[("from", "golden")]).unwrap());
        let mut entries: Vec<(u16, &[u8])> = bytes.iter().map(|bytes| (EXPIRY, &bytes[..])).collect();
        if *key == b"e" {
            entries.push((LABELS, &labels));
        }
        let (kind, value) = value.map_or((Kind::Delete, &b""[..]), |value| (Kind::Put, value));
        store.try_apply(kind, key, value, &entries).unwrap();
    }
    store
}

fn table(sim: &SimFs, number: u64, rows: &[Row]) -> TableMeta {
    let path = Path::new(DIR).join(format!("{number:06}.tbl"));
    let options =
        CfOptions { block_bytes: 512, restart_interval: 4, compression: Compression::None, ..CfOptions::default() };
    let settings = WriterSettings::of(&options, 0, 0);
    let uid = Uid([number as u8; 16]);
    let writer = Writer::new(sim.open(&path, Open::Create).unwrap(), uid, settings, protector());
    let mut writer = writer.created_by("golden");
    committed(rows).each(|record| writer.add(record).unwrap());
    let finished = writer.finish().unwrap();
    TableMeta {
        number,
        uid,
        size: finished.size,
        smallest: finished.smallest,
        largest: finished.largest,
        least_seqno: finished.least_seqno,
        greatest_seqno: finished.greatest_seqno,
        digest: finished.digest,
        ledger: finished.ledger,
        expiry: finished.expiry,
        ..TableMeta::default()
    }
}

/// A manifest whose first edit names two of the tables; the next one replaces them by the third, after one was dropped
/// as expired.
fn written(sim: &SimFs) {
    let (env, dir) = (sim.env(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    let options = CfOptions { default_ttl: Some(Duration::from_secs(3600)), ..CfOptions::default() };
    let created = EditChange::FamilyCreated {
        id: 0,
        name: "default".to_owned(),
        comparator: "wax.bytewise".to_owned(),
        options: family::encode(&options),
    };
    let tables: Vec<TableMeta> = TABLES.iter().zip(2..).map(|(rows, number)| table(sim, number, rows)).collect();
    let dropped = tables[1].ledger;
    let added: Vec<EditChange> = tables
        .into_iter()
        .map(|table| EditChange::TableAdded { family: 0, level: 0, table: Arc::new(table) })
        .collect();
    let [first, second, third] = added.try_into().unwrap();
    let counters = EditChange::Counters { next_file: 6, last_seqno: 5, next_family: 1 };
    let edit = Edit::from(vec![created, first, second, counters]);
    let mut manifest = Manifest::create(&env, dir, 5, Uid([9; 16]), &edit).unwrap();
    let removed = EditChange::TableRemoved { family: 0, level: 0, number: 3 };
    let expired = EditChange::Expired { family: 0, through: END + 7, dropped };
    manifest.append(&Edit::from(vec![removed, third, expired])).unwrap();
    sim.remove(&dir.join("000003.tbl")).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_bytes_of_a_manifest_of_expiring_tables() {
    let sim = SimFs::new(1);
    written(&sim);
    let text = golden::hex_of(&sim_bytes(&sim, Path::new(DIR)));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap(), "the format has changed");
}

/// What an earlier build wrote says the same to this one.
#[test]
fn the_kept_bytes_say_when_records_expire() {
    let (sim, dir) = (SimFs::new(1), PathBuf::from(DIR));
    sim.create_dir_all(&dir).unwrap();
    for (name, bytes) in golden::files_of(&std::fs::read_to_string(GOLDEN).unwrap()) {
        sim.open(&dir.join(name), Open::Create).unwrap().write_at(&bytes, 0).unwrap();
    }
    let state = recover(&sim.env(1), &dir).unwrap().unwrap().state;
    let family = &state.families[&0];
    let expiries: Vec<_> = family.tables.values().map(|(_, table)| (table.number, table.expiry)).collect();
    let first = Expiries { count: 3, least: END, greatest: END + 86_400_000_000 };
    assert_eq!(expiries, [(2, Some(first)), (4, None)]);
    assert_eq!((state.expired_through, family.expired.count()), (END + 7, 2));
    assert_ne!(family.expired, Ledger::default());
    let options = family::decode(&family.options, Order::bytewise()).unwrap();
    assert_eq!(options.default_ttl, Some(Duration::from_secs(3600)));
}
