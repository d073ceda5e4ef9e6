//! Table rebuild: whatever is damaged besides the data blocks, all records are recovered.

use super::*;
use crate::cursor::Cursor;
use proptest::prelude::*;

fn records(count: u32, bytes: usize, base: Seqno) -> Vec<Owned> {
    let value = |n: u32| {
        (0..bytes).map(|i| (hash(&[n.to_le_bytes(), (i as u32 / 3).to_le_bytes()].concat())) as u8).collect::<Vec<u8>>()
    };
    (0..count).map(|n| Owned::put(&numbered(n), base + u64::from(n * 7 % count), &value(n)).sealed()).collect()
}

fn known(finished: &Finished) -> KnownTable {
    KnownTable {
        uid: Some(UID),
        family: 3,
        keys: Some((finished.smallest.clone(), finished.largest.clone())),
        seqnos: Some((finished.least_seqno, finished.greatest_seqno)),
        ledger: Some(finished.ledger),
        ingest_seqno: 0,
        size: None,
    }
}

fn rebuilt(bytes: Vec<u8>, known: &KnownTable) -> Result<Rebuilt> {
    rebuild(NAME, Memory::of(bytes), known, &Order::bytewise(), Arc::new(Cache::new(1 << 20)), Arc::new(Sealer))
}

/// Returns all readable records, block by block, and the number of unreadable blocks.
fn readable(table: &Arc<Table>) -> (Vec<Owned>, usize) {
    let (mut records, mut damaged) = (Vec::new(), 0);
    for number in 0..table.blocks() {
        let Ok(block) = table.read_block(number, false) else {
            damaged += 1;
            continue;
        };
        for at in 0..block.len() {
            let mut key = Vec::new();
            block.key_into(at, &mut key).unwrap();
            records.push(Owned::of(&block.record(at, &block.entry(at).unwrap(), &key)));
        }
    }
    (records, damaged)
}

fn codecs() -> impl Strategy<Value = Compression> {
    let mut codecs = vec![Compression::None];
    codecs.extend(cfg!(feature = "lz4").then_some(Compression::Lz4));
    codecs.extend(crate::zstd::AVAILABLE.then_some(Compression::Zstd(3)));
    proptest::sample::select(codecs)
}

#[test]
fn a_lost_block_may_have_held_the_least_seqno_and_the_greatest() {
    let records = records(36, 30, 5);
    let (file, finished) = written(&records, &WriterSettings { block_bytes: 300, base_seqno: 5, ..settings() });
    let mut bytes = file.bytes();
    bytes[64] ^= 0x10;
    let length = bytes.len();
    bytes[length - 136..].fill(0xee);
    let (found, lost) = readable(&rebuilt(bytes, &known(&finished)).unwrap().table);
    assert!(lost == 1 && records.ends_with(&found) && found.iter().all(|record| (6..40).contains(&record.seqno)));
}

/// The gap of a damaged block must not account for blocks that were truncated from the end of the file.
#[test]
fn a_table_cut_short_ends_with_a_gap_although_another_block_is_damaged() {
    let records = records(120, 30, 5);
    let (file, finished) = written(&records, &WriterSettings { block_bytes: 300, base_seqno: 5, ..settings() });
    let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
    let order = Order::bytewise();
    for handle in &table.index().handles()[3..] {
        for cut in [handle.offset, handle.offset + 7, handle.end() - 1, handle.end(), handle.end() + 136] {
            let mut bytes = file.bytes();
            bytes.truncate(cut as usize);
            bytes[table.index().handles()[1].offset as usize..][..40].fill(0xee);
            let (mut found, mut gaps) = (Vec::new(), Vec::new());
            let mut see = |shown: ExaminedItem<'_>| {
                match shown {
                    ExaminedItem::Record(record, ..) => found.push(record.key.to_vec()),
                    ExaminedItem::Gap(gap) => gaps.push(gap.clone()),
                    ExaminedItem::Refused { .. } | ExaminedItem::Healed { .. } => {}
                }
                Ok(())
            };
            rebuilt(bytes, &known(&finished)).unwrap().table.examine(&Sealer, true, &mut see).unwrap();
            for lost in records.iter().filter(|record| !found.contains(&record.key)) {
                let is_told = gaps.iter().any(|gap| gap.covers(&order, &lost.key, lost.seqno));
                assert!(is_told, "cut to {cut}: {} is in no gap", lost.key.escape_ascii());
            }
        }
    }
}

/// Bytes behind the length that the manifest names are not the table's.
#[test]
fn a_table_of_known_length_is_rebuilt_without_what_follows_it() {
    let records = records(120, 30, 5);
    let (file, finished) = written(&records, &WriterSettings { block_bytes: 300, base_seqno: 5, ..settings() });
    let mut bytes = file.bytes();
    let length = bytes.len();
    bytes.extend((0..8 * length).map(|at| at as u8 | 1));
    let named = KnownTable { size: Some(length as u64), ..known(&finished) };
    let whole = rebuilt(bytes.clone(), &named).unwrap();
    assert!(whole.gaps.is_empty() && whole.damaged.is_empty(), "{:?}, {:?}", whole.gaps, whole.damaged);
    assert_eq!(readable(&whole.table), (records, 0));
    let unnamed = rebuilt(bytes, &known(&finished)).unwrap();
    assert!(unnamed.damaged.contains(&"footer"), "{:?}", unnamed.damaged);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_records_come_back_without_index_filter_properties_or_footer(
        count in 1u32..200,
        bytes in 0usize..60,
        codec in codecs(),
        seal_column: bool,
        base in 0u64..1000,
        zeroed in 0usize..4,
        flips in proptest::collection::vec((0.0f64..1.0, 0u32..8), 1..6),
        without_manifest: bool,
    ) {
        let records = records(count, bytes, base + 1);
        let settings = WriterSettings { block_bytes: 300, compression: codec, seal_column, base_seqno: base, ..settings() };
        let (file, finished) = written(&records, &settings);
        let mut damaged = file.bytes();
        let sides = {
            let table = opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
            table.index().data_end() as usize
        };
        let length = damaged.len();
        // Flip bits after the data blocks, or zero a part of that area.
        for (at, bit) in flips {
            let at = sides + ((length - sides) as f64 * at) as usize;
            damaged[at.min(length - 1)] ^= 1 << bit;
        }
        let quarter = (length - sides) / 4;
        damaged[sides + quarter * zeroed..][..quarter].fill(0);
        let known = if without_manifest { KnownTable::default() } else { known(&finished) };
        match rebuilt(damaged, &known) {
            Ok(rebuilt) => {
                // Without footer, index and filter, the end of the data is unknown: the rest of the file may be
                // reported as a gap.
                let (found, gaps) = readable(&rebuilt.table);
                prop_assert_eq!(found, records);
                prop_assert!(gaps <= 1 && gaps == rebuilt.gaps.len());
            }
            // The base of the seqnos is stored only in the footer and the properties.
            Err(error) => prop_assert!(without_manifest, "{}", error),
        }
    }

    #[test]
    fn whole_blocks_are_found_between_damaged_ones(
        count in 30u32..200,
        codec in codecs(),
        hits in proptest::collection::vec(0.0f64..1.0, 1..4),
    ) {
        let records = records(count, 30, 5);
        let settings = WriterSettings { block_bytes: 300, compression: codec, base_seqno: 5, ..settings() };
        let (file, finished) = written(&records, &settings);
        let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(0)));
        let (handles, mut bytes) = (table.index().handles().to_vec(), file.bytes());
        let data = table.index().data_end();
        let mut hit = std::collections::BTreeSet::new();
        // Distinct offsets: a second flip of the same bit would undo the first.
        let places: std::collections::BTreeSet<u64> = hits.iter().map(|at| 64 + ((data - 64) as f64 * at) as u64).collect();
        for at in places {
            hit.insert(handles.iter().position(|handle| handle.end() > at).unwrap());
            bytes[at as usize] ^= 0x10;
        }
        let length = bytes.len();
        bytes[length - 136..].fill(0xee);
        bytes[data as usize..length - 136].fill(0); // no index, no filter, no properties
        let expected: Vec<Owned> = {
            let whole = (0..handles.len()).filter(|number| !hit.contains(number));
            whole.flat_map(|number| readable_block(&table, number)).collect()
        };
        match rebuilt(bytes, &known(&finished)) {
            Ok(rebuilt) => prop_assert_eq!(readable(&rebuilt.table).0, expected),
            Err(error) => prop_assert!(expected.is_empty() || hit.len() > 1, "{}", error),
        }
    }

    #[test]
    fn any_bytes_are_a_table_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000), uid: bool) {
        let known = KnownTable { uid: uid.then_some(UID), seqnos: Some((1, 9)), ..KnownTable::default() };
        let _ = rebuilt(bytes, &known);
    }
}

fn readable_block(table: &Arc<Table>, number: usize) -> Vec<Owned> {
    let block = table.read_block(number, false).unwrap();
    let record = |at| {
        let mut key = Vec::new();
        block.key_into(at, &mut key).unwrap();
        Owned::of(&block.record(at, &block.entry(at).unwrap(), &key))
    };
    (0..block.len()).map(record).collect()
}

#[test]
fn a_rebuilt_table_reads_like_the_one_it_was() {
    let records = records(500, 40, 9);
    let settings = WriterSettings { base_seqno: 9, block_bytes: 512, ..settings() };
    let (file, finished) = written(&records, &settings);
    let mut bytes = file.bytes();
    let length = bytes.len();
    bytes[0] ^= 1; // the header too
    bytes[length - 700..].fill(0x5a);
    let rebuilt = rebuilt(bytes, &known(&finished)).unwrap();
    assert_eq!(rebuilt.damaged, ["header", "footer"]);
    let table = rebuilt.table;
    for record in &records {
        assert_eq!(got(&table, &record.key, record.seqno).unwrap().as_ref(), Some(record));
    }
    let mut cursor = table.cursor(true);
    cursor.seek(&numbered(250), crate::record::MAX_SEQNO).unwrap();
    assert_eq!(cursor.record().key, numbered(250));
}

#[test]
fn a_block_longer_than_the_window_is_found() {
    let long =
        Owned::put(b"b", 8, &(0..1_300_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect::<Vec<u8>>()).sealed();
    let records = [Owned::put(b"a", 7, b"v").sealed(), long, Owned::put(b"c", 9, b"w").sealed()];
    let (file, finished) = written(&records, &WriterSettings { base_seqno: 7, ..settings() });
    let mut bytes = file.bytes();
    let length = bytes.len();
    bytes[length - 300..].fill(0);
    let (found, _) = readable(&rebuilt(bytes, &known(&finished)).unwrap().table);
    assert_eq!(found, records);
}
