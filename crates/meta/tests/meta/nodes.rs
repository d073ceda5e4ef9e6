//! Nodes of a mixed cluster on one simulated disk, each a directory of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_lsm::sst::{Writer, WriterSettings};
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_testing::harness::{Store, adopt_tables, packed};

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

/// Gives whole table files to a node that cannot import.
pub(crate) fn adopt_whole_tables(node: Store, paths: &[PathBuf]) -> Store {
    node.db.flush().unwrap();
    let (protector, order) = (node.protector().clone(), node.family.options().order.clone());
    node.reopen_after(protector, |sim, dir| adopt_tables(sim, dir, &order, paths))
}

/// A table of unsealed records, as a foreign node might give it; its path.
pub(crate) fn write_table(sim: &SimFs, dir: &str, records: &[(Vec<u8>, Seqno, Kind, Vec<u8>)]) -> PathBuf {
    sim.create_dir_all(Path::new(dir)).unwrap();
    let path = Path::new(dir).join("000001.tbl");
    let file = sim.open(&path, Open::Create).unwrap();
    let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
    let settings = WriterSettings::of(&options, 0, 0);
    let mut writer = Writer::new(file, Uid([7; 16]), settings, Arc::new(Plain));
    for (key, seqno, kind, value) in records {
        writer.add(&Record { key, seqno: *seqno, kind: *kind, value, companion: &[] }).unwrap();
    }
    writer.finish().unwrap();
    path
}
