//! The index and filter of a table in memory, whole or in partitions, and reads of a partition from its file.

use std::sync::{Arc, OnceLock};

use super::filter::BloomFilter;
use super::index::Index;
use super::top_index::{PartitionEntry, TopIndex, sum_of};
use crate::checksum::{Role, Uid};
use crate::env::{File, read_exact, try_copy};
use crate::error::{Error, Result};
use crate::order::Order;
use crate::sst::block::frame::{BlockHandle, check_frame, drop_cached_pages, read_error};

/// Index and filter of one key range (a partition).
#[derive(Debug)]
pub(in crate::sst) struct IndexPartition {
    pub(in crate::sst) index: Index,
    pub(in crate::sst) filter: Option<BloomFilter>,
}

impl IndexPartition {
    /// Returns false if no key of its range has this hash.
    #[inline]
    pub(in crate::sst) fn may_contain(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(key_hash))
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        size_of::<IndexPartition>() + self.index.memory() + self.filter.as_ref().map_or(0, BloomFilter::memory)
    }
}

/// The index and filter of a table.
#[derive(Debug)]
pub(in crate::sst) enum TableIndex {
    /// Not partitioned.
    Whole(IndexPartition),
    /// Partitioned; partitions are loaded on demand.
    Partitioned(PartitionedIndex),
}

/// A partitioned index, with the partitions loaded so far.
#[derive(Debug)]
pub(in crate::sst) struct PartitionedIndex {
    pub(in crate::sst) top: TopIndex,
    pub(in crate::sst) parts: Box<[OnceLock<Arc<IndexPartition>>]>,
}

impl PartitionedIndex {
    pub(in crate::sst) fn new(top: TopIndex) -> PartitionedIndex {
        let parts = top.spans().iter().map(|_| OnceLock::new()).collect();
        PartitionedIndex { top, parts }
    }

    /// Replaces a partition, for tests of memory corruption.
    pub(in crate::sst) fn put(&mut self, at: usize, part: IndexPartition) {
        self.parts[at] = OnceLock::from(Arc::new(part));
    }

    /// Returns a partition, if it is in memory.
    #[inline]
    pub(in crate::sst) fn loaded(&self, at: usize) -> Option<&Arc<IndexPartition>> {
        self.parts.get(at)?.get()
    }
}

impl TableIndex {
    /// Number of data blocks.
    #[inline]
    pub(in crate::sst) fn blocks(&self) -> usize {
        match self {
            TableIndex::Whole(part) => part.index.len(),
            TableIndex::Partitioned(cut) => cut.top.blocks(),
        }
    }

    /// End offset of the data blocks.
    pub(in crate::sst) fn data_end(&self) -> u64 {
        match self {
            TableIndex::Whole(part) => part.index.data_end(),
            TableIndex::Partitioned(cut) => cut.top.data_end(),
        }
    }

    /// Size of the memory held while the table is open.
    pub(in crate::sst) fn memory(&self) -> usize {
        match self {
            TableIndex::Whole(part) => part.memory(),
            TableIndex::Partitioned(cut) => {
                cut.top.memory() + cut.parts.len() * size_of::<OnceLock<Arc<IndexPartition>>>()
            }
        }
    }

    /// Returns the partitions in memory.
    pub(in crate::sst) fn loaded(&self) -> impl Iterator<Item = &IndexPartition> {
        let (whole, parts) = match self {
            TableIndex::Whole(part) => (Some(part), &[][..]),
            TableIndex::Partitioned(cut) => (None, &cut.parts[..]),
        };
        whole.into_iter().chain(parts.iter().filter_map(|part| part.get().map(|part| &**part)))
    }

    /// Returns the key ranges of a partitioned index; empty otherwise.
    pub(in crate::sst) fn spans(&self) -> &[PartitionEntry] {
        match self {
            TableIndex::Whole(_) => &[],
            TableIndex::Partitioned(cut) => cut.top.spans(),
        }
    }

    /// Returns the partition that names a block, if it is in memory.
    pub(in crate::sst) fn partition_in_memory(&self, block: usize) -> Option<&IndexPartition> {
        match self {
            TableIndex::Whole(part) => Some(part),
            TableIndex::Partitioned(cut) => cut.loaded(cut.top.range_of(block)?).map(|part| &**part),
        }
    }

    /// Returns the partition for a key, if it is in memory.
    #[inline]
    pub(in crate::sst) fn partition_in_memory_for(&self, key: &[u8], order: &Order) -> Option<&IndexPartition> {
        match self {
            TableIndex::Whole(part) => Some(part),
            TableIndex::Partitioned(cut) => cut.loaded(cut.top.find(key, order)).map(|part| &**part),
        }
    }

    /// Returns false if memory corruption is detected in the top level or the partition.
    pub(in crate::sst) fn is_sound(&self, index: &Index, order: &Order) -> bool {
        let leads = match self {
            TableIndex::Whole(_) => true,
            TableIndex::Partitioned(cut) => cut.top.is_sound(order),
        };
        leads && index.is_sound(order)
    }
}

/// Reads partitions from a file.
pub(in crate::sst) struct PartitionReader<'a> {
    pub(in crate::sst) name: &'a str,
    pub(in crate::sst) file: &'a dyn File,
    pub(in crate::sst) uid: Uid,
    pub(in crate::sst) order: &'a Order,
    /// Filters are used: their hashes match the table's order.
    pub(in crate::sst) filtered: bool,
}

impl PartitionReader<'_> {
    /// Reads both blocks of a partition, which are adjacent, in one read; or one by one if that fails.
    pub(in crate::sst) fn read(&self, span: &PartitionEntry) -> (Result<Index>, Result<Option<BloomFilter>>) {
        let wants_filter = self.filtered && !span.filter.is_absent();
        let together = match wants_filter {
            true => read_exact(self.file, span.index.offset, span.index.bytes() + span.filter.bytes()).ok(),
            false => None,
        };
        let framed = |handle: &BlockHandle, from: usize| match &together {
            Some(bytes) => try_copy(&bytes[from..from + handle.bytes()])
                .map_err(|error| read_error(self.name, handle.offset, error)),
            None => read_exact(self.file, handle.offset, handle.bytes())
                .map_err(|error| read_error(self.name, handle.offset, error)),
        };
        let index = framed(&span.index, 0).and_then(|block| self.index_of(&block, span));
        let filter = match wants_filter {
            true => framed(&span.filter, span.index.bytes()).and_then(|block| self.filter_of(&block, span)).map(Some),
            false => Ok(None),
        };
        let named = |error: Error, handle: &BlockHandle| error.in_file(self.name, handle.offset);
        (index.map_err(|error| named(error, &span.index)), filter.map_err(|error| named(error, &span.filter)))
    }

    fn index_of(&self, block: &[u8], span: &PartitionEntry) -> Result<Index> {
        let (body, _) = check_frame(block, &self.uid, Role::Index, &span.index)?;
        let index = Index::decode_part(body, self.order, span.end, span.range.clone())?;
        let is_it = index.len() == span.blocks
            && index.data_end() == span.end
            && index.separator(index.end() - 1) == span.bound
            && sum_of(index.handles().iter().map(|handle| handle.crc)) == span.sum;
        if is_it {
            Ok(index)
        } else {
            Err(Error::structural("a part of an index does not name the blocks of its range"))
        }
    }

    fn filter_of(&self, block: &[u8], span: &PartitionEntry) -> Result<BloomFilter> {
        let (body, _) = check_frame(block, &self.uid, Role::Filter, &span.filter)?;
        BloomFilter::decode(body)
    }

    /// Drops the operating system's cached pages of a partition.
    pub(in crate::sst) fn forget(&self, span: &PartitionEntry) {
        let end = if span.filter.is_absent() { span.index.end() } else { span.filter.end() };
        drop_cached_pages(self.file, span.index.offset, end);
    }
}
