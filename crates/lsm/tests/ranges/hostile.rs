//! Table files that another program wrote or changed, with right checksums: an ingestion refuses them before anything
//! changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::checksum::{Role, Uid, block_seed, crc, hash};
use waxseal_lsm::db::{At, Db, IngestMode, Parts};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::options::{CfOptions, SealLayout};
use waxseal_lsm::policy::FilterPolicy;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Companions, PendingWrite};
use waxseal_lsm::sst::{WRITTEN_SEQNO, Writer, WriterSettings};
use waxseal_testing::protector::TestProtector;
use waxseal_testing::store::*;

const UID: Uid = Uid([7; 16]);
const FOOTER_BYTES: usize = 136;
const HANDLE_BYTES: usize = 20;

/// A policy whose filters hold the keys themselves. A lying one leaves all of them out.
#[derive(Debug)]
struct KeyList {
    lies: bool,
}

impl FilterPolicy for KeyList {
    fn name(&self) -> &str {
        "key list"
    }
    fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>> {
        Some(if self.lies { b"nothing".to_vec() } else { keys.join(&0) })
    }
    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        filter.split(|byte| *byte == 0).any(|held| held == key)
    }
}

fn options_with(policy: KeyList) -> CfOptions {
    CfOptions { seals: SealLayout::Following, filter_policy: Some(Arc::new(policy)), ..options() }
}

/// Writes a table of one block, and returns its bytes.
fn written(sim: &SimFs, options: &CfOptions, base_seqno: u64, kind: Kind) -> Vec<u8> {
    let path = Path::new("/files/draft");
    let settings = WriterSettings { block_bytes: 1 << 20, ..WriterSettings::of(options, 0, base_seqno) };
    let protector: Arc<dyn Companions> = Arc::new(TestProtector::default());
    let mut writer = Writer::new(sim.open(path, Open::Create).unwrap(), UID, settings, protector.clone());
    for key in [&b"aa"[..], b"mm", b"zz"] {
        let (mut companion, value) = (Vec::new(), b"hostile");
        let pending = PendingWrite { family: 0, kind, key, value, key_hash: None, entries: &[] };
        protector.on_write(&pending, &mut companion).unwrap();
        protector.bind(&mut companion, None, WRITTEN_SEQNO);
        writer.add(&Record { key, seqno: WRITTEN_SEQNO, kind, value, companion: &companion }).unwrap();
    }
    writer.finish().unwrap();
    let bytes = sim.read_all(path).unwrap();
    sim.delete(path).unwrap();
    bytes
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns the bytes of the golden table that is packed with zstd.
#[cfg(not(feature = "zstd"))]
fn packed_with_zstd() -> Vec<u8> {
    let digits: Vec<u8> = include_bytes!("../golden/zstd.txt").iter().copied().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Replaces bytes of the properties, and makes all checksums right again. docs/format.md, sections 4.5 and 4.6.
fn forged(mut file: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let footer = file.len() - FOOTER_BYTES;
    let handles = [0, 1, 2, 4].map(|number| footer + number * HANDLE_BYTES);
    let [properties_handle, offset] = [handles[2], u64_at(&file, handles[2]) as usize];
    let block = offset..offset + u32_at(&file, properties_handle + 8) as usize + 1; // with the codec
    let at = file[block.clone()].windows(from.len()).position(|window| window == from).expect("the property is there");
    file[offset + at..][..to.len()].copy_from_slice(to);
    let sum = crc(block_seed(&UID, offset as u64, Role::Properties), &[&file[block.clone()]]).to_le_bytes();
    file[block.end..block.end + 4].copy_from_slice(&sum);
    file[properties_handle + 16..properties_handle + 20].copy_from_slice(&sum);
    let mut sides = handles.map(|handle| (u64_at(&file, handle), u32_at(&file, handle + 16)));
    sides.sort_unstable();
    let sides = sides.into_iter().filter(|(offset, _)| *offset > 0).collect::<Vec<_>>();
    let data = u32_at(&file, sides[0].0 as usize - 4);
    let crcs = [data].into_iter().chain(sides.iter().map(|(_, crc)| *crc));
    let digest = hash(&crcs.flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    file[footer + 112..footer + 120].copy_from_slice(&digest.to_le_bytes());
    let check = hash(&[&file[footer..footer + 120], &UID.0].concat());
    file[footer + 120..footer + 128].copy_from_slice(&check.to_le_bytes());
    file
}

#[test]
fn a_file_that_lies_is_refused_before_anything_changes() {
    let (sim, dir) = sim(5);
    sim.create_dir_all(Path::new("/files")).unwrap();
    let honest = options_with(KeyList { lies: false });
    let parts = Parts {
        families: vec![("default".to_owned(), honest.clone())],
        companions: Arc::new(TestProtector::default()),
        ..parts(sim.env(sim.steps()))
    };
    let db = Db::open(&dir, settings(), parts).unwrap();
    let family = default(&db);
    let file = |base, kind| written(&sim, &honest, base, kind);
    let put = file(WRITTEN_SEQNO, Kind::Put);
    let cases = [
        (forged(put.clone(), &[9, 1, 2], &[9, 1, 0]), "promises no companions"),
        (forged(put.clone(), &[9, 1, 2], &[9, 1, 7]), "a protection of records that this version does not know"),
        (forged(put.clone(), &[5, 2, b'a', b'a'], &[5, 2, b'a', b'b']), "the bounds in the properties"),
        (forged(put.clone(), &[6, 2, b'z', b'z'], &[6, 2, b'y', b'y']), "the bounds in the properties"),
        (forged(put.clone(), &[7, 2, 1, 1], &[7, 2, 1, 2]), "not written to be ingested"),
        (forged(put.clone(), &[8, 3, 6, 21, 1], &[8, 3, 6, 21, 2]), "the index does not name the blocks"),
        (file(0, Kind::Put), "not written to be ingested"),
        (file(WRITTEN_SEQNO, Kind::Merge), "other than whole values and deletes"),
        (written(&sim, &options_with(KeyList { lies: true }), WRITTEN_SEQNO, Kind::Put), "denies a key"),
        (put[..put.len() / 2].to_vec(), "does not end like a table"),
        (Vec::new(), "too short"),
        #[cfg(not(feature = "zstd"))]
        (packed_with_zstd(), "zstd"),
    ];
    let state = || (sim.files(&dir), db.snapshot().unwrap().seqno());
    let before = state();
    let path = PathBuf::from("/files/one");
    let ingest = |bytes: &[u8], mode| {
        sim.write_all(&path, bytes).unwrap();
        db.ingest_tables(&[(&family, std::slice::from_ref(&path))], mode)
    };
    for (at, (bytes, why)) in cases.iter().enumerate() {
        for mode in [IngestMode::Copy, IngestMode::Move] {
            let error = ingest(bytes, mode).expect_err(why);
            assert!(error.to_string().contains(why), "case {at}, {why}: {error}");
            assert_eq!(state(), before, "case {at}");
            assert_eq!(sim.read_all(&path).unwrap(), *bytes, "case {at}");
        }
    }
    assert_eq!(rows(&db, &family, At::Latest).unwrap(), []);
    ingest(&forged(put, &[9, 1, 2], &[9, 1, 1]), IngestMode::Move).unwrap(); // a smaller promise is no lie
    assert_eq!(rows(&db, &family, At::Latest).unwrap().len(), 3);
}
