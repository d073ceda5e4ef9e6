//! Memory corruption in an open table: every verified read returns the written data, whichever bit was flipped.

use super::*;
use crate::checksum::keys_hashed;
use crate::cursor::Cursor;
use crate::options::Verify;
use crate::record::MAX_SEQNO;
use crate::sst::fuzzing::CorruptionSite;
use crate::sst::table::table::{LoadedBlock, ReadDoubt, ReadOutcome};

/// Keys with long and short common prefixes, a gap after each, some in several versions.
fn records() -> Vec<Owned> {
    let mut records = Vec::new();
    for n in 0..24u32 {
        let versions: &[u64] = if n % 5 == 0 { &[90, 60, 30] } else { &[50] };
        for seqno in versions {
            records.push(Owned::put(&numbered(n * 2), *seqno, format!("value {n} at {seqno}").as_bytes()).sealed());
        }
    }
    records
}

struct Stage {
    records: Vec<Owned>,
    table: Arc<Table>,
}

fn stage(records: Vec<Owned>, settings: &WriterSettings) -> Stage {
    stage_within(1 << 20, records, settings)
}

fn stage_within(cache_bytes: usize, records: Vec<Owned>, settings: &WriterSettings) -> Stage {
    let (file, finished) = written(&records, settings);
    Stage { table: opened(file, &finished, &settings.order, &Arc::new(Cache::new(cache_bytes))), records }
}

/// Settings without a filter, so that the lookup of an absent key reads blocks.
fn plain(block_bytes: usize, seal_column: bool) -> WriterSettings {
    WriterSettings { block_bytes, filter_bits: 0, restart_interval: 4, seal_column, ..settings() }
}

impl Stage {
    /// Checks the result for every key, present and absent, at several seqnos.
    fn check(&self, table: &Table, what: &str) {
        for n in 0..50u32 {
            for seqno in if n % 10 == 0 { &[MAX_SEQNO, 70, 40, 10][..] } else { &[MAX_SEQNO] } {
                let seqno = *seqno;
                let key = numbered(n);
                let expected = self.records.iter().find(|record| record.key == key && record.seqno <= seqno);
                let found = got(table, &key, seqno).unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = found.map(Owned::sealed); // a damaged companion is harmless
                assert_eq!(found.as_ref(), expected, "{what}: {n} at {seqno}");
            }
        }
    }
}

#[test]
fn no_bit_of_a_cached_block_changes_an_answer() {
    for (block_bytes, seal_column) in [(300, false), (300, true), (4096, false)] {
        let stage = stage(records(), &plain(block_bytes, seal_column));
        stage.check(&stage.table, "untouched");
        let mut hit = 0;
        for block in 0..stage.table.blocks().min(3) {
            for byte in 0.. {
                if byte > 200 && byte % 7 != 0 && block_bytes > 1000 {
                    continue;
                }
                let mask = 1 << (byte % 8);
                if !stage.table.damage_cached(block, byte, mask).unwrap() {
                    break;
                }
                hit += 1;
                stage.check(&stage.table, &format!("byte {byte} of block {block}"));
                // Restore the block, whether or not the damage was detected.
                drop(stage.table.slots.take(block));
            }
        }
        assert!(hit > 300, "{hit}");
    }
}

/// The offset after a record is damaged so that it cuts off the companions after the record's seal; the rest is valid
/// by itself.
#[test]
fn no_offset_that_was_hit_leaves_out_what_stands_beside_a_record() {
    let skippable = [&[companion::SKIPPABLE[1], 14][..], &[9; 14]].concat();
    let with_more = |mut record: Owned| {
        record.companion.extend_from_slice(&skippable);
        record
    };
    let records = (0..40).map(|n| with_more(Owned::put(&numbered(n), 50, &[7; 30]).sealed())).collect();
    let stage = stage(records, &plain(4096, false));
    let whole = stage.table.read_block(0, true).unwrap();
    let offsets = whole.hits() - 2 * (whole.len() + 1);
    let mut hit = 0;
    for at in 0..whole.len() {
        let end = whole.offset(at + 1);
        let mask = (end ^ (end - skippable.len())) as u16;
        let Ok(mask) = u8::try_from(mask) else { continue };
        let record = &stage.records[at];
        for by_cursor in [false, true] {
            assert!(got(&stage.table, &record.key, 90).unwrap().is_some(), "it is in the cache");
            assert!(stage.table.damage_cached(0, offsets + 2 * (at + 1), mask).unwrap());
            let found = if by_cursor {
                let mut cursor = stage.table.cursor_checked(Verify::Always);
                cursor.seek(&record.key, MAX_SEQNO).unwrap();
                Some(Owned::of(&cursor.record()))
            } else {
                got(&stage.table, &record.key, 90).unwrap()
            };
            assert_eq!(found.as_ref(), Some(record), "{at}, by a cursor: {by_cursor}");
            drop(stage.table.slots.take(0));
            hit += 1;
        }
    }
    assert!(hit > 40, "{hit}");
}

/// An uncached block is damaged between its load and its search: it is read again, as a cached block is.
#[test]
fn no_bit_of_a_block_that_merely_passes_changes_an_answer() {
    let stage = stage(records(), &plain(4096, false));
    let table = &stage.table;
    let whole = table.read_block(0, true).unwrap();
    let mut doubts = 0;
    for byte in 0..whole.hits() {
        for n in [0, 1, 20, 31, 46] {
            let key = numbered(n);
            let part = table.partition_for(&key).unwrap();
            let wanted = table.wanted(&part.index, (&key, hash(&key)), MAX_SEQNO, Checks::EACH);
            let mut seen = None;
            let mut visit = |record: &Record<'_>| seen = Some(record.value.to_vec());
            let block = LoadedBlock::Whole(Arc::new(whole.hit(byte, 1 << (byte % 8))));
            let found = match table.search_loaded(block, 0, &wanted, &mut visit).unwrap() {
                ReadOutcome::Found => true,
                ReadOutcome::Absent | ReadOutcome::Further => false,
                ReadOutcome::Doubtful => {
                    doubts += 1;
                    table.get_again(&wanted, ReadDoubt::Block(0), &mut visit).unwrap()
                }
            };
            let expected = stage.records.iter().find(|record| record.key == key).map(|record| &record.value);
            assert_eq!((found, seen.as_ref()), (expected.is_some(), expected), "byte {byte}, key {n}");
            drop(table.slots.take(0)); // the block was read again and cached
        }
    }
    assert!(doubts > 300, "{doubts}");
}

#[test]
fn no_bit_of_an_index_or_a_filter_hides_a_record() {
    // With and without a cache.
    for cache_bytes in [1 << 20, 0] {
        let stage = stage_within(cache_bytes, records(), &plain(120, false));
        for at in 0..200 {
            for mask in [1, 0x10, 0x80] {
                let table = stage.table.damaged(CorruptionSite::Index, at, mask).unwrap();
                stage.check(&table, &format!("byte {at} of the index, {mask:x}"));
            }
        }
    }
    // Hundreds of blocks, so that the index has several groups.
    let many: Vec<Owned> = (0..400).map(|n| Owned::put(&numbered(n * 2), 9, &[1; 50]).sealed()).collect();
    let wide = stage(many, &plain(100, false));
    assert!(wide.table.blocks() > 130);
    for at in (0..1200).step_by(5) {
        let table = wide.table.damaged(CorruptionSite::Index, at, 0x44).unwrap();
        for n in (0..800).step_by(3) {
            let found = got(&table, &numbered(n), MAX_SEQNO).unwrap();
            assert_eq!(found.is_some(), n % 2 == 0, "byte {at} of the index, key {n}");
        }
    }
    let stage = stage(records(), &WriterSettings { filter_bits: 10, ..plain(300, false) });
    for at in 0..128 {
        let table = stage.table.damaged(CorruptionSite::Filter, at, 0x55).unwrap();
        stage.check(&table, &format!("byte {at} of the filter"));
    }
}

#[test]
fn what_is_not_asked_for_is_not_checked() {
    let stage = stage(records(), &plain(4096, false));
    let record = &stage.records[3];
    let loaded = stage.table.read_block(0, true).unwrap();
    let entry = loaded.entry(3).unwrap();
    assert!(stage.table.damage_cached(0, entry.value_at, 0x20).unwrap());
    let get = |checks| {
        let mut value = Vec::new();
        stage
            .table
            .get(&record.key, hash(&record.key), MAX_SEQNO, checks, &mut |found| value = found.value.to_vec())
            .unwrap();
        value
    };
    assert_ne!(get(Checks::NONE), record.value);
    assert_ne!(get(Checks::LOADED), record.value);
    assert_eq!(get(Checks::EACH), record.value);
    assert_eq!(get(Checks::NONE), record.value, "what was found is put right for all");
}

#[test]
fn a_hit_hashes_no_key_and_a_proved_miss_its_neighbours() {
    let stage = stage(records(), &plain(4096, false));
    stage.check(&stage.table, "warm");
    let hashed = |key: &[u8]| {
        let before = keys_hashed();
        got(&stage.table, key, MAX_SEQNO).unwrap();
        keys_hashed() - before
    };
    // Some keys of the block have versions: the neighbor of a hit is checked too.
    assert_eq!(hashed(&numbered(2)), 1);
    assert_eq!(hashed(&numbered(3)), 2);
    let single: Vec<Owned> = (0..20).map(|n| Owned::put(&numbered(n * 2), 9, b"value").sealed()).collect();
    let stage = self::stage(single, &plain(4096, false));
    let before = keys_hashed();
    for n in 0..20 {
        assert!(got(&stage.table, &numbered(n * 2), MAX_SEQNO).unwrap().is_some());
    }
    assert_eq!(keys_hashed() - before, 0);
}

#[test]
fn keys_that_are_equal_and_differ_are_checked_as_they_are_stored() {
    let order = Order::custom(Arc::new(Caseless));
    let records: Vec<Owned> = (0..20u8).map(|n| Owned::put(&[b'A' + n, b'x'], 9, &[n; 30]).sealed()).collect();
    let stage = stage(records, &WriterSettings { order, filter_bits: 0, block_bytes: 300, ..settings() });
    for byte in 0..200 {
        stage.table.damage_cached(0, byte, 0x10).unwrap();
        for n in 0..20u8 {
            let found = got(&stage.table, &[b'a' + n, b'X'], MAX_SEQNO).unwrap().map(Owned::sealed);
            assert_eq!(found.as_ref(), Some(&stage.records[n as usize]), "byte {byte}");
            assert!(got(&stage.table, &[b'a' + n, b'y'], MAX_SEQNO).unwrap().is_none());
        }
    }
}

#[test]
fn a_block_that_cannot_be_made_whole_answers_for_what_is_left() {
    let (file, finished) = written(&records(), &plain(400, false));
    let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(1 << 20)));
    let records = records();
    let handle = table.index().handles()[1];
    let loaded = table.read_block(1, true).unwrap();
    let hit = loaded.entry(2).unwrap();
    let mut lost = Vec::new();
    loaded.key_into(2, &mut lost).unwrap();
    for at in 0..4 {
        file.0.write().unwrap()[handle.offset as usize + hit.value_at + at] ^= 0x5a;
    }
    drop(table.slots.take(1));
    let mut errors = Vec::new();
    for record in &records {
        match got(&table, &record.key, record.seqno) {
            Ok(found) => assert_eq!(found.as_ref(), Some(record)),
            Err(error) => {
                let damage = error.damage().unwrap();
                assert_eq!((damage.file.as_str(), damage.offset), (NAME, handle.offset));
                errors.push((record.key.clone(), record.seqno));
            }
        }
    }
    assert!(errors.iter().any(|(key, _)| *key == lost));
    assert!(errors.len() <= 3, "{errors:?}"); // older versions of the key, and the next key
    // A repeated read does not access the file again.
    *file.0.write().unwrap() = Vec::new();
    assert!(got(&table, &lost, MAX_SEQNO).is_err_and(|error| error.is_corruption()));
    assert!(table.slots.slot(1).load().is_none());
}

fn walked(cursor: &mut TableCursor, forward: bool) -> Vec<Owned> {
    let mut all = Vec::new();
    if forward {
        cursor.first().unwrap()
    } else {
        cursor.last().unwrap()
    }
    while cursor.valid() {
        all.push(Owned::of(&cursor.record()));
        if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
    }
    if !forward {
        all.reverse();
    }
    all
}

/// Returns the records with correct seals: a record with a damaged seal is returned unchanged.
fn sealed(records: Vec<Owned>) -> Vec<Owned> {
    records.into_iter().map(Owned::sealed).collect()
}

#[test]
fn no_bit_of_a_cached_block_misleads_a_cursor() {
    for (block_bytes, seal_column) in [(300, false), (300, true)] {
        let stage = stage(records(), &plain(block_bytes, seal_column));
        let order = Order::bytewise();
        for (byte, forward) in (0..).zip([true, false].into_iter().cycle()) {
            let hit = |stage: &Stage| stage.table.damage_cached(1, byte, 1 << (byte % 8)).unwrap();
            if !hit(&stage) {
                assert!(byte > 200);
                break;
            }
            let mut cursor = stage.table.cursor_checked(Verify::Always);
            assert_eq!(sealed(walked(&mut cursor, forward)), stage.records, "byte {byte}, forward {forward}");
            for n in 0..50u32 {
                let (key, seqno) = (numbered(n), if n % 3 == 0 { 60 } else { MAX_SEQNO });
                let at = stage.records.partition_point(|record| {
                    order.compare_internal((&record.key, record.seqno), (&key, seqno)) == Ordering::Less
                });
                drop(stage.table.slots.take(1));
                hit(&stage);
                let mut cursor = stage.table.cursor_checked(Verify::Always);
                cursor.seek(&key, seqno).unwrap();
                let found = cursor.valid().then(|| Owned::of(&cursor.record()).sealed());
                assert_eq!(found.as_ref(), stage.records.get(at), "byte {byte}, seek {n}");
                drop(stage.table.slots.take(1));
                hit(&stage);
                let mut cursor = stage.table.cursor_checked(Verify::Always);
                cursor.seek_for_prev(&key, seqno).unwrap();
                let found = cursor.valid().then(|| Owned::of(&cursor.record()).sealed());
                let is_at = |record: &&Owned| record.key == key && record.seqno == seqno;
                let expected = stage.records.get(at).filter(is_at).or(at.checked_sub(1).map(|at| &stage.records[at]));
                assert_eq!(found.as_ref(), expected, "byte {byte}, seek for prev {n}");
            }
            drop(stage.table.slots.take(1));
        }
    }
}

#[test]
fn a_job_takes_nothing_from_memory_that_was_hit() {
    let stage = stage(records(), &plain(300, false));
    for byte in 0..150 {
        stage.table.damage_cached(1, byte, 0x40).unwrap();
        let found = walked(&mut stage.table.cursor(false), byte % 2 == 0);
        assert_eq!(sealed(found), stage.records, "byte {byte}");
        drop(stage.table.slots.take(1));
    }
}

#[test]
fn an_index_that_was_hit_misleads_no_cursor() {
    let stage = stage(records(), &plain(120, false));
    for at in 0..150 {
        let table = stage.table.damaged(CorruptionSite::Index, at, 0x11).unwrap();
        for n in 0..50u32 {
            let at_or_after = stage.records.iter().find(|record| record.key >= numbered(n));
            let mut cursor = table.cursor_checked(Verify::Always);
            cursor.seek(&numbered(n), MAX_SEQNO).unwrap();
            assert_eq!(cursor.valid().then(|| Owned::of(&cursor.record())).as_ref(), at_or_after, "byte {at}, {n}");
            let before = stage.records.iter().rev().find(|record| record.key <= numbered(n));
            let mut cursor = table.cursor_checked(Verify::Always);
            cursor.seek_for_prev(&numbered(n), 0).unwrap();
            assert_eq!(cursor.valid().then(|| Owned::of(&cursor.record())).as_ref(), before, "byte {at}, {n} back");
        }
    }
}

#[test]
fn a_sampling_cursor_finds_what_comes_by_its_turn() {
    let stage = stage(records(), &plain(4096, false));
    let loaded = stage.table.read_block(0, true).unwrap();
    let value = loaded.entry(7).unwrap().value_at;
    let read = |verify| {
        stage.table.damage_cached(0, value, 0xff).unwrap();
        let found = walked(&mut stage.table.cursor_checked(verify), true);
        drop(stage.table.slots.take(0));
        found == stage.records
    };
    assert!(!read(Verify::Never) && !read(Verify::OnFill) && !read(Verify::Sampled(3)));
    assert!(read(Verify::Sampled(8)) && read(Verify::Sampled(1)) && read(Verify::Always));
}

/// Returns the records that a user's cursor yields: their numbers, and `None` for gaps.
fn shown(stage: &Stage, cursor: &mut TableCursor, forward: bool) -> Vec<Option<usize>> {
    let walked = walked(cursor, forward);
    let number = |record: &Owned| stage.records.iter().position(|known| known == record);
    walked.iter().map(|record| if record.kind == Kind::Fence { None } else { number(record) }).collect()
}

#[test]
fn a_cursor_goes_on_where_something_is_lost() {
    let (file, finished) = written(&records(), &plain(400, false));
    let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(1 << 20)));
    let stage = Stage { table, records: records() };
    let handle = stage.table.index().handles()[1];
    let first = stage.table.read_block(0, true).unwrap().len();
    let loaded = stage.table.read_block(1, true).unwrap();
    let whole = file.bytes();
    for hit in 0..loaded.len() {
        let value = handle.offset as usize + loaded.entry(hit).unwrap().value_at;
        file.0.write().unwrap()[value..value + 4].iter_mut().for_each(|byte| *byte ^= 0x5a);
        let table = opened(file.clone(), &finished, &Order::bytewise(), &Arc::new(Cache::new(1 << 20)));
        let expected: Vec<Option<usize>> =
            (0..stage.records.len()).map(|n| Some(n).filter(|n| *n != first + hit)).collect();
        let mut cursor = table.cursor_checked(Verify::Sampled(64));
        assert_eq!(shown(&stage, &mut cursor, true), expected, "entry {hit}");
        assert_eq!(shown(&stage, &mut cursor, false), expected, "entry {hit}, back");
        // Move back and forth around the gap.
        let lost = &stage.records[first + hit];
        for _ in 0..2 {
            cursor.seek(&lost.key, lost.seqno).unwrap();
            let record = cursor.record();
            let (kind, key) = (record.kind, record.key);
            assert_eq!(
                (kind, key, record.seqno),
                (Kind::Fence, &lost.key[..], lost.seqno),
                "{:?}",
                table.bad_blocks.find(1)
            );
            let lost_range = crate::lost_range::LostRange::decode(&mut Reader::new(record.value)).unwrap();
            assert!(
                lost_range.may_hide(&Order::bytewise(), &lost.key, MAX_SEQNO) && lost_range.offset == handle.offset
            );
            assert_eq!(cursor.source().offset, handle.offset);
            cursor.prev().unwrap();
            let before = (first + hit).checked_sub(1).map(|n| &stage.records[n]);
            assert_eq!(cursor.valid().then(|| Owned::of(&cursor.record())).as_ref(), before);
            cursor.seek_for_prev(&lost.key, lost.seqno).unwrap();
            assert_eq!(cursor.record().kind, Kind::Fence);
            cursor.next().unwrap();
            let behind = stage.records.get(first + hit + 1);
            assert_eq!(cursor.valid().then(|| Owned::of(&cursor.record())).as_ref(), behind);
        }
        // A job gets an error with the location of the damage.
        for fill_cache in [false, true] {
            let mut cursor = table.cursor(fill_cache);
            let mut moved = cursor.first();
            while moved.is_ok() && cursor.valid() {
                moved = cursor.next();
            }
            let error = moved.expect_err("a job must have every record");
            assert_eq!((error.damage().unwrap().file.as_str(), error.damage().unwrap().offset), (NAME, handle.offset));
        }
        *file.0.write().unwrap() = whole.clone();
    }
}

#[test]
fn a_record_that_is_cut_out_of_memory_is_missed() {
    // Entries of equal size: a shift moves each record, intact, to another record's position.
    let cut = |keys: &dyn Fn(u32) -> Vec<u8>, order: Order| {
        let settings = WriterSettings { restart_interval: 1, order, ..plain(4096, false) };
        let records: Vec<Owned> =
            (0..20).map(|n| Owned::put(&keys(n * 2), 90 - u64::from(n), &[n as u8; 12]).sealed()).collect();
        let stage = stage(records, &settings);
        let loaded = stage.table.read_block(0, true).unwrap();
        for gone in 0..loaded.len() {
            for (number, record) in stage.records.iter().enumerate() {
                drop(stage.table.slots.take(0));
                let bytes = loaded.bytes();
                let (at, next, end) = (loaded.offset(gone), loaded.offset(gone + 1), loaded.offset(loaded.len()));
                let moved = [&bytes[next..end], &vec![0; next - at]].concat();
                for (byte, (old, new)) in bytes[at..end].iter().zip(moved).enumerate() {
                    if *old != new {
                        assert!(stage.table.damage_cached(0, at + byte, old ^ new).unwrap());
                    }
                }
                let found = got(&stage.table, &record.key, record.seqno).unwrap();
                assert_eq!(found.as_ref(), Some(record), "{gone} is cut out, {number} is asked for");
            }
        }
    };
    cut(&|n| numbered(n), Order::bytewise());
    // Equal heads: the eight bytes after the common prefix do not distinguish the keys.
    cut(&|n| [[b'a' + (n / 20) as u8].as_slice(), b"0123456789", &numbered(n)].concat(), Order::bytewise());
    // Versions of a key: after the shift, an older version is in the position of the newest.
    cut(&|n| numbered(n / 6), Order::bytewise());
    // No heads.
    cut(&|n| numbered(n), Order::custom(Arc::new(Caseless)));
}
