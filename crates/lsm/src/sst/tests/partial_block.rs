//! The cost of damage: none for one or two flipped bits; one record for more in an uncompressed block; the rest of a
//! compressed block from the point where it cannot be decompressed. No read ever returns a wrong record, and no record
//! is missing without a gap.

use super::*;
use crate::checksum::{Role, block_seed};
use crate::error::Remedy;
use crate::lost_range::LostRange;
use crate::record::{MAX_SEQNO, companion};
use proptest::prelude::*;

/// The result of an examination.
#[derive(Default)]
struct Shown {
    records: Vec<Owned>,
    gaps: Vec<LostRange>,
    healed: Vec<(u64, Remedy)>,
}

fn examined(table: &Table, heal: bool) -> Shown {
    let mut shown = Shown::default();
    let mut see = |found: ExaminedItem<'_>| {
        match found {
            ExaminedItem::Record(record, check, source) => {
                assert!(check.serves());
                assert_eq!(source.file, NAME);
                let mut record = Owned::of(record);
                if check == Check::CompanionDamaged {
                    record = record.sealed(); // returned as it is; repaired when the record is next written
                }
                shown.records.push(record);
            }
            ExaminedItem::Gap(lost_range) => shown.gaps.push(lost_range.clone()),
            ExaminedItem::Healed { offset, by } => shown.healed.push((offset, by)),
            ExaminedItem::Refused { error, .. } => panic!("{error}"),
        }
        Ok(())
    };
    table.examine(&Sealer, heal, &mut see).unwrap();
    shown
}

/// Records of 100 bytes, for blocks of 4 KiB.
fn records(count: u32) -> Vec<Owned> {
    let value = |n: u32| (0..100).map(|at| mix(u64::from(n * 100 + at / 2)) as u8 & 0x3f).collect::<Vec<u8>>();
    (0..count).map(|n| Owned::put(&numbered(n * 3), 10 + u64::from(n), &value(n)).sealed()).collect()
}

fn random(drawn: &mut u64) -> usize {
    *drawn += 1;
    mix(*drawn) as usize
}

pub(in crate::sst) struct Stage {
    pub(in crate::sst) records: Vec<Owned>,
    file: Arc<Memory>,
    bytes: Vec<u8>,
    pub(in crate::sst) table: Arc<Table>,
}

fn stage(records: Vec<Owned>, settings: &WriterSettings) -> Stage {
    let (file, finished) = written(&records, settings);
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(1 << 20)));
    Stage { records, bytes: file.bytes(), file, table }
}

impl Stage {
    fn with(&self, bits: &[usize]) -> Shown {
        let mut bytes = self.bytes.clone();
        bits.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
        *self.file.0.write().unwrap() = bytes;
        let shown = examined(&self.table, true);
        *self.file.0.write().unwrap() = self.bytes.clone();
        shown
    }

    /// Checks that no record is wrong and every missing record is covered by a gap; returns the numbers of the missing
    /// records.
    fn missing(&self, shown: &Shown) -> Vec<usize> {
        let order = Order::bytewise();
        for record in &shown.records {
            assert!(self.records.contains(record), "{record:?} was never written");
        }
        for gap in &shown.gaps {
            let [from, to] = [&gap.from, &gap.to].map(|(key, seqno)| (&key[..], *seqno));
            assert!(order.compare_internal(from, to).is_le(), "{gap:?}");
        }
        let missing: Vec<usize> =
            (0..self.records.len()).filter(|n| !shown.records.contains(&self.records[*n])).collect();
        for number in &missing {
            let lost = &self.records[*number];
            let covered = shown.gaps.iter().any(|gap| gap.covers(&order, &lost.key, lost.seqno));
            assert!(covered, "{number} is lost and no gap says so: {:?}", shown.gaps);
        }
        missing
    }
}

/// Returns the start and end offset of each entry of a block in the file.
fn entries(stage: &Stage, block: usize) -> Vec<(usize, usize)> {
    let handle = stage.table.index().handles()[block];
    let loaded = stage.table.read_block(block, true).unwrap();
    let at = |entry: usize| handle.offset as usize + loaded.offset(entry);
    (0..loaded.len()).map(|entry| (at(entry), at(entry + 1))).collect()
}

#[test]
fn a_record_that_is_hit_costs_itself_alone() {
    for seal_column in [false, true] {
        let stage = stage(records(100), &WriterSettings { seal_column, ..settings() });
        let mut drawn = 7u64;
        let first = entries(&stage, 0).len();
        for (number, (from, to)) in entries(&stage, 1).into_iter().enumerate() {
            for kind in 0..3 {
                // Flip bits anywhere in the entry, three bits of its first byte, or its whole first half.
                let bits: Vec<usize> = match kind {
                    0 => (0..7).map(|_| from * 8 + random(&mut drawn) % ((to - from) * 8)).collect(),
                    1 => vec![from * 8, from * 8 + 3, from * 8 + 6],
                    _ => (from * 8..(from + to) * 4).step_by(3).collect(),
                };
                let shown = stage.with(&bits);
                let missing = stage.missing(&shown);
                assert_eq!(missing, [first + number], "{kind}: column {seal_column}, {:?}", shown.gaps);
                assert_eq!((shown.gaps.len(), shown.healed.len()), (1, 0));
                // Reads of its neighbors are not affected: no key of the table has two versions.
                let order = Order::bytewise();
                for near in [first + number - 1, first + number + 1] {
                    if let Some(near) = stage.records.get(near) {
                        let gap = &shown.gaps[0];
                        assert!(!gap.covers(&order, &near.key, near.seqno), "{near:?} {gap:?}");
                    }
                }
            }
        }
    }
}

/// Every second record has a list of bytes that resemble no entry.
fn listed(count: u32) -> Vec<Owned> {
    let with_list = |(n, record): (usize, Owned)| match n % 2 {
        0 => record,
        _ => record.listed(&[0xC1; 30]),
    };
    records(count).into_iter().enumerate().map(with_list).collect()
}

#[test]
fn a_list_that_is_hit_is_never_gone_in_silence() {
    let stage = stage(listed(60), &settings());
    let order = Order::bytewise();
    let number_of = |at: usize| entries(&stage, 0).partition_point(|(_, to)| *to <= at);
    // Change a list's kind byte, reduce its length, or zero the list from some byte on.
    let mut hits: Vec<(Vec<u8>, usize)> = Vec::new();
    for (number, (from, to)) in entries(&stage, 0).into_iter().enumerate().filter(|(number, _)| number % 10 == 1) {
        let list = to - 36;
        assert_eq!((stage.bytes[list], number), (companion::LIST, number_of(from)));
        for byte in (0..=u8::MAX).filter(|byte| (byte ^ companion::LIST).count_ones() > 2) {
            hits.push((vec![byte], list));
        }
        hits.extend((0..34).map(|length| (vec![companion::LIST, length, 0xC0, 0x12], list)));
        hits.extend([1, 20, 36, 60, 300].map(|length| (vec![0; length], list)));
    }
    let mut lost = Vec::new();
    for (hit, at) in hits {
        let mut bytes = stage.bytes.clone();
        bytes[at..at + hit.len()].copy_from_slice(&hit);
        *stage.file.0.write().unwrap() = bytes;
        let (mut served, mut gaps, mut told) = (Vec::new(), Vec::new(), 0);
        let mut see = |found: ExaminedItem<'_>| {
            match found {
                ExaminedItem::Record(record, Check::CompanionDamaged, _) => {
                    (told += 1, served.push(record.key.to_vec())).1
                }
                ExaminedItem::Record(record, ..) => {
                    assert!(stage.records.contains(&Owned::of(record)), "{:02x?} at {at}: {record:?}", hit);
                    served.push(record.key.to_vec());
                }
                ExaminedItem::Gap(gap) => gaps.push(gap.clone()),
                ExaminedItem::Refused { .. } | ExaminedItem::Healed { .. } => {}
            }
            Ok(())
        };
        stage.table.examine(&Sealer, true, &mut see).unwrap();
        let missing: Vec<&Owned> = stage.records.iter().filter(|record| !served.contains(&record.key)).collect();
        for record in &missing {
            assert!(gaps.iter().any(|gap| gap.covers(&order, &record.key, record.seqno)), "{record:?} {gaps:?}");
        }
        lost.push(missing.len() + told);
    }
    lost.sort_unstable();
    assert_eq!(lost[lost.len() / 2], 1, "{lost:?}");
}

#[test]
fn a_record_among_lists_costs_itself_alone_in_the_median() {
    let stage = stage(listed(60), &settings());
    let (mut drawn, mut lost) = (3u64, Vec::new());
    for (from, to) in entries(&stage, 0) {
        for _ in 0..5 {
            let bits: Vec<usize> = (0..5).map(|_| from * 8 + random(&mut drawn) % ((to - from) * 8)).collect();
            let mut bytes = stage.bytes.clone();
            bits.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
            *stage.file.0.write().unwrap() = bytes;
            let mut kept = 0;
            let mut see = |found: ExaminedItem<'_>| {
                kept += usize::from(matches!(found, ExaminedItem::Record(..)));
                Ok(())
            };
            stage.table.examine(&Sealer, true, &mut see).unwrap();
            lost.push(stage.records.len() - kept);
        }
    }
    lost.sort_unstable();
    assert_eq!((lost[lost.len() / 2], lost[lost.len() - 1]), (1, 2), "{lost:?}");
}

#[test]
fn behind_the_last_key_nothing_is_lost() {
    // Damage the trailer of the last block, after its entries: all keys of the table stay readable.
    let stage = stage(records(40), &settings());
    let handle = *stage.table.index().handles().last().unwrap();
    let tail = handle.end() as usize - 5 - 8;
    let bits: Vec<usize> = (tail - 4..tail + 5).flat_map(|at| [at * 8 + 1, at * 8 + 4, at * 8 + 6]).collect();
    let shown = stage.with(&bits);
    assert_eq!((stage.missing(&shown), shown.gaps.len(), shown.healed.len()), (vec![], 0, 0));
    // The damage is reported nevertheless.
    let mut bytes = stage.bytes.clone();
    bits.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
    *stage.file.0.write().unwrap() = bytes;
    assert!(stage.table.check_block(stage.table.blocks() - 1, &Sealer).unwrap_err().is_corruption());
}

#[test]
fn one_or_two_flipped_bits_are_put_right() {
    let compressions =
        if cfg!(feature = "lz4") { vec![Compression::None, Compression::Lz4] } else { vec![Compression::None] };
    for compression in compressions {
        let stage = stage(records(40), &WriterSettings { compression, block_bytes: 1000, ..settings() });
        let handle = stage.table.index().handles()[1];
        let bits = handle.offset as usize * 8..handle.end() as usize * 8;
        for n in 0..60u64 {
            let pick = |n: u64| bits.start + (mix(n + 1) as usize) % bits.len();
            let hit = if n % 2 == 0 { vec![pick(n)] } else { vec![pick(n), pick(n + 1000)] };
            let shown = stage.with(&hit);
            assert_eq!(stage.missing(&shown), []);
            assert_eq!(shown.healed, [(handle.offset, Remedy::Corrected)], "{hit:?}");
            assert!(shown.gaps.is_empty());
        }
    }
}

#[test]
fn without_leave_to_heal_a_block_is_taken_as_it_lies() {
    let stage = stage(records(40), &settings());
    let at = stage.table.index().handles()[0].offset as usize + 60;
    stage.file.0.write().unwrap()[at] ^= 1;
    let shown = examined(&stage.table, false);
    assert!(shown.healed.is_empty());
    // One bit of one record is flipped, and its seal locates it.
    assert_eq!((stage.missing(&shown), shown.gaps.len()), (vec![], 0));
}

#[test]
fn two_corrections_that_both_pass_are_none() {
    /// Accepts every record whose value has an even number of set bits.
    struct Gullible;
    impl Companions for Gullible {
        fn verify(&self, record: &Record<'_>, _: u64, _: Protection) -> Check {
            match record.value.iter().map(|byte| byte.count_ones()).sum::<u32>() % 2 {
                0 => Check::Validated,
                _ => Check::Corrupted,
            }
        }
        fn protection(&self) -> Protection {
            Protection::Complete
        }
    }
    // Flipping any bit of the value satisfies this protector: the correction is ambiguous and must be rejected.
    let records: Vec<Owned> = (0..5).map(|n| Owned::put(&numbered(n), 9, b"even value \x03\x03").sealed()).collect();
    let records: Vec<Owned> = records
        .into_iter()
        .map(|record| match record.value.iter().map(|byte| byte.count_ones()).sum::<u32>() % 2 {
            0 => record,
            _ => Owned { value: [&record.value[..], &[1]].concat(), ..record }.sealed(),
        })
        .collect();
    let stage = stage(records, &settings());
    let (from, to) = entries(&stage, 0)[2];
    stage.file.0.write().unwrap()[(from + to) / 2] ^= 1;
    let (mut kept, mut gaps) = (Vec::new(), 0);
    let mut see = |found: ExaminedItem<'_>| {
        match found {
            ExaminedItem::Record(record, ..) => kept.push(Owned::of(record)),
            ExaminedItem::Gap(_) => gaps += 1,
            ExaminedItem::Refused { .. } | ExaminedItem::Healed { .. } => panic!("nothing can be healed here"),
        }
        Ok(())
    };
    stage.table.examine(&Gullible, true, &mut see).unwrap();
    assert_eq!((kept.len(), gaps), (4, 1));
    assert!(!kept.contains(&stage.records[2]));
}

#[cfg(feature = "lz4")]
#[test]
fn a_packed_block_gives_what_can_be_unpacked() {
    let stage = stage(records(200), &WriterSettings { compression: Compression::Lz4, ..settings() });
    let mut lost = Vec::new();
    let handle = stage.table.index().handles()[1];
    let in_block = {
        let loaded = stage.table.read_block(1, true).unwrap();
        loaded.len()
    };
    for at in (handle.offset as usize..handle.end() as usize - 5).step_by(37) {
        let shown = stage.with(&[at * 8, at * 8 + 2, at * 8 + 5]);
        let missing = stage.missing(&shown);
        assert!(missing.len() <= in_block);
        lost.push(missing.len());
    }
    lost.sort_unstable();
    // In the median less than a whole block is lost: the entries before the damage are returned.
    assert!(lost[lost.len() / 2] < in_block, "{lost:?} of {in_block}");
    assert!(lost[0] * 3 < in_block, "{lost:?} of {in_block}");
}

#[test]
fn a_plain_node_loses_the_block() {
    let stage = stage(records(100), &settings());
    let handle = stage.table.index().handles()[1];
    stage.file.0.write().unwrap()[handle.offset as usize + 9] ^= 1;
    let (mut kept, mut gaps) = (0, Vec::new());
    let mut see = |found: ExaminedItem<'_>| {
        match found {
            ExaminedItem::Record(..) => kept += 1,
            ExaminedItem::Gap(gap) => gaps.push(gap.clone()),
            ExaminedItem::Refused { .. } | ExaminedItem::Healed { .. } => panic!("nobody can heal here"),
        }
        Ok(())
    };
    stage.table.examine(&crate::seam::Plain, true, &mut see).unwrap();
    let in_block = stage.table.read_block(0, true).unwrap().len();
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].file.as_str(), gaps[0].offset), (NAME, handle.offset));
    assert_eq!(gaps[0].verdict, crate::error::Verdict::Checksum);
    assert!(kept < 100 && kept >= 100 - in_block - 1);
}

/// Returns a table written by a writer that checks nothing: its records were damaged before the CRC was computed.
pub(in crate::sst) fn spoilt(records: &[Owned], settings: &WriterSettings) -> Stage {
    let file = Memory::of(Vec::new());
    let mut writer = Writer::new(file.clone(), UID, settings.clone(), Arc::new(crate::seam::Plain));
    records.iter().for_each(|record| writer.add(&record.borrow()).unwrap());
    let finished = writer.finish().unwrap();
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(1 << 20)));
    Stage { records: records.to_vec(), bytes: file.bytes(), file, table }
}

#[test]
fn a_seal_that_does_not_fit_under_a_sum_that_does_costs_one_record() {
    let mut all = records(60);
    all[5].value[7..20].fill(0x77);
    // A record without a seal follows: the file does not promise one, and the CRC matches.
    all[9].companion.clear();
    let stage = spoilt(&all, &settings());
    let shown = examined(&stage.table, true);
    assert_eq!((stage.missing(&shown), shown.gaps.len()), (vec![5], 1));
    assert_eq!(shown.gaps[0].verdict, crate::error::Verdict::Seal);
    // Reads that check loaded blocks detect the damage; reads without checks do not.
    let get = |n: usize, checks| {
        let record = &stage.records[n];
        drop(stage.table.slots.take(0));
        stage.table.get(&record.key, hash(&record.key), MAX_SEQNO, checks, &mut |_| ())
    };
    assert!(get(5, Checks::NONE).unwrap());
    assert_eq!(get(5, Checks::LOADED).unwrap_err().damage().unwrap().verdict, crate::error::Verdict::Seal);
    assert!(get(5, Checks::EACH).is_err() && get(4, Checks::EACH).unwrap() && get(6, Checks::LOADED).unwrap());
    let table = spoilt(&all, &settings()).table;
    let mut cursor = table.cursor_checked(crate::options::Verify::OnFill);
    crate::cursor::Cursor::first(&mut cursor).unwrap();
    let mut kinds = Vec::new();
    while crate::cursor::Cursor::valid(&cursor) {
        kinds.push(crate::cursor::Cursor::record(&cursor).kind);
        crate::cursor::Cursor::next(&mut cursor).unwrap();
    }
    assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Fence).count(), 1);
    assert_eq!(kinds.len(), 60);
}

#[test]
fn a_block_with_a_sum_of_its_own_is_taken_for_another() {
    // An older copy of the block, or another file's block, is valid by itself: its seals do not show that it is
    // misplaced.
    let stage = stage(records(60), &settings());
    let handle = stage.table.index().handles()[0];
    let (_, to) = entries(&stage, 0)[5];
    let mut bytes = stage.bytes.clone();
    for at in [to - 30, to - 40, to - 50] {
        bytes[at] ^= 0x41;
    }
    let end = handle.end() as usize;
    let seed = block_seed(&UID, handle.offset, Role::Data);
    let sum = crc(seed, &[&bytes[handle.offset as usize..end - 4]]);
    bytes[end - 4..end].copy_from_slice(&sum.to_le_bytes());
    *stage.file.0.write().unwrap() = bytes;
    let shown = examined(&stage.table, true);
    let in_block = stage.table.read_block(1, true).unwrap().len();
    let missing = stage.missing(&shown);
    assert!(missing.len() + 2 >= in_block && missing[..6] == [0, 1, 2, 3, 4, 5], "{missing:?}");
}

#[test]
fn versions_of_one_key_are_not_taken_for_each_other() {
    // Three versions of every key: the loss of one makes the older ones uncertain.
    let value = |n: u32, seqno: u64| format!("value {n} at {seqno}").into_bytes();
    let records: Vec<Owned> = (0..30)
        .flat_map(|n| [30u64, 20, 10].map(|seqno| Owned::put(&numbered(n), seqno, &value(n, seqno)).sealed()))
        .collect();
    let stage = stage(records, &WriterSettings { block_bytes: 512, ..settings() });
    let order = Order::bytewise();
    for block in 0..stage.table.blocks() {
        for (from, to) in entries(&stage, block) {
            let middle = (from + to) / 2;
            let shown = stage.with(&[middle * 8, middle * 8 + 9, middle * 8 - 9, middle * 8 + 2]);
            let missing = stage.missing(&shown);
            assert_eq!(missing.len(), 1);
            let lost = &stage.records[missing[0]];
            let gap = &shown.gaps[0];
            for other in stage.records.iter().filter(|other| other.key == lost.key && other.seqno < lost.seqno) {
                assert!(gap.covers(&order, &other.key, other.seqno), "{other:?} might have a newer version in {gap:?}");
            }
            assert!(gap.may_hide(&order, &lost.key, MAX_SEQNO));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_wrong_is_shown_and_nothing_missing_hidden(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..40), packed: bool, seal_column: bool,
        versions: bool, block_bytes in 200usize..3000, together: bool,
    ) {
        let compression = if packed && cfg!(feature = "lz4") { Compression::Lz4 } else { Compression::None };
        let settings = WriterSettings { compression, seal_column, block_bytes, restart_interval: 5, ..settings() };
        let mut all = records(40);
        if versions {
            all = all.into_iter().enumerate().map(|(n, record)| {
                Owned { key: numbered(n as u32 / 3), seqno: 100 - n as u64 % 3, ..record }.sealed()
            }).collect();
        }
        let stage = stage(all, &settings);
        let data = 64..stage.table.index().data_end() as usize;
        let mut bytes = stage.bytes.clone();
        let start = hits[0].0.index(data.len());
        for (n, (at, mask)) in hits.iter().enumerate() {
            let at = if together { (start + n) % data.len() } else { at.index(data.len()) };
            bytes[data.start + at] ^= mask;
        }
        *stage.file.0.write().unwrap() = bytes;
        stage.missing(&examined(&stage.table, true));
    }
}

#[test]
fn a_kind_that_was_hit_into_a_word_is_no_companion_of_the_record_before() {
    // With one word per record, any further companion is invalid; with lists, a second word or a second list is.
    let any = [&[companion::WORD8, companion::WORD4, companion::LIST][..], &companion::SKIPPABLE].concat();
    for (records, kinds) in [(records(100), &any[..]), (listed(60), &any[..2])] {
        let stage = stage(records, &settings());
        let all = entries(&stage, 0);
        for (number, (from, _)) in all.iter().enumerate().skip(1) {
            for kind in kinds {
                let mask = stage.bytes[*from] ^ kind;
                let hit = (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| from * 8 + bit);
                // Two more flipped bits, in the last record's value, so that the CRC cannot correct them.
                let last = all.last().unwrap().0 + 40;
                let shown = stage.with(&hit.chain([last * 8, last * 8 + 13]).collect::<Vec<_>>());
                let missing = stage.missing(&shown);
                assert!(
                    missing.len() <= 4,
                    "the two that were hit and those before them: {number} {kind:x}: {missing:?}"
                );
            }
        }
    }
}

#[test]
fn what_a_hit_companion_swallowed_is_missed_whatever_else_was_hit() {
    // A damaged list ends exactly where the record after the next begins. In addition, another record of the group is
    // damaged, so that its number of entries proves nothing; or the body's trailer, so that the number is unknown.
    let settings = WriterSettings { block_bytes: 1000, filter_bits: 0, ..settings() };
    let record = |n: u32| Owned::put(&numbered(n * 3), 10 + u64::from(n), &[n as u8; 9]).listed(&[7; 9]);
    let stage = stage((0..60).map(record).collect(), &settings);
    let with_list = |n: usize| record((stage.records[n].seqno - 10) as u32);
    let mut swallowed = 0;
    for block in 0..stage.table.blocks() {
        let entries = entries(&stage, block);
        let handle = stage.table.index().handles()[block];
        let flags = handle.end() as usize - 5 - 3; // codec and CRC follow the body, whose last three bytes are zero
        for at in 0..entries.len() - 1 {
            let length_at = entries[at].1 - 14;
            assert_eq!(stage.bytes[length_at], 13);
            let length = u8::try_from(entries[at + 1].1 - length_at - 1).unwrap();
            let swallow = (0..8).filter(|bit| (length ^ 13) >> bit & 1 == 1).map(|bit| length_at * 8 + bit);
            for other in (0..entries.len()).filter(|other| *other != at && *other != at + 1) {
                let value = (entries[other].0 + 9) * 8;
                for more in [
                    vec![value, value + 11, value + 22],
                    vec![flags * 8, value, value + 11, value + 22],
                    vec![flags * 8],
                ] {
                    let mut shown = stage.with(&swallow.clone().chain(more).collect::<Vec<_>>());
                    // The damaged list is detected, and its record is returned without it.
                    let known = |shown: &Owned| (0..60).find(|n| stage.records[*n].key == shown.key).map(with_list);
                    shown.records = shown.records.iter().filter_map(known).collect();
                    swallowed += usize::from(!stage.missing(&shown).is_empty());
                }
            }
        }
    }
    assert!(swallowed > 1000, "{swallowed}");
}

#[test]
fn a_list_that_looks_like_a_record_is_not_taken_for_one_that_was_lost() {
    // A list's kind becomes that of a record, and its bytes declare an end at, or near, the start of the next record.
    for end in [0, 1, 2] {
        let list: Vec<u8> = [&[0, 4, 12 - end as u8, 5][..], &[Kind::Put as u8; 16]].concat();
        let record = |n: u32| Owned::put(&numbered(n * 3), 10 + u64::from(n), &[n as u8; 9]).listed(&list);
        let stage = stage((0..60).map(record).collect(), &settings());
        for (from, to) in entries(&stage, 0) {
            let list_at = to - 4 - list.len() - 2;
            assert_eq!(stage.bytes[list_at], companion::LIST, "of the record at {from}");
            let mut bytes = stage.bytes.clone();
            bytes[list_at] = Kind::Put as u8;
            *stage.file.0.write().unwrap() = bytes;
            stage.missing(&examined(&stage.table, true));
        }
    }
}

#[test]
fn under_a_right_sum_too_no_record_takes_the_next_one_for_its_own() {
    use crate::sst::block::partial_block::PartialItem;
    use crate::sst::damage::block_salvage::{SalvageContext, salvage};
    // Before the CRC was computed, a record's kind became a companion's, or the value of a record without a seal became
    // shorter.
    for unsealed in [false, true] {
        let mut all = records(30);
        all[7].companion = if unsealed { Vec::new() } else { all[7].companion.clone() };
        let stage = spoilt(&all, &settings());
        let (from, to) = entries(&stage, 0)[7];
        let handle = stage.table.index().handles()[0];
        let mut framed = stage.bytes[handle.offset as usize..handle.end() as usize].to_vec();
        match unsealed {
            true => framed[from - handle.offset as usize + 3] -= 16, // the length of its value
            false => framed[to - handle.offset as usize] = companion::WORD4,
        }
        let order = Order::bytewise();
        let site = SalvageContext {
            order: &order,
            base: stage.table.base,
            protector: &Sealer,
            protection: Protection::Partial,
            span: [(Vec::new(), MAX_SEQNO), (vec![0xff], 0)],
            bound: MAX_SEQNO,
            single: true,
            more_beside: false,
            fits: true,
            seed: 0,
            file: NAME,
            offset: handle.offset,
            verdict: crate::error::Verdict::Seal,
            dictionary: None,
        };
        let (mut gaps, mut shown) = (0, 0);
        for item in salvage(&framed, &handle, &site).items {
            match item {
                PartialItem::Record(kept) => {
                    let record = Owned::of(&kept.record());
                    assert!(all.contains(&record), "{record:?} was never written");
                    shown += 1;
                }
                PartialItem::Lost(_) => gaps += 1,
            }
        }
        assert!(gaps > 0 && shown > 10, "{gaps}, {shown}");
    }
}

#[test]
fn companions_whose_length_was_hit_swallow_nobody_unseen() {
    // Each record has a list. A flip changes its length so that the list ends where a later record ends.
    let with_list = |record: Owned| record.listed(&[7; 9]);
    for restart_interval in [4, 16] {
        let settings = WriterSettings { restart_interval, block_bytes: 1000, filter_bits: 0, ..settings() };
        let values = (0..60u32).map(|n| with_list(Owned::put(&numbered(n * 3), 10 + u64::from(n), &[n as u8; 9])));
        let stage = stage(values.collect(), &settings);
        let mut swallowed = 0;
        for block in 0..stage.table.blocks() {
            let entries = entries(&stage, block);
            for (at, (_, end)) in entries.iter().enumerate() {
                let length_at = end - 14; // one byte of length, nine bytes of list, four bytes of its checksum
                assert_eq!(stage.bytes[length_at], 13);
                for more in 1..entries.len() - at {
                    let Ok(length) = u8::try_from(entries[at + more].1 - length_at - 1) else { break };
                    if length > 127 {
                        break;
                    }
                    let mask = length ^ 13;
                    // Three more flipped bits, so that the CRC cannot correct them.
                    let more_bits = [0, 3, 5].map(|bit| (length_at + 3) * 8 + bit);
                    let bits = (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| length_at * 8 + bit);
                    let mut shown = stage.with(&bits.chain(more_bits).collect::<Vec<_>>());
                    // The damaged list is detected, and its record is returned without it.
                    shown.records = shown.records.into_iter().map(&with_list).collect();
                    swallowed += usize::from(!stage.missing(&shown).is_empty());
                }
            }
        }
        assert!(swallowed > 50, "{swallowed}");
    }
}

#[test]
fn a_list_that_was_hit_into_what_nobody_knows_is_not_left_out() {
    // A record's list becomes a skippable entry that ends where a later record ends.
    for restart_interval in [4, 16] {
        let settings = WriterSettings { restart_interval, block_bytes: 1000, filter_bits: 0, ..settings() };
        let record = |n: u32| Owned::put(&numbered(n * 3), 10 + u64::from(n), &[n as u8; 9]).listed(&[7; 9]);
        let stage = stage((0..60).map(record).collect(), &settings);
        let mut lost = 0;
        for block in 0..stage.table.blocks() {
            let entries = entries(&stage, block);
            for (at, (_, end)) in entries.iter().enumerate() {
                let (kind_at, length_at) = (end - 15, end - 14);
                assert_eq!(stage.bytes[kind_at], companion::LIST);
                let reaches = entries[at + 1..].iter().map(|(_, end)| end - length_at - 1);
                for length in reaches.filter(|length| *length < 0x80) {
                    let word = u16::from_le_bytes([companion::SKIPPABLE[2], length as u8]);
                    let mask = word ^ u16::from_le_bytes([companion::LIST, 13]);
                    let bits = (0..16).filter(|bit| mask >> bit & 1 == 1).map(|bit| kind_at * 8 + bit);
                    let shown = stage.with(&bits.collect::<Vec<_>>());
                    lost += stage.missing(&shown).len();
                }
            }
        }
        assert!(lost > 50, "{lost}");
    }
}
