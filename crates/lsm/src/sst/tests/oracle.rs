//! Compares tables with a sorted list of records.

use super::*;
use crate::cursor::Cursor;
use crate::record::MAX_SEQNO;
use crate::sst::block::block::Block;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[derive(Clone, Debug)]
struct Shape {
    order: usize,
    block_bytes: usize,
    restart_interval: usize,
    filter_bits: usize,
    compression: Compression,
    seal_column: bool,
    /// 0: no companions, 1: one word each, 2: any.
    companions: u8,
    cache_bytes: usize,
    fill_cache: bool,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let codecs =
        if cfg!(feature = "lz4") { vec![Compression::None, Compression::Lz4] } else { vec![Compression::None] };
    (
        (0usize..3, select(vec![64usize, 200, 1000, 100_000]), 1usize..20, select(vec![0usize, 1, 10])),
        (select(codecs), any::<bool>(), 0u8..3, select(vec![0usize, 2000, 1 << 20]), any::<bool>()),
    )
        .prop_map(|((order, block_bytes, restart_interval, filter_bits), rest)| {
            let (compression, seal_column, companions, cache_bytes, fill_cache) = rest;
            Shape {
                order,
                block_bytes,
                restart_interval,
                filter_bits,
                compression,
                seal_column,
                companions,
                cache_bytes,
                fill_cache,
            }
        })
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    let letters = || select(vec![0u8, 1, b'a', b'A', b'b', 0xfe, 0xff]);
    prop_oneof![
        4 => vec(letters(), 0..5),
        2 => vec(letters(), 0..3).prop_map(|end| [&b"a common start that is long"[..], &end].concat()),
        1 => (0u32..50).prop_map(|n| format!("{n:016}").into_bytes()),
        1 => vec(any::<u8>(), 250..300),
    ]
}

fn orders() -> [Order; 3] {
    [Order::bytewise(), Order::custom(Arc::new(Reverse)), Order::custom(Arc::new(Caseless))]
}

type Versions = Vec<(u64, bool, Vec<u8>, u8)>;

fn records(keys: &[(Vec<u8>, Versions)], shape: &Shape, order: &Order) -> Vec<Owned> {
    let mut records: Vec<Owned> = Vec::new();
    for (key, versions) in keys {
        for (seqno, delete, value, dress) in versions {
            let kind = if *delete { Kind::Delete } else { Kind::Put };
            let mut record = Owned { kind, ..Owned::put(key, *seqno, value) };
            match (shape.companions, dress % 4) {
                (1, _) | (2, 1) => record = record.sealed(),
                (2, 2) => record.companion = vec![companion::WORD4, 1, 2, 3, 4, companion::LIST, 2, 0x33, 0x33],
                (2, 3) => record.companion = vec![companion::SKIPPABLE[0], 1, 0],
                _ => {}
            }
            records.push(record);
        }
    }
    let internal = |a: &Owned, b: &Owned| order.compare_internal((&a.key, a.seqno), (&b.key, b.seqno));
    records.sort_by(internal);
    records.dedup_by(|a, b| internal(a, b) == Ordering::Equal);
    records
}

/// Checks that the cursor is at record `at`, or invalid if `at` is out of range.
fn stands(cursor: &dyn Cursor, records: &[Owned], at: Option<usize>) -> std::result::Result<(), TestCaseError> {
    let expected = at.and_then(|at| records.get(at));
    let found = cursor.valid().then(|| Owned::of(&cursor.record()));
    prop_assert_eq!(found.as_ref(), expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_table_answers_like_a_sorted_list(
        shape in shapes(),
        keys in btree_map(keys(), vec((0u64..40, any::<bool>(), vec(0u8..3, 0..60), any::<u8>()), 1..12), 1..60),
        probes in vec((keys(), any::<Index>(), 0u64..45, vec(any::<bool>(), 0..12)), 20),
    ) {
        let order = &orders()[shape.order];
        let keys: Vec<_> = keys.into_iter().collect();
        let mut records = records(&keys, &shape, order);
        let base_seqno = 1 << 40;
        records.iter_mut().filter(|record| record.seqno > 0).for_each(|record| {
            record.seqno += base_seqno;
            if record.companion.first() == Some(&companion::WORD8) {
                *record = record.clone().sealed();
            }
        });
        let settings = WriterSettings {
            order: order.clone(),
            block_bytes: shape.block_bytes,
            restart_interval: shape.restart_interval,
            filter_bits: shape.filter_bits,
            filter_policy: None,
            compression: shape.compression,
            seal_column: shape.seal_column,
            base_seqno,
            ..settings()
        };
        let (file, finished) = written(&records, &settings);
        let cache = Arc::new(Cache::new(shape.cache_bytes));
        let table = opened(file, &finished, order, &cache);
        prop_assert_eq!(table.verify(&Sealer, &mut |_| Ok(())).unwrap(), finished.ledger);

        for streamed in [false, true] {
        let mut cursor: Box<dyn Cursor> =
            if streamed { Box::new(table.stream()) } else { Box::new(table.cursor(shape.fill_cache)) };
        cursor.first().unwrap();
        for at in 0..records.len() {
            stands(&*cursor, &records, Some(at))?;
            cursor.next().unwrap();
        }
        prop_assert!(!cursor.valid());
        cursor.last().unwrap();
        for at in (0..records.len()).rev() {
            stands(&*cursor, &records, Some(at))?;
            cursor.prev().unwrap();
        }
        prop_assert!(!cursor.valid());

        let present = probes.iter().map(|(_, at, seqno, walk)| (&records[at.index(records.len())].key, seqno, walk));
        for (key, seqno, walk) in probes.iter().map(|(key, _, seqno, walk)| (key, seqno, walk)).chain(present) {
            let seqno = match seqno { 0 => 0, 44 => MAX_SEQNO, seqno => seqno + base_seqno };
            let before = |a: &Owned| order.compare_internal((&a.key, a.seqno), (key, seqno)) == Ordering::Less;
            let upto = |a: &Owned| order.compare_internal((&a.key, a.seqno), (key, seqno)) != Ordering::Greater;
            let at = records.partition_point(before);
            let newest = records.get(at).filter(|found| order.compare(&found.key, key) == Ordering::Equal);
            let found = got(&table, key, seqno).unwrap();
            prop_assert_eq!(found.as_ref(), newest);

            let mut place = Some(at);
            cursor.seek(key, seqno).unwrap();
            stands(&*cursor, &records, place)?;
            for forward in walk {
                let Some(at) = place.filter(|at| *at < records.len()) else { break };
                if *forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
                place = if *forward { Some(at + 1) } else { at.checked_sub(1) };
                stands(&*cursor, &records, place)?;
            }
            cursor.seek_for_prev(key, seqno).unwrap();
            stands(&*cursor, &records, records.partition_point(upto).checked_sub(1))?;
        }
        prop_assert!(cache.metrics().used_bytes <= shape.cache_bytes as u64);
        }
    }
}

#[test]
fn versions_of_one_key_go_on_over_many_blocks() {
    let mut records = vec![Owned::put(b"a", 1, b"x")];
    records.extend((0..500u64).rev().map(|seqno| Owned::put(b"key", seqno, &[7; 50])));
    records.push(Owned::put(b"key\0", 9, b"y"));
    let settings = WriterSettings { block_bytes: 300, ..settings() };
    let (file, finished) = written(&records, &settings);
    let table = opened(file, &finished, &settings.order, &Arc::new(Cache::new(1 << 20)));
    assert!(table.blocks() > 50);
    for seqno in [0, 1, 250, 499, MAX_SEQNO] {
        assert_eq!(got(&table, b"key", seqno).unwrap().unwrap().seqno, seqno.min(499));
    }
    let mut cursor = table.cursor(true);
    cursor.seek_for_prev(b"key", 100).unwrap();
    assert_eq!(cursor.record().seqno, 100);
    cursor.prev().unwrap();
    assert_eq!(cursor.record().seqno, 101);
    table.verify(&Sealer, &mut |_| Ok(())).unwrap();
}

#[test]
fn a_record_larger_than_a_block_stands_alone() {
    let records: Vec<Owned> = [(b"a", 10), (b"b", 100_000), (b"c", 10), (b"d", 10)]
        .map(|(key, length)| Owned::put(key, 5, &vec![7; length]).sealed())
        .to_vec();
    for seal_column in [false, true] {
        let settings = WriterSettings { seal_column, ..settings() };
        let (file, finished) = written(&records, &settings);
        let table = opened(file, &finished, &settings.order, &Arc::new(Cache::new(1 << 20)));
        assert_eq!(table.blocks(), 3);
        assert_eq!(got(&table, b"b", 9).unwrap().as_ref(), Some(&records[1]));
    }
}

#[test]
fn a_block_that_was_packed_takes_what_it_holds_and_no_more() {
    let records: Vec<Owned> = (0..200u32).map(|n| Owned::put(&numbered(n), 5, &[7; 100]).sealed()).collect();
    let settings = WriterSettings { seal_column: true, compression: Compression::Lz4, ..settings() };
    let (file, finished) = written(&records, &settings);
    let table = opened(file, &finished, &settings.order, &Arc::new(Cache::new(1 << 20)));
    for number in 0..table.blocks() {
        let handle = table.handle(number).unwrap();
        for searched in [true, false] {
            let block = table.read_block(number, searched).unwrap();
            assert!(handle.is_packed() && block.has_column() && block.len() <= 44, "this test needs such blocks");
            let held = handle.raw_len as usize + 9 * block.len();
            // A buffer for a cached block is rounded up to its size class, and is never larger.
            let room = if searched { table.slots.buffer(held).capacity() } else { held };
            assert_eq!(block.memory(), room + size_of::<Block>() + 2 * align_of::<Block>());
        }
    }
}

#[test]
fn a_filter_keeps_reads_of_other_keys_from_the_blocks() {
    let records: Vec<Owned> = (0..2000u32).map(|n| Owned::put(&numbered(2 * n), 1, b"v")).collect();
    let (file, finished) = written(&records, &settings());
    let cache = Arc::new(Cache::new(1 << 20));
    let table = opened(file, &finished, &Order::bytewise(), &cache);
    let loaded = || cache.metrics().loads;
    assert!((0..30u32).all(|n| got(&table, &numbered(2 * n + 1), 9).unwrap().is_none()));
    assert!(loaded() <= 2, "{} blocks read for keys that are not there", loaded());
    assert!(got(&table, &numbered(4), 9).unwrap().is_some());
}
