//! Partitioned index and filter: such tables return the same results as others, whichever partition is damaged.

use super::*;
use crate::cursor::Cursor;
use crate::record::MAX_SEQNO;
use crate::sst::fuzzing::{CorruptionSite, fuzz_properties, fuzz_table};
use proptest::prelude::*;

/// Writes records into a table with this partition size.
fn cut(records: &[Owned], settings: &WriterSettings, part_blocks: usize) -> (Arc<Memory>, Finished) {
    let file = Memory::of(Vec::new());
    let writer = Writer::new(file.clone(), UID, settings.clone(), Arc::new(Sealer)).created_by("golden");
    let mut writer = writer.cut_into(part_blocks);
    records.iter().for_each(|record| writer.add(&record.borrow()).unwrap());
    let finished = writer.finish().unwrap();
    (file, finished)
}

/// Even numbers, some in several versions.
fn records(count: u32) -> Vec<Owned> {
    let mut records = Vec::new();
    for n in 0..count {
        let versions: &[u64] = if n % 7 == 0 { &[90, 60, 30, 20] } else { &[50] };
        for seqno in versions {
            records.push(Owned::put(&numbered(n * 2), *seqno, format!("value {n} at {seqno}").as_bytes()).sealed());
        }
    }
    records
}

fn small() -> WriterSettings {
    WriterSettings { block_bytes: 120, restart_interval: 4, ..settings() }
}

fn open(bytes: Vec<u8>, finished: &Finished) -> Result<Arc<Table>> {
    let cache = Arc::new(Cache::new(1 << 20));
    Table::open(NAME.into(), Memory::of(bytes), expected(finished), Order::bytewise(), cache, Arc::new(Sealer))
}

fn ranges(table: &Table) -> usize {
    table.table_index.spans().len()
}

/// Returns all records that a cursor or a stream yields.
fn walk(cursor: &mut dyn Cursor, forward: bool) -> Result<Vec<Owned>> {
    let mut records = Vec::new();
    if forward {
        cursor.first()?
    } else {
        cursor.last()?
    }
    while cursor.valid() {
        records.push(Owned::of(&cursor.record()));
        if forward { cursor.next()? } else { cursor.prev()? }
    }
    Ok(records)
}

/// Checks the result for every key, present and absent.
fn check(table: &Table, records: &[Owned], what: &str) {
    let keys = records.last().map_or(0, |last| String::from_utf8_lossy(&last.key).parse::<u32>().unwrap()) + 3;
    for key in (0..keys).map(numbered) {
        for seqno in [MAX_SEQNO, 25] {
            let expected = records.iter().find(|record| record.key == key && record.seqno <= seqno);
            let found = got(table, &key, seqno).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(found.map(Owned::sealed).as_ref(), expected, "{what}: {key:?} at {seqno}");
        }
    }
}

#[test]
fn a_table_is_cut_where_it_is_large_and_never_within_a_key() {
    let records = records(60);
    for part_blocks in [1, 2, 5, 9, 1000] {
        let (file, finished) = cut(&records, &small(), part_blocks);
        let table = open(file.bytes(), &finished).unwrap();
        assert_eq!(ranges(&table) > 0, table.blocks() > 2 * part_blocks, "{part_blocks} of {}", table.blocks());
        let mut floor: Option<Vec<u8>> = None;
        for span in table.table_index.spans() {
            assert!(span.range.is_last || span.blocks >= part_blocks);
            let first = table.read_block(span.range.first, false).unwrap();
            let mut key = Vec::new();
            first.key_into(0, &mut key).unwrap();
            assert!(floor.as_ref().is_none_or(|floor| *floor < key), "a key in two ranges");
            let last = table.read_block(span.range.first + span.blocks - 1, false).unwrap().last().unwrap().0;
            assert!(last <= span.bound);
            floor = Some(span.bound.clone());
        }
        check(&table, &records, "cut");
        assert_eq!(table.verify(&Sealer, &mut |_| Ok(())).unwrap(), finished.ledger);
    }
}

#[test]
fn parts_come_when_they_are_asked_and_are_charged() {
    let records = records(200);
    let (file, finished) = cut(&records, &small(), 4);
    let cache = Arc::new(Cache::new(1 << 20));
    let table = opened(file, &finished, &Order::bytewise(), &cache);
    assert!(ranges(&table) > 8);
    let (pinned, open) = (table.pinned_bytes(), cache.metrics().charged_bytes);
    assert_eq!(pinned as u64, open);
    let resident = |key: &[u8]| table.get_resident(key, hash(key), MAX_SEQNO, Checks::EACH, &mut |_| {});
    let (here, beside, away) = (numbered(100), numbered(101), numbered(300));
    assert_eq!(resident(&here), None, "nothing is in memory");
    assert!(got(&table, &here, MAX_SEQNO).unwrap().is_some());
    assert_eq!((resident(&here), resident(&away)), (Some(true), None));
    assert!(got(&table, &beside, MAX_SEQNO).unwrap().is_none());
    let one = cache.metrics().charged_bytes - open;
    assert!(one > 0 && table.table_index.loaded().count() == 1);
    // A stream keeps no partition in memory; a cursor keeps all that it used.
    assert_eq!(walk(&mut table.stream(), true).unwrap(), records);
    assert_eq!(cache.metrics().charged_bytes - open, one);
    assert_eq!(walk(&mut table.cursor(true), true).unwrap(), records);
    assert_eq!(table.table_index.loaded().count(), ranges(&table));
    let parts: usize = table.table_index.loaded().map(|part| part.memory()).sum();
    assert_eq!(cache.metrics().charged_bytes - open, parts as u64);
    assert_eq!(table.pinned_bytes(), pinned, "what was weighed when it was opened");
    drop(table);
    assert_eq!(cache.metrics().charged_bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_cut_table_answers_like_a_whole_one(
        keys in proptest::collection::btree_map(proptest::collection::vec(0u8..4, 0..5), 1u64..4, 1..120),
        probes in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..6), 1..20),
        part_blocks in 1usize..5,
        (filter_bits, seal_column, reverse, packed) in (prop_oneof![Just(0usize), Just(10)], any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let order = if reverse { Order::custom(Arc::new(Reverse)) } else { Order::bytewise() };
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_by(|a, b| order.compare(&a.0, &b.0));
        let versions = |(key, count): &(Vec<u8>, u64)| {
            (0..*count).rev().map(|n| Owned::put(key, 5 + n, &[n as u8; 30]).sealed()).collect::<Vec<_>>()
        };
        let records: Vec<Owned> = keys.iter().flat_map(versions).collect();
        let compression = if packed && cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None };
        let settings =
            WriterSettings { order: order.clone(), filter_bits, seal_column, compression, block_bytes: 90, ..settings() };
        let cache = Arc::new(Cache::new(1 << 20));
        let (file, finished) = cut(&records, &settings, part_blocks);
        let table = opened(file.clone(), &finished, &order, &cache);
        let whole = written(&records, &settings);
        let whole = opened(whole.0, &whole.1, &order, &cache);
        prop_assert_eq!(table.blocks(), whole.blocks());
        prop_assert_eq!(table.verify(&Sealer, &mut |_| Ok(())).unwrap(), finished.ledger);
        prop_assert_eq!(walk(&mut table.stream(), true).unwrap(), &records[..]);
        prop_assert_eq!(walk(&mut table.cursor(false), true).unwrap(), &records[..]);
        let back: Vec<Owned> = records.iter().rev().cloned().collect();
        prop_assert_eq!(walk(&mut table.cursor(true), false).unwrap(), back);
        // Present keys, absent keys between them, and the partition bounds.
        let bounds: Vec<Vec<u8>> = table.table_index.spans().iter().map(|span| span.bound.clone()).collect();
        let all = probes.iter().chain(keys.iter().map(|(key, _)| key)).chain(&bounds);
        let fresh = opened(file, &finished, &order, &cache);
        let mut cursors = [fresh.cursor_checked(crate::options::Verify::Always), whole.cursor_checked(crate::options::Verify::Always)];
        for (key, seqno) in all.flat_map(|key| [(key, MAX_SEQNO), (key, 6), (key, 1)]) {
            for checks in [Checks::EACH, Checks::NONE] {
                let ask = |table: &Table| {
                    let mut found = None;
                    table.get(key, hash(key), seqno, checks, &mut |record| found = Some(Owned::of(record))).unwrap();
                    found
                };
                prop_assert_eq!(ask(&fresh), ask(&whole), "{:?} at {}", key, seqno);
            }
            prop_assert_eq!(fresh.approximate_offset(key), whole.approximate_offset(key));
            for back in [false, true] {
                let found = cursors.each_mut().map(|cursor| {
                    let moved = if back { cursor.seek_for_prev(key, seqno) } else { cursor.seek(key, seqno) };
                    moved.unwrap();
                    cursor.valid().then(|| Owned::of(&cursor.record()))
                });
                prop_assert_eq!(&found[0], &found[1], "{:?} at {}, back: {}", key, seqno, back);
            }
        }
    }
}

#[test]
fn no_flipped_bit_of_a_cut_file_passes_and_those_of_its_parts_cost_nothing() {
    let records = records(14);
    let (file, finished) = cut(&records, &small(), 2);
    let bytes = file.bytes();
    let table = open(bytes.clone(), &finished).unwrap();
    let parts = (table.data_end() as usize, table.table_index.spans().last().unwrap().filter.end() as usize);
    assert!(ranges(&table) > 2);
    let tried = |bit: &usize| (parts.0..parts.1).contains(&(bit / 8)) || bit.is_multiple_of(7);
    for bit in (0..bytes.len() * 8).filter(tried) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(table) = open(flipped, &finished) else {
            assert!(!(64..parts.1).contains(&(bit / 8)), "bit {bit} refuses the open");
            continue;
        };
        assert!(bit / 8 >= 64 && bit / 8 < parts.1, "bit {bit} was not noticed");
        assert!(table.verify(&Sealer, &mut |_| Ok(())).is_err(), "bit {bit} passes");
        assert!((0..table.blocks()).any(|block| table.check_block(block, &Sealer).is_err()), "bit {bit} is not found");
        for found in [walk(&mut table.cursor(true), true), walk(&mut table.stream(), true)] {
            assert_eq!(found.unwrap(), records, "bit {bit}");
        }
        if bit / 8 >= parts.0 {
            check(&table, &records, &format!("bit {bit}"));
        }
    }
}

#[test]
fn a_part_that_is_lost_is_made_anew_and_what_is_lost_with_it_is_a_gap() {
    let records = records(60);
    let (file, finished) = cut(&records, &small(), 4);
    let bytes = file.bytes();
    let table = open(bytes.clone(), &finished).unwrap();
    let spans = table.table_index.spans().to_vec();
    for span in &spans {
        // Destroy index and filter of one partition, and none, one, two or all of its blocks.
        for lost in [0, 1, 2, span.blocks] {
            let mut damaged = bytes.clone();
            damaged[span.index.offset as usize..span.filter.end() as usize].fill(0x5a);
            let hit = (span.range.first + 1..)
                .take(lost)
                .map(|block| table.handle(block.min(span.range.first + span.blocks - 1)).unwrap());
            let hit: Vec<_> = if lost == span.blocks {
                (span.range.first..span.range.first + span.blocks).map(|block| table.handle(block).unwrap()).collect()
            } else {
                hit.collect()
            };
            for handle in &hit {
                damaged[handle.offset as usize..handle.end() as usize].fill(0xa5);
            }
            let table = open(damaged, &finished).unwrap();
            let (mut errors, mut exact) = (0, 0);
            for n in 0..123 {
                let key = numbered(n);
                let expected = records.iter().find(|record| record.key == key);
                match got(&table, &key, MAX_SEQNO) {
                    Ok(found) => {
                        exact += 1;
                        assert_eq!(found.as_ref(), expected, "{key:?} with {lost} lost");
                    }
                    Err(error) => {
                        errors += 1;
                        assert!(error.is_corruption() && key <= span.bound, "{error}");
                        assert!(
                            span.range.floor.as_ref().is_none_or(|floor| *floor < key),
                            "{key:?} is in another range"
                        );
                    }
                }
            }
            assert_eq!(errors > 0, lost > 0, "{errors} errors, {exact} exact");
            // A user's cursor continues after the lost range; a job's cursor fails.
            let mut cursor = table.cursor_checked(crate::options::Verify::Always);
            let shown = walk(&mut cursor, true).unwrap();
            let (gaps, kept): (Vec<_>, Vec<_>) = shown.into_iter().partition(|record| record.kind == Kind::Fence);
            assert_eq!(gaps.is_empty(), lost == 0);
            assert!(kept.iter().all(|record| records.contains(record)) && kept.len() + 40 > records.len());
            assert_eq!(walk(&mut table.stream(), true).is_err(), lost > 0);
        }
    }
}

/// Regression test: a lost block was listed with the CRC stored after its bytes, and was corrected by it. It then
/// proved the absence of the first key of the next block, which was their separator.
#[test]
fn a_block_that_was_hit_beside_its_part_hides_nothing() {
    let records = records(60);
    let (file, finished) = cut(&records, &small(), 4);
    let table = open(file.bytes(), &finished).unwrap();
    let span = table.table_index.spans()[1].clone();
    for block in 0..span.blocks {
        let mut bytes = file.bytes();
        bytes[span.index.offset as usize + 3] ^= 0x10;
        bytes[table.handle(span.range.first + block).unwrap().offset as usize + 9] ^= 0x04;
        let hurt = open(bytes, &finished).unwrap();
        for n in 0..123 {
            let expected = records.iter().find(|record| record.key == numbered(n));
            match got(&hurt, &numbered(n), MAX_SEQNO) {
                Ok(found) => assert_eq!(found.as_ref(), expected, "{n}"),
                Err(error) => {
                    assert!(error.is_corruption() && table.table_index.spans()[1].bound >= numbered(n), "{error}")
                }
            }
        }
    }
}

/// An index that was rebuilt whole is as good as the stored one. A filter is not rebuilt, and an index without a block
/// of its range stays incomplete while the table is open.
#[test]
fn a_table_that_lacks_a_part_is_to_be_opened_again_once_its_damage_has_passed() {
    let records = records(60);
    let (file, finished) = cut(&records, &small(), 4);
    let table = open(file.bytes(), &finished).unwrap();
    let span = table.table_index.spans()[1].clone();
    let (index, filter) = (span.index.offset, span.filter.offset);
    let block = table.handle(span.range.first).unwrap().offset;
    let hits: [(&str, &[u64], bool); 5] = [
        ("nothing", &[], false),
        ("a block", &[block], false),
        ("an index", &[index], false),
        ("a filter", &[filter], true),
        ("an index and a block", &[index, block], true),
    ];
    for (what, places, is_due) in hits {
        let mut damaged = file.bytes();
        places.iter().for_each(|at| damaged[*at as usize..][..16].iter_mut().for_each(|byte| *byte ^= 0x5a));
        let table = open(damaged, &finished).unwrap();
        let met = records.iter().filter(|record| got(&table, &record.key, record.seqno).is_err()).count();
        assert_eq!(met > 0, places.contains(&block), "{what}");
        assert_eq!(table.forget_damage(), is_due, "{what}");
    }
}

#[test]
fn no_bit_in_memory_of_a_top_or_a_part_hides_a_record() {
    let records = records(40);
    for filter_bits in [0, 10] {
        let (file, finished) = cut(&records, &WriterSettings { filter_bits, ..small() }, 3);
        let table = open(file.bytes(), &finished).unwrap();
        assert!(ranges(&table) > 3);
        for (site, at) in (0..400).flat_map(|at| [(CorruptionSite::Index, at), (CorruptionSite::Filter, at)]) {
            if site == CorruptionSite::Filter && filter_bits == 0 {
                continue;
            }
            let damaged = table.damaged(site, at, 1 << (at % 8)).unwrap();
            check(&damaged, &records, &format!("{site:?} {at}"));
            let mut cursor = damaged.cursor_checked(crate::options::Verify::Always);
            for n in (0..83).step_by(9) {
                cursor.seek(&numbered(n), MAX_SEQNO).unwrap();
                let expected = records.iter().find(|record| record.key >= numbered(n));
                assert_eq!(
                    cursor.valid().then(|| Owned::of(&cursor.record())).as_ref(),
                    expected,
                    "{site:?} {at}, {n}"
                );
            }
        }
    }
}

#[test]
fn a_cut_table_is_rebuilt_whole() {
    let records = records(60);
    for base_seqno in [0, 20] {
        let (file, finished) = cut(&records, &WriterSettings { base_seqno, ..small() }, 4);
        let bytes = file.bytes();
        let spans = open(bytes.clone(), &finished).unwrap().table_index.spans().to_vec();
        let (first, last) = (&spans[0], &spans[spans.len() - 1]);
        let known = KnownTable {
            uid: Some(UID),
            family: 3,
            keys: Some((finished.smallest.clone(), finished.largest.clone())),
            seqnos: Some((finished.least_seqno, finished.greatest_seqno)),
            ledger: Some(finished.ledger),
            ingest_seqno: 0,
            size: None,
        };
        let end = bytes.len();
        let (part, behind) = (first.index.offset as usize, last.filter.end() as usize);
        let hurts: [&[(usize, usize)]; 7] = [
            &[],
            &[(behind, end - 136)], // properties and top index
            &[(end - 136, end)],
            &[(0, 64)],
            &[(part + 5, part + 6)],
            &[(part + 5, part + 6), (end - 140, end - 137)],
            &[(part, end)],
        ];
        for hurt in hurts {
            let mut damaged = bytes.clone();
            hurt.iter().for_each(|(from, to)| damaged[*from..*to].iter_mut().for_each(|byte| *byte ^= 0x33));
            let cache = Arc::new(Cache::new(1 << 20));
            let rebuilt = rebuild(NAME, Memory::of(damaged), &known, &Order::bytewise(), cache, Arc::new(Sealer));
            let table = rebuilt.unwrap_or_else(|error| panic!("{hurt:?}: {error}")).table;
            for record in &records {
                assert_eq!(got(&table, &record.key, record.seqno).unwrap().as_ref(), Some(record), "{hurt:?}");
            }
        }
    }
}

#[test]
fn a_filter_of_others_is_not_cut() {
    #[derive(Debug)]
    struct First;
    impl crate::policy::FilterPolicy for First {
        fn name(&self) -> &str {
            "first"
        }
        fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>> {
            Some(keys.concat())
        }
        fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
            filter.windows(key.len()).any(|part| part == key)
        }
    }
    let records = records(60);
    let policy: Arc<dyn crate::policy::FilterPolicy> = Arc::new(First);
    let settings = WriterSettings { filter_policy: Some(policy.clone()), ..small() };
    let (file, finished) = cut(&records, &settings, 4);
    for given in [Some(policy), None] {
        let (cache, read_by) = (Arc::new(Cache::new(1 << 20)), (expected(&finished), Order::bytewise(), given));
        let watch = Arc::new(NoWatch);
        let table = Table::open_watched(NAME.into(), file.clone(), read_by, cache, Arc::new(Sealer), watch).unwrap();
        assert!(ranges(&table) > 2);
        check(&table, &records, "a filter of others");
        table.verify(&Sealer, &mut |_| Ok(())).unwrap();
    }
}

#[test]
fn an_untouched_cut_table_passes_the_fuzzers_whole() {
    let (file, finished) = cut(&records(30), &small(), 2);
    fuzz_table(&file.bytes());
    let table = open(file.bytes(), &finished).unwrap();
    let bytes = file.bytes();
    for span in table.table_index.spans() {
        fuzz_properties(&bytes[span.index.offset as usize..span.index.end() as usize - 5]);
    }
    for at in (0..bytes.len()).step_by(5) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x81;
        fuzz_table(&changed);
    }
}
