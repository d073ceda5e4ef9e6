//! Damage: every read returns exact data or an error that names the file; never a wrong record, never a panic.

use super::*;
use crate::cursor::Cursor;
use crate::record::MAX_SEQNO;
use crate::sst::block::block::Block;
use crate::sst::block::frame::BlockHandle;
use crate::sst::fuzzing::{fuzz_block, fuzz_properties, fuzz_table};
use proptest::prelude::*;

fn small(compression: Compression, seal_column: bool) -> (Vec<Owned>, Vec<u8>, Finished) {
    let value = |n: u32| [b"value ".repeat(3), vec![n as u8]].concat();
    let records: Vec<Owned> =
        (0..12).map(|n| Owned::put(format!("key {n:03}").as_bytes(), 9, &value(n)).sealed()).collect();
    let settings = WriterSettings { block_bytes: 200, restart_interval: 4, compression, seal_column, ..settings() };
    let (file, finished) = written(&records, &settings);
    (records, file.bytes(), finished)
}

fn codecs() -> &'static [Compression] {
    if cfg!(feature = "lz4") { &[Compression::None, Compression::Lz4] } else { &[Compression::None] }
}

fn read_all(bytes: Vec<u8>, finished: &Finished, streamed: bool) -> Result<Vec<Owned>> {
    let cache = Arc::new(Cache::new(1 << 20));
    let table =
        Table::open(NAME.into(), Memory::of(bytes), expected(finished), Order::bytewise(), cache, Arc::new(Sealer))?;
    let mut cursor: Box<dyn Cursor> = if streamed { Box::new(table.stream()) } else { Box::new(table.cursor(true)) };
    let mut records = Vec::new();
    cursor.first()?;
    while cursor.valid() {
        records.push(Owned::of(&cursor.record()));
        cursor.next()?;
    }
    Ok(records)
}

#[test]
fn no_flipped_bit_passes() {
    for (compression, seal_column) in codecs().iter().flat_map(|codec| [(*codec, false), (*codec, true)]) {
        let (records, bytes, finished) = small(compression, seal_column);
        assert_eq!(read_all(bytes.clone(), &finished, false).unwrap(), records);
        assert_eq!(read_all(bytes.clone(), &finished, true).unwrap(), records);
        for (bit, streamed) in (0..bytes.len() * 8).flat_map(|bit| [(bit, false), (bit, true)]) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match read_all(flipped, &finished, streamed) {
                Ok(found) => assert_eq!(found, records, "bit {bit}"),
                Err(error) => {
                    let damage = error.damage().expect("corruption");
                    assert_eq!(damage.file, NAME);
                    assert!(damage.offset <= bit as u64 / 8, "bit {bit}: {error}");
                }
            }
        }
    }
}

#[test]
fn verify_finds_every_flipped_bit_of_an_open_table() {
    let (records, bytes, finished) = small(codecs()[codecs().len() - 1], true);
    let file = Memory::of(bytes.clone());
    let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(1 << 20)));
    table.verify(&Sealer, &mut |_| Ok(())).unwrap();
    for record in &records {
        assert!(got(&table, &record.key, MAX_SEQNO).unwrap().is_some());
    }
    for bit in 0..bytes.len() * 8 {
        file.0.write().unwrap()[bit / 8] ^= 1 << (bit % 8);
        let error = table.verify(&Sealer, &mut |_| Ok(())).expect_err("found");
        assert_eq!(error.damage().unwrap().file, NAME, "bit {bit}: {error}");
        file.0.write().unwrap()[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn other_blocks_go_on_answering() {
    let (records, mut bytes, finished) = small(Compression::None, false);
    bytes[70..76].iter_mut().for_each(|byte| *byte ^= 0x5a);
    let table = opened(Memory::of(bytes), &finished, &Order::bytewise(), &Arc::new(Cache::new(1 << 20)));
    let damage = got(&table, &records[0].key, MAX_SEQNO).unwrap_err().damage().unwrap().clone();
    assert_eq!((damage.file.as_str(), damage.offset), (NAME, 64));
    assert_eq!(got(&table, &records[11].key, MAX_SEQNO).unwrap().as_ref(), Some(&records[11]));
    let mut cursor = table.cursor(false);
    assert!(cursor.first().is_err() && !cursor.valid());
    cursor.last().unwrap();
    assert_eq!(Owned::of(&cursor.record()), records[11]);
}

#[test]
fn a_cut_file_is_corrupt() {
    let (_, bytes, finished) = small(Compression::None, false);
    for length in 0..bytes.len() {
        assert!(read_all(bytes[..length].to_vec(), &finished, length % 2 == 0).unwrap_err().is_corruption());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
        fuzz_block(&bytes);
        fuzz_properties(&bytes);
        fuzz_table(&bytes);
    }

    /// Bypasses the checksum to decode nearly valid bodies.
    #[test]
    fn changed_blocks_are_decoded_or_refused(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4)) {
        let mut block = first_block();
        for (at, byte) in changes {
            let length = block.len();
            block[1 + at % (length - 1)] = byte;
        }
        fuzz_block(&block);
    }

    #[test]
    fn changed_tables_are_decoded_or_refused(at in any::<proptest::sample::Index>(), byte: u8) {
        let (_, mut bytes, _) = small(codecs()[codecs().len() - 1], false);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fuzz_table(&bytes);
    }
}

/// Returns codec 0 and the body of a data block.
fn first_block() -> Vec<u8> {
    let (_, bytes, finished) = small(Compression::None, false);
    let table = opened(Memory::of(bytes.clone()), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    let end = table.index().handles()[0].end() as usize - 5;
    [&[0], &bytes[64..end]].concat()
}

#[test]
fn an_untouched_block_passes_the_fuzzer_whole() {
    let (_, bytes, finished) = small(Compression::None, false);
    let handle = BlockHandle { offset: 64, stored_len: first_block().len() as u32 - 1, ..BlockHandle::default() };
    let handle = BlockHandle { raw_len: handle.stored_len, ..handle };
    let load = |block: &[u8]| {
        Block::load((block[1..].to_vec(), Vec::with_capacity), 0, &handle, (0, None), &Order::bytewise(), true)
    };
    assert!(load(&first_block()).unwrap().len() > 2);
    fuzz_block(&first_block());
    fuzz_table(&bytes);
    assert_eq!(Table::identify(NAME, &*Memory::of(bytes)).unwrap(), expected(&finished));
}
