//! The top level of a partitioned index: finds the partition of a key. See docs/format.md, section 4.8.
//!
//! Index and filter of a large table are partitioned by key range, some hundred blocks each. An index partition names
//! these blocks, and a filter partition contains their keys. The top level has one entry per range. It is loaded when
//! the table is opened and stays in memory; partitions are loaded on demand (`table::partitions`).
//!
//! Holds: ranges ascend, no key is in two of them, and together they cover all blocks of the table. The checksum over
//!        the CRCs of a range's blocks shows whether a rebuilt index partition equals the lost one.

use std::cmp::Ordering;

use super::index::{Index, IndexAssembler};
use super::range::IndexRange;
use super::separators::SeparatorLengths;
use crate::checksum::hash;
use crate::codec::{Reader, put_varint};
use crate::error::{Error, Result};
use crate::header::HEADER_BYTES;
use crate::order::{Order, common_prefix};
use crate::record::MAX_KEY_BYTES;
use crate::sst::block::codec::most_unpacked;
use crate::sst::block::frame::{BlockHandle, LEAST_BLOCK_BYTES};

/// Minimum length of an entry: five varints, two CRCs and two words.
const LEAST_ENTRY_BYTES: usize = 29;

/// One range: its blocks, and their index and filter partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::sst) struct PartitionEntry {
    /// Its position in the table.
    pub(in crate::sst) range: IndexRange,
    /// Its number of blocks.
    pub(in crate::sst) blocks: usize,
    /// End of its last block.
    pub(in crate::sst) end: u64,
    /// At least its last key, and less than the first key of the next range.
    pub(in crate::sst) bound: Vec<u8>,
    /// Its index partition.
    pub(in crate::sst) index: BlockHandle,
    /// Its filter partition; absent if the table has no partitioned filter.
    pub(in crate::sst) filter: BlockHandle,
    /// Checksum over the CRCs of its blocks.
    pub(in crate::sst) sum: u64,
}

/// Computes the checksum over the CRCs of blocks.
pub(in crate::sst) fn sum_of(crcs: impl Iterator<Item = u32>) -> u64 {
    let bytes: Vec<u8> = crcs.flat_map(u32::to_le_bytes).collect();
    hash(&bytes)
}

/// Computes the digest of a partitioned table from the checksums of its ranges and the CRCs of all blocks after the
/// data.
pub(in crate::sst) fn digest(sums: impl Iterator<Item = u64>, crcs: impl Iterator<Item = u32>) -> u64 {
    let bytes: Vec<u8> = sums.flat_map(u64::to_le_bytes).chain(crcs.flat_map(u32::to_le_bytes)).collect();
    hash(&bytes)
}

/// Encodes the body of a top level.
pub(in crate::sst) fn encode(spans: &[PartitionEntry]) -> Vec<u8> {
    let mut out = (spans.len() as u32).to_le_bytes().to_vec();
    for span in spans {
        let floor = span.range.floor.as_deref().unwrap_or_default();
        let shared = common_prefix(floor, &span.bound);
        put_varint(&mut out, shared as u64);
        put_varint(&mut out, (span.bound.len() - shared) as u64);
        out.extend_from_slice(&span.bound[shared..]);
        put_varint(&mut out, span.blocks as u64);
        // Fixed width: a varint could take one more byte with seals than without, but a sealed table must exceed an
        // unsealed one by its seals only.
        out.extend_from_slice(&(span.end - span.range.offset).to_le_bytes());
        for part in [&span.index, &span.filter] {
            put_varint(&mut out, part.stored_len.into());
            out.extend_from_slice(&part.crc.to_le_bytes());
        }
        out.extend_from_slice(&span.sum.to_le_bytes());
    }
    out
}

/// A top level in memory.
#[derive(Debug)]
pub(in crate::sst) struct TopIndex {
    /// Finds the range of a key, and has checksums of its own. Its "blocks" are the index partitions.
    ranges: Index,
    spans: Vec<PartitionEntry>,
}

impl TopIndex {
    /// Reads a body. `behind`: start of the partitions if that is not the end of the data; `limit`: upper limit for
    /// their end.
    pub(in crate::sst) fn decode(body: &[u8], order: &Order, behind: Option<u64>, limit: u64) -> Result<TopIndex> {
        let mut reader = Reader::new(body);
        let count = reader.u32()? as usize;
        if count == 0 || count > reader.remaining() / LEAST_ENTRY_BYTES {
            return Err(Error::structural("the top of an index claims more entries than it can hold"));
        }
        let mut spans: Vec<PartitionEntry> = Vec::with_capacity(count);
        let (mut range, mut bound) = (IndexRange { is_last: false, ..IndexRange::whole() }, Vec::new());
        let mut lengths = SeparatorLengths::default();
        for at in 0..count {
            let (shared, unshared) = (reader.varint()?, reader.varint_len()?);
            if shared > bound.len() as u64 || shared + unshared as u64 > MAX_KEY_BYTES as u64 {
                return Err(Error::structural("a bound longer than it can be"));
            }
            bound.truncate(shared as usize);
            bound.extend_from_slice(reader.bytes(unshared)?);
            if range.floor.as_ref().is_some_and(|floor| order.compare(floor, &bound) != Ordering::Less) {
                return Err(Error::structural("the ranges of an index are out of order"));
            }
            let (blocks, bytes) = (reader.varint()?, reader.u64()?);
            let end = range.offset.checked_add(bytes).filter(|end| *end <= limit);
            let (Some(end), true) = (end, blocks > 0 && blocks <= bytes / LEAST_BLOCK_BYTES) else {
                return Err(Error::structural("a range of blocks that its bytes cannot hold"));
            };
            lengths.add(bound.len(), most_unpacked(bytes))?;
            let (blocks, is_last) = (blocks as usize, at + 1 == count);
            let (index, filter) = (part(&mut reader)?, part(&mut reader)?);
            let sum = reader.u64()?;
            let next =
                IndexRange { first: range.first + blocks, offset: end, floor: Some(bound.clone()), is_last: false };
            let here = IndexRange { is_last, ..std::mem::replace(&mut range, next) };
            spans.push(PartitionEntry { range: here, blocks, end, bound: bound.clone(), index, filter, sum });
        }
        if !reader.is_empty() {
            return Err(Error::structural("bytes behind the last entry of the top of an index"));
        }
        lengths.finish()?;
        let mut at = behind.unwrap_or(range.offset);
        for part in spans.iter_mut().flat_map(|span| [&mut span.index, &mut span.filter]) {
            if part.stored_len > 0 {
                part.offset = at;
                part.check_within(limit)?;
                at = part.end();
            }
        }
        let bytes = spans.iter().map(|span| span.bound.len()).sum();
        let mut ranges = IndexAssembler::new(IndexRange::whole(), order, (count, bytes));
        for span in &spans {
            if span.index.stored_len == 0 {
                return Err(Error::structural("a range of an index that has no part"));
            }
            ranges.add(&span.bound, span.index)?;
        }
        Ok(TopIndex { ranges: ranges.finish()?, spans })
    }

    /// Returns the ranges in order.
    pub(in crate::sst) fn spans(&self) -> &[PartitionEntry] {
        &self.spans
    }

    /// Returns the range of a key; the last range for a key past all of them.
    #[inline]
    pub(in crate::sst) fn find(&self, key: &[u8], order: &Order) -> usize {
        self.ranges.find_here(key, order).min(self.spans.len() - 1)
    }

    /// Returns the range of a block, if the block exists.
    pub(in crate::sst) fn range_of(&self, block: usize) -> Option<usize> {
        let behind = self.spans.partition_point(|span| span.range.first <= block);
        behind.checked_sub(1).filter(|_| block < self.blocks())
    }

    /// Number of data blocks of the table.
    pub(in crate::sst) fn blocks(&self) -> usize {
        self.spans.last().map_or(0, |span| span.range.first + span.blocks)
    }

    /// End of the data blocks.
    pub(in crate::sst) fn data_end(&self) -> u64 {
        self.spans.last().map_or(HEADER_BYTES as u64, |span| span.end)
    }

    /// End of the partitions.
    pub(in crate::sst) fn parts_end(&self) -> u64 {
        let last = self.spans.last().map(|span| if span.filter.is_absent() { &span.index } else { &span.filter });
        last.map_or(HEADER_BYTES as u64, BlockHandle::end)
    }

    /// Returns true if the search structure is consistent with itself and with the ranges.
    pub(in crate::sst) fn is_sound(&self, order: &Order) -> bool {
        let same = |(at, span): (usize, &PartitionEntry)| {
            self.ranges.handle(at) == Some(&span.index)
                && self.ranges.separator(at) == span.bound
                && (at == 0 || span.range.floor.as_ref() == Some(&self.spans[at - 1].bound))
        };
        self.ranges.is_sound(order) && self.spans.iter().enumerate().all(same)
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        let bytes = |span: &PartitionEntry| size_of::<PartitionEntry>() + 2 * span.bound.len();
        self.ranges.memory() + self.spans.iter().map(bytes).sum::<usize>()
    }

    /// Flips bits, for tests of corruption detection.
    pub(in crate::sst) fn damage(&mut self, at: usize, mask: u64) {
        self.ranges.damage(at, mask);
    }
}

/// Reads a partition's length and CRC; partitions are never compressed. Its offset follows from the partitions before
/// it.
fn part(reader: &mut Reader<'_>) -> Result<BlockHandle> {
    let length = reader.varint()?;
    let stored_len = u32::try_from(length).map_err(|_| Error::structural("a part of 4 GiB or more"))?;
    let crc = reader.u32()?;
    Ok(match stored_len {
        0 if crc == 0 => BlockHandle::default(),
        0 => return Err(Error::structural("a part without bytes")),
        _ => BlockHandle { offset: 0, stored_len, raw_len: stored_len, crc },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(bounds: &[Vec<u8>], has_filter: bool) -> Vec<PartitionEntry> {
        let mut range = IndexRange { is_last: false, ..IndexRange::whole() };
        let mut spans = Vec::new();
        for (at, bound) in bounds.iter().enumerate() {
            let (blocks, end) = (at + 1, range.offset + 100 * (at as u64 + 1));
            let next =
                IndexRange { first: range.first + blocks, offset: end, floor: Some(bound.clone()), is_last: false };
            let here = IndexRange { is_last: at + 1 == bounds.len(), ..std::mem::replace(&mut range, next) };
            let part = |stored_len| BlockHandle { offset: 0, stored_len, raw_len: stored_len, crc: 7 };
            let filter = if has_filter { part(30) } else { BlockHandle::default() };
            spans.push(PartitionEntry {
                range: here,
                blocks,
                end,
                bound: bound.clone(),
                index: part(20),
                filter,
                sum: at as u64,
            });
        }
        let mut at = range.offset;
        for part in spans.iter_mut().flat_map(|span| [&mut span.index, &mut span.filter]) {
            if part.stored_len > 0 {
                part.offset = at;
                at = part.end();
            }
        }
        spans
    }

    proptest! {
        #[test]
        fn tops_come_back_and_find_what_they_should(
            keys in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 1..6), 1..200),
            probes: Vec<Vec<u8>>,
            has_filter: bool,
        ) {
            let (order, bounds) = (Order::bytewise(), keys.into_iter().collect::<Vec<_>>());
            let wanted = spans(&bounds, has_filter);
            let top = TopIndex::decode(&encode(&wanted), &order, None, 1 << 30).unwrap();
            prop_assert_eq!(top.spans(), &wanted[..]);
            prop_assert!(top.is_sound(&order));
            prop_assert_eq!(top.parts_end(), top.data_end() + wanted.len() as u64 * if has_filter { 60 } else { 25 });
            for probe in probes.iter().chain(&bounds) {
                let at = bounds.partition_point(|bound| bound < probe).min(bounds.len() - 1);
                prop_assert_eq!(top.find(probe, &order), at);
            }
            for block in 0..top.blocks() {
                let span = &top.spans()[top.range_of(block).unwrap()];
                prop_assert!((span.range.first..span.range.first + span.blocks).contains(&block));
            }
            prop_assert_eq!(top.range_of(top.blocks()), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = TopIndex::decode(&bytes, &Order::bytewise(), None, 1 << 20);
        }
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        let order = Order::bytewise();
        let refused =
            |spans: &[PartitionEntry], limit: u64| TopIndex::decode(&encode(spans), &order, None, limit).is_err();
        let two = spans(&[b"a".to_vec(), b"b".to_vec()], true);
        let end = two[1].filter.end();
        assert!(!refused(&two, end) && refused(&two, end - 1), "a part that reaches out");
        assert!(refused(&[], end));
        assert!(refused(&spans(&[b"b".to_vec(), b"b".to_vec()], true), end), "one key in two ranges");
        let many = [PartitionEntry { blocks: 1000, ..two[0].clone() }, two[1].clone()];
        assert!(refused(&many, end), "more blocks than bytes");
    }

    /// A range of a few bytes cannot hold a long key: each such key would take three copies in memory.
    #[test]
    fn bounds_longer_than_the_keys_of_their_ranges_are_refused() {
        let order = Order::bytewise();
        let bounds: Vec<Vec<u8>> =
            (0..500u16).map(|n| [&[b'k'; 65_531][..], &[(n >> 8) as u8, n as u8]].concat()).collect();
        let read = |bytes: u64, count: usize| {
            let mut spans = spans(&bounds[..count], false);
            let mut at = HEADER_BYTES as u64;
            for span in &mut spans {
                (span.blocks, span.range.offset, span.end) = (1, at, at + bytes);
                at += bytes;
            }
            TopIndex::decode(&encode(&spans), &order, None, 1 << 30).is_ok()
        };
        assert!(!read(LEAST_BLOCK_BYTES, 500) && !read(256, 1) && read(257, 500));
    }
}
