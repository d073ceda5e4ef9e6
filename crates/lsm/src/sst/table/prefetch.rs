//! Prefetching: seeks one key in the tables of many levels in parallel steps, and prefetches the next blocks of a walk.
//!
//! In:    a key.
//! Out:   the data that the next seek of that key reads is in the processor's caches, if it is in memory, and is not
//!        searched again.
//! Holds: a prefetch step changes no result: the seek returns and checks the same records without it. No step reads
//!        from the file.
//! Costs: a seek waits for the slot of its block, then the block, then the entry. If each step is made for all tables
//!        before the next, these waits overlap: `prefetch_slot_for`, `prefetch_found_block`, `take_prefetched_block`,
//!        then the seek. A walk has the same three waits when it enters a block. Within a block, the hardware
//!        prefetcher follows it.

use arc_swap::Guard;

use super::cursor::{PrefetchedSeek, TableCursor};
use crate::prefetch::prefetch_counters;

/// Number of entries before the end of a block at which a walk prefetches the next block.
const SOON: usize = 12;

impl TableCursor {
    /// Looks a key up in the index, and prefetches the slot of its block. The cursor is then not valid.
    pub(crate) fn prefetch_slot_for(&mut self, key: &[u8]) {
        self.leave();
        // A key within the block that the cursor holds needs no index.
        if !self.proves() && self.block.as_deref().is_some_and(|block| block.surrounds(key)) {
            return;
        }
        // The index partition may have to be read from the file: leave that to the seek.
        if let Some(part) = self.partition_in_memory_for(key) {
            let number = part.index.find(key, &self.table.records.order);
            self.table.slots.prefetch(number);
            self.prefetched = Some(PrefetchedSeek { number, within: None });
        }
    }

    /// Prefetches the block that `prefetch_slot_for` found.
    pub(crate) fn prefetch_found_block(&mut self) {
        let Some(prefetched) = &self.prefetched else { return };
        if !self.is_current_block(prefetched.number) && self.may_use_cached(prefetched.number) {
            let slot = self.table.slots.slot(prefetched.number).load();
            if let Some(block) = &*slot {
                block.prefetch();
                prefetch_counters(block);
                self.prefetched_block = Some(slot);
            }
        }
    }

    /// Takes that block, if it is in memory, and prefetches the entry where the key belongs.
    pub(crate) fn take_prefetched_block(&mut self, key: &[u8]) {
        let prefetched_block = self.prefetched_block.take().and_then(Guard::into_inner);
        let Some(mut prefetched) = self.prefetched else { return };
        match prefetched_block {
            Some(block) => self.use_block(prefetched.number, block),
            None if self.is_current_block(prefetched.number) => {}
            None => return,
        }
        if let Some(block) = &self.block {
            prefetched.within = block.find_head(key);
            prefetched.within.iter().for_each(|aim| block.prefetch_entry(aim.at));
            self.prefetched = Some(prefetched);
        }
    }

    /// Prefetches the first lines of a walk from the cursor to the position `end` in its block. Near the end of the
    /// block, also prefetches the next block's header.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, forward: bool, end: usize) {
        let Some(block) = self.block.as_deref() else { return };
        let is_near_end = match forward {
            true => {
                block.prefetch_up(self.at + 1, end);
                end + 1 == block.len() && self.at + SOON >= block.len()
            }
            false => {
                block.prefetch_down(self.at, end);
                end <= 1 && self.at <= SOON
            }
        };
        let (next, behind) = self.beyond(forward);
        if is_near_end && self.fill_cache && self.prefetched_to != behind {
            self.table.prefetch_cached(next);
        }
    }

    /// Called when a walk has entered a block: prefetches the first entries of the next block, and the header of the
    /// one after it.
    pub(in crate::sst) fn prefetch_beyond(&mut self, forward: bool) {
        if !self.fill_cache {
            return;
        }
        let (next, behind) = self.beyond(forward);
        match std::mem::replace(&mut self.prefetched_to, behind) == next {
            true => self.table.prefetch_entries(next, forward),
            false => {
                self.table.prefetch_cached(next);
            }
        }
        self.table.prefetch_cached(behind);
    }

    /// Returns the next two block numbers in a direction. Past the first or last block, the numbers are out of range.
    #[inline]
    fn beyond(&self, forward: bool) -> (usize, usize) {
        let step = if forward { 1 } else { usize::MAX };
        (self.number.wrapping_add(step), self.number.wrapping_add(step.wrapping_mul(2)))
    }

    /// Returns true if every record is checked: a seek then also verifies that it skipped no record.
    #[inline]
    pub(crate) fn proves(&self) -> bool {
        self.every == 1
    }
}
