//! Warmth: the blocks of a table that a merge wrote come into the cache before anybody asks for them, where blocks of what it was
//! made of are there. Without it every merge empties the cache of what it went over, and each of those blocks costs a reader a file's read.
//!
//! In:     where the blocks of the tables before are in memory. Out: the numbers of the blocks in their place; these blocks, kept.
//! Holds:  a block comes in by the checks of one that is read for a reader: its sum, and each record's companion. One that does not pass
//!         is left to the reader who asks for it. None takes the place of another.
//! Costs:  one read of each block, by a job. Where nothing of the tables before is in memory, nothing.

use super::block::Block;
use super::guide::Passing;
use super::table::Table;
use crate::error::Result;
use crate::planted::{self, Bug};

impl Table {
    /// True if any of its blocks is in the cache.
    pub fn is_warm(&self) -> bool {
        (0..self.slots.count()).any(|number| self.slots.slot(number).load().is_some())
    }

    /// True if the block where a key is looked for is in the cache. Reads nothing.
    pub fn is_warm_at(&self, key: &[u8]) -> bool {
        self.guide.part_in_memory_for(key, &self.order).is_some_and(|part| {
            let number = part.index.find(key, &self.order);
            number < part.index.end() && self.slots.slot(number).load().is_some()
        })
    }

    /// The blocks for whose last keys, or what stands for them, `is_wanted` answers true. Reads what of the index is not in memory.
    pub fn blocks_where(&self, is_wanted: &mut dyn FnMut(&[u8]) -> bool) -> Result<Vec<usize>> {
        let (mut blocks, mut number) = (Vec::new(), 0);
        while number < self.blocks() {
            let passing = self.part_passing(number)?;
            let index = match &passing {
                Passing::Kept(part) => &part.index,
                Passing::Own(part) => &part.index,
            };
            blocks.extend((number..index.end()).filter(|number| is_wanted(&index.separator(*number))));
            number = index.end().max(number + 1);
        }
        Ok(blocks)
    }

    /// Reads blocks, which `blocks_where` named, into the cache as long as there is room that no block takes, and `goes_on` says so.
    pub fn warm(&self, blocks: &[usize], goes_on: &dyn Fn() -> bool) {
        for number in blocks.iter().copied().filter(|number| *number < self.blocks()) {
            if self.slots.slot(number).load().is_some() {
                continue; // a reader was first
            }
            let bytes = self.handle(number).map_or(0, |handle| handle.raw_len as usize) + size_of::<Block>();
            if !goes_on() || !self.slots.has_room(bytes) {
                return;
            }
            if let Ok(block) = self.read_block(number, true)
                && (!self.is_judged || self.serves_all(&block))
                && !self.slots.keep_unasked(slot_of(number), block)
            {
                return;
            }
        }
    }
}

fn slot_of(number: usize) -> usize {
    number + usize::from(planted::active(Bug::WarmedIntoNextSlot))
}
