//! Tables compressed with zstd and a dictionary: round trips, and the effect of a lost dictionary.

use super::*;
use crate::checksum::{Role, hash_key};
use crate::options::{KIB, MIB};
use crate::record::MAX_SEQNO;
use crate::sst::block::codec::{Dictionary, unpack_zstd};
use crate::sst::block::frame::{StoredBlock, check_frame, put_block};
use crate::sst::train_for;
use proptest::prelude::*;
use std::fmt::Write;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/zstd.txt");

/// Returns the bytes of the golden file, which a build with zstd has written.
#[expect(clippy::disallowed_methods, reason = "a golden file is no file of a store")]
fn golden() -> Vec<u8> {
    let text = String::from_utf8(std::fs::read(PATH).unwrap()).unwrap();
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The dictionary of the golden file: any bytes are a valid dictionary.
const SHARED: &[u8] = b"{\"id\":0,\"name\":\"person \",\"city\":\"city number \",\"street\":0,\"floor\":\"0\"}";

/// Records that repeat each other's content but not their own; every tenth is incompressible.
fn records(count: u32) -> Vec<Owned> {
    let noise =
        |n: u32| (0..400u32).map(|i| hash(&[n.to_le_bytes(), i.to_le_bytes()].concat()) as u8).collect::<Vec<u8>>();
    let text = |n: u32| {
        let word = hash(&n.to_le_bytes());
        let (city, street, floor) = (word % 97, word / 97 % 89, word / 9000 % 7);
        format!(
            "{{\"id\":{word},\"name\":\"person {n}\",\"city\":\"city number {city}\",\"street\":{street},\"floor\":\"{floor}\"}}"
        )
    };
    let value = |n: u32| if n.is_multiple_of(10) { noise(n) } else { text(n).into_bytes() };
    (0..count).map(|n| Owned::put(&numbered(n), u64::from(n) + 1, &value(n)).sealed()).collect()
}

fn packed(
    records: &[Owned],
    dictionary: Option<Arc<Dictionary>>,
    settings: &WriterSettings,
) -> (Arc<Memory>, Finished) {
    let file = Memory::of(Vec::new());
    let writer = Writer::new(file.clone(), UID, settings.clone(), Arc::new(Sealer)).created_by("golden");
    let mut writer = writer.packing_with(dictionary);
    records.iter().for_each(|record| writer.add(&record.borrow()).unwrap());
    let finished = writer.finish().unwrap();
    (file, finished)
}

fn zstd() -> WriterSettings {
    WriterSettings { compression: Compression::Zstd(3), seal_column: true, ..settings() }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a golden file is no file of a store")]
fn a_table_that_was_packed_once_is_read_for_ever() {
    let records = records(30);
    if std::env::var_os("BLESS").is_some() {
        let dictionary = Arc::new(Dictionary::of(SHARED).unwrap());
        let (file, _) = packed(&records, Some(dictionary), &WriterSettings { block_bytes: 1024, ..zstd() });
        let mut text = String::new();
        for line in file.bytes().chunks(48) {
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
        std::fs::write(PATH, text).unwrap();
    }
    // Compares the decoded content, not the bytes: another version of zstd may compress differently.
    let file = Memory::of(golden());
    let expected = Table::identify(NAME, &*file).unwrap();
    let cache = Arc::new(Cache::new(0));
    let table = Table::open(NAME.into(), file, expected, Order::bytewise(), cache, Arc::new(Sealer)).unwrap();
    table.verify(&Sealer, &mut |_| Ok(())).unwrap();
    for record in &records {
        assert_eq!(got(&table, &record.key, MAX_SEQNO).unwrap().as_ref(), Some(record));
    }
}

fn trained(records: &[Owned]) -> Arc<Dictionary> {
    let (file, finished) = written(records, &WriterSettings { block_bytes: 512, ..settings() });
    let table = opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    assert!(train_for(Compression::Lz4, MIB as u64, [&table].into_iter()).is_none(), "only zstd takes one");
    train_for(Compression::Zstd(3), MIB as u64, [&table].into_iter()).expect("enough to learn from")
}

#[test]
fn a_dictionary_that_saves_less_than_it_takes_is_none() {
    let noise =
        |n: u32| (0..400u32).map(|i| hash(&[n.to_le_bytes(), i.to_le_bytes()].concat()) as u8).collect::<Vec<u8>>();
    let records: Vec<Owned> = (0..2_000).map(|n| Owned::put(&numbered(n), 1, &noise(n)).sealed()).collect();
    let (file, finished) = written(&records, &settings());
    let table = opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    assert!(train_for(Compression::Zstd(3), MIB as u64, [&table].into_iter()).is_none());
}

#[test]
fn a_dictionary_saves_a_tenth_and_every_record_comes_back() {
    let records: Vec<Owned> = records(6_000).into_iter().filter(|record| record.value.len() < 400).collect();
    let dictionary = trained(&records);
    // A block of few records contains repetition only across blocks, which the dictionary covers.
    let settings = WriterSettings { block_bytes: 512, ..zstd() };
    let (file, finished) = packed(&records, Some(dictionary.clone()), &settings);
    let (_, without) = packed(&records, None, &settings);
    assert!(finished.size * 10 < without.size * 9, "{} of {}", finished.size, without.size);
    let table = opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(MIB)));
    assert_eq!(table.verify(&Sealer, &mut |_| Ok(())).unwrap(), finished.ledger);
    for record in records.iter().step_by(7) {
        assert_eq!(got(&table, &record.key, MAX_SEQNO).unwrap().as_ref(), Some(record));
    }
    // Compressed blocks are usable as training samples as well.
    assert!(train_for(Compression::Zstd(3), MIB as u64, [&table].into_iter()).is_some());
    assert!(table.pinned_bytes() > dictionary.bytes().len());
}

#[test]
fn too_little_to_learn_from_gives_no_dictionary() {
    let (file, finished) = written(&records(5), &settings());
    let table = opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    assert!(train_for(Compression::Zstd(3), MIB as u64, [&table].into_iter()).is_none());
    assert!(train_for(Compression::Zstd(3), MIB as u64, std::iter::empty()).is_none());
}

#[test]
fn a_damaged_dictionary_costs_the_blocks_that_need_it_and_nothing_else() {
    let records = records(400);
    let dictionary = Arc::new(Dictionary::of(SHARED).unwrap());
    // Each incompressible value has a block of its own, which needs no dictionary.
    let (file, finished) = packed(&records, Some(dictionary), &WriterSettings { block_bytes: 300, ..zstd() });
    let at = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(0))).index().data_end();
    for byte in 0..SHARED.len() + 5 {
        // The CRC locates a single flipped bit, and the seals of the blocks confirm the correction.
        let mut bytes = file.bytes();
        bytes[at as usize + byte] ^= 1 << (byte % 8);
        let table = opened(Memory::of(bytes.clone()), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
        for record in records.iter().skip(byte % 7).step_by(50) {
            assert_eq!(got(&table, &record.key, MAX_SEQNO).unwrap().as_ref(), Some(record), "byte {byte}");
        }
        let whole = table.dictionary().map(|dictionary| dictionary.bytes().to_vec());
        assert_eq!(whole.as_deref(), Some(SHARED), "byte {byte}");
        assert!(!table.forget_damage(), "byte {byte}: the dictionary is there");
        bytes[at as usize + byte] ^= 0x5a;
        let table = opened(Memory::of(bytes), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
        assert!(table.dictionary().is_none(), "byte {byte}");
        assert!(table.forget_damage(), "byte {byte}: opened again, the table has its dictionary");
        let (mut served, mut refused) = (0, 0);
        for record in &records {
            match got(&table, &record.key, MAX_SEQNO) {
                Ok(found) => {
                    assert_eq!(found.as_ref(), Some(record), "byte {byte}");
                    served += 1;
                }
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(served >= 30 && refused >= 200, "byte {byte}: {served} served, {refused} refused");
        let error = table.verify(&Sealer, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.damage().map(|damage| damage.offset), Some(at), "{error}");
        // An absent key may have been in the lost range.
        let absent = b"key 00000017x";
        assert!(!matches!(table.get(absent, hash_key(absent), MAX_SEQNO, Checks::EACH, &mut |_| {}), Ok(true)));
    }
}

#[test]
fn a_table_without_its_ends_finds_its_dictionary() {
    let records: Vec<Owned> = records(3_000).into_iter().filter(|record| record.value.len() < 400).collect();
    let (file, finished) = packed(&records, Some(trained(&records)), &WriterSettings { block_bytes: 512, ..zstd() });
    let mut bytes = file.bytes();
    let length = bytes.len();
    bytes[length - 136..].fill(0xee);
    let known = KnownTable {
        uid: Some(UID),
        seqnos: Some((finished.least_seqno, finished.greatest_seqno)),
        ..KnownTable::default()
    };
    let (cache, order) = (Arc::new(Cache::new(MIB)), Order::bytewise());
    let rebuilt = rebuild(NAME, Memory::of(bytes), &known, &order, cache, Arc::new(Sealer)).unwrap();
    for record in records.iter().step_by(11) {
        assert_eq!(got(&rebuilt.table, &record.key, MAX_SEQNO).unwrap().as_ref(), Some(record));
    }
}

#[test]
fn a_last_block_of_a_few_bytes_is_missed_when_it_is_lost() {
    let records: Vec<Owned> = (0..20).map(|n| Owned::put(&numbered(n), u64::from(n) + 1, SHARED)).collect();
    let settings = WriterSettings { block_bytes: 100, seal_column: false, ..zstd() };
    // The last block's content is used as the dictionary.
    let plain = WriterSettings { compression: Compression::None, ..settings.clone() };
    let (file, finished) = packed(&records, None, &plain);
    let bodies = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    let last = *bodies.index().handles().last().unwrap();
    let body = &file.bytes()[last.offset as usize..][..last.stored_len as usize];
    let (file, finished) = packed(&records, Some(Arc::new(Dictionary::of(body).unwrap())), &settings);
    let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    let last = *table.index().handles().last().unwrap();
    assert!(last.bytes() < 22, "{} bytes, no fewer than a block that is not packed", last.bytes());
    let mut bytes = file.bytes();
    bytes[last.offset as usize + 2] ^= 0xff;
    let behind = table.index().data_end() as usize + body.len() + 5;
    let index = behind..bytes.len() - 136;
    bytes[index].fill(0xee);
    let keys = Some((finished.smallest, finished.largest));
    let known = KnownTable { uid: Some(UID), keys, ..KnownTable::default() };
    let (cache, order) = (Arc::new(Cache::new(MIB)), Order::bytewise());
    let rebuilt = rebuild(NAME, Memory::of(bytes), &known, &order, cache, Arc::new(Sealer)).unwrap();
    let gap = last.offset..last.end();
    assert_eq!(rebuilt.gaps, [gap]);
    assert!(got(&rebuilt.table, &records[19].key, MAX_SEQNO).unwrap_err().is_corruption());
    assert_eq!(got(&rebuilt.table, &records[0].key, MAX_SEQNO).unwrap().as_ref(), Some(&records[0]));
}

#[test]
fn what_packs_better_than_may_be_believed_is_packed_otherwise() {
    for length in [100 * KIB, 1000 * KIB] {
        let body = vec![0; length];
        let mut out = Vec::new();
        let handle = put_block(&mut out, &body, None, Compression::Zstd(19), (&UID, Role::Data), 64).unwrap();
        handle.check_within(handle.end()).unwrap();
        let (stored, codec) = check_frame(&out, &UID, Role::Data, &handle).unwrap();
        let stored = StoredBlock::split(stored, codec).unwrap();
        assert!(stored.body(handle.raw_len, &mut Vec::new(), None).unwrap() == body);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_dictionary_and_a_frame_or_refused(dictionary: Vec<u8>, frame: Vec<u8>, magic: bool, raw_len in 0usize..4096) {
        let dictionary = if magic { [&[0x37, 0xa4, 0x30, 0xec], &dictionary[..]].concat() } else { dictionary };
        let frame = if magic { [&[0x28, 0xb5, 0x2f, 0xfd], &frame[..]].concat() } else { frame };
        let mut out = vec![0; raw_len];
        match Dictionary::of(&dictionary) {
            Ok(dictionary) => drop(unpack_zstd(&frame, Some(&dictionary), &mut out)),
            Err(_) => prop_assert!(dictionary.is_empty()),
        }
        let _ = unpack_zstd(&frame, None, &mut out);
    }
}
