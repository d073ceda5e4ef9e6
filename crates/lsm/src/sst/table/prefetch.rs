//! Prefetching: seeks one key in the tables of many levels in parallel steps, and prefetches the next blocks of a walk.
//!
//! In:    a key.
//! Out:   the data that the next seek of that key reads is in the processor's caches, if it is in memory, and is not
//!        searched again.
//! Holds: a prefetch step changes no result: the seek returns and checks the same records without it. No step reads
//!        from the file.
//! Costs: a seek waits for the slot of its block, then the block, then the entry. If each step is made for all tables
//!        before the next, these waits overlap: `aim`, `ask_for_block`, `take_block`, then the seek. A walk has the
//!        same three waits when it enters a block. Within a block, the hardware prefetcher follows it.

use arc_swap::Guard;

use super::cursor::{Aimed, TableCursor};
use crate::prefetch::prefetch_counters;

/// Number of entries before the end of a block at which a walk prefetches the next block.
const SOON: usize = 12;

impl TableCursor {
    /// Looks a key up in the index, and prefetches the slot of its block. The cursor is then not valid.
    pub(crate) fn aim(&mut self, key: &[u8]) {
        self.leave();
        // A key within the block that the cursor holds needs no index.
        if !self.proves() && self.block.as_deref().is_some_and(|block| block.surrounds(key)) {
            return;
        }
        // The index partition may have to be read from the file: leave that to the seek.
        if let Some(part) = self.part_in_memory_for(key) {
            let number = part.index.find(key, &self.table.records.order);
            self.table.slots.prefetch(number);
            self.aimed = Some(Aimed { number, within: None });
        }
    }

    /// Prefetches the block that `aim` found.
    pub(crate) fn ask_for_block(&mut self) {
        let Some(aimed) = &self.aimed else { return };
        if !self.holds(aimed.number) && self.may_take(aimed.number) {
            let slot = self.table.slots.slot(aimed.number).load();
            if let Some(block) = &*slot {
                block.prefetch();
                prefetch_counters(block);
                self.asked_for = Some(slot);
            }
        }
    }

    /// Takes that block, if it is in memory, and prefetches the entry where the key belongs.
    pub(crate) fn take_block(&mut self, key: &[u8]) {
        let asked_for = self.asked_for.take().and_then(Guard::into_inner);
        let Some(mut aimed) = self.aimed else { return };
        match asked_for {
            Some(block) => self.takes(aimed.number, block),
            None if self.holds(aimed.number) => {}
            None => return,
        }
        if let Some(block) = &self.block {
            aimed.within = block.aim(key);
            aimed.within.iter().for_each(|aim| block.prefetch_entry(aim.at));
            self.aimed = Some(aimed);
        }
    }

    /// Prefetches the first lines of a walk from the cursor to the position `reach` in its block. Near the end of the
    /// block, also prefetches the next block's header.
    #[inline]
    pub(crate) fn ask_ahead(&self, forward: bool, reach: usize) {
        let Some(block) = self.block.as_deref() else { return };
        let is_near_end = match forward {
            true => {
                block.prefetch_up(self.at + 1, reach);
                reach + 1 == block.len() && self.at + SOON >= block.len()
            }
            false => {
                block.prefetch_down(self.at, reach);
                reach <= 1 && self.at <= SOON
            }
        };
        let (next, behind) = self.beyond(forward);
        if is_near_end && self.fill_cache && self.asked_beyond != behind {
            self.table.prefetch_block(next);
        }
    }

    /// Called when a walk has entered a block: prefetches the first entries of the next block, and the header of the
    /// one after it.
    pub(in crate::sst) fn ask_beyond(&mut self, forward: bool) {
        if !self.fill_cache {
            return;
        }
        let (next, behind) = self.beyond(forward);
        match std::mem::replace(&mut self.asked_beyond, behind) == next {
            true => self.table.prefetch_entries(next, forward),
            false => self.table.prefetch_block(next),
        }
        self.table.prefetch_block(behind);
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
