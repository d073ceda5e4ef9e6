//! Nodes of a mixed cluster on one simulated disk, each a directory of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open, read_exact};
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::options::Compression;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_lsm::sst::{Writer, WriterSettings};
use waxseal_lsm::version::{Edit, EditChange, Manifest, TableMeta, recover};
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_testing::harness::{Store, open_table, packed};

pub(crate) fn open_node(sim: &SimFs, dir: &str, protector: Arc<dyn Companions>) -> Store {
    Store::open_in(sim, dir, protector, packed())
}

/// Puts a record that is absent from a time on, in microseconds since 1970.
pub(crate) fn put_until(node: &Store, key: &[u8], value: &[u8], end: u64) {
    put_given(node, key, value, (EXPIRY, &Expiry::at(end)));
}

/// Puts a record with an entry beside it.
pub(crate) fn put_given(node: &Store, key: &[u8], value: &[u8], entry: (u16, &[u8])) {
    node.try_apply(Kind::Put, key, value, &[entry]).unwrap();
}

pub(crate) fn companion_bytes(node: &Store) -> usize {
    let mut bytes = 0;
    node.each(|record| bytes += record.companion.len());
    bytes
}

/// Gives whole table files to a node that cannot import: they are copied into its directory and named in its manifest,
/// as level 0, with the seqnos that stand in them.
pub(crate) fn adopt_whole_tables(node: Store, paths: &[PathBuf]) -> Store {
    node.db.flush().unwrap();
    let (protector, order) = (node.protector().clone(), node.family.options().order.clone());
    node.reopen_after(protector, |sim, dir| {
        let env = sim.env(sim.steps() + 1);
        let found = recover(&env, dir).unwrap().unwrap();
        let mut next_file = found.next_file;
        let mut last_seqno = found.state.last_seqno;
        let mut edit = Edit::default();
        for path in paths {
            let meta = copy_table(sim, path, dir, next_file, &order);
            next_file += 1;
            last_seqno = last_seqno.max(meta.greatest_seqno);
            edit.changes.push(EditChange::TableAdded { family: 0, level: 0, table: Arc::new(meta) });
        }
        sim.sync_dir(dir).unwrap();
        let next_family = found.state.next_family;
        edit.changes.push(EditChange::Counters { next_file: next_file + 1, last_seqno, next_family });
        Manifest::resume(&env, dir, &found, next_file, &edit).unwrap();
    })
}

fn copy_table(sim: &SimFs, from: &Path, dir: &Path, number: u64, order: &Order) -> TableMeta {
    let file = sim.open(from, Open::Read).unwrap();
    let bytes = read_exact(&*file, 0, file.len().unwrap() as usize).unwrap();
    let copy = sim.open(&dir.join(StoreFileName::Table(number).to_string()), Open::Create).unwrap();
    copy.write_at(&bytes, 0).unwrap();
    copy.sync_data().unwrap();
    let table = open_table(sim, from, order);
    let (expected, properties) = (*table.expected(), table.properties());
    TableMeta {
        number,
        uid: expected.uid,
        size: expected.size,
        smallest: properties.smallest.clone(),
        largest: properties.largest.clone(),
        least_seqno: properties.least_seqno,
        greatest_seqno: properties.greatest_seqno,
        digest: expected.digest,
        ingest_seqno: 0,
        values: Vec::new(),
        expiry: None,
        ledger: properties.ledger,
    }
}

/// A table of unsealed records, as a foreign node might give it; its path.
pub(crate) fn write_table(sim: &SimFs, dir: &str, records: &[(Vec<u8>, Seqno, Kind, Vec<u8>)]) -> PathBuf {
    sim.create_dir_all(Path::new(dir)).unwrap();
    let path = Path::new(dir).join("000001.tbl");
    let file = sim.open(&path, Open::Create).unwrap();
    let settings = WriterSettings {
        order: Order::bytewise(),
        family: 0,
        block_bytes: 4096,
        restart_interval: 16,
        filter_bits: 10,
        filter_policy: None,
        compression: Compression::None,
        base_seqno: 0,
        seal_column: false,
        created_micros: 0,
        store: None,
    };
    let mut writer = Writer::new(file, Uid([7; 16]), settings, Arc::new(Plain));
    for (key, seqno, kind, value) in records {
        writer.add(&Record { key, seqno: *seqno, kind: *kind, value, companion: &[] }).unwrap();
    }
    writer.finish().unwrap();
    path
}
