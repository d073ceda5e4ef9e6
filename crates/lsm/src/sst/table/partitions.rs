//! Loads index and filter. Those of a small table are in memory while the table is open. Those of a large one are
//! partitioned (`top_index`): a partition is loaded at the first access to a key or block of its range, and stays until
//! the table is closed.
//!
//! In:    a key, or the number of a block.
//! Out:   the partition that names the block, with the filter of its range.
//! Holds: a partition is used only if it matches the top level: its CRC, position, bounds, and the checksum over its
//!        blocks' CRCs. If it does not, it is read again. If that fails, a damaged index is rebuilt from the blocks of
//!        its range (`damage`), and a damaged filter is not used: it excludes no key. A block that is not found by the
//!        rebuild is listed with a CRC that never matches. Readers then treat it as any damaged block: the loss is
//!        limited to that range, every read of it reports it (law 9), and absence is verified as in any block (law 12).
//!        Memory may be corrupted after a search of the top level. A negative filter answer from a partition therefore
//!        counts, where verification is on, only if the partition itself confirms that the key is in its range. A
//!        "maybe" leads to a block, whose neighbors are verified.
//! Costs: for a partition in memory, one search among the ranges and one load. Otherwise one read of some tens of KB,
//!        charged to the cache and to the limit on open tables' memory. No lock: if two threads load a partition at
//!        once, both read it, and one copy is kept.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::table::Table;
use crate::error::{Error, Remedy, Result};
use crate::planted;
use crate::sst::block::frame::{BlockHandle, TRIES};
use crate::sst::index::filter::BloomFilter;
use crate::sst::index::index::Index;
use crate::sst::index::partitions::{IndexPartition, PartitionReader, PartitionedIndex, TableIndex};
use crate::sst::index::top_index::PartitionEntry;

impl Table {
    /// Returns the partition for a key. For a key past the end of the table, this is the last one.
    #[inline]
    pub(in crate::sst) fn partition_for(&self, key: &[u8]) -> Result<&IndexPartition> {
        self.partition_for_in(&self.table_index, key)
    }

    #[inline]
    fn partition_for_in<'a>(&self, table_index: &'a TableIndex, key: &[u8]) -> Result<&'a IndexPartition> {
        match table_index {
            TableIndex::Whole(part) => Ok(part),
            TableIndex::Partitioned(cut) => self.partition_of_index_for(cut, key),
        }
    }

    #[inline(never)]
    fn partition_of_index_for<'a>(&self, cut: &'a PartitionedIndex, key: &[u8]) -> Result<&'a IndexPartition> {
        let at = cut.top.find(key, &self.records.order);
        planted!(PartOfItsNeighbour => let at = (at + usize::from(cut.top.spans()[at].bound == key)).min(cut.top.spans().len() - 1));
        self.loaded_or_read(cut, at)
    }

    #[inline]
    pub(in crate::sst) fn loaded_or_read<'a>(
        &self,
        cut: &'a PartitionedIndex,
        at: usize,
    ) -> Result<&'a IndexPartition> {
        match cut.loaded(at) {
            Some(part) => Ok(part),
            None => self.load_partition(cut, at),
        }
    }

    /// Returns the partition that names a block.
    #[inline]
    pub(in crate::sst) fn partition_of(&self, block: usize) -> Result<&IndexPartition> {
        self.partition_of_in(&self.table_index, block)
    }

    #[inline]
    fn partition_of_in<'a>(&self, table_index: &'a TableIndex, block: usize) -> Result<&'a IndexPartition> {
        match table_index {
            TableIndex::Whole(part) => Ok(part),
            TableIndex::Partitioned(cut) => self.partition_of_index(cut, block),
        }
    }

    #[inline(never)]
    fn partition_of_index<'a>(&self, cut: &'a PartitionedIndex, block: usize) -> Result<&'a IndexPartition> {
        self.loaded_or_read(cut, cut.top.range_of(block).ok_or_else(unnamed)?)
    }

    /// Returns the partition that names a block, for a job that scans the table once. A partition loaded here is not
    /// kept in memory.
    pub(in crate::sst) fn partition_passing(&self, block: usize) -> Result<PassingPartition<'_>> {
        if let Some(part) = self.table_index.partition_in_memory(block) {
            return Ok(PassingPartition::Kept(part));
        }
        let TableIndex::Partitioned(cut) = &self.table_index else { return Err(unnamed()) };
        let at = cut.top.range_of(block).ok_or_else(unnamed)?;
        self.read_partition(&cut.top.spans()[at], false).map(|part| PassingPartition::Own(Box::new(part)))
    }

    /// Loads all partitions of the index, so that later reads access only data blocks. `by_data`: partitions that the
    /// device cannot read are rebuilt from the data, as damaged ones are. Errors: otherwise `Io`.
    pub fn read_guide(&self, by_data: bool) -> Result<()> {
        let TableIndex::Partitioned(cut) = &self.table_index else { return Ok(()) };
        for (slot, span) in cut.parts.iter().zip(cut.top.spans()) {
            if slot.get().is_none() {
                self.keep(slot, self.read_partition(span, by_data)?);
            }
        }
        Ok(())
    }

    /// Returns the handle of a data block.
    pub(in crate::sst) fn handle(&self, block: usize) -> Result<BlockHandle> {
        self.partition_of(block)?.index.handle(block).copied().ok_or_else(unnamed)
    }

    /// Returns the offset of a block, as precisely as is known without a read.
    pub(in crate::sst) fn offset_of(&self, block: usize) -> u64 {
        let named = self.table_index.partition_in_memory(block).and_then(|part| part.index.handle(block));
        named.map_or_else(|| self.spans_offset(block), |handle| handle.offset)
    }

    fn spans_offset(&self, block: usize) -> u64 {
        match &self.table_index {
            TableIndex::Partitioned(cut) => cut.top.range_of(block).map_or(0, |at| cut.top.spans()[at].range.offset),
            TableIndex::Whole(_) => 0,
        }
    }

    /// Returns the partition that names a block, checked for memory corruption. If it is corrupted, returns the spare,
    /// read again.
    pub(in crate::sst) fn trusted_partition_of(&self, block: usize) -> Result<&IndexPartition> {
        let part = self.partition_of(block)?;
        if self.table_index.is_sound(&part.index, &self.records.order) {
            Ok(part)
        } else {
            self.partition_of_in(self.reread_index()?, block)
        }
    }

    /// As `trusted_partition_of`, for the partition of a key.
    pub(in crate::sst) fn trusted_partition_for(&self, key: &[u8]) -> Result<&IndexPartition> {
        let part = self.partition_for(key)?;
        if self.table_index.is_sound(&part.index, &self.records.order) {
            Ok(part)
        } else {
            self.partition_for_in(self.reread_index()?, key)
        }
    }

    /// Reads index and filter from the file again.
    fn reread_index(&self) -> Result<&TableIndex> {
        if self.reread.get().is_none() {
            let parts = self.read_parts().map_err(|error| error.in_family(self.watch.family(), None))?;
            if self.reread.set(parts.table_index).is_ok() {
                self.watch.healed(&self.name, 0, Remedy::ReadAgain);
            }
        }
        self.reread.get().ok_or_else(|| self.disagree(0))
    }

    /// Reads a partition and keeps it.
    #[cold]
    #[inline(never)]
    fn load_partition<'a>(&self, cut: &'a PartitionedIndex, at: usize) -> Result<&'a IndexPartition> {
        let (Some(slot), Some(span)) = (cut.parts.get(at), cut.top.spans().get(at)) else { return Err(unnamed()) };
        let part = self.read_partition(span, false)?;
        planted!(FilterOfAnotherRange => let part = IndexPartition { filter: self.read_partition(&cut.top.spans()[(at + 1) % cut.parts.len()], false)?.filter, ..part });
        Ok(self.keep(slot, part))
    }

    /// Keeps a partition, unless another thread has stored it meanwhile.
    fn keep<'a>(&self, slot: &'a OnceLock<Arc<IndexPartition>>, part: IndexPartition) -> &'a IndexPartition {
        let part = Arc::new(part);
        let kept = slot.get_or_init(|| part.clone());
        if Arc::ptr_eq(kept, &part) {
            self.keeps(part.memory());
        }
        kept
    }

    /// Accounts for index and filter bytes added to memory.
    fn keeps(&self, bytes: usize) {
        self.slots.pin_more(bytes);
        self.loaded_bytes.fetch_add(bytes, Relaxed);
        self.watch.grew(bytes);
    }

    /// Reads a partition, retries if its check fails, and rebuilds it from the blocks of its range as a last resort.
    /// With `by_data`, also rebuilds it if the device cannot read it.
    fn read_partition(&self, span: &PartitionEntry, by_data: bool) -> Result<IndexPartition> {
        let is_lost = |error: &Error| by_data || error.is_corruption();
        let from = self.partition_reader();
        let (mut index, mut filter) = from.read(span);
        for _ in 0..TRIES {
            let hit = |error: Option<&Error>| error.is_some_and(is_lost);
            if !hit(index.as_ref().err()) && !hit(filter.as_ref().err()) {
                break;
            }
            self.watch.doubted();
            from.forget(span);
            (index, filter) = from.read(span);
            if index.is_ok() && filter.is_ok() {
                self.watch.healed(&self.name, span.index.offset, Remedy::ReadAgain);
            }
        }
        for error in [index.as_ref().err(), filter.as_ref().err()].into_iter().flatten() {
            if by_data && !error.is_corruption() {
                drop(self.refused.set(error.clone()));
            }
        }
        let filter = match filter {
            Err(error) if is_lost(&error) => {
                self.lacks_part.store(true, Relaxed);
                self.watch.damaged(&self.in_range(error, span));
                None // without a filter, every key may be present
            }
            filter => filter?,
        };
        match index {
            Err(error) if is_lost(&error) => {
                let index = self.rebuild_index(&from, span, error)?;
                let denies = planted!(DamagedPartDenies, true, false);
                Ok(IndexPartition { index, filter: if denies { Some(BloomFilter::of_nothing()) } else { filter } })
            }
            index => Ok(IndexPartition { index: index?, filter }),
        }
    }

    /// Rebuilds a partition's index from the blocks of its range.
    fn rebuild_index(&self, from: &PartitionReader<'_>, span: &PartitionEntry, error: Error) -> Result<Index> {
        let (index, is_it, refused) = self.damage.rebuild_index(from, span, self.dictionary.as_deref())?;
        refused.into_iter().for_each(|refused| drop(self.refused.set(refused)));
        match is_it {
            true => self.watch.healed(&self.name, span.index.offset, Remedy::Rebuilt),
            false => {
                self.lacks_part.store(true, Relaxed);
                self.watch.damaged(&self.in_range(error, span));
            }
        }
        Ok(index)
    }

    /// Adds family and key range to an error of a partition.
    fn in_range(&self, error: Error, span: &PartitionEntry) -> Error {
        let floor = span.range.floor.as_ref().unwrap_or(&self.properties.smallest);
        error.in_family(self.watch.family(), Some((&floor[..], &span.bound[..])))
    }

    /// Reads a partition without any repair, for verification.
    pub(in crate::sst) fn check_partition(&self, span: &PartitionEntry) -> Result<IndexPartition> {
        let (index, filter) = self.partition_reader().read(span);
        Ok(IndexPartition { index: index?, filter: filter? })
    }

    fn partition_reader(&self) -> PartitionReader<'_> {
        let filtered = self.has_own_filter;
        PartitionReader {
            name: &self.name,
            file: &*self.file,
            uid: self.expected.uid,
            order: &self.records.order,
            filtered,
        }
    }
}

/// A partition for a one-time scan.
pub(in crate::sst) enum PassingPartition<'a> {
    /// It is in memory anyway.
    Kept(&'a IndexPartition),
    /// It is owned by the caller.
    Own(Box<IndexPartition>),
}

fn unnamed() -> Error {
    Error::structural("a block that the index does not name")
}
