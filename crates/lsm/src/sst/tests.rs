//! Whole tables: records written in every configuration are read back, and damage is reported.

mod cache;
mod damage;
mod golden;
mod large_values;
mod oracle;
mod packed;
mod partial_block;
mod partitions;
mod policy_filter;
mod prefetch;
mod prefix;
mod prepopulate;
mod rebuild;
mod uncached_read;
mod verify_read;

use std::cmp::Ordering;
use std::io;
use std::sync::{Arc, RwLock};

use super::*;
use crate::checksum::{Uid, crc, hash, mix};
use crate::codec::Reader;
use crate::env::{File, Mapped};
use crate::error::Result;
use crate::ledger::Ledger;
use crate::options::{CfOptions, Compression};
use crate::order::{Comparator, Order};
pub(super) use crate::record::OwnedRecord as Owned;
use crate::record::{Kind, Record, Seqno, companion};
use crate::seam::{Check, Companions, Protection};

pub(super) const UID: Uid = Uid(*b"uid of a table..");
pub(super) const NAME: &str = "000007.tbl";

/// A file in memory.
#[derive(Debug, Default)]
pub(super) struct Memory(pub(super) RwLock<Vec<u8>>);

impl Memory {
    pub(super) fn of(bytes: Vec<u8>) -> Arc<Memory> {
        Arc::new(Memory(RwLock::new(bytes)))
    }
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.read().unwrap().clone()
    }
}

impl File for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.read().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buf.len());
        buf[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut all = self.0.write().unwrap();
        let end = offset as usize + bytes.len();
        if all.len() < end {
            all.resize(end, 0);
        }
        all[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap().len() as u64)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.write().unwrap().resize(length as usize, 0);
        Ok(())
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
    fn map(&self, _: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        Ok(None)
    }
}

impl Owned {
    pub(super) fn put(key: &[u8], seqno: Seqno, value: &[u8]) -> Owned {
        Owned { key: key.to_vec(), seqno, kind: Kind::Put, value: value.to_vec(), companion: Vec::new() }
    }
    /// Returns the record with the test protector's seal.
    pub(super) fn sealed(mut self) -> Owned {
        let word = word(&self.borrow());
        self.companion = [&[companion::WORD8][..], &word.to_le_bytes()].concat();
        self
    }
    /// Returns the record with a seal and a list that ends in a checksum of its own.
    pub(super) fn listed(self, list: &[u8]) -> Owned {
        let mut record = self.sealed();
        let list = [list, &crc(0, &[list]).to_le_bytes()].concat();
        record.companion.push(companion::LIST);
        crate::codec::put_bytes(&mut record.companion, &list);
        record
    }
}

/// Returns a key that sorts by its number.
pub(super) fn numbered(n: u32) -> Vec<u8> {
    format!("{n:08}").into_bytes()
}

fn word(record: &Record<'_>) -> u64 {
    mix(hash(record.key) ^ mix(hash(record.value) ^ mix(record.seqno ^ (record.kind as u64) << 56)))
}

/// Returns true for a single list that ends in the checksum of its content.
fn is_whole_list(companion: &[u8]) -> bool {
    let mut reader = Reader::starting_at(companion, 1);
    let list = reader.length_prefixed().ok().filter(|_| reader.is_empty()).and_then(<[u8]>::split_last_chunk);
    list.is_some_and(|(list, sum)| crc(0, &[list]).to_le_bytes() == *sum)
}

/// A protector with one-word seals, optionally followed by lists; records without companions are unverified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealer;

impl Companions for Sealer {
    fn verify(&self, record: &Record<'_>, _: u64, source: Protection) -> Check {
        match record.companion {
            [companion::WORD8, kept @ ..] if kept.len() == 8 => {
                let kept = kept.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64);
                match (kept ^ word(record)).count_ones() {
                    0 => Check::Validated,
                    1..=4 => Check::CompanionDamaged,
                    _ => Check::Corrupted,
                }
            }
            [companion::WORD8, rest @ ..] if rest.get(8).is_some_and(|kind| companion::begins(*kind)) => {
                let sealed = Record { companion: &record.companion[..9], ..*record };
                match self.verify(&sealed, 0, source) {
                    Check::Validated if rest[8] == companion::LIST && !is_whole_list(&rest[8..]) => {
                        Check::CompanionDamaged
                    }
                    check => check,
                }
            }
            [] if source == Protection::Complete => Check::Missing,
            several => {
                let taken = companion::take(&mut Reader::new(several)).map(<[u8]>::len);
                if taken.is_ok_and(|taken| taken == several.len()) { Check::Unverified } else { Check::Corrupted }
            }
        }
    }
    fn term(&self, record: &Record<'_>) -> u64 {
        if self.verify(record, 0, Protection::None) == Check::Validated { word(record) } else { 0 }
    }
    fn protection(&self) -> Protection {
        Protection::Partial
    }
    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        waxseal_testing::protector::correct(block, seed, confirm)
    }
}

/// The reverse order.
pub(super) struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Upper and lower case are equal.
pub(super) struct Caseless;

impl Comparator for Caseless {
    fn name(&self) -> &str {
        "caseless"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}

impl Table {
    /// Returns the index of a table that is not partitioned.
    pub(super) fn index(&self) -> &index::index::Index {
        match &self.table_index {
            index::partitions::TableIndex::Whole(part) => &part.index,
            index::partitions::TableIndex::Partitioned(_) => panic!("a cut index"),
        }
    }
}

pub(super) fn settings() -> WriterSettings {
    let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
    WriterSettings { created_micros: 1_700_000_000_000_000, ..WriterSettings::of(&options, 3, 0) }
}

/// Writes sorted records, and checks the writer's results.
pub(super) fn written(records: &[Owned], settings: &WriterSettings) -> (Arc<Memory>, Finished) {
    let file = Memory::of(Vec::new());
    let mut writer = Writer::new(file.clone(), UID, settings.clone(), Arc::new(Sealer)).created_by("golden");
    for record in records {
        writer.add(&record.borrow()).unwrap();
    }
    assert_eq!(writer.records(), records.len() as u64);
    assert!(writer.file_bytes() > 64);
    let finished = writer.finish().unwrap();
    let mut ledger = Ledger::default();
    records.iter().for_each(|record| ledger.add(record.kind, Sealer.term(&record.borrow())));
    assert_eq!(finished.ledger, ledger);
    assert_eq!(finished.size, file.len().unwrap());
    assert_eq!(finished.smallest, records[0].key);
    assert_eq!(finished.largest, records[records.len() - 1].key);
    assert_eq!(finished.least_seqno, records.iter().map(|record| record.seqno).min().unwrap());
    assert_eq!(finished.greatest_seqno, records.iter().map(|record| record.seqno).max().unwrap());
    (file, finished)
}

pub(super) fn expected(finished: &Finished) -> Expected {
    Expected { uid: UID, size: finished.size, digest: finished.digest, ingest_seqno: 0 }
}

pub(super) fn opened(file: Arc<Memory>, finished: &Finished, order: &Order, cache: &Arc<Cache>) -> Arc<Table> {
    Table::open(NAME.into(), file, expected(finished), order.clone(), cache.clone(), Arc::new(Sealer)).unwrap()
}

pub(super) fn got(table: &Table, key: &[u8], seqno: Seqno) -> Result<Option<Owned>> {
    let mut found = None;
    let hit = table.get(key, hash(key), seqno, Checks::EACH, &mut |record| {
        assert!(found.is_none(), "visited twice");
        found = Some(Owned::of(record));
    })?;
    assert_eq!(hit, found.is_some());
    Ok(found)
}

#[test]
fn what_cannot_stand_in_a_table_is_refused() {
    let start =
        || Writer::new(Memory::of(Vec::new()), UID, WriterSettings { base_seqno: 5, ..settings() }, Arc::new(Sealer));
    let put = |writer: &mut Writer, key: &[u8], seqno| writer.add(&Owned::put(key, seqno, b"v").borrow());
    let mut writer = start();
    assert!(put(&mut writer, b"b", 4).is_err(), "below the base");
    assert!(put(&mut writer, b"b", 1 << 56).is_err(), "no seqno");
    assert!(start().finish().is_err(), "nothing");
    // Records out of order are detected at the end of the block, within a block and between two blocks.
    for (wrong, seqno) in [(&b"a"[..], 7), (b"b", 6), (b"b", 7)] {
        for ends in [false, true] {
            let mut writer = start();
            put(&mut writer, b"b", 6).unwrap();
            if ends {
                writer.end_block().unwrap();
            }
            let refused = put(&mut writer, wrong, seqno).and_then(|()| writer.finish().map(drop));
            assert!(refused.unwrap_err().is_corruption(), "{wrong:?} at {seqno}");
        }
    }
    let mut writer = start();
    put(&mut writer, b"b", 6).unwrap();
    put(&mut writer, b"b", 0).unwrap();
    writer.finish().unwrap();
    let mut writer = start();
    assert!(put(&mut writer, &[1; 65_536], 6).is_err());
    put(&mut writer, &[1; 65_535], 6).unwrap();
    // An invalid companion would make the block undecodable: the verifying pass detects it.
    let mut writer = start();
    let bad = Owned { companion: vec![0x33, 1, 2], ..Owned::put(b"a", 9, b"v") };
    writer.add(&bad.borrow()).unwrap();
    assert!(writer.finish().unwrap_err().is_corruption());
    // It also detects a record that does not match its companion.
    let mut writer = start();
    let bad = Owned { value: b"w".to_vec(), ..Owned::put(b"a", 9, b"v").sealed() };
    writer.add(&bad.borrow()).unwrap();
    assert_eq!(writer.finish().unwrap_err().damage().unwrap().verdict, crate::error::Verdict::Seal);
}

#[test]
fn a_table_says_what_it_is() {
    let records: Vec<Owned> =
        (0..1000u32).map(|n| Owned::put(&numbered(n), 100 + n as u64, &[n as u8; 20]).sealed()).collect();
    let settings = WriterSettings { base_seqno: 100, ..settings() };
    let (file, finished) = written(&records, &settings);
    let table = opened(file.clone(), &finished, &settings.order, &Arc::new(Cache::new(1 << 20)));
    let properties = table.properties();
    assert_eq!((properties.family, properties.protection, properties.comparator.as_str()), (3, 2, "wax.bytewise"));
    assert_eq!((properties.key_bytes, properties.value_bytes), (8000, 20_000));
    assert_eq!(properties.data_blocks, table.blocks() as u64);
    assert_eq!(properties.ledger, finished.ledger);
    assert_eq!(Table::identify(NAME, &*file).unwrap(), expected(&finished));
    let mut read = 64;
    let ledger = table.verify(&Sealer, &mut |bytes| {
        read += bytes;
        Ok(())
    });
    assert_eq!((ledger.unwrap(), read), (finished.ledger, finished.size));
    let offsets: Vec<u64> = (0..=1000u32).step_by(50).map(|n| table.approximate_offset(&numbered(n))).collect();
    assert!(offsets.is_sorted() && offsets[0] == 64 && *offsets.last().unwrap() > finished.size * 3 / 4);
    assert!(table.pinned_bytes() > 1000);
}

#[test]
fn another_file_or_state_or_order_is_refused() {
    let (file, finished) = written(&[Owned::put(b"a", 1, b"v")], &settings());
    let cache = Arc::new(Cache::new(0));
    let open =
        |expected, order| Table::open(NAME.into(), file.clone(), expected, order, cache.clone(), Arc::new(Sealer));
    let right = expected(&finished);
    assert!(open(right, Order::bytewise()).is_ok());
    for wrong in [
        Expected { uid: Uid([0; 16]), ..right },
        Expected { size: right.size + 1, ..right },
        Expected { digest: right.digest ^ 1, ..right },
    ] {
        let error = open(wrong, Order::bytewise()).unwrap_err();
        assert_eq!(error.damage().unwrap().file, NAME, "{error}");
    }
    let error = open(right, Order::custom(Arc::new(Reverse))).unwrap_err();
    assert_eq!(*error.kind(), crate::error::ErrorKind::Invalid);
}

/// A protector with another algorithm, or with none.
#[derive(Clone, Copy)]
struct Other(u64);

impl Companions for Other {
    fn verify(&self, record: &Record<'_>, hash: u64, source: Protection) -> Check {
        match (source, record.companion) {
            (Protection::Foreign, _) => Check::Unverified,
            (Protection::Complete, []) => Check::Missing,
            _ => Sealer.verify(record, hash, source),
        }
    }
    fn term(&self, _: &Record<'_>) -> u64 {
        7
    }
    fn protection(&self) -> Protection {
        Protection::Complete
    }
    fn algorithm(&self) -> u64 {
        self.0
    }
    fn descriptors(&self) -> Vec<u8> {
        vec![self.0 as u8]
    }
}

fn told(
    protector: Arc<dyn Companions>,
    carried: Option<CompanionSummary>,
    records: &[(Owned, Protection)],
) -> Result<Properties> {
    let file = Memory::of(Vec::new());
    let mut writer = Writer::new(file.clone(), UID, settings(), protector);
    if let Some(carried) = carried {
        writer = writer.carrying(carried);
    }
    records.iter().try_for_each(|(record, promise)| writer.add_promised(&record.borrow(), *promise))?;
    let finished = writer.finish()?;
    Ok(opened(file, &finished, &Order::bytewise(), &Arc::new(Cache::new(0))).properties().clone())
}

#[test]
fn a_table_says_whose_companions_it_carries_and_what_they_are_worth() {
    use Protection::{Complete, Foreign, Partial};
    let sealed = |key: &[u8], promise| (Owned::put(key, 9, b"v").sealed(), promise);
    let bare = |key: &[u8], promise| (Owned::put(key, 9, b"v"), promise);
    let facts = |properties: Properties| {
        (properties.protection, properties.seal_algorithm, properties.providers, properties.ledger.has_sums())
    };
    let protector = || -> Arc<dyn Companions> { Arc::new(Other(5)) };
    let own = |records: &[(Owned, Protection)]| told(protector(), None, records).map(facts);
    assert_eq!(own(&[sealed(b"a", Complete), sealed(b"b", Partial)]).unwrap(), (2, 5, vec![], true));
    assert_eq!(own(&[sealed(b"a", Complete), bare(b"b", Partial)]).unwrap(), (1, 5, vec![], true));
    assert_eq!(own(&[bare(b"a", Partial)]).unwrap(), (0, 0, vec![], true));
    let lost = own(&[sealed(b"a", Complete), bare(b"b", Complete)]).unwrap_err();
    assert_eq!(lost.damage().map(|damage| damage.verdict), Some(crate::error::Verdict::Missing));
    // Companions of an unknown algorithm are copied unchecked and without ledger sums, damaged or not.
    let strange = |complete| Some(CompanionSummary { algorithm: 8, descriptors: vec![1], complete });
    let odd = (Owned { companion: vec![0xAA, 0, 0, 0, 0, 0, 0, 0, 1], ..Owned::put(b"b", 9, b"v") }, Foreign);
    let carried =
        |protector, complete| told(protector, strange(complete), &[sealed(b"a", Foreign), odd.clone()]).map(facts);
    assert_eq!(carried(protector(), true).unwrap(), (2, 8, vec![], false));
    assert_eq!(carried(protector(), false).unwrap(), (1, 8, vec![], false));
    assert_eq!(carried(Arc::new(crate::seam::Plain), true).unwrap(), (2, 8, vec![], false));
    let adopted = Owned {
        companion: [&sealed(b"c", Partial).0.companion[..], &[0x0F, 1, 1]].concat(),
        ..Owned::put(b"c", 9, b"v")
    };
    let properties =
        told(Arc::new(crate::seam::Plain), None, &[(adopted.clone(), Partial), bare(b"d", Partial)]).unwrap();
    assert_eq!(properties.adopted, 1);
    // The descriptors are stored only if some companion is more than one word.
    for (records, described) in
        [(vec![sealed(b"a", Partial)], None), (vec![sealed(b"a", Partial), (adopted, Partial)], Some(1))]
    {
        let properties = told(protector(), None, &records).unwrap();
        assert_eq!((properties.beside, properties.providers.is_empty()), (described, described.is_none()));
        assert_eq!(properties.may_have_more_beside(), described.is_some());
    }
}

#[test]
fn what_is_joined_from_several_is_known_by_one_name_or_by_none() {
    let table = |protection, seal_algorithm, name: u8| Properties {
        protection,
        seal_algorithm,
        providers: vec![name],
        ..Properties::default()
    };
    let joined = |protector: u64, tables: &[Properties]| {
        let carried = CompanionSummary::joined(&Other(protector), tables.iter());
        (carried.algorithm, carried.descriptors, carried.complete)
    };
    let (own, bare) = (table(2, 5, 1), table(0, 0, 2));
    assert_eq!(joined(5, &[own.clone(), bare.clone()]), (5, vec![5], false));
    assert_eq!(joined(5, &[table(2, 8, 3), table(2, 8, 4)]), (8, vec![4], true));
    assert_eq!(joined(5, &[table(2, 8, 3), bare]), (8, vec![3], false));
    // A table whose companions are single words contributes no descriptors.
    let words = Properties { providers: Vec::new(), ..table(2, 8, 0) };
    assert_eq!(joined(5, &[table(2, 8, 3), words.clone()]), (8, vec![3], true));
    assert_eq!(joined(5, &[words.clone(), words]), (8, vec![], true));
    assert_eq!(joined(5, &[own.clone(), table(2, 8, 3)]).0, CompanionSummary::SEVERAL);
    assert_eq!(joined(5, &[table(1, 8, 3), table(2, 9, 4)]).0, CompanionSummary::SEVERAL);
    assert_eq!(joined(0, &[own.clone(), own]), (5, vec![1], true));
}

#[test]
#[cfg(debug_assertions)]
fn a_pass_hashes_a_key_once() {
    let records: Vec<Owned> =
        (0..500u32).map(|n| Owned::put(&numbered(n / 2), 1000 - n as u64, b"v").sealed()).collect();
    let before = crate::checksum::keys_hashed();
    written(&records, &WriterSettings { filter_bits: 10, ..settings() });
    assert_eq!(crate::checksum::keys_hashed() - before, 500);
}
