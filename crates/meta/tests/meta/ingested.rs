//! The bytes of an ingested table and its manifest, beside their meaning. When this fails, the format has changed: that
//! is a new format level. `BLESS=1 cargo test -p waxseal-meta --test meta ingested` writes the file anew; tests/reader
//! reads it too.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::{CfOptions, SealLayout};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Check, Companions, PendingWrite, Protection};
use waxseal_lsm::sst::{Cache, Table, WRITTEN_SEQNO, Writer, WriterSettings};
use waxseal_lsm::version::{Edit, EditChange, Manifest, TableMeta, family, recover};
use waxseal_meta::Sealer;
use waxseal_meta::builtin::standard;
use waxseal_testing::golden;
use waxseal_testing::store::sim_bytes;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lsm/tests/golden/ingested.txt");
const DIR: &str = "/golden";
const UID: Uid = Uid([2; 16]);

/// Writes the table: `a` is put, `b` deleted, `c` put.
fn table(sim: &SimFs, sealer: &Arc<Sealer>) -> TableMeta {
    let file = sim.open(&Path::new(DIR).join("000002.tbl"), Open::Create).unwrap();
    let options = CfOptions { seals: SealLayout::Column, ..CfOptions::default() };
    let settings = WriterSettings { store: Some(Uid([9; 16])), ..WriterSettings::of(&options, 0, WRITTEN_SEQNO) };
    let mut writer = Writer::new(file, UID, settings, sealer.clone()).created_by("golden");
    for (kind, key, value) in [(Kind::Put, b"a", &b"1"[..]), (Kind::Delete, b"b", b""), (Kind::Put, b"c", b"3")] {
        let mut companion = Vec::new();
        let pending = PendingWrite { family: 0, kind, key, key_hash: None, value, entries: &[] };
        sealer.on_write(&pending, &mut companion).unwrap();
        sealer.bind(&mut companion, None, WRITTEN_SEQNO);
        let record = Record { key, seqno: WRITTEN_SEQNO, kind, value, companion: &companion };
        writer.add_promised(&record, Protection::Complete).unwrap();
    }
    let finished = writer.finish().unwrap();
    TableMeta {
        number: 2,
        uid: UID,
        size: finished.size,
        smallest: finished.smallest,
        largest: finished.largest,
        least_seqno: 9,
        greatest_seqno: 9,
        digest: finished.digest,
        ingest_seqno: 9,
        ledger: finished.ledger,
        cleared_through: 9,
        retains_nothing: true,
        ..TableMeta::default()
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the golden file is a file of the repository")]
fn the_bytes_of_an_ingested_table_and_its_manifest() {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    let created = EditChange::FamilyCreated {
        id: 0,
        name: "default".to_owned(),
        comparator: "wax.bytewise".to_owned(),
        options: family::encode(&CfOptions::default()),
    };
    let table = table(&sim, &Arc::new(Sealer::new().with(standard())));
    let table = EditChange::TableAdded { family: 0, level: 6, table: Arc::new(table) };
    let counters = EditChange::Counters { next_file: 6, last_seqno: 14, next_family: 1 };
    let edit = Edit::from(vec![created, table, counters]);
    drop(Manifest::create(&sim.env(1), dir, 5, Uid([9; 16]), &edit).unwrap());
    let text = golden::hex_of(&sim_bytes(&sim, dir));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap(), "the format has changed");
}

/// The table of an earlier build has the seqno of its ingestion, and its seals are right.
#[test]
fn the_kept_bytes_are_read_under_the_seqno_of_the_manifest() {
    let (sim, dir) = (SimFs::new(1), Path::new(DIR));
    sim.create_dir_all(dir).unwrap();
    for (name, bytes) in golden::files_of(include_str!("../../../lsm/tests/golden/ingested.txt")) {
        sim.open(&dir.join(name), Open::Create).unwrap().write_at(&bytes, 0).unwrap();
    }
    let state = recover(&sim.env(1), dir).unwrap().unwrap().state;
    let (level, meta) = &state.families[&0].tables[&2];
    assert_eq!((*level, meta.ingest_seqno, meta.oldest_seqno()), (6, 9, 9));
    let sealer = Arc::new(Sealer::new().with(standard()));
    let file = sim.open(&dir.join("000002.tbl"), Open::Read).unwrap();
    let cache = Arc::new(Cache::new(1 << 20));
    let table =
        Table::open("000002.tbl".into(), file, meta.expected(), Order::bytewise(), cache, sealer.clone()).unwrap();
    let (mut cursor, mut found) = (table.cursor(false), Vec::new());
    cursor.first().unwrap();
    while cursor.valid() {
        let record = cursor.record();
        assert_eq!(record.seqno, 9);
        assert_eq!(sealer.verify(&record, hash_key(record.key), Protection::Complete), Check::Validated);
        found.push((record.kind, record.key.to_vec(), record.value.to_vec()));
        cursor.next().unwrap();
    }
    let expected = [(Kind::Put, "a", "1"), (Kind::Delete, "b", ""), (Kind::Put, "c", "3")];
    assert_eq!(found, expected.map(|(kind, key, value)| (kind, key.into(), value.into())));
}
