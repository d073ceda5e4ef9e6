//! Entry points for fuzzers: any bytes are either decoded or rejected, without a panic and with bounded memory.

use std::io;
use std::sync::Arc;

use super::block::block::Block;
use super::block::codec::{Dictionary, unpack_zstd, zstd_length};
use super::block::frame::{BlockHandle, COMPANION_BYTES, StoredBlock};
use super::block::lookup::{BlockLookup, LookupKey};
use super::cache::cache::Cache;
use super::index::partitions::{IndexPartition, TableIndex};
use super::index::{filter, index, range, top_index};
use super::table::properties::Properties;
use super::table::table::Table;
use super::table::verify_read::Checks;
use crate::checksum::hash;
use crate::cursor::Cursor;
use crate::env::{File, Mapped};
use crate::error::Result;
use crate::options::MIB;
use crate::order::Order;
use crate::record::MAX_SEQNO;
use crate::seam::Plain;

/// Loads bytes as a data block (first byte: the codec) and reads every entry. A lookup finds the same entries, and
/// rejects or answers any other bytes.
pub fn fuzz_block(bytes: &[u8]) {
    let Some((codec, stored)) = bytes.split_first() else { return };
    let raw_len = if codec & 0xf == 0 { stored.len() as u32 } else { 4096 };
    let handle = BlockHandle { offset: 64, stored_len: stored.len() as u32, raw_len, crc: 0 };
    let order = Order::bytewise();
    let loaded = [false, true].map(|searched| {
        Block::load((stored.to_vec(), Vec::with_capacity), *codec, &handle, (7, None), &order, searched)
    });
    assert_eq!(loaded[0].is_ok(), loaded[1].is_ok(), "a walk and a skim differ");
    let mut scratch = Vec::new();
    let lookup = StoredBlock::split(stored, *codec)
        .and_then(|stored| BlockLookup::new(stored.body(raw_len, &mut scratch, None)?, stored.column, 7, &order));
    if let Ok(lookup) = &lookup {
        for key in [&[][..], &stored[..stored.len() / 2], &[0xFF; 3]] {
            let entries = lookup.find(key, MAX_SEQNO).map(|landing| [landing.before, landing.at]);
            for visited in entries.into_iter().flatten().flatten() {
                let (mut room, mut word) = (LookupKey::new(), [0; COMPANION_BYTES]);
                let _ = lookup.key(&visited, &mut room).map(|key| lookup.record(&visited, key, &mut word).seqno);
            }
        }
    }
    for block in loaded.into_iter().flatten() {
        let lookup = lookup.as_ref().expect("the block is valid");
        let mut key = Vec::new();
        for at in 0..block.len() {
            key.clear();
            if block.key_into(at, &mut key).is_ok()
                && let Ok(entry) = block.entry(at)
            {
                let record = block.record(at, &entry, &key);
                let place = block.search(record.key, record.seqno, &order);
                assert!(
                    place.is_ok_and(|place| place.equal.is_some() && place.at == at),
                    "an entry is not where it is"
                );
                let landing = lookup.find(record.key, record.seqno).expect("the block is valid");
                assert!(landing.is_equal && landing.before.is_some() == (at > 0));
                let (mut room, mut word) = (LookupKey::new(), [0; COMPANION_BYTES]);
                let found = landing.at.expect("the entry");
                let key = lookup.key(&found, &mut room).expect("a key");
                assert_eq!(lookup.record(&found, key, &mut word), record, "a lookup finds another entry");
            }
        }
    }
}

/// Reads bytes as a dictionary and a frame compressed with it. The first two bytes are the dictionary's length, the
/// next two the decompressed length.
pub fn fuzz_dictionary(bytes: &[u8]) {
    let Some((lengths, rest)) = bytes.split_first_chunk::<4>() else { return };
    let [length, raw_len] = [[lengths[0], lengths[1]], [lengths[2], lengths[3]]].map(u16::from_le_bytes);
    let (dictionary, frame) = rest.split_at(rest.len().min(length.into()));
    let mut out = vec![0; raw_len.into()];
    if let Ok(dictionary) = Dictionary::of(dictionary) {
        let _ = unpack_zstd(frame, Some(&dictionary), &mut out);
        let _ = dictionary.is_trained();
    }
    let _ = unpack_zstd(frame, Some(&Dictionary::lost()), &mut out);
    if let Some(length) = zstd_length(frame) {
        assert!(length <= 255 * frame.len() + 64, "more than may be believed");
    }
}

/// Decodes bytes as the body of an index, top index, index partition, filter, properties and dictionary.
pub fn fuzz_properties(bytes: &[u8]) {
    let _ = Properties::decode(bytes);
    let _ = Dictionary::of(bytes).map(|dictionary| unpack_zstd(bytes, Some(&dictionary), &mut [0; 64]));
    if let Ok(index) = index::Index::decode(bytes, &Order::bytewise(), MIB as u64) {
        index.find(bytes, &Order::bytewise());
    }
    if let Ok(top) = top_index::TopIndex::decode(bytes, &Order::bytewise(), None, MIB as u64) {
        assert!(top.is_sound(&Order::bytewise()) && top.range_of(top.blocks() - 1) == Some(top.spans().len() - 1));
        top.find(bytes, &Order::bytewise());
    }
    let floor = Some(bytes[..bytes.len().min(3)].to_vec());
    let range = range::IndexRange { first: 7, offset: 640, floor, is_last: false };
    if let Ok(index) = index::Index::decode_part(bytes, &Order::bytewise(), MIB as u64, range) {
        let number = index.find(bytes, &Order::bytewise());
        index.proves(number, bytes, false, &Order::bytewise());
        index.begins_at(number, bytes, &Order::bytewise());
    }
    if let Ok(filter) = filter::BloomFilter::decode(bytes) {
        filter.may_contain(hash(bytes));
    }
}

/// Opens bytes as a whole file, scans it in both directions, looks up each key and verifies the table.
pub fn fuzz_table(bytes: &[u8]) {
    let file = Arc::new(Bytes(bytes.to_vec()));
    let Ok(expected) = Table::identify("fuzzed", &*file) else { return };
    let cache = Arc::new(Cache::new(MIB));
    let Ok(table) = Table::open("fuzzed".into(), file, expected, Order::bytewise(), cache, Arc::new(Plain)) else {
        return;
    };
    let _ = table.verify(&Plain, &mut |_| Ok(()));
    let mut cursor = table.cursor(true);
    let mut moved = cursor.first();
    while moved.is_ok() && cursor.valid() {
        let key = cursor.record().key;
        let _ = table.get(key, hash(key), MAX_SEQNO, Checks::EACH, &mut |_| {});
        moved = cursor.next();
    }
    let mut moved = cursor.last();
    while moved.is_ok() && cursor.valid() {
        moved = cursor.prev();
    }
    // A job's stream returns the same records as a reader's cursor, up to the first error of either.
    let (mut stream, mut moved) = (table.stream(), cursor.first());
    let mut streamed = stream.first();
    while moved.is_ok() && streamed.is_ok() && cursor.valid() && stream.valid() {
        assert_eq!(cursor.record(), stream.record());
        (moved, streamed) = (cursor.next(), stream.next());
    }
    assert!(moved.is_err() || streamed.is_err() || cursor.valid() == stream.valid());
}

/// Where to corrupt a table's memory, for tests of corruption detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CorruptionSite {
    /// A head or separator byte of the index. For a partitioned index, of its top level or of one partition.
    Index,
    /// A byte of the filter.
    Filter,
}

impl Table {
    /// Flips bits of one byte of a cached block, or of its heads, which are numbered after its bytes. Loads the block
    /// first if necessary. Returns false without any effect if the block or byte does not exist, or the block cannot be
    /// cached.
    pub fn damage_cached(&self, block: usize, byte: usize, mask: u8) -> Result<bool> {
        if block >= self.blocks() {
            return Ok(false);
        }
        if self.slots.slot(block).load().is_none() {
            self.slots.keep(block, self.read_block(block, true)?);
        }
        let Some(hit) = self.slots.slot(block).load_full().filter(|block| byte < block.hits()) else {
            return Ok(false);
        };
        drop(self.slots.take(block));
        let kept = self.slots.keep(block, hit.hit(byte, mask));
        Ok(self.slots.slot(block).load_full().is_some_and(|there| Arc::ptr_eq(&there, &kept)))
    }

    fn damage_index(&self, table_index: &mut TableIndex, site: CorruptionSite, at: usize, mask: u8) -> Result<()> {
        let hit = |part: &mut IndexPartition, at: usize| match (site, &mut part.filter) {
            (CorruptionSite::Index, _) => part.index.damage(at, mask.into()),
            (CorruptionSite::Filter, Some(filter)) => filter.damage(at, mask),
            (CorruptionSite::Filter, None) => {}
        };
        match table_index {
            TableIndex::Whole(part) => hit(part, at),
            TableIndex::Partitioned(cut) => {
                let count = cut.top.spans().len();
                let (at, which) = (at / (count + 1), at % (count + 1));
                if site == CorruptionSite::Index && which == count {
                    cut.top.damage(at, mask.into());
                } else {
                    let mut part = self.check_partition(&cut.top.spans()[which % count])?;
                    hit(&mut part, at);
                    cut.put(which % count, part);
                }
            }
        }
        Ok(())
    }

    /// Returns the same table, opened again with corrupted memory; this table's index and filter are not changed.
    pub fn damaged(&self, site: CorruptionSite, at: usize, mask: u8) -> Result<Arc<Table>> {
        self.opened_anew(|table_index| self.damage_index(table_index, site, at, mask))
    }
}

/// A read-only file in memory.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl File for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buf.len());
        buf[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn map(&self, _: usize) -> io::Result<Option<Arc<dyn Mapped>>> {
        Ok(None)
    }
}
