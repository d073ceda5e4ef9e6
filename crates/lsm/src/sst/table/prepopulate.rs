//! Cache prepopulation: loads blocks of a merge's output tables into the cache where blocks of its input tables were
//! cached. Without it, every merge would evict its key range from the cache, and each of those blocks would cost a
//! reader a file read.
//!
//! In:    the ranges in which blocks of the input tables are cached.
//! Out:   the numbers of the corresponding output blocks; these blocks, cached.
//! Holds: a block is cached only after the checks that a reader's load makes: its CRC, and each record's companion. A
//!        block that fails is left to the first reader that requests it. No cached block is evicted for it.
//! Costs: one read of each block, by a job. Nothing if no block of the input tables is cached.

use super::partitions::PassingPartition;
use super::table::Table;
use crate::error::Result;
use crate::planted;
use crate::sst::block::block::Block;

impl Table {
    /// Returns true if any of its blocks is in the cache.
    pub fn has_cached_blocks(&self) -> bool {
        (0..self.slots.count()).any(|number| self.slots.slot(number).load().is_some())
    }

    /// Returns true if the block of a key is in the cache. Reads nothing from the file.
    pub fn is_cached_at(&self, key: &[u8]) -> bool {
        self.table_index.partition_in_memory_for(key, &self.records.order).is_some_and(|part| {
            let number = part.index.find(key, &self.records.order);
            number < part.index.end() && self.slots.slot(number).load().is_some()
        })
    }

    /// Returns the blocks whose separators `is_wanted` accepts. Reads the index partitions that are not in memory.
    pub fn blocks_where(&self, is_wanted: &mut dyn FnMut(&[u8]) -> bool) -> Result<Vec<usize>> {
        let (mut blocks, mut number) = (Vec::new(), 0);
        while number < self.blocks() {
            let passing = self.partition_passing(number)?;
            let index = match &passing {
                PassingPartition::Kept(part) => &part.index,
                PassingPartition::Own(part) => &part.index,
            };
            blocks.extend((number..index.end()).filter(|number| is_wanted(&index.separator(*number))));
            number = index.end().max(number + 1);
        }
        Ok(blocks)
    }

    /// Loads blocks, as returned by `blocks_where`, into the cache, as long as it has free room and `goes_on` returns
    /// true.
    pub fn prepopulate(&self, blocks: &[usize], goes_on: &dyn Fn() -> bool) {
        for number in blocks.iter().copied().filter(|number| *number < self.blocks()) {
            if self.slots.slot(number).load().is_some() {
                continue; // a reader was first
            }
            let bytes = self.handle(number).map_or(0, |handle| handle.raw_len as usize) + size_of::<Block>();
            if !goes_on() || !self.slots.has_room(bytes) {
                return;
            }
            if let Ok(block) = self.read_block(number, true)
                && (!self.is_checkable || self.serves_all(&block))
                && !self.slots.keep_unasked(slot_of(number), block)
            {
                return;
            }
        }
    }
}

fn slot_of(number: usize) -> usize {
    planted!(WarmedIntoNextSlot, number + 1, number)
}
